"""The whole book as one page for paper: book.html, made from the pages that are built.

Question  how does the book read where nothing can be clicked, and where are the answers?
Answer    every page a chapter, in reading order: folds open, forms as numbered questions, worked
          answers in an appendix, links within the one page, ids of their own
Assumes   a page's text is its <article>; class d-print-none marks what is for the screen alone
Ignores   how it looks: assets/paper.css; the PDF: pdf.py
"""

import hashlib
import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any
from urllib.parse import urlsplit

import yaml  # type: ignore[import-untyped]
from bs4 import BeautifulSoup, Tag
from bs4.element import AttributeValueList
from coursebook import ROOT
from sphinx.application import Sphinx
from sphinx.util import logging

NAME = "book.html"
SCREEN = {"practice"}               # pages with nothing to read on paper
WIDTHS = {"": 105, "wide": 126, "wider": 148}  # columns that fit a line; what is longer wraps
BACK = ("glossary", "sources")      # these follow the answers

_ARTICLE = re.compile(r"<article\b.*</article>", re.S)
_SCRIPT = re.compile(r"<script\b.*?</script>", re.S)
_MATHJAX = re.compile(r"<script>window\.MathJax.*?</script>|<script\b[^>]*mathjax[^>]*></script>")
_DROPPED = ("script, style, button, noscript, a.headerlink, .d-print-none, .toctree-wrapper, "
            ".rl-buttons")
# Code and drawings, most of a page, pass the parser by; they come back as they were.
_KEPT = re.compile(r"<(pre|svg)\b(?:(?!<svg\b).)*?</\1>", re.S)
_IGNORED = ("mathjax_ignore", "tex2jax_ignore")
_NARROW = re.compile(r'<svg\b[^>]*class="[^"]*\brl-narrow\b')  # a drawing again, for a phone
# Attributes that name an id of the same page.
_NAMES_ID = ("for", "headers", "aria-labelledby", "aria-describedby", "aria-controls", "list")
_SVG_ID = re.compile(r"""(\bid=["']|\bhref=["']#|url\(["']?#)([^"')]+)""")


@dataclass(frozen=True)
class About:
    """What the title page says."""

    title: str
    abstract: str
    version: str
    authors: str
    licences: tuple[str, ...]


@dataclass
class Chapter:
    """One page of the site, as a chapter."""

    page: str                       # as the site names it: day1/roofline
    soup: Tag
    slug: str
    title: str = ""
    sections: list[tuple[str, str]] = field(default_factory=list)  # (id, heading)
    ids: dict[str, str] = field(default_factory=dict)              # in the page -> in the book
    kept: list[str] = field(default_factory=list)                  # code and drawings


@dataclass
class Answer:
    number: int
    page: str
    text: Tag


def about() -> About:
    """The title page's words, from CITATION.cff: no date, so the same book is the same bytes."""
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    licences = said["license"]
    return About(said["title"], said["abstract"].strip(), str(said["version"]),
                 ", ".join(author["name"] for author in said["authors"]),
                 tuple([licences] if isinstance(licences, str) else licences))


# --- a page becomes a chapter ----------------------------------------------------------------


def book(pages: Mapping[str, str], about: About) -> str:
    """HTML of the whole book.

    pages   the site's pages in reading order: name -> HTML
    """
    chapters = [_chapter(page, text) for page, text in pages.items()]
    answers: list[Answer] = []
    for chapter in chapters:
        _unfold(chapter.soup)
        _live(chapter.soup)
        _questions(chapter, answers)
    for chapter in chapters:
        _own_ids(chapter)
    where = {chapter.page: chapter for chapter in chapters}
    for chapter in chapters:
        _links(chapter, where)
        _outline(chapter)
    body = [c for c in chapters if c.page not in BACK]
    back = [c for c in chapters if c.page in BACK]
    mathjax = dict.fromkeys(re.sub(r'(?<=src=")(\.\./)+', "", script)
                            for text in pages.values() for script in _MATHJAX.findall(text))
    parts = [_title(about), _contents(body, back, answers), *map(_text, body),
             _appendix(answers, where), *map(_text, back)]
    slugs = {chapter.slug: chapter for chapter in chapters}
    text = re.sub(r'<(pre|svg) data-kept="(\S+) (\d+)"></\1>',
                  lambda m: slugs[m[2]].kept[int(m[3])], "\n".join(filter(None, parts)))
    return _HEAD.format(title=html.escape(about.title), heads=_heads([*body, *back]),
                        figures=_figure_css(), mathjax="\n".join(mathjax)) \
        + text + "\n</body>\n</html>\n"


def _chapter(page: str, text: str) -> Chapter:
    found = _ARTICLE.search(text)
    slug = page.replace("/", "-")
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        if _NARROW.match(match[0]):
            return ""
        kept.append(_scaled(match[0]) if match[1] == "pre" else
                    _SVG_ID.sub(rf"\g<1>{slug}-svg{len(kept)}-\g<2>", match[0]))
        return f'<{match[1]} data-kept="{slug} {len(kept) - 1}"></{match[1]}>'

    soup = BeautifulSoup(_KEPT.sub(keep, _SCRIPT.sub("", found[0] if found else "")),
                         "html.parser")
    article = soup.find("article") or soup
    for node in article.select(_DROPPED):
        node.decompose()
    article.name = "article"
    article.attrs = {"class": "chapter"}
    return Chapter(page, article, slug, kept=kept)


def _scaled(pre: str) -> str:
    """Code or text whose lines are too long for the paper, but not by much, in smaller print."""
    text = html.unescape(re.sub(r"<[^>]+>", "", pre))
    width = max(map(len, text.splitlines()), default=0)
    size = next((size for size, columns in WIDTHS.items() if width <= columns), "")
    return pre.replace("<pre", f'<pre class="{size}"', 1) if size else pre


def _new(name: str, text: str = "", **attributes: str) -> Tag:
    node = Tag(name=name, attrs={k.rstrip("_").replace("_", "-"):
                                 AttributeValueList(v.split()) if k == "class_" else v
                                 for k, v in attributes.items()},
               can_be_empty_element=name in ("input", "br", "hr"))
    if text:
        node.append(text)
    return node


def _unfold(soup: Tag) -> None:
    """Every fold but a worked answer's is opened for good."""
    for fold in soup.select("details:not(.worked)"):
        summary = fold.find("summary", recursive=False)
        classes = fold.get_attribute_list("class")
        says = summary.get_text(" ", strip=True) if summary else ""
        if summary:
            summary.decompose()
        if "hide" in classes:       # a cell's input or output
            fold.unwrap()
            continue
        fold.name = "div"
        fold.attrs = {"class": AttributeValueList(
            ["opened", "computed" if "computed" in classes else "data"])}
        if "computed" in classes:
            fold.insert(0, _new("p", f"{says}:", class_="opened-as"))
    # What scrolls on a screen is a plain box here.
    for box in soup.select("[role=region][tabindex], [role=group][tabindex]"):
        for name in ("role", "tabindex", "aria-label", "style"):
            box.attrs.pop(name, None)


def _live(soup: Tag) -> None:
    """A live figure is what it is about, and its numbers."""
    for figure in soup.select(".rl:not(form)"):
        del figure["id"]
        for note in figure.select(".rl-noscript"):
            what = re.match(r"Where scripts run, (.*?),? stands here", note.get_text())
            if what:
                note.string = f"On the site, {what[1]} stands here. What it is about:"


def _questions(chapter: Chapter, answers: list[Answer]) -> None:
    """Forms become numbered questions, and every worked answer leaves for the appendix."""
    for place in chapter.soup.select("form.rl-form, details.worked"):
        worked = place if place.name == "details" else place.find("details")
        text = worked.find("pre") if worked else None
        head = _new("p", class_="asked")
        if worked is None or text is None:      # a guess: nothing to answer
            for ask in place.select(".rl-ask"):
                head.append(_new("b", ask.get_text()))
                ask.decompose()
            _asked(place, head, "guess")
            continue
        if worked.parent is None:               # of a form that has been read
            continue
        number = len(answers) + 1
        answers.append(Answer(number, chapter.page, text.extract()))
        link = _new("a", f"Answer: A{number}", href=f"#A{number}", class_="to-answer")
        link.append(_new("span", class_="page", data_of=f"A{number}"))
        if place.name == "details":             # its question is the prose before it
            line = _new("div", class_="question only", id=f"Q{number}")
            line.append(head)
            head.append(link)
            place.replace_with(line)
            continue
        worked.extract()
        head.append(_new("b", f"Question {number}"))
        head.append(link)
        _asked(place, head, "")
        place["id"] = f"Q{number}"


def _asked(form: Tag, head: Tag, kind: str) -> None:
    """A form as text to write on: its parts lettered, with blanks and boxes."""
    form.name = "div"
    form.attrs = {"class": AttributeValueList(["question", kind, *_IGNORED])}
    for note in form.select(".rl-noscript"):
        note.decompose()
    for ask in form.select(".rl-ask"):
        ask.attrs = {"class": AttributeValueList(["ask"])}
    form.insert(0, head)
    for fields in form.select(".rl-fields"):
        fields.unwrap()
    for parts in form.select("ul.rl-static"):
        parts.name = "ol"
        parts.attrs = {"class": AttributeValueList(["parts"])}
        for part in parts.find_all("li", recursive=False):
            options = part.find("ul")
            if options:
                options.attrs = {"class": AttributeValueList(["options"])}
            else:
                part.append(_new("span", class_="blank"))


# --- ids and links -----------------------------------------------------------------------------


def _own_ids(chapter: Chapter) -> None:
    """Ids that no other chapter, and no other drawing, has."""
    ids = chapter.ids
    ids[""] = chapter.slug
    taken = set()
    for node in chapter.soup.select("[id]"):
        old = str(node["id"])
        if "question" in node.get_attribute_list("class"):
            continue
        new = f"{chapter.slug}-{old}"
        while new in taken:         # a page's own fault; the first keeps its name
            new += "-"
        taken.add(new)
        ids.setdefault(old, new)
        node["id"] = new
    for node in chapter.soup.find_all(True):
        for name in _NAMES_ID:
            if name in node.attrs:
                node[name] = " ".join(ids.get(word, word)
                                      for word in " ".join(node.get_attribute_list(name)).split())


def _links(chapter: Chapter, where: Mapping[str, Chapter]) -> None:
    """Links to pages of the book stay in the book; links to the site's other files go there."""
    folder = PurePosixPath(chapter.page).parent
    for link in chapter.soup.select("a[href], img[src]"):
        name = "href" if link.name == "a" else "src"
        target = urlsplit(str(link[name]))
        if target.scheme or target.netloc or "to-answer" in link.get_attribute_list("class"):
            continue
        path = normpath(str(folder / target.path)) if target.path else f"{chapter.page}.html"
        other = where.get(path.removesuffix(".html")) if path.endswith(".html") else None
        if other is None:
            link[name] = path + (f"#{target.fragment}" if target.fragment else "")
        else:
            link[name] = "#" + other.ids.get(target.fragment, other.slug)


def _outline(chapter: Chapter) -> None:
    chapter.soup["id"] = chapter.slug
    heading = chapter.soup.find("h1")
    chapter.title = heading.get_text().strip() if heading else chapter.page
    for h2 in chapter.soup.find_all("h2"):
        section = h2.find_parent("section")
        name = str(section["id"]) if section and section.get("id") else f"{chapter.slug}-"
        chapter.sections.append((name, h2.get_text().strip()))


# --- the parts of the book ---------------------------------------------------------------------


def _text(chapter: Chapter) -> str:
    return str(chapter.soup)


def _title(about: About) -> str:
    e = html.escape
    licences = " and ".join(f"{what} under {name}" for what, name in zip(
        ("code", "text and pictures"), about.licences, strict=False))
    return (f'<section class="title-page" id="title-page">\n<h1>{e(about.title)}</h1>\n'
            f'<p class="abstract">{e(about.abstract)}</p>\n'
            f'<p class="edition">The whole book on paper. Version {e(about.version)}.</p>\n'
            f'<p class="screen-only">Print this page, or make the PDF with bookmarks: '
            f'<code>python3 course.py pdf</code>. <a href="index.html">Back to the site</a>, '
            f'where figures move and forms answer.</p>\n'
            f"<p>{e(about.authors)}.</p>\n<p>{e(licences[:1].upper() + licences[1:])}.</p>\n"
            "</section>\n")


def _contents(body: list[Chapter], back: list[Chapter], answers: list[Answer]) -> str:
    def entry(chapter: Chapter) -> str:
        inner = "".join(_entry(*section) for section in chapter.sections
                        if chapter.page not in BACK)
        return _entry(chapter.slug, chapter.title, f"<ul>{inner}</ul>" if inner else "")

    entries = "\n".join([*map(entry, body),
                         *([_entry("answers", "Answers")] if answers else []),
                         *map(entry, back)])
    return (f'<nav class="contents" id="contents" aria-label="Contents">\n<h1>Contents</h1>\n'
            f'<ul>\n{entries}\n</ul>\n</nav>\n')


def _entry(name: str, title: str, inner: str = "") -> str:
    # A formula in a heading is set here too.
    said = re.sub(r"\\\(.*?\\\)", lambda m: f'<span class="math">{m[0]}</span>', html.escape(title))
    return (f'<li><a href="#{html.escape(name)}"><span>{said}</span>'
            f"{_page(name)}</a>{inner}</li>")


def _page(name: str) -> str:
    """Where the PDF writes on which page a place is."""
    return f'<span class="page" data-of="{html.escape(name)}"></span>'


def _appendix(answers: list[Answer], where: Mapping[str, Chapter]) -> str:
    if not answers:
        return ""
    parts = ['<section class="chapter answers" id="answers">\n<h1>Answers</h1>\n'
             "<p>The forms on the site also tell which slip a wrong answer looks like.</p>\n"]
    page = None
    for answer in answers:
        if answer.page != page:
            if page is not None:
                parts.append("</section>\n")
            chapter = where[answer.page]
            page = answer.page
            parts.append(f'<section id="answers-{chapter.slug}">\n'
                         f"<h2>{html.escape(chapter.title)}</h2>\n")
        parts.append(
            f'<div class="answer mathjax_ignore tex2jax_ignore" id="A{answer.number}">'
            f'<p class="asked"><b>A{answer.number}</b> '
            f'<a href="#Q{answer.number}">Question {answer.number}{_page(f"Q{answer.number}")}</a>'
            f"</p>{answer.text}</div>\n")
    return "".join([*parts, "</section>\n</section>\n"])


def _heads(chapters: list[Chapter]) -> str:
    """Running heads: paper of its own name for each chapter."""
    def rule(slug: str, title: str) -> str:
        text = title.replace("\\", "\\\\").replace('"', '\\"').replace("<", "\\3c ")
        return (f'#{slug} {{ page: {slug}; }}\n'
                f'@page {slug} {{ @top-left {{ content: "{text}"; }} }}')

    return "\n".join([rule("contents", "Contents"), *(rule(c.slug, c.title) for c in chapters),
                      rule("answers", "Answers")])


def _figure_css() -> str:
    from roofline import plot

    return plot.CSS


_HEAD = """<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="only light">
<title>{title}: the whole book</title>
<link rel="icon" href="_static/favicon.svg">
<link rel="stylesheet" href="_static/pygments.css">
<link rel="stylesheet" href="_static/course.css">
<link rel="stylesheet" href="_static/paper.css">
<style>
{figures}
{heads}
</style>
{mathjax}
</head>
<body class="mathjax_ignore tex2jax_ignore">
"""


# --- the build ---------------------------------------------------------------------------------


def reading_order(app: Sphinx) -> list[str]:
    """Every page of the table of contents, in order."""
    def walk(page: str) -> Iterator[str]:
        yield page
        for child in app.env.toctree_includes.get(page, ()):
            yield from walk(child)

    return [page for page in dict.fromkeys(walk(app.config.root_doc)) if page not in SCREEN]


def _book(app: Sphinx, error: Exception | None) -> None:
    """Write book.html, unless it is that of these pages already."""
    if error or app.builder.name != "html":
        return
    out = Path(app.outdir)
    pages = {page: (out / f"{page}.html").read_text(encoding="utf-8")
             for page in reading_order(app)}
    digest = hashlib.sha256(Path(__file__).read_bytes() + repr((about(), pages)).encode())
    stamp = f"<!-- of {digest.hexdigest()} -->\n"
    path = out / NAME
    if path.exists() and path.read_text(encoding="utf-8").endswith(stamp):
        return
    logging.getLogger(__name__).info("writing %s, the whole book for paper", NAME)
    # The old one goes first: half a new one must not end with its stamp.
    path.write_text(book(pages, about()) + stamp, encoding="utf-8")


def _link(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any],
          doctree: Any) -> None:
    """A line at the foot of every page."""
    book = context["pathto"](NAME, 1)
    context["theme_extra_footer"] = (context.get("theme_extra_footer") or "") + (
        f'<p class="d-print-none"><a href="{book}">The whole book on one page, for paper</a></p>'
        '<p class="only-paper">Worked answers are printed where they were open. All of them are '
        "at the end of the whole book.</p>")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", _link)
    app.connect("build-finished", _book, priority=800)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
