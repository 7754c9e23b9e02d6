"""The options ``precision=``, the error that algorithms may add to plain sums, and ``threads=``;
the log of those who give none."""

from __future__ import annotations

import atexit
import functools
from pathlib import Path
from typing import TypeAlias

from ..codegen.runtime.pool_text import MAX_THREADS
from ..ir.errors import LoopwrightTypeError, LoopwrightValueError

Precision: TypeAlias = str | float

PRECISIONS = {"strict": 1.0, "standard": 16.0, "bf16": 16.0, "reproducible": 1.0}
"""Name -> factor by which an algorithm's error may exceed that of sums taken term by term."""


def error_growth(precision: Precision | None) -> float:
    """Returns the factor by which an algorithm's error may exceed that of a term-by-term sum.

    ``"strict"``: every sum is taken term by term. ``"standard"`` (and None): an algorithm may sum
    otherwise if the result stays within ``ir.tolerance`` of the exact one, as a sum taken term by
    term does; Winograd's convolution is one. Where an image holds infinities or NaNs, they may then
    spread to the whole tile of results (up to 5 pixels) instead of their own windows only.
    ``"reproducible"`` is ``"strict"`` with the same bits always (docs/promises.md), ``"bf16"``
    ``"standard"`` with the factors of products rounded to bfloat16 (``round_factors``). A number
    from 1 on is the growth itself, whatever the tolerance is. LoopwrightValueError for others.

    >>> error_growth("strict"), error_growth(4)
    (1.0, 4.0)
    """
    if isinstance(precision, str | None):
        growth = PRECISIONS.get(precision or "standard", 0.0)
    else:
        growth = float(precision)
    if not growth >= 1.0:
        raise LoopwrightValueError(
            f"precision {precision!r} is none of {', '.join(PRECISIONS)}, nor a number from 1 on"
        )
    return growth


def check_threads(count: object) -> None:
    """Raises an error unless ``count`` is a number of threads, or None for the default."""
    if count is None:
        return
    if not isinstance(count, int) or isinstance(count, bool):
        raise LoopwrightTypeError(f"threads is a number of threads, not {count!r}")
    if not 1 <= count <= MAX_THREADS:
        least = f"at least 1, not {count}" if count < 1 else f"at most {MAX_THREADS}, not {count}"
        raise LoopwrightValueError(f"threads must be {least}")


@functools.cache
def session_log() -> Path:
    """Returns the log for records that were given none: a file that ends with the process."""
    from ..autotune.scratch import ScratchFolder  # loaded when it is first needed

    folder = ScratchFolder()
    atexit.register(folder.close)
    return folder.path / "session.jsonl"
