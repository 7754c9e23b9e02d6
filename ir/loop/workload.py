"""The identity of a workload: what two kernels must share to share their schedules.

The text is the PrimFunc in canonical form without its name. The hash of it is what logs hold, so
the text may never change for a PrimFunc that an old log knows; fixtures in the tests freeze it.
"""

from __future__ import annotations

import hashlib

from .prim import PrimFunc
from .simplify_prim import canonical_names

__all__ = ["workload_hash", "workload_text"]


def workload_text(prim: PrimFunc) -> str:
    """The text of a PrimFunc on one line, with names by place: the names it has do not matter."""
    prim = canonical_names(prim)
    params = ", ".join(f"{p}{' const' if p.constant else ''}" for p in prim.params)
    outputs = ", ".join(map(str, prim.output_buffers))
    stages = "; ".join(s.text(s.name in prim.outputs) for s in prim.stages)
    return f"({params}) -> {outputs} {{ {stages} }}"


def workload_hash(prim: PrimFunc) -> str:
    """16 hexadecimal digits of the SHA-256 of the text."""
    return hashlib.sha256(workload_text(prim).encode()).hexdigest()[:16]
