"""The tasks of a function: its distinct kernels, how often each is called, its share of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autotune.record import robust_seconds
from ..autotune.workload import workload_of
from ..driver.built import Built
from ..ir.dataclass import dataclass
from ..ir.errors import UnsupportedError
from ..tuning.interleaved import kernel_rounds

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A task: the kernels that differ only in their ``names``.

    ``seconds`` are those of one call in its place in the program, ``share`` is that of all
    ``calls`` in the time of all kernels. ``origin`` says where the schedule comes from.
    """

    names: tuple[str, ...]
    text: str
    workload: str
    calls: int
    seconds: float
    share: float
    origin: str

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]


def list_tasks(built: Built, arrays: Sequence[Array], seconds: float = 0.5) -> list[ListedTask]:
    """Returns the tasks of a build, measured on ``arrays`` for about ``seconds``, the most costly
    first."""
    if built.parts is None:
        raise UnsupportedError("this build does not say what it is made of")
    (rounds,) = kernel_rounds([built], arrays, seconds)
    names: dict[str, list[str]] = {}
    for name, prim in built.parts.prims.items():
        names.setdefault(workload_of(prim).hash, []).append(name)
    each = {workload: robust_seconds(rounds.seconds[workload]) for workload in rounds.calls}
    total = sum(each[workload] * calls for workload, calls in rounds.calls.items())
    listed = [
        ListedTask(
            names=tuple(names[workload]),
            text=workload_of(built.parts.prims[names[workload][0]]).text,
            workload=workload,
            calls=calls,
            seconds=each[workload],
            share=each[workload] * calls / total,
            origin=built.chosen[names[workload][0]].origin,
        )
        for workload, calls in rounds.calls.items()
    ]
    return sorted(listed, key=lambda task: -task.share)
