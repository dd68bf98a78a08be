"""Day 6: the Trainium2 entitlement sheet.

Question  which roof is this figure a figure of, and which one does my scope have?
Answer    PROBLEMS, in the page's order; ids begin with day6.
"""

from ..check import collect

PROBLEMS = collect(globals())
