"""The Tensor Engine cycle by cycle: the numbers behind the live clockwork.

Question  when do all PEs multiply, what is the rate then, and what takes from it?
Answer    clockwork(machines) -> Live: the page asks first, then plays, steps and jumps, with
          chip, dtype, K, M, N, matmuls and weights to change, and small arrays with values
Assumes   roofline.clockwork: its docstring says what is documented and what is modelled
Ignores   what feeds the array and what empties PSUM
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .. import derate, units
from .. import machine as machine_module
from ..clockwork import LOADS, Clockwork
from ..machine import Machine, Spec
from .live import Live

# What the page's lists have.
DTYPES = ("bf16", "fp32", "fp8", "mxfp8")
ARRAYS = (0, 8, 4)
MATMULS = 64
NOTES = (
    "Modelled: columns enter skewed, row k a cycle after row k - 1, and move right one PE a cycle; "
    "sums move down one row a cycle, through every row, into PSUM. No guide gives these latencies. "
    "They set how a run fills and drains, and not the rate back to back. An fp32 column makes four "
    "passes: the guide says only that it costs about four times as much.",
    "Weights load at the guide's best rate, four columns a cycle. At that rate a load always hides "
    "behind the matmul before; the guide also draws a case in which it does not.",
    "An 8 × 8 or 4 × 4 array follows the same rules at the same clock, but starts need not be a "
    "least number of cycles apart; its matmuls add up in PSUM, as K tiles of one contraction do.",
)


def clockwork(machines: Sequence[Machine] = (), *, K: int = 128, M: int = 128, N: int = 512,
              dtype: str = "bf16", matmuls: int = 8, load: str = "hidden",
              array: int = 0, tables: bool = True) -> Live:
    """The Tensor Engine, to guess at, play and step through.

    machines   cores to choose from, the first shown first; without any: Trn1, Trn2, Trn3
    K ... load   the run shown first, as in Clockwork; the question halves its K
    array      0: the core's own; 8 or 4: a toy with every value
    tables     False where a page asks for their numbers further down

    Raises ClockworkError for a run no Clockwork can be, also with half of K, and ValueError for
    one that the page's lists do not have.
    """
    machines = machines or (machine_module.trn1, machine_module.trn2, machine_module.trn3)
    first = machines[0]
    for name, got, known in (("dtype", dtype, DTYPES), ("array", array, ARRAYS),
                             ("matmuls", matmuls, range(1, MATMULS + 1))):
        if got not in known:
            raise ValueError(f"clockwork: {name}: got {got!r}; the page has "
                             + (f"1 to {MATMULS}" if name == "matmuls" else
                                ", ".join(map(str, known))))
    lanes = Clockwork(K, M, N, dtype, first, matmuls, load, array or None).lanes
    runs = [Clockwork(k, M, N, dtype, first, matmuls, load, array or None)
            for k in (K, K // 2 // lanes * lanes)]
    says = _question(first, *runs)
    data = {"chips": [chip_data(m) for m in machines], "says": says, "notes": NOTES,
            "half": runs[1].K, "matmuls": MATMULS,
            "start": {"chip": first.key, "K": K, "M": M, "N": N, "dtype": dtype,
                      "matmuls": matmuls, "load": load, "array": array}}
    shown = (("Back to back (derived)", _rates(runs)),
             ("One matmul alone, cycle by cycle (modelled)", _moments(runs[0])),
             ("What the model is made of", _facts(machines)))
    return Live("clockwork", data, "\n\n".join(says), shown if tables else (),
                "a Tensor Engine to play, pause and step through, cycle by cycle,")


def chip_data(core: Machine) -> dict[str, Any]:
    """What the page needs to run any shape on this core."""
    dtypes = {}
    for dtype in (d for d in DTYPES if d in core.peaks):
        run = Clockwork(4, 1, 1, dtype, core)
        dtypes[dtype] = {"passes": run.passes, "lanes": run.lanes, "spec": _spec(core.peaks[dtype])}
    rules = derate.matmul(core, N=32, load="shown").rules
    notes = [f"{rule.name}: {rule.kind}, {'; '.join(filter(None, (rule.source, rule.note)))}."
             for rule in rules]
    return {"key": core.key, "short": _short(core), "clock": run.clock,
            "rows": run.rows, "columns": run.columns, "floor": run.floor,
            "fast": run.fast, "nMax": run.n_max, "dtypes": dtypes, "notes": notes}


def _short(core: Machine) -> str:
    return core.name.partition(",")[0]


def _spec(spec: Spec) -> dict[str, Any]:
    about = "; ".join(filter(None, (spec.holds, spec.source)))
    return {"text": spec.text, "kind": spec.kind, "about": about}


def _question(core: Machine, run: Clockwork, half: Clockwork) -> list[str]:
    grid = f"a grid of {run.rows} × {run.columns} processing elements (PEs)"
    return [
        (f"A small array, {grid}, works as the Tensor Engine does. " if run.array else
         f"The Tensor Engine is {grid}. ") + "Each holds a number of "
        "the stationary tile, K rows by M columns. The columns of the moving tile come in from the "
        "left; each PE multiplies what passes with what it holds, adds the sum from above and "
        "passes it down. Below the last row the sums fall into PSUM.",
        f"With K = {run.K}, M = {run.M} and N = {run.N} in {run.dtype}, one matmul behind the "
        f"other, {'such an array' if run.array else f'one core of {_short(core)}'} does "
        f"{units.show(run.rate, 'FLOP/s', 4)} at {units.show(run.clock, 'Hz')}. "
        f"Now the contraction is half as long, K = {half.K}, "
        "and the rest stays. What does the rate do?"]


def _rates(runs: Sequence[Clockwork]) -> list[list[str]]:
    full, half = runs
    rows = [["K", "M", "N", "dtype", "weights", "interval", "time", "rate", "of P", "left by"]]
    base = replace(full, K=min(full.K, full.rows))  # fp32 takes no more
    changes: tuple[dict[str, Any], ...] = (
        {"N": min(full.N, 32)}, {"load": "shown"}, {"load": "shown", "N": min(full.N, 128)},
        {"dtype": "fp32"})
    cases = [full, half, *(replace(base, **change) for change in changes)]
    for run in cases:
        left = ", ".join(f"{name} {units.significant(share, 4)}"
                         for name, share in run.shares.items() if share < 1)
        rows.append([str(run.K), str(run.M), str(run.N), run.dtype, LOADS[run.load],
                     f"{run.interval:g} cycles", units.show(run.interval / run.clock, "s"),
                     units.show(run.rate, "FLOP/s", 4), f"{100 * run.rate / run.peak:.3g} %",
                     left or "nothing lost"])
    return rows


def _moments(run: Clockwork) -> list[list[str]]:
    alone = replace(run, matmuls=1)
    rows = [["cycle", "which", "PEs that multiply", "MACs so far", "rate since cycle 0",
             "what happens"]]
    for name, cycle in alone.landmarks().items():
        at = alone.at(cycle)
        rows.append([str(cycle), name, f"{at.active:,}", f"{at.macs:,}",
                     units.show(at.average, "FLOP/s", 4), at.phase])
    return rows


def _facts(machines: Sequence[Machine]) -> list[list[str]]:
    rows = [["core", "what", "value", "kind", "from"]]
    for core in machines:
        short = _short(core)
        rows.append([short, "clock", *_cells(core.facts["tensor_clock"])])
        for rule in derate.matmul(core, 64, 64, 32, load="shown").rules:
            rows += [[short, f"{rule.name}: {rule.why}", *_cells(spec)] for spec in rule.spec]
    rows += [["all", "a column enters row k a cycle after row k - 1, moves right one PE a cycle",
              "1 cycle", "modelled", "no guide gives latencies"],
             ["all", "a sum moves down one row a cycle, through every row, into PSUM", "1 cycle",
              "modelled", "no guide gives latencies"],
             ["all", "an fp32 column makes four passes, its multiply-adds are done with the last",
              "4 cycles", "modelled", "the guide: about four times the cost of bf16"]]
    return rows


def _cells(spec: Spec) -> list[str]:
    about = "; ".join(filter(None, (spec.holds, spec.source)))
    return [spec.text, spec.kind, about]
