"""Predict, reveal, drag: the numbers behind the live roofline.

Question  what will this op reach on that machine at best, and what if it moved other bytes?
Answer    roofline(machines, cases) -> Live: the page asks first, then draws the roofs and
          lets the reader drag the op along I and change machine, dtype and bandwidth figure
Assumes   one slow link; W stays while Q is dragged
Ignores   further roofs (DMA, links) and lower ceilings: `plot` draws those
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import machine as machine_module
from .. import ops, units
from ..count import Count
from ..machine import Machine, Spec
from .live import Live

ONCE = "each byte once"


@dataclass(frozen=True)
class Case:
    """An op to place under a roofline.

    label    short name, for a list
    says     what it does, in a sentence or two: the question begins with it
    counts   {mapping: {dtype: Count}}; same dtypes and W, each mapping its own Q; the first is
             shown first. For W of several dtypes the key is words: "bf16 and fp32"

    Raises ValueError for a case without a count, for mappings that differ in more than Q, or
    with W = 0 or Q = 0: neither has a place on log axes.
    """

    label: str
    says: str
    counts: Mapping[str, Mapping[str, Count]]

    def __post_init__(self) -> None:
        every = [count for by_dtype in self.counts.values() for count in by_dtype.values()]
        if not every:
            raise ValueError(f"Case {self.label!r}: expected at least one Count, got none")
        for count in every:
            if not count.flops or not count.hbm_bytes:
                raise ValueError(f"Case {self.label!r}: expected W > 0 and Q > 0, got {count!r}")
        work = [{dtype: count.work for dtype, count in by_dtype.items()}
                for by_dtype in self.counts.values()]
        if any(one != work[0] for one in work):
            raise ValueError(f"Case {self.label!r}: mappings may differ in Q only; dtypes or W of "
                             f"{', '.join(self.counts)} differ")

    @classmethod
    def of(cls, label: str, says: str, make: Callable[[str], ops.Op],
           dtypes: Sequence[str] = ("bf16", "fp32"),
           mappings: Mapping[str, Callable[[Any], Count]] | None = None) -> "Case":
        """The case of an op made for each dtype, every byte once.

        make       dtype -> op
        mappings   further mappings: name -> function of that op that counts it
        """
        made = {dtype: make(dtype) for dtype in dtypes}
        counts = {ONCE: {dtype: op.algorithmic for dtype, op in made.items()}}
        for name, count in (mappings or {}).items():
            counts[name] = {dtype: count(op) for dtype, op in made.items()}
        return cls(label, says, counts)


def cases() -> tuple[Case, ...]:
    """The ops of the opening figure."""
    return (
        Case.of("matmul, 1 token",
                "One token goes through a layer of a language model: a row of 4096 numbers "
                "times a 4096 x 4096 matrix of weights.",
                lambda dtype: ops.Matmul(M=1, K=4096, N=4096, dtype=dtype)),
        Case.of("matmul, 2048 tokens",
                "2048 tokens go through a layer of a language model together: 2048 rows of 4096 "
                "numbers times a 4096 x 4096 matrix of weights.",
                lambda dtype: ops.Matmul(M=2048, K=4096, N=4096, dtype=dtype),
                mappings={"each row 8 times, each weight 16 times": lambda op: op.reloaded(8, 16)}),
        Case.of("matmul, 128 tokens",
                "128 tokens, one each of 128 conversations, go through a layer of a language model "
                "together: 128 rows of 4096 numbers times a 4096 x 4096 matrix of weights.",
                lambda dtype: ops.Matmul(M=128, K=4096, N=4096, dtype=dtype)),
    )


def roofline(machines: Sequence[Machine] = (), ops: Sequence[Case] = (), *,
             ask: Sequence[tuple[str, str]] = ()) -> Live:
    """A roofline to guess at, reveal and drag.

    machines   what to choose from; without any: a Trn2 core, an H100, a TPU v5e, the
               worked-example desktop
    ops        what to place; without any: matmuls of 1, 2048 and 128 tokens, which run on the
               units whose peak is drawn
    ask        (machine key, op label) pairs to guess at, in this order; without any: every op
               on the first machine that has one of its dtypes

    Raises ValueError for an `ask` that names no machine or op, and for a pair without a dtype
    in common.
    """
    if not machines and not ops and not ask:
        ask = (("trn2", "matmul, 1 token"), ("trn2", "matmul, 2048 tokens"),
               ("h100", "matmul, 128 tokens"), ("desktop", "matmul, 128 tokens"))
    machines = machines or [getattr(machine_module, key)
                            for key in ("trn2", "h100", "tpu_v5e", "desktop")]
    ops = ops or cases()
    ask = ask or [(next(m.key for m in machines if _dtypes(m, case)), case.label)
                  for case in ops if any(_dtypes(m, case) for m in machines)]
    keys, labels = [m.key for m in machines], [case.label for case in ops]
    for key, label in ask:
        if key not in keys or label not in labels:
            raise ValueError(f"roofline: ask: got {(key, label)!r}; machines {', '.join(keys)}; "
                             f"ops {'; '.join(labels)}")
        if not _dtypes(machines[keys.index(key)], ops[labels.index(label)]):
            raise ValueError(f"roofline: ask: {key} has no peak for a dtype of {label!r}")
    if not ask:
        raise ValueError("roofline: no machine has a peak for a dtype of any op")
    used = {d for case in ops for by_dtype in case.counts.values()
            for count in by_dtype.values() for d in count.work}
    data = {
        "machines": [machine_data(m, used) for m in machines],
        "ops": [{"label": case.label, "says": case.says,
                 "counts": [{"name": name, "by": {d: _count(c) for d, c in by_dtype.items()}}
                            for name, by_dtype in case.counts.items()]} for case in ops],
        "ask": [[keys.index(key), labels.index(label)] for key, label in ask],
    }
    first, case = machines[keys.index(ask[0][0])], ops[labels.index(ask[0][1])]
    return Live("roofline", data, _question(first, case), (
        ("What each machine is entitled to (derived)", _entitlements(machines, ops)),
        ("The machines' numbers", machine_rows(machines, used))),
        "a roofline to guess at, reveal and drag")


def _dtypes(machine: Machine, case: Case) -> list[str]:
    """Dtypes of the case that this machine has every peak for."""
    return [dtype for dtype, count in next(iter(case.counts.values())).items()
            if all(d in machine.peaks for d in count.work)]


def machine_data(machine: Machine, dtypes: set[str]) -> dict[str, Any]:
    """A machine for a page: its peaks for `dtypes`, the slow link's figure and its rivals."""
    link = machine.bandwidths[machine.slow_link]
    return {"name": machine.name, "link": machine.slow_link,
            "peaks": {dtype: _spec(spec) for dtype, spec in machine.peaks.items()
                      if dtype in dtypes},
            "bandwidths": [_spec(spec) for spec in (link, *link.rivals)]}


def _spec(spec: Spec) -> dict[str, Any]:
    return {"value": spec.value, "text": spec.text, "kind": spec.kind, "about": _about(spec)}


def _about(spec: Spec) -> str:
    return "; ".join(filter(None, (spec.holds, spec.source)))


def _count(count: Count) -> dict[str, Any]:
    return {"work": dict(count.work), "bytes": count.hbm_bytes}


def _question(machine: Machine, case: Case) -> str:
    dtype = _dtypes(machine, case)[0]
    count = next(iter(case.counts.values()))[dtype]
    peak = count.flops / machine.entitle(count).times["compute"]
    link = machine.bandwidths[machine.slow_link]
    return (f"{case.says}\n\nThe numbers are {dtype}, so the op does W = "
            f"{units.show(count.flops, 'FLOP')} and moves Q = {units.show(count.hbm_bytes, 'B')}. "
            f"The machine is {machine.name}: it computes at most P = "
            f"{units.show(peak, 'FLOP/s')}, and its {machine.slow_link} bandwidth is BW = "
            f"{link.text}. What limits the op, and how fast can it run at best?")


def _entitlements(machines: Sequence[Machine], cases: Sequence[Case]) -> list[list[str]]:
    rows = [["op", "bytes", "machine", "dtype", "I", "binds", "T_best", "T_worst", "rate"]]
    for case in cases:
        for machine in machines:
            for dtype in _dtypes(machine, case)[:1]:
                for mapping, by_dtype in case.counts.items():
                    got = machine.entitle(by_dtype[dtype])
                    rows.append([case.label, mapping, machine.name, dtype,
                                 units.show(got.intensity, "FLOP/B"), got.binds,
                                 units.show(got.t_best, "s"), units.show(got.t_worst, "s"),
                                 units.show(got.rate, "FLOP/s")])
    return rows


def machine_rows(machines: Sequence[Machine], dtypes: set[str]) -> list[list[str]]:
    """The same numbers as a table, with where each is from."""
    rows = [["machine", "what", "value", "kind", "from"]]
    for machine in machines:
        link = machine.bandwidths[machine.slow_link]
        rows += [[machine.name, f"P, {dtype}", spec.text, spec.kind, _about(spec)]
                 for dtype, spec in machine.peaks.items() if dtype in dtypes]
        rows += [[machine.name, what, spec.text, spec.kind, _about(spec)]
                 for what, spec in ((f"BW, {machine.slow_link}", link),
                                    *(("BW, another source", rival) for rival in link.rivals))]
    return rows
