// What live figures share: elements, numbers as units.show writes them, log-log axes whose
// labels keep apart, handles that keys, mouse and finger drag.

const SVG = "http://www.w3.org/2000/svg";

export function make(tag, attributes = {}, ...children) {
  const node = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// --- numbers: units.show ---------------------------------------------------------------------

// Python rounds exact ties to even.
export function fixed(value, decimals) {
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
export function show(value, unit, digits = 3) {
  const prefixes = unit === "s" ? SMALL : unit === "FLOP/B" ? [["", 1]] : LARGE;
  let [name, factor] = value ? prefixes[0] : ["", 1];
  for (const [n, f] of prefixes) {
    if (Number(significant(value / f, digits)) >= 1) [name, factor] = [n, f];
  }
  return `${significant(value / factor, digits)} ${name}${unit}`.trim();
}
// A capacity: units.mebi.
export function mebi(value) {
  const [size, name] = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]
    .find(([factor]) => value >= factor) ?? [1, "B"];
  return `${significant(value / size)} ${name}`;
}
export const log = Math.log10;
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// --- axes --------------------------------------------------------------------------------------

export const tick = (x, y, words, anchor) =>
  make("svg:text", { x, y, "text-anchor": anchor, class: "rl-tick" }, words);
export const line = (d, name, more = {}) => make("svg:path", { d, class: name, ...more });

export function sized(svg, width, height) {
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
}
// A pointer's place in a sized SVG, also where the page around it is scaled, as slides are.
export function pointed(svg, event) {
  const frame = svg.getBoundingClientRect(), scale = svg.getAttribute("width") / frame.width;
  return [(event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale];
}
// Draw at the width there is, now and when it changes: draw(width).
export function fitted(node, draw) {
  let drawn = 0;
  const resize = () => {
    const { clientWidth } = node;
    if (!clientWidth || clientWidth === drawn) return;
    drawn = clientWidth;
    draw(drawn);
  };
  resize();
  new ResizeObserver(resize).observe(node);
}

// Log-log axes from [x0, x1, y0, y1], powers of ten; Object.assign another view to change it.
export function axes(label, [x0, x1, y0, y1]) {
  const scene = make("svg:g", { "aria-hidden": "true" });
  const svg = make("svg:svg", { role: "group", "aria-label": label }, scene);
  const node = make("div", { class: "rl-plot" }, svg);
  let taken = [];
  const at = {
    node, svg, x0, x1, y0, y1, width: 640, height: 430, left: 52, top: 30,
    get right() { return at.width - 20; },
    get floor() { return at.height - 46; },
    X: (value) => at.left + (log(value) - at.x0) / (at.x1 - at.x0) * (at.right - at.left),
    Y: (value) => at.floor - (log(value) - at.y0) / (at.y1 - at.y0) * (at.floor - at.top),
    // A pointer's place as powers of ten.
    from(event) {
      const [x, y] = pointed(svg, event);
      return [at.x0 + (x - at.left) / (at.right - at.left) * (at.x1 - at.x0),
        at.y0 + (at.floor - y) / (at.floor - at.top) * (at.y1 - at.y0)];
    },

    // Grid, ticks and names; labels placed from now on keep off each other.
    frame(x, y, say = (value) => show(value, "")) {
      taken = [];
      const parts = [];
      const along = thinned(ticks(at.x0, at.x1), (a, b) => at.X(b) - at.X(a)
        >= 3.4 * (significant(a).length + significant(b).length) + 2);
      for (const value of along) {
        parts.push(line(`M${at.X(value)} ${at.top}V${at.floor}`, "rl-grid"),
          tick(at.X(value), at.floor + 18, significant(value), "middle"));
      }
      for (const value of thinned(ticks(at.y0, at.y1), (a, b) => at.Y(a) - at.Y(b) >= 12)) {
        parts.push(line(`M${at.left} ${at.Y(value)}H${at.right}`, "rl-grid"),
          tick(at.left - 7, at.Y(value) + 4, say(value), "end"));
      }
      parts.push(line(`M${at.left} ${at.top}V${at.floor}H${at.right}`, "rl-axis"),
        tick(4, 15, y, "start"), tick(at.right, at.floor + 38, x, "end"));
      return parts;
    },
    keepOff(x, y, r) { taken.push([x - r, y - r, x + r, y + r]); },
    // A label: it takes the first of its places that is free, else the freest.
    place: (words, name, ...places) => best(words, name, places).take(),
    // A label that is left out where nothing is free.
    placeIfFree(words, name, ...places) {
      const found = best(words, name, places);
      return found.hits ? [] : [found.take()];
    },
    show(parts) { scene.replaceChildren(...parts); },

    fit: (draw) => fitted(node, (width) => {
      at.width = width;
      at.height = Math.round(clamp(width * 0.8, 300, 440));
      sized(svg, at.width, at.height);
      draw();
    }),
  };
  function ticks(low, high) {
    const found = [], steps = high - low < 2.5 ? [1, 2, 5] : [1];
    for (let e = Math.floor(low); e <= high; e++) {
      for (const step of steps) {
        const place = e + log(step);
        if (place > low - 1e-9 && place < high + 1e-9) found.push(step * 10 ** e);
      }
    }
    return found;
  }
  // Every second, third ... tick, where all of them would touch.
  function thinned(values, apart) {
    for (let every = 1; ; every++) {
      const kept = values.filter((_, i) => i % every === 0);
      if (kept.every((value, i) => !i || apart(kept[i - 1], value))) return kept;
    }
  }
  function best(words, name, places) {
    const tried = places.map(({ x, y, anchor = "start", angle = 0, say = words }) => {
      const long = (name === "rl-value" ? 7.4 : 6.8) * say.length, first = { start: 0, middle: -long / 2, end: -long }[anchor];
      const steps = Math.ceil(long / 12), marks = [];
      for (let i = 0; i < steps; i++) {
        const along = first + (i + 0.5) * long / steps;
        const cx = x + along * Math.cos(angle) + 5 * Math.sin(angle);
        const cy = y + along * Math.sin(angle) - 5 * Math.cos(angle);
        marks.push([cx - 7, cy - 8, cx + 7, cy + 8]);
      }
      const out = marks.filter(([l, t, r, b]) => l < at.left - 4 || r > at.width + 4 || t < 0
        || b > at.floor).length;
      const hits = 3 * out + marks.filter(([l, t, r, b]) =>
        taken.some(([L, T, R, B]) => l < R && L < r && t < B && T < b)).length;
      return { hits, take() {
        taken.push(...marks);
        return make("svg:text", { class: name, "text-anchor": anchor,
          transform: `translate(${x} ${y}) rotate(${angle * 180 / Math.PI})` }, say);
      } };
    });
    return tried.reduce((one, other) => (other.hits < one.hits ? other : one));
  }
  return at;
}

// --- handles -----------------------------------------------------------------------------------

export function handle(name, label, orientation, d) {
  return make("svg:g", { class: `rl-handle ${name}`, role: "slider", tabindex: "0",
    "aria-label": label, "aria-orientation": orientation },
  make("svg:circle", { class: "rl-hit", r: 24 }), make("svg:circle", { class: "rl-ring", r: 15 }),
  make("svg:path", { class: "rl-mark", d }));
}
export const DISC = "M-9 0a9 9 0 1 0 18 0a9 9 0 1 0-18 0Z", DIAMOND = "M0-10 10 0 0 10-10 0Z";

export function slider(node, low, high, value, words) {
  node.setAttribute("aria-valuemin", low);
  node.setAttribute("aria-valuemax", significant(high));
  node.setAttribute("aria-valuenow", value.toFixed(2));
  node.setAttribute("aria-valuetext", words);
}

// follow(event): a pointer drags it; by(steps), home(), end(), enter(): keys.
export function drags(node, { follow, by, home, end, enter }) {
  node.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1,
      PageUp: 10, PageDown: -10 }[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (steps) by(steps);
    else if (event.key === "Home") home();
    else if (event.key === "End") end();
    else if (event.key === "Enter" && enter) enter();
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

// --- page --------------------------------------------------------------------------------------

export function button(text, action, main) {
  const node = make("button", { type: "button", class: main ? "rl-main" : "" }, text);
  node.addEventListener("click", action);
  return node;
}

// options: [value, words, disabled]. Focus stays on it when `change` makes the list anew.
export function select(id, name, options, chosen, change) {
  const node = make("select", { id }, ...options.map(([value, words, off]) =>
    make("option", off ? { value, disabled: "" } : { value }, words)));
  node.value = chosen;
  node.addEventListener("change", () => {
    const root = node.getRootNode();
    change(node.value);
    root.getElementById(id).focus();
  });
  return make("div", { class: "rl-control" }, make("label", { for: id }, name), node);
}

// A guess to make first: radios [key, words], check and skip; Enter checks.
export function guessForm(id, legend, options, { choose, check, skip }) {
  const form = make("form", { class: "rl-predict", novalidate: "" },
    make("fieldset", {}, make("legend", {}, legend), ...options.map(([key, words]) => {
      const input = make("input", { type: "radio", name: `${id}-guess`, value: key, id: `${id}-${key}` });
      input.addEventListener("change", () => choose(key));
      return make("label", { for: input.id }, input, make("span", {}, words));
    })),
    make("div", { class: "rl-buttons" },
      make("button", { type: "submit", class: "rl-main" }, "Check my guess"), button("Skip", skip)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    check();
  });
  return form;
}

// What the plot shows, in words; read aloud unless a drag would make it chatter.
export function speaker() {
  const node = make("p", { role: "status", class: "rl-status" });
  return [node, (words, aloud = true) => {
    node.setAttribute("aria-live", aloud ? "polite" : "off");
    node.replaceChildren(...words);
  }];
}

export const source = (name, spec) => make("p", { class: "rl-source" },
  make("b", {}, `${name} = ${spec.text}`), `, ${spec.kind}: ${spec.about}`);

// A list of numbers [key, name, bar]: its node, and set(key, text, share of the bar).
export function readouts(rows) {
  const list = make("dl", { class: "rl-reads" }), cells = {};
  for (const [key, name, kind] of rows) {
    const words = make("span"), value = make("dd", {}, words);
    const bar = kind && make("span", { class: `rl-bar rl-fill-${kind}` });
    if (kind) value.append(make("span", { class: "rl-track", "aria-hidden": "true" }, bar));
    cells[key] = { words, bar };
    list.append(make("dt", {}, name), value);
  }
  return [list, (key, text, share) => {
    cells[key].words.textContent = text;
    if (cells[key].bar) cells[key].bar.style.width = `${100 * share}%`;
  }];
}

// The figure in its element. Page and JupyterLab shortcuts are not meant for what is typed here.
export function stage(el, question, plot, controls, status, panel) {
  const tables = el.querySelector(".rl-tables");
  el.replaceChildren(question, make("div", { class: "rl-stage" }, plot, controls,
    make("div", { class: "rl-side" }, status, panel)), ...(tables ? [tables] : []));
  for (const type of ["keydown", "keyup"]) {
    el.addEventListener(type, (event) => event.stopPropagation());
  }
  el.dataset.lmSuppressShortcuts = "true";
}
