"""A report as one HTML page: no network, no fonts, no library. All text of the log is escaped."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from html import escape

from ...autotune.log.decision import Decision
from ...autotune.progress import format_seconds
from ...autotune.record import own_version
from ..html import document
from ..roofline_svg import roofline_svg
from .charts import convergence, predicted_against_measured, seconds_bar, time_text, worth_bar
from .collect import KernelReport, Report, Run, explanation
from .style import CSS, SCRIPT

_OPEN = 3
"""Number of kernels that are unfolded when the page is opened: those that take longest."""


def page(report: Report) -> str:
    """Returns the whole page."""
    body = "\n".join(
        part
        for part in (
            _header(report),
            '<main id="main">',
            _facts(report),
            _overview(report),
            _rooflines(report),
            _choices(report.choices),
            _seconds(report.runs),
            _kernels(report.kernels),
            "</main>",
            _footer(report),
        )
        if part
    )
    return document(f"{report.title} · tuning report", body, CSS, SCRIPT)


def _header(report: Report) -> str:
    machines = "; ".join(dict.fromkeys(m.text for m in report.machines))
    return (
        '<a class="skip" href="#main">Skip to the report</a>\n'
        f"<header><div><h1>{escape(report.title)}</h1>"
        f'<p class="quiet">{escape(machines) or "no machine"}</p></div>'
        '<button id="theme" type="button" hidden aria-label="Switch between light and dark">Dark'
        "</button></header>"
    )


def _facts(report: Report) -> str:
    timed = [k for k in report.kernels if math.isfinite(k.best)]
    before, after = report.whole
    call = "of a call, interleaved with the code before" if after else "over what was tried first"
    if not after:  # kernels alone
        before = sum(k.first * k.calls for k in timed)
        after = sum(k.best * k.calls for k in timed)
    tried = sum(k.tried for k in report.kernels)
    failed = sum(sum(k.errors.values()) for k in report.kernels)
    spent = sum(run.seconds for run in report.runs)
    unused = sum(not k.calls for k in report.kernels)
    facts = [
        ("kernels", str(len(report.kernels) - unused), f"{unused} tried only" if unused else ""),
        ("candidates measured", f"{tried:,}", f"{failed:,} failed" if failed else "none failed"),
        (
            "whole call" if report.whole[1] else "all kernels alone",
            time_text(after) if timed else "–",
            f"from {time_text(before)}",
        ),
        ("gain", f"{before / after:.2f}×" if after else "–", call),
        ("time spent", format_seconds(spent) if spent else "–", _count(len(report.runs), "run")),
    ]
    cells = "".join(
        f"<div><dt>{name}</dt><dd>{value} <small>{more}</small></dd></div>"
        for name, value, more in facts
    )
    skipped = (
        f'<p class="quiet">Lines that were not read: {escape(report.skipped)}.</p>'
        if report.skipped
        else ""
    )
    return f'<dl class="facts">{cells}</dl>{skipped}'


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _overview(report: Report) -> str:
    heads = (
        ("Kernel", True), ("Calls", True), ("First", True), ("Best", True), ("Gain", True),
        ("Of the roof", True), ("Tried", True), ("Failed", True),
    )  # fmt: skip
    head = "".join(f'<th scope="col"><button type="button">{n}</button></th>' for n, _ in heads)
    rows = "\n".join(_row(number, k) for number, k in enumerate(report.kernels))
    search = (
        '<input id="filter" type="search" placeholder="Filter kernels" aria-label="Filter kernels">'
        if len(report.kernels) > 4
        else ""
    )
    if not report.kernels:
        return "<h2>Kernels</h2><p>This log holds no records yet.</p>"
    return (
        f'<div class="bar-row"><h2>Kernels</h2>{search}</div>'
        f'<div class="scroll"><table class="sortable"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _row(number: int, k: KernelReport) -> str:
    name, _, sizes = k.workload.text.partition(" ")
    share = k.explained.share if k.explained else math.nan
    meter = "–"
    if share == share:
        width = min(100.0, 100 * share)
        bound = k.explained.bound if k.explained else ""
        meter = (
            f'<span class="meter" aria-hidden="true"><i style="width:{width:.0f}%"></i></span>'
            f'<span title="bound by {escape(bound)}">{share:.0%}</span>'
        )
    failed = sum(k.errors.values())
    cells = [
        (f"{number}", f'<a href="#k{number}" class="name">{escape(name or k.workload.hash)}</a>'
         f'<span class="sizes" title="{escape(sizes)}">{escape(sizes)}</span>'),
        (f"{k.calls}", f"{k.calls}" if k.calls else '<span title="tried only">–</span>'),
        (_number(k.first), time_text(k.first)),
        (_number(k.best), time_text(k.best)),
        (_number(k.gain), f"{k.gain:.2f}×" if k.gain == k.gain else "–"),
        (_number(share), meter),
        (f"{k.tried}", f"{k.tried}"),
        (f"{failed}", f"{failed}"),
    ]  # fmt: skip
    tds = "".join(f'<td data-value="{value}">{text}</td>' for value, text in cells)
    return f'<tr data-filter="{escape(k.workload.text)}">{tds}</tr>'


def _number(value: float) -> str:
    return f"{value:.9g}" if math.isfinite(value) else "1e99"


def _rooflines(report: Report) -> str:
    parts: list[str] = []
    for machine in report.machines:
        kernels = [k for k in report.kernels if k.target == machine]
        winners = explanation(kernels[:24])
        if winners is None:
            continue
        measured = (
            ""
            if winners.machine.measured
            else " The roofs are estimates: the machine was never measured."
        )
        parts.append(
            '<figure class="scroll roof" tabindex="0" aria-label="Roofline">'
            f"{roofline_svg('Winners', winners, styled=False)}</figure>"
            + (f'<p class="quiet">{measured}</p>' if measured else "")
        )
    if not parts:
        return ""
    intro = (
        "How near the winners come to what the machine allows: its peak, and each level of memory."
    )
    return f'<h2>Roofline</h2><p class="quiet">{intro}</p>' + "\n".join(parts)


def _choices(decisions: Sequence[Decision]) -> str:
    """Returns the table of choices in the graph, with the times of both options."""
    if not decisions:
        return ""
    last = {(d.about, d.workload.hash, d.target): d for d in decisions}  # the last one counts
    rows = "\n".join(
        f"<tr><td>{escape(d.about)}</td>"
        f'<td class="left">{_options(d)}</td>'
        f'<td class="left site">{escape(d.workload.text or d.workload.hash)}</td></tr>'
        for d in last.values()
    )
    return (
        '<h2>Choices in the graph</h2><p class="quiet">Measured each way in the whole program; '
        "the one that was taken stands in bold.</p>"
        '<div class="scroll"><table><thead><tr><th scope="col">About</th>'
        '<th scope="col" class="left">Alternatives</th><th scope="col" class="left">Where</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _options(decision: Decision) -> str:
    texts = [
        f"{'<b>' if n == decision.taken else ''}{escape(o.name)} {time_text(o.cost)}"
        f"{'</b>' if n == decision.taken else ''}"
        for n, o in enumerate(decision.options)
    ]
    return ", ".join(texts)


def _seconds(runs: Sequence[Run]) -> str:
    if not runs:
        return ""
    latest = runs[-12:]
    parts = "\n".join(
        f'<div class="run"><p><b>{escape(run.time or run.id)}</b> <span class="quiet">'
        f"{format_seconds(run.seconds)}, {_count(run.candidates, 'candidate')} "
        f"({run.candidates / run.seconds if run.seconds else 0:.1f} a second), "
        f"{escape(run.strategy)}, seed {run.seed}, ended by {escape(run.stopped)}; "
        f"engine {run.engine / run.seconds if run.seconds else 0:.0%}</span></p>"
        f"{seconds_bar(run)}</div>"
        for run in latest
    )
    legend = "".join(
        f'<li><i class="s-{kind}"></i>{text}</li>'
        for kind, text in (
            ("run", "running candidates"),
            ("check", "checking results"),
            ("build", "building code"),
            ("engine", "engine: proposing, learning"),
            ("rest", "the rest: starting, waiting"),
        )
    )
    hidden = f" The last {len(latest)} of {len(runs)} runs." if len(latest) < len(runs) else ""
    return (
        '<h2>Where the seconds went</h2><p class="quiet">Code is built while other code runs, so '
        f"the parts of a run can add up to more than its time.{hidden}</p>{parts}"
        f'<ul class="legend">{legend}</ul>'
    )


def _kernels(kernels: Sequence[KernelReport]) -> str:
    if not kernels:
        return ""
    return "<h2>Kernel by kernel</h2>\n" + "\n".join(
        _kernel(number, kernel) for number, kernel in enumerate(kernels)
    )


def _kernel(number: int, k: KernelReport) -> str:
    name, _, sizes = k.workload.text.partition(" ")
    gain = f" · {k.gain:.2f}×" if k.gain == k.gain else ""
    inside = "\n".join(_inside(k))
    return (
        f'<details class="kernel" id="k{number}" data-filter="{escape(k.workload.text)}"'
        f"{' open' if number < _OPEN else ''}>"
        f"<summary><b>{escape(name or k.workload.hash)}</b>"
        f'<span class="quiet">{escape(sizes)}</span>'
        f'<span class="time">{time_text(k.first)} → <b>{time_text(k.best)}</b>{gain}</span>'
        f'</summary><div class="inside">{inside}</div></details>'
    )


def _inside(k: KernelReport) -> Iterator[str]:
    raced = (
        " Green: the leaders, compared round by round at the end."
        if any(p.raced for p in k.points)
        else ""
    )
    crosses = " Crosses at the top failed." if k.errors else ""
    yield (
        f"<figure><h3>Convergence</h3>{convergence(k)}<figcaption>Each point a candidate, the line "
        f"the best so far.{raced}{crosses}</figcaption></figure>"
    )
    pairs = ""
    if k.pairwise == k.pairwise:
        pairs = f"{k.pairwise:.0%} of the pairs were foreseen in the right order."
    yield (
        f"<figure><h3>Predicted against measured</h3>{predicted_against_measured(k)}"
        f"<figcaption>{pairs}</figcaption></figure>"
    )
    if k.worth:
        yield _worth(k)
    if k.decisions:
        yield _in_program(k)
    yield _nest(k)
    if k.errors:
        yield _errors(k)


def _worth(k: KernelReport) -> str:
    most = max(
        (w.factor for w in k.worth if w.knob != "sketch" and w.factor == w.factor), default=1
    )
    rows = "\n".join(
        f'<tr class="{w.source}"><td>{escape(w.knob)}</td><td class="left">{escape(w.chosen)}</td>'
        f'<td class="left">{escape(w.reverted)} <span class="quiet">{escape(w.against)}</span></td>'
        f'<td data-value="{_number(w.factor)}">{_factor(w.factor)}</td>'
        f"<td>{worth_bar(w.factor, most) if w.factor == w.factor else ''}</td>"
        f'<td class="left"><span class="tag">{w.source}</span></td>'
        f'<td class="left meaning">{escape(w.meaning)}</td></tr>'
        for w in k.worth
    )
    heads = ("Decision", "Chosen", "Taken back to", "Time", "", "", "What it decides")
    head = "".join(
        f'<th scope="col"{" class=left" if n not in (0, 3) else ""}>{h}</th>'
        for n, h in enumerate(heads)
    )
    return (
        '<section class="wide"><h3>What each decision was worth</h3><p class="quiet">The winner '
        "with one decision taken back, to the default schedule's value or to the best other one. "
        "Measured ones stand in the log; predicted ones are the cost model's word.</p>"
        f'<div class="scroll"><table class="worth"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _factor(factor: float) -> str:
    if factor != factor:
        return "–"
    change = 100 * (factor - 1)
    return f"{factor:.1f}×" if factor >= 2 else f"{change:+.1f} %"


def _in_program(k: KernelReport) -> str:
    rows = "".join(
        f"<li>{'rolled back' if d.taken == 0 else 'confirmed'}: "
        f"{_options(d)} <span class=quiet>in {escape(d.program or 'a program')}</span></li>"
        for d in k.decisions
        if d.about == "schedule"
    )
    return (
        '<section class="wide"><h3>In its program</h3><p class="quiet">The schedule that was built '
        "before and the one that is fastest alone, run alternately in the whole program; the one "
        f"that was taken stands in bold.</p><ul>{rows}</ul></section>"
    )


def _nest(k: KernelReport) -> str:
    if k.winner is None:
        return '<section class="wide"><h3>Winner</h3><p class="quiet">Nothing ran.</p></section>'
    sketch = f' <span class="tag">{escape(k.winner.sketch)}</span>' if k.winner.sketch else ""
    reached = k.explained.share if k.explained else math.nan
    share = f", {reached:.0%} of what {_roof(k)} allows" if reached == reached else ""
    if not k.nest_shown:
        nest = f'<p class="quiet">The loop nest cannot be shown: {escape(k.nest)}</p>'
    else:
        nest = f'<pre tabindex="0">{nest_html(k.nest)}</pre>'
    return (
        f'<section class="wide"><h3>The winning loop nest{sketch}</h3>'
        f'<p class="quiet">Measured {time_text(k.best)}{share}.</p>{nest}</section>'
    )


def _roof(k: KernelReport) -> str:
    bound = k.explained.bound if k.explained else ""
    return (
        "the peak of its arithmetic" if bound == "compute" else f"the bandwidth of {bound.upper()}"
    )


def _errors(k: KernelReport) -> str:
    items = "".join(
        f'<li><span class="tag bad">{escape(word)}</span> {count}'
        f"{': ' + escape(k.details[word][:300]) if word in k.details else ''}</li>"
        for word, count in k.errors.most_common()
    )
    return f'<section class="wide"><h3>What failed</h3><ul>{items}</ul></section>'


def _footer(report: Report) -> str:
    return (
        f"<footer>{report.records:,} records. Made by loopwright {escape(own_version())} with "
        "<code>loopwright report</code>; the page needs nothing but itself.</footer>"
    )


_TOKEN = re.compile(
    r"(?P<kind>\b(?:parallel|vectorize|unroll)\b)"
    r"|(?P<word>\b(?:prim|for|in|let|if|else|registers|stack|prefetch|stream|packs|const)\b)"
    r"|(?P<type>\b(?:float|int|uint|bool|bfloat)\d*\b(?=\[|\b))"
    r"|(?P<number>(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.]))"
    r"|(?P<operator>\+=|=|->)"
)


def nest_html(text: str) -> str:
    """Returns the text as HTML, with every keyword in an element.

    >>> nest_html("for i in 4:")
    '<b class="word">for</b> i <b class="word">in</b> <b class="number">4</b>:'
    """
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    parts: list[str] = []
    done = 0
    for match in _TOKEN.finditer(line):
        parts.append(escape(line[done : match.start()]))
        parts.append(f'<b class="{match.lastgroup}">{escape(match[0])}</b>')
        done = match.end()
    parts.append(escape(line[done:]))
    return "".join(parts)
