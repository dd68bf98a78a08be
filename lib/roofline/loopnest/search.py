"""The mapping that moves the fewest bytes: for given loops, and over all loop nests.

Question  these buffers: where should each tensor stay, and how few bytes can the op move?
Answer    place(op, loops, ...): a Nest; best(op, ...): the nest with the least Q, beside bound()
Assumes   inputs in SBUF, one place each; fp32 sums in PSUM, or collected in SBUF; or all in one
          buffer. Buffers are filled to the last byte, and nothing is loaded ahead of its use
Ignores   time, banks and partitions, room for the next block while this one is used
"""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, permutations, product
from typing import TYPE_CHECKING, NamedTuple

from .. import machine, units
from ..count import Count, Uncounted
from .nest import Hold, Item, Loop, Nest, NestError, Operand, rows_whole, spaces

if TYPE_CHECKING:
    from ..machine import Machine
    from ..ops import Op

CORE = ("SBUF", "PSUM")


def buffers(core: "Machine") -> dict[str, int]:
    """The buffers of a NeuronCore in bytes, by name: place(op, loops, **buffers(machine.trn2)).

    Raises NestError for a machine without them, and at the scope of several cores: no core has
    the buffers of all.
    """
    facts = {name: core.facts.get(f"{name.lower()}_bytes") for name in CORE}
    if None in facts.values():
        raise NestError(f"buffers: {core.key}, {core.scope}: it has no SBUF and PSUM. Say "
                        "buffer=... bytes")
    if core.scope != "core":
        raise NestError(f"buffers: {core.key}, {core.scope}: no core has the SBUF and PSUM of all. "
                        f"Take one core's: buffers(machine.get({core.key!r}).at('core'))")
    return {name: int(spec.value) for name, spec in facts.items() if spec}


def _memories(what: str, given: Mapping[str, int]) -> tuple[str, ...]:
    """Names for a Nest: () for SBUF and PSUM, else the one buffer that all tensors share."""
    for name, size in given.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise NestError(f"{what}: {name}: got {size!r}; expected whole bytes >= 1")
    if len(given) == 1:
        return tuple(given)
    if set(given) == set(CORE):
        return ()
    raise NestError(f"{what}: got buffers {', '.join(given) or 'none'}; expected SBUF and PSUM, or "
                    "one that all tensors share, such as buffer=2**20")


def _fit(need: Mapping[str, int], given: Mapping[str, int]) -> bool:
    return all(n <= given[memory] for memory, n in need.items())


def _short(what: str, need: Mapping[str, int], given: Mapping[str, int], step: str) -> NestError:
    over = "; ".join(f"{n:,} B of {memory} are needed at least, {given[memory]:,} B are there"
                     for memory, n in need.items() if n > given[memory])
    return NestError(f"{what}: nothing fits: {over}. {step}")


# --- places in given loops ---------------------------------------------------------------------


class _Place(NamedTuple):
    """One place for a tensor: the part (-1: before all parts), how many loops stand before it."""

    name: str
    part: int
    after: int
    memory: str
    block: tuple[int, ...]
    resident: int
    moved: int
    depth: int


def place(op: "Op", loops: str, **given: int) -> Nest:
    """The nest with these loops and the fewest HBM bytes that fits the buffers.

    loops   the nest's text without names: "m128 n512 k128"; "b128 (f128 d128) (e512 f128)"
    given   bytes by memory: SBUF and PSUM, or one name for a buffer that all tensors share

    All places are tried. With SBUF and PSUM sums may also be collected in SBUF: the output is
    named again after the last loop over its dims, for its block in PSUM. Where Q is equal, fewer
    names win, then the fewest resident bytes, then the innermost.

    >>> from roofline.ops import Matmul
    >>> print(place(Matmul(1280, 512, 2048), "m128 n512 k128", SBUF=2**20, PSUM=2**18).text)
    m128 A n512 C k128 B
    >>> print(place(Matmul(1280, 1024, 1536), "k128 m128 n512", SBUF=28 * 2**20, PSUM=2**21).text)
    C k128 B m128 A n512 C

    Raises NestError when nothing fits, or for loops that are none of this op.
    """
    memories = _memories("place", given)
    tensors = spaces(op)[1]
    if not isinstance(loops, str):
        raise NestError(f"place: got {loops!r} for the loops; expected them in one string, such as "
                        "'m128 n512 k128'")
    named = [name for name in re.findall(r"\w+", loops) if name in tensors]
    if named:
        raise NestError(f"place: {loops!r}: got {', '.join(named)}; expected loops alone. Names "
                        "are placed here: take them out, or say Nest(op, text)")
    # Every name before all loops: always a nest, and its rows price any other place.
    whole = Nest(op, f"{' '.join(tensors)} {loops}", memories)
    items = whole.items[len(tensors):]
    parts = next((item for item in items if not isinstance(item, Loop | Hold)), ())
    shared, *inner = (_loops(line) for line in (items, *parts))
    kept = [name for name, operand in tensors.items() if operand.role == "kept"]

    def places(name: str) -> Iterator[tuple[_Place, ...]]:
        order = list(tensors)
        ways: list[tuple[int, tuple[Loop, ...]]] = [(-1, shared)]
        if parts and name not in kept:
            own = order.index(name) > order.index(kept[0])  # what is kept comes between
            ways.append((int(own), inner[own]))
        found: list[_Place] = []
        last = 0  # the first place where the block is smallest
        for part, line in ways:
            last = len(found)
            for after in range(len(line) + 1):
                path = line[:after] if part < 0 else (*shared, *line[:after])
                if after and line[after - 1].dim in tensors[name].dims:
                    last = len(found)
                row = whole._row(Hold(name, 0), path)
                found.append(_Place(name, part, after, row.memory, row.block, row.bytes,
                                    row.read_bytes + row.write_bytes, len(path)))
        yield from ((one,) for one in found)
        if tensors[name].sums and not memories:
            # The inner block moves nothing over HBM, so the smallest is the best. At the outer's
            # own place a second name has no use.
            yield from ((outer._replace(memory=CORE[0]), found[last]._replace(moved=0))
                        for outer in found[:last])

    memory, open_sums, _ = whole.open_sums
    found, least = None, None
    for ways in product(*map(list, map(places, tensors))):
        choice = tuple(chain.from_iterable(ways))
        moved = sum(p.moved for p in choice)
        if (found and moved > found[0][0]) or not rows_whole(op, [p.block for p in choice]):
            continue
        held = _held(choice, {memory: open_sums})
        if least is None or held.total() < least.total():
            least = held  # the least in each memory: places are free of each other
        if _fit(held, given):
            key = moved, len(choice), held.total(), -sum(p.depth for p in choice)
            if found is None or key < found[0]:
                found = key, choice
    if found is None:
        raise _short(f"place: {loops!r}", least or {}, given,
                     "Take smaller steps, or larger buffers")
    return Nest(op, _written(shared, inner, found[1]), memories)


def _held(choice: tuple[_Place, ...], sums: Mapping[str, int]) -> Counter[str]:
    """Memory -> bytes: what stands before the parts, and the larger of the parts; part 1 has
    sums besides."""
    total: Counter[str] = Counter()
    of: dict[int, Counter[str]] = {0: Counter(sums), 1: Counter()}
    for p in choice:
        (total if p.part < 0 else of[p.part])[p.memory] += p.resident
    return total + (of[0] | of[1])


def _loops(items: tuple[Item, ...]) -> tuple[Loop, ...]:
    return tuple(item for item in items if isinstance(item, Loop))


def _written(shared: tuple[Loop, ...], parts: Sequence[tuple[Loop, ...]],
             places: tuple[_Place, ...]) -> str:
    def line(part: int, loops: tuple[Loop, ...]) -> str:
        words = []
        for at in range(len(loops) + 1):
            words += [p.name for p in places if (p.part, p.after) == (part, at)]
            words += [f"{loop.dim}{loop.step}" for loop in loops[at:at + 1]]
        return " ".join(words)

    return " ".join([line(-1, shared), *(f"({line(i, part)})" for i, part in enumerate(parts))])


# --- all loop nests ------------------------------------------------------------------------------
#
# Why `best` sees every nest of C = AB. Going in, chunks only shrink: at a name X a nest has chunks
# (m_X, n_X, k_X), and at a later name none is larger. A's block is m_A x k_A, and A comes once for
# each chunk of n: r_A >= ceil(N / n_A), as no chunk is longer than n_A. Likewise
# r_B >= ceil(M / m_B), and C is visited v >= ceil(K / k_C) times. Q grows with r_A, r_B and v, and
# depends on nothing else. So take any nest, keep its order of names and its n_A, m_B and k_C, and
# make every other chunk as small as the order allows: of n up to A's place n_A, after it one tile;
# of m and k likewise with B and C. No block has grown, so the nest still fits. Each dim is now cut
# once before the name that its chunk decides, so r_A, r_B and v are the quotients above, no
# larger than they were. `best` tries all of those: 6 orders, and for n_A and m_B the shortest of
# each number of trips; beside them Q falls as k_C grows, so the largest that fits is enough.
#
# Sums that are collected in SBUF: C is named a second time, further in. That block moves nothing
# over HBM, and it is least after the last loops over m and n: one tile, in PSUM. Without it the
# nest is one of those above, with A, B and C in one buffer, SBUF. So `best` tries these, too.


@dataclass(frozen=True, repr=False)
class Best:
    """The nest with the least Q, beside the least that any schedule could move.

    bound   bytes: bound(op, room)
    room    bytes of all buffers together
    """

    nest: Nest
    bound: int
    room: int

    @property
    def count(self) -> Count:
        return self.nest.achieved

    @property
    def bytes(self) -> int:
        """Q, in bytes."""
        return self.count.hbm_bytes

    @property
    def ratio(self) -> float:
        """Q / bound, 1 or more."""
        return self.bytes / self.bound

    def __repr__(self) -> str:
        times = f"{units.significant(self.ratio, 4)} times that" if self.ratio > 1 else "that much"
        p = _element(self.nest.op)
        return (f"{self.nest.text!r}\n{self.nest!r}\n"
                f"room: {units.mebi(self.room)}, S = {self.room // p:,} elements of {p} B\n"
                "no schedule of the ordinary algorithm moves less than "
                f"{units.show(self.bound, 'B')}; this nest moves {times}")


def best(op: "Op", tile: tuple[int, int, int] | None = None, **given: int) -> Best:
    """The nest with the least Q: any loops in any order, each input at any one place.

    op      Matmul, or Linear without scales
    tile    m, k, n (b, d, f of a Linear): blocks are whole tiles, the last ones may be partial.
            Default: the Tensor Engine's largest tile; narrower moving tiles, such as
            (128, 128, 128), are not tried unless said. For a buffer without an engine (1, 1, 1)
    given   bytes by memory: SBUF and PSUM, or one that all tensors share

    Inputs are in SBUF, sums in PSUM or in SBUF: collected there in fp32, a tile at a time in PSUM;
    then the output is named twice. Where Q is equal, fewer names win, then the fewest resident
    bytes.

    >>> from roofline.ops import Matmul
    >>> best(Matmul(2048, 2048, 2048), SBUF=28 * 2**20, PSUM=2 * 2**20).nest.text
    'B m128 A n512 C k128'

    Raises NestError when not even one tile of each tensor fits, Uncounted for other ops.
    """
    sizes, tensors = _product("best", op)
    memories = _memories("best", given)
    tile = _engine_tile() if tile is None else tile
    if not isinstance(tile, tuple | list) or len(tile) != 3 or any(
            isinstance(t, bool) or not isinstance(t, int) or t < 1 for t in tile):
        raise NestError(f"best: tile: got {tile!r}; expected three whole numbers >= 1, for "
                        f"{', '.join(sizes)}")

    # Tensor i is without one dim, whose trips decide how often i comes: dim i from here on.
    names = list(tensors)
    dims = [next(d for d in sizes if d not in t.dims) for t in tensors.values()]
    steps = [_steps(sizes[d], dict(zip(sizes, tile, strict=True))[d]) for d in dims]
    unit = [of[-1][1] for of in steps]
    weight = [t.held_size for t in tensors.values()]
    # Where each block is; with SBUF and PSUM the second way collects sums, and C is named twice.
    ways = [[*memories * 3]] if memories else [[CORE[0], CORE[0], CORE[1]],
                                               [CORE[0], CORE[0], CORE[0], CORE[1]]]
    whole = [w * math.prod(sizes[d] for d in t.dims)
             for w, t in zip(weight, tensors.values(), strict=True)]

    found = None
    for (twice, homes), order in product(enumerate(ways), permutations(range(3))):
        for r_A, n in steps[0]:
            for r_B, m in steps[1]:
                moved = r_A * whole[0] + r_B * whole[1]
                if found and moved > found[0][0]:
                    break  # a shorter m only brings B more often
                at = bisect_left(steps[2], True, key=lambda step: _fit(
                    _sums(homes, _blocks(order, (n, m, step[1]), unit, weight)), given))
                if at == len(steps[2]):
                    continue
                visits, k = steps[2][at]
                held = _sums(homes, _blocks(order, (n, m, k), unit, weight))
                key = moved + 2 * (visits - 1) * whole[2], twice, held.total()
                if found is None or key < found[0]:
                    found = key, order, (n, m, k)
    if found is None:
        least = _sums(ways[0], _blocks((0, 1, 2), unit, unit, weight))
        raise _short(f"best: tile {tuple(tile)}", least, given,
                     "One tile of each tensor needs that: take a smaller tile, or larger buffers")
    (_, twice, _), order, chunks = found
    text, now = [], [sizes[d] for d in dims]
    for i in (*order, None):  # None: at last, tile by tile
        near = [c if i is not None and order.index(i) <= order.index(j) else u
                for j, (c, u) in enumerate(zip(chunks, unit, strict=True))]
        text += [f"{d}{near[dims.index(d)]}" for d in sizes
                 if near[dims.index(d)] < now[dims.index(d)]]
        text += [names[i]] if i is not None else [names[2]] * twice
        now = near
    room = sum(given.values())
    return Best(Nest(op, " ".join(text), memories), bound(op, room), room)


def _blocks(order: Sequence[int], chunks: Sequence[int], unit: Sequence[int],
            weight: Sequence[int]) -> list[int]:
    """Bytes of each tensor's block: of dim j its chunk up to name j, after that one tile.

    The fourth is a tile of the last tensor, for sums that are collected further out.
    """
    place = [order.index(i) for i in range(3)]

    def length(i: int, j: int) -> int:
        return chunks[j] if place[i] < place[j] else unit[j]

    return [*(weight[i] * length(i, (i + 1) % 3) * length(i, (i + 2) % 3) for i in range(3)),
            weight[2] * unit[0] * unit[1]]


def _sums(homes: Sequence[str], held: Sequence[int]) -> Counter[str]:
    total: Counter[str] = Counter()
    for home, n in zip(homes, held, strict=False):  # three blocks, or four
        total[home] += n
    return total


def _steps(size: int, unit: int) -> list[tuple[int, int]]:
    """(trips, length): each number of trips that multiples of `unit` can make, and the shortest
    that makes it; longest first."""
    tiles = -(-size // unit)
    found, trips = [], 1
    while True:
        length = -(-tiles // trips)
        found.append((trips, min(size, unit * length)))
        if length == 1:
            return found
        trips = -(-tiles // (length - 1))  # the fewest that a shorter length makes


def _engine_tile() -> tuple[int, int, int]:
    """Columns of a stationary tile, partitions, columns of a moving tile; the same on each chip."""
    facts = machine.get("trn2").facts
    m, k, n = (int(facts[name].value)
               for name in ("gemm_stationary_fmax", "pmax", "gemm_moving_fmax"))
    return m, k, n


def _product(what: str, op: "Op") -> tuple[dict[str, int], dict[str, Operand]]:
    sizes, tensors = spaces(op)
    if (len(sizes), len(tensors)) != (3, 3):
        raise Uncounted(f"{what}: got {type(op).__name__}; it is known for Matmul and Linear. For "
                        "loops of your own: place(op, loops, ...)")
    return sizes, tensors


def bound(op: "Op", capacity_bytes: int) -> int:
    """Bytes that any schedule of a Matmul or Linear's 2MNK FLOPs moves at least, rounded down.

    capacity_bytes   of all on-chip buffers together

    The larger of two: the op's algorithmic bytes, and p (2 M N K / sqrt(S) - 2 S) for S =
    capacity / p elements, p the size of the smallest element that moves or rests (bf16: 2 B).
    Source: Smith, Lowery, Langou, van de Geijn, A Tight I/O Lower Bound for Matrix Multiplication,
    arXiv 1702.02017, for the reads of C := AB + C. C := AB saves the MN reads of C and still has
    its MN writes, so its reads and writes together obey it.

    It holds for every order of the multiply-adds, with elements placed one by one. A nest with
    fixed tiles and sums in fp32 cannot reach it.

    >>> from roofline.ops import Matmul
    >>> bound(Matmul(4096, 4096, 4096), 2**21) == 2 * (2 * 4096**3 // 2**10 - 2 * 2**20)
    True

    Raises Uncounted for other ops, NestError for a capacity below 1.
    """
    sizes, _ = _product("bound", op)
    if (isinstance(capacity_bytes, bool) or not isinstance(capacity_bytes, int | float)
            or not 1 <= capacity_bytes < math.inf):
        raise NestError(f"bound: capacity_bytes: got {capacity_bytes!r}; expected bytes >= 1")
    p = _element(op)
    held = capacity_bytes / p
    moved = p * (2 * math.prod(sizes.values()) / math.sqrt(held) - 2 * held)
    return max(op.algorithmic.hbm_bytes, math.floor(moved))


def _element(op: "Op") -> int:
    """Bytes of the smallest element: what a byte of room holds at most."""
    return min(t.size for t in spaces(op)[1].values())
