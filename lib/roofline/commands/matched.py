"""A count, a profile and a machine that belong together.

Question  whose W and Q are meant, at which scope, and is the profile of the same call?
Answer    taken(path) -> Profile, scope(args, call, profile) -> Scope, counted(args, call, chip) ->
          Counted; unlike(count, profile) says where the last two are not of the same
Assumes   a hand count goes before the source's, each of W and Q by itself
Ignores   what is asked of them: each command's own business
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import machine as machines
from .. import ops
from ..count import Count
from ..machine import Machine
from ..table import printable
from ..units import amount
from .calls import CHIPS, CallError, Hand, Subject, chip_of, hand
from .working import working

if TYPE_CHECKING:
    from ..profile import Profile

_SAME = {"cfp8": "fp8"}  # what a NeuronCore-v2 calls it
# Formulas without a matmul: their FLOPs are no work of the Tensor Engine.
_NO_MATMUL = (ops.Add, ops.AllGather, ops.AllReduce, ops.Dot, ops.Elementwise, ops.LayerNorm,
              ops.PointToPoint, ops.RMSNorm, ops.ReduceScatter, ops.Softmax, ops.SpMV, ops.Stencil)
# Sizes of other formulas that count what is no matmul.
_BESIDE = ("activation_flops", "softmax_flops")


# --- arguments -----------------------------------------------------------------------------------


def sorted_out(args: argparse.Namespace, command: str) -> None:
    """Put profile and call in their places, where the call came first.

    Raises CallError for a call without a profile.
    """
    first = args.profile
    if not re.search(r"\.py(:|$)", first) and first not in ops.__all__:
        return
    others = [one for one in args.call if "=" not in one]
    if len(others) != 1:
        raise CallError(f"{command} needs a profile, and {printable(first, 60)} is a call. Write "
                        f"{command} before.json @call.txt")
    args.profile = others[0]
    args.call = [first, *(one for one in args.call if "=" in one)]


def add_session(parser: argparse.ArgumentParser) -> None:
    """Which capture of a file with several."""
    parser.add_argument("--session", metavar="KEY",
                        help="which one, of a summary-json with several: n_...")


# --- what they say -------------------------------------------------------------------------------


def taken(path: str, session: str | None = None) -> "Profile":
    """The profile at a path: a profiler's output, or the folder of a recording with its flags.

    Raises ProfileError or RecordingError where it is neither, or bad, CallError for a call.
    """
    from .. import profile
    place = Path(path)
    if place.suffix in (".py", ".txt") and place.is_file():
        raise CallError(f"{printable(path, 200)}: expected JSON, a profile such as before.json "
                        "that `capture --write` or `predict --write` saved, or one of the "
                        f"profiler's. A call stands in a place of its own, as {_as_call(path)}")
    with working(f"reading {printable(place.name, 60)}"):
        folder = next((one for one in (place, place.parent) if (one / "recording.json").is_file()),
                      None)
        if folder and session is None:
            from ..device import store
            if place == folder or place.name in ("recording.json", *store.PROFILES):
                return store.load(folder).profile
        return profile.read(place, session)


def _as_call(path: str) -> str:
    return f"{printable(path, 200)}:KERNEL" if path.endswith(".py") else f"@{printable(path, 200)}"


@dataclass(frozen=True)
class Scope:
    """The machine that figures are set against, and why at this scope.

    wrong   the call and the profile are of different numbers of cores
    """

    machine: Machine
    notes: tuple[str, ...] = ()
    wrong: bool = False

    @property
    def chip(self) -> str:
        """Its name: "trn2"."""
        return self.machine.key


def scope(args: argparse.Namespace, of: Subject | None, kept: "Profile | None" = None) -> Scope:
    """A core, or the pair of LNC=2: as many as worked in the profile, else as the call says.

    A collective is of the whole device.
    Raises CallError for a profile of another chip or kernel than was asked for.
    """
    asked = args.lnc or (of.call.lnc if of and of.call else None)
    if of and hasattr(of.op, "link_bytes"):
        if kept is not None or asked:
            raise CallError(f"{of.title}: a collective is of whole chips, and "
                            + ("a profile" if kept is not None else "--lnc") + " of physical "
                            "cores of one. Leave one of the two out")
        return Scope(machines.get(chip_of(args), "device"))
    if kept is None:
        return Scope(machines.get(chip_of(args), "lnc2" if asked == 2 else "core"))
    from ..device.plausibility import working as worked
    from ..profile.facts import UNSURE
    name, same = printable(kept.name, 60), machines.SAME_CORE
    if kept.chip and kept.chip not in CHIPS:
        raise CallError(f"{name}: it ran on {printable(kept.chip, 20)}; expected one of "
                        f"{', '.join(CHIPS)}")
    if kept.chip and args.chip and same.get(kept.chip, kept.chip) != same.get(args.chip, args.chip):
        ran = printable(kept.get("instance_type") or kept.chip, 40)
        raise CallError(f"{name}: it ran on {ran}, and --chip={args.chip} is another chip. Leave "
                        f"--chip out, or pass a profile of {args.chip}")
    notes, wrong = [*_same_kernel(of, kept)], False
    chip = chip_of(args, kept)
    if not kept.chip:
        notes.append(f"which chip it ran on is not in the file: roofs are those of {chip}; "
                     "--chip names another")
    cores = worked(kept, machines.get(chip, "core"))
    if kept.timeline is None and (kept.cores == 2 or UNSURE in kept.warnings):
        cores = asked or cores
        notes.append("how many physical cores worked is not in a summary: roofs are those of "
                     f"{cores}; --lnc={3 - cores} if it was {3 - cores}" * (chip == "trn2"))
    if kept.timeline is not None and kept.cores == 2 and cores == 1:
        notes.append("the capture is of two physical cores and one of them worked: what "
                     "follows is of one core")
    if asked and asked != cores:
        wrong = True
        asks = f"--lnc={asked} asks for {asked} physical core" if args.lnc else (
            f"the call is for {asked} physical core")
        notes.append(f"{asks}{'s' * (asked > 1)}, and in the "
                     f"profile {cores} worked: counts and times are of different scopes. "
                     f"--lnc={cores} counts for {cores}")
    return Scope(machines.get(chip, "lnc2" if cores == 2 else "core"), tuple(notes), wrong)


def _same_kernel(of: Subject | None, kept: "Profile") -> Iterator[str]:
    """Raises CallError where a recording says that it is of another call."""
    said, name = kept.provenance, printable(kept.name, 60)
    if of is None or of.call is None or "kernel" not in said:
        return
    from ..device.launches import arrays_text
    call = of.call
    if said["kernel"] != call.name:
        raise CallError(f"{name}: a recording of {printable(said['kernel'], 40)}, and the call is "
                        f"of {call.name}")
    shapes = [(tuple(shape), dtype) for shape, dtype in zip(said["shapes"], said["dtypes"],
                                                            strict=True)]
    ours = [(tuple(shape), dtype) for shape, dtype in call.shapes]
    if _plain(shapes) != _plain(ours):
        raise CallError(f"{name}: a recording of {printable(arrays_text(shapes), 200)}, and the "
                        f"call has {arrays_text(ours)}")
    for key, value in said["parameters"].items():
        if key in call.parameters and str(call.parameters[key]) != str(value):
            raise CallError(f"{name}: a recording with {printable(key, 40)}="
                            f"{printable(value, 40)}, and the call has "
                            f"{printable(call.parameters[key], 40)}")
    if said.get("kernel_sha256") != call.source_sha256:
        yield ("the kernel's source is another than when this was recorded: count and time may "
               "not be of the same code")


def _plain(arrays: Sequence[tuple[tuple[int, ...], str]]) -> list[tuple[tuple[int, ...], str]]:
    """Each shape with its dtype by one name."""
    from ..nki import dtypes
    return [(shape, dtypes.of(dtype)) for shape, dtype in arrays]


@dataclass(frozen=True)
class Counted:
    """W and Q, by hand where it was given, else by the source.

    title     of what
    count     the two, one beside the other; W is the Tensor Engine's
    work_by, bytes_by   "your hand", "the source" or "the formula"
    source    what was counted, a Run or an op; None without a call
    differs   sentences: where hand and source are not the same
    other     dtype -> FLOP of a formula that are no matmuls, so of other engines
    """

    title: str
    count: Count
    work_by: str
    bytes_by: str
    source: Any
    hand: Hand
    differs: tuple[str, ...] = ()
    other: Mapping[str, int] = field(default_factory=dict)

    @property
    def link(self) -> int:
        """B that a collective sends over its link; 0 for all else."""
        return int(getattr(self.source, "link_bytes", 0))

    @property
    def elements(self) -> int:
        """Of the largest tensor of a formula without matmuls; 0 where they are not known."""
        return max((t.elements for t in self.source.tensors), default=0) if (
            no_matmul(self.source)) else 0

    @property
    def by(self) -> str:
        """W and Q by whom."""
        one = f"W and Q by {self.work_by}"
        return one if self.work_by == self.bytes_by else (
            f"W by {self.work_by}, Q by {self.bytes_by}")

    @property
    def named(self) -> str:
        """W and Q by whom, and of what."""
        return f"{self.by}, {self.title}" if self.source is not None else self.by

    def code(self, kept: "Profile") -> Any:
        """What a comparison takes: the Run, which knows its tensors, or a Count that differs.

        A hand's bytes go no way: as many as the profiler's count as written, the rest as read.
        Where a pair has just twice the hand's bytes, half of each way: both may have done it all.
        """
        if self.source is not None and not self.differs and not self.other:
            return self.source
        if not self.hand.transfers:
            return self.count
        from ..profile import formulas
        written = min(int(formulas.number(kept, "hbm_write_bytes") or 0), self.count.hbm_bytes)
        if kept.cores == 2 and formulas.hbm_bytes(kept) == 2 * self.count.hbm_bytes:
            written //= 2
        return Count(self.count.work, self.count.hbm_bytes - written, written)


def counted(args: argparse.Namespace, of: Subject | None, chip: str) -> Counted | None:
    """The count that was asked for; None where neither a call nor a hand count was given.

    Raises CallError for a W without a Q.
    """
    if of is None:
        mine = hand(args)
        if not (mine.work or mine.transfers):
            return None
        if not mine.transfers:
            raise CallError("--flops without --bytes: a roof needs Q as well. Give --bytes=Q, or "
                            "the kernel's call in front")
        return Counted("your count", mine.count, "your hand", "your hand", None, mine)
    source, by = of.op, "the formula"
    if of.call:
        with working(f"counting {of.title}"):
            source, by = of.call.counted(chip), "the source"
    theirs: Count = source.count if of.call else source.algorithmic
    matmuls = theirs.work if of.call else tensor_work(source)
    mine = hand(args, theirs)
    work, whole, differs = mine.count.work if mine.work else matmuls, theirs.work, []
    if work in (whole, matmuls) or no_matmul(source):
        work = matmuls
    if mine.work and mine.count.work not in (whole, matmuls):
        differs.append(f"your W is {_work(mine.work)}, and {by} has {_work(whole)}")
    if mine.transfers and mine.hbm_bytes != theirs.hbm_bytes:
        differs.append(f"your Q is {mine.hbm_bytes:,} B, and {by} has {theirs.hbm_bytes:,} B: "
                       "count shows it tensor by tensor")
    ways = (mine.hbm_bytes, 0) if mine.transfers else (theirs.hbm_read_bytes,
                                                       theirs.hbm_write_bytes)
    other = {dtype: more for dtype, flops in whole.items()
             if (more := flops - matmuls.get(dtype, 0))}
    return Counted(of.title, Count(work, *ways),
                   "your hand" if mine.work else by, "your hand" if mine.transfers else by,
                   source, mine, tuple(differs), other)


def no_matmul(source: Any) -> bool:
    """Whether it is a formula of an op without matmuls, so that its FLOPs are of other engines."""
    return isinstance(source, _NO_MATMUL)


def tensor_work(op: ops.Op) -> Mapping[str, int]:
    """W of its matmuls by dtype: what of a formula's FLOPs is the Tensor Engine's."""
    if no_matmul(op):
        return {}
    beside = {name: 0 for name in _BESIDE if getattr(op, name, 0)}
    return (replace(op, **beside) if beside else op).algorithmic.work  # type: ignore[type-var]


def _work(work: Any) -> str:
    some = {dtype: flops for dtype, flops in work.items() if flops}
    return " + ".join(f"{flops:,} FLOP {dtype}" for dtype, flops in some.items()) or "0 FLOP"


def unlike(mine: Counted | None, kept: "Profile") -> tuple[list[str], bool]:
    """What there is to say of a count against the profiler's, and whether W cannot be the same."""
    from ..profile import ProfileError, compare
    if mine is None:
        return [], False
    try:
        found = compare(mine.code(kept), kept)
    except ProfileError as error:
        return [f"not compared with the profiler's counters: {error}"], False
    left, notes = found["unexplained"], []
    if more := sum(found.difference[1:]):
        causes = [f"{cause} {of.read + of.written:+,} B" for cause, of in found
                  if of.read + of.written]
        notes.append(f"the profiler has {more:+,} B against Q by {mine.bytes_by}: "
                     f"{', '.join(causes)}; `roofline profile` shows them")
    if left.flops:
        notes.append(f"{left.flops:+,} FLOP of the profiler's have no cause: is it a profile of "
                     "this call, with the same shapes, dtype and cores?")
    ran = {_SAME.get(dtype, dtype) for dtype in kept.matmul_flops} - {""}
    meant = {_SAME.get(dtype, dtype) for dtype in mine.count.work}
    other = bool(ran and meant and ran != meant)
    if other:
        notes.append(f"the profile multiplies in {' and '.join(sorted(ran))}, and W is of "
                     f"{' and '.join(sorted(meant))}: each dtype has a peak of its own")
    return notes, other or bool(left.flops)


def printed(mine: Counted | None, kept: "Profile") -> list[str]:
    """Why the intensity that the profiler prints is not W over the bytes that moved."""
    from ..profile import formulas
    f, moved = formulas.flops(kept), formulas.hbm_bytes(kept)
    if mine is None or not mine.count.flops or not f or not moved or f == mine.count.flops:
        return []
    passes = sum(max(row.counted - row.once, 0) for row in kept.matmul_flops.values())
    return [f"the profiler prints an intensity of {amount(formulas.intensity(f, moved), 'FLOP/B')}"
            f", and W over the bytes moved is {amount(mine.count.flops / moved, 'FLOP/B')}: it has "
            f"{int(f):,} FLOP and W is {mine.count.flops:,}"
            + f"; {passes:,} of its are further passes of fp32 matmuls" * bool(passes)
            + ". No mark stands at the printed one"]


def about(of: "Profile", on: Scope) -> dict[str, Any]:
    """A profile in a file: what it is and what it is set against."""
    return {"profile": of.name, "kind": of.kind, "origin": of.origin,
            "format": of.format, "version": of.version,
            "chip": of.chip or None, "cores": of.cores, "machine": on.machine.name,
            "scope": on.machine.scope, "recorded": of.provenance.get("label"),
            "flags": list(of.flags), "warnings": list(of.warnings)}


def saving(args: argparse.Namespace, *suffixes: str) -> bool:
    """Whether a file with one of these endings was asked for."""
    return any(path.lower().endswith(suffixes) for path in args.save)


def lanes(args: argparse.Namespace, kept: "Profile", ledger: Any = None
          ) -> tuple[tuple[Any, ...], list[str]]:
    """The timeline for an .html where that is asked for, and a note where there can be none."""
    if not saving(args, ".html"):
        return (), []
    if kept.timeline is None:
        return (), ["the page shows no timeline: the file has none. View the profile with "
                    "--output-format json or parquet"]
    from .. import figures
    try:
        with working("drawing the timeline"):
            return (figures.timeline(kept, ledger),), []
    except ValueError as error:
        return (), [f"the page shows no timeline: {printable(error, 300)}"]
