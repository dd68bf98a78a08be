"""Base units to text and back; the only place that scales a number.

Question  how is 8589934592 FLOP written, and what does "8.59 GFLOP" mean?
Answer    show(value, unit) and parse(text, unit)
Assumes   decimal prefixes (1 GB = 10^9 B); binary ones are spelled out (MiB)
Ignores   quantities: everywhere else numbers are plain ints and floats in base units
"""

import math
import re

_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SMALL = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12}

# Base units. "" is a plain number: a count or a ratio.
BASES = ("FLOP", "B", "s", "FLOP/s", "B/s", "FLOP/B", "Hz", "element/s", "cycle", "")

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
        units[prefix + "Flops"] = units[prefix + "FLOP"]
        units[prefix + "elements/s"] = units[prefix + "element/s"]
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
    units["second"] = units["seconds"] = (1.0, "s")
    return units


# Every unit text that is understood -> (factor to the base unit, base unit).
UNITS: dict[str, tuple[float, str]] = _table()

_LOWER: dict[str, str] = {}
for _name in UNITS:
    # Case only decides where it must: "mb" could be nothing else than MB, "ms" is never Ms.
    _LOWER.setdefault(_name.lower(), _name)

_NUMBER = re.compile(
    r"^\s*(?P<number>[+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>.*?)\s*$"
)

_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?([eE][+-]?\d+)?$")


def parse(text: str | float, unit: str) -> float:
    """A number in base units from what a person typed.

    text   "46.1 MB", "0.375 TB/s", "1e12", or a number already in `unit`
    unit   the base unit wanted, one of BASES

    >>> parse("46.1 MB", "B")
    46100000.0
    >>> parse("0.5 TFLOPS", "FLOP/s")
    500000000000.0

    Raises UnitError for text without a number, an unknown unit, a unit of another kind, or
    a number that is not finite.
    """
    if unit not in BASES:
        raise UnitError(f"parse: unit {unit!r} is not a base unit; one of {', '.join(BASES[:-1])}")
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise UnitError(f"expected a number or text, got {type(text).__name__}")
    if isinstance(text, str):
        match = _NUMBER.match(text.replace("\u00b5", "µ").replace("\u03bc", "µ"))
        if not match:
            raise UnitError(f"no number in {text!r}; write it like {_sample(unit)!r}")
        if "," in match["number"] and not _THOUSANDS.match(match["number"]):
            raise UnitError(f"{text!r}: a comma may only group thousands; write 0.5, not 0,5")
        number = float(match["number"].replace(",", ""))
        factor = _factor(match["unit"], unit)
    else:
        number, factor = float(text), 1.0
    if not math.isfinite(number):
        raise UnitError(f"got {text}, which is not a finite number")
    return number * factor


def _factor(name: str, unit: str) -> float:
    if not name:
        return 1.0
    known = name if name in UNITS else _LOWER.get(name.lower())
    if known is None:
        raise UnitError(f"unknown unit {name!r}; write it like {_sample(unit)!r}")
    factor, base = UNITS[known]
    if base != unit:
        raise UnitError(f"{name!r} is {_MEANING[base]}; expected {_MEANING[unit]}"
                        + (f", in {unit}" if unit else ""))
    return factor


def _sample(unit: str) -> str:
    samples = {"FLOP": "2 GFLOP", "B": "4 MB", "s": "2 ms", "FLOP/s": "1 TFLOP/s",
               "B/s": "100 GB/s", "FLOP/B": "5 FLOP/B", "Hz": "2.4 GHz"}
    return samples.get(unit, f"2 {unit}".strip())


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
    if unit in ("FLOP", "B", "FLOP/s", "B/s", "Hz", "element/s"):
        scale, prefix = _pick(value, _PREFIX, digits)
    elif unit == "s" and value:
        scale, prefix = _pick(value, {"": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}, digits)
    return f"{significant(value / scale, digits)} {prefix}{unit}".strip()


def _pick(value: float, prefixes: dict[str, float], digits: int) -> tuple[float, str]:
    """The largest prefix that leaves at least 1, after rounding to `digits`."""
    best = min((factor, name) for name, factor in prefixes.items())
    for name, factor in prefixes.items():
        if float(significant(abs(value) / factor, digits).replace(",", "")) >= 1:
            best = max(best, (factor, name))
    return best


def significant(value: float, digits: int = 3) -> str:
    """Plain decimal text with `digits` significant digits; integers keep all of theirs.

    >>> significant(209.7152), significant(0.0833333), significant(1365.33), significant(4.0)
    ('210', '0.0833', '1365', '4')
    """
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
