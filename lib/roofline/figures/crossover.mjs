// Predict, reveal, drag: the intensity of a linear layer y = xW against its batch B.
//
// Every number of a chip and every element size comes in through `model`. For drawing and for the
// read-outs the page evaluates only
//   W = 2 B D F      Q = p_x B D + p_w D F + p_y B F      I = W / Q      ridge = P / BW
//   T_best = max(W / P, Q / BW); the layer is memory-bound while Q / BW is the larger
//   crossover: W = ridge Q solved for B
//     B = ridge p_w D F / (2 D F - ridge (p_x D + p_y F)), none where the divisor is not > 0
//   first whole batch: the least B with W - ridge Q >= 0
//   I at most = 2 D F / (p_x D + p_y F)

import { DISC, axes, button, clamp, drags, fixed, guessForm, handle, line, log, make, readouts,
  select, show, significant, slider, source, speaker, stage } from "./plot.mjs";

const NAMES = { B: "batch", D: "in", F: "out" };
const SIDES = { earlier: "at a smaller batch", later: "at a larger batch", same: "at the same batch" };

function count(bytes, B, D, F) {
  const x = bytes.x * B * D, w = bytes.w * D * F, y = bytes.y * B * F;
  return { W: 2 * B * D * F, Q: x + w + y, x, w, y, I: 2 * B * D * F / (x + w + y) };
}

function render({ model, el }) {
  const machines = model.get("machines"), layers = model.get("layers"), sizes = model.get("sizes");
  const start = model.get("start"), halved = Math.floor(start.D / 2);
  const state = { ...start, machine: 0, layer: 0, figure: 0, locked: false, zoomed: false,
    revealed: false, choice: "" };

  // --- the model ---------------------------------------------------------------------------

  const known = (machine, layer) => layers[layer].dtype in machines[machine].peaks;
  function now(over = {}) {
    const { B, D, F, layer, machine, figure } = { ...state, ...over };
    const { bytes, dtype } = layers[layer], chip = machines[machine];
    const P = chip.peaks[dtype].value, BW = chip.bandwidths[figure].value, ridge = P / BW;
    const above = (B) => count(bytes, B, D, F).W - ridge * count(bytes, B, D, F).Q;
    const left = 2 * D * F - ridge * (bytes.x * D + bytes.y * F);
    const exact = left > 0 ? ridge * (bytes.w * D * F) / left : Infinity;
    let least = Math.ceil(exact);
    if (exact < 2 ** 30) {  // beyond, a double cannot tell one batch from the next
      while (least > 1 && above(least - 1) >= 0) least -= 1;
      while (above(least) < 0) least += 1;
    }
    const here = count(bytes, B, D, F), compute = here.W / P, memory = here.Q / BW;
    return { ...here, B, D, F, P, BW, ridge, compute, memory, exact, least,
      best: Math.max(compute, memory), bound: memory > compute ? "memory" : "compute",
      limit: 2 * D * F / (bytes.x * D + bytes.y * F), intensity: (B) => count(bytes, B, D, F).I };
  }
  const none = (at) => at.exact === Infinity;
  const named = ({ D, F, layer }, from = state.layer) =>
    (D === F ? `D = F = ${D}` : `D = ${D}, F = ${F}`) + (layer === from ? "" : `, ${layers[layer].label}`);

  // --- the plot ----------------------------------------------------------------------------

  // One view for every setting, so that nothing jumps, and a closer one around the crossing.
  const low = Math.min(...layers.map(({ bytes }) =>
    count(bytes, sizes.B[0], sizes.D[0], sizes.F[0]).I));
  const ridges = machines.flatMap((m) => m.bandwidths.flatMap((bandwidth) => layers.flatMap(
    ({ dtype }) => (dtype in m.peaks ? [m.peaks[dtype].value / bandwidth.value] : []))));
  const whole = [...sizes.B.map(log), log(low) - 0.1, log(Math.max(...ridges)) + 1.2];
  const plot = axes("Intensity of the layer against its batch", whole), { X, Y } = plot;
  const point = handle("rl-point", "The batch B", "horizontal", DISC);
  plot.svg.append(point);

  function draw() {
    const at = now(), { left, right, top, floor, keepOff, place, placeIfFree } = plot;
    const close = state.zoomed && !none(at);
    const [x0, x1, y0, y1] = close ? [log(at.exact / 4), log(at.exact * 4), log(at.ridge / 4),
      log(at.ridge * 4)] : [...whole.slice(0, 3), Math.max(whole[3],
      log(at.intensity(sizes.B[1])) + 0.1)];
    Object.assign(plot, { x0, x1, y0, y1 });
    const seen = (B, I) => log(B) >= x0 - 1e-9 && log(B) <= x1 + 1e-9 && log(I) >= y0 && log(I) <= y1;
    const curve = (intensity, from, to) => {
      const dots = [], first = Math.max(log(from), x0), last = Math.min(log(to), x1);
      for (let i = 0; i <= 80 && first < last; i++) {
        const B = 10 ** (first + (last - first) * i / 80), I = intensity(B);
        if (seen(B, I)) dots.push([X(B), Y(I)]);
      }
      return dots;
    };
    const path = (dots, name) => (dots.length ? [line(`M${dots.map((d) => d.join(" ")).join("L")}`,
      name)] : []);
    const [end, middle] = [{ anchor: "end" }, { anchor: "middle" }];

    const parts = plot.frame("batch B", "intensity I, FLOP per byte"), level = Y(at.ridge);
    parts.push(line(`M${left} ${level}V${top}H${right}V${level}Z`, "rl-under-compute"),
      line(`M${left} ${level}V${floor}H${right}V${level}Z`, "rl-under-memory"));

    const rivals = state.revealed ? machines[state.machine].bandwidths.map((spec, figure) =>
      ({ spec, ...now({ figure }), on: figure === state.figure })).filter((r) => !r.on) : [];
    for (const { ridge } of rivals) {
      if (log(ridge) < y1) parts.push(line(`M${left} ${Y(ridge)}H${right}`, "rl-rival"));
    }
    parts.push(line(`M${left} ${level}H${right}`, "rl-level"));
    for (let x = left; x <= right; x += 12) keepOff(x, level, 2);

    const was = { ...start, layer: 0 };
    const other = state.revealed && (was.D !== at.D || was.F !== at.F || was.layer !== state.layer);
    const ghost = other ? curve(now(was).intensity, ...sizes.B) : [];
    const below = curve(at.intensity, sizes.B[0], Math.min(at.exact, sizes.B[1]));
    const above = curve(at.intensity, Math.max(at.exact, sizes.B[0]), sizes.B[1]);
    for (const [x, y] of [...ghost, ...below, ...above]) keepOff(x, y, 2);
    parts.push(...path(ghost, "rl-ghost"), ...path(below, "rl-roof rl-of-memory"),
      ...path(above, "rl-roof rl-of-compute"));

    const px = X(at.B), py = Y(at.I), visible = state.revealed && seen(at.B, at.I);
    if (visible) {
      keepOff(px, py, 12);
      parts.push(line(`M${px} ${py}V${floor}`, `rl-stem rl-of-${at.bound}`));
    }
    for (const one of rivals) {
      if (!none(one) && seen(one.exact, one.ridge)) {
        parts.push(make("svg:circle", { class: "rl-at-rival", cx: X(one.exact), cy: Y(one.ridge), r: 3 }));
      }
    }
    if (!none(at) && seen(at.exact, at.ridge)) {
      const x = X(at.exact);
      parts.push(line(`M${x} ${level}V${floor}`, "rl-hint"),
        make("svg:circle", { class: "rl-crossing", cx: x, cy: level, r: 6 }));
      keepOff(x, level, 8);
      parts.push(place(state.revealed ? `crosses at B = ${at.least}` : "crosses here", "rl-value",
        ...[floor - 8, floor - 26, floor - 44].flatMap((y) => [{ x: x + 6, y }, { x: x - 6, y, ...end }]),
        { x: x + 12, y: level + 20 }));
    }
    parts.push(place(`ridge ${significant(at.ridge)}`, "", { x: left + 6, y: level - 7 },
      { x: left + 6, y: level + 17 }, { x: right - 4, y: level + 17, ...end }));
    if (visible) {
      parts.push(place(`B = ${at.B}: I = ${significant(at.I)}`, "rl-value",
        { x: px + 16, y: py + 16 }, { x: px - 16, y: py - 10, ...end }, { x: px + 16, y: py + 30 },
        { x: px + 16, y: py + 16, say: `I = ${significant(at.I)}` },
        { x: px + 16, y: py + 5 }, { x: px - 16, y: py - 24, ...end }, { x: px - 16, y: py + 20, ...end },
        { x: right, y: py + 34, ...end }, { x: left + 6, y: py - 22 }));
    }
    if (log(at.limit) < y1) {
      parts.push(line(`M${left} ${Y(at.limit)}H${right}`, "rl-hint"),
        place(`I stays below ${significant(at.limit)}`, "rl-tick", ...[-6, 16].flatMap((dy) =>
          [{ x: left + 6, y: Y(at.limit) + dy }, { x: right, y: Y(at.limit) + dy, ...end }])));
    }
    // A curve's name, where it is high or at its end.
    const name = (dots, words, style) => {
      const [, y] = dots.at(-1) ?? [right, top], beside = [0.8, 0.6, 0.4].map((t) =>
        dots[Math.floor(dots.length * t)] ?? [right, y]);
      return place(words, style, ...[-8, 18].map((dy) => ({ x: right, y: y + dy, ...end })),
        ...beside.map(([x, y]) => ({ x: x - 10, y: y - 10, ...end })),
        ...beside.map(([x, y]) => ({ x: x + 10, y: y + 18 })),
        ...[-24, 34, 50].map((dy) => ({ x: right, y: y + dy, ...end })));
    };
    parts.push(name(above.length ? above : below, named(state), at.limit > at.ridge ? "rl-compute"
      : "rl-memory"));
    if (ghost.length) parts.push(name(ghost, `dashed: ${named(was)}`, "rl-tick rl-before"));
    for (const { spec, ridge } of rivals) {
      if (log(ridge) < y1 && log(ridge) > y0) {
        parts.push(...placeIfFree(`${spec.text}: ${significant(ridge)}`, "rl-tick",
          ...[-4, 14].flatMap((dy) => [{ x: right, y: Y(ridge) + dy, ...end },
            { x: left + 6, y: Y(ridge) + dy }, { x: left + 110, y: Y(ridge) + dy }])));
      }
    }
    parts.push(...placeIfFree("compute-bound", "rl-compute", { x: left + 6, y: top + 16 },
      { x: left + 6, y: top + 36 }),
    ...placeIfFree("memory-bound", "rl-memory", { x: right - 4, y: floor - 30, ...end },
      { x: right - 4, y: floor - 60, ...end }, { x: right - 4, y: floor - 8, ...end }));
    plot.show(parts);

    point.style.display = visible ? "" : "none";
    point.setAttribute("transform", `translate(${px} ${py})`);
    point.dataset.bound = at.bound;
    slider(point, log(sizes.B[0]), log(sizes.B[1]), log(at.B), `B = ${at.B}, I = ${
      show(at.I, "FLOP/B")}, ${at.bound}-bound`);
  }

  // --- words -------------------------------------------------------------------------------

  const [status, say] = speaker();
  const question = make("div", { class: "rl-question" },
    ...model.get("says").map((words) => make("p", {}, words)));

  const strong = (words) => make("strong", {}, words);
  function summary() {
    const at = now(), head = strong(`${at.bound === "memory" ? "Memory" : "Compute"}-bound at B = ${
      at.B}: I is ${significant(at.I)}, the ridge ${show(at.ridge, "FLOP/B")}.`);
    return [head, none(at) ? ` No batch reaches this ridge: I stays below ${show(at.limit, "FLOP/B")}.`
      : ` It crosses at B = ${fixed(at.exact, 2)}, so from ${at.least} on it is compute-bound.`];
  }
  function verdict() {
    const before = now(start), after = now({ ...start, D: halved });
    const head = none(after) ? "At no batch at all: half the D never reaches this ridge."
      : `At a larger batch: ${after.least} instead of ${before.least}.`;
    return [strong(head), " Half the D halves the work, the weights and x, but y keeps its B F "
      + "numbers: each FLOP pays for more bytes.", ...(state.choice === "later" ? [" You said so."]
      : state.choice ? [` You said ${SIDES[state.choice]}.`] : [])];
  }

  // --- panel and controls ------------------------------------------------------------------

  const panel = make("div", { class: "rl-panel" }), controls = make("div", { class: "rl-controls" });
  const [reads, read] = readouts([["W", "work W"], ["Q", "bytes Q"], ["x", "of Q, x", "memory"],
    ["w", "of Q, weights", "memory"], ["y", "of Q, y", "memory"], ["I", "I = W / Q"],
    ["ridge", "ridge P / BW"], ["bound", "bound by"], ["best", "T_best"], ["exact", "crosses at B"],
    ["least", "first whole B"], ["limit", "I stays below"]]);
  const sources = make("div"), picks = make("div", { class: "rl-row" });
  const figures = make("fieldset", { class: "rl-figures" });
  const rows = Object.keys(sizes).map(sizeRow);
  const locked = make("input", { type: "checkbox", id: `${el.id}-locked` });
  const zoom = button("Zoom in on the crossing", () => {
    state.zoomed = !state.zoomed;
    update();
  });

  // A slider and a field for one size. The slider's steps: an eighth of a doubling, whole numbers.
  function sizeRow(symbol) {
    const [least, most] = sizes[symbol], steps = [...new Set(
      Array.from({ length: Math.floor(8 * Math.log2(most / least)) + 1 }, (_, k) =>
        Math.round(least * 2 ** (k / 8))).concat(most))];
    const nearest = (value) => steps.reduce((best, step, i) =>
      (Math.abs(log(step / value)) < Math.abs(log(steps[best] / value)) ? i : best), 0);
    const id = `${el.id}-${symbol}`;
    const range = make("input", { type: "range", id, min: 0, max: steps.length - 1, step: 1 });
    const typed = make("input", { type: "text", inputmode: "numeric", autocomplete: "off",
      "aria-label": `${symbol}, exactly` });
    const from = (count) => steps[clamp(nearest(state[symbol]) + count, 0, steps.length - 1)];
    range.addEventListener("input", () => resize(symbol, steps[range.value], false));
    const take = () => {
      const text = typed.value.trim();
      const value = /^(\d+|\d{1,3}(,\d{3})+)$/.test(text) ? Number(text.replaceAll(",", "")) : NaN;
      if (value >= least && value <= most) return resize(symbol, value);
      typed.setAttribute("aria-invalid", "true");
      return say([`${symbol}: expected a whole number from ${least} to ${most}, got ${
        JSON.stringify(text)}. ${symbol} stays ${state[symbol]}.`]);
    };
    typed.addEventListener("change", take);
    typed.addEventListener("keydown", (event) => { if (event.key === "Enter") take(); });
    return { node: [make("label", { for: id }, make("b", {}, symbol), ` ${NAMES[symbol]}`), range, typed],
      from, show() {
        range.value = nearest(state[symbol]);
        range.setAttribute("aria-valuetext", state[symbol]);
        typed.value = state[symbol];
        typed.removeAttribute("aria-invalid");
      } };
  }
  function resize(symbol, value, aloud = true) {
    state[symbol] = value;
    if (state.locked && symbol !== "B") state.D = state.F = value;
    touched(aloud);
  }
  locked.addEventListener("change", () => {
    state.locked = locked.checked;
    if (state.locked) state.F = state.D;
    touched();
  });

  function choices() {
    const { machine, layer } = state, chip = machines[machine];
    const usable = layers.flatMap((one, i) => (known(machine, i) ? [[i, one.label]] : []));
    picks.replaceChildren(
      select(`${el.id}-chip`, "Chip", machines.map((m, i) => [i, m.name]), machine,
        (i) => choose({ machine: Number(i) })),
      select(`${el.id}-dtypes`, "Dtypes", usable, layer, (i) => choose({ layer: Number(i) })));
    figures.replaceChildren(make("legend", {}, `${chip.link} bandwidth: the ridge and the crossing of `
      + "each figure"), ...chip.bandwidths.map((spec, i) => {
      const input = make("input", { type: "radio", name: `${el.id}-figure`, id: `${el.id}-figure${i}`,
        value: i });
      input.checked = i === state.figure;
      input.addEventListener("change", () => { state.figure = i; touched(); });
      return make("label", { for: input.id }, input, make("span", {}, make("b", {}, spec.text), ": ",
        make("span", { class: "rl-then" }), make("small", { class: "rl-source" },
          `${spec.kind}: ${spec.about}`)));
    }));
    const { dtype } = layers[layer];
    sources.replaceChildren(source(`${dtype} P`, chip.peaks[dtype]));
  }
  function choose(to) {
    Object.assign(state, to);
    if (to.machine !== undefined) state.figure = 0;
    if (!known(state.machine, state.layer)) {
      state.layer = layers.findIndex((_, i) => known(state.machine, i));
    }
    choices();
    touched();
  }

  function touched(aloud = true) {
    update();
    say(summary(), aloud);
  }
  function update() {
    draw();
    if (!state.revealed) return;
    const at = now(), part = (bytes) => `${show(bytes, "B")}, ${significant(100 * bytes / at.Q)} %`;
    const words = { W: show(at.W, "FLOP"), Q: show(at.Q, "B"), x: part(at.x), w: part(at.w),
      y: part(at.y), I: show(at.I, "FLOP/B"), ridge: show(at.ridge, "FLOP/B"), bound: at.bound,
      best: show(at.best, "s"), limit: show(at.limit, "FLOP/B"),
      exact: none(at) ? "no batch reaches this ridge" : fixed(at.exact, 2),
      least: none(at) ? "none" : at.least };
    for (const [key, value] of Object.entries(words)) read(key, value, at[key] / at.Q);
    for (const row of rows) row.show();
    figures.querySelectorAll(".rl-then").forEach((node, figure) => {
      const then = now({ figure });
      node.textContent = `ridge ${significant(then.ridge)}, ${none(then) ? "no batch reaches it"
        : `from B = ${then.least} on`}`;
    });
    zoom.setAttribute("aria-pressed", state.zoomed && !none(at));
    zoom.disabled = none(at);
  }
  function reveal() {
    Object.assign(state, { revealed: true, D: halved });
    panel.replaceChildren(reads, sources);
    controls.replaceChildren(
      make("div", { class: "rl-sizes" }, ...rows.flatMap(({ node }) => node)),
      make("div", { class: "rl-row" }, make("label", { class: "rl-check", for: locked.id }, locked,
        "keep F = D"), zoom), picks, figures);
    choices();
    update();
    say(verdict());
    point.focus();
  }

  // --- keys, pointers ----------------------------------------------------------------------

  const [batch] = rows;
  // The point stays in the view, zoomed or not.
  const move = (B) => resize("B", clamp(B, Math.max(Math.ceil(10 ** plot.x0), sizes.B[0]),
    Math.min(Math.floor(10 ** plot.x1 + 1e-6), sizes.B[1])), false);
  const follow = (event) => move(Math.round(10 ** plot.from(event)[0]));
  drags(point, { follow, by: (count) => move(batch.from(count)), home: () => move(sizes.B[0]),
    end: () => move(sizes.B[1]) });
  plot.svg.addEventListener("click", (event) => {
    if (state.revealed && !event.target.closest(".rl-handle")) follow(event);
  });

  panel.replaceChildren(guessForm(el.id, `With D = ${halved}, it reaches the ridge ...`,
    Object.entries(SIDES), {
      choose: (key) => { state.choice = key; },
      check() {
        if (state.choice) reveal();
        else say(["Choose one of the three, or skip the guess."]);
      },
      skip() { state.choice = ""; reveal(); } }));
  stage(el, question, plot.node, controls, status, panel);
  draw();
  plot.fit(draw);
}

export default { render };
