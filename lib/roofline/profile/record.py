"""A profile: counters by the profiler's own names and, where the file has it, the timeline."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..timeline import Timeline

Value = int | float | str | bool


class ProfileError(ValueError):
    """A file that is no profile, or does not hold what was asked of it."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]  # in a notebook: no stack


@dataclass(frozen=True)
class Tensor:
    """One tensor of the compiled kernel: name, "IN" / "OUT" / "WEIGHT", shape, bytes."""

    name: str
    role: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, eq=False, repr=False)
class Profile:
    """One capture of one kernel on one logical core.

    name        what to call it: the file's or directory's name, without its folder
    format      "summary-json", "json" or "parquet"
    version     schema and profiler version, as the file says; "" where it says none
    summary     Summary by the profiler's names: seconds, bytes, FLOPs, fractions 0..1; a key
                that is absent is unknown, not 0
    metadata    Metadata by the names of schema 7.x, whatever the file calls them
    cores       physical cores of the logical core (LNC): 1 or 2
    timeline    None for a file that holds the summary alone
    tensors     inputs, outputs and weights; () where unknown
    warnings    the profiler's own, then the reader's
    kind        "measured", or "modelled" where the file says is_simulation
    span        (t0, t1) in ns when this is a part of a profile; the timeline is whole then, too
    """

    name: str
    format: str
    version: str
    summary: Mapping[str, Value]
    metadata: Mapping[str, Value] = field(default_factory=dict)
    cores: int = 1
    timeline: Timeline | None = None
    tensors: tuple[Tensor, ...] = ()
    warnings: tuple[str, ...] = ()
    kind: str = "measured"
    span: tuple[int, int] | None = None
