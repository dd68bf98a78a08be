// The Tensor Engine cycle by cycle: guess, then play, pause, step and jump.
//
// Sizes, clocks and limits of a chip come in through `model`. `engine` repeats the formulas of
// lib/roofline/clockwork.py for any shape, and a test holds it to them:
//   interval = max(N, floor) passes, max or + M / fast      start(i) = ceil(load + i interval)
//   PE(k, m) multiplies column n of matmul i, in its last pass, at cycle
//     start(i) + n passes + passes - 1 + k + m
//   its sum goes down one row a cycle through all rows, then into PSUM

import { button, clamp, fitted, guessForm, make, readouts, select, show, significant, source,
  speaker, stage } from "./plot.mjs";

// --- the model -----------------------------------------------------------------------------

// units.show(value, "FLOP/s", 4): 91.75 has to show.
const flops = (value) => show(value, "FLOP/s", 4);
const whole = (value) => value.toLocaleString("en-US");
const percent = (share) => `${significant(100 * share)} %`;

function engine(chip, { K, M, N, dtype, matmuls, load, array }) {
  const { passes, lanes } = chip.dtypes[dtype], kept = load === "kept";
  const rows = array || chip.rows, columns = array || chip.columns, pes = rows * columns;
  const floor = array ? 0 : chip.floor, used = K / lanes, stream = N * passes;
  const mm = Math.max(N, floor) * passes;
  const loading = array ? Math.ceil(M / chip.fast) : M / chip.fast;
  const interval = { hidden: Math.max(mm, loading), kept: mm, shown: mm + loading }[load];
  const start = (i) => Math.ceil((kept ? 0 : loading) + i * interval);
  const cycles = start(matmuls - 1) + stream + rows + M - 2;
  const peak = 2 * pes * chip.clock * lanes / passes;
  const rate = 2 * K * M * N * chip.clock / interval;
  let window = interval;
  while (window % 1) window += interval;

  // PEs in use with k + m = d: those that a column meets in the same cycle; and all up to d.
  const each = Array.from({ length: used + M - 1 }, (_, d) =>
    Math.min(d + 1, used, M, used + M - 1 - d)), reached = each.slice();
  for (let d = 1; d < reached.length; d++) reached[d] += reached[d - 1];
  const upTo = (x) => (x < 0 ? 0 : reached[Math.min(x, reached.length - 1)]);

  // The matmul that started last; -1 before the first.
  function latest(cycle) {
    let i = Math.min(Math.floor((cycle - start(0)) / interval) + 1, matmuls - 1);
    while (i >= 0 && start(i) > cycle) i -= 1;
    return Math.max(i, -1);
  }
  function active(cycle) {
    let sum = 0;
    for (let i = latest(cycle); i >= 0; i--) {
      const x = cycle - start(i);
      if (x - stream >= reached.length - 1) break;
      sum += upTo(x) - upTo(x - stream);
    }
    return sum;
  }
  function macs(cycle) {
    let done = 0;
    for (let i = latest(cycle); i >= 0; i--) {
      const x = cycle - start(i);
      if (x >= stream + reached.length - 1) return done + (i + 1) * K * M * N;
      each.forEach((here, d) => {
        done += lanes * here * clamp(Math.floor((x - d + 1) / passes), 0, N);
      });
    }
    return done;
  }
  // Matmul, column and pass of the wave that started x cycles after cycle 0.
  function now(x) {
    const i = latest(x), q = i < 0 ? 0 : x - start(i);
    return i < 0 || q >= stream ? null : { i, n: Math.floor(q / passes), turn: q % passes };
  }
  function phase(cycle) {
    const i = latest(cycle);
    if (i < 0) return "the first stationary tile loads";
    const here = `matmul ${i + 1} of ${matmuls}: `, q = cycle - start(i);
    let words;
    if (q < stream) {
      words = `${here}moving column ${Math.floor(q / passes) + 1} of ${N} enters`;
      if (passes > 1) words += `, pass ${q % passes + 1} of ${passes}`;
    } else if (i + 1 === matmuls) {
      return `${here}no column is left to enter, the last sums move down`;
    } else if (q < mm) {
      words = `${here}nothing enters, starts are at least ${mm} cycles apart`;
    } else return `${here}nothing enters, the next stationary tile loads`;
    if (load === "hidden" && i + 1 < matmuls && q < loading) {
      words += " (the next stationary tile loads in the background)";
    }
    return words;
  }
  function at(cycle) {
    const busy = active(cycle), done = macs(cycle), span = Math.min(window, cycle + 1);
    const before = span <= cycle ? macs(cycle - span) : 0;
    const recent = 2 * (done - before) * chip.clock / span;
    const average = 2 * done * chip.clock / (cycle + 1);
    return { cycle, phase: phase(cycle), active: busy, macs: done, utilisation: busy / pes,
      rate: recent, average, span, text: `Cycle ${cycle} of ${cycles - 1}: ${phase(cycle)}. ${
        whole(busy)} of ${whole(pes)} PEs multiply (${percent(busy / pes)}); ${
        whole(done)} MACs so far, ${flops(recent)} over the last ${span > 1 ? `${span} cycles` : "cycle"}, ${
        flops(average)} since cycle 0.` };
  }
  let fullest;
  function full() {
    if (fullest === undefined) {
      let most = -1;
      for (let cycle = 0; cycle < cycles; cycle++) {
        const busy = active(cycle);
        if (busy > most) [most, fullest] = [busy, cycle];
      }
    }
    return fullest;
  }

  // Values, as Clockwork.state: a and b as it takes them.
  const rowsOf = (k) => Array.from({ length: lanes }, (_, j) => k + j * used);
  const weights = (a, i, k, m) => rowsOf(k).map((row) => a[(kept ? 0 : i * K) + row][m]);
  const values = (b, i, n, k) => rowsOf(k).map((row) =>
    b[(kept ? 0 : i * K) + row][kept ? i * N + n : n]);
  function total(a, b, i, n, m, last) {
    let sum = 0;
    for (let k = 0; k < Math.min(last + 1, used); k++) {
      const held = weights(a, i, k, m), moving = values(b, i, n, k);
      held.forEach((w, j) => { sum += w * moving[j]; });
    }
    return sum;
  }
  // Whether the weights of column m are there: the first tile loads some columns a cycle.
  const loaded = (cycle, m) => kept || m < (cycle + 1) * chip.fast;
  function state(cycle, a, b) {
    const pe = (k, m) => {
      if (m >= M) return { held: [], moving: null, total: null };
      const i = latest(cycle - k - m), here = now(cycle - k - m);
      const held = k < used && (i >= 0 || loaded(cycle, m)) ? weights(a, Math.max(i, 0), k, m) : [];
      if (!here) return { held, moving: null, total: null };
      return { held, moving: k < used ? values(b, here.i, here.n, k) : null,
        total: here.turn === passes - 1 ? total(a, b, here.i, here.n, m, k) : null };
    };
    const psum = Array.from({ length: M }, () => new Array(kept ? N * matmuls : N).fill(null));
    for (let m = 0; m < M; m++) {
      for (let i = 0; i < matmuls; i++) {
        for (let n = 0; n < landed(cycle, i, m); n++) {
          const column = kept ? i * N + n : n;
          psum[m][column] = (psum[m][column] ?? 0) + total(a, b, i, n, m, rows - 1);
        }
      }
    }
    return { pes: Array.from({ length: rows }, (_, k) =>
      Array.from({ length: columns }, (_, m) => pe(k, m))), psum };
  }
  // Sums of matmul i that PSUM partition m holds.
  const landed = (cycle, i, m) =>
    clamp(Math.floor((cycle - start(i) - (rows - 1) - m + 1) / passes), 0, N);

  return { rows, columns, pes, used, passes, rowsOf, mm, lanes, stream, interval, cycles, peak, rate, window,
    start, active, macs, now, latest, loaded, landed, phase, at, full, state,
    total: matmuls * K * M * N,
    shares: { rows: used / rows, columns: M / columns, "moving size": stream / mm,
      "stationary load": mm / interval },
    marks: () => ({ start: 0, full: full(), "first sum": start(0) + passes - 1 + rows - 1,
      "last column": start(matmuls - 1) + stream - 1, end: cycles - 1 }) };
}

// --- the page ------------------------------------------------------------------------------

const JUMPS = [["start", "Start"], ["first sum", "First sum"], ["full", "Busiest"],
  ["last column", "Last column"], ["end", "End"]];
const GUESSES = { half: "it halves", same: "it stays: half of the work takes half of the cycles",
  quarter: "it falls to a quarter" };
const SIZES = {
  K: [1, 16, 32, 64, 96, 128, 192, 256, 512], M: [1, 16, 32, 64, 96, 128],
  N: [1, 16, 32, 64, 128, 256, 512], matmuls: [1, 2, 4, 8, 16] };
const SPEEDS = [1, 4, 20, 100, 400, 2000];
const WEIGHTS = { hidden: "load in the background", shown: "the array waits for them",
  kept: "in place from the start" };
const ADDRESS = "#clockwork=";
const still = matchMedia("(prefers-reduced-motion: reduce)");

function render({ model, el }) {
  const chips = model.get("chips"), first = model.get("start");
  const state = { ...first, cycle: 0, revealed: false, choice: "", speed: 400, shaded: false };
  let run, playing = 0;

  // --- what is asked for ---------------------------------------------------------------------

  const chip = (of = state) => chips.find(({ key }) => key === of.chip);
  const most = (of) => {
    const { lanes } = chip(of).dtypes[of.dtype];
    return { K: (of.array || chip(of).rows) * lanes, M: of.array || chip(of).columns,
      N: of.array ? 16 : chip(of).nMax, matmuls: of.array ? 4 : model.get("matmuls") };
  };
  const runOf = (of) => engine(chip(of), of);
  function setUp(to) {
    Object.assign(state, to);
    if (!(state.dtype in chip().dtypes)) [state.dtype] = Object.keys(chip().dtypes);
    for (const [name, high] of Object.entries(most(state))) {
      state[name] = Math.min(state[name], high);
    }
    const { lanes } = chip().dtypes[state.dtype];
    state.K = Math.ceil(state.K / lanes) * lanes;
    run = runOf(state);
    state.cycle = clamp(state.cycle, 0, run.cycles - 1);
  }

  // --- the address -------------------------------------------------------------------------

  // Only where a page has one clockwork and the address is the page's own.
  const addressed = () => document.querySelectorAll(".rl-live[data-module='clockwork']").length === 1
    && !el.closest(".jp-OutputArea, .jp-Notebook") && !document.querySelector(".jp-LabShell");
  const address = () => `${ADDRESS}${[state.chip, state.dtype, `K${state.K}`, `M${state.M}`,
    `N${state.N}`, `x${state.matmuls}`, state.load, ...(state.array ? [`A${state.array}`] : [])]
    .join(".")}@${state.cycle}`;
  function fromAddress() {
    const text = addressed() ? location.hash : "";
    const found = text.startsWith(ADDRESS) && text.slice(ADDRESS.length).match(
      /^(\w+)\.(\w+)\.K(\d+)\.M(\d+)\.N(\d+)\.x(\d+)\.(\w+)(?:\.A(4|8))?(?:@(\d+))?$/);
    if (!found) return null;
    const [, key, dtype, K, M, N, matmuls, load, array, cycle] = found;
    const to = { chip: key, dtype, K: Number(K), M: Number(M), N: Number(N),
      matmuls: Number(matmuls), load, array: Number(array ?? 0), cycle: Number(cycle ?? 0) };
    const known = chip(to) && Object.hasOwn(chip(to).dtypes, dtype) && Object.hasOwn(WEIGHTS, load)
      && Object.entries(most(to)).every(([name, high]) => to[name] >= 1 && to[name] <= high)
      && to.K % chip(to).dtypes[dtype].lanes === 0;
    return known ? to : null;
  }
  function writeAddress() {
    if (playing || !addressed()) return;
    try {
      history.replaceState(history.state, "", address());
    } catch { /* a page that may not change its address */ }
  }

  // --- the picture -------------------------------------------------------------------------

  const canvas = make("canvas", { role: "img" }), grid = make("svg:svg", { role: "img" });
  const psum = make("div", { class: "rl-scroll rl-psum", role: "region", tabindex: "0",
    "aria-label": "PSUM, a row for each partition m" });
  const legend = make("p", { class: "rl-legend", "aria-hidden": "true" });
  const picture = make("div", { class: "rl-array" });
  const small = document.createElement("canvas");

  // What is drawn of one PE: its kind, and whether its matmul is an odd one.
  function kind(k, m) {
    const here = m < state.M && run.now(state.cycle - k - m);
    if (here) {
      const odd = here.i % 2 === 1;
      if (k < run.used) return odd ? "busy odd" : "busy";
      if (here.turn === run.passes - 1) return "pass";
    }
    if (m < state.M && k < run.used && (run.latest(state.cycle - k - m) >= 0
      || run.loaded(state.cycle, m))) return "held";
    return "empty";
  }
  // A colour of the page as [r, g, b], mixed with its ground.
  function colours() {
    const own = getComputedStyle(el), pen = small.getContext("2d", { willReadFrequently: true });
    const of = (name) => {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = own.getPropertyValue(name).trim();
      pen.fillRect(0, 0, 1, 1);
      return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const ground = of("--rl-surface"), mix = (one, share) =>
      one.map((value, i) => Math.round(value * share + ground[i] * (1 - share)));
    const busy = of("--rl-compute"), moving = of("--rl-memory");
    return { mix, ground, all: { busy, "busy odd": mix(busy, 0.6), pass: of("--rl-line"),
      held: mix(moving, 0.3), empty: of("--rl-faint"), moving, "moving odd": mix(moving, 0.6) } };
  }
  const AHEAD = 14, BELOW = 14;  // of the moving tile before it enters, and of PSUM, in PEs
  function drawCanvas(width) {
    const wide = run.columns + AHEAD, tall = run.rows + BELOW;
    [small.width, small.height] = [wide, tall];
    const { all, mix, ground } = colours(), pen = small.getContext("2d");
    const image = pen.createImageData(wide, tall);
    const put = (k, m, [r, g, b]) => image.data.set([r, g, b, 255], 4 * (k * wide + m + AHEAD));
    const busyFor = (d) => {
      let sum = 0;
      for (let i = 0; i <= run.latest(state.cycle); i++) {
        sum += clamp(state.cycle - run.start(i) - d + 1, 0, run.stream);
      }
      return sum / (state.cycle + 1);
    };
    for (let k = 0; k < run.rows; k++) {
      for (let j = 1; j < AHEAD; j++) {
        const here = k < run.used && run.now(state.cycle + j - k);
        put(k, -j - 1, here ? all[here.i % 2 ? "moving odd" : "moving"] : ground);
      }
      put(k, -1, ground);
      for (let m = 0; m < run.columns; m++) {
        put(k, m, !state.shaded ? all[kind(k, m)] : k < run.used && m < state.M
          ? mix(all.busy, busyFor(k + m)) : all.empty);
      }
    }
    for (let m = -AHEAD; m < run.columns; m++) {
      let sums = 0;
      for (let i = 0; m >= 0 && m < state.M && i < state.matmuls; i++) {
        sums += run.landed(state.cycle, i, m);
      }
      const high = Math.ceil((BELOW - 2) * sums / (state.matmuls * state.N));
      for (let k = 0; k < BELOW; k++) {
        put(run.rows + k, m, m < 0 || k < 2 ? ground
          : k >= BELOW - high ? all.busy : m < state.M ? all.empty : ground);
      }
    }
    pen.putImageData(image, 0, 0);
    const ratio = devicePixelRatio || 1, height = width * tall / wide;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const whole_ = canvas.getContext("2d");
    whole_.imageSmoothingEnabled = false;
    whole_.drawImage(small, 0, 0, canvas.width, canvas.height);
  }

  // Small tiles of small numbers, so that every sum can be checked by eye.
  function tiles() {
    const kept = state.load === "kept", deep = state.K * (kept ? 1 : state.matmuls);
    const tile = (wide, of) => Array.from({ length: deep }, (_, r) =>
      Array.from({ length: wide }, (_, c) => of(r, c)));
    return [tile(state.M, (r, c) => 1 + (r + 2 * c) % 3),
      tile(state.N * (kept ? state.matmuls : 1), (r, c) => 1 + (2 * r + c) % 3)];
  }
  function drawGrid(width) {
    const [a, b] = tiles(), { pes, psum: sums } = run.state(state.cycle, a, b);
    const left = 34, side = Math.floor((width - left) / run.columns), lines = run.lanes + 1;
    const parts = [], word = (x, y, words, name = "") =>
      parts.push(make("svg:text", { x, y, "text-anchor": "middle", class: name }, words));
    pes.forEach((row, k) => {
      const next = k < run.used && run.now(state.cycle + 1 - k);
      if (next) {
        const kept = state.load === "kept";
        word(15, k * side + side / 2 + 4, run.rowsOf(k).map((r) => b[(kept ? 0 : next.i * state.K) + r][
          kept ? next.i * state.N + next.n : next.n]).join(" "), "rl-memory");
        word(28, k * side + side / 2 + 4, "›", "rl-memory");
      }
      row.forEach((pe, m) => {
        const x = left + m * side, y = k * side, mid = x + side / 2;
        parts.push(make("svg:rect", { x: x + 1, y: y + 1, width: side - 2, height: side - 2, rx: 3,
          class: `rl-pe rl-pe-${kind(k, m).replace(" ", "-")}` }));
        const step = (side - 4) / (lines + (side > 70 ? 0.5 : 0)), base = y + step / 2 + 6;
        if (pe.moving) {
          pe.held.forEach((w, j) => word(mid, base + j * step, `${w}×${pe.moving[j]}`));
        } else if (pe.held.length) word(mid, base, pe.held.join(" "), "rl-tick");
        if (pe.total !== null) word(mid, base + run.lanes * step, `${side > 70 ? "sum " : "Σ"}${pe.total}`, "rl-value");
      });
    });
    grid.setAttribute("viewBox", `0 0 ${width} ${side * run.rows}`);
    grid.setAttribute("width", width);
    grid.setAttribute("height", side * run.rows);
    grid.replaceChildren(...parts);
    const head = make("tr", {}, make("th", { scope: "col" }, "PSUM"), ...sums[0].map((_, n) =>
      make("th", { scope: "col" }, `n ${n}`)));
    psum.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {},
      ...sums.map((row, m) => make("tr", {}, make("th", { scope: "row" }, `m ${m}`),
        ...row.map((value) => make("td", {}, value === null ? "·" : String(value))))))));
  }
  function draw() {
    const width = Math.min(picture.clientWidth || 320, 460), toy = state.array > 0;
    const node = toy ? grid : canvas;
    if (picture.firstElementChild !== node) picture.replaceChildren(node, ...(toy ? [psum] : []));
    (toy ? drawGrid : drawCanvas)(width);
    node.setAttribute("aria-label", `${run.rows} × ${run.columns} PEs in cycle ${state.cycle}: ${
      run.phase(state.cycle)}`);
  }
  function keys() {
    const one = (name, words) => [make("span", { class: "rl-one" },
      make("span", { class: `rl-swatch rl-pe-${name}` }), words), " "];
    legend.dataset.toy = state.array > 0;
    legend.replaceChildren(...one("moving", "moving tile, about to enter"),
      ...(state.shaded ? one("busy", "busy in every cycle so far")
        : [...(state.matmuls > 1 ? [...one("busy", "multiplies, matmul 1, 3, ..."),
          ...one("busy-odd", "matmul 2, 4, ...")] : one("busy", "multiplies")),
          ...(run.used < run.rows ? one("pass", "passes a sum on") : []), ...one("held", "holds a weight, idle"),
          ...one("empty", "no weight")]), state.array ? "" : "· below: sums in PSUM");
  }

  // --- words -------------------------------------------------------------------------------

  const [status, say] = speaker();
  const question = make("div", { class: "rl-question" },
    ...model.get("says").map((words) => make("p", {}, words)));
  function verdict() {
    const before = runOf(first), after = runOf({ ...first, K: model.get("half") });
    const ratio = after.rate / before.rate;
    return [make("strong", {}, `It falls from ${flops(before.rate)} to ${flops(after.rate)}.`),
      ` A column takes its cycle whatever K is. With K = ${model.get("half")}, the rows without weights `
      + `do no work in it; what is left is ${percent(ratio)}.`, state.choice === "half" ? " You said so."
        : state.choice ? ` You said: ${GUESSES[state.choice]}.` : "",
      " Now play it with the full tile, and change K."];
  }

  // --- panel -------------------------------------------------------------------------------

  const panel = make("div", { class: "rl-panel" }), controls = make("div", { class: "rl-controls" });
  const [reads, read] = readouts([["active", "PEs that multiply", "compute"],
    ["macs", "MACs so far", "compute"], ["rate", "rate, last interval", "compute"],
    ["average", "rate since cycle 0", "compute"], ["interval", "interval of starts"],
    ["steady", "back to back, steady", "compute"], ["rows", "share left by rows", "memory"],
    ["columns", "by columns", "memory"], ["floor", "by moving size", "memory"],
    ["load", "by weight loads", "memory"], ["whole", "this whole run"]]);
  const sources = make("div");

  function update(aloud = true) {
    const at = run.at(state.cycle), { peak, shares } = run;
    const of = (rate) => `${flops(rate)}, ${percent(rate / peak)} of ${state.array ? "its peak" : "P"}`;
    const { K, M, N, array } = state, floor = array ? 0 : chip().floor;
    read("active", `${whole(at.active)} of ${whole(run.pes)}, ${percent(at.utilisation)}`, at.utilisation);
    read("macs", `${whole(at.macs)} of ${whole(run.total)}`, at.macs / run.total);
    read("rate", of(at.rate), Math.min(at.rate / peak, 1));
    read("average", of(at.average), at.average / peak);
    read("interval", `${run.interval} cycles, ${show(run.interval / chip().clock, "s")}`);
    read("steady", of(run.rate), run.rate / peak);
    read("rows", `${significant(shares.rows, 4)}: ${K} of ${run.rows * run.lanes}`, shares.rows);
    read("columns", `${significant(shares.columns, 4)}: ${M} of ${run.columns}`, shares.columns);
    const moving = shares["moving size"], load = shares["stationary load"];
    read("floor", `${significant(moving, 4)}: ${array ? "no least interval here"
      : `${N} of max(${N}, ${floor})`}`, moving);
    read("load", `${significant(load, 4)}: ${run.mm} of ${run.interval} cycles`, load);
    read("whole", `${whole(run.cycles)} cycles, ${of(2 * run.total * chip().clock / run.cycles)}`);
    range.max = run.cycles - 1;
    range.value = state.cycle;
    range.setAttribute("aria-valuetext", `cycle ${state.cycle} of ${run.cycles - 1}`);
    draw();
    say([at.text], aloud && !playing);
  }

  // --- the player --------------------------------------------------------------------------

  const range = make("input", { type: "range", id: `${el.id}-cycle`, min: 0, step: 1 });
  const player = button("Play", toggle, true);
  const stop = () => {
    if (playing) cancelAnimationFrame(playing);
    playing = 0;
    naming();
  };
  const naming = () => {
    player.textContent = still.matches ? "Next stage" : playing ? "Pause" : "Play";
  };
  still.addEventListener("change", stop);
  function go(cycle, aloud = true) {
    stop();
    state.cycle = clamp(cycle, 0, run.cycles - 1);
    update(aloud);
    writeAddress();
  }
  const nextMark = () => {
    const later = Object.values(run.marks()).filter((cycle) => cycle > state.cycle);
    return later.length ? Math.min(...later) : 0;
  };
  function toggle() {
    if (still.matches) return go(nextMark());
    if (playing) return go(state.cycle);
    if (state.cycle === run.cycles - 1) state.cycle = 0;
    let last = performance.now(), owed = 0;
    const frame = (time) => {
      if (!el.isConnected) return;
      owed += Math.max(time - last, 0) / 1000 * state.speed;
      last = time;
      const steps = Math.min(Math.floor(owed), Math.ceil(state.speed / 4));
      owed -= Math.floor(owed);
      if (state.cycle + steps >= run.cycles - 1) return go(run.cycles - 1);
      if (steps) {
        state.cycle += steps;
        update(false);
      }
      playing = requestAnimationFrame(frame);
    };
    playing = requestAnimationFrame(frame);
    naming();
  }
  range.addEventListener("input", () => go(Number(range.value), false));
  // Space plays, arrows step, wherever the focus is, except where a key has a meaning of its own.
  el.addEventListener("keydown", (event) => {
    if (!state.revealed || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target.closest("select, summary, .rl-psum, .rl-tables, input[type='text']")) return;
    const interval = Math.round(run.interval), by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1,
      ArrowDown: -1, PageUp: interval, PageDown: -interval }[event.key];
    if (by) go(state.cycle + by);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(run.cycles - 1);
    else if (event.key === " " && !event.target.closest("button, input[type='checkbox']")) toggle();
    else return;
    event.preventDefault();
  });

  const transport = make("div", { class: "rl-transport" });
  const shaded = make("input", { type: "checkbox", id: `${el.id}-shaded` });
  shaded.addEventListener("change", () => {
    state.shaded = shaded.checked;
    keys();
    update(false);
  });
  const picks = make("div", { class: "rl-row rl-picks" }), tile = make("div", { class: "rl-row rl-tile" });
  const more = make("div", { class: "rl-row rl-picks" });
  function choices() {
    const changed = (to) => {
      stop();
      setUp(to);
      choices();
      keys();
      update();
      writeAddress();
    };
    const change = (name, take = Number) => (value) => changed({ [name]: take(value) });
    const high = most(state), text = (value) => value;
    const sizes = (name) => {
      const all = state.array ? Array.from({ length: high[name] }, (_, i) => i + 1) : SIZES[name];
      return [...new Set([...all.filter((size) => size <= high[name]
        && (name !== "K" || size % chip().dtypes[state.dtype].lanes === 0)), state[name]])]
        .sort((one, other) => one - other).map((size) => [size, whole(size)]);
    };
    const rows = chip().rows;
    picks.replaceChildren(
      select(`${el.id}-chip`, "Chip", chips.map((one) => [one.key, `${one.short}, ${
        show(one.clock, "Hz")}`]), state.chip, change("chip", text)),
      select(`${el.id}-dtype`, "Numbers", Object.keys(chip().dtypes).map((d) => [d, d]), state.dtype,
        change("dtype", text)),
      select(`${el.id}-array`, "Array", [[0, `${rows} × ${chip().columns}`], [8, "8 × 8, with values"],
        [4, "4 × 4, with values"]], state.array, (value) => {
        const array = Number(value), { K } = most({ ...state, array });
        // A tile that fills the array, so that there is something to see.
        changed({ array, cycle: 0, ...(array ? { K, M: array, N: 2 * array, matmuls: 2, speed: 1 }
          : { K, M: first.M, N: first.N, matmuls: first.matmuls, speed: 400 }) });
      }));
    tile.replaceChildren(
      ...["K", "M", "N"].map((name) => select(`${el.id}-${name}`, { K: "K, contraction",
        M: "M, stationary", N: "N, moving" }[name], sizes(name), state[name], change(name))),
      select(`${el.id}-matmuls`, "Matmuls", sizes("matmuls"), state.matmuls, change("matmuls")));
    more.replaceChildren(
      select(`${el.id}-load`, "Weights", Object.entries(WEIGHTS), state.load, change("load", text)),
      select(`${el.id}-speed`, "Speed", SPEEDS.map((speed) => [speed,
        `${whole(speed)} cycle${speed > 1 ? "s" : ""} a second`]), state.speed, (value) => {
        state.speed = Number(value);
      }));
    const spec = chip().dtypes[state.dtype].spec;
    sources.replaceChildren(state.array ? make("p", { class: "rl-source" }, make("b", {},
      `its peak = ${flops(run.peak)}`), `, derived: the share of ${run.rows} × ${run.columns} PEs in P`)
      : source(`${state.dtype} P`, spec),
      ...[...model.get("notes"), ...(state.array ? [] : chip().notes)].map((words) =>
        make("p", { class: "rl-source" }, words)));
  }

  function reveal(to) {
    state.revealed = true;
    question.lastElementChild.hidden = true;  // what was asked
    setUp(to ?? {});
    naming();
    transport.replaceChildren(
      make("div", { class: "rl-at" }, make("label", { for: range.id }, "Cycle"), range),
      make("div", { class: "rl-buttons" }, button("Back", () => go(state.cycle - 1)), player,
        button("Step", () => go(state.cycle + 1)), ...JUMPS.map(([name, words]) =>
          button(words, () => go(run.marks()[name])))));
    controls.replaceChildren(picks, tile, more, make("label", { class: "rl-check", for: shaded.id },
      shaded, "shade each PE by its busy share so far"), make("p", { class: "rl-source" }, "Keys: Space plays and pauses, arrows step, Page Up and Page "
      + "Down move by an interval, Home and End jump."));
    panel.replaceChildren(reads, sources);
    choices();
    keys();
    update(false);
    say(to ? [run.at(state.cycle).text] : verdict());
  }

  // --- put together ------------------------------------------------------------------------

  const plot = make("div", { class: "rl-plot" }, picture, legend, transport);
  panel.replaceChildren(guessForm(el.id, "With K halved, the rate ...", Object.entries(GUESSES), {
    choose: (key) => { state.choice = key; },
    check() {
      if (!state.choice) return say(["Choose one of the three, or skip the guess."]);
      reveal();
      range.focus();
    },
    skip() {
      state.choice = "";
      reveal();
      range.focus();
    } }));
  stage(el, question, plot, controls, status, panel);
  setUp({});
  // The question's picture: a full tile on its way in.
  state.cycle = run.start(0) + Math.floor(run.rows / 2);
  draw();
  state.cycle = 0;

  function visit() {
    const to = el.isConnected && fromAddress();
    if (!to) return;
    stop();
    reveal(to);
    plot.scrollIntoView();
  }
  visit();
  addEventListener("hashchange", visit);
  // A link to the moment that is shown already changes no address.
  document.addEventListener("click", ({ target }) => {
    const link = target.closest?.(`a[href^="${ADDRESS}"]`);
    if (link?.getAttribute("href") === location.hash) visit();
  });
  fitted(picture, () => draw());
  // Colours follow the page's theme.
  const theme = new MutationObserver(() => draw());
  for (const node of [document.documentElement, document.body]) {
    theme.observe(node, { attributes: true, attributeFilter: ["data-theme", "data-jp-theme-light", "class"] });
  }
}

export default { render };
