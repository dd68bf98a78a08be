"""Published compute kernels: their figures by hand, their conditions, the model beside them."""

import csv
import re

import pytest
from pages import ROOT

from roofline import device, machine, ops
from roofline.count import Count
from roofline.device.comparable import LEFT_OUT, SPLIT
from roofline.neuroncore import report
from roofline.neuroncore.rows import rows

PUBLISHED = ROOT.parent / "shared/reference/measurements.csv"
# P of one core, FLOP/s: 128 x 128 multipliers x 2 FLOP x clock; fp32 at a quarter.
P = {("trn2", "bf16"): 2 * 128 * 128 * 2.4e9, ("trn2", "fp32"): 2 * 128 * 128 * 2.4e9 / 4,
     ("trn1", "bf16"): 2 * 128 * 128 * 2.8e9, ("trn1", "fp32"): 2 * 128 * 128 * 2.8e9 / 4}
SWIGLU = ops.SwiGLU(4096, 1024, 3072, dtype="fp32")


@pytest.fixture(scope="module")
def everything():
    return device.published_kernels("")


@pytest.fixture(scope="module")
def theirs():
    if not PUBLISHED.exists():
        pytest.skip(f"../{PUBLISHED.relative_to(ROOT.parent)} is not here")
    with PUBLISHED.open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


# --- what is found -------------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "chip", "ids"), [
    (ops.Matmul(2048, 2048, 2048), None, "M08 M05 M06 M03 M09 M01"),
    (ops.Matmul(2048, 2048, 2048), "trn2", "M08 M05 M06 M03 M09 M01"),
    (ops.Linear(2048, 2048, 2048), "trn2", "M08 M05 M06 M03 M09 M01"),
    (ops.Matmul(2048, 2048, 2048).named(A="x"), None, "M08 M05 M06 M03 M09 M01"),
    (ops.Matmul(2048, 2048, 2048), "trn1", ""),
    (ops.Matmul(2048, 2048, 2048, "fp32"), None, "M41"),
    (ops.Matmul(4096, 4096, 4096), "trn1", "M14 M17 M16"),
    (ops.Matmul(4096, 4096, 4096), "inf2", "M14 M17 M16"),
    (ops.Matmul(4096, 4096, 4096), "trn2", ""),
    (ops.Matmul(8192, 8192, 8192), None, "M18 M22 M20 M10"),
    (ops.Matmul(4096, 8192, 8192), None, "M24 M26 M28"),
    (ops.Matmul(8192, 4096, 8192), None, ""),
    (SWIGLU, None, "F01 F02 F04"), (SWIGLU, "inf2", "F01"), (SWIGLU.unfused, "trn2", "F02 F04"),
    (ops.SwiGLU(4096, 1024, 3072, 2, "fp32", "fp32", 5), "trn1", "F01"),
    (ops.SwiGLU(4096, 1024, 3072), None, ""),
    (ops.Matmul(1024, 2048, 4096), None, ""),  # F21 adds a bias and a GELU to it
    ("GEMM + bias + GELU", None, "F17 F16 F19 F21 F23 F25 F26"),
    ("gemm +  BIAS + gelu, two", "trn2", "F17 F23"), ("GEMM + bias + GELU", "inf2", ""),
    ("SwiGLU", "trn2", "F02 F04"), ("rope", None, ""), ("SwiGLU", "trn3", ""),
])
def test_what_is_found(what, chip, ids):
    assert " ".join(row.id for row in device.published_kernels(what, chip)) == ids


def test_every_row_of_a_gemm_or_an_mlp_is_shown_or_says_why_not(everything):
    kinds = {row.id for row in rows().values() if row.kind in ("gemm", "fused")}
    assert {row.id for row in everything} == kinds - {*LEFT_OUT} and {*LEFT_OUT} <= kinds
    text = " ".join(repr(everything).split())
    for id, why in LEFT_OUT.items():
        assert f"not shown: {id}, {rows()[id].op}: {why}" in text


def test_nothing_found_says_so_and_what_is_near():
    text = " ".join(repr(device.published_kernels(ops.Matmul(1024, 1024, 1024), "trn1")).split())
    assert text.startswith("Nothing comparable is published of Matmul(M=1024, K=1024, N=1024, "
                           "dtype='bf16') on trn1")
    assert "Near it: GEMM, M2048 K2048 N2048, bf16 on trn2 (M01 M03 M05 M06 M08 M09)" in text
    text = repr(device.published_kernels(ops.SwiGLU(2048, 1024, 3072)))
    assert "(F01)" in text and "(F02 F04)" in text and "M01" not in text
    text = repr(device.published_kernels(ops.MLP(2048, 1024, 4096)))  # none of this kind at all
    assert text.startswith("Nothing") and "Near it: " in text
    text = repr(device.published_kernels("conv", "trn2"))
    assert "'conv' on trn2" in text and "SwiGLU MLP (3 GEMMs)" in text
    assert "nor anything near" in repr(device.published_kernels("GEMM", "trn3")).lower()
    text = repr(device.published_kernels("FP8"))
    assert "Nothing" in text and "not shown: M39, FP8 double-row GEMM: a test's ceiling" in text
    assert "M39" not in repr(device.published_kernels("FP8", "trn1"))


def test_an_unknown_chip_row_or_kind_of_question():
    with pytest.raises(machine.MachineError, match=r"no such machine.*trn9"):
        device.published_kernels("GEMM", "trn9")
    with pytest.raises(device.MeasureError, match="no row 'M14' here; there are: M08, M05"):
        device.published_kernels(ops.Matmul(2048, 2048, 2048)).row("M14")
    with pytest.raises(device.MeasureError, match=r"expected an op.*or words"):
        device.published_kernels(Count({"bf16": 1}, 1, 1))


# --- figures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("id", "us", "percent"), [
    ("M08", 1365.4, 16.0), ("M05", 367.2, 59.5), ("M06", 263.5, 82.9), ("M03", 252.1, 86.65),
    ("M09", 244.1, 89.5), ("M01", 240.3, 90.92)])
def test_the_same_work_at_six_shares_of_the_peak(id, us, percent):
    """Published as utilisations; T follows, and with it the share again."""
    row = device.published_kernels(ops.Matmul(2048, 2048, 2048))[id]
    assert row.count == row.least == Count({"bf16": 2 * 2048**3}, 2 * 2 * 2048**2, 2 * 2048**2)
    assert row.seconds == pytest.approx(us / 1e6)
    assert row.share == pytest.approx(2 * 2048**3 / (us * 1e-6) / P["trn2", "bf16"])
    assert 100 * row.share == pytest.approx(percent, abs=0.05)
    assert row.share == pytest.approx(row.of_roof)  # 683 FLOP/B: compute binds
    assert (row.kind, row.stated, row.moved) == ("derived", "utilisation", None)


@pytest.mark.parametrize(("id", "tflops", "moved", "transfers", "mean"), [
    ("M14", 36.62, 631.3e6, 247_017, 2.56e3), ("M17", 54.78, 236.2e6, 34_031, 6.94e3),
    ("M16", 71.78, 269.5e6, 94_190, 2.86e3)])
def test_matmuls_whose_bytes_were_published(id, tflops, moved, transfers, mean):
    found = device.published_kernels(ops.Matmul(4096, 4096, 4096), "trn1")
    row = found[id]
    assert row.rate == pytest.approx(tflops * 1e12, rel=1e-4)
    assert row.share == pytest.approx(tflops * 1e12 / P["trn1", "bf16"], rel=1e-4)
    assert row.moved == row.count.hbm_bytes == moved and row.transfers == transfers
    assert moved / transfers == pytest.approx(mean, abs=5)
    assert row.least.hbm_bytes == 3 * 2 * 4096**2
    assert row.count.intensity == pytest.approx(2 * 4096**3 / moved)
    roof = max(2 * 4096**3 / P["trn1", "bf16"], moved / 410e9)
    assert row.of_roof == pytest.approx(roof / row.seconds)
    assert row.entitled.binds == ("HBM" if id == "M14" else "compute")
    assert f"{transfers:,} transfers, mean {mean / 1e3:g} kB" in repr(found)


def test_the_gated_mlp_on_two_chips():
    W = 3 * 2 * 4096 * 1024 * 3072
    least = 4 * (2 * 4096 * 1024 + 3 * 1024 * 3072)
    for id, us, moved in (("F01", 4221.8, 225_509_376), ("F02", 4405.8, 624e6)):
        row = device.published_kernels(SWIGLU)[id]
        assert (row.count.flops, row.least.hbm_bytes, row.moved) == (W, least, moved)
        assert row.share == pytest.approx(W / (us * 1e-6) / P[row.chip, "fp32"])
    # twice the published median of 2.2079 ms, less 10 us
    assert row.seconds == pytest.approx(2 * 2207.9e-6 - 10e-6) and row.kind == "derived"
    assert device.published_kernels(SWIGLU)["F01"].kind == "published"


@pytest.mark.parametrize(("id", "W", "us", "parts"), [
    ("F04", 3 * 2 * 4096 * 1024 * 3072, 4033.8, 3), ("F11", 2 * 4096 * 1024 * 2048, 727.6, 1),
    ("F13", 2 * 4096 * 2048 * 2048, 1537.3, 1)])
def test_three_bf16_products_have_a_peak_of_their_own(everything, id, W, us, parts):
    """One part of W takes three bf16 products, the others run in fp32."""
    row = everything[id]
    compute = (W - W / parts) / P["trn2", "fp32"] + 3 * W / parts / P["trn2", "bf16"]
    assert row.count.work == {"fp32": W}
    assert row.peak == pytest.approx(W / compute)
    assert row.share == pytest.approx(compute / (us * 1e-6)) and row.share < 1
    assert row.id in SPLIT
    assert f"{id}: three bf16 products" in repr(everything)


def test_small_gemms_are_bound_by_bytes(everything):
    """One core: at LNC=2 both ran all of it."""
    row = everything["F16"]
    Q = 2 * (128 * 128 + 128 * 512 + 512 + 128 * 512)
    assert (row.least.flops, row.least.hbm_bytes) == (2 * 128 * 128 * 512, Q)
    assert row.of_roof == pytest.approx(Q / 375e9 / 19e-6) and row.entitled.binds == "HBM"
    assert row.share == pytest.approx(2 * 128 * 128 * 512 / 19e-6 / P["trn2", "bf16"])
    assert "F16: HBM binds" in repr(everything) and row.machine.scope == "core"
    assert everything["F17"].least == row.least  # of the op as one kernel


@pytest.mark.parametrize(("id", "W", "Q"), [
    ("M32", 16 * 2 * 4096 * 64 * 4096, 16 * 4 * (2 * 4096 * 64 + 4096 * 4096)),
    ("F05", 2 * 4096 * 1024 * 2048, 4 * (4096 * 1024 + 1024 * 2048 + 4096 * 2048)),
    ("F07", 2 * 4096 * 1024 * 2048, 4 * (2 * 4096 * 1024 + 1024 + 1024 * 2048 + 4096 * 2048)),
    ("F09", 2 * 4096 * 2048 * 2048, 4 * (4096 * 2048 + 2048 * 2048 + 2048 + 2 * 4096 * 2048)),
    ("F28", 2 * 4096 * (5120 * 12288 + 128 * (5120 + 12288)),
     4 * (4096 * 5120 + 5120 * 12288 + 128 * (5120 + 12288) + 4096 * 12288)),
])
def test_work_and_least_bytes_of_the_others(everything, id, W, Q):
    assert (everything[id].least.flops, everything[id].least.hbm_bytes) == (W, Q)


def test_bytes_that_a_profile_tells_exactly(everything):
    """F07: the least Q, a scale a column in it, and a 128 x 128 fp32 identity for transposes."""
    assert everything["F07"].moved == everything["F07"].least.hbm_bytes + 4 * 128 * 128


def test_work_and_bytes_as_the_reference_has_them(everything, theirs):
    for row in everything:
        published = theirs[row.id]
        assert row.least.flops == pytest.approx(float(published["W_flop"]), rel=5e-4), row.id
        assert row.least.hbm_bytes == int(published["Q_min_bytes"]), row.id
        # of F04 the reference has the fp32 roof there, and that of the mix in words
        assert row.id == "F04" or row.peak == pytest.approx(
            1e12 * float(published["P_used_TFLOPs"]), rel=1e-3), row.id
    assert "mixed roof is 3604 us" in theirs["F04"]["flag"]
    assert 1e6 * everything["F04"].entitled.t_best == pytest.approx(3604, abs=1)


# --- conditions ----------------------------------------------------------------------------------


def test_every_row_has_conditions(everything):
    text = " ".join(repr(everything).split())
    for row in everything:
        assert row.conditions and row.source, row.id
        assert row.conditions in text and row.source in text, row.id
        assert row.why_not == rows()[row.id].reason and row.seconds > 0


def test_conditions_are_facts_of_the_reference(everything, theirs):
    """Their numbers are the reference's; the transfers; what was published in place of a time."""
    for row in everything:
        notes = theirs[row.id]
        told = " ".join(notes[name] for name in (
            "kernel_notes", "engine_active_pct", "stated_figure", "flag", "scope", "shape"))
        known = {float(n) for n in re.findall(r"\d+(?:\.\d+)?", told)}
        words = re.sub(r"\b(M\d\d|fp32|bf16)\b", "", row.conditions)
        mine = {float(n) for n in re.findall(r"\d+(?:\.\d+)?", words)}
        assert mine <= known, (row.id, mine - known)
        found = re.search(r"(\d+) DMA transfers, mean ([\d.]+) KB", notes["engine_active_pct"])
        assert row.transfers == (int(found[1]) if found else None)
        if found:
            assert row.moved / row.transfers == pytest.approx(1e3 * float(found[2]), abs=5)
        assert ("LNC=2" in row.conditions) == ("LNC=2" in notes["scope"])
        for theirs_say, we_say in (("double-buffered", "two buffers"),
                                   ("single-buffered", "one buffer"),
                                   ("transposed", "transpose"), ("compiler baseline", "compiler"),
                                   ("three bf16 products", "three bf16 products")):
            assert theirs_say not in notes["kernel_notes"] or we_say in row.conditions, row.id
        if notes["time_us_stated"] != notes["time_us_used"] and "p90" not in notes["flag"]:
            assert row.stated == "corrected"
            assert 1e6 * row.seconds == pytest.approx(2 * float(notes["time_us_stated"]) - 10)
        elif "TFLOP/s" in notes["stated_figure"]:
            assert row.stated == "rate"
        elif "% MFU" in notes["stated_figure"]:
            assert row.stated == "utilisation"
        else:
            assert row.stated == "time"
        assert ("three bf16 products" in row.conditions) == (row.id in SPLIT) == (
            "three bf16 products" in notes["kernel_notes"] + notes["flag"])


def test_only_shown_rows_have_conditions(everything):
    shown = {row.id for row in everything}
    for row in rows().values():
        assert bool(row.conditions) == bool(row.stated) == (row.id in shown), row.id
        assert row.transfers is None or row.hbm_bytes


def test_a_derived_time_says_from_what(everything):
    for row in everything:
        assert (row.kind == "published") == (row.stated == "time"), row.id
        assert row.label.startswith(row.kind)
    text = " ".join(repr(device.published_kernels(ops.Matmul(4096, 4096, 4096))).split())
    assert "T of M14 M17 M16: worked out from a published rate" in text
    assert "clock of M16: profiler" in text and text.startswith("derived: by others")


# --- the model -----------------------------------------------------------------------------------


def test_a_model_stands_beside_every_row_it_can(everything):
    for row in everything:
        own = rows()[row.id]
        if not own.usable:
            assert (row.modelled, row.error, row.left_out_error) == (None,) * 3 and row.why_not
            continue
        assert row.modelled == report.modelled(own) and not row.why_not
        assert row.error == pytest.approx(row.modelled / row.seconds - 1)
        assert (abs(row.error) > row.target) == bool(row.missed) == (row.id in report.WHY)
        assert row.target == pytest.approx(report.target(own) / row.seconds)


@pytest.mark.parametrize("id", ["M01", "M16", "F01", "F16"])
def test_left_out_is_a_fit_without_the_source(everything, id):
    """Constants of left_out.toml: those of the row's chip without its source."""
    row, own = everything[id], rows()[id]
    constants = report.without_source(row.chip)[report.campaign(own)]
    assert row.left_out_error == pytest.approx(
        report.modelled(own, constants) / row.seconds - 1) != row.error


def test_an_inferentia_row_would_take_trainium1s_fit():
    """Every chip of a row has constants and left-out constants."""
    for row in rows().values():
        if row.usable and row.kind in ("gemm", "fused"):
            assert report.campaign(row) in report.without_source(row.chip)


# --- what is printed -----------------------------------------------------------------------------


@pytest.mark.parametrize("what", [
    "", "GEMM + bias + GELU", SWIGLU, ops.Matmul(2048, 2048, 2048), ops.Matmul(1, 2, 3), "no"])
def test_it_fits_a_page(what):
    found = device.published_kernels(what)
    for text in (repr(found), *map(repr, found)):
        assert max(map(len, text.splitlines())) <= 98 and "nan" not in text


def test_the_table_at_a_glance():
    found = device.published_kernels(ops.Matmul(2048, 2048, 2048), "trn2")
    lines = repr(found).splitlines()
    assert lines[1].split() == ["id", "chip", "kind", "dtype", "T", "TFLOP/s", "of", "P", "moved",
                                "model", "error", "left", "out"]
    assert "P 78.64 TFLOP/s, ridge 210 FLOP/B" in lines[3] and "W 17.18 GFLOP" in lines[4]
    line = next(line for line in lines if line.startswith("M08"))
    model, error = found["M08"].modelled, found["M08"].error
    assert line.split()[:8] == ["M08", "trn2", "derived", "bf16", "1.365", "ms", "12.58", "16.0%"]
    assert f"{1e3 * model:.3f} ms" in line and f"{error:+.1%}" in line
    text = " ".join(repr(found).split())
    assert ("the same W in 6 runs, M08, M05, M06, M03, M09, M01: "
            "16.0, 59.5, 82.9, 86.7, 89.5, 90.9 % of P") in text
    assert "no model of M03: compiler output: no kernel" in text
    assert f"model of M08 off by more than 15%: {report.WHY['M08']}" in text


def test_rows_of_one_op_stand_together(everything):
    """F15, an RMSNorm before a GEMM, has the shape, chip and dtype of M01."""
    heads = re.findall(r"^.*; a trn\d core: P .*$", repr(everything), re.MULTILINE)
    assert len(heads) == len(set(heads)) > 10
    assert [row.id for row in everything][:6] == ["M08", "M05", "M06", "M03", "M09", "M01"]


def test_a_row_by_itself(everything):
    text = " ".join(repr(everything["M14"]).split())
    for said in ("M14, derived: pantheongpu", "GEMM, M4096 K4096 N4096, bf16, on one core of trn1",
                 "one row tile at a time", "36.62 TFLOP/s, 39.9% of P, 91.75 TFLOP/s",
                 "T 3.753 ms; worked out from a published rate", "I 1365 FLOP/B",
                 "631.3 MB in 247,017 transfers, mean 2.56 kB; so I is 218 FLOP/B", "HBM binds",
                 "model none: the profile moved 631 MB"):
        assert said in text
    text = " ".join(repr(everything["M08"]).split())
    assert "its source left out of the fit" in text and "missed by more than 15%: one load" in text
    assert everything[0].id == "M08" and everything.row("F01").id == "F01"


def test_a_model_of_other_bytes_says_so():
    """With 512 rows of A that stay B comes 8 times in M16's. F02's is as profiled."""
    larger = device.published_kernels(ops.Matmul(4096, 4096, 4096), "trn1")["M16"]
    Q = 2 * 4096 * 4096 * (1 + 4096 // 512 + 1)
    assert larger.modelled_bytes == Q == 335_544_320 and larger.moved == 269_500_000
    told = " ".join(repr(device.published_kernels(ops.Matmul(4096, 4096, 4096), "trn1")).split())
    assert "model of M16: its kernel moves 335.5 MB, the published one 269.5 MB" in told
    mlp = device.published_kernels(ops.SwiGLU(4096, 1024, 3072, dtype="fp32"))
    assert mlp["F04"].modelled_bytes is None
    # x and y once, the three matrices once for each 256 tokens
    assert mlp["F02"].modelled_bytes == 4 * (2 * 4096 * 1024 + 16 * 3 * 1024 * 3072)
