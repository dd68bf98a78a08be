"""Day 4: spec and measured.

Question  which bandwidth and which compute rate does a kernel reach, and why not the spec figure?
Answer    PROBLEMS, in the page's order; ids begin with day4.
Assumes   one core unless said; what a profile shows is an input: made up for the exercise,
          published where the question says so, or the reader's own
Ignores   reading a whole profile (Day 7); bytes that come back (Day 5)
"""

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
FACTS1, FACTS2 = ({name: spec.value for name, spec in chip.facts.items()} for chip in (TRN1, TRN2))
CORES1, CORES2 = (int(chip.at("device").facts["cores"].value) for chip in (TRN1, TRN2))
STACK, SHARING = (DEVICE.facts[name].value for name in (
    "hbm_stack_bandwidth", "cores_per_hbm_stack"))
PARTITIONS, ENGINES, LANES = (int(FACTS1[name]) for name in (
    "pmax", "dma_engines", "dma_partitions_per_engine"))
EACH, MOST = FACTS1["dma_engine_bandwidth"], FACTS1["dma_engine_theoretical"]
ROWS, COLUMNS, N_MAX, FLOOR = (int(FACTS1[name]) for name in (
    "tensor_array_rows", "tensor_array_columns", "gemm_moving_fmax",
    "matmul_min_initiation_interval"))
P1, P2, BW1, BW2 = TRN1.peak("bf16"), TRN2.peak("bf16"), TRN1.bw(), TRN2.bw()
LONE = FACTS2["lone_core_bandwidth"]
P_BF16 = BYTES["bf16"]

KIB, MIB, GIB = 2**10, 2**20, 2**30
UPSIDE_DOWN = "the ratio upside down"
BITS = "bytes turned into bits, by a factor 8"
ONE_WAY = "one direction alone, though every byte goes in and out again"
SHARE = ", as a fraction or in %"
OWN = "Until you have readings of your own, take these, which are made up: "


def _others(right: str, reasons: Mapping[str, str]) -> dict[str, str]:
    return {key: reason for key, reason in reasons.items() if key != right}


# --- what several problems ask ------------------------------------------------------------------

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


# --- openers ------------------------------------------------------------------------------------

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


# --- the copy -----------------------------------------------------------------------------------

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


# --- Do -----------------------------------------------------------------------------------------

@problem(
    "day4.do.copy",
    ask="Your copy kernel. " + OWN + "it copies {size} from HBM to HBM by way of SBUF, in "
        "transfers of {partitions} partitions, {row} in each; the profile's total time is {t}, "
        "and the DMA engines are active for {active} of it. Find the bytes moved, the size of a "
        "transfer and how many there are, loads and stores together. What is BW by the total time, "
        "and while the DMA engines are active? What share of the spec's {spec} is BW? (In "
        'JupyterLab, give your own: ask("day4.do.copy", size="64 MiB", row="4 KiB", t="...", '
        'active="...", spec="...").)',
    fixed=dict(size=64 * MIB, partitions=PARTITIONS, row=4 * KIB, t=480e-6, active=455e-6,
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


SIZES = {"B512": "512 B", "K1": "1 KiB", "K2": "2 KiB", "K4": "4 KiB", "K8": "8 KiB",
         "K16": "16 KiB", "K32": "32 KiB"}
REACH = 0.95  # share of the best rate from which on the curve counts as flat
SWEEP = ("bytes a partition and transfer, and the rate: "
         + ", ".join(f"{size}: {{{name}}}" for name, size in SIZES.items()) + ". ")
RULE = ("The rule: the knee is the smallest size from which on every measured size reaches "
        f"{REACH:.0%} of the best rate. Where no size does, or the largest alone, the curve does "
        "not flatten and there is no knee. ")
SHAPES = ((.41, .64, .97, .99, 1., .99, .98), (.33, .52, .78, .97, .99, 1., .99),
          (.22, .4, .66, .85, .97, .98, 1.), (.12, .22, .41, .68, .89, .97, 1.),
          (.11, .21, .37, .55, .72, .87, 1.), (.35, .55, .82, .98, .91, .97, 1.),
          (.3, .48, .79, .97, 1., .92, .98))


def _made(best: float, shape: tuple[float, ...]) -> dict[str, float]:
    """A made-up sweep: whole GB/s."""
    return {name: round(best * share / 1e9) * 1e9
            for name, share in zip(SIZES, shape, strict=True)}


def _knee_of(rates: Mapping[str, float]) -> str:
    """The size where the curve flattens, or "none"."""
    level, found = REACH * max(rates.values()), "none"
    for name in reversed([*rates][:-1]):
        if min(list(rates.values())[list(rates).index(name):]) < level:
            break
        found = SIZES[name]
    return found


def _knee(rates: Mapping[str, float]) -> Iterator[AnyPart]:
    best, least = max(rates.values()), rates["B512"]
    mean, total = sum(rates.values()) / len(rates), sum(rates.values())
    yield Part("best", best, "B/s",
               f"the largest = max({', '.join(band(value) for value in rates.values())})",
               {"the mean of all sizes": mean, "the rate of the smallest size": least,
                "all rates added: they are of seven runs": total},
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
                "the ratio of the sizes, not of the rates": 512 / (32 * KIB)},
               label="Share of the best at the smallest size" + SHARE,
               follows=("/", least, "best"),
               extra={"what is lost, not what is reached": 1 - least / best})


@problem(
    "day4.do.sweep",
    ask="Your sweep over the transfer size. " + OWN + SWEEP + RULE + "What is the best rate, and "
        "the level that the rule asks for? At which size does the curve flatten? Which share of "
        "the best does the smallest size reach? (In JupyterLab, give your own: "
        'ask("day4.do.sweep", B512="... GB/s", K1="...", K2="...", ...).)',
    fixed=_made(302e9, (.31, .5, .8, .97, 1., .99, .98)), units=dict.fromkeys(SIZES, "B/s"),
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


NEAR = 0.05  # two rates closer than this count as the same


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
    if named > gap:
        raise ValueError("the causes are longer than the gap: some time is counted twice")
    left = gap - named
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
