"""A capture in a few kB: when each engine was busy, merged, with totals and the ledger.

Question  what of a profile can stand in a book, without the file and without its rows?
Answer    condense(profile, ledger, about) -> Condensed; its text() is a file, condensed(path)
          reads it: stretches to draw, a Profile of totals, a Ledger of causes
Assumes   one core worked; the capture is whole
Ignores   what an instruction was, waited for or which line it is from: merged rows are none
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from .. import gaps, machine
from ..count import Count
from ..profile import Profile, ProfileError, Tensor
from ..profile.columns import TINY
from ..table import aligned, printable, wrapped
from ..timeline import DTYPES, ISSUES, MATMUL, WEIGHTS, Ints, Spans, Timeline

FORMAT = "roofline stretches 1"
SHOWN = ("Tensor", "Vector", "Scalar", "GpSimd", "Sync")  # as ENGINES
LANES = (*SHOWN, "DMA", "Fetch", "Throttle")
ISSUE = "DMA issue"
# Totals that are kept, by the profiler's names.
SUMMARY = (
    "total_time", "total_active_time", "tensor_engine_active_time", "dma_active_time",
    "hardware_flops", "transpose_flops", "model_flops", "hbm_read_bytes", "hbm_write_bytes",
    "matmul_instruction_count", "mm_arithmetic_intensity", "peak_flops_bandwidth_ratio",
    "mfu_estimated_percent", "mfu_max_achievable_estimated_percent", "hfu_estimated_percent",
    "mbu_estimated_percent", "neuroncore_cycle_count", "throttle_active_nc0_time_ns")
METADATA = (
    "instance_type", "num_physical_cores", "neuroncore_clock_freq", "tensor_engine_clock_freq",
    "tensor_engine_num_rows", "tensor_engine_num_cols", "hbm_ddr_bandwidth", "explorer_version",
    "compiler_version", "data_version")


class Stretch(NamedTuple):
    """Events of one lane and kind that follow each other without a pause; ns.

    lane     one of LANES; Fetch: packets that bring instructions
    what     a matmul's kind and dtype, else the opcode in words
    events   rows of the profile that start in it
    step     median ns from one start to the next; 0 for a single event
    nbytes   of DMA packets, else 0
    """

    lane: str
    what: str
    start: int
    end: int
    events: int
    step: float = 0
    nbytes: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Condensed:
    """What is kept of a capture.

    about      whose it is, of what, how it came here: name -> words
    profile    its totals; no timeline. kind is "published"
    stretches  in order of lane and start; those of a lane do not overlap
    ledger     causes and where they lie, as found in the whole capture
    rows       (instructions, packets) that the capture has
    """

    about: Mapping[str, str]
    profile: Profile
    stretches: tuple[Stretch, ...]
    ledger: gaps.Ledger
    rows: tuple[int, int]

    @property
    def name(self) -> str:
        """What it is of."""
        return self.profile.name

    @property
    def end(self) -> int:
        """Last timestamp, ns."""
        return self.ledger.timeline.end

    @property
    def says(self) -> str:
        """Whose it is and what was done to it, in a sentence."""
        return (f"A published profile, its rows merged into stretches: {self.name}, on "
                f"{self.about['chip']}, by {self.about['by']}.")

    def of(self, *lanes: str, what: str = "") -> list[Stretch]:
        """Stretches of some lanes (all of them where none is named) whose `what` holds the text."""
        return [one for one in self.stretches
                if (not lanes or one.lane in lanes) and what in one.what]

    def busy(self, *lanes: str, what: str = "") -> Spans:
        """When any of these lanes held such a stretch."""
        some = self.of(*lanes, what=what)
        return Spans.of(np.array([one.start for one in some], np.int64),
                        np.array([one.end for one in some], np.int64))

    def text(self) -> str:
        """The file: JSON, one row a line; the same capture gives the same bytes."""
        of, own = self.ledger, self.profile
        tables: dict[str, Any] = {
            "format": FORMAT, "about": dict(self.about), "rows": list(self.rows),
            "end": self.end, "summary": dict(own.summary), "metadata": dict(own.metadata)}
        lists = {
            "tensors": [[t.name, t.role, list(t.shape), t.nbytes] for t in own.tensors],
            "count": [[dtype, flops] for dtype, flops in of.count.work.items()],
            "stretches": [list(one) for one in self.stretches],
            "ledger": [[row.cause, row.time, [[a, b] for _, a, b in row.stretches]]
                       for row in of.rows]}
        lines = [f'"{name}": {json.dumps(value)}' for name, value in tables.items()]
        for name, rows in lists.items():
            inner = ",\n".join(f"  {json.dumps(row)}" for row in rows)
            lines.append(f'"{name}": [\n{inner}]')
        return "{" + ",\n".join(lines) + "}\n"

    def __repr__(self) -> str:
        rows = [("of", f"{self.rows[0]:,} instructions and {self.rows[1]:,} DMA packets; "
                       f"{len(self.stretches)} stretches")]
        return "\n".join(["a published profile", *wrapped(
            aligned([*self.about.items(), *rows], indent="  "), hang=10)])


# --- from a capture ------------------------------------------------------------------------------


def condense(profile: Profile, ledger: gaps.Ledger, about: Mapping[str, str]) -> Condensed:
    """Merge a capture's rows into stretches.

    ledger   of the whole profile; its causes and where they lie are kept
    about    "name", "by", "chip" and more words to keep

    Raises ProfileError for a profile without a timeline, of several working cores or cut to a
    window, or words that are missing.
    """
    whole, name = profile.timeline, printable(profile.name, 60)
    if lacking := {"name", "by", "chip"} - {*about}:
        raise ProfileError(f"condense: about lacks {', '.join(sorted(lacking))}: say whose capture "
                           "it is, of what, on which chip")
    if whole is None or profile.span or len(whole.working) != 1:
        raise ProfileError(f"{name}: expected a whole capture with a timeline in which one core "
                           "worked; condense another")
    own, packets = whole.instructions, whole.packets
    core, tensors = whole.working[0], profile.tensors
    stretches = [one for lane in LANES for one in _lane(whole, core, lane)]
    kept = Profile(
        about["name"], FORMAT, profile.version,
        {key: profile.summary[key] for key in SUMMARY if key in profile.summary},
        {key: profile.metadata[key] for key in METADATA if key in profile.metadata},
        profile.cores, None, tensors, kind="published")
    causes = {row.cause: (row.time, [(a, b) for _, a, b in row.stretches]) for row in ledger.rows}
    stated = gaps.stated(kept, ledger.machine, ledger.count, causes, whole.end, core)
    return Condensed(dict(about), kept, tuple(stretches), stated, (len(own), len(packets)))


def _lane(whole: Timeline, core: int, lane: str) -> Iterator[Stretch]:
    """The stretches of one lane, in order."""
    own, packets, slow = whole.instructions, whole.packets, whole.throttles
    if lane == "Throttle":
        for start, end, k, n in zip(slow.start, slow.end, slow.k, slow.n, strict=True):
            yield Stretch(lane, f"{k} of {n} cycles", int(start), int(end), 1)
    elif lane in ("DMA", "Fetch"):  # semaphores are neither
        held = packets.take((packets.core == core) & (packets.nbytes > TINY)
                            & (packets.traffic == (lane == "DMA")))
        for start, end in Spans.of(held.start, held.end):
            here = (held.start >= start) & (held.start < end)
            yield Stretch(lane, "packets", start, end, int(here.sum()),
                          nbytes=int(held.nbytes[here].sum()))
    else:
        mine = (own.core == core) & (own.engine == SHOWN.index(lane)) & own.works
        rows = own.take(mine & ~own.is_opcode(WEIGHTS))
        words = [_word(rows.opcodes[rows.opcode[i]], DTYPES[rows.dtype[i]], int(rows.passes[i]),
                       bool(rows.transpose[i])) for i in range(len(rows))]
        found = list(_merged(lane, words, rows.start, rows.end, slow.start[slow.core == core]))
        loads = own.take(mine & own.is_opcode(WEIGHTS))
        alone = Spans.of(loads.start, loads.end) - Spans.of(rows.start, rows.end)
        found += [Stretch(lane, "weight load", a, b, int(
            ((loads.start >= a) & (loads.start < b)).sum())) for a, b in alone]
        yield from sorted(found, key=lambda one: one.start)


def _word(opcode: str, dtype: str, passes: int, transpose: bool) -> str:
    if opcode.startswith(ISSUES):
        return ISSUE
    if opcode != MATMUL:
        return opcode.lower().replace("_", " ")
    return (f"{'transpose' if transpose else 'matmul'}, {dtype or 'unknown'}"
            + f", {passes} passes" * (passes > 1))


def _merged(lane: str, words: Sequence[str], starts: Ints, ends: Ints, cuts: Ints
            ) -> Iterator[Stretch]:
    """Events of a lane, each up to the start of the next, as one where they touch and are alike.

    cuts   times at which a stretch ends and the next begins: where a throttle limit changes
    """
    pieces: list[tuple[str, int, int, list[int]]] = []
    stops = np.minimum(ends, np.r_[starts[1:], ends[-1:]])
    for word, start, stop in zip(words, starts.tolist(), stops.tolist(), strict=True):
        edges = [start, *(cut for cut in cuts.tolist() if start < cut < stop), stop]
        for a, b in pairwise(edges):
            begins = [a] * (a == start)
            if pieces and pieces[-1][0] == word and pieces[-1][2] == a and a not in edges[1:-1]:
                pieces[-1] = (word, pieces[-1][1], b, pieces[-1][3] + begins)
            elif b > a:
                pieces.append((word, a, b, begins))
    for word, a, b, begins in pieces:
        steps = [y - x for x, y in pairwise(begins)]
        yield Stretch(lane, word, a, b, len(begins), float(median(steps)) if steps else 0)


# --- from a file ---------------------------------------------------------------------------------


def condensed(path: str | os.PathLike[str]) -> Condensed:
    """What text() wrote.

    Raises ProfileError, with the file's name, for anything else.
    """
    path = Path(path)
    name = printable(path.name, 200)
    try:
        of = json.loads(path.read_text("utf-8"))
        if of["format"] != FORMAT:
            raise KeyError("format")
        about = {str(key): printable(words) for key, words in of["about"].items()}
        tensors = tuple(Tensor(t[0], t[1], tuple(t[2]), t[3]) for t in of["tensors"])
        summary, metadata = of["summary"], of["metadata"]
        own = Profile(about["name"], FORMAT, "", summary, metadata,
                      int(metadata["num_physical_cores"]), None, tensors, kind="published")
        count = Count(dict(of["count"]), summary["hbm_read_bytes"] + summary["hbm_write_bytes"])
        causes = {cause: (ns, [(a, b) for a, b in where]) for cause, ns, where in of["ledger"]}
        on = machine.get(own.chip, "core")
        ledger = gaps.stated(own, on, count, causes, int(of["end"]))
        stretches = tuple(Stretch(*row) for row in of["stretches"])
        rows = (int(of["rows"][0]), int(of["rows"][1]))
    except FileNotFoundError:
        raise ProfileError(f"{name}: no such file in {printable(path.absolute().parent)}") from None
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ProfileError(f"{name}: expected a file of condense(): {printable(error, 120)}. "
                           "Profiles of a Neuron profiler are read by profile.read") from None
    return Condensed(about, own, stretches, ledger, rows)
