"""How far the cost model is from published times, and what each of its mechanisms buys.

Question  how wrong is the model, on which rows, and how wrong where it has not seen the source?
Answer    error_report(): rows, kinds, mechanisms, misses; fit(chip): the constants themselves
Assumes   the usable rows of rows.csv, each as the kernel of kernels.py that stands for it
Ignores   rows that rows.csv excludes, each with its reason

    python -m roofline.neuroncore.report          the report
    python -m roofline.neuroncore.report --fit    the constants of each chip, fitted again

The fit is Gauss-Newton on every usable row of a chip, in units of the row's target, so that a copy
counts as much at 5 % as a GEMM at 15 %. A row that is r targets off is likely of another kernel:
its weight is 1 / (1 + r) for the first steps, which lead to one place wherever they start, and
then 1 / (1 + r^2). What no row decides stays at START. No row has a weight of its own.
"""

import math
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from .. import machine, nki, units
from ..table import aligned
from . import kernels
from .graph import graph
from .model import predict, simulate
from .prices import MECHANISMS, Prices, constants
from .rows import Launch, Row, rows, usable

# What a row is asked to meet, as a share; tiny kernels and launches: 5 us at least.
TARGETS = {"copy": 0.05, "gemm": 0.15, "tiny": 0.05}
OTHERS = 0.15  # no target was set: what counts as a miss to be explained
FLOOR_US = 5.0
CHIPS = ("trn1", "trn2")
# The constants that rows may move: what they start from, and how far they may be from it as easily
# as a row may miss its target. What they start from owes nothing to the rows: it is of the two
# whole profiles of a Trn2 core, or of the documents (17 GB/s a DMA engine of Trn1), and on Trn1, of
# which there is no whole profile, loose. s and B/s.
START: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "trn1": {"start": (13.5e-6, 4e-6), "dma_issue": (0.6e-6, 0.3e-6), "packet": (7.6e-9, 30e-9),
             "store": (0.0, 0.3e-6), "engine_read": (17e9, 6e9), "engine_write": (17e9, 6e9),
             "engine_mixed": (17e9, 6e9), "matmul": (2e-9, 60e-9), "vector": (65e-9, 60e-9),
             "latency": (130e-9, 120e-9)},
    "trn2": {"start": (13.5e-6, 4e-6), "end": (1.5e-6, 0.5e-6), "benchmark": (7.4e-6, 4e-6),
             "dma_receipt": (0.6e-6, 0.3e-6), "packet": (7.6e-9, 2e-9), "matmul": (2e-9, 2e-9),
             "vector": (65e-9, 10e-9), "scalar": (143e-9, 20e-9), "latency": (130e-9, 40e-9),
             "throttle": (9e-6, 2.4e-6)},
}
STEPS = 8


# --- one row -------------------------------------------------------------------------------------

# Kernels that repeat themselves: the arrays and dimensions that count the repetitions, how many
# rows of one make a repetition, and two numbers of repetitions to predict instead of a larger one.
# From there on each repetition takes as long, so the rest is a straight line (a test holds it).
_REPEATS: Mapping[str, tuple[tuple[tuple[int, int], ...], str | int, tuple[int, int]]] = {
    "read": (((0, 0),), 1, (256, 512)), "write": (((0, 0),), 1, (256, 512)),
    "hbm_copy": (((0, 0),), 1, (256, 512)), "vector_add": (((0, 0), (1, 0)), 1, (256, 512)),
    "gemm_rows": (((0, 1),), "rows", (6, 8)), "gemm_tiles": (((0, 1),), 128, (4, 6)),
    "gemm_from_rows": (((0, 0),), "rows", (2, 3)), "gemm_blocks": (((0, 1),), "rows", (2, 3)),
    "gemm_batched": (((0, 0), (1, 0)), 1, (2, 3)), "conv1d": (((0, 0),), 1, (1, 2)),
    "attention": (((1, 0), (0, 0), (2, 0)), 1, (1, 2)),
}


def _parts(launch: Launch) -> list[tuple[float, Launch]]:
    """(share, launch): the launch is their weighted sum; itself where it is short."""
    axes, unit, (few, more) = _REPEATS.get(launch.kernel, ((), 1, (0, 0)))
    if not axes:
        return [(1.0, launch)]
    each = launch.options[unit] if isinstance(unit, str) else unit
    total = launch.arrays[axes[0][0]][0][axes[0][1]] // each
    if total <= 2 * more:
        return [(1.0, launch)]
    slope = (total - few) / (more - few)
    return [(1 - slope, _cut(launch, axes, few, total)), (slope, _cut(launch, axes, more, total))]


def _cut(launch: Launch, axes: Sequence[tuple[int, int]], some: int, total: int) -> Launch:
    """The launch with `some` of its `total` repetitions."""
    shapes = [list(shape) for shape, _ in launch.arrays]
    for array, dim in axes:
        shapes[array][dim] = shapes[array][dim] * some // total
    return Launch(launch.kernel, tuple(
        (tuple(shape), dtype) for shape, (_, dtype) in zip(shapes, launch.arrays, strict=True)),
        launch.options)


@cache
def _counted(id: str) -> tuple[tuple[float, nki.Run], ...]:
    """The row's runs, on shapes alone, each with its share."""
    row = rows()[id]
    return tuple((share, nki.run(getattr(kernels, part.kernel), *part.arrays, target=row.chip,
                                 data=False, **part.options))
                 for launch in row.launches for share, part in _parts(launch))


@cache
def _predicted(id: str) -> tuple[tuple[float, "_Again"], ...]:
    """The same, ready to be priced again."""
    return tuple((share, _Again(run, rows()[id])) for share, run in _counted(id))


class _Again:
    """A run whose instructions and their order are known: other constants cost one simulation."""

    def __init__(self, run: nki.Run, row: Row) -> None:
        self.run, self.row = run, row
        self.core = machine.get(run.target.key, "core")
        self.moving = [(c.count.hbm_read_bytes, c.count.hbm_write_bytes) for c in run.cores]
        self.graph = graph(run, row.buffers)
        kinds: dict[tuple, int] = {}
        self.kind = [kinds.setdefault((i[0], *[p[1] for p in i[2]], *[p[1] for p in i[3]]),
                                      len(kinds)) for i in self.graph.issued]
        self.one = dict(zip(self.kind, self.graph.issued, strict=True))
        nominal = Prices(self.core, frozenset(), {}, self.moving)
        early = simulate(self.graph, self.priced(nominal), nominal, range(len(self.graph.core)),
                         queues=2).start
        self.order = sorted(range(len(early)), key=lambda i: (early[i], i))

    def priced(self, rules: Prices) -> list:
        """What each instruction costs; equal ones are priced once."""
        prices = {kind: rules.of(i[0], i[2], i[3]) for kind, i in self.one.items()}
        return [prices[kind] for kind in self.kind]

    def seconds(self, given: Mapping[str, float], without: frozenset[str]) -> float:
        """The row's clock."""
        if "buffers" in without:
            made = predict(self.run, buffers=self.row.buffers, without=without, constants=given)
            return 1e-9 * (made.benchmark if self.row.clock == "benchmark" else made.time)
        rules = Prices(self.core, without, given, self.moving)
        over = simulate(self.graph, self.priced(rules), rules, self.order).over
        fixed = (rules.ns["benchmark"] - rules.ns["start"] if self.row.clock == "benchmark"
                 else rules.ns["end"])
        return 1e-9 * (max(over) + fixed)


def modelled(row: Row, given: Mapping[str, float] | None = None,
             without: Sequence[str] = ()) -> float:
    """Seconds that the model gives a row, by the row's clock.

    given     constants by name instead of constants.toml's; without: MECHANISMS that are off
    """
    off = frozenset(without)
    return sum(share * one.seconds(given or {}, off) for share, one in _predicted(row.id))


def target(row: Row) -> float:
    """How far the model may be from a row, in seconds."""
    allowed = TARGETS.get(row.kind, OTHERS) * row.time_us
    small = row.kind == "tiny" or row.time_us < FLOOR_US / OTHERS
    return 1e-6 * (max(FLOOR_US, allowed) if small else allowed)


# --- the fit -------------------------------------------------------------------------------------


def sources() -> tuple[str, ...]:
    """Who published the usable rows: the first word of each source, once."""
    return tuple(dict.fromkeys(campaign(row) for row in usable()))


def campaign(row: Row) -> str:
    """Whose row it is: several documents of one repository are one source."""
    owner, found, rest = row.source.partition("/")
    return f"{owner}/{rest.split()[0]}" if found and " " not in owner else row.source


def _of(chip: str) -> list[Row]:
    """Usable rows of a chip; Inferentia2 has Trainium1's core."""
    return [row for row in usable() if (row.chip == "trn2") == (chip == "trn2")]


@cache
def _slopes(chip: str, at: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Misses of a chip's rows in units of their targets, and what they change by a constant's
    scale; by a difference of a twentieth of it.
    """
    def misses(values: Sequence[float]) -> np.ndarray:
        given = dict(zip(START[chip], values, strict=True))
        return np.array([(modelled(row, given) - 1e-6 * row.time_us) / target(row)
                         for row in _of(chip)])

    base, scales = misses(at), [scale for _, scale in START[chip].values()]
    moved = [[v + 0.05 * scale * (i == j) for j, v in enumerate(at)]
             for i, scale in enumerate(scales)]
    return base, np.stack([(misses(values) - base) / 0.05 for values in moved], 1)


def _step(chip: str, at: tuple[float, ...], left_out: str = "", most: float = 1.0,
          power: int = 2) -> tuple[float, ...]:
    """One Gauss-Newton step from these constants, by the rows of all sources but one.

    most    how many scales a constant may move; power: of r in a row's weight
    """
    start, scale = np.array([*START[chip].values()]).T
    base, slopes = _slopes(chip, at)
    kept = np.array([campaign(row) != left_out for row in _of(chip)])
    weight = kept / (1 + abs(base) ** power)
    away = (np.array(at) - start) / scale
    change = np.linalg.solve(slopes.T @ (weight[:, None] * slopes) + np.eye(len(start)),
                             -slopes.T @ (weight * base) - away)
    return tuple(np.maximum(np.array(at) + np.clip(change, -most, most) * scale, 0.0).tolist())


@cache
def fit(chip: str) -> Mapping[str, float]:
    """The constants of a chip from all its usable rows; nothing is drawn, so they come again.

    From START, in STEPS steps; three digits, as constants.toml has them.
    """
    at = tuple(value for value, _ in START[chip].values())
    for step in range(STEPS):
        at = _step(chip, at, power=1 if step < STEPS // 2 else 2)
    return {name: float(f"{value:.3g}") for name, value in zip(START[chip], at, strict=True)}


def without_source(chip: str, left_out: str) -> Mapping[str, float]:
    """The constants had a source not been there: one step from the shipped ones, of any length."""
    shipped = constants(machine.get(chip, "core"))
    at = tuple(shipped[name].value for name in START[chip])
    return dict(zip(START[chip], _step(chip, at, left_out, math.inf), strict=True))


# --- the report ----------------------------------------------------------------------------------

# A row that each mechanism is held by: it must be further off without.
HELD_BY = {
    "start": "S11", "issue": "S08", "latency": "M08", "packets": "C12", "rates": "C13",
    "engines": "E05", "matmul": "V03", "instruction": "A10", "weight load": "A10",
    "throttle": "F25", "buffers": "M05",
}
# Rows beyond their target, and what is known of why.
WHY = {
    "S03": "300 transfers in 53 us; S01's take twice as long each. Merged by the compiler?",
    "M01": "from a utilisation, which may leave out start and end, 12 us of ours",
    "M08": "one load at a time: its latency is all there is, and ours is 1 us short",
    "M09": "from a utilisation, which may leave out start and end, 12 us of ours",
    "M38": "its Tensor Engine was busy for 7.3 ms; 4096 fp32 matmuls of 512 columns are 3.5 ms at "
           "the price of M36, by the same author",
    "F09": "a quarter of its Tensor Engine work were transposes; as described they are 6 %",
    "F17": "two launches; the fixed cost of one is too small for it and too large for A08",
    "F19": "as described it moves 20 MB; it ran as if the compiler kept an operand",
    "F26": "Tensor and DMA overlap here; there they seem not to, all the time",
    "A01": "the notes do not say how often the scores cross HBM, nor in which passes",
    "A03": "Vector and Tensor overlap here better than in that step of the search",
    "A13": "the second kernel: transposes and products overlap here better than there",
    "A14": "fp32 transposes of a short kernel: priced as 2-pass matmuls",
    "A24": "a baseline: its softmax and its products seem not to overlap",
    "E01": "a seed: nothing says how deep it buffers; one buffer would give more than it took",
    "E05": "a seed: nothing says how deep it buffers; one buffer would give more than it took",
    "E14": "transfers of 2 KiB a partition: 105 ns a packet there, 83 by our price",
    "E18": "its 131,072 instructions depend on each other, or are merged in pairs",
    "E20": "steps of the tutorial's kernel that we do not know",
    "V12": "from a utilisation that counts fp32 twice",
}


@dataclass(frozen=True)
class Compared:
    """One usable row: published and modelled seconds.

    left_out   modelled with constants fitted without the row's source
    allowed    its target, in seconds
    why        of a row that misses it
    """

    id: str
    source: str
    chip: str
    kind: str
    clock: str
    published: float
    modelled: float
    left_out: float
    allowed: float
    why: str
    usable = True

    @property
    def error(self) -> float:
        """Modelled over published, less 1."""
        return self.modelled / self.published - 1

    @property
    def left_out_error(self) -> float:
        return self.left_out / self.published - 1

    @property
    def met(self) -> bool:
        return abs(self.modelled - self.published) <= self.allowed


@dataclass(frozen=True)
class Bought:
    """One mechanism: the row that holds it, its error with and without."""

    mechanism: str
    row: str
    error: float
    without: float


@dataclass(frozen=True, repr=False)
class Report:
    """The model against every usable row; iterates over them."""

    rows: tuple[Compared, ...]
    mechanisms: tuple[Bought, ...]
    excluded: tuple[Row, ...]

    def __iter__(self) -> Iterator[Compared]:
        return iter(self.rows)

    @property
    def misses(self) -> tuple[Compared, ...]:
        """Rows beyond their target."""
        return tuple(row for row in self.rows if not row.met)

    @property
    def table(self) -> str:
        """Every row, a line each."""
        return "\n".join(aligned(
            [("row", "kind", "chip", "clock", "published", "modelled", "error", "left out"), *(
                (r.id, r.kind, r.chip, r.clock, _time(r.published), _time(r.modelled),
                 _share(r.error), _share(r.left_out_error)) for r in self.rows)],
            left=range(4)))

    def __repr__(self) -> str:
        groups = [(kind, [r for r in self.rows if r.kind == kind])
                  for kind in dict.fromkeys(r.kind for r in self.rows)]
        whose = [(name, [r for r in self.rows if r.source == name])
                 for name in dict.fromkeys(r.source for r in self.rows)]
        return "\n".join([
            f"Cost model against {len(self.rows)} published times ({len(self.excluded)} more are "
            "excluded, each with its reason)", "",
            *_grouped("kind", groups), "", "the same with the row's own source left out of the fit",
            *_grouped("source", whose, left_out=True), "", "what each mechanism buys",
            *aligned([("mechanism", "row", "error", "without"), *(
                (b.mechanism, b.row, _share(b.error), _share(b.without))
                for b in self.mechanisms)], left=range(2)), "", "beyond their target",
            *aligned([("row", "published", "modelled", "error", "why"), *(
                (r.id, _time(r.published), _time(r.modelled), _share(r.error), r.why)
                for r in self.misses)], left=(0, 4))])


def _grouped(title: str, groups: Sequence[tuple[str, list[Compared]]],
             left_out: bool = False) -> list[str]:
    """Rows, median and worst error of each group."""
    cells: list[tuple[str, ...]] = [(title, "rows", "median", "worst", "", "met", "target")]
    for name, members in groups:
        errors = {r.id: r.left_out_error if left_out else r.error for r in members}
        worst = max(errors, key=lambda id: abs(errors[id]))
        met = sum(abs(errors[r.id]) * r.published <= r.allowed for r in members)
        asked = f"{TARGETS[name]:.0%}" if name in TARGETS else ""
        median = statistics.median(map(abs, errors.values()))
        cells.append((name, str(len(members)), f"{median:.1%}",
                      _share(errors[worst]), worst, str(met),
                      asked + f", at least {FLOOR_US:g} us" * (name == "tiny")))
    shown = cells if any(c[-1] for c in cells[1:]) else [c[:-1] for c in cells]
    return aligned(shown, left=(0, 4, 6))


def _share(value: float) -> str:
    return f"{value:+.1%}"


def _time(seconds: float) -> str:
    return units.show(seconds, "s", digits=4)


@cache
def error_report() -> Report:
    """The model against every usable row, each source left out in turn, each mechanism off.

    The first call of a process takes most of a minute; later ones are free.
    """
    compared = []
    for row in usable():
        chip = "trn2" if row.chip == "trn2" else "trn1"
        blind = without_source(chip, campaign(row))
        made = modelled(row)
        met = abs(made - 1e-6 * row.time_us) <= target(row)
        compared.append(Compared(
            row.id, campaign(row), row.chip, row.kind, row.clock, 1e-6 * row.time_us, made,
            modelled(row, blind), target(row), "" if met else WHY.get(row.id, "not known")))
    found = {row.id: row for row in compared}
    bought = []
    for name in MECHANISMS:
        held = found[HELD_BY[name]]
        off = modelled(rows()[held.id], without=(name,))
        bought.append(Bought(name, held.id, held.error, off / held.published - 1))
    return Report(tuple(compared), tuple(bought),
                  tuple(row for row in rows().values() if not row.usable))


def main(arguments: Sequence[str]) -> int:
    """The command: the report, or with --fit the constants as constants.toml writes them."""
    if "--fit" not in arguments:
        print(error_report())
        return 0
    for chip in CHIPS:
        shipped = constants(machine.get(chip, "core"))
        print(f"[{chip}]")
        for name, value in fit(chip).items():
            same = "" if math.isclose(value, shipped[name].value, rel_tol=5e-3) else (
                f"  # constants.toml: {shipped[name].value:.3g}")
            print(f"{name} = {value:.3g}{same}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
