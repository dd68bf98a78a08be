"""Run a kernel on NumPy and count what it does.

Question  what does this kernel compute, and which bytes and FLOPs does it move?
Answer    run(kernel, *arrays): outputs, Count, counters, traffic a tensor and a line, occupancy
Assumes   the kernel is a pure function of its arguments, as NKI asks
Ignores   time; what the compiler adds, merges or chooses (Run says what it cannot know)
"""

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cached_property, update_wrapper
from typing import Any

import numpy as np

from .. import units
from ..count import Count, Uncounted
from . import audit, dtypes, lint, trace
from .core import _CURRENT, HERE, Core, NkiValidationError, Target, refuse, target as find_target
from .memory import Allocation, MemoryRegion, NKIObject, NkiTensor, Storage, checked_shape, tensor
from .source import Line
from .trace import Table, Trace


class Kernel:
    """A function that nki.jit was put on; kernel[2] runs it on the two cores of an LNC=2 pair."""

    def __init__(self, function: Callable, lnc: int | None = None) -> None:
        update_wrapper(self, function)
        self.function, self.lnc = function, lnc

    def __getitem__(self, lnc: int) -> "Kernel":
        if lnc not in (1, 2):
            raise refuse(f"{self.__name__}[...]", lnc, "one number in brackets, 1 or 2 cores (LNC)")
        return Kernel(self.function, lnc)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside a kernel: inlined. Outside: run on NumPy, and the outputs returned."""
        if _CURRENT.get() is not None:
            return self.function(*args, **kwargs)
        outputs = run(self, *args, **kwargs).outputs
        return outputs[0] if len(outputs) == 1 else outputs

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}{f'[{self.lnc}]' * bool(self.lnc)}>"


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


@dataclass(frozen=True, repr=False)
class Run:
    """What one call of a kernel did.

    outputs    the returned tensors as NumPy arrays; () with data=False
    count      Count: Tensor Engine work per dtype, HBM bytes; both cores together at LNC=2
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
    def lnc(self) -> int:
        return len(self.cores)

    @cached_property
    def count(self) -> Count:
        return sum((core.count for core in self.cores), Count())

    @property
    def trace(self) -> tuple[trace.Record, ...]:
        """One record an instruction, core after core."""
        return tuple(record for core in self.cores for record in core)

    @cached_property
    def counters(self) -> Mapping[str, int | float | str]:
        """Neuron Explorer's names; "unknown" where the source does not decide."""
        return trace.counters(self.cores)

    @cached_property
    def tensors(self) -> Table:
        """Each HBM tensor: bytes, read, written, reload factor."""
        return trace.tensors(self.cores, self.known)

    @cached_property
    def lines(self) -> Table:
        """The same for each source line."""
        return trace.lines(self.cores)

    @cached_property
    def sbuf_peak_bytes(self) -> int:
        """Most bytes of SBUF alive at once on one core: first write to last read."""
        return max(trace.peak(core.lives, MemoryRegion.sbuf, lambda a: a.nbytes).amount
                   for core in self.cores)

    @cached_property
    def psum_peak_banks(self) -> int:
        """Most PSUM banks alive at once on one core; a tile takes whole banks."""
        bank = self.target.psum_bank_bytes
        return max(trace.peak(core.lives, MemoryRegion.psum,
                              lambda a: -(-a.bytes_per_partition // bank)).amount
                   for core in self.cores)

    def __repr__(self) -> str:
        on = "data" if self.data else "shapes alone"
        lines = [f"{self.kernel} on {self.target.name}, LNC={self.lnc}, {on}", f"  {self.count!r}"]
        if self.lnc > 1:
            lines += [f"  core {i}: {core.count!r}" for i, core in enumerate(self.cores)]
        capacity = self.target.sbuf_partition_bytes * self.target.pmax
        lines.append(f"  {sum(map(len, self.cores)):,} instructions; live at most "
                     f"{units.mebi(self.sbuf_peak_bytes)} of {units.mebi(capacity)} SBUF, "
                     f"{self.psum_peak_banks} of {self.target.psum_num_banks} PSUM banks")
        return "\n".join(lines + [f"  warning: {w}" for w in self.warnings])


def run(kernel: Callable, *args: Any, target: str = "trn2", lnc: int | None = None,
        data: bool = True, **kwargs: Any) -> Run:
    """Run `kernel` on the arguments and count it.

    kernel  a function or a @nki.jit kernel; kernel[2] runs on two cores
    args    NumPy arrays (ml_dtypes too), torch or jax arrays; with data=False also (shape, dtype).
            Your arrays are never changed. Anything else is passed on as it is
    target  "trn1", "inf2", "trn2" or "trn3"
    lnc     1 or 2 physical cores; follows kernel[n], and may not contradict it
    data    False counts on shapes alone: the same counts, no outputs

    Raises NkiValidationError for what hardware or documents refuse, with the kernel's line, and
    Uncounted for an API without a counting rule.
    """
    from .load import rebind
    chip = find_target(target)
    name = getattr(kernel, "__name__", str(kernel))
    asked = getattr(kernel, "lnc", None)
    if lnc not in (None, 1, 2) or (lnc and asked and lnc != asked):
        raise refuse(f"{name}: lnc", lnc, f"1 or 2, and the {asked} of kernel[{asked}]" if asked
                     else "1 or 2")
    cores_wanted = lnc or asked or 1
    if cores_wanted == 2:
        chip.need(3, f"{name}: LNC=2")
    function = rebind(kernel)
    memory = _Arguments(chip, data)
    bound = memory.bind(name, function, args, kwargs)
    pair = Pair(cores_wanted)
    cores = [Core(chip, i, cores_wanted, data, pair) for i in range(cores_wanted)]
    returned = pair.run([lambda core=core: _call(core, name, function, bound) for core in cores])
    traces = tuple(Trace(core.issued, core.index) for core in cores)
    for each in traces:
        audit.fits(each, chip)
    results = _results(name, returned)
    audit.written(name, traces, results)
    raced = audit.races(name, cores)
    outputs = tuple(np.array(t.array) for t in results) if data else ()
    warnings = [*(w for core in cores for w in core.warnings), *raced, *lint.of(function, traces)]
    return Run(name, chip, data, outputs, traces, tuple(dict.fromkeys(warnings)),
               tuple(memory.allocations))


# --- arguments and results -------------------------------------------------------------------


class _Arguments:
    """Arguments of a kernel as tensors in HBM."""

    def __init__(self, chip: Target, data: bool) -> None:
        self.chip, self.data = chip, data
        self.allocations: list[Allocation] = []

    def bind(self, kernel: str, function: Callable, args: tuple, kwargs: dict) -> Any:
        """The call's arguments with every array replaced by a tensor of the parameter's name."""
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except (TypeError, ValueError) as error:
            raise refuse(f"{kernel}(...)", f"arguments that do not fit ({error})",
                         f"it takes {_parameters(function)}") from None
        for name, value in bound.arguments.items():
            bound.arguments[name] = self.tensors(name, value)
        return bound

    def tensors(self, name: str, value: Any) -> Any:
        """Arrays in `value`, however nested, as tensors; the rest as it is."""
        if not self.data and _is_spec(value):
            return self._tensor(name, checked_shape(value[0], MemoryRegion.shared_hbm, name, self.chip),
                                self._dtype(name, value[1]), None)
        array = _as_numpy(value)
        if array is not None:
            if array.size == 0:
                raise refuse(name, f"an array of shape {list(array.shape)}", "every size is at least 1")
            dtype = self._dtype(name, array.dtype)
            shape = array.shape or (1,)
            raw = np.array(array, order="C").reshape(-1).view(np.uint8) if self.data else None
            return self._tensor(name, shape, dtype, raw)
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(self.tensors(f"{name}[{i}]", v) for i, v in enumerate(value))
        if isinstance(value, dict):
            return {k: self.tensors(f"{name}[{k!r}]", v) for k, v in value.items()}
        return value

    def _dtype(self, name: str, what: Any) -> dtypes.DType:
        try:
            return dtypes.of("uint8" if what == np.bool_ else what)
        except ValueError as error:
            raise NkiValidationError(f"{name}: {error}") from None

    def _tensor(self, name: str, shape: tuple, dtype: dtypes.DType, raw: Any) -> NkiTensor:
        own = Allocation(name, shape, dtype, MemoryRegion.shared_hbm, argument=True)
        self.allocations.append(own)
        return tensor(Storage(own, raw))


def _parameters(function: Callable) -> str:
    return ", ".join(inspect.signature(function).parameters) or "none"


def _is_spec(value: Any) -> bool:
    """(shape, dtype), the stand-in for an array when only shapes count."""
    if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], (tuple, list))):
        return False
    if not isinstance(value[1], (str, type, np.dtype)):
        return False
    try:
        return bool(dtypes.of(value[1]))
    except ValueError:
        return False


def _as_numpy(value: Any) -> np.ndarray | None:
    """A NumPy, torch or jax array as NumPy; None for anything else."""
    if isinstance(value, np.ndarray):
        return value
    head = type(value).__module__.partition(".")[0]
    if head == "torch" and hasattr(value, "detach"):
        plain = value.detach().cpu()
        if "bfloat16" in str(plain.dtype):  # torch gives NumPy no bf16: widen, then round back
            return plain.float().numpy().astype(dtypes.bfloat16.numpy)
        return plain.numpy()
    if head in ("jax", "jaxlib") and hasattr(value, "__array__"):
        return np.asarray(value)
    return None


def _results(kernel: str, returned: Sequence[Any]) -> list[NkiTensor]:
    """The tensors a kernel returned, which must lie in shared HBM and be the same on both cores."""
    each = [_flat(kernel, value) for value in returned]
    for result in each[0]:
        if result.buffer is not MemoryRegion.shared_hbm:
            raise refuse(f"{kernel}: result {result.name}", result.buffer.value,
                         "a result lies in shared_hbm",
                         "Allocate it with buffer=nl.shared_hbm and dma_copy into it")
    if any([t.place for t in other] != [t.place for t in each[0]] for other in each[1:]):
        raise refuse(f"{kernel}: results", "different ones on the two cores",
                     "both instances of an LNC=2 kernel return the same tensors")
    return each[0]


def _flat(kernel: str, value: Any) -> list[NkiTensor]:
    if isinstance(value, NkiTensor):
        return [value]
    if isinstance(value, (tuple, list)) and value:
        return [t for v in value for t in _flat(kernel, v)]
    raise refuse(f"{kernel}: result", type(value).__name__ if value is not None else "None",
                 "a kernel returns a tensor or a tuple of tensors",
                 "Return the nl.ndarray in shared_hbm that it wrote")


# --- the call --------------------------------------------------------------------------------


def _call(core: Core, kernel: str, function: Callable, bound: Any) -> Any:
    """Call the kernel as this core; every error becomes ours, with the kernel's line."""
    token = _CURRENT.set(core)
    try:
        with np.errstate(all="ignore"):
            return function(*bound.args, **bound.kwargs)
    except (NkiValidationError, Uncounted) as error:
        raise type(error)(f"{error}\n  {_kernel_line(error, kernel)}") from None
    except _Abandoned:
        raise
    except Exception as error:
        raise NkiValidationError(f"{_explain(error, kernel)}\n  {_kernel_line(error, kernel)}") from error
    finally:
        _CURRENT.reset(token)


def _frames(error: BaseException) -> list[Any]:
    found, at = [], error.__traceback__
    while at is not None:
        found.append(at)
        at = at.tb_next
    return found


def _kernel_line(error: BaseException, kernel: str) -> str:
    """The innermost line that is not ours."""
    theirs = [tb for tb in _frames(error) if not tb.tb_frame.f_code.co_filename.startswith(HERE)]
    if not theirs:
        return f"in {kernel}"
    code = theirs[-1].tb_frame.f_code
    return Line(code.co_filename, theirs[-1].tb_lineno, code.co_name).described


def _explain(error: Exception, kernel: str) -> str:
    """What an exception that is not ours means: the kernel's own, or an argument we did not expect."""
    innermost = _frames(error)[-1].tb_frame
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    if innermost.f_code.co_filename.startswith(HERE):
        return (f"nki.{innermost.f_code.co_name}: arguments it cannot take ({said}); see its "
                "documented signature with help()")
    if isinstance(error, AssertionError):
        return f"{kernel}: its own assert failed: {error}".rstrip(": ")
    return f"{kernel}: {said}"


class _Abandoned(BaseException):
    """The other core failed; this one stops."""


class Pair:
    """The cores of one call: one runs at a time, and hands over only where it has to wait.

    So two runs of a kernel are the same run. Shared HBM allocations and what the cores exchange
    are kept here.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.shared: list[Storage] = []  # nl.shared_hbm allocations, in order
        self.turn, self.failed = 0, False
        self.waiting: dict[int, Any] = {}  # core -> what it waits for
        self.posted: dict[tuple, Any] = {}
        self.done: set[int] = set()
        self.changed = threading.Condition()

    def run(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """The results of the calls; raises the first error, after both have stopped."""
        if len(calls) == 1:
            return [calls[0]()]
        results: list[Any] = [None] * len(calls)
        errors: list[BaseException | None] = [None] * len(calls)

        def work(i: int) -> None:
            try:
                self._wait_for_turn(i)
                results[i] = calls[i]()
            except BaseException as error:
                errors[i] = error
                self.failed = True
            finally:
                with self.changed:
                    self.done.add(i)
                    self._next(i)

        contexts = [copy_context() for _ in calls]
        threads = [threading.Thread(target=context.run, args=(work, i), daemon=True)
                   for i, context in enumerate(contexts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in errors:
            if error is not None and not isinstance(error, _Abandoned):
                raise error
        return results

    def _next(self, i: int) -> None:
        """Let the other core go on, if it has not ended; the lock is held."""
        other = 1 - i
        self.turn = other if other not in self.done else i
        self.changed.notify_all()

    def _wait_for_turn(self, i: int) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.turn == i or self.failed)
            if self.failed:
                raise _Abandoned

    def share(self, core: Core, what: str, made: Storage) -> Storage:
        """The nth shared_hbm allocation: made by the core that comes first, the same for both."""
        at, core.shared = core.shared, core.shared + 1
        if at == len(self.shared):
            self.shared.append(made)
        found, new = self.shared[at].allocation, made.allocation
        if (found.shape, found.dtype) != (new.shape, new.dtype):
            raise refuse(f"{what} in shared_hbm", f"{new!r} on core {core.index}",
                         f"the other core allocated {found!r} there",
                         "Both instances allocate the same shared tensors in the same order")
        return self.shared[at]

    def meet(self, core: Core, what: str, key: Any, value: Any = None) -> Any:
        """Wait until the other core comes to the same point (a key used once); get its value.

        Raises NkiValidationError when it never comes: it has ended, or waits for something else.
        """
        i, other = core.index, 1 - core.index
        self.posted[i, key] = value
        while (other, key) not in self.posted:
            stuck = other in self.waiting and (i, self.waiting[other]) not in self.posted
            if other in self.done or stuck:
                state = f"waits at {self.waiting[other]}" if stuck else "has ended"
                raise refuse(what, f"core {i} at {key}", f"core {other} {state} and never comes here",
                             "Both instances must issue it, in the same order")
            self.waiting[i] = key
            with self.changed:
                self._next(i)
            self._wait_for_turn(i)
        self.waiting.pop(i, None)
        return self.posted[other, key]
