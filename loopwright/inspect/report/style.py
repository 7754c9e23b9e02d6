"""Style sheet (light and dark) and script of the page."""

from __future__ import annotations

_LIGHT = """
  --paper: #fbfbfa; --card: #ffffff; --ink: #1c232b; --quiet: #5b6672; --line: #e4e6e9;
  --soft: #f2f3f5; --accent: #1f5fd6; --good: #11795a; --bad: #b3391f; --warn: #9a5a00;
  --l1: #0f8a5f; --l2: #2563eb; --l3: #b45309; --dram: #be185d; --compute: #3d4852;
  --s-run: #1f5fd6; --s-check: #0e8a8a; --s-build: #8a6bd1; --s-engine: #c2711c; --s-rest: #b4bac2;
  --kind: #7a3fc4; --word: #1f5fd6; --type: #11795a; --number: #a3541b;
"""
_DARK = """
  --paper: #12161b; --card: #191f26; --ink: #e6e9ed; --quiet: #9aa5b1; --line: #2a323c;
  --soft: #20272f; --accent: #7aa7ff; --good: #4fd1a5; --bad: #ff8f78; --warn: #f0b35e;
  --l1: #34d399; --l2: #7aa7ff; --l3: #f0a94e; --dram: #f472b6; --compute: #cbd2d9;
  --s-run: #6d9cf5; --s-check: #3fbdbd; --s-build: #a98df0; --s-engine: #e39a4b; --s-rest: #4b5562;
  --kind: #c9a2ff; --word: #7aa7ff; --type: #4fd1a5; --number: #f0b35e;
"""

CSS = (
    f":root {{ color-scheme: light;{_LIGHT}}}\n"
    f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) "
    f"{{ color-scheme: dark;{_DARK}}} }}\n"
    f":root[data-theme=dark] {{ color-scheme: dark;{_DARK}}}\n"
    + """
* { box-sizing: border-box }
html { scroll-behavior: smooth; scroll-padding-top: 1rem }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto } }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif }
main, header, footer { max-width: 1120px; margin: 0 auto; padding: 0 24px }
header { padding-top: 36px; display: flex; gap: 16px; align-items: flex-start;
  justify-content: space-between }
h1 { font-size: 26px; line-height: 1.2; font-weight: 650; letter-spacing: -.01em; margin: 0;
  overflow-wrap: anywhere }
h2 { font-size: 18px; font-weight: 650; margin: 44px 0 6px }
h3 { font-size: 14px; font-weight: 650; margin: 0 0 8px }
p { margin: 4px 0 12px; max-width: 76ch }
a { color: var(--accent) }
.quiet, figcaption { color: var(--quiet) }
figcaption { font-size: 13px; margin-top: 6px }
.skip { position: absolute; left: -999px }
.skip:focus { left: 16px; top: 8px; background: var(--card); padding: 6px 10px; z-index: 2 }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 4px }
button, input { font: inherit; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: 8px; padding: 5px 12px }
button { cursor: pointer } button:hover { border-color: var(--quiet) }
input::placeholder { color: var(--quiet); opacity: 1 }
.facts { display: flex; flex-wrap: wrap; margin: 22px 0 0; background: var(--card);
  border: 1px solid var(--line); border-radius: 12px; overflow: hidden }
.facts div { flex: 1 1 150px; padding: 12px 16px; box-shadow: 0 0 0 .5px var(--line) }
.facts dt { color: var(--quiet); font-size: 13px }
.facts dd { margin: 0; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums }
.facts dd small { display: block; font-size: 13px; font-weight: 400; color: var(--quiet) }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 12px;
  background: var(--card) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; padding: 8px 14px; white-space: nowrap }
th:first-child, td:first-child, .left { text-align: left }
thead th { font-weight: 500; font-size: 13px; color: var(--quiet);
  border-bottom: 1px solid var(--line) }
tbody tr + tr td { border-top: 1px solid var(--soft) }
tbody tr:hover td { background: var(--soft) }
td a { text-decoration: none } td a:hover { text-decoration: underline }
th button { all: unset; cursor: pointer }
th button:focus-visible { outline: 2px solid var(--accent) }
th[aria-sort=ascending] button::after { content: " \\2191" }
th[aria-sort=descending] button::after { content: " \\2193" }
.name { font-weight: 550; max-width: 330px; overflow: hidden; text-overflow: ellipsis;
  display: block }
.sizes { display: block; color: var(--quiet); font-size: 12.5px; max-width: 330px;
  overflow: hidden; text-overflow: ellipsis }
.bar-row { display: flex; gap: 12px; align-items: center; justify-content: space-between;
  margin: 8px 0 10px; flex-wrap: wrap }
.meter { display: inline-block; width: 56px; height: 6px; border-radius: 3px; margin-right: 8px;
  background: var(--soft); vertical-align: 2px; overflow: hidden }
.meter i { display: block; height: 100%; background: var(--accent) }
.kernel { border: 1px solid var(--line); border-radius: 12px; background: var(--card);
  margin: 14px 0; overflow: hidden }
.kernel > summary { cursor: pointer; padding: 14px 18px; display: flex; gap: 6px 18px;
  flex-wrap: wrap; align-items: baseline; list-style: none }
.kernel > summary::-webkit-details-marker { display: none }
.kernel > summary::before { content: "\\25B8"; color: var(--quiet); width: 10px }
.kernel[open] > summary::before { content: "\\25BE" }
.kernel > summary b { font-weight: 620; overflow-wrap: anywhere }
.kernel > summary .time { margin-left: auto; font-variant-numeric: tabular-nums }
.inside { padding: 4px 18px 18px; display: grid; gap: 26px; grid-template-columns: 1fr 1fr }
.inside > * { min-width: 0; margin: 0 } .wide { grid-column: 1 / -1 }
figure { margin: 0 }
svg { display: block; width: 100%; height: auto }
.chart text { font: 11.5px system-ui, sans-serif; fill: var(--quiet) }
.right { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: var(--line) } .axis { stroke: var(--quiet); opacity: .5 }
.dot { fill: var(--accent); opacity: .38 } .dot:hover { opacity: 1 }
.raced { fill: var(--good); opacity: .8 }
.failed { stroke: var(--bad); fill: none; stroke-width: 1.4; opacity: .75 }
.best { fill: none; stroke: var(--ink); stroke-width: 1.6; stroke-linejoin: round }
pre { margin: 0; padding: 14px 16px; background: var(--soft); border-radius: 8px;
  overflow-x: auto; font: 12.5px/1.55 ui-monospace, "SF Mono", Menlo, Consolas, monospace;
  tab-size: 2 }
pre b { font-weight: inherit } pre .kind { color: var(--kind); font-weight: 650 }
pre .word, pre .operator { color: var(--word) } pre .type { color: var(--type) }
pre .number { color: var(--number) }
.worth td, .worth th { padding: 6px 12px } .worth .bar { width: 110px; height: 10px }
.worth td.meaning { white-space: normal; color: var(--quiet); font-size: 13px; min-width: 200px }
td.site { white-space: normal; min-width: 240px; overflow-wrap: anywhere; font-size: 13px;
  color: var(--quiet) }
.track { fill: var(--soft) } .slower { fill: var(--accent) } .faster { fill: var(--warn) }
.predicted .slower, .predicted .faster { opacity: .42 }
.tag { font-size: 12px; padding: 1px 8px; border-radius: 9px; border: 1px solid var(--line);
  color: var(--quiet); white-space: nowrap }
.tag.bad { color: var(--bad); border-color: currentColor }
.tag.good { color: var(--good); border-color: currentColor }
.seconds { height: 22px; border-radius: 6px; overflow: hidden }
.s-run { fill: var(--s-run); background: var(--s-run) }
.s-check { fill: var(--s-check); background: var(--s-check) }
.s-build { fill: var(--s-build); background: var(--s-build) }
.s-engine { fill: var(--s-engine); background: var(--s-engine) }
.s-rest { fill: var(--s-rest); background: var(--s-rest) }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; color: var(--quiet);
  margin: 8px 0 0; padding: 0; list-style: none }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 3px;
  margin-right: 6px }
.run { margin: 14px 0 20px } .run p { margin: 0 0 6px }
.roof { padding: 8px } .roof svg { min-width: 620px; max-width: 860px !important; margin: 0 auto }
.roofline text { font: 12px system-ui, sans-serif; fill: var(--ink) }
.roofline .title { font-size: 15px; font-weight: 600 }
.roofline .paper { fill: none }
.roofline .quiet, .roofline .head { fill: var(--quiet) } .roofline .head { font-size: 11px }
.roofline .number { font-size: 11px; font-weight: 600 }
.roofline .roof { fill: none; stroke-width: 2 }
.roofline .gap { stroke-dasharray: 2 3; opacity: .7 } .roofline .lead { stroke: var(--quiet) }
.roofline .point { stroke: var(--card); stroke-width: 1.5 }
.roofline .compute { stroke: var(--compute); fill: var(--compute) }
.roofline .l1 { stroke: var(--l1); fill: var(--l1) }
.roofline .l2 { stroke: var(--l2); fill: var(--l2) }
.roofline .l3 { stroke: var(--l3); fill: var(--l3) }
.roofline .dram { stroke: var(--dram); fill: var(--dram) }
.roofline text.compute, .roofline text.l1, .roofline text.l2, .roofline text.l3,
.roofline text.dram { stroke: none; font-size: 11px }
.roofline .point.compute, .roofline .point.l1, .roofline .point.l2, .roofline .point.l3,
.roofline .point.dram { stroke: var(--card) }
footer { padding: 40px 24px 48px; color: var(--quiet); font-size: 13px }
[hidden] { display: none !important }
@media (max-width: 760px) {
  main, header { padding-left: 16px; padding-right: 16px } h1 { font-size: 21px }
  .inside { grid-template-columns: 1fr; padding: 4px 12px 14px }
  th, td { padding: 7px 10px } .name, .sizes { max-width: 200px }
  .kernel > summary .time { margin-left: 0 } input { width: 100% }
}
@media print { button, input { display: none } .kernel { break-inside: avoid } }
"""
)

THEME = """
(() => {
  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const say = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.hidden = false;
  theme.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; say(); });
  say();
})();
"""
"""The button between light and dark."""

SCRIPT = (
    THEME
    + """
(() => {
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const value = (row) => {
          const raw = row.cells[column].dataset.value;
          return raw === undefined ? row.cells[column].textContent : parseFloat(raw);
        };
        const rows = [...body.rows].sort((a, b) => {
          const x = value(a), y = value(b);
          const order = typeof x === "number" ? x - y : x.localeCompare(y);
          return up ? order : -order;
        });
        body.append(...rows);
      });
    });
  }
  const filter = document.getElementById("filter");
  if (filter) filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    for (const item of document.querySelectorAll("[data-filter]"))
      item.hidden = !item.dataset.filter.toLowerCase().includes(wanted);
  });
  const open = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const found = id && document.getElementById(id);
    if (found && found.tagName === "DETAILS") { found.open = true; found.scrollIntoView(); }
  };
  addEventListener("hashchange", open);
  open();
})();
"""
)
