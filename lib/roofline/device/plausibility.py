"""Is a time possible, or is an input of the measurement wrong?

Question  is it shorter than the least time that any registered figure allows, or than the sheet's?
Answer    plausible(profile, count) -> flags: "implausible", "above spec", or none
Assumes   the count is that of the work that was timed: of the window, where it is a window; the
          bytes go through the shared DMA engines, not through the GPSIMD Engine's own (Trainium2)
Ignores   how much longer than that it took (gaps), and whether the outputs were right (runner)

Two least times of the same Count, both from `machine`:

- The most generous one. Each byte of HBM goes through a DMA engine, so the bytes take at least
  Q over the largest figure registered for all DMA engines of the cores that worked. W takes at
  least the sum of W_d over P_d, where P_d is the array times its clock: no engine does more.
  A shorter time is "implausible": kept, and left out of roofs and fits.
- That of the spec. The sheet has two roofs for the same bytes: a core's share of HBM, and what
  its DMA engines move. A byte crosses both, so the lower of them is the spec. Which one that is
  depends on the chip, and both are told: the DMA engines on Trainium1 and, by less, on Trainium2.
  A time between the two is "above spec": an input is wrong, usually the clock or the scope, or
  the sheet's figure is low for this kernel (the HBM share is an even split of the device, the DMA
  figure a table's). Nothing else tells the two apart, so such a time stays in roofs and fits.
  So is a profile's time up to CLOCK_ERROR below that of W: the clock may be wrong, or the total.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .. import machine as machines
from .. import units
from ..count import Count, count_of
from ..machine import Machine, MachineError
from ..profile import Profile, formulas
from ..profile.facts import UNSURE
from ..table import wrapped

CLOCK_TICK = 1e-9  # s; profiles round times to whole ns
SAME_BYTES = 0.01  # amounts that differ by no more are the same: descriptors, semaphores
CLOCK_ERROR = 0.01  # real profiles: total_time lay 0.4 to 0.9 % below cycles / clock
# What may be odd about a recording -> whether its figures are left out of roofs and fits.
FLAGS = {
    "implausible": True,   # faster than any registered figure allows
    "cold": True,          # the first execution, or not known to be a later one
    "doubled": True,       # every core did all of it: the source counts half of what was moved
    "cores": True,         # another number of physical cores than the launch asked for
    "above spec": False,   # faster than the sheet says, and possible
    "unchecked": False,    # outputs of the profiled execution itself were not found or readable
    "bytes": False,        # the profiler counted other bytes at HBM than the source
    "no timeline": False,  # the summary alone
    "overlap": False,      # whether the other cores worked at the same time is not shown
}


@dataclass(frozen=True)
class Flag:
    """Something odd about a figure.

    name   one of FLAGS
    said   what, with the numbers
    """

    name: str
    said: str

    @property
    def excluded(self) -> bool:
        """Whether the figure is left out of roofs and fits; so is one of an unknown name."""
        return FLAGS.get(self.name, True)

    @classmethod
    def of(cls, text: str) -> "Flag":
        """The flag with this text, which is one of Profile.flags."""
        name, _, said = text.partition(": ")
        return cls(name, said)

    def __str__(self) -> str:
        return f"{self.name}: {self.said}"


class Flags(tuple[Flag, ...]):
    """Flags, shown as text; () when nothing is odd."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(wrapped(map(str, self))) or "nothing odd: no faster than the sheet says"


def excluded(flags: Iterable[str | Flag]) -> bool:
    """Whether a figure with these flags (Profile.flags) is left out of roofs and fits."""
    return any(Flag.of(str(flag)).excluded for flag in flags)


def plausible(profile: Profile, count: Any, machine: str | Machine | None = None
              ) -> Flags:
    """What is odd about this profile's total time, or that of its window; () when nothing is.

    count     a Count, or a run or an op that has one, of what was timed
    machine   the chip; as the profile says, unless given

    Raises ProfileError where total_time is unknown; MachineError where the chip is, or has no
    such cores; ValueError for what has no count.
    """
    on = machine_of(profile, machine)
    return _judged(profile.needs("total_time"), _count(count), on, profile)


def plausible_time(seconds: float, count: Any, machine: str | Machine) -> Flags:
    """The same of a bare time, such as a published one.

    machine   its scope tells the cores: one, or a logical core of two

    Raises ValueError for a time that is not finite and >= 0 s, or for what has no count.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not (
            0 <= seconds < math.inf):
        raise ValueError(f"plausible_time: got {seconds!r} s; expected a finite time >= 0. "
                         "Give seconds, not us")
    on = machines.get(machine) if isinstance(machine, str) else machine
    return _judged(float(seconds), _count(count), on, None)


def machine_of(profile: Profile, machine: str | Machine | None = None) -> Machine:
    """The core, or the pair of LNC=2, that a profile is of; of its own chip unless given."""
    if machine is None and profile.chip not in machines.ALL:
        raise MachineError(f"{profile.name}: which chip it ran on is not in the profile; name it, "
                           'such as "trn2"')
    on = machine if isinstance(machine, Machine) else machines.get(machine or profile.chip)
    return on.at("core" if working(profile, on) == 1 else "lnc2")


def working(profile: Profile, on: Machine) -> int:
    """Physical cores that worked; as many as there can be where nothing tells."""
    if profile.timeline is not None and (worked := len(profile.timeline.working)):
        return worked
    if UNSURE not in profile.warnings:
        return profile.cores
    told = profile.provenance.get("lnc")
    most = machines.get(on.key, "device").facts["cores_per_hbm_stack"].value
    return told if told in (1, 2) else 2 if most == 2 else 1


def _judged(time: float, count: Count, on: Machine, profile: Profile | None) -> Flags:
    on.bw("HBM"), on.bw("DMA")  # MachineError for a machine without one
    hbm, dma = on.bandwidths["HBM"], on.bandwidths["DMA"]
    most = max((dma, *dma.rivals), key=lambda spec: spec.value)
    lower = min(("HBM share", hbm), ("DMA roof", dma), key=lambda roof: roof[1].value)
    compute = sum(w / _peak(on, dtype) for dtype, w in count.work.items())
    moved = count.hbm_bytes / most.value
    least, sure = max(compute, moved), compute
    if profile is not None:  # its time and the clock may differ by as much
        sure *= 1 - CLOCK_ERROR
    amount = units.show(count.hbm_bytes, "B", 4)
    if time + CLOCK_TICK < max(sure, moved):
        which = (f"{amount} over HBM take {_us(moved)} at {most.text}, the most that any source "
                 f"gives the DMA engines of {on.name}" if moved >= compute else
                 f"{units.show(count.flops, 'FLOP', 4)} take {_us(compute)} at "
                 f"{_peaks(on, count)}, the array of {on.name} at its clock")
        return Flags([Flag("implausible", f"{_us(time)} is {time / least:.3g} of the least time: "
                           f"{which}. Kept, and left out of roofs and fits. "
                           f"Suspects: {'; '.join(_suspects(profile, count, on))}")])
    slow = count.hbm_bytes / lower[1].value
    if time + CLOCK_TICK < compute and compute >= slow:  # by CLOCK_ERROR at most
        return Flags([Flag("above spec", f"{units.show(count.flops, 'FLOP', 4)} take "
                           f"{_us(compute)} at {_peaks(on, count)}, the array of {on.name} at its "
                           f"clock; {_us(time)} are {1 - time / compute:.2%} less. Check the "
                           "input: usually the clock; a profile's total may run up to "
                           f"{CLOCK_ERROR:.0%} below cycles / clock by itself")])
    if time + CLOCK_TICK < slow:
        rate = units.show(count.hbm_bytes / time, "B/s", 4)
        return Flags([Flag("above spec", f"{amount} in {_us(time)} are {rate}; the sheet's HBM "
                           f"share is {hbm.text}, its DMA roof {dma.text}, and the lower is the "
                           f"{lower[0]}. Check the input: usually the clock or the scope")])
    return Flags()


def _us(seconds: float) -> str:
    return units.show(seconds, "s", 4)


def _peak(on: Machine, dtype: str) -> float:
    """P of a dtype, FLOP/s; of the fastest dtype where the machine has none of this name."""
    known = {name: spec.value for name, spec in on.peaks.items()}
    fastest = max(value for name, value in known.items() if not name.startswith("sparse"))
    return known.get(dtype) or known.get(f"c{dtype}") or fastest


def _peaks(on: Machine, count: Count) -> str:
    return ", ".join(f"{units.show(_peak(on, dtype), 'FLOP/s', 4)} ({dtype})"
                     for dtype in count.work)


def _count(what: Any) -> Count:
    count = count_of(what)
    if count is None:
        raise ValueError(f"plausible: count: got {type(what).__name__}; expected a Count, or a "
                         "run or an op that has one")
    return count


# --- the usual suspects, each with whether the profile contradicts it -----------------------------


def _suspects(profile: Profile | None, count: Count, on: Machine) -> list[str]:
    """Clock, scope, dtype, execution: what is contradicted first."""
    if profile is None:
        return ["the clock (did the device finish before it stopped?)",
                f"the scope (is it {on.name}?)", "the dtype", "the execution (did it run?)"]
    told = [_clock(profile, on), _scope(profile, count, on), _dtype(profile, count),
            _execution(profile)]
    return [text for _, text in sorted(told, key=lambda one: not one[0])]


def _clock(profile: Profile, on: Machine) -> tuple[bool, str]:
    ours = machines.get(on.key).facts["tensor_clock"].value
    said = formulas.number(profile, "tensor_engine_clock_freq")
    if said is None:
        return False, "the clock (which one is not in the profile)"
    differs = not math.isclose(said * 1e9, ours, rel_tol=1e-3)
    return differs, (f"the clock (the profile says {said:g} GHz, the sheet "
                     f"{units.show(ours, 'Hz')})")


def _scope(profile: Profile, count: Count, on: Machine) -> tuple[bool, str]:
    cores = working(profile, on)
    text = f"{cores} core{'s' * (cores > 1)} worked"
    total = formulas.hbm_bytes(profile)
    if total is None:
        return False, f"the scope ({text})"
    differs = not math.isclose(total, count.hbm_bytes, rel_tol=SAME_BYTES)
    return differs, (f"the scope ({text}; the profiler counted {units.show(total, 'B', 4)}, "
                     f"the source {units.show(count.hbm_bytes, 'B', 4)})")


def _dtype(profile: Profile, count: Count) -> tuple[bool, str]:
    ran = {dtype for dtype in profile.matmul_flops if dtype}
    if not ran or not count.work:
        return False, "the dtype (are the bytes of an element right?)"
    return ran != set(count.work), (f"the dtype (the source multiplies "
                                    f"{', '.join(count.work)}, the profile "
                                    f"{', '.join(sorted(ran))})")


def _execution(profile: Profile) -> tuple[bool, str]:
    said = profile.provenance.get("execution") or "which one is not known"
    return profile.provenance.get("warm") is False, (
        f"the execution ({said}; did it run to its end?)")
