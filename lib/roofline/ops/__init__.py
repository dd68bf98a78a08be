"""What an op must do and move, as formulas in its shapes.

Question  how many FLOPs is this op, and how few bytes can it move?
Answer    one small class an op: .algorithmic is its Count, .tensors what crosses, how often
Assumes   each operand crosses the slow link once (`algorithmic`); a multiply-add is 2 FLOPs
Ignores   loop order, tiles and caches, unless a method names them
"""

from .basic import (
    FLOPS_PER_ELEMENT,
    SCALE_DTYPE,
    Add,
    Dot,
    Elementwise,
    LayerNorm,
    Linear,
    Matmul,
    RMSNorm,
    Softmax,
    SpMV,
    Stencil,
)
from .chain import Chain, Custom, chain
from .core import BYTES, Crossing, Named, Op, ShapeError, Tensors, moved
from .crossing import Crossover, crossover
from .link import AllGather, AllReduce, PointToPoint, ReduceScatter
from .models import MODELS, Model, Models
from .transformer import (
    MLP,
    Attention,
    DecodeAttention,
    LatentDecodeAttention,
    MoE,
    SwiGLU,
)

__all__ = [
    "BYTES", "FLOPS_PER_ELEMENT", "MLP", "MODELS", "SCALE_DTYPE", "Add", "AllGather", "AllReduce",
    "Attention", "Chain", "Crossing", "Crossover", "Custom", "DecodeAttention", "Dot",
    "Elementwise", "LatentDecodeAttention", "LayerNorm", "Linear", "Matmul", "MoE", "Model",
    "Models", "Named", "Op", "PointToPoint", "RMSNorm", "ReduceScatter", "ShapeError", "Softmax",
    "SpMV", "Stencil", "SwiGLU", "Tensors", "chain", "crossover", "moved",
]
