"""Code that was compiled for one kind of arguments, ready to be called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .tracer import Traced, to_array

if TYPE_CHECKING:
    from . import pipeline

__all__ = ["NOTHING", "CacheInfo", "Ready", "Specialisation"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Specialisation:
    """Code for one request: run on arrays, then put into the user's structure."""

    traced: Traced
    built: pipeline.Built
    reason: str
    seconds: float


def _nothing(*args: Any) -> None:
    """The code of a function that has not been called."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Code for calls with one quick key; ``finish`` is None where the result is one array."""

    direct: Callable[..., list[Array] | None]
    call: Callable[[Sequence[Array]], list[Array]]
    finish: Callable[[list[Array]], Any] | None

    @staticmethod
    def of(made: Specialisation) -> Ready:
        finish = None if made.traced.returns_one_array else made.traced.result
        return Ready(made.built.direct or _nothing, made.built.call, finish)

    def __call__(self, leaves: Sequence[Any]) -> Any:
        arrays = [v if type(v) is np.ndarray else np.asarray(v) for v in leaves]
        results = self.direct(*arrays)
        if results is None:
            results = self.call([to_array(a) for a in arrays])
        return results[0] if self.finish is None else self.finish(results)


NOTHING = Ready(_nothing, list, None)


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What has been compiled: ``signatures`` in order, and for each why it was needed."""

    hits: int
    misses: int
    currsize: int
    signatures: tuple[str, ...]
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.currsize} compiled, {self.hits} hits, {self.misses} misses"]
        lines += [f"  {s}   ({r})" for s, r in zip(self.signatures, self.reasons)]
        return "\n".join(lines)
