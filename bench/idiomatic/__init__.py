"""Programs as people write them, not single operators: ``python -m bench.idiomatic --help``.

They are one function each, in ``statistics``, ``attention``, ``norms``, ``losses``, ``chains``,
``images``, ``indices`` and ``updates``; ``program`` makes workloads of them, ``table`` says what
came out.
"""

from __future__ import annotations

from . import attention, chains, images, indices, losses, norms, statistics, updates
from .program import KIND, PROGRAMS

__all__ = [
    "KIND",
    "PROGRAMS",
    "attention",
    "chains",
    "images",
    "indices",
    "losses",
    "norms",
    "statistics",
    "updates",
]
