"""The rows a cost model is held against, the kernels that stand for them, the error report."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest
from pages import ROOT

from roofline import machine, nki
from roofline.neuroncore import error_report, kernels, predict, report
from roofline.neuroncore.model import TYPICAL
from roofline.neuroncore.prices import MECHANISMS, constants
from roofline.neuroncore.report import TARGETS, WHY
from roofline.neuroncore.rows import DECIDED, RowError, rows, usable

PUBLISHED = ROOT.parent / "shared/reference/measurements.csv"


@pytest.fixture(scope="module")
def published():
    if not PUBLISHED.exists():
        pytest.skip(f"../{PUBLISHED.relative_to(ROOT.parent)} is not here")
    with PUBLISHED.open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


# --- rows.csv ------------------------------------------------------------------------------------


def test_every_published_row_is_there_with_its_figures(published):
    assert list(rows()) == list(published)
    for row in rows().values():
        theirs = published[row.id]
        assert (row.source, row.chip, row.op, row.shape, row.dtype, row.grade) == tuple(
            theirs[name] for name in ("source", "chip", "op", "shape", "dtype", "grade"))
        assert row.time_us == float(theirs["time_us_used"])
        assert row.hbm_bytes == (int(theirs["hbm_bytes_measured"])
                                 if theirs["hbm_bytes_measured"] else None)


def test_a_row_is_usable_or_says_why_not():
    for row in rows().values():
        assert row.usable != bool(row.reason), row.id
        assert row.usable == bool(row.kernel) == bool(row.arguments) == bool(row.clock), row.id
        if row.usable:
            assert row.clock in ("profile", "benchmark", "derived", "wall"), row.id
            assert row.chip in ("trn1", "inf2", "trn2"), row.id
            assert row.grade in ("A", "B", "C"), row.id
        else:
            with pytest.raises(RowError, match=f"{row.id}: no kernel"):
                assert row.launches
    assert len(usable()) >= 80


# --- kernels -------------------------------------------------------------------------------------


def ran(row, launch):
    return nki.run(getattr(kernels, launch.kernel), *launch.arrays, target=row.chip, data=False,
                   **launch.options)


def clocked(row, made):
    """Seconds of a prediction by the row's clock."""
    return 1e-9 * (made.benchmark if row.clock == "benchmark" else made.time)


@pytest.mark.parametrize("row", [row for row in usable() if row.hbm_bytes], ids=lambda row: row.id)
def test_a_kernel_moves_the_bytes_of_its_profile(row):
    """Within a quarter, as rows.py says; a row of both cores of a device is modelled as one."""
    cores = 2 if "both cores" in row.op else 1
    moved = sum(ran(row, launch).count.hbm_bytes for launch in row.launches)
    assert abs(cores * moved / row.hbm_bytes - 1) <= 0.25


def test_bytes_that_the_profile_tells_exactly():
    """AccelOpt's seed GEMM: A 12 times, B 32 times, C once, and a 128 x 128 fp32 identity."""
    row = rows()["M29"]
    M, K, N = 4096, 5120, 12288
    assert row.hbm_bytes == 4 * (12 * M * K + 32 * K * N + M * N + 128 * 128)
    assert ran(row, *row.launches).count.hbm_bytes == row.hbm_bytes - 4 * 128 * 128


F32 = np.float32


def numbers(*shapes, dtype=F32):
    rng = np.random.default_rng(6)
    return [rng.normal(size=shape).astype(F32).astype(dtype) for shape in shapes]


def rms(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True))


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def close(got, expected, tolerance=2e-3):
    """To `tolerance` of the largest value: fp32 sums in another order, or bf16 in between."""
    assert np.abs(got.astype(F32) - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize(("kernel", "options"), [
    ("gemm_blocks", {"rows": 128, "columns": 512, "depth": 1}),
    ("gemm_blocks", {"rows": 256, "columns": 1024, "depth": 2}),
    ("gemm_rows", {"rows": 256, "columns": 256}), ("gemm_resident", {"banks": 2})])
def test_gemms_multiply(kernel, options):
    a, b = numbers((256, 256), (256, 1024))
    close(nki.run(getattr(kernels, kernel), a, b, **options).output, a.T @ b)


@pytest.mark.parametrize("keep", [0, 1])
def test_a_gemm_of_rows_multiplies(keep):
    a, b = numbers((256, 256), (256, 1024))
    close(nki.run(kernels.gemm_from_rows, a, b, rows=128, columns=512, keep=keep).output, a @ b)


def test_the_other_matmuls():
    a, b = numbers((2, 128, 64), (2, 64, 512))
    close(nki.run(kernels.gemm_batched, a, b).output, a @ b)
    a, b, bias = numbers((128, 128), (128, 512), (1, 512))
    wide = (a.T @ b + bias) / np.sqrt(F32(2))
    gelu = np.sqrt(F32(2)) * wide * (1 + np.vectorize(math.erf)(wide)) / 2
    close(nki.run(kernels.gemm_panels, a, b, bias).output, gelu)
    close(nki.run(kernels.gelu, a.T @ b, bias).output, gelu)
    close(nki.run(kernels.gemm_panels, a, b).output, a.T @ b)


@pytest.mark.parametrize("split", [0, 1])
def test_gemms_with_a_norm(split):
    x, w, added = numbers((128, 256), (256, 512), (128, 256))
    close(nki.run(kernels.rms_gemm, x, w, split=split).output, rms(x) @ w)
    close(nki.run(kernels.rms_gemm, x, w, added).output, rms(x + added) @ w)
    added, = numbers((128, 512))
    close(nki.run(kernels.gemm_add_rms, x, w, added, split=split).output, rms(x @ w + added))


def test_the_gated_mlp():
    x, gate, up, down = numbers((512, 512), (512, 256), (512, 256), (256, 512))
    x, down = x / 16, down / 16
    h = x.T @ gate
    expected = (h * sigmoid(h) * (x.T @ up)) @ down
    for kernel in (kernels.swiglu, kernels.swiglu_spilled):
        close(nki.run(kernel, x, gate, up, down).output, expected)


@pytest.mark.parametrize("options", [{}, {"softmax": "exp"}, {"scores": "split"}])
def test_attention(options):
    q, k, v = numbers((2, 64, 512), (1, 64, 512), (1, 512, 64))
    q /= 8
    expected = softmax(np.swapaxes(q, 1, 2) @ k) @ v
    close(nki.run(kernels.attention, q, k, v, **options).output, expected)
    close(nki.run(kernels.attention, q, k, v, compute="bf16").output, expected, 2e-2)
    once = softmax(q[0].T @ k[0])
    a = nki.run(kernels.attention_softmax, q[0], k[0]).output
    close(a, once)
    close(nki.run(kernels.attention_values, a, v[0]).output, once @ v[0])
    close(nki.run(kernels.attention_through_hbm, q[:1], k, v).output[0], once @ v[0])


def test_elementwise_chains():
    x, = numbers((256, 64))
    for fused in (0, 1, 2):
        close(nki.run(kernels.silu, x, fused=fused).output, x * sigmoid(x))
    p, g, m, v = numbers(*[(200, 64)] * 4)
    v = v * v
    moment, root = 0.9 * m + 0.1 * g, np.sqrt(0.999 * v + g * g)
    close(nki.run(kernels.adamw, p, g, m, v).output, 0.99 * p - moment / (root + 1e-8))
    x, c, s = numbers((2, 2, 64, 32), (2, 64, 32), (2, 64, 32))
    expected = np.stack([x[:, 0] * c - x[:, 1] * s, x[:, 1] * c + x[:, 0] * s], 1)
    close(nki.run(kernels.rope, x, c, s).output, expected)
    x, w = numbers((2, 128, 16), (128, 3))
    y = nki.run(kernels.conv1d, x, w).output
    close(y[:, :, :14], sum(x[:, :, i:14 + i] * w[:, i:i + 1] for i in range(3)))


@pytest.mark.parametrize(("spread", "T"), [("dma", 32), ("matmul", 2048)])
def test_the_selective_scan(spread, T):
    delta, u, a, b, c = numbers((128, T), (128, T), (128, 2), (2, T), (2, T))
    delta, a = np.abs(delta), -np.abs(a)
    y, state = np.zeros((128, T), F32), np.zeros((128, 2), F32)
    for t in range(T):
        state = np.exp(delta[:, t:t + 1] * a) * state + (delta * u)[:, t:t + 1] * b[:, t]
        y[:, t] = state @ c[:, t]
    close(nki.run(kernels.scan, delta, u, a, b, c, spread=spread).output, y)


@pytest.mark.parametrize("pool", [0, 1])
def test_the_convolution(pool):
    x, w = numbers((128, 14, 14), (9, 128, 128))
    y = sum(np.einsum("chw,cf->fhw", x[:, i:12 + i, j:12 + j], w[3 * i + j])
            for i in range(3) for j in range(3))
    if pool:
        y = y.reshape(128, 6, 2, 6, 2).max((2, 4))
    close(nki.run(kernels.conv2d, x, w, pool=pool).output, y)


def test_copies_transposes_and_adds():
    x, y = numbers((4, 128, 16), (4, 128, 16))
    assert (nki.run(kernels.read, x).output == x[:, :, 0].T).all()
    assert (nki.run(kernels.write, x).output == x[:1]).all()
    assert (nki.run(kernels.hbm_copy, x).output == x).all()
    assert (nki.run(kernels.vector_add, x, y).output == x + y).all()
    x, = numbers((256, 128))
    assert (nki.run(kernels.transpose, x).output == x.T).all()


# --- the report ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def errors():
    return error_report()


def test_the_targets_hold(errors):
    """Copies within 5 %, GEMM within 15 %, tiny within max(5 us, 5 %), but for what is named."""
    for row in errors:
        allowed = {"copy": 0.05, "gemm": 0.15, "tiny": max(0.05, 5e-6 / row.published)}
        if row.kind in allowed:
            assert row.met == (abs(row.error) <= allowed[row.kind]), row.id
    missed = {kind: {r.id for r in errors.misses if r.kind == kind} for kind in TARGETS}
    assert missed == {"copy": set(), "gemm": {"M01", "M08", "M38"}, "tiny": {"S03"}}


def test_a_miss_says_why(errors):
    assert {row.id: row.why for row in errors.misses} == WHY
    assert not any(row.why for row in errors if row.met)


def test_the_report_tells_what_was_chosen_with_the_rows_in_view(errors):
    """Depth where none is declared, readings, mechanisms: which rows, and what 2 gives instead."""
    shown = repr(errors)
    for row in errors:
        own = rows()[row.id]
        assert ("d" in row.marks) == (own.buffers["sbuf"] > 4), row.id  # 1, 2 and 4 are declared
        assert {*own.marks} <= {"amended", *DECIDED}
        assert "d" in row.marks or row.two == row.modelled
    assert errors.marked("width") == "E12 E14 E16 E23" and errors.marked("store") == "C17 C18"
    assert all(f"{errors.marked(mark)}: {what}" in shown for mark, what in DECIDED.items())
    assert "M01 M08 M09" in errors.marked("a") and "M05" not in errors.marked("a")
    assert errors.marked("a").split()[-1] in shown
    for id in ("S13", "E16"):
        row = rows()[id]
        made = clocked(row, predict(ran(row, *row.launches), buffers=2))
        assert next(r for r in errors if r.id == id).two == pytest.approx(made)
    for kind in TARGETS:
        mine = [abs(r.two / r.published - 1) for r in errors if r.kind == kind]
        cells = next(line.split() for line in shown.splitlines() if line.startswith(kind))
        assert cells[1] == str(len(mine)) and cells[4] == f"{np.median(mine):.1%}"


def test_a_prediction_quotes_the_report(errors):
    """The sentence that predictions carry: medians a kind, the row's source left out of the fit."""
    kinds = {r.kind: [abs(s.left_out_error) for s in errors if s.kind == r.kind] for r in errors}
    assert ", ".join(f"{kind} {np.median(all_of):.0%}" for kind, all_of in kinds.items()
                     ) == TYPICAL


def test_each_mechanism_off_worsens_its_row(errors):
    assert [bought.mechanism for bought in errors.mechanisms] == list(MECHANISMS)
    for bought in errors.mechanisms:
        assert abs(bought.without) > abs(bought.error), bought


def test_every_usable_row_is_compared(errors):
    assert [row.id for row in errors] == [row.id for row in usable()]
    assert len(errors.rows) + len(errors.excluded) == len(rows())
    for row in errors:
        assert row.published == pytest.approx(1e-6 * rows()[row.id].time_us)
        assert row.modelled > 0 and row.left_out > 0
    shown = repr(errors)
    assert all(row.id in shown for row in errors.misses) and "nan" not in shown
    assert errors.table.count("\n") == len(errors.rows)


def shipped(chip):
    table = constants(machine.get(chip, "core"))
    return {name: table[name].value for name in report.START[chip]}


SOURCES = [(chip, source) for chip in report.CHIPS
           for source in ("", *dict.fromkeys(map(report.campaign, report._of(chip))))]


@pytest.mark.parametrize(("chip", "source"), SOURCES, ids=map(" ".join, SOURCES))
def test_the_fit_stays_where_it_is(chip, source):
    """Of all rows, and of all but one source's: a step moves no constant by much of its scale."""
    here = report.without_source(chip)[source] if source else shipped(chip)
    assert [*here] == [*report.START[chip]]
    for name, value in zip(here, report._step(chip, tuple(here.values()), source), strict=True):
        assert abs(value - here[name]) <= 0.05 * report.START[chip][name][1], name


@pytest.mark.parametrize("chip", report.CHIPS)
def test_ten_numbers_a_chip_are_fitted(chip):
    assert {name for name, row in constants(machine.get(chip, "core")).items()
            if row.kind == "fitted"} == set(report.START[chip])
    assert len(report.START[chip]) <= 10


def test_a_source_left_out_has_no_say(monkeypatch):
    """Its published times may be anything: a step without it, wherever it starts, is the same."""
    source, chip = "Jerry2423/kda-for-trainium", "trn2"
    start = tuple(value for value, _ in report.START[chip].values())
    before, with_it = (report._step(chip, start, left_out) for left_out in (source, ""))
    twice = tuple(replace(row, time_us=2 * row.time_us) if report.campaign(row) == source else row
                  for row in usable())
    monkeypatch.setattr(report, "usable", lambda: twice)  # what the model gives is kept: no time
    assert report._step(chip, start, source) == pytest.approx(before, rel=1e-9)
    assert report._step(chip, start) != pytest.approx(with_it, rel=1e-3)


@pytest.mark.parametrize("id", ["C17", "M18", "M26", "M32", "M34"])
def test_a_row_that_repeats_itself_is_a_straight_line(id):
    """Predicted whole, and from two of its repetitions."""
    row = rows()[id]
    short = report.modelled(row)
    runs = [ran(row, launch) for launch in row.launches]
    assert sum(len(plan.graph.core) for _, plan in report._plans(id)) < sum(
        len(run.cores[0]) for run in runs)
    whole = sum(clocked(row, predict(run, buffers=row.buffers)) for run in runs)
    assert short == pytest.approx(whole, rel=2e-4)


def test_the_report_prices_as_predict_does():
    for id in ("S10", "A08", "M01"):
        row = rows()[id]
        made = predict(ran(row, *row.launches), buffers=row.buffers)
        assert report.modelled(row) == pytest.approx(clocked(row, made))


def test_the_report_comes_again(errors):
    error_report.cache_clear()
    assert error_report() == errors


def test_the_command_prints_the_report(errors, capsys):
    assert report.main([]) == 0
    assert capsys.readouterr().out.rstrip("\n") == repr(errors)
