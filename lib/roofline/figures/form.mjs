// A question form: compares what is typed with ranges that Python computed.
//
// It computes nothing about the question. Number grammar, unit factors, accepted ranges and
// words of slips come in through `model`; the sentences are those of check.py and units.py.

const kinds = { right: "right", rival: "almost", slip: "wrong", off: "wrong", unreadable: "wrong" };

// Variant n of folded data: see forms.fold.
function unfold(node, n) {
  if (Array.isArray(node)) return node.map((item) => unfold(item, n));
  if (node === null || typeof node !== "object") return node;
  if (node.t) {
    const [template, ...numbers] = node.$[n];
    return node.t[template].replace(/\0/g, () => numbers.shift());
  }
  if (node.$) return node.i ? node.$[node.i[n]] : node.$[n];
  return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, unfold(value, n)]));
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
    if (!lower.has(name.toLowerCase())) lower.set(name.toLowerCase(), name);
  }
  const grammar = new RegExp(model.get("number")), thousands = new RegExp(model.get("thousands"));
  const meaning = model.get("meaning"), sample = model.get("sample");
  return (text, base) => {
    const match = grammar.exec(text.replace(/[\u00b5\u03bc]/g, "\u00b5"));
    if (!match) {
      return { error: `no number in ${quoted(text)}; write it like ${quoted(sample[base])}` };
    }
    if (match.groups.number.includes(",") && !thousands.test(match.groups.number)) {
      return { error: `${quoted(text)}: a comma may only group thousands; write 0.5, not 0,5` };
    }
    const name = match.groups.unit;
    const known = table.has(name) ? name : lower.get(name.toLowerCase());
    if (name && known === undefined) {
      return { error: `unknown unit ${quoted(name)}; write it like ${quoted(sample[base])}` };
    }
    const unit = name ? table.get(known) : { factor: 1, base };
    if (unit.base !== base) {
      return { error: `${quoted(name)} is ${meaning[unit.base]}; expected ${meaning[base]}`
                      + (base ? `, in ${base}` : "") };
    }
    const number = Number(match.groups.number.replaceAll(",", ""));
    if (!Number.isFinite(number)) return { error: `got ${text}, which is not a finite number` };
    return { value: number * unit.factor, typed: name ? known : "" };
  };
}

const inside = (value, ranges) => ranges.some(([low, high]) => low <= value && value <= high);

// check.Part.judge, Choice.judge and Text.judge: [kind, message].
function judgeNumber(part, text, parse) {
  const { value, error } = parse(text, part.unit);
  if (error) return ["unreadable", `${error.replace(/\.+$/, "")}.`];
  if (inside(value, part.right)) return ["right", "right."];
  const rival = part.rivals.find((one) => inside(value, one.in));
  if (rival) return ["rival", `right for ${rival.say}, not the figure this page uses.`];
  const side = value < part.right[0][0] ? "too small" : "too large";
  const slip = part.slips.find((one) => inside(value, one.in));
  if (slip) return ["slip", `not yet, ${side}. Looks like: ${slip.say.replace(/\.+$/, "")}.`];
  const bare = /\d$/.test(text.trim()) && part.unit;
  return ["off", `not yet, ${side}.` + (bare ? ` A bare number is read in ${part.unit}.` : "")];
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

// One part as { node, focus, answer() -> text or "", judge(answer), show(kind, message), watch }.
function field(part, id, model, parse) {
  const output = make("output", { id: `${id}-says`, role: "status", "data-part": part.name });
  const node = make("div", { class: "rl-part" });
  let inputs, answer, judge;
  if (part.kind === "choice") {
    inputs = part.options.map(([key], i) => make("input",
      { type: "radio", name: part.name, value: key, id: `${id}-${i}`, "aria-describedby": output.id }));
    node.append(make("fieldset", {}, make("legend", {}, part.name),
      ...part.options.map(([key, text], i) => make("label", { for: `${id}-${i}` }, inputs[i],
        make("span", {}, make("b", {}, key), ` ${text}`)))));
    answer = () => inputs.find((input) => input.checked)?.value ?? "";
    judge = (key) => judgeChoice(part, key);
  } else {
    const input = make("input", { type: "text", id, name: part.name, autocomplete: "off",
      autocapitalize: "off", spellcheck: "false", "aria-describedby": output.id });
    const entry = make("div", { class: "rl-entry" }, input);
    node.append(make("label", { for: id }, part.name), entry);
    inputs = [input];
    answer = () => input.value.trim();
    judge = (text) => judgeText(part, text);
    if (part.kind === "number") {
      const choices = model.get("picker")[part.unit];
      input.inputMode = "decimal";
      let picked = () => part.unit;
      if (choices.length > 1) {
        const picker = make("select", { "aria-label": `unit of ${part.name}` },
          ...choices.map((unit) => make("option", {}, unit)));
        picker.value = part.unit;
        picked = () => picker.value;
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
      judge = (text) => {
        const { typed } = parse(text, part.unit);
        return judgeNumber(part, typed === "" && picked() !== part.unit ? `${text} ${picked()}` : text,
          parse);
      };
    }
  }
  node.append(output);
  const show = (kind, message) => {
    output.textContent = message && `${part.name}: ${message}`;
    output.dataset.kind = kind;
    output.className = kinds[kind] ? `rl-${kinds[kind]}` : "";
    for (const input of inputs) {
      if (kinds[kind] === undefined || kind === "right") input.removeAttribute("aria-invalid");
      else if (input.type !== "radio") input.setAttribute("aria-invalid", "true");
    }
  };
  // What was said about an earlier answer does not stand beside a new one.
  for (const input of inputs) input.addEventListener("input", () => show("", ""));
  return { part, node, inputs, answer, judge, show };
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
    worked.querySelector("pre").textContent = data.worked;
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
    const empty = [], wrong = [];
    for (const one of fields) {
      const answer = one.answer();
      const [kind, message] = answer ? one.judge(answer) : ["not attempted", ""];
      one.show(kind, message);
      if (!answer) empty.push(one);
      else if (kind !== "right") wrong.push(one);
    }
    left.textContent = empty.length ? "not attempted: " + empty.map((one) => one.part.name).join(", ")
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
