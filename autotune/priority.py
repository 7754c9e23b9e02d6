"""Running beside a program that matters more: low priority, and a share of the processors."""

from __future__ import annotations

import contextlib
import os
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


def seconds_of(pid: int | None) -> float:
    """Returns the processor time of a live process, 0 for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
