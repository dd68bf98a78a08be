"""The profiler's counts against those of formula and code, by cause."""

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import timelines
from hypothesis import given
from hypothesis import strategies as st

import roofline.nki.isa as nisa
import roofline.nki.language as nl
from roofline import nki, ops
from roofline import profile as profiles
from roofline.count import Count
from roofline.profile import Profile, ProfileError, Tensor
from roofline.profile.compare import CAUSES, Amounts, compare

REAL = Path(__file__).parents[2] / "shared/reference/real-profiles"
ONE = 2 * 128 * 128 * 512  # FLOPs of one matmul of timelines
S, D = 512, 128
HALF = 2 * S * S * D       # FLOPs of Q K', and of A V: 67,108,864


def made(flops, read, written, transposes=0, tensors=(), cores=1, timeline=None, version="",
         **summary):
    counters = {"hardware_flops": flops, "transpose_flops": transposes, "hbm_read_bytes": read,
                "hbm_write_bytes": written, "spill_save_bytes": 0, "spill_reload_bytes": 0}
    return Profile("made", "json", "", counters | summary, {"explorer_version": version},
                   cores=cores, timeline=timeline, tensors=tuple(tensors))


def on_two_cores(flops, read, written, passes=1, dtype="bf16", transposes=0):
    """A timeline whose cores each hold these amounts, as the profiler counts them."""
    size = dict(K=0, M=0, N=0, dtype=dtype)
    matmuls, moved = [], []
    for core in (0, 1):
        for i in range(passes):
            matmuls.append((10 * i, 10 * i + 10, size | {
                "core": core, "passes": passes, "macs": flops // passes // 2}))
        if transposes:
            matmuls.append((90, 99, size | {"core": core, "transpose": True,
                                            "macs": transposes // 2}))
        moved.append((0, 9, {"core": core, "read": read, "written": written}))
    return timelines.timeline(matmuls=matmuls, vector=moved, cores=2)


def causes(comparison):
    """Those that are not nothing, after the sums and signs were found right."""
    for column in zip(*(amounts for _, amounts in comparison), strict=True):
        assert min(column) >= 0 or max(column) <= 0, comparison.causes
    found = [amounts for _, amounts in comparison]
    assert Amounts(*map(sum, zip(*found, strict=True))) == comparison.difference
    assert list(comparison.causes) == list(CAUSES)
    return {cause: tuple(amounts) for cause, amounts in comparison if any(amounts)}


def identity(nbytes):
    return Tensor("identity_45", "WEIGHT", (128, 128, 1, 1), nbytes)


# --- one cause at a time --------------------------------------------------------------------------

CODE = Count({"bf16": 1000, "fp32": 200}, 400, 100)  # W 1200


@pytest.mark.parametrize(("profile", "found"), [
    (made(1200, 400, 100), {}),
    (made(1230, 400, 100, transposes=30), {"transposes": (30, 0, 0)}),
    (made(1200, 400, 100, transposes=30), {}),             # no room for them: a note
    (made(1210, 400, 100, transposes=30), {"transposes": (10, 0, 0)}),
    (made(1170, 400, 100, transposes=30), {"unexplained": (-30, 0, 0)}),
    (made(1400, 400, 100, version="2.28.23.0"), {"fp32 passes": (200, 0, 0)}),
    (made(1400, 400, 100, version="2.26"), {"fp32 passes": (200, 0, 0)}),
    (made(1400, 400, 100, version="2.29"), {"unexplained": (200, 0, 0)}),  # it may count them once
    (made(1400, 400, 100), {"unexplained": (200, 0, 0)}),
    (made(1399, 400, 100, version="2.28"), {"unexplained": (199, 0, 0)}),
    (made(1200, 400, 100, tensors=[identity(64)]), {}),    # it may be among the 400
    (made(1200, 464, 100, tensors=[identity(64)]), {"constants": (0, 64, 0)}),
    (made(1200, 450, 100, tensors=[identity(64)]), {"constants": (0, 50, 0)}),
    (made(1200, 470, 100, tensors=[identity(64)]),
     {"constants": (0, 64, 0), "unexplained": (0, 6, 0)}),
    (made(1200, 390, 100, tensors=[identity(64)]), {"unexplained": (0, -10, 0)}),
    (made(1200, 464, 100, tensors=[replace(identity(64), role="IN")]),
     {"unexplained": (0, 64, 0)}),
    (made(1200, 464, 100, weight_size_bytes=64), {"unexplained": (0, 64, 0)}),  # or weights
    (made(1200, 450, 130, spill_reload_bytes=50, spill_save_bytes=30), {"spill": (0, 50, 30)}),
    (made(1200, 400, 110, spill_reload_bytes=50, spill_save_bytes=30), {"spill": (0, 0, 10)}),
    (made(1200, 380, 90), {"unexplained": (0, -20, -10)}),
    (made(2400, 800, 200, cores=2), {"unexplained": (1200, 400, 100)}),  # or one core's share
])
def test_each_cause(profile, found):
    comparison = compare(CODE, profile)
    assert causes(comparison) == found
    assert comparison.explained == ("unexplained" not in found)


def both(each, cores=2, spill=0, reload=0, tensors=(), **more):
    """Totals of a pair whose cores each hold `each`: FLOPs, bytes read and written."""
    flops, read, written = each
    timeline = on_two_cores(flops - more.get("transposes", 0), read, written, **more)
    return made(2 * flops, 2 * read, 2 * written, 2 * more.get("transposes", 0), tensors, cores,
                timeline, spill_save_bytes=2 * spill, spill_reload_bytes=2 * reload)


@pytest.mark.parametrize(("profile", "found"), [
    (both((1200, 400, 100)), {"LNC doubling": (1200, 400, 100)}),
    # each core: 1200 FLOPs of work, 30 of transposes; 30 B written, 10 of them spilled
    (both((1230, 464, 110), transposes=30, spill=10, tensors=[identity(64)]),
     {"LNC doubling": (1230, 464, 110), "transposes": (30, 0, 0), "spill": (0, 0, 10),
      "constants": (0, 64, 0)}),
    # each core: an fp32 matmul in two passes, 1200 FLOPs each
    (both((2400, 400, 100), dtype="fp32", passes=2),
     {"LNC doubling": (2400, 400, 100), "fp32 passes": (1200, 0, 0)}),
    (both((1200, 400, 100), cores=1), {"unexplained": (1200, 400, 100)}),      # no pair
    (both((600, 400, 100)), {"unexplained": (0, 400, 100)}),                   # work is not doubled
    (both((1200, 400, 99)), {"unexplained": (1200, 400, 98)}),
    (both((1200, 400, 101)), {"unexplained": (1200, 400, 102)}),
    (both((1200, 399, 100)), {"unexplained": (1200, 398, 100)}),
    # 10 of the 400 B that each core reads are spilled ones: 390 are too few
    (both((1200, 400, 100), reload=10), {"spill": (0, 20, 0), "unexplained": (1200, 380, 100)}),
])
def test_doubling_by_the_sums_of_each_core(profile, found):
    assert causes(compare(CODE, profile)) == found


def test_totals_alone_do_not_show_doubling():
    (note, more) = compare(CODE, made(2400, 800, 200, cores=2)).notes
    assert note.startswith("LNC doubling: the profile has just twice what the code counts")
    assert "or the code's count is that of one core's share; a timeline" in note
    assert more == ("unexplained: more would tell rows of a timeline (json, parquet) that tell "
                    "passes and transposes; the list of tensors (json, parquet)")
    lacks = replace(both((1200, 400, 100)).timeline, unknown=frozenset({"instructions.read"}))
    found = compare(CODE, replace(both((1200, 400, 100)), timeline=lacks))
    assert set(causes(found)) == {"unexplained"} and found.notes[0] == note


def test_cores_that_split_the_work_unevenly_did_not_double_it():
    """One core reads 500 of 800 B, and writes 120 of 200: the totals are double all the same."""
    profile = both((1200, 400, 100))
    own = profile.timeline.instructions
    for column, shares in (("read", (500, 300)), ("written", (120, 80)), ("macs", (700, 500))):
        value = getattr(own, column).copy()
        value[np.flatnonzero(value)] = shares
        uneven = replace(profile.timeline, instructions=replace(own, **{column: value}))
        found = causes(compare(CODE, replace(profile, timeline=uneven)))
        assert found == {"unexplained": (1200, 400, 100)}, column


def test_rows_that_book_no_bytes_are_no_evidence_of_doubling():
    profile = both((1200, 400, 100))
    none = on_two_cores(1200, 0, 0)
    assert causes(compare(CODE, replace(profile, timeline=none))) == {
        "unexplained": (1200, 400, 100)}


def test_what_found_no_room_is_noted():
    (note,) = compare(CODE, made(1210, 400, 100, transposes=30)).notes
    assert note.startswith("transposes: the profile has 30 FLOP, and what is left to explain "
                           "holds 10 FLOP of it")
    (note,) = compare(CODE, made(1200, 400, 100, spill_reload_bytes=5, spill_save_bytes=3)).notes
    assert note.startswith("spill: the profile has 5 B read, 3 B written, and what is left to "
                           "explain holds nothing of it")


def test_what_may_be_a_cause_is_noted_and_not_claimed():
    (passes, rest) = compare(CODE, made(1400, 400, 100)).notes
    assert passes.startswith("fp32 passes: what is left is just the fp32 work once more")
    assert rest.startswith("unexplained: more would tell rows of a timeline")
    (weights,) = compare(CODE, made(1200, 464, 100, weight_size_bytes=64)).notes
    assert weights.endswith("(json, parquet): weights are 64 B, constants or what the code leaves "
                            "out")
    (saved,) = compare(CODE, made(1200, 390, 100, tensors=[identity(64)])).notes
    assert saved == ("unexplained: more would tell a Run of the code, which knows what it loads "
                     "again")


@given(*[st.integers(0, 3000)] * 7, st.sampled_from([1, 2]), st.integers(0, 100))
def test_causes_sum_and_never_have_the_other_sign(flops, transposes, read, written, saved, loaded,
                                                  mine, cores, weight):
    profile = made(flops + transposes, read, written, transposes, [identity(weight)], cores,
                   version="2.28", spill_save_bytes=saved, spill_reload_bytes=loaded)
    found = compare(Count({"fp32": mine}, mine // 3, mine // 5), profile)
    causes(found)
    assert 0 <= found["transposes"].flops <= transposes
    assert 0 <= found["spill"].read <= loaded and 0 <= found["spill"].written <= saved
    assert 0 <= found["constants"].read <= weight and found["fp32 passes"].flops in (0, mine)


def test_a_missing_transpose_counter_is_said():
    profile = made(1200, 400, 100)
    left = {k: v for k, v in profile.summary.items() if k not in ("transpose_flops",
                                                                  "spill_save_bytes")}
    assert compare(CODE, replace(profile, summary=left)).notes == (
        "transpose_flops is unknown: the file does not have it",
        "spill_save_bytes is unknown: the file does not have it")


# --- with a timeline ------------------------------------------------------------------------------


def rows(*matmuls, cores=1, **more):
    placed = [(10 * i, 10 * i + 10, row) for i, row in enumerate(matmuls)]
    return timelines.timeline(matmuls=placed, cores=cores, **more)


def test_passes_are_read_from_the_rows():
    fp32 = {"dtype": "fp32", "passes": 2}
    profile = made(4 * ONE, 9, 9, ONE, timeline=rows({}, fp32, fp32, {"transpose": True}))
    found = compare(Count({"bf16": ONE, "fp32": ONE}, 9, 9), profile)
    assert causes(found) == {"transposes": (ONE, 0, 0), "fp32 passes": (ONE, 0, 0)}


@pytest.mark.parametrize(("read", "booked", "lacks", "fetched"), [
    (4096 + 512, 4096, (), 512),   # what no instruction reads is just what was fetched
    (4096, 4096, (), 0),           # as real files of 2.28: fetch is in packets, not in hbm_*_bytes
    (4096 + 512, 4608, (), 0),     # an instruction read them; a copy in HBM has one packet for both
    (4096 + 513, 4096, (), 0),
    (4096 + 512, 4096, ("packets.traffic",), 0),
    (4096 + 512, 4096, ("instructions.read",), 0),
    (4096 + 512, 4096, ("instructions",), 0),
])
def test_instruction_fetch_counts_only_where_nothing_else_read_the_bytes(read, booked, lacks,
                                                                         fetched):
    moved = [(0, 9), (9, 12, {"nbytes": 512, "traffic": False}),
             (12, 13, {"nbytes": 4, "traffic": False})]
    timeline = rows({}, packets=moved, issues=[(0, 2, {"read": booked})], unknown=lacks)
    found = causes(compare(Count({"bf16": ONE}, 4096, 0), made(ONE, read, 0, timeline=timeline)))
    rest = read - 4096 - fetched
    assert found == {cause: (0, amount, 0) for cause, amount in (
        ("instruction fetch", fetched), ("unexplained", rest)) if amount}


def test_passes_take_no_more_than_is_left():
    """The rows hold ONE FLOP twice; the code counts all of it as work, or all but 5."""
    fp32 = {"dtype": "fp32", "passes": 2}
    profile = made(2 * ONE, 9, 9, timeline=rows(fp32, fp32))
    assert not causes(compare(Count({"fp32": 2 * ONE}, 9, 9), profile))
    found = compare(Count({"fp32": 2 * ONE - 5}, 9, 9), profile)
    assert causes(found) == {"fp32 passes": (5, 0, 0)} and found.notes


def test_rows_that_show_no_passes_outweigh_a_coincidence():
    """Two fp32 matmuls of one pass each, where the code counts one: its FLOPs once more."""
    fp32 = {"dtype": "fp32"}
    profile = made(2 * ONE, 9, 9, timeline=rows(fp32, fp32), version="2.28")
    assert causes(compare(Count({"fp32": ONE}, 9, 9), profile)) == {"unexplained": (ONE, 0, 0)}


def test_rows_without_flops_of_their_own_show_no_passes():
    found = compare(Count({"bf16": 2 * ONE}, 9, 9), made(ONE, 9, 9, timeline=rows({"macs": 0})))
    assert causes(found) == {"unexplained": (-ONE, 0, 0)} and not found.notes


@pytest.mark.parametrize("counted", [2, 1])  # by the summary: each pass, or the matmul
def test_passes_are_known_by_sizes_where_a_file_has_no_flops_of_rows(counted):
    fp32 = {"dtype": "fp32", "passes": 2, "macs": 0}
    of = rows(fp32, fp32, unknown=["instructions.macs"])
    found = compare(Count({"fp32": ONE}), made(counted * ONE, 0, 0, timeline=of))
    assert causes(found) == ({"fp32 passes": (ONE, 0, 0)} if counted == 2 else {})
    assert not any("fp32 passes" in note for note in found.notes)


def test_rows_that_cannot_tell_passes_are_no_evidence():
    """Two fp32 rows, one matmul; without an id of the compiler's instruction they look like two."""
    lacks = rows({"dtype": "fp32"}, {"dtype": "fp32"}, unknown=["instructions.passes"])
    code = Count({"fp32": ONE}, 9, 9)
    assert causes(compare(code, made(2 * ONE, 9, 9, timeline=lacks))) == {
        "unexplained": (ONE, 0, 0)}
    assert causes(compare(code, made(2 * ONE, 9, 9, timeline=lacks, version="2.28"))) == {
        "fp32 passes": (ONE, 0, 0)}


def test_transposes_that_the_summary_leaves_out_come_from_the_rows():
    profile = made(2 * ONE, 9, 9, timeline=rows({}, {"transpose": True}))
    left = {k: v for k, v in profile.summary.items() if k != "transpose_flops"}
    found = compare(Count({"bf16": ONE}, 9, 9), replace(profile, summary=left))
    assert causes(found) == {"transposes": (ONE, 0, 0)} and not found.notes
    assert found.intensity == ONE / 18


def test_an_idle_core_did_not_double_anything():
    alone = rows({}, {}, cores=2, vector=[(0, 9, {"read": 100, "written": 60})])
    found = causes(compare(Count({"bf16": ONE}, 50, 30),
                           made(2 * ONE, 100, 60, cores=2, timeline=alone)))
    assert found == {"unexplained": (ONE, 50, 30)}


# --- ops and runs ---------------------------------------------------------------------------------


def test_an_op_stands_for_its_count():
    mm = ops.Matmul(M=128, K=128, N=512)
    p = 2  # bytes an element of bf16
    profile = made(ONE, p * (128 * 128 + 128 * 512), p * 128 * 512)
    assert not causes(compare(mm, profile))


def test_another_profile_stands_for_its_count():
    of = rows({}, {})
    profile = made(2 * ONE, 70, 3, timeline=of, tensors=[identity(64)])
    assert not causes(compare(profile, profile))
    more = replace(profile, summary={**profile.summary, "hbm_write_bytes": 8})
    assert causes(compare(profile, more)) == {"unexplained": (0, 0, 5)}


def product(a, b):
    """a [K, M].T @ b [K, N], a loaded again for each 512 columns of b."""
    (K, M), (_, N) = a.shape, b.shape
    out = nl.ndarray((M, N), nl.float32, buffer=nl.shared_hbm)
    for n in range(N // 512):
        acc = nl.ndarray((M, 512), nl.float32, buffer=nl.psum)
        left, right = nl.ndarray((K, M), a.dtype), nl.ndarray((K, 512), b.dtype)
        nisa.dma_copy(left, a)
        nisa.dma_copy(right, b[:, n * 512:(n + 1) * 512])
        nisa.nc_matmul(acc, left, right)
        done = nl.ndarray((M, 512), nl.float32)
        nisa.tensor_copy(done, acc)
        nisa.dma_copy(out[:, n * 512:(n + 1) * 512], done)
    return out


SIZES = ((128, 128), np.float32), ((128, 1024), np.float32)
A, B, OUT = 4 * 128 * 128, 4 * 128 * 1024, 4 * 128 * 1024  # bytes; A is loaded twice


@pytest.mark.parametrize(("read", "tensors", "found"), [
    (2 * A + B, [], {}),
    (A + B, [], {"reload saved by the compiler": (0, -A, 0)}),
    # a saved reload and a constant cancel in part: which part is not known, so nothing is claimed
    (A + B + 64, [identity(64)], {"reload saved by the compiler": (0, 64 - A, 0)}),
    (2 * A + B, [identity(64)], {}),
    (2 * A + B + 64, [identity(64)], {"constants": (0, 64, 0)}),
    (A + B + 64, [], {"reload saved by the compiler": (0, 64 - A, 0)}),
    (B, [], {"reload saved by the compiler": (0, -A, 0), "unexplained": (0, -A, 0)}),
    # a weight of the run's own is no constant
    (2 * A + B + 64, [Tensor("a", "WEIGHT", (128, 128), A)], {"unexplained": (0, 64, 0)}),
])
def test_a_run_knows_what_it_loads_again(read, tensors, found):
    run = nki.run(product, *SIZES, data=False)
    assert [t.reload for t in run.tensors][:2] == [2, 1]
    comparison = compare(run, made(2 * ONE, read, OUT, tensors=tensors))
    assert causes(comparison) == found
    hidden = tensors == [identity(64)] and "constants" not in found
    assert any("a saved reload may hide them" in note for note in comparison.notes) == hidden


def test_a_run_of_both_cores_is_not_doubled_again():
    def both(a, b):
        return product(a, b)

    run = nki.run(nki.jit(both)[2], *((shape, ml_dtypes.bfloat16) for shape, _ in SIZES),
                  data=False)
    assert run.lnc == 2 and run.count.flops == 4 * ONE
    again = made(8 * ONE, 2 * run.count.hbm_read_bytes, 4 * OUT, cores=2,
                 timeline=on_two_cores(4 * ONE, run.count.hbm_read_bytes, 2 * OUT))
    assert "LNC doubling" in causes(compare(run.count, again))  # a Count has no cores
    assert set(causes(compare(run, again))) == {"unexplained"}
    assert not causes(compare(run, made(4 * ONE, run.count.hbm_read_bytes, 2 * OUT, cores=2)))


def test_the_profiler_column_of_nki_takes_a_profile():
    run = nki.run(product, *SIZES, data=False)
    mm = ops.Matmul(M=128, K=128, N=1024, dtype="fp32")
    fp32 = {"dtype": "fp32", "passes": 2}
    profile = made(4 * ONE, A + B, OUT, timeline=rows(*[fp32] * 4))
    table = nki.compare(mm, None, run, profile)
    assert list(table.counts) == ["formula", "code", "profiler"]
    assert table.differences["W, FLOP"] == {"formula": 0, "profiler": 0}  # passes count once
    assert table.differences["Q read, B"] == {"formula": A, "profiler": -A}
    with pytest.raises(ProfileError, match="of a dtype that the file does not tell"):
        nki.compare(mm, None, run, made(2 * ONE, A + B, OUT))
    alone = made(2 * ONE, A + B, OUT).counted("fp32")
    assert nki.compare(mm, None, mm.algorithmic, alone).agree


@pytest.mark.parametrize("what", [3, None, "text", [CODE]])
def test_only_counts_and_profiles_compare(what):
    with pytest.raises(ProfileError, match=r"compare: got .*; expected a Count, or an op"):
        compare(what, made(1, 1, 1))
    with pytest.raises(ProfileError, match=r"compare: got .*; expected a Count, or an op"):
        compare(CODE, what)


@pytest.mark.parametrize("name", ["hardware_flops", "hbm_read_bytes", "hbm_write_bytes"])
def test_an_absent_counter_is_no_zero(name):
    profile = made(1200, 400, 100)
    left = {k: v for k, v in profile.summary.items() if k != name}
    with pytest.raises(ProfileError, match=f"made: summary.{name}: got None"):
        compare(CODE, replace(profile, summary=left))


def test_the_profilers_intensity_leaves_all_transposes_out():
    """Each core: 1200 of work, 30 of transposes, 500 B: 2400 / 1000, doubled or not."""
    assert compare(CODE, both((1230, 400, 100), transposes=30)).intensity == 2.4
    assert compare(CODE, made(1200, 400, 100, transposes=700)).intensity == 1.0
    profile = made(1200, 400, 100)
    left = {k: v for k, v in profile.summary.items() if k != "transpose_flops"}
    assert compare(CODE, replace(profile, summary=left)).intensity is None


def test_what_a_comparison_shows():
    shown = repr(compare(CODE, made(1430, 470, 100, 30, [identity(64)], version="2.28")))
    head, code, *found = shown.splitlines()
    assert " ".join(head.split()) == "W, FLOP Q read, B Q written, B I, FLOP/B"
    assert code.split() == ["code", "1,200", "400", "100", "2.4"]
    assert [" ".join(line.split()) for line in found[:4]] == [
        "transposes +30", "fp32 passes +200", "constants +64", "unexplained 0 +6 0"]
    assert found[4].split() == ["profiler", "1,430", "470", "100", "2.456"]  # 1400 / 570
    assert "identity_45 64 B" in shown and max(map(len, shown.splitlines())) <= 98


def test_a_modelled_profiles_count_is_the_models():
    own = made(1430, 470, 100, 30)
    both = [compare(CODE, replace(own, kind=kind)) for kind in ("measured", "modelled")]
    last = [[line for line in repr(one).splitlines() if "1,430" in line] for one in both]
    assert [[line.split()[0] for line in lines] for lines in last] == [["profiler"], ["model"]]
    assert both[0].causes == both[1].causes and "profiler  " not in repr(both[1])


# --- real files -----------------------------------------------------------------------------------

# Attention, fused, S = 512, d = 128, on one core of an LNC=2 pair of trn2, profiler 2.28: counters
# from allenkchau/trainium-kernel-fusion, MIT. By hand: q, k, v read and the output written once.
# The bf16 kernel's second product runs in fp32.
CASES = {
    "bf16": (Count({"bf16": HALF, "fp32": HALF}, 3 * S * D * 2, S * D * 2),
             made(285212672, 491520, 131072, 83886080, cores=2, version="2.28",
                  tensors=[identity(32768), replace(identity(65536), name="identity_54")]),
             {"transposes": (83886080, 0, 0), "fp32 passes": (HALF, 0, 0),  # F is 1.5 W
              "constants": (0, 98304, 0)}),
    "fp32": (Count({"fp32": 2 * HALF}, 3 * S * D * 4, S * D * 4),
             made(352321536, 851968, 262144, 83886080, cores=2, version="2.28",
                  tensors=[identity(65536)]),
             {"transposes": (83886080, 0, 0), "fp32 passes": (2 * HALF, 0, 0),  # F is 2 W
              "constants": (0, 65536, 0)}),
}


@pytest.mark.parametrize("dtype", CASES)
def test_real_attention_is_explained_to_the_last_byte(dtype):
    count, profile, found = CASES[dtype]
    assert causes(compare(count, profile)) == found
    size = sum(t.nbytes for t in profile.tensors)
    without = replace(profile, tensors=(),
                      summary={**profile.summary, "weight_size_bytes": size})
    comparison = compare(count, without)  # no list of tensors: they may be forgotten weights
    assert causes(comparison) == {
        cause: amounts for cause, amounts in found.items() if cause != "constants"} | {
        "unexplained": (0, size, 0)}
    assert f"weights are {size:,} B" in comparison.notes[-1]


@pytest.mark.parametrize("dtype", CASES)
def test_the_real_files_say_so(dtype):
    path = REAL / f"trn2-lnc2-attn-fused-{dtype}-s512.full.json"
    if not path.exists():
        pytest.skip("../shared/reference/real-profiles is not here")
    count, printed, found = CASES[dtype]
    profile = profiles.read(path)
    for name, value in printed.summary.items():
        absent = name.startswith("spill_")  # of 2.28 without DGE notifications
        assert profile.get(name) == (None if absent else value), name
    comparison = profiles.compare(count, profile)
    assert causes(comparison) == found and comparison.explained
    assert {t.nbytes for t in profile.tensors if t.role == "WEIGHT"} == {
        t.nbytes for t in printed.tensors}


def test_a_kernel_launched_on_two_cores_without_a_split_did_everything_twice():
    """Published: FLOPs 9.093 -> 18.187 G, HBM read 11.34 -> 22.68 MB; here the fp32 attention."""
    count, profile, found = CASES["fp32"]
    W, moves = 352321536 - 83886080, 83886080
    of = on_two_cores(W, 851968, 262144, passes=2, dtype="fp32", transposes=moves)
    twice = made(2 * (W + moves), 2 * 851968, 2 * 262144, 2 * moves, cores=2, timeline=of,
                 tensors=profile.tensors)
    assert causes(compare(count, twice)) == found | {"LNC doubling": (352321536, 851968, 262144)}
