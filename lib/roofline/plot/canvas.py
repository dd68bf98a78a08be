"""A plotting area whose labels find their own place, and the Picture it becomes.

Question  how does one drawing serve light, dark, print and a phone, with no label on another?
Answer    Canvas: lines, marks, labels placed greedily in points; Picture: SVG, text, table
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
from typing import Literal

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
_LIGHT, _DARK = (" ".join(f"--rl-{name}: {row[i]};" for name, row in COLOURS.items())
                 for i in (0, 1))

CSS = f"""\
:root {{ {_LIGHT} }}
html[data-theme="dark"] {{ {_DARK} }}
@media print {{
  :root, html[data-theme="dark"] {{ {_LIGHT} }}
  .rl-figure {{ color: #000; break-inside: avoid; }}
}}
.rl-figure {{ margin: 1.5rem 0; }}
.rl-figure figcaption {{ text-align: center; margin: 0.25rem 0; color: inherit; font-weight: 400; }}
.rl-figure table {{ font-size: 0.875em; border-collapse: collapse; }}
.rl-figure th, .rl-figure td {{ padding: 0.15em 0.75em 0.15em 0; text-align: left; }}
"""

# Points. A phone shows one as 0.9 px, a desk at most as 1.4.
WIDTH, HEIGHT = 400.0, 250.0  # of the whole picture, of the plotting area
SIZE = 10.5
_FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif"
_FONT = FontProperties(family="DejaVu Sans", size=SIZE)

Xy = tuple[float, float]
Shape = tuple[Xy, ...]  # corners of a convex shape, or the two ends of a segment
Side = Literal["left", "center", "right"]
Spot = tuple[float, float, float, Side, float]  # cost, baseline x, y, alignment, angle
Spots = Callable[[float], Iterable[Spot]]  # width of a text -> where it might stand


class PlotError(Told, ValueError):
    """Something that cannot be drawn: not positive, not finite, an unknown kind or name."""


@dataclass(frozen=True, repr=False)
class Picture:
    """A figure for a page: inline SVG, caption and data table; its text is the table."""

    title: str
    alt: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    draw: Callable[[Mapping[str, str], str], Figure] = field(compare=False)  # colours, heading

    @property
    def svg(self) -> str:
        """The drawing alone."""
        return _svg(self.draw(_STAND_IN, ""), self.alt)

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
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
        body = "".join(f'<tr><th scope="row">{escape(first)}</th>'
                       + "".join(f"<td>{escape(cell)}</td>" for cell in rest) + "</tr>\n"
                       for first, *rest in self.rows)
        return (f'<figure class="rl-figure">\n{self.svg}\n'
                f"<figcaption>{escape(self.title)}</figcaption>\n"
                '<details><summary>Data</summary><div role="group" aria-label="Data" tabindex="0" '
                f'style="overflow-x:auto"><table>\n<thead><tr>{head}</tr></thead>\n'
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

    def __init__(self, x: Axis, y: Axis, paint: Mapping[str, str], heading: str) -> None:
        self.x, self.y, self.paint, self.heading = x, y, paint, heading
        self.figure, self.scale = Figure(dpi=72), Affine2D()
        self.figure.patch.set_visible(False)
        self.taken: list[Shape] = []  # marks: no label touches these
        self.texts: list[Shape] = []  # nor these
        self.lines: list[Shape] = []  # a label may cross these, at a cost
        self.leaders: list[Shape] = []
        self.entries: dict[str, tuple[str, str, bool]] = {}
        self.left = max(_width(text) for _, text in y.ticks()) + 8
        self.right = WIDTH - 14
        for value, text in x.ticks():
            px, _ = self.px((value, y.low))
            self._stroke(((px, 0), (px, HEIGHT)), "grid", 0.7)
            self._text(px, -14, text)
        for value, text in y.ticks():
            _, py = self.px((x.low, value))
            self._stroke(((self.left, py), (self.right, py)), "grid", 0.7)
            self._text(self.left - 5, py - 3.8, text, align="right")
        self._stroke(((self.left, HEIGHT), (self.left, 0), (self.right, 0)), INK, 0.9)
        self._text((self.left + self.right) / 2, -30, x.label)
        self._text(0, HEIGHT + 9, y.label, align="left")

    def px(self, xy: Xy) -> Xy:
        return (self.left + self.x.at(xy[0]) * (self.right - self.left),
                self.y.at(xy[1]) * HEIGHT)

    # -- in data coordinates

    def line(self, points: Sequence[Xy], colour: str, width: float,
             dash: tuple[float, float] | None = None) -> None:
        pixels = tuple(map(self.px, points))
        self._stroke(pixels, colour, width, dash)
        self.lines += pairwise(pixels)

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
                for block, levels in _columns([y for _, (_, y) in group], 13.0):
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
        self.lines += [((x, y - 6), (x, y - 20)) for x, y in map(self.px, marks)]

    def label(self, texts: Sequence[str], spots: Spots, colour: str = INK,
              leader: Xy | None = None) -> str:
        """Write the first of `texts` that finds room, at its cheapest spot; return it, or ""."""
        for text in texts:
            width, best = _width(text), math.inf
            for spot in sorted(spots(width)):
                if spot[0] >= best:
                    break
                box = _text_box(spot, width)
                if any(not (self.left + 1 < x < self.right and 1 < y < HEIGHT) for x, y in box) \
                        or any(_touch(box, shape) for shape in (*self.taken, *self.texts)):
                    continue
                lead = _leader(self.px(leader), box) if leader else ()
                cost = spot[0] + 12 * sum(_touch(box, line) for line in self.lines)
                if lead:
                    cost += 0.3 * math.dist(*lead)
                    cost += 3 * sum(_touch(lead, shape) for shape in self.taken)
                    cost += 25 * sum(_touch(lead, shape) for shape in self.texts)
                    cost += 20 * sum(_touch(lead, line) for line in self.leaders)
                if cost < best:
                    best, chosen = cost, (spot, box, lead)
            if best < math.inf:
                (_, x, y, align, angle), box, lead = chosen
                self._text(x, y, text, colour, align, angle)
                self.texts.append(box)
                if lead:
                    self._stroke(lead, "muted", 0.7)
                    self.leaders.append(lead)
                    self.lines.append(lead)
                return text
        return ""

    # -- in points

    def finish(self) -> Figure:
        """Set the legend under the axes, then fix the size."""
        x, y = math.inf, -35.0
        for text, (shape, colour, hollow) in self.entries.items():
            width = _width(text) + 28
            if x + width > WIDTH + 12:  # the next line, further left for a long text
                x, y = max(min(self.left, WIDTH + 12 - width), 0), y - 16
            self._mark(x + 5, y + 3.8, shape, colour, hollow, 4)
            self._text(x + 14, y, text, align="left")
            x += width
        below, above = 8 - (y if self.entries else -30), 24.0
        if self.heading:
            self._text(0, HEIGHT + 28, short(self.heading, 62), align="left")
            above = 44
        self.figure.set_size_inches(WIDTH / 72, (below + HEIGHT + above) / 72)
        self.scale.translate(0, below).scale(1 / 72)
        return self.figure

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
        self._add(Text(x, y, text, color=self.paint[colour], fontproperties=_FONT,
                       horizontalalignment=align, verticalalignment="baseline",
                       rotation=angle, rotation_mode="anchor", parse_math=False))


@cache
def _width(text: str) -> float:
    return text_to_path.get_text_width_height_descent(text, _FONT, False)[0]


def _rectangle(x0: float, y0: float, x1: float, y1: float) -> Shape:
    return ((x0, y0), (x1, y0), (x1, y1), (x0, y1))


def _text_box(spot: Spot, width: float) -> Shape:
    """Corners of a text at `spot`, a little air included."""
    _, x, y, align, angle = spot
    left = {"left": 0.0, "center": -width / 2, "right": -width}[align]
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return tuple((x + a * cos - b * sin, y + a * sin + b * cos) for a, b in
                 _rectangle(left - 1.5, -0.27 * SIZE, left + width + 1.5, 0.82 * SIZE))


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


def _svg(figure: Figure, alt: str, style: str = "") -> str:
    """Matplotlib's SVG without ids, groups, sizes, comments and style rules."""
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    body = out.getvalue().partition("</defs>")[2].rpartition("</svg>")[0]
    body = re.sub(r"<[^>]*>", lambda tag: _tidy(tag[0]), body)
    body = re.sub(r"\s*\n\s*", "\n", body)
    width, height = figure.get_size_inches() * 72
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'role="img" aria-label="{escape(alt)}" font-family="{_FAMILY}" '
            f'font-size="{SIZE}" style="display:block;width:100%;max-width:560px;height:auto;'
            f'margin:0 auto;{style}stroke-linejoin:round">{body}</svg>')


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
