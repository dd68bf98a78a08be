"""roofline predict: the modelled time, its entitlement, engines and gap, and a change."""
# ruff: noqa: F401, F811  # here and shell are fixtures

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
from captures import Shell, asked, here, shell

from roofline import gaps, machine, neuroncore, nki, profile, units
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
told, refused = asked("predict")


def data(shell: Shell, *argv: str) -> dict[str, Any]:
    code, found = told(shell, *argv)
    assert code == 0
    return found


def test_text(shell: Shell) -> None:
    code, out, err = shell("predict", *MLP, "--chip=trn2")
    assert (code, err) == (0, "")
    for words in ("modelled on", "nothing was run", "total_time of a profile", "T_best",
                  "benchmark", "serial", "Tensor", "DMA, any engine of it",
                  "gap, the sum of the rows", "buffers, assumed: no limit", "not in the model",
                  "median error", "roofline.neuroncore.report"):
        assert words in out


@pytest.mark.parametrize("chip", ["trn1", "inf2", "trn2"])
def test_times(shell: Shell, chip: str) -> None:
    found, core = data(shell, *MLP, f"--chip={chip}"), machine.get(chip, "core")
    q = 2 * (2 * B * D + 2 * D * F)
    t_best = max(W / core.peak("bf16"), q / core.bw())
    assert found["t_best"] == pytest.approx(t_best)
    assert (found["work"], found["hbm_bytes"], found["kind"]) == ({"bf16": W}, q, "modelled")
    assert found["t"] == pytest.approx(neuroncore.predict(nki.run(
        nki.load(KERNELS).mlp_fused, *SHAPES, target=chip, data=False), buffers=None).time / 1e9)
    assert sum(row["time"] for row in found["rows"]) == pytest.approx(found["t"] - t_best)
    # no engine is busy longer than all of it, nor shorter than its own work at its peak
    assert max(found["busy"].values()) < found["t"] < found["serial"]
    assert found["busy"]["tensor"] >= W / core.peak("bf16")
    assert list(found["busy"].values()) == sorted(found["busy"].values(), reverse=True)


def test_the_text_has_the_same_times(shell: Shell) -> None:
    out, core = shell("predict", *MLP, "--chip=trn2")[1], machine.get("trn2")
    t_best = max(W / core.peak("bf16"), 2 * (2 * B * D + 2 * D * F) / core.bw())
    shown = dict(re.findall(r"^  (T|T_best|benchmark|serial) +([\d.]+ \w+)", out, re.M))
    found = data(shell, *MLP, "--chip=trn2")
    assert shown["T_best"] == units.show(t_best, "s", 4)
    for name, key in (("T", "t"), ("benchmark", "benchmark"), ("serial", "serial")):
        assert shown[name] == units.show(found[key], "s", 4)
    assert f"roof, {t_best / found['t']:.1%} of T" in out


@pytest.mark.parametrize("lnc", ["1", "2"])
def test_busy_is_the_active_time_of_the_profile(lnc: str, shell: Shell) -> None:
    """One word, one meaning: what `profile` prints and computes from the rows."""
    found = data(shell, *MLP, "--chip=trn2", f"--lnc={lnc}", "--write=before.json")
    code, out, _ = shell("profile", "before.json", "--json")
    assert code == 0
    printed = {row["name"]: row for row in json.loads(out)["figures"]}
    names = {name: f"{name}_engine_active_time" for name in (
        "tensor", "vector", "scalar", "gpsimd", "sync")} | {"DMA": "dma_active_time"}
    for key in ("printed", "recomputed"):
        assert found["busy"] == pytest.approx(
            {name: s for name, row in names.items() if (s := printed[row][key])})
    assert list(found["busy"].values()) == sorted(found["busy"].values(), reverse=True)
    text = shell("predict", *MLP, "--chip=trn2", f"--lnc={lnc}")[1]
    for name, (_, shown) in predict.ENGINES.items():
        if s := found["busy"].get(name):
            assert re.search(rf"^  {shown} +{units.show(s, 's', 4)} +{s / found['t']:.1%}$", text,
                             re.M)


def test_a_kernel_without_matmuls(shell: Shell) -> None:
    found = data(shell, "product.py:copy", "x=128x2048:fp32", "--chip=trn2")
    q = 2 * 4 * 128 * 2048
    assert (found["work"], found["roof"]) == ({}, "memory")
    assert found["t_best"] == pytest.approx(q / machine.get("trn2").bw())
    assert "tensor" not in found["busy"]


def test_two_cores(shell: Shell) -> None:
    found = data(shell, *MLP, "--chip=trn2", "--lnc=2")
    pair, q = machine.get("trn2", "lnc2"), 2 * (2 * B * D + 2 * 2 * D * F)  # weights twice
    assert (found["scope"], found["hbm_bytes"], found["working"]) == ("lnc2", q, [0, 1])
    assert found["t_best"] == pytest.approx(max(W / pair.peak("bf16"), q / pair.bw()))
    assert data(shell, "product.py:pair", "x=128x64:bf16", "--chip=trn2")["scope"] == "lnc2"


def test_buffers_are_declared(shell: Shell) -> None:
    call = [f"{KERNELS}:matmul_reload", *PRODUCT]
    of = nki.run(nki.load(KERNELS).matmul_reload, ((K, M), "bf16"), ((K, N), "bf16"), data=False)
    for argv, buffers in ((["--buffers=1"], 1), (["--buffers=sbuf:1"], {"sbuf": 1}),
                          (["--buffers=2", "--buffers=a_tile:1"], {"sbuf": 2, "psum": 2,
                                                                   "a_tile": 1})):
        found = data(shell, *call, *argv)
        assert found["buffers"] == buffers
        assert found["t"] == pytest.approx(neuroncore.predict(of, buffers=buffers).time / 1e9)
    assert "--buffers=1 of each line's tiles" in shell("predict", *call, "--buffers=1")[1]
    assert data(shell, *call, "--buffers=1")["t"] > data(shell, *call)["t"]  # transfers wait


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "", ":2", "sbuf:", "sbuf:0", "9" * 30])
def test_buffers_slips(text: str) -> None:
    with pytest.raises(CallError, match="expected a whole number >= 1"):
        predict.buffers_of([text])


def test_yours_is_held_to_the_source(shell: Shell) -> None:
    out = shell("predict", *MLP, "--chip=trn2", f"--flops={W}", "--bytes=8 MiB")[1]
    assert "W and Q by your hand" in out
    assert f"your Q is {8 * 2**20:,} B" in out
    assert "T is that of the source in any case; T_best and the gap are of your count" in out


# --- the profile as a file, and a change ---------------------------------------------------------


def test_write(shell: Shell, tmp_path: Path) -> None:
    found = data(shell, *MLP, "--chip=trn2", "--write=before.json")
    kept = profile.read(tmp_path / "before.json")
    assert kept.kind == "modelled"
    assert float(kept.summary["total_time"]) == pytest.approx(found["t"])
    again = gaps.ledger(kept, "trn2")
    assert {row.cause: row.time / 1e9 for row in again.rows} == pytest.approx(
        {row["cause"]: row["time"] for row in found["rows"]}, abs=1e-12)
    code, out, _ = shell("predict", *MLP, "--chip=trn2", "--write=before.json")  # its own again
    assert code == 0
    assert "written to before.json" in out


def test_against(shell: Shell) -> None:
    was = data(shell, f"{KERNELS}:matmul_reload", *PRODUCT, "--write=before.json")
    after = data(shell, f"{KERNELS}:matmul_b_stays", *PRODUCT, "--against=before.json")
    # A comes N/512 times and B M/128 times before, and once now
    assert after["against"]["hbm_bytes"] == 2 * (2 * M * K + 2 * K * N + M * N)
    assert after["hbm_bytes"] == 2 * (M * K + K * N + M * N)
    assert after["speedup"] == pytest.approx(was["t"] / after["t"])
    assert sum(after["change"].values()) == pytest.approx(
        (after["t"] - after["t_best"]) - (was["t"] - after["against"]["t_best"]), abs=1e-12)
    code, out, _ = shell("predict", f"{KERNELS}:matmul_b_stays", *PRODUCT, "--against=before.json",
                       "--save=change.csv")
    assert code == 0
    assert f"{was['t'] / after['t']:.3f}x as fast as before.json, modelled" in out
    with open("change.csv") as file:
        rows = list(csv.DictReader(file))
    assert {(row["before_kind"], row["after_kind"]) for row in rows} == {("modelled", "modelled")}
    assert {row["cause"]: float(row["change_s"]) for row in rows} == pytest.approx(after["change"])


def test_no_change(shell: Shell) -> None:
    shell("predict", *MLP, "--chip=trn2", "--write=before.json")
    found = data(shell, *MLP, "--chip=trn2", "--against=before.json")
    assert found["speedup"] == pytest.approx(1)
    assert max(map(abs, found["change"].values())) < 1e-12


def test_q_before_is_that_of_hbm(shell: Shell, tmp_path: Path) -> None:
    # x comes and goes; of b 4 bytes to each partition, packets as short as a semaphore's
    (tmp_path / "bias.py").write_text("""
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def bias(x, b):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    column = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=column, src=b)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=column)
    nisa.dma_copy(dst=y, src=tile)
    return y
""")
    call = ["bias.py:bias", "x=128x64:bf16", "b=128x1:fp32", "--chip=trn2"]
    shell("predict", *call, "--write=before.json")
    q = units.show(2 * 2 * 128 * 64 + 4 * 128, "B", 4)
    assert f"Q {q} -> {q}" in shell("predict", *call, "--against=before.json")[1]


def test_another_op_is_said(shell: Shell) -> None:
    shell("predict", *MLP, "--chip=trn2", "--write=before.json")
    code, out, _ = shell("predict", f"{KERNELS}:matmul_b_stays", *PRODUCT, "--against=before.json")
    assert code == 0
    assert "Is it the same op" in " ".join(out.split())


def test_the_chip_is_that_of_the_profile(shell: Shell) -> None:
    shell("predict", *MLP, "--chip=trn1", "--write=before.json")
    found = data(shell, *MLP, "--against=before.json")
    assert (found["chip"], found["speedup"]) == ("trn1", pytest.approx(1))


@pytest.mark.skipif(not REAL.is_dir(), reason="the real captures are not beside the repository")
def test_against_a_measured_profile(shell: Shell) -> None:
    real = REAL / "trn2-lnc2-attn-fused-bf16-s512.full.json"
    call = [f"{KERNELS}:attention_fused", "q=128x512:bf16", "k=128x512:bf16", "v=512x128:bf16"]
    code, out, _ = shell("predict", *call, "--chip=trn2", f"--against={real}")
    assert code == 0
    assert "the difference holds the model's error, too" in " ".join(out.split())


def test_files(shell: Shell, tmp_path: Path) -> None:
    names = [f"out{suffix}" for suffix in FORMS]
    code, out, _ = shell("predict", *MLP, "--chip=trn2", *(f"--save={name}" for name in names))
    assert code == 0
    assert (tmp_path / "out.txt").read_text() == out
    with (tmp_path / "out.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert {row["kind"] for row in rows} == {"modelled"}
    times = [float(row["time_s"]) for row in rows if row["time_s"]]
    kept = json.loads((tmp_path / "out.json").read_text())
    assert sum(times) == pytest.approx(kept["gap"])
    assert "<svg" in (tmp_path / "out.svg").read_text()
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out.html").read_text()
    assert "<svg" in page
    assert "Timeline of" in page


# --- bad and missing input -----------------------------------------------------------------------


@pytest.mark.parametrize(("argv", "said"), [
    (["MLP", "B=1", "D=1", "F=1"], "MLP B=1 D=1 F=1 is a formula, and the model times code"),
    (["gone.py:copy"], "gone.py: no such file"),
    (["product.py:copy"], "x is missing"),
    (["product.py:copy", "x=128x64:bf16", "--buffers=0"], "--buffers=0: expected"),
    (["product.py:copy", "x=128x64:bf16", "--buffers=tyle:2"], "no tile 'tyle'"),
    (["product.py:copy", "x=128x64:bf16", "--write=out.txt"], "written as .json; got '.txt'"),
    (["product.py:copy", "x=128x64:bf16", "--write=no/out.json"], "no/out.json"),
    (["product.py:copy", "x=128x64:bf16", "--against=gone.json"], "gone.json"),
    (["product.py:copy", "x=128x64:bf16", "--against=product.py"], "product.py: expected JSON"),
    (["product.py:copy", "x=128x64:bf16", "--against=cut.json"], "cut.json"),
    (["product.py:copy", "x=128x64:bf16", "--flops=two"], "--flops two: no number"),
    (["product.py:copy", "x=128x64:bf16", "--lnc=2", "--chip=trn1"], "trn1 is one physical core"),
    ([], "CALL"),
])
def test_bad_input(shell: Shell, tmp_path: Path, argv: list[str], said: str) -> None:
    (tmp_path / "cut.json").write_text('{"summary": [{"total_ti')
    before = {*tmp_path.iterdir()}
    assert said in refused(shell, *argv)
    assert {*tmp_path.iterdir()} == before


def test_a_foreign_file_is_left(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text('{"mine": 1}')
    assert "mine.json" in refused(shell, "product.py:copy", "x=128x64:bf16", "--write=mine.json")
    assert (tmp_path / "mine.json").read_text() == '{"mine": 1}'


def test_a_profile_of_another_chip(shell: Shell) -> None:
    shell("predict", *MLP, "--chip=trn1", "--write=before.json")
    code, _, err = shell("predict", *MLP, "--chip=trn2", "--against=before.json")
    assert code == 2
    assert "another chip" in err


def test_a_time_below_the_memory_roof_is_the_models_own(shell: Shell) -> None:
    """A copy with 16 KiB rows: 16 DMA engines of 27.2 GB/s carry more than 375 GB/s of HBM."""
    code, out, _ = shell("predict", "product.py:copy", "x=2048x8192:bf16", "--chip=trn2")
    found = data(shell, "product.py:copy", "x=2048x8192:bf16", "--chip=trn2")
    assert code == 0 and 375e9 / (16 * 27.2e9) <= found["t"] / found["t_best"] < 1
    assert "the model lets the DMA engines carry more" in out and "clock right" not in out
