"""Counting kernels against the NumPy product they compute, by turns in one run.

Targets  a 2048^3 bf16 matmul kernel with data: at most 1.5x one raw fp32 BLAS product on one
         thread, 2.5x on two; on shapes alone at most 2 us an instruction; the V-JEPA 2 MLP on
         shapes under 1 s
Run      pytest -m bench tests/bench/bench_nki.py -s    or    python tests/bench/bench_nki.py
"""

import statistics
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from roofline import nki
from roofline.device.rounds import alternate

ROOT = Path(__file__).parents[2]
N = 2048


def seconds(call) -> float:
    """Of the call; what it returns is dropped after the clock has stopped."""
    start = time.perf_counter()
    kept = call()
    end = time.perf_counter()
    del kept
    return end - start


def product(threads: int) -> str:
    """One line: the kernel with data over the raw product, by turns."""
    kernels = nki.load(ROOT / "day5" / "kernels.py")
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((N, N), np.float32) for _ in "ab")
    low = [x.astype(ml_dtypes.bfloat16) for x in (a, b)]
    with threadpool_limits(threads):
        rounds = alternate({"product": lambda: a.T @ b,
                            "kernel": lambda: nki.run(kernels.matmul_c_stays, *low)}, 20, want=9)
    ratios = [k / p for k, p in zip(rounds.of("kernel"), rounds.of("product"), strict=True)]
    target = {1: 1.5, 2: 2.5}[threads]
    return (f"{N}^3 bf16 matmul with data, {threads} thread(s): "
            f"{statistics.median(ratios):.2f} x one fp32 product ({min(ratios):.2f} to "
            f"{max(ratios):.2f}, {len(rounds.kept)} of {len(rounds.foreign)} rounds"
            f"{', noisy' * rounds.noisy}), target {target}")


def shapes(what: str, call, target: str) -> str:
    """One line: the best of several counts on shapes alone, in all and an instruction."""
    run = call()
    best = min(seconds(call) for _ in range(9))
    n = sum(map(len, run.cores))
    return (f"{what} on shapes: {best * 1e3:.1f} ms for {n:,} instructions, "
            f"{best / n * 1e6:.2f} us each, target {target}")


def report() -> None:
    day4, day5, day7 = (nki.load(ROOT / day / "kernels.py") for day in ("day4", "day5", "day7"))
    for threads in (1, 2):
        print(product(threads))
    square = ((N, N), "bfloat16")
    print("The instruction alone, on tiles that are there:")
    print(shapes("moving_sweep", lambda: nki.run(
        day4.moving_sweep, ((128, 128), "bf16"), ((128, 512), "bf16"), n=8192, data=False),
        "2 us each"))
    print("With the kernel's own Python, its loops, tiles and slices:")
    for kernel in (day5.matmul_reload, day5.matmul_a_stays, day5.matmul_b_stays,
                   day5.matmul_c_stays, day7.matmul):
        print(shapes(f"{N}^3 {kernel.__name__}", lambda kernel=kernel: nki.run(
            kernel, square, square, data=False), "2 us each"))
    x, up, down = (((1024, 2048), "bfloat16"), ((1024, 4096), "bfloat16"),
                   ((4096, 1024), "bfloat16"))
    print(shapes("V-JEPA 2 MLP, fused", lambda: nki.run(day5.mlp_fused, x, up, down, data=False),
                 "1 s in all"))


@pytest.mark.bench
def test_bench_nki() -> None:
    report()


if __name__ == "__main__":
    report()
