"""Ops in a row: what lies between them crosses the slow link, or stays on chip."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from ..count import Count
from .core import Crossing, Named, Op, ShapeError, Tensors, moved


@dataclass(frozen=True)
class Custom(Op):
    """An op of your own: W in FLOPs, and the tensors that cross.

    >>> Custom(W=6, crossings=(Crossing("x", 6, "fp32", reads=1),), dtype="fp32").algorithmic
    W 6 FLOP, Q 24 B, I 0.25 FLOP/B (24 read, 0 written)
    """

    W: int
    crossings: tuple[Crossing, ...]
    dtype: str = "bf16"
    _least: ClassVar = {"W": 0}

    flops = property(lambda self: self.W)
    tensors = property(lambda self: Tensors(self.crossings))

    @property
    def formulas(self) -> dict[str, str]:
        return {"W": str(self.W), "Q": str(moved(0, self.dtype, self.crossings).hbm_bytes)}

    def __post_init__(self) -> None:
        object.__setattr__(self, "crossings", tuple(self.crossings))
        super().__post_init__()

    def _check(self, name: str, value: object) -> None:
        if name != "crossings":
            super()._check(name, value)


def chain(steps: Iterable[Op], kept: Iterable[str] = ()) -> "Chain":
    """Ops one after the other; the tensors named in `kept` stay on chip between them.

    steps   ops, outermost first. A step's first input is the output of the step before, unless
            `named` says otherwise; other tensors meet when they were given the same name. A name
            that was not given gets the number of its step: W1, y1, W2.
    kept    names, or "all" for every tensor that can be kept: an intermediate then never
            crosses, an input that several steps read crosses once

    >>> from roofline.ops import Linear
    >>> up, down = Linear(2048, 1024, 4096).named(y="h"), Linear(2048, 4096, 1024)
    >>> chain([up, down]).k, chain([up, down], kept=["h"]).k
    ({'h': 2}, {'h': 0})

    Raises ShapeError for no steps, tensors that do not fit, or a name that cannot be kept.
    """
    made = Chain(tuple(steps))
    names = made.joined if kept == "all" else [kept] if isinstance(kept, str) else kept
    return replace(made, kept=tuple(dict.fromkeys(names)))


@dataclass(frozen=True)
class Chain(Op):
    """Steps whose tensors meet by name; made by `chain`."""

    steps: tuple[Op, ...]
    kept: tuple[str, ...] = ()

    flops = property(lambda self: sum(self.work.values()))
    fused = property(lambda self: replace(self, kept=self.joined))
    unfused = property(lambda self: replace(self, kept=()))

    @property
    def work(self) -> Mapping[str, int]:
        return sum((Count(step.work) for step in self.steps), Count()).work

    @property
    def tensors(self) -> Tensors:
        """Every tensor once, in the order of first use; a kept one is read and written 0 times."""
        return Tensors(self._met(name, uses) for name, uses in self._uses().items())

    @property
    def k(self) -> dict[str, int]:
        """How often each intermediate crosses: 0 kept, 2 written and read once."""
        return {t.name: t.reads + t.writes for t in self.tensors
                if _between(self._uses()[t.name])}

    @property
    def joined(self) -> tuple[str, ...]:
        """Names that `kept` may hold: intermediates, and inputs that several steps read."""
        return tuple(name for name, uses in self._uses().items() if len(uses) > 1)

    @property
    def formulas(self) -> dict[str, str]:
        """From the steps' own W[1] and Q[1]; a tensor's name stands for its bytes."""
        numbers = range(1, len(self.steps) + 1)
        text = " + ".join(f"Q[{i}]" for i in numbers)
        for name in self.kept:
            uses = self._uses()[name]
            less = sum(t.reads + t.writes for t in uses) - (0 if _between(uses) else 1)
            text += f" - {less} {name}" if less > 1 else f" - {name}"
        return {"W": " + ".join(f"W[{i}]" for i in numbers), "Q": text}

    def _uses(self) -> dict[str, list[Crossing]]:
        """Name -> its crossings, one a step that touches it, in order."""
        found: dict[str, list[Crossing]] = {}
        last = ""
        for number, step in enumerate(self.steps, 1):
            given = {new for _, new in step.names} if isinstance(step, Named) else set()
            tensors = step.tensors
            names = {t.name: t.name if t.name in given else f"{t.name}{number}" for t in tensors}
            first = next((t.name for t in tensors if t.reads), "")
            if last and first and first not in given:
                names[first] = last
            for t in tensors:
                found.setdefault(names[t.name], []).append(replace(t, name=names[t.name]))
            last = next((names[t.name] for t in reversed(tensors) if t.writes), "")
        return found

    def _met(self, name: str, uses: list[Crossing]) -> Crossing:
        reads, writes = (sum(t.reads for t in uses), sum(t.writes for t in uses))
        if name in self.kept:
            reads, writes = (0, 0) if _between(uses) else (1, 0)
        return replace(uses[0], reads=reads, writes=writes)

    def __post_init__(self) -> None:
        if not self.steps:
            raise ShapeError("chain: steps: expected at least one op, got none")
        for name, (first, *others) in self._uses().items():
            for other in others:
                if (other.elements, other.dtype) != (first.elements, first.dtype):
                    raise ShapeError(
                        f"chain: {name}: {first.elements:,} {first.dtype} elements in one step, "
                        f"{other.elements:,} {other.dtype} in a later one. Make the shapes fit, or "
                        f"give the later tensor a name of its own: op.named(x=...)")
                if other.writes:
                    raise ShapeError(f"chain: {name}: written by a step after it was used. "
                                     "Give the new tensor a name of its own: op.named(y=...)")
        if wrong := [name for name in self.kept if name not in self.joined]:
            raise ShapeError(f"chain: kept: got {wrong[0]!r}; what can stay on chip here: "
                             f"{', '.join(self.joined) or 'nothing, no tensor is used twice'}")


def _between(uses: list[Crossing]) -> bool:
    """Written by one step and read by a later one."""
    return bool(uses[0].writes) and len(uses) > 1


class Fusible(Op):
    """A block that is a chain; its field k says how often its intermediates cross.

    Subclasses give `steps` and KEPT: k -> the tensors that stay on chip.
    """

    KEPT: ClassVar[Mapping[int, tuple[str, ...]]]
    k: int

    @property
    def steps(self) -> tuple[Op, ...]:
        raise NotImplementedError

    @property
    def chain(self) -> Chain:
        """The block as the ops it is made of."""
        return Chain(self.steps, self.KEPT[self.k])

    @property
    def fused(self) -> Self:
        """The same block as one kernel, k = 0."""
        return replace(self, k=min(self.KEPT))  # type: ignore[type-var]

    @property
    def unfused(self) -> Self:
        """The same block with every step a kernel of its own."""
        return replace(self, k=max(self.KEPT))  # type: ignore[type-var]

    flops = property(lambda self: sum(self.work.values()))
    work = property(lambda self: self.chain.work)
    tensors = property(lambda self: self.chain.tensors)

    def _check(self, name: str, value: object) -> None:
        if name == "k" and (isinstance(value, bool) or value not in self.KEPT):
            raise ShapeError(f"{self._name}: k: expected one of "
                             f"{', '.join(map(str, sorted(self.KEPT)))}, got {value!r}")
        if name != "k":
            super()._check(name, value)
