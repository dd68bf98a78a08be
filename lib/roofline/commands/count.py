"""roofline count: W and Q of a kernel by its source, beside your own.

Question  what does this call do and move, tensor by tensor, and does my count agree?
Answer    answer(args) -> Answer: NO where your W or Q is another than the source's
Assumes   the kernel's file runs on the counting backend, on shapes alone
Ignores   time: roof and predict
"""

import argparse
import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import nki, units
from ..count import Count
from ..table import aligned, wrapped
from .answer import FINE, NO, Answer, Cell
from .calls import CALL, CallError, Hand, Subject, chip_of, hand, kernels_of, subject
from .calls import add as add_call
from .working import working

EXAMPLES = f"""\
calls
{CALL}

examples
  python -m roofline count mlp.py
      the kernels of a file, and what each is called with
  python -m roofline count mlp.py:mlp x=1024x2048:bf16 w=1024x4096:bf16
      W, Q, I, each tensor's traffic, what is alive on chip
  python -m roofline count @call.txt --flops=2*2048*1024*4096
      your W against the source's; ends with 1 where they differ
  python -m roofline count @call.txt --bytes=x:2*1024*2048 --bytes=w:2*1024*4096
      your table of transfers, tensor by tensor
  python -m roofline count Matmul M=2048 K=2048 N=2048 dtype=bf16 --save=count.json
      a formula in place of a kernel"""


class Traffic(NamedTuple):
    """One tensor: its size, and what crosses; B."""

    name: str
    nbytes: int
    read: int
    written: int

    @property
    def crosses(self) -> int:
        return self.read + self.written


def add(parser: argparse.ArgumentParser) -> None:
    add_call(parser)


def answer(args: argparse.Namespace) -> Answer:
    if len(args.call) == 1 and args.call[0].endswith(".py"):
        return listed(args.call[0])
    of, mine, chip = subject(args), hand(args), chip_of(args)
    assert of is not None  # the parser asks for a call
    if of.call is None:
        tensors = [Traffic(t.name, t.read_bytes // max(t.reads, 1) or t.write_bytes, t.read_bytes,
                           t.write_bytes) for t in of.op.tensors]
        return told(of, "the formula", of.count(chip), tensors, mine)
    with working(f"counting {of.title}"):
        run = of.call.counted(chip)
    capacity = run.target.sbuf_partition_bytes * run.target.pmax
    notes = [f"alive on chip at most {units.mebi(run.sbuf_peak_bytes)} of "
             f"{units.mebi(capacity)} SBUF and {run.psum_peak_banks} of "
             f"{run.target.psum_num_banks} PSUM banks" + " on a core" * (run.lnc > 1)
             + f"; {sum(map(len, run.cores)):,} instructions", *map(str, run.warnings)]
    tensors = [Traffic(t.name, t.bytes, t.read, t.written) for t in run.tensors]
    return told(of, f"the source, on {run.target.name}", run.count, tensors, mine, notes,
                {"sbuf_peak_bytes": run.sbuf_peak_bytes, "sbuf_bytes": capacity,
                 "psum_peak_banks": run.psum_peak_banks})


def listed(path: str) -> Answer:
    """The kernels of a file, each with its def line."""
    found = kernels_of(nki.load(path))
    if not found:
        raise CallError(f"{path}: no kernel in it: decorate one with @nki.jit")
    rows = [(name, str(inspect.signature(inspect.unwrap(kernel)))) for name, kernel in
            found.items()]
    text = [f"{path}: {len(rows)} kernel{'s' * (len(rows) > 1)}",
            *(f"  {name}{signature}" for name, signature in rows),
            "Write the call with arrays as NAME=SHAPE:DTYPE, into a file if you like:",
            f"  {path}:{rows[0][0]} NAME=512x1024:bf16 ..."]
    return Answer("\n".join(text), {"file": path, "kernels": dict(rows)},
                  [("kernel", "called with"), *rows])


def told(of: Subject, by: str, count: Count, tensors: Sequence[Traffic], mine: Hand,
         notes: Sequence[str] = (), more: dict[str, int] | None = None) -> Answer:
    """The count as text, data and table; your own beside it, where you gave one."""
    differs = []
    lines = [of.title, f"counted in {by}"]
    work = [(f"W {dtype}" if len({*count.work, *mine.work}) > 1 else "W",
             count.work.get(dtype, 0), mine.work.get(dtype, 0))
            for dtype in sorted({*count.work, *mine.work})] or [("W", 0, 0)]
    beside = bool(mine.work or mine.transfers)
    cells = [("", "counted", *["yours", "difference"] * beside, "")]
    for name, counted, own in work:
        given = own if mine.work else None
        cells.append(_row(name, counted, given, units.show(counted, "FLOP", 4), beside))
        differs += [name] if given not in (None, counted) else []
    given = mine.hbm_bytes if mine.transfers else None
    cells.append(_row("Q", count.hbm_bytes, given, units.show(count.hbm_bytes, "B", 4), beside))
    differs += ["Q"] if given not in (None, count.hbm_bytes) else []
    lines += aligned(cells, left=(0, len(cells[0]) - 1), indent="  ")
    lines.append(f"  I = W / Q = {units.show(count.intensity, 'FLOP/B', 4)}")

    named = {name: q for name, q in mine.transfers.items() if name}
    columns = ("tensor", "bytes", "read", "written", "crosses", *["yours", "difference"] * bool(
        named))
    table: list[Sequence[Cell]] = [columns]
    for t in tensors:
        own_ = named.get(t.name, 0)
        table.append((*t, t.crosses, *[own_, own_ - t.crosses] * 1)[:len(columns)])
        differs += [t.name] if named and own_ != t.crosses else []
    strange = [name for name in named if name not in {t.name for t in tensors}]
    table += [(name, None, 0, 0, 0, named[name], named[name]) for name in strange]
    differs += strange
    lines += ["", *aligned([[f"{c:,}" if isinstance(c, int) else str(c or "-") for c in row]
                            for row in table], left=(0,), indent="  ")]
    says = {True: f"yours differs in {', '.join(dict.fromkeys(differs))}: walk the loops of that "
                  "line and count each transfer times how often it is issued",
            False: "yours agrees"}[bool(differs)] if beside else ""
    lines += ["", *wrapped([*filter(None, [says]), *notes])]
    data: dict[str, Any] = {"subject": of.title, "by": by, "kind": "derived", "work": dict(count.work),
            "flops": count.flops, "hbm_read_bytes": count.hbm_read_bytes,
            "hbm_write_bytes": count.hbm_write_bytes, "hbm_bytes": count.hbm_bytes,
            "intensity": count.intensity if count.hbm_bytes else None, **(more or {}),
            "tensors": [dict(zip(columns, row, strict=True)) for row in table[1:]],
            "notes": list(notes)}
    if beside:
        data["yours"] = {"work": dict(mine.work), "hbm_bytes": given,
                         "differs": list(dict.fromkeys(differs))}
    return Answer("\n".join(lines).rstrip(), data, table, code=NO if differs else FINE)


def _row(name: str, counted: int, own: int | None, shown: str, beside: bool) -> tuple[str, ...]:
    yours = ("-", "-") if own is None else (f"{own:,}", f"{own - counted:+,}")
    return (name, f"{counted:,}", *(yours if beside else ()), shown)
