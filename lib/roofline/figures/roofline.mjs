// Predict, reveal, drag: one roofline on log-log axes.
//
// Every number comes in through `model`: W per dtype, Q, peaks, bandwidths. For drawing and for
// the read-outs the page evaluates only
//   T_compute = sum over dtypes of W_d / P_d      T_memory = Q / BW
//   T_best = max(T_compute, T_memory)             T_worst = T_compute + T_memory
//   roof(I) = min(P, I * BW), with P = W / T_compute and I = W / Q
// Dragging changes Q and leaves W alone.

import { DIAMOND, DISC, axes, button, clamp, drags, guessForm, handle, line, log, make, readouts,
  select, show, significant, slider, source, speaker, stage } from "./plot.mjs";

const times = (factor) => significant(factor, factor < 10 ? 2 : 3);

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

  // --- the plot ------------------------------------------------------------------------------

  const question = make("div", { class: "rl-question" });
  const plot = axes("Roofline plot", [x0, x1, y0, y1]), { X, Y } = plot;
  const guess = handle("rl-guess", "Your guess of the rate", "vertical", DIAMOND);
  const point = handle("rl-point", "The op's place on the intensity axis", "horizontal", DISC);
  plot.svg.append(guess, point);
  const [status, say] = speaker();
  const panel = make("div", { class: "rl-panel" });
  const controls = make("div", { class: "rl-controls" });

  function draw(fresh = false) {
    const at = now(), { left, right, top, floor, keepOff, place } = plot;
    const x = X(at.I), peak = Y(at.P), mark = Y(at.rate), bend = X(at.ridge);
    const parts = plot.frame("intensity I, FLOP per byte", "rate, FLOP/s");
    const P = `P = ${show(at.P, "FLOP/s")}`;
    if (!state.revealed) {
      parts.push(line(`M${left} ${peak}H${right}`, "rl-hint"),
        line(`M${x} ${top}V${floor}`, "rl-hint"),
        place(`${P}, the most it computes`, "rl-compute", { x: left + 8, y: peak - 8 }),
        place(`I = W / Q = ${significant(at.I)}`, "", { x: x + 8, y: floor - 10 },
          { x: x - 8, y: floor - 10, anchor: "end" }));
    } else {
      const end = { anchor: "end" }, middle = { anchor: "middle" };
      // From where the slanted roof leaves the floor, its bend, and places along it.
      const roof = (BW, ridge, P) => {
        const low = 10 ** Math.max(x0, y0 - log(BW)), foot = [X(low), Y(low * BW)];
        const bend = [X(ridge), Y(P)], angle = Math.atan2(bend[1] - foot[1], bend[0] - foot[0]);
        return { foot, slope: `M${foot.join(" ")}L${bend.join(" ")}`,
          along: (t, dy) => ({ x: foot[0] + t * (bend[0] - foot[0]) - dy * Math.sin(angle),
            y: foot[1] + t * (bend[1] - foot[1]) + dy * Math.cos(angle), angle, ...middle }) };
      };
      const { foot, slope, along } = roof(at.BW, at.ridge, at.P);
      const draws = fresh ? " rl-draws" : "", { ghost } = state;
      parts.push(line(`${slope}V${floor}H${foot[0]}Z`, "rl-under-memory"),
        line(`M${bend} ${peak}H${right}V${floor}H${bend}Z`, "rl-under-compute"),
        line(`M${bend} ${peak}V${floor}`, "rl-hint"));
      const before = ghost && roof(ghost.BW, ghost.ridge, ghost.P);
      if (ghost) parts.push(line(`${before.slope}H${right}`, "rl-ghost"));
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
      // Each mark's label on the side that is away from the other mark.
      const sides = (y, away) => [[x + 16, {}], [x - 16, end]].flatMap(([x, anchor]) =>
        [y + 5 + 9 * away, y + 5 + 17 * away, y + 5].map((y) => ({ x, y, ...anchor })))
        .concat([24, 40].flatMap((far) => [[x, middle], [left + 6, {}], [right, end]].map(
          ([x, anchor]) => ({ x, y: y + 5 + far * away, ...anchor }))))
        .concat([[x + 16, {}], [x - 16, end]].map(([x, anchor]) => ({ x, y: y - 5 * away, ...anchor })));
      const above = guessed !== null && guessed > mark, close = above && guessed - mark < 44;
      if (guessed !== null) {
        parts.push(place(`your guess: ${show(state.guess, "FLOP/s")}`, "rl-guessed",
          ...sides(guessed, above ? 1 : -1)));
      }
      parts.push(place(`entitled: ${show(at.rate, "FLOP/s")}`, "rl-value",
        ...(close ? [{ x: x + 18, y: mark + 9 }, ...sides(mark, -1)] : sides(mark, 1))));
      const band = `I x ${at.figure.text}`;
      parts.push(
        place(P, "rl-compute", { x: right, y: peak - 8, ...end }, { x: bend + 6, y: peak - 8 },
          { x: right, y: peak - 22, ...end }, { x: right, y: peak - 34, ...end }),
        place(`${at.machine.link}: ${band}`, "rl-memory", ...[0.5, 0.3, 0.7].map((t) => along(t, -9)),
          ...[0.5, 0.25, 0.75, 0.35, 0.65].map((t) => ({ ...along(t, -9), say: band })),
          ...[0.3, 0.6].map((t) => ({ ...along(t, 20), say: band }))),
        place(`ridge ${significant(at.ridge)}`, "", ...[8, 26, 44].flatMap((up) =>
          [{ x: bend + 6, y: floor - up }, { x: bend - 6, y: floor - up, ...end }])));
      if (ghost) {
        const level = Y(ghost.P);
        parts.push(place(`before: ${ghost.was}`, "rl-tick rl-before",
          { x: right, y: level - 7, ...end }, { x: right, y: level + 16, ...end },
          ...[0.3, 0.6, 0.45].flatMap((t) => [before.along(t, 17), before.along(t, -7)]),
          { x: right, y: level - 22, ...end }, { x: right, y: level + 32, ...end }));
      }
    }
    plot.show(parts);

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
    else if (state.placed) said.push(" What takes longer you left open.");
    if (state.placed) {
      const factor = state.guess / at.rate;
      said.push(Math.max(factor, 1 / factor) < 2 ? " Your mark is within a factor of 2."
        : factor > 1 ? ` Your mark is ${times(factor)} times too high: above the roof.`
          : ` Your mark is ${times(1 / factor)} times too low: the chip allows more.`);
    } else if (state.choice) said.push(" The rate you left open.");
    return said;
  }

  function describe(asks) {
    const at = now(once());
    question.replaceChildren(make("p", {}, ops[state.op].says), make("p", {},
      `The numbers are ${state.dtype}, so the op does `, make("b", {}, `W = ${show(at.W, "FLOP")}`),
      " and moves ", make("b", {}, `Q = ${show(at.Q, "B")}`), `. The machine is ${at.machine.name}: it `
      + "computes at most ", make("b", {}, `P = ${show(at.P, "FLOP/s")}`),
      ` and its ${at.machine.link} bandwidth is `, make("b", {}, `BW = ${at.figure.text}`),
      `. ${asks}`));
  }

  // --- panel and controls ------------------------------------------------------------------

  function predictPanel() {
    panel.replaceChildren(
      make("p", { class: "rl-step" }, "Put the mark where you think this op runs at best: drag it, "
        + "tap the plot, or use the arrow keys."),
      guessForm(el.id, "What takes longer?",
        [["memory", "moving the bytes (memory)"], ["compute", "computing (compute)"]], {
          choose: (key) => { state.choice = key; },
          check() {
            if (state.placed || state.choice) reveal();
            else say(["Put the mark somewhere or choose one of the two, or skip the guess."]);
          },
          skip() { state.placed = false; state.choice = ""; reveal(); } }));
    controls.replaceChildren();
    say([], false);
  }

  const [reads, read] = readouts([["W", "work W"], ["Q", "bytes Q"], ["I", "I = W / Q"],
    ["ridge", "ridge P / BW"], ["compute", "computing, W / P", "compute"],
    ["memory", "moving, Q / BW", "memory"], ["best", "T_best, the longer"],
    ["worst", "T_worst, the sum"]]);
  const sources = make("div");
  function explorePanel() {
    const next = ask.length > 1 ? [button("Guess another", () => { predict(); guess.focus(); })] : [];
    panel.replaceChildren(make("p", { class: "rl-step" }, "Drag the point, or use the arrow keys on "
      + "it: it changes the bytes Q and leaves the work W alone. Then try another machine. Rates "
      + "and times are derived from W, Q, P and BW."),
    reads, make("div", { class: "rl-buttons" }, ...next), sources);
  }

  function exploreControls() {
    const at = now(), op = ops[state.op], machine = at.machine;
    const known = dtypes(state.machine, state.op);
    const mappings = op.counts.map(({ name }, i) => {
      const node = button(name, () => { state.bytes = count(i).bytes; touched(); });
      node.dataset.bytes = i;
      return node;
    });
    const picked = (name, ...more) => select(`${el.id}-${name.replace(/\W/g, "")}`, name, ...more);
    controls.replaceChildren(
      make("div", { class: "rl-row" },
        picked("Op", ops.map((o, i) => [i, o.label]), state.op, (i) => change({ op: Number(i) })),
        picked("Machine", machines.map((m, i) => [i, m.name, !dtypes(i, state.op).length]),
          state.machine, (i) => change({ machine: Number(i) })),
        picked("Numbers", known.map((d) => [d, d]), state.dtype, (dtype) => change({ dtype })),
        picked("Bandwidth figure", machine.bandwidths.map((b, i) => [i, `${b.text}, ${b.kind}`]),
          state.figure, (i) => change({ figure: Number(i) }))),
      make("div", { class: "rl-buttons", role: "group", "aria-labelledby": `${el.id}-moves` },
        make("span", { id: `${el.id}-moves`, class: "rl-step" }, `How often each byte crosses ${
          machine.link} (again, where the chip had no room to keep it; W stays):`), ...mappings));
    sources.replaceChildren(
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
    const was = before.machine !== after.machine ? before.machine.name.split(",")[0]
      : dtype !== state.dtype ? dtype : before.figure.text;
    state.ghost = before.P !== after.P || before.BW !== after.BW ? { ...before, was } : null;
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
    for (const [key, value] of Object.entries(words)) read(key, value, at[key] / at.best);
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
  const follow = (event) => {
    const [x, y] = plot.from(event);
    if (state.revealed) setIntensity(x);
    else setGuess(y);
  };
  const by = (value, steps) => Math.round((value + steps * 0.05) / 0.05) * 0.05;
  drags(guess, { follow, by: (steps) => setGuess(by(log(state.guess), steps)),
    home: () => setGuess(y0), end: () => setGuess(y1),
    enter() { setGuess(log(state.guess)); reveal(); } });
  drags(point, { follow, by: (steps) => setIntensity(by(log(now().I), steps)),
    home: () => setIntensity(x0), end: () => setIntensity(x1) });
  plot.svg.addEventListener("click", (event) => {
    if (!event.target.closest(".rl-handle")) follow(event);
  });

  predict();
  stage(el, question, plot.node, controls, status, panel);
  plot.fit(draw);
}

export default { render };
