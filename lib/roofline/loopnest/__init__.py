"""Loop nests: which operand stays on chip, and how often the others come back.

Question  which bytes does this mapping of an op move, and which mapping moves the fewest?
Answer    Nest: a nest as text, its reloads, residency and Count; reloads: the closed form for
          one tile an operand; place, best: the tensors' places, or the whole nest, of least Q;
          bound: what no schedule goes below
Assumes   a buffer the code manages (SBUF, PSUM): nothing is evicted that the nest holds
Ignores   time, machines, caches that choose for themselves
"""

from .nest import Event, Nest, NestError, Row, Rows
from .search import Best, best, bound, buffers, place
from .tiles import reloads

__all__ = ["Best", "Event", "Nest", "NestError", "Row", "Rows", "best", "bound", "buffers",
           "place", "reloads"]
