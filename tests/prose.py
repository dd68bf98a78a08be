"""Numbers with a unit in a page's prose, and whether its section computes them."""

import math
import re
from dataclasses import dataclass

from pages import Section

from roofline import units

_UNITS = sorted((u for u in units.UNITS if u not in ("", "x")), key=len, reverse=True)
NUMBER = re.compile(
    r"(?<![\w.,/^-])(?P<digits>\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"(?:[\s~\u00a0]|\\[ ,;])?(?P<unit>" + "|".join(map(re.escape, _UNITS)) + r")(?![\w/])"
)
# What is not prose: code, link targets, HTML attributes, Markdown anchors.
_NOT_PROSE = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]+>|^\([\w-]+\)=$|https?://\S+", re.MULTILINE)


@dataclass(frozen=True)
class Number:
    """text   as written; start, end   where its digits stand in the prose"""

    text: str
    unit: str
    start: int
    end: int

    @property
    def value(self) -> float:
        return units.parse(f"{self.text} {self.unit}", self.base)

    @property
    def base(self) -> str:
        return units.UNITS[self.unit][1]

    @property
    def last_place(self) -> float:
        """The value of one in the last written digit."""
        mantissa, _, exponent = self.text.lower().partition("e")
        decimals = len(mantissa.partition(".")[2])
        return 10.0 ** (int(exponent or 0) - decimals) * units.UNITS[self.unit][0]


def plain(prose: str) -> str:
    """Prose with everything that is not read as prose blanked out, positions kept."""
    blank = _NOT_PROSE.sub(lambda match: " " * len(match[0]), prose)
    # $...$ math: \text{GB/s} and \mathrm{} are read as what they hold
    return re.sub(r"\\(?:text|mathrm)\{([^}]*)\}",
                  lambda match: match[1].ljust(len(match[0])), blank)


def numbers(text: str) -> list[Number]:
    return [Number(m["digits"].rstrip(","), m["unit"], m.start("digits"),
                   m.start("digits") + len(m["digits"].rstrip(",")))
            for m in NUMBER.finditer(plain(text))]


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
