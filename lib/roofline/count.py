"""W and Q of one piece of code, as one small value.

Question  how much work does it do, and how many bytes cross the slow link?
Answer    Count: FLOPs per dtype, bytes read and bytes written; counts add and scale. Transfers: the
          bytes by hand, as a table of transfers
Assumes   one multiply-add is 2 FLOPs; only the slow link's bytes count
Ignores   time, machines, where a byte rests once it is on chip
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

from . import units
from .table import Told, aligned, printable


class CountError(Told, ValueError):
    """A number that is no count: what, got, limit, next step."""


class Uncounted(Told, Exception):
    """An operation with no counting rule. A silent zero would be worse."""


@dataclass(frozen=True, eq=True)
class Count:
    """Work and traffic of one piece of code.

    work              W in FLOPs, per dtype: {"bf16": 2 * M * K * N}. Kept apart because a
                      kernel of mixed dtypes costs the sum of W_d / P_d.
    hbm_read_bytes    bytes read from slow memory: HBM on Trainium, DRAM on a CPU
    hbm_write_bytes   bytes written to it

    >>> Count({"bf16": 2 * 128 * 128 * 512}, hbm_read_bytes=160 * 1024).intensity
    102.4

    Raises CountError when a number is negative or not whole.
    """

    work: Mapping[str, int] = field(default_factory=dict)
    hbm_read_bytes: int = 0
    hbm_write_bytes: int = 0

    def __post_init__(self) -> None:
        for name, value in (*self.work.items(), ("hbm_read_bytes", self.hbm_read_bytes),
                            ("hbm_write_bytes", self.hbm_write_bytes)):
            if not _is_whole(value, Real):
                raise CountError(f"Count: {name}: expected a whole number >= 0, got {value!r}")
        ordered = {dtype: int(w) for dtype, w in sorted(self.work.items()) if w}
        object.__setattr__(self, "work", MappingProxyType(ordered))

    def __hash__(self) -> int:
        return hash((tuple(self.work.items()), self.hbm_read_bytes, self.hbm_write_bytes))

    def __add__(self, other: "Count") -> "Count":
        dtypes = {*self.work, *other.work}
        return Count({d: self.work.get(d, 0) + other.work.get(d, 0) for d in dtypes},
                     self.hbm_read_bytes + other.hbm_read_bytes,
                     self.hbm_write_bytes + other.hbm_write_bytes)

    def __rmul__(self, times: int) -> "Count":
        return Count({d: times * w for d, w in self.work.items()},
                     times * self.hbm_read_bytes, times * self.hbm_write_bytes)

    @property
    def flops(self) -> int:
        """W: FLOPs of every dtype together."""
        return sum(self.work.values())

    @property
    def hbm_bytes(self) -> int:
        """Q: bytes read plus bytes written."""
        return self.hbm_read_bytes + self.hbm_write_bytes

    @property
    def intensity(self) -> float:
        """I = W / Q in FLOP/B; inf when nothing crosses the slow link, 0 for no work."""
        if self.hbm_bytes:
            return self.flops / self.hbm_bytes
        return math.inf if self.flops else 0.0

    def __repr__(self) -> str:
        intensity = units.show(self.intensity, "FLOP/B")
        return (f"W {self.flops:,} FLOP, Q {self.hbm_bytes:,} B, I {intensity} "
                f"({self.hbm_read_bytes:,} read, {self.hbm_write_bytes:,} written)")


@dataclass(frozen=True, repr=False)
class Transfers:
    """Q by hand: what moves, the bytes of one transfer and how often it is made.

    read, written   name -> (bytes of one transfer, times); at LNC=2 those of both cores together

    >>> table = Transfers(read={"x": (32 * 1024, 128)}, written={"y": (256 * 1024, 16)})
    >>> table.read_bytes, table.written_bytes
    (4194304, 4194304)
    >>> table.count(bf16=2**32).intensity
    512.0

    Raises CountError where a size or a number of times is not whole, or below 0.
    """

    read: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    written: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for way in ("read", "written"):
            table = getattr(self, way)
            if not isinstance(table, Mapping):
                raise CountError(f"Transfers: {way}: expected names with their transfers, got "
                                 f"{type(table).__name__}. Write it as in "
                                 f'{way}={{"x": (32768, 8)}}')
            for name, pair in table.items():
                if not isinstance(pair, tuple) or len(pair) != 2 or not all(map(_is_whole, pair)):
                    raise CountError(
                        f"Transfers: {way}: {name}: expected (bytes of one transfer, times), two "
                        f"whole numbers >= 0, got {pair!r}. Divide with //")
            object.__setattr__(self, way, MappingProxyType(  # Python's own integers: none wraps
                {name: (int(size), int(times)) for name, (size, times) in table.items()}))

    @property
    def read_bytes(self) -> int:
        """Bytes read from HBM."""
        return sum(size * times for size, times in self.read.values())

    @property
    def written_bytes(self) -> int:
        """Bytes written to it."""
        return sum(size * times for size, times in self.written.values())

    def count(self, **work: int) -> Count:
        """With W in FLOPs, by dtype: a Count."""
        return Count(work, self.read_bytes, self.written_bytes)

    def __repr__(self) -> str:
        rows = [(printable(name, 24), f"{size:,} B", f"{times:,}", f"{size * times:,} B", way)
                for way in ("read", "written")
                for name, (size, times) in getattr(self, way).items()]
        sums = [(name, "", "", f"{total:,} B", way) for name, total, way in (
            ("", self.read_bytes, "read in all"), ("", self.written_bytes, "written in all"),
            ("Q", self.read_bytes + self.written_bytes, "both"))]
        return "\n".join(aligned([("transfer", "bytes of one", "times", "bytes", "way"),
                                  *rows, *sums], left=(0, 4)))


def _is_whole(number: Any, kind: type = Integral) -> bool:
    """Whether it is a whole number >= 0 of this kind; with Real, 2.0 is one."""
    if type(number) is int:  # nearly all are, and a search makes many counts
        return number >= 0
    if isinstance(number, bool) or not isinstance(number, kind):
        return False
    value: Any = number
    return math.isfinite(value) and value >= 0 and value == int(value)


def count_of(what: Any) -> Count | None:
    """The Count that something is or has: `algorithmic` of an op, `achieved` of a nest, `count`
    of a run or a profile; None when there is none."""
    for name in ("algorithmic", "achieved", "count"):
        if not isinstance(what, Count):
            what = getattr(what, name, what)
    return what if isinstance(what, Count) else None
