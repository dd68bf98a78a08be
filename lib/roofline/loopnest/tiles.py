"""The closed form: one resident tile an operand, loads hoisted as far out as they can be."""

from .nest import NestError


def reloads(order: str, m: int, n: int, k: int) -> tuple[int, int]:
    """(r_A, r_B) of a matmul in m x n x k tiles, one tile of A and of B resident.

    order   the loops, outer to inner: a permutation of "mnk"

    A tile is loaded when a loop that it depends on moves on. So an operand comes back once for
    every step of the loop it does not depend on, if a loop that it depends on runs inside that.

    >>> reloads("mnk", m=2, n=4, k=8), reloads("mkn", m=2, n=4, k=8)
    ((4, 2), (1, 2))

    Raises NestError for another order, or counts below 1.
    """
    if sorted(order) != ["k", "m", "n"]:
        raise NestError(f"reloads: order {order!r}; expected each of m, n, k once, such as 'mnk'")
    steps = {"m": m, "n": n, "k": k}
    for loop, count in steps.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise NestError(f"reloads: {loop}: got {count!r}; expected a whole number of tiles "
                            ">= 1")

    def times(own: str, other: str) -> int:
        inside = order[order.index(other) + 1:]
        return steps[other] if any(steps[d] > 1 for d in own if d in inside) else 1

    return times("mk", "n"), times("kn", "m")
