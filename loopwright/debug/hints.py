"""Hints for errors that have none where they are raised.

A message of ours that fits a row of ``_HINTS`` gets the hint of that row. An error of Python's or
NumPy's gets a note where what is traced has to do with it. Nothing of the user's is run for that.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import itertools
import math
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np

from ..face.compiled_function import CompiledFunction
from ..ir.dataclass import dataclass
from ..ir.errors import LoopwrightError
from ..ir.span import Span
from ..tracer import is_ours, nn
from ..tracer.core.spans import is_library, segment, short_path, span_of, user_frame

_ALIASES = {
    "axes": "axis",
    "dim": "axis",
    "dims": "axis",
    "keepdim": "keepdims",
    "second": "budget",
    "seconds": "budget",
    "time": "budget",
}
"""Keywords that others have for what NumPy and tuning call by the name behind it."""

_LAYERS = {
    "linear": "dense",
    "fully_connected": "dense",
    "swish": "silu",
    "batchnorm": "batch_norm",
}
"""Names that others give to functions of ``lw.nn``."""


def hinted(error: Exception) -> None:
    """Completes ``error``, which is on its way to the user, with a way out if there is one."""
    frame, text = _place(error)
    call = _call(text)
    if isinstance(error, LoopwrightError):
        error.hint = _keyword(str(error), frame, call) or _of_message(error, call) or error.hint
    elif hint := _keyword(str(error), frame, call) or _of_python(error):
        notes = getattr(error, "__notes__", [])
        error.__notes__ = list(dict.fromkeys([*notes, f"  try: {hint}"]))


def _place(error: Exception) -> tuple[FrameType | None, str]:
    """Returns the user's frame to which an error belongs, and the text that stands there."""
    steps = error.__traceback__
    frame, span = None, getattr(error, "span", None)
    while steps is not None:
        inner = steps.tb_frame
        of_call = isinstance(span, Span) and short_path(inner.f_code.co_filename) == span.file
        if not is_library(inner) and (of_call or span is None):
            frame = inner
            if not isinstance(error, LoopwrightError):
                span = span_of(inner, instruction=steps.tb_lasti)
        steps = steps.tb_next
    text = segment(span) if isinstance(span, Span) else ""
    return frame or user_frame(), text


def _call(text: str) -> ast.Call | None:
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    return node if isinstance(node, ast.Call) else None


def _keyword(message: str, frame: FrameType | None, call: ast.Call | None) -> str | None:
    """Returns the keyword that a call means by one that does not exist."""
    about = re.search(r"unexpected keyword argument|missing a required argument", message)
    if about is None or call is None or frame is None:
        return None
    names = [*_parameters(call.func, frame)]
    wrong = next((k.arg for k in call.keywords if k.arg and k.arg not in names), None)
    if wrong is None or not names:
        return None
    alias = _ALIASES.get(wrong)
    near = [alias] if alias in names else difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    return f"{near[0]}= in the place of {wrong}=" if near else None


def _parameters(callee: ast.expr, frame: FrameType) -> Iterable[str]:
    """Returns the names of the parameters of what is called, as far as that is known by its name:
    a function of a module, a compiled function, a method of one or of arrays."""
    match callee:
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            value = _variable(owner, frame)
            if isinstance(value, ModuleType):
                function = getattr(value, name, None)
            elif isinstance(value, CompiledFunction):
                method = getattr(type(value), name, None)
                return [*_names_of(method), *_names_of(value.function)]
            else:
                function = getattr(np, name, None)  # of arrays: NumPy's function has its name
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr=inner), attr=name):
            module = _variable(owner, frame)
            inside = getattr(module, inner, None) if isinstance(module, ModuleType) else None
            function = getattr(inside, name, None) if isinstance(inside, ModuleType) else None
        case ast.Attribute(attr=name):
            function = getattr(np, name, None)
        case ast.Name(id=name):
            value = _variable(name, frame)
            function = value.function if isinstance(value, CompiledFunction) else value
        case _:
            function = None
    return _names_of(function)


def _variable(name: str, frame: FrameType) -> Any:
    return frame.f_locals.get(name, frame.f_globals.get(name))


def _names_of(function: Any) -> list[str]:
    try:
        return [*inspect.signature(function).parameters]
    except (TypeError, ValueError):
        return []


def _of_python(error: Exception) -> str | None:
    """Returns what to write in the place of what is an error of Python's."""
    match error:
        case AttributeError(obj=owner, name=name) if isinstance(name, str):
            return _attribute(owner, name)
        case FileNotFoundError(filename=str() | os.PathLike() as file):
            if is_ours(error.__traceback__, sys.stdlib_module_names):
                error.__traceback__ = None  # frames of ours, and of what we called
            return _file(Path(file))
        case _:
            return None


def _attribute(owner: Any, name: str) -> str | None:
    if owner is np and hasattr(nn, name):
        return f"lw.nn.{name}"
    if owner is nn and name in _LAYERS:
        return f"lw.nn.{_LAYERS[name]}"
    if isinstance(owner, list | tuple) and hasattr(np.ndarray, name):
        kind = type(owner).__name__
        return f"np.asarray(...) where the function is called: a {kind} is not an array"
    if owner is None and hasattr(np.ndarray, name):
        return "an array where the function is called, or `is not None` before that line"
    return None


def _file(path: Path) -> str | None:
    """Returns a file whose name is nearly that of one that does not exist."""
    try:
        names = [each.name for each in itertools.islice(path.parent.iterdir(), 10_000)]
    except OSError:
        return f"another folder: there is no {path.parent}"
    near = difflib.get_close_matches(path.name, names, n=1)
    if near:
        return str(path.with_name(near[0]))
    return (
        f"its whole path: {path} is looked for in {Path.cwd()}" * (not path.is_absolute()) or None
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """An error whose message fits a pattern with these ``groups``, and the call at its place."""

    groups: tuple[str, ...]
    error: LoopwrightError
    call: ast.Call | None

    @property
    def callee(self) -> str:
        """The name of the function in that call, or nothing."""
        return "" if self.call is None else ast.unparse(self.call.func)


_Hint = Callable[[_Case], str | None]


def _of_message(error: LoopwrightError, call: ast.Call | None) -> str | None:
    for pattern, hint in _HINTS:
        if match := re.search(pattern, error.message):
            return hint(_Case(match.groups(), error, call))
    return None


def _unless_given(text: str) -> _Hint:
    """A hint for an error that has none; its fields are the groups of the pattern."""
    return lambda case: case.error.hint or text.format(*case.groups)


def _always(text: str) -> _Hint:
    """A hint in the place of the error's own."""
    return lambda _: text


def _axis(case: _Case) -> str | None:
    (rank_or_shape,) = case.groups
    is_rank = case.error.message.endswith("axes")
    rank = int(rank_or_shape) if is_rank else len(rank_or_shape.split(",")) * (rank_or_shape != "")
    return f"an axis from {-rank} to {rank - 1}" if rank else "no axis: this is one number"


def _sizes(case: _Case) -> str | None:
    """Sizes near to those of a reshape that does not divide: the first of them is another."""
    total, sizes = int(case.groups[0]), [int(s) for s in re.findall(r"-?\d+", case.groups[1])]
    given = [n for n, size in enumerate(sizes) if size > 0]
    rest = math.prod(sizes[n] for n in given[1:])
    if not given or not 0 < total < _DIVIDED or total % rest:
        return None
    others = total // rest  # what is left for the first size and the one that is -1
    fits = [d for d in range(1, others + 1) if others % d == 0] if -1 in sizes else [others]
    sizes[given[0]] = min(fits, key=lambda d: abs(d - sizes[given[0]]))
    return f"({', '.join(map(str, sizes))}), of which the sizes divide {total}"


_DIVIDED = 100_000  # of an array for which sizes that divide their number are looked for


def _joined(case: _Case) -> str | None:
    """The axis on which arrays may differ, if it is the only one on which they do."""
    first, second = (s.split(", ") for s in case.groups)
    differ = [n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b]
    return f"axis={differ[0]}, on which they may differ" if len(differ) == 1 else None


def _inner(case: _Case) -> str | None:
    if case.call is not None and case.callee.endswith("dense") and len(case.call.args) > 1:
        return f"{ast.unparse(case.call.args[1])}.T: a weight has the shape [outputs, inputs]"
    rows, columns = case.groups
    either = f"a second operand with {rows} rows, or a first one with {columns} columns"
    return case.error.hint or either


def _kernel(case: _Case) -> str:
    channels, out, window = case.groups
    return f"a kernel of shape [{out}, {channels}, {window}], or groups="


def _index(case: _Case) -> str:
    size = int(case.groups[0])
    return f"an index from {-size} to {size - 1}, such as np.clip(index, 0, {size - 1}) gives"


def _truth(case: _Case) -> str | None:
    """Users cannot rewrite a function of another library that asks for a value."""
    hint, callee = case.error.hint or "", case.callee
    if callee in ("", "bool") or not hint.startswith(("lw.cond", "np.where")):
        return hint
    case.error.notes = ()  # of a value inside of that function
    return f"{callee} outside of the compiled function, or lw.extern for a call of it inside"


def _values(case: _Case) -> str | None:
    if not isinstance(case.error, AssertionError):
        return case.error.hint
    return 'lw.debug.check(condition, "... {}", x), whose message has the values'


def _whole(case: _Case) -> str | None:
    for note in case.error.notes:
        if about := re.match(r"(\w+) +: float\d+\[\]", note):
            return f"int({about[1]}) where the function is called: sizes and ranges are ints"
    return case.error.hint


_HINTS: tuple[tuple[str, _Hint], ...] = (
    (r"axis -?\d+ does not exist: the array has (\d+) axes", _axis),
    (r"axis -?\d+ is out of range for \w+\[(.*)\]", _axis),
    (r"has (\d+) elements, which do not divide into \((.*)\)", _sizes),
    (r"has (\d+) elements, the shape \((.*)\) has", _sizes),
    (r"operands \w+\[(.*)\] and \w+\[(.*)\] differ on axis", _joined),
    (r"the truth of a traced array", _truth),
    (r"a Python int is needed here", _whole),
    (r"inner sizes differ, (\w+) and (\w+)", _inner),
    (r"has (\d+) channels, the kernel \w+\[(\w+), \w+, (.*)\] takes \w+ \(1 group", _kernel),
    (r"^dtype -?\d+ is not supported", _always("x.reshape(...); view takes a dtype")),
    (r"is not an ONNX model", _unless_given("the path of a file .onnx; lw.load reads files .lw")),
    (
        r"argument (\S+) has dtype <U\d+",
        _unless_given("numbers for the texts: np.unique({0}, return_inverse=True)[1]"),
    ),
    (r"argument (\S+) has dtype object", _unless_given("{0}.astype(np.float64), without None")),
    (
        r"is (?:needed, )?not None$",
        _unless_given("`if ... is not None` around it, which is decided while tracing"),
    ),
    (
        r"too many indices: \d+ for \w+\[\], which has 0 axes",
        _unless_given("an array where the function is called; one number has no index"),
    ),
    (
        r"the Python int -?\d+ does not fit u?int\d",
        _unless_given("x.astype(np.int64) before, or a number that fits"),
    ),
    (
        r"len\(\) of a traced scalar",
        _unless_given("len() of an array; np.ndim(x) tells how many axes"),
    ),
    (r"index -?\d+ is out of bounds for axis \d+ with size (\d+)", _index),
    (r"takes a function, not <function", _always("def in the place of async def")),
    (r"threads is a number of threads", _unless_given("threads=2")),
    (
        r"lw\.compile takes a function, not",
        _unless_given("lw.compile(f) of the function itself, and a call of what that returns"),
    ),
    (r"<traced", _values),
    (r"boxes are float\[batch, boxes, 4\]", _unless_given("boxes[None], scores[None]")),
    (
        r"is code already, which no other code calls",
        _unless_given("a call of it outside, with its options where it is made, or lw.extern"),
    ),
)
"""Patterns of messages, and what makes the hint of an error that fits."""
