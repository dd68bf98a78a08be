"""A profile's counts, clocks, windows and the check of the profiler's own figures."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import timelines
from hypothesis import given
from hypothesis import strategies as st

from roofline import machine
from roofline import profile as profiles
from roofline.profile import Profile, ProfileError, formulas
from roofline.profile.formulas import REASONS
from roofline.timeline import Spans

REAL = Path(__file__).parents[2] / "shared/reference/real-profiles"
TRN2 = {"num_physical_cores": 2, "hbm_ddr_bandwidth": 716000000000, "tensor_engine_num_rows": 128,
        "tensor_engine_num_cols": 128, "tensor_engine_clock_freq": 2.4,
        "neuroncore_clock_freq": 1.2, "explorer_version": "2.28.23.0"}
# A float of 32 bits holds 410e9 so: the profiler's metadata on trn1.
TRN1 = TRN2 | {"num_physical_cores": 1, "hbm_ddr_bandwidth": 409999998976,
               "tensor_engine_clock_freq": 2.8, "neuroncore_clock_freq": 1.4}
# Attention, fused, S = 512, d = 128, fp32, on one core of an LNC=2 pair of trn2, profiler 2.28:
# counters and figures from allenkchau/trainium-kernel-fusion, MIT.
FUSED = {"total_time": 3.8091607e-05, "hardware_flops": 352321536, "transpose_flops": 83886080,
         "hbm_read_bytes": 851968, "hbm_write_bytes": 262144, "model_flops": 0,
         "inputs_and_weights_size_bytes": 851968, "mm_arithmetic_intensity": 240.94117647058823,
         "peak_flops_bandwidth_ratio": 109.83687150837989,
         "hfu_estimated_percent": 0.05880560369407623,
         "mfu_inst_estimated_percent": 0.044804270575055205,
         "mfu_estimated_percent": 0.044804270575055205,
         "mbu_estimated_percent": 0.04084948021144698,
         "mbu_min_read_util_percent": 0.03123783780875357,
         "mfu_max_achievable_estimated_percent": 1, "neuroncore_cycle_count": 45709,
         "throttle_avg_util_limit_nc0_percent": 0.36650039380414806,
         "throttle_activity_0_active_time_nc0_percent": 0.35844053557364136,
         "throttle_activity_1_active_time_nc0_percent": 0.01611971646101339,
         "throttle_activity_0_avg_util_limit_nc0_percent": 1,
         "throttle_activity_1_avg_util_limit_nc0_percent": 0.5}
FIGURES = ("mm_arithmetic_intensity", "peak_flops_bandwidth_ratio", "hfu_estimated_percent",
           "mfu_inst_estimated_percent", "mfu_estimated_percent", "mbu_estimated_percent",
           "mbu_min_read_util_percent", "mfu_max_achievable_estimated_percent",
           "neuroncore_cycle_count")
REACH = "mfu_max_achievable_estimated_percent"


def made(summary, metadata=TRN2, cores=2, **more):
    return Profile("made", "summary-json", "", summary, metadata, cores=cores, **more)


# --- formulas -------------------------------------------------------------------------------------


def test_formulas_of_a_printed_example():
    f, b, t = 268435456, 1114112, 38.091607e-6
    p1 = formulas.peak(2.4e9, 128, 128)
    assert f == FUSED["hardware_flops"] - FUSED["transpose_flops"]
    assert f"{formulas.intensity(f, b):.3f}" == "240.941"
    assert f"{formulas.bandwidth_utilisation(b, t, 716e9):.6f}" == "0.040849"
    assert f"{formulas.compute_utilisation(f, 2, p1, t):.6f}" == "0.044804"
    assert formulas.ratio(p1, 716e9) == 109.83687150837989
    trn1 = formulas.ratio(formulas.peak(2.8e9, 128, 128), 409999998976)
    assert round(trn1, 12) == 223.781463973542


@pytest.mark.parametrize(("ai", "reach"), [
    (150, 150 / (2 * 109.83687150837989)),  # memory bound, though above the printed ratio
    (219.7, 1),                             # beyond 2 x 109.84: both cores' peak over the stack
])
def test_the_reach_counts_both_cores_where_the_ratio_counts_one(ai, reach):
    assert formulas.max_achievable(ai, 2, 78.6432e12, 716e9) == pytest.approx(reach, rel=1e-12)


def test_nothing_over_nothing_is_no_intensity():
    assert formulas.intensity(0, 0) == 0 and formulas.intensity(5, 0) == math.inf


# --- check ----------------------------------------------------------------------------------------


def test_every_figure_of_a_real_summary_comes_out():
    check = made(FUSED).check()
    assert check.agree and check.compared == 9  # all but the capped one, and the throttle limit
    capped = check[REACH]
    assert (capped.agrees, capped.recomputed, capped.reasons) == (None, 1, (formulas.CAPPED,))
    assert "9 of 9 figures that could differ agree" in repr(check)
    for name in FIGURES:
        if name == REACH:
            continue
        assert check[name].agrees
        exact = name != "hfu_estimated_percent"  # which is 2.4e-8 lower than its formula
        assert check[name].reasons == ((formulas.DIGITS,) if exact else (formulas.SINGLE,)), name
    limit = check["throttle_avg_util_limit_nc0_percent"]
    assert limit.reasons == (formulas.DIGITS, formulas.LIMITS)
    assert check.constants.source == "the file"


def test_a_file_without_hardware_figures_has_those_of_its_instance_type():
    check = made(FUSED | {"instance_type": "trn2.3xlarge", "profiler_version": "2.28.23.0"},
                 metadata={}, cores=1).check()
    assert check.agree and check.constants.source == "machine trn2, where the file says nothing"
    assert formulas.CORES[2] in check["mfu_estimated_percent"].reasons
    # these come out with each c, so neither is shown to be right
    assert check[REACH].reasons == (formulas.CAPPED,)
    for name in ("mbu_estimated_percent", "mm_arithmetic_intensity"):
        assert check[name].reasons == (formulas.DIGITS,)


def test_c_is_the_same_for_all_figures():
    """hfu and mfu as of one core, mfu_max as of two: c = 1 explains more of them."""
    two = {"hfu_estimated_percent": 100 / 2000, "mfu_estimated_percent": 80 / 2000,
           REACH: 2 * 1e9 / 4e9}
    check = made(RAW | two, {k: v for k, v in SMALL.items() if k != "num_physical_cores"},
                 2).check()
    assert check["hfu_estimated_percent"].reasons == (formulas.DIGITS, formulas.CORES[1])
    assert check["mfu_estimated_percent"].agrees and check[REACH].agrees is False


def test_a_check_of_nothing_agrees_with_nothing():
    check = made({}).check()
    assert check.agree is None and check.compared == 0
    assert "0 of 0 figures that could differ agree" in repr(check)
    wrong = made(FUSED | {"neuroncore_cycle_count": 9}).check()
    assert wrong.agree is False and "8 of 9 figures that could differ agree" in repr(wrong)


def test_a_name_that_is_no_row_is_one_clear_error():
    for table in (made(FUSED).check(), made(FUSED).clocks()):
        with pytest.raises(ProfileError, match=r"no row 'hue'; there are .*(hfu|total)"):
            table["hue"]


def test_without_any_hardware_figures_only_the_intensity_is_recomputed():
    check = made(FUSED, metadata={}).check()
    assert check["mm_arithmetic_intensity"].agrees
    for name in FIGURES[1:]:
        assert check[name].agrees is None and check[name].reasons == (formulas.ABSENT,)


@pytest.mark.parametrize("name", FIGURES)
def test_a_wrong_figure_does_not_come_out(name):
    for wrong in (FUSED[name] * 1.02 - 0.01, FUSED[name] * 0.98):
        row = made(FUSED | {name: wrong}).check()[name]
        assert row.agrees is False and row.reasons == (formulas.OPEN,)


def test_how_well_a_figure_comes_out():
    name = "mbu_estimated_percent"
    for off, reasons in ((1e-15, (formulas.DIGITS,)), (1e-9, (formulas.SINGLE,)),
                         (5e-8, (formulas.SINGLE,)), (1e-6, (formulas.OPEN,)),
                         (2e-5, (formulas.OPEN,))):  # what T as whole cycles would hide
        assert made(FUSED | {name: FUSED[name] * (1 - off)}).check()[name].reasons == reasons


def test_a_percent_as_the_viewer_shows_it_is_named():
    """5.88 for 0.0588: text copied from the viewer; 1.02 times that is nothing known."""
    for name in FIGURES:
        if name.endswith("_percent") and name != REACH:
            row = made(FUSED | {name: 100 * FUSED[name]}).check()[name]
            assert (row.agrees, row.reasons) == (False, (formulas.HUNDRED,)), row
            row = made(FUSED | {name: 102 * FUSED[name]}).check()[name]
            assert (row.agrees, row.reasons) == (False, (formulas.OPEN,)), row
    row = made(FUSED | {REACH: 100}).check()[REACH]
    assert (row.agrees, row.reasons) == (False, (formulas.HUNDRED,))
    assert "printed as 0..100" in formulas.REASONS


def test_a_chip_and_its_cores_may_be_named_where_the_file_does_not():
    bare = made(FUSED, metadata={}, cores=1)
    assert bare.check().compared == 1  # the intensity
    for chip in ("trn2", machine.get("trn2")):
        check = bare.check(chip, cores=2)
        assert check.agree and check.constants.cores == (2,)
        assert check["mfu_estimated_percent"].reasons == (formulas.DIGITS,)
        assert repr(check).endswith(
            "c 2; from machine trn2, as given, where the file says nothing, c as given")
    assert bare.check("trn2", cores=1)["mfu_estimated_percent"].agrees is False
    own = made(FUSED | {"instance_type": "trn2.3xlarge"}).check("trn1", cores=1)  # the file's hold
    assert own.agree and own.constants.source == "the file" and own.constants.cores == (2,)
    unknown = made(FUSED | {"instance_type": "trn9.1xlarge"}, metadata={}, cores=2)
    assert unknown.check("trn2").agree


@pytest.mark.parametrize("wrong", [{"machine": "trn9"}, {"machine": "h100"}, {"machine": 7},
                                   {"cores": 3}, {"cores": "two"}])
def test_a_check_takes_chips_and_cores_that_there_are(wrong):
    with pytest.raises(ProfileError, match=r"expected one of trn1, inf2, trn2, trn3, and 1 or 2"):
        made(FUSED).check(**wrong)


# --- the rows of the timeline against the summary -------------------------------------------------

RUN = dict(matmuls=[(0, 100), (100, 200), (300, 400, {"transpose": True})],
           vector=[(50, 150, {"read": 70}), (160, 260, {"written": 3})],
           packets=[(0, 90), (95, 99)])
# By hand: three matmuls of 2 x 128 x 128 x 512 FLOPs; each engine's stretches, and any engine's.
SUMS = {"hardware_flops": 3 * 2 * 128 * 128 * 512, "transpose_flops": 2 * 128 * 128 * 512,
        "matmul_instruction_count": 3, "tensor_engine_instruction_count": 3,
        "vector_engine_instruction_count": 2, "hbm_read_bytes": 70, "hbm_write_bytes": 3,
        "tensor_engine_active_time": 300e-9, "vector_engine_active_time": 200e-9,
        "dma_active_time": 94e-9, "total_active_time": 360e-9}


def run(**rows):
    return timelines.profile(timelines.timeline(**{**RUN, **rows}), summary=SUMS,
                             metadata={"explorer_version": "2.28.1"})


def differs(profile):
    return {row.name for row in profile.check() if row.agrees is False}


def test_rows_that_add_up_to_the_summary_say_so():
    check = run().check()
    assert check.agree and {row.name for row in check if row.printed is not None} == {
        *SUMS, "instruction ids"}
    assert check["hardware_flops"].reasons == (formulas.ROWS,)
    assert check["total_active_time"].reasons == (formulas.STRETCHES,)
    assert [row for row in run().window(0, 200).check() if row.agrees is False] == []


def test_rows_that_are_lost_or_doubled_show_in_every_sum_that_they_change():
    work = {"hardware_flops", "matmul_instruction_count", "tensor_engine_instruction_count"}
    assert differs(run(matmuls=RUN["matmuls"][:2])) == {
        *work, "transpose_flops", "tensor_engine_active_time", "total_active_time"}
    assert differs(run(matmuls=RUN["matmuls"] + [(0, 100)])) == work  # at the same time as one
    assert differs(run(vector=RUN["vector"][:1])) == {
        "vector_engine_instruction_count", "hbm_write_bytes", "vector_engine_active_time",
        "total_active_time"}
    assert differs(run(packets=[(95, 99)])) == {"dma_active_time"}
    row = run(packets=[(95, 99)]).check()["dma_active_time"]
    assert (row.printed, row.recomputed, row.reasons) == (94e-9, 4e-9, (formulas.UNLIKE_ROWS,))


def test_active_times_may_differ_by_2_ns_a_stretch():
    for more, agrees in ((4, True), (5, False), (-4, True), (-5, False)):
        profile = run()
        summary = {**profile.summary, "tensor_engine_active_time": (300 + more) / 1e9}
        row = replace(profile, summary=summary).check()["tensor_engine_active_time"]
        assert row.agrees is agrees, more  # 0 to 200 and 300 to 400


def test_the_profilers_own_active_times_and_the_rows_must_both_come_out():
    profile = run()
    own = {(0, "tensor"): Spans.of(np.array([0, 300]), np.array([200, 400])),
           (0, "vector"): Spans.of(np.array([50, 160]), np.array([150, 260]))}
    fits = replace(profile, timeline=replace(profile.timeline, active=own))
    assert fits.check().agree
    for wrong in (run(matmuls=[(0, 100), (100, 120), (300, 400, {"transpose": True})]),
                  replace(fits, timeline=replace(fits.timeline, active=own | {
                      (0, "tensor"): Spans.one(0, 220)}))):
        of = replace(wrong.timeline, active=wrong.timeline.active or own)
        row = replace(wrong, timeline=of).check()["tensor_engine_active_time"]
        assert (row.agrees, row.recomputed) == (False, pytest.approx(220e-9))


def test_counts_of_instructions_prove_nothing_in_other_versions():
    for said, agrees, why in ((2, None, formulas.UNLIKE), (3, True, formulas.ROWS)):
        other = replace(run(), summary=SUMS | {"matmul_instruction_count": said},
                        metadata={"explorer_version": "2.31"})
        row = other.check()["matmul_instruction_count"]
        assert (row.agrees, row.reasons) == (agrees, (why,))


def test_an_id_names_one_instruction():
    profile = run()
    own = profile.timeline.instructions
    twice = replace(own, id=np.where(own.id == own.id[1], own.id[0], own.id))
    row = replace(profile, timeline=replace(profile.timeline, instructions=twice)
                  ).check()["instruction ids"]
    assert (row.printed, row.recomputed, row.agrees) == (5, 4, False)


def test_chips_whose_cores_are_never_paired_have_c_1():
    of = made({"instance_type": "trn1.32xlarge"}, {}, 1).check().constants
    assert (of.cores, of.p1, of.bw, of.clock) == ((1,), 91.7504e12, 410e9, 1.4e9)
    assert made({"instance_type": "trn9.1xlarge"}, {}).check().constants.p1 is None


@pytest.mark.parametrize("name", FIGURES[2:])
def test_each_figure_needs_its_inputs(name):
    needs = {"neuroncore_cycle_count": "total_time", "mbu_estimated_percent": "hbm_read_bytes",
             "mbu_min_read_util_percent": "inputs_and_weights_size_bytes",
             "mfu_max_achievable_estimated_percent": "hbm_write_bytes"}.get(name, "hardware_flops")
    left = {key: value for key, value in FUSED.items() if key != needs}
    row = made(left).check()[name]
    assert row.recomputed is None and row.agrees is None and row.reasons == (formulas.ABSENT,)
    left = {key: value for key, value in FUSED.items() if key != name}
    row = made(left).check()[name]
    assert row.printed is None and row.agrees is None and row.reasons == (formulas.NOT_PRINTED,)
    assert row.recomputed == pytest.approx(FUSED[name], rel=1e-7)


# F = 80 of 100 FLOPs; adjusted they are 4 times as many. P1 = 2 x 1 x 1 x 1 GHz, T = 1 us, c = 1:
# c P1 T = 2000 FLOPs.
SMALL = {"tensor_engine_clock_freq": 1, "tensor_engine_num_rows": 1, "tensor_engine_num_cols": 1,
         "hbm_ddr_bandwidth": 1e9, "num_physical_cores": 1, "neuroncore_clock_freq": 1}
RAW = {"hardware_flops": 100, "transpose_flops": 20, "total_time": 1e-6, "hbm_read_bytes": 30,
       "hbm_write_bytes": 10}
ADJUSTED = RAW | {"adjusted_hardware_flops": 400, "adjusted_transpose_flops": 80}


@pytest.mark.parametrize(("version", "summary", "name", "printed", "agrees", "reason"), [
    ("2.28", RAW, "hfu_estimated_percent", 100 / 2000, True, formulas.DIGITS),
    ("2.28", RAW, "mfu_estimated_percent", 80 / 2000, True, formulas.DIGITS),
    ("2.31", ADJUSTED, "hfu_estimated_percent", 400 / 2000, True, formulas.ADJUSTED),
    ("2.31", ADJUSTED, "mfu_estimated_percent", 320 / 2000, True, formulas.ADJUSTED),
    ("2.31", ADJUSTED, "mm_arithmetic_intensity", 80 / 40, True, formulas.DIGITS),  # raw
    ("2.31", ADJUSTED, "mm_arithmetic_intensity", 320 / 40, False, formulas.OPEN),
    ("2.31", RAW, "mfu_estimated_percent", 320 / 2000, None, formulas.NEEDS_ADJUSTED),
    ("2.30", RAW, "mfu_estimated_percent", 320 / 2000, None, formulas.NEEDS_ADJUSTED),
    ("2.29", RAW, "mfu_estimated_percent", 320 / 2000, False, formulas.OPEN),
    ("2.31", RAW, "mfu_estimated_percent", 20 / 2000, None, formulas.NEEDS_ADJUSTED),  # 1/4
    ("2.31", RAW, "mfu_estimated_percent", 321 / 2000, False, formulas.OPEN),  # more than fp32
    ("2.31", RAW, "mfu_estimated_percent", 19 / 2000, False, formulas.OPEN),
    ("2.31", RAW, "hfu_estimated_percent", 401 / 2000, False, formulas.OPEN),
    ("2.28", RAW, "mfu_estimated_percent", 320 / 2000, False, formulas.OPEN),
    ("2.31", RAW, "mfu_estimated_percent", 80 / 2000, True, formulas.DIGITS),       # all bf16
    ("2.28", RAW | {"model_flops": 60}, "mfu_estimated_percent", 60 / 2000, True, formulas.MODEL),
    ("2.28", RAW | {"model_flops": 60}, "mm_arithmetic_intensity", 80 / 40, True, formulas.DIGITS),
    ("2.22", RAW | {"model_flops": 0}, "mfu_estimated_percent", 0, None, formulas.NO_HLO),
    ("2.28", RAW | {"model_flops": 0}, "mfu_estimated_percent", 0, False, formulas.OPEN),
    ("2.22", RAW, "mfu_estimated_percent", 0, False, formulas.OPEN),
    ("2.28", RAW, "mfu_estimated_percent", 0, False, formulas.OPEN),
    ("2.28", RAW | {"transpose_flops": 1}, "mm_arithmetic_intensity", 2.48, True, formulas.PRINTED),
    ("2.28", RAW | {"transpose_flops": 1}, "mm_arithmetic_intensity", 2.5, False, formulas.OPEN),
    # one digit is no rounding of 0.039992; four are one up to half of the last
    ("2.28", RAW | {"total_time": 1.0002e-6}, "mbu_estimated_percent", 0.04, False, formulas.OPEN),
    ("2.28", RAW | {"hbm_read_bytes": 22.54}, "mbu_estimated_percent", 0.0325, True,
     formulas.PRINTED),
    ("2.28", RAW | {"hbm_read_bytes": 22.56}, "mbu_estimated_percent", 0.0325, False,
     formulas.OPEN),
    ("2.28", RAW, REACH, 2 * 1e9 / 2e9, None, formulas.CAPPED),  # AI 80 / 40
    ("2.28", RAW, REACH, 0.99, False, formulas.OPEN),
    ("2.28", RAW | {"hbm_read_bytes": 70}, REACH, 0.5, True, formulas.DIGITS),  # AI 80 / 80
    ("2.28", RAW | {"hbm_read_bytes": 70}, REACH, 1, False, formulas.OPEN),
])
def test_what_each_version_counts(version, summary, name, printed, agrees, reason):
    row = made(summary | {name: printed}, SMALL | {"explorer_version": version}, 1).check()[name]
    assert (row.agrees, reason in row.reasons) == (agrees, True), row


def test_adjusted_flops_are_shown_where_neither_comes_out():
    """A file that has them counts with them, whatever version it says or does not say."""
    for version, summary, shown in (("", ADJUSTED, 320), ("2.28", ADJUSTED, 320), ("", RAW, 80)):
        row = made(summary | {"mfu_estimated_percent": 0.9}, SMALL | {"explorer_version": version},
                   1).check()["mfu_estimated_percent"]
        assert row.recomputed == shown / 2000 and row.agrees is False


def test_intensity_follows_the_instructions_where_a_model_has_fewer_flops():
    """A BERT training step (trn1, 2.26): 128.23 as printed, 127.45 by model_flops."""
    row = made({"hardware_flops": 12823, "transpose_flops": 0, "model_flops": 12745,
                "hbm_read_bytes": 60, "hbm_write_bytes": 40,
                "mm_arithmetic_intensity": 128.23}).check()["mm_arithmetic_intensity"]
    assert row.agrees and row.reasons == (formulas.DIGITS,)


def test_an_intensity_over_the_ratio_that_gives_another_reach_is_unexplained():
    """GatedDeltaNet on inf2 (2.3x) printed 4.79 %; its intensity over the ratio is 4.76 %."""
    row = made({"hardware_flops": 1065, "transpose_flops": 0, "hbm_read_bytes": 100,
                "hbm_write_bytes": 0, "mfu_max_achievable_estimated_percent": 0.0479},
               TRN1, 1).check()["mfu_max_achievable_estimated_percent"]
    assert f"{row.recomputed:.4f}" == "0.0476" and row.reasons == (formulas.OPEN,)


def test_both_cores_busy_the_slower_ones_cycles_are_the_time():
    """Total time ran 0.4 to 0.9 % below cycles / clock, and the percentages with cycles / clock."""
    cycles = round(45709 * 1.006)
    time = cycles / 1.2e9
    slow = FUSED | {"neuroncore_cycle_count": cycles,
                    "mfu_estimated_percent": 268435456 / (2 * 78.6432e12 * time),
                    "mbu_estimated_percent": 1114112 / (716e9 * time)}
    check = made(slow).check()
    for name in ("neuroncore_cycle_count", "mfu_estimated_percent", "mbu_estimated_percent"):
        assert check[name].agrees and check[name].reasons == (formulas.SLOWER,)
    alone = made(slow, TRN2 | {"num_physical_cores": 1}, 1).check()
    assert alone["neuroncore_cycle_count"].agrees is False
    whole = FUSED["total_time"] * 1.2e9 // 1
    for count, agrees in ((whole * 1.01 - 1, True), (whole * 1.01 + 1, False)):
        row = made(FUSED | {"neuroncore_cycle_count": count}).check()["neuroncore_cycle_count"]
        assert row.agrees is agrees


def test_an_idle_core_is_no_slower_one():
    late = FUSED | {"neuroncore_cycle_count": 45709 * 1.005}
    for core, agrees in ((0, False), (1, True)):
        of = timelines.timeline(vector=[(0, 9), (9, 20, {"core": core})], cores=2)
        row = made(late, timeline=of).check()["neuroncore_cycle_count"]
        assert row.agrees is agrees


def test_a_time_in_cycles_is_good_to_one_cycle():
    """Of the slower core: 40 B in 1001 cycles of 1 GHz at 1 B/ns, where total_time is 1000 ns."""
    slow = SMALL | {"num_physical_cores": 2, "explorer_version": "2.28"}
    for off, agrees in ((0.9, True), (1.1, False)):
        summary = RAW | {"neuroncore_cycle_count": 1001,
                         "mbu_estimated_percent": 40 / 1001 * (1 - off / 1001)}
        row = made(summary, slow).check()["mbu_estimated_percent"]
        assert row.agrees is agrees


def test_flops_that_are_left_out_are_none_where_the_intensity_is_zero():
    check = made({"total_time": 1e-3, "hbm_read_bytes": 4, "hbm_write_bytes": 4,
                  "mm_arithmetic_intensity": 0, "hfu_estimated_percent": 0}).check()
    assert check["hfu_estimated_percent"].agrees
    assert formulas.NO_WORK in check["hfu_estimated_percent"].reasons
    intensity = check["mm_arithmetic_intensity"]  # FLOPs are 0 by this very figure
    assert (intensity.agrees, intensity.reasons) == (None, (formulas.CIRCULAR,))
    unsaid = made({"hbm_read_bytes": 4, "hbm_write_bytes": 4, "hfu_estimated_percent": 0})
    assert unsaid.check()["hfu_estimated_percent"].agrees is None


def test_transposes_that_are_left_out_are_none_where_the_intensity_says_so():
    """A NKIBench matrix product (trn1, 2025) leaves them out, and its intensity is all of F / B."""
    left = {"hardware_flops": 117440512, "hbm_read_bytes": 2**20, "hbm_write_bytes": 2**20}
    row = made(left | {"mm_arithmetic_intensity": 56}).check()["mm_arithmetic_intensity"]
    assert row.agrees and row.reasons == (formulas.DIGITS, formulas.NO_TRANSPOSES)
    assert dict(made(left | {"mm_arithmetic_intensity": 56}).counted("bf16").work) == {
        "bf16": 117440512}
    for summary in (left, left | {"mm_arithmetic_intensity": 50}):
        unsaid = made(summary)
        row = unsaid.check()["mm_arithmetic_intensity"]
        assert (row.agrees, row.recomputed, row.reasons[-1]) == (None, None, formulas.ABSENT)
        assert "117.4 MFLOP with transposes; how many is unknown" in repr(unsaid)
        with pytest.raises(ProfileError, match=r"summary\.transpose_flops: got None"):
            unsaid.counted("bf16")


def test_no_flops_have_no_transposes():
    assert not made(HBM | {"hardware_flops": 0}).count.work


def test_adjusted_transposes_that_are_left_out_are_none_only_if_the_raw_are():
    raw = RAW | {"adjusted_hardware_flops": 400}
    assert formulas.flops(made(raw), adjusted=True) is None
    assert formulas.flops(made(raw | {"transpose_flops": 0}), adjusted=True) == 400


def test_throttle_limits_of_other_versions_are_not_compared():
    name = "throttle_avg_util_limit_nc0_percent"
    for version in ("2.26.1", "2.31", "", "words"):
        row = made(FUSED, TRN2 | {"explorer_version": version}).check()[name]
        assert (row.agrees, row.recomputed, row.reasons) == (None, None, (formulas.UNLIKE,))
    row = made(FUSED | {name: 1.097}).check()[name]  # 2.28, whose rule is known
    assert row.agrees is False and row.reasons == (formulas.OPEN,)
    assert row.recomputed == pytest.approx(0.35844053557364136 + 0.01611971646101339 / 2)
    lacks = {k: v for k, v in FUSED.items() if k != "throttle_activity_1_active_time_nc0_percent"}
    row = made(lacks).check()[name]
    assert row.agrees is None and row.reasons == (formulas.ABSENT,)


@given(st.dictionaries(st.sampled_from([*FUSED, *TRN2, "adjusted_hardware_flops", "instance_type"]),
                       st.one_of(st.floats(), st.integers(), st.text(max_size=8), st.booleans(),
                                 st.sampled_from([0, -1, 10**400, 1e308, 5e-324, "trn1.2xlarge"]))),
       st.sampled_from([1, 2]))
def test_a_check_takes_any_values_and_its_reasons_are_from_the_list(values, cores):
    profile = made(FUSED | values, TRN2 | values, cores)
    check = profile.check()
    assert {reason for row in check for reason in row.reasons} <= set(REASONS)
    assert repr(check) and repr(profile) and repr(profile.clocks())
    try:
        profile.counted("bf16")
    except ProfileError as error:
        assert "made: " in str(error)


# --- real files -----------------------------------------------------------------------------------


def real(pattern):
    found = sorted(REAL.glob(pattern))
    if not found:
        pytest.skip("../shared/reference/real-profiles is not here")
    return found


def test_formulas_on_every_trn2_file():
    files = real("trn2-*.json")
    assert len(files) == 7
    for file in files:
        check = profiles.read(file).check()
        assert check.agree, (file, check)
        for name in FIGURES:
            row = check[name]
            if row.printed == 1 and name == REACH:
                assert row.agrees is None
            if name in ("mm_arithmetic_intensity", "peak_flops_bandwidth_ratio",
                        "mfu_inst_estimated_percent", "mfu_estimated_percent",
                        "mfu_max_achievable_estimated_percent", "neuroncore_cycle_count"):
                assert row.printed == row.recomputed, (file, row)  # all digits
            limit = 3e-8 if name == "hfu_estimated_percent" else 3e-16
            assert math.isclose(row.printed, row.recomputed, rel_tol=limit), (file, row)


def test_formulas_on_the_trn1_kernels():
    """zhang677/AccelOpt, Apache-2.0: F, B, AI and ratio; no total_time, so no percentages."""
    (file,) = real("trn1-nkibench-*.json")
    rows = json.loads(file.read_text("utf-8"))
    assert len(rows) == 7
    for row in rows:
        check = made(row["profile"], TRN1 | {"explorer_version": "2.2"}, 1).check()
        ai, ratio = check["mm_arithmetic_intensity"], check["peak_flops_bandwidth_ratio"]
        assert ai.agrees is (True if ai.printed else None)  # 0: its FLOPs are left out
        assert math.isclose(ai.printed, ai.recomputed, rel_tol=3e-16), row
        assert round(ratio.recomputed, 12) == ratio.printed == 223.781463973542


def test_cycles_of_a_trn1_kernel():
    """trnsci/trnblas, Apache-2.0. The count is a float of 32 bits, 6 below T x 1.4 GHz."""
    row = made({"total_time": 0.213808050051, "neuroncore_cycle_count": 299331264,
                "instance_type": "trn1.2xlarge"}, {}, 1).check()["neuroncore_cycle_count"]
    assert row.recomputed == 299331270 and row.reasons == (formulas.SINGLE,)


@pytest.mark.parametrize(("file", "work"), [
    ("trn2-lnc2-attn-fused-bf16-s512.full.json", {"bf16": 67108864, "fp32": 67108864}),
    ("trn2-lnc2-attn-fused-fp32-s512.full.json", {"fp32": 134217728}),
])
def test_counts_and_active_times_of_the_whole_files(file, work):
    """2 S S d = 67,108,864 FLOPs each of its two products."""
    (path,) = real(file)
    profile = profiles.read(path)
    assert dict(profile.count.work) == work
    whole = profile.window(0, profile.timeline.end)
    for name, value in whole.summary.items():
        if name.endswith("_time"):
            assert abs(value - profile.summary[name]) <= 10e-9, name
        elif name != "dma_transfer_total_bytes":  # 2.28 has none without DGE notifications
            assert value == profile.summary[name], name
    assert whole.summary["dma_transfer_total_bytes"] == profile.count.hbm_bytes


# --- counts ---------------------------------------------------------------------------------------

ROWS = dict(
    matmuls=[(0, 10), (10, 20, {"dtype": "fp32", "passes": 2}),
             (20, 30, {"dtype": "fp32", "passes": 2}), (30, 40, {"transpose": True})],
    vector=[(5, 25, {"read": 70, "written": 3})], packets=[(0, 8, {"nbytes": 512}), (6, 20)])
ONE = 2 * 128 * 128 * 512  # FLOPs of one matmul of these
HBM = {"hbm_read_bytes": 70, "hbm_write_bytes": 3}


def test_passes_count_once_and_transposes_not_at_all():
    of = timelines.timeline(**ROWS)
    profile = timelines.profile(of, summary=HBM | {"hardware_flops": 4 * ONE,
                                                   "transpose_flops": ONE})
    assert dict(profile.count.work) == {"bf16": ONE, "fp32": ONE}
    assert (profile.count.hbm_read_bytes, profile.count.hbm_write_bytes) == (70, 3)
    flops = profile.matmul_flops
    assert (flops["fp32"].counted, flops["fp32"].once) == (2 * ONE, ONE)


def test_passes_that_record_a_share_each_are_one_matmul_too():
    half = dict(dtype="fp32", passes=2, macs=128 * 128 * 256)  # N is 512 all the same
    of = timelines.timeline(matmuls=[(0, 10, half), (10, 20, half)])
    profile = timelines.profile(of, summary=HBM | {"hardware_flops": ONE, "transpose_flops": 0})
    assert dict(profile.count.work) == {"fp32": ONE}


@pytest.mark.parametrize("said", [1, 4])  # rows are doubled, or missing
def test_rows_with_other_flops_than_the_summary_are_no_count(said):
    of = timelines.timeline(matmuls=[(0, 10), (10, 20, {"dtype": "fp32"})])
    profile = timelines.profile(of, summary=HBM | {"hardware_flops": said * ONE,
                                                   "transpose_flops": 0})
    with pytest.raises(ProfileError, match=f"{said * ONE:,} FLOPs that the rows do not split: they "
                                           f"have {2 * ONE:,}, so rows are missing or doubled"):
        profile.count  # noqa: B018
    assert dict(profile.counted("bf16").work) == {"bf16": said * ONE}
    assert dict(profile.window(0, 10).count.work) == {"bf16": ONE}


def test_rows_without_flops_count_by_their_sizes():
    """Two passes of fp32 and one matmul of bf16; the summary counts each row, or each matmul."""
    fp32 = {"dtype": "fp32", "passes": 2, "macs": 0}
    of = timelines.timeline(matmuls=[(0, 10, fp32), (10, 20, fp32), (20, 30, {"macs": 0})],
                            unknown=["instructions.macs"])
    for rows in (3, 2):
        summary = HBM | {"hardware_flops": rows * ONE, "transpose_flops": 0}
        profile = timelines.profile(of, summary=summary)
        assert dict(profile.count.work) == {"fp32": ONE, "bf16": ONE}
        assert profile.matmul_flops["fp32"].counted == (rows - 1) * ONE
    other = timelines.profile(of, summary=HBM | {"hardware_flops": 4 * ONE, "transpose_flops": 0})
    with pytest.raises(ProfileError, match="rows are missing or doubled"):
        other.count  # noqa: B018


def test_rows_without_flops_have_those_of_their_sizes_and_the_reverse():
    of = timelines.timeline(matmuls=[(0, 10, {"macs": 0}), (10, 20, {"K": 0, "macs": 50})])
    profile = timelines.profile(of, summary=HBM)
    assert profile.matmul_flops["bf16"].once == ONE + 100
    assert profile.matmul_flops["bf16"].counted == 100


def test_rows_with_neither_flops_nor_sizes_are_not_no_work():
    bare = {"K": 0, "M": 0, "N": 0, "macs": 0}
    of = timelines.timeline(matmuls=[(0, 10, bare), (10, 20, bare | {"dtype": "fp32"})])
    profile = timelines.profile(of, summary=HBM | {"hardware_flops": 10**9, "transpose_flops": 0})
    with pytest.raises(ProfileError, match=r"1,000,000,000 FLOPs that the rows do not split: those "
                                           r"of \w+ have neither FLOPs nor sizes"):
        profile.count  # noqa: B018
    assert dict(profile.counted("bf16").work) == {"bf16": 10**9}


def test_fp32_rows_whose_passes_are_unknown_are_no_count():
    """Two rows, one matmul: without the compiler's ids they look like two."""
    rows = [(0, 10, {"dtype": "fp32"}), (10, 20, {"dtype": "fp32"})]
    of = timelines.timeline(matmuls=rows, unknown=["instructions.passes"])
    summary = HBM | {"hardware_flops": 2 * ONE, "transpose_flops": 0}
    profile = timelines.profile(of, summary=summary)
    assert profile.matmul_flops == {}
    with pytest.raises(ProfileError, match="the passes of one fp32 matmul is not in the file"):
        profile.count  # noqa: B018
    assert dict(profile.counted("fp32").work) == {"fp32": 2 * ONE}  # as the summary has them
    of = timelines.timeline(matmuls=[(0, 10), (10, 20)], unknown=["instructions.passes"])
    assert dict(timelines.profile(of, summary=summary).count.work) == {"bf16": 2 * ONE}


def test_rows_whose_transposes_are_unknown_are_no_count():
    of = timelines.timeline(matmuls=[(0, 10), (10, 20)], unknown=["instructions.transpose"])
    summary = HBM | {"hardware_flops": 2 * ONE, "transpose_flops": ONE}
    profile = timelines.profile(of, summary=summary)
    with pytest.raises(ProfileError, match="which of them are transposes is not in the file"):
        profile.count  # noqa: B018
    assert dict(profile.counted("bf16").work) == {"bf16": ONE}
    part = profile.window(0, 10)
    assert "transpose_flops" not in part.summary and part.summary["hardware_flops"] == ONE
    with pytest.raises(ProfileError, match=r"summary\.transpose_flops: got None"):
        part.counted("bf16")
    none = timelines.profile(of, summary=summary | {"transpose_flops": 0})
    assert dict(none.count.work) == {"bf16": 2 * ONE}
    assert dict(none.window(0, 10).count.work) == {"bf16": ONE}


def test_transposes_that_the_summary_leaves_out_are_those_of_the_rows():
    of = timelines.timeline(matmuls=[(0, 10), (10, 20, {"transpose": True})])
    profile = timelines.profile(of, summary=HBM | {"hardware_flops": 2 * ONE})
    assert dict(profile.count.work) == {"bf16": ONE}
    more = timelines.profile(of, summary=HBM | {"hardware_flops": 3 * ONE})  # rows are missing
    with pytest.raises(ProfileError, match=r"summary\.transpose_flops: got None"):
        more.count  # noqa: B018
    assert dict(timelines.profile(of, summary=HBM).count.work) == {"bf16": ONE}


def test_without_a_dtype_there_is_no_count():
    alone = made(FUSED)
    with pytest.raises(ProfileError, match=r'268,435,456 FLOPs of .*counted\("bf16"\)'):
        alone.count  # noqa: B018
    assert dict(alone.counted("fp32").work) == {"fp32": 268435456}  # as it is: two passes
    of = timelines.timeline(matmuls=[(0, 10), (10, 20, {"dtype": ""})])
    some = timelines.profile(of, summary=HBM | {"hardware_flops": 2 * ONE})
    with pytest.raises(ProfileError, match="of a dtype that the file does not tell"):
        some.count  # noqa: B018
    assert dict(some.counted("fp8").work) == {"bf16": ONE, "fp8": ONE}
    assert dict(some.counted("bf16").work) == {"bf16": 2 * ONE}


@pytest.mark.parametrize("name", ["hardware_flops", "hbm_read_bytes", "hbm_write_bytes"])
def test_what_is_absent_is_no_zero(name):
    left = {key: value for key, value in FUSED.items() if key != name}
    with pytest.raises(ProfileError, match=f"made: summary.{name}: got None; expected a number"):
        made(left).counted("fp32")


def test_a_kernel_without_matmuls_needs_no_dtype():
    """An elementwise kernel of the 2025 profiler: no FLOPs in the file, intensity 0."""
    count = made(HBM | {"mm_arithmetic_intensity": 0}).count
    assert not count.work and count.hbm_bytes == 73


def test_damaged_counters_are_one_clear_error():
    with pytest.raises(ProfileError, match="transpose_flops: got 5 more than hardware_flops"):
        made(FUSED | {"hardware_flops": 5, "transpose_flops": 10}).counted("bf16")
    with pytest.raises(ProfileError, match="hbm_read_bytes: got -4; expected a number >= 0"):
        made(FUSED | {"hbm_read_bytes": -4}).counted("bf16")


# --- windows --------------------------------------------------------------------------------------


def test_a_window_holds_what_starts_and_what_is_active_in_it():
    part = timelines.profile(timelines.timeline(**ROWS)).window(5, 20)
    assert part.span == (5, 20) and len(part.timeline.packets) == 2
    assert dict(part.summary) == {
        "total_time": 15e-9, "tensor_engine_active_time": 15e-9, "vector_engine_active_time": 15e-9,
        "scalar_engine_active_time": 0, "gpsimd_engine_active_time": 0,
        "sync_engine_active_time": 0,
        "tensor_engine_instruction_count": 1, "vector_engine_instruction_count": 1,
        "scalar_engine_instruction_count": 0, "gpsimd_engine_instruction_count": 0,
        "sync_engine_instruction_count": 0, "matmul_instruction_count": 1,
        "hardware_flops": ONE, "transpose_flops": 0, "hbm_read_bytes": 70, "hbm_write_bytes": 3,
        "dma_active_time": 15e-9, "dma_transfer_total_bytes": 4096, "total_active_time": 15e-9}
    assert dict(part.count.work) == {"fp32": ONE // 2}  # one of two passes


def test_packets_that_are_no_traffic_are_active_and_move_nothing():
    of = timelines.timeline(vector=[(0, 4)], packets=[(2, 6), (7, 9, {"traffic": False})])
    part = timelines.profile(of).window(0, 9).summary
    assert (part["dma_active_time"], part["dma_transfer_total_bytes"]) == (6e-9, 4096)
    assert part["total_active_time"] == 8e-9


@given(st.sets(st.integers(1, 39), max_size=6))
def test_windows_side_by_side_add_up(cuts):
    profile = timelines.profile(timelines.timeline(**ROWS))
    edges = [0, *sorted(cuts), 40]
    parts = [profile.window(a, b) for a, b in pairwise(edges)]
    whole = profile.window(0, 40)
    for name, value in whole.summary.items():
        assert sum(part.summary[name] for part in parts) == pytest.approx(value, rel=1e-12), name
    for a, b in pairwise(edges):  # of a part, counted from the same start
        assert parts[0].window(a, b).summary == profile.window(a, b).summary


def test_a_window_leaves_out_what_the_file_does_not_tell():
    of = timelines.timeline(**ROWS, unknown=["instructions.read", "instructions.macs"])
    part = timelines.profile(of).window(0, 40).summary
    assert {"hbm_read_bytes", "hardware_flops", "transpose_flops"}.isdisjoint(part)
    assert part["hbm_write_bytes"] == 3
    of = replace(of, unknown=frozenset({"packets.traffic"}))
    part = timelines.profile(of).window(0, 40).summary
    assert "dma_transfer_total_bytes" not in part and part["dma_active_time"] == 20e-9
    part = timelines.profile(replace(of, unknown=frozenset({"packets"}))).window(0, 40).summary
    assert {"dma_active_time", "dma_transfer_total_bytes", "total_active_time"}.isdisjoint(part)
    part = timelines.profile(replace(of, unknown=frozenset({"instructions"}))).window(0, 40).summary
    assert set(part) == {"total_time", "dma_active_time", "dma_transfer_total_bytes"}


@pytest.mark.parametrize(("t0", "t1"), [(-1, 5), (5, 5), (6, 5), (0, 42), (0.5, 5), (0, math.nan),
                                      (None, 5), (0, "5"), (0, None), (0, math.inf), ([0], 5)])
def test_a_window_lies_within_the_timeline(t0, t1):
    profile = timelines.profile(timelines.timeline(**ROWS))
    with pytest.raises(ProfileError, match=r"expected whole ns with 0 <= t0 < t1 <= 41"):
        profile.window(t0, t1)


def test_a_part_says_that_its_bytes_are_booked_at_issue():
    """A transfer of 4096 B is issued in the first half and moves in the second."""
    of = timelines.timeline(issues=[(0, 2, {"read": 4096})], packets=[(50, 60)], vector=[(90, 99)])
    whole = replace(timelines.profile(of), warnings=("own",))
    first, second = whole.window(0, 40), whole.window(40, 99)
    assert [part.summary["hbm_read_bytes"] for part in (first, second)] == [4096, 0]
    assert [part.summary["dma_transfer_total_bytes"] for part in (first, second)] == [0, 4096]
    for part in (first, first.window(0, 5), second):
        assert part.warnings[0] == "own" and len(part.warnings) == 2
        assert "no point of a roofline" in part.warnings[1]
    assert whole.window(0, 99).warnings == ("own",)


def test_a_summary_alone_has_no_window():
    with pytest.raises(ProfileError, match=r"no timeline\. Read the json or parquet output"):
        made(FUSED).window(0, 10)


# --- clocks, throttling, activity -----------------------------------------------------------------


def test_clocks_say_what_they_include():
    """A 22 us kernel: total 22.3, active 16.9, execution 10.1; its benchmark is in no profile."""
    clocks = made({"total_time": 22.3e-6, "total_active_time": 16.9e-6,
                   "total_exec_time": 10.1e-6}).clocks()
    assert {row.name: row.seconds for row in clocks} == {
        "total": 22.3e-6, "execution": 10.1e-6, "active": 16.9e-6, "benchmark": None}
    assert "22.3 us" in repr(clocks) and "unknown" in repr(clocks)
    assert made({}).clocks()["total"].seconds is None


def test_our_throttle_limit_is_the_lowest_at_each_moment():
    of = timelines.timeline(vector=[(0, 100)], throttles=[
        (10, 30),                         # half
        (20, 40, {"k": 6}),               # three quarters, 20 to 30 covered by half
        (50, 60, {"k": 8}), (60, 70, {"k": 253, "n": 1}),  # released
        (80, 90, {"core": 1})])
    profile = timelines.profile(of)
    assert formulas.throttle_limit(profile, 0) == pytest.approx(1 - (20 / 2 + 10 / 4) / 100)
    assert formulas.throttle_limit(profile, 1) == pytest.approx(1 - 10 / 2 / 100)
    assert formulas.throttle_limit(profile.window(30, 40), 0) == 0.75
    assert formulas.throttle_limit(made(FUSED), 0) is None
    row = profile.check()["throttle limit of core 0"]
    assert row.recomputed == pytest.approx(0.875) and row.reasons == (formulas.OURS,)


def test_activity_is_the_files_own_or_all_rows_but_waits():
    rows = timelines.timeline(matmuls=[(10, 20)], control=[(0, 4)],
                              vector=[(0, 9, {"opcode": "EVENT_SEMAPHORE"}), (9, 12)])
    assert rows.activity("tensor").length == 10
    assert rows.activity("sync").length == 4  # DRAIN is control, and active
    assert rows.activity("vector").length == 3
    two = Spans.of(np.array([0, 8]), np.array([5, 9]))
    given = replace(rows, active={(0, "tensor"): Spans.one(3, 8), (1, "tensor"): two})
    assert [*given.activity("tensor")] == [(0, 9)]  # both cores, and 8 touches 8
    assert given.activity("vector").length == 0     # the file says when, and not of this engine


def test_what_a_profile_shows():
    shown = repr(replace(made(FUSED), warnings=("short", "long " * 100)))
    assert "made: measured, summary-json; 2 physical cores" in shown
    assert "38.09 us" in shown and "240.9 FLOP/B" in shown and "no timeline" in shown
    assert max(map(len, shown.splitlines())) <= 100
    part = repr(timelines.profile(timelines.timeline(**ROWS)).window(5, 20))
    assert "from 5 to 20 ns" in part and "5 instructions, 2 DMA packets" in part
    assert "core 0 of 1 worked" in part
    pair = timelines.timeline(vector=[(0, 9), (9, 20, {"core": 1})], cores=2)
    assert "cores 0, 1 of 2 worked" in repr(timelines.profile(pair))
    assert "no core of 2 worked" in repr(timelines.profile(timelines.timeline(cores=2)))
