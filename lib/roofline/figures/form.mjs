// A question form: compares what is typed with ranges that Python computed.
//
// It knows nothing about the question. Accepted ranges, what follows from what and words of slips
// come in through `model`; the sentences are those of check.py.

import { attend, entry, make, ownKeys, parser, shown, tell } from "./answers.mjs";

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

// [kind, message] of a part's answer.
function judge(one, text, any) {
  if (one.part.kind === "choice") return judgeChoice(one.part, text);
  if (one.part.kind !== "number") return judgeText(one.part, text);
  return judgeNumber(one.part, one.read(text), one.bare(text), any);
}

function render({ model, el }) {
  const parse = parser(model);
  const count = model.get("count"), folded = model.get("folded");
  const ask = el.querySelector(".rl-ask"), place = el.querySelector(".rl-fields");
  const worked = el.querySelector(".worked"), id = el.dataset.formId;
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
    fields = data.parts.map((part, i) => entry(part, `${el.id}-${i}`, model, parse));
    group.replaceChildren(...fields.map((one) => one.node));
    left.textContent = "";
    el.dataset.variant = variant;
  };

  // What is there is judged and said; returns { kind of each part, which to mend, which are left }.
  function judgeAll() {
    const empty = [], wrong = [], found = {}, known = {}, said = {};
    for (const one of fields) {
      const answer = one.answer(), number = answer ? one.read(answer).value : undefined;
      found[one.part.name] = answer ? judge(one, answer, model.get("any")) : ["not attempted", ""];
      if (number !== undefined) known[one.part.name] = number;
    }
    following(fields.map((one) => one.part), found, known).forEach(([kind, message], i) => {
      fields[i].show(kind, message);
      said[fields[i].part.name] = kind;
      if (kind === "not attempted") empty.push(fields[i]);
      else if (kind !== "right") wrong.push(fields[i]);
    });
    left.textContent = empty.length ? "not attempted: " + empty.map((one) => shown(one.part)).join("; ")
      : "";
    return { said, wrong, empty };
  }

  // After a click focus stays on the button, so that no phone opens its keyboard over the messages.
  let clicked = false;
  check.addEventListener("click", (event) => { clicked = event.detail > 0; });
  el.addEventListener("submit", (event) => {
    event.preventDefault();
    const { said, wrong, empty } = judgeAll();
    if (!clicked) attend(fields, wrong.length ? wrong : empty);
    clicked = false;
    if (empty.length === fields.length) return;
    tell(el, "said", "form", id, { data: { variant, kinds: said, right: !wrong.length && !empty.length,
      answers: Object.fromEntries(fields.map((one) => [one.part.name, one.full(one.answer())])) } });
  });
  another.addEventListener("click", () => {
    variant = (variant + 1) % count;
    worked.open = false;
    build();
    ask.focus();
  });
  worked.querySelector("summary").addEventListener("click", () => {
    if (!worked.open) tell(el, "worked", "form", id, { data: { variant } });
  });
  ownKeys(el);

  build();
  place.replaceChildren(group,
    make("div", { class: "rl-buttons" }, check, ...(count > 1 ? [another] : [])), left);

  // Answers of an earlier visit, judged anew; what does not fit is passed over.
  function restore(data) {
    variant = Number.isInteger(data?.variant) && data.variant >= 0 ? data.variant % count : 0;
    build();
    for (const one of fields) {
      const text = data?.answers?.[one.part.name];
      if (typeof text === "string") one.fill(text);
    }
    judgeAll();
  }
  tell(el, "ready", "form", id, { restore });
}

export default { render };
