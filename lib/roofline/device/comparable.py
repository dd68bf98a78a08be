"""Times of others' compute kernels that are comparable with an op, each with its conditions.

Question  how fast did others' kernels of this very op run, by which code, timed how?
Answer    published_kernels(what, chip) -> PublishedKernels: T, its share of that chip's roof, and
          beside it the cost model's prediction with its error
Assumes   neuroncore's rows.csv holds the times and conditions; W and the least Q follow from the op
Ignores   copies (published); attention, element-wise chains and rows without a time of a kernel's
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from .. import machine as machines
from .. import ops, units
from ..count import Count
from ..machine import Entitlement, Machine
from ..neuroncore import report
from ..neuroncore import rows as table
from ..table import aligned, wrapped
from .literature import CLOCKS
from .measuring import MeasureError

# Rows that would mislead beside the others.
LEFT_OUT = {
    "M12": "8-bit integer operands: no P of theirs is documented",
    "M39": "a test's ceiling, no measurement",
    "F31": "a framework's whole block: which of its work is W, is a choice",
}
# fp32 GEMMs that ran as three bf16 products: one of so many equal GEMMs of the row. Their P is that
# of the mix: useful W over the time that the Tensor Engine needs for what it is given.
SPLIT = {"F04": 3, "F11": 1, "F13": 1}
STATED = {
    "rate": "worked out from a published rate",
    "utilisation": "worked out from a published utilisation",
    "corrected": "twice the published median, less 10 us: it lies between a sample of about 10 us "
                 "and the real one",
}
NEAR = 3  # of what there is, when nothing matches
BYTES_APART = 0.01  # a model whose kernel moves other bytes than the published one says so


@dataclass(frozen=True, repr=False)
class PublishedKernel:
    """One published time of somebody else's kernel.

    id           of the row: "M08"
    op, shape    in the table's words: "GEMM", "M2048 K2048 N2048"
    as_op        the same as an op; where `ops` has no class of its own for it, a Custom
    seconds      T, s; `stated` says what it was worked out from where it was not the time that
                 was published
    moved        B over HBM by its profile; None where it was not published
    transfers    DMA transfers by its profile; None where it was not published
    conditions   of the kernel and of how it was timed
    source       who published it, and where
    why_not      why no kernel of the model's stands for it; "" where one does
    """

    id: str
    chip: str
    op: str
    shape: str
    dtype: str
    as_op: ops.Op
    seconds: float
    stated: str
    clock: str
    moved: int | None
    transfers: int | None
    conditions: str
    source: str
    why_not: str

    @property
    def kind(self) -> str:
        """"published"; "derived" where T was worked out from a rate or a utilisation, or corrected.
        """
        return "derived" if self.stated in STATED else "published"

    @property
    def label(self) -> str:
        """Whose figure."""
        return f"{self.kind}: {self.source}"

    @property
    def machine(self) -> Machine:
        """One core of its chip. At LNC=2 too: these kernels ran whole on each of the two."""
        return machines.get(self.chip, "core")

    @property
    def least(self) -> Count:
        """W, matmuls alone, and the least Q of the op as one kernel: each operand crosses once."""
        return self.as_op.algorithmic

    @property
    def count(self) -> Count:
        """W, and Q as the profile has it where that was published, else the least Q.

        How much of a published Q was read is not published: what is beyond the output is shown as
        read.
        """
        if self.moved is None:
            return self.least
        return replace(self.least, hbm_read_bytes=self.moved - self.least.hbm_write_bytes)

    @property
    def entitled(self) -> Entitlement:
        """The roofs of one core for its own Q and for the products that it asked for."""
        given = self.count
        if parts := SPLIT.get(self.id):
            given = replace(given, work={self.dtype: given.flops - given.flops // parts,
                                         "bf16": 3 * (given.flops // parts)})
        return self.machine.entitle(given)

    @property
    def peak(self) -> float:
        """P in FLOP/s of W: of the dtype; of the mix where GEMMs ran as three bf16 products."""
        return self.count.flops / self.entitled.times["compute"]

    @property
    def rate(self) -> float:
        """W / T in FLOP/s."""
        return self.count.flops / self.seconds

    @property
    def share(self) -> float:
        """Of P, as a fraction: W / T / P."""
        return self.rate / self.peak

    @property
    def of_roof(self) -> float:
        """Of the roof at its own count, as a fraction: T_best / T."""
        return self.entitled.t_best / self.seconds

    @property
    def modelled(self) -> float | None:
        """Seconds that the cost model gives it, by the same clock; None where `why_not` says why.

        The model's constants are fitted to this row among others.
        """
        return None if self.why_not else _modelled(self.id)

    @property
    def modelled_bytes(self) -> int | None:
        """Bytes at HBM of the kernel that the model ran in its place; None without a model."""
        return None if self.why_not else report.moved(table.rows()[self.id])

    @property
    def error(self) -> float | None:
        """`modelled` over `seconds`, less 1."""
        return None if self.modelled is None else self.modelled / self.seconds - 1

    @property
    def left_out_error(self) -> float | None:
        """The same with constants that were fitted without any row of this source."""
        return None if self.why_not else _modelled(self.id, left_out=True) / self.seconds - 1

    @property
    def target(self) -> float:
        """What the model is asked to meet, as a fraction of T."""
        return report.target(table.rows()[self.id]) / self.seconds

    @property
    def missed(self) -> str:
        """What is known of why the model misses it; "" where it is within its target."""
        off = self.error is not None and abs(self.error) > self.target
        return report.WHY.get(self.id, "not known") if off else ""

    def __repr__(self) -> str:
        Q = [("moved", self._moved)] * (self.moved is not None)
        model = f"none: {self.why_not}"
        if self.modelled is not None:
            model = (f"{units.show(self.modelled, 's', 4)}, {_signed(self.error)}; "
                     f"its source left out of the fit: {_signed(self.left_out_error)}")
        rows = [("what", f"{self.op}, {self.shape}, {self.dtype}, on one core of {self.chip}"),
                ("conditions", self.conditions),
                ("T", f"{units.show(self.seconds, 's', 4)}; " + self._timed),
                ("W", f"{units.show(self.count.flops, 'FLOP', 4)}: "
                      f"{units.show(self.rate, 'FLOP/s', 4)}, {self.share:.1%} of P, "
                      f"{units.show(self.peak, 'FLOP/s', 4)}"),
                ("least Q", f"{units.show(self.least.hbm_bytes, 'B', 4)}, I "
                            f"{units.show(self.least.intensity, 'FLOP/B')}"), *Q,
                ("roof", f"T_best {units.show(self.entitled.t_best, 's', 4)} "
                         f"({self.entitled.binds} binds), {self.of_roof:.1%} of T"),
                ("model", model)]
        rows += [("missed", f"by more than {self.target:.0%}: {self.missed}")] * bool(self.missed)
        return "\n".join([f"{self.id}, {self.label}", *wrapped(
            aligned(rows, indent="  "), hang=12)])

    @property
    def _timed(self) -> str:
        by = f"clock: {CLOCKS[self.clock]}" * (self.clock not in ("", "derived"))
        return "; ".join(filter(None, (STATED.get(self.stated, "as published"), by)))

    @property
    def _moved(self) -> str:
        if self.moved is None:
            return ""
        text = units.show(self.moved, "B", 4)
        if self.transfers:
            text += (f" in {self.transfers:,} transfers, mean "
                     f"{units.show(self.moved / self.transfers, 'B')}")
        return text + f"; so I is {units.show(self.count.intensity, 'FLOP/B')}"


@dataclass(frozen=True, repr=False)
class PublishedKernels(Sequence[PublishedKernel]):
    """Published kernels: one shape after the other, within a shape the slowest first.

    what   that was asked for, in words
    near   what there is instead, where nothing matches
    not_shown   rows whose words match, and why they are not among these
    """

    what: str
    rows: tuple[PublishedKernel, ...]
    near: tuple[str, ...] = ()
    not_shown: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Any:
        return self.row(at) if isinstance(at, str) else self.rows[at]

    def row(self, id: str) -> PublishedKernel:
        """One row by its id, such as "M08". Raises MeasureError for one that is not here."""
        for row in self.rows:
            if row.id == id:
                return row
        raise MeasureError(f"published_kernels: no row {id!r} here; there are: "
                           f"{', '.join(row.id for row in self.rows) or 'none'}")

    def __repr__(self) -> str:
        if not self.rows:
            near = f"Near it: {'; '.join(self.near)}." if self.near else "Nor anything near it."
            return "\n".join(wrapped([f"Nothing comparable is published of {self.what} that this "
                                      f"course knows. {near}",
                                      *(f"  not shown: {text}" for text in self.not_shown)]))
        kinds = " and ".join(sorted({row.kind for row in self.rows}, reverse=True))
        cells = [("id", "chip", "kind", "dtype", "T", "TFLOP/s", "of P", "moved", "model", "error",
                  "left out"), *map(_cells, self.rows)]
        head, *lines = aligned(cells, left=range(4))
        shown, last = [head], ""
        for row, line in zip(self.rows, lines, strict=True):
            if (group := _group(row)) != last:
                last = group
                shown += ["", *wrapped(group.splitlines())]
            shown.append(line)
        return "\n".join([f"{kinds}: by others, on machines of theirs; nothing of it was measured "
                          "here", *shown, "", *wrapped(f"  {text}" for text in self._told())])

    def _told(self) -> list[str]:
        """What stands under the table."""
        told = [f"{_ids(rows)}  {said}" for said, rows in _by(
            self.rows, lambda row: row.conditions).items()]
        for name in dict.fromkeys(map(_group, self.rows)):
            same = [row for row in self.rows if _group(row) == name]
            if len(same) > 1:
                shares = ", ".join(f"{100 * row.share:.1f}" for row in same)
                told.append(f"the same W in {len(same)} runs, {', '.join(r.id for r in same)}: "
                            f"{shares} % of P")
        told += [f"{row.id} moved {row._moved}, where the least Q gives "
                 f"{units.show(row.least.intensity, 'FLOP/B')}"
                 for row in self.rows if row.moved is not None]
        told += [f"{row.id}: {row.entitled.binds} binds, not compute; its T is at "
                 f"{row.of_roof:.1%} of that roof"
                 for row in self.rows if row.entitled.binds != "compute"]
        told += [f"{row.id}: three bf16 products for {_of(SPLIT[row.id])}: P of this mix is "
                 f"{units.show(row.peak, 'FLOP/s', 4)}" for row in self.rows if row.id in SPLIT]
        told += [f"T of {_ids(rows)}: {STATED[how]}" for how, rows in _by(
            self.rows, lambda row: row.stated).items() if how in STATED]
        told += [f"clock of {_ids(rows)}: {CLOCKS[clock]}" for clock, rows in _by(
            self.rows, lambda row: row.clock).items() if clock not in ("", "derived")]
        if any(not row.why_not for row in self.rows):
            told.append("model: by the row's clock, fitted to these rows too; left out: the error "
                        "where the row's source had no part in the fit")
        for row in self.rows:
            other = row.modelled_bytes
            if row.moved and other and abs(other / row.moved - 1) > BYTES_APART:
                told.append(f"model of {row.id}: its kernel moves {units.show(other, 'B', 4)}, the "
                            f"published one {units.show(row.moved, 'B', 4)}")
        told += [f"model of {row.id} off by more than {row.target:.0%}: {row.missed}"
                 for row in self.rows if row.missed]
        told += [f"no model of {row.id}: {row.why_not}" for row in self.rows if row.why_not]
        told += [f"not shown: {text}" for text in self.not_shown]
        return told + [f"{source}: {_ids(rows)}" for source, rows in _by(
            self.rows, lambda row: row.source).items()]


def published_kernels(what: ops.Op | str, chip: str | None = None) -> PublishedKernels:
    """What others published of kernels that compute `what`.

    what   an op: rows of its shape and dtype, ops.Matmul(2048, 2048, 2048); how often what lies
           between its steps crosses is not asked. Or words of a row's op: "GEMM + bias + GELU"
    chip   "trn1", "inf2", "trn2"; None: all. Trainium1 and Inferentia2 have the same core, so each
           has the rows of both

    Shares are of P of one core, 78.6432 TFLOP/s in bf16 on Trainium2, by the row's dtype.

    >>> row = published_kernels(ops.Matmul(4096, 4096, 4096), "trn1").row("M14")
    >>> row.count.hbm_bytes, row.least.hbm_bytes, row.transfers
    (631300000, 100663296, 247017)

    Raises MachineError for an unknown chip, MeasureError where `what` is neither op nor words.
    Source: each row's own, from awslabs/nki-autotune, pantheongpu/pantheonneuron and others.
    """
    if not isinstance(what, (ops.Op, str)):
        raise MeasureError(f"published_kernels: what: got {what!r}; expected an op, such as "
                           "ops.Matmul(2048, 2048, 2048), or words of a row's op, such as \"GEMM\"")
    if chip is not None:
        machines.get(chip)
    here = [row for row in _all() if _same(row.chip, chip)]
    left_out = []
    if isinstance(what, str):
        words = " ".join(what.lower().split())
        found = [row for row in here if words in row.op.lower()]
        near = tuple(dict.fromkeys(row.op for row in here))
        left_out = [f"{id}, {table.rows()[id].op}: {why}" for id, why in LEFT_OUT.items()
                    if words in table.rows()[id].op.lower() and _same(table.rows()[id].chip, chip)]
    else:
        found = [row for row in here if row.as_op == _plain(what)]
        near = _near(_plain(what))
    order = list(dict.fromkeys(map(_group, found)))
    found.sort(key=lambda row: (order.index(_group(row)), row.share))
    return PublishedKernels(f"{what!r}{f' on {chip}' if chip else ''}", tuple(found),
                            () if found else near, tuple(left_out))


def _same(of: str, chip: str | None) -> bool:
    """Whether what is of one chip holds of a core of the other; None: any."""
    core = machines.SAME_CORE
    return chip is None or core.get(of, of) == core.get(chip, chip)


@cache
def _all() -> tuple[PublishedKernel, ...]:
    """Every row that a page may show, in the table's order."""
    return tuple(PublishedKernel(
        row.id, row.chip, row.op, row.shape, row.dtype, _as_op(row), row.time_us / 1e6, row.stated,
        row.clock, row.hbm_bytes, row.transfers, row.conditions, row.source, row.reason)
        for row in table.rows().values()
        if row.kind in ("gemm", "fused") and row.id not in LEFT_OUT)


@cache
def _modelled(id: str, left_out: bool = False) -> float:
    """Seconds; left_out: with constants fitted without the row's source."""
    row = table.rows()[id]
    given = report.without_source("trn2" if row.chip == "trn2" else "trn1")
    return report.modelled(row, given[report.campaign(row)] if left_out else None)


def _as_op(row: table.Row) -> ops.Op:
    """The op of a row, from its words and its shape."""
    size = {name: int(number) for name, number in re.findall(r"([A-Z])(\d+)", row.shape)}
    M, K, N, dtype = size["M"], size["K"], size["N"], row.dtype
    gemm = ops.Matmul(M, K, N, dtype)
    name = row.op.partition(",")[0]  # "..., two kernels": the same op
    if name in ("GEMM", "GEMM (transposed lhs)"):
        return gemm
    if name == "SwiGLU MLP (3 GEMMs)":
        return ops.SwiGLU(M, K, N, dtype=dtype)
    if name == "batched GEMM":
        return ops.Custom(size["B"] * gemm.flops, tuple(
            replace(t, elements=size["B"] * t.elements) for t in gemm.tensors), dtype)
    if name == "GEMM + LoRA":  # x W + (x A) B: W and the least Q of the two small ones beside
        R = size["R"]
        small = (ops.Matmul(M, K, R, dtype), ops.Matmul(M, R, N, dtype))
        return _more(gemm, {"lora A": K * R, "lora B": R * N}, sum(op.flops for op in small))
    return _more(gemm, {
        # a scale where something is added: with it and an identity, F07's bytes come out exactly
        "RMSNorm + GEMM": {}, "add + RMSNorm + GEMM": {"added": M * K, "scale": K},
        "GEMM + add + RMSNorm": {"added": M * N, "scale": N},
        "GEMM + bias + GELU": {"bias": N}}[name])


def _more(gemm: ops.Matmul, read: Mapping[str, int], flops: int = 0) -> ops.Op:
    """A GEMM with something beside it: tensors that are read too, and further FLOPs."""
    return ops.Custom(gemm.flops + flops, (*gemm.tensors, *(
        ops.Crossing(name, n, gemm.dtype, reads=1) for name, n in read.items())), gemm.dtype)


def _plain(op: ops.Op) -> ops.Op:
    """The op as rows have it: no names, nothing crosses between its steps, W of matmuls alone."""
    if isinstance(op, ops.Named):
        return _plain(op.op)
    if isinstance(op, (ops.MLP, ops.SwiGLU)):
        stored = None if op.w_dtype == op.dtype else op.w_dtype
        return replace(op.fused, activation_flops=0, w_dtype=stored)
    if isinstance(op, ops.Linear) and op.scales == "none" and {
            op.w_dtype or op.dtype, op.out_dtype or op.dtype} == {op.dtype}:
        return ops.Matmul(op.B, op.D, op.F, op.dtype)
    return op


def _near(op: ops.Op) -> tuple[str, ...]:
    """Rows of the same kind of op on every chip, or of every op: those next to it in W."""
    alike = [row for row in _all() if type(row.as_op) is type(op)] or _all()
    alike = sorted(alike, key=lambda row: (abs(math.log(row.least.flops / max(1, op.flops))),
                                           row.dtype != op.dtype))
    groups = _by(alike, lambda row: f"{row.op}, {row.shape}, {row.dtype} on {row.chip}")
    return tuple(f"{name} ({_ids(rows)})" for name, rows in groups.items())[:NEAR]


def _by(rows: Sequence[PublishedKernel], of: Any) -> dict[str, list[PublishedKernel]]:
    """Rows by something of theirs, in order."""
    found: dict[str, list[PublishedKernel]] = {}
    for row in rows:
        found.setdefault(of(row), []).append(row)
    return found


def _ids(rows: Sequence[PublishedKernel]) -> str:
    return " ".join(row.id for row in rows)


def _of(parts: int) -> str:
    return "its GEMM" if parts == 1 else f"one of its {parts} GEMMs"


def _group(row: PublishedKernel) -> str:
    """The two lines over rows of one op, chip, shape and dtype."""
    least, on = row.least, row.machine
    return (f"{row.op.partition(',')[0]}, {row.shape}, {row.dtype}; a {row.chip} core: "
            f"P {units.show(on.peak(row.dtype), 'FLOP/s', 4)}, "
            f"ridge {units.show(on.ridge(row.dtype), 'FLOP/B')}\n"
            f"  W {units.show(least.flops, 'FLOP', 4)}, least Q "
            f"{units.show(least.hbm_bytes, 'B', 4)}, "
            f"I {units.show(least.intensity, 'FLOP/B')}")


def _cells(row: PublishedKernel) -> tuple[str, ...]:
    """Its line of the table."""
    model = ["-"] * 3
    if row.modelled is not None:
        model = [units.show(row.modelled, "s", 4), _signed(row.error), _signed(row.left_out_error)]
    return (row.id, row.chip, row.kind, row.dtype, units.show(row.seconds, "s", 4),
            f"{row.rate / 1e12:.4g}", f"{row.share:.1%}",
            "-" if row.moved is None else units.show(row.moved, "B", 4), *model)


def _signed(error: float | None) -> str:
    return "-" if error is None else f"{error:+.1%}"
