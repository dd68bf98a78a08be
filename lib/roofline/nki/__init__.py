"""NKI kernels on NumPy: their outputs, and every byte and FLOP they move.

Question  what does the very kernel file that runs on Trainium read, write and compute?
Answer    run(load("kernels.py").name, *arrays): outputs, Count, counters, trace
Assumes   NKI 0.6 (Neuron SDK 2.32), one call of a kernel on one core or an LNC=2 pair
Ignores   time; what the compiler adds or chooses. Those counters say "unknown"
"""

from . import collectives, isa, language, typing
from .compare import compare
from .core import NkiValidationError
from .load import LoadError, load
from .run import Kernel, Run, jit, run, simulate
from .surface import surface
from .trace import total

__all__ = ["Kernel", "LoadError", "NkiValidationError", "Run", "collectives", "compare", "isa",
           "jit", "language", "load", "run", "simulate", "surface", "total", "typing"]
