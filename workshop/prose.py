"""Numbers with a unit in a page's prose, and the blanks that stand for those that are asked.

Question  which numbers does this prose state, and which of them answers a question?
Answer    numbers(text): each with its place; blanked(text, questions): what a question takes as
          right, and none of them gives, is a blank before its unit
Assumes   a number is followed by a unit of roofline.units, on the same line; Markdown and its math
Ignores   numbers without a unit, code, links, and what a sentence says in words
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from roofline import units
from roofline.check import Part, Question

BLANK = "____"
_UNITS = sorted((u for u in units.UNITS if u not in ("", "x")), key=len, reverse=True)
NUMBER = re.compile(
    r"(?<![\w.,/^-])(?P<digits>\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"(?:[\s~\u00a0]|\\[ ,;])?(?P<unit>" + "|".join(map(re.escape, _UNITS)) + r")(?![\w/])"
)
# What is not prose: code, link targets, HTML attributes, Markdown anchors.
_NOT_PROSE = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]+>|^\([\w-]+\)=$|https?://\S+", re.MULTILINE)
_MATH = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)


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
    """The numbers with a unit, in the order of the text."""
    return [Number(m["digits"].rstrip(","), m["unit"], m.start("digits"),
                   m.start("digits") + len(m["digits"].rstrip(",")))
            for m in NUMBER.finditer(plain(text))]


def asked(number: Number, questions: Iterable[Question]) -> bool:
    """Whether one of the questions would take this number as right, and none of them gives it."""
    questions = list(questions)
    given = (other for question in questions for other in numbers(repr(question)))
    return any(isinstance(part, Part) and part.unit == number.base
               and any(low <= number.value <= high for low, high in part.right)
               for question in questions for part in question.parts) and not any(
        other.base == number.base and math.isclose(other.value, number.value) for other in given)


def blanked(text: str, questions: Iterable[Question]) -> str:
    """Markdown with a blank for each number that one of the questions asks."""
    questions = list(questions)
    math_spans = [match.span() for match in _MATH.finditer(text)]
    for number in reversed(numbers(text)):
        if asked(number, questions):
            inside = any(start < number.start < end for start, end in math_spans)
            blank = r"\text{\_\_\_\_}" if inside else BLANK
            text = text[:number.start] + blank + text[number.end:]
    return text
