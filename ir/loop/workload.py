"""The identity of a workload: what two kernels must share to share their schedules.

The text is the PrimFunc in canonical form without its name. The hash of it is what logs hold, so
the text may never change for a PrimFunc that an old log knows; fixtures in the tests freeze it.
"""

from __future__ import annotations

import hashlib

from .prim import PrimFunc, Stage

__all__ = ["workload_hash", "workload_text"]


def workload_text(prim: PrimFunc) -> str:
    """The canonical text of a PrimFunc, on one line."""
    params = ", ".join(f"{p}{' const' if p.constant else ''}" for p in prim.params)
    outputs = ", ".join(map(str, prim.output_buffers))
    stages = "; ".join(f"{s.buffer.dtype}[{_sizes(s)}] {s}" for s in prim.stages)
    return f"({params}) -> {outputs} {{ {stages} }}"


def _sizes(stage: Stage) -> str:
    return ", ".join(str(s) for s in stage.buffer.shape)


def workload_hash(prim: PrimFunc) -> str:
    """16 hexadecimal digits of the SHA-256 of the text."""
    return hashlib.sha256(workload_text(prim).encode()).hexdigest()[:16]
