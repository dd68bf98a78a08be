"""Counts of one op side by side: by formula, by loop nest, by the kernel's own code, by profiler.

Question  do W, Q and I of the formula come out of the code, and if not, which tensor differs?
Answer    compare(formula, nest, run, profile): a table with the differences
Assumes   all counts are of the same op at the same scope (both cores at LNC=2)
Ignores   why they differ: read `run.tensors` (reloads), `run.lines` and, for a profiler's count,
          profile.compare(run, profile)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from .. import units
from ..count import Count, count_of
from ..table import WIDTH
from .core import refuse
from .trace import columns, warned


def _work(dtype: str, count: Count) -> int:
    return count.work.get(dtype, 0)


PROFILER, MODEL = "profiler", "model"
LATER = (PROFILER, MODEL)  # what is told apart from the code, not the code from it
Row = tuple[str, Callable[[Count], int]]
_TOTALS: tuple[Row, ...] = (
    ("W, FLOP", lambda c: c.flops),
    ("Q read, B", lambda c: c.hbm_read_bytes),
    ("Q written, B", lambda c: c.hbm_write_bytes),
    ("Q, B", lambda c: c.hbm_bytes))


@dataclass(frozen=True, repr=False)
class Comparison:
    """Counts by name; differences are code minus each of those before it, profiler, or model,
    minus code.

    notes     warnings of the run
    profile   text that stands for the profiler's counts until there are some
    """

    counts: dict[str, Count]
    notes: tuple[str, ...] = ()
    profile: str = ""

    @property
    def _rows(self) -> list[Row]:
        """The totals, and W of each dtype where the counts do not all have the same one."""
        dtypes = sorted({d for count in self.counts.values() for d in count.work})
        apart = [(f"W of {d}", partial(_work, d)) for d in dtypes]
        return [*_TOTALS[:1], *(apart if len(dtypes) > 1 else []), *_TOTALS[1:]]

    @property
    def differences(self) -> dict[str, dict[str, int]]:
        """Row -> {count's name: code - that count, or profiler - code}; in FLOP or bytes."""
        code = self.counts["code"]
        return {row: {name: (get(count) - get(code)) * (1 if name in LATER else -1)
                      for name, count in self.counts.items() if name != "code"}
                for row, get in self._rows}

    @property
    def agree(self) -> bool:
        """Whether every difference is 0; a text in the profiler's place has none."""
        return not any(d for row in self.differences.values() for d in row.values())

    def __repr__(self) -> str:
        others = [name for name in self.counts if name != "code"]
        later = [self.profile] if self.profile else []
        counts = [["<", *self.counts, *(PROFILER for _ in later)],
                  *([row, *(f"{get(c):,}" for c in self.counts.values()), *later]
                    for row, get in self._rows),
                  ["I, FLOP/B", *(units.significant(c.intensity, 4) for c in self.counts.values()),
                   *later]]
        found = self.differences
        apart = [[f"{name} - code" if name in LATER else f"code - {name}" for name in others],
                 *([f"{found[row][name]:+,}" if found[row][name] else "0" for name in others]
                   for row, _ in self._rows)]
        beside = columns([*zip(*(a + b for a, b in zip(counts, [*apart, [""] * len(others)],
                                                       strict=True)), strict=True)])
        if max(map(len, beside.splitlines())) > WIDTH:  # a page is not as wide: one below the other
            below = [[title, *row] for (title, *_), row in zip(counts, apart, strict=False)]
            beside = "\n".join([columns([*zip(*counts, strict=True)]), "",
                                columns([*zip(*below, strict=True)])])
        only = ["code: W is the Tensor Engine's FLOPs alone, so 0 here"] * (
            not self.counts["code"].flops and any(c.flops for c in self.counts.values()))
        return "\n".join([beside, *only, *warned(self.notes)])


def compare(formula: Any, nest: Any, run: Any = None, profile: Any = None) -> Comparison:
    """The counts of an op by formula, by loop nest (or None) and by the run of its kernel.

    profile   the profiler's count of the same kernel, or a text for its column until there is one;
              a modelled profile's column is "model"

    Each is a Count, or has one: `algorithmic` of an op, `achieved` of a nest, `count` of a Run
    or a Profile. An earlier run or a nest may stand for the formula; its column bears the
    kernel's name, or "nest" where no other is given. Raises NkiValidationError for anything else.
    """
    if not isinstance(run, Count) and not hasattr(run, "cores"):
        raise refuse("compare: run", type(run).__name__, "the run, or its count, comes third",
                     "Without a nest: nki.compare(op, None, run)")
    counts = {_name(formula, nest): _count("formula", formula)}
    if nest is not None:
        counts["nest"] = _count("nest", nest)
    counts["code"] = _count("run", run)
    if profile is not None and not isinstance(profile, str):
        modelled = getattr(profile, "kind", None) == "modelled"
        counts[MODEL if modelled else PROFILER] = _count("profile", profile)
    return Comparison(counts, getattr(run, "warnings", ()),
                      profile if isinstance(profile, str) else "")


def _name(formula: Any, nest: Any) -> str:
    """The first column's, by what stands there; a name that another column has is not taken."""
    if hasattr(formula, "achieved") and nest is None:
        return "nest"
    name = str(getattr(formula, "kernel", "formula"))
    return "formula" if name in ("nest", "code", *LATER) else name


def _count(role: str, what: Any) -> Count:
    found = count_of(what)
    if found is None:
        several = isinstance(what, list | tuple)
        raise refuse(f"compare: {role}", type(what).__name__,
                     "a Count, or an op, nest or Run that has one", "Of several, give the sum: "
                     "sum((one.achieved for one in nests), Count())" * several)
    return found
