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
export function significant(value, digits = 3) {
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
export function show(value, unit) {
  const prefixes = unit === "s" ? SMALL : unit === "FLOP/B" ? [["", 1]] : LARGE;
  let [name, factor] = prefixes[0];
  for (const [n, f] of prefixes) if (Number(significant(value / f)) >= 1) [name, factor] = [n, f];
  return `${significant(value / factor)} ${name}${unit}`;
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
  const x0 = Math.floor(log(Math.min(...every) / 2));
  const x1 = Math.ceil(log(Math.max(...every, Math.max(...peaks) / Math.min(...bands)) * 1.5));
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
  const panel = make("div", { class: "rl-panel" });
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
  function say(text, aloud = true) {
    status.setAttribute("aria-live", aloud ? "polite" : "off");
    status.textContent = text;
  }

  // --- plot --------------------------------------------------------------------------------

  let box = { width: 0, height: 0, left: 54, right: 12, top: 30, bottom: 46 };
  const X = (I) => box.left + (log(I) - x0) / (x1 - x0) * (box.width - box.left - box.right);
  const Y = (rate) => box.height - box.bottom
    - (log(rate) - y0) / (y1 - y0) * (box.height - box.top - box.bottom);
  const fromX = (x) => 10 ** (x0 + (x - box.left) / (box.width - box.left - box.right) * (x1 - x0));
  const fromY = (y) => 10 ** (y0 + (box.height - box.bottom - y)
    / (box.height - box.top - box.bottom) * (y1 - y0));

  function text(x, y, words, attributes = {}) {
    return make("svg:text", { x, y, ...attributes }, words);
  }
  const line = (d, name) => make("svg:path", { d, class: name });
  function roofPath({ P, BW, ridge }) {
    const left = 10 ** Math.max(x0, y0 - log(BW));  // where the slanted roof leaves the floor
    return `M${X(left)} ${Y(left * BW)}L${X(ridge)} ${Y(P)}L${X(10 ** x1)} ${Y(P)}`;
  }

  function draw(fresh = false) {
    const at = now(), floor = box.height - box.bottom, right = box.width - box.right;
    const parts = [];
    for (let e = x0; e <= x1; e++) {
      parts.push(line(`M${X(10 ** e)} ${box.top}V${floor}`, "rl-grid"),
        text(X(10 ** e), floor + 18, significant(10 ** e), { "text-anchor": "middle", class: "rl-tick" }));
    }
    for (let e = y0; e <= y1; e++) {
      const [number, prefix] = show(10 ** e, "").split(" ");
      parts.push(line(`M${box.left} ${Y(10 ** e)}H${right}`, "rl-grid"),
        text(box.left - 7, Y(10 ** e) + 4, `${number} ${prefix}`, { "text-anchor": "end", class: "rl-tick" }));
    }
    parts.push(line(`M${box.left} ${box.top}V${floor}H${right}`, "rl-axis"),
      text(4, 15, "rate, FLOP/s", { class: "rl-name" }),
      text(right, floor + 38, "intensity I, FLOP per byte", { "text-anchor": "end", class: "rl-name" }));

    const x = X(at.I), late = x > box.left + 0.62 * (right - box.left);
    const peakText = `P = ${show(at.P, "FLOP/s")}`;
    if (!state.revealed) {
      parts.push(line(`M${box.left} ${Y(at.P)}H${right}`, "rl-hint"),
        text(box.left + 8, Y(at.P) - 8, `${peakText}, the most it computes`, { class: "rl-compute" }),
        line(`M${x} ${box.top}V${floor}`, "rl-hint"),
        text(x + (late ? -8 : 8), floor - 10, `I = W / Q = ${significant(at.I)}`,
          { "text-anchor": late ? "end" : "start" }));
    } else {
      const slope = roofPath(at);
      const corner = `L${X(at.ridge)} ${floor}`;
      const [memory, compute] = [slope.slice(0, slope.lastIndexOf("L")), slope.slice(slope.lastIndexOf("L"))];
      parts.push(line(`${memory}${corner}H${memory.slice(1).split(" ")[0]}Z`, "rl-under-memory"),
        line(`M${X(at.ridge)} ${Y(at.P)}${compute}V${floor}H${X(at.ridge)}Z`, "rl-under-compute"));
      if (state.ghost) parts.push(line(roofPath(state.ghost), "rl-ghost"));
      const draws = fresh ? " rl-draws" : "";
      parts.push(make("svg:path", { d: memory, class: `rl-roof rl-of-memory${draws}`, pathLength: 1 }),
        make("svg:path", { d: `M${X(at.ridge)} ${Y(at.P)}${compute}`,
          class: `rl-roof rl-of-compute${draws}`, pathLength: 1 }),
        line(`M${X(at.ridge)} ${Y(at.P)}V${floor}`, "rl-hint"),
        text(right, Y(at.P) - 8, peakText, { "text-anchor": "end", class: "rl-compute" }));
      const ridgeLate = X(at.ridge) > box.left + 0.7 * (right - box.left);
      parts.push(text(X(at.ridge) + (ridgeLate ? -6 : 6), floor - 8, `ridge ${significant(at.ridge)}`,
        { "text-anchor": ridgeLate ? "end" : "start" }));
      // Along the slanted roof, a little above it.
      const low = 10 ** Math.max(x0, y0 - log(at.BW)), mid = Math.sqrt(low * at.ridge);
      const angle = Math.atan2(Y(at.P) - Y(low * at.BW), X(at.ridge) - X(low)) * 180 / Math.PI;
      parts.push(text(0, -9, `${at.machine.link}: I x ${at.figure.text}`, { "text-anchor": "middle",
        class: "rl-memory", transform: `translate(${X(mid)} ${Y(mid * at.BW)}) rotate(${angle})` }));
      parts.push(line(`M${x} ${Y(at.rate)}V${floor}`, `rl-stem rl-of-${at.bound}`));
      if (state.placed && !state.touched) {
        parts.push(line(`M${x} ${Y(at.rate)}V${Y(state.guess)}`, "rl-gap"),
          make("svg:path", { class: "rl-mark rl-was", d: "M0-8 8 0 0 8-8 0Z",
            transform: `translate(${x} ${Y(state.guess)})` }));
        if (Math.abs(Y(state.guess) - Y(at.rate)) > 24) {
          parts.push(text(x + (late ? -14 : 14), Y(state.guess) + (Math.abs(Y(state.guess) - Y(at.P) + 8) < 14
            ? 20 : 5), "your guess", { "text-anchor": late ? "end" : "start", class: "rl-guessed" }));
        }
      }
      const under = X(at.I) > right - 110;
      parts.push(text(x + (under ? -12 : 14), Y(at.rate) + 22, show(at.rate, "FLOP/s"),
        { "text-anchor": under ? "end" : "start", class: "rl-value" }));
    }
    scene.replaceChildren(...parts);

    guess.style.display = state.revealed ? "none" : "";
    point.style.display = state.revealed ? "" : "none";
    guess.setAttribute("transform", `translate(${x} ${Y(state.guess)})`);
    point.setAttribute("transform", `translate(${x} ${Y(at.rate)})`);
    point.dataset.bound = at.bound;
    guess.dataset.placed = state.placed;
    slider(guess, y0, y1, log(state.guess), (state.placed ? "" : "not placed; ") + show(state.guess, "FLOP/s"));
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
  function about(at) {
    const share = `${significant(100 * at.rate / at.P)} % of P`;
    const factor = at.Q / once();
    const bytes = Math.abs(factor - 1) < 0.005 ? ""
      : factor > 1 ? ` Q is ${times(factor)} times the op's own bytes.`
        : ` Q is ${times(factor)} of the op's own bytes: some of them must stay on the chip.`;
    return `${at.bound}-bound, entitled to ${show(at.rate, "FLOP/s")}, ${share}.${bytes}`;
  }
  function verdict() {
    const at = now(), said = [];
    if (state.placed) {
      const factor = state.guess / at.rate;
      said.push(Math.max(factor, 1 / factor) < 2 ? "Your mark was within a factor of 2."
        : factor > 1 ? `Your mark was ${times(factor)} times too high: no roof reaches it there.`
          : `Your mark was ${times(1 / factor)} times too low: the chip allows more.`);
    }
    if (state.choice) {
      said.push(state.choice === at.bound ? `And it is ${at.bound}, as you said.`
        : `You said ${state.choice}; it is ${at.bound}.`);
      if (!state.placed) said[0] = said[0].replace(/^And it/, "It");
    }
    said.push(`Computing ${show(at.W, "FLOP")} takes ${show(at.compute, "s")}, moving `
      + `${show(at.Q, "B")} takes ${show(at.memory, "s")}. The longer one sets the pace: ${about(at)}`);
    return said.join(" ");
  }

  // --- panel and controls ------------------------------------------------------------------

  function predictPanel() {
    const radios = [["memory", "moving the bytes (memory)"], ["compute", "computing (compute)"]].map(
      ([key, words]) => {
        const input = make("input", { type: "radio", name: `${el.id}-limit`, value: key, id: `${el.id}-${key}` });
        input.addEventListener("change", () => { state.choice = key; });
        return make("label", { for: input.id }, input, make("span", {}, words));
      });
    panel.replaceChildren(
      make("p", { class: "rl-step" }, "Put the mark where you think this op runs at best: drag it, tap the plot, "
        + "or use the arrow keys."),
      make("fieldset", {}, make("legend", {}, "What takes longer?"), ...radios),
      make("div", { class: "rl-buttons" },
        button("Check my guess", () => {
          if (state.placed || state.choice) reveal();
          else say("Put the mark somewhere or choose one of the two, or skip the guess.");
        }, true),
        button("Skip", () => { state.placed = false; state.choice = ""; reveal(); })),
      status);
    controls.replaceChildren();
    say("", false);
  }

  const reads = {};
  function explorePanel() {
    const list = make("dl", { class: "rl-reads" });
    for (const [key, name, kind] of [["W", "work W"], ["Q", "bytes Q"], ["I", "I = W / Q"],
      ["ridge", "ridge P / BW"], ["compute", "computing, W / P", "compute"],
      ["memory", "moving, Q / BW", "memory"], ["best", "T_best, both at once"],
      ["worst", "T_worst, in turn"]]) {
      reads[key] = make("span");
      const value = make("dd", {}, reads[key]);
      if (kind) {
        reads[`${key}Bar`] = make("span", { class: `rl-bar rl-fill-${kind}` });
        value.append(make("span", { class: "rl-track", "aria-hidden": "true" }, reads[`${key}Bar`]));
      }
      list.append(make("dt", {}, name), value);
    }
    const next = ask.length > 1 ? [button("Guess another", () => { predict(); guess.focus(); })] : [];
    panel.replaceChildren(status, list, make("div", { class: "rl-buttons" }, ...next));
  }

  function select(name, options, chosen, change) {
    const id = `${el.id}-${name.replace(/\W/g, "")}`;
    const node = make("select", { id }, ...options.map(([value, words]) => make("option", { value }, words)));
    node.value = chosen;
    node.addEventListener("change", () => { change(node.value); node.ownerDocument.getElementById(id)?.focus(); });
    return make("div", { class: "rl-control" }, make("label", { for: id }, name), node);
  }
  function exploreControls() {
    const at = now(), op = ops[state.op], machine = at.machine;
    const known = dtypes(state.machine, state.op);
    const source = (name, spec) => make("p", { class: "rl-source" }, make("b", {}, `${name} = ${spec.text}`),
      `, ${spec.kind}: ${spec.about}`);
    const mappings = op.counts.map(({ name }, i) => {
      const node = button(name, () => { state.bytes = count(i).bytes; touched(); });
      node.dataset.bytes = i;
      return node;
    });
    controls.replaceChildren(
      make("p", { class: "rl-step" }, "Drag the point, or use the arrow keys on it: it changes the bytes Q and "
        + "leaves the work W alone. Then try another chip."),
      make("div", { class: "rl-row" },
        select("Op", ops.map((o, i) => [i, o.label]), state.op, (i) => change({ op: Number(i) })),
        select("Machine", machines.map((m, i) => [i, m.name]), state.machine,
          (i) => change({ machine: Number(i) })),
        select("Numbers", known.map((d) => [d, d]), state.dtype, (dtype) => change({ dtype })),
        select("Bandwidth figure", machine.bandwidths.map((b, i) => [i, `${b.text}, ${b.kind}`]), state.figure,
          (i) => change({ figure: Number(i) }))),
      make("div", { class: "rl-buttons", role: "group", "aria-label": "Bytes the op moves" }, ...mappings),
      ...Object.keys(count().work).map((d) => source(`P, ${d},`, machine.peaks[d])),
      source(`BW, ${machine.link},`, at.figure));
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
    exploreControls();
    touched();
  }
  function touched(aloud = true) {
    state.touched = true;
    update();
    const at = now();
    say(`I = ${show(at.I, "FLOP/B")}: ${about(at)}`, aloud);
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
    const at = now();
    question.replaceChildren(make("p", {}, ops[state.op].says), make("p", {},
      `The numbers are ${state.dtype}, so the op does `, make("b", {}, `W = ${show(at.W, "FLOP")}`),
      " and moves ", make("b", {}, `Q = ${show(at.Q, "B")}`), `. The machine is ${at.machine.name}: it computes `
      + "at most ", make("b", {}, `P = ${show(at.P, "FLOP/s")}`), ` and its ${at.machine.link} moves at most `,
      make("b", {}, `BW = ${at.figure.text}`), ". What limits the op, and how fast can it run at best?"));
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
  for (const type of ["keydown", "keyup"]) el.addEventListener(type, (event) => event.stopPropagation());
  el.dataset.lmSuppressShortcuts = "true";

  function resize() {
    const width = plot.clientWidth;
    if (!width || width === box.width) return;
    box = { ...box, width, height: Math.round(clamp(width * 0.72, 280, 430)) };
    svg.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    svg.setAttribute("width", box.width);
    svg.setAttribute("height", box.height);
    draw();
  }

  const figure = make("div", { class: "rl-roofline" }, question,
    make("div", { class: "rl-stage" }, plot, panel, controls));
  el.replaceChildren(figure, ...(tables ? [tables] : []));
  box = { ...box, width: 640, height: 430 };
  predict();
  box.width = 0;
  resize();
  new ResizeObserver(resize).observe(plot);
}

export default { render };
