"""What others measured on these chips and published, with its conditions.

Question  which bandwidth did others reach, moving what how, by which clock?
Answer    published(chip) -> Publications: rows of kind "published", each with its source
Assumes   neuroncore's rows.csv holds the times, machine.toml the lone core
Ignores   whether the figure is right: rows that nothing was made of say why
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import machine as machines
from .. import units
from ..machine import Spec
from ..neuroncore import rows as table
from ..nki import dtypes
from ..table import aligned
from .measuring import Curve, MeasureError

SAME = {"inf2": ("trn1", "inf2"), "trn1": ("trn1", "inf2")}  # one core, NeuronCore-v2, on both
WAYS = {"read": "read", "write": "write", "hbm_copy": "both"}  # by the kernel that stands for it
MOVES = ("copy", "elementwise")  # kinds of rows whose time is that of moving bytes
CLOCKS = {"profile": "profiler", "derived": "rate given", "wall": "wall clock, a long run",
          "benchmark": "device benchmark", "": "host clock"}


@dataclass(frozen=True, repr=False)
class Published:
    """One figure of somebody else's.

    id               of the row
    way              "read" (HBM to SBUF), "write" (SBUF to HBM) or "both"
    cores            that moved at once; `nbytes` is of all of them
    seconds          None where only the rate is known
    partition_bytes  contiguous bytes a partition and transfer; None where nobody said
    clock            what was timed, in words
    why_not          why nothing is made of it; "" where something is
    """

    id: str
    chip: str
    way: str
    what: str
    cores: int
    nbytes: int
    seconds: float
    partition_bytes: int | None
    clock: str
    source: str
    kind: str = "published"
    why_not: str = ""
    note: str = ""
    spec: Spec | None = field(default=None, compare=False)

    @property
    def bandwidth(self) -> float:
        """B/s of all cores."""
        return self.nbytes / self.seconds

    @property
    def usable(self) -> bool:
        """Whether it belongs in a curve."""
        return not self.why_not

    @property
    def label(self) -> str:
        """Whose figure."""
        return f"{self.kind}: {self.source}"

    def __repr__(self) -> str:
        width = "unknown" if self.partition_bytes is None else units.mebi(self.partition_bytes)
        rows = [("what", self.what), ("chip", f"{self.chip}, {self.cores} core"
                                      + "s" * (self.cores > 1)),
                ("moved", f"{units.show(self.nbytes, 'B', 4)} in "
                          f"{units.show(self.seconds, 's', 4)}, clock: {self.clock}"),
                ("bandwidth", units.show(self.bandwidth, "B/s", 4)),
                ("a partition", width)]
        rows += [("not used", self.why_not)] * bool(self.why_not)
        rows += [("assumed", self.note)] * bool(self.note)
        return "\n".join([f"{self.id}, {self.label}", *aligned(rows, indent="  ")])


@dataclass(frozen=True, repr=False)
class Publications(Sequence[Published]):
    """Published figures of one chip's core, usable ones first."""

    chip: str
    rows: tuple[Published, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Any:
        return self.row(at) if isinstance(at, str) else self.rows[at]

    def __iter__(self) -> Iterator[Published]:
        return iter(self.rows)

    def row(self, id: str) -> Published:
        """One row by its id, such as "C26"."""
        for row in self.rows:
            if row.id == id:
                return row
        raise MeasureError(f"published: no row {id!r} here; there are: "
                           f"{', '.join(row.id for row in self.rows) or 'none'}")

    def of(self, way: str | None = None, cores: int | None = None) -> "Publications":
        """Those that went this way, with so many cores."""
        return Publications(self.chip, tuple(
            row for row in self.rows if way in (None, row.way) and cores in (None, row.cores)))

    def curve(self, way: str) -> Curve:
        """Bytes a partition and B/s of the usable rows of one core of this very chip whose width
        is known, in order.
        """
        known = sorted((row.partition_bytes, row.bandwidth) for row in self.of(way, 1)
                       if row.usable and row.partition_bytes and row.chip == self.chip)
        return Curve(tuple(float(x) for x, _ in known), tuple(y for _, y in known))

    def __repr__(self) -> str:
        if not self.rows:
            return f"nothing is published of {self.chip} that this course knows"
        rows = [("id", "what", "cores", "a partition", "moved", "GB/s", "kind", "clock", "notes")]
        rows += [(row.id, f"{row.chip} {row.way}", str(row.cores),
                  "-" if row.partition_bytes is None else units.mebi(row.partition_bytes),
                  units.mebi(row.nbytes), f"{row.bandwidth / 1e9:.1f}", row.kind, row.clock,
                  f"not used: {row.why_not}" if row.why_not else row.note) for row in self.rows]
        sources = dict.fromkeys(f"{row.source}: " + ", ".join(
            one.id for one in self.rows if one.source == row.source) for row in self.rows)
        return "\n".join([*aligned(rows, left=(0, 1, 6, 7, 8)), "sources",
                          *(f"  {text}" for text in sources)])


def published(chip: str, way: str | None = None, cores: int | None = None) -> Publications:
    """What others published of moving bytes on this chip's core; usable rows first.

    Trn1 and Inf2 have the same core, so each has the rows of both.

    >>> published("trn1").row("C12").partition_bytes
    1024
    """
    machines.get(chip)
    chips = SAME.get(chip, (chip,))
    found = [_copy(row) for row in table.rows().values()
             if row.chip in chips and row.kind == "copy"]
    found += _elementwise(chips) + _lone(chips)
    return Publications(chip, tuple(sorted(found, key=lambda row: not row.usable))).of(way, cores)


def _copy(row: table.Row) -> Published:
    """A row of kind copy: its bytes are of all cores, its kernel's arrays those of one."""
    way = WAYS.get(row.kernel) or ("both" if "copy" in row.op and "read" not in row.op else
                                   "write" if "write" in row.op else "read")
    width = None
    if row.usable:
        shape, dtype = row.launches[0].arrays[0]
        width = shape[-1] * dtypes.of(dtype).itemsize
    return Published(row.id, row.chip, way, row.op, 2 if "both cores" in row.op else 1,
                     row.hbm_bytes or 0, row.time_us / 1e6, width, CLOCKS[row.clock], row.source,
                     why_not=row.reason, note=row.assumed)


def _elementwise(chips: Sequence[str]) -> list[Published]:
    return []


def _lone(chips: Sequence[str]) -> list[Published]:
    return []
