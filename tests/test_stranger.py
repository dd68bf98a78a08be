"""Day 7's published captures: merged busy stretches, their totals, their ledger, their page."""

import importlib.util
import json
import math
import re
from itertools import pairwise

import numpy as np
import pytest
import timelines
from pages import ROOT, cell_source, cell_text
from test_figures import page_of, sideways, violations  # noqa: F401  # page_of: a fixture

from roofline import ask, device, figures, gaps, machine, plot, profile, units
from roofline.count import Count
from roofline.profile import ProfileError
from roofline.timeline import Spans

DATA = ROOT / "day7/data"
REAL = ROOT.parent / "shared/reference/real-profiles"
CORE = machine.get("trn2", "core")
S, D = 512, 128
PRODUCT = 2 * S * S * D  # FLOPs of q k^T, and of a v
TENSOR = S * D           # elements of q, k, v and the result
TILE = 128 * 128
PE = 128 * 128 * 2.4     # multiply-adds a ns at 2.4 GHz

each = pytest.mark.parametrize("dtype", ["bf16", "fp32"])


def of(dtype: str) -> device.Condensed:
    return device.condensed(DATA / f"attention_{dtype}.json")


def derive():
    spec = importlib.util.spec_from_file_location("derive", DATA / "derive.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


# --- where it is from ----------------------------------------------------------------------------

@each
def test_the_data_is_derived_again_byte_for_byte(dtype):
    made = derive()
    asked, source = made.FILES[f"attention_{dtype}.json"]
    if not (REAL / source).exists():
        pytest.skip(f"../shared/reference/real-profiles/{source} is not here")
    assert asked == dtype
    assert made.derive(REAL / source, dtype) == (DATA / f"attention_{dtype}.json").read_text()


@each
def test_the_data_says_whose_it_is_and_is_small(dtype):
    text = (DATA / f"attention_{dtype}.json").read_text()
    assert len(text) < 6000
    assert of(dtype).text() == text
    kept = of(dtype)
    assert kept.profile.kind == kept.ledger.kind == "published"
    for held in ("Allen Chau", "MIT", "trn2.3xlarge", "LNC=2", "2.28.23", "merged"):
        assert held in repr(kept), held
    assert "Copyright (c) 2026 Allen Chau" in (DATA / "LICENSE.txt").read_text()


def test_a_tree_without_the_file_itself():
    """No row of the profiler's, by its column names, in anything of the folder."""
    assert {p.name for p in DATA.iterdir() if p.is_file()} == {
        "attention_bf16.json", "attention_fp32.json", "derive.py", "LICENSE.txt"}
    for path in DATA.glob("*.json"):
        for column in ("operands", "predecessors", "bir_id", "semaphore", "hlo_name", '"pc"'):
            assert column not in path.read_text(), column


# --- arithmetic that holds without the file ------------------------------------------------------

@each
def test_stretches_of_a_lane_are_apart_and_inside(dtype):
    kept = of(dtype)
    for lane in dict.fromkeys(one.lane for one in kept.stretches):
        here = kept.of(lane)
        assert all(0 <= one.start < one.end <= kept.end and one.events >= 1 for one in here)
        assert all(a.end <= b.start for a, b in pairwise(here)), lane
        for one in here:  # so many starts, so far apart, fit into it
            assert bool(one.step) == (one.events > 1 and not one.nbytes)
            assert one.step * (one.events - 1) <= 1.6 * (one.end - one.start)


@each
def test_the_ledger_sums_to_the_gap_and_covers_what_the_lanes_leave(dtype):
    kept = of(dtype)
    led = kept.ledger
    assert math.fsum(row.time for row in led.rows) == pytest.approx(led.gap, abs=1e-6)
    assert led.gap == led.t - led.t_best
    assert led.t == pytest.approx(1e9 * kept.profile.summary["total_time"])
    # A product of 2 S S d FLOPs takes its multiply-adds over the array's; fp32 four times that.
    times = {"bf16": PRODUCT / 2 / PE, "fp32": 4 * PRODUCT / 2 / PE}
    assert led.t_best == pytest.approx(times[dtype] + times["fp32"])
    for row in led.rows:  # a cause has no more time than its stretches
        assert row.time <= sum(b - a for _, a, b in row.stretches) + 1, row.cause
    alone = ["start", "fill", "transposes", "wait for scalar", "wait for DMA", "weight load",
             "tail", "end"]
    spans = [led.row(cause).spans[0] for cause in alone]
    assert all(not len(a & b) for i, a in enumerate(spans) for b in spans[:i])
    for cause, span in zip(alone, spans, strict=True):
        assert led[cause] == span.length, cause
    # With the stretches of matmuls they are the whole time.
    assert sum(s.length for s in spans) + kept.busy("Tensor", what="matmul").length == kept.end


@each
def test_the_ledgers_stretches_are_the_lanes(dtype):
    kept, led = of(dtype), of(dtype).ledger
    tensor = kept.of("Tensor")
    issues = kept.of(what="DMA issue")
    work = [one for one in kept.stretches if one.lane not in ("Fetch", "Throttle")]
    first, last = min(one.start for one in issues), max(one.end for one in work)
    assert list(led.row("start").spans[0]) == [(0, first)]
    assert list(led.row("fill").spans[0]) == [(first, tensor[0].start)]
    assert list(led.row("tail").spans[0]) == [(tensor[-1].end, last)]
    assert list(led.row("end").spans[0]) == [(last, kept.end)]
    turns = kept.busy("Tensor", what="transpose")
    assert list(led.row("transposes").spans[0]) == list(turns)
    assert list(led.row("weight load").spans[0]) == list(kept.busy("Tensor", what="weight load"))
    inside = Spans.one(tensor[0].start, tensor[-1].end) - kept.busy("Tensor")
    waits = led.row("wait for scalar").spans[0] | led.row("wait for DMA").spans[0]
    assert list(inside) == list(waits)


@each
def test_the_throttle_takes_half_of_slots_until_it_is_released(dtype):
    kept, led = of(dtype), of(dtype).ledger
    [released] = [one.start for one in kept.of("Throttle") if one.what == "8 of 8 cycles"]
    slow = [one for one in kept.of("Tensor", what="matmul") if one.end <= released]
    assert [(a, b) for _, a, b in led.row("throttle").stretches] == [
        (one.start, one.end) for one in slow]
    most = sum(one.end - one.start for one in slow) / 2
    assert 0.98 * most < led["throttle"] <= most
    # The profiler's own figure is that of the row after the work, and none of this.
    [after] = [one for one in kept.of("Throttle") if one.what == "4 of 8 cycles"]
    assert after.start > kept.of("Tensor")[-1].end
    assert kept.profile.summary["throttle_active_nc0_time_ns"] == after.end - after.start


@each
def test_flops_are_products_passes_and_transposes(dtype):
    kept, own = of(dtype), of(dtype).profile.summary
    products = {"bf16": PRODUCT + 2 * PRODUCT, "fp32": 4 * PRODUCT}[dtype]  # fp32 twice
    turned = (4 + 16) * 2 * TILE * 128  # 4 tiles of v, 16 of the scores, one pass each
    assert own["transpose_flops"] == turned
    assert own["hardware_flops"] == products + turned
    rows = {what: sum(one.events for one in kept.of("Tensor", what=what))
            for what in ("transpose", "matmul, bf16", "matmul, fp32")}
    assert rows["transpose"] == 20
    # bf16: 4 matmuls of N = 512. fp32, second product: 4 x 4 of N = 128, two passes each.
    assert (rows["matmul, bf16"], rows["matmul, fp32"]) == {
        "bf16": (4, 32), "fp32": (0, 2 * 4 + 32)}[dtype]
    assert sum(rows.values()) == own["matmul_instruction_count"]
    assert dict(kept.ledger.count.work) == {
        "bf16": {"bf16": PRODUCT, "fp32": PRODUCT}, "fp32": {"fp32": 2 * PRODUCT}}[dtype]


@each
def test_bytes_are_four_tensors_and_identities(dtype):
    kept, own = of(dtype), of(dtype).profile
    size = {"bf16": 2, "fp32": 4}[dtype]
    identities = {"bf16": TILE * 2 + TILE * 4, "fp32": TILE * 4}[dtype]
    assert own.summary["hbm_read_bytes"] == 3 * TENSOR * size + identities
    assert own.summary["hbm_write_bytes"] == TENSOR * size
    assert sum(one.nbytes for one in kept.of("DMA")) == 4 * TENSOR * size + identities
    assert sum(t.nbytes for t in own.tensors if t.role == "WEIGHT") == identities
    hand = {"bf16": Count({"bf16": PRODUCT, "fp32": PRODUCT}, 3 * TENSOR * 2, TENSOR * 2),
            "fp32": Count({"fp32": 2 * PRODUCT}, 3 * TENSOR * 4, TENSOR * 4)}[dtype]
    found = profile.compare(hand, own)
    assert found.explained
    assert found["constants"].read == identities


@each
def test_the_profilers_own_figures_come_out(dtype):
    check = of(dtype).profile.check()
    assert check.agree and check.compared >= 6
    # The printed ridge is one core's peak over a stack that two cores share.
    assert check["peak_flops_bandwidth_ratio"].printed == pytest.approx(2 * PE * 1e9 / 716e9)


# --- condensing ----------------------------------------------------------------------------------

ABOUT = {"name": "made", "by": "a test", "chip": "trn2"}


def made(**rows) -> device.Condensed:
    whole = timelines.profile(timelines.timeline(**rows))
    return device.condense(whole, gaps.ledger(whole, CORE), ABOUT)


def full(**more):
    return {"N": 480, **more}  # 200 ns in bf16


def test_alike_events_that_touch_are_one_stretch():
    kept = made(matmuls=[(0, 250, full()), (200, 400, full()), (450, 650, full()),
                         (650, 850, full(transpose=True))],
                weights=[(420, 450)], vector=[(100, 300), (300, 340)])
    assert [tuple(one)[:6] for one in kept.of("Tensor")] == [
        ("Tensor", "matmul, bf16", 0, 400, 2, 200.0), ("Tensor", "weight load", 420, 450, 1, 0),
        ("Tensor", "matmul, bf16", 450, 650, 1, 0), ("Tensor", "transpose, bf16", 650, 850, 1, 0)]
    assert [(one.start, one.end, one.events) for one in kept.of("Vector")] == [(100, 340, 2)]


def test_a_stretch_ends_where_the_throttle_limit_changes():
    kept = made(matmuls=[(0, 400, full()), (400, 600, full()), (600, 800, full())],
                throttles=[(0, 450, {"k": 4}), (450, 800, {"k": 8})])
    assert [(one.start, one.end, one.events) for one in kept.of("Tensor")] == [
        (0, 450, 2), (450, 800, 1)]
    assert [one.what for one in kept.of("Throttle")] == ["4 of 8 cycles", "8 of 8 cycles"]


def test_semaphores_are_neither_traffic_nor_fetch():
    kept = made(matmuls=[(200, 400, full())], packets=[
        (0, 50, {"nbytes": 512}), (40, 90, {"nbytes": 256}), (95, 99, {"nbytes": 4,
                                                                       "traffic": False}),
        (100, 150, {"nbytes": 64, "traffic": False})])
    assert [tuple(one) for one in kept.stretches if one.lane in ("DMA", "Fetch")] == [
        ("DMA", "packets", 0, 90, 2, 0, 768), ("Fetch", "packets", 100, 150, 1, 0, 64)]


@pytest.mark.parametrize(("change", "says"), [
    (lambda of: of.window(0, 300), "a whole capture"),
    (lambda of: profile.Profile(of.name, "json", "", of.summary), "a whole capture"),
])
def test_what_cannot_be_condensed_is_refused(change, says):
    whole = timelines.profile(timelines.timeline(matmuls=[(0, 400, full())]))
    with pytest.raises(ProfileError, match=says):
        device.condense(change(whole), gaps.ledger(whole, CORE), ABOUT)
    with pytest.raises(ProfileError, match="about lacks by"):
        device.condense(whole, gaps.ledger(whole, CORE), {"name": "x", "chip": "y"})


@pytest.mark.parametrize("break_", [
    lambda of: of | {"format": "other"},
    lambda of: {k: v for k, v in of.items() if k != "ledger"},
    lambda of: of | {"ledger": of["ledger"][1:]},                       # the sum is another
    lambda of: of | {"ledger": [["no cause", *of["ledger"][0][1:]], *of["ledger"][1:]]},
    lambda of: of | {"end": 10},                                        # stretches beyond it
    lambda of: of | {"stretches": [[1]]},
    lambda of: of | {"summary": {}},
    lambda of: [of],
])
def test_a_file_that_is_none_is_one_clear_error(break_, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(break_(json.loads((DATA / "attention_bf16.json").read_text()))))
    with pytest.raises(ProfileError, match=r"x\.json: expected a file of condense"):
        device.condensed(path)


def test_other_files_are_one_clear_error(tmp_path):
    with pytest.raises(ProfileError, match="no such file"):
        device.condensed(tmp_path / "none.json")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(ProfileError, match="expected a file of condense"):
        device.condensed(tmp_path / "x.json")
    with pytest.raises(ProfileError, match="expected a file of condense"):
        device.condensed(tmp_path)


# --- a ledger without rows -----------------------------------------------------------------------

def test_a_stated_ledger_is_the_one_it_was_made_of():
    kept, causes = of("bf16"), {}
    for row in kept.ledger.rows:
        causes[row.cause] = (row.time, [(a, b) for _, a, b in row.stretches])
    again = gaps.stated(kept.profile, CORE, kept.ledger.count, causes, kept.end)
    assert repr(again) == repr(kept.ledger)
    assert again.ladder()[-1].time == pytest.approx(again.t)
    with pytest.raises(gaps.GapError, match="only its causes were kept"):
        again.fix("start")
    with pytest.raises(gaps.GapError, match="sum to"):
        gaps.stated(kept.profile, CORE, Count({"bf16": 2 * PRODUCT}), causes, kept.end)
    with pytest.raises(gaps.GapError, match="expected one that a ledger knows"):
        gaps.stated(kept.profile, CORE, kept.ledger.count, {"x": (1.0, [])}, kept.end)


# --- its figure ----------------------------------------------------------------------------------

def numbers(text):
    return [int(one, 36) for one in text.split(" ")]


@each
def test_the_figure_draws_each_stretch(dtype):
    kept = of(dtype)
    live = figures.stretches(kept)
    assert live.data["says"][0].startswith("A published profile") and "Allen Chau" in live.text
    for lane in live.data["lanes"]:
        here = kept.of(lane["name"])
        assert np.cumsum(numbers(lane["start"])).tolist() == [one.start for one in here]
        assert numbers(lane["long"]) == [one.end - one.start for one in here]
        words = live.data["words"]
        drawn = numbers(lane["what"]) if "what" in lane else [0] * len(here)
        for one, word in zip(here, drawn, strict=True):
            assert words[word][0].startswith(one.what)
    [(_, table)] = live.tables
    assert len(table) == 1 + len(kept.stretches)


def test_a_part_of_the_figure():
    kept = of("bf16")
    live = figures.stretches(kept, 17_000, 23_000, lanes=("Tensor", "Vector"), causes=True)
    assert [lane["name"] for lane in live.data["lanes"]] == ["Causes", "Tensor", "Vector"]
    assert (live.data["from"], live.data["to"]) == (17_000, 23_000)
    for wrong in ((0, 100), (30_000, 20_000), (0, 99_999)):
        with pytest.raises(ValueError, match="from"):
            figures.stretches(kept, *wrong, lanes=("Tensor",))


def test_a_stretch_is_read_out(page_of):  # noqa: F811
    page = page_of(figures.stretches(of("bf16"), causes=True)._repr_html_()).page
    status = page.locator(".rl-status")
    page.locator(".rl-lanes").focus()
    page.keyboard.press("ArrowDown")
    assert status.inner_text().startswith("Tensor: 8 blocks")  # of the whole lane
    page.keyboard.press("PageUp")
    page.keyboard.press("PageUp")  # the second of the lane
    assert status.inner_text().startswith(
        "Tensor: 4 drawn as one, most often transpose, bf16, from 17,234 ns, 585 ns long, busy "
        "100 % of it; transpose: it moves data. Causes there: transposes.")
    assert "packets under way" not in page.locator(".rl-key").inner_text()
    assert not violations(page) and not sideways(page)


# --- what the page prints ------------------------------------------------------------------------

PAGE = ROOT / "day7/stranger.ipynb"


def printed(cell: str) -> str:
    [found] = [one for one in json.loads(PAGE.read_text())["cells"] if one["id"] == cell]
    return cell_text(found)


def ns_of(spans) -> set[int]:
    """Every ns of some stretches: the walk that Spans spares."""
    return {t for one in spans for t in range(one.start, one.end)}


def test_the_page_counts_passes():
    said = printed("c-two-passes-of-fp32-2")
    assert f"bf16: {PRODUCT:,} FLOP counted, {PRODUCT:,} of work, 853 ns at peak" in said
    assert f"fp32: {2 * PRODUCT:,} FLOP counted, {PRODUCT:,} of work, 3.41 us at peak" in said
    assert (round(PRODUCT / 2 / PE), round(4 * PRODUCT / 2 / PE, -1)) == (853, 3410)


def test_the_page_reconciles_bytes_and_intensity():
    W, Q, more = 2 * PRODUCT, 4 * TENSOR * 2, TILE * 2 + TILE * 4
    assert (W, Q, more) == (134_217_728, 524_288, 98_304)
    assert f"('identity_45_sg0000', {TILE * 2}), ('identity_54_sg0000', {TILE * 4})" in printed(
        "c-reconcile-the-bytes")
    assert f"{more:,} B more" in printed("c-extra-bytes")
    said = printed("c-what-was-it-entitled-to-3").splitlines()
    shown = [f"{intensity:.4g} FLOP/B" for intensity in (
        W / Q, W / (Q + more), 1.5 * W / (Q + more), W / (Q + more))]
    assert [line.partition(" FLOP/B")[0] + " FLOP/B" for line in said] == shown
    compared = printed("c-what-was-it-entitled-to-2")
    for words in (f"transposes   +{20 * 2 * TILE * 128:,}", f"fp32 passes  +{PRODUCT:,}",
                  f"+{more:,}", "unexplained            0          0             0"):
        assert words in compared


def test_the_page_prints_the_ledger():
    led = of("bf16").ledger
    assert printed("c-the-ledger-and-one-picture") == repr(led)
    gap = f"{36_351.609 - 853 - 1 / 3 - 3413 - 1 / 3:,.3f} ns"
    assert printed("c-the-ledger-and-one-picture-2").split("\n")[:2] == [
        f"{gap} in all rows", f"{gap} between T and T_best"]
    ladder = printed("c-the-ledger-and-one-picture-4")
    assert re.search(r"T_best +4\.27 us +31\.5 TFLOP/s +100 %", ladder)
    assert re.search(r"at the bytes moved, 216 FLOP/B +36\.4 us +3\.69 TFLOP/s", ladder)
    assert round(2 / (1 / (2 * PE) + 4 / (2 * PE)) / 1e3, 1) == 31.5  # half of W at each peak


def test_the_pages_ladder_has_a_hollow_mark_at_the_bytes_that_moved():
    """W over the four tensors and the two identities, from the page's own cells as they stand."""
    names = {"seen": of("bf16"), "product": PRODUCT, "Count": Count, "core": CORE, "plot": plot,
             "profile": profile, "units": units}
    source = {one["id"]: cell_source(one) for one in json.loads(PAGE.read_text())["cells"]}
    exec(source["c-what-was-it-entitled-to"], names)
    exec(source["c-what-was-it-entitled-to-3"], names)
    rows = eval(source["c-the-ledger-and-one-picture-4"], names).rows
    there = 2 * PRODUCT / (4 * TENSOR * 2 + TILE * 2 + TILE * 4)
    assert rows[-1][0] == f"at the bytes moved, {there:.3g} FLOP/B" and rows[-2][0] == "T"


def test_the_page_reads_causes_off_the_lanes():
    kept = of("bf16")
    tensor, dma = ns_of(kept.of("Tensor")), ns_of(kept.of("DMA"))
    assert printed("c-no-overlap-2").startswith(
        f"{len(dma):,} ns with packets\n{len(dma & tensor):,} ns of them")
    # The bf16 identity: 128 rows of 128 numbers, a packet each.
    assert printed("c-extra-bytes-3").startswith(f"128 packets, {TILE * 2:,} B, {128 * 2} B each")
    wait = set(range(20_365, 22_570))
    assert not wait & tensor
    for engine in ("Vector", "Scalar"):
        works = len(wait & ns_of(kept.of(engine)))
        assert f"{engine} works for {works:,} of {len(wait):,} ns" in printed("c-a-slower-engine-2")
    # 4 matmuls of N = 512; 6 and 10 matmuls of fp32, N = 128, in two rows each.
    for start, end, flops, peak in ((18_499, 20_365, PRODUCT, 2 * PE),
                                    (26_042, 28_559, 6 * 2 * TILE * 128, PE / 2),
                                    (28_559, 30_979, 10 * 2 * TILE * 128, PE / 2)):
        rate = flops / (end - start)
        line = next(line for line in printed("c-busy-but-slow-2").splitlines()
                    if line.startswith(f"{start:,} ns"))
        assert f"{rate / 1e3:.3g} TFLOP/s, {rate / peak:.0%}" in line


def test_the_page_tells_three_shares_apart():
    said = printed("c-what-else-a-stranger-s-profile-holds")
    W, T, P = 2 * PRODUCT, 36_351.609, 2 * PE
    assert f"ridge printed {P / 716:.2f}, of one scope {2 * P / 716:.2f} FLOP/B" in said
    for share, of_what in ((1.5 * W / (2 * P * T), "printed"), (W / (P * T), "W over one core's"),
                           ((W / 2 / P + 4 * W / 2 / P) / T, "T_best over T")):
        assert f"{share:6.1%}  {of_what}" in said


def test_the_page_times_both_throttles():
    assert printed("c-do-the-second-capture-5").splitlines() == [
        f"{28_559 - 17_234:,} ns in fused attention, bf16",
        f"{23_822 - 17_183:,} ns in fused attention, fp32"]


def test_the_second_capture_is_counted_before_it_is_seen():
    """A question, its figure and counters closed below it, rows to fill in, a check, its end."""
    cells = json.loads(PAGE.read_text())["cells"]
    where = {one["id"]: i for i, one in enumerate(cells)}
    order = ["do-second", "day7-stranger-second", "c-do-the-second-capture",
             "c-do-the-second-capture-2", "day7-second", "day7-second-check", "done-second",
             "c-do-the-second-capture-3"]
    assert [where[id] for id in order] == sorted(where[id] for id in order)
    for id in [*order[2:4], order[-1]]:
        assert "hide-output" in cells[where[id]]["metadata"]["tags"], id
    assert cell_source(cells[where["day7-second"]]).startswith("my_rows = ...")
    assert cell_source(cells[where["done-second"]]).startswith("*Done when* ")


@pytest.mark.parametrize(("rows", "says"), [
    ("...", "rows not filled in"),
    # 38,091.607 ns less W / P_fp32 = 2 x 512 x 512 x 128 x 2 / (P / 4): 31,264.940 ns
    ('{"start": 13_289, "all else": 17_000}', "976 ns of the gap without a row: done"),
    ('{"start": 13_289}', "17,976 ns of the gap without a row: look for it on the timeline"),
])
def test_the_second_captures_rows_have_to_add_up(rows, says, capsys):
    [check] = [cell_source(one) for one in json.loads(PAGE.read_text())["cells"]
               if one["id"] == "day7-second-check"]
    exec(check, {"my_rows": eval(rows), "other": of("fp32")})
    assert capsys.readouterr().out.strip() == says


@pytest.mark.parametrize(("find", "cell", "read"), [
    ("start", "c-whose-of-what-by-which-clock", ["36.35 us"]),
    ("start", "c-the-time-before-the-first-matmul", ["13,704 ns", "17,234 ns"]),
    ("transposes", "c-raw-flops", ["285,212,672"]),
    ("transposes", "c-transposes", ["585 ns    4", "3,469 ns  16"]),
    ("passes", "c-raw-and-transpose-flops", ["285,212,672", "83,886,080"]),
    ("throttle", "c-the-throttle", ["426 ns", "17,234 ns", "8 of 8 cycles           28,559 ns",
                                    "1,866 ns", "2,517 ns"]),
    ("traffic", "c-hbm-bytes", ["491,520", "131,072"]),
])
def test_what_a_question_asks_to_read_stands_open_before_it(find, cell, read):
    cells = json.loads(PAGE.read_text())["cells"]
    where = {one["id"]: i for i, one in enumerate(cells)}
    assert where[cell] < where[f"day7-stranger-{find}"]
    assert "hide-output" not in cells[where[cell]]["metadata"].get("tags", [])
    said = ask(f"day7.stranger.{find}").text
    for number in read:
        assert number in printed(cell) and number not in said
    assert not re.search(r"\d (us|ns)\b|\d{3},\d{3}", said)  # the reader finds them


def test_each_cause_has_a_question_and_a_window_of_its_own():
    cells = json.loads(PAGE.read_text())["cells"]
    text = "".join(cell_source(cell) for cell in cells)
    for cause in ("idle", "overlap", "bytes", "engine", "fixed", "slow"):
        assert f'ask("day7.cause.{cause}")' in text
    for find in ("start", "transposes", "passes", "throttle", "traffic", "entitlement"):
        assert f'ask("day7.stranger.{find}")' in text
    # What the page quotes of the ledger's rows exists.
    table = text[text.index("| Cause | Where"):text.index("Each row of a ledger")]
    named = {name for name in re.findall(r"`([a-zA-Z ]+)`", table)}
    assert named <= set(gaps.CAUSES) and len(named) >= 15
