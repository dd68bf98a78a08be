"""The course's kernels: what they count at full size, what they compute, that they fit.

And the law that makes a count worth having: it is the sum of what the kernel issued. Delete,
duplicate or move any one load of any kernel, in the run or in the source, and the bytes change by
exactly that transfer.
"""

import ast
import functools
import inspect
import math
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels_oracle import (
    Close,
    attention,
    bf16,
    draw,
    exact,
    gelu,
    matmul,
    mlp,
    product,
    softmax,
    stored,
    swiglu,
)
from pages import ROOT
from test_ops import value

from roofline import nki, ops
from roofline.count import Count

DAYS = ("day4", "day5", "day6", "day7", "casestudy")
P = 2  # bytes of a bf16 element
FP32 = 4
TILE = 128
KIB = 1024


@functools.cache
def file(day: str) -> Any:
    """The kernels of a day."""
    return nki.load(ROOT / day / "kernels.py")


def shapes(*sizes: tuple[int, ...]) -> list:
    """bf16 arguments without contents."""
    return [(size, "bf16") for size in sizes]


# --- full size: counts and capacity ------------------------------------------------------------

B, D, F = 2048, 1024, 4096  # the MLP of Day 5 and of the case study
L, d = 4096, 128  # the attention head of Day 5
S = 1024  # Day 5's best case is a 1024^3 matmul


class Full(NamedTuple):
    """A kernel at the course's size: bytes read and written, W, and the most that is alive.

    sbuf    bytes of a core, all partitions; banks: of PSUM
    """

    day: str
    name: str
    args: list
    read: int
    written: int
    work: int
    sbuf: int
    banks: int
    options: dict = {}  # noqa: RUF012
    lnc: int = 1

    def __str__(self) -> str:
        return f"{self.day}.{self.name}{'[2]' * (self.lnc == 2)}"


FULL = [
    # 64 MiB in and out; 8 KiB a partition
    Full("day4", "copy", shapes((B, 4 * D, 4)), read=P * B * D * 16, written=P * B * D * 16,
         work=0, sbuf=8 * KIB * TILE, banks=0, options={"elements": 8 * KIB // P}),
    Full("day4", "copy", shapes((B, 4 * D, 4)), read=P * B * D * 16, written=P * B * D * 16,
         work=0, sbuf=4 * KIB * TILE, banks=0, options={"queues": 2}, lnc=2),
    # one way, 128 transfers of 128 rows: an element of a row comes back, a transfer of a core goes
    Full("day4", "read", shapes((B, 4 * D, 4)), read=P * B * D * 16, written=P * TILE * 128,
         work=0, sbuf=P * TILE * (2048 + 128), banks=0),
    Full("day4", "read", shapes((B, 4 * D, 4)), read=P * B * D * 16, written=P * TILE * 128,
         work=0, sbuf=P * TILE * (2048 + 64), banks=0, options={"queues": 2}, lnc=2),
    Full("day4", "write", shapes((B, 4 * D, 4)), read=P * TILE * 2048, written=P * B * D * 16,
         work=0, sbuf=P * TILE * 2048, banks=0, options={"queues": 1}),
    Full("day4", "write", shapes((B, 4 * D, 4)), read=2 * P * TILE * 2048, written=P * B * D * 16,
         work=0, sbuf=P * TILE * 2048, banks=0, lnc=2),
    Full("day4", "moving_sweep", shapes((128, 128), (128, 512)),
         read=P * 128 * (128 + 512), written=FP32 * 128 * 512, work=2 * 128 * 128 * 512 * 64,
         sbuf=FP32 * 128 * 512, banks=1),
    Full("day4", "resident_matmul", shapes((2048, 512), (2048, 1024)),
         read=P * 2048 * (512 + 1024), written=FP32 * 512 * 1024,
         work=2 * 2048 * 512 * 1024 * 16, sbuf=P * 2048 * (512 + 1024), banks=8),

    Full("day5", "matmul_reload", shapes((S, S), (S, S)),
         read=P * (S // 512 * S * S + S // 128 * S * S), written=P * S * S, work=2 * S**3,
         sbuf=P * TILE * (128 + 512), banks=1),
    Full("day5", "matmul_a_stays", shapes((S, S), (S, S)),
         read=P * (S * S + S // 128 * S * S), written=P * S * S, work=2 * S**3,
         sbuf=P * TILE * (S + 512), banks=1),
    Full("day5", "matmul_b_stays", shapes((S, S), (S, S)),
         read=P * (S * S + S * S), written=P * S * S, work=2 * S**3,
         sbuf=P * (S * S + TILE * S + TILE * 512), banks=1),
    Full("day5", "matmul_c_stays", shapes((S, S), (S, S)),
         read=P * (S // 1024 * S * S + S // 256 * S * S), written=P * S * S, work=2 * S**3,
         sbuf=P * TILE * (256 + 1024), banks=4),

    Full("day5", "mlp_up", shapes((D, B), (D, F)), read=P * (B * D + D * F), written=P * B * F,
         work=2 * B * D * F, sbuf=P * (D * F + D * 512 + TILE * 512), banks=1),
    Full("day5", "mlp_gelu", shapes((F, B)), read=P * B * F, written=P * B * F, work=0,
         sbuf=2 * P * TILE * B, banks=0),
    Full("day5", "mlp_down", shapes((F, B), (F, D)), read=P * (B * F + F * D), written=P * B * D,
         work=2 * B * F * D, sbuf=P * (F * D + F * 512 + TILE * D), banks=1),
    # x and g of a block are alive together, then g and y
    Full("day5", "mlp_fused", shapes((D, B), (D, F), (F, D)),
         read=P * (B * D + 2 * D * F), written=P * B * D, work=4 * B * D * F,
         sbuf=P * (2 * D * F + 128 * D + 128 * F), banks=1),
    Full("day5", "mlp_fused", shapes((D, B), (D, F), (F, D)),
         read=P * (B * D + 2 * D * F), written=P * B * D, work=4 * B * D * F,
         sbuf=P * (2 * D * F + 512 * D + 512 * F), banks=1, options={"block": 512}),
    # two cores, each half of the tokens and all of the weights
    Full("day5", "mlp_up", shapes((D, B), (D, F)), read=P * (B * D + 2 * D * F),
         written=P * B * F, work=2 * B * D * F, sbuf=P * (D * F + D * 512 + TILE * 512), banks=1,
         lnc=2),
    Full("day5", "mlp_gelu", shapes((F, B)), read=P * B * F, written=P * B * F, work=0,
         sbuf=2 * P * TILE * B, banks=0, lnc=2),
    Full("day5", "mlp_down", shapes((F, B), (F, D)), read=P * (B * F + 2 * F * D),
         written=P * B * D, work=2 * B * F * D, sbuf=P * (F * D + F * 512 + TILE * D), banks=1,
         lnc=2),
    Full("day5", "mlp_fused", shapes((D, B), (D, F), (F, D)), read=P * (B * D + 4 * D * F),
         written=P * B * D, work=4 * B * D * F, sbuf=P * (2 * D * F + 128 * D + 128 * F), banks=1,
         lnc=2),

    Full("day5", "attention_scores", shapes((d, L), (d, L)), read=P * 2 * L * d,
         written=P * L * L, work=2 * L * L * d, sbuf=P * (2 * L * d + TILE * L), banks=1),
    # S and its exponentials in fp32 with a maximum for each row; another instruction reads the sums
    Full("day5", "attention_softmax", shapes((L, L)), read=P * L * L, written=P * L * L, work=0,
         sbuf=TILE * L * (P + FP32) + TILE * FP32, banks=0),
    Full("day5", "attention_values", shapes((L, L), (L, d)), read=P * (L * L + L * d),
         written=P * L * d, work=2 * L * L * d, sbuf=P * (L * d + TILE * 512), banks=4),
    Full("day5", "attention_fused", shapes((d, L), (d, L), (L, d)), read=P * 3 * L * d,
         written=P * L * d, work=4 * L * L * d,
         sbuf=P * 3 * L * d + TILE * L * (FP32 + P) + TILE * FP32, banks=2),

    # each core half of the tokens, and all of W: 4 + 2 * 8 MiB read, 16 MiB written
    Full("day6", "linear", shapes((D, B), (D, F)), read=P * (B * D + 2 * D * F),
         written=P * B * F, work=2 * B * D * F, sbuf=P * (D * F + D * 512 + TILE * F), banks=1,
         lnc=2),
    Full("day6", "linear", shapes((D, B), (D, F)), read=P * (B * D + D * F),
         written=P * B * F, work=2 * B * D * F, sbuf=P * (D * F + D * 512 + TILE * F), banks=1),
    Full("day6", "linear_w_once", shapes((D, B), (D, F)), read=P * (B * D + D * F),
         written=P * B * F, work=2 * B * D * F, sbuf=P * (D * F + D * 512 + TILE * F), banks=1,
         lnc=2),

    Full("day7", "matmul", shapes((B, B), (B, B)), read=P * 2 * B * B, written=P * B * B,
         work=2 * B**3, sbuf=P * (B * B + B * 512 + TILE * B), banks=4),
    Full("day7", "matmul", shapes((B, B), (B, B)), read=P * 2 * B * B, written=P * B * B,
         work=2 * B**3, sbuf=P * (B * B + B * 512 + TILE * B), banks=4,
         options={"together": True}),
    Full("day7", "swiglu", shapes((D, 4096), (D, 3072), (D, 3072), (3072, D)),
         read=P * (4096 * D + 3 * D * 3072), written=P * 4096 * D, work=6 * 4096 * D * 3072,
         # the last gate in fp32 beside the weights, x and s of a block
         sbuf=P * (3 * D * 3072 + 128 * D + 128 * 3072) + FP32 * TILE * 128, banks=2),
    # Qwen3-0.6B's MLP, 2048 tokens: the block changes what is alive, and no byte that crosses
    *[Full("day7", "swiglu", shapes((D, B), (D, 3072), (D, 3072), (3072, D)),
           read=P * (B * D + 3 * D * 3072), written=P * B * D, work=6 * B * D * 3072,
           sbuf=P * (3 * D * 3072 + block * D + block * 3072) + FP32 * TILE * block, banks=2,
           options={"block": block}) for block in (256, 512)],
    # fp32: weights eight times for eight blocks of 512 tokens; x and s of a block, a panel of gate
    # and one of up, the last gate; 4 x 2 banks for the block's rows of y
    Full("day7", "swiglu_streamed",
         [(size, "fp32") for size in ((D, 4096), (D, 3072), (D, 3072), (3072, D))],
         read=FP32 * (4096 * D + 8 * 3 * D * 3072), written=FP32 * 4096 * D,
         work=6 * 4096 * D * 3072,
         sbuf=FP32 * (512 * D + 512 * 3072 + 2 * 512 * D + TILE * 512), banks=8),

    # the case study: as mlp_up, mlp_down and mlp_fused on two cores, each weight over HBM once
    Full("casestudy", "mlp_up_w_once", shapes((D, B), (D, F)), read=P * (B * D + D * F),
         written=P * B * F, work=2 * B * D * F, sbuf=P * (D * F + D * 512 + TILE * 512), banks=1,
         lnc=2),
    Full("casestudy", "mlp_down_w_once", shapes((F, B), (F, D)), read=P * (B * F + F * D),
         written=P * B * D, work=2 * B * F * D, sbuf=P * (F * D + F * 512 + TILE * D), banks=1,
         lnc=2),
    *(Full("casestudy", "mlp_fused_w_once", shapes((D, B), (D, F), (F, D)),
           read=P * (B * D + 2 * D * F), written=P * B * D, work=4 * B * D * F,
           sbuf=P * (2 * D * F + 128 * D + 128 * F), banks=1, options=options, lnc=2)
      for options in ({}, {"down_last": True})),
]


def at_full_size(full: Full, target: str = "trn2") -> nki.Run:
    return nki.run(getattr(file(full.day), full.name), *full.args, target=target, lnc=full.lnc,
                   data=False, **full.options)


@pytest.mark.parametrize("full", FULL, ids=str)
def test_full_size(full):
    run = at_full_size(full)
    assert run.count.hbm_read_bytes == full.read
    assert run.count.hbm_write_bytes == full.written
    assert run.count.flops == full.work
    assert (run.sbuf_peak_bytes, run.psum_peak_banks) == (full.sbuf, full.banks)
    assert run.sbuf_peak_bytes <= 224 * KIB * TILE and run.psum_peak_banks <= 8
    assert run.warnings == ()


def counts(day: str, *names: str, lnc: int = 1) -> Count:
    """What the kernels of a chain count together."""
    chosen = [full for full in FULL if full.day == day and full.name in names and full.lnc == lnc
              and not full.options]
    assert [full.name for full in chosen] == list(names)
    return sum((at_full_size(full).count for full in chosen), Count())


MLP_STEPS = ("mlp_up", "mlp_gelu", "mlp_down")
ATTENTION_STEPS = ("attention_scores", "attention_softmax", "attention_values")


# The curriculum's own numbers, Days 5 and 6, and the formulas of `ops` for the same ops.
@pytest.mark.parametrize(("day", "names", "lnc", "flops", "hbm_bytes", "op"), [
    ("day5", MLP_STEPS, 1, 34_359_738_368, 92_274_688, ops.MLP(B=B, D=D, F=F, k=4)),
    ("day5", ("mlp_fused",), 1, 34_359_738_368, 25_165_824, ops.MLP(B=B, D=D, F=F, k=0)),
    ("day5", ATTENTION_STEPS, 1, 8_589_934_592, 138_412_032, ops.Attention(L=L, d=d, k=4)),
    ("day5", ("attention_fused",), 1, 8_589_934_592, 4_194_304, ops.Attention(L=L, d=d, k=0)),
    ("day6", ("linear_w_once",), 2, 17_179_869_184, 29_360_128, ops.Linear(B=B, D=D, F=F)),
    ("day6", ("linear",), 2, 17_179_869_184, 37_748_736, None),
    ("day5", ("mlp_fused",), 2, 34_359_738_368, 41_943_040, None),
    ("day5", MLP_STEPS, 2, 34_359_738_368, 109_051_904, None),
    ("casestudy", ("mlp_fused_w_once",), 2, 34_359_738_368, 25_165_824, ops.MLP(B=B, D=D, F=F)),
    ("day7", ("matmul",), 1, 17_179_869_184, 25_165_824, ops.Matmul(M=B, K=B, N=B)),
    ("day7", ("swiglu",), 1, 77_309_411_328, 35_651_584, ops.SwiGLU(B=4096, D=D, F=3072, k=0)),
    ("day7", ("swiglu_streamed",), 1, 77_309_411_328, 335_544_320, None),
], ids=lambda value: "+".join(value) if isinstance(value, tuple) else None)
def test_the_numbers_of_the_course(day, names, lnc, flops, hbm_bytes, op):
    count = counts(day, *names, lnc=lnc)
    assert (count.flops, count.hbm_bytes) == (flops, hbm_bytes)
    assert op is None or count == op.algorithmic


@pytest.mark.parametrize(("day", "steps"), [
    ("day6", ("linear",)), ("day5", MLP_STEPS), ("day5", ("mlp_fused",))])
def test_two_cores_load_every_weight_twice(day, steps):
    once, both = (counts(day, *steps, lnc=lnc) for lnc in (1, 2))
    weights = {"linear": D * F, "mlp_up": D * F, "mlp_gelu": 0, "mlp_down": F * D,
               "mlp_fused": 2 * D * F}
    assert both.hbm_bytes - once.hbm_bytes == P * sum(weights[name] for name in steps)
    assert both.flops == once.flops


def test_sending_a_half_spares_the_second_load():
    """The three steps, then the one: p DF bytes less over HBM for each weight matrix, and no other
    tensor's."""
    apart = counts("casestudy", "mlp_up_w_once", "mlp_down_w_once", lnc=2)
    apart += counts("day5", "mlp_gelu", lnc=2)
    assert apart == ops.MLP(B=B, D=D, F=F, k=4).algorithmic and apart.hbm_bytes == 92_274_688
    for steps, once in ((MLP_STEPS, apart), (("mlp_fused",), counts(
            "casestudy", "mlp_fused_w_once", lnc=2))):
        both = counts("day5", *steps, lnc=2)
        assert both.hbm_bytes - once.hbm_bytes == 2 * P * D * F
        assert (both.work, both.hbm_write_bytes) == (once.work, once.hbm_write_bytes)


@pytest.mark.parametrize("full", [full for full in FULL if full.day == "casestudy"], ids=str)
def test_each_core_sends_half_of_each_weight_matrix(full):
    """From SBUF to SBUF: what the DMA engines carry for it is not HBM's."""
    sent = [(step.core, *step.reads[0].layout.shape) for step in at_full_size(full).trace
            if step.opcode == "sendrecv"]
    halves = [(TILE, D // TILE, F // 2), (TILE, F // 2 // TILE, D)]
    mine = {"mlp_up_w_once": halves[:1], "mlp_down_w_once": halves[1:]}.get(full.name, halves)
    assert sorted(sent) == sorted((core, *half) for core in (0, 1) for half in mine)
    assert all(math.prod(half) == D * F // 2 for half in halves)


@pytest.mark.parametrize("full", [full for full in FULL if full.lnc == 2], ids=str)
def test_each_core_has_half_of_the_work(full):
    run = at_full_size(full)
    assert run.cores[0].count == run.cores[1].count
    assert run.count == run.cores[0].count + run.cores[1].count


# M = 1024, N = 1024: 8 tiles of 128 rows, 2 of 512 columns; blocks of C are 256 x 1024
@pytest.mark.parametrize(("name", "r_A", "r_B"), [
    ("matmul_reload", 2, 8),   # A comes back for each column of C tiles, B for each row
    ("matmul_a_stays", 1, 8),
    ("matmul_b_stays", 1, 1),
    ("matmul_c_stays", 1, 4),  # one block as wide as C, four below each other
])
def test_reloads(name, r_A, r_B):
    run = nki.run(getattr(file("day5"), name), *shapes((S, S), (S, S)), data=False)
    assert run.count == ops.Matmul(M=S, K=S, N=S).reloaded(r_A, r_B)
    assert [row.reload for row in run.tensors] == [r_A, r_B, 0]


@settings(max_examples=25, deadline=None)
@given(m=st.integers(1, 6), k=st.integers(1, 4), n=st.integers(1, 3))
def test_reloads_at_any_size(m, k, n):
    M, K, N = 128 * m, 128 * k, 512 * n
    op, args = ops.Matmul(M=M, K=K, N=N), shapes((K, M), (K, N))
    for name, r_A, r_B, block in (("matmul_reload", n, m, {}), ("matmul_a_stays", 1, m, {}),
                                  ("matmul_b_stays", 1, 1, {}),
                                  ("matmul_c_stays", n, m, {"rows": 128, "columns": 512})):
        run = nki.run(getattr(file("day5"), name), *args, data=False, **block)
        assert run.count == op.reloaded(r_A, r_B)


def test_blocks_of_c_trade_one_operand_for_the_other():
    def bytes_read(**block: int) -> dict[str, float]:
        run = nki.run(file("day5").matmul_c_stays, *shapes((S, S), (S, S)), data=False, **block)
        return {row.name: row.reload for row in run.tensors if row.read}
    assert bytes_read(rows=512, columns=512) == {"a": S / 512, "b": S / 512}
    assert bytes_read(rows=1024, columns=512) == {"a": S / 512, "b": 1}


def test_the_inf2_kernels_fit_inf2():
    for full in FULL:
        if full.day == "day7":
            run = at_full_size(full, target="inf2")
            assert run.count == at_full_size(full).count
            assert run.sbuf_peak_bytes <= 192 * KIB * TILE


def test_together_is_the_same_transfers_in_another_order(monkeypatch):
    apart, together = [meddled(small, monkeypatch)[1] for small in SMALL
                       if (small.day, small.name) == ("day7", "matmul")]
    assert sorted(load.nbytes for load in apart) == sorted(load.nbytes for load in together)
    # K = 256, two loads of each; B's rows are p * 1024 wide, those of a block of A p * 256
    rows_of_b, rows_of_a = P * TILE * 1024, P * TILE * 256
    assert [load.nbytes for load in apart][:4] == [rows_of_b] * 2 + [rows_of_a] * 2
    assert [load.nbytes for load in together][:4] == [rows_of_a, rows_of_b] * 2


def test_the_block_of_tokens_changes_instructions_and_not_q():
    narrow, wide = [at_full_size(full) for full in FULL
                    if full.name == "mlp_fused" and full.lnc == 1]
    assert narrow.count == wide.count
    up, down = D // 128 * (F // 128), F // 128 * (D // 512)  # matmuls a block, a tile of tokens
    assert narrow.counters["matmul_instruction_count"] == B // 128 * (up + down)
    assert wide.counters["matmul_instruction_count"] == B // 512 * up + B // 128 * down


def test_transposes_on_the_tensor_engine_are_not_work():
    full = next(full for full in FULL if full.name == "attention_fused")
    counters = at_full_size(full).counters
    tiles = (L // 128) ** 2  # each [128, 128] tile of A is multiplied by an identity
    assert counters["transpose_flops"] == tiles * 2 * 128**3
    assert counters["hardware_flops"] == 4 * L * L * d + counters["transpose_flops"]


# The letters of an argument's shape in the docstrings.
LETTERS = {"x": "DB", "w": "DF", "w_up": "DF", "w_gate": "DF", "w_down": "FD", "h": "FB", "g": "FB",
           "q": "dL", "k": "dL", "v": "Ld", "s": "LL", "a": "KM", "b": "KN"}


@pytest.mark.parametrize("full", FULL, ids=str)
def test_the_docstring_says_what_crosses(full):
    kernel = getattr(file(full.day), full.name)
    said = re.search(r"HBM +(.+) read, (.+?) written", kernel.__doc__)
    names = {"p": FP32 if full.args[0][1] == "fp32" else P, "cores": full.lnc}
    parameters = inspect.signature(kernel.function).parameters
    if "block" in parameters:
        names["block"] = full.options.get("block", parameters["block"].default)
    for parameter, (size, _) in zip(parameters, full.args, strict=False):
        letters = "LL" if full.name == "attention_values" and parameter == "a" else \
            LETTERS.get(parameter, "")
        names |= dict(zip(letters, size, strict=False))
    if full.name in ("copy", "read", "write"):  # x has any shape, so no letters
        names |= {"size(x)": math.prod(full.args[0][0]), "partitions": TILE, "elements": 2048}
        names |= full.options
    if not full.name.startswith("matmul_"):  # r_A and r_B stand there: test_reloads
        assert [value(text, names) for text in said.groups()] == [full.read, full.written]


# --- what refuses -------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "args", "options", "says"), [
    ("day4.copy", [(1000, 3)], {}, "x: expected whole transfers of 262144 elements on 1"),
    ("day4.read[2]", [(3, 128, 2048)], {}, "elements on 2 core(s), got 786432"),
    ("day4.resident_matmul", [(256, 1024), (256, 1024)], {}, "needs 16 PSUM banks; limit 8"),
    ("day5.matmul_reload", [(128, 192), (128, 512)], {}, "M: expected a multiple of 128, got 192"),
    ("day5.matmul_c_stays", [(128, 1024), (128, 1024)], {"rows": 1024}, "needs 16 PSUM banks"),
    ("day5.mlp_fused", [(512, 200), (512, 256), (256, 512)], {},
     "B: expected a multiple of 128, got 200"),
    ("day5.mlp_up[2]", [(256, 768), (256, 256)], {"block": 256},
     "B: expected a multiple of 512, got 768"),
    *((f"day5.{name}", [(256, 256), (384, 1024)], {}, "K of b, as of a: expected 256, got 384")
      for name in ("matmul_reload", "matmul_a_stays", "matmul_b_stays", "matmul_c_stays")),
    ("day5.mlp_up", [(128, 512), (256, 256)], {}, "D of w_up, as of x: expected 128, got 256"),
    ("day5.mlp_down", [(256, 512), (384, 512)], {}, "F of w_down, as of g: expected 256, got 384"),
    ("day5.mlp_fused", [(512, 256), (640, 256), (256, 512)], {},
     "D of w_up, as of x: expected 512, got 640"),
    ("day5.mlp_fused", [(512, 256), (512, 256), (384, 512)], {},
     "F of w_down, as of w_up: expected 256, got 384"),
    ("day5.mlp_fused", [(512, 256), (512, 256), (256, 1024)], {},
     "D of w_down, as of x: expected 512, got 1024"),
    ("day5.attention_scores", [(64, 512), (128, 512)], {},
     "d of k, as of q: expected 64, got 128"),
    ("day5.attention_scores", [(64, 512), (64, 1024)], {},
     "L of k, as of q: expected 512, got 1024"),
    ("day5.attention_softmax", [(256, 128)], {}, "rows of s, as columns: expected 128, got 256"),
    ("day5.attention_values", [(1024, 512), (512, 64)], {},
     "rows of a, L of v: expected 512, got 1024"),
    ("day5.attention_values", [(512, 640), (512, 64)], {},
     "columns of a, L of v: expected 512, got 640"),
    *(("day5.attention_fused", [(64, 512), k, v], {}, f"{what}, as of q: expected {sizes}")
      for k, v, what, sizes in (
          ((128, 512), (512, 64), "d of k", "64, got 128"),
          ((64, 1024), (512, 64), "L of k", "512, got 1024"),
          ((64, 512), (640, 64), "L of v", "512, got 640"),
          ((64, 512), (512, 128), "d of v", "64, got 128"))),
    ("day6.linear", [(256, 1000), (256, 512)], {}, "B: expected a multiple of 512, got 1000"),
    ("day6.linear_w_once", [(256, 1024), (256, 512)], {}, "Launch it as kernel[2]"),
    ("day6.linear_w_once[2]", [(384, 1024), (384, 512)], {},
     "D: expected a multiple of 256, got 384"),
    *((f"casestudy.{name}", [x, *weights], {"block": 256}, "Launch it as kernel[2]")
      for name, x, *weights in (
          ("mlp_up_w_once", (256, 512), (256, 512)),
          ("mlp_down_w_once", (512, 512), (512, 512)),
          ("mlp_fused_w_once", (512, 512), (512, 512), (512, 512)))),
    ("casestudy.mlp_up_w_once[2]", [(256, 1024), (256, 384)], {},
     "F: expected a multiple of 256, got 384"),
    ("casestudy.mlp_up_w_once[2]", [(256, 1024), (512, 512)], {},
     "D of w_up, as of x: expected 256, got 512"),
    ("casestudy.mlp_up_w_once[2]", [(256, 512), (256, 512)], {},
     "B: expected a multiple of 1024, got 512"),
    ("casestudy.mlp_down_w_once[2]", [(256, 1024), (512, 512)], {},
     "F of w_down, as of g: expected 256, got 512"),
    ("casestudy.mlp_down_w_once[2]", [(384, 1024), (384, 512)], {},
     "F: expected a multiple of 256, got 384"),
    *(("casestudy.mlp_fused_w_once[2]", [(512, 256), up, down], {}, says) for up, down, says in (
        ((640, 256), (256, 512), "D of w_up, as of x: expected 512, got 640"),
        ((512, 256), (512, 512), "F of w_down, as of w_up: expected 256, got 512"),
        ((512, 256), (256, 1024), "D of w_down, as of x: expected 512, got 1024"),
        ((512, 384), (384, 512), "F: expected a multiple of 256, got 384"))),
    ("day7.matmul", [(128, 512), (128, 4608)], {}, "N: at most 4096"),
    *((f"day7.{name}", [(512, 512), gate, up, down], {}, says)
      for name in ("swiglu", "swiglu_streamed") for gate, up, down, says in (
          ((1024, 512), (512, 512), (512, 512), "D of w_gate, as of x: expected 512, got 1024"),
          ((512, 512), (1024, 512), (512, 512), "D of w_up, as of x: expected 512, got 1024"),
          ((512, 1024), (512, 512), (512, 512), "F of w_gate, as of w_up: expected 512, got 1024"),
          ((512, 512), (512, 512), (1024, 512), "F of w_down, as of w_up: expected 512, got 1024"),
          ((512, 512), (512, 512), (512, 1024), "D of w_down, as of x: expected 512, got 1024"))),
    *((f"day7.{name}", [(512, 1024), (512, 512), (512, 512), (512, 512)], {"block": 1024},
       "block: at most 512 (columns of a moving tile), got 1024")
      for name in ("swiglu", "swiglu_streamed")),
    ("day7.swiglu_streamed", [(512, 768), (512, 512), (512, 512), (512, 512)], {},
     "B: expected a multiple of 512, got 768"),
    ("day7.swiglu_streamed", [(512, 512), (512, 640), (512, 640), (640, 512)], {},
     "F: expected a multiple of 512, got 640"),
    ("day7.swiglu_streamed", [(1536, 512), (1536, 512), (1536, 512), (512, 1536)], {},
     "512 tokens by D = 1536 need 12 PSUM banks; limit 8"),
    ("day7.matmul", [(256, 512), (384, 512)], {}, "K of b, as of a: expected 256, got 384"),
])
def test_shapes_that_do_not_tile(kernel, args, options, says):
    day, name, two = re.fullmatch(r"(\w+)\.(\w+)(\[2\])?", kernel).groups()
    with pytest.raises(nki.NkiValidationError, match="assert") as refused:
        nki.run(getattr(file(day), name), *shapes(*args), lnc=2 if two else 1, data=False,
                **options)
    assert says in str(refused.value)


def test_weights_that_do_not_fit_are_refused():
    # 3 * 2 * 1024 * 4096 B are all of inf2's 24 MiB, and x has to be there too
    args = shapes((D, 128), (D, F), (D, F), (F, D))
    with pytest.raises(nki.NkiValidationError, match="sbuf"):
        nki.run(file("day7").swiglu, *args, target="inf2", data=False)
    assert nki.run(file("day7").swiglu, *args, target="trn2", data=False).count.flops


@pytest.mark.parametrize("name", ["copy", "read", "write"])
def test_hardware_queues_are_refused_where_there_are_none(name):
    with pytest.raises(nki.NkiValidationError, match="hwdge"):
        nki.run(getattr(file("day4"), name), *shapes((128, 2048)), target="trn1", data=False,
                queues=1)


# Four transfers of x; read has a store of its own besides, write a load.
@pytest.mark.parametrize(("name", "queues", "started_by"), [
    ("copy", 0, ["unknown"] * 8),
    ("copy", 1, ["sync"] * 8),
    ("copy", 2, ["sync", "scalar"] * 4),
    ("read", 0, ["unknown"] * 5),
    ("read", 1, ["sync"] * 4 + ["unknown"]),
    ("read", 2, ["sync", "scalar"] * 2 + ["unknown"]),
    ("write", 0, ["unknown"] * 5),
    ("write", 1, ["unknown"] + ["sync"] * 4),
    ("write", 2, ["unknown"] + ["sync", "scalar"] * 2),
])
def test_queues(name, queues, started_by, monkeypatch):
    module, asked = file("day4"), []
    nisa = module.nisa

    def dma_copy(**operands: Any) -> None:
        asked.append(operands.get("engine", nisa.engine.unknown).name)
        nisa.dma_copy(**operands)

    class Listening:
        def __getattr__(self, op: str) -> Any:
            return dma_copy if op == "dma_copy" else getattr(nisa, op)

    monkeypatch.setattr(module, "nisa", Listening())
    nki.run(getattr(module, name), *shapes((4, 128, 2048)), queues=queues, data=False)
    assert asked == started_by


# --- small sizes: the results -------------------------------------------------------------------


class Small(NamedTuple):
    """A kernel at a size that a test can compute, with every load executed at least twice.

    answer   the arguments' Close; None for a copy
    """

    day: str
    name: str
    args: list[tuple[int, ...]]
    answer: Callable[..., Close]
    options: dict = {}  # noqa: RUF012
    lnc: int = 1

    def __str__(self) -> str:
        return f"{self.day}.{self.name}{'[2]' * (self.lnc == 2)}"


def repeated(n: int) -> Callable[..., Close]:
    """n times a product, summed in fp32 and left there."""
    def answer(a: np.ndarray, b: np.ndarray) -> Close:
        a, b = np.concatenate([a] * n), np.concatenate([b] * n)
        return product(exact(a.T), exact(b))
    return answer


def first_of_rows(x: np.ndarray) -> Close:
    """x is [transfers, partitions, elements]."""
    return exact(x[:, :, 0].T)


def first_of_three(x: np.ndarray) -> Close:
    """Of six transfers: the first in place of three, the fourth in place of the others."""
    return exact(x[[0, 0, 0, 3, 3, 3]])


def down(g: np.ndarray, w: np.ndarray) -> Close:
    return stored(product(exact(g.T), exact(w)))


def up(x: np.ndarray, w: np.ndarray) -> Close:
    h = stored(product(exact(x.T), exact(w)))
    return Close(h.value.T, h.bound.T)


def gelu_of(h: np.ndarray) -> Close:
    return stored(gelu(exact(h)))


STEPS: list[Small] = [
    Small("day5", "mlp_up", [(256, 512), (256, 384)], up, {"block": 256}),
    Small("day5", "mlp_gelu", [(256, 256)], gelu_of),
    Small("day5", "mlp_down", [(256, 512), (256, 512)], down, {"block": 256}),
    Small("day5", "attention_scores", [(64, 512), (64, 512)],
          lambda q, k: stored(product(exact(q.T), exact(k)))),
    Small("day5", "attention_softmax", [(512, 512)], lambda s: stored(softmax(exact(s)))),
    Small("day5", "attention_values", [(512, 512), (512, 64)],
          lambda a, v: stored(product(exact(a), exact(v))), {"block": 256}),
]

SMALL: list[Small] = [
    Small("day4", "copy", [(4, 128, 256)], exact, {"elements": 256}),
    Small("day4", "copy", [(6, 64, 256)], exact, {"elements": 256, "partitions": 64, "queues": 2},
          lnc=2),
    Small("day4", "read", [(4, 128, 256)], first_of_rows, {"elements": 256}),
    Small("day4", "read", [(6, 64, 256)], first_of_rows,
          {"elements": 256, "partitions": 64, "queues": 2}, lnc=2),
    Small("day4", "write", [(6, 64, 256)], first_of_three,
          {"elements": 256, "partitions": 64, "queues": 2}, lnc=2),
    Small("day4", "moving_sweep", [(96, 64), (96, 48)], repeated(5), {"n": 5}),
    Small("day4", "resident_matmul", [(256, 256), (256, 1024)], repeated(3), {"repeat": 3}),
    *[Small("day5", name, [(256, 256), (256, 1024)], matmul) for name in (
        "matmul_reload", "matmul_a_stays", "matmul_b_stays")],
    Small("day5", "matmul_c_stays", [(256, 512), (256, 1024)], matmul,
          {"rows": 256, "columns": 512}),
    *STEPS,
    Small("day5", "mlp_fused", [(512, 256), (512, 256), (256, 512)],
          functools.partial(mlp, fused=True)),
    Small("day5", "mlp_fused", [(512, 512), (512, 256), (256, 512)],
          functools.partial(mlp, fused=True), {"block": 256}),
    Small("day5", "mlp_up", [(256, 512), (256, 384)], up, {"block": 128}, lnc=2),
    Small("day5", "mlp_gelu", [(512, 256)], gelu_of, lnc=2),
    Small("day5", "mlp_down", [(256, 512), (256, 512)], down, {"block": 128}, lnc=2),
    Small("day5", "mlp_fused", [(512, 512), (512, 256), (256, 512)],
          functools.partial(mlp, fused=True), lnc=2),
    Small("day5", "attention_fused", [(64, 512), (64, 512), (512, 64)],
          functools.partial(attention, fused=True)),
    Small("day6", "linear", [(256, 512), (256, 1024)], matmul, {"block": 128}, lnc=2),
    Small("day6", "linear", [(256, 256), (256, 512)], matmul, {"block": 128}),
    Small("day6", "linear_w_once", [(512, 512), (512, 1024)], matmul, {"block": 128}, lnc=2),
    Small("day7", "matmul", [(256, 512), (256, 1024)], matmul, {"block": 256}),
    Small("day7", "matmul", [(256, 512), (256, 1024)], matmul, {"block": 256, "together": True}),
    Small("day7", "swiglu", [(512, 256), (512, 256), (512, 256), (256, 512)], swiglu),
    Small("day7", "swiglu", [(512, 512), (512, 256), (512, 256), (256, 512)], swiglu,
          {"block": 256}),
    Small("day7", "swiglu_streamed", [(512, 256), (512, 512), (512, 512), (512, 512)], swiglu,
          {"block": 128}),
    Small("casestudy", "mlp_up_w_once", [(256, 512), (256, 512)], up, {"block": 128}, lnc=2),
    Small("casestudy", "mlp_down_w_once", [(512, 512), (512, 512)], down, {"block": 128}, lnc=2),
    *(Small("casestudy", "mlp_fused_w_once", [(512, 512), (512, 512), (512, 512)],
            functools.partial(mlp, fused=True), options, lnc=2)
      for options in ({}, {"down_last": True})),
]


def arguments(small: Small) -> list[np.ndarray]:
    """Random arguments of order 1, so that results are too."""
    rng = np.random.default_rng(len(small.name))
    return [draw(rng, *size, scale=1 if i == 0 else 1 / math.sqrt(size[0]))
            for i, size in enumerate(small.args)]


def kernel(small: Small) -> Any:
    return getattr(file(small.day), small.name)


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_result(small):
    args = arguments(small)
    before = [array.copy() for array in args]
    run = nki.run(kernel(small), *args, lnc=small.lnc, **small.options)
    (result,) = run.outputs
    close = small.answer(*args)
    assert result.shape == close.value.shape
    assert result.dtype == (np.float32 if small.name in ("moving_sweep", "resident_matmul")
                            else bf16)
    assert close.holds(result)
    assert all(np.array_equal(a, b) for a, b in zip(args, before, strict=True))
    assert run.warnings == ()


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_shapes_alone_count_the_same(small):
    args = arguments(small)
    runs = [nki.run(kernel(small), *args, lnc=small.lnc, data=data, **small.options)
            for data in (True, False)]
    specs = nki.run(kernel(small), *shapes(*small.args), lnc=small.lnc, data=False,
                    **small.options)
    assert runs[0].count == runs[1].count == specs.count
    assert runs[0].counters == runs[1].counters == specs.counters


@pytest.mark.parametrize("lnc", [1, 2])
def test_mlp_in_three_kernels(lnc):
    rng = np.random.default_rng(1)
    x, w_up, w_down = (draw(rng, 512, 512), draw(rng, 512, 256, scale=1 / 22),
                       draw(rng, 256, 512, scale=1 / 16))
    k = file("day5")
    (h,) = nki.run(k.mlp_up, x, w_up, block=256, lnc=lnc).outputs
    (g,) = nki.run(k.mlp_gelu, h, lnc=lnc).outputs
    (y,) = nki.run(k.mlp_down, g, w_down, block=256, lnc=lnc).outputs
    assert mlp(x, w_up, w_down, fused=False).holds(y)


def test_attention_in_three_kernels():
    rng = np.random.default_rng(2)
    q, k, v = draw(rng, 64, 512, scale=1 / 8), draw(rng, 64, 512), draw(rng, 512, 64)
    kernels = file("day5")
    (s,) = nki.run(kernels.attention_scores, q, k).outputs
    (a,) = nki.run(kernels.attention_softmax, s).outputs
    (o,) = nki.run(kernels.attention_values, a, v).outputs
    assert attention(q, k, v, fused=False).holds(o)


def test_softmax_subtracts_the_maximum():
    # exp(200) is beyond fp32; a row that is not shifted comes out as inf / inf
    s = np.full((128, 512), 200, bf16)
    (a,) = nki.run(file("day5").attention_softmax, np.tile(s, (4, 1))).outputs
    assert np.all(a == np.float32(1 / 512))
    rng = np.random.default_rng(3)
    q, k, v = draw(rng, 64, 512, scale=6), draw(rng, 64, 512, scale=6), draw(rng, 512, 64)
    (o,) = nki.run(file("day5").attention_fused, q, k, v).outputs
    assert np.all(np.isfinite(o.astype(np.float32)))


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_a_wrong_tile_is_out_of_bounds(small):
    """Half an element is far off, and so is a block of rows in another's place."""
    close = small.answer(*arguments(small))
    assert np.median(close.bound) <= 0.2 * np.median(np.abs(close.value))
    assert close.holds(close.value)
    assert not close.holds(np.roll(close.value, close.value.shape[0] // 2, axis=0))


# --- the law --------------------------------------------------------------------------------------

ITEM = {"bfloat16": 2, "float32": 4}


class Load(NamedTuple):
    """One executed DMA out of HBM: the nth transfer of a core, its source line, its bytes."""

    core: int
    nth: int
    line: int
    nbytes: int


class Meddler:
    """nki.isa as a kernel sees it, except that one transfer of one core is tampered with.

    Bytes are worked out here, from the shape of the view that the kernel passed.
    """

    def __init__(self, nisa: Any, nl: Any, how: str, at: tuple[int, int] | None) -> None:
        self.nisa, self.nl, self.how, self.at = nisa, nl, how, at
        self.transfers = [0, 0]
        self.postponed: tuple[list[Callable[[], Any]], ...] = ([], [])
        self.loads: list[Load] = []

    def __getattr__(self, name: str) -> Any:
        op = getattr(self.nisa, name)
        if name not in ("dma_copy", "dma_transpose"):
            return op
        return functools.partial(self._transfer, op)

    def _transfer(self, op: Callable[..., Any], **operands: Any) -> None:
        src, core = operands["src"], self.nl.program_id(0)
        at = core, self.transfers[core]
        self.transfers[core] += 1
        if src.buffer in (self.nl.hbm, self.nl.shared_hbm):
            self.loads.append(Load(*at, sys._getframe(1).f_lineno,
                                   math.prod(src.shape) * ITEM[str(src.dtype)]))
        if at != self.at:
            op(**operands)
            while self.postponed[core]:
                self.postponed[core].pop()()
            return
        for _ in range({"dropped": 0, "moved": 0, "twice": 2, "again elsewhere": 1}[self.how]):
            op(**operands)
        if self.how in ("moved", "again elsewhere"):
            self.postponed[core].append(functools.partial(op, **operands))


# how -> what it adds, in loads
MEDDLING = {"dropped": -1, "twice": 1, "moved": 0, "again elsewhere": 1}


def meddled(small: Small, monkeypatch: pytest.MonkeyPatch, how: str = "",
            at: tuple[int, int] | None = None) -> tuple[Count, list[Load]]:
    """Run a kernel with one of its transfers tampered with."""
    module = file(small.day)
    with monkeypatch.context() as patch:
        meddler = Meddler(module.nisa, module.nl, how, at)
        patch.setattr(module, "nisa", meddler)
        run = nki.run(kernel(small), *shapes(*small.args), lnc=small.lnc, data=False,
                      **small.options)
    assert meddler.postponed == ([], [])
    return run.count, meddler.loads


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_a_count_is_the_sum_of_its_loads(small, monkeypatch):
    count, loads = meddled(small, monkeypatch)
    assert len(loads) >= 2
    assert count.hbm_read_bytes == sum(load.nbytes for load in loads)
    for load in loads:
        for how, loads_more in MEDDLING.items():
            changed, _ = meddled(small, monkeypatch, how, (load.core, load.nth))
            assert changed.hbm_read_bytes - count.hbm_read_bytes == loads_more * load.nbytes
            assert changed.hbm_write_bytes == count.hbm_write_bytes
            assert changed.work == count.work


# The same in the source: every statement that is a DMA call.


class Rewrite(ast.NodeTransformer):
    """The nth DMA statement of a file, deleted, doubled, or also put at the end of its block."""

    def __init__(self, line: int, how: str) -> None:
        self.line, self.how = line, how

    def _block(self, block: list[ast.stmt]) -> list[ast.stmt]:
        for i, statement in enumerate(block):
            if isinstance(statement, ast.Expr) and statement.lineno == self.line:
                if self.how == "deleted":
                    return [*block[:i], ast.Pass(), *block[i + 1:]]
                if self.how == "doubled":
                    return [*block[:i], statement, *block[i:]]
                end = len(block) - isinstance(block[-1], ast.Return)
                return [*block[:end], statement, *block[end:]]
        return block

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                setattr(node, field, self._block(block))
        return super().generic_visit(node)


def alone(source: str, name: str) -> ast.Module:
    """The file without its other kernels, its lines as they were."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not (
        isinstance(node, ast.FunctionDef) and node.decorator_list and node.name != name)]
    return tree


def dma_statements(source: str) -> dict[int, ast.stmt]:
    """First line -> statement, for each statement that is one DMA call."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func)
            if called in ("nisa.dma_copy", "nisa.dma_transpose"):
                found[node.lineno] = node
    return found


def source(day: str) -> str:
    return (ROOT / day / "kernels.py").read_text()


@pytest.mark.parametrize("day", DAYS)
def test_every_dma_call_is_a_statement_that_the_law_reaches(day):
    calls = source(day).count("nisa.dma_copy(") + source(day).count("nisa.dma_transpose(")
    assert len(dma_statements(source(day))) == calls


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_a_count_is_the_sum_of_its_source_lines(small, monkeypatch, tmp_path):
    count, loads = meddled(small, monkeypatch)
    per_line: dict[int, int] = {}
    for load in loads:
        per_line[load.line] = per_line.get(load.line, 0) + load.nbytes
    text = source(small.day)
    assert set(per_line) <= set(dma_statements(text))
    for line, nbytes in per_line.items():
        for how, more in (("deleted", -1), ("doubled", 1), ("repeated at the end", 1)):
            edited = tmp_path / f"{how.split()[0]}_{line}.py"
            edited.write_text(ast.unparse(Rewrite(line, how).visit(alone(text, small.name))))
            changed = nki.run(getattr(nki.load(edited), small.name), *shapes(*small.args),
                              lnc=small.lnc, data=False, **small.options).count
            assert changed.hbm_read_bytes - count.hbm_read_bytes == more * nbytes
            assert changed.hbm_write_bytes == count.hbm_write_bytes


def test_every_load_of_every_kernel_is_in_a_small_case(monkeypatch):
    for day in DAYS:
        reached = {load.line for small in SMALL if small.day == day
                   for load in meddled(small, monkeypatch)[1]}
        loads = {line for line, node in dma_statements(source(day)).items()
                 if ast.unparse(next(k.value for k in node.value.keywords if k.arg == "dst"))
                 .split("[")[0] not in ("y", "h", "g", "c", "s", "a", "o", "target")}
        assert reached == loads


@pytest.mark.parametrize("small", SMALL, ids=str)
def test_lines_and_tensors_add_up(small):
    run = nki.run(kernel(small), *shapes(*small.args), lnc=small.lnc, data=False, **small.options)
    for table in (run.lines, run.tensors):
        assert sum(row.read for row in table) == run.count.hbm_read_bytes
        assert sum(row.written for row in table) == run.count.hbm_write_bytes
    assert sum(row.flops for row in run.lines) == run.count.flops
