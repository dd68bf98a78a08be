// A guess before a result: once it is committed, the result unfolds and stands beside the guess.
//
// What was found comes in through `model`, as the page prints it and as a number in base units.

import { attend, entry, make, ownKeys, parser, shown, tell } from "./answers.mjs";

const few = (value) => String(Number(value.toPrecision(value < 100 ? 2 : 3)));

// How a guess compares with what was found, both numbers of one unit.
export function compared(mine, found) {
  if (mine === found) return "the same";
  if (!found || !mine || mine < 0 !== found < 0) return "";
  const ratio = mine / found, percent = 100 * Math.abs(ratio - 1);
  if (percent < 0.5) return "within 0.5 %";
  const side = ratio > 1 ? "high" : "low";
  if (Math.max(ratio, 1 / ratio) >= 1000) return `over 1000 times too ${side}: check its unit`;
  if (percent < 50) return `${few(percent)} % too ${side}`;
  return `${few(Math.max(ratio, 1 / ratio))} times too ${side}`;
}

function render({ model, el }) {
  const parse = parser(model), parts = model.get("parts"), id = el.dataset.guessId;
  const place = el.querySelector(".rl-fields"), title = el.querySelector(".rl-ask");
  const result = document.getElementById(el.dataset.result)?.querySelectorAll("details.hide") ?? [];
  const fields = parts.map((part, i) => entry(part, `${el.id}-${i}`, model, parse));
  const status = make("p", { role: "status", class: "rl-left" });
  const commit = make("button", { type: "submit", class: "rl-main" }, "Commit");
  const skip = make("button", { type: "button" }, "Skip");
  const list = make("table", { class: "rl-beside" });
  title.id = `${el.id}-ask`;
  const group = make("div", { role: "group", "aria-labelledby": title.id },
    ...fields.map((one) => one.node), make("div", { class: "rl-buttons" }, commit, skip), status);

  // A number without its unit; of a share that is told in %, one above 1 is in % too.
  const bare = ({ read }, answer) => read(answer).typed === "";
  const percent = (one, answer) => one.part.found.endsWith("%") && bare(one, answer)
    && one.read(answer).value > 1;
  function said(one, answer) {
    const { part } = one;
    if (!answer) return "no guess";
    if (part.kind === "choice") return part.options.find(([key]) => key === answer)[1];
    if (!bare(one, answer)) return answer;
    return `${answer} ${percent(one, answer) ? "%" : part.unit}`.trim();
  }
  function beside(one, answer) {
    const { part, read } = one;
    if (part.kind !== "choice") {
      return answer ? compared(read(answer).value / (percent(one, answer) ? 100 : 1), part.value) : "";
    }
    return !answer ? "" : answer === part.found ? "the same" : "another";
  }
  function reveal(answers) {
    const cell = (tag, text) => make(tag, tag === "th" ? { scope: "col" } : {}, text);
    list.replaceChildren(make("thead", {}, make("tr", {}, ...["what", "your guess", "found", "your guess is"]
      .map((text) => cell("th", text)))), make("tbody", {}, ...fields.map((one) => make("tr", {},
      make("th", { scope: "row" }, shown(one.part)), cell("td", said(one, answers[one.part.name])),
      cell("td", one.part.kind === "choice" ? said(one, one.part.found) : one.part.found),
      cell("td", beside(one, answers[one.part.name]))))));
    place.replaceChildren(make("div", { class: "rl-scroll", role: "region", tabindex: "0",
      "aria-labelledby": title.id }, list));
    open();
  }
  const open = () => { for (const fold of result) fold.open = true; };
  function done(answers, skipped) {
    if (skipped) {
      place.replaceChildren(make("p", { class: "rl-left" }, "No guess; the result is open."));
      open();
    } else reveal(answers);
  }

  let clicked = false;
  commit.addEventListener("click", (event) => { clicked = event.detail > 0; });
  el.addEventListener("submit", (event) => {
    event.preventDefault();
    const bad = [], answers = {};
    for (const one of fields) {
      const answer = one.answer(), error = answer && one.part.kind === "number" && one.read(answer).error;
      one.show(error ? "unreadable" : "", error ? `${error.replace(/\.+$/, "")}.` : "");
      if (error) bad.push(one);
      else if (answer) answers[one.part.name] = one.full(answer);
    }
    if (bad.length || !Object.keys(answers).length) {
      status.textContent = bad.length ? "" : "Guess at least one of them, or skip.";
      if (!clicked) attend(fields, bad.length ? bad : fields);
      clicked = false;
      return;
    }
    done(answers, false);
    title.focus({ preventScroll: true });
    tell(el, "said", "guess", id, { data: { answers, skipped: false } });
  });
  skip.addEventListener("click", () => {
    done({}, true);
    title.focus({ preventScroll: true });
    tell(el, "said", "guess", id, { data: { answers: {}, skipped: true } });
  });
  ownKeys(el);
  place.replaceChildren(group);

  function restore(data) {
    if (data?.skipped === true) return done({}, true);
    const answers = {};
    for (const one of fields) {
      const text = data?.answers?.[one.part.name];
      if (typeof text === "string" && text && (one.part.kind === "choice"
        ? one.part.options.some(([key]) => key === text) : !one.read(text).error)) {
        answers[one.part.name] = text;
      }
    }
    if (Object.keys(answers).length) done(answers, false);
    return undefined;
  }
  tell(el, "ready", "guess", id, { restore });
}

export default { render };
