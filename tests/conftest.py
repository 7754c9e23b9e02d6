"""What every test shares: reproducible random numbers and a quiet, deterministic hypothesis."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files with what came out"
    )


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
