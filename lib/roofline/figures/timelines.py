"""What ran when, and where the ledger put the time: the data behind the live timeline.

Question  which engine did what in which nanoseconds, and which cause of the gap lies there?
Answer    timeline(profile, ledger) -> Live: lanes to zoom and pan, causes in colour and pattern;
          stretches(capture) the same of one of which only merged stretches were kept
Assumes   whole ns; text of a profile is data: one line of printable characters, cut
Ignores   events shorter than a cell of a screen: a long profile's are merged, and it says so
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import units
from ..timeline import ENGINES, MATMUL, Instructions, Ints, Packets, Spans, Timeline
from .live import Live, to_json

if TYPE_CHECKING:
    from ..device import Condensed
    from ..gaps import Ledger, Row
    from ..profile import Profile

BUDGET = 40_000  # bytes of JSON that a figure may bring to its page
BLOCKS = 4_000   # more can never fit into it
NAMES = 60       # distinct opcodes, and source lines, that keep their name
Word = tuple[str, int, int]  # a name, one of the next line, percent of the lane's height
WORK, ISSUE, CONTROL, TRANSPOSE, LEVEL = range(5)  # what a block is; the page draws each its way
SHOWN = {"tensor": "Tensor", "vector": "Vector", "scalar": "Scalar", "gpsimd": "GpSimd",
         "sync": "Sync"}
# Each cause in the colour of what it has to do with; within a colour a pattern of its own.
FAMILIES = {
    "time": ("start", "fill", "idle", "tail", "end", "uncounted work", "rounding",
             "wait for the other core"),
    "tensor": ("pipeline", "transposes", "throttle", "dtype", "small tiles", "short moving",
               "weight load", "wait for tensor"),
    "dma": ("wait for DMA", "few engines", "packet cost", "packets", "DMA issue",
            "engines against the roof", "instruction fetch", "extra bytes", "DMA latency"),
    "vector": ("wait for vector",), "scalar": ("wait for scalar",),
    "gpsimd": ("wait for gpsimd",)}
_STYLE = {cause: (family, i) for family, causes in FAMILIES.items()
          for i, cause in enumerate(causes)}


def timeline(profile: Profile, ledger: Ledger | None = None) -> Live:
    """Lanes of every engine, DMA and throttling to zoom into, and the causes of the gap.

    profile   with a timeline; one that is a window of another shows its window
    ledger    of the same profile: its causes get a lane and a table whose rows point to it

    Raises ValueError for a profile without a timeline, or one with nothing in it, and for a ledger
    of another profile or window.
    """
    name, whole = _cut(profile.name), profile.timeline
    if whole is None:
        raise ValueError(f"figures.timeline: {name} holds a summary and no timeline. Read the "
                         "profile's json or parquet, which have one")
    t0, t1 = profile.span or (0, whole.end)
    if ledger is not None:
        _match(profile, whole, (t0, t1), ledger)
    lanes = _lanes(whole, t0, t1)
    if not lanes or t1 <= t0:
        raise ValueError(f"figures.timeline: {name}: nothing ran between {t0:,} and {t1:,} ns; "
                         "expected at least one instruction or packet")
    rows = [] if ledger is None else list(ledger.rows)
    pieces = [_pieces(row) for row in rows]
    causes = _cause_lanes(pieces, t0, t1)
    says = [_about(profile, whole, t0, t1), *([] if ledger is None else [_gap(ledger)])]
    if idle := sorted({*range(whole.cores)} - {*_drawn(whole)}):
        says.append(f"Core {' and '.join(map(str, idle))} did no work and is not drawn.")
    data: dict[str, Any] = {
        "says": says, "from": t0, "to": t1,
        "causes": [_cause(row, len(at)) for row, at in zip(rows, pieces, strict=True)],
        "title": f"Timeline of {name}, {profile.kind}"}

    @cache
    def fitted(cell: int) -> dict[str, Any] | None:
        """The data with cells of so many ns; None where that is too much for a page."""
        drawn = [(lane, lane.blocks(cell)) for lane in (*causes, *lanes)]
        if sum(len(block["start"]) for _, block in drawn) > BLOCKS:
            return None
        words: dict[Word, int] = {}
        lines: dict[str, int] = {"": 0}
        found = {**data, "lanes": [lane.packed(block, t0, words, lines) for lane, block in drawn],
                 "words": list(words), "lines": list(lines), "merged": _merging(drawn, cell)}
        return found if len(to_json(found)) <= BUDGET else None

    cells = [m * 10**k for k in range(len(str(t1 - t0))) for m in (1, 2, 3, 4, 5, 6, 8)]
    fits = bisect_left(cells, True, key=lambda cell: fitted(cell) is not None)
    found = fitted(cells[min(fits, len(cells) - 1)])
    if found is None:
        raise ValueError(f"figures.timeline: {name}: even in one piece it takes more than {BUDGET} "
                         "bytes. Show a window of it: profile.window(t0, t1)")
    of = f"{name}, {_ns(t0)} to {_ns(t1)}" if profile.span else name
    tables = [(f"Lanes of {of}: when each was busy", _lane_rows(lanes, t0, t1))]
    if ledger is not None:
        tables.insert(0, (f"The ledger of {of}: where T - T_best went", _ledger_rows(rows, pieces)))
    if profile.warnings:
        tables.append((f"Warnings of {of}", [["warning"],
                                    *([_cut(words, 300)] for words in profile.warnings[:8])]))
    words = [*says, *([found["merged"]] if found["merged"] else [])]
    return Live("timeline", found, "\n\n".join(words), tables,
                "a timeline to zoom into, event by event,")


def stretches(capture: Condensed, t0: int = 0, t1: int | None = None, *, lanes: Sequence[str] = (),
              causes: bool = False) -> Live:
    """Lanes of a capture that was merged into stretches, to zoom into.

    t0, t1   the window, ns; default the whole capture
    lanes    only these of its lanes
    causes   with those of its ledger: a lane and a table

    Raises ValueError where the window is none, or none of these lanes holds anything in it.
    """
    t1 = capture.end if t1 is None else t1
    name = _cut(capture.name)
    kept = [one for one in capture.of(*lanes) if one.start < t1 and one.end > t0]
    if not kept or not 0 <= t0 < t1 <= capture.end:
        raise ValueError(f"figures.stretches: {name}: nothing in {', '.join(lanes) or 'any lane'} "
                         f"from {t0:,} to {t1:,} ns; it lasts {capture.end:,} ns and has lanes "
                         f"{', '.join(dict.fromkeys(one.lane for one in capture.stretches))}")
    rows = list(capture.ledger.rows) if causes else []
    pieces = [_pieces(row) for row in rows]
    drawn = [*_cause_lanes(pieces, t0, t1), *_kept_lanes(kept)]
    words: dict[Word, int] = {}
    lines: dict[str, int] = {"": 0}
    packed = [lane.packed(lane.blocks(1), t0, words, lines) for lane in drawn]
    says = [capture.says, *([_gap(capture.ledger)] if causes else [])]
    data = {"says": says, "from": t0, "to": t1, "lanes": packed, "words": list(words),
            "lines": list(lines), "merged": "", "title": f"Timeline of {name}, published",
            "causes": [_cause(row, len(at)) for row, at in zip(rows, pieces, strict=True)]}
    of = name if (t0, t1) == (0, capture.end) else f"{name}, {_ns(t0)} to {_ns(t1)}"
    table = [["lane", "what", "start", "end", "length", "events", "every", "bytes"]]
    table += [[one.lane, one.what, _ns(one.start), _ns(one.end), _ns(one.end - one.start),
               f"{one.events:,}", _ns(one.step) if one.step else "",
               f"{one.nbytes:,} B" if one.nbytes else ""] for one in kept]
    if not any(one.nbytes for one in kept):
        table = [row[:-1] for row in table]
    tables = [(f"Stretches of {of}", table)]
    if causes:
        tables.insert(0, (f"The ledger of {of}: where T - T_best went", _ledger_rows(rows, pieces)))
    return Live("timeline", data, "\n\n".join(says), tables, "a timeline to zoom into")


def _kept_lanes(kept: Sequence[Any]) -> list[_Lane]:
    """Merged stretches by lane; each is drawn as what its events were."""
    kinds = {shown: engine for engine, shown in SHOWN.items()} | {
        "DMA": "dma", "Fetch": "fetch", "Throttle": "throttle"}
    found = []
    for name in dict.fromkeys(one.lane for one in kept):
        here = [one for one in kept if one.lane == name]
        each = [_stretch_word(one.lane, one.what, one.nbytes) for one in here]
        words = list(dict.fromkeys(each))
        column = {field: np.array([getattr(one, field) for one in here], np.int64)
                  for field in ("start", "end", "events")}
        found.append(_Lane(0, kinds[name], name, column["start"], column["end"],
                           np.array([words.index(word) for word in each]), words,
                           events=column["events"]))
    return found


def _stretch_word(lane: str, what: str, nbytes: int) -> Word:
    if lane == "Throttle":
        k, n = (int(text) for text in what.split() if text.isdigit())
        return (what, WORK if k < n else CONTROL, round(100 * k / n))
    kind = (TRANSPOSE if what.startswith("transpose") else ISSUE if what == "DMA issue" else WORK)
    return (_cut(what) + f", {nbytes:,} B" * bool(nbytes), kind, 100)


def _match(profile: Profile, whole: Timeline, shown: tuple[int, int], ledger: Ledger) -> None:
    """Raises ValueError where the ledger is not of this profile and window."""
    other = ledger.timeline
    same = (whole.cores, whole.end) == (other.cores, other.end) and all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in ("core", "start", "end")
        for a, b in ((whole.instructions, other.instructions), (whole.packets, other.packets)))
    if not same:
        raise ValueError(f"figures.timeline: {_cut(profile.name)}: the ledger is of another "
                         f"profile, {_cut(ledger.name)}. Make it of this one: gaps.ledger(profile, "
                         "machine, count)")
    window = ledger.window or (0, whole.end)
    if window != shown:
        raise ValueError(f"figures.timeline: {_cut(profile.name)}: shows {shown[0]:,} to "
                         f"{shown[1]:,} ns, and the ledger is of {window[0]:,} to {window[1]:,}. "
                         "Make both of profile.window(t0, t1)")


def _pieces(row: Row) -> Ints:
    """Stretches of a cause: (core, start, end) each."""
    return np.concatenate([np.zeros((0, 3), np.int64), *(
        np.column_stack([np.full(len(spans), core), spans.start, spans.end])
        for core, spans in row.spans.items())])


def _cut(text: str, most: int = 48) -> str:
    """One line of printable text."""
    line = "".join(c if c.isprintable() else " " for c in str(text)).strip()
    return line if len(line) <= most else line[:most - 1] + "\u2026"


def _text(values: NDArray[Any]) -> str:
    """Whole numbers in base 36, as the page's parseInt reads them; shorter than JSON's own."""
    return " ".join(np.base_repr(value, 36) for value in values.tolist()).lower()


def _ns(value: float) -> str:
    """Nanoseconds: whole ones of the timeline, a ledger's to a tenth."""
    shown = f"{value:,.1f}".removesuffix(".0")
    return f"{'0' if shown == '-0' else shown} ns"


def _share(share: float) -> str:
    return f"{units.significant(100 * share)} %"


def _of_gap(row: Row) -> str:
    """A row's share; "" where the gap is 0 or negative, of which it would say nothing."""
    return _share(row.share) if row.share * row.time > 0 else ""


# --- words and tables ----------------------------------------------------------------------------


def _about(profile: Profile, whole: Timeline, t0: int, t1: int) -> str:
    kind = {"measured": "A measured", "modelled": "A modelled"}.get(profile.kind, "A")
    ran = f"core{'s' * (whole.cores > 1)} worked"
    part = f" from {_ns(t0)} to {_ns(t1)}, a part of its {_ns(whole.end)}" if profile.span else (
        f": {_ns(whole.end)}")
    return (f"{kind} profile, {_cut(profile.name)}{part}. {len(whole.working)} of {whole.cores} "
            f"{ran}; {len(whole.instructions):,} instructions and {len(whole.packets):,} DMA "
            "packets are recorded.")


def _gap(ledger: Ledger) -> str:
    largest = sorted(ledger.rows, key=lambda row: -row.time)[:3]
    head = f"T is {_ns(ledger.t)}, T_best {_ns(ledger.t_best)}"
    if ledger.gap <= 0:
        return f"{head}: nothing is lost against this roof, {_ns(-ledger.gap)} are gained."
    return (f"{head}, so {_ns(ledger.gap)} are to be explained. Most of it: " + ", ".join(
        f"{row.cause} {_ns(row.time)} ({_share(row.share)})" for row in largest) + ".")


def _cause(row: Row, pieces: int) -> dict[str, Any]:
    family, pattern = _STYLE.get(row.cause, ("time", 7))
    return {"name": _cut(row.cause), "time": _ns(row.time), "share": _of_gap(row),
            "what": _cut(row.what, 240), "try": _cut(row.try_, 240), "family": family,
            "pattern": pattern, "pieces": pieces}


def _ledger_rows(rows: Sequence[Row], pieces: Sequence[Ints]) -> list[list[str]]:
    found = [["cause", "time", "of the gap", "stretches", "longest stretch", "what", "try"]]
    for row, at in zip(rows, pieces, strict=True):
        where = "nowhere on the timeline"
        if len(at):
            core, start, end = at[np.argmax(at[:, 2] - at[:, 1])]
            where = f"core {core}, {_ns(start)} to {_ns(end)}"
        found.append([_cut(row.cause), _ns(row.time), _of_gap(row), f"{len(at):,}", where,
                      _cut(row.what, 240), _cut(row.try_, 240)])
    return found


def _lane_rows(lanes: Sequence[_Lane], t0: int, t1: int) -> list[list[str]]:
    found = [["core", "lane", "rows", "busy", "of the time", "first start", "last end"]]
    for lane in lanes:
        works = ~np.isin(lane.of, (ISSUE, CONTROL))
        start, end = lane.start[works], lane.end[works]
        busy = Spans.of(np.maximum(start, t0), np.minimum(end, t1)).length
        first, last = ((_ns(start.min()), _ns(end.max())) if start.size else ("", ""))
        found.append([str(lane.core), lane.name, f"{len(lane.start):,}", _ns(busy),
                      _share(busy / (t1 - t0)), first, last])
    return found


def _merging(drawn: Sequence[tuple[_Lane, dict[str, Any]]], cell: int) -> str:
    """What was merged, in words; "" where every event is its own block."""
    rows = sum(len(lane.start) for lane, _ in drawn)
    blocks = sum(len(block["start"]) for _, block in drawn)
    if cell == 1:
        return ""
    return (f"To fit a page, what is shorter than {_ns(cell)} and starts in the same {_ns(cell)} "
            f"is drawn as one block of its lane: {rows:,} rows became {blocks:,}. A window of the "
            "profile shows more.")


# --- lanes ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Lane:
    """One row of the drawing: events in order of start.

    kind    an engine, "dma", "fetch", "throttle" or "cause"
    what    each event's index into `words`
    words   what it is called, what it is and how high it is drawn; empty for causes
    line    each event's index into `lines`, the source lines
    nbytes  of packets: bytes each carries; they are drawn as how many are under way
    events  how many each one was before it was merged; None: one
    """

    core: int
    kind: str
    name: str
    start: Ints
    end: Ints
    what: NDArray[Any]
    words: Sequence[Word] = ()
    line: NDArray[Any] | None = None
    lines: Sequence[str] = ()
    nbytes: Ints | None = None
    events: Ints | None = None

    @property
    def of(self) -> NDArray[Any]:
        """WORK ... LEVEL, of each event; of a cause LEVEL."""
        return np.array([of for _, of, _ in self.words] or [LEVEL])[self.what if self.words else
                                                                     np.zeros_like(self.what)]

    def blocks(self, cell: int) -> dict[str, Any]:
        """Columns of what is drawn when nothing finer than `cell` ns is."""
        if self.nbytes is not None:
            return _levels(self.start, self.end, self.nbytes, cell)
        # Merged, a block has the looks of what most of it is; control stays apart from work.
        group = self.what if self.kind in ("cause", "throttle") else self.of == CONTROL
        found = _merged(self.start, self.end, group, self.what, cell)
        if self.events is not None:
            found["n"] = self.events[found["row"]]
        if self.line is not None:
            found["line"] = np.where(found["n"] == 1, self.line[found["row"]], 0)
        if self.kind == "cause":
            found["band"] = _bands(found["start"], found["end"])
        return found

    def packed(self, block: dict[str, Any], t0: int, words: dict[Word, int],
               lines: dict[str, int]) -> dict[str, Any]:
        """The lane for its page: starts as steps, columns that say nothing left out.

        words, lines   those of all lanes, and their places: this one's are added
        """
        start, long = block["start"], block["end"] - block["start"]
        found: dict[str, Any] = {
            "core": self.core, "kind": self.kind, "name": self.name,
            "start": _text(np.diff(start, prepend=t0)), "long": _text(long)}
        if "n" in block and (block["n"] > 1).any():
            share = np.rint(100 * block["busy"] / np.maximum(long, 1)).astype(int)
            found |= {"n": _text(block["n"]),
                      "busy": _text(np.where(block["n"] > 1, np.maximum(share, 1), 0))}
        if self.words:
            block = {**block, "what": _placed(block["what"], self.words, words)}
        if self.line is not None:
            block = {**block, "line": _placed(block["line"], self.lines, lines)}
        for name in ("what", "band", "line", "level", "packets", "bytes"):
            if name in block and block[name].any():
                found[name] = _text(block[name])
        return found


def _placed(column: NDArray[Any], names: Sequence[Any], places: dict[Any, int]) -> NDArray[Any]:
    """Indices into `names` as places among all that are used anywhere."""
    used, which = np.unique(column, return_inverse=True)
    return np.array([places.setdefault(names[i], len(places)) for i in used.tolist()])[which]


def _lanes(whole: Timeline, t0: int, t1: int) -> list[_Lane]:
    """Those in which anything happens between t0 and t1, core by core."""
    own, packets, slow = whole.instructions, whole.packets, whole.throttles
    own = own.take(_within(own.start, own.end, t0, t1))
    packets = packets.take(_within(packets.start, packets.end, t0, t1))
    slow = slow.take(_within(slow.start, slow.end, t0, t1))
    lanes = []
    for core in _drawn(whole):
        here = own.take(own.core == core) if whole.cores > 1 else own
        lanes += list(_engines(core, here)) + list(_packets(core, packets))
        k, n = slow.k[slow.core == core], slow.n[slow.core == core]
        pairs = list(dict.fromkeys(zip(k.tolist(), n.tolist(), strict=True)))[:NAMES]
        if pairs:
            what = np.zeros(len(k), int)
            for i, (a, b) in enumerate(pairs):
                what[(k == a) & (n == b)] = i
            lanes.append(_Lane(
                core, "throttle", "Throttle", slow.start[slow.core == core],
                slow.end[slow.core == core], what,
                [(f"{a} of {b} cycles", WORK if a < b else CONTROL,
                  round(100 * min(max(a / b, 0), 1)) if b > 0 else 100) for a, b in pairs]))
    return lanes


def _drawn(whole: Timeline) -> Sequence[int]:
    """The cores that worked; all of them where none did."""
    return whole.working or range(whole.cores)


def _within(start: Ints, end: Ints, t0: int, t1: int) -> NDArray[np.bool_]:
    return (start < t1) & ((end > t0) | ((start == end) & (start >= t0)))


def _engines(core: int, own: Instructions) -> Iterator[_Lane]:
    opcodes, names = _named(own.opcode, own.opcodes, "another opcode")
    lines, places = _named(own.line, own.lines, "")
    kind = np.select([own.transpose & own.is_opcode(MATMUL), own.issues, ~own.works],
                     [TRANSPOSE, ISSUE, CONTROL], WORK)
    for i, engine in enumerate(ENGINES):
        here = own.engine == i
        if here.any():
            # A word for each pair of opcode and kind: a matmul may be a transpose.
            pairs, what = np.unique(opcodes[here] * 5 + kind[here], return_inverse=True)
            yield _Lane(core, engine, SHOWN[engine], own.start[here], own.end[here], what,
                        [(names[pair // 5], pair % 5, 35 if pair % 5 == CONTROL else 100)
                         for pair in pairs.tolist()], lines[here], places)


def _named(column: NDArray[Any], names: Sequence[str], other: str
           ) -> tuple[NDArray[Any], list[str]]:
    """A column of indices into the names that occur most, cut; the rest is `other`, index 0."""
    counts = np.bincount(column, minlength=len(names))
    kept = [int(i) for i in np.argsort(-counts, kind="stable")[:NAMES] if counts[i] and names[i]]
    place = np.zeros(max(len(names), 1), int)
    place[kept] = np.arange(1, len(kept) + 1)
    return place[column], [other, *(_cut(names[i]) for i in kept)]


def _packets(core: int, packets: Packets) -> Iterator[_Lane]:
    """Traffic of all queues and engines together, then instruction fetch and semaphores."""
    for kind, name, which in (("dma", "DMA", packets.traffic),
                              ("fetch", "DMA, other", ~packets.traffic)):
        here = which & (packets.core == core)
        if here.any():
            yield _Lane(core, kind, name, packets.start[here], packets.end[here],
                        np.zeros(int(here.sum()), int), nbytes=packets.nbytes[here])


def _cause_lanes(pieces: Sequence[Ints], t0: int, t1: int) -> list[_Lane]:
    """Per core, the stretches (core, start, end) of every row of a ledger."""
    what = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
    core, start, end = np.concatenate([np.zeros((0, 3), np.int64), *pieces]).T
    order = np.argsort(start, kind="stable")
    kept = order[_within(start, end, t0, t1)[order]]
    lanes = []
    for c in np.unique(core[kept]).tolist():
        here = kept[core[kept] == c]
        lanes.append(_Lane(c, "cause", "Causes", start[here], end[here], what[here]))
    return lanes


# --- blocks --------------------------------------------------------------------------------------


def _merged(start: Ints, end: Ints, group: NDArray[Any], what: NDArray[Any], cell: int
            ) -> dict[str, NDArray[Any]]:
    """Events of `cell` ns and more as they are; shorter ones of a group and a cell as one.

    start, end   of the block       n      how many it is
    row          its first event    busy   ns of the union of its events
    what         what most of them are
    """
    run = np.where(end - start < cell, start // cell, -1)
    order = np.lexsort((start, group, run))
    run, group = run[order], group[order]
    opens = np.r_[True, (run[1:] != run[:-1]) | (group[1:] != group[:-1])] | (run < 0)
    opens = np.flatnonzero(opens[:len(order)])
    n = np.diff(np.r_[opens, len(order)])
    if not len(order):
        return {name: order for name in ("start", "end", "row", "n", "busy", "what")}
    start, end, what = start[order], end[order], what[order]
    # The union of each block: what an event adds to the latest end before it in its block.
    block = np.repeat(np.arange(len(n)), n)
    lift = block * (int(end.max()) - int(start.min()) + 1)
    before = np.r_[np.iinfo(np.int64).min // 2, np.maximum.accumulate(end + lift)[:-1]] - lift
    adds = np.maximum(end - np.maximum(start, before), 0)
    # The most frequent of its words, the first of equals.
    words = int(what.max()) + 1
    pairs, times = np.unique(block * words + what, return_counts=True)
    best = np.lexsort((-pairs, times, pairs // words))[
        np.searchsorted(pairs // words, np.arange(len(n)), "right") - 1]
    found = {"start": start[opens], "end": np.maximum.reduceat(end, opens), "row": order[opens],
             "n": n, "busy": np.add.reduceat(adds, opens), "what": pairs[best] % words}
    place = np.argsort(found["start"], kind="stable")
    return {name: column[place] for name, column in found.items()}


def _levels(start: Ints, end: Ints, nbytes: Ints, cell: int) -> dict[str, NDArray[Any]]:
    """Stretches between which the number of packets under way changes, no finer than `cell`.

    level     tenths of packets under way, the mean of the stretch
    packets   how many start in it      bytes   what these carry
    """
    end = np.maximum(end, start + 1)  # one without a length is drawn as 1 ns
    # One grid from 0 holds every start (rounded down) and every end (rounded up).
    edges = np.unique(np.concatenate([start // cell * cell, -(-end // cell) * cell,
                                      (start // cell + 1) * cell if cell > 1 else start]))

    def before(times: Ints, edge: Ints) -> Ints:
        """At each edge: ns since each of these times that came before it, summed."""
        ordered = np.sort(times)
        at = np.searchsorted(ordered, edge)
        return edge * at - np.r_[0, np.cumsum(ordered)][at]

    area = np.diff(before(start, edges) - before(end, edges))
    order = np.argsort(start, kind="stable")
    at = np.searchsorted(start[order], edges)
    held = np.r_[0, np.cumsum(nbytes[order])]
    left, right = edges[:-1], edges[1:]
    found = {"start": left, "end": right, "packets": np.diff(at), "bytes": np.diff(held[at]),
             "level": np.rint(10 * area / np.maximum(right - left, 1)).astype(np.int64)}
    kept = (area > 0) | (found["packets"] > 0)
    return {name: column[kept] for name, column in found.items()}


def _bands(start: Ints, end: Ints) -> NDArray[Any]:
    """The first free one of several bands for each stretch, so that none covers another."""
    ends: list[int] = []
    found = []
    for s, e in zip(start.tolist(), end.tolist(), strict=True):
        band = next((i for i, last in enumerate(ends) if last <= s), len(ends))
        ends[band:band + 1] = [e]
        found.append(band)
    return np.array(found, int)
