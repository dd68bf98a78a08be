"""Published times of kernels on NeuronCores, and which of them the cost model is held against.

What was published, and which rows are usable, was frozen before the first prediction existed. Two
things were not, and what was fitted has seen them: where no buffering depth is declared, no
limit (frozen was 2), and the rows marked `amended`. One row a published time:

  id .. grade   who published what; grades: A device counters or 3 hosts, B one careful source,
                C derived from a utilisation, D a ceiling or an unstated chip, E host or bring-up,
                X invalid
  clock         profile: the profiler's total; benchmark: on-device latency; derived: from a rate
                or a utilisation that was published; wall: a long run by the host's clock
  time_us       microseconds
  hbm_bytes     what the profile said it moved, where it said so
  usable        yes, or no and the reason
  kernel        which of kernels.py stands for it; a | b is two launches
  arguments     its arrays' dtypes and shapes; options: its keywords
  buffers       buffering depth: what the notes declare (1 or 2; psum= that of PSUM, where it is
                another); fit where they declare none and the compiler places what there is room for
  marks         amended: which kernel stands for it, or an option of it, was chosen anew after the
                freeze, some of it after first predictions: a block loads in one transfer; the next
                tile is made ready (loaded, scored, transposed) before this one is multiplied;
                transposes leave PSUM by fours; notes were read again (M08 M09 F16..F26, passes of
                E01 E03 E12 E14). width, store: the row decided that mechanism (see DECIDED)
  assumed       what the notes leave open and we filled in
  conditions    of GEMMs and MLPs that device.published_kernels shows: what its source says of the
                kernel and of how it was timed, in our words
  transfers     DMA transfers of the whole kernel, where the profile said so
  stated        what was published: time; rate (FLOP/s) or utilisation (of P), of which time_us was
                worked out; corrected: a median between a sample of 10 us and the real one, so that
                time_us is twice it less 10 us

A row is usable if its kernel can be written from the published notes, its clock is the device's
(or so long a run that the host's share is under 1 %), its chip is stated, it is a measurement of a
kernel of somebody's (no ceiling, no compiler output), and the code as described moves the bytes
that its profile said, within a quarter, and no more than the DMA engines could (435 GB/s).
All are modelled as one core, also rows of trainium-kernel-fusion, where both cores of LNC=2 did all
of the work, each on its own.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

_ARRAY = re.compile(r"(\w+)\[([\d,]+)\]")
AS_MANY_AS_FIT = 1000  # generations: what there is room for is less
DECIDED = {  # marks of rows that were looked at to choose how something is priced
    "width": "how many elements a cycle the Vector Engine takes from two tiles",
    "store": "that a store keeps its DMA engines a little longer",
}
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}  # the course's -> NumPy's


class RowError(ValueError):
    """A row that is not there, or that no kernel stands for."""


@dataclass(frozen=True)
class Launch:
    """One call of a kernel: its name, (shape, dtype) of its arrays, its keywords."""

    kernel: str
    arrays: tuple[tuple[tuple[int, ...], str], ...]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One published time; see the module for what the fields mean."""

    id: str
    source: str
    chip: str
    kind: str
    op: str
    shape: str
    dtype: str
    grade: str
    clock: str
    time_us: float
    hbm_bytes: int | None
    usable: bool
    kernel: str
    arguments: str
    options: str
    buffers: Mapping[str, int]
    marks: tuple[str, ...]
    assumed: str
    reason: str
    conditions: str
    transfers: int | None
    stated: str

    @property
    def deep(self) -> bool:
        """Whether no depth is declared: no limit to buffers is assumed."""
        return self.buffers["sbuf"] == AS_MANY_AS_FIT

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The kernels that stand for it, in order. Raises RowError where the row is not usable."""
        if not self.usable:
            raise RowError(f"{self.id}: no kernel stands for it: {self.reason}. "
                           "Take a row that is usable")
        options = dict(map(_option, self.options.split()))
        parts = zip(self.kernel.split(" | "), self.arguments.split(" | "), strict=True)
        return tuple(Launch(kernel, tuple(
            (tuple(map(int, shape.split(","))), _DTYPES[dtype])
            for dtype, shape in _ARRAY.findall(arrays)), options) for kernel, arrays in parts)


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, int(value) if value.isdigit() else value


def _depths(text: str) -> Mapping[str, int]:
    """"2 psum=1" -> {"sbuf": 2, "psum": 1}."""
    whole, _, banks = text.partition(" psum=")
    depth = int(whole) if whole.isdigit() else AS_MANY_AS_FIT
    return {"sbuf": depth, "psum": int(banks) if banks else depth}


@cache
def rows() -> Mapping[str, Row]:
    """Every published row by its id, usable or not."""
    text = (files(__package__) / "rows.csv").read_text(encoding="utf-8")
    found = {}
    for cells in csv.DictReader(text.splitlines()):
        values: dict[str, Any] = {
            **cells, "time_us": float(cells["time_us"]), "usable": cells["usable"] == "yes",
            **{name: int(cells[name]) if cells[name] else None
               for name in ("hbm_bytes", "transfers")},
            "buffers": _depths(cells["buffers"]), "marks": tuple(cells["marks"].split())}
        found[cells["id"]] = Row(**values)
    return found


def usable() -> tuple[Row, ...]:
    """The rows that the model is held against, in the table's order."""
    return tuple(row for row in rows().values() if row.usable)
