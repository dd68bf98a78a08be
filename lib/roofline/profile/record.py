"""A profile: counters by the profiler's own names and, where the file has it, the timeline.

Question  what did this capture count, in which time, and how much of it between two moments?
Answer    Profile: get, count, window, clocks, check
Assumes   whoever made it put names, units and order right, and its text is printable
Ignores   the format of files (read, write) and what a figure should have been (formulas)
"""

import functools
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..count import Count
from ..machine import Machine
from ..table import WIDTH, Told, aligned, wrapped
from ..timeline import DTYPES, ENGINES, MATMUL, Ints, Spans, Timeline
from ..units import amount
from . import formulas

Value = int | float | str | bool


class ProfileError(Told, ValueError):
    """A file that is no profile, or does not hold what was asked of it."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of the compiled kernel: name, "IN" / "OUT" / "WEIGHT", shape, bytes."""

    name: str
    role: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True)
class Clock:
    """One of the times that are all called the kernel's; seconds, None where unknown."""

    name: str
    seconds: float | None
    includes: str


@dataclass(frozen=True, repr=False)
class Clocks:
    """The clocks of one capture; a sentence that quotes one names it."""

    rows: tuple[Clock, ...]

    def __getitem__(self, name: str) -> Clock:
        return formulas.named(self.rows, name)

    def __iter__(self) -> Iterator[Clock]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return "\n".join(aligned([("clock", "time", "includes"), *(
            (row.name, amount(row.seconds, "s"), row.includes) for row in self.rows)]))


CLOCKS = (
    ("total", "total_time", "all from the start notice to the stop notice: set-up, idle time too"),
    ("execution", "total_exec_time", "total less the instructions that set up and tear down"),
    ("active", "total_active_time", "the moments in which any engine or DMA was busy"),
    ("benchmark", "", "unprofiled runs, often with transfers to the host; no profile holds it"))
BOOKED = ("hbm_* bytes of a part count where a transfer is issued, dma_transfer_total_bytes where "
          "its packets start: F / B of a part is no point of a roofline")


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
    provenance  who ran what, where and when, by the names of device.store, and "label", all of it
                in short; {} where unknown
    flags       what was odd about the capture, each "name: what"; device.plausibility.excluded
                tells whether its figures are left out of roofs and fits
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
    provenance: Mapping[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()

    def get(self, name: str) -> Value | None:
        """What the summary, else the metadata, says under this name; None: unknown."""
        value = self.summary.get(name)
        return self.metadata.get(name) if value is None else value

    @property
    def chip(self) -> str:
        """Key of the chip it ran on, "trn2", by provenance or instance_type; "" where unknown."""
        said = (*map(self.provenance.get, ("chip", "instance")), self.get("instance_type"))
        found = (re.match(r"[a-z]{3}\d", str(text or "")) for text in said)
        return next((match[0] for match in found if match), "")

    @property
    def origin(self) -> str:
        """Its kind in a text; a measured one says where nobody vouches for it."""
        return self.kind + (" (no provenance: whose, where and when is not in the file)"
                            if self.kind == "measured" and not self.provenance else "")

    @property
    def count(self) -> Count:
        """W and Q as the profiler counted them, both cores together. See `counted`."""
        return self.counted()

    def counted(self, dtype: str | None = None) -> Count:
        """W without transposes, an fp32 matmul once however many passes it took; Q at HBM.

        The rows split W by dtype and tell passes from work. Where they cannot (see `matmul_flops`)
        or have other FLOPs than the summary, `dtype` is that of all FLOPs, and each pass counts,
        as it does in the summary. Else it is that of the rows whose dtype the file does not have.

        Raises ProfileError where HBM bytes, FLOPs or transposes are unknown, or a dtype is needed.
        """
        read, written = self.needs("hbm_read_bytes"), self.needs("hbm_write_bytes")
        rows, why = self._split()
        counted = sum(row.counted for row in rows.values())
        total = formulas.flops(self)
        if total is None:
            lacks = "hardware_flops" if self.get("hardware_flops") is None else "transpose_flops"
            total = counted if rows and lacks == "hardware_flops" else self.needs(lacks)
        if total < 0:
            raise ProfileError(f"{self.name}: summary.transpose_flops: got {-total:,} more than "
                               "hardware_flops; expected no more. The file is damaged")
        work = {d: row.once for d, row in rows.items()}
        if work and total not in (counted, sum(work.values())):
            work, why = {}, f"they have {counted:,}, so rows are missing or doubled"
        work = work or {"": int(total)}
        if work.get("") and dtype is None:
            unsaid = f"that the rows do not split: {why}" if why else (
                "of a dtype that the file does not tell")
            raise ProfileError(f"{self.name}: W per dtype: {work['']:,} FLOPs {unsaid}. Say which "
                               'dtype it is: profile.counted("bf16"), or use your own Count')
        if unnamed := work.pop("", 0):
            work[str(dtype)] = work.get(str(dtype), 0) + unnamed
        return Count(work, int(read), int(written))

    @property
    def matmul_flops(self) -> dict[str, "Flops"]:
        """FLOPs of the MATMUL rows that are no transposes, by dtype ("" where unknown).

        In a part of a profile those of the rows that start in it. {} where the rows cannot tell:
        no timeline, or no word on what is a transpose, on passes of fp32, or on the sizes.
        """
        return self._split()[0]

    def _split(self) -> tuple[dict[str, "Flops"], str]:
        """FLOPs by dtype as `matmul_flops` says, and if there are none, why ("" : no matmuls)."""
        if self.timeline is None or self._unknown("instructions"):
            return {}, ""
        own = self.timeline.instructions
        if self._unknown("instructions.transpose") and self.summary.get("transpose_flops") != 0:
            return {}, "which of them are transposes is not in the file"
        which = own.is_opcode(MATMUL) & ~own.transpose & self.within(own.start)
        dtype, passes, macs, *sizes = (column[which] for column in (
            own.dtype, own.passes, own.macs, own.rows, own.columns, own.moving))
        unsure = np.isin(dtype, [DTYPES.index("fp32"), DTYPES.index("")])
        if self._unknown("instructions.passes") and unsure.any():
            return {}, "how many of them are the passes of one fp32 matmul is not in the file"
        whole = np.prod([size.astype(np.int64) for size in sizes], axis=0)
        each = np.where(whole > 0, whole, macs)
        macs = whole if self._unknown("instructions.macs") else macs
        found: dict[str, Flops] = {}
        for code in np.unique(dtype):
            rows = dtype == code
            if not each[rows].any():
                of = DTYPES[code] or "unknown dtype"
                return {}, f"those of {of} have neither FLOPs nor sizes"
            once = sum(Fraction(2 * int(each[rows & (passes == n)].sum()), int(n))
                       for n in np.unique(passes[rows]))
            found[DTYPES[code]] = Flops(2 * int(macs[rows].sum()), round(once))
        if macs is whole and sum(row.once for row in found.values()) == formulas.flops(self):
            found = {name: Flops(row.once, row.once) for name, row in found.items()}
        return found, ""  # sizes alone: whether each pass counts is for the summary to say

    @property
    def transposed(self) -> int | None:
        """FLOPs of the MATMUL rows that are transposes.

        None where the rows do not tell, or are not all of hardware_flops.
        """
        if self.timeline is None or self._unknown("instructions.transpose"):
            return None
        own = self.timeline.instructions
        matmuls = own.is_opcode(MATMUL) & self.within(own.start)
        whole = 2 * int(own.macs[matmuls].sum()) == self.get("hardware_flops")
        return 2 * int(own.macs[matmuls & own.transpose].sum()) if whole else None

    def within(self, start: Ints) -> NDArray[np.bool_]:
        """Which of these rows start in the span; all of them when there is none."""
        if self.span is None:
            return np.ones(len(start), bool)
        return (start >= self.span[0]) & (start < self.span[1])

    def window(self, t0: int, t1: int) -> "Profile":
        """The part of it in [t0, t1): ns from the start of execution, also of a part's part.

        The timeline stays whole. The summary holds what the timeline decides and nothing else:
        total_time is t1 - t0; active times are the stretches inside; instructions, FLOPs and
        bytes are those of the rows that start inside. So windows side by side add up. But hbm_*
        bytes are then those of transfers issued inside, which may move later: see BOOKED.

        Raises ProfileError without a timeline, or for a window that is not within it.
        """
        if self.timeline is None:
            raise ProfileError(f"{self.name}: window({t0}, {t1}): the file holds the summary "
                               "alone, and no timeline. Read the json or parquet output")
        last = self.timeline.end + 1  # total_time is up to that
        times = all(isinstance(t, (int, float, np.integer, np.floating)) for t in (t0, t1))
        if not (times and 0 <= t0 < t1 <= last and t0 == int(t0) and t1 == int(t1)):
            raise ProfileError(f"{self.name}: window({t0}, {t1}): expected whole ns with "
                               f"0 <= t0 < t1 <= {last}, the end of the timeline")
        part = replace(self, span=(int(t0), int(t1)))
        cut = (t0 > 0 or t1 < self.timeline.end) and BOOKED not in self.warnings
        active = {f"{name}_active_time": spans.length / 1e9
                  for name, spans in part.active().items()}
        return replace(part, summary={"total_time": (t1 - t0) / 1e9, **active, **part.sums()},
                       warnings=(*self.warnings, *[BOOKED] * cut))

    def active(self) -> dict[str, Spans]:
        """Stretches within the span in which each engine, the DMA and any of them was active.

        "tensor_engine", ..., "dma", "total"; without what the file does not tell.
        """
        assert self.timeline is not None
        of = self.timeline
        inside = Spans.one(*(self.span or (0, of.end + 1)))
        found = {} if self._unknown("instructions") else {
            f"{engine}_engine": of.activity(engine) & inside for engine in ENGINES}
        if not self._unknown("packets"):
            found["dma"] = of.moving(traffic=False) & inside
            if not self._unknown("instructions"):
                found["total"] = functools.reduce(Spans.__or__, found.values())
        return found

    def sums(self) -> dict[str, int]:
        """Instructions, FLOPs and bytes of the rows that start in the span; as `active`."""
        assert self.timeline is not None
        own, packets = self.timeline.instructions, self.timeline.packets
        found: dict[str, int] = {}
        starts = self.within(own.start)
        if not self._unknown("instructions"):
            for code, engine in enumerate(ENGINES):
                found[f"{engine}_engine_instruction_count"] = int(
                    (starts & (own.engine == code)).sum())
            matmuls = starts & own.is_opcode(MATMUL)
            found["matmul_instruction_count"] = int(matmuls.sum())
            if not self._unknown("instructions.macs"):
                found["hardware_flops"] = 2 * int(own.macs[matmuls].sum())
                if not self._unknown("instructions.transpose"):
                    found["transpose_flops"] = 2 * int(own.macs[matmuls & own.transpose].sum())
                elif self.summary.get("transpose_flops") == 0:
                    found["transpose_flops"] = 0
            for way, column in (("read", "read"), ("write", "written")):
                if not self._unknown(f"instructions.{column}"):
                    found[f"hbm_{way}_bytes"] = int(getattr(own, column)[starts].sum())
        if not self._unknown("packets.traffic"):
            sent = packets.traffic & self.within(packets.start)
            found["dma_transfer_total_bytes"] = int(packets.nbytes[sent].sum())
        return found

    def _unknown(self, column: str) -> bool:
        """Whether the file lacks this table, or this column "table.column"."""
        known = self.timeline.unknown if self.timeline else frozenset()
        return column in known or column.partition(".")[0] in known

    def clocks(self) -> Clocks:
        """Total, execution, active and benchmark time, each with what it includes."""
        return Clocks(tuple(Clock(name, formulas.number(self, key), includes)
                            for name, key, includes in CLOCKS))

    def check(self, machine: str | Machine | None = None, cores: int | None = None
              ) -> formulas.Check:
        """The profiler's own figures and sums recomputed; each row has printed, recomputed,
        agrees and reasons. See formulas.check.

        machine, cores   the chip ("trn2") and physical cores (1, 2) where the file lacks them
        """
        return formulas.check(self, machine, cores)

    def needs(self, name: str) -> float:
        """A number of the summary. Raises ProfileError where it is absent or no number."""
        value = formulas.number(self, name)
        if value is None or value < 0:
            raise ProfileError(f"{self.name}: summary.{name}: got {str(self.get(name))[:40]}; "
                               "expected a number >= 0. An absent counter is unknown, not 0; some "
                               "versions leave out what is 0, so decide, and use your own Count")
        return value

    def __repr__(self) -> str:
        said = ", ".join(filter(None, (self.kind, self.format, self.version)))
        lines = [f"{self.name}: {said}; {self.cores} physical core{'s' * (self.cores > 1)}"]
        if label := self.provenance.get("label"):
            lines.append(f"  recorded on {label}")
        if self.span:
            lines.append(f"  from {self.span[0]:,} to {self.span[1]:,} ns")
        f, b = formulas.flops(self), formulas.hbm_bytes(self)
        ai = None if f is None or b is None else formulas.intensity(f, b)
        clocks = [(row.name, amount(row.seconds, "s")) for row in self.clocks()
                  if row.seconds is not None]
        total = formulas.number(self, "hardware_flops")
        work = f"{amount(f, 'FLOP')}, transposes left out" if f is not None or total is None else (
            f"{amount(total, 'FLOP')} with transposes; how many is unknown")
        lines += aligned([*clocks, ("F", work), ("B", f"{amount(b, 'B')} at HBM"),
                          ("AI", amount(ai, "FLOP/B"))], indent="  ")
        of = self.timeline
        lines.append("  no timeline" if of is None else
                     f"  {len(of.instructions):,} instructions, {len(of.packets):,} DMA packets; "
                     + ("no core" if not of.working else f"core{'s' * (len(of.working) > 1)} "
                        f"{', '.join(map(str, of.working))}") + f" of {of.cores} worked")
        lines += wrapped(f"  flag: {flag}" for flag in self.flags)
        return "\n".join([*lines, *(
            "  " + textwrap.shorten(f"warning: {text}", WIDTH) for text in self.warnings)])


@dataclass(frozen=True)
class Flops:
    """FLOPs of some MATMUL rows: as the profiler counts them, and each matmul once.

    They differ where several rows are one matmul, each counted whole: the passes of fp32.
    """

    counted: int
    once: int
