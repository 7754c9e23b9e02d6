"""What is shown while tuning: a table on a terminal of any size, plain lines elsewhere."""

from __future__ import annotations

import fcntl
import io
import math
import os
import pty
import re
import struct
import termios
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from loopwright.autotune.budget import Budget, BudgetClock
from loopwright.autotune.progress import Lines, Live, table_lines

from bench.standins import synthetic_task

LONG = "convolution_with_a_very_long_name_of_many_operators"


@dataclass
class Shown:
    """A tuner as far as it is shown."""

    task: Any
    trials: int = 0
    best_seconds: float = math.inf
    first_seconds: float = math.inf
    errors: dict[str, int] = field(default_factory=dict)


def tuners() -> list[Shown]:
    big = replace(synthetic_task(name="matmul_add", weight=4), flops=2e8)
    conv = replace(synthetic_task(name=LONG), flops=1e9)
    softmax = replace(synthetic_task(name="softmax"), flops=0.0)
    return [
        Shown(big, 61, 0.00043, 0.00051, {"timeout": 2}),
        Shown(conv, 160, 0.0125, 0.025),
        Shown(softmax, 3),
    ]


def clock(seconds: float = 12.0) -> BudgetClock:
    moment = 0.0
    made = BudgetClock(Budget(30.0), now=lambda: moment)
    moment = seconds
    made.trials = 224
    return made


def test_the_table() -> None:
    assert "\n".join(table_lines(tuners(), 1e12)) == (
        "  kernel                            calls  tried  failed      best  of peak    gain\n"
        "  matmul_add                            4     61       2    430 us     47 %   1.19x\n"
        "  convolution_with_a_very_long_na~      1    160       0   12.5 ms      8 %   2.00x\n"
        "  softmax                               1      3       0         -        -       -"
    )


def test_of_many_kernels_the_slowest_are_shown() -> None:
    many = [
        Shown(synthetic_task(name=f"k{number}"), 1, number * 1e-6, number * 1e-6)
        for number in range(1, 31)
    ]
    lines = table_lines(many, most=6)
    assert [line.split()[0] for line in lines] == ["kernel", "k27", "k28", "k29", "k30", "and"]
    assert lines[-1] == "  and 26 more"


def test_plain_lines_as_they_stand_in_a_file() -> None:
    stream = io.StringIO()
    with Lines(stream, every=0.0) as shown:
        for tuner in tuners():
            shown.update(tuner, clock())
    assert stream.getvalue() == (
        "matmul_add  510 us -> 430 us  465 GFLOP/s  61 tried, 2 failed   "
        "00:12 of 00:30, 00:18 left\n"
        f"{LONG}  25 ms -> 12.5 ms  80 GFLOP/s  160 tried   00:12 of 00:30, 00:18 left\n"
        "softmax  3 tried   00:12 of 00:30, 00:18 left\n"
    )


class _Terminal:
    """A terminal of a size, and what was written to it."""

    def __init__(self, columns: int, rows: int) -> None:
        self._control, side = pty.openpty()
        os.set_blocking(self._control, False)
        self.stream = os.fdopen(side, "w")
        self.resize(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._control, termios.TIOCSWINSZ, size)

    def written(self) -> str:
        self.stream.flush()
        found = b""
        while True:
            try:
                found += os.read(self._control, 65536)
            except BlockingIOError:
                return found.decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self._control)


def _rows(text: str) -> list[str]:
    """What stands in the lines, without moves of the cursor."""
    plain = re.sub(r"\x1b\[[0-9]*[A-Z]", "", text)
    return [row.rstrip() for row in re.split(r"[\r\n]+", plain) if row.strip()]


def test_the_table_survives_a_resize(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.autotune.progress._LIVE_EVERY", 0.0)
    terminal = _Terminal(100, 24)
    try:
        shown = Live(terminal.stream, 1e12)
        with shown:
            for tuner in tuners():
                shown.update(tuner, clock())
            rows = _rows(terminal.written())
            assert any(
                r.startswith("tuning, 224 candidates, 00:12 of") and "18 left" in r for r in rows
            )
            assert any("430 us     47 %   1.19x" in row for row in rows)
            for columns, height in ((44, 24), (44, 5), (20, 3), (160, 50)):
                terminal.resize(columns, height)
                shown.update(tuners()[0], clock())
                drawn = terminal.written()
                assert drawn.startswith("\r\x1b[J")  # what stood there in other places is wiped
                assert " " * (columns + 1) not in drawn  # blanks beyond the edge move the cursor
                assert drawn.endswith("\r")  # so that what a narrower one breaks is behind it
                assert max(map(len, _rows(drawn))) <= columns
        terminal.written()
    finally:
        terminal.close()


def test_nothing_is_left_of_the_table_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.autotune.progress._LIVE_EVERY", 0.0)
    terminal = _Terminal(100, 24)
    try:
        with Live(terminal.stream) as shown:
            shown.update(tuners()[0], clock())
            terminal.written()
        assert _rows(terminal.written()) == []
    finally:
        terminal.close()
