"""Time several things by turns, so that a moving machine moves them all.

Question  what does each of these calls cost on a machine that others use too?
Answer    alternate: every round times every task; the median over the rounds, and its spread
Assumes   a call lasts 1 ms or more (a clock reading costs 50 ns and may jump by 1 ms)
Ignores   why a round was slow, unless other processes took the CPU: such rounds are dropped
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psutil

LIMIT = 0.10  # a round with more of the CPU in other hands is dropped when there are others
ENOUGH = 3  # rounds to keep at least: the quietest ones, and the result is marked noisy


@dataclass(frozen=True)
class Rounds:
    """Seconds of every task in every round.

    seconds   per task: the best call of each round, s
    foreign   per round: share of all cores' time that other processes took
    """

    seconds: Mapping[str, Sequence[float]]
    foreign: Sequence[float]

    @property
    def kept(self) -> list[int]:
        """Rounds to use: the quiet ones, or the ENOUGH quietest when there are fewer."""
        by_noise = sorted(range(len(self.foreign)), key=lambda i: self.foreign[i])
        quiet = sum(share <= LIMIT for share in self.foreign)
        return sorted(by_noise[:max(quiet, ENOUGH)])

    @property
    def share(self) -> float:
        """Median share of the CPU that other processes took, all rounds."""
        return statistics.median(self.foreign)

    @property
    def noisy(self) -> bool:
        return max(self.foreign[i] for i in self.kept) > LIMIT

    def of(self, task: str) -> list[float]:
        """Seconds of one task in the kept rounds."""
        return [self.seconds[task][i] for i in self.kept]


class ForeignCpu:
    """Share of the machine's CPU time that went to others since the last reading.

    Other processes and, on a virtual machine, the host's steal time both count.
    """

    def __init__(self) -> None:
        self._last = self._read()

    def _read(self) -> tuple[float, float, float]:
        times = psutil.cpu_times()
        fields = ("user", "nice", "system", "irq", "softirq", "interrupt", "dpc", "steal")
        busy = sum(getattr(times, f, 0.0) for f in fields)
        return busy, time.process_time(), time.perf_counter()

    def __call__(self) -> float:
        last, self._last = self._last, self._read()
        busy, own, wall = (now - then for now, then in zip(self._last, last, strict=True))
        return min(max(busy - own, 0.0) / (max(wall, 1e-9) * (psutil.cpu_count() or 1)), 1.0)


def alternate(tasks: Mapping[str, Callable[[], object]], budget_s: float, *, want: int = 7,
              calls: int = 3, clock: Callable[[], float] = time.perf_counter,
              foreign: Callable[[], float] | None = None,
              pause: Callable[[float], None] = time.sleep) -> Rounds:
    """Time every task by turns until `want` quiet rounds are in or the budget is spent.

    After ENOUGH rounds a disturbed one is followed by a wait of up to 1 s for a quiet moment.

    tasks      name -> a call that does the same work each time
    budget_s   no round begins after this many seconds; at least one is run
    want       quiet rounds wanted
    calls      calls per task and round; the best one counts
    """
    for task in tasks.values():
        task()  # first touch, code paths, clocks: not timed
    foreign = foreign or ForeignCpu()
    foreign()
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    shares: list[float] = []
    end = clock() + budget_s
    while not shares or (sum(s <= LIMIT for s in shares) < want and clock() < end):
        for name, task in tasks.items():
            best = float("inf")
            for _ in range(calls):
                start = clock()
                task()
                best = min(best, clock() - start)
            seconds[name].append(max(best, 1e-9))
        shares.append(foreign())
        waits = 4 if shares[-1] > LIMIT and len(shares) >= ENOUGH else 0
        while waits and clock() < end:
            pause(0.25)
            waits = 0 if foreign() <= LIMIT else waits - 1
    return Rounds(seconds, shares)
