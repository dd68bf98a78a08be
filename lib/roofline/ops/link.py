"""Collectives: what each chip sends over its link, reads and writes in its own memory.

Conventions. A ring: every chip sends to the next one over one link, in one direction, all at
once, in chips - 1 steps (twice that for all-reduce) of 1/chips of the tensor. Two rings in
opposite directions send half as much over each link. Latency is left out. W, Q and link_bytes are
one chip's; Q is the least: what it holds is read once, what it ends up with is written once, and
a piece that is passed on is passed on from chip memory. Give link_bytes to a machine as a roof of
its own: machine.entitle(op.algorithmic, {"link": op.link_bytes}).
"""

from dataclasses import dataclass

from .core import BYTES, Crossing, Op, ShapeError, Tensors


@dataclass(frozen=True)
class PointToPoint(Op):
    """One chip sends a tensor of n elements to another; the sender's bytes."""

    n: int
    dtype: str = "bf16"

    flops = property(lambda self: 0)
    formulas = property(lambda self: {"W": "0", "Q": "p n", "link": "p n"})
    tensors = property(lambda self: Tensors((Crossing("sent", self.n, self.dtype, reads=1),)))
    link_bytes = property(lambda self: BYTES[self.dtype] * self.n)


@dataclass(frozen=True)
class _Ring(Op):
    n: int
    chips: int = 2
    dtype: str = "bf16"

    piece = property(lambda self: self.n // self.chips)

    @property
    def link_bytes(self) -> int:
        """Bytes that each chip sends over its link."""
        return BYTES[self.dtype] * (self.chips - 1) * self.piece

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chips < 2 or self.n % self.chips:
            raise ShapeError(f"{self._name}: n = {self.n:,}, chips = {self.chips}: expected 2 or "
                             f"more chips and a multiple of them, so that pieces are equal")


@dataclass(frozen=True)
class AllGather(_Ring):
    """Each chip holds 1/chips of a tensor of n elements; afterwards every chip holds all of it.

    >>> AllGather(n=1024, chips=4).link_bytes
    1536
    """

    flops = property(lambda self: 0)
    formulas = property(lambda self: {"W": "0", "Q": "p (n/c + n)", "link": "p n (c - 1)/c"})

    @property
    def tensors(self) -> Tensors:
        return Tensors((Crossing("own piece", self.piece, self.dtype, reads=1),
                        Crossing("whole", self.n, self.dtype, writes=1)))


@dataclass(frozen=True)
class ReduceScatter(_Ring):
    """Each chip holds n partial sums; afterwards each holds 1/chips of the totals."""

    flops = property(lambda self: (self.chips - 1) * self.piece)
    formulas = property(lambda self: {"W": "n (c - 1)/c", "Q": "p (n + n/c)",
                                      "link": "p n (c - 1)/c"})

    @property
    def tensors(self) -> Tensors:
        return Tensors((Crossing("partial sums", self.n, self.dtype, reads=1),
                        Crossing("own totals", self.piece, self.dtype, writes=1)))


@dataclass(frozen=True)
class AllReduce(_Ring):
    """Each chip holds n partial sums; afterwards every chip holds all n totals.

    A reduce-scatter and then an all-gather, so each chip sends 2 (chips - 1) / chips of it.
    """

    flops = property(lambda self: (self.chips - 1) * self.piece)
    link_bytes = property(lambda self: 2 * BYTES[self.dtype] * (self.chips - 1) * self.piece)
    formulas = property(lambda self: {"W": "n (c - 1)/c", "Q": "p (n + n)",
                                      "link": "2p n (c - 1)/c"})

    @property
    def tensors(self) -> Tensors:
        return Tensors((Crossing("partial sums", self.n, self.dtype, reads=1),
                        Crossing("totals", self.n, self.dtype, writes=1)))
