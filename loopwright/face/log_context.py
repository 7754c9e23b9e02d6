"""``with lw.log("net.jsonl"):`` the tuning log of all that is compiled and tuned inside."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from ..ir.errors import LoopwrightTypeError, LoopwrightValueError

_LOG: ContextVar[Path | None] = ContextVar("loopwright_log", default=None)
_WARNED: set[tuple[str, Path]] = set()  # of links that lead nowhere: they may yet be made


@contextmanager
def log(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Compiles with the schedules of the tuning log at ``path``, and tunes into it, while inside.

    The ``log=`` of a function goes before it, and it goes before ``LOOPWRIGHT_LOG``; the innermost
    of several counts. As everywhere, a file that is not there yet is an empty log, and lines that
    cannot be read are passed over. It is for code that is *made* inside: what was compiled before
    stays as it is (``f.cache_clear()`` forgets it), and what is compiled inside stays afterwards.
    Every thread and every asyncio task has its own; a thread that is started inside begins without,
    unless it is run in ``contextvars.copy_context()``.

    Raises LoopwrightTypeError if ``path`` is not a path, LoopwrightValueError if no file can be
    there.

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


def log_in_force(function: Path | None, environment: Path | None) -> Path | None:
    """Returns the log to use: the function's, else that of the context, else the environment's.

    ``/dev/null`` means no log. Raises LoopwrightValueError, naming the setting, for a path that
    exists and cannot be read as a file.
    """
    settings = ((function, "log="), (_LOG.get(), "lw.log"), (environment, "LOOPWRIGHT_LOG"))
    for path, setting in settings:
        if path is not None:
            return None if path == Path(os.devnull) else _readable(path, setting)
    return None


def _readable(path: Path, setting: str) -> Path:
    from ..autotune.log.log_file import problem_of  # few programs name a log

    problem = problem_of(path)
    if problem is None:
        return path
    text = f"{setting}: {path} cannot be read as a tuning log: {problem}"
    if path.exists():
        raise LoopwrightValueError(text)
    if (setting, path) not in _WARNED:
        _WARNED.add((setting, path))
        warnings.warn(text, stacklevel=2)
    return path


def _checked(path: object) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise LoopwrightTypeError(f"lw.log takes the path of a tuning log, not {path!r}")
    if not os.fspath(path):
        raise LoopwrightValueError("lw.log: '' is not a file")
    place = Path(path).expanduser()
    return place if place == Path(os.devnull) else _readable(place, "lw.log")
