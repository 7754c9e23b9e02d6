"""The number of threads that a caller may ask for."""

from __future__ import annotations

from .codegen.runtime.pool_text import MAX_THREADS
from .ir.errors import LoopwrightTypeError, LoopwrightValueError


def check_threads(count: object) -> None:
    """Raises an error unless ``count`` is a number of threads, or None for the default."""
    if count is None:
        return
    if not isinstance(count, int) or isinstance(count, bool):
        raise LoopwrightTypeError(f"threads is a number of threads, not {count!r}")
    if not 1 <= count <= MAX_THREADS:
        least = f"at least 1, not {count}" if count < 1 else f"at most {MAX_THREADS}, not {count}"
        raise LoopwrightValueError(f"threads must be {least}")
