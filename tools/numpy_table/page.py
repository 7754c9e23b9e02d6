"""The page docs/numpy.md, made of the chapters."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from loopwright.tracer import Proxy
from loopwright.tracer.core.dispatch import FUNCTIONS, LATE, METHODS, UFUNCS

from . import (
    creation,
    elementwise,
    indexing,
    linear,
    methods,
    ordering,
    reductions,
    shaping,
    special,
    transforms,
    unsupported,
)
from .rows import ARGUMENTS, Row

__all__ = ["CHAPTERS", "PAGE", "function_of", "is_there", "missing", "page", "rows", "without_row"]

if importlib.util.find_spec("scipy"):
    importlib.import_module("scipy.special")
for _name in [*LATE]:
    if _name in sys.modules:
        LATE.pop(_name)()

PAGE = Path(__file__).resolve().parents[2] / "docs" / "numpy.md"

CHAPTERS = {
    "By element": elementwise.ROWS,
    "Reductions": reductions.ROWS,
    "Order, search, sets": ordering.ROWS,
    "Shapes, joining, splitting": shaping.ROWS,
    "Taking and putting elements": indexing.ROWS,
    "New arrays": creation.ROWS,
    "Linear algebra": linear.ROWS,
    "Transforms, differences, polynomials": transforms.ROWS,
    "Functions of scipy.special, where SciPy is installed": special.ROWS,
    "Methods and attributes of arrays, methods of ufuncs": methods.ROWS,
}

_CLIP = vars(np._core.umath)["clip"]  # which NumPy's own np.clip calls

_HEAD = """\
# NumPy in compiled functions

What a function under `@lw.compile` may call on traced arrays, with NumPy's parameters and results.
The table is made by `python -m tools.numpy_table`; a test tries every use in it on arrays of many
dtypes and shapes (empty ones, single elements, odd sizes, broadcasts) against NumPy. A parameter
that is not supported raises an error that says so.

Not mentioned in each line: all ufuncs take `out=`, `where=` (with `out=`) and `dtype=`; sizes are
known while tracing, so no result has a shape that depends on values.

In the uses:

"""


def rows() -> Iterator[Row]:
    """Yields the rows of all chapters."""
    for chapter in CHAPTERS.values():
        yield from chapter


def function_of(name: str) -> Any:
    """Returns NumPy's function of a row's ``name``; None for methods and attributes."""
    root, _, rest = name.partition(".")
    if root in ("ndarray", "ufunc"):
        return None
    value: Any = np if root == "np" else sys.modules.get(f"scipy.{root}")
    for part in rest.split("."):
        value = getattr(value, part, None)
    return value


def is_there(name: str) -> bool:
    """True if the installed libraries have the function of a row."""
    if name.startswith("ndarray."):
        return hasattr(np.ndarray, name.removeprefix("ndarray."))
    return name.startswith("ufunc.") or function_of(name) is not None


def _ours(name: str) -> Any:
    root, _, rest = name.partition(".")
    if root == "ndarray":
        return METHODS.get(rest)
    function = function_of(name)
    return None if isinstance(function, np.ufunc) else FUNCTIONS.get(function)


def _refused(name: str) -> list[str]:
    """Returns the parameters of NumPy's function that ours does not have."""
    ours, theirs = _ours(name), function_of(name)
    if ours is None or theirs is None:
        return []
    try:
        wanted, given = inspect.signature(theirs).parameters, inspect.signature(ours).parameters
    except ValueError:
        return []
    if any(p.kind is p.VAR_KEYWORD for p in given.values()):
        return []
    named = [p for p in wanted.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    skipped = ("out", "like", "subok")
    keywords = [p.name for p in named if p.default is not p.empty and p.name not in skipped]
    return [n for n in keywords if n not in given and f"_{n}" not in given]


def page() -> str:
    """Returns the text of the page."""
    lines = [_HEAD]
    lines += [f"- {names}: {text}\n" for names, text in ARGUMENTS.items()]
    for title, chapter in CHAPTERS.items():
        lines.append(f"\n## {title}\n\n| function | tested as | limits |\n| --- | --- | --- |\n")
        for row in chapter:
            names = ", ".join(f"`{name}`" for name in row.names)
            uses = ", ".join(f"`{use}`" for use in row.uses_of(row.names[0])).replace("|", "\\|")
            refused = sorted({f"`{p}=`" for name in row.names for p in _refused(name)})
            limits = [row.limits] if row.limits else []
            limits += [f"no {', '.join(refused)}"] if refused else []
            lines.append(f"| {names} | {uses} | {'; '.join(limits)} |\n")
    lines.append("\n## Not supported\n\n| function | why |\n| --- | --- |\n")
    for reason in unsupported.REASONS:
        names = ", ".join(f"`{name}`" for name in reason.names)
        lines.append(f"| {names} | {reason.why} |\n")
    left = ", ".join(f"`{name}`" for name in missing())
    lines.append(f"\nNot yet: {left}.\n" if left else "")
    return "".join(lines)


def _public() -> Iterator[str]:
    """Yields NumPy's public functions and the methods and attributes of its arrays."""
    for prefix, module in (("np.", np), ("np.linalg.", np.linalg), ("np.fft.", np.fft)):
        for name in dir(module):
            value = getattr(module, name)
            is_other = isinstance(value, type | types.ModuleType) or not callable(value)
            if name[0] != "_" and not is_other:
                yield prefix + name
    yield from (f"ndarray.{name}" for name in dir(np.ndarray) if name[0] != "_")


def missing() -> list[str]:
    """Returns what NumPy has and the table neither lists nor gives a reason for."""
    listed = {name for row in rows() for name in row.names}
    listed |= {name for reason in unsupported.REASONS for name in reason.names}
    return [name for name in _public() if name not in listed]


def without_row() -> list[str]:
    """Returns what is supported and has no row."""
    listed = {name for row in rows() for name in row.names}
    functions = {id(function_of(name)) for name in listed}
    scipys = vars(sys.modules["scipy.special"]) if "scipy.special" in sys.modules else {}
    others = {id(_CLIP), *map(id, scipys.values())}
    private = ("_", "ufunc.", "getitem.", "function.", "array.", "matrix_transpose")
    value = [f.__name__ for f in (*FUNCTIONS, *UFUNCS) if id(f) not in functions | others]
    value += [
        n
        for n in METHODS
        if not n.startswith(private) and "." not in n and f"ndarray.{n}" not in listed
    ]
    attributes = {n for n in vars(Proxy) if n[0] != "_" and hasattr(np.ndarray, n)}
    return value + [n for n in attributes if f"ndarray.{n}" not in listed]
