"""Values from outside of a function that a trace reads: random numbers, weights.

A trace runs the Python function once, and the random numbers that it draws become constants:
``warn_of_draws`` warns of them. What else it reads from outside is watched
(``loopwright/guards.py``).

A copy of every weight would double the memory of a compile, so ``Borrowed`` reads big arrays in
place. They must not change until the code is made: a fingerprint, taken when the array is captured,
is compared at the end.
"""

from __future__ import annotations

import dis
import sys
import types
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

import numpy as np

from ...ir.dataclass import dataclass
from ...ir.dtype import Array
from ...ir.errors import FrozenWarning, LoopwrightValueError

_told: set[tuple[str, str, int]] = set()


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _warn(message: str, file: str, line: int) -> None:
    """Warns at a place, once in a process."""
    if (message, file, line) not in _told:
        _told.add((message, file, line))
        warnings.warn_explicit(message, FrozenWarning, file, line)


def warn_of_draws(name: str, functions: Iterable[types.FunctionType], source: str) -> None:
    """Warns that one of ``functions`` drew random numbers from ``source`` while it was traced, at
    the first line that names a method of a generator."""
    kinds: list[Any] = [np.random.Generator, np.random.RandomState]
    kinds += [sys.modules["random"].Random] if "random" in sys.modules else []
    methods = {n for kind in kinds for n in dir(kind) if not n.startswith("_")}
    drawing = sorted(functions, key=lambda f: f.__name__ == "__init__")  # that made the generator
    codes = [code for each in drawing for code in _codes(each.__code__)]
    lines = [
        (code.co_filename, step.positions.lineno)
        for code in codes
        for step in dis.get_instructions(code)
        if step.opname.startswith("LOAD_") and step.argval in methods
        if step.positions is not None and step.positions.lineno is not None
    ]
    lines += [(code.co_filename, code.co_firstlineno) for code in codes]
    message = (
        f"{name} draws random numbers while it is traced (from {source}): they are constants of "
        "its code, which is traced and compiled again in every call. lw.random draws new ones "
        "without that, or draw them outside and pass them as an argument"
    )
    _warn(message, *[*lines, ("<unknown>", 0)][0])


def is_fixed(array: Array) -> bool:
    """True if nobody can write to the memory of an array: it is read-only, and so is all that it is
    a view of.

    >>> base = np.zeros((2, 3))
    >>> base.flags.writeable = False
    >>> is_fixed(base[0]), is_fixed(np.zeros(3))
    (True, False)
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if not owner.__array_interface__["data"][1]:  # flags warn of broadcast arrays
            return False
        owner = owner.base
    try:
        return owner is None or memoryview(owner).readonly
    except TypeError:  # it does not say
        return False


LEAST_BYTES = 1 << 18
"""Smaller arrays are copied: that takes no longer than reading them twice."""

_SUM_WORDS = 1024  # words of 8 bytes that are summed up
_SUM_ROWS = 128  # rows at once, which fit the L2 cache


@dataclass(slots=True)
class Borrowed:
    """Arrays by the name the user has for them, each with its fingerprint."""

    arrays: list[tuple[str, Array, int]] = field(default_factory=list[tuple[str, Array, int]])

    def borrow(self, array: Array, name: str, /) -> Array | None:
        """Returns a read-only view of ``array``, or None if it has to be copied."""
        dense = array.flags.c_contiguous or array.flags.f_contiguous
        if array.nbytes < LEAST_BYTES or not dense or not array.dtype.isnative:
            return None
        view = array.view(np.ndarray)
        view.flags.writeable = False
        self.arrays.append((name, view, fingerprint(view)))
        return view

    def check(self, function: str) -> None:
        """Raises LoopwrightValueError if an array was written since it was captured."""
        for name, view, before in self.arrays:
            if fingerprint(view) != before:
                raise LoopwrightValueError(
                    f"{name or 'a captured array'} was written while {function} was compiled",
                    hint="write to it before the first call, or pass it as an argument",
                )


def fingerprint(array: Array) -> int:
    """Returns a hash of the bytes of a dense array, taken at the speed of memory.

    It sums the array, seen as a matrix of 64-bit words, along rows and along columns: changes that
    leave both sums as they were do not happen by accident.
    """
    flat = (array if array.flags.c_contiguous else array.T).reshape(-1).view(np.uint8)
    whole = flat.size // (8 * _SUM_WORDS)
    words = flat[: whole * 8 * _SUM_WORDS].view(np.uint64).reshape(whole, _SUM_WORDS)
    columns = np.zeros(_SUM_WORDS, np.uint64)
    parts: list[bytes] = []
    for start in range(0, whole, _SUM_ROWS):
        block = words[start : start + _SUM_ROWS]
        columns += block.sum(axis=0, dtype=np.uint64)
        parts.append(block.sum(axis=1, dtype=np.uint64).tobytes())
    return hash((b"".join(parts), columns.tobytes(), flat[whole * 8 * _SUM_WORDS :].tobytes()))
