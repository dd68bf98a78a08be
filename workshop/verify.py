"""`workshop verify [STUDENT_FOLDER]`: nothing leaks, stubs attempt cleanly, the key is right.

Question  may this be handed out, and does the key that belongs to it pass?
Answer    unclean(student), wrong(key) and differences(key, student) go through the questions of a
          page, by running their cells; main looks for leaks as well, in all that is handed out
Assumes   both editions are made
Ignores   what is asked with numbers of one's own from earlier cells, unless the pages are run
"""

import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum, is_grade

from roofline import predict
from roofline.check import Report
from roofline.problems import ask

from . import MADE, ROOT, Stop, editions
from .leaks import asked, leaks, secrets, stated

HANDED_OUT = ("site", "handout")  # beside the notebooks, where they have been made


# --- the notebooks' questions ----------------------------------------------------------------


def reports(notebook: NotebookNode) -> Iterator[tuple[str, Report | Exception]]:
    """What each question's check says to the answers that stand before it, by the question's id."""
    for asking, answer, check in zip(*(notebook.cells[k:] for k in range(3)), strict=False):
        if is_grade(check):
            scope: dict[str, Any] = {"ask": ask}
            try:
                for cell in (asking, answer, check):
                    exec(cell.source, scope)
                yield scope["q"].id, eval(check.source.splitlines()[0], scope)
            except Exception as error:  # whatever a cell raises is what is looked for
                yield getattr(scope.get("q"), "id", check.id), error


def unclean(student: NotebookNode) -> list[str]:
    """Questions and predictions of the student edition that do not attempt cleanly as they are."""
    found = [f"{name}: {report!r}" for name, report in reports(student) if not (
        isinstance(report, Report) and {o.kind for o in report.outcomes} == {"not attempted"})]
    for cell in student.cells:
        if cell.source.startswith("predict("):
            taken = eval(cell.source, {"predict": predict})
            found += [f"{taken.id}: filled in, {taken.filled}"] if taken.filled else []
    return found


def wrong(key: NotebookNode) -> list[str]:
    """Questions of the key whose answers do not all pass."""
    return [f"{name}: {report!r}" for name, report in reports(key)
            if not (isinstance(report, Report) and report.right)]


_SOLUTION = re.compile(r"### BEGIN (SOLUTION|HIDDEN TESTS)\n.*?### END \1", re.DOTALL)
_LOCKS = {"deletable", "editable"}


def differences(key: NotebookNode, student: NotebookNode) -> list[str]:
    """Where the two editions differ by more than answers: those between marks, blanks in prose."""
    found: list[str] = []
    for cell, other in zip_longest(key.cells, student.cells):
        if cell is None or other is None or cell.id != other.id:
            return [*found, f"{(cell or other).id}: in one edition only"]
        mine = _SOLUTION.sub("", cell.source).rstrip()
        kept = map(re.escape, re.split(r"\\text\{(?:\\_)+\}|____", other.source.rstrip()))
        prose = cell.cell_type == "markdown" and re.fullmatch(r"[\d.,]+".join(kept), mine)
        if not prose and mine != other.source.rstrip():
            found.append(f"{cell.id}: its text differs")
        if _metadata(cell) != _metadata(other):
            found.append(f"{cell.id}: its metadata differ")
        if other.metadata.get("nbgrader", {}).get("checksum") not in (None, _checksum(other)):
            found.append(f"{cell.id}: its checksum is of another text")
    return found


def _metadata(cell: NotebookNode) -> dict[str, Any]:
    """A cell's metadata but for nbgrader's locks and sums."""
    own = {name: value for name, value in cell.metadata.items() if name not in _LOCKS}
    if "nbgrader" in own:
        own["nbgrader"] = {name: value for name, value in own["nbgrader"].items()
                           if name not in ("checksum", "cell_type")}
    return own


def _checksum(cell: NotebookNode) -> str | None:
    return str(compute_checksum(cell)) if "nbgrader" in cell.metadata else None


def failing(path: Path) -> list[str]:
    """Cells that fail when a whole notebook is run, from its first cell to its last."""
    notebook = editions.read(path)
    NotebookClient(notebook, timeout=300, kernel_name="python3", allow_errors=True,
                   resources={"metadata": {"path": str(path.parent)}}
                   ).execute(stderr=subprocess.DEVNULL)  # the kernel's own remarks
    return [f"{cell.id}: {output.ename}: {output.evalue}" for cell in notebook.cells
            if cell.cell_type == "code" and "raises-exception" not in cell.metadata.get("tags", [])
            for output in cell.outputs if output.output_type == "error"]


# --- the command ---------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """`workshop verify [--run] [STUDENT_FOLDER]`; --run runs both editions' notebooks, too."""
    folders = [Path(argument) for argument in arguments if not argument.startswith("-")]
    if set(arguments) - {"--run"} - set(map(str, folders)) or len(folders) > 1:
        raise Stop(f"verify takes --run and one folder, got {' '.join(arguments)}")
    student = folders[0].resolve() if folders else MADE / "student"
    made = editions.pages()
    for folder in (student, MADE / "key"):
        missing = [page for page in made if not (folder / f"{page}.ipynb").is_file()]
        if missing:
            raise Stop(f"{folder} has no {missing[0]}.ipynb; make it with\n"
                       "  python3 course.py workshop key, then ... workshop student")
    found = [*looked_through(student, made), *compared(student, MADE / "key", made)]
    if "--run" in arguments:
        found += ran([folder / f"{page}.ipynb" for folder in (MADE / "key", student)
                      for page in made])
    for problem in found:
        print(f"  {problem}")
    print(f"verify: {len(found)} problems" if found else "verify: nothing leaks, every stub "
          "attempts cleanly, the key passes every check, and they differ by answers alone")
    return 1 if found else 0


def looked_through(student: Path, made: list[str]) -> list[str]:
    """Leaks of the student notebooks, and of what is handed out beside them where it is made."""
    pages = {page: secrets(page) for page in made}
    # What a page may say an index may say, too.
    said = stated("\n".join(cell.source for page in made
                            for cell in editions.read(student / f"{page}.ipynb").cells))
    found = []
    for folder in [student, *(MADE / name for name in HANDED_OUT if (MADE / name).is_dir())]:
        found += [f"{folder.name}/{leak}" for leak in leaks(folder, pages, said)]
        print(f"verify: looked through {folder}", flush=True)
    return found


def compared(student: Path, key: Path, made: list[str]) -> list[str]:
    """Where stubs do not attempt cleanly, the key fails, or the two are no pair."""
    found = []
    for page in made:
        mine, theirs = (editions.read(folder / f"{page}.ipynb") for folder in (key, student))
        told = [*unclean(theirs), *wrong(mine), *differences(mine, theirs)]
        if editions.text(editions.stripped(mine)) != (student / f"{page}.ipynb").read_text("utf-8"):
            told.append("the key, stripped, is not the student edition")
        ids = [question.id for question in asked(editions.read(ROOT / f"{page}.ipynb"))]
        if not ids == [name for name, _ in reports(theirs)] == [name for name, _ in reports(mine)]:
            told.append("it does not ask what the page asks")
        found += [f"{page}: {problem}" for problem in told]
    return found


def ran(paths: list[Path]) -> list[str]:
    """Failing cells of whole notebooks, two at a time, with the measurements that ship."""
    os.environ["ROOFLINE_RECORDED"] = "1"
    found = []
    with ThreadPoolExecutor(2) as pool:
        for path, told in zip(paths, pool.map(failing, paths), strict=True):
            print(f"verify: ran {path}", flush=True)
            found += [f"{path}: {problem}" for problem in told]
    return found
