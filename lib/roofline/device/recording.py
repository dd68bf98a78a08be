"""Host measurements as records, and their file.

Question  what was measured, on which CPU, how noisy was it, and how is that kept?
Answer    frozen records with a readable table; JSON written whole or not at all
Assumes   base units; every figure is the median of rounds, with the least and the most
Ignores   how the figures came about (host, rounds)
"""

import contextlib
import dataclasses
import json
import math
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from ..machine import Ceiling, Machine, MachineError, Spec
from ..table import Told, aligned
from ..units import mebi, show, significant

SCHEMA = "roofline-host/1"


class RecordingError(Told, Exception):
    """A recording that cannot be read or written: what, got, next step."""


@dataclass(frozen=True)
class Provenance:
    """Whose figures these are. No host name, user name or path belongs here."""

    kind: str  # always "measured"
    cpu: str
    cores: int  # cores this process may use
    os: str
    python: str
    numpy: str
    blas: str
    numba: str  # "" when it is not installed
    date: str  # UTC, to the minute
    foreign: float  # share of the CPU that other work took, median round
    noise: str  # "" when quiet, else what disturbed the run

    @property
    def noisy(self) -> bool:
        """True when the figures were taken on a busy or a moving machine: trust ratios only."""
        return self.noise.startswith("noisy")

    @property
    def label(self) -> str:
        """The CPU and the day: what a page prints beside a figure."""
        return f"{self.cpu}, {self.date[:10]}"

    def __repr__(self) -> str:
        versions = [f"Python {self.python}", f"NumPy {self.numpy}", self.blas,
                    f"numba {self.numba}" if self.numba else "no numba"]
        cores = f"{self.cores} core{'s' if self.cores > 1 else ''}"
        return (f"{self.kind} on {self.cpu}, {cores}, {self.date}\n"
                f"{self.os}, {', '.join(versions)}\n"
                f"{self.noise or f'quiet: others took {self.foreign:.0%} of the CPU'}")


@dataclass(frozen=True)
class Roof:
    """One roof for one thread count, in base units ("B/s" or "FLOP/s").

    value, low, high   median, least and most over the kept rounds
    rounds, kept       rounds run, and those with a quiet CPU that count
    how                what was timed
    """

    name: str
    threads: int
    unit: str
    value: float
    low: float
    high: float
    rounds: int
    kept: int
    how: str


@dataclass(frozen=True)
class CurvePoint:
    """`fmas` multiply-adds on every element of a large array, in place.

    rate    FLOP/s
    share   of the roof at its intensity, the roof taken in the same round
    """

    threads: int
    fmas: int
    rate: float
    share: float

    @staticmethod
    def per_byte(fmas: int) -> float:
        """2 FLOPs an FMA; an fp32 element is read and written, 8 bytes."""
        return 2 * fmas / 8

    @property
    def intensity(self) -> float:
        return self.per_byte(self.fmas)

    def under(self, machine: Machine) -> float:
        """FLOP/s of this share of the machine's roof: the point to draw."""
        return self.share * machine.attainable(self.intensity, "fp32")


@dataclass(frozen=True)
class HostRoofs:
    """Both roofs of one CPU, for one thread and for all of them.

    roofs   "in place" and "read" (DRAM, B/s), "matmul fp32", "matmul fp64" (FLOP/s); with
            numba also "FMA fp32", "FMA fp64" and the plateaus "cache to 48 KiB", ... (B/s)
    curve   with numba: the roofline as measured, k FMAs an element
    """

    provenance: Provenance
    roofs: tuple[Roof, ...]
    curve: tuple[CurvePoint, ...]

    @property
    def threads(self) -> tuple[int, ...]:
        return tuple(sorted({r.threads for r in self.roofs}))

    def roof(self, name: str, threads: int = 1) -> Roof:
        """One roof. Raises MachineError, naming those there are, when it was not measured."""
        for r in self.roofs:
            if (r.name, r.threads) == (name, threads):
                return r
        known = ", ".join(f"{r.name!r} ({r.threads})" for r in self.roofs)
        raise MachineError(f"no roof {name!r} for {threads} thread(s); measured: {known}")

    def has(self, name: str, threads: int = 1) -> bool:
        return any((r.name, r.threads) == (name, threads) for r in self.roofs)

    def machine(self, threads: int = 1) -> Machine:
        """These roofs as a Machine, for `entitle` and for plot.roofline.

        threads   one of .threads; the kernels of this module run on 1
        DRAM is the better of the in-place and the read roof, so that no kernel exceeds it; the
        other one is a ceiling. Without numba the matmul roof stands in for the FMA peak.
        """
        rw, read = self.roof("in place", threads), self.roof("read", threads)
        top, lower = (rw, read) if rw.value >= read.value else (read, rw)
        peaks, ceilings = {}, [Ceiling(f"{lower.name} bandwidth", self._spec(lower), lower.how,
                                       "DRAM", cap=True)]
        for dtype in ("fp32", "fp64"):
            matmul = self.roof(f"matmul {dtype}", threads)
            fma = self.roof(f"FMA {dtype}", threads) if self.has(f"FMA {dtype}", threads) else None
            best = fma if fma and fma.value >= matmul.value else matmul
            stands_in = "" if fma else "the matmul roof stands in for the FMA peak: no numba"
            peaks[dtype] = self._spec(best, stands_in)
            if fma and best is fma:
                ceilings.append(Ceiling(f"matmul {dtype}", self._spec(matmul),
                                        "what the BLAS library reaches", dtype, cap=True))
        caches = [r for r in self.roofs if r.threads == threads and r.how.startswith("in cache")]
        return Machine(key="host", name=self.provenance.cpu,
                       scope=f"{threads} thread{'s' if threads > 1 else ''}", peaks=peaks,
                       bandwidths={"DRAM": self._spec(top)} | {c.name: self._spec(c)
                                                               for c in caches},
                       ceilings=tuple(ceilings), facts={})

    def _spec(self, roof: Roof, holds: str = "") -> Spec:
        spread = f"{show(roof.low, roof.unit)} to {show(roof.high, roof.unit)}"
        return Spec(roof.value, roof.unit, f"measured on {self.provenance.label}", "measured",
                    "; ".join(t for t in (holds, roof.how, spread) if t))

    def __repr__(self) -> str:
        rows = [("roof", "threads", "median", "least", "most", "rounds", "what")]
        rows += [(r.name, str(r.threads), show(r.value, r.unit), show(r.low, r.unit),
                  show(r.high, r.unit), f"{r.kept} of {r.rounds}", r.how) for r in self.roofs]
        return "\n".join([repr(self.provenance), *aligned(rows)])


@dataclass(frozen=True)
class KernelRun:
    """One kernel, timed by turns with the roofs; one thread, fp32.

    flops, counted_bytes   W and the least Q of the op
    moved_bytes            Q of this code, modelled: with write-allocate and temporaries
    seconds, low, high     median, least, most over the kept rounds, s
    share                  of the roof at W / counted_bytes, the roof taken in the same round
    explained              max(W / P, bytes read / BW_read, bytes moved / BW) over the time
    """

    name: str
    flops: int
    counted_bytes: int
    moved_bytes: int
    seconds: float
    low: float
    high: float
    share: float
    explained: float
    rounds: int
    kept: int
    why: str

    @property
    def intensity(self) -> float:
        """W / Q counted, FLOP/B: where the kernel stands on the plot."""
        return self.flops / self.counted_bytes

    @property
    def moved_intensity(self) -> float:
        """W / Q moved, FLOP/B."""
        return self.flops / self.moved_bytes

    @property
    def rate(self) -> float:
        """W / median time, FLOP/s."""
        return self.flops / self.seconds

    def under(self, machine: Machine) -> float:
        """FLOP/s of this share of the machine's roof: the point to draw.

        On a machine that moves, the roofs of `machine` and `rate` belong to different moments;
        the share does not.
        """
        return self.share * machine.attainable(self.intensity, "fp32")


@dataclass(frozen=True)
class Kernels(Sequence[KernelRun]):
    """All kernel runs, by position or by name; `noise` is "" when they ran undisturbed."""

    runs: tuple[KernelRun, ...]
    noise: str

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self.runs[key]
        for run in self.runs:
            if run.name == key:
                return run
        raise LookupError(f"no kernel {key!r}; there are: {', '.join(r.name for r in self.runs)}")

    def __iter__(self) -> Iterator[KernelRun]:
        return iter(self.runs)

    def __repr__(self) -> str:
        rows = [("kernel", "W", "Q counted", "Q moved", "I", "time", "rate", "of roof",
                 "explained")]
        rows += [(k.name, show(k.flops, "FLOP"), show(k.counted_bytes, "B"),
                  show(k.moved_bytes, "B"), significant(k.intensity), show(k.seconds, "s"),
                  show(k.rate, "FLOP/s"), f"{k.share:.1%}", f"{k.explained:.1%}")
                 for k in self.runs]
        return "\n".join(aligned(rows)) + (f"\n{self.noise}" if self.noise else "")


@dataclass(frozen=True)
class SweepPoint:
    """One array size: `bytes` in all, updated in place; 2 x bytes move.

    numpy     seconds of one np.add call on it
    compiled  seconds of one pass of a compiled loop; 0 without numba
    """

    bytes: int
    numpy: float
    compiled: float


@dataclass(frozen=True)
class Sweep:
    """Bandwidth against array size, one thread, x += s in place."""

    points: tuple[SweepPoint, ...]
    noise: str

    @property
    def fixed_cost(self) -> float:
        """Seconds of the smallest NumPy call: nearly all of it is the call itself."""
        return self.points[0].numpy

    @property
    def bandwidth(self) -> float:
        """B/s of the largest array, read and written, NumPy."""
        return 2 * self.points[-1].bytes / self.points[-1].numpy

    def __repr__(self) -> str:
        rows = [("array", "NumPy call", "bandwidth", "compiled loop")]
        rows += [(mebi(p.bytes), show(p.numpy, "s"), show(2 * p.bytes / p.numpy, "B/s"),
                  show(2 * p.bytes / p.compiled, "B/s") if p.compiled else "-")
                 for p in self.points]
        return "\n".join(aligned(rows)) + (f"\n{self.noise}" if self.noise else "")


@dataclass(frozen=True)
class HostRun:
    """Everything measured on one CPU in one go."""

    roofs: HostRoofs
    kernels: Kernels
    sweep: Sweep

    def __repr__(self) -> str:
        return f"{self.roofs!r}\n\n{self.kernels!r}\n\n{self.sweep!r}"



# ---- the file ----------------------------------------------------------------------------

def save(run: HostRun, path: Path | str) -> Path:
    """Write a recording: whole or not at all, and never over an existing file.

    Raises RecordingError when the file exists or cannot be written.
    """
    path = Path(path)
    text = json.dumps({"schema": SCHEMA, **_plain(run)}, indent=1, allow_nan=False) + "\n"
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _move_to_new(part, path)
    except FileExistsError:
        raise RecordingError(f"{path.name}: there is a recording of that name already; it was "
                             "left as it is. Save under another name") from None
    except OSError as error:
        raise RecordingError(f"{path.name}: not saved ({error.strerror}), nothing was changed. "
                             "Free some space or pass another folder") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    return path


def _move_to_new(part: Path, path: Path) -> None:
    """FileExistsError when somebody else was first: a link fails then, a rename would not."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError from None
        os.replace(part, path)


def load(path: Path | str) -> HostRun:
    """Read a recording. Raises RecordingError, and leaves the file alone, when it is bad."""
    path = Path(path)
    return _build(HostRun, document(path, SCHEMA, "Measure again with host.run()"), path.name)


def document(path: Path, schema: str, again: str) -> dict[str, Any]:
    """The JSON object in a file of this schema, without it; `again` is the next step.

    Raises RecordingError when the file is cut, is no such object, or has another schema.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=float)
    except OSError as error:
        raise RecordingError(f"{path.name}: cannot be read ({error.strerror}). {again}") from None
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{path.name}: expected JSON, got a broken or cut file "
                             f"({error!s:.100}). {again}") from None
    got = data.pop("schema", None) if isinstance(data, dict) else type(data).__name__
    if got != schema:
        raise RecordingError(f"{path.name}: schema: expected {schema!r}, got {got!r:.60}. {again}")
    return data


def root() -> Path | None:
    """The book's folder: ROOFLINE_COURSE where that is set, as on a class's hub, or above the
    notebook, or above an editable install of this package.
    """
    if named := os.environ.get("ROOFLINE_COURSE"):
        return Path(named)
    here, package = Path.cwd(), Path(__file__).resolve()
    for folder in (here, *here.parents, *package.parents):
        if (folder / "lib" / "roofline").is_dir():
            return folder
    return None


def _plain(value: Any) -> Any:
    """Records to dicts and lists; a one-field record of a tuple is just the list."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


def _build(kind: Any, data: Any, where: str) -> Any:
    """The record `kind` from plain data; every field present, of its type, and finite."""
    def wrong(expected: str) -> RecordingError:
        return RecordingError(f"{where}: expected {expected}, got {data!r:.40}. "
                              "Measure again with host.run()")

    if get_origin(kind) is tuple:
        if not isinstance(data, list):
            raise wrong("a list")
        item = get_args(kind)[0]
        return tuple(_build(item, v, f"{where}[{i}]") for i, v in enumerate(data))
    if dataclasses.is_dataclass(kind):
        if not isinstance(data, dict):
            raise wrong("an object")
        hints = get_type_hints(kind)
        names = [f.name for f in dataclasses.fields(kind)]
        if differ := set(names) ^ set(data):
            odd = sorted(differ)[0]
            state = "missing" if odd in names else "unknown"
            raise RecordingError(f"{where}.{odd}: field {state}. Measure again with host.run()")
        fields = {n: _build(hints[n], data[n], f"{where}.{n}") for n in names}
        return kind(**fields)  # type: ignore[operator]
    if kind is str:
        if not isinstance(data, str):
            raise wrong("text")
        return data
    number = isinstance(data, (int, float)) and not isinstance(data, bool)
    positive = number and math.isfinite(data) and kind(data) == data and data > 0
    if not positive and not (where.endswith((".compiled", ".foreign")) and data == 0):
        raise wrong("a whole number > 0" if kind is int else "a finite number > 0")
    return kind(data)
