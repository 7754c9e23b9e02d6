"""Script of the page: it unpacks the data, draws what is shown, and lights a line's kin."""

SCRIPT = r"""
const LEVELS = [
  ["source", "Source", "what you wrote"],
  ["graph", "Graph", "what is computed, as traced"],
  ["kernel", "Kernel", "one group of operators, as tensor expressions"],
  ["loops", "Loops", "the kernel as a loop nest, with its schedule applied"],
  ["vector", "Vectors", "the loop nest as the target runs it"],
  ["program", "Program", "the kernels in order, on planned memory"],
  ["llvm", "LLVM", "the kernel's LLVM text"],
  ["asm", "Assembly", "the kernel's machine code"],
];
const WORDS = new Set(("def return for while if elif else in import from as with lambda not and " +
  "or class is None True False prim let registers stack prefetch stream packs const workspace " +
  "program function alloc free call arena at define internal declare nounwind").split(" "));
const KINDS = /^(?:parallel|vectorize|unroll|reduce|requires)$/;
const TYPES =
  /^(?:(?:float|int|uint|bool|bfloat|complex|i|u|f)\d*|ptr|double|half|Tensor|void|label)$/;
const TOKEN = new RegExp([
  /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\/\*.*?\*\/)/,  // quoted
  /(%?[A-Za-z_.$][\w.$]*)/,                                // a word
  /((?<![\w.])-?\d[\d.]*(?:e[-+]?\d+)?[fFu]?\b)/,         // a number
  /([<>&])/,
].map((part) => part.source).join("|"), "g");
const $ = (id) => document.getElementById(id);
const make = (tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
};
const ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"};
const escaped = (text) => text.replace(/[&<>]/g, (sign) => ENTITIES[sign]);
const bold = (kind, text) => `<b class="${kind}">${escaped(text)}</b>`;
function coloured(text, level) {
  const mark = level === "source" ? text.search(/#(?=[^"']*$)/) : -1;
  const code = mark < 0 ? text : text.slice(0, mark), note = mark < 0 ? "" : text.slice(mark);
  let opcode = (level === "asm" || level === "llvm") && /^\s/.test(text);
  return code.replace(TOKEN, (all, quoted, word, number, sign) => {
    if (sign) return escaped(sign);
    if (quoted) return bold(quoted.startsWith("/*") ? "quiet" : "text", quoted);
    if (number) return bold("number", number);
    if (word[0] === "%") return level === "asm" ? bold("type", word) : word;
    if (opcode && word[0] !== ".") {
      opcode = false;
      return bold(level === "asm" && word[0] === "v" ? "kind" : "word", word);
    }
    if (KINDS.test(word)) return bold("kind", word);
    if (WORDS.has(word)) return bold("word", word);
    return TYPES.test(word) ? bold("type", word) : word;
  }) + (note && bold("quiet", note));
}

let data, kernel = 0, shown = new Set(), panes = new Map(), cursor = null, lit = [];
const meets = (some, others) => some.some((each) => others.includes(each));
const titleOf = (level) => LEVELS.find(([name]) => name === level)[1];

// The rows of a level: {text, sources, steps, cover, llvm, number}.
function rowsOf(level) {
  if (level === "source") return data.source.flatMap(({file, lines}) => [
    ...(data.source.length > 1 ? [{text: file, sources: [], head: true}] : []),
    ...lines.map(([number, text, place]) => (
      {text: number ? text : "···", number: number || "", sources: place < 0 ? [] : [place]})),
  ]);
  const from = data[level] || data.kernels[kernel].levels[level];
  const rows = from.text.split("\n").map((text, n) => ({
    text, number: n + 1, sources: from.sources[n] || [], steps: from.steps && (from.steps[n] || []),
    llvm: level === "llvm" ? n : from.llvm ? from.llvm[n] : undefined,
  }));
  if (level === "loops" || level === "vector") {
    const depth = rows.map((row) => row.text.search(/\S/));
    rows.forEach((row, n) => {
      if (!row.text.endsWith(":")) return;
      let end = n + 1;
      while (end < rows.length && depth[end] > depth[n]) end++;
      row.cover = rows.slice(n, end).flatMap((inner) => inner.steps);
    });
  }
  return rows;
}
function related(a, b) {
  if (a === b) return true;
  if (a.llvm !== undefined && b.llvm !== undefined) return a.llvm >= 0 && a.llvm === b.llvm;
  if (a.steps && b.steps) return meets(a.cover || a.steps, b.steps);
  return meets(a.sources, b.sources);
}

function hue(place) { return `hsl(${(place * 137.5 + 210) % 360} 60% 56%)`; }
function tint(sources) {
  if (!sources.length) return "transparent";
  const colours = sources.slice(0, 5).map(hue);
  const step = 100 / colours.length;
  return `linear-gradient(${colours.map((c, n) => `${c} ${n * step}% ${(n + 1) * step}%`)})`;
}
function draw(level) {
  const [, title, what] = LEVELS.find(([name]) => name === level);
  const pane = make("section", undefined, "pane");
  const list = make("div", undefined, "lines"), rail = make("div", undefined, "rail");
  const head = make("h2", title);
  head.append(make("small", data[level] || level === "source" ? what : data.kernels[kernel].name));
  list.role = "listbox";
  list.tabIndex = 0;
  list.ariaLabel = `${title}: ${what}`;
  list.setAttribute("aria-multiselectable", "true");
  const rows = rowsOf(level);
  const widest = String(Math.max(...rows.map((row) => row.number || 0))).length;
  list.style.setProperty("--digits", `${widest}ch`);
  rows.forEach((row, n) => {
    const line = make("div", undefined, row.head ? "line head" : "line");
    line.role = "option";
    line.id = `${level}-${n}`;
    line.ariaSelected = "false";
    if (!row.text.trim()) line.ariaLabel = "empty line";
    line.innerHTML = `<u></u><s aria-hidden="true">${row.number ?? ""}</s>` +
      `<code>${coloured(row.text, level) || " "}</code>`;
    line.firstChild.style.background = tint(row.sources);
    row.line = line;
    row.level = level;
    list.append(line);
  });
  rail.ariaHidden = "true";
  pane.append(head, list, rail);
  const at = (event) => {
    const line = event.target.closest(".line");
    return line && rows[+line.id.split("-")[1]];
  };
  list.addEventListener("pointerover", (event) => { const row = at(event); if (row) light(row); });
  list.addEventListener("pointerleave", () => light(cursor));
  list.addEventListener("click", (event) => { const row = at(event); if (row) settle(row, true); });
  list.addEventListener("focus", () => { if (!cursor || cursor.level !== level) enter(level); });
  list.addEventListener("keydown", (event) => pressed(event, level));
  return {pane, list, rail, rows};
}
function light(row) {
  for (const {line} of lit) {
    line.classList.remove("lit", "here");
    line.ariaSelected = "false";
  }
  lit = [];
  const counts = [];
  for (const [level, {rows, rail, list}] of panes) {
    const hits = row ? rows.filter((other) => related(row, other)) : [];
    for (const {line} of hits) {
      line.classList.add("lit");
      line.ariaSelected = "true";
    }
    lit.push(...hits);
    const fits = list.scrollHeight <= list.clientHeight;
    rail.replaceChildren(...(fits ? [] : hits).slice(0, 400).map((hit) => {
      const tick = make("i");
      tick.style.top = `${100 * rows.indexOf(hit) / rows.length}%`;
      return tick;
    }));
    if (hits.length && level !== row.level) counts.push(`${titleOf(level)} ${hits.length}`);
  }
  if (row) row.line.classList.add("here");
  const inside = row && (row.steps || data.kernels[kernel].levels[row.level]);
  [...$("strip").children].forEach((bar, n) => bar.classList.toggle("lit", !!row &&
    (inside ? n === kernel : meets(row.sources, data.kernels[n].sources))));
  return counts;
}
function settle(row, scroll) {
  // A line of another kernel's shows that kernel: of several, the one that takes longest.
  let wanted = kernel;
  if (row.level === "program") {
    const name = /call (?:inline )?@([\w.]+)/.exec(row.text);
    if (name) wanted = data.kernels.findIndex((each) => each.name === name[1]);
  } else if ((row.level === "source" || row.level === "graph") && row.sources.length &&
             !meets(row.sources, data.kernels[kernel].sources)) {
    data.kernels.forEach((each, n) => {
      const better = wanted === kernel || each.seconds > data.kernels[wanted].seconds;
      if (meets(row.sources, each.sources) && better) wanted = n;
    });
  }
  if (wanted >= 0 && wanted !== kernel) {
    const place = panes.get(row.level).rows.indexOf(row);
    choose(wanted);
    row = panes.get(row.level).rows[place];
  }
  cursor = row;
  panes.get(row.level).list.setAttribute("aria-activedescendant", row.line.id);
  const counts = light(row);
  if (scroll) for (const [level, {list}] of panes) {
    const first = lit.find((each) => each.level === level);
    if (!first) continue;
    const {line} = level === row.level ? row : first;
    const top = line.offsetTop - list.offsetTop - list.scrollTop;
    const inView = top >= 0 && top + line.offsetHeight <= list.clientHeight;
    if (!inView) list.scrollTop += top - list.clientHeight / 3;
  }
  $("said").textContent = counts.length ? `lights ${counts.join(", ")}` : "";
}
function enter(level) {
  const {rows} = panes.get(level);
  const row = lit.find((each) => each.level === level) ||
    rows.find((each) => each.sources.length) || rows[0];
  if (row) settle(row, true);
}
function pressed(event, level) {
  const {rows, list} = panes.get(level), now = cursor ? rows.indexOf(cursor) : 0;
  const page = Math.floor(list.clientHeight / 20) || 10;
  const step = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9}[
    event.key];
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (step !== undefined) settle(rows[Math.max(0, Math.min(rows.length - 1, now + step))], true);
  else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const names = [...panes.keys()], aside = event.key === "ArrowLeft" ? -1 : 1;
    const next = names[names.indexOf(level) + aside];
    if (!next) return;
    enter(next);
    panes.get(next).list.focus();
  } else if (event.key === "[" || event.key === "]") {
    choose((kernel + (event.key === "[" ? -1 : 1) + data.kernels.length) % data.kernels.length);
    panes.get(level).list.focus();
  } else return;
  event.preventDefault();
}

function choose(number) {
  kernel = number;
  cursor = null;
  lit = [];
  [...$("strip").children].forEach((bar, n) => bar.setAttribute("aria-pressed", n === number));
  for (const level of [...panes.keys()]) if (!data[level]) show(level);
  card();
}
function show(level) {
  const made = draw(level), old = panes.get(level);
  if (old) old.pane.replaceWith(made.pane);
  panes.set(level, made);
  return made;
}
function arrange() {
  const names = LEVELS.map(([name]) => name).filter((name) => shown.has(name));
  panes = new Map(names.map((name) => [name, panes.get(name)]));
  lit = lit.filter((row) => shown.has(row.level));
  if (cursor && !shown.has(cursor.level)) cursor = null;
  for (const level of panes.keys()) if (!panes.get(level)) show(level);
  $("panes").replaceChildren(...[...panes.values()].map(({pane}) => pane));
  $("panes").style.setProperty("--count", panes.size);
  light(cursor);
}
function fact(name, value, more) {
  const box = make("div"), dd = make("dd", value);
  if (more) dd.append(more.nodeType ? more : make("small", more));
  box.append(make("dt", name), dd);
  return box;
}
function card() {
  const {name, facts, search} = data.kernels[kernel], list = make("dl");
  if (facts.time) {
    const meter = make("span", undefined, "meter"), fill = make("i");
    fill.style.width = `${Math.min(100, 100 * (facts.reached ?? 0))}%`;
    meter.append(fill);
    meter.ariaHidden = "true";
    const percent = (share) => `${Math.round(100 * share)} %`;
    const calls = facts.calls > 1 ? `, ${facts.calls} calls` : "";
    list.append(
      fact("time", facts.time, `${percent(facts.share)} of the call${calls}`),
      fact("bound by", facts.bound, `allows ${facts.allows}`),
      fact("reached", facts.reached === null ? "–" : percent(facts.reached), meter),
      ...(facts.rate ? [fact("rate", facts.rate)] : []),
      fact("schedule", facts.sketch || "–", facts.schedule),
    );
    list.lastChild.className = "wide";
  }
  const parts = [make("h2", name), list];
  if (search) {
    const box = make("details"), charts = make("div", undefined, "charts");
    charts.innerHTML = search.charts.join("");
    box.append(make("summary", `Search: ${search.text}`), charts);
    parts.push(box);
  }
  $("card").replaceChildren(...parts);
}
async function start() {
  const packed = Uint8Array.from(atob($("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  data = await new Response(stream).json();
  const total = data.kernels.reduce((sum, each) => sum + each.seconds, 0) || 1;
  for (const [n, each] of data.kernels.entries()) {
    const bar = make("button"), share = each.seconds / total;
    bar.type = "button";
    bar.style.flexGrow = Math.max(share * 1000, 1);
    bar.append(make("span", each.name));
    bar.title = `${each.name}${each.facts.time ? `  ${each.facts.time}` : ""}`;
    bar.ariaLabel = `Kernel ${bar.title}`;
    bar.addEventListener("click", () => choose(n));
    $("strip").append(bar);
  }
  shown = new Set(["source", "vector", ...(innerWidth < 760 ? [] : ["asm"]),
    ...(innerWidth < 1400 ? [] : ["kernel"])]);
  for (const [name, title, what] of LEVELS) {
    const chip = make("button", title);
    chip.type = "button";
    chip.title = what;
    chip.setAttribute("aria-pressed", shown.has(name));
    chip.addEventListener("click", () => {
      if (!shown.delete(name)) shown.add(name);
      chip.setAttribute("aria-pressed", shown.has(name));
      arrange();
    });
    $("chips").append(chip);
  }
  const times = data.kernels.map((each) => each.seconds);
  choose(times.indexOf(Math.max(...times)));
  arrange();
  const {sources} = data.kernels[kernel];
  const row = panes.get("source").rows.find((each) => meets(each.sources, sources));
  if (row) settle(row, true);
  document.documentElement.dataset.ready = "true";
}
start();
"""
