"""The roofline explorer: every number it shows is the library's, set through its own controls."""

import contextlib
import gzip
import io
import json
import math
import random
import re
import subprocess
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from figuretext import uncut
from test_figures import READS, page_of, sideways, violations  # noqa: F401  # page_of: a fixture

from roofline import derate, figures, loopnest, machine, ops, units
from roofline.figures import explorer_formulas, explorers
from roofline.figures.live import script, to_json
from roofline.machine import Machine, MachineError

# --- the library's side, written down a second time ----------------------------------------------
#
# Each op from its sizes, the numbers that pass an engine, and the fields of a stored dtype.



OPS = {
    "Matmul": lambda d, w, M, K, N: ops.Matmul(M, K, N, d),
    "Linear": lambda d, w, B, D, F: ops.Linear(B, D, F, d, w),
    "MLP": lambda d, w, B, D, F: ops.MLP(B, D, F, 4, d, w),
    "SwiGLU": lambda d, w, B, D, F: ops.SwiGLU(B, D, F, 6, d, w),
    "Attention": lambda d, w, B, L, G, R, d_: ops.Attention(
        L, d_, G * R, G, B, k=4, dtype=d),
    "Causal": lambda d, w, B, L, G, R, d_: ops.Attention(
        L, d_, G * R, G, B, causal=True, k=4, dtype=d),
    "DecodeAttention": lambda d, w, B, L, G, R, d_: ops.DecodeAttention(
        B, L, d_, G * R, G, d, w),
    "LatentDecodeAttention": lambda d, w, B, L, heads, latent, rope: ops.LatentDecodeAttention(
        B, L, heads, latent, rope, d, w),
    "Softmax": lambda d, w, rows, D: ops.Softmax(rows, D, d),
    "LayerNorm": lambda d, w, rows, D: ops.LayerNorm(rows, D, d),
    "RMSNorm": lambda d, w, rows, D: ops.RMSNorm(rows, D, d),
    "Elementwise": lambda d, w, n, f: ops.Elementwise(n, 1, f, d),
    "Add": lambda d, w, n: ops.Add(n, d),
    "Dot": lambda d, w, n: ops.Dot(n, d),
    "SpMV": lambda d, w, rows, nonzeros: ops.SpMV(rows, nonzeros, d),
    "Stencil": lambda d, w, n, points: ops.Stencil(n, points, 2, d),
    "AllReduce": lambda d, w, piece, chips: ops.AllReduce(piece * chips, chips, d),
    "AllGather": lambda d, w, piece, chips: ops.AllGather(piece * chips, chips, d),
    "ReduceScatter": lambda d, w, piece, chips: ops.ReduceScatter(piece * chips, chips, d),
}
PASSED = {
    "MLP": lambda s: s["B"] * s["F"], "SwiGLU": lambda s: s["B"] * s["F"],
    "Attention": lambda s: s["B"] * s["G"] * s["R"] * s["L"] ** 2,
    "Causal": lambda s: s["B"] * s["G"] * s["R"] * s["L"] * (s["L"] + 1) // 2,
    **dict.fromkeys(("Softmax", "LayerNorm", "RMSNorm"), lambda s: s["rows"] * s["D"]),
    **dict.fromkeys(("Elementwise", "Add", "Dot", "Stencil"), lambda s: s["n"]),
}
STORED = ("Linear", "MLP", "SwiGLU", "DecodeAttention", "LatentDecodeAttention")
ENGINES = {"vector": "Vector Engine", "scalar": "Scalar Engine", "gpsimd": "GpSimd Engine"}
JOINED = {"MLP": ["h", "g"], "SwiGLU": ["x", "a", "u", "s"], "Attention": ["S", "A"],
          "Causal": ["S", "A"]}
MAPPED = {"Matmul": ("mkn", "ABC"), "Linear": ("bdf", "xWy")}
TILES = (dict(K=64), dict(M=32), dict(N=32), dict(load="shown"))
CHIPS = ("trn2", "trn1", "inf2", "trn3", "a100", "h100", "h200", "b200", "tpu_v5e", "tpu_v5p",
         "tpu_v6e", "desktop")
DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")


def scopes(chip):
    for scope in ("core", "lnc2", "device"):
        with contextlib.suppress(MachineError):
            yield machine.get(chip, scope)


@cache
def peak_figures(chip, scope, dtype):
    """What the page may choose P from: a keyword of `using`, or None for the figure used."""
    m = machine.get(chip, scope)
    found = [None, *range(len(m.peaks[dtype].rivals))]
    if scope == "core":
        lower = [derate.matmul(chip, **tile, dtype=dtype) for tile in TILES]
        found += [one.rate for one in lower if one.share != 1]
    return found


def band_figures(m):
    found = [None, *range(len(m.bandwidths[m.slow_link].rivals))]
    lone = m.facts.get("lone_core_bandwidth")
    return found + ([lone, *lone.rivals] if lone else [])


def dma_figures(m):
    found = [None, *range(len(m.bandwidths["DMA"].rivals))]
    return found + ([derate.dma(m.key, 4096, 32).rate] if m.scope == "core" else [])


@dataclass
class Setting:
    op: str
    sizes: dict
    chip: str
    scope: str
    dtype: str
    stored: str | None = None
    kept: tuple = ()
    order: str = ""
    at: tuple = ()
    tiles: dict = field(default_factory=dict)
    P: int = 0
    BW: int = 0
    DMA: int = -1
    engine: str = ""
    under: tuple = ()

    @property
    def made(self):
        names = {{"d": "d_"}.get(name, name): size for name, size in self.sizes.items()}
        return OPS[self.op](self.dtype, self.stored, **names)

    @property
    def whole(self):
        """With its tensors as the setting has them."""
        return ops.chain(self.made.steps, self.kept) if self.op in JOINED else self.made

    @property
    def nest(self):
        words = []
        for place in range(4):
            words += [name for name, at in zip(MAPPED[self.op][1], self.at, strict=True)
                      if at == place]
            words += [f"{dim}{self.tiles[dim]}" for dim in self.order[place:place + 1]]
        return loopnest.Nest(self.made, " ".join(words))

    @property
    def count(self):
        return self.nest.achieved if self.order else self.whole.algorithmic

    @property
    def machine(self) -> Machine:
        m = machine.get(self.chip, self.scope)
        given = {self.dtype: peak_figures(self.chip, self.scope, self.dtype)[self.P],
                 m.slow_link: band_figures(m)[self.BW]}
        if self.DMA >= 0:
            given["DMA"] = dma_figures(m)[self.DMA]
        return m.using(**{k: v for k, v in given.items() if v is not None}).under(*self.under)

    @property
    def fact(self):
        """The element rate of the engine: of 16-bit numbers, of fp32, or of all."""
        kin = "bf16" if self.dtype == "fp16" else self.dtype
        m, stem = machine.get(self.chip, self.scope), f"{self.engine}_element_rate"
        return next(f for f in (f"{stem}.{kin}", f"{stem}.fp32", stem) if f in m.facts)

    @property
    def extra(self):
        found = {"DMA": self.count.hbm_bytes} if self.DMA >= 0 else {}
        if hasattr(self.made, "link_bytes") and "link" in self.machine.bandwidths:
            found["link"] = self.made.link_bytes
        return found | ({self.fact: PASSED[self.op](self.sizes)} if self.engine else {})

    @property
    def entitled(self):
        return self.machine.entitle(self.count, self.extra)

    @property
    def reads(self):
        got, count = self.entitled, self.count
        slow = self.machine.slow_link
        names = {"compute": "computing, W / P", slow: f"{slow}, Q / BW",
                 "DMA": "DMA engines, Q / DMA", "link": "link, bytes / link"}
        if self.engine:
            names[self.fact] = f"{ENGINES[self.engine]}, numbers / rate"
        return {
            "work W": units.show(count.flops, "FLOP"), "bytes Q": units.show(count.hbm_bytes, "B"),
            "I = W / Q": units.show(got.intensity, "FLOP/B"),
            "ridge P / BW": units.show(got.ridge, "FLOP/B") if count.flops else "none",
            **{names[roof]: units.show(t, "s") for roof, t in got.times.items()},
            "T_best, the longest": units.show(got.t_best, "s"),
            "T_worst, the sum": units.show(got.t_worst, "s"),
            "rate W / T_best": units.show(got.rate, "FLOP/s"),
        }


def drawn_size(draw, least, most):
    if draw.random() < 0.15:
        return draw.choice([least, most])
    size = math.exp(draw.uniform(math.log(max(least, 0.6)), math.log(most)))
    size = 2 ** round(math.log2(size)) if draw.random() < 0.4 else round(size)
    return min(max(int(size), least), most)


def drawn(draw, op=None, chip=None):
    op, chip = op or draw.choice(list(OPS)), chip or draw.choice(CHIPS)
    m = draw.choice(list(scopes(chip)))
    sizes = {name: drawn_size(draw, least, most) for name, (_, least, most, _) in
             explorer_formulas.ENTRIES[op].sizes.items()}
    s = Setting(op, sizes, chip, m.scope, draw.choice([d for d in DTYPES if d in m.peaks]))
    if op in STORED and draw.random() < 0.5:
        s.stored = draw.choice(DTYPES)
    if op in JOINED:
        s.kept = tuple(name for name in JOINED[op] if draw.random() < 0.5)
    if op in MAPPED and draw.random() < 0.7:
        dims, names = MAPPED[op]
        s.order = "".join(draw.sample(dims, 3))
        s.at = tuple(draw.randint(0, 3) for _ in names)
        s.tiles = {dim: drawn_size(draw, 1, 2**20) if draw.random() < 0.5 else
                   draw.choice([128, 512]) for dim in dims}
    s.BW = draw.randrange(len(band_figures(m)))
    if draw.random() < 0.5:
        s.P = draw.randrange(len(peak_figures(chip, m.scope, s.dtype)))
    else:
        names = list(dict.fromkeys(c.name for c in m.ceilings))
        s.under = tuple(name for name in names if draw.random() < 0.4)
    if "DMA" in m.bandwidths and draw.random() < 0.6:
        s.DMA = draw.randrange(len(dma_figures(m)))
    if op in PASSED and "vector_clock" in machine.get(chip).facts and draw.random() < 0.6:
        s.engine = draw.choice(list(ENGINES))
    return s


# --- Python side -------------------------------------------------------------------------------


def test_every_op_of_the_figure_is_tried_here():
    assert set(OPS) == set(explorer_formulas.ENTRIES) and set(CHIPS) == set(explorers.CHIPS)
    assert set(JOINED) == {key for key, op in explorer_formulas.catalogue().items() if "kept" in op}


def evaluated(text, sizes):
    """A polynomial as the page has it, by Python's own arithmetic."""
    top, _, over = text.partition(" / ")
    terms = [term.split(" ") for term in top.split(" + ")]
    total = sum(int(number) * math.prod(sizes[name] for name in names) for number, *names in terms)
    return Fraction(total, int(over or 1))


@pytest.mark.parametrize("key", list(OPS))
def test_polynomials_are_the_op_at_sizes_they_never_saw(key):
    draw = random.Random(key)
    data = explorer_formulas.catalogue()[key]
    for _ in range(30):
        s = drawn(draw, key)
        s.order = ""
        sizes = s.sizes | {"p": ops.BYTES[s.dtype], "q": ops.BYTES[s.stored or s.dtype]}
        assert evaluated(data["W"], sizes) == s.made.flops
        assert evaluated(data["link"], sizes) == getattr(s.made, "link_bytes", 0)
        for t, (name, *texts) in zip(s.whole.tensors, data["tensors"], strict=True):
            read, written = texts[2:4] if name in s.kept else texts[:2]
            assert (t.name, t.read_bytes, t.write_bytes) == (
                name, evaluated(read, sizes), evaluated(written, sizes))


def test_what_is_no_polynomial_is_refused():
    def trial(draw):
        return {"n": draw.randint(1, 100)}

    nodes = {"n": [1, 2, 3, 5]}
    square, = explorer_formulas.fitted(lambda n: (n * (n + 1) // 2,), nodes, trial)
    assert str(square) == "1 n n + 1 n / 2"
    for wrong in (lambda n: (-(-n // 4),), lambda n: (2**n,), lambda n: (min(n, 50),)):
        with pytest.raises(ArithmeticError, match="no polynomial of n"):
            explorer_formulas.fitted(wrong, nodes, trial)


def test_the_engines_rates_are_those_that_the_derating_rules_use():
    for chip in ("trn1", "inf2", "trn2", "trn3"):
        for engine, op in (("vector", "tensor_copy"), ("scalar", "activation"),
                           ("gpsimd", "tensor_copy")):
            for dtype in ("bf16", "fp16", "fp32"):
                core = machine.get(chip)
                fact = explorers.rate(core, engine, dtype)
                assert core.facts[fact].value == derate.elementwise(
                    core, engine, op=op, N=512, dtype=dtype).peak.value, (chip, engine, dtype)
    assert explorers.rate(machine.h100, "vector", "bf16") == ""


def test_text_and_tables_are_the_library_s():
    live = figures.explorer()
    text = uncut(live)
    # V-JEPA 2's MLP: W = 4 B D F; Q = 2 (2 BD + 2 DF + 4 BF).
    W, Q = 4 * 2048 * 1024 * 4096, 2 * (2 * 2048 * 1024 + 2 * 1024 * 4096 + 4 * 2048 * 4096)
    assert f"W = {units.show(W, 'FLOP')}" in text and f"moves Q = {units.show(Q, 'B')}" in text
    assert re.search(r"Trainium2, one NeuronCore-v3 +bf16 +78.64 TFLOP/s +375 GB/s +372 FLOP/B +"
                     rf"210 FLOP/B +compute +{units.show(W / 78.6432e12, 's')} ", text)
    assert re.search(r"^Desktop CPU of the worked example +fp32 +1.024 TFLOP/s +89.6 GB/s +186 ",
                     text, re.M)
    assert "<" not in text and live._repr_html_() == figures.explorer()._repr_html_()
    assert max(map(len, repr(live).splitlines())) <= 98
    assert "W = 33.6 MFLOP" in uncut(figures.explorer("inf2", "Linear", B=1, D=4096, F=4096))


@pytest.mark.parametrize(("options", "says"), [
    (dict(op="Foo"), "op: got 'Foo'; one of Matmul, "), (dict(chip="trn9"), "chip: got 'trn9'"),
    (dict(scope="pair"), "scope: got 'pair'; trn2 has core, lnc2, device"),
    (dict(dtype="int8"), "dtype: got 'int8'; Trainium2, one NeuronCore-v3 has fp32, "),
    (dict(M=4), "MLP has no size 'M'; it has B, D, F"),
    (dict(B=0), "B: got 0; expected a whole number from 1 to 1048576"),
    (dict(B="4"), "B: got '4'"), (dict(B=True), "B: got True"),
])
def test_what_it_cannot_show_it_says(options, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        figures.explorer(**options)


def test_it_stays_small():
    live = figures.explorer()
    data, code = to_json(dict(live.data)), script("explorer", "x")
    assert len(gzip.compress(data.encode())) < 16_000
    assert len(gzip.compress((data + code).encode())) < 40_000
    assert len(gzip.compress(live._repr_html_().encode())) < 60_000


# --- the page ------------------------------------------------------------------------------------


@pytest.fixture
def open_figure(page_of):  # noqa: F811
    def open_it(live=None, **options):
        page = page_of((live or figures.explorer())._repr_html_(), **options).page
        page.click("text=Skip")
        return page
    return open_it


def pick(page, name, value):
    page.get_by_label(name, exact=True).select_option(value=str(value))


def write_size(page, name, size):
    text = page.get_by_label(f"{name}, exactly", exact=True)
    text.fill(str(size))
    text.press("Enter")


def set_to(page, s):
    """By the page's own controls."""
    pick(page, "Chip", s.chip)
    pick(page, "Scope", s.scope)
    pick(page, "Dtype", s.dtype)
    pick(page, "Op", s.op)
    for name, size in s.sizes.items():
        write_size(page, name, size)
    if s.op in STORED:
        pick(page, "Cache stored as" if "Decode" in s.op else "Weights stored as", s.stored or "")
    for name in JOINED.get(s.op, ()):
        page.get_by_label(f"{name} stays on chip", exact=False).set_checked(name in s.kept)
    if s.op in MAPPED:
        pick(page, "Bytes", s.order)
    if s.order:
        for name, at in zip(MAPPED[s.op][1], s.at, strict=True):
            pick(page, f"{name} is held", at)
        for dim, step in s.tiles.items():
            write_size(page, dim, step)
    names = list(dict.fromkeys(c.name for c in machine.get(s.chip, s.scope).ceilings))
    for name in names:  # none first: what the last setting left may not go with this P
        page.get_by_label(f'below the ceiling "{name}"').set_checked(False)
    pick(page, "P figure", s.P)
    pick(page, "Bandwidth figure", s.BW)
    if "DMA" in machine.get(s.chip, s.scope).bandwidths:
        pick(page, "DMA engines' roof", s.DMA)
    if page.get_by_label("Also an engine's roof").is_visible():
        pick(page, "Also an engine's roof", s.engine)
    for name in s.under:
        page.get_by_label(f'below the ceiling "{name}"').set_checked(True)


TABLE = """(caption) => { const found = [...document.querySelectorAll("table")].find((t) =>
  t.caption.textContent === caption); return found && [...found.tBodies[0].rows].map((row) =>
  [...row.cells].map((cell) => cell.textContent)); }"""


def crossing(s):
    """Name -> bytes read and written."""
    if s.order:
        return {r.name: (r.read_bytes, r.write_bytes) for r in s.nest.resident}
    return {t.name: (t.read_bytes, t.write_bytes) for t in s.whole.tensors}


def check_arithmetic(page, s):
    rows = {row[0]: row[1:] for row in page.evaluate(TABLE, "W, bytes and times: derived")}
    want = {"W": (s.count.flops, "FLOP"), "Q": (s.count.hbm_bytes, "B")}
    for name, ways in crossing(s).items():
        want |= {f"{name} {way}": (n, "B") for way, n in zip(("read", "written"), ways, strict=True)
                 if n}
        want |= {} if any(ways) else {name: (0, "B")}
    got = s.entitled
    times = [units.show(t, "s") for t in got.times.values()]
    for name, (amount, unit) in want.items():
        value, _, numbers, exact = rows.pop(name)
        assert (value, exact) == (units.show(amount, unit), f"{amount:,}"), (s, name)
        if numbers:  # a reader's arithmetic gives the number
            assert re.fullmatch(r"[0-9 x()+/-]+", numbers)
            assert eval(numbers.replace("x", "*").replace("/", "//")) == amount, (s, numbers)
    if s.count.flops:
        assert rows.pop("I")[0] == units.show(got.intensity, "FLOP/B")
        assert rows.pop("ridge")[0] == units.show(got.ridge, "FLOP/B")
    assert rows.pop("T_best")[:3:2] == [units.show(got.t_best, "s"), f"max({', '.join(times)})"]
    assert rows.pop("T_worst")[0] == units.show(got.t_worst, "s")
    assert [row[0] for row in rows.values()] == times
    P = s.machine.peaks[s.dtype]
    assert rows["computing"][2] == f"{units.show(s.count.flops, 'FLOP')} / {P.text}"


def check_nest(page, s):
    if not s.order:
        return
    rows = page.evaluate(TABLE, "What the nest holds")
    assert [[name, times] for name, times, _ in rows] == [
        [name, f"r_{name} = {s.nest.reloads[name]}"] for name in MAPPED[s.op][1]]
    memories = {r.name: r.memory for r in s.nest.resident}
    assert [row[2] for row in rows] == [memories[row[0]] for row in rows]
    said = page.locator(".rl-held").all_inner_texts()
    told = page.locator("details .rl-source").all_inner_texts()
    core = machine.get(s.chip, s.scope)
    room = loopnest.buffers(core) if s.scope == "core" else {}
    for memory in room:
        spec = core.facts[f"{memory.lower()}_bytes"]
        assert any(line.startswith(f"{memory} = {spec.text}, {spec.kind}: ") and spec.source in line
                   for line in told)
    for words, (memory, held) in zip(sorted(said), sorted(s.nest.held.items()), strict=True):
        assert words.startswith(f"{memory}: {units.mebi(held)}"), (s, words)
        if room:
            assert (f"of {units.mebi(room[memory])}: fits" in words) == (held <= room[memory])
            assert ("does not fit" in words) == (held > room[memory])
    assert room == {} or s.nest.fits(**room) == (page.get_by_text("does not fit").count() == 0)


def check_rivals(page, s):
    """T_best with each figure in place of the one chosen."""
    rows = page.evaluate(TABLE, "Each figure in place of the one chosen") or []
    m = machine.get(s.chip, s.scope)
    lists = [(s.dtype, f"P, {s.dtype}", peak_figures(s.chip, s.scope, s.dtype)),
             (m.slow_link, m.slow_link, band_figures(m))]
    lists += [("DMA", "DMA", dma_figures(m))] if s.DMA >= 0 else []
    want = []
    for roof, name, list_ in lists:
        for one in list_ if len(list_) > 1 else []:
            here = s.machine if one is None else m.using(**{roof: one})
            spec = {**m.peaks, **m.bandwidths}[roof] if one is None else {
                **here.peaks, **here.bandwidths}[roof]
            there = s.machine.using(**{roof: spec})
            want.append([name, spec.text, units.show(
                there.entitle(s.count, s.extra).t_best, "s")])
    assert [[row[0], row[1], row[3]] for row in rows] == want, s
    for row in rows:
        assert row[2] in machine.KINDS and len(row[4]) > 5


def check_python(page, s):
    """The call that the page gives prints the numbers that the page shows."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(page.text_content("pre"), {})
    count, got = s.count, s.entitled
    want = ([repr(s.nest.reloads) + " " + repr(s.nest.held)] if s.order else []) + [repr(count)]
    lines = told.getvalue().splitlines()
    assert lines[:len(want)] == want, (s, page.text_content("pre"))
    # A figure given as a number is named by the call, so the title may say more.
    assert lines[len(want) + 1:] == repr(got).splitlines()[1:], s


def check_words(page, s):
    got = s.entitled
    name = {"compute": "Computing", "DMA": "DMA engines"}.get(
        got.binds, got.binds if not s.engine or got.binds != s.fact else ENGINES[s.engine])
    said = page.inner_text(".rl-status")
    assert f"{name} takes longest: T_best is {units.show(got.t_best, 's')}." in said, s
    if s.count.flops:
        share = units.significant(100 * got.rate / got.peak)
        assert f"entitled to {units.show(got.rate, 'FLOP/s')}, {share} % of P." in said, s
    P = s.machine.peaks[s.dtype]
    first = page.locator("details .rl-source >> nth=0").text_content()
    assert first.startswith(f"{s.dtype} P = {P.text}, "), (s, first)
    # A figure given as a bare number is the caller's to the library; the page knows its rules.
    if not isinstance(peak_figures(s.chip, s.scope, s.dtype)[s.P], float):
        assert first.startswith(f"{s.dtype} P = {P.text}, {P.kind}: ") and P.source in first


def check(page, s):
    assert page.evaluate(READS) == s.reads, s
    check_arithmetic(page, s)
    check_nest(page, s)
    check_rivals(page, s)
    check_python(page, s)
    check_words(page, s)
    scope_rows = page.evaluate(TABLE, "What the scope changes")
    want = [m for m in scopes(s.chip) if s.dtype in m.peaks]
    if len(want) > 1:
        assert [row[1:4] for row in scope_rows] == [[
            m.peaks[s.dtype].text, m.bandwidths[m.slow_link].text,
            units.show(m.ridge(s.dtype), "FLOP/B")] for m in want]
    else:
        assert scope_rows is None


@pytest.mark.parametrize("seed", range(4))
def test_the_page_is_the_library_on_random_settings(seed, open_figure):
    """25 a seed: chip, scope, dtype, op, sizes, mapping, fusion, figures, ceilings, engines."""
    page, draw = open_figure(), random.Random(seed)
    keys = list(OPS)
    for i in range(25):  # each op, each chip
        s = drawn(draw, keys[(25 * seed + i) % len(keys)], CHIPS[(7 * seed + i) % len(CHIPS)])
        set_to(page, s)
        check(page, s)


@pytest.mark.parametrize("key", list(OPS))
def test_each_slider_s_ends_are_the_library(key, open_figure):
    page = open_figure(figures.explorer("trn1", key))
    s = Setting(key, {name: first for name, (*_, first) in
                      explorer_formulas.ENTRIES[key].sizes.items()}, "trn1", "core", "bf16")
    s.engine = {"Elementwise": "scalar"}.get(key, "vector" if key in PASSED and key not in (
        "MLP", "SwiGLU", "Attention", "Causal") else "")
    first = dict(s.sizes)
    for ends in (["Home"], ["End"]):
        for name, (_, least, most, _) in explorer_formulas.ENTRIES[key].sizes.items():
            slider = page.locator(f"input[type=range][id$='-size-{name}']")
            for end in (*ends, None):
                if end:
                    slider.focus()
                    page.keyboard.press(end)
                    s.sizes = first | {name: least if end == "Home" else most}
                assert slider.get_attribute("aria-valuetext") == str(s.sizes[name])
                assert page.evaluate(READS) == s.reads, s
                check_arithmetic(page, s)
            write_size(page, name, first[name])
    # All at once: the largest and the smallest that it can be asked for.
    for i in (1, 2):
        s.sizes = {name: row[i] for name, row in explorer_formulas.ENTRIES[key].sizes.items()}
        for name, size in s.sizes.items():
            write_size(page, name, size)
        check(page, s)


def test_whole_numbers_stay_whole_beyond_2_to_the_53(open_figure):
    page = open_figure()
    s = Setting("Attention", dict(B=1048575, L=4194301, G=1023, R=1021, d=4093), "trn2", "core",
                "bf16")
    assert s.count.flops > 2**90 and float(s.count.flops) != s.count.flops
    set_to(page, s)
    check(page, s)
    # W / P, where the numerator rounds the other way than the quotient of whole numbers does.
    draw = random.Random(5)
    pairs = [(draw.getrandbits(70), draw.getrandbits(44) + 1) for _ in range(500)]
    text = Path(explorers.__file__).with_name("explorer.mjs").read_text("utf-8")
    body = re.search(r"^function quotient.*?^}", text, re.M | re.S)[0]
    got = page.evaluate(f"(pairs) => {{ {body}; return pairs.map(([n, d]) => "
                        "quotient(BigInt(n), BigInt(d))); }", [[str(n), str(d)] for n, d in pairs])
    assert got == [n / d for n, d in pairs]
    assert any(float(n) / d != n / d for n, d in pairs)


def test_the_library_can_be_asked_from_a_shell(open_figure):
    page = open_figure(figures.explorer("trn2", "MLP"))
    page.get_by_label("g stays on chip", exact=False).check()
    code = page.text_content("pre")
    assert 'kept=["g"]' in code
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"T_best   {page.evaluate(READS)['T_best, the longest']}" in told.stdout
    page.get_by_label("h stays on chip", exact=False).check()
    assert "k=0" in page.text_content("pre") and "chain" not in page.text_content("pre")


# --- predict, then reveal; the address ------------------------------------------------------------


def test_guess_first_by_keyboard_alone(page_of):  # noqa: F811
    page = page_of(figures.explorer()._repr_html_(), viewport={"width": 1000, "height": 900}).page
    assert page.locator(".rl-reads, .rl-sizes, .rl-here, pre").count() == 0
    assert "W = 34.4 GFLOP, Q = 92.3 MB" in page.inner_text(".rl-setting")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.inner_text(".rl-status") == "Choose one, or skip the guess."
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.inner_text(".rl-status").startswith(
        "You said HBM. Computing takes longest: T_best is 437 us.")
    # Every control is reached by Tab and used by keys.
    seen = []
    for _ in range(40):
        seen.append(page.evaluate("""(() => { const e = document.activeElement; return (e.labels
          && e.labels[0]?.textContent) || e.getAttribute("aria-label") || e.textContent; })()"""))
        page.keyboard.press("Tab")
    for name in ("Op", "Weights stored as", "B tokens", "B, exactly", "h stays on chip: crosses 0 x"
                 ", not 2 x", "P figure", "Bandwidth figure", "DMA engines' roof",
                 "Also an engine's roof", 'below the ceiling "throttled"',
                 "draw sources that disagree", "Pin this to compare", "Copy as Python",
                 "Copy the link", "The arithmetic, with the numbers put in", "As Python"):
        assert name in seen, name
    s = Setting("MLP", dict(B=2048, D=1024, F=4096), "trn2", "core", "bf16")
    page.get_by_label("h stays on chip", exact=False).focus()
    page.keyboard.press("Space")
    s.kept = ("h",)
    assert page.evaluate(READS) == s.reads
    assert page.evaluate("document.activeElement.checked")  # made anew, it kept the focus
    page.get_by_label("Chip", exact=True).focus()
    page.keyboard.press("ArrowDown")
    s.chip = "trn1"
    assert page.evaluate(READS) == s.reads
    assert page.evaluate("document.activeElement.labels[0].textContent") == "Chip"
    page.locator("input[type=range] >> nth=0").focus()
    page.keyboard.press("ArrowLeft")
    s.sizes["B"] = 1024
    assert page.evaluate(READS) == s.reads
    page.get_by_text("Pin this to compare").focus()
    page.keyboard.press("Enter")
    assert page.locator(".rl-pinned").count() == 1 and page.get_by_text("Unpin").count() == 1


def test_a_right_guess_and_none(page_of):  # noqa: F811
    page = page_of(figures.explorer("trn2", "Linear", B=1)._repr_html_()).page
    page.get_by_label("HBM: Q / BW").check()
    page.click("text=Check my guess")
    assert page.inner_text(".rl-status").startswith("You said so. HBM takes longest: T_best is ")
    pick(page, "Chip", "h100")  # from here on it is a tool
    assert "You said" not in page.inner_text(".rl-status")
    page = page_of(figures.explorer(ask=False)._repr_html_()).page
    assert page.locator(".rl-reads").count() == 1 and page.get_by_text("Skip").count() == 0


def test_the_setting_is_in_the_address_and_comes_back(open_figure):
    page, draw = open_figure(), random.Random(8)
    for i in range(12):
        s = drawn(draw, ["Matmul", "MLP", "Linear", "Elementwise", "AllReduce", "Attention"][i % 6])
        set_to(page, s)
        if i == 8:
            page.get_by_text("Pin this to compare").click()
        page.wait_for_function("(was) => location.hash !== was", arg=f"#{i}")
        page.wait_for_timeout(300)
        before = page.evaluate(READS)
        page.reload()
        assert page.get_by_text("Skip").count() == 0
        assert page.evaluate(READS) == before == s.reads
        check_python(page, s)
        assert (page.get_by_text("Unpin").count() == 1) == (i >= 8)


GOOD = "op=Matmul&M=64&K=64&N=64&chip=trn2&scope=core&dtype=bf16"


BAD = [
    (("op=Matmul", "op=Foo"), 'op: got "Foo", expected one of Matmul, '),
    (("M=64", "M=0"), 'M: got "0", expected a whole number from 1 to 1048576'),
    (("M=64&", ""), 'M: got "", expected a whole number'),
    (("M=64", "M=6e1"), 'M: got "6e1"'), (("M=64", "M=-1"), 'M: got "-1"'),
    (("M=64", "M=99999999999999999999"), "M: got "),
    (("trn2", "trn9"), 'chip: got "trn9"'), (("core", "pair"), 'scope: got "pair"'),
    (("bf16", "int8"), 'dtype: got "int8"'), (("bf16", "bf16&P=99"), 'P: got "99"'),
    (("bf16", "bf16&order=mmk&at=1.1.1&tiles=1.1.1"), 'order: got "mmk", expected each of m, k, n'),
    (("bf16", "bf16&order=mnk&at=1.1&tiles=1.1.1"), 'at, C: got ""'),
    (("bf16", "bf16&order=mnk&at=1.1.4&tiles=1.1.1"), 'at, C: got "4"'),
    (("bf16", "bf16&order=mnk&at=1.1.1&tiles=1.0.1"), 'tile of k: got "0"'),
    (("bf16", "bf16&kept=h"), 'kept: got "h", expected some of nothing'),
    (("bf16", "bf16&engine=vector"), 'engine: got "vector"'),
    (("bf16", "bf16&under=1"), 'under: got "1"'), (("bf16", "bf16&stored=int8"), "stored: got "),
    (("bf16", "bf16&BW=0x1"), 'BW: got "0x1"'), (("bf16", "bf16&what=1"), 'what: got "1"'),
    (("bf16", "bf16&pin=op%3DFoo"), 'op: got "Foo"'),
    (("bf16", "bf16&P=3&under=0"), "under: got "),
    ((GOOD, ""), 'op: got ""'), ((GOOD, "%00<b id=bad>"), "op: got "),
]


def test_a_bad_address_is_told_and_changes_nothing(open_figure):
    page = open_figure()
    before = page.evaluate(READS)
    for change, says in BAD:
        assert change[0] in GOOD
        page.evaluate("(hash) => { location.hash = hash; }", f"explorer:{GOOD.replace(*change)}")
        page.wait_for_function("(says) => document.querySelector('.rl-status').textContent"
                               ".startsWith('The setting in the address was not taken: ' + says)",
                               arg=says, timeout=10_000)
        assert page.evaluate(READS) == before and page.locator("#bad").count() == 0


def test_a_bad_address_on_load_still_asks(open_figure):
    page = open_figure()
    page.evaluate("(hash) => { location.hash = hash; }", "explorer:op=Foo")
    page.reload()
    assert page.inner_text(".rl-status").startswith("The setting in the address was not taken: op:")
    page.click("text=Skip")
    assert page.locator(".rl-reads").count() == 1
    page.evaluate("(hash) => { location.hash = hash; }", "some-heading")  # another's: left alone
    page.reload()
    assert page.inner_text(".rl-status") == "" and page.get_by_text("Skip").count() == 1
    page.evaluate("(hash) => { location.hash = hash; }", f"explorer:{GOOD}")
    page.wait_for_selector(".rl-reads")
    assert page.input_value("input[aria-label='M, exactly']") == "64"


def test_link_and_call_are_copied(page_of):  # noqa: F811
    page = page_of(figures.explorer(ask=False)._repr_html_(),
                   permissions=["clipboard-read", "clipboard-write"]).page
    for name, says, want in (("Copy as Python", "The call is copied.", page.text_content("pre")),
                             ("Copy the link", "The link is copied.", None)):
        page.get_by_text(name, exact=True).click()
        page.wait_for_function(
            "(says) => document.querySelector('.rl-status').textContent === says", arg=says)
        got = page.evaluate("navigator.clipboard.readText()")
        assert got == want if want else "#explorer:op=MLP&B=2048&D=1024&F=4096&chip=trn2" in got
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_text("Copy as Python", exact=True).click()
    page.wait_for_function(
        "document.querySelector('.rl-status').textContent.includes('copy it from there')")
    assert page.evaluate("getSelection().toString().trim()") == page.text_content("pre").strip()


# --- what is compared, what does not go together -------------------------------------------------


def test_pinned_and_now_stand_side_by_side(open_figure):
    page = open_figure()
    then = Setting("Matmul", dict(M=2048, K=1024, N=2048), "trn2", "core", "bf16")
    now = Setting("Matmul", dict(M=2048, K=1024, N=2048), "trn1", "core", "fp32", order="mnk",
                  at=(3, 3, 2), tiles=dict(m=128, k=128, n=512), DMA=0)
    set_to(page, then)
    page.get_by_text("Pin this to compare").click()
    set_to(page, now)
    rows = page.evaluate(TABLE, "Pinned, and now")

    def row(name, get, unit):
        one, other = get(then), get(now)
        return [name, units.show(one, unit), units.show(other, unit),
                f"{units.significant(other / one)} x"]

    assert rows == [
        row("W", lambda s: s.count.flops, "FLOP"), row("Q", lambda s: s.count.hbm_bytes, "B"),
        row("I", lambda s: s.count.intensity, "FLOP/B"),
        ["takes longest", "computing", "DMA engines", ""],
        row("T_best", lambda s: s.entitled.t_best, "s"),
        row("T_worst", lambda s: s.entitled.t_worst, "s"),
        row("rate", lambda s: s.entitled.rate, "FLOP/s")]
    page.get_by_text("Unpin").click()
    assert page.evaluate(TABLE, "Pinned, and now") is None
    assert page.locator(".rl-pinned").count() == 0


def test_a_ceiling_that_lies_above_is_left_out(open_figure):
    page = open_figure()
    s = Setting("MLP", dict(B=2048, D=1024, F=4096), "trn2", "core", "bf16", under=("throttled",))
    box = page.get_by_label('below the ceiling "throttled"')
    box.check()
    assert page.evaluate(READS) == s.reads
    lower = peak_figures("trn2", "core", "bf16")
    s.P, s.under = lower.index(min(x for x in lower if isinstance(x, float))), ()
    pick(page, "P figure", s.P)
    assert not box.is_checked() and page.evaluate(READS) == s.reads
    box.click()
    assert "does not lie below this figure of P" in page.inner_text(".rl-status")
    assert page.evaluate(READS) == s.reads and not box.is_checked()


def test_a_chip_without_the_dtype_or_the_engine_gets_what_it_has(open_figure):
    page = open_figure(figures.explorer("trn1", "Softmax"))
    assert page.get_by_label("Also an engine's roof").input_value() == "vector"
    pick(page, "Scope", "device")
    pick(page, "Dtype", "int8")
    pick(page, "DMA engines' roof", 1)
    pick(page, "Chip", "desktop")
    s = Setting("Softmax", dict(rows=2048, D=4096), "desktop", "device", "fp32")
    assert page.evaluate(READS) == s.reads
    assert not page.get_by_label("Also an engine's roof").is_visible()
    assert not page.get_by_label("DMA engines' roof").is_visible()
    pick(page, "Chip", "trn2")
    assert "The Tensor Engine does not run this op" in page.inner_text(".rl-status")


def test_what_cannot_be_a_size_is_said_and_changes_nothing(open_figure):
    page = open_figure()
    before, text = page.evaluate(READS), page.get_by_label("D, exactly")
    for said in ("", "abc", "0", "1.5", "-4", "1e4", "4,09", "300000", "2^19", "9" * 30):
        text.fill(said)
        text.press("Enter")
        assert page.inner_text(".rl-status").startswith(
            "D: expected a whole number from 1 to 262144, or a power such as 2^4, got \"")
        assert text.get_attribute("aria-invalid") == "true"
        assert page.evaluate(READS) == before
    for said, size in (("2,048", "2048"), ("2^10", "1024"), (" 77 ", "77")):
        text.fill(said)
        text.press("Enter")
        assert text.get_attribute("aria-invalid") is None and text.input_value() == size


# --- everyone ------------------------------------------------------------------------------------


def test_without_script_it_says_what_would_be_there(page_of):  # noqa: F811
    page = page_of(figures.explorer()._repr_html_(), java_script_enabled=False).page
    assert page.inner_text(".rl-live p >> nth=0").startswith("Where scripts run, an explorer of ")
    assert "What takes longest?" in page.inner_text(".rl-live")
    assert page.locator(".rl-tables table").count() == 3
    assert page.locator(".rl-tables table").last.is_visible()
    assert page.locator("input, button, select").count() == 0


def test_printed_it_has_the_plot_and_the_numbers_and_no_controls(open_figure):
    page = open_figure()
    page.emulate_media(media="print")
    assert page.locator(".rl-plot svg").is_visible() and page.locator(".rl-reads").is_visible()
    assert "on Trainium2" in page.inner_text(".rl-setting")
    for tag in ("select", "input", "button"):
        assert not any(one.is_visible() for one in page.locator(f".rl-live {tag}").all())


def test_several_on_a_page_and_one_address(page_of):  # noqa: F811
    html = figures.explorer(ask=False)._repr_html_()
    page = page_of(html + figures.roofline()._repr_html_() + html).page
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert sorted(ids) == sorted(set(ids))
    first, second = (page.locator(".rl-live[data-module=explorer]").nth(i) for i in (0, 1))
    write_size(second, "B", 99)
    write_size(first, "B", 98)
    page.wait_for_function("location.hash.includes('B=98')")
    write_size(second, "B", 97)
    page.wait_for_timeout(300)
    assert "B=98" in page.evaluate("location.hash")
    assert second.get_by_label("B, exactly").input_value() == "97"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1000])
def test_accessible_and_legible(dark, width, page_of):  # noqa: F811
    page = page_of(figures.explorer()._repr_html_(), dark=dark, reduced_motion="reduce",
                   viewport={"width": width, "height": 700}).page
    assert violations(page) == [] and not sideways(page)
    page.click("text=Skip")
    page.get_by_text("Pin this to compare").click()
    set_to(page, Setting("Linear", dict(B=64, D=4096, F=4096), "trn2", "core", "bf16",
                         order="bfd", at=(1, 3, 2), tiles=dict(b=128, d=128, f=512), DMA=1))
    page.get_by_label("b, exactly", exact=True).fill("none")
    page.get_by_label("b, exactly", exact=True).press("Enter")
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert violations(page) == []
    assert not sideways(page)
    small = page.evaluate("""[...document.querySelectorAll(
      ".rl-live :is(button, select, .rl-sizes input, .rl-check)")].filter((e) => e.offsetParent
        && e.getBoundingClientRect().height < 44).map((e) => e.outerHTML.slice(0, 90))""")
    assert small == []
    assert page.evaluate("""Math.min(...[...document.querySelectorAll(".rl-plot text")].map(
      (t) => parseFloat(getComputedStyle(t).fontSize)
        * Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b)))""") >= 11.9
    label = page.get_attribute(".rl-plot svg", "aria-label")
    assert label.startswith("Roofline plot: linear layer") and "entitled to " in label


def apart(one, other):
    """Whether a line parallel to a side parts two turned boxes."""
    for corners in (one, other):
        for (x, y), (X, Y) in pairwise(corners[:3]):
            sides = [[(X - x) * px + (Y - y) * py for px, py in of] for of in (one, other)]
            if max(sides[0]) <= min(sides[1]) or max(sides[1]) <= min(sides[0]):
                return True
    return False


@pytest.mark.parametrize("width", [320, 390, 900])
def test_labels_keep_apart(width, open_figure):
    """No two labels of the plot overlap or leave it."""
    page, draw = open_figure(viewport={"width": width, "height": 700}), random.Random(width)
    for i in range(25):
        s = drawn(draw)
        set_to(page, s)
        if i == 12:
            page.get_by_text("Pin this to compare").click()
        boxes = page.evaluate("""[...document.querySelectorAll(".rl-plot text")].map((text) => {
          const { x, y, width, height } = text.getBBox(), to = text.getScreenCTM();
          return [text.textContent, [[x, y + 3], [x + width, y + 3], [x + width, y + height - 3],
            [x, y + height - 3]].map(([x, y]) => [to.a * x + to.c * y + to.e,
              to.b * x + to.d * y + to.f])]; })""")
        for j, (one, corners) in enumerate(boxes):
            assert all(-0.5 <= x <= width + 0.5 for x, _ in corners), (s, one)
            for other, others in boxes[j + 1:]:
                assert apart(corners, others), (s, one, other)


def test_data_is_json_a_page_can_hold():
    data = json.loads(to_json(dict(figures.explorer().data)))
    assert data["order"]["ops"] == list(OPS)


def test_the_inlined_script_ends_only_at_its_end():
    text = script("explorer", "x")
    assert text.count("</") == 1 and text.endswith("</script>\n") and "<!--" not in text
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    assert not re.search(r"fetch\(|import\(|innerHTML|https?://(?!www\.w3\.org/2000/svg)", text)
