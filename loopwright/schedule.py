"""Schedules by hand: the primitives, and ``Schedule`` to hold them (``lw.schedule``).

>>> import loopwright as lw
>>> print(lw.schedule.split("i", (16, 4)))
split('i', (16, 4))
"""

from .ir.schedule.steps import (
    Schedule,
    Step,
    blockwise,
    cache_read,
    cache_write,
    compute_at,
    compute_inline,
    cut,
    fuse,
    layout,
    own_axis,
    pack,
    pack_grouped,
    parallel,
    peel,
    prefetch,
    reorder,
    rfactor,
    skip,
    split,
    split_reduction,
    stream,
    unpad,
    unroll,
    vectorize,
)

__all__ = [
    "Schedule",
    "Step",
    "blockwise",
    "cache_read",
    "cache_write",
    "compute_at",
    "compute_inline",
    "cut",
    "fuse",
    "layout",
    "own_axis",
    "pack",
    "pack_grouped",
    "parallel",
    "peel",
    "prefetch",
    "reorder",
    "rfactor",
    "skip",
    "split",
    "split_reduction",
    "stream",
    "unpad",
    "unroll",
    "vectorize",
]
