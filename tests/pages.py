"""The book's pages as sections: prose beside the text that its cells or blocks print.

A section runs from one heading to the next. In a notebook its cells' stored text outputs are
what nbval compares, so they are as good as computed; in a Markdown page each {computed} block
is evaluated here.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import coursebook
import yaml

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Section:
    page: str
    title: str
    prose: str = ""
    outputs: list[str] = field(default_factory=list)  # what its cells print, in order
    forms: list[str] = field(default_factory=list)    # ids of the problems it asks


def book_pages() -> list[Path]:
    """Every page of _toc.yml, in reading order."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    names = [toc["root"]]

    def walk(node):
        if isinstance(node, dict):
            if "file" in node:
                names.append(node["file"])
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk({key: value for key, value in toc.items() if key != "root"})
    return [next(ROOT / f"{name}{end}" for end in (".ipynb", ".md")
                 if (ROOT / f"{name}{end}").exists()) for name in names]


def notebooks() -> list[Path]:
    return [page for page in book_pages() if page.suffix == ".ipynb"]


def cell_source(cell: dict) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def cell_text(cell: dict) -> str:
    """The text outputs of a code cell."""
    texts = []
    for output in cell.get("outputs", []):
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        texts.append(text if isinstance(text, str) else "".join(text))
    return "\n".join(texts)


HEADING = re.compile(r"^#{1,6} +(.*)$")
FENCE = re.compile(r"^(`{3,}|~{3,}|:{3,})")


def _add_markdown(sections: list[Section], page: str, text: str) -> None:
    scope: dict = {}  # the {computed} blocks of a page share their names, as in the book
    fence, body, kind = "", [], ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if fence and mark and line.strip() == fence:
            if kind == "{computed}":
                source = "\n".join(row for row in body if not row.startswith(":"))
                scope.update(coursebook.names(source))
                sections[-1].outputs.append(coursebook.run(source, scope))
            fence = ""
        elif fence:
            body.append(line)
        elif mark and not mark[1].startswith(":"):
            fence, body = mark[1], []
            kind = line[len(fence):].split()[0] if line[len(fence):].split() else ""
        elif heading := HEADING.match(line):
            sections.append(Section(page, heading[1]))
            sections[-1].prose += heading[1] + "\n"
        else:
            sections[-1].prose += line + "\n"


def sections(path: Path) -> list[Section]:
    """The sections of one page."""
    page = str(path.relative_to(ROOT))
    found = [Section(page, "")]
    if path.suffix == ".md":
        _add_markdown(found, page, path.read_text())
        return found
    for cell in json.loads(path.read_text())["cells"]:
        if cell["cell_type"] == "markdown":
            _add_markdown(found, page, cell_source(cell))
        elif cell["cell_type"] == "code":
            found[-1].outputs.append(cell_text(cell))
            form = cell["metadata"].get("roofline", {}).get("form")
            if form:
                found[-1].forms.append(form)
    return found


def steps(path: Path) -> Iterator[tuple[str, str, str]]:
    """What a reader of a notebook meets, in order: (kind, text, problem id).

    kind   "prose", "form" (the text is the question) or "output"; folded answers are left out
    """
    for cell in json.loads(path.read_text())["cells"]:
        form = cell["metadata"].get("roofline", {}).get("form", "")
        if cell["cell_type"] == "markdown":
            yield "prose", cell_source(cell), ""
        elif cell["cell_type"] == "code" and "worked" not in cell["metadata"].get("tags", []):
            yield ("form" if form else "output"), cell_text(cell), form
