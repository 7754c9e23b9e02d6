"""Reuse distances of the operands of a program's kernels, and results in place, by workload."""

from __future__ import annotations

from statistics import median_low

from ..autotune.workload import workload_of
from ..codegen.reuse import bytes_between_uses
from ..driver.built import Parts
from ..ir.program.analysis import calls


def bytes_between(parts: Parts) -> dict[str, dict[str, int]]:
    """Returns, for each workload that the program calls and each of its operands by its name in the
    PrimFunc, the bytes touched between the last use of its memory and a call: the median of all
    calls; see ``codegen/reuse.py``."""
    seen: dict[str, dict[str, list[int]]] = {}
    hashes = {name: workload_of(prim).hash for name, prim in parts.prims.items()}
    for call, distances in zip(calls(parts.program), bytes_between_uses(parts.program)):
        if not call.inline:
            here = seen.setdefault(hashes[call.kernel], {})
            for operand, distance in zip(parts.kernels[call.kernel].operands, distances):
                source = operand.pack.source if operand.pack else operand.buffer.name
                here.setdefault(source, []).append(distance)
    return {
        workload: {name: median_low(each) for name, each in operands.items()}
        for workload, operands in seen.items()
    }


def results_in_place(parts: Parts) -> dict[str, dict[str, str]]:
    """Returns, for each workload, the results that all calls write over a parameter, with its name
    in the PrimFunc."""
    results: dict[str, dict[str, str]] = {}
    hashes = {name: workload_of(prim).hash for name, prim in parts.prims.items()}
    for call in calls(parts.program):
        named = list(zip(call.operands, parts.kernels[call.kernel].operands))
        memory = {o.name: k.buffer.name for o, k in named if not k.role.writes and k.pack is None}
        here = {
            k.buffer.name: memory[o.name] for o, k in named if k.role.writes and o.name in memory
        }
        before = results.setdefault(hashes[call.kernel], here)
        results[hashes[call.kernel]] = dict(before.items() & here.items())
    return results
