"""Link the first use of each glossary term on a page to its entry.

Question  how does a reader who meets a new word find out what it means?
Answer    where a page's prose first says it, the word links to the glossary
Assumes   the glossary spells a term as pages do; plurals in -s count as the term
Ignores   headings, code, math, links, forms, and the pages that define the terms themselves
"""

import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

OWN_PAGES = {"glossary", "notation", "sources"}  # these define or list the terms
# Everyday words that are terms too: a link on their first use would mostly be on another sense.
EVERYDAY = {"documented", "derived", "published", "measured", "modelled", "assumed", "work", "rate"}
_SKIP = (nodes.title, nodes.literal, nodes.literal_block, nodes.math, nodes.math_block,
         nodes.reference, nodes.raw, nodes.term, nodes.rubric)


def _pattern(terms: list[str]) -> re.Pattern[str]:
    """Longest term first; a term with a capital is matched as written, others in either case."""
    def one(term: str) -> str:
        text = re.escape(term).replace(r"\ ", r"\s+")
        if term == term.lower():
            text = f"[{term[0].upper()}{term[0]}]{text[1:]}" if term[0].isalpha() else text
        return text
    names = "|".join(one(term) for term in sorted(terms, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])({names})s?(?![\w-])")


def _prose(doctree: nodes.document) -> Iterator[nodes.Text]:
    for paragraph in doctree.findall(nodes.paragraph):
        for text in list(paragraph.findall(nodes.Text)):
            parent = text.parent
            while parent is not None and not isinstance(parent, _SKIP):
                parent = parent.parent
            if parent is None:
                yield text


def _link(app: Sphinx, doctree: nodes.document, page: str) -> None:
    objects = app.env.get_domain("std").get_objects()
    entries = {name: (place, anchor) for name, _, kind, place, anchor, _ in objects
               if kind == "term" and len(name) > 1 and name not in EVERYDAY}
    if page in OWN_PAGES or not entries:
        return
    find, linked = _pattern(list(entries)), set()
    for text in _prose(doctree):
        made: list[nodes.Node] = []
        rest = text.astext()
        at = 0
        for match in find.finditer(rest):
            said = re.sub(r"\s+", " ", match[1])
            term = said if said in entries else said[0].lower() + said[1:]
            where = entries[term]
            if where in linked:
                continue
            linked.add(where)
            place, anchor = where
            uri = app.builder.get_relative_uri(page, place) + "#" + anchor
            made += [nodes.Text(rest[at:match.start()]),
                     nodes.reference("", match[0], internal=True, refuri=uri,
                                     classes=["first-use"])]
            at = match.end()
        if made:
            text.parent.replace(text, [*made, nodes.Text(rest[at:])])


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-resolved", _link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
