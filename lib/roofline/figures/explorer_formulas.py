"""Polynomials out of an op's own code, for a page that cannot run it.

Question  how do W, Q and the reloads of a nest reach a page without being written down twice?
Answer    fitted: a function of whole numbers, taken at a few of them, as exact polynomials;
          moves: what an op's tensors cross, kept or not; nest: the same for a nest's places
Assumes   polynomials of degree 3 at most in each size; what is fitted is tried at random sizes,
          and raises where it is none
Ignores   what is no polynomial of the sizes: a ceil is a size of its own here, a trip count
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, pairwise
from typing import Any

from .. import ops
from ..loopnest import Nest
from ..ops import BYTES, Op

# Interpolation, and not symbols in place of sizes: an op refuses a size that is no int and a Count
# makes ints of all it holds, so only numbers run through the code as it stands.

Values = tuple[int, ...]
DTYPES = {BYTES[d]: d for d in ("fp8", "bf16", "fp32", "fp64")}  # one of each size
TRIALS = 12  # random points; a wrong polynomial of degree 3 passes one with chance < 1 / 100


@dataclass(frozen=True)
class Polynomial:
    """A sum of products of sizes, over a whole number.

    terms   names, each as often as its power -> whole coefficient

    >>> print(Polynomial({("L", "L"): 1, ("L",): 1}, 2))
    1 L L + 1 L / 2
    """

    terms: Mapping[tuple[str, ...], int]
    over: int = 1

    def at(self, sizes: Mapping[str, int]) -> Fraction:
        total = sum(c * math.prod(sizes[name] for name in names)
                    for names, c in self.terms.items())
        return Fraction(total, self.over)

    def __str__(self) -> str:
        """As the page reads it: "2 B D + 1 F / 2", all of it over 2."""
        text = " + ".join(" ".join([str(c), *names]) for names, c in self.terms.items()) or "0"
        return text + f" / {self.over}" * (self.over > 1)


def fitted(function: Callable[..., Values], nodes: Mapping[str, Sequence[int]],
           trial: Callable[[random.Random], Mapping[str, int]]) -> list[Polynomial]:
    """The polynomials that `function` gives for its keywords.

    nodes   name -> values it may take in any combination; one more than its degree, at least
    trial   draws sizes to try the polynomials at

    Raises ArithmeticError where the function is no polynomial of so low a degree.
    """
    names, known = list(nodes), {}

    def value(*at: int) -> Values:
        if at not in known:
            known[at] = function(**dict(zip(names, at, strict=True)))
        return known[at]

    base = [of[-1] for of in nodes.values()]
    used = []
    for i, of in enumerate(nodes.values()):  # as few values as each size's degree needs
        line = [value(*base[:i], x, *base[i + 1:]) for x in of]
        used.append(list(of[:1 + max(_degree(of, column) for column in zip(*line, strict=True))]))
    polynomials = []
    for i in range(len(value(*base))):
        terms = _interpolated(lambda *at, i=i: value(*at)[i], used)
        over = math.lcm(1, *(c.denominator for c in terms.values()))
        polynomials.append(Polynomial({
            tuple(name for name, power in zip(names, powers, strict=True) for _ in range(power)):
            int(c * over) for powers, c in sorted(terms.items(), reverse=True) if c}, over))
    draw = random.Random(1)
    for _ in range(TRIALS):
        at = trial(draw)
        if [p.at(at) for p in polynomials] != list(function(**at)):
            raise ArithmeticError(f"explorer: no polynomial of {', '.join(names)}: {function} at "
                                  f"{dict(at)} is {function(**at)}")
    return polynomials


def _degree(at: Sequence[int], values: Sequence[int]) -> int:
    """Of the polynomial through these points: divided differences up to the last that is not 0."""
    row, degree = [Fraction(v) for v in values], 0
    for order in range(1, len(at)):
        row = [(b - a) / (at[i + order] - at[i]) for i, (a, b) in enumerate(pairwise(row))]
        degree = order if any(row) else degree
    return degree


def _interpolated(value: Callable[..., int], nodes: Sequence[Sequence[int]]
                  ) -> dict[tuple[int, ...], Fraction]:
    """Powers -> coefficient, one size after the other (Lagrange)."""
    if not nodes:
        return {(): Fraction(value())}
    first, rest = nodes[0], nodes[1:]
    total: dict[tuple[int, ...], Fraction] = {}
    for x in first:
        basis = [Fraction(1)]  # the product of (X - y) / (x - y), lowest power first
        for y in first:
            if y != x:
                basis = [(a - y * b) / (x - y) for a, b in
                         zip([Fraction(0), *basis], [*basis, Fraction(0)], strict=True)]
        for powers, c in _interpolated(lambda *at, x=x: value(x, *at), rest).items():
            for power, b in enumerate(basis):
                total[(power, *powers)] = total.get((power, *powers), Fraction(0)) + b * c
    return total


# --- an op ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """An op to choose, and how the page's sizes make it.

    op        a class of ops
    fields    its field -> the sizes whose product it is: {"heads": "G R"}
    sizes     size -> (words, least, most, first shown)
    options   further fields, as they are
    stored    the field of a tensor that may be stored in another dtype: "w_dtype"
    through   the tensor whose elements an engine other than the Tensor Engine has to pass
    engine    that engine, where the whole op runs on it
    """

    label: str
    op: type[Op]
    fields: Mapping[str, str]
    sizes: Mapping[str, tuple[str, int, int, int]]
    options: Mapping[str, object]
    stored: str = ""
    through: str = ""
    engine: str = ""

    def make(self, dtype: str, sizes: Mapping[str, int], stored: str | None = None) -> Any:
        """The op of these sizes; `stored` None: as `dtype`."""
        fields = {field: math.prod(sizes[name] for name in names.split())
                  for field, names in self.fields.items()}
        more = {self.stored: stored} if self.stored else {}
        return self.op(**fields, **self.options, dtype=dtype, **more)  # type: ignore[call-arg]

    @property
    def nodes(self) -> dict[str, list[int]]:
        found = {name: [least + step for step in (1, 2, 4, 7)]
                 for name, (_, least, _, _) in self.sizes.items()}
        return found | {"p": list(DTYPES)} | ({"q": list(DTYPES)} if self.stored else {})

    def trial(self, draw: random.Random) -> dict[str, int]:
        return {name: draw.randint(least, min(most, 10**5))
                for name, (_, least, most, _) in self.sizes.items()
                } | {name: draw.choice(list(DTYPES)) for name in ("p", "q")[:1 + bool(self.stored)]}

    def at(self, p: int, q: int = 0, **sizes: int) -> Any:
        """The op whose elements have p bytes, those of what is stored q."""
        return self.make(DTYPES[p], sizes, DTYPES[q] if q else None)


def _steps(op: Any) -> ops.Chain | None:
    return ops.chain(op.steps) if hasattr(op, "steps") else None


def moves(entry: Entry) -> dict[str, Any]:
    """W, link bytes, elements passed and bytes of each tensor, as text of polynomials.

    tensors   [name, read, written] in order, every step of a chain a kernel of its own; where the
              tensor can stay on chip, then what is read and written if it does, and how often it
              crosses: apart, kept
    """
    some = entry.at(**{name: of[0] for name, of in entry.nodes.items()})
    steps = _steps(some)
    joined = steps.joined if steps else ()
    names = [t.name for t in (steps or some).tensors]

    def quantities(**sizes: int) -> Values:
        op = entry.at(**sizes)
        if set(op.work) - {op.dtype}:
            raise ArithmeticError(f"explorer: {op!r} computes in {', '.join(op.work)}; the page "
                                  "knows one peak an op")
        whole = _steps(op) or op
        tensors = {t.name: t for t in whole.tensors}
        kept = {t.name: t for t in ops.chain(op.steps, "all").tensors} if joined else {}
        return (sum(op.work.values()), getattr(op, "link_bytes", 0),
                tensors[entry.through].elements if entry.through else 0,
                *(n for t in tensors.values() for n in (t.read_bytes, t.write_bytes)),
                *(n for name in joined for n in (kept[name].read_bytes, kept[name].write_bytes)))

    work, link, passed, *rest = map(str, fitted(quantities, entry.nodes, entry.trial))
    pairs = list(zip(rest[::2], rest[1::2], strict=True))
    often = [{t.name: t.reads + t.writes for t in one.tensors} for one in (
        steps, ops.chain(some.steps, "all"))] if steps else []
    stays = {name: [*pair, *(of[name] for of in often)]
             for name, pair in zip(joined, pairs[len(names):], strict=True)}
    return {"W": work, "link": link, "passed": passed,
            "tensors": [[name, *pair, *stays.get(name, ())]
                        for name, pair in zip(names, pairs, strict=False)]}


# --- its nest ------------------------------------------------------------------------------------


def nest(entry: Entry) -> dict[str, Any]:
    """What the place of each tensor in a nest of one loop a dim costs.

    Only the loops before the place count, in any order. Names of sizes beside the op's own, for a
    loop over m: "tm" its trips, "cm" its longest step.

    dims      [loop, its size], in the op's order
    names     of the tensors
    places    tensor -> dims before it, sorted -> [read, written, times, bytes held]
    memory    tensor -> where it is held
    """
    some = entry.at(**{name: of[0] for name, of in entry.nodes.items()})
    dims = {dim: next(size for size in entry.sizes if entry.fields[field] == size)
            for dim, field in some._loops.items()}
    tensors = list(some.DIMS)
    places: dict[str, dict[str, list[str]]] = {name: {} for name in tensors}
    memory = {}

    for name in tensors:
        for before in (sorted(some) for n in range(len(dims) + 1)
                       for some in combinations(dims, n)):
            found, memory[name] = _place(entry, dims, name, before)
            places[name]["".join(before)] = [str(p) for p in found]
    return {"dims": [list(pair) for pair in dims.items()], "names": tensors, "places": places,
            "memory": memory}


def _place(entry: Entry, dims: Mapping[str, str], name: str, before: Sequence[str]
           ) -> tuple[list[Polynomial], str]:
    """A tensor held inside the loops over `before`: its polynomials, and the memory."""
    nodes = {n: [x + 50 for x in of] if n in entry.sizes else of for n, of in entry.nodes.items()}

    def row(steps: Mapping[str, int], op: Any) -> Any:
        loops = [*before, *(dim for dim in dims if dim not in before)]
        words = [f"{dim}{steps[dim]}" for dim in loops]
        words.insert(len(before), name)
        nest = Nest(op, " ".join([*words, *(other for other in op.DIMS if other != name)]))
        return next(r for r in nest.resident if r.name == name)

    def split(sizes: Mapping[str, int], letter: str) -> tuple[dict[str, int], Any]:
        """Dim -> its number beside the sizes, and the op."""
        more = {dim: sizes[letter + dim] for dim in dims}
        return more, entry.at(**{n: size for n, size in sizes.items() if n in nodes})

    def moved(**sizes: int) -> Values:
        trips, op = split(sizes, "t")
        r = row({dim: -(-op.loops[dim] // n) for dim, n in trips.items()}, op)
        return r.read_bytes, r.write_bytes, r.times

    def held(**sizes: int) -> Values:
        return (row(*split(sizes, "c")).bytes,)

    def numbers(letter: str) -> list[Polynomial]:
        beside = {letter + dim: [1, 2, 3, 5] for dim in dims}

        def trial(draw: random.Random) -> dict[str, int]:
            # Sizes of 50 and more can be cut into each number of trips up to 7.
            return {**{n: draw.randint(50, 5000) if n in entry.sizes else draw.choice(of)
                       for n, of in nodes.items()}, **{n: draw.randint(1, 7) for n in beside}}

        return fitted(moved if letter == "t" else held, nodes | beside, trial)

    some = entry.at(**{n: of[0] for n, of in nodes.items()})
    return [*numbers("t"), *numbers("c")], row(dict.fromkeys(dims, 1), some).memory


# --- the ops of the figure -----------------------------------------------------------------------

_TOKENS, _ROW, _LONG = 2**20, 2**18, 2**34
_D = {"D": ("numbers in a row", 1, _ROW, 4096)}
_BDF = {"B": ("tokens", 1, _TOKENS, 2048), "D": ("in", 1, _ROW, 1024), "F": ("out", 1, _ROW, 4096)}
_HEADS = {"G": ("key-value heads", 1, 1024, 8), "R": ("query heads for each", 1, 1024, 4),
          "d": ("numbers in a head", 1, 4096, 128)}
_PIECES = {"piece": ("numbers in a piece", 1, _LONG, 2**20), "chips": ("chips", 2, 1024, 16)}
_SAME: dict[str, object] = {}


def _own(sizes: Mapping[str, tuple[str, int, int, int]]) -> dict[str, str]:
    return {name: name for name in sizes}


def _entry(label: str, op: type[Op], sizes: Mapping[str, tuple[str, int, int, int]],
           stored: str = "", through: str = "", engine: str = "", *,
           fields: Mapping[str, str] | None = None,
           options: Mapping[str, object] = _SAME) -> Entry:
    return Entry(label, op, _own(sizes) if fields is None else fields, sizes, options, stored,
                 through, engine)


def _attention(label: str, causal: bool) -> Entry:
    return _entry(label, ops.Attention, {
        "B": ("sequences", 1, _TOKENS, 1), "L": ("tokens", 1, 2**22, 4096), **_HEADS},
        through="A", options={"causal": causal},
        fields={"L": "L", "d": "d", "heads": "G R", "kv_heads": "G", "B": "B"})


def _ring(label: str, op: type[Op]) -> Entry:
    return _entry(label, op, _PIECES, fields={"n": "piece chips", "chips": "chips"})


ENTRIES: Mapping[str, Entry] = {
    "Matmul": _entry("matmul C = A B", ops.Matmul, {
        "M": ("rows of A", 1, _TOKENS, 2048), "K": ("summed over", 1, _TOKENS, 1024),
        "N": ("columns of B", 1, _TOKENS, 2048)}),
    "Linear": _entry("linear layer y = x W", ops.Linear,
                     {**_BDF, "B": ("tokens, the batch", 1, _TOKENS, 1),
                      "D": ("in", 1, _ROW, 4096)}, "w_dtype"),
    "MLP": _entry("MLP (GELU)", ops.MLP, _BDF, "w_dtype", "g"),
    "SwiGLU": _entry("SwiGLU MLP", ops.SwiGLU, _BDF, "w_dtype", "s"),
    "Attention": _attention("attention, prefill", False),
    "Causal": _attention("attention, prefill, causal", True),
    "DecodeAttention": _entry("attention, decode with a KV cache", ops.DecodeAttention, {
        "B": ("sequences", 1, _TOKENS, 1), "L": ("tokens cached", 1, 2**22, 4096), **_HEADS},
        "kv_dtype", fields={"B": "B", "L": "L", "d": "d", "heads": "G R", "kv_heads": "G"}),
    "LatentDecodeAttention": _entry(
        "attention, decode with a latent cache", ops.LatentDecodeAttention, {
            "B": ("sequences", 1, _TOKENS, 1), "L": ("tokens cached", 1, 2**22, 4096),
            "heads": ("query heads", 1, 1024, 128), "latent": ("numbers cached", 1, 8192, 512),
            "rope": ("of the position", 1, 1024, 64)}, "kv_dtype"),
    "Softmax": _entry("softmax of rows", ops.Softmax,
                      {"rows": ("rows", 1, _TOKENS, 2048), **_D}, "", "y", "vector"),
    "LayerNorm": _entry("layer norm", ops.LayerNorm,
                        {"rows": ("rows", 1, _TOKENS, 2048), **_D}, "", "y", "vector"),
    "RMSNorm": _entry("RMS norm", ops.RMSNorm,
                      {"rows": ("rows", 1, _TOKENS, 2048), **_D}, "", "y", "vector"),
    "Elementwise": _entry("elementwise y = f(x)", ops.Elementwise, {
        "n": ("numbers", 1, _LONG, 2**23), "f": ("FLOPs of each; 0: a copy", 0, 64, 9)},
        "", "y", "scalar", fields={"n": "n", "flops_per_element": "f"}),
    "Add": _entry("add c = a + b", ops.Add, {"n": ("numbers", 1, _LONG, 2**23)}, "", "c", "vector"),
    "Dot": _entry("dot product", ops.Dot, {"n": ("numbers", 1, _LONG, 2**23)}, "", "x", "vector"),
    "SpMV": _entry("sparse matrix times vector", ops.SpMV, {
        "rows": ("rows", 1, 2**30, 2**20), "nonzeros": ("stored values", 1, _LONG, 2**23)}),
    "Stencil": _entry("stencil of two weights", ops.Stencil, {
        "n": ("grid points", 1, _LONG, 2**24), "points": ("in a sum", 2, 1024, 7)},
        "", "new", "vector"),
    "AllReduce": _ring("all-reduce over the link", ops.AllReduce),
    "AllGather": _ring("all-gather over the link", ops.AllGather),
    "ReduceScatter": _ring("reduce-scatter over the link", ops.ReduceScatter),
}
NESTS = ("Matmul", "Linear")


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Every op of the figure, as data."""
    found = {}
    for key, entry in ENTRIES.items():
        data = moves(entry)
        made = entry.at(**{name: of[0] for name, of in entry.nodes.items()})
        if hasattr(made, "KEPT"):
            data["kept"] = {str(k): list(names) for k, names in made.KEPT.items()}
        if key in NESTS:
            data["nest"] = nest(entry)
        found[key] = data | {
            "label": entry.label, "call": entry.op.__name__, "stored": entry.stored,
            "through": entry.through, "engine": entry.engine,
            "fields": [list(pair) for pair in entry.fields.items()],
            "options": [[name, repr(value)] for name, value in entry.options.items()],
            "sizes": [[name, *entry.sizes[name]] for name in entry.sizes]}
    return found

