"""Whatever in a folder tells an answer: looked for in its texts, page by page.

Question  does any file that participants get tell what a question asks?
Answer    secrets(page) of the committed page, from the problem bank; leaks(folder, ...) finds
          them in notebooks, HTML, indexes and data, in any SI writing, in words, lines and hashes
Assumes   nothing of how the editions are made: it reads files
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
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nbformat import NotebookNode

from roofline.check import Part, Question
from roofline.problems import ask
from roofline.units import BASES, SCALED, UNITS

from . import ROOT, editions
from .quantities import Quantity, bare, quantities

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
