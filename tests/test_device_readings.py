"""What measurements say: knees by a rule, loops on windows, intervals, gaps, roofs; literature.

trn2's Tensor Engine takes 480 columns of bf16 in 200 ns, trn1's 512 in 182.9 ns.
"""

import hashlib
import json
import math
import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import ROOT
from recordings import book, record  # noqa: F401  (a fixture)
from timelines import profile, timeline

from roofline import device, gaps, machine, nki, sheet
from roofline import profile as profiles
from roofline.device import launches, literature, readings
from roofline.device.measuring import MeasureError, Measurement, measure, sweep
from roofline.device.plausibility import Flag
from roofline.device.readings import gap, intervals, knee, loop, roofs
from roofline.machine import MachineError

KERNELS = nki.load(ROOT / "day4" / "kernels.py")
ONE = 2 * 128 * 128 * 480  # FLOPs of a matmul of 200 ns on trn2
PEAK = machine.get("trn2", "core").peaks["bf16"].value


# --- knees ---------------------------------------------------------------------------------------

def brute(points, share):
    """The definition, read aloud: the first size from which on all reach the share."""
    best = max(rate for _, rate in points)
    sizes = sorted({size for size, _ in points})
    for size in sizes[:-1]:  # the last one alone is no plateau
        if all(rate >= share * best for at, rate in points if at >= size):
            return size
    return None


POINTS = st.lists(st.tuples(st.integers(1, 6), st.integers(80, 100)), min_size=1, max_size=10)


@given(POINTS, st.sampled_from([0.8, 0.9, 0.95, 1.0]), st.randoms())
def test_the_knee_is_what_its_rule_says(points, share, order):
    found = knee(*zip(*points, strict=True), share)
    assert found.size == brute(points, share)
    assert found.plateau == max(rate for _, rate in points)
    order.shuffle(points)
    again = knee(*zip(*points, strict=True), share)
    assert (again.size, again.verdict) == (found.size, found.verdict)
    assert ("does not flatten" in found.verdict) == (found.size is None)


def test_a_size_measured_twice_is_near_the_plateau_both_times_or_not_at_all():
    assert knee([1, 2, 2, 3, 4], [50, 100, 50, 100, 100]).size == 3
    assert knee([1, 2, 2, 3, 4], [50, 100, 96, 100, 100]).size == 2


@given(POINTS, st.integers(2, 1000))
def test_a_knee_is_where_it_is_in_any_unit_of_rate(points, factor):
    sizes, rates = zip(*points, strict=True)
    assert knee(sizes, rates).size == knee(sizes, [factor * rate for rate in rates]).size


KIB = 1024


@pytest.mark.parametrize(("rates", "size", "said"), [
    # 190 / 200 is 95 %
    ([50, 100, 190, 200], 4 * KIB, "The knee is at 4 KiB: the best rate is 200 GB/s, at 8 KiB; "
     "2 KiB, the size before it, has 100 GB/s, 50.0% of that."),
    ([50, 100, 189, 200], None, "It does not flatten: the best rate is 200 GB/s, at 8 KiB; only "
     "the largest size, 8 KiB, reaches 95% of it. Measure larger ones."),
    # a CPU's: fast in its caches
    ([50, 200, 190, 100], None, "It does not flatten: the best rate is 200 GB/s, at 2 KiB, and at "
     "8 KiB it is 100 GB/s again, 50.0% of that. Take it apart, or measure further."),
    ([198, 200, 196, 199], KIB, "Flat from the smallest size on, 1 KiB: the best rate is 200 GB/s,"
     " at 2 KiB. The knee is there or below; measure smaller ones."),
])
def test_the_verdict_of_a_curve(rates, size, said):
    found = knee([KIB, 2 * KIB, 4 * KIB, 8 * KIB], [rate * 1e9 for rate in rates])
    assert (found.size, found.verdict) == (size, said)
    assert said in " ".join(repr(found).split())
    assert "reaches 95% of the best rate" in " ".join(repr(found).split())


def test_a_knee_says_its_share_kind_and_what_was_left_out():
    found = knee([1, 2, 3], [80e9, 99e9, 100e9], 0.75, what="queues", unit="", kind="modelled",
                 notes=["1 flagged and left out"])
    text = " ".join(repr(found).split())
    assert text.startswith("modelled: Flat from the smallest size on, 1:")
    assert "the smallest queues from which on every one reaches 75% of the best rate" in text
    assert "3 points; 1 flagged and left out" in text


def test_a_cpu_sweep_has_a_knee_by_the_same_rule():
    cpu = device.host.load(ROOT / "day1" / "data" / "host_run.json").sweep
    sizes = [p.bytes for p in cpu.points]
    rates = [2 * p.bytes / p.numpy for p in cpu.points]
    found = knee(sizes, rates)
    assert found.size == brute(list(zip(sizes, rates, strict=True)), 0.95)
    assert found.plateau == max(rates)


@pytest.mark.parametrize(("sizes", "rates", "share", "said"), [
    ([1, 2], [1.0], 0.95, "2 sizes and 1 rates"),
    ([1, 2], [1.0, math.nan], 0.95, "got nan; expected finite numbers > 0"),
    ([1, 2], [1.0, 0.0], 0.95, "got 0.0; expected finite numbers > 0"),
    ([0, 2], [1.0, 1.0], 0.95, "got 0; expected"),
    ([1, 2], [1.0, 1.0], 0, "share 0; expected a number in"),
    ([1, 2], [1.0, 1.0], 1.1, "share 1.1; expected a number in"),
])
def test_what_is_no_curve(sizes, rates, share, said):
    with pytest.raises(MeasureError, match=re.escape(said)):
        knee(sizes, rates, share)


# --- loops ---------------------------------------------------------------------------------------

def matmuls(n, each, start=0, **more):
    """n matmuls of 480 columns, one every `each` ns."""
    return [(start + i * each, start + (i + 1) * each, {"N": 480, **more}) for i in range(n)]


def measured(of, call=None, chip="trn2", flags=(), **more):
    call = call or launches.launch(KERNELS.resident_matmul, ((128, 128), "bf16"),
                                   ((128, 512), "bf16"), repeat=4)
    return Measurement(call, chip, profile(of, flags=tuple(flags), **more))


def test_a_loop_without_traffic_is_timed_from_its_first_matmul_to_the_last():
    # 1000 ns of loads, then 40 matmuls of 250 ns, then a store
    of = timeline(packets=[(0, 1000), (11_100, 11_400)], matmuls=matmuls(40, 250, 1000), end=12_000)
    found = loop(measured(of))
    assert found.window == (1000, 11_000) and found.matmuls == 40
    assert found.whole is found and "nothing was moved meanwhile" in repr(found)
    assert found.flops == 40 * ONE and found.work == {"bf16": 40 * ONE}
    assert found.rate == pytest.approx(40 * ONE / 10_000e-9)
    assert found.share == pytest.approx(200 / 250)  # 200 ns of work in each 250
    assert "80.0% of spec, bf16 78.64 TFLOP/s (derived)" in repr(found)
    assert found.ledger.gap == pytest.approx(2000)
    assert found.ledger["pipeline"] == pytest.approx(2000)  # 40 x 50 ns


def test_a_loop_that_does_other_work_than_its_source_says_so():
    # the source: 4 times 128 x 128 x 512
    assert "the source counts 67.11 MFLOP" in repr(loop(measured(timeline(
        matmuls=matmuls(40, 250)))))
    same = [(250 * i, 250 * i + 250) for i in range(4)]
    assert "the source counts" not in repr(loop(measured(timeline(matmuls=same))))


def test_what_is_moved_during_the_loop_is_left_out_of_its_window():
    # loads until 2100, a store from 9,050: matmuls start at 1000, 1250, ... 10,750
    of = timeline(packets=[(0, 2100), (9050, 11_500)], matmuls=matmuls(40, 250, 1000), end=12_000)
    found = loop(measured(of))
    assert found.window == (2250, 9000)  # from the start of one to the start of another
    assert found.matmuls == 27 and found.flops == 27 * ONE  # (9000 - 2250) / 250
    assert found.share == pytest.approx(0.8)
    assert found.whole.window == (1000, 11_000) and found.whole.matmuls == 40
    assert "the longest stretch of it in which nothing was moved" in repr(found)
    assert "from the first matmul to the last: 629.1 MFLOP in 10,000 ns" in repr(found)


def test_a_loop_under_traffic_throughout_is_whole_and_says_so():
    of = timeline(packets=[(0, 12_000)], matmuls=matmuls(40, 250, 1000), end=12_000)
    found = loop(measured(of))
    assert found.window == (1000, 11_000) and "something was moved throughout" in repr(found)


def test_packets_that_are_no_traffic_or_unknown():
    fetch = timeline(packets=[(0, 12_000, {"traffic": False})], matmuls=matmuls(40, 250, 1000))
    assert "nothing was moved meanwhile" in loop(measured(fetch)).words
    blind = timeline(matmuls=matmuls(40, 250, 1000), unknown=["packets"])
    assert "what was moved meanwhile is not in the profile" in loop(measured(blind)).words


def test_transposes_are_no_work_and_fp32_passes_count_once():
    turned = [(1000 + 250 * i, 1250 + 250 * i, {"N": 480, "transpose": i % 2 == 1})
              for i in range(9)]
    found = loop(measured(timeline(matmuls=turned)))
    assert found.flops == 5 * ONE and found.matmuls == 5
    passes = matmuls(4, 400, dtype="fp32", passes=2)
    assert loop(measured(timeline(matmuls=passes))).work == {"fp32": 2 * ONE}


def test_a_loop_of_a_plain_profile_names_its_chip():
    of = timeline(matmuls=matmuls(4, 200))
    assert loop(profile(of), "trn2").share == pytest.approx(1.0)
    assert loop(profile(of, metadata={"instance_type": "trn1.2xlarge"})).machine.key == "trn1"
    assert loop(profile(of), machine.get("trn2", "core")).share == pytest.approx(1.0)
    with pytest.raises(MachineError, match="which chip it ran on is not in the profile"):
        loop(profile(of))


def test_both_cores_of_a_pair_are_set_against_both_peaks():
    of = timeline(matmuls=matmuls(4, 200) + matmuls(4, 200, core=1), cores=2)
    found = loop(profile(of), "trn2")
    assert found.machine.scope == "lnc2" and found.flops == 8 * ONE
    assert found.share == pytest.approx(1.0)


@pytest.mark.parametrize(("of", "said"), [
    (profile(timeline(vector=[(0, 10)])), "0 matmul(s); a loop has two or more"),
    (profile(timeline(matmuls=[(0, 200)])), "1 matmul(s); a loop has two or more"),
    (profile(timeline(matmuls=matmuls(4, 200, dtype=""))), "does not tell what its matmuls"),
])
def test_what_is_no_loop(of, said):
    with pytest.raises(MeasureError, match=re.escape(said)):
        loop(of, "trn2")


def test_a_summary_has_no_loop_and_no_intervals():
    of = measured(timeline(matmuls=matmuls(4, 200)))
    object.__setattr__(of.profile, "timeline", None)
    with pytest.raises(MeasureError, match="a summary, and a loop is a part of a timeline"):
        loop(of)
    with pytest.raises(MeasureError, match="a summary, without the starts of its matmuls"):
        intervals([of])


# --- intervals -----------------------------------------------------------------------------------

def spaced(n, ns, chip="trn1", count=40, slow=0, flags=()):
    """moving_sweep of N columns with starts `ns` apart; the first `slow` of them twice that."""
    starts = [0]
    for i in range(count - 1):
        starts.append(starts[-1] + (2 * ns if i < slow else ns))
    call = launches.launch(KERNELS.moving_sweep, ((128, 128), "bf16"), ((128, n), "bf16"), n=count)
    of = timeline(matmuls=[(t, t + ns, {"N": n}) for t in starts])
    return measured(of, call, chip, flags)


def test_intervals_that_follow_the_rule():
    # trn1: 2.8 cycles a ns; 64 cycles are 22.9 ns, 512 are 182.9
    found = intervals([spaced(512, 183), spaced(16, 23), spaced(128, 46)])
    assert [row.columns for row in found] == [16, 128, 512]
    assert [row.rule for row in found] == [64, 128, 512]
    assert [row.cycles for row in found] == pytest.approx([64.4, 128.8, 512.4])
    assert found.verdict == ("measured: 3 of 3 intervals are max(N, 64) cycles, within 5% or "
                             "1 ns.")
    assert "64 cycle (documented" in repr(found) and "2.8 GHz" in repr(found)


def test_intervals_above_the_rule_by_the_same_or_by_different_cycles():
    same = intervals([spaced(16, 73), spaced(128, 96), spaced(512, 233)])  # 50 ns more: 140 cycles
    assert "0 of 3 intervals" in same.verdict
    # 204.4 - 64, 268.8 - 128, 652.4 - 512
    assert same.verdict.endswith("; all lie about 140.4 cycles above it.")
    differ = intervals([spaced(16, 23), spaced(512, 300)])
    assert differ.verdict == ("measured: 1 of 2 intervals are max(N, 64) cycles, within 5% or "
                              "1 ns; not N = 512 (+328.0 cycles).")  # 840 - 512


def test_intervals_of_the_first_throttled_half_do_not_count():
    assert intervals([spaced(512, 183, slow=19)])[0].nanoseconds == 183


def test_a_flagged_interval_is_shown_and_left_out_of_the_verdict():
    found = intervals([spaced(16, 23), spaced(512, 20, flags=["implausible: too fast"])])
    assert "1 of 1 intervals" in found.verdict
    assert re.search(r"512 +measured +20 ns +56\.0 .* flagged, left out", repr(found))


def test_trn2_takes_the_older_core_s_rule_as_an_assumption():
    found = intervals([spaced(64, 27, "trn2")])
    assert found.least.kind == "assumed" and "not restated for this core" in repr(
        found).replace("\n  ", " ")
    assert found[0].cycles == pytest.approx(27 * 2.4)


def test_intervals_need_matmuls():
    with pytest.raises(MeasureError, match="no measurement"):
        intervals([])
    with pytest.raises(MeasureError, match=r"1 matmul\(s\); an interval lies between two"):
        intervals([spaced(64, 27, count=1)])


# --- gaps ----------------------------------------------------------------------------------------

COPY = launches.launch(KERNELS.copy, ((128, 4096), "bf16"), elements=512)
Q = 2 * 128 * 4096 * 2


def copied(ns, start=1000, end=500, flags=()):
    packets = [(start, start + ns, {"engine": e, "nbytes": Q // 16}) for e in range(16)]
    return measured(timeline(issues=[(start - 10, start)], packets=packets, end=start + ns + end),
                    COPY, flags=flags)


def test_a_copy_s_gap_is_made_of_causes_that_sum_to_it():
    one = copied(6000)
    found = gap(one)
    best = Q / 375e9  # 5.59 us at trn2's share
    assert found.unit == "B/s" and found.spec == pytest.approx(375e9)
    assert found.reached == pytest.approx(one.bandwidth) == pytest.approx(Q / 7500e-9)
    assert math.fsum(row.time for row in found.rows) == pytest.approx(7500 - best * 1e9)
    assert found["start"] == pytest.approx(990) and found["end"] == pytest.approx(500)
    assert found.without("start") == pytest.approx(Q / 6510e-9)
    text = repr(found)
    assert "spec: 375 GB/s, T_best 5.592 us" in text
    assert "reached: 279.6 GB/s (74.6% of spec), T 7.5 us" in text
    assert re.search(r"^  start +990 ns +51\.9% +322\.1 GB/s$", text, re.M)  # 990 of 1907.6
    assert re.search(r"^  gap: their sum +1\.91 us$", text, re.M)


@pytest.mark.parametrize("name", ["overhead", "other", "Overhead ", "misc", "", "latency"])
def test_no_gap_can_be_called_overhead(name):
    found = gap(copied(6000))
    with pytest.raises(MeasureError, match="Here are: packet cost, start, end, fill"):
        found[name]
    with pytest.raises(MeasureError):
        found.named(name)
    with pytest.raises(MeasureError):
        found.without(name)
    assert set(row.cause for row in found.rows) <= set(gaps.CAUSES)
    assert not set(gaps.CAUSES) & set(readings.UNNAMED)
    assert found.named("start").try_ == gaps.CAUSES["start"].try_


def test_faster_than_spec_has_no_shares_and_says_so():
    text = repr(gap(copied(4000, 100, 100)))  # 4.2 us against 5.59
    assert "%" not in text.split("reached")[0] and "T_best is above T" in text
    assert "reached: 499.3 GB/s (133.2% of spec)" in text


def test_the_gap_of_a_loop_and_of_a_whole_matmul():
    of = timeline(packets=[(0, 1000), (11_100, 11_400)], matmuls=matmuls(40, 250, 1000),
                  end=12_000)
    found = gap(loop(measured(of)))
    assert found.unit == "FLOP/s" and found.spec == pytest.approx(PEAK)
    assert found.reached == pytest.approx(0.8 * PEAK)
    assert [row.cause for row in found.rows] == ["pipeline"]
    assert found.without("pipeline") == pytest.approx(PEAK)
    big = launches.launch(KERNELS.resident_matmul, ((2048, 512), "bf16"), ((2048, 1024), "bf16"),
                          repeat=4)
    whole = gap(measure(big, "trn2"))
    assert whole.unit == "FLOP/s" and whole.ledger.roof == "compute"
    assert math.fsum(row.time for row in whole.rows) == pytest.approx(whole.ledger.gap)


def test_what_is_odd_about_a_profile_is_said_with_its_loop_and_its_gap():
    odd = ("doubled: every core did all of it", "cold: the first execution")
    one = measured(timeline(matmuls=matmuls(40, 250, 1000)))
    one = Measurement(one.launch, one.chip, replace(one.profile, flags=odd))
    for shown in (loop(one), gap(loop(one)), gap(one)):
        assert repr(shown).splitlines()[2:4] == [f"  flag: {text}" for text in odd]
    assert "flag" not in repr(loop(measured(timeline(matmuls=matmuls(40, 250, 1000)))))


# --- other data, other words ---------------------------------------------------------------------

def figures(text):
    return set(re.findall(r"\d[\d,.]* ?(?:ns|us|GB/s|TFLOP/s|%)", text))


@pytest.mark.parametrize("show", [
    lambda k: repr(copied(6000 + 700 * k, 1000 + 100 * k)),
    lambda k: repr(gap(copied(6000 + 700 * k, 1000 + 100 * k, 300 + k * 77))),
    lambda k: repr(loop(measured(timeline(matmuls=matmuls(40 + k, 250 + 9 * k, 1000 + k))))),
    lambda k: repr(gap(loop(measured(timeline(matmuls=matmuls(40 + k, 250 + 9 * k, 1000 + k)))))),
    lambda k: repr(intervals([spaced(16 + 100 * k, 23 + 31 * k)])),
    lambda k: repr(knee([1, 2, 3], [1e9 + k * 7e8, 2e9 + k * 3e8, 2.01e9 + k * 3e8])),
], ids=["measurement", "gap", "loop", "gap of a loop", "intervals", "knee"])
def test_another_profile_changes_every_figure(show):
    spec = {"375 GB/s", "368 GB/s", "5.592 us", "78.64 TFLOP/s", "5%", "1 ns", "95%", "100.0%",
            "100%", "10 ns", "774 ns"}  # 774 ns: Q at 375 and at 435.2 GB/s
    first, second = (figures(show(k)) - spec for k in (0, 1))
    assert first and second and not first & second


# --- roofs ---------------------------------------------------------------------------------------

@pytest.fixture
def own(book):  # noqa: F811
    """Copies of five sizes, flat from 2 KiB a partition on, and a loop of 64 x 250 ns."""
    for elements, ns in ((256, 12_000), (512, 9000), (1024, 5200), (2048, 5000), (4096, 5100)):
        save(elements, ns)
    save_loop(64, 250)


def save(elements, ns, lnc=1, chip="trn2", **more):
    call = launches.launch(KERNELS.copy, ((128, 4096), "bf16"), elements=elements, lnc=lnc)
    of = timeline(issues=[(0, 10)], packets=[
        (100, ns - 100, {"engine": e, "nbytes": Q // 16}) for e in range(16)], end=ns)
    record(call, chip, of, read=Q // 2, written=Q // 2, active=ns - 200, **more)


def save_loop(n, each, chip="trn2", **more):
    call = launches.launch(KERNELS.resident_matmul, ((128, 128), "bf16"), ((128, 512), "bf16"),
                           repeat=n)
    of = timeline(packets=[(0, 1000)], matmuls=matmuls(n, each, 1000), end=1000 + n * each + 100)
    record(call, chip, of, read=4096, **more)


def test_without_recordings_there_is_no_measured_roof(book):  # noqa: F811
    assert roofs("trn2") == {}
    assert repr(roofs("trn2")) == ("no measured roof of trn2: no recording to take one from; run "
                                   "Day 4 on trn2 to make some")


@pytest.mark.usefixtures("own")
def test_the_best_copy_and_the_loop_are_measured_roofs():
    found = roofs("trn2")
    assert list(found) == ["HBM", "DMA", "bf16"]
    assert found["DMA"] == found["HBM"]  # each byte crosses both
    assert found["HBM"].value == pytest.approx(Q / 5000e-9)
    assert found["bf16"].value == pytest.approx(64 * ONE / (64 * 250e-9))
    assert {spec.kind for spec in found.values()} == {"measured"}
    assert found["HBM"].source.startswith("synthetic (test stand-in): trn2.made, LNC 1")
    # 5000 / 5200 = 0.96 of the best, 5000 / 9000 is not
    assert found["HBM"].holds == ("copy, 2.097 MB by the profiler's count over its total, 4 KiB a "
                                  "partition; flat from 2 KiB on")
    assert "resident_matmul, from the first matmul to the last" in found["bf16"].holds
    assert roofs("trn1") == {}


@pytest.mark.usefixtures("own")
def test_the_sheet_takes_measured_roofs_as_they_are():
    page = sheet.of("trn2", measured=roofs("trn2"))
    (bandwidth,), (peak,) = page["HBM"].recorded, page["bf16"].recorded
    assert page["DMA"].recorded == (bandwidth,)
    assert bandwidth.value == pytest.approx(Q / 5000e-9) and peak.value == pytest.approx(0.8 * PEAK)
    assert page["ridges.bf16"].recorded[0].value == pytest.approx(
        0.8 * PEAK / (Q / 5000e-9))


@pytest.mark.usefixtures("own")
def test_flagged_recordings_neighbours_and_pairs_are_no_roof():
    before = roofs("trn2")
    save(512, 500, flags=[Flag("implausible", "0.1 of the least time")])
    save(1024, 500, alongside=[1])
    save(2048, 500, lnc=2)
    save_loop(256, 150)  # 4/3 of the peak: the window is faster than possible
    save_loop(8, 200)  # 1.6 us are no roof
    found = roofs("trn2")
    assert found == before
    assert len(found.left_out) == 4  # that of LNC 2 is of another scope
    text = " ".join(repr(found).split())
    for said in ("flagged: implausible", "it had neighbours", "implausible: ",
                 "its loop lasts 1.6 us; a roof is of 10 us and more"):
        assert said in text
    assert roofs("trn2", "lnc2")["HBM"].value == pytest.approx(Q / 500e-9)


@pytest.mark.usefixtures("own")
def test_what_is_odd_about_a_roof_goes_with_it():
    save(2048, 4600, flags=[Flag("above spec", "455.9 GB/s"), Flag("overlap", "core 1")])
    found = roofs("trn2")
    assert found["HBM"].value == pytest.approx(Q / 4600e-9)
    assert found["HBM"].holds.endswith("; flagged: above spec, overlap")
    assert "flagged" not in found["bf16"].holds


def test_only_the_reasons_for_leaving_a_recording_out_are_told(book):  # noqa: F811
    save(2048, 500, flags=[Flag("unchecked", "no outputs"), Flag("cold", "first")])
    (book / "work/recorded" / "trn2-copy-cut").mkdir()
    (book / "work/recorded" / "trn1-copy-cut").mkdir()
    bad, flagged = roofs("trn2").left_out
    assert bad.startswith("trn2-copy-cut: no recording.json")
    assert flagged.endswith(": flagged: cold")


def test_a_kernel_that_goes_one_way_is_no_copy(book):  # noqa: F811
    for kernel, read, written in ((KERNELS.read, Q, 4096), (KERNELS.write, 0, Q),
                                  (KERNELS.copy, Q, Q / 2)):
        call = launches.launch(kernel, ((128, 4096), "bf16"))
        record(call, "trn2", timeline(packets=[(0, 900)], end=1000), read=read, written=written)
    found = roofs("trn2")
    assert found == {} and len(found.left_out) == 3
    assert all("a copy does as much of both" in text for text in found.left_out)


@pytest.mark.usefixtures("own")
def test_a_copy_whose_bytes_are_in_doubt_is_no_roof():
    before = roofs("trn2")
    text = "the profiler counted 2.097 MB at HBM, the source 1.049 MB"
    save(2048, 4000, flags=[Flag("bytes", text)])
    save_loop(64, 240, flags=[Flag("bytes", text)])  # of which the bytes are no part
    found = roofs("trn2")
    assert found["HBM"] == before["HBM"]
    (why,) = found.left_out
    assert why.endswith(f": bytes: {text}. A roof is of bytes that both agree on")
    assert found["bf16"].value == pytest.approx(PEAK * 200 / 240)
    assert found["bf16"].holds.endswith("; flagged: bytes")


def test_a_roof_a_little_above_the_array_says_so(book):  # noqa: F811
    save_loop(100, 199)  # 19.9 us for the work of 20 us
    (spec,) = roofs("trn2").values()
    assert spec.value == pytest.approx(PEAK * 200 / 199)
    assert "above spec: " in spec.holds and "19.9 us are 0.50% less" in spec.holds
    assert "usually the clock" in " ".join(repr(roofs("trn2")).split())
    save_loop(100, 200)
    assert "above spec" in roofs("trn2")["bf16"].holds  # the best one is shown, with what is odd


def test_roofs_know_their_sheet_and_name_recordings_of_the_other_scope(book):  # noqa: F811
    for elements in (512, 1024, 2048, 4096):
        save(elements, 5000, lnc=2)
    core, pair = roofs("trn2"), roofs("trn2", "lnc2")
    assert (core.chip, core.scope, pair.scope) == ("trn2", "core", "lnc2")
    assert core == {} and len(core.elsewhere) == 4 and pair.elsewhere == ()
    text = " ".join(repr(core).split())
    assert text.startswith("no measured roof of trn2: no recording")
    assert f"of LNC 2, so not here: {core.elsewhere[0]}, " in text
    assert "and 1 more; see roofs('trn2', 'lnc2')" in text
    assert "LNC" not in repr(pair).replace("made, LNC 2", "")  # its source is told, and no other
    with pytest.raises(MachineError, match="got those of trn2, lnc2"):
        sheet.of("trn2", measured=pair)
    with pytest.raises(MachineError, match="got those of trn2, core"):
        sheet.of("trn2", "lnc2", measured=core)
    assert sheet.of("trn2", "lnc2", measured=pair)["HBM"].recorded == (pair["HBM"],)
    save(2048, 5000)
    (name,) = roofs("trn2", "lnc2").elsewhere
    assert "see roofs('trn2', 'core')" in repr(roofs("trn2", "lnc2")) and name.startswith("trn2-")


def test_a_bad_folder_that_may_be_of_this_chip_is_told(book):  # noqa: F811
    save(2048, 5000)
    for name in ("mine", "trn1-copy-cut", "inf2-copy-cut", "trn20-copy"):
        (book / "work/recorded" / name).mkdir()
    assert sorted(why.partition(":")[0] for why in roofs("trn2").left_out) == ["mine", "trn20-copy"]
    assert "mine: no recording.json" in repr(roofs("trn2"))


def test_a_profile_of_a_simulation_stops_no_other(book):  # noqa: F811
    save(2048, 5000)
    made = record(COPY, "trn2", timeline(packets=[(0, 900)], end=1000), read=Q, written=Q)
    path = made.folder / "profile.json"
    said = json.loads(made.folder.joinpath("recording.json").read_text())
    modelled = replace(profiles.read(path), kind="modelled")
    path.unlink()  # a model takes the place of no measurement by itself
    profiles.write(modelled, path)
    said["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    made.folder.joinpath("recording.json").write_text(json.dumps(said))
    found = roofs("trn2")
    assert found["HBM"].value == pytest.approx(Q / 5000e-9)
    assert "it is of a simulation" in found.left_out[0]


@pytest.mark.usefixtures("own")
def test_another_recording_changes_the_roofs():
    before = roofs("trn2")
    save(2048, 4900)
    save_loop(64, 240)
    after = roofs("trn2")
    assert after["HBM"].value == pytest.approx(Q / 4900e-9)
    assert after["bf16"].value == pytest.approx(PEAK * 200 / 240)
    assert all(after[fact].value > before[fact].value for fact in before)
    assert not figures(repr(before)) & figures(repr(after)) - {"16 us"}


def test_one_size_alone_is_not_shown_to_be_flat(book):  # noqa: F811
    save(2048, 5000)
    assert roofs("trn2")["HBM"].holds.endswith("no other size recorded to show that it is flat")
    save(1024, 9000)
    assert roofs("trn2")["HBM"].holds.endswith("not flat in 2 sizes")
    save(1024, 8900)  # once more
    save(2048, 5100)
    assert roofs("trn2")["HBM"].holds.endswith("not flat in 2 sizes")


def test_one_size_recorded_twice_is_one_size(book):  # noqa: F811
    save(2048, 5000)
    save(2048, 5100)
    assert roofs("trn2")["HBM"].holds.endswith("no other size recorded to show that it is flat")


# --- what others published -----------------------------------------------------------------------

@pytest.mark.parametrize(("chip", "id", "way", "cores", "width", "rate"), [
    ("trn1", "C12", "read", 1, 1024, 208.0), ("trn1", "C13", "read", 1, 4096, 269.5),
    ("trn1", "C15", "read", 1, 32 * 1024, 271.1), ("trn1", "C17", "write", 1, 4096, 254.1),
    ("trn1", "C18", "write", 1, 16 * 1024, 274.4), ("trn1", "C01", "read", 1, 4096, 273.0),
    ("trn1", "C02", "write", 1, 16 * 1024, 274.8), ("inf2", "C07", "read", 2, 4096, 542.8),
    ("trn1", "C04", "write", 2, 16 * 1024, 537.2), ("trn1", "C19", "both", 1, None, 307.9),
    ("trn1", "C26", "read", 1, None, 1636.1), ("trn1", "M29", "both", 1, None, 263.1),
    ("trn1", "E02", "both", 1, None, 294.4), ("trn2", "E12", "both", 1, None, 413.2),
])
def test_published_rows_are_those_of_their_sources(chip, id, way, cores, width, rate):
    row = device.published(chip).row(id)
    assert (row.chip, row.way, row.cores, row.partition_bytes) == (chip, way, cores, width)
    assert round(row.bandwidth / 1e9, 1) == rate  # as measurements.csv has it
    assert f"{rate:.1f}" in next(line for line in repr(device.published(chip)).splitlines()
                                 if line.startswith(id))


def test_published_curves_are_of_one_core_and_of_widths_that_somebody_gave():
    read = device.published("trn1").curve("read")
    assert read.x == (1024, 4096, 4096, 32 * 1024)  # C12, C13 and C01, C15
    assert [round(rate / 1e9, 1) for rate in read.y] == [208.0, 269.5, 273.0, 271.1]
    write = device.published("trn1").curve("write")
    assert write.x == (4096, 16 * 1024, 16 * 1024)
    assert device.published("trn2").curve("read").x == ()


def test_what_is_not_used_says_why_and_the_impossible_is_flagged():
    row = device.published("trn1").row("C26")
    assert not row.usable and "submission was timed" in row.why_not
    assert [flag.name for flag in row.flags] == ["implausible"] and row.flags[0].excluded
    text = repr(device.published("trn1"))
    assert re.search(r"^C26 .* not used, implausible$", text, re.M)
    for one in device.published("trn1"):
        assert one.usable == (one.why_not == "")
    # 1 GiB in 656.3 us is 1636 GB/s; no usable row is near it
    assert device.published("trn1").best("read").id in ("C01", "C09")


def test_the_lone_core_is_derived_and_is_the_machine_s():
    lone = machine.get("trn2").facts["lone_core_bandwidth"]
    rows = {row.id: row for row in device.published("trn2")}
    assert {rows[id].kind for id in ("E07", "E08", "E12")} == {"derived"}
    assert rows["E12"].note == lone.holds
    assert rows["E12"].bandwidth == pytest.approx(lone.value, rel=1e-3)
    assert device.published("trn2").best().id == "E12"
    assert repr(device.published("trn2")).startswith("derived: by others")
    assert repr(device.published("trn1")).startswith("published: by others")


def test_published_rows_by_way_and_cores():
    found = device.published("trn1", "write", 1)
    assert {row.way for row in found} == {"write"} and {row.cores for row in found} == {1}
    assert found["C17"] is found.row("C17") and found[0].id == "C02"
    with pytest.raises(MeasureError, match="no row 'C13' here; there are: C02, "):
        found.row("C13")
    with pytest.raises(machine.MachineError):
        device.published("trn9")
    nothing = device.published("trn1", "sideways")
    assert len(nothing) == 0 and nothing.best() is None
    assert repr(nothing) == "nothing is published of trn1 here that this course knows"
    assert repr(device.published("trn3")).startswith("nothing is published of trn3")


def test_a_published_row_says_its_conditions():
    text = repr(device.published("trn1").row("C20"))
    for said in ("C20, published: pantheongpu", "prefetch depth 4", "clock: wall, long run",
                 "264.9 GB/s", "(4 KiB)", "without prefetch: 262.6 GB/s", "depth 2: 265.2 GB/s"):
        assert said in text
    known = set(literature.table.rows())
    assert set(literature.BESIDE) <= known


def test_models_of_published_reads_stand_beside_them():
    """The page's comparison: the same width, the model's curve and the published points."""
    call = launches.launch(KERNELS.read, ((128, 2**16), "bf16"), elements=512)
    found = sweep([call], "trn1")
    assert found.kinds == ("modelled",)
    assert found.curves()["modelled"].x == (device.published("trn1").row("C12").partition_bytes,)


def test_shuffled_measurements_have_the_same_intervals():
    points = [spaced(n, max(n, 64) // 2) for n in (16, 64, 128, 256)]
    again = random.Random(1).sample(points, len(points))
    assert repr(intervals(points)) == repr(intervals(again))
