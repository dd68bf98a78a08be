"""The case study: the V-JEPA 2 ViT-L MLP on one logical core of Trainium2.

Question  fused or not, weights on both cores or split: what is each entitled to?
Answer    PROBLEMS, in the order of the page; ids begin with vjepa2.
Assumes   LNC=2 unless said: two physical cores, P and BW of the pair
Ignores   how a profile is captured and read (device, profile)
"""

from ..check import collect

PROBLEMS = collect(globals())
