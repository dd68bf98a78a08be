"""The live timeline: its blocks are the profile's rows, its causes the ledger's, to the ns."""

import random
import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import timelines
from figuretext import uncut
from test_figures import page_of, sideways, violations  # noqa: F401  # page_of: a fixture

from roofline import figures, gaps, machine, profile
from roofline.count import Count
from roofline.figures.live import script, to_json
from roofline.figures.timelines import BUDGET, FAMILIES, _bands, _levels, _merged
from roofline.timeline import Timeline

T = 16_384  # 2^14: halves of the view are whole ns
CORE = machine.trn2.at("core")
REAL = Path(__file__).parents[2] / "shared/reference/real-profiles"


def small(**more):
    """A kernel to follow by eye: load, six matmuls, a Vector step, two matmuls, store."""
    # Two matmuls at half the rate, a transpose, three at full rate, a wait, and two more.
    times = [(2000, 440), (2430, 440), *((2860 + 213 * i, 260) for i in range(4)),
             (4300, 260), (4513, 260)]
    kinds = {
        "issues": [(1000, 1100), (5000, 5060)],
        "control": [(60, 900), (6000, T - 100)],
        "weights": [(1990, 2010)],
        "matmuls": [(t, t + long, {"transpose": i == 2, "line": f"kernel.py:{10 + i}"})
                    for i, (t, long) in enumerate(times)],
        "vector": [(3300, 4290, {"line": "kernel.py:30"})],
        "scalar": [(3200, 3290)]}
    packets = [*((1200 + 8 * e, 1358 + 8 * e, {"engine": e}) for e in range(16)),
               *((5200, 5400, {"engine": e, "nbytes": 2048}) for e in range(4)),
               (1150, 1160, {"traffic": False, "nbytes": 4})]
    return timelines.timeline(packets=packets, throttles=[(2000, 3000), (3000, 6000, {"k": 8})],
                              end=T, **{**kinds, **more})


def small_ledger(of=None):
    of = of or timelines.profile(small())
    # Seven matmuls of 128 x 128 x 512, and what crosses HBM: 16 x 4096 B in, 4 x 2048 B out.
    count = Count({"bf16": 7 * 2 * 128 * 128 * 512}, 16 * 4096, 4 * 2048)
    return gaps.ledger(of, CORE, count)


def numbers(text):
    return [int(one, 36) for one in text.split(" ")]


def lanes(live):
    """(core, name) -> [(start, end, word, n)], as the page gets them."""
    found = {}
    for lane in live.data["lanes"]:
        at, rows = live.data["from"], []
        what = numbers(lane["what"]) if "what" in lane else [0] * 10**4
        n = numbers(lane["n"]) if "n" in lane else [1] * 10**4
        for i, (step, long) in enumerate(zip(numbers(lane["start"]), numbers(lane["long"]),
                                             strict=True)):
            at += step
            word = live.data["words"][what[i]][0] if lane["kind"] != "cause" else what[i]
            rows.append((at, at + long, word, n[i]))
        found[lane["core"], lane["name"]] = rows
    return found


# --- Python side: what a page is given -----------------------------------------------------


def test_every_row_of_a_short_profile_is_a_block_of_its_own():
    live, own = figures.timeline(timelines.profile(small())), small().instructions
    assert live.data["merged"] == ""
    shown = lanes(live)
    for i, name in enumerate(("Tensor", "Vector", "Scalar", "GpSimd", "Sync")):
        here = own.engine == i
        want = [(a, b, own.opcodes[o], 1) for a, b, o in zip(
            own.start[here].tolist(), own.end[here].tolist(), own.opcode[here].tolist(),
            strict=True)]
        assert shown.get((0, name), []) == want, name
    assert shown[0, "Throttle"] == [(2000, 3000, "4 of 8 cycles", 1),
                                    (3000, 6000, "8 of 8 cycles", 1)]
    assert [row[:2] for row in shown[0, "DMA, other"]] == [(1150, 1160)]


def test_kinds_of_rows_are_told_apart():
    data = figures.timeline(timelines.profile(small())).data
    tensor, sync = (next(lane for lane in data["lanes"] if lane["name"] == name)
                    for name in ("Tensor", "Sync"))
    of = lambda lane: [data["words"][w][1] for w in numbers(lane["what"])]  # noqa: E731
    kinds = of(tensor)
    assert kinds == [0, 0, 0, 3, 0, 0, 0, 0, 0]  # weights, then matmuls: the third is a transpose
    assert of(sync) == [2, 1, 1, 2]  # control, issue


def test_text_and_tables_are_arithmetic():
    live = figures.timeline(timelines.profile(small(), T + 0.5), small_ledger())
    text = uncut(live)
    assert "<" not in text
    assert text.startswith("A measured profile, made: 16,384 ns. 1 of 1 core worked; "
                           "15 instructions and 21 DMA packets are recorded.")
    # Matmuls overlap: weights from 1990, the last of six until 3499 + 260; 4300 to 4513 + 260.
    busy = (2860 + 3 * 213 + 260 - 1990) + (4513 + 260 - 4300)
    assert busy == 2242  # of 16,384
    assert re.search(r"^0 +Tensor +9 +2,242 ns +13\.7 % +1,990 ns +4,773 ns$", text, re.M)
    assert re.search(r"^0 +Vector +1 +990 ns +6\.04 % +3,300 ns +4,290 ns$", text, re.M)  # 990 / T
    assert re.search(r"^0 +Sync +4 +0 ns +0 %$", text, re.M)  # control and issues are no work
    # Packets: 1200 to 1358 + 120, then 200 ns.
    assert re.search(r"^0 +DMA +20 +478 ns +2\.92 % +1,200 ns +5,400 ns$", text, re.M)
    led = small_ledger()
    for row in led.rows:
        time = f"{row.time:,.1f}".removesuffix(".0")
        assert re.search(rf"^{row.cause} +{time} ns", text, re.M), row.cause
    assert f"{led.gap:,.1f}".removesuffix(".0") + " ns are to be explained" in text


def test_a_time_below_the_roof_has_no_shares():
    """Sixteen engines at once, 65,536 B in 100 ns: more than the 375 GB/s of the roof."""
    of = timelines.profile(timelines.timeline(packets=[(0, 100, {"engine": e}) for e in range(16)]))
    led = gaps.ledger(of, CORE, Count({}, 16 * 4096, 0))  # 65,536 B / 375 GB/s = 174.8 ns
    live = figures.timeline(of, led)
    assert ("T is 100 ns, T_best 174.8 ns: nothing is lost against this roof, 74.8 ns are "
            "gained.") in live.text
    assert {cause["share"] for cause in live.data["causes"]} == {""}


def test_causes_lie_where_the_ledger_says_and_cover_no_other():
    led = small_ledger()
    live = figures.timeline(timelines.profile(small()), led)
    shown, names = lanes(live)[0, "Causes"], [c["name"] for c in live.data["causes"]]
    assert names == [row.cause for row in led.rows]
    want = sorted((a, b, i) for i, row in enumerate(led.rows) for _, a, b in row.stretches)
    assert sorted((a, b, w) for a, b, w, _ in shown) == want and len(want) > 8
    lane = next(lane for lane in live.data["lanes"] if lane["kind"] == "cause")
    bands = numbers(lane["band"]) if "band" in lane else [0] * len(shown)
    taken = defaultdict(int)
    for (a, b, _, _), band in zip(shown, bands, strict=True):
        assert taken[band] <= a
        taken[band] = b


def test_every_cause_has_looks_of_its_own():
    styles = [cause for causes in FAMILIES.values() for cause in causes]
    assert sorted(styles) == sorted(gaps.CAUSES)
    assert all(len(causes) <= 9 for causes in FAMILIES.values())  # as many patterns as there are


def test_a_ledger_of_another_profile_or_window_is_refused():
    whole, led = timelines.profile(small()), small_ledger()
    other = timelines.profile(small(vector=[(3300, 4280)]), name="another")
    with pytest.raises(ValueError, match="another: the ledger is of another profile, made"):
        figures.timeline(other, led)
    part = whole.window(2000, 3325)
    for of, wrong in ((part, led), (whole, gaps.ledger(part, CORE))):
        with pytest.raises(ValueError, match=r"the ledger is of .* to .*\. Make both of"):
            figures.timeline(of, wrong)
    assert figures.timeline(part, gaps.ledger(part, CORE)).data["causes"]
    assert figures.timeline(whole.window(0, T), led).data["causes"]


def test_a_window_shows_its_part():
    whole = timelines.profile(small())
    part = replace(whole, span=(2000, 3325))
    live = figures.timeline(part)
    assert (live.data["from"], live.data["to"]) == (2000, 3325)
    shown = lanes(live)
    assert (1990, 2010, "LDWEIGHTS", 1) in shown[0, "Tensor"]  # it reaches in
    assert (4300, 4560, "MATMUL", 1) not in shown[0, "Tensor"]
    assert (0, "DMA") not in shown
    assert "from 2,000 ns to 3,325 ns, a part of its 16,384 ns" in live.text
    assert re.search(r"^0 +Vector +1 +25 ns +1\.89 %", repr(live), re.M)  # 3300 to 3325 of 1325


def test_idle_cores_are_told_and_two_that_work_are_drawn():
    second = [(7000, 7100, {"core": 1, "opcode": "DRAIN", "engine": "vector"})]
    idle = figures.timeline(timelines.profile(small(cores=2, sync=second)))
    assert "Core 1 did no work and is not drawn." in idle.text
    both = figures.timeline(timelines.profile(small(cores=2, gpsimd=[(7000, 7100, {"core": 1})])))
    assert lanes(both)[1, "GpSimd"] == [(7000, 7100, "IOTA", 1)] and "not drawn" not in both.text


@pytest.mark.parametrize(("made", "says"), [
    (lambda: profile.Profile("sum", "summary-json", "", {}),
     r"figures\.timeline: sum holds a summary and no timeline"),
    (lambda: timelines.profile(timelines.timeline(end=100)), r"nothing ran between 0 and 100 ns"),
    (lambda: replace(timelines.profile(small()), span=(9000, 9000)),
     r"nothing ran between 9,000 and 9,000 ns")])
def test_what_it_cannot_show_it_says(made, says):
    with pytest.raises(ValueError, match=says):
        figures.timeline(made())


def test_the_script_is_inlined_whole():
    text = script("timeline", "x")
    assert text.count("</") == 1 and "<!--" not in text and "innerHTML" not in text
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    assert "fetch(" not in text and "import(" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert figures.timeline(timelines.profile(small()))._repr_html_() == figures.timeline(
        timelines.profile(small()))._repr_html_()


# --- Python side: merging ------------------------------------------------------------------


def random_rows(draw, n=60, until=900):
    start = np.sort([draw.randrange(until) for _ in range(n)])
    long = np.array([draw.choice([0, 1, 3, 9, 40, 200]) for _ in range(n)])
    return start, start + long, np.array([draw.randrange(2) for _ in range(n)]), np.array(
        [draw.randrange(5) for _ in range(n)])


@pytest.mark.parametrize("cell", [1, 2, 10, 50, 1000])
def test_merging_is_what_a_loop_over_the_rows_does(cell):
    draw = random.Random(cell)
    for _ in range(30):
        start, end, group, what = random_rows(draw, draw.choice([1, 2, 60]))
        blocks = defaultdict(list)
        for i in range(len(start)):
            key = ("own", i) if end[i] - start[i] >= cell else (start[i] // cell, group[i])
            blocks[key].append(i)
        want = []
        for rows in blocks.values():
            covered = set().union(*(range(start[i], end[i]) for i in rows))
            most = Counter(what[i] for i in rows)
            best = min(w for w in most if most[w] == max(most.values()))
            want.append((start[rows[0]], max(end[i] for i in rows), len(rows), len(covered), best))
        got = _merged(start, end, group, what, cell)
        names = ("start", "end", "n", "busy", "what")
        assert sorted(zip(*(got[name].tolist() for name in names), strict=True)) == sorted(want)
        assert (np.diff(got["start"]) >= 0).all()


@pytest.mark.parametrize("cell", [1, 7, 100])
def test_packets_under_way_are_what_a_walk_over_the_ns_sees(cell):
    draw = random.Random(cell)
    for _ in range(20):
        start, end, *_ = random_rows(draw)
        end = np.maximum(end, start + 1)
        nbytes = np.array([draw.randrange(1, 5000) for _ in start])
        got = _levels(start, end, nbytes, cell)
        under = np.zeros(2000, int)
        for a, b in zip(start, end, strict=True):
            under[a:b] += 1
        for a, b, level, packets, carried in zip(*(got[name].tolist() for name in (
                "start", "end", "level", "packets", "bytes")), strict=True):
            assert level == round(10 * under[a:b].mean()) or abs(
                level - 10 * under[a:b].mean()) <= 0.5
            here = (start >= a) & (start < b)
            assert (packets, carried) == (here.sum(), nbytes[here].sum())
            assert cell > 1 or len({*under[a:b]}) == 1  # exact: no change inside
        assert got["packets"].sum() == len(start) and got["bytes"].sum() == nbytes.sum()
        shown = set().union(*(range(a, b) for a, b in zip(got["start"], got["end"], strict=True)))
        assert set(np.flatnonzero(under)) <= shown
        assert (np.diff(got["start"]) > 0).all() and (got["start"][1:] >= got["end"][:-1]).all()


def test_bands_take_the_first_free_row():
    assert _bands(np.array([0, 0, 5, 10, 12]), np.array([10, 4, 12, 20, 15])).tolist() == [
        0, 1, 1, 0, 1]


def long_profile(n=30_000, words=40):
    """Every engine busy with short rows, and as many packets."""
    draw = np.random.default_rng(7)
    start = np.sort(draw.integers(0, 40 * n, n))
    zeros = timelines.instruction_table(vector=[(0, 1)]).take(np.zeros(n, np.int64))
    own = replace(zeros, start=start, end=start + draw.integers(1, 300, n),
                  engine=draw.integers(0, 5, n).astype(np.int8),
                  opcode=draw.integers(0, words + 2, n).astype(np.int32),
                  opcodes=("DRAIN", "DMA_DIRECT2D",
                           *(f"{'OPCODE' * 20}_{i}" for i in range(words))),
                  line=draw.integers(0, 500, n).astype(np.int32),
                  lines=tuple("/a/path/that/is/long/" * 9 + str(i) for i in range(500)))
    packets = timelines.packet_table([(0, 1)]).take(np.zeros(n, np.int64))
    packets = replace(packets, start=start, end=start + draw.integers(20, 200, n),
                      traffic=draw.random(n) < 0.9)
    return timelines.profile(Timeline(own, packets, timelines.throttle_table([]), 1,
                                      int(start[-1]) + 400), name="long")


def test_a_long_profile_stays_within_its_budget_and_says_what_was_merged():
    of = long_profile()
    live = figures.timeline(of)
    size = len(to_json(live.data))
    assert BUDGET / 2 < size <= BUDGET == 40_000  # no coarser than it must be
    assert len(live._repr_html_()) - size < 60_000  # the rest: script, styles, tables
    rows = lanes(live)
    engines = [row for (_, name), lane in rows.items() if "DMA" not in name for row in lane]
    assert sum(n for *_, n in engines) == 30_000
    blocks = sum(map(len, rows.values()))
    told = re.search(r"shorter than ([\d,]+) ns and starts in the same \1 ns is drawn as one block "
                     r"of its lane: ([\d,]+) rows became ([\d,]+)\.", live.text)
    assert [int(g.replace(",", "")) for g in told.groups()[1:]] == [60_000, blocks]
    cell = int(told[1].replace(",", ""))
    assert all(b - a < 2 * cell or n == 1 for a, b, _, n in engines)
    # A window of it shows more.
    part = figures.timeline(replace(of, span=(0, 20_000)))
    assert part.data["merged"] == "" or int(re.search(r"than ([\d,]+) ns", part.data["merged"])[1]
                                            .replace(",", "")) < cell / 10


def test_a_ledger_of_a_long_profile_is_merged_too():
    n = 4000
    of = timelines.profile(timelines.timeline(
        matmuls=[(2000 + 500 * i, 2213 + 500 * i) for i in range(n)],
        vector=[(2213 + 500 * i, 2490 + 500 * i) for i in range(n)], issues=[(900, 1000)],
        packets=[(1000, 1158)]))
    led = gaps.ledger(of, CORE, Count({"bf16": n * 2 * 128 * 128 * 512}, 4096, 0))
    assert len(led.row("wait for vector").stretches) > n - 2
    live = figures.timeline(of, led)
    assert len(to_json(live.data)) <= BUDGET
    causes = Counter()
    for *_, what, k in lanes(live)[0, "Causes"]:
        causes[what] += k
    assert causes == {i: len(row.stretches) for i, row in enumerate(led.rows) if row.stretches}


# --- the page: what is drawn ---------------------------------------------------------------

LEFT = 70  # px of names before the lanes; 8 px are free behind them

RANGE = "document.querySelector('.rl-range').textContent"


def shown(page):
    """The view as the page words it: from, to, how long, of how long; ns."""
    words = page.inner_text(".rl-range")
    return [int(one.replace(",", "")) for one in re.findall(r"[\d,]+", words)]


def worded(a, b, whole=(0, T)):
    """Python's words for a view; halves away from zero, as the page rounds them."""
    n = lambda value: f"{int(value + 0.5):,}"  # noqa: E731
    return f"{n(a)} to {n(b)} ns: {n(b - a)} of {whole[1] - whole[0]:,} ns"


class View:
    """What the keys do to the stretch that is shown, in Python."""

    def __init__(self, first=0, last=T, least=8):
        self.first, self.last, self.least = first, last, least
        self.a, self.b = first, last

    def to(self, a, b):
        long = min(max(b - a, self.least), self.last - self.first)
        self.a = min(max(a, self.first), self.last - long)
        self.b = self.a + long

    def press(self, key):
        a, b = self.a, self.b
        long, middle = b - a, (a + b) / 2
        if key in "+-":
            long = min(max(long / (2 if key == "+" else 0.5), self.least), self.last - self.first)
            self.to(middle - long / 2, middle + long / 2)
        elif key == "0":
            self.to(self.first, self.last)
        else:
            self.to(*{"ArrowLeft": (a - long / 10, b - long / 10), "Home": (0, long),
                      "ArrowRight": (a + long / 10, b + long / 10), "End": (T - long, T)}[key])


def test_from_start_to_end_by_keyboard_alone(page_of):  # noqa: F811
    page = page_of(figures.timeline(timelines.profile(small()), small_ledger())._repr_html_()).page
    status = page.locator(".rl-status")
    assert status.inner_text().startswith("Drag to pan, zoom with the wheel")
    assert page.evaluate(RANGE) == worded(0, T)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "rl-lanes"
    for key, a, b in (("+", 4096, 12288), ("+", 6144, 10240), ("Home", 0, 4096),
                      ("ArrowRight", 409.6, 4505.6), ("End", 12288, T),
                      ("ArrowLeft", 11878.4, 15974.4), ("-", 8192, T), ("0", 0, T), ("-", 0, T)):
        page.keyboard.press(key)
        assert page.evaluate(RANGE) == worded(a, b), key
        assert status.inner_text() == worded(a, b)
    # Down to the Tensor lane, then from event to event.
    page.keyboard.press("ArrowDown")
    assert status.inner_text() == "Tensor: 9 blocks."
    heard = []
    for _ in range(9):
        page.keyboard.press("PageUp")
        heard.append(status.inner_text())
    assert heard[0].startswith("Tensor: LDWEIGHTS, from 1,990 ns, 20 ns long.")
    assert heard[1].startswith("Tensor: MATMUL, from 2,000 ns, 440 ns long. Line: kernel.py:10. "
                               "Causes there: ")
    assert heard[3].startswith("Tensor: MATMUL, from 2,860 ns, 260 ns long; transpose: it moves "
                               "data. Line: kernel.py:12. Causes there: ")
    assert "transposes" in heard[3] and "throttle" in heard[1]
    assert heard[8].startswith("Tensor: MATMUL, from 4,513 ns")
    page.keyboard.press("PageUp")
    assert status.inner_text() == "Tensor: no further event."
    page.keyboard.press("PageDown")
    assert status.inner_text().startswith("Tensor: MATMUL, from 4,300 ns")
    assert page.locator(".rl-cursor").count() == 1
    # An event that is out of sight is brought into it.
    for _ in range(4):
        page.keyboard.press("+")
    page.keyboard.press("Home")
    page.keyboard.press("PageUp")
    a, b, *_ = shown(page)
    assert a < 4513 < b and b - a == T / 16
    # The other lanes: what is known of throttling and of packets.
    for _ in range(9):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("0")
    page.keyboard.press("PageUp")
    assert status.inner_text().startswith("Throttle: 4 of 8 cycles, from 2,000 ns, 1,000 ns long.")
    for _ in range(9):
        page.keyboard.press("ArrowUp")
    assert status.inner_text().startswith("Causes: ")
    page.keyboard.press("PageUp")
    assert status.inner_text().startswith("start: 1,000 ns, ")
    assert status.inner_text().endswith("Here from 0 ns, 1,000 ns long.")


def test_any_keys_show_the_ns_that_python_says(page_of):  # noqa: F811
    page = page_of(figures.timeline(timelines.profile(small()))._repr_html_()).page
    page.focus(".rl-lanes")
    draw, view = random.Random(3), View()
    for _ in range(120):
        key = draw.choice(["+", "+", "-", "ArrowLeft", "ArrowRight", "ArrowRight", "Home", "End",
                           "0", "+"])
        view.press(key)
        page.keyboard.press(key)
        a, b, long, whole = shown(page)
        assert (a, b) == (pytest.approx(view.a, abs=0.51), pytest.approx(view.b, abs=0.51)), key
        assert long == pytest.approx(view.b - view.a, abs=0.51) and whole == T
    for _ in range(30):
        page.keyboard.press("+")
    a, b, long, _ = shown(page)
    assert long == 8 and 7 <= b - a <= 9  # the shortest


# The left and right edges of a lane's blocks, px of its svg: {words of the class: [[x, x2] ...]}.
EDGES = """(lane) => [...document.querySelectorAll(`.rl-plot g.rl-lane-${lane} path`)]
  .filter((p) => /rl-(wide|thin)/.test(p.getAttribute("class"))).flatMap((p) =>
  [...p.getAttribute("d").matchAll(/M([-\\d.]+) ([-\\d.]+)h([-\\d.]+)v([-\\d.]+)/g)].map(
    ([, x, y, w, h]) => [Number(x), Number(x) + Number(w), Number(h)]))"""


@pytest.mark.parametrize("width", [320, 1000])
def test_blocks_are_drawn_to_scale(width, page_of):  # noqa: F811
    of = small()
    page = page_of(figures.timeline(timelines.profile(of))._repr_html_(),
                   viewport={"width": width, "height": 800}).page
    right = page.evaluate("document.querySelector('.rl-plot').clientWidth") - 8
    own = of.instructions
    page.focus(".rl-lanes")
    view = View()
    for keys in ((), ("Home", "+", "Home", "+", "Home"), ("ArrowRight",) * 3, ("+", "+")):
        for key in keys:
            view.press(key)
            page.keyboard.press(key)
        scale = (right - LEFT) / (view.b - view.a)
        for engine, i in (("tensor", 0), ("vector", 1), ("scalar", 2)):
            want = []
            for s, e in zip(own.start[own.engine == i].tolist(),
                            own.end[own.engine == i].tolist(), strict=True):
                if e >= view.a and s <= view.b:
                    x = max(LEFT + (s - view.a) * scale, LEFT - 1)
                    x2 = min(LEFT + (e - view.a) * scale, right + 1)
                    want.append([x, max(x2, x + 1)])
            got = sorted(edge[:2] for edge in page.evaluate(EDGES, engine))
            assert len(got) == len(want)
            for edge, at in zip(got, sorted(want), strict=True):
                assert edge == pytest.approx(at, abs=0.11), (engine, keys)


def test_the_height_of_dma_is_packets_under_way(page_of):  # noqa: F811
    page = page_of(figures.timeline(timelines.profile(small()))._repr_html_()).page
    tall = sorted({round(h, 2) for *_, h in page.evaluate(EDGES, "dma")})
    # 16 packets, each 8 ns after the other, then 4 at once: heights of 1 to 16 sixteenths of 34.
    assert tall == pytest.approx([34 * k / 16 for k in range(1, 17)], abs=0.01)


# --- the page: hands -----------------------------------------------------------------------


def spot(page, t, lane, view=(0, T)):
    """Where a time of a lane lies on the page, px."""
    page.locator(".rl-plot").scroll_into_view_if_needed()
    box = page.locator(".rl-plot svg").bounding_box()
    y = page.evaluate("""(name) => { const t = [...document.querySelectorAll(".rl-plot text")]
      .find((one) => one.textContent === name).getBoundingClientRect();
      return t.top + t.height / 2; }""", lane)
    right = box["width"] - 8
    return box["x"] + LEFT + (t - view[0]) / (view[1] - view[0]) * (right - LEFT), y


def test_hover_reads_out_and_a_click_keeps_it(page_of):  # noqa: F811
    page = page_of(figures.timeline(timelines.profile(small()), small_ledger())._repr_html_()).page
    status = page.locator(".rl-status")
    page.mouse.move(*spot(page, 3800, "Vector"))
    assert status.inner_text().startswith(
        "Vector: TENSOR_TENSOR, from 3,300 ns, 990 ns long. Line: kernel.py:30. Causes there: ")
    assert "wait for vector" in status.inner_text()
    assert status.get_attribute("aria-live") == "off"
    page.mouse.move(*spot(page, 5300, "DMA"))
    assert status.inner_text().startswith(
        "DMA: 4 packets under way, from 5,200 ns, 200 ns long. 4 start here, with 8.19 kB.")
    page.mouse.click(*spot(page, 3245, "Scalar"))
    assert status.inner_text().startswith("Scalar: ACTIVATE, from 3,200 ns, 90 ns long.")
    assert status.get_attribute("aria-live") == "polite"
    page.mouse.move(*spot(page, 11_000, "Sync"))
    assert status.inner_text().startswith("Sync: DRAIN, from 6,000 ns, 10,284 ns long; control: "
                                          "no work.")


def test_wheel_and_drag(page_of):  # noqa: F811
    seen = page_of(figures.timeline(timelines.profile(small()))._repr_html_()
                   + "<p style='height: 2000px'>below</p>")
    page = seen.page
    page.mouse.move(*spot(page, 4096, "Tensor"))
    page.mouse.wheel(0, 240)  # nobody has touched the figure: the page scrolls
    page.wait_for_function("scrollY > 0")
    assert page.evaluate(RANGE) == worded(0, T)
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_function("scrollY === 0")
    x, y = spot(page, 4096, "Tensor")
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -240)  # twice as close; the time under the pointer stays there
    page.keyboard.up("Control")
    page.wait_for_function(f"{RANGE} !== {worded(0, T)!r}")
    a, _, long, _ = shown(page)
    assert long == T / 2 and a == pytest.approx(2048, abs=40)  # a pixel is 20 ns
    page.mouse.down()
    page.mouse.move(x + 100, y, steps=4)
    page.mouse.up()
    width = page.locator(".rl-plot svg").bounding_box()["width"] - 8 - LEFT
    assert shown(page)[0] == pytest.approx(a - 100 / width * T / 2, abs=2)
    page.mouse.wheel(0, -240)  # it has focus now
    page.wait_for_function(f"{RANGE}.includes(': {T // 4:,}')")
    page.mouse.wheel(120, 0)
    page.wait_for_timeout(50)
    assert shown(page)[2] == T / 4 and page.evaluate("scrollY") == 0
    for _ in range(4):
        page.mouse.wheel(0, 240)
    page.wait_for_function(f"{RANGE} === {worded(0, T)!r}")
    page.mouse.wheel(0, 240)  # all is shown: the page's turn again
    page.wait_for_function("scrollY > 0")
    assert not seen.complaints


PINCH = """(moves) => {
  const svg = document.querySelector(".rl-plot svg"), box = svg.getBoundingClientRect();
  svg.setPointerCapture = () => {};
  for (const [type, id, x] of moves) {
    svg.dispatchEvent(new PointerEvent(type, { pointerId: id, pointerType: "touch", bubbles: true,
      clientX: box.left + x, clientY: box.top + 60, button: type === "pointermove" ? -1 : 0 }));
  }
}"""


def test_two_fingers_zoom_and_one_taps(page_of):  # noqa: F811
    page = page_of(figures.timeline(timelines.profile(small()))._repr_html_(), has_touch=True).page
    width = page.locator(".rl-plot svg").bounding_box()["width"] - 8 - LEFT
    low, high = LEFT + width / 4, LEFT + width / 2  # over 4096 and 8192 ns
    page.evaluate(PINCH, [["pointerdown", 1, low], ["pointerdown", 2, high],
                          ["pointermove", 2, high + width / 4], ["pointerup", 1, low],
                          ["pointerup", 2, high + width / 4]])
    a, _, long, _ = shown(page)
    assert long == T / 2  # twice as far apart
    assert a + long / 4 == pytest.approx(4096, abs=2)  # each time under its finger
    assert a + long * 3 / 4 == pytest.approx(8192, abs=2)
    page.get_by_label("Show all").tap()
    page.touchscreen.tap(*spot(page, 3800, "Vector"))
    assert page.inner_text(".rl-status").startswith("Vector: TENSOR_TENSOR, from 3,300 ns")


def test_buttons_do_what_the_keys_do(page_of):  # noqa: F811
    page = page_of(figures.timeline(timelines.profile(small()))._repr_html_()).page
    for label, a, b in (("Zoom in", 4096, 12288), ("Later", 8192, T), ("Earlier", 4096, 12288),
                        ("Zoom out", 0, T), ("Zoom in", 4096, 12288), ("Show all", 0, T)):
        page.get_by_label(label, exact=True).click()
        assert page.evaluate(RANGE) == worded(a, b), label
    page.get_by_text("Next event").click()
    assert page.inner_text(".rl-status").startswith("Tensor: LDWEIGHTS, from 1,990 ns")
    page.get_by_text("Event before").click()
    assert page.inner_text(".rl-status") == "Tensor: no further event."


HERE = """() => [...document.querySelector(".rl-here").getAttribute("d").matchAll(
  /M([-\\d.]+) ([-\\d.]+)h([-\\d.]+)/g)].map(([, x, , w]) => [Number(x), Number(x) + Number(w)])"""


def test_a_row_of_the_ledger_points_to_its_stretches(page_of):  # noqa: F811
    led = small_ledger()
    live = figures.timeline(timelines.profile(small()), led)
    bands = 1 + max(numbers(live.data["lanes"][0]["band"]))
    page = page_of(live._repr_html_()).page
    right = page.evaluate("document.querySelector('.rl-plot').clientWidth") - 8
    rows = page.locator(".rl-causes tbody tr")
    assert rows.count() == len(led.rows)
    for i, row in enumerate(led.rows):
        cells = rows.nth(i).locator("th, td").all_inner_texts()
        time = f"{row.time:,.1f}".removesuffix(".0")
        assert cells[:2] == [f"{i + 1} {row.cause}", f"{time} ns"]
        button = rows.nth(i).locator("button")
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        assert page.locator(".rl-causes [aria-pressed=true]").count() == 1
        said = page.inner_text(".rl-status")
        assert said.startswith(f"{row.cause}: {time} ns") and row.what in said and row.try_ in said
        assert ("nowhere on the timeline" in said) == (not row.stretches)
        want = [[LEFT + t * (right - LEFT) / T for t in (a, b)] for _, a, b in row.stretches]
        for got, (x, x2) in zip(page.evaluate(HERE), want, strict=True):
            assert got == pytest.approx([x, max(x2, x + 1)], abs=0.11), row.cause
    button.click()  # once more: none
    assert page.inner_text(".rl-status") == "All causes are shown."
    assert page.evaluate(HERE) == [] and page.locator(".rl-dim").count() == 0
    # A click on a stretch picks its cause, Escape lets go; one out of sight is brought into it.
    x, y = spot(page, 4000, "Causes")
    page.mouse.click(x, y - 9 * (bands - 1))  # the first of them
    assert page.locator(".rl-causes [aria-pressed=true]").inner_text().endswith("wait for vector")
    page.keyboard.press("Escape")
    assert page.locator(".rl-causes [aria-pressed=true]").count() == 0
    for key in ("+", "+", "+", "End"):
        page.keyboard.press(key)
    page.get_by_role("button", name="fill").click()
    assert page.evaluate(RANGE) == worded(0, T)


def test_causes_differ_in_pattern_not_in_colour_alone(page_of):  # noqa: F811
    """Causes of one colour all have drawings of their own."""
    page = page_of(figures.timeline(timelines.profile(small()), small_ledger())._repr_html_()).page
    looks = page.evaluate("""[...document.querySelectorAll(".rl-causes .rl-swatch-box")].map((r) =>
      { const id = r.getAttribute("fill").match(/#(.*)"/)[1], tile = document.getElementById(id);
      return [tile.getAttribute("class"), tile.innerHTML]; })""")
    assert len({tuple(look) for look in looks}) == len(looks)
    by_colour = defaultdict(set)
    for colour, drawing in looks:
        by_colour[colour].add(drawing)
    assert sum(map(len, by_colour.values())) == len(looks)  # of one colour, all drawings differ
    words = page.locator(".rl-plot text").all_text_contents()
    assert {"start", "tail", "end"} <= set(words)  # and where there is room, the name


# --- the page: bad input, no script, neighbours --------------------------------------------

NASTY = '</script><img src=x onerror="document.title=1"><b id=bad>"&amp;<script>document.title=2'


def test_text_of_a_profile_is_never_markup(page_of):  # noqa: F811
    """Opcodes, source lines, warnings and the name; long ones are cut, odd ones made printable."""
    line = "\u202e\x00" + NASTY + "x" * 5000
    evil = small(vector=[(3300, 4290, {"opcode": NASTY, "line": line})],
                 gpsimd=[(7000, 9000, {"opcode": "y" * 5000})])
    of = replace(timelines.profile(evil), name=NASTY, warnings=(NASTY, "z" * 5000) * 50)
    led = small_ledger(of)
    html = figures.timeline(of, led)._repr_html_()
    assert "x" * 60 not in html and "y" * 60 not in html and "z" * 400 not in html
    assert not re.search(r"\u202e|\\u202e|\x00|\\u0000", html) and html.count("<script") == 3
    seen = page_of(html)
    page = seen.page
    page.mouse.move(*spot(page, 3800, "Vector"))
    assert f"Vector: {NASTY[:40]}" in page.inner_text(".rl-status")
    page.focus(".rl-lanes")
    for key in ("ArrowDown", "PageUp", "+", "+", "ArrowDown", "PageUp"):
        page.keyboard.press(key)
    page.evaluate("document.querySelector('.rl-tables').open = true")
    assert "<img" in page.inner_text(".rl-tables") and page.title() == "Test"
    assert page.locator("#bad, img").count() == 0 and not seen.complaints


def test_without_script_the_text_and_the_ledger_are_there(page_of):  # noqa: F811
    page = page_of(figures.timeline(timelines.profile(small()), small_ledger())._repr_html_(),
                   java_script_enabled=False).page
    assert page.inner_text(".rl-live p >> nth=0").startswith(
        "Where scripts run, a timeline to zoom into, event by event, stands here;")
    assert "are to be explained" in page.inner_text(".rl-live")
    for row in small_ledger().rows:
        assert row.cause in page.inner_text(".rl-tables table >> nth=0")
        assert row.what in page.inner_text(".rl-tables table >> nth=0")
    assert page.locator("button").count() == 0


def test_two_timelines_on_a_page_keep_apart(page_of):  # noqa: F811
    html = figures.timeline(timelines.profile(small()), small_ledger())._repr_html_()
    other = figures.timeline(timelines.profile(small()))._repr_html_()
    page = page_of(html + html + other).page
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert sorted(ids) == sorted(set(ids))
    page.locator(".rl-lanes").nth(1).focus()
    page.keyboard.press("+")
    assert page.locator(".rl-range").all_inner_texts() == [
        worded(0, T), worded(4096, 12288), worded(0, T)]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1000])
def test_accessible_and_legible(dark, width, page_of):  # noqa: F811
    both = small(cores=2, gpsimd=[(7000, 7100, {"core": 1})])
    seen = page_of(figures.timeline(timelines.profile(small()), small_ledger())._repr_html_()
                   + figures.timeline(timelines.profile(both, name="two cores"))._repr_html_()
                   + figures.timeline(long_profile())._repr_html_(), dark=dark,
                   viewport={"width": width, "height": 700})
    page = seen.page
    assert violations(page) == []
    page.locator(".rl-lanes").first.focus()
    for key in ("+", "ArrowDown", "PageUp", "PageUp"):
        page.keyboard.press(key)
    page.locator(".rl-causes button").nth(1).click()
    page.evaluate("document.querySelectorAll('.rl-tables').forEach((t) => { t.open = true; })")
    assert violations(page) == []
    assert not sideways(page) and not seen.complaints
    assert page.evaluate("""[...document.querySelectorAll("button")].every((e) =>
      e.getBoundingClientRect().height >= 44 && e.getBoundingClientRect().width >= 44)""")
    assert page.evaluate("""Math.min(...[...document.querySelectorAll(".rl-plot text")].map(
      (t) => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))""") >= 11.9
    # No name of a lane runs into the lanes, no tick into the next.
    boxes = page.evaluate("""[...document.querySelectorAll(".rl-plot text.rl-tick")].map((t) => {
      const r = t.getBoundingClientRect(), s = t.closest("svg").getBoundingClientRect();
      return [r.left - s.left, r.top - s.top, r.right - s.left, r.bottom - s.top, s.width, s.top];
    })""")
    for i, (l, t, r, b, wide, top) in enumerate(boxes):
        assert l >= -1 and r <= wide + 1 and (t < 20 or r <= LEFT)
        for L, _, R, B, _, other in boxes[i + 1:]:
            assert top != other or not (t < 20 and B < 24 and b < 24 and l < R and r > L)


# --- a real profile ------------------------------------------------------------------------


def test_a_real_profile(page_of):  # noqa: F811
    """A Trn2 capture, allenkchau/trainium-kernel-fusion (MIT): read where it is."""
    path = REAL / "trn2-lnc2-attn-fused-bf16-s512.full.json"
    if not path.exists():
        pytest.skip("../shared/reference/real-profiles is not here")
    of = profile.read(path)
    led = gaps.ledger(of, CORE, Count({"bf16": 67_108_864, "fp32": 67_108_864}, 393_216, 131_072))
    live = figures.timeline(of, led)
    assert len(to_json(live.data)) <= BUDGET and live.data["merged"] == ""
    assert "36,351 ns. 1 of 2 cores worked; 436 instructions and 977 DMA packets" in live.text
    seen = page_of(live._repr_html_())
    page = seen.page
    page.get_by_role("button", name="1 start").click()
    assert page.inner_text(".rl-status").startswith("start: 13,704 ns, 42.7 % of the gap.")
    assert not seen.complaints
