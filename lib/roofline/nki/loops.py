"""Loops that run on the device, ids of the launch, and printing, as nki.language has them.

Question  what does a kernel's loop do here, and which core is this?
Answer    every loop is walked; a dynamic one hands its body a register whose number is known
Assumes   nki.simulate's order: one instruction after the other
Ignores   that a dynamic loop is one body on the device: here each pass issues its instructions
Source    nki.language (NKI 0.6); NKI Dynamic Loops
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .core import current, refuse
from .memory import NkiTensor, VirtualRegister
from .views import MemoryRegion

_ORDERED: ContextVar[bool] = ContextVar("ordered", default=False)  # inside nl.no_reorder()


def affine_range(start, stop=None, step=1) -> range:
    """Python's range; unrolled on the device. Source: nki.language.affine_range."""
    return range(start) if stop is None else range(start, stop, step)


sequential_range = static_range = affine_range


def _walk(what: str, start: Any, stop: Any, step: Any) -> range:
    """The numbers of a dynamic loop."""
    _dynamic(what)
    if not isinstance(step, int) or step < 1:
        raise refuse(f"{what}: step", repr(step), "a positive integer, known at compile time")
    first, last = (bound.value(what) if isinstance(bound, VirtualRegister) else int(bound)
                   for bound in (start, stop))
    return range(first, last, step)


def _dynamic(what: str) -> None:
    if _ORDERED.get():
        raise refuse(what, "a dynamic loop inside nl.no_reorder()", "it is not supported there",
                     "Put nl.no_reorder() inside the loop")


def dynamic_range(start, stop=None, step=1) -> Iterator[VirtualRegister]:
    """A loop on the device; its index is a frozen register. Deprecated in 0.6 for nl.fori_loop.

    Source: nki.language.dynamic_range.
    """
    first, last = (0, start) if stop is None else (start, stop)
    for i in _walk("nl.dynamic_range", first, last, step):
        yield VirtualRegister(i, frozen=True)


def fori_loop(lower, upper, body_fun: Callable[[VirtualRegister], Any], step=1) -> None:
    """body_fun(i) for i from lower to upper, in order. Source: nki.language.fori_loop."""
    for i in _walk("nl.fori_loop", lower, upper, step):
        body_fun(VirtualRegister(i))  # by value: writing to it changes nothing


def while_loop(init, body_fun: Callable[[VirtualRegister], VirtualRegister]) -> None:
    """body_fun(r) -> next r, while r is not 0. Source: nki.language.while_loop."""
    _dynamic("nl.while_loop")
    register = init
    while True:
        if not isinstance(register, VirtualRegister):
            raise refuse("nl.while_loop", type(register).__name__, "a register: body_fun returns "
                         "the next condition", "Return what nisa.register_alloc made")
        number = register.value("nl.while_loop")
        if number == 0:
            return
        register = body_fun(VirtualRegister(number))


@contextmanager
def no_reorder() -> Iterator[None]:
    """Keep program order; here it is always kept. Source: nki.language.no_reorder."""
    token = _ORDERED.set(True)
    try:
        yield
    finally:
        _ORDERED.reset(token)


def program_id(axis=0) -> int:
    """Which core of the launch this instance runs on. Source: nki.language.program_id."""
    _only_axis("nl.program_id", axis)
    return current().index


def num_programs(axes=0) -> int:
    """Cores of the launch. Source: nki.language.num_programs."""
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        _only_axis("nl.num_programs", axis)
    return current().cores


def _only_axis(what: str, axis: Any) -> None:
    if axis != 0:
        raise refuse(f"{what}: axis", repr(axis), "0: a launch has one number in its brackets")


def program_ndim() -> int:
    """Dimensions of the launch grid: 0 without a grid. Source: nki.language.program_ndim."""
    return int(current().cores > 1)


def device_print(print_prefix, tensor: NkiTensor) -> None:
    """Print a tile's values (data=True). Source: nki.language.device_print."""
    if tensor.buffer is MemoryRegion.psum:
        raise refuse("nl.device_print", repr(tensor), "a tensor in SBUF or HBM",
                     "Copy it to SBUF with nisa.tensor_copy")
    if current().data:
        print(print_prefix, tensor.read())
