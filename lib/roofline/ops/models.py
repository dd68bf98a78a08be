"""Model cards: the sizes of a few public models, and their layers as ops."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ..table import aligned
from .basic import Linear
from .core import Op, ShapeError
from .transformer import MLP, Attention, DecodeAttention, LatentDecodeAttention, MoE, SwiGLU


@dataclass(frozen=True)
class Model:
    """Sizes of one model; a card of your own needs no more than the first six.

    D                   width of a token's row
    F                   width of the MLP; in a mixture, of one expert
    layers              how many
    heads, kv_heads     query heads; key and value heads
    d                   numbers in a head
    mlp                 "swiglu" (three weight matrices) or "gelu" (two)
    experts             routed experts; 0: no mixture. experts_per_token, shared_experts: of them
    latent, rope        numbers cached per token in place of keys and values (MLA); 0: none
    file, url           where the sizes are from; kind as in machine.Spec

    Keywords after the sizes go to the op: card.up_projection(B=1, w_dtype="int8").
    """

    D: int
    F: int
    layers: int
    heads: int
    kv_heads: int
    d: int
    mlp: str = "swiglu"
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    latent: int = 0
    rope: int = 0
    name: str = "own model"
    file: str = ""
    url: str = ""
    kind: str = "assumed"

    def up_projection(self, B: int, **options: Any) -> Linear:
        """x [B, D] times W [D, F]; in a mixture, B tokens of one expert."""
        return Linear(B, self.D, self.F, **options)

    def down_projection(self, B: int, **options: Any) -> Linear:
        """x [B, F] times W [F, D]; in a mixture, B tokens of one expert."""
        return Linear(B, self.F, self.D, **options)

    def block(self, B: int, **options: Any) -> MLP | SwiGLU | MoE:
        """The whole MLP of one layer, or the whole mixture."""
        if self.experts:
            return MoE(B, self.D, self.F, self.experts, self.experts_per_token,
                       self.shared_experts, **options)
        return (SwiGLU if self.mlp == "swiglu" else MLP)(B, self.D, self.F, **options)

    def attention(self, L: int, B: int = 1, **options: Any) -> Attention:
        """One layer's attention over a prompt of L tokens; ShapeError for a latent model."""
        if self.latent:
            raise ShapeError(f"{self.name}: attention: its keys have {self.d} + {self.rope} "
                             f"numbers, its values {self.d}; Attention takes one size. Use "
                             "decode, or an Attention of your own")
        return Attention(L, self.d, self.heads, self.kv_heads, B, **options)

    def decode(self, B: int, L: int, **options: Any) -> Op:
        """One layer's attention of one new token in each of B sequences with L cached."""
        if self.latent:
            return LatentDecodeAttention(B, L, self.heads, self.latent, self.rope, **options)
        return DecodeAttention(B, L, self.d, self.heads, self.kv_heads, **options)


class Models(dict[str, Model]):
    """Key -> Model; shown as a table. A key that is not there raises ShapeError."""

    def __missing__(self, key: str) -> Model:
        raise ShapeError(f"MODELS: no model {key!r}; known: {', '.join(self)}. For another one: "
                         "Model(D=..., F=..., layers=..., heads=..., kv_heads=..., d=...)")

    def __repr__(self) -> str:
        rows = [("model", "D", "F", "layers", "heads", "KV heads", "d", "MLP")]
        for key, m in self.items():
            mixture = f", {m.experts_per_token} of {m.experts} experts" if m.experts else ""
            mixture += f" + {m.shared_experts} shared" if m.shared_experts else ""
            cache = f"latent {m.latent} + {m.rope}" if m.latent else f"{m.kv_heads}"
            rows.append((key, f"{m.D:,}", f"{m.F:,}", str(m.layers), str(m.heads), cache,
                         str(m.d), m.mlp + mixture))
        return "\n".join([*aligned(rows, left=(0, 7)), "",
                          *(f"{key}: {m.kind}, {m.file}" for key, m in self.items())])


def _load() -> Models:
    cards = tomllib.loads(files("roofline").joinpath("models.toml").read_text())
    return Models({key: Model(kind="documented", **card) for key, card in cards.items()})


MODELS = _load()
