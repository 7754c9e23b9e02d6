"""The error for arguments of another kind than code was compiled for."""

from __future__ import annotations

from typing import Any

from .ir.dims import Dim
from .ir.errors import LoopwrightTypeError
from .tracer import ArraySpec, Request, Traced
from .tracer.arguments import LeafSpec


def refuse_other_kind(traced: Traced, given: Request) -> None:
    """Raises LoopwrightTypeError if arguments are of another kind than those of a trace.

    Where arrays lie in memory does not count. Symbolic sizes have to have values.
    """
    wanted = traced.request
    if given.with_placements(wanted.placements) == wanted:
        return
    if (given.names, given.structures) != (wanted.names, wanted.structures):
        raise LoopwrightTypeError(
            f"{traced.name} was compiled for other arguments",
            notes=(f"compiled for {wanted}", f"called with  {given}"),
        )
    for path, old, new in zip(wanted.paths, wanted.leaves, given.leaves):
        if old != new and not is_instance(old, new):
            raise _mismatch(traced.name, path, old, new)
    from .sizes import refuse_unmet, solve  # loaded when they are first needed

    refuse_unmet(traced, solve(traced.name, wanted, given))


def is_instance(wanted: LeafSpec, given: LeafSpec) -> bool:
    """True if ``given`` is ``wanted`` with numbers for its symbolic sizes."""
    if not isinstance(wanted, ArraySpec) or not isinstance(given, ArraySpec):
        return False
    pairs = [*zip(wanted.type.shape, given.type.shape)]
    same = (wanted.type.dtype, wanted.weak) == (given.type.dtype, given.weak)
    alike = wanted.type.rank == given.type.rank
    return same and alike and all(isinstance(s, Dim) or s == value for s, value in pairs)


def _mismatch(name: str, path: str, wanted: Any, given: Any) -> LoopwrightTypeError:
    hint = None
    arrays = isinstance(wanted, ArraySpec) and isinstance(given, ArraySpec)
    if arrays and wanted.type.shape == given.type.shape:
        hint = f"{path}.astype(np.{wanted.type.dtype})"
    return LoopwrightTypeError(
        f"argument {path} of {name} is {given}, but this code was compiled for {wanted}", hint=hint
    )
