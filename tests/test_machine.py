"""Every machine number against tables it was not made from, and the laws of a roofline."""

import ast
import csv
import math
import re
import sys
import types
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline import machine
from roofline.count import Count
from roofline.machine import Ceiling, Machine, MachineError, Spec

HERE = Path(__file__).parent
TOML = (HERE.parent / "lib/roofline/machine.toml").read_text("utf-8")
YAML = HERE.parents[1] / "shared/reference/hardware.yaml"


# --- the facts table: arithmetic written down apart from machine.py ---------------------------

def arithmetic(text):
    """The value of a product of plain numbers, as the facts table writes it."""
    assert re.fullmatch(r"[0-9.e*/() -]+", text), text
    return eval(text)  # digits and operators only, as just checked


def rounded(value):
    return float(f"{value:.12g}")  # 3e12/8 and 0.125*3e12 are one number


def read_facts():
    with open(HERE / "data/hardware_facts.csv", newline="") as file:
        return Counter(
            (row["machine"], row["scope"], row["quantity"], row["of"], row["role"],
             rounded(arithmetic(row["value"])), row["kind"]) for row in csv.DictReader(file))


def facts_of(machines, kernels=()):
    """The rows of the facts table that these machines amount to."""
    found = Counter()

    def add(m, quantity, of, spec):
        for role, s in (("used", spec), *(("rival", rival) for rival in spec.rivals)):
            found[m.key, m.scope, quantity, of, role, rounded(s.value), s.kind] += 1

    for m in machines:
        for dtype, spec in m.peaks.items():
            add(m, "peak", dtype, spec)
            ridges = {"ridge": m.ridge(dtype)}
            if "DMA" in m.bandwidths:
                ridges["ridge DMA"] = m.ridge(dtype, "DMA")
            for name, ridge in ridges.items():
                add(m, name, dtype, Spec(ridge, "FLOP/B", "", "derived"))
        for level, spec in m.bandwidths.items():
            add(m, "BW", level, spec)
        for ceiling in m.ceilings:
            add(m, f"ceiling {ceiling.name}", ceiling.roof, Spec(
                ceiling.spec.value, ceiling.spec.unit, "", ceiling.spec.kind))
        for name, spec in m.facts.items():
            add(m, *name.partition(".")[::2], spec)
    for name, kernel in dict(kernels).items():
        for when, spec in kernel._asdict().items():
            found["kernels2009", "paper", name, when, "used", rounded(spec.value), spec.kind] += 1
    return found


FACTS = read_facts()


def test_every_number_is_in_the_facts_table_and_no_other():
    found = facts_of(machine.load(TOML).values(), machine.load_kernels(TOML))
    assert sorted((FACTS - found).items()) == []
    assert sorted((found - FACTS).items()) == []


# --- mutation: no digit of machine.toml, no constant of a formula, may change unnoticed --------

NUMBER = re.compile(r'"(\d[\d.]*)(?: [A-Za-z]+(?:/[A-Za-z]+)?)?"')


def blocks():
    """Text of each table of machine.toml with its subtables: "trn2" or ("chip", "a100")."""
    found = {}
    for part in re.split(r"(?m)^(?=\[)", TOML):
        path = re.findall(r'"[^"]+"|\w+', part.partition("]")[0])
        if path and part.startswith("["):
            depth = 2 if path[0] in ("instance", "chip", "paper2009") else 1
            found[tuple(path[:depth])] = found.get(tuple(path[:depth]), "") + part
    return found


def needs(block, found):
    """The blocks without which this one says nothing: its chip, and the chip it is like."""
    parents = re.findall(r'(?m)^(?:like|chip) = "(\w+)"', found[block])
    return [one for parent in parents for one in [*needs((parent,), found), (parent,)]]


def facts_in(text):
    return facts_of(machine.load(text).values(),
                    machine.load_kernels(text) if "kernels2009" in text else ())


def test_a_changed_digit_is_noticed():
    found, survivors, tried = blocks(), [], 0
    assert sum(len(text) for text in found.values()) > 0.95 * len(TOML)
    for block, text in found.items():
        beside = [("trn1",)] if block == ("neuron",) else needs(block, found)
        around = "".join(found[b] for b in beside)
        sound = facts_in(around + text)
        assert sound <= FACTS
        for literal in NUMBER.finditer(text):
            for at in range(*literal.span(1)):
                if text[at] == ".":
                    continue
                digit = str((int(text[at]) + 1) % 10)
                tried += 1
                try:
                    if facts_in(around + text[:at] + digit + text[at + 1:]) == sound:
                        survivors.append((block, literal.group(), at - literal.start(1)))
                except MachineError:
                    pass  # a roof of 0 B/s is refused
    assert tried > 900
    assert survivors == []


def builder_constants():
    """The numbers of machine.py below the line where toml becomes machines."""
    source = Path(machine.__file__).read_text("utf-8")
    start = source[:source.index("# --- from machine.toml")].count("\n")
    tree = ast.parse(source)
    return tree, [node for node in ast.walk(tree) if isinstance(node, ast.Constant)
                  and type(node.value) in (int, float) and node.lineno > start]


def test_a_changed_constant_of_a_formula_is_noticed(monkeypatch):
    """The 2 of a multiply-add, the 4 bytes of an fp32, the 2 cores of a pair, ..."""
    mutant = types.ModuleType("roofline._mutant")
    mutant.__package__ = "roofline"
    monkeypatch.setitem(sys.modules, mutant.__name__, mutant)  # dataclasses look it up
    tree, constants = builder_constants()
    assert len(constants) > 15
    survivors = []
    for node in constants:
        node.value += 1
        try:
            exec(compile(tree, machine.__file__, "exec"), vars(mutant))
            noticed = facts_of(mutant.load(TOML).values(), mutant.load_kernels(TOML)) != FACTS
        except Exception:
            noticed = True
        survivors += [] if noticed else [(node.lineno, node.value - 1)]
        node.value -= 1
    lines = Path(machine.__file__).read_text("utf-8").splitlines()
    assert [(lines[n - 1].strip(), value) for n, value in survivors] == [
        # decides only whether "x 1" is printed
        ('if (row.value, row.unit) != (1, ""):', 1),
    ]


# --- the reference table, row by row ------------------------------------------------------------

RENAMED = {
    "partitions": "pmax", "max_stationary_free": "gemm_stationary_fmax",
    "max_moving_free": "gemm_moving_fmax", "psum_banks": "psum_num_banks",
    "dma_saturating_bytes_per_partition": "dma_saturating_bytes",
    "didt_initial_utilization_limit": "throttle_start", "didt_ramp_time": "throttle_time",
    "neuronlink_count": "link_count", "link_intra_server_bandwidth": "link_intra_server",
    "link_inter_server_bandwidth": "link_inter_server",
    "link_inter_rack_bandwidth": "link_inter_rack", "fma_units_per_core": "fma_units",
    "dram_transfers_per_s": "dram_transfer_rate", "dram_bytes_per_transfer": "dram_channel_bytes",
}
KEYS = {"nvidia-a100-80gb-sxm": "a100", "nvidia-h100-sxm": "h100", "nvidia-h200-sxm": "h200",
        "nvidia-b200-sxm": "b200", "tpu-v5e": "tpu_v5e", "tpu-v5p": "tpu_v5p",
        "tpu-v6e": "tpu_v6e", "cpu-example": "desktop"}
LEVELS = {"hbm_bandwidth": "HBM", "dma_bandwidth": "DMA", "neuronlink_bandwidth": "link",
          "nvlink_bandwidth": "link", "ici_bandwidth": "link", "dram_bandwidth": "DRAM",
          "link_bandwidth_per_chip": "link", "efa_bandwidth": "EFA"}
# Rows of hardware.yaml that machine does not have, and why.
LEFT_OUT = {
    ("trn3", "device", "neuronlink_bandwidth", 704e9):
        "the sum of three tiers that one transfer never uses at once; the tiers are there",
    ("trn1", "device", "ridge", 231.707317): "documented peak / 820e9: two rivals combined",
    ("trn1", "device", "ridge", 57.9268293): "documented peak / 820e9: two rivals combined",
    ("trn2", "device", "ridge", 230): "documented peak / 2.9e12: two rivals combined",
    ("trn2", "device", "ridge", 447.931034): "documented peak / 2.9e12: two rivals combined",
    ("trn2", "device", "ridge", 883.793103): "documented peak / 2.9e12: two rivals combined",
    ("trn2", "device", "ridge", 62.4137931): "documented peak / 2.9e12: two rivals combined",
    ("trn3", "device", "ridge", 136.938776): "documented peak / 4.9e12: rival over figure used",
    ("trn3", "device", "ridge", 513.673469): "documented peak / 4.9e12: rival over figure used",
    ("trn3", "device", "ridge", 37.3469388): "documented peak / 4.9e12: rival over figure used",
}
LEFT_OUT |= {("inf2", *key[1:]): why for key, why in LEFT_OUT.items() if key[0] == "trn1"}
# Rows whose default flag machine does not follow, and why.
OTHER_DEFAULT = {
    # DMA: the engines' documented rate, as at core scope, stands before the theoretical total
    **{(chip, "device", "dma_bandwidth", value): "engines x documented rate is used"
       for chip, value in (("trn1", 1000e9), ("trn2", 3500e9), ("trn3", 4900e9))},
    # peaks: hardware.yaml flags the sum of the cores for bf16 only; the other dtypes follow it
    **{(chip, "device", "peak_flops", value): "cores x core peak is used, as for bf16"
       for chip, value in (("trn1", 190e12), ("trn2", 667e12), ("trn2", 2563e12),
                           ("trn3", 671e12), ("trn3", 2517e12))},
}
OTHER_DEFAULT |= {("inf2", *key[1:]): w for key, w in OTHER_DEFAULT.items() if key[0] == "trn1"}


def places(row):
    """Where a row of hardware.yaml is in machine: Specs, the first the one it should be."""
    scope, quantity, dtype = row["scope"], row["quantity"], row.get("dtype", "")
    key = KEYS.get(row["chip"], row["chip"])
    if row["chip"] == "neuron-any":
        key, quantity = "trn2", f"figure_{quantity}"
    if scope.startswith("instance:"):
        key, scope = scope.removeprefix("instance:"), "instance"
    if scope == "dma_engine":
        scope, quantity = "core", "dma_engine"
    if scope == "hbm_stack":
        scope, quantity = "device", {"hbm_bytes": "hbm_stack_bytes",
                                     "hbm_bandwidth": "hbm_stack_bandwidth"}[quantity]
    scope = {"logical_core_lnc2": "lnc2", "link": "device"}.get(scope, scope)
    m = machine.get(key, scope)
    quantity = RENAMED.get(quantity, quantity)
    if quantity in ("peak_flops", "peak_ops"):
        return [m.peaks[dtype]]
    if quantity in ("ridge", "ridge_dma"):
        level = "DMA" if quantity == "ridge_dma" else m.slow_link
        specs = (m.bandwidths[level], *m.bandwidths[level].rivals)
        ridges = [Spec(m.peaks[dtype].value / s.value, "FLOP/B", "", "derived") for s in specs]
        printed = {**machine.get(key, "device").facts, **machine.get(key).facts, **m.facts}
        return [*ridges, *(s for n, s in printed.items() if n == f"documented_ridge.{dtype}")]
    if LEVELS.get(quantity) in m.bandwidths:
        return [m.bandwidths[LEVELS[quantity]]]
    names = (f"{quantity}.{dtype}", quantity, f"{quantity}.hbm")
    return [s for n, s in m.facts.items() if n in names or n.startswith(f"{quantity}_")]


def test_reference_row_by_row():
    if not YAML.exists():
        pytest.skip("../shared/reference/hardware.yaml is not here")
    yaml = pytest.importorskip("yaml")
    missing, other = {}, {}
    for row in yaml.safe_load(YAML.read_text("utf-8"))["entries"]:
        specs = places(row)
        values = [s.value for first in specs for s in (first, *first.rivals)]
        name = row["chip"], row["scope"], row["quantity"], row["value"]
        if not any(math.isclose(v, row["value"], rel_tol=1e-8) for v in values):
            missing[name] = values
        elif row.get("default", True) and not any(
                math.isclose(s.value, row["value"], rel_tol=1e-8) for s in specs):
            other[name] = values
    assert sorted(missing) == sorted(LEFT_OUT)
    assert sorted(other) == sorted(OTHER_DEFAULT)


# --- arithmetic a reader can redo ---------------------------------------------------------------

@pytest.mark.parametrize(("got", "value"), [
    (machine.trn1.peak("bf16"), 128 * 128 * 2 * 2.8e9),
    (machine.trn1.peak("fp32"), 128 * 128 * 2 * 2.8e9 / 4),
    (machine.trn2.peak("bf16"), 128 * 128 * 2 * 2.4e9),
    (machine.trn2.peak("bf16"), 78.6432e12),
    (machine.trn2.peak("fp8"), 128 * 256 * 2 * 2.4e9),       # double-row: K = 256
    (machine.trn3.peak("mxfp8"), 128 * 512 * 2 * 2.4e9),     # K = 512
    (machine.trn2.at("lnc2").peak("bf16"), 157.2864e12),
    (machine.trn2.at("lnc2").bw(), 0.75e12),
    (machine.trn2.at("device").bw(), 3e12),
    (machine.trn1.bw(), 820e9 / 2),
    (machine.trn2.bw(), 3e12 / 8),
    (machine.trn1.bw("DMA"), 272e9),
    (machine.trn2.bw("DMA"), 368e9),
    (machine.trn1.ridge("bf16"), 91.7504e12 / 410e9),        # 223.78
    (machine.trn1.ridge("bf16", "DMA"), 91.7504e12 / 272e9),
    (machine.trn2.using(HBM=0).bw(), 362.5e9),
    (machine.trn2.using(HBM=1).bw(), 358e9),
    (machine.trn2.using(HBM=2).ridge("bf16"), 157.2864),     # the figure's 500 GB/s
    (machine.trn2.using(HBM="397 GB/s").bw(), 397e9),
    (machine.trn2.using(HBM=397e9).ridge("bf16"), 78.6432e12 / 397e9),
    (machine.trn1.facts["vector_element_rate"].value, 128 * 1.12e9),
    (machine.trn2.facts["psum_bytes"].value, 128 * 8 * 512 * 4),
    (machine.trn2.facts["sbuf_bytes"].value, 128 * 224 * 1024),
    (machine.desktop.peak("fp32"), 8 * 2 * 8 * 2 * 4.0e9),
    (machine.desktop.bw(), 2 * 8 * 5600e6),
    (machine.desktop.ridge("fp32"), 1024 / 89.6),            # 11.4
    (machine.desktop.under("no FMA").peak("fp32"), 512e9),
    (machine.desktop.under("no SIMD", "no FMA").peak("fp32"), 1.024e12 / 8 / 2),
    (machine.desktop.under("no ILP").peak("fp32"), 8 * 8 * 2 * 4.0e9 / 4),  # one FMA in 4 cycles
    (machine.desktop.under("strided").bw(), 89.6e9 / 16),
    (machine.desktop.under("one core").bw(), 16 * 4.0e9),                    # its L3 port
    (machine.desktop.under("one core", "one channel").bw(), 8 * 5600e6),     # the lower cap
    (machine.desktop.under("one channel", "one core").bw(), 8 * 5600e6),
    (machine.desktop.under("one core", "strided").bw(), 16 * 4.0e9 / 16),    # a share of it
    (machine.opteron_x4.ridge("fp64"), 74 / 16.6),
    (machine.xeon_e5345.using(DRAM=0).ridge("fp64"), 6.7),  # as the paper prints it
    (machine.get("trn2.48xlarge").facts["logical_cores_lnc2"].value, 64),
])
def test_values(got, value):
    assert got == pytest.approx(value, rel=1e-12)


def test_documents_agree_with_the_arithmetic():
    for m in (machine.trn1, machine.trn2, machine.trn3):
        f = {name: spec.value for name, spec in m.facts.items()}
        assert f["psum_bytes"] == f["pmax"] * f["psum_partition_bytes"]
        assert f["psum_partition_bytes"] == f["psum_num_banks"] * f["psum_bank_partition_bytes"]
        assert f["sbuf_bytes"] == f["pmax"] * f["sbuf_partition_bytes"]
        device = m.at("device")
        assert device.facts["dma_engines"].value == f["dma_engines"] * device.facts["cores"].value
        for dtype, spec in m.peaks.items():
            for printed in spec.rivals:  # 92, 79, 20, ... are the products, rounded
                assert printed.value == pytest.approx(spec.value, rel=0.02), (m.key, dtype)
            assert device.peak(dtype) == pytest.approx(
                device.facts["cores"].value * spec.value)


def test_every_source_is_in_the_bibliography():
    keys = set(re.findall(r"(?m)^@\w+\{([^,]+),", (HERE.parent / "references.bib").read_text()))
    for m in machine.load(TOML).values():
        specs = [*m.peaks.values(), *m.bandwidths.values(), *m.facts.values(),
                 *(c.spec for c in m.ceilings)]
        for spec in [s for one in specs for s in (one, *one.rivals)]:
            assert spec.source.partition(",")[0] in keys, spec.source
    assert {spec.source.partition(",")[0] for kernel in machine.KERNELS_2009.values()
            for spec in kernel} <= keys


# --- what a count is entitled to ----------------------------------------------------------------

TOY = Machine("toy", "Toy", "core", {
    "bf16": Spec(80e12, "FLOP/s", "toyguide", "documented"),
    "fp32": Spec(20e12, "FLOP/s", "toyguide", "documented"),
}, {
    "HBM": Spec(400e9, "B/s", "toyguide", "documented"),
    "DMA": Spec(300e9, "B/s", "toyguide", "documented"),
}, (
    Ceiling("half", Spec(40e12, "FLOP/s", "toyguide", "derived"), "half the array", "bf16"),
    Ceiling("small transfers", Spec(100e9, "B/s", "toyguide", "derived"), "descriptors", "HBM"),
))


def test_decode_projection_on_a_trn2_core():
    """Day 2: y = xW, B = 1, D = F = 4096 in bf16."""
    w, q = 2 * 1 * 4096 * 4096, 2 * (4096 + 4096 * 4096 + 4096)
    e = machine.trn2.entitle(Count({"bf16": w}, q - 8192, 8192))
    assert e.times == {"compute": w / 78.6432e12, "HBM": q / 375e9}
    assert (e.binds, e.t_best) == ("HBM", q / 375e9)
    assert e.t_worst == pytest.approx(w / 78.6432e12 + q / 375e9)
    assert e.rate == pytest.approx(e.intensity * 375e9)
    assert e.ridge == pytest.approx(209.7152)


def test_mixed_dtypes_add_their_times():
    count = Count({"bf16": 160 * 10**12, "fp32": 20 * 10**12}, 10**9)
    e = TOY.entitle(count)
    assert e.times["compute"] == 160 / 80 + 20 / 20
    assert e.rate == e.peak == 180e12 / 3  # of this mix
    assert e.ridge == pytest.approx(60e12 / 400e9)
    mixed = TOY.mixed(count)
    assert {name: (p.value, p.kind) for name, p in mixed.peaks.items()} == {
        "bf16+fp32": (60e12, "derived")}
    assert TOY.mixed(Count({"fp32": 1})).peaks == {"fp32": TOY.peaks["fp32"]}
    with pytest.raises(MachineError, match="W = 0 FLOP"):
        TOY.mixed(Count({}, 1))


def test_a_copy_has_a_time_and_no_rate():
    e = TOY.entitle(Count({}, 10**9, 10**9))
    assert (e.times["compute"], e.t_best, e.binds) == (0, 2e9 / 400e9, "HBM")
    assert (e.rate, e.intensity) == (0, 0)
    assert math.isnan(e.ridge)
    assert "ridge" not in repr(e) and "rate" not in repr(e)


def test_work_without_traffic_is_compute_bound():
    e = TOY.entitle(Count({"bf16": 80 * 10**12}))
    assert (e.times["HBM"], e.t_best, e.binds, e.rate) == (0, 1.0, "compute", 80e12)
    assert e.intensity == math.inf


def test_at_the_ridge_compute_binds():
    assert TOY.entitle(Count({"bf16": 200}, 1)).binds == "compute"
    assert TOY.entitle(Count({"bf16": 199}, 1)).binds == "HBM"


def test_further_roofs():
    count = Count({"bf16": 1000}, 600)
    e = TOY.entitle(count, {"DMA": count.hbm_bytes})
    assert (e.binds, e.t_best) == ("DMA", 600 / 300e9)
    # The same bytes cross both at once: computing, then the longer crossing.
    assert e.t_worst == pytest.approx(e.times["compute"] + 600 / 300e9)
    gelu = machine.trn2.entitle(Count({}, 2**24, 2**24), {"scalar_element_rate": 2048 * 4096})
    assert gelu.times["scalar_element_rate"] == pytest.approx(54.6e-6, rel=1e-3)
    assert gelu.binds == "HBM"
    assert re.search(r"(?m)^  DMA +2 ns +binds$", repr(e))


def test_under_a_ceiling():
    low = TOY.under("half")
    assert (low.peak("bf16"), low.peak("fp32"), low.bw()) == (40e12, 20e12, 400e9)
    assert low.entitle(Count({"bf16": 40 * 10**12})).t_best == 1
    assert [c.name for c in low.ceilings] == ["small transfers"]
    assert TOY.under("half", "small transfers") == TOY.under("half").under("small transfers")
    assert machine.trn2.under("throttled").peak("fp32") == machine.trn2.peak("fp32") / 2


def test_published_ceilings_do_not_multiply():
    x2 = machine.opteron_x2
    assert x2.under("no ILP or SIMD", "unbalanced mix").peak("fp64") == 2.2e9
    assert x2.under("unbalanced mix", "no ILP or SIMD").peak("fp64") == 2.2e9
    low = x2.under("no affinity")
    assert (low.bw(), low.peak("fp64")) == (4.8e9, 17.6e9)
    assert {c.name for c in low.ceilings if c.roof == "DRAM"} == {"unit stride only"}


def test_a_replaced_figure_keeps_the_others_as_rivals():
    hbm = machine.trn2.using(HBM=1).bandwidths["HBM"]
    assert hbm.value == 358e9
    assert {r.value for r in hbm.rivals} == {375e9, 362.5e9, 500e9}
    own = machine.trn2.using(bf16="70 TFLOPS").peaks["bf16"]
    assert (own.value, own.kind) == (70e12, "assumed")
    assert 78.6432e12 in {r.value for r in own.rivals}
    measured = Spec(335e9, "B/s", "mine", "measured", "64 MiB copies")
    assert machine.trn2.using(HBM=measured).bandwidths["HBM"].kind == "measured"


counts = st.builds(lambda b, f, r, w: Count({"bf16": b, "fp32": f}, r, w),
                   *[st.integers(0, 10**15)] * 4).filter(lambda c: c.flops or c.hbm_bytes)


@given(counts, st.integers(0, 10**15))
def test_times_are_between_best_and_worst(count, dma):
    e = TOY.entitle(count, {"DMA": dma})
    assert e.t_best <= e.t_worst <= len(e.times) * e.t_best * (1 + 1e-12)
    assert e.times[e.binds] == e.t_best
    assert e.rate <= 80e12 * (1 + 1e-12)


@given(counts)
def test_the_rate_is_the_attainable_one(count):
    one = Count({"bf16": count.flops}, count.hbm_read_bytes, count.hbm_write_bytes)
    e = TOY.entitle(one)
    if one.flops and one.hbm_bytes:
        assert e.rate == pytest.approx(TOY.attainable(e.intensity, "bf16"))
        assert (e.binds == "compute") == (e.intensity >= TOY.ridge("bf16") * (1 - 1e-15))


@given(st.sampled_from(sorted(machine.ALL)), st.floats(0, 1e6))
def test_attainable_is_under_both_roofs_and_meets_at_the_ridge(key, intensity):
    m = machine.ALL[key]
    for dtype in m.peaks:
        for level in m.bandwidths:
            rate = m.attainable(intensity, dtype, level)
            assert rate <= m.peak(dtype)
            assert rate <= intensity * m.bw(level)
            ridge = m.ridge(dtype, level)
            assert m.attainable(ridge, dtype, level) == pytest.approx(m.peak(dtype))
            assert m.attainable(ridge / 2, dtype, level) == pytest.approx(m.peak(dtype) / 2)
    assert m.attainable(math.inf, dtype) == m.peak(dtype)


# --- names, errors, what is shown ---------------------------------------------------------------

def test_names():
    assert set(machine.ALL) == {
        "trn1", "inf2", "trn2", "trn3", "a100", "h100", "h200", "b200", "tpu_v5e", "tpu_v5p",
        "tpu_v6e", "desktop", "opteron_x2", "xeon_e5345", "opteron_x4", "ultrasparc_t2",
        "cell_qs20"}
    assert all(getattr(machine, key) is m is machine.get(key) for key, m in machine.ALL.items())
    assert set(machine.INSTANCES) == {m.key for m in machine.load(TOML).values()
                                      if m.scope == "instance"}
    assert machine.trn2.scope == "core"
    assert machine.desktop.slow_link == "DRAM"
    assert machine.trn2.at("core") is machine.trn2
    assert machine.inf2.peaks == machine.trn1.peaks
    assert {m.key for m in (machine.trn1, machine.trn2)} == {"trn1", "trn2"}  # hashable


@pytest.mark.parametrize(("call", "text"), [
    (lambda: machine.trn1.at("lnc2"),
     "trn1: no such scope: got 'lnc2'; known: core, device. Only two cores that share an HBM"),
    (lambda: machine.get("trn9"), "no such machine: got 'trn9'; known: trn1, inf2, trn2"),
    (lambda: TOY.peak("fp8"),
     "toy, core: no peak for this dtype: got 'fp8'; known: bf16, fp32. Count W in one of these"),
    (lambda: TOY.entitle(Count({"fp8": 1})), "no peak for this dtype: got 'fp8'"),
    (lambda: TOY.entitle(Count()), "nothing to time. Count the op first"),
    (lambda: TOY.entitle(Count({}, 1), {"HBM": 1}), "no such further roof: got 'HBM'; known: DMA"),
    (lambda: TOY.entitle(Count({}, 1), {"DMA": -1}), "DMA: -1; expected an amount >= 0"),
    (lambda: TOY.bw("L3"), "no such level: got 'L3'; known: HBM, DMA"),
    (lambda: TOY.under("no luck"), "no such ceiling: got 'no luck'; known: half, small transfers"),
    (lambda: TOY.using(L3=1e9), "using: no such roof: got 'L3'; known: bf16, fp32, HBM, DMA"),
    (lambda: TOY.using(HBM=0), "HBM has 0 rivals, numbered from 0. Give a figure"),
    (lambda: TOY.using(HBM=0.0),
     "toy: bandwidths: got HBM 0 B/s, DMA 300 GB/s; expected at least one Spec, each > 0 B/s"),
    (lambda: machine.trn2.using(HBM=1).at("device"), "Change the scope first, then the figure"),
    (lambda: TOY.attainable(-1, "bf16"), "intensity -1 FLOP/B; expected >= 0"),
    (lambda: TOY.attainable(math.nan, "bf16"), "intensity nan FLOP/B; expected >= 0"),
    (lambda: Spec(1, "GB/s", "x", "documented"), "unit 'GB/s' is not a base unit"),
    (lambda: Spec(1, "B/s", "x", "guessed"), "kind 'guessed'; expected one of documented"),
    (lambda: Spec(math.nan, "B/s", "x", "documented"), "value nan is not finite"),
    (lambda: Machine("m", "M", "core", {}, {}), "m: peaks: got none; expected"),
])
def test_errors(call, text):
    with pytest.raises(MachineError, match=re.escape(text)):
        call()


def test_no_such_machine_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'trn9'; machines: trn1, inf2"):
        machine.trn9  # noqa: B018


def test_a_machine_shows_its_roofs():
    lines = repr(machine.trn2).splitlines()
    assert lines[0] == "Trainium2, one NeuronCore-v3 (trn2, core)"
    assert lines[1].split()[:4] == ["P", "bf16", "fp16", "tf32"]
    assert "78.64 TFLOP/s  derived  ridge 210 FLOP/B   rivals 79 TFLOP/s" in lines[1]
    assert re.search(r"HBM +375 GB/s +derived +slow link +rivals 362.5 GB/s, 358 GB/s, 500 GB/s",
                     repr(machine.trn2))


def test_an_entitlement_shows_every_term():
    shown = repr(TOY.entitle(Count({"bf16": 2 * 10**9}, 4 * 10**8)))
    assert shown.splitlines() == [
        "entitlement on Toy",
        "  I        5 FLOP/B",
        "  ridge    200 FLOP/B",
        "  W/P      25 us       compute",
        "  Q/BW     1 ms        HBM, binds",
        "  T_best   1 ms        all overlaps",
        "  T_worst  1.03 ms     nothing overlaps",  # 1.025, to the even digit
        "  rate     2 TFLOP/s   W/T_best",
    ]


def test_a_spec_shows_its_rivals():
    assert str(machine.trn2.bandwidths["HBM"]) == "375 GB/s (derived: an even share of 8 cores)"
    assert "rival 500 GB/s (documented: " in repr(machine.trn2.bandwidths["HBM"])
    assert machine.trn2.facts["sbuf_bytes"].text == "28 MiB"
    assert machine.a100.facts["hbm_bytes"].text == "80 GB"
