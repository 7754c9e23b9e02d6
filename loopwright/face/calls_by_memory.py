"""Calls that inspect their arguments first: calls of functions that change arrays, whose meaning
depends on where the arguments are in memory, and of functions whose Python ints have to fit a
dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..tracer import Request, check, placements, to_array, write_back
from .ready import Specialisation

Quick: TypeAlias = Callable[..., list[Any] | None]
Specialised: TypeAlias = Callable[[Request], Specialisation]


def placed(specialised: Specialised, request: Request, leaves: Sequence[Any]) -> Specialisation:
    """Returns the code for a request whose operands are placed in memory as ``leaves`` are."""
    made = specialised(request)
    if not made.traced.depends_on_memory:
        return made
    return specialised(request.with_placements(placements(made.traced, leaves)))


_PLAIN = (np.ndarray, np.generic, int, float, complex)
"""Types whose memory NumPy manages, and types of values that cannot be changed."""


def _nothing(*leaves: Any) -> None:
    """Stands for code that cannot be called directly."""


class ByMemory:
    """Makes the calls for one request. Contiguous arrays that do not overlap are recognised in
    microseconds; all others take a slower check."""

    def __init__(self, made: Specialisation, specialised: Specialised, request: Request) -> None:
        self._run = made.built.direct or _nothing
        self._update = made.built.update
        self._specialised = specialised
        self._request = request
        traced = made.traced
        self._fits = [(each.number, each.low, each.high) for each in traced.fits]
        self.leaf: Callable[[Any], Any] = (lambda v: v) if traced.fits else np.asarray
        written = [w.operand for w in traced.written]
        self._written = tuple(written)
        self._copies = [(w.operand, piece) for w in traced.written for piece in w.pieces]
        self._result = traced.result_of_writes()
        self._finish = None if traced.returns_arguments else traced.result_writer()
        self._arrays = tuple(sorted({*traced.dense, *written}))
        others = range(len(traced.parameters))
        self._pairs = tuple({(min(w, o), max(w, o)) for w in written for o in others if w != o})

    def quickly(self) -> tuple[Quick, Callable[[list[Any]], Any] | None]:
        """Returns the call on leaves and the function that makes the user's result of its results
        (a list). The call returns None, having done nothing, for arguments that need the slower
        check. ``leaf`` makes of a number what the call takes."""
        if self._fits:
            return lambda *leaves: self._fitting(leaves), None
        if self._finish is not None and (self._update is not None or not self._arrays):
            return self._update or self._run, self._finish
        return lambda *leaves: self._quickly(leaves), None

    def _fitting(self, leaves: Sequence[Any]) -> list[Any] | None:
        """Makes the call of ``_quickly``; None if a Python int does not fit its dtype."""
        for number, low, high in self._fits:
            if not low <= number(leaves) <= high:
                return None  # the slower check raises the error
        return self._quickly([np.asarray(v) for v in leaves])

    def _quickly(self, leaves: Sequence[Any]) -> list[Any] | None:
        if self._update is not None:
            outputs = self._update(*leaves)
            return None if outputs is None else [self._result(outputs, leaves)]
        if not self._is_plain(leaves):
            return None
        outputs = self._run(*leaves)
        if outputs is None:
            return None
        for operand, piece in self._copies:
            target = leaves[operand]
            target[... if piece.key is None else piece.key] = outputs[piece.output]
        return [self._result(outputs, leaves)]

    def __call__(self, leaves: Sequence[Any]) -> Any:
        """Returns the function's result on ``leaves``, some of which it changes."""
        if all(isinstance(v, _PLAIN) for v in leaves):
            results = self._fitting(leaves)
            if results is not None:
                return results[0]
        made = placed(self._specialised, self._request, leaves)
        check(made.traced, leaves)
        outputs = made.built.call([to_array(leaf) for leaf in leaves])
        return write_back(made.traced, leaves, outputs)

    def _is_plain(self, leaves: Sequence[Any]) -> bool:
        """True if the code of ``made`` is right for these leaves, and may write to them."""
        for operand in self._arrays:
            leaf = leaves[operand]
            if type(leaf) is not np.ndarray or not leaf.flags.c_contiguous:
                return False
        for operand in self._written:
            if not leaves[operand].flags.writeable:
                return False
        for one, other in self._pairs:
            if type(leaves[one]) is type(leaves[other]) is np.ndarray and np.may_share_memory(
                leaves[one], leaves[other]
            ):
                return False
        return True
