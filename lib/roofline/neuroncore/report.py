"""How far the cost model is from published times, and what each of its mechanisms buys.

Question  how wrong is the model, on which rows, and how wrong where it has not seen the source?
Answer    error_report(): rows, kinds, mechanisms, misses; fit(chip): the constants themselves
Assumes   the usable rows of rows.csv, each as the kernel of kernels.py that stands for it
Ignores   rows that rows.csv excludes, each with its reason

    python -m roofline.neuroncore.report          the report
    python -m roofline.neuroncore.report --fit    the constants of each chip, fitted again: of all
                                                  rows, and without each source (left_out.toml)

The fit is Gauss-Newton on every usable row of a chip, in units of the row's target, so that a copy
counts as much at 5 % as a GEMM at 15 %. A row that is r targets off is likely of another kernel:
its weight is 1 / (1 + r) for the first steps, which lead to one place wherever they start, and
then 1 / (1 + r^2). What no row decides stays at START. No row has a weight of its own.
"""

import statistics
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from .. import nki, units
from ..nki.run import no_collection
from ..table import aligned
from . import kernels
from .model import Plan
from .prices import MECHANISMS
from .rows import DECIDED, Launch, Row, rows, usable

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
STEPS = 10
_MOVED = 0.05  # what a constant is moved by for a slope, in its scale


# --- one row -------------------------------------------------------------------------------------

# Kernels that repeat themselves: the arrays and dimensions that count the repetitions, how many
# rows of one make a repetition, and two numbers of repetitions to predict instead of a larger one.
# From there on each repetition takes as long, so the rest is a straight line (a test holds it).
_REPEATS: Mapping[str, tuple[tuple[tuple[int, int], ...], str | int, tuple[int, int]]] = {
    "read": (((0, 0),), 1, (256, 512)), "write": (((0, 0),), 1, (256, 512)),
    "hbm_copy": (((0, 0),), 1, (256, 512)), "vector_add": (((0, 0), (1, 0)), 1, (256, 512)),
    "gemm_rows": (((0, 1),), "rows", (6, 8)),
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
@no_collection()
def _plans(id: str, two: bool = False) -> tuple[tuple[float, Plan], ...]:
    """The same, ready to be priced; two: two buffers, whatever the row says."""
    return tuple((share, Plan(run, 2 if two else rows()[id].buffers))
                 for share, run in _counted(id))


@no_collection()
def modelled(row: Row, given: Mapping[str, float] | None = None, without: Sequence[str] = (),
             two: bool = False) -> float:
    """Seconds that the model gives a row, by the row's clock.

    given     constants by name instead of constants.toml's; without: MECHANISMS that are off
    two       two buffers a source line, whatever the row says
    """
    off, total = frozenset(without), 0.0
    for share, plan in _plans(row.id, two):
        chosen = Plan(plan.run, None) if "buffers" in off else plan
        made = chosen.predict(plan.shipped, off, given or {})
        total += share * (made.benchmark if row.clock == "benchmark" else made.time)
    return 1e-9 * total


def moved(row: Row) -> int:
    """Bytes at HBM of the kernel that stands for a row: its source's, whatever was published."""
    return round(sum(share * run.count.hbm_bytes for share, run in _counted(row.id)))


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
def _seconds(id: str, chip: str, at: tuple[float, ...]) -> tuple[float, ...]:
    """What the model gives a row with these constants, and with each moved by _MOVED scales."""
    moved = [[v + _MOVED * scale * (i == j) for j, v in enumerate(at)]
             for i, (_, scale) in enumerate(START[chip].values())]
    return tuple(modelled(rows()[id], dict(zip(START[chip], values, strict=True)))
                 for values in (at, *moved))


def _slopes(chip: str, at: tuple[float, ...], left_out: str) -> tuple[np.ndarray, np.ndarray]:
    """Misses of a chip's rows in units of their targets, and what they change by a constant's
    scale; 0 for rows of the source left out, which weigh nothing.
    """
    misses = np.zeros((1 + len(START[chip]), len(_of(chip))))
    for i, row in enumerate(_of(chip)):
        if campaign(row) != left_out:
            misses[:, i] = [(seconds - 1e-6 * row.time_us) / target(row)
                            for seconds in _seconds(row.id, chip, at)]
    return misses[0], np.stack([(moved - misses[0]) / _MOVED for moved in misses[1:]], 1)


def _step(chip: str, at: tuple[float, ...], left_out: str = "", power: int = 2,
          ) -> tuple[float, ...]:
    """One Gauss-Newton step from these constants, by the rows of all sources but one.

    A constant moves by no more than its scale. power: of r in a row's weight
    """
    start, scale = np.array([*START[chip].values()]).T
    base, slopes = _slopes(chip, at, left_out)
    kept = np.array([campaign(row) != left_out for row in _of(chip)])
    weight = kept / (1 + abs(base) ** power)
    away = (np.array(at) - start) / scale
    change = np.linalg.solve(slopes.T @ (weight[:, None] * slopes) + np.eye(len(start)),
                             -slopes.T @ (weight * base) - away)
    return tuple(np.maximum(np.array(at) + np.clip(change, -1, 1) * scale, 0.0).tolist())


def fit(chip: str, left_out: str = "") -> Mapping[str, float]:
    """The constants of a chip from its usable rows, but for those of one source.

    From START, in STEPS steps, so nothing of that source is in them; nothing is drawn, so they
    come again. Three digits, as the files have them. Minutes.
    """
    at = tuple(value for value, _ in START[chip].values())
    for step in range(STEPS):
        at = _step(chip, at, left_out, power=1 if step < STEPS // 2 else 2)
    return {name: float(f"{value:.3g}") for name, value in zip(START[chip], at, strict=True)}


@cache
def without_source(chip: str) -> Mapping[str, Mapping[str, float]]:
    """Source -> the constants had it not been there, as left_out.toml keeps them."""
    return tomllib.loads(files(__package__).joinpath("left_out.toml").read_text("utf-8"))[chip]


# --- the report ----------------------------------------------------------------------------------

# A row that each mechanism is held by: it must be further off without.
HELD_BY = {
    "start": "S11", "issue": "S08", "latency": "M08", "packets": "C12", "rates": "C13",
    "engines": "E05", "matmul": "V03", "instruction": "A10",
    "throttle": "F25", "buffers": "M05",
}
# Rows beyond their target: what is known of why, or may be.
WHY = {
    "S03": "300 transfers in 53 us; each of S01's takes twice as long. Merged by the compiler?",
    "M01": "from a utilisation: may leave out start and end, 12 us of ours. Not all of it",
    "M08": "one load at a time, 256 times: 0.9 us each are missing. Not known",
    "M38": "its time is twice the stated 3.85 ms, a rule for this source's medians. Does it hold "
           "here? 4096 fp32 matmuls of 512 columns are 3.5 ms, and the Tensor Engine was 95 % busy",
    "F09": "its notes: a quarter more Tensor work for transposes; as we read them 6 %",
    "F19": "as described it moves 20 MB, as long as it took. Did the compiler keep an operand?",
    "A01": "the notes do not say how often the scores cross HBM, nor in which passes",
    "A03": "overlaps here; as an early step of a search it may not. One buffer: 800 us",
    "A13": "overlaps here; the notes do not say. One buffer: 1.08 ms",
    "A14": "fp32 costs it 3 us over A08, here 7: matmuls at half speed. Not known",
    "A24": "a baseline: overlaps here, may not there. One buffer: 19.7 ms",
    "E01": "a seed of a search; the notes give no depth. Two buffers: 0.96 ms, one: 1.86 ms",
    "E05": "a seed of a search; the notes give no depth. Two buffers: 3.34 ms, one: 5.32 ms",
    "E20": "steps of the tutorial's kernel that the notes do not name",
    "V12": "from a utilisation: the fp32 factor of 2 in it is assumed",
}


@dataclass(frozen=True)
class Compared:
    """One usable row: published and modelled seconds.

    left_out   modelled with constants fitted without the row's source
    two        modelled with two buffers where no depth is declared
    allowed    its target, in seconds
    marks      d: no depth declared; a: reading amended; else what it decided (rows.DECIDED)
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
    two: float
    allowed: float
    marks: tuple[str, ...]
    why: str
    usable = True

    @property
    def error(self) -> float:
        """Modelled over published, less 1."""
        return self.modelled / self.published - 1

    @property
    def left_out_error(self) -> float:
        """The same of `left_out`."""
        return self.left_out / self.published - 1

    @property
    def met(self) -> bool:
        """Whether it is within its target."""
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
            [("row", "kind", "chip", "clock", "published", "modelled", "error", "left out",
              "2 deep", "marks"), *(
                (r.id, r.kind, r.chip, r.clock, _time(r.published), _time(r.modelled),
                 _share(r.error), _share(r.left_out_error), _share(r.two / r.published - 1),
                 " ".join(r.marks)) for r in self.rows)], left=(0, 1, 2, 3, 9)))

    def median(self, of: Callable[[Compared], float] = lambda row: row.modelled,
               **where: str) -> float:
        """Of |of(row) / published - 1|, over rows with these fields."""
        return statistics.median(abs(of(row) / row.published - 1) for row in self.rows if all(
            getattr(row, name) == value for name, value in where.items()))

    def marked(self, mark: str) -> str:
        """Ids of the rows with a mark."""
        return " ".join(row.id for row in self.rows if mark in row.marks)

    def __repr__(self) -> str:
        deep = len(self.marked("d").split())
        return "\n".join([
            f"Cost model against {len(self.rows)} published times ({len(self.excluded)} more are "
            "excluded, each with its reason)", "", *self._by("kind"), "", *self._by("source"), "",
            *_NOTES.format(deep=deep, rows=len(self.rows), amended=textwrap.fill(
                self.marked("a"), 96, initial_indent="  ", subsequent_indent="  ")).splitlines(),
            *(f"  {self.marked(mark)}: {what}" for mark, what in DECIDED.items()), "",
            "What each mechanism buys: off, the other constants as they are",
            *aligned([("mechanism", "row", "error", "without"), *(
                (b.mechanism, b.row, _share(b.error), _share(b.without))
                for b in self.mechanisms)], left=range(2)), "", "Beyond their target",
            *aligned([("row", "published", "modelled", "error", "why"), *(
                (r.id, _time(r.published), _time(r.modelled), _share(r.error), r.why)
                for r in self.misses)], left=(0, 4))])

    def _by(self, field: str) -> list[str]:
        """A line for each kind or source: median errors, the worst, how many met their target."""
        cells = [(field, "rows", "median", "left out", "2 deep", "worst", "", "met", "left out",
                  "target")]
        for name in dict.fromkeys(getattr(r, field) for r in self.rows):
            members = [r for r in self.rows if getattr(r, field) == name]
            worst = max(members, key=lambda r: abs(r.error))
            medians = (self.median(of, **{field: name}) for of in (
                lambda r: r.modelled, lambda r: r.left_out, lambda r: r.two))
            asked = f"{TARGETS[name]:.0%}" if name in TARGETS else f"({OTHERS:.0%})"
            cells.append((name, str(len(members)), *(f"{m:.1%}" for m in medians),
                          _share(worst.error), worst.id, str(sum(r.met for r in members)),
                          str(sum(abs(r.left_out - r.published) <= r.allowed for r in members)),
                          asked + f", at least {FLOOR_US:g} us" * (name == "tiny")))
        return aligned(cells if field == "kind" else [c[:-1] for c in cells], left=(0, 6, 9))


_NOTES = """\
left out  constants fitted without the row's source. Kernels, depths and mechanisms were chosen with
          all rows in view, and on Trn2 the fit starts from two profiles by trainium-kernel-fusion
2 deep    two buffers a source line, as was frozen, where the notes declare no depth ({deep} rows of
          {rows}). There the model sets no limit, chosen after first predictions: a compiler places
          what there is room for. Same constants

Read anew after the freeze, most after first predictions
{amended}
Decided how something is priced"""


def _share(value: float) -> str:
    return f"{value:+.1%}"


def _time(seconds: float) -> str:
    return units.show(seconds, "s", digits=4)


@cache
def error_report() -> Report:
    """The model against every usable row, each source left out in turn, each mechanism off.

    The first call of a process takes half a minute; later ones are free.
    """
    compared = {}
    for row in usable():
        blind = without_source("trn2" if row.chip == "trn2" else "trn1")[campaign(row)]
        made = modelled(row)
        marks = ("d",) * row.deep + tuple("a" if m == "amended" else m for m in row.marks)
        met = abs(made - 1e-6 * row.time_us) <= target(row)
        compared[row.id] = Compared(
            row.id, campaign(row), row.chip, row.kind, row.clock, 1e-6 * row.time_us, made,
            modelled(row, blind), modelled(row, two=True) if row.deep else made, target(row),
            marks, "" if met else WHY.get(row.id, "not known"))
    bought = []
    for name in MECHANISMS:
        held = compared[HELD_BY[name]]
        off = modelled(rows()[held.id], without=(name,))
        bought.append(Bought(name, held.id, held.error, off / held.published - 1))
    return Report(tuple(compared.values()), tuple(bought),
                  tuple(row for row in rows().values() if not row.usable))


def main(arguments: Sequence[str]) -> int:
    """The command: the report, or with --fit the constants, as left_out.toml has them."""
    if "--fit" not in arguments:
        print(error_report())
        return 0
    for chip in CHIPS:
        print(f"\n[{chip}]")
        for source in ("", *dict.fromkeys(map(campaign, _of(chip)))):
            values = ", ".join(f"{name} = {value:.3g}" for name, value in fit(chip, source).items())
            print(f'"{source}" = {{ {values} }}' if source else f"# all rows: {values}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
