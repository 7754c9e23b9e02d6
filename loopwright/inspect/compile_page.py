"""Writes a page about one compile: how long it took, what each pass changed, where schedules came
from, and why the function was compiled. ``LOOPWRIGHT_TRACE=folder`` writes one for each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from urllib.parse import quote

from ..driver.built import Built, Source
from ..face.ready import Specialisation
from ..ir.dims import typical
from ..ir.graph.nodes import Call, Function, Module
from ..ir.graph.operator import Operator
from ..ir.graph.printer import span_text
from ..ir.graph.walk import all_bindings
from ..ir.pass_context import PassContext, PassRun
from ..text import bytes_text, seconds_text, shortened
from .html import document
from .kernel_calls import SPAN_WIDTH, works_of
from .notebook import folded_html, table_html, text_html

LISTED_CHANGES = 8
"""Operators that are listed for a pass; the rest is counted."""

_LEVELS = ("kernels", "loops", "program")

_CSS = """
:root{color-scheme:light dark}body{background:Canvas;color:CanvasText}
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:1.5em auto;padding:0 1em}
h1{font-size:1.4em;overflow-wrap:anywhere}h2{font-size:1.1em;margin:1.6em 0 .3em}
code,pre{font-family:ui-monospace,Menlo,Consolas,monospace}summary{cursor:pointer}
"""


def write_files(name: str, made: Specialisation, dump: Path | None, folder: Path | None) -> None:
    """Writes every level of a compile to files that begin with ``dump``, and its page into a
    ``folder``, as far as they are given."""
    if dump is not None:
        dump.with_name(f"{dump.name}-traced.txt").write_text(made.traced.as_text())
        for level in made.built.levels:
            dump.with_name(f"{dump.name}-{level}.txt").write_text(made.built.as_text(level))
    if folder is not None:
        write_page(name, made, folder)


def write_page(name: str, made: Specialisation, folder: Path) -> Path:
    """Writes the page of a compile of the function ``name`` and returns its path: the folder's next
    number, and the name. The folder is made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = sorted(p.name for p in folder.glob("[0-9][0-9][0-9]*-*.html"))
    path = folder / f"{len(pages):03}-{name}.html"
    earlier = [page for page in pages if page.partition("-")[2] == f"{name}.html"]
    path.write_text(page_text(name, made, earlier), encoding="utf-8")
    return path


def page_text(name: str, made: Specialisation, earlier: list[str]) -> str:
    """Returns the page as HTML; ``earlier`` are the pages of the same function."""
    built, loops = made.built, made.traced.loops
    links = ", ".join(f'<a href="{quote(page)}">{escape(page)}</a>' for page in earlier)
    parts = [
        f"<main><h1>{escape(f'{name}({made.traced.request})')}</h1>",
        f"<p>Compiled in {seconds_text(made.seconds)}. Why: {escape(made.reason)}.</p>",
        f"<p>Compiled before: {links}.</p>" * bool(links),
        f"<p>{escape(built.summary)}</p>",
    ]
    changes = _Changes()
    if built.source is not None and built.has_weights:
        _lower_again(built.source, changes)
    parts += ["<h2>Phases</h2>", _phases(made, changes)]
    parts += ["<h2>Passes over the graph</h2>", changes.table()] * bool(changes.rows)
    if built.parts is not None and built.kernels:
        parts += ["<h2>Kernels</h2>", _kernels(built)]
    if loops:
        lines = "".join(f"<li>{escape(str(loop))}</li>" for loop in loops)
        parts.append(f"<h2>Loops of Python's</h2><ul>{lines}</ul>")
    levels = {"traced": made.traced.as_text()}
    levels |= {level: built.as_text(level) for level in _LEVELS if level in built.levels}
    parts.append("<h2>Code</h2>")
    parts += [folded_html(level, text_html(text)) for level, text in levels.items()]
    return document(f"{name}: a compile", "\n".join([*parts, "</main>"]), _CSS, "")


class _Changes:
    """An observer of passes: what each of them changed, in words."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.rows: list[tuple[str, str, str]] = []

    def after(self, run: PassRun, before: Module, after: Module) -> None:
        """Notes a pass over the graph."""
        self.seconds += run.seconds
        what = _difference(before, after) if run.changed else "nothing"
        self.rows.append((run.name, seconds_text(run.seconds), what))

    def table(self) -> str:
        """The passes that ran; those that changed nothing are one line."""
        idle = [name for name, _, what in self.rows if what == "nothing"]
        rows = [row for row in self.rows if row[2] != "nothing"]
        notes = [f"Changed nothing: {', '.join(idle)}."] if idle else []
        notes.append("Times are those of a second run of these passes.")
        return table_html("", ("pass", "time", "changed"), rows, left=(0, 2), notes=notes)


def _lower_again(source: Source, changes: _Changes) -> None:
    """Runs the passes over the graph once more, with an observer."""
    old = source.passes
    context = PassContext(0, None, old.disabled, old.opt_level, (changes,))
    source.lower(source.module, context)


def _operators(module: Module) -> Iterator[str]:
    for function in module.functions.values():
        if not isinstance(function, Function):
            continue
        for binding in all_bindings(function):
            value = binding.value
            if isinstance(value, Call) and isinstance(value.op, Operator):
                yield value.op.name


def _difference(before: Module, after: Module) -> str:
    """Returns which operators a pass took and made, and how many functions."""
    old, new = Counter(_operators(before)), Counter(_operators(after))
    counts = {name: new[name] - old[name] for name in {**old, **new} if new[name] != old[name]}
    ordered = sorted(counts.items(), key=lambda item: (-abs(item[1]), item[0]))
    words = [f"{count:+} {name}" for name, count in ordered[:LISTED_CHANGES]]
    if len(ordered) > LISTED_CHANGES:
        words.append(f"{len(ordered) - LISTED_CHANGES} other operators")
    functions = len(after.functions) - len(before.functions)
    if functions:
        words.append(f"{functions:+} functions")
    return ", ".join(words) or "operands, attributes or order"


def _phases(made: Specialisation, changes: _Changes) -> str:
    rest = max(0.0, made.seconds - made.tracing - changes.seconds)
    phases = {
        "tracing": made.tracing,
        "passes over the graph": changes.seconds,
        "schedules, kernels and program": rest,
    }
    rows = [(phase, seconds_text(seconds)) for phase, seconds in phases.items()]
    shares = [seconds / made.seconds if made.seconds else 0.0 for seconds in phases.values()]
    return table_html("", ("phase", "time"), rows, shares=shares)


def _kernels(built: Built) -> str:
    assert built.parts is not None
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for call, place, _, work in works_of(built.parts, built.parts.target):
        chosen = built.chosen[call.kernel]
        measured = seconds_text(chosen.seconds) if chosen.seconds else "not measured"
        origin = f"{chosen.origin.text}, {chosen.sketch}"
        if chosen.gain > 1:
            origin += f", at {chosen.gain:.2f}x the default's speed"
        line = "" if call.span is None else shortened(span_text(call.span), SPAN_WIDTH)
        size = bytes_text(typical(place.nbytes))
        row = (call.kernel, line, origin, measured, f"{work.flops:,.0f}", size)
        rows += [row] * (row not in rows)
        why = [f"{call.kernel}: {reason} was refused" for reason in chosen.refused]
        why += [f"{call.kernel}: passed over: {reason}" for reason in chosen.passed]
        notes += [note for note in why if note not in notes]
    head = ("kernel", "line", "its schedule", "in the log", "operations", "operands")
    return table_html("", head, rows, left=(0, 1, 2), notes=notes)
