"""Measurements: a recording, a capture or the model, never mixed; sweeps that keep what they have.

Profiles are made by hand: 16 DMA engines move packets of 4 KiB, so every time is arithmetic.
"""

import re
from dataclasses import replace

import pytest
from pages import ROOT
from recordings import book, on_trn2, record  # noqa: F401  (fixtures)
from timelines import timeline

from roofline import device, machine, neuroncore, nki
from roofline.device import launches, measuring, runner, store
from roofline.device.measuring import MeasureError, Sweep, measure, sweep
from roofline.device.plausibility import Flag
from roofline.device.sharing import Together, together
from roofline.table import WIDTH

pytestmark = pytest.mark.usefixtures("book")
KERNELS = nki.load(ROOT / "day4" / "kernels.py")
X = ((128, 4096), "bf16")
BYTES = 2 * 128 * 4096 * 2  # there and back
MODEL = "modelled: the course's cost model of {}, not a measurement"


def copy(elements=512, x=X, **more):
    return launches.launch(KERNELS.copy, x, elements=elements, **more)


def moving(ns, start=1000, end=500):
    """A copy that moves for `ns`, after `start` and before `end`."""
    packets = [(start, start + ns, {"engine": e, "nbytes": BYTES // 16}) for e in range(16)]
    return timeline(issues=[(start - 10, start)], packets=packets, end=start + ns + end)


def save(call, ns, on="trn2", start=1000, end=500, **more):
    return record(call, on, moving(ns, start, end), read=BYTES // 2, written=BYTES // 2, active=ns,
                  **more)


# --- one -----------------------------------------------------------------------------------------

def test_without_a_device_or_a_recording_it_is_the_model_and_says_so():
    call = copy()
    found = measure(call, "trn1")
    predicted = neuroncore.predict(call.counted("trn1"), buffers=None)
    assert found.kind == "modelled" and found.label == MODEL.format("trn1")
    assert found.time == pytest.approx(predicted.time / 1e9)
    assert found.count.hbm_bytes == BYTES
    assert found.bandwidth == pytest.approx(BYTES / (predicted.time / 1e9))
    assert repr(found).startswith(MODEL.format("trn1") + "\n  copy elements=512\n")
    assert "the model's total" in repr(found) and "profiler" not in repr(found)


def test_a_recording_of_the_very_call_comes_first():
    save(copy(), 3500, synthetic=False)
    found = measure(copy(), "trn2")
    assert found.kind == "measured"
    assert found.label == "measured on trn2.made, LNC 1, NKI 0.6.0, 2026-08-21"
    assert found.time == pytest.approx((1000 + 3500 + 500) / 1e9)
    assert found.bandwidth == pytest.approx(BYTES / 5000e-9)  # 419 GB/s
    assert found.active_bandwidth == pytest.approx(BYTES / 3500e-9)
    text = repr(found)
    assert "the profiler's total" in text
    # 419.43 / 375 and / 368
    for line in (r"419\.4 GB/s +Q / time", r"111\.8% +of HBM, 375 GB/s \(derived\), so above it",
                 r"114\.0% +of DMA, 368 GB/s \(derived\), so above it"):
        assert re.search(f" {line}\n", text)
    assert "599.2 GB/s  Q / 3.5 us" in text
    # another size, chip, number of cores: not of this call
    for other, chip in ((copy(1024), "trn2"), (copy(), "trn1"), (copy(lnc=2), "trn2")):
        assert measure(other, chip).kind == "modelled"


def test_what_the_tests_stand_in_recorded_says_so():
    save(copy(), 3500)
    assert measure(copy(), "trn2").label.startswith("synthetic (test stand-in): trn2.made")


def test_one_s_own_recordings_stay_out_where_asked(monkeypatch):
    save(copy(), 3500)
    monkeypatch.setenv("ROOFLINE_RECORDED", "1")
    assert measure(copy(), "trn2").kind == "modelled"


@pytest.mark.usefixtures("on_trn2")
def test_on_such_a_chip_it_is_captured_once(monkeypatch, capsys):
    calls = []

    def capture(call):
        calls.append(call.title)
        return save(call, 3500)

    monkeypatch.setattr(runner, "capture_launch", capture)
    assert [measure(copy(), "trn2").kind for _ in range(2)] == ["measured"] * 2
    assert calls == ["copy elements=512"]
    assert capsys.readouterr().out == ("capturing copy elements=512 of 128x4096 bfloat16 on this "
                                       "trn2\n")
    assert measure(copy(), "trn1").kind == "modelled"  # another chip than the one here
    assert len(calls) == 1


def test_an_unflagged_recording_comes_before_a_newer_one_that_is_flagged():
    save(copy(), 3500)
    flag = Flag("implausible", "too fast")
    save(copy(), 100, flags=[flag])
    assert measure(copy(), "trn2").time == pytest.approx(5000e-9)
    only = copy(1024)
    save(only, 100, flags=[flag])
    found = measure(only, "trn2")
    assert found.excluded and found.flags == ("implausible: too fast",)
    again = "device.capture makes a new recording"
    assert f"flag: implausible: too fast\n  in no roof or fit; {again}" in repr(found)
    assert f"\nin no fit: flagged; {again}" in repr(sweep([only, copy()], "trn2"))
    assert again not in repr(sweep([copy()], "trn2"))


def test_a_profile_that_does_not_tell_the_dma_s_time_leaves_that_unknown():
    record(copy(), "trn2", moving(3500), read=BYTES // 2, written=BYTES // 2)
    found = measure(copy(), "trn2")
    assert found.active_time is None and found.active_bandwidth is None
    assert "while active  unknown" in repr(found)
    assert re.search(r"419\.4 +unknown", repr(sweep([copy()], "trn2")))


def test_recorded_gives_the_profile_or_says_why_not(capsys):
    assert device.recorded(copy(), "trn2") == "none yet" and not capsys.readouterr().out
    save(copy(), 100, flags=[Flag("cold", "first execution"), Flag("unchecked", "no outputs")])
    assert device.recorded(copy(), "trn2") == "flagged"
    said = capsys.readouterr().out
    assert "cold: first execution; device.capture makes a new recording" in said
    assert "unchecked" not in said  # that leaves nothing out
    save(copy(), 3500)
    assert device.recorded(copy(), "trn2").needs("total_time") == pytest.approx(5000e-9)
    assert device.recorded(copy(), "trn1") == "none yet"


@pytest.mark.usefixtures("on_trn2")
def test_a_page_goes_on_after_a_capture_that_failed(monkeypatch, capsys):
    def failing(call):
        raise runner.CaptureError("copy: the core is held by process 7. End it")
    monkeypatch.setattr(runner, "capture_launch", failing)
    assert device.recorded(copy(), "trn2") == "failed"
    assert "held by process 7. End it" in capsys.readouterr().out


def test_a_page_is_about_the_chip_here_else_of_the_newest_recording(monkeypatch):
    assert device.chip_here("inf2") == "inf2"
    save(copy(), 3500)
    assert device.chip_here("trn1") == "trn2"
    here = measuring.probe()
    for found, about in (("trn1", "trn1"), ("inf1", "trn2")):  # the course has no inf1
        monkeypatch.setattr(measuring, "probe", lambda found=found: replace(here, chip=found))
        assert device.chip_here("inf2") == about


@pytest.mark.usefixtures("on_trn2")
def test_on_such_a_chip_recorded_captures(monkeypatch):
    monkeypatch.setattr(runner, "capture_launch", lambda call: save(call, 3500))
    assert device.recorded(copy(), "trn2").needs("total_time") == pytest.approx(5000e-9)
    monkeypatch.setattr(runner, "capture_launch", None)  # the second time it is there
    assert device.recorded(copy(), "trn2").needs("total_time") == pytest.approx(5000e-9)
    assert device.recorded(copy(), "trn1") == "none yet"


def test_errors_are_one_line_to_a_reader():
    with pytest.raises(MeasureError, match="chip: got 'trn9'; expected one of trn1, inf2, trn2"
                       ) as caught:
        measure(copy(), "trn9")
    assert caught.value._render_traceback_() == [f"MeasureError: {caught.value}"]
    with pytest.raises(MeasureError, match="chip: got"):
        sweep([copy()], "TRN2")


# --- several -------------------------------------------------------------------------------------

SIZES = (64, 128, 256, 512, 1024)


def test_a_table_has_the_same_columns_whoever_s_figures_they_are():
    modelled = repr(sweep([copy(n) for n in SIZES], "trn2")).splitlines()
    for n in SIZES:
        save(copy(n), 3500, synthetic=False)
    measured = repr(sweep([copy(n) for n in SIZES], "trn2")).splitlines()
    assert modelled[0] == MODEL.format("trn2")
    assert measured[0] == "measured on trn2.made, LNC 1, NKI 0.6.0, 2026-08-21"

    def columns(line):
        return re.split(r" {2,}", line)

    assert columns(modelled[1]) == columns(measured[1]) == [
        "point", "kind", "time", "GB/s total", "GB/s while DMA is active", "notes"]
    assert [columns(line)[:2] for line in measured[2:]] == [
        [f"elements={n}", "measured"] for n in SIZES]
    assert [columns(line)[1] for line in modelled[2:]] == ["modelled"] * len(SIZES)


def test_each_point_is_what_its_profile_says():
    for i, n in enumerate(SIZES):
        save(copy(n), 10_000 - 1000 * i)
    found = sweep([copy(n) for n in reversed(SIZES)], "trn2")
    assert [p.launch.parameters["elements"] for p in found] == list(reversed(SIZES))
    (x, y), = found.curves().values()
    assert x == tuple(2 * n for n in SIZES)  # bf16
    assert y == pytest.approx([BYTES / ((1500 + 10_000 - 1000 * i) / 1e9) for i in range(5)])
    active = found.curves("elements", "active_bandwidth")["measured"]
    assert active.x == SIZES
    assert active.y == pytest.approx([BYTES / ((10_000 - 1000 * i) / 1e9) for i in range(5)])
    assert found.curves("partitions", "time")["measured"].x == (128,) * 5  # the kernel's default


def test_kinds_are_never_one_series():
    save(copy(64), 10_000)
    save(copy(1024), 5000)
    found = sweep([copy(n) for n in SIZES], "trn2")
    assert found.kinds == ("measured", "modelled")
    assert {kind: curve.x for kind, curve in found.curves().items()} == {
        "measured": (128, 2048), "modelled": (256, 512, 1024)}
    lines = repr(found).splitlines()
    assert lines[0].startswith("synthetic") and lines[1] == MODEL.format("trn2")
    assert "kind" in lines[2]
    knee = found.knee()
    assert knee.kind == "measured" and knee.sizes == (128, 2048)
    assert "3 of another kind and left out" in repr(knee)
    assert found.knee(kind="modelled").sizes == (256, 512, 1024)


def test_one_core_and_a_pair_are_never_one_series():
    for n in SIZES[:2]:
        save(copy(n), 8500)
        save(copy(n, lnc=2), 3500)
    calls = [copy(n, lnc=lnc) for lnc in (1, 2) for n in (*SIZES[:2], 500)]  # 500 does not fit
    found = sweep(calls, "trn2")
    said = r"points 2 of LNC 1, 2 of LNC 2: .* Take sweep.only\(lnc=1\) or sweep.only\(lnc=2\)"
    for read in (found.curves, found.flagged, found.knee, lambda: found.knee(kind="measured"),
                 lambda: found.curves(lambda call: call.lnc)):
        with pytest.raises(MeasureError, match=said):
            read()
    assert "LNC 1" in repr(found) and "LNC 2" in repr(found)  # the table has both
    for lnc, ns in ((1, 10_000), (2, 5000)):
        alone = found.only(lnc=lnc)
        assert alone.curves("elements", "time")["measured"].x == SIZES[:2]
        assert alone.curves("elements", "time")["measured"].y == pytest.approx([ns / 1e9] * 2)
        assert [call.lnc for call, _ in alone.failures] == [lnc]
        assert alone.knee().plateau == pytest.approx(alone[0].bandwidth)
        assert not found.only("modelled", lnc=lnc).points


def test_no_curve_and_no_knee_is_of_two_kernels():
    both = sweep([copy(), launches.launch(KERNELS.read, X, elements=512)], "trn2")
    for reading in (both.curves, both.flagged, both.knee):
        with pytest.raises(MeasureError, match="points of copy, read: a curve is of one kernel"):
            reading()
    assert "copy" in repr(both) and "read" in repr(both)  # the table has both


def test_a_sweep_that_was_stopped_keeps_what_is_left_of_its_lnc():
    left = Sweep((), left=(copy(), copy(lnc=2))).only(lnc=2).left
    assert [call.lnc for call in left] == [2]


def test_a_flagged_point_is_shown_and_said_and_in_no_fit():
    for n in SIZES[:-1]:
        save(copy(n), 5000)
    save(copy(SIZES[-1]), 100, flags=[Flag("implausible", "0.1 of the least time")])
    found = sweep([copy(n) for n in SIZES], "trn2")
    assert found.curves()["measured"].x == tuple(2 * n for n in SIZES[:-1])
    assert found.flagged()["measured"].x == (2 * SIZES[-1],)
    text = repr(found)
    assert re.search(r"elements=1024 +measured .*implausible: in no fit$", text, re.M)
    assert "elements=1024: implausible: 0.1 of the least time" in text
    knee = found.knee()
    assert knee.plateau == pytest.approx(BYTES / 6500e-9)
    assert "1 flagged and left out" in repr(knee)
    assert max(map(len, text.splitlines())) <= 110


def test_a_figure_above_spec_stays_in_and_is_said():
    save(copy(), 3500, flags=[Flag("above spec", "check the input")])
    found = sweep([copy()], "trn2")
    assert found.curves()["measured"].x == (1024,) and not found.flagged()
    assert re.search(r"above spec$", repr(found), re.M)
    assert "above spec: check the input" in repr(found)


@pytest.mark.usefixtures("on_trn2")
def test_a_sweep_keeps_what_it_has_and_goes_on_from_there(monkeypatch):
    captured, trouble = [], {256: runner.CaptureError("copy: the compiler said no"),
                             512: KeyboardInterrupt()}

    def capture(call):
        n = call.parameters["elements"]
        captured.append(n)
        if n in trouble:
            raise trouble[n]
        return save(call, 10 * n)

    monkeypatch.setattr(runner, "capture_launch", capture)
    calls = [copy(n) for n in SIZES]
    first = sweep(calls, "trn2")
    assert captured == [64, 128, 256, 512]  # stopped there
    assert [p.launch.parameters["elements"] for p in first] == [64, 128]
    assert [(c.parameters["elements"], text) for c, text in first.failures] == [
        (256, "CaptureError: copy: the compiler said no")]
    assert [c.parameters["elements"] for c in first.left] == [512, 1024]
    text = repr(first)
    assert re.search(r"elements=256 +failed +see below", text)
    assert "elements=256: CaptureError: copy: the compiler said no" in text
    assert re.search(r"elements=512 +not reached +stopped", text)
    assert "1 failed" in repr(first.knee()) and "2 not reached" in repr(first.knee())

    trouble.clear()
    captured.clear()
    again = sweep(calls, "trn2")
    assert captured == [256, 512, 1024]  # the others were there
    assert len(again) == 5 and not again.failures and not again.left
    assert [p.time for p in again] == pytest.approx([(1500 + 10 * n) / 1e9 for n in SIZES])
    captured.clear()
    assert [p.time for p in sweep(calls, "trn2")] == [p.time for p in again] and not captured


def test_a_launch_that_does_not_fit_stops_nothing():
    found = sweep([copy(512), copy(500), copy(1024)], "trn2")  # 524,288 = 8.19 x 128 x 500
    assert [p.launch.parameters["elements"] for p in found] == [512, 1024]
    (call, text), = found.failures
    assert call.parameters["elements"] == 500 and "whole transfers" in text
    assert "elements=500" in repr(found) and "whole transfers" in repr(found)


def test_points_are_named_by_what_sets_them_apart():
    def first_column(*calls):
        return [re.split(r" {2,}", line)[0] for line in repr(sweep(calls, "trn2")).splitlines()[2:]]

    assert first_column(copy(64), copy(128, partitions=64)) == [
        "elements=64 partitions=128", "elements=128 partitions=64"]
    assert first_column(copy(512), launches.launch(KERNELS.read, X, elements=512)) == [
        "copy", "read"]
    matmul = [launches.launch(KERNELS.moving_sweep, ((128, 128), "bf16"), ((128, n), "bf16"), n=8)
              for n in (64, 128)]
    assert first_column(*matmul) == ["b [128, 64] bfloat16", "b [128, 128] bfloat16"]
    assert first_column(copy(512)) == ["copy elements=512"]
    assert first_column(copy(512), copy(512, lnc=2)) == ["LNC 1", "LNC 2"]
    assert "FLOP/s" in repr(sweep(matmul, "trn2")).splitlines()[1]


def test_the_x_of_a_point():
    wide = launches.launch(KERNELS.copy, ((128, 4096), "float32"), elements=512)
    assert measuring.value_of(wide, "bytes per partition") == 2048
    assert measuring.value_of(wide, "partitions") == 128
    assert measuring.value_of(wide, lambda call: call.lnc) == 1
    with pytest.raises(MeasureError, match=r"no 'depth'; expected .*elements, partitions, queues"):
        measuring.value_of(wide, "depth")
    with pytest.raises(MeasureError, match="y 'speed'; expected bandwidth"):
        sweep([wide], "trn2").curves(y="speed")
    with pytest.raises(MeasureError, match="a knee is of a rate"):
        sweep([wide], "trn2").knee(y="time")


def test_an_empty_sweep_has_no_figures():
    assert repr(Sweep(())).startswith("no point") and not Sweep(()).curves()
    assert Sweep(()).knee().verdict == "No point to find a knee with."
    assert repr(Sweep(()).knee()).startswith("No point")  # of no kind
    two = sweep([copy(512), copy(1024)], "trn2")
    assert isinstance(two[:1], Sweep) and len(two[:1]) == 1 and two[0].launch is two[:1][0].launch


# --- alone, and together -------------------------------------------------------------------------

def beside(call, core, others, ns, **more):
    return save(call, ns, cores=[core], alongside=list(others), **more)


def of(alone, *each, chip="trn2", lnc=1, cores=None):
    """Alone and together, of these ns in all; the copy's Q is 2,097,152 B."""
    call, cores = copy(lnc=lnc), range(len(each)) if cores is None else cores
    save(call, alone - 1500, on=chip)
    for core, ns in zip(cores, each, strict=True):
        beside(call, core, set(cores) - {core}, ns - 1500, on=chip)
    return together(call, chip, cores if each else None)


@pytest.mark.parametrize(("chip", "cores", "sharing", "said"), [
    ("trn2", (0, 1), 2, "4 HBM stacks a device, 2 cores share one"),
    ("trn1", (0, 1), 1, "2 HBM stacks a device, one core each: no other core shares it"),
    ("inf2", (0, 1), 1, "2 HBM stacks a device, one core each: no other core shares it"),
])
def test_which_cores_share_the_memory(chip, cores, sharing, said):
    found = together(copy(), chip)
    assert (found.cores, found.sharing) == (cores, sharing)
    assert said in repr(found)
    assert found.share == machine.get(chip, "core").bandwidths["HBM"]


def test_the_model_knows_one_core_and_the_rest_is_not_measured():
    found = together(copy(), "trn2")
    assert found.alone.kind == "modelled" and not found.each
    assert (found.even, found.slowdown, found.total) == (None, None, None)
    assert "all at once: not measured" in repr(found)
    assert repr(found).startswith(MODEL.format("trn2"))
    assert "All 2" not in found.verdict
    assert found.verdict.startswith("Alone (modelled)") and found.verdict.endswith(
        "a model's figure, which says nothing of the split.")


def test_alone_more_than_the_share_and_an_even_split():
    found = of(5000, 6000, 6100)  # 419.4, 349.5, 343.8 GB/s; the share is 375
    assert found.rates == pytest.approx((BYTES / 6000e-9, BYTES / 6100e-9))
    assert found.even is True  # 6100 / 6000 = 1.017
    assert found.slowdown == pytest.approx(BYTES / 5000e-9 / ((BYTES / 6000e-9
                                                                + BYTES / 6100e-9) / 2))
    verdict = found.verdict
    assert "419.4 GB/s, 1.12 of its even share 375 GB/s (derived): more, so" in verdict
    assert "343.8 GB/s to 349.5 GB/s" in verdict and "the split is even" in verdict
    assert "Alone is 1.21 x that average: the others take something of it." in verdict
    lines = repr(found).splitlines()
    assert re.search(r"^0, all run +measured +6 us +349\.5 +0\.83$", repr(found), re.M)
    assert re.search(r"^sum +693\.3$", repr(found), re.M)  # 349.5 + 343.8
    assert any("rule: even: all at once lie within 5%" in line for line in lines)


def test_alone_no_more_than_the_share_and_nobody_takes_anything():
    found = of(8000, 8000, 8100)  # 262.1, 262.1, 258.9 GB/s
    assert "0.70 of its even share 375 GB/s (derived): no more" in found.verdict
    assert "it does not reach its share, so it cannot tell whether there is more" in found.verdict
    # 262.1 + 258.9 = 521 of 750 GB/s, and 262.1 / 260.5 = 1.006
    assert found.tested is False and "the split was not put to the test" in found.verdict
    assert "the others take nothing of it" in found.verdict and found.even is True


def test_cores_that_get_what_their_stack_gives_test_the_split():
    found = of(5700, 5700, 5750)  # 367.9 + 364.7 = 732.6 GB/s of 750, none slower than alone
    assert found.tested and "the split is even" in found.verdict
    assert "no more, so the per-core figure is not pessimistic" in found.verdict


def test_cores_with_a_memory_of_their_own_split_nothing():
    found = of(8000, 8000, 8100, chip="trn1")
    assert "they share no stack and are even" in found.verdict and "split" not in found.verdict


def test_logical_cores_of_two_have_a_stack_each():
    found = together(copy(lnc=2), "trn2")
    # 8 cores / 2; each two share a stack and are one logical core, so no stack is shared
    assert (found.cores, found.sharing, found.shared) == ((0, 1, 2, 3), 1, False)
    assert found.share.value == 2 * 375e9 and found.share == machine.get(
        "trn2", "lnc2").bandwidths["HBM"]
    assert ("4 HBM stacks a device, one logical core each: no other logical core shares it "
            "(documented); logical cores 0, 1, 2, 3") in " ".join(repr(found).split())
    with pytest.raises(MeasureError, match=r"such as \(0, 1, 2, 3\)"):
        together(copy(lnc=2), "trn2", [0])


def test_what_logical_cores_get_is_set_against_the_share_of_two():
    found = of(5000, 5750, 5900, lnc=2)  # 419.4, 364.7, 355.4 GB/s; the share is 750
    verdict = found.verdict
    assert ("Alone (measured) one logical core gets 419.4 GB/s, 0.56 of its even share 750 GB/s "
            "(derived): no more, and it does not reach its share") in verdict
    # (364.7 + 355.4) / 2 = 360.1 of 750 = 0.48; 5900 / 5750 = 1.026
    assert "0.48 of that share on average: they share no stack and are even." in verdict
    assert "split" not in verdict and "one-core" not in repr(found)
    fast = of(2600, 2700, 2700, lnc=2, cores=[1, 2])  # 2,097,152 B / 2600 ns = 806.6 GB/s
    assert ("1.08 of its even share 750 GB/s (derived): more, so the figure per logical core is "
            "pessimistic for kernels on one logical core") in fast.verdict


@pytest.mark.parametrize(("cores", "ns", "stacks", "tested"), [
    ((0, 1), 6000, 1, False),        # 2 x 349.5 = 699 of 750 GB/s
    ((0, 1), 5700, 1, True),         # 2 x 367.9 = 736
    ((4, 5), 5700, 1, True),
    ((0, 2), 5700, 2, False),        # 736 of 1500: one of each stack's two is idle
    ((0, 1, 2, 3), 10_000, 2, False),  # 4 x 209.7 = 839 of 1500
    ((0, 1, 2, 3), 5700, 2, True),   # 4 x 367.9 = 1472
])
def test_whether_a_stack_gave_all_is_asked_of_the_stacks_of_these_cores(cores, ns, stacks, tested):
    found = of(ns, *[ns] * len(cores), cores=cores)
    shared = len(cores) > stacks
    assert (found.stacks, found.shared, found.tested) == (stacks, shared, tested)
    assert ("they share no stack and are even" in found.verdict) is not shared
    assert ("the split is even" in found.verdict) is (shared and tested)
    assert (f"cores {', '.join(map(str, cores))}, on different stacks"
            in " ".join(repr(found).split())) is not shared


@pytest.mark.parametrize("cores", [(0, 1, 2), (1, 2, 3, 4, 5)])
def test_a_core_with_a_stack_of_its_own_is_no_equal_of_those_that_share(cores):
    with pytest.raises(MeasureError, match=r"of stack 0: .*; of stack 1: .*as many of each stack"):
        together(copy(), "trn2", cores)
    assert together(copy(), "trn1", [0, 1]).cores == (0, 1)


def test_a_split_that_is_not_even():
    found = of(5000, 5000, 10_000)
    assert found.even is False and "the split is not even" in found.verdict


@pytest.mark.parametrize("chip", ["trn1", "inf2", "trn2"])
def test_no_line_is_wider_than_a_page(chip):
    odd = [Flag("above spec", "a few words " * 12)]
    save(copy(), 3500, on=chip, flags=odd)
    shown = [measure(copy(), chip), measure(copy(1024), chip), sweep([copy(), copy(1024)], chip),
             together(copy(), chip), of(5000, 6000, 6100, chip=chip), device.published(chip),
             *device.published(chip), device.roofs(chip), sweep([copy(256), copy()], chip).knee()]
    if chip == "trn2":
        shown += [together(copy(lnc=2), chip), of(2600, 2700, 2700, lnc=2, cores=[1, 2])]
    for one in shown:
        assert max(map(len, repr(one).splitlines())) <= WIDTH, one


def test_two_recordings_give_two_texts():
    texts = []
    for alone, *each in ((5000, 6000, 6100), (8000, 8500, 9900)):
        for folder in store.folders():
            for file in folder.iterdir():
                file.unlink()
        texts.append(repr(of(alone, *each)))
    assert texts[0].splitlines()[1] == texts[1].splitlines()[1]  # the call and the cores
    first, other = (re.findall(r"\d+\.\d+ (?:GB/s|of|x)", " ".join(text.split()))
                    for text in texts)
    assert len(first) == len(other) == 6 and not set(first) & set(other)


def test_a_flagged_core_shows_nothing_of_the_split():
    save(copy(), 3500)
    beside(copy(), 0, {1}, 4500)
    beside(copy(), 1, {0}, 100, flags=[Flag("implausible", "too fast")])
    found = together(copy(), "trn2", [0, 1])
    assert found.verdict == ("It shows nothing of the split: a figure is flagged (1, all run: "
                             "implausible: too fast). Measure again.")
    assert re.search(r"^1, all run .*implausible: in no fit$", repr(found), re.M)


def test_the_flag_that_leaves_a_figure_out_is_the_one_that_is_told():
    save(copy(), 3500, flags=[Flag("bytes", "other bytes"), Flag("cold", "first execution")])
    for core in (0, 1):
        beside(copy(), core, {1 - core}, 4500, flags=[Flag("unchecked", "no outputs found")])
    found = together(copy(), "trn2")
    assert found.doubted == ("alone: cold: first execution",)
    assert "flagged (alone: cold: first execution)" in found.verdict
    for flag in ("alone: bytes: other bytes", "1, all run: unchecked: no outputs found"):
        assert flag in repr(found)  # shown all the same


def test_cores_that_may_not_have_run_together_show_nothing_of_the_split():
    save(copy(), 3500)
    beside(copy(), 0, {1}, 4500)
    beside(copy(), 1, {0}, 4500, flags=[Flag("overlap", "core 0: no execution of it was counted")])
    found = together(copy(), "trn2", [0, 1])
    assert found.verdict.endswith("pessimistic for one-core kernels. All at once shows nothing: it "
                                  "is not known that they ran at the same time (overlap: core 0: "
                                  "no execution of it was counted). Measure again.")


def test_a_modelled_core_is_not_compared_with_measured_ones():
    for core in (0, 1):
        beside(copy(), core, {1 - core}, 4500)
    found = together(copy(), "trn2", [0, 1])
    assert found.slowdown is None and found.verdict.endswith("Alone is modelled, so it is not "
                                                             "compared.")
    assert re.search(r"^0, all run +measured +6 us +349\.5 +-$", repr(found), re.M)
    assert re.search(r"^alone +modelled .* 1\.00$", repr(found), re.M)


def test_a_core_with_neighbours_is_no_measurement_of_a_core_alone():
    beside(copy(), 0, {1}, 4500)
    assert measure(copy(), "trn2").kind == "modelled"
    assert not together(copy(), "trn2").each  # core 1 is missing


def test_what_there_is_of_some_cores_is_shown_and_the_others_are_named():
    save(copy(), 3500)
    beside(copy(), 0, {1}, 4500, flags=[Flag("cold", "first execution")])
    found = together(copy(), "trn2")
    assert (found.each, found.total, found.even) == ({}, None, None)
    assert {core: one.time for core, one in found.some.items()} == {0: pytest.approx(6000e-9)}
    text = " ".join(repr(found).split())
    assert ("all at once: not complete: while all run there is a recording of core 0, none of 1; "
            "there is no trn2 to measure it on, and the cost model knows one core at a time"
            ) in text
    assert "there is no recording of it" not in text and "0, all run: cold: first exec" in text
    assert re.search(r"^0, all run +measured +6 us +349\.5 +0\.83", repr(found), re.M)
    assert not found.doubted and "All" not in found.verdict and "sum" not in text
    beside(copy(), 1, {0}, 4500)
    found = together(copy(), "trn2")
    assert tuple(found.each) == (0, 1) and not found.some and not found.why


@pytest.mark.usefixtures("on_trn2")
def test_a_core_that_was_finished_before_another_failed_is_kept_and_shown(monkeypatch):
    def breaks(call, cores):
        beside(call, 0, {1}, 4500)
        raise runner.CaptureError("copy: core 1 is held by process 7")

    monkeypatch.setattr(runner, "capture_launch", lambda call: save(call, 3500))
    monkeypatch.setattr(runner, "capture_together", breaks)
    found = together(copy(), "trn2")
    assert not found.each and tuple(found.some) == (0,)
    assert found.why == (
        "not complete: while all run there is a recording of core 0, none of 1. What is recorded "
        "is kept; run it again to capture each of them again. What went wrong: copy: core 1 is "
        "held by process 7")
    monkeypatch.setattr(runner, "capture_together", lambda call, cores: [
        beside(call, core, set(cores) - {core}, 4600) for core in cores])
    found = together(copy(), "trn2")  # run again
    assert [one.time for one in found.each.values()] == pytest.approx([6100e-9] * 2)


@pytest.mark.usefixtures("on_trn2")
def test_together_is_captured_on_the_chip_and_a_failure_keeps_the_core_alone(monkeypatch):
    def no(call, cores):
        raise runner.CaptureError("copy: core 1 is held by process 7")

    monkeypatch.setattr(runner, "capture_launch", lambda call: save(call, 3500))
    monkeypatch.setattr(runner, "capture_together", no)
    found = together(copy(), "trn2")
    assert found.alone.kind == "measured" and not found.each
    assert "all at once: not measured: copy: core 1 is held by process 7" in repr(found)

    monkeypatch.setattr(runner, "capture_together", lambda call, cores: [
        beside(call, core, set(cores) - {core}, 4500 + 100 * core) for core in cores])
    found = together(copy(), "trn2")
    assert {core: one.time for core, one in found.each.items()} == {
        0: pytest.approx(6000e-9), 1: pytest.approx(6100e-9)}
    monkeypatch.setattr(runner, "capture_together", no)
    assert isinstance(together(copy(), "trn2"), Together) and together(copy(), "trn2").each


@pytest.mark.parametrize("cores", [[0], [1, 1], []])
def test_together_takes_two_cores_or_more(cores):
    with pytest.raises(MeasureError, match=r"expected two or more different ones, such as \(0, 1"):
        together(copy(), "trn2", cores)


def test_a_model_and_a_measurement_say_nothing_of_each_other():
    call = copy()
    made = measure(call, "trn1")
    assert made.kind == "modelled" and device.kinds(made, made) == "modelled"
    assert device.unlike(made, made) == device.unlike(made) == ""
    profile = replace(made.profile, kind="measured")
    seen = replace(made, profile=profile)
    assert device.kinds(made, seen) == "measured and modelled" and device.kinds(seen) == "measured"
    assert " ".join(device.unlike(seen, made).split()) == (
        "not compared: copy elements=512 is measured (trn1), copy elements=512 is modelled (trn1). "
        "Record all of them on one chip")
    assert "(trn2)" in device.unlike(made, measure(call, "trn2"))
    assert max(map(len, device.unlike(seen, made, seen, made).splitlines())) <= WIDTH
