"""Day 3: P and BW from the docs.

Question  what does the architecture guide entitle a NeuronCore to, and what takes it away?
Answer    PROBLEMS, in the page's order; ids begin with day3.
Assumes   one Trainium1 NeuronCore unless said; every constant is `machine`'s
Ignores   what a run measures (Day 4), bytes that come back (Day 5), Trainium2 (Day 6)
"""

from collections.abc import Iterator, Mapping
from functools import partial

from .. import machine
from ..check import AnyPart, Choice, Follow, Part, collect, problem
from ..units import show

flop, byte, time, rate, band, per_byte = (
    partial(show, unit=unit, digits=4)
    for unit in ("FLOP", "B", "s", "FLOP/s", "B/s", "FLOP/B"))

CORE = machine.trn1
ROWS, COLUMNS, FLOOR, FAST, N_MAX = (int(CORE.facts[name].value) for name in (
    "tensor_array_rows", "tensor_array_columns", "matmul_min_initiation_interval",
    "fast_load_stationary_speedup", "gemm_moving_fmax"))
PES, CLOCK, PEAK = ROWS * COLUMNS, CORE.facts["tensor_clock"].value, CORE.peak("bf16")
QUARTER = CORE.peak("fp32") / PEAK  # the share of the peak that fp32 inputs reach

ONE_FLOP = "a multiply-add counted as one FLOP"
SHARE = ", as a fraction or in %"


def _fits(K: int = 1, M: int = 1, N: int = 1) -> None:
    """Raises ValueError for a tile that one matmul instruction does not take."""
    for name, size, most in (("K", K, ROWS), ("M", M, COLUMNS), ("N", N, N_MAX)):
        if size > most:
            raise ValueError(f"{name} may be at most {most} in one instruction, got {size:,}")


def _others(right: str, reasons: Mapping[str, str]) -> dict[str, str]:
    return {key: reason for key, reason in reasons.items() if key != right}


# --- the clockwork ------------------------------------------------------------------------------

ARRAY = f"an array of {ROWS} × {COLUMNS} PEs"
BACK_TO_BACK = "Many matmuls run back to back, bf16, their weights always in place. "


@problem(
    "day3.clock.lone",
    ask=f"One matmul runs alone on {ARRAY}, its weights in place: K = {{K}}, M = {{M}}, N = {{N}}. "
        "Moving column n meets the PE in row k and column m at cycle n + k + m; n, k, m and the "
        "cycles count from 0. How many cycles is it from the start until the last multiply-add is "
        "done? How many multiply-adds are done? Which share is that of what all PEs could do in "
        "these cycles?",
    fixed=dict(K=128, M=128, N=512),
    draw=lambda r: dict(K=r.choice((32, 48, 64, 96, 128)), M=r.choice((32, 48, 64, 96, 128)),
                        N=r.choice((96, 192, 256, 320, 384, 448, 512))))
def clock_lone(K: int, M: int, N: int) -> Iterator[AnyPart]:
    _fits(K, M, N)
    cycles, macs = N + K + M - 2, K * M * N
    yield Part("cycles", cycles, "cycle", f"(N - 1) + (K - 1) + (M - 1) + 1 = {N} + {K} + {M} - 2",
               {"N alone, as if every PE began at once": N,
                "the way down the rows alone: the columns lie behind each other too": N + K - 1,
                "the way along the columns alone: the rows lie below each other too": N + M - 1,
                "each moving column kept back until the one before has left": N * (K + M - 1)},
               label="Cycles of the lone matmul")
    yield Part("macs", macs, "", f"K M N = {K} × {M} × {N}",
               {"FLOPs, two for each multiply-add": 2 * macs,
                "K left out: a result takes K multiply-adds": M * N,
                "one moving column, not all N": K * M,
                "all PEs taken to be busy in every cycle": PES * cycles},
               label="Multiply-adds")
    yield Part("share", macs / (PES * cycles), "",
               f"K M N / (PEs × cycles) = {macs:,} / ({PES:,} × {cycles:,})",
               {"FLOPs over PE cycles: a PE does one multiply-add a cycle": 2 * macs / PES / cycles,
                "the PEs in use alone, with no cycle to fill and to drain": K * M / PES,
                "the ratio upside down": PES * cycles / macs},
               label="Share of the PEs' cycles" + SHARE,
               follows=("/", "macs", ("*", PES, "cycles")),
               extra={"the idle share": 1 - macs / (PES * cycles)})


def _back_to_back(name: str, K: int, N: int, label: str, shares: tuple[Follow, ...] = ()) -> Part:
    """The rate of K × 128 weights and N columns, back to back and bf16."""
    used, busy = K / ROWS, N / max(N, FLOOR)
    given = [f"{K} / {ROWS}"] * (K < ROWS) + [f"{N} / {FLOOR}"] * (N < FLOOR)
    return Part(name, PEAK * used * busy, "FLOP/s",
                f"P × share = {' × '.join([rate(PEAK), *given])}",
                {ONE_FLOP: PEAK * used * busy / 2,
                 "the peak, as if nothing were lost": PEAK,
                 "fp32's peak in place of bf16's": PEAK * QUARTER * used * busy,
                 "PEs or cycles lost are multiplied, not divided": PEAK / used / busy},
                label=label, follows=("*", PEAK, *shares) if shares else None)


@problem(
    "day3.clock.small",
    ask=BACK_TO_BACK + f"A matmul starts every max(N, {FLOOR}) cycles; the clock is "
        f"{show(CLOCK, 'Hz')}. With K = {{K}}, M = {COLUMNS} and N = {N_MAX}: which share of the "
        f"PEs works, and at which rate does the engine run? With K = {ROWS}, M = {COLUMNS} and "
        "N = {N}: how many cycles apart do two starts lie, and at which rate does it run?",
    fixed=dict(K=64, N=32),
    draw=lambda r: dict(K=r.choice((16, 24, 32, 40, 48, 80, 96, 112)),
                        N=r.choice((8, 16, 24, 40, 48))))
def clock_small(K: int, N: int) -> Iterator[AnyPart]:
    _fits(K, 1, N)
    if K == ROWS or N >= FLOOR:
        raise ValueError(f"K has to be below {ROWS} and N below {FLOOR}")
    yield Part("used", K / ROWS, "", f"K / {ROWS} = {K} / {ROWS}",
               {"the idle share of K and N together": 1 - K / ROWS * N / FLOOR,
                "the ratio upside down": ROWS / K,
                "both sides of the array cut, not the rows alone": (K / ROWS) ** 2},
               label="Share of PEs at work" + SHARE, extra={"the idle share": 1 - K / ROWS})
    yield _back_to_back("rate_K", K, N_MAX, f"Rate, K = {K}, N = {N_MAX}", ("used",))
    yield Part("apart", FLOOR, "cycle", f"max(N, {FLOOR}) = max({N}, {FLOOR})",
               {"the floor left out: N alone": N, "the floor added to N": N + FLOOR,
                "the cycles of a lone matmul, which do not repeat": N + ROWS + COLUMNS - 2},
               label="Cycles between starts")
    yield _back_to_back("rate_N", ROWS, N, f"Rate, K = {ROWS}, N = {N}")


@problem(
    "day3.clock.load",
    ask=f"Back to back, every matmul brings new weights, K = {ROWS}, M = {{M}}, bf16. They load "
        f"{FAST} columns a cycle. Find the cycles of a load. With N = {{N}}, how far apart do "
        "starts lie if the load hides behind the matmul before, and how far if it does not "
        "(shown)? Which rate does that leave with the load shown? Which interval and rate with N "
        "= {short} and the load shown?",
    fixed=dict(M=128, N=512, short=128),
    draw=lambda r: dict(M=r.choice((64, 80, 96, 112, 128)), N=r.choice((320, 384, 448, 512)),
                        short=r.choice((72, 80, 96, 128, 144, 160))))
def clock_load(M: int, N: int, short: int) -> Iterator[AnyPart]:
    _fits(1, M, N)
    _fits(1, M, short)
    if N <= short:
        raise ValueError("N has to be above short")
    load, hidden = M / FAST, max(N, FLOOR, M / FAST)
    yield Part("load", load, "cycle", f"M / {FAST} = {M} / {FAST}",
               {"one column a cycle, as a matmul takes them": M, "a row a cycle, K of them": ROWS,
                "the factor multiplied, not divided": M * FAST,
                "the cycles of the moving tile": N}
               if M != ROWS else
               {"one column or row a cycle, as a matmul takes them": M,
                "the factor multiplied, not divided": M * FAST,
                "every weight a cycle of its own": M * ROWS}, label="Cycles of a load")
    yield Part("hidden", hidden, "cycle", f"max(N, {FLOOR}, load) = max({N}, {FLOOR}, {load:g})",
               {"the load added: that is when it shows": hidden + load,
                "a load of one column a cycle, and added": hidden + M,
                "the cycles of a lone matmul, which do not repeat": N + M + ROWS - 2,
                "the load alone: the matmul takes longer": load}, label="Interval, load hidden")
    for name, n, label in (("shown", N, f"N = {N}"), ("shown_short", short, f"N = {short}")):
        busy = max(n, FLOOR)
        apart = busy + load
        yield Part(name, apart, "cycle", f"max(N, {FLOOR}) + load = max({n}, {FLOOR}) + {load:g}",
                   {"the load left out, as if hidden": busy,
                    "a load of one column a cycle": busy + M,
                    "the load alone": load,
                    "the cycles of a lone matmul, which do not repeat": n + M + ROWS - 2},
                   label=f"Interval, load shown, {label}", follows=("+", busy, "load"))
        left = PEAK * M / COLUMNS * n / apart
        sides = f" × {M} / {COLUMNS}" * (M < COLUMNS)
        yield Part(name.replace("shown", "rate"), left, "FLOP/s",
                   f"P × N / interval = {rate(PEAK)}{sides} × {n} / {apart:g}",
                   {ONE_FLOP: left / 2,
                    "the load left out, as if hidden": PEAK * M / COLUMNS * n / busy,
                    "a load of one column a cycle": PEAK * M / COLUMNS * n / (busy + M),
                    "the ratio upside down": PEAK * M / COLUMNS * apart / n},
                   label=f"Rate, load shown, {label}",
                   follows=("/", PEAK * M / COLUMNS * n, name))


@problem(
    "day3.clock.where",
    ask="Where do the PE cycles go that do no multiply-add? (a) One matmul alone, K = M = "
        f"{ROWS}, N = {N_MAX}. (b) Matmuls back to back, K = {ROWS // 2}, M = {COLUMNS}, N = "
        f"{N_MAX}. (c) Back to back, K = M = {ROWS}, N = {FLOOR // 2}. (d) K = M = {ROWS}, N = "
        f"{N_MAX}, each with new weights that load after the matmul before has gone in. And why "
        "do matmuls back to back not pay (a) each time?")
def clock_where() -> Iterator[AnyPart]:
    causes = {"fill": "the array fills and drains", "rows": "rows that hold no weight",
              "floor": "the wait for the next start", "load": "the wait for weights"}
    cases = {
        "lone": ("fill", "(a) One alone", "The corner PE has its first value after K + M - 2 "
                 "cycles, and the first PE has none for as long at the end.",
                 {"rows": "K and M fill the array.", "floor": "N is far above the floor.",
                  "load": "One set of weights, and it is in place."}),
        "half": ("rows", "(b) K half of the rows", "The lower rows have no weight: half of the "
                 "PEs do nothing in any cycle.",
                 {"fill": "Back to back, the next matmul fills what the last one drains.",
                  "floor": "N is far above the floor.",
                  "load": "Only the number of rows differs from a full matmul."}),
        "short": ("floor", "(c) N half of the floor", "The columns are in after half of the "
                  "floor; then no column enters until the next start.",
                  {"fill": "Back to back, the next matmul fills what the last one drains.",
                   "rows": "K and M fill the array.",
                   "load": "The weights are in place; the next start is what is late."}),
        "weights": ("load", "(d) Loads shown", "No column enters while the new weights go in.",
                    {"fill": "The last columns still drain while the load goes on; look at "
                             "what keeps the next ones from entering.",
                     "rows": "K and M fill the array.", "floor": "N is far above the floor."}),
    }
    for name, (right, label, why, slips) in cases.items():
        yield Choice(name, right, causes, why, slips, label=label)
    yield Choice("repeat", "behind",
                 {"behind": "the next one's first column enters right behind the last column",
                  "faster": "a matmul that follows another runs at a higher clock",
                  "rows": "the next one takes rows that the first never used",
                  "psum": "its results stay in the array and are not drained"},
                 "While the last columns move down and across, the first PEs already work for the "
                 "next matmul. Filling and draining is paid once for all.",
                 {"faster": "The clock is the same.",
                  "rows": "A full matmul uses every row.",
                  "psum": "Each sum leaves below the last row, one column after another."},
                 label="Why not paid each time?")


PROBLEMS = collect(globals())
