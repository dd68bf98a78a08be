"""What others measured on these chips and published, with its conditions.

Question  which bandwidth did others reach, moving what how, by which clock?
Answer    published(chip) -> Publications: rows with bytes, time, clock, width and source each
Assumes   neuroncore's rows.csv holds the times; machine.toml what a lone Trainium2 core reached
Ignores   compute: rows that only multiply; how far a row is to be believed, beyond what is possible
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import machine as machines
from .. import units
from ..count import Count
from ..neuroncore import rows as table
from ..nki import dtypes
from ..table import aligned, wrapped
from .measuring import Curve, MeasureError
from .plausibility import Flag, excluded, plausible_time

WAYS = {"read": "read", "write": "write", "hbm_copy": "both"}  # by the kernel that stands for it
CLOCKS = {"profile": "profiler", "derived": "as given", "wall": "wall, long run",
          "benchmark": "on the device", "": "host"}
# What a source says beside the figure of a row, GB/s; rows.csv has one figure a row.
BESIDE: Mapping[str, tuple[tuple[str, float], ...]] = {
    "C15": (("two parallel loads of 4 KiB", 268.8),),
    "C17": (("by wall clock", 255.1),),
    "C18": (("by wall clock", 272.6),),
    "C20": (("without prefetch", 262.59), ("depth 2", 265.25), ("depth 8", 264.82),
            ("an explicit DMA copy", 265.25)),
}


@dataclass(frozen=True, repr=False)
class Published:
    """One figure of somebody else's.

    id               of the row
    op               "copy", or what it computes: "elementwise", "gemm"
    way              "read" (HBM to SBUF), "write" (SBUF to HBM) or "both"
    cores            that moved at once; `nbytes` is of all of them
    partition_bytes  contiguous bytes a partition and transfer; None where there is no telling
    assumed          what the row leaves open and this course filled in; "" where nothing
    clock            what was timed, in words
    kind             "published"; "derived" where the published time had to be corrected
    why_not          why nothing is made of it; "" where something is
    """

    id: str
    chip: str
    op: str
    way: str
    what: str
    cores: int
    nbytes: int
    seconds: float
    partition_bytes: int | None
    clock: str
    source: str
    kind: str
    why_not: str
    assumed: str
    note: str = ""

    @property
    def bandwidth(self) -> float:
        """B/s of all cores."""
        return self.nbytes / self.seconds

    @property
    def usable(self) -> bool:
        """Whether something may be made of it."""
        return not self.why_not

    @property
    def label(self) -> str:
        """Whose figure."""
        return f"{self.kind}: {self.source}"

    @property
    def beside(self) -> tuple[tuple[str, float], ...]:
        """What the same source measured in another way: (how, B/s)."""
        return tuple((how, rate * 1e9) for how, rate in BESIDE.get(self.id, ()))

    @property
    def flags(self) -> tuple[Flag, ...]:
        """What is odd about its time, for one core's share of the bytes."""
        return plausible_time(self.seconds, Count({}, self.nbytes // self.cores), self.chip)

    @property
    def width(self) -> str:
        """Bytes a partition; in brackets where they are assumed."""
        if self.partition_bytes is None:
            return "-"
        text = units.mebi(self.partition_bytes)
        return f"({text})" if self.assumed else text

    def __repr__(self) -> str:
        rows = [("what", self.what),
                ("chip", f"{self.chip}, {self.cores} core{'s' * (self.cores > 1)}"),
                ("moved", f"{units.show(self.nbytes, 'B', 4)} in "
                          f"{units.show(self.seconds, 's', 4)}; clock: {self.clock}"),
                ("bandwidth", units.show(self.bandwidth, "B/s", 4)),
                ("partition", self.width)]
        rows += [("not used", self.why_not)] * bool(self.why_not)
        rows += [("assumed", self.assumed)] * bool(self.assumed)
        rows += [("note", self.note)] * bool(self.note)
        rows += [("beside", f"{how}: {units.show(rate, 'B/s', 4)}") for how, rate in self.beside]
        rows += [("flag", str(flag)) for flag in self.flags]
        return "\n".join([f"{self.id}, {self.label}", *wrapped(
            aligned(rows, indent="  "), hang=13)])


@dataclass(frozen=True, repr=False)
class Publications(Sequence[Published]):
    """Published figures of one chip's core; those that something may be made of first."""

    chip: str
    rows: tuple[Published, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Any:
        return self.row(at) if isinstance(at, str) else self.rows[at]

    def row(self, id: str) -> Published:
        """One row by its id, such as "C26"."""
        for row in self.rows:
            if row.id == id:
                return row
        raise MeasureError(f"published: no row {id!r} here; there are: "
                           f"{', '.join(row.id for row in self.rows) or 'none'}")

    def of(self, way: str | None = None, cores: int | None = None,
           op: str | None = None) -> "Publications":
        """Those that went this way, on so many cores, of this op."""
        return Publications(self.chip, tuple(
            row for row in self.rows if way in (None, row.way) and cores in (None, row.cores)
            and op in (None, row.op)))

    def best(self, way: str | None = None, cores: int = 1) -> Published | None:
        """The fastest usable row; None where there is none."""
        return max((row for row in self.of(way, cores) if row.usable and not excluded(row.flags)),
                   key=lambda row: row.bandwidth, default=None)

    def curve(self, way: str) -> Curve:
        """Bytes a partition and B/s, in order: usable copies on one core of this very chip whose
        width was published.
        """
        known = sorted((row.partition_bytes, row.bandwidth) for row in self.of(way, 1, "copy")
                       if row.usable and row.partition_bytes and not row.assumed
                       and row.chip == self.chip)
        return Curve(tuple(float(x) for x, _ in known), tuple(y for _, y in known))

    def __repr__(self) -> str:
        if not self.rows:
            return f"nothing is published of {self.chip} here that this course knows"
        kinds = dict.fromkeys(row.kind for row in self.rows)
        several = len(kinds) > 1
        rows = [("id", *["kind"] * several, "chip", "what", "cores", "partition", "moved", "GB/s",
                 "clock", "notes")]
        rows += [(row.id, *[row.kind] * several, row.chip,
                  row.way if row.op == "copy" else row.op, str(row.cores), row.width,
                  units.show(row.nbytes, "B", 4), f"{row.bandwidth / 1e9:.1f}", row.clock,
                  ", ".join([*["not used"] * (not row.usable), *(f.name for f in row.flags)]))
                 for row in self.rows]
        others = dict.fromkeys(row.op for row in self.rows if row.op != "copy")
        told = [f"{', '.join(others)}: reads and writes, and computes"] * bool(others)
        told += [f"{row.id} not used: {row.why_not}" for row in self.rows if row.why_not]
        told += [f"{row.id}: {row.note}" for row in self.rows if row.note]
        told += [f"{row.id} beside: " + ", ".join(f"{how} {units.show(rate, 'B/s', 4)}"
                                                  for how, rate in row.beside)
                 for row in self.rows if row.beside]
        told += [f"{source}: {', '.join(row.id for row in self.rows if row.source == source)}"
                 for source in dict.fromkeys(row.source for row in self.rows)]
        brackets = ["in brackets: assumed, nobody says"] * any(
            row.width.startswith("(") for row in self.rows)
        return "\n".join([
            f"{' and '.join(kinds)}: by others, on machines of theirs; nothing of it was measured "
            "here",
            *aligned(rows, left=(0, 1, 2, *[3] * several, 7 + several, 8 + several)),
            *wrapped(f"  {text}" for text in [*brackets, *told])])


def published(chip: str, way: str | None = None, cores: int | None = None) -> Publications:
    """What others published of moving bytes on this chip's core.

    way, cores   as `Publications.of`

    Copies, and kernels that also compute but move half of a core's HBM share or more. Trainium1
    and Inferentia2 have the same core, so each has the rows of both.

    >>> published("trn1").row("C12").partition_bytes
    1024
    """
    machines.get(chip)
    core = machines.SAME_CORE.get(chip, chip)
    chips = (core, *(key for key, same in machines.SAME_CORE.items() if same == core))
    found = [_row(row) for row in table.rows().values()
             if row.chip in chips and (row.kind == "copy" or _moves(row))]
    found = _lone(chip, found)
    return Publications(chip, tuple(sorted(found, key=lambda row: not row.usable))).of(way, cores)


def _moves(row: table.Row) -> bool:
    """Whether it moves half of a core's HBM share or more; others wait for what computes."""
    share = machines.get(row.chip, "core").bw()
    return row.usable and (row.hbm_bytes or 0) / row.time_us * 1e6 >= share / 2


def _row(row: table.Row) -> Published:
    """A row's bytes are of all cores, the arrays of its kernel those of one."""
    told = row.op.partition(",")[0]
    way = "both" if row.kind != "copy" else WAYS.get(row.kernel) or next(
        (way for way in ("read", "write") if way in told), "both")
    width = None
    if row.usable and row.kernel in ("read", "write"):  # others have no one width
        shape, dtype = row.launches[0].arrays[0]
        width = shape[-1] * dtypes.of(dtype).itemsize
    return Published(row.id, row.chip, row.kind, way, f"{row.op}, {row.shape}",
                     2 if "both cores" in row.op else 1, row.hbm_bytes or 0, row.time_us / 1e6,
                     width, CLOCKS[row.clock], row.source, "published", row.reason, row.assumed)


def _lone(chip: str, found: Sequence[Published]) -> list[Published]:
    """Rows behind the machine's lone core, and others of their source: derived, as it is."""
    lone = machines.get(chip).facts.get("lone_core_bandwidth")
    figures = (lone, *lone.rivals) if lone else ()
    notes = {row.id: spec.holds for row in found for spec in figures
             if math.isclose(row.bandwidth, spec.value, rel_tol=1e-3)}
    sources = {row.source: row.id for row in found if row.id in notes}
    return [replace(row, kind="derived",
                    note=notes.get(row.id) or f"its time is corrected as that of "
                                              f"{sources[row.source]}")
            if row.source in sources else row for row in found]
