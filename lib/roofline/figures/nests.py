"""Draws the nest and its residency (live player).

Question  as these loops run, which tile is loaded when, what stays, and what crosses HBM again?
Answer    nest(Nest) -> Live: the page asks first, then plays every load, store and step over
          the matrices drawn as tiles; several mappings of one op can be compared
Assumes   the events are Nest.walk's, in its order
Ignores   time: every event is one step of the player, however long the hardware takes
"""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from math import prod
from typing import Any

from .. import units
from ..loopnest import Event, Nest
from ..loopnest.nest import Hold, Line, Loop, Operand, spaces
from .live import Live

EVENTS = 4000  # of all mappings of one figure: each costs the page 3 to 12 bytes
OPS = {"Matmul": "A matmul", "Linear": "A linear layer", "MLP": "An MLP", "Softmax": "A softmax",
       "Attention": "One head of attention", "Elementwise": "An elementwise op"}

Ranges = Mapping[str, tuple[int, int]]  # dim -> (start, stop)
Question = tuple[str, str, list[str], list[int]]  # what is asked, the verdict, options, right ones


def nest(nests: Nest | Sequence[Nest], names: Sequence[str] = ()) -> Live:
    """A player of one loop nest, or of several mappings of the same op.

    nests   what to play; the first is shown first
    names   what each is called in lists; without any, its text

    Raises ValueError for what is no nest, nests of several ops, names that do not tell them
    apart, and for more than EVENTS loads, stores and steps in all.
    """
    nests = [nests] if not isinstance(nests, Sequence) or isinstance(nests, str) else list(nests)
    for one in nests:
        if not isinstance(one, Nest):
            raise ValueError(f"figures.nest: got {one!r}; expected a loopnest.Nest, or a list of "
                             "them: figures.nest(Nest(op, text))")
    names = list(names) or [one.text for one in nests]
    if not nests or any(one.op != nests[0].op for one in nests):
        ops = ", ".join(dict.fromkeys(repr(one.op) for one in nests)) or "no nest"
        raise ValueError(f"figures.nest: expected nests of one op, got {ops}. Give every op a "
                         "figure of its own")
    if len(names) != len(nests) or len(set(names)) != len(names):
        raise ValueError(f"figures.nest: expected a name of its own for each of {len(nests)} "
                         f"nests, got {', '.join(map(repr, names))}")
    walks, left = [], EVENTS
    for one in nests:
        walks.append(list(islice(one.walk(), left + 1)))
        left -= len(walks[-1])
        if left < 0:
            raise ValueError(
                f"figures.nest: {one.text!r} takes the figure past {EVENTS} loads, stores and "
                "steps, the most that a reader can follow. Use larger tiles, or a smaller op")
    first = nests[0]
    operands = spaces(first.op)[1]
    question, verdict, answers, right = (_compare(nests, names) if len(nests) > 1
                                         else _again(first))
    says = [_about(first, operands), question]
    data = {
        "says": says, "answers": answers, "right": right, "verdict": verdict,
        "flops": first.op.algorithmic.flops, "sizes": first.sizes,
        "dims": list(first.sizes), "order": list(operands),  # JSON objects keep no order
        "tensors": {name: {"dims": operand.dims, "role": operand.role}
                    for name, operand in operands.items()},
        "products": _products(operands),
        "nests": [{"name": name, **_data(one, walk)}
                  for name, one, walk in zip(names, nests, walks, strict=True)]}
    return Live("nest", data, "\n\n".join(says), (
        (f"{_op(first, operands)}: bytes over HBM, {len(nests)} "
         f"mapping{'s' * (len(nests) > 1)} (derived)",
         _totals(nests, names)),
        *((f"{name}: the nest as code", [["line"], *([_solid(words)] for words in one.lines())])
          for name, one in zip(names, nests, strict=True)),
        *((f"{name}: what is on chip", one.resident.cells(lambda n: units.show(n, "B")))
          for name, one in zip(names, nests, strict=True))),
        "a player of the nest's loads and stores")


# --- the question and the tables ---------------------------------------------------------------


def _about(first: Nest, operands: Mapping[str, Operand]) -> str:
    kept = [name for name, operand in operands.items() if operand.role == "kept"]
    return (f"{_op(first, operands)} is computed in tiles. A load brings a block of "
            "them on chip each time its line of the nest is reached; the block stays while the "
            "lines inside it run."
            + "".join(f" {name} is made on chip and never crosses HBM." for name in kept))


def _op(one: Nest, operands: Mapping[str, Operand]) -> str:
    """The op in words: what it takes, and in which numbers."""
    inputs = {name: operand for name, operand in operands.items() if operand.role == "in"}
    shapes = [" x ".join(str(one.sizes[dim]) for dim in operand.dims)
              for operand in inputs.values()]
    if len(shapes) > 2:
        shapes = [f"{name} ({shape})" for name, shape in zip(inputs, shapes, strict=True)]
        of = f"{', '.join(shapes[:-1])} and {shapes[-1]}"
    else:
        of = " by ".join(shapes)
    dtypes = " and ".join(dict.fromkeys(operand.dtype for operand in operands.values()))
    return f"{OPS[type(one.op).__name__]} of {of} in {dtypes}"


def _compare(nests: Sequence[Nest], names: Sequence[str]) -> Question:
    moved = [one.achieved.hbm_bytes for one in nests]
    answers = [name if name == one.text else f"{name}: {one.text}"
               for name, one in zip(names, nests, strict=True)]
    right = [i for i, n in enumerate(moved) if n == min(moved)]
    return (f"Here are {len(nests)} mappings. Which of them moves the fewest bytes over HBM?",
            f"{' and '.join(names[i] for i in right)}: {units.show(min(moved), 'B')}, the fewest "
            "bytes.", answers, right)


def _again(one: Nest) -> Question:
    """How often the tensor that comes back most crosses HBM, among what one may take for it."""
    rows = [r for r in one.resident if r.level == 0 and r.read_bytes]
    row = max(rows, key=lambda r: r.times)
    steps = [other.runs // max(other.times, 1) for other in rows]  # tiles of each tensor
    found = {1, row.times, row.runs, *(r.times for r in rows), *steps}
    if row.write_bytes:
        found |= {row.times - 1, 2 * row.times - 1}  # read; both ways
    for far in (2, 4):
        found |= {row.times * far} if len(found) < 3 else set()
    # The right one, and those nearest to it.
    answers = sorted(sorted(found, key=lambda n: abs(n - row.times))[:4])
    words = ["once" if n == 1 else f"{n} times" for n in answers]
    right = answers.index(row.times)
    asks = f"does each byte of {row.name} cross HBM"
    says = f"Each byte of {row.name} crosses {words[right]}."
    if row.write_bytes:
        back = row.times - 1
        asks = f"is each block of {row.name} written to HBM"
        says = (f"Each block of {row.name} is written {words[right]}, and read back "
                f"{'once' if back == 1 else f'{back} times'}.")
    return f"The nest is {one.text!r}. How many times {asks}?", says, words, [right]


def _totals(nests: Sequence[Nest], names: Sequence[str]) -> list[list[str]]:
    tensors = [name for name in spaces(nests[0].op)[1] if name in nests[0].reloads]
    memories = list(dict.fromkeys(memory for one in nests for memory in one.held))
    rows = [["mapping", *tensors, "read", "written", "Q", "I",
             *(f"most in {memory}" for memory in memories)]]
    for name, one in zip(names, nests, strict=True):
        count, moves = one.achieved, {r.name: r.moves for r in one.resident if not r.level}
        rows.append([name, *(moves[tensor] for tensor in tensors),
                     units.show(count.hbm_read_bytes, "B"), units.show(count.hbm_write_bytes, "B"),
                     units.show(count.hbm_bytes, "B"), units.show(count.intensity, "FLOP/B"),
                     *(units.mebi(one.held.get(memory, 0)) for memory in memories)])
    return rows


def _solid(words: str) -> str:
    """Indentation that HTML keeps."""
    code = words.lstrip(" ")
    return "\N{NO-BREAK SPACE}" * (len(words) - len(code)) + code


# --- what the page plays -------------------------------------------------------------------------


def _products(operands: Mapping[str, Operand]) -> list[list[str]]:
    """The tensors of each product, in the order they are made: its inputs, then its result."""
    found: list[list[str]] = [[]]
    for name, operand in operands.items():
        found[-1].append(name)
        if operand.role == "kept":
            found.append([name])
    return found


def _data(one: Nest, walk: Sequence[Event]) -> dict[str, Any]:
    spans = {dim: sorted({event.where[dim] for event in walk if event.kind == "step"})
             for dim in one.sizes}
    place = {dim: {span: i for i, span in enumerate(of)} for dim, of in spans.items()}
    width = max(len(_base36(len(of) - 1)) for of in spans.values())
    count = one.achieved
    return {"text": one.text, "lines": [_line(one, line) for line in one.listing], "spans": spans,
            "width": width, "events": " ".join(_event(event, place, width) for event in walk),
            "times": one.reloads, "held": one.held,
            "read": count.hbm_read_bytes, "written": count.hbm_write_bytes}


def _line(one: Nest, line: Line) -> dict[str, Any]:
    """A line of the nest: around it, and what it holds while it runs."""
    found: dict[str, Any] = {
        "kind": line.kind, "path": line.path,
        # What follows a colon counts: it would answer the question.
        "words": re.sub(r":? *$|: .*$", "", line.words)}
    if isinstance(line.item, Loop):
        memory, sums, leaves = one.open_sums
        found |= line.item._asdict()
        found |= {"memory": memory, "bytes": sums} if line.item is leaves else {}
    elif isinstance(line.item, Hold):
        row = next(r for r in one.resident if (r.name, r.level) == line.item)
        found |= {**line.item._asdict(), "memory": row.memory, "bytes": row.bytes}
    else:
        found["product"] = line.part
    return found


def _event(event: Event, place: Mapping[str, Mapping[tuple[int, int], int]], width: int) -> str:
    """An event as text, in base 36: its line, then bytes an element or, of a step, its ranges.

    The ranges of a block that moves follow from its line and the step next to it.
    """
    if event.kind == "step":
        return f"{_base36(event.line)}." + "".join(
            _base36(place[dim][span]).rjust(width, "0") for dim, span in event.where.items())
    each, rest = divmod(event.bytes, prod(stop - start for start, stop in event.where.values()))
    if rest:
        raise ValueError(f"figures.nest: {event!r} moves no whole number of bytes an element")
    return _base36(event.line) + (f"-{each}" if each else "-")


def _base36(n: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    return digits[n] if n < 36 else _base36(n // 36) + digits[n % 36]
