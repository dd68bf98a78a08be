// Keeps what a reader answers on the reader's own device, and gives it back.
//
// A classic, deferred script in every page's head, so it listens before any form is there, on
// pages opened from disk too. Forms and predictions tell what happens in "rl" events and know
// nothing of storage; this script knows nothing of questions. Nothing leaves the device.
//
// One key a day in localStorage: rooflinecourse/1/day5 =
//   {"version": 1, "day": "day5", "entries": {section: {id: {"at": ISO time, "data": JSON}}}}
// Sections: form (the last answer), solved (was right once), worked (its worked answer was
// opened), guess, practice. Two versions of a day join entry by entry and the newer one wins, so
// the order in which tabs, files and retries bring them makes no difference.
(() => {
  "use strict";

  // Problems and predictions that have another id now: old id: new id.
  const RENAMED = {};

  const VERSION = 1, ROOT = "rooflinecourse/", HERE = `${ROOT}1/`, KEPT = `${HERE}kept/`;
  const SECTIONS = ["form", "solved", "worked", "guess", "practice"];
  const LARGEST_ENTRY = 100_000, LARGEST_FILE = 10e6; // characters; bytes

  // --- values ------------------------------------------------------------------------------

  const word = (text) => /^[a-z][a-z0-9-]{0,39}$/.test(text);
  const bare = () => Object.create(null); // a map in which "__proto__" is a key like any other
  const isMap = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  // Before the year 9000: an answer that follows has to be later, and a year has four digits.
  const isTime = (text) => typeof text === "string" && text.length === 24 && text < "9000"
    && !Number.isNaN(Date.parse(text)) && new Date(text).toISOString() === text;
  const now = () => new Date(Date.now()).toISOString();
  const dayOf = (id) => id.split(".", 1)[0];
  const copy = (value) => JSON.parse(JSON.stringify(value));

  // A value as a message quotes it.
  function short(value) {
    const text = typeof value === "string" ? `"${value}"` : Array.isArray(value) ? "a list"
      : isMap(value) ? "an object" : value === undefined ? "nothing" : String(value);
    return text.length > 60 ? `${text.slice(0, 57)}..."` : text;
  }

  const texts = (value) => isMap(value) && Object.values(value).every((text) => typeof text === "string");
  const DATA = {
    form: (data) => isMap(data) && texts(data.answers) && texts(data.kinds)
      && typeof data.right === "boolean" && Number.isInteger(data.variant) && data.variant >= 0,
    guess: (data) => isMap(data) && texts(data.answers) && typeof data.skipped === "boolean",
  };

  // What is wrong with an entry, or "".
  function fault(day, section, id, entry) {
    if (!/^[A-Za-z][\w.-]{0,99}$/.test(id)) return "expected an id such as day5.traffic";
    if (SECTIONS.includes(section) && dayOf(id) !== day) return `expected an id of ${day}`;
    if (!isMap(entry)) return `expected an object, got ${short(entry)}`;
    if (!isTime(entry.at)) {
      return `at: expected a time such as 2026-01-31T12:00:00.000Z, got ${short(entry.at)}`;
    }
    if (!Object.hasOwn(entry, "data")) return "data: expected a value, got nothing";
    if (Object.hasOwn(DATA, section) && !DATA[section](entry.data)) {
      return `data: not what a ${section} keeps`;
    }
    let size;
    try {
      size = JSON.stringify(entry).length;
    } catch {
      return "data: nested too deep";
    }
    return size <= LARGEST_ENTRY ? ""
      : `expected at most ${LARGEST_ENTRY} characters, got ${size}`;
  }

  // The sound entries among these; what is wrong with the others goes to `faults`.
  function sift(day, entries, faults) {
    const sound = bare();
    if (!isMap(entries)) {
      faults.push(`entries: expected an object, got ${short(entries)}`);
      return sound;
    }
    for (const [section, of] of Object.entries(entries)) {
      if (!word(section) || !isMap(of)) {
        faults.push(`${short(section)}: expected a section of entries, got ${short(of)}`);
        continue;
      }
      for (const [id, entry] of Object.entries(of)) {
        const wrong = fault(day, section, id, entry);
        if (wrong) faults.push(`${section}: ${short(id)}: ${wrong}`);
        else (sound[section] ??= bare())[id] = entry;
      }
    }
    return sound;
  }

  // A day's text: { entries, faults, newer }; newer is the version when we cannot know its form.
  function read(day, text) {
    const found = { entries: bare(), faults: [], newer: 0 };
    if (text === null) return found;
    let doc;
    try {
      doc = JSON.parse(text);
    } catch {
      found.faults.push("not JSON");
      return found;
    }
    if (!isMap(doc)) found.faults.push(`expected an object, got ${short(doc)}`);
    else if (Number.isInteger(doc.version) && doc.version > VERSION) found.newer = doc.version;
    else if (doc.version !== VERSION) {
      found.faults.push(`version: expected ${VERSION}, got ${short(doc.version)}`);
    } else {
      if (doc.day !== day) found.faults.push(`day: expected ${day}, got ${short(doc.day)}`);
      for (const key of Object.keys(doc)) {
        if (!["version", "day", "entries"].includes(key)) found.faults.push(`${short(key)}: unknown`);
      }
      found.entries = sift(day, doc.entries, found.faults);
    }
    return found;
  }

  const written = (day, entries) => JSON.stringify({ version: VERSION, day, entries });

  // Is entry a to stand in the place of b? Any two devices answer alike, also for equal times.
  function wins(a, b) {
    return a.at === b.at ? JSON.stringify(a) > JSON.stringify(b) : a.at > b.at;
  }

  // Versions of a day as one; ids that have a new name are to be mapped before.
  function join(...versions) {
    const all = bare();
    for (const entries of versions) {
      for (const section of Object.keys(entries ?? {})) {
        const into = all[section] ??= bare();
        for (const [id, entry] of Object.entries(entries[section])) {
          if (!(id in into) || wins(entry, into[id])) into[id] = entry;
        }
      }
    }
    return all;
  }

  const count = (entries) => Object.values(entries).reduce((n, of) => n + Object.keys(of).length, 0);

  // --- what the page knows of the edition ----------------------------------------------------

  // {"days": {day: {"title", "form": [ids], "guess": [ids]}}, "renamed": {old: new}}, where given.
  const given = JSON.parse(document.getElementById("rl-edition")?.textContent ?? "{}");
  const edition = new Map(Object.entries(given.days ?? {}));
  const renamed = new Map(Object.entries({ ...RENAMED, ...given.renamed }));

  // The name of today; a name may have changed more than once.
  function today(id) {
    for (const seen = new Set(); renamed.has(id) && !seen.has(id);) {
      seen.add(id);
      id = renamed.get(id);
    }
    return id;
  }

  function title(day) {
    return edition.get(day)?.title
      ?? (day === "vjepa2" ? "Case study" : day.replace(/^day(?=\d)/, "Day "));
  }

  // --- the store ---------------------------------------------------------------------------

  const waiting = bare(); // by day: entries that could not be written yet
  const mine = bare();    // by day: entries that this page has written
  const troubles = new Map(); // by day: why it cannot be written
  const asides = new Map();   // by day: what was found that could not be read, this time
  const listeners = new Set();

  class NotKept extends Error {}

  function storage() {
    const store = globalThis.localStorage; // this alone may throw
    if (!(store instanceof Storage)) throw new NotKept("this browser gives the page no storage");
    return store;
  }

  function why(error) {
    if (error instanceof NotKept) return error.message;
    return /quota/i.test(error?.name) ? "this browser's storage for the site is full"
      : `this browser does not let the page use its storage (${error?.name ?? error})`;
  }

  // A write that did not throw may still be gone: in some private windows, on a failing disk.
  function write(store, key, text) {
    const put = (next) => next === null ? store.removeItem(key) : store.setItem(key, next);
    const before = store.getItem(key);
    put(text);
    if (store.getItem(key) !== text) {
      put(before);
      throw new NotKept("what was written to this browser's storage did not read back the same");
    }
  }

  function keys(store) {
    return Array.from({ length: store.length }, (_, i) => store.key(i))
      .filter((key) => key?.startsWith(ROOT)).sort();
  }

  const isDay = (key) => key.startsWith(HERE) && word(key.slice(HERE.length));

  const asideKey = (day) => `${KEPT}${day}/${now()}`;

  function unused(store, stem) {
    let key = stem;
    for (let n = 2; store.getItem(key) !== null; n++) key = `${stem}-${n}`;
    return key;
  }

  // A text that cannot be read, under a key of its own, once.
  function setAside(store, day, text) {
    const kept = keys(store).filter((key) => key.startsWith(KEPT));
    if (kept.some((key) => store.getItem(key) === text)) return;
    write(store, unused(store, asideKey(day)), text);
  }

  // Write what waits for this day into what is stored by now; "" or why that could not be.
  function keep(day) {
    let safe = () => {};
    try {
      const store = storage(), key = HERE + day, text = store.getItem(key);
      const found = read(day, text);
      if (found.newer) {
        return `what this browser holds for ${title(day)} is of a newer edition (version `
          + `${found.newer}, this page reads ${VERSION}) and is left as it is`;
      }
      if (found.faults.length) {
        try {
          setAside(store, day, text);
        } catch (error) {
          return `what this browser holds for ${title(day)} cannot be read (${found.faults[0]}), `
            + `and there is no setting it aside: ${why(error)}; it is left as it is`;
        }
        asides.set(day, { what: found.faults[0], left: count(found.entries) });
      }
      const entries = join(found.entries, waiting[day]);
      safe = () => {
        if (store.getItem(key) !== text) waiting[day] = entries; // the old text is gone, too
      };
      const next = count(entries) ? written(day, entries) : null;
      if (next !== text) write(store, key, next);
      mine[day] = join(mine[day], waiting[day]);
      delete waiting[day];
      return "";
    } catch (error) {
      try {
        safe();
      } catch {
        // Storage that fails to read now has failed to write: the old text is there.
      }
      return why(error);
    }
  }

  // Try once more whatever waits, and these days.
  function flush(...days) {
    for (const day of new Set([...days, ...Object.keys(waiting), ...troubles.keys()])) {
      const trouble = keep(day);
      if (trouble) troubles.set(day, trouble);
      else troubles.delete(day);
    }
  }

  const cache = new Map();

  // What is stored and what waits, as one.
  function view(day) {
    let stored = bare();
    try {
      const text = storage().getItem(HERE + day);
      if (cache.get(day)?.text !== text) cache.set(day, { text, found: read(day, text) });
      stored = cache.get(day).found.entries;
    } catch {
      // Without storage there is what waits.
    }
    return join(stored, waiting[day]);
  }

  function days() {
    const found = new Set(Object.keys(waiting));
    try {
      for (const key of keys(storage())) if (isDay(key)) found.add(key.slice(HERE.length));
    } catch {
      // As above.
    }
    const order = [...edition.keys()];
    const place = (day) => order.includes(day) ? order.indexOf(day) : order.length;
    return [...found].sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
  }

  // Entries under an older name move on: first to their new place, then out of the old one.
  function moveOn(day) {
    try {
      const store = storage();
      if (read(day, store.getItem(HERE + day)).faults.length) flush(day);
      const found = read(day, store.getItem(HERE + day));
      if (found.newer || found.faults.length) return;
      const left = bare(), moved = bare();
      for (const [section, of] of Object.entries(join(found.entries, waiting[day]))) {
        for (const [id, entry] of Object.entries(of)) {
          const name = SECTIONS.includes(section) ? today(id) : id;
          if (name === id) (left[section] ??= bare())[id] = entry;
          else ((moved[dayOf(name)] ??= bare())[section] ??= bare())[name] = entry;
        }
      }
      if (!count(moved)) return;
      for (const [to, entries] of Object.entries(moved)) {
        if (to === day) continue;
        waiting[to] = join(waiting[to], entries);
        flush(to);
        if (waiting[to]) return;
      }
      const next = join(left, moved[day]);
      write(store, HERE + day, count(next) ? written(day, next) : null);
      delete waiting[day];
    } catch (error) {
      troubles.set(day, why(error));
    }
  }

  const opened = new Set();

  // The first look at a day: what cannot be read goes aside, what has a new name moves on.
  function open(day) {
    if (opened.has(day)) return;
    opened.add(day);
    try {
      const found = read(day, storage().getItem(HERE + day));
      if (found.faults.length || found.newer) flush(day);
    } catch (error) {
      troubles.set(day, why(error));
    }
    for (const from of new Set([day, ...[...renamed.keys()].filter((id) => dayOf(today(id)) === day)
      .map(dayOf)])) {
      if (renamed.size) moveOn(from);
    }
  }

  // Note something of now. A clock that was ahead once does not make it older than what it follows.
  function note(day, section, id, data) {
    const before = view(day)[section]?.[id]?.at;
    const time = Math.max(Date.now(), before ? Date.parse(before) + 1 : 0);
    const at = new Date(time).toISOString();
    if (data === undefined) throw new TypeError(`${section}: ${id}: expected JSON, got nothing`);
    const entry = { at, data: copy(data) }, wrong = fault(day, section, id, entry);
    if (wrong) throw new TypeError(`${section}: ${id}: ${wrong}`);
    (waiting[day] ??= bare())[section] ??= bare();
    waiting[day][section][id] = entry;
    return at;
  }

  function tell(...changed) {
    for (const day of changed) for (const one of shown) if (dayOf(one.id) === day) refresh(one);
    later();
    for (const listener of listeners) {
      for (const day of changed) {
        try {
          listener(day);
        } catch (error) {
          reportError(error);
        }
      }
    }
  }

  // Another tab wrote. It may have read before we wrote and so have written over it: then what is
  // missing goes in again. What it erased stays erased.
  addEventListener("storage", ({ key, newValue, storageArea }) => {
    try {
      if (storageArea !== storage() || (key !== null && !key.startsWith(ROOT))) return;
    } catch {
      return;
    }
    const changed = key === null ? Object.keys(mine) : isDay(key) ? [key.slice(HERE.length)] : [];
    for (const day of changed) {
      if (newValue === null) delete mine[day];
      else {
        const there = view(day);
        if (written(day, join(there, mine[day])) !== written(day, there)) {
          waiting[day] = join(waiting[day], mine[day]);
          flush(day);
        }
      }
    }
    tell(...changed);
  });

  // A page that comes back as it was has missed what others did.
  addEventListener("pageshow", ({ persisted }) => {
    if (!persisted) return;
    for (const day of Object.keys(mine)) delete mine[day];
    tell(...opened);
  });

  // --- forms and predictions ---------------------------------------------------------------

  const shown = []; // { el, kind, id, restore, at: of what it shows, touched }
  let restoring = false, unshown = 0, refused = "";

  // Give an element what is newer than what it shows, unless the reader is at it.
  function refresh(one) {
    const entry = view(dayOf(one.id))[one.kind]?.[one.id];
    const busy = one.touched || (document.hasFocus() && one.el.contains(document.activeElement));
    if (!entry || entry.at <= one.at || busy) return;
    one.at = entry.at;
    restoring = true;
    try {
      one.restore(copy(entry.data));
    } catch {
      unshown += 1; // an answer of another edition's form: it stays in the store
    } finally {
      restoring = false;
    }
  }

  document.addEventListener("rl", ({ target, detail }) => {
    const { what, kind, id, data } = detail ?? {};
    if (restoring || !["form", "guess"].includes(kind) || typeof id !== "string"
        || !word(dayOf(id)) || target.closest?.("[data-rl-progress='off']")) return;
    const day = dayOf(id);
    if (what === "ready") {
      const one = { el: target, kind, id, restore: detail.restore, at: "", touched: false };
      shown.push(one);
      open(day);
      refresh(one);
      later();
      return;
    }
    if (what === "said") {
      // Check with nothing filled in is no answer, and replaces none.
      if (kind === "form" && Object.values(data?.kinds ?? {}).every((is) => is === "not attempted")) {
        return;
      }
      let at;
      try {
        at = note(day, kind, id, data);
        refused = "";
      } catch (error) {
        refused = error.message; // a text of a hundred thousand characters, say
        later();
        return;
      }
      if (data.right && !view(day).solved?.[id]) note(day, "solved", id, { variant: data.variant });
      for (const one of shown) {
        if (one.el === target) Object.assign(one, { at, touched: false });
      }
    } else if (what === "worked") note(day, "worked", id, data);
    else return;
    flush(day);
    tell(day);
  });

  for (const type of ["input", "click"]) {
    document.addEventListener(type, ({ target }) => {
      for (const one of shown) if (one.el.contains(target)) one.touched = true;
    }, true);
  }

  // --- for other scripts ---------------------------------------------------------------------

  globalThis.courseProgress = Object.freeze({
    // A copy of all that is kept for a day, by section and id.
    get(day) {
      const found = view(day), all = bare();
      for (const section of new Set([...SECTIONS, ...Object.keys(found)])) {
        all[section] = Object.assign(bare(), copy(found[section] ?? {}));
      }
      return all;
    },
    // Keep one value: { kept, why }.
    put(day, section, id, value) {
      if (!word(day) || !word(section)) throw new TypeError(`put: ${short(day)}, ${short(section)}`);
      open(day);
      note(day, section, id, value);
      flush(day);
      tell(day);
      return { kept: !waiting[day], why: troubles.get(day) ?? "" };
    },
    // fn(day) after every change, whoever made it; returns what ends that.
    subscribe(fn) {
      listeners.add(fn);
      return () => listeners.delete(fn);
    },
    days,
  });

  // --- files -------------------------------------------------------------------------------

  // All there is, whether it can be read or not, as the text of a file.
  function exported() {
    const doc = { course: "rooflinecourse", version: VERSION, at: now(),
      days: bare(), texts: [] };
    try {
      const store = storage();
      for (const key of keys(store)) {
        const text = store.getItem(key), day = isDay(key) && read(key.slice(HERE.length), text);
        if (!day || day.faults.length || day.newer) doc.texts.push({ key, text });
      }
    } catch {
      // Without storage there is what waits.
    }
    for (const day of days()) if (count(view(day))) doc.days[day] = view(day);
    return JSON.stringify(doc, null, 1);
  }

  function download() {
    const name = `roofline-progress-${now().slice(0, 10)}.json`;
    const href = URL.createObjectURL(new Blob([exported()], { type: "application/json" }));
    make("a", { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
    return name;
  }

  // A file's text as { days, texts }, checked whole. Throws NotKept.
  function checked(text) {
    let doc;
    try {
      doc = JSON.parse(text);
    } catch {
      throw new NotKept("expected JSON, got something else or only the beginning of it");
    }
    if (!isMap(doc) || doc.course !== "rooflinecourse") {
      throw new NotKept(`course: expected "rooflinecourse", got ${short(isMap(doc) ? doc.course : doc)}`);
    }
    if (doc.version !== VERSION) {
      throw new NotKept(`version: expected ${VERSION}, got ${short(doc.version)}`
        + (doc.version > VERSION ? ", of a newer edition; import it there" : ""));
    }
    if (!isMap(doc.days)) throw new NotKept(`days: expected an object, got ${short(doc.days)}`);
    const found = { days: bare(), texts: [] }, faults = [];
    for (const [day, entries] of Object.entries(doc.days)) {
      if (!word(day)) throw new NotKept(`days: expected a day such as day5, got ${short(day)}`);
      for (const [section, of] of Object.entries(sift(day, entries, faults))) {
        for (const [id, entry] of Object.entries(of)) {
          const name = SECTIONS.includes(section) ? today(id) : id;
          const to = name === id ? day : dayOf(name);
          found.days[to] = join(found.days[to], { [section]: { [name]: entry } });
        }
      }
      if (faults.length) throw new NotKept(`${day}: ${faults[0]}`);
    }
    if (!Array.isArray(doc.texts)) throw new NotKept(`texts: expected a list, got ${short(doc.texts)}`);
    for (const one of doc.texts) {
      if (!isMap(one) || typeof one.text !== "string" || typeof one.key !== "string"
          || !one.key.startsWith(ROOT) || one.key.length > 200) {
        throw new NotKept(`texts: expected a key of this course and a text, got ${short(one?.key)}`);
      }
      found.texts.push(one);
    }
    return found;
  }

  // Merge a file's text into the store, all of it or nothing. Returns what was done, in words.
  function merge(text) {
    const file = checked(text), store = storage();
    const before = new Map(), put = (key, next) => {
      if (!before.has(key)) before.set(key, store.getItem(key));
      write(store, key, next);
    };
    const n = { added: 0, newer: 0, older: 0, same: 0, texts: 0 };
    try {
      for (const [day, entries] of Object.entries(file.days)) {
        const trouble = keep(day);
        if (trouble) throw new NotKept(trouble);
        const there = read(day, store.getItem(HERE + day)).entries;
        for (const [section, of] of Object.entries(entries)) {
          for (const [id, entry] of Object.entries(of)) {
            const old = there[section]?.[id];
            if (!old) n.added += 1;
            else if (wins(entry, old)) n.newer += 1;
            else if (wins(old, entry)) n.older += 1;
            else n.same += 1;
          }
        }
        const next = join(there, entries);
        if (count(next)) put(HERE + day, written(day, next));
      }
      for (const { key, text: kept } of file.texts) {
        if (keys(store).some((other) => store.getItem(other) === kept)) continue;
        const day = isDay(key) ? key.slice(HERE.length) : "";
        // A newer edition's data goes back to its place; what cannot be read stays aside.
        const back = key.startsWith(KEPT)
          || (day && read(day, kept).newer && store.getItem(key) === null);
        put(unused(store, back ? key : asideKey(day || "other")), kept);
        n.texts += 1;
      }
    } catch (error) {
      for (const [key, old] of before) {
        try {
          write(store, key, old);
        } catch (again) {
          throw new NotKept(`${why(error)}, and ${key} could not be put back: ${why(again)}`);
        }
      }
      throw error;
    }
    for (const [day, entries] of Object.entries(file.days)) mine[day] = join(mine[day], entries);
    return n;
  }

  // --- on the page ---------------------------------------------------------------------------

  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function button(text, click, attributes = {}) {
    const node = make("button", { type: "button", ...attributes }, text);
    node.addEventListener("click", click);
    return node;
  }

  const amount = (n, all, what) => `${n} of ${all} ${what}${all === 1 ? "" : "s"}`;

  let line, notices, actions, troubled = false, recovered = false;

  // The line below the title: what is on this page, and what went wrong.
  function strip() {
    const title = document.querySelector("article h1") ?? document.querySelector("main h1, h1");
    line = make("p", {});
    notices = make("div", { role: "status" });
    actions = make("div", { class: "rl-progress-actions" },
      button("Export", () => {
        download();
      }),
      button("Try again", () => {
        flush();
        tell(...opened);
      }),
      // It follows the reader down the page until told not to.
      button("Leave this at the top", ({ target }) => {
        target.hidden = true;
        target.closest(".rl-progress-line").classList.remove("rl-progress-pinned");
      }));
    actions.hidden = true;
    const classes = "rl-progress-line d-print-none mathjax_ignore tex2jax_ignore";
    const all = make("div", { class: classes }, line, notices, actions);
    if (title) title.after(all);
    else document.body.prepend(all);
  }

  function summary() {
    const ids = (kind) => [...new Set(shown.filter((one) => one.kind === kind).map((one) => one.id))];
    const views = new Map(shown.map(({ id }) => [dayOf(id), view(dayOf(id))]));
    const entry = (section, id) => views.get(dayOf(id))[section]?.[id];
    const forms = ids("form"), guesses = ids("guess");
    return [
      forms.length && amount(forms.filter((id) => entry("solved", id)).length, forms.length, "question")
        + " right",
      guesses.length && amount(guesses.filter((id) => entry("guess", id)?.data.skipped === false).length,
        guesses.length, "prediction") + " made",
    ].filter(Boolean).join(", ");
  }

  function messages() {
    const said = [];
    if (troubles.size) {
      said.push(`Not kept: ${[...new Set(troubles.values())].join("; ")}. Your answers stay on this page `
        + "until you leave it; Export saves them in a file.");
    }
    if (refused) said.push(`Not kept: ${refused}. The answers before it stay as they are.`);
    for (const [day, { what, left }] of asides) {
      said.push(`What this browser held for ${title(day)} could not be read whole (${what}). `
        + `${left === 1 ? "1 entry" : `${left} entries`} of it could be used; the text itself is set `
        + "aside, and an export has it.");
    }
    if (unshown) {
      said.push(`${unshown === 1 ? "1 answer" : `${unshown} answers`} kept on this device could not `
        + "be shown here, the question has changed; nothing of it is lost, an export has it.");
    }
    if (recovered && !said.length) said.push("Kept: all answers of this page are on this device now.");
    return said;
  }

  function draw() {
    if (troubles.size) [troubled, recovered] = [true, false];
    else if (troubled) [troubled, recovered] = [false, true];
    const said = messages();
    if (!line && (shown.length || said.length)) strip();
    if (line) {
      const text = summary(), waits = Object.keys(waiting).length || troubles.size;
      line.hidden = !text;
      if (line.dataset.text !== `${waits} ${text}`) {
        line.dataset.text = `${waits} ${text}`;
        const href = `${document.documentElement.dataset.content_root ?? ""}practice.html`;
        line.replaceChildren(`${waits ? "On this page" : "Kept on this device"}: ${text}. `,
          make("a", { href }, "Practice and progress"));
      }
      // Only what changed is said anew.
      if (notices.dataset.text !== said.join("\n")) {
        notices.dataset.text = said.join("\n");
        notices.replaceChildren(...said.map((one) => make("p", {}, one)));
        actions.lastChild.hidden = false;
        line.parentElement.classList.toggle("rl-progress-pinned", troubles.size > 0);
      }
      actions.hidden = !troubles.size;
      line.parentElement.classList.toggle("rl-progress-trouble", troubles.size > 0);
    }
    if (block) drawBlock();
  }

  let drawing = false;

  function later() {
    if (drawing) return;
    drawing = true;
    queueMicrotask(() => {
      drawing = false;
      draw();
    });
  }

  // --- the page of practice and progress -------------------------------------------------------

  const block = document.getElementById("rl-progress");
  const erased = []; // what can come back until the page is left: { what, texts, waited }
  let rows, told, says, which, confirm, undo;

  function say(text) {
    says.textContent = text;
  }

  function listed() {
    return [...new Set([...edition.keys(), ...days().filter((day) =>
      SECTIONS.some((section) => view(day)[section]))])];
  }

  function numbers(day) {
    const kept = view(day), list = edition.get(day);
    const n = (section, ids) => Object.keys(kept[section] ?? {}).filter((id) => !ids || ids.includes(id))
      .length;
    const share = (n, ids) => ids ? `${n} of ${ids.length}` : String(n);
    const times = Object.values(kept).flatMap((of) => Object.values(of).map((entry) => entry.at));
    const made = Object.entries(kept.guess ?? {}).filter(([id, { data }]) => !data.skipped
      && (!list?.guess || list.guess.includes(id))).length;
    return [share(n("solved", list?.form), list?.form), String(n("form", list?.form)),
      share(made, list?.guess), String(n("practice")), times.sort().at(-1) ?? ""];
  }

  // Answers of questions that this edition does not have. It says nothing where it has no list.
  function strangers() {
    if (!edition.size) return 0;
    let n = 0;
    for (const day of days()) {
      for (const section of ["form", "guess"]) {
        const list = edition.has(day) ? edition.get(day)[section] : [];
        n += Object.keys(view(day)[section] ?? {}).filter((id) => list && !list.includes(id)).length;
      }
    }
    return n;
  }

  function setAsideKeys() {
    try {
      return keys(storage()).filter((key) => key.startsWith(KEPT));
    } catch {
      return [];
    }
  }

  function drawBlock() {
    rows.replaceChildren(...listed().map((day) => {
      const [right, tried, made, practised, last] = numbers(day);
      const time = last ? [make("time", { datetime: last }, last.slice(0, 10))] : [];
      return make("tr", {}, make("th", { scope: "row" }, title(day)), make("td", {}, right),
        make("td", {}, tried), make("td", {}, made), make("td", {}, practised),
        make("td", {}, ...time));
    }));
    const said = [], strange = strangers(), aside = setAsideKeys().length;
    if (!days().length) said.push("Nothing is kept on this device yet.");
    if (strange === 1) {
      said.push("1 answer belongs to a question this edition does not have; it is kept.");
    } else if (strange) {
      said.push(`${strange} answers belong to questions this edition does not have; they are kept.`);
    }
    if (aside) {
      said.push(`${aside === 1 ? "1 text" : `${aside} texts`} that could not be read ${aside === 1
        ? "is" : "are"} set aside on this device; an export has ${aside === 1 ? "it" : "them"}.`);
    }
    if (told.dataset.text !== said.join("\n")) {
      told.dataset.text = said.join("\n");
      told.replaceChildren(...said.map((one) => make("p", {}, one)));
    }
    const options = ["", ...listed()], there = [...which.options].map((option) => option.value);
    if (options.join() !== there.join()) {
      const { value } = which;
      which.replaceChildren(...options.map((day) =>
        make("option", { value: day }, day ? title(day) : "all days")));
      which.value = options.includes(value) ? value : "";
    }
    undo.hidden = !erased.length;
    undo.textContent = `Undo: erase ${erased.at(-1)?.what ?? ""}`;
  }

  // The keys of a day and of what was set aside for it; "" is all of them.
  function keysOf(store, day) {
    return keys(store).filter((key) => isDay(key) ? !day || key === HERE + day
      : key.startsWith(KEPT) && (!day || key.startsWith(`${KEPT}${day}/`)));
  }

  function ask() {
    const day = which.value, what = day ? title(day) : "all days";
    const n = (day ? [day] : listed()).reduce((sum, one) => sum + new Set(SECTIONS.flatMap((section) =>
      Object.keys(view(one)[section] ?? {}))).size, 0);
    const close = (next) => {
      confirm.hidden = true;
      confirm.replaceChildren();
      next.focus();
    };
    const no = button("Keep it", () => close(erase));
    const yes = button(`Erase ${what}`, () => {
      const gone = { what, texts: [], waited: bare() };
      let trouble = "";
      try {
        const store = storage();
        for (const key of keysOf(store, day)) {
          const text = store.getItem(key);
          write(store, key, null);
          gone.texts.push([key, text]);
        }
      } catch (error) {
        trouble = why(error);
      }
      for (const one of day ? [day] : Object.keys(waiting)) {
        if (waiting[one]) gone.waited[one] = waiting[one];
        delete waiting[one];
      }
      for (const one of day ? [day] : [...opened]) {
        delete mine[one];
        troubles.delete(one);
        asides.delete(one);
      }
      erased.push(gone);
      troubled = false; // nothing went well, something went away
      say(trouble ? `Not all of it is erased: ${trouble}.` : `Erased: ${what}.`);
      draw();
      tell(...(day ? [day] : opened));
      close(undo);
    });
    confirm.replaceChildren(make("p", { id: "rl-progress-ask" }, `Erase ${what} from this device? `
      + `What is kept of ${n === 1 ? "1 question" : `${n} questions`} goes; it can be undone until you `
      + "leave this page."),
    make("div", { class: "rl-progress-actions" }, yes, no));
    confirm.hidden = false;
    no.focus();
  }

  function bringBack() {
    const gone = erased.pop();
    try {
      const store = storage();
      while (gone.texts.length) {
        const [key, text] = gone.texts.at(-1), there = store.getItem(key);
        if (there === null) write(store, key, text);
        else if (there !== text && isDay(key)) {
          // Somebody went on meanwhile, in another tab: both stay.
          const day = key.slice(HERE.length), [a, b] = [read(day, there), read(day, text)];
          if ([a, b].some((one) => one.newer || one.faults.length)) setAside(store, day, text);
          else write(store, key, written(day, join(a.entries, b.entries)));
        }
        gone.texts.pop();
      }
      for (const [day, entries] of Object.entries(gone.waited)) waiting[day] = join(waiting[day], entries);
      say(`Back again: ${gone.what}.`);
    } catch (error) {
      erased.push(gone);
      say(`Not all of it is back: ${why(error)}. Undo tries once more.`);
    }
    for (const day of days()) opened.add(day);
    flush();
    tell(...opened);
    draw();
    (erased.length ? undo : erase).focus();
  }

  async function take(file) {
    try {
      if (file.size > LARGEST_FILE) {
        throw new NotKept(`expected at most ${LARGEST_FILE / 1e6} MB, got `
          + `${(file.size / 1e6).toFixed(1)} MB`);
      }
      let text;
      try {
        text = await file.text();
      } catch (error) {
        throw new NotKept(`it cannot be read (${error.name})`);
      }
      const { added, newer, older, same, texts } = merge(text);
      say(`Imported ${file.name}. Entries: ${added} added, ${newer} newer than here and taken, ${older} older `
        + `than here and left, ${same} the same${texts ? `; texts set aside before: ${texts}` : ""}.`);
    } catch (error) {
      say(`Not imported: ${file.name}: ${why(error)}. Nothing here has changed; choose a file that `
        + "Export saved.");
    }
    for (const day of days()) open(day);
    flush();
    tell(...opened);
  }

  let erase;

  if (block) {
    rows = make("tbody");
    told = make("div");
    says = make("p", { role: "status", class: "rl-progress-says" });
    which = make("select", { id: "rl-progress-which" });
    confirm = make("div", { role: "group", "aria-labelledby": "rl-progress-ask",
      class: "rl-progress-confirm" });
    confirm.hidden = true;
    undo = button("Undo", bringBack);
    erase = button("Erase", ask);
    const heads = ["Day", "Right", "Tried", "Predicted", "Practised", "Last (UTC)"];
    const table = make("table", {}, make("caption", {}, "Kept on this device"),
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))), rows);
    const file = make("input", { type: "file", id: "rl-progress-file", accept: ".json,application/json" });
    file.addEventListener("change", async () => {
      if (file.files.length) await take(file.files[0]);
      file.value = "";
    });
    confirm.addEventListener("keydown", (event) => {
      if (event.key === "Escape") confirm.querySelector("button:last-of-type").click();
    });
    block.classList.add("rl-progress", "mathjax_ignore", "tex2jax_ignore");
    block.replaceChildren(
      make("div", { class: "rl-progress-table", role: "region", tabindex: "0",
        "aria-label": "Kept on this device" }, table),
      told,
      make("div", { class: "rl-progress-tools" },
        button("Export", () => say(`Exported: ${download()} is in your downloads.`)),
        make("div", {}, make("label", { for: file.id }, "Import a file"), file),
        make("div", {}, make("label", { for: which.id }, "Erase"), which, erase)),
      confirm, says, make("div", { class: "rl-progress-actions" }, undo));
    for (const day of days()) open(day);
    try {
      storage();
    } catch (error) {
      troubles.set("", why(error));
    }
    draw();
  }
})();
