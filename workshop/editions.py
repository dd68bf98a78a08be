"""The two editions of the notebooks: the answer key, and what participants get.

Question  how does one source give a key that nbgrader takes, and notebooks without any answer?
Answer    keyed(source) makes nbgrader's cells of each question, its answers between nbgrader's
          marks; stripped(key) takes them out, with nbgrader's own preprocessors
Assumes   a question is an `ask` cell, an attempt tagged remove-cell and a worked cell, in a row;
          what it asks stands in the call itself, not in a cell before it
Ignores   pages without cells, the site, who answers
"""

import ast
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
from nbformat import NotebookNode
from nbgrader import preprocessors as nbgrader
from nbgrader.nbgraderformat import SCHEMA_VERSION
from traitlets.config import Config

from roofline.check import Question
from roofline.problems import ask

from . import MADE, ROOT, Stop, prose

WIDTH = 92  # characters of a line of code that is written here
STUB = ""   # stands where a solution stood: the line before it is what is to be filled in
KEPT = ("minutes", "predict")  # of a cell's own metadata


def pages() -> list[str]:
    """The notebooks of the book in reading order, as `day1/roofline`."""
    found = re.findall(r"(?:file|root): *(\S+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [page for page in found if (ROOT / f"{page}.ipynb").exists()]


class Ask(NamedTuple):
    """name   what the cell calls the question       own   whether inputs stand in the call"""

    name: str
    question: Question
    own: bool


def asks(cell: NotebookNode) -> Ask | None:
    """What a cell asks with `q = ask(...)`; None where it asks nothing."""
    if cell.cell_type != "code" or "= ask(" not in cell.source:
        return None
    for line in ast.parse(cell.source).body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Call) and \
                ast.unparse(line.value.func) == "ask":
            call = line.value
            own = {key.arg: ast.literal_eval(key.value) for key in call.keywords if key.arg}
            asked = ask(*map(ast.literal_eval, call.args), **own)
            return Ask(ast.unparse(line.targets[0]), asked, bool(own))
    return None


def questions(notebook: NotebookNode) -> list[Question]:
    """What a notebook asks, in its order."""
    return [found.question for cell in notebook.cells if (found := asks(cell))]


# --- source to key -------------------------------------------------------------------------


def keyed(source: NotebookNode) -> NotebookNode:
    """The answer key of a page: nbgrader's source version of it, with the outputs it stores."""
    key = nbformat.from_dict(source)
    cells = iter(key.cells)
    key.cells = [made for cell in cells for made in _made(cell, cells)]
    if any(cell.id.endswith("-guess") for cell in key.cells):
        first = next(cell for cell in key.cells if cell.cell_type == "code")
        first.source = re.sub(
            r"^from roofline import (.+)$", lambda match: "from roofline import " + ", ".join(
                sorted([*match[1].split(", "), "predict"])), first.source, flags=re.MULTILINE)
    return key


def _made(cell: NotebookNode, after: Iterator[NotebookNode]) -> Iterator[NotebookNode]:
    """The key's cells for a cell; a question takes its other two cells from those after it."""
    own = cell.metadata.pop("roofline", {})
    if guess := own.get("predict"):
        for part in guess.parts.values():
            del part["found"]
        yield _code(f"{cell.id}-guess", _predict(guess))
    if kept := {name: own[name] for name in KEPT if name in own}:
        cell.metadata.roofline = kept
    asked = asks(cell)
    if not asked:
        yield cell
        return
    attempt, worked = next(after), next(after)
    if ".check(" not in attempt.source or ".worked()" not in worked.source:
        raise Stop(f"{cell.id}: the two cells after `ask` are no attempt and no worked answer")
    name, parts = asked.name, asked.question.parts
    cell.metadata.nbgrader = _graded(cell.id, locked=not asked.own)
    yield cell
    open_ = {part.name: "..." for part in parts}
    right = {part.name: f'"{part.answer}"' for part in parts}
    yield _code(f"{cell.id}-answer", [
        *_call("answers = dict", open_), "### BEGIN SOLUTION",
        *_call("answers = dict", right), f"{name}.worked()", "### END SOLUTION",
    ], worked.outputs, solution=True)
    yield _code(f"{cell.id}-check", [
        f"{name}.check(**answers)", "### BEGIN HIDDEN TESTS",
        f'assert {name}.check(**answers).right, "not every part is attempted"',
        "### END HIDDEN TESTS"], grade=True, locked=True, points=len(parts))


def _code(id: str, lines: list[str], outputs: list[Any] | None = None, **nbgrader: Any,
          ) -> NotebookNode:
    metadata = {"nbgrader": _graded(id, **nbgrader)} if nbgrader else {}
    return nbformat.v4.new_code_cell("\n".join(lines), id=id, outputs=outputs or [],
                                     metadata=metadata)


def _graded(id: str, grade: bool = False, solution: bool = False, locked: bool = False,
            points: int | None = None) -> dict[str, Any]:
    """nbgrader's metadata of a cell."""
    return {"grade_id": id, "grade": grade, "solution": solution, "locked": locked, "task": False,
            "schema_version": SCHEMA_VERSION} | ({} if points is None else {"points": points})


def _call(function: str, arguments: Mapping[str, str]) -> list[str]:
    """A call as lines of code; between two arguments a line may end."""
    lines, indent = [f"{function}("], " " * (len(function) + 1)
    for number, (name, value) in enumerate(arguments.items(), start=1):
        text = f"{name}={value}" + (")" if number == len(arguments) else ",")
        if len(lines[-1]) + len(text) < WIDTH:
            lines[-1] += text if lines[-1].endswith("(") else f" {text}"
        else:
            lines.append(indent + text)
    return lines


def _predict(guess: Mapping[str, Any]) -> list[str]:
    """A prediction to fill in: what each part is, with its unit or its options, and the part."""
    lines = [f'predict("{guess["id"]}",']
    for name, part in guess["parts"].items():
        asked = [part["label"] + (f", in {part['unit']}" if part.get("unit") else "")]
        if "options" in part:
            asked = [f"{asked[0]} One of", *(f"  {key!r}" + (f"  {says}" if says != key else "")
                                             for key, says in part["options"].items())]
        lines += [f"        # {line}" for line in asked]
        lines.append(f"        {name}=...,")
    lines[-1] = lines[-1].removesuffix(",") + ")"
    return lines


# --- key to student edition ----------------------------------------------------------------


class Blanks(nbgrader.NbGraderPreprocessor):
    """A blank in prose for each number that the page's questions ask."""

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        asked = questions(nb)
        for cell in nb.cells:
            if cell.cell_type == "markdown":
                cell.source = prose.blanked(cell.source, asked)
        return nb, resources


CONFIG = Config({"ClearSolutions": {"code_stub": {"python": STUB}}})
# As `nbgrader generate_assignment` has them, less what needs its database; its checksums are of
# what is left, so they tell nothing about an answer.
PREPROCESSORS = (nbgrader.LockCells, nbgrader.ClearSolutions, nbgrader.ClearOutput,
                 nbgrader.ClearHiddenTests, nbgrader.ClearMarkScheme, Blanks,
                 nbgrader.ComputeChecksums, nbgrader.CheckCellMetadata)


def stripped(key: NotebookNode) -> NotebookNode:
    """The student edition of a page, from its key."""
    student, resources = nbformat.from_dict(key), dict[str, Any]()
    for preprocessor in PREPROCESSORS:
        student, resources = preprocessor(parent=None, config=CONFIG).preprocess(student, resources)
    return student


# --- files ---------------------------------------------------------------------------------


def read(path: Path) -> NotebookNode:
    try:
        return nbformat.read(path, as_version=4)
    except (ValueError, AttributeError) as error:  # the latter for JSON of another kind
        raise Stop(f"{path}: expected a notebook, got {str(error).splitlines()[0][:60]}\n"
                   "  delete it and make it again") from error


def text(notebook: NotebookNode) -> str:
    """A notebook as it is stored: what is committed and what nbgrader writes differ by nothing."""
    return str(nbformat.writes(notebook, indent=1, sort_keys=True, ensure_ascii=False)) + "\n"


def write(folder: Path, made: Mapping[str, NotebookNode]) -> None:
    """Put pages into a new folder, with the kernels and data they load; it replaces an old one."""
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    for page, notebook in made.items():
        path = fresh / f"{page}.ipynb"
        if not path.parent.exists():
            shutil.copytree((ROOT / page).parent, path.parent, ignore=shutil.ignore_patterns(
                "*.ipynb", "__pycache__", ".*"))
        path.write_text(text(notebook), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


def key(arguments: list[str]) -> int:
    """`workshop key`: the answer key, nbgrader's source folder."""
    made = {page: keyed(read(ROOT / f"{page}.ipynb")) for page in pages()}
    return _told("key", made, arguments)


def student(arguments: list[str]) -> int:
    """`workshop student`: the notebooks for participants."""
    made = {page: stripped(keyed(read(ROOT / f"{page}.ipynb"))) for page in pages()}
    return _told("student", made, arguments)


def _told(name: str, made: Mapping[str, NotebookNode], arguments: list[str]) -> int:
    if arguments:
        raise Stop(f"{name} takes no arguments, got {' '.join(arguments)}")
    write(MADE / name, made)
    asked = sum(len(questions(notebook)) for notebook in made.values())
    print(f"{name}: {len(made)} notebooks with {asked} questions in {MADE / name}")
    return 0
