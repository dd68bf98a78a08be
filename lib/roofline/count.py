"""W and Q of one piece of code, as one small value.

Question  how much work does it do, and how many bytes cross the slow link?
Answer    Count: FLOPs per dtype, bytes read and bytes written; counts add and scale
Assumes   one multiply-add is 2 FLOPs; only the slow link's bytes count
Ignores   time, machines, where a byte rests once it is on chip
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from . import units
from .table import Told


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

    Raises ValueError when a number is negative or not whole.
    """

    work: Mapping[str, int] = field(default_factory=dict)
    hbm_read_bytes: int = 0
    hbm_write_bytes: int = 0

    def __post_init__(self) -> None:
        for name, value in (*self.work.items(), ("hbm_read_bytes", self.hbm_read_bytes),
                            ("hbm_write_bytes", self.hbm_write_bytes)):
            if isinstance(value, bool) or value != int(value) or value < 0:
                raise ValueError(f"Count: {name}: expected a whole number >= 0, got {value!r}")
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


def count_of(what: Any) -> Count | None:
    """The Count that something is or has: `algorithmic` of an op, `achieved` of a nest, `count`
    of a run or a profile; None when there is none."""
    for name in ("algorithmic", "achieved", "count"):
        if not isinstance(what, Count):
            what = getattr(what, name, what)
    return what if isinstance(what, Count) else None
