"""The practice page: every problem again, with other numbers, today or some days from now.

Question  where does a reader practise what the pages asked, and where did they ask it?
Answer    asked(): each form and prediction with its page and section; fresh(): variants of a
          problem that no page shows, written to one script a day; the directive {practice}
Assumes   notebooks mark forms and predictions in their cells' metadata; an id begins with its day
Ignores   which problems make a round and when one comes back (assets/practice.js), and where
          that is kept (assets/progress.js)
"""

import hashlib
import html
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from coursebook import Html, fingerprint
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PAGE = "practice"          # the document with the rounds
TITLES = Path(__file__).with_suffix(".toml")
FORM_SEEDS = range(16)     # what a page's own form shows, by "Another one"
SEEDS = range(16, 40)      # where fresh variants come from
MOST, LEAST = 12, 4        # variants of a problem: enough not to know them by heart


# --- what the pages ask --------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A problem's form or a prediction, where a page asks it.

    kind      "form" or "guess"
    page      document name: "day1/roofline"
    title     heading of the page
    section   heading above it
    """

    id: str
    kind: str
    page: str
    title: str
    section: str

    @property
    def day(self) -> str:
        return self.id.partition(".")[0]

    @property
    def href(self) -> str:
        return f"{self.page}.html#{self.kind}-" + re.sub(r"[^\w.-]", "-", self.id)


_DOCUMENT = re.compile(r"^[\s-]*(?:root|file): *(\S+)", re.MULTILINE)


def notebooks(root: Path) -> list[Path]:
    """The notebooks of _toc.yml, in reading order."""
    names = _DOCUMENT.findall((root / "_toc.yml").read_text("utf-8"))
    return [path for name in names if (path := root / f"{name}.ipynb").exists()]


_HEADING = re.compile(r"^#{1,6} +(.*)$", re.MULTILINE)


def asked(root: Path) -> list[Asked]:
    """What the course asks, in reading order."""
    found = []
    for path in notebooks(root):
        title = section = ""
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                for heading in _HEADING.findall("".join(cell["source"])):
                    section = re.sub(r"[$`*]", "", heading)
                    title = title or section
                continue
            marks = cell["metadata"].get("roofline", {})
            page = path.relative_to(root).with_suffix("").as_posix()
            if "form" in marks:
                found.append(Asked(marks["form"], "form", page, title, section))
            if "predict" in marks:
                found.append(Asked(marks["predict"]["id"], "guess", page, title, section))
    return found


def by_day(things: Iterable[Asked]) -> dict[str, list[Asked]]:
    days: dict[str, list[Asked]] = {}
    for one in things:
        days.setdefault(one.day, []).append(one)
    return days


@cache
def titles() -> Mapping[str, str]:
    """What each problem is about, in a few words, by id."""
    return tomllib.loads(TITLES.read_text("utf-8"))["titles"]


# --- variants ------------------------------------------------------------------------------

# What a notebook's reader may do besides; no part of the question.
_IN_LAB = re.compile(r" \(In JupyterLab, .*\)$", re.DOTALL)

# A question that needs more than its own text: what shows that, and what it needs.
_BOUND = (
    (re.compile(r"\byour own\b|\bof your own\b", re.IGNORECASE), "it asks for figures of your own"),
    (re.compile(r"\bthis page\b"), "it speaks of its page"),
    (re.compile(r"^The same\b"), "it goes on from the question before it"),
)


def plain(ask: str) -> str:
    """The question without its remark on JupyterLab."""
    return _IN_LAB.sub("", ask)


def bound(id: str) -> str:
    """Why a problem stays on its page; "" for one that can be asked anywhere."""
    from roofline import problems

    text = plain(problems.BANK[id].ask)
    return next((why for found, why in _BOUND if found.search(text)), "")


def fresh(id: str) -> list[Any]:
    """Variants of a problem, as questions, with numbers no page shows.

    Where a problem has few, those behind a form's "Another one" fill up, and its page's own
    numbers never do; one that has no numbers to draw is the one variant it is.
    """
    from roofline import problems

    if problems.BANK[id].draw is None:
        return [problems.ask(id, SEEDS[0])]
    found: dict[str, Any] = {}
    on_page = {str(q.given): q for q in (problems.ask(id, seed) for seed in FORM_SEEDS)}
    for seed in SEEDS:
        question = problems.ask(id, seed)
        if str(question.given) not in on_page and len(found) < MOST:
            found.setdefault(str(question.given), question)
    for given, question in list(on_page.items())[1:]:
        if len(found) < LEAST:
            found[given] = question
    return list(found.values()) or [problems.ask(id, SEEDS[0])]


_DATA = re.compile(r'class="rl-form-data">(.*?)</script>', re.DOTALL)


def form_data(id: str) -> Any:
    """A problem's fresh variants as `figures.form` puts variants into a page: count, folded."""
    from roofline.figures import forms

    variants = []
    for question in fresh(id):
        data = question.form_data()
        del data["seed"]
        variants.append(data | {"ask": plain(data["ask"])})
    found = _DATA.search(forms.markup(id, variants))
    assert found
    return json.loads(found[1])


def concepts(ids: Iterable[str]) -> dict[str, str]:
    """The first problem with the same models, for each that is another one with other inputs."""
    from roofline import problems

    first: dict[Any, str] = {}
    same = {id: first.setdefault(problems.BANK[id].body, id) for id in ids}
    return {id: other for id, other in same.items() if id != other}


# --- the data files ------------------------------------------------------------------------


def scripts(days: Mapping[str, list[str]]) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Each day's script: (day, text, {problem: how many variants})."""
    from roofline.figures.live import to_json

    for day, ids in days.items():
        data = {id: form_data(id) for id in ids}
        yield (day, f"(globalThis.coursePractice ??= {{}}).{day} = {to_json(data)};\n",
               {id: one["count"] for id, one in data.items()})


def _manifest(app: Sphinx) -> Path:
    return Path(app.outdir).parent / ".practice.json"


def _write(app: Sphinx) -> None:
    """One script a day below _static/practice/; nothing to do while the bank is the same."""
    if app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / "practice"
    days = {day: [one.id for one in those if one.kind == "form" and not bound(one.id)]
            for day, those in by_day(asked(Path(app.srcdir))).items()}
    state = hashlib.sha256((fingerprint() + json.dumps(days)).encode()).hexdigest()
    kept = _manifest(app)
    if kept.exists():
        known = json.loads(kept.read_text("utf-8"))
        if known["state"] == state and all((folder / f"{day}.js").exists() for day in days):
            return
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[str, Any] = {}
    for day, text, counts in scripts(days):
        (folder / f"{day}.js").write_text(text, "utf-8")
        written[day] = {"stamp": hashlib.sha256(text.encode()).hexdigest()[:8], "counts": counts}
    kept.write_text(json.dumps({"state": state, "days": written}), "utf-8")


# --- the page ------------------------------------------------------------------------------


def edition(things: Iterable[Asked]) -> dict[str, Any]:
    """Ids of this edition, by day: what progress counts."""
    return {"days": {day: {
        "title": those[0].title.partition(":")[0],
        **{kind: [one.id for one in those if one.kind == kind] for kind in ("form", "guess")}}
        for day, those in by_day(things).items()}}


def catalog(things: Iterable[Asked], written: Mapping[str, Any]) -> dict[str, Any]:
    """What a round is made of: for each day its script, and its problems in reading order."""
    forms = [one for one in things if one.kind == "form" and not bound(one.id)]
    like = concepts(one.id for one in forms)
    return {"days": [{
        "id": day, "title": those[0].title, "stamp": written[day]["stamp"],
        "src": f"_static/practice/{day}.js?{written[day]['stamp']}",
        "problems": [{"id": one.id, "title": titles()[one.id], "section": one.section,
                      "page": one.title, "href": one.href,
                      "count": written[day]["counts"][one.id],
                      **({"opens": True} if ".open." in one.id else {}),
                      **({"like": like[one.id]} if one.id in like else {})} for one in those]}
        for day, those in by_day(forms).items()]}


def listed(things: Iterable[Asked]) -> str:
    """HTML of every problem by day and page, each a link to its place."""
    def item(one: Asked) -> str:
        why = bound(one.id)
        note = f' <span class="rl-bound">(on its page only: {html.escape(why)})</span>' * bool(why)
        return (f'<li><a href="{html.escape(one.href)}">{html.escape(titles()[one.id])}</a>'
                f"{note}</li>")

    parts = []
    for day, those in by_day(one for one in things if one.kind == "form").items():
        parts.append(f'<details class="rl-day" id="every-{day}" open>'
                     f"<summary><h3>{html.escape(those[0].title)}</h3></summary>")
        for page in dict.fromkeys(one.page for one in those):
            here = [one for one in those if one.page == page]
            if page != those[0].page:
                parts.append(f"<h4>{html.escape(here[0].title)}</h4>")
            parts.append(f"<ul>{''.join(map(item, here))}</ul>")
        parts.append("</details>")
    return f'<div class="rl-every mathjax_ignore tex2jax_ignore">{"".join(parts)}</div>\n'


_BOX = ('<div id="rl-practice" class="rl-practice d-print-none" data-rl-progress="off">'
        '<p class="rl-noscript">Where scripts run, the rounds start here. Without them, the list '
        "of every question below leads to each one's page, with its worked answer.</p></div>\n")


def empty_form() -> str:
    """The library's form with no question in it, for the script to fill."""
    from roofline.figures import forms

    nothing = {"id": "practice.question", "ask": "", "worked": "", "parts": []}
    return f'<template id="rl-practice-form">{forms.markup("practice", [nothing])}</template>\n'


class Practice(SphinxDirective):
    """```{practice} round``` is where rounds are played; ```{practice} list``` every problem."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from roofline import figures
        from roofline.figures.live import to_json

        root = Path(self.env.srcdir)
        for path in (*notebooks(root), root / "_toc.yml", TITLES):
            self.env.note_dependency(str(path))
        things = asked(root)
        if self.arguments[0] == "list":
            return [Html(html=listed(things))]
        if self.arguments[0] != "round":
            raise self.error(f"practice: expected round or list, got {self.arguments[0]!r}")
        kept = _manifest(self.env.app)
        written = json.loads(kept.read_text("utf-8"))["days"] if kept.exists() else {}
        data = [("rl-edition", edition(things))]
        data += [("rl-practice-data", catalog(things, written))] * bool(written)
        made = "".join(f'<script type="application/json" id="{id}">{to_json(value)}</script>\n'
                       for id, value in data)
        return [Html(html=_BOX + made + empty_form() + figures.form_script())]


def _page(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: Any) -> None:
    if pagename == PAGE:
        app.add_js_file("practice.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("practice", Practice)
    app.connect("builder-inited", _write)
    app.connect("html-page-context", _page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
