"""roofline roof: W and Q to the least time, the picture, and with a profile where it stands.

Question  how fast may this kernel run here, who says so, and where is it below that?
Answer    answer(args) -> Answer: count, entitlement and picture; with a profile its point right
          under the entitled one, at the same I, and the ledger between the two
Assumes   W and Q of the whole kernel, at the scope (core or LNC=2 pair) of the roofs; W is matmuls
Ignores   what the code could reach under these roofs: predict
"""

import argparse
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import machine as machines
from .. import units
from ..count import Count
from ..machine import Entitlement, Machine, Spec
from ..ops import BYTES
from ..table import aligned, printable, wrapped
from ..units import amount
from . import gap
from .answer import FINE, NO, Answer, cited
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

A filled mark is at your I, W / Q. A hollow one is at your W over the bytes that moved, with the
entitlement there; it is drawn where the profiler counted other HBM bytes than your Q.

It ends with 1 where your count is not the source's, and where the profile is too fast to be true,
of other work, or of another number of cores than the call or --lnc says."""
DRAWS = True


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
    if args.bw:
        on = replace(on, machine=_using(on.machine, args.bw))
    allowed = _entitle(on.machine, mine)
    ran = _ran(kept, on, mine, allowed) if kept else None
    ledger = ran.ledger if ran else None
    drawn = bool(mine.count.flops and mine.count.hbm_bytes)
    if not drawn and not ledger and saving(args, ".svg", ".png"):
        raise CallError(f"{_nowhere(mine.count)}; there is nothing to draw. Its times are in the "
                        "text, .json, .csv and .html; with --profile of a timeline a ladder in "
                        "time can be drawn")

    others = [*_others(on.machine, mine)]
    engines = [*_engines(on.machine, mine)]
    counts, roofs = _counts(mine), [*_roofs(on.machine, mine)]
    roofs += [(f"{one.name} Engine", "", one.spec) for one in engines]
    entitled, reached = [*_entitled(allowed, engines)], [*_reached(ran, allowed)] if ran else []
    notes = [*on.notes, *mine.differs]
    lines = [*wrapped([mine.title]), *aligned(
        [(row.what, f"{row.value:,}", amount(row.value, row.unit), row.told) for row in counts],
        left=(0, 3), indent="  "), "", f"entitlement on {on.machine.name}", *_shown(entitled), "",
        *_whose(roofs), *wrapped(["  " + _verdict(allowed, others, engines)])]
    if not drawn:
        notes.append(f"{_nowhere(mine.count)}: times only")
    if mine.other:
        notes.append(f"{_flops(mine.other)} of the formula are no matmuls: the Vector, Scalar or "
                     "GpSimd Engine does them, and the Tensor Engine's P is no roof of theirs")
    if engines:
        notes.append("the Vector and Scalar Engines' roofs are in elements, and upper bounds: "
                     "elements of a pass, times the passes, over the rate. How many passes a "
                     "kernel takes is in no formula"
                     + (f"; predict has each engine's time for {mine.title}" if
                        hasattr(mine.source, "kernel") else "; predict has it for a kernel"))
    if mine.link:
        notes.append("a collective is of whole chips, so the roofs are those of the device, and "
                     f"its link is all {on.machine.facts['link_count'].text} links together: a "
                     "ring over one of them takes longer, by that factor")
    if len(mine.count.work) > 1 and drawn:
        notes.append("the flat roof of the picture is that of the mix, W over the sum of W_d / "
                     f"P_d: {amount(allowed.peak, 'FLOP/s')}")
    page: tuple[Any, ...] = ()
    if ran:
        lines += ["", *_title(ran.kept), *_shown(reached)]
        notes += ran.notes
    if ran and ledger:
        lines += ["", f"T - T_best, {ledger.roof} roof", *gap.rows(ledger), "",
                  *gap.advice(ledger)]
        page, more = lanes(args, ran.kept, ledger)
        notes += more
    figure = _picture(mine, allowed, ran) if drawn and saving(args, ".svg", ".png", ".html") else (
        gap.ladder(args, ledger) if ledger else None)
    told = [*(f"flag: {flag}" for flag in (ran.flags if ran else ())), *notes]
    lines += ["", *wrapped(told, whole=True)] if told else []
    rows = [*counts, *(Row(name, spec.value, spec.unit, spec.kind, spec.source)
                       for name, _, spec in roofs), *entitled, *reached]
    if ran and ledger:
        rows += [Row(f"gap: {row.cause}", row.time / 1e9, "s", ran.kept.kind, row.what)
                 for row in ledger.rows]
    return Answer("\n".join(lines), {**_data(mine, allowed, others, on, ran), "notes": notes},
                  [("what", "value", "unit", "kind", "source"), *rows], figure,
                  code=NO if on.wrong or mine.differs or (ran and ran.bad) else FINE, page=page)


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


class Row(NamedTuple):
    """A figure as text and in the table, where it is told in words what or whose it is."""

    what: str
    value: float
    unit: str
    kind: str
    told: str


def _shown(rows: Iterable[Row]) -> list[str]:
    """As text: name, value, what is told; a figure without a unit as a percentage."""
    return wrapped(aligned([(row.what, amount(row.value, row.unit) if row.unit else
                             f"{units.significant(100 * row.value)} %", row.told) for row in rows],
                           left=(0, 2), indent="  "), hang=4)


def _counts(mine: Counted) -> list[Row]:
    work = mine.count.work
    return [*(Row(f"W {dtype}".rstrip(), w, "FLOP", "derived", f"by {mine.work_by}"
                  + ", no matmuls" * (not work))
              for dtype, w in (work or {"": 0}).items()),
            *(Row(f"no W {dtype}", w, "FLOP", "derived", "by the formula, on other engines")
              for dtype, w in mine.other.items()),
            Row("Q", mine.count.hbm_bytes, "B", "derived", f"over HBM, by {mine.bytes_by}"),
            *[Row("link", mine.link, "B", "derived", f"sent to other chips, by {mine.bytes_by}")
              ] * bool(mine.link)]


def _flops(work: Mapping[str, int]) -> str:
    return " + ".join(f"{amount(w, 'FLOP')} {dtype}" for dtype, w in work.items())


def _entitle(machine: Machine, mine: Counted) -> Entitlement:
    """What the machine allows; a collective's link is a roof of its own."""
    return machine.entitle(mine.count, {"link": mine.link} if mine.link else None)


class _Engine(NamedTuple):
    """A roof in elements per second: how many one pass is, 0 where that is not known."""

    name: str
    spec: Spec
    elements: int

    @property
    def each(self) -> float:
        """s of a pass."""
        return self.elements / self.spec.value


def _engines(machine: Machine, mine: Counted) -> Iterator[_Engine]:
    """The Vector and Scalar Engine's roofs, where the Tensor Engine does nothing."""
    if mine.count.flops or mine.link:
        return
    wide = any(BYTES[t.dtype] > 2 for t in mine.source.tensors) if mine.elements else False
    for name in ("vector", "scalar"):
        key = f"{name}_element_rate"
        found = machine.facts.get(key) or machine.facts.get(f"{key}.{'fp32' if wide else 'bf16'}")
        if found:
            yield _Engine(name.title(), found, mine.elements)


def _entitled(of: Entitlement, engines: Iterable["_Engine"]) -> Iterator[Row]:
    """I to the rate."""
    def row(what: str, value: float, unit: str, told: str) -> Row:
        return Row(what, value, unit, "derived", told)

    count, link = of.count, of.machine.slow_link
    if count.flops:
        yield row("I", of.intensity, "FLOP/B", "W / Q, FLOPs for each byte")
        yield row("ridge", of.ridge, "FLOP/B",
                  "P / BW" + " of this mix of dtypes" * (len(count.work) > 1))
        yield row("T compute", of.times["compute"], "s",
                  "W / P, compute" + ", binds" * (of.binds == "compute"))
    yield row(f"T {link}", of.times[link], "s", f"Q / BW, {link}" + ", binds" * (of.binds == link))
    if "link" in of.times:
        yield row("T link", of.times["link"], "s", "bytes sent / BW of the link to other chips"
                  + ", binds" * (of.binds == "link"))
    for one in engines:
        if one.elements:
            yield row(f"pass {one.name}", one.each, "s", f"{one.elements:,} elements once, at "
                      "least; not in T_best")
    if dma := _dma(of.machine):
        yield row("T DMA", count.hbm_bytes / dma.value, "s",
                  f"Q / {dma.text} of the DMA engines, a roof of their own; not in T_best")
    yield row("T_best", of.t_best, "s", "if all of it overlaps")
    yield row("T_worst", of.t_worst, "s", "if nothing does")
    if count.flops:
        yield row("rate", of.rate, "FLOP/s", "W / T_best, what it is entitled to")


def _roofs(machine: Machine, mine: Counted) -> Iterator[tuple[str, str, Spec]]:
    """(name, roof, figure) of what the entitlement divides by."""
    for dtype in mine.count.work:
        yield f"P {dtype}", dtype, machine.peaks[dtype]
    for level in (machine.slow_link, *["link"] * bool(mine.link)):
        yield f"BW {level}", level, machine.bandwidths[level]


def _whose(roofs: Iterable[tuple[str, str, Spec]]) -> list[str]:
    """Each figure with its kind, its condition and its source."""
    return wrapped([f"  {name}  {spec.text}, {spec.kind}: "
                    + "; ".join(filter(None, (spec.holds, spec.source)))
                    for name, _, spec in roofs], hang=4)


@dataclass(frozen=True)
class _Other:
    """What follows from another figure for one roof."""

    name: str
    spec: Spec
    allowed: Entitlement


def _others(machine: Machine, mine: Counted) -> Iterator[_Other]:
    """The rivals of each figure, and the DMA engines where they carry less than HBM."""
    for name, roof, spec in _roofs(machine, mine):
        for rival in spec.rivals:
            yield _Other(name, rival, _entitle(machine.using(**{roof: rival}), mine))
    if dma := _dma(machine):
        yield _Other("BW DMA", dma, _entitle(machine.using(**{machine.slow_link: dma}), mine))


def _dma(machine: Machine) -> Spec | None:
    """What the DMA engines carry, where that is less than the slow link."""
    dma = machine.bandwidths.get("DMA")
    return dma if dma and dma.value < machine.bw() else None


def _verdict(of: Entitlement, others: Sequence[_Other], engines: Sequence[_Engine]) -> str:
    """Which side of the ridge, and under which other figures it would be the other one."""
    if not of.count.flops:
        times = ", ".join(f"{amount(one.allowed.t_best, 's')} at {one.name} {one.spec.text}"
                          for one in others if one.allowed.t_best != of.t_best)
        said = "the link to other chips binds" if of.binds == "link" else (
            "no compute roof: the Tensor Engine has no work; of the roofs in T_best memory binds")
        if each := [one for one in engines if one.elements]:
            said += " as long as it takes no more than " + " or ".join(
                f"{units.significant(of.t_best / one.each, 3)} passes on the {one.name} Engine"
                for one in each) + "; with more, that engine is the roof"
        elif engines:
            said += "; another engine may be the roof"
        return f"{said}; T_best is {times}, by other figures" if times else said
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
    other    what those are entitled to, where they are not Q
    ledger   None where there is no timeline
    flags    what makes its time doubtful
    bad      whether they, or its counts, say that it is not to be believed as it is
    """

    kept: "Profile"
    t: float
    moved: int | None
    other: Entitlement | None
    ledger: "Ledger | None"
    flags: tuple[str, ...]
    notes: tuple[str, ...]
    bad: bool


def _ran(kept: "Profile", on: Scope, mine: Counted, allowed: Entitlement) -> _Ran:
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
    odd, other_work = unlike(mine, kept)
    notes += [*odd, *printed(mine, kept), *(ledger.notes if ledger else ())]
    if kept.kind == "modelled" and t < allowed.t_best:
        from ..neuroncore.model import roof
        cores = 2 if on.machine.scope == "lnc2" else 1
        spec = roof(machines.get(on.chip, "core"), cores).bandwidths["HBM"]
        notes.append(f"the model's DMA engines carry {spec.text} ({spec.holds}), so a modelled "
                     f"time may be below this T_best; --bw='{spec.text}' is the model's own roof")
    bad = other_work or excluded(flags) or any(flag.startswith("above spec") for flag in flags)
    moved, other = formulas.hbm_bytes(kept), None
    if moved is None:
        notes.append("the profiler's HBM bytes are not in the file, so whether other bytes than Q "
                     "moved is not known")
    elif moved and moved != mine.count.hbm_bytes:
        other = on.machine.entitle(Count(mine.count.work, int(moved)))
    return _Ran(kept, t, None if moved is None else int(moved), other, ledger, tuple(flags),
                tuple(notes), bad)


def _title(of: "Profile") -> list[str]:
    said = of.provenance.get("label")
    return wrapped([f"{printable(of.name, 60)}: {of.origin}" + f" on {said}" * bool(said)])


def _reached(ran: _Ran, of: Entitlement) -> Iterator[Row]:
    """The point: time, rate, share, MFU; the bytes by the profiler."""
    def row(what: str, value: float, unit: str, told: str) -> Row:
        return Row(what, value, unit, ran.kept.kind, told)

    W, Q, t, other = of.count.flops, of.count.hbm_bytes, ran.t, ran.other
    yield row("T", t, "s", f"{ran.kept.kind}, total time of the profile")
    if W:
        yield row("W / T", W / t, "FLOP/s", f"at I = {amount(of.intensity, 'FLOP/B')}, right below "
                  f"the entitled {amount(of.rate, 'FLOP/s')}")
    yield row("T_best / T", of.t_best / t, "", "of what it is entitled to")
    if mfu := _mfu(ran, of):
        yield row("MFU", mfu, "", "W / T / P")
    else:
        share = units.significant(100 * Q / t / of.machine.bw())
        yield row("Q / T", Q / t, "B/s", f"{share} % of BW")
    if ran.moved is not None:
        at = f"hollow mark at W / this = {amount(other.intensity, 'FLOP/B')}: entitled to " \
             f"{amount(other.rate, 'FLOP/s')}, " if other and W else ""
        told = f"{at}T_best {amount(other.t_best, 's')}" if other else (
            "as counted" if ran.moved == Q else "so it has no mark of its own")
        yield row("Q moved", ran.moved, "B", f"by the profiler; {told}")


def _mfu(ran: _Ran, of: Entitlement) -> float | None:
    """W / T / P; None where memory binds, since then it tells of the roof."""
    return of.count.flops / ran.t / of.peak if of.count.flops and of.binds == "compute" else None


# --- as picture and data --------------------------------------------------------------------------


def _picture(mine: Counted, of: Entitlement, ran: _Ran | None) -> "Picture":
    """The roofline with the entitled point, and the one that ran right below it."""
    from .. import plot
    name = mine.source.kernel if hasattr(mine.source, "kernel") else mine.title
    other = ran.other if ran else None
    point = plot.Point(printable(name, 60), of.intensity, of.count.flops / ran.t if ran else None,
                       ran.kept.kind if ran else "derived",
                       other.intensity if other else None)
    return plot.roofline(of.machine, [point], dtype=of.count)


def _data(mine: Counted, of: Entitlement, others: Sequence[_Other], on: Scope,
          ran: _Ran | None) -> dict[str, Any]:
    count, dma = mine.count, _dma(of.machine)
    data: dict[str, Any] = {
        "subject": mine.title, "work_by": mine.work_by, "bytes_by": mine.bytes_by,
        "kind": "derived", "chip": on.chip, "machine": of.machine.name,
        "scope": of.machine.scope, "work": dict(count.work), "flops": count.flops,
        "other_work": dict(mine.other), "link_bytes": mine.link,
        "hbm_bytes": count.hbm_bytes, "intensity": of.intensity, "ridge": of.ridge,
        "times": dict(of.times), "dma": count.hbm_bytes / dma.value if dma else None,
        "binds": of.binds, "t_best": of.t_best, "t_worst": of.t_worst, "rate": of.rate,
        "roofs": {name: cited(spec) for name, _, spec in _roofs(of.machine, mine)},
        "engines": [{"engine": one.name, **cited(one.spec), "elements": one.elements or None,
                     "pass": one.each or None} for one in _engines(of.machine, mine)],
        "others": [{"roof": one.name, **cited(one.spec), "ridge": one.allowed.ridge,
                    "binds": one.allowed.binds, "t_best": one.allowed.t_best} for one in others]}
    if ran:
        other = ran.other
        data["ran"] = {
            **about(ran.kept, on), "flags": list(ran.flags), "t": ran.t,
            "rate": count.flops / ran.t, "of_entitled": of.t_best / ran.t,
            "mfu": _mfu(ran, of), "hbm_bytes": ran.moved,
            "at_its_bytes": {"intensity": other.intensity, "rate": other.rate,
                             "t_best": other.t_best, "binds": other.binds} if other else None}
        data["ledger"] = gap.entries(ran.ledger) if ran.ledger else None
    return data
