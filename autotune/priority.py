"""Running beside a program that matters more: low priority, and a share of the processors."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable, Iterable
from pathlib import Path

_LOWEST_NICE = 19


def yield_to_others() -> None:
    """Lets this process, and those it starts, run only on otherwise idle cores.

    ``SCHED_IDLE`` does so within a group of processes. Where the system makes a group of every
    session (autogroup), the weight of the group is lowered as well.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _LOWEST_NICE)
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if os.getsid(0) == os.getpid():  # the group is ours alone
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(f"{_LOWEST_NICE}\n")


def lower_priority(pid: int) -> None:
    """Lets a process that was just started run only when this process and others like it do not.

    A real-time process gets one level less, any other one ``SCHED_IDLE`` (workers do the rest
    themselves).
    """
    with contextlib.suppress(OSError, AttributeError):
        policy = os.sched_getscheduler(0)
        if policy in (os.SCHED_RR, os.SCHED_FIFO):
            lower = max(1, os.sched_getparam(0).sched_priority - 1)
            os.sched_setscheduler(pid, policy, os.sched_param(lower))
        else:
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def processor_seconds(pids: Iterable[int | None] = ()) -> float:
    """Returns the processor time of this process, its ended children, and live processes."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    others = sum(seconds_of(pid) for pid in pids)
    return time.process_time() + ended.ru_utime + ended.ru_stime + others


def seconds_of(pid: int | None) -> float:
    """Returns the processor time of a live process, 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Throttle:
    """Pauses work so that on average it uses ``processors`` processors, 0.5 being half of one.

    Work is not interrupted: its excess is waited for afterwards. Idle time is saved up for at most
    ``burst`` seconds of work. ``used`` returns the processor time so far.

    >>> now = 0.0
    >>> def sleep(seconds):
    ...     global now
    ...     now += seconds
    >>> throttle = Throttle(0.5, lambda: 1.0 if now else 0.0, clock=lambda: now, sleep=sleep)
    >>> now = 0.4
    >>> throttle.pause()  # 1.0 s of work, of which 0.25 s were saved up: 0.75 s to be earned
    1.5
    """

    def __init__(
        self,
        processors: float,
        used: Callable[[], float],
        *,
        burst: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.processors = processors
        self._used = used
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._credit = burst
        self._at = clock()
        self._done = used()

    def pause(self) -> float:
        """Sleeps until the average is kept; returns the seconds slept."""
        self._settle()
        seconds = max(0.0, -self._credit / self.processors)
        if seconds > 0:
            self._sleep(seconds)
            self._settle()
        return seconds

    def _settle(self) -> None:
        now, done = self._clock(), self._used()
        earned = (now - self._at) * self.processors
        self._credit = min(self._burst, self._credit + earned) - (done - self._done)
        self._at, self._done = now, done
