"""A plotting area whose labels find their own place, and the Picture it becomes.

Question  how does one drawing serve light, dark, print and a phone, with no label on another?
Answer    Canvas: lines, marks, labels placed greedily in points; Picture: an SVG for a desk and
          one for a phone, text, table
Assumes   browsers' sans-serif fonts are no wider than DejaVu Sans, with which labels are measured
Ignores   what is drawn: rooflines and curves live beside it

Text is `currentColor` and lines are CSS variables (`CSS`), so colours follow the page.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Literal, Protocol

import matplotlib
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.patches import PathPatch, Polygon
from matplotlib.text import Text
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Affine2D

from .. import units
from ..table import Told, aligned

INK = "ink"
# name: (light, dark, where no stylesheet is: readable on white and on black)
COLOURS = {
    "muted": ("#57606a", "#a9b4bf", "currentColor"),
    "grid": ("#d8dee4", "#3a4048", "#8884"),
    "1": ("#0b5cad", "#6cb4ff", "#2f80cc"),  # blue
    "2": ("#b8440a", "#ff9a62", "#d1601f"),  # vermilion
    "3": ("#00705a", "#4fd1a8", "#138a70"),  # green
    "4": ("#8a3a8f", "#e39be6", "#a95fae"),  # purple
    "5": ("#7d5a00", "#e6c04a", "#97750c"),  # ochre
}
# kind: (marker, colour). The shape tells kinds apart where colour cannot.
MARKS = {
    "documented": ("v", "5"),
    "derived": ("P", "5"),
    "published": ("s", "4"),
    "measured": ("D", "2"),
    "modelled": ("^", "3"),
    "assumed": ("X", "5"),
}
_ON_PAPER = {INK: "#1f2328", **{name: row[0] for name, row in COLOURS.items()}}
# Drawn for a page: stand-ins that _tidy turns into what the page's stylesheet says.
_STAND_IN = {name: f"#00000{i}" for i, name in enumerate((INK, *COLOURS), start=1)}
_FORCED = " ".join(f"--rl-{name}: {dict(grid='GrayText').get(name, 'CanvasText')};"
                   for name in COLOURS)
_LIGHT, _DARK = (" ".join(f"--rl-{name}: {row[i]};" for name, row in COLOURS.items())
                 for i in (0, 1))

PHONE_BELOW = 420  # px: a figure narrower than that shows its drawing for a phone
CSS = f"""\
:root {{ {_LIGHT} }}
html[data-theme="dark"] {{ {_DARK} }}
@media print {{
  :root, html[data-theme="dark"] {{ {_LIGHT} }}
  .rl-figure {{ color: #000; break-inside: avoid; }}
}}
@media (forced-colors: active) {{  /* the reader's own colours; shapes tell things apart */
  :root, html[data-theme="dark"] {{ {_FORCED} }}
}}
.rl-figure {{ container-type: inline-size; margin: 1.5rem 0; }}
.rl-figure figcaption {{ text-align: center; margin: 0.25rem 0; color: inherit; font-weight: 400; }}
.rl-figure summary {{ padding: 0.25rem 0; }}
.rl-figure .rl-table {{ overflow-x: auto; }}
.rl-figure table {{ font-size: 0.875em; border-collapse: collapse; margin: 0; }}
.rl-figure th, .rl-figure td {{ padding: 0.15em 0.9em 0.15em 0; text-align: left;
  white-space: nowrap; }}
.rl-figure tbody th {{ font-weight: 400; }}
@media screen {{
  @container (width < {PHONE_BELOW}px) {{
    .rl-figure > svg.rl-wide {{ display: none !important; }}
    .rl-figure > svg.rl-narrow {{ display: block !important; }}
  }}
}}
@container (max-width: 34rem) {{  /* a row of the table becomes a line or two */
  .rl-figure thead {{ display: none; }}
  .rl-figure :is(table, tbody, tr, tbody th) {{ display: block; white-space: normal; }}
  .rl-figure tr {{ border-bottom: 1px solid var(--rl-grid); padding: 0.3em 0; }}
  .rl-figure tbody th {{ font-weight: 600; padding: 0; }}
  .rl-figure td {{ display: inline-block; padding: 0 1em 0 0; white-space: normal; }}
  .rl-figure td:empty {{ display: none; }}
  .rl-figure td::before {{ color: var(--rl-muted); content: attr(data-of) "\\a0"; }}
}}
"""

HEIGHT = 250.0  # of the plotting area, in points


@dataclass(frozen=True)
class Layout:
    """A drawing of this width, its letters of this size, in points; shown `most` px wide at most.

    Letters have at least 11 px wherever it is shown: `WIDE` from PHONE_BELOW px on, `NARROW` in
    what a phone of 320 px leaves, some 250 px.
    """

    name: str
    width: float
    size: float
    most: int


WIDE, NARROW = Layout("wide", 400.0, 10.5, 560), Layout("narrow", 260.0, 11.5, 380)
_FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif"
_FONT = {of: FontProperties(family="DejaVu Sans", size=of.size) for of in (WIDE, NARROW)}

Xy = tuple[float, float]
Shape = tuple[Xy, ...]  # corners of a convex shape, or the two ends of a segment
Side = Literal["left", "center", "right"]
Spot = tuple[float, float, float, Side, float]  # cost, baseline x, y, alignment, angle
Spots = Callable[[float], Iterable[Spot]]  # width of a text -> where it might stand


class PlotError(Told, ValueError):
    """Something that cannot be drawn: not positive, not finite, an unknown kind or name."""


class Draw(Protocol):
    def __call__(self, paint: Mapping[str, str], heading: str, layout: Layout = ...) -> Figure: ...


@dataclass(frozen=True, repr=False)
class Picture:
    """A figure for a page: inline SVG, caption and data table; its text is the table."""

    title: str
    alt: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    draw: Draw = field(compare=False)

    @property
    def svg(self) -> str:
        """The drawing alone."""
        return _svg(self.draw(_STAND_IN, ""), self.alt)

    @property
    def narrow(self) -> str:
        """The drawing for a phone: the page's stylesheet shows it there, and the other one not."""
        return _svg(self.draw(_STAND_IN, "", NARROW), self.alt, "display:none;", NARROW)

    def save(self, path: str | Path) -> None:
        """Write .svg or .png, on white, with its title. Raises PlotError for another suffix."""
        figure, suffix = self.draw(_ON_PAPER, self.title), Path(path).suffix
        if suffix == ".png":
            figure.savefig(path, dpi=200, facecolor="#fff", metadata={"Software": None})
        elif suffix == ".svg":
            Path(path).write_text(_svg(figure, self.alt, "background:#fff;"), encoding="utf-8")
        else:
            raise PlotError(f"save: {str(path)!r} ends in {suffix!r}; use .svg or .png")

    def _repr_html_(self) -> str:
        # A column without an entry has nothing to tell. On a phone each cell names its column.
        kept = [i for i in range(1, len(self.columns)) if any(row[i] for row in self.rows)]
        head = "".join(f'<th scope="col">{escape(self.columns[i])}</th>' for i in (0, *kept))
        body = "".join(f'<tr><th scope="row">{escape(row[0])}</th>'
                       + "".join(f'<td data-of="{escape(self.columns[i])}">{escape(row[i])}</td>'
                                 for i in kept) + "</tr>\n" for row in self.rows)
        return (f'<figure class="rl-figure">\n{self.svg}\n{self.narrow}\n'
                f"<figcaption>{escape(self.title)}</figcaption>\n"
                '<details><summary>Data</summary><div class="rl-table" role="group" '
                f'aria-label="Data: {escape(self.title)}" tabindex="0"><table>\n'
                f"<thead><tr>{head}</tr></thead>\n"
                f"<tbody>\n{body}</tbody></table></div></details>\n</figure>")

    def __repr__(self) -> str:
        table = [self.columns, *self.rows]
        return "\n".join([self.title, *aligned(table)])


@dataclass(frozen=True)
class Axis:
    """A range, linear or logarithmic, and how its numbers are written."""

    low: float
    high: float
    unit: str
    label: str
    log: bool = True

    @classmethod
    def around(cls, values: Sequence[float], unit: str, label: str, log: bool) -> Axis:
        """With some air; a linear axis of positive numbers starts at 0."""
        low, high = min(values), max(values)
        if log:
            return cls(low / 1.5, high * 1.5, unit, label)
        pad = 0.08 * ((high - min(low, 0.0)) or 1.0)
        return cls(low - pad if low < 0 else 0.0, high + pad, unit, label, log=False)

    def at(self, value: float) -> float:
        """Share of the axis' length."""
        f = math.log10 if self.log else float
        return (f(value) - f(self.low)) / (f(self.high) - f(self.low))

    def ticks(self) -> list[tuple[float, str]]:
        """Decades (powers of 4 for MiB), thinned when many; 1, 2, 5 when few; or round steps."""
        if self.log:
            base = 4.0 if self.unit == "MiB" else 10.0
            first, last = (math.floor(math.log(v, base) + 1e-9) for v in (self.low, self.high))
            step = 1 + (last - first) // 8
            values = [base**k for k in range(first, last + 1, step)]
            if last - first < 3 and base == 10:
                values = [m * v for v in values for m in (1, 2, 5)]
        else:
            values = list(MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(self.low, self.high))
        plain_number = self.unit in ("FLOP/B", "")
        return [(v, units.significant(v) if plain_number else amount(v, self.unit))
                for v in map(float, values) if self.low <= v <= self.high]


class Canvas:
    """One plotting area in points, y up from its lower edge.

    Marks and lines first, labels after: a label never touches a mark, another label or the
    edge, and crosses lines only where nothing else is left.
    """

    def __init__(self, x: Axis, y: Axis, paint: Mapping[str, str], heading: str,
                 layout: Layout = WIDE) -> None:
        self.x, self.y, self.paint, self.heading, self.layout = x, y, paint, heading, layout
        self.figure, self.scale = Figure(dpi=72), Affine2D()
        self.figure.patch.set_visible(False)
        self.taken: list[Shape] = []  # marks: no label touches these
        self.texts: list[Shape] = []  # nor these
        self.lines: list[tuple[Shape, float]] = []  # a label may cross these, at this cost
        self.leaders: list[Shape] = []
        self.entries: dict[str, tuple[str, str, bool]] = {}
        rows = y.ticks()
        if layout is NARROW and f"({y.unit})" in y.label:  # the unit is said once
            rows = [(value, text.removesuffix(y.unit).rstrip()) for value, text in rows]
        self.left = max(self.wide(text) for _, text in rows) + 8
        self.right = layout.width - 14
        for value, text in self._thinned(x.ticks()):
            px, _ = self.px((value, y.low))
            self._stroke(((px, 0), (px, HEIGHT)), "grid", 0.7)
            self._text(px, -14, text)
        for value, text in rows:
            _, py = self.px((x.low, value))
            self._stroke(((self.left, py), (self.right, py)), "grid", 0.7)
            self._text(self.left - 5, py - 3.8, text, align="right")
        self._stroke(((self.left, HEIGHT), (self.left, 0), (self.right, 0)), INK, 0.9)
        middle = min((self.left + self.right) / 2, layout.width - self.wide(x.label) / 2)
        self._text(middle, -30, x.label)
        self._text(0, HEIGHT + 9, y.label, align="left")

    def px(self, xy: Xy) -> Xy:
        return (self.left + self.x.at(xy[0]) * (self.right - self.left),
                self.y.at(xy[1]) * HEIGHT)

    def wide(self, text: str) -> float:
        """Width of a text in points."""
        return _width(text, self.layout)

    def _thinned(self, ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
        """Ticks whose numbers keep apart: all of them, or the decades alone, or every nth."""
        decades = [(v, text) for v, text in ticks
                   if self.x.log and math.isclose(v, 10.0 ** round(math.log10(v)))]
        choices = [ticks, *([decades] if len(decades) > 1 else [])]
        choices += [ticks[::n] for n in range(2, len(ticks) + 1)]

        def apart(chosen: list[tuple[float, str]]) -> bool:
            ends = [(self.px((v, self.y.low))[0], self.wide(text) / 2) for v, text in chosen]
            return all(a + half + 6 <= b - other for (a, half), (b, other) in pairwise(ends))

        return next(filter(apart, choices), ticks)

    # -- in data coordinates

    def line(self, points: Sequence[Xy], colour: str, width: float,
             dash: tuple[float, float] | None = None) -> None:
        pixels = tuple(map(self.px, points))
        self._stroke(pixels, colour, width, dash)
        self.lines += [(piece, 50.0 if width >= 1.5 else 12.0) for piece in pairwise(pixels)]

    def area(self, points: Sequence[Xy], colour: str, alpha: float = 0.08) -> None:
        self._add(Polygon(list(map(self.px, points)), facecolor=self.paint[colour], alpha=alpha,
                          linewidth=0))

    def mark(self, xy: Xy, shape: str, colour: str, hollow: bool = False,
             size: float = 4.0) -> None:
        x, y = self.px(xy)
        self._mark(x, y, shape, colour, hollow, size)
        self.taken.append(_rectangle(x - size, y - size, x + size, y + size))

    def entry(self, shape: str, colour: str, text: str, hollow: bool = False) -> None:
        """A line of the legend; the same text comes once."""
        self.entries.setdefault(text, (shape, colour, hollow))

    # -- where a label may stand

    def along(self, start: Xy, end: Xy, prefer: float = 0.5) -> Spots:
        """Above or below a line, at its slope, best at the share `prefer` of its length."""
        (x0, y0), (x1, y1) = self.px(start), self.px(end)
        length = math.hypot(x1 - x0, y1 - y0) or 1.0
        ux, uy = (x1 - x0) / length, (y1 - y0) / length

        def spots(width: float) -> Iterator[Spot]:
            for cost, off in ((0, 5), (8, -12), (10, 9)):
                for i in range(33):
                    t = width / 2 + 3 + (length - width - 6) * i / 32
                    yield (cost + abs(i - 32 * prefer) / 4, x0 + ux * t - uy * off,
                           y0 + uy * t + ux * off, "center", math.degrees(math.atan2(uy, ux)))
        return spots

    def around(self, marks: Sequence[Xy]) -> list[Spots]:
        """Beside each mark, on the right if possible; close marks get a column of labels."""
        pixels = sorted(enumerate(map(self.px, marks)), key=lambda item: item[1])
        found: dict[int, Spots] = {}
        group: list[tuple[int, Xy]] = []
        for item, following in zip(pixels, [*pixels, None][1:], strict=True):
            group.append(item)
            if following is None or following[1][0] - item[1][0] > 40:
                group.sort(key=lambda member: -member[1][1])
                for block, levels in _columns([y for _, (_, y) in group], self.layout.size + 2.5):
                    members = group[block]
                    xs = [x for _, (x, _) in members]
                    away = 8.0 + 3 * max(len(xs) - 3, 0)
                    for (n, (x, _)), level in zip(members, levels, strict=True):
                        ends = (min(xs), max(xs)) if len(xs) > 3 else (x, x)
                        found[n] = self._beside(x, level, ends[0] - away, ends[1] + away)
                group = []
        return [found[n] for n in range(len(marks))]

    def _beside(self, x: float, level: float, left: float, right: float) -> Spots:
        def spots(width: float) -> Iterator[Spot]:
            middle = min(max(x, self.left + width / 2 + 3), self.right - width / 2 - 3)
            for dy in (6.5 * k for k in range(-30, 31)):
                y = level + dy - 3.8
                yield right - x + abs(dy), middle, y, "center", 0.0
                for more in (0, 8, 20, 36, 56, 82, 112, 150, 190):
                    far = math.hypot(more, 1.2 * dy)
                    yield far, right + more, y, "left", 0.0
                    yield far + 5, left - more, y, "right", 0.0
        return spots

    def floor(self, start: float, end: float) -> Spots:
        """Centred between two values, just above the axis."""
        (x0, _), (x1, _) = self.px((start, self.y.low)), self.px((end, self.y.low))
        return lambda width: [(k + abs(i), (x0 + x1) / 2 + i / 8 * (x1 - x0 - width - 6),
                               5 + 13 * k, "center", 0.0)
                              for k in range(3) for i in range(-4, 5) if width < x1 - x0 - 6]

    def below(self, marks: Sequence[Xy]) -> None:
        """Keep the way down from each mark clear, at a cost: its label may have to stand there."""
        self.lines += [(((x, y - 6), (x, y - 20)), 45.0) for x, y in map(self.px, marks)]

    def label(self, texts: Sequence[str], spots: Spots, colour: str = INK,
              leader: Xy | None = None) -> str:
        """Write the first of `texts` that finds room, at its cheapest spot; return it, or "".

        Where only crowded spots are left for it, a later, shorter one may stand better.
        """
        best: tuple[float, str, Spot, Shape, Shape] | None = None
        for n, text in enumerate(texts):
            found = self._cheapest(text, spots, leader)
            if found and (best is None or found[0] + 60 * n < best[0]):
                best = (found[0] + 60 * n, text, *found[1:])
            if best and best[0] < 60 + 60 * n:
                break
        if best is None:
            return ""
        _, text, (_, x, y, align, angle), box, lead = best
        self._text(x, y, text, colour, align, angle)
        self.texts.append(box)
        if lead:
            self._stroke(lead, "muted", 0.7)
            self.leaders.append(lead)
            self.lines.append((lead, 200.0))
        return text

    def _cheapest(self, text: str, spots: Spots,
                  leader: Xy | None) -> tuple[float, Spot, Shape, Shape] | None:
        """Cost and place of a text, its corners and the way to it; None where no spot is free."""
        width, best = self.wide(text), None
        for spot in sorted(spots(width)):
            if best and spot[0] >= best[0]:
                break
            box = _text_box(spot, width, self.layout.size)
            if any(not (self.left + 1 < x < self.right and 1 < y < HEIGHT) for x, y in box) \
                    or any(_touch(box, shape) for shape in (*self.taken, *self.texts)):
                continue
            lead = _leader(self.px(leader), box) if leader else ()
            cost = spot[0] + sum(price for line, price in self.lines if _touch(box, line))
            if lead:
                cost += 0.3 * math.dist(*lead)
                cost += 40 * sum(_touch(lead, shape) for shape in self.taken)
                cost += 200 * sum(_touch(lead, shape) for shape in self.texts)
                cost += 20 * sum(_touch(lead, line) for line in self.leaders)
            if best is None or cost < best[0]:
                best = (cost, spot, box, lead)
        return best

    # -- in points

    def finish(self) -> Figure:
        """Set the legend under the axes, then fix the size."""
        x, y = math.inf, -35.0
        for text, (shape, colour, hollow) in self.entries.items():
            first, *rest = self._broken(text)
            width, room = self.wide(first) + 28, self.layout.width + 12
            if x + width > room:  # the next line, further left for a long text
                x = 0.0 if self.layout is NARROW else max(min(self.left, room - width), 0)
                y -= 16
            self._mark(x + 5, y + 3.8, shape, colour, hollow, 4)
            self._text(x + 14, y, first, align="left")
            for more in rest:
                y -= self.layout.size + 2.5
                self._text(x + 14, y, more, align="left")
            x = math.inf if rest else x + width
        below, above = 8 - (y if self.entries else -30), 24.0
        if self.heading:
            self._text(0, HEIGHT + 28, short(self.heading, 62), align="left")
            above = 44
        self.figure.set_size_inches(self.layout.width / 72, (below + HEIGHT + above) / 72)
        self.scale.translate(0, below).scale(1 / 72)
        return self.figure

    def _broken(self, text: str) -> list[str]:
        """Lines of a legend's text, each as wide as the picture at most where words allow it."""
        lines = [""]
        for word in text.split(" "):
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and self.wide(longer) + 16 > self.layout.width:
                lines.append(word)
            else:
                lines[-1] = longer
        return lines

    def _add(self, artist: Line2D | PathPatch | Polygon | Text) -> None:
        artist.set_transform(self.scale + self.figure.dpi_scale_trans)
        artist.set_zorder(len(self.figure.get_children()))  # later ones on top
        self.figure.add_artist(artist)

    def _stroke(self, points: Shape, colour: str, width: float,
                dash: tuple[float, float] | None = None) -> None:
        self._add(Line2D([x for x, _ in points], [y for _, y in points], linewidth=width,
                         color=self.paint[colour], linestyle=(0, dash) if dash else "-"))

    def _mark(self, x: float, y: float, shape: str, colour: str, hollow: bool,
              size: float) -> None:
        style = MarkerStyle(shape)
        outline = style.get_transform() + Affine2D().scale(2 * size).translate(x, y)
        self._add(PathPatch(style.get_path().transformed(outline), linewidth=1.4,
                            edgecolor=self.paint[colour],
                            facecolor="none" if hollow else self.paint[colour]))

    def _text(self, x: float, y: float, text: str, colour: str = INK, align: Side = "center",
              angle: float = 0.0) -> None:
        self._add(Text(x, y, text, color=self.paint[colour],
                       fontproperties=_FONT[self.layout],
                       horizontalalignment=align, verticalalignment="baseline",
                       rotation=angle, rotation_mode="anchor", parse_math=False))


@cache
def _width(text: str, layout: Layout) -> float:
    return text_to_path.get_text_width_height_descent(text, _FONT[layout], False)[0]


def _rectangle(x0: float, y0: float, x1: float, y1: float) -> Shape:
    return ((x0, y0), (x1, y0), (x1, y1), (x0, y1))


def _text_box(spot: Spot, width: float, size: float) -> Shape:
    """Corners of a text at `spot`, a little air included."""
    _, x, y, align, angle = spot
    left = {"left": 0.0, "center": -width / 2, "right": -width}[align]
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return tuple((x + a * cos - b * sin, y + a * sin + b * cos) for a, b in
                 _rectangle(left - 1.5, -0.27 * size, left + width + 1.5, 0.82 * size))


def _touch(a: Shape, b: Shape) -> bool:
    """Do two convex shapes overlap? Not when a side of one separates them."""
    for shape in (a, b):
        for (x0, y0), (x1, y1) in zip(shape, (*shape[1:], shape[0]), strict=True):
            of_a = [x * (y0 - y1) + y * (x1 - x0) for x, y in a]
            of_b = [x * (y0 - y1) + y * (x1 - x0) for x, y in b]
            if max(of_a) <= min(of_b) or max(of_b) <= min(of_a):
                return False
    return True


def _columns(heights: Sequence[float], gap: float) -> Iterator[tuple[slice, list[float]]]:
    """Heights, falling, moved as little as possible to lie `gap` apart and above 0.

    Yields each run that has to move together (isotonic regression) with its new heights.
    """
    blocks: list[tuple[float, int]] = []
    for i, height in enumerate(heights):
        mean, size = height + gap * i, 1
        while blocks and blocks[-1][0] < mean:
            other, n = blocks.pop()
            mean, size = (mean * size + other * n) / (size + n), size + n
        blocks.append((mean, size))
    first = 0
    for mean, size in blocks:
        top = min(mean - gap * first, heights[first])  # down, away from the roof
        top = max(top, gap * size)
        yield slice(first, first + size), [top - gap * k for k in range(size)]
        first += size


def _leader(mark: Xy, box: Shape) -> Shape:
    """The thin line from a mark to its label; () when they are close without it."""
    x = min(max(mark[0], box[0][0]), box[2][0])
    y = min(max(mark[1], box[0][1]), box[2][1])
    length = math.hypot(x - mark[0], y - mark[1])
    gap = 6 / max(length, 6)  # starts outside the mark itself
    start = (mark[0] + gap * (x - mark[0]), mark[1] + gap * (y - mark[1]))
    return (start, (x, y)) if length > 12 else ()


def _svg(figure: Figure, alt: str, style: str = "", layout: Layout = WIDE) -> str:
    """Matplotlib's SVG without ids, groups, sizes, comments and style rules."""
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    body = out.getvalue().partition("</defs>")[2].rpartition("</svg>")[0]
    body = re.sub(r"<[^>]*>", lambda tag: _tidy(tag[0]), body)
    body = re.sub(r"\s*\n\s*", "\n", body)
    width, height = figure.get_size_inches() * 72
    return (f'<svg xmlns="http://www.w3.org/2000/svg" class="rl-{layout.name}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(alt)}" '
            f'font-family="{_FAMILY}" font-size="{layout.size}" style="display:block;width:100%;'
            f'max-width:{layout.most}px;height:auto;margin:0 auto;{style}stroke-linejoin:round">'
            f"{body}</svg>")


def _tidy(tag: str) -> str:
    """One tag, shortened. What stands between tags is a reader's text and never rewritten."""
    if re.match(r"</?(g|defs)\b", tag):
        return ""
    tag = re.sub(r' id="[^"]*"| transform="rotate\(-?0 [^"]*"|font-(size|family): [^;"]*;? ?', "",
                 tag)
    tag = re.sub(r"\d+\.\d{2,}", lambda n: f"{float(n[0]):.1f}".removesuffix(".0"), tag)
    tag = tag.replace(_STAND_IN[INK], "currentColor")
    for name, (_, _, bare) in COLOURS.items():
        tag = tag.replace(_STAND_IN[name], f"var(--rl-{name}, {bare})")
    return re.sub(r"\s+", " ", tag)


def amount(value: float, unit: str) -> str:
    """A number with its unit; unit "MiB" writes bytes in binary units."""
    return units.mebi(value) if unit == "MiB" else units.show(value, unit)


def positive(value: float, what: str) -> None:
    if not (math.isfinite(value) and value > 0):
        raise PlotError(f"{what}: got {value}; a log axis shows finite numbers above 0. "
                        "Leave this one out and say it in words")


def plain(text: str) -> str:
    """One line of printable text."""
    return "".join(c if c.isprintable() else " " for c in text)


def short(text: str, most: int = 28) -> str:
    return text if len(text) <= most else text[: most - 1] + "\u2026"
