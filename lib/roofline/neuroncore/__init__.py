"""What this code is entitled to: the timeline a counted kernel would have on a NeuronCore.

Question  how long will this kernel take, and what will it wait for?
Answer    predict(run, machine, buffers=...) -> a Prediction: times, and a Profile, kind "modelled"
Assumes   in-order engines, transfers assigned to queues when issued, a declared buffering depth
Ignores   the compiler: fusion, reordering, spills; two kernels at once
"""

from .model import Prediction, predict
from .prices import MECHANISMS, ModelError

__all__ = ["MECHANISMS", "ModelError", "Prediction", "predict"]
