"""One core, or all that share the memory.

Question  does a core alone get more than its even share of HBM, and does the split hold?
Answer    together(launch, chip) -> Together: alone and each core while all run, with a verdict
Assumes   the same launch on each core; cores that share an HBM stack, as the documents say, are
          numbered one after the other; at LNC 2 a core is a logical one, of two physical
Ignores   what else the cores share; the cost model, which knows one core at a time
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
    each      core -> on this core while all of them run; {} unless each of `cores` has it
    cores     the cores meant, logical ones at LNC 2
    why       why `each` is empty; "" where it is not
    some      what `each` would have, of the cores that have it, while others are missing: shown,
              and in no verdict
    """

    chip: str
    alone: Measurement
    each: Mapping[int, Measurement]
    cores: tuple[int, ...]
    why: str = ""
    some: Mapping[int, Measurement] = field(default_factory=dict)

    @property
    def lnc(self) -> int:
        """Physical cores of each of `cores`."""
        return self.alone.launch.lnc

    @property
    def sharing(self) -> int:
        """Cores that share one HBM stack, as the documents say."""
        return sharing(self.chip, self.lnc)

    @property
    def stacks(self) -> int:
        """HBM stacks that `cores` are on."""
        return len({core // self.sharing for core in self.cores})

    @property
    def shared(self) -> bool:
        """Whether some of `cores` are on one HBM stack."""
        return self.stacks < len(self.cores)

    @property
    def share(self) -> Spec:
        """A core's even share of the HBM, as the documents say."""
        return self.alone.machine.bandwidths["HBM"]

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
        return tuple(f"{name}: {flag}" for name, one in self._named() for flag in one.flags
                     if Flag.of(flag).excluded)

    @property
    def tested(self) -> bool:
        """Whether the cores took something of each other, or all that their stack gives."""
        most = self.stacks * self.sharing * self.share.value
        return (self.total or 0) >= (1 - EVEN) * most or (self.slowdown or 0) > 1 + EVEN

    @property
    def rule(self) -> str:
        """What the verdict calls what."""
        return (f"even: all at once lie within {EVEN:.0%} of each other; {self._pessimistic}: one "
                f"{self._core} alone gets more than its even share; put to the test: all at "
                f"once get what their stack gives, or {EVEN:.0%} less than alone")

    @property
    def _core(self) -> str:
        return "core" if self.lnc == 1 else "logical core"

    @property
    def _pessimistic(self) -> str:
        return ("pessimistic for one-core kernels" if self.lnc == 1 else
                "pessimistic for kernels on one logical core")

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
        figure = "so the " + ("per-core figure is" if self.lnc == 1 else
                              "figure per logical core is")
        return (f"Alone ({self.alone.kind}) one {self._core} gets {units.show(lone, 'B/s', 4)}, "
                f"{of_share:.2f} of its even share {share.text} ({share.kind}): " + (
                    "a model's figure, which says nothing of the split."
                    if self.alone.kind != "measured" else
                    f"more, {figure} {self._pessimistic}."
                    if of_share > 1 else
                    f"no more, {figure} not {self._pessimistic}."
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
                    f"they share no stack and are {even}." if not self.shared else
                    f"the split is {even}." if self.tested else
                    "less than their stack gives, so the split was not put to the test."))
        if self.slowdown is None:
            return f"{said} Alone is {self.alone.kind}, so it is not compared."
        return f"{said} Alone is {self.slowdown:.2f} x that average: the others take " + (
            "something of it." if self.slowdown > 1 + EVEN else "nothing of it.")

    def _kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.kind for one in self.each.values()))

    def _named(self) -> list[tuple[str, Measurement]]:
        return [("alone", self.alone), *_at_once_names(self.each)]

    def __repr__(self) -> str:
        n, stacks = self.sharing, machines.get(self.chip, "device").facts["hbm_stacks"]
        core = self._core
        shared = (f"{self.chip}: {stacks.text} HBM stacks a device, "
                  + (f"{n} {core}s share one" if n > 1 else
                     f"one {core} each: no other {core} shares it")
                  + f" ({stacks.kind}); {core}s {_numbers(self.cores)}"
                  + ", on different stacks" * (n > 1 and not self.shared))
        shown = [*self._named(), *_at_once_names(self.some)]
        rows = [("core", "kind", "time", "GB/s total", "of alone", "notes")]
        rows += [(name, one.kind, units.show(one.time, "s", 4), giga(one.bandwidth),
                  f"{one.bandwidth / self.alone.bandwidth:.2f}"
                  if one.kind == self.alone.kind else "-", flag_names(one))
                 for name, one in shown]
        if self.each:
            rows.append(("sum", "", "", giga(self.total), "", ""))
        labels = dict.fromkeys(one.label for _, one in shown)
        said = [*[f"all at once: {self.why}"] * (not self.each), self.verdict,
                f"  rule: {self.rule}"]
        said += [f"  {name}: {flag}" for name, one in shown for flag in one.flags]
        return "\n".join([*labels, *wrapped([f"{self.alone.launch.title}; {shared}"]),
                          *aligned(rows, left=(0, 1, 5)), *wrapped(said)])


def _at_once_names(of: Mapping[int, Measurement]) -> list[tuple[str, Measurement]]:
    return [(f"{core}, all run", one) for core, one in of.items()]


def _numbers(cores: Iterable[int]) -> str:
    return ", ".join(map(str, cores))


def sharing(chip: str, lnc: int = 1) -> int:
    """Cores of `lnc` physical ones that share one HBM stack, as the documents say; 1: none do."""
    return max(1, int(machines.get(chip, "device").facts["cores_per_hbm_stack"].value) // lnc)


def sharers(chip: str, lnc: int = 1) -> tuple[int, ...]:
    """The cores to compare: those of the first stack; where each has its own, of the device."""
    cores = int(machines.get(chip, "device").facts["cores"].value) // lnc
    return tuple(range(sharing(chip, lnc) if sharing(chip, lnc) > 1 else cores))


def together(call: Launch, chip: str, cores: Iterable[int] | None = None) -> Together:
    """The launch alone on one core, then on each of `cores` while all of them run it.

    cores   None: those that share the first HBM stack; where no two do, all of the device. At
            LNC 2 they are logical cores, of two physical ones each

    What cannot be measured here, and was not recorded, is missing, and `why` says so: the cost
    model knows one core at a time. Raises MeasureError for fewer than two cores, and where some
    share a stack and others do not: those are no equals.
    """
    alone = measure(call, chip)
    meant = sharers(chip, call.lnc) if cores is None else tuple(cores)
    _check(meant, chip, call.lnc)
    found: Mapping[int, store.Recording] = _recorded_together(call, chip, meant)
    why = _missing(meant, found, f"no {chip} to measure it on, and the cost model knows one core "
                                 "at a time")
    if len(found) < len(meant) and runs_here(chip):
        from .runner import CaptureError, capture_together
        kind = "cores" if call.lnc == 1 else "logical cores"
        print(f"capturing {call.title} on {kind} {_numbers(meant)} at once", flush=True)
        try:
            found = dict(zip(meant, capture_together(call, meant), strict=True))
        except CaptureError as error:  # each core is saved as it goes: what is finished is there
            found = _recorded_together(call, chip, meant)
            why = _stopped(meant, found, f"{error}")
    each = {core: from_recording(call, chip, one) for core, one in found.items()}
    if len(each) == len(meant):
        return Together(chip, alone, each, meant)
    return Together(chip, alone, {}, meant, why, each)


def _check(cores: Sequence[int], chip: str, lnc: int) -> None:
    """Two different ones or more, as many of each stack. Raises MeasureError."""
    such = f"such as {sharers(chip, lnc)}"
    if len(set(cores)) != len(cores) or len(cores) < 2:
        raise MeasureError(f"together: cores {cores}; expected two or more different ones, {such}")
    on: dict[int, list[int]] = {}
    for core in cores:
        on.setdefault(core // sharing(chip, lnc), []).append(core)
    if len(set(map(len, on.values()))) > 1:
        told = "; ".join(f"of stack {stack}: {_numbers(some)}" for stack, some in on.items())
        raise MeasureError(f"together: cores {cores}; some share an HBM stack and some do not "
                           f"({told}), so their rates are no equals. Give as many of each stack, "
                           f"{such}")


def _missing(meant: Sequence[int], found: Mapping[int, store.Recording], why: str) -> str:
    """What is missing where nothing can be captured."""
    if not found:
        return f"not measured: there is no recording of it, {why}"
    return f"not complete: {_there(meant, found)}; there is {why}"


def _stopped(meant: Sequence[int], found: Mapping[int, store.Recording], error: str) -> str:
    """What is missing after a capture that failed."""
    if not found:
        return f"not measured: {error}"
    return (f"not complete: {_there(meant, found)}. What is recorded is kept; run it again to "
            f"capture each of them again. What went wrong: {error}")


def _there(meant: Sequence[int], found: Mapping[int, store.Recording]) -> str:
    left = [core for core in meant if core not in found]
    return f"while all run there is a recording of core {_numbers(found)}, none of {_numbers(left)}"


def _recorded_together(call: Launch, chip: str, cores: Sequence[int]
                       ) -> dict[int, store.Recording]:
    """Of each of these cores its recording while all of them run; only those that have one."""
    found = {core: store.find(call.key(chip), core=core, alongside=set(cores) - {core})
             for core in cores}
    return {core: one for core, one in found.items() if one is not None}
