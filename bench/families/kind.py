"""A kind of workload: how one is made of its sizes, which the bench has, how others are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..workload import Input, Workload

__all__ = ["Draw", "Kind", "workload"]

Params = Mapping[str, Any]


class Draw:
    """Random sizes of practical operators; all that is random in the bench comes from here."""

    def __init__(self, seed: int | Sequence[int]) -> None:
        self._rng = np.random.default_rng(seed)

    def size(self, low: int, high: int) -> int:
        """A size, each order of magnitude as likely as another: most are multiples of 8 or 16, as
        people choose them, a quarter is anything."""
        value = math.exp(self._rng.uniform(math.log(low), math.log(high + 1)))
        step = self.choice(1, 8, 16, 32)
        return int(min(high, max(low, round(value / step) * step)))

    def choice(self, *options: Any) -> Any:
        """One of the options."""
        return options[int(self._rng.integers(len(options)))]

    def flag(self) -> bool:
        """Yes or no."""
        return bool(self._rng.integers(2))


@dataclass(frozen=True, slots=True)
class Kind:
    """Workloads that differ in sizes only.

    ``make(**params)`` gives one, ``fixed`` are the params of those that every run measures,
    ``draw`` gives the params of another one, and ``small`` are those of one that takes no time.
    """

    name: str
    make: Callable[..., Workload]
    fixed: tuple[Params, ...]
    draw: Callable[[Draw], Params]
    small: Params


def workload(
    name: str,
    family: str,
    body: Callable[..., Any],
    inputs: Mapping[str, Input],
    out: tuple[int, ...],
    *,
    dtype: str = "float32",
    read: int | None = None,
    **more: Any,
) -> Workload:
    """A workload that reads all of its inputs (else ``read`` bytes) and writes ``out`` once."""
    total = sum(given.nbytes for given in inputs.values())
    written = math.prod(out) * np.dtype(dtype).itemsize
    size = total if read is None else read
    return Workload(name, family, inputs, body, size, written, result_dtype=dtype, **more)
