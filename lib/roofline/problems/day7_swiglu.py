"""Day 7's second inf2 notebook: a SwiGLU MLP.

Question  what may the MLP of a public model cost, and why does it stay under that?
Answer    PROBLEMS, in the order of the page; ids begin with day7.swiglu.
Assumes   one NeuronCore-v2 of inf2 unless said; times in questions are supposed unless published
Ignores   how a profile is captured and read (device, profile)
"""

from ..check import collect

PROBLEMS = collect(globals())
