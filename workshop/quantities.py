"""Every number that a text states, in any SI writing: the verifier's own reader.

Question  does this text say 89.6 GB/s, whichever way it is written?
Answer    quantities(text): each number with what its unit makes of it, in base units; and
          bare(text): each number as it stands, without a unit
Assumes   text is plain, Markdown, TeX or what is left of HTML; a unit follows its number
Ignores   numbers in words, bits, and on purpose roofline.units: what the editions are built with
          cannot hide an answer from this
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "m": 1e-3,
             "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9, "p": 1e-12, "Ki": 2.0**10, "Mi": 2.0**20,
             "Gi": 2.0**30, "Ti": 2.0**40, "kilo": 1e3, "mega": 1e6, "giga": 1e9, "tera": 1e12,
             "peta": 1e15, "milli": 1e-3, "micro": 1e-6, "nano": 1e-9, "pico": 1e-12,
             "kibi": 2.0**10, "mebi": 2.0**20, "gibi": 2.0**30, "tebi": 2.0**40}
# What a unit is of, by pattern.
_THINGS = {"FLOP": r"(?i:flops?)", "B": r"B|(?i:bytes?)", "s": r"s|(?i:sec|seconds?)",
           "Hz": r"(?i:hz|hertz)", "element": r"(?i:elements?|elem)", "cycle": r"(?i:cycles?)",
           "transfer": r"T|(?i:transfers?)"}
_PREFIX = "|".join(sorted(_PREFIXES, key=len, reverse=True))


def _unit(name: str) -> str:
    things = "|".join(f"(?P<{name}_{thing}>{pattern})" for thing, pattern in _THINGS.items())
    return rf"(?P<{name}_prefix>{_PREFIX})[ -]?(?:{things})"


_MANY = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_DIGITS = (r"(?!0\d)(?:\d{1,3}(?:[,_'’\u2009\u202f]\d{3})+(?!\d)|\d+)(?:\.\d+)?"
           r"|(?<![^\s(])\.\d+")
_POWER = r"(?:\s*(?:[×x·*]|\\times|\\cdot)\s*10\s*\^?\{?(?P<ten>[-−+]?\d+)\}?|[eE](?P<e>[-+]?\d+))?"
_BARE = re.compile(rf"(?<![\w.])(?P<digits>{_DIGITS}){_POWER}")
_QUANTITY = re.compile(
    rf"{_BARE.pattern}(?:\s+(?P<many>{'|'.join(_MANY)}))?(?:[\s~\xa0-]|\\[ ,;:!])*"
    rf"(?:(?P<share>%|\\%|percent\b|per cent\b)|(?:{_unit('of')})"
    rf"(?:(?:\s*/\s*|\s+(?:per|a)\s+)(?:{_unit('per')})|(?P<ps>[pP][sS])"
    r"|\s*[·*]?\s*s\^?\{?[-−⁻][1¹]\}?)?(?![\w/]))")


class Quantity(NamedTuple):
    """text   as written; value   in the base unit that `unit` names ("" is a share)"""

    text: str
    value: float
    unit: str


def _plain(text: str) -> str:
    """TeX's words for a unit as what they hold, and its braces in numbers gone."""
    text = re.sub(r"\\(?:text|textrm|mathrm|operatorname)\s*\{([^{}]*)\}", r" \1", text)
    return text.replace("{,}", ",")


def _number(match: re.Match[str]) -> float:
    digits = re.sub(r"[^\d.]", "", match["digits"])
    ten = (match["ten"] or match["e"] or "0").replace("−", "-")
    return float(f"{digits}e{ten}")


def _thing(match: re.Match[str], name: str) -> tuple[str, float]:
    """What a unit is of, and its prefix as a factor; ("", 1) where there is none."""
    found = next((thing for thing in _THINGS if match[f"{name}_{thing}"]), "")
    return found, _PREFIXES[match[f"{name}_prefix"] or ""]


def quantities(text: str) -> Iterator[Quantity]:
    """The numbers with a unit; one that may be read two ways (FLOPS) comes twice."""
    for match in _QUANTITY.finditer(_plain(text)):
        value, written = _number(match) * _MANY.get(match["many"], 1.0), " ".join(match[0].split())
        if match["share"]:
            yield Quantity(written, value / 100, "")
            continue
        of, factor = _thing(match, "of")
        per, below = _thing(match, "per")
        if not per and (match["ps"] or re.search(r"[1¹]\}?$", match[0])):
            per = "s"
        yield Quantity(written, value * factor / below, f"{of}/{per}" if per else of)
        if of == "FLOP" and not per and match["of_FLOP"].lower() == "flops":
            yield Quantity(written, value * factor, "FLOP/s")


def bare(text: str) -> Iterator[Quantity]:
    """The numbers as they stand; what commas join is one number, and those between them."""
    for match in _BARE.finditer(text):
        yield Quantity(match[0], _number(match), "")
        if "," in match[0]:
            yield from bare(match[0].replace(",", " "))
