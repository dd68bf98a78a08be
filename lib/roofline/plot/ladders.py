"""A ledger as steps down from the roof, and a model's errors as a scatter.

Question  what does each cause cost on the roofline, and how far off is a model from what was seen?
Answer    ladder(ledger) and errors(report) -> Picture
Assumes   the ledger's steps begin at T_best and end at T
Ignores   where on the timeline a cause lies: figures.timeline shows that
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from .. import units
from ..count import count_of
from .canvas import (
    HEIGHT,
    INK,
    MARKS,
    NARROW,
    WIDE,
    Axis,
    Canvas,
    Layout,
    Picture,
    PlotError,
    Spots,
    Xy,
    plain,
    positive,
    short,
)

if TYPE_CHECKING:
    from ..gaps import Ledger

SCOPES = {"core": 1, "lnc2": 2}  # physical cores of a scope
BANDS = (0.15, 0.05)
# Ratios that an axis of errors names, the most telling first.
_RATIOS = (1, 0.85, 1.15, 0.95, 1.05, 0.7, 1.3, 0.5, 1.5, 2, 4, 0.25, 8, 0.125)


@dataclass(frozen=True)
class _Step:
    """One rung: what it is called, the time it adds, the time after it; seconds."""

    label: str
    adds: float
    after: float


def ladder(ledger: Ledger, count: Any = None, *, moved: int | None = None,
           title: str = "", alt: str = "") -> Picture:
    """From entitlement down to what was measured, one step for each cause of the ledger.

    All steps stand at the count's intensity; a step's rate is W / T after it. Where W or Q is 0
    there is no intensity, and the ladder goes along the time.

    count       what T_best was made from, or what has it; the ledger's own unless given
    moved       bytes that really moved (the profiler's): where they are not Q, hollow marks show
                the same rate at their intensity, and the entitlement there
    title, alt  caption and alternative text; left empty, both are made from the data

    Raises PlotError for a count that does not give the ledger's T_best.
    """
    of = ledger.count if count is None else count_of(count)
    if of is None:
        raise PlotError(f"ladder: count: got {type(count).__name__}; expected a Count, or a run or "
                        "an op that has one")
    steps: list[_Step] = []
    for label, after, _ in ledger.ladder():
        before = steps[-1].after if steps else 0.0
        steps.append(_Step(plain(label), after * 1e-9 - before, after * 1e-9))
    machine, cores = ledger.machine, len(ledger.cores)
    share = cores / SCOPES[machine.scope]
    times = {"compute": sum(w / machine.peak(d) for d, w in of.work.items()) / share,
             "memory": of.hbm_bytes / machine.bw() / share}
    if count is not None and not math.isclose(times[ledger.roof], steps[0].after, rel_tol=1e-6):
        raise PlotError(
            f"ladder: this count takes {units.show(times[ledger.roof], 's', 5)} on {cores} of "
            f"{SCOPES[machine.scope]} cores of {machine.name}, and the ledger's T_best is "
            f"{units.show(steps[0].after, 's', 5)}. Pass the count that the ledger was made with")
    title = title or f"From T_best to T on {machine.name}, {ledger.kind}"
    if not of.flops or not of.hbm_bytes:
        return _in_time(steps, ledger.kind, title, alt)
    return _Ladder(steps, ledger.kind, of.flops, of.hbm_bytes, times["compute"],
                   times["memory"], machine.slow_link, moved).picture(title, alt)


@dataclass(frozen=True)
class _Ladder:
    """Steps at one intensity; W in FLOP, Q in B, the time of either roof in s."""

    steps: Sequence[_Step]
    kind: str
    W: int
    Q: int
    compute: float
    memory: float
    link: str
    moved: int | None

    @property
    def peak(self) -> float:
        return self.W / self.compute

    @property
    def bandwidth(self) -> float:
        return self.Q / self.memory

    def roof(self, intensity: float) -> float:
        return min(self.peak, intensity * self.bandwidth)

    @property
    def other(self) -> float | None:
        """The intensity of the bytes that moved, where it is another."""
        return self.W / self.moved if self.moved and self.moved != self.Q else None

    def picture(self, title: str, alt: str) -> Picture:
        I, top, last = self.W / self.Q, self.W / self.steps[0].after, self.steps[-1]
        rows = [("compute roof", "", "", _rate(self.peak), "", "derived"),
                (f"{self.link} roof", "", "", units.show(self.bandwidth, "B/s"), "", "derived")]
        for i, step in enumerate(self.steps):
            rate = self.W / step.after
            rows.append((step.label, units.show(step.adds, "s") if i else "",
                         units.show(step.after, "s"), _rate(rate), _percent(rate / top),
                         "derived"))
        rows.append(("T", "", *rows[-1][2:5], self.kind))
        told = "; ".join(f"{name}{f' {adds}' if adds else ''}, {rate} ({share})"
                         for name, adds, _, rate, share, _ in rows[2:])
        told = (f"At {_intensity(I)} the entitlement is {_rate(top)}. Step by step down to "
                f"{_rate(self.W / last.after)}: {told}.")
        if self.other:
            bound, rate = self.roof(self.other), self.W / last.after
            rows.append((f"at the bytes moved, {_intensity(self.other)}", "",
                         units.show(last.after, "s"), _rate(rate), _percent(rate / bound),
                         self.kind))
            told += (f" At the bytes that moved, {_intensity(self.other)}, the entitlement is "
                     f"{_rate(bound)} and the rate {_percent(rate / bound)} of it.")
        return Picture(title, alt or f"{title}. Rate over intensity, both logarithmic. {told}",
                       ("step", "adds", "time after", "rate", "of entitled", "kind"), tuple(rows),
                       self.draw)

    def draw(self, paint: Mapping[str, str], heading: str, layout: Layout = WIDE) -> Figure:
        I, ridge = self.W / self.Q, self.peak / self.bandwidth
        xs = [I, ridge, *([self.other] if self.other else [])]
        rates = [self.W / step.after for step in self.steps]
        c = Canvas(Axis(min(xs) / 4, max(xs) * 12, "FLOP/B", "Intensity I = W / Q (FLOP/B)"),
                   Axis(min(rates) / 1.6, max(self.peak, *rates) * 1.6, "FLOP/s",
                        "Rate W / T (FLOP/s)"), paint, heading, layout)
        left = max(c.x.low, c.y.low / self.bandwidth)
        slope = ((left, left * self.bandwidth), (ridge, self.peak))
        flat = ((ridge, self.peak), (c.x.high, self.peak))
        c.line(slope, "1", 2.0)
        c.line(flat, "1", 2.0)
        c.line([(I, rates[0]), (I, rates[-1])], "2", 1.3)
        shape, colour = MARKS[self.kind]
        for rate in rates[1:-1]:
            c.mark((I, rate), "_", "2", size=4)
        c.mark((I, rates[0]), "o", INK)
        c.mark((I, rates[-1]), shape, colour)
        c.entry("o", INK, "entitled (derived)")
        c.entry("_", "2", "after each cause (derived)")
        c.entry(shape, colour, self.kind)
        if self.other:
            c.mark((self.other, self.roof(self.other)), "o", INK, hollow=True)
            c.mark((self.other, rates[-1]), shape, colour, hollow=True)
            c.line([(self.other, self.roof(self.other)), (self.other, rates[-1])], colour, 1.0,
                   (3.0, 2.0))
            c.entry("o", INK, "hollow: at the bytes moved", hollow=True)
        places = c.around([(I, rate) for rate in rates])
        for i in _from_largest(self.steps):
            step = self.steps[i]
            name = short(step.label) + (f" {units.show(step.adds, 's')}" if i else "")
            if c.label((name, short(step.label, 14), f"#{i}"), places[i],
                       leader=(I, rates[i])) == f"#{i}":
                c.entry("_", "2", f"#{i} {name}")
        c.label((f"peak {_rate(self.peak)}", _rate(self.peak)), c.along(*flat))
        c.label((f"{self.link} {units.show(self.bandwidth, 'B/s')}",
                 units.show(self.bandwidth, "B/s")), c.along(*slope))
        return c.finish()


def _from_largest(steps: Sequence[_Step]) -> list[int]:
    """The ends first, then the steps that matter most: who comes late may find no room."""
    inner = sorted(range(1, len(steps)), key=lambda i: -abs(steps[i].adds))
    return [0, *inner]


class _Names(Axis):
    """Places 0, 1, 2 ... from the top, with a name each."""

    def ticks(self) -> list[tuple[float, str]]:
        names = self.unit.split("\n")
        return [(-float(i), name) for i, name in enumerate(names)]


def _in_time(steps: Sequence[_Step], kind: str, title: str, alt: str) -> Picture:
    rows = [(step.label, units.show(step.adds, "s") if i else "", units.show(step.after, "s"),
             "derived") for i, step in enumerate(steps)]
    rows.append(("T", "", rows[-1][2], kind))
    told = "; ".join(f"{name}{f' {adds}' if adds else ''}, {after}"
                     for name, adds, after, _ in rows)

    def draw(paint: Mapping[str, str], heading: str, layout: Layout = WIDE) -> Figure:
        names = "\n".join(short(step.label, 12 if layout is NARROW else 24) for step in steps)
        c = Canvas(Axis.around([0.0, *(s.after for s in steps)], "s", "Time after each cause (s)",
                               False),
                   _Names(0.6 - len(steps), 0.6, names, "", log=False), paint, heading,
                   layout)
        shape, colour = MARKS[kind]
        for i, step in enumerate(steps):
            a, b = (step.after - step.adds, step.after) if i else (0.0, step.after)
            tint = "2" if i else "1"
            c.area([(a, -i - 0.3), (b, -i - 0.3), (b, -i + 0.3), (a, -i + 0.3)], tint, 0.45)
            c.line([(a, -i - 0.3), (a, -i + 0.3)], tint, 1.2)
            c.line([(b, -i - 0.3), (b, -i + 0.3)], tint, 1.2)
            if i + 1 < len(steps):
                c.line([(b, -i - 0.3), (b, -i - 0.7)], "muted", 0.8)
        c.mark((steps[-1].after, 1 - len(steps)), shape, colour, size=3.5)
        c.entry(shape, colour, f"T ({kind})")
        for i, step in enumerate(steps):
            ends = (step.after - step.adds, step.after) if i else (0.0, step.after)
            c.label((units.show(step.adds if i else step.after, "s"),),
                    _beside(c, (min(ends), -i), (max(ends), -i)))
        return c.finish()

    return Picture(title, alt or f"{title}. {told}.", ("step", "adds", "time after", "kind"),
                   tuple(rows), draw)


def _beside(c: Canvas, left: Xy, right: Xy) -> Spots:
    (a, y), (b, _) = c.px(left), c.px(right)
    return lambda width: [(0, b + 7, y - 3.8, "left", 0.0), (1, a - 7, y - 3.8, "right", 0.0),
                          (2, (a + b) / 2, y - 3.8, "center", 0.0)]


# --- errors of a model ---------------------------------------------------------------------------


class _Errors(Axis):
    """Modelled over published, written as the error; no two marks closer than a line of text."""

    def ticks(self) -> list[tuple[float, str]]:
        found: list[float] = []
        for ratio in _RATIOS:
            far = (abs(self.at(ratio) - self.at(other)) > 14 / HEIGHT for other in found)
            if self.low <= ratio <= self.high and all(far):
                found.append(ratio)
        return [(ratio, f"{100 * (ratio - 1):+.0f} %" if ratio != 1 else "0 %")
                for ratio in sorted(found)]


def errors(report: Any, *, title: str = "", alt: str = "") -> Picture:
    """How far modelled times are from published ones: modelled / published over published.

    report   records with .id .kind .chip, .published and .modelled (s; None: no prediction) and,
             where some are not to be used, .usable; or something that has them as .rows

    Both axes are logarithmic; bands are 5 and 15 % to either side. Marks tell kinds apart, hollow
    ones the chips after the first. What is not usable or has no prediction is not drawn.
    Raises PlotError where nothing is left, or for a time that is not above 0.
    """
    every = list(getattr(report, "rows", report))
    drawn = [r for r in every if getattr(r, "usable", True) and r.modelled is not None]
    if not drawn:
        raise PlotError(f"errors: {len(every)} rows, none of them usable and predicted")
    for record in drawn:
        for name in ("published", "modelled"):
            positive(getattr(record, name), f"errors: {plain(record.id)}: {name}")
    kinds = _groups(drawn, lambda r: plain(r.kind))
    chips = list(dict.fromkeys(plain(r.chip) for r in drawn))
    title = title or "Modelled over published times"
    rows = tuple((plain(r.id), plain(r.kind), plain(r.chip), units.show(r.published, "s"),
                  units.show(r.modelled, "s"), f"{100 * _off(r):+.1f} %") for r in drawn)
    left = len(every) - len(drawn)
    told = "; ".join(_told(kind, group) for kind, group in kinds.items())
    told += f"; {left} rows not usable or not predicted, left out" if left else ""

    def draw(paint: Mapping[str, str], heading: str, layout: Layout = WIDE) -> Figure:
        xs, ratios = [r.published for r in drawn], [r.modelled / r.published for r in drawn]
        low, high = min(*ratios, 1 / 1.25), max(*ratios, 1.25)
        c = Canvas(Axis.around(xs, "s", "Published time (s)", True),
                   _Errors(low / 1.06, high * 1.06, "", "Modelled against published"),
                   paint, heading, layout)
        for i, band in enumerate(BANDS):
            c.area([(c.x.low, 1 - band), (c.x.high, 1 - band), (c.x.high, 1 + band),
                    (c.x.low, 1 + band)], "3", 0.1 + 0.06 * i)
        c.line([(c.x.low, 1), (c.x.high, 1)], "muted", 1.2)
        for i, (kind, group) in enumerate(kinds.items()):
            shape, colour = "oD^svPX*"[i % 8], str(i % 5 + 1)
            for r in group:
                c.mark((r.published, r.modelled / r.published), shape, colour, size=3.2,
                       hollow=plain(r.chip) != chips[0])
            c.entry(shape, colour, f"{short(kind, 24)} ({len(group)})")
        if len(chips) > 1:
            c.entry("o", INK, f"{short(chips[0], 16)}; hollow: {short(', '.join(chips[1:]), 24)}")
        c.entry("s", "3", "bands: 5 and 15 %")
        # Those outside the bands by name, the worst first.
        far = sorted((r for r in drawn if abs(_off(r)) > BANDS[0]), key=lambda r: -abs(_off(r)))
        for r in far:
            mark = (r.published, r.modelled / r.published)
            c.label((short(plain(r.id), 16),), c.around([mark])[0], leader=mark)
        return c.finish()

    return Picture(title, alt or f"{title}, both axes logarithmic. {told}.",
                   ("row", "kind", "chip", "published", "modelled", "error"), rows, draw)


def _off(record: Any) -> float:
    return float(record.modelled / record.published - 1)


def _groups(records: Iterable[Any], key: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for record in records:
        found.setdefault(key(record), []).append(record)
    return found


def _told(kind: str, group: Sequence[Any]) -> str:
    worst = max(group, key=lambda r: abs(_off(r)))
    within = sum(abs(_off(r)) <= BANDS[0] for r in group)
    return (f"{kind}: {len(group)} rows, median error "
            f"{units.significant(100 * median(abs(_off(r)) for r in group))} %, worst "
            f"{100 * _off(worst):+.1f} % ({plain(worst.id)}), {within} within 15 %")


def _rate(value: float) -> str:
    return units.show(value, "FLOP/s")


def _intensity(value: float) -> str:
    return units.show(value, "FLOP/B")


def _percent(share: float) -> str:
    return f"{units.significant(100 * share)} %"
