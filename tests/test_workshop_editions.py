"""Answer key and student edition: what becomes of a page's cells, and stock nbgrader on them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from pages import ROOT, notebooks
from workshop import Stop, editions, prose
from workshop.editions import keyed, stripped

from roofline.problems import ask

PAGES = [path.relative_to(ROOT).with_suffix("").as_posix() for path in notebooks()]


def printed(text):
    return [new_output("execute_result", {"text/plain": text})]


@pytest.fixture
def page():
    """A page with a question, a prediction and prose, as the course commits them."""
    return new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "", "language": "python"}},
        cells=[
            new_code_cell("from roofline import Guess, ask\nfrom math import pi", id="first"),
            new_code_cell('q = ask("day1.cpu.spec")\nq', id="spec", outputs=printed("A CPU has"),
                          metadata={"roofline": {"form": "day1.cpu.spec"}}),
            new_code_cell("q.check(P=..., BW=..., ridge=...)", id="spec-attempt",
                          metadata={"tags": ["remove-cell"]}, outputs=printed("not attempted: P")),
            new_code_cell("q.worked()", id="spec-worked", outputs=printed("P = 1.02 TFLOP/s"),
                          metadata={"tags": ["hide-cell", "worked"]}),
            new_markdown_cell("So the ridge is at 11.4 FLOP/B, for cores at 4 GHz.", id="prose",
                              metadata={"roofline": {"minutes": [2, 3]}}),
            new_code_cell("pi", id="pi", outputs=printed("3.14"), metadata={
                "tags": ["hide-output"], "roofline": {"predict": {"id": "day1.pi", "parts": {
                    "near": {"found": r"^(\S+)", "label": "Near what?",
                             "options": {"3": "3", "4": "four"}},
                    "time": {"found": r"^(\S+)", "label": "How long", "unit": "s"}}}}}),
        ])


def sources(notebook):
    return {cell.id: cell.source for cell in notebook.cells}


def test_the_key_of_a_question(page):
    found = sources(keyed(page))
    assert found["spec"] == 'q = ask("day1.cpu.spec")\nq'
    assert found["spec-answer"] == """\
answers = dict(P=..., BW=..., ridge=...)
### BEGIN SOLUTION
answers = dict(P="1.02 TFLOP/s", BW="89.6 GB/s", ridge="11.4 FLOP/B")
q.worked()
### END SOLUTION"""
    assert found["spec-check"] == """\
q.check(**answers)
### BEGIN HIDDEN TESTS
assert q.check(**answers).right, "not every part is attempted"
### END HIDDEN TESTS"""
    assert found["prose"] == "So the ridge is at 11.4 FLOP/B, for cores at 4 GHz."


def test_the_key_reads_without_a_kernel(page):
    outputs = {cell.id: cell.outputs for cell in keyed(page).cells if cell.cell_type == "code"}
    assert outputs["spec-answer"] == printed("P = 1.02 TFLOP/s")
    assert outputs["pi"] == printed("3.14") and outputs["spec-check"] == []


def test_the_student_edition_of_a_question(page):
    student = stripped(keyed(page))
    assert sources(student) == {
        "first": "from roofline import Guess, ask, predict\nfrom math import pi",
        "spec": 'q = ask("day1.cpu.spec")\nq',
        "spec-answer": "answers = dict(P=..., BW=..., ridge=...)\n",
        "spec-check": "q.check(**answers)",
        "prose": "So the ridge is at ____ FLOP/B, for cores at 4 GHz.",
        "pi-guess": 'predict("day1.pi",\n'
                    "        # Near what? One of\n        #   '3'\n        #   '4'  four\n"
                    "        near=...,\n"
                    "        # How long, in s\n        time=...)",
        "pi": "pi"}
    assert not any(cell.get("outputs") for cell in student.cells)


def test_what_nbgrader_is_told_of_a_question(page):
    told = {cell.id: cell.metadata.get("nbgrader") for cell in stripped(keyed(page)).cells}
    assert {name: (of.grade, of.solution, of.locked, of.get("points"))
            for name, of in told.items() if of} == {
        "spec": (False, False, True, None), "spec-answer": (False, True, False, None),
        "spec-check": (True, False, True, 3)}
    assert all(of.grade_id == name for name, of in told.items() if of)


def test_metadata_keep_the_minutes_and_what_is_guessed(page):
    own = {cell.id: cell.metadata.get("roofline") for cell in stripped(keyed(page)).cells}
    assert own["spec"] is None and own["prose"] == {"minutes": [2, 3]}
    assert own["pi"] == {"predict": {"id": "day1.pi", "parts": {
        "near": {"label": "Near what?", "options": {"3": "3", "4": "four"}},
        "time": {"label": "How long", "unit": "s"}}}}


def test_a_question_with_inputs_in_its_call_is_the_readers_to_change(page):
    page.cells[1].source = 'q = ask("day1.cpu.spec", cores=16)\nq'
    key = keyed(page)
    assert 'dict(P="2.05 TFLOP/s"' in sources(key)["spec-answer"]  # 16 x 2 x 8 x 2 x 4 GHz
    assert not key.cells[1].metadata.nbgrader.locked


def test_the_source_stays_as_it_was(page):
    before = nbformat.writes(page)
    stripped(keyed(page))
    assert nbformat.writes(page) == before


def test_a_question_that_is_not_three_cells_is_refused(page):
    del page.cells[2]
    with pytest.raises(Stop, match="spec: the two cells after `ask` are no attempt"):
        keyed(page)


def test_many_parts_take_more_lines():
    lines = editions._call("answers = dict", {f"part_{k}": '"4 MB of it"' for k in range(9)})
    assert all(len(line) <= editions.WIDTH for line in lines) and len(lines) == 3
    scope: dict = {}
    exec("\n".join(lines), scope)
    assert scope["answers"] == {f"part_{k}": "4 MB of it" for k in range(9)}


# --- blanks in prose -----------------------------------------------------------------------


@pytest.mark.parametrize(("text", "blank"), [
    # day1.cpu.spec: P = 1.024 TFLOP/s, BW = 89.6 GB/s, ridge 11.43 FLOP/B; gives 4 GHz, 5.6 GT/s
    ("It has 1.024 TFLOP/s.", "It has ____ TFLOP/s."),
    ("It has 1,024 GFLOP/s.", "It has ____ GFLOP/s."),
    ("Some 11 FLOP/B.", "Some ____ FLOP/B."),                   # two digits are enough for a check
    ("Some 12 FLOP/B.", "Some 12 FLOP/B."),
    ("89.6 GB/s or 90 GB/s, not 80 GB/s", "____ GB/s or ____ GB/s, not 80 GB/s"),
    ("| 89.6 GB/s | 4 GHz |", "| ____ GB/s | 4 GHz |"),
    ("89.6 MB", "89.6 MB"),                                     # another kind of number
    ("$BW = 89.6\\,\\text{GB/s}$", "$BW = \\text{\\_\\_\\_\\_}\\,\\text{GB/s}$"),
    ("[here](89.6 GB/s) and `89.6 GB/s`", "[here](89.6 GB/s) and `89.6 GB/s`"),
])
def test_blanks(text, blank):
    assert prose.blanked(text, [ask("day1.cpu.spec")]) == blank


def test_what_another_question_of_the_page_gives_is_no_blank():
    asking, giving = ask("day1.cpu.spec"), ask("day1.ridge_words")  # gives P, BW and 11.4 FLOP/B
    text = "1.024 TFLOP/s, 89.6 GB/s, 11.4 FLOP/B, 11.43 FLOP/B"
    assert prose.blanked(text, [asking, giving]) == text.replace("11.43", "____")


# --- all pages -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def key():
    return {page: keyed(editions.read(ROOT / f"{page}.ipynb")) for page in PAGES}


@pytest.fixture(scope="module")
def student(key):
    return {page: stripped(notebook) for page, notebook in key.items()}


def test_pages_are_the_books():
    assert editions.pages() == PAGES


def test_every_question_of_the_bank_that_a_page_asks_is_there(student):
    for page in PAGES:
        committed = json.loads((ROOT / f"{page}.ipynb").read_text())["cells"]
        forms = [cell["metadata"]["roofline"]["form"] for cell in committed
                 if "form" in cell["metadata"].get("roofline", {})]
        assert set(forms) <= {asked.id for asked in editions.questions(student[page])}, page


def test_nothing_else_of_a_page_changes(student):
    """Cells that are of no question keep their code, their text but for blanks, and their order."""
    for page in PAGES:
        source = editions.read(ROOT / f"{page}.ipynb").cells
        made = student[page].cells
        committed = [cell.source for cell in source if cell.cell_type == "code"
                     and not {"remove-cell", "worked"} & set(cell.metadata.get("tags", []))]
        kept = [cell.source for cell in made if cell.cell_type == "code"
                and not cell.id.endswith("-guess")
                and ("nbgrader" not in cell.metadata or "= ask(" in cell.source)]
        assert committed[1:] == kept[1:], page  # the first imports `predict`
        texts = [[cell.source for cell in cells if cell.cell_type == "markdown"]
                 for cells in (source, made)]
        for mine, other in zip(*texts, strict=True):
            assert re.fullmatch(r"[\d,.]+".join(map(re.escape, other.split("____"))), mine)


def test_code_keeps_the_width_of_a_page(key, student):
    long = [line for made in (key, student) for notebook in made.values()
            for cell in notebook.cells if cell.cell_type == "code"
            for line in cell.source.splitlines() if len(line) > 100]
    assert not long


# --- files ---------------------------------------------------------------------------------


def test_an_edition_has_the_kernels_and_data_of_its_pages(tmp_path, student):
    (tmp_path / "student/day9").mkdir(parents=True)  # of an older edition
    editions.write(tmp_path / "student", {page: student[page] for page in PAGES[:9]})
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert {"student/day1/roofline.ipynb", "student/day1/data/host_run.json",
            "student/day5/kernels.py"} <= made
    assert {name.split("/")[-1] for name in made if name.count("/") == 1} == {
        "day1", "day2", "day3", "day4", "day5"}
    assert not any("checkpoint" in name or "__pycache__" in name for name in made)


def test_the_command_says_what_it_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(editions, "MADE", tmp_path)
    monkeypatch.setattr(editions, "pages", lambda: ["day1/paper2009"])
    assert editions.key([]) == editions.student([]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"key: 1 notebooks with 3 questions in {tmp_path / 'key'}",
        f"student: 1 notebooks with 3 questions in {tmp_path / 'student'}"]
    with pytest.raises(Stop, match="key takes no arguments, got --fast"):
        editions.key(["--fast"])


def workshop(*arguments):
    return subprocess.run([sys.executable, "-m", "workshop", *arguments], cwd=ROOT,
                          capture_output=True, text=True)


def test_parts_are_named_and_a_wrong_one_is_answered():
    told = workshop("--help")
    assert told.returncode == 0
    assert {"student", "key", "verify"} <= set(re.findall(r"^  ([\w-]+)  ", told.stdout, re.M))
    wrong = workshop("studnet")
    assert wrong.returncode == 2 and "no part is called 'studnet'" in wrong.stderr


def test_what_stops_a_part_is_one_line():
    told = workshop("key", "--fast")
    assert told.returncode == 1 and told.stderr == "workshop: key takes no arguments, got --fast\n"


# --- nbgrader as it comes --------------------------------------------------------------------


def nbgrader(*arguments):
    done = subprocess.run([sys.executable, "-m", "nbgrader", *arguments], cwd=ROOT / "workshop",
                          capture_output=True, text=True, timeout=300,
                          env=os.environ | {"ROOFLINE_RECORDED": "1"})
    assert done.returncode == 0, done.stderr


def filled(notebook):
    """A submission with every answer right; what is right comes from the bank."""
    done = nbformat.from_dict(notebook)
    for asking, answer in zip(done.cells, done.cells[1:], strict=False):
        if answer.id.endswith("-answer"):
            parts = ask(re.search(r'ask\("(.+)"\)', asking.source)[1]).parts
            answer.source = f"answers = { {part.name: part.answer for part in parts}!r}"
    return done


@pytest.fixture(scope="module")
def school(tmp_path_factory, key):
    """A course folder in which nbgrader has released one page and graded two submissions."""
    root, page = tmp_path_factory.mktemp("school"), "day1/paper2009"
    editions.write(root / "key", {page: key[page]})
    shutil.rmtree(root / "key/day1/data")
    nbgrader("generate_assignment", f"--CourseDirectory.root={root}", "day1")
    released = root / f"release/{page}.ipynb"
    for who, made in {"right": filled(editions.read(released)),
                      "untouched": editions.read(released)}.items():
        path = root / f"submitted/{who}/{page}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(editions.text(made))
    nbgrader("autograde", f"--CourseDirectory.root={root}", "day1")
    return root


def test_nbgrader_releases_the_student_edition(school, student):
    released = (school / "release/day1/paper2009.ipynb").read_bytes()
    assert released == editions.text(student["day1/paper2009"]).encode()


def test_right_answers_get_all_points_and_none_get_none(school, student):
    from nbgrader.api import Gradebook

    points = sum(cell.metadata.get("nbgrader", {}).get("points", 0)
                 for cell in student["day1/paper2009"].cells)
    with Gradebook(f"sqlite:///{school}/gradebook.db") as book:
        scores = {one.student.id: (one.score, one.max_score)
                  for one in book.assignment_submissions("day1")}
    assert scores == {"right": (points, points), "untouched": (0, points)} and points == 8


def errors(path: Path):
    return {cell.id: output.evalue for cell in editions.read(path).cells
            if cell.cell_type == "code" for output in cell.outputs if output.output_type == "error"}


def test_the_page_runs_from_its_first_cell_to_its_last(school):
    """With right answers nothing fails; with none the hidden tests alone do."""
    assert errors(school / "autograded/right/day1/paper2009.ipynb") == {}
    failed = errors(school / "autograded/untouched/day1/paper2009.ipynb")
    assert len(failed) == 3 and set(failed.values()) == {"not every part is attempted"}
    assert all(cell.endswith("-check") for cell in failed)
