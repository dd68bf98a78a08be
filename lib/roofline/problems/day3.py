"""Day 3: P and BW from the docs.

Question  what does the architecture guide entitle a NeuronCore to, and what takes it away?
Answer    PROBLEMS, in the page's order; ids begin with day3.
"""

from ..check import collect

PROBLEMS = collect(globals())
