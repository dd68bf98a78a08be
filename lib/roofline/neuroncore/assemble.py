"""A prediction in a profiler's own words: rows, opcodes, counters, Metadata.

Question  what would Neuron Explorer show of a kernel that ran as predicted?
Answer    profile(prediction) -> Profile, is_simulation true: Timeline and Summary
Assumes   names and counting of profiler 2.28 (data version 8): each of an fp32 matmul's two rows
          counts all its FLOPs; times are cut to whole ns
Ignores   what only a device has: notices, semaphores, instruction fetch, sbuf and psum bytes
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import machine
from ..profile import Profile, Tensor, facts, formulas
from ..profile.columns import TINY
from ..timeline import (
    DTYPES,
    ENGINES,
    MATMUL,
    WEIGHTS,
    Instructions,
    Ints,
    Packets,
    Spans,
    Throttles,
    Timeline,
)
from .prices import SYNC, Transfer

if TYPE_CHECKING:
    from .model import Prediction

# The profiler's names where they are not nisa's in capitals.
OPCODES = {"tensor_copy": "COPY", "activation": "ACTIVATE", "activation_reduce": "ACTIVATE",
           "dma_copy": "DMA_DIRECT2D", "shared_identity_matrix": "DMA_DIRECT2D",
           "sendrecv": "DMA_DIRECT2D", "register_load": "TENSOR_LOAD", "register_store": "WRITE",
           "core_barrier": "EVENT_SEMAPHORE"}


class _Rows(NamedTuple):
    """Rows of one kind: an array each, and what is the same in all of them."""

    of: Ints  # instruction of the graph
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    opcode: str
    engine: int
    waits: bool  # the first row of its instruction
    done: bool   # the last: others wait for it
    macs: int = 0
    shape: tuple[int, int, int] = (0, 0, 0)
    dtype: str = ""
    passes: int = 1
    transpose: bool = False
    read: int = 0
    written: int = 0


def profile(of: "Prediction") -> Profile:
    """The modelled Profile."""
    timeline = Timeline(_instructions(of), _packets(of), _throttles(of), of.run.lnc, int(of.time))
    run = of.run
    metadata = _metadata(of)
    return facts.assemble(
        f"{run.kernel}, modelled", run.kernel, "json", summary=_summary(of, timeline, metadata),
        metadata=metadata, timeline=timeline, tensors=_tensors(of), cores=run.lnc,
        warnings=run.warnings)


# --- rows ----------------------------------------------------------------------------------------


def _instructions(of: "Prediction") -> Instructions:
    """All rows, in order of start."""
    made = [rows for kind in _kinds(of) for rows in kind]
    core = np.array(of.graph.core, np.int8)
    names = tuple(dict.fromkeys(rows.opcode for rows in made))
    lines, line_of = _lines(of)
    sizes = [rows.of.size for rows in made]

    def column(kind: Any, value: Any) -> NDArray[Any]:
        return np.repeat(np.array([value(rows) for rows in made], kind), sizes)

    owner = np.concatenate([rows.of for rows in made]) if made else np.zeros(0, np.int64)
    start = np.concatenate([rows.start for rows in made]) if made else np.zeros(0)
    end = np.concatenate([rows.end for rows in made]) if made else np.zeros(0)
    # LDWEIGHTS before the MATMUL that it starts with; else the order of the kernel
    order = np.lexsort((column(int, lambda r: r.opcode == MATMUL), owner, np.floor(start)))
    first, last = (column(bool, value)[order] for value in (lambda r: r.waits, lambda r: r.done))
    owner = owner[order]
    row_of = np.zeros(len(of.graph.core), np.int64)
    row_of[owner[last]] = np.flatnonzero(last)
    ids = core.size + np.arange(1, owner.size + 1)
    ids[last] = owner[last] + 1  # a transfer's packets bear the id of its row
    counts = np.array([len(waits) for waits in of.graph.after], np.int64)
    flat = np.fromiter((w for waits in of.graph.after for w in waits), np.int64, counts.sum())
    pointer = np.r_[0, np.cumsum(counts)]
    held = np.where(first, counts[owner], 0)
    after = row_of[flat[np.concatenate([np.arange(pointer[o], pointer[o + 1])
                                        for o in owner[first]])]] if flat.size else flat
    return Instructions(
        core[owner], column(np.int8, lambda r: r.engine)[order],
        np.floor(start[order]).astype(np.int64), np.floor(end[order]).astype(np.int64),
        column(np.int32, lambda r: names.index(r.opcode))[order],
        column(np.int64, lambda r: r.macs)[order],
        column(np.int32, lambda r: r.shape[0])[order],
        column(np.int32, lambda r: r.shape[1])[order],
        column(np.int32, lambda r: r.shape[2])[order],
        column(np.int8, lambda r: DTYPES.index(r.dtype))[order],
        column(np.int8, lambda r: r.passes)[order],
        column(bool, lambda r: r.transpose)[order],
        column(np.int64, lambda r: r.read)[order], column(np.int64, lambda r: r.written)[order],
        ids, line_of[owner], names, lines, np.r_[0, np.cumsum(held)],
        after)


def _lines(of: "Prediction") -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """Source lines as file:number, and the index of each instruction's."""
    sites: dict[Any, int] = {}
    names = {"": 0}
    index = np.empty(len(of.graph.core), np.int32)
    for i, (_, site, *_) in enumerate(of.graph.issued):
        if (at := sites.get(site)) is None:
            text = f"{Path(site.line.file).name}:{site.line.number}"
            at = sites[site] = names.setdefault(text, len(names))
        index[i] = at
    return tuple(names), index


def _members(of: "Prediction") -> Iterator[tuple[tuple, Any, Ints]]:
    """Of each kind of instruction: one as issued, its price, and the instructions of that kind."""
    kind = np.array(of.plan.kind, np.int64)
    order, ends = np.argsort(kind, kind="stable"), np.cumsum(np.bincount(kind))
    for k, issued in of.plan.one.items():
        rows = order[ends[k - 1] if k else 0:ends[k]]
        yield issued, of.prices[rows[0]], rows


def _kinds(of: "Prediction") -> list[list[_Rows]]:
    """The rows of each kind of instruction."""
    start, end = np.array(of.schedule.start), np.array(of.schedule.end)
    over, load = np.array(of.schedule.over), np.array(of.schedule.load)
    found = []
    for (work, _, reads, writes, _), price, rows in _members(of):
        opcode = OPCODES.get(work.opcode, work.opcode.upper())
        if isinstance(price, Transfer):
            opcode = opcode if opcode.startswith("DMA_") else f"DMA_{opcode}"
        elif price.shape[0]:
            found.append(_matmuls(price, rows, start[rows], end[rows], over[rows], load[rows]))
            continue
        stop, engine = (end, SYNC) if isinstance(price, Transfer) else (over, price.engine)
        read, written = (sum(p[1].hbm_bytes for p in side) for side in (reads, writes))
        found.append([_Rows(rows, start[rows], stop[rows], opcode, engine, True, True, read=read,
                            written=written)])
    return found


def _matmuls(price: Any, rows: Ints, start: NDArray, end: NDArray, over: NDArray,
             load: NDArray) -> list[_Rows]:
    """A LDWEIGHTS and a MATMUL for each pass; an fp32 matmul's passes share its time."""
    K, M, N = price.shape
    step, same = (end - start) / price.passes, (price.engine,)
    found = []
    for i in range(price.passes):
        at = start + i * step
        loading = load if i == 0 else np.maximum(at - price.load, start)
        last = i == price.passes - 1
        stop = over if last else at + step
        found += [
            _Rows(rows, loading, np.minimum(loading + price.load, at), WEIGHTS, *same, i == 0,
                  False),
            _Rows(rows, at, stop, MATMUL, *same, False, last, K * M * N, price.shape, price.dtype,
                  price.passes, price.transpose)]
    return found


def _packets(of: "Prediction") -> Packets:
    """Packets of all transfers: of each engine one after the other."""
    columns: list[list[NDArray]] = []
    for _, price, which in _members(of):
        if not isinstance(price, Transfer):
            continue
        begin = np.array([of.schedule.packets[i] for i in which])  # [transfers, engines]
        nbytes, took = np.array(price.row).T
        for j, ((engine, ns), count) in enumerate(zip(price.loads, price.rows, strict=False)):
            each = np.tile(took, count)
            each *= ns / each.sum()  # shared by all engines: rows may be split
            ends = np.cumsum(each)
            size = len(which) * each.size
            columns.append([
                np.repeat(np.array(of.graph.core)[which], each.size), np.full(size, engine),
                (begin[:, j:j + 1] + (ends - each)).ravel(), (begin[:, j:j + 1] + ends).ravel(),
                np.tile(np.tile(nbytes, count), len(which)), np.repeat(which, each.size)])
    core, ports, start, end, sizes, own = [np.concatenate(c) for c in zip(*columns, strict=True)] \
        if columns else [np.zeros(0)] * 6
    order = np.argsort(np.floor(start), kind="stable")
    return Packets(core[order].astype(np.int8), ports[order].astype(np.int16),
                   np.floor(start[order]).astype(np.int64), np.floor(end[order]).astype(np.int64),
                   sizes[order].astype(np.int64), sizes[order] > TINY,
                   own[order].astype(np.int64) + 1)


def _throttles(of: "Prediction") -> Throttles:
    """From the first matmul on at part of the speed, then released."""
    rows: list[tuple[int, int, int, int]] = []
    n = 8
    k = round(n * of.rules.throttled)
    if k < n:
        for core, until in enumerate(of.schedule.released):
            if until is not None:
                begin, stop = until - of.rules.ns["throttle"], min(until, of.time)
                rows += [(core, int(begin), int(stop), k), (core, int(stop), int(of.time), n)]
    table = np.array(sorted(rows, key=lambda row: row[1]), np.int64).reshape(-1, 4)
    return Throttles(table[:, 0].astype(np.int8), table[:, 1], table[:, 2],
                     table[:, 3].astype(np.int32), np.full(len(rows), n, np.int32))


# --- counters ------------------------------------------------------------------------------------


def _metadata(of: "Prediction") -> dict[str, Any]:
    """The machine as the profiler describes it."""
    core, device = of.rules.core, machine.get(of.run.target.key, "device")
    stack = device.facts.get("hbm_stack_bandwidth")
    engines = core.facts["dma_engines"].value * core.facts["dma_engine_theoretical"].value
    return {
        "data_version": 8, "is_simulation": True, "num_physical_cores": of.run.lnc,
        "instance_type": of.run.target.key, "first_hw_timestamp": 0,
        "last_hw_timestamp": int(of.time),
        "tensor_engine_num_rows": int(core.facts["tensor_array_rows"].value),
        "tensor_engine_num_cols": int(core.facts["tensor_array_columns"].value),
        "tensor_engine_clock_freq": core.facts["tensor_clock"].value / 1e9,
        "neuroncore_clock_freq": core.facts["base_clock"].value / 1e9
        if "base_clock" in core.facts else None,
        "hbm_ddr_bandwidth": stack.value if stack else
        device.bw() / device.facts["hbm_stacks"].value,
        "dma_ddr_bandwidth": engines}


def _summary(of: "Prediction", timeline: Timeline, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Summary by the profiler's formulas; what the model does not know is left out."""
    own, time, cores = timeline.instructions, of.time / 1e9, of.run.lnc
    flops = 2 * int(own.macs.sum())
    transposes = 2 * int(own.macs[own.transpose].sum())
    read, written = int(own.read.sum()), int(own.written.sum())
    p1 = formulas.peak(metadata["tensor_engine_clock_freq"] * 1e9,
                       metadata["tensor_engine_num_rows"], metadata["tensor_engine_num_cols"])
    bw, useful = metadata["hbm_ddr_bandwidth"], flops - transposes
    ai = formulas.intensity(useful, read + written)
    sizes = {role: sum(t.nbytes for t in _tensors(of) if t.role == role) for role in ("IN", "OUT")}
    busy = {f"{name}_engine": timeline.activity(name) for name in ENGINES}
    busy["dma"] = timeline.moving(traffic=False)
    every = Spans.of(np.concatenate([s.start for s in busy.values()]),
                     np.concatenate([s.end for s in busy.values()]))
    active = {name: spans.length / 1e9 for name, spans in {**busy, "total": every}.items()}
    return {
        "total_time": time,
        **{f"{name}_active_time": s for name, s in active.items()},
        **{f"{name}_active_time_percent": s / time for name, s in active.items()},
        **{f"{name}_engine_instruction_count": int((own.engine == i).sum())
           for i, name in enumerate(ENGINES)},
        "matmul_instruction_count": int(own.is_opcode(MATMUL).sum()),
        "hardware_flops": flops, "transpose_flops": transposes,
        "hbm_read_bytes": read, "hbm_write_bytes": written,
        "spill_save_bytes": 0, "spill_reload_bytes": 0,
        "inputs_and_weights_size_bytes": sizes["IN"],
        "inputs_outputs_weights_size_bytes": sizes["IN"] + sizes["OUT"],
        "mm_arithmetic_intensity": ai if read + written else None,
        "peak_flops_bandwidth_ratio": formulas.ratio(p1, bw),
        "hfu_estimated_percent": formulas.compute_utilisation(flops, cores, p1, time),
        "mfu_inst_estimated_percent": formulas.compute_utilisation(useful, cores, p1, time),
        "mfu_estimated_percent": formulas.compute_utilisation(useful, cores, p1, time),
        "mbu_estimated_percent": formulas.bandwidth_utilisation(read + written, time, bw),
        "mbu_min_read_util_percent": formulas.bandwidth_utilisation(sizes["IN"], time, bw),
        "mfu_max_achievable_estimated_percent":
            formulas.max_achievable(ai, cores, p1, bw) if read + written else None,
        "neuroncore_cycle_count": formulas.cycles(time, metadata["neuroncore_clock_freq"] * 1e9)
        if metadata["neuroncore_clock_freq"] else None,
    }


def _tensors(of: "Prediction") -> tuple[Tensor, ...]:
    """Arguments, and HBM tensors that the kernel writes and no argument is."""
    written = {own: None for trace in of.run.cores for own, _, _ in trace.scan.stores}
    return (*(Tensor(a.name, "IN", a.shape, a.nbytes) for a in of.run.known),
            *(Tensor(a.name, "OUT", a.shape, a.nbytes) for a in written if not a.argument))


__all__ = ["OPCODES", "profile"]
