"""A json profile of 200,000 instructions against json.load of the same file. Target: <= 2x.

Run   pytest -m bench tests/bench -s    or    python tests/bench/bench_profile_json.py
"""

import json
import random
import statistics
import tempfile
import time
from pathlib import Path

import pytest

from roofline import profile

INSTRUCTIONS, PACKETS, ROUNDS = 200_000, 20_000, 5


def instruction(rng: random.Random, i: int, ids: list[int]) -> dict:
    """One row with the fields of Neuron Profile 2.28, of the kind that stands in row i."""
    matmul = i % 3 == 1
    opcode, label = (("LDWEIGHTS", "Tensor"), ("MATMUL", "TensorMatrix"),
                     rng.choice([("TENSOR_TENSOR", "Vector"), ("ACTIVATE", "Scalar")]))[i % 3]
    address = rng.randrange(2**20)
    row = {
        "timestamp": 100 * i + rng.randrange(100), "duration": rng.randrange(20, 700),
        "label": label, "subgroup": label, "opcode": opcode, "id": ids[i], "pc": i,
        "operands": f"S[5] (Tensor)++@complete acc_flags=3 src=bfloat16@{address:#x}[1,0,0]"
                    f"[512,1,1] dst=0x2000000[1,0,0][512,1,1] 128*128 ",
        "subgraph": "sg00", "fully_qualified_subgraph": "/sg00", "evt_wait_time": 1,
        "bir_id": f"sg0000:{i // 2}", "raw_bir_id": i // 2, "bir_instruction_name": f"I-{i}-0",
        "penguin_id": "sg0000:37", "raw_penguin_id": 37, "layer": "Unknown", "hlo_name": "",
        "hlo_attrs": "[]", "activation_fn": "", "crc_in": 15088, "crc_out": 65535,
        "compiler_pc": i, "sbuf_read_bytes": 512,
        "instruction_type": "REGULAR" if i % 3 < 2 else ""}
    if matmul:
        row |= {"elements": 128 * 128 * 512, "psum_write_bytes": 512}
    if i > 100:
        row["predecessors"] = [{"id": ids[rng.randrange(i)], "type": "FLOW_DEPENDENCE"}
                               for _ in range(i % 4)]
    return row


def packet(rng: random.Random, i: int) -> dict:
    """One row of table dma with the fields of Neuron Profile 2.28."""
    size = rng.choice([256, 512, 4096])
    return {"timestamp": 1000 * i, "duration": 158, "transfer_size": size, "read_size": size,
            "write_size": size, "transfer_rate": 6400000000, "queue_type": "hardware_dynamic",
            "dma_engine": str(64 + i % 16), "dma_queue": "0", "semaphore_id": "-1", "id": i,
            "packet_aggregation_id": i // 16, "packet_idx": i % 16, "subgraph": "sg00",
            "variable": "unknown", "source": [["unknown"]], "dest": ["unknown"], "op": "",
            "duplicate": "no", "aggregated": "no", "is_cc_dma": "no", "crc": 41589}


def document(instructions: int = INSTRUCTIONS, packets: int = PACKETS) -> dict:
    """A profile of random rows."""
    rng = random.Random(6)
    ids = [rng.getrandbits(62) for _ in range(instructions)]
    last = 100 * instructions + 1000
    return {"summary": [{"total_time": last / 1e9, "hbm_read_bytes": 0}],
            "metadata": [{"num_physical_cores": 1, "last_hw_timestamp": last, "data_version": 8}],
            "instruction": [instruction(rng, i, ids) for i in range(instructions)],
            "dma": [packet(rng, i) for i in range(packets)], "ham": []}


def seconds(action) -> float:
    """Of this process alone: both run on one thread, and other programs do not count."""
    begin = time.process_time()
    action()
    return time.process_time() - begin


def report() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ntff.json"
        with path.open("w") as file:
            json.dump(document(), file)

        def load() -> None:
            with path.open() as file:
                json.load(file)

        pairs = [(seconds(load), seconds(lambda: profile.read(path))) for _ in range(ROUNDS)]
        ratios = [ours / theirs for theirs, ours in pairs]
        print(f"{INSTRUCTIONS:,} instructions, {PACKETS:,} packets, "
              f"{path.stat().st_size / 1e6:.0f} MB: read {min(p[1] for p in pairs):.2f} s, "
              f"json.load {min(p[0] for p in pairs):.2f} s, "
              f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), "
              "target 2")


@pytest.mark.bench
def test_bench_profile_json() -> None:
    report()


if __name__ == "__main__":
    report()
