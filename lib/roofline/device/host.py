"""Both roofs of this CPU, and real kernels placed under them.

Question  how fast does this CPU compute and reach its memory, and what do kernels get of it?
Answer    roofs(), kernels(), sweep(); run() does all three and records them, or replays
Assumes   other work may share the machine: everything is timed by turns, medians count, noise
          is marked. NumPy for bandwidth and BLAS; numba, when there is, for the FMA peak
Ignores   detected clocks and cache sizes: virtual machines misreport both. NUMA, core classes
"""

import contextlib
import functools
import os
import platform
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import threadpoolctl

from ..units import mebi
from .host_kernels import SMALL, Case, Sizes, aligned, cases, numba
from .recording import (
    CurvePoint,
    HostRoofs,
    HostRun,
    KernelRun,
    Kernels,
    Provenance,
    RecordingError,
    Roof,
    Sweep,
    SweepPoint,
    load,
    root,
    save,
)
from .rounds import Rounds, alternate

__all__ = ["HostRoofs", "HostRun", "Kernels", "RecordingError", "Sweep", "kernels", "latest",
           "load", "measure", "roofs", "run", "save", "sweep"]

RECORDED = Path("day1/data/host_run.json")  # what ships, from the repository's root
ONE = np.float32(1)
Task = Callable[[], object]


def cores() -> int:
    """Cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


@functools.cache
def array_bytes() -> int:
    """Size of the large array: from 256 MiB, doubled until half of it is no faster.

    So it lies beyond every cache, whatever their sizes. At most 1/16 of the memory, or 2 GiB.
    """
    most = min(psutil.virtual_memory().total // 16, 2**31) // 2**16 * 2**16
    n = min(2**28, most)
    while 2 * n <= most:
        x = aligned(n // 4)
        half, whole = (_best(lambda part=part: _add_in_place(part))  # type: ignore[misc]
                       for part in (x[:x.size // 2], x))
        if whole < 1.1 * 2 * half:
            break
        n *= 2
    return n


# ---- loops that NumPy cannot do: one pass, no call overhead -------------------------------

def _fma(width: int) -> Any:
    """`width` independent multiply-adds a step. A literal width keeps them in registers."""
    def chain(steps: int, a: float, b: float, x: Any) -> None:
        for _ in range(steps):
            for j in range(width):
                x[j] = x[j] * a + b
    return numba.njit(["void(i8, f4, f4, f4[::1])", "void(i8, f8, f8, f8[::1])"],
                      fastmath=True, nogil=True)(chain)


def _curve(fmas: int, width: int) -> Any:
    """`fmas` multiply-adds on each element; `width` elements at a time stay in registers."""
    def update(x: Any, a: float, b: float) -> None:
        for i in range(0, x.size - width + 1, width):
            block = x[i:i + width]
            for _ in range(fmas):
                for j in range(width):
                    block[j] = block[j] * a + b
    return numba.njit("void(f4[::1], f4, f4)", fastmath=True, nogil=True)(update)


@functools.cache
def _compiled() -> tuple[Mapping[int, Any], Mapping[tuple[int, int], Any], Any]:
    """FMA chains by width, curve loops by (FMAs, width), x += s repeated: compiled once."""
    def repeat(times: int, s: float, x: Any) -> None:
        for _ in range(times):
            for i in range(x.size):
                x[i] += s
    return ({w: _fma(w) for w in (64, 96, 128, 192, 256)},
            {(k, w): _curve(k, w) for k in (1, 2, 4, 8, 16, 32) for w in (64, 128)},
            numba.njit("void(i8, f4, f4[::1])", fastmath=True, nogil=True)(repeat))


# ---- the roofs ---------------------------------------------------------------------------

@contextmanager
def _team(threads: int) -> Iterator[Callable[[Callable, Sequence[Any]], Task]]:
    """A way to run `call` on each part at once, one thread a part; BLAS itself gets one."""
    with ThreadPoolExecutor(threads) as pool, threadpoolctl.threadpool_limits(1, "blas"):
        def together(call: Callable, parts: Sequence[Any]) -> Task:
            if len(parts) == 1:
                return lambda: call(parts[0])
            return lambda: list(pool.map(call, parts))
        yield together


def _parts(x: Any, threads: int) -> list[Any]:
    """`threads` slices of x, each on a 64-byte boundary."""
    step = max(x.size // threads // 16 * 16, 16)
    return [x[i * step:(i + 1) * step] for i in range(threads)]


def _add_in_place(part: Any) -> None:
    np.add(part, ONE, out=part)


def _read(part: Any) -> None:
    np.dot(part[:part.size // 2], part[part.size // 2:])


def _long_enough(call: Callable[[int], object], target_s: float = 4e-3) -> int:
    """Repeats of `call` that last about target_s: longer than any hiccup of the clock."""
    call(1)
    n = 1
    while (seconds := _best(functools.partial(call, n))) < target_s / 8:
        n *= 8
    return max(int(n * target_s / seconds), 1)


def _best(task: Task, calls: int = 3) -> float:
    return min(alternate({"": task}, 0.0, calls=calls, foreign=lambda: 0.0).of(""))


def _bandwidth_tasks(x: Any, threads: int, together: Callable) -> dict[str, tuple]:
    parts = _parts(x, threads)
    n = sum(p.nbytes for p in parts)
    size = f"{mebi(n)} in all"
    return {"in place": (together(_add_in_place, parts), 2 * n, "B/s", f"x += s, {size}"),
            "read": (together(_read, parts), n, "B/s", f"dot of two halves, {size}")}


def _compute_tasks(threads: int, together: Callable, size: int = 1024) -> dict[str, tuple]:
    made: dict[str, tuple] = {}
    for dtype, kind in (("fp32", "float32"), ("fp64", "float64")):
        A, B, C = (aligned(size * size, kind).reshape(size, size) for _ in range(3))
        cut = [slice(size * i // threads, size * (i + 1) // threads) for i in range(threads)]

        def multiply(rows: slice, A: Any = A, B: Any = B, C: Any = C) -> None:
            np.matmul(A[rows], B, out=C[rows])

        made[f"matmul {dtype}"] = (together(multiply, cut), 2 * size**3, "FLOP/s",
                                   f"np.matmul of {size} x {size}, rows shared out")
        if numba:
            call, flops, how = _fma_task(kind)
            made[f"FMA {dtype}"] = (together(call, [None] * threads), threads * flops,
                                    "FLOP/s", how)
    return made


@functools.cache
def _fma_task(kind: str) -> tuple[Callable[[Any], None], int, str]:
    """The fastest FMA chain of this dtype: a call of some ms, its FLOPs, what it is."""
    a, b = np.dtype(kind).type(0.999), np.dtype(kind).type(0.001)  # x tends to 1: no denormals

    def call(width: int, steps: int) -> None:
        chains[width](steps, a, b, np.ones(width, kind))

    chains = _compiled()[0]
    rate = {w: w / _best(lambda w=w: call(w, 20_000)) for w in chains}  # type: ignore[misc]
    width = max(rate, key=lambda w: rate[w])
    steps = _long_enough(lambda n: call(width, 1000 * n)) * 1000
    return lambda _: call(width, steps), 2 * width * steps, f"{width} multiply-add chains"


def _roof(name: str, threads: int, rounds: Rounds, amount: int, unit: str, how: str) -> Roof:
    rates = [amount / s for s in rounds.of(name)]
    return Roof(name, threads, unit, statistics.median(rates), min(rates), max(rates),
                len(rounds.foreign), len(rounds.kept), how)


def roofs(threads: Sequence[int] | None = None, budget_s: float = 30, *,
          size: int | None = None) -> HostRoofs:
    """Measure bandwidth and compute roofs of this CPU.

    threads    thread counts; None: 1 and every core this process may use
    budget_s   about how long at most, s; quiet machines need about half of 30
    size       bytes of the large array; None: see array_bytes

    Never refuses: a noisy run says so in .provenance.noise.
    """
    counts = tuple(dict.fromkeys(threads or (1, cores())))
    x = aligned((size or array_bytes()) // 4)
    made: list[Roof] = []
    caches: list[Roof] = []
    curve: list[CurvePoint] = []
    seen: list[Rounds] = []
    part_s = budget_s / len(counts) / (4 if numba else 2)  # compiling takes a share, too
    for t in counts:
        print(f"roofs, {t} thread{'s' if t > 1 else ''}: up to {part_s * 3:.0f} s", flush=True)
        with _team(t) as together:
            tasks = _bandwidth_tasks(x, t, together) | _compute_tasks(t, together)
            seen.append(alternate({name: task[0] for name, task in tasks.items()}, part_s))
            made += [_roof(name, t, seen[-1], *task[1:]) for name, task in tasks.items()]
            if numba:
                caches += _caches(x, t, together, part_s, dram=made[-len(tasks)].value)
                curve += _measure_curve(x, t, together, part_s)
    foreign = statistics.median(share for r in seen for share in r.foreign)
    return HostRoofs(provenance(foreign, _noise(seen, made)), (*made, *caches), tuple(curve))


def _measure_curve(x: Any, t: int, together: Callable, budget_s: float) -> list[CurvePoint]:
    """The curve by turns with both roofs, so that each point has a share of its own moment's."""
    parts, loops = _parts(x, t), _compiled()[1]
    elements = sum(p.size for p in parts)
    a, b = np.float32(0.999), np.float32(0.001)
    roof = _bandwidth_tasks(x, t, together) | _compute_tasks(t, together)
    rounds = alternate({str(key): together(lambda p, loop=loop: loop(p, a, b), parts)
                        for key, loop in loops.items()}
                       | {name: roof[name][0] for name in ("in place", "FMA fp32")},
                       budget_s, want=5)
    made = []
    for fmas in sorted({k for k, _ in loops}):
        flops, shares, rates = 2 * fmas * elements, [], []
        for i in rounds.kept:
            seconds = min(rounds.seconds[str((k, w))][i] for k, w in loops if k == fmas)
            bw, peak = (roof[name][1] / rounds.seconds[name][i]
                        for name in ("in place", "FMA fp32"))
            rates.append(flops / seconds)
            shares.append(rates[-1] / min(peak, CurvePoint.per_byte(fmas) * bw))
        made.append(CurvePoint(t, fmas, statistics.median(rates), statistics.median(shares)))
    return made


def _noise(seen: Sequence[Rounds], made: Sequence[Roof] = ()) -> str:
    """What disturbed these rounds and roofs, in words; "" when nothing did."""
    said = []
    if any(r.noisy for r in seen):
        said.append(f"others took up to {max(r.share for r in seen):.0%} of the CPU")
    if moved := [r for r in made if r.high > 1.25 * r.low]:
        worst = max(moved, key=lambda r: r.high / r.low)
        said.append(f"{worst.name} moved {worst.high / worst.low:.2f}x between rounds")
    if said:
        return f"noisy: {', '.join(said)}; trust ratios only"
    dropped = sum(len(r.foreign) - len(r.kept) for r in seen)
    return f"{dropped} disturbed round{'s' if dropped > 1 else ''} dropped" if dropped else ""


# ---- bandwidth against size --------------------------------------------------------------

def _sizes(least: int, most: int, per_octave: int = 1) -> list[int]:
    """Array sizes in bytes from `least` up to `most`, whole KiB."""
    steps = int(np.log2(most / least) * per_octave + 1e-9)
    return [round(least * 2 ** (i / per_octave) / 1024) * 1024 for i in range(steps + 1)]


def _compiled_passes(x: Any, size: int, threads: int, together: Callable) -> tuple[Task, int]:
    """Passes of the compiled x += s over `size` bytes: a call of some ms, passes in it."""
    loop, parts = _compiled()[2], _parts(x[:size // 4], threads)
    times = _long_enough(lambda n: together(lambda p: loop(n, ONE, p), parts)(), 3e-3)
    return together(lambda p: loop(times, ONE, p), parts), times


def plateaus(rates: Sequence[float]) -> list[list[int]]:
    """Runs of sizes that reach the same rate, smallest sizes first; each a list of indices.

    A run ends where the rate falls below 0.8 of the run's median; fewer than three sizes
    are the way from one level to the next, not a level.
    """
    runs = [[0]]
    for i, rate in enumerate(rates[1:], start=1):
        if rate < 0.8 * statistics.median(rates[j] for j in runs[-1]):
            runs.append([])
        runs[-1].append(i)
    return [run for run in runs if len(run) >= 3]


def _caches(x: Any, t: int, together: Callable, budget_s: float, dram: float) -> list[Roof]:
    """Cache levels as the sweep shows them: named in order, L1 first; `dram` B/s left out.

    Two levels of equal rate count as one. Sizes are of the whole array, all threads.
    """
    sizes = _sizes(8192 * t, x.nbytes, per_octave=2)
    passes = {str(n): _compiled_passes(x, n, t, together) for n in sizes}
    rounds = alternate({n: p[0] for n, p in passes.items()}, budget_s, want=5)
    rates = {n: [2 * int(n) * passes[n][1] / s for s in rounds.of(n)] for n in passes}
    middle = [statistics.median(r) for r in rates.values()]
    beyond = 1.25 * max(dram, *middle[-3:])  # the largest arrays are in DRAM
    levels = [run for run in plateaus(middle) if middle[run[len(run) // 2]] > beyond]
    return [Roof(f"cache to {mebi(sizes[run[-1]])}", t, "B/s",
                 statistics.median(middle[j] for j in run), min(middle[j] for j in run),
                 max(middle[j] for j in run), len(rounds.foreign), len(rounds.kept),
                 f"in cache: x += s, arrays to {mebi(sizes[run[-1]])}")
            for run in levels]


def sweep(budget_s: float = 8, *, most: int | None = None) -> Sweep:
    """Time x += s in place for arrays of 4 KiB and up, one thread.

    most   bytes of the largest array; None: see array_bytes
    """
    print(f"sweep over array sizes: up to {budget_s:.0f} s", flush=True)
    x = aligned((most or array_bytes()) // 4)

    def calls(n: int, part: Any) -> None:
        for _ in range(n):
            np.add(part, ONE, out=part)

    tasks: dict[str, Task] = {}
    times: dict[str, int] = {}
    with _team(1) as together:
        for size in _sizes(4096, x.nbytes):
            part, name = x[:size // 4], str(size)
            times[name] = _long_enough(lambda n, part=part: calls(n, part), 2e-3)  # type: ignore[misc]
            tasks[name] = lambda n=times[name], part=part: calls(n, part)  # type: ignore[misc]
            if numba:
                tasks[name + "c"], times[name + "c"] = _compiled_passes(x, size, 1, together)
        rounds = alternate(tasks, budget_s * 0.7, want=7)
    each = {name: statistics.median(rounds.of(name)) / times[name] for name in tasks}
    return Sweep(tuple(SweepPoint(int(name), each[name], each.get(name + "c", 0.0))
                       for name in tasks if name.isdigit()), _noise([rounds]))


# ---- kernels under the roofs -------------------------------------------------------------

def kernels(budget_s: float = 25, sizes: Sizes | None = None) -> Kernels:
    """Check every kernel against NumPy, then time it by turns with the roofs, one thread.

    sizes   shapes; None: vectors half as long as the roofs' array
    Raises AssertionError naming a kernel that computes something else than NumPy.
    """
    for case in cases(SMALL).values():
        case.check()
    n = array_bytes() // 8
    made = cases(sizes or Sizes(n=n))
    print(f"kernels, {len(made)} of them: up to {budget_s:.0f} s", flush=True)
    x = aligned(2 * (sizes.n if sizes else n))
    runs, seen = [], []
    with _team(1) as together:
        roof = _bandwidth_tasks(x, 1, together) | _compute_tasks(1, together)
        peak = "FMA fp32" if numba else "matmul fp32"
        tasks = {name: roof[name][0] for name in ("in place", "read", peak)}
        for case in made.values():
            rounds = alternate({case.name: case.run} | tasks, budget_s * 0.8 / len(made),
                               want=5, calls=2)
            rates = [{name: roof[name][1] / rounds.seconds[name][i] for name in tasks}
                     for i in rounds.kept]
            seen.append(rounds)
            runs.append(_placed(case, rounds, [(r["in place"], r["read"], r[peak])
                                               for r in rates]))
    return Kernels(tuple(runs), _noise(seen))


def _placed(case: Case, rounds: Rounds, roofs: Sequence[tuple[float, float, float]]) -> KernelRun:
    """A kernel's run against the roofs (in place, read, peak) of its own rounds."""
    W, Q = case.op.flops, case.op.algorithmic.hbm_bytes
    moved, seconds = case.moved, rounds.of(case.name)
    best = [max(W / peak, Q / max(rw, read)) for rw, read, peak in roofs]
    model = [max(W / peak, moved.hbm_read_bytes / read, moved.hbm_bytes / max(rw, read))
             for rw, read, peak in roofs]
    return KernelRun(
        case.name, W, Q, moved.hbm_bytes, statistics.median(seconds), min(seconds), max(seconds),
        statistics.median(b / s for b, s in zip(best, seconds, strict=True)),
        statistics.median(m / s for m, s in zip(model, seconds, strict=True)),
        len(rounds.foreign), len(rounds.kept), case.why)


# ---- whose figures, and where they are kept ----------------------------------------------

def provenance(foreign: float, noise: str) -> Provenance:
    blas = ", ".join(f"{lib['internal_api']} {lib['version']} ({lib['architecture']})"
                     for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"
                     if "architecture" in lib)
    return Provenance("measured", _cpu(), cores(), _system(), platform.python_version(),
                      np.__version__, blas or "BLAS whose threads cannot be set",
                      numba.__version__ if numba else "",
                      f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", foreign, noise)


def _cpu() -> str:
    name = ""
    try:
        if platform.system() == "Linux":
            lines = Path("/proc/cpuinfo").read_text().splitlines()
            name = next((ln.split(":", 1)[1] for ln in lines if ln.startswith("model name")), "")
        elif platform.system() == "Darwin":
            name = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], text=True,
                                  capture_output=True, timeout=5, check=False).stdout
    except OSError:
        pass
    core = ""
    if numba:
        from llvmlite import binding  # type: ignore[import-untyped]

        core = binding.get_host_cpu_name()  # numba's compiler knows the core
    name = name.strip() or platform.processor() or platform.machine()
    return f"{name} ({core})" if core and core != "generic" else name


def _system() -> str:
    release = ".".join(platform.release().split(".")[:2])
    try:
        virtual = " hypervisor" in Path("/proc/cpuinfo").read_text()
    except OSError:
        virtual = False
    return f"{platform.system()} {release} {platform.machine()}" + (
        ", virtual machine" if virtual else "")


def measure(patience: float = 1) -> HostRun:
    """Roofs, kernels and sweep of this CPU, one after the other; saves nothing.

    patience   multiplies the time that each may wait for quiet moments
    """
    return HostRun(roofs(budget_s=30 * patience), kernels(25 * patience), sweep(8 * patience))


def run() -> HostRun:
    """What the pages show: this CPU, measured now and saved, or the recording that ships.

    ROOFLINE_RECORDED=1 in the environment replays; a line says which it was, and whose.
    Raises RecordingError when the recording that ships is missing or bad.
    """
    book = root()
    if os.environ.get("ROOFLINE_RECORDED") == "1":
        got = load((book or Path()) / RECORDED)
        print(f"recorded on {got.roofs.provenance.label}; not your machine: "
              "run this page in JupyterLab to measure yours")
        return got
    got = measure()
    name = f"host-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{os.getpid()}.json"
    own = [book / "work" / "recorded"] if book else []
    for folder in (*own, Path(tempfile.gettempdir()) / "roofline-recorded"):
        try:
            save(got, folder / name)
        except RecordingError as error:
            print(error)
            continue
        place = f"work/recorded/{name}" if folder in own else f"{folder / name} (temporary!)"
        print(f"measured on this machine, {got.roofs.provenance.label}; saved as {place}")
        return got
    print("measured on this machine; not saved: the figures are in this notebook only")
    return got


def latest() -> HostRun:
    """The newest recording of this CPU under work/recorded; `run()` where there is none.

    For pages that look at a run again: measuring takes about a minute. ROOFLINE_RECORDED=1 replays
    what ships, as there.
    """
    book = root()
    if book and os.environ.get("ROOFLINE_RECORDED") != "1":
        for path in sorted((book / "work" / "recorded").glob("host-*.json"), reverse=True):
            with contextlib.suppress(RecordingError):  # a bad file is for its owner to look at
                got = load(path)
                if got.roofs.provenance.cpu == _cpu():
                    print(f"measured on this machine before, {got.roofs.provenance.label}; "
                          f"from work/recorded/{path.name}. host.run() measures anew")
                    return got
    return run()
