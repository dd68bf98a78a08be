"""roofline capture: run a kernel on the NeuronCore here, check it, profile its second execution.

Question  how long does this call take on the device, by the device's own timeline?
Answer    answer(args) -> Answer: a new recording; off a device one of the same call, or, where
          it is asked for, the model's profile, each labelled. NO where a flag is on it, NOWHERE
          where there is neither
Assumes   what device.capture does
Ignores   what the time means: profile, gap
"""

import argparse
import math
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..table import printable, wrapped
from .answer import BAD, FINE, NO, Answer, Cell, Nowhere, tell
from .calls import CODE, CallError, chip_of, subject
from .calls import add as add_call
from .matched import Counted, counted
from .working import working

if TYPE_CHECKING:
    import numpy as np

    from ..device import Launch, Measurement, Probe, Recording

EXAMPLES = f"""\
calls
{CODE}

examples
  python -m roofline capture @call.txt
      on a device: compile, run, check the outputs against NumPy, profile the second execution,
      save a recording in work/recorded; elsewhere a recording of the same call, or it ends with 3
  python -m roofline capture @call.txt --write=mine.json
      the profile as a file, too, for: python -m roofline gap mine.json @call.txt
  python -m roofline capture @call.txt --or-model --write=model.json
      where neither a device nor a recording is: the cost model's profile, labelled modelled
  python -m roofline capture mlp.py:mlp x=1024x2048:bf16 w=1024x4096:bf16 --inputs=real.npz
      with your arrays in place of drawn ones: an .npz with x and w

It ends with 1 where the figure has a flag: too fast to be true, cold, other bytes than counted."""


def add(parser: argparse.ArgumentParser) -> None:
    add_call(parser)
    parser.add_argument("--or-model", action="store_true",
                        help="the cost model's profile where nothing is measured")
    parser.add_argument("--write", metavar="PROFILE.json",
                        help="the profile into a file of the profiler's own format")
    parser.add_argument("--core", type=_core, metavar="N",
                        help="the logical core to run on; 0 unless given, and any where a class "
                             "shares the instance")
    parser.add_argument("--inputs", metavar="FILE.npz",
                        help="the arrays, by the kernel's names; otherwise drawn, never zeros")
    parser.add_argument("--tolerance", type=_positive, metavar="X",
                        help="how far outputs may be off, relative; by dtypes and sums otherwise")
    parser.add_argument("--timeout", type=_positive, default=900.0, metavar="S",
                        help="seconds that each step may take; 900 unless given")


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{printable(text, 40)!r}; expected a number above 0")
    return value


def _core(text: str) -> int:
    if not re.fullmatch(r"\d{1,4}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{printable(text, 40)!r}; expected a whole number, 0 or "
                                         "more")
    return int(text)


def answer(args: argparse.Namespace) -> Answer:
    from .. import device, profile
    from ..device.measuring import from_recording
    from ..profile.write import refuse_others
    of = subject(args)
    assert of is not None  # the parser asks for a call
    if of.call is None:
        raise CallError(f"{of.title}: a formula has no code to run. Give FILE.py:KERNEL with its "
                        "arrays; predict and roof take formulas")
    call = with_inputs(of.call, args.inputs) if args.inputs else of.call
    here = device.probe()
    why = here.why
    if here.runs and args.chip not in (None, here.chip):
        why = f"this is a {here.chip}, and the call asks for {args.chip}"
    chip = chip_of(args)
    mine = counted(args, of, chip)  # before a capture: what is wrong with it costs no run
    assert mine is not None  # there is a call
    found = _recorded(args, call, here, chip, why)
    kept = [f"recording: {_shown(found.folder)}"] if found else []
    if found is None:
        if args.write:  # a measured profile is no place for it
            refuse_others(Path(args.write).expanduser(), "json", "modelled")
        with working(f"modelling {of.title}"):
            made = device.modelled(call, chip)
    else:
        made = from_recording(call, chip, found)
    file, code = found and found.folder, NO if made.flags else FINE
    if args.write:
        try:
            file = profile.write(made.profile, Path(args.write).expanduser(), "json")
            kept.append(f"profile: {_shown(file)}, {made.kind}")
        except profile.ProfileError as error:  # the answer is there all the same
            kept.append(f"profile: not written: {error}")
            code = BAD
    if file:
        name, typed = shlex.quote(str(_shown(file))), _typed(args)
        kept.append(f"Next: python -m roofline profile {name} {typed}, then gap {name} {typed}")
    else:
        kept.append("Next: the same with --write=model.json, then gap model.json CALL")
    return _told(made, mine, kept, file and _shown(file), found, code)


def _typed(args: argparse.Namespace) -> str:
    """The call as it was typed, where that is short."""
    words = [word for word in getattr(args, "given", ()) if word[:1] == "@" or word in args.call]
    return shlex.join(words) if words and len(shlex.join(words)) < 40 else "CALL"


def _recorded(args: argparse.Namespace, call: "Launch", here: "Probe", chip: str, why: str
              ) -> "Recording | None":
    """A new recording, else one of the same call; None where the model is to stand in.

    Says in a line what will happen. Raises Nowhere, CaptureError.
    """
    from ..device import lease, runner, store
    if not why:
        core = ("a core, in turn" if args.core is None and os.environ.get(lease.VARIABLE) else
                f"core {args.core or 0}")
        tell("\n".join(wrapped([here.verdict, (
            f"capture {call.title} on {core}: run, check the outputs, profile the second "
            f"execution, save into {_shown(store.home())}")], whole=True)))
        with working(f"capturing {call.title}") as at:
            return runner.capture_launch(call, core=args.core, tolerance=args.tolerance,
                                         timeout_s=args.timeout, tell=at)
    if found := store.find(call.key(chip), core=args.core):
        tell("\n".join(wrapped([f"replay: {why}. Recorded: {found.label}"], whole=True)))
        return found
    if args.or_model:
        tell("\n".join(wrapped([f"model: {why}; no recording of this call on {chip}"], whole=True)))
        return None
    raise Nowhere(f"nothing to capture on: {why}; and no recording of this call on {chip} in "
                  f"{_shown(store.home())}.\n  --or-model takes the cost model's profile, labelled "
                  "so; probe says what a run needs, the page instance.md how to come to it")


def _shown(path: Path) -> Path:
    """As a reader in this folder would type it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


# --- arrays of one's own -------------------------------------------------------------------------


def with_inputs(call: "Launch", path: str) -> "Launch":
    """The call on the arrays of an .npz file, by the kernel's names, in the dtypes of the call.

    A float array may come in another float dtype and is cast; bf16 and fp8, which NumPy's format
    cannot name, also as raw bytes of their size. Raises CallError for anything else.
    """
    given, arrays = _arrays(path), []
    shown = f"--inputs {printable(path, 120)}"
    if odd := [name for name in given if name not in call.names]:
        raise CallError(f"{shown}: it has {printable(odd[0], 60)!r}; the arrays of {call.name} are "
                        f"{', '.join(call.names)}. Leave the others out")
    for name, (shape, dtype) in zip(call.names, call.shapes, strict=True):
        if name not in given:
            raise CallError(f"{shown}: no {name!r} in it; expected {', '.join(call.names)}")
        if given[name].shape != shape:
            raise CallError(f"{shown}: {name} is {list(given[name].shape)}; the call says "
                            f"{list(shape)}. Change one of them")
        arrays.append(_cast(f"{shown}: {name}", given[name], dtype))
    return replace(call, arrays=tuple(arrays))


def _arrays(path: str) -> "Mapping[str, np.ndarray]":
    import zipfile

    import numpy as np
    what = f"--inputs {printable(path, 120)}"
    try:
        file = np.load(Path(path).expanduser(), allow_pickle=False)
        if not isinstance(file, np.ndarray):
            with file:
                return {name: file[name] for name in file.files}
    except OSError as error:
        raise CallError(f"{what}: {error.strerror or printable(error, 120)}. Expected a file of "
                        "numpy.savez") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CallError(f"{what}: {printable(error, 120)}. Expected a file of numpy.savez, of "
                        "numbers") from None
    raise CallError(f"{what}: one array without a name; expected an .npz: "
                    "numpy.savez(path, x=x, w=w)")


def _cast(what: str, x: "np.ndarray", dtype: str) -> "np.ndarray":
    from ..nki import dtypes
    due = dtypes.of(dtype)
    if x.dtype == due:
        return x
    if x.dtype.kind == "V" and x.dtype.itemsize == due.itemsize:
        return x.view(due)
    if x.dtype.kind == "f" and due.kind not in "iub":
        return dtypes.cast(x.astype("float32"), due)
    raise CallError(f"{what} is {x.dtype}; the call says {dtype}. Save it as such, or a float type "
                    "as float32")


# --- what came of it -----------------------------------------------------------------------------


def _told(made: "Measurement", mine: Counted, kept: list[str], file: Path | None,
          found: "Recording | None", code: int) -> Answer:
    """The figure with its label, its clocks, its flags and the count, and where to go on."""
    clocks = list(made.profile.clocks())
    yours = {name: value for name, value, given in (
        ("flops", mine.hand.count.flops, mine.hand.work),
        ("hbm_bytes", mine.hand.hbm_bytes, mine.hand.transfers)) if given}
    beside = [*mine.differs, "your count plays no part here, nor in how this ends"] if (
        mine.differs) else ["your count is as the source's"] * bool(yours)
    lines = [repr(made), "", *(f"  {row}" for row in repr(made.profile.clocks()).splitlines()),
             "", *wrapped(beside, whole=True), *wrapped(kept, whole=True)]
    rows: list[tuple[str, Cell, str, str]] = [
        *((f"{row.name} time", row.seconds, "s", made.kind) for row in clocks),
        ("W", made.count.flops, "FLOP", "derived"), ("Q", made.count.hbm_bytes, "B", "derived"),
        ("bandwidth", made.bandwidth, "B/s", made.kind), ("rate", made.rate, "FLOP/s", made.kind)]
    data = {"subject": mine.title, "kind": made.kind, "label": made.label, "chip": made.chip,
            "lnc": made.launch.lnc, "time": made.time,
            "clocks": {row.name: {"seconds": row.seconds, "includes": row.includes}
                       for row in clocks},
            "flops": made.count.flops, "hbm_bytes": made.count.hbm_bytes,
            "work": made.count.work, "yours": yours, "bandwidth": made.bandwidth,
            "active_bandwidth": made.active_bandwidth, "rate": made.rate, "flags": made.flags,
            "excluded": made.excluded, "warnings": made.profile.warnings,
            "recording": found and found.folder, "provenance": found and found.provenance,
            "file": file}
    return Answer("\n".join(lines), data, [("quantity", "value", "unit", "kind"), *rows],
                  code=code)
