"""device.host: logic with a fake clock, kernels against NumPy, bytes against arithmetic.

Nothing here asserts a speed: that is tests/bench/bench_host_roofs.py, by ratio.
"""

import copy
import errno
import json
import math
import os
import platform
import re
from dataclasses import replace
from pathlib import Path

import pytest

from roofline.count import Count
from roofline.device import host, recording
from roofline.device.host_kernels import SMALL, Case, Sizes, aligned, cases, numba
from roofline.device.recording import (
    CurvePoint,
    HostRoofs,
    HostRun,
    KernelRun,
    Kernels,
    Provenance,
    RecordingError,
    Roof,
    Sweep,
    SweepPoint,
)
from roofline.device.rounds import ForeignCpu, Rounds, alternate
from roofline.machine import MachineError

SHIPPED = Path(__file__).parents[1] / "day1" / "data" / "host_run.json"


# ---- timing ------------------------------------------------------------------------------

class FakeMachine:
    """A clock that tasks and pauses move; `foreign` reads what others took, one by one."""

    def __init__(self, foreign: list[float]) -> None:
        self.now, self.left = 0.0, [0.0, *foreign]  # the first reading starts the count

    def task(self, *seconds: float):
        calls = iter((seconds[0], *seconds))  # the first call is the warm-up

        def run() -> None:
            self.now += next(calls)
        return run

    def alternate(self, tasks, budget_s: float = 1e9, **how) -> Rounds:
        return alternate(tasks, budget_s, clock=lambda: self.now,
                         foreign=lambda: self.left.pop(0), pause=self.pause, **how)

    def pause(self, seconds: float) -> None:
        self.now += seconds


def test_every_round_times_every_task_and_keeps_the_best_call():
    m = FakeMachine([0, 0])
    rounds = m.alternate({"a": m.task(3, 2, 5, 4), "b": m.task(7, 8, 9, 7)}, want=2, calls=2)
    assert rounds.seconds == {"a": [2, 4], "b": [7, 7]}
    assert rounds.kept == [0, 1] and not rounds.noisy


def test_disturbed_rounds_are_repeated_and_dropped():
    m = FakeMachine([0.0, 0.5, 0.05, 0.3, 0.4, 0.0, 0.0])  # 0.3, then waits: 0.4, 0.0
    rounds = m.alternate({"a": m.task(1, 9, 1, 9, 1)}, want=3, calls=1)
    assert rounds.kept == [0, 2, 4]
    assert rounds.of("a") == [1, 1, 1]
    assert m.now == 1 + (1 + 9 + 1 + 9 + 1) + 2 * 0.25  # warm-up, rounds, two waits
    assert not rounds.noisy and rounds.share == 0.05


def test_when_nothing_is_quiet_the_quietest_stay_and_it_is_noisy():
    m = FakeMachine([0.5, 0.9, 0.4, *[1.0] * 4, 0.6, *[1.0] * 4])
    rounds = m.alternate({"a": m.task(1, 2, 3, 4)}, budget_s=9, want=3, calls=1)
    assert rounds.seconds["a"] == [1, 2, 3, 4]  # 6 s, 1 s of waiting, 4 s: the budget is spent
    assert rounds.of("a") == [1, 3, 4]
    assert rounds.noisy


def test_a_budget_of_nothing_still_gives_one_round():
    m = FakeMachine([0.9])
    assert m.alternate({"a": m.task(2)}, budget_s=0, calls=1).of("a") == [2]


def test_foreign_cpu_is_a_share():
    foreign = ForeignCpu()
    aligned(10**6)
    assert 0 <= foreign() <= 1


# ---- plateaus ----------------------------------------------------------------------------

@pytest.mark.parametrize(("rates", "levels"), [
    ([500, 510, 490, 390, 385, 395, 200, 190, 205, 60, 58, 61], [3, 3, 3, 3]),
    ([500, 510, 490, 300, 200, 190, 205, 60, 58, 61], [3, 3, 3]),  # 300 is on the way
    ([100, 99, 98, 97, 96, 95], [6]),  # one level
    ([100, 99, 79, 78, 77], [3]),      # two sizes are no level
])
def test_plateaus(rates, levels):
    assert [len(run) for run in host.plateaus(rates)] == levels


def test_sizes_double():
    assert host._sizes(4096, 32768) == [4096, 8192, 16384, 32768]
    assert host._sizes(8192, 16384, per_octave=2) == [8192, 11 * 1024, 16384]  # 11.3 KiB


def test_slices_are_aligned_and_disjoint():
    x = aligned(1000)
    parts = host._parts(x, 3)
    assert [p.ctypes.data % 64 for p in parts] == [0, 0, 0]
    assert [p.size for p in parts] == [320, 320, 320]  # 1000 / 3, down to 16 floats


# ---- kernels -----------------------------------------------------------------------------

@pytest.mark.parametrize("case", cases(SMALL).values(), ids=lambda c: c.name)
def test_kernels_compute_what_numpy_does(case: Case):
    case.check()


def test_a_wrong_kernel_is_named():
    case = cases(SMALL)["add"]
    with pytest.raises(AssertionError, match="kernel 'add' differs from NumPy"):
        replace(case, run=lambda: case.run() * 1.01).check()


def test_bytes():
    s = Sizes(n=100, rows=10, per_row=4, ln_rows=6, ln_D=8, matmul=16, tiles=(4,))
    made = cases(s)
    N, X = 4 * 100, 4 * 6 * 8
    counted = {  # each operand once
        "dot": 2 * N, "add": 3 * N, "triad, two passes": 3 * N,
        "SpMV, near the diagonal": 8 * 40 + 4 * 11 + 4 * 10 + 4 * 10,
        "layernorm, naive": 2 * X + 2 * 4 * 8, "matmul, BLAS": 3 * 4 * 16 * 16}
    assert {k: made[k].op.algorithmic.hbm_bytes for k in counted} == counted
    moved = {  # reads, writes
        "dot": (2 * N, 0), "add": (2 * N + N, N),
        "triad, two passes": ((N + N) + (N + N), N + N),  # b, out's lines; then a, out
        # mean, x - mean (+ fresh), var: mean, x - mean (+ fresh), square, sum; /, *, +
        "layernorm, naive": ((1 + 2 + 1 + 2 + 1 + 1 + 3) * X, (1 + 1 + 1 + 3) * X),
        "layernorm, row blocks": (2 * X, X), "matmul, tiles of 4": (2 * 4 * 256, 4 * 256)}
    assert {k: (made[k].moved.hbm_read_bytes, made[k].moved.hbm_write_bytes)
            for k in moved} == moved


@pytest.mark.skipif(numba is None, reason="no numba: SpMV and the loops run in NumPy")
def test_bytes_of_compiled_kernels():
    made = cases(Sizes(n=100, rows=10, per_row=4, ln_rows=6, ln_D=8, matmul=16, tiles=(4,)))
    N, X = 4 * 100, 4 * 6 * 8
    assert made["triad, fused"].moved.hbm_bytes == 4 * N
    assert made["layernorm, fused"].moved.hbm_bytes == 3 * X
    spmv = made["SpMV, random columns"]
    assert spmv.moved.hbm_bytes - spmv.op.algorithmic.hbm_bytes == 4 * 10  # y's lines


def test_no_code_moves_less_than_it_must():
    for case in cases(SMALL).values():
        least = case.op.algorithmic.hbm_bytes
        slack = 2 * 4 * SMALL.ln_D  # layernorm's scale and shift, left out of `moved`
        assert case.moved.hbm_bytes >= least - slack, case.name
        assert case.moved.flops == case.op.flops


def test_spmv_in_numpy_equals_the_compiled_one(monkeypatch):
    monkeypatch.setattr("roofline.device.host_kernels.numba", None)
    made = cases(SMALL)
    assert "triad, fused" not in made and "matmul, three loops" not in made
    for case in made.values():
        case.check()


def test_alignment():
    assert all(aligned(n, kind).ctypes.data % 64 == 0
               for n in (1, 17, 1000) for kind in ("float32", "float64"))


def test_share_is_of_the_roof_in_the_same_round():
    # add of n = 1e9: W = 1e9, Q = 12e9 counted, 16e9 moved, 12e9 of them read.
    case = cases(SMALL)["add"]
    op = replace(case.op, n=10**9)
    case = replace(case, op=op, moved=Count({"fp32": 10**9}, 12 * 10**9, 4 * 10**9))
    rounds = Rounds({"add": [0.5, 0.25]}, [0, 0])
    run = host._placed(case, rounds, [(60e9, 30e9, 1e12), (120e9, 60e9, 1e12)])
    # best: 12e9 / 60e9 = 0.2 s of 0.5; then 0.1 s of 0.25: 40 % both times
    assert run.share == pytest.approx(0.4)
    # model: reads 12e9 / 30e9 = 0.4 s of 0.5; 0.2 of 0.25
    assert run.explained == pytest.approx(0.8)
    assert (run.low, run.high, run.seconds) == (0.25, 0.5, 0.375)
    assert run.rate == pytest.approx(1e9 / 0.375)
    assert run.intensity == pytest.approx(1 / 12) and run.moved_intensity == 1 / 16


@pytest.mark.parametrize(("foreign", "high", "said"), [
    ([0.0, 0.0, 0.0], 62e9, ""),
    ([0.0, 0.9, 0.0, 0.0], 62e9, "1 disturbed round dropped"),
    ([0.4, 0.6, 0.5], 62e9, "noisy: others took up to 50% of the CPU; trust ratios only"),
    ([0.0, 0.0, 0.0], 90e9, "noisy: in place moved 1.50x between rounds; trust ratios only"),
])
def test_noise_in_words(foreign, high, said):
    roof = Roof("in place", 1, "B/s", 61e9, 60e9, high, 3, 3, "")
    assert host._noise([Rounds({}, foreign)], [roof]) == said


# ---- end to end, no speed asserted -------------------------------------------------------

def test_roofs_end_to_end(capsys):
    got = host.roofs(threads=(1,), budget_s=0.1, size=2**20)
    assert {"in place", "read", "matmul fp32", "matmul fp64"} <= {r.name for r in got.roofs}
    assert all(0 < r.low <= r.value <= r.high < math.inf for r in got.roofs)
    assert got.threads == (1,) and got.provenance.kind == "measured"
    assert "roofs, 1 thread" in capsys.readouterr().out
    m = got.machine()
    assert m.slow_link == "DRAM" and m.ridge("fp32") > 0


def test_two_threads_run_the_same_work_at_once():
    got = host.roofs(threads=(2,), budget_s=0.1, size=2**20)
    assert got.machine(2).scope == "2 threads"


def test_kernels_and_sweep_end_to_end():
    got = host.kernels(budget_s=0.1, sizes=SMALL)
    assert set(cases(SMALL)) == {k.name for k in got}
    assert all(k.seconds > 0 and k.share > 0 and k.explained > 0 for k in got)
    points = host.sweep(budget_s=0.1, most=2**16).points
    assert [p.bytes for p in points] == [4096, 8192, 16384, 32768, 65536]
    assert all(p.numpy > 0 for p in points)


def test_without_numba_the_matmul_roof_stands_in(monkeypatch):
    monkeypatch.setattr(host, "numba", None)
    got = host.roofs(threads=(1,), budget_s=0.1, size=2**20)
    assert not got.has("FMA fp32") and not got.curve and got.provenance.numba == ""
    peak = got.machine().peaks["fp32"]
    assert peak.value == got.roof("matmul fp32").value
    assert "the matmul roof stands in" in peak.holds


# ---- records -----------------------------------------------------------------------------

def made_run() -> HostRun:
    """A run with figures one can check by hand; the CPU does not exist."""
    prov = Provenance("measured", "Toy CPU (toy1)", 2, "Linux 6.1 x86_64", "3.11.7", "2.4.6",
                      "openblas 0.3.31 (Toy)", "0.68.1", "2026-01-02 03:04 UTC", 0.02, "")
    roofs = (Roof("in place", 1, "B/s", 60e9, 58e9, 61e9, 7, 6, "x += s, 256 MiB in all"),
             Roof("read", 1, "B/s", 40e9, 39e9, 41e9, 7, 6, "dot of two halves"),
             Roof("matmul fp32", 1, "FLOP/s", 120e9, 119e9, 121e9, 7, 6, "np.matmul"),
             Roof("matmul fp64", 1, "FLOP/s", 60e9, 59e9, 61e9, 7, 6, "np.matmul"),
             Roof("FMA fp32", 1, "FLOP/s", 240e9, 239e9, 241e9, 7, 6, "192 chains"),
             Roof("L1", 1, "B/s", 500e9, 490e9, 510e9, 5, 5, "in cache: x += s, to 48 KiB"))
    kernel = KernelRun("add", 10**6, 12 * 10**6, 16 * 10**6, 4e-4, 3e-4, 5e-4, 0.5, 0.75, 5, 5,
                       "write-allocate")
    return HostRun(HostRoofs(prov, roofs, (CurvePoint(1, 4, 58e9, 0.97),)), Kernels((kernel,), ""),
                   Sweep((SweepPoint(4096, 5e-7, 1e-8), SweepPoint(2**20, 2e-5, 0.0)), ""))


def test_machine_has_both_lines_both_peaks_and_the_caches():
    m = made_run().roofs.machine()
    assert m.bw() == 60e9 and m.bw("L1") == 500e9 and m.slow_link == "DRAM"
    assert m.peak("fp32") == 240e9 and m.ridge("fp32") == 4
    assert m.peak("fp64") == 60e9  # no FMA figure for fp64
    assert {c.name: c.spec.value for c in m.ceilings} == {"read bandwidth": 40e9,
                                                          "matmul fp32": 120e9}
    assert m.peaks["fp32"].kind == "measured"
    assert m.peaks["fp32"].source == "measured on Toy CPU (toy1), 2026-01-02"


def test_the_top_line_is_the_better_one():
    roofs = made_run().roofs
    faster = replace(roofs.roofs[1], value=70e9)
    m = replace(roofs, roofs=(roofs.roofs[0], faster, *roofs.roofs[2:])).machine()
    assert m.bw() == 70e9 and m.ceilings[0].name == "in place bandwidth"


def test_a_roof_that_was_not_measured():
    with pytest.raises(MachineError, match=r"no roof 'in place' for 8 thread.*'read' .1.,"):
        made_run().roofs.machine(threads=8)


def test_texts():
    run = made_run()
    text = repr(run)
    assert text.splitlines()[:3] == [
        "measured on Toy CPU (toy1), 2 cores, 2026-01-02 03:04 UTC",
        "Linux 6.1 x86_64, Python 3.11.7, NumPy 2.4.6, openblas 0.3.31 (Toy), numba 0.68.1",
        "quiet: others took 2% of the CPU"]
    assert "60 GB/s" in text and "6 of 7" in text and "240 GFLOP/s" in text
    # add: 1e6 FLOP in 0.4 ms
    assert "0.0833" in repr(run.kernels) and "2.5 GFLOP/s" in repr(run.kernels)
    assert "50.0%" in repr(run.kernels)
    # half of the roof: I = 1/12 FLOP/B at 60 GB/s is 5 GFLOP/s
    assert run.kernels["add"].under(run.roofs.machine()) == pytest.approx(2.5e9)
    # 2 x 4096 B in 500 ns, in 10 ns; 2 x 1 MiB in 20 us
    assert "16.4 GB/s" in repr(run.sweep) and "819 GB/s" in repr(run.sweep)
    assert run.sweep.fixed_cost == 5e-7 and run.sweep.bandwidth == pytest.approx(2 * 2**20 / 2e-5)
    assert run.kernels["add"] is run.kernels[0] and len(run.kernels) == 1
    with pytest.raises(LookupError, match="there are: add"):
        run.kernels["sub"]


# ---- the file ----------------------------------------------------------------------------

def test_round_trip(tmp_path):
    path = recording.save(made_run(), tmp_path / "deep" / "run.json")
    assert recording.load(path) == made_run()
    assert [p.name for p in path.parent.iterdir()] == ["run.json"]  # no part is left


def test_an_existing_recording_is_never_overwritten(tmp_path):
    path = tmp_path / "run.json"
    path.write_text("mine")
    with pytest.raises(RecordingError, match="already; it was left as it is"):
        recording.save(made_run(), path)
    assert path.read_text() == "mine" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("link", [True, False], ids=["hard links", "no hard links"])
def test_full_disk(tmp_path, monkeypatch, link):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if not link:
        monkeypatch.setattr(os, "link", full)
        assert recording.save(made_run(), tmp_path / "a.json").exists()  # renamed instead
        return
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordingError, match=r"not saved .No space left on device.*Free some"):
        recording.save(made_run(), tmp_path / "run.json")
    assert not list(tmp_path.iterdir())


def _broken():
    """(what was done to the file, what the message must name)"""
    good = json.loads(json.dumps({"schema": recording.SCHEMA, **recording._plain(made_run())}))

    def edit(change) -> str:
        data = copy.deepcopy(good)
        change(data)
        return json.dumps(data)

    text = json.dumps(good)
    return [
        (text[:len(text) // 2], "broken or cut"), ("", "broken or cut"), ("[]", "got 'list'"),
        ("\x00\xff", "broken or cut"),
        (edit(lambda d: d.update(schema="roofline-host/99")), "roofline-host/99"),
        (edit(lambda d: d.pop("schema")), "got None"),
        (edit(lambda d: d.pop("kernels")), r"\.kernels: field missing"),
        (edit(lambda d: d.update(more=1)), r"\.more: field unknown"),
        (edit(lambda d: d["roofs"]["roofs"][0].pop("high")), r"roofs\[0\]\.high: field missing"),
        (edit(lambda d: d["roofs"]["roofs"][1].update(value=math.nan)), r"\[1\]\.value.*got nan"),
        (edit(lambda d: d["roofs"]["roofs"][1].update(value=math.inf)), r"\[1\]\.value.*got inf"),
        (edit(lambda d: d["roofs"]["roofs"][1].update(value=-1)), r"value.*finite number > 0"),
        (edit(lambda d: d["roofs"]["roofs"][1].update(value="60 GB/s")), r"value.*finite number"),
        (edit(lambda d: d["roofs"]["roofs"][1].update(threads=1.5)), r"threads.*whole number"),
        (edit(lambda d: d["roofs"].update(roofs={})), r"roofs\.roofs: expected a list"),
        (edit(lambda d: d["kernels"].update(runs=[3])), r"runs\[0\]: expected an object"),
        (edit(lambda d: d["kernels"]["runs"][0].update(seconds=0)), r"seconds.*> 0"),
        (edit(lambda d: d["roofs"]["provenance"].update(cpu=7)), r"cpu: expected text"),
    ]


@pytest.mark.parametrize(("text", "said"), _broken())
def test_bad_recordings(tmp_path, text, said):
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(RecordingError, match=said) as error:
        recording.load(path)
    assert "\n" not in str(error.value) and "Measure again" in str(error.value)
    assert str(tmp_path) not in str(error.value)
    assert path.read_text() == text


def test_a_recording_that_is_not_there(tmp_path):
    with pytest.raises(RecordingError, match=r"run\.json: cannot be read"):
        recording.load(tmp_path / "run.json")


# ---- run(): measure or replay ------------------------------------------------------------

@pytest.fixture
def book(tmp_path, monkeypatch):
    """An empty book, a notebook's folder in it as the current one, and no real measuring."""
    (tmp_path / "lib" / "roofline").mkdir(parents=True)
    (tmp_path / "day1").mkdir()
    monkeypatch.chdir(tmp_path / "day1")
    monkeypatch.setattr(host, "measure", made_run)
    monkeypatch.delenv("ROOFLINE_RECORDED", raising=False)
    return tmp_path


def test_run_replays_what_ships(book, monkeypatch, capsys):
    monkeypatch.setenv("ROOFLINE_RECORDED", "1")
    monkeypatch.setattr(host, "measure", None)
    recording.save(made_run(), book / host.RECORDED)
    assert host.run() == made_run()
    assert capsys.readouterr().out == (
        "recorded on Toy CPU (toy1), 2026-01-02; not your machine: "
        "run this page in JupyterLab to measure yours\n")


def test_run_measures_and_saves_under_work(book, capsys):
    assert host.run() == host.run() == made_run()  # two runs, two files
    files = sorted((book / "work" / "recorded").iterdir())
    assert len(files) == 2 and all(recording.load(f) == made_run() for f in files)
    lines = capsys.readouterr().out.splitlines()
    assert [ln.endswith(f"saved as work/recorded/{f.name}") for ln, f in
            zip(lines, files, strict=True)] == [True, True]


def test_the_latest_recording_of_this_cpu_is_read_and_not_measured_again(
        book, monkeypatch, capsys):
    monkeypatch.setattr(host, "_cpu", lambda: "Toy CPU (toy1)")
    assert host.latest() == made_run()  # nothing there: measured
    assert "saved as work/recorded/host-" in capsys.readouterr().out
    monkeypatch.setattr(host, "measure", None)
    saved, = (book / "work" / "recorded").iterdir()
    (saved.parent / "host-29990101T000000.000000Z-1.json").write_text('{"cut')  # newer, and bad
    assert host.latest() == made_run()
    assert f"before, Toy CPU (toy1), 2026-01-02; from work/recorded/{saved.name}" in \
        capsys.readouterr().out


def test_a_recording_of_another_cpu_is_not_the_latest(book, monkeypatch, capsys):
    monkeypatch.setattr(host, "_cpu", lambda: "Another CPU")
    assert host.run() == host.latest() == made_run()
    assert len(list((book / "work" / "recorded").iterdir())) == 2  # measured both times


def test_run_falls_back_to_the_temporary_folder(book, monkeypatch, capsys, tmp_path):
    (book / "work").write_text("a file where the folder should be")
    monkeypatch.setattr(host.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    assert host.run() == made_run()
    assert "(temporary!)" in capsys.readouterr().out
    assert len(list((tmp_path / "tmp" / "roofline-recorded").iterdir())) == 1


def test_run_returns_the_figures_even_when_nothing_can_be_saved(book, monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(os, "fsync", full)
    assert host.run() == made_run()
    assert "not saved: the figures are in this notebook only" in capsys.readouterr().out


# ---- the recording that ships ------------------------------------------------------------

def test_the_shipped_recording():
    run = recording.load(SHIPPED)
    assert SHIPPED.stat().st_size < 60_000
    assert run.roofs.provenance.kind == "measured" and run.roofs.provenance.date.endswith("UTC")
    assert {k.name for k in run.kernels} >= {"dot", "add", "triad, two passes", "matmul, BLAS"}
    assert len(run.sweep.points) > 10
    for k in run.kernels:  # nothing is above the roof of its own round
        assert k.share <= 1.05, k.name
    assert all(r.low <= r.value <= r.high for r in run.roofs.roofs)
    assert not re.search(r"/(home|Users|root|tmp|work|var|opt)\b|\\", SHIPPED.read_text())


def test_provenance_names_no_host_and_no_path():
    text = repr(host.provenance(0.5, "noisy: made up"))
    assert "noisy: made up" in text
    assert not re.search(rf"\b{re.escape(platform.node() or '-')}\b|/(home|Users|root|tmp)\b", text)
