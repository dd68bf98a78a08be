"""From hardware entitlement to roofline: the course's library.

Question  how fast can this op run on this machine, and why is it slower?
Answer    count W and Q (ops), look up P and BW (machine), take the least roof (entitle)
Assumes   one op at a time, the slow link named
Ignores   everything the layer you use does not mention; each module says what
"""

import importlib

# Names that notebooks use, and the module each comes from. Loaded on first use, so the
# plain-Python core stays free of NumPy and Matplotlib.
_FROM = {
    "Count": "count",
    "Guess": "guess",
    "Transfers": "count",
    "ask": "problems",
    "predict": "problems",
}
_MODULES = ("units", "count", "machine", "ops", "loopnest", "derate", "sheet", "nki", "check",
            "guess", "timeline", "profile", "gaps", "problems", "clockwork", "neuroncore", "device",
            "plot", "figures")


def __getattr__(name: str):
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _FROM:
        return getattr(importlib.import_module(f"{__name__}.{_FROM[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_MODULES, *_FROM])
