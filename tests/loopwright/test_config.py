"""The environment's settings: what they take, what they refuse, what they say of themselves."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import loopwright as lw
import numpy as np
import pytest
from loopwright.config import Config, describe, variables

X = np.ones(3, np.float32)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in variables():
        monkeypatch.delenv(name, raising=False)


def test_defaults() -> None:
    assert Config.read() == Config()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("debug", "3", 3),
        ("dump", "/tmp/x", Path("/tmp/x")),
        ("trace", "pages", Path("pages")),
        ("verify", "on", True),
        ("verify", "0", False),
        ("log", "a.jsonl", Path("a.jsonl")),
        ("log", "", None),
        ("threads", "2", 2),
        ("isa", "x86-64-v3", "x86-64-v3"),
        ("full_traceback", "1", True),
    ],
)
def test_values(monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: Any) -> None:
    monkeypatch.setenv(f"LOOPWRIGHT_{name.upper()}", text)
    assert getattr(Config.read(), name) == value


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("DEBUG", "9", "an int from 0 to 5"),
        ("DEBUG", "yes", "an int from 0 to 5"),
        ("VERIFY", "maybe", "0 or 1"),
        ("THREADS", "0", "an int from 1 to 256"),
        ("ISA", "avx2", "one of x86-64, x86-64-v3, x86-64-v4"),
    ],
)
def test_wrong_values(monkeypatch: pytest.MonkeyPatch, name: str, text: str, wanted: str) -> None:
    monkeypatch.setenv(f"LOOPWRIGHT_{name}", text)
    with pytest.raises(lw.LoopwrightValueError) as caught:
        Config.read()
    assert caught.value.message == f"LOOPWRIGHT_{name}={text!r} is not {wanted}"


def test_unknown_variables_are_warned_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_DEBUGG", "1")
    with pytest.warns(UserWarning, match="LOOPWRIGHT_DEBUGG is not a setting.*LOOPWRIGHT_DEBUG"):
        Config.read()
    Config.read()


def test_every_variable_is_described() -> None:
    lines = describe().splitlines()
    assert [line.partition("=")[0] for line in lines] == list(variables())
    assert all(len(line.partition("  ")[2].strip()) > 20 for line in lines)


def test_debug_1_tells_one_line_per_compile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_DEBUG", "1")
    f = lw.compile(lambda x: x + 1)
    f(X), f(X)
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    assert line.startswith("loopwright: <lambda>(x: float32[3]) compiled in ")


def test_debug_2_shows_the_graph(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_DEBUG", "2")
    lw.compile(lambda x: x + 1)(X)
    assert "def @main(" in capsys.readouterr().err


def test_dump_writes_numbered_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOOPWRIGHT_DUMP", str(tmp_path / "dump"))

    def first(x: Any) -> Any:
        return x + 1

    def second(x: Any) -> Any:
        return x * 2

    lw.compile(first)(X), lw.compile(second)(X)
    names = sorted(p.name for p in (tmp_path / "dump").iterdir())
    assert {"000-first-traced.txt", "001-second-traced.txt"} <= set(names)
    assert "add(%x, 1f)" in (tmp_path / "dump" / "000-first-traced.txt").read_text()


def test_each_compile_has_a_page_and_a_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_TRACE", str(tmp_path / "pages"))

    @lw.compile
    def scaled(x: Any) -> Any:
        y = x * 1 + 2
        return np.exp(y).sum(axis=0)

    with caplog.at_level(logging.INFO, "loopwright.compile"):
        scaled(X), scaled(X[:1])
    first, second = sorted((tmp_path / "pages").iterdir())
    assert (first.name, second.name) == ("000-scaled.html", "001-scaled.html")
    assert "Why: first call." in first.read_text()
    text = second.read_text()
    assert "Why: x: float32[3] became float32[1]." in text
    assert 'before: <a href="000-scaled.html">' in text
    assert "-1 multiply" in text  # what simplify has changed
    assert ("by the rules" in text and "y = x * 1 + 2" in text) or "np.exp(y)" in text
    reasons = [record.getMessage().rpartition(" s: ")[2] for record in caplog.records]
    assert reasons == ["first call", "x: float32[3] became float32[1]"]
