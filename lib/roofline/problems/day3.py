"""Day 3: P and BW from the docs.

Question  what does the architecture guide entitle a NeuronCore to, and what takes it away?
Answer    PROBLEMS, in the page's order; ids begin with day3.
Assumes   one Trainium1 NeuronCore unless said; every constant is `machine`'s
Ignores   what a run measures (Day 4), bytes that come back (Day 5), Trainium2 (Day 6)
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from .. import machine
from ..check import AnyPart, Choice, Follow, Part, collect, problem
from ..units import show
from . import day2

flop, byte, time, rate, band, per_byte = (
    partial(show, unit=unit, digits=4)
    for unit in ("FLOP", "B", "s", "FLOP/s", "B/s", "FLOP/B"))

CORE = machine.trn1
ROWS, COLUMNS, FLOOR, FAST, N_MAX = (int(CORE.facts[name].value) for name in (
    "tensor_array_rows", "tensor_array_columns", "matmul_min_initiation_interval",
    "fast_load_stationary_speedup", "gemm_moving_fmax"))
PES, CLOCK, PEAK = ROWS * COLUMNS, CORE.facts["tensor_clock"].value, CORE.peak("bf16")
QUARTER = CORE.peak("fp32") / PEAK  # the share of the peak that fp32 inputs reach

BW, DMA = CORE.bw(), CORE.bw("DMA")
ENGINES = int(CORE.facts["dma_engines"].value)
PARTITIONS = int(CORE.facts["pmax"].value)
VECTOR_CLOCK = CORE.facts["vector_clock"].value
ELEMENTS = CORE.facts["vector_element_rate"].value  # a second, one input, one pass
DEVICE = CORE.at("device")
CORES = int(DEVICE.facts["cores"].value)
DTYPES = tuple(dtype for dtype in CORE.peaks if CORE.peak(dtype) in (PEAK, CORE.peak("fp32")))

ONE_FLOP = "a multiply-add counted as one FLOP"
UPSIDE_DOWN = "the ratio upside down"
SHARE = ", as a fraction or in %"
PROFILER_CLOCK = ("the clock of the profiler's cycle counts, "
                  f"{CORE.facts['base_clock'].text}, in place of the Tensor Engine's")
SHEET_FLOPS = "the sheet's Vector FLOP rate, which counts several operations a lane"


def _fits(K: int = 1, M: int = 1, N: int = 1) -> None:
    """Raises ValueError for a tile that one matmul instruction does not take."""
    for name, size, most in (("K", K, ROWS), ("M", M, COLUMNS), ("N", N, N_MAX)):
        if size > most:
            raise ValueError(f"{name} may be at most {most} in one instruction, got {size:,}")


def _fence(count: float) -> dict[str, float]:
    """Off by one, for a count of cycles."""
    return {"one too many: the last cycle is counted, and nothing after it": count + 1,
            "the number of the last cycle: they count from 0": count - 1}


def _others(right: str, reasons: Mapping[str, str]) -> dict[str, str]:
    return {key: reason for key, reason in reasons.items() if key != right}


def _back_to_back(name: str, K: int, N: int, label: str, shares: tuple[Follow, ...] = (),
                  M: int = COLUMNS) -> Part:
    """The rate of matmuls in a row: K × M weights, N columns, bf16."""
    used, busy = K * M / PES, N / max(N, FLOOR)
    given = [f"{K} / {ROWS}"] * (K < ROWS) + [f"{M} / {COLUMNS}"] * (M < COLUMNS)
    given += [f"{N} / {FLOOR}"] * (N < FLOOR)
    return Part(name, PEAK * used * busy, "FLOP/s",
                f"P × share = {' × '.join([rate(PEAK), *given])}",
                {ONE_FLOP: PEAK * used * busy / 2,
                 "the peak, as if nothing were lost": PEAK,
                 "fp32's peak in place of bf16's": PEAK * QUARTER * used * busy,
                 **({"N and the floor added: the interval is the larger of them":
                     PEAK * used * N / (N + FLOOR)} if N < FLOOR else {}),
                 "divided by the share, not multiplied": PEAK / used / busy},
                label=label, follows=("*", PEAK, *shares) if shares else None)


# --- openers ------------------------------------------------------------------------------------

open_bound = replace(day2.open_bound, id="day3.open.bound",
                     fixed=dict(day2.ROOFS, W=24e9, Q=90e6))
open_uses = replace(day2.why_I_is_B, id="day3.open.uses", fixed=dict(B=24))


def _crossover(ridge: float, D: int, other: int) -> Iterator[AnyPart]:
    """Day 2's parts; a slip that lies near another sheet's answer keeps to unrounded ones."""
    for part in day2.check_2048.body(ridge=ridge, D=D, other=other):
        if isinstance(part, Part) and part.name == "denominator":
            part = replace(part, extra={"one of x and y left out: both have B rows": D - ridge})
        yield part


open_crossover = replace(
    day2.check_2048, id="day3.open.crossover", body=_crossover,
    fixed=dict(ridge=day2.RIDGE, D=6144, other=4096),
    ask="On one physical Trn2 core, ridge {ridge} in bf16, from which batch B on is a linear layer "
        "with D = F = {D} compute-bound? Solve I = B D / (2 B + D) = ridge: bring it to the form "
        "B × denominator = ridge × D and give ridge × D (the numerator), the denominator and B. Is "
        "that more or less than for D = F = {other}, and why?")


# --- the Tensor Engine's P ----------------------------------------------------------------------

def _halves(dtype: str, P: float) -> dict[str, float]:
    """What the device's documented figure gives a core, where P is this chip's own."""
    if P != CORE.peak(dtype):
        return {}
    spec = DEVICE.peaks[dtype].rivals[0]
    return {f"half of the device's {spec.text} ({spec.source})": spec.value / CORES}


def _peaks(rows: int, columns: int, clock: float) -> Iterator[Part]:
    pes = rows * columns
    P = pes * 2 * clock
    fp32 = P * QUARTER
    yield Part("P_bf16", P, "FLOP/s",
               f"PEs × 2 × clock = {rows} × {columns} × 2 × {show(clock, 'Hz')}",
               {ONE_FLOP: P / 2,
                "the Vector Engine's clock in place of the Tensor Engine's": P / clock *
                VECTOR_CLOCK,
                "one row of PEs, not the whole array": P / rows,
                "both cores of the device, not one": 2 * P},
               _halves("bf16", P), label="P, bf16")
    yield Part("P_fp32", fp32, "FLOP/s", f"P_bf16 / 4 = {rate(P)} / 4",
               {"bf16's rate": P, ONE_FLOP: fp32 / 2, "half of bf16's rate, by bytes": P / 2,
                "one row of PEs, not the whole array": fp32 / rows},
               _halves("fp32", fp32), label="P, fp32", follows=("*", "P_bf16", QUARTER))


GUIDE = ("A guide gives a core's Tensor Engine as a systolic array of {rows} rows and {columns} "
         "columns of PEs at {clock}. A PE does one multiply-add a cycle; fp32 inputs run at a "
         "quarter of the bf16 rate. ")
ENGINE = dict(rows=ROWS, columns=COLUMNS, clock=CLOCK)
OTHER_ENGINES = [dict(rows=rows, columns=columns, clock=clock)
                 for rows, columns in ((128, 128), (64, 64), (256, 256), (128, 64), (64, 256))
                 for clock in (1.6e9, 2e9, 2.4e9, 3e9)]


@problem(
    "day3.peak",
    ask=GUIDE + "How many PEs are there? How many FLOPs do they do a cycle? What is P in bf16, and "
        "in fp32? The Trainium1 guide prints figures slightly above this product for its own array "
        "and clock. Why?",
    fixed=ENGINE, units=dict(clock="Hz"), draw=lambda r: r.choice(OTHER_ENGINES))
def peak(rows: int, columns: int, clock: float) -> Iterator[AnyPart]:
    pes = rows * columns
    yield Part("PEs", pes, "", f"rows × columns = {rows} × {columns}",
               {"rows and columns added": rows + columns, "one row of PEs": columns,
                "half of them, as if bf16 took two": pes / 2,
                "FLOPs, two for each PE": 2 * pes}, exact=True)
    yield Part("per_cycle", 2 * pes, "FLOP", f"PEs × 2 = {pes:,} × 2",
               {ONE_FLOP: pes, "one row of PEs, not the whole array": 2 * columns,
                "the 2 of a multiply-add counted twice": 4 * pes},
               label="FLOPs a cycle", follows=("*", "PEs", 2))
    yield from _peaks(rows, columns, clock)
    yield Choice("printed", "rounded",
                 {"rounded": "it is the same product, rounded to a whole number",
                  "clock": "the engine runs at a higher clock than the table says",
                  "engines": "the other engines' FLOPs are added",
                  "sparse": "it is a sparse peak"},
                 "PEs × 2 × clock, rounded to whole TFLOP/s, is the guide's figure for bf16 and "
                 "for fp32.",
                 {"clock": "The guide's own clock gives its figure once the product is rounded.",
                  "engines": "The figure is the Tensor Engine's; the Vector Engine alone would add "
                             "more than the difference.",
                  "sparse": "A sparse peak is a multiple, not a third of a percent; this core has "
                            "none."},
                 label="Why slightly above?")


# --- the Vector Engine --------------------------------------------------------------------------

def _elements(width: int, clock: float) -> Part:
    most = width * clock
    return Part("rate", most, "element/s", f"width × clock = {width} × {show(clock, 'Hz')}",
                {"the Tensor Engine's clock in place of the Vector Engine's": width * CLOCK,
                 "all PEs of the array: a lane takes one element a cycle": PES * clock,
                 "one lane, not all of them": clock,
                 "half the width, as if bf16 took two": most / 2,
                 SHEET_FLOPS: CORE.facts["vector_peak_flops.fp32"].value},
                label="Elements a second")


def _slower(width: int, clock: float, P: float, dtype: str = "bf16") -> Iterator[Part]:
    most = width * clock
    other = {"bf16's peak in place of fp32's": P / QUARTER / most} if dtype == "fp32" else {}
    yield Part("in_FLOPs", P / most, "", f"P / rate = {rate(P)} / {show(most, 'element/s', 4)}",
               {"per multiply-add, which is two FLOPs": P / 2 / most,
                "the clocks left out: two FLOPs of each PE over the lanes": 2 * PES / width,
                UPSIDE_DOWN: most / P,
                SHEET_FLOPS: P / CORE.facts["vector_peak_flops.fp32"].value, **other},
               label="Times slower, op for FLOP", follows=("/", P, "rate"))
    yield Part("in_MACs", P / 2 / most, "",
               f"P / 2 / rate = {rate(P)} / 2 / {show(most, 'element/s', 4)}",
               {"per FLOP, of which a multiply-add has two": P / most,
                "the clocks left out: PEs over lanes": PES / width,
                UPSIDE_DOWN: most / P * 2, "halved twice: P has two FLOPs a multiply-add":
                P / 4 / most, **{label: value / 2 for label, value in other.items()}},
               label="Times slower, op for multiply-add", follows=("/", P / 2, "rate"))


@problem(
    "day3.vector",
    ask="A Vector Engine takes {width} elements a cycle at {clock}. How many elements a second is "
        "that? The Tensor Engine beside it has P = {P} in bf16. How many times slower is one "
        "Vector operation on an element than one FLOP of the Tensor Engine, and than one of its "
        "multiply-adds? How long does one pass over {n} elements take?",
    fixed=dict(width=PARTITIONS, clock=VECTOR_CLOCK, P=PEAK, n=2048 * 4096),
    units=dict(clock="Hz", P="FLOP/s"),
    draw=lambda r: dict(width=r.choice((64, 128, 256, 512)), clock=r.choice((0.8e9, 0.96e9, 1.2e9)),
                        P=r.choice((46e12, 78.6432e12, PEAK, 190e12)),
                        n=1024 * r.choice((512, 1536, 3072, 4096))))
def vector(width: int, clock: float, P: float, n: int) -> Iterator[AnyPart]:
    most = width * clock
    yield _elements(width, clock)
    yield from _slower(width, clock, P)
    yield Part("t", n / most, "s", f"n / rate = {n:,} / {show(most, 'element/s', 4)}",
               {"at the Tensor Engine's rate": n / P, "one lane, not all of them": n / clock,
                "the Tensor Engine's clock in place of the Vector Engine's": n / width / CLOCK,
                "two passes, as for two inputs": 2 * n / most},
               label="Time of one pass", follows=("/", n, "rate"))


@problem(
    "day3.cast",
    ask=f"On one Trainium1 core, P = {rate(PEAK)} in bf16, a matmul makes {{tokens}} × {{F}} "
        "results, each a sum of D = {D} multiply-adds. The Vector Engine then takes every result "
        "from PSUM to SBUF and casts it on the way: one pass with one input, "
        f"{show(ELEMENTS, 'element/s', 4)}. How long does the Tensor "
        "Engine need at its peak, and how long the cast? Adding a second tensor in that pass "
        "(two inputs) takes twice as long: how long? Above which D does the matmul "
        "take longer than the cast? With both engines at work on different tiles, which one sets "
        "the pace of matmul and cast here?",
    fixed=dict(tokens=2048, D=256, F=4096),
    draw=lambda r: dict(tokens=r.choice((512, 1024, 1536, 3072)), F=r.choice((1024, 3072, 5120)),
                        D=r.choice((96, 128, 192, 512, 768, 1024))))
def cast(tokens: int, D: int, F: int) -> Iterator[AnyPart]:
    n, W = tokens * F, 2 * tokens * D * F
    t_mm, t_cast, even = W / PEAK, n / ELEMENTS, PEAK / 2 / ELEMENTS
    elements = show(ELEMENTS, "element/s", 4)
    yield Part("t_mm", t_mm, "s", f"2 D n / P = 2 × {D:,} × {tokens:,} × {F:,} / {rate(PEAK)}",
               {ONE_FLOP: t_mm / 2, "fp32's peak in place of bf16's": t_mm / QUARTER,
                "one token counted, not all": t_mm / tokens,
                "P of both cores, not of one": t_mm / CORES}, label="Time of the matmul")
    yield Part("t_cast", t_cast, "s", f"n / rate = {tokens:,} × {F:,} / {elements}",
               {"at the Tensor Engine's peak: a cast does not run there": n / PEAK,
                "two cycles an element, as with two inputs": 2 * t_cast,
                "the Tensor Engine's clock in place of the Vector Engine's":
                t_cast * VECTOR_CLOCK / CLOCK,
                "D passes, one for each multiply-add": D * t_cast}, label="Time of the cast")
    yield Part("t_add", 2 * t_cast, "s", f"2 × t_cast = 2 × {time(t_cast)}",
               {"one cycle an element, as with one input": t_cast,
                "at the Tensor Engine's peak: an add does not run there": 2 * n / PEAK,
                "doubled twice": 4 * t_cast}, label="Time of the add", follows=("*", 2, "t_cast"))
    yield Part("D_even", even, "", f"P / 2 / rate = {rate(PEAK)} / 2 / {elements}",
               {"a result takes D FLOPs: it takes D multiply-adds": 2 * even,
                "the clocks left out: PEs over lanes": PES / PARTITIONS,
                UPSIDE_DOWN: 1 / even, "halved twice": even / 2},
               label="D at which both take equally long")
    right = "vector" if t_cast > t_mm else "tensor"
    yield Choice("pace", right,
                 {"tensor": "the Tensor Engine", "vector": "the Vector Engine",
                  "hbm": "neither: HBM always does"},
                 f"It needs {time(max(t_mm, t_cast))}; the other has {time(min(t_mm, t_cast))}.",
                 _others(right, {"tensor": "Compare the time of the cast with the matmul's.",
                                 "vector": "Compare the time of the matmul with the cast's.",
                                 "hbm": "Only if the bytes take longer still; these results may "
                                        "never leave the chip."}),
                 label="Which engine sets the pace?")


# --- BW and the ridge ---------------------------------------------------------------------------

def _their(name: str, P: float, own: float) -> dict[str, float]:
    """Rivals of this chip's share of HBM, as a bandwidth (own = BW) or as a ridge."""
    if own not in (BW, PEAK / BW):
        return {}
    found = {f"{spec.text} ({spec.source})": spec.value for spec in (
        *CORE.bandwidths["HBM"].rivals, CORE.bandwidths["DMA"])}
    return {label: value if name == "BW" else P / value for label, value in found.items()}


def _bw_ridge(BW_device: float, cores: int, P: float) -> Iterator[Part]:
    bw = BW_device / cores
    yield Part("BW", bw, "B/s", f"device / cores = {band(BW_device)} / {cores}",
               {"the device's bandwidth, not one core's share": BW_device,
                "multiplied by the cores, not divided": BW_device * cores,
                "divided by the cores twice": bw / cores,
                "bytes turned into bits, by a factor 8": 8 * bw},
               _apart(bw, _their("BW", P, bw)), label="BW of one core")
    ridge = P / bw
    device = _apart(ridge, {
        f"the device's {spec.text} over its bandwidth": spec.value / BW_device
        for spec in DEVICE.peaks["bf16"].rivals if _their("ridge", P, ridge) and P == PEAK})
    yield Part("ridge", ridge, "FLOP/B", f"P / BW = {rate(P)} / {band(bw)}",
               {"P of one core over BW of the device": P / BW_device,
                ONE_FLOP: P / 2 / bw, "P of the device over BW of one core": P * cores / bw,
                "fp32's peak in place of bf16's": QUARTER * P / bw, UPSIDE_DOWN: bw / P},
               {**_apart(ridge, _their("ridge", P, ridge)), **device},
               follows=("/", P, "BW"))


def _apart(value: float, rivals: Mapping[str, float]) -> dict[str, float]:
    """The rivals that are not what `value` is once it is rounded."""
    return {label: other for label, other in rivals.items()
            if not 0.985 < other / value < 1.015}


SHARED = ("A device has {BW_device} of HBM bandwidth, shared evenly by {cores} cores; one core has "
          "P = {P} in bf16. ")
DEVICE_ROOFS = dict(BW_device=DEVICE.bw(), cores=CORES, P=PEAK)
DEVICE_UNITS = dict(BW_device="B/s", P="FLOP/s")


@problem(
    "day3.bw_ridge",
    ask=SHARED + "What is the BW of one core? Where is its ridge? How long does a core need, at "
        "least, to read {Q}?",
    fixed=dict(DEVICE_ROOFS, Q=96e6), units=dict(DEVICE_UNITS, Q="B"),
    draw=lambda r: dict(BW_device=r.choice((0.6e12, 1e12, 1.6e12, 2.4e12)), cores=r.choice((4, 8)),
                        P=r.choice((46e12, 70e12, 120e12)), Q=r.choice((24e6, 54e6, 150e6))))
def bw_ridge(BW_device: float, cores: int, P: float, Q: float) -> Iterator[AnyPart]:
    bw = BW_device / cores
    yield from _bw_ridge(BW_device, cores, P)
    yield Part("t", Q / bw, "s", f"Q / BW = {byte(Q)} / {band(bw)}",
               {"the device's bandwidth, not one core's share": Q / BW_device,
                "bytes divided by P": Q / P, "bytes taken as bits: a factor 8": 8 * Q / bw,
                "the cores' share taken twice": Q * cores / bw},
               {label: Q / value for label, value in _apart(bw, _their("BW", P, bw)).items()},
               label="Time to read Q", follows=("/", Q, "BW"))


RIDGES = {"whole": PEAK / BW, "device": DEVICE.peaks["bf16"].rivals[0].value / DEVICE.bw(),
          "gib": PEAK / CORE.bandwidths["HBM"].rivals[0].value}
TUTORIAL = CORE.facts["documented_ridge.bf16"].value


@problem(
    "day3.ridge_of_whom",
    ask=f"Three ridges of Trainium1 are printed or shown: {RIDGES['whole']:.0f} (this page), "
        f"{RIDGES['whole']:.2f} (the profiler's Overall Summary on inf2), {TUTORIAL:.0f} (the NKI "
        f"matmul tutorial). Two more follow from other documented inputs: {RIDGES['device']:.0f} "
        f"and {RIDGES['gib']:.0f}. Where may each come from? Which of them may you use for a core?")
def ridge_of_whom() -> Iterator[AnyPart]:
    spelled, whole = CORE.bandwidths["HBM"].rivals[0], DEVICE.bandwidths["HBM"]
    chip, cut = DEVICE.peaks["bf16"].rivals[0], math.floor(PEAK / 1e12)
    origins = {"exact": f"PEs × 2 × clock over half of {whole.text}, two decimals kept",
               "whole": "the same, rounded to a whole number",
               "early": f"P cut to {cut} first, then divided by {BW / 1e12}",
               "device": f"the device's documented {chip.text} over its {whole.text}",
               "gib": f"half of {whole.value / 1e9:g} GiB/s, as one page spells it"}
    reasons = {"exact": "Divide without rounding first, and see how many decimals are kept.",
               "whole": "That keeps no decimals and rounds at the end.",
               "early": "That gives a little less than the exact quotient.",
               "device": "That has a higher peak for each core, so a higher ridge.",
               "gib": "That has a higher bandwidth, so a lower ridge."}
    whys = {"exact": f"{PEAK / 1e12:.4f} / {BW / 1e12:.2f} is {PEAK / BW:.4f}. An Inferentia2 core "
                     "is the same core.",
            "whole": "It is the exact quotient to three digits.",
            "early": f"{cut} / {BW / 1e12} is {cut * 1e12 / BW:.2f}. The tutorial shows no "
                     "arithmetic: this is what fits.",
            "device": f"{chip.value / 1e12:g} / {whole.value / 1e12:g}. Two cores at the table's "
                      f"clock make {rate(CORES * PEAK)}.",
            "gib": f"GiB makes {spelled.text} of it; what profiles divide by speaks for GB."}
    for name, origin, label in (
            ("day", "whole", f"{RIDGES['whole']:.0f}"), ("profiler", "exact",
                                                         f"{RIDGES['whole']:.2f}"),
            ("tutorial", "early", f"{TUTORIAL:.0f}"), ("larger", "device",
                                                       f"{RIDGES['device']:.0f}"),
            ("smaller", "gib", f"{RIDGES['gib']:.0f}")):
        yield Choice(name, origin, origins, whys[origin], _others(origin, reasons), label=label)
    yield Choice("use", "three",
                 {"three": "any of the first three: one quotient, rounded in three ways",
                  "exact": "the one with two decimals alone: the others are wrong",
                  "tutorial": "the tutorial's alone: it is documented",
                  "all": "all five: a ridge is a matter of taste"},
                 "They lie within one percent. The guide's inputs are not known better than that, "
                 "and a measured BW differs by more. An op so near the ridge is bound by both "
                 "roofs.",
                 {"exact": "Its inputs are rounded figures too; two more decimals are not two more "
                           "facts.",
                  "tutorial": "It is printed without its arithmetic; the guide's inputs are "
                              "documented as well.",
                  "all": "The last two have other inputs: a peak that no core reaches, and a "
                         "unit that profiles speak against."},
                 label="Which for a core?")


@problem(
    "day3.dma_roof",
    ask="HBM's share of a core is {BW}, its P in bf16 is {P}. Bytes between HBM and SBUF go "
        "through the core's {engines} DMA engines, documented at {each} each. What do they carry "
        "together? Which of the two is the slow link? Where is the ridge over the DMA engines? "
        "How long does the core need, at least, to load {Q}?",
    fixed=dict(engines=ENGINES, each=CORE.facts["dma_engine_bandwidth"].value, BW=BW, P=PEAK,
               Q=96e6),
    units=dict(each="B/s", BW="B/s", P="FLOP/s", Q="B"),
    draw=lambda r: dict(engines=r.choice((8, 16, 32)), each=r.choice((17e9, 23e9, 33e9)),
                        BW=r.choice((300e9, 375e9, 612.5e9)), P=r.choice((46e12, 78.6432e12)),
                        Q=r.choice((24e6, 54e6, 150e6))))
def dma_roof(engines: int, each: float, BW: float, P: float, Q: float) -> Iterator[AnyPart]:
    dma = engines * each
    if dma == BW:
        raise ValueError("the DMA engines have to differ from HBM's share")
    slow, ridge = min(dma, BW), P / dma
    theory = CORE.facts["dma_engine_theoretical"]
    rivals = _apart(dma, {f"{engines} × {spec.text} ({spec.source})": engines * spec.value
                          for spec in (theory, *theory.rivals) if dma == DMA})
    yield Part("dma", dma, "B/s", f"engines × each = {engines} × {band(each)}",
               {"one engine": each, "the engines of two cores": 2 * dma,
                "HBM's share given instead": BW, "bytes turned into bits, by a factor 8": 8 * dma},
               rivals, label="All DMA engines")
    right = "dma" if dma < BW else "hbm"
    yield Choice("slow", right, {"dma": "the DMA engines", "hbm": "HBM's share",
                                 "sum": "neither: their bandwidths add up"},
                 "A byte passes both, one behind the other; the lower figure sets the pace.",
                 _others(right, {"dma": "Compare it with HBM's share.",
                                 "hbm": f"With {band(each)} an engine it is not: compare it with "
                                        "what the engines carry." + " With another page's figure "
                                        "for an engine it would be." * bool(rivals),
                                 "sum": "Every byte goes through both; two links in a row do not "
                                        "add up."}), label="Which is the slow link?")
    yield Part("ridge_dma", ridge, "FLOP/B", f"P / dma = {rate(P)} / {band(dma)}",
               {"the ridge over HBM's share": P / BW, UPSIDE_DOWN: dma / P,
                ONE_FLOP: ridge / 2, "both bandwidths added": P / (dma + BW)},
               {label: P / value for label, value in rivals.items()},
               label="Ridge over the DMA engines", follows=("/", P, "dma"))
    yield Part("t", Q / slow, "s", f"Q / min(dma, BW) = {byte(Q)} / {band(slow)}",
               {"the faster of the two links": Q / max(dma, BW), "one engine": Q / each,
                "both bandwidths added": Q / (dma + BW),
                "bytes taken as bits: a factor 8": 8 * Q / slow},
               label="Time to load Q", follows=("max", ("/", Q, "dma"), Q / BW))


# --- why kernels fall short ---------------------------------------------------------------------

RUN = "Many bf16 matmuls run back to back on one Trainium1 core, their weights always in place; "
ROOFS = f"P = {rate(PEAK)}, BW = {band(BW)}. "


def _low_ridge(low: float, follows: str) -> Part:
    return Part("ridge", low / BW, "FLOP/B", f"rate / BW = {rate(low)} / {band(BW)}",
                {"the ridge of the full peak": PEAK / BW, UPSIDE_DOWN: BW / low,
                 ONE_FLOP: low / 2 / BW, "divided by the share, not multiplied":
                 PEAK * PEAK / low / BW}, label="Ridge under that ceiling",
                follows=("/", follows, BW))


def _low_side(low: float, I: float) -> Choice:
    right = "compute" if I >= low / BW else "memory"
    return Choice("side", right,
                  {"compute": "the lower ceiling: compute-bound at a reduced rate",
                   "memory": "the slanted roof: memory-bound",
                   "peak": "the full P"},
                  f"The ceiling meets the slanted roof at {per_byte(low / BW)}; the op is at "
                  f"{per_byte(I)}.",
                  _others(right, {"compute": "Compare I with the ridge under the ceiling.",
                                  "memory": "Compare I with the ridge under the ceiling, not with "
                                            "that of the full P.",
                                  "peak": "No op with these tiles reaches it."}),
                  label="What binds an op at that I?")


@problem(
    "day3.rows",
    ask=RUN + ROOFS + f"K = {{K}}, M = {COLUMNS}, N = {N_MAX}. How many PEs hold a weight, and "
        "which share of all is that? What rate is left, and where does that ceiling meet the "
        "slanted roof? What binds an op with I = {I} in such tiles?",
    fixed=dict(K=80, I=195.0), units=dict(I="FLOP/B"),
    draw=lambda r: dict(K=r.choice((16, 32, 40, 48, 72, 96, 112)),
                        I=r.choice((20.0, 70.0, 130.0, 210.0))))
def rows(K: int, I: float) -> Iterator[AnyPart]:
    _fits(K)
    if K == ROWS:
        raise ValueError(f"K has to be below {ROWS}")
    low = PEAK * K / ROWS
    yield Part("PEs", K * COLUMNS, "", f"K × {COLUMNS} = {K} × {COLUMNS}",
               {"all PEs: rows below K hold nothing": PES, "columns cut as well as rows": K * K,
                "the moving tile's columns in place of the array's": K * N_MAX},
               label="PEs with a weight", exact=True)
    yield Part("used", K / ROWS, "", f"PEs / all = {K} × {COLUMNS} / {PES:,}",
               {UPSIDE_DOWN: ROWS / K, "columns cut as well as rows": (K / ROWS) ** 2,
                "K over the moving tile's columns": K / N_MAX}, label="Share of all PEs" + SHARE,
               extra={"the idle share": 1 - K / ROWS}, follows=("/", "PEs", PES))
    yield _back_to_back("rate", K, N_MAX, "Rate left", ("used",))
    yield _low_ridge(low, "rate")
    yield _low_side(low, I)


@problem(
    "day3.floor",
    ask=RUN + f"the clock is {show(CLOCK, 'Hz')} and P = {rate(PEAK)}. A start is due every max(N, "
        f"{FLOOR}) cycles. K = M = {ROWS}, N = {{N}}. How many cycles does an instruction take, "
        "and how long is that? Which share of the cycles takes in a column, and what rate is left? "
        f"For a vector times a {ROWS} × {COLUMNS} matrix, which of the two should be the moving "
        "tile?",
    fixed=dict(N=24), draw=lambda r: dict(N=r.choice((4, 8, 12, 16, 20, 28, 36, 40, 44, 48, 52, 56,
                                                      96, 192, 256, 384))))
def floor(N: int) -> Iterator[AnyPart]:
    _fits(1, 1, N)
    cycles = max(N, FLOOR)
    lone = N + ROWS + COLUMNS - 2
    yield Part("cycles", cycles, "cycle", f"max(N, {FLOOR}) = max({N}, {FLOOR})",
               {"N and the floor added": N + FLOOR,
                "the cycles of a lone matmul, which do not repeat": lone,
                **({"the floor left out: N alone": N} if N < FLOOR else
                   {"the floor, though N is above it": FLOOR}), **_fence(cycles)},
               label="Cycles an instruction", exact=True)
    yield Part("t", cycles / CLOCK, "s", f"cycles / clock = {cycles} / {show(CLOCK, 'Hz')}",
               {"the Vector Engine's clock in place of the Tensor Engine's": cycles / VECTOR_CLOCK,
                PROFILER_CLOCK:
                cycles / CORE.facts["base_clock"].value,
                "the cycles of a lone matmul, which do not repeat": lone / CLOCK,
                **({"the floor left out: N alone": N / CLOCK} if N < FLOOR else {})},
               label="Time of an instruction", follows=("/", "cycles", CLOCK))
    busy = N / cycles
    yield Part("busy", busy, "", f"N / cycles = {N} / {cycles}",
               {"the ratio upside down" if N < FLOOR else "the floor over N": FLOOR / N,
                "N over the largest moving tile" if N < N_MAX else "half of it": N / N_MAX
                if N < N_MAX else 0.5,
                "N over the rows of the array": N / ROWS, "a lone matmul's share": N / lone},
               label="Share of cycles used" + SHARE, follows=("/", N, "cycles"))
    left = PEAK * busy
    yield Part("rate", left, "FLOP/s", f"P × share = {rate(PEAK)} × {N} / {cycles}",
               {ONE_FLOP: left / 2, "fp32's peak in place of bf16's": left * QUARTER,
                "a lone matmul's share": PEAK * N / lone,
                **({"the peak, as if nothing were lost": PEAK} if N < FLOOR else {}),
                "both cores of the device, not one": 2 * left}, label="Rate left",
               follows=("*", PEAK, "busy"))
    yield Choice("moving", "vector",
                 {"vector": "the vector", "matrix": "the matrix", "same": "it makes no difference"},
                 f"Then N = 1: one cycle in {FLOOR} takes a column in. With the vector stationary, "
                 f"M = 1: one column of PEs in {COLUMNS} is in use. And weights load up to {FAST} "
                 "times faster than they stream. The guide recommends it too.",
                 {"matrix": f"Then M = 1, and {COLUMNS - 1} of {COLUMNS} columns of PEs idle.",
                  "same": f"Compare 1 cycle in {FLOOR} with 1 column in {COLUMNS}."},
                 label="Which is the moving tile?")


@problem(
    "day3.dtype",
    ask=f"A kernel on one Trainium1 core, P = {rate(PEAK)} in bf16, a quarter of that in fp32, BW "
        f"= {band(BW)}, does W = {{W}} and moves Q = {{Q}} in bf16. What is its T_best? The same "
        "kernel with fp32 inputs and outputs: I, the ridge, T_best? The tensors come in as fp32 "
        "and bf16 is precise enough. What does the guide recommend?",
    fixed=dict(W=60e9, Q=150e6), units=dict(W="FLOP", Q="B"),
    draw=lambda r: dict(W=r.choice((8e9, 16e9, 30e9, 70e9)),
                        Q=r.choice((40e6, 90e6, 240e6, 500e6))))
def dtype(W: float, Q: float) -> Iterator[AnyPart]:
    P32 = PEAK * QUARTER
    two, four = max(W / PEAK, Q / BW), max(W / P32, 2 * Q / BW)
    yield Part("T_bf16", two, "s", f"max(W / P, Q / BW) = max({time(W / PEAK)}, {time(Q / BW)})",
               {"the shorter of the two times": min(W / PEAK, Q / BW),
                "the two times added, as without overlap": W / PEAK + Q / BW,
                "P and BW of both cores": two / CORES}, label="T_best, bf16")
    yield Part("I_fp32", W / Q / 2, "FLOP/B", f"W / (2 Q) = {flop(W)} / (2 × {byte(Q)})",
               {"bf16's: an fp32 number is twice the bytes": W / Q,
                "bytes halved, not doubled": 2 * W / Q,
                "a quarter, as of P: bytes double": W / Q / 4, UPSIDE_DOWN: 2 * Q / W},
               label="I, fp32")
    yield Part("ridge_fp32", P32 / BW, "FLOP/B", f"P / BW = {rate(P32)} / {band(BW)}",
               {"bf16's ridge": PEAK / BW, "half of bf16's, by bytes": PEAK / 2 / BW,
                UPSIDE_DOWN: BW / P32, "P of one core over BW of the device": P32 / BW / CORES},
               label="Ridge, fp32")
    yield Part("T_fp32", four, "s",
               f"max(W / P, 2 Q / BW) = max({time(W / P32)}, {time(2 * Q / BW)})",
               {"bf16's time": two, "bf16's peak: fp32 has a quarter": max(W / PEAK, 2 * Q / BW),
                "the shorter of the two times": min(W / P32, 2 * Q / BW),
                "the two times added, as without overlap": W / P32 + 2 * Q / BW,
                "P and BW of both cores": four / CORES}, label="T_best, fp32")
    yield Choice("remedy", "cast",
                 {"cast": "cast the inputs to bf16 before the matmul",
                  "tiles": "larger tiles", "vector": "do the products on the Vector Engine",
                  "psum": "accumulate in bf16 as well"},
                 "The rate depends on the inputs' dtype; sums are kept in fp32 either way. The "
                 "cast itself costs Vector time.",
                 {"tiles": "A full tile in fp32 still takes about four times the cycles.",
                  "vector": "It is hundreds of times slower per multiply-add.",
                  "psum": "On this core sums are fp32 whatever comes in, at no cost in rate."},
                 label="What does the guide recommend?")


@problem(
    "day3.small_dma",
    ask=f"A tile of {PARTITIONS} partitions is loaded by {ENGINES} DMA engines, "
        f"{band(DMA / ENGINES)} each; every partition gets {{S}}. What an engine moves of it is "
        "one transfer. Suppose a transfer has a fixed latency of "
        f"{show(CORE.facts['dma_fixed_latency'].value, 's')} and begins only when the "
        "one before is done. How many bytes does an engine move for the tile? How long does it "
        "move them? Which share of its time is that, and what do all engines reach? The DMA guide "
        f"says that from {CORE.facts['dma_saturating_bytes'].text} a partition on the engines are "
        "saturated. What does that say of the supposition?",
    fixed=dict(S=1024), units=dict(S="B"),
    draw=lambda r: dict(S=r.choice((64, 128, 256, 384, 512, 768, 1536, 2048, 3072, 4096, 6144, 8192,
                                    12288, 16384, 24576, 32768))))
def small_dma(S: int) -> Iterator[AnyPart]:
    lanes, each = PARTITIONS // ENGINES, DMA / ENGINES
    latency, load = CORE.facts["dma_fixed_latency"].value, S * PARTITIONS // ENGINES
    move = load / each
    enough = CORE.facts["dma_saturating_bytes"]
    full = enough.value * lanes / each
    share = move / (move + latency)
    yield Part("bytes", load, "B", f"partitions / engines × S = {PARTITIONS} / {ENGINES} × {S:,} "
               "bytes", {"one partition, not an engine's share of them": S,
                         "the whole tile, not one engine's share": S * PARTITIONS,
                         "an engine's share of one partition": S / ENGINES},
               label="Bytes of one engine")
    yield Part("move", move, "s", f"bytes / each = {load:,} bytes / {band(each)}",
               {"one partition, not an engine's share of them": move / lanes,
                "the whole tile on one engine": move * ENGINES,
                "HBM's share in place of an engine": load / BW,
                "bytes taken as bits: a factor 8" if lanes != 8 else "the engine's share twice":
                move * 8}, label="Time it moves bytes", follows=("/", "bytes", each))
    yield Part("share", share, "", f"move / (move + latency) = {time(move)} / ({time(move)} + "
               f"{time(latency)})",
               {"the latency left out of the whole": move / latency, "the share of the latency":
                1 - share, "one partition, not an engine's share of them":
                move / lanes / (move / lanes + latency)},
               label="Share of its time" + SHARE, follows=("/", "move", ("+", "move", latency)))
    yield Part("rate", share * DMA, "B/s", f"share × engines × each = {share:.7g} × {ENGINES} × "
               f"{band(each)}",
               {"one engine, not all": share * each, "the engines' peak": DMA,
                "HBM's share in place of the engines": share * BW,
                "the share of the latency": (1 - share) * DMA},
               label="Bandwidth of all engines", follows=("*", "share", DMA))
    yield Choice("guide", "flight",
                 {"flight": "it is too strict: transfers wait in queues, so the next one's latency "
                            "can pass while this one moves",
                  "gone": "a transfer that large has no latency",
                  "hbm": "HBM spreads bytes over its channels, so sizes do not matter",
                  "holds": "nothing: both give the same figure"},
                 f"At {enough.text} a partition an engine moves "
                 f"{enough.value * lanes / 1024:g} KiB in {show(full, 's')}. With "
                 f"{show(latency, 's')} before it that is {full / (full + latency):.0%} of its "
                 "time, "
                 f"{show(DMA * full / (full + latency), 'B/s')} in all; yet the guide calls that "
                 "size saturated. An engine "
                 "moves one transfer at a time (architecture guide), out of several queues that "
                 "take turns (DMA introduction). That latency passes meanwhile is an inference; "
                 "Day 4 measures it.",
                 {"gone": "The latency is per transfer, whatever its size.",
                  "hbm": "The DMA guide says the opposite: interleaving does not make small "
                         "transfers fast.",
                  "holds": "Put that size in: one at a time does not come near the peak."},
                 label="What does that say?")


@problem(
    "day3.fade.tile",
    ask=RUN + ROOFS + f"The clock is {show(CLOCK, 'Hz')}. K = {{K}}, M = {COLUMNS}, N = {{N}}. The "
        f"rows leave {{K}} / {ROWS} of P. Which share does N leave? What is the rate, the time of "
        "an instruction, and the ridge under that ceiling? What binds an op with I = {I}?",
    fixed=dict(K=96, N=40, I=90.0), units=dict(I="FLOP/B"),
    draw=lambda r: dict(K=r.choice((32, 48, 80, 112)), N=r.choice((8, 16, 20, 28, 48, 56)),
                        I=r.choice((20.0, 60.0, 120.0, 180.0))))
def fade_tile(K: int, N: int, I: float) -> Iterator[AnyPart]:
    _fits(K, 1, N)
    if N >= FLOOR:
        raise ValueError(f"N has to be below {FLOOR}")
    yield _busy(N)
    low = _back_to_back("rate", K, N, "Rate left", (K / ROWS, "busy"))
    yield replace(low, slips={**low.slips, "the rows alone: N takes its share too": PEAK * K / ROWS,
                              "N alone: the rows take their share too": PEAK * N / FLOOR})
    yield _instruction(N)
    yield _low_ridge(low.value, "rate")
    yield _low_side(low.value, I)


def _busy(N: int) -> Part:
    return Part("busy", N / max(N, FLOOR), "", f"N / max(N, {FLOOR}) = {N} / {max(N, FLOOR)}",
                {"N over the largest moving tile": N / N_MAX, "N over the rows of the array":
                 N / ROWS, "N over N and the floor together": N / (N + FLOOR),
                 "the floor over N": FLOOR / N}, label="Share that N leaves" + SHARE)


def _instruction(N: int, slow: float = 1) -> Part:
    cycles = max(N, FLOOR) / slow
    how = f"max({N}, {FLOOR})" + (f" × {1 / slow:g}" if slow < 1 else "")
    return Part("t", cycles / CLOCK, "s", f"cycles / clock = {how} / {show(CLOCK, 'Hz')}",
                {"the Vector Engine's clock in place of the Tensor Engine's": cycles / VECTOR_CLOCK,
                 "N and the floor added": (N + FLOOR) / slow / CLOCK,
                 PROFILER_CLOCK:
                 cycles / CORE.facts["base_clock"].value,
                 **({"fp32's factor of four left out": cycles * slow / CLOCK} if slow < 1 else {}),
                 **({"the floor left out: N alone": N / CLOCK / slow} if N < FLOOR else {})},
                label="Time of an instruction")


@problem(
    "day3.fade.all",
    ask=RUN + ROOFS + "K = {K}, M = {M}, N = {N}. Which share of the PEs is used? Which share of "
        "the cycles? What is the rate, and the ridge under that ceiling? At which rate does an op "
        "with I = {I} run at best, and what binds it?",
    fixed=dict(K=112, M=64, N=48, I=120.0), units=dict(I="FLOP/B"),
    draw=lambda r: dict(K=r.choice((48, 80, 96, 112)), M=r.choice((32, 48, 96)),
                        N=r.choice((16, 24, 40, 56)), I=r.choice((10.0, 30.0, 70.0, 120.0))))
def fade_all(K: int, M: int, N: int, I: float) -> Iterator[AnyPart]:
    _fits(K, M, N)
    if M == COLUMNS or N >= FLOOR:
        raise ValueError(f"M has to be below {COLUMNS} and N below {FLOOR}")
    yield _used(K, M)
    yield _busy(N)
    low = _back_to_back("rate", K, N, "Rate left", ("used", "busy"), M)
    yield replace(low, slips={**low.slips, "M left out: idle columns do nothing either":
                              low.value * COLUMNS / M,
                              "N left out: the floor takes its share too": low.value * FLOOR / N})
    yield _low_ridge(low.value, "rate")
    best = min(low.value, I * BW)
    yield Part("best", best, "FLOP/s",
               f"min(rate, I × BW) = min({rate(low.value)}, {rate(I * BW)})",
               {"the higher of the two roofs": max(low.value, I * BW), "the full P": PEAK,
                "I × BW of the device": I * BW * CORES, "half of it: a multiply-add is one FLOP":
                best / 2}, label="Rate at best at that I")
    yield _low_side(low.value, I)


def _used(K: int, M: int) -> Part:
    return Part("used", K * M / PES, "", f"K M / PEs = {K} × {M} / {PES:,}",
                {"the rows alone: idle columns do nothing either" if M < COLUMNS else
                 "the columns cut as the rows are": K / ROWS if M < COLUMNS else (K / ROWS) ** 2,
                 "M over the moving tile's largest N": K * M / ROWS / N_MAX,
                 "the two shares averaged": (K / ROWS + M / COLUMNS) / 2,
                 UPSIDE_DOWN: PES / K / M},
                label="Share of PEs at work" + SHARE, extra={"the idle share": 1 - K * M / PES})


# --- Do -----------------------------------------------------------------------------------------

@problem(
    "day3.do.peak",
    ask=GUIDE + "Derive P in bf16 and in fp32.",
    fixed=ENGINE, units=dict(clock="Hz"), draw=lambda r: r.choice(OTHER_ENGINES))
def do_peak(rows: int, columns: int, clock: float) -> Iterator[AnyPart]:
    yield from _peaks(rows, columns, clock)


@problem(
    "day3.do.vector",
    ask="The engine table gives the Vector Engine {width} elements a cycle at {clock}; the Tensor "
        "Engine has P = {P} in fp32. How many elements a second is that? How many times slower is "
        "one Vector operation an element than an fp32 matmul, per FLOP and per multiply-add?",
    fixed=dict(width=PARTITIONS, clock=VECTOR_CLOCK, P=CORE.peak("fp32")),
    units=dict(clock="Hz", P="FLOP/s"),
    draw=lambda r: dict(width=r.choice((64, 128, 256, 512)), clock=r.choice((0.8e9, 0.96e9, 1.2e9)),
                        P=r.choice((11.5e12, 19.6608e12, 47.5e12))))
def do_vector(width: int, clock: float, P: float) -> Iterator[AnyPart]:
    yield _elements(width, clock)
    yield from _slower(width, clock, P, "fp32")


@problem(
    "day3.do.bw_ridge",
    ask=SHARED + "Compute the BW of one core and the ridge.",
    fixed=DEVICE_ROOFS, units=DEVICE_UNITS,
    draw=lambda r: dict(BW_device=r.choice((0.6e12, 1e12, 1.6e12, 2.4e12)), cores=r.choice((4, 8)),
                        P=r.choice((46e12, 70e12, 120e12))))
def do_bw_ridge(BW_device: float, cores: int, P: float) -> Iterator[AnyPart]:
    yield from _bw_ridge(BW_device, cores, P)


@problem(
    "day3.do.own",
    ask="Your own tile on one Trainium1 core: K = {K}, M = {M}, N = {N}, inputs in {dtype}, back "
        f"to back, weights always in place; P = {rate(PEAK)} in bf16, the clock is "
        f"{show(CLOCK, 'Hz')}. Which share of the PEs is used? How long does an instruction take? "
        'What is the rate? (In JupyterLab, give your own: ask("day3.do.own", K=..., M=..., N=..., '
        'dtype="fp32").)',
    fixed=dict(K=80, M=128, N=384, dtype="fp32"), one_of=dict(dtype=DTYPES),
    draw=lambda r: dict(K=r.choice((32, 48, 64, 96, 112)), M=r.choice((48, 64, 96, 128)),
                        N=r.choice((16, 32, 48, 96, 256, 512)), dtype=r.choice(DTYPES)))
def do_own(K: int, M: int, N: int, dtype: str) -> Iterator[AnyPart]:
    _fits(K, M, N)
    slow = CORE.peak(dtype) / PEAK
    yield _used(K, M)
    yield _instruction(N, slow)
    cycles = max(N, FLOOR) / slow
    left = 2 * K * M * N / (cycles / CLOCK)
    yield Part("rate", left, "FLOP/s",
               f"2 K M N / t = 2 × {K} × {M} × {N} / {time(cycles / CLOCK)}",
               {ONE_FLOP: left / 2, "the peak, as if nothing were lost": PEAK * slow,
                "bf16's rate: fp32 inputs take four times as long" if slow < 1 else
                "fp32's rate": left / slow if slow < 1 else left * QUARTER,
                "both cores of the device, not one": 2 * left}, label="Rate of your tile",
               follows=("/", 2 * K * M * N, "t"))


# --- check yourself -----------------------------------------------------------------------------

@problem(
    "day3.check.small_tiles",
    ask="On Trainium1, what is the effective Tensor Engine rate for back-to-back bf16 matmuls with "
        f"K = {{K}} and N = {N_MAX}? With K = {ROWS} and N = {{N}}? M is {COLUMNS} in both. How "
        "long does an instruction of the second kind take?",
    fixed=dict(K=64, N=32),
    draw=lambda r: dict(K=r.choice((16, 24, 32, 48, 80, 96, 112)), N=r.choice((8, 16, 20, 40, 48))))
def check_small_tiles(K: int, N: int) -> Iterator[AnyPart]:
    _fits(K, 1, N)
    if K == ROWS or N >= FLOOR:
        raise ValueError(f"K has to be below {ROWS} and N below {FLOOR}")
    first = _back_to_back("rate_K", K, N_MAX, f"Rate, K = {K}, N = {N_MAX}")
    yield replace(first, why=f"{first.why}\n{K} of {ROWS} rows of PEs are in use. N = {N_MAX} is "
                             f"above {FLOOR}, so there is no extra loss.")
    second = _back_to_back("rate_N", ROWS, N, f"Rate, K = {ROWS}, N = {N}")
    yield replace(second, why=f"{second.why}\nAn instruction takes max({N}, {FLOOR}) = {FLOOR} "
                              f"cycles and does {N} cycles of work.")
    yield replace(_instruction(N), label=f"Instruction, K = {ROWS}, N = {N}")
    yield Choice("why", "each",
                 {"each": "the first leaves PEs without weights, the second cycles without columns",
                  "swapped": "the first leaves cycles without columns, the second PEs without "
                             "weights",
                  "gaps": "between two instructions the engine is idle, both times",
                  "bytes": "HBM cannot deliver the tiles any faster"},
                 "K is what lies across the rows of PEs, N what streams in column by column.",
                 {"swapped": "Look at which size lies across the rows, and which one streams in.",
                  "gaps": "They run back to back: a profile shows the engine active throughout.",
                  "bytes": "Nothing here depends on where the tiles come from."},
                 label="Why is neither at P?")


# --- the clockwork ------------------------------------------------------------------------------

ARRAY = f"an array of {ROWS} × {COLUMNS} PEs"
BACK_TO_BACK = "Many matmuls run back to back, bf16, their weights always in place. "


@problem(
    "day3.clock.lone",
    ask="One matmul runs alone, its weights in place. Moving column n meets the PE in row k and "
        "column m at cycle n + k + m; n, k, m and the cycles count from 0. How many cycles is it "
        "from the start until the last multiply-add is done: on an array of {side} × {side} PEs "
        f"with K = M = {{side}} and N = {{few}}, and on {ARRAY} with K = {{K}}, M = {{M}} and N = "
        "{N}? How many multiply-adds does the second one do, and which share is that of what all "
        "its PEs could do in these cycles?",
    fixed=dict(side=5, few=7, K=128, M=128, N=512),
    draw=lambda r: dict(side=r.choice((4, 5, 6, 7)), few=r.choice((6, 8, 9, 10, 11)),
                        K=r.choice((32, 48, 64, 96, 128)), M=r.choice((32, 48, 64, 96, 128)),
                        N=r.choice((96, 192, 256, 320, 384, 448, 512))))
def clock_lone(side: int, few: int, K: int, M: int, N: int) -> Iterator[AnyPart]:
    _fits(K, M, N)
    cycles, macs = N + K + M - 2, K * M * N
    yield _lone("small", side, side, few, f"Cycles, {side} × {side} PEs, N = {few}")
    yield _lone("cycles", K, M, N, f"Cycles, {ROWS} × {COLUMNS} PEs, N = {N}")
    yield Part("macs", macs, "", f"K M N = {K} × {M} × {N}",
               {"FLOPs, two for each multiply-add": 2 * macs,
                "K left out: a result takes K multiply-adds": M * N,
                "one moving column, not all N": K * M,
                "all PEs taken to be busy in every cycle": PES * cycles},
               label="Multiply-adds", exact=True)
    yield Part("share", macs / (PES * cycles), "",
               f"K M N / (PEs × cycles) = {macs:,} / ({PES:,} × {cycles:,})",
               {"FLOPs over PE cycles: a PE does one multiply-add a cycle": 2 * macs / PES / cycles,
                "the PEs in use alone, with no cycle to fill and to drain": K * M / PES,
                "the ratio upside down": PES * cycles / macs},
               label="Share of the PEs' cycles" + SHARE,
               follows=("/", "macs", ("*", PES, "cycles")),
               extra={"the idle share": 1 - macs / (PES * cycles)})


def _lone(name: str, K: int, M: int, N: int, label: str) -> Part:
    """The cycles of one matmul, from the first multiply-add to the last."""
    cycles = N + K + M - 2
    down = "the way down the rows alone: the columns lie behind each other too"
    along = "the way along the columns alone: the rows lie below each other too"
    return Part(name, cycles, "cycle", f"(N - 1) + (K - 1) + (M - 1) + 1 = {N} + {K} + {M} - 2",
                {**_fence(cycles), "N + K + M: all three count from 0": cycles + 2,
                 "N alone, as if every PE began at once": N,
                 **({down: N + K - 1, along: N + M - 1} if K != M else
                    {"one way through the array alone: rows and columns both add": N + K - 1}),
                 "each moving column kept back until the one before has left": N * (K + M - 1)},
                label=label, exact=True)


@problem(
    "day3.clock.small",
    ask=BACK_TO_BACK + f"A matmul starts every max(N, {FLOOR}) cycles; the clock is "
        f"{show(CLOCK, 'Hz')}. With K = {{K}}, M = {COLUMNS} and N = {N_MAX}: which share of the "
        f"PEs works, and at which rate does the engine run? With K = {ROWS}, M = {COLUMNS} and "
        "N = {N}: how many cycles apart do two starts lie, and at which rate does it run?",
    fixed=dict(K=96, N=20),
    draw=lambda r: dict(K=r.choice((16, 24, 32, 40, 48, 64, 80, 112)),
                        N=r.choice((8, 16, 24, 32, 40, 48))))
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
                "the cycles of a lone matmul, which do not repeat": N + ROWS + COLUMNS - 2,
                **_fence(FLOOR)}, label="Cycles between starts", exact=True)
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
    whole = M % FAST == 0
    yield Part("load", load, "cycle", f"M / {FAST} = {M} / {FAST}",
               {**_fence(load),
                "one column a cycle, as a matmul takes them": M, "a row a cycle, K of them": ROWS,
                "the factor multiplied, not divided": M * FAST,
                "the cycles of the moving tile": N}
               if M != ROWS else
               {**_fence(load), "one column or row a cycle, as a matmul takes them": M,
                "the factor multiplied, not divided": M * FAST,
                "every weight a cycle of its own": M * ROWS}, label="Cycles of a load",
               exact=whole)
    yield Part("hidden", hidden, "cycle", f"max(N, {FLOOR}, load) = max({N}, {FLOOR}, {load:g})",
               {"the load added: that is when it shows": hidden + load,
                "a load of one column a cycle, and added": hidden + M,
                "the cycles of a lone matmul, which do not repeat": N + M + ROWS - 2,
                "the load alone: the matmul takes longer": load, **_fence(hidden)},
               label="Interval, load hidden", exact=True)
    for name, n, label in (("shown", N, f"N = {N}"), ("shown_short", short, f"N = {short}")):
        busy = max(n, FLOOR)
        apart = busy + load
        yield Part(name, apart, "cycle", f"max(N, {FLOOR}) + load = max({n}, {FLOOR}) + {load:g}",
                   {"the load left out, as if hidden": busy,
                    "a load of one column a cycle": busy + M,
                    "the load alone": load,
                    "the cycles of a lone matmul, which do not repeat": n + M + ROWS - 2,
                    **_fence(apart)},
                   label=f"Interval, load shown, {label}", follows=("+", busy, "load"),
                   exact=whole)
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
        f"{ROWS}, N = {N_MAX}. (b) Matmuls back to back, weights in place, K = {ROWS // 2}, M "
        f"= {COLUMNS}, N = {N_MAX}. (c) Likewise, K = M = {ROWS}, N = {FLOOR // 2}. (d) K = M = "
        f"{ROWS}, N = {N_MAX}, each with new weights that load after the matmul before has gone "
        "in. And why do matmuls back to back not pay (a) each time?")
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
