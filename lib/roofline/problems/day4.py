"""Day 4: spec and measured.

Question  which bandwidth and which compute rate does a kernel reach, and why not the spec figure?
Answer    PROBLEMS, in the page's order; ids begin with day4.
Assumes   one core unless said; what a profile shows is an input: made up for the exercise,
          published where the question says so, or the reader's own
Ignores   reading a whole profile (Day 7); bytes that come back (Day 5)
"""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from .. import machine
from ..check import AnyPart, Choice, Part, collect, problem
from ..ops import BYTES
from ..units import mebi, show
from . import day1, day2, day3
from .day3 import ONE_FLOP

flop, byte, time, rate, band, clock_, per_byte = (
    partial(show, unit=unit, digits=4)
    for unit in ("FLOP", "B", "s", "FLOP/s", "B/s", "Hz", "FLOP/B"))

TRN1, TRN2 = machine.trn1, machine.trn2
DEVICE = TRN2.at("device")
FACTS1 = {name: spec.value for name, spec in TRN1.facts.items()}
CORES1, CORES2 = (int(chip.at("device").facts["cores"].value) for chip in (TRN1, TRN2))
PARTITIONS, ENGINES, LANES = (int(FACTS1[name]) for name in (
    "pmax", "dma_engines", "dma_partitions_per_engine"))
EACH, MOST = FACTS1["dma_engine_bandwidth"], FACTS1["dma_engine_theoretical"]
ROWS, COLUMNS, N_MAX, FLOOR = (int(FACTS1[name]) for name in (
    "tensor_array_rows", "tensor_array_columns", "gemm_moving_fmax",
    "matmul_min_initiation_interval"))
P1, P2, BW1, BW2 = TRN1.peak("bf16"), TRN2.peak("bf16"), TRN1.bw(), TRN2.bw()
P_BF16 = BYTES["bf16"]

KIB, MIB, GIB = 2**10, 2**20, 2**30
UPSIDE_DOWN = "the ratio upside down"
BITS = "bytes turned into bits, by a factor 8"
ONE_WAY = "one direction alone, though every byte goes in and out again"
SHARE = ", as a fraction or in %"
OWN = "Until you have readings of your own, take these, which are made up: "


def _others(right: str, reasons: Mapping[str, str]) -> dict[str, str]:
    return {key: reason for key, reason in reasons.items() if key != right}


# --- what several problems ask --------------------------------------------------------------------

def _bytes(size: int) -> Part:
    """What a copy of `size` bytes moves."""
    return Part("bytes", 2 * size, "B", f"in + out = {size:,} bytes + {size:,} bytes\n"
                f"That is {mebi(2 * size, 6)}, or {2 * size:,} bytes.",
                {ONE_WAY: size, "both directions, and then doubled once more": 4 * size,
                 BITS: 16 * size},
                label="Bytes moved",
                extra={"MB taken for MiB": 2e6 * size / MIB})


def _reached(size: int, t: float, name: str = "BW", label: str = "", what: str = "t",
             slips: Mapping[str, float] | None = None) -> Part:
    """What a copy of `size` bytes in the time `t` reaches."""
    bw = 2 * size / t
    return Part(name, bw, "B/s", f"bytes / {what} = {2 * size:,} bytes / {time(t)}",
                {ONE_WAY: bw / 2, BITS: 8 * bw,
                 "both directions, and then doubled once more": 2 * bw, **(slips or {})},
                label=label, follows=("/", "bytes", t),
                extra={"MB taken for MiB": 1e6 * bw / MIB})


def _of_spec(value: float, spec: float, others: Mapping[str, float], unit: str, of: str,
             name: str = "share", label: str = "Share of the spec figure",
             rivals: Mapping[str, float] | None = None) -> Part:
    """A measured figure as a share of a spec one; `others` are spec figures that are not it."""
    told = partial(show, unit=unit, digits=4)
    return Part(name, value / spec, "", f"{of} / spec = {told(value)} / {told(spec)}",
                {UPSIDE_DOWN: spec / value,
                 **{why: value / other for why, other in others.items()}},
                {why: value / other for why, other in (rivals or {}).items()},
                label=label + SHARE, follows=("/", of, spec),
                extra={"what is lost, not what is reached": 1 - value / spec})


NEAR = 0.05  # two rates closer than this count as the same
REACH = 0.95  # share of the best rate from which on a curve counts as flat


# --- openers --------------------------------------------------------------------------------------

open_ridge = replace(
    day1.bound, id="day4.open.ridge",
    ask="Day 1. A machine with P = {P} and BW = {BW} runs a kernel with W = {W} and Q = {Q}. Find "
        "its intensity I, the ridge, the roof that binds, the time with full overlap (T_best), the "
        "time with none (T_worst) and the entitled rate W / T_best.",
    fixed=dict(P=80e12, BW=200e9, W=20e9, Q=160e6),
    draw=lambda r: dict(P=80e12, BW=200e9, W=r.choice((5e9, 10e9, 24e9, 36e9, 100e9, 120e9)),
                        Q=r.choice((40e6, 70e6, 110e6, 140e6, 210e6))))

open_layer = replace(
    day2.fade_prefill, id="day4.open.layer",
    ask="Day 2. A layer on one physical Trn2 core, P = {P} in bf16 and BW = {BW}: " + day2.LAYER +
        "Its work W is 2 × {B} × {D} × {F} FLOP. Find Q, then I and the side of the ridge, T_flop "
        "and T_byte, and T_best.",
    fixed=dict(day2.ROOFS, B=96, D=2560, F=5120),
    draw=lambda r: dict(B=r.choice((48, 128, 320, 640)), D=r.choice((1536, 2560, 3072)),
                        F=r.choice((3072, 5120, 6144))))

open_array = replace(
    day3.check_small_tiles, id="day4.open.array", fixed=dict(K=112, N=24),
    ask="Day 3. " + day3.check_small_tiles.ask)

open_trn1 = replace(
    day3.bw_ridge, id="day4.open.trn1", fixed=dict(day3.DEVICE_ROOFS, Q=36e6),
    ask="Day 3. A Trainium1 device, as its guide has it. " + day3.bw_ridge.ask)


# --- the copy -------------------------------------------------------------------------------------

@problem(
    "day4.copy",
    ask="A copy kernel on one Trn2 core reads {size} from HBM and writes it back. The profile "
        "shows {t}. How many bytes moved? What is the measured BW, and what percent of the {spec} "
        "per-core share is it? How long would the same copy take at exactly that share?",
    fixed=dict(size=64 * MIB, t=400e-6, spec=BW2), units=dict(size="B", t="s", spec="B/s"),
    draw=lambda r: (lambda size, bw: dict(
        size=size, spec=r.choice((TRN2.bandwidths["HBM"].rivals[0].value, 350e9)),
        t=float(f"{2 * size / bw:.3g}")))(MIB * r.choice((16, 24, 48, 96, 160, 256)),
                                          r.randrange(240, 345, 7) * 1e9))
def copy(size: int, t: float, spec: float) -> Iterator[AnyPart]:
    moved = 2 * size
    rivals = {f"a share of {other.text} ({other.source})": other.value
              for other in (*TRN2.bandwidths["HBM"].rivals, TRN2.bandwidths["DMA"])
              if spec == BW2}
    yield _bytes(size)
    yield _reached(size, t)
    yield _of_spec(moved / t, spec, {
        f"the {DEVICE.bandwidths['HBM'].text} of the device, not one core's share": DEVICE.bw(),
        "a pair's share, twice that of a core, or one direction alone": 2 * spec,
        "the share of a Trainium1 core": BW1}, "B/s", "BW", rivals=rivals)
    yield Part("T_spec", moved / spec, "s", f"bytes / share = {moved:,} bytes / {band(spec)}",
               {ONE_WAY: size / spec, "the bandwidth of the device, not one core's share":
                moved / DEVICE.bw(), "the share of a Trainium1 core": moved / BW1,
                "at the measured rate, which is the time of the profile": t},
               {why: moved / other for why, other in rivals.items()},
               label="Time at the share", follows=("/", "bytes", spec))


# --- which clock ----------------------------------------------------------------------------------

@problem(
    "day4.which_clock",
    ask="A copy moves {moved}, reads and writes together. While its DMA engines are active it runs "
        "at {pace}; starting and ending the launch take a fixed {fixed} besides. How long are the "
        "engines active, and how long is the total? Which rate does the total give? How many bytes "
        f"must a copy move for its rate by the total to reach {REACH:.0%} of the rate while the "
        "engines are active? Somebody publishes profiled bytes over DMA active time: which rate of "
        "yours stands beside that? And which time stands beside T_best of a whole kernel?",
    fixed=dict(moved=MIB, pace=300e9, fixed=17e-6), units=dict(moved="B", pace="B/s", fixed="s"),
    draw=lambda r: dict(moved=MIB * r.choice((1, 2, 3, 4, 6)), pace=r.randrange(220, 380, 20) * 1e9,
                        fixed=r.choice((12e-6, 14e-6, 15e-6, 20e-6))))
def which_clock(moved: int, pace: float, fixed: float) -> Iterator[AnyPart]:
    active = moved / pace
    total, pass_by = active + fixed, pace * fixed
    yield Part("active", active, "s", f"moved / pace = {moved:,} bytes / {band(pace)}",
               {"the fixed time counted in": total, BITS: 8 * active,
                "halved: both directions are in the bytes already": active / 2},
               label="DMA active time")
    yield Part("total", total, "s", f"active + fixed = {time(active)} + {time(fixed)}",
               {"the fixed time left out": active, "the fixed time alone": fixed,
                "the fixed time paid twice, at the start and at the end": active + 2 * fixed},
               label="Total time", follows=("+", "active", fixed))
    yield Part("BW", moved / total, "B/s", f"moved / total = {moved:,} bytes / {time(total)}",
               {"by the active time": pace, "over the fixed time alone": moved / fixed,
                BITS: 8 * moved / total}, label="BW by total time",
               follows=("/", float(moved), "total"))
    times = REACH / (1 - REACH)
    yield Part("enough", times * pass_by, "B",
               f"{REACH} / (1 - {REACH}) × fixed × pace = {REACH} / (1 - {REACH}) × {time(fixed)} "
               f"× {band(pace)}\nThe fixed time may be at most {1 - REACH:.0%} of the total, so "
               f"the active time is {times:.0f} times the fixed one.",
               {"half of the rate: there active and fixed time are equal": pass_by,
                "the shares of fixed and active time swapped": pass_by / times,
                f"over the whole, not over the {REACH:.0%}": 100 * pass_by},
               label=f"Bytes for {REACH:.0%}",
               extra={"one fixed time too many": pass_by / (1 - REACH)})
    clocks = {"active": "the DMA active time", "total": "the total time",
              "host": "the time on the host's clock, around the call"}
    host = "The host sees a call return; its clock stands around no kernel."
    yield Choice("beside", "active", clocks,
                 "Rates compare when their clocks are the same. It is the larger one, as long as "
                 "the engines idle at all.",
                 {"total": "That one holds the fixed time, which theirs leaves out.", "host": host},
                 label="Beside a rate by DMA active time")
    yield Choice("whole", "total", clocks,
                 "T_best bounds the kernel as it runs, and what it pays besides is a part of the "
                 "gap, to be named.",
                 {"active": "That hides the time in which nothing moved, which is part of the "
                            "gap.", "host": host}, label="Beside T_best of a whole kernel")


@problem(
    "day4.clock",
    ask="Somebody reads {size} from HBM on one Trainium1 core. On the host's clock the call takes "
        f"{{t}}. Which rate would that be? How many times HBM's share of {band(BW1)} is it, and "
        f"how many times the {band(TRN1.bw('DMA'))} of the DMA engines, by the documented "
        f"{band(EACH)} each? The most that any document gives {ENGINES} engines is {band(MOST)} "
        "each: how long do they need, at least? What was timed?",
    fixed=dict(size=GIB, t=656.3e-6), units=dict(size="B", t="s"),
    draw=lambda r: (lambda size, bw: dict(size=size, t=float(f"{size / bw:.4g}")))(
        MIB * r.choice((256, 512, 2048, 4096)), r.randrange(600, 2400, 90) * 1e9))
def clock(size: int, t: float) -> Iterator[AnyPart]:
    bw, dma, most = size / t, TRN1.bw("DMA"), ENGINES * MOST
    if bw < 1.01 * most:
        raise ValueError(f"with these the rate is {band(bw)}, which is no more than engines carry")
    yield Part("BW", bw, "B/s", f"size / t = {size:,} bytes / {time(t)}",
               {"both directions, though it only reads": 2 * bw, BITS: 8 * bw,
                "half of the bytes": bw / 2}, label="Rate",
               extra={"GB taken for GiB": bw * (1e9 / GIB)})
    for name, roof, label, other in (
            ("over_HBM", BW1, "Times HBM's share", dma), ("over_DMA", dma, "Times the DMA engines",
                                                          BW1)):
        yield Part(name, bw / roof, "", f"rate / roof = {band(bw)} / {band(roof)}",
                   {"the other roof": bw / other, UPSIDE_DOWN: roof / bw,
                    "both directions, though it only reads": 2 * bw / roof},
                   label=label, follows=("/", "BW", roof))
    yield Part("T_least", size / most, "s",
               f"size / (engines × each) = {size:,} bytes / ({ENGINES} × {band(MOST)})",
               {"one engine, not all": size / MOST, "by the smaller figure of an engine":
                size / dma, BITS: 8 * size / most}, label="Least time of the engines")
    yield Choice("timed", "queue",
                 {"queue": "the call that puts the copy into a queue",
                  "part": "the copy of a part of the bytes",
                  "cache": "a copy from SBUF, where the bytes were already",
                  "fast": "the copy: documents are careful"},
                 "Nobody waited for the device, so the call returned as soon as the work was in a "
                 "queue. A wait before the second reading of the clock mends it; a profile needs "
                 "none.",
                 {"part": "Nothing tells the kernel to leave bytes out; the count is of its code.",
                  "cache": "The bytes are more than SBUF holds by far.",
                  "fast": "No sum of documented parts carries that much."},
                 label="What was timed?")


# --- the copy, before it runs ---------------------------------------------------------------------

@problem(
    "day4.first",
    ask="A copy on one core with {BW} of HBM and {DMA} of DMA engines takes a tensor of {size} to "
        f"SBUF and back, in transfers of {PARTITIONS} partitions with {{row}} in each. How many "
        "bytes cross HBM? How many transfers are there, loads and stores together? What is I? How "
        "long does it take at least by HBM, and by the DMA engines? Which of the two do you expect "
        "to bind?",
    fixed=dict(size=96 * MIB, row=4 * KIB, BW=BW1, DMA=TRN1.bw("DMA")),
    units=dict(size="B", row="B", BW="B/s", DMA="B/s"),
    draw=lambda r: dict(size=MIB * r.choice((24, 80, 160, 192)), row=KIB * r.choice((1, 2, 8, 16)),
                        **r.choice((dict(BW=BW1, DMA=TRN1.bw("DMA")),
                                    dict(BW=330e9, DMA=ENGINES * MOST),
                                    dict(BW=612.5e9, DMA=528e9)))))
def first(size: int, row: int, BW: float, DMA: float) -> Iterator[AnyPart]:
    each, moved = PARTITIONS * row, 2 * size
    if moved % each:
        raise ValueError(f"{byte(size)} are no whole number of transfers of {byte(each)}")
    if BW == DMA:
        raise ValueError("the DMA engines have to differ from HBM's share")
    yield _bytes(size)
    yield Part("transfers", moved // each, "", f"bytes / (partitions × row) = {moved:,} / "
               f"({PARTITIONS} × {row:,})",
               {"loads alone: each tile is stored, too": moved / each / 2,
                "one transfer for each partition's row": moved // row,
                "twice the bytes of both directions": 2 * moved / each,
                "one for each DMA engine": ENGINES * moved // each},
               label="Number of transfers", exact=True)
    yield Choice("I", "zero",
                 {"zero": "0 FLOP/B", "one": "1 FLOP/B", "half": "0.5 FLOP/B",
                  "none": "it has none: there is nothing to divide by"},
                 "W is 0 and Q is not: the kernel computes nothing, so no flat roof is near.",
                 {"one": "No FLOP is done for a byte that is moved.",
                  "half": "Moving a byte twice makes no FLOP.",
                  "none": "It is W that is 0. Q, below the line, is not."}, label="I of a copy")
    for name, roof, other, label in (("T_HBM", BW, DMA, "Time by HBM"),
                                     ("T_DMA", DMA, BW, "Time by the DMA engines")):
        yield Part(name, moved / roof, "s", f"bytes / roof = {moved:,} bytes / {band(roof)}",
                   {ONE_WAY: size / roof, BITS: 8 * moved / roof,
                    "the other of the two roofs": moved / other,
                    "both bandwidths added": moved / (roof + other)}, label=label,
                   follows=("/", "bytes", roof))
    right = "dma" if DMA < BW else "hbm"
    yield Choice("binds", right, {"dma": "the DMA engines", "hbm": "HBM's share",
                                  "pe": "the Tensor Engine"},
                 "A byte passes both; the one that needs longer sets the pace. It is an "
                 "expectation: the engines' figure has a rival, and the run decides.",
                 _others(right, {"dma": "Compare the two times.", "hbm": "Compare the two times.",
                                 "pe": "It has nothing to do in a copy."}), label="Which binds?")


# --- the size of a transfer -----------------------------------------------------------------------

@problem(
    "day4.size",
    ask=f"Suppose that each of {ENGINES} DMA engines moves one row after the other, a row in its "
        "bytes over {each} plus a fixed {cost}. Which rate do all engines approach with long rows? "
        "Which do they reach with rows of {short} and of {long}? From which row on is it half of "
        f"the most, and from which {REACH:.0%}? Which remedy does the model suggest for a copy in "
        "short rows?",
    fixed=dict(each=20e9, cost=25e-9, short=512, long=4 * KIB),
    units=dict(each="B/s", cost="s", short="B", long="B"),
    draw=lambda r: dict(each=r.choice((17e9, 23e9, 27.2e9)), cost=r.choice((8e-9, 15e-9, 40e-9)),
                        short=r.choice((128, 256, 512)), long=r.choice((2048, 4096, 8192))))
def size(each: float, cost: float, short: int, long: int) -> Iterator[AnyPart]:
    most, half = ENGINES * each, cost * each
    yield Part("most", most, "B/s", f"engines × each = {ENGINES} × {band(each)}",
               {"one engine": each, "the engines of two cores": 2 * most, BITS: 8 * most},
               label="Rate that they approach")
    for name, row, label in (("BW_short", short, "Rate, short rows"),
                             ("BW_long", long, "Rate, long rows")):
        t = row / each + cost
        yield Part(name, ENGINES * row / t, "B/s", f"engines × row / (row / each + cost) = "
                   f"{ENGINES} × {row:,} bytes / ({time(row / each)} + {time(cost)})",
                   {"one engine": row / t, "the fixed cost left out": most,
                    "the fixed cost alone": ENGINES * row / cost,
                    "the fixed cost paid twice": ENGINES * row / (t + cost)}, label=label)
    yield Part("half", half, "B", f"cost × each = {time(cost)} × {band(each)}",
               {"what all engines move in that time": ENGINES * half,
                f"the row for {REACH:.0%}, not for half": REACH / (1 - REACH) * half,
                "halved: at half of the rate the two times are equal": half / 2},
               label="Row for half of it")
    many = REACH / (1 - REACH) * half
    yield Part("flat", many, "B", f"{REACH} / (1 - {REACH}) × cost × each = {REACH} / (1 - {REACH})"
               f" × {time(cost)} × {band(each)}",
               {"the row for half, not for more": half, "what all engines move in that time":
                ENGINES * many, "the shares of fixed and moving time swapped":
                half * (1 - REACH) / REACH},
               label=f"Row for {REACH:.0%}", extra={"one fixed time too many": half / (1 - REACH)})
    yield Choice("remedy", "rows",
                 {"rows": "more bytes in each row, contiguous", "more": "more rows in a transfer",
                  "total": "a larger tensor in rows of the same size",
                  "hbm": "a kernel on fewer cores, so that HBM has more for each"},
                 "Every row pays once: only more bytes in a row spread the cost over more.",
                 {"more": "Each of them pays its own fixed cost.",
                  "total": "More rows take in proportion longer; the rate stays.",
                  "hbm": "The engines wait for themselves here, not for HBM."},
                 label="Which remedy?")


# --- where a curve flattens -----------------------------------------------------------------------

SIZES = {"B128": "128 B", "B256": "256 B", "B512": "512 B", "K1": "1 KiB", "K2": "2 KiB",
         "K4": "4 KiB", "K8": "8 KiB", "K16": "16 KiB", "K32": "32 KiB"}
SHAPES = (
    (.11, .22, .41, .64, .97, .99, 1., .99, .98), (.09, .17, .33, .52, .78, .97, .99, 1., .99),
    (.06, .11, .22, .4, .66, .85, .97, .98, 1.), (.03, .06, .12, .22, .41, .68, .89, .97, 1.),
    (.03, .06, .11, .21, .37, .55, .72, .87, 1.), (.1, .19, .35, .55, .82, .98, .91, .97, 1.),
    (.08, .16, .3, .48, .79, .97, 1., .92, .98))


def _made(best: float, shape: tuple[float, ...]) -> dict[str, float]:
    """A made-up sweep: whole GB/s."""
    return {name: round(best * share / 1e9) * 1e9
            for name, share in zip(SIZES, shape, strict=True)}


def _knee_of(rates: Mapping[str, float]) -> str:
    """The size where the curve flattens, or "none"."""
    values = list(rates.values())
    level = REACH * max(values)
    for i, name in enumerate([*rates][:-1]):
        if min(values[i:]) >= level:
            return SIZES[name]
    return "none"


def _knee(rates: Mapping[str, float]) -> Iterator[AnyPart]:
    best, least = max(rates.values()), rates["B128"]
    mean, total = sum(rates.values()) / len(rates), sum(rates.values())
    yield Part("best", best, "B/s",
               f"the largest = max({', '.join(band(value) for value in rates.values())})",
               {"the mean of all sizes": mean, "the rate of the smallest size": least,
                "all rates added: each is of a run of its own": total},
               label="Best rate of the sweep",
               extra={"the rate of the largest size, which is not the best": rates["K32"]}
               if rates["K32"] < best else {})
    yield Part("level", REACH * best, "B/s", f"{REACH:.0%} of it = {REACH} × {band(best)}",
               {"a twentieth, not all but a twentieth": (1 - REACH) * best,
                "of the mean, not of the best": REACH * mean,
                "divided by the share, not multiplied": best / REACH,
                "of the smallest size's rate": REACH * least},
               label=f"Level: {REACH:.0%} of the best", follows=("*", "best", REACH))
    knee = _knee_of(rates)
    place = {size: i for i, size in enumerate(SIZES.values())}
    at = place.get(knee, len(SIZES))
    low = "This size, or a larger one, is below the level. The rule asks for all from there on."
    reasons = {size: low if i < at else "It meets the rule, and so does a smaller size."
               for size, i in place.items()}
    reasons["none"] = "At least two sizes at the end of the curve reach the level."
    if knee == "none" and rates["K32"] >= REACH * best:
        reasons["32 KiB"] = ("Nothing larger was measured: one point at the level is no flat "
                             "stretch.")
    shown = [f"{size}: {value / best:.0%}"
             for size, value in zip(SIZES.values(), rates.values(), strict=True)]
    yield Choice("knee", knee, {**{size: f"at {size} a partition" for size in place},
                                "none": "it does not flatten within the sizes measured"},
                 f"As shares of the best: {', '.join(shown)}.", _others(knee, reasons),
                 label="Where does it flatten?")
    yield Part("small", least / best, "", f"smallest / best = {band(least)} / {band(best)}",
               {UPSIDE_DOWN: best / least, "over the mean, not over the best": least / mean,
                "the ratio of the sizes, not of the rates": 128 / (32 * KIB)},
               label="Share of the best at the smallest size" + SHARE,
               follows=("/", least, "best"),
               extra={"what is lost, not what is reached": 1 - least / best})


# --- one direction, or both -----------------------------------------------------------------------

@problem(
    "day4.ways",
    ask="A kernel reads {read} and writes {written}. On its core, runs that go one way reach "
        "{one_way}, and copies {both}, both directions added up. Find Q, its least time by the "
        "one-way roof and by the copy's roof. By how much would the copy's roof make the kernel "
        "look worse than the one-way roof does: the first time over the second, less 1? Which of "
        "the two roofs is this kernel's?",
    fixed=dict(read=64e6, written=1e6, one_way=271e9, both=308e9),
    units=dict(read="B", written="B", one_way="B/s", both="B/s"),
    draw=lambda r: dict(r.choice((dict(read=48e6, written=2e6), dict(read=24e6, written=24e6),
                                  dict(read=1e6, written=36e6), dict(read=90e6, written=80e6),
                                  dict(read=150e6, written=4e6))),
                        one_way=r.choice((240e9, 255e9, 265e9)), both=r.choice((290e9, 310e9))))
def ways(read: float, written: float, one_way: float, both: float) -> Iterator[AnyPart]:
    Q = read + written
    more, less = max(read, written), min(read, written)
    if not both > one_way:
        raise ValueError("both has to be above one_way")
    yield Part("Q", Q, "B", f"read + written = {byte(read)} + {byte(written)}",
               {"doubled, as if all of it went in and out": 2 * Q, "the smaller one alone": less,
                BITS: 8 * Q},
               label="Q", extra={"the larger one alone": more})
    for name, roof, other, label in (("T_one", one_way, both, "Time by the one-way roof"),
                                     ("T_both", both, one_way, "Time by the copy's roof")):
        yield Part(name, Q / roof, "s", f"Q / roof = {byte(Q)} / {band(roof)}",
                   {"the other roof": Q / other, "doubled, as if all of it went in and out":
                    2 * Q / roof, "both roofs added": Q / (one_way + both)}, label=label,
                   follows=("/", "Q", roof))
    yield Part("worse", both / one_way - 1, "",
               f"T_one / T_both - 1 = {time(Q / one_way)} / {time(Q / both)} - 1",
               {"the ratio, not what it is above 1": both / one_way,
                "the ratio upside down": one_way / both,
                "over the sum of the two rates": (both - one_way) / (both + one_way)},
               label="Looks worse by" + SHARE, follows=("+", ("/", "T_one", "T_both"), -1.0),
               extra={"what the other is below 1": 1 - one_way / both})
    right = "both" if less > 0.5 * more else "one"
    yield Choice("roof", right,
                 {"one": "the one-way roof", "both": "the copy's roof",
                  "spec": "neither: a spec roof fits every kernel"},
                 "A measured roof belongs to the direction it was measured in: here "
                 f"{less / Q:.0%} of the bytes go the other way.",
                 _others(right, {"one": "See how many bytes go each way.",
                                 "both": "See how many bytes go each way.",
                                 "spec": "A spec roof is above both, and no run of either kind "
                                         "reaches it."}), label="Whose roof?")


# --- the compute roof -----------------------------------------------------------------------------

def _passes(r: random.Random) -> dict[str, float]:
    shape = dict(M=r.choice((256, 384, 512)), K=r.choice((1024, 1280, 2048)), N=1024)
    passes, share, late = r.choice((4, 6, 8)), r.choice((0.74, 0.8, 0.86)), r.choice((12, 18))
    one = 2 * math.prod(shape.values()) / P1 / share
    return dict(shape, passes=passes, t=round((passes - 1) * one, 6),
                whole=round(passes * one + late * 1e-6, 6))


@problem(
    "day4.loop",
    ask="A resident matmul in bf16 has M = {M}, K = {K}, N = {N} and makes {passes} passes; the "
        "spec's P is {spec}, BW {BW}. From the first matmul to the last it takes {whole}; the "
        "first pass has to wait for operands, and the passes after it take {t} together. Find W of "
        "the passes after the first, the P that they reach and its share of the spec. Which P does "
        "the whole loop give? How long do the operands take to arrive, at least? What is wrong "
        "with the window from the first matmul on? And why can no pass have been left out?",
    fixed=dict(M=384, K=1536, N=1024, passes=5, whole=95e-6, t=64e-6, spec=P1, BW=BW1),
    units=dict(whole="s", t="s", spec="FLOP/s", BW="B/s"),
    draw=_passes)
def loop(M: int, K: int, N: int, passes: int, whole: float, t: float, spec: float, BW: float,
         ) -> Iterator[AnyPart]:
    if passes < 2:
        raise ValueError("passes has to be 2 or more")
    if whole <= t:
        raise ValueError("whole has to be above t, which is a part of it")
    one, Q = 2 * M * N * K, P_BF16 * K * (M + N)
    W = one * (passes - 1)
    yield Part("W", W, "FLOP", f"2 M N K × (passes - 1) = 2 × {M:,} × {N:,} × {K:,} × ({passes} - "
               "1)",
               {ONE_FLOP: W / 2, "all passes, though the first is not in this window":
                one * passes, "one pass alone": one,
                "K left out: every output takes K multiply-adds": W / K},
               label="W after the first pass")
    yield Part("P", W / t, "FLOP/s", f"W / t = {flop(W)} / {time(t)}",
               {ONE_FLOP: W / t / 2, "all passes over the time of those after the first":
                one * passes / t, "one pass alone": one / t,
                "over the time of the whole loop": W / whole},
               label="P they reach", follows=("/", "W", t))
    yield _of_spec(W / t, spec, {
        "fp32's peak in place of bf16's": spec / 4, "P of two cores, not of one": 2 * spec},
        "FLOP/s", "P")
    yield Part("P_whole", one * passes / whole, "FLOP/s",
               f"2 M N K × passes / whole = {flop(one)} × {passes} / {time(whole)}",
               {ONE_FLOP: one * passes / whole / 2,
                "the passes after the first, over all of the time": W / whole,
                "all passes, over the time of those after the first": one * passes / t,
                "one pass alone": one / whole}, label="P of the whole loop")
    yield Part("T_load", Q / BW, "s", f"p K (M + N) / BW = {P_BF16} bytes × {K:,} × ({M:,} + {N:,})"
               f" / {band(BW)}",
               {"elements counted, not bytes": Q / BW / P_BF16,
                "one operand alone": P_BF16 * K * N / BW,
                "loaded again in every pass: they stay in SBUF": Q * passes / BW,
                "BW of the device, not of a core": Q / BW / CORES1},
               label="Time of the operands")
    yield Choice("window", "waits",
                 {"waits": "the first pass waits for HBM, so BW is in a figure that is to be P's",
                  "order": "nothing: operands arrive before the first matmul",
                  "result": "it leaves out the time that the result is stored in",
                  "throttle": "it leaves out the time before the first matmul"},
                 "The first matmul starts when its own two tiles are there; the others are still "
                 "on their way. Begin the window after the last load.",
                 {"order": "Only those of the first matmul do.",
                  "result": "That is right for P: the stores come after the loop.",
                  "throttle": "That is right for P: nothing is multiplied there."},
                 label="The window from the first matmul")
    yield Choice("work", "adds",
                 {"adds": "every pass adds to the sums in PSUM, so none can be left out",
                  "same": "a compiler keeps all instructions as they are written",
                  "check": "it is not: no window tells how much was done"},
                 "The result is the product times the passes; comparing it with the count shows "
                 "that all of them ran.",
                 {"same": "It may drop work that nothing depends on, or do it once.",
                  "check": "The result does: a pass that was left out is missing in the sum."},
                 label="Why is none left out?")


# --- how often a matmul may start -----------------------------------------------------------------

SLOWER = FACTS1["vector_clock"] / FACTS1["tensor_clock"]  # the same on both chips


def _starts(clock: float, apart: float, name: str, label: str) -> Part:
    cycles = apart * clock
    return Part(name, cycles, "cycle", f"apart × clock = {time(apart)} × {clock_(clock)}",
                {"the profiler's clock, half of the Tensor Engine's": cycles / 2,
                 "the Vector Engine's clock, not the Tensor Engine's": cycles * SLOWER,
                 "two instructions counted as one": 2 * cycles}, label=label)


def _distances(r: random.Random) -> dict[str, float]:
    """Distances by the rule, by N alone, or by the rule and a price."""
    n, clock, price = (r.choice((8, 12, 16, 20, 24, 32)), r.choice((2.4e9, 2.8e9)),
                       r.choice((40, 70, 100)))
    short, full = r.choice(((FLOOR, N_MAX), (n, N_MAX), (FLOOR + price, N_MAX + price),
                            (FLOOR + price, N_MAX + price)))
    return dict(N=n, clock=clock, apart=float(f"{short / clock:.3g}"),
                apart_512=float(f"{full / clock:.3g}"))


@problem(
    "day4.moving",
    ask="Matmuls with one stationary tile of 128 × 128 run back to back at {clock}. Starts lie "
        "{apart} apart with N = {N} and {apart_512} apart with N = "
        f"{N_MAX}. The rule says max(N, {FLOOR}) cycles. How many cycles apart are they in each "
        "case? With N = {N}: how many does the rule say, which rate does the measured distance "
        "leave, and which share of P is that? Which reading fits both distances?",
    fixed=dict(N=16, apart=61e-9, apart_512=221e-9, clock=FACTS1["tensor_clock"]),
    units=dict(apart="s", apart_512="s", clock="Hz"),
    draw=_distances)
def moving(N: int, apart: float, apart_512: float, clock: float) -> Iterator[AnyPart]:
    if N >= FLOOR:
        raise ValueError(f"N has to be below {FLOOR}")
    cycles, full = apart * clock, apart_512 * clock
    peak = 2 * ROWS * COLUMNS * clock
    yield _starts(clock, apart, "cycles", f"Cycles, N = {N}")
    yield _starts(clock, apart_512, "cycles_512", f"Cycles, N = {N_MAX}")
    yield Part("rule", FLOOR, "cycle", f"max(N, {FLOOR}) = max({N}, {FLOOR})",
               {"N alone: the floor is above it": N, "N and the floor added": N + FLOOR,
                "the largest moving tile": N_MAX}, label="Cycles by the rule", exact=True)
    left = peak * N / cycles
    by_rule = {} if abs(cycles / FLOOR - 1) < 0.06 else {
        "by the rule, not by what was measured": N / FLOOR}
    lossless = abs(left / peak - 1) < 0.06
    yield Part("rate", left, "FLOP/s", f"2 × {ROWS} × {COLUMNS} × N / apart = 2 × {ROWS} × "
               f"{COLUMNS} × {N} / {time(apart)}",
               {ONE_FLOP: left / 2, f"by the distance with N = {N_MAX}": peak * N / full,
                **({} if lossless else {"P, as if nothing were lost": peak}),
                **{why: peak * value for why, value in by_rule.items()}}, label="Rate")
    yield Part("share", left / peak, "", f"N / cycles = {N} / {cycles:.4g}",
               {f"by the distance with N = {N_MAX}": N / full,
                "over the rows of the array": N / ROWS,
                **({} if lossless else {UPSIDE_DOWN: peak / left}), **by_rule},
               label="Share of P" + SHARE, follows=("/", float(N), "cycles"))
    off = {"rule": max(abs(cycles / FLOOR - 1), abs(full / N_MAX - 1)),
           "own": max(abs(cycles / N - 1), abs(full / N_MAX - 1))}
    right = min(off, key=lambda key: off[key])
    right = right if off[right] < NEAR else (
        "price" if cycles > FLOOR and full > N_MAX else "neither")
    yield Choice("reading", right,
                 {"rule": f"the rule: max(N, {FLOOR}) cycles", "own": "N cycles, and no least",
                  "price": "the rule and a price of each instruction besides",
                  "neither": "none: they lie closer than any of these allows"},
                 f"Measured are {cycles:.4g} and {full:.4g} cycles; the rule says {FLOOR} and "
                 f"{N_MAX}.",
                 _others(right, {"rule": f"Hold both distances against {FLOOR} and {N_MAX} cycles.",
                                 "own": f"Hold both distances against {N} and {N_MAX} cycles.",
                                 "price": "Then both would lie clearly above the rule.",
                                 "neither": "See whether the distances are above or below the "
                                            "rule's."}), label="Which reading fits?")


# --- one core, or all that share ------------------------------------------------------------------

def _kernel_side(name: str, label: str, I: float, ridge: float) -> Choice:
    return replace(day1._side(I, ridge), name=name, label=label)


@problem(
    "day4.share",
    ask="One Trn2 core, P = {P} in bf16, has an even share of {share} of HBM. Alone it reaches "
        "{alone}; while its neighbour copies too it reaches {beside}. By how much is a core alone "
        "above its even share? Where is the ridge of a core alone, and of a core with its "
        "neighbour at work? An op has I = {I}: on which side of the ridge is it in each case? "
        "Which bandwidth belongs to a kernel that runs on one core while the others idle, and "
        "which to one on all cores?",
    fixed=dict(P=P2, share=BW2, alone=400e9, beside=358e9, I=208.0),
    units=dict(P="FLOP/s", share="B/s", alone="B/s", beside="B/s", I="FLOP/B"),
    draw=lambda r: (lambda share, more, less: dict(
        share=share, alone=round(share * more / 1e9) * 1e9, beside=round(share * less / 1e9) * 1e9,
        I=r.choice((150.0, 205.0, 260.0))))(
            r.choice((340e9, 362.5e9, 390e9)), r.choice((1.08, 1.13, 1.18)),
            r.choice((0.86, 0.9, 0.93))))
def share(P: float, share: float, alone: float, beside: float, I: float) -> Iterator[AnyPart]:
    if not alone > beside:
        raise ValueError("alone has to be above beside")
    yield Part("above", alone / share - 1, "", f"alone / share - 1 = {band(alone)} / {band(share)}"
               " - 1",
               {"the ratio, not what it is above 1": alone / share,
                "over what it reaches beside the neighbour": alone / beside - 1,
                "over the whole device": alone / (CORES2 * share)},
               label="Alone, above the even share" + SHARE)
    device = CORES2 * share
    for name, bw, other, label in (("ridge_alone", alone, beside, "Ridge, alone"),
                                   ("ridge_beside", beside, alone, "Ridge, neighbour at work")):
        yield Part(name, P / bw, "FLOP/B", f"P / BW = {rate(P)} / {band(bw)}",
                   {UPSIDE_DOWN: bw / P, "the other of the two": P / other,
                    "P of the pair over one core's BW": 2 * P / bw, "the device's bandwidth":
                    P / device}, label=label)
    yield _kernel_side("side_alone", "Side, alone", I, P / alone)
    yield _kernel_side("side_beside", "Side, neighbour at work", I, P / beside)
    which = {"alone": "what a core reaches alone", "beside": "what it reaches with all at work",
             "share": "the even share: it is the spec"}
    spec = "It is an even division of a total, and no run of either kind."
    yield Choice("one", "alone", which,
                 "The even share is pessimistic for it: such a kernel would seem better than it "
                 "is.", {"beside": "Nobody else is at work in that case.", "share": spec},
                 label="A kernel on one core")
    yield Choice("all", "beside", which, "Each core has only that while all the others pull too.",
                 {"alone": "No core is alone then.", "share": spec}, label="A kernel on all cores")


# --- above spec -----------------------------------------------------------------------------------

@problem(
    "day4.above",
    ask=f"A matmul loop on one core, {ROWS} × {COLUMNS} PEs at {{clock}}, does W = {{W}} in "
        "{t}, in bf16. "
        "Find the measured P, the spec's P, and their ratio. Which clock would make the ratio 1? "
        "How long must the loop take, at least, by the spec? Which input do you suspect first? "
        "And which one, if the ratio came out near 2, or near 4?",
    fixed=dict(clock=FACTS1["tensor_clock"], W=38e9, t=400e-6),
    units=dict(clock="Hz", W="FLOP", t="s"),
    draw=lambda r: (lambda clock, more, t: dict(
        clock=clock, t=t, W=round(2 * ROWS * COLUMNS * clock * more * t / 1e8) * 1e8))(
            r.choice((2.0e9, 2.4e9, 2.8e9)), r.choice((1.06, 1.09, 1.13, 1.17)),
            r.choice((240e-6, 350e-6, 600e-6))))
def above(clock: float, W: float, t: float) -> Iterator[AnyPart]:
    per_cycle = 2 * ROWS * COLUMNS
    spec, got = per_cycle * clock, W / t
    if got <= spec:
        raise ValueError(f"{rate(got)} is no more than the spec's {rate(spec)}")
    yield Part("P", got, "FLOP/s", f"W / t = {flop(W)} / {time(t)}",
               {ONE_FLOP: got / 2, "two cores' work counted for one": 2 * got,
                "the spec's P in fp32": spec / 4}, label="Measured P")
    yield Part("spec", spec, "FLOP/s", f"2 × PEs × clock = 2 × {ROWS} × {COLUMNS} × "
               f"{clock_(clock)}",
               {ONE_FLOP: spec / 2, "fp32's: a quarter of it": spec / 4,
                "both cores of a device": 2 * spec, "one row of PEs": spec / ROWS},
               label="The spec's P")
    yield Part("ratio", got / spec, "", f"P / spec = {rate(got)} / {rate(spec)}",
               {"fp32's peak in place of bf16's": 4 * got / spec, ONE_FLOP: got / spec / 2,
                "what exceeds 1, not the ratio": got / spec - 1},
               label="Measured over spec", follows=("/", "P", "spec"),
               extra={UPSIDE_DOWN: spec / got})
    yield Part("fits", got / per_cycle, "Hz", f"P / (2 × PEs) = {rate(got)} / (2 × {ROWS} × "
               f"{COLUMNS})",
               {ONE_FLOP: 2 * got / per_cycle, "one row of PEs": ROWS * got / per_cycle,
                "half of it: the profiler's cycles": got / per_cycle / 2},
               label="Clock that fits", follows=("/", "P", float(per_cycle)),
               extra={"the clock of the spec": clock})
    yield Part("T_least", W / spec, "s", f"W / spec = {flop(W)} / {rate(spec)}",
               {ONE_FLOP: W / spec / 2, "fp32's peak in place of bf16's": 4 * W / spec,
                "both cores' work": 2 * W / spec}, label="Least time by the spec",
               follows=("/", W, "spec"), extra={"the measured time": t})
    suspects = {"clock": "the clock that the spec was computed with",
                "scope": "the scope: two cores' work, or two cores' P",
                "dtype": "the dtype: its peak is another one",
                "chip": "none: the hardware may be better than its documents"}
    none = "Parts cannot do more than their number times their clock."
    yield Choice("first", "clock", suspects,
                 "Array and width are drawn in every document; the clock is one number in a "
                 "table, and it scales P. A few percent fit nothing else.",
                 {"scope": "That would be a factor of 2.",
                  "dtype": "That would be a factor of 2, 4 or more.", "chip": none},
                 label="A few percent above")
    yield Choice("twice", "scope", suspects,
                 "LNC=2, or the work of both cores over the time of one.",
                 {"clock": "No table is off by a factor of 2 in its clock.",
                  "dtype": "It could be fp8, which runs at twice bf16's rate on some cores, but "
                           "this loop is bf16: look at the cores first.", "chip": none},
                 label="Near 2")
    yield Choice("four", "dtype", suspects,
                 "bf16 work held against fp32's peak, a quarter of it.",
                 {"clock": "No table is off by a factor of 4 in its clock.",
                  "scope": "A pair is a factor of 2.", "chip": none}, label="Near 4")


# --- causes ---------------------------------------------------------------------------------------

CAUSES = {"start": "starting and ending the launch",
          "issue": "transfers are not started fast enough",
          "engines": "few DMA engines have work",
          "packets": "each packet costs a fixed time besides its bytes",
          "throttle": "the throttle after idling",
          "rows": "rows of the array that hold no weight",
          "load": "weight loads that nothing hides"}
OF_COPIES, OF_MATMULS = ("start", "issue", "engines", "packets"), ("throttle", "rows", "load")
SEEN = {"start": "That is paid once a launch, before the first packet and after the last one.",
        "issue": "Then moments without any packet would follow each other while an engine starts "
                 "transfers.",
        "engines": "Then packets would run at their rate, on a part of the DMA engines.",
        "packets": "Then every DMA engine would be at work, and each below its rate.",
        "throttle": "Then matmuls would lie further apart for some microseconds, and then no more.",
        "rows": "Then matmuls would start as often as ever, and each would do less.",
        "load": "Then a load of a stationary tile would stand before each of the matmuls."}


@problem(
    "day4.causes",
    ask="Which cause does each observation on a timeline have? (a) A copy of 1 MiB and one of 1 "
        "GiB both lose the same few microseconds. (b) Packets run at full rate, but between them "
        "are moments with none under way, and the engine that starts transfers is never idle. (c) "
        "Packets run at full rate, one behind the other, on 2 of 16 DMA engines. (d) All DMA "
        "engines are busy throughout, each at a third of its rate. (e) The first matmuls start "
        "twice as far apart as all later ones. (f) Matmuls start as often as they may, all the "
        "time, and the rate is half of P. (g) Between any two matmuls the Tensor Engine is busy "
        "with something that does no FLOPs. And what is \"overhead\"?")
def causes() -> Iterator[AnyPart]:
    cases = {
        "same": ("start", "(a) The same loss at every size",
                 "What does not grow with the bytes is paid once a launch."),
        "moments": ("issue", "(b) Moments with no packet",
                    "Each transfer has to be started, and the engine that does it is the one "
                    "without pause: fewer and larger transfers, or a second engine."),
        "two": ("engines", "(c) 2 of 16 engines",
                f"A tile of {2 * LANES} partitions has rows for two engines."),
        "third": ("packets", "(d) All engines, a third of the rate",
                  "Short rows: a packet's fixed time is twice that of its bytes."),
        "early": ("throttle", "(e) Slow at first",
                  "The Tensor Engine may use only a part of its cycles when work begins."),
        "half": ("rows", "(f) Half of P, without a pause",
                 "Half of the rows hold no weight: K is 64."),
        "between": ("load", "(g) Something between matmuls",
                    "A stationary tile goes in while no matmul runs: use it for more moving "
                    "tiles, or order the loop so that the next one loads during a matmul."),
    }
    for name, (right, label, why) in cases.items():
        offered = OF_COPIES if right in OF_COPIES else OF_MATMULS
        yield Choice(name, right, {cause: CAUSES[cause] for cause in offered}, why,
                     _others(right, {cause: SEEN[cause] for cause in offered}), label=label)
    yield Choice("overhead", "none",
                 {"none": "a word for a part of the gap that nobody looked at",
                  "start": "another word for what a launch costs",
                  "rest": "what is left when everything is explained",
                  "runtime": "what the runtime does on the host"},
                 "It points at nothing on the timeline and suggests nothing to try.",
                 {"start": "Then call it that: starting and ending have a place on the timeline.",
                  "rest": "What is left is rounding, or not explained yet. Say which.",
                  "runtime": "A device profile does not hold the host's time."},
                 label="\"Overhead\" is")


# --- the same with less given ---------------------------------------------------------------------

@problem(
    "day4.fade.rate",
    ask="A copy kernel moved {moved} over HBM, reads and writes together, in {t}; for {active} of "
        "that its DMA engines were active. One core's share is {spec}. What is BW, by the total "
        "time and by the active time? Which share of the spec is the first? How long would the "
        "copy take at the spec's rate, and how long is the gap to that?",
    fixed=dict(moved=96 * MIB, t=350e-6, active=322e-6, spec=BW2),
    units=dict(moved="B", t="s", active="s", spec="B/s"),
    draw=lambda r: (lambda moved, bw, extra: dict(
        moved=moved, active=round(moved / bw, 6), t=round(moved / bw + extra, 6),
        spec=r.choice((358e9, BW2, BW1))))(
            MIB * r.choice((40, 72, 144, 200)), r.randrange(250, 335, 9) * 1e9,
            r.choice((22e-6, 30e-6, 38e-6))))
def fade_rate(moved: int, t: float, active: float, spec: float) -> Iterator[AnyPart]:
    best = moved / spec
    if active > t:
        raise ValueError("active is a part of t and cannot be longer")
    if t <= best:
        raise ValueError("t has to be above the time at the spec")
    for name, at, what, label in (("BW", t, "t", "BW by total time"),
                                  ("while_active", active, "active", "BW by active time")):
        yield Part(name, moved / at, "B/s", f"moved / {what} = {moved:,} bytes / {time(at)}",
                   {"doubled: both directions are in the bytes already": 2 * moved / at,
                    BITS: 8 * moved / at, "one direction alone": moved / at / 2}, label=label,
                   extra={"the other clock": moved / (active if at == t else t),
                          "MB taken for MiB": 1e6 * moved / MIB / at})
    yield _of_spec(moved / t, spec, {
        "the figure of two cores": 2 * spec, "the bandwidth of the device": DEVICE.bw()}, "B/s",
        "BW")
    yield Part("T_spec", best, "s", f"moved / spec = {moved:,} bytes / {band(spec)}",
               {"the bandwidth of the device": moved / DEVICE.bw(), "the figure of two cores":
                best / 2, "doubled: both directions are in the bytes already": 2 * best},
               label="Time at the spec", extra={"the measured time": t})
    yield Part("gap", t - best, "s", f"t - T_spec = {show(t, 's', 6)} - {show(best, 's', 6)}",
               {"the whole time, not what exceeds the spec's": t, "the spec's time": best,
                "the two added": t + best},
               label="The gap", follows=("+", t, ("*", "T_spec", -1.0)),
               extra={"of the active time, not of the total": active - best})


SHAPED = ("bf16", "fp32")


@problem(
    "day4.fade.all",
    ask="On one Trn2 core a kernel copies a tensor of {rows} × {columns} numbers in {dtype}; its "
        "profile shows {t}. The same core's resident matmul loop did {W} in {t_loop}. Find both "
        "measured roofs, BW and P, each as a share of its spec, {spec} and "
        f"{rate(P2)}. Where is the measured ridge? How long does an op with W = {{W_op}} and Q = "
        "{Q_op} take, at best, under the measured roofs, and how long under the spec's?",
    fixed=dict(rows=4096, columns=6144, dtype="bf16", t=310e-6, W=30e9, t_loop=430e-6, spec=BW2,
               W_op=9e9, Q_op=60e6),
    units=dict(t="s", W="FLOP", t_loop="s", spec="B/s", W_op="FLOP", Q_op="B"),
    one_of=dict(dtype=SHAPED),
    draw=lambda r: (lambda rows, columns, dtype, share, busy: dict(
        rows=rows, columns=columns, dtype=dtype, W=r.choice((20e9, 30e9)),
        t=round(2 * rows * columns * BYTES[dtype] / BW2 / share, 6),
        t_loop=round(30e9 / P2 / busy, 6), W_op=r.choice((4e9, 12e9, 25e9)),
        Q_op=r.choice((35e6, 80e6))))(
            1024 * r.choice((3, 4, 6)), 1024 * r.choice((2, 4, 5)), r.choice(SHAPED),
            r.choice((0.74, 0.8, 0.85)), r.choice((0.82, 0.88, 0.92))))
def fade_all(rows: int, columns: int, dtype: str, t: float, W: float, t_loop: float, spec: float,
             W_op: float, Q_op: float) -> Iterator[AnyPart]:
    p = BYTES[dtype]
    moved = 2 * p * rows * columns
    bw, P = moved / t, W / t_loop
    yield Part("BW", bw, "B/s", f"2 p rows columns / t = 2 × {p} bytes × {rows:,} × {columns:,} / "
               f"{time(t)}",
               {ONE_WAY: bw / 2, "elements counted, not bytes": bw / p, BITS: 8 * bw}
               if p == 4 else
               {f"{ONE_WAY}, or elements counted, not bytes": bw / 2,
                "elements of one direction": bw / 4, BITS: 8 * bw,
                "4 bytes a number, as in fp32": 2 * bw},
               label="Measured BW")
    yield _of_spec(bw, spec, {
        "the figure of two cores": 2 * spec, "the bandwidth of the device": DEVICE.bw()}, "B/s",
        "BW", "BW_share", "BW, share of the spec")
    yield Part("P", P, "FLOP/s", f"W / t_loop = {flop(W)} / {time(t_loop)}",
               {ONE_FLOP: P / 2, "the time of the copy": W / t, "doubled: W has two FLOPs a "
                "multiply-add": 2 * P}, label="Measured P")
    yield _of_spec(P, P2, {"P of two cores": 2 * P2, "fp32's peak in place of bf16's": P2 / 4},
                   "FLOP/s", "P", "P_share", "P, share of the spec")
    yield Part("ridge", P / bw, "FLOP/B", f"P / BW = {rate(P)} / {band(bw)}",
               {UPSIDE_DOWN: bw / P, "P of two cores": 2 * P / bw, ONE_FLOP: P / bw / 2},
               label="Measured ridge", follows=("/", "P", "BW"),
               extra={"the spec's": P2 / spec, "the spec's P over the measured BW": P2 / bw,
                      "the measured P over the spec's BW": P / spec})
    for name, top, wide, label in (("T_measured", P, bw, "T_best, measured roofs"),
                                   ("T_spec", P2, spec, "T_best, spec roofs")):
        short, long = sorted((W_op / top, Q_op / wide))
        yield Part(name, long, "s", f"max(W / P, Q / BW) = max({time(W_op / top)}, "
                   f"{time(Q_op / wide)})",
                   {"the shorter of the two times": short, "the figures of two cores": long / 2,
                    "FLOPs over BW, bytes over P": max(W_op / wide, Q_op / top)}, label=label,
                   follows=("max", ("/", W_op, "P"), ("/", Q_op, "BW"))
                   if name == "T_measured" else None,
                   extra={"the two times added": short + long})


# --- Do -------------------------------------------------------------------------------------------

@problem(
    "day4.do.copy",
    ask="Your copy kernel. " + OWN + "it copies {size} from HBM to HBM by way of SBUF, in "
        "transfers of {partitions} partitions, {row} in each; the profile's total time is {t}, "
        "and the DMA engines are active for {active} of it. Find the bytes moved, the size of a "
        "transfer and how many there are, loads and stores together. What is BW by the total time, "
        "and while the DMA engines are active? What share of the spec's {spec} is BW? (In "
        'JupyterLab, give your own: ask("day4.do.copy", size="40 MiB", row="4 KiB", t="...", '
        'active="...", spec="...").)',
    fixed=dict(size=40 * MIB, partitions=PARTITIONS, row=4 * KIB, t=312e-6, active=290e-6,
               spec=BW1),
    units=dict(size="B", row="B", t="s", active="s", spec="B/s"),
    draw=lambda r: (lambda size, bw, extra: dict(
        size=size, row=KIB * r.choice((2, 8, 16)), spec=r.choice((BW1, BW2)),
        active=float(f"{2 * size / bw:.3g}"), t=float(f"{2 * size / bw + extra:.3g}")))(
            MIB * r.choice((8, 16, 32, 128)), r.randrange(230, 310, 6) * 1e9,
            r.choice((20e-6, 25e-6, 30e-6))))
def do_copy(size: int, partitions: int, row: int, t: float, active: float, spec: float,
            ) -> Iterator[AnyPart]:
    each = partitions * row
    if 2 * size % each:
        raise ValueError(f"{byte(size)} are no whole number of transfers of {byte(each)}")
    if active > t:
        raise ValueError("active is a part of t and cannot be longer")
    yield _bytes(size)
    yield Part("transfer", each, "B", f"partitions × row = {partitions} × {row:,} bytes\n"
               f"That is {mebi(each)}.",
               {"one partition, not all of them": row, "the whole copy, not one transfer": size,
                "one row for each DMA engine, not for each partition": ENGINES * row,
                "elements of two bytes counted, not bytes": each / P_BF16},
               label="Size of one transfer")
    count = 2 * size // each
    yield Part("transfers", count, "", f"bytes / transfer = {2 * size:,} / {each:,}",
               {"loads alone: each tile is stored, too": count / 2,
                "one transfer for each partition's row": count * partitions,
                "twice the bytes of both directions": 2 * count,
                "the loads of one partition alone": size // row}, label="Number of transfers",
               exact=True)
    yield _reached(size, t, label="BW by total time")
    yield _reached(size, active, "while_active", "BW while the DMA engines are active", "active",
                   {"the time in which they are not": 2 * size / (t - active)} if t > active
                   else {})
    yield _of_spec(2 * size / t, spec, {
        "one direction alone, or the spec figure of two cores": 2 * spec,
        "what one DMA engine carries": EACH}, "B/s", "BW",
        label="Share of the spec figure that BW is")


@problem(
    "day4.do.sweep",
    ask="Your sweep over the transfer size. " + OWN + "copies with so many bytes a partition and "
        "transfer: " + ", ".join(f"{{{name}}} at {size}" for name, size in SIZES.items()) +
        ". The rule: the knee is the smallest size from which on every measured size reaches "
        f"{REACH:.0%} of the best rate. Where no size does, or the largest alone, the curve does "
        "not flatten and there is no knee. What is the best rate, and the level that the rule asks "
        "for? At which size does the curve flatten? Which share of the best does the smallest size "
        'reach? (In JupyterLab, give your own: ask("day4.do.sweep", B128="... GB/s", B256="...", '
        '..., K32="...").)',
    fixed=_made(302e9, (.09, .17, .31, .5, .8, .97, 1., .99, .98)),
    units=dict.fromkeys(SIZES, "B/s"),
    draw=lambda r: _made(r.randrange(190, 420, 9) * 1e9, r.choice(SHAPES)))
def do_sweep(**rates: float) -> Iterator[AnyPart]:
    yield from _knee(rates)


def _loop_work(M: int, K: int, N: int, count: int, label: str = "W of the loop") -> Part:
    W = 2 * M * N * K * count
    return Part("W", W, "FLOP", f"2 M N K × count = 2 × {M:,} × {N:,} × {K:,} × {count}",
                {ONE_FLOP: W / 2, "one pass alone": W / count,
                 "K left out: every output takes K multiply-adds": W / K,
                 "the 2 of a multiply-add counted twice": 2 * W}, label=label)


def _loop_rate(W: float, t: float, count: int) -> Part:
    return Part("P", W / t, "FLOP/s", f"W / t = {flop(W)} / {time(t)}",
                {ONE_FLOP: W / t / 2, "one pass over the time of all of them": W / t / count,
                 "divided by the passes twice over": W / t / count**2,
                 "the 2 of a multiply-add counted twice": 2 * W / t},
                label="Measured P", follows=("/", "W", t))


@problem(
    "day4.do.loop",
    ask="Your resident matmul loop. " + OWN + "M = {M}, K = {K}, N = {N} in bf16, computed {count} "
        "times; the window from the first matmul to the last takes {t}; the spec's P is {spec}. "
        "Find W of the loop, the measured P, its share of the spec, and the time that the loop "
        'would take at the spec\'s P. (In JupyterLab, give your own: ask("day4.do.loop", M=..., '
        'K=..., N=..., count=..., t="...", spec="...").)',
    fixed=dict(M=512, K=2048, N=1024, count=16, t=455e-6, spec=P1),
    units=dict(t="s", spec="FLOP/s"),
    draw=lambda r: (lambda shape, count, spec, share: dict(
        shape, count=count, spec=spec,
        t=float(f"{2 * shape['M'] * shape['K'] * shape['N'] * count / spec / share:.3g}")))(
            dict(M=r.choice((256, 512)), K=r.choice((512, 1024, 1536)), N=r.choice((512, 1024))),
            r.choice((8, 12, 32, 64)), r.choice((P1, P2)), r.randrange(70, 95) / 100))
def do_loop(M: int, K: int, N: int, count: int, t: float, spec: float) -> Iterator[AnyPart]:
    W = 2 * M * N * K * count
    yield _loop_work(M, K, N, count)
    yield _loop_rate(W, t, count)
    yield _of_spec(W / t, spec, {
        "fp32's peak in place of bf16's": spec / 4, "P of two cores, not of one": 2 * spec,
        "the peak with a multiply-add counted as one FLOP": spec / 2}, "FLOP/s", "P")
    yield Part("T_spec", W / spec, "s", f"W / spec = {flop(W)} / {rate(spec)}",
               {ONE_FLOP: W / spec / 2, "one pass alone": W / spec / count,
                "fp32's peak in place of bf16's": 4 * W / spec,
                "at the measured rate, which is the time of the window": t},
               label="Time at the spec's P", follows=("/", "W", spec))


@problem(
    "day4.do.cores",
    ask="Your copy on one core, then on all {n} cores that share HBM. " + OWN + "one core alone "
        "reaches {alone}; all of them at once {together} in total, the slowest of them {slowest}. "
        "What does a core get on average when all copy? How does that compare with a core alone, "
        f"as a ratio? What share of an even part has the slowest? Take figures within {NEAR:.0%} "
        "for the same. Does the even split hold, and does a core alone get more than its part? (In "
        'JupyterLab, give your own: ask("day4.do.cores", n=2, alone="...", together="...", '
        'slowest="...").)',
    fixed=dict(n=2, alone=400e9, together=700e9, slowest=344e9),
    units=dict.fromkeys(("alone", "together", "slowest"), "B/s"),
    draw=lambda r: (lambda n, part, more, least: dict(
        n=n, alone=round(part * more) * 1e9, together=n * part * 1e9,
        slowest=round(part * least) * 1e9))(
            r.choice((2, 4, 8)), r.randrange(210, 370, 10), r.choice((1.0, 1.02, 1.12, 1.2, 1.5)),
            r.choice((0.7, 0.82, 0.97, 0.99))))
def do_cores(n: int, alone: float, together: float, slowest: float) -> Iterator[AnyPart]:
    part = together / n
    if n < 2:
        raise ValueError("n has to be 2 or more")
    if slowest > 1.001 * part:
        raise ValueError("the slowest core cannot be faster than the average")
    yield Part("each", part, "B/s", f"together / n = {band(together)} / {n}",
               {"the total of all cores": together, "divided by the cores twice": part / n,
                "the others alone share it": together / (n - 1) if n > 2 else 2 * together,
                BITS: 8 * part},
               label="A core's part when all copy")
    yield Part("ratio", alone / part, "", f"alone / each = {band(alone)} / {band(part)}",
               {"over the total of all cores": alone / together,
                "divided by the part of a part": n * alone / part,
                **({} if abs(alone / part - 1) < NEAR else {UPSIDE_DOWN: part / alone}),
                "the total over the core alone, not each one's part": together / alone},
               label="A core alone over a core among all", follows=("/", alone, "each"))
    yield Part("least", slowest / part, "", f"slowest / each = {band(slowest)} / {band(part)}",
               {"over the total of all cores": slowest / together,
                "multiplied by the cores twice": n * slowest / part,
                **({} if slowest / part > 1 - NEAR else {UPSIDE_DOWN: part / slowest}),
                "over the total, and then halved": slowest / together / 2},
               label="The slowest core's share of an even part" + SHARE,
               follows=("/", slowest, "each"))
    even = "even" if slowest >= (1 - NEAR) * part else "uneven"
    yield Choice("split", even,
                 {"even": "it holds: every core gets about the same",
                  "uneven": "it does not: some core gets clearly less than an even part"},
                 f"The slowest has {slowest / part:.1%} of an even part.",
                 _others(even, {"even": "Compare the slowest core with the average of all.",
                                "uneven": "The slowest core is within the margin of the average of "
                                          "all."}), label="Does the even split hold?")
    more = ("more" if alone > (1 + NEAR) * part else
            "less" if alone < (1 - NEAR) * part else "same")
    yield Choice("alone", more,
                 {"more": "more: the figure with all at work is pessimistic for a one-core kernel",
                  "same": "the same: something of its own stops a core before HBM does",
                  "less": "less: that cannot be, so a reading is wrong"},
                 f"Alone a core has {alone / part:.3g} times what it has among all.",
                 _others(more, {"more": "Compare the core alone with the part it gets when all "
                                        "copy.",
                                "same": "The two differ by more than the margin.",
                                "less": "The core alone is not slower."}),
                 label="What does a core get alone?")


@problem(
    "day4.do.gaps",
    ask="Your gap. " + OWN + "the kernel takes {t}, its T_best on the spec's roof is {best}. On "
        "the timeline, {ends} pass before the first packet and after the last one, {between} "
        "between them with no packet under way, and packets cost {packets} besides their bytes. "
        "How long is the gap? How much of it have you named, how much is left, and which share of "
        "the gap is that? What do you write beside what is left? (In JupyterLab, give your own: "
        'ask("day4.do.gaps", t="...", best="...", ends="...", between="...", packets="...").)',
    fixed=dict(t=460e-6, best=327e-6, ends=16e-6, between=31e-6, packets=54e-6),
    units=dict.fromkeys(("t", "best", "ends", "between", "packets"), "s"),
    draw=lambda r: dict(t=r.randrange(500, 620, 10) * 1e-6, best=r.randrange(310, 380, 10) * 1e-6,
                        ends=r.choice((13e-6, 15e-6, 18e-6)),
                        between=r.randrange(20, 45, 3) * 1e-6,
                        packets=r.randrange(35, 60, 4) * 1e-6))
def do_gaps(t: float, best: float, ends: float, between: float, packets: float,
            ) -> Iterator[AnyPart]:
    gap, named = t - best, ends + between + packets
    if gap <= 0:
        raise ValueError("t has to be above best: a kernel at T_best has no gap to explain")
    if named > gap * (1 + 1e-9):
        raise ValueError("the causes are longer than the gap: some time is counted twice")
    left = round(gap - named, 15)
    yield Part("gap", gap, "s", f"t - T_best = {show(t, 's', 6)} - {show(best, 's', 6)}",
               {"the whole time, not what exceeds T_best": t, "T_best, not the gap": best,
                "the two times added": t + best, "the ends taken off as well": gap - ends},
               label="The gap")
    yield Part("named", named, "s", "ends + between + packets = "
               f"{show(ends, 's', 6)} + {show(between, 's', 6)} + {show(packets, 's', 6)}",
               {"the ends left out": between + packets,
                "the packets left out": ends + between,
                "the largest of them alone": max(ends, between, packets),
                "the time between packets left out": ends + packets},
               label="Named so far")
    yield Part("left", left, "s", f"gap - named = {show(gap, 's', 6)} - {show(named, 's', 6)}",
               {"what is named, not what is left": named,
                "the whole time less what is named": t - named, "the gap itself": gap,
                "the two added": gap + named},
               label="Not named yet", follows=("+", "gap", ("*", "named", -1.0)))
    yield Part("share", left / gap, "", f"left / gap = {show(left, 's', 6)} / {show(gap, 's', 6)}",
               {"over the whole time, not over the gap": left / t,
                "over T_best, not over the gap": left / best,
                "the named share": named / gap},
               label="Share of the gap not named" + SHARE, follows=("/", "left", "gap"))
    right = "cause" if left > 0.02 * gap else "done"
    yield Choice("write", right,
                 {"cause": "a further cause, found on the timeline",
                  "overhead": "overhead",
                  "done": "nothing: it is within the rounding of the readings"},
                 "Look where the timeline shows neither of the three: few engines at work, a "
                 "throttle, a wait for another engine, bytes that were not counted."
                 if right == "cause" else
                 f"{left / gap:.1%} of the gap is less than the readings are sure of.",
                 _others(right, {"overhead": "That word names no cause and leads to no remedy.",
                                 "done": "It is too much for rounding: see its share of the gap.",
                                 "cause": "See its share of the gap: readings are no surer than "
                                          "that."}), label="What stands beside the rest?")


PROBLEMS = collect(globals())
