"""A loop nest as text, and the bytes that it moves.

Question  in this loop order, with these tiles held, how often does each operand cross HBM?
Answer    Nest(op, "m128 n512 C k128 A B"): r_A, r_B, what is resident, the achieved Count
Assumes   code runs as written: a load runs each time its place in the nest is reached; sums are
          kept in fp32; what leaves HBM once stays until its loop is over
Ignores   time, the order of a store and the next load, what a compiler moves; what attention
          with a loop over j outside A needs besides: maxima and sums of an online softmax
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import units
from ..count import Count, Uncounted
from ..table import Told, aligned

if TYPE_CHECKING:
    from ..ops import Op  # same layer: a value that is passed in

SUM_BYTES = 4  # partial sums are fp32, on chip and where they spill
WHOLE = {"Softmax": "c"}  # the sum over this loop is used in the same pass: rows are there whole


class NestError(Told, ValueError):
    """A nest that says nothing, or that does not do the op's work."""


class Operand(NamedTuple):
    """A tensor of an op as its loops see it.

    dims    the loops that move through it; any other loop reuses it
    role    "in", "out", or "kept": made and used on chip, it never crosses
    size    bytes of an element
    sums    an output that adds up over a loop: fp32 on chip, in PSUM
    """

    dims: tuple[str, ...]
    dtype: str
    role: str
    size: int
    sums: bool = False

    @property
    def held_size(self) -> int:
        """Bytes of an element on chip."""
        return SUM_BYTES if self.sums else self.size


class Loop(NamedTuple):
    dim: str
    step: int


class Hold(NamedTuple):
    """A tensor's place in the nest: here its block is loaded, or its sums are opened.

    level   0: comes from HBM; 1: from the block of the same tensor further out; and so on
    """

    name: str
    level: int


class Row(NamedTuple):
    """One line of the nest that moves a block.

    memory       where the block is held
    block        its largest extent, in elements
    bytes        that it takes there
    runs         times the line runs
    times        times each byte of the tensor passes the line
    read_bytes, write_bytes   over all runs; from and to HBM at level 0
    """

    name: str
    level: int
    memory: str
    block: tuple[int, ...]
    bytes: int
    runs: int
    times: int
    read_bytes: int
    write_bytes: int

    @property
    def moves(self) -> str:
        """What each byte does here: "read 4 x"; "written 8 x, read 7 x" of sums that spill."""
        out = bool(self.write_bytes)
        done = [f"written {self.times} x"] * out
        if self.read_bytes:
            done.append(f"read {self.times - out} x")
        return ", ".join(done) or "stays"


class Rows(tuple[Row, ...]):
    """What is resident, and what that costs; shown as a table."""

    def cells(self, size: Callable[[int], str]) -> list[list[str]]:
        """The table's text, its head first; `size` writes the bytes that are moved: over HBM, or on
        chip, for a block of a block."""
        return [["tensor", "held in", "block", "takes", "runs", "each byte", "read", "written"],
                *([r.name, r.memory, " x ".join(map(str, r.block)), units.mebi(r.bytes),
                   f"{r.runs:,}", r.moves + ", on chip" * bool(r.level), size(r.read_bytes),
                  size(r.write_bytes)] for r in self)]

    def __repr__(self) -> str:
        return "\n".join(aligned(self.cells(lambda n: f"{n:,} B"), left=(0, 1, 2, 5)))


def spaces(op: Any) -> tuple[dict[str, int], dict[str, Operand]]:
    """The loops an op of `ops` can have, with their sizes, and its tensors by name.

    Raises NestError for what is no op, Uncounted for an op without loops.
    """
    if isinstance(op, type) or not hasattr(op, "DIMS"):
        raise NestError(f"loopnest: got {op!r} for the op; expected one of roofline.ops with its "
                        "sizes, such as ops.Matmul(1280, 512, 2048)")
    sizes, dims = op.loops, op.DIMS
    tensors = [t for t in op.tensors if t.reads or t.writes or t.name in dims]

    def known(t: Any) -> bool:  # the whole product of its loops, and it goes one way
        return (t.name in dims and t.elements == math.prod(sizes[d] for d in dims[t.name])
                and not (t.reads and t.writes))

    if not sizes or not all(map(known, tensors)):
        raise Uncounted(
            f"loopnest: no loops are known for {op!r}. Known: Matmul, Linear, Elementwise of "
            "one input, Softmax, MLP with k = 0, one head of Attention with k = 0; a chain of "
            "kernels is the sum of its nests' counts")
    return sizes, {t.name: Operand(
        tuple(dims[t.name]), t.dtype, "out" if t.writes else "in" if t.reads else "kept",
        replace(t, elements=1, reads=1, writes=0).read_bytes,
        bool(t.writes) and len(dims[t.name]) < len(sizes))
        for t in tensors}


Item = Loop | Hold | tuple  # a tuple: parts that run one after the other


@dataclass(frozen=True, repr=False)
class Nest:
    """An op's loops, outer to inner, and where each tensor is loaded.

    op         one of ops; its W is the nest's W
    text       "m128": a loop over m in steps of 128; the last step takes what is left, so that a
               step past the size is one step. "A": here the block of A that the loops before
               it have chosen is loaded, and stays while what follows runs. An output's name
               stands where its sums are opened; they leave when what follows is done. A name again
               further in: a block of that block, in the next memory. Parts in parentheses
               share the loops before them and run one after the other.
    memories   names of the memories, from the first after HBM; without any those of a NeuronCore:
               inputs in SBUF, then the Tensor Engine; sums in PSUM, before that SBUF; other
               outputs in SBUF

    >>> from roofline.ops import Matmul
    >>> Nest(Matmul(M=1280, K=512, N=2048), "m128 n512 C k128 A B").reloads
    {'C': 1, 'A': 4, 'B': 10}

    Raises NestError for text that is no nest of this op, Uncounted for an op without loops.
    """

    op: "Op"
    text: str
    memories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise NestError(f"Nest: got {self.text!r} for the text; expected loops and tensors in "
                            "one string, such as 'm128 n512 C k128 A B'")
        if isinstance(self.memories, str):
            raise NestError(f"Nest: got {self.memories!r} for the memories; expected a tuple of "
                            f"names, such as ({self.memories!r},)")
        self._check()
        rows = self.resident  # too many places for a tensor
        if not rows_whole(self.op, [r.block for r in rows]):
            dim = WHOLE[type(self.op).__name__]
            raise NestError(f"{self.text!r}: no tensor has a whole row on chip, so its sum is not "
                            f"known when it is needed. Put the loops over {dim} after x or y")

    def _check(self) -> None:
        """Whether loops and tensors stand where the op can use them."""
        shared = [item for item in self.items if isinstance(item, Loop | Hold)]
        parts = self.items[-1] if len(shared) < len(self.items) else ()
        kept = [name for name, operand in self._tensors.items() if operand.role == "kept"]
        op = type(self.op).__name__
        if not kept and parts:
            raise NestError(f"{self.text!r}: {op} has no parts that run one after the other. Take "
                            "the parentheses out")
        if not kept:
            return
        link = kept[0]  # the product before it makes it, the one after it uses it
        if parts and len(parts) != 2:
            raise NestError(f"{self.text!r}: {len(parts)} parts; {op} has 2: one makes "
                            f"{link}, the next uses it")
        once = self._tensors[link].dims
        for item in shared:
            if isinstance(item, Loop) and item.dim not in once:
                raise NestError(
                    f"{self.text!r}: the loop over {item.dim} stands outside the parts, so W would "
                    f"grow: {link} has {' and '.join(once)} alone. Put it in its part")
        order = list(self._tensors)
        for i, part in enumerate(parts):
            own = order[:order.index(link)] if i == 0 else order[order.index(link) + 1:]
            dims = {dim for name in (link, *own) for dim in self._tensors[name].dims}
            for item in part:
                if not isinstance(item, Loop | Hold):
                    raise NestError(f"{self.text!r}: a part in a part; {op} has 2, side by side")
                if isinstance(item, Hold) and item.name not in own:
                    where = "before both" if item.name == link else f"in part {2 - i}, or before it"
                    raise NestError(f"{self.text!r}: {item.name} stands in part {i + 1}, which "
                                    f"cannot hold it. Put it {where}")
                if isinstance(item, Loop) and item.dim not in dims:
                    raise NestError(f"{self.text!r}: part {i + 1} has no loop over {item.dim}; it "
                                    f"has {', '.join(d for d in self.sizes if d in dims)}")

    @cached_property
    def _space(self) -> tuple[dict[str, int], dict[str, Operand]]:
        return spaces(self.op)

    @property
    def sizes(self) -> dict[str, int]:
        """Size of each loop's dim, in elements."""
        return self._space[0]

    @property
    def _tensors(self) -> dict[str, Operand]:
        return self._space[1]

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """The parsed text: Loop, Hold, and a tuple of parts at the end where there are some."""
        tokens = re.findall(r"[()]|[^\s()]+", self.text)
        items = self._group(tokens, {})
        if tokens:
            raise NestError(f"{self.text!r}: a ')' too many")
        lost = [name for name in self._tensors if not any(h.name == name for h, _ in _holds(items))]
        if lost:
            raise NestError(f"{self.text!r}: no place for {', '.join(lost)}. Put each name where "
                            "its load stands; an output's where its sums are opened")
        return items

    def _group(self, tokens: list[str], levels: Mapping[str, int]) -> tuple[Item, ...]:
        found: list[Item] = []
        parts: list[tuple[Item, ...]] = []
        levels = dict(levels)
        while tokens and tokens[0] != ")":
            token = tokens.pop(0)
            if token == "(":
                parts.append(self._group(tokens, levels))
                if not tokens:
                    raise NestError(f"{self.text!r}: a '(' is not closed")
                tokens.pop(0)
            elif parts:
                raise NestError(f"{self.text!r}: {token!r} stands after a part; loops and names "
                                "that parts share come before them")
            elif token in self._tensors:
                found.append(Hold(token, levels.get(token, 0)))
                levels[token] = levels.get(token, 0) + 1
            else:
                found.append(self._loop(token))
        return (*found, tuple(parts)) if parts else tuple(found)

    def _loop(self, token: str) -> Loop:
        match = re.fullmatch(r"([a-z])([1-9]\d*)", token)
        if not match and re.fullmatch(r"[a-z]0+", token) and token[0] in self.sizes:
            raise NestError(f"{self.text!r}: got {token!r}; a step is at least 1")
        if not match and re.fullmatch(r"[A-Z]\d+", token) and token[0].lower() in self.sizes:
            raise NestError(f"{self.text!r}: got {token!r}; loops are lower case: {token.lower()}")
        if not match or match[1] not in self.sizes:
            raise NestError(
                f"{self.text!r}: got {token!r}; expected a loop with its step, such as "
                f"{next(iter(self.sizes))}128 (loops: {', '.join(self.sizes)}), or a tensor "
                f"({', '.join(self._tensors)})")
        return Loop(match[1], int(match[2]))

    # --- what is where, and what it moves ------------------------------------------------------

    @cached_property
    def resident(self) -> Rows:
        """Each line that moves a block: where it is held, how large, how often, its bytes."""
        return Rows(self._row(hold, path) for hold, path in _holds(self.items))

    def _row(self, hold: Hold, path: tuple[Loop, ...]) -> Row:
        operand = self._tensors[hold.name]
        chunks = {dim: _chunks(full, [step for d, step in path if d == dim])
                  for dim, full in self.sizes.items()}
        steps = {dim: sum(of.values()) for dim, of in chunks.items()}
        block = tuple(max(chunks[dim]) for dim in operand.dims)
        times = math.prod(n for dim, n in steps.items() if dim not in operand.dims)
        n = math.prod(self.sizes[dim] for dim in operand.dims)
        read = written = 0
        if operand.role == "in":
            read = times * n * operand.size
        elif operand.role == "out":
            # Each visit but the last leaves partial sums; each but the first fetches them.
            read = (times - 1) * n * SUM_BYTES
            last = SUM_BYTES if hold.level else operand.size
            written = read + n * last
        taken = math.prod(block) * operand.held_size
        return Row(hold.name, hold.level, self._memory(hold), block, taken,
                   math.prod(steps.values()), times, read, written)

    def _memory(self, hold: Hold) -> str:
        depth = 1 + max(h.level for h, _ in _holds(self.items) if h.name == hold.name)
        names = self.memories
        if not names:
            operand = self._tensors[hold.name]
            names = ("SBUF", "PSUM")[-depth:] if operand.sums else (
                ("SBUF", "Tensor Engine") if operand.role == "in" else ("SBUF",))
        if depth > len(names):
            raise NestError(f"{self.text!r}: {hold.name} stands {depth} times; there are "
                            f"{len(names)} memories for it: {', '.join(names)}")
        return names[hold.level]

    @property
    def reloads(self) -> dict[str, int]:
        """Times each byte crosses HBM: inputs read, outputs written; 1 is the least.

        An output that is written more than once is partial sums, in fp32, that are read back too:
        written 8 times, they are read 7 times.
        """
        return {r.name: r.times for r in self.resident
                if not r.level and self._tensors[r.name].role != "kept"}

    @property
    def r_A(self) -> int:
        """Reloads of A, of a Matmul."""
        return self._reload("A")

    @property
    def r_B(self) -> int:
        """Reloads of B, of a Matmul."""
        return self._reload("B")

    def _reload(self, name: str) -> int:
        if name not in self.reloads:
            raise NestError(f"r_{name}: {type(self.op).__name__} has no {name}; `reloads` has "
                            f"{', '.join(self.reloads)}")
        return self.reloads[name]

    @property
    def achieved(self) -> Count:
        """W of the op, and the HBM bytes of this nest."""
        rows = [r for r in self.resident if not r.level]
        return Count(self.op.work, sum(r.read_bytes for r in rows),
                     sum(r.write_bytes for r in rows))

    @property
    def held(self) -> dict[str, int]:
        """Memory -> most bytes that are resident in it at once; one buffer a tensor.

        With the sums of what is kept, while a loop over its contraction leaves them open.
        """
        return _peak(self.items, {(r.name, r.level): r for r in self.resident}, self.open_sums)

    @cached_property
    def open_sums(self) -> tuple[str, int, Loop | None]:
        """Sums of what is kept that a loop of part 1 leaves open: (memory, bytes, the loop);
        0 and None where each step makes whole sums."""
        memory = (*self.memories, "PSUM")[0]
        if isinstance(self.items[-1], Loop | Hold):
            return memory, 0, None
        own = next(operand.dims for operand in self._tensors.values() if operand.role == "kept")
        loops = [item for item in self.items if isinstance(item, Loop)]
        for item in self.items[-1][0]:
            if not isinstance(item, Loop):
                continue
            chunks = {dim: _chunks(full, [step for d, step in loops if d == dim])
                      for dim, full in self.sizes.items()}
            if item.dim not in own and max(chunks[item.dim]) > item.step:
                return memory, math.prod(max(chunks[dim]) for dim in own) * SUM_BYTES, item
            loops.append(item)
        return memory, 0, None

    def resident_bytes(self, memory: str = "SBUF") -> int:
        """Most bytes of `memory` that are held at once.

        Raises NestError for a memory that the nest cannot have.
        """
        known = self.memories or ("SBUF", "PSUM", "Tensor Engine")
        if memory not in known:
            raise NestError(f"{self.text!r}: got {memory!r} for a memory; expected one of "
                            f"{', '.join(known)}")
        return self.held.get(memory, 0)

    def fits(self, **buffers: int) -> bool:
        """Whether what is resident fits: fits(SBUF=28 * 2**20, PSUM=2 * 2**20), in bytes."""
        for name, size in buffers.items():
            if not isinstance(size, int | float):
                raise NestError(f"fits: {name}: got {size!r}; expected bytes, such as 28 * 2**20")
        return all(self.resident_bytes(name) <= size for name, size in buffers.items())

    # --- running it ------------------------------------------------------------------------------

    def walk(self) -> Iterator["Event"]:
        """Everything that happens, in order: loads, stores, and the steps of the innermost loop.

        As long as the loops are: for small nests.
        """
        lines: dict[tuple[str, object], int] = {
            (line.kind, line.item or line.part): i for i, line in enumerate(self.listing)}
        return _run(self, self.items, {dim: (0, n) for dim, n in self.sizes.items()}, Counter(),
                    lines, None)

    def __repr__(self) -> str:
        count = self.achieved
        total = f"{units.show(count.hbm_bytes, 'B')}, I {units.show(count.intensity, 'FLOP/B')}"
        again = ", ".join(f"{r.name} {r.moves}" for r in self.resident if r.name in self.reloads
                          and not r.level)
        held = ", ".join(f"{units.mebi(n)} of {memory}" for memory, n in self.held.items())
        return "\n".join([f"{self.op!r}", *self.lines(),
                          f"crosses HBM: {again}; Q {total}", f"resident at most: {held}"])

    def lines(self) -> list[str]:
        """The nest as indented lines of pseudo-code."""
        return ["  " * sum(self.listing[i].kind == "loop" for i in line.path) + line.words
                for line in self.listing]

    @cached_property
    def listing(self) -> tuple["Line", ...]:
        """What each of `lines` is."""
        found: list[Line] = []
        _list(self, self.items, {(r.name, r.level): r for r in self.resident}, (), None, {}, found)
        return tuple(found)


class Line(NamedTuple):
    """A line of the nest as code.

    kind   "loop", "load", "keep", "store", or "step": the innermost work
    item   the loop, or the tensor's place; None for a step
    path   numbers of the lines around it: loops, and blocks that stay while it runs
    part   0 or 1 in a part, else None
    """

    kind: str
    item: Loop | Hold | None
    path: tuple[int, ...]
    part: int | None
    words: str


class Event(NamedTuple):
    """One thing that a nest does.

    kind     "load", "store" or "step" (the innermost work)
    name     the tensor; "" for a step
    level    0: over HBM
    where    dim -> (start, stop) of the block, or of the step
    bytes    moved; 0 for a step, and for opening sums that are new
    line     number of its line in Nest.lines
    """

    kind: str
    name: str
    level: int
    where: dict[str, tuple[int, int]]
    bytes: int
    line: int


def _chunks(size: int, steps: list[int]) -> Counter[int]:
    """How the loops over one dim cut it up at last: {length: how many}."""
    found = Counter({size: 1})
    for step in steps:
        cut: Counter[int] = Counter()
        for length, n in found.items():
            whole, rest = divmod(length, step)
            cut[step] += n * whole
            cut[rest] += n
        del cut[0]
        found = +cut
    return found


def _holds(items: tuple[Item, ...], path: tuple[Loop, ...] = ()
           ) -> Iterator[tuple[Hold, tuple[Loop, ...]]]:
    """Each Hold with the loops around it."""
    for item in items:
        if isinstance(item, Loop):
            path = (*path, item)
        elif isinstance(item, Hold):
            yield item, path
        else:
            for part in item:
                yield from _holds(part, path)


def rows_whole(op: Any, blocks: Iterable[tuple[int, ...]]) -> bool:
    """Whether some block has its rows whole, where the op (a softmax) needs that."""
    dim = WHOLE.get(type(op).__name__)
    return not dim or any(block[-1] == op.loops[dim] for block in blocks)


def _peak(items: tuple[Item, ...], rows: Mapping[tuple[str, int], Row],
          sums: tuple[str, int, Loop | None]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for item in items:
        if isinstance(item, Hold):
            total[rows[item].memory] += rows[item].bytes
        elif not isinstance(item, Loop):
            # one after the other: the largest counts
            parts = [Counter(_peak(part, rows, sums)) for part in item]
            parts[0][sums[0]] += sums[1]
            for memory in dict.fromkeys(m for part in parts for m in part):
                total[memory] += max(part[memory] for part in parts)
    return dict(+total)


def _run(nest: Nest, items: tuple[Item, ...], at: dict[str, tuple[int, int]],
         seen: Counter[tuple[object, ...]], lines: Mapping[tuple[str, object], int],
         part: int | None) -> Iterator[Event]:
    if not items:
        yield Event("step", "", 0, dict(at), 0, lines["step", part])
        return
    first, *rest = items
    if isinstance(first, Loop):
        start, stop = at[first.dim]
        for here in range(start, stop, first.step):
            yield from _run(nest, tuple(rest),
                            {**at, first.dim: (here, min(here + first.step, stop))}, seen,
                            lines, part)
    elif isinstance(first, Hold):
        operand = nest._tensors[first.name]
        where = {dim: at[dim] for dim in operand.dims}
        n = math.prod(stop - start for start, stop in where.values())
        key = (first, *where.values())
        total = math.prod(sum(_chunks(nest.sizes[dim], [
            step for d, step in _path(nest.items, first) if d == dim]).values())
            for dim in nest.sizes if dim not in operand.dims)
        if operand.role == "in":
            yield Event("load", *first, where, n * operand.size, lines["load", first])
        elif operand.role == "out":
            yield Event("load", *first, where, n * SUM_BYTES if seen[key] else 0,
                        lines["load", first])
        yield from _run(nest, tuple(rest), at, seen, lines, part)
        seen[key] += 1
        if operand.role == "out":
            last = seen[key] == total and not first.level
            yield Event("store", *first, where, n * (operand.size if last else SUM_BYTES),
                        lines["store", first])
    else:
        for i, some in enumerate(first):
            yield from _run(nest, some, at, seen, lines, i)


def _path(items: tuple[Item, ...], hold: Hold) -> tuple[Loop, ...]:
    return next(path for found, path in _holds(items) if found == hold)


def _list(nest: Nest, items: tuple[Item, ...], rows: Mapping[tuple[str, int], Row],
          path: tuple[int, ...], part: int | None, cut: Mapping[str, tuple[int, ...]],
          found: list[Line]) -> None:
    if not items:
        found.append(Line("step", None, path, part, "multiply"))
        return
    first, rest, inner = items[0], items[1:], (*path, len(found))
    if isinstance(first, Loop):
        steps = (*cut.get(first.dim, ()), first.step)
        before, after = (_chunks(nest.sizes[first.dim], list(some))
                         for some in (steps[:-1], steps))
        most = -(-max(before) // first.step)
        same = after.total() == most * before.total()
        words = (f"for {first.dim} in {'' if same else 'up to '}{most} step{'s' * (most > 1)} "
                 f"of {'' if len(after) == 1 else 'up to '}{max(after)}:")
        found.append(Line("loop", first, path, part, words))
        _list(nest, rest, rows, inner, part, {**cut, first.dim: steps}, found)
    elif isinstance(first, Hold):
        row = rows[first]
        block = f"{first.name} [{', '.join(map(str, row.block))}]"
        role = nest._tensors[first.name].role
        verb, runs = {"in": "load", "out": "open", "kept": "keep"}[role], f"{row.runs:,} x"
        if role == "out" and row.times > 1:
            new = row.runs // row.times  # a block's first visit has nothing to fetch
            verb, runs = "open or fetch", f"{new:,} new, {row.runs - new:,} fetched"
        words = f"{verb} {block} in {row.memory}: {units.mebi(row.bytes)}, {runs}"
        found.append(Line("keep" if role == "kept" else "load", first, path, part, words))
        _list(nest, rest, rows, inner, part, cut, found)
        if role == "out":
            found.append(Line("store", first, inner, part, f"store {first.name}" + (
                "" if row.times == 1 else f": partial sums, the last of {row.times} whole")))
    else:
        for i, some in enumerate(first):
            _list(nest, some, rows, path, i, cut, found)
