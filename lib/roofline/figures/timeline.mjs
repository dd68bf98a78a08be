// A timeline to zoom and pan: lanes of engines, DMA and throttling, and the causes of the gap.
//
// Every time, count and word comes in through `model`, from timelines.py. The page adds up the
// starts, which come as steps, finds which stretches of a cause lie over an event, and scales.

import { button, clamp, fitted, line, make, pointed, show, significant, sized, speaker,
  stage, tick } from "./plot.mjs";

const ISSUE = 1, CONTROL = 2, TRANSPOSE = 3;
const HEIGHTS = { cause: 18, dma: 34, throttle: 20 };  // px; 24 for the rest
const KIND = ["", "starts a transfer", "control: no work", "transpose: it moves data"];
const CLOSEST = 8;  // ns: the shortest view
// What is drawn on a tile of 8 by 8 px: each pattern is one shape.
const WEAVES = ["", "M-2 2 2-2M0 8 8 0M6 10 10 6", "M-2 6 2 10M0 0 8 8M6-2 10 2", "dots", "M0 4H8",
  "M4 0V8", "M-2 2 2-2M0 8 8 0M6 10 10 6M-2 6 2 10M0 0 8 8M6-2 10 2", "M0 4H8M4 0V8",
  "M0 6 4 2 8 6"];

const ns = (t) => String(Math.round(t)).replace(/\B(?=(\d{3})+$)/g, ",");
const strong = (words) => make("strong", {}, words);
// Columns of a lane in absolute ns; what was left out as saying nothing is filled in.
function unpack(lane, origin, words) {
  let at = origin;
  const numbers = (text) => text.split(" ").map((one) => parseInt(one, 36));
  const starts = numbers(lane.start).map((step) => (at += step)), found = { ...lane, starts };
  for (const name of ["long", "what", "n", "busy", "band", "line", "level", "packets", "bytes"]) {
    found[name] = lane[name] ? numbers(lane[name]) : starts.map(() => (name === "n" ? 1 : 0));
  }
  // Causes, and packets that are drawn as how many are under way, have no words of their own.
  const wordless = lane.kind === "cause" || lane.level || lane.packets || lane.bytes;
  const own = (i, nothing) => found.what.map((what) => (wordless ? nothing : words[what][i]));
  return { ...found, ends: starts.map((t, i) => t + found.long[i]),
    texts: own(0, ""), of: own(1, -1), tall: own(2, 100),
    top: Math.max(1, ...found.level), bands: 1 + Math.max(0, ...found.band) };
}

function render({ model, el }) {
  const first = model.get("from"), last = model.get("to"), causes = model.get("causes");
  const lanes = model.get("lanes").map((lane) => unpack(lane, first, model.get("words")))
    .sort((a, b) => a.core - b.core || (b.kind === "cause") - (a.kind === "cause"));
  const cores = [...new Set(lanes.map(({ core }) => core))];
  const least = Math.min(CLOSEST, last - first);
  const state = { from: first, to: last, lane: 0, event: -1, cause: -1, fingers: new Map(), down: null };

  // --- patterns ----------------------------------------------------------------------------

  const left = 70, known = new Set(), glass = make("svg:rect", { x: left, y: 0 });
  const defs = make("svg:defs", {}, make("svg:clipPath", { id: `${el.id}-clip` }, glass));
  function fill(family, pattern) {
    const id = `${el.id}-${family}-${pattern}`;
    if (!known.has(id)) {
      known.add(id);
      const weave = WEAVES[pattern];
      defs.append(make("svg:pattern", { id, class: `rl-lane-${family}`, width: 8, height: 8,
        patternUnits: "userSpaceOnUse" }, make("svg:rect", { class: "rl-ground", width: 8, height: 8 }),
      ...(weave === "dots" ? [2, 6].map((at) => make("svg:circle", { class: "rl-dots", cx: at, cy: at, r: 1.5 }))
        : weave ? [line(weave, "rl-weave")] : [])));
    }
    return `url("#${id}")`;
  }
  const swatch = (family, pattern) => make("svg:svg", { width: 18, height: 14, "aria-hidden": "true",
    class: `rl-lane-${family}` }, make("svg:rect", { class: "rl-swatch-box", x: 1, y: 1, width: 16,
    height: 12, fill: fill(family, pattern) }));
  // How an event is drawn: the family of its colour, its pattern.
  const look = (lane, i) => (lane.kind === "cause"
    ? [causes[lane.what[i]].family, causes[lane.what[i]].pattern]
    : lane.kind === "throttle" && lane.of[i] === CONTROL ? ["time", 0]
    : [lane.kind, { [ISSUE]: 4, [CONTROL]: 0, [TRANSPOSE]: 1 }[lane.of[i]] ?? 0]);

  // --- the picture -------------------------------------------------------------------------

  const scene = make("svg:g", { "aria-hidden": "true" });
  const svg = make("svg:svg", { "aria-hidden": "true" }, defs, scene);
  const plot = make("div", { class: "rl-plot" });
  const box = make("div", { class: "rl-lanes", role: "application", tabindex: "0",
    "aria-roledescription": "timeline", "aria-label": `${model.get("title")}. Left and right pan, `
      + "plus and minus zoom, zero shows all, Home and End go to either end, up and down change "
      + "the lane, Page Up finds the lane's next event, Page Down the one before." }, svg);
  const range = make("p", { class: "rl-range" });
  plot.append(box, range);
  let right = 632, rows = [], floor = 0;

  const X = (t) => left + (t - state.from) / (state.to - state.from) * (right - left);
  const T = (x) => state.from + (x - left) / (right - left) * (state.to - state.from);

  function layout() {
    let y = 24;
    rows = [];
    for (const core of cores) {
      if (cores.length > 1) y += 20;
      const top = y;
      for (const lane of lanes.filter((one) => one.core === core)) {
        const h = (HEIGHTS[lane.kind] ?? 24) * lane.bands;
        rows.push({ lane, y, h, top });
        y += h + 7;
      }
      for (const row of rows) if (row.lane.core === core) row.floor = y - 7;
    }
    floor = y;
  }
  // An event's box: [x, y, width, height], cut to what is shown; null beside it.
  function place({ lane, y, h }, i) {
    if (lane.ends[i] < state.from || lane.starts[i] > state.to) return null;
    const x = Math.max(X(lane.starts[i]), left - 1), w = Math.min(X(lane.ends[i]), right + 1) - x;
    const band = h / lane.bands;
    const share = lane.level[i] ? lane.level[i] / lane.top : lane.tall[i] * (lane.busy[i] || 100) / 1e4;
    const tall = lane.kind === "cause" ? band - 2 : Math.max(band * share, 2);
    return [x, y + band * (lane.band[i] + 1) - tall, Math.max(w, 1), tall];
  }
  function drawLane(row) {
    const { lane } = row, groups = new Map(), words = [];
    let busy = -1;
    lane.starts.forEach((_, i) => {
      const at = place(row, i);
      if (!at) return;
      const [x, y, w, h] = at, style = look(lane, i);
      const picked = state.cause >= 0 && lane.kind === "cause" && lane.what[i] !== state.cause;
      const key = `${style} ${picked}`;
      if (!groups.has(key)) groups.set(key, { style, picked, wide: "", thin: "", tops: "", seams: "" });
      const group = groups.get(key);
      if (w < 3) {
        group.thin += `M${x.toFixed(1)} ${y}h${w.toFixed(1)}v${h}h${-w.toFixed(1)}z`;
        return;
      }
      group.wide += `M${x.toFixed(1)} ${y}h${w.toFixed(1)}v${h}h${-w.toFixed(1)}z`;
      group.tops += `M${x.toFixed(1)} ${y + 1}h${w.toFixed(1)}`;
      if (!lane.level[i]) group.seams += `M${x.toFixed(1)} ${y}v${h}`;
      const names = lane.kind === "cause" ? [causes[lane.what[i]].name, String(lane.what[i] + 1)]
        : h < 14 ? [] : [lane.texts[i]];
      // What the next event leaves of it.
      const room = lane.kind === "cause" ? w : Math.min(w, X(lane.starts[i + 1] ?? last + 1e9) - x);
      const name = names.find((one) => one && 7 * one.length + 6 < room);
      if (name && x + 3 > busy) {
        words.push(make("svg:text", { x: x + 3, y: y + h / 2 + 4.5,
          class: style[1] ? "rl-on" : "rl-in" }, name));
        busy = lane.kind === "cause" ? -1 : x + 7 * name.length + 6;
      }
    });
    return [line(`M${left} ${row.y + row.h}H${right}`, "rl-lane-line"),
      ...[...groups.values()].map(({ style, picked, wide, thin, tops, seams }) => make("svg:g", {
        class: `rl-lane-${style[0]}${picked ? " rl-dim" : ""}` },
      make("svg:path", { class: "rl-wide", d: wide, style: `fill: ${fill(...style)}` }),
      line(thin, "rl-thin"), line(tops, "rl-top"), line(seams, "rl-seam"))), ...words];
  }
  // Where the cause that was picked lies, over all lanes of its core.
  function picked() {
    let fills = "", edges = "";
    for (const row of rows) {
      if (row.lane.kind !== "cause" || state.cause < 0) continue;
      row.lane.starts.forEach((_, i) => {
        const at = row.lane.what[i] === state.cause && place(row, i);
        if (!at) return;
        const [x, , w] = at, tall = row.floor - row.top;
        fills += `M${x} ${row.top}h${w}v${tall}h${-w}z`;
        if (w > 4) edges += `M${x} ${row.top}v${tall}M${x + w} ${row.top}v${tall}`;
      });
    }
    return [line(fills, "rl-here"), line(edges, "rl-edges")];
  }
  function axis() {
    const long = 8 * ns(state.to).length + 16, rough = (state.to - state.from) * long / (right - left);
    const ten = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= rough));
    const parts = [];
    for (let t = Math.ceil(state.from / step) * step; t <= state.to; t += step) {
      const x = X(t), near = 3.6 * ns(t).length;
      parts.push(line(`M${x} 18V${floor - 7}`, "rl-grid"));
      if (x + near < right + 8) parts.push(tick(x, 12, ns(t), "middle"));
    }
    return [...parts, tick(0, 12, "ns", "start")];
  }
  function draw() {
    const whole = (t) => left + (t - first) / (last - first) * (right - left);
    const at = state.event >= 0 && place(rows[state.lane], state.event);
    const [from, to] = [whole(state.from), whole(state.to)];
    glass.setAttribute("width", right - left);
    glass.setAttribute("height", floor);
    scene.replaceChildren(...axis(),
      ...cores.filter(() => cores.length > 1).map((core) => make("svg:text", { x: 0,
        y: rows.find(({ lane }) => lane.core === core).top - 6, class: "rl-value" }, `Core ${core}`)),
      ...rows.map(({ lane, y, h }, i) => {
        const name = tick(0, y + h / 2 + 4, lane.name, "start");
        if (i === state.lane) name.classList.add("rl-name-now");
        return name;
      }),
      make("svg:g", { "clip-path": `url("#${el.id}-clip")` }, ...picked(), ...rows.flatMap(drawLane), ...(at
        ? [make("svg:rect", { class: "rl-cursor", x: at[0] - 1, y: at[1] - 1, width: at[2] + 2,
          height: at[3] + 2 })] : [])),
      make("svg:rect", { class: "rl-whole", x: left, y: floor + 2, width: right - left, height: 6, rx: 3 }),
      make("svg:rect", { class: "rl-part", x: from, y: floor + 2, width: Math.max(to - from, 4),
        height: 6, rx: 3 }));
    range.textContent = `${ns(state.from)} to ${ns(state.to)} ns: ${
      ns(state.to - state.from)} of ${ns(last - first)} ns`;
  }

  // --- words -------------------------------------------------------------------------------

  const [status, say] = speaker();
  const question = make("div", { class: "rl-question" }, ...[...model.get("says"),
    ...[model.get("merged")].filter(Boolean)].map((words) => make("p", {}, words)));
  const about = ({ name, time, share, what, try: next, pieces }) => [strong(`${name}: ${time}`),
    `${share ? `, ${share} of the gap` : ""}. ${what}${/[.!?]$/.test(what) || !what ? " " : ". "}${
      pieces ? "" : "It lies nowhere on the timeline. "}${next ? `Try: ${next}` : ""}`];
  function told({ lane }, i) {
    const from = lane.starts[i], long = lane.long[i], n = lane.n[i];
    const when = `from ${ns(from)} ns, ${ns(long)} ns long`;
    if (lane.kind === "cause") {
      const [head, ...rest] = about(causes[lane.what[i]]);
      return [head, ...rest, ` Here ${n > 1 ? `${ns(n)} stretches, ${lane.busy[i]} % of what is drawn, ` : ""}${when}.`];
    }
    const lies = lanes.filter((one) => one.kind === "cause" && one.core === lane.core).flatMap((one) =>
      one.starts.flatMap((start, j) => (start < Math.max(lane.ends[i], from + 1) && one.ends[j] > from
        ? [causes[one.what[j]].name] : [])));
    const cause = lies.length ? ` Causes there: ${[...new Set(lies)].join(", ")}.` : "";
    const core = cores.length > 1 ? `Core ${lane.core}, ` : "";
    const head = (words) => strong(`${core}${lane.name}: ${words}`);
    if (lane.level.some(Boolean)) {
      return [head(`${significant(lane.level[i] / 10)} packets under way`), `, ${when}. ${
        lane.packets[i] ? `${ns(lane.packets[i])} start here, with ${show(lane.bytes[i], "B")}.`
          : "None starts here."}${cause}`];
    }
    const kind = lane.kind === "throttle" ? "" : KIND[lane.of[i]], what = lane.texts[i];
    return n > 1 ? [head(`${ns(n)} drawn as one, most often ${what}`), `, ${when}, busy ${
      lane.busy[i]} % of it${kind ? `; ${kind}` : ""}.${cause}`]
      : [head(what), `, ${when}${kind ? `; ${kind}` : ""}.${
      lane.line[i] ? ` Line: ${model.get("lines")[lane.line[i]]}.` : ""}${cause}`];
  }

  // --- what is shown -----------------------------------------------------------------------

  function view(from, to) {
    const long = clamp(to - from, least, last - first);
    state.from = clamp(from, first, last - long);
    state.to = state.from + long;
    draw();
  }
  const pan = (share) => view(state.from + share * (state.to - state.from),
    state.to + share * (state.to - state.from));
  // Around a time, which stays where it is.
  function zoom(factor, t = (state.from + state.to) / 2) {
    const long = clamp((state.to - state.from) / factor, least, last - first);
    const share = (t - state.from) / (state.to - state.from);
    view(t - share * long, t + (1 - share) * long);
  }
  const whole = () => view(first, last);
  function choose(lane, event, aloud = true) {
    Object.assign(state, { lane, event });
    const one = rows[lane].lane, from = one.starts[event], to = one.ends[event];
    if (aloud && (to < state.from || from > state.to || (from < state.from && to < state.to)
      || (to > state.to && from > state.from))) {
      const long = state.to - state.from;
      view(from - long / 10, from + long * 0.9);
    } else draw();
    say(told(rows[lane], event), aloud);
  }
  function next(by) {
    const { lane } = rows[state.lane], shown = lane.starts.findIndex((_, i) => lane.ends[i] > state.from);
    const at = state.event >= 0 ? state.event + by : by > 0 ? shown : shown - 1;
    return lane.starts[at] === undefined ? say([`${lane.name}: no further event.`])
      : choose(state.lane, at);
  }
  function change(by) {
    state.lane = clamp(state.lane + by, 0, rows.length - 1);
    state.event = -1;
    draw();
    const { lane } = rows[state.lane];
    say([strong(`${cores.length > 1 ? `Core ${lane.core}, ` : ""}${lane.name}`),
      `: ${ns(lane.starts.length)} blocks.`]);
  }
  function pick(cause, aloud = true) {
    state.cause = state.cause === cause ? -1 : cause;
    [...panel.querySelectorAll("button")].forEach((one, i) =>
      one.setAttribute("aria-pressed", i === state.cause));
    const seen = rows.some((row) => row.lane.kind === "cause" && row.lane.starts.some((_, i) =>
      row.lane.what[i] === state.cause && place(row, i)));
    if (state.cause >= 0 && !seen) whole();
    else draw();
    say(state.cause < 0 ? ["All causes are shown."] : about(causes[cause]), aloud);
  }
  const keys = { ArrowLeft: () => pan(-0.1), ArrowRight: () => pan(0.1), "+": () => zoom(2),
    "=": () => zoom(2), "-": () => zoom(0.5), 0: whole, Home: () => view(first, first + state.to - state.from),
    End: () => view(last - state.to + state.from, last), ArrowUp: () => change(-1),
    ArrowDown: () => change(1), PageUp: () => next(1), PageDown: () => next(-1),
    Escape: () => { if (state.cause >= 0) pick(state.cause); } };
  box.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
    if (/^(Arrow(Left|Right)|[-+=0]|Home|End)$/.test(event.key)) say([range.textContent]);
  });

  // --- pointers ----------------------------------------------------------------------------

  const inside = (event) => pointed(svg, event);
  // The event at a place, or the nearest within a few px: [row, event].
  function hit(event) {
    const [x, y] = inside(event), r = rows.findIndex((row) => y >= row.y - 3 && y <= row.y + row.h + 3);
    if (r < 0 || x < left) return null;
    let found = -1, best = 5;
    rows[r].lane.starts.forEach((_, i) => {
      const at = place(rows[r], i);
      if (!at || (rows[r].lane.kind === "cause" && (y < at[1] - 2 || y > at[1] + at[3] + 2))) return;
      const far = Math.max(at[0] - x, x - at[0] - at[2], 0);
      if (far <= best) [found, best] = [i, far];
    });
    return found < 0 ? null : [r, found];
  }
  svg.addEventListener("wheel", (event) => {
    // Without Ctrl the page scrolls, until the figure has been clicked or tabbed to.
    if (!event.ctrlKey && !event.metaKey && !box.matches(":focus")) return;
    const all = state.to - state.from >= last - first;
    if (all && event.deltaY > 0 && !event.ctrlKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      pan((event.deltaX || event.deltaY) / (right - left));
    } else zoom(2 ** (-event.deltaY / 240), T(clamp(inside(event)[0], left, right)));
  }, { passive: false });
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    box.focus({ preventScroll: true });
    svg.setPointerCapture(event.pointerId);
    state.fingers.set(event.pointerId, inside(event)[0]);
    state.down = state.fingers.size > 1 ? null : { x: inside(event)[0], found: hit(event) };
  });
  svg.addEventListener("pointermove", (event) => {
    const [x] = inside(event), { fingers } = state;
    if (!fingers.has(event.pointerId)) {
      const found = event.pointerType === "mouse" && hit(event);
      if (found && (found[0] !== state.lane || found[1] !== state.event)) choose(...found, false);
      return;
    }
    const was = [...fingers.values()], before = fingers.get(event.pointerId);
    if (state.down && Math.abs(x - state.down.x) > 4) state.down = null;
    if (state.down) return;
    fingers.set(event.pointerId, x);
    if (was.length === 1) pan((before - x) / (right - left));
    else if (was.length === 2) {
      // Both times stay under their fingers.
      const [a, b] = [...fingers.values()], apart = Math.max(Math.abs(was[1] - was[0]), 8);
      const t = T((was[0] + was[1]) / 2);
      zoom(Math.max(Math.abs(b - a), 8) / apart, t);
      pan(((was[0] + was[1]) / 2 - (a + b) / 2) / (right - left));
    }
  });
  for (const type of ["pointerup", "pointercancel"]) {
    svg.addEventListener(type, (event) => {
      state.fingers.delete(event.pointerId);
      const { down } = state;
      state.down = null;
      if (type === "pointercancel" || !down?.found) return;
      choose(...down.found);
      const { lane } = rows[down.found[0]];
      if (lane.kind === "cause") pick(lane.what[down.found[1]]);
    });
  }

  // --- controls and the ledger ---------------------------------------------------------------

  const named = (text, words, action) => {
    const node = button(text, () => { action(); say([range.textContent]); });
    node.setAttribute("aria-label", words);
    return node;
  };
  const has = (test) => lanes.some((lane) => lane.kind !== "throttle" && lane.of.some(test));
  const key = make("p", { class: "rl-key" }, ...[["tensor", 1, "transpose", (of) => of === TRANSPOSE],
    ["sync", 4, "starts a transfer", (of) => of === ISSUE],
    ["sync", 0, "low: control, no work", (of) => of === CONTROL]].flatMap(([family, pattern, words, test]) =>
    (has(test) ? [make("span", {}, swatch(family, pattern), words)] : [])),
  ...(lanes.some(({ level }) => level.some(Boolean))
    ? [make("span", {}, "DMA: height is packets under way")] : []));
  const controls = make("div", { class: "rl-controls" }, make("div", { class: "rl-buttons" },
    named("\u2212", "Zoom out", () => zoom(0.5)), named("+", "Zoom in", () => zoom(2)),
    named("\u2190", "Earlier", () => pan(-0.5)), named("\u2192", "Later", () => pan(0.5)),
    named("All", "Show all", whole), button("Event before", () => next(-1)),
    button("Next event", () => next(1))), key);
  const panel = make("div", { class: "rl-panel rl-causes" });
  if (causes.length) {
    const head = (words) => make("th", { scope: "col" }, words);
    panel.append(make("table", {}, make("caption", {}, "The ledger: pick a cause to see where it lies"),
      make("thead", {}, make("tr", {}, head("cause"), head("time"), head("of the gap"))),
      make("tbody", {}, ...causes.map(({ name, time, share, family, pattern }, i) => {
        const one = button("", () => pick(i));
        one.append(swatch(family, pattern), `${i + 1} ${name}`);
        one.setAttribute("aria-pressed", "false");
        return make("tr", {}, make("th", { scope: "row" }, one), make("td", {}, time),
          make("td", {}, share));
      }))));
  }
  say(["Drag to pan, zoom with the wheel (hold Ctrl, or click first), two fingers or + and \u2212. "
    + "Point at an event, or go from one to the next with Page Up and Page Down."]);
  stage(el, question, plot, controls, status, panel);
  fitted(plot, (now) => {
    right = now - 8;
    layout();
    sized(svg, now, floor + 12);
    draw();
  });
}

export default { render };
