"""roofline profile: what a profiler's file says, and why that is not what was counted.

Question  which time, FLOPs and bytes does it state, do they follow from each other, and from mine?
Answer    answer(args) -> Answer: NO where a printed figure cannot be had again, or a difference
          to the count has no cause
Assumes   a file of Neuron Profile 2.26 to Neuron Explorer 2.32, or a recording of this course
Ignores   where the time went: gap
"""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import machine as machines
from .. import units
from ..table import aligned, wrapped
from ..units import amount
from .answer import FINE, NO, Answer
from .calls import CALL, CallError, subject
from .calls import add as add_call
from .matched import (
    Counted,
    Scope,
    about,
    add_session,
    counted,
    lanes,
    printed,
    scope,
    sorted_out,
    taken,
)

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

It ends with 1 where a printed figure cannot be had again and no reason is known, where a
difference to the count is unexplained or your count is not the source's, and where another number
of cores worked than the call or --lnc says: one, and --lnc=2."""


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="the profiler's output (see below)")
    add_session(parser)
    add_call(parser, needed=False)


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
    notes = [*on.notes, *lacks, *printed(mine, kept)]
    if wrong:
        notes.append(f"not had again: {', '.join(wrong)}. The file's figures do not follow from "
                     "each other: is it whole, and of one run?")
    if against is not None and mine:
        lines += ["", *wrapped([f"{mine.named}: against the {against.whose}'s"]),
                  *repr(against).splitlines()]
        notes += mine.differs
        if not against.explained:
            notes.append("a part of the difference has no cause here: is it the same kernel, with "
                         "the same shapes and dtype, and the same number of cores?")
    page, more = lanes(args, kept)
    lines += ["", *wrapped([*notes, *more], whole=True)] if notes or more else []
    bad = bool(wrong or on.wrong or lacks or (against is not None and not against.explained) or (
        mine and mine.differs))
    return Answer("\n".join(lines).rstrip(), _data(kept, on, check, against, mine, notes),
                  _table(check, against), code=NO if bad else FINE, page=page)


def _head(of: "Profile", on: Scope) -> list[str]:
    """Who wrote it, its clocks, its counters, its warnings."""
    from ..profile import formulas
    said = ", ".join(filter(None, (of.origin, of.format, of.version)))
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
    cells += [("F", amount(f, "FLOP"), "hardware_flops less transpose_flops"),
              ("B", amount(b, "B"), "hbm_read_bytes + hbm_write_bytes"),
              ("AI", amount(ai, "FLOP/B"), "F / B")]
    ridge = on.machine.ridge("bf16")
    ratio = formulas.number(of, "peak_flops_bandwidth_ratio")
    stack = machines.get(on.chip, "device").facts["cores_per_hbm_stack"].value
    cells.append(("ratio", amount(ratio, "FLOP/B"), "one core's peak over a whole HBM stack"
                  + f", which {stack:g} cores share" * (stack > 1)))
    lines += ["", *aligned([("counter", "amount", "is"), *cells], indent="  ")]
    lines += wrapped([f"  The sheet's ridge of {on.machine.name} is {amount(ridge, 'FLOP/B')} "
                      "(bf16): hold AI against that one."])
    rows = of.timeline
    lines += ["", "no timeline: the summary alone" if rows is None else
              f"{len(rows.instructions):,} instructions, {len(rows.packets):,} DMA packets; "
              + (f"core{'s' * (len(rows.working) > 1)} {', '.join(map(str, rows.working))}"
                 if rows.working else "no core") + f" of {rows.cores} worked"]
    lines += wrapped([*(f"flag: {flag}" for flag in of.flags),
                      *(f"warning: {text}" for text in of.warnings)])
    return lines


def _figures(check: "Check") -> list[str]:
    """The profiler's figures, printed and recomputed; below, by number, on what grounds."""
    words = {True: "yes", False: "NO", None: "-"}
    grounds: dict[str, str] = {}
    cells = [("figure", "printed", "recomputed", "agree", "why")]
    for row in check:
        why = [grounds.setdefault(one, str(len(grounds) + 1)) for one in row.reasons]
        cells.append((row.name, _shown(row.name, row.printed), _shown(row.name, row.recomputed),
                      words[row.agrees], " ".join(why)))
    last = repr(check).splitlines()[-2:]
    return [*aligned(cells, left=(0, 3, 4), indent="  "), *wrapped(
        [*(f"  {number}: {why}" for why, number in grounds.items()),
         *(f"  {line}" for line in last)], hang=3)]


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else "no number"
    if name.endswith("_time"):
        return units.show(value, "s", 6)
    return f"{value:,}" if isinstance(value, int) else units.significant(value, 6)


def _data(of: "Profile", on: Scope, check: "Check", against: "Comparison | None",
          mine: Counted | None, notes: Sequence[str]) -> dict[str, Any]:
    from ..profile import formulas
    f, b = formulas.flops(of), formulas.hbm_bytes(of)
    data: dict[str, Any] = {
        **about(of, on), "clocks": {row.name: {"s": row.seconds, "includes": row.includes}
                                    for row in of.clocks()},
        "flops": f, "hbm_bytes": b, "hbm_read_bytes": formulas.number(of, "hbm_read_bytes"),
        "hbm_write_bytes": formulas.number(of, "hbm_write_bytes"),
        "intensity": None if f is None or b is None else formulas.intensity(f, b),
        "ridge_bf16": on.machine.ridge("bf16"), "agree": check.agree,
        "figures": [{"name": row.name, "printed": row.printed, "recomputed": row.recomputed,
                     "agrees": row.agrees, "reasons": list(row.reasons)} for row in check],
        "notes": list(notes)}
    if mine and mine.source is not None:
        data["subject"] = mine.title
    if against is not None and mine:
        data["comparison"] = {
            "subject": mine.title, "by": mine.by, "against": against.whose,
            "explained": against.explained,
            "code": dict(zip(("flops", "read", "written"), (
                against.code.flops, against.code.hbm_read_bytes, against.code.hbm_write_bytes),
                strict=True)),
            "profiler": against.profiler._asdict(),
            "causes": {cause: of_._asdict() for cause, of_ in against},
            "notes": list(against.notes)}
    return data


def _table(check: "Check", against: "Comparison | None") -> list[Sequence[Any]]:
    """The comparison where there is one, else the figures."""
    if against is None:
        return [("figure", "printed", "recomputed", "agrees", "reason"), *(
            (row.name, row.printed, row.recomputed,
             {True: "yes", False: "no", None: ""}[row.agrees], "; ".join(row.reasons))
            for row in check)]
    code = against.code
    return [("what", "flops", "hbm_read_bytes", "hbm_write_bytes"),
            ("code", code.flops, code.hbm_read_bytes, code.hbm_write_bytes),
            *((cause, *of) for cause, of in against), (against.whose, *against.profiler)]
