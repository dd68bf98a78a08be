"""A built page as things to show in a room: sentences, formulas, prompts, figures.

Question  what does a page of the site say, ask and draw, and in which order?
Answer    things(): each sentence, displayed formula, list item, question, prediction, result,
          table and figure, in the page's order, with the section it stands in; figures are the
          page's own bytes
Assumes   the page was built by Jupyter Book with the course's extensions
Ignores   code and folded answers, but for what an instructor's notes say of a prompt
"""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bs4 import BeautifulSoup, NavigableString, Tag


@dataclass(frozen=True)
class Thing:
    """One thing of a page.

    kind      "title", "heading", "says", "formula", "ask", "guess", "result", "table" or
              "figure"
    section   id of the section it stands in
    html      what a slide shows: links and ids are gone, but a figure is as the page has it
    id        of a prompt; of a result its cell's, which result_of(prediction) names
    block     number of its paragraph, list item or prompt: sentences of one paragraph share it
    answer    of a prompt: its worked text, or what the page shows after the guess
    """

    kind: str
    section: str
    html: str
    id: str = ""
    block: int = 0
    answer: str = ""

    @property
    def text(self) -> str:
        """What it says, without markup, on one line."""
        return _one_line(html.unescape(re.sub(r"<[^>]+>", "", self.html)))


_ARTICLE = re.compile(r"<article\b.*</article>", re.S)
# A figure ends at its own end; a live one, whose JSON holds no "<", after its module.
_FIGURE = re.compile(
    r'<figure class="rl-figure">.*?</figure>|<div class="rl rl-live" id="[\w.-]+" '
    r'data-module="\w+">.*?<script type="application/json">[^<]*</script></div>\n'
    r'<script type="module">\n.*?</script>', re.S)
_PASSED_BY = re.compile(r'<script type="module">.*?</script>|<svg\b.*?</svg>', re.S)
_RESULT = re.compile("^result-")


def result_of(prediction: str) -> str:
    """Id of the cell whose output a prediction is about."""
    return "result-" + re.sub(r"[^\w-]", "-", prediction)


def things(page: str) -> list[Thing]:
    """Everything on a page, given its HTML, that a room can be shown or asked."""
    found = _ARTICLE.search(page)
    figures: list[str] = []

    def keep(match: re.Match[str]) -> str:
        figures.append(match[0])
        return f'<figure data-kept="{len(figures) - 1}"></figure>'

    article = _PASSED_BY.sub("", _FIGURE.sub(keep, found[0] if found else ""))
    soup = BeautifulSoup(article, "html.parser")
    for kept in soup.select("span.together"):   # a formula and the mark that ends its sentence
        kept.unwrap()
    soup.smooth()
    return list(_walk(soup, figures))


def _walk(soup: Tag, figures: list[str]) -> Iterator[Thing]:
    for block, node in enumerate(soup.find_all(
            ["h1", "h2", "h3", "p", "li", "div", "form", "figure", "pre", "table"])):
        above = node.find_parent("section")
        section = str(above["id"]) if above and above.get("id") else ""
        classes = node.get_attribute_list("class")
        inside = node.find_parent(["form", "details", "aside", "figure", "table"]) or \
            node.find_parent(class_="cell_output")
        if node.name in ("h1", "h2", "h3"):
            yield Thing("title" if node.name == "h1" else "heading", section, _inner(node), "",
                        block)
        elif node.name == "figure" and "data-kept" in node.attrs:
            yield Thing("figure", section, figures[int(str(node["data-kept"]))], "", block)
        elif node.name == "div" and "asked" in classes:     # of the student edition: site.asked
            yield Thing(str(node["data-kind"]), section, _asked(node.select_one(".ask"), node.ul),
                        str(node["data-id"]), block)
        elif node.name == "form" and "rl-form" in classes:
            yield _prompt(node, section, block)
        elif node.name == "pre" and (cell := node.find_parent(id=_RESULT)):
            if node.find_parent(class_="cell_output"):
                said = html.escape(node.get_text().rstrip())
                yield Thing("result", section, f"<pre>{said}</pre>", str(cell["id"]), block)
        elif inside:
            continue
        elif node.name == "table":
            yield Thing("table", section, f"<table>{_inner(node)}</table>", "", block)
        elif node.name == "div" and "math" in classes:
            yield Thing("formula", section, f'<div class="math">{_inner(node)}</div>', "", block)
        elif node.name == "p" or (node.name == "li" and not node.find(["p", "ul", "ol"])):
            for sentence in _sentences(node):
                yield Thing("says", section, sentence, "", block)


def _prompt(form: Tag, section: str, block: int) -> Thing:
    """A question or a prediction as text: what is asked, and its parts."""
    parts = form.select_one("ul.rl-static")
    guess = form.get("data-guess-id")
    if guess:
        data = form.find("script")
        shown = [_found(part) for part in json.loads(data.get_text())["parts"]] if data else []
        return Thing("guess", section, _asked(form.select_one(".rl-ask"), parts), str(guess),
                     block, "\n".join(shown))
    worked = form.select_one("details.worked pre")
    return Thing("ask", section, _asked(form.select_one(".rl-ask"), parts),
                 str(form["data-form-id"]), block, worked.get_text().strip() if worked else "")


def _asked(ask: Tag | None, parts: Tag | None) -> str:
    said = html.escape(ask.get_text()) if ask else ""
    return (f'<p class="ask">{said}</p>'
            f'<ul class="parts">{_inner(parts) if parts else ""}</ul>')


def _found(part: dict[str, Any]) -> str:
    """What the page shows for a part of a prediction."""
    shown = dict(part.get("options", [])).get(part["found"], part["found"])
    return f"{part['label']}: {shown}"


# --- text ----------------------------------------------------------------------------------

_KEPT = {"em", "strong", "code", "sub", "sup", "ul", "ol", "li", "br",
         "thead", "tbody", "tr", "th", "td"}
_END = re.compile(r"(?<=[.?!])\s+")


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _inner(node: Tag) -> str:
    return _one_line("".join(_markup(child) for child in node.children))


def _markup(node: Any) -> str:
    """A node's HTML with formulas and emphasis, without links, anchors, ids and classes."""
    if isinstance(node, NavigableString):
        return html.escape(str(node), quote=False)
    if not isinstance(node, Tag) or "headerlink" in node.get_attribute_list("class"):
        return ""
    within = "".join(_markup(child) for child in node.children)
    if "math" in node.get_attribute_list("class"):
        return f'<span class="math">{within}</span>'
    return f"<{node.name}>{within}</{node.name}>" if node.name in _KEPT else within


def _sentences(paragraph: Tag) -> Iterator[str]:
    """A paragraph's sentences, each as HTML; a mark-up that has begun is never cut."""
    said = ""
    for child in paragraph.children:
        if not isinstance(child, NavigableString):
            said += _markup(child)
            continue
        first, *others = _END.split(str(child))
        said += html.escape(first, quote=False)
        for other in others:
            if _one_line(said):
                yield _one_line(said)
            said = html.escape(other, quote=False)
    if _one_line(said):
        yield _one_line(said)
