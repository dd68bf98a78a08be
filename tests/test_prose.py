"""Every number with a unit in prose is computed in its own section; no digit can be edited."""

import json
import re

import pytest
from pages import ROOT, Section, book_pages, sections, steps
from prose import edits, is_bound, numbers, plain, printed

from roofline import problems, units
from roofline.check import Part

# One-digit edits that still name a number its section prints, each with why that is right:
# {(page, number as written, edited number): reason}
EXPLAINED: dict[tuple[str, str, str], str] = {}

PAGES = [str(page.relative_to(ROOT)) for page in book_pages()]


@pytest.mark.parametrize("page", PAGES)
def test_every_number_in_prose_is_computed_in_its_section(page):
    loose = [f"{section.title!r}: {number.text} {number.unit}"
             for section in sections(ROOT / page)
             for number in numbers(section.prose) if not is_bound(number, printed(section))]
    assert not loose, f"{page}: not printed by a cell of their section:\n" + "\n".join(loose)


@pytest.mark.parametrize("page", PAGES)
def test_no_digit_can_be_edited_unseen(page):
    survivors = []
    for section in sections(ROOT / page):
        computed = printed(section)
        for number in numbers(section.prose):
            survivors += [(page, f"{number.text} {number.unit}", f"{edit.text} {edit.unit}")
                          for edit in edits(number) if is_bound(edit, computed)
                          and edit.value != number.value]
    unexplained = [edit for edit in survivors if edit not in EXPLAINED]
    assert not unexplained, f"edits nobody would notice: {unexplained}"


# Asked numbers that stand on their page before they are asked, each with why that is no
# answer: {(page, problem, part): reason}
NOT_AN_ANSWER: dict[tuple[str, str, str], str] = {
    ("day1/roofline.ipynb", "day1.more_P", "before"):
        "the dot product's rate again, on purpose: the question is what more P changes",
    ("day1/roofline.ipynb", "day1.reuse_measured", "I"):
        "another kernel: the live figure lists blocks of 16 at the same intensity",
    ("day4/measured_roofs.ipynb", "day4.copy", "bytes"):
        "64 MiB in and out is also what a published row, C24, read one way: listed in its table",
    ("day4/measured_roofs.ipynb", "day4.above", "spec"):
        "P of Day 3's core, which the openers have: the question is the ratio",
    ("day7/capstone.ipynb", "day7.own_traffic", "written"):
        "the form's table is the worked MLP's with F doubled: y, the row stored, is as large",
    ("day7/capstone.ipynb", "day7.own_counters", "more"):
        "an identity matrix in bf16 is as large as a tile of x in the worked table",
    ("day7/matmul.ipynb", "day7.matmul.once", "one"):
        "a load of A has the shape that the worked mapping's load of B has",
    ("day7/matmul.ipynb", "day7.matmul.hypotheses", "Q_B"):
        "4 + 1 + 1 matrices are, by chance, the 2 + 4 that the second mapping reads",
    ("day7/stranger.ipynb", "day7.stranger.start", "start"):
        "read off the figure, on purpose: the question is which of its times it is",
    ("day7/stranger.ipynb", "day7.stranger.start", "before"):
        "read off the figure, on purpose: the question is which of its times it is",
    ("day7/stranger.ipynb", "day7.stranger.traffic", "bf16"):
        "a block of instruction fetch in the first figure has as many bytes, by chance",
}


@pytest.mark.parametrize("page", [page for page in PAGES if page.endswith(".ipynb")])
def test_no_worked_number_stands_before_its_question(page):
    asked: dict[tuple[str, float], tuple[str, str]] = {}   # (unit, value) -> where it is asked
    seen: list = []                                        # numbers the reader has seen so far
    early = []
    for kind, text, form in steps(ROOT / page):
        if kind == "form":
            for part in problems.ask(form).parts:
                if not isinstance(part, Part) or (part.unit, part.value) in asked or not part.unit:
                    continue
                asked[part.unit, part.value] = form, part.name
                answer = numbers(units.show(part.value, part.unit, digits=4))
                if is_bound(answer[0], seen) and (page, form, part.name) not in NOT_AN_ANSWER:
                    early.append(f"{form}, {part.name}: {answer[0].text} {answer[0].unit}")
        seen += numbers(text)
    assert not early, f"{page}: answers before their questions:\n" + "\n".join(early)


def test_every_explained_survivor_is_still_there():
    assert all(page in PAGES for page, *_ in EXPLAINED)


@pytest.mark.parametrize(("prose", "found"), [
    ("It moves 46.1 MB at 375 GB/s, so 123 us.", ["46.1 MB", "375 GB/s", "123 us"]),
    ("W is 34,359,738,368 FLOP.", ["34,359,738,368 FLOP"]),
    ("the ridge is 210 FLOP/B; half is 105 FLOP/B", ["210 FLOP/B", "105 FLOP/B"]),
    ("a $P$ of $1.02\\,\\text{TFLOP/s}$", ["1.02 TFLOP/s"]),
    ("about 89.5 % of it", ["89.5 %"]),
    ("`P = 1 TFLOP/s` is code and [x](a/5 GB/s) a link", []),
    ("Day 5, 3 steps, LNC=2, bf16, 128 x 128, 2.4e9", []),
])
def test_numbers_are_found(prose, found):
    assert [f"{n.text} {n.unit}" for n in numbers(prose)] == found
    assert len(plain(prose)) == len(prose)


@pytest.mark.parametrize(("prose", "output", "bound"), [
    ("11.4 FLOP/B", "ridge 11.4286 FLOP/B", True),
    ("11 FLOP/B", "ridge 11.4 FLOP/B", True),
    ("11.5 FLOP/B", "ridge 11.4 FLOP/B", False),
    ("11.43 FLOP/B", "ridge 11.4 FLOP/B", False),      # more digits than were computed
    ("0.5 TFLOP/s", "500 GFLOP/s", True),              # another prefix
    ("4 ms", "4 MB", False),                           # another unit
    ("28 MiB", "29,360,128 B", True),
])
def test_binding(prose, output, bound):
    section = Section("p", "t", prose, [output])
    assert is_bound(numbers(prose)[0], printed(section)) is bound


def minutes(page: str) -> tuple[int, int]:
    """Low and high of a notebook's sections, from its cells' metadata."""
    cells = json.loads((ROOT / page).read_text())["cells"]
    ranges = [cell["metadata"]["roofline"]["minutes"] for cell in cells
              if "minutes" in cell["metadata"].get("roofline", {})]
    return sum(low for low, _ in ranges), sum(high for _, high in ranges)


def test_stated_minutes_are_the_sums_of_the_sections():
    row = re.compile(r"\(((?:day\d|casestudy)/\w+\.ipynb)\)[^|]*\|[^|]*\| (\d+) to (\d+) \|")
    stated = {page: (int(low), int(high))
              for page, low, high in row.findall((ROOT / "intro.md").read_text())}
    assert stated == {page: minutes(page) for page in stated} and stated
    for page, (low, high) in stated.items():
        first = sections(ROOT / page)[1].prose
        assert f"{low} to {high} minutes" in first, page
