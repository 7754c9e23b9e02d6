"""Reports of quantised programs: a table, and a page with a picture of each histogram."""

from __future__ import annotations

from html import escape
from pathlib import Path

from ..ir.dataclass import dataclass
from ..text import bytes_text
from .profile import BINS, Observed, Profile

BARS = 64
"""Bars of a picture of a histogram."""

_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>{name}: quantised</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 64em; color: #222 }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; padding: .25em .8em; border-bottom: 1px solid #ddd }}
td.n {{ text-align: right; font-variant-numeric: tabular-nums }}
svg rect {{ fill: #3568a8 }} .e {{ background: #c8553d; height: .8em; display: inline-block }}
.f {{ color: #888 }}
</style>
<h1>{name}</h1>
<p>{summary}</p>
<h2>Contractions</h2>
<p>The error of each is that of its own factors being rounded, as a part of its result's norm.</p>
<table><tr><th>where</th><th>weights</th><th>error</th><th></th></tr>{sites}</table>
{left}<h2>Values</h2>
<p>The elements on {samples} samples, by value, with the share of each bin as the root of it.</p>
<table><tr><th>where</th><th>from</th><th>to</th><th>histogram</th></tr>{values}</table>
"""


@dataclass(frozen=True, slots=True)
class SiteReport:
    """A contraction: how many constant ``weights`` it has, and how far its result is off by
    itself, as a part of its norm. ``is_float``: it was left as it was. ``bits`` are those of a
    weight; of weights alone ``nearest`` is the error with each rounded by itself."""

    name: str
    weights: int
    error: float
    is_float: bool
    bits: int = 8
    nearest: float | None = None


@dataclass(frozen=True, slots=True)
class QuantisationReport:
    """``error`` is that of the results of some samples, as a part of their norm; ``seconds`` are
    those of a call before and after; ``left`` are contractions that no scheme of this kind takes,
    with the reasons."""

    name: str
    sites: tuple[SiteReport, ...]
    profile: Profile
    error: float
    seconds: tuple[float, ...]
    left: tuple[str, ...] = ()

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes of the weights before and after."""
        before = sum(4 * site.weights for site in self.sites)
        return before, sum((32 if s.is_float else s.bits) * s.weights // 8 for s in self.sites)

    def summary(self) -> str:
        """Returns one line."""
        floats = sum(site.is_float for site in self.sites)
        before, after = map(bytes_text, self.bytes)
        slow, quick = self.seconds
        kept = f", {floats} of them in float32" if floats else ""
        return (
            f"{len(self.sites)} contractions{kept}; results differ by {self.error:.2%} of their "
            f"norm; weights {before} -> {after}; a call {slow * 1e3:.3g} -> {quick * 1e3:.3g} ms"
        )

    def __str__(self) -> str:
        rows = [f"{self.name}: {self.summary()}", "", "  error   weights  where"]
        for site in sorted(self.sites, key=lambda s: -s.error):
            mark = "" if site.nearest is None else f"  ({site.nearest:.2%} by the nearest)"
            mark = "  (float32)" if site.is_float else mark
            rows.append(f"{site.error:7.2%} {site.weights:9,}  {site.name}{mark}")
        rows += [f"left as it was: {text}" for text in self.left]
        return "\n".join(rows)

    def save(self, path: str | Path) -> None:
        """Writes the report as one page of HTML. Raises OSError if it cannot be written."""
        worst = max((site.error for site in self.sites), default=0.0) or 1.0
        sites = "".join(
            f"<tr{' class=f' * s.is_float}><td>{escape(s.name)}</td><td class=n>{s.weights:,}</td>"
            f"<td class=n>{s.error:.2%}</td><td><span class=e "
            f'style="width:{12 * s.error / worst:.2f}em"></span></td></tr>'
            for s in self.sites
        )
        values = "".join(
            f"<tr><td>{escape(name)}</td><td class=n>{v.least:.4g}</td>"
            f"<td class=n>{v.greatest:.4g}</td><td>{_picture(v)}</td></tr>"
            for name, v in self.profile.values.items()
        )
        page = _PAGE.format(
            name=escape(self.name),
            summary=escape(self.summary()),
            sites=sites,
            left="".join(f"<p>Left as it was: {escape(text)}</p>" for text in self.left),
            values=values,
            samples=self.profile.samples,
        )
        Path(path).write_text(page, encoding="utf-8")


def _picture(observed: Observed) -> str:
    heights = observed.counts.reshape(BARS, BINS // BARS).sum(axis=1) ** 0.5
    top = heights.max() or 1.0
    bars = "".join(
        f'<rect x="{3 * n}" y="{28 - 28 * h / top:.1f}" width="2" height="{28 * h / top:.1f}"/>'
        for n, h in enumerate(heights)
    )
    return f'<svg width="{3 * BARS}" height="28" role="img" aria-label="histogram">{bars}</svg>'
