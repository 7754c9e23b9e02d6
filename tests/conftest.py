"""What every test shares: reproducible random numbers and a quiet, deterministic hypothesis."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

# Collecting makes half a million objects that stay: looking them through again and again takes a
# fifth of the time.
gc.disable()

hypothesis.settings.register_profile(
    "loopwright", derandomize=True, deadline=None, database=None, print_blob=True
)
hypothesis.settings.load_profile("loopwright")

# A shell that starts the tests in the background has them ignore Ctrl-C; some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Passes verify what they made in every test; see config.py.
os.environ.setdefault("LOOPWRIGHT_VERIFY", "1")
# Tests that make a compile fail inside shall not write into the user's cache.
os.environ["LOOPWRIGHT_REPRO"] = os.devnull
# A test sees what it compiles itself, not what the disk cache holds; that has tests of its own.
os.environ["LOOPWRIGHT_CACHE_SIZE"] = "0"
# A user's own log or settings must not change what the tests see.
for name in ("LOOPWRIGHT_LOG", "LOOPWRIGHT_DEBUG", "LOOPWRIGHT_DUMP", "LOOPWRIGHT_THREADS"):
    os.environ.pop(name, None)


EXTRAS = (
    "torch",
    "expecttest",
    "onnx",
    "distributed",
    "sklearn",
    "threadpoolctl",
    "scipy",
    "mpmath",
)
"""Packages that only some tests need. Without one the others run, and the end says what did not."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files with what came out"
    )
    parser.addoption(
        "--without", action="append", default=[], help="act as if this package were not installed"
    )


def pytest_configure(config: pytest.Config) -> None:
    for name in config.getoption("--without"):
        sys.modules[name] = None  # type: ignore[assignment]  # importing it raises


def _missing_extra(raised: BaseException | None) -> str:
    """Returns the package that is not installed if that is what an exception is about, else ""."""
    while raised is not None and not isinstance(raised, ModuleNotFoundError):
        raised = raised.__cause__
    name = (getattr(raised, "name", None) or "").partition(".")[0]
    return name if name in EXTRAS and find_spec(name) is None else ""


def _leave_out(report: Any, path: Path, name: str) -> None:
    report.outcome = "skipped"
    report.longrepr = (str(path), 0, f"Skipped: without {name}")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report: Any = yield
    raised = report.call.excinfo and report.call.excinfo.value
    if report.failed and (name := _missing_extra(raised)):
        _leave_out(report, collector.path, name)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    report: Any = yield
    if report.failed and (name := _missing_extra(call.excinfo and call.excinfo.value)):
        _leave_out(report, item.path, name)
    return report


def _left_out(config: pytest.Config) -> dict[str, list[str]]:
    """Returns what was skipped for want of each of the extras that are not installed."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    left_out: dict[str, set[str]] = {}
    for report in skipped:
        for name in EXTRAS:
            reason = str(report.longrepr)
            if f"without {name}" in reason or f"could not import '{name}" in reason:
                left_out.setdefault(name, set()).add(report.nodeid)
    return {name: sorted(tests) for name, tests in left_out.items()}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, tests that are left out for want of a package are a failure."""
    controls = not hasattr(session.config, "workerinput")
    if controls and os.environ.get("CI") == "true" and _left_out(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for name, tests in _left_out(config).items():
        terminalreporter.section(f"left out: {name} is not installed")
        terminalreporter.write_line("\n".join(tests))


def pytest_collection_finish() -> None:
    gc.freeze()
    # The trees of all sources are a million objects: looking them through by the usual threshold of
    # 700 new ones takes three times as long as parsing.
    gc.set_threshold(100_000, 20, 20)
    gc.enable()


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(20240229)


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """``golden(text, "name.txt")`` compares with ``golden/name.txt`` beside the test file."""
    folder = Path(request.node.fspath).parent / "golden"

    def check(text: str, name: str) -> None:
        path = folder / name
        if request.config.getoption("--update-golden"):
            folder.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing; make it with pytest --update-golden"
        assert text == path.read_text()

    return check
