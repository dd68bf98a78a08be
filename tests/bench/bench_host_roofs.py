"""Our host roofs against C loops compiled here, by turns in one run. Target: ratio >= 0.95.

Run   pytest -m bench tests/bench -s    or    python tests/bench/bench_host_roofs.py
"""

import ctypes
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from roofline.device import host
from roofline.device.rounds import alternate

C = r"""
#include <stddef.h>
void add_in_place(float *x, size_t n, float s) { for (size_t i = 0; i < n; i++) x[i] += s; }
float read_all(const float *x, size_t n) {
    float t[64] = {0}, sum = 0;
    for (size_t i = 0; i + 64 <= n; i += 64) for (int j = 0; j < 64; j++) t[j] += x[i + j];
    for (int j = 0; j < 64; j++) sum += t[j];
    return sum;
}
#define FMA(T, W) T fma_##T##_##W(size_t steps, T a, T b) { \
    T x[W], sum = 0; \
    for (int j = 0; j < W; j++) x[j] = j; \
    for (size_t i = 0; i < steps; i++) for (int j = 0; j < W; j++) x[j] = x[j] * a + b; \
    for (int j = 0; j < W; j++) sum += x[j]; \
    return sum; }
FMA(float, 96) FMA(float, 192) FMA(double, 48) FMA(double, 96)
"""
STEPS = 3_000_000


def compile_reference(folder: Path) -> ctypes.CDLL | None:
    """The C loops as a library, or None without a C compiler."""
    cc = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if cc is None:
        return None
    (folder / "ref.c").write_text(C)
    for native in (["-march=native"], ["-mcpu=native"], []):
        done = subprocess.run([cc, "-O3", *native, "-ffast-math", "-shared", "-fPIC", "ref.c", "-o",
                               "ref.so"], cwd=folder, capture_output=True, check=False)
        if done.returncode == 0:
            break
    lib = ctypes.CDLL(str(folder / "ref.so"))
    f, n, p = ctypes.c_float, ctypes.c_size_t, ctypes.c_void_p
    lib.add_in_place.argtypes, lib.read_all.argtypes = [p, n, f], [p, n]
    lib.read_all.restype = f
    for name, kind in (("float_96", f), ("float_192", f), ("double_48", ctypes.c_double),
                       ("double_96", ctypes.c_double)):
        function = getattr(lib, f"fma_{name}")
        function.argtypes, function.restype = [n, kind, kind], kind
    return lib


def reference_tasks(lib: ctypes.CDLL, x: object, threads: int, together: object) -> dict:
    """The same patterns on the same slices and the same pool: task and amount, as ours."""
    parts = host._parts(x, threads)
    size = sum(p.nbytes for p in parts)
    tasks = {
        "in place": (together(lambda p: lib.add_in_place(p.ctypes.data, p.size, 1.0), parts),
                     2 * size),
        "read": (together(lambda p: lib.read_all(p.ctypes.data, p.size), parts), size)}
    for roof, kind, widths in (("FMA fp32", "float", (96, 192)), ("FMA fp64", "double", (48, 96))):
        for w in widths:
            call = getattr(lib, f"fma_{kind}_{w}")
            tasks[f"{roof}/{w}"] = (together(lambda _, call=call: call(STEPS, 0.999, 0.001),
                                             [None] * threads), threads * 2 * w * STEPS)
    return tasks


def compare(lib: ctypes.CDLL, threads: int, budget_s: float = 12) -> list[str]:
    """One line a roof: ours / C, median and range over the kept rounds."""
    x = host.aligned(host.array_bytes() // 4)
    with host._team(threads) as together:
        ours = {**host._bandwidth_tasks(x, threads, together),
                **host._compute_tasks(threads, together)}
        theirs = reference_tasks(lib, x, threads, together)
        tasks = {f"our {n}": t[0] for n, t in ours.items()} | {n: t[0] for n, t in theirs.items()}
        rounds = alternate(tasks, budget_s, want=9)
    lines = []
    for name in ("in place", "read", "FMA fp32", "FMA fp64", "matmul fp32", "matmul fp64"):
        mine = f"our {name}" if f"our {name}" in tasks else f"our {name.replace('FMA', 'matmul')}"
        peers = [n for n in theirs if n.split("/")[0] == name.replace("matmul", "FMA")]
        amount = ours[mine.removeprefix("our ")][1]
        ratios = []
        for i in rounds.kept:
            c = max(theirs[n][1] / rounds.seconds[n][i] for n in peers)
            ratios.append(amount / rounds.seconds[mine][i] / c)
        lines.append(f"{threads} thread(s)  {name:12} ours / C {statistics.median(ratios):.3f} "
                     f"({min(ratios):.3f} to {max(ratios):.3f}, {len(rounds.kept)} of "
                     f"{len(rounds.foreign)} rounds{', noisy' if rounds.noisy else ''})")
    return lines


def report() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lib = compile_reference(Path(folder))
        if lib is None:
            print("no C compiler (cc, gcc, clang): comparison with C left out")
        for threads in dict.fromkeys((1, host.cores())) if lib else ():
            print("\n".join(compare(lib, threads)))
    start = time.perf_counter()
    roofs = host.roofs()
    print(f"host.roofs(): {time.perf_counter() - start:.1f} s, target 30 s")
    print("\n".join(f"  curve, {p.threads} thread(s), {p.fmas:2} FMAs: "
                    f"{p.rate / roofs.machine(p.threads).attainable(p.intensity, 'fp32'):.2f} "
                    "of min(P, I x BW)" for p in roofs.curve))


@pytest.mark.bench
def test_bench_host_roofs() -> None:
    report()


if __name__ == "__main__":
    report()
