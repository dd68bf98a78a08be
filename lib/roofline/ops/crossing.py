"""Where an op crosses a ridge: the smallest size at which I reaches it."""

import math
from dataclasses import dataclass, replace

from .core import Op, ShapeError

LARGEST = 2**40


@dataclass(frozen=True)
class Crossover:
    """Where I reaches a ridge as one size grows.

    exact   the size as a real number: W - ridge Q is 0 there, with W and Q taken as straight
            lines between whole sizes (for a Linear or an MLP they are). inf: no size reaches it
    least   the first whole size at or above the ridge. inf: none
    limit   I at a size of 2^40, far beyond any use: what I tends to
    """

    symbol: str
    ridge: float
    exact: float
    least: float
    limit: float

    def __repr__(self) -> str:
        if self.least == math.inf:
            return (f"no {self.symbol} reaches {self.ridge:.4g} FLOP/B: "
                    f"I goes no higher than {self.limit:.4g}")
        return (f"I reaches {self.ridge:.4g} FLOP/B at {self.symbol} = {self.exact:.2f}, "
                f"so from {self.symbol} = {self.least} on")


def crossover(op: Op, symbol: str, ridge: float) -> Crossover:
    """The smallest `symbol` at which the op's I reaches `ridge`; its other sizes stay.

    op       any op whose I does not fall as `symbol` grows; its own value of it is not used
    symbol   name of a field: "B", "L", "D"
    ridge    FLOP/B, > 0

    >>> from roofline.ops import Linear
    >>> crossover(Linear(B=1, D=4096, F=4096), "B", ridge=210)
    I reaches 210 FLOP/B at B = 233.99, so from B = 234 on

    Raises ShapeError for a field the op does not have or that is not a size, or a bad ridge.
    """
    sizes = [name for name, value in vars(op).items()
             if isinstance(value, int) and not isinstance(value, bool)]
    if symbol not in sizes:
        raise ShapeError(f"crossover: {op!r} has no size {symbol!r}; it has {', '.join(sizes)}")
    if not 0 < ridge < math.inf:
        raise ShapeError(f"crossover: ridge: expected FLOP/B > 0, got {ridge!r}")

    def above(size: int) -> float:
        """W - ridge Q, which is >= 0 from the crossover on."""
        count = replace(op, **{symbol: size}).algorithmic  # type: ignore[type-var]
        return count.flops - ridge * count.hbm_bytes

    limit = replace(op, **{symbol: LARGEST}).algorithmic.intensity  # type: ignore[type-var]
    if above(LARGEST) < 0:
        return Crossover(symbol, ridge, math.inf, math.inf, limit)
    low, high = 0, 1  # I is below the ridge at low (or low is 0), at or above it at high
    while above(high) < 0:
        low, high = high, min(2 * high, LARGEST)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if above(middle) < 0 else (low, middle)
    step = -above(low) / (above(high) - above(low)) if low else 1.0
    return Crossover(symbol, ridge, low + step, high, limit)
