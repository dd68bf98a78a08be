"""What somebody who missed days needs to start at a later one.

Question  which state does a day take from the days before it, and how does one get it?
Answer    NEEDS says what a page reads besides its own folder; catch_up(day) puts the earlier days
          there, answered, and recordings where the pages look for them; main(arguments)
Assumes   no page needs a cell of an earlier page to have run: each is run alone by the tests
Ignores   what one has to have understood: the notes of the day say that
"""

import argparse
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from roofline.device import store
from roofline.device.recording import RecordingError

from . import ROOT, Stop

try:
    from . import editions
except ModuleNotFoundError as missing:  # in an instance's own environment
    raise Stop(f"catch-up: no {missing.name} in this environment. Run it where course.py has set "
               "up the course, and copy work/lab/answered from there") from None

LAB = ROOT / "work" / "lab"  # where `course.py lab` has the reader's copies
NOTES = Path(__file__).parent / "notes"

_LAUNCHES = "recordings of its launches on a chip; without them the cost model stands in"
_COLUMN = "recordings of its calls, for the profiler's column; without them it says none yet"
# What a page reads under work/recorded, and what it does where that is not.
NEEDS = {
    "day1/your_cpu": "nothing: it measures this CPU and keeps the run",
    "day4/measured_roofs": "Day 1's run of this CPU; without it the page measures it. On a chip, "
                           + _LAUNCHES,
    "day5/reuse": _COLUMN,
    "day5/count_from_code": _COLUMN,
    "day6/trn2_sheet": "Day 4's recordings of a trn2, for the measured row of the sheet; without "
                       "them it says that there are none",
    "day7/capstone": _LAUNCHES,
    "day7/matmul": _LAUNCHES,
    "day7/swiglu": _LAUNCHES,
    "casestudy/vjepa2_mlp": _LAUNCHES,
}


def days() -> list[str]:
    """day1 to day7 and casestudy, in reading order."""
    return list(dict.fromkeys(page.partition("/")[0] for page in editions.pages()))


def before(day: str) -> list[str]:
    """The pages of all earlier days."""
    order = days()
    return [page for page in editions.pages()
            if order.index(page.partition("/")[0]) < order.index(day)]


def answered(key: NotebookNode) -> NotebookNode:
    """A page with every question answered and worked, and none of nbgrader's marks."""
    page = nbformat.from_dict(key)
    page.cells = [cell for cell in page.cells if not cell.id.endswith("-guess")]
    for cell in page.cells:
        marks = cell.metadata.pop("nbgrader", {})
        if marks.get("solution"):
            found = re.search(r"### BEGIN SOLUTION\n(.*)\n### END SOLUTION", cell.source, re.S)
            assert found, f"{cell.id}: no solution between its marks"
            cell.source = found[1]
        elif marks.get("grade"):
            cell.source = re.sub(r"### BEGIN HIDDEN TESTS\n.*### END HIDDEN TESTS", "",
                                 cell.source, flags=re.S).rstrip()
    return page


def put(pages: list[str], folder: Path) -> Iterator[str]:
    """Write answered pages and the files they load; yields what was there already, and stays."""
    for page in pages:
        source = ROOT / f"{page}.ipynb"
        text = editions.text(answered(editions.keyed(editions.read(source))))
        yield from _put(folder / f"{page}.ipynb", text.encode())
        for path in source.parent.rglob("*"):
            name = path.relative_to(ROOT)
            if path.is_file() and path.suffix != ".ipynb" and not re.search(
                    r"/\.|__pycache__", name.as_posix()):
                yield from _put(folder / name, path.read_bytes())


def _put(path: Path, content: bytes) -> Iterator[str]:
    if path.exists() and path.read_bytes() != content:
        yield str(path)
    elif not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}.new")
        fresh.write_bytes(content)
        fresh.replace(path)


def copy_recordings(source: Path, folder: Path) -> tuple[int, list[str]]:
    """Copy good recordings that are not there yet; how many, and what is wrong with the others."""
    if not source.is_dir():
        raise Stop(f"catch-up: --recordings: no folder {source}. It is the work/recorded of "
                   "whoever made them")
    copied, problems = 0, []
    for path in sorted(source.iterdir()):
        if path.name.startswith(".") or not path.is_dir() or (folder / path.name).exists():
            continue
        try:
            store.load(path)
        except RecordingError as error:
            problems.append(str(error))
            continue
        fresh = folder / f".part-{path.name}"
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(path, fresh)
        fresh.rename(folder / path.name)
        copied += 1
    return copied, problems


def told(day: str) -> str:
    """The day's own paragraph on catching up, from its notes, less the command that says it."""
    notes = (NOTES / f"{day}.md").read_text("utf-8")
    found = re.search(r"^## Catch-up\n(.*?)(?=^## |\Z)", notes, re.S | re.M)
    assert found, f"notes/{day}.md: no section Catch-up"
    return re.sub(r"\s*The\s+answered\s+pages[^:]*:\n\n {4}.*", "", found[1]).strip()


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python3 course.py workshop catch-up",
        description="Put the days before DAY there, answered, and say what DAY needs of them.")
    made.add_argument("day", choices=days(), metavar="DAY", help=", ".join(days()))
    made.add_argument("--to", type=Path, default=LAB / "answered", metavar="FOLDER",
                      help="where the answered pages go (work/lab/answered)")
    made.add_argument("--recordings", type=Path, metavar="FOLDER",
                      help="also copy the recordings of this folder")
    made.add_argument("--into", type=Path, default=ROOT / "work" / "recorded", metavar="FOLDER",
                      help="where they go (work/recorded)")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    earlier = before(options.day)
    kept = list(put(earlier, options.to))
    if earlier:
        print(f"{len(earlier)} answered pages of earlier days are in {options.to}")
    for name in kept:
        print(f"  kept {name}, which is there with other content; delete it to get ours")
    if options.recordings:
        options.into.mkdir(parents=True, exist_ok=True)
        copied, problems = copy_recordings(options.recordings, options.into)
        print(f"{copied} recordings copied to {options.into}")
        for problem in problems:
            print(f"  left out: {problem}", file=sys.stderr)
    for page in (page for page in NEEDS if page.startswith(f"{options.day}/")):
        print(f"{page} reads {NEEDS[page]}")
    print(f"\n{told(options.day)}")
    return 0
