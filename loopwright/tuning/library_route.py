"""Products of matrices left to NumPy's library, where that is faster in the program.

::

    built -> kernels a library could compute -> the program both ways, in turn
          -> what won, checked against the reference -> decisions -> built

It is asked last, when the kernels have the schedules that tuning found: a library is worth it only
where it beats those, with the loop over its result that a kernel of ours would not need. The
option has the library's name, version and kind of core, so that what was decided about one library
says nothing of another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..autotune.comparison import compare
from ..autotune.log.decision import COMPILED, Decision, Option
from ..autotune.log.record import own_version, target_key, timestamp
from ..autotune.measure.reference import Reference, make_inputs
from ..autotune.workload import workload_of
from ..codegen.kernel import Kernel, prepare_operands
from ..codegen.library import library_of
from ..codegen.objects import loaded_code
from ..codegen.runtime.buffers import aligned_bytes
from ..codegen.target import Target
from ..ir.loop.prim import PrimFunc
from ..kernels import by_library
from ..pipeline import Built, rebuilt
from .in_turn import Rounds, run_in_turn, whole_calls

__all__ = ["Routed", "offered", "route"]

Array = np.ndarray[Any, Any]

_KERNELS_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Routed:
    """``built`` goes the faster way for each kernel; ``decisions`` are about all that was asked."""

    built: Built
    decisions: tuple[Decision, ...] = ()


def offered(built: Built) -> dict[str, str]:
    """The libraries that could compute kernels of a build, by workload."""
    assert built.parts is not None
    found: dict[str, str] = {}
    for prim in built.parts.prims.values():
        library = library_of(prim)
        if library is not None:
            found.setdefault(workload_of(prim).hash, library)
    return found


def route(built: Built, arrays: Sequence[Array], seconds: float, program: str = "") -> Routed:
    """Run ``built``, which has no library in it, beside itself with one, for about ``seconds``."""
    libraries = offered(built)
    if not libraries:
        return Routed(built)
    other = _by_libraries(built, libraries, libraries)
    old, new = run_in_turn([built, other], arrays, _KERNELS_SHARE * seconds)
    # Compiled code is the same on every machine of a kind, whatever NumPy is installed there.
    won = {
        w
        for w in libraries
        if compare([old.seconds[w], new.seconds[w]]).clearly_faster and _is_right(other, w)
    }
    ended = built
    if won:
        ended = _by_libraries(built, libraries, won)
        before, after = whole_calls([built, ended], arrays, (1 - _KERNELS_SHARE) * seconds)
        if compare([before, after]).slower:
            won, ended = set[str](), built
    decisions = [
        _decision(built, w, name, w in won, old, new, program) for w, name in libraries.items()
    ]
    return Routed(ended, tuple(decisions))


def _by_libraries(built: Built, libraries: Mapping[str, str], which: Iterable[str]) -> Built:
    return rebuilt(built, {w: by_library(libraries[w]) for w in which})


def _decision(
    built: Built,
    workload: str,
    library: str,
    taken: bool,
    old: Rounds,
    new: Rounds,
    program: str,
) -> Decision:
    parts = built.parts
    assert parts is not None
    prim = next(p for p in parts.prims.values() if workload_of(p).hash == workload)
    options = Option(COMPILED, old.seconds[workload]), Option(library, new.seconds[workload])
    key = target_key(parts.target, parts.threads)
    return Decision(
        "route",
        workload_of(prim),
        key,
        options,
        int(taken),
        program,
        timestamp(),
        own_version(),
    )


def _is_right(built: Built, workload: str) -> bool:
    """Whether a kernel's result agrees with the reference, as that of every candidate must."""
    parts = built.parts
    assert parts is not None
    name = next(n for n, p in parts.prims.items() if workload_of(p).hash == workload)
    prim, inputs = parts.prims[name], make_inputs(parts.prims[name], seed=0)
    outputs = _run(parts.kernels[name], prim, inputs, parts.target)
    return Reference(prim, inputs).check(outputs).right


def _run(
    kernel: Kernel, prim: PrimFunc, inputs: Mapping[str, Array], target: Target
) -> dict[str, Array]:
    """A kernel's results by name, on memory full of garbage."""
    operands = prepare_operands(kernel, inputs)
    outputs = dict(zip(prim.outputs, operands[len(operands) - len(prim.outputs) :], strict=True))
    for array in outputs.values():
        array.reshape(-1).view(np.uint8)[...] = 0xFF  # no number
    workspace = aligned_bytes(kernel.workspace_bytes)
    workspace[...] = 0xFF
    pointers = [array.ctypes.data for array in (*operands, workspace)]
    block = (ctypes.c_void_p * len(pointers))(*pointers)
    call: Any = loaded_code(kernel.text, target).function(f"{kernel.name}.packed", ctypes.c_void_p)
    call(ctypes.addressof(block))
    return outputs
