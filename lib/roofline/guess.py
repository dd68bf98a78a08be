"""A prediction, written down before what it predicts is looked at.

Question  what did I expect, and did it come so?
Answer    Guess(Q="25 MB", T="1 ms", row="fill"): kept as given; against(...) sets what was found
          beside it, verdict(...) says whether a predicted figure held
Assumes   a name begins with its symbol (Q, Q_apart, T); other names are words
Ignores   why it came otherwise
"""

from types import EllipsisType
from typing import Any

from . import units
from .table import Told, aligned

# Symbol -> base unit; what is no symbol is guessed in words.
SYMBOLS = {"W": "FLOP", "Q": "B", "I": "FLOP/B", "T": "s", "BW": "B/s", "rate": "FLOP/s",
           "share": ""}
BLANK = "not filled in"
NEAR, SMALL = 0.25, 0.01  # of the change, of the whole: a prediction that is off by less has held


class GuessError(Told, ValueError):
    """A prediction that is none: what, got, next step."""


class Guess:
    """What is expected, by name; `...` where it is still open.

    symbols   W, Q, I, T, BW, rate or share, alone or followed by "_" and a word: a number in base
              units, or text with a unit
    others    in words: the row of a ledger, "memory" or "compute"

    >>> mine = Guess(Q="25 MB", T=..., row="fill")
    >>> mine.against(Q=25_165_824, T=510e-6, row="idle")
                 yours     found      off
    Q            25 MB  25.17 MB   -0.7 %
    T    not filled in    510 us
    row           fill      idle  another

    Raises GuessError for a number that cannot be read, naming it.
    """

    def __init__(self, **expected: float | str | EllipsisType) -> None:
        self._expected: dict[str, Any] = {}
        for name, value in expected.items():
            unit = _unit(name)
            if value is ... or unit is None:
                self._expected[name] = value if value is ... else str(value)
                continue
            try:
                self._expected[name] = units.parse(value, unit)
            except units.UnitError as error:
                raise GuessError(f"Guess: {name}: {error}. Write it as in {name}="
                                 f"{units.show(2.5e6, unit)!r}") from None

    def __getattr__(self, name: str) -> Any:
        """What was expected of `name`, in base units; `...` where it is open."""
        if name.startswith("_") or name not in self._expected:
            raise AttributeError(f"this guess has no {name!r}; it has "
                                 f"{', '.join(self.__dict__.get('_expected', ())) or 'nothing'}")
        return self._expected[name]

    def against(self, kind: str = "", /, **found: Any) -> "Beside":
        """What was found beside what was expected.

        kind     of what was found, for the table's head: "measured", "modelled"
        found    the same names, or some of them; numbers in base units
        """
        rows = []
        for name, value in found.items():
            mine, unit = getattr(self, name), _unit(name)
            if unit is None:
                off = "" if mine is ... else "the same" if mine == value else "another"
                rows.append((name, BLANK if mine is ... else mine, str(value), off))
                continue
            off = f"{mine / value - 1:+.1%}".replace("%", " %") if mine is not ... and value else ""
            rows.append((name, BLANK if mine is ... else units.amount(mine, unit),
                         units.amount(value, unit), off))
        return Beside([("", "yours", f"found, {kind}" if kind else "found", "off"), *rows])

    def verdict(self, before: float, after: float, name: str = "T") -> str:
        """Whether the figure predicted for after a change held.

        It did where it is off by no more than a quarter of the change, or than 1 % of what was
        there before.
        """
        mine, unit = getattr(self, name), _unit(name)
        if unit is None:
            raise GuessError(f"verdict: {name}: words have none; a figure has: "
                             f"{', '.join(SYMBOLS)}")
        if mine is ...:
            return f"{name}: no prediction, so none held. Write one before you look"
        miss, change = mine - after, after - before
        held = abs(miss) <= max(NEAR * abs(change), SMALL * abs(before))
        return (f"{name} {'held' if held else 'not held'}: it changed by "
                f"{units.amount(change, unit)}, the prediction is {units.amount(miss, unit)} off")

    def __repr__(self) -> str:
        return "\n".join(aligned([(name, _told(name, value))
                                  for name, value in self._expected.items()] or [("nothing", "")]))


class Beside:
    """Yours and what was found, a line each."""

    def __init__(self, rows: list[tuple[str, str, str, str]]) -> None:
        self.rows = rows

    def __repr__(self) -> str:
        return "\n".join(aligned(self.rows, left=(0,)))


def _unit(name: str) -> str | None:
    """Of a name's symbol; None where it has none, so is in words."""
    return SYMBOLS.get(name.partition("_")[0])


def _told(name: str, value: Any) -> str:
    unit = _unit(name)
    return BLANK if value is ... else str(value) if unit is None else units.amount(value, unit)
