// Guess, then move: a kernel counted from its source, setting by setting.
//
// Each setting's numbers come in through `model`, as the library counted them. The page evaluates only
//   times a tensor crosses = its bytes read (or written) / its own bytes
//   Q at the ridge = W / ridge: what crosses less is compute-bound
// With a live kernel (model.get("live")) a setting is counted there, again each time: the kernel
// looks at its file. Without one the figure moves among those that were counted ahead.

import { button, fitted, guessForm, line, make, mebi, readouts, select, show, significant, sized,
  speaker, stage, tick } from "./plot.mjs";

const MOST = 2 ** 20;   // of a number that is typed
const BARS = 18;
const SOON = 300;       // ms without an answer, after which it says that it is counting
const LATE = 3000;      // ms without a sign of the kernel
const LIST = 3e5;       // instructions of all settings of the list that are counted unasked: 1 s
const SHADES = [0.95, 0.62, 0.36, 0.2];

const strong = (words) => make("strong", {}, words);
const times = (n) => (n === 1 ? "once" : `${significant(n)} times`);
const group = (n) => n.toLocaleString("en-US");

function render({ model, el }) {
  const names = model.get("kernels"), short = model.get("short"), takes = model.get("takes");
  const settings = model.get("settings"), dims = model.get("dims"), guess = model.get("guess");
  const live = model.get("live") ?? {};
  const listed = settings.filter((one) => one.listed);
  const state = { at: { ...model.get("start") }, revealed: false, choice: "" };
  let channel = null, version = live.version, waiting = null, next = null, asked = 0, last = null,
    news = "";

  // --- what is counted -------------------------------------------------------------------------

  const taken = (at) => takes[at.kernel];
  const key = (at) => [names[at.kernel], ...taken(at).map((name) => `${name}=${at[name]}`)].join(" ");
  const known = new Map(model.get("counts").map((one) => [key(one.at), one]));
  const here = () => known.get(key(state.at));
  // The settings of the lists at the sizes of now, then others that were counted at these.
  const list = model.get("counts").map((one) => one.at);
  function around() {
    const sizes = Object.fromEntries(dims.map((name) => [name, state.at[name]])), found = new Map();
    for (const at of [...list.map((at) => ({ ...at, ...sizes })), ...[...known.values()].map((one) => one.at),
      state.at]) {
      if (dims.every((name) => at[name] === sizes[name])) found.set(key(at), at);
    }
    return [...found].map(([name, at]) => known.get(name) ?? { at });
  }

  function describe(at) {
    const chosen = taken(at).filter((name) => listed.some((one) => one.name === name))
      .map((name) => `${name} ${at[name]}`);
    return [...(names.length > 1 ? [short[at.kernel]] : []), ...chosen].join(", ") || names[0];
  }
  const bound = (one) => (one.binds === "compute" ? "compute" : "memory");
  const crossings = ([, bytes, read, written]) => [...(read ? [times(read / bytes)] : []),
    ...(written ? [`written ${times(written / bytes)}`] : [])].join(", ");

  // --- the bars --------------------------------------------------------------------------------

  const scene = make("svg:g", { "aria-hidden": "true" });
  const svg = make("svg:svg", { role: "img" }, scene);
  const legend = make("p", { class: "rl-key" });
  const plot = make("div", { class: "rl-plot" }, svg, legend);
  let width = 640, shown = [];
  const ROW = 34, TOP = 26;

  function draw() {
    const now = key(state.at), all = around();
    const current = all.findIndex((one) => key(one.at) === now);
    const from = Math.max(0, Math.min(current - BARS / 2, all.length - BARS));
    shown = state.revealed ? all.slice(from, from + BARS) : all.slice(current, current + 1);
    const counted = shown.filter((one) => one.Q);
    const most = Math.max(...counted.map((one) => one.Q), 1), x = (Q) => Q / most * width;
    const parts = [], height = TOP + ROW * Math.max(shown.length, 1);
    const one = counted.find((one) => key(one.at) === now) ?? counted[0];
    if (state.revealed && one?.ridge && one.W / one.ridge < 1.15 * most) {
      const at = Math.min(x(one.W / one.ridge), width - 1);
      parts.push(line(`M${at} ${TOP - 6}V${height}`, "rl-hint"));
      // The wider side has room for both words.
      parts.push(at > width / 2 ? tick(at, 14, "compute-bound \u2190 ridge", "end")
        : tick(at, 14, "ridge \u2192 memory-bound", "start"));
    }
    shown.forEach((one, i) => {
      const y = TOP + i * ROW, on = key(one.at) === now, style = on ? "rl-value" : "";
      if (on) parts.push(make("svg:rect", { class: "rl-here", x: -6, y: y - 1, width: width + 12, height: ROW - 2 }));
      parts.push(make("svg:text", { x: 0, y: y + 13, class: style }, describe(one.at)),
        make("svg:text", { x: width, y: y + 13, "text-anchor": "end", class: one.tensors ? style : "rl-tick" },
          one.refused ? "refused" : one.tensors ? show(one.Q, "B") : "\u2026"));
      let left = 0;
      for (const [j, [, , read, written]] of (one.tensors ?? []).entries()) {
        const wide = x(read + written);
        parts.push(make("svg:rect", { class: `rl-piece rl-fill-${bound(one)}`, x: left, y: y + 18,
          width: Math.max(wide, 0.5), height: 9, "fill-opacity": SHADES[j % SHADES.length] }));
        left += wide;
      }
    });
    sized(svg, width, height);
    scene.replaceChildren(...parts);
    svg.setAttribute("aria-label", `Bars of Q for the settings that are counted. ${shown.map((row) =>
      `${describe(row.at)}: ${row.refused ? "refused" : row.tensors ? show(row.Q, "B") : "not yet"}`).join("; ")}`);
    const tensors = one?.tensors ? one.tensors.map(([name]) => name) : [];
    legend.replaceChildren(make("span", {}, "Each bar is Q:"), ...tensors.map((name, j) =>
      make("span", {}, make("i", { class: "rl-swatch", style: `opacity: ${SHADES[j % SHADES.length]}` }),
        ` ${name}`)));
  }
  // A row that is clicked is gone to; the same moves are on the controls.
  svg.addEventListener("click", (event) => {
    const { top, height } = svg.getBoundingClientRect();
    const place = (event.clientY - top) / height * (TOP + ROW * shown.length);
    const one = shown[Math.floor((place - TOP) / ROW)];
    if (state.revealed && one && (channel || known.has(key(one.at)))) move({ ...one.at });
  });

  // --- words -----------------------------------------------------------------------------------

  const [status, say] = speaker();
  const question = make("div", { class: "rl-question" },
    ...model.get("says").map((words) => make("p", {}, words)));

  function verdict() {
    const said = guess.right.includes(Number(state.choice)) ? " You said so."
      : ` You said: ${guess.answers[state.choice]}.`;
    return [strong(`${guess.right.map((i) => guess.answers[i]).join("; ")}.`), ` ${guess.told}`, ...(state.choice === "" ? [] : [said])];
  }
  // What a move did: Q, the tensors that cross more or less often, the bound.
  function summary(before, now) {
    if (now.refused) return [strong(`Refused: ${describe(now.at)}. `), now.refused];
    const Q = show(now.Q, "B"), head = !before || before.refused ? `Q is ${Q}.`
      : now.Q === before.Q ? `Q stays ${Q}.`
        : `Q ${now.Q < before.Q ? "falls" : "rises"} from ${show(before.Q, "B")} to ${Q}.`;
    const was = new Map((before?.tensors ?? []).map((row) => [row[0], row]));
    const moved = now.tensors.flatMap((row) => {
      const then = was.get(row[0]), [old, fresh] = [then && crossings(then), crossings(row)];
      return then && old !== fresh ? [`${row[0]} crosses ${fresh}, before ${old}`] : [];
    });
    const turned = before?.binds && now.binds && bound(before) !== bound(now);
    return [strong(head), moved.length ? ` ${moved.join("; ")}.` : "",
      turned ? ` Now it is ${bound(now)}-bound.` : ""];
  }

  // --- panel and controls ------------------------------------------------------------------------

  const panel = make("div", { class: "rl-panel" }), controls = make("div", { class: "rl-controls" });
  const note = make("p", { class: "rl-source" });
  const again = button("Count again", () => ask(state.at)), stop = button("Stop", () => {
    next = null;
    send({ stop: true });
  });
  let rows = [], picks = [];

  function numbers(one) {
    if (!one?.tensors) return panel.replaceChildren();
    const spec = [["Q", "bytes Q"], ...one.tensors.map(([name], j) => [`t${j}`, `of Q, ${name}`, "memory"]),
      ["W", "work W"], ["I", "I = W / Q"], ["ridge", "ridge P / BW"], ["best", "T_best"],
      ["transfers", "DMAs with HBM"], ["instructions", "instructions"],
      ["sbuf", "SBUF, at most", "memory"], ["banks", "PSUM, at most", "memory"]];
    const [list, read] = readouts(spec), none = (value, words) => (value === null ? "none" : words());
    read("Q", show(one.Q, "B"));
    one.tensors.forEach((row, j) => read(`t${j}`, `${show(row[2] + row[3], "B")}, ${crossings(row)}`,
      (row[2] + row[3]) / one.Q));
    read("W", show(one.W, "FLOP"));
    read("I", none(one.I, () => show(one.I, "FLOP/B")));
    read("ridge", none(one.ridge, () => show(one.ridge, "FLOP/B")));
    read("best", none(one.best, () => `${show(one.best, "s")}, ${bound(one)}-bound`));
    read("transfers", group(one.transfers));
    read("instructions", group(one.instructions));
    read("sbuf", `${mebi(one.sbuf[0])} of ${mebi(one.sbuf[1])}`, one.sbuf[0] / one.sbuf[1]);
    read("banks", `${one.banks[0]} of ${one.banks[1]} banks`, one.banks[0] / one.banks[1]);
    return panel.replaceChildren(list, make("p", { class: "rl-source" }, `T_best on ${model.get("chip")}.`),
      ...one.warnings.map((words) => make("p", { class: "rl-source" }, make("b", {}, "warning"), `: ${words}`)));
  }

  function numberRow({ name, values, listed: isListed }) {
    const id = `${el.id}-${name}`, text = make("input", { type: "text", inputmode: "numeric",
      autocomplete: "off", ...(isListed ? { "aria-label": `${name}, exactly` } : { id }) });
    const range = make("input", { type: "range", id, min: 0, max: values.length - 1, step: 1 });
    const nearest = () => values.reduce((best, value, i) => (Math.abs(value - state.at[name])
      < Math.abs(values[best] - state.at[name]) ? i : best), 0);
    range.addEventListener("input", () => move({ ...state.at, [name]: values[range.value] }, false));
    const take = () => {
      const typed = text.value.trim(), value = /^(\d+|\d{1,3}(,\d{3})+)$/.test(typed)
        ? Number(typed.replaceAll(",", "")) : NaN;
      const fits = channel ? value >= 1 && value <= MOST : values.includes(value);
      text.setAttribute("aria-invalid", !fits);
      if (value === state.at[name]) return undefined;  // Enter, and then the field is left
      if (fits) return move({ ...state.at, [name]: value });
      return say([`${name}: got ${JSON.stringify(typed)}; expected ${channel
        ? `a whole number from 1 to ${group(MOST)}` : `one of ${values.join(", ")}, which were counted `
          + "ahead"}. ${name} stays ${state.at[name]}.`]);
    };
    text.addEventListener("change", take);
    text.addEventListener("keydown", (event) => { if (event.key === "Enter") take(); });
    const renew = () => {
      const off = !taken(state.at).includes(name);
      range.value = nearest();
      range.setAttribute("aria-valuetext", state.at[name]);
      if (text !== el.ownerDocument.activeElement) {  // what is being typed stays
        text.value = state.at[name];
        text.setAttribute("aria-invalid", "false");
      }
      range.disabled = text.disabled = off;
    };
    return { show: renew, node: [make("label", { for: id }, make("b", {}, name)),
      isListed ? range : make("span", {}), text] };
  }
  function build() {
    const numeric = (one) => typeof one.values[0] === "number";
    rows = settings.filter((one) => numeric(one) && (one.listed || channel)).map(numberRow);
    picks = [...(names.length > 1 ? [() => select(`${el.id}-kernel`, "Kernel", names.map((name, i) => [i, name]),
      state.at.kernel, (i) => move({ ...state.at, kernel: Number(i) }))] : []),
    ...listed.filter((one) => !numeric(one)).map((one) => () => select(`${el.id}-${one.name}`, one.name,
      one.values.map((value) => [value, value]), state.at[one.name],
      (value) => move({ ...state.at, [one.name]: value })))].map((pick) => pick());
    const fixed = settings.filter((one) => !one.listed).map((one) => `${one.name} = ${one.values[0]}`);
    controls.replaceChildren(
      make("div", { class: "rl-row" }, ...picks),
      make("div", { class: "rl-sizes" }, ...rows.flatMap(({ node }) => node)),
      ...(channel ? [make("div", { class: "rl-buttons" }, again, stop)] : []), note);
    note.replaceChildren(...(channel ? [make("b", {}, "Live"), ": this notebook's kernel counts each setting, "
      + `from ${live.source} as it is saved.`]
      : [make("b", {}, `${known.size} settings, counted ahead`), ` with ${fixed.join(", ")}. `,
        live.missing ?? (live.token ? "The notebook's kernel does not answer: run this cell again. (It needs "
          + "anywidget where JupyterLab runs.)" : "In JupyterLab the kernel counts any other setting too.")]));
    update();
  }

  // --- moving --------------------------------------------------------------------------------------

  let aloud = true;
  function move(to, loud = true) {
    aloud = loud;
    state.at = to;
    if (channel) ask(to);
    else settle();
  }
  // Show what is counted of where we are, and say what the move did.
  function settle() {
    const now = here();
    update();
    if (!now) {
      say(["This one was not counted, and its kernel is gone. Run this cell again."]);
      return;
    }
    say([...(news ? [strong(news)] : []), ...summary(last, now)], aloud);
    news = "";
    if (now.Q) last = now;
  }
  function update() {
    draw();
    if (!state.revealed) return;
    numbers(here());
    for (const row of rows) row.show();
    for (const pick of picks) {
      const node = pick.querySelector("select"), name = node.id.slice(el.id.length + 1);
      node.value = state.at[name];
      node.disabled = name !== "kernel" && !taken(state.at).includes(name);
    }
    stop.disabled = !waiting;
  }
  function reveal() {
    state.revealed = true;
    last = here();
    build();
    if (guess.answers) say(verdict());
    const first = controls.querySelector("select, input");
    if (first) first.focus({ preventScroll: true });
    if (channel) ask(state.at, true);
  }

  // --- the kernel ------------------------------------------------------------------------------------

  function send(message) {
    try {
      channel.send(message);
    } catch {  // its kernel is gone, and the line with it
      waiting = next = channel = null;
      build();
      settle();
    }
  }
  // quiet: it says nothing, unless the source is another: the numbers are on the page already, or
  // nobody waits for them.
  function ask(at, quiet = false) {
    if (waiting && !waiting.late) {
      next = { at: { ...at }, quiet };
      if (key(waiting.at) !== key(at)) send({ stop: true });
      return;
    }
    const mine = waiting = { id: ++asked, at: { ...at }, quiet, taken: false, late: false };
    next = null;
    update();
    send({ id: mine.id, count: mine.at });
    const check = (after, act) => setTimeout(() => { if (waiting === mine) act(); }, after);
    check(SOON, () => {
      if (!mine.quiet) say([`Counting ${describe(mine.at)} \u2026`]);
    });
    check(LATE, () => {
      mine.late = !mine.taken;
      if (mine.taken) say([`Still counting ${describe(mine.at)} \u2026 Stop ends it.`]);
      else say(["The kernel has not answered yet: it is busy with a cell, or was started anew. Then run "
        + "this cell again."]);
      update();
    });
  }
  function receive(message) {
    if (!waiting || message.id !== waiting.id) return;
    if (message.taken) {
      waiting.taken = true;
      return;
    }
    const { at, quiet } = waiting, following = next;
    waiting = next = null;
    if (message.count) {
      const changed = message.version !== version, current = key(at) === key(state.at);
      if (changed) {  // all that is shown was counted from another source
        known.clear();
        el.querySelector(".rl-tables")?.remove();
        news = `${message.source} was edited, and is counted as it is now. `;
        last = null;
      }
      version = message.version;
      known.set(key(message.count.at), message.count);
      if (current && !following && (changed || !quiet)) settle();
      else update();
      // It may come upon the edit while it fills its list.
      if (changed && !current && !following) ask(state.at);
    } else if (!following) {
      known.delete(key(at));
      update();
      say([strong("Not counted: "), message.error]);
    }
    if (following) ask(following.at, following.quiet);
    else if (!waiting && message.count && (message.count.instructions ?? 0) * list.length < LIST) fill();
    if (!waiting) update();
  }
  // Count what is missing of the list, one after the other, while nobody moves.
  function fill() {
    const missing = around().find((one) => !known.has(key(one.at)));
    if (missing) ask(missing.at, true);
  }
  if (live.token) {
    document.addEventListener("rl-kernel", ({ detail }) => {
      if (detail.token !== live.token || channel === detail.model) return;
      channel = detail.model;
      channel.on("msg:custom", receive);
      if (state.revealed) {
        build();
        ask(state.at, true);
      }
    });
    document.dispatchEvent(new Event("rl-kernel?"));
  }

  if (guess.answers) {
    panel.replaceChildren(guessForm(el.id, "Your guess", guess.answers.map((words, i) => [i, words]), {
      choose: (i) => { state.choice = i; },
      check() {
        if (state.choice === "") say(["Choose one of them, or skip the guess."]);
        else reveal();
      },
      skip() { state.choice = ""; reveal(); } }));
  }
  stage(el, question, plot, controls, status, panel);
  fitted(plot, (wide) => {
    width = wide;
    draw();
  });
  if (!guess.answers) reveal();
}

export default { render };
