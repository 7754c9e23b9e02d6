"""Style sheet of the page, behind that of reports, whose colours it has."""

CSS = """
html, body { height: 100% }
body { display: flex; flex-direction: column; gap: 10px; padding: 16px 20px 10px }
main, header, footer { max-width: none; margin: 0; padding: 0 }
header { align-items: center } header p { margin: 2px 0 0; max-width: none; font-size: 13.5px }
h1 { font-size: 20px } h2 { margin: 0 }
.hide { position: absolute; left: -999px }
#strip { display: flex; gap: 2px; height: 30px; flex: none }
#strip button { flex: 1 1 0; min-width: 4px; padding: 0 6px; border: 0; border-radius: 5px;
  background: color-mix(in srgb, var(--accent) 17%, var(--card)); overflow: hidden;
  text-align: left; font-size: 12px; white-space: nowrap; transition: background .12s }
#strip span { opacity: .85 }
#strip button.lit { background: color-mix(in srgb, var(--accent) 38%, var(--card)) }
#strip button[aria-pressed=true] { background: var(--accent); color: var(--card) }
#strip button:has(> span) { min-width: 0 }
#card { display: flex; flex-wrap: wrap; gap: 6px 28px; align-items: baseline; flex: none }
#card h2 { font-size: 15px; overflow-wrap: anywhere }
#card dl { display: flex; flex-wrap: wrap; gap: 4px 26px; margin: 0; flex: 1 }
#card dl > div { display: flex; gap: 7px; align-items: baseline }
#card .wide { flex: 1 1 260px }
dt { color: var(--quiet); font-size: 12.5px }
dd { margin: 0; font-size: 13px; font-variant-numeric: tabular-nums }
dd small { color: var(--quiet); margin-left: 7px; font-size: 12.5px }
dd .meter { margin: 0 0 0 8px }
details { position: relative }
details summary { cursor: pointer; font-size: 13px; color: var(--quiet) }
.charts { display: flex; flex-wrap: wrap; gap: 16px } .charts > * { flex: 1 1 340px }
#chips { display: flex; flex-wrap: wrap; gap: 6px; flex: none }
#chips button { padding: 2px 12px; border-radius: 999px; font-size: 13px; color: var(--quiet);
  background: none }
#chips button[aria-pressed=true] { color: var(--ink); background: var(--card);
  border-color: var(--quiet) }
#panes { flex: 1; min-height: 260px; display: grid; gap: 12px;
  grid-template-columns: repeat(var(--count, 3), minmax(280px, 1fr)); overflow-x: auto }
.pane { position: relative; display: flex; flex-direction: column; min-width: 0; min-height: 0;
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; overflow: hidden }
.pane h2 { font-size: 13px; padding: 8px 14px; border-bottom: 1px solid var(--line);
  white-space: nowrap; overflow: hidden; text-overflow: ellipsis }
.pane h2 small { font-weight: 400; color: var(--quiet); margin-left: 10px; font-size: 12.5px }
.lines { overflow: auto; flex: 1; padding: 6px 0; outline-offset: -3px; cursor: default;
  font: 12.5px/20px ui-monospace, "SF Mono", Menlo, Consolas, monospace }
.line { display: flex; width: max-content; min-width: 100%; height: 20px; padding-right: 22px }
.line code { font: inherit; white-space: pre }
.line .quiet { color: var(--quiet) }
.line u { flex: none; width: 3px; margin: 1px 10px 1px 0; opacity: .75 }
.line s { flex: none; width: var(--digits); margin-right: 14px; text-align: right;
  text-decoration: none; color: var(--quiet); user-select: none }
.line.head { font-weight: 600 }
.line b { font-weight: inherit } .line .kind { color: var(--kind) }
.line .word { color: var(--word) }
.line .type { color: var(--type) } .line .number, .line .text { color: var(--number) }
.lit { background: color-mix(in srgb, var(--accent) 11%, transparent) } .lit u { opacity: 1 }
.lit s { color: inherit }
.here { background: color-mix(in srgb, var(--accent) 26%, transparent) }
.rail { position: absolute; right: 1px; top: 40px; bottom: 4px; width: 5px; pointer-events: none }
.rail i { position: absolute; width: 5px; height: 2px; background: var(--accent); opacity: .7 }
details[open] > div { position: absolute; right: 0; top: 30px; padding: 12px; z-index: 3;
  width: min(860px, 90vw); background: var(--card); border: 1px solid var(--line);
  border-radius: 12px; max-height: 80vh; overflow: auto }
.tools { display: flex; gap: 14px; align-items: center; flex: none }
footer { font-size: 12.5px; flex: none; color: var(--quiet) }
kbd { font: inherit; border: 1px solid var(--line); border-radius: 4px; padding: 0 5px }
@media (max-width: 760px) {
  html, body { height: auto } body { padding: 12px }
  #panes { grid-template-columns: 1fr; overflow: visible } .pane { height: 46vh }
  header { flex-wrap: wrap } footer { display: none }
  #card { display: block } #card dl, #card h2 { margin-bottom: 6px }
}
"""
