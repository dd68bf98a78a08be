"""One core, or all that share the memory.

Question  does a core alone get more than its even share of HBM, and does the split hold?
Answer    together(launch, chip) -> Together: alone and each core while all run, with a verdict
Assumes   the same launch on each core; cores that share an HBM stack, as the documents say
Ignores   what else the cores share; the cost model, which knows one core at a time
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .. import machine as machines
from .. import units
from ..machine import Spec
from ..table import aligned, wrapped
from . import store
from .launches import Launch
from .measuring import (
    MeasureError,
    Measurement,
    flag_names,
    from_recording,
    giga,
    measure,
    runs_here,
)
from .plausibility import Flag

EVEN = 0.05  # a core's rate is even with another figure when they differ by no more than this


@dataclass(frozen=True, eq=False, repr=False)
class Together:
    """The same launch alone on one core, and on all of `cores` at once.

    chip      "trn1", "inf2", "trn2"
    alone     on one core, the others idle
    each      core -> on this core while all of them run; {} where nobody measured it
    cores     the cores meant
    why       why `each` is empty; "" where it is not
    """

    chip: str
    alone: Measurement
    each: Mapping[int, Measurement]
    cores: tuple[int, ...]
    why: str = ""

    @property
    def sharing(self) -> int:
        """Cores that share one HBM stack, as the documents say."""
        return sharing(self.chip)

    @property
    def share(self) -> Spec:
        """A core's even share of the HBM, as the documents say."""
        return machines.get(self.chip, "core").bandwidths["HBM"]

    @property
    def rates(self) -> tuple[float, ...]:
        """B/s of each core while all run."""
        return tuple(one.bandwidth for one in self.each.values())

    @property
    def total(self) -> float | None:
        """B/s of all cores at once; None where nobody measured it."""
        return sum(self.rates) if self.each else None

    @property
    def slowdown(self) -> float | None:
        """Rate alone over the mean rate while all run; 1: the others cost nothing.

        None where nobody measured it, or alone is of another kind.
        """
        if self.total is None or self._kinds() != (self.alone.kind,):
            return None
        return self.alone.bandwidth / (self.total / len(self.each))

    @property
    def even(self) -> bool | None:
        """Whether all cores get the same while all run, within EVEN; None: not measured."""
        return max(self.rates) <= (1 + EVEN) * min(self.rates) if self.each else None

    @property
    def doubted(self) -> tuple[str, ...]:
        """Flags that keep a figure of it out of fits; then it shows nothing."""
        return tuple(f"{name}: {flag}" for name, one in self._named() if one.excluded
                     for flag in one.flags)

    @property
    def tested(self) -> bool:
        """Whether the cores took something of each other, or all that their stack gives."""
        return (self.total or 0) >= (1 - EVEN) * self.sharing * self.share.value or (
            self.slowdown or 0) > 1 + EVEN

    @property
    def rule(self) -> str:
        """What the verdict calls what."""
        return (f"even: all at once lie within {EVEN:.0%} of each other; pessimistic for one-core "
                "kernels: one core alone gets more than its even share; put to the test: all at "
                f"once get what their stack gives, or {EVEN:.0%} less than alone")

    @property
    def verdict(self) -> str:
        """What the figures say of the even split, by `rule`."""
        if self.doubted:
            return (f"It shows nothing of the split: a figure is flagged ({self.doubted[0]}). "
                    "Measure again.")
        return " ".join([self._alone(), *([self._at_once()] if self.each else [])])

    def _alone(self) -> str:
        lone, share = self.alone.bandwidth, self.share
        of_share = lone / share.value
        return (f"Alone ({self.alone.kind}) one core gets {units.show(lone, 'B/s', 4)}, "
                f"{of_share:.2f} of its even share {share.text} ({share.kind}): " + (
                    "a model's figure, which says nothing of the split."
                    if self.alone.kind != "measured" else
                    "more, so the per-core figure is pessimistic for one-core kernels."
                    if of_share > 1 else
                    "no more, so the per-core figure is not pessimistic for one-core kernels."
                    if of_share > 1 - EVEN else
                    "no more, and it does not reach its share, so it cannot tell whether there is "
                    "more."))

    def _at_once(self) -> str:
        doubt = [flag for one in self.each.values() for flag in one.flags
                 if Flag.of(flag).name == "overlap"]
        if doubt:
            return ("All at once shows nothing: it is not known that they ran at the same time "
                    f"({doubt[0]}). Measure again.")
        low, high = (units.show(pick(self.rates), "B/s", 4) for pick in (min, max))
        mean = sum(self.rates) / len(self.rates)
        even = "even" if self.even else "not even"
        said = (f"All {len(self.each)} at once ({', '.join(self._kinds())}) get {low} to {high}, "
                f"{mean / self.share.value:.2f} of that share on average: " + (
                    f"they share no stack and are {even}." if self.sharing == 1 else
                    f"the split is {even}." if self.tested else
                    "less than their stack gives, so the split was not put to the test."))
        if self.slowdown is None:
            return f"{said} Alone is {self.alone.kind}, so it is not compared."
        return f"{said} Alone is {self.slowdown:.2f} x that average: the others take " + (
            "something of it." if self.slowdown > 1 + EVEN else "nothing of it.")

    def _kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.kind for one in self.each.values()))

    def _named(self) -> list[tuple[str, Measurement]]:
        return [("alone", self.alone), *((f"{k}, all run", one) for k, one in self.each.items())]

    def __repr__(self) -> str:
        n, stacks = self.sharing, machines.get(self.chip, "device").facts["hbm_stacks"]
        shared = (f"{self.chip}: {stacks.text} HBM stacks a device, "
                  + (f"{n} cores share one" if n > 1 else "one core each: no other core shares it")
                  + f" ({stacks.kind}); cores {', '.join(map(str, self.cores))}")
        rows = [("core", "kind", "time", "GB/s total", "of alone", "notes")]
        rows += [(name, one.kind, units.show(one.time, "s", 4), giga(one.bandwidth),
                  f"{one.bandwidth / self.alone.bandwidth:.2f}"
                  if one.kind == self.alone.kind else "-", flag_names(one))
                 for name, one in self._named()]
        if self.each:
            rows.append(("sum", "", "", giga(self.total), "", ""))
        labels = dict.fromkeys(one.label for _, one in self._named())
        said = [*[f"all at once: {self.why}"] * (not self.each), self.verdict,
                f"  rule: {self.rule}"]
        said += [f"  {name}: {flag}" for name, one in self._named() for flag in one.flags]
        return "\n".join([*labels, *wrapped([f"{self.alone.launch.title}; {shared}"]),
                          *aligned(rows, left=(0, 1, 5)), *wrapped(said)])


def sharing(chip: str) -> int:
    """Cores that share one HBM stack of this chip, as the documents say."""
    return int(machines.get(chip, "device").facts["cores_per_hbm_stack"].value)


def sharers(chip: str) -> tuple[int, ...]:
    """The cores to compare: those of the first stack; where each has its own, of the device."""
    cores = int(machines.get(chip, "device").facts["cores"].value)
    return tuple(range(sharing(chip) if sharing(chip) > 1 else cores))


def together(call: Launch, chip: str, cores: Iterable[int] | None = None) -> Together:
    """The launch alone on one core, then on each of `cores` while all of them run it.

    cores   None: those that share the first HBM stack; where no two do, all of the device

    What cannot be measured here, and was not recorded, is missing, and `why` says so: the cost
    model knows one core at a time.
    """
    alone = measure(call, chip)
    meant = sharers(chip) if cores is None else tuple(cores)
    if len(set(meant)) != len(meant) or len(meant) < 2:
        raise MeasureError(f"together: cores {meant}; expected two or more different ones, such as "
                           f"{sharers(chip)}")
    found: Mapping[int, store.Recording] = _recorded_together(call, chip, meant)
    why = (f"not measured: there is no recording of it, no {chip} to measure it on, and the cost "
           "model knows one core at a time")
    if not found and runs_here(chip):
        from .runner import CaptureError, capture_together
        print(f"capturing {call.title} on cores {', '.join(map(str, meant))} at once", flush=True)
        try:
            found = dict(zip(meant, capture_together(call, meant), strict=True))
        except CaptureError as error:  # what was measured alone is kept
            why = f"not measured: {error}"
    each = {core: from_recording(call, chip, one) for core, one in found.items()}
    why = "" if each else why
    return Together(chip, alone, each, meant, why)


def _recorded_together(call: Launch, chip: str, cores: Sequence[int]
                       ) -> dict[int, store.Recording]:
    """Recordings of all these cores at once, if each of them has one."""
    found = {core: store.find(call.key(chip), core=core, alongside=set(cores) - {core})
             for core in cores}
    known = {core: one for core, one in found.items() if one is not None}
    return known if len(known) == len(found) else {}
