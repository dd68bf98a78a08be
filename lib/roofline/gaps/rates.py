"""What one core can do a nanosecond: the machine's figures as the ledger divides by them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from .. import machine as machines
from ..machine import Machine
from ..table import Told
from ..timeline import DTYPES

if TYPE_CHECKING:
    from ..count import Count  # a value that is passed in

_CORES = {"core": 1, "lnc2": 2}
_SAME = {"fp8": "cfp8"}  # what a timeline calls fp8 is cfp8 on NeuronCore-v2


class GapError(Told, ValueError):
    """A profile, machine or window from which no ledger can be made, or an unknown cause."""


class Rates:
    """Figures of one core, whatever scope the machine has.

    bw            B/ns of the slow link
    dma_engines, dma_rate   how many, B/ns of each; None where the machine does not say
    carried       least time of the slow link's bytes by the DMA engines, as a share of its own
    at_start      share of its cycles that the Tensor Engine may use when work begins, or None
    interval      least columns' worth of time between two matmuls
    array         elements of a full stationary tile, by DTYPES
    credit, own   ns a FLOP by DTYPES: at the dtype that is counted, and at the row's own
    fastest       of the dtypes that are counted, or that ran
    """

    def __init__(self, machine: Machine) -> None:
        if machine.scope not in _CORES:
            raise GapError(f"ledger: got {machine.name} at scope {machine.scope}; a profile is of "
                           "one core or of an LNC=2 pair. Use machine.trn2, or .at('lnc2')")
        self.machine, self.cores = machine, _CORES[machine.scope]
        core = machine if machine.scope == "core" else machines.get(machine.key, "core")

        def fact(name: str, *older: Machine) -> float | None:
            return next((m.facts[name].value for m in (core, *older) if name in m.facts), None)

        self.bw = machine.bw() / self.cores / 1e9
        engines, rate = fact("dma_engines"), fact("dma_engine_theoretical")
        self.dma_engines = int(engines) if engines else None
        self.dma_rate = rate / 1e9 if rate else None
        self.carried = min(1.0, self.bw / (engines * rate / 1e9)) if engines and rate else 1.0
        self.at_start = fact("throttle_start")
        # Later cores' documents do not restate the interval; the profiles show it there, too.
        self.interval = fact("matmul_min_initiation_interval", machines.get("trn1")) or 0
        columns = fact("tensor_array_columns") or 0
        deep = [fact(f"max_contraction.{dtype}") or fact("max_contraction.bf16") or 0
                for dtype in DTYPES]
        self.array = np.array(deep) * columns
        self.credit = self.own = np.zeros(len(DTYPES))
        self.fastest = ""

    def peak(self, dtype: str) -> float:
        """FLOP/ns of one core; MachineError where the machine has none for this dtype."""
        return self.machine.peak(self.named(dtype)) / self.cores / 1e9

    def named(self, dtype: str) -> str:
        """What the machine calls it; an unknown dtype ("") counts as the fastest."""
        dtype = dtype or self.fastest
        return dtype if dtype in self.machine.peaks else _SAME.get(dtype, dtype)

    def price(self, used: Iterable[str], count: "Count | None") -> None:
        """Set `credit` and `own` for the dtypes of the matmuls that ran ("" is unknown)."""
        used = set(used)
        counted: Mapping[str, int] = count.work if count else {}
        known = set(counted) or used - {""}
        if used and not known:
            raise GapError("ledger: the profile gives no matmul's dtype, so there is no peak to "
                           "hold it against; pass count=Count({'bf16': ...}, ...)")
        self.fastest = max(sorted(known), key=self.peak, default="")
        fastest = self.peak(self.fastest) if known else 0.0
        self.credit, self.own = np.zeros(len(DTYPES)), np.zeros(len(DTYPES))
        for place, dtype in enumerate(DTYPES):
            if dtype in used:
                self.own[place] = self.credit[place] = 1 / self.peak(dtype)
                if counted and not {dtype, _SAME.get(dtype)} & {*counted}:
                    self.credit[place] = 1 / fastest

    def best(self, count: "Count", cores: int) -> dict[str, float]:
        """ns at each roof for this count on so many cores."""
        compute = sum((w / self.peak(d) for d, w in count.work.items()), 0.0)
        return {"compute": compute / cores, "memory": count.hbm_bytes / self.bw / cores}
