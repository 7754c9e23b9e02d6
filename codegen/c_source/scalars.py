"""Expressions of one element as C.

An expression is a graph: what it uses more than once, or what would get long, becomes a variable
before the statement. Branches of ``where`` may read what is not there unless they are taken, so
they are the branches of C's conditional expression, or of an ``if`` with variables of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...ir.dims import Dim, FloorDiv, IntExpr, Max, Min, Mod, Symbol, bounds
from ...ir.dtype import FLOAT32, DType
from ...ir.errors import UnsupportedError
from ...ir.loop.expr import Const, Expr, Index, Op, Read, children, walk
from ...ir.loop.scalar import SCALAR_OPS
from ..bundle.interface import RESERVED, c_type

LONG_TEXT = 90
"""Characters from which on a part of an expression becomes a variable."""
LARGEST_INDEX = 1 << 40
"""The largest value of a loop's variable whose extent is not a constant."""


def _named(form: str, *names: str) -> dict[str, str]:
    """The form of operators that differ in their name only, which stands for ``@``."""
    return {name: form.replace("@", name) for name in names}


def _infix(form: str, *names: str) -> dict[str, str]:
    """The form of operators that differ in their sign only, which stands for ``@``."""
    return {name: form.replace("@", SCALAR_OPS[name].symbol) for name in names}


_COMPARISONS = tuple(row.name for row in SCALAR_OPS.values() if row.compares)

# The operators by their operands: {0} and {1}, or {a} and {b} where they need no parentheses. {T}
# is the type of the result, {U} an unsigned one, {n} the name of the operands' dtype, {R} that of
# the result's, {f} the suffix of the C library's functions.
# fmt: off
_FLOATS = {
    **_infix("{0} @ {1}", "add", "subtract", "multiply", "divide", *_COMPARISONS),
    **_named(
        "@{f}({a})", "sqrt", "cbrt", "ceil", "floor", "trunc", "exp", "exp2", "expm1", "log",
        "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
        "tanh", "asinh", "acosh", "atanh", "erf",
    ),
    **_named("@{f}({a}, {b})", "atan2", "copysign", "fmax", "fmin"),
    **_named("lw_@_{n}({a})", "sign", "sigmoid", "flush", "bits"),
    **_named("lw_@_{n}({a}, {b})", "maximum", "minimum", "floor_divide", "floor_mod"),
    "negative": "-{0}",
    "abs": "fabs{f}({a})",
    "round": "rint{f}({a})",
    "rsqrt": "1 / sqrt{f}({a})",
    "power": "pow{f}({a}, {b})",
    "max_number": "fmax{f}({a}, {b})",
    "truncate_mod": "fmod{f}({a}, {b})",
    "exp_weight": "exp{f}({a})",
    "divide_weight": "{0} / {1}",
    "isnan": "{0} != {0}",
    "isinf": "fabs{f}({a}) == INFINITY",
    "isfinite": "fabs{f}({a}) < INFINITY",
}
_INTEGERS = {
    **_infix("({T})(({U}){0} @ ({U}){1})", "add", "subtract", "multiply"),
    **_infix("{0} @ {1}", *_COMPARISONS),
    **_infix("({T})({0} @ {1})", "bitwise_and", "bitwise_or", "bitwise_xor"),
    **_named(
        "lw_@_{n}({a}, {b})", "floor_divide", "floor_mod", "truncate_mod", "power", "left_shift",
        "right_shift",
    ),
    **_named("{0} > {1} ? {0} : {1}", "maximum", "fmax"),
    **_named("{0} < {1} ? {0} : {1}", "minimum", "fmin"),
    "negative": "({T})(0 - ({U}){0})",
    "abs": "{0} < 0 ? ({T})(0 - ({U}){0}) : {0}",
    "sign": "({T})(({0} > 0) - ({0} < 0))",
    "bitwise_not": "({T})~{0}",
    "from_bits": "lw_from_bits_{R}({a})",
}
# fmt: on
_BOOLS = {
    **_named("{0} | {1}", "add", "maximum", "fmax", "logical_or", "bitwise_or"),
    **_named("{0} & {1}", "multiply", "minimum", "fmin", "logical_and", "bitwise_and"),
    **_named("{0} != {1}", "logical_xor", "bitwise_xor"),
    **_named("!{0}", "logical_not", "bitwise_not"),
    **_infix("{0} @ {1}", *_COMPARISONS),
}


class Names:
    """Identifiers of C for the names of one function: each name has its own. Some are ``taken``,
    others given ``by_name``."""

    def __init__(self, taken: Sequence[str] = (), by_name: Mapping[str, str] | None = None) -> None:
        self._by_name = dict(by_name or {})
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def of(self, name: str) -> str:
        """Returns the identifier of a name."""
        if name not in self._by_name:
            base = re.sub(r"\W", "_", name, flags=re.ASCII)
            base = f"n{base}" if base[:1].isdigit() else base
            if base in RESERVED or base[:3] in ("lw_", "LW_"):
                base += "_"
            self._by_name[name] = self._free(base, "_")
        return self._by_name[name]

    def temporary(self) -> str:
        """Returns an identifier that nothing has; it is its own name."""
        name = self._free("v", "")
        self._by_name[name] = name
        return name

    def _free(self, base: str, joint: str) -> str:
        wanted, number = base, self._counts.get(base, 1)
        while wanted in self._taken or wanted in self._by_name:
            number += 1
            wanted = f"{base}{joint}{number}"
        self._counts[base] = number
        self._taken.add(wanted)
        return wanted


class IndexText:
    """Integer expressions as C. ``ranges`` are the values that variables may have: where a dividend
    is not negative, C's own division is meant."""

    def __init__(self, names: Names, ranges: Mapping[str, tuple[int, int]]) -> None:
        self.names = names
        self.ranges = dict(ranges)

    def text(self, value: IntExpr) -> str:
        """The C expression."""
        if not isinstance(value, Dim):
            return str(value)
        parts: list[str] = []
        for monomial, coefficient in value.terms:
            factors = [self._atom(atom) for atom in monomial]
            size = abs(coefficient)
            if size != 1 or not factors:
                factors.insert(0, str(size))
            parts += ["-" if coefficient < 0 else "+", " * ".join(factors)]
        if parts[0] == "+":
            return " ".join(parts[1:])
        return f"-{' '.join(parts[1:])}"

    def factor(self, value: IntExpr) -> str:
        """The expression, in parentheses if it is more than one term."""
        text = self.text(value)
        return f"({text})" if " " in text or text.startswith("-") else text

    def _atom(self, atom: Symbol | FloorDiv | Mod | Min | Max) -> str:
        if isinstance(atom, Symbol):
            return self.names.of(atom.name)
        if isinstance(atom, Min | Max):
            name = "lw_least" if isinstance(atom, Min) else "lw_greatest"
            return f"{name}({self.text(atom.left)}, {self.text(atom.right)})"
        range = bounds(atom.left, self.ranges)
        sign, name = ("/", "lw_floordiv") if isinstance(atom, FloorDiv) else ("%", "lw_mod")
        if range is not None and range[0] >= 0:
            return f"({self.factor(atom.left)} {sign} {self.factor(atom.right)})"
        return f"{name}({self.text(atom.left)}, {self.text(atom.right)})"


class Scope:
    """The lines of a block, and the values that are known in it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.lines: list[str] = []
        self.outer = outer
        self._texts: dict[int, str] = {}

    def find(self, node: Expr) -> str | None:
        """Returns the text of a node that was written here or around."""
        text = self._texts.get(id(node))
        return text if text is not None or self.outer is None else self.outer.find(node)

    def note(self, node: Expr, text: str) -> None:
        """Remembers the text of a node."""
        self._texts[id(node)] = text


class ScalarText:
    """Writes the expressions of one function. ``registers`` writes elements of buffers that are
    vectors."""

    def __init__(self, index: IndexText) -> None:
        self.index = index
        self.registers: Callable[[str, Sequence[str]], str | None] | None = None
        self._uses: dict[int, int] = {}

    def value(self, root: Expr, scope: Scope) -> str:
        """Returns the C expression of ``root``; its variables are lines of ``scope``."""
        order = walk(root)
        self._uses = {}
        for node in order:
            for child in children(node):
                self._uses[id(child)] = self._uses.get(id(child), 0) + 1
        always = _always(root)
        for node in order:
            if id(node) in always:
                self._node(node, scope)
        return self._node(root, scope)

    def element(self, name: str, indices: Sequence[str]) -> str:
        """The C text of an element of a buffer."""
        if self.registers is not None and (text := self.registers(name, indices)):
            return text
        return self.index.names.of(name) + "".join(f"[{i}]" for i in indices or ["0"])

    def _node(self, node: Expr, scope: Scope) -> str:
        text = scope.find(node)
        if text is None:
            text = self._text(node, scope)
            leaf = isinstance(node, Const | Index)
            if not leaf and (self._uses.get(id(node), 0) > 1 or len(text) > LONG_TEXT):
                name = self.index.names.temporary()
                scope.lines.append(f"const {c_type(node.dtype)} {name} = {text};")
                text = name
            scope.note(node, text)
        return text

    def _text(self, node: Expr, scope: Scope) -> str:
        if isinstance(node, Const):
            return literal(node.value, node.dtype)
        if isinstance(node, Index):
            return self.index.text(node.value)
        if isinstance(node, Read):
            return self.element(node.buffer, [
                self.index.text(i) if isinstance(i, int | Dim) else self._node(i, scope)
                for i in node.indices
            ])  # fmt: skip
        if node.name == "where":
            return self._where(node, scope)
        args = [self._node(arg, scope) for arg in node.args]
        if node.name == "cast":
            return converted(factor(args[0]), node.args[0].dtype, node.dtype)
        return operation(node.name, node.args[0].dtype, node.dtype, args)

    def _where(self, node: Op, scope: Scope) -> str:
        condition = self._node(node.args[0], scope)
        inside = [Scope(scope), Scope(scope)]
        then, orelse = (self._node(a, s) for a, s in zip(node.args[1:], inside, strict=True))
        if not inside[0].lines and not inside[1].lines and len(then + orelse) < LONG_TEXT:
            return f"{factor(condition)} ? {factor(then)} : {factor(orelse)}"
        name = self.index.names.temporary()
        scope.lines += [f"{c_type(node.dtype)} {name};", f"if ({condition}) {{"]
        scope.lines += [f"  {line}" for line in (*inside[0].lines, f"{name} = {then};")]
        scope.lines.append("} else {")
        scope.lines += [f"  {line}" for line in (*inside[1].lines, f"{name} = {orelse};")]
        scope.lines.append("}")
        return name


def _always(root: Expr) -> set[int]:
    """The nodes that are computed whatever the conditions are."""
    always: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in always:
            continue
        always.add(id(node))
        if isinstance(node, Op) and node.name == "where":
            stack.append(node.args[0])
        else:
            stack += children(node)
    return always


_SIMPLE = re.compile(r"[\w.]+(\[[^\[\]]*\])*|\w+\([^()]*\)|\([^()]*\)")


def factor(text: str) -> str:
    """The text of an operand, in parentheses if it is more than a name, a number or a call."""
    return text if _SIMPLE.fullmatch(text) else f"({text})"


def operation(name: str, dtype: DType, result: DType, args: Sequence[str]) -> str:
    """Returns a scalar operator on operands of ``dtype``.

    Raises UnsupportedError for an operator that is not written in C on such operands.
    """
    if dtype.is_half and name == "bits":
        return args[0]
    rows = _FLOATS if dtype.is_float else _BOOLS if dtype.is_bool else _INTEGERS
    form = rows.get(name)
    if form is None or dtype.is_half:
        raise UnsupportedError(f"{name} of {dtype} is not written in C")
    unsigned = f"uint{max(32, dtype.bits)}_t" if dtype.is_integer else ""
    suffix = "f" if dtype.bits == 32 else ""
    names = {"T": c_type(result), "U": unsigned, "n": dtype.name, "R": result.name, "f": suffix}
    raw = dict(zip("ab", args, strict=False))
    return form.format(*map(factor, args), **names, **raw)


def literal(value: bool | int | float, dtype: DType) -> str:
    """Returns a constant of C.

    >>> literal(0.1, FLOAT32)
    '0.1f'
    """
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_half:
        bits = np.asarray(value, dtype.numpy).view(f"u{dtype.bytes}")
        return f"{int(bits):#x}"
    if not dtype.is_float:
        if value == -(1 << 63):
            return "INT64_MIN"
        suffix = "" if dtype.is_signed or value < 1 << 63 else "u"
        return f"{value}{suffix}" if value >= 0 else f"({value})"
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = str(dtype.numpy.type(value))
    text = text if "." in text or "e" in text else f"{text}.0"
    text += "f" if dtype is FLOAT32 else ""
    return f"({text})" if text.startswith("-") else text


def converted(text: str, source: DType, target: DType) -> str:
    """Returns ``text``, an operand of ``source``, converted as ``ndarray.astype`` does.

    Raises UnsupportedError for floats of a byte, and integers of less than one.
    """
    if source == target:
        return text
    for dtype in (source, target):
        small = dtype.bits < 8 and not dtype.is_bool
        if small or (dtype.is_half and dtype.name not in ("float16", "bfloat16")):
            raise UnsupportedError(f"conversions of {dtype} are not written in C")
    if source.is_half:
        return converted(f"lw_from_{source}({text})", FLOAT32, target)
    if target.is_half:
        single = (
            f"lw_to_odd({text})" if source.name == "float64" else converted(text, source, FLOAT32)
        )
        return f"lw_to_{target}({single})"
    if target.is_bool:
        return f"{text} != 0"
    if not source.is_float or target.is_float:
        return f"({c_type(target)}){text}"
    wide = target.bits == 64 or (not target.is_signed and target.bits == 32)
    kind = ("int64" if target.is_signed or target.bits < 64 else "uint64") if wide else "int32"
    inner = f"lw_to_{kind}({text})"
    return inner if kind == target.name else f"({c_type(target)}){factor(inner)}"
