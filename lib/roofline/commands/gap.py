"""roofline gap: T - T_best of a profile, cause by cause, each with where it lies.

Question  which cause took which nanoseconds, between which moments, and what is worth a try?
Answer    answer(args) -> Answer: the ledger; rows and T_best sum to T. `rows`, `advice` and
          `entries` are the ledger as text, and as data; `against` holds it to another
Assumes   a profile with a timeline
Ignores   bytes that took no time: profile tells of them
"""

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import units
from ..count import Count
from ..table import WIDTH, aligned, printable, wrapped
from ..units import amount
from .answer import FINE, NO, Answer, Cell
from .calls import CALL, CallError, subject
from .calls import add as add_call
from .matched import (
    Counted,
    Scope,
    about,
    add_session,
    counted,
    lanes,
    saving,
    scope,
    sorted_out,
    taken,
    unlike,
)
from .working import working

if TYPE_CHECKING:
    from ..gaps import Difference, Ledger, Lines, Row
    from ..plot import Picture
    from ..profile import Profile

EXAMPLES = f"""\
profiles
  FILE or folder, as for `roofline profile`; it needs a timeline (json, parquet)

calls
{CALL}

examples
  python -m roofline gap timeline.json
      T_best from the work and bytes that the profile shows; each cause, its stretches in ns
  python -m roofline gap timeline.json @call.txt
      T_best from the kernel's own count
  python -m roofline gap timeline.json --flops=2*2048*1024*4096 --bytes=29360128
      T_best from your count
  python -m roofline gap timeline.json --window=17234:28559
      only what lies between two moments, ns
  python -m roofline gap timeline.json --lines
      by line of the kernel's source, where the profile names lines
  python -m roofline gap after.json @call.txt --against=before.json
      what a change took and gave, cause by cause
  python -m roofline gap timeline.json --save=gap.html --save=gap.svg --save=gap.csv
      a timeline to zoom into, with the causes in it; the steps from T_best to T; each stretch

Rows and T_best sum to T. A row without a stretch lies nowhere on the timeline: it is how much
faster or slower than the roof all of it ran."""
MOST = 3  # stretches that a line of text names, causes that get advice
COLUMNS = ("cause", "ns", "share", "core", "start_ns", "end_ns")
DRAWS = True


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="the profiler's output, or a recording")
    add_session(parser)
    parser.add_argument("--window", metavar="T0:T1",
                        help="only from T0 to T1, whole ns from the start of execution")
    parser.add_argument("--roof", choices=("compute", "memory"),
                        help="the roof that T_best is of; otherwise the one that binds")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--lines", action="store_true", help="by source line")
    form.add_argument("--against", metavar="PROFILE",
                      help="what changed from this profile to the first one")
    add_call(parser, needed=False)


def answer(args: argparse.Namespace) -> Answer:
    from ..profile import formulas
    sorted_out(args, "gap")
    window = _window(args.window)
    of, kept = subject(args), taken(args.profile, args.session)
    on = scope(args, of, kept)
    mine = counted(args, of, on.chip)
    notes = list(on.notes)
    count, roof = mine.count if mine else None, args.roof
    if window and of and count:  # of a part only a hand count can be
        roof = roof or _binding(on, count)
        if not mine or not mine.hand.transfers or not mine.hand.work:
            count = None
            notes.append("the call's count is of the whole run: T_best of the window is of the "
                         "work and bytes in it; --flops and --bytes of the window give another")
    if window:
        kept = kept.window(*window)
    ledger = made(kept, on, count, roof)
    if mine:
        notes += mine.differs
    lines, table = _head(ledger, mine if count else None, kept), stretches(ledger)
    data: dict[str, Any] = {**about(kept, on), **entries(ledger), "count_by": mine.by if (
        mine and count) else "the profile"}
    if args.lines:
        found = ledger.lines()
        lines += _by_line(found)
        table = [("line", "cause", "ns", "share"), *(
            (line, cause, ns, ns / ledger.gap if ledger.gap else 0.0)
            for line, causes in found.by_line.items() for cause, ns in causes.items())]
        data["lines"] = found.by_line
        if [*found] == [""]:
            notes.append("the profile names no source lines; compile with debug information, or "
                         "see the stretches without --lines")
    elif args.against:
        other = taken(args.against)
        there = scope(args, of, other)
        was = made(other.window(*window) if window else other, there, count, ledger.roof)
        change, more = against(ledger, was)
        lines += repr(change).splitlines()
        table = changed(change)
        data |= {"against": {**about(other, there), **entries(was)},
                 "change": {cause: change[cause] for cause in change.causes}}
        notes += [*(f"{other.name}: {note}" for note in (*there.notes, *was.notes)
                    if note not in notes), *more]
        if count:
            notes.append("both T_best are of the same count; where the change changed W or Q, "
                         "leave the call away: each profile's own count is used then")
    else:
        lines += [*rows(ledger), "", *advice(ledger)]
    page, more = lanes(args, kept, ledger)
    odd, other_work = unlike(mine, kept) if not window else ([], False)
    notes += [*ledger.notes, *odd, *more]
    lines += ["", *wrapped(notes)] if notes else []
    bad = other_work or on.wrong or (mine and mine.differs) or (
        ledger.t_best > ledger.t and kept.kind == "measured")
    moved = formulas.hbm_bytes(kept) if count and not window else None
    return Answer("\n".join(lines), {**data, "notes": notes}, table, ladder(args, ledger, moved),
                  code=NO if bad else FINE, page=page)


def made(kept: "Profile", on: Scope, count: Count | None, roof: str | None = None) -> "Ledger":
    """The ledger of a profile, or of its window. Raises GapError where there can be none."""
    from .. import gaps
    with working("finding the causes"):
        return gaps.ledger(kept, on.machine, count, roof=roof)


def ladder(args: argparse.Namespace, ledger: "Ledger", moved: float | None = None
           ) -> "Picture | None":
    """The steps from T_best to T, where a picture is asked for.

    moved   B by the profiler: where they are others, hollow marks at their I
    """
    if not saving(args, ".svg", ".png", ".html"):
        return None
    from .. import plot
    return plot.ladder(ledger, moved=int(moved) if moved else None)


def against(ledger: "Ledger", was: "Ledger") -> tuple["Difference", list[str]]:
    """What changed from an earlier ledger, and what to know before one believes it."""
    notes, before = [], printable(was.name, 60)
    if was.kind != ledger.kind:
        notes.append(f"{before} is {was.kind}, and this is {ledger.kind}: the difference holds the "
                     "model's error, too. Predict the old code with --write to see the change "
                     "alone")
    if was.machine.name != ledger.machine.name:
        notes.append(f"they are of different machines: {was.machine.name}, {ledger.machine.name}")
    if was.count.work != ledger.count.work:
        notes.append(f"W was {work_of(was.count)} and is {work_of(ledger.count)}, so their T_best "
                     "are of different work. Is it the same op, in the same dtypes?")
    return ledger - was, notes


def _window(text: str | None) -> tuple[int, int] | None:
    """T0:T1 as two whole numbers of ns. Raises CallError."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d[\d_,]*)\s*:\s*(\d[\d_,]*)\s*", text, re.ASCII)
    if not found or max(map(len, found.groups())) > 18:
        raise CallError(f"--window={printable(text, 60)}: expected T0:T1, two whole numbers of ns, "
                        "such as --window=17234:28559")
    t0, t1 = (int(one.replace(",", "").replace("_", "")) for one in found.groups())
    if t0 >= t1:
        raise CallError(f"--window={printable(text, 60)}: it ends at {t1} ns, and begins at {t0} "
                        "ns. Give the earlier moment first")
    return t0, t1


def _binding(on: Scope, count: Count) -> str | None:
    """The roof that binds a count, as a ledger calls it."""
    if not (count.flops or count.hbm_bytes):
        return None
    return "compute" if on.machine.entitle(count).binds == "compute" else "memory"


# --- as text --------------------------------------------------------------------------------------


def _head(of: "Ledger", mine: Counted | None, kept: "Profile") -> list[str]:
    whose = mine.named if mine else "W and Q as the profile shows them"
    count, over = of.count, len(of.cores)
    cores = f"; mean of cores {' and '.join(map(str, of.cores))}" * (over > 1)
    part = f" from {of.window[0]:,} to {of.window[1]:,} ns" if of.window else ""
    return [*wrapped([f"{printable(of.name, 60)}{part}: {of.kind}, {kept.format}, on "
                      f"{of.machine.name}{cores}",
                      f"T       {amount(of.t / 1e9, 's')}, "
                      + ("the window" if of.window else "total time of the profile"),
                      f"T_best  {amount(of.t_best / 1e9, 's')}, {of.roof} roof; {whose}: "
                      f"W {work_of(count)}, Q {amount(count.hbm_bytes, 'B')}"], hang=8), ""]


def rows(of: "Ledger") -> list[str]:
    """The ledger as lines: each cause with its first stretches; gap, T_best and T below."""
    places = "core: from - to, ns" if len(of.cores) > 1 else "from - to, ns"
    cells = [("time", "share", "n", "cause", places)]
    cells += [(time(row.time), _share(row.time, of), f"{len(row.stretches):,}" if row.stretches
               else "", row.cause, "") for row in of.rows]
    cells += [(time(value), "", "", name, "") for name, value in (
        ("gap, the sum of the rows", of.gap), ("T_best", of.t_best), ("T = gap + T_best", of.t))]
    table = aligned(cells, left=(3, 4), indent="  ")
    wide = max(map(len, table[1:])) + 2
    table[0] = f"{aligned([c[:4] for c in cells], left=(3,), indent='  ')[0]:<{wide}}{cells[0][4]}"
    return [table[0], *(f"{line:<{wide}}{_where(row, of, WIDTH - wide)}".rstrip()
                        for line, row in zip(table[1:], of.rows, strict=False)),
            *table[1 + len(of.rows):]]


def time(ns: float) -> str:
    """12345.6 -> '12.35 us'; of a row that is 1e-6 ns or less nothing is left."""
    return units.show(round(ns, 6) / 1e9, "s", 4)


def work_of(count: Count) -> str:
    """W by dtype: "34.36 GFLOP bf16"."""
    return " + ".join(f"{amount(w, 'FLOP')} {dtype}" for dtype, w in count.work.items()) or "0 FLOP"


def _share(ns: float, of: "Ledger | Lines") -> str:
    return f"{ns / of.gap:.1%}" if of.gap > 0 else "-"


def _where(row: "Row", of: "Ledger", room: int) -> str:
    """The first stretches, as many as there is room for."""
    every = row.stretches
    if not every:
        return "all of it" if abs(row.time) >= 1 else ""
    several, text, last = len(of.cores) > 1, "", None
    for n, (core, start, end) in enumerate(every):
        head = f"{core}: " if several and core != last else ""
        more = f"{', ' * bool(text)}{head}{start:,}-{end:,}"
        rest = " ..." * (n + 1 < len(every))
        if n and (n >= MOST or len(text) + len(more) + len(rest) > room):
            return text + " ..."
        text, last = text + more, core
    return text


def advice(of: "Ledger") -> list[str]:
    """What the largest causes are, and what to try."""
    lines = []
    for row in [row for row in of.rows if row.time > 0][:MOST]:
        lines += wrapped([f"{row.cause}: {row.what}", f"  try  {row.try_}"], hang=7)
    return lines


def _by_line(of: "Lines") -> list[str]:
    """Causes by source line, the largest first."""
    cells = [("time", "share", "line", "causes")]
    for line, causes in of.by_line.items():
        most = sorted(causes, key=lambda cause: -abs(causes[cause]))
        cells.append((time(of[line]), _share(of[line], of), printable(line, 40) or "(no line)",
                      ", ".join(most[:MOST]) + " ..." * (len(most) > MOST)))
    cells.append((time(of.gap), "", "gap, the sum of the lines", ""))
    return aligned(cells, left=(2, 3), indent="  ")


# --- as data --------------------------------------------------------------------------------------


def entries(of: "Ledger") -> dict[str, Any]:
    """The ledger in ns, FLOP and B: every cause with all its stretches (core, start, end)."""
    return {"t": of.t, "t_best": of.t_best, "gap": of.gap, "unit": "ns", "roof": of.roof,
            "work": dict(of.count.work), "hbm_bytes": of.count.hbm_bytes,
            "window": list(of.window) if of.window else None, "working": list(of.cores),
            "rows": [{"cause": row.cause, "ns": row.time, "share": row.share, "what": row.what,
                      "try": row.try_, "instructions": int(row.events.instructions.size),
                      "packets": int(row.events.packets.size),
                      "stretches": [list(map(int, one)) for one in row.stretches]}
                     for row in of.rows]}


def stretches(of: "Ledger") -> list[Sequence[Cell]]:
    """A line a cause with its ns, then a line a stretch of it without: ns sum to the gap."""
    table: list[Sequence[Cell]] = [COLUMNS]
    for row in of.rows:
        table.append((row.cause, row.time, row.share, None, None, None))
        table += [(row.cause, None, None, *map(int, one)) for one in row.stretches]
    return table


def changed(of: "Difference") -> list[Sequence[Cell]]:
    """A line a cause: before, after, and what it took more; ns."""
    return [("cause", "before_ns", "after_ns", "change_ns"), *(
        (cause, was, now, now - was) for cause, (was, now) in of.causes.items())]
