"""What `python -m roofline` can do, a module a command.

Question  how far can one kernel be followed from a shell, from its count to its gap?
Answer    COMMANDS: name -> what it answers; each module adds its arguments and gives an Answer
Assumes   one kernel at a time; a call can be written into a file and passed as @file
Ignores   how a command is found and what becomes of errors: __main__
"""

from types import MappingProxyType

# In the order in which a kernel meets them.
COMMANDS = MappingProxyType({
    "probe": "does a kernel run here, and on what?",
    "count": "how many FLOPs and HBM bytes is this kernel, by its source or by your hand?",
    "sheet": "which roofs has this chip, and who says so?",
    "roof": "how fast may it run, and where does it stand under its roofs?",
    "predict": "how long will this code take by the cost model, and what will it wait for?",
    "capture": "how long does it take on the NeuronCore here?",
    "profile": "what did the profiler count, and why is that not what I counted?",
    "gap": "which cause took which nanoseconds of T - T_best?",
})
