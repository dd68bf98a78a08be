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

from ..count import Count
from ..table import WIDTH, aligned, printable, wrapped
from ..units import amount
from .answer import FINE, NO, Answer, Cell
from .calls import CALL, CallError, subject
from .calls import add as add_call
from .matched import (
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
      T_best from the profiler's own counts of W and HBM bytes; each cause, its stretches in ns
  python -m roofline gap timeline.json @call.txt
      T_best from the kernel's own count
  python -m roofline gap timeline.json --flops=2*2048*1024*4096 --bytes=29360128
      T_best from your count
  python -m roofline gap timeline.json --window=17234:28559
      only what lies between two moments, ns; --flops and --bytes are then of that part
  python -m roofline gap timeline.json --lines
      by line of the kernel's source, where the profile names lines
  python -m roofline gap after.json @call.txt --against=before.json
      what a change took and gave, cause by cause
  python -m roofline gap timeline.json --save=gap.html --save=gap.svg --save=gap.csv
      a timeline to zoom into, with the causes in it; the steps from T_best to T; each stretch

Rows and T_best sum to T. A row without a stretch lies nowhere on the timeline: it is how much
faster or slower than the roof all of it ran.

It ends with 1 where the profile or its number of cores (--lnc) is not that of the call, where
your count is not the source's, and where a measured T is below T_best."""
MOST = 3  # stretches that a line of text names, causes that get advice
COLUMNS = ("cause", "kind", "time_s", "share", "core", "start_ns", "end_ns")
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
    notes, roof = list(on.notes), args.roof
    if mine and window and of and not (mine.hand.work and mine.hand.transfers and mine.differs):
        roof = roof or _binding(on, mine.count)  # of a part only another count by hand can be
        mine = None
        notes.append("the call's count is of the whole run: T_best of the window is of the work "
                     "and bytes in it; --flops and --bytes of the window give another")
    count, whose = (mine.count, mine.named) if mine else (None, "")
    if mine is None:
        count, whose, more = seen(kept, on)
        roof = roof or (_binding(on, count) if count else None)
        notes += more if not window else ()
    works = count is None or bool(count.flops)
    if args.roof == "compute" and not works:
        raise CallError(f"--roof=compute: W is 0 ({whose}), so there is no compute roof: the "
                        "Tensor Engine has no work. Leave --roof out")
    if window:
        kept = kept.window(*window)
        if mine is None:
            count, whose = None, "W of its matmuls, Q of all its DMA packets, on chip too"
    ledger = made(kept, on, count, roof)
    if window and mine is None and works and not args.roof:
        rival = "memory" if ledger.roof == "compute" else "compute"
        notes.append(f"the roof is the one that binds the whole run, {ledger.roof}, so that "
                     f"windows add up; --roof={rival} takes the other")
    differs = mine.differs if mine and not window else ()
    notes += differs
    lines, table = _head(ledger, whose, kept), stretches(ledger)
    data: dict[str, Any] = {**about(kept, on), **entries(ledger),
                            "count_by": mine.by if mine else "the profile"}
    if of:
        data["subject"] = of.title
    if args.lines:
        found = ledger.lines()
        lines += _by_line(found)
        table = [("line", "cause", "kind", "time_s", "share"), *(
            (line, cause, kept.kind, ns / 1e9, ns / ledger.gap if ledger.gap else 0.0)
            for line, causes in found.by_line.items() for cause, ns in causes.items())]
        data["lines"] = {line: {cause: ns / 1e9 for cause, ns in causes.items()}
                         for line, causes in found.by_line.items()}
        if [*found] == [""]:
            notes.append("the profile names no source lines; compile with debug information, or "
                         "see the stretches without --lines")
    elif args.against:
        other = taken(args.against)
        there = scope(args, of, other)
        theirs, _, own = (count, "", []) if mine else seen(other, there)
        if window:
            other, own, theirs = other.window(*window), [], theirs if mine else None
            notes.append(f"{printable(other.name, 60)} is cut at the same ns, {window[0]:,} to "
                         f"{window[1]:,}: it may have done another part of the work by then")
        was = made(other, there, theirs, ledger.roof)
        change, more = against(ledger, was)
        lines += repr(change).splitlines()
        table = changed(ledger, was)
        data |= {"against": {**about(other, there), **entries(was)},
                 "change": {cause: change[cause] / 1e9 for cause in change.causes}}
        notes += [*(f"{other.name}: {note}" for note in (
            *there.notes, *own, *was.notes) if note not in notes), *more]
        if mine:
            notes.append("both T_best are of the same count; where the change changed W or Q, "
                         "leave the call away: each profile's own count is used then")
    else:
        lines += [*rows(ledger), "", *advice(ledger)]
    page, more = lanes(args, kept, ledger)
    odd, other_work = unlike(mine, kept) if not window else ([], False)
    notes += [*ledger.notes, *odd, *more]
    lines += ["", *wrapped(notes, whole=True)] if notes else []
    bad = other_work or on.wrong or differs or (
        ledger.t_best > ledger.t and kept.kind == "measured")
    moved = formulas.hbm_bytes(kept) if mine and not window else None
    return Answer("\n".join(lines), {**data, "notes": notes}, table, ladder(args, ledger, moved),
                  code=NO if bad else FINE, page=page)


def seen(kept: "Profile", on: Scope) -> tuple[Count | None, str, list[str]]:
    """W and Q by the profiler's own counters, whose they are, and why they cannot be had.

    Its HBM bytes, which packets between two places on chip are none of; W without transposes, an
    fp32 matmul once. None: the ledger takes those of the rows.
    Raises CallError where there are FLOPs and no row that tells of one.
    """
    from ..gaps.rates import Rates
    from ..profile import ProfileError, formulas
    of, flops = kept.timeline, formulas.number(kept, "hardware_flops") or 0
    if of is not None and of.working and not len(of.instructions) and flops:
        raise CallError(f"{printable(kept.name, 60)}: its summary has {int(flops):,} FLOP and the "
                        "file no instructions, so nothing tells what the Tensor Engine did. "
                        "Capture the instructions too, or give --flops and --bytes with "
                        "--roof=memory")
    try:
        count = kept.counted()
    except ProfileError as error:
        return None, "W and Q as the rows show them", [
            f"the profiler's counters do not give W and Q ({error}); so W is that of the matmul "
            "rows, and Q that of all DMA packets, from SBUF to SBUF too. --flops and --bytes or "
            "the call give others"]
    if not (count.flops or count.hbm_bytes):
        return None, "W and Q as the rows show them", []
    named = Rates(on.machine).named
    return Count({named(dtype): w for dtype, w in count.work.items()}, count.hbm_read_bytes,
                 count.hbm_write_bytes), "W and Q by the profiler's counters", []


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
        advice = ("Predict the old code with --write" if ledger.kind == "modelled" else
                  "Capture the old code, or hold a prediction of the new one against it")
        notes.append(f"{before} is {was.kind}, and this is {ledger.kind}: the difference holds the "
                     f"model's error, too. {advice} to see the change alone")
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


def _head(of: "Ledger", whose: str, kept: "Profile") -> list[str]:
    count, over = of.count, len(of.cores)
    cores = f"; mean of cores {' and '.join(map(str, of.cores))}" * (over > 1)
    part = f" from {of.window[0]:,} to {of.window[1]:,} ns" if of.window else ""
    return [*wrapped([f"{printable(of.name, 60)}{part}: {kept.origin}, {kept.format}, on "
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
    """12345.6 -> '12.35 us'."""
    from ..gaps.views import time as shown  # it needs NumPy
    return shown(ns, 4)


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
    """The ledger in s, FLOP and B: every cause with all its stretches, (core, start, end) in ns."""
    return {"t": of.t / 1e9, "t_best": of.t_best / 1e9, "gap": of.gap / 1e9, "roof": of.roof,
            "work": dict(of.count.work), "hbm_bytes": of.count.hbm_bytes,
            "window_ns": list(of.window) if of.window else None, "working": list(of.cores),
            "rows": [{"cause": row.cause, "time": row.time / 1e9, "share": row.share,
                      "what": row.what, "try": row.try_,
                      "instructions": int(row.events.instructions.size),
                      "packets": int(row.events.packets.size),
                      "stretches_ns": [list(map(int, one)) for one in row.stretches]}
                     for row in of.rows]}


def stretches(of: "Ledger") -> list[Sequence[Cell]]:
    """A line a cause with its time, then a line a stretch of it without: they sum to the gap."""
    table: list[Sequence[Cell]] = [COLUMNS]
    for row in of.rows:
        table.append((row.cause, of.kind, row.time / 1e9, row.share, None, None, None))
        table += [(row.cause, of.kind, None, None, *map(int, one)) for one in row.stretches]
    return table


def changed(ledger: "Ledger", was: "Ledger") -> list[Sequence[Cell]]:
    """A line a cause: before, after, and what it took more, s; the kinds of both profiles."""
    return [("cause", "before_kind", "after_kind", "before_s", "after_s", "change_s"), *(
        (cause, was.kind, ledger.kind, then / 1e9, now / 1e9, (now - then) / 1e9)
        for cause, (then, now) in (ledger - was).causes.items())]
