"""Every problem of the bank beside its day's numbers, which are arithmetic a reader can redo."""

from importlib import import_module

import pytest

from roofline import ask
from roofline.problems import BANK

# test_dayN_numbers.NUMBERS: problem -> part -> a number, text with a unit, or a choice's key
NUMBERS = {id: answers for day in (1, 2, 3, 5, 6)
           for id, answers in import_module(f"test_day{day}_numbers").NUMBERS.items()}


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
