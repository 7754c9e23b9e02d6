"""``loopwright report``: one page that parses, fetches nothing, and trusts nothing in the log."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from loopwright.autotune.log.decision import Decision, Option
from loopwright.autotune.log.note import Note
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.record import Check, MeasureRecord, Took, Workload
from loopwright.cli import main
from loopwright.codegen.machine import estimated_machine
from loopwright.codegen.target import Target
from loopwright.inspect.explain import Explained
from loopwright.inspect.report.charts import time_text
from loopwright.inspect.report.collect import collect
from loopwright.inspect.report.page import nest_html, page
from loopwright.ir.loop.workload import parse_workload

TARGET = Target("x86-64-v3", "a processor", 2, 32768, 1 << 20, 1 << 25)
MATMUL = (
    "(x0: float32[48, 64], x1: float32[64, 96] const) -> out: float32[48, 96] "
    "{ out[i, j] = sum(k: 64) x0[i, k] * x1[k, j] }"
)
EVIL = "<script>alert(1)</script>\"'&--></title></svg>"
VOID = {"meta", "link", "input", "br"}


class _Checked(HTMLParser):
    """Balanced elements, ids once, and whatever the page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"a handler in an attribute: {name}"
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "srcset", "action", "data", "xlink:href"):
                self.fetched.append(value or "")
            if name == "href":
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check_page(text: str) -> _Checked:
    found = _Checked()
    found.feed(text)
    found.close()
    assert found.open == []
    assert len(set(found.ids)) == len(found.ids)
    assert found.fetched == []
    assert all(link.startswith("#") or link == "data:," for link in found.links)
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert not re.search(r"https?:|//[a-z]|url\(|@import", text)
    return found


def make_log() -> TuningLog:
    """A kernel with records of a run, failed ones too, and one kernel that cannot be read."""
    task = task_of(parse_workload(MATMUL, "matmul"), TARGET, 1)
    rng = np.random.default_rng(3)
    space, first = task.space, task.space.default()[:1]
    near = space.mutate(np.repeat(first, 30, axis=0), rng)
    rows = np.concatenate([first, near[space.valid(near)], space.sample(60, rng)])
    distinct = {str(space.schedule(row)): row for row in reversed(rows)}
    rows = [*reversed(distinct.values())][:41]
    log = TuningLog()
    log.append(
        Note(
            "run",
            {
                "run": "r1",
                "tasks": [{"hash": task.workload.hash, "weight": 3}],
                "seed": 4,
                "strategy": "guided",
                "time": "2026-01-01T00:00:00Z",
            },
        )
    )
    for number, row in enumerate(rows):
        failed = number % 9 == 5
        record = MeasureRecord(
            task.workload,
            task.key,
            tuple(task.space.schedule(row).to_json()),
            task.sketch_of(row),
            () if failed else (1e-5 * (1 + number % 7), 1.1e-5 * (1 + number % 7)),
            "timeout" if failed else None,
            EVIL if failed else "",
            None if failed else Check(0.0, 1e-6),
            run="r1",
            at=number / 10,
            predicted=float(rng.random()),
            took=Took(0.01, 0.002, 0.003),
        )
        log.append(record)
    log.append(Note("end", {"run": "r1", "stopped": "budget", "seconds": 5.0, "engine": 0.4}))
    strange = Workload(EVIL, f"{EVIL} i=8", f"({EVIL})")
    log.append(replace(record, workload=strange, error=None, seconds=(1e-3,), detail=EVIL))
    options = (Option("winograd", (2e-3,)), Option(EVIL, (1e-3,)))
    log.append(Decision("algorithm", strange, task.key, options, 1, EVIL))
    return log


@pytest.fixture(scope="module")
def log() -> TuningLog:
    return make_log()


@pytest.fixture(scope="module")
def text(log: TuningLog) -> str:
    return page(collect(log, EVIL))


def test_the_page_parses_and_fetches_nothing(text: str) -> None:
    found = check_page(text)
    assert found.tags.count("script") == 1
    assert "main" in found.tags and found.tags.count("details") == 2
    assert found.tags.count("title") > 40  # of pictures and their points


def test_what_the_log_says_is_text_and_nothing_else(text: str) -> None:
    assert EVIL not in text
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text


def test_what_it_shows(text: str, log: TuningLog) -> None:
    shown = " ".join(check_page(text).text)
    for part in (
        "Convergence",
        "Predicted against measured",
        "Roofline",
        "What each decision was worth",
        "Where the seconds went",
        "The winning loop nest",
        "Choices in the graph",
        "What failed",
        "The loop nest cannot be shown",
        "of the pairs were foreseen",
        "winograd 2 ms",
    ):
        assert part in shown, part
    matmul = next(k for k in collect(log, "t").kernels if k.name == "matmul")
    assert (matmul.tried, matmul.calls, sum(matmul.errors.values())) == (41, 3, 4)
    assert '<b class="kind">vectorize</b>' in text


def test_decisions_are_compared_with_measured_records_where_there_are_some(log: TuningLog) -> None:
    matmul = next(k for k in collect(log, "t").kernels if k.name == "matmul")
    assert matmul.winner is not None and matmul.worth
    measured = [w for w in matmul.worth if w.source == "measured"]
    assert measured and all(w.factor > 0.9 for w in measured)
    assert {w.source for w in matmul.worth} <= {"measured", "predicted", "none"}
    assert all(w.meaning for w in matmul.worth)


def test_alternatives_that_no_program_took_do_not_count() -> None:
    log = make_log()
    before = " ".join(check_page(page(collect(log, "t"))).text)
    matmul = next(r for r in log if r.workload.text.startswith("matmul"))
    for calls in ({"gone": 4}, {matmul.workload.hash: 5, "x": -1, "y": "3"}):
        log.append(Note("program", {"program": "main", "calls": calls}))
    found = {k.workload.hash: k for k in collect(log, "t").kernels}
    assert [k.calls for h, k in found.items() if h != matmul.workload.hash] == [0]
    assert found[matmul.workload.hash].calls == 5
    shown = " ".join(check_page(page(collect(log, "t"))).text)
    assert "1 tried only" in shown and "tried only" not in before
    best = found[matmul.workload.hash].best
    assert time_text(5 * best) in shown and "over what was tried first" in shown
    for seconds in (3e-3, 1.5e-3):
        seconds = {"before": 4.5e-3, "after": seconds}
        log.append(Note("program", {"program": "main", "calls": calls, **seconds}))
    shown = " ".join(" ".join(check_page(page(collect(log, "t"))).text).split())
    assert f"whole call {time_text(1.5e-3)} from {time_text(4.5e-3)} gain 3.00×" in shown


def test_nothing_reaches_more_than_its_limit(log: TuningLog) -> None:
    shares = [k.explained.share for k in collect(log, "t").kernels if k.explained]
    assert shares
    assert all(share != share or 0 < share <= 1 for share in shares)
    impossible = replace(_first(log), seconds=1e-12)
    assert impossible.share != impossible.share


def _first(log: TuningLog) -> Explained:
    return next(k.explained for k in collect(log, "t").kernels if k.explained)


def test_an_empty_log_is_a_page_too() -> None:
    found = check_page(page(collect(TuningLog(), "empty")))
    assert "This log holds no records yet." in " ".join(found.text)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], log: TuningLog) -> None:
    path = tmp_path / "net.jsonl"
    TuningLog(path).append(log.entries())
    assert main(["report", str(path)]) == 0
    assert "net.html: 42 records" in capsys.readouterr().out
    check_page((tmp_path / "net.html").read_text())
    for words, message in (
        ([str(tmp_path / "none")], "no tuning log at"),
        ([str(path), "-o", str(path)], "is the log itself"),
        ([str(path), "-o", str(tmp_path / "no" / "r.html")], "cannot write"),
        ([str(path), "--measure", "soon"], "--measure: budget 'soon' is not understood"),
    ):
        assert main(["report", *words]) == 2
        assert message in capsys.readouterr().err


def test_what_the_log_does_not_say_is_measured_when_asked(tmp_path: Path, capsys) -> None:
    task = task_of(parse_workload(MATMUL, "matmul"), Target.host(), 1)
    path = tmp_path / "net.jsonl"
    row = task.space.default()[0]
    other = next(r for r in task.space.sample(40, np.random.default_rng(1)) if r[0] == row[0])
    schedules = [tuple(task.space.schedule(r).to_json()) for r in (row, other)]
    TuningLog(path).append(
        MeasureRecord(task.workload, task.key, s, seconds=(1e-5 * n,), checked=Check(0.0, 1e-6))
        for n, s in enumerate(schedules, 1)
    )
    assert main(["report", str(path), "--measure", "20s"]) == 0
    count = int(capsys.readouterr().out.split()[0])
    assert len(TuningLog(path)) == 2 + count and count >= 2
    (kernel,) = collect(TuningLog(path), "t").kernels
    assert any(w.source == "measured" for w in kernel.worth)


def test_words_of_a_loop_nest_are_marked_and_its_text_is_kept() -> None:
    line = "    vectorize j.2 in 24:  a < b & c[0.5]"
    marked = nest_html(line)
    assert '<b class="kind">vectorize</b>' in marked and "&lt; b &amp; c" in marked
    plain = re.sub(r"<[^>]+>", "", marked).replace("&lt;", "<").replace("&amp;", "&")
    assert plain == line


def test_explore_lights_the_same_statement_at_every_level(tmp_path, capsys, monkeypatch) -> None:
    """The page needs nothing but itself, and its lines know their kin down to the assembly."""
    monkeypatch.setattr("loopwright.codegen.machine.measured_machine", estimated_machine)
    file = tmp_path / "net.py"
    file.write_text(
        "import numpy as np\nimport loopwright as lw\n\ndef net(x: lw.f32[64, 48]):  # </script>\n"
        "    e = np.exp(x - x.max(axis=1, keepdims=True))\n"
        "    return e / e.sum(axis=1, keepdims=True)\n"
    )
    output = tmp_path / "page.html"
    words = ["explore", f"{file}:net", "-o", str(output), "--seconds", "0.01", "--threads", "1"]
    assert main(words) == 0, capsys.readouterr().err
    text = output.read_text()
    checked = _Checked()
    checked.feed(text)
    assert not checked.open and not checked.fetched and len(set(checked.ids)) == len(checked.ids)
    packed = re.search(r'id="data">([^<]+)<', text)
    assert packed is not None and "</script>\n" in text
    data = json.loads(zlib.decompress(base64.b64decode(packed[1])))
    (kernel,) = data["kernels"]
    assert kernel["facts"]["calls"] == 1 and kernel["facts"]["bound"]
    (source,) = data["source"]
    places = {line[2]: line[0] for line in source["lines"] if line[2] >= 0}
    assert sorted(places.values()) == [5, 6]

    def lines_of(level: str, word: str) -> list[tuple[str, set[int], list[int]]]:
        made = kernel["levels"][level]
        rows = zip(made["text"].split("\n"), made["sources"], made.get("steps") or [])
        return [(line, {places[n] for n in s}, steps) for line, s, steps in rows if word in line]

    # The exponential is of line 5, and so is whatever it becomes; the sum is of line 6.
    (exponential,) = {row[2][0]: row for row in lines_of("vector", "= exp")}.values()
    assert exponential[1] == {5}
    (step,) = exponential[2]
    assert any(step in steps for _, _, steps in lines_of("llvm", "@lw.exp"))
    assert any(step in steps for _, _, steps in lines_of("asm", "mul"))
    assert all(sources == {6} for _, sources, _ in lines_of("vector", "t2"))
    assert main([*words[:-3], "0"]) == 2 and "--seconds 0" in capsys.readouterr().err
