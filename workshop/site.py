"""The student edition as a site, and its questions on paper.

Question  what can the room read on the hub and offline, with no answer anywhere in it?
Answer    site: Jupyter Book's pages of the student notebooks, not run, each question and guess as
          text, with an index of its own and a zip of itself; handout: the questions of each day
          with room to write
Assumes   the student notebooks are made (`workshop student`); a Markdown page tells no answer but
          in its numbers, what its blocks compute, folded answers and live figures
Ignores   how notebooks lose their answers (editions.py), and whether they all did (verify.py)

Left out of the site: forms, worked answers, live figures, practice, the explorer, the book for
paper, cells that run in the page, the course's folder.
"""

import argparse
import html
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import yaml  # type: ignore[import-untyped]
from nbformat import NotebookNode

from roofline.check import Part, Question

from . import MADE, ROOT, Stop, editions, prose
from .pages import Thing, things

LEFT_OUT = ("practice", "explorer")
EXTENSIONS = ("coursebook", "firstuse", "offline", "finding", "workshop.site")
# What assets/ has for pages with forms, and for those that run cells.
_SCRIPTS = ("progress.js", "practice.js", "run.js", "run.worker.mjs", "paper.css")


# --- a question as text ----------------------------------------------------------------------


def asked(id: str, kind: str, text: str, parts: Sequence[Mapping[str, Any]]) -> str:
    """HTML of a question or a guess: what is asked, and each part with its unit or its options.

    kind    "ask" or "guess"
    parts   each with label, and a unit or options (texts)
    """
    def item(part: Mapping[str, Any]) -> str:
        says = html.escape(part["label"])
        if part.get("options"):
            listed = "".join(f"<li>{html.escape(option)}</li>" for option in part["options"])
            return f"<li>{says}<ul>{listed}</ul></li>"
        return f"<li>{says}{' in ' + html.escape(part['unit']) if part.get('unit') else ''}</li>"

    return (f'<div class="asked mathjax_ignore tex2jax_ignore" data-kind="{kind}" '
            f'data-id="{html.escape(id)}"><p class="ask">{html.escape(text)}</p>'
            f'<ul class="parts">{"".join(map(item, parts))}</ul></div>')


def _question(question: Question) -> str:
    data = question.form_data()
    return asked(data["id"], "ask", data["ask"], [
        {"label": part["label"] or part["name"], "unit": part.get("unit"),
         "options": [says for _, says in part.get("options", ())]} for part in data["parts"]])


def _guess(guess: Mapping[str, Any]) -> str:
    return asked(guess["id"], "guess", "Your guess, before you look", [
        {"label": part["label"], "unit": part.get("unit"),
         "options": list(part.get("options", {}).values())} for part in guess["parts"].values()])


def _shown(notebook: NotebookNode) -> NotebookNode:
    """A student notebook as its page shows it: each question and guess is its cell's output."""
    guess: Any = None
    for cell in reversed(notebook.cells):   # a guess stands before the cell that it is about
        own = cell.metadata.pop("roofline", {})
        if found := editions.asks(cell):
            cell.outputs = [_output(_question(found.question))]
        elif guess and cell.id.endswith("-guess"):
            cell.outputs, guess = [_output(_guess(guess))], None
        guess = own.get("predict", guess)
        # Nothing is folded where nothing is shown.
        cell.metadata.tags = [tag for tag in cell.metadata.get("tags", []) if not
                              tag.startswith("hide-")]
    return notebook


def _output(markup: str) -> NotebookNode:
    return nbformat.v4.new_output("display_data", data={"text/html": markup})


# --- the pages -------------------------------------------------------------------------------

_FENCE = re.compile(r"^(`{3,})\{(?:worked|live)\}.*?^\1 *\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(rf"\[([^\]]*)\]\((?:\.\./)?(?:{'|'.join(LEFT_OUT)})\.(?:md|html)[^)]*\)")
_SECTIONS = ("The model in brief", "The week", "What it assumes", "What kind of number is this?")


def without_answers(text: str, questions: Sequence[Question]) -> str:
    """A Markdown page without folded answers, live figures, links to pages that are left out."""
    return prose.blanked(_unlinked(_FENCE.sub("", text)), questions)


def _unlinked(text: str) -> str:
    return _LINK.sub(r"\1", text)


def front(intro: str) -> str:
    """The first page: what this edition is, then the sections of intro.md that hold for it too."""
    title, *sections = re.split(r"^(?=##? )", intro.strip(), flags=re.MULTILINE)[1:]
    kept = {part.splitlines()[0].removeprefix("## "): part for part in sections}
    # Of the week, the table: what follows it is about pages of the whole book.
    kept["The week"] = re.split(r"(?<=\|\n)\n", kept["The week"])[0]
    lead = (Path(__file__).parent / "student.md").read_text(encoding="utf-8")
    return "\n\n".join(part.strip() for part in (title, lead, *(kept[n] for n in _SECTIONS))) + "\n"


def source(student: Path, target: Path) -> None:
    """Everything that Jupyter Book reads: pages, table of contents, configuration."""
    made = editions.pages()
    if missing := [page for page in made if not (student / f"{page}.ipynb").is_file()]:
        raise Stop(f"no {missing[0]}.ipynb in {student}; make the student notebooks first:\n"
                   "  python3 course.py workshop student")
    shutil.copytree(student, target)    # with the kernels and the data that pages link to
    questions: list[Question] = []
    for page in made:
        notebook = editions.read(student / f"{page}.ipynb")
        questions += editions.questions(notebook)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = _unlinked(cell.source)
        (target / f"{page}.ipynb").write_text(editions.text(_shown(notebook)), encoding="utf-8")
    toc = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    toc = re.sub(rf"^ *- file: (?:{'|'.join(LEFT_OUT)})\n", "", toc, flags=re.MULTILINE)
    for page in re.findall(r"(?:file|root): *(\S+)", toc):
        if page not in made:
            text = (ROOT / f"{page}.md").read_text(encoding="utf-8")
            text = front(text) if page == "intro" else text
            (target / f"{page}.md").write_text(without_answers(text, questions), encoding="utf-8")
    shutil.copytree(ROOT / "_static", target / "_static")
    (target / "_toc.yml").write_text(toc, encoding="utf-8")
    (target / "_config.yml").write_text(yaml.safe_dump(_config()), encoding="utf-8")


def _config() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    config["title"] += ", student edition"
    config["exclude_patterns"] = ["_build"]
    config["execute"] = {"execute_notebooks": "off"}
    config["sphinx"]["config"]["html_use_index"] = False
    del config["sphinx"]["local_extensions"]
    config["sphinx"]["extra_extensions"] = list(EXTENSIONS)
    return config


def build(student: Path, target: Path) -> None:
    """Build the site at `target`; an old one stays until the new one is there."""
    scratch = target.with_name(f".{target.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        source(student, scratch / "source")
        env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "_ext")))}
        done = subprocess.run(
            [sys.executable, str(Path(sys.executable).with_name("jupyter-book")), "build",
             str(scratch / "source"), "--path-output", str(scratch), "-W", "-n", "--keep-going"],
            cwd=ROOT, env=env, capture_output=True, text=True)
        if done.returncode:
            told = re.findall(r"^.*(?:WARNING|ERROR|Error):.*$", done.stderr + done.stdout,
                              re.MULTILINE)
            log = target.with_name(f"{target.name}.log")
            log.write_text(done.stdout + done.stderr, encoding="utf-8")
            raise Stop("the student site did not build.\n" + "\n".join(told[:10])
                       + f"\nThe log is in {log}")
        shutil.rmtree(target, ignore_errors=True)
        (scratch / "_build" / "html").rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


# --- the extension ---------------------------------------------------------------------------

_CSS = """<style>
.asked { border-left: 4px solid var(--pst-color-primary); margin: 0.5rem 0; padding: 0.3rem 1rem; }
.asked .ask { margin: 0 0 0.5rem; white-space: pre-line; }
.asked[data-kind="guess"] .ask { font-weight: 600; }
.asked ul { margin: 0; }
</style>"""


def _page(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
          ) -> None:
    context["metatags"] = f"{context.get('metatags', '')}\n{_CSS}"
    # How large the zip is would be a number of the page; some question's answer may be the same.
    context["theme_extra_footer"] = context["theme_extra_footer"].replace(
        ', <span class="offline-size"></span>', "")
    context["script_files"] = [script for script in context["script_files"]
                               if not str(getattr(script, "filename", "")).endswith(_SCRIPTS)]


def _drop(app: Any, error: Exception | None) -> None:
    for name in _SCRIPTS:
        (Path(app.outdir) / "_static" / name).unlink(missing_ok=True)


@cache
def _questions() -> list[Question]:
    return [question for page in editions.pages()
            for question in editions.questions(editions.read(ROOT / f"{page}.ipynb"))]


_COUNT = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])")


def _uncounted(text: str) -> str:
    """Text with a blank for each whole number that is an answer, and that no question gives."""
    given = {count for question in _questions() for count in _COUNT.findall(repr(question))}
    right = {f"{part.value:,.0f}" for question in _questions() for part in question.parts
             if isinstance(part, Part)} - given
    return _COUNT.sub(lambda count: prose.BLANK if count[0] in right else count[0], text)


def setup(app: Any) -> dict[str, Any]:
    from coursebook import Computed
    from docutils import nodes

    class Blanked(Computed):
        """{computed} with a blank for each number that a question asks."""

        def show(self, source: str) -> list[nodes.Node]:
            made = super().show(source)
            for block in (node for node in made if isinstance(node, nodes.literal_block)):
                text = _uncounted(prose.blanked(block.astext(), _questions()))
                block.rawsource, block[:] = text, [nodes.Text(text)]
            return made

    app.add_directive("computed", Blanked, override=True)
    app.connect("html-page-context", _page, priority=700)
    app.connect("build-finished", _drop, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


# --- on paper --------------------------------------------------------------------------------

_PAPER = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="only light">
<title>{title}</title>
<link rel="stylesheet" href="handout.css">
<script>window.MathJax = {{ options: {{ processHtmlClass: "math" }} }}</script>
<script defer src="mathjax/tex-mml-chtml.js"></script>
</head>
<body class="mathjax_ignore tex2jax_ignore">
{body}
</body>
</html>
"""


def _paper(title: str, body: str) -> str:
    return _PAPER.format(title=html.escape(title), body=body)


def _name(day: str) -> str:
    """"day1" as a reader says it."""
    return f"Day {day[3:]}" if day.startswith("day") else "Case study"


def _sheet(found: Sequence[Thing], before: int) -> str:
    """A page's questions with what stands right above them, numbered on, and room to write."""
    parts, number = [], before
    for place, thing in enumerate(found):
        if thing.kind == "title":
            parts.append(f'<section><h1>{thing.html}</h1>\n<p class="who">Name</p>')
        elif thing.kind not in ("ask", "guess"):
            continue
        else:
            heading = next((other for other in reversed(found[:place])
                            if other.kind in ("heading", "title")), None)
            if heading and heading.kind == "heading" and _line(heading.html) not in parts:
                parts.append(_line(heading.html))
            number += 1
            kind = "Question" if thing.kind == "ask" else "Guess"
            parts.append(f'<div class="prompt"><p class="number">{kind} {number} '
                         f"<code>{thing.id}</code></p>{_above(found, place)}{thing.html}"
                         f'<div class="room for-{thing.kind}"></div></div>')
    return "\n".join([*parts, "</section>\n"])


def _line(heading: str) -> str:
    return f"<h2>{heading}</h2>"


def _above(found: Sequence[Thing], place: int) -> str:
    """The paragraph that leads to a question, with its formulas."""
    said: list[Thing] = []
    for thing in reversed(found[:place]):
        if thing.kind not in ("says", "formula") or (
                said and thing.kind == "says" and said[0].kind == "says"
                and thing.block != said[0].block):
            break
        said.insert(0, thing)
    return "".join(thing.html if thing.kind == "formula" else f"<span>{thing.html} </span>"
                   for thing in said)


# --- the commands ----------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """`workshop site`: the student edition as a site."""
    options = _arguments("site", arguments)
    build(options.student, options.to / "site")
    print(f"site: {options.to / 'site' / 'index.html'}")
    return 0


def handout(arguments: list[str]) -> int:
    """`workshop handout`: every question and guess on paper, a file for each day."""
    options = _arguments("handout", arguments)
    pages = editions.pages()
    site = options.to / "site"
    if missing := [page for page in pages if not (site / f"{page}.html").is_file()]:
        raise Stop(f"no {missing[0]}.html in {site}; the handout is made from the student site:\n"
                   "  python3 course.py workshop site")
    target = options.to / "handout"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    days: dict[str, str] = {}
    counts = dict.fromkeys((page.partition("/")[0] for page in pages), 0)
    for page in pages:
        found = things((site / f"{page}.html").read_text(encoding="utf-8"))
        prompts = sum(thing.kind in ("ask", "guess") for thing in found)
        if prompts:
            day = page.partition("/")[0]
            days[day] = days.get(day, "") + _sheet(found, counts[day])
            counts[day] += prompts
    for day, body in days.items():
        (target / f"{day}.html").write_text(_paper(_name(day), body), encoding="utf-8")
    listed = "".join(f'<li><a href="{day}.html">{_name(day)}</a></li>' for day in days)
    (target / "index.html").write_text(_paper(
        "Questions on paper", "<h1>Questions on paper</h1><p>Print one day; the answers are not "
        f"in here.</p><ul>{listed}</ul>"), encoding="utf-8")
    shutil.copy(Path(__file__).with_name("handout.css"), target)
    shutil.copytree(ROOT / "assets" / "vendor" / "mathjax", target / "mathjax")
    print(f"handout: {sum(counts.values())} questions and guesses in {len(days)} files: "
          f"{target / 'index.html'}")
    return 0


def _arguments(part: str, arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"workshop {part}")
    parser.add_argument("--student", type=Path, default=MADE / "student", metavar="FOLDER",
                        help="the student notebooks (work/workshop/student)")
    parser.add_argument("--to", type=Path, default=MADE, metavar="FOLDER",
                        help=f"where {part}/ is written (work/workshop)")
    return parser.parse_args(arguments)
