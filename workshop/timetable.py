"""Timetables of three routes, from the minutes that every section of a page carries.

Question  when does what begin, how long does it take, and what does a route leave out, and why?
Answer    route(name) -> Route, whose minutes add up; text() -> timetable.md; main(arguments)
Assumes   a section that the class works on is planned at its high minutes, one that is shown at
          its low ones; routes.toml names what is left out, and nothing else is
Ignores   how fast a room is: what to do with time that is left stands in `spare`
"""

import argparse
import difflib
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from . import ROOT, Stop

ROUTES = Path(__file__).with_name("routes.toml")
FILE = Path(__file__).with_name("timetable.md")


@dataclass(frozen=True)
class Section:
    """A section of a page: what its heading says, and its minutes from low to high."""

    page: str
    title: str
    low: int
    high: int


@dataclass(frozen=True)
class Slot:
    """A line of a timetable. `how` is work, show, own, break or lunch; times in minutes."""

    start: int
    minutes: int
    how: str
    what: str
    section: Section | None = None


@dataclass(frozen=True)
class Day:
    title: str
    start: int
    until: int
    spare: str
    slots: tuple[Slot, ...]

    @property
    def ends(self) -> int:
        return self.slots[-1].start + self.slots[-1].minutes

    def minutes(self, *hows: str) -> int:
        return sum(slot.minutes for slot in self.slots if slot.how in hows)


@dataclass(frozen=True)
class Route:
    name: str
    title: str
    aim: str
    days: tuple[Day, ...]
    skipped: tuple[tuple[Section, str], ...]  # in the book's order, each with its reason

    @property
    def taken(self) -> list[Slot]:
        return [slot for day in self.days for slot in day.slots if slot.section]


# --- what the book has ----------------------------------------------------------------------------


@cache
def sections(page: str) -> tuple[Section, ...]:
    """The sections of a page, from the metadata of its headings' cells."""
    path = ROOT / f"{page}.ipynb"
    if not path.is_file():
        raise Stop(f"{ROUTES.name}: no page {page}. Pages are: {', '.join(pages())}")
    found = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        minutes = cell["metadata"].get("roofline", {}).get("minutes")
        if minutes:
            title = re.match(r"#+ (.*)", "".join(cell["source"]))
            assert title, f"{page}: minutes on a cell without a heading"
            found.append(Section(page, title[1].strip(), *minutes))
    return tuple(found)


@cache
def pages() -> tuple[str, ...]:
    """The pages that have minutes, in reading order."""
    named = re.findall(r"file: *(\S+)", (ROOT / "_toc.yml").read_text("utf-8"))
    return tuple(page for page in named if (ROOT / f"{page}.ipynb").is_file())


def title_of(page: str) -> str:
    return sections(page)[0].title


# --- a route --------------------------------------------------------------------------------------


def names() -> list[str]:
    return [name for name in tomllib.loads(ROUTES.read_text("utf-8")) if name != "rules"]


def route(name: str) -> Route:
    """The route called `name`; raises Stop where it does not add up."""
    table = tomllib.loads(ROUTES.read_text("utf-8"))
    if name not in table or name == "rules":
        raise Stop(f"no route is called {name!r}; routes: {', '.join(names())}")
    return plan(name, table[name], table["rules"])


def plan(name: str, table: dict[str, Any], rules: dict[str, Any]) -> Route:
    """A route from its table in routes.toml."""
    skipped = _skipped(name, table.get("skip", []))
    used: list[str] = []
    days = tuple(_day(name, day, rules, skipped, used) for day in table["day"])
    for page in pages():
        for section in () if page in used else sections(page):
            if section not in skipped:
                raise Stop(f"route {name}: {page} is on no day. Give it a day, or a [[{name}.skip]]"
                           " with its reason")
    order = [section for page in pages() for section in sections(page)]
    return Route(name, table["title"], table["aim"], days,
                 tuple((section, skipped[section]) for section in order if section in skipped))


def _skipped(name: str, entries: list[dict[str, Any]]) -> dict[Section, str]:
    found: dict[Section, str] = {}
    for entry in entries:
        if "pages" in entry:
            left = [section for page in entry["pages"] for section in sections(page)]
        else:
            left = [_named(name, entry["page"], title) for title in entry["sections"]]
        for section in left:
            if section in found:
                raise Stop(f"route {name}: {section.page}, {section.title!r} is left out twice")
            found[section] = entry["why"]
    return found


def _named(name: str, page: str, title: str) -> Section:
    for section in sections(page):
        if section.title == title:
            return section
    near = difflib.get_close_matches(title, [s.title for s in sections(page)], n=2) or \
        [s.title for s in sections(page)][:3]
    raise Stop(f"route {name}: {page} has no section {title!r}; near it: {', '.join(near)}")


def _day(name: str, day: dict[str, Any], rules: dict[str, Any], skipped: dict[Section, str],
         used: list[str]) -> Day:
    tasks: list[tuple[str, int, str, Section | None]] = []
    for part in day["part"]:
        if "own" in part:
            tasks.append(("own", part["minutes"], part["own"], None))
            continue
        page = part["page"]
        if page in used:
            raise Stop(f"route {name}: {page} is on two days")
        used.append(page)
        shown = [_named(name, page, title) for title in part.get("show", [])]
        for section in shown:
            if section in skipped:
                raise Stop(f"route {name}: {page}, {section.title!r} is shown and left out")
        for section in sections(page):
            if section not in skipped:
                how = "show" if section in shown else "work"
                tasks.append((how, section.low if how == "show" else section.high, section.title,
                              section))
    start, until = _minute(day["start"]), _minute(day["until"])
    lunch = start < _minute(rules["lunch_from"]) and until > _minute(rules["lunch_after"])
    found = Day(day["title"], start, until, day["spare"],
                tuple(_placed(start, lunch, tasks, rules)))
    if found.ends > until:
        raise Stop(f"route {name}, {found.title}: ends at {clock(found.ends)}, "
                   f"{found.ends - until} min after its hours. Put sections under [[{name}.skip]] "
                   f"in {ROUTES.name}, with the reason, or give it more hours")
    return found


def _placed(start: int, lunch: bool, tasks: list[tuple[str, int, str, Section | None]],
            rules: dict[str, Any]) -> Iterator[Slot]:
    """Tasks one after the other, with breaks between sections by the rules."""
    now, worked, left = start, 0, sum(minutes for _, minutes, _, _ in tasks)
    for how, minutes, what, section in tasks:
        due = worked and worked + minutes > rules["longest"]
        pause = "break" if due and left > rules["last"] else ""
        if lunch and (now + minutes > _minute(rules["lunch_by"])
                      or (due and now >= _minute(rules["lunch_from"]))):
            pause, lunch = "lunch", False
        if pause:
            yield Slot(now, rules[pause], pause, pause.capitalize())
            now, worked = now + rules[pause], 0
        yield Slot(now, minutes, how, what, section)
        now, worked, left = now + minutes, worked + minutes, left - minutes


def _minute(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return 60 * int(hours) + int(minutes)


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


# --- as Markdown ----------------------------------------------------------------------------------

HOW = {"work": "class", "show": "shown", "own": "", "break": "", "lunch": ""}


def text() -> str:
    """The whole of timetable.md."""
    routes = [route(name) for name in names()]
    return "\n".join([
        "# Timetable", "",
        "Made by `python3 course.py workshop timetable` from the minutes of every section and",
        "from `routes.toml`; a test makes it again. To change a route, edit that file.", "",
        "A section that the class works on is planned at its high minutes: with those the slower",
        "half of a room gets through. A section that the instructor shows is planned at its low",
        "minutes: nobody types, and the room answers once. *Low to high* is the page's own range.",
        "Breaks stand between two sections, never inside one.", "",
        *_summary(routes),
        *(line for one in routes for line in _route(one))]) + "\n"


def _summary(routes: list[Route]) -> list[str]:
    lines = ["| Route | Its name | Class days | Sections | Low to high, min | Planned, min |"
             " Own slots, min |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for one in routes:
        low, high = (sum(getattr(slot.section, end) for slot in one.taken)
                     for end in ("low", "high"))
        anchor = one.title.lower().replace(" ", "-")
        planned, own = (sum(day.minutes(*hows) for day in one.days)
                        for hows in (("work", "show"), ("own",)))
        lines.append(f"| [{one.title}](#{anchor}) | `{one.name}` | {len(one.days)} |"
                     f" {len(one.taken)} | {low} to {high} | {planned} | {own} |")
    return lines


def _route(one: Route) -> list[str]:
    lines = ["", f"## {one.title}", "", one.aim]
    for number, day in enumerate(one.days, 1):
        heading = f"### {day.title}" if len(one.days) == 1 else f"### {number}. {day.title}"
        lines += ["", heading, "",
                  "| Begins | Planned, min | Low to high, min | What | How |",
                  "| --- | --- | --- | --- | --- |"]
        page = ""
        for slot in day.slots:
            if slot.section and slot.section.page != page:
                page = slot.section.page
                lines.append(f"| | | | **[{page}](../{page}.ipynb)** | |")
            span = f"{slot.section.low} to {slot.section.high}" if slot.section else ""
            lines.append(f"| {clock(slot.start)} | {slot.minutes} | {span} | {slot.what} |"
                         f" {HOW[slot.how]} |")
        worked = day.minutes("work", "show", "own")
        lines += ["", f"Ends at {clock(day.ends)}: {worked} min of work, "
                  f"{day.minutes('break', 'lunch')} min of breaks. Until {clock(day.until)} that "
                  f"leaves {day.until - day.ends} min: {day.spare}."]
    lines += ["", f"### Not in this route: {one.title}", "",
              "| Page | Sections | Low to high, min | Why |", "| --- | --- | --- | --- |"]
    for page, why, left in _grouped(one):
        whole = len(left) == len(sections(page))
        what = "all of it" if whole else "; ".join(section.title for section in left)
        lines.append(f"| [{page}](../{page}.ipynb) | {what} |"
                     f" {sum(s.low for s in left)} to {sum(s.high for s in left)} | {why} |")
    return lines


def _grouped(one: Route) -> Iterator[tuple[str, str, list[Section]]]:
    groups: dict[tuple[str, str], list[Section]] = {}
    for section, why in one.skipped:
        groups.setdefault((section.page, why), []).append(section)
    for (page, why), left in groups.items():
        yield page, why, left


# --- the command ----------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python3 course.py workshop timetable",
        description="Add up the minutes of the routes in workshop/routes.toml and write "
                    "workshop/timetable.md.")
    made.add_argument("--check", action="store_true",
                      help="write nothing: say whether the file is what would be written")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    made = text()
    there = FILE.read_text("utf-8") if FILE.exists() else ""
    if options.check and there != made:
        raise Stop(f"{FILE.name} is not what {ROUTES.name} and the pages' minutes give. Next: "
                   "python3 course.py workshop timetable")
    if not options.check:
        FILE.write_text(made, "utf-8")
    for name in names():
        one = route(name)
        spans = ", ".join(f"{clock(day.start)} to {clock(day.ends)}" for day in one.days)
        print(f"{one.title}: {sum(d.minutes('work', 'show', 'own') for d in one.days)} min of work;"
              f" {spans}")
    print(f"{FILE.relative_to(ROOT)} is {'as it should be' if options.check else 'written'}")
    return 0
