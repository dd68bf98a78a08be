"""A prediction, written down before what it predicts is looked at.

Question  what did I expect, and did it come so?
Answer    Guess(Q="25 MB", T="1 ms", row="fill"): kept as given; against(...) sets what was found
          beside it, verdict(...) says whether a predicted figure held; Prediction keeps guesses
          at what a cell is about to show
Assumes   a name begins with its symbol (Q, Q_apart, T); other names are words
Ignores   why it came otherwise
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import EllipsisType
from typing import Any

from . import units
from .table import Told, aligned, printable

# Symbol -> base unit; what is no symbol is guessed in words.
SYMBOLS = {"W": "FLOP", "Q": "B", "I": "FLOP/B", "T": "s", "BW": "B/s", "rate": "FLOP/s",
           "share": "", "SBUF": "B"}
BLANK = "not filled in"
WORDS = 32  # characters of a guess in words that a table shows
MOST = 2.0  # a bare share above it has lost its %
NEAR, SMALL = 0.25, 0.01  # of the change, of the whole: a prediction that is off by less has held


class GuessError(Told, ValueError):
    """A prediction that is none: what, got, next step."""


class NotGuessedError(GuessError, AttributeError):
    """What was never guessed, not even as `...`."""


class Guess:
    """What is expected, by name; `...` where it is still open.

    symbols   W, Q, I, T, BW, rate, share or SBUF, alone or followed by "_" and a word: a number in
              base units, or text with a unit
    others    in words: the row of a ledger, "memory" or "compute"

    >>> mine = Guess(Q="25 MB", T=..., row="fill")
    >>> mine.against(Q=25_165_824, T=510e-6, row="idle")
                 yours     found      off
    Q            25 MB  25.17 MB   -0.7 %
    T    not filled in    510 us
    row           fill      idle  another

    Raises GuessError for a number that cannot be read or is below 0, naming it.
    """

    def __init__(self, **expected: float | str | EllipsisType) -> None:
        self._expected: dict[str, Any] = {}
        for name, value in expected.items():
            unit = _unit(name)
            self._expected[name] = (value if value is ... else _words(name, value)
                                    if unit is None else _number(name, value, unit))

    def __getattr__(self, name: str) -> Any:
        """What was expected of `name`, in base units; `...` where it is open."""
        return self._of(name)

    def _of(self, name: str) -> Any:
        expected = self.__dict__.get("_expected", {})
        if name not in expected:
            raise NotGuessedError(f"Guess: {name}: it is not in this guess; it has "
                                  f"{', '.join(expected) or 'nothing'}. Add {name}=... to it")
        return expected[name]

    def against(self, kind: str = "", /, **found: Any) -> "Beside":
        """What was found beside what was expected.

        kind     of what was found, or by whom, for the table's head: "measured", "by the code"
        found    the same names, or some of them; numbers in base units, None where unknown

        Raises GuessError for a name that is not in the guess.
        """
        rows = [(printable(name, WORDS), _told(name, mine), _told(name, value),
                 _off(name, mine, value))
                for name, value in found.items() for mine in (self._of(name),)]
        return Beside([("", "yours", f"found, {kind}" if kind else "found", "off"), *rows])

    def verdict(self, before: float, after: float, name: str = "T") -> str:
        """Whether the figure predicted for after a change held.

        before, after   in base units: what came of the code as it was, and of the changed one

        It did where it is off by no more than a quarter of the change, or than 1 % of what was
        there before. Raises GuessError for words, and for a figure that is no finite number.
        """
        mine, unit = self._of(name), _unit(name)
        if unit is None:
            raise GuessError(f"verdict: {name}: words have none; a figure has: "
                             f"{', '.join(SYMBOLS)}")
        for role, value in (("before", before), ("after", after)):
            if not _finite(value):
                raise GuessError(f"verdict: {role}: expected a number{unit and f' in {unit}'}, "
                                 f"got {value!r}. Give what came of a run")
        if mine is ...:
            return f"{name}: no prediction, so none held. Write one before you look"
        miss, change = _less(mine, after), _less(after, before)
        held = abs(miss) <= max(NEAR * abs(change), SMALL * abs(before))
        return (f"{name} {'held' if held else 'not held'}: it changed by "
                f"{units.amount(change, unit)}, the prediction is {units.amount(miss, unit)} off")

    def __repr__(self) -> str:
        return "\n".join(aligned([(printable(name, WORDS), _told(name, value))
                                  for name, value in self._expected.items()] or [("nothing", "")]))


@dataclass(frozen=True, repr=False)
class Prediction:
    """Guesses at what a cell is about to show, by part; nobody judges them.

    id        of the prediction: the page's cell has it, too
    guesses   a number or text ("25 MB", an option's key) each, or `...` where it is still open

    >>> Prediction("day1.dot-times", {"compute": "0.2 ms", "moving": ...})
    compute  0.2 ms
    moving   not filled in

    Raises GuessError for what is neither.
    """

    id: str
    guesses: Mapping[str, object]

    def __post_init__(self) -> None:
        for name, value in self.guesses.items():
            finite = _finite(value) and not isinstance(value, bool)
            if not (value is ... or finite or (isinstance(value, str) and value.strip())):
                raise GuessError(f"{self.id}: {name}: expected a number with its unit or an "
                                 f"option, got {value!r}. Write it as text, or leave the ...")

    @property
    def filled(self) -> dict[str, str]:
        """What was guessed, as text."""
        return {name: str(value) for name, value in self.guesses.items() if value is not ...}

    def __repr__(self) -> str:
        return "\n".join(aligned([
            (printable(name, WORDS), printable(self.filled.get(name, BLANK), WORDS))
            for name in self.guesses] or [("nothing", "")]))


class Beside:
    """Yours and what was found, a line each."""

    def __init__(self, rows: list[tuple[str, str, str, str]]) -> None:
        self.rows = rows

    def __repr__(self) -> str:
        return "\n".join(aligned(self.rows, left=(0,)))


def _unit(name: str) -> str | None:
    """Of a name's symbol; None where it has none, so is in words."""
    return SYMBOLS.get(_symbol(name))


def _symbol(name: str) -> str:
    """What stands before the first "_"."""
    return name.partition("_")[0]


def _number(name: str, value: Any, unit: str) -> float:
    """In base units. Raises GuessError where there is no number >= 0 in it."""
    try:
        number = units.parse(value, unit)
    except units.UnitError as error:
        raise GuessError(f"Guess: {name}: {error}. Write it as in {name}={_example(unit)}"
                         ) from None
    if _symbol(name) == "share" and number > MOST and not (
            isinstance(value, str) and "%" in value):
        raise GuessError(f"Guess: {name}: expected a share, such as '75 %' or 0.75, got {value}. "
                         "Write it with its %")
    if number < 0:
        raise GuessError(f"Guess: {name}: expected a number >= 0, got {value}. Write it as in "
                         f"{name}={_example(unit)}")
    return number


def _example(unit: str) -> str:
    """How a guess is written; no figure of any page."""
    return {"s": "'2.5 ms'", "": "'25 %'", "FLOP/B": "25"}.get(unit, repr(units.show(2.5e6, unit)))


def _words(name: str, value: Any) -> str:
    """Raises GuessError for a number: it has no unit by this name."""
    if not isinstance(value, str):
        raise GuessError(f"Guess: {name}: expected words, got {value!r}. A number's name begins "
                         f"with its symbol, one of {', '.join(SYMBOLS)}")
    return value


def _less(a: float, b: float) -> float:
    """a - b; 0 where it is what floats leave of two that are the same."""
    return 0.0 if math.isclose(a, b, rel_tol=1e-12) else a - b


def _finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _told(name: str, value: Any) -> str:
    """A guess, or what was found, as a table shows it."""
    unit = _unit(name)
    if value is ...:
        return BLANK
    if value is None:
        return "unknown"
    if unit is None:
        return printable(value, WORDS)
    symbol = _symbol(name)
    if symbol == "SBUF":
        return units.mebi(value, 4)  # a capacity
    if symbol == "share" and _finite(value):
        return f"{units.significant(100 * value, 4)} %"
    return units.amount(value, unit)


def _parts(words: str) -> list[str]:
    """Words that make the same guess: however blanks, commas and capitals stand."""
    return words.casefold().replace(",", " ").split()


def _off(name: str, mine: Any, value: Any) -> str:
    """How far a guess is off, in %; of words and of 0, whether it is the same; "" where unknown."""
    if mine is ... or value is None:
        return ""
    if _unit(name) is None:
        same = _parts(mine) == _parts(str(value))
    elif not _finite(value):
        return ""
    elif value:
        return f"{mine / value - 1:+.1%}".replace("%", " %")
    else:
        same = not mine
    return "the same" if same else "another"
