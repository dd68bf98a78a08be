"""roofline count: W and Q of a kernel by its source, beside your own.

Question  what does this call do and move, tensor by tensor, and does my count agree?
Answer    answer(args) -> Answer: NO where your W or Q is another than the source's
Assumes   the kernel's file runs on the counting backend, on shapes alone
Ignores   time: roof and predict
"""

import argparse
import inspect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import units
from ..count import Count
from ..ops import BYTES
from ..table import aligned, wrapped
from .answer import FINE, NO, Answer, Cell
from .calls import (
    CALL,
    CallError,
    Hand,
    chip_of,
    def_line,
    kernels_in,
    near,
    parameters_of,
    subject,
)
from .calls import add as add_call
from .matched import counted

if TYPE_CHECKING:
    from ..nki.run import Run
    from ..nki.trace import Table

EXAMPLES = f"""\
calls
{CALL}

examples
  python -m roofline count mlp.py
      the kernels of a file, and what each is called with
  python -m roofline count mlp.py:mlp x=1024x2048:bf16 w=1024x4096:bf16
      W, Q, I, each tensor's traffic, the sizes of the matmuls, what is alive on chip
  python -m roofline count @call.txt --lines --save=lines.csv
      which source line moved it; the CSV has the lines, too
  python -m roofline count @call.txt --flops=2*2048*1024*4096
      your W against the source's; ends with 1 where they differ
  python -m roofline count @call.txt --bytes=x:2*1024*2048 --bytes=w:2*1024*4096
      your table of transfers, tensor by tensor
  python -m roofline count Matmul M=2048 K=2048 N=2048 dtype=bf16 --save=count.json
      a formula in place of a kernel"""
COLUMNS = ("tensor", "bytes", "read", "written", "crosses", "times")


class Traffic(NamedTuple):
    """One tensor: its size, and what crosses; B."""

    name: str
    nbytes: int
    read: int
    written: int

    @property
    def crosses(self) -> int:
        return self.read + self.written

    @property
    def times(self) -> float:
        """How often it crosses, reads and writes together."""
        return self.crosses / self.nbytes


@dataclass(frozen=True)
class Source:
    """What was counted, and what else is known of it.

    by       what counted
    tensors  in the order they came to be
    notes    lines under the tables
    data     more of it, by name
    lines    a row a source line; () without a source
    other    dtype -> FLOP of the count that are no matmuls, so not the Tensor Engine's
    """

    by: str
    count: Count
    tensors: Sequence[Traffic]
    notes: Sequence[str] = ()
    data: dict[str, Any] = field(default_factory=dict)
    lines: "Table | tuple[()]" = ()
    other: Mapping[str, int] = field(default_factory=dict)


class Entry(NamedTuple):
    """A figure, and yours; None where you gave none.

    matmuls   of W, those of matmuls: yours may be of these alone
    """

    name: str
    unit: str
    counted: int
    yours: int | None
    matmuls: int | None = None

    @property
    def differs(self) -> bool:
        return self.yours is not None and self.yours not in (self.counted, self.matmuls)


def add(parser: argparse.ArgumentParser) -> None:
    add_call(parser)
    parser.add_argument("--lines", action="store_true",
                        help="also by source line: how often each was issued, and what it moved")


def answer(args: argparse.Namespace) -> Answer:
    if len(args.call) == 1 and args.call[0].endswith(".py"):
        return listed(args.call[0])
    of = subject(args)
    mine = counted(args, of, chip_of(args))
    assert of is not None and mine is not None  # the parser asks for a call
    if args.lines and not of.call:
        raise CallError(f"--lines: {of.title} is a formula and has no source lines. Leave it out, "
                        "or give FILE.py:KERNEL")
    found = of_source(mine.source) if of.call else of_formula(mine.source, mine.other)
    return told(of.title, found, mine.hand, args.lines)


def listed(path: str) -> Answer:
    """The kernels of a file, each with its def line and how its docstring begins."""
    found = kernels_in(path)
    text, rows, name = [f"{path}: {len(found)} kernel{'s' * (len(found) > 1)}"], [], ""
    for name, kernel in found.items():
        signature = def_line(parameters_of(kernel))
        about = " ".join((inspect.getdoc(kernel) or "").partition("\n\n")[0].split())
        rows.append((name, signature, about))
        text += [f"  {name}{signature}", *[f"      {about}"] * bool(about)]
    needed = [one.name for one in parameters_of(found[name]).values() if one.default is one.empty]
    text += ["A call gives each array its shape and dtype, on the command line or in a file that "
             "@FILE names:"]
    copied = f"  {path}:{name} {' '.join(f'{n}=SHAPE:DTYPE' for n in needed)}"
    return Answer("\n".join([*wrapped(text, whole=True), copied]), {"file": path, "kernels": [
        {"name": name, "called with": called, "about": about} for name, called, about in rows]},
        [("kernel", "called with", "about"), *rows])


# --- what is counted -----------------------------------------------------------------------------


def of_formula(op: Any, other: Mapping[str, int]) -> Source:
    """An op's, every operand as often as the op says.

    other   dtype -> FLOP of it that are no matmuls
    """
    formulas = [f"{symbol} {text}" if text[:1] == "~" else f"{symbol} = {text}"
                for symbol, text in op.formulas.items()]
    notes, flops = ["; ".join(formulas)], sum(other.values())
    if flops:
        notes.append(f"no matmuls: {flops:,} FLOP of W run on the Vector, Scalar or GpSimd "
                     f"Engine; the Tensor Engine's W, which roof takes, is "
                     f"{op.algorithmic.flops - flops:,} FLOP")
    if link := getattr(op, "link_bytes", 0):
        notes.append(f"over the link to the next chip {link:,} B; Q is what crosses this chip's "
                     "HBM")
    return Source("the formula", op.algorithmic, [
        Traffic(t.name, t.elements * BYTES[t.dtype], t.read_bytes, t.write_bytes)
        for t in op.tensors], notes, {"formulas": dict(op.formulas), "no_matmuls": dict(other)},
        other=other)


def of_source(run: "Run") -> Source:
    """A kernel's, run on shapes alone; of both cores together at LNC=2."""
    capacity = run.target.sbuf_partition_bytes * run.target.pmax
    issued, matmuls = sum(map(len, run.cores)), matmuls_of(run)
    sizes = [f"{m['times']:,} of {m['K']} x {m['M']} x {m['N']} {m['dtype']}" for m in matmuls
             if not m["transpose"]]
    notes = [f"matmuls: {joined(sizes) or 'none, so W = 0 and no compute roof binds'}"
             + " (K x M x N), 2 K M N FLOP each" * bool(sizes)]
    if run.transposes:
        notes.append(f"transposes on the Tensor Engine: "
                     f"{sum(size.instructions for size in run.transposes):,}, "
                     f"{sum(size.flops for size in run.transposes):,} FLOP that move data; W "
                     "leaves them out, a profiler's raw FLOPs do not")
    notes += [f"alive on chip at most {units.mebi(run.sbuf_peak_bytes)} of "
              f"{units.mebi(capacity)} SBUF and {run.psum_peak_banks} of "
              f"{run.target.psum_num_banks} PSUM banks" + ", on each core" * (run.lnc > 1)
              + f"; {issued:,} instructions",
              *(f"{name} is written 2x: both cores write all of it. Split the work by "
                "nl.program_id(0), or it is done twice" for name in twice_by(run)),
              *(f"warning: {text}" for text in run.warnings)]
    by = f"the source, on {run.target.name}" + ", both cores together" * (run.lnc > 1)
    merged: dict[str, Traffic] = {}
    for t in run.tensors:  # of one name there may be several
        was = merged.get(t.name, Traffic(t.name, 0, 0, 0))
        merged[t.name] = Traffic(t.name, was.nbytes + t.bytes, was.read + t.read,
                                 was.written + t.written)
    return Source(by, run.count, [*merged.values()], notes, {
        "cores": run.lnc, "instructions": issued, "matmuls": matmuls,
        "sbuf_peak_bytes": run.sbuf_peak_bytes, "sbuf_bytes": capacity,
        "psum_peak_banks": run.psum_peak_banks}, run.lines)


def twice_by(run: "Run") -> list[str]:
    """Tensors that each core of a pair writes whole, the same places of it."""
    if run.lnc == 1:
        return []
    places: list[dict[Any, Counter[Any]]] = []
    for core in run.cores:
        places.append({})
        for _, _, _, writes, _ in core.issued:
            for own, layout, first in writes:
                if layout.hbm_bytes and not layout.indirect:
                    places[-1].setdefault(own, Counter())[layout, first] += 1
    return [own.name for own, one in places[0].items() if one == places[1].get(own)
            and sum(layout.hbm_bytes * n for (layout, _), n in one.items()) == own.nbytes]


def matmuls_of(run: "Run") -> list[dict[str, Any]]:
    """run.matmuls and run.transposes as plain values: those most issued first."""
    rows = [{"K": size.K, "M": size.M, "N": size.N, "dtype": size.dtype, "transpose": transpose,
             "flops": size.each, "times": size.instructions}
            for transpose, sizes in ((False, run.matmuls), (True, run.transposes))
            for size in sizes]
    return sorted(rows, key=lambda row: -row["times"])


def joined(texts: Sequence[str], most: int = 4) -> str:
    """At most so many, and how many more there are."""
    more = len(texts) - most
    return ", ".join([*texts[:most], *[f"{more} more sizes"] * (more > 0)])


# --- and beside yours ----------------------------------------------------------------------------


def told(title: str, found: Source, mine: Hand, lines: bool = False) -> Answer:
    """The count as text, data and table; your own beside it, where you gave one.

    lines   also by source line; then they are the table

    Raises CallError for a tensor that the call does not have.
    """
    named = {name: q for name, q in mine.transfers.items() if name}
    have = [t.name for t in found.tensors]
    for name in named:
        if name not in have:
            raise CallError(f"--bytes {name}: the call has no such tensor{near(name, have) or '.'} "
                            f"It has {', '.join(have)}")
    count, beside = found.count, bool(mine.work or mine.transfers)
    sums = entries(count, mine, found.other)
    each = [Entry(t.name, "B", t.crosses, named.get(t.name, 0) if named else None)
            for t in found.tensors]
    differs = [[one.name for one in some if one.differs] for some in (sums, each)]
    table: list[Sequence[Cell]] = [(*COLUMNS, *("yours", "difference") * bool(named))]
    for t, one in zip(found.tensors, each, strict=True):
        own = () if one.yours is None else (one.yours, one.yours - t.crosses)
        table.append((*t, t.crosses, t.times, *own))

    text = [title, f"counted in {found.by}", *summed(sums, beside),
            f"  I = W / Q = {units.show(count.intensity, 'FLOP/B', 4)}"
            if count.flops > sum(found.other.values()) else
            "  no matmuls, so no intensity and no place on a roofline", "",
            *aligned([[shown(cell) for cell in row] for row in table], left=(0,), indent="  ")]
    if lines and found.lines:
        text += ["", *(f"  {row}" for row in repr(replace(found.lines, notes=())).splitlines())]
    text += ["", *wrapped([*[verdict(*differs)] * beside, *found.notes], whole=True)]
    data: dict[str, Any] = {
        "subject": title, "by": found.by, "kind": "derived", "work": dict(count.work),
        "flops": count.flops, "hbm_read_bytes": count.hbm_read_bytes,
        "hbm_write_bytes": count.hbm_write_bytes, "hbm_bytes": count.hbm_bytes,
        "intensity": count.intensity if count.hbm_bytes else None, **found.data,
        "tensors": [dict(zip(table[0], row, strict=True)) for row in table[1:]],
        "lines": [line_of(row) for row in found.lines], "notes": list(found.notes)}
    if beside:
        data["yours"] = {"work": dict(mine.work), "differs": differs[0],
                         "tensors_differ": differs[1],
                         "hbm_bytes": mine.hbm_bytes if mine.transfers else None}
    if lines and found.lines:
        table = [tuple(data["lines"][0]), *(tuple(row.values()) for row in data["lines"])]
    return Answer("\n".join(text).rstrip(), data, table, code=NO if any(differs) else FINE)


def entries(count: Count, mine: Hand, other: Mapping[str, int]) -> list[Entry]:
    """W, by dtype where there are several, and Q; other: FLOP of W that are no matmuls."""
    dtypes = sorted({*count.work, *mine.work})
    rows = [Entry("W" if len(dtypes) == 1 else f"W {dtype}", "FLOP", count.work.get(dtype, 0),
                  mine.work.get(dtype, 0) if mine.work else None,
                  count.work.get(dtype, 0) - other.get(dtype, 0)) for dtype in dtypes]
    return [*(rows or [Entry("W", "FLOP", 0, None)]),
            Entry("Q", "B", count.hbm_bytes, mine.hbm_bytes if mine.transfers else None)]


def summed(sums: Iterable[Entry], beside: bool) -> list[str]:
    """W and Q as a table; `beside`: with columns for yours, held to what it agrees with."""
    cells = [("", "counted", *("yours", "difference") * beside, "")]
    for one in sums:
        rows = [(one.name, one.counted, one.yours)]
        if one.matmuls is not None and one.yours == one.matmuls != one.counted:
            rows = [(one.name, one.counted, None), (f"{one.name} of matmuls", one.matmuls,
                                                    one.yours)]
        for name, theirs, yours in rows:
            own = ("-", "-") if yours is None else (f"{yours:,}", f"{yours - theirs:+,}")
            cells.append((name, f"{theirs:,}", *own * beside, units.show(theirs, one.unit, 4)))
    return aligned(cells, left=(0, len(cells[0]) - 1), indent="  ")


def verdict(sums: Sequence[str], tensors: Sequence[str]) -> str:
    """What differs, of W and Q and of the tensors, and what to do about it."""
    if not sums and not tensors:
        return "yours agrees"
    work = any(name != "Q" for name in sums)
    advice = [
        *["W is 2 K M N of each matmul times how often it is issued, transposes left out"] * work,
        *["walk the loops of each transfer and count its bytes times how often it is issued"] * (
            "Q" in sums or bool(tensors))]
    where = [*sums, *[f"tensor {name}" for name in tensors]]
    return f"yours differs in {', '.join(where)}: {'; '.join(advice)}"


def shown(cell: Cell) -> str:
    """A cell of the table of tensors: bytes with commas, times as 4x."""
    return f"{cell:,}" if isinstance(cell, int) else (
        f"{units.significant(cell)}x" if isinstance(cell, float) else str(cell))


def line_of(row: Any) -> dict[str, Cell]:
    """A row of run.lines as plain values."""
    return {"line": str(row.line), "instruction": row.opcode, "times": row.instructions,
            "read": row.read, "written": row.written, "flops": row.flops,
            "transpose_flops": row.transpose_flops, "source": row.line.text}
