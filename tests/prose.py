"""Numbers with a unit in a page's prose, and whether its section computes them."""

import math

from pages import Section
from workshop.prose import Number, numbers, plain

__all__ = ["Number", "edits", "is_bound", "numbers", "plain", "printed"]


def printed(section: Section) -> list[Number]:
    """The numbers with units that the section's cells and blocks print."""
    return [number for text in section.outputs for number in numbers(text)]


def is_bound(number: Number, computed: list[Number]) -> bool:
    """Does one computed number, rounded to the digits written in prose, give the prose?

    The computed number must be written at least as finely, so 24 GB/s is never
    bound to a printed 20 GB/s; and it must not need more digits than were printed.
    """
    for other in computed:
        if other.base != number.base or other.last_place > number.last_place * 1.0001:
            continue
        if math.isclose(other.value, number.value, rel_tol=1e-12):
            return True
        if abs(other.value - number.value) <= 0.5 * number.last_place * (1 + 1e-9):
            return True
    return False


def edits(number: Number):
    """The number with each one of its digits replaced by each other digit."""
    for place, digit in enumerate(number.text):
        if digit.isdigit():
            for new in "0123456789":
                if new != digit:
                    yield Number(number.text[:place] + new + number.text[place + 1:],
                                 number.unit, number.start, number.end)
