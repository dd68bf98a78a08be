// Search results of this book. Sphinx's searchtools.js loads the index and calls Search.query;
// this replaces what that finds and shows: entries of the notation and the glossary first, each
// with what it says, then questions, headings and pages. A classic script: it also runs from disk.
(() => {
  const {order, entries} = globalThis.courseEntries;
  const stemmer = new Stemmer();
  const list = (found) => found === undefined ? [] : Array.isArray(found) ? found : [found];

  const words = (text) => splitQuery(text).map((word) => stemmer.stemWord(word));
  const key = (text) => words(text).join(" ");
  const pieces = (word) => word.match(/^(\d+(?:\.\d+)?)([a-z]*)$/i)?.slice(1).filter(Boolean)
    ?? word.split(/[._=*]/).filter(Boolean);

  // A query as typed, without the marks that notation and code put around a name.
  const bare = (query) => query.trim().replace(/^[$`"'\s]+|[$`"'\s]+$/g, "")
    .replace(/\\(?:text|mathrm)\{([^{}]*)\}/g, "$1").replace(/_\{([^{}]*)\}/g, "_$1")
    .replace(/\^\{?\*\}?/g, "*").replace(/\s+/g, " ");

  // Titles of the index are pieces of HTML or plain text; shown is their text.
  const text = (html) => new DOMParser().parseFromString(html, "text/html").body.textContent;

  // --- entries ---------------------------------------------------------------------------------

  for (const entry of entries) {
    entry.keys = entry.names.map(([name]) => key(name));
    entry.alsoKeys = entry.also.map(key);
    entry.symbols = entry.names[0][0].split(/,\s*/).length;
  }

  // How well an entry is named by a query, and by which of its names. 0: not at all.
  const named = (entry, query, queryKey, weak) => {
    let best = 0, anchor = "";
    const take = (score, where) => { if (score > best) [best, anchor] = [score, where]; };
    entry.names.forEach(([name, where], i) => {
      const keyed = entry.keys[i];
      if (name === query) take(1000, where);
      else if (name.toLowerCase() === query.toLowerCase()) take(900, where);
      else if (queryKey && keyed === queryKey) take(850, where);
      else if (weak) return;
      else if (queryKey.length > 1 && ` ${keyed} `.includes(` ${queryKey} `))
        take(500 + 100 * queryKey.length / keyed.length, where);
      else if (queryKey.length > 2 && ` ${keyed}`.includes(` ${queryKey}`))
        take(400 + 100 * queryKey.length / keyed.length, where);
    });
    if (entry.also.includes(query) || queryKey && entry.alsoKeys.includes(queryKey))
      take(700, entry.names[0][1]);
    // A symbol on its own before one of several; its own entry before its other names.
    return [best && best - entry.symbols - (entry.again ? 200 : 0), anchor];
  };

  const findEntries = (query) => {
    const queryKey = key(query), found = [];
    // "the" stands in many names and says nothing; A is a matrix.
    const weak = splitQuery(query).every((word) => stopwords.includes(word.toLowerCase()));
    for (const entry of entries) {
      const [score, anchor] = named(entry, query, queryKey, weak);
      if (score) found.push({
        kind: entry.question ? "question" : "entry", title: entry.title, text: entry.text,
        page: entry.page, anchor, score: score - (entry.question ? 450 : 0),
      });
    }
    return found.sort((a, b) => b.score - a.score).slice(0, 12);
  };

  // --- headings and pages ------------------------------------------------------------------------

  const findHeadings = (terms) => {
    const index = Search._index, found = [];
    if (!terms.length) return found;
    for (const [title, places] of Object.entries(index.alltitles)) {
      const has = new Set(words(title).flatMap((word) => [word, ...pieces(word)]));
      if (!terms.every((term) => has.has(term))) continue;
      for (const [file, id] of places) if (id !== null) found.push({
        kind: "heading", title, page: index.docnames[file], anchor: id, text: "",
        score: terms.length / has.size,
      });
    }
    return found.sort((a, b) => b.score - a.score || place(a) - place(b)).slice(0, 8);
  };
  const place = ({page}) => (order.indexOf(page) + 1) || order.length + 1;

  const holders = (term) => {
    const {terms, titleterms} = Search._index, found = new Map();
    const add = (files, score) => {
      for (const file of list(files)) found.set(file, Math.max(found.get(file) ?? 0, score));
    };
    const own = (table) => Object.hasOwn(table, term) ? table[term] : undefined;
    add(own(terms), 5);
    add(own(titleterms), 15);
    // Nothing has the whole word: the words that begin with it.
    if (!found.size && term.length > 2)
      for (const table of [terms, titleterms])
        for (const [word, files] of Object.entries(table)) if (word.startsWith(term)) add(files, 2);
    return found;
  };

  const findPages = (terms) => {
    if (!terms.length) return [];
    const sets = terms.map(holders), index = Search._index;
    return [...sets[0].keys()].filter((file) => sets.every((set) => set.has(file)))
      .map((file) => ({
        kind: "page", title: text(index.titles[file]), page: index.docnames[file], anchor: "",
        text: "", score: Math.max(...sets.map((set) => set.get(file))),
      })).sort((a, b) => b.score - a.score || place(a) - place(b));
  };

  // --- a query -----------------------------------------------------------------------------------

  Search.find = (typed) => {
    const query = bare(typed);
    const all = [...new Set(splitQuery(query).map((word) => word.toLowerCase()))];
    const counted = all.filter((word) => !stopwords.includes(word));
    let terms = counted.map((word) => stemmer.stemWord(word));
    const found = findEntries(query);
    const setting = query.match(/^(.*?\S)\s*=\s*\S+$|^(LNC)\s?\d$/i);
    if (setting && !found.length) found.push(...findEntries(setting[1] ?? setting[2]));
    found.push(...findHeadings(terms));
    let pages = findPages(terms);
    if (!pages.length) {        // no page has it whole: its pieces
      const smaller = [...new Set(terms.flatMap(pieces))].filter((term) => term.length > 1);
      if (smaller.join() !== terms.join()) pages = findPages(terms = smaller);
    }
    return {results: [...found, ...pages], terms: counted};
  };

  // --- what is shown -------------------------------------------------------------------------------

  const WHAT = {question: "Question", heading: "Section"};
  const suffix = DOCUMENTATION_OPTIONS.LINK_SUFFIX;
  const root = document.documentElement.dataset.content_root;
  const url = ({page, anchor}) => root + page + suffix + (anchor ? "#" + anchor : "");

  const pageTitle = (page) => text(Search._index.titles[Search._index.docnames.indexOf(page)] ?? page);

  const element = (name, className, said) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.textContent = said;
    return made;
  };

  const readable = (node) => node.textContent.replace(/\\[()[\]]/g, "")
    .replace(/\\(?:text|mathrm)\{([^{}]*)\}/g, "$1").replace(/_\{([^{}]*)\}/g, "_$1")
    .replace(/\^\{?\*\}?/g, "*").replace(/\\times/g, "\u00d7").replace(/\\[,;! ]/g, " ")
    .replace(/\s+/g, " ").trim();

  const pattern = (term) => new RegExp("(?<![\\p{L}\\p{N}_])"
    + term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/^(\d[\d\\.]*)(?=[a-z])/, "$1\\s?")
      .replace("=", "\\s?=?\\s?"), "iu");

  // Where a page first has a word of the query: the section, and a line or two of it. What a page
  // folds or asks stays there.
  const summary = (html, terms) => {
    let within = new DOMParser().parseFromString(html, "text/html").querySelector("article");
    if (!within) return {};
    for (const node of within.querySelectorAll(
      ".headerlink, script, style, details, .rl, .toggle, .tag_hide-output, .d-print-none"))
      node.remove();
    const wanted = terms.map(pattern).find((one) => one.test(readable(within)));
    if (!wanted) return {};
    for (let next = within; next; within = next ?? within)
      next = [...within.children].find((child) => child.matches("section") &&
        wanted.test(readable(child)));
    const heading = within.querySelector("h1, h2, h3, h4, h5, h6");
    const section = within.parentElement?.closest("section") && within.id && heading
      ? {anchor: within.id, title: readable(heading)} : undefined;
    if (heading && !wanted.test(readable(heading))) heading.remove();
    const said = readable(within), at = said.search(wanted);
    const from = at < 100 ? 0 : said.lastIndexOf(" ", at - 100) + 1;
    const end = said.indexOf(" ", from + 240), to = end < 0 ? said.length : end;
    return {section, said: (from ? "\u2026 " : "") + said.slice(from, to)
      + (to < said.length ? " \u2026" : "")};
  };

  const summarize = async (items) => {
    for (const [item, result, terms] of items) {
      const answer = await fetch(root + result.page + DOCUMENTATION_OPTIONS.FILE_SUFFIX)
        .catch(() => null);     // the network went, or the reader did: titles stand
      const {section, said} = answer?.ok ? summary(await answer.text(), terms) : {};
      if (section) {
        const link = element("a", "", section.title);
        link.href = url({page: result.page, anchor: section.anchor});
        item.append(" ", element("span", "where", "first in "), link);
      }
      if (said) item.append(element("p", "context", said));
    }
  };

  // The theme means to do this, and finds the field of its closed dialog.
  document.querySelector(".bd-search-container input")?.focus();

  Search.query = (query) => {
    const {results, terms} = Search.find(query);
    Search.stopPulse();
    document.getElementById("search-progress")?.replaceChildren();
    Search.status.setAttribute("role", "status");
    Search.title.textContent = "Search results";
    const n = results.length;
    Search.status.textContent = n
      ? `${n} ${n === 1 ? "result" : "results"} for \u201c${query.trim()}\u201d.`
      : `Nothing in this book has \u201c${query.trim()}\u201d. Symbols are in the notation, terms `
        + "in the glossary; a shorter word finds more.";
    const pages = [];
    for (const result of results) {
      const item = element("li", `kind-${result.kind}`, "");
      const link = element("a", "", result.title);
      link.href = url(result);
      item.append(link);
      if (result.kind !== "page") item.append(" ", element("span", "where",
        [WHAT[result.kind], pageTitle(result.page)].filter(Boolean).join(" in ")));
      if (result.text) item.append(element("p", "context", result.text.length > 300
        ? result.text.slice(0, result.text.lastIndexOf(" ", 300)) + " \u2026" : result.text));
      if (result.kind === "page") pages.push([item, result, terms]);
      Search.output.append(item);
    }
    if (SPHINX_HIGHLIGHT_ENABLED)       // of sphinx_highlight.js: the page marks the words
      try { localStorage.setItem("sphinx_highlight_terms", terms.join(" ")); } catch { /* full */ }
    if (DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY) summarize(pages);
  };
})();
