"""Day 6: the Trainium2 entitlement sheet.

Question  which roof is this figure a figure of, and which one does my scope have?
Answer    PROBLEMS, in the page's order; ids begin with day6.
Assumes   one NeuronCore-v3 unless said; figures as `machine` has them, rivals beside them
Ignores   measured roofs (Day 4) and profiles (Day 7)
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from .. import machine
from ..check import AnyPart, Choice, Part, collect, problem
from ..ops import BYTES, Linear, Matmul
from ..units import mebi, show
from . import day1, day2
from .day3 import ONE_FLOP
from .day5 import ELEMENTS, in_tiles

flop, byte, time, rate, band, clock_, per_byte, element = (
    partial(show, unit=unit, digits=4)
    for unit in ("FLOP", "B", "s", "FLOP/s", "B/s", "Hz", "FLOP/B", "element/s"))

CORE = machine.trn2
PAIR, DEVICE = CORE.at("lnc2"), CORE.at("device")
FACTS = {name: spec.value for name, spec in {**DEVICE.facts, **CORE.facts}.items()}
ROWS, COLUMNS, TILE, WIDE, BANKS, BANK, ENGINES, VECTOR, VECTOR_FP32, SCALAR, CORES = (
    int(FACTS[name]) for name in (
        "tensor_array_rows", "tensor_array_columns", "pmax", "gemm_moving_fmax",
        "psum_num_banks", "psum_bank_fmax", "dma_engines", "vector_width.bf16",
        "vector_width.fp32", "scalar_width", "cores"))
CLOCKS = {"clock": FACTS["tensor_clock"], "vector_clock": FACTS["vector_clock"],
          "scalar_clock": FACTS["scalar_clock"]}
GPSIMD = int(FACTS["gpsimd_processors"] * FACTS["gpsimd_lanes"])  # elements a cycle
FLOOR = int(machine.trn1.facts["matmul_min_initiation_interval"].value)  # cycles
P, BW = CORE.peak("bf16"), CORE.bw()
P_BF16, FP32 = BYTES["bf16"], BYTES["fp32"]
QUARTER, DOUBLE = round(P / CORE.peak("fp32")), round(CORE.peak("fp8") / P)

UPSIDE_DOWN = "the ratio upside down"


def _rivals() -> dict[str, float]:
    """What other sources say of a core's HBM bandwidth, and what its DMA engines carry, in B/s.

    The smallest first: the ridge of 358 GB/s is within 2 % of that of 362.5 GB/s.
    """
    others = (*CORE.bandwidths["HBM"].rivals, replace(CORE.bandwidths["DMA"], rivals=()))
    return {f"BW = {spec.text} ({spec.source})": spec.value
            for spec in sorted(others, key=lambda spec: spec.value)}


def _intensity(W: int, Q: int, name: str, label: str, Q_name: str,
               slips: Mapping[str, float]) -> Part:
    return Part(name, W / Q, "FLOP/B", f"W / Q = {flop(W)} / {byte(Q)}",
                {"the ratio upside down: bytes over FLOPs": Q / W, ONE_FLOP: W / 2 / Q,
                 "divided by elements, not by bytes": P_BF16 * W / Q, **slips},
                label=label, follows=("/", W, Q_name))


# --- openers ------------------------------------------------------------------------------------

open_bound = replace(
    day1.bound, id="day6.open.bound",
    ask="Day 1. A machine with P = {P} and BW = {BW} runs a kernel with W = {W} and Q = {Q}. Find "
        "its intensity I, the ridge, the roof that binds, the time with full overlap (T_best), the "
        "time with none (T_worst) and the entitled rate W / T_best.",
    fixed=dict(P=60e12, BW=250e9, W=18e9, Q=90e6),
    draw=lambda r: dict(P=60e12, BW=250e9, W=r.choice((3e9, 6e9, 9e9, 27e9, 45e9, 72e9)),
                        Q=r.choice((45e6, 75e6, 120e6, 180e6, 300e6))))


@problem(
    "day6.open.layer",
    ask="Day 2. x ({B} × {D}) times weights ({D} × {F}) gives y, all in bf16; each number crosses "
        "once. Find Q and I. On a machine with ridge {ridge}, from which number of tokens B on is "
        "this layer compute-bound?",
    fixed=dict(B=96, D=3072, F=3072, ridge=140.0), units=dict(ridge="FLOP/B"),
    draw=lambda r: dict(B=r.choice((48, 80, 160, 320)), D=r.choice((1536, 2048, 2560)),
                        F=r.choice((3072, 5120)), ridge=r.choice((90.0, 110.0, 180.0))))
def open_layer(B: int, D: int, F: int, ridge: float) -> Iterator[AnyPart]:
    op = Linear(B, D, F)
    W, Q, cross = op.flops, op.algorithmic.hbm_bytes, op.crossover(ridge)
    if not op.crossover(2 * ridge) < 10**9:
        raise ValueError("no batch of this layer reaches twice the ridge")
    yield Part("Q", Q, "B", f"p (B D + D F + B F) = {P_BF16} bytes × ({B:,} × {D:,} + {D:,} × "
               f"{F:,} + {B:,} × {F:,})",
               {"the weights left out": Q - P_BF16 * D * F, ELEMENTS: Q / P_BF16,
                "4 bytes a number, as in fp32": 2 * Q,
                "the weights fetched for every token": Q + (B - 1) * P_BF16 * D * F})
    yield _intensity(W, Q, "I", "", "Q", {"the weights left out": W / (Q - P_BF16 * D * F)})
    yield Part("B_ridge", cross, "", f"ridge p D F / (2 D F - ridge p (D + F)) = {ridge:g} × "
               f"{P_BF16} × {D:,} × {F:,} / (2 × {D:,} × {F:,} - {ridge:g} × {P_BF16} × ({D:,} + "
               f"{F:,}))",
               {"x and y left out: I is near B only while B is small": ridge,
                ELEMENTS: op.crossover(ridge / 2), ONE_FLOP: op.crossover(2 * ridge),
                "the ridge doubled for two bytes a number": 2 * ridge},
               label="Tokens at the ridge")


@problem(
    "day6.open.array",
    ask="Day 3. A Trn1 core has P = {P} in bf16 at {clock}; back-to-back matmuls start every "
        "max(N, {floor}) cycles. What rate is left with K = {K} rows of its 128 × 128 array in use "
        "and N = 512? What is left with K = 128 and N = {N}? How long does each of those last "
        "matmuls take?",
    fixed=dict(P=machine.trn1.peak("bf16"), clock=machine.trn1.facts["tensor_clock"].value,
               floor=FLOOR, K=96, N=16), units=dict(P="FLOP/s", clock="Hz"),
    draw=lambda r: dict(K=r.choice((16, 32, 48, 80, 112)), N=r.choice((8, 12, 24, 40, 48))))
def open_array(P: float, clock: float, floor: int, K: int, N: int) -> Iterator[AnyPart]:
    if K > ROWS or N > WIDE:
        raise ValueError(f"K is at most {ROWS} and N at most {WIDE}")
    cycles = max(N, floor)
    short = P * N / cycles
    yield Part("rows", P * K / ROWS, "FLOP/s", f"P × K / 128 = {rate(P)} × {K} / 128",
               {"the whole array taken: rows without data do nothing": P,
                "rows and columns both cut": P * (K / ROWS)**2,
                "the rows that idle, not those in use": P * (ROWS - K) / ROWS},
               label="Rate with few rows")
    yield Part("short", short, "FLOP/s", f"P × N / max(N, {floor}) = {rate(P)} × {N} / "
               f"max({N}, {floor})",
               {"no least number of cycles: an instruction takes N": P,
                "N over 512, the longest moving tile": P * N / WIDE,
                "N over 128, as if it were rows": P * N / ROWS},
               label="Rate with short moving tiles")
    yield Part("t", cycles / clock, "s", f"max(N, {floor}) / clock = max({N}, {floor}) / "
               f"{clock_(clock)}",
               {"no least number of cycles: an instruction takes N": N / clock,
                "the full 512 columns": WIDE / clock, "the 128 of K in place of N": ROWS / clock},
               label="Time of one such matmul")


@problem(
    "day6.open.reuse",
    ask="Day 5. C = A B in bf16 with M = {M}, K = {K}, N = {N}. The mapping loads A {r_A} times "
        "and B {r_B} times; C is written once. Find Q. How many bytes less would it be if every "
        "tensor crossed once? What would that change: W, Q, or both?",
    fixed=dict(M=1024, K=512, N=3072, r_A=6, r_B=2),
    draw=lambda r: dict(M=r.choice((768, 1280, 1536)), K=r.choice((384, 640)),
                        N=r.choice((2048, 2560)), r_A=r.choice((3, 4, 5)), r_B=r.choice((2, 6, 8))))
def open_reuse(M: int, K: int, N: int, r_A: int, r_B: int) -> Iterator[AnyPart]:
    op = Matmul(M, K, N)
    Q, least = op.reloaded(r_A, r_B).hbm_bytes, op.algorithmic.hbm_bytes
    if r_A == r_B == 1:
        raise ValueError("r_A or r_B has to be above 1")
    yield Part("Q", Q, "B", f"p (r_A M K + r_B K N + M N) = {P_BF16} bytes × ({r_A} × {M:,} × "
               f"{K:,} + {r_B} × {K:,} × {N:,} + {M:,} × {N:,})",
               {"each tensor loaded once": least, ELEMENTS: Q / P_BF16,
                "r_A and r_B swapped": op.reloaded(r_B, r_A).hbm_bytes,
                "C left out, though its store crosses": Q - P_BF16 * M * N})
    yield Part("less", Q - least, "B", f"Q - p (M K + K N + M N) = {byte(Q)} - {byte(least)}",
               {"the least Q, not the difference": least, "Q itself, not the difference": Q,
                ELEMENTS: (Q - least) / P_BF16}, label="Bytes less", follows=("+", "Q", -least))
    yield Choice("changes", "Q", {"Q": "Q alone", "W": "W alone", "both": "both"},
                 "W is in the shapes. Which bytes cross again is in the loops.",
                 {"W": "No multiply-add is saved: a reload moves bytes.",
                  "both": "No multiply-add is saved: a reload moves bytes."},
                 label="What would it change?")


# --- P ------------------------------------------------------------------------------------------

@problem(
    "day6.peak",
    ask="A Tensor Engine has {rows} × {columns} PEs at {clock}; each does one bf16 multiply-add a "
        "cycle. An fp32 matmul costs as much as {quarter} bf16 ones. In fp8 the array does "
        "{double} multiply-adds a PE and cycle (double-row mode). Find P in bf16, fp32 and fp8.",
    fixed=dict(rows=ROWS, columns=COLUMNS, clock=CLOCKS["clock"], quarter=QUARTER, double=DOUBLE),
    units=dict(clock="Hz"),
    draw=lambda r: dict(rows=r.choice((32, 64, 256)), columns=r.choice((64, 128, 256)),
                        clock=r.choice((1.1e9, 1.4e9, 1.8e9, 2.1e9, 2.8e9))))
def peak(rows: int, columns: int, clock: float, quarter: int, double: int) -> Iterator[AnyPart]:
    top = 2 * rows * columns * clock
    yield Part("bf16", top, "FLOP/s", f"rows × columns × 2 × clock = {rows} × {columns} × 2 × "
               f"{clock_(clock)}",
               {ONE_FLOP: top / 2, "one side of the array left out": top / columns,
                f"all {CORES} cores taken, not one": CORES * top,
                "the Vector Engine's clock": 2 * rows * columns * CLOCKS["vector_clock"]},
               label="P in bf16")
    yield Part("fp32", top / quarter, "FLOP/s", f"P(bf16) / {quarter} = {rate(top)} / {quarter}",
               {"bf16's rate: fp32 takes several passes": top,
                "halved, as if only the bytes counted": top / 2,
                "the P of two cores": 2 * top / quarter,
                ONE_FLOP: top / quarter / 2},
               label="P in fp32", follows=("/", "bf16", quarter))
    yield Part("fp8", top * double, "FLOP/s", f"{double} × P(bf16) = {double} × {rate(top)}",
               {"bf16's rate: double-row mode left out": top,
                "the sparse rate, four times that of bf16": 4 * top,
                "divided, not multiplied: fewer bits go faster": top / double},
               label="P in fp8", follows=("*", "bf16", double))


def _round(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")


DOUBLED = [peak_ for peak_ in (2 * ROWS * COLUMNS * tenths * 1e8 for tenths in range(11, 40))
           if abs(_round(peak_, 3) - peak_) > 1e9 and abs(_round(peak_, 2) - peak_) > 1e11]


@problem(
    "day6.twice",
    ask="One core has P = {P}. Two of them make a logical core. What is its P? Someone rounds one "
        "core to three digits first and then doubles: how far from that P do they land? A guide "
        "that prints two digits a core and doubles those: how far does it land?",
    fixed=dict(P=P), units=dict(P="FLOP/s"), draw=lambda r: dict(P=r.choice(DOUBLED)))
def twice(P: float) -> Iterator[AnyPart]:
    pair, three, two = 2 * P, 2 * _round(P, 3), 2 * _round(P, 2)
    apart, wide = abs(pair - three), abs(pair - two)
    if apart < 1e-9 * pair or wide < 1e-9 * pair:
        raise ValueError("P has to have more than three digits")
    shown = _round(pair, 4), _round(pair, 5)  # 157.3 and 157.29
    cut, whole = f"{three / 2e12:g}", f"{two / 2e12:g}"  # 78.6 and 79

    def near(end: float, off: float) -> tuple[float, ...]:
        return tuple(got for value in shown if 0.8 < (got := abs(value - end)) / off < 1.25)

    page = (P == CORE.peak("bf16")) * ("\nA form takes what is within 1 %, so 158 passes it too. "
                                       "It is still no product; see the last part.")
    yield Part("pair", pair, "FLOP/s", f"2 × P = 2 × {show(P, 'FLOP/s', digits=6)}{page}",
               {"one core's P": P, f"all {CORES} cores": CORES * P,
                "doubled twice": 4 * P}, label="P of the pair")
    yield Part("apart", apart, "FLOP/s",
               f"|2 × P - 2 × P in three digits| = {show(max(pair, three), 'FLOP/s', digits=8)} - "
               f"{show(min(pair, three), 'FLOP/s', digits=8)}",
               {"one core's rounding, not that of both": apart / 2,
                "two digits kept, not three": wide,
                f"the rounding of {CORES} cores": 4 * apart},
               also=near(three, apart), label="Off after three digits")
    yield Part("wide", wide, "FLOP/s",
               f"|2 × P in two digits - 2 × P| = {show(max(pair, two), 'FLOP/s', digits=8)} - "
               f"{show(min(pair, two), 'FLOP/s', digits=8)}",
               {"one core's rounding, not that of both": wide / 2,
                "three digits kept, not two": apart,
                f"the rounding of {CORES} cores": 4 * wide},
               also=near(two, wide), label="Off after two digits")
    yield Choice("keep", "clock",
                 {"clock": "the product with the clock in full, rounded once at the end",
                  "three": "twice the three digits that the page shows",
                  "guide": "twice the guide's two digits: it is documented"},
                 f"Round last. Twice {cut} TFLOP/s is {three / 1e12:g}, a rounding doubled. The "
                 f"product of array and clock, doubled, is {pair / 1e12:.6g}.",
                 {"three": f"{cut} was cut for the eye; doubling doubles what was cut.",
                  "guide": f"{whole} is {P / 1e12:.6g} rounded, and {two / 1e12:g} is that "
                           "rounding twice over."},
                 label="Which P belongs on the sheet?")


# --- matmul issue, the throttle -------------------------------------------------------------------

@problem(
    "day6.issue",
    ask="Back-to-back bf16 matmuls on one Trn2 core, P = {P} at {clock}: K = {K} rows of the array "
        "in use, all 128 columns, and N = {N} columns in the moving tile. Suppose that the rule of "
        "the Trn1 guide holds here too: a start every max(N, {floor}) cycles. How long does one "
        "take, and at what rate do they run? And at what rate if nothing limits them but N? What "
        "is the rule's standing on Trn2?",
    fixed=dict(P=P, clock=CLOCKS["clock"], K=64, N=40, floor=FLOOR),
    units=dict(P="FLOP/s", clock="Hz"),
    draw=lambda r: dict(K=r.choice((32, 48, 96, 112)), N=r.choice((16, 20, 24, 28, 32, 44))))
def issue(P: float, clock: float, K: int, N: int, floor: int) -> Iterator[AnyPart]:
    if K > ROWS or N >= floor or floor > WIDE:
        raise ValueError(f"K is at most {ROWS}, N below {floor}, the least at most {WIDE}")
    free = P * K / ROWS
    yield Part("t", floor / clock, "s", f"max(N, {floor}) / clock = max({N}, {floor}) / "
               f"{clock_(clock)}",
               {"no least number of cycles: N taken": N / clock,
                "the load of the stationary tile added": (COLUMNS + N) / clock,
                "the Vector Engine's clock": floor / CLOCKS["vector_clock"],
                "the full 512 columns": WIDE / clock}, label="Time from start to start")
    yield Part("rate", free * N / floor, "FLOP/s", f"P × K / 128 × N / max(N, {floor}) = {rate(P)} "
               f"× {K} / 128 × {N} / {floor}",
               {"the idle rows left out of it": P * N / floor,
                "the idle rows counted twice": free * K / ROWS * N / floor,
                "the wait of short moving tiles left out of it": free,
                "both losses left out of it": P,
                ONE_FLOP: free * N / floor / 2}, label="Rate under the rule")
    yield Part("free", free, "FLOP/s", f"P × K / 128 = {rate(P)} × {K} / 128",
               {"all 128 rows taken: the array's rows idle without K": P,
                "the rule's wait still in it": free * N / floor,
                "N over 128, as if it were rows": free * N / ROWS},
               label="Rate without the rule")
    yield Choice("standing", "assumed",
                 {"assumed": "an assumption: documented for NeuronCore-v2, to be checked on Trn2",
                  "documented": "documented for Trn2 by the present guide",
                  "gone": "void: what a newer guide does not restate no longer holds"},
                 "The Trn2 guide is silent. In a profile, matmuls with N below the least settle "
                 "it: the starts lie a fixed number of cycles apart, or N.",
                 {"documented": "The Trn1 guide documents it, the Trn2 guide does not restate it, "
                                "and the earlier release's reference calls it an estimate.",
                  "gone": "Silence is no retraction. It tells you to measure."},
                 label="Standing on Trn2")


@problem(
    "day6.throttle",
    ask="Trn2 limits the Tensor Engine to about {share} of its peak for the first {start} after it "
        "was idle. Take that for a step. A kernel begins so, with W = {W} of bf16 matmuls that "
        "keep the engine busy to the end; P = {P}. How much later does it end than at P "
        "throughout? How long does it take? What share of that time is the delay?",
    fixed=dict(P=P, W=8e8, share=FACTS["throttle_start"], start=FACTS["throttle_time"]),
    units=dict(P="FLOP/s", W="FLOP", start="s"),
    draw=lambda r: dict(W=r.randrange(4, 45) * 1e8))
def throttle(P: float, W: float, share: float, start: float) -> Iterator[AnyPart]:
    late, full = (1 - share) * start, W / P
    if not share < 1 or full <= share * start:
        raise ValueError("share has to be below 1, and the work has to outlast the start")
    yield Part("late", late, "s", f"(1 - share) × start = (1 - {share:g}) × {time(start)}"
               "\nA step is assumed. The profiler's glossary says that the limit ramps up to the "
               "peak, so this is the most.",
               {"the whole start taken, though some work is done in it": start,
                "the whole kernel taken at the lower rate": full * (1 - share) / share,
                "half of the delay": late / 2}, label="Delay")
    yield Part("T", full + late, "s", f"W / P + late = {flop(W)} / {rate(P)} + {time(late)}",
               {"the start left out": full, "the whole start added": full + start,
                "the whole kernel taken at the lower rate": full / share},
               label="Time of the kernel", follows=("+", full, "late"))
    yield Part("lost", late / (full + late), "", f"late / T = {time(late)} / "
               f"{time(full + late)}",
               {"the start's share of peak, not of this time": share,
                "the whole start in place of the delay": start / (full + late),
                UPSIDE_DOWN: (full + late) / late,
                "over the time at P throughout": late / full},
               label="Share of the time, as a fraction or in %", follows=("/", "late", "T"))


# --- layout --------------------------------------------------------------------------------------

@problem(
    "day6.layout",
    ask="A matmul contracts over K. A is stored as M × K, {M} × {K} in bf16, K running fastest. In "
        "which dimension of SBUF does K have to lie? How many HBM bytes does loading A take, and "
        "how many more if dma_transpose turns it on the way? A copy of this size would run at "
        "{copy}, and dma_transpose reaches up to {share} of it: how long does it take at least? "
        "How many HBM bytes more would a kernel of its own add that stores A turned, once, for the "
        "matmul to load?",
    fixed=dict(M=2048, K=1024, copy=300e9, share=FACTS["dma_transpose_efficiency.hbm"]),
    units=dict(copy="B/s"),
    draw=lambda r: dict(M=r.choice((512, 1024, 1536, 3072)), K=r.choice((512, 768, 1280)),
                        copy=r.choice((240e9, 280e9, 320e9))))
def layout(M: int, K: int, copy: float, share: float) -> Iterator[AnyPart]:
    if share > 1:
        raise ValueError("share is at most 1")
    A = P_BF16 * M * K
    yield Choice("where", "partition",
                 {"partition": "over the partitions", "free": "along the free dimension",
                  "either": "in either: the engine reads both ways"},
                 "Each of the 128 partitions feeds one row of the array, and the rows are what a "
                 "matmul sums over.",
                 {"free": "The free dimension of the two tiles is M and N; K is summed over rows.",
                  "either": "A row of the array is fed by its partition and by no other."},
                 label="Where does K lie?")
    yield Part("plain", A, "B", f"p M K = {P_BF16} bytes × {M:,} × {K:,}",
               {ELEMENTS: A / P_BF16, "4 bytes a number, as in fp32": 2 * A,
                "one partition's share": A / TILE}, label="Bytes of the load")
    yield Part("more", 0, "B", "turned - plain = 0\nThe same bytes are read; they land in other "
               "places. The price is DMA time.",
               {"a second crossing: it turns on the way in": A, "a store and a load": 2 * A,
                "the lower rate taken for more bytes": A / share - A},
               label="More with dma_transpose")
    yield Part("T", A / (share * copy), "s", f"p M K / ({share:g} × copy) = {byte(A)} / ({share:g} "
               f"× {band(copy)})",
               {"the rate of SBUF to SBUF, half of a copy's": A / copy / 0.5,
                "the share multiplied in, as if turning were faster": A / copy * share,
                ELEMENTS: A / (share * copy) / P_BF16, "bits in place of bytes":
                8 * A / (share * copy)}, label="Least time with dma_transpose",
               follows=("/", "plain", share * copy),
               extra={"the copy's rate, not that of dma_transpose": A / copy})
    yield Part("kernel", 2 * A, "B", f"p M K read + p M K stored = {byte(A)} + {byte(A)}",
               {"the store alone, or the read alone": A, ELEMENTS: 2 * A / P_BF16,
                "the later load counted too: it was there before": 3 * A},
               label="More with a kernel of its own", follows=("+", "plain", "plain"))


WAYS = {"stored": "stored K × M beforehand, once and for all calls",
        "kernel": "a kernel that stores it K × M in HBM, before each call",
        "dma": "dma_transpose on the way in",
        "tensor": "nc_transpose on the Tensor Engine, after the load",
        "vector": "nc_transpose on the Vector Engine, after the load"}


@problem(
    "day6.turn",
    ask="Five ways to get a stored M × K matrix onto the partitions by K. Which one moves more "
        "HBM bytes than the load alone? Which one ends in PSUM, so that the turned tile has to be "
        "evicted? Which one turns blocks of at most 32 × 32? Which one is the least for weights, "
        "which stay the same from call to call?")
def turn() -> Iterator[AnyPart]:
    for name, right, label, why, wrong in (
            ("bytes", "kernel", "More HBM bytes",
             "It reads the matrix and stores it, and the load still follows. All others turn "
             "what is loaded anyway, or find it turned.",
             {"stored": "The load reads the same bytes, in another order.",
              "dma": "The same bytes are read; they land in other places.",
              "tensor": "The tile is on chip already: SBUF to PSUM and back.",
              "vector": "The tile is on chip already."}),
            ("evict", "tensor", "Ends in PSUM",
             "A transpose there is a matmul with an identity, and a matmul writes to PSUM.",
             {"stored": "Nothing is turned on the device.",
              "kernel": "What it leaves behind lies in HBM.",
              "dma": "DMA writes to SBUF here; no engine has to move it again.",
              "vector": "It writes where it is told to, SBUF too."}),
            ("small", "vector", "At most 32 × 32",
             "One instruction takes a tile of up to 32 × 32; a larger one takes several.",
             {"stored": "No instruction turns it on the device.",
              "kernel": "That depends on how the kernel does it.",
              "dma": "It takes far larger ones.", "tensor": "It turns up to 128 × 128."}),
            ("least", "stored", "Least for weights",
             "The work is done once, offline, and no call pays for it.",
             {"kernel": "Each call pays twice the bytes of the matrix.",
              "dma": "Each call loads them at a lower rate.",
              "tensor": "Each call pays with time of the array and of an eviction.",
              "vector": "Each call pays with Vector Engine time."})):
        yield Choice(name, right, WAYS, why, wrong, label=label + "?")


# --- PSUM -----------------------------------------------------------------------------------------

@problem(
    "day6.psum",
    ask="PSUM has {partitions} partitions, in each {banks} banks of {values} fp32 values. How many "
        "bytes is one bank in one partition? One bank over all partitions? All of PSUM? Which "
        "output tile fills one bank?",
    fixed=dict(partitions=TILE, banks=BANKS, values=BANK),
    draw=lambda r: dict(partitions=r.choice((32, 64, 256)), banks=r.choice((4, 6, 12, 16)),
                        values=r.choice((128, 256, 1024))))
def psum(partitions: int, banks: int, values: int) -> Iterator[AnyPart]:
    row, bank, size = FP32 * values, FP32 * values * partitions, FP32 * values * partitions * banks
    yield Part("row", row, "B", f"values × 4 bytes = {values:,} × 4 bytes\nThat is "
               f"{mebi(row)}.",
               {"values counted, not bytes": values, "2 bytes a value: sums stand there in fp32":
                row / 2, "all banks of the partition": row * banks},
               label="One bank, one partition")
    yield Part("bank", bank, "B", f"partitions × values × 4 bytes = {partitions} × {values:,} × 4 "
               f"bytes\nThat is {mebi(bank)}.",
               {"values counted, not bytes": bank / 4, "2 bytes a value: sums stand there in fp32":
                bank / 2, "all of PSUM": size, "one partition's share": row},
               label="One bank, all partitions", follows=("*", "row", partitions))
    yield Part("size", size, "B", f"partitions × banks × values × 4 bytes = {partitions} × {banks} "
               f"× {values:,} × 4 bytes\nThat is {mebi(size)}.",
               {"values counted, not bytes": size / 4, "2 bytes a value: sums stand there in fp32":
                size / 2, "one bank": bank, "one partition's share": size / partitions},
               label="All of PSUM", follows=("*", "bank", banks))
    yield Choice("fills", "tile",
                 {"tile": f"{partitions} × {values:,} sums in fp32",
                  "half": f"{partitions} × {values // 2:,} sums in fp32",
                  "square": f"{values:,} × {values:,} sums in fp32",
                  "bytes": f"{partitions} × {4 * values:,} sums in fp32"},
                 "A bank runs across all partitions: one row of the tile in each, as many values "
                 "as a bank holds.",
                 {"half": "That leaves half of each bank's values unused.",
                  "square": "There are only as many rows as partitions.",
                  "bytes": "That counts bytes: a sum takes four."},
                 label="Which tile fills one bank?")


READERS = {"both": "the Vector and the Scalar Engine",
           "tensor": "the Tensor Engine, which wrote it",
           "gpsimd": "GpSimd", "all": "every engine: all of them reach PSUM"}
READER = Choice(
    "who", "both", READERS,
    "Those two are the engines that read PSUM. On Trn2 both can at once, from different banks.",
    {"tensor": "The Tensor Engine only writes there: its inputs come from SBUF.",
     "gpsimd": "GpSimd has no access to PSUM.",
     "all": "GpSimd has no access to PSUM, and the Tensor Engine only writes there."},
    label="Who can carry it out of PSUM?")
def _evicted(rows: int, columns: int) -> Iterator[AnyPart]:
    tile = FP32 * rows * columns
    yield Part("tile", tile, "B", f"rows × columns × 4 bytes = {rows} × {columns} × 4 bytes"
               f"\nThat is {mebi(tile)}.",
               {"values counted, not bytes": tile / 4, "2 bytes a value: it stands there in fp32":
                tile / 2, "all banks of PSUM": BANKS * tile}, label="Bytes of the tile")
    yield Choice("hbm", "none",
                 {"none": "none", "once": "those of the tile", "twice": "those of the tile, twice"},
                 "Zero: PSUM and SBUF are both on chip. What it costs is an engine's time.",
                 {"once": "The way from PSUM to SBUF does not pass HBM. A store does, later.",
                  "twice": "Nothing goes out and in again: the tile stays on chip."},
                 label="Bytes over HBM?")


@problem(
    "day6.eviction",
    ask="A finished tile of {rows} × {columns} fp32 sums goes from PSUM to SBUF. How many bytes is "
        "it, and how many cross HBM? In fp32 the Vector Engine takes one element a cycle in each "
        "of its {lanes} lanes, at {vector_clock}, and so does the Scalar Engine, at "
        "{scalar_clock}: how long is each busy with it? Who can do it?",
    fixed=dict(rows=TILE, columns=384, lanes=TILE, vector_clock=CLOCKS["vector_clock"],
               scalar_clock=CLOCKS["scalar_clock"]),
    units=dict(vector_clock="Hz", scalar_clock="Hz"),
    draw=lambda r: dict(rows=r.choice((48, 64, 96, 128)), columns=r.choice((64, 128, 192, 256,
                                                                             320))))
def eviction(rows: int, columns: int, lanes: int, vector_clock: float, scalar_clock: float,
             ) -> Iterator[AnyPart]:
    if rows > TILE or columns > BANK:
        raise ValueError(f"a tile of one bank is at most {TILE} × {BANK}")
    yield from _evicted(rows, columns)
    n = TILE * columns  # idle partitions take their turn all the same
    for name, clock, label in (("t_vector", vector_clock, "Vector"),
                               ("t_scalar", scalar_clock, "Scalar")):
        busy = n / lanes / clock
        told = name == "t_vector" and lanes == TILE
        yield Part(name, busy, "s", f"128 × columns / ({lanes} × clock) = 128 × {columns} / "
                   f"({lanes} × {clock_(clock)})"
                   + (rows < TILE) * "\nIdle partitions save no cycle.",
                   {"bytes in place of elements": 4 * busy,
                    "one element a cycle": n / clock,
                    "one partition's share": busy / TILE,
                    **({"idle partitions left out: they save no cycle": busy * rows / TILE}
                       if rows < TILE and not (told and rows == TILE // 2) else {}),
                    "the Tensor Engine's clock": busy * clock / CLOCKS["clock"]},
                   {f"{VECTOR_FP32} elements a cycle, the engine table's upper bound":
                    busy * TILE / VECTOR_FP32} if told else {}, label=f"Time, {label} Engine")
    yield READER


@problem(
    "day6.tiles",
    ask="C = A B, A {M} × {K}, B {K} × {N}, bf16. One instruction takes K up to 128, 128 columns "
        "of the stationary tile and 512 of the moving one. How many output tiles has C? How many "
        "matmul instructions does it take? If every sum stayed in PSUM until the end, how many "
        "banks would that be? Does it fit?",
    fixed=dict(M=384, K=640, N=1536),
    draw=lambda r: dict(M=TILE * r.choice((1, 2, 3, 5)), K=TILE * r.choice((3, 5, 6, 7)),
                        N=WIDE * r.choice((2, 3, 5))))
def tiles(M: int, K: int, N: int) -> Iterator[AnyPart]:
    in_tiles(M=(M, TILE), K=(K, TILE), N=(N, WIDE))
    m, n, k = M // TILE, N // WIDE, K // TILE
    yield Part("outputs", m * n, "", f"M / 128 × N / 512 = {m} × {n}",
               {"tiles of 128 columns: the moving tile has 512": 4 * m * n,
                "tiles of 512 rows: the stationary tile has 128": m * n / 4,
                "steps of K counted in": m * n * k}, label="Output tiles")
    yield Part("matmuls", m * n * k, "", f"M / 128 × N / 512 × K / 128 = {m} × {n} × {k}",
               {"K left out: one instruction takes 128 of it": m * n,
                "tiles of 128 columns: the moving tile has 512": 4 * m * n * k,
                "multiply-adds counted": M * N * K}, label="Matmul instructions",
               follows=("*", "outputs", k))
    yield Part("banks", m * n, "", f"one for each output tile = {m} × {n}",
               {"one for every 128 × 128": 4 * m * n, "one for every step of K: sums add up in "
                "place": m * n * k, "one for every 512 × 512": m * n / 4}, label="PSUM banks",
               follows=("*", "outputs", 1))
    fits = m * n <= BANKS
    yield Choice("fits", "yes" if fits else "no",
                 {"yes": "yes, all sums stay", "no": "no, some have to leave first"},
                 f"{m * n} banks are needed and {BANKS} are there.",
                 {"no" if fits else "yes": f"Compare with the {BANKS} banks that PSUM has."},
                 label="Does it fit?")


# --- other engines --------------------------------------------------------------------------------

@problem(
    "day6.vector",
    ask="Engine table: the Vector Engine takes {vector} bf16 or {fp32} fp32 elements a cycle at "
        "{vector_clock}, the Scalar Engine {scalar} at {scalar_clock}. Find the element rates. A "
        "tensor of {n} "
        "bf16 elements lies in SBUF: how long does one tensor_copy of it take on the Vector Engine "
        "at least, and one activation on the Scalar Engine? The guide also says 1.0 TFLOP/s for "
        "the Vector Engine: how many operations is that for each of 128 lanes and each cycle? "
        "Which roof has one add an element?",
    fixed=dict(vector=VECTOR, fp32=VECTOR_FP32, vector_clock=CLOCKS["vector_clock"],
               scalar=SCALAR, scalar_clock=CLOCKS["scalar_clock"], n=2048 * 4096),
    units=dict(vector_clock="Hz", scalar_clock="Hz"),
    draw=lambda r: dict(n=r.choice((2**18, 2**19, 2**20, 3 * 2**20, 2**21, 5 * 2**20)),
                        vector_clock=r.choice((0.8e9, 0.9e9, 1.0e9, 1.2e9)),
                        scalar_clock=r.choice((1.1e9, 1.3e9, 1.4e9))))
def vector(vector: int, fp32: int, vector_clock: float, scalar: int, scalar_clock: float,
           n: int) -> Iterator[AnyPart]:
    both = {"vector": (vector, vector_clock, "Vector"), "scalar": (scalar, scalar_clock, "Scalar")}
    rates = {name: width * clock for name, (width, clock, _) in both.items()}
    for name, (width, clock, label) in both.items():
        top = rates[name]
        yield Part(name, top, "element/s", f"width × clock = {width} × {clock_(clock)}",
                   {"the Tensor Engine's clock": width * CLOCKS["clock"],
                    "one element a cycle": clock, "two operations an element counted": 2 * top,
                    "bytes in place of elements": 2 * top},
                   label=f"{label} Engine, " + "bf16 " * (name == "vector") + "elements a second")
    yield Part("vector32", fp32 * vector_clock, "element/s", f"width × clock = {fp32} × "
               f"{clock_(vector_clock)}",
               {"the Tensor Engine's clock": fp32 * CLOCKS["clock"], "one element a cycle":
                vector_clock, "the width in bf16": rates["vector"],
                "bytes in place of elements": 4 * fp32 * vector_clock},
               label="Vector Engine, fp32 elements a second")
    for name, label in (("copy", "Vector"), ("act", "Scalar")):
        key = label.lower()
        top = rates[key]
        yield Part(name, n / top, "s", f"n / rate = {n:,} / ({both[key][0]} × "
                   f"{clock_(both[key][1])})",
                   {"the 1.0 TFLOP/s taken as elements a second":
                    n / FACTS["vector_peak_flops.fp32"],
                    "the Tensor Engine's clock": n / both[key][0] / CLOCKS["clock"],
                    "one element a cycle": n / both[key][1],
                    "bytes in place of elements": 2 * n / top},
                   label=f"Least time, {label} Engine", follows=("/", n, key))
    lanes = FACTS["vector_peak_flops.fp32"] / TILE / vector_clock
    near = abs(lanes - round(lanes)) < 0.02 * lanes
    yield Part("ops", lanes, "", f"1.0 TFLOP/s / (128 × clock) = 1 TFLOP/s / (128 × "
               f"{clock_(vector_clock)})" + near * "\nNear a whole number. That it counts so many "
               "operations a lane is an inference; no page says it.",
               {"the table's width in place of 128 lanes": lanes * TILE / vector,
                "the Tensor Engine's clock": lanes * vector_clock / CLOCKS["clock"],
                "lanes left out": lanes * TILE}, also=(round(lanes),) if near else (),
               label="Operations a lane and cycle")
    yield Choice("roof", "element",
                 {"element": "elements a second", "flops": "1.0 TFLOP/s, one FLOP an add",
                  "tensor": "the Tensor Engine's P"},
                 "One add is one pass over an element, however little is done in it. The TFLOP/s "
                 "seem to count what a lane could do in a pass. An add of two tensors is slower "
                 "still than the copy: it takes in two elements for each that it gives.",
                 {"flops": "That would be more adds a second than the engine takes elements.",
                  "tensor": "The array multiplies tiles. An add of two tensors runs elsewhere."},
                 label="Roof of one add an element")


# --- DMA, BW, rivals ------------------------------------------------------------------------------

@problem(
    "day6.dma",
    ask="A core has {engines} DMA engines. The bandwidth guide's table gives {one} for each. The "
        "overview prints that and {theory}, calls both theoretical, and shows a profile: {bytes} "
        "by one engine in {t}. What rate does the profile give? What do all engines carry by the "
        "smaller figure, and by the larger? If that time has no fixed cost in it, which one does "
        "the profile support? What should a transfer be like?",
    fixed=dict(engines=ENGINES, one=FACTS["dma_engine_bandwidth"],
               theory=FACTS["dma_engine_theoretical"], bytes=FACTS["dma_example_bytes"],
               t=FACTS["dma_example_time"]),
    units=dict(one="B/s", theory="B/s", bytes="B", t="s"),
    draw=lambda r: (lambda one, size: dict(
        engines=r.choice((8, 12, 16, 24)), one=one, theory=round(1.25 * one, -8),
        bytes=size, t=size / (one * r.choice((0.985, 1, 1.015)))))(
        r.choice((14e9, 17e9, 19e9, 29e9, 33e9)), 1024 * r.choice((16, 64, 128))))
def dma(engines: int, one: float, theory: float, bytes: float, t: float) -> Iterator[AnyPart]:
    seen = bytes / t
    if not 0.95 * one < seen < (one + theory) / 2:
        raise ValueError("the example's rate has to lie nearer to `one` than to `theory`")
    at_most = bytes / theory
    yield Part("seen", seen, "B/s", f"bytes / t = {byte(bytes)} / {show(t, 's', digits=6)}",
               {UPSIDE_DOWN: t / bytes, "bits in place of bytes": 8 * seen,
                "both ends of the transfer counted": 2 * seen,
                "the latency taken out: by the guide it lies before the start":
                bytes / (t - FACTS["dma_fixed_latency"])} if t > 1.05 * FACTS["dma_fixed_latency"]
               else {UPSIDE_DOWN: t / bytes, "bits in place of bytes": 8 * seen,
                     "both ends of the transfer counted": 2 * seen}, label="Rate of the profile")
    for name, each, label in (("all", one, "All engines, smaller figure"),
                              ("most", theory, "All engines, larger figure")):
        yield Part(name, engines * each, "B/s", f"engines × each = {engines} × {band(each)}",
                   {"one engine alone": each, "the engines of a pair": 2 * engines * each,
                    f"the engines of {CORES} cores": CORES * engines * each}, label=label)
    yield Choice("which", "smaller", {"smaller": "the smaller", "larger": "the larger"},
                 "The engine moved its bytes at about that rate. The larger figure is not "
                 f"excluded: by it they take {time(at_most)}, and a fixed cost of "
                 f"{show(t - at_most, 's')} in the transfer would explain the rest. The time "
                 "includes an update of a semaphore; no page says what that costs.",
                 {"larger": f"By it the bytes take {time(at_most)}. The rest of the time would "
                            "have to be a fixed cost."},
                 label="Without a fixed cost, which does the profile support?")
    yield Choice("shape", "wide",
                 {"wide": "all 128 partitions, at least 2 KiB contiguous in each, better 4 KiB",
                  "long": "one partition, as long as it will hold",
                  "many": "as many small transfers as possible, to keep all engines busy"},
                 "A transfer pays a fixed latency of about a microsecond, and the guide says that "
                 "4 KiB a partition saturate the engines.",
                 {"long": "One partition keeps one engine busy; the others wait.",
                  "many": "Each pays the fixed latency again; a small one is mostly latency."},
                 label="A good transfer")


@problem(
    "day6.bw",
    ask="A device has {BW} of HBM bandwidth for {cores} cores; one core has P = {P} in bf16. What "
        "is an even share, and which ridge does it give? Why is this share the weakest number of "
        "the sheet?",
    fixed=dict(P=P, BW=DEVICE.bw(), cores=CORES), units=dict(P="FLOP/s", BW="B/s"),
    draw=lambda r: r.choice([dict(P=peak_, BW=all_, cores=n) for peak_ in (52e12, 92e12, 120e12)
                             for all_ in (0.9e12, 1.7e12, 4.4e12) for n in (2, 4, 6, 16)]))
def bw(P: float, BW: float, cores: int) -> Iterator[AnyPart]:
    share = BW / cores
    told = (BW, cores) == (DEVICE.bw(), CORES)
    theirs = _rivals() if told else {}
    ridges = {k: P / v for k, v in theirs.items()}
    yield Part("share", share, "B/s", f"BW / cores = {band(BW)} / {cores}",
               {"the whole device's bandwidth": BW, "a pair's: two cores": 2 * share,
                "per DMA engine, not per core": BW / cores / ENGINES}, theirs,
               label="Even share of a core")
    yield Part("ridge", P / share, "FLOP/B", f"P / share = {rate(P)} / {band(share)}",
               {"one core's P over the device's BW": P / BW,
                "the ratio upside down: BW over P": share / P,
                "P of a pair over one core's share": 2 * P / share,
                "fp32's peak in place of bf16's": P / QUARTER / share}, ridges,
               follows=("/", P, "share"))
    yield Choice("weak", "many",
                 {"many": "it is a division, and other sources have other figures for it",
                  "clock": "its clock is not documented",
                  "dtype": "it changes with the dtype"},
                 "P follows from an array and a clock. The share divides a rounded device figure "
                 "evenly, and no source says that a core gets just that.",
                 {"clock": "No clock goes into it.",
                  "dtype": "Bytes a second know no dtype. The ridge does, through P."},
                 label="Why is it weak?")


FIGURE_OF = {
    "share": "an eighth of a device figure that another AWS page prints",
    "stack": "half of one HBM stack: what the profiler divides by",
    "engines": "what 16 DMA engines carry",
    "sketch": "a round number in a picture that stands in two guides",
}
NOT_FIGURE_OF = {
    "share": "Eight times the figure would have to be a device figure of that page, 2.9 TB/s.",
    "stack": "Twice the figure would have to be the 716 GB/s of a stack.",
    "engines": "The figure over 16 would have to be what one engine carries, 23 GB/s.",
    "sketch": "The picture shows one round figure, half a TB/s.",
}


@problem(
    "day6.rivals",
    ask="Four more figures for one core's bandwidth are about: 362.5, 358, 368 and 500 GB/s. What "
        "is each a figure of? With P = {P}: which ridge do the DMA engines give, and which the "
        "picture? What settles it for your kernel?",
    fixed=dict(P=P), units=dict(P="FLOP/s"),
    draw=lambda r: dict(P=r.randrange(40, 77) * 1e12))
def rivals(P: float) -> Iterator[AnyPart]:
    for name, key, label, why in (
            ("f362", "share", "362.5 GB/s is", "2.9 TB/s / 8, from the hardware pages."),
            ("f358", "stack", "358 GB/s is", "716 GB/s / 2: two cores share a stack."),
            ("f368", "engines", "368 GB/s is", "16 × 23 GB/s: a limit of the movers, not of HBM. "
             "By 27.2 GB/s an engine it would be 435 GB/s."),
            ("f500", "sketch", "500 GB/s is", "The Trn2 guide shows it as NeuronCore-v3's. "
             "The overview has the same picture for all cores and calls its ranges approximate, to "
             "calibrate a mental model. Its 25 MB of SBUF are NeuronCore-v2's 24 MiB, its 50 GB of "
             "HBM fit no device, and 500 GB/s is more than either DMA figure allows.")):
        yield Choice(name, key, FIGURE_OF, why,
                     {other: text for other, text in NOT_FIGURE_OF.items() if other != key},
                     label=label)
    engines, figure = CORE.bw("DMA"), FACTS["figure_hbm_bandwidth"]
    for name, own, label in (("engines", engines, "Ridge by the DMA engines"),
                             ("picture", figure, "Ridge by the picture")):
        yield Part(name, P / own, "FLOP/B", f"P / BW = {rate(P)} / {band(own)}",
                   {"a pair's P over one core's bandwidth": 2 * P / own, UPSIDE_DOWN: own / P,
                    "fp32's peak in place of bf16's": P / QUARTER / own,
                    "the device's bandwidth": P / DEVICE.bw()}, label=label)
    yield Choice("settle", "measure",
                 {"measure": "a copy kernel on one core, then on all cores that share the stack",
                  "mean": "the mean of the five figures",
                  "largest": "the largest, as the roof must not be too low",
                  "guide": "the architecture guide, as it is the official one"},
                 "Day 4's copy kernel says what one core reaches alone and what it reaches while "
                 "its neighbour copies too. Write that beside the spec figure.",
                 {"mean": "A mean of figures of different things is a figure of none.",
                  "largest": "A roof that nothing can reach calls every kernel slow.",
                  "guide": "Three of these are AWS's own pages, and they differ."},
                 label="What settles it?")


@problem(
    "day6.profiler",
    ask="On Trn2 the profiler's Peak Flops Bandwidth Ratio shows {shown}; one core has P = {P} in "
        "bf16. Which bandwidth did it divide by? {sharing} cores share that: what is the ridge "
        "with one core's part of it? What is wrong with the number shown?",
    fixed=dict(P=P, shown=FACTS["documented_ridge.bf16"],
               sharing=int(FACTS["cores_per_hbm_stack"])),
    units=dict(P="FLOP/s", shown="FLOP/B"),
    draw=lambda r: dict(P=r.choice((60e12, 92e12, 110e12)), shown=r.randrange(60, 190, 5) + 0.5))
def profiler(P: float, shown: float, sharing: int) -> Iterator[AnyPart]:
    if sharing < 2:
        raise ValueError("sharing has to be 2 or more")
    used = P / shown
    yield Part("used", used, "B/s", f"P / shown = {rate(P)} / {show(shown, 'FLOP/B', digits=6)}",
               {"P of the pair over the ratio": 2 * P / shown, "half of it: one core's part":
                used / sharing, "fp32's peak in place of bf16's": used / QUARTER,
                "an even share of the device": DEVICE.bw() / CORES},
               label="Bandwidth divided by")
    yield Part("ridge", P / (used / sharing), "FLOP/B", f"P / (used / {sharing}) = {rate(P)} / "
               f"({band(used)} / {sharing})",
               {"the number shown": shown, "divided by the cores, not multiplied": shown / sharing,
                "doubled twice": 2 * shown * sharing}, label="Ridge at one scope",
               follows=("/", P * sharing, "used"))
    yield Choice("wrong", "scope",
                 {"scope": "its P is one core's, its bandwidth that of a stack which cores share",
                  "dtype": "its P is fp32's", "clock": "its P is at half the clock",
                  "nothing": "nothing: it is the ridge of a logical core"},
                 "P of one core over bandwidth of two. Either both are one core's or both the "
                 "pair's; the ridge is the same in either, and not this one.",
                 {"dtype": "fp32 would be a quarter of bf16's, and so would the ratio.",
                  "clock": "The clock is in P, and P is the documented one.",
                  "nothing": "A logical core has twice this P over that stack."},
                 label="What is wrong with it?")


@problem(
    "day6.crossover_moves",
    ask="A {D} × {F} projection in bf16. From how many tokens on is it compute-bound if the ridge "
        "is {low}, {mid} or {high}? How far apart are the outer two, as a share of the middle one? "
        "On which side is a batch of {B} tokens?",
    fixed=dict(D=4096, F=4096, low=157.0, mid=210.0, high=220.0, B=200),
    units=dict.fromkeys(("low", "mid", "high"), "FLOP/B"),
    draw=lambda r: dict(D=r.choice((3072, 5120, 8192)), F=r.choice((3072, 6144, 8192)),
                        low=r.choice((120.0, 140.0, 150.0)), high=r.choice((240.0, 260.0, 280.0)),
                        B=r.choice((60, 215, 700))))
def crossover_moves(D: int, F: int, low: float, mid: float, high: float,
                    B: int) -> Iterator[AnyPart]:
    if not low < mid < high or 2 * D * F <= 2.2 * high * P_BF16 * (D + F):
        raise ValueError("low < mid < high, and D and F large enough to reach twice the last")
    op = Linear(1, D, F)
    found = [op.crossover(ridge) for ridge in (low, mid, high)]
    exact = {157.0: P / FACTS["figure_hbm_bandwidth"], 210.0: P / BW,
             220.0: 2 * P / FACTS["hbm_stack_bandwidth"]}
    for name, ridge, at in zip(("B_low", "B_mid", "B_high"), (low, mid, high), found, strict=True):
        yield Part(name, at, "", f"ridge p D F / (2 D F - ridge p (D + F)) = {ridge:g} × {P_BF16} "
                   f"× {D:,} × {F:,} / (2 × {D:,} × {F:,} - {ridge:g} × {P_BF16} × ({D:,} + "
                   f"{F:,}))",
                   {"x and y left out: I is near B only while B is small": ridge,
                    ONE_FLOP: op.crossover(2 * ridge), ELEMENTS: op.crossover(ridge / 2)},
                   also=(op.crossover(exact[ridge]),) if ridge in exact else (),
                   label=f"Tokens at {per_byte(ridge)}")
    first, middle, last = found
    yield Part("apart", (last - first) / middle, "", "(B_high - B_low) / B_mid = "
               f"({last:.1f} - {first:.1f}) / {middle:.1f}",
               {"the ratio of the outer two": last / first, "the upper half alone":
                (last - middle) / middle, "the spread of the ridges, not of the tokens":
                (high - low) / mid}, also=((round(last) - round(first)) / round(middle),),
               label="Apart, as a fraction or in %",
               follows=("/", ("+", "B_high", ("*", -1.0, "B_low")), "B_mid"))
    right = "memory" if first >= B else "compute" if last <= B else "open"
    yield Choice("side", right,
                 {"memory": "memory-bound by each of the three",
                  "compute": "compute-bound by each of the three",
                  "open": "it depends on the bandwidth that is believed"},
                 f"{B:,} tokens lie " + {"memory": "below all three crossovers.", "compute":
                                         "above all three crossovers.", "open":
                                         "between the crossovers."}[right],
                 {key: text for key, text in {
                     "memory": "Compare with the smallest of the three crossovers.",
                     "compute": "Compare with the largest of the three crossovers.",
                     "open": "Compare with the smallest and the largest crossover."}.items()
                  if key != right}, label="Side of the batch")


# --- LNC=2 ----------------------------------------------------------------------------------------

@problem(
    "day6.lnc.scope",
    ask="One physical core has P = {P} in bf16 and BW = {BW}. A kernel on an LNC=2 logical core "
        "has W = {W} and Q = {Q} in all. Find P and BW of the logical core, its ridge and T_best. "
        "What time comes out with P and BW of all {cores} cores? By which factor does the device "
        "overstate the bandwidth, and by which P, if one takes the {chip} its page documents?",
    fixed=dict(P=P, BW=BW, W=3e9, Q=24e6, cores=CORES,
               chip=DEVICE.peaks["bf16"].rivals[0].value),
    units=dict(P="FLOP/s", BW="B/s", W="FLOP", Q="B", chip="FLOP/s"),
    draw=lambda r: dict(W=r.choice((1.5e9, 2e9, 12e9, 27e9)),
                        Q=r.choice((9e6, 15e6, 18e6, 21e6, 33e6))))
@day2.told
def lnc_scope(P: float, BW: float, W: float, Q: float, cores: int, chip: float,
              ) -> Iterator[AnyPart]:
    if cores <= 2:
        raise ValueError("cores has to be above 2: the pair is not the device")
    best = max(W / P, Q / BW)
    yield Part("P_pair", 2 * P, "FLOP/s", f"2 × P = 2 × {rate(P)}",
               {"one core's figure": P, f"the figure of all {cores} cores": cores * P,
                "doubled twice": 4 * P},
               label="P of the logical core")
    yield Part("BW_pair", 2 * BW, "B/s", f"2 × BW = 2 × {band(BW)}",
               {"one core's figure": BW, f"the figure of all {cores} cores": cores * BW,
                "doubled twice": 4 * BW},
               label="BW of the logical core")
    yield Part("ridge", P / BW, "FLOP/B", f"2 P / (2 BW) = 2 × {rate(P)} / (2 × {band(BW)})",
               {"P of the pair over one core's BW": 2 * P / BW,
                "one core's P over the pair's BW": P / BW / 2, UPSIDE_DOWN: BW / P},
               follows=("/", "P_pair", "BW_pair"))
    yield Part("T", best / 2, "s", f"max(W / (2 P), Q / (2 BW)) = max({time(W / P / 2)}, "
               f"{time(Q / BW / 2)})",
               {"one core's P and BW": best, f"P and BW of {cores} cores": best / cores,
                "the shorter of the two times": min(W / P, Q / BW) / 2,
                "the roofs halved, not doubled": 2 * best}, label="T_best at the right scope",
               follows=("max", ("/", W, "P_pair"), ("/", Q, "BW_pair")))
    yield Part("T_chip", best / cores, "s", f"max(W / ({cores} P), Q / ({cores} BW)) = "
               f"max({time(W / P / cores)}, {time(Q / BW / cores)})",
               {"the pair's P and BW": best / 2, "one core's P and BW": best,
                "Q and W taken eight times too": best / cores**2},
               label="T_best with the whole device's roofs")
    yield Part("over_BW", cores / 2, "", f"{cores} BW / (2 BW) = {cores} / 2",
               {"over one core, not the pair": cores, UPSIDE_DOWN: 2 / cores, "one: as the ridge "
                "says": 1}, label="Bandwidth overstated, factor")
    yield Part("over_P", chip / 2 / P, "", f"chip / (2 P) = {rate(chip)} / (2 × {rate(P)})",
               {"over one core, not the pair": chip / P, UPSIDE_DOWN: 2 * P / chip,
                "cores times P in place of the documented figure": cores / 2,
                "one: as the ridge says": 1}, label="P overstated, factor",
               follows=("/", chip, "P_pair"))
    yield Choice("hide", "time",
                 {"time": "a time or a rate: P and BW grow together, and their ratio stays",
                  "ridge": "the ridge: it grows with the cores",
                  "intensity": "the intensity: it grows with the cores"},
                 "The ridge is P / BW. Take both eight times and nothing moves but the times.",
                 {"ridge": "Both of its terms have the same factor.",
                  "intensity": "W and Q are the kernel's; no core is in them."},
                 label="Where does a scope slip show?")


SPLIT = ("y = x w in bf16 on an LNC=2 logical core: x is {B} × {D}, w is {D} × {F}. Each core "
         "takes half of the tokens and loads all of w. ")


def _linear_bytes(B: int, D: int, F: int) -> tuple[int, int, int]:
    in_tiles(B=(B, 2 * TILE), D=(D, 2 * TILE), F=(F, WIDE))
    if P_BF16 * D * F > FACTS["sbuf_bytes"]:
        raise ValueError(f"w has to fit in one core's SBUF, {mebi(FACTS['sbuf_bytes'])}")
    return P_BF16 * B * D, P_BF16 * D * F, P_BF16 * B * F


def _twice_once(B: int, D: int, F: int) -> Iterator[Part]:
    x, w, y = _linear_bytes(B, D, F)
    W, twice, once = 2 * B * D * F, x + 2 * w + y, x + w + y
    yield Part("Q", twice, "B", f"p (B D + 2 D F + B F) = {P_BF16} bytes × ({B:,} × {D:,} + 2 × "
               f"{D:,} × {F:,} + {B:,} × {F:,})\nx is split, {mebi(x)}; w is loaded by each core, "
               f"{mebi(w)} -> {mebi(2 * w)}; y is split, {mebi(y)}.\n{mebi(x)} + {mebi(2 * w)} + "
               f"{mebi(y)} = {mebi(twice)}.",
               {"w counted once: each core has its own SBUF": once, ELEMENTS: twice / 2,
                "everything twice: x and y are split": 2 * once,
                "one core's bytes, not those of both": twice / 2,
                "w left out": x + y}, label="Q of the pair")
    yield _intensity(W, twice, "I", "I of the pair", "Q", {
        "w counted once: each core has its own SBUF": W / once})
    yield Part("Q_once", once, "B", f"p (B D + D F + B F) = {P_BF16} bytes × ({B:,} × {D:,} + "
               f"{D:,} × {F:,} + {B:,} × {F:,})\nThat is {mebi(once)}.",
               {"w counted twice": twice, ELEMENTS: once / 2, "w left out": x + y,
                "everything twice": 2 * once}, label="Q with w counted once")
    yield _intensity(W, once, "I_once", "I with w counted once", "Q_once",
                     {"w counted twice": W / twice})


@problem(
    "day6.lnc.weights",
    ask=SPLIT + "W is 2 × {B} × {D} × {F} FLOP. Find Q and I of the pair, and Q and I if w crossed "
        "once. In linear_w_once each core loads half of w and sends it to the other, by sendrecv "
        "as it is by default: how many bytes go from SBUF to SBUF in all? How many do the shared "
        "DMA engines then carry, these and HBM's? What does the sending cost?",
    fixed=dict(B=512, D=2048, F=2048),
    draw=lambda r: dict(B=r.choice((256, 768, 1024)), D=r.choice((512, 1024, 1536)),
                        F=r.choice((1024, 1536, 3072))))
def lnc_weights(B: int, D: int, F: int) -> Iterator[AnyPart]:
    x, w, y = _linear_bytes(B, D, F)
    Q, once = x + 2 * w + y, x + w + y
    yield from _twice_once(B, D, F)
    yield Part("sent", w, "B", f"2 × p D F / 2 = 2 × {P_BF16} bytes × {D:,} × {F:,} / 2",
               {"one direction alone: both cores send": w / 2, "all of w both ways": 2 * w,
                "x sent as well": w + x}, label="Bytes from SBUF to SBUF")
    yield Part("carried", once + w, "B", f"Q_once + sent = {byte(once)} + {byte(w)}\nAs many as "
               "in linear, where they all are HBM's.",
               {"HBM bytes alone": once, "w sent in one direction only": once + w / 2,
                "the second load of w counted too": Q + w},
               label="Bytes that DMA engines carry", follows=("+", "Q_once", "sent"))
    yield Choice("cost", "dma",
                 {"dma": "time of the shared DMA engines, and no HBM bytes",
                  "hbm": "HBM bytes: the cores share a bank and meet there",
                  "free": "nothing: the cores share one SBUF"},
                 "Each core has its own SBUF. By default sendrecv moves from one to the other with "
                 "the shared DMA engines, and leaves HBM out of it. It can use GpSimd's own DMA "
                 "(dma_engine.gpsimd_dma) for small tiles only.",
                 {"hbm": "They share the bank, and sendrecv does not use it.",
                  "free": "They share HBM. SBUF and PSUM are each core's own."},
                 label="What does it cost?")


# --- Do -------------------------------------------------------------------------------------------

@problem(
    "day6.do.table",
    ask="Build the ceiling table of one core from what a guide lists: a 128 × 128 array at "
        "{clock}, fp32 at a quarter of the rate, fp8 at twice; the Vector Engine takes 512 bf16 or "
        "256 fp32 elements a cycle at {vector_clock}; the Scalar Engine 128 at {scalar_clock}, "
        "GpSimd 8 × 16 at {gpsimd_clock}; 128 partitions of SBUF with {partition} each; PSUM with "
        "8 banks of 512 fp32 values a partition; 16 DMA engines of {engine}; a device with {BW} "
        "for 8 cores. What kind of number is P then? What do you write as HBM's source? (In "
        'JupyterLab, give another guide\'s: ask("day6.do.table", clock="2.8 GHz", ...).)',
    fixed=dict(**CLOCKS, gpsimd_clock=FACTS["gpsimd_clock"],
               partition=FACTS["sbuf_partition_bytes"], engine=FACTS["dma_engine_bandwidth"],
               BW=DEVICE.bw()),
    units=dict(dict.fromkeys((*CLOCKS, "gpsimd_clock"), "Hz"), partition="B", engine="B/s",
               BW="B/s"),
    draw=lambda r: dict(clock=r.choice((1.8e9, 2.1e9, 2.8e9)), engine=r.choice((17e9, 29e9, 33e9)),
                        vector_clock=r.choice((0.8e9, 1.1e9)),
                        scalar_clock=r.choice((1.1e9, 1.4e9)),
                        gpsimd_clock=r.choice((1.0e9, 1.3e9)),
                        partition=1024 * r.choice((128, 192, 256)), BW=r.choice((1.6e12, 4.8e12))))
def do_table(clock: float, vector_clock: float, scalar_clock: float, gpsimd_clock: float,
             partition: float, engine: float, BW: float) -> Iterator[AnyPart]:
    top, share = 2 * ROWS * COLUMNS * clock, BW / CORES
    psum_ = FP32 * TILE * BANKS * BANK
    yield Part("bf16", top, "FLOP/s", f"128 × 128 × 2 × clock = 128 × 128 × 2 × {clock_(clock)}",
               {ONE_FLOP: top / 2, "all 8 cores taken": CORES * top,
                "one side of the array left out": top / COLUMNS}, label="Tensor Engine, bf16")
    yield Part("fp32", top / QUARTER, "FLOP/s", f"P(bf16) / 4 = {rate(top)} / 4",
               {"bf16's rate": top, "half of bf16's": top / 2, ONE_FLOP: top / 8},
               label="Tensor Engine, fp32", follows=("/", "bf16", QUARTER))
    yield Part("fp8", top * DOUBLE, "FLOP/s", f"2 × P(bf16) = 2 × {rate(top)}",
               {"bf16's rate": top, "the sparse rate, four times that of bf16": 4 * top,
                "divided, not multiplied": top / 2}, label="Tensor Engine, fp8",
               follows=("*", "bf16", DOUBLE))
    for name, width, at, label in (
            ("vector", VECTOR, vector_clock, "Vector Engine, bf16 elements a second"),
            ("vector32", VECTOR_FP32, vector_clock, "Vector Engine, fp32 elements a second"),
            ("scalar", SCALAR, scalar_clock, "Scalar Engine, elements a second"),
            ("gpsimd", GPSIMD, gpsimd_clock, "GpSimd, elements a second")):
        yield Part(name, width * at, "element/s", f"{width} × clock = {width} × {clock_(at)}",
                   {"one element a cycle": at, "the Tensor Engine's clock": width * clock,
                    "8 cores' engines": CORES * width * at,
                    **({"the width in fp32": VECTOR_FP32 * at} if name == "vector" else
                       {"the width in bf16": VECTOR * at} if name == "vector32" else
                       {"two operations an element counted": 2 * width * at})}, label=label)
    yield Part("sbuf", TILE * partition, "B", f"128 × partition = 128 × {byte(partition)}",
               {"one partition": partition, "8 cores' SBUF": CORES * TILE * partition,
                "a pair's: each core has its own": 2 * TILE * partition}, label="SBUF")
    yield Part("psum", psum_, "B", f"128 × 8 × 512 × 4 bytes = 128 × 8 × 512 × 4 bytes\nThat is "
               f"{mebi(psum_)}.",
               {"values counted, not bytes": psum_ / 4, "2 bytes a value": psum_ / 2,
                "one bank": psum_ / BANKS}, label="PSUM")
    told = _rivals() if BW == DEVICE.bw() else {}
    yield Part("HBM", share, "B/s", f"BW / 8 = {band(BW)} / 8",
               {"the whole device's bandwidth": BW, "a pair's share": 2 * share,
                "per DMA engine": share / ENGINES},
               told, label="HBM, even share")
    yield Part("DMA", ENGINES * engine, "B/s", f"16 × each = 16 × {band(engine)}",
               {"one engine": engine, "8 cores' engines": CORES * ENGINES * engine,
                "a pair's engines": 2 * ENGINES * engine}, label="DMA, all 16 engines")
    yield Choice("kind", "derived",
                 {"derived": "derived: a product, with the sources of its factors",
                  "documented": "documented: it is the guide's figure",
                  "measured": "measured: it is what a kernel reaches"},
                 "Array and clock are documented. Their product is yours; the guide prints its "
                 "own, rounded, and that stands beside it as a rival.",
                 {"documented": "The guide prints a rounded figure. This one you computed.",
                  "measured": "Nothing was run."}, label="P's kind")
    yield Choice("source", "place",
                 {"place": "the guide and the place in it, and: an eighth of its device figure",
                  "guide": "the guide", "own": "own calculation"},
                 "Then a reader finds the device figure, and sees that the division is yours.",
                 {"guide": "The guide prints no figure for a core: that is a division of yours.",
                  "own": "An eighth of what? The device figure has a source of its own."},
                 label="HBM's source")


@problem(
    "day6.do.ridges",
    ask="One core with P = {P} in bf16, fp32 at a quarter, fp8 at twice that rate, and BW = {BW}. "
        "Find the three ridges. What do you write beside them? (In JupyterLab, give your measured "
        'BW: ask("day6.do.ridges", BW="340 GB/s").)',
    fixed=day2.ROOFS, units=day2.ROOF_UNITS,
    draw=lambda r: dict(BW=r.randrange(250, 360, 5) * 1e9))
@day2.told
def do_ridges(P: float, BW: float) -> Iterator[AnyPart]:
    for name, times, how in (("bf16", 1.0, ""), ("fp32", 1 / QUARTER, " / 4"),
                             ("fp8", float(DOUBLE), " × 2")):
        value = P * times / BW
        yield Part(name, value, "FLOP/B", f"P{how} / BW = {rate(P)}{how} / {band(BW)}",
                   {UPSIDE_DOWN: 1 / value, "P of a pair over one core's BW": 2 * value,
                    **({"the sparse rate, four times that of bf16": 4 * P / BW}
                       if name == "fp8" else {}),
                    "the device's BW": value / CORES,
                    ONE_FLOP: value / 2}, label=f"Ridge in {name}")
    yield Choice("write", "figure",
                 {"figure": "which BW was used, its source, and the scope",
                  "round": "nothing: a ridge is a constant of the chip",
                  "dtype": "the dtype alone"},
                 "A ridge without its bandwidth cannot be compared with anyone else's.",
                 {"round": "Several bandwidths are about for this chip, and each has its ridge.",
                  "dtype": "It needs the dtype, and the bandwidth moves it too."},
                 label="What do you write beside them?")


@problem(
    "day6.do.limits",
    ask="Write the tile limits of one bf16 matmul instruction: the most K (partitions of both "
        "tiles), the largest free size of the stationary tile, and of the moving tile. A partition "
        "of PSUM has {psum} in {banks} banks: how many fp32 values does a bank hold in it? An "
        "output tile of {rows} × {columns}: which share of its bank does it use? Why does a full "
        "output tile fill one bank?",
    fixed=dict(psum=FACTS["psum_partition_bytes"], banks=BANKS, rows=96, columns=320),
    units=dict(psum="B"),
    draw=lambda r: (lambda banks: dict(psum=FP32 * BANK * float(banks), banks=banks,
                                       rows=r.choice((48, 80, 112)),
                                       columns=r.choice((96, 160, 448))))(
        r.choice((2, 4, 16, 32))))
def do_limits(psum: float, banks: int, rows: int, columns: int) -> Iterator[AnyPart]:
    values = psum / banks / FP32
    if values != BANK:
        raise ValueError(f"a bank has to hold {BANK} fp32 values a partition")
    if rows > TILE or columns > BANK:
        raise ValueError(f"a tile of one bank is at most {TILE} × {BANK}")
    share = rows * columns / (TILE * values)
    yield Part("K", ROWS, "", "rows of the array = 128",
               {"the moving tile's free size": WIDE, "fp8's, in double-row mode":
                FACTS["max_contraction.fp8"], "half of the partitions": TILE / 2},
               label="Most K of one instruction")
    yield Part("stationary", COLUMNS, "", "columns of the array = 128",
               {"the moving tile's limit": WIDE, "half of the columns": COLUMNS / 2,
                "both tiles together": COLUMNS + WIDE}, label="Free size of the stationary tile")
    yield Part("moving", WIDE, "", "values of a bank = 512",
               {"the stationary tile's limit": COLUMNS, "bytes counted, not values": FP32 * WIDE,
                "both tiles together": COLUMNS + WIDE}, label="Free size of the moving tile")
    yield Part("values", values, "", f"psum / banks / 4 bytes = {psum:.0f} / {banks} / 4",
               {"bytes counted, not values": 4 * values, "2 bytes a value": 2 * values,
                "all banks": banks * values}, label="fp32 values of a bank, one partition")
    yield Part("share", share, "", f"rows × columns / (128 × values) = {rows} × {columns} / (128 × "
               f"{values:.0f})",
               {"the rows that idle left out of it": columns / values,
                "the columns left out of it": rows / TILE, "all of PSUM": share / banks},
               label="Share of the bank, as a fraction or in %",
               follows=("/", rows * columns / TILE, "values"))
    yield Choice("why", "row",
                 {"row": "its rows have as many sums as a bank has fp32 values",
                  "bytes": "a bank has as many bytes as the tile has numbers",
                  "rule": "a matmul writes the whole of PSUM"},
                 "128 rows lie on 128 partitions; 512 columns × 4 bytes are 2 KiB, one bank of one "
                 "partition. The two limits are one.",
                 {"bytes": "Count again: each sum has 4 bytes, and a bank holds 512 of them a "
                           "partition.",
                  "rule": "It writes one bank and leaves seven to the next ones."},
                 label="Why one bank?")


@problem(
    "day6.do.scope",
    ask="Your kernel was launched as kernel[2]. The backend counts for each core: W = {W}, {read} "
        "read, {written} written. One core has P = {P} and BW = {BW}. At the scope of the logical "
        "core: find W and Q, P and BW, and T_best. At the scope of one core: T_best again. Which "
        "scope is right?",
    fixed=dict(day2.ROOFS, W=8e9, read=26e6, written=10e6),
    units=dict(day2.ROOF_UNITS, W="FLOP", read="B", written="B"),
    draw=lambda r: dict(W=r.choice((2e9, 5e9, 14e9, 22e9)), read=r.choice((11e6, 17e6, 39e6)),
                        written=r.choice((4e6, 7e6, 13e6))))
@day2.told
def do_scope(P: float, BW: float, W: float, read: float, written: float) -> Iterator[AnyPart]:
    Q = read + written
    best = max(W / P, Q / BW)
    yield Part("W_pair", 2 * W, "FLOP", f"2 × W = 2 × {flop(W)}",
               {"one core's figure": W, "doubled twice": 4 * W,
                "the figure of all 8 cores": CORES * W},
               label="W of the pair")
    yield Part("Q_pair", 2 * Q, "B", f"2 × (read + written) = 2 × ({byte(read)} + {byte(written)})",
               {"one core's figure": Q, "what is written left out": 2 * read,
                "doubled twice": 4 * Q,
                "what is read left out": 2 * written}, label="Q of the pair")
    yield Part("P_pair", 2 * P, "FLOP/s", f"2 × P = 2 × {rate(P)}",
               {"one core's figure": P, "the figure of all 8 cores": CORES * P,
                "doubled twice": 4 * P},
               label="P of the pair")
    yield Part("BW_pair", 2 * BW, "B/s", f"2 × BW = 2 × {band(BW)}",
               {"one core's figure": BW, "the figure of all 8 cores": CORES * BW,
                "doubled twice": 4 * BW},
               label="BW of the pair")
    slips = {"the pair's bytes and FLOPs over one core's roofs": 2 * best,
             "one core's bytes and FLOPs over the pair's roofs": best / 2,
             "the device's roofs": best / 4, "the shorter of the two times": min(W / P, Q / BW)}
    yield Part("T_pair", best, "s", "max(W_pair / P_pair, Q_pair / BW_pair) = "
               f"max({time(W / P)}, {time(Q / BW)})", slips, label="T_best of the pair",
               follows=("max", ("/", "W_pair", "P_pair"), ("/", "Q_pair", "BW_pair")))
    yield Part("T_core", best, "s", f"max(W / P, Q / BW) = max({flop(W)} / {rate(P)}, {byte(Q)} / "
               f"{band(BW)})", slips, label="T_best of one core")
    yield Choice("right", "either",
                 {"either": "either, if P, BW, W and Q are all of that scope",
                  "core": "one core only", "pair": "the logical core only"},
                 "Halve all four and the time stays. Mix them and it is off by two.",
                 {"core": "The pair's figures give the same time, if all four are the pair's.",
                  "pair": "One core's figures give the same time, if all four are one core's."},
                 label="Which scope?")


@problem(
    "day6.do.own",
    ask="Your own linear layer. " + SPLIT + "Find Q and I of the pair, and Q and I with w counted "
        "once. With the pair's P = {P} and BW = {BW}, which side of the ridge is it on, and what "
        'is T_best? (In JupyterLab, give your own: ask("day6.do.own", B=..., D=..., F=...).)',
    fixed=dict(P=PAIR.peak("bf16"), BW=PAIR.bw(), B=1024, D=1536, F=6144),
    units=day2.ROOF_UNITS,
    draw=lambda r: dict(B=256 * r.choice((1, 3, 5, 6)), D=r.choice((1024, 1280, 2048)),
                        F=512 * r.choice((3, 6, 9, 10))))
def do_own(P: float, BW: float, B: int, D: int, F: int) -> Iterator[AnyPart]:
    yield from _twice_once(B, D, F)
    x, w, y = _linear_bytes(B, D, F)
    W, Q = 2 * B * D * F, x + 2 * w + y
    yield day2._side(W, Q, P, BW)
    best = max(W / P, Q / BW)
    yield Part("T_best", best, "s", f"max(W / P, Q / BW) = max({time(W / P)}, {time(Q / BW)})",
               {"one core's P and BW": 2 * best, "the device's P and BW": best / 4,
                "the shorter of the two times": min(W / P, Q / BW)},
               follows=("max", W / P, ("/", "Q", BW)))


# --- check yourself -------------------------------------------------------------------------------

@problem(
    "day6.check.lnc",
    ask=SPLIT + "Find W, Q and I. What would Q and I be if w were counted once by mistake, and by "
        "how much would that overstate I?",
    fixed=dict(B=2048, D=1024, F=4096),
    draw=lambda r: dict(B=r.choice((512, 768, 1024)), D=r.choice((512, 768, 1536)),
                        F=r.choice((1024, 1536, 2048, 3072))))
def check_lnc(B: int, D: int, F: int) -> Iterator[AnyPart]:
    x, w, y = _linear_bytes(B, D, F)
    W, twice, once = 2 * B * D * F, x + 2 * w + y, x + w + y
    yield Part("W", W, "FLOP", f"2 B D F = 2 × {B:,} × {D:,} × {F:,}",
               {ONE_FLOP: W / 2, "one core's half of the tokens, doubled twice over": 2 * W,
                "D left out: every output takes D multiply-adds": 2 * B * F})
    yield from _twice_once(B, D, F)
    yield Part("over", twice / once - 1, "", f"Q / Q_once - 1 = {twice:,} / {once:,} - 1"
               "\nW is the same, so I_once / I is Q / Q_once.",
               {"the ratio, not what it is above 1": twice / once,
                "how much Q is understated": 1 - once / twice,
                "a factor of two, as if w were all of Q": 1}, label="I overstated by, as a "
               "fraction or in %", follows=("+", ("/", "I_once", "I"), -1.0))


@problem(
    "day6.check.eviction",
    ask="An output tile, {rows} × {columns} in fp32, is evicted from PSUM and cast to bf16 on "
        "the way. How many bytes is it? What does the eviction cost in HBM bytes? Whose time does "
        "it take? How many HBM bytes does it take to store the tile later?",
    fixed=dict(rows=TILE, columns=BANK), draw=lambda r: dict(
        rows=r.choice((32, 64, 96, 112)), columns=r.choice((64, 128, 256, 384))))
def check_eviction(rows: int, columns: int) -> Iterator[AnyPart]:
    if rows > TILE or columns > BANK:
        raise ValueError(f"a tile of one bank is at most {TILE} × {BANK}")
    yield from _evicted(rows, columns)
    yield replace(READER, label="Whose time?")
    stored = P_BF16 * rows * columns
    yield Part("store", stored, "B", f"rows × columns × 2 bytes = {rows} × {columns} × 2 bytes"
               f"\nThat is {mebi(stored)}.",
               {"fp32, as it stood in PSUM": 2 * stored, ELEMENTS: stored / 2,
                "stored and read back": 4 * stored}, label="Bytes of the store")


PROBLEMS = collect(globals())
