"""Measure: the reader's own CPU, and a NeuronCore where there is one.

Question  what runs here, how fast does this kernel run on it, and is the figure to be trusted?
Answer    probe(), capture(kernel, ...), measure(), sweep(), together(): profiles with provenance;
          host: the same for the CPU under the notebook
Assumes   one kernel at a time; nothing is loaded until a name is used
Ignores   host clocks around a kernel: times come from the device's own timeline
"""

import importlib
from typing import Any

# The public names of the modules of a NeuronCore; loaded on first use, so that `probe` needs
# Python alone and the CPU's part no NKI.
_FROM = {name: module for module, names in {
    "chip": "ChipError Probe probe tested",
    "runner": "CaptureError capture",
    "store": "Recording Recordings recordings",
    "contributing": "accept contribute",
    "plausibility": "Flag plausible plausible_time",
    "launches": "Launch LaunchError launch",
    "measuring": "MeasureError Measurement Sweep chip_here kinds measure modelled recorded sweep "
                 "unlike",
    "sharing": "Together together",
    "readings": "Gap Intervals Knee Loop Roofs gap intervals knee loop roofs",
    "keeping": "Condensed Stretch condense condensed",
    "literature": "Publications Published published",
    "comparable": "PublishedKernel PublishedKernels published_kernels",
}.items() for name in names.split()}
_MODULES = ("host", "host_kernels", "recording", "rounds")

__all__ = sorted([*_FROM, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _FROM:
        return getattr(importlib.import_module(f"{__name__}.{_FROM[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
