"""Pictures: their numbers, their words, and that no label covers another."""

import random
import re
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from roofline import machine, plot
from roofline.count import Count
from roofline.machine import Ceiling, Machine, Spec
from roofline.plot import PlotError, Point, Series
from roofline.plot.canvas import _ON_PAPER, HEIGHT, INK, NARROW, WIDE, Canvas, _columns, _touch

SVG = "{http://www.w3.org/2000/svg}"


def spec(value, unit, kind="documented"):
    return Spec(value, unit, "toyguide, table 2", kind)


# An invented core: P = 80 TFLOP/s, BW = 400 GB/s, ridge 80e12 / 400e9 = 200 FLOP/B.
TOY = Machine(
    "toy", "Toy core", "core", {"bf16": spec(80e12, "FLOP/s")},
    {"HBM": spec(400e9, "B/s", "derived"), "SBUF": spec(4e12, "B/s", "assumed")},
    (Ceiling("half clock", spec(40e12, "FLOP/s"), "it idles", "bf16"),
     Ceiling("one queue", spec(40e12, "FLOP/s"), "one engine", "bf16"),
     Ceiling("short rows", spec(100e9, "B/s", "measured"), "512-byte rows", "HBM"),
     Ceiling("one port", spec(1e12, "B/s"), "half the lanes", "SBUF")))
GEMM = Point("gemm", 50, rate=5e12, kind="measured", measured_intensity=25)


def toy(*points, **more):
    return plot.roofline(TOY, points, dtype="bf16", **more)


def rows(picture, what):
    return [row[1:] for row in picture.rows if row[0] == what]


# --- the table ------------------------------------------------------------------------------

def test_table_is_arithmetic():
    picture = toy(GEMM, Point("big", 400, kind="modelled"), Point("knee", 200))
    assert picture.columns == ("what", "kind", "I", "roof or rate", "of entitled", "bound by")
    assert rows(picture, "compute, bf16") == [("documented", "", "80 TFLOP/s", "", "")]
    assert rows(picture, "HBM") == [("derived", "", "400 GB/s", "", "")]
    assert rows(picture, "ridge, HBM") == [("derived", "200 FLOP/B", "80 TFLOP/s", "", "")]
    # 50 x 400e9 = 20e12; 5 of 20 = 25 %; 25 x 400e9 = 10e12; 5 of 10 = 50 %
    assert rows(picture, "gemm, entitled") == [("derived", "50 FLOP/B", "20 TFLOP/s", "", "HBM")]
    assert rows(picture, "gemm") == [("measured", "50 FLOP/B", "5 TFLOP/s", "25 %", "HBM")]
    assert rows(picture, "gemm, entitled, at the bytes moved") == [
        ("derived", "25 FLOP/B", "10 TFLOP/s", "", "HBM")]
    assert rows(picture, "gemm, at the bytes moved") == [
        ("measured", "25 FLOP/B", "5 TFLOP/s", "50 %", "HBM")]
    assert rows(picture, "big, entitled") == [
        ("modelled", "400 FLOP/B", "80 TFLOP/s", "", "compute")]
    assert rows(picture, "knee, entitled")[0][-1] == "HBM and compute"


def test_levels_and_ceilings():
    assert not any(row[0].startswith("ceiling") for row in toy().rows)
    names = [row[0] for row in toy(ceilings=True).rows if row[0].startswith("ceiling")]
    assert names == ["ceiling, half clock", "ceiling, one queue", "ceiling, short rows"]
    picture = toy(Point("tile", 10, level="SBUF"), Point("op", 10), levels=["HBM", "SBUF"],
                  ceilings=["one port", Ceiling("mine", spec(5e12, "FLOP/s"), "so", "bf16")])
    assert rows(picture, "ceiling, one port") == [("documented", "", "1 TB/s", "", "")]
    assert rows(picture, "ceiling, mine") == [("documented", "", "5 TFLOP/s", "", "")]
    assert rows(picture, "ridge, SBUF")[0][1] == "20 FLOP/B"  # 80e12 / 4e12
    assert rows(picture, "tile, entitled")[0][1:3] == ("10 FLOP/B of SBUF", "40 TFLOP/s")
    assert rows(picture, "op, entitled")[0][1:3] == ("10 FLOP/B", "4 TFLOP/s")


def test_a_count_stands_for_the_mix_of_its_dtypes():
    two = Machine("toy", "Toy core", "core", {**TOY.peaks, "fp32": spec(20e12, "FLOP/s")},
                  TOY.bandwidths)
    # 160 of 80 and 20 of 20: 180 in 3 s
    picture = plot.roofline(two, dtype=Count({"bf16": 160, "fp32": 20}, 1))
    assert rows(picture, "compute, bf16+fp32") == [("derived", "", "60 TFLOP/s", "", "")]
    assert plot.roofline(two, dtype=Count({"bf16": 1})).rows == plot.roofline(
        two, dtype="bf16").rows


def test_same_intensity_measured_needs_no_hollow_mark():
    assert toy(Point("p", 50, 1e12, "measured", measured_intensity=50)).rows == \
        toy(Point("p", 50, 1e12, "measured")).rows


def test_text_is_the_table():
    lines = repr(toy(GEMM)).splitlines()
    assert lines[0] == "Roofline of Toy core, bf16"
    assert len(lines) == 2 + len(toy(GEMM).rows)
    assert re.split("  +", lines[1]) == list(toy(GEMM).columns)
    assert re.split("  +", lines[6]) == [
        "gemm", "measured", "50 FLOP/B", "5 TFLOP/s", "25 %", "HBM"]
    assert {line.find("HBM", 20) for line in lines[5:]} == {lines[1].find("bound by")}
    assert all(line == line.rstrip() for line in lines)


def test_a_point_on_a_ceiling_is_bound_by_it():
    """45 of 80 TFLOP/s at 190 FLOP/B, left of the ridge: the tile holds it back, not HBM."""
    low = Ceiling("K = 72", spec(45e12, "FLOP/s"), "72 of 128 rows", "bf16")
    near = Ceiling("slow link", spec(300e9, "B/s"), "short rows", "HBM")
    on, under, slanted = (toy(Point("p", 190, rate), ceilings=[low, near]).rows[-1]
                          for rate in (45e12, 44e12, 190 * 300e9))
    assert (on[-1], under[-1], slanted[-1]) == ("ceiling, K = 72", "HBM", "ceiling, slow link")


def test_curve():
    picture = plot.curve(
        [Series("copy", [2**12, 2**20], [20e9, 50e9], low=[18e9, 49e9], high=[21e9, 52e9])],
        xlabel="Array size", ylabel="Bandwidth", xunit="MiB", yunit="B/s",
        roofs=[("DRAM", spec(89.6e9, "B/s"))])
    assert picture.title == "Bandwidth against Array size"
    assert picture.rows == (
        ("DRAM", "documented", "", "89.6 GB/s", ""),
        ("copy", "measured", "4 KiB", "20 GB/s", "18 GB/s to 21 GB/s"),
        ("copy", "measured", "1 MiB", "50 GB/s", "49 GB/s to 52 GB/s"))
    assert "largest 50 GB/s" in picture.alt and "DRAM: 89.6 GB/s (documented)" in picture.alt
    assert {"4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"} <= set(words(picture))


# --- words ----------------------------------------------------------------------------------

def words(picture):
    return [e.text for e in ElementTree.fromstring(picture.svg).iter(f"{SVG}text")]


def test_alt_text_says_what_the_picture_says():
    alt = toy(GEMM, Point("big", 400, 60e12, "published"), ceilings=True).alt
    for told in ("compute, bf16: 80 TFLOP/s (documented)", "HBM: 400 GB/s (derived)",
                 "ridge, HBM: 80 TFLOP/s at 200 FLOP/B (derived)",
                 "ceiling, short rows: 100 GB/s (measured)",
                 # 50 FLOP/B x 100 GB/s = 5 TFLOP/s: it lies on that ceiling
                 "gemm: 5 TFLOP/s at 50 FLOP/B (measured, 25 % of entitled), bound by ceiling, "
                 "short rows",
                 "big: 60 TFLOP/s at 400 FLOP/B (published, 75 % of entitled), bound by compute"):
        assert told in alt
    assert toy(alt="By hand.").alt == "By hand."


@pytest.mark.parametrize("kind", plot.KINDS)
def test_every_kind_is_in_the_picture(kind):
    assert kind in words(toy(Point("p", 3, 1e11, kind)))
    assert f"entitled ({kind})" in words(toy(Point("p", 3, kind=kind)))
    assert "bf16 peak 80 TFLOP/s (documented)" in words(toy())
    assert "HBM 400 GB/s (derived)" in words(toy())
    assert "ridge 200 FLOP/B" in words(toy())


def test_what_finds_no_room_on_its_line_is_in_the_legend():
    points = [Point(f"p{i}", 10 + i, 1e12, "measured") for i in range(9)]
    named = " | ".join(words(toy(*points, levels=["HBM", "SBUF"], ceilings=True)))
    for name in ("half clock, one queue 40 TFLOP/s (documented)",  # one line, two reasons
                 "short rows 100 GB/s (measured)", "one port 1 TB/s (documented)"):
        assert name in named


def test_ticks_are_decades_with_units():
    shown = words(toy(Point("p", 1)))
    assert {"1 TFLOP/s", "10 TFLOP/s", "1", "10", "100"} <= set(shown)
    assert {"Intensity I = W / Q (FLOP/B)", "Rate W / T (FLOP/s)"} <= set(shown)


NASTY = '<script>alert(1)</script> & "q" $x^2$ #000001 style="fill: #000002"'


def test_labels_are_data():
    picture = toy(Point(NASTY, 50, 5e12, "measured"), Point("a\nb\x00", 5), title=NASTY)
    page = ElementTree.fromstring(picture._repr_html_())  # well-formed
    assert not list(page.iter("script")) and picture._repr_html_().count("<script") == 0
    svg = page.find(f"{SVG}svg")
    assert NASTY in svg.get("aria-label") and page.findtext("figcaption") == NASTY
    assert f"{NASTY}, entitled" in [th.text for th in page.iter("th")]
    assert any(text.startswith(NASTY[:11]) for text in words(picture))
    whole = toy(Point("#000001 $x$", 50))
    assert "#000001 $x$" in words(whole)
    assert "a b" in "".join(words(picture)) and "\x00" not in picture._repr_html_()


# --- labels keep apart ------------------------------------------------------------------------

def ink(figure, artist, dots=144):
    """The pixels one artist colours when it alone is drawn."""
    figure.set_dpi(dots)
    canvas = FigureCanvasAgg(figure)
    for other in figure.get_children():
        other.set_visible(other is artist)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., 3] > 0


def check_labels(picture, points=(), layout=WIDE):
    """No pixel belongs to two texts, nor to a text and a mark; labels stay inside the axes."""
    figure = picture.draw(_ON_PAPER, "", layout)
    artists = [a for a in figure.get_children() if a is not figure.patch]
    texts = [a for a in artists if isinstance(a, Text)]
    # (6, 6)-point circles and the like; areas have no edge, so they are not marks
    marks = [a for a in artists if isinstance(a, matplotlib.patches.PathPatch)]
    seen = sum(ink(figure, text).astype(int) for text in texts)
    crowded = [(a.get_text(), b.get_text()) for i, a in enumerate(texts) for b in texts[:i]
               if (ink(figure, a) & ink(figure, b)).any()] if seen.max() > 1 else []
    assert not crowded
    under = np.any([ink(figure, mark) for mark in marks], axis=0)
    assert not [t.get_text() for t in texts if (ink(figure, t) & under).any()]

    rows_, columns = np.nonzero(seen)  # nothing is cut off at the edge of the picture
    assert rows_.min() > 0 and columns.min() >= 0
    assert rows_.max() < seen.shape[0] - 1 and columns.max() < seen.shape[1] - 1
    scale = 2  # 144 dots: two a point
    frame = next(a for a in artists if isinstance(a, matplotlib.lines.Line2D)
                 and a.get_color() == _ON_PAPER[INK] and len(a.get_xdata()) == 3)
    left, right = frame.get_xdata()[0], frame.get_xdata()[-1]
    shown = {text.get_text() for text in texts}
    for point in points:
        number = points.index(point) + 1
        [label] = [t for t in texts if t.get_text().startswith(f"{point.label[:11]}")
                   or t.get_text() == f"#{number}"][:1] or [None]
        assert label, (point.label, shown)
        _, columns = np.nonzero(ink(figure, label))
        assert left * scale <= columns.min() and columns.max() <= right * scale


CROWDS = {
    "one spot": [Point(f"kernel {i}", 3.0) for i in range(12)],
    "one I, falling": [Point(f"kernel {i}", 3 + i / 99, 1e12 * 0.8**i, "measured")
                       for i in range(12)],
    "on the ridge": [Point(f"op {i}", 200 + i, 70e12 - i * 1e11, "published") for i in range(12)],
    "long names": [Point(f"{i} a kernel with a very long name indeed", 40 + i, 1e12, "modelled")
                   for i in range(12)],
    "far left and far right": [Point("left" * 5, 1e-3, 1e7, "measured"), Point("right" * 5, 1e6)],
    "above the roof": [Point("fast", 10, 9e12, "measured"), Point("faster", 1e4, 3e14, "measured")],
    "hollow": [Point(f"h{i}", 20 * (i + 1), 1e12 * (i + 1), "measured", 15 * (i + 1))
               for i in range(6)],
}  # fmt: skip


@pytest.mark.parametrize("name", CROWDS)
@pytest.mark.parametrize("more", [{}, {"ceilings": True, "levels": ["HBM", "SBUF"]}],
                         ids=["plain", "busy"])
def test_labels_keep_apart(name, more):
    check_labels(toy(*CROWDS[name], **more), CROWDS[name] if not more else ())


@pytest.mark.parametrize("name", ["one I, falling", "long names", "hollow"])
def test_labels_keep_apart_on_a_phone(name):
    check_labels(toy(*CROWDS[name], ceilings=True), CROWDS[name], NARROW)


def test_what_a_label_leaves_out_is_in_the_legend():
    """Where a point gets only its number, the legend says which point that is."""
    points = [Point(f"kernel with a long name {i}", 3 + i / 99, 1e12 * 0.8**i, "measured")
              for i in range(12)]
    svg = ElementTree.fromstring(toy(*points).narrow)
    shown = " ".join(e.text for e in svg.iter(f"{SVG}text"))
    numbers = set(re.findall(r"#\d+", shown))
    assert numbers and all(shown.count(f"{number} ") == 2 for number in numbers)


@pytest.mark.parametrize("seed", range(4))
def test_labels_keep_apart_at_random(seed):
    r = random.Random(seed)
    points = [Point(f"p{i}" * r.randint(1, 6), 10 ** r.uniform(-1, 3.5), 10 ** r.uniform(9, 13.8),
                    r.choice(plot.KINDS)) for i in range(10)]
    check_labels(toy(*points, ceilings=r.random() < 0.5), points)


def test_no_way_to_a_label_crosses_another_one(monkeypatch):
    """Two marks close under the roof, less than a label apart: the second one's stands below."""
    drawn = []

    class Kept(Canvas):
        def finish(self):
            drawn.append(self)
            return super().finish()

    monkeypatch.setattr(plot, "Canvas", Kept)
    points = [Point("ours, inf2", 230.4, 19.9e12, "modelled"),
              Point("F01, trn1", 342.8, 18.3e12, "published")]
    plot.roofline(machine.get("inf2"), points, dtype="fp32")._repr_html_()
    assert drawn and all(c.leaders for c in drawn)
    assert not [way for c in drawn for way in c.leaders for box in c.texts if _touch(way, box)]


def test_labels_of_a_curve_keep_apart():
    xs = [2.0**k for k in range(12, 29)]
    check_labels(plot.curve(
        [Series(f"series {i} " + "with a long name" * i, xs,
                [1e9 * (i + 1) * x / (x + 2**18) for x in xs]) for i in range(7)],
        xlabel="Size", ylabel="Bandwidth", xunit="MiB", yunit="B/s",
        roofs=[("spec", spec(9e9, "B/s")), ("spec two", spec(8.9e9, "B/s"))]))


def test_columns():
    assert list(_columns([100, 50], 13)) == [(slice(0, 1), [100]), (slice(1, 2), [50])]
    # at one height: the first stays (the roof is above), the others hang below it
    assert list(_columns([100, 100, 100], 13)) == [(slice(0, 3), [100, 87, 74])]
    assert list(_columns([20, 20, 20], 13)) == [(slice(0, 3), [39, 26, 13])]  # room above 0


@pytest.mark.parametrize("key", machine.ALL)
def test_every_machine_can_be_drawn(key):
    m = machine.ALL[key]
    dtype = next(iter(m.peaks))
    picture = plot.roofline(m, [Point("op", 1.0), Point("gemm", 500.0)], dtype=dtype)
    check_labels(picture)


# --- the drawing ------------------------------------------------------------------------------

BUSY = [Point(f"k{i}", 2.0**i, 1e11 * 1.5**i, kind, 2.0**i / 3)
        for i, kind in enumerate(plot.KINDS)]


def test_same_call_same_bytes(tmp_path):
    a, b = (toy(*BUSY, ceilings=True) for _ in range(2))
    assert a == b and a._repr_html_() == b._repr_html_()
    for suffix in ("svg", "png"):
        files = [tmp_path / f"{n}.{suffix}" for n in (1, 2)]
        a.save(files[0])
        b.save(str(files[1]))
        assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes().startswith(b"\x89PNG")
    saved = (tmp_path / "1.svg").read_text("utf-8")
    assert "var(" not in saved and "currentColor" not in saved
    assert "Roofline of Toy core, bf16" in [
        e.text for e in ElementTree.fromstring(saved).iter(f"{SVG}text")]


def test_svg_fits_into_a_page():
    svg = toy(*BUSY, ceilings=True, levels=["HBM", "SBUF"]).svg
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img" and root.get("viewBox").startswith(f"0 0 {WIDE.width:.0f} ")
    assert root.get("width") is None and root.get("height") is None
    assert float(root.get("viewBox").split()[3]) > HEIGHT
    assert len(svg) < 60_000
    # nothing that could clash with another figure, nothing fetched, no rule for the whole page
    assert not re.search(r'\bid=|href|<style|url\(|<!--|matplotlib|\d{4}-\d\d-\d\d', svg)
    assert "#00000" not in svg  # every stand-in became the page's colour
    used = set(re.findall(r"var\((--[a-z0-9-]+),", svg))
    assert used and all(f"{name}:" in plot.CSS for name in used)


def test_drawing_leaves_matplotlib_alone():
    code = """
import sys, matplotlib
from roofline import machine, plot
def settings():  # asking for the backend would load pyplot
    return {k: matplotlib.rcParams[k] for k in matplotlib.rcParams if k != "backend"}
before = settings()
plot.roofline(machine.desktop, dtype="fp32")._repr_html_()
assert settings() == before
assert "matplotlib.pyplot" not in sys.modules"""
    subprocess.run([sys.executable, "-c", code], check=True)


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
              for c in (int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", [n for n in plot.COLOURS if n != "grid"])
def test_contrast(name):
    light, dark, bare = plot.COLOURS[name]
    assert contrast(light, "#ffffff") >= 4.5  # text and lines alike
    assert contrast(dark, "#121212") >= 4.5 and contrast(dark, "#111111") >= 4.5
    if name == "muted":
        assert bare == "currentColor"  # text: whatever the page reads well
    else:
        assert contrast(bare, "#ffffff") >= 3 and contrast(bare, "#111111") >= 3


def test_css_holds_both_themes_and_print():
    light, dark = plot.CSS.index(":root"), plot.CSS.index('html[data-theme="dark"]')
    for name, (a, b, _) in plot.COLOURS.items():
        assert light < plot.CSS.index(f"--rl-{name}: {a};") < dark
        assert dark < plot.CSS.index(f"--rl-{name}: {b};") < plot.CSS.index("@media print")
        assert f"--rl-{name}: {a};" in plot.CSS.partition("@media print")[2]


def test_texts_keep_apart_in_a_browser(chromium):
    page = chromium.new_page(viewport={"width": 390, "height": 800})
    pictures = [toy(*points, ceilings=True) for points in CROWDS.values()]
    page.set_content("<!doctype html><body style='margin:16px'>"
                     + "".join(p._repr_html_() for p in pictures))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    clashes = page.evaluate("""() => [...document.querySelectorAll("svg")].flatMap(svg => {
      const texts = [...svg.querySelectorAll("text")].filter(t => !t.hasAttribute("transform"));
      const box = t => t.getBBox(), slack = 2;   // a line box is taller than its letters
      return texts.flatMap((a, i) => texts.slice(0, i).filter(b => {
        const p = box(a), q = box(b);
        return p.x < q.x + q.width && q.x < p.x + p.width &&
               p.y + slack < q.y + q.height - slack && q.y + slack < p.y + p.height - slack;
      }).map(b => [a.textContent, b.textContent]));
    })""")
    page.close()
    assert clashes == []


def test_letters_stay_readable_on_every_screen(chromium):
    """One of the two drawings is shown, with letters of 11 px at least."""
    page = chromium.new_page()
    page.set_content(f"<!doctype html><style>{plot.CSS}</style><body style='margin:0'>"
                     f"<div>{toy(GEMM, ceilings=True)._repr_html_()}</div>")
    for width in (250, 330, 419, 420, 700):
        page.evaluate("(px) => document.querySelector('div').style.width = `${px}px`", width)
        shown = page.evaluate("""() => [...document.querySelectorAll("svg")]
            .filter((svg) => svg.checkVisibility()).map((svg) => [svg.classList[0],
                parseFloat(getComputedStyle(svg.querySelector("text")).fontSize) *
                svg.clientWidth / svg.viewBox.baseVal.width])""")
        [(name, px)] = shown
        assert name == ("rl-narrow" if width < 420 else "rl-wide")
        assert px >= 11, width
    page.close()


def test_rows_of_the_table_stack_on_a_phone(chromium):
    """No column is out of sight, and each cell says what it is."""
    page = chromium.new_page(viewport={"width": 320, "height": 800})
    page.set_content(f"<!doctype html><style>{plot.CSS}</style>{toy(GEMM)._repr_html_()}")
    page.evaluate("document.querySelector('details').open = true")
    box = page.locator(".rl-table")
    assert box.evaluate("(e) => e.scrollWidth <= e.clientWidth")
    said = box.evaluate("""(e) => [...e.querySelectorAll("td")].filter((td) => td.textContent)
        .map((td) => getComputedStyle(td, "::before").content)""")
    assert {'"kind\u00a0"', '"of entitled\u00a0"'} <= set(said) and "none" not in said
    page.close()


def test_an_empty_column_is_left_out():
    """No point: nothing is entitled and nothing binds. The text keeps every column."""
    page = ElementTree.fromstring(toy()._repr_html_())
    assert [th.text for th in page.find(".//thead/tr")] == ["what", "kind", "I", "roof or rate"]
    assert all(len(row) == 4 for row in page.findall(".//tbody/tr"))
    assert "bound by" in repr(toy())


# --- errors -----------------------------------------------------------------------------------

@pytest.mark.parametrize(("make", "says"), [
    (lambda: Point("p", 1, kind="guess"), r"Point 'p': kind 'guess' is unknown; one of documented"),
    (lambda: Point("copy", 0), r"Point 'copy': intensity: got 0; a log axis"),
    (lambda: Point("p", float("inf")), r"intensity: got inf"),
    (lambda: Point("p", float("nan")), r"intensity: got nan"),
    (lambda: Point("p", 1, rate=-1.0), r"rate: got -1.0"),
    (lambda: Point("p", 1, measured_intensity=0), r"measured_intensity: got 0"),
    (lambda: plot.roofline(TOY, dtype="fp8"), r"Toy core has no dtype 'fp8'; one of bf16"),
    (lambda: toy(levels=["L2"]), r"has no level 'L2'; one of HBM, SBUF"),
    (lambda: toy(ceilings=["ILP"]), r"no ceiling 'ILP'; one of half clock, one queue, short rows"),
    (lambda: toy(ceilings=[Ceiling("c", spec(1, "B"), "", "HBM")]), r"ceiling 'c' is in 'B'"),
    (lambda: toy().save("x.pdf"), r"'x.pdf' ends in '.pdf'; use .svg or .png"),
    (lambda: Series("s", [1, 2], [1]), r"Series 's': x, y, low, high hold 2, 1, 0, 0"),
    (lambda: Series("s", [1], [1], low=[1]), r"hold 1, 1, 1, 0"),
    (lambda: Series("s", [1], [1], kind="real"), r"kind 'real' is unknown"),
    (lambda: plot.curve([], xlabel="", ylabel="", xunit="B", yunit="s"), r"no series"),
    (lambda: plot.curve([Series("s", [0], [1])], xlabel="", ylabel="", xunit="B", yunit="s"),
     r"curve: x: got 0"),
    (lambda: plot.curve([Series("s", [1], [float("nan")])], xlabel="", ylabel="", xunit="B",
                        yunit="s"), r"curve: y: got nan; it must be finite"),
])
def test_errors(make, says):
    with pytest.raises(PlotError, match=says):
        make()
