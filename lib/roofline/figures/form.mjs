// A question form: compares what is typed with ranges that Python computed.
//
// It knows nothing about the question. Number grammar, unit factors, accepted ranges, what
// follows from what and words of slips come in through `model`; the sentences are those of
// check.py and units.py.

const kinds = { right: "right", rival: "almost", follows: "almost", slip: "wrong", off: "wrong",
  unreadable: "wrong" };

// Variant n of folded data: see forms.fold.
function unfold(node, n) {
  if (Array.isArray(node)) return node.map((item) => unfold(item, n));
  if (node === null || typeof node !== "object") return node;
  if (node.t) {
    const [template, ...numbers] = node.$[n];
    return node.t[template].replace(/\0/g, () => numbers.shift());
  }
  if (node.$) return node.i ? node.$[node.i[n]] : node.$[n];
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, unfold(value, n)])
    .filter(([, value]) => value !== null));
}

function make(tag, attributes = {}, ...children) {
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
function parser(model) {
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

const inside = (value, ranges) => ranges.some(([low, high]) => low <= value && value <= high);

// check.Part.judge, Choice.judge and Text.judge: [kind, message]. bare: read in the base unit
// because nobody said another.
function judgeNumber(part, { value, error }, bare, any) {
  if (error) return ["unreadable", `${error.replace(/\.+$/, "")}.`];
  if (inside(value, part.right)) return ["right", "right."];
  const named = (ranges) => ranges.find(([, range]) => inside(value, [range]))?.[0];
  const rival = named(part.rivals), slip = named(Object.entries(part.slips));
  if (rival) return ["rival", `right for ${rival}, not the figure this page uses.`];
  const side = `not yet, ${value < part.value ? "too small" : "too large"}.`;
  const hint = bare ? ` A bare number is read in ${part.unit}.` : "";
  const like = (say) => ` Looks like a slip: ${say.replace(/\.+$/, "")}.`;
  if (slip) return ["slip", side + like(slip)];
  const common = any[part.unit].find(([, factors, near]) => factors.some((factor) =>
    Math.abs(value - factor * part.value) <= near * Math.abs(factor * part.value)));
  return common ? ["slip", side + like(common[0]) + hint] : ["off", side + hint];
}

// check.Question._follow: what a part would be by the reader's own other parts.
const ops = { "/": (a, b) => a / b, "*": (a, b) => a * b, "+": (a, b) => a + b, max: Math.max };
function follow(node, known) {
  if (!Array.isArray(node)) return typeof node === "string" ? known[node] : node;
  const [op, ...of] = node;
  return of.map((one) => follow(one, known)).reduce((a, b) => ops[op](a, b));
}
const namesOf = (node) => Array.isArray(node) ? [...new Set(node.slice(1).flatMap(namesOf))]
  : typeof node === "string" ? [node] : [];

// The judgements once more, by the name of the part; known: the numbers that could be read.
function following(parts, found, known) {
  return parts.map((part) => {
    const mine = found[part.name];
    if (!part.follows || !["slip", "off"].includes(mine[0])) return mine;
    const names = namesOf(part.follows);
    const wrong = names.filter((name) => ["rival", "slip", "off"].includes(found[name][0]));
    if (!wrong.length || !names.every((name) => name in known)) return mine;
    const value = follow(part.follows, known);
    const near = Math.abs(known[part.name] - value) <= 0.051 * Math.abs(value);
    return near && Number.isFinite(value) ? ["follows", `consistent with your ${wrong.join(" and ")}; mend `
      + `${wrong.length > 1 ? "those" : "that"} first.`] : mine;
  });
}

function judgeChoice(part, key) {
  return key === part.right ? ["right", "right."] : ["slip", `not yet. ${part.slips[key]}`];
}

function judgeText(part, text) {
  const words = text.trim().split(/\s+/).join(" ");
  if (part.accept.some((pattern) => new RegExp(pattern, "i").test(words))) return ["right", "right."];
  const slip = part.slips.find(({ re }) => new RegExp(re, "i").test(words));
  return slip ? ["slip", `not yet. ${slip.say}`] : ["off", "not yet."];
}

// What a part is called in a message: check._Shown.
const shown = (part) => (part.label || part.name).replace(/\?+$/, "");

// One part as { part, node, inputs, answer() -> text or "", judge(answer), number(answer), show }.
function field(part, id, model, parse) {
  const prompt = part.label || part.name;
  const output = make("output", { id: `${id}-says`, role: "status", "data-part": part.name });
  const node = make("div", { class: "rl-part" });
  let inputs, answer, judge, number = () => undefined;
  if (part.kind === "choice") {
    const options = (part.order ?? [...part.options.keys()]).map((i) => part.options[i]);
    inputs = options.map(([key], i) => make("input",
      { type: "radio", name: part.name, value: key, id: `${id}-${i}`, "aria-describedby": output.id }));
    node.append(make("fieldset", {}, make("legend", {}, prompt),
      ...options.map(([, text], i) => make("label", { for: `${id}-${i}` }, inputs[i],
        make("span", {}, text)))));
    answer = () => inputs.find((input) => input.checked)?.value ?? "";
    judge = (key) => judgeChoice(part, key);
  } else {
    const input = make("input", { type: "text", id, name: part.name, autocomplete: "off",
      autocapitalize: "off", spellcheck: "false", "aria-describedby": output.id });
    const entry = make("div", { class: "rl-entry" }, input);
    node.append(make("label", { for: id }, prompt), entry);
    if (part.label) node.classList.add("rl-said");
    inputs = [input];
    answer = () => input.value.trim();
    judge = (text) => judgeText(part, text);
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
        entry.append(picker);
        // A unit typed with the number wins; the picker then shows it.
        input.addEventListener("change", () => {
          const { typed } = parse(input.value, part.unit);
          if (choices.includes(typed)) picker.value = typed;
        });
      } else if (part.unit) {
        entry.append(make("span", { class: "rl-unit", id: `${id}-unit` }, part.unit));
        input.setAttribute("aria-describedby", `${id}-unit ${output.id}`);
      }
      const read = (text) => {
        const found = parse(text, part.unit), unit = picker?.value ?? part.unit;
        return found.typed === "" && unit !== part.unit ? parse(`${text} ${unit}`, part.unit) : found;
      };
      number = (text) => read(text).value;
      judge = (text) => {
        const found = read(text);
        const bare = model.get("scaled").includes(part.unit) && found.typed === "" && !chosen;
        return judgeNumber(part, found, bare, model.get("any"));
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
  return { part, node, inputs, answer, judge, number, show };
}

function render({ model, el }) {
  const parse = parser(model);
  const count = model.get("count"), folded = model.get("folded");
  const ask = el.querySelector(".rl-ask"), place = el.querySelector(".rl-fields");
  const worked = el.querySelector(".worked");
  ask.id = `${el.id}-ask`;
  let variant = 0, fields = [];
  const left = make("output", { role: "status", class: "rl-left" });
  const check = make("button", { type: "submit", class: "rl-main" }, "Check");
  const another = make("button", { type: "button" }, "Another one");
  const group = make("div", { role: "group", "aria-labelledby": ask.id });

  const build = () => {
    const data = unfold(folded, variant);
    ask.textContent = data.ask;
    worked.querySelector("pre").textContent = data.worked.join("\n");
    fields = data.parts.map((part, i) => field(part, `${el.id}-${i}`, model, parse));
    group.replaceChildren(...fields.map((one) => one.node));
    left.textContent = "";
    el.dataset.variant = variant;
  };

  // Focus goes to an answer to mend, else to one that is missing: here or further on, else
  // from the top. After a click it stays on the button, so that no phone opens its keyboard
  // over the messages.
  let clicked = false;
  check.addEventListener("click", (event) => { clicked = event.detail > 0; });
  el.addEventListener("submit", (event) => {
    event.preventDefault();
    const empty = [], wrong = [], found = {}, known = {};
    for (const one of fields) {
      const answer = one.answer(), number = answer ? one.number(answer) : undefined;
      found[one.part.name] = answer ? one.judge(answer) : ["not attempted", ""];
      if (number !== undefined) known[one.part.name] = number;
    }
    following(fields.map((one) => one.part), found, known).forEach(([kind, message], i) => {
      fields[i].show(kind, message);
      if (kind === "not attempted") empty.push(fields[i]);
      else if (kind !== "right") wrong.push(fields[i]);
    });
    left.textContent = empty.length ? "not attempted: " + empty.map((one) => shown(one.part)).join("; ")
      : "";
    const here = fields.findIndex((one) => one.node.contains(document.activeElement));
    const todo = wrong.length ? wrong : empty;
    const next = todo.find((one) => fields.indexOf(one) >= here) ?? todo[0];
    if (next && !clicked) {
      next.inputs[0].focus();
      next.inputs[0].select?.();
    }
    clicked = false;
  });
  another.addEventListener("click", () => {
    variant = (variant + 1) % count;
    worked.open = false;
    build();
    ask.focus();
  });
  // JupyterLab and the page have single-key shortcuts; keys typed here are not for them.
  for (const type of ["keydown", "keypress", "keyup"]) {
    el.addEventListener(type, (event) => event.stopPropagation());
  }
  el.dataset.lmSuppressShortcuts = "true";

  build();
  place.replaceChildren(group,
    make("div", { class: "rl-buttons" }, check, ...(count > 1 ? [another] : [])), left);
}

export default { render };
