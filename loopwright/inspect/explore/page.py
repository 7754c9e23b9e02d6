"""The page of a compiled function as HTML. All text of the user's is escaped, or packed as data."""

from __future__ import annotations

import base64
import json
import zlib
from html import escape

from ...autotune.log.tuning_log import TuningLog
from ...autotune.record import own_version
from ...driver.built import Built
from ...text import seconds_text
from ..explain import Explanation
from ..html import document
from ..report.style import CSS as REPORT_CSS
from ..report.style import THEME
from ..roofline_svg import roofline_svg
from .collect import page_data
from .script import SCRIPT
from .style import CSS


def page(title: str, built: Built, explanation: Explanation, log: TuningLog | None = None) -> str:
    """Returns the page of ``built``, with the times and limits of ``explanation`` and, of ``log``,
    what the search tried. The data are packed: a network's levels are a megabyte of text.

    Raises UnsupportedError for a build that does not say what it is made of.
    """
    text = json.dumps(page_data(built, explanation, log), separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    machine, threads = explanation.machine, explanation.threads
    count = len(built.kernels)
    about = (
        f"{seconds_text(explanation.seconds)} a call, "
        f"{seconds_text(explanation.in_kernels)} of it in {count} kernel{'s' * (count != 1)} · "
        f"{machine.cpu}, {machine.isa}, {threads} thread{'s' * (threads != 1)}"
    )
    roof = roofline_svg(title, explanation, styled=False) if explanation.kernels else ""
    body = (
        '<a class="skip" href="#panes">Skip to the levels</a>\n'
        f'<header><div><h1>{escape(title)}</h1><p class="quiet">{escape(about)}</p></div>'
        '<div class="tools"><details class="roofbox"><summary>Roofline</summary>'
        f'<div class="roof">{roof}</div></details><button id="theme" type="button" hidden '
        'aria-label="Switch between light and dark">Dark</button></div></header>\n'
        "<noscript>This page shows its levels by a script of its own; it loads nothing.</noscript>"
        '<nav id="strip" aria-label="Kernels, as wide as their time"></nav>'
        '<section id="card" aria-label="The kernel that is shown"></section>'
        '<nav id="chips" aria-label="Levels that are shown"></nav>'
        '<main id="panes"></main><p id="said" class="hide" aria-live="polite"></p>\n'
        "<footer><kbd>↑</kbd> <kbd>↓</kbd> lines, <kbd>←</kbd> <kbd>→</kbd> levels, "
        "<kbd>[</kbd> <kbd>]</kbd> kernels. A click holds what a line lights. "
        f"loopwright {escape(own_version())}</footer>\n"
        f'<script type="application/octet-stream" id="data">{packed}</script>'
    )
    return document(f"{title} · explore", body, REPORT_CSS + CSS, THEME + SCRIPT)
