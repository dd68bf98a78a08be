"""A kernel's call, or an op, as arguments of a command.

Question  which kernel, on which arrays, with which parameters, and what did you count by hand?
Answer    add(parser); subject(args) -> Subject, hand(args) -> Hand
Assumes   arrays are NAME=SHAPE:DTYPE, as in x=512x1024:bf16; all else is NAME=VALUE
Ignores   what is done with them: each command's own business

    mlp.py:mlp_fused x=1024x2048:bf16 w_up=1024x4096:bf16 w_down=4096x1024:bf16 --chip=trn2
    Matmul M=2048 K=2048 N=2048 dtype=bf16
"""

import argparse
import ast
import inspect
import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import machine as machines
from .. import nki, ops, units
from ..count import Count
from ..machine import Machine
from ..nki import dtypes
from ..table import Told, printable

if TYPE_CHECKING:
    from ..device import Launch
    from ..profile import Profile

CALL = """\
  FILE.py:KERNEL NAME=SHAPE:DTYPE ... NAME=VALUE ...
      a kernel, its arrays and its other parameters; what stands later in the line wins
  Op NAME=VALUE ...
      a formula of the course: Matmul, MLP, SwiGLU, Attention, Elementwise, ...
  @call.txt
      the same from a file, one or more to a line; # starts a comment"""
_ARRAY = re.compile(r"(\d+(?:x\d+)*):(\w+)$", re.ASCII)
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)$", re.DOTALL)
_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Pow: operator.pow}
MOST = 10**18  # FLOP or B: more is a slip of the finger


class CallError(Told, ValueError):
    """An argument that does not say what it should: what, got, next step."""


def add(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    """The call, the machine and the hand count.

    needed   False: the call may stay away
    """
    parser.add_argument("call", nargs="+" if needed else "*", metavar="CALL",
                        help="a kernel with its arrays, an op, or @file (see below)")
    parser.add_argument("--chip", choices=("trn1", "inf2", "trn2"),
                        help="the chip; otherwise the one here, or trn2")
    parser.add_argument("--lnc", type=int, choices=(1, 2),
                        help="physical cores of the logical core; 1 unless the call says 2")
    parser.add_argument("--flops", action="append", default=[], metavar="W",
                        help="your W: 2*512*1024*4096, '34.4 GFLOP', of another dtype "
                             "fp32:2*128**3; may come again")
    parser.add_argument("--bytes", action="append", default=[], metavar="Q",
                        help="your Q, or a part of it by tensor: x:2*512*1024, 'w:8 MiB'; may come "
                             "again")
    parser.add_argument("--dtype", default=None, metavar="DTYPE",
                        help="the dtype of --flops and of the roof; otherwise the call's, or bf16")


@dataclass(frozen=True, eq=False)
class Subject:
    """What a command is about.

    title   in a line
    call    the kernel's launch; None for an op
    op      the op; None for a kernel
    """

    title: str
    call: "Launch | None" = None
    op: Any = None

    def count(self, chip: str) -> Count:
        """W and Q: of the source, or of the formula with every operand once."""
        return self.call.count(chip) if self.call else self.op.algorithmic


def subject(args: argparse.Namespace) -> Subject | None:
    """What the call says; None where it stays away. Raises CallError, LoadError, LaunchError."""
    if not args.call:
        return None
    first, *rest = args.call
    if ".py" in first:
        return _kernel(first, rest, args.lnc)
    if first in ops.__all__ and isinstance(getattr(ops, first), type) and issubclass(
            getattr(ops, first), ops.Op):
        return _op(first, rest)
    known = [name for name in ops.__all__ if isinstance(getattr(ops, name), type)
             and issubclass(getattr(ops, name), ops.Op)]
    raise CallError(f"{printable(first, 80)!r} is neither FILE.py:KERNEL nor an op; ops are "
                    f"{', '.join(known)}")


def _kernel(first: str, rest: Iterable[str], lnc: int | None) -> Subject:
    from ..device import launch
    path, _, name = first.partition(".py")
    module = nki.load(path + ".py")
    kernels = kernels_of(module)
    wanted = name.removeprefix(":")
    if wanted not in kernels or not name.startswith(":"):
        raise CallError(f"{printable(first, 80)}: " + (
            f"no kernel {printable(wanted, 40)!r} in it" if wanted else "which kernel of it?")
            + f" It has {', '.join(kernels) or 'none: decorate one with @nki.jit'}. Write "
            f"{printable(path, 60)}.py:KERNEL")
    arrays, parameters = _items(rest)
    kernel = kernels[wanted]
    names = list(inspect.signature(inspect.unwrap(kernel)).parameters)
    for given in (*arrays, *parameters):
        if given not in names:
            raise CallError(f"{wanted} has no parameter {given!r}; its def line has "
                            f"{', '.join(names)}")
    ordered = [name for name in names if name in arrays]
    if ordered != names[:len(ordered)]:
        missing = next(name for name, had in zip(names, ordered, strict=False) if name != had)
        raise CallError(f"{wanted}: {missing} is missing before {ordered[-1]}: arrays come first "
                        f"on its def line. Give it as {missing}=SHAPE:DTYPE, such as "
                        f"{missing}=512x1024:bf16")
    call = launch(kernel, *(arrays[name] for name in ordered), lnc=lnc, **parameters)
    shapes = ", ".join(f"{name} {'x'.join(map(str, arrays[name][0]))} {arrays[name][1]}"
                       for name in ordered)
    return Subject(f"{call.title} ({shapes})" + f", LNC={call.lnc}" * (call.lnc > 1), call=call)


def kernels_of(module: Any) -> dict[str, Any]:
    """The kernels of a loaded file, by name, in its order: what @nki.jit decorates."""
    from ..nki.run import Kernel
    return {name: one for name, one in vars(module).items() if isinstance(one, Kernel)}


def _op(name: str, rest: Iterable[str]) -> Subject:
    arrays, values = _items(rest)
    if arrays:
        raise CallError(f"{name}: {next(iter(arrays))}: an op takes numbers, not arrays. Write "
                        f"{name} followed by its sizes, NAME=VALUE")
    try:
        op = getattr(ops, name)(**values)
    except TypeError as error:
        raise CallError(f"{name}: {error}; it is {name}"
                        f"{inspect.signature(getattr(ops, name))}") from None
    return Subject(" ".join([name, *(f"{k}={v}" for k, v in values.items())]), op=op)


def _items(rest: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and other parameters by name; of the same name the last."""
    arrays: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    for text in rest:
        named = _NAMED.match(text)
        if not named:
            raise CallError(f"{printable(text, 80)!r}: expected NAME=SHAPE:DTYPE, such as "
                            "x=512x1024:bf16, or NAME=VALUE, such as block=256")
        name, value = named.groups()
        arrays.pop(name, None)
        parameters.pop(name, None)
        if found := _ARRAY.match(value):
            shape = tuple(map(int, found[1].split("x")))
            try:
                dtypes.of(found[2])
            except (TypeError, ValueError) as error:
                raise CallError(f"{name}={printable(value, 60)}: {error}") from None
            arrays[name] = (shape, found[2])
        else:
            parameters[name] = _value(value)
    return arrays, parameters


def _value(text: str) -> Any:
    """A Python literal where it is one, else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


# --- the hand count ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hand:
    """What was counted by hand.

    work        dtype -> FLOP; {} where none was given
    transfers   tensor -> B, "" where no tensor was named; {} where none was given
    """

    work: Mapping[str, int]
    transfers: Mapping[str, int]

    @property
    def hbm_bytes(self) -> int:
        """Q, B."""
        return sum(self.transfers.values())

    @property
    def flops(self) -> int:
        """W, FLOP."""
        return sum(self.work.values())

    @property
    def whole(self) -> bool:
        """Whether it has a Q, so that it can be entitled: no W is a W of 0."""
        return bool(self.transfers)

    @property
    def count(self) -> Count:
        """As a Count; all bytes stand as read, since a hand count does not say the way."""
        return Count(self.work, self.hbm_bytes)


def hand(args: argparse.Namespace) -> Hand:
    """The --flops and --bytes. Raises CallError for what is no number of either."""
    work: dict[str, int] = {}
    for text in args.flops:
        dtype, value = _labelled(text)
        dtype = dtype or args.dtype or "bf16"
        work[dtype] = work.get(dtype, 0) + _amount(value, "FLOP", f"--flops {text}")
    transfers: dict[str, int] = {}
    for text in args.bytes:
        tensor, value = _labelled(text)
        transfers[tensor] = transfers.get(tensor, 0) + _amount(value, "B", f"--bytes {text}")
    return Hand(work, transfers)


def _labelled(text: str) -> tuple[str, str]:
    label, colon, value = text.partition(":")
    return (label.strip(), value) if colon else ("", text)


def _amount(text: str, unit: str, what: str) -> int:
    """A whole number of units: arithmetic, or a number with its unit."""
    try:
        value = _computed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError):
        try:
            value = units.parse(text.strip(), unit)
        except units.UnitError as error:
            raise CallError(f"{printable(what, 80)}: {error}; or arithmetic, such as "
                            "2*512*1024*4096") from None
    if not 0 <= value <= MOST:
        raise CallError(f"{printable(what, 80)}: got {value:g} {unit}; expected 0 to {MOST:g}")
    if value != round(value):
        raise CallError(f"{printable(what, 80)}: got {value} {unit}; expected a whole number")
    return round(value)


def _computed(node: ast.expr) -> float:
    """Of + - * / // ** and numbers; raises ValueError for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _computed(node.left), _computed(node.right)
        if isinstance(node.op, ast.Pow) and not 0 <= right <= 64:
            raise ValueError("an exponent is 0 to 64")
        if abs(left) > 10**40 or abs(right) > 10**40:
            raise ValueError("too large")
        return _OPERATORS[type(node.op)](left, right)  # type: ignore[no-any-return]
    raise ValueError("not arithmetic")


# --- the machine ---------------------------------------------------------------------------------


def chip_of(args: argparse.Namespace, profile: "Profile | None" = None) -> str:
    """The chip asked for, the profile's, the one here, or trn2."""
    if args.chip:
        return str(args.chip)
    if profile is not None and profile.chip in ("trn1", "inf2", "trn2"):
        return profile.chip
    from ..device import chip_here
    return chip_here("trn2")


def core_of(args: argparse.Namespace, of: Subject | None = None,
            profile: "Profile | None" = None) -> Machine:
    """The core, or the pair of LNC=2, that the figures are set against."""
    lnc = args.lnc or (of.call.lnc if of and of.call else 1)
    return machines.get(chip_of(args, profile), "lnc2" if lnc == 2 else "core")
