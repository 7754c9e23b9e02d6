"""Leaves matrix products to NumPy's library where it is faster in the program.

It is asked last, when the kernels have the schedules that tuning found: a library is worth it only
where it beats those, with the loop over its result that a compiled kernel would not need. The
option has the library's name, version and kind of core, so that a decision about one library says
nothing about another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autotune.measure.reference import Reference, make_inputs
from ..autotune.workload import workload_of
from ..codegen.library import library_of
from ..codegen.one_kernel import run_kernel
from ..kernels import by_library
from ..pipeline import Built, rebuilt
from .in_place import Kept, keep_faster

__all__ = ["libraries_for", "route"]

Array = np.ndarray[Any, Any]


def libraries_for(built: Built) -> dict[str, str]:
    """Returns the libraries that could compute kernels of a build, by workload."""
    assert built.parts is not None
    libraries = {workload_of(p).hash: library_of(p) for p in built.parts.prims.values()}
    return {workload: name for workload, name in libraries.items() if name is not None}


def route(built: Built, arrays: Sequence[Array], seconds: float, program: str = "") -> Kept:
    """Compares ``built``, which uses no library, with itself using one, for about ``seconds``.

    The library must be clearly faster: compiled code is the same on every machine of a kind,
    whatever NumPy is installed there.
    """
    libraries = libraries_for(built)
    if not libraries:
        return Kept(built)
    other = rebuilt(built, {w: by_library(name) for w, name in libraries.items()})
    return keep_faster(
        built,
        other,
        arrays,
        seconds,
        program,
        lambda name, verdict: verdict.clearly_faster and _is_right(other, name),
    )


def _is_right(built: Built, name: str) -> bool:
    """True if a kernel's result agrees with the reference, as that of every candidate must."""
    parts = built.parts
    assert parts is not None
    prim, inputs = parts.prims[name], make_inputs(parts.prims[name], seed=0)
    outputs = run_kernel(parts.kernels[name], inputs, parts.target, parts.threads)
    return Reference(prim, inputs).check(dict(zip(prim.outputs, outputs, strict=True))).right
