"""Every problem of the bank beside its day's numbers, which are arithmetic a reader can redo."""

from importlib import import_module

import pytest

from roofline import ask
from roofline.check import Part, WrongAnswer
from roofline.problems import BANK

DAYS = {day: import_module(f"test_{day}_numbers") for day in (
    *(f"day{n}" for n in range(1, 8)), "day7_matmul", "day7_swiglu", "vjepa2")}
# problem -> part -> a number, text with a unit, or a choice's key
NUMBERS = {id: answers for day in DAYS.values() for id, answers in day.NUMBERS.items()}
# problem -> (part, a wrong answer that has a known cause, words of that cause)
SLIPS = {id: slips for day in DAYS.values() for id, slips in day.SLIPS.items()}


def test_every_problem_has_its_numbers():
    assert set(NUMBERS) == set(BANK)


@pytest.mark.parametrize("id", NUMBERS)
def test_the_pages_own_answer(id):
    q = ask(id)
    assert q.check(**NUMBERS[id]).right
    for part in q.parts:
        number = NUMBERS[id][part.name]
        if hasattr(part, "value") and isinstance(number, int | float):
            assert part.value == pytest.approx(number, rel=2e-3)


@pytest.mark.parametrize(("id", "name", "answer", "words"),
                         [(id, *slip) for id, slips in SLIPS.items() for slip in slips])
def test_a_misconception_is_recognised(id, name, answer, words):
    with pytest.raises(WrongAnswer) as wrong:
        ask(id).check(**{name: answer})
    line, report = repr(wrong.value).splitlines()[0], wrong.value.report
    assert next(o.kind for o in report.outcomes if o.name == name) == "slip", line
    assert words in line.partition("Looks like a slip: ")[2], line


@pytest.mark.parametrize("day", DAYS)
def test_every_question_with_numbers_has_its_slips(day):
    asked = {id for id in DAYS[day].NUMBERS
             if any(isinstance(part, Part) for part in ask(id).parts)}
    assert asked == set(DAYS[day].SLIPS)
