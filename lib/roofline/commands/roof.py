"""roofline roof: W and Q to the least time, the picture, and with a profile where it stands.

Question  how fast may this kernel run here, who says so, and where is it below that?
Answer    answer(args) -> Answer: count, entitlement and picture; with a profile its point right
          under the entitled one, at the same I, and the ledger between the two
Assumes   W and Q of the whole kernel, at the scope (core or LNC=2 pair) of the roofs
Ignores   what the code could reach under these roofs: predict
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .. import units
from ..count import Count
from ..machine import Entitlement, Machine, Spec
from ..table import aligned, printable, wrapped
from . import gap
from .answer import FINE, NO, Answer, Cell
from .calls import CALL, CallError, subject
from .calls import add as add_call
from .profile import (
    Counted,
    Scope,
    about,
    add_session,
    amount,
    counted,
    lanes,
    saving,
    scope,
    taken,
    unlike,
)

if TYPE_CHECKING:
    from ..gaps import Ledger
    from ..plot import Picture
    from ..profile import Profile

EXAMPLES = f"""\
calls
{CALL}

examples
  python -m roofline roof mlp.py:mlp x=1024x2048:bf16 w=1024x4096:bf16 --save=roof.svg
      count of the source, I, ridge, T_best, T_worst, and the picture
  python -m roofline roof @call.txt --profile=timeline.json --save=roof.html
      the same with the measured point and the ledger; the page has the timeline too
  python -m roofline roof --flops=2*2048*1024*4096 --bytes=29360128 --chip=trn2
      your count alone
  python -m roofline roof @call.txt --flops=2*2048*1024*4096 --bytes=x:4194304 --bytes=w:8388608
      your count, the source's beside it; ends with 1 where they differ
  python -m roofline roof @call.txt --bw='397 GB/s'
      with the bandwidth that you measured; the sheet's becomes a rival
  python -m roofline roof Matmul M=2048 K=2048 N=2048 dtype=bf16 --chip=trn1
      a formula in place of a kernel
  python -m roofline roof --bytes=2*2**26 --profile=work/recorded/trn2-copy-...
      a copy: no FLOPs, so no intensity, only times

A filled mark is at your I. Where the profiler counted other bytes, a hollow one is at its I, with
the entitlement there."""


def add(parser: argparse.ArgumentParser) -> None:
    add_call(parser, needed=False)
    parser.add_argument("--profile", metavar="FILE",
                        help="the profiler's output, or a recording: its point and its ledger")
    add_session(parser)
    parser.add_argument("--bw", metavar="FIGURE",
                        help="another bandwidth of HBM, of the scope: '397 GB/s'")


def answer(args: argparse.Namespace) -> Answer:
    of = subject(args)
    kept = taken(args.profile, args.session) if args.profile else None
    on = scope(args, of, kept)
    mine = counted(args, of, on.chip)
    if mine is None:
        raise CallError("what is the roof of? Give a kernel's call, an op, or --flops and --bytes")
    sheet = on.machine
    if args.bw:
        on = replace(on, machine=_using(sheet, args.bw))
    allowed = on.machine.entitle(mine.count)
    ran = _ran(kept, on, mine) if kept else None
    drawn = bool(mine.count.flops and mine.count.hbm_bytes)
    if not drawn and not (ran and ran.ledger) and saving(args, ".svg", ".png"):
        raise CallError(f"{_nowhere(mine.count)}; there is nothing to draw. Its times are in the "
                        "text, .json and .csv; with --profile of a timeline a ladder in time can "
                        "be drawn")

    others = [*_others(on.machine, mine.count)]
    notes = [*on.notes, *mine.differs]
    lines = [*_count(mine), "", *_entitled(allowed), "", *_figures(on.machine, mine.count),
             *wrapped(["  " + _verdict(allowed, others)])]
    if not drawn:
        notes.append(f"{_nowhere(mine.count)}: times only. What other engines than the Tensor "
                     "Engine need for it is in no FLOPs: predict has it")
    if len(mine.count.work) > 1 and drawn:
        notes.append("the flat roof of the picture is that of the mix, W over the sum of W_d / "
                     f"P_d: {amount(allowed.peak, 'FLOP/s')}")
    if ran:
        lines += ["", *_stands(ran, allowed, on)]
        notes += ran.notes
        if ran.ledger:
            lines += ["", f"T - T_best, {ran.ledger.roof} roof", *gap.rows(ran.ledger), "",
                      *gap.advice(ran.ledger)]
    figure = None
    if saving(args, ".svg", ".png", ".html"):
        figure = _picture(mine, allowed, ran) if drawn else (
            gap.ladder(ran.ledger) if ran and ran.ledger else None)
    page: tuple[Any, ...] = ()
    if kept and ran and ran.ledger:
        page, more = lanes(args, kept, ran.ledger)
        notes += more
    flags = [*ran.flags] if ran else []
    lines += ["", *wrapped([*(f"flag: {flag}" for flag in flags), *notes])] * bool(flags or notes)
    data = _data(mine, allowed, others, on, ran)
    data |= {"notes": notes}
    bad = on.wrong or mine.differs or (ran and ran.bad)
    return Answer("\n".join(lines), data, _table(mine, allowed, on.machine, ran), figure,
                  code=NO if bad else FINE, page=page)


def _using(sheet: Machine, figure: str) -> Machine:
    """The machine with this bandwidth. Raises CallError for what is no bandwidth."""
    if units.is_bare(figure):
        raise CallError(f"--bw={printable(figure, 40)}: in which unit? Write it with one, such as "
                        "--bw='397 GB/s'")
    try:
        value = units.parse(figure, "B/s")
    except units.UnitError as error:
        raise CallError(f"--bw={printable(figure, 40)}: {error}") from None
    if value <= 0:
        raise CallError(f"--bw={printable(figure, 40)}: expected a bandwidth above 0")
    return sheet.using(**{sheet.slow_link: figure})


def _nowhere(count: Count) -> str:
    """Why a count has no place on a roofline."""
    return ("a kernel without FLOPs has no intensity, so no place on a roofline"
            if not count.flops else
            "a kernel that moves no byte over HBM has no finite intensity, so no place on a "
            "roofline")


# --- what was counted and what is allowed ---------------------------------------------------------


def _count(mine: Counted) -> list[str]:
    count = mine.count
    several = len(count.work) > 1
    cells = [(f"W {dtype}" if several else "W", f"{w:,}", amount(w, "FLOP"),
              f"{dtype}, by {mine.work_by}") for dtype, w in count.work.items()] or [
                  ("W", "0", "0 FLOP", f"by {mine.work_by}")]
    cells += [("Q", f"{count.hbm_bytes:,}", amount(count.hbm_bytes, "B"),
               f"over HBM, by {mine.bytes_by}")]
    return [*wrapped([mine.title]), *aligned(cells, left=(0, 3), indent="  ")]


def _entitled(of: Entitlement) -> list[str]:
    """I to the rate, as rows."""
    link = of.machine.slow_link
    cells = [] if not of.count.flops else [
        ("I", amount(of.intensity, "FLOP/B"), "W / Q, FLOPs for each byte"),
        ("ridge", amount(of.ridge, "FLOP/B"), "P / BW" + (
            " of this mix of dtypes" if len(of.count.work) > 1 else ""))]
    for roof, t in of.times.items():
        what = "W / P, compute" if roof == "compute" else f"Q / BW, {link}"
        if roof != "compute" or of.count.flops:
            cells.append((f"T {roof}", amount(t, "s"), what + ", binds" * (roof == of.binds)))
    if dma := _dma(of.machine):
        cells.append(("T DMA", amount(of.count.hbm_bytes / dma.value, "s"),
                      f"Q / {dma.text} of the DMA engines, a roof of their own; not in T_best"))
    cells += [("T_best", amount(of.t_best, "s"), "if all of it overlaps"),
              ("T_worst", amount(of.t_worst, "s"), "if nothing does")]
    if of.count.flops:
        cells.append(("rate", amount(of.rate, "FLOP/s"), "W / T_best, what it is entitled to"))
    return [f"entitlement on {of.machine.name}", *aligned(cells, left=(0, 2), indent="  ")]


def _roofs(machine: Machine, count: Count) -> Iterator[tuple[str, str, Spec]]:
    """(name, roof, figure) of what the entitlement divides by."""
    for dtype in count.work:
        yield f"P {dtype}", dtype, machine.peaks[dtype]
    yield f"BW {machine.slow_link}", machine.slow_link, machine.bandwidths[machine.slow_link]


def _figures(machine: Machine, count: Count) -> list[str]:
    lines = []
    for name, _, spec in _roofs(machine, count):
        said = "; ".join(filter(None, (spec.holds, spec.source)))
        lines += wrapped([f"  {name}  {spec.text}, {spec.kind}: {said}"], hang=4)
    return lines


@dataclass(frozen=True)
class _Other:
    """What follows from another figure for one roof."""

    name: str
    spec: Spec
    allowed: Entitlement


def _others(machine: Machine, count: Count) -> Iterator[_Other]:
    """The rivals of each figure, and the DMA engines where they carry less than HBM."""
    for name, roof, spec in _roofs(machine, count):
        for rival in spec.rivals:
            yield _Other(name, rival, machine.using(**{roof: rival}).entitle(count))
    if dma := _dma(machine):
        yield _Other("BW DMA", dma, machine.using(**{machine.slow_link: dma}).entitle(count))


def _dma(machine: Machine) -> Spec | None:
    """What the DMA engines carry, where that is less than the slow link."""
    dma = machine.bandwidths.get("DMA")
    return dma if dma and dma.value < machine.bw() else None


def _verdict(of: Entitlement, others: Sequence[_Other]) -> str:
    """Which side of the ridge, and under which other figures it would be the other one."""
    if not of.count.flops:
        times = ", ".join(f"{amount(one.allowed.t_best, 's')} at {one.name} {one.spec.text}"
                          for one in others)
        return f"memory binds; T_best is {times}, by other figures" if times else "memory binds"
    side = {True: "right of the ridge: compute binds", False: "left of the ridge: memory binds"}
    said = "at the ridge: both bind" if math.isclose(of.intensity, of.ridge) else side[
        of.binds == "compute"]
    turned = [one for one in others if one.allowed.binds != of.binds]
    if turned:
        return said + "; not so with " + ", nor with ".join(
            f"{one.name} {one.spec.text} ({one.spec.kind}, {one.spec.source}): ridge "
            f"{amount(one.allowed.ridge, 'FLOP/B')}, T_best {amount(one.allowed.t_best, 's')}"
            for one in turned)
    same = ", ".join(dict.fromkeys(f"{one.name} {one.spec.text}" for one in others))
    return said + f"; so it is with the other figures too: {same}" * bool(same)


# --- where a profile stands -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Ran:
    """A profile under the roofs.

    t        s, its total time
    moved    B by the profiler; None where it does not say
    ledger   None where there is no timeline
    flags    what makes its time doubtful
    bad      whether they, or its counts, say that it is not to be believed as it is
    """

    kept: "Profile"
    t: float
    moved: int | None
    ledger: "Ledger | None"
    flags: tuple[str, ...]
    notes: tuple[str, ...]
    bad: bool


def _ran(kept: "Profile", on: Scope, mine: Counted) -> _Ran:
    from ..device.plausibility import excluded, plausible
    from ..profile import formulas
    notes, flags = [], list(kept.flags)
    ledger = gap.made(kept, on, mine.count) if kept.timeline is not None else None
    if ledger is None:
        notes.append("no ledger: the file holds the summary alone, and only a timeline says where "
                     "the time went. View the same capture with --output-format json or parquet")
    total = formulas.number(kept, "total_time")
    t = total if total is not None else ledger.t / 1e9 if ledger else None
    if not t:
        raise CallError(f"{printable(kept.name, 60)}: no total_time in it, so no time to set "
                        "against T_best. View the profile again, or capture it again")
    if kept.kind == "measured" and total is not None:
        found = [str(flag) for flag in plausible(kept, mine.count, on.chip)]
        flags += [one for one in found if one.partition(":")[0] not in {
            flag.partition(":")[0] for flag in flags}]
    _, odd, other_work = unlike(mine, kept)
    notes += [*odd, *(ledger.notes if ledger else ())]
    if kept.kind == "modelled" and t < on.machine.entitle(mine.count).t_best:
        from ..neuroncore.model import roof
        cores = 2 if on.machine.scope == "lnc2" else 1
        most = roof(_core(on), cores).bandwidths["HBM"].text
        notes.append(f"the model lets the DMA engines carry {most}, so a modelled time may be "
                     f"below this T_best; --bw='{most}' is its own roof")
    bad = other_work or excluded(flags) or any(flag.startswith("above spec") for flag in flags)
    moved = formulas.hbm_bytes(kept)
    if moved is None:
        notes.append("the profiler's HBM bytes are not in the file, so there is no point at its I")
    return _Ran(kept, t, None if moved is None else int(moved), ledger, tuple(flags), tuple(notes),
                bad)


def _core(on: Scope) -> Machine:
    from .. import machine
    return machine.get(on.chip, "core")


def _elsewhere(ran: _Ran, allowed: Entitlement) -> Entitlement | None:
    """The entitlement at the profiler's bytes, where they are others."""
    count = allowed.count
    if not ran.moved or ran.moved == count.hbm_bytes:
        return None
    return allowed.machine.entitle(Count(count.work, ran.moved))


def _stands(ran: _Ran, of: Entitlement, on: Scope) -> list[str]:
    """The point: time, rate, share, MFU; the same at the profiler's bytes."""
    kind, W, t = ran.kept.kind, of.count.flops, ran.t
    cells = [("T", amount(t, "s"), f"{kind}, total time of the profile"),
             ("T_best / T", _percent(of.t_best / t), "of what it is entitled to")]
    if W:
        cells.insert(1, ("W / T", amount(W / t, "FLOP/s"),
                         f"at I = {amount(of.intensity, 'FLOP/B')}, right below the entitled "
                         f"{amount(of.rate, 'FLOP/s')}"))
    if W and of.binds == "compute":
        cells.append(("MFU", _percent(W / t / of.peak), "W / T / P"))
    else:
        cells.append(("Q / T", amount(of.count.hbm_bytes / t, "B/s"),
                      f"{_percent(of.count.hbm_bytes / t / of.machine.bw())} of BW"))
    if other := _elsewhere(ran, of):
        cells.append(("B", amount(ran.moved, "B"), "by the profiler: hollow mark"
                      f" at I = {amount(other.intensity, 'FLOP/B')}: entitled to "
                      f"{amount(other.rate, 'FLOP/s')}, T_best {amount(other.t_best, 's')}" if W
                      else f"by the profiler: T_best {amount(other.t_best, 's')}"))
    said = ran.kept.provenance.get("label")
    return [*wrapped([f"{printable(ran.kept.name, 60)}: {kind}" + (f" on {said}" if said else "")]),
            *wrapped(aligned(cells, left=(0, 2), indent="  "), hang=4)]


def _percent(share: float) -> str:
    return f"{units.significant(100 * share)} %"


# --- as picture, data and table -------------------------------------------------------------------


def _picture(mine: Counted, of: Entitlement, ran: _Ran | None) -> "Picture":
    """The roofline with the entitled point, and the one that ran right below it."""
    from .. import plot
    name = mine.source.kernel if hasattr(mine.source, "kernel") else mine.title
    other = ran and _elsewhere(ran, of)
    point = plot.Point(printable(name, 60), of.intensity, of.count.flops / ran.t if ran else None,
                       ran.kept.kind if ran else "derived",
                       other.intensity if other else None)
    return plot.roofline(of.machine, [point], dtype=of.count)


def _spec(spec: Spec) -> dict[str, Any]:
    return {"value": spec.value, "unit": spec.unit, "kind": spec.kind, "source": spec.source,
            "holds": spec.holds}


def _data(mine: Counted, of: Entitlement, others: Sequence[_Other], on: Scope,
          ran: _Ran | None) -> dict[str, Any]:
    count = mine.count
    data: dict[str, Any] = {
        "subject": mine.title, "work_by": mine.work_by, "bytes_by": mine.bytes_by,
        "kind": "derived", "chip": on.chip, "machine": of.machine.name,
        "scope": of.machine.scope, "work": dict(count.work), "flops": count.flops,
        "hbm_bytes": count.hbm_bytes, "intensity": of.intensity, "ridge": of.ridge,
        "times": dict(of.times), "binds": of.binds, "t_best": of.t_best, "t_worst": of.t_worst,
        "rate": of.rate,
        "roofs": {name: _spec(spec) for name, _, spec in _roofs(of.machine, count)},
        "others": [{"roof": one.name, **_spec(one.spec), "ridge": one.allowed.ridge,
                    "binds": one.allowed.binds, "t_best": one.allowed.t_best} for one in others]}
    if ran:
        other = _elsewhere(ran, of)
        data["ran"] = {
            **about(ran.kept, on), "flags": list(ran.flags), "t": ran.t,
            "rate": count.flops / ran.t, "of_entitled": of.t_best / ran.t,
            "mfu": count.flops / ran.t / of.peak if count.flops and of.binds == "compute"
            else None, "hbm_bytes": ran.moved,
            "at_its_bytes": {"intensity": other.intensity, "rate": other.rate,
                             "t_best": other.t_best, "binds": other.binds} if other else None}
        data["ledger"] = gap.entries(ran.ledger) if ran.ledger else None
    return data


def _table(mine: Counted, of: Entitlement, machine: Machine, ran: _Ran | None
           ) -> list[Sequence[Cell]]:
    """What, value, unit, kind, where from: a line a figure; of the ledger a line a cause."""
    count = mine.count
    table: list[Sequence[Cell]] = [("what", "value", "unit", "kind", "source")]
    table += [(f"W {dtype}", w, "FLOP", "derived", mine.work_by) for dtype, w in count.work.items()]
    table.append(("Q", count.hbm_bytes, "B", "derived", mine.bytes_by))
    table += [(name, spec.value, spec.unit, spec.kind, spec.source)
              for name, _, spec in _roofs(machine, count)]
    if count.flops:
        table += [("I", of.intensity, "FLOP/B", "derived", "W / Q"),
                  ("ridge", of.ridge, "FLOP/B", "derived", "P / BW")]
    table += [(f"T {roof}", t, "s", "derived", "") for roof, t in of.times.items()]
    table += [("T_best", of.t_best, "s", "derived", f"{of.binds} binds"),
              ("T_worst", of.t_worst, "s", "derived", "")]
    if count.flops:
        table.append(("rate", of.rate, "FLOP/s", "derived", "W / T_best"))
    if ran:
        kind, name = ran.kept.kind, ran.kept.name
        table += [("T", ran.t, "s", kind, name),
                  ("W / T", count.flops / ran.t, "FLOP/s", kind, name),
                  ("T_best / T", of.t_best / ran.t, "", kind, name)]
        if count.flops and of.binds == "compute":
            table.append(("MFU", count.flops / ran.t / of.peak, "", kind, name))
        if ran.moved is not None:
            table.append(("Q, profiler", ran.moved, "B", kind, name))
        if ran.ledger:
            table += [(f"gap: {row.cause}", row.time / 1e9, "s", kind, name)
                      for row in ran.ledger.rows]
    return table
