"""Every committed notebook: its stored form, the shape of its questions, what nbval notices."""

import ast
import copy
import os
import re
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import conftest
import nbformat
import pytest
from nbval.plugin import IPyNbCell, coalesce_streams, nocolors
from pages import ROOT, notebooks
from refresh import METADATA, normal

from roofline import problems

NOTEBOOKS = {path.relative_to(ROOT).as_posix(): nbformat.read(path, as_version=4)
             for path in notebooks()}
MAX_LINES = 10
STYLING = re.compile(
    r"\bplt\.|\bax\.|set_[xy]label|rcParams|(?:import|from) +matplotlib|figsize|tight_layout")

each_notebook = pytest.mark.parametrize("name", NOTEBOOKS)


def code_cells(name: str) -> list[dict]:
    return [c for c in NOTEBOOKS[name]["cells"] if c["cell_type"] == "code"]


def text(cell: dict) -> str:
    """A cell's stored text."""
    return "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "")
                     for o in cell.outputs)


def tags(cell: dict) -> list[str]:
    return cell["metadata"].get("tags", [])


def own(cell: dict) -> dict:
    return cell["metadata"].get("roofline", {})


def test_every_notebook_of_the_tree_is_a_page():
    found = {p.relative_to(ROOT).as_posix() for pattern in ("day*", "casestudy*")
             for folder in ROOT.glob(pattern) for p in folder.rglob("*.ipynb")
             if ".ipynb_checkpoints" not in p.parts}
    assert found == set(NOTEBOOKS)


# --- stored form ---------------------------------------------------------------------------


@each_notebook
def test_stored_in_normal_form(name):
    """As `course.py refresh` leaves it; then a diff shows what changed and nothing else."""
    text = (ROOT / name).read_text(encoding="utf-8")
    again = normal(nbformat.reads(text, as_version=4), "cell")
    assert text == nbformat.writes(again, indent=1, sort_keys=True, ensure_ascii=False) + "\n", \
        f"{name}: run `python3 course.py refresh {name}`"
    assert NOTEBOOKS[name]["metadata"] == METADATA


def test_one_stream_is_stored_in_one_piece():
    """A kernel under load cuts what a cell prints anywhere."""
    def cut(*pieces):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("...", id="c")])
        notebook.cells[0].outputs = [nbformat.v4.new_output("stream", name=name, text=text)
                                     for name, text in pieces]
        return [(o.name, o.text) for o in normal(notebook, "c").cells[0].outputs]

    assert cut(("stdout", "a\n"), ("stdout", "b\n"), ("stderr", "c"), ("stdout", "d")) == [
        ("stdout", "a\nb\n"), ("stderr", "c"), ("stdout", "d")]


@each_notebook
def test_ids_are_there_and_unique(name):
    ids = [cell["id"] for cell in NOTEBOOKS[name]["cells"]]
    assert len(ids) == len(set(ids))


@each_notebook
def test_outputs_are_text_without_counts(name):
    for cell in code_cells(name):
        assert cell["execution_count"] is None
        for output in cell["outputs"]:
            assert set(output.get("data", {})) <= {"text/plain"}, cell["id"]
            assert output.get("execution_count") is None
            assert output["output_type"] != "error" or "raises-exception" in tags(cell), cell["id"]


@each_notebook
def test_a_cell_that_shows_something_stores_it(name):
    """A last line that is a bare expression or a print has an output."""
    for cell in code_cells(name):
        body = ast.parse(cell.source).body
        if body and isinstance(body[-1], ast.Expr):
            assert cell["outputs"], f"{cell['id']}: run `python3 course.py refresh {name}`"


# --- how cells read ------------------------------------------------------------------------


@each_notebook
def test_cells_are_short(name):
    long = [c["id"] for c in code_cells(name)
            if len(c.source.splitlines()) > MAX_LINES and "read" not in tags(c)]
    assert not long, f"over {MAX_LINES} lines, and not tagged `read`"


@each_notebook
def test_a_cell_tagged_read_is_a_function(name):
    for cell in code_cells(name):
        if "read" in tags(cell):
            assert re.match(r"(@|def |class |from |import |#)", cell.source), cell["id"]


@each_notebook
def test_no_styling_code(name):
    assert not [c["id"] for c in code_cells(name) if STYLING.search(c.source)]


@each_notebook
def test_imports_come_first(name):
    late = [c["id"] for c in code_cells(name)[1:] if "read" not in tags(c)
            and re.search(r"^(import|from) ", c.source, re.M)]
    assert not late


def test_few_cells_are_exempt_each_with_a_reason():
    cells = [c for name in NOTEBOOKS for c in code_cells(name)]
    exempt = [own(c)["exempt"] for c in cells if "exempt" in own(c)]
    assert all(isinstance(reason, str) and len(reason.split()) >= 3 for reason in exempt)
    assert len(exempt) <= 0.05 * len(cells)
    assert not [c["id"] for c in cells if {"nbval-ignore-output", "nbval-skip"} & set(tags(c))]
    assert not [c["id"] for c in cells if "NBVAL_" in c.source]


# --- questions -----------------------------------------------------------------------------


@each_notebook
def test_a_question_is_three_cells(name):
    """Form, attempt (stores "not attempted"), worked answer; nothing comes between."""
    cells = code_cells(name)
    for asked, attempt, worked in zip(cells, cells[1:], cells[2:], strict=False):
        if form := own(asked).get("form"):
            assert f'ask("{form}")' in asked.source
            assert "remove-cell" in tags(attempt), form
            assert ".check(" in attempt.source, form
            assert text(attempt).startswith("not attempted"), form
            assert {"hide-cell", "worked"} <= set(tags(worked)), form
            assert ".worked()" in worked.source, form
            assert not re.search(r"^\w+ *=", worked.source, re.M), f"{form}: binds a name"
    for cell in cells[-2:]:
        assert "form" not in own(cell)


@each_notebook
def test_attempts_name_every_part(name):
    cells = code_cells(name)
    for asked, attempt in pairwise(cells):
        if form := own(asked).get("form"):
            parts = [part.name for part in problems.ask(form).parts]
            assert re.findall(r"(\w+) *= *\.\.\.", attempt.source) == parts, form


@each_notebook
def test_forms_exist_and_are_asked_once_a_page(name):
    forms = [own(c)["form"] for c in code_cells(name) if "form" in own(c)]
    assert len(forms) == len(set(forms))
    for form in forms:
        assert problems.ask(form).id == form


# --- nbval ---------------------------------------------------------------------------------


def same(now: list, stored: list) -> bool:
    """nbval's comparison alone: no kernel, no pytest node."""
    cell = SimpleNamespace(colors=nocolors, sanitize=lambda text: text,
                           format_output_compare=lambda *_: None)
    now, stored = ([nbformat.from_dict(copy.deepcopy(o)) for o in outputs]
                   for outputs in (now, stored))
    return IPyNbCell.compare_outputs(cell, coalesce_streams(now), coalesce_streams(stored),
                                     skip_compare=conftest.COMPARED)


def mutants() -> list[tuple[str, str, list, list]]:
    """20 edits of stored outputs, spread over all notebooks: a digit, a word, a line, all."""
    edits = [
        lambda text: re.sub(r"\d", lambda m: str((int(m[0]) + 1) % 10), text, count=1),
        lambda text: re.sub(r"\d(?=\D*$)", lambda m: str((int(m[0]) + 5) % 10), text, count=1),
        lambda text: text + " ",
        lambda text: "",
    ]
    stored = [(name, cell) for name in NOTEBOOKS for cell in code_cells(name)
              if re.search(r"\d", text(cell)) and "exempt" not in own(cell)]
    found = []
    for k in range(20):
        name, cell = stored[k * len(stored) // 20]
        outputs = copy.deepcopy(cell["outputs"])
        edit = edits[k % len(edits)]
        last = outputs[-1]
        if "text" in last:
            last.text = edit(last.text)
        else:
            last.data["text/plain"] = edit(last.data["text/plain"])
        found.append((name, cell["id"], outputs, cell["outputs"]))
    return found


@pytest.mark.parametrize(("name", "cell", "edited", "stored"), mutants() if NOTEBOOKS else [],
                         ids=lambda v: v if isinstance(v, str) else "")
def test_an_edited_output_is_noticed(name, cell, edited, stored):
    assert edited != stored
    assert same(stored, stored)
    assert not same(stored, edited)


def test_the_lane_compares_notebooks_without_counts(tmp_path):
    """The whole way once: a stored output that is not what the cell prints fails the run."""
    cells = [nbformat.v4.new_code_cell("1 + 1"), nbformat.v4.new_code_cell("2 + 2")]
    for cell, wrong in zip(cells, ("2", "5"), strict=True):
        cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": wrong})]
    path = tmp_path / "sums.ipynb"
    nbformat.write(normal(nbformat.v4.new_notebook(cells=cells), "sums"), path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-p", "conftest", "-n", "0",
         "-p", "no:cacheprovider", path], cwd=ROOT, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert "1 failed, 1 passed" in done.stdout
    assert "Cell 1: Cell outputs differ" in done.stdout


def test_a_lost_output_is_noticed():
    output = {"output_type": "stream", "name": "stdout", "text": "5\n"}
    assert not same([output], []) and not same([], [output])


def test_pictures_and_html_are_not_compared():
    both = {"output_type": "display_data", "metadata": {},
            "data": {"text/plain": "a roofline", "text/html": "<svg/>", "image/png": "xx"}}
    text = {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "a roofline"}}
    assert same([both], [text])
