"""Collects the data of the page: levels, times and limits of each kernel, what the search tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...autotune.log.tuning_log import TuningLog
from ...autotune.workload import workload_of
from ...driver.built import Built
from ...ir.errors import UnsupportedError
from ...ir.graph.printer import as_text
from ...text import seconds_text
from ..explain import Explained, Explanation
from ..kernel_calls import bound_text
from ..report.charts import convergence, predicted_against_measured
from ..report.collect import KernelReport, collect
from .levels import Level, Places, kernel_levels, located, program_level


def page_data(built: Built, explanation: Explanation, log: TuningLog | None) -> dict[str, Any]:
    """Returns what the page shows of a build, as JSON has it.

    ``log`` is one whose searches are shown. Raises UnsupportedError for a build that does not say
    what it is made of.
    """
    if built.parts is None or built.source is None:
        raise UnsupportedError("this build does not say what it is made of")
    parts, source, places = built.parts, built.source, Places()
    graph = located(as_text(source.module), places)
    explained = {kernel.name: kernel for kernel in explanation.kernels}
    tried = {} if log is None else _tried(log)
    kernels: list[dict[str, Any]] = []
    by_kernel: dict[str, list[int]] = {}
    for name in parts.kernels:
        by_kernel[name], levels = kernel_levels(parts, source, name, places)
        kernels.append(
            {
                "name": name,
                "sources": by_kernel[name],
                "levels": {key: _level(level) for key, level in levels.items()},
                "facts": _facts(explained.get(name), explanation),
                "seconds": explained[name].seconds if name in explained else 0,
                "search": _search(tried.get(workload_of(parts.prims[name]).hash)),
            }
        )
    program = program_level(parts, by_kernel, places)
    return {
        "source": [{"file": Path(file).name, "lines": lines} for file, lines in places.source()],
        "graph": _level(graph),
        "program": _level(program),
        "kernels": kernels,
    }


def _level(level: Level) -> dict[str, Any]:
    data: dict[str, Any] = {"text": "\n".join(level.lines), "sources": level.sources}
    if level.steps is not None:
        data["steps"] = level.steps
    if level.llvm is not None:
        data["llvm"] = level.llvm
    return data


def _facts(kernel: Explained | None, explanation: Explanation) -> dict[str, Any]:
    if kernel is None:
        return {}
    reached = kernel.share if kernel.share == kernel.share else None
    choices = ", ".join(f"{name} {value}" for name, value in kernel.choices.items())
    return {
        "time": seconds_text(kernel.seconds),
        "share": kernel.seconds / explanation.seconds,
        "calls": kernel.calls,
        "bound": bound_text(kernel, explanation.threads),
        "allows": seconds_text(kernel.limit),
        "reached": reached,
        "rate": f"{kernel.flops_per_second / 1e9:.3g} GFLOP/s" if kernel.work.flops else "",
        "schedule": kernel.source,
        "sketch": f"{kernel.sketch.removesuffix('()')}{': ' if choices else ''}{choices}",
    }


def _tried(log: TuningLog) -> dict[str, KernelReport]:
    """Returns what a log has of each workload; of several machines, the one with most."""
    kernels = collect(log, "", limit=0).kernels
    ordered = sorted(kernels, key=lambda kernel: len(kernel.points))
    return {kernel.workload.hash: kernel for kernel in ordered}


def _search(kernel: KernelReport | None) -> dict[str, Any] | None:
    if kernel is None or not kernel.points:
        return None
    failed = sum(kernel.errors.values())
    gain = f", {kernel.gain:.2f}x the first" if kernel.gain == kernel.gain else ""
    best = seconds_text(kernel.best)
    return {
        "text": f"{kernel.tried} candidates, {failed} failed, best {best}{gain}",
        "charts": [convergence(kernel), predicted_against_measured(kernel)],
    }
