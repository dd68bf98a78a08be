"""What a Neuron profiler recorded, in one form whatever file it is in.

Question  what did the profiler count and when did each engine work, in the same units each time?
Answer    read(path) -> Profile: summary by the profiler's names, Timeline, warnings, version;
          write(profile, path) in the profiler's own formats; compare(count, profile)
Assumes   the file is as Neuron Profile 2.26 to Neuron Explorer 2.32 write it
Ignores   why the time went where it did (gaps), what it should have been (machine, neuroncore)
"""

from .compare import compare
from .read import read
from .record import Profile, ProfileError, Tensor
from .text import from_json
from .write import write

__all__ = ["Profile", "ProfileError", "Tensor", "compare", "from_json", "read", "write"]
