"""Kernels to try the search engine on: those of the workloads, at sizes that nothing else uses."""

from __future__ import annotations

from typing import Any

import loopwright as lw
from loopwright.autotune.measure.kernels import tasks_of
from loopwright.autotune.task import Task
from loopwright.codegen.target import Target
from loopwright.driver.pipeline import called_kernels, lower_module, preferences_of

from .families import make
from .namespaces.of_loopwright import Loopwright
from .workload import Workload

__all__ = ["HELD_OUT", "held_out_tasks", "main_task"]

HELD_OUT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("matmul", {"m": 176, "k": 120, "n": 736, "const": True}),
    ("conv", {"c": 32, "size": 64, "out": 32, "kernel": 3, "stride": 1, "batch": 4, "width": 32}),
    ("softmax", {"shape": (320, 448), "log": False}),
    ("elementwise", {"op": "gelu", "n": 78752}),
    ("matmul", {"m": 416, "k": 224, "n": 112, "const": False}),
    ("conv_1x1", {"c": 72, "size": 16, "out": 288, "kernel": 1, "stride": 1}),
    ("norm", {"op": "rms", "shape": (288, 1248)}),
    ("permute", {"shape": (4, 16, 40, 16), "axes": (0, 3, 1, 2)}),
    ("skinny", {"m": 480, "k": 8, "n": 439, "const": True}),
    ("depthwise", {"c": 32, "size": 106, "out": 32, "kernel": 5, "groups": 32, "stride": 1}),
    ("reduction", {"op": "mean", "shape": (416, 184), "axis": (0,)}),
    ("concat", {"c": 496, "size": 19, "more": 128}),
    ("gemv_row", {"k": 511, "n": 784}),
    ("pooling", {"op": "max", "c": 413, "size": 19, "kernel": 3, "stride": 2, "pad": 1}),
    ("attention", {"heads": 16, "length": 46, "depth": 64, "keys": 0}),
    ("embedding", {"rows": 2696, "n": 20, "count": 1152}),
    ("matmul_int8", {"m": 559, "k": 128, "n": 192, "const": True, "dtype": "int8"}),
    ("conv_first", {"c": 3, "size": 208, "out": 32, "kernel": 3, "stride": 2}),
    ("reduction", {"op": "max", "shape": (56, 32, 206), "axis": (1, 2)}),
    ("rotary", {"heads": 12, "length": 32, "depth": 32}),
)
"""Kinds and sizes of twenty workloads, of all families. No other command measures or learns from
these; a fixed choice of what ``random_workloads(90, 2026)`` draws."""


def main_task(workload: Workload, threads: int = 1) -> Task:
    """The kernel of a workload with the most work."""
    arrays = workload.arrays()
    constants = {name: arrays[name] for name in workload.constants}
    given = {name: array for name, array in arrays.items() if name not in constants}
    order = list(workload.inputs)
    namespace = Loopwright()

    def function(*values: Any) -> Any:
        known = {**constants, **dict(zip(given, values))}
        return workload.body(namespace, *(known[name] for name in order))

    target = Target.host()
    module = lw.compile(function).trace(*given.values()).module
    kernels = called_kernels(lower_module(module, preferences_of(None, target)))
    return max(tasks_of(kernels, target, threads), key=lambda task: (task.flops, task.bytes))


def held_out_tasks(threads: int = 1, count: int | None = None) -> dict[str, Task]:
    """The tasks by name, spread over the families."""
    chosen = HELD_OUT if count is None else HELD_OUT[:: max(1, len(HELD_OUT) // count)][:count]
    workloads = [make(kind, params) for kind, params in chosen]
    return {w.name: main_task(w, threads) for w in workloads}
