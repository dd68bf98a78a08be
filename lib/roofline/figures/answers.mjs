// What forms share: reading numbers as units.parse does, fields to answer in, telling the page.
//
// Number grammar and unit factors come in through `model`; the sentences are those of units.py.

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// How Python quotes a text in a message.
function quoted(text) {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const body = text.replace(/\\/g, "\\\\").replace(/\t/g, "\\t").replace(/\u00a0/g, "\\xa0");
  return quote + (quote === "'" ? body.replace(/'/g, "\\'") : body) + quote;
}

// units.parse: { value } in the base unit, or { error }. `typed` is the unit found in the text.
export function parser(model) {
  const table = new Map(), lower = new Map();
  for (const [name, factor, base] of model.get("units")) {
    table.set(name, { factor, base });
    const same = name.toLowerCase();
    lower.set(same, [...(lower.get(same) ?? []), name]);
  }
  const grammar = new RegExp(model.get("number")), thousands = new RegExp(model.get("thousands"));
  const spellings = model.get("spellings").map(([is, plain]) => [new RegExp(is, "g"), plain]);
  const bits = new RegExp(model.get("bits"));
  const meaning = model.get("meaning"), write = model.get("write");
  return (text, base) => {
    const match = grammar.exec(text.replace(/\u03bc/g, "\u00b5"));
    if (!match) return { error: `no number in ${quoted(text)}; ${write[base]}` };
    const digits = [match.groups.number, match.groups.over ?? "1"];
    if (digits.some((number) => number.includes(",") && !thousands.test(number))) {
      return { error: `${quoted(text)}: a comma may only group thousands; use a decimal point` };
    }
    const [top, below] = digits.map((number) => Number(number.replaceAll(",", "")));
    const name = match.groups.unit;
    let known = spellings.reduce((said, [is, plain]) => said.replace(is, plain), name);
    if (name && !table.has(known)) {
      if (bits.test(known)) {
        return { error: `${quoted(name)} is bits; bytes are written with a capital B` };
      }
      const found = lower.get(known.toLowerCase());
      if (!found) return { error: `unknown unit ${quoted(name)}; ${write[base]}` };
      known = found.find((other) => table.get(other).base === base) ?? found[0];
    }
    const unit = name ? table.get(known) : { factor: 1, base };
    if (unit.base !== base) {
      return { error: `${quoted(name)} is ${meaning[unit.base]}; expected ${meaning[base]}`
                      + (base ? `, in ${base}` : "") };
    }
    const number = top / below;
    if (!Number.isFinite(number * unit.factor)) return { error: `got ${text}, which is not a finite number` };
    return { value: number * unit.factor, typed: name ? known : "" };
  };
}

// What a part is called in a message: check._Shown.
export const shown = (part) => (part.label || part.name).replace(/\?+$/, "");

const kinds = { right: "right", rival: "almost", follows: "almost", slip: "wrong", off: "wrong",
  unreadable: "wrong" };

// One part as { part, node, inputs, answer() -> text or "", read(answer), bare(answer), full(answer),
// fill(text), show(kind, message) }. A number is read in the picker's unit unless one is typed.
export function entry(part, id, model, parse) {
  const prompt = part.label || part.name;
  const output = make("output", { id: `${id}-says`, role: "status", "data-part": part.name });
  const node = make("div", { class: "rl-part" });
  let inputs, answer, fill, read = () => ({}), bare = () => false, full = (text) => text;
  if (part.kind === "choice") {
    const options = (part.order ?? [...part.options.keys()]).map((i) => part.options[i]);
    inputs = options.map(([key], i) => make("input",
      { type: "radio", name: part.name, value: key, id: `${id}-${i}`, "aria-describedby": output.id }));
    node.append(make("fieldset", {}, make("legend", {}, prompt),
      ...options.map(([, text], i) => make("label", { for: `${id}-${i}` }, inputs[i],
        make("span", {}, text)))));
    answer = () => inputs.find((input) => input.checked)?.value ?? "";
    fill = (key) => { for (const input of inputs) input.checked = input.value === key; };
  } else {
    const input = make("input", { type: "text", id, name: part.name, autocomplete: "off",
      autocapitalize: "off", spellcheck: "false", "aria-describedby": output.id });
    const line = make("div", { class: "rl-entry" }, input);
    node.append(make("label", { for: id }, prompt), line);
    if (part.label) node.classList.add("rl-said");
    inputs = [input];
    answer = () => input.value.trim();
    fill = (text) => { input.value = text; };
    if (part.kind === "number") {
      const choices = model.get("picker")[part.unit];
      input.inputMode = "decimal";
      let picker, chosen = false;
      if (choices.length > 1) {
        picker = make("select", { "aria-label": `unit of ${prompt}` },
          ...choices.map((unit) => make("option", {}, unit)));
        picker.value = part.unit;
        picker.addEventListener("change", () => { chosen = true; });
        inputs.push(picker);
        line.append(picker);
        // A unit typed with the number wins; the picker then shows it.
        input.addEventListener("change", () => {
          const { typed } = parse(input.value, part.unit);
          if (choices.includes(typed)) picker.value = typed;
        });
      } else if (part.unit) {
        line.append(make("span", { class: "rl-unit", id: `${id}-unit` }, part.unit));
        input.setAttribute("aria-describedby", `${id}-unit ${output.id}`);
      }
      read = (text) => {
        const found = parse(text, part.unit), unit = picker?.value ?? part.unit;
        return found.typed === "" && unit !== part.unit ? parse(`${text} ${unit}`, part.unit) : found;
      };
      bare = (text) => model.get("scaled").includes(part.unit) && read(text).typed === "" && !chosen;
      full = (text) => parse(text, part.unit).typed === "" && picker && (chosen || picker.value !== part.unit)
        ? `${text} ${picker.value}` : text;
      fill = (text) => {
        input.value = text;
        input.dispatchEvent(new Event("change"));
      };
    }
  }
  node.append(output);
  const show = (kind, message) => {
    output.textContent = message && `${shown(part)}: ${message}`;
    output.dataset.kind = kind;
    output.className = kinds[kind] ? `rl-${kinds[kind]}` : "";
    for (const input of inputs) {
      if (kinds[kind] === undefined || kind === "right") input.removeAttribute("aria-invalid");
      else if (input.type !== "radio") input.setAttribute("aria-invalid", "true");
    }
  };
  // What was said about an earlier answer does not stand beside a new one.
  for (const input of inputs) input.addEventListener("input", () => show("", ""));
  return { part, node, inputs, answer, read, bare, full, fill, show };
}

// Focus goes to what is to mend or missing: here or further on, else from the top.
export function attend(fields, open) {
  const here = fields.findIndex((one) => one.node.contains(document.activeElement));
  const next = open.find((one) => fields.indexOf(one) >= here) ?? open[0];
  next?.inputs[0].focus();
  next?.inputs[0].select?.();
}

// Whoever keeps progress listens; see assets/progress.js.
export const tell = (el, what, kind, id, more) =>
  el.dispatchEvent(new CustomEvent("rl", { bubbles: true, detail: { what, kind, id, ...more } }));

// JupyterLab and the page have single-key shortcuts; keys typed here are not for them.
export function ownKeys(el) {
  for (const type of ["keydown", "keypress", "keyup"]) {
    el.addEventListener(type, (event) => event.stopPropagation());
  }
  el.dataset.lmSuppressShortcuts = "true";
}
