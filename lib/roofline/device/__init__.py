"""Measure: the reader's own CPU today (host), a NeuronCore later.

Question  how fast are this machine's roofs, and where do real kernels land under them?
Answer    device.host: roofs(), kernels(), sweep(), and run() to record or replay all three
Assumes   nothing is loaded until a name is used: NumPy and numba come with `host`
Ignores   other machines
"""

import importlib


def __getattr__(name: str):
    if name in ("host", "host_kernels", "recording", "rounds"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
