"""Ladders from entitlement to measurement, and the scatter of a model's errors: their numbers."""

import math
import random
import re
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import matplotlib
import pytest
import timelines
from test_plot import NASTY, SVG, check_labels, words

from roofline import gaps, machine, plot, profile
from roofline.count import Count
from roofline.gaps import Step
from roofline.plot import PlotError
from roofline.plot.canvas import _ON_PAPER

REAL = Path(__file__).parents[2] / "shared/reference/real-profiles"
CORE, PAIR = machine.trn2.at("core"), machine.trn2.at("lnc2")
# 40 matmuls of 128 x 128 x 512 in bf16: W = 40 x 2 x 128 x 128 x 512.
COUNT = Count({"bf16": 40 * 2 * 128 * 128 * 512}, 1_500_000, 500_000)


def led(*adds, t_best, of=CORE, cores=(0,), kind="measured", roof="compute"):
    """A ledger's face: T_best in ns, then (cause, ns)."""
    steps = [Step("T_best", t_best, None)]
    for cause, ns in adds:
        steps.append(Step(cause, steps[-1].time + ns, None))
    return SimpleNamespace(machine=of, cores=cores, kind=kind, roof=roof, name="made", count=None,
                           ladder=lambda: tuple(steps))


def t_best(count=COUNT, of=CORE, share=1.0):
    """ns, on this share of the machine's cores."""
    return 1e9 * max(sum(w / of.peak(d) for d, w in count.work.items()),
                     count.hbm_bytes / of.bw()) / share


def rows(picture, what):
    return [row[1:] for row in picture.rows if row[0] == what]


# --- the ladder --------------------------------------------------------------------------------


def test_a_step_is_a_cause_and_its_rate_is_W_over_T():
    # P = 78.64 TFLOP/s (2 x 128 x 128 x 2.4 GHz), Q / BW = 2 MB / 375 GB/s = 5.33 us: Q is smaller.
    best = t_best()
    assert best == pytest.approx(40 * 512 / 2.4, rel=1e-12)  # 8533.3 ns: a column a cycle
    picture = plot.ladder(led(("start", 12_000), ("pipeline", -200), ("tail", 1000.0), t_best=best),
                          COUNT)
    assert picture.columns == ("step", "adds", "time after", "rate", "of entitled", "kind")
    W = COUNT.flops
    assert rows(picture, "T_best") == [("", "8.53 us", "78.6 TFLOP/s", "100 %", "derived")]
    after = best + 12_000
    assert rows(picture, "start") == [
        ("12 us", "20.5 us", f"{W / after / 1e3:.3g} TFLOP/s", f"{100 * best / after:.3g} %",
         "derived")]
    assert rows(picture, "pipeline")[0][:2] == ("-200 ns", "20.3 us")
    after = best + 12_800
    assert rows(picture, "tail") == [
        ("1 us", "21.3 us", f"{W / after / 1e3:.3g} TFLOP/s", "40 %", "derived")]  # 8533 / 21333
    assert picture.rows[-1] == ("T", "", *rows(picture, "tail")[0][1:4], "measured")
    assert {row[0] for row in picture.rows if row[-1] != "derived"} == {"T"}
    assert rows(picture, "compute roof")[0][2] == "78.6 TFLOP/s"
    assert rows(picture, "HBM roof")[0][2] == "375 GB/s"
    assert {"peak 78.6 TFLOP/s", "HBM 375 GB/s", "T_best", "start 12 us", "tail 1 us",
            "pipeline -200 ns", "measured", "entitled (derived)"} <= set(words(picture))
    assert "At 336 FLOP/B the entitlement is 78.6 TFLOP/s" in picture.alt  # W / 2 MB
    assert "start 12 us" in picture.alt and "down to 31.5 TFLOP/s" in picture.alt
    check_labels(picture)


def test_mixed_dtypes_have_one_compute_roof():
    """W / (W_bf16 / P_bf16 + W_fp32 / P_fp32): half at P, half at P / 4 is 0.4 P."""
    count = Count({"bf16": 10**9, "fp32": 10**9}, 10**6, 10**6)
    picture = plot.ladder(led(("start", 5000), t_best=t_best(count)), count)
    assert CORE.peak("bf16") == 4 * CORE.peak("fp32")
    assert rows(picture, "compute roof")[0][2] == f"{0.4 * CORE.peak('bf16') / 1e12:.3g} TFLOP/s"


def test_a_memory_bound_ladder_starts_on_the_slope():
    count = Count({"bf16": 10**8}, 30 * 10**6, 7_500_000)  # 37.5 MB / 375 GB/s = 100 us
    picture = plot.ladder(led(("few engines", 60_000), ("end", 40_000), t_best=100_000,
                              roof="memory"), count)
    assert rows(picture, "T_best") == [("", "100 us", "1 TFLOP/s", "100 %", "derived")]
    assert rows(picture, "end")[0][1:4] == ("200 us", "500 GFLOP/s", "50 %")
    check_labels(picture)


def test_hollow_marks_stand_at_the_bytes_that_moved():
    count = Count({"bf16": 10**8}, 30 * 10**6, 7_500_000)
    ledger = led(("idle", 100_000), t_best=100_000, roof="memory")
    picture = plot.ladder(ledger, count, moved=75 * 10**6)  # 1e8 / 75e6; x 375e9 = 500 GFLOP/s
    assert rows(picture, "at the bytes moved, 1.33 FLOP/B") == [
        ("", "200 us", "500 GFLOP/s", "100 %", "measured")]
    assert "the entitlement is 500 GFLOP/s and the rate 100 % of it" in picture.alt
    assert "hollow: at the bytes moved" in words(picture)
    for same in (None, count.hbm_bytes):
        plain = plot.ladder(ledger, count, moved=same)
        assert "moved" not in plain.alt and "hollow: at the bytes moved" not in words(plain)


def test_two_cores_share_two_cores_roofs_and_one_takes_half():
    both = plot.ladder(led(("start", 1000), of=PAIR, cores=(0, 1), t_best=t_best(of=PAIR)), COUNT)
    one = plot.ladder(led(("start", 1000), of=PAIR, cores=(1,), t_best=t_best(of=PAIR, share=0.5)),
                      COUNT)
    assert rows(both, "compute roof")[0][2] == "157 TFLOP/s"
    assert rows(one, "compute roof")[0][2] == "78.6 TFLOP/s"
    assert rows(both, "HBM roof")[0][2] == "750 GB/s" and rows(one, "HBM roof")[0][2] == "375 GB/s"


def test_a_copy_has_a_ladder_in_time():
    copy = Count({}, 37_500_000, 37_500_000)  # 75 MB / 375 GB/s = 200 us
    picture = plot.ladder(led(("start", 13_000), ("engines against the roof", -4000.0),
                              ("packet cost", 31_000), t_best=200_000, roof="memory",
                              kind="modelled"), copy)
    assert picture.columns == ("step", "adds", "time after", "kind")
    assert picture.rows == (
        ("T_best", "", "200 us", "derived"), ("start", "13 us", "213 us", "derived"),
        ("engines against the roof", "-4 us", "209 us", "derived"),
        ("packet cost", "31 us", "240 us", "derived"), ("T", "", "240 us", "modelled"))
    assert {"T_best", "start", "packet cost", "200 us", "13 us", "-4 us", "31 us",
            "T (modelled)"} <= set(words(picture))
    assert picture.alt.endswith("T_best, 200 us; start 13 us, 213 us; engines against the roof "
                                "-4 us, 209 us; packet cost 31 us, 240 us; T, 240 us.")
    assert plot.ladder(led(t_best=1000), Count({"bf16": round(CORE.peak("bf16") * 1e-6)})
                       ).columns == picture.columns  # Q = 0 has no intensity either


def test_labels_of_many_steps_keep_apart():
    causes = [(cause, 3000.0 / (i + 1) ** 2) for i, cause in enumerate(gaps.CAUSES)]
    assert len(causes) > 20
    check_labels(plot.ladder(led(*causes[:14], t_best=t_best()), COUNT))
    picture = plot.ladder(led(*causes, t_best=t_best()), COUNT)
    check_labels(picture)
    assert len(picture.rows) == len(causes) + 4  # two roofs, T_best, T
    copy = Count({}, 37_500_000, 37_500_000)
    check_labels(plot.ladder(led(*causes[:12], t_best=200_000, roof="memory"), copy))


def test_the_count_must_be_the_ledger_s():
    with pytest.raises(PlotError, match=r"this count takes 8\.5333 us on 1 of 1 cores of "
                       r".*T_best is 9 us\. Pass the count that the ledger was made with"):
        plot.ladder(led(("start", 1), t_best=9000.0), COUNT)


def test_a_real_ledger_of_a_made_profile():
    """Ten matmuls, each after a pause of as long again: T_best 10 x 213.33."""
    matmuls = [(2000 + 426 * i, 2213 + 426 * i) for i in range(10)]
    of = timelines.profile(timelines.timeline(
        issues=[(1000, 1100)], matmuls=matmuls, packets=[(1200, 1358)], end=7000))
    count = Count({"bf16": 10 * 2 * 128 * 128 * 512}, 4096, 0)
    ledger = gaps.ledger(of, CORE, count)
    picture = plot.ladder(ledger)
    assert picture.rows == plot.ladder(ledger, count).rows
    assert [row[0] for row in picture.rows[2:]] == ["T_best", *(row.cause for row in ledger.rows),
                                                   "T"]
    assert picture.rows[-1][2] == "7 us"
    assert rows(picture, "idle")[0][0] == "1.92 us"  # 9 pauses of 213 ns
    own = plot.ladder(gaps.ledger(of, CORE))  # without a count: the profile's own, the same here
    assert own.rows == picture.rows
    assert plot.ladder(ledger, SimpleNamespace(count=count)).rows == picture.rows
    with pytest.raises(PlotError, match="count: got int; expected a Count"):
        plot.ladder(ledger, 3)
    # matmuls cut by a window: shares of FLOPs are rounded, which is no reason to refuse
    assert plot.ladder(gaps.ledger(of, CORE, window=(2100, 2500))).rows[2][2] != ""


def test_the_ladder_of_a_real_profile():
    """A Trn2 capture, allenkchau/trainium-kernel-fusion (MIT): read where it is."""
    path = REAL / "trn2-lnc2-attn-fused-bf16-s512.full.json"
    if not path.exists():
        pytest.skip("../shared/reference/real-profiles is not here")
    of = profile.read(path)
    count = Count({"bf16": 67_108_864, "fp32": 67_108_864}, 393_216, 131_072)
    picture = plot.ladder(gaps.ledger(of, CORE, count), count,
                          moved=of.get("hbm_read_bytes") + of.get("hbm_write_bytes"))
    # 134,217,728 FLOP in 4.2667 us and in 36.3516 us; at 524,288 B and, with constants, 622,592 B
    assert rows(picture, "T_best") == [("", "4.27 us", "31.5 TFLOP/s", "100 %", "derived")]
    assert rows(picture, "start")[0][0] == "13.7 us"
    assert picture.rows[-2][2:5] == ("36.4 us", "3.69 TFLOP/s", "11.7 %")
    assert picture.rows[-1][0] == "at the bytes moved, 216 FLOP/B"
    check_labels(picture)


# --- errors --------------------------------------------------------------------------------


def record(id, kind, published, error, chip="trn2", usable=True):
    """Times in us; the error in percent, None for no prediction."""
    modelled = None if error is None else published * 1e-6 * (1 + error / 100)
    return SimpleNamespace(id=id, kind=kind, chip=chip, published=published * 1e-6,
                           modelled=modelled, usable=usable)


REPORT = [record("C1", "copy", 100, 2), record("C2", "copy", 1000, -4), record("C3", "copy", 50, 8),
          record("G1", "gemm", 300, -20, "trn1"), record("G2", "gemm", 400, 10, "trn1"),
          record("X1", "gemm", 400, 90, usable=False), record("X2", "tiny", 20, None)]


def test_errors_are_arithmetic():
    picture = plot.errors(REPORT)
    assert picture.columns == ("row", "kind", "chip", "published", "modelled", "error")
    assert picture.rows == (
        ("C1", "copy", "trn2", "100 us", "102 us", "+2.0 %"),
        ("C2", "copy", "trn2", "1 ms", "960 us", "-4.0 %"),
        ("C3", "copy", "trn2", "50 us", "54 us", "+8.0 %"),
        ("G1", "gemm", "trn1", "300 us", "240 us", "-20.0 %"),
        ("G2", "gemm", "trn1", "400 us", "440 us", "+10.0 %"))
    assert "copy: 3 rows, median error 4 %, worst +8.0 % (C3), 3 within 15 %" in picture.alt
    assert "gemm: 2 rows, median error 15 %, worst -20.0 % (G1), 1 within 15 %" in picture.alt
    assert "2 rows not usable or not predicted, left out" in picture.alt
    named = set(words(picture))
    assert {"copy (3)", "gemm (2)", "G1", "bands: 5 and 15 %", "trn2; hollow: trn1"} <= named
    assert not {"C1", "G2", "X1"} & named  # only what lies outside has its name
    assert {"-15 %", "+15 %", "0 %", "100 us", "1 ms"} <= named
    check_labels(picture)
    assert plot.errors(SimpleNamespace(rows=REPORT)) == picture


def test_the_axis_of_errors_is_logarithmic():
    """So that a model twice as fast lies as far off as one half as fast."""
    svg = ElementTree.fromstring(plot.errors(REPORT).svg)
    at = {e.text: float(e.get("y") or re.findall(r"[\d.]+", e.get("transform"))[1])
          for e in svg.iter(f"{SVG}text") if e.text.endswith(" %") and e.text[0] in "+-0"}
    scale = (at["-15 %"] - at["0 %"]) / -math.log(0.85)  # px down for a factor of e
    assert at["0 %"] - at["+15 %"] == pytest.approx(scale * math.log(1.15), abs=0.3)


def test_labels_of_many_errors_keep_apart():
    draw = random.Random(4)
    many = [record(f"{kind[0].upper()}{i:02}", kind, 10 ** draw.uniform(0.5, 5),
                   100 * (draw.lognormvariate(0, 0.15) - 1), draw.choice(("trn1", "trn2", "inf2")))
            for kind, n in (("copy", 20), ("gemm", 30), ("tiny", 12), ("fused", 6))
            for i in range(n)]
    check_labels(plot.errors(many))
    far = [record(f"far{i}", "tiny", 10 * 3**i, e) for i, e in enumerate((-90, -60, 120, 700))]
    check_labels(plot.errors(far))


def test_kinds_differ_in_shape():
    """Eight kinds, eight shapes: the paths of the legend, drawn in the same place each time."""
    kinds = [f"kind {i}" for i in range(8)]
    figure = plot.errors([record("r", kind, 100, 0) for kind in kinds]).draw(_ON_PAPER, "")
    marks = [a.get_path().vertices for a in figure.get_children()
             if isinstance(a, matplotlib.patches.PathPatch)][:8]
    assert len({(v - v.mean(0)).round(6).tobytes() for v in marks}) == 8


def test_text_is_data():
    nasty = [record(NASTY, NASTY, 100, 40, NASTY)]
    for picture in (plot.errors(nasty),
                    plot.ladder(led((NASTY, 100.0), t_best=t_best()), COUNT)):
        page = ElementTree.fromstring(picture._repr_html_())
        assert not list(page.iter("script")) and "<script" not in picture._repr_html_()


@pytest.mark.parametrize(("records", "says"), [
    ([], "errors: 0 rows, none of them usable and predicted"),
    ([record("a", "b", 1, None)], "errors: 1 rows, none of them usable and predicted"),
    ([record("a", "b", 1, -100)], r"errors: a: modelled: got 0\.0; a log axis"),
    ([record("a", "b", float("inf"), 0)], "errors: a: published: got inf")])
def test_what_cannot_be_drawn_is_said(records, says):
    with pytest.raises(PlotError, match=says):
        plot.errors(records)
