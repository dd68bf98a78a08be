"""Derive the data of this folder from captures of allenkchau/trainium-kernel-fusion.

    python day7/data/derive.py FOLDER

FOLDER holds the profiler's json files; none of them is part of this course.
"""

import sys
from pathlib import Path

from roofline import device, gaps, machine, profile

HERE = Path(__file__).resolve().parent
BY = "Allen Chau, github.com/allenkchau/trainium-kernel-fusion, MIT"
FILES = {
    "attention_bf16.json": ("bf16", "trn2-lnc2-attn-fused-bf16-s512.full.json"),
    "attention_fp32.json": ("fp32", "trn2-lnc2-attn-fused-fp32-s512.full.json")}


def derive(source: Path, dtype: str) -> str:
    """The text of a data file."""
    of = profile.read(source)
    ledger = gaps.ledger(of, machine.get("trn2", "core"))
    return device.condense(of, ledger, {
        "name": f"fused attention, {dtype}", "sizes": "one head, S = 512 tokens, d = 128",
        "by": BY,
        "chip": "trn2.3xlarge, one core of an LNC=2 pair",
        "profiler": "Neuron Profile 2.28.23.0, json; the second execution",
        "clock": "ns from the start of execution, the profile's own",
        "kept": "merged: busy stretches, totals, the ledger; no row of the file",
    }).text()


if __name__ == "__main__":
    for name, (dtype, file) in FILES.items():
        (HERE / name).write_text(derive(Path(sys.argv[1]) / file, dtype), encoding="utf-8")
