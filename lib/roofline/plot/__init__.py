"""Rooflines and measured curves as pictures that carry their alt text and their numbers.

Question  where does a kernel stand under this machine's roofs, and how far below?
Answer    roofline(machine, points, dtype=...), curve(series, ...), ladder(ledger) -> Picture
Assumes   I counts the bytes of the memory level whose roof a point is set against
Ignores   styling by the caller: pages never touch axes or colours
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from matplotlib.figure import Figure

from .. import units
from ..count import Count
from ..machine import KINDS, Ceiling, Machine, Spec
from .canvas import (
    COLOURS,
    CSS,
    INK,
    MARKS,
    NARROW,
    WIDE,
    Axis,
    Canvas,
    Layout,
    Picture,
    PlotError,
    Xy,
    amount,
    plain,
    positive,
    short,
)
from .ladders import errors, ladder

__all__ = ["COLOURS", "CSS", "KINDS", "Picture", "PlotError", "Point", "Series", "curve", "errors",
           "ladder", "roofline"]

_DASHES = (None, (7.0, 2.0), (2.0, 2.0))
_PROFILED = ", at the bytes moved"

T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    """A kernel on a roofline.

    label               plain text
    intensity           I in FLOP/B, of `level`'s bytes
    rate                FLOP/s reached; None shows the entitlement alone
    kind                where `rate` (without one: I) comes from, one of KINDS
    measured_intensity  W over the bytes that really moved (the profiler's), where they are not Q
    level               the memory level whose bytes I counts; None is the slow link

    Raises PlotError when a number cannot stand on a log axis or the kind is unknown.
    """

    label: str
    intensity: float
    rate: float | None = None
    kind: str = "derived"
    measured_intensity: float | None = None
    level: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", plain(self.label))
        _known_kind(self.kind, f"Point {self.label!r}")
        for name in ("intensity", "rate", "measured_intensity"):
            if (value := getattr(self, name)) is not None:
                positive(value, f"Point {self.label!r}: {name}")

    def places(self) -> list[tuple[float, str]]:
        """Its intensities: the counted one and, when it differs, that of the bytes moved."""
        other = self.measured_intensity
        differs = other is not None and not math.isclose(other, self.intensity)
        return [(self.intensity, ""), *([(other, _PROFILED)] if other and differs else [])]


@dataclass(frozen=True)
class Series:
    """Measured y over x in base units, with an optional low-high band.

    Raises PlotError when the lengths differ or the kind is unknown.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    kind: str = "measured"
    low: Sequence[float] = ()
    high: Sequence[float] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", plain(self.label))
        _known_kind(self.kind, f"Series {self.label!r}")
        n = len(self.x)
        if not n or len(self.y) != n or {len(self.low), len(self.high)} not in ({0}, {n}):
            raise PlotError(f"Series {self.label!r}: x, y, low, high hold {n}, {len(self.y)}, "
                            f"{len(self.low)}, {len(self.high)} values; give each as many, at "
                            "least one (low and high may both stay away)")


Row = tuple[str, str, str, str, str, str]


def roofline(machine: Machine, points: Iterable[Point] = (), *, dtype: str | Count,
             levels: Sequence[str] | None = None,
             ceilings: bool | Iterable[Ceiling | str] = False,
             title: str = "", alt: str = "") -> Picture:
    """The roofs of `machine` for `dtype`, with `points` on and under them.

    dtype       of the peak; or a Count: the peak of its mix of dtypes
    levels      memory levels whose bandwidth is drawn; default the slow link alone
    ceilings    True for all of the machine's, or some of them by name or value
    title, alt  caption and alternative text; left empty, both are made from the data

    A point is a dot on its roof (the entitlement) joined to a mark below it (the rate). Where
    other bytes moved, hollow marks show the same rate at their I and the entitlement there.
    Raises PlotError for an unknown dtype, level or ceiling, MachineError for a Count without one.
    """
    if isinstance(dtype, Count):
        machine = machine.mixed(dtype)
        [dtype] = machine.peaks
    points = tuple(points)
    wanted = [*(levels or [machine.slow_link]), *(p.level or machine.slow_link for p in points)]
    scene = _Roofline(
        machine, dtype, points, _find(machine.peaks, dtype, f"{machine.name} has no dtype"),
        {w: _find(machine.bandwidths, w, f"{machine.name} has no level") for w in wanted},
        _ceilings(machine, {dtype, *wanted}, ceilings))
    title, rows = title or f"Roofline of {machine.name}, {dtype}", tuple(scene.rows())
    alt = alt or (f"{title}. Rate over intensity, both axes logarithmic. "
                  + "; ".join(map(_told, rows)) + ".")
    return Picture(title, alt, ("what", "kind", "I", "roof or rate", "of entitled", "bound by"),
                   rows, scene.draw)


@dataclass(frozen=True)
class _Roofline:
    """What one picture shows; `rows` says it and `draw` draws it."""

    machine: Machine
    dtype: str
    points: tuple[Point, ...]
    peak: Spec
    links: dict[str, Spec]
    lower: list[Ceiling]

    @cached_property
    def ridges(self) -> dict[str, float]:
        return {level: self.machine.ridge(self.dtype, level) for level in self.links}

    def level(self, p: Point) -> str:
        return p.level or self.machine.slow_link

    def entitled(self, p: Point, intensity: float) -> float:
        return self.machine.attainable(intensity, self.dtype, self.level(p))

    def height(self, p: Point) -> float:
        """Where its label belongs: the rate, or without one the roof."""
        return p.rate or self.entitled(p, p.intensity)

    def rows(self) -> Iterator[Row]:
        top = units.show(self.peak.value, "FLOP/s")
        yield f"compute, {self.dtype}", self.peak.kind, "", top, "", ""
        for level, spec in self.links.items():
            yield level, spec.kind, "", units.show(spec.value, "B/s"), "", ""
        for level, ridge in self.ridges.items():
            yield f"ridge, {level}", "derived", _intensity(ridge), top, "", ""
        for low in self.lower:
            value = units.show(low.spec.value, low.spec.unit)
            yield f"ceiling, {low.name}", low.spec.kind, "", value, "", ""
        for p in self.points:
            for at, other in p.places():
                bound, side = self.entitled(p, at), self.side(p, at)
                shown = _intensity(at) + (f" of {p.level}" if p.level else "")
                yield (f"{p.label}, entitled{other}", "derived" if p.rate else p.kind,
                       shown, units.show(bound, "FLOP/s"), "", side)
                if p.rate:
                    yield (f"{p.label}{other}", p.kind, shown, units.show(p.rate, "FLOP/s"),
                           _share(p.rate, bound), self.on_ceiling(p.rate, at) or side)

    def side(self, p: Point, intensity: float) -> str:
        level = self.level(p)
        if math.isclose(intensity, self.ridges[level]):
            return f"{level} and compute"
        return level if intensity < self.ridges[level] else "compute"

    def on_ceiling(self, rate: float, intensity: float) -> str:
        """The drawn ceiling that a point lies on, if any: it binds below the roofs."""
        return next((f"ceiling, {low.name}" for low in self.lower if math.isclose(
            rate, low.spec.value * (1 if low.spec.unit == "FLOP/s" else intensity))), "")

    def limits(self) -> tuple[Axis, Axis]:
        """Axes that hold every mark, and the ridge with a piece of either roof."""
        ridges, slow = self.ridges.values(), next(iter(self.links.values())).value
        xs = [*ridges, *(at for p in self.points for at, _ in p.places())]
        low, high = min(*xs, min(ridges) / 5, max(ridges) / 12), max(*xs, max(ridges) * 5)
        rates = [p.rate for p in self.points if p.rate]
        rates += [c.spec.value * (1 if c.spec.unit == "FLOP/s" else min(ridges) / 3)
                  for c in self.lower]
        bottom = min([slow * low, self.peak.value / 30, *rates])
        return (Axis(low / 2.5, high * 4, "FLOP/B", "Intensity I = W / Q (FLOP/B)"),
                Axis(bottom / (3 + len(self.points)), max([self.peak.value, *rates]) * 3,
                     "FLOP/s", "Rate W / T (FLOP/s)"))

    def draw(self, paint: Mapping[str, str], heading: str, layout: Layout = WIDE) -> Figure:
        c, peak = Canvas(*self.limits(), paint, heading, layout), self.peak.value
        floor, top = c.y.low, max(s.value for s in self.links.values())

        def ends(spec: Spec) -> tuple[Xy, Xy]:
            """A flat or slanted line, within the axes and under the roof."""
            if spec.unit == "FLOP/s":
                return (max(spec.value / top, c.x.low), spec.value), (c.x.high, spec.value)
            left = max(c.x.low, floor / spec.value)
            right = min(c.x.high, peak / spec.value)
            return (left, left * spec.value), (right, right * spec.value)

        if len(self.links) == 1:  # a tint for each side of the ridge
            start, knee = ends(next(iter(self.links.values())))
            c.area([(start[0], floor), start, knee, (knee[0], floor)], "1")
            c.area([(knee[0], floor), knee, (c.x.high, peak), (c.x.high, floor)], "5")
        lines: list[tuple[Spec, str, str, tuple[float, float] | None]]
        lines = [(self.peak, f"{self.dtype} peak", "1", None)]
        lines += [(spec, level, "1", _DASHES[min(i, 2)])
                  for i, (level, spec) in enumerate(self.links.items())]
        same: dict[tuple[str, float], list[Ceiling]] = {}  # several reasons, one line
        for low in self.lower:
            same.setdefault((low.spec.unit, low.spec.value), []).append(low)
        lines += [(lows[0].spec, ", ".join(dict.fromkeys(low.name for low in lows)), "muted",
                   (4.0, 2.5)) for lows in same.values()]
        for spec, _, colour, dash in reversed(lines):
            c.line(ends(spec), colour, 2.0 if colour == "1" else 1.2, dash)
        for ridge in self.ridges.values():
            c.line([(ridge, floor), (ridge, peak)], "1", 1.0, (1.0, 2.5))
            c.mark((ridge, peak), "o", "1", size=3)
        for p in self.points:
            self.draw_point(c, p)

        roofs = 1 + len(self.links)
        for spec, name, *_ in lines[:roofs]:
            _name_line(c, spec, name, ends(spec), INK)
        # Labels from the top down, so that a column of them keeps the order of its marks.
        ranked = sorted(enumerate(self.points, start=1), key=lambda item: -self.height(item[1]))
        marks = [(p.intensity, self.height(p)) for _, p in ranked]
        c.below(marks)
        for level, ridge in self.ridges.items():
            knee = (ridge, peak)
            if len(self.links) == 1:
                shown = _intensity(ridge)  # on a phone without its unit, which the axis has
                c.label((f"ridge {shown.split()[0] if layout is NARROW else shown}",),
                        c.around([knee])[0], leader=knee)
            else:  # each along its own drop line
                c.label((f"{level} ridge {_intensity(ridge)}",),
                        c.along((ridge, floor), knee, prefer=0.1))
        for spec, name, *_ in lines[roofs:]:
            _name_line(c, spec, name, ends(spec), "muted")
        for (n, p), mark, spots in zip(ranked, marks, c.around(marks), strict=True):
            share = f", {_share(p.rate, self.entitled(p, p.intensity), 2)}" if p.rate else ""
            number, (shape, colour) = f"#{n}", MARKS[p.kind] if p.rate else ("o", INK)
            full, most = short(p.label) + share, short(p.label, 40) + share
            said = c.label((full, short(p.label), short(p.label, 12), number), spots, leader=mark)
            if said != full:
                c.entry(shape, colour, f"{number} {most}" if said == number else most)
        if len(self.links) == 1:
            [(level, ridge)] = self.ridges.items()
            c.label((f"bound by {level}",), c.floor(c.x.low, ridge), colour="muted")
            c.label(("bound by compute",), c.floor(ridge, c.x.high), colour="muted")
        return c.finish()

    def draw_point(self, c: Canvas, p: Point) -> None:
        shape, colour = MARKS[p.kind]
        c.entry("o", INK, f"entitled ({'derived' if p.rate else p.kind})")
        for at, other in p.places():
            roof = (at, self.entitled(p, at))
            if p.rate:
                c.line([roof, (at, p.rate)], colour, 1.3, (3.0, 2.0) if other else None)
                c.mark((at, p.rate), shape, colour, hollow=bool(other))
                c.entry(shape, colour, p.kind)
            c.mark(roof, "o", INK, hollow=bool(other))
            if other:
                c.line([(p.intensity, self.height(p)), (at, p.rate or roof[1])], colour, 1.0,
                       (3.0, 2.0))
                c.entry("o", INK, "hollow: at the bytes moved", hollow=True)


def curve(series: Iterable[Series], *, xlabel: str, ylabel: str, xunit: str, yunit: str,
          log: str = "x", roofs: Iterable[tuple[str, Spec]] = (), title: str = "",
          alt: str = "") -> Picture:
    """Measured series as lines with marks.

    xunit, yunit  base units of `units`; "MiB" shows bytes in binary units
    log           the axes that are logarithmic: "", "x", "y" or "xy"
    roofs         (name, Spec): level lines for what the series should reach

    Raises PlotError for no series, or a number its axis cannot show.
    """
    series, roofs = tuple(series), tuple(roofs)
    if not series:
        raise PlotError("curve: no series to draw; pass at least one Series")
    xs = [v for s in series for v in s.x]
    ys = [*(v for s in series for v in (*s.y, *s.low, *s.high)), *(s.value for _, s in roofs)]
    for name, values in (("x", xs), ("y", ys)):
        for value in values:
            if name in log:
                positive(value, f"curve: {name}")
            elif not math.isfinite(value):
                raise PlotError(f"curve: {name}: got {value}; it must be finite")
    title = title or f"{ylabel} against {xlabel}"
    rows = [(name, s.kind, "", amount(s.value, yunit), "") for name, s in roofs]
    told = [f"{name}: {amount(s.value, yunit)} ({s.kind})" for name, s in roofs]
    for s in series:
        x, y, low, high = ([amount(v, unit) for v in values] for values, unit in
                           ((s.x, xunit), (s.y, yunit), (s.low, yunit), (s.high, yunit)))
        band = [f"{a} to {b}" for a, b in zip(low, high, strict=True)] or [""] * len(x)
        rows += [(s.label, s.kind, *row) for row in zip(x, y, band, strict=True)]
        told += [f"{s.label} ({s.kind}): {y[0]} at {x[0]}, {y[-1]} at {x[-1]}, "
                 f"largest {amount(max(s.y), yunit)}"]

    def draw(paint: Mapping[str, str], heading: str, layout: Layout = WIDE) -> Figure:
        c = Canvas(Axis.around(xs, xunit, xlabel, "x" in log),
                   Axis.around(ys, yunit, ylabel, "y" in log), paint, heading, layout)
        for _, spec in roofs:
            c.line([(c.x.low, spec.value), (c.x.high, spec.value)], "muted", 1.2, (4.0, 2.5))
        for i, s in enumerate(series):
            shape, colour = "oD^sv"[i % 5], str(i % 5 + 1)
            if len(s.low):
                c.area([*zip(s.x, s.low, strict=True), *zip(s.x[::-1], s.high[::-1], strict=True)],
                       colour, 0.18)
            c.line(list(zip(s.x, s.y, strict=True)), colour, 1.6, _DASHES[i % 3])
            for xy in zip(s.x, s.y, strict=True):
                c.mark(xy, shape, colour, size=2.6)
            c.entry(shape, colour, f"{short(s.label, 40)} ({s.kind})")
        for name, spec in roofs:
            _name_line(c, spec, name, ((c.x.low, spec.value), (c.x.high, spec.value)), "muted")
        return c.finish()

    return Picture(title, alt or f"{title}. " + "; ".join(told) + ".",
                   ("what", "kind", xlabel, ylabel, "low to high"), tuple(rows), draw)


def _known_kind(kind: str, what: str) -> None:
    if kind not in KINDS:
        raise PlotError(f"{what}: kind {kind!r} is unknown; one of {', '.join(KINDS)}")


def _find(table: Mapping[str, T], key: str, what: str) -> T:
    if key not in table:
        raise PlotError(f"roofline: {what} {key!r}; one of {', '.join(table) or 'none at all'}")
    return table[key]


def _ceilings(machine: Machine, roofs: set[str], wanted: bool | Iterable[Ceiling | str]
              ) -> list[Ceiling]:
    """Those of the machine that lower one of `roofs`, all or by name; own ones as they are."""
    known = [c for c in machine.ceilings if c.roof in roofs]
    if isinstance(wanted, bool):
        return known if wanted else []
    chosen: list[Ceiling] = []
    for item in wanted:
        if isinstance(item, str):
            by_name = {c.name: [k for k in known if k.name == c.name] for c in known}
            chosen += _find(by_name, item, f"{machine.name} has no ceiling")
        elif item.spec.unit in ("FLOP/s", "B/s"):
            chosen.append(item)
        else:
            raise PlotError(f"roofline: ceiling {item.name!r} is in {item.spec.unit!r}; a lower "
                            "roof is in FLOP/s or B/s")
    return chosen


def _told(row: Row) -> str:
    """A table row as a phrase of the alternative text."""
    name, kind, intensity, value, share, side = row
    return (f"{name}: {value}" + (f" at {intensity}" if intensity else "") + f" ({kind}"
            + (f", {share} of entitled" if share else "") + ")"
            + (f", bound by {side}" if side else ""))


def _name_line(c: Canvas, spec: Spec, name: str, ends: tuple[Xy, Xy], colour: str) -> None:
    """Name, value and kind along a line; what finds no room there goes to the legend."""
    value = units.show(spec.value, spec.unit)
    full = f"{short(name)} {value} ({spec.kind})"
    if c.label((full, f"{short(name, 14)} {value}", value), c.along(*ends), colour) != full:
        c.entry("_", colour, f"{short(name, 40)} {value} ({spec.kind})")


def _intensity(value: float) -> str:
    return units.show(value, "FLOP/B")


def _share(rate: float, bound: float, digits: int = 3) -> str:
    return f"{units.significant(100 * rate / bound, digits)} %"
