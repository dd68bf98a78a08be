"""The loop-nest counter against walking its loops, and the time of a search.

Targets  the same bytes; the counter's time does not depend on the sizes. A search for the best
         nest of a 4096^3 matmul well under 0.5 s with the Tensor Engine's tiles, under a few
         seconds with tiles of one element
Run      pytest -m bench tests/bench/bench_loopnest.py -s    or
         python tests/bench/bench_loopnest.py
"""

import time

import pytest

from roofline import loopnest, ops

CORE = {"SBUF": 28 * 2**20, "PSUM": 2 * 2**20}
NESTS = [
    (ops.Matmul(2048, 2048, 2048), "m128 n512 C k128 A B"),
    (ops.Matmul(2048, 2048, 2048), "m256 n1024 C k128 A B m128 n512"),
    (ops.Matmul(1999, 2001, 2003), "k512 m128 n512 C k128 A B"),
    (ops.MLP(2048, 1024, 4096), "W_up W_down b128 x g (f128 d128) (e512 y f128)"),
    (ops.Attention(4096, 128), "Q K V i128 A (j512) (O j128)"),
]
SEARCHES = [
    ("Tensor Engine's tiles, SBUF and PSUM", ops.Matmul(4096, 4096, 4096), None, CORE),
    ("single elements, one buffer of 1 MiB", ops.Matmul(4096, 4096, 4096), (1, 1, 1),
     {"buffer": 2**20}),
    ("single elements, one buffer of 1 MiB", ops.Matmul(16384, 16384, 16384), (1, 1, 1),
     {"buffer": 2**20}),
]


def seconds(call, repeats: int = 5):
    """The least of some calls, and what the last one returned."""
    found, least = None, float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        found = call()
        least = min(least, time.perf_counter() - start)
    return found, least


def walked(op, text: str) -> tuple[int, int]:
    """Bytes read and written over HBM, added up event by event."""
    read = written = 0
    for event in loopnest.Nest(op, text).walk():
        if event.level == 0:
            read += event.bytes if event.kind == "load" else 0
            written += event.bytes if event.kind == "store" else 0
    return read, written


def report() -> None:
    for op, text in NESTS:
        count, counting = seconds(lambda op=op, text=text: loopnest.Nest(op, text).achieved)
        bytes_, walking = seconds(lambda op=op, text=text: walked(op, text), repeats=2)
        assert bytes_ == (count.hbm_read_bytes, count.hbm_write_bytes)
        print(f"{type(op).__name__:9} {text!r}: equal; counted in {counting * 1e6:.0f} us, walked "
              f"in {walking * 1e3:.1f} ms: {walking / counting:.0f} times as long")
    times = [seconds(lambda n=n: loopnest.Nest(ops.Matmul(n, n, n), NESTS[0][1]).achieved, 50)[1]
             for n in (10**3, 10**6, 10**9, 10**12)]
    print("sizes of 10^3, 10^6, 10^9, 10^12 counted in "
          + ", ".join(f"{t * 1e6:.0f}" for t in times) + " us")
    for words, op, tile, buffers in SEARCHES:
        best, took = seconds(lambda op=op, tile=tile, buffers=buffers: loopnest.best(
            op, tile, **buffers), repeats=3)
        print(f"best of {op.M}^3, {words}: {took * 1e3:.1f} ms, {best.nest.text!r}, "
              f"{best.ratio:.3f} times the bound")


@pytest.mark.bench
def test_bench_loopnest() -> None:
    report()


if __name__ == "__main__":
    report()
