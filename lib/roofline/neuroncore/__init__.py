"""What this code is entitled to: the timeline a counted kernel would have on a NeuronCore.

Question  how long will this kernel take, and what will it wait for?
Answer    predict(run, machine, buffers=...) -> a Prediction: times, and a Profile, kind "modelled";
          error_report(): how far that is from published times
Assumes   in-order engines, transfers assigned to queues when issued, a declared buffering depth
Ignores   the compiler: fusion, reordering, spills; two kernels at once
"""

from typing import Any

from .model import Prediction, predict
from .prices import MECHANISMS, ModelError

__all__ = ["MECHANISMS", "ModelError", "Prediction", "error_report", "predict"]


def __getattr__(name: str) -> Any:
    if name == "error_report":  # on first use: the kernels behind it are many
        from .report import error_report
        return error_report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
