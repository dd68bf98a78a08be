"""Reading a directory of Parquet tables against a plain pyarrow scan of the columns it needs.

Prints   seconds and the highest memory of each, in processes of their own, and bytes a row
Run      pytest -m bench tests/bench/bench_profile_parquet.py -s    or
         python tests/bench/bench_profile_parquet.py [instructions in thousands, default 500; the
         full size is 5000, and as many packets: some minutes and 3 GB of disk to write]
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

PART = 1_000_000  # rows of a file, as the profiler cuts large tables
OPCODES = np.array(["LDWEIGHTS", "MATMUL", "TENSOR_TENSOR", "ACTIVATE"], object)
ENGINES = np.array(["Tensor", "Tensor", "Vector", "Scalar"], object)
CHILD = """
import json, re, sys, time
from pathlib import Path
folder, what = sys.argv[1:]
import pyarrow.parquet as pq
from roofline.profile import parquet
def scan():
    kept = []
    for table in ("Instruction", "DmaPacket", "Flow"):
        for file in parquet._files(Path(folder), table):
            names = parquet._named("", table, pq.read_schema(file).names, "")
            kept.append(pq.ParquetFile(file).read(columns=list(names.values())))
    return kept
action = scan if what == "scan" else lambda: parquet.from_parquet(folder)
def peak():  # of this program alone: ru_maxrss would count what its parent held
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
before = peak()
begin = time.perf_counter(), time.process_time()
kept = action()
print(json.dumps({"wall": time.perf_counter() - begin[0], "cpu": time.process_time() - begin[1],
                  "peak": peak() - before}))
"""


def instructions(rng: np.random.Generator, first: int, size: int) -> "pa.Table":
    """Rows such as an unrolled kernel has: a third of them matmuls, operands that vary."""
    row = np.arange(first, first + size)
    kind = row % 4
    start = 100 * row + rng.integers(0, 100, size)
    end = start + rng.integers(20, 700, size)
    texts = np.array([f"S[5] (Tensor)++@complete acc_flags=3 src=bfloat16@{64 * a:#x}[1,0,0]"
                      f"[512,1,1] dst={0x2000000 + 2048 * b:#x}[1,0,0][512,1,1] 128*128 "
                      for a in range(1024) for b in range(8)], object)
    matmul = kind == 1
    return pa.table({
        "start_ts": start, "end_ts": end, "duration_ns": end - start, "engine": ENGINES[kind],
        "timeline_track": ENGINES[kind], "pcore_idx": np.zeros(size, np.int64),
        "opcode": OPCODES[kind], "operands": texts[rng.integers(0, len(texts), size)],
        "id": rng.permutation(size) + first, "pc": row,
        "bir_id": [f"sg0000:{i}" for i in (row // 2).tolist()], "raw_bir_id": row // 2,
        "layer": np.full(size, "Unknown", object),
        "nki_source_location": np.char.add("kernel.py:", (row % 90).astype(str)).astype(object),
        "hbm_read_bytes": np.zeros(size, np.int64), "hbm_write_bytes": np.zeros(size, np.int64),
        "tensor_instruction_type": np.where(kind < 2, "REGULAR", "").astype(object),
        "raw_flops": np.where(matmul, 2 * 128 * 128 * 512, 0),
        "tensor_elements": np.where(matmul, 128 * 128 * 512, 0)})


def packets(rng: np.random.Generator, first: int, size: int) -> "pa.Table":
    row = np.arange(first, first + size)
    start = 100 * row + rng.integers(0, 100, size)
    nbytes = rng.choice([256, 512, 4096], size)
    took = 8 + nbytes // 27
    return pa.table({
        "start_ts": start, "end_ts": start + took, "duration_ns": took,
        "pcore_idx": np.zeros(size, np.int64), "id": rng.permutation(size) + first,
        "packet_idx": (row % 16).astype(np.int32), "packet_aggregation_id": row // 16,
        "engine_idx": 64 + row % 16, "read_bytes": nbytes, "write_bytes": nbytes,
        "transfer_bytes": nbytes, "throughput": nbytes / took * 1e9,
        "queue_type": np.full(size, "hardware_dynamic", object),
        "variable": np.full(size, "unknown", object), "crc": rng.integers(0, 65536, size)})


def flow(rng: np.random.Generator, first: int, size: int) -> "pa.Table":
    """One predecessor for each instruction."""
    after = np.arange(first, first + size)
    names = np.full(size, "instruction", object)
    return pa.table({"in_id": np.maximum(after - rng.integers(1, 50, size), 0), "out_id": after,
                     "in_table": names, "out_table": names})


def make(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(6)
    for name, table in (("Instruction", instructions), ("DmaPacket", packets), ("Flow", flow)):
        for part, first in enumerate(range(0, rows, PART)):
            size = min(PART, rows - first)
            name_ = f"{name}_{part}" if rows > PART else name
            pq.write_table(table(rng, first, size), folder / f"{name_}.parquet")
    last = 100 * rows + 1000
    pq.write_table(pa.table({"total_time": [last / 1e9]}), folder / "Summary.parquet")
    pq.write_table(pa.table({"num_physical_cores": [1], "last_hw_timestamp": [last],
                             "profile_schema_version": ["7.4.0"]}), folder / "Metadata.parquet")


def timed(folder: Path, what: str, rounds: int = 3) -> dict:
    """The least of some runs, each in a process of its own."""
    runs = [json.loads(subprocess.run([sys.executable, "-c", CHILD, str(folder), what],
                                      check=True, capture_output=True).stdout)
            for _ in range(rounds)]
    return {key: min(run[key] for run in runs) for key in runs[0]}


def report(rows: int = 500_000) -> None:
    with tempfile.TemporaryDirectory() as name:
        make(Path(name), rows)
        scan, ours = timed(Path(name), "scan"), timed(Path(name), "read")
    print(f"\n{rows:,} instructions, {rows:,} packets, {rows:,} predecessors")
    for label, run in (("pyarrow scan of these columns", scan), ("profile.read", ours)):
        print(f"  {label:30} {run['wall']:6.2f} s  {run['cpu']:6.2f} s of processor  "
              f"{run['peak'] / 1e6:7.0f} MB  {run['peak'] / (2 * rows):5.0f} B a row")
    print(f"  ratio {ours['wall'] / scan['wall']:.2f}, of processor time "
          f"{ours['cpu'] / scan['cpu']:.2f}")


@pytest.mark.bench
def test_reading_parquet() -> None:
    report()


if __name__ == "__main__":
    report(1000 * int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
