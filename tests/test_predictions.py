"""Predictions: what draws or measures asks for a guess first, and each guess has its answer.

A cell shows something when it draws, or tells of a measurement, a modelled run, a ledger or the
clockwork. Before it, or on it, its section has a prediction, a question's form or a live figure
that asks for a guess of its own; or its metadata says why there is nothing to guess.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import nbformat
import pytest
from pages import ROOT, cell_text, notebooks
from prose import is_bound, numbers
from test_device_lint import plain

from roofline import figures, problems, units

NOTEBOOKS = {path.relative_to(ROOT).as_posix(): nbformat.read(path, as_version=4).cells
             for path in notebooks()}
DRAWING = {"plot", "figures"}
DRAWN = {"Point", "Series", "Case"}  # what they draw, and no drawing
MEASURING = {
    "device": {"capture", "condensed", "gap", "intervals", "knee", "loop", "measure", "published",
               "published_kernels", "recorded", "roofs", "sweep", "together"},
    "host": {"latest", "run"},
    "gaps": {"ledger"},
    "profile": {"compare"},
    "": {"Clockwork"},
}
ASKING = {"clockwork", "crossover", "explorer", "nest", "recount", "roofline"}  # of figures
LABEL = 60  # characters

each_page = pytest.mark.parametrize("page", NOTEBOOKS)


def tags(cell: Any) -> list[str]:
    return cell.metadata.get("tags", [])


def own(cell: Any) -> dict[str, Any]:
    return cell.metadata.get("roofline", {})


def folded(cell: Any) -> bool:
    return bool({"hide-output", "hide-cell", "remove-cell", "remove-output"} & set(tags(cell)))


def sections(cells: list[Any]) -> list[list[Any]]:
    """The cells under each heading, its own first."""
    found: list[list[Any]] = [[]]
    for cell in cells:
        if cell.cell_type == "markdown" and re.match("#{1,6} ", cell.source):
            found.append([])
        found[-1].append(cell)
    return found


# --- what a cell shows -----------------------------------------------------------------------


def calls(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(module, function) of every call, with no module for a bare name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            module, _, name = ast.unparse(node.func).rpartition(".")
            yield module, name


def draws(module: str, name: str) -> bool:
    return module in DRAWING and name not in DRAWN


def measures(module: str, name: str) -> bool:
    return name in MEASURING.get(module, ())


def of_question(cell: Any) -> bool:
    return "form" in own(cell) or bool({"remove-cell", "worked"} & set(tags(cell)))


def showing(cells: list[Any]) -> set[str]:
    """Ids of the cells whose text is of a drawing or a measurement, by call or by a name."""
    names: set[str] = set()
    found = set()
    for cell in cells:
        if cell.cell_type != "code":
            continue
        tree = ast.parse(plain(cell.source))
        loads = {n.id for n in ast.walk(tree)
                 if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        stores = {n.id for n in ast.walk(tree)
                  if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        stores |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        drawn, measured = (any(how(*call) for call in calls(tree)) for how in (draws, measures))
        if measured or (loads - stores) & names:
            names |= stores
        else:
            names -= stores
            names |= {n.name for n in ast.walk(tree) if drawn and isinstance(n, ast.FunctionDef)}
        if ((drawn or measured or (loads - stores) & names) and cell_text(cell).strip()
                and not of_question(cell)):
            found.add(cell.id)
    return found


def asks(cell: Any) -> bool:
    """Whether this cell has the reader guess something."""
    if cell.cell_type != "code":
        return False
    live = any(module == "figures" and name in ASKING
               for module, name in calls(ast.parse(plain(cell.source))))
    return live or "form" in own(cell) or "predict" in own(cell)


@each_page
def test_what_shows_something_is_guessed_first_or_says_why_not(page):
    shown, silent, needless = showing(NOTEBOOKS[page]), [], []
    for section in sections(NOTEBOOKS[page]):
        asked = False
        for cell in section:
            asked = asked or asks(cell)
            reason = own(cell).get("unguessed")
            if cell.id in shown and not asked and not (reason and len(reason.split()) >= 3):
                silent.append(cell.id)
            if reason is not None and (asked or cell.id not in shown):
                needless.append(cell.id)
    assert not silent, ("they show a drawing or a measurement, and nothing in their section asks "
                        f"for a guess before: {silent}")
    assert not needless, f"`unguessed` where a guess is asked for, or nothing is shown: {needless}"


@pytest.mark.parametrize(("source", "found"), [
    ("plot.roofline(core, [Point('a', 1)])", True),
    ("Point('a', 1)", False),
    ("machine.trn1", False),
    ("one = device.measure(call)\none", True),
    ("Clockwork(K=3).at(3)", True),
    ("gaps.ledger(one.profile)", True),
])
def test_what_shows(source, found):
    def code(source, text="x", **metadata):
        return nbformat.v4.new_code_cell(source, metadata=metadata, outputs=[
            nbformat.v4.new_output("stream", text=text)] if text else [])

    cells = [code(source), code(source, text=""), code(source, tags=["worked"]),
             code("one = device.measure(call)", text=""), code("one.time"),
             code("def placed(x):\n    return plot.curve(x)", text=""), code("placed(2)"),
             code("one = 2"), code("one")]
    shown = showing(cells)
    assert [cell.id in shown for cell in cells] == [
        found, False, False, False, True, False, True, False, False]


# --- predictions -----------------------------------------------------------------------------


@dataclass
class Prediction:
    """One of a page, with what its section shows before and after it."""

    page: str
    cell: Any
    before: list[Any]
    after: list[Any]
    id: str = field(init=False)
    parts: dict[str, dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.id, self.parts = own(self.cell)["predict"]["id"], own(self.cell)["predict"]["parts"]

    @property
    def text(self) -> str:
        return cell_text(self.cell)

    def found(self, name: str) -> str:
        (value,) = re.findall(self.parts[name]["found"], self.text, re.MULTILINE)
        return value


PREDICTIONS = [Prediction(page, cell, section[:i], section[i + 1:])
               for page, cells in NOTEBOOKS.items() for section in sections(cells)
               for i, cell in enumerate(section) if "predict" in own(cell)]
each_prediction = pytest.mark.parametrize("one", PREDICTIONS, ids=lambda one: one.id)

# What stands in the section before it is asked, each with why that is no answer:
# {(prediction, part): reason}
NOT_AN_ANSWER: dict[tuple[str, str], str] = {
    ("day1.four-bounds", "cell"): "LBMHD on the Opteron is as fast, in two digits, by chance",
}


def test_every_page_with_results_has_predictions():
    pages = {one.page for one in PREDICTIONS}
    assert {page for page in NOTEBOOKS if showing(NOTEBOOKS[page])
            } <= pages


def test_ids_are_unique_and_no_problems():
    ids = [one.id for one in PREDICTIONS]
    assert len(ids) == len(set(ids)) and not set(ids) & set(problems.BANK)


@each_prediction
def test_a_prediction_finds_its_answers(one):
    """In the stored text, which is what the page shows; each once, and in its unit."""
    assert set(own(one.cell)["predict"]) == {"id", "parts"}
    assert figures.prediction(one.id, one.parts, one.text)


@each_prediction
def test_a_prediction_has_its_pages_day(one):
    folder = one.page.partition("/")[0]
    assert re.fullmatch(r"[a-z]\w*\.[a-z0-9-]+", one.id)
    assert one.id.partition(".")[0] == {"casestudy": "vjepa2"}.get(folder, folder)


@each_prediction
def test_its_cell_folds_and_so_does_what_tells_the_same_later(one):
    assert "hide-output" in tags(one.cell) and not of_question(one.cell)
    told = [cell.id for cell in one.after if cell.cell_type == "code" and not folded(cell)
            and not asks(cell) for name in one.parts if says(cell, one, name)]
    assert not told, f"{one.id}: they show the answer, unfolded: {told}"


@each_prediction
def test_the_prose_above_asks(one):
    for cell in reversed(one.before):
        if cell.cell_type == "markdown":
            assert re.search(r"\?|\b(Guess|Predict)\b", cell.source), \
                f"{one.id}: {cell.id} asks nothing"
            return
        assert not of_question(cell), f"{one.id}: a question stands between it and its prose"
    raise AssertionError(f"{one.id}: there is no prose above it in its section")


@each_prediction
def test_labels_are_short_and_tell_nothing(one):
    assert 1 <= len(one.parts) <= 3
    labels = [part["label"] for part in one.parts.values()]
    assert len(set(labels)) == len(labels)
    for name, part in one.parts.items():
        texts = list(part.get("options", {}).values())
        assert all(0 < len(text) <= LABEL for text in [part["label"], *texts]), name
        assert len(set(texts)) == len(texts) and (not texts or 2 <= len(texts) <= 4), name
        if not texts:
            assert one.found(name) not in part["label"], name


def says(cell: Any, one: Prediction, name: str) -> bool:
    """Whether a cell of the section tells the answer to a part; for a choice, nothing can say."""
    part = one.parts[name]
    if "options" in part:
        return False
    text = cell.source if cell.cell_type == "markdown" else cell_text(cell)
    found = one.found(name)
    if re.search(rf"(?<![\w.,]){re.escape(found)}(?![\w%]|[.,]\d)", text):
        return True
    written = numbers(found) or numbers(f"{found} {part['unit']}")
    return bool(written) and is_bound(written[0], numbers(text))


@each_prediction
def test_no_answer_stands_before_it(one):
    told = [(name, cell.id) for cell in one.before for name in one.parts
            if says(cell, one, name) and (one.id, name) not in NOT_AN_ANSWER]
    assert not told, f"{one.id}: answered before it is asked: {told}"


def test_the_right_choice_has_no_place_of_its_own():
    """Neither always first, nor always last."""
    places = [list(part["options"]).index(one.found(name)) / (len(part["options"]) - 1)
              for one in PREDICTIONS for name, part in one.parts.items() if "options" in part]
    assert 0 < sum(place == 0 for place in places) <= len(places) / 2
    assert 0 < sum(place == 1 for place in places) <= len(places) / 2


def test_what_is_explained_is_still_there():
    assert set(NOT_AN_ANSWER) <= {(one.id, name) for one in PREDICTIONS for name in one.parts}


@pytest.mark.parametrize(("text", "told"), [
    ("It takes 1.5 ms.", True), ("It takes 1.50 ms", True), ("1,500 us", True),
    ("It takes 2 ms", False), ("11.5 ms", False), ("1.5 MB", False),
])
def test_an_answer_is_noticed_before_its_question(text, told):
    cell = nbformat.v4.new_code_cell("x", metadata={"roofline": {"predict": {
        "id": "day1.x", "parts": {"T": {"label": "T", "unit": "s", "found": r"^T (\S+ \S+)"}}}}},
        outputs=[nbformat.v4.new_output("stream", text="T 1.5 ms\n")])
    one = Prediction("day1/x.ipynb", cell, [], [])
    assert says(nbformat.v4.new_markdown_cell(text), one, "T") == told


def test_units_have_a_field():
    assert all(part["unit"] in units.BASES for one in PREDICTIONS for part in one.parts.values()
               if "unit" in part)
