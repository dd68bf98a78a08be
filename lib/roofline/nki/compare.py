"""Counts of one op side by side: by formula, by loop nest, by the kernel's own code.

Question  do W, Q and I of the formula come out of the code, and if not, which tensor differs?
Answer    compare(formula, nest, run): a table with the differences
Assumes   all counts are of the same op at the same scope (both cores at LNC=2)
Ignores   why they differ: read `run.tensors` (reloads) and `run.lines`
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from .. import units
from ..count import Count
from .core import refuse
from .trace import columns, warned


def _work(dtype: str, count: Count) -> int:
    return count.work.get(dtype, 0)


Row = tuple[str, Callable[[Count], int]]
_TOTALS: tuple[Row, ...] = (
    ("W, FLOP", lambda c: c.flops),
    ("Q read, B", lambda c: c.hbm_read_bytes),
    ("Q written, B", lambda c: c.hbm_write_bytes),
    ("Q, B", lambda c: c.hbm_bytes))


@dataclass(frozen=True, repr=False)
class Comparison:
    """Counts by name, the code's last; differences are code minus each of the others.

    notes   warnings of the run
    """

    counts: dict[str, Count]
    notes: tuple[str, ...] = ()

    @property
    def _rows(self) -> list[Row]:
        """The totals, and W of each dtype where the counts do not all have the same one."""
        dtypes = sorted({d for count in self.counts.values() for d in count.work})
        apart = [(f"W of {d}", partial(_work, d)) for d in dtypes]
        return [*_TOTALS[:1], *(apart if len(dtypes) > 1 else []), *_TOTALS[1:]]

    @property
    def differences(self) -> dict[str, dict[str, int]]:
        """Row -> {count's name: code - that count}; in FLOP or bytes."""
        code = self.counts["code"]
        return {row: {name: get(code) - get(count) for name, count in self.counts.items()
                      if name != "code"} for row, get in self._rows}

    @property
    def agree(self) -> bool:
        """Whether every difference is 0."""
        return not any(d for row in self.differences.values() for d in row.values())

    def __repr__(self) -> str:
        others = [name for name in self.counts if name != "code"]
        rows = [["<", *self.counts, *(f"code - {name}" for name in others)]]
        differences = self.differences
        for row, get in self._rows:
            found = [differences[row][name] for name in others]
            rows.append([row, *(f"{get(c):,}" for c in self.counts.values()),
                         *(f"{d:+,}" if d else "0" for d in found)])
        intensities = [units.significant(c.intensity, 4) for c in self.counts.values()]
        rows.append(["I, FLOP/B", *intensities, *("" for _ in others)])
        return "\n".join([columns([*zip(*rows, strict=True)]), *warned(self.notes)])


def compare(formula: Any, nest_or_none: Any, run: Any) -> Comparison:
    """The counts of an op by formula, by loop nest (or None) and by the run of its kernel.

    Each is a Count, or has one: `algorithmic` of an op, `achieved` of a nest, `count` of a Run.
    An earlier run may stand for the formula; its column bears its kernel's name.
    Raises NkiValidationError for anything else.
    """
    if not isinstance(run, Count) and not hasattr(run, "cores"):
        raise refuse("compare: run", type(run).__name__, "the run, or its count, comes last",
                     "nki.compare(op, None, run)")
    counts = {getattr(formula, "kernel", "formula"): _count("formula", formula)}
    if nest_or_none is not None:
        counts["nest"] = _count("nest", nest_or_none)
    return Comparison(counts | {"code": _count("run", run)}, getattr(run, "warnings", ()))


def _count(role: str, what: Any) -> Count:
    found = what
    for name in ("algorithmic", "achieved", "count"):
        if isinstance(found, Count):
            break
        found = getattr(what, name, found)
    if not isinstance(found, Count):
        raise refuse(f"compare: {role}", type(what).__name__,
                     "a Count, or an op, nest or Run that has one")
    return found
