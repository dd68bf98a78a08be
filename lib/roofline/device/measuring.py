"""Measure a launch, or say what stands in for it.

Question  how long does this call take on this chip, and whose figure is that?
Answer    measure(launch) -> Measurement: a recording, a capture, or the model, in this order
Assumes   a recording of the same source, shapes and parameters is as good as a new capture
Ignores   what a figure means (readings); whether to trust it (plausibility)
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..count import Count
from ..profile import Profile
from .launches import Launch


@dataclass(frozen=True, eq=False)
class Measurement:
    """One launch on one chip, with the profile that tells of it.

    chip     "trn1", "inf2", "trn2"
    profile  of the device, or the model's: profile.kind says which
    """

    launch: Launch
    chip: str
    profile: Profile

    @property
    def kind(self) -> str:
        """"measured" or "modelled"."""
        return self.profile.kind

    @property
    def label(self) -> str:
        """Whose figure: instance, SDK and date, or "modelled" and the chip."""
        raise NotImplementedError

    @property
    def flags(self) -> tuple[str, ...]:
        """What is odd about it; a flagged figure is no roof and in no fit."""
        return self.profile.flags

    @cached_property
    def count(self) -> Count:
        """W and Q of the source."""
        return self.launch.count(self.chip)

    @property
    def time(self) -> float:
        """The profiler's total, s."""
        return self.profile.needs("total_time")

    @property
    def bandwidth(self) -> float:
        """Q of the source over the profiler's total, B/s."""
        return self.count.hbm_bytes / self.time

    @property
    def active_bandwidth(self) -> float:
        """Q of the source over the time in which a DMA engine moved something, B/s."""
        return self.count.hbm_bytes / self.profile.needs("dma_active_time")


class Sweep(Sequence[Measurement]):
    """Measurements of several launches, in order, and what failed."""

    failures: tuple[tuple[Launch, str], ...]


@dataclass(frozen=True, eq=False)
class Together:
    """The same launch alone on one core, and on all of `cores` at once; None: not measured."""

    alone: Measurement | None
    cores: tuple[Measurement, ...]
    why: str


def measure(call: Launch, chip: str) -> Measurement:
    raise NotImplementedError


def sweep(calls: Iterable[Launch], chip: str) -> Sweep:
    raise NotImplementedError


def together(call: Launch, chip: str, cores: Iterable[int] | None = None) -> Together:
    raise NotImplementedError
