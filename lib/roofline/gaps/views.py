"""What a ledger shows besides its rows: by source line, against another, without some causes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import units
from ..table import aligned
from ..timeline import Instructions
from .core import Part

if TYPE_CHECKING:
    from .ledger import Row


def time(ns: float) -> str:
    """12345.6 -> '12.3 us'."""
    return units.show(round(ns, 6) / 1e9, "s")  # below 1e-6 ns is how floats round


def plain(text: str, width: int = 60) -> str:
    """A profile's text on one line, cut: it is data."""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= width else text[:width - 3] + "..."


class Step(NamedTuple):
    """A rung of the ladder: the time after it in ns, and the row that takes it there."""

    label: str
    time: float
    row: "Row | None"


@dataclass(frozen=True, repr=False)
class Lines:
    """The gap by source line: cause by cause, ns; "" is what no line answers for."""

    by_line: Mapping[str, Mapping[str, float]]
    gap: float

    def __getitem__(self, line: str) -> float:
        return sum(self.by_line[line].values())

    def __repr__(self) -> str:
        cells = [("time", "share", "line", "mostly")]
        for line, causes in self.by_line.items():
            most = max(causes, key=lambda cause: abs(causes[cause]))
            share = self[line] / self.gap if self.gap else 0
            cells.append((time(self[line]), f"{share:.1%}", plain(line) or "(no line)", most))
        return "\n".join(aligned(cells, left=(2, 3)))


def lines(parts: Iterable[Part], own: Instructions, cores: int, gap: float) -> Lines:
    """Each part's ns to the lines of the rows that own it; the rest to no line."""
    found: dict[str, dict[str, float]] = {}

    def add(line: str, cause: str, ns: float) -> None:
        if ns:
            causes = found.setdefault(line, {})
            causes[cause] = causes.get(cause, 0.0) + ns / cores

    for part in parts:
        rows, ns = part.owned()
        rest = part.ns
        if part.table == "instructions" and ns is not None and rows.size:
            sums = np.bincount(own.line[rows], ns)
            for place in np.flatnonzero(sums):
                if own.lines[place]:
                    add(own.lines[place], part.cause, float(sums[place]))
                    rest -= float(sums[place])
        add("", part.cause, rest)
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
            cells.append((time(a), time(b), ("+" if b > a else "") + time(b - a), name))
        return "\n".join([f"{plain(self.before)} -> {plain(self.after)}",
                          *aligned(cells, left=(3,), indent="  ")])


@dataclass(frozen=True, repr=False)
class Fixed:
    """The time without some causes, ns.

    limit   what keeps it from being lower: an engine that still has its own work, "T_best", or ""
    """

    causes: tuple[str, ...]
    before: float
    t: float
    limit: str

    def __repr__(self) -> str:
        says = f"without {', '.join(self.causes) or 'any change'}: {time(self.t)}"
        says += f" instead of {time(self.before)} ({self.before / self.t:.2f}x)" if self.t else ""
        limits = {"": "", "T_best": "; no lower than T_best"}
        return says + limits.get(self.limit, f"; no lower, for {self.limit} is busy that long")


def fixed(gone: Mapping[str, float], t: float, t_best: float, kept: float,
          busy: Mapping[str, float]) -> Fixed:
    """T less these rows, but not below T_best or what another engine has to do anyway.

    kept   ns of start and end, while they are there: no engine works in them
    """
    floors = {"T_best": t_best, **{engine: ns + kept for engine, ns in busy.items()}}
    limit = max(floors, key=lambda name: floors[name])
    left = min(t, t - sum(gone.values()))
    if left >= floors[limit]:
        return Fixed(tuple(gone), t, left, "")
    return Fixed(tuple(gone), t, min(t, floors[limit]), limit)
