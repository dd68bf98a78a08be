"""`workshop verify [STUDENT_FOLDER]`: nothing leaks, stubs attempt cleanly, the key is right.

Question  may this be handed out, and does the key that belongs to it pass?
Answer    secrets(page) of the committed page, from the problem bank; leaks(folder) looks for them
          in every text of a folder; stubs, answers and pairs go through the notebooks' questions
Assumes   nothing of how the editions are made: it reads files, and runs cells
Ignores   pictures and fonts; files that are an installed package's or committed as they are; what
          a cell prints once it is run; fresh numbers (seeds)

A number that some question of the page gives is no leak: whoever reads the question has it.
"""

import ast
import hashlib
import html
import json
import math
import os
import re
import subprocess
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nbclient import NotebookClient
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum, is_grade

from roofline import predict
from roofline.check import Part, Question, Report
from roofline.problems import ask
from roofline.units import BASES, SCALED, UNITS

from . import MADE, ROOT, Stop, editions
from .quantities import Quantity, bare, quantities

HANDED_OUT = ("site", "handout")  # beside the notebooks, where they have been made
SKIPPED = {".png", ".jpg", ".ico", ".gif", ".woff", ".woff2", ".ttf", ".pdf", ".wasm"}
INDEX = "searchindex.js"
ICONS = "_static/scripts/fontawesome.js"  # the theme's, less the icons that no page shows
SHIPPED = ("assets", "_static", "lib/roofline/figures")  # of the repository, as they are
SHORT = 200     # characters of a JSON value that is read beside its name, too
LINE = 16       # characters: a shorter line of a worked answer may be anybody's
DIGITS = 4      # a number without a unit tells something when it has as many
HEX = re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{16,128}(?![0-9a-fA-F])")
MARKS = re.compile(  # of solutions, worked answers and the data of forms
    r"(?:BEGIN|END) (?:SOLUTION|HIDDEN TESTS)|\.worked\(\)|Worked answer|rl-form-data|data-form-id"
    r"|class=[\"']worked|[\"'](?:slips|rivals|accept|found|form|worked|right)[\"']\s*:")


# --- what must not be told -----------------------------------------------------------------

Stated = set[tuple[str, str]]  # numbers that are no secret: unit ("bare": none), value to 9 digits
_ALL = ("", "1.00000000e+00")  # 100 % is a word for all of it


def stated(text: str) -> Stated:
    """The numbers that a text has, with their units and as they stand."""
    return {(found.unit, f"{found.value:.8e}") for found in quantities(text)} | {
        ("bare", f"{found.value:.8e}") for found in bare(text)}


@dataclass(frozen=True)
class Secrets:
    """questions   that a page asks; told   what it tells by asking, predictions and all"""

    questions: tuple[Question, ...]
    told: str

    @cached_property
    def given(self) -> Stated:
        return stated(self.told) | {_ALL}

    @cached_property
    def numbers(self) -> dict[str, list[tuple[str, Part]]]:
        """By unit."""
        found: dict[str, list[tuple[str, Part]]] = {unit: [] for unit in BASES}
        for question in self.questions:
            for part in question.parts:
                if isinstance(part, Part):
                    found[part.unit].append((f"{question.id}, {part.name}", part))
        return found

    @cached_property
    def words(self) -> dict[str, re.Pattern[str]]:
        """The right one of a choice or a text, named as the answer."""
        return {f"{question.id}, {part.name}": re.compile(
                    rf"(?<!\w){part.name}['\"]?\s*[=:]\s*['\"]?{re.escape(part.answer)}(?![\w/])")
                for question in self.questions for part in question.parts
                if not isinstance(part, Part) and part.answer not in UNITS}

    @cached_property
    def lines(self) -> dict[str, str]:
        """The lines of worked answers that are in no question."""
        told = _spaced(self.told)
        found = {}
        for question in self.questions:
            whys = "\n".join(part.why for part in question.parts)
            for line in f"{question.worked()}\n{question._worked(page=True)}\n{whys}".splitlines():
                text = _spaced(line)
                if len(text) >= LINE and text not in told and not text.startswith("Given: "):
                    found[text] = question.id
        return found

    @cached_property
    def digests(self) -> dict[str, str]:
        """First 16 hex digits of an answer's hash -> whose it is."""
        return {hashlib.new(kind, text.encode()).hexdigest()[:16]: f"{question.id}, {part.name}"
                for question in self.questions for part in question.parts
                for text in _writings(part) for kind in ("md5", "sha1", "sha256", "sha512")}


def _writings(part: Any) -> set[str]:
    """An answer as somebody might hash it."""
    if not isinstance(part, Part):
        return {part.answer}
    whole = {str(int(part.value))} if part.value == int(part.value) else set()
    return {part.answer, repr(part.value), part.answer.split()[0], *whole}


def _spaced(text: str) -> str:
    return " ".join(text.split())


def asked(notebook: NotebookNode) -> list[Question]:
    """What the cells of a notebook ask, read from their code; a function's own calls are not."""
    found: dict[str, Question] = {}
    for cell in notebook.cells:
        lines = ast.parse(cell.source).body if cell.cell_type == "code" else []
        for node in (node for line in lines if not isinstance(line, ast.FunctionDef)
                     for node in ast.walk(line)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ask":
                own = {key.arg: ast.literal_eval(key.value) for key in node.keywords if key.arg}
                question = ask(*map(ast.literal_eval, node.args), **own)
                found.setdefault(question.id, question)
    return list(found.values())


def secrets(page: str) -> Secrets:
    """What the committed page asks."""
    notebook = editions.read(ROOT / f"{page}.ipynb")
    questions = asked(notebook)
    guesses = [cell.metadata.get("roofline", {}).get("predict", {}) for cell in notebook.cells]
    labels = [part["label"] for guess in guesses for part in guess.get("parts", {}).values()]
    return Secrets(tuple(questions), "\n".join([*map(repr, questions), *labels]))


# --- looking for it ------------------------------------------------------------------------


def texts(path: Path) -> Iterator[str]:
    """What a file says: JSON string by string, HTML with its tags beside it, an index by words."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix in (".ipynb", ".json"):
        yield from _strings(json.loads(text))
    elif path.suffix == ".css":
        yield "\n".join(re.findall(r"\"[^\"\n]*\"|'[^'\n]*'", text))
    elif text.startswith('Search.setIndex({"'):
        index = json.loads(text[text.index("(") + 1:text.rindex(")")])
        for words in (index.pop("terms", {}), index.pop("titleterms", {})):
            yield (listed := " ; ".join(words))
            yield listed.upper()  # its words have lost their capitals: gb
        yield from _strings(index)
    elif path.suffix in (".html", ".svg", ".xml"):
        for script in re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL):
            yield _unescaped(script)
        text = re.sub(r"<script[^>]*>.*?</script>|<style.*?</style>", " ", text, flags=re.DOTALL)
        yield html.unescape(" ".join(re.findall(r"<[^>]*>", text)))
        text = re.sub(r"<sup[^>]*>", "^", text)
        text = re.sub(r"</?(?:b|i|em|strong|span|sup|sub)\b[^>]*>", "", text)  # inside a word
        yield html.unescape(re.sub(r"<[^>]*>", " ", text))
    else:
        yield _unescaped(text) if path.suffix in (".js", ".mjs") else text


def _strings(node: Any) -> Iterator[str]:
    """Every string of a JSON value; every name and short value once more as `"name": value`."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            shown = json.dumps(value, ensure_ascii=False)
            yield f'"{name}": {shown if len(shown) < SHORT else ""}'
            yield from _strings(value)
    elif isinstance(node, list) and all(isinstance(part, str) for part in node):
        yield "".join(node)  # the lines of a cell
    elif isinstance(node, list):
        for value in node:
            yield from _strings(value)
    else:
        yield node if isinstance(node, str) else json.dumps(node)


def _unescaped(script: str) -> str:
    return re.sub(r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), script)


def found_in(text: str, secrets: Secrets, known: Stated) -> Iterator[str]:
    """Each secret that a text tells; `known` are numbers that are no secret."""
    for number in quantities(text):
        if (number.unit, f"{number.value:.8e}") not in known:
            for name in _answered(number, secrets):
                yield f"{name}: {number.text}"
    for number in bare(text):
        digits = re.sub(r"\D", "", number.text.lower().partition("e")[0]).strip("0")
        if len(digits) >= DIGITS and ("bare", f"{number.value:.8e}") not in known:
            for unit in SCALED:
                yield from (f"{name}: {number.text}, in {unit}"
                            for name, part in secrets.numbers[unit]
                            if _same(number.value, part.value, len(digits)))
    spaced = _spaced(text)
    yield from (f"{name}: worked, {line!r}" for line, name in secrets.lines.items()
                if line in spaced)
    yield from (f"{name}: {match[0]!r}" for name, pattern in secrets.words.items()
                if (match := pattern.search(text)))
    yield from (f"{secrets.digests[match[0][:16].lower()]}: its hash, {match[0][:16]}..."
                for match in HEX.finditer(text) if match[0][:16].lower() in secrets.digests)
    yield from (f"a mark of answers, {match[0]!r}" for match in MARKS.finditer(text))


def _answered(number: Quantity, secrets: Secrets) -> Iterator[str]:
    for name, part in secrets.numbers.get(number.unit, []):
        if any(low <= number.value <= high for low, high in part.right):
            yield name


def _same(number: float, value: float, digits: int) -> bool:
    """Whether a number is the value, as far as its digits go."""
    return math.isclose(number, value, rel_tol=0.5 * 10.0 ** (1 - digits) + 1e-12) and \
        f"{number:.{digits - 1}e}" == f"{value:.{digits - 1}e}"


def leaks(folder: Path, pages: Mapping[str, Secrets], known: Stated) -> list[str]:
    """What the files of a folder tell: a page's file of that page's questions, others of all.

    pages   page, as `day1/roofline` -> its secrets
    known   numbers that files of no one page may have, beside those that questions give

    A search index may have what the pages have, which are looked through themselves.
    """
    everything = Secrets(tuple(question for page in pages.values() for question in page.questions),
                         "\n".join(page.told for page in pages.values()))
    found: list[str] = []
    said: list[str] = []
    for path in sorted(folder.rglob("*"), key=lambda path: (path.name == INDEX, path)):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".zip":
            with TemporaryDirectory() as inside:
                _extract(path, folder, Path(inside))
                found += [f"{name}/{leak}" for leak in leaks(Path(inside), pages, known)]
            continue
        if not path.is_file() or path.suffix in SKIPPED or name == ICONS or _is_shipped(path):
            continue
        page = next((page for page in pages if f"/{name}".endswith(f"/{page}{path.suffix}")), None)
        secrets = pages[page] if page else everything
        none = secrets.given if page else secrets.given | known
        if path.suffix == ".html":
            said += texts(path)
        if path.name == INDEX:  # its words end at a "/"
            none = none.union(*(stated(re.sub(r"(?<=[A-Z])/\w+", "", text)) for text in said))
        told = (leak for text in texts(path) for leak in found_in(text, secrets, none))
        found += [f"{name}: {leak}" for leak in dict.fromkeys(told)]
    return found


def _extract(path: Path, folder: Path, inside: Path) -> None:
    """The files of an archive that are no file of the folder, whatever folder the archive adds."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            twin = folder / name.partition("/")[2]
            if not (twin.is_file() and twin.read_bytes() == archive.read(name)):
                archive.extract(name, inside)


def _is_shipped(path: Path) -> bool:
    """Whether a file is, byte for byte, a kernel or data of the course, its assets, or a package's.

    A page is none of these, notebook or text, nor is a file that is named as nothing there.
    """
    size = path.stat().st_size
    return path.suffix not in (".ipynb", ".md", ".html") and any(
        other.stat().st_size == size and other.read_bytes() == path.read_bytes()
        for other in _shipped().get(path.name, []))


@cache
def _shipped() -> dict[str, list[Path]]:
    """Files by name."""
    tops = [*(ROOT / top for top in SHIPPED), *{(ROOT / page).parent for page in editions.pages()},
            Path(sysconfig.get_paths()["purelib"])]
    found: dict[str, list[Path]] = {}
    for folder, _, names in (step for top in tops for step in os.walk(top)):
        for name in names:
            found.setdefault(name, []).append(Path(folder, name))
    return found


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
