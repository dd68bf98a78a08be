// Any op on any chip: its point under several roofs, on log-log axes.
//
// What an op does and moves comes in as polynomials of its sizes, taken from the library's own
// code: "4 B D F", "1 L L d p + 1 L d p / 2". The page evaluates them in whole numbers of any
// length (p: bytes of a number, q: of one that is stored; of a nest's loop over m, tm: its trips,
// cm: its longest step), and then only
//   time = amount / rate      T_best = the largest      T_worst = the sum, of HBM and DMA the larger
//   I = W / Q      ridge = P / BW      rate = W / T_best

import { DIAMOND, DISC, axes, button, guessForm, line, log, make, mebi, readouts, show,
  significant, source, speaker, stage } from "./plot.mjs";

// --- exact numbers ---------------------------------------------------------------------------

const parsed = new Map();
function polynomial(text) {
  if (!parsed.has(text)) {
    const [sum, over = "1"] = text.split(" / ");
    parsed.set(text, { over: BigInt(over), terms: sum.split(" + ").map((term) => {
      const [number, ...names] = term.split(" ");
      return { number: BigInt(number), names };
    }) });
  }
  return parsed.get(text);
}
function value(text, sizes) {
  const { terms, over } = polynomial(text);
  return terms.reduce((sum, { number, names }) =>
    sum + names.reduce((product, name) => product * sizes[name], number), 0n) / over;
}
// The formula as a reader writes it, with names or with numbers: "p B D", "2 x 2048 x 1024".
function written(text, sizes) {
  const { terms, over } = polynomial(text);
  const one = ({ number, names }) => {
    const size = number < 0n ? -number : number;
    const parts = names.map((name) => (sizes ? String(sizes[name]) : name));
    if (size !== 1n || !names.length) parts.unshift(String(size));
    return parts.join(sizes ? " x " : " ");
  };
  const sum = terms.map((term, i) => (term.number < 0n ? i ? " - " : "-" : i ? " + " : "") + one(term))
    .join("");
  return over === 1n ? sum : terms.length > 1 ? `(${sum}) / ${over}` : `${sum} / ${over}`;
}
// n / d as Python divides whole numbers: rounded once, however long they are.
function quotient(n, d) {
  if (!n) return 0;
  const bits = (number) => number.toString(2).length, shift = Math.max(0, 66 - bits(n) + bits(d));
  const top = n << BigInt(shift), whole = top / d;
  return Number(whole * d === top ? whole : whole | 1n) * 2 ** -shift;
}
const ceiling = (n, d) => (n + d - 1n) / d;
const grouped = (number) => number.toLocaleString("en-US");
const PERMUTED = (of) => (of.length < 2 ? [of] : of.flatMap((one) =>
  PERMUTED(of.filter((other) => other !== one)).map((rest) => [one, ...rest])));
const MARK = "#explorer:";

function render({ model, el }) {
  const { machines, figures, ops, bytes, scopes, engines, tile, order, ask, start } =
    Object.fromEntries(["machines", "figures", "ops", "bytes", "scopes", "engines", "tile", "order",
      "ask", "start"].map((name) => [name, model.get(name)]));
  const figure = (at) => {
    const [value, text, kind, about, role, python, float] = figures[at];
    return { value, text, kind, about, role, python, float };
  };

  // --- a setting -----------------------------------------------------------------------------

  const machineOf = (s) => machines[`${s.chip} ${s.scope}`];
  const joined = (op) => ops[op].tensors.filter((tensor) => tensor.length > 3);
  const dimsOf = (op) => (ops[op].nest?.dims ?? []).map(([dim]) => dim);
  const namesOf = (op) => ops[op].nest?.names ?? [];
  const dtypesOf = (machine) => order.dtypes.filter((d) => d in machine.peaks);
  const engineOf = (s) => order.engines.filter((name) =>
    ops[s.op].passed !== "0" && machineOf(s).engines[name][s.dtype]);
  const mask = (s) => s.under.reduce((sum, name) => sum + 2 ** machineOf(s).ceilings.indexOf(name), 0);

  const fresh = (op) => ({ op, stored: "", kept: [], order: [], at: namesOf(op).map(() => 3),
    sizes: Object.fromEntries(ops[op].sizes.map(([name, , , , first]) => [name, first])),
    tiles: Object.fromEntries(dimsOf(op).map((dim) => [dim, tile[dim] ?? 128])), engine: ops[op].engine });
  const plain = { P: 0, BW: 0, DMA: -1, under: [], rivals: true };
  // What the rest leaves no choice about; also after another chip, dtype or op was chosen.
  function settled(s) {
    const found = { ...s };
    if (!machineOf(found)) {
      found.scope = order.machines.map((key) => machines[key]).find((m) => m.chip === s.chip).scope;
    }
    const machine = machineOf(found);
    if (!(found.dtype in machine.peaks)) {
      found.dtype = "bf16" in machine.peaks ? "bf16" : dtypesOf(machine)[0];
    }
    const same = found.chip === s.chip && found.scope === s.scope && found.dtype === s.dtype;
    if (!same || found.P >= machine.peaks[found.dtype].length) found.P = 0;
    if (found.BW >= machine.levels[machine.slow].length) found.BW = 0;
    if (found.DMA >= (machine.levels.DMA ?? []).length) found.DMA = "DMA" in machine.levels ? 0 : -1;
    if (!engineOf(found).includes(found.engine)) found.engine = "";
    found.under = found.under.filter((name) => machine.ceilings.includes(name));
    const low = machine.under[mask(found)];
    if (found.under.length && (!low || (found.dtype in low
      && figure(low[found.dtype]).value > figure(machine.peaks[found.dtype][found.P]).value))) {
      found.under = [];  // a ceiling above the figure, or names that do not go together
    }
    return found;
  }

  let now = settled({ ...plain, ...fresh(start.op), ...start,
    sizes: { ...fresh(start.op).sizes, ...start.sizes } });
  let pinned = null, revealed = !ask, choice = "", said = "";

  // --- what it comes to ----------------------------------------------------------------------

  function roofOf(s, key, list, chosen) {
    const low = machineOf(s).under[mask(s)] ?? {};
    return figure(key in low ? low[key] : list[chosen]);
  }
  function evaluate(s, over = {}) {
    const machine = machineOf(s), op = ops[s.op], [P, BW, DMA] = [
      over.P ?? roofOf(s, s.dtype, machine.peaks[s.dtype], s.P),
      over.BW ?? roofOf(s, machine.slow, machine.levels[machine.slow], s.BW),
      over.DMA ?? (s.DMA >= 0 ? roofOf(s, "DMA", machine.levels.DMA, s.DMA) : null)];
    const sizes = { p: BigInt(bytes[s.dtype]), q: BigInt(bytes[s.stored || s.dtype]) };
    for (const [name, size] of Object.entries(s.sizes)) sizes[name] = BigInt(size);
    for (const [dim, size] of s.order.length ? op.nest.dims : []) {
      const step = BigInt(s.tiles[dim]);
      sizes[`t${dim}`] = ceiling(sizes[size], step);
      sizes[`c${dim}`] = step < sizes[size] ? step : sizes[size];
    }
    const held = {};
    const tensors = op.tensors.map(([name, read, write, keptRead, keptWrite, often, keptOften]) => {
      const kept = s.kept.includes(name);
      let formulas = kept ? [keptRead, keptWrite] : [read, write], times = kept ? keptOften : often;
      if (s.order.length) {
        const before = s.order.slice(0, s.at[namesOf(s.op).indexOf(name)]).sort().join("");
        const [of, to, again, block] = op.nest.places[name][before], memory = op.nest.memory[name];
        formulas = [of, to];
        times = value(again, sizes);
        held[memory] = (held[memory] ?? 0n) + value(block, sizes);
      }
      const [reads, writes] = formulas.map((text) => value(text, sizes));
      return { name, kept, formulas, reads, writes, times, bytes: reads + writes };
    });
    const W = value(op.W, sizes), Q = tensors.reduce((sum, t) => sum + t.bytes, 0n);
    const divided = (n, fig) => (Number.isInteger(fig.value) && !fig.float
      ? quotient(n, BigInt(fig.value)) : Number(n) / fig.value);
    const roofs = [];
    const roof = (key, name, amount, unit, fig, more) =>
      roofs.push({ key, name, amount, unit, figure: fig, time: divided(amount, fig), ...more });
    roof("compute", "computing", W, "FLOP", P, { sign: "W / P" });
    roof(machine.slow, machine.slow, Q, "B", BW, { sign: "Q / BW", slope: true });
    if (DMA) roof("DMA", "DMA engines", Q, "B", DMA, { sign: "Q / DMA", slope: true });
    if (op.link !== "0" && machine.levels.link) {
      roof("link", "link", value(op.link, sizes), "B", figure(machine.levels.link[0]),
        { sign: "bytes / link" });
    }
    if (s.engine) {
      const [fact, at] = machine.engines[s.engine][s.dtype];
      roof(fact, engines[s.engine], value(op.passed, sizes), "element", figure(at),
        { sign: "numbers / rate" });
    }
    const times = Object.fromEntries(roofs.map((r) => [r.key, r.time]));
    const best = Math.max(...Object.values(times));
    const worst = roofs.reduce((sum, r) => (["HBM", "DMA"].includes(r.key) ? sum : sum + r.time), 0)
      + Math.max(times.HBM ?? 0, times.DMA ?? 0);
    const binds = roofs.reduce((one, other) => (other.time > one.time ? other : one));
    const peak = Number(W) / times.compute;
    return { s, machine, op, sizes, tensors, held, W, Q, I: quotient(W, Q), P, BW, roofs, best, worst,
      binds, peak, ridge: peak / BW.value, rate: Number(W) / best };
  }

  // --- words ---------------------------------------------------------------------------------

  const opName = (s) => ops[s.op].label;
  const stays = (s) => (joined(s.op).length === 0 ? "" : s.kept.length === joined(s.op).length
    ? "one kernel" : s.kept.length ? `${s.kept.join(", ")} on chip` : "every step a kernel of its own");
  const nestText = (s) => {
    const words = [], names = namesOf(s.op);
    for (let i = 0; i <= s.order.length; i++) {
      words.push(...names.filter((_, n) => s.at[n] === i));
      if (i < s.order.length) words.push(s.order[i] + s.tiles[s.order[i]]);
    }
    return words.join(" ");
  };
  const settingText = (s) => [opName(s), ...Object.entries(s.sizes).map(([name, size]) =>
    `${name} = ${size}`), s.dtype + (s.stored ? `, ${s.stored} stored` : ""), stays(s),
  s.order.length ? `nest ${nestText(s)}` : ""].filter(Boolean).join(", ");
  const chipText = (s) => machineOf(s).name + (s.under.length ? `, ${s.under.join(", ")}` : "");
  const percent = (share) => `${significant(100 * share)} %`;
  function headline(at) {
    const { binds } = at, name = binds.key === "compute" ? "Computing" : binds.name;
    return [make("strong", {}, `${name} takes longest: T_best is ${show(at.best, "s")}.`),
      at.W ? ` The op is entitled to ${show(at.rate, "FLOP/s")}, ${percent(at.rate / at.peak)} of P.`
        : " W = 0 FLOP: it has times, and no place under a roofline."];
  }

  // --- Python --------------------------------------------------------------------------------

  function python(s) {
    const at = evaluate(s), { machine, op } = at, lists = [[s.dtype, machine.peaks[s.dtype], s.P],
      [machine.slow, machine.levels[machine.slow], s.BW], ["DMA", machine.levels.DMA, s.DMA]];
    const given = lists.filter(([, , i]) => i > 0).map(([roof, list, i]) =>
      `${roof}=${figure(list[i]).python}`);
    const fields = op.fields.map(([field, sizes]) => [field,
      sizes.split(" ").map((name) => s.sizes[name]).join(" * ")]);
    fields.push(...op.options, ["dtype", `"${s.dtype}"`]);
    if (s.stored) fields.push([op.stored, `"${s.stored}"`]);
    const level = Object.entries(op.kept ?? {}).find(([, names]) =>
      names.length === s.kept.length && names.every((name) => s.kept.includes(name)));
    if (op.kept) fields.push(["k", level ? level[0] : Object.keys(op.kept)[0]]);
    const call = `ops.${op.call}(${fields.map(([name, text]) => `${name}=${text}`).join(", ")})`;
    const quoted = s.kept.map((name) => `"${name}"`).join(", ");
    const extra = at.roofs.slice(2).map(({ key, amount }) => `"${key}": ${
      { DMA: "count.hbm_bytes", link: "op.link_bytes" }[key] ?? amount}`);
    const lines = [`chip = machine.get("${s.chip}", "${s.scope}")`
      + (given.length ? `.using(${given.join(", ")})` : "")
      + (s.under.length ? `.under(${s.under.map((name) => `"${name}"`).join(", ")})` : ""),
    `op = ${call}`,
    s.order.length ? `nest = loopnest.Nest(op, "${nestText(s)}")\nprint(nest.reloads, nest.held)\n`
      + "count = nest.achieved"
      : op.kept && !level ? `count = ops.chain(op.steps, kept=[${quoted}]).algorithmic`
        : "count = op.algorithmic",
    `print(count)\nprint(chip.entitle(count${extra.length ? `, {${extra.join(", ")}}` : ""}))`];
    const body = lines.join("\n");
    const used = ["derate", "loopnest", "machine", "ops"].filter((name) => body.includes(`${name}.`));
    return `from roofline import ${used.join(", ")}\n\n${body}\n`;
  }

  // --- the address ---------------------------------------------------------------------------

  // JupyterLab keeps its own address; of several explorers on a page the first has it.
  const owns = !document.querySelector("[data-jp-theme-light]")
    && document.querySelector('.rl-live[data-module="explorer"]') === el;
  function packed(s) {
    const found = new URLSearchParams({ op: s.op, ...s.sizes, chip: s.chip, scope: s.scope,
      dtype: s.dtype });
    const put = (name, text) => { if (text) found.set(name, text); };
    put("stored", s.stored);
    put("kept", s.kept.join("."));
    if (s.order.length) {
      put("order", s.order.join(""));
      put("at", s.at.join("."));
      put("tiles", dimsOf(s.op).map((dim) => s.tiles[dim]).join("."));
    }
    put("P", s.P);
    put("BW", s.BW);
    if (s.DMA >= 0) found.set("DMA", s.DMA);
    found.set("engine", s.engine);
    put("under", s.under.map((name) => machineOf(s).ceilings.indexOf(name)).join("."));
    if (!s.rivals) found.set("rivals", "0");
    return found;
  }
  function fail(name, got, expected) {
    throw new Error(`${name}: got ${JSON.stringify(got)}, expected ${expected}`);
  }
  function unpacked(params) {
    const known = new Set();
    const get = (name, otherwise = "") => {
      known.add(name);
      return params.get(name) ?? otherwise;
    };
    const one = (name, options, otherwise) => {
      const got = get(name, otherwise);
      return options.includes(got) ? got : fail(name, got, `one of ${options.join(", ")}`);
    };
    const whole = (name, low, high, got) => (/^-?\d{1,15}$/.test(got) && Number(got) >= low
      && Number(got) <= high ? Number(got) : fail(name, got, `a whole number from ${low} to ${high}`));
    const list = (name) => get(name).split(".").filter(Boolean);
    const op = one("op", order.ops), s = { ...plain, ...fresh(op) };
    const names = order.machines.map((key) => machines[key]);
    s.chip = one("chip", [...new Set(names.map((m) => m.chip))]);
    s.scope = one("scope", names.filter((m) => m.chip === s.chip).map((m) => m.scope));
    s.dtype = one("dtype", dtypesOf(machineOf(s)));
    for (const [name, , low, high] of ops[op].sizes) s.sizes[name] = whole(name, low, high, get(name));
    s.stored = one("stored", ["", ...(ops[op].stored ? order.dtypes : [])], "");
    s.kept = list("kept");
    const can = joined(op).map(([name]) => name);
    if (s.kept.some((name) => !can.includes(name)) || new Set(s.kept).size < s.kept.length) {
      fail("kept", params.get("kept"), `some of ${can.join(", ") || "nothing"}`);
    }
    s.kept = can.filter((name) => s.kept.includes(name));
    const dims = dimsOf(op), chosen = get("order");
    if (chosen) {
      s.order = [...chosen];
      if (!dims.length || [...chosen].sort().join() !== [...dims].sort().join()) {
        fail("order", chosen, `each of ${dims.join(", ") || "no loops"} once`);
      }
      const at = list("at"), tiles = list("tiles");
      s.at = namesOf(op).map((name, i) => whole(`at, ${name}`, 0, 3, at[i] ?? ""));
      s.tiles = Object.fromEntries(dims.map((dim, i) => [dim,
        whole(`tile of ${dim}`, 1, 2 ** 20, tiles[i] ?? "")]));
    }
    const machine = machineOf(s), { levels } = machine;
    s.P = whole("P", 0, machine.peaks[s.dtype].length - 1, get("P", "0"));
    s.BW = whole("BW", 0, levels[machine.slow].length - 1, get("BW", "0"));
    s.DMA = whole("DMA", -1, (levels.DMA ?? []).length - 1, get("DMA", "-1"));
    s.engine = one("engine", ["", ...engineOf(s)], "");
    s.under = [...new Set(list("under"))].map((at) => machine.ceilings[
      whole("under", 0, machine.ceilings.length - 1, at)]);
    s.rivals = one("rivals", ["1", "0"], "1") === "1";
    known.add("pin");
    const odd = [...params.keys()].find((name) => !known.has(name));
    if (odd) fail(odd, params.get(odd), `one of ${[...known].join(", ")}`);
    if (settled(s).under.length !== s.under.length) fail("under", get("under"), "ceilings below P");
    return s;
  }
  function restored(hash) {
    if (!hash.startsWith(MARK)) return false;
    try {
      const params = new URLSearchParams(hash.slice(MARK.length)), pin = params.get("pin");
      const [one, other] = [unpacked(params), pin ? unpacked(new URLSearchParams(pin)) : null];
      [now, pinned] = [one, other];
      return true;
    } catch (error) {
      said = `The setting in the address was not taken: ${error.message}.`;
      return false;
    }
  }
  let waiting = 0;
  function address() {
    const params = packed(now);
    if (pinned) params.set("pin", packed(pinned));
    return MARK + params;
  }
  function addressed() {
    if (!owns) return;
    clearTimeout(waiting);  // browsers refuse too many changes of an address in a short time
    waiting = setTimeout(() => history.replaceState(history.state, "", address()), 200);
  }

  // --- the plot ------------------------------------------------------------------------------

  const plot = axes("Roofline plot", [0, 4, 9, 15]), { X, Y } = plot;
  plot.svg.setAttribute("role", "img");

  function view(all) {
    const xs = [], ys = [];
    for (const at of all) {
      const ridge = at.P.value / at.BW.value;
      xs.push(ridge / 4, ridge * 6);
      ys.push(at.P.value, at.P.value / 30);
      if (!at.W || !revealed) continue;
      xs.push(at.I / 3, at.I * 3);
      ys.push(at.rate / 4, at.I / 3 * at.BW.value);
    }
    const low = Math.max(Math.min(...ys), 1);
    Object.assign(plot, { x0: Math.floor(log(Math.min(...xs))), x1: Math.ceil(log(Math.max(...xs))),
      y0: Math.floor(log(low)), y1: log(Math.max(...ys)) + 0.6 });
  }
  // A slanted roof from where it enters the plot up to the rate P.
  function slope(BW, P) {
    const low = 10 ** Math.max(plot.x0, plot.y0 - log(BW)), foot = [X(low), Y(low * BW)];
    const bend = [X(P / BW), Y(P)], angle = Math.atan2(bend[1] - foot[1], bend[0] - foot[0]);
    return { foot, bend, d: `M${foot.join(" ")}L${bend.join(" ")}`, along: (t, dy) => ({
      x: foot[0] + t * (bend[0] - foot[0]) - dy * Math.sin(angle),
      y: foot[1] + t * (bend[1] - foot[1]) + dy * Math.cos(angle), angle, anchor: "middle" }) };
  }
  const flat = (P, from) => `M${from} ${Y(P)}H${plot.right}`;

  function draw() {
    const at = evaluate(now), then = pinned && evaluate(pinned);
    view(then && revealed ? [at, then] : [at]);
    const { right, left, floor, keepOff, place, placeIfFree } = plot, end = { anchor: "end" };
    const parts = plot.frame("intensity I, FLOP per byte", "rate, FLOP/s");
    const P = at.P.value, main = slope(at.BW.value, P), { machine } = at;
    const within = (rate) => log(rate) >= plot.y0 && log(rate) <= plot.y1;
    parts.push(line(`${main.d}V${floor}H${main.foot[0]}Z`, "rl-under-memory"),
      line(`${flat(P, main.bend[0])}V${floor}H${main.bend[0]}Z`, "rl-under-compute"));

    const faint = [];
    if (now.rivals) {
      for (const i of machine.levels[machine.slow]) {
        const rival = figure(i);
        if (rival.value === at.BW.value || rival.role === "lower") continue;
        const one = slope(rival.value, P);
        parts.push(line(one.d, "rl-rival"));
        faint.push([rival.text, one.along(0.9, -5), one.along(0.75, 14)]);
      }
      for (const i of machine.peaks[now.dtype]) {
        const rival = figure(i);
        if (rival.value === P || rival.role === "lower") continue;
        parts.push(line(flat(rival.value, X(rival.value / at.BW.value)), "rl-rival"));
      }
    }
    if (then && revealed) {
      const other = slope(then.BW.value, then.P.value);
      if (then.P.value !== P || then.BW.value !== at.BW.value) {
        parts.push(line(`${other.d}H${right}`, "rl-ghost"));
      }
    }
    const slopes = at.roofs.filter((r) => r.slope).map((r) => ({ ...r, ...slope(r.figure.value, P) }));
    const levels = at.roofs.slice(1).filter((r) => !r.slope && at.W && r.time > 0).map((r) =>
      ({ ...r, rate: Number(at.W) / r.time })).filter((r) => within(r.rate));
    for (const r of slopes) {
      parts.push(line(r.d, `rl-roof rl-of-memory${r.key === "DMA" ? " rl-second" : ""}`));
      for (let t = 0; t <= 1; t += 1 / 30) {
        keepOff(r.foot[0] + t * (r.bend[0] - r.foot[0]), r.foot[1] + t * (r.bend[1] - r.foot[1]), 2);
      }
    }
    parts.push(line(flat(P, main.bend[0]), "rl-roof rl-of-compute"),
      line(`M${main.bend.join(" ")}V${floor}`, "rl-hint"));
    for (const r of levels) parts.push(line(flat(r.rate, left), "rl-roof rl-of-compute rl-second"));
    for (const [from, y] of [[main.bend[0], Y(P)], ...levels.map((r) => [left, Y(r.rate)])]) {
      for (let x = from; x < right; x += 12) keepOff(x, y, 2);
    }

    const points = revealed ? [[at, DISC, "rl-here"], ...(then ? [[then, DIAMOND, "rl-pinned"]] : [])]
      .filter(([one]) => one.W) : [];
    for (const [one, , name] of points) {
      keepOff(X(one.I), Y(one.rate), 12);
      keepOff(X(one.I), floor - 12, 6);
      if (name === "rl-here") {
        parts.push(line(`M${X(one.I)} ${Y(one.rate)}V${floor}`, `rl-stem rl-of-${
          one.binds.slope ? "memory" : "compute"}`));
      }
    }
    for (const [one, d, name] of points.reverse()) {
      parts.push(make("svg:path", { class: `rl-mark ${name}`, d, "data-bound":
        one.binds.slope ? "memory" : "compute", transform: `translate(${X(one.I)} ${Y(one.rate)})` }));
    }
    for (const [one, , name] of points.reverse()) {
      const x = X(one.I), y = Y(one.rate);
      const words = (name === "rl-here" ? "" : "pinned: ") + show(one.rate, "FLOP/s");
      parts.push(place(words, name === "rl-here" ? "rl-value" : "rl-guessed",
        ...[24, 40, 56].flatMap((down) => [{ x: x + 14, y: y + down }, { x: x - 14, y: y + down, ...end }]),
        ...[-14, -30].flatMap((up) => [{ x: x - 14, y: y + up, ...end }, { x: x + 14, y: y + up }]),
        ...[72, 90].flatMap((down) => [{ x: left + 6, y: y + down }, { x: right, y: y + down, ...end }]),
        ...[30, 46].flatMap((up) => [{ x: left + 6, y: floor - up }, { x: right, y: floor - up, ...end }])));
    }
    const peak = `P = ${at.P.text}`;
    parts.push(place(peak, "rl-compute", ...[-8, 18, -24, 34].flatMap((dy) => [
      { x: right, y: Y(P) + dy, ...end }, { x: main.bend[0] + 6, y: Y(P) + dy }])));
    for (const r of slopes) {
      const long = `${r.key === "DMA" ? "DMA" : r.name}: I x ${r.figure.text}`, short = r.figure.text;
      // Of two that lie close, the upper one's name above, the lower one's below.
      const under = slopes.some((other) => other.figure.value > r.figure.value
        || (other.figure.value === r.figure.value && r.key === "DMA"));
      const offsets = under && slopes.length > 1 ? [20, 34, -9] : [-9, -23, 20];
      parts.push(place(long, "rl-memory", ...offsets.flatMap((dy) => [0.5, 0.3, 0.7].map((t) =>
        r.along(t, dy))), ...offsets.flatMap((dy) => [0.5, 0.25, 0.75].map((t) =>
        ({ ...r.along(t, dy), say: short })))));
    }
    for (const r of levels) {
      parts.push(place(`${r.name}: ${r.figure.text}`, "rl-compute", ...[-7, 17].flatMap((dy) =>
        [{ x: right, y: Y(r.rate) + dy, ...end }, { x: left + 6, y: Y(r.rate) + dy },
          { x: right, y: Y(r.rate) + dy, ...end, say: r.name }])));
    }
    parts.push(place(`ridge ${significant(P / at.BW.value)}`, "", ...[8, 26, 44, 62, 80, 98].flatMap((up) =>
      [{ x: main.bend[0] + 6, y: floor - up }, { x: main.bend[0] - 6, y: floor - up, ...end }])));
    for (const [words, ...places] of faint) parts.push(...[placeIfFree(words, "rl-tick", ...places)].flat());
    plot.show(parts);
    plot.svg.setAttribute("aria-label", revealed && at.W ? `Roofline plot: ${settingText(now)} on ${
      chipText(now)} at I = ${show(at.I, "FLOP/B")}, ridge ${show(at.ridge, "FLOP/B")}, entitled to ${
      show(at.rate, "FLOP/s")}. The tables have all its numbers.`
      : `Roofline plot of ${chipText(now)} in ${now.dtype}: P = ${at.P.text}, ${machine.slow} ${
        at.BW.text}.`);
  }

  // --- tables --------------------------------------------------------------------------------

  function table(caption, [head, ...rows]) {
    const cells = (row, tag) => row.map((words, i) => make(i ? tag : "th",
      tag === "th" || !i ? { scope: tag === "th" ? "col" : "row" } : {}, words));
    return make("div", { class: "rl-scroll", role: "region", tabindex: "0", "aria-label": caption },
      make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...cells(head, "th"))),
        make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row, "td"))))));
  }
  const folded = (title, open) => {
    const node = make("details", open ? { open: "" } : {}, make("summary", {}, title)), body = make("div");
    node.append(body);
    return { node, body };
  };
  const arithmetic = folded("The arithmetic, with the numbers put in", true);
  const figuresOf = folded("Where each number is from", true);
  const rivals = folded("Sources that disagree, and what lies below a roof");
  const code = folded("As Python");
  const compared = make("div", { class: "rl-compared" });

  function sums(at) {
    const { sizes, tensors } = at, rows = [["what", "value", "formula", "with the numbers put in", "exactly"]];
    const exact = (name, text, amount, unit) => rows.push([name, show(Number(amount), unit),
      written(text), written(text, sizes), grouped(amount)]);
    exact("W", at.op.W, at.W, "FLOP");
    for (const t of tensors) {
      if (t.reads) exact(`${t.name} read`, t.formulas[0], t.reads, "B");
      if (t.writes) exact(`${t.name} written`, t.formulas[1], t.writes, "B");
      if (!t.bytes) rows.push([t.name, "0 B", "stays on chip", "", "0"]);
    }
    rows.push(["Q", show(Number(at.Q), "B"), "all that crosses", "", grouped(at.Q)]);
    if (at.W) {
      rows.push(["I", show(at.I, "FLOP/B"), "W / Q", `${show(Number(at.W), "FLOP")} / ${
        show(Number(at.Q), "B")}`, ""], ["ridge", show(at.ridge, "FLOP/B"), "P / BW",
        `${at.P.text} / ${at.BW.text}`, ""]);
    }
    for (const r of at.roofs) {
      rows.push([r.name, show(r.time, "s"), r.sign, `${show(Number(r.amount), r.unit)} / ${
        r.figure.text}`, ""]);
    }
    const times = at.roofs.map((r) => show(r.time, "s")), both = at.roofs.filter((r) =>
      ["HBM", "DMA"].includes(r.key)).map((r) => show(r.time, "s"));
    const summed = both.length < 2 ? times : [times[0], `max(${both.join(", ")})`, ...times.slice(3)];
    rows.push(["T_best", show(at.best, "s"), "the longest", `max(${times.join(", ")})`, ""],
      ["T_worst", show(at.worst, "s"), both.length < 2 ? "the sum" : "the sum, HBM and DMA in one go",
        summed.join(" + "), ""]);
    const letters = [`p = ${sizes.p} B, a ${now.dtype} number`];
    if (at.op.stored) letters.push(`q = ${sizes.q} B, a ${now.stored || now.dtype} number as stored`);
    for (const dim of now.order) letters.push(`t${dim} = ${sizes[`t${dim}`]}, steps of the loop over ${dim}`);
    const words = [table("W, bytes and times: derived", rows), make("p", { class: "rl-letters" },
      `${letters.join("; ")}.`)];
    if (now.order.length) {
      words.push(table("What the nest holds", [["tensor", `times across ${at.machine.slow}`, "held in"],
        ...tensors.map((t) => [t.name, `r_${t.name} = ${t.times}`, at.op.nest.memory[t.name]])]),
      ...Object.entries(at.held).map(([memory, n]) => make("p", { class: "rl-held" }, fits(at, memory, n))));
    }
    return words;
  }
  const roomOf = ({ buffers }, memory) => buffers && memory in buffers && figure(buffers[memory]).value;
  function fits(at, memory, n) {
    const room = roomOf(at.machine, memory), words = `${memory}: ${mebi(Number(n))}`;
    if (!room) return `${words}. One core's ${memory} is what counts: choose one core to compare.`;
    return n <= BigInt(room) ? `${words} of ${mebi(room)}: fits.`
      : `${words} of ${mebi(room)}: does not fit, so no kernel moves these bytes.`;
  }
  function origins(at) {
    const { machine } = at, own = [source(`${now.dtype} P`, at.P)];
    for (const r of at.roofs.slice(1)) own.push(source(r.key, r.figure));
    for (const [memory, room] of Object.entries(now.order.length ? machine.buffers ?? {} : {})) {
      own.push(source(memory, figure(room)));
    }
    const here = order.machines.map((key) => machines[key]).filter((m) => m.chip === now.chip
      && now.dtype in m.peaks);
    own.push(make("p", { class: "rl-source" }, make("b", {}, "W, Q"), ", derived: from the sizes, by the "
      + "op's own code. Times, I and ridge: derived from these."));
    if (here.length > 1) {
      const rows = here.map((m) => {
        const [P, BW] = [figure(m.peaks[now.dtype][0]), figure(m.levels[m.slow][0])];
        return [m.where, P.text, BW.text, show(P.value / BW.value, "FLOP/B"),
          ...["DMA", "link"].map((level) => (m.levels[level] ? figure(m.levels[level][0]).text : "none"))];
      });
      own.push(table("What the scope changes", [["scope", `P, ${now.dtype}`, machine.slow, "ridge", "DMA",
        "link"], ...rows]));
    }
    own.push(make("p", {}, `This scope: ${scopes[now.scope]}.`));
    return own;
  }
  function disagreeing(at) {
    const rows = [["roof", "figure", "kind", "T_best with it", "from"]], { machine } = at;
    for (const [name, key, list] of [[`P, ${now.dtype}`, "P", machine.peaks[now.dtype]],
      [machine.slow, "BW", machine.levels[machine.slow]],
      ...(now.DMA >= 0 ? [["DMA", "DMA", machine.levels.DMA]] : [])]) {
      for (const i of list.length > 1 ? list : []) {
        const one = figure(i);
        rows.push([name, one.text, one.kind, show(evaluate(now, { [key]: one }).best, "s"),
          (one.role === "used" ? "the course computes with it; " : "") + one.about]);
      }
    }
    return rows.length > 1 ? [table("Each figure in place of the one chosen", rows)]
      : [make("p", {}, "One source for each roof of this chip.")];
  }
  function beside() {
    if (!pinned) return [];
    const [then, at] = [evaluate(pinned), evaluate(now)];
    const ratio = (name) => (Number(then[name]) ? `${significant(Number(at[name]) / Number(then[name]))} x` : "");
    const row = (name, key, unit) => [name, show(Number(then[key]), unit), show(Number(at[key]), unit), ratio(key)];
    return [table("Pinned, and now", [["what", "pinned", "now", "now / pinned"], row("W", "W", "FLOP"),
      row("Q", "Q", "B"), row("I", "I", "FLOP/B"), ["takes longest", then.binds.name, at.binds.name, ""],
      row("T_best", "best", "s"), row("T_worst", "worst", "s"), row("rate", "rate", "FLOP/s")]),
    make("p", { class: "rl-source" }, `Pinned: ${settingText(pinned)}, on ${chipText(pinned)}.`)];
  }

  // --- controls ------------------------------------------------------------------------------

  const setting = make("p", { class: "rl-setting" }), [status, say] = speaker();
  const panel = make("div", { class: "rl-panel" }), controls = make("div", { class: "rl-controls rl-explore" });
  const numbers = make("div");

  // A list that keeps its place, and the focus, as its options change.
  function choices(name, change) {
    const id = `${el.id}-${name.replace(/\W/g, "")}`, list = make("select", { id });
    list.addEventListener("change", () => change(list.value));
    let had = "";
    return { node: make("div", { class: "rl-control" }, make("label", { for: id }, name), list),
      set(options, chosen) {
        const key = JSON.stringify(options);
        if (key !== had) {
          had = key;
          list.replaceChildren(...options.map(([value, words]) => make("option", { value }, words)));
        }
        list.value = chosen;
      } };
  }
  function box(name, words, checked, change) {
    const input = make("input", { type: "checkbox", id: `${el.id}-${name.replace(/\W/g, "")}` });
    input.checked = checked;
    input.addEventListener("change", () => change(input.checked));
    return make("label", { class: "rl-check", for: input.id }, input, make("span", {}, words));
  }
  // Boxes made anew; the one in use keeps the focus.
  function boxes(node, made) {
    const id = node.contains(document.activeElement) ? document.activeElement.id : "";
    node.replaceChildren(...made);
    if (id) made.map((label) => label.querySelector("input")).find((input) => input?.id === id)?.focus();
  }
  // A slider over powers of two, and a field for any whole number.
  function sizeRow(name, words, least, most, get, set) {
    const steps = [...new Set([least, ...Array.from({ length: 41 }, (_, k) => 2 ** k).filter((n) =>
      n > least && n < most), most])];
    const nearest = (size) => steps.reduce((best, step, i) =>
      (Math.abs(log((step || 0.5) / (size || 0.5))) < Math.abs(log((steps[best] || 0.5) / (size || 0.5)))
        ? i : best), 0);
    const id = `${el.id}-size-${name}`;
    const range = make("input", { type: "range", id, min: 0, max: steps.length - 1, step: 1 });
    const typed = make("input", { type: "text", inputmode: "numeric", autocomplete: "off",
      "aria-label": `${name}, exactly` });
    range.addEventListener("input", () => { set(steps[range.value]); update(false); });
    const take = () => {
      const text = typed.value.trim(), power = /^2\^(\d{1,2})$/.exec(text);
      const size = power ? 2 ** power[1] : /^(\d{1,15}|\d{1,3}(,\d{3}){1,4})$/.test(text)
        ? Number(text.replaceAll(",", "")) : NaN;
      if (size >= least && size <= most) {
        if (size !== get()) {
          set(size);
          update();
        }
        typed.value = size;
        typed.removeAttribute("aria-invalid");
        return;
      }
      typed.setAttribute("aria-invalid", "true");
      say([`${name}: expected a whole number from ${least} to ${most}, or a power such as 2^4, got ${
        JSON.stringify(text)}. ${name} stays ${get()}.`]);
    };
    typed.addEventListener("change", take);
    typed.addEventListener("keydown", (event) => { if (event.key === "Enter") take(); });
    return { node: make("div", { class: "rl-size" }, make("label", { for: id }, make("b", {}, name),
      ` ${words}`), range, typed),
      show() {
        range.value = nearest(get());
        range.setAttribute("aria-valuetext", get());
        typed.value = get();
        typed.removeAttribute("aria-invalid");
      } };
  }
  const change = (to) => { now = settled({ ...now, ...to }); update(); };

  const chips = [...new Map(order.machines.map((key) => [machines[key].chip, machines[key].what]))];
  const pick = {
    chip: choices("Chip", (chip) => change({ chip, P: 0, BW: 0, DMA: Math.min(now.DMA, 0) })),
    scope: choices("Scope", (scope) => change({ scope, P: 0, BW: 0, DMA: Math.min(now.DMA, 0) })),
    dtype: choices("Dtype", (dtype) => change({ dtype, P: 0 })),
    op: choices("Op", (op) => change(fresh(op))),
    stored: choices("Stored as", (stored) => change({ stored })),
    order: choices("Bytes", (text) => change({ order: [...text] })),
    engine: choices("Also an engine's roof", (engine) => change({ engine })),
    P: choices("P figure", (P) => change({ P: Number(P) })),
    BW: choices("Bandwidth figure", (BW) => change({ BW: Number(BW) })),
    DMA: choices("DMA engines' roof", (DMA) => change({ DMA: Number(DMA) })),
  };
  const sizeRows = make("div", { class: "rl-sizes" }), tileRows = make("div", { class: "rl-sizes" });
  const kept = make("div", { class: "rl-kept" }), places = make("div", { class: "rl-row" });
  const under = make("div", { class: "rl-under" }), nestNode = make("div", { class: "rl-nest" }, places,
    tileRows);
  const once = make("p", {}, "Each operand crosses once.");
  const group = (title, ...nodes) => make("fieldset", {}, make("legend", {}, title), ...nodes);
  let rows = [], placed = [], rowsOf = "";
  const showRivals = box("rivals", "draw sources that disagree", true, (on) => change({ rivals: on }));
  const pin = button("Pin this to compare", () => {
    pinned = pinned ? null : now;
    update();
  });
  const link = button("Copy the link", () => copy(location.href.split("#")[0] + address(), "The link"));
  const copyCode = button("Copy as Python", () => copy(python(now), "The call"));
  async function copy(text, what) {
    try {
      await navigator.clipboard.writeText(text);
      say([`${what} is copied.`]);
    } catch {  // no clipboard here: show it, marked, for the reader to copy
      code.node.open = true;
      code.body.querySelector("pre").textContent = text;
      getSelection().selectAllChildren(code.body.querySelector("pre"));
      say([`${what} stands marked under "As Python": copy it from there.`]);
    }
  }

  function build() {
    controls.replaceChildren(
      group("Chip", make("div", { class: "rl-row" }, pick.chip.node, pick.scope.node, pick.dtype.node)),
      group("Op", make("div", { class: "rl-row" }, pick.op.node, pick.stored.node), sizeRows),
      group("What crosses", once, make("div", { class: "rl-row" }, pick.order.node), kept, nestNode),
      group("Roofs", make("div", { class: "rl-row" }, pick.P.node, pick.BW.node, pick.DMA.node,
        pick.engine.node), under, showRivals),
      make("div", { class: "rl-buttons" }, pin, copyCode, link));
  }
  function choose() {
    const machine = machineOf(now), op = ops[now.op];
    const listed = (list) => list.map((at, i) => {
      const one = figure(at), words = one.role === "lower" ? one.about.split(":")[0] : one.kind;
      return [i, `${one.text}, ${one.role === "rival" ? "rival, " : ""}${words}`];
    });
    pick.chip.set(chips, now.chip);
    pick.scope.set(order.machines.map((key) => machines[key]).filter((m) => m.chip === now.chip)
      .map((m) => [m.scope, m.where]), now.scope);
    pick.dtype.set(dtypesOf(machine).map((d) => [d, d]), now.dtype);
    pick.op.set(order.ops.map((key) => [key, ops[key].label]), now.op);
    pick.stored.node.hidden = !op.stored;
    pick.stored.node.querySelector("label").textContent = op.stored === "kv_dtype" ? "Cache stored as"
      : "Weights stored as";
    pick.stored.set([["", "the same"], ...order.dtypes.map((d) => [d, d])], now.stored);
    pick.P.set(listed(machine.peaks[now.dtype]), now.P);
    pick.BW.set(listed(machine.levels[machine.slow]), now.BW);
    pick.DMA.node.hidden = !machine.levels.DMA;
    pick.DMA.set([[-1, "left out"], ...listed(machine.levels.DMA ?? [])], now.DMA);
    pick.engine.node.hidden = !engineOf(now).length;
    pick.engine.set([["", "none"], ...engineOf(now).map((name) => [name, engines[name]])], now.engine);
    const dims = dimsOf(now.op);
    pick.order.node.hidden = !dims.length;
    once.hidden = dims.length > 0 || joined(now.op).length > 0;
    pick.order.set([["", "each operand once"],
      ...PERMUTED(dims).map((of) => [of.join(""), `loops ${of.join(", ")}, outer to inner`])],
    now.order.join(""));
    boxes(kept, joined(now.op).map(([name, , , , , often, few]) => box(`keep-${name}`,
      `${name} stays on chip: crosses ${few} x, not ${often} x`, now.kept.includes(name), (on) =>
        change({ kept: joined(now.op).map(([n]) => n).filter((n) =>
          (n === name ? on : now.kept.includes(n))) }))));
    boxes(under, machine.ceilings.map((name) => box(`under-${name}`, `below the ceiling "${name}"`,
      now.under.includes(name), (on) => {
        const names = machine.ceilings.filter((n) => (n === name ? on : now.under.includes(n)));
        change({ under: names });
        if (names.length && !now.under.length) {
          say([`"${names.join(", ")}" does not lie below this figure of P: it is left out.`]);
        }
      })));
    showRivals.querySelector("input").checked = now.rivals;
    pin.textContent = pinned ? "Unpin" : "Pin this to compare";
    nestNode.hidden = !now.order.length;
    if (rowsOf !== now.op) {
      rowsOf = now.op;
      rows = op.sizes.map(([name, words, least, most]) => sizeRow(name, words, least, most,
        () => now.sizes[name], (size) => { now = { ...now, sizes: { ...now.sizes, [name]: size } }; }));
      sizeRows.replaceChildren(...rows.map(({ node }) => node));
      const tiles = dims.map((dim) => sizeRow(dim, "loop's step", 1, 2 ** 20, () => now.tiles[dim],
        (step) => { now = { ...now, tiles: { ...now.tiles, [dim]: step } }; }));
      tileRows.replaceChildren(...tiles.map(({ node }) => node));
      rows.push(...tiles);
      placed = namesOf(now.op).map((name, i) => choices(`${name} is held`, (at) =>
        change({ at: now.at.map((had, n) => (n === i ? Number(at) : had)) })));
      places.replaceChildren(...placed.map(({ node }) => node));
    }
    for (const row of rows) row.show();
    placed.forEach((one, i) => one.set(Array.from({ length: now.order.length + 1 }, (_, n) => [n,
      n ? `inside ${now.order.slice(0, n).join(", ")}` : "before all loops"]), now.at[i]));
  }

  // --- what happens --------------------------------------------------------------------------

  function reads(at) {
    const rows = [["W", "work W"], ["Q", "bytes Q"], ["I", "I = W / Q"], ["ridge", "ridge P / BW"],
      ...at.roofs.map((r) => [r.key, `${r.name}, ${r.sign}`, r.slope ? "memory" : "compute"]),
      ["best", "T_best, the longest"], ["worst", "T_worst, the sum"], ["rate", "rate W / T_best"]];
    const [list, read] = readouts(rows);
    const words = { W: show(Number(at.W), "FLOP"), Q: show(Number(at.Q), "B"), I: show(at.I, "FLOP/B"),
      ridge: at.W ? show(at.ridge, "FLOP/B") : "none", best: show(at.best, "s"),
      worst: show(at.worst, "s"), rate: show(at.rate, "FLOP/s") };
    for (const [key, text] of Object.entries(words)) read(key, text);
    for (const r of at.roofs) read(r.key, show(r.time, "s"), r.time / at.best);
    return list;
  }
  function update(aloud = true) {
    draw();
    if (!revealed) return;
    const at = evaluate(now);
    setting.textContent = `${settingText(now)}, on ${chipText(now)}.`;
    choose();
    panel.replaceChildren(reads(at));
    compared.replaceChildren(...beside());
    arithmetic.body.replaceChildren(...sums(at));
    figuresOf.body.replaceChildren(...origins(at));
    rivals.body.replaceChildren(...disagreeing(at));
    code.body.replaceChildren(make("pre", { tabindex: "0", "aria-label": "The call in Python" }, python(now)));
    const words = headline(at), spill = Object.entries(at.held).find(([memory, n]) =>
      roomOf(at.machine, memory) && n > BigInt(roomOf(at.machine, memory)));
    if (spill) words.push(` ${fits(at, ...spill)}`);
    if (at.op.link !== "0" && !at.machine.levels.link) {
      words.push(" No link figure at this scope: its time is left out.");
    }
    if (at.op.engine && !now.engine && engineOf(now).length) {
      words.push(" The Tensor Engine does not run this op: take an engine's roof as well.");
    }
    if (said) words.unshift(`${said} `);
    said = "";
    say(words, aloud);
    addressed();
  }

  function predict() {
    const at = evaluate(now);
    setting.replaceChildren(`${settingText(now)}: W = `, make("b", {}, show(Number(at.W), "FLOP")), ", Q = ",
      make("b", {}, show(Number(at.Q), "B")), `. On ${chipText(now)}: P = `, make("b", {}, at.P.text),
      `, ${at.machine.slow} `, make("b", {}, at.BW.text), ".");
    panel.replaceChildren(guessForm(el.id, "What takes longest?", at.roofs.map((r) => [r.key,
      r.key === "compute" ? "computing W" : `${r.name}: ${r.sign}`]), {
      choose: (key) => { choice = key; },
      check() {
        if (choice) guessed(false);
        else say(["Choose one, or skip the guess."]);
      },
      skip() {
        choice = "";
        guessed(true);
      } }));
  }
  function guessed(skipped) {
    const { binds } = evaluate(now), right = choice === binds.key;
    said = skipped ? "" : right ? "You said so." : `You said ${
      choice === "compute" ? "computing" : choice}.`;
    open(true);
  }
  function open(focus) {
    revealed = true;
    build();
    update();
    numbers.hidden = false;
    if (focus) pick.op.node.querySelector("select").focus({ preventScroll: true });
  }

  numbers.append(compared, arithmetic.node, figuresOf.node, rivals.node, code.node);
  numbers.hidden = true;
  if (owns && restored(location.hash)) revealed = true;
  if (owns) {
    addEventListener("hashchange", (event) => {
      const { hash } = new URL(event.newURL);  // the address may have moved on by now
      if (!hash.startsWith(MARK)) return;
      restored(hash);
      if (!revealed) open(false);
      else update();
      el.scrollIntoView();  // the link may stand far below
      pick.op.node.querySelector("select").focus({ preventScroll: true });
    });
  }
  stage(el, setting, plot.node, controls, status, panel);
  el.querySelector(".rl-stage").after(numbers);
  if (revealed) open(false);
  else {
    predict();
    if (said) say([said]);
  }
  draw();
  plot.fit(draw);
}

export default { render };
