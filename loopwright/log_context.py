"""``with lw.log("net.jsonl"):`` the tuning log of all that is compiled and tuned inside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from .ir.errors import LoopwrightTypeError, LoopwrightValueError

__all__ = ["log", "log_in_force"]

_LOG: ContextVar[Path | None] = ContextVar("loopwright_log", default=None)


@contextmanager
def log(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Compile with the schedules of the tuning log at ``path``, and tune into it, while inside.

    The ``log=`` of a function goes before it, and it goes before ``LOOPWRIGHT_LOG``; the innermost
    of several counts. As everywhere, a file that is not there yet is an empty log, and lines that
    cannot be read are passed over. It is for code that is *made* inside: what was compiled before
    stays as it is (``f.cache_clear()`` forgets it), and what is compiled inside stays afterwards.
    Every thread and every asyncio task has its own; a thread that is started inside begins without,
    unless it is run in ``contextvars.copy_context()``.

    Raises LoopwrightTypeError for what is no path, LoopwrightValueError for one that is no file.

    >>> import tempfile
    >>> import loopwright as lw
    >>> f = lw.compile(lambda x: x * 2 + 1)
    >>> with tempfile.TemporaryDirectory() as folder, lw.log(f"{folder}/net.jsonl") as path:
    ...     report = f.tune(lw.f32[48], trials=1)
    ...     path.exists()
    True
    """
    place = _checked(path)
    token = _LOG.set(place)
    try:
        yield place
    finally:
        _LOG.reset(token)


def log_in_force(own: Path | None, environment: Path | None) -> Path | None:
    """The log to use: a function's own, else that of the context, else the environment's."""
    return own or _LOG.get() or environment


def _checked(path: object) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise LoopwrightTypeError(f"lw.log takes the path of a tuning log, not {path!r}")
    place = Path(path).expanduser()
    if not os.fspath(path) or (place.exists() and not place.is_file()):
        raise LoopwrightValueError(f"{path!r} is not a file; a tuning log is a file of JSON lines")
    return place
