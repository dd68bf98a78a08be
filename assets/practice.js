// Rounds of fresh variants, with earlier days' problems coming back.
//
// A classic, deferred script of the practice page alone, so that it works from disk too. What the
// course asks stands in the page; each day's variants come as a script when a round needs them.
// The questions are the library's own forms. What is kept goes through courseProgress; without it
// a round works all the same, and is forgotten.
(() => {
  "use strict";

  // --- the schedule: nothing below knows a page, a clock or a store -----------------------------

  const SIZE = 6, BACK = 2, WAITS = [0, 1, 2, 4, 8, 16]; // questions; of earlier days; days by box

  // A whole number below 2^32 that anybody can compute again from the text: FNV-1a, then mixed.
  function hash(text) {
    let h = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
    return (h ^ (h >>> 16)) >>> 0;
  }

  // The date some days after "2026-01-31".
  function later(date, days) {
    const [year, month, day] = date.split("-").map(Number);
    return new Date(Date.UTC(year, month - 1, day + days)).toISOString().slice(0, 10);
  }

  // A problem's record after a question: { box, due, seen }.
  function settle(record, right, seen, today) {
    const box = right ? Math.min((record?.box ?? 0) + 1, WAITS.length - 1) : 0;
    return { box, due: later(today, WAITS[box]), seen };
  }

  // The questions of a round: [{ id, variant, back }].
  //   days     [{ id, problems: [{ id, count, like?, opens? }] }] in the course's order
  //   records  Map of problem id to { box, due, seen }
  //   choice   a day's id, or "due"
  //   lately   Map of problem id to a variant seen since
  // What comes back is of the days before, or one of the chosen day's own openers, which ask the
  // same. A round never has two problems with the same models (`like` names the first of them).
  function plan({ days, records, choice, today, seed, lately = new Map() }) {
    const rank = (what, one) => hash(`${seed}/${what}/${one.id}`);
    const known = (one) => records.has(one.id), due = (one) => known(one) && records.get(one.id).due <= today;
    const byDue = (some) => [...some].sort((a, b) =>
      records.get(a.id).due.localeCompare(records.get(b.id).due) || rank("due", a) - rank("due", b));
    const at = days.findIndex((day) => day.id === choice);
    const taken = new Set(), chosen = [];
    const take = (most, back, ...candidates) => {
      for (const one of candidates.flat()) {
        if (most <= 0) break;
        if (taken.has(one.like ?? one.id)) continue;
        taken.add(one.like ?? one.id);
        chosen.push({ one, back });
        most -= 1;
      }
    };
    if (choice === "due") {
      take(SIZE, false, byDue(days.flatMap((day) => day.problems).filter(due)));
    } else {
      const earlier = days.slice(0, at).flatMap((day) => day.problems);
      const openers = days[at].problems.filter((one) => one.opens);
      const mine = days[at].problems.filter((one) => !one.opens);
      take(BACK, true, byDue([...earlier, ...openers].filter(due)), openers.filter((one) => !known(one)),
        earlier.filter((one) => !known(one)).sort((a, b) => rank("new", a) - rank("new", b)));
      // At most half of the rest is due again while there is something new.
      const left = SIZE - chosen.length, again = byDue(mine.filter(due));
      take(left >> 1, false, again);
      take(SIZE - chosen.length, false, mine.filter((one) => !known(one)), again,
        byDue(mine.filter((one) => known(one) && !due(one))));
    }
    chosen.sort((a, b) => rank("order", a.one) - rank("order", b.one));
    return chosen.map(({ one, back }) => {
      const last = lately.get(one.id) ?? records.get(one.id)?.seen, draw = rank("variant", one);
      const variant = one.count === 1 ? 0 : last === undefined ? draw % one.count
        : (last + 1 + draw % (one.count - 1)) % one.count;
      return { id: one.id, variant, back };
    });
  }

  // Options in an order of this seed; the first right one must not be learnt by its place.
  function shuffled(length, seed) {
    return [...Array(length).keys()].sort((a, b) => hash(`${seed}/${a}`) - hash(`${seed}/${b}`));
  }

  globalThis.courseRounds = Object.freeze({ plan, settle });

  // --- the page's data ---------------------------------------------------------------------------

  const box = document.getElementById("rl-practice");
  const given = document.getElementById("rl-practice-data");
  if (!box || !given) return;
  const { days } = JSON.parse(given.textContent);
  const problems = new Map(days.flatMap((day) =>
    day.problems.map((one) => [one.id, { ...one, day }])));
  const template = document.getElementById("rl-practice-form");

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function button(text, act, attributes = {}) {
    const node = make("button", { type: "button", ...attributes }, ...[text].flat());
    node.addEventListener("click", act);
    return node;
  }

  // Today where the reader is.
  function today() {
    const now = new Date(), two = (n) => String(n).padStart(2, "0");
    return `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
  }

  const dateOf = (date) => new Date(`${date}T12:00:00Z`).toLocaleDateString("en-GB",
    { day: "numeric", month: "long", timeZone: "UTC" });
  function when(due) {
    if (due <= today()) return "today";
    return due === later(today(), 1) ? "tomorrow" : `on ${dateOf(due)}`;
  }
  const some = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

  // Variant n of folded data: see forms.fold.
  function unfold(node, n) {
    if (Array.isArray(node)) return node.map((item) => unfold(item, n));
    if (node === null || typeof node !== "object") return node;
    if (node.t) {
      const [text, ...numbers] = node.$[n];
      return node.t[text].replace(/\0/g, () => numbers.shift());
    }
    if (node.$) return node.i ? node.$[node.i[n]] : node.$[n];
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, unfold(value, n)])
      .filter(([, value]) => value !== null));
  }

  const loading = new Map();
  // The variants of a day, once its script is there; a script that failed may be asked for again.
  function load(day) {
    if (!loading.has(day.id)) {
      loading.set(day.id, new Promise((done, failed) => {
        const script = make("script", { src: day.src });
        script.addEventListener("load", done);
        script.addEventListener("error", () => {
          loading.delete(day.id);
          script.remove();
          failed(new Error(day.title));
        });
        document.head.append(script);
      }));
    }
    return loading.get(day.id);
  }

  // --- what is kept ------------------------------------------------------------------------------

  const ROUND = ["rounds", "round", "now"];
  const whole = (value, below = Infinity) => Number.isInteger(value) && value >= 0 && value < below;
  const isDate = (text) => typeof text === "string" && /^\d{4}-\d\d-\d\d$/.test(text);
  const memory = new Map(); // this visit's, whatever becomes of the store

  function get(day, section, id) {
    return memory.get(`${day}/${section}/${id}`)
      ?? globalThis.courseProgress?.get(day)[section]?.[id]?.data;
  }
  function put(day, section, id, data) {
    if (globalThis.courseProgress) globalThis.courseProgress.put(day, section, id, data);
    else memory.set(`${day}/${section}/${id}`, data);
  }

  // Records that say what they should; one that does not counts as a problem not yet practised.
  function recordsOf() {
    const found = new Map();
    for (const day of days) {
      const kept = globalThis.courseProgress?.get(day.id).practice ?? {};
      for (const { id } of day.problems) {
        const data = memory.get(`${day.id}/practice/${id}`) ?? kept[id]?.data;
        if (whole(data?.box, WAITS.length) && isDate(data.due)) {
          found.set(id, { box: data.box, due: data.due,
            seen: whole(data.seen) ? data.seen : undefined });
        }
      }
    }
    return found;
  }

  // The round that is kept, or null: { choice, seed, at, list: [{ id, variant, back, result, data }] }.
  // Questions that this edition does not have are left out; numbers it has changed are asked anew.
  function keptRound() {
    const data = get(...ROUND), sound = Array.isArray(data?.list) && whole(data.seed)
      && whole(data.at) && (data.choice === "due" || days.some((day) => day.id === data.choice));
    if (!sound) return null;
    const list = data.list.map((one, i) => ({ ...one, i })).filter((one) =>
      problems.has(one?.id) && whole(one.variant));
    for (const one of list) {
      const problem = problems.get(one.id);
      if (data.stamps?.[problem.day.id] !== problem.day.stamp || one.variant >= problem.count) {
        one.variant %= problem.count;
        delete one.data;
      }
    }
    const at = list.findIndex((one) => one.i >= data.at);
    return { choice: data.choice, seed: data.seed, list: list.map(({ i, ...one }) => one),
      at: at < 0 ? list.length : at, over: data.over === true };
  }

  function keep() {
    const stamps = Object.fromEntries(round.list.map(({ id }) => problems.get(id).day)
      .map((day) => [day.id, day.stamp]));
    put(...ROUND, { ...round, stamps });
  }

  // --- choosing ----------------------------------------------------------------------------------

  let round = null, shown = null; // shown: what the question on view has to be told

  const nameOf = (choice) => choice === "due" ? "what is due"
    : days.find((day) => day.id === choice).title.split(":")[0];

  function choose(focus = false) {
    shown = null;
    const records = recordsOf(), now = today();
    const due = [...records.values()].filter((one) => one.due <= now).length;
    const next = [...records.values()].map((one) => one.due).sort()[0];
    const says = due ? `${some(due, "question")} ${due === 1 ? "is" : "are"} due today.`
      : next ? `Nothing is due today. The next question is due ${when(next)}.`
        : "Nothing is due yet: what you practise comes back.";
    const head = make("p", { class: "rl-practice-says", tabindex: "-1" }, says);
    const row = (choice, title, note) => make("li", {}, button(
      [make("span", {}, title), " ", make("small", {}, note)], () => start(choice)));
    const list = days.map((day) => {
      const mine = day.problems.filter(({ id }) => records.has(id));
      const back = mine.filter(({ id }) => records.get(id).due <= now).length;
      return row(day.id, day.title, [some(day.problems.length, "question"),
        ...(mine.length ? [`${mine.length} practised`] : []),
        ...(back ? [`${back} due`] : [])].join(", "));
    });
    if (due) list.unshift(row("due", "What is due", "of all days"));
    box.replaceChildren(head, make("ul", { class: "rl-choices", "aria-label": "Rounds" }, ...list));
    if (focus) head.focus();
  }

  function start(choice) {
    const before = round ?? keptRound();
    const lately = new Map(before?.list.map(({ id, variant }) => [id, variant]));
    const seed = Math.floor(Math.random() * 2 ** 32);
    const list = plan({ days, records: recordsOf(), choice, today: today(), seed, lately });
    if (!list.length) {
      choose(true);
      return;
    }
    round = { choice, seed, at: 0, over: false, list };
    keep();
    play(true);
  }

  // --- playing -----------------------------------------------------------------------------------

  async function play(focus) {
    const mine = round;
    const wait = setTimeout(() => box.replaceChildren(make("p", { role: "status" }, "Loading …")), 300);
    try {
      await Promise.all([...new Set(mine.list.map(({ id }) => problems.get(id).day))].map(load));
    } catch (error) {
      clearTimeout(wait);
      const again = button("Try again", () => play(true), { class: "rl-main" });
      box.replaceChildren(make("p", { role: "alert" },
        `The questions of “${error.message}” did not load. Your answers are kept.`),
      make("div", { class: "rl-buttons" }, again, button("Choose another round", () => choose(true))));
      if (focus) again.focus();
      return;
    }
    clearTimeout(wait);
    if (round === mine) show(focus);
  }

  function formOf(one) {
    const { count, folded } = globalThis.coursePractice[problems.get(one.id).day.id][one.id];
    const data = structuredClone(unfold(folded, one.variant % count));
    data.parts.forEach((part, i) => {
      if (part.kind === "choice") part.order = shuffled(part.options.length, `${round.seed}/${one.id}/${i}`);
    });
    const form = template.content.firstElementChild.cloneNode(true);
    form.id = "practice-form";
    form.dataset.formId = one.id;
    form.querySelector(".rl-ask").textContent = data.ask;
    form.querySelector(".rl-form-data").textContent = JSON.stringify({ count: 1, folded: { $: [data] } });
    return form;
  }

  function show(focus) {
    const { at, list } = round, one = list[at], problem = problems.get(one.id);
    const form = formOf(one);
    const says = make("p", { class: "rl-practice-says", role: "status" });
    const next = button("", onward), stop = button("Stop here", () => finish(true));
    const bar = make("div", { class: "rl-bar", "aria-hidden": "true" },
      ...list.map((other, i) => make("span", { "data-result": other.result ?? (i === at ? "now" : "") })));
    const where = make("p", { class: "rl-practice-where" },
      make("strong", {}, `${at + 1} of ${list.length}`), ` · ${nameOf(problem.day.id)}`
      + (one.back ? ", coming back" : ""));
    shown = { one, told() {
      next.textContent = one.result ? at + 1 < list.length ? "Next" : "Finish" : "Skip";
      next.classList.toggle("rl-main", Boolean(one.result));
      bar.children[at].dataset.result = one.result ?? "now";
      const { due } = one.result ? recordsOf().get(one.id) ?? {} : {};
      says.replaceChildren(...!one.result ? [] : [
        { right: "Right at once.", mended: "Right, after some help." }[one.result] ?? "Not yet.",
        ` It comes back ${when(due ?? today())}. `,
        make("a", { href: problem.href }, `Where the course asks it: ${problem.title}`)]);
    } };
    box.replaceChildren(where, bar, form, says,
      make("div", { class: "rl-buttons rl-onward" }, next, stop));
    document.dispatchEvent(new Event("rl-mount"));
    shown.told();
    if (!focus) return;
    form.querySelector(".rl-ask").focus({ preventScroll: true });
    const { top, bottom } = where.getBoundingClientRect();
    if (top < 60 || bottom > innerHeight / 2) where.scrollIntoView({ behavior: "instant" });
  }

  // What became of the question on view. The first word decides: right at once, or not.
  function say(result) {
    const { one, told } = shown, problem = problems.get(one.id);
    if (!one.result) {
      const record = settle(recordsOf().get(one.id), result === "right", one.variant, today());
      put(problem.day.id, "practice", one.id, record);
      one.result = result;
    } else if (one.result === "missed" && result === "right") {
      one.result = "mended";
    }
    keep();
    told();
  }

  box.addEventListener("rl", ({ detail: { what, kind, id, data, restore } }) => {
    if (kind !== "form" || id !== shown?.one.id) return;
    if (what === "ready" && shown.one.data) restore(shown.one.data);
    if (what === "worked") say("missed");
    if (what !== "said") return;
    shown.one.data = data;
    // What could not be read was no answer yet.
    const wrong = Object.values(data.kinds).some((one) =>
      !["right", "not attempted", "unreadable"].includes(one));
    if (data.right) say("right");
    else if (wrong) say("missed");
    else keep();
  });

  function onward() {
    if (!shown.one.result) say("skipped");
    round.at += 1;
    if (round.at < round.list.length) {
      keep();
      show(true);
    } else {
      finish(false);
    }
  }

  // --- the end of a round ------------------------------------------------------------------------

  const RESULTS = { right: "right at once", mended: "right, after some help", missed: "not yet",
    skipped: "skipped" };

  function finish(stopped) {
    shown = null;
    round.over = true;
    keep();
    const records = recordsOf(), done = round.list.filter((one) => one.result);
    const right = done.filter((one) => one.result === "right").length;
    if (!done.length) {
      choose(true);
      return;
    }
    const head = make("h3", { tabindex: "-1" },
      `${stopped ? "Round stopped" : "Round over"}: ${right} of ${done.length} right at once`);
    const rows = done.map((one) => {
      const { title, section, href, day } = problems.get(one.id);
      const { due } = records.get(one.id) ?? { due: today() };
      return make("li", { "data-result": one.result }, make("a", { href }, title),
        make("span", { class: "rl-place" }, `${nameOf(day.id)}, ${section}`),
        make("span", {}, `${RESULTS[one.result]}; back ${when(due)}`));
    });
    const again = round.choice === "due" ? "What else is due" : `Another round of ${nameOf(round.choice)}`;
    box.replaceChildren(head, make("ul", { class: "rl-results" }, ...rows),
      make("div", { class: "rl-buttons" },
        button(again, () => start(round.choice), { class: "rl-main" }),
        button("Choose another round", () => choose(true))));
    head.focus();
  }

  // --- from here on ------------------------------------------------------------------------------

  for (const fold of document.querySelectorAll(".rl-every details")) fold.open = false;
  const folds = (open) => () => {
    for (const fold of document.querySelectorAll(".rl-every details")) {
      if (open) fold.dataset.was = fold.open;
      fold.open = open || fold.dataset.was === "true";
    }
  };
  addEventListener("beforeprint", folds(true));
  addEventListener("afterprint", folds(false));

  // Another tab, an import: counts may have changed.
  globalThis.courseProgress?.subscribe(() => {
    if (!shown && box.querySelector(".rl-choices")) choose();
  });

  const kept = keptRound();
  if (kept && !kept.over && kept.at < kept.list.length) {
    round = kept;
    play(false);
  } else {
    choose();
  }
})();
