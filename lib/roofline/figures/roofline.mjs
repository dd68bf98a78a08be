// Predict, reveal, drag: one roofline on log-log axes.
//
// Every number comes in through `model`: W per dtype, Q, peaks, bandwidths. For drawing and for
// the read-outs the page evaluates only
//   T_compute = sum over dtypes of W_d / P_d      T_memory = Q / BW
//   T_best = max(T_compute, T_memory)             T_worst = T_compute + T_memory
//   roof(I) = min(P, I * BW), with P = W / T_compute and I = W / Q
// Dragging changes Q and leaves W alone.

const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, ...children) {
  const node = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// units.show: three significant digits, decimal prefixes. Python rounds exact ties to even.
function fixed(value, decimals) {
  const text = value.toFixed(decimals), exact = Math.abs(value).toFixed(Math.min(decimals + 40, 100));
  const tie = /^50*$/.test(exact.slice(exact.indexOf(".") + 1 + decimals));
  if (!tie || Number(text.at(-1)) % 2 === 0) return text;
  return (value - 10 ** -decimals / 2).toFixed(decimals);
}
function significant(value, digits = 3) {
  if (value === 0) return "0";
  const decimals = Math.max(digits - 1 - Math.floor(Math.log10(Math.abs(value))), 0);
  let text = fixed(value, decimals);
  if (decimals && text.replace(/[-.]/g, "").replace(/^0+/, "").length > digits) {
    text = fixed(value, decimals - 1);
  }
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}
const LARGE = [["", 1], ["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12], ["P", 1e15]];
const SMALL = [["n", 1e-9], ["u", 1e-6], ["m", 1e-3], ["", 1]];
function show(value, unit) {
  const prefixes = unit === "s" ? SMALL : unit === "FLOP/B" ? [["", 1]] : LARGE;
  let [name, factor] = prefixes[0];
  for (const [n, f] of prefixes) if (Number(significant(value / f)) >= 1) [name, factor] = [n, f];
  return `${significant(value / factor)} ${name}${unit}`.trim();
}

const times = (factor) => significant(factor, factor < 10 ? 2 : 3);
const log = Math.log10;
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function render({ model, el }) {
  const machines = model.get("machines"), ops = model.get("ops"), ask = model.get("ask");
  const state = { ask: -1, machine: 0, op: 0, dtype: "", figure: 0, bytes: 0,
    revealed: false, touched: false, choice: "", guess: 0, placed: false, ghost: null };

  // --- the model ---------------------------------------------------------------------------

  const dtypes = (m, o) => Object.keys(ops[o].counts[0].by).filter((dtype) =>
    Object.keys(ops[o].counts[0].by[dtype].work).every((d) => d in machines[m].peaks));
  const count = (mapping = 0) => ops[state.op].counts[mapping].by[state.dtype];

  function now(bytes = state.bytes) {
    const machine = machines[state.machine], figure = machine.bandwidths[state.figure];
    const work = Object.entries(count().work);
    const W = work.reduce((sum, [, w]) => sum + w, 0);
    const compute = work.reduce((sum, [d, w]) => sum + w / machine.peaks[d].value, 0);
    const memory = bytes / figure.value;
    const P = W / compute, BW = figure.value, best = Math.max(compute, memory);
    return { machine, figure, W, Q: bytes, I: W / bytes, P, BW, ridge: P / BW, compute, memory,
      best, worst: compute + memory, rate: W / best, bound: memory > compute ? "memory" : "compute" };
  }

  // One pair of axes for every machine and op, so that nothing jumps when they change.
  const every = ops.flatMap((op) => op.counts.flatMap(({ by }) => Object.values(by))).map(
    ({ work, bytes }) => Object.values(work).reduce((a, b) => a + b, 0) / bytes);
  const peaks = machines.flatMap((m) => Object.values(m.peaks).map((p) => p.value));
  const bands = machines.flatMap((m) => m.bandwidths.map((b) => b.value));
  const ridges = machines.flatMap((m) => Object.values(m.peaks).flatMap((p) =>
    m.bandwidths.map((b) => p.value / b.value)));
  const x0 = Math.floor(log(Math.min(...every) / 2));
  const x1 = Math.ceil(log(Math.max(...every, ...ridges) * 1.5));
  const y0 = Math.floor(log(Math.min(...every) * Math.min(...bands)));
  const y1 = log(Math.max(...peaks)) + 0.6;

  // --- the page ----------------------------------------------------------------------------

  const question = make("div", { class: "rl-question" });
  const svg = make("svg:svg", { role: "group", "aria-label": "Roofline plot" });
  const scene = make("svg:g", { "aria-hidden": "true" });
  const guess = handle("rl-guess", "Your guess of the rate", "vertical");
  const point = handle("rl-point", "The op's place on the intensity axis", "horizontal");
  svg.append(scene, guess, point);
  const plot = make("div", { class: "rl-plot" }, svg);
  const status = make("p", { role: "status", class: "rl-status" });
  const panel = make("div", { class: "rl-panel" });  // below the status, which stays
  const controls = make("div", { class: "rl-controls" });
  const tables = el.querySelector(".rl-tables");

  function handle(name, label, orientation) {
    return make("svg:g", { class: `rl-handle ${name}`, role: "slider", tabindex: "0",
      "aria-label": label, "aria-orientation": orientation },
    make("svg:circle", { class: "rl-hit", r: 24 }), make("svg:circle", { class: "rl-ring", r: 15 }),
    make("svg:path", { class: "rl-mark", d: name === "rl-guess" ? "M0-10 10 0 0 10-10 0Z"
      : "M-9 0a9 9 0 1 0 18 0a9 9 0 1 0-18 0Z" }));
  }
  function button(text, action, main) {
    const node = make("button", { type: "button", class: main ? "rl-main" : "" }, text);
    node.addEventListener("click", action);
    return node;
  }
  function say(words, aloud = true) {
    status.setAttribute("aria-live", aloud ? "polite" : "off");
    status.replaceChildren(...words);
  }

  // --- plot --------------------------------------------------------------------------------

  let box = { width: 0, height: 0, left: 52, right: 20, top: 30, bottom: 46 };
  const X = (I) => box.left + (log(I) - x0) / (x1 - x0) * (box.width - box.left - box.right);
  const Y = (rate) => box.height - box.bottom
    - (log(rate) - y0) / (y1 - y0) * (box.height - box.top - box.bottom);
  const fromX = (x) => 10 ** (x0 + (x - box.left) / (box.width - box.left - box.right) * (x1 - x0));
  const fromY = (y) => 10 ** (y0 + (box.height - box.bottom - y)
    / (box.height - box.top - box.bottom) * (y1 - y0));

  const tick = (x, y, words, anchor) =>
    make("svg:text", { x, y, "text-anchor": anchor, class: "rl-tick" }, words);
  const line = (d, name, more = {}) => make("svg:path", { d, class: name, ...more });

  // Labels: each takes the first of its places that is free, else the freest.
  let taken = [];
  const keepOff = (x, y, r) => taken.push([x - r, y - r, x + r, y + r]);
  function place(words, name, ...places) {
    const tried = places.map(({ x, y, anchor = "start", angle = 0, say = words }) => {
      const long = 6.8 * say.length, first = { start: 0, middle: -long / 2, end: -long }[anchor];
      const steps = Math.ceil(long / 12), marks = [];
      for (let i = 0; i < steps; i++) {
        const along = first + (i + 0.5) * long / steps;
        const cx = x + along * Math.cos(angle) + 5 * Math.sin(angle);
        const cy = y + along * Math.sin(angle) - 5 * Math.cos(angle);
        marks.push([cx - 7, cy - 8, cx + 7, cy + 8]);
      }
      const hits = marks.filter(([l, t, r, b]) => l < box.left - 4 || r > box.width + 4 || t < 0
        || taken.some(([L, T, R, B]) => l < R && L < r && t < B && T < b)).length;
      return { hits, marks, node: make("svg:text", { class: name, "text-anchor": anchor,
        transform: `translate(${x} ${y}) rotate(${angle * 180 / Math.PI})` }, say) };
    });
    const best = tried.reduce((one, other) => (other.hits < one.hits ? other : one));
    taken.push(...best.marks);
    return best.node;
  }

  function draw(fresh = false) {
    const at = now(), floor = box.height - box.bottom, right = box.width - box.right;
    const x = X(at.I), peak = Y(at.P), mark = Y(at.rate), bend = X(at.ridge);
    const parts = [];
    for (let e = x0; e <= x1; e++) {
      parts.push(line(`M${X(10 ** e)} ${box.top}V${floor}`, "rl-grid"),
        tick(X(10 ** e), floor + 18, significant(10 ** e), "middle"));
    }
    for (let e = y0; e <= y1; e++) {
      parts.push(line(`M${box.left} ${Y(10 ** e)}H${right}`, "rl-grid"),
        tick(box.left - 7, Y(10 ** e) + 4, show(10 ** e, ""), "end"));
    }
    parts.push(line(`M${box.left} ${box.top}V${floor}H${right}`, "rl-axis"),
      tick(4, 15, "rate, FLOP/s", "start"),
      tick(right, floor + 38, "intensity I, FLOP per byte", "end"));

    taken = [];
    const P = `P = ${show(at.P, "FLOP/s")}`;
    if (!state.revealed) {
      parts.push(line(`M${box.left} ${peak}H${right}`, "rl-hint"),
        line(`M${x} ${box.top}V${floor}`, "rl-hint"),
        place(`${P}, the most it computes`, "rl-compute", { x: box.left + 8, y: peak - 8 }),
        place(`I = W / Q = ${significant(at.I)}`, "", { x: x + 8, y: floor - 10 },
          { x: x - 8, y: floor - 10, anchor: "end" }));
    } else {
      const low = 10 ** Math.max(x0, y0 - log(at.BW));  // where the slanted roof leaves the floor
      const foot = [X(low), Y(low * at.BW)], slope = `M${foot.join(" ")}L${bend} ${peak}`;
      const draws = fresh ? " rl-draws" : "";
      parts.push(line(`${slope}V${floor}H${foot[0]}Z`, "rl-under-memory"),
        line(`M${bend} ${peak}H${right}V${floor}H${bend}Z`, "rl-under-compute"),
        line(`M${bend} ${peak}V${floor}`, "rl-hint"));
      if (state.ghost) {
        const { BW, ridge } = state.ghost, start = 10 ** Math.max(x0, y0 - log(BW));
        parts.push(line(`M${X(start)} ${Y(start * BW)}L${X(ridge)} ${Y(ridge * BW)}H${right}`,
          "rl-ghost"));
      }
      parts.push(line(slope, `rl-roof rl-of-memory${draws}`, { pathLength: 1 }),
        line(`M${bend} ${peak}H${right}`, `rl-roof rl-of-compute${draws}`, { pathLength: 1 }),
        line(`M${x} ${mark}V${floor}`, `rl-stem rl-of-${at.bound}`));
      keepOff(x, mark, 12);
      keepOff(x, floor - 12, 6);  // the stem's foot
      for (let i = 0; i <= 30; i++) {
        keepOff(foot[0] + (bend - foot[0]) * i / 30, foot[1] + (peak - foot[1]) * i / 30, 2);
        keepOff(bend + (right - bend) * i / 30, peak, 2);
      }
      const guessed = state.placed && !state.touched ? Y(state.guess) : null;
      if (guessed !== null) {
        keepOff(x, guessed, 12);
        parts.push(line(`M${x} ${mark}V${guessed}`, "rl-gap"),
          make("svg:path", { class: "rl-mark rl-was", d: "M0-8 8 0 0 8-8 0Z",
            transform: `translate(${x} ${guessed})` }));
      }
      const end = { anchor: "end" }, middle = { anchor: "middle" };
      const angle = Math.atan2(peak - foot[1], bend - foot[0]);
      const along = (t, dy) => ({ x: foot[0] + t * (bend - foot[0]) + dy * Math.sin(-angle),
        y: foot[1] + t * (peak - foot[1]) + dy * Math.cos(angle), angle, ...middle });
      const band = `I x ${at.figure.text}`;
      if (at.bound === "memory") {
        parts.push(place(show(at.rate, "FLOP/s"), "rl-value", { x: x + 14, y: mark + 22 },
          { x: x - 14, y: mark + 22, ...end }, { x: x - 14, y: mark - 14, ...end },
          { x: x + 14, y: mark - 12 }));
      }
      parts.push(
        place(P, "rl-compute", { x: right, y: peak - 8, ...end }, { x: bend + 6, y: peak - 8 },
          { x: right, y: peak - 22, ...end }),
        ...(guessed === null ? [] : [place("your guess", "rl-guessed",
          { x: x - 14, y: guessed + 5, ...end }, { x: x + 14, y: guessed + 5 },
          { x: x + 14, y: guessed - 8 }, { x, y: guessed - 15, ...middle })]),
        place(`${at.machine.link}: ${band}`, "rl-memory", ...[0.5, 0.3, 0.7].map((t) => along(t, -9)),
          ...[0.5, 0.25, 0.75, 0.35, 0.65].map((t) => ({ ...along(t, -9), say: band })),
          ...[0.3, 0.6].map((t) => ({ ...along(t, 20), say: band }))),
        place(`ridge ${significant(at.ridge)}`, "", { x: bend + 6, y: floor - 8 },
          { x: bend - 6, y: floor - 8, ...end }, { x: bend + 6, y: floor - 26 }));
    }
    scene.replaceChildren(...parts);

    guess.style.display = state.revealed ? "none" : "";
    point.style.display = state.revealed ? "" : "none";
    guess.setAttribute("transform", `translate(${x} ${Y(state.guess)})`);
    point.setAttribute("transform", `translate(${x} ${Y(at.rate)})`);
    point.dataset.bound = at.bound;
    guess.dataset.placed = state.placed;
    slider(guess, y0, y1, log(state.guess),
      (state.placed ? "" : "not placed; ") + show(state.guess, "FLOP/s"));
    slider(point, x0, x1, log(at.I), `I = ${show(at.I, "FLOP/B")}, ${at.bound}-bound, entitled to `
      + show(at.rate, "FLOP/s"));
  }
  function slider(node, low, high, value, words) {
    node.setAttribute("aria-valuemin", low);
    node.setAttribute("aria-valuemax", significant(high));
    node.setAttribute("aria-valuenow", value.toFixed(2));
    node.setAttribute("aria-valuetext", words);
  }

  // --- words -------------------------------------------------------------------------------

  const once = () => count().bytes;
  function headline(at) {
    return make("strong", {}, `${at.bound === "memory" ? "Memory" : "Compute"}-bound: entitled to `
      + `${show(at.rate, "FLOP/s")}, ${significant(100 * at.rate / at.P)} % of P.`);
  }
  function summary() {
    const at = now(), factor = at.Q / once();
    const bytes = Math.abs(factor - 1) < 0.005 ? ""
      : factor > 1 ? ` Q is ${times(factor)} times the op's own bytes.`
        : ` Q is ${times(factor)} of the op's own bytes: the rest would have to stay on the chip.`;
    return [headline(at), bytes];
  }
  function verdict() {
    const at = now(), said = [headline(at), ` Computing ${show(at.W, "FLOP")} takes `
      + `${show(at.compute, "s")}, moving ${show(at.Q, "B")} takes ${show(at.memory, "s")}; the `
      + "longer one sets the pace."];
    if (state.choice) {
      said.push(state.choice === at.bound ? " You said so." : ` You said ${state.choice}.`);
    }
    if (state.placed) {
      const factor = state.guess / at.rate;
      said.push(Math.max(factor, 1 / factor) < 2 ? " Your mark is within a factor of 2."
        : factor > 1 ? ` Your mark is ${times(factor)} times too high: above the roof.`
          : ` Your mark is ${times(1 / factor)} times too low: the chip allows more.`);
    }
    return said;
  }

  function describe(asks) {
    const at = now(once());
    question.replaceChildren(make("p", {}, ops[state.op].says), make("p", {},
      `The numbers are ${state.dtype}, so the op does `, make("b", {}, `W = ${show(at.W, "FLOP")}`),
      " and moves ", make("b", {}, `Q = ${show(at.Q, "B")}`), `. The machine is ${at.machine.name}: it `
      + "computes at most ", make("b", {}, `P = ${show(at.P, "FLOP/s")}`),
      ` and its ${at.machine.link} moves at most `, make("b", {}, `BW = ${at.figure.text}`),
      `. ${asks}`));
  }

  // --- panel and controls ------------------------------------------------------------------

  function predictPanel() {
    const radios = [["memory", "moving the bytes (memory)"], ["compute", "computing (compute)"]].map(
      ([key, words]) => {
        const input = make("input",
          { type: "radio", name: `${el.id}-limit`, value: key, id: `${el.id}-${key}` });
        input.addEventListener("change", () => { state.choice = key; });
        return make("label", { for: input.id }, input, make("span", {}, words));
      });
    panel.replaceChildren(
      make("p", { class: "rl-step" }, "Put the mark where you think this op runs at best: drag it, "
        + "tap the plot, or use the arrow keys."),
      make("fieldset", {}, make("legend", {}, "What takes longer?"), ...radios),
      make("div", { class: "rl-buttons" },
        button("Check my guess", () => {
          if (state.placed || state.choice) reveal();
          else say(["Put the mark somewhere or choose one of the two, or skip the guess."]);
        }, true),
        button("Skip", () => { state.placed = false; state.choice = ""; reveal(); })));
    controls.replaceChildren();
    say([], false);
  }

  const reads = {};
  function explorePanel() {
    const list = make("dl", { class: "rl-reads" });
    for (const [key, name, kind] of [["W", "work W"], ["Q", "bytes Q"], ["I", "I = W / Q"],
      ["ridge", "ridge P / BW"], ["compute", "computing, W / P", "compute"],
      ["memory", "moving, Q / BW", "memory"], ["best", "T_best, the longer"],
      ["worst", "T_worst, the sum"]]) {
      reads[key] = make("span");
      const value = make("dd", {}, reads[key]);
      if (kind) {
        reads[`${key}Bar`] = make("span", { class: `rl-bar rl-fill-${kind}` });
        value.append(make("span", { class: "rl-track", "aria-hidden": "true" }, reads[`${key}Bar`]));
      }
      list.append(make("dt", {}, name), value);
    }
    const next = ask.length > 1 ? [button("Guess another", () => { predict(); guess.focus(); })] : [];
    panel.replaceChildren(list, make("div", { class: "rl-buttons" }, ...next));
  }

  function select(name, options, chosen, change) {
    const id = `${el.id}-${name.replace(/\W/g, "")}`;
    const node = make("select", { id },
      ...options.map(([value, words, off]) => make("option", off ? { value, disabled: "" } : { value },
        words)));
    node.value = chosen;
    node.addEventListener("change", () => {
      change(node.value);
      controls.querySelector(`[id="${id}"]`).focus();  // the list was made anew
    });
    return make("div", { class: "rl-control" }, make("label", { for: id }, name), node);
  }
  function exploreControls() {
    const at = now(), op = ops[state.op], machine = at.machine;
    const known = dtypes(state.machine, state.op);
    const source = (name, spec) => make("p", { class: "rl-source" },
      make("b", {}, `${name} = ${spec.text}`), `, ${spec.kind}: ${spec.about}`);
    const mappings = op.counts.map(({ name }, i) => {
      const node = button(name, () => { state.bytes = count(i).bytes; touched(); });
      node.dataset.bytes = i;
      return node;
    });
    controls.replaceChildren(
      make("p", { class: "rl-step" }, "Drag the point, or use the arrow keys on it: it changes "
        + "the bytes Q and leaves the work W alone. Then try another machine. Rates and times are "
        + "derived from W, Q, P and BW."),
      make("div", { class: "rl-row" },
        select("Op", ops.map((o, i) => [i, o.label]), state.op, (i) => change({ op: Number(i) })),
        select("Machine", machines.map((m, i) => [i, m.name, !dtypes(i, state.op).length]),
          state.machine, (i) => change({ machine: Number(i) })),
        select("Numbers", known.map((d) => [d, d]), state.dtype, (dtype) => change({ dtype })),
        select("Bandwidth figure", machine.bandwidths.map((b, i) => [i, `${b.text}, ${b.kind}`]),
          state.figure, (i) => change({ figure: Number(i) }))),
      make("div", { class: "rl-buttons", role: "group", "aria-labelledby": `${el.id}-moves` },
        make("span", { id: `${el.id}-moves` }, "The op moves"), ...mappings),
      ...Object.keys(count().work).map((d) => source(`${d} P`, machine.peaks[d])),
      source(`${machine.link} BW`, at.figure));
  }

  // --- what happens ------------------------------------------------------------------------

  function change(to) {
    const before = now(), dtype = state.dtype;
    Object.assign(state, to);
    if (to.machine !== undefined) state.figure = 0;
    const known = dtypes(state.machine, state.op);
    if (!known.length) {  // no dtype in common: the first machine that has one
      state.machine = machines.findIndex((_, m) => dtypes(m, state.op).length);
      state.figure = 0;
    }
    if (!known.includes(state.dtype)) state.dtype = dtypes(state.machine, state.op)[0];
    if (to.op !== undefined || state.dtype !== dtype) state.bytes = count().bytes;
    const after = now();
    state.ghost = before.P !== after.P || before.BW !== after.BW ? before : null;
    describe("");
    exploreControls();
    touched();
  }
  function touched(aloud = true) {
    state.touched = true;
    update();
    say(summary(), aloud);
  }
  function update(fresh = false) {
    draw(fresh);
    if (!state.revealed) return;
    const at = now();
    const words = { W: show(at.W, "FLOP"), Q: show(at.Q, "B"), I: show(at.I, "FLOP/B"),
      ridge: show(at.ridge, "FLOP/B"), compute: show(at.compute, "s"), memory: show(at.memory, "s"),
      best: show(at.best, "s"), worst: show(at.worst, "s") };
    for (const [key, value] of Object.entries(words)) reads[key].textContent = value;
    reads.computeBar.style.width = `${100 * at.compute / at.best}%`;
    reads.memoryBar.style.width = `${100 * at.memory / at.best}%`;
    for (const node of controls.querySelectorAll("[data-bytes]")) {
      node.setAttribute("aria-pressed", Math.abs(count(node.dataset.bytes).bytes / at.Q - 1) < 1e-9);
    }
  }
  function predict() {
    state.ask = (state.ask + 1) % ask.length;
    [state.machine, state.op] = ask[state.ask];
    Object.assign(state, { dtype: dtypes(state.machine, state.op)[0], figure: 0, revealed: false,
      touched: false, choice: "", placed: false, ghost: null, guess: 10 ** ((y0 + y1) / 2) });
    state.bytes = count().bytes;
    describe("What limits the op, and how fast can it run at best?");
    predictPanel();
    update();
  }
  function reveal() {
    state.revealed = true;
    explorePanel();
    exploreControls();
    update(true);
    say(verdict());
    point.focus();
  }

  // --- keys, pointers ----------------------------------------------------------------------

  function setGuess(exponent) {
    state.guess = 10 ** clamp(exponent, y0, y1);
    state.placed = true;
    update();
  }
  function setIntensity(exponent) {
    state.bytes = now().W / 10 ** clamp(exponent, x0, x1);
    touched(false);
  }
  const where = { "rl-guess": [() => log(state.guess), setGuess, y0, y1],
    "rl-point": [() => log(now().I), setIntensity, x0, x1] };
  for (const [node, name] of [[guess, "rl-guess"], [point, "rl-point"]]) {
    const [value, set, low, high] = where[name];
    node.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 0.05, ArrowUp: 0.05, ArrowLeft: -0.05, ArrowDown: -0.05,
        PageUp: 0.5, PageDown: -0.5 }[event.key];
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (step) set(Math.round((value() + step) / 0.05) * 0.05);
      else if (event.key === "Home") set(low);
      else if (event.key === "End") set(high);
      else if (name === "rl-guess" && event.key === "Enter") { setGuess(value()); reveal(); }
      else return;
      event.preventDefault();
    });
    // A finger on a handle drags it; touch-action has no effect inside an SVG.
    node.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
    node.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      node.setPointerCapture(event.pointerId);
      event.preventDefault();
      node.focus({ preventScroll: true });
    });
    node.addEventListener("pointermove", (event) => {
      if (node.hasPointerCapture(event.pointerId)) follow(event);
    });
  }
  function follow(event) {
    const frame = svg.getBoundingClientRect();
    if (state.revealed) setIntensity(log(fromX(event.clientX - frame.left)));
    else setGuess(log(fromY(event.clientY - frame.top)));
  }
  svg.addEventListener("click", (event) => { if (!event.target.closest(".rl-handle")) follow(event); });
  // Page and JupyterLab shortcuts are not meant for what is typed here.
  for (const type of ["keydown", "keyup"]) {
    el.addEventListener(type, (event) => event.stopPropagation());
  }
  el.dataset.lmSuppressShortcuts = "true";

  function resize() {
    const width = plot.clientWidth;
    if (!width || width === box.width) return;
    box = { ...box, width, height: Math.round(clamp(width * 0.8, 300, 440)) };
    svg.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    svg.setAttribute("width", box.width);
    svg.setAttribute("height", box.height);
    draw();
  }

  const figure = make("div", { class: "rl-roofline" }, question,
    make("div", { class: "rl-stage" }, plot, make("div", {}, status, panel), controls));
  el.replaceChildren(figure, ...(tables ? [tables] : []));
  box = { ...box, width: 640, height: 430 };
  predict();
  box.width = 0;
  resize();
  new ResizeObserver(resize).observe(plot);
}

export default { render };
