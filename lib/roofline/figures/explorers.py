"""Any op on any chip: the numbers behind the roofline explorer.

Question  what do this op's shapes, dtype, mapping and fusion come to on that chip?
Answer    explorer(chip, op) -> Live: the page asks first, then every choice is open; its setting is
          in the address, and "As Python" is the call that gives the same numbers
Assumes   formulas as explorer_formulas takes them from the ops; one op at a time
Ignores   fixed costs; caches; a mixture of experts, whose bytes are no polynomial of its sizes
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from .. import derate, loopnest, units
from .. import machine as machine_module
from ..machine import Machine, MachineError, Spec
from ..ops import BYTES, Op
from .explorer_formulas import ENTRIES, Entry, catalogue
from .live import Live

CHIPS = tuple(key for key, m in machine_module.ALL.items()
              if "HBM" in m.bandwidths or key == "desktop")
DTYPES = [dtype for dtype in BYTES if dtype != "int32"]
SCOPES = {
    "core": "one core, with an even share of its chip's bandwidth",
    "lnc2": "two cores that share an HBM stack: P and BW double, so the ridge stays. Each keeps "
            "its own SBUF; what both of them load crosses twice, which one crossing a tensor "
            "leaves out",
    "device": "the whole device. The op is taken to be split over its cores with nothing loaded "
              "twice",
}
ENGINES = {"vector": "Vector Engine", "scalar": "Scalar Engine", "gpsimd": "GpSimd Engine"}
TILE = {"k": 128, "d": 128, "n": 512, "f": 512}  # others 128: the Tensor Engine's largest tile
# Shapes of one Tensor Engine instruction, and partitions of a transfer, that stay below the roof.
TILES: tuple[dict[str, Any], ...] = ({"K": 64}, {"M": 32}, {"N": 32}, {"load": "shown"})
PARTITIONS = (32,)


def explorer(chip: str = "trn2", op: str = "MLP", *, scope: str = "", dtype: str = "",
             chips: Sequence[str] = CHIPS, ask: bool = True, **sizes: int) -> Live:
    """Any op on any chip, under several roofs.

    chip, op   what is shown first: a key of machine.ALL, one of explorer_formulas.ENTRIES
    scope      "core", "lnc2" or "device"; the chip's smallest unless named
    dtype      of the arithmetic; the chip's first unless named
    chips      what to choose from
    ask        whether a guess comes first, which can be skipped
    sizes      the op's, by name: B=1, D=4096, F=4096; the others are the figure's own

    Raises ValueError for what it does not have, and a size out of its range.
    """
    machines = {(m.key, m.scope): m for key in dict.fromkeys([chip, *chips]) for m in _scopes(key)}
    if op not in ENTRIES:
        raise ValueError(f"explorer: op: got {op!r}; one of {', '.join(ENTRIES)}")
    entry = ENTRIES[op]
    for name, size in sizes.items():
        if name not in entry.sizes:
            raise ValueError(f"explorer: {op} has no size {name!r}; it has "
                             f"{', '.join(entry.sizes)}")
        _, least, most, _ = entry.sizes[name]
        if isinstance(size, bool) or not isinstance(size, int) or not least <= size <= most:
            raise ValueError(f"explorer: {name}: got {size!r}; expected a whole number from "
                             f"{least} to {most}")
    first = _first(machines, chip, scope)
    dtypes = [d for d in DTYPES if d in first.peaks]
    dtype = dtype or ("bf16" if "bf16" in dtypes else dtypes[0])
    if dtype not in dtypes:
        raise ValueError(f"explorer: dtype: got {dtype!r}; {first.name} has {', '.join(dtypes)}")
    shown = {name: sizes.get(name, size) for name, (*_, size) in entry.sizes.items()}

    figures = _Figures()
    data = {
        "machines": {f"{key} {at}": _machine(m, figures) for (key, at), m in machines.items()},
        "figures": figures.rows, "ops": catalogue(), "bytes": {d: BYTES[d] for d in DTYPES},
        "scopes": SCOPES, "engines": ENGINES, "tile": TILE, "ask": ask,
        # JSON objects keep no order.
        "order": {"machines": [f"{key} {at}" for key, at in machines], "ops": list(ENTRIES),
                  "dtypes": DTYPES, "engines": list(ENGINES)},
        "start": {"chip": first.key, "scope": first.scope, "dtype": dtype, "op": op,
                  "sizes": shown},
    }
    made = entry.make(dtype, shown)
    whole = made.unfused if hasattr(made, "unfused") else made
    return Live("explorer", data, "\n\n".join(_says(entry, whole, first, dtype, shown)), (
        (f"{_named(entry, shown, dtype)}: on each chip (derived)", _rows(machines, entry, shown)),
        ("What crosses, each operand once (derived)", _crossings(whole)),
        (f"The numbers of {first.name.partition(', ')[0]}", _numbers(_scopes(chip)))),
        "an explorer of rooflines")


def _scopes(key: str) -> list[Machine]:
    """A chip at each of its scopes, the smallest first."""
    if key not in machine_module.ALL:
        raise ValueError(f"explorer: chip: got {key!r}; one of {', '.join(machine_module.ALL)}")
    found = []
    for scope in SCOPES:
        try:
            found.append(machine_module.get(key, scope))
        except MachineError:  # a chip without this scope
            continue
    return found


def _first(machines: Mapping[tuple[str, str], Machine], chip: str, scope: str) -> Machine:
    scopes = [at for key, at in machines if key == chip]
    if scope and scope not in scopes:
        raise ValueError(f"explorer: scope: got {scope!r}; {chip} has {', '.join(scopes)}")
    return machines[chip, scope or scopes[0]]


# --- machines ------------------------------------------------------------------------------------


class _Figures:
    """Rows of figures, each once: value, text, kind, about, role, Python, whether it is a float.

    role     "used", "rival" or "lower"
    Python   how `using` names it: the number of a rival, or an expression
    """

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []

    def add(self, spec: Spec, role: str = "used", python: str = "") -> int:
        row = [spec.value, spec.text, spec.kind, "; ".join(filter(None, (spec.holds, spec.source))),
               role, python, isinstance(spec.value, float)]
        if row not in self.rows:
            self.rows.append(row)
        return self.rows.index(row)

    def of(self, spec: Spec, *more: tuple[Spec, str, str]) -> list[int]:
        """The figure that is used, its rivals, and others: spec, role, Python."""
        return [self.add(spec), *(self.add(rival, "rival", str(i))
                                  for i, rival in enumerate(spec.rivals)),
                *(self.add(*one) for one in more)]


def _machine(m: Machine, figures: _Figures) -> dict[str, Any]:
    neuron = m.scope == "core"
    dtypes = [d for d in DTYPES if d in m.peaks]
    lone = m.facts.get("lone_core_bandwidth")
    alone = [(s, "rival", f'machine.{m.key}.facts["lone_core_bandwidth"]' + f".rivals[{i - 1}]" * (
        i > 0)) for i, s in enumerate((lone, *lone.rivals) if lone else ())]
    levels = {m.slow_link: figures.of(m.bandwidths[m.slow_link], *alone)}
    if "DMA" in m.bandwidths:
        levels["DMA"] = figures.of(m.bandwidths["DMA"], *(_transfers(m) if neuron else ()))
    if "link" in m.bandwidths:
        levels["link"] = figures.of(m.bandwidths["link"])
    what, _, where = m.name.partition(", ")
    ceilings = list(dict.fromkeys(c.name for c in m.ceilings))
    found = {
        "chip": m.key, "scope": m.scope, "name": m.name, "what": what if where else m.name,
        "where": where or "one device", "slow": m.slow_link, "levels": levels,
        "peaks": {d: figures.of(m.peaks[d], *(_tiles(m, d) if neuron else ())) for d in dtypes},
        "engines": {engine: {d: [fact, figures.add(m.facts[fact])] for d in dtypes
                             if (fact := rate(m, engine, d))} for engine in ENGINES},
        "ceilings": ceilings, "under": _under(m, ceilings, figures),
    }
    if neuron:
        found["buffers"] = {name: figures.add(m.facts[f"{name.lower()}_bytes"])
                            for name in loopnest.buffers(m)}
    return found


def rate(m: Machine, engine: str, dtype: str) -> str:
    """The fact that is an engine's element rate for a dtype; "" where the machine has none."""
    kin = "bf16" if dtype in ("bf16", "fp16") else dtype  # as the engine tables group them
    return next((name for tail in (f".{kin}", ".fp32", "")
                 if (name := f"{engine}_element_rate{tail}") in m.facts), "")


def _tiles(m: Machine, dtype: str) -> list[tuple[Spec, str, str]]:
    """P below its roof, for some shapes of one instruction."""
    found = []
    for tile in TILES:
        got = derate.matmul(m, **tile, dtype=dtype)
        rules = [rule for rule in got.rules if rule.name != "dtype"]
        if rules:
            words = ("a stationary load that is not hidden" if "load" in tile else
                     "matmul tiles of " + ", ".join(f"{n} = {v}" for n, v in tile.items()))
            kind = "assumed" if any(rule.kind == "assumed" for rule in rules) else "derived"
            call = ", ".join([f'"{m.key}"', *(f"{n}={v!r}" for n, v in tile.items()),
                              f'dtype="{dtype}"'])
            found.append((Spec(got.rate, "FLOP/s", "; ".join(dict.fromkeys(
                rule.source for rule in rules)), kind, f"{words}: " + "; ".join(
                rule.why for rule in rules)), "lower", f"derate.matmul({call}).rate"))
    return found


def _transfers(m: Machine) -> list[tuple[Spec, str, str]]:
    found = []
    for partitions in PARTITIONS:
        got = derate.dma(m, 4096, partitions)
        found.append((Spec(got.rate, "B/s", "; ".join(rule.source for rule in got.rules), "derived",
                           f"transfers of {partitions} partitions: " + "; ".join(
                               rule.why for rule in got.rules)), "lower",
                      f'derate.dma("{m.key}", 4096, {partitions}).rate'))
    return found


def _under(m: Machine, names: Sequence[str], figures: _Figures) -> dict[str, dict[str, int]]:
    """What each choice of ceilings leaves, by the sum of 2^i: roof -> figure."""
    found = {}
    for some in (c for n in range(len(names)) for c in combinations(range(len(names)), n + 1)):
        chosen = [names[i] for i in some]
        try:
            low = m.under(*chosen)
        except MachineError:  # one is not below what the others leave
            continue
        roofs = {**{d: s for d, s in low.peaks.items() if d in DTYPES}, **low.bandwidths}
        before = {**m.peaks, **m.bandwidths}
        left = {roof: s for roof, s in roofs.items() if s.value != before[roof].value
                and roof in (*m.peaks, m.slow_link, "DMA")}
        for roof, s in left.items():  # the page puts a ceiling in the place of any figure
            for i in range(len(before[roof].rivals)):
                other = m.using(**{roof: i}).under(*chosen)
                if {**other.peaks, **other.bandwidths}[roof].value != s.value:
                    raise ValueError(f"explorer: {m.key}: {', '.join(chosen)} leave another {roof} "
                                     "of a rival; one figure for both would be wrong")
        found[str(sum(2**i for i in some))] = {roof: figures.add(s, "lower")
                                               for roof, s in left.items()}
    return found


# --- without script ------------------------------------------------------------------------------


def _named(entry: Entry, sizes: Mapping[str, int], dtype: str) -> str:
    return ", ".join([entry.label[:1].upper() + entry.label[1:],
                      *(f"{name} = {size}" for name, size in sizes.items()), dtype])


def _says(entry: Entry, op: Op, m: Machine, dtype: str, sizes: Mapping[str, int]) -> list[str]:
    count, link = op.algorithmic, m.bandwidths[m.slow_link]
    apart = ", every step a kernel of its own," * hasattr(op, "steps")
    return [
        "The explorer puts an op on a chip: its shapes, dtype and mapping give the work W and the "
        f"bytes Q, the chip's roofs give the times. First: {_named(entry, sizes, dtype)}.",
        f"It does W = {units.show(count.flops, 'FLOP')} and{apart} moves Q = "
        f"{units.show(count.hbm_bytes, 'B')}. {m.name} computes at most P = {m.peaks[dtype].text} "
        f"and its {m.slow_link} bandwidth is BW = {link.text}. What takes longest?"]


def _rows(machines: Mapping[tuple[str, str], Machine], entry: Entry, sizes: Mapping[str, int]
          ) -> list[list[str]]:
    rows = [["chip", "dtype", "P", "BW", "I", "ridge", "binds", "T_best", "T_worst", "rate"]]
    for m in machines.values():
        dtype = next(d for d in ("bf16", *DTYPES) if d in m.peaks)
        op = entry.make(dtype, sizes)
        got = m.entitle((op.unfused if hasattr(op, "unfused") else op).algorithmic)
        ridge = units.show(got.ridge, "FLOP/B") if got.count.flops else "none"
        rows.append([m.name, dtype, m.peaks[dtype].text, m.bandwidths[m.slow_link].text,
                     units.show(got.intensity, "FLOP/B"), ridge, got.binds,
                     units.show(got.t_best, "s"), units.show(got.t_worst, "s"),
                     units.show(got.rate, "FLOP/s")])
    return rows


def _crossings(op: Op) -> list[list[str]]:
    rows = [["tensor", "numbers", "dtype", "read", "written", "bytes"]]
    rows += [[t.name, f"{t.elements:,}", t.dtype, f"{t.reads} x", f"{t.writes} x",
              units.show(t.read_bytes + t.write_bytes, "B")] for t in op.tensors]
    return [*rows, ["Q", "", "", "", "", units.show(op.algorithmic.hbm_bytes, "B")]]


def _numbers(machines: Sequence[Machine]) -> list[list[str]]:
    """P of each dtype and each bandwidth; dtypes of one figure on one line."""
    rows = [["chip", "what", "value", "rivals", "kind", "from"]]
    for m in machines:
        same: dict[tuple[str, ...], list[str]] = {}
        for what, spec in (*((f"P, {d}", s) for d, s in m.peaks.items() if d in DTYPES),
                           *((f"BW, {level}", s) for level, s in m.bandwidths.items()
                             if level in (m.slow_link, "DMA", "link"))):
            key = (spec.text, ", ".join(r.text for r in spec.rivals), spec.kind, spec.source)
            same.setdefault(key, []).append(what)
        rows += [[m.name, " ".join([of[0], *(w.partition(", ")[2] for w in of[1:])]), *key]
                 for key, of in same.items()]
    return rows
