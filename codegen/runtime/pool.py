"""The process's thread pool: ``lw_parallel_for`` for generated code, and its settings.

There is one pool per process. It is made on first use and starts its workers at the first parallel
loop. Its code (``pool_text``) is native; Python only sets how many threads take part.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..llvm.clock import CLOCK_TEXT
from ..llvm.link import LoadedObject, load_object
from ..llvm.store import stored_object
from ..target import Target
from .pool_text import MAX_THREADS, pool_text

SPIN_SECONDS = 50e-6
"""Time an idle worker spins before it sleeps: longer than the gap between two kernels."""

AWAKE_SECONDS = 0.1
"""Time it spins in between where loops are timed: longer than a copy of a network's operands."""

CONTROL_GROUPS = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")
"""Folder with the limits of control groups, and the file that names this process's groups."""


class _Pool:
    def __init__(self) -> None:
        least = Target.baseline()  # it is enough: the pool computes nothing
        text = CLOCK_TEXT + pool_text(least)
        self.code = load_object(stored_object(text, least, "thread pool"))
        self.address = self.code.address("lw_parallel_for")
        function = ctypes.CFUNCTYPE
        i64 = ctypes.c_int64
        self.threads = function(i64)(self.code.address("lw_pool_threads"))
        self.configure = function(None, i64, i64, i64)(self.code.address("lw_pool_configure"))
        self.forget = function(None)(self.code.address("lw_pool_forget"))
        self.stop = function(ctypes.c_bool)(self.code.address("lw_pool_stop"))
        self.limit = function(i64, i64)(self.code.address("lw_pool_limit"))
        self.count = default_threads()
        self.dynamic = True
        self.spin = SPIN_SECONDS
        function(None)(self.code.address("lw_pool_begin"))()
        self.apply()

    def apply(self) -> None:
        self.configure(self.count, int(self.dynamic), int(self.spin * 1e9))


_lock = threading.Lock()
_pool: _Pool | None = None


def _get() -> _Pool:
    global _pool
    if _pool is None:
        with _lock:
            if _pool is None:
                _pool = _make()
    return _pool


def _make() -> _Pool:
    pool = _Pool()
    # Workers run this code until the process ends, so it must outlive the interpreter's teardown.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool.code))
    os.register_at_fork(after_in_child=pool.forget)
    atexit.register(pool.stop)
    return pool


def default_threads() -> int:
    """Returns ``LOOPWRIGHT_THREADS``, or the number of cores this process may run on.

    A container's CPU quota counts as well: threads that are stopped when their quota is used up
    keep all others waiting. Raises ValueError if the variable is not a number from 1 to
    ``MAX_THREADS``.
    """
    given = os.environ.get("LOOPWRIGHT_THREADS", "").strip()
    if not given:
        return min(len(os.sched_getaffinity(0)), _share(), MAX_THREADS)
    if not given.isdecimal():
        raise ValueError(f"LOOPWRIGHT_THREADS is {given!r}; it must be a number of threads")
    return _checked(int(given))


def _share() -> int:
    """Returns the cores the control groups allow, rounded up; ``MAX_THREADS`` without a limit.

    A limit is microseconds of all cores together per period. The process's group can have one, and
    so can every group above it.
    """
    quotas = [_quota(folder) for folder in _groups()]
    return min((-(-quota // period) for quota, period in quotas if quota > 0), default=MAX_THREADS)


def _groups() -> Iterator[Path]:
    """Yields the folders with the limits of this process's group and of those above it."""
    roots = {"": CONTROL_GROUPS, "cpu": CONTROL_GROUPS / "cpu"}
    yield from roots.values()
    with contextlib.suppress(OSError, ValueError):
        for line in OWN_GROUP.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for name in {"cpu" if "cpu" in controllers.split(",") else controllers} & {*roots}:
                innermost = Path(path.strip("/"))
                yield from (roots[name] / group for group in (innermost, *innermost.parents))


def _quota(folder: Path) -> tuple[int, int]:
    """Returns quota and period of one group; without a limit the quota is not above 0."""
    with contextlib.suppress(OSError, ValueError):  # version 2; the quota may be "max"
        quota, period = (folder / "cpu.max").read_text().split()
        return int(quota), max(1, int(period))
    with contextlib.suppress(OSError, ValueError):  # version 1; without a limit it is -1
        quota, period = (
            (folder / name).read_text() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        )
        return int(quota), max(1, int(period))
    return 0, 1


def _checked(count: int) -> int:
    if not 1 <= count <= MAX_THREADS:
        raise ValueError(f"{count} threads asked for; 1 to {MAX_THREADS} are possible")
    return count


def set_threads(count: int) -> None:
    """Sets how many threads a parallel loop uses from now on, including the calling one.

    More workers are started when they are first needed; surplus ones sleep. Raises ValueError for a
    count outside 1 to ``MAX_THREADS``.

    >>> set_threads(2)
    >>> get_threads()
    2
    """
    pool = _get()
    pool.count = _checked(count)
    pool.apply()


def get_threads() -> int:
    """Returns how many threads a parallel loop uses when this thread calls it."""
    return int(_get().threads())


class limited:
    """Limits the loops that the calling thread runs inside a ``with`` block to some threads.

    Other threads are not affected. Raises ValueError as ``set_threads`` does.

    >>> with limited(1):
    ...     get_threads()
    1
    """

    __slots__ = ("_before", "_count")

    def __init__(self, count: int) -> None:
        self._count = _checked(count)
        self._before = 0

    def __enter__(self) -> None:
        self._before = int(_get().limit(self._count))

    def __exit__(self, *error: object) -> None:
        _get().limit(self._before)


def configure(*, dynamic: bool | None = None, spin: float | None = None) -> None:
    """Sets how loops are divided and how long idle workers spin.

    ``dynamic``: threads claim half of their remaining part at a time and then help others (the
    default); otherwise each thread runs its even part in one piece. ``spin``: seconds before an
    idle worker goes to sleep.
    """
    pool = _get()
    pool.dynamic = pool.dynamic if dynamic is None else dynamic
    pool.spin = pool.spin if spin is None else spin
    pool.apply()


@contextlib.contextmanager
def awake(spin: float = AWAKE_SECONDS) -> Iterator[None]:
    """Lets idle workers spin for ``spin`` seconds inside a ``with`` block.

    A worker that sleeps takes microseconds to wake, and milliseconds on a virtual machine whose
    core was given to others: a short loop is then over before it begins, and takes as long as on
    one thread. Whoever times loops with pauses between them does not want to see that.
    """
    before = _get().spin
    configure(spin=spin)
    try:
        yield
    finally:
        configure(spin=before)


def limit_address() -> int:
    """Returns the address of native ``i64 (i64)``: ``limited`` for the calling thread, 0 ends
    it."""
    return _get().code.address("lw_pool_limit")


def symbols() -> Mapping[str, int]:
    """Returns the symbols generated code may call and their addresses, as ``load_object`` takes
    them."""
    pool = _get()
    return {
        "lw_parallel_for": pool.address,
        "lw_pool_threads": pool.code.address("lw_pool_threads"),
    }


def parallel_for(function: int, context: int, n: int) -> None:
    """Runs native ``void function(ptr context, i64 begin, i64 end)`` over ``[0, n)`` in parts.

    ``function`` and ``context`` are addresses. Generated code calls ``lw_parallel_for`` itself;
    this is the same for callers in Python.
    """
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    call(_get().address)(function, context, n)


def loaded_code() -> LoadedObject:
    """Returns the pool's native code (tests use its symbols too)."""
    return _get().code
