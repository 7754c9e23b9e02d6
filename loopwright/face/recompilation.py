"""Reasons for compiling again: one per miss of the cache, and a warning of storms.

A storm is a function that compiles about as often as it is called, since one of its arguments is of
another kind each time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from ..ir.dims import Dim
from ..ir.errors import RecompilationWarning
from ..tracer import ArraySpec, Request
from ..tracer.core.arguments import LeafSpec, Static
from ..tracer.core.spans import user_frame

STORM = 16
"""Kinds of calls for which a function is compiled before that is called a storm."""

FOR_ALL_SIZES = "for all sizes"
"""The end of the reason for a compile in which axes became symbolic by themselves."""


def reason_for(request: Request, made: Iterable[Request], outside: str = "") -> str:
    """Returns how ``request`` differs from the latest of the requests that code was ``made`` for
    and that has its containers; or what has changed ``outside``."""
    if outside:
        return f"{outside} has changed"
    earlier = [*made]
    if not earlier:
        return "first call"
    alike = [r for r in earlier if _containers(r) == _containers(request)]
    if not alike:
        return _other_containers(earlier[-1], request)
    last = alike[-1]
    changed = [
        _change(path, old, new)
        for path, old, new in zip(request.paths, last.leaves, request.leaves)
        if old != new
    ]
    if not changed and last.case != request.case:
        given = ", ".join(f"{name} = {value}" for name, value in (request.values or {}).items())
        return f"{given}: comparisons of sizes come out in another way"
    return ", ".join(changed) or "its arrays lie in memory in another way"


def is_first_symbolic(reason: str, earlier: Iterable[str]) -> bool:
    """True if axes of a function became symbolic by themselves, and for no ``earlier`` reason."""
    return reason.endswith(FOR_ALL_SIZES) and not any(r.endswith(FOR_ALL_SIZES) for r in earlier)


def _containers(request: Request) -> Any:
    return request.names, request.structures


def _other_containers(last: Request, request: Request) -> str:
    before = dict(zip(last.names, last.structures))
    now = dict(zip(request.names, request.structures))
    names = [n for n in {**before, **now} if before.get(n) != now.get(n)]
    return f"other arguments or another structure of them: {', '.join(names)}"


def _change(path: str, old: LeafSpec, new: LeafSpec) -> str:
    if isinstance(old, ArraySpec) and isinstance(new, Static):
        return f"{path}: {old} became {new}, whose value Python needs while tracing"
    if isinstance(new, ArraySpec) and any(isinstance(s, Dim) for s in new.type.shape):
        return f"{path}: {old} became {new}, {FOR_ALL_SIZES}"
    return f"{path}: {old} became {new}"


def warn_of_storm(
    name: str, requests: Iterable[Request], hits: int, changes: Sequence[str] = ()
) -> bool:
    """Warns if a function has been compiled for too many ``requests``, or ``changes`` of what it
    captures; returns whether it did. ``hits`` are the calls that needed no compiling."""
    kinds = [*requests]
    count = len(kinds) + len(changes)
    if count < STORM or hits > count:
        return False
    cause = _cause(kinds)
    if len(changes) > len(kinds):
        path = max(changes, key=changes.count)
        cause = (
            f"{path} has changed each time. Pass it as an argument; if {name} changes it itself, "
            "return the new value instead"
        )
    message = f"{name} was compiled {count} times in {hits + count} calls: {cause}"
    frame = user_frame()
    place = ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    warnings.warn_explicit(message, RecompilationWarning, *place)
    return True


def _cause(kinds: list[Request]) -> str:
    """Returns what changes most often, and what to do about it."""
    if len({_containers(r) for r in kinds}) > len(kinds) // 2:
        return (
            "its arguments have other containers or keys each time. Keep them the same, or stack "
            "arrays of one shape into one array (np.stack)"
        )
    values: dict[str, set[LeafSpec]] = {}
    for request in kinds:
        for path, leaf in zip(request.paths, request.leaves):
            values.setdefault(path, set()).add(leaf)
    path = max(values, key=lambda p: len(values[p]))
    leaves = values[path]
    if len(leaves) < 2 and len({r.case for r in kinds}) > len(kinds) // 2:
        return (
            "comparisons of its sizes come out in another way each time. np.minimum, np.maximum "
            "and np.where take sizes without a branch"
        )
    if len(leaves) < 2:
        return "its arrays lie in memory in another way each time. Pass copies (x.copy())"
    arrays = [leaf for leaf in leaves if isinstance(leaf, ArraySpec)]
    if len(arrays) < len(leaves):
        return (
            f"{path} has another value each time, and Python needs it while tracing (a size, a "
            "branch, a static argument). lw.cond, lw.fori_loop and arithmetic take an array "
            f"instead: np.array({path})"
        )
    if len({leaf.type.dtype for leaf in arrays}) > len(arrays) // 2:
        return f"{path} has another dtype each time. Convert it first: {path}.astype(np.float32)"
    return (
        f"{path} has another shape each time. Name its size (dynamic={{{path!r}: {{0: 'n'}}}}), or "
        "pad it to one of a few shapes (np.pad), and pass how much of it counts as a number"
    )
