"""Base units to text and back; the only place that scales a number.

Question  how is 8589934592 FLOP written, and what does "8.59 GFLOP" mean?
Answer    show(value, unit) and parse(text, unit)
Assumes   decimal prefixes (1 GB = 10^9 B); binary ones are spelled out (MiB)
Ignores   quantities: everywhere else numbers are plain ints and floats in base units
"""

import math
import re
from functools import lru_cache
from numbers import Real

_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SMALL = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12}

# Base units. "" is a plain number: a count or a ratio.
BASES = ("FLOP", "B", "s", "FLOP/s", "B/s", "FLOP/B", "Hz", "element/s", "transfer/s", "cycle", "")
# Those that are written with prefixes, so that a bare number may be meant in another unit.
SCALED = ("FLOP", "B", "s", "FLOP/s", "B/s", "Hz", "element/s", "transfer/s")

# What each base unit is called in an error.
_MEANING = {
    "FLOP": "work",
    "B": "bytes",
    "s": "a time",
    "FLOP/s": "a compute rate",
    "B/s": "a bandwidth",
    "FLOP/B": "an intensity",
    "Hz": "a clock frequency",
    "element/s": "an element rate",
    "transfer/s": "a transfer rate",
    "cycle": "clock cycles",
    "": "a plain number",
}


class UnitError(ValueError):
    """Text that is not a finite number with a unit of the expected kind."""


def _table() -> dict[str, tuple[float, str]]:
    units: dict[str, tuple[float, str]] = {"": (1.0, ""), "x": (1.0, ""), "%": (0.01, "")}
    for prefix, factor in _PREFIX.items():
        for base in ("FLOP", "FLOP/s", "B", "B/s", "Hz", "element/s"):
            units[prefix + base] = (factor, base)
        units[prefix + "FLOPs"] = units[prefix + "FLOP"]
        units[prefix + "FLOPS"] = units[prefix + "FLOP/s"]
        units[prefix + "FLOPs/s"] = units[prefix + "FLOP/s"]
        units[prefix + "Flops"] = units[prefix + "FLOP"]
        units[prefix + "elements/s"] = units[prefix + "element/s"]
        units[prefix + "T/s"] = (factor, "transfer/s")  # as memory is sold: 5600 MT/s
    for prefix, factor in {"": 1.0, **_SMALL}.items():
        units[prefix + "s"] = (factor, "s")
    for power, prefix in enumerate(("Ki", "Mi", "Gi", "Ti"), start=1):
        units[prefix + "B"] = (1024.0**power, "B")
        units[prefix + "B/s"] = (1024.0**power, "B/s")
    for name in ("FLOP/B", "FLOPs/B", "FLOP/byte", "FLOPs/byte", "flop/byte", "flops/byte"):
        units[name] = (1.0, "FLOP/B")
    for name in ("byte", "bytes"):
        units[name] = (1.0, "B")
        units[f"{name}/s"] = (1.0, "B/s")
    for name in ("cycle", "cycles"):
        units[name] = (1.0, "cycle")
    units["transfer/s"] = units["transfers/s"] = (1.0, "transfer/s")
    units["sec"] = units["second"] = units["seconds"] = (1.0, "s")
    return units


# Every unit text that is understood -> (factor to the base unit, base unit).
UNITS: dict[str, tuple[float, str]] = _table()

# Case only decides where it must: "mb" could be nothing else than MB, "ms" is never Ms. What is
# left, "tflops", is what the answer's unit makes of it.
_LOWER: dict[str, list[str]] = {}
for _name in UNITS:
    _LOWER.setdefault(_name.lower(), []).append(_name)

# The patterns from here on are used by a page's script too: only what JavaScript shares.
# Other spellings of a unit, put right in this order.
_SPELLINGS = (
    (r"\s*/\s*|\s+per\s+", "/"),
    (r"/(?:sec|secs|second|seconds)$", "/s"),
    (r"B[pP][sS]$", "B/s"),
)
_BITS = r"^(?:(?:[kKMGTP]i?)?b(?:/s)?|(?:[kKMGTPmgtp]i?)?(?:[bB]its?(?:/s|ps)?|bps))$"

_DIGITS = r"[+-]?(?:[0-9][0-9,]*\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NUMBER = re.compile(rf"^\s*(?P<number>{_DIGITS})(?:\s*/\s*(?P<over>{_DIGITS}))?"
                     r"\s*(?P<unit>(?:\S(?:.*\S)?)?)\s*$")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?([eE][+-]?[0-9]+)?$")


def parse(text: object, unit: str) -> float:
    """A number in base units from what a person typed.

    text   "46.1 MB", "0.375 TB/s", "1e12", "1/12", or a number already in `unit`, NumPy's as well
    unit   the base unit wanted, one of BASES

    >>> parse("46.1 MB", "B")
    46100000.0
    >>> parse("0.5 TFLOPS", "FLOP/s")
    500000000000.0

    Raises UnitError for text without a number, an unknown unit, bits, a unit of another kind,
    or a number that is not finite. Its words name no number: it may be shown to someone who is
    asked for one.
    """
    if unit not in BASES:
        raise UnitError(f"parse: unit {unit!r} is not a base unit; one of {', '.join(BASES[:-1])}")
    if isinstance(text, bool) or not isinstance(text, (str, Real)):
        raise UnitError(f"expected a number or text, got {type(text).__name__}")
    try:  # NumPy's scalars are numbers, too
        number = _read(text, unit) if isinstance(text, str) else float(text)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UnitError(f"got {text if isinstance(text, str) else number}, which is not a finite "
                        "number")
    return number


@lru_cache  # one answer is read by its part and again by those that follow from it
def _read(text: str, unit: str) -> float:
    match = _NUMBER.match(text.replace("\u03bc", "µ"))
    if not match:
        raise UnitError(f"no number in {text!r}; {_form(unit)}")
    digits = [match["number"], match["over"] or "1"]
    if any("," in number and not _THOUSANDS.match(number) for number in digits):
        raise UnitError(f"{text!r}: a comma may only group thousands; use a decimal point")
    top, below = (float(number.replace(",", "")) for number in digits)
    number = top / below if below else math.nan
    return number * _factor(match["unit"], unit)


def is_bare(text: str) -> bool:
    """Whether text is a number without a unit."""
    match = _NUMBER.match(text)
    return bool(match and not match["unit"])


def _factor(name: str, unit: str) -> float:
    if not name:
        return 1.0
    known = name
    for pattern, plain in _SPELLINGS:
        known = re.sub(pattern, plain, known)
    if known not in UNITS:
        if re.search(_BITS, known):
            raise UnitError(f"{name!r} is bits; bytes are written with a capital B")
        found = _LOWER.get(known.lower())
        if found is None:
            raise UnitError(f"unknown unit {name!r}; {_form(unit)}")
        known = next((other for other in found if UNITS[other][1] == unit), found[0])
    factor, base = UNITS[known]
    if base != unit:
        raise UnitError(f"{name!r} is {_MEANING[base]}; expected {_MEANING[unit]}"
                        + (f", in {unit}" if unit else ""))
    return factor


def _form(unit: str) -> str:
    """How an answer is written; never with a number in it, which could be the answer."""
    some = {"FLOP": "MFLOP or GFLOP", "B": "MB or GB", "s": "us or ms", "Hz": "MHz or GHz",
            "FLOP/s": "GFLOP/s or TFLOP/s", "B/s": "GB/s or TB/s", "transfer/s": "MT/s or GT/s"}
    if not unit:
        return "write a plain number"
    return f"write a number and its unit, such as {some.get(unit, unit)}"


def show(value: float, unit: str, digits: int = 3) -> str:
    """`value` (in the base unit `unit`) as short text with `digits` significant digits.

    >>> show(8589934592, "FLOP"), show(375e9, "B/s"), show(89.5e-6, "s")
    ('8.59 GFLOP', '375 GB/s', '89.5 us')

    Whole numbers of bytes that are whole binary multiples are not treated specially; write
    capacities with `mebi`. Raises UnitError for an unknown base unit.
    """
    if unit not in BASES:
        raise UnitError(f"show: unit {unit!r} is not a base unit; one of {', '.join(BASES[:-1])}")
    if not math.isfinite(value):
        return f"{value} {unit}".strip()
    scale, prefix = 1.0, ""
    if unit == "s":
        if value:
            scale, prefix = _pick(value, {"": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}, digits)
    elif unit in SCALED:
        scale, prefix = _pick(value, _PREFIX, digits)
    name = "T/s" if unit == "transfer/s" else unit
    return f"{significant(value / scale, digits)} {prefix}{name}".strip()


def amount(value: float | None, unit: str) -> str:
    """The same to 4 digits, of a tool's figure that may be missing: "unknown".

    >>> amount(504.21e-6, "s"), amount(None, "B")
    ('504.2 us', 'unknown')
    """
    return "unknown" if value is None else show(value, unit, 4)


def _pick(value: float, prefixes: dict[str, float], digits: int) -> tuple[float, str]:
    """The largest prefix that leaves at least 1, after rounding to `digits`."""
    best = min((factor, name) for name, factor in prefixes.items())
    for name, factor in prefixes.items():
        if float(significant(abs(value) / factor, digits).replace(",", "")) >= 1:
            best = max(best, (factor, name))
    return best


def significant(value: float, digits: int = 3) -> str:
    """Plain decimal text with `digits` significant digits; integers keep all of theirs. Of what is
    not finite "inf" or "nan".

    >>> significant(209.7152), significant(0.0833333), significant(1365.33), significant(4.0)
    ('210', '0.0833', '1365', '4')
    """
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = f"{value:.{decimals}f}"
    if decimals and len(text.lstrip("-0.").replace(".", "")) > digits:
        text = f"{value:.{decimals - 1}f}"  # 9.999 -> 10.0, one digit fewer
    return text.rstrip("0").rstrip(".") if "." in text else text


def mebi(value: float, digits: int = 3) -> str:
    """A capacity in binary units: 29360128 -> '28 MiB'."""
    for power, prefix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if abs(value) >= 1024**power:
            return f"{significant(value / 1024**power, digits)} {prefix}B"
    return f"{significant(value, digits)} B"
