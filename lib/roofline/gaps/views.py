"""What a ledger shows besides its rows: by source line, against another, without some causes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import units
from ..table import aligned, printable
from ..timeline import Timeline
from .core import Part
from .rates import GapError

if TYPE_CHECKING:
    from .ledger import Row


def time(ns: float, digits: int = 3) -> str:
    """12345.6 -> '12.3 us'."""
    return units.show(round(ns, 6) / 1e9, "s", digits)  # below 1e-6 ns is how floats round


class Step(NamedTuple):
    """A rung of the ladder: the time after it in ns, and the row that takes it there."""

    label: str
    time: float
    row: "Row | None"

    def __repr__(self) -> str:
        return f"({self.label}, {time(self.time)})"


@dataclass(frozen=True, repr=False)
class Lines:
    """The gap by source line: cause by cause, ns; "" is what no line answers for."""

    by_line: Mapping[str, Mapping[str, float]]
    gap: float

    def __getitem__(self, line: str) -> float:
        if line not in self.by_line:
            raise GapError(f"lines: no line {printable(line, 60)!r} answers for a part of the "
                           "gap; these do: "
                           f"{', '.join(printable(line, 60) for line in [*self][:9])}")
        return sum(self.by_line[line].values())

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_line)

    def __repr__(self) -> str:
        cells = [("time", "share", "line", "mostly")]
        for line, causes in self.by_line.items():
            most = max(causes, key=lambda cause: abs(causes[cause]))
            share = self[line] / self.gap if self.gap else 0
            cells.append((time(self[line]), f"{share:.1%}", printable(line, 60) or "(no line)",
                          most))
        return "\n".join(aligned(cells, left=(2, 3)))


def lines(parts: Iterable[Part], of: Timeline, cores: int, gap: float) -> Lines:
    """Each part's ns to the lines of the rows that own it; the rest to no line.

    A packet belongs to the transfer whose id it bears, where there is one.
    """
    own, issues = of.instructions, np.flatnonzero(of.instructions.issues)
    issues = issues[np.argsort(own.id[issues])]
    at = np.searchsorted(own.id[issues], of.packets.id)
    sender = np.r_[issues, -1][at]
    if not issues.size or "packets.id" in of.unknown:
        sender[:] = -1
    else:
        sender[own.id[sender] != of.packets.id] = -1
    found: dict[str, dict[str, float]] = {}
    for part in parts:
        rows, ns = part.owned()
        sums = {"": part.ns}
        if ns is not None and rows.size:
            rows = rows if part.table == "instructions" else sender[rows]
            for place, some in enumerate(np.bincount(own.line[rows[rows >= 0]], ns[rows >= 0])):
                if some and own.lines[place]:
                    sums[own.lines[place]] = float(some)
                    sums[""] -= float(some)
        for line, some in sums.items():
            if some:
                causes = found.setdefault(line, {})
                causes[part.cause] = causes.get(part.cause, 0.0) + some / cores
    order = sorted(found, key=lambda line: -sum(found[line].values()))
    return Lines({line: found[line] for line in order}, gap)


@dataclass(frozen=True, repr=False)
class Difference:
    """Two ledgers, cause by cause: (before, after) in ns."""

    before: str
    after: str
    t: tuple[float, float]
    t_best: tuple[float, float]
    causes: Mapping[str, tuple[float, float]]

    def __getitem__(self, cause: str) -> float:
        """ns more than before; negative is less."""
        before, after = self.causes.get(cause, (0.0, 0.0))
        return after - before

    def __repr__(self) -> str:
        cells = [("before", "after", "change", "cause")]
        order = sorted(self.causes, key=lambda cause: -abs(self[cause]))
        for name, (a, b) in [*((cause, self.causes[cause]) for cause in order),
                             ("T_best", self.t_best), ("T", self.t)]:
            sign = "+" * (round(b - a, 6) > 0)
            cells.append((time(a, 4), time(b, 4), sign + time(b - a, 4), name))
        return "\n".join([f"{printable(self.before, 60)} -> {printable(self.after, 60)}",
                          *aligned(cells, left=(3,), indent="  ")])


@dataclass(frozen=True, repr=False)
class Fixed:
    """The time at best without some causes, ns.

    limit   what keeps it from being lower, in words; "" where nothing does
    """

    causes: tuple[str, ...]
    before: float
    t: float
    limit: str

    def __repr__(self) -> str:
        says = f"without {', '.join(self.causes) or 'any change'}: at best {time(self.t)}"
        says += f" instead of {time(self.before)} ({self.before / self.t:.2f}x)" if self.t else ""
        return says + f"; no lower: {self.limit}" * bool(self.limit)
