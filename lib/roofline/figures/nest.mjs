// Guess, then play: the loads, stores and steps of a loop nest over its matrices as tiles.
//
// The events, their order and the bytes of an element come in through `model`, from Nest.walk. The
// page evaluates only
//   bytes of an event = elements of its block x bytes an element
//   blocks of a tensor so far = its loads (of an output: its stores); sums that come back are
//     counted apart
//   W so far = W x (products done / products in all)      I so far = W so far / Q so far
//   on chip = sum over the lines around the current one that hold a block, or leave sums open

import { button, clamp, fitted, guessForm, line, make, mebi, readouts, select, show, significant,
  sized, speaker, stage, tick } from "./plot.mjs";

const SPEEDS = [1, 4, 16, 64, 256];
const FRAMES = 16;  // a second, at most
const NTH = ["", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth",
  "ninth", "tenth"];
const nth = (n) => NTH[n]
  ?? `${n}${n % 100 > 10 && n % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] ?? "th"}`;

const elements = (spans) => spans.reduce((n, [start, stop]) => n * (stop - start), 1);
const shape = (spans) => `[${spans.map(([start, stop]) => stop - start).join(", ")}]`;

// --- the events --------------------------------------------------------------------------------

// A nest with its events: { line, kind, name, level, near, spans, elements, bytes }.
// near: dim -> range, of the step that the event stands next to; spans: its block's ranges.
function decode(nest, dims, sizes, tensors, products) {
  const { lines, width } = nest;
  // The range of a dim that the loops around a line have chosen; `each` is told of their steps.
  function chosen(at, dim, near, each = () => {}) {
    let start = 0, stop = sizes[dim];
    for (const loop of lines[at].path) {
      if (lines[loop].dim !== dim) continue;
      const { step } = lines[loop], done = Math.floor((near[dim][0] - start) / step);
      each(loop, done + 1, Math.ceil((stop - start) / step));
      start += done * step;
      stop = Math.min(start + step, stop);
    }
    return [start, stop];
  }
  const block = (at, near) => tensors[lines[at].name].dims.map((dim) => chosen(at, dim, near));
  // The tensors of a step, and the dims that it goes through.
  const made = (at) => [...new Set(lines[at].product === null ? products.flat()
    : products[lines[at].product])];
  const through = (at) => [...new Set(made(at).flatMap((name) => tensors[name].dims))];

  const events = nest.events.split(" ").map((text) => {
    const [, at, step, each] = /^(\w+)(?:\.(\w+)|-(\d*))$/.exec(text), here = parseInt(at, 36);
    const near = step && Object.fromEntries(dims.map((dim, i) =>
      [dim, nest.spans[dim][parseInt(step.slice(i * width, (i + 1) * width), 36)]]));
    return { ...lines[here], line: here, near, each: Number(each || 0) };
  });
  events.reduceRight((next, event) => {
    if (event.kind !== "store") event.near ??= next;
    return event.near ?? next;
  }, undefined);
  events.reduce((last, event) => (event.near ??= last), undefined);
  for (const event of events) {
    event.spans = event.kind === "step" ? through(event.line).map((dim) => event.near[dim])
      : block(event.line, event.near);
    event.elements = elements(event.spans);
    event.bytes = event.elements * event.each;
  }
  // Where the blocks that cross HBM begin and end, along each dim of each tensor.
  const cuts = {};
  for (const [name, { dims: own }] of Object.entries(tensors)) {
    const places = own.map((dim) => new Set([0, sizes[dim]]));
    for (const event of events) {
      if (event.name !== name || event.level) continue;
      event.spans.forEach((span, i) => span.forEach((place) => places[i].add(place)));
    }
    cuts[name] = places.map((of) => [...of].sort((a, b) => a - b));
  }
  const all = events.reduce((n, { kind, elements: n_ }) => n + (kind === "step" ? n_ : 0), 0);
  const whole = tally({ events, cuts }, tensors, events.length);
  return { ...nest, events, block, chosen, made, through, cuts, all, whole };
}

// What the first `count` events have done. crossed: times each tile of a tensor has, tile by tile.
function tally({ events, cuts }, tensors, count) {
  const sum = { read: 0, written: 0, done: 0, crossed: {}, blocks: {}, back: {} };
  for (const [name, of] of Object.entries(cuts)) {
    sum.crossed[name] = of[0].slice(1).map(() => (of[1] ?? [0, 1]).slice(1).map(() => 0));
    sum.blocks[name] = sum.back[name] = 0;
  }
  for (let i = 0; i < count; i++) {
    const { kind, name, level, spans, elements: n, bytes } = events[i];
    if (kind === "step") sum.done += n;
    else if (!level) {
      sum[kind === "store" ? "written" : "read"] += bytes;
      if ((tensors[name].role === "out") !== (kind === "store")) {
        if (bytes) sum.back[name] += 1;
        continue;
      }
      sum.blocks[name] += 1;
      const [rows, columns] = [0, 1].map((d) => (spans[d]
        ? spans[d].map((place) => cuts[name][d].indexOf(place)) : [0, 1]));
      for (let r = rows[0]; r < rows[1]; r++) {
        for (let c = columns[0]; c < columns[1]; c++) sum.crossed[name][r][c] += 1;
      }
      sum.tile = sum.crossed[name][rows[0]][columns[0]];
    }
  }
  return sum;
}

function render({ model, el }) {
  const sizes = model.get("sizes"), tensors = model.get("tensors"), flops = model.get("flops");
  const dims = model.get("dims"), order = model.get("order");
  const products = model.get("products"), answers = model.get("answers");
  const nests = model.get("nests").map((nest) => decode(nest, dims, sizes, tensors, products));
  const state = { nest: 0, at: 0, speed: 4, revealed: false, choice: "", timer: 0 };
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const now = () => nests[state.nest];

  // --- the matrices ------------------------------------------------------------------------

  const scene = make("svg:g");
  const svg = make("svg:svg", { role: "img", "aria-label": `${
    order.join(", ")} as grids of tiles; the lines below say what happens` }, scene);
  const code = make("ol", { class: "rl-code", "aria-label": "The nest as code" });
  const key = make("p", { class: "rl-key" }, ...[
    ["crossed", "the stronger, the more often read (an output: written)"],
    ["held", "on chip"], ["load", "loaded now"], ["step", "in use now"], ["store", "stored now"]]
    .map(([name, words]) => make("span", {}, make("i", { class: `rl-is-${name}` }), ` ${words}`)));
  const pictures = make("div", { class: "rl-grids" }, svg);
  const plot = make("div", { class: "rl-plot" }, pictures, key, code);
  const strongest = Math.max(1, ...nests.flatMap(({ times }) => Object.values(times)));
  let drawn = {}, width = 0;

  // A tensor lies so that rows of inputs line up with rows of their product, columns with columns.
  function layout() {
    const columns = [{ band: products[0][0] }, ...products.map((of) =>
      ({ band: of.at(-1), top: of.length > 2 ? of[1] : undefined }))];
    const boxes = {}, flips = ({ band, top }) => top
      && tensors[top].dims[1] !== tensors[band].dims[1];
    const size = (name, flip) => {
      const [rows, long] = tensors[name].dims.map((dim) => sizes[dim]);
      return long === undefined ? [rows, 1] : flip ? [rows, long] : [long, rows];
    };
    const label = (name, flip) => (flip ? `${name}\u1d40` : name);
    const tall = Math.min(width * 0.85, 380), gap = 14;
    let scale = 1;
    const px = (n) => Math.max(16, n * scale);
    const wide = ({ band, top }) => Math.max(px(size(band)[0]), 9 * band.length,
      top ? 9 * top.length + 9 : 0);
    const sum = (of) => of.reduce((a, b) => a + b, 0);
    const most = (of) => Math.max(0, ...of);
    const high = (part) => most(columns.filter((c) => c[part]).map((c) =>
      px(size(c[part], part === "top" && flips(c))[1])));
    scale = Math.min((width - 2) / sum(columns.map(({ band }) => size(band)[0])), 1e3);
    for (let i = 0; i < 90; i++) {
      const long = sum(columns.map(wide)) + gap * (columns.length - 1);
      if (long <= width - 4 && high("top") + high("band") <= tall) break;
      scale *= 0.94;
    }
    const bandY = high("top") ? 22 + high("top") + 8 : 4;
    let x = 2;
    for (const column of columns) {
      const place = (name, flip, above) => {
        const [w, h] = size(name, flip).map(px);
        boxes[name] = { x, y: above ? bandY - 8 - h : bandY, w, h, flip, wide: wide(column),
          words: label(name, flip), above };
      };
      place(column.band);
      if (column.top) place(column.top, flips(column), true);
      x += wide(column) + gap;
    }
    return { boxes, height: bandY + high("band") + 22 };
  }
  // A block as a rectangle of its box.
  function frame(name, box, spans) {
    const [rows, columns] = spans.map(([start, stop], i) => {
      const full = sizes[tensors[name].dims[i]];
      return [start / full, stop / full];
    });
    const [down, along] = columns === undefined ? [[0, 1], rows]
      : box.flip ? [columns, rows] : [rows, columns];
    return { x: box.x + along[0] * box.w, y: box.y + down[0] * box.h,
      width: (along[1] - along[0]) * box.w, height: (down[1] - down[0]) * box.h };
  }
  function build() {
    const nest = now(), { boxes, height } = layout(), parts = [], numbers = [];
    sized(svg, width, height);
    drawn = { boxes, tiles: {}, over: make("svg:g") };
    for (const [name, box] of Object.entries(boxes)) {
      const own = tensors[name].dims, kept = tensors[name].role === "kept";
      const cut = nest.cuts[name], digits = String(nest.times[name] ?? 1).length;
      drawn.tiles[name] = cut[0].slice(1).map((bottom, r) => (cut[1] ?? [0, 1]).slice(1).map(
        (right, c) => {
          const spans = own.length > 1 ? [[cut[0][r], bottom], [cut[1][c], right]]
            : [[cut[0][r], bottom]];
          const at = frame(name, box, spans), tile = { box: make("svg:rect", {
            class: kept ? "rl-block rl-kept" : "rl-block", "data-of": name, ...at }) };
          parts.push(tile.box);
          if (at.width >= 8 * digits + 4 && at.height >= 15 && !kept) {
            tile.words = tick(at.x + at.width / 2, at.y + at.height / 2 + 4, "", "middle");
            tile.words.setAttribute("class", "rl-times");
            numbers.push(tile.words);
          }
          return tile;
        }));
      // The steps' own, finer tiles.
      own.forEach((dim, i) => {
        for (const start of new Set(nest.spans[dim].map(([first]) => first))) {
          if (!start || cut[i].includes(start)) continue;
          const { x, y } = frame(name, box, own.map((_, j) => (j === i ? [start, start] : [0, 0])));
          const upright = own.length === 1 || (i === 1) !== Boolean(box.flip);
          parts.push(line(upright ? `M${x} ${box.y}v${box.h}` : `M${box.x} ${y}h${box.w}`, "rl-fine"));
        }
      });
      const extents = own.map((dim) => sizes[dim]);
      const full = `${box.words} ${(box.flip ? extents.reverse() : extents).join(" x ")}`;
      const words = make("svg:text", { x: box.x, y: box.above ? box.y - 6 : box.y + box.h + 16,
        class: "rl-value" }, 7.4 * full.length <= box.wide ? full : box.words);
      parts.push(words);
    }
    scene.replaceChildren(...parts, drawn.over, ...numbers);
    code.replaceChildren(...nest.lines.map(({ words, path }) => {
      const item = make("li", {}, make("span", { class: "rl-words" }, words),
        make("span", { class: "rl-turn" }));
      item.style.setProperty("--rl-depth", path.filter((i) => nest.lines[i].kind === "loop").length);
      return item;
    }));
  }
  function draw() {
    const nest = now(), event = nest.events[state.at - 1], sum = tally(nest, tensors, state.at);
    for (const [name, rows] of Object.entries(drawn.tiles)) {
      rows.forEach((row, r) => row.forEach(({ box, words }, c) => {
        const n = sum.crossed[name][r][c];
        box.style.fillOpacity = n && 0.1 + 0.6 * n / strongest;
        if (words) words.textContent = n || "";
      }));
    }
    const over = [], mark = (name, spans, kind) => {
      const { x, y, width: w, height } = frame(name, drawn.boxes[name], spans);
      over.push(make("svg:rect", { class: `rl-mark-${kind}`, "data-of": name, x, y, width: w, height }));
    };
    const around = event ? nest.lines[event.line].path.concat(event.line) : [];
    for (const i of around) {
      const { kind, name, level } = nest.lines[i];
      if (kind === "load" || kind === "keep") {
        mark(name, nest.block(i, event.near), level ? "inner" : "held");
      }
    }
    if (event?.kind === "step") {
      for (const name of nest.made(event.line)) {
        mark(name, tensors[name].dims.map((dim) => event.near[dim]), "step");
      }
    } else if (event && (event.bytes || event.kind === "store")) {
      mark(event.name, event.spans, event.kind);
    }
    drawn.over.replaceChildren(...over);

    const turns = {};
    if (event) {
      for (const dim of dims) {
        nest.chosen(event.line, dim, event.near, (loop, n, of) => { turns[loop] = `${n} of ${of}`; });
      }
    }
    [...code.children].forEach((item, i) => {
      const { words } = nest.lines[i];
      item.querySelector(".rl-words").textContent = i === event?.line
        ? words.replace("open or fetch", event.bytes ? "fetch" : "open") : words;
      item.querySelector(".rl-turn").textContent = turns[i] ? ` (${turns[i]})` : "";
      item.classList.toggle("rl-around", around.includes(i));
      if (i === event?.line) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    });
    return { nest, event, sum };
  }

  // --- words -------------------------------------------------------------------------------

  const [status, say] = speaker();
  const question = make("div", { class: "rl-question" },
    ...model.get("says").map((words) => make("p", {}, words)));
  const strong = (words) => make("strong", {}, words);
  const bytes = (n) => show(n, "B");
  const where = ({ name, spans }) => `${name}[${spans.map((span) => span.join(":")).join(", ")}]`;

  function told({ nest, event, sum }) {
    if (!event) return [strong("Start."), " Nothing has moved yet."];
    const { kind, name, level, spans, bytes: moved, near, memory } = event;
    const said = (() => {
      if (kind === "step") {
        return [strong(event.words), ` ${nest.through(event.line).map((dim) =>
          `${dim} ${near[dim].join(":")}`).join(", ")}: nothing moves.`];
      }
      const block = `${name} block ${shape(spans)}`, out = tensors[name].role === "out";
      const place = ` It is ${where(event)}.`;
      if (level) {
        const outer = nest.lines.find((l) => l.name === name && l.level === level - 1).memory;
        const way = kind === "store" ? `from ${memory} to ${outer}` : `from ${outer} to ${memory}`;
        return [strong(kind === "load" && out && !moved ? `open ${block}` : `${kind} ${block}`),
          kind === "load" && out && !moved ? ` in ${memory}: new sums.`
            : ` ${way}: nothing crosses HBM.`, place];
      }
      if (kind === "load" && out) {
        return moved ? [strong(`fetch ${block}, ${bytes(moved)}`),
          `: partial sums come back; read so far ${bytes(sum.read)}.`, place]
          : [strong(`open ${block}`), ` in ${memory}: new sums, nothing is read.`, place];
      }
      const partial = out && sum.tile < nest.times[name] ? ", partial sums" : "";
      return [strong(`${kind} ${block}, ${bytes(moved)}`), `: ${nth(sum.tile)} time${partial}; ${
        out ? "written" : "read"} so far ${bytes(out ? sum.written : sum.read)}.`, place];
    })();
    if (state.at === nest.events.length) {
      said.push(` That was the last one: Q ${bytes(sum.read + sum.written)}, I ${
        show(flops / (sum.read + sum.written), "FLOP/B")}.`);
    }
    return said;
  }

  // --- numbers and controls ------------------------------------------------------------------

  const crossing = order.filter((name) => tensors[name].role !== "kept");
  const spilled = crossing.filter((name) => tensors[name].role === "out"
    && nests.some(({ times }) => times[name] > 1));
  const memories = [...new Set(nests.flatMap(({ held }) => Object.keys(held)))];
  // Short words: the column is narrow.
  const [reads, read] = readouts([["event", "event"], ["read", "read", "memory"],
    ["written", "written", "memory"], ...crossing.map((name) => [`of ${name}`,
      `${name} ${tensors[name].role === "out" ? "written" : "read"}`]),
    ...spilled.map((name) => [`back ${name}`, `${name} read back`]),
    ["I", "I so far"], ...memories.map((name) => [`in ${name}`, `in ${name}`, "compute"])]);
  const [ends, end] = readouts([...crossing.filter((name) => tensors[name].role === "in")
    .map((name) => [name, `r_${name}`]), ...spilled.map((name) => [name, `${name} written, times`]),
  ["I", "I"], ...memories.map((name) => [`in ${name}`, `most in ${name}`])]);
  const [compared, compare] = readouts(nests.map(({ name }, i) => [i, name, "memory"]));
  const total = (nest) => nest.read + nest.written;
  const picks = make("div", { class: "rl-row" }), panel = make("div", { class: "rl-panel" });
  const transport = make("div", { class: "rl-playing" });
  const controls = make("div", { class: "rl-controls" }, picks);

  const slide = make("input", { type: "range", id: `${el.id}-event`, min: 0, step: 1,
    "aria-label": "Event" });
  slide.addEventListener("input", () => {
    stop();
    go(Number(slide.value), false);
  });
  const play = button("Play", () => (state.timer ? stop() : start()));
  // Who asked for less motion gets a coarse step for each press.
  const coarse = () => Math.ceil(now().events.length / 20);
  const naming = () => {
    play.textContent = calm.matches ? `On by ${coarse()}` : state.timer ? "Pause" : "Play";
  };

  function update() {
    const here = draw(), { nest, sum, event } = here;
    if (!state.revealed) return here;
    const blocks = (n, of) => `${n} of ${of} block${of === 1 ? "" : "s"}`;
    const Q = sum.read + sum.written, W = flops * (sum.done / nest.all);
    read("event", `${state.at} of ${nest.events.length}`);
    read("read", `${bytes(sum.read)} of ${bytes(nest.read)}`, nest.read && sum.read / nest.read);
    read("written", `${bytes(sum.written)} of ${bytes(nest.written)}`,
      nest.written && sum.written / nest.written);
    for (const name of crossing) {
      read(`of ${name}`, blocks(sum.blocks[name], nest.whole.blocks[name]));
    }
    for (const name of spilled) read(`back ${name}`, blocks(sum.back[name], nest.whole.back[name]));
    read("I", Q ? show(W / Q, "FLOP/B") : "no byte yet");
    const held = Object.fromEntries(memories.map((name) => [name, 0]));
    for (const i of event ? nest.lines[event.line].path.concat(event.line) : []) {
      const { kind, memory, bytes: n } = nest.lines[i];
      if (memory && kind !== "store") held[memory] += n;
    }
    for (const name of memories) {
      const most = nest.held[name] ?? 0;
      read(`in ${name}`, mebi(held[name]), most && held[name] / most);
      end(`in ${name}`, mebi(most));
    }
    for (const name of crossing) {
      if (tensors[name].role === "in" || spilled.includes(name)) end(name, nest.times[name]);
    }
    end("I", show(flops / total(nest), "FLOP/B"));
    naming();
    slide.max = nest.events.length;
    slide.value = state.at;
    slide.setAttribute("aria-valuetext", `${state.at} of ${nest.events.length}`);
    return here;
  }
  function go(at, aloud = true) {
    if (aloud) stop();
    state.at = clamp(at, 0, now().events.length);
    say(told(update()), aloud);
  }
  // To the next event, or the one before, that passes the test.
  function jump(words, test, by = 1) {
    const { events } = now();
    let at = state.at + by;
    while (at > 0 && at <= events.length && !test(events[at - 1])) at += by;
    if (at > 0 && at <= events.length) return go(at);
    stop();
    return say([`No ${words} ${by > 0 ? "is left" : "came before"}.`]);
  }
  const loads = ({ kind, level, bytes: n }) => kind === "load" && !level && n > 0;
  const stores = ({ kind, level }) => kind === "store" && !level;

  function start() {
    const most = now().events.length;
    if (state.at >= most) state.at = 0;
    if (calm.matches) return go(state.at + coarse());
    const rate = Math.min(state.speed, FRAMES);
    state.timer = setInterval(() => {
      if (!el.isConnected) return stop();
      const next = state.at + state.speed / rate;
      return go(next, next >= most);
    }, 1000 / rate);
    return naming();
  }
  function stop() {
    clearInterval(state.timer);
    state.timer = 0;
    naming();
  }
  calm.addEventListener("change", stop);
  controls.addEventListener("keydown", (event) => {
    if (!state.revealed || event.target.tagName === "SELECT") return;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const act = { ArrowRight: () => go(state.at + 1), ArrowUp: () => go(state.at + 1),
      ArrowLeft: () => go(state.at - 1), ArrowDown: () => go(state.at - 1),
      PageUp: () => jump("load", loads), PageDown: () => jump("load", loads, -1),
      Home: () => go(0), End: () => go(now().events.length),
      " ": event.target.tagName === "INPUT" ? () => play.click() : undefined }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  function choices() {
    const options = nests.length > 1 ? [select(`${el.id}-nest`, "Mapping",
      nests.map(({ name }, i) => [i, name]), state.nest, (i) => {
        stop();
        Object.assign(state, { nest: Number(i), at: 0 });
        build();
        const here = update();
        say([strong(`${now().name}.`), " ", ...(state.revealed ? told(here) : [now().text])]);
      })] : [];
    if (state.revealed && !calm.matches) {
      options.push(select(`${el.id}-speed`, "Speed", SPEEDS.map((n) => [n, `${n} event${
        n > 1 ? "s" : ""} a second`]), state.speed, (n) => {
        state.speed = Number(n);
        if (state.timer) { stop(); start(); }
      }));
    }
    picks.replaceChildren(...options);
  }
  function reveal() {
    state.revealed = true;
    transport.append(slide, make("div", { class: "rl-buttons" }, play,
      button("Step", () => go(state.at + 1)), button("Back", () => go(state.at - 1)),
      button("Next load", () => jump("load", loads)),
      button("Next store", () => jump("store", stores)),
      button("Start", () => go(0)), button("End", () => go(now().events.length))));
    controls.prepend(transport);
    const caption = (words) => make("p", { class: "rl-caption" }, words);
    panel.replaceChildren(reads, caption("At the end (r: times read)"), ends, ...(nests.length > 1
      ? [caption("Q, and I in FLOP/B, of each mapping"), compared] : []));
    if (tables) tables.hidden = false;
    const most = Math.max(...nests.map(total));
    nests.forEach((nest, i) => compare(i, `${bytes(total(nest))}, ${
      significant(flops / total(nest))}`, total(nest) / most));
    choices();
    update();
    const right = model.get("right"), { choice } = state;
    say([strong(model.get("verdict")), !choice ? "" : right.includes(Number(choice))
      ? " You said so." : ` You said ${answers[choice]}.`,
    " Play, or step with the arrow keys; Page Up finds the next load, Page Down the one before."]);
    slide.focus({ preventScroll: true });
  }

  // It would answer the question.
  const tables = el.querySelector(".rl-tables");
  if (tables) tables.hidden = true;
  panel.replaceChildren(guessForm(el.id, "Your guess", answers.map((words, i) => [i, words]), {
    choose: (i) => { state.choice = String(i); },
    check() {
      if (state.choice) reveal();
      else say(["Choose one of them, or skip the guess."]);
    },
    skip() { state.choice = ""; reveal(); } }));
  choices();
  stage(el, question, plot, controls, status, panel);
  fitted(pictures, (now_) => {
    width = now_;
    build();
    update();
  });
}

export default { render };
