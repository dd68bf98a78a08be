"""roofline predict: the modelled time, its entitlement, engines and gap, and a change."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofline import gaps, machine, neuroncore, nki, profile
from roofline.__main__ import main
from roofline.commands import predict
from roofline.commands.answer import FORMS
from roofline.commands.calls import CallError

ROOT = Path(__file__).parent.parent
KERNELS = str(ROOT / "day5" / "kernels.py")
REAL = ROOT.parent / "shared" / "reference" / "real-profiles"
B, D, F = 256, 512, 256
W = 4 * B * D * F
MLP = [f"{KERNELS}:mlp_fused", f"x={D}x{B}:bf16", f"w_up={D}x{F}:bf16", f"w_down={F}x{D}:bf16"]
SHAPES = (((D, B), "bf16"), ((D, F), "bf16"), ((F, D), "bf16"))
M, K, N = 256, 512, 1024
PRODUCT = [f"a={K}x{M}:bf16", f"b={K}x{N}:bf16", "--chip=trn2"]
COPY = '''
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def copy(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


pair = copy[2]
'''
Ran = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    """roofline predict *argv -> exit code, stdout, stderr as one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copies.py").write_text(COPY)

    def roofline(*argv: str) -> tuple[int, str, str]:
        code = main(["predict", *argv])
        told = capsys.readouterr()
        assert max(map(len, told.out.splitlines()), default=0) <= 98 or "--json" in argv
        return code, told.out, " ".join(told.err.split())

    return roofline


def data(run: Ran, *argv: str) -> dict[str, Any]:
    code, out, err = run(*argv, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_text(run: Ran) -> None:
    code, out, err = run(*MLP, "--chip=trn2")
    assert (code, err) == (0, "")
    for words in ("modelled on", "nothing was run", "total_time of a profile", "T_best",
                  "benchmark", "serial", "Tensor", "fullest DMA engine", "gap, the sum of the rows",
                  "buffers, assumed: no limit", "not in the model", "median error",
                  "roofline.neuroncore.report"):
        assert words in out


@pytest.mark.parametrize("chip", ["trn1", "inf2", "trn2"])
def test_times(run: Ran, chip: str) -> None:
    found, core = data(run, *MLP, f"--chip={chip}"), machine.get(chip, "core")
    q = 2 * (2 * B * D + 2 * D * F)
    t_best = max(W / core.peak("bf16"), q / core.bw()) * 1e9  # ns
    assert found["t_best"] == pytest.approx(t_best)
    assert (found["work"], found["hbm_bytes"], found["kind"]) == ({"bf16": W}, q, "modelled")
    assert found["t"] == pytest.approx(neuroncore.predict(nki.run(
        nki.load(KERNELS).mlp_fused, *SHAPES, target=chip, data=False), buffers=None).time)
    assert sum(row["ns"] for row in found["rows"]) == pytest.approx(found["t"] - t_best)
    # no engine is busy longer than all of it, nor shorter than its own work at its peak
    assert max(found["busy"].values()) < found["t"] < found["serial"]
    assert found["busy"]["tensor"] >= W / core.peak("bf16") * 1e9
    assert list(found["busy"].values()) == sorted(found["busy"].values(), reverse=True)


def test_a_kernel_without_matmuls(run: Ran) -> None:
    found = data(run, "copies.py:copy", "a=128x2048:fp32", "--chip=trn2")
    q = 2 * 4 * 128 * 2048
    assert (found["work"], found["roof"]) == ({}, "memory")
    assert found["t_best"] == pytest.approx(q / machine.get("trn2").bw() * 1e9)
    assert "tensor" not in found["busy"]


def test_two_cores(run: Ran) -> None:
    found = data(run, *MLP, "--chip=trn2", "--lnc=2")
    pair, q = machine.get("trn2", "lnc2"), 2 * (2 * B * D + 2 * 2 * D * F)  # weights twice
    assert (found["scope"], found["hbm_bytes"], found["working"]) == ("lnc2", q, [0, 1])
    assert found["t_best"] == pytest.approx(max(W / pair.peak("bf16"), q / pair.bw()) * 1e9)
    assert data(run, "copies.py:pair", "a=128x64:bf16", "--chip=trn2")["scope"] == "lnc2"


def test_buffers_are_declared(run: Ran) -> None:
    call = [f"{KERNELS}:matmul_reload", *PRODUCT]
    of = nki.run(nki.load(KERNELS).matmul_reload, ((K, M), "bf16"), ((K, N), "bf16"), data=False)
    for argv, buffers in ((["--buffers=1"], 1), (["--buffers=sbuf:1"], {"sbuf": 1}),
                          (["--buffers=2", "--buffers=a_tile:1"], {"sbuf": 2, "psum": 2,
                                                                   "a_tile": 1})):
        found = data(run, *call, *argv)
        assert found["buffers"] == buffers
        assert found["t"] == pytest.approx(neuroncore.predict(of, buffers=buffers).time)
    assert "--buffers=1 of each line's tiles" in run(*call, "--buffers=1")[1]
    assert data(run, *call, "--buffers=1")["t"] > data(run, *call)["t"]  # transfers wait


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "", ":2", "sbuf:", "sbuf:0", "9" * 30])
def test_buffers_slips(text: str) -> None:
    with pytest.raises(CallError, match="expected a whole number >= 1"):
        predict.buffers_of([text])


def test_yours_is_held_to_the_source(run: Ran) -> None:
    out = run(*MLP, "--chip=trn2", f"--flops={W}", "--bytes=8 MiB")[1]
    assert "W and Q by your hand" in out
    assert f"your Q is {8 * 2**20:,} B" in out


# --- the profile as a file, and a change ---------------------------------------------------------


def test_write(run: Ran, tmp_path: Path) -> None:
    found = data(run, *MLP, "--chip=trn2", "--write=before.json")
    kept = profile.read(tmp_path / "before.json")
    assert kept.kind == "modelled"
    assert float(kept.summary["total_time"]) * 1e9 == pytest.approx(found["t"])
    again = gaps.ledger(kept, "trn2")
    assert {row.cause: row.time for row in again.rows} == pytest.approx(
        {row["cause"]: row["ns"] for row in found["rows"]}, abs=1e-3)
    code, out, _ = run(*MLP, "--chip=trn2", "--write=before.json")  # its own file is replaced
    assert code == 0
    assert "written to before.json" in out


def test_against(run: Ran) -> None:
    was = data(run, f"{KERNELS}:matmul_reload", *PRODUCT, "--write=before.json")
    after = data(run, f"{KERNELS}:matmul_b_stays", *PRODUCT, "--against=before.json")
    # A comes N/512 times and B M/128 times before, and once now
    assert after["against"]["hbm_bytes"] == 2 * (2 * M * K + 2 * K * N + M * N)
    assert after["hbm_bytes"] == 2 * (M * K + K * N + M * N)
    assert after["speedup"] == pytest.approx(was["t"] / after["t"])
    assert sum(after["change"].values()) == pytest.approx(
        (after["t"] - after["t_best"]) - (was["t"] - after["against"]["t_best"]), abs=1e-3)
    code, out, _ = run(f"{KERNELS}:matmul_b_stays", *PRODUCT, "--against=before.json",
                       "--save=change.csv")
    assert code == 0
    assert f"{was['t'] / after['t']:.3f}x as fast as before.json, modelled" in out
    with open("change.csv") as file:
        rows = list(csv.DictReader(file))
    assert {row["cause"]: float(row["change_ns"]) for row in rows} == pytest.approx(after["change"])


def test_no_change(run: Ran) -> None:
    run(*MLP, "--chip=trn2", "--write=before.json")
    found = data(run, *MLP, "--chip=trn2", "--against=before.json")
    assert found["speedup"] == pytest.approx(1)
    assert max(map(abs, found["change"].values())) < 1e-3


def test_another_op_is_said(run: Ran) -> None:
    run(*MLP, "--chip=trn2", "--write=before.json")
    code, out, _ = run(f"{KERNELS}:matmul_b_stays", *PRODUCT, "--against=before.json")
    assert code == 0
    assert "Is it the same op" in " ".join(out.split())


def test_the_chip_is_that_of_the_profile(run: Ran) -> None:
    run(*MLP, "--chip=trn1", "--write=before.json")
    found = data(run, *MLP, "--against=before.json")
    assert (found["chip"], found["speedup"]) == ("trn1", pytest.approx(1))


@pytest.mark.skipif(not REAL.is_dir(), reason="the real captures are not beside the repository")
def test_against_a_measured_profile(run: Ran) -> None:
    real = REAL / "trn2-lnc2-attn-fused-bf16-s512.full.json"
    call = [f"{KERNELS}:attention_fused", "q=128x512:bf16", "k=128x512:bf16", "v=512x128:bf16"]
    code, out, _ = run(*call, "--chip=trn2", f"--against={real}")
    assert code == 0
    assert "the difference holds the model's error, too" in " ".join(out.split())


def test_files(run: Ran, tmp_path: Path) -> None:
    names = [f"out{suffix}" for suffix in FORMS]
    code, out, _ = run(*MLP, "--chip=trn2", *(f"--save={name}" for name in names))
    assert code == 0
    assert (tmp_path / "out.txt").read_text() == out
    with (tmp_path / "out.csv").open() as file:
        ns = [float(row["ns"]) for row in csv.DictReader(file) if row["ns"]]
    kept = json.loads((tmp_path / "out.json").read_text())
    assert sum(ns) == pytest.approx(kept["gap"])
    assert "<svg" in (tmp_path / "out.svg").read_text()
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out.html").read_text()
    assert "<svg" in page
    assert "Timeline of" in page


# --- bad and missing input -----------------------------------------------------------------------


@pytest.mark.parametrize(("argv", "said"), [
    (["MLP", "B=1", "D=1", "F=1"], "MLP B=1 D=1 F=1 is a formula, and the model times code"),
    (["gone.py:copy"], "gone.py: no such file"),
    (["copies.py:copy"], "a is missing"),
    (["copies.py:copy", "a=128x64:bf16", "--buffers=0"], "--buffers=0: expected"),
    (["copies.py:copy", "a=128x64:bf16", "--buffers=tyle:2"], "no tile 'tyle'"),
    (["copies.py:copy", "a=128x64:bf16", "--write=out.txt"], "written as .json; got '.txt'"),
    (["copies.py:copy", "a=128x64:bf16", "--write=no/out.json"], "no/out.json"),
    (["copies.py:copy", "a=128x64:bf16", "--against=gone.json"], "gone.json"),
    (["copies.py:copy", "a=128x64:bf16", "--against=copies.py"], "copies.py"),
    (["copies.py:copy", "a=128x64:bf16", "--against=cut.json"], "cut.json"),
    (["copies.py:copy", "a=128x64:bf16", "--flops=two"], "--flops two: no number"),
    (["copies.py:copy", "a=128x64:bf16", "--lnc=2", "--chip=trn1"], "trn1 is one physical core"),
    ([], "CALL"),
])
def test_bad_input(run: Ran, tmp_path: Path, argv: list[str], said: str) -> None:
    (tmp_path / "cut.json").write_text('{"summary": [{"total_ti')
    before = {*tmp_path.iterdir()}
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert said in err
    assert "fault of the tool" not in err
    assert {*tmp_path.iterdir()} == before


def test_a_foreign_file_is_left(run: Ran, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"mine": 1}')
    code, _, err = run("copies.py:copy", "a=128x64:bf16", "--chip=trn2", "--write=mine.json")
    assert code == 2
    assert "mine.json" in err
    assert (tmp_path / "mine.json").read_text() == '{"mine": 1}'


def test_a_profile_of_another_chip(run: Ran) -> None:
    run(*MLP, "--chip=trn1", "--write=before.json")
    code, _, err = run(*MLP, "--chip=trn2", "--against=before.json")
    assert code == 2
    assert "another chip" in err


def test_from_a_shell(tmp_path: Path) -> None:
    (tmp_path / "copies.py").write_text(COPY)
    (tmp_path / "call.txt").write_text("copies.py:copy a=128x64:bf16  # small\n--chip=trn2\n")
    ran = subprocess.run([sys.executable, "-m", "roofline", "predict", "@call.txt"], cwd=tmp_path,
                         capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "memory roof" in ran.stdout


def test_help_teaches_by_example(run: Ran) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert out.count("python -m roofline predict") >= 5
    assert all(option in out for option in ("--buffers", "--write", "--against"))
