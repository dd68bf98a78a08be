"""roofline profile: what a profiler's file says, and why that is not what was counted.

Question  which time, FLOPs and bytes does it state, do they follow from each other, and from mine?
Answer    answer(args) -> Answer: NO where a printed figure cannot be had again, or a difference
          to the count has no cause. Also what each command does with a profile: taken, scope,
          counted
Assumes   a file of Neuron Profile 2.26 to Neuron Explorer 2.32, or a recording of this course
Ignores   where the time went: gap
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import machine as machines
from .. import ops, units
from ..count import Count
from ..machine import Machine
from ..table import aligned, printable, wrapped
from .answer import FINE, NO, Answer, Cell
from .calls import CALL, CallError, Hand, Subject, chip_of, core_of, hand, subject
from .calls import add as add_call
from .working import working

if TYPE_CHECKING:
    from ..profile import Profile
    from ..profile.compare import Comparison
    from ..profile.formulas import Check

EXAMPLES = f"""\
profiles
  FILE
      summary-json or json of the profiler, a folder of its parquet tables, or the folder of a
      recording (work/recorded/...). From a capture of your own:
      neuron-explorer view -n kernel.neff -s profile.ntff --output-format json

calls
{CALL}

examples
  python -m roofline profile timeline.json
      each clock and what it includes; F, B and AI; every printed figure computed again
  python -m roofline profile timeline.json @call.txt
      the kernel's own count against the profiler's, each difference with its cause
  python -m roofline profile summary.json --flops=fp32:2*4096**3 --bytes=3*4*4096**2
      your count in place of the kernel's; --flops=0 where there is no matmul
  python -m roofline profile timeline.json --save=figures.csv --save=timeline.html
      the figures as a table; the timeline as a page to zoom into

It ends with 1 where a printed figure cannot be had again and no reason is known, and where a
difference to the count is unexplained."""
_SAME = {"cfp8": "fp8"}  # what a NeuronCore-v2 calls it
FORMS = (".txt", ".json", ".csv", ".html")
NEURON = ("trn1", "inf2", "trn2")
REMARKS = {
    "F": "hardware_flops less transpose_flops",
    "B": "hbm_read_bytes + hbm_write_bytes",
    "AI": "F / B",
}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="the profiler's output (see below)")
    add_session(parser)
    add_call(parser, needed=False)


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
    parser.add_argument("--session", metavar="KEY",
                        help="which one, of a summary-json with several: n_...")


def answer(args: argparse.Namespace) -> Answer:
    from ..profile import ProfileError, compare, formulas
    sorted_out(args, "profile")
    of, kept = subject(args), taken(args.profile, args.session)
    on = scope(args, of, kept)
    mine = counted(args, of, on.chip)
    check = kept.check(on.chip, args.lnc)
    wrong = [row.name for row in check if row.agrees is False and formulas.HUNDRED
             not in row.reasons]
    against: Comparison | None = None
    lacks: list[str] = []
    if mine:
        if not of and not mine.hand.work:
            raise CallError("--bytes without --flops: a comparison needs your W as well. Give "
                            "--flops=W, 0 where there is no matmul, or the kernel's call")
        try:
            against = compare(mine.code(kept), kept)
        except ProfileError as error:
            lacks = [f"not compared: {error}"]
    lines = [*_head(kept, on), "", *_figures(check)]
    notes = [*on.notes, *lacks]
    if wrong:
        notes.append(f"not had again: {', '.join(wrong)}. The file's figures do not follow from "
                     "each other: is it whole, and of one run?")
    if against is not None and mine:
        lines += ["", *wrapped([f"{mine.named}: against the profiler's"]),
                  *repr(against).splitlines()]
        notes += mine.differs
        if not against.explained:
            notes.append("a part of the difference has no cause here: is it the same kernel, with "
                         "the same shapes and dtype, and the same number of cores?")
    page, more = lanes(args, kept)
    lines += ["", *wrapped([*notes, *more])] if notes or more else []
    bad = bool(wrong or on.wrong or lacks or (against is not None and not against.explained) or (
        mine and mine.differs))
    return Answer("\n".join(lines).rstrip(), _data(kept, on, check, against, mine, notes),
                  _table(check, against), code=NO if bad else FINE, page=page)


def _head(of: "Profile", on: "Scope") -> list[str]:
    """Who wrote it, its clocks, its counters, its warnings."""
    from ..profile import formulas
    said = ", ".join(filter(None, (of.kind, of.format, of.version)))
    cores = f"{of.cores} physical core{'s' * (of.cores > 1)}"
    lines = [*wrapped([f"{of.name}: {said}; {of.chip or 'chip unknown'}, {cores}"])]
    if label := of.provenance.get("label"):
        lines.append(f"  recorded on {label}")
    lines += ["", *wrapped(aligned([("clock", "time", "includes"), *(
        (row.name, amount(row.seconds, "s"), row.includes) for row in of.clocks())], indent="  "))]
    f, b = formulas.flops(of), formulas.hbm_bytes(of)
    cells = [(name, amount(formulas.number(of, name), unit), about) for name, unit, about in (
        ("hardware_flops", "FLOP", "all matmuls, transposes and every counted pass of fp32"),
        ("transpose_flops", "FLOP", "matmuls that only move data"),
        ("hbm_read_bytes", "B", ""), ("hbm_write_bytes", "B", ""),
        ("spill_save_bytes", "B", "of hbm_write_bytes: what did not fit on chip"),
        ("spill_reload_bytes", "B", "of hbm_read_bytes: the same, loaded again"))]
    ai = None if f is None or b is None else formulas.intensity(f, b)
    cells += [(name, amount(value, unit), REMARKS[name]) for name, value, unit in (
        ("F", f, "FLOP"), ("B", b, "B"), ("AI", ai, "FLOP/B"))]
    ratio = formulas.number(of, "peak_flops_bandwidth_ratio")
    stack = machines.get(on.chip, "device").facts["cores_per_hbm_stack"].value
    cells.append(("ratio", amount(ratio, "FLOP/B"), "one core's peak over a whole HBM stack"
                  + f", which {stack:g} cores share" * (stack > 1)))
    lines += ["", *aligned([("counter", "amount", "is"), *cells], indent="  ")]
    lines += wrapped([f"  The sheet's ridge of {on.machine.name} is {amount(_ridge(on), 'FLOP/B')} "
                      "(bf16): hold AI against that one."])
    rows = of.timeline
    lines += ["", "no timeline: the summary alone" if rows is None else
              f"{len(rows.instructions):,} instructions, {len(rows.packets):,} DMA packets; "
              + (f"core{'s' * (len(rows.working) > 1)} {', '.join(map(str, rows.working))}"
                 if rows.working else "no core") + f" of {rows.cores} worked"]
    lines += wrapped([*(f"flag: {flag}" for flag in of.flags),
                      *(f"warning: {text}" for text in of.warnings)])
    return lines


def _ridge(on: "Scope") -> float:
    return on.machine.ridge("bf16")


def _figures(check: "Check") -> list[str]:
    """The profiler's figures, printed and recomputed; below, by letter, on what grounds."""
    words = {True: "yes", False: "NO", None: "-"}
    grounds: dict[str, str] = {}
    cells = [("figure", "printed", "recomputed", "agree", "")]
    for row in check:
        why = [grounds.setdefault(one, _letter(len(grounds))) for one in row.reasons]
        cells.append((row.name, _shown(row.name, row.printed), _shown(row.name, row.recomputed),
                      words[row.agrees], " ".join(why)))
    last = repr(check).splitlines()[-2:]
    return [*aligned(cells, left=(0, 3, 4), indent="  "), *wrapped(
        [*(f"  {letter}: {why}" for why, letter in grounds.items()),
         *(f"  {line}" for line in last)], hang=3)]


def _letter(n: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[n] if n < 26 else f"z{n}"


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else "no number"
    if name.endswith("_time"):
        return units.show(value, "s", 6)
    return f"{value:,}" if isinstance(value, int) else units.significant(value, 6)


def _data(of: "Profile", on: "Scope", check: "Check", against: "Comparison | None",
          mine: "Counted | None", notes: Sequence[str]) -> dict[str, Any]:
    from ..profile import formulas
    f, b = formulas.flops(of), formulas.hbm_bytes(of)
    data: dict[str, Any] = {
        **about(of, on), "clocks": {row.name: {"s": row.seconds, "includes": row.includes}
                                    for row in of.clocks()},
        "flops": f, "hbm_bytes": b, "hbm_read_bytes": formulas.number(of, "hbm_read_bytes"),
        "hbm_write_bytes": formulas.number(of, "hbm_write_bytes"),
        "intensity": None if f is None or b is None else formulas.intensity(f, b),
        "ridge_bf16": _ridge(on), "agree": check.agree,
        "figures": [{"name": row.name, "printed": row.printed, "recomputed": row.recomputed,
                     "agrees": row.agrees, "reasons": list(row.reasons)} for row in check],
        "notes": list(notes)}
    if against is not None and mine:
        data["comparison"] = {
            "subject": mine.title, "by": mine.by, "explained": against.explained,
            "code": dict(zip(("flops", "read", "written"), (
                against.code.flops, against.code.hbm_read_bytes, against.code.hbm_write_bytes),
                strict=True)),
            "profiler": against.profiler._asdict(),
            "causes": {cause: of_._asdict() for cause, of_ in against},
            "notes": list(against.notes)}
    return data


def _table(check: "Check", against: "Comparison | None") -> list[Sequence[Cell]]:
    """The comparison where there is one, else the figures."""
    if against is None:
        return [("figure", "printed", "recomputed", "agrees", "reason"), *(
            (row.name, _cell(row.printed), row.recomputed,
             {True: "yes", False: "no", None: ""}[row.agrees], "; ".join(row.reasons))
            for row in check)]
    code = against.code
    return [("what", "flops", "hbm_read_bytes", "hbm_write_bytes"),
            ("code", code.flops, code.hbm_read_bytes, code.hbm_write_bytes),
            *((cause, *of) for cause, of in against), ("profiler", *against.profiler)]


def _cell(value: object) -> Cell:
    return value if isinstance(value, str | int | float) or value is None else str(value)


# --- what the commands with a profile share ------------------------------------------------------


def taken(path: str, session: str | None = None) -> "Profile":
    """The profile at a path: a profiler's output, or the folder of a recording with its flags.

    Raises ProfileError or RecordingError where it is neither, or bad.
    """
    from .. import profile
    place = Path(path)
    folder = place.parent if place.name == "recording.json" else place
    with working(f"reading {printable(place.name, 60)}"):
        if (folder / "recording.json").is_file() and session is None:
            from ..device import store
            return store.load(folder).profile
        return profile.read(place, session)


@dataclass(frozen=True)
class Scope:
    """The machine that figures are set against, and why at this scope.

    wrong   the call and the profile are of different numbers of cores
    """

    machine: Machine
    chip: str
    notes: tuple[str, ...] = ()
    wrong: bool = False


def scope(args: argparse.Namespace, of: Subject | None, kept: "Profile | None" = None) -> Scope:
    """A core, or the pair of LNC=2: as many as worked in the profile, else as the call says.

    Raises CallError for a profile of another chip or kernel than was asked for.
    """
    if kept is None:
        on = core_of(args, of)
        return Scope(on, on.key)
    from ..device.plausibility import working as worked
    from ..profile.facts import UNSURE
    name, same = printable(kept.name, 60), machines.SAME_CORE
    if kept.chip and kept.chip not in NEURON:
        raise CallError(f"{name}: it ran on {printable(kept.chip, 20)}; expected one of "
                        f"{', '.join(NEURON)}")
    if kept.chip and args.chip and same.get(kept.chip, kept.chip) != same.get(args.chip, args.chip):
        ran = printable(kept.get("instance_type") or kept.chip, 40)
        raise CallError(f"{name}: it ran on {ran}, and --chip={args.chip} is another chip. Leave "
                        f"--chip out, or pass a profile of {args.chip}")
    notes, wrong = [*_same_kernel(of, kept)], False
    chip = chip_of(args, kept)
    if not kept.chip:
        notes.append(f"which chip it ran on is not in the file: roofs are those of {chip}; "
                     "--chip names another")
    asked = args.lnc or (of.call.lnc if of and of.call else None)
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
        notes.append(f"the call is for {asked} physical core{'s' * (asked > 1)}, and in the "
                     f"profile {cores} worked: counts and times are of different scopes. "
                     f"--lnc={cores} counts for {cores}")
    return Scope(machines.get(chip, "lnc2" if cores == 2 else "core"), chip, tuple(notes), wrong)


def _same_kernel(of: Subject | None, kept: "Profile") -> Iterator[str]:
    """Raises CallError where a recording says that it is of another call."""
    said, name = kept.provenance, printable(kept.name, 60)
    if of is None or of.call is None or "kernel" not in said:
        return
    call = of.call
    if said["kernel"] != call.name:
        raise CallError(f"{name}: a recording of {printable(said['kernel'], 40)}, and the call is "
                        f"of {call.name}")
    shapes = [(tuple(shape), dtype) for shape, dtype in zip(said["shapes"], said["dtypes"],
                                                            strict=True)]
    ours = [(tuple(shape), dtype) for shape, dtype in call.shapes]
    if _plain(shapes) != _plain(ours):
        raise CallError(f"{name}: a recording of {_shapes(shapes)}, and the call has "
                        f"{_shapes(ours)}")
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


def _shapes(arrays: Sequence[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{'x'.join(map(str, shape))} {printable(dtype, 20)}"
                     for shape, dtype in arrays)


@dataclass(frozen=True)
class Counted:
    """W and Q, by hand where it was given, else by the source.

    title     of what
    count     the two, one beside the other
    work_by, bytes_by   "your hand", "the source" or "the formula"
    source    what was counted, a Run or an op; None without a call
    differs   sentences: where hand and source are not the same
    """

    title: str
    count: Count
    work_by: str
    bytes_by: str
    source: Any
    hand: Hand
    differs: tuple[str, ...] = ()

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
        """
        if self.source is not None and not self.differs:
            return self.source
        if not self.hand.transfers:
            return self.count
        from ..profile import formulas
        written = min(int(formulas.number(kept, "hbm_write_bytes") or 0), self.count.hbm_bytes)
        return Count(self.count.work, self.count.hbm_bytes - written, written)


def counted(args: argparse.Namespace, of: Subject | None, chip: str) -> Counted | None:
    """The count that was asked for; None where neither a call nor a hand count was given.

    Raises CallError for a W without a Q.
    """
    if of is None:
        mine = hand(args)
        if not (mine.work or mine.transfers):
            return None
        if not mine.whole:
            raise CallError("--flops without --bytes: a roof needs Q as well. Give --bytes=Q, or "
                            "the kernel's call in front")
        return Counted("your count", mine.count, "your hand", "your hand", None, mine)
    source, by = of.op, "the formula"
    if of.call:
        with working(f"counting {of.title}"):
            source, by = of.call.counted(chip), "the source"
    theirs: Count = source.count if of.call else source.algorithmic
    mine = hand(args, theirs)
    differs = []
    if mine.work and mine.count.work != theirs.work:
        differs.append(f"your W is {_work(mine.work)}, and {by} has {_work(theirs.work)}")
    if mine.transfers and mine.hbm_bytes != theirs.hbm_bytes:
        differs.append(f"your Q is {mine.hbm_bytes:,} B, and {by} has {theirs.hbm_bytes:,} B: "
                       "count shows it tensor by tensor")
    ways = (mine.hbm_bytes, 0) if mine.transfers else (theirs.hbm_read_bytes,
                                                       theirs.hbm_write_bytes)
    return Counted(of.title, Count(mine.work or theirs.work, *ways),
                   "your hand" if mine.work else by, "your hand" if mine.transfers else by,
                   source, mine, tuple(differs))


def _work(work: Any) -> str:
    some = {dtype: flops for dtype, flops in work.items() if flops}
    return " + ".join(f"{flops:,} FLOP {dtype}" for dtype, flops in some.items()) or "0 FLOP"


def unlike(mine: Counted | None, kept: "Profile") -> tuple["Comparison | None", list[str], bool]:
    """A count against the profiler's, what there is to say of it, whether W cannot be the same.

    None where the profile lacks what it takes.
    """
    from ..profile import ProfileError, compare
    if mine is None:
        return None, [], False
    try:
        found = compare(mine.code(kept), kept)
    except ProfileError as error:
        return None, [f"not compared with the profiler's counters: {error}"], False
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
    return found, notes, other or bool(left.flops)


def about(of: "Profile", on: Scope) -> dict[str, Any]:
    """A profile in a file: what it is and what it is set against."""
    return {"profile": of.name, "kind": of.kind, "format": of.format, "version": of.version,
            "chip": of.chip or None, "cores": of.cores, "machine": on.machine.name,
            "scope": on.machine.scope, "recorded": of.provenance.get("label"),
            "flags": list(of.flags), "warnings": list(of.warnings)}


def amount(value: float | None, unit: str) -> str:
    """A number with its unit, to 4 digits; unknown where there is none."""
    return "unknown" if value is None else units.show(value, unit, 4)


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
