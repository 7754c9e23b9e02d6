"""The text of the graph IR: Relay's syntax, which ``parser.py`` reads back.

::

    module   ::= (data | ("def @" name names "(" params ")" "->" type block) | prim | schedule)*
    data     ::= "type" name ["[" name, ... "]"] "{" (name ["(" type, ... ")"] ",")* "}"
               | "extern type" name ["[" name, ... "]"]
    prim     ::= see ir/loop/prim.py
    schedule ::= "schedule @" name "{" step* "}"                  of the prim of that name before it
    function ::= "fn" names "(" params ")" "->" type block
    params   ::= "%" name ":" type, ..., key "=" value, ...       the pairs are the function's attrs
    names    ::= ["[" (name | size), ... "]"]                     type parameters, then sizes
    size     ::= name "in" INT ".." INT                           of a symbol, if not the default
    block    ::= "{" requires* ("%" name [":" type] "=" expr ";")* expr "}"
    requires ::= "requires" size ("==" | "!=" | "<=" | "<") size ["string"] ";"
    expr     ::= name "(" atom, ..., key "=" value, ... ")"       an operator, @function, %function
               | "(" atom, ... ")" | atom "." index | function
               | "if (" atom ")" block "else" block
               | "while (" carry ")" block "do" block              condition, body
               | "for (" "%" name "<" atom [";" carry] ")" block
               | ("match" | "match?") "(" atom ")" "{" (pattern "=>" block ",")* "}"
               | "ref(" atom ")" | "ref_read(" atom ")" | "ref_write(" atom "," atom ")" | atom
    pattern  ::= "_" | "%" name | name ["(" pattern, ... ")"] | "(" pattern, ... ")"
    carry    ::= ["%" name "=" atom, ...]
    atom     ::= "%" name | "@" name | constructor | scalar | "meta[" name "]"
    scalar   ::= 1 | 1i64 | 1u8 | 0.5f | 0.5f64 | True | False    bare is int32, "f" is float32
    value    ::= int | float | size | "string" | True | False | None | "[" value, ... "]"

A comment behind a binding is the line of the user's program it came from. An attribute that has its
default is left out. Requirements stand in the first block of a function. The type of a binding is
written if its value does not say it. Variables without a name of their own are numbered as they
come. A constructor without fields is written without its brackets. ``match?`` has no case for some
values.
"""

from __future__ import annotations

import json
import linecache
import math
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import numpy as np

from ..dims import LARGEST_SIZE
from ..dtype import dtype_of
from ..span import Span, full_path
from . import nodes
from .operator import Operator
from .types import type_variables

_COMMENT_COLUMN = 48
_WIDTH = 100


def as_text(
    node: nodes.Module | nodes.Function | nodes.Block | nodes.Expr,
    *,
    spans: bool = True,
    marks: Mapping[object, str] | None = None,
) -> str:
    """``node`` as text.

    ``spans`` adds the comments that name the user's lines. ``marks`` gives variables or bindings'
    values a remark, which follows them as a comment with an arrow: errors point with it.

    >>> from loopwright.ir.graph.builder import Builder
    >>> from loopwright.ir.graph.types import TensorType
    >>> from loopwright.ir.dtype import FLOAT32
    >>> b = Builder()
    >>> x = b.param("x", TensorType((4,), FLOAT32))
    >>> print(b.function(x))
    fn (%x: Tensor[(4), float32]) -> Tensor[(4), float32] {
      %x
    }
    """
    return "\n".join(_Printer(spans, marks or {}).lines(node))


def constants_of(
    node: nodes.Module | nodes.Function | nodes.Block,
) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the arrays that print as ``meta[name]`` in ``as_text(node)``, by that name."""
    printer = _Printer(False, {})
    for _ in printer.lines(node):
        pass
    return {name: constant.value for name, constant in printer.constants.items()}


def value_text(value: Any) -> str:
    """Returns an attribute's value as the language writes it."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, str):
        return json.dumps(value)
    return repr(value) if isinstance(value, float) else str(value)


def scalar_text(value: np.ndarray[Any, Any]) -> str:
    """Returns a scalar as the language writes it: ``0.5f``, ``3i64``, ``True``."""
    dtype = dtype_of(value.dtype)
    if dtype.is_bool:
        return str(value.item())
    if dtype.is_complex:
        re, im = _digits(value.real), _digits(value.imag)
        return f"{re}{'' if im[0] == '-' else '+'}{im}j{dtype.suffix}"
    return f"{_digits(value)}{dtype.suffix}"


def _digits(value: np.ndarray[Any, Any]) -> str:
    """A number without the suffix of its dtype."""
    item = value.item()
    if isinstance(item, int):
        return str(item)
    if not math.isfinite(item):
        digits = "nan" if math.isnan(item) else "inf"
        return f"{'-' if np.signbit(item) else ''}{digits}"
    return str(value.dtype.type(item)).removesuffix(".0")


class _Printer:
    """Names and lines of one text."""

    def __init__(self, spans: bool, marks: Mapping[object, str]) -> None:
        self.spans, self.marks = spans, marks
        self.constants: dict[str, nodes.Constant] = {}
        self._constant_names: dict[int, str] = {}
        self._names: dict[nodes.Var, str] = {}
        self._taken: dict[str, int] = {}
        self._numbered = 0

    def lines(
        self, node: nodes.Module | nodes.Function | nodes.Block | nodes.Expr
    ) -> Iterator[str]:
        if isinstance(node, nodes.Module):
            for data in node.types.values():
                yield from _data(data)
                yield ""
            for count, (name, function) in enumerate(node.functions.items()):
                if count:
                    yield ""
                if isinstance(function, nodes.Function):
                    yield from self._fresh().function(function, f"def @{name}")
                else:
                    yield str(function)
                if name in node.schedules:
                    steps = "".join(f"  {step}\n" for step in node.schedules[name].steps)
                    yield f"schedule @{name} {{\n{steps}}}"
        elif isinstance(node, nodes.Block):
            yield "{"
            yield from self.block(node, "  ")
            yield "}"
        else:
            yield from self.expr(node, "")

    def _fresh(self) -> _Printer:
        """A printer for the next function: names of variables start anew, constants do not."""
        other = _Printer(self.spans, self.marks)
        other.constants, other._constant_names = self.constants, self._constant_names
        return other

    def function(self, function: nodes.Function, head: str, indent: str = "") -> Iterator[str]:
        params = [f"{self.define(p)}: {p.type}" for p in function.params]
        result = function.body.result.type
        mark = self.marks.get(function)
        end = f") -> {result} {{" + (f"  /* <-- {mark} */" if mark is not None else "")
        attrs = [f"{key}={value_text(value)}" for key, value in function.attrs.items()]
        names = ", ".join([*function.type_params, *_ranges(function)])
        head = f"{head.rstrip()}[{names}]" if names else head
        line = f"{head}({', '.join([*params, *attrs])}{end}"
        if len(indent) + len(line) <= _WIDTH or not params:
            yield line
        else:
            pieces = [*params, ", ".join(attrs)] if attrs else params
            yield f"{head}("
            yield from (f"{indent}  {p}," for p in pieces[:-1])
            yield f"{indent}  {pieces[-1]}"
            yield indent + end
        for needed in function.requirements:
            message = f" {json.dumps(needed.message)}" if needed.message else ""
            lines = [f"requires {needed}{message}"]
            yield from self._statement(lines, ";", indent + "  ", None, needed)
        yield from self.block(function.body, indent + "  ")
        yield indent + "}"

    def block(self, block: nodes.Block, indent: str) -> Iterator[str]:
        bindings, result = block.bindings, block.result
        last_is_result = bool(bindings) and bindings[-1].var is result
        if last_is_result and isinstance(
            bindings[-1].value, nodes.Var | nodes.Constant | nodes.GlobalVar
        ):
            last_is_result = False  # written without its name it would be no binding
        for binding in bindings[:-1] if last_is_result else bindings:
            var, value = binding.var, binding.value
            name = self.define(var)  # before the names inside, so that numbers go up
            lines = list(self.expr(value, indent))
            kind = f": {var.type}" if _is_open(value) else ""
            lines[0] = f"{name}{kind} = {lines[0]}"
            yield from self._statement(lines, ";", indent, var, value)
        if last_is_result:
            var, value = bindings[-1].var, bindings[-1].value
            yield from self._statement(list(self.expr(value, indent)), "", indent, var, value)
        else:
            yield from self._statement([self.atom(result)], "", indent, result, result)

    def _statement(
        self, lines: list[str], end: str, indent: str, var: object, value: object
    ) -> Iterator[str]:
        """``lines`` with ``end`` and the comment; all but the first are indented already."""
        lines[0], lines[-1] = indent + lines[0], (lines[-1] if lines[1:] else indent + lines[0])
        lines[-1] += end
        remarks: list[str] = []
        mark = self.marks.get(var) or self.marks.get(value)
        if mark is not None:
            remarks.append(f"<-- {mark}")
        span = getattr(value, "span", None) or (getattr(var, "span", None) if end else None)
        if self.spans and span is not None:
            remarks.append(span_text(span))
        if remarks:
            lines[-1] = f"{lines[-1]:<{_COMMENT_COLUMN}} /* {'  '.join(remarks)} */"
        yield from lines

    def expr(self, value: nodes.Expr, indent: str) -> Iterator[str]:
        """Returns the lines of ``value``; the first has no indent, the others have it."""
        if isinstance(value, nodes.Call):
            yield self._call(value)
        elif isinstance(value, nodes.Tuple):
            fields = ", ".join(map(self.atom, value.fields))
            yield f"({fields},)" if len(value.fields) == 1 else f"({fields})"
        elif isinstance(value, nodes.TupleGetItem):
            yield f"{self.atom(value.value)}.{value.index}"
        elif isinstance(value, nodes.Function):
            yield from self.function(value, "fn ", indent)
        elif isinstance(value, nodes.If):
            yield f"if ({self.atom(value.condition)}) {{"
            yield from self.block(value.then, indent + "  ")
            yield indent + "} else {"
            yield from self.block(value.orelse, indent + "  ")
            yield indent + "}"
        elif isinstance(value, nodes.While):
            yield f"while ({self._carry(value)}) {{"
            yield from self.block(value.condition, indent + "  ")
            yield indent + "} do {"
            yield from self.block(value.body, indent + "  ")
            yield indent + "}"
        elif isinstance(value, nodes.For):
            count = f"{self.define(value.index)} < {self.atom(value.extent)}"
            carry = f"; {self._carry(value)}" if value.params else ""
            yield f"for ({count}{carry}) {{"
            yield from self.block(value.body, indent + "  ")
            yield indent + "}"
        elif isinstance(value, nodes.Match):
            yield f"match{'' if value.complete else '?'} ({self.atom(value.value)}) {{"
            for case in value.cases:
                yield f"{indent}  {self._pattern(case.pattern)} => {{"
                yield from self.block(case.block, indent + "    ")
                yield f"{indent}  }},"
            yield indent + "}"
        elif isinstance(value, nodes.Ref):
            yield f"{value.kind}({', '.join(map(self.atom, value.args))})"
        else:
            yield self.atom(value)

    def _carry(self, loop: nodes.While | nodes.For) -> str:
        initial = [self.atom(a) for a in loop.initial]
        names = [self.define(p) for p in loop.params]
        return ", ".join(f"{n} = {a}" for n, a in zip_longest(names, initial, fillvalue="?"))

    def _pattern(self, pattern: nodes.Pattern) -> str:
        """A pattern, whose variables are defined by it."""
        if isinstance(pattern, nodes.Var):
            return self.define(pattern)
        if isinstance(pattern, nodes.Wildcard):
            return "_"
        fields = ", ".join(map(self._pattern, pattern.fields))
        if pattern.constructor is None:
            return f"({fields},)" if len(pattern.fields) == 1 else f"({fields})"
        return f"{pattern.constructor.name}({fields})" if fields else pattern.constructor.name

    def _call(self, call: nodes.Call) -> str:
        if isinstance(call.op, nodes.Constructor) and not call.args:
            return call.op.name
        operands = [self.atom(a) for a in call.args]
        attrs = call.attrs
        if isinstance(call.op, nodes.GlobalVar | nodes.Var):
            name = self.atom(call.op)
            printed = attrs
        else:
            name, printed = call.op.name, _without_defaults(call.op, attrs)
        operands += [f"{key}={value_text(value)}" for key, value in printed.items()]
        return f"{name}({', '.join(operands)})"

    def atom(self, atom: nodes.Atom) -> str:
        if isinstance(atom, nodes.Var):
            return self._names.get(atom) or self.define(atom)
        if isinstance(atom, nodes.GlobalVar):
            return atom.name if isinstance(atom, nodes.Constructor) else f"@{atom.name}"
        if atom.value.ndim == 0:
            return scalar_text(atom.value)
        return f"meta[{self._constant_name(atom)}]"

    def define(self, var: nodes.Var) -> str:
        """Returns the name of ``var`` in this text: its own, or a number; made unique."""
        if var.name.isdigit() or not var.name:
            while str(self._numbered) in self._taken:
                self._numbered += 1
            name = str(self._numbered)
            self._numbered += 1
        else:
            name = self._unique(re.sub(r"\W", "_", var.name))
        self._taken.setdefault(name, 0)
        text = self._names[var] = f"%{name}"
        return text

    def _unique(self, name: str) -> str:
        if name not in self._taken:
            return name
        while True:
            self._taken[name] += 1
            candidate = f"{name}_{self._taken[name]}"
            if candidate not in self._taken:
                return candidate

    def _constant_name(self, constant: nodes.Constant) -> str:
        existing = self._constant_names.get(id(constant.value))
        if existing is not None:
            return existing
        base = re.sub(r"[^\w.]", "_", constant.name) or f"c{len(self.constants)}"
        name, count = base, 0
        while name in self.constants:
            count += 1
            name = f"{base}_{count}"
        self.constants[name] = constant
        self._constant_names[id(constant.value)] = name
        return name


def _is_open(value: nodes.Expr) -> bool:
    """True for a call whose operands do not say what all of its type is, as that of an empty list,
    and a choice among such. The value of a block needs no type all the same, as it is that of what
    is around it."""
    if isinstance(value, nodes.If):
        return _ends_open(value.then) and _ends_open(value.orelse)
    if isinstance(value, nodes.Match):
        return all(_ends_open(case.block) for case in value.cases)
    if not isinstance(value, nodes.Call) or not isinstance(value.op, nodes.GlobalVar):
        return False
    names = value.op.type.type_params
    given = {name for param in value.op.type.params for name in type_variables(param)}
    return not given.issuperset(names)


def _ends_open(block: nodes.Block) -> bool:
    last = block.bindings[-1] if block.bindings else None
    return last is not None and last.var is block.result and _is_open(last.value)


def _ranges(function: nodes.Function) -> list[str]:
    """Returns the ranges of a function's symbolic sizes that are not the default."""
    sizes = [s for s in function.sizes.values() if s.range != (0, LARGEST_SIZE)]
    return [f"{s.name} in {s.low}..{s.high}" for s in sizes]


def _data(data: nodes.DataDef) -> Iterator[str]:
    """The lines of a data type."""
    names = f"[{', '.join(data.type_params)}]" if data.type_params else ""
    if not data.constructors:
        yield f"extern type {data.name}{names}"
        return
    yield f"type {data.name}{names} {{"
    for constructor in data.constructors:
        fields = ", ".join(map(str, constructor.type.params))
        yield f"  {constructor.name}({fields})," if fields else f"  {constructor.name},"
    yield "}"


def _without_defaults(op: Operator, attrs: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {a.name: a.default for a in op.attrs}
    return {
        key: value
        for key, value in attrs.items()
        if key not in defaults or value_text(defaults[key]) != value_text(value)
    }


def span_text(span: Span) -> str:
    """Returns the line, and its text if the file can be read."""
    text = str(span)
    if span.column >= 0 and span.end_column >= 0 and span.end_line in (-1, span.line):
        line = linecache.getline(full_path(span.file), span.line).encode()
        code = line[span.column : span.end_column].decode(errors="replace").strip()
        text += f"  {code}" if code else ""
    return text.replace("*/", "* /")


@nodes.text_of.register(nodes.Module)
@nodes.text_of.register(nodes.Function)
@nodes.text_of.register(nodes.Block)
def _(node: nodes.Module | nodes.Function | nodes.Block) -> str:
    return as_text(node)
