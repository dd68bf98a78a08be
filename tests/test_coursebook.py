"""The book's extension: what goes into a page, and what makes an executed output stale."""

from pathlib import Path

import coursebook
import pytest
from docutils import nodes
from docutils.utils import new_document


def test_a_worked_answer_is_folded_and_escaped():
    html = coursebook.worked("I = W / Q\n<script>alert(1)</script> & more")["html"]
    assert html.startswith('<details class="worked"><summary>Worked answer</summary>')
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in html
    assert "<script" not in html and "<details open" not in html


@pytest.mark.parametrize(("source", "shows"), [
    ("2 + 2", "4"),
    ("x = 5", ""),
    ("x = 5\nx * 2", "10"),
    ("print('sum')\n1.5", "sum\n1.5"),
    ("print('only')", "only\n"),
    ("units.show(375e9, 'B/s')", "'375 GB/s'"),
])
def test_a_computed_block_runs_as_a_cell(source, shows):
    assert coursebook.run(source, coursebook.names(source)) == shows


def test_a_formula_keeps_the_marks_around_it():
    text = nodes.paragraph("", "", nodes.math("", "W"), nodes.Text(", in FLOP ("),
                           nodes.math("", "DF"), nodes.Text("), and "), nodes.math("", "Q"),
                           nodes.Text(" (in B)."))
    page = new_document("page")
    page += text
    said = text.astext()
    coursebook.together(None, page, "page")
    assert text.astext() == said == "W, in FLOP (DF), and Q (in B)."
    assert [child.astext() for child in text] == [
        "W,", " in FLOP ", "(DF),", " and ", "Q", " (in B)."]
    assert [child["classes"] for child in (text[0], text[2])] == [["together"]] * 2


def test_names_are_the_librarys_and_only_those_mentioned():
    assert set(coursebook.names("machine.get('desktop')")) == {"machine"}
    assert coursebook.names("os.getcwd()") == {}


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    for name in ("requirements.txt", "lib/roofline/units.py", "_ext/coursebook.py",
                 "day1/roofline.ipynb", "day1/data/peaks.csv", "intro.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(coursebook, "ROOT", tmp_path)
    monkeypatch.delenv("ROOFLINE_RECORDED", raising=False)
    return tmp_path


@pytest.mark.parametrize(("name", "stale"), [
    ("requirements.txt", True),
    ("lib/roofline/units.py", True),
    ("lib/roofline/machine.toml", True),   # a new file too
    ("_ext/coursebook.py", True),
    ("day1/data/peaks.csv", True),
    ("day1/roofline.ipynb", False),        # Sphinx and jupyter-cache see pages themselves
    ("intro.md", False),
    ("lib/roofline/__pycache__/units.cpython-311.pyc", False),
])
def test_what_makes_outputs_stale(tree, name, stale):
    before = coursebook.fingerprint()
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text("2")
    assert (coursebook.fingerprint() != before) is stale


def test_recorded_and_measured_outputs_are_kept_apart(tree, monkeypatch):
    before = coursebook.fingerprint()
    monkeypatch.setenv("ROOFLINE_RECORDED", "1")
    assert coursebook.fingerprint() != before


def test_only_the_icons_that_are_shown_are_kept():
    icons = ('{gear:[512,512,[9881,"cog"],"f013","M1 2"],"arrow-up":[384,512,[8593],"f062",'
             '["M3","M4"]],x:[1,2,[],"58","M5"]}')
    assert [m[1] or m[2] for m in coursebook._ICON.finditer(icons)] == ["gear", "arrow-up", "x"]
    assert coursebook._ICON.sub("", icons) == "{}"
