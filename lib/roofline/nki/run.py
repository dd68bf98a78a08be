"""Run a kernel on NumPy and count what it does.

Question  what does this kernel compute, and which bytes and FLOPs does it move?
Answer    run(kernel, *arrays): outputs, Count, counters, traffic a tensor and a line, occupancy
Assumes   the kernel is a pure function of its arguments, as NKI asks
Ignores   time; what the compiler adds, merges or chooses (Run says what it cannot know)
"""

import gc
import os
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, update_wrapper
from pathlib import Path
from typing import Any

import numpy as np

from .. import units
from ..count import Count, Uncounted
from . import audit, lint, trace
from .arguments import Arguments, array_of, results
from .core import _CURRENT, TARGETS, Core, NkiValidationError, Target, refuse
from .core import target as find_target
from .dtypes import holds_nan
from .memory import Allocation, MemoryRegion
from .pair import Abandoned, Pair
from .source import HERE, Line
from .surface import documented
from .trace import Table, Trace

_NUMPY, _STDLIB = str(Path(np.__file__).parent), sysconfig.get_path("stdlib")


class Kernel:
    """A function that nki.jit was put on; kernel[2] runs it on the two cores of an LNC=2 pair."""

    function: Callable
    lnc: int | None

    def __init__(self, function: Callable, lnc: int | None = None) -> None:
        if isinstance(function, Kernel):
            lnc, function = lnc or function.lnc, function.function
        if not callable(function):
            raise refuse("nki.jit", type(function).__name__, "a kernel is a Python function")
        update_wrapper(self, function)
        self.function, self.lnc = function, lnc

    def __getitem__(self, lnc: int) -> "Kernel":
        if not _is_lnc(lnc):
            raise refuse(f"{_name(self)}[...]", repr(lnc),
                         "expected one number, 1 or 2 physical cores (LNC)")
        return Kernel(self.function, int(lnc))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside a kernel: inlined. Outside: run on NumPy, and the outputs returned.

        There the chip is that of NEURON_PLATFORM_TARGET_OVERRIDE, or trn2.
        """
        if _CURRENT.get() is None:
            chip = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
            outputs = _run(self, args, kwargs, chip, None, True).outputs
            return outputs[0] if len(outputs) == 1 else outputs
        if self.lnc:
            raise refuse(f"{_name(self)}[{self.lnc}]", "a launch inside a kernel",
                         "a kernel already has its cores", f"Call {_name(self)}(...)")
        return self.function(*args, **kwargs)

    def with_schedule(self, schedule: object) -> "Kernel":
        """The same kernel: an order for the compiler changes no count (how-to-scheduling-apis)."""
        return self

    def __repr__(self) -> str:
        return f"<kernel {_name(self)}{f'[{self.lnc}]' * bool(self.lnc)}>"


def jit(fn: Callable | None = None, **kwargs: Any) -> Any:
    """Mark a kernel, as nki.jit does; mode is ignored, platform_target= is an error since 0.3.

    Source: nki.jit; migration guide, NKI 0.3.
    """
    if "platform_target" in kwargs:
        raise refuse("nki.jit", "platform_target=", "an error since NKI 0.3",
                     'Say nki.run(kernel, ..., target="trn2")')
    return jit if fn is None else Kernel(fn)


def simulate(kernel: Callable) -> Callable:
    """A function that runs `kernel` on NumPy and returns its outputs (nki.simulate)."""
    return kernel if isinstance(kernel, Kernel) else Kernel(kernel)


def _name(kernel: Any) -> str:
    """What to call it in a message."""
    for held in (kernel, getattr(kernel, "func", None)):  # functools.partial
        if isinstance(name := getattr(held, "__name__", None), str):
            return name
    return type(kernel).__name__


def _is_lnc(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value in (1, 2)


@dataclass(frozen=True, repr=False, eq=False)
class Run:
    """What one call of a kernel did; the properties count it (see trace.CONVENTIONS).

    outputs    the returned tensors as NumPy arrays; () with data=False
    cores      one Trace a physical core; each has its own `count`
    warnings   what does not stop the kernel and should be known
    """

    kernel: str
    target: Target
    data: bool
    outputs: tuple[np.ndarray, ...]
    cores: tuple[Trace, ...]
    warnings: tuple[str, ...]
    known: tuple[Allocation, ...] = field(repr=False)

    @property
    def output(self) -> np.ndarray:
        """The one result of a kernel that returns one. Raises NkiValidationError otherwise."""
        if not self.data:
            raise refuse(f"{self.kernel}: output", "a run with data=False",
                         "on shapes alone nothing is computed", "Run with data=True")
        if len(self.outputs) != 1:
            raise refuse(f"{self.kernel}: output", f"a kernel with {len(self.outputs)} results",
                         "there is not the one", "Read run.outputs")
        return self.outputs[0]

    @property
    def lnc(self) -> int:
        return len(self.cores)

    @cached_property
    def count(self) -> Count:
        """Tensor Engine work per dtype, HBM bytes; both cores together at LNC=2."""
        return sum((core.count for core in self.cores), Count())

    @cached_property
    def trace(self) -> tuple[trace.Record, ...]:
        """One record an instruction, core after core."""
        return tuple(record for core in self.cores for record in core)

    @cached_property
    def counters(self) -> Mapping[str, int | float | str]:
        """Neuron Explorer's names; "unknown" where the source does not decide."""
        return trace.counters(self.cores)

    @property
    def conventions(self) -> str:
        """How all of this is counted, and where a profiler counts otherwise."""
        return trace.CONVENTIONS

    @cached_property
    def tensors(self) -> Table:
        """Each HBM tensor: bytes, read, written, reload factor."""
        return replace(trace.tensors(self.cores, self.known), notes=self.warnings)

    @cached_property
    def lines(self) -> Table:
        """The same for each source line."""
        return replace(trace.lines(self.cores), notes=self.warnings)

    @cached_property
    def matmuls(self) -> Table:
        """Matmul instructions by dtype and size, transposes left out: their FLOPs add up to W."""
        return trace.matmuls(self.cores)

    @cached_property
    def transposes(self) -> Table:
        """The transposes on the Tensor Engine in the same way: FLOPs that are no work."""
        return trace.matmuls(self.cores, transposes=True)

    @cached_property
    def sbuf_peak_bytes(self) -> int:
        """Most bytes of SBUF alive at once on one core: first write to last read."""
        return max(trace.peak(core.lives, MemoryRegion.sbuf, lambda a: a.nbytes).amount
                   for core in self.cores)

    @cached_property
    def psum_peak_banks(self) -> int:
        """Most PSUM banks alive at once on one core; a tile takes whole banks.

        Of a bank it takes as many quarters of the partitions as it needs: four tiles of 32
        partitions are one bank.
        """
        bank = self.target.psum_bank_bytes
        most = max(trace.peak(core.lives, MemoryRegion.psum, lambda a: (
            audit.quarters(a) * -(-a.bytes_per_partition // bank))).amount for core in self.cores)
        return -(-most // 4)

    def __repr__(self) -> str:
        on = "data" if self.data else "shapes alone"
        lines = [f"{self.kernel} on {self.target.name}, LNC={self.lnc}, {on}", f"  {self.count!r}"]
        if self.lnc > 1:
            lines += [f"  core {i}: {core.count!r}" for i, core in enumerate(self.cores)]
        capacity = self.target.sbuf_partition_bytes * self.target.pmax
        lines.append(f"  {sum(map(len, self.cores)):,} instructions; live at most "
                     f"{units.mebi(self.sbuf_peak_bytes)} of {units.mebi(capacity)} SBUF, "
                     f"{self.psum_peak_banks} of {self.target.psum_num_banks} PSUM banks")
        return "\n".join(lines + [f"  {note}" for note in trace.warned(self.warnings)])


def run(kernel: Callable, /, *args: Any, target: str = "trn2", lnc: int | None = None,
        data: bool = True, **kwargs: Any) -> Run:
    """Run `kernel` on the arguments and count it.

    kernel  a function or a @nki.jit kernel; kernel[2] runs on two cores
    args    NumPy arrays (ml_dtypes too), torch or jax arrays, also inside lists, dicts and objects;
            with data=False also (shape, dtype). The kernel gets copies: your arrays never change.
            Anything else is passed on as it is
    target  "trn1", "inf2", "trn2" or "trn3"
    lnc     1 or 2 physical cores; follows kernel[n], and may not contradict it
    data    False counts on shapes alone: the same counts, no outputs

    Raises NkiValidationError for what hardware or documents refuse, with the kernel's line, and
    Uncounted for an API without a counting rule.
    """
    return _run(kernel, args, kwargs, target, lnc, data)


@contextmanager
def no_collection() -> Iterator[None]:
    """Python's search for cycles, off: a trace is alive, and each search walks all of it.

    That was two thirds of a run on shapes alone.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@no_collection()
def _run(kernel: Any, args: tuple, kwargs: dict, on: Any, lnc: Any, data: Any) -> Run:
    from .load import rebind
    name = _name(kernel)
    if _CURRENT.get() is not None:
        raise refuse(f"nki.run({name})", "a run inside a kernel", "a run starts on the host",
                     f"Call {name}(...) as a plain function")
    if not callable(kernel):
        raise refuse("nki.run", type(kernel).__name__, "a kernel is a Python function")
    if type(data) not in (bool, np.bool_):
        raise refuse(f"{name}: data", type(data).__name__, "True or False",
                     "Pass a parameter of the kernel's of that name by its position")
    if not isinstance(on, str) or on not in TARGETS:
        raise refuse(f"{name}: target", repr(on), f"known: {', '.join(TARGETS)}")
    chip = find_target(on)
    launched = _launched(name, chip, getattr(kernel, "lnc", None), lnc)
    function, args, kwargs = rebind((kernel, args, kwargs))
    if isinstance(function, Kernel):
        function = function.function
    arguments, pair = Arguments(name, chip, bool(data)), Pair(launched)
    calls = [arguments.bind(function, args, kwargs) for _ in range(launched)]
    cores = [Core(chip, i, launched, bool(data), pair) for i in range(launched)]
    returned = pair.run([partial(_call, core, name, function, call)
                         for core, call in zip(cores, calls, strict=True)])
    pair.settled(name, cores)
    traces = tuple(Trace(core.issued, core.index) for core in cores)
    for each in traces:
        audit.fits(name, each, chip)
    produced = results(name, returned)
    audit.written(name, traces, produced)
    warnings = [*(w for core in cores for w in core.warnings),
                *audit.races(name, traces, pair.barriers),
                *audit.unwritten(traces),
                *lint.of(function, traces)]
    outputs = tuple(map(array_of, produced)) if data else ()
    warnings += _not_a_number(outputs, arguments)
    return Run(name, chip, bool(data), outputs, traces, tuple(dict.fromkeys(warnings)),
               arguments.allocations)


def _not_a_number(outputs: tuple[np.ndarray, ...], arguments: Arguments) -> list[str]:
    """A warning when NaN comes out that did not go in."""
    if not any(map(holds_nan, outputs)) or any(map(holds_nan, arguments.arrays)):
        return []
    return ["an output holds NaN, and no argument does: part of a tile was used before it was "
            "written, or an operator had no answer (0 / 0)"]


def _launched(name: str, chip: Target, asked: Any, lnc: Any) -> int:
    """Physical cores of the launch. Raises NkiValidationError for a contradiction."""
    if lnc is not None and not _is_lnc(lnc):
        raise refuse(f"{name}: lnc", repr(lnc), "1 or 2 physical cores")
    if _is_lnc(asked) and lnc not in (None, asked):
        raise refuse(f"{name}: lnc", f"{lnc}, and {name}[{asked}]",
                     "one of them, or the same twice")
    cores = int(lnc or (asked if _is_lnc(asked) else 1))
    if cores == 2 and chip.generation < 3:
        raise refuse(f"{name}: LNC=2", chip.name, "it exists from NeuronCore-v3 on",
                     'Say lnc=1, or target="trn2"')
    return cores


# --- the call --------------------------------------------------------------------------------


def _call(core: Core, kernel: str, function: Callable, bound: Any) -> Any:
    """Call the kernel as this core; every error becomes ours, with the kernel's line."""
    token = _CURRENT.set(core)
    try:
        with np.errstate(all="ignore"):
            return function(*bound.args, **bound.kwargs)
    except Abandoned:
        raise
    except (NkiValidationError, Uncounted) as error:
        said = f"{_through(error)}{error}\n  {_where(error, kernel, core)}"
        raise type(error)(said) from None
    except (Exception, SystemExit) as error:
        raise NkiValidationError(
            f"{_explain(error, kernel)}\n  {_where(error, kernel, core)}") from error
    finally:
        _CURRENT.reset(token)


def _frames(error: BaseException) -> tuple[list[Any], int]:
    """The traceback from the outside in, and where in it the innermost line of the kernel's is."""
    found, at = [], error.__traceback__
    while at is not None:
        found.append(at)
        at = at.tb_next
    theirs = [i for i, tb in enumerate(found) if _is_theirs(tb.tb_frame.f_code.co_filename)]
    return found, theirs[-1] if theirs else -1


def _is_theirs(file: str) -> bool:
    """Whether a file may hold a kernel: it is not ours, NumPy's or Python's."""
    if file.startswith((HERE, _NUMPY)):
        return False
    return not file.startswith(_STDLIB) or "-packages" in file


def _where(error: BaseException, kernel: str, core: Core) -> str:
    """The kernel's line, and at LNC=2 its core."""
    frames, at = _frames(error)
    on = f"core {core.index}, " * (core.cores > 1)
    if at < 0:
        return f"{on}in {kernel}"
    code = frames[at].tb_frame.f_code
    return on + Line(code.co_filename, frames[at].tb_lineno, code.co_name).described


def _through(error: BaseException) -> str:
    """The nl function whose instruction refused, when the kernel called that and not the other."""
    frames, at = _frames(error)
    inside = [tb.tb_frame.f_code for tb in frames[at + 1:]]
    name = inside[0].co_name if inside else "_"
    wraps = name in documented()["nki.language"].functions and not str(error).startswith(
        (f"nl.{name}", f"{name}:"))
    return f"nl.{name}: " * wraps


def _explain(error: BaseException, kernel: str) -> str:
    """What an exception that is not ours means: the kernel's own, or one of our arguments."""
    frames, at = _frames(error)
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, RecursionError):
        return (f"{kernel}: got calls without end; functions are inlined, so each must come to an "
                "end")
    if isinstance(error, MemoryError):
        return (f"{kernel}: {said}; this machine cannot hold the tensors. Count on shapes alone: "
                "data=False")
    if isinstance(error, SystemExit):
        return f"{kernel}: got the end of the program ({said}); a kernel returns its results"
    inside = [tb.tb_frame.f_code for tb in frames[at + 1:]]
    ours = [code.co_name for code in inside if code.co_filename.startswith(HERE)]
    if at >= 0 and ours and ours[0] != "__getattr__":  # there it says itself what is not there
        called = {"__getitem__": "index"}.get(ours[0], ours[0])
        return (f"{called}: got arguments it cannot take ({said}); see its documented signature "
                "with help()")
    if isinstance(error, AssertionError):
        said = str(error).removeprefix(f"{kernel}: ")  # it may name itself
        return f"{kernel}: its own assert failed: {said}".rstrip(": ")
    if isinstance(error, AttributeError) and isinstance(error.obj, (tuple, list)):
        return (f"{kernel}: got {error.obj!r:.60} where it expects a tensor ({said}); pass an "
                'array, or with data=False a shape with its dtype: ((128, 512), "bf16")')
    return f"{kernel}: {said}"
