"""The Tensor Engine cycle by cycle: which PEs multiply, what they pass on, what it adds up to.

Question  why does a 128 x 128 array reach its peak rate only with full tiles back to back?
Answer    Clockwork(K, M, N): interval, cycles, and for each cycle the active PEs, MACs, rate
Assumes   documented (NeuronCore-v2 guide): 128 rows and columns of PEs; a moving column a cycle,
          so that matmuls start max(N, 64) cycles apart; fp32 about four times as long; weights
          load in M / 4 cycles, behind the matmul before or shown; fp8 double row on NeuronCore-v3
          modelled (no guide gives latencies): PE(k, m) meets column n at cycle n + k + m, skewed;
          a sum moves down one row a cycle and through every row, used or not, into PSUM;
          an fp32 column makes four passes, and its multiply-adds are done with the last
          assumed: v2's 64 cycles and 4 columns a cycle where a later core's guide is silent
Ignores   instruction dispatch, semaphores, reading SBUF, banks of PSUM, throttling
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from numbers import Integral

from . import machine, units
from .machine import Machine

LOADS = {"hidden": "behind the matmul before", "shown": "before each matmul",
         "kept": "in place from the start"}


class ClockworkError(ValueError):
    """A tile, dtype, array or cycle that the engine does not have."""


@dataclass(frozen=True, repr=False)
class Moment:
    """One cycle of a run, at its end.

    active       PEs that multiply in this cycle
    macs         multiply-adds done so far
    utilisation  active PEs over all PEs
    rate         FLOP/s over the last interval, or over all cycles until there was one
    average      FLOP/s over all cycles so far
    text         all of it in one line
    """

    cycle: int
    phase: str
    active: int
    macs: int
    utilisation: float
    rate: float
    average: float
    text: str

    def __repr__(self) -> str:
        return textwrap.fill(self.text, 88)


@dataclass(frozen=True)
class PE:
    """One processing element at the end of a cycle.

    held    its weights: one, two in fp8's double row; () where there are none yet
    moving  the values it multiplied them with in this cycle; None when it was idle
    total   the partial sum it passes down; None when there is none
    """

    held: tuple[float, ...]
    moving: tuple[float, ...] | None
    total: float | None


@dataclass(frozen=True, repr=False)
class State:
    """pes[row][column], and PSUM as [M] partitions of N sums, None where none has arrived.

    Its text shows a PE as weight × value > sum passed down, or as its weight where it is idle.
    """

    pes: tuple[tuple[PE, ...], ...]
    psum: tuple[tuple[float | None, ...], ...]

    def __repr__(self) -> str:
        def words(pe: PE) -> str:
            if pe.moving is None:
                held = " ".join(map(str, pe.held)) or "·"
                return held if pe.total is None else f"{held} > {pe.total}"
            products = " + ".join(f"{w}×{v}" for w, v in zip(pe.held, pe.moving, strict=True))
            return products if pe.total is None else f"{products} > {pe.total}"

        cells = [[words(pe) for pe in row] for row in self.pes]
        width = max(len(cell) for row in cells for cell in row) + 3
        lines = ["PEs   " + "".join(f"m {m}".ljust(width) for m in range(len(cells[0])))]
        lines += [f"k {k:<4}" + "".join(cell.ljust(width) for cell in row)
                  for k, row in enumerate(cells)]
        lines += ["PSUM  " + "".join(f"n {n}".ljust(6) for n in range(len(self.psum[0])))]
        lines += [f"m {m:<4}" + "".join(("·" if v is None else str(v)).ljust(6) for v in row)
                  for m, row in enumerate(self.psum)]
        return "\n".join(line.rstrip() for line in lines)


def _whole(number: object) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)


@dataclass(frozen=True, repr=False)
class Clockwork:
    """`matmuls` times stationary[K, M].T @ moving[K, N] on the Tensor Engine, back to back.

    core     a core of `machine`, or its name; with the peaks it ships with, for these follow from
             the clock
    load     "hidden": the next weights load in the background; "shown": the array waits for
             them; "kept": all matmuls share weights that are in place at cycle 0
    array    None: the core's own array. A number: a toy of that many rows and columns with the
             same rules but no 64-cycle floor, small enough to look at every value

    Cycles count from 0; the first load begins in cycle 0. Raises ClockworkError for a tile the
    array does not take, a dtype without a dense rate, an unknown load or a cycle out of the run.
    """

    K: int
    M: int
    N: int
    dtype: str = "bf16"
    core: Machine = machine.trn1  # a name is looked up
    matmuls: int = 1
    load: str = "hidden"
    array: int | None = None

    def __post_init__(self) -> None:
        if self.load not in LOADS:
            raise ClockworkError(f"load: got {self.load!r}; expected one of {', '.join(LOADS)}")
        if isinstance(self.core, str):
            object.__setattr__(self, "core", machine.get(self.core))
        shipped = machine.ALL.get(self.core.key)
        if not shipped or "tensor_clock" not in shipped.facts or self.core.scope != "core":
            raise ClockworkError(f"core: got {self.core.key} ({self.core.scope}); expected one "
                                 "NeuronCore, such as machine.trn1")
        if self.dtype not in self.core.peaks or self.dtype.startswith("sparse"):
            known = [d for d in self.core.peaks if not d.startswith("sparse")]
            raise ClockworkError(f"dtype: {self.core.key} has no dense rate for {self.dtype!r}; "
                                 f"it has {', '.join(known)}")
        own, peak = self.core.peaks[self.dtype], shipped.peaks[self.dtype]
        if own.value != peak.value:
            raise ClockworkError(f"core: P of {self.core.key} in {self.dtype} is {own.text} here, "
                                 f"{peak.text} by its clock, which this counts. Give "
                                 f"machine.{self.core.key}")
        if self.array is not None and not (_whole(self.array) and 2 <= self.array <= 16):
            raise ClockworkError(f"array: got {self.array}; a toy has 2 to 16 rows and columns. "
                                 "Leave it out for the core's own")
        for name, size, most in (("K", self.K, self.rows * self.lanes),
                                 ("M", self.M, self.columns), ("N", self.N, self.n_max),
                                 ("matmuls", self.matmuls, 1024)):
            if not (_whole(size) and 1 <= size <= most):
                raise ClockworkError(
                    f"{name}: got {size!r}; expected a whole number from 1 to {most}. "
                    + ("More only repeat what these show" if name == "matmuls" else
                       f"Split a larger {name} into several matmuls"))
        if self.K % self.lanes:
            raise ClockworkError(f"K: got {self.K}; in {self.dtype} a PE holds {self.lanes} "
                                 f"values, so K is a multiple of {self.lanes}. Pad it with zeros")

    def _fact(self, name: str) -> int:
        # What later guides do not restate is v2's, assumed to hold on.
        return int((self.core.facts.get(name) or machine.trn1.facts[name]).value)

    # --- sizes ---------------------------------------------------------------------------------

    @property
    def fast(self) -> int:
        """Columns of weights that load in a cycle."""
        return self._fact("fast_load_stationary_speedup")

    @property
    def n_max(self) -> int:
        """The most columns a moving tile has."""
        return self._fact("gemm_moving_fmax")

    @property
    def rows(self) -> int:
        return self.array or self._fact("tensor_array_rows")

    @property
    def columns(self) -> int:
        return self.array or self._fact("tensor_array_columns")

    @property
    def clock(self) -> float:
        """Hz."""
        return self.core.facts["tensor_clock"].value

    @property
    def _pe_rate(self) -> float:
        return self.core.peak(self.dtype) / machine.get(self.core.key).peak("bf16")

    @property
    def passes(self) -> int:
        """Cycles one moving column takes: 1, or 4 in fp32."""
        return round(max(1 / self._pe_rate, 1))

    @property
    def lanes(self) -> int:
        """Multiply-adds a PE does at once: 1, or 2 in fp8's double row."""
        return round(max(self._pe_rate, 1))

    @property
    def used_rows(self) -> int:
        """Rows that hold weights: K, or half of it where a PE holds two."""
        return self.K // self.lanes

    # --- cycles --------------------------------------------------------------------------------

    @property
    def stream(self) -> int:
        """Cycles in which columns of one matmul enter."""
        return self.N * self.passes

    @property
    def floor(self) -> int:
        """Fewest columns' worth of cycles between two starts: 64; 0 on a toy array."""
        return 0 if self.array else self._fact("matmul_min_initiation_interval")

    @property
    def mm_cycles(self) -> int:
        """Cycles of one MultiplyMoving, weights aside."""
        return max(self.N, self.floor) * self.passes

    @property
    def load_cycles(self) -> float:
        """Cycles of one LoadStationary; whole ones on a toy array."""
        cycles = self.M / self.fast
        return -(-cycles // 1) if self.array else cycles

    @property
    def interval(self) -> float:
        """Cycles between the starts of two matmuls."""
        return {"hidden": max(self.mm_cycles, self.load_cycles), "kept": self.mm_cycles,
                "shown": self.mm_cycles + self.load_cycles}[self.load]

    def start(self, i: int) -> int:
        """The cycle in which the first column of matmul i (from 0) meets the first PE."""
        first = 0 if self.load == "kept" else self.load_cycles
        return int(-(-(first + i * self.interval) // 1))

    @property
    def working(self) -> int:
        """Cycles from the first multiply-add of the run to its last."""
        return (self.start(self.matmuls - 1) - self.start(0) + self.stream
                + self.used_rows + self.M - 2)

    @property
    def cycles(self) -> int:
        """Cycles until the last sum is in PSUM, the first load included."""
        return self.start(self.matmuls - 1) + self.stream + self.rows + self.M - 2

    # --- rates ---------------------------------------------------------------------------------

    @property
    def peak(self) -> float:
        """FLOP/s of this dtype with every PE busy."""
        return 2 * self.rows * self.columns * self.clock * self._pe_rate

    @property
    def rate(self) -> float:
        """FLOP/s of endless matmuls back to back, filling and draining left out."""
        return 2 * self.K * self.M * self.N * self.clock / self.interval

    @property
    def total(self) -> int:
        """Multiply-adds of the run."""
        return self.matmuls * self.K * self.M * self.N

    @property
    def run_rate(self) -> float:
        """FLOP/s of the run as it is, from cycle 0 until the last sum is in PSUM."""
        return 2 * self.total * self.clock / self.cycles

    @property
    def utilisation(self) -> float:
        """The run's rate over the dtype's peak."""
        return self.run_rate / self.peak

    @property
    def shares(self) -> dict[str, float]:
        """What is left of the peak, cause by cause as in derate: their product is rate / peak."""
        return {"rows": self.used_rows / self.rows, "columns": self.M / self.columns,
                "moving size": self.stream / self.mm_cycles,
                "stationary load": self.mm_cycles / self.interval}

    # --- each cycle ----------------------------------------------------------------------------

    @cached_property
    def _diagonals(self) -> tuple[int, ...]:
        """PEs in use with k + m = 0, 1, ...: those that a column meets in the same cycle."""
        K, M = self.used_rows, self.M
        return tuple(min(d + 1, K, M, K + M - 1 - d) for d in range(K + M - 1))

    @cached_property
    def _reached(self) -> tuple[int, ...]:
        return tuple(accumulate(self._diagonals))

    def active(self, cycle: int) -> int:
        """PEs that multiply in this cycle: those a column reached, less those it has left."""
        reached = self._reached

        def up_to(x: int) -> int:
            return 0 if x < 0 else reached[min(x, len(reached) - 1)]

        return sum(up_to(x) - up_to(x - self.stream) for x in self._since(cycle))

    def macs(self, cycle: int) -> int:
        """Multiply-adds done when this cycle ends."""
        done = 0
        for x in self._since(cycle):
            if x >= self.stream + len(self._diagonals) - 1:
                done += self.used_rows * self.M * self.N
            else:
                done += sum(pes * min(max((x - d + 1) // self.passes, 0), self.N)
                            for d, pes in enumerate(self._diagonals))
        return done * self.lanes

    def _since(self, cycle: int) -> list[int]:
        """Cycles since the start of each matmul that has started."""
        return [cycle - start for start in map(self.start, range(self.matmuls)) if start <= cycle]

    def _now(self, x: int) -> tuple[int, int, int] | None:
        """Matmul, column and pass of the wave that started x cycles after cycle 0."""
        i = self._latest(x)
        if i < 0 or x - self.start(i) >= self.stream:
            return None
        return i, *divmod(x - self.start(i), self.passes)

    def _latest(self, cycle: int) -> int:
        """The matmul that started last; -1 before the first."""
        i = min(int((cycle - self.start(0)) // self.interval) + 1, self.matmuls - 1)
        while i >= 0 and self.start(i) > cycle:
            i -= 1
        return max(i, -1)

    def phase(self, cycle: int) -> str:
        """What enters the array in this cycle, in words."""
        i = self._latest(cycle)
        if i < 0:
            return "the first stationary tile loads"
        here, q = f"matmul {i + 1} of {self.matmuls}: ", cycle - self.start(i)
        if q < self.stream:
            words = f"{here}moving column {q // self.passes + 1} of {self.N} enters"
            if self.passes > 1:
                words += f", pass {q % self.passes + 1} of {self.passes}"
        elif i + 1 == self.matmuls:
            return f"{here}no column is left to enter, the last sums move down"
        elif q < self.mm_cycles:
            words = f"{here}nothing enters, starts are at least {self.mm_cycles} cycles apart"
        else:
            return f"{here}nothing enters, the next stationary tile loads"
        if self.load == "hidden" and i + 1 < self.matmuls and q < self.load_cycles:
            words += " (the next stationary tile loads in the background)"
        return words

    @property
    def window(self) -> int:
        """The fewest whole intervals that are whole cycles, in cycles."""
        return float(self.interval).as_integer_ratio()[0]

    def at(self, cycle: int) -> Moment:
        """The moment at the end of `cycle`, 0 to cycles - 1."""
        if not (_whole(cycle) and 0 <= cycle < self.cycles):
            raise ClockworkError(f"cycle: got {cycle!r}; this run has 0 to {self.cycles - 1}")
        phase, active, macs = self.phase(cycle), self.active(cycle), self.macs(cycle)
        window = min(self.window, cycle + 1)
        before = self.macs(cycle - window) if window <= cycle else 0
        rate = 2 * (macs - before) * self.clock / window
        average = 2 * macs * self.clock / (cycle + 1)
        pes = self.rows * self.columns
        text = (f"Cycle {cycle} of {self.cycles - 1}: {phase}. {active:,} of {pes:,} PEs multiply "
                f"({units.significant(100 * active / pes)} %); {macs:,} MACs so far, "
                f"{units.show(rate, 'FLOP/s', 4)} over the last "
                f"{f'{window} cycles' if window > 1 else 'cycle'}, "
                f"{units.show(average, 'FLOP/s', 4)} since cycle 0.")
        return Moment(cycle, phase, active, macs, active / pes, rate, average, text)

    @cached_property
    def full(self) -> int:
        """The first cycle in which as many PEs multiply as ever in this run."""
        # Later matmuls repeat the pattern, once as many overlap as ever will; an interval of
        # quarter cycles does so every four matmuls.
        lasts = self.stream + len(self._diagonals)
        run = replace(self, matmuls=min(self.matmuls, int(lasts // self.interval) + 6))
        return max(range(run.start(0) + run.working),
                   key=lambda cycle: (run.active(cycle), -cycle))

    def landmarks(self) -> dict[str, int]:
        """Cycles worth a look, in order of their names."""
        return {"start": 0, "full": self.full, "first sum":
                self.start(0) + self.passes - 1 + self.rows - 1,
                "last column": self.start(self.matmuls - 1) + self.stream - 1,
                "end": self.cycles - 1}

    # --- values --------------------------------------------------------------------------------

    def state(self, cycle: int, a: Sequence[Sequence[float]],
              b: Sequence[Sequence[float]]) -> State:
        """Every PE and PSUM at the end of `cycle`, while it computes a.T @ b.

        a, b   [matmuls x K, M] and [matmuls x K, N]: each matmul takes K rows of both, and their
               sums accumulate in PSUM. With load="kept" [K, M] and [K, matmuls x N]: each takes
               N columns of b
        """
        self.at(cycle)
        kept = self.load == "kept"
        deep = self.K * (1 if kept else self.matmuls)
        wide = self.N * (self.matmuls if kept else 1)
        for name, tile, shape in (("a", a, (deep, self.M)), ("b", b, (deep, wide))):
            if len(tile) != shape[0] or any(len(row) != shape[1] for row in tile):
                raise ClockworkError(f"state: {name} is not [{shape[0]}, {shape[1]}]. "
                                     "Rows are the contraction")

        def weights(i: int, k: int, m: int) -> tuple[float, ...]:
            first = 0 if kept else i * self.K
            return tuple(a[first + row][m] for row in range(k, self.K, self.used_rows))

        def values(i: int, n: int, k: int) -> tuple[float, ...]:
            first, column = (0, i * self.N + n) if kept else (i * self.K, n)
            return tuple(b[first + row][column] for row in range(k, self.K, self.used_rows))

        def total(i: int, n: int, m: int, last: int) -> float:
            return sum(w * v for k in range(min(last + 1, self.used_rows))
                       for w, v in zip(weights(i, k, m), values(i, n, k), strict=True))

        def pe(k: int, m: int) -> PE:
            if m >= self.M:
                return PE((), None, None)
            x = cycle - k - m
            held: tuple[float, ...] = ()
            if k < self.used_rows:
                i = self._latest(x)
                # Four columns a cycle, the first ones first; this is the end of the cycle.
                loaded = kept or m < (cycle + 1) * self.fast
                held = weights(max(i, 0), k, m) if i >= 0 or loaded else ()
            now = self._now(x)
            if now is None:
                return PE(held, None, None)
            i, n, turn = now
            return PE(held, values(i, n, k) if k < self.used_rows else None,
                      total(i, n, m, k) if turn == self.passes - 1 else None)

        psum: list[list[float | None]] = [[None] * wide for _ in range(self.M)]
        for m in range(self.M):
            for i in range(self.matmuls):
                through = cycle - self.start(i) - (self.rows - 1) - m + 1
                for n in range(min(max(through // self.passes, 0), self.N)):
                    column = i * self.N + n if kept else n
                    psum[m][column] = (psum[m][column] or 0) + total(i, n, m, self.rows - 1)
        return State(tuple(tuple(pe(k, m) for m in range(self.columns))
                           for k in range(self.rows)), tuple(map(tuple, psum)))

    def __repr__(self) -> str:
        of = "this toy array" if self.array else self.core.name
        share = self.rate / self.peak
        rows = [
            (f"K = {self.K}, M = {self.M}, N = {self.N}, {self.dtype}, {self.matmuls} "
             f"matmul{'s' * (self.matmuls > 1)}, weights {LOADS[self.load]}", ""),
            ("  interval", f"{self.interval:g} cycles, "
             f"{units.show(self.interval / self.clock, 's')} at {units.show(self.clock, 'Hz')}"),
            ("  back to back", f"{units.show(self.rate, 'FLOP/s', 4)}, {share:.1%} of "
             f"{units.show(self.peak, 'FLOP/s', 4)}, P of {of}"),
            *((f"    {name}", f"x {units.significant(left, 4)}")
              for name, left in self.shares.items() if left < 1),
            ("  this run", f"{self.cycles} cycles, {units.show(self.run_rate, 'FLOP/s', 4)}, "
             f"{self.utilisation:.1%} of P"),
        ]
        return "\n".join(f"{name:<20}{value}".rstrip() for name, value in rows)
