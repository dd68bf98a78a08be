"""Calls, ops and hand counts as arguments: what is understood, and what is said where it is not."""
# ruff: noqa: F401, F811  # here and shell are fixtures

import argparse
import json
from pathlib import Path

import pytest
from captures import Shell, here, shell

from roofline.commands import calls, matched
from roofline.count import Count

SOURCE = '''
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def copy(a):
    """A copy through SBUF."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm, name="out")
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def rows(a, expected=128, mode="plain"):
    assert a.shape[0] == expected, f"a: expected {expected} rows, got {a.shape[0]}"
    return copy(a)


@nki.jit
def late(a, block, b):
    return copy(a)


@nki.jit
def many(tiles, bias=None):
    return copy(tiles[0])


@nki.jit
def star(*tensors):
    return copy(tensors[0])


@nki.jit
def unwritten(a):
    return nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)


def plain(a):
    return a


pair = copy[2]
'''


@pytest.fixture(autouse=True)
def copies(here: Path) -> None:
    for name, text in (("copies.py", SOURCE), ("bad.py", "def f(:\n"), ("empty.py", "x = 1\n"),
                       ("fails.py", "import nki\n1 / 0\n")):
        (here / name).write_text(text)


# A copy reads and writes each element once: Q = 2 p MN.
@pytest.mark.parametrize(("given", "q"), [
    (["a=128x64:bf16"], 2 * 2 * 128 * 64),
    (["a=128x64:bfloat16"], 2 * 2 * 128 * 64),
    (["a=128x64:fp32"], 2 * 4 * 128 * 64),
    (["a=4x4:bf16", "a=128x64:int8"], 2 * 1 * 128 * 64),  # what stands later wins
])
def test_a_call(shell: Shell, given: list[str], q: int) -> None:
    code, out, _ = shell("count", "copies.py:copy", *given, "--chip=trn2", "--json")
    assert (code, json.loads(out)["hbm_bytes"]) == (0, q)


def test_parameters_are_numbers_texts_and_literals(shell: Shell) -> None:
    code, out, _ = shell("count", "copies.py:rows", "a=64x8:bf16", "expected=64", "mode=fast",
                       "--chip=trn2", "--json")
    assert code == 0
    assert json.loads(out)["subject"].startswith("rows expected=64 mode=fast")


def test_a_file_holds_the_call_and_what_follows_it_wins(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "call.txt").write_text(
        "copies.py:copy  # from where you are, not from sub/\na=128x64:bf16 --chip=trn2\n")
    code, out, _ = shell("count", "@sub/call.txt", "a=128x32:bf16", "--json")
    assert (code, json.loads(out)["hbm_bytes"]) == (0, 2 * 2 * 128 * 32)
    (tmp_path / "sub" / "own.txt").write_text("kernel.py:copy a=128x64:bf16\n")
    (tmp_path / "sub" / "kernel.py").write_text(SOURCE)
    code, _, err = shell("count", "@sub/own.txt")
    assert code == 2
    assert "kernel.py: no such file" in err
    assert "Paths count from where you are" in err
    assert "those inside an @file too" in err


def test_a_file_that_is_no_kernel_is_told_where_it_belongs(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "call.txt").write_text("copies.py:copy a=128x64:bf16\n")
    (tmp_path / "before.json").write_text("{}")
    code, _, err = shell("count", "call.txt")
    assert code == 2
    assert "Arguments in a file are read with @: @call.txt" in err
    code, _, err = shell("roof", "before.json")
    assert code == 2
    assert "--profile=before.json" in err
    code, _, err = shell("count", "my", "kernels/copies.py:copy")
    assert "neither FILE.py:KERNEL" in err
    (tmp_path / "spaced.txt").write_text("sub/my copies.py:copy a=128x64:bf16\n")
    code, _, err = shell("count", "@spaced.txt")
    assert code == 2
    assert "A path with a blank in it stands in quotes" in err


def test_a_def_line_is_shown_without_its_types(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(
        "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n@nki.jit\n"
        "def typed(a: nl.ndarray, rows: int = 4) -> nl.ndarray:\n"
        '    """Copies a,\n    row by row.\n\n    More of it.\n    """\n    return a\n')
    code, out, _ = shell("count", "typed.py")
    assert code == 0
    assert "  typed(a, rows=4)\n      Copies a, row by row.\n" in out
    _, _, err = shell("count", "typed.py:typed")
    assert "Its def line is typed(a, rows=4)" in err


@pytest.mark.parametrize(("command", "takes"), [
    ("count", True), ("roof", True), ("predict", False), ("capture", False)])
def test_help_lists_an_op_where_one_is_taken(shell: Shell, command: str, takes: bool) -> None:
    out = shell(command, "--help")[1]
    assert ("\n  Op NAME=VALUE ...\n" in out) == takes
    assert "\n  FILE.py:KERNEL NAME=SHAPE:DTYPE ... NAME=VALUE ...\n" in out
    assert "\n  @call.txt\n" in out


CALL = "copies.py:copy"


@pytest.mark.parametrize(("argv", "said"), [
    # --- the file and the kernel
    (["copie.py:copy"], ["copie.py: no such file, did you mean copies.py?", "from where you are"]),
    (["bad.py:f"], ["bad.py, line 1: not Python"]),
    (["fails.py:f"], ["fails.py, line 2", "ZeroDivisionError"]),
    (["empty.py:f"], ["empty.py: no kernel in it", "@nki.jit"]),
    (["copies.py:coppy", "a=128x64:bf16"], ["'coppy', did you mean copy?", "It has copy"]),
    (["copies.py:plain", "a=128x64:bf16"], ["no kernel 'plain'"]),
    (["copies.py:", "a=128x64:bf16"], ["which kernel? Write copies.py:copy"]),
    (["copies.py", "a=128x64:bf16"], ["which kernel? Write copies.py:copy"]),
    (["copies.py:copy[2]", "a=128x64:bf16"], ["write copy, and --lnc=2"]),
    (["a=128x64:bf16", CALL], ["a call begins with its kernel"]),
    (["copies", "a=128x64:bf16"], ["neither FILE.py:KERNEL nor an op", "Matmul"]),
    # --- its arguments
    ([CALL], ["a is missing", "a=512x1024:bf16", "copy(a)"]),
    ([CALL, "b=128x64:bf16"], ["no parameter b", "copy(a)"]),
    (["copies.py:rows", "a=128x64:bf16", "expcted=4"], ["did you mean expected?"]),
    ([CALL, "128x64:bf16"], ["expected NAME=SHAPE:DTYPE", "NAME=VALUE"]),
    ([CALL, "a="], ["expected NAME=SHAPE:DTYPE"]),
    (["copies.py:late", "a=128x64:bf16", "block=2", "b=128x64:bf16"],
     ["block stands before b", "nki.run(nki.load('copies.py').late"]),
    (["copies.py:rows", "a=64x8:bf16"], ["its own assert failed: a: expected 128 rows, got 64",
                                         "copies.py, line 19"]),
    (["copies.py:unwritten", "a=64x8:bf16"], ["none of it written"]),
    (["copies.py:many", "tiles=[128x64:bf16,128x64:bf16]"],
     ["a parameter is a number", "nki.run(nki.load('copies.py').many"]),
    (["copies.py:many", "tiles=[1,2]"], ["tiles=[1, 2]: a parameter is a number"]),
    (["copies.py:rows", "a=64x8:bf16", "expected=(64,)"], ["the dtype is missing"]),
    (["copies.py:rows", "a=64x8:bf16", "mode={'a': 1}"], ["a parameter is a number"]),
    (["copies.py:star", "x=128x64:bf16"], ["no parameter x", "Python can"]),
    # --- a shape
    ([CALL, "a=128*64:bf16"], ["whole numbers joined by x, as in a=128x64:bf16"]),
    ([CALL, "a=128,64:bf16"], ["as in a=128x64:bf16"]),
    ([CALL, "a=(128, 64):bf16"], ["as in a=128x64:bf16"]),
    ([CALL, "a=128X64:bf16"], ["as in a=128x64:bf16"]),
    ([CALL, "a=128x64x:bf16"], ["as in a=128x64:bf16"]),
    ([CALL, "a=Nx64:bf16"], ["whole numbers joined by x"]),
    ([CALL, "a=-128x64:bf16"], ["as in a=128x64:bf16"]),
    ([CALL, "a=128x64"], ["the dtype is missing. Write a=128x64:bf16"]),
    ([CALL, "a=128x64:"], ["no dtype ''"]),
    ([CALL, "a=128x64:bf61"], ["no dtype 'bf61', did you mean bf16?"]),
    ([CALL, "a=128x64:fp64"], ["no dtype 'fp64'"]),
    ([CALL, "a=0x64:bf16"], ["a size of 0; each is at least 1"]),
    ([CALL, f"a={10**20}x64:bf16"], ["a size of more than 18 digits"]),
    ([CALL, "a=" + "9" * 5000 + "x1:bf16"], ["more than 18 digits"]),
    ([CALL, "a=99999999999x64:bf16"], ["B of HBM"]),
    # --- the machine
    ([CALL, "a=128x64:bf16", "--lnc=2", "--chip=trn1"], ["--lnc=2", "trn1 is one physical core"]),
    ([CALL, "a=128x64:bf16", "--lnc=2", "--chip=inf2"], ["inf2 is one physical core"]),
    ([CALL, "a=128x64:bf16", "--lnc=3"], ["--lnc"]),
    ([CALL, "a=128x64:bf16", "--chip=trn4"], ["--chip", "trn1"]),
    (["copies.py:pair", "a=128x64:bf16", "--lnc=1"], ["makes pair for 2", "Leave --lnc out"]),
    # --- an op
    (["matmul", "M=2"], ["did you mean Matmul?"]),
    (["Chain", "steps=2"], ["neither FILE.py:KERNEL nor an op"]),
    (["Matmul", "M=2", "K=4"], ["N is missing", "Matmul(M, K, N, dtype=bf16)"]),
    (["Matmul", "M=2", "K=4", "n=4"], ["no size n, did you mean N?"]),
    (["Matmul", "M=0", "K=4", "N=4"], ["M: expected a whole number >= 1, got 0"]),
    (["Matmul", "M=2.5", "K=4", "N=4"], ["got 2.5"]),
    (["Matmul", "M=5/2", "K=4", "N=4"], ["got 2.5"]),
    (["Matmul", "M=10**45", "K=4", "N=4"], ["M: expected a whole number", "'10**45'"]),
    (["Matmul", "M=10**15", "K=10**15", "N=3"],
     ["W is 6e+30 FLOP", "Q 2e+30 B", "at most 1e+18 of either. Take smaller sizes"]),
    (["Matmul", "M=2", "K=4", "N=4", "dtype=bf61"], ["dtype: expected one of"]),
    (["Matmul", "M=2x2:bf16", "K=4", "N=4"], ["takes numbers, not arrays"]),
    (["Attention", "L=8", "d=8", "heads=3", "kv_heads=2"], ["a divisor of heads = 3"]),
    (["AllReduce", "n=5"], ["a multiple of them"]),
    # --- nothing at all
    (["@none.txt"], ["@none.txt"]),
    ([], ["CALL"]),
])
def test_a_slip_is_named_with_what_to_write(shell: Shell, argv: list[str], said: list[str]) -> None:
    code, out, err = shell("count", *argv)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert [words for words in said if words not in err] == []


def test_an_error_names_no_op_that_takes_more_than_numbers(shell: Shell) -> None:
    said = shell("count", "Nothing")[2].partition("Ops are ")[2].split(", ")
    assert {"Matmul", "MLP", "Attention", "AllReduce"} <= {*said}
    assert not {"Op", "Chain", "Custom", "Named", "Crossing", "Count"} & {*said}


def test_a_size_of_an_op_may_be_arithmetic(shell: Shell) -> None:
    for sizes in (("M=2*1024", "K=2**6", "N=1024//2"), ("M=2048", "K=6400/100", "N=(8+24)*16")):
        code, out, _ = shell("count", "Matmul", *sizes, "--json")
        said = json.loads(out)
        assert (code, said["subject"]) == (0, "Matmul M=2048 K=64 N=512")
        assert said["flops"] == 2 * 2048 * 64 * 512


# --- the hand count ------------------------------------------------------------------------------


def parsed(*argv: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    calls.add(parser, needed=False)
    return parser.parse_args(argv)


@pytest.mark.parametrize(("argv", "work", "transfers"), [
    (["--flops=2*128**3"], {"bf16": 2 * 128**3}, {}),
    (["--flops=34.4 GFLOP"], {"bf16": 34_400_000_000}, {}),
    (["--flops=fp32:8", "--flops=8", "--flops=float32:1"], {"fp32": 9, "bf16": 8}, {}),
    (["--flops=8", "--dtype=float32"], {"fp32": 8}, {}),
    (["--bytes=8 MiB"], {}, {"": 8 * 2**20}),
    (["--bytes=8.39 MB"], {}, {"": 8_390_000}),  # 8.39 * 1e6 is no whole number of floats
    (["--bytes=x:2*(3 + 4)", "--bytes=x: 10 // 3", "--bytes=y:6/2"], {}, {"x": 17, "y": 3}),
    (["--bytes=0"], {}, {"": 0}),
    ([], {}, {}),
])
def test_hand(argv: list[str], work: dict[str, int], transfers: dict[str, int]) -> None:
    mine = calls.hand(parsed(*argv))
    assert (dict(mine.work), dict(mine.transfers)) == (work, transfers)
    assert mine.count == Count(work, sum(transfers.values()))


def test_a_work_without_a_dtype_is_of_the_calls() -> None:
    assert calls.hand(parsed("--flops=8"), Count({"fp32": 9})).work == {"fp32": 8}
    assert calls.hand(parsed("--flops=8"), Count({}, 4)).work == {"bf16": 8}
    assert calls.hand(parsed("--flops=8", "--dtype=bf16"), Count({"fp32": 9})).work == {"bf16": 8}
    both = Count({"bf16": 2, "fp32": 4})
    with pytest.raises(calls.CallError, match=r"--flops=bf16:W --flops=fp32:W"):
        calls.hand(parsed("--flops=6"), both)
    assert calls.hand(parsed("--flops=bf16:2", "--flops=fp32:4"), both).count.work == both.work


@pytest.mark.parametrize(("argv", "said"), [
    (["--flops=2*"], "no arithmetic"),
    (["--flops=(1-9)**0.5"], "no arithmetic"),
    (["--flops=2**9999999999"], "too large"),
    (["--flops=10**40*10"], "too large"),
    (["--flops=__import__('os')"], "no arithmetic"),
    (["--flops=1/0"], "not a finite number"),
    (["--flops=1e999"], "not a finite number"),
    (["--flops=two"], "no number"),
    (["--flops=3 GB"], "is bytes; expected work"),
    (["--flops=-3"], "expected 0 to 1e+18"),
    (["--flops=10**19"], "expected 0 to 1e+18"),
    (["--flops=7/2"], "expected a whole number"),
    (["--flops=fb16:3"], "no dtype 'fb16', did you mean"),
    (["--flops=3", "--dtype=bf61"], "did you mean bf16?"),
    (["--dtype=fp32"], "--dtype=fp32: it is that of --flops, and there is none; a call says its"),
    (["--dtype=fp32", "--bytes=8"], "Give --flops, or leave --dtype out"),
    (["--bytes=3 GFLOP"], "is work; expected bytes"),
    (["--bytes=x:"], "no number"),
    (["--bytes=8 Mb"], "is bits"),
])
def test_hand_slips(argv: list[str], said: str) -> None:
    with pytest.raises(calls.CallError) as error:
        calls.hand(parsed(*argv))
    assert said in str(error.value)
    assert argv[0].partition("=")[2][:9] in str(error.value) or "--dtype" in str(error.value)


def test_the_machine_is_a_core_or_a_pair() -> None:
    assert matched.scope(parsed("--chip=trn2"), None).machine.scope == "core"
    assert matched.scope(parsed("--chip=trn2", "--lnc=2"), None).machine.scope == "lnc2"
    assert matched.scope(parsed("--chip=inf2"), None).chip == "inf2"
