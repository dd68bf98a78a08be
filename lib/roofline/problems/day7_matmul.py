"""Day 7's first inf2 notebook: a 2048^3 matmul in three mappings.

Question  which Q does each mapping have, what may a compiler save of it, and where is the time?
Answer    PROBLEMS, in the order of the page; ids begin with day7.matmul.
Assumes   one NeuronCore-v2 of inf2 unless said; times in questions are supposed unless published
Ignores   how a profile is captured and read (device, profile)
"""

from ..check import collect

PROBLEMS = collect(globals())
