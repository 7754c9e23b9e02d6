"""The line about work that takes long: on a terminal only, late enough, and gone in the end."""

from __future__ import annotations

import io
import re
import sys
import time

import loopwright as lw
import numpy as np
import pytest
from loopwright.ir import progress_line
from loopwright.ir.progress_line import progress, report


class Terminal(io.StringIO):
    def isatty(self):
        return True


def left(text):
    """What the terminal shows of the line at the end."""
    return re.sub(r"\x1b\[K", "", text.rpartition("\r")[2])


def become_terminal(monkeypatch):
    """Not a fixture: pytest puts its own stream there when a test begins."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def test_short_work_shows_nothing(monkeypatch):
    terminal = become_terminal(monkeypatch)
    with progress("compiling"):
        report(1, 2, "kernels")
    assert terminal.getvalue() == ""


def test_long_work_says_how_far_it_is_and_leaves_nothing(monkeypatch):
    terminal = become_terminal(monkeypatch)
    monkeypatch.setattr(progress_line, "PATIENCE", 0.0)
    monkeypatch.setattr(progress_line, "BETWEEN", 0.0)
    with progress("compiling net"):
        with progress("importing the same"):
            report(3, 8, "kernels")
        assert "compiling net: 3 of 8 kernels" in terminal.getvalue()
        report(4, 8, "k" * 200)
        assert max(map(len, re.split(r"\r|\x1b\[K", terminal.getvalue()))) < 80
    assert left(terminal.getvalue()) == ""
    written = terminal.getvalue()
    report(5, 8, "kernels")
    time.sleep(0.01)
    assert terminal.getvalue() == written


def test_work_that_reports_nothing_is_shown_when_the_patience_ends(monkeypatch):
    terminal = become_terminal(monkeypatch)
    monkeypatch.setattr(progress_line, "PATIENCE", 0.01)
    with pytest.raises(ValueError, match="no"), progress("compiling net"):
        end = time.monotonic() + 10
        while "compiling net" not in terminal.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
        raise ValueError("no")
    assert "compiling net" in terminal.getvalue() and left(terminal.getvalue()) == ""


def test_files_and_missing_streams_get_nothing(monkeypatch):
    monkeypatch.setattr(progress_line, "PATIENCE", 0.0)
    for stream in (io.StringIO(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("compiling"):
            report(1, 2, "kernels")
        assert stream is None or stream.getvalue() == ""


def test_a_compile_that_takes_long_is_shown(monkeypatch):
    terminal = become_terminal(monkeypatch)
    monkeypatch.setattr(progress_line, "PATIENCE", 0.0)
    monkeypatch.setattr(progress_line, "BETWEEN", 0.0)

    @lw.compile
    def net(x):
        return np.exp(x @ x.T).sum()

    net(np.zeros((4, 4), np.float32))
    assert re.search(r"compiling net: 0 of \d kernels", terminal.getvalue())
    assert left(terminal.getvalue()) == ""
