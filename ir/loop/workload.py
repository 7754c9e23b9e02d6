"""The identity of a workload, by which kernels share schedules.

The text is the PrimFunc in canonical form without its name. The hash of it is what logs hold, so
the text may never change for a PrimFunc that an old log knows; fixtures in the tests freeze it.
"""

from __future__ import annotations

import hashlib
import re

from ..errors import ParseError
from .parser import parse_prim
from .prim import PrimFunc, sizes_text
from .procedure import Procedure
from .simplify_prim import canonical_names

_LONG_NUMBER = re.compile("[0-9]{100}")


def workload_text(prim: PrimFunc) -> str:
    """The text of a PrimFunc, with names by place: the names it has do not matter.

    It is one line, but for a procedure, which keeps the names of its loops and buffers.
    """
    text = prim.derived.get("workload")
    if text is None:
        text = prim.derived["workload"] = _text(canonical_names(prim))
    return text


def _text(prim: PrimFunc) -> str:
    params = ", ".join(f"{p}{' const' if p.constant else ''}" for p in prim.params)
    if isinstance(prim, Procedure):
        return f"({params}) -> {prim.results_text} procedure {{\n{prim.statements_text}\n}}"
    outputs = ", ".join(map(str, prim.output_buffers)) + sizes_text(prim.sizes)
    stages = "; ".join(s.text(s.name in prim.outputs) for s in prim.stages)
    return f"({params}) -> {outputs} {{ {stages} }}"


def workload_hash(prim: PrimFunc) -> str:
    """16 hexadecimal digits of the SHA-256 of the text."""
    return hashlib.sha256(workload_text(prim).encode()).hexdigest()[:16]


def parse_workload(text: str, name: str = "kernel") -> PrimFunc:
    """Returns the PrimFunc of a workload's text, called ``name``; raises ParseError for other text.

    It is all that a log has to hold for its schedules to be shown, ranked or measured again.

    >>> parse_workload("(x0: float32[4]) -> out: float32[4] { out[i] = exp(x0[i]) }").name
    'kernel'
    """
    if _LONG_NUMBER.search(text):
        raise ParseError("a workload with a number of a hundred digits")
    try:
        prim = parse_prim(f"prim @{name}{text}", "<workload>")
        workload_text(prim)
    except RecursionError:
        raise ParseError("a workload whose expressions are nested too deep") from None
    return prim
