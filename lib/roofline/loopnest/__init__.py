"""Loop nests: which operand stays on chip, and how often the others come back.

Question  which bytes does this mapping of an op move, and which mapping moves the fewest?
Answer    Nest: a nest as text, its reloads, residency and Count; reloads: the closed form for
          one tile an operand
Assumes   a buffer the code manages (SBUF, PSUM): nothing is evicted that the nest holds
Ignores   time, machines, caches that choose for themselves
"""

from .nest import Event, Nest, NestError, Row, Rows
from .tiles import reloads

__all__ = ["Event", "Nest", "NestError", "Row", "Rows", "reloads"]
