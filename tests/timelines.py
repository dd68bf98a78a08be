"""Small timelines and profiles from rows a reader can follow: tests build theirs here.

    timeline(matmuls=[(0, 213), (213, 426, {"N": 128, "dtype": "fp32"})],
             vector=[(426, 900)], packets=[(0, 158, {"engine": 3})])

A row is (start, end) in ns, then a dict of what differs from DEFAULTS. Any row may have "core"
and "name"; an instruction's "after" lists the names of the rows it waited for.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from roofline.profile.record import Profile
from roofline.timeline import DTYPES, ENGINES, Instructions, Packets, Throttles, Timeline

Row = tuple[Any, ...]  # (start, end) or (start, end, {...})

# A matmul of bf16 with all rows and columns of the array; a packet of the usual largest size.
DEFAULTS: Mapping[str, Any] = {
    "core": 0, "name": None, "after": (), "line": "", "read": 0, "written": 0,
    "K": 128, "M": 128, "N": 512, "dtype": "bf16", "passes": 1, "transpose": False, "macs": None,
    "nbytes": 4096, "traffic": True, "k": 4, "n": 8}
OPCODES = {"matmuls": ("tensor", "MATMUL"), "weights": ("tensor", "LDWEIGHTS"),
           "vector": ("vector", "TENSOR_TENSOR"), "scalar": ("scalar", "ACTIVATE"),
           "gpsimd": ("gpsimd", "IOTA"), "sync": ("sync", "Operation(7)"),
           "issues": ("sync", "DMA_DIRECT2D"), "control": ("sync", "DRAIN")}


def _filled(row: Row, engine: Any, opcode: str = "") -> dict[str, Any]:
    start, end, *more = row
    given = more[0] if more else {}
    wrong = set(given) - {*DEFAULTS, "engine", "opcode"}
    assert not wrong and len(more) < 2, f"a row of a timeline: {row}"
    return {**DEFAULTS, "engine": engine, "opcode": opcode, "start": start, "end": end, **given}


def _in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["start"])  # stable: of equal starts the first given


def instruction_table(**kinds: Iterable[Row]) -> Instructions:
    """Instructions in order of start; keywords are those of OPCODES.

    A matmul's macs are K M N unless given, in each of its passes: so the profiler counts them.
    """
    rows = _in_order(_filled(row, *OPCODES[kind]) for kind, some in kinds.items() for row in some)
    opcodes = tuple(dict.fromkeys(row["opcode"] for row in rows))
    lines = tuple(dict.fromkeys(["", *(row["line"] for row in rows)]))
    place = {row["name"]: i for i, row in enumerate(rows) if row["name"] is not None}
    for row in rows:
        if row["opcode"] != "MATMUL":
            row |= {"K": 0, "M": 0, "N": 0, "dtype": "", "passes": 1, "macs": 0}
        elif row["macs"] is None:
            row["macs"] = row["K"] * row["M"] * row["N"]

    def column(key: str, dtype: Any, known: Any = None) -> Any:
        values = [row[key] if known is None else known.index(row[key]) for row in rows]
        return np.array(values, dtype)

    return Instructions(
        core=column("core", np.int8), engine=column("engine", np.int8, ENGINES),
        start=column("start", np.int64), end=column("end", np.int64),
        opcode=column("opcode", np.int32, opcodes), macs=column("macs", np.int64),
        rows=column("K", np.int32), columns=column("M", np.int32), moving=column("N", np.int32),
        dtype=column("dtype", np.int8, DTYPES), passes=column("passes", np.int8),
        transpose=column("transpose", np.bool_), read=column("read", np.int64),
        written=column("written", np.int64), id=1000 + np.arange(len(rows), dtype=np.int64),
        line=column("line", np.int32, lines), opcodes=opcodes, lines=lines,
        first=np.cumsum([0, *(len(row["after"]) for row in rows)], dtype=np.int64),
        after=np.array([place[name] for row in rows for name in row["after"]], np.int64))


def packet_table(rows: Iterable[Row]) -> Packets:
    """DMA packets in order of start, on engine 0 unless given; -1 is unknown."""
    rows = _in_order(_filled(row, 0) for row in rows)
    return Packets(
        core=np.array([r["core"] for r in rows], np.int8),
        engine=np.array([r["engine"] for r in rows], np.int16),
        start=np.array([r["start"] for r in rows], np.int64),
        end=np.array([r["end"] for r in rows], np.int64),
        nbytes=np.array([r["nbytes"] for r in rows], np.int64),
        traffic=np.array([r["traffic"] for r in rows], np.bool_),
        id=7000 + np.arange(len(rows), dtype=np.int64))


def throttle_table(rows: Iterable[Row]) -> Throttles:
    """Stretches in which k of n cycles are allowed, in order of start; 4 of 8 unless given."""
    rows = _in_order(_filled(row, None) for row in rows)
    return Throttles(
        core=np.array([r["core"] for r in rows], np.int8),
        start=np.array([r["start"] for r in rows], np.int64),
        end=np.array([r["end"] for r in rows], np.int64),
        k=np.array([r["k"] for r in rows], np.int32),
        n=np.array([r["n"] for r in rows], np.int32))


def timeline(*, packets: Iterable[Row] = (), throttles: Iterable[Row] = (), cores: int = 1,
             end: int | None = None, unknown: Iterable[str] = (),
             **kinds: Iterable[Row]) -> Timeline:
    """All rows of one capture; it ends with its last row unless `end` says otherwise.

    kinds   matmuls, weights, vector, scalar, gpsimd, sync, issues, control
    """
    ran, moved, slowed = (instruction_table(**kinds), packet_table(packets),
                          throttle_table(throttles))
    last = max((int(table.end.max()) for table in (ran, moved, slowed) if len(table)), default=0)
    return Timeline(ran, moved, slowed, cores, last if end is None else end, frozenset(unknown))


def profile(of: Timeline, total: float | None = None, **more: Any) -> Profile:
    """A profile of this timeline; total is total_time in ns, the timeline's end unless given."""
    summary = {"total_time": (of.end if total is None else total) / 1e9, **more.pop("summary", {})}
    return Profile(more.pop("name", "made"), "json", "", summary, cores=of.cores, timeline=of,
                   **more)
