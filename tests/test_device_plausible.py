"""device.plausibility: times that cannot be, times above the sheet, and all the others.

    bytes at HBM / (16 x 27.2 GB/s a core)  <=  T   else implausible
    bytes at HBM / min(HBM share, DMA roof) <=  T   else above spec
    W / (128 x 128 x 2 x clock)             <=  T   else above spec, up to 1 % below it
                                                    else implausible

Figures of machines stand here as the documents print them, so that a wrong one there shows.
"""

import json
import math
import re
from dataclasses import replace

import pytest
import timelines
from pages import ROOT

from roofline import machine, nki, profile
from roofline.count import Count
from roofline.device import plausibility
from roofline.device.plausibility import Flag, Flags, excluded, plausible, plausible_time
from roofline.machine import MachineError
from roofline.profile import ProfileError
from roofline.profile.facts import UNSURE

COPY = Count({}, 64 * 2**20, 64 * 2**20)  # 64 MiB in, 64 MiB out
Q = 134_217_728
MOST = 16 * 27.2e9  # B/s: 16 DMA engines at the largest documented figure
TICK = 1e-9
P = {"trn1": 128 * 128 * 2 * 2.8e9, "inf2": 128 * 128 * 2 * 2.8e9, "trn2": 128 * 128 * 2 * 2.4e9}
# Per core: HBM share, and 16 engines at the DMA pages' rate.
HBM = {"trn1": 820e9 / 2, "inf2": 820e9 / 2, "trn2": 3e12 / 8}
DMA = {"trn1": 16 * 17e9, "inf2": 16 * 17e9, "trn2": 16 * 23e9}


def names(flags):
    return [flag.name for flag in flags]


def made(seconds, cores=1, **more):
    """A profile whose first `cores` cores each worked, of this total time."""
    rows = [(0, 100, {"core": core}) for core in range(cores)]
    return timelines.profile(timelines.timeline(packets=rows, cores=cores), seconds * 1e9, **more)


# --- bytes ----------------------------------------------------------------------------------------


def test_the_worked_example_is_134217728_bytes():
    assert COPY.hbm_bytes == Q == 2 * 64 * 1024 * 1024


@pytest.mark.parametrize("chip", ["trn1", "inf2", "trn2"])
@pytest.mark.parametrize(("time", "flags"), [
    (0.8 * Q / MOST, ["implausible"]),
    (Q / MOST - 2 * TICK, ["implausible"]),
    (Q / MOST, ["above spec"]),          # possible to the last ns, and faster than the sheet
    (1.01 * Q / MOST, ["above spec"]),
])
def test_against_the_largest_figure_of_the_dma_engines(chip, time, flags):
    assert names(plausible(made(time), COPY, chip)) == flags
    assert names(plausible_time(time, COPY, chip)) == flags


@pytest.mark.parametrize("chip", ["trn1", "inf2", "trn2"])
def test_against_the_sheet(chip):
    """The lower of HBM share and DMA roof, 272 on Trainium1 and 368 on Trainium2, both told."""
    spec = min(HBM[chip], DMA[chip])
    assert spec == {"trn1": 272e9, "inf2": 272e9, "trn2": 368e9}[chip]
    assert plausible(made(Q / spec), COPY, chip) == ()
    assert plausible(made(1.5 * Q / spec), COPY, chip) == ()
    (flag,) = plausible(made(0.99 * Q / spec), COPY, chip)
    assert flag.name == "above spec" and not flag.excluded
    for said in (f"{HBM[chip] / 1e9:.0f} GB/s", f"{DMA[chip] / 1e9:.0f} GB/s", "DMA roof",
                 "Check the input: usually the clock or the scope"):
        assert said in str(flag)


def test_which_roof_is_the_lower_one_follows_the_machine():
    slow = machine.trn2.using(HBM="300 GB/s")
    (flag,) = plausible_time(0.99 * Q / 300e9, COPY, slow)
    assert "300 GB/s" in str(flag) and "the lower is the HBM share" in str(flag)


def test_published_figures_of_trainium1_fall_where_they_should():
    """271 GB/s one way is no more than spec; 294 to 308 both ways is above it, and possible."""
    for rate, flags in ((208e9, []), (271.1e9, []), (294.4e9, ["above spec"]),
                        (307.9e9, ["above spec"]), (1636e9, ["implausible"])):
        assert names(plausible_time(Q / rate, COPY, "trn1")) == flags


def test_a_lone_core_of_trainium2_is_above_its_share_and_possible():
    for rate in (396.9e9, 413.2e9):
        (flag,) = plausible_time(Q / rate, COPY, "trn2")
        assert flag.name == "above spec" and not flag.excluded


def test_queue_submission_timed_instead_of_the_copy():
    """1 GiB in 656.3 us would be 1636 GB/s: 2,467 us is the least."""
    (flag,) = plausible_time(656.3e-6, Count({}, 2**30, 0), "trn1")
    assert flag.name == "implausible" and flag.excluded
    assert f"{656.3e-6 / (2**30 / MOST):.3g} of the least time" in str(flag)
    assert "2.467 ms at 435.2 GB/s" in str(flag)  # 2**30 / 435.2e9 = 2.4672e-3
    for suspect in ("clock", "scope", "dtype", "execution"):
        assert suspect in str(flag).partition("Suspects: ")[2]


# --- work -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(("dtype", "rate"), [("bf16", 1), ("fp16", 1), ("fp32", 1 / 4)])
def test_against_the_array_at_its_clock(chip, dtype, rate):
    count = Count({dtype: 2 * 2048**3}, 3 * 2048**2 * 2)
    least = 2 * 2048**3 / (P[chip] * rate)
    assert plausible(made(least), count, chip) == ()  # no figure lies between: spec is the most
    (flag,) = plausible(made(0.8 * least), count, chip)
    assert flag.name == "implausible" and "0.8 of the least time" in str(flag)
    assert f"({dtype})" in str(flag)


def test_a_profile_s_total_may_lie_a_percent_below_its_cycles():
    """Seen in real profiles: 0.4 to 0.9 %. A loop at the array's rate is no impossible one."""
    count = Count({"bf16": 2 * 4096**3})
    least = 2 * 4096**3 / P["trn2"]
    assert names(plausible(made(0.991 * least), count, "trn2")) == ["above spec"]
    assert names(plausible(made(0.989 * least), count, "trn2")) == ["implausible"]
    copied = Count({}, Q)  # the rate of bytes has no clock of the array's
    assert names(plausible(made(0.991 * Q / MOST), copied, "trn2")) == ["implausible"]


@pytest.mark.parametrize("chip", ["trn1", "inf2", "trn2"])
@pytest.mark.parametrize(("share", "flags"), [
    (1.0001, []), (1, []), (0.9999, ["above spec"]), (0.995, ["above spec"]),
    (0.9901, ["above spec"]), (0.9899, ["implausible"]), (0.5, ["implausible"])])
def test_a_little_faster_than_the_array_is_flagged_and_possible(chip, share, flags):
    count = Count({"bf16": round(P[chip] * 1e-3)}, 1000, 1000)  # 1 ms
    found = plausible(made(share * 1e-3), count, chip)
    assert names(found) == flags
    assert [flag.excluded for flag in found] == [name == "implausible" for name in flags]


def test_above_the_array_has_words_of_its_own():
    count = Count({"bf16": round(P["trn2"] * 1e-3)})
    (flag,) = plausible(made(0.995e-3), count, "trn2")
    assert flag.said.startswith("78.64 GFLOP take 1 ms at 78.64 TFLOP/s (bf16), the array of ")
    assert "995 us are 0.50% less" in flag.said and "usually the clock" in flag.said
    assert "up to 1% below cycles / clock" in flag.said and "HBM" not in flag.said
    # a bare time has no such excuse, and bytes that bind more than W keep their own words
    assert names(plausible_time(0.995e-3, count, "trn2")) == ["implausible"]
    (flag,) = plausible(made(0.995e-3), Count(count.work, round(400e9 * 1e-3)), "trn2")
    assert flag.name == "above spec" and "HBM share" in flag.said


def test_a_rounded_peak_is_no_licence():
    """92 TFLOP/s is printed; the product is 91.75, and an array has no more."""
    count = Count({"bf16": 2 * 4096**3})
    (flag,) = plausible_time(2 * 4096**3 / 91.9e12, count, "trn1")
    assert flag.name == "implausible"


def test_mixed_dtypes_take_the_sum_of_their_times():
    count = Count({"bf16": 10**12, "fp8": 10**12, "fp32": 10**12})
    least = 1e12 / P["trn2"] + 1e12 / (2 * P["trn2"]) + 1e12 / (P["trn2"] / 4)
    assert plausible_time(least, count, "trn2") == ()
    assert names(plausible_time(0.99 * least, count, "trn2")) == ["implausible"]


def test_the_longer_of_the_two_times_decides():
    work, bytes_ = 10**12, 10**9
    count = Count({"bf16": work}, bytes_)
    compute, memory = work / P["trn2"], bytes_ / MOST
    assert compute > memory
    assert names(plausible_time(0.9 * compute, count, "trn2")) == ["implausible"]
    less = Count({"bf16": work // 100}, bytes_)
    (flag,) = plausible_time(0.9 * memory, less, "trn2")
    assert "over HBM" in str(flag) and "435.2 GB/s" in str(flag)


def test_a_dtype_without_a_peak_is_counted_at_the_fastest_dense_one():
    """So that no time is called impossible for want of a figure."""
    count = Count({"fp7": 10**12})
    assert plausible_time(1e12 / (2 * P["trn2"]), count, "trn2") == ()
    assert names(plausible_time(0.9e12 / (2 * P["trn2"]), count, "trn2")) == ["implausible"]


def test_fp8_of_trainium1_is_cfp8():
    count = Count({"fp8": 10**12})
    assert plausible_time(1e12 / P["trn1"], count, "trn1") == ()
    assert names(plausible_time(0.99e12 / P["trn1"], count, "trn1")) == ["implausible"]


def test_nothing_counted_is_nothing_odd():
    assert plausible_time(1e-6, Count(), "trn2") == ()


# --- scope ----------------------------------------------------------------------------------------


def test_a_pair_has_twice_as_much():
    time = Q / (2 * MOST)
    assert names(plausible(made(time, cores=2), COPY, "trn2")) == ["above spec"]
    assert names(plausible(made(0.8 * time, cores=2), COPY, "trn2")) == ["implausible"]
    assert plausible(made(Q / (2 * 368e9), cores=2), COPY, "trn2") == ()
    assert names(plausible_time(0.8 * time, COPY, machine.get("trn2", "lnc2"))) == ["implausible"]


def test_only_cores_that_worked_count():
    """A pair of which one core worked moves what one core can."""
    rows = timelines.timeline(packets=[(0, 100, {"core": 1})], cores=2)
    alone = timelines.profile(rows, Q / (1.5 * MOST) * 1e9)
    assert alone.cores == 2 and alone.timeline.working == (1,)
    (flag,) = plausible(alone, COPY, "trn2")
    assert flag.name == "implausible" and "1 core worked" in str(flag)


def test_a_summary_alone_counts_the_cores_it_names():
    summary = replace(made(Q / (1.5 * MOST)), timeline=None)
    assert names(plausible(summary, COPY, "trn2")) == ["implausible"]
    assert plausible(replace(summary, cores=2), COPY, "trn2") == ()  # 652.8 of a pair's 736 GB/s


def test_where_nothing_tells_the_cores_all_that_there_can_be_count():
    summary = replace(made(Q / (1.5 * MOST)), timeline=None, warnings=(UNSURE,))
    assert plausible(summary, COPY, "trn2") == ()                      # two cores pair
    assert names(plausible(summary, COPY, "trn1")) == ["implausible"]  # none do
    told = replace(summary, provenance={"lnc": 1})
    assert names(plausible(told, COPY, "trn2")) == ["implausible"]


def test_a_machine_of_any_scope_is_taken_for_its_cores():
    one = made(0.8 * Q / MOST)
    for on in (machine.trn2, machine.get("trn2", "lnc2"), machine.get("trn2", "device")):
        assert names(plausible(one, COPY, on)) == ["implausible"]


def test_two_cores_where_none_pair_are_one_clear_error():
    with pytest.raises(MachineError, match="trn1: no such scope"):
        plausible(made(1e-3, cores=2), COPY, "trn1")


# --- which chip, which time -----------------------------------------------------------------------


@pytest.mark.parametrize("said", [
    {"metadata": {"instance_type": "trn1.2xlarge"}},
    {"provenance": {"chip": "trn1"}}, {"provenance": {"instance": "trn1.32xlarge"}},
    {"metadata": {"instance_type": "trn2.3xlarge"}, "provenance": {"chip": "trn1"}},  # ours counts
])
def test_the_chip_is_the_profiles_own(said):
    (flag,) = plausible(made(Q / 300e9, **said), COPY)
    assert "272 GB/s" in str(flag)  # Trainium1's


@pytest.mark.parametrize("said", [{}, {"metadata": {"instance_type": "p5.48xlarge"}},
                                  {"metadata": {"instance_type": 7}}])
def test_a_profile_that_names_no_chip_needs_one(said):
    with pytest.raises(MachineError, match='name it, such as "trn2"'):
        plausible(made(1e-3, **said), COPY)


def test_a_machine_without_dma_engines_is_one_clear_error():
    with pytest.raises(MachineError, match="no such level: got 'DMA'"):
        plausible_time(1e-3, COPY, "h100")
    with pytest.raises(MachineError, match="no such level: got 'HBM'"):
        plausible_time(1e-3, COPY, machine.desktop)


def test_a_window_is_judged_by_its_own_time():
    """10 matmuls of 512 columns, 213 1/3 ns each at 2.4 GHz, in a profile of 1 ms."""
    rows = [(round(i * 640 / 3), round((i + 1) * 640 / 3)) for i in range(10)]
    whole = timelines.profile(timelines.timeline(matmuls=rows, end=10**6))
    work = Count({"bf16": 10 * 2 * 128 * 128 * 512})
    assert plausible(whole, work, "trn2") == ()
    assert plausible(whole.window(0, rows[-1][1]), work, "trn2") == ()  # 2,133 1/3 ns, cut to 2,133
    (flag,) = plausible(whole.window(0, 2000), work, "trn2")
    assert flag.name == "implausible"
    assert f"{2000 / (10 * 640 / 3):.3g} of the least time" in str(flag)


def test_a_time_that_is_not_there_is_one_clear_error():
    with pytest.raises(ProfileError, match="total_time"):
        plausible(replace(made(1e-3), summary={}), COPY, "trn2")


@pytest.mark.parametrize("wrong", [-1e-9, math.nan, math.inf, "400e-6", None, True])
def test_a_bare_time_is_finite_seconds(wrong):
    with pytest.raises(ValueError, match=r"expected a finite time >= 0\. Give seconds"):
        plausible_time(wrong, COPY, "trn1")


def test_no_time_at_all_is_implausible():
    (flag,) = plausible_time(0, COPY, "trn1")
    assert "0 of the least time" in str(flag)


@pytest.mark.parametrize("wrong", [None, 3, "copy"])
def test_what_has_no_count_is_refused(wrong):
    with pytest.raises(ValueError, match="expected a Count, or a run or an op"):
        plausible(made(1e-3), wrong, "trn2")


def test_a_run_of_a_kernel_is_its_count():
    kernels = nki.load(ROOT / "day4" / "kernels.py")
    run = nki.run(kernels.copy, ((128, 2**18), "bf16"), target="trn1", data=False)
    assert run.count.hbm_bytes == Q  # 128 x 2**18 x 2 B, in and out
    assert names(plausible(made(0.8 * Q / MOST), run, "trn1")) == ["implausible"]


# --- suspects -------------------------------------------------------------------------------------


def suspects(flag):
    return str(flag).partition("Suspects: ")[2].split("; the ")


def test_suspects_say_what_the_profile_says_of_them():
    fast = made(0.8 * Q / MOST, metadata={"tensor_engine_clock_freq": 2.8},
                summary={"hbm_read_bytes": Q // 2, "hbm_write_bytes": Q // 2},
                provenance={"execution": "second of 2", "warm": True})
    (flag,) = plausible(fast, COPY, "trn1")
    assert str(flag).index("the clock (the profile says 2.8 GHz, the sheet 2.8 GHz)") < (
        str(flag).index("the profiler counted 134.2 MB, the source 134.2 MB")) < (
        str(flag).index("the execution (second of 2"))


@pytest.mark.parametrize(("odd", "first"), [
    ({"metadata": {"tensor_engine_clock_freq": 1.4}}, "the clock (the profile says 1.4 GHz"),
    ({"summary": {"hbm_read_bytes": Q // 4, "hbm_write_bytes": Q // 4}},
     "the scope (1 core worked; the profiler counted 67.11 MB, the source 134.2 MB)"),
    ({"provenance": {"warm": False, "execution": "first of 1"}}, "the execution (first of 1"),
])
def test_what_is_contradicted_is_the_first_suspect(odd, first):
    (flag,) = plausible(made(0.8 * Q / MOST, **odd), COPY, "trn1")
    assert str(flag).partition("Suspects: ")[2].startswith(first)


def test_another_dtype_than_the_source_says_is_the_first_suspect():
    rows = timelines.timeline(matmuls=[(0, 107, {"dtype": "fp8"})])
    work = 2 * 128 * 128 * 512
    fast = timelines.profile(rows, summary={"hardware_flops": work, "transpose_flops": 0})
    (flag,) = plausible(fast, Count({"bf16": work}), "trn2")  # 107 ns; bf16 takes 213
    assert str(flag).partition("Suspects: ")[2].startswith(
        "the dtype (the source multiplies bf16, the profile fp8)")


def test_a_profile_that_says_nothing_still_has_all_suspects():
    (flag,) = plausible(made(0.8 * Q / MOST, metadata={"tensor_engine_clock_freq": "fast"}), COPY,
                        "trn1")
    for suspect in ("the clock (", "the scope (", "the dtype (", "the execution ("):
        assert suspect in str(flag)


# --- flags ----------------------------------------------------------------------------------------


def test_a_flag_is_its_text_and_back():
    (flag,) = plausible(made(0.8 * Q / MOST), COPY, "trn1")
    assert str(flag) == f"implausible: {flag.said}"
    assert Flag.of(str(flag)) == flag


@pytest.mark.parametrize(("name", "out"), [
    ("implausible", True), ("cold", True), ("doubled", True), ("above spec", False),
    ("no timeline", False), ("overlap", False), ("a name that nobody knows", True)])
def test_which_flags_leave_a_figure_out(name, out):
    flag = Flag(name, "so it is: as said")
    assert flag.excluded == out
    assert excluded([str(flag)]) == excluded([flag]) == out
    assert excluded(["above spec: x", str(flag)]) == out
    assert not excluded([])


def test_flags_show_as_wrapped_text():
    flags = plausible(made(0.8 * Q / MOST), COPY, "trn1")
    lines = repr(flags).splitlines()
    assert max(map(len, lines)) <= 98
    assert " ".join(map(str.strip, lines)) == str(flags[0])
    assert repr(Flags()) == "nothing odd: no faster than the sheet says"
    assert repr(plausible(made(1e-3), COPY, "trn1")) == repr(Flags())


def test_every_flag_that_the_library_makes_is_in_the_list():
    """Names in the modules of device, as they write them."""
    made_there = set()
    for file in sorted((ROOT / "lib/roofline/device").glob("*.py")):
        made_there |= set(re.findall(r'Flag\(\s*"([^"]+)"', file.read_text()))
    assert {"implausible", "above spec"} <= made_there <= set(plausibility.FLAGS)


def test_a_profile_shows_whose_it_is_and_its_flags():
    (flag,) = plausible(made(0.8 * Q / MOST), COPY, "trn1")
    shown = repr(made(0.8 * Q / MOST, flags=(str(flag),), provenance={"label": "trn1.2xlarge"}))
    lines = shown.splitlines()
    assert lines[1] == "  recorded on trn1.2xlarge"
    at = next(i for i, line in enumerate(lines) if line.startswith("  flag: implausible: "))
    assert " ".join(line.strip() for line in lines[at:]) == f"flag: {flag}"
    assert max(map(len, lines)) <= 98
    assert "recorded on" not in repr(made(1.0)) and "flag" not in repr(made(1.0))


# --- the model obeys ------------------------------------------------------------------------------


@pytest.mark.parametrize(("chip", "lnc"), [("trn1", 1), ("trn2", 1), ("trn2", 2)])
def test_no_prediction_is_impossible(chip, lnc):
    from roofline import neuroncore
    kernels = nki.load(ROOT / "day4" / "kernels.py")
    for kernel, shapes, how in (
            (kernels.copy, [((128, 2**16), "bf16")], {"elements": 4096}),
            (kernels.resident_matmul, [((256, 256), "bf16"), ((256, 1024), "bf16")],
             {"repeat": 4})):
        run = nki.run(kernel, *shapes, target=chip, lnc=lnc, data=False, **how)
        predicted = neuroncore.predict(run, buffers=None).profile
        assert "implausible" not in names(plausible(predicted, run, chip))


# --- real captures, where they are ----------------------------------------------------------------

REAL = ROOT.parent / "shared/reference/real-profiles"


@pytest.mark.parametrize("file", ["trn2-lnc2-attn-fused-bf16-s512.full.json",
                                  "trn2-lnc2-attn-fused-fp32-s512.full.json"])
def test_real_captures_are_possible_and_four_times_as_fast_are_not(file):
    path = REAL / file
    if not path.exists():
        pytest.skip(f"../shared/reference/real-profiles/{file} is not here")
    real = profile.read(path)
    assert plausible(real, real.count) == ()
    tenth = json.loads(path.read_text())["summary"][0]["total_time"] / 100
    fast = replace(real, summary={**real.summary, "total_time": tenth})
    assert names(plausible(fast, real.count)) == ["implausible"]
