"""Search that finds symbols, terms and code names.

Question  what does a reader find who types r_A, I*, "ridge point", nisa.nc_matmul or 187 us?
Answer    first the entry of the notation or the glossary with that name, and what it says; then
          the questions and headings; then the pages. Index and query are split alike, here and in
          the script that this module writes into language_data.js
Assumes   a symbol or a term is a definition list's term, in notation.md or in a {glossary}
Ignores   how results look (assets/finding.js), and answers: they are not of the index

Sphinx's own splitter takes 78.6 for two numbers that it then drops, nisa.nc_matmul for two words
that need not stand together, and $T_\\text{best}$ for three words, none of them T_best.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.search.en import SearchEnglish

NOTATION = "notation"

# --- splitting -----------------------------------------------------------------------------

# LaTeX as readers type it: T_\text{best} is T_best, H_{kv} is H_kv, I^{*} and I^* are I*.
# Both lists are used by Python and, as they stand, by JavaScript (flags "gu").
_PLAIN = [(r"\\(?:text|mathrm|mathbf)\{([^{}]*)\}", r"\1"), (r"_\{([^{}]*)\}", r"_\1"),
          (r"\^\{?\*\}?", "*"), ("[\u00b5\u03bc]s", "us")]

# What is one word: an amount with its unit, a setting, a starred symbol, a (dotted) name.
_W = r"[\p{L}\p{N}_]"
_WORDS = [
    rf"\d+(?:\.\d+)?[ \u00a0\u202f]?(?:[num]?s|[kKMGTP]?(?:i?B|FLOP[sS]?|Hz))(?!{_W})",
    rf"(?<!{_W})LNC[ =]?\d(?!{_W})",
    rf"(?<![\p{{L}}\p{{N}}_.])[A-Za-z]{_W}* ?= ?\d+(?:\.\d+)*(?!{_W})",
    rf"(?<![\p{{L}}\p{{N}}_.])[A-Za-z]\*(?!{_W})",
    rf"{_W}+(?:\.{_W}+)*",
]
_WORD = re.compile("|".join(_WORDS).replace(r"[\p{L}\p{N}_]", r"\w")
                   .replace(r"\p{L}\p{N}_", r"\w"))
_ALIKE = [(r"\s", ""), (r"^LNC=?(\d)$", r"LNC=\1"), ("FLOP[sS]$", "FLOP")]


def plain(text: str) -> str:
    """Text without LaTeX's marks around the names in it."""
    for pattern, by in _PLAIN:
        text = re.sub(pattern, by, text)
    return text


def words(text: str) -> list[str]:
    """The words of a text, each whole: `nisa.nc_matmul`, `k=0`, `187us`, `I*`."""
    found = _WORD.findall(plain(text))
    for pattern, by in _ALIKE:
        found = [re.sub(pattern, by, word) for word in found]
    return found


def parts(word: str) -> Iterator[str]:
    """What a word is also found by: `nisa.nc_matmul` by nc_matmul, nisa, nc and matmul."""
    for dot in re.finditer(r"\.(?=[A-Za-z])", word):
        yield word[dot.end():]
    amount = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]*)", word)
    cut = [*amount.groups()] if amount else re.split(r"[._=*]", word)
    yield from (part for part in cut if part and part != word)


class CourseSearch(SearchEnglish):
    """English, with words split as a course on kernels needs it."""

    js_splitter_code = f"""
// Written by _ext/finding.py, so that a query is split as the pages were.
var splitQuery = (() => {{
  const rules = (list) => list.map(([a, b]) => [new RegExp(a, "gu"), b.replace(/\\\\1/g, "$1")]);
  const plain = rules({json.dumps(_PLAIN)}), alike = rules({json.dumps(_ALIKE)});
  const word = new RegExp({json.dumps("|".join(_WORDS))}, "gu");
  const by = (rules, text) => rules.reduce((said, [from, to]) => said.replace(from, to), text);
  return (query) => (by(plain, query).match(word) ?? []).map((found) => by(alike, found));
}})();
"""
    # Endings belong to words; Porter's rules differ between two languages for anything else.
    js_stemmer_code = SearchEnglish.js_stemmer_code + """
Stemmer = ((Porter) => function() {
  const porter = new Porter();
  this.stemWord = (word) => /^[A-Za-z]+$/.test(word) ? porter.stemWord(word.toLowerCase())
    : word.toLowerCase();
})(Stemmer);
"""

    def split(self, input: str) -> list[str]:
        return [part for word in words(input) for part in (word, *parts(word)) if part]

    def stem(self, word: str) -> str:
        return super().stem(word) if re.fullmatch("[A-Za-z]+", word) else word.lower()


# --- entries -------------------------------------------------------------------------------

_SIGNS = {"times": "\u00d7", "le": "\u2264", "ge": "\u2265", "sum": "\u2211", "cdot": "\u00b7",
          "sqrt": "\u221a", "left": "", "right": "", "quad": " ", "approx": "\u2248"}


def read(latex: str) -> str:
    """A formula as text to read: `P \\times T` is P × T."""
    text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"\1/\2", plain(latex))
    text = re.sub(r"\\([A-Za-z]+)", lambda m: _SIGNS.get(m[1], m[1]), text)
    return re.sub(r"\s+", " ", re.sub(r"\\[,;! ]", " ", text).translate({123: "", 125: ""})).strip()


def text_of(node: nodes.Node) -> str:
    """What a node says, formulas as text."""
    if isinstance(node, nodes.math | nodes.math_block):
        return read(node.astext())
    if isinstance(node, nodes.Text):
        return node.astext()
    if isinstance(node, addnodes.index):
        return ""
    return "".join(text_of(child) for child in node.children)


def _entry(names: list[tuple[str, str]], item: nodes.Node, also: Iterable[str] = (),
           title: str = "") -> dict[str, Any]:
    said = " ".join(" ".join(text_of(p) for p in d.children)
                    for d in item.findall(nodes.definition))
    known = {name for name, _ in names}
    return {"names": names, "title": title or ", ".join(name for name, _ in names),
            "also": sorted({a for a in also if a not in known}),
            "text": re.sub(r"\s+", " ", said).strip()}


def _terms(glossary: nodes.Node) -> Iterator[dict[str, Any]]:
    """A glossary's entries: every name with its own anchor."""
    for item in glossary.findall(nodes.definition_list_item):
        names, whole = [], []
        for term in item.findall(nodes.term):
            title = text_of(term).strip()
            whole.append(title)
            names += [(name, term["ids"][0]) for name in dict.fromkeys([title, *title.split(", ")])]
        yield _entry(names, item, title=", ".join(whole))


def _symbols(doctree: nodes.document) -> Iterator[dict[str, Any]]:
    """The notation's entries. `[$W$]{#sym-W}, work, FLOP, `flops`` has the names W, work, flops.

    A term without an anchor gets one.
    """
    seen: set[str] = set()
    for item in doctree.findall(nodes.definition_list_item):
        term = next(item.findall(nodes.term))
        marked = next((n for n in term.findall(nodes.inline) if n["ids"]), None)
        symbol, _, rest = text_of(term).strip().partition(", ") if marked is None else (
            text_of(marked), "", text_of(term).strip().removeprefix(text_of(marked)).strip(", "))
        codes = [code.astext() for code in term.findall(nodes.literal)]
        symbols = re.split(r",\s*", symbol)
        again, seen = marked is None and symbols[0] in seen, seen | set(symbols)
        title = f"{symbol} under other names" if again else ", ".join(dict.fromkeys(
            filter(None, [*symbols, *re.split(r",\s*", rest)])))
        if marked is None:
            names = dict.fromkeys([*symbols, *codes, *re.split(r",\s*", rest)])
            slug = re.sub(r"\W+", "-", f"entry-{title}".lower()).strip("-")
            anchor = next(a for a in (slug, *(f"{slug}-{i}" for i in range(2, 99)))
                          if a not in doctree.ids)
            term["ids"].append(anchor)
            doctree.ids[anchor] = term
        else:
            anchor = marked["ids"][0]
            called = rest.split(", ")[0] if rest else ""
            names = dict.fromkeys([symbol, *symbols, *filter(None, [called]), *codes])
        also = {code.astext() for d in item.findall(nodes.definition)
                for code in d.findall(nodes.literal)}
        yield _entry([(name, anchor) for name in names if name], item, also, title) | {
            "again": again}


def _questions(doctree: nodes.document) -> Iterator[dict[str, Any]]:
    """The page's forms, by id and title; not what they ask, nor what they answer."""
    import practice

    titles = practice.titles()
    for html in doctree.findall(lambda n: n.tagname == "Html"):
        for form in re.findall(r'data-form-id="([\w.-]+)"', html["html"]):
            if form in titles:
                yield {"names": [(form, "form-" + form), (titles[form], "form-" + form)],
                       "title": titles[form], "also": [], "text": "", "question": True}


def entries(doctree: nodes.document, docname: str) -> list[dict[str, Any]]:
    """Everything on a page that a reader may know by a name."""
    found: list[dict[str, Any]] = []
    if docname == NOTATION:
        found += _symbols(doctree)
    for glossary in doctree.findall(addnodes.glossary):
        found += _terms(glossary)
    return found + list(_questions(doctree))


# --- the build -----------------------------------------------------------------------------


def _read(app: Sphinx, doctree: nodes.document) -> None:
    if found := entries(doctree, app.env.docname):
        app.env.finding[app.env.docname] = found        # type: ignore[attr-defined]
    else:
        app.env.finding.pop(app.env.docname, None)      # type: ignore[attr-defined]


def _start(app: Sphinx) -> None:
    if not hasattr(app.env, "finding"):
        app.env.finding = {}                            # type: ignore[attr-defined]


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    getattr(env, "finding", {}).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: Iterable[str],
           other: BuildEnvironment) -> None:
    env.finding.update({d: other.finding[d] for d in docnames       # type: ignore[attr-defined]
                        if d in other.finding})                     # type: ignore[attr-defined]


def order(env: BuildEnvironment) -> list[str]:
    """The pages as the book has them."""
    root = env.config.root_doc
    inside = env.toctree_includes
    found = [root]
    for page in found:
        found += [p for p in inside.get(page, []) if p not in found]
    return found


def data(env: BuildEnvironment) -> str:
    """What the search page's script needs beside the index, as JSON that no markup ends."""
    pages = order(env)
    known = env.finding                                             # type: ignore[attr-defined]
    # Notation before glossary; forms in the book's order.
    listed = [{"page": page, **entry} for page in sorted(known, key=lambda p: (
        pages.index(p) if p in pages else len(pages))) for entry in known[page]]
    text = json.dumps({"order": pages, "entries": listed}, ensure_ascii=False,
                      separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _page(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any],
          doctree: Any) -> None:
    if pagename == "search":
        app.add_js_file(None, body="globalThis.courseEntries = " + data(app.env))
        app.add_js_file("finding.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_search_language(CourseSearch)
    app.connect("builder-inited", _start)
    app.connect("doctree-read", _read, priority=700)    # when coursebook has put the forms in
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("html-page-context", _page)
    return {"env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
