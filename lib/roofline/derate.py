"""Why a kernel falls short of a spec roof: one rule a cause, each with its source.

Question  which share of the peak is left for this tile, this transfer, this first burst?
Answer    matmul, elementwise, dma, throttle, transposes: a rate and the rules it is made of
Assumes   many equal instructions back to back, operands on chip; one cause at a time, so
          shares multiply
Ignores   waits between engines, bank conflicts, instruction fetch, row and column tiling (small
          matmuls side by side in the array)
"""

import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real
from typing import NamedTuple

from . import machine, units
from .machine import Machine, Spec
from .table import aligned

# Where a figure is looked up when a core's own documents do not give it.
_OLDER = {"trn1": ("trn1",), "inf2": ("inf2",), "trn2": ("trn2", "trn1"),
          "trn3": ("trn3", "trn2", "trn1")}
_V2 = ("trn1", "inf2")
_16_BIT = ("bf16", "fp16")
_DTYPES = ("bf16", "fp16", "fp32", "tf32", "fp8", "cfp8")
# Element-wise instructions: input tiles, and the engines that have it.
_OPS = {
    "tensor_copy": (1, ("vector", "scalar", "gpsimd")),
    "tensor_scalar": (1, ("vector", "scalar", "gpsimd")),
    "activation": (1, ("scalar",)),
    "tensor_reduce": (1, ("vector",)),
    "tensor_tensor": (2, ("vector", "gpsimd")),
    "scalar_tensor_tensor": (2, ("vector",)),
}
_COPIES = ("tensor_copy", "tensor_scalar")


class DerateError(ValueError):
    """A tile, a transfer or a chip that no rule is about."""


class Rule(NamedTuple):
    """One cause, and what it leaves of the rate.

    share   a Fraction in (0, 1]; a dtype that runs faster than bf16 is the one above 1
    why     the formula, with numbers
    spec    the machine's figures that went in, as a tuple of Specs
    kind    documented; derived: arithmetic on documented figures; assumed: a figure of another
            core, or a reading the documents leave open. `why` or `note` says which
    """

    name: str
    share: Fraction
    why: str
    spec: tuple[Spec, ...]
    kind: str

    @property
    def source(self) -> str:
        """Keys and places of its figures, each once."""
        return "; ".join(dict.fromkeys(spec.source for spec in self.spec))

    @property
    def note(self) -> str:
        """What its figures were documented for, where that is another core."""
        return "; ".join(dict.fromkeys(s.holds for s in self.spec if s.kind == "assumed"))

    @property
    def text(self) -> str:
        """The share as a fraction, where it is short, and in percent."""
        percent = _percent(float(self.share))
        return f"{self.share} = {percent}" if len(str(self.share)) <= 7 else percent

    def __repr__(self) -> str:
        about = "; ".join(filter(None, (self.source, self.note)))
        return f"{self.name}: {self.text} ({self.why}; {self.kind}" + (
            f": {about})" if about else ")")


def _core(core: Machine | str) -> Machine:
    """The core, by name or as a Machine."""
    found = machine.get(core) if isinstance(core, str) else core
    if not isinstance(found, Machine):
        raise DerateError(f"derate: got {found!r}; expected a core, by name or as a Machine. Use "
                          f"one of {', '.join(_OLDER)}")
    if found.scope != "core" or found.key not in _OLDER:
        raise DerateError(f"derate: got {found.name} (key {found.key!r}, scope {found.scope}); the "
                          f"rules are about one core of {', '.join(_OLDER)}. Use machine.trn2, or "
                          ".at('core')")
    return found


def _find(core: Machine, name: str) -> Spec | None:
    """The core's own figure; else that of an older core, as an assumption that says so."""
    for key in _OLDER[core.key]:
        older = machine.get(key)
        spec = older.facts.get(name)
        if spec and key == core.key:
            return core.facts.get(name)
        if spec:
            whose = older.name.rpartition(" ")[2]
            holds = "; ".join(filter(None, (
                f"documented for {whose}, not restated for this core: check it in your profile",
                spec.holds)))
            return replace(spec, kind="assumed", holds=holds, rivals=())
    return None


def _fact(core: Machine, name: str) -> Spec:
    spec = _find(core, name)
    if spec is None:
        raise DerateError(f"{core.key}: no document gives {name} for this core or an older one")
    return spec


def _number(spec: Spec) -> Fraction:
    return Fraction(str(spec.value))  # 0.9 is 9/10


def _whole(what: str, name: str, got: int, limit: int, fact: str, next_step: str) -> int:
    """`got` as an int from 1 to the limit."""
    number = isinstance(got, Real) and not isinstance(got, bool) and math.isfinite(got)
    if not number or got != int(got) or got < 1:
        raise DerateError(f"{what}: {name} = {got!r}; expected a whole number >= 1")
    if got > limit:
        raise DerateError(f"{what}: {name} = {got}; at most {limit} ({fact}). {next_step}")
    return int(got)


def _kept(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules that take (or give) something."""
    return tuple(rule for rule in rules if rule.share != 1)


def _plain(cycles: Fraction) -> float:
    """An int where it is one; quarters of a cycle are exact floats too."""
    return int(cycles) if cycles.denominator == 1 else float(cycles)


def _product(rules: Iterable[Rule]) -> Fraction:
    return math.prod((rule.share for rule in rules), start=Fraction(1))


def _shown(title: str, rules: tuple[Rule, ...], rows: Iterable[tuple[str, ...]],
           notes: Iterable[str] = ()) -> str:
    """The rules as a table, what they come to, and where each figure is from."""
    table = [("rule", "share", "kind", "why"),
             *((r.name, r.text, r.kind, r.why) for r in rules)] if rules else []
    about = [f"{r.name}: {'; '.join(filter(None, (r.source, r.note)))}" for r in rules if r.spec]
    lines = [title, *(aligned(table, indent="  ") if table else ["  no rule takes anything"]), "",
             *aligned(list(rows), indent="  "), *([""] if about or notes else [])]
    return "\n".join([*lines, *(_wrapped(text, "  ", "    ") for text in (*about, *notes))])


def _wrapped(text: str, first: str, rest: str) -> str:
    return textwrap.fill(text, 88, initial_indent=first, subsequent_indent=rest,
                         break_on_hyphens=False)


def _text(spec: Spec) -> str:
    return f"{spec.value} cycles" if spec.unit == "cycle" else spec.text


def _percent(share: float) -> str:
    return f"{units.significant(100 * share)} %"


# --- Tensor Engine ------------------------------------------------------------------------------

@dataclass(frozen=True, repr=False)
class Matmul:
    """One shape of nc_matmul, back to back: interval, rate, and why it is not the peak.

    mm_cycles     MultiplyMoving: Tensor Engine cycles
    load_cycles   LoadStationary
    interval      cycles between two starts
    seconds       of one interval
    rate          FLOP/s
    share         rate / P of its own dtype
    of_bf16       rate / P of bf16, the product of the rules' shares
    """

    core: Machine
    K: int
    M: int
    N: int
    dtype: str
    load: str
    mm_cycles: float
    load_cycles: float
    interval: float
    rules: tuple[Rule, ...]

    @property
    def flops(self) -> int:
        """2 K M N: FLOPs of one instruction."""
        return 2 * self.K * self.M * self.N

    @property
    def of_bf16(self) -> float:
        return float(_product(self.rules))

    @property
    def share(self) -> float:
        return float(_product(rule for rule in self.rules if rule.name != "dtype"))

    @property
    def seconds(self) -> float:
        return self.interval / self.core.facts["tensor_clock"].value

    @property
    def rate(self) -> float:
        return float(_product(self.rules) * Fraction(self.core.peak("bf16")))

    def __repr__(self) -> str:
        what = {"hidden": "max(MM, load)", "shown": "MM + load", "kept": "MM; the same tile stays"}
        return _shown(
            f"matmul K = {self.K}, M = {self.M}, N = {self.N}, {self.dtype}, {self.core.name}",
            self.rules,
            [("MM", f"{self.mm_cycles} cycles", "MultiplyMoving"),
             ("load", f"{self.load_cycles} cycles", "LoadStationary" + (
                 f"; {self.dtype} assumed to load as fast as bf16"
                 if any(r.name == "dtype" and r.share < 1 for r in self.rules) else "")),
             ("interval", f"{self.interval} cycles", what[self.load]),
             ("time", units.show(self.seconds, "s"), "of one interval"),
             ("rate", units.show(self.rate, "FLOP/s"),
              f"{_percent(self.share)} of P({self.dtype})" + (
                  f", {_percent(self.of_bf16)} of P(bf16)" if self.dtype != "bf16" else ""))])


def matmul(core: Machine | str, K: int = 128, M: int = 128, N: int = 512, dtype: str = "bf16",
           load: str = "hidden") -> Matmul:
    """Interval and rate of one nc_matmul of these tile sizes, many in a row.

    K, M, N   contraction (rows of the array), stationary free size (columns), moving free size
    dtype     one with a peak; "fp8" is double row, K up to 256; mxfp8 and mxfp4 K up to 512
    load      how LoadStationary meets MultiplyMoving: "hidden" (in the background,
              max(MM, load)), "shown" (before it, MM + load), "kept" (no new tile, MM)

    >>> matmul("trn1", N=32, load="kept").interval, matmul("trn1", K=64).share
    (64, 0.5)

    MM is max(N, 64) cycles; in fp32 four times that, as an earlier NKI reference has it. load is
    M / 4 cycles, the "up to 4x" taken in full, so a hidden load never binds; that fp32 loads as
    fast is assumed. Raises DerateError for a size over its limit or a machine with a peak of its
    own, MachineError for a dtype without a peak. Source: trn1-arch, Tensor Engine, Cost Model.
    """
    core = _core(core)
    what = f"{core.key}, matmul in {dtype}"
    core.peak(dtype)
    shipped = machine.get(core.key)
    if any(core.peaks[d].value != shipped.peak(d) for d in {dtype, "bf16"}):
        raise DerateError(f"{what}: {core.name} has a peak of its own; cycles at the chip's clock "
                          f"would not give it. Use machine.{core.key}")
    if dtype.startswith("sparse"):
        raise DerateError(f"{what}: no document gives its instruction. The peak is all that is "
                          "known; use a dense dtype")
    if load not in ("hidden", "shown", "kept"):
        raise DerateError(f"{what}: load = {load!r}; one of hidden, shown, kept")
    speed = Fraction(core.peak(dtype)) / Fraction(core.peak("bf16"))
    rows, columns = _fact(core, "tensor_array_rows"), _fact(core, "tensor_array_columns")
    deep = _find(core, f"max_contraction.{dtype}") or rows
    packed = int(speed) if speed > 1 else 1  # values a row holds of one column
    K_max = int(rows.value) * packed
    K = _whole(what, "K", K, K_max, f"max_contraction: {K_max // packed} rows"
               + f" x {packed} values each" * (packed > 1),
               f"Split K into tiles of at most {K_max} that add up in PSUM")
    if K % packed:
        raise DerateError(f"{what}: K = {K}; a row holds {packed} values, so K is a multiple of "
                          f"{packed}. Pad K to {-(-K // packed) * packed} with zeros")
    M_max, N_max = _fact(core, "gemm_stationary_fmax"), _fact(core, "gemm_moving_fmax")
    M = _whole(what, "M", M, int(M_max.value), "gemm_stationary_fmax", "Split M into tiles")
    N = _whole(what, "N", N, int(N_max.value), "gemm_moving_fmax", "Split N into tiles")

    floor = _fact(core, "matmul_min_initiation_interval")
    fast = _fact(core, "fast_load_stationary_speedup")
    passes = 1 / min(speed, Fraction(1))  # fp32 takes 4
    moving = max(N, int(floor.value))
    mm = passes * moving
    ls = Fraction(M) / _number(fast)
    interval = {"hidden": max(mm, ls), "shown": mm + ls, "kept": mm}[load]
    peak = core.peaks[dtype]
    guess = dtype == "fp8" and core.key == "trn3"
    v2 = core.key in _V2  # whose guide prints fp32's four passes; later ones print rounded rates
    rules = (
        Rule("dtype", speed, f"P({dtype}) / P(bf16)" + (
            "; the API names a double mode here, that it doubles is assumed" if guess else ""),
            (peak,), "assumed" if guess else "derived" if dtype == "fp32" and not v2
            else "documented"),
        Rule("rows", Fraction(K, K_max), f"K / {K_max} = {K} / {K_max}",
             (deep,), "assumed" if deep.kind == "assumed" else "derived"),
        Rule("columns", Fraction(M, int(columns.value)), f"M / {columns.text} = {M} / "
             f"{columns.text}", (columns,), "derived"),
        Rule("moving size", Fraction(N, moving),
             f"N / max(N, {int(floor.value)}) = {N} / {moving}" + (
                 f"; {passes} times either in {dtype}" if passes > 1 else ""),
             (floor,), floor.kind),
        Rule("stationary load", mm / interval,
             f"MM / {'(MM + load)' if load == 'shown' else 'load'} = {_plain(mm)} / "
             f"{_plain(interval)}" + (f"; {dtype} taken to load as fast" if passes > 1 else ""),
             (fast,), "assumed" if passes > 1 else fast.kind),
    )
    return Matmul(core, K, M, N, dtype, load, _plain(mm), _plain(ls), _plain(interval),
                  _kept(rules))


# --- Vector, Scalar and GpSimd Engine -----------------------------------------------------------

@dataclass(frozen=True, repr=False)
class Elementwise:
    """One element-wise instruction: cycles, element rate, and why it is not the table's.

    cycles    of the engine; seconds the same at its clock
    rate      elements of the output a second
    peak      what the engine table's width amounts to, in element/s
    share     rate / peak, the product of the rules' shares
    """

    core: Machine
    engine: str
    op: str
    N: int
    partitions: int
    dtype: str
    cycles: int
    clock: Spec
    peak: Spec
    rules: tuple[Rule, ...]
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        return self.cycles / self.clock.value

    @property
    def share(self) -> float:
        return float(_product(self.rules))

    @property
    def rate(self) -> float:
        return float(_product(self.rules) * Fraction(self.peak.value))

    def __repr__(self) -> str:
        return _shown(
            f"{self.op}, {self.engine} engine, N = {self.N}, {self.partitions} partitions, "
            f"{self.dtype}, {self.core.name}", self.rules,
            [("cycles", f"{self.cycles}", f"at {self.clock.text}"),
             ("time", units.show(self.seconds, "s"), ""),
             ("rate", units.show(self.rate, "element/s"),
              f"{_percent(self.share)} of {self.peak.text}")], self.notes)


def elementwise(core: Machine | str, engine: str = "vector", N: int = 512, partitions: int = 128,
                dtype: str = "bf16", op: str = "tensor_copy", psum: bool = False,
                contiguous: bool = True, dependent: bool = False) -> Elementwise:
    """Cycles and element rate of one instruction of the Vector, Scalar or GpSimd Engine.

    N            elements of a partition
    dtype        of every input and output
    op           tensor_copy, tensor_scalar, activation, tensor_reduce; with two input tiles
                 tensor_tensor, scalar_tensor_tensor
    psum         one of input and output (of tensor_tensor: an input) is in PSUM
    contiguous   elements of the innermost free dimension are neighbours
    dependent    a short instruction (N well below 128) or one that waits for the one before

    A lane takes an element a cycle, two cycles with two inputs; faster only where a document
    names the instruction. Raises DerateError for an unknown engine or op, or a size over its
    limit. Source: trn1-arch, Vector Engine, Cost Model; trn2-arch, Vector Engine Performance Mode.
    """
    core = _core(core)
    what = f"{core.key}, {engine} engine, {op}"
    if op not in _OPS:
        raise DerateError(f"{what}: unknown op; one of {', '.join(_OPS)}")
    inputs, engines = _OPS[op]
    if engine not in engines:
        raise DerateError(f"{what}: this engine does not have it. Use {' or '.join(engines)}")
    if engine == "scalar" and op in _COPIES and core.key in _V2:
        raise DerateError(f"{what}: not on the Scalar Engine of NeuronCore-v2. Use activation")
    if dtype not in _DTYPES:
        raise DerateError(f"{what}: unknown dtype {dtype!r}; one of {', '.join(_DTYPES)}")
    if psum and engine == "gpsimd":
        raise DerateError(f"{what}: GpSimd Engine cannot access PSUM. Use vector or scalar")
    lanes = _fact(core, "pmax")
    room = _fact(core, "engine_fmax.psum" if psum else "engine_fmax.sbuf")
    partitions = _whole(what, "partitions", partitions, int(lanes.value), "pmax",
                        "Use several instructions")
    N = _whole(what, "N", N, int(room.value), "engine_fmax", "Use several instructions")

    width = _width(core, engine, dtype)
    peak = _width(core, engine, dtype, "element_rate")
    v2_vector = engine == "vector" and core.key in _V2
    mode, words, spec = _mode(core, engine, op, dtype, psum, contiguous)
    streamed = math.ceil(Fraction(inputs * N, mode))
    waits = _fact(core, "vector_dependent_cycles")
    cycles = streamed + (int(waits.value) if dependent else 0)
    table = int(width.value)
    two = _fact(core, "vector_two_input_cycles")
    rules = (
        Rule("lanes", Fraction(partitions, int(lanes.value)),
             f"{partitions} of {lanes.text} partitions, at the cost of all" + (
                 "" if v2_vector else "; documented for NeuronCore-v2's Vector Engine"),
             (lanes,), "documented" if v2_vector else "assumed"),
        Rule("mode", Fraction(mode * int(lanes.value), table),
             f"{mode * int(lanes.value)} of {table} elements a cycle; {words}",
             (spec, width) if spec else (width,), spec.kind if spec else "assumed"),
        Rule("two inputs", Fraction(1, inputs), f"{_text(two)} an element before any mode" + (
            "; documented for the Vector Engine" if engine != "vector" else ""),
            (two,), "assumed" if engine != "vector" else two.kind),
        Rule("whole cycles", Fraction(inputs * N, mode * streamed),
             f"{inputs * N} elements at {mode} a cycle take {streamed} cycles", (width,),
             "derived"),
        Rule("dependent", Fraction(streamed, cycles),
             f"{streamed} / ({streamed} + {int(waits.value)})", (waits,),
             "assumed" if engine != "vector" else waits.kind),
    )
    notes = []
    if spec is None and table > int(lanes.value):
        notes.append(f"the engine table's {table} elements a cycle are an upper bound here")
    elif spec and table == mode * int(lanes.value):
        notes.append(f"{words}: {spec.source}; {spec.holds}")
    if (engine, op, core.key) == ("scalar", "tensor_scalar", "trn2"):
        notes.append("here the Scalar Engine's tensor_scalar multiplies, adds, or does both; no "
                     "other operators")
    if engine == "gpsimd":
        notes.append("an element a cycle and lane is assumed: the guide has no cost model for "
                     "this engine")
    if not contiguous:
        limit = _fact(core, "sbuf_stride_limit")
        notes.append(f"a stride above {limit.text} halves it again: not in this figure")
    if N < int(lanes.value) and not dependent:
        notes.append("the cost model is for N above 128; short instructions in a row: "
                     "dependent=True")
    return Elementwise(core, engine, op, N, partitions, dtype, cycles,
                       _fact(core, f"{engine}_clock"), peak, _kept(rules), tuple(notes))


def _width(core: Machine, engine: str, dtype: str, what: str = "width") -> Spec:
    """The engine table's row for this dtype."""
    kin = "bf16" if dtype in _16_BIT else dtype
    names = [f"{engine}_{what}{tail}" for tail in (f".{kin}", ".fp32", "")]
    return core.facts[next(name for name in names if name in core.facts)]


def _mode(core: Machine, engine: str, op: str, dtype: str, psum: bool,
          contiguous: bool) -> tuple[int, str, Spec | None]:
    """Elements a cycle and lane that a document names for this instruction; words; figure."""
    small = dtype in _16_BIT or (dtype == "fp8" and core.key == "trn3")  # as its table groups them
    name = ""
    if engine == "vector" and small and op in _COPIES and (contiguous or not psum):
        fast = contiguous and not psum
        name = "vector_speedup." + ("sbuf_contiguous" if fast else "psum_or_strided")
    elif engine == "vector" and small and op == "tensor_tensor" and not psum:
        name = "vector_speedup.tensor_tensor"
    elif engine == "scalar" and small and op in _COPIES:
        name = "scalar_speedup"
    spec = _find(core, name) if name else None
    if spec is None:
        return 1, "no mode is named for it", None
    if dtype == "fp8":
        spec = replace(spec, kind="assumed", holds="the mode names 16 bit; the engine table "
                       f"groups fp8 with it; {spec.holds}")
    if engine == "vector" and name != "vector_speedup.sbuf_contiguous":
        spec = replace(spec, kind="assumed")  # the speed-up is documented, over which cycle is not
        return int(spec.value), f"{spec.text}x mode, taken as elements a cycle", spec
    return int(spec.value), f"{spec.text}x mode", spec


# --- DMA ----------------------------------------------------------------------------------------

@dataclass(frozen=True, repr=False)
class Dma:
    """One transfer between HBM and SBUF: engines it uses, rate streamed and alone.

    engines         of dma_engines, that have rows to move
    rate            B/s when such transfers follow one another; an upper bound below the size
                    that saturates
    seconds         bytes / rate
    share           rate / bandwidth of all engines, the product of the rules' shares
    alone_seconds   fixed latency + seconds: nothing before it, nothing after
    alone_rate      B/s of a transfer alone
    size            what the guide says of so many bytes in a partition; it gives no formula
    """

    core: Machine
    bytes_per_partition: int
    partitions: int
    engines: int
    latency: Spec
    size: str
    rules: tuple[Rule, ...]

    @property
    def bytes(self) -> int:
        return self.bytes_per_partition * self.partitions

    @property
    def share(self) -> float:
        return float(_product(self.rules))

    @property
    def rate(self) -> float:
        return float(_product(self.rules) * Fraction(self.core.bw("DMA")))

    @property
    def seconds(self) -> float:
        return self.bytes / self.rate

    @property
    def alone_seconds(self) -> float:
        return self.latency.value + self.seconds

    @property
    def alone_rate(self) -> float:
        return self.bytes / self.alone_seconds

    def __repr__(self) -> str:
        engines = int(_fact(self.core, "dma_engines").value)
        enough = _fact(self.core, "dma_saturating_bytes").value
        most = "at most " * (self.bytes_per_partition < enough)
        return _shown(
            f"DMA of {self.partitions} partitions x {units.mebi(self.bytes_per_partition)}, "
            f"{self.core.name}", self.rules,
            [("engines", f"{self.engines} of {engines}", ""),
             ("streamed", units.show(self.seconds, "s"), most + units.show(self.rate, "B/s")),
             ("alone", units.show(self.alone_seconds, "s"),
              f"{most}{units.show(self.alone_rate, 'B/s')}; about {self.latency.text} of it "
              "waiting")],
            [f"{units.mebi(self.bytes_per_partition)} a partition: {self.size}"])


def dma(core: Machine | str, bytes_per_partition: int, partitions: int = 128,
        transpose: str | None = None) -> Dma:
    """Engines, rate and time of one transfer of contiguous bytes in each partition.

    bytes_per_partition   B, contiguous
    transpose             None, or what a DMA transpose reads: "hbm" or "sbuf"

    What a small size costs is in words (`size`): the guide says that the rate falls, and gives
    no formula. Raises DerateError for a size < 1, partitions over 128, or a transpose where the
    core has none. Source: dma-intro, Performance Considerations; dma-guide.
    """
    core = _core(core)
    what = f"{core.key}, DMA"
    lanes, each = _fact(core, "pmax"), _fact(core, "dma_partitions_per_engine")
    all_engines, latency = _fact(core, "dma_engines"), _fact(core, "dma_fixed_latency")
    room = _fact(core, "sbuf_partition_bytes")
    bytes_per_partition = _whole(what, "bytes_per_partition", bytes_per_partition,
                                 int(room.value), "sbuf_partition_bytes", "Use several transfers")
    partitions = _whole(what, "partitions", partitions, int(lanes.value), "pmax",
                        "Use several transfers")
    rows = int(each.value)
    engines = math.ceil(Fraction(partitions, rows))
    busiest = min(rows, partitions)
    rules = [
        Rule("engines", Fraction(engines, int(all_engines.value)),
             f"ceil({partitions} / {rows}) = {engines} of {all_engines.text} engines",
             (each, all_engines), "documented"),
        Rule("last engine", Fraction(partitions, engines * busiest),
             f"{partitions} rows on {engines} engines that could move {engines * busiest} in the "
             "time", (each,), "derived")]
    if transpose is not None:
        spec = _find(core, f"dma_transpose_efficiency.{transpose}")
        if spec is None:
            raise DerateError(f"{what}: transpose = {transpose!r}; documented from 'hbm' and "
                              "'sbuf', on trn2 and later. Transpose on the Tensor Engine instead")
        rules.append(Rule("DMA transpose", _number(spec), "up to this share of a copy",
                          (spec,), spec.kind))
    return Dma(core, bytes_per_partition, partitions, engines, latency,
               _size(core, bytes_per_partition), _kept(rules))


def _size(core: Machine, size: int) -> str:
    """The guide's words for a size, in our own."""
    poor, least, enough = (_fact(core, f"dma_{name}_bytes")
                           for name in ("poor", "minimum", "saturating"))
    if size < poor.value:
        said = f"below {poor.text}: a small fraction of peak"
    elif size < least.value:
        said = f"{poor.text} to {least.text}: rising, below peak"
    elif size < enough.value:
        said = f"{least.text} or more: near peak"
    else:
        return f"{enough.text} or more: saturates the engines"
    return said + "; no formula is documented, so measure it"


# --- the Tensor Engine's first microseconds, and what it does besides ---------------------------

def throttle(core: Machine | str, seconds: float) -> Rule | None:
    """Share of the Tensor Engine's peak over the first `seconds` after it idled.

    None on NeuronCore-v2, of which no document says so. Later cores start at about 50 % and ramp
    to full over about 3 us; taken as a step, half the rate until then. A straight ramp would lose
    half as much. The limit re-engages when utilization drops below 50 % over any window of about
    3 us; it is charged once here. Raises DerateError unless seconds > 0.
    Source: explorer-glossary, dI/dt throttling.

    >>> throttle("trn2", 6e-6).share, throttle("trn1", 6e-6)
    (Fraction(3, 4), None)
    """
    core = _core(core)
    if not isinstance(seconds, Real) or not 0 < seconds < math.inf:
        raise DerateError(f"{core.key}, throttle: {seconds!r} s; expected a time > 0 s")
    start, limit = _find(core, "throttle_start"), _find(core, "throttle_time")
    if start is None or limit is None:
        return None
    t, ramp = Fraction(str(seconds)), _number(limit)
    slow = min(t, ramp)
    share = (_number(start) * slow + t - slow) / t
    return Rule("throttle", share,
                f"({start.text} x {units.show(float(slow), 's')} + "
                f"{units.show(float(t - slow), 's')}) / {units.show(float(t), 's')}; "
                "a step is assumed, the document says it ramps; it re-engages when utilization "
                f"drops below 50 % over any ~{limit.text} window, charged once here",
                (start, limit), "assumed")


def transposes(useful_seconds: float, transpose_seconds: float) -> Rule:
    """Share of the Tensor Engine's busy time that multiplies: useful / (useful + transposing).

    Raises DerateError for a negative time or no useful one.
    """
    for name, got in (("useful", useful_seconds), ("transpose", transpose_seconds)):
        if not isinstance(got, Real) or not (0 <= got < math.inf and (got or name == "transpose")):
            raise DerateError(f"transposes: {name}_seconds = {got!r}; expected a time "
                              f"{'>' if name == 'useful' else '>='} 0 s")
    useful, other = Fraction(str(useful_seconds)), Fraction(str(transpose_seconds))
    return Rule("transposes", useful / (useful + other),
                f"{units.show(useful_seconds, 's')} / ({units.show(useful_seconds, 's')} + "
                f"{units.show(transpose_seconds, 's')})", (), "derived")


# --- all rules of a chip ------------------------------------------------------------------------

class Known(NamedTuple):
    """One rule that holds on a chip: name, what it says, its figures, kind."""

    name: str
    says: str
    spec: tuple[Spec, ...]
    kind: str

    @property
    def source(self) -> str:
        """Keys and places of its figures, each once."""
        return "; ".join(dict.fromkeys(spec.source for spec in self.spec))


@dataclass(frozen=True, repr=False)
class Rules:
    """Every rule that holds on one chip; iterates over them."""

    core: Machine
    rows: tuple[Known, ...]

    def __iter__(self) -> Iterator[Known]:
        return iter(self.rows)

    def __repr__(self) -> str:
        cells = [cell for row in self.rows for cell in (
            (row.name, row.kind, row.says), ("", "", row.source))]
        lines = [f"derating rules, {self.core.name}", *aligned(cells, indent="  ")]
        others = sorted({s.holds.partition(";")[0] for row in self.rows for s in row.spec
                         if s.kind == "assumed"})
        return "\n".join([*lines, *(_wrapped(f"assumed: {text}", "  ", "    ")
                                    for text in others)])


# name, the figures ({0}, {1}: their texts), what it says
_RULES = (
    ("rows", ("tensor_array_rows",), "share K / {0}; row tiling is not counted"),
    ("rows, fp8", ("max_contraction.fp8",), "double row: K up to {0}, twice the rate"),
    ("rows, mxfp8", ("max_contraction.mxfp8",), "K up to {0}, four times the rate"),
    ("columns", ("tensor_array_columns",), "share M / {0}"),
    ("dtype", ("pe_rate.fp32",), "fp32 costs four bf16 matmuls"),
    ("moving size", ("matmul_min_initiation_interval",), "MM takes max(N, {0})"),
    ("stationary load", ("fast_load_stationary_speedup",),
     "M / {0} cycles at best; in the background max(MM, load), else MM + load"),
    ("transpose mode", ("transpose_mode_speedup.fp32",), "an fp32 transpose takes 1 / {0}"),
    ("throttle", ("throttle_start", "throttle_time"),
     "about {0} of peak when work begins, ramps to full over about {1}; re-engages when "
     "utilization drops below 50 % over any ~{1} window"),
    ("lanes", ("pmax",),
     "fewer partitions than {0} cost the same, on NeuronCore-v2's Vector Engine"),
    ("two inputs", ("vector_two_input_cycles",), "Vector: {0} an element with two inputs"),
    ("dependent", ("vector_dependent_cycles",), "Vector: about {0} more when short or waiting"),
    ("access", ("tensor_access_cycles",),
     "about {0} to start an access to SBUF or PSUM; often hidden"),
    ("stride", ("sbuf_stride_limit",), "innermost stride above {0}: a port runs at half"),
    ("Vector 4x", ("vector_speedup.sbuf_contiguous",),
     "copy, tensor_scalar: {0} elements a cycle and lane; 16 bit, SBUF, contiguous"),
    ("Vector 2x", ("vector_speedup.psum_or_strided",),
     "copy, tensor_scalar: {0}x NeuronCore-v2; strided in SBUF, or contiguous with one in PSUM"),
    ("Vector 2x, two inputs", ("vector_speedup.tensor_tensor",),
     "tensor_tensor: {0}x NeuronCore-v2; 16 bit, inputs in SBUF"),
    ("Scalar 2x", ("scalar_speedup",),
     "copy, tensor_scalar: {0} elements a cycle and lane; 16 bit"),
    ("DMA engines", ("dma_partitions_per_engine", "dma_engines"),
     "{0} partitions an engine: ceil(partitions / {0}) of {1} work"),
    ("DMA size", ("dma_poor_bytes", "dma_minimum_bytes", "dma_saturating_bytes"),
     "poor below {0}, near peak from {1}, saturated from {2}; no formula"),
    ("DMA latency", ("dma_fixed_latency",), "about {0} before a transfer alone"),
    ("transpose, HBM", ("dma_transpose_efficiency.hbm",), "DMA transpose: up to {0} of a copy"),
    ("transpose, SBUF", ("dma_transpose_efficiency.sbuf",), "DMA transpose: up to {0} of a copy"),
)
_DERIVED = ("rows", "columns")  # arithmetic on the array's sides: no page prints the share


def rules(core: Machine | str) -> Rules:
    """Every rule that holds on this chip, with figures, source and kind.

    A figure that this core's documents do not restate is an older core's, as `assumed`.
    """
    core = _core(core)
    rows = []
    for name, facts, says in _RULES:
        if facts == ("pe_rate.fp32",):
            found: list[Spec | None] = [core.peaks["fp32"]]
        else:
            found = [_find(core, fact) for fact in facts]
        specs = tuple(spec for spec in found if spec)
        if len(specs) < len(facts):
            continue
        kind = "derived" if name in _DERIVED or (
            name == "dtype" and core.key not in _V2) else "documented"
        if any(s.kind == "assumed" for s in specs) or (
                name == "lanes" and core.key not in _V2):
            kind = "assumed"
        rows.append(Known(name, says.format(*map(_text, specs)), specs, kind))
    return Rules(core, tuple(rows))
