"""Where the time between entitlement and measurement went: a ledger that adds up.

Question  which cause took which nanoseconds of T - T_best, and where on the timeline?
Answer    ledger(profile, machine, count) -> Ledger: disjoint causes that sum to the gap exactly
Assumes   one kernel, one roof that binds: the Tensor Engine or the DMA packets
Ignores   names of layers, variables and source lines: causes come from when and what
"""

from .causes import CAUSES
from .ledger import Events, Ledger, Row, ledger, stated
from .rates import GapError
from .views import Difference, Fixed, Lines, Step

__all__ = ["CAUSES", "Difference", "Events", "Fixed", "GapError", "Ledger", "Lines", "Row", "Step",
           "ledger", "stated"]
