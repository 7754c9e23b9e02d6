"""``with lw.log(...)``: whose log counts, where, and for how long."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog

X = np.ones(48, np.float32)


def make(**options: Any) -> lw.CompiledFunction:
    return lw.compile(**options)(lambda x: x * 2 + 1)


def used(function: lw.CompiledFunction | None = None) -> str | None:
    """The name of the log that a compile goes by here."""
    source = (function or make()).lower(X).built.source
    assert source is not None
    return None if source.log is None else source.log.name


def test_explicit_beats_context_beats_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert used() is None
    with lw.log("context.jsonl"):
        assert used() == "context.jsonl"
    monkeypatch.setenv("LOOPWRIGHT_LOG", "environment.jsonl")
    assert used() == "environment.jsonl"
    with lw.log("context.jsonl"):
        assert used() == "context.jsonl"
        assert used(make(log="own.jsonl")) == "own.jsonl"
    assert used() == "environment.jsonl"


def test_the_innermost_counts_and_each_ends_with_its_block() -> None:
    outer = lw.log("outer.jsonl")
    with outer:
        with lw.log(Path("inner.jsonl")) as path:
            assert path == Path("inner.jsonl")
            assert used() == "inner.jsonl"
        assert used() == "outer.jsonl"
        with pytest.raises(KeyError), lw.log("inner.jsonl"):
            raise KeyError
        assert used() == "outer.jsonl"
    assert used() is None


def test_it_decorates_a_function_that_compiles() -> None:
    decorated = lw.log("a.jsonl")(used)
    assert [decorated(), decorated(), used()] == ["a.jsonl", "a.jsonl", None]


def test_threads_and_tasks_have_their_own() -> None:
    found: dict[str, str | None] = {}
    inside = threading.Barrier(2)

    def work(name: str) -> None:
        with lw.log(name):
            inside.wait(20)
            found[name] = used()

    threads = [threading.Thread(target=work, args=(f"{n}.jsonl",)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"0.jsonl": "0.jsonl", "1.jsonl": "1.jsonl"}

    with lw.log("outer.jsonl"):
        context = contextvars.copy_context()
        for name, run in (("plain", used), ("copied", lambda: context.run(used))):
            thread = threading.Thread(target=lambda n=name, r=run: found.__setitem__(n, r()))
            thread.start()
            thread.join()
    assert (found["plain"], found["copied"]) == (None, "outer.jsonl")

    async def task(name: str) -> str | None:
        with lw.log(name):
            await asyncio.sleep(0)
            return used()

    async def both() -> list[str | None]:
        return await asyncio.gather(task("a.jsonl"), task("b.jsonl"))

    assert asyncio.run(both()) == ["a.jsonl", "b.jsonl"]


def test_tuning_writes_to_it_and_compiling_reads_it(tmp_path: Path) -> None:
    path, own = tmp_path / "a.jsonl", tmp_path / "own.jsonl"
    function = make()
    with lw.log(path):
        function.tune(X, trials=1)
        assert make().lower(X).built.summary.startswith("1 kernel: 1 tuned")
    assert len(TuningLog(path)) >= 1
    assert "tuned" not in make().lower(X).built.summary
    known = path.stat().st_size
    with lw.log(path):
        make().tune(X, trials=1, log=own)
    assert own.exists() and path.stat().st_size == known


def test_what_was_compiled_before_keeps_its_code(tmp_path: Path) -> None:
    function = make()
    function(X)
    with lw.log(tmp_path / "a.jsonl"):
        function(X)
        assert function.cache_info().misses == 1
        function.cache_clear()
        function(X)
        assert function.cache_info().misses == 1  # anew


def test_a_log_that_is_not_there_yet_is_empty_and_bad_lines_are_passed_over(tmp_path: Path) -> None:
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b'{"schema": 1, "workl\n\x00\xff\n[]\n')
    for path in (tmp_path / "new.jsonl", torn):
        with lw.log(path):
            np.testing.assert_array_equal(make()(X), np.full(48, 3, np.float32))
    assert not (tmp_path / "new.jsonl").exists()


def test_what_is_no_log_is_said_at_once(tmp_path: Path) -> None:
    for path, error, words in (
        (tmp_path, lw.LoopwrightValueError, "a folder, not a file"),
        ("", lw.LoopwrightValueError, "'' is not a file"),
        (3, lw.LoopwrightTypeError, "lw.log takes the path of a tuning log, not 3"),
        (None, lw.LoopwrightTypeError, "not None"),
    ):
        with pytest.raises(error, match=words), lw.log(path):  # type: ignore[arg-type]
            pytest.fail("it went on")


def test_home_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    with lw.log("~/a.jsonl") as path:
        assert path == tmp_path / "a.jsonl"
