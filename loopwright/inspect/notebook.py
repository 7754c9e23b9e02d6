"""Makes tables and texts of what stands in the last line of a notebook's cell.

Notebooks keep the styles of elements but no style sheets, and are light or dark as their readers
like: colours are the text's own, at less than full strength.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ..autotune.budget import BudgetClock
from ..autotune.progress import Silent, Tuned, describe
from ..driver.built import LEVELS, Built

MOST_SHOWN = 400
"""Lines of a level's text in a notebook."""

_LINE = "1px solid rgba(128,128,128,.25)"
_CELL = f"padding:3px 12px;border:0;border-bottom:{_LINE};white-space:pre;"
_QUIET = "opacity:.65;font-weight:normal;"
_PRE = (
    "font:12px/1.5 ui-monospace,Menlo,Consolas,monospace;max-height:32em;overflow:auto;"
    "margin:4px 0;padding:8px 12px;white-space:pre;background:rgba(128,128,128,.08);"
    "border-radius:6px;"
)


def table_html(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Sequence[int] = (0,),
    notes: Sequence[str] = (),
    shares: Sequence[float] = (),
) -> str:
    """Returns a table like ``text.table``'s, with ``title`` above it and ``notes`` below.

    ``shares`` are drawn as bars behind the first cells of the rows, from 0 to 1.
    """

    def row(cells: Sequence[str], tag: str, share: float = math.nan) -> str:
        shade = "rgba(70,130,220,.22)"
        bar = f"linear-gradient(90deg,{shade} {share:.1%},transparent {share:.1%})"
        made: list[str] = []
        for n, cell in enumerate(cells):
            style = f"{_CELL}text-align:{'left' if n in left else 'right'};"
            style += _QUIET if tag == "th" else ""
            style += f"background:{bar};" if n == 0 and share == share else ""
            made.append(f'<{tag} style="{style}">{escape(cell)}</{tag}>')
        return f'<tr style="background:none">{"".join(made)}</tr>'

    bars = [*shares, *[math.nan] * (len(rows) - len(shares))]
    body = "".join(row(cells, "td", share) for cells, share in zip(rows, bars, strict=True))
    name, _, rest = title.partition("   ")
    below = "".join(f'<div style="{_QUIET}">{escape(note)}</div>' for note in notes)
    return (
        f'<div style="margin:4px 0"><b>{escape(name)}</b> {escape(rest)}</div>'
        '<div tabindex="0" style="overflow-x:auto"><table style="border-collapse:collapse;'
        'font-variant-numeric:tabular-nums;font-size:13px">'
        f"<thead>{row(head, 'th')}</thead><tbody>{body}</tbody></table></div>{below}"
    )


def text_html(text: str) -> str:
    """Returns a text of which so many lines as fit are shown."""
    lines = text.rstrip().split("\n")
    more = [f"... {len(lines) - MOST_SHOWN} more lines"] if len(lines) > MOST_SHOWN else []
    visible = "\n".join([*lines[:MOST_SHOWN], *more])
    return f'<pre style="{_PRE}">{escape(visible)}</pre>'


def folded_html(title: str, inside: str, opened: bool = False) -> str:
    """Returns HTML under a title that unfolds it."""
    return f"<details{' open' * opened}><summary>{escape(title)}</summary>{inside}</details>"


def lowered_html(name: str, built: Built) -> str:
    """Returns the code for one kind of arguments: its levels, folded but for the graph."""
    levels = [n for n in LEVELS if n in built.levels and n not in ("llvm", "asm")]
    texts = [folded_html(n, text_html(built.as_text(n)), n == "graph") for n in levels]
    return f"<div><b>{escape(name)}</b> {escape(built.summary)}</div>{''.join(texts)}"


def function_html(name: str, hits: int, reasons: Mapping[Any, str]) -> str:
    """Returns a compiled function as the table of the kinds of arguments it has code for."""
    rows = [(str(request), reason) for request, reason in reasons.items()]
    kinds = f"{len(rows)} kind{'s' * (len(rows) != 1)} of arguments"
    title = f"{name}   compiled for {kinds}, {hits} hits"
    return table_html(title, ("arguments", "why it was compiled"), rows, left=(0, 1))


class NotebookProgress(Silent):
    """tqdm's bar for notebooks: the budget, and the kernel that was measured last."""

    def __init__(self) -> None:
        self._bar: Any = None

    def update(self, tuner: Tuned, clock: BudgetClock) -> None:
        """Moves the bar to the share of the budget that is spent."""
        if self._bar is None:
            from tqdm.auto import tqdm

            layout = "{desc} {percentage:3.0f}%|{bar}| {postfix}"
            self._bar = tqdm(total=1.0, desc="tuning", bar_format=layout)
        done, left = clock.elapsed, clock.expected_seconds_left
        self._bar.n = done / (done + left) if math.isfinite(left) and done + left > 0 else 0.0
        self._bar.set_postfix_str(f"{clock.trials} candidates, {describe(tuner)}")

    def __exit__(self, *details: object) -> None:
        if self._bar is not None:
            self._bar.close()
