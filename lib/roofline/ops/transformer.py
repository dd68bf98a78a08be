"""Blocks of a transformer: MLPs, attention with and without a KV cache, mixture of experts.

Conventions. W counts matmuls only, as the field does; an activation or a softmax is added with
`activation_flops` or `softmax_flops` per element (FLOPS_PER_ELEMENT has the usual ones). k is how
often the wide intermediates cross in all: 0 in one kernel, the most when every step is its own;
each step then has its operands cross once, and that is what `algorithmic` counts.
"""

from dataclasses import dataclass
from typing import ClassVar

from .basic import Elementwise, Linear
from .chain import Custom, Fusible
from .core import Crossing, Op, ShapeError, Tensors, sized


@dataclass(frozen=True)
class MLP(Fusible):
    """y = gelu(x W_up) W_down: B tokens, D -> F -> D.

    k   times a [B, F] intermediate crosses: 4 three kernels (h and g written and read), 2 gelu
        at the end of the up-projection (h stays), 0 one kernel

    >>> MLP(B=2048, D=1024, F=4096, k=4).algorithmic.hbm_bytes
    92274688
    """

    B: int
    D: int
    F: int
    k: int = 0
    dtype: str = "bf16"
    w_dtype: str | None = None
    activation_flops: int = 0
    KEPT: ClassVar = {4: (), 2: ("h",), 0: ("h", "g")}
    _least: ClassVar = {"activation_flops": 0}
    _loops: ClassVar = dict(b="B", d="D", f="F", e="D")  # e: columns of y, as many as x has
    DIMS: ClassVar = dict(x="bd", W_up="df", g="bf", W_down="fe", y="be")

    @property
    def steps(self) -> tuple[Op, ...]:
        up = Linear(self.B, self.D, self.F, self.dtype, self.w_dtype)
        gelu = Elementwise(self.B * self.F, 1, self.activation_flops, self.dtype)
        down = Linear(self.B, self.F, self.D, self.dtype, self.w_dtype)
        return (up.named(x="x", W="W_up", y="h"), gelu.named(x="h", y="g"),
                down.named(x="g", W="W_down", y="y"))

    @property
    def formulas(self) -> dict[str, str]:
        return _mlp_formulas(self, matrices=2, xs=1)


@dataclass(frozen=True)
class SwiGLU(Fusible):
    """y = (silu(x W_gate) * (x W_up)) W_down: B tokens, D -> F -> D, three weight matrices.

    k   times a [B, F] intermediate crosses: 6 four kernels (a, u and s written and read; x is
        read twice), 4 the product at the end of the up-projection (u stays), 2 gate, up and
        product in one kernel (s crosses, x is read once), 0 one kernel
    activation_flops   per element of s: FLOPS_PER_ELEMENT["silu"] and 1 for the product
    """

    B: int
    D: int
    F: int
    k: int = 0
    dtype: str = "bf16"
    w_dtype: str | None = None
    activation_flops: int = 0
    KEPT: ClassVar = {6: (), 4: ("u",), 2: ("x", "a", "u"), 0: ("x", "a", "u", "s")}
    _least: ClassVar = {"activation_flops": 0}

    @property
    def steps(self) -> tuple[Op, ...]:
        wide = Linear(self.B, self.D, self.F, self.dtype, self.w_dtype)
        gate = Elementwise(self.B * self.F, 2, self.activation_flops, self.dtype)
        down = Linear(self.B, self.F, self.D, self.dtype, self.w_dtype)
        return (wide.named(x="x", W="W_gate", y="a"), wide.named(x="x", W="W_up", y="u"),
                gate.named(x1="a", x2="u", y="s"), down.named(x="s", W="W_down", y="y"))

    @property
    def formulas(self) -> dict[str, str]:
        return _mlp_formulas(self, matrices=3, xs=1 if "x" in self.KEPT[self.k] else 2)


def _mlp_formulas(op: MLP | SwiGLU, matrices: int, xs: int) -> dict[str, str]:
    w = op.w_dtype or op.dtype
    extra = f" + {op.activation_flops}BF" if op.activation_flops else ""
    terms = [("p", op.dtype, f"{xs + 1}BD"), ("p_w", w, f"{matrices}DF")]
    wide = [("p", op.dtype, f"{op.k}BF")] if op.k else []
    return {"W": f"{2 * matrices}BDF" + extra, "Q": sized(*terms, *wide),
            "I": f"~ 2B / {'p' if w == op.dtype else 'p_w'}"}


@dataclass(frozen=True)
class Attention(Fusible):
    """O = softmax(Q K') V over a whole prompt: B sequences of L tokens, heads of size d.

    heads         query heads H
    kv_heads      key and value heads G, each shared by H / G query heads; None: as many as heads
    causal        False: every query meets all L keys, 4 B H L L d FLOPs. True: key j meets query
                  i only for j <= i, L (L + 1) / 2 pairs, and only those are computed and stored
    k             times an [L, L] intermediate crosses: 4 three kernels (S and A written and
                  read), 2 softmax at the end of Q K' (S stays), 0 one kernel

    The projections before and after are Linears of their own. Q, the queries, is not Q, the bytes.

    >>> Attention(L=4096, d=128).unfused.algorithmic.hbm_bytes
    138412032
    """

    L: int
    d: int
    heads: int = 1
    kv_heads: int | None = None
    B: int = 1
    causal: bool = False
    k: int = 0
    dtype: str = "bf16"
    softmax_flops: int = 0
    KEPT: ClassVar = {4: (), 2: ("S",), 0: ("S", "A")}
    _only: ClassVar = {"causal": (False, True)}
    _least: ClassVar = {"softmax_flops": 0}
    _loops: ClassVar = dict(i="L", j="L", d="d")  # i: queries, j: keys
    DIMS: ClassVar = dict(Q="id", K="jd", A="ij", V="jd", O="id")

    @property
    def steps(self) -> tuple[Op, ...]:
        pairs = self.B * self.heads * (self.L * (self.L + 1) // 2 if self.causal else self.L**2)
        rows = self.B * self.heads * self.L * self.d
        shared = self.B * (self.kv_heads or self.heads) * self.L * self.d
        sizes = {"Q": rows, "K": shared, "V": shared, "O": rows, "S": pairs, "A": pairs}

        def step(flops: int, reads: str, write: str) -> Op:
            tensors = [Crossing(name, sizes[name], self.dtype, reads=1) for name in reads]
            tensors.append(Crossing(write, sizes[write], self.dtype, writes=1))
            return Custom(flops, tuple(tensors), self.dtype).named(**{t.name: t.name
                                                                    for t in tensors})

        return (step(2 * pairs * self.d, "QK", "S"), step(self.softmax_flops * pairs, "S", "A"),
                step(2 * pairs * self.d, "AV", "O"))

    @property
    def formulas(self) -> dict[str, str]:
        H, G = self.heads, self.kv_heads or self.heads
        pairs, half = ("BHL(L + 1)", 2) if self.causal else ("BHL²", 1)
        softmax = f" + {self.softmax_flops}{pairs}/{half}" if self.softmax_flops else ""
        ends = ["2BHLd", "2BGLd"] if G != H else ["4BHLd"]
        wide = [f"{self.k // half}{pairs}"] if self.k else []
        if self.k:
            limit = "d / p" if self.k == 4 else "2d / p"
        elif G != H:
            limit = f"{'' if self.causal else '2'}HL / (p (H + G))"
        else:
            limit = "L / (2p)" if self.causal else "L / p"
        return {"W": f"{4 // half}{pairs}d{softmax}",
                "Q": sized(*(("p", self.dtype, size) for size in ends + wide)),
                "I": f"~ {limit}"}

    def __post_init__(self) -> None:
        super().__post_init__()
        _shares(self, self.heads, self.kv_heads)


def _shares(op: Op, heads: int, kv_heads: int | None) -> None:
    if kv_heads and heads % kv_heads:
        raise ShapeError(f"{type(op).__name__}: kv_heads: expected a divisor of heads = {heads}, "
                         f"got {kv_heads}")


@dataclass(frozen=True)
class DecodeAttention(Op):
    """One new token in each of B sequences meets a cache of L tokens: softmax(q K') V.

    L           tokens in the cache, the new one among them: its k and v are there already
    heads       query heads H
    kv_heads    heads of the cache G: None as many (MHA), fewer (GQA), 1 (MQA)
    kv_dtype    of the cache, when it is another
    The scores, B H L numbers, stay on chip. Softmax is left out of W.

    No two sequences share a cache, so B grows W and Q alike and leaves I where it is.
    """

    B: int
    L: int
    d: int
    heads: int = 1
    kv_heads: int | None = None
    dtype: str = "bf16"
    kv_dtype: str | None = None

    flops = property(lambda self: 4 * self.B * self.heads * self.L * self.d)

    @property
    def tensors(self) -> Tensors:
        kv = self.kv_dtype or self.dtype
        cache = self.B * (self.kv_heads or self.heads) * self.L * self.d
        row = self.B * self.heads * self.d
        return Tensors((Crossing("q", row, self.dtype, reads=1),
                        Crossing("K cache", cache, kv, reads=1),
                        Crossing("V cache", cache, kv, reads=1),
                        Crossing("o", row, self.dtype, writes=1)))

    @property
    def formulas(self) -> dict[str, str]:
        kv = self.kv_dtype or self.dtype
        p = "p" if kv == self.dtype else "p_kv"
        G = "G" if self.kv_heads not in (None, self.heads) else "H"
        return {"W": "4BHLd", "Q": sized(("p", self.dtype, "2BHd"), ("p_kv", kv, f"2B{G}Ld")),
                "I": f"~ 2H / ({p} G)" if G == "G" else f"~ 2 / {p}"}

    def __post_init__(self) -> None:
        super().__post_init__()
        _shares(self, self.heads, self.kv_heads)


@dataclass(frozen=True)
class LatentDecodeAttention(Op):
    """Decode with one latent per cached token in place of every head's keys and values (MLA).

    The keys' and values' up-projections are folded into the query and output projections, which
    are Linears of their own. So each head's query, `latent + rope` numbers, meets the cached row,
    and the weighted sum is taken over its first `latent` numbers: the row is read once for both.

    latent   numbers of the latent c (kv_lora_rank)
    rope     numbers of the key part that carries the position, r (qk_rope_head_dim)
    """

    B: int
    L: int
    heads: int
    latent: int
    rope: int
    dtype: str = "bf16"
    kv_dtype: str | None = None

    flops = property(lambda self: 2 * self.B * self.heads * self.L * (2 * self.latent + self.rope))

    @property
    def tensors(self) -> Tensors:
        row, heads = self.latent + self.rope, self.B * self.heads
        return Tensors((Crossing("q", heads * row, self.dtype, reads=1),
                        Crossing("latent cache", self.B * self.L * row,
                                 self.kv_dtype or self.dtype, reads=1),
                        Crossing("o", heads * self.latent, self.dtype, writes=1)))

    @property
    def formulas(self) -> dict[str, str]:
        kv = self.kv_dtype or self.dtype
        p = "p" if kv == self.dtype else "p_kv"
        return {"W": "2BHL(2c + r)",
                "Q": sized(("p", self.dtype, "BH(2c + r)"), ("p_kv", kv, "BL(c + r)")),
                "I": f"~ 2H(2c + r) / ({p} (c + r))"}


@dataclass(frozen=True)
class MoE(Op):
    """B tokens, each through `k` of `E` SwiGLU experts D -> F -> D, and all `shared` ones.

    hit      how many different routed experts get at least one token. Exactly these experts'
             three matrices cross, once each, however many tokens each of them got; the others
             stay where they are. None: the most that can be hit, min(E, kB). `expected_hit` says
             how many even, independent routing hits on average.
    shared   experts that every token takes; they always cross

    Every step is in one kernel: x and y cross once. The router (a Linear B, D -> E), sorting the
    tokens and adding the k results up are left out.
    """

    B: int
    D: int
    F: int
    E: int
    k: int
    shared: int = 0
    hit: int | None = None
    dtype: str = "bf16"
    w_dtype: str | None = None
    _least: ClassVar = {"shared": 0}

    flops = property(lambda self: 6 * self.B * (self.k + self.shared) * self.D * self.F)
    most_hit = property(lambda self: min(self.E, self.k * self.B))

    @property
    def expected_hit(self) -> float:
        """E (1 - (1 - k/E)^B): the mean number of experts hit by even, independent routing."""
        return self.E * (1 - (1 - self.k / self.E) ** self.B)

    @property
    def tensors(self) -> Tensors:
        hit, w = self.hit or self.most_hit, self.w_dtype or self.dtype
        expert, ends = 3 * self.D * self.F, self.B * self.D
        shared = (Crossing(f"W of {self.shared} shared", self.shared * expert, w, reads=1),)
        return Tensors((Crossing("x", ends, self.dtype, reads=1),
                        Crossing(f"W of {hit} of {self.E} experts", hit * expert, w, reads=1),
                        *(shared if self.shared else ()),
                        Crossing("y", ends, self.dtype, writes=1)))

    @property
    def formulas(self) -> dict[str, str]:
        w = self.w_dtype or self.dtype
        p = "p" if w == self.dtype else "p_w"
        if self.shared:
            return {"W": "6B(k + s)DF",
                    "Q": sized(("p", self.dtype, "2BD"), ("p_w", w, "3(hit + s)DF")),
                    "I": f"~ 2B(k + s) / ({p} (hit + s))"}
        return {"W": "6BkDF", "Q": sized(("p", self.dtype, "2BD"), ("p_w", w, "3 hit DF")),
                "I": f"~ 2Bk / ({p} hit)"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k > self.E:
            raise ShapeError(f"MoE: k: expected at most E = {self.E}, got {self.k}")
        if self.hit is not None and not self.k <= self.hit <= self.most_hit:
            raise ShapeError(f"MoE: hit: {self.B} tokens through {self.k} of {self.E} experts hit "
                             f"{self.k} to {self.most_hit} of them, got {self.hit}")
