"""The verifier: it notices a leak of each kind, a stub that fails, a key that is wrong."""

import hashlib
import itertools
import json
import re
import zipfile

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output
from pages import ROOT, notebooks
from workshop import Stop, editions, leaks, verify
from workshop.quantities import bare, quantities

from roofline import units
from roofline.problems import ask

PAGE = "day1/roofline"
PAGES = [path.relative_to(ROOT).with_suffix("").as_posix() for path in notebooks()]


# --- the reader of numbers -----------------------------------------------------------------


def reads(text):
    return {(found.unit, f"{found.value:.6e}") for found in quantities(text)}


@pytest.mark.parametrize("unit", [unit for unit in units.UNITS if unit not in ("", "x")])
def test_every_unit_of_the_course_is_read(unit):
    base = units.UNITS[unit][1]
    assert (base, f"{units.parse(f'1024.5 {unit}', base):.6e}") in reads(f"it is 1,024.5 {unit}.")


@pytest.mark.parametrize("text", [
    "89.6 GB/s", "89.6GB/s", "89.6\u202fGB/s", "0.0896 TB/s", "89,600 MB/s", "89\u2009600 MB/s",
    "89_600_000_000 B/s", "8.96e10 B/s", r"8.96 \times 10^{10}\,\text{B/s}", "8.96 × 10^10 B/s",
    "89.6 gigabytes per second", "89.6 billion bytes a second", "89.6 GB s^{-1}", "89.6 GB·s⁻¹",
    "89.6 B/ns", "89.6 bytes per nanosecond", "89.6 GBps",
    r"$89.6\,\mathrm{GB/s}$", "(89.6 GB / s)", "89.6-GB/s",
])
def test_one_bandwidth_in_many_writings(text):
    assert ("B/s", f"{89.6e9:.6e}") in reads(text)


@pytest.mark.parametrize(("text", "unit", "value"), [
    ("1024 GFLOPS", "FLOP/s", 1.024e12), ("1.024 teraflops per second", "FLOP/s", 1.024e12),
    ("11.4 FLOPs per byte", "FLOP/B", 11.4), ("195 μs", "s", 195e-6), ("2.5 seconds", "s", 2.5),
    (r"89.5\,\%", "", 0.895), ("89.5 percent", "", 0.895), ("28 mebibytes", "B", 28 * 2**20),
    ("143 Gelements/s", "element/s", 143e9), ("2.8 gigahertz", "Hz", 2.8e9)])
def test_other_units_in_words(text, unit, value):
    assert (unit, f"{value:.6e}") in reads(text)


@pytest.mark.parametrize("text", ["Day 2 starts", "8 to 12 minutes", "v1.2.3s", "LNC=2", "fp32 B"])
def test_what_is_no_number_with_a_unit(text):
    assert not reads(text)


def test_numbers_as_they_stand():
    assert [found.value for found in bare('{"W": 1.024e12, "n": [1, 100_000_000]}')] == [
        1.024e12, 1, 1e8]
    assert [found.value for found in bare("4,196")] == [4196, 4, 196]
    assert [found.value for found in bare("[1,4096]")] == [1, 4096]


# --- leaks, planted --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secrets():
    return {page: leaks.secrets(page) for page in PAGES}


@pytest.fixture(scope="module")
def student():
    return editions.stripped(editions.keyed(editions.read(ROOT / f"{PAGE}.ipynb")))


@pytest.fixture
def page(student):
    return nbformat.from_dict(student)


def handed_out(tmp_path, secrets, name, text):
    """What the verifier says to a folder with one file."""
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return leaks.leaks(tmp_path / "out", secrets, set())


def test_the_student_edition_as_it_is_made_leaks_nothing(tmp_path, secrets, page):
    assert handed_out(tmp_path, secrets, f"{PAGE}.ipynb", editions.text(page)) == []


# day1.dot: n = 100,000,000 in fp32: W = 200 MFLOP, Q = 800 MB; memory-bound
NUMBER = ["800 MB", "0.8 GB", "763 MiB", "8e8 bytes", "800 million bytes", "800 megabytes"]


def in_prose(page, text):
    page.cells[0].source += f"\n\nIt moves {text}."


def in_code(page, text):
    page.cells[1].source += f"\n# {text}"


def in_an_output(page, text):
    page.cells[1].outputs = [new_output("stream", text=f"{text}\n")]


def in_a_result(page, text):
    page.cells[1].outputs = [new_output("execute_result", {"text/html": f"<b>{text}</b>"})]


def in_metadata(page, text):
    page.cells[4].metadata["roofline"] = {"note": [{"deep": text}]}


def in_the_notebooks_metadata(page, text):
    page.metadata["title"] = text


@pytest.mark.parametrize("place", [in_prose, in_code, in_an_output, in_a_result, in_metadata,
                                   in_the_notebooks_metadata])
@pytest.mark.parametrize("text", NUMBER[:3])
def test_a_right_value_anywhere_in_a_notebook(tmp_path, secrets, page, place, text):
    place(page, text)
    found = handed_out(tmp_path, secrets, f"{PAGE}.ipynb", editions.text(page))
    assert [leak for leak in found if leak.startswith(f"{PAGE}.ipynb: day1.dot, Q: ")]


HTML = "<html><body><p>{}</p><script>{}</script></body></html>"


@pytest.mark.parametrize("text", [
    *NUMBER, "800&nbsp;MB", "800&#8239;MB", "<b>800</b> <i>MB</i>", "8 × 10<sup>8</sup> B",
    "<span>8</span>00 MB", "800</td><td>MB", '<img alt="it moves 800 MB">'])
def test_a_right_value_in_a_page(tmp_path, secrets, text):
    found = handed_out(tmp_path, secrets, f"{PAGE}.html", HTML.format(text, ""))
    assert any("day1.dot, Q" in leak for leak in found)


@pytest.mark.parametrize("data", ["137438953472", "137438953472.0", "1.3744e11"])
@pytest.mark.parametrize(("name", "form"), [
    (f"{PAGE}.html", HTML.format("", '{{"W":[1,{}]}}')), (f"_static/{PAGE}.json", '{{"W": [{}]}}'),
    ("searchindex.js", 'Search.setIndex({{"terms":{{"{}":3}}}})'), ("data.json", "[[2,{},734]]")])
def test_a_right_value_in_base_units_in_data(tmp_path, secrets, name, form, data):
    """2 x 4096^3 FLOP, of day1.matmul and others."""
    found = handed_out(tmp_path, secrets, name, form.format(data))
    assert any("in FLOP" in leak for leak in found)


@pytest.mark.parametrize("name", ["searchindex.js", "search/summaries.json", "handout/index.html",
                                  "notes.md", "plot.svg", "answers.csv"])
def test_a_right_value_in_a_file_of_no_page(tmp_path, secrets, name):
    text = json.dumps({"summary": "it moves 8.66 GB"}) if name.endswith("json") else \
        "it moves 8.66 GB"  # day1.fade.matmul_blocked
    found = handed_out(tmp_path, secrets, name, text)
    assert any("day1.fade.matmul_blocked, Q" in leak for leak in found)


def test_a_right_value_in_an_archive(tmp_path, secrets):
    """What is in the folder as well is looked through once; the rest is unpacked."""
    (tmp_path / "out/day1").mkdir(parents=True)
    (tmp_path / "out/index.html").write_text("a page")
    with zipfile.ZipFile(tmp_path / "out/site.zip", "w") as archive:
        archive.writestr("site/index.html", "a page")
        archive.writestr("site/day1/roofline.html", "<p>it moves 800 MB</p>")
    assert leaks.leaks(tmp_path / "out", secrets, set()) == [
        "site.zip/site/day1/roofline.html: day1.dot, Q: 800 MB"]


@pytest.mark.parametrize("name", ["assets/form.css", "day1/data/host_run.json", "day5/kernels.py"])
def test_a_file_of_the_course_as_it_is_committed_is_passed_over(tmp_path, secrets, name):
    """One byte more, and it is looked through."""
    source = next(path for path in [ROOT / name, *(ROOT / "assets").glob("*.css")] if path.exists())
    text = source.read_text()
    assert handed_out(tmp_path, secrets, f"_downloads/{source.name}", text) == []
    if source.suffix == ".py":
        other = handed_out(tmp_path / "edited", secrets, source.name, f"{text}\n# 8.66 GB\n")
        assert any("day1.fade.matmul_blocked, Q" in leak for leak in other)


def test_a_page_of_the_course_is_never_passed_over(tmp_path, secrets):
    """The committed pages have their answers: as a site's sources they would tell them."""
    for name in (f"{PAGE}.ipynb", "howto.md"):
        found = handed_out(tmp_path / name, secrets, f"_sources/{name}", (ROOT / name).read_text())
        assert found, name


@pytest.mark.parametrize(("index", "told"), [
    ({"terms": {"048flop": 1, "form": 2, "right": 3, "800": 4, "mb": 5}}, False),
    ({"terms": {"200mflop": 1}}, True), ({"titleterms": {"137438953472": 1}}, True),
    ({"alltitles": {"It moves 8.66 GB": [1]}}, True), ({"docnames": ["a"], "x": "8.66 GB"}, True)])
def test_a_search_index_is_read_by_words(tmp_path, secrets, index, told):
    text = f"Search.setIndex({json.dumps(index)})"
    assert bool(handed_out(tmp_path, secrets, "searchindex.js", text)) is told


def test_a_search_index_may_have_what_its_pages_have(tmp_path, secrets):
    """A rate on a page is no size; its word in the index could be one."""
    for name, text in {"instance.html": "<p>It copies 278 GB/s.</p>",
                       "searchindex.js": 'Search.setIndex({"terms": {"278gb": 1, "800mb": 1}})'
                       }.items():
        (tmp_path / name).write_text(text)
    found = leaks.leaks(tmp_path, secrets, set())
    assert found and all("800MB" in leak for leak in found)


@pytest.mark.parametrize(("text", "told"), [
    (".a { width: 50%; margin: 800 }", False), ('.a::after { content: "8.66 GB" }', True)])
def test_a_style_sheet_tells_by_its_texts_alone(tmp_path, secrets, text, told):
    assert bool(handed_out(tmp_path, secrets, "a.css", text)) is told


@pytest.mark.parametrize(("text", "told"), [
    ("It is 4 B × (n + n), as above.", None),  # too short a part of a line
    ("W = 2 n = 2 × 100,000,000 = 200 MFLOP", "worked"),
    ("The first pass fetches it; the later ones\nfind it in cache.", "worked"),
    ("Kernels differ in I by factors of a thousand, machines in FLOP/s by more; and y = I × BW"
     " becomes a line.", "worked"),
    ('{"side": "memory"}', "day1.dot, side"), ("says = 'meanwhile'", "day1.ridge_words, says"),
    ("The side: memory or compute?", "day1.dot, side"),
    (hashlib.sha256(b"800 MB").hexdigest(), "its hash"),
    (hashlib.md5(b"meanwhile").hexdigest().upper(), "its hash"),
    (hashlib.sha1(b"200000000").hexdigest()[:20], "its hash"),
    ("### BEGIN SOLUTION", "a mark"), ("### END HIDDEN TESTS", "a mark"), ("q.worked()", "a mark"),
    ('<script class="rl-form-data">', "a mark"), ('"slips": {}', "a mark"),
    ('<details class="worked">', "a mark"), ('{"found": "^W"}', "a mark"),
    ("right and worked, found in a form", None), ("the form's memory side", None),
])
def test_other_things_that_tell(tmp_path, secrets, text, told):
    found = handed_out(tmp_path, secrets, f"{PAGE}.txt", text)
    assert any(told in leak for leak in found) if told else not found, found


@pytest.mark.parametrize("metadata", [
    {"form": "day1.dot"}, {"predict": {"parts": {"a": {"found": "^W"}}}}, {"says": "meanwhile"},
    {"W": 137438953472.0}, {"check": hashlib.md5(b"memory").hexdigest()}])
def test_form_data_and_answers_in_metadata(tmp_path, secrets, page, metadata):
    page.cells[3].metadata["roofline"] = metadata
    assert handed_out(tmp_path, secrets, f"{PAGE}.ipynb", editions.text(page))


@pytest.mark.parametrize("text", [
    "P = 1.024 TFLOP/s, BW = 89.6 GB/s",             # given by the question that follows
    "16 MB", "32 MiB", "n = 100,000,000",            # given
    "801 us, 80 GB, 750 MB, 850 MB", "100 % of it",  # no answers
    "one of: memory, compute", "a side is memory", "I and FLOP/s span powers of ten"])
def test_what_a_question_gives_is_no_leak(tmp_path, secrets, text):
    assert handed_out(tmp_path, secrets, f"{PAGE}.md", text) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_number_that_is_asked_is_noticed(secrets, page):
    """With 2, 3 and 6 digits and in base units, for each that no question of the page gives."""
    mine, missed = secrets[page], []
    for name, part in itertools.chain.from_iterable(mine.numbers.values()):
        if part.unit:
            written = [f"{part.value:.9e} {part.unit}", *(
                units.show(part.value, part.unit, digits) for digits in (2, 3, 6))]
        else:
            written = [f"{100 * part.value:.6g} %"] * (0 < part.value < 2)
        for text in written:
            known = leaks.stated(text) & mine.given
            if not known and not any(leak.startswith(f"{name}: ")
                                     for leak in leaks.found_in(f"so {text}.", mine, mine.given)):
                missed.append((name, text))
    assert not missed


# --- stubs, key, pair ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair():
    key = editions.keyed(editions.read(ROOT / "day1/paper2009.ipynb"))
    return key, editions.stripped(key)


@pytest.fixture
def both(pair):
    return tuple(map(nbformat.from_dict, pair))


def cell(notebook, end):
    return next(cell for cell in notebook.cells if cell.id.endswith(end))


def test_a_page_as_it_is_made(both):
    key, student = both
    assert [*verify.unclean(student), *verify.wrong(key), *verify.differences(key, student)] == []
    assert len(list(verify.reports(key))) == len(list(verify.reports(student))) == 3


@pytest.mark.parametrize("answer", ["answers = dict(ridge='7 FLOP/B')", "raise ValueError", "oops",
                                    "answers = dict(another=...)", "answers = ["])
def test_a_stub_that_does_not_attempt_cleanly(both, answer):
    cell(both[1], "-answer").source = answer
    assert len(verify.unclean(both[1])) == 1


def test_a_right_answer_left_in_a_stub(both):
    answer = cell(both[1], "-answer")
    name = re.search(r"\w+(?==\.\.\.)", answer.source)[0]
    first = next(verify.reports(both[0]))[0]
    right = {part.name: part.answer for part in ask(first).parts}[name]
    answer.source = f"answers = {{{name!r}: {right!r}}}"
    assert [leak.startswith(f"{first}: {name}: right.")
            for leak in verify.unclean(both[1])] == [True]


def test_a_prediction_that_is_filled_in(both):
    guess = cell(both[1], "-guess")
    guess.source = guess.source.replace("...", "'1 FLOP/B'", 1)
    assert len(verify.unclean(both[1])) == 1


def test_a_key_that_does_not_pass(both):
    answer = cell(both[0], "-answer")
    answer.source = answer.source.replace('="', '="9', 1)
    found = verify.wrong(both[0])
    assert len(found) == 1 and "not yet" in found[0]


def test_a_key_that_leaves_a_part_open(both):
    cell(both[0], "-answer").source = "answers = {}"
    assert "not every part is attempted" in verify.wrong(both[0])[0]
    cell(both[0], "-check").source = "q.check(**answers)"  # even without its hidden tests
    assert "not attempted: " in verify.wrong(both[0])[0]


@pytest.mark.parametrize("edit", [
    lambda one: one.cells.pop(3), lambda one: one.cells.reverse(),
    lambda one: one.cells.append(new_code_cell("1", id="new")),
    lambda one: one.cells[0].update(source=one.cells[0].source + " more"),
    lambda one: one.cells[0].update(source=one.cells[0].source.replace("1", "____", 1) + "____"),
    lambda one: one.cells[1].update(source="import os"),
    lambda one: one.cells[1].metadata.update(tags=["new"]),
    lambda one: cell(one, "-check").metadata.nbgrader.update(points=9),
    lambda one: cell(one, "-check").metadata.nbgrader.update(checksum="0" * 32),
])
def test_editions_that_are_no_pair(both, edit):
    edit(both[1])
    assert verify.differences(*both)


def test_a_checksum_of_the_key_is_noticed(both):
    """nbgrader's checksum of a cell with its answer would let the answer be tried out."""
    from nbgrader.utils import compute_checksum

    key, student = both
    cell(student, "-answer").metadata.nbgrader.checksum = compute_checksum(cell(key, "-answer"))
    assert verify.differences(key, student) == [
        f"{cell(student, '-answer').id}: its checksum is of another text"]


# --- the command -----------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path, monkeypatch, pair):
    monkeypatch.setattr(verify, "MADE", tmp_path)
    monkeypatch.setattr(editions, "pages", lambda: ["day1/paper2009"])
    for name, notebook in zip(("key", "student"), pair, strict=True):
        editions.write(tmp_path / name, {"day1/paper2009": notebook})
    return tmp_path


def test_all_is_well(made, capsys):
    assert verify.main([]) == 0
    assert "nothing leaks" in capsys.readouterr().out


def test_a_leak_in_the_site_fails_the_command(made, capsys):
    (made / "site/day1").mkdir(parents=True)
    worked = str(ask("day1.paper.ridge").worked())
    (made / "site/day1/paper2009.html").write_text(f"<pre>{worked}</pre>")
    assert verify.main([]) == 1
    told = capsys.readouterr().out
    assert "site/day1/paper2009.html: day1.paper.ridge" in told and "problems" in told


def test_a_student_edition_of_another_key_fails_the_command(made, capsys):
    path = made / "student/day1/paper2009.ipynb"
    path.write_text(path.read_text() + "\n")
    assert verify.main([str(made / "student")]) == 1
    assert "the key, stripped, is not the student edition" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--fast"], ["a", "b"]])
def test_wrong_arguments(made, wrong):
    with pytest.raises(Stop, match="verify takes --run and one folder, got"):
        verify.main(wrong)


def test_what_is_not_made_is_named_with_the_next_step(made):
    (made / "key/day1/paper2009.ipynb").unlink()
    with pytest.raises(Stop, match=r"key has no day1/paper2009.ipynb; make it(.|\n)*workshop key"):
        verify.main([])


@pytest.mark.parametrize("text", ["", "{", "[1]", "<html>"])
def test_a_notebook_that_is_none_is_named(made, text):
    (made / "student/day1/paper2009.ipynb").write_text(text)
    with pytest.raises(Stop, match=r"paper2009\.ipynb: expected a notebook, got .*\n.*again"):
        verify.main([])


def test_a_cell_that_fails_in_a_whole_run_is_named(tmp_path):
    cells = [new_code_cell("1 / 0", id="meant", metadata={"tags": ["raises-exception"]}),
             new_code_cell("x = 1", id="fine"), new_code_cell("y", id="lost")]
    path = tmp_path / "page.ipynb"
    path.write_text(editions.text(nbformat.v4.new_notebook(cells=cells)))
    assert verify.ran([path]) == [f"{path}: lost: NameError: name 'y' is not defined"]
