"""Public NKI kernels, each file as it was published: outputs against NumPy, counts by hand.

The files are not here. NKI_PUBLIC_KERNELS names a folder with checkouts of the repositories in
SOURCES, each under its own name; without it these tests are skipped. The arithmetic of each count
follows from reading the kernel: a tensor's size times how often its loops load it.
"""

import ast
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest

from roofline import nki
from roofline.count import Count, Uncounted

SOURCES = {  # github.com/..., and the commit these facts were read from
    "aws-neuron-sdk": "aws-neuron/aws-neuron-sdk 81ce03a",
    "triton-viz": "Deep-Learning-Profiling-Tools/triton-viz 203b0c7",
    "nki-library": "aws-neuron/nki-library d2ad3a5",
    "nki-samples": "aws-neuron/nki-samples 6905a68",
    "nkipy": "aws-neuron/nkipy b91c980",
    "nki-autotune": "awslabs/nki-autotune d57bcc3",
    "neuronx-distributed-inference": "aws-neuron/neuronx-distributed-inference 4bcdc54",
    "trainium-model-translation": "KevGomes1403/trainium-model-translation ec42154",
}
HEAD = "import math\nimport nki\nimport nki.isa as nisa\nimport nki.language as nl\n"
FOLDER = os.environ.get("NKI_PUBLIC_KERNELS", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="NKI_PUBLIC_KERNELS names no folder of them")

BF16 = ml_dtypes.bfloat16
EXAMPLES = "aws-neuron-sdk/nki/examples"
MATMULS = f"{EXAMPLES}/matrix_multiplication/matrix_multiplication_nki_kernels.py"
MAMBA = f"{EXAMPLES}/fused_mamba/mamba_nki_kernels.py"
DOCS = "aws-neuron-sdk/nki"
VIZ = "triton-viz/examples/nki_beta2"
LIBRARY = "nki-library/src/nkilib_src/nkilib"
AUTOTUNE = "nki-autotune/kernel_library"
QWEN = "neuronx-distributed-inference/contrib/models/Qwen3.5-2B/src/nki_kernels"
TRANSLATED = "trainium-model-translation/models/qwen3_6_moe/nki_kernels"


@dataclass(frozen=True)
class Fact:
    """One call of a kernel: arguments, expected outputs, bytes read and written, FLOPs.

    work     per dtype; None where nobody counted the matmuls by hand
    close    largest error allowed, over the largest value expected
    shapes   it can be counted without data
    seen     what of the outputs is compared
    """

    args: tuple
    expected: tuple
    read: int
    written: int
    work: dict | None = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    close: float = 1e-5
    lnc: int = 1
    shapes: bool = True
    seen: Callable = tuple


FACTS: dict = {}
TRN2 = ("trn2",)


def fact(path, kernel, nth=0, on=("trn1", "trn2")):
    """A function that makes the Fact of `kernel` in `path`; in a text, of its nth listing.

    on   chips the kernel is meant for
    """
    def keep(function):
        for target in on:
            listing = f" (listing {nth + 1})" if nth else ""
            FACTS[f"{kernel}{listing} of {path}, {function.__name__}, {target}"] = (
                path, kernel, nth, target, function)
        return function
    return keep


def kernels(path, kernel, nth, tmp_path):
    """The namespace of a file, or of one listing of a page of documentation."""
    file = Path(FOLDER) / path
    if not file.exists():
        pytest.skip(f"{path} is not in {FOLDER}: {SOURCES[path.partition('/')[0]]}")
    text = file.read_text()
    if file.suffix == ".py" and f"\ndef {kernel}(" in text:
        return nki.load(file)
    if file.suffix == ".py":  # a listing in a docstring
        text = next(said for said in map(ast.get_docstring, (
            node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)))
            if said and f"def {kernel}(" in said)
    lines = text.splitlines()
    at = [i for i, line in enumerate(lines) if line.strip().startswith(f"def {kernel}(")][nth]
    indent = len(lines[at]) - len(lines[at].lstrip())

    def inside(line):
        return not line.strip() or len(line) - len(line.lstrip()) >= indent

    first = last = at
    while inside(lines[first - 1]):
        first -= 1
    while last + 1 < len(lines) and inside(lines[last + 1]):
        last += 1
    listing = tmp_path / "listing.py"
    listing.write_text(HEAD + dedent("\n".join(lines[first:last + 1])) + "\n")
    return nki.load(listing)


def draw(*shape, dtype=np.float32, seed=0, scale=1.0):
    """Reproducible values of a shape."""
    values = np.random.default_rng([seed, *shape]).standard_normal(shape) * scale
    return values.astype(np.float32).astype(dtype)


def wide(array):
    return np.asarray(array).astype(np.float64)


# --- first kernels: load, one operation, store ------------------------------------------------

@fact(f"{EXAMPLES}/getting_started_baremetal.py", "nki_tensor_add_kernel")
@fact(f"{EXAMPLES}/getting_started_jax.py", "nki_tensor_add_kernel")
@fact(f"{EXAMPLES}/getting_started_torch.py", "nki_tensor_add_kernel")
def small_sum():
    a, b = draw(4, 3, dtype=np.float16), draw(4, 3, dtype=np.float16, seed=1)
    return Fact((a, b), (wide(a) + wide(b),), read=2 * 2 * 12, written=2 * 12, close=1e-3)


@fact(f"{EXAMPLES}/simulate/nki_simulate_example.py", "add_kernel")
@fact(f"{DOCS}/get-started/nki-language-guide.rst", "nki_tensor_add_kernel")
@fact(f"{DOCS}/get-started/quickstart-implement-run-kernel.rst", "nki_tensor_add_kernel", nth=1)
def sum_of_tiles():
    a, b = draw(128, 512), draw(128, 512, seed=1)
    return Fact((a, b), (a + b,), read=2 * 4 * a.size, written=4 * a.size)


@fact(f"{EXAMPLES}/layout-pass.py", "tensor_exp_kernel_")
def exponential():
    x = draw(128, 512)
    return Fact((x,), (np.exp(wide(x)),), read=4 * x.size, written=4 * x.size)


@fact(f"{DOCS}/get-started/about/nki-dma-overview.rst", "tensor_exp_kernel_isa")
def exponential_4():
    x = draw(4, 4096, dtype=BF16)
    return Fact((x,), (np.exp(wide(x)),), read=2 * x.size, written=2 * x.size, close=1e-2)


@fact(f"{DOCS}/get-started/about/nki-dma-overview.rst", "tensor_exp_kernel_isa", nth=1)
def exponential_128():
    x = draw(128, 128, dtype=BF16)
    return Fact((x,), (np.exp(wide(x)),), read=2 * x.size, written=2 * x.size, close=1e-2)


@fact(f"{DOCS}/get-started/about/tiling-overview.rst", "tensor_exp_kernel_")
@fact(f"{DOCS}/get-started/about/tiling-overview.rst", "tensor_exp_kernel_", nth=1)
def reciprocal_of_two_tiles():
    x = 1 + np.abs(draw(256, 512))
    return Fact((x,), (1 / x,), read=4 * x.size, written=4 * x.size)


@fact(f"{EXAMPLES}/index-case-1.py", "tensor_split_kernel_")
def even_and_odd_columns():
    x = draw(4, 5)
    return Fact((x,), (x[:, ::2], x[:, 1::2]), read=4 * 20, written=4 * (4 * 3 + 4 * 2))


@fact(f"{EXAMPLES}/index-case-3.py", "tensor_maxpool_kernel_")
def max_of_windows():
    x = draw(2, 6, 6)
    return Fact((x, 2), (x.reshape(2, 3, 2, 3, 2).max((2, 4)),),
                read=4 * 2 * 36, written=4 * 2 * 9)


@fact(f"{EXAMPLES}/average_pool2d/average_pool2d_nki_kernels.py", "tensor_avgpool_kernel")
def mean_of_windows():
    x = np.arange(2 * 6 * 6, dtype=np.float16).reshape(2, 6, 6)
    return Fact((x, 2), (wide(x).reshape(2, 3, 2, 3, 2).mean((2, 4)),),
                read=2 * 2 * 36, written=2 * 2 * 9, close=1e-3)


@fact(f"{EXAMPLES}/tensor_addition/tensor_addition_nki_kernels.py", "nki_tensor_add")
def sum_in_tiles():
    a, b = draw(256, 1024), draw(256, 1024, seed=1)
    return Fact((a, b), (a + b,), read=2 * 4 * a.size, written=4 * a.size)


@fact(f"{EXAMPLES}/transpose2d/transpose2d_nki_kernels.py", "tensor_transpose2D_kernel_")
def rows_transposed():
    x = np.arange(5 * 12, dtype=np.int8).reshape(5, 12)
    return Fact((x, (3, 4)), (x.reshape(5, 3, 4).swapaxes(1, 2).reshape(5, 12),), read=60,
                written=60, close=0)


# --- matmul: C[M, N] = A[K, M].T @ B[K, N], tiles of 128 x 128 x 512 --------------------------

def matmul(M, N, K, r_A, r_B, out=2, scale=1.0, **more):
    """bf16 operands, A read r_A times and B r_B times, `out` bytes an element of C."""
    a, b = draw(K, M, dtype=BF16, scale=scale), draw(K, N, dtype=BF16, seed=1, scale=scale)
    return Fact((a, b), (wide(a).T @ wide(b),), read=2 * (r_A * K * M + r_B * K * N),
                written=out * M * N, work={"bf16": 2 * M * N * K}, close=2e-2, **more)


@fact(MATMULS, "nki_matmul_basic_")
def matmul_one_tile():
    return matmul(64, 512, 128, r_A=1, r_B=1)


@fact(MATMULS, "nki_matmul_tiled_")
def matmul_tiled():  # A for each of N/512 column tiles, B for each of M/128 row tiles
    return matmul(256, 1024, 256, r_A=2, r_B=2)


@fact(MATMULS, "nki_matmul_hoist_load_")
def matmul_hoisted():  # a row block of A stays while all of B passes
    return matmul(256, 1024, 256, r_A=1, r_B=2)


@fact(MATMULS, "nki_matmul_block_free_dimension_")
def matmul_blocked():  # the same with blocks of 256 rows
    return matmul(512, 2048, 256, r_A=1, r_B=2)


@fact(MATMULS, "nki_matmul_fully_optimized_")
@fact(f"{DOCS}/guides/use-neuron-profile.rst", "nki_matmul")
def matmul_all_dimensions_blocked():  # B once; A for each of N/1024 column blocks
    return matmul(2048, 2048, 1024, r_A=2, r_B=1)


@fact(MATMULS, "nki_matmul_fully_optimized_")
def matmul_all_dimensions_blocked_smaller():  # blocks of 256 x 512 x 256: A for each of N/512
    return matmul(512, 1024, 512, r_A=2, r_B=1,
                  options=dict(TILES_IN_BLOCK_M=2, TILES_IN_BLOCK_N=1, TILES_IN_BLOCK_K=2))


@fact(f"{VIZ}/matmul.py", "matmul_kernel")
def matmul_into_an_argument():
    M, N, K = 256, 1024, 256
    a, b = draw(K, M), draw(K, N, seed=1)
    return Fact((a, b, np.zeros((M, N), np.float32)), (wide(a).T @ wide(b),),
                read=4 * (2 * a.size + 2 * b.size), written=4 * M * N,
                work={"fp32": 2 * M * N * K})


@fact(f"{DOCS}/api/nki/isa/__init__.py", "nc_matmul_accumulate_kernel")
def matmul_accumulated():
    return matmul(128, 512, 512, r_A=1, r_B=1, out=4)


@fact(f"{AUTOTUNE}/matmul/lhsT_rhs/kernel_hand_90.92mfu.py", "matmul_lhsT_rhs_nkigym", on=TRN2)
def matmul_2048_stationary_transposed():  # 4 column blocks: B once, A for each
    return matmul(2048, 2048, 2048, r_A=4, r_B=1, scale=0.1)


@fact(f"{AUTOTUNE}/matmul/lhs_rhs/kernel_handtuned_89.26mfu.py", "matmul_lhs_rhs_nkigym", on=TRN2)
def matmul_2048_transposed_by_dma():  # 2 row blocks x 4 column blocks: A 4 times, B twice
    M = N = K = 2048
    a, b = draw(M, K, dtype=BF16, scale=0.1), draw(K, N, dtype=BF16, seed=1, scale=0.1)
    return Fact((a, b), (wide(a) @ wide(b),), read=2 * (4 * M * K + 2 * K * N),
                written=2 * M * N, work={"bf16": 2 * M * N * K}, close=2e-2)


@fact(f"{AUTOTUNE}/rmsnorm_matmul/kernel_hand_online.py", "rmsnorm_matmul_online", on=TRN2)
def rmsnorm_then_matmul():  # A once, B for each of 2 row blocks
    M = N = K = 2048
    a, b = draw(M, K, dtype=BF16), draw(K, N, dtype=BF16, seed=1, scale=0.1)
    norm = wide(a) / np.sqrt((wide(a)**2).mean(1, keepdims=True) + 1e-6)
    return Fact((a, b), (norm @ wide(b),), read=2 * (M * K + 2 * K * N), written=2 * M * N,
                work={"bf16": 2 * M * N * K}, close=5e-2)


# --- scans, norms, softmax --------------------------------------------------------------------

def mamba(delta_times):
    """Selective scan; delta and u are read `delta_times`, A once, B and C for each 128 channels.

    W is what nl.broadcast_to takes to give a row of B or C to 128 partitions: a matmul with ones
    (Trainium/Inferentia2 Architecture Guide, Partition Broadcast).
    """
    batch, channels, states, length = 1, 256, 4, 1024
    delta, u = np.abs(draw(batch, channels, length, scale=0.1)), draw(batch, channels, length)
    A = -np.abs(draw(channels, states))
    B, C = draw(batch, states, length), draw(batch, states, length, seed=1)
    h, y = np.zeros((channels, states)), np.zeros(u.shape)
    for t in range(length):
        d, x = wide(delta)[0, :, t, None], wide(u)[0, :, t, None]
        h = np.exp(d * A) * h + d * x * B[0, :, t]
        y[0, :, t] = h @ C[0, :, t]
    read = 2 * delta_times * delta.size + A.size + 2 * (channels // 128) * B.size
    broadcasts = channels // 128 * states * 2
    return Fact((delta, u, A, B, C), (y,), read=4 * read, written=4 * u.size, close=1e-4,
                work={"fp32": broadcasts * 2 * 128 * length})


@fact(MAMBA, "mamba_v1")
def mamba_reloading():
    return mamba(delta_times=4)  # for each state


@fact(MAMBA, "mamba_v2")
@fact(MAMBA, "mamba_v3")
def mamba_keeping():
    return mamba(delta_times=1)


def softmax(x):
    e = np.exp(wide(x) - wide(x).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x, gamma, eps):
    return wide(x) / np.sqrt((wide(x)**2).mean(-1, keepdims=True) + eps) * wide(gamma)


@fact(f"{VIZ}/softmax.py", "softmax_kernel")
def softmax_of_rows():
    x = draw(256, 64)
    return Fact((x, np.zeros_like(x)), (softmax(x),), read=4 * x.size, written=4 * x.size)


@fact(f"{VIZ}/rmsnorm.py", "rmsnorm_kernel")
def rmsnorm_with_a_full_gamma():
    x, gamma = draw(256, 128), draw(256, 128, seed=1)
    return Fact((x, gamma, np.zeros_like(x)), (rms(x, gamma, 1e-6),),
                read=2 * 4 * x.size, written=4 * x.size)


@fact("nkipy/examples/models/gpt_oss/kernels/nki/rmsnorm.py", "nki_rmsnorm_kernel", on=TRN2)
@fact("nkipy/examples/models/qwen3/kernels/sampling.py", "nki_rmsnorm_kernel", on=TRN2)
def rmsnorm_with_a_shuffled_gamma():
    x, gamma = draw(256, 64), draw(64, seed=1)
    return Fact((x, gamma, 1e-5), (rms(x, gamma, 1e-5),), read=4 * (x.size + 64),
                written=4 * x.size)


@fact(f"{LIBRARY}/core/cumsum/cumsum.py", "cumsum")
def cumulative_sum():  # 2 tiles of rows, 2 of columns
    x = draw(130, 3000)
    return Fact((x,), (wide(x).cumsum(1),), read=4 * x.size, written=4 * x.size)


@fact(f"{TRANSLATED}/deltanet/components/norm_gate.py", "deltanet_gated_rmsnorm", on=TRN2)
def gated_rmsnorm():
    x, z, gamma = draw(2, 256), draw(2, 256, seed=1), draw(128)
    gate = wide(z) / (1 + np.exp(-wide(z)))
    norm = rms(x.reshape(2, 2, 128), gamma, 1e-6).reshape(2, 256)
    return Fact((x, gamma, z, 1e-6), (norm * gate,), read=4 * (2 * x.size + 128),
                written=4 * x.size)


@fact(f"{TRANSLATED}/deltanet/components/norm_gate.py", "deltanet_gated_rmsnorm", on=TRN2)
def gated_rmsnorm_on_two_cores():  # a head each; both read gamma
    said = gated_rmsnorm()
    return Fact(said.args, said.expected, read=said.read + 4 * 128, written=said.written, lnc=2)


# --- rotary embeddings ------------------------------------------------------------------------

def rotated(x, cos, sin):
    """x [..., S, D] with the two halves of D rotated."""
    half = x.shape[-1] // 2
    other = np.concatenate([-wide(x)[..., half:], wide(x)[..., :half]], -1)
    return wide(x) * wide(cos) + other * wide(sin)


@fact(f"{VIZ}/rope.py", "rope_kernel")
def rope_of_every_head():  # cos and sin for each of 2 heads
    q, k = draw(1, 2, 128, 64), draw(1, 2, 128, 64, seed=1)
    cos, sin = draw(128, 64), draw(128, 64, seed=1)
    return Fact((q, k, cos, sin, np.zeros_like(q), np.zeros_like(k), 1, 2, 128, 64),
                (rotated(q, cos, sin), rotated(k, cos, sin)),
                read=4 * (2 * q.size + 2 * 2 * cos.size), written=4 * 2 * q.size)


@fact(f"{LIBRARY}/core/embeddings/rope_hf.py", "rope_hf")
def rope_grouped():  # cos and sin once for all heads of a sequence; 2 sequences
    q, k = draw(2, 2, 256, 64), draw(2, 1, 256, 64)
    cos, sin = draw(256, 64), draw(256, 64, seed=1)
    return Fact((q, k, np.zeros_like(q), np.zeros_like(k), cos, sin),
                (rotated(q, cos, sin), rotated(k, cos, sin)),
                read=4 * (q.size + k.size + 2 * 2 * cos.size), written=4 * (q.size + k.size))


@fact(f"{LIBRARY}/core/embeddings/rope_hf.py", "rope_hf", on=TRN2)
def rope_grouped_on_two_cores():  # each has half the sequence and half of cos, sin
    said = rope_grouped()
    return Fact(said.args, said.expected, said.read, said.written, lnc=2)


@fact(f"{LIBRARY}/core/embeddings/rope.py", "RoPE")
def rope_of_heads_on_partitions():
    x, cos, sin = draw(64, 1, 2, 128), draw(32, 1, 128), draw(32, 1, 128, seed=1)
    even, odd, c, s = wide(x)[:32], wide(x)[32:], wide(cos)[:, :, None], wide(sin)[:, :, None]
    return Fact((x, cos, sin), (np.concatenate([even * c - odd * s, odd * c + even * s]),),
                read=4 * (x.size + 2 * cos.size), written=4 * x.size)


@fact(f"{QWEN}/qwen_qk_norm_rope.py", "qwen_qk_norm_partial_rope_kernel", on=TRN2)
def qk_norm_and_partial_rope():  # cos, sin for each of 2 + 1 heads; 64 of 256 columns stored twice
    S, D, R = 130, 256, 64
    q, k = draw(1, S, 2 * D), draw(1, S, D)
    gq, gk, cos, sin = draw(D), draw(D, seed=1), draw(1, S, R), draw(1, S, R, seed=1)

    def heads(x, gamma):
        normed = rms(x.reshape(1, S, -1, D).swapaxes(1, 2), gamma, 1e-6)
        return np.concatenate([rotated(normed[..., :R], cos[:, None], sin[:, None]),
                               normed[..., R:]], -1)

    return Fact((q, k, gq, gk, cos, sin, 1e-6), (heads(q, gq), heads(k, gk)),
                read=4 * (q.size + k.size + 2 * D + 3 * 2 * S * R),
                written=4 * (q.size + k.size + 3 * S * R))


# --- larger ones ------------------------------------------------------------------------------

@fact(f"{VIZ}/mlp.py", "mlp_kernel")
def mlp_recomputing_the_hidden_layer():
    """Each of 2 column tiles of the result computes all of the hidden layer again."""
    B, K, H, N = 256, 128, 256, 1024
    xT, w1, w2 = draw(K, B), draw(K, H, scale=0.1), draw(H, N, scale=0.1)
    rows, columns, hidden = B // 128, N // 512, H // 128
    read = columns * hidden * xT.size + rows * columns * w1.size + rows * w2.size
    return Fact((xT, w1, w2, np.zeros((B, N), np.float32)),
                (np.maximum(wide(xT).T @ wide(w1), 0) @ wide(w2),), read=4 * read,
                written=4 * B * N, work={"fp32": columns * 2 * B * K * H + 2 * B * H * N})


@fact(f"{VIZ}/tiled_attention.py", "tiled_attention_kernel")
def attention_one_query_tile():  # 4 query heads on 2 key heads: each key and value head twice
    B, H, G, M, N, D, DV = 1, 4, 2, 256, 256, 128, 64
    q, k, v = draw(B, H, M, D), draw(B, G, N, D, seed=1), draw(B, G, N, DV, seed=2)
    each = wide(k).repeat(H // G, 1), wide(v).repeat(H // G, 1)
    want = softmax(wide(q) @ each[0].swapaxes(2, 3) / np.sqrt(D)) @ each[1]
    again = (M // 128) * (H // G)  # for each query tile of each head
    return Fact((q, k, v, np.zeros((B, H, M, DV), np.float32), B, H, G, G, M, N, D, DV), (want,),
                read=4 * (q.size + again * (k.size + v.size)), written=4 * B * H * M * DV,
                work={"fp32": 2 * B * H * M * N * (D + DV)}, close=1e-4)


@fact(f"{LIBRARY}/experimental/loss/cross_entropy.py", "cross_entropy_forward", on=TRN2)
def cross_entropy():  # the logits once, and one more of each row: its target's
    x, target = draw(16, 300), np.random.default_rng(0).integers(0, 300, 16).astype(np.int32)
    lse = np.log(np.exp(wide(x)).sum(1))
    return Fact((x, target, 8, 128, nki.language.float32), (lse - x[np.arange(16), target], lse),
                read=4 * (x.size + 16 + 16), written=4 * 2 * 16, close=1e-4)


@fact(f"{LIBRARY}/experimental/loss/cross_entropy.py", "cross_entropy_backward", on=TRN2)
def cross_entropy_gradient():
    x, target = draw(16, 300), np.random.default_rng(0).integers(0, 300, 16).astype(np.int32)
    lse = np.log(np.exp(wide(x)).sum(1)).astype(np.float32)
    want = (softmax(x) - (np.arange(300) == target[:, None])) / 16
    return Fact((x, target, lse, "mean", 8, 128, nki.language.float32, False), (want,),
                read=4 * (x.size + 16 + 16), written=4 * x.size, close=1e-4)


@fact(f"{LIBRARY}/core/max/cascaded_max.py", "cascaded_max", on=TRN2)
def max_and_its_index():
    x = draw(4, 1024)
    return Fact((x,), (x.max(1)[:, None], x.argmax(1)[:, None]), read=4 * x.size,
                written=4 * 4 + 4 * 4, close=0)


@fact(f"{LIBRARY}/experimental/dynamic_shapes/dynamic_elementwise_add.py",
      "dynamic_elementwise_add", on=TRN2)
def sum_of_as_many_tiles_as_a_tensor_says():
    """Both tiles; then the kernel copies its result onto itself, as a fence."""
    a, b, tiles = draw(256, 512), draw(256, 512, seed=1), np.array([[2]], np.int32)
    return Fact((a, b, tiles), (a + b,), read=4 * (2 * a.size + 1 + a.size),
                written=4 * 2 * a.size, shapes=False)


def deltanet(q, k, v, g, beta, state):
    """Tokens one after the other: h = e^g h + k (b (v - (e^g h).T k)).T, o = h.T q."""
    out, h = [], wide(state)
    for t in range(len(q)):
        h = np.exp(wide(g)[t]) * h
        h = h + np.outer(k[t], beta[t] * (v[t] - h.T @ k[t]))
        out.append(h.T @ q[t])
    return np.array(out), h


def tokens(S, D=128):
    """q, k, v, g, beta of S tokens; keys of length 1."""
    q, k, v = draw(S, D, scale=0.1), draw(S, D, seed=1), draw(S, D, seed=2)
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    return q, k, v, -np.abs(draw(S, 1, scale=0.1)), 1 / (1 + np.exp(draw(S, 1, seed=1)))


@fact(f"{QWEN}/nki_deltanet.py", "_deltanet_recurrent_step_batched_kernel", on=TRN2)
def deltanet_step_of_three_heads():  # two matrix-vector products a head
    H, D = 3, 128
    q, k, v, g, b = tokens(H)
    state = draw(H * D, D)
    each = [deltanet(q[i:i + 1], k[i:i + 1], v[i:i + 1], g[i:i + 1], b[i:i + 1],
                     state[i * D:(i + 1) * D]) for i in range(H)]
    return Fact((q, k, v, g, b, state), tuple(np.concatenate(x) for x in zip(*each, strict=True)),
                read=4 * (3 * H * D + 2 * H + state.size), written=4 * (H * D + state.size),
                work={"fp32": H * 2 * 2 * D * D}, close=1e-4)


@fact(f"{QWEN}/nki_deltanet.py", "deltanet_recurrent_fwd", on=TRN2)
@fact(f"{TRANSLATED}/deltanet/decode/recurrent.py", "deltanet_recurrent_fwd", on=TRN2)
def deltanet_of_a_sequence():  # the state never leaves SBUF
    S, D = 5, 128
    q, k, v, g, b = tokens(S)
    broadcast = [np.repeat(x, D, 1) for x in (g, b)]
    return Fact((q, k, v, *broadcast), deltanet(q, k, v, g, b, np.zeros((D, D)))[:1],
                read=4 * 5 * S * D, written=4 * S * D, work={"fp32": S * 2 * 2 * D * D}, close=1e-4)


@fact(f"{QWEN}/nki_deltanet_chunked.py", "deltanet_chunk_step", on=TRN2)
def deltanet_of_a_chunk_at_once():
    """128 tokens by 26 matmuls of 128 x 128 x 128 give what the recurrence gives."""
    D = 128
    q, k, v, g, b = tokens(D)
    state = draw(D, D, scale=0.1)
    gc = np.cumsum(g, 0, dtype=np.float32)
    lower, eye = np.tri(D, k=-1, dtype=np.float32), np.eye(D, dtype=np.float32)
    args = (q, k, v, np.repeat(b, D, 1), np.repeat(gc, D, 1), np.full((D, D), gc[-1]), state,
            lower, eye, lower + eye)
    return Fact(tuple(np.ascontiguousarray(a, np.float32) for a in args),
                deltanet(q, k, v, g, b, state), read=4 * 10 * D * D, written=4 * 2 * D * D,
                work={"fp32": 26 * 2 * D**3}, close=1e-3)


def chunks(S):
    """Arguments and outputs of the kernels that keep the state in SBUF over all chunks."""
    q, k, v, g, b = tokens(S)
    lower, eye = np.tri(128, k=-1, dtype=np.float32), np.eye(128, dtype=np.float32)
    return (q, k, v, g, b), (lower, eye, lower + eye)


@fact(f"{TRANSLATED}/deltanet/prefill/chunked_fused.py", "deltanet_fused_chunked_fwd", on=TRN2)
def deltanet_of_two_chunks():  # three masks; FLOPs not counted by hand
    args, masks = chunks(256)
    want = deltanet(*args, np.zeros((128, 128)))
    return Fact((*args, *masks), want, read=4 * (256 * (3 * 128 + 2) + 3 * 128 * 128),
                written=4 * (256 * 128 + 128 * 128), work=None, close=1e-3)


@fact(f"{QWEN}/nki_deltanet_fused.py", "deltanet_fused_chunked_fwd", on=TRN2)
def deltanet_of_two_chunks_from_a_state():
    """Two masks of the three and the first state; q is normalised and scaled inside."""
    (q, k, v, g, b), masks = chunks(256)
    state = draw(128, 128, scale=0.1)
    scaled = q / np.linalg.norm(q, axis=1, keepdims=True) / np.sqrt(128)
    return Fact((q, k, v, g, b, state, *masks), deltanet(scaled, k, v, g, b, state),
                read=4 * (256 * (3 * 128 + 2) + 3 * 128 * 128),
                written=4 * (256 * 128 + 128 * 128), work=None, close=1e-3)


@fact(f"{TRANSLATED}/deltanet/components/conv.py", "deltanet_conv_tkg_fwd", on=TRN2)
def depthwise_convolution_of_one_token():  # no matmul but transposes: W is 0
    C, K = 512, 4
    x, state, w = draw(1, C), draw(C, K - 1), draw(C, K)
    window = np.concatenate([state, x.T], 1)
    y = (wide(window) * wide(w)).sum(1)
    return Fact((x, state, w, 128), ((y / (1 + np.exp(-y))).reshape(C // 128, 1, 128),
                                     window[:, 1:]),
                read=4 * (x.size + state.size + w.size), written=4 * (C + C * (K - 1)), close=1e-4)


@fact("neuronx-distributed-inference/src/neuronx_distributed_inference/modules/eagle/"
      "hidden_state.py", "rolling_buffer_set_state", on=TRN2)
def rows_set_in_place():
    buffer, rows = draw(3, 4, 64), draw(2, 64)
    batch, position = np.array([2, 0], np.int32), np.array([1, 3], np.int32)
    want = buffer.copy()
    want[batch, position] = rows
    return Fact((buffer, rows, batch, position), (want,), read=4 * (2 + 2 + rows.size),
                written=4 * rows.size, close=0)


@fact(f"{LIBRARY}/core/subkernels/indexed_flatten.py", "indexed_flatten", on=TRN2)
def blocks_flattened_on_two_cores():
    """Each core writes half the rows to a padded buffer of its own, reads it back, and sends it."""
    E, T, block, length = 4, 128, 8, 1024
    x, offsets = np.arange(E * T, dtype=np.int32).reshape(E, T), np.array([48, 0, 80, 16], np.int32)
    want = np.full(length, -1)
    for row, offset in zip(x, offsets, strict=True):
        want[offset * block:][:T] = row
    return Fact((x, block, length, offsets), (want,), read=4 * (E + x.size + 2 * length),
                written=4 * (2 * length + x.size + length), close=0, lnc=2)


@fact(f"{LIBRARY}/experimental/conv/depthwise_conv1d.py", "depthwise_conv1d_implicit_gemm", on=TRN2)
def depthwise_convolution():
    """Row s of a channel's tile is the input from s on: each element comes S times."""
    C, W, S = 4, 40, 5
    Q = W - S + 1
    x, f = draw(1, C, 1, W), draw(C, 1, 1, S)
    want = [np.correlate(wide(x)[0, c, 0], wide(f)[c, 0, 0]) for c in range(C)]
    return Fact((x, f), (np.array(want)[None, :, None],), read=4 * (C * S + C * S * Q),
                written=4 * C * Q, work={"fp32": C * 2 * S * Q},
                options=dict(feature_group_count=C))


@fact(f"{LIBRARY}/experimental/conv/conv1d.py", "conv1d", on=TRN2)
def convolution():  # input and filters once; 3 taps side by side on the partitions
    C, O, K, L = 64, 32, 3, 100
    x, f = draw(1, C, L), draw(K, C, O)
    want = sum(wide(f)[k].T @ wide(x)[0, :, k:L - K + 1 + k] for k in range(K))
    return Fact((x, f), (want[None],), read=4 * (x.size + f.size), written=4 * want.size,
                work={"fp32": 2 * K * C * want.size}, close=1e-4)


def heads_projected(x, w):
    """x [B, N, D, S] of N heads, w [N D, H] -> [B, S, H]."""
    B, N, D, S = x.shape
    return wide(x).transpose(0, 3, 1, 2).reshape(B, S, N * D) @ wide(w)


@fact(f"{LIBRARY}/core/output_projection/output_projection_cte/output_projection_cte.py",
      "output_projection_cte", on=TRN2)
def output_projection_of_a_prompt():
    x, w = draw(1, 2, 128, 512, dtype=BF16), draw(256, 512, dtype=BF16)
    return Fact((x, w), (heads_projected(x, w),), read=2 * (x.size + w.size),
                written=2 * 512 * 512, work={"bf16": 2 * 512 * 512 * 256}, close=2e-2)


@fact(f"{LIBRARY}/core/output_projection/output_projection_tkg.py", "output_projection_tkg",
      on=TRN2)
def output_projection_of_four_tokens():
    x, w = draw(128, 1, 2, 4, dtype=BF16), draw(256, 512, dtype=BF16)
    want = heads_projected(x.transpose(1, 2, 0, 3), w)[0]
    return Fact((x, w), (want,), read=2 * (x.size + w.size), written=2 * want.size,
                work={"bf16": 2 * 4 * 512 * 256}, close=2e-2)


@fact(f"{LIBRARY}/core/qkv/qkv.py", "qkv", on=TRN2)
def projection_to_q_k_and_v():
    x, w = draw(1, 512, 512, dtype=BF16), draw(512, 384, dtype=BF16)
    return Fact((x, w), (wide(x) @ wide(w),), read=2 * (x.size + w.size), written=2 * 512 * 384,
                work={"bf16": 2 * 512 * 384 * 512}, close=2e-2)


def prompt_attention(causal, blocks):
    """S x S scores in full; of probabilities times V the blocks of 128 x 128 that count."""
    S, D = 512, 128
    q, k, v = draw(1, S, D, dtype=BF16, scale=0.3), draw(1, D, S, dtype=BF16), draw(
        1, S, D, dtype=BF16)
    scores = wide(q) @ wide(k)
    seen = np.where(np.tri(S, dtype=bool) | (not causal), scores, -np.inf)
    return Fact((q, k, v), (softmax(seen) @ wide(v),), read=2 * 3 * S * D, written=2 * S * D,
                work={"bf16": 2 * S * S * D + blocks * 2 * 128 * 128 * D}, close=2e-2,
                options=dict(causal_mask=causal))


@fact(f"{LIBRARY}/core/attention/attention_cte.py", "attention_cte", on=TRN2)
def attention_of_a_prompt():
    return prompt_attention(causal=False, blocks=16)


@fact(f"{LIBRARY}/core/attention/attention_cte.py", "attention_cte", on=TRN2)
def causal_attention_of_a_prompt():  # 1 + 2 + 3 + 4 blocks
    return prompt_attention(causal=True, blocks=10)


@fact("neuronx-distributed-inference/contrib/models/GLM-5.2/src/mla_attention_nki_kernel.py",
      "mla_attention_tkg", on=TRN2)
def latent_attention_of_one_token():
    """The latent part of the cache twice a head (scores, values), the rotary part once.

    Two fp32 rows a head go through HBM to change their layout.
    """
    H, S, R, C, V = 2, 512, 64, 512, 256
    qr, qc, cache = draw(H, R, dtype=BF16), draw(H, C, dtype=BF16), draw(1, S, R + C, dtype=BF16)
    out = draw(H, V, C, dtype=BF16, scale=0.1)
    mask = np.repeat((np.arange(S) < 400)[None], H, 0).astype(np.uint8)
    scores = 0.0625 * (wide(qr) @ wide(cache)[0, :, :R].T + wide(qc) @ wide(cache)[0, :, R:].T)
    latent = softmax(np.where(mask, scores, -np.inf)) @ wide(cache)[0, :, R:]
    return Fact((qr, qc, cache, out, mask), (np.einsum("hvc,hc->hv", wide(out), latent),),
                read=2 * (H * (R + C) + H * S * (R + 2 * C) + out.size) + mask.size
                + 4 * H * (S + C), written=4 * H * (S + C) + 2 * H * V,
                work={"bf16": H * 2 * (S * (R + C) + S * C + V * C)}, close=2e-2)


@fact(f"{LIBRARY}/core/attention/attention_bwd.py", "attention_bwd", on=TRN2)
def attention_backwards():
    """Five products of S x S x D (scores, dV, dP, dQ, dK); every tensor once."""
    D, S = 128, 512
    q, k, v, dy = (draw(1, 1, D, S, seed=i) for i in range(4))
    qs, ks, vs, dys = (wide(x)[0, 0].T for x in (q, k, v, dy))
    scores = qs @ ks.T / np.sqrt(D)
    p, lse = softmax(scores), np.log(np.exp(scores).sum(1))
    o = p @ vs
    ds = p * (dys @ vs.T - (dys * o).sum(1, keepdims=True)) / np.sqrt(D)
    want = (ds @ ks, ds.T @ qs, p.T @ dys)
    rows = lse.reshape(S // 128, 128).T[None, None].astype(np.float32)
    return Fact((q, k, v, o.T[None, None].astype(np.float32), dy, np.ascontiguousarray(rows)),
                tuple(x.T[None, None] for x in want), read=4 * (5 * S * D + S),
                written=4 * 3 * S * D, work={"fp32": 5 * 2 * S * S * D}, close=1e-4,
                options=dict(mixed_precision=True))


@fact(f"{LIBRARY}/experimental/benchmark/find_nonzero_indices_with_count.py",
      "find_nonzero_indices_with_count", on=TRN2)
def indices_of_nonzeros():
    x = np.where(np.random.default_rng(0).random((1, 128)) < 0.3, 1, 0).astype(np.float32)
    index = np.flatnonzero(x)
    want = np.full((1, 129), -1)
    want[0, :len(index)], want[0, 128] = index, len(index)
    return Fact((x,), (want,), read=4 * 128, written=4 * 129, close=0)


@fact(f"{LIBRARY}/core/subkernels/find_nonzero_indices.py", "find_nonzero_indices", on=TRN2)
def indices_of_nonzeros_by_column():  # a pair of columns a core
    T, C = 256, 4
    x = np.where(np.random.default_rng(1).random((T, C)) < 0.3, 1, 0).astype(np.float32)
    want = np.full((C, T), -1)
    for column in range(C):
        index = np.flatnonzero(x[:, column])
        want[column, :len(index)] = index
    return Fact((x,), (want, x.sum(0)), read=4 * x.size, written=4 * (want.size + C), close=0,
                lnc=2)


@fact(f"{LIBRARY}/core/rmsnorm/rmsnorm_quant.py", "rmsnorm_quant_kernel", on=TRN2)
def rmsnorm_quantised():
    """fp8 rows and the fp32 scale behind each; gamma reaches all partitions by a matmul with 1."""
    S, H = 128, 512
    x, gamma = draw(1, S, H, dtype=BF16), draw(1, H, dtype=BF16)

    def back(outputs):
        rows, scale = outputs[0][..., :H], np.ascontiguousarray(outputs[0][..., H:])
        return (wide(rows) * wide(scale.view(np.float32)),)

    return Fact((x, gamma), (rms(x, gamma[0], 1e-6),), read=2 * (x.size + gamma.size),
                written=S * (H + 4), work={"bf16": 2 * S * H}, close=4e-2, seen=back,
                options=dict(kargs="RmsNormQuantKernelArgs"))


# --- listings of the documentation ------------------------------------------------------------

@fact(f"{DOCS}/get-started/about/lnc.rst", "lnc_test", nth=1)
def reciprocal_of_two_slices():
    x = 1 + np.abs(draw(2, 128, 128))
    return Fact((x,), (1 / x,), read=4 * x.size, written=4 * x.size)


@fact(f"{DOCS}/get-started/about/lnc.rst", "lnc_test", nth=1, on=TRN2)
def reciprocal_of_two_slices_on_two_cores():
    said = reciprocal_of_two_slices()
    return Fact(said.args, said.expected, said.read, said.written, lnc=2)


@fact(f"{DOCS}/deep-dives/nki-aps.rst", "scalar_dynamic_select")
def one_of_four_batches():  # HBM to HBM; the fourth batch
    x = draw(4, 128, 512)
    return Fact((x,), (x[3],), read=4 * 128 * 512, written=4 * 128 * 512, close=0)


@fact(f"{DOCS}/migration/index.rst", "sb_blocks_migrated")
@fact(f"{DOCS}/migration/index.rst", "sb_blocks_migrated", 1)
@fact(f"{DOCS}/migration/index.rst", "sb_blocks_migrated_incorrect")
def blocks_through_an_assigned_tile():  # each block: a load, a copy on chip, a store
    x = draw(8, 128, 512)
    return Fact((x,), (x,), read=x.nbytes, written=x.nbytes, close=0)


@fact(f"{DOCS}/deep-dives/nki-aps.rst", "gather_rows")
@fact(f"{DOCS}/deep-dives/nki-aps.rst", "indirect_vector_dynamic_dma")
@fact(f"{DOCS}/migration/index.rst", "indirect_vector_dynamic_dma")
def every_second_row():
    x = draw(128, 512)
    return Fact((x,), (x[::2],), read=4 * 64 * 512, written=4 * 64 * 512, close=0)


@fact(f"{DOCS}/api/nki/isa/__init__.py", "indirect_gather_kernel")
def gathered_rows():
    x, index = draw(64, 32), np.random.default_rng(0).permutation(64)[:16].astype(np.uint32)
    return Fact((x, index[:, None]), (x[index],), read=4 * (16 * 32 + 16), written=4 * 16 * 32,
                close=0)


@fact(f"{DOCS}/api/nki/isa/__init__.py", "indirect_scatter_kernel")
def scattered_rows():
    x, index = draw(16, 32), np.random.default_rng(0).permutation(16).astype(np.uint32)
    want = np.zeros_like(x)
    want[index] = x
    return Fact((x, index[:, None], np.zeros_like(x)), (want,), read=4 * (16 * 32 + 16),
                written=4 * 16 * 32, close=0)


@fact(f"{DOCS}/api/nki/isa/__init__.py", "gather_transpose_kernel", on=TRN2)
def gathered_and_transposed():
    x = draw(256, 128, dtype=BF16)
    index = np.random.default_rng(0).permutation(256)[:128].astype(np.uint32)
    return Fact((x, index[:, None]), (x[index].T,), read=2 * 128 * 128 + 4 * 128,
                written=2 * 128 * 128, close=0)


@fact(f"{DOCS}/api/nki/isa/__init__.py", "gather_transpose_2d_kernel", on=TRN2)
def gathered_and_transposed_twice():  # indices column by column
    x = draw(512, 128, dtype=BF16)
    index = np.random.default_rng(0).permutation(512)[:256].astype(np.uint32).reshape(128, 2)
    return Fact((x, index), (x[index.T.ravel()].T,), read=2 * 256 * 128 + 4 * 256,
                written=2 * 256 * 128, close=0)


@pytest.mark.parametrize("name", FACTS, ids=str)
def test_outputs_and_counts(name, tmp_path):
    path, kernel, nth, target, function = FACTS[name]
    namespace = kernels(path, kernel, nth, tmp_path)
    said = function()
    called = getattr(namespace, kernel)
    if "kargs" in said.options:  # a class of the file itself
        said.options["kargs"] = getattr(namespace, said.options["kargs"])()
    run = nki.run(called, *said.args, target=target, lnc=said.lnc, **said.options)
    for got, want in zip(said.seen(run.outputs), said.expected, strict=True):
        assert got.shape == want.shape
        error, scale = np.abs(wide(got) - wide(want)).max(), np.abs(wide(want)).max()
        assert error <= said.close * scale
    work = run.count.work if said.work is None else said.work
    assert run.count == Count(work, said.read, said.written)
    if said.shapes:
        shapes = nki.run(called, *said.args, target=target, lnc=said.lnc, data=False,
                         **said.options)
        assert shapes.count == run.count


# --- those that are refused, and why ----------------------------------------------------------

@pytest.mark.parametrize(("path", "kernel", "nth", "args", "said"), [
    (f"{EXAMPLES}/layout-violation.py", "tensor_exp_kernel_", 0, (draw(256, 512),),
     r"\[256, 512\].*at most 128"),  # it fails on purpose
    (f"{VIZ}/add.py", "nki_tensor_add_kernel", 0, (draw(4, 3),) * 3, "name 'sbuf' is not defined"),
    (f"{DOCS}/guides/tutorials/kernel-optimization.rst", "matrix_multiply_kernel", 0,
     (draw(128, 64), draw(128, 512)), "shared_hbm"),  # its output is in nl.hbm
    (f"{DOCS}/guides/how-to-scheduling-apis.rst", "kernel", 0, (draw(128, 64),), "shared_hbm"),
    (f"{DOCS}/deep-dives/nki-aps.rst", "scalar_dynamic_dma", 0, (draw(512, 512),),
     "its own assert failed"),  # it compares a shape, a tuple, with a list
    (f"{DOCS}/get-started/nki-language-guide.rst", "relu_kernel", 0,
     (draw(128, 512), draw(128, 512)), "returns a tensor"),
    ("nki-samples/src/nki_samples/tutorials/matrix_multiplication/"
     "matrix_multiplication_nki_kernels.py", "nki_matmul_basic_", 0,
     (draw(128, 64), draw(128, 512)), "dtype"),  # tensor_copy(dtype=) left in NKI 0.2
    (f"{DOCS}/migration/index.rst", "sb_blocks", 0, (draw(8, 128, 512),), "par_dim"),
])


def test_refusals(path, kernel, nth, args, said, tmp_path):
    namespace = kernels(path, kernel, nth, tmp_path)
    with pytest.raises((nki.NkiValidationError, Uncounted), match=said):
        nki.run(getattr(namespace, kernel), *args)


@pytest.mark.parametrize(("path", "said"), [
    (f"{EXAMPLES}/layout-dynamic-loop.py", r"line 25: not Python: '\(' was never closed"),
    ("nki-samples/src/nki_samples/tutorials/average_pool2d/average_pool2d_nki_kernels.py",
     r"line \d+: import neuronxcc\.nki"),
    (f"{DOCS}/test/test_nki_nl_add.py", r"line \d+: import neuronxcc\.nki"),
])


def test_files_that_cannot_be_loaded(path, said):
    file = Path(FOLDER) / path
    if not file.exists():
        pytest.skip(f"{path} is not in {FOLDER}")
    with pytest.raises((nki.LoadError, nki.NkiValidationError), match=said):
        nki.load(file)
