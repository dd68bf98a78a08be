"""Measure a launch, or say what stands in for it.

Question  how long does this call take on this chip, and whose figure is that?
Answer    measure(launch, chip): a recording, a capture, or the model, in this order; sweep() of
          several launches
Assumes   a recording of the same source, shapes and parameters is as good as a new capture
Ignores   what a figure means (readings); whether to trust it (plausibility)
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from .. import machine as machines
from ..count import Count
from ..machine import Machine
from ..profile import Profile, formulas
from ..table import Told, aligned, wrapped
from ..units import amount
from . import store
from .chip import CHIPS, probe
from .launches import Launch, arrays_text, partition_bytes
from .plausibility import excluded

AGAIN = "device.capture makes a new recording"  # what is flagged is not captured again by itself
KINDS = ("measured", "modelled")  # in this order in tables and curves


class MeasureError(Told, ValueError):
    """Something that cannot be measured or read off: what, got, next step."""


@dataclass(frozen=True, eq=False, repr=False)
class Measurement:
    """One launch on one chip, with the profile that tells of it.

    chip     "trn1", "inf2", "trn2"
    profile  of the device, or the model's: profile.kind says which
    counted  W and Q of the source, where they are known already
    """

    launch: Launch
    chip: str
    profile: Profile
    counted: Count | None = field(default=None, compare=False)

    @property
    def kind(self) -> str:
        """"measured" or "modelled"."""
        return self.profile.kind

    @property
    def label(self) -> str:
        """Whose figure: instance, versions and date, or that it is the model's."""
        if self.kind == "modelled":
            return f"modelled: the course's cost model of {self.chip}, not a measurement"
        whose = str(self.profile.provenance.get("label") or self.profile.name)
        return whose if whose.startswith("synthetic") else f"{self.kind} on {whose}"

    @property
    def flags(self) -> tuple[str, ...]:
        """What is odd about it, in words."""
        return tuple(map(str, self.profile.flags))

    @property
    def excluded(self) -> bool:
        """Whether a flag keeps it out of roofs and fits."""
        return excluded(self.flags)

    @cached_property
    def count(self) -> Count:
        """W and Q of the source."""
        return self.counted or self.launch.count(self.chip)

    @cached_property
    def machine(self) -> Machine:
        """What its figures are set against: a core, or the pair of LNC=2."""
        return machines.get(self.chip, "core" if self.launch.lnc == 1 else "lnc2")

    @property
    def time(self) -> float:
        """The profiler's total, s."""
        return self.profile.needs("total_time")

    @property
    def bandwidth(self) -> float:
        """Q of the source over the profiler's total, B/s."""
        return self.count.hbm_bytes / self.time

    @property
    def active_time(self) -> float | None:
        """The time in which a DMA engine moved something, s; None: the profile does not tell."""
        return formulas.number(self.profile, "dma_active_time") or None

    @property
    def active_bandwidth(self) -> float | None:
        """Q of the source over `active_time`, B/s; what waits between transfers is left out."""
        seconds = self.active_time
        return self.count.hbm_bytes / seconds if seconds else None

    @property
    def rate(self) -> float:
        """W of the source over the profiler's total, FLOP/s."""
        return self.count.flops / self.time

    def __repr__(self) -> str:
        roofs = [("", f"{self.bandwidth / spec.value:.1%}", f"of {name}, {spec.text} ({spec.kind})"
                  + ", so above it" * (self.bandwidth > spec.value))
                 for name, spec in self.machine.bandwidths.items() if name in ("HBM", "DMA")]
        whose = "profiler" if self.kind == "measured" else "model"
        rows = [("time", amount(self.time, "s"), f"the {whose}'s total"),
                ("Q", amount(self.count.hbm_bytes, "B"), "counted in the source"),
                ("bandwidth", amount(self.bandwidth, "B/s"), "Q / time"), *roofs,
                ("while active", amount(self.active_bandwidth, "B/s"),
                 f"Q / {amount(self.active_time, 's')} in which a DMA engine moved something")]
        if self.count.flops:
            rows += [("W", amount(self.count.flops, "FLOP"), "counted in the source"),
                     ("rate", amount(self.rate, "FLOP/s"), "W / time")]
        return "\n".join([self.label, f"  {self.launch.title}", *aligned(rows, indent="  "),
                          *wrapped(f"  flag: {flag}" for flag in self.flags),
                          *[f"  in no roof or fit; {AGAIN}"] * self.excluded,
                          *wrapped(f"  warning: {text}" for text in self.profile.warnings
                                   if self.kind == "measured")])


def kinds(*made: Measurement) -> str:
    """Whose figures these are together: "measured", "modelled" or "measured and modelled"."""
    return " and ".join(kind for kind in KINDS if kind in {one.kind for one in made})


def unlike(*made: Measurement) -> str:
    """Why these say nothing of each other, in lines of a page; "" for one kind on one chip.

    A model's time less a device's is no change of either.
    """
    if len({(one.kind, one.chip) for one in made}) < 2:
        return ""
    told = ", ".join(f"{one.launch.title} is {one.kind} ({one.chip})" for one in made)
    return "\n".join(wrapped([f"not compared: {told}. Record all of them on one chip"]))


# --- several launches ----------------------------------------------------------------------------


class Curve(NamedTuple):
    """x and y of points of one kind, in order of x."""

    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Sequence[Measurement]):
    """Measurements of several launches, in the order given.

    points    those that are there
    failures  (launch, what happened) of those that could not be had
    left      launches that were not reached, because somebody stopped the sweep
    """

    points: tuple[Measurement, ...]
    failures: tuple[tuple[Launch, str], ...] = ()
    left: tuple[Launch, ...] = ()

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return Sweep(self.points[at], self.failures, self.left)
        return self.points[at]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds there are, "measured" first."""
        return tuple(kind for kind in KINDS if any(p.kind == kind for p in self.points))

    @property
    def labels(self) -> tuple[str, ...]:
        """Whose figures these are, each once, measured ones first."""
        return tuple(dict.fromkeys(p.label for kind in self.kinds for p in self.points
                                   if p.kind == kind))

    def only(self, kind: str | None = None, *, lnc: int | None = None) -> "Sweep":
        """The points of one kind, of one LNC, or of both."""
        def kept(call: Launch) -> bool:
            return lnc in (None, call.lnc)

        return Sweep(tuple(p for p in self.points if kind in (None, p.kind) and kept(p.launch)),
                     tuple(one for one in self.failures if kept(one[0])),
                     tuple(filter(kept, self.left)))

    def curves(self, x: "str | Callable[[Launch], float]" = "bytes per partition",
               y: str = "bandwidth") -> Mapping[str, Curve]:
        """Kind -> its curve; flagged points and failures are left out (`flagged` has them).

        x   "bytes per partition", a parameter of the kernel ("elements", "partitions"), or a
            function of a launch
        y   "bandwidth": over the profiler's total; "active_bandwidth": while a DMA engine moved
            something, so without what small transfers wait for; "rate": FLOP/s; "time": s

        Raises MeasureError for points of several kernels, and for those of LNC 1 and of LNC 2: a
        core and a pair have roofs of their own, and no curve is of both.
        """
        return self._curves(x, y, excluded=False)

    def flagged(self, x: "str | Callable[[Launch], float]" = "bytes per partition",
                y: str = "bandwidth") -> Mapping[str, Curve]:
        """The same of the points that a flag keeps out of roofs and fits."""
        return self._curves(x, y, excluded=True)

    def _curves(self, x: Any, y: str, excluded: bool) -> Mapping[str, Curve]:
        if y not in ("bandwidth", "active_bandwidth", "rate", "time"):
            raise MeasureError(f"sweep: y {y!r}; expected bandwidth, active_bandwidth, rate or "
                               "time")
        kernels = list(dict.fromkeys(p.launch.name for p in self.points))
        if len(kernels) > 1:
            raise MeasureError(f"sweep: points of {', '.join(kernels)}: a curve is of one kernel. "
                               "Sweep each for itself")
        lncs = sorted({p.launch.lnc for p in self.points})
        if len(lncs) > 1:
            told = ", ".join(f"{sum(p.launch.lnc == n for p in self.points)} of LNC {n}"
                             for n in lncs)
            raise MeasureError(f"sweep: points {told}: one core and two have roofs of their own, "
                               "and no curve is of both. Take sweep.only(lnc=1) or "
                               "sweep.only(lnc=2)")
        found = {}
        for kind in self.kinds:
            pairs = [(value_of(p.launch, x), getattr(p, y)) for p in self.points
                     if p.kind == kind and p.excluded == excluded]
            known = sorted((at, value) for at, value in pairs if value is not None)
            if known:
                found[kind] = Curve(*map(tuple, zip(*known, strict=True)))
        return found

    def knee(self, x: "str | Callable[[Launch], float]" = "bytes per partition",
             y: str = "bandwidth", share: float = 0.95, kind: str | None = None) -> Any:
        """Where the curve of one kind flattens: see readings.knee.

        kind   the measured points where there are any, unless it says otherwise
        """
        from .readings import knee
        if y == "time":
            raise MeasureError("sweep: a knee is of a rate; y is bandwidth, active_bandwidth or "
                               "rate")
        kind = kind or next(iter(self.kinds), "")
        sizes, rates = self.curves(x, y).get(kind, Curve((), ()))
        others = len(self.points) - len(self.only(kind))
        flagged = len(self.flagged(x, y).get(kind, Curve((), ())).x)
        told = [f"{n} {what}" for n, what in (
            (flagged, "flagged and left out"), (others, "of another kind and left out"),
            (len(self.failures), "failed"), (len(self.left), "not reached")) if n]
        return knee(sizes, rates, share, what=x if isinstance(x, str) else "x",
                    unit="B" if x == "bytes per partition" else "",
                    rate_unit="FLOP/s" if y == "rate" else "B/s", kind=kind,
                    notes=tuple(told))

    def __repr__(self) -> str:
        work = any(p.count.flops for p in self.points)
        rows = [("point", "kind", "time", *["FLOP/s"] * work, "GB/s total",
                 "GB/s while DMA is active", "notes")]
        names = iter(points_of([*(p.launch for p in self.points),
                                *(one for one, _ in self.failures), *self.left]))
        told, empty = [], ("", *[""] * work, "", "")
        for p, name in zip(self.points, names, strict=False):
            rows.append((name, p.kind, amount(p.time, "s"),
                         *[amount(p.rate, "FLOP/s")] * work, giga(p.bandwidth),
                         giga(p.active_bandwidth), flag_names(p)))
            told += [f"{name}: {flag}" for flag in p.flags]
        told += [f"in no fit: flagged; {AGAIN}"] * any(p.excluded for p in self.points)
        for (_, text), name in zip(self.failures, names, strict=False):
            rows.append((name, "failed", *empty, "see below"))
            told.append(f"{name}: {textwrap.shorten(text, 400)}")
        rows += [(name, "not reached", *empty, "stopped; run it again to go on") for name in names]
        return "\n".join([*(self.labels or ("no point",)), *aligned(rows, left=(0, 1, 5 + work)),
                          *wrapped(told)])


def flag_names(of: Measurement) -> str:
    """The names of its flags, and what they do."""
    names = ", ".join(flag.partition(":")[0] for flag in of.flags)
    return names + ": in no fit" * of.excluded


def giga(value: float | None) -> str:
    return "unknown" if value is None else f"{value / 1e9:.1f}"


def value_of(call: Launch, x: "str | Callable[[Launch], float]") -> float:
    """The x of a launch: see Sweep.curves. Raises MeasureError where it has none."""
    if callable(x):
        return x(call)
    given = call.parameters
    if x == "bytes per partition" and call.shapes and (
            size := partition_bytes(given, call.shapes[0][1])):
        return size
    if isinstance(given.get(x), (int, float)):
        return given[x]
    raise MeasureError(f"{call.title}: no {x!r}; expected \"bytes per partition\" of a kernel with "
                       f"`elements`, one of its parameters ({', '.join(given) or 'it has none'}), "
                       "or a function of a launch")


def points_of(calls: Sequence[Launch]) -> list[str]:
    """Of each launch what sets it apart from the others."""
    several = len({call.name for call in calls}) > 1
    told = [{"": call.name} if several else {} for call in calls]
    for call, own in zip(calls, told, strict=True):
        own |= {name: f"{name}={value}" for name, value in call.parameters.items()}
        own |= {f"argument {i}": " ".join([*call.names[i:i + 1], str(list(shape)), dtype])
                for i, (shape, dtype) in enumerate(call.shapes)}
        own["LNC"] = f"LNC {call.lnc}"
    differ = [key for key in dict.fromkeys(key for own in told for key in own)
              if len({own.get(key) for own in told}) > 1]
    return [" ".join(own[key] for key in differ if key in own) or call.title
            for call, own in zip(calls, told, strict=True)]


# --- one launch ----------------------------------------------------------------------------------


def measure(call: Launch, chip: str) -> Measurement:
    """A recording of this launch on this chip; else a new capture, on such a chip; else the model.

    chip   "trn1", "inf2" or "trn2"

    With ROOFLINE_RECORDED=1 nothing is captured. A recording that is flagged is taken where there
    is no other: device.capture makes a new one. Raises CaptureError where a capture fails, and
    ProfileError where a recording does not tell its total time.
    """
    _chip(chip)
    found = _found(call, chip)
    return modelled(call, chip) if found is None else from_recording(call, chip, found)


def _found(call: Launch, chip: str) -> store.Recording | None:
    """A recording, else a new capture on such a chip; None where there is neither."""
    found = store.find(call.key(chip))
    if found is None and runs_here(chip):
        from .runner import capture_launch
        print(f"capturing {call.title} of {arrays_text(call.shapes)} on this {chip}", flush=True)
        found = capture_launch(call)
    return found


def from_recording(call: Launch, chip: str, recording: store.Recording) -> Measurement:
    made = Measurement(call, chip, recording.profile)
    if made.time <= 0:
        raise MeasureError(f"{recording.name}: its total time is {made.time} s; expected more "
                           "than 0. Capture it again")
    return made


def modelled(call: Launch, chip: str) -> Measurement:
    """What the cost model says; no limit to buffers: each tile has a place of its own.

    Its profile is named as the launch's title, so that two of one kernel can be told apart.
    """
    from .. import neuroncore
    run = call.counted(chip)
    made = neuroncore.predict(run, buffers=None).profile
    return Measurement(call, chip, replace(made, name=call.title), counted=run.count)


def recorded(call: Launch, chip: str) -> Profile | str:
    """The profile of a recording, else of a new capture as in `measure`; else a word for a table.

    "none yet" where there is neither, "failed" after a capture that did not come to its end,
    "flagged" where the figures are in doubt; the latter two print why. So a page goes on.
    """
    from .explorer import CaptureError
    try:
        found = _found(call, chip)
    except CaptureError as error:
        print(error)
        return "failed"
    if found is None:
        return "none yet"
    if found.excluded:
        print("\n".join(wrapped([f"{found.name}: {flag}; {AGAIN}" for flag in found.flags
                                 if flag.excluded])))
        return "flagged"
    return found.profile


def chip_here(otherwise: str) -> str:
    """The chip that a page is about: the one here, else that of the newest recording.

    otherwise   where there is neither: "trn1", "inf2" or "trn2"
    """
    here, mine = probe().chip, store.recordings()
    if here in CHIPS:
        return here
    return mine[0].chip if len(mine) else otherwise


def _chip(chip: str) -> None:
    if chip not in CHIPS:
        raise MeasureError(f"measure: chip: got {chip!r}; expected one of {', '.join(CHIPS)}")


def runs_here(chip: str) -> bool:
    """Whether a capture can be made here and now, on this chip."""
    here = probe()
    return here.runs and here.chip == chip


def sweep(calls: Iterable[Launch], chip: str) -> Sweep:
    """Each launch measured, in order.

    A launch that fails is kept with its message, and the rest goes on. Ctrl-C stops the sweep and
    keeps what is done. What was captured is recorded: run it again and only the rest is captured.
    """
    _chip(chip)
    calls = tuple(calls)
    points: list[Measurement] = []
    failures: list[tuple[Launch, str]] = []
    for at, call in enumerate(calls):
        try:
            points.append(measure(call, chip))
        except KeyboardInterrupt:
            return Sweep(tuple(points), tuple(failures), calls[at:])
        except Exception as error:  # of any part: kernel, compiler, tool; the rest goes on
            failures.append((call, f"{type(error).__name__}: {error}"))
    return Sweep(tuple(points), tuple(failures))
