"""The ledger of millions of instructions and packets against reading their columns.

Targets  5 M instructions + 5 M packets: at most 2.5x the pyarrow scan of the columns it uses;
         equal to a walk over every nanosecond on small cases
Run      pytest -m bench tests/bench/bench_gaps.py -s    or
         python tests/bench/bench_gaps.py [--rows 5000000]
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roofline import gaps, machine
from roofline.count import Count
from roofline.profile import Profile
from roofline.timeline import DTYPES, ENGINES, Instructions, Packets, Throttles, Timeline

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest has it, for a run as a script
import ledger_oracle

OPCODES = ("MATMUL", "LDWEIGHTS", "TENSOR_TENSOR", "ACTIVATE", "IOTA", "DMA_DIRECT2D", "DRAIN")
PLACES = ("tensor", "tensor", "vector", "scalar", "gpsimd", "sync", "sync")
SHARES = (0.4, 0.2, 0.15, 0.12, 0.03, 0.05, 0.05)  # of the rows, as in a kernel that is busy
ROWS = 5_000_000


def made(rows: int, seed: int = 1, cores: int = 1) -> Timeline:
    """A timeline with so many instructions and packets: everything that a ledger tells apart."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(len(OPCODES), rows, p=SHARES).astype(np.int32)
    start = np.cumsum(rng.integers(0, 250, rows))
    matmul = kind == 0
    moving = np.where(matmul, rng.choice([32, 128, 512], rows, p=[0.05, 0.15, 0.8]), 0)
    deep = np.where(matmul, rng.choice([64, 128], rows, p=[0.1, 0.9]), 0)
    dtype = np.where(matmul, rng.choice([DTYPES.index("bf16"), DTYPES.index("fp32")], rows,
                                        p=[0.9, 0.1]), 0)
    length = np.where(matmul, moving // 3 + rng.integers(0, 90, rows), rng.integers(5, 200, rows))
    waits = rng.random(rows) < 0.3  # on one of the few rows before it
    waits[0] = False
    before = np.maximum(np.flatnonzero(waits) - rng.integers(1, 6, int(waits.sum())), 0)
    instructions = Instructions(
        rng.integers(0, cores, rows).astype(np.int8),
        np.array([ENGINES.index(p) for p in PLACES], np.int8)[kind], start, start + length, kind,
        deep * 128 * moving, deep.astype(np.int32), np.where(matmul, 128, 0).astype(np.int32),
        moving.astype(np.int32), dtype.astype(np.int8),
        np.where(dtype == DTYPES.index("fp32"), 2, 1).astype(np.int8),
        matmul & (rng.random(rows) < 0.1), np.zeros(rows, np.int64), np.zeros(rows, np.int64),
        np.arange(rows), np.zeros(rows, np.int32), OPCODES, ("",), np.r_[0, np.cumsum(waits)],
        before)
    end = int((start + length).max())
    moved = np.sort(rng.integers(0, max(end - 200, 1), rows))
    nbytes = rng.choice([4, 512, 4096], rows, p=[0.02, 0.18, 0.8])
    packets = Packets(rng.integers(0, cores, rows).astype(np.int8),
                      rng.integers(0, 16, rows).astype(np.int16), moved, moved + 8 + nbytes // 27,
                      nbytes, nbytes > 4, np.arange(rows))
    stretches = np.arange(0, end, max(end // 50, 1))
    share = np.where(np.arange(stretches.size) % 2, 8, 4).astype(np.int32)
    throttles = Throttles(np.zeros(stretches.size, np.int8), stretches,
                          np.minimum(stretches + max(end // 50, 1), end), share,
                          np.full(stretches.size, 8, np.int32))
    return Timeline(instructions, packets, throttles, cores, max(end, int(packets.end.max())))


def profile(timeline: Timeline) -> Profile:
    return Profile("made", "parquet", "", {"total_time": (timeline.end + 0.5) / 1e9},
                   cores=timeline.cores, timeline=timeline)


def columns(table: object, names: str) -> pa.Table:
    return pa.table({name: getattr(table, name) for name in names.split()})


def scanned(timeline: Timeline, folder: Path) -> list[Path]:
    """Parquet files of the columns that a ledger reads, as pyarrow writes them."""
    tables = {"instructions": columns(timeline.instructions, "core engine start end opcode macs "
                                      "rows columns moving dtype passes transpose"),
              "of each row": pa.table({"first": timeline.instructions.first}),
              "predecessors": columns(timeline.instructions, "after"),
              "packets": columns(timeline.packets, "core engine start end nbytes traffic")}
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return [folder / f"{name}.parquet" for name in tables]


def seconds(call, clock=time.perf_counter) -> float:
    start = clock()
    kept = call()
    taken = clock() - start
    del kept
    return taken


def speed(rows: int) -> None:
    """Lines: the scan, the ledger at each roof, then its events and stretches."""
    timeline = made(rows)
    own = profile(timeline)
    with tempfile.TemporaryDirectory() as folder:
        files = scanned(timeline, Path(folder))
        calls = {"scan": lambda: [pq.read_table(file) for file in files],
                 "one": lambda: [pq.read_table(file, use_threads=False) for file in files],
                 "compute": lambda: gaps.ledger(own, machine.trn2, roof="compute"),
                 "memory": lambda: gaps.ledger(own, machine.trn2, roof="memory")}
        took = {name: [] for name in calls}
        for _ in range(7):
            for name, call in calls.items():
                took[name].append(seconds(call))
        size = sum(file.stat().st_size for file in files)
    scan, one = min(took["scan"]), min(took["one"])  # others may use the machine: the least of each
    print(f"{rows:,} instructions + {rows:,} packets: scan {scan:.2f} s on all cores, {one:.2f} s "
          f"on one ({size / 1e6:.0f} MB of Parquet)")
    for roof in ("compute", "memory"):
        at = min(took[roof])
        alone = min(seconds(calls[roof], time.process_time) for _ in range(3))
        print(f"  ledger, {roof} roof: {at:.2f} s on one ({alone:.2f} s of processor), "
              f"{at / scan:.2f} x the scan, {at / one:.2f} x that on one; target 2.5")
    found = gaps.ledger(own, machine.trn2, roof="compute")
    print("  events and stretches of all its rows: "
          f"{seconds(lambda: [(row.events, row.spans) for row in found.rows]):.2f} s more")


def equal(cases: int = 200) -> None:
    """Rows of small timelines against those of a walk over every nanosecond."""
    worst = 0.0
    for seed in range(cases):
        own = profile(made(60, seed, cores=1 + seed % 2))
        on = machine.get("trn2", "lnc2" if seed % 2 else "core")
        count = (None, Count({"bf16": 10**7}), Count({}, 10**7))[seed % 3]
        found = gaps.ledger(own, on, count)
        walked = ledger_oracle.sweep(ledger_oracle.of(own), on, count)
        assert found.roof == walked.roof
        worst = max(worst, *(abs(found[cause] - walked.rows.get(cause, 0.0))
                             for cause in gaps.CAUSES))
    print(f"{cases} timelines of 60 + 60 rows: no row differs from a walk by more than "
          f"{worst:.1e} ns")
    assert worst < 1e-6


def free() -> float:
    """GB of memory that nobody uses."""
    return psutil.virtual_memory().available / 1e9


def report(rows: int | None = None) -> None:
    equal()
    if rows is None:
        rows = ROWS if free() > 6 else ROWS // 10
        if rows < ROWS:
            print(f"{free():.1f} GB of memory are free, 6 are needed for {ROWS:,} rows: {rows:,}")
    speed(rows)


@pytest.mark.bench
def test_bench_gaps() -> None:
    report()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help=f"of each; {ROWS:,} where memory allows")
    report(parser.parse_args().rows)
