"""Predicting a kernel's time and making its profile, an instruction.

Target   at most 20 us of processor time an instruction, for each of the two
Run      pytest -m bench tests/bench/bench_neuroncore.py -s
         or    python tests/bench/bench_neuroncore.py
"""

import time
from pathlib import Path

import pytest

from roofline import neuroncore, nki

ROOT = Path(__file__).parents[2]
# Much of one kind each: matmuls, transfers that all wait for a buffer, small steps in between.
KERNELS = (("day7", "matmul", ((2048, 8192), (2048, 4096)), "bf16"),
           ("day5", "matmul_reload", ((4096, 4096), (4096, 4096)), "bf16"),
           ("day5", "attention_fused", ((128, 4096), (128, 4096), (4096, 128)), "fp32"))


def lines() -> list[str]:
    """One line a kernel."""
    found = []
    for day, name, shapes, dtype in KERNELS:
        kernel = getattr(nki.load(ROOT / day / "kernels.py"), name)
        run = nki.run(kernel, *((shape, dtype) for shape in shapes), data=False)
        n = sum(map(len, run.cores))
        start = time.process_time()
        prediction = neuroncore.predict(run)
        predicted = time.process_time()
        rows = len(prediction.profile.timeline.instructions)
        made = time.process_time()
        found.append(f"{name}, {n:,} instructions: predict {1e6 * (predicted - start) / n:.1f} us "
                     f"each, profile ({rows:,} rows) {1e6 * (made - predicted) / n:.1f}")
    return found


@pytest.mark.bench
def test_a_prediction():
    print()
    print("\n".join(lines()))


if __name__ == "__main__":
    print("\n".join(lines()))
