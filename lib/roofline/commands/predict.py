"""roofline predict: how long this code would take by the cost model, and what it would wait for.

Question  which time has this code by the model, which engine is busy how long, where is the gap?
Answer    answer(args) -> Answer: T, T_best, engines, the ledger; or what a change would change
Assumes   the buffers that --buffers declares; the clock is total_time of a profile
Ignores   the compiler: fusion, reordering, spills. A device knows: capture
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..table import aligned, printable, wrapped
from ..units import amount
from . import gap
from .answer import Answer, Cell
from .calls import CODE, CallError, chip_of, subject
from .calls import add as add_call
from .matched import about, counted, lanes, scope, taken
from .working import working

if TYPE_CHECKING:
    from ..gaps import Ledger
    from ..neuroncore import Prediction
    from ..profile import Profile

EXAMPLES = f"""\
calls
{CODE}

examples
  python -m roofline predict mlp.py:mlp x=1024x2048:bf16 w=1024x4096:bf16
      T by the model, T_best, each engine's busy time, the gap cause by cause
  python -m roofline predict @call.txt --buffers=2
      two generations of each tile on chip; --buffers=sbuf:2 or --buffers=w_tile:1 for some
  python -m roofline predict @call.txt --write=before.json
      the modelled profile as a file, for `roofline profile` and `roofline gap`
  python -m roofline predict @after.txt --against=before.json
      change one thing, predict: what the change takes and gives, cause by cause
  python -m roofline predict @call.txt --save=predict.html
      the modelled timeline to zoom into, with the causes in it

Every time here is modelled. Nothing was run, and the compiler is left out."""
LEFT_OUT = ("not in the model: what the compiler fuses, reorders or spills; another kernel at the "
            "same time")
DRAWS = True


def add(parser: argparse.ArgumentParser) -> None:
    add_call(parser)
    parser.add_argument("--buffers", action="append", default=[], metavar="N",
                        help="generations of a line's tiles that exist at once, as far as there "
                             "is room; of one memory or tile NAME:N, may come again. Otherwise "
                             "each tile has a place of its own")
    parser.add_argument("--write", metavar="PROFILE.json",
                        help="save the modelled profile as a .json file of the profiler's kind")
    parser.add_argument("--against", metavar="PROFILE",
                        help="what changes from this profile, modelled or measured")


def answer(args: argparse.Namespace) -> Answer:
    buffers = buffers_of(args.buffers)
    if args.write:
        from ..profile.write import refuse_others
        refuse_others(Path(args.write).expanduser(), "json", "modelled")
    of, before = subject(args), taken(args.against) if args.against else None
    assert of is not None  # the parser asks for a call
    if of.call is None:
        raise CallError(f"{of.title} is a formula, and the model times code: its order, tiles and "
                        "transfers. Give FILE.py:KERNEL; roof has a formula's entitlement")
    mine = counted(args, of, chip_of(args, before))
    assert mine is not None  # there is a call
    from .. import neuroncore
    with working(f"predicting {of.title}"):
        made = neuroncore.predict(mine.source, buffers=buffers)
        kept = made.profile
    on = scope(args, of, kept)
    ledger = gap.made(kept, on, mine.count)
    lines = [*wrapped([of.title, f"modelled on {on.machine.name}; nothing was run"]),
             *times(made, ledger, mine.by), "", *engines(kept, made.time), ""]
    table: Sequence[Sequence[Cell]] = gap.stretches(ledger)
    data: dict[str, Any] = {
        "subject": of.title, **about(kept, on), **gap.entries(ledger), "count_by": mine.by,
        "clock": made.clock, "benchmark": made.benchmark / 1e9, "serial": made.serial / 1e9,
        "busy": busy(kept), "buffers": buffers}
    notes = [*on.notes, *mine.differs, *ledger.notes]
    if mine.differs:
        notes.append("T is that of the source in any case; T_best and the gap are of your count")
    if before is None:
        lines += [*gap.rows(ledger), "", *gap.advice(ledger)]
    else:
        there = scope(argparse.Namespace(chip=args.chip, lnc=None), None, before)
        theirs, _, own = gap.seen(before, there)
        was = gap.made(before, there, theirs, ledger.roof)
        change, more = gap.against(ledger, was)
        lines += [*wrapped([f"{was.t / ledger.t:.3f}x as fast as {printable(before.name, 60)}, "
                            f"{before.origin}; Q {amount(was.count.hbm_bytes, 'B')} -> "
                            f"{amount(ledger.count.hbm_bytes, 'B')}"]), *repr(change).splitlines()]
        table = gap.changed(ledger, was)
        data |= {"against": {**about(before, there), **gap.entries(was)},
                 "speedup": was.t / ledger.t,
                 "change": {cause: change[cause] / 1e9 for cause in change.causes}}
        notes += [*there.notes, *own, *was.notes, *more]
    page, more = lanes(args, kept, ledger)
    notes = [*dict.fromkeys([*notes, *more, *known(made, buffers)])]
    if args.write:
        from .. import profile
        data["written"] = str(profile.write(kept, Path(args.write).expanduser()))
        notes.append(f"written to {printable(args.write, 200)}: `python -m roofline gap "
                     f"{printable(args.write, 200)}` reads it")
    lines += ["", *wrapped(notes, whole=True)]
    return Answer("\n".join(lines), {**data, "notes": notes}, table,
                  gap.ladder(args, ledger), page=page)


def buffers_of(given: Sequence[str]) -> Any:
    """What predict() takes: None, a number, or {name: number}. Raises CallError for a slip."""
    named: dict[str, int] = {}
    for text in given:
        name, colon, number = text.rpartition(":")
        if not (number.isascii() and number.isdigit() and 0 < int(number[:9]) == int(number[:18])
                ) or (colon and not name):
            raise CallError(f"--buffers={printable(text, 60)}: expected a whole number >= 1, such "
                            "as --buffers=2, or NAME:N, such as --buffers=sbuf:2. Without a limit: "
                            "leave it out")
        named |= {name: int(number)} if name else {"sbuf": int(number), "psum": int(number)}
    numbers = {*named.values()}
    return None if not named else numbers.pop() if (
        named.keys() == {"sbuf", "psum"} and len(numbers) == 1) else named


# --- as text --------------------------------------------------------------------------------------


def times(made: "Prediction", ledger: "Ledger", by: str) -> list[str]:
    """T, T_best and what else a time can be."""
    count, share = ledger.count, ledger.t_best / made.time
    cells = [
        ("T", made.time, f"modelled, {made.clock}"),
        ("T_best", ledger.t_best, f"{ledger.roof} roof, {share:.1%} of T"),
        ("", None, f"{by}: W {gap.work_of(count)}, Q {amount(count.hbm_bytes, 'B')}"),
        ("benchmark", made.benchmark, "modelled, the same kernel without a profiler"),
        ("serial", made.serial, "modelled, if nothing overlapped")]
    return aligned([(name, "" if ns is None else gap.time(ns), told) for name, ns, told in cells],
                   left=(0, 2), indent="  ")


def busy(kept: "Profile") -> dict[str, float]:
    """Engine -> s in which it works, as `profile` has it; the largest first."""
    from ..profile import formulas
    found = {name: formulas.number(kept, key) or 0.0 for name, (key, _) in ENGINES.items()}
    return dict(sorted(((name, s) for name, s in found.items() if s), key=lambda item: -item[1]))


def engines(kept: "Profile", total: float) -> list[str]:
    """Each engine's busy time, its active time in the modelled profile; total in ns."""
    cells = [("engine", "busy", "of T")]
    cells += [(ENGINES[name][1], amount(s, "s"), f"{1e9 * s / total:.1%}")
              for name, s in busy(kept).items()]
    return aligned(cells, left=(0,), indent="  ")


# Counter of its active time, and how it is shown.
ENGINES = {**{name: (f"{name}_engine_active_time", shown) for name, shown in (
    ("tensor", "Tensor"), ("vector", "Vector"), ("scalar", "Scalar"), ("gpsimd", "GpSimd"),
    ("sync", "Sync"))}, "DMA": ("dma_active_time", "DMA, any engine of it")}


def known(made: "Prediction", buffers: Any) -> list[str]:
    """What was assumed, what is left out, how far off the model was elsewhere."""
    from ..neuroncore.model import TYPICAL
    depth = f"--buffers={buffers} of each line's tiles, as far as there is room"
    if buffers is None:
        depth = "no limit, each tile has a place of its own; --buffers=2 sets one"
    elif isinstance(buffers, dict):
        depth = ", ".join(f"{n} of {name}" for name, n in buffers.items()) + ", no limit elsewhere"
    return [f"buffers, assumed: {depth}", LEFT_OUT,
            f"median error on published kernels, their source left out of the fit: {TYPICAL}. "
            "Every row: python -m roofline.neuroncore.report",
            *(f"warning: {text}" for text in made.run.warnings)]
