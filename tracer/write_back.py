"""Calls of functions that write their arguments: the checks before a call, and the writes after it.

::

    placements    how the arguments lie in memory, where the function depends on it
    check         refuse what NumPy would refuse, before anything runs
    write_back    results into the caller's arrays
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.dtype import Array
from ..ir.errors import LoopwrightError, LoopwrightTypeError, LoopwrightValueError
from .core.arguments import Placement, foreign_array, shares_its_memory
from .core.spans import caret_lines
from .traced import Traced, Written

MOST_WORK = 10_000
"""Steps that are spent on finding out whether two strided arrays have an element in common."""


def placements(traced: Traced, leaves: Sequence[Any]) -> tuple[Placement, ...]:
    """The operands that are not arrays in C order, or share memory with others, as far as that
    matters; and arrays of rank 0."""
    by_operand: dict[int, Placement] = {}
    for operand, leaf in enumerate(leaves):
        if not isinstance(leaf, np.ndarray):
            continue
        if leaf.ndim == 0 or (operand in traced.dense and not leaf.flags.c_contiguous):
            by_operand[operand] = Placement(operand, _strides(leaf))
    for operand, leaf in enumerate(leaves if traced.written else ()):
        for earlier in range(operand):
            if _is_same_memory(leaf, leaves[earlier]):
                by_operand[operand] = Placement(operand, same_as=earlier)
                break
    return tuple(by_operand[operand] for operand in sorted(by_operand))


def _strides(array: Array) -> tuple[int, ...] | None:
    if any(s % array.itemsize for s in array.strides):
        return None
    return tuple(s // array.itemsize for s in array.strides)


def _is_same_memory(one: Any, other: Any) -> bool:
    if one is other:
        return isinstance(one, np.ndarray)
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return False
    mine, theirs = one.__array_interface__, other.__array_interface__
    same = (one.shape, one.strides, one.dtype) == (other.shape, other.strides, other.dtype)
    return same and one.size > 0 and mine["data"] == theirs["data"]


def check(traced: Traced, leaves: Sequence[Any]) -> None:
    """Raises for Python ints that do not fit where they are used, for arguments that cannot be
    written, and for those that share memory with one that is."""
    for fits in traced.fits:
        fits.check(leaves)
    if not traced.written:
        return
    same = {p.operand: p.same_as for p in traced.request.placements}
    arrays = [leaf if isinstance(leaf, np.ndarray) else foreign_array(leaf) for leaf in leaves]
    for written in traced.written:
        target = arrays[written.operand]
        if not shares_its_memory(leaves[written.operand]):
            kind = type(leaves[written.operand]).__name__
            raise _located(
                LoopwrightTypeError(f"a {kind} cannot be changed in place from here"),
                traced,
                written,
                f"np.asarray({written.path})",
            )
        refused = ""
        if not target.flags.writeable:
            refused = "output array is read-only"
        elif target.size and _overlaps_itself(target):  # of no elements, strides are 0
            refused = "output array has elements that share memory"
        if refused:
            raise _located(LoopwrightValueError(refused), traced, written, "a .copy() of it")
        for operand, array in enumerate(arrays):
            if operand == written.operand or same.get(operand) == written.operand:
                continue
            if np.may_share_memory(target, array) and _share(target, array):
                path = traced.request.paths[traced.parameters[operand]]
                message = f"{written.path} is changed, and {path} shares memory with it"
                raise _located(
                    LoopwrightValueError(f"{traced.name}: {message}"),
                    traced,
                    written,
                    f"{path}.copy()",
                )


def _share(one: Array, other: Array) -> bool:
    work: Any = MOST_WORK
    try:
        return np.shares_memory(one, other, max_work=work)
    except np.exceptions.TooHardError:
        return True


def _overlaps_itself(array: Array) -> bool:
    """True if two elements may be the same memory, as with a stride of 0."""
    axes = sorted((abs(s), n) for s, n in zip(array.strides, array.shape) if n > 1)
    reach = array.itemsize
    for stride, size in axes:
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


def _located(
    error: LoopwrightError, traced: Traced, written: Written, hint: str
) -> LoopwrightError:
    """``error`` with the place of the first write."""
    spec = traced.request.leaves[traced.parameters[written.operand]]
    error.hint = hint
    error.notes = (f"{written.path} : {spec}   argument {written.path} of {traced.name}",)
    if written.span is not None:
        error.span = written.span
        error.source = caret_lines(written.span)
    return error


def write_back(traced: Traced, leaves: Sequence[Any], outputs: Sequence[Array]) -> Any:
    """Puts the values of written arguments into the caller's arrays; returns the function's
    result."""
    for written in traced.written:
        leaf = leaves[written.operand]
        target = leaf if isinstance(leaf, np.ndarray) else foreign_array(leaf)
        for piece in written.pieces:
            part = target if piece.key is None else target[piece.key]
            np.copyto(part, outputs[piece.output])
    return traced.result(list(outputs), leaves)
