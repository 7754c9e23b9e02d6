"""Errors for what traced arrays cannot do, and what to write instead.

Each function makes the error for one kind of mistake; the caller raises it. At the end stand two
tables of functions and methods that traced arrays do not have, with an expression to write instead.
"""

from __future__ import annotations

import ast
import linecache
import math
import re
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

import numpy as np

from ...ir import errors as errors
from ...ir.errors import LoopwrightAttributeError, LoopwrightError, LoopwrightTypeError
from .dispatch import METHODS
from .spans import instruction, operand_texts, previous_instruction, segment, span_of, user_frame


def _text() -> str:
    frame = user_frame()
    return segment(span_of(frame)) if frame is not None else ""


def _line() -> str:
    """The line of source in which the user's statement begins."""
    frame = user_frame()
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip() if frame else ""


def _call() -> tuple[str, list[str]]:
    """The name and the arguments of the call that the user wrote; "" if it is something else."""
    try:
        node = ast.parse(_text().strip(), mode="eval").body
    except SyntaxError:
        return "", []
    if not isinstance(node, ast.Call):
        return "", []
    return ast.unparse(node.func), [ast.unparse(a) for a in node.args]


def _named(text: str, fallback: str = "x") -> str:
    return text if text and len(text) <= 40 else fallback


def branch(
    scalars: Iterable[str], is_scalar: bool = True, captures: bool = True
) -> LoopwrightError:
    """``if x:``, ``while x:``, ``x and y``, ``not x``. ``scalars`` are the scalar arguments."""
    hint = "np.where(condition, a, b) by element; np.logical_and, _or, _not to combine"
    if is_scalar:
        how = "with source, outside of generators and of a try or with that it leaves"
        how = how if captures else "with capture=True"
        hint = f"lw.cond, lw.while_loop or lw.fori_loop; {how} it is captured"
    words = set(re.findall(r"\w+", _text()))
    setting = next((name for name in sorted(words & set(scalars))), None)
    frame, rewrite = user_frame(), METHODS.get("branch.rewrite")  # of an extra
    lines = rewrite(frame) if frame is not None and rewrite is not None else None
    if not is_scalar and "cond(" in (lines or ""):
        lines = None  # it takes the truth of one element
    if _line().startswith("assert "):
        hint = 'lw.debug.check(condition, "message {}", x), or an assert on what is returned'
    elif lines is not None:
        hint = lines + (f"\n# or static_argnames=({setting!r},) for a setting" if setting else "")
    elif setting is not None:
        hint += f", or static_argnames=({setting!r},) for a setting"
    return LoopwrightTypeError("the truth of a traced array is not known while tracing", hint=hint)


def number_needed(kind: str, name: str | None) -> LoopwrightError:
    """``float(x)``, ``int(x)``, ``x.item()``; or an element of a NumPy array that is assigned."""
    frame = user_frame()
    if frame is not None and instruction(frame) == "STORE_SUBSCR":
        return _stored(_text())
    return LoopwrightTypeError(
        f"{kind}() needs a number, and the values of a traced array are not known while tracing",
        hint=_instead_of_number(kind, name),
    )


def _instead_of_number(kind: str, name: str | None) -> str:
    """Returns the hint for a place where Python wanted a number of a traced array."""
    callee, arguments = _call()
    _, _, function = callee.rpartition(".")
    if kind == "format" or (not callee and re.search(r"""["']\s*%""", _text())):
        return "text of what the compiled function returns"
    if function in _MATH:
        return f"np.{_MATH[function]}({', '.join(arguments)})"
    if callee and function not in ("float", "int", "complex", "item", "tolist"):
        return f"{callee} outside of the compiled function, or lw.extern for a call of it inside"
    dtype = {"float": "float64", "int": "int64", "complex": "complex128"}.get(kind)
    operand = _named(_argument(_text()))
    hint = f"{operand}.astype(np.{dtype})" if dtype else operand
    return (
        hint if name is None else f"{hint}, or static_argnames=({name!r},) if {name} is a setting"
    )


_MATH = {name: name for name in vars(math) if isinstance(getattr(np, name, None), np.ufunc)} | {
    "pow": "power",
    "prod": "prod",
    "fsum": "sum",
}
"""NumPy's names of the functions of Python's ``math``."""


def _argument(text: str) -> str:
    """Returns the first argument of the call in ``text``, or what stands before its dot."""
    texts = operand_texts(text)
    return texts[-1] if texts else ""


def size_needed(name: str | None) -> LoopwrightError:
    """A traced array where Python needs an int: ``range(x)``, ``list[x]``, a size, an axis."""
    hint = "a shape (x.shape[0]) or a Python int"
    if name is not None:
        hint = f"static_argnames=({name!r},), which compiles once for each value"
    if is_range():
        hint = f"lw.fori_loop, or {hint}"
    return LoopwrightTypeError(
        "a Python int is needed here, and a traced array's values are not known while tracing",
        hint=hint,
    )


def is_received() -> bool:
    """True if one of NumPy's arrays asks for the values of a traced array that it could take as it
    is, because it is indexed or its method is called; see ``numpy_receivers``."""
    frame = user_frame()
    if frame is None or instruction(frame) == "STORE_SUBSCR":
        return False
    try:
        node = ast.parse(_text().strip(), mode="eval").body
    except SyntaxError:
        return True  # there is no source to say otherwise
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in METHODS
    return isinstance(node, ast.Subscript)


def is_range() -> bool:
    """True if the user's code calls ``range``."""
    return _call()[0] == "range"


def is_text(caller: FrameType) -> bool:
    """True if the user's code itself makes text of a traced value, but for ``print`` and errors."""
    return caller is user_frame() and not _line().startswith(("print(", "raise ", "assert "))


def is_printed() -> bool:
    """True if the user's line calls ``print``, which runs while tracing only."""
    return _line().startswith("print(")


_NUMPYS_AT = re.compile(r"\s*\w+\.\w+\.at\(")


def is_stored() -> bool:
    """True if the user's code assigns to an element, as of one of NumPy's arrays, or calls
    ``np.add.at`` or its like."""
    frame = user_frame()
    if frame is None or instruction(frame) == "STORE_SUBSCR":
        return frame is not None
    return bool(_NUMPYS_AT.match(_text()))


def array_needed() -> LoopwrightError:
    """``np.asarray(x)``, ``np.array([x, y])``; ``table[x]``, ``table[0] = x`` of NumPy arrays."""
    text = _text()
    frame = user_frame()
    done = instruction(frame) if frame is not None else ""
    if done == "STORE_SUBSCR":
        return _stored(text)
    try:
        node: ast.AST = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        node = ast.Pass()
    if isinstance(node, ast.Subscript):
        table, index = ast.unparse(node.value), ast.unparse(node.slice)
        return LoopwrightTypeError(
            f"{table} is a NumPy array, and its index is traced",
            hint=f"lw.xp.take({table}, {index}, axis=0)",
        )
    hint = "np.stack to join traced arrays; a traced array is an array already"
    what = "the values of a traced array are not known while tracing"
    if isinstance(node, ast.Call) and node.args:
        callee, first = ast.unparse(node.func), node.args[0]
        what = f"{callee} needs values, and those of a traced array are not known while tracing"
        if callee.endswith("take"):
            named = [ast.keyword("axis", axis) for axis in node.args[2:3]]
            parts = [*node.args[:2], *named, *node.keywords]
            hint = f"lw.xp.take({', '.join(map(ast.unparse, parts))})"
        elif callee.endswith("as_strided"):
            hint = "np.lib.stride_tricks.as_strided(...), by its whole name"
        elif isinstance(first, ast.List | ast.Tuple):
            hint = f"np.stack({ast.unparse(first)})"
        elif callee.rpartition(".")[2] in ("asarray", "array", "asanyarray", "ascontiguousarray"):
            hint = f"{ast.unparse(first)}, which is an array already"
    return LoopwrightTypeError(what, hint=hint)


def _stored(target: str) -> LoopwrightError:
    name = target.partition("[")[0] or "the array"
    return LoopwrightTypeError(
        f"{target or 'an element'} = ... writes a traced value into a NumPy array",
        hint=f"make {name} with lw.xp.zeros or np.zeros_like, which give traced arrays",
    )


def captured_write() -> LoopwrightError:
    """Returns a write into an array from outside, which became a constant."""
    return LoopwrightTypeError(
        "this changes an array from outside of the function, which compiled code has as a constant",
        hint="a .copy() of it, or pass it as an argument",
    )


def mask_shape(mask: Iterable[object], array: str) -> LoopwrightError:
    """``x[mask] = 0`` where the mask has another shape."""
    shape = f"({', '.join(map(str, mask))})"
    return errors.LoopwrightIndexError(
        f"boolean index did not match indexed array: the mask has shape {shape}, the array {array}"
    )


def out_argument(operation: str) -> LoopwrightError:
    """``np.add(x, y, out=z)`` and ``z += x`` for a NumPy array ``z``."""
    frame = user_frame()
    if frame is not None and instruction(frame) == "BINARY_OP":
        name = _text().partition(" ")[0]
        return LoopwrightTypeError(
            f"{_text()} writes a traced value into the NumPy array {name}",
            hint=spelled_out(),
        )
    return LoopwrightTypeError(
        f"{operation}: out= would change an array in place", hint="use the result instead"
    )


def spelled_out() -> str | None:
    """Returns ``a = a + b`` for the user's ``a += b``; None for other statements."""
    try:
        (statement,) = ast.parse(_text().strip()).body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(statement, ast.AugAssign):
        return None
    target = ast.parse(ast.unparse(statement.target), mode="eval").body
    assert isinstance(target, ast.expr)
    value = ast.unparse(ast.BinOp(target, statement.op, statement.value))
    return f"{ast.unparse(target)} = {value}"


def hashed() -> LoopwrightError:
    """``{x: 1}``, ``table[x]`` of a dict, ``functools.lru_cache``."""
    return LoopwrightTypeError(
        "a traced array has no hash, so that it cannot be a key of a dict or an element of a set",
        hint="a list or tuple; np.select or lw.switch for one of several cases",
    )


def shape_assigned() -> LoopwrightError:
    """``x.shape = (2, 3)``."""
    try:
        (statement,) = ast.parse(_line()).body
    except (SyntaxError, ValueError):
        statement = None
    array, shape = "x", "shape"
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
        array, shape = ast.unparse(statement.targets[0].value), ast.unparse(statement.value)
    return LoopwrightAttributeError(
        "the shape of a traced array cannot be assigned",
        hint=f"{array} = {array}.reshape({shape})",
    )


def not_rounded() -> LoopwrightError:
    """``round(x)`` of an array with axes."""
    _, arguments = _call()
    return LoopwrightTypeError(
        "round() takes a scalar, and this array has axes",
        hint=f"np.round({', '.join(arguments) or 'x'})",
    )


def iteration(what: str) -> LoopwrightError:
    """``for row in x`` where the number of rows is not known."""
    return LoopwrightTypeError(what, hint="operations on the whole array")


def mask_index() -> LoopwrightError:
    """``x[mask]`` with a traced mask."""
    text = _text()
    array, mask = text.partition("[")[0] or "x", _index_text(text) or "mask"
    return LoopwrightTypeError(
        "a boolean mask as an index gives a shape that depends on values",
        hint=f"np.where({mask}, {array}, 0), which keeps the shape",
    )


def is_augmented() -> bool:
    """True if the user's code reads ``x[key]`` for ``x[key] += value``: only then Python copies the
    two on its stack before."""
    frame = user_frame()
    return frame is not None and previous_instruction(frame) == "COPY"


def index_of(dtype: str) -> LoopwrightError:
    """``x[i]`` where ``i`` holds floats."""
    inside = _index_text(_text())
    name = inside if inside.isidentifier() else "index"
    return errors.LoopwrightIndexError(
        f"an index must be of integers, not {dtype}", hint=f"{name}.astype(np.int64)"
    )


def _index_text(text: str) -> str:
    return text[text.find("[") + 1 : text.rfind("]")]


def unsupported_dtype(error: TypeError) -> LoopwrightError:
    """``x.astype(np.longdouble)``; ``error`` is what ``dtype_of`` raised."""
    return LoopwrightTypeError(
        str(error).partition(";")[0],
        hint="float32, float64, complex64, complex128, bool, int8 to int64, uint8 to uint64",
    )


def refuse_subclass(value: Any, where: str = "", function: str = "") -> None:
    """Raise if ``value``, or an item of such a list, is an array whose class changes what operators
    mean: the values alone would be another program. ``where`` is how the user writes it.
    """
    if isinstance(value, list | tuple):
        for item in value:
            refuse_subclass(item, where and f"{where}[...]", function)
        return
    if is_plain(value):
        return
    cls = type(value)
    name = where or "array"
    if issubclass(cls, np.ma.MaskedArray):
        why = "mask compiled code would ignore"
        hint = f"{name}.filled(value), or its .data and .mask as two arguments"
    elif issubclass(cls, np.matrix):
        why = "* is a matrix product, which compiled code would not know"
        hint = f"np.asarray({name}), and @ for matrix products"
    else:
        why = "class compiled code would ignore"
        hint = f"np.asarray({name}), if its values are all that counts"
    what = f"{function}: argument {where}" if function else "an operand"
    raise LoopwrightTypeError(
        f"{what} is a {cls.__module__}.{cls.__qualname__}, whose {why}", hint=hint
    )


def is_plain(value: object) -> bool:
    """True unless ``value`` is an array of a subclass; memory maps count as plain arrays.

    >>> is_plain(np.zeros(3)), is_plain([1, 2]), is_plain(np.ma.zeros(3))
    (True, True, False)
    """
    cls = type(value)
    return cls is np.ndarray or cls is np.memmap or not issubclass(cls, np.ndarray)


def leaked(name: str | None, owner: str) -> LoopwrightError:
    """Returns a proxy that is used when its function is no longer being traced."""
    subject = f"{name} is" if name else "this is"
    return LoopwrightTypeError(
        f"{subject} a traced value of {owner}, which is not being traced here",
        hint=f"return it from {owner}, or pass it as an argument",
    )


def unknown_function(name: str) -> LoopwrightError:
    """``np.sort(x)``: a function that is in no table."""
    callee, arguments = _call()
    if "random." in callee or callee.startswith("rng."):
        drawn = callee.rpartition(".")[2]
        return errors.UnsupportedError(
            f"{callee} draws random numbers in Python, which knows no values while tracing",
            hint=f"lw.random.{drawn}({', '.join(['key', *arguments])}), with a key as argument",
        )
    hint = _rewrite(FUNCTION_REWRITES, name) or (
        "do this outside of the compiled function, or pass its result as an argument"
    )
    return errors.UnsupportedError(f"np.{name} does not work on traced arrays", hint=hint)


def attribute_missing(name: str, attributes: Iterable[str]) -> LoopwrightError:
    """``x.softmax``: an attribute that traced arrays do not have."""
    hint = _rewrite(METHOD_REWRITES, name)
    if hint is None and not hasattr(np.ndarray, name):
        hint = next((f"x.{each}" for each in sorted(attributes) if misspelt(name, each)), None)
    return LoopwrightAttributeError(f"a traced array has no attribute {name!r}", hint=hint)


def _rewrite(table: Mapping[str, tuple[str, str]], name: str) -> str | None:
    _, text = table.get(name, ("", ""))
    code, _, remark = text.partition(";")
    return f"{code},{remark}" if remark else code or None


_KEEPS = "np.where(condition, a, b); which keeps the shape"
_PRINT = "x; print it to see its type, return it to see its values"

FUNCTION_REWRITES: dict[str, tuple[str, str]] = {
    "array2string": ("", _PRINT),
    "array_repr": ("", _PRINT),
    "array_str": ("", _PRINT),
    "save": ("", "x; save what the compiled function returns"),
}
"""A use of each name after ``np.`` and an expression with the same result; a test runs both. If
there is none, the use is empty and the expression only has to run. A remark may follow a
semicolon."""

METHOD_REWRITES: dict[str, tuple[str, str]] = {
    "cpu": ("", "x; it already behaves as a NumPy array"),
    "detach": ("", "x; it already behaves as a NumPy array"),
    "exp": ("", "np.exp(x)"),
    "float": ("", "x.astype(np.float32)"),
    "gelu": ("", "lw.nn.gelu(x)"),
    "log": ("", "np.log(x)"),
    "log_softmax": ("", "lw.nn.log_softmax(x)"),
    "norm": ("", "np.linalg.norm(x)"),
    "numpy": ("", "x; it already behaves as a NumPy array"),
    "permute": ("", "x.transpose(1, 0)"),
    "relu": ("", "lw.nn.relu(x)"),
    "resize": ("", "np.reshape(x, (6, 4))"),
    "setflags": ("", "x; nothing has to be set for writing"),
    "sigmoid": ("", "lw.nn.sigmoid(x)"),
    "softmax": ("", "lw.nn.softmax(x)"),
    "sqrt": ("", "np.sqrt(x)"),
    "tanh": ("", "np.tanh(x)"),
    "tobytes": ("", "x; do that with what the compiled function returns"),
    "tofile": ("", "x; write what the compiled function returns"),
    "unsqueeze": ("", "x[..., None]"),
}
"""The same for each name after the dot."""


def misspelt(name: str, word: str) -> bool:
    """True if ``name`` is ``word`` with one letter too many, too few, wrong, or two swapped.

    >>> misspelt("reshpae", "reshape"), misspelt("softmax", "max")
    (True, False)
    """
    if name == word or abs(len(name) - len(word)) > 1 or len(name) < 4:
        return False
    start = next((i for i, (a, b) in enumerate(zip(name, word)) if a != b), -1)
    if start < 0:
        return True
    here, there = name[start:], word[start:]
    swapped = here[1:2] + here[:1] + here[2:]
    return there in (swapped, here[1:]) or here == there[1:] or here[1:] == there[1:]


def public_name(function: Any) -> str:
    """Returns the name of a function of NumPy's behind ``np.``."""
    module = getattr(function, "__module__", "") or ""
    inner = module.removeprefix("numpy.") if module.startswith("numpy.") else ""
    return f"{inner}.{function.__name__}" if inner in ("linalg", "fft") else function.__name__
