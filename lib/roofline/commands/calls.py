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
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import machine as machines
from .. import ops, units
from ..count import Count
from ..table import Told, printable

if TYPE_CHECKING:
    from ..device import Launch
    from ..nki.run import Kernel
    from ..profile import Profile

_KERNEL = """\
  FILE.py:KERNEL NAME=SHAPE:DTYPE ... NAME=VALUE ...
      a kernel, its arrays and its other parameters; what stands later in the line wins
"""
_OP = """\
  Op NAME=VALUE ...
      a formula of the course: Matmul, MLP, SwiGLU, Attention, Elementwise, ...; a value may be
      arithmetic, M=2*1024
"""
_FILE = """\
  @call.txt
      the same from a file, one or more to a line; # starts a comment; paths in it count from
      where you are"""
CALL = _KERNEL + _OP + _FILE
CODE = _KERNEL + _FILE  # of a command that takes no op
CHIPS = ("trn1", "inf2", "trn2")
_ARRAY = re.compile(r"\d+(?:x\d+)*", re.ASCII)
_SIZES = re.compile(r"[(\[]?\s*-?\d+\s*(?:[x*,:\u00d7]|[xX]\s*\d)", re.ASCII)  # meant as a shape
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.+)$", re.DOTALL)
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
    parser.add_argument("call", nargs="+" if needed else "*", default=[], metavar="CALL",
                        help="a kernel with its arrays, an op, or @file (see below)")
    parser.add_argument("--chip", choices=CHIPS,
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
                        help="the dtype of --flops; otherwise the call's, or bf16")


def near(name: str, names: Iterable[str]) -> str:
    """", did you mean w_up?", or nothing."""
    known = {one.lower(): one for one in names}
    found = get_close_matches(name.lower(), known, 1)
    return f", did you mean {known[found[0]]}?" if found else ""


# --- the call ------------------------------------------------------------------------------------


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


def subject(args: argparse.Namespace) -> Subject | None:
    """What the call says; None where it stays away. Raises CallError, LoadError, LaunchError."""
    if not args.call:
        return None
    first, *rest = args.call
    if found := re.fullmatch(r"(.*\.py)(?::(.*))?", first, re.DOTALL):
        return _kernel(found[1], found[2] or "", rest, args.lnc)
    known = [name for name in ops.__all__ if _is_op(getattr(ops, name))]
    if first in known:
        return _op(first, rest)
    shown = printable(first, 80)
    if "=" in first:
        raise CallError(f"{shown}: a call begins with its kernel, FILE.py:KERNEL, or with an op")
    if os.path.isfile(first):
        raise CallError(f"{shown} is a file and no call. " + (
            f"A profile stands behind --profile={shown}, or first, as in gap {shown} @call.txt"
            if first.endswith(".json") else f"Arguments in a file are read with @: @{shown}"))
    if "/" in first:
        raise CallError(f"{shown!r} is no FILE.py:KERNEL. A path with a blank in it stands in "
                        "quotes, in an @file too")
    raise CallError(f"{shown!r} is neither FILE.py:KERNEL nor an op{near(first, known) or '.'} "
                    f"Ops are {', '.join(known)}")


def _is_op(what: Any) -> bool:
    """Whether it is made of numbers and names alone."""
    return isinstance(what, type) and issubclass(what, ops.Op) and what not in (
        ops.Op, ops.Chain, ops.Custom, ops.Named)


def kernels_in(path: str) -> dict[str, "Kernel"]:
    """The kernels of a file, by name, in its order: what @nki.jit decorates.

    Raises CallError for a file that is not there or has none, LoadError for one that is not Python
    or fails.
    """
    from .. import nki
    from ..nki.run import Kernel
    file, shown = Path(path).expanduser(), printable(path, 200)
    if not file.is_file():
        beside = [str(file.with_name(one.name)) for one in file.parent.glob("*.py")]
        guess = near(path, beside)
        raise CallError(f"{shown}: no such file{guess or '.'} Paths count from where you are, "
                        f"{Path.cwd()}, those inside an @file too")
    found = {name: one for name, one in vars(nki.load(path)).items() if isinstance(one, Kernel)}
    if not found:
        raise CallError(f"{shown}: no kernel in it; put @nki.jit before the def of yours")
    return found


def parameters_of(kernel: "Kernel") -> Mapping[str, inspect.Parameter]:
    """Of its def line."""
    return inspect.signature(inspect.unwrap(kernel)).parameters


def _kernel(path: str, name: str, rest: Iterable[str], lnc: int | None) -> Subject:
    from ..device import launch
    kernels, file = kernels_in(path), printable(path, 200)
    if name not in kernels:
        bare = name.partition("[")[0]
        raise CallError(f"{file}: " + (
            f"which kernel? Write {file}:{next(iter(kernels))}." if not name else
            f"{printable(name, 60)}: write {bare}, and --lnc=2 for two cores." if bare in kernels
            else f"no kernel {printable(name, 60)!r}{near(name, kernels) or '.'}")
            + f" It has {', '.join(kernels)}")
    kernel = kernels[name]
    if lnc and kernel.lnc not in (None, lnc):
        raise CallError(f"--lnc={lnc}: {file} makes {name} for {kernel.lnc}, as "
                        f"kernel[{kernel.lnc}]. Leave --lnc out, or name the kernel itself")
    arrays, parameters = _items(rest)
    _fits(name, file, parameters_of(kernel), arrays, parameters)
    names = [one for one in parameters_of(kernel) if one in arrays]
    call = launch(kernel, *(arrays[one] for one in names), lnc=lnc, **parameters)
    shapes = ", ".join(f"{one} {'x'.join(map(str, arrays[one][0]))} {arrays[one][1]}"
                       for one in names)
    return Subject(f"{call.title} ({shapes})" + f", LNC={call.lnc}" * (call.lnc > 1), call=call)


def _fits(kernel: str, file: str, wanted: Mapping[str, inspect.Parameter],
          arrays: Collection[str], parameters: Mapping[str, Any]) -> None:
    """Hold the arguments to the def line. Raises CallError."""
    in_python = (f"The command line cannot say that; Python can: nki.run(nki.load({file!r})."
                 f"{kernel}, ..., data=False)")
    line = f"Its def line is {kernel}{def_line(wanted)}"
    for name, value in parameters.items():
        if not isinstance(value, int | float | str | None) or str(value).startswith(("[", "(")):
            raise CallError(f"{kernel}: {name}={printable(value, 60)}: a parameter is a number, a "
                            f"text, True, False or None. {in_python}")
    kinds = {p.kind for p in wanted.values()}
    for name in (*arrays, *parameters):
        if name not in wanted and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise CallError(f"{kernel} has no parameter {name}{near(name, wanted) or '.'} {line}"
                            + f". {in_python}" * (inspect.Parameter.VAR_POSITIONAL in kinds))
    given = {*arrays, *parameters}
    for name, one in wanted.items():
        plain = one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        if plain and one.default is one.empty and name not in given:
            raise CallError(f"{kernel}: {name} is missing. An array is {name}=SHAPE:DTYPE, such as "
                            f"{name}=512x1024:bf16, anything else {name}=VALUE. {line}")
    ordered = [name for name in wanted if name in arrays]
    early = [name for name in list(wanted)[:len(ordered)] if name not in arrays]
    if early:
        raise CallError(f"{kernel}: {early[0]} stands before {ordered[-1]} on its def line and is "
                        f"no array. {in_python}")


def def_line(wanted: Mapping[str, inspect.Parameter]) -> str:
    """The parameters and their defaults, as "(x, block=128)": a call does not ask for types."""
    return printable(inspect.Signature([
        one.replace(annotation=one.empty) for one in wanted.values()]), 1000)


def _op(name: str, rest: Iterable[str]) -> Subject:
    kind = getattr(ops, name)
    wanted = inspect.signature(kind).parameters
    arrays, values = _items(rest, sums=True)
    line = f"It is {name}({', '.join(map(_default, wanted.values()))})"
    for given in (*arrays, *values):
        if given not in wanted:
            raise CallError(f"{name} has no size {given}{near(given, wanted) or '.'} {line}")
    if arrays:
        raise CallError(f"{name}: {next(iter(arrays))}: an op takes numbers, not arrays. {line}")
    for missing in (one for one, p in wanted.items() if p.default is p.empty and one not in values):
        raise CallError(f"{name}: {missing} is missing, such as {missing}=1024. {line}")
    title = " ".join([name, *(f"{k}={printable(v, 40)}" for k, v in values.items())])
    count = (op := kind(**values)).algorithmic
    if max(count.flops, count.hbm_bytes) > MOST:
        raise CallError(f"{title}: W is {float(count.flops):.3g} FLOP and Q "
                        f"{float(count.hbm_bytes):.3g} B; expected at most {float(MOST):g} of "
                        "either. Take smaller sizes")
    return Subject(title, op=op)


def _default(one: inspect.Parameter) -> str:
    return one.name if one.default is one.empty else f"{one.name}={one.default}"


def _items(rest: Iterable[str], sums: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and other parameters by name; of the same name the last.

    sums   2*1024 is a number; otherwise it is taken for a shape, ill written
    """
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
        if sums and (number := _sum(value)) is not None:
            parameters[name] = int(number) if number == int(number) else number
        elif (not sums or ":" in value) and (array := _array(name, value)) is not None:
            arrays[name] = array
        else:
            parameters[name] = _value(value)
    return arrays, parameters


def _array(name: str, text: str) -> tuple[tuple[int, ...], str] | None:
    """A shape and its dtype; None for what is not meant as one. Raises CallError for a slip."""
    from ..nki import dtypes
    said = f"{name}={printable(text, 60)}"
    shape, colon, dtype = text.rpartition(":")
    try:
        known = bool(colon) and bool(dtypes.of(dtype))
    except ValueError:
        known = False
    if not known and (not _SIZES.match(text) or (text.startswith("[") and text.endswith("]"))):
        return None
    sizes = re.findall(r"\d+", shape or text)
    if any(len(size) > 18 for size in sizes):
        raise CallError(f"{said}: a size of more than 18 digits; no memory holds that")
    guess = "x".join(sizes) if sizes and all(map(int, sizes)) else "512x1024"
    if not colon:
        raise CallError(f"{said}: the dtype is missing. Write {name}={guess[:60]}:bf16, or what "
                        "its elements are")
    if not known:
        raise CallError(f"{said}: no dtype {dtype!r}{near(dtype, _DTYPES) or '.'} Known are "
                        f"{', '.join(_DTYPES)}, and NKI's own names")
    if not _ARRAY.fullmatch(shape):
        raise CallError(f"{said}: a shape is whole numbers joined by x, as in "
                        f"{name}={guess[:60]}:{dtype}")
    if not all(map(int, sizes)):
        raise CallError(f"{said}: a size of 0; each is at least 1")
    return tuple(map(int, sizes)), dtype


def _sum(text: str) -> float | None:
    """Of numbers with + - * / // **; None for anything else."""
    try:
        return _computed(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None


def _value(text: str) -> Any:
    """A Python literal where it is one, else the text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


# --- the hand count ------------------------------------------------------------------------------

_DTYPES = ("bf16", "fp16", "fp32", "tf32", "fp8_e4m3", "fp8_e5m2", "int8", "int32", "uint8")


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
    def count(self) -> Count:
        """As a Count; all bytes stand as read, since a hand count does not say the way."""
        return Count(self.work, self.hbm_bytes)


def hand(args: argparse.Namespace, count: Count | None = None) -> Hand:
    """The --flops and --bytes.

    count   the call's: a W without a dtype is of its dtype

    Raises CallError for what is no number of either, an unknown dtype, a W without a dtype beside
    a count of several, a --dtype without --flops.
    """
    if args.dtype and not args.flops:
        raise CallError(f"--dtype={printable(args.dtype, 40)}: it is that of --flops, and there is "
                        "none; a call says its own, as in x=512x1024:bf16. Give --flops, or leave "
                        "--dtype out")
    usual = _work(args.dtype, f"--dtype {args.dtype}") if args.dtype else ""
    work: dict[str, int] = {}
    for text in args.flops:
        what = f"--flops {printable(text, 80)}"
        dtype, value = _labelled(text)
        dtype = _work(dtype, what) if dtype else usual
        if not dtype and count is not None and len(count.work) > 1:
            each = " ".join(f"--flops={one}:W" for one in count.work)
            raise CallError(f"{what}: the call works in {' and in '.join(count.work)}, and each "
                            f"has a peak of its own. Say how much of each: {each}")
        dtype = dtype or next(iter(count.work if count else ()), "bf16")
        work[dtype] = work.get(dtype, 0) + _amount(value, "FLOP", what)
    transfers: dict[str, int] = {}
    for text in args.bytes:
        tensor, value = _labelled(text)
        what = f"--bytes {printable(text, 80)}"
        transfers[tensor] = transfers.get(tensor, 0) + _amount(value, "B", what)
    return Hand(work, transfers)


def _work(dtype: str, what: str) -> str:
    """What FLOPs of a dtype are counted under: "bf16" of "bfloat16"."""
    from ..nki import dtypes
    known = {name for chip in CHIPS for name in machines.get(chip).peaks} | {*ops.BYTES}
    if dtype in known:
        return dtype
    try:
        return dtypes.of(dtype).work
    except ValueError:
        raise CallError(f"{what}: no dtype {printable(dtype, 40)!r}{near(dtype, known) or '.'} "
                        f"Known are {', '.join(sorted(known))}") from None


def _labelled(text: str) -> tuple[str, str]:
    label, colon, value = text.partition(":")
    return (label.strip(), value) if colon else ("", text)


def _amount(text: str, unit: str, what: str) -> int:
    """A whole number of units: arithmetic, or a number with its unit."""
    value = _sum(text)
    if value is None:
        try:
            value = units.parse(text.strip(), unit)
        except units.UnitError as error:
            why = "no arithmetic, or too large" if set("*+()") & set(text) else error
            raise CallError(f"{what}: {why}. Write a number of {unit} with or without a unit, or "
                            "whole numbers with + - * / // **, such as 2*512*1024*4096") from None
    if not 0 <= value <= MOST:
        raise CallError(f"{what}: got {float(value):g} {unit}; expected 0 to {float(MOST):g}")
    if abs(value - round(value)) > 1e-9 * value:  # 8.39 MB is whole, and no float says so
        raise CallError(f"{what}: got {value} {unit}; expected a whole number")
    return round(value)


def _computed(node: ast.expr) -> float:
    """Of + - * / // ** and numbers; raises ValueError for anything else and what is too large."""
    value: float
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = node.value  # type: ignore[assignment]
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _computed(node.left), _computed(node.right)
        if isinstance(node.op, ast.Pow) and right not in range(65):
            raise ValueError("an exponent is a whole number, 0 to 64")
        value = _OPERATORS[type(node.op)](left, right)
    else:
        raise ValueError("not arithmetic")
    if abs(value) > 10**40:
        raise ValueError("too large")
    return value


# --- the machine ---------------------------------------------------------------------------------


def chip_of(args: argparse.Namespace, profile: "Profile | None" = None) -> str:
    """The chip asked for, the profile's, the one here, or trn2.

    Raises CallError for --lnc=2 and a chip without it.
    """
    if args.chip:
        chip = str(args.chip)
    elif profile is not None and profile.chip in CHIPS:
        chip = profile.chip
    else:
        from ..device import chip_here
        chip = chip_here("trn2")
    if args.lnc == 2 and machines.SAME_CORE.get(chip, chip) == "trn1":
        raise CallError(f"--lnc=2: a logical core of {chip} is one physical core. Leave --lnc out, "
                        "or say --chip=trn2")
    return chip
