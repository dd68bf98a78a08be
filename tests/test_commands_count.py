"""roofline count: W and Q by the source and by hand, as text, JSON and CSV."""
# ruff: noqa: F401, F811  # here and shell are fixtures

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from captures import Shell, asked, here, shell

ROOT = Path(__file__).parent.parent
KERNELS = str(ROOT / "day5" / "kernels.py")
B, D, F = 128, 512, 256  # tokens and widths of a small MLP
W, Q = 4 * B * D * F, 2 * (2 * B * D + 2 * D * F)  # two matmuls; x, y and both weights once
MLP = [f"{KERNELS}:mlp_fused", f"x={D}x{B}:bf16", f"w_up={D}x{F}:bf16", f"w_down={F}x{D}:bf16",
       "--chip=trn2"]
MIXED = '''
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def two(a, b):
    """a' a in one dtype, b' b in another."""
    outs = []
    for x in (a, b):
        out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
        total = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        result = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.nc_matmul(dst=total, stationary=tile, moving=tile, accumulate=False)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out, src=result)
        outs.append(out)
    return tuple(outs)

'''
HALVES = '''
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def halves(x):
    """y = x: each core its half, written twice."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    mine = nl.ds(nl.program_id(0) * 128, 128)
    nisa.dma_copy(dst=tile, src=x[mine, :])
    for i in range(2):
        nisa.dma_copy(dst=y[mine, :], src=tile)
    return y
'''
TWO = ["mixed.py:two", "a=128x128:bf16", "b=128x128:fp32", "--chip=trn2"]
told, refused = asked("count")


@pytest.fixture(autouse=True)
def mixed(here: Path) -> None:
    (here / "mixed.py").write_text(MIXED)


def data(shell: Shell, *argv: str) -> dict[str, Any]:
    return told(shell, *argv)[1]


def test_a_kernel(shell: Shell) -> None:
    code, out, err = shell("count", *MLP)
    assert (code, err) == (0, "")
    assert f"{W:,}" in out and f"{Q:,}" in out
    found = data(shell, *MLP)
    assert (found["flops"], found["work"], found["hbm_bytes"]) == (W, {"bf16": W}, Q)
    assert (found["hbm_read_bytes"], found["hbm_write_bytes"]) == (Q - 2 * B * D, 2 * B * D)
    assert found["intensity"] == W / Q
    assert {t["tensor"]: (t["crosses"], t["times"]) for t in found["tensors"]} == {
        "x": (2 * B * D, 1), "w_up": (2 * D * F, 1), "w_down": (2 * D * F, 1), "y": (2 * B * D, 1)}


def test_what_comes_back_is_counted_as_often(shell: Shell) -> None:
    # each product of two tiles loads both: A N/512 times, B M/128 times
    M, K, N = 256, 128, 1024
    found = data(shell, f"{KERNELS}:matmul_reload", f"a={K}x{M}:bf16", f"b={K}x{N}:bf16",
                 "--chip=trn2")
    assert {t["tensor"]: t["times"] for t in found["tensors"]} == {"a": 2, "b": 2, "c": 1}
    assert found["hbm_bytes"] == 2 * (2 * M * K + 2 * K * N + M * N)


def test_the_matmuls_are_w(shell: Shell) -> None:
    # up: F/128 tiles of D/128 steps, 128 tokens; down: D/512 tiles of F/128 steps
    up, down = (F // 128) * (D // 128), (B // 128) * (D // 512) * (F // 128)
    found = data(shell, *MLP)["matmuls"]
    assert {(m["K"], m["M"], m["N"]): m["times"] for m in found} == {
        (128, 128, 128): up, (128, 128, 512): down}
    assert sum(2 * m["K"] * m["M"] * m["N"] * m["times"] for m in found) == W
    assert f"{up} of 128 x 128 x 128 bf16" in shell("count", *MLP)[1]


def test_transposes_are_named_and_are_no_work(shell: Shell) -> None:
    L, d = 512, 128
    call = [f"{KERNELS}:attention_fused", f"q={d}x{L}:bf16", f"k={d}x{L}:bf16", f"v={L}x{d}:bf16",
            "--chip=trn2"]
    found = data(shell, *call)
    assert found["flops"] == 4 * L * L * d
    flips = [m for m in found["matmuls"] if m["transpose"]]
    assert sum(m["times"] for m in flips) == (L // 128)**2  # A, 128 x 128 at a time
    flops = (L // 128)**2 * 2 * 128**3
    out = " ".join(shell("count", *call)[1].split())
    assert f"transposes on the Tensor Engine: 16, {flops:,} FLOP" in out


def test_without_a_matmul(shell: Shell) -> None:
    code, out, _ = shell("count", "product.py:copy", "x=128x64:fp32", "--chip=trn2")
    assert code == 0
    assert "matmuls: none, so W = 0" in out
    assert "no matmuls, so no intensity" in out and "I = W / Q" not in out
    assert f"{2 * 4 * 128 * 64:,}" in out
    assert data(shell, "product.py:copy", "x=128x64:fp32", "--chip=trn2")["intensity"] == 0
    assert shell("count", "product.py:copy", "x=128x64:fp32", "--bytes=65536", "--flops=0")[0] == 0


def test_two_cores_together(shell: Shell) -> None:
    # each core loads both weights; tokens are shared out
    tokens = 2 * B
    call = [MLP[0], f"x={D}x{tokens}:bf16", *MLP[2:4], "--chip=trn2", "--lnc=2"]
    code, out, _ = shell("count", *call, f"--flops=4*{tokens}*{D}*{F}",
                       f"--bytes=2*(2*{tokens}*{D} + 2*2*{D}*{F})")
    assert code == 0
    assert "both cores together" in out
    assert "LNC=2" in out


def test_what_both_cores_write_whole_is_told(shell: Shell, tmp_path: Path) -> None:
    note = "y is written 2x: both cores write all of it. Split the work by nl.program_id(0)"
    said = " ".join(shell("count", "product.py:pair", "x=256x64:bf16")[1].split())
    assert note in said
    assert "written 2x" not in shell("count", "product.py:copy", "x=256x64:bf16")[1]
    (tmp_path / "halves.py").write_text(HALVES)  # as many bytes, each core its own half, twice
    call = ["halves.py:halves", "x=256x64:bf16", "--lnc=2", "--chip=trn2"]
    assert [t["written"] / t["bytes"] for t in data(shell, *call)["tensors"]] == [0, 2]
    assert "written 2x" not in shell("count", *call)[1]
    split = [MLP[0], f"x={D}x{2 * B}:bf16", *MLP[2:], "--lnc=2"]  # both load the weights, rightly
    assert "written 2x" not in shell("count", *split)[1]


def test_of_two_dtypes_each_has_its_own_w(shell: Shell) -> None:
    each = 2 * 128**3
    assert data(shell, *TWO)["work"] == {"bf16": each, "fp32": each}
    assert shell("count", *TWO, f"--flops=bf16:{each}", f"--flops=fp32:{each}")[0] == 0
    code, out, _ = shell("count", *TWO, f"--flops=bf16:{each}")
    assert code == 1
    assert "differs in W fp32" in out
    code, _, err = shell("count", *TWO, f"--flops={2 * each}")
    assert code == 2
    assert "--flops=bf16:W --flops=fp32:W" in err


def test_a_w_without_a_dtype_is_of_the_calls(shell: Shell) -> None:
    wide = [one.replace("bf16", "fp32") for one in MLP]
    assert shell("count", *wide, f"--flops={W}", f"--bytes={2 * Q}")[0] == 0
    assert data(shell, *wide)["work"] == {"fp32": W}


# --- beside yours --------------------------------------------------------------------------------


def test_yours_agrees(shell: Shell) -> None:
    code, out, _ = shell("count", *MLP, f"--flops=4*{B}*{D}*{F}", f"--bytes=x:2*{B}*{D}",
                       f"--bytes=w_up:2*{D}*{F}", f"--bytes=w_down:2*{D}*{F}",
                       f"--bytes=y:2*{B}*{D}")
    assert code == 0
    assert "yours agrees" in out


def test_yours_differs(shell: Shell) -> None:
    code, out, _ = shell("count", *MLP, f"--flops=2*{B}*{D}*{F}", f"--bytes=x:2*{B}*{D}",
                       f"--bytes=w_up:2*{D}*{F}", f"--bytes=w_down:2*{D}*{F}")
    assert code == 1
    assert "differs in W, Q, tensor y:" in out
    assert f"{-2 * B * D * F:,}" in out  # half of W is missing
    found = data(shell, *MLP, "--bytes=x:1")
    assert found["yours"] == {"work": {}, "hbm_bytes": 1, "differs": ["Q"],
                              "tensors_differ": ["x", "w_up", "w_down", "y"]}
    assert found["tensors"][0]["difference"] == 1 - 2 * B * D


def test_a_tensor_called_w_is_not_w(shell: Shell) -> None:
    code, out, _ = shell("count", "Linear", f"B={B}", f"D={D}", f"F={F}", f"--flops=2*{B}*{D}*{F}",
                       "--bytes=W:1")
    assert code == 1
    assert "differs in Q, tensor x, tensor W, tensor y:" in out


@pytest.mark.parametrize(("argv", "said"), [
    ([*MLP, "--bytes=w_pu:8"], "--bytes w_pu: the call has no such tensor, did you mean w_up? "
                               "It has x, w_up, w_down, y"),
    ([*MLP, "--bytes=x:two"], "--bytes x:two: no number"),
    ([*MLP, "--flops=2*"], "--flops 2*: no arithmetic"),
    (["MLP", "B=1", "D=1", "F=1", "--lines"], "--lines: MLP B=1 D=1 F=1 is a formula"),
    (["gone.py"], "gone.py: no such file"),
    ([*MLP, "--save=out.svg"], ".csv"),
    ([*MLP, "--frobnicate"], "--frobnicate"),
])
def test_bad_input(shell: Shell, argv: list[str], said: str) -> None:
    assert said in refused(shell, *argv)


# --- lists, lines, formulas, files ---------------------------------------------------------------


def test_the_kernels_of_a_file(shell: Shell) -> None:
    code, out, _ = shell("count", "product.py")
    assert code == 0
    assert "product.py: 4 kernels" in out
    assert "copy(x)\n      y = x, through SBUF: no FLOPs." in out
    assert "product.py:pair x=SHAPE:DTYPE" in out
    found = data(shell, "product.py")["kernels"]
    assert [(one["name"], one["called with"]) for one in found] == [
        ("product", "(a, b, times=8)"), ("twice", "(a, b, times=8)"), ("copy", "(x)"),
        ("pair", "(x)")]


def test_by_line(shell: Shell, tmp_path: Path) -> None:
    code, out, _ = shell("count", *MLP, "--lines", "--save=lines.csv")
    assert code == 0
    assert "nisa.dma_copy(" in out
    with (tmp_path / "lines.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["read"]) + int(row["written"]) for row in rows) == Q
    assert sum(int(row["flops"]) for row in rows) == W
    text = Path(KERNELS).read_text().splitlines()
    for row in rows:
        number = int(row["line"].rpartition(" ")[2].rpartition(":")[2])
        assert text[number - 1].strip().startswith(row["source"].strip()[:20])


def test_a_formula(shell: Shell) -> None:
    M, K, N = 2048, 1024, 512
    code, out, _ = shell("count", "Matmul", f"M={M}", f"K={K}", f"N={N}", f"--flops=2*{M}*{K}*{N}",
                       f"--bytes=2*({M}*{K} + {K}*{N} + {M}*{N})")
    assert code == 0
    assert "counted in the formula" in out
    assert data(shell, "Dot", "n=1024")["work"] == {"fp32": 2 * 1024}


def test_flops_without_matmuls_are_named_and_may_be_left_out_of_yours(shell: Shell) -> None:
    n = 1024
    out = " ".join(shell("count", "Dot", f"n={n}")[1].split())
    assert (f"no matmuls: {2 * n:,} FLOP of W run on the Vector, Scalar or GpSimd Engine; the "
            "Tensor Engine's W, which roof takes, is 0 FLOP") in out
    for flops, code in ((0, 0), (2 * n, 0), (n, 1)):
        assert shell("count", "Dot", f"n={n}", f"--flops={flops}")[0] == code
    assert "no matmuls, so no intensity" in out and "I = W / Q" not in out
    rows = [line.split() for line in shell("count", "Dot", f"n={n}", "--flops=0")[1].splitlines()]
    assert ["W", f"{2 * n:,}", "-", "-"] in [row[:4] for row in rows]
    assert ["W", "of", "matmuls", "0", "0", "+0"] in [row[:6] for row in rows]
    gelu = ["MLP", f"B={B}", f"D={D}", f"F={F}", "activation_flops=8"]  # 8 for each of h
    out = " ".join(shell("count", *gelu)[1].split())
    assert f"no matmuls: {8 * B * F:,} FLOP of W" in out and f"is {W:,} FLOP" in out
    for flops, code in ((W, 0), (W + 8 * B * F, 0), (8 * B * F, 1)):
        assert shell("count", *gelu, f"--flops={flops}")[0] == code
    assert "no matmuls" not in shell("count", "Matmul", "M=1", "K=1", "N=1")[1]


def test_a_link_is_no_hbm(shell: Shell) -> None:
    # reduce-scatter, then all-gather: each sends (c - 1)/c of the tensor twice
    n, c = 1024, 4
    out = shell("count", "AllReduce", f"n={n}", f"chips={c}")[1]
    assert f"over the link to the next chip {2 * 2 * n * (c - 1) // c:,} B" in out


def test_files(shell: Shell, tmp_path: Path) -> None:
    names = [f"out{suffix}" for suffix in (".txt", ".json", ".csv", ".html")]
    code, out, err = shell("count", *MLP, *(f"--save={name}" for name in names))
    assert code == 0
    assert all(name in err for name in names)
    assert (tmp_path / "out.txt").read_text() == out
    assert json.loads((tmp_path / "out.json").read_text())["hbm_bytes"] == Q
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["crosses"]) for row in rows) == Q
    assert f"{Q:,}" in (tmp_path / "out.html").read_text()
