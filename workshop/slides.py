"""Slides of each day, cut from the built book: its idea, its figures, its prompts.

Question  what stands on the projector while a day is taught, where there may be no network?
Answer    one HTML file a day that opens from disk: slides.toml names what to show, the words are
          the page's sentences, a figure is the page's own bytes, live ones live; the instructor's
          slides have the same and notes with the answers
Assumes   the book is built (`python3 course.py build`), or --book names another build of it
Ignores   what to say: the notes of a day; how slides move: reveal.js, in vendor/reveal

Nothing that a page has behind a question comes before that question: a slide asks it, or says that
it is worked on in the notebook. Where slides.toml breaks this, or names what its page no longer
says, no slides are made.
"""

import argparse
import html
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from . import MADE, ROOT, Stop
from .pages import Thing, result_of, things

BOOK = ROOT / "_build" / "html"
HERE = Path(__file__).parent
NAMES = HERE / "slides.toml"
DAYS = tuple(f"day{n}" for n in range(1, 8))
_KEYS = {"at", "says", "figure", "table", "ask", "guess", "result", "work"}


# --- a day's pages -------------------------------------------------------------------------


@dataclass(frozen=True)
class Day:
    """What the pages of a day hold, in reading order."""

    name: str
    pages: Mapping[str, Sequence[Thing]]

    @cached_property
    def order(self) -> list[tuple[str, Thing]]:
        return [(page, thing) for page, those in self.pages.items() for thing in those]

    @property
    def title(self) -> str:
        return next(thing.html for _, thing in self.order if thing.kind == "title")

    def prompt(self, id: str) -> int:
        """Where a question or a prediction stands."""
        return self._one(f"question {id!r}", lambda thing: thing.id == id
                         and thing.kind in ("ask", "guess"))

    def result(self, id: str) -> int:
        return self._one(f"result of {id!r}", lambda thing: thing.kind == "result"
                         and thing.id == result_of(id))

    def section(self, at: str) -> list[int]:
        """Places of a section's things; `at` is day1/roofline#two-kinds-of-work."""
        page, _, section = at.partition("#")
        found = [n for n, (where, thing) in enumerate(self.order)
                 if where == page and thing.section == section]
        if not found:
            known = dict.fromkeys(t.section for t in self.pages.get(page, ()))
            raise Stop(f"slides.toml: {self.name}: no section {at!r}. Sections of {page!r}: "
                       f"{', '.join(known) or 'none, it is no page of the day'}")
        return found

    def shown(self, at: str, kind: str, number: int) -> int:
        """Place of a section's figure or table, counted from 1."""
        found = [n for n in self.section(at) if self.order[n][1].kind == kind]
        if not 1 <= number <= len(found):
            raise Stop(f"slides.toml: {self.name}: {at}: {kind} {number}; the section has "
                       f"{len(found)}")
        return found[number - 1]

    def said(self, at: str, begins: str) -> list[int]:
        """The sentence of a section that begins so, and the formulas that end it."""
        places = [n for n in self.section(at) if self.order[n][1].kind == "says"
                  and self.order[n][1].text.startswith(begins)]
        if len(places) != 1:
            raise Stop(f"slides.toml: {self.name}: {at}: {len(places)} sentences begin with "
                       f"{begins!r}; name one by its first words, as the page has them now")
        for n in range(places[0] + 1, len(self.order)):
            if self.order[n][1].kind != "formula":
                break
            places.append(n)
        return places

    def _one(self, what: str, found: Any) -> int:
        places = [n for n, (_, thing) in enumerate(self.order) if found(thing)]
        if len(places) != 1:
            raise Stop(f"slides.toml: {self.name}: {what}: found {len(places)} on "
                       f"{', '.join(self.pages)}; it has to be there once")
        return places[0]

    def begins(self, place: int) -> int:
        """Where the section of a thing begins."""
        page, thing = self.order[place]
        return next(n for n, (where, other) in enumerate(self.order) if where == page
                    and other.section == thing.section)

    def asked_before(self, place: int) -> list[str]:
        """The prompts that stand before a thing in its own section."""
        page, thing = self.order[place]
        return [other.id for where, other in self.order[:place] if where == page
                and other.section == thing.section and other.kind in ("ask", "guess")]


def day(name: str, pages: Sequence[str], book: Path) -> Day:
    """Read a day's pages from a built book."""
    found = {}
    for page in pages:
        path = book / f"{page}.html"
        if not path.is_file():
            raise Stop(f"slides: no page {path}. Build the book first: python3 course.py build, "
                       "or name a built one: --book FOLDER")
        found[page] = things(path.read_text(encoding="utf-8"))
    return Day(name, found)


# --- a slide -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slide:
    """One slide.

    kind    "title", "idea", "figure", "ask", "guess", "result" or "work"
    places  of what stands on it, in the day's order
    where   the heading of its section
    body    HTML
    note    what only the instructor's slides have
    """

    kind: str
    places: tuple[int, ...]
    where: str
    body: str
    note: str = ""


def slides(day: Day, entries: Sequence[Mapping[str, Any]], titles: Mapping[str, str]
           ) -> list[Slide]:
    """The slides of a day, its title first.

    titles  what each question is about, by id

    Raises Stop for an entry that its page does not have, and for one that comes too early.
    """
    made = [_title(day), *(_slide(day, entry, titles) for entry in entries)]
    shown: set[str] = set()
    latest = -1
    for number, slide in enumerate(made, 1):
        for place in slide.places:
            page, thing = day.order[place]
            if thing.kind in ("ask", "guess"):
                shown.add(thing.id)
                continue
            missing = [id for id in day.asked_before(place) if id not in shown]
            if missing:
                raise Stop(f"slides.toml: {day.name}: slide {number} shows what {page} has behind "
                           f"{', '.join(missing)}: {thing.text[:60]!r}. Ask it on a slide before, "
                           "or give it to do: work = [...]")
        for section in map(day.begins, slide.places):
            if section < latest:
                raise Stop(f"slides.toml: {day.name}: slide {number} ({slide.where}) goes back to "
                           "an earlier section; slides follow the pages")
            latest = section
    return made


def _title(day: Day) -> Slide:
    first = next(iter(day.pages.values()))
    lead = [thing for thing in first if thing.kind == "says"
            and thing.text.startswith(("Goal.", "Time."))]
    paragraphs = [" ".join(t.html for t in first if t.block == one.block) for one in lead]
    return Slide("title", (), "", f"<h1>{day.title}</h1>"
                 + "".join(f"<p>{said}</p>" for said in paragraphs))


def _slide(day: Day, entry: Mapping[str, Any], titles: Mapping[str, str]) -> Slide:
    if unknown := set(entry) - _KEYS:
        raise Stop(f"slides.toml: {day.name}: got {', '.join(sorted(unknown))}; a slide has "
                   f"{', '.join(sorted(_KEYS))}")
    if "work" in entry:
        return _work(day, entry["work"], titles)
    if "ask" in entry or "guess" in entry:
        return _asked(day, entry)
    if "result" in entry:
        place = day.result(entry["result"])
        return Slide("result", (place,), _heading(day, place), day.order[place][1].html)
    at = entry["at"]
    places = [place for begins in entry.get("says", ()) for place in day.said(at, begins)]
    said = "".join(_says(day.order[place][1]) for place in places)
    for kind in ("figure", "table"):
        if kind in entry:
            place = day.shown(at, kind, entry[kind])
            shown = day.order[place][1].html
            how = kind if kind == "table" else "live" if shown.startswith("<div") else "drawn"
            return Slide("figure", tuple(sorted([*places, place])), _heading(day, place),
                         f'<div class="said">{said}</div>\n<div class="shown {how}">{shown}</div>')
    if not places:
        raise Stop(f"slides.toml: {day.name}: {at}: name sentences (says), a figure or a table")
    return Slide("idea", tuple(sorted(places)), _heading(day, places[0]), said)


def _says(thing: Thing) -> str:
    return thing.html if thing.kind == "formula" else f"<p>{thing.html}</p>"


def _asked(day: Day, entry: Mapping[str, Any]) -> Slide:
    kind = "ask" if "ask" in entry else "guess"
    place = day.prompt(entry[kind])
    page, thing = day.order[place]
    before = [p for begins in entry.get("says", ())
              for p in day.said(f"{page}#{thing.section}", begins)]
    said = "".join(_says(day.order[p][1]) for p in before)
    note = f"<p><code>{thing.id}</code></p><pre>{html.escape(thing.answer)}</pre>"
    return Slide(kind, (*sorted(before), place), _heading(day, place),
                 f'{said}<div class="asked">{thing.html}</div>'
                 f'<p class="id">{_in_notebook(thing)}</p>', note)


def _in_notebook(thing: Thing) -> str:
    """Where participants put their answer."""
    return f"In your notebook: <code>{'ask' if thing.kind == 'ask' else 'predict'}(" \
           f"&quot;{thing.id}&quot;)</code>"


_LABEL = re.compile(r"(?:<ul class=\"parts\">|</li>)<li>(.*?)(?=<ul>|</li>)")


def _work(day: Day, ids: Sequence[str], titles: Mapping[str, str]) -> Slide:
    places = sorted(day.prompt(id) for id in ids)
    items, notes = [], []
    for place in places:
        thing = day.order[place][1]
        about = html.escape(titles[thing.id]) if thing.kind == "ask" else \
            "Guess: " + "; ".join(_LABEL.findall(thing.html))
        items.append(f"<li>{about} <code>{thing.id}</code></li>")
        notes.append(f"<p><code>{thing.id}</code></p><pre>{html.escape(thing.answer)}</pre>")
    headings = {_heading(day, place) for place in places}
    return Slide("work", tuple(places), headings.pop() if len(headings) == 1 else day.title,
                 f'<p>In your notebook:</p><ul class="parts">{"".join(items)}</ul>',
                 "".join(notes))


def _heading(day: Day, place: int) -> str:
    """Heading of the section in which a thing stands."""
    page, thing = day.order[place]
    return next((other.html for where, other in day.order if where == page
                 and other.section == thing.section and other.kind in ("heading", "title")), "")


# --- a deck --------------------------------------------------------------------------------

_HEAD = """<!DOCTYPE html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: slides</title>
<link rel="stylesheet" href="reveal/reveal.css">
<style>
{figures}
</style>
<link rel="stylesheet" href="slides.css">
<script>window.MathJax = {{ options: {{ processHtmlClass: "math" }} }}</script>
<script defer src="mathjax/tex-mml-chtml.js"></script>
</head>
<body class="mathjax_ignore tex2jax_ignore">
"""


def deck(day: Day, made: Sequence[Slide], *, notes: bool) -> str:
    """HTML of a day's slides; `notes` puts the instructor's into it."""
    title = html.unescape(re.sub(r"<[^>]+>", "", day.title))
    shown = "\n".join(_section(slide, notes) for slide in made)
    return (_HEAD.format(title=html.escape(title), figures=_figure_css())
            + f'<div class="reveal"><div class="slides">\n{shown}\n</div></div>\n'
            + '<script src="reveal/reveal.js"></script>\n'
            + '<script src="reveal/notes.js"></script>\n' * notes
            + '<script src="slides.js"></script>\n</body>\n</html>\n')


_TAGS = {"ask": "Question", "guess": "Predict", "work": "Work", "result": "Result"}


def _section(slide: Slide, notes: bool) -> str:
    tag = _TAGS.get(slide.kind, "")
    head = f"<h2>{slide.where}</h2>" if slide.where else ""
    label = f'<p class="tag">{tag}</p>' * bool(tag)
    aside = f'\n<aside class="notes">{slide.note}</aside>' * bool(notes and slide.note)
    return (f'<section class="{slide.kind}">\n<header>{label}{head}</header>\n'
            f'<div class="body">\n{slide.body}\n</div>{aside}\n</section>')


def _figure_css() -> str:
    from roofline import plot

    return plot.CSS


# --- all days ------------------------------------------------------------------------------

_KEYBOARD = (("→ or Page Down, ← or Page Up", "next slide, the one before"), ("O", "all slides"),
             ("F", "full screen"), ("D", "light or dark"), ("G", "go to a slide by its number"),
             ("Esc", "takes the keys back from a figure that was clicked"), ("?", "every key"))


def write(target: Path, decks: Mapping[str, tuple[Day, list[Slide]]], *, notes: bool) -> None:
    """A folder of slides that opens from disk at index.html; it takes the place of an old one."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, (day, made) in decks.items():
        (target / f"{name}.html").write_text(deck(day, made, notes=notes), encoding="utf-8")
    (target / "index.html").write_text(_index(decks, notes), encoding="utf-8")
    for name in ("slides.css", "slides.js"):
        shutil.copy(HERE / name, target)
    shutil.copytree(HERE / "vendor" / "reveal", target / "reveal",
                    ignore=None if notes else shutil.ignore_patterns("notes.js"))
    shutil.copytree(ROOT / "assets" / "vendor" / "mathjax", target / "mathjax")


def _index(decks: Mapping[str, tuple[Day, list[Slide]]], notes: bool) -> str:
    keys = _KEYBOARD + (("S", "your own window: notes with the answers, the next slide, a clock"),
                        ) * notes
    rows = "".join(f"<tr><td><kbd>{html.escape(key)}</kbd></td><td>{html.escape(does)}</td></tr>"
                   for key, does in keys)
    days = "".join(f'<li><a href="{name}.html">{day.title}</a>, {len(made)} slides</li>'
                   for name, (day, made) in decks.items())
    kind = "Slides, with the instructor's notes" if notes else "Slides"
    return (_HEAD.format(title="From hardware entitlement to roofline", figures="")
            .replace('<body class="', '<body class="days ')
            + f"<main><h1>{kind}</h1>\n<ul>{days}</ul>\n<h2>Keys</h2>\n<table>{rows}</table>\n"
              "<p>A figure that can be dragged or played takes the keys once it is clicked.</p>"
              "</main>\n</body>\n</html>\n")


def decks(book: Path) -> dict[str, tuple[Day, list[Slide]]]:
    """Every day's slides, by day."""
    plan = tomllib.loads(NAMES.read_text(encoding="utf-8"))
    titles = tomllib.loads((ROOT / "_ext" / "practice.toml").read_text(encoding="utf-8"))["titles"]
    found = {}
    for name in DAYS:
        one = day(name, plan[name]["pages"], book)
        found[name] = one, slides(one, plan[name]["slides"], titles)
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="workshop slides", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--book", type=Path, default=BOOK, metavar="FOLDER",
                        help="the built book (_build/html)")
    parser.add_argument("--to", type=Path, default=MADE, metavar="FOLDER",
                        help="where slides/ and instructor/slides/ are written (work/workshop)")
    options = parser.parse_args(arguments)
    made = decks(options.book)
    for target, notes in ((options.to / "slides", False), (options.to / "instructor/slides", True)):
        write(target, made, notes=notes)
        print(f"slides: {sum(len(slides) for _, slides in made.values())} in {len(made)} days: "
              f"{target / 'index.html'}" + " (with answers in the notes)" * notes)
    return 0
