"""The cost model: prices a reader can add up, laws that hold for any kernel, one cause at a time.

What it predicts is held against published times in test_neuroncore_report. Here: the arithmetic of
its mechanisms; that it waits for exactly what shares a byte; that it lies between T_best and the
sum of its prices, and that nothing faster ever makes it slower.
"""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import ROOT

from roofline import gaps, machine, neuroncore, nki, profile, units
from roofline.count import Count
from roofline.neuroncore import ModelError, predict
from roofline.neuroncore.graph import graph
from roofline.neuroncore.model import roof
from roofline.neuroncore.prices import DMA, MECHANISMS, constants
from roofline.nki import isa as nisa
from roofline.nki import language as nl
from roofline.profile.write import write
from roofline.timeline import ENGINES

CHIPS = ("trn1", "inf2", "trn2", "trn3")
NS = {chip: {name: 1e9 * row.value for name, row in constants(machine.get(chip)).items()
             if row.unit == "s"} for chip in CHIPS}
CLOCK = 2.4  # GHz, Tensor Engine of trn2
PORT = 27.2  # B/ns, one DMA engine of trn2: dma-intro


@functools.cache
def day(number):
    return nki.load(ROOT / f"day{number}" / "kernels.py")


@functools.cache
def ran(number, kernel, *shapes, dtype="bf16", target="trn2", lnc=None, **options):
    """A course kernel on shapes alone."""
    return nki.run(getattr(day(number), kernel), *((shape, dtype) for shape in shapes),
                   target=target, lnc=lnc, data=False, **options)


def close(ns):
    return pytest.approx(ns, rel=1e-9, abs=1e-6)


# --- prices, one kernel each ---------------------------------------------------------------------


def moved(rows, nbytes, chip="trn2"):
    """ns of one trn2 transfer alone: so many rows of a partition on each engine, 4 KiB or less."""
    c = NS[chip]
    return c["dma_latency"] + rows * (c["packet"] + nbytes / PORT) + c["dma_receipt"]


@pytest.mark.parametrize(("partitions", "elements", "rows"), [
    (128, 2048, 8),  # 16 engines, 8 rows of 4 KiB each
    (64, 2048, 8),   # 8 engines: as long for half the bytes
    (128, 256, 8),   # 512 B a row
    (8, 2048, 8),    # one engine
    (1, 2048, 1),    # one row
])
def test_a_copy_is_a_load_and_then_a_store(partitions, elements, rows):
    run = ran(4, "copy", (partitions, elements), elements=elements, partitions=partitions)
    c = NS["trn2"]
    assert predict(run).time == close(
        c["start"] + 2 * moved(rows, 2 * elements) + c["end"])


def test_a_store_keeps_its_engines():
    c, rate = NS["trn1"], constants(machine.trn1)["engine_mixed"].value / 1e9
    run = ran(4, "copy", (128, 2048), target="trn1")
    begin = max(c["dma_latency"], c["dma_issue"])
    once = begin + 8 * (c["packet"] + 4096 / rate) + c["dma_receipt"]
    assert predict(run).time == close(c["start"] + 2 * once + c["store"] + c["end"])


def test_a_row_longer_than_a_packet_is_cut():
    run = ran(4, "copy", (128, 5120), elements=5120)  # 10,240 B a row: 4096 + 4096 + 2048
    c = NS["trn2"]
    once = c["dma_latency"] + 8 * (3 * c["packet"] + 10240 / PORT) + c["dma_receipt"]
    p = predict(run)
    assert p.time == close(c["start"] + 2 * once + c["end"])
    assert sorted(set(p.profile.timeline.packets.nbytes)) == [2048, 4096]


@nki.jit
def scattered(x):
    """Every second column of x, so each element is a packet of its own."""
    tile = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[:, nl.ds(0, 8)].reshape((128, 4, 2))[:, :, 0])
    y = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=y, src=tile)
    return y


def test_elements_apart_are_packets_apart():
    c = NS["trn2"]
    load = c["dma_latency"] + 8 * 4 * (c["packet"] + 2 / PORT) + c["dma_receipt"]
    assert predict(nki.run(scattered, ((128, 8), "bf16"), data=False)).time == close(
        c["start"] + load + moved(8, 8) + c["end"])


def test_transfers_are_issued_at_an_interval():
    """64 B rows are over before the next transfer is issued: 0.6 us apart, says trn2-arch."""
    run = ran(4, "read", (64, 128, 32), elements=32)
    issued = 64 * 600  # the store comes after all of them
    assert predict(run).parts["DMA issue"] == close(issued + 600)
    done = NS["trn2"]["start"] + 63 * 600 + moved(8, 64)
    assert predict(run, buffers=None).time > done


@pytest.mark.parametrize(("dtype", "N", "cycles"), [
    ("bf16", 512, 512), ("bf16", 128, 128), ("bf16", 16, 64),  # at least 64
    ("fp32", 512, 4 * 512), ("fp32", 16, 4 * 64)])             # four bf16 passes
def test_matmuls_follow_each_other_at_the_issue_interval(dtype, N, cycles):
    """n more matmuls take n x (cycles / clock + constant) more, once throttling is over."""
    few, many = (predict(ran(4, "moving_sweep", (128, 128), (128, N), dtype=dtype, n=n)).time
                 for n in (600, 1600))
    passes = 2 if dtype == "fp32" else 1
    assert many - few == close(1000 * (cycles / CLOCK + passes * NS["trn2"]["matmul"]))


@nki.jit
def once(a, b, double=False):
    """One matmul of fp8 tiles; double: two rows of K in each row of the array."""
    at, bt = (nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.sbuf) for t in (a, b))
    nisa.dma_copy(dst=at, src=a)
    nisa.dma_copy(dst=bt, src=b)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    mode = nisa.matmul_perf_mode.double_row if double else nisa.matmul_perf_mode.none
    nisa.nc_matmul(dst=total, stationary=at, moving=bt, perf_mode=mode)
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out, src=total)
    c = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=c, src=out)
    return c


@pytest.mark.parametrize(("K", "double"), [((128,), False), ((128, 2), True)])
def test_fp8_is_faster_by_rows_of_two_not_by_columns(K, double):
    """512 columns take 512 cycles either way; in double row mode they are of K = 256."""
    run = nki.run(once, ((*K, 128), "float8_e4m3"), ((*K, 512), "float8_e4m3"), double=double,
                  data=False)
    assert predict(run).parts["tensor"] == close(512 / CLOCK + NS["trn2"]["matmul"])
    assert run.count.work == {"fp8": 2 * 128 * (2 if double else 1) * 128 * 512}


def test_throttling_takes_half_of_its_time():
    run = ran(4, "moving_sweep", (128, 128), (128, 512), n=200)
    lost = predict(run).time - predict(run, without="throttle").time
    assert lost == close(NS["trn2"]["throttle"] * 0.5)  # throttle_start: explorer-glossary
    row = predict(run).profile.timeline.throttles
    assert (row.k.tolist(), row.n.tolist()) == ([4, 8], [8, 8])
    assert int(row.end[0] - row.start[0]) == pytest.approx(NS["trn2"]["throttle"], abs=1)
    assert not len(predict(ran(4, "moving_sweep", (128, 128), (128, 512), n=200,
                               target="trn1")).profile.timeline.throttles)


@nki.jit
def on_vector(x, op="copy", n=1):
    """n Vector instructions on a tile of its own each, after one load."""
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(n):
        if op == "copy":
            nisa.tensor_copy(dst=out, src=tile, engine=nisa.engine.vector)
        if op == "add":
            nisa.tensor_tensor(dst=out, data1=tile, data2=tile, op=nl.add,
                               engine=nisa.engine.vector)
        if op == "exp":
            nisa.activation(dst=out, op=nl.exp, data=tile)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=y, src=out)
    return y


@pytest.mark.parametrize(("chip", "op", "dtype", "cycles", "clock", "fixed"), [
    ("trn2", "copy", "fp32", 512, 0.96, "vector"),   # an element a cycle and lane
    ("trn2", "copy", "bf16", 128, 0.96, "vector"),   # 4x mode
    ("trn2", "add", "fp32", 512, 0.96, "vector"),    # 256 elements in a cycle: two a lane
    ("trn1", "add", "fp32", 1024, 1.12, "vector"),   # about two cycles an element
    ("trn2", "exp", "fp32", 512, 1.2, "scalar"),
    ("trn1", "exp", "bf16", 512, 1.4, "scalar")])
def test_an_instruction_takes_its_elements_and_a_constant(chip, op, dtype, cycles, clock, fixed):
    few, many = (predict(nki.run(on_vector, ((128, 512), dtype), op=op, n=n, target=chip,
                                 data=False)).time for n in (1, 101))
    assert many - few == close(100 * (cycles / clock + NS[chip][fixed]))


def test_a_cast_moves_the_larger_side_and_counts_what_crosses_hbm():
    @nki.jit
    def widened(x):
        tile = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        y = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=y, src=tile)
        return y

    p = predict(nki.run(widened, ((128, 512), "bf16"), data=False))
    assert p.time == close(NS["trn2"]["start"] + 2 * moved(8, 2048) + NS["trn2"]["end"])
    assert p.profile.summary["hbm_read_bytes"] == 128 * 512 * 2
    assert p.profile.timeline.packets.nbytes.sum() == p.run.count.hbm_bytes == 128 * 512 * (2 + 4)


def test_from_hbm_to_hbm_the_engine_moves_every_byte_twice():
    @nki.jit
    def there(x):
        y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=y, src=x)
        return y

    c = NS["trn2"]
    p = predict(nki.run(there, ((256, 2048), "bf16"), data=False))
    # 1 MiB in 256 pieces of 4 KiB: 16 an engine, each read and written
    assert p.time == close(c["start"] + c["dma_latency"] + 16 * (c["packet"] + 8192 / PORT)
                           + c["dma_receipt"] + c["end"])


# --- who waits for whom: against the bytes themselves --------------------------------------------


def touched(place):
    """(allocation, the set of its bytes) of a view: element by element."""
    own, layout, offset = place
    at = np.full(layout.shape, offset)
    for axis, (n, step) in enumerate(zip(layout.shape, layout.strides, strict=True)):
        at = at + (np.arange(n) * step).reshape(-1, *(1,) * (len(layout.shape) - axis - 1))
    size = layout.dtype.itemsize
    return own, {int(a) * size + b for a in at.ravel() for b in range(size)}


def conflicts(one, other):
    """Whether two instructions may not change places: one writes what the other touches."""
    def meet(some, others):
        return any(a is b and x & y for a, x in map(touched, some) for b, y in map(touched, others))
    return meet(one[3], other[3]) or meet(one[3], other[2]) or meet(one[2], other[3])


def read_back(run):
    """Whether the kernel reads HBM that it wrote. Stores that nothing reads wait for no other."""
    written = {own for trace in run.cores for own, _, _ in trace.scan.stores}
    return any(p[0] in written for trace in run.cores for r in trace.issued for p in r[2])


@st.composite
def pieces(draw):
    """A kernel on a few small tiles: views of rows, columns, strides; copies, sums, loads, stores.

    Each step: (what, from tile, to tile, the same view of both)."""
    def view():
        p0, p1 = draw(st.sampled_from([(0, 32), (0, 64), (0, 96), (32, 64), (64, 96)]))
        step = draw(st.sampled_from([1, 2, 3]))
        a = draw(st.integers(0, 5))
        return p0, p1, a, draw(st.integers(a + 1, 8)), step
    return [(draw(st.sampled_from(["vector", "gpsimd", "scalar", "load", "store", "through"])),
             draw(st.integers(0, 1)), draw(st.integers(0, 1)), view())
            for _ in range(draw(st.integers(2, 12)))]


@nki.jit
def piecemeal(x, steps=()):
    tiles = []
    for _ in range(2):
        tile = nl.ndarray((96, 8), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)
        tiles.append(tile)
    y = nl.ndarray((96, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=y, src=x)
    for what, source, target, (p0, p1, a, b, step) in steps:
        view = (slice(p0, p1), slice(a, b, step))
        if what == "load":
            nisa.dma_copy(dst=tiles[target][view], src=x[view])
        elif what == "store":
            nisa.dma_copy(dst=y[view], src=tiles[source][view])
        elif what == "through":
            nisa.dma_copy(dst=tiles[target][view], src=y[view])
        elif what == "scalar":
            nisa.activation(dst=tiles[target][view], op=nl.copy, data=tiles[source][view])
        else:
            nisa.tensor_copy(dst=tiles[target][view], src=tiles[source][view],
                             engine=getattr(nisa.engine, what))
    return y


READS = ("through", 0, 0, (0, 32, 0, 1, 1))  # y is read, so its stores count


@settings(max_examples=40, deadline=None)
@given(steps=pieces())
def test_it_waits_for_exactly_what_shares_a_byte(steps):
    run = nki.run(piecemeal, ((96, 8), "fp32"), steps=(*steps, READS), data=False)
    of = graph(run, buffers=None)
    assert read_back(run)
    n = len(of.core)
    before = [set() for _ in range(n)]  # all that must be over, by way of others too
    for j in range(n):
        engine = of.engine[j]
        same = [i for i in range(j) if of.engine[i] == engine != DMA]  # engines run in order
        for i in {*of.after[j], *same}:
            before[j] |= {i} | before[i]
        for i in of.after[j]:
            assert conflicts(of.issued[i], of.issued[j]), f"{j} need not wait for {i}"
        for i in range(j):
            assert i in before[j] or not conflicts(of.issued[i], of.issued[j]), f"{j} before {i}"


def reused(run, buffers):
    """Which stores the loads of `copy` wait for: (load, store), by their number."""
    of = graph(run, buffers)
    return sorted({(i // 2, w // 2) for i in range(0, len(of.core), 2) for w in of.after[i]})


@pytest.mark.parametrize("buffers", [1, 2, 3, 4, None])
def test_a_load_waits_for_the_tile_whose_buffer_it_takes(buffers):
    run = ran(4, "copy", (8, 128, 64), elements=64)
    expected = [] if buffers is None else [(k, k - buffers) for k in range(buffers, 8)]
    assert reused(run, buffers) == expected
    assert reused(run, {"tile": buffers}) == reused(run, {"sbuf": buffers}) == expected
    assert reused(run, {"psum": buffers}) == []


def test_tiles_alive_together_share_no_buffer():
    """Four accumulators a block; two generations of them are all eight PSUM banks."""
    run = ran(7, "matmul", (256, 512), (256, 2048))
    names = graph(run, 2)
    first = [i for i, r in enumerate(names.issued) if r[0].opcode == "nc_matmul"
             and len(r[2]) == 2]  # opens a bank: adds to nothing
    blocks = [first[i:i + 4] for i in range(0, len(first), 4)]
    assert len(blocks) == 4
    evicts = {r[2][0][0]: i for i, r in enumerate(names.issued) if r[0].opcode == "tensor_copy"}
    for k, block in enumerate(blocks):
        for j, i in enumerate(block):
            waits = {evicts[names.issued[b][3][0][0]] for b in blocks[k - 2]} if k > 1 else set()
            found = {w for w in names.after[i] if w in evicts.values()}
            assert found == ({evicts[names.issued[blocks[k - 2][j]][3][0][0]]} if k > 1 else set())
            assert found <= waits or not waits


def test_more_buffers_overlap_more():
    run = ran(4, "copy", (32, 128, 2048))
    times = [predict(run, buffers=b).time for b in (1, 2, 3, 4, None)]
    assert times == sorted(times, reverse=True) and times[0] > 1.5 * times[-1]
    # one buffer: nothing overlaps but the issue of a store, which is hidden in its latency
    c = NS["trn2"]
    assert times[0] == close(c["start"] + 64 * moved(8, 4096) + c["end"])


# --- laws ----------------------------------------------------------------------------------------


def tile(most):
    return st.integers(1, most).map(lambda n: 128 * n)


@st.composite
def runs(draw):
    """A course kernel at random shapes, on a random chip."""
    target = draw(st.sampled_from(CHIPS))
    dtype = draw(st.sampled_from(["bf16", "fp32"]))
    lnc = draw(st.sampled_from([1, 2])) if target in ("trn2", "trn3") else 1
    kernel = draw(st.sampled_from(["copy", "read", "write", "sweep", "resident", "reload", "a",
                                   "day7", "gelu", "attention", "swiglu", "fused", "linear",
                                   "once"]))
    of = functools.partial(ran, dtype=dtype, target=target)
    K, M = draw(tile(3)), draw(tile(3))
    if kernel in ("copy", "read", "write"):
        partitions = draw(st.sampled_from([1, 8, 64, 128]))
        elements = draw(st.sampled_from([16, 256, 2048, 3000]))
        shape = (draw(st.integers(1, 6)) * lnc, partitions, elements)
        return of(4, kernel, shape, elements=elements, partitions=partitions, lnc=lnc)
    if kernel == "sweep":
        rows, columns, N = (draw(st.integers(1, most)) for most in (128, 128, 512))
        return of(4, "moving_sweep", (rows, columns), (rows, N), n=draw(st.integers(1, 60)))
    if kernel == "linear":
        return of(6, "linear", (K, 512 * lnc), (K, 512), lnc=lnc)
    if kernel == "once":
        if lnc == 1:
            return of(6, "linear", (K, 512), (K, 512))
        return of(6, "linear_w_once", (2 * K, 1024), (2 * K, 512), lnc=2)
    if kernel == "gelu":
        return of(5, "mlp_gelu", (M * lnc, draw(st.sampled_from([64, 512]))), lnc=lnc)
    if kernel == "attention":
        L = draw(st.sampled_from([512, 1024]))
        d = draw(st.sampled_from([64, 128]))
        return of(5, "attention_fused", (d, L), (d, L), (L, d))
    if kernel == "swiglu":
        return of(7, "swiglu", (512, M), (512, K), (512, K), (K, 512))
    if kernel == "fused":
        return of(5, "mlp_fused", (512, M * lnc), (512, K), (K, 512), lnc=lnc)
    if kernel == "day7":
        return of(7, "matmul", (K, 512), (K, 1024))
    name = {"reload": "matmul_reload", "a": "matmul_a_stays"}.get(kernel)
    return of(5, name, (K, M), (K, 512)) if name else of(
        4, "resident_matmul", (K, M), (K, 512), repeat=draw(st.integers(1, 4)))


off = st.lists(st.sampled_from(list(MECHANISMS)), unique=True).map(tuple)
depth = st.sampled_from([1, 2, 3, None])


@settings(max_examples=60, deadline=None)
@given(run=runs(), without=off, buffers=depth)
def test_between_the_roof_and_the_sum_of_its_prices(run, without, buffers):
    p = predict(run, buffers=buffers, without=without)
    assert p.t_best <= p.time * (1 + 1e-9) and p.time <= p.serial * (1 + 1e-9)
    assert p.t_best == 1e9 * p.machine.entitle(run.count).t_best
    assert all(part <= p.time * (1 + 1e-9) for part in p.parts.values())
    again = predict(run, buffers=buffers, without=without)
    assert (again.time, again.serial) == (p.time, p.serial)


@settings(max_examples=60, deadline=None)
@given(run=runs(), buffers=depth, without=off, data=st.data())
def test_nothing_faster_makes_it_slower(run, buffers, without, data):
    core = machine.get(run.target.key)
    table = constants(core)
    name = data.draw(st.sampled_from([*table, "P", "facts", *MECHANISMS]))
    times = data.draw(st.floats(1, 4))
    changed: dict = {}
    if name in MECHANISMS:
        changed = {} if name == "buffers" else {"without": (*without, name)}
    elif name == "P":
        changed = {"machine": core.using(**{d: s.value * times for d, s in core.peaks.items()})}
    elif name == "facts":
        clocks = ("vector_clock", "scalar_clock", "gpsimd_clock", "dma_engine_theoretical")
        changed = {"machine": replace(core, facts={
            n: replace(s, value=s.value * times) if n in clocks else s
            for n, s in core.facts.items()})}
    else:
        value = table[name].value
        changed = {"constants": {name: value * times if table[name].unit == "B/s"
                                 else value / times}}
    before = predict(run, buffers=buffers, without=without).time
    after = predict(run, **({"buffers": buffers, "without": without} | changed)).time
    assert after <= before * (1 + 1e-9)


def test_a_prediction_is_one_and_the_same():
    run = ran(5, "attention_fused", (128, 512), (128, 512), (512, 128))
    one, other = (predict(run).profile for _ in range(2))
    assert one.summary == other.summary
    for table in ("instructions", "packets", "throttles"):
        a, b = getattr(one.timeline, table), getattr(other.timeline, table)
        assert all(np.array_equal(getattr(a, n), getattr(b, n)) for n in vars(a))


# --- the ideal machine ---------------------------------------------------------------------------


@pytest.mark.parametrize("chip", CHIPS)
def test_without_any_mechanism_a_copy_takes_its_t_best(chip):
    """Both DMA directions share the engines, and nothing else takes time."""
    p = predict(ran(4, "copy", (16, 128, 2048), target=chip), without="all")
    assert p.time == close(p.t_best) == close(
        2 * 16 * 128 * 4096 / (16 * machine.get(chip).facts["dma_engine_theoretical"].value) * 1e9)


@pytest.mark.parametrize("chip", CHIPS)
def test_without_any_mechanism_resident_matmuls_wait_for_the_first_and_last_transfer(chip):
    """T = T_best + the loads before the first matmul + the last bank's way out: no more.

    K = 128: one load of A, one of B, then 16 x 1 matmuls of full tiles into one bank."""
    run = ran(4, "resident_matmul", (128, 128), (128, 512), target=chip, repeat=64)
    p = predict(run, without="all")
    core = machine.get(chip)
    engines = 16 * core.facts["dma_engine_theoretical"].value
    load = 1e9 * 128 * (128 + 512) * 2 / engines
    store = 1e9 * 128 * 512 * 4 / engines
    evict = 512 / (core.facts["vector_clock"].value / 1e9)
    W = 1e9 * 2 * 128 * 128 * 512 * 64 / core.peak("bf16")
    assert p.t_best == close(W)
    assert p.time == close(load + W + evict + store)


def test_prediction_names_machine_and_clock():
    p = predict(ran(4, "copy", (4, 128, 2048)))
    assert p.machine.bw() == 16 * 27.2e9
    assert p.clock == "total_time of a profile"
    c = NS["trn2"]
    assert p.benchmark == close(p.time - c["start"] - c["end"] + c["benchmark"])
    assert "modelled" in repr(p) and "buffers 2" in repr(p) and "lnc2" not in repr(p)


def row_of(p, name):
    """Cells of the first line of a prediction's table that begins with this."""
    return next(line.split(maxsplit=3) for line in repr(p).splitlines()
                if line.strip().startswith(name))


def test_a_prediction_says_where_its_time_goes():
    run = ran(4, "copy", (8, 128, 2048))
    p = predict(run)
    assert row_of(p, "T_best")[3].startswith(f"{p.t_best / p.time:.0%} of the time")
    assert "435.2 GB/s" in repr(p) and "nothing overlapped" in repr(p)
    assert f"start {units.show(p.shares['start'] / 1e9, 's')}" in repr(p)
    c = NS["trn2"]
    assert p.shares["start"] == close(c["start"] + c["end"])
    assert p.shares == {m: close(p.time - predict(run, without=m).time) for m in MECHANISMS}
    assert "start" not in predict(run, without="start").shares
    fitted = sum(row.kind == "fitted" for row in constants(machine.trn2).values())
    assert f"{fitted} fitted" in repr(p) and "copy" in repr(p)
    assert "no mechanism" in repr(predict(run, without="all"))
    assert "no published time" in repr(predict(ran(4, "copy", (8, 128, 2048), target="trn3")))


# --- one cause at a time -------------------------------------------------------------------------


def causes(p):
    """Cause -> ns of the ledger of a prediction."""
    ledger = gaps.ledger(p.profile, p.machine, p.run.count)
    return {row.cause: row.time for row in ledger.rows}


def grown(with_it, without_it, least=5):
    """What the ledger's causes take more, where it is over 5 ns: rounding of rows is less."""
    a, b = causes(with_it), causes(without_it)
    found = {c: a.get(c, 0) - b.get(c, 0) for c in {*a, *b}}
    return {c: ns for c, ns in found.items() if abs(ns) > least}


def but(*names):
    """All mechanisms off but these."""
    return tuple(m for m in MECHANISMS if m not in names)


def test_start_up_is_start_and_end():
    run = ran(4, "resident_matmul", (128, 128), (128, 512), repeat=64)
    more = grown(predict(run, without=but("start")), predict(run, without="all"))
    assert more == {"start": pytest.approx(NS["trn2"]["start"], abs=2),
                    "end": pytest.approx(NS["trn2"]["end"], abs=2)}


def test_throttling_is_throttle():
    run = ran(4, "resident_matmul", (128, 128), (128, 512), repeat=128)
    more = grown(predict(run, without=but("throttle")), predict(run, without="all"))
    assert more == {"throttle": pytest.approx(NS["trn2"]["throttle"] / 2, abs=3)}


@pytest.mark.parametrize(("K", "M", "N", "cause"), [
    (64, 128, 480, "small tiles"), (128, 32, 480, "small tiles"), (128, 128, 32, "short moving")])
def test_small_tiles_are_small_tiles(K, M, N, cause):
    """n matmuls of a part of the array take as long as full ones; their credit is the part.

    Starts are cut to whole ns, and what a slot is then too long or too short is pipeline: under
    1 ns a matmul, none where N / 2.4 GHz is whole.
    """
    n = 200
    few, many = (predict(ran(4, "moving_sweep", (K, M), (K, N), n=k), without="all")
                 for k in (100, 100 + n))
    lost = n * (max(N, 64) / CLOCK - K * M * N / (128 * 128 * CLOCK))
    found = grown(many, few, least=5 if N == 480 else n / 2)
    assert found == {cause: pytest.approx(lost, rel=0.02)}


def test_matmul_overhead_is_pipeline():
    run = ran(4, "resident_matmul", (128, 128), (128, 512), repeat=1000)
    more, none = (predict(run, without=but("matmul"), constants={"matmul": ns * 1e-9})
                  for ns in (20, 0))
    more = grown(more, none)
    assert more == {"pipeline": pytest.approx(1000 * 20, abs=5)}


@nki.jit
def slow_step(a, b, n=8):
    """n matmuls, and after each a Vector step that the next one needs."""
    at, bt = (nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.sbuf) for t in (a, b))
    nisa.dma_copy(dst=at, src=a)
    nisa.dma_copy(dst=bt, src=b)
    for _ in range(n):
        total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=at, moving=bt)
        bt = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=bt, src=total, engine=nisa.engine.vector)
    c = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=c, src=bt)
    return c


def test_a_slow_vector_step_is_a_wait_for_vector():
    shapes = [((128, 128), "bf16"), ((128, 512), "bf16")]
    few, many = (predict(nki.run(slow_step, *shapes, n=n, data=False), without="all")
                 for n in (13, 33))
    assert grown(many, few) == {"wait for vector": pytest.approx(20 * 512 / 0.96, abs=5)}


@nki.jit
def streamed(a, b):
    """Four matmuls for each tile of B that comes in, all into one bank."""
    at = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=at, src=a)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for i in range(b.shape[0]):
        b_tile = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=b_tile, src=b[i])
        for j in range(4):
            nisa.nc_matmul(dst=total, stationary=at, moving=b_tile, accumulate=i + j > 0)
    out = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out, src=total)
    c = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=c, src=out)
    return c


def test_what_a_step_costs_besides_its_elements_is_a_wait_too():
    run = nki.run(slow_step, ((128, 128), "bf16"), ((128, 512), "bf16"), n=30, data=False)
    ideal = predict(run, without="all")
    more = grown(predict(run, without=but("instruction")), ideal)
    last = NS["trn2"]["vector"]  # after the last matmul there is only the way out
    assert more == {"wait for vector": pytest.approx(29 * last, abs=5),
                    "tail": pytest.approx(last, abs=5)}
    # 30 starts cut to whole ns
    loads = predict(run, without=but("matmul"), constants={"matmul": 0.0})
    more = grown(loads, ideal, least=30)
    assert more == {"weight load": pytest.approx(30 * 128 / 4 / CLOCK, abs=30)}


def test_short_transfers_wait_for_their_issue():
    """A row of 64 B is over long before the next transfer is issued, 0.6 us after this one."""
    run = ran(4, "write", (64, 128, 32), elements=32)
    more = grown(predict(run, without=but("issue")), predict(run, without="all"))
    assert more["DMA issue"] == pytest.approx(sum(more.values()), rel=0.03)
    assert more["DMA issue"] == pytest.approx(63 * 600, rel=0.05)


def test_slow_engines_are_packet_cost():
    run = ran(4, "copy", (64, 128, 2048), target="trn1")
    more = grown(predict(run, without=but("rates")), predict(run, without="all"))
    rate = constants(machine.trn1)["engine_mixed"].value / 1e9
    lost = run.count.hbm_bytes / 16 * (1 / rate - 1 / PORT)
    assert more == {"packet cost": pytest.approx(lost, rel=1e-3)}


def test_one_buffer_is_waiting_for_transfers():
    """The next tile cannot come before the matmuls of the one before it are over."""
    run = nki.run(streamed, ((128, 128), "bf16"), ((20, 128, 512), "bf16"), data=False)
    one, many = (predict(run, buffers=n, without=but("buffers")) for n in (1, None))
    load = 128 * 512 * 2 / (16 * PORT)  # less than four matmuls: otherwise all of it is hidden
    assert load < 4 * 512 / CLOCK
    assert grown(one, many, least=10) == {"wait for DMA": pytest.approx(19 * load, abs=10)}


def test_latency_of_a_copy_is_dma_latency():
    """One buffer, so every transfer waits for the one before; nothing runs meanwhile."""
    run = ran(4, "copy", (16, 128, 2048))
    more = grown(predict(run, without=but("latency", "buffers"), buffers=1),
                 predict(run, without="all"))
    c = NS["trn2"]
    fixed = c["dma_latency"] + c["dma_receipt"]
    assert sum(more.values()) == pytest.approx(32 * fixed, abs=5)
    assert more == {"fill": pytest.approx(c["dma_latency"], abs=2),
                    "end": pytest.approx(c["dma_receipt"], abs=2),
                    "DMA latency": pytest.approx(31 * fixed, abs=5)}


def test_extra_bytes_of_a_memory_bound_kernel_are_extra_bytes():
    """The code loads A and B again and again; the count is of each byte once."""
    run = ran(5, "matmul_reload", (1024, 1024), (1024, 1024))
    p = predict(run, without="all", buffers=None)
    least = Count(run.count.work, 2 * 1024 * 1024 * 2, 1024 * 1024 * 2)
    own, more = (gaps.ledger(p.profile, p.machine, count, roof="memory")
                 for count in (run.count, least))
    extra = run.count.hbm_bytes - least.hbm_bytes
    difference = more - own
    assert {c for c in difference.causes if abs(difference[c]) > 5} == {"extra bytes"}
    assert difference["extra bytes"] == pytest.approx(extra / (16 * PORT))


def test_packets_and_engines_of_a_copy():
    run = ran(4, "copy", (64, 128, 2048))
    ideal = predict(run, without="all")
    more = grown(predict(run, without=but("packets")), ideal)
    assert more == {"packet cost": pytest.approx(2 * 64 * 8 * NS["trn2"]["packet"], abs=5)}
    half = ran(4, "copy", (64, 64, 2048), partitions=64)
    more = grown(predict(half, without=but("engines")), predict(half, without="all"))
    assert more == {"few engines": pytest.approx(2 * 64 * 8 * 4096 / PORT / 2, abs=5)}


# --- two cores -----------------------------------------------------------------------------------


def test_two_cores_of_half_the_work_each():
    one, two = (ran(6, "linear", (512, 2048), (512, 512), lnc=lnc) for lnc in (1, 2))
    p, q = predict(one, without="all"), predict(two, without="all")
    assert q.time < 0.6 * p.time and q.t_best == close(p.t_best / 2 + (
        0.0 if q.machine.entitle(two.count).binds == "compute" else math.nan))
    timeline = q.profile.timeline
    assert (timeline.cores, timeline.working) == (2, (0, 1))
    assert q.machine.bw() == 2 * 16 * 27.2e9


def test_both_cores_share_the_stack():
    """Each alone could have 435 GB/s; together they have the pair's 750."""
    run = ran(4, "copy", (64, 128, 2048), lnc=2)
    pair = machine.get("trn2", "lnc2").bw()
    p = predict(run, without=but("rates"))
    assert p.time == close(1e9 * run.count.hbm_bytes / pair)


@nki.jit
def lonely(x):
    """All of it on core 0."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=y, src=tile)
    return y


def test_one_core_of_a_pair_may_do_all_the_work():
    alone, pair = (nki.run(lonely, ((128, 2048), "bf16"), lnc=lnc, data=False) for lnc in (1, 2))
    p = predict(pair)
    assert p.time == predict(alone).time
    assert p.profile.timeline.working == (0,) and p.profile.cores == 2


@nki.jit
def handed_over(x, n=1):
    """Core 0 writes, both meet, core 1 reads what it wrote."""
    between = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=between, src=tile)
    nisa.core_barrier(data=between, cores=(0, 1))
    if nl.program_id(0) == 1:
        nisa.dma_copy(dst=tile, src=between)
        nisa.dma_copy(dst=y, src=tile)
    return y


def test_after_a_barrier_nothing_starts_before_both_came():
    p = predict(nki.run(handed_over, ((128, 2048), "bf16"), lnc=2, data=False), buffers=None)
    c = NS["trn2"]
    stack = 16 * min(PORT, machine.get("trn2", "lnc2").bw() / 2e9 / 16)
    once = c["dma_latency"] + 8 * c["packet"] + 128 * 4096 / stack + c["dma_receipt"]
    assert p.time == close(c["start"] + 4 * once + c["latency"] + c["end"])


def test_an_exchange_waits_for_both_cores():
    run = ran(6, "linear_w_once", (512, 1024), (512, 512), lnc=2)
    p = predict(run)
    at = [i for i, issued in enumerate(p.graph.issued) if issued[0].opcode == "sendrecv"]
    assert len(at) == 2 and p.graph.after[at[0]] == p.graph.after[at[1]]
    assert {p.graph.core[i] for i in p.graph.after[at[0]]} == {0, 1}


# --- the profile ---------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [
    ran(5, "attention_fused", (128, 512), (128, 512), (512, 128), dtype="fp32"),
    ran(6, "linear", (256, 1024), (256, 512), lnc=2),
    ran(7, "swiglu", (512, 128), (512, 128), (512, 128), (128, 512), target="trn1"),
    ran(4, "copy", (4, 128, 2048), target="trn3"),
], ids=lambda run: f"{run.kernel}-{run.target.key}")
def test_the_profile_is_one(run):
    """Its figures follow by the profiler's formulas, its counts are the run's."""
    p = predict(run)
    made = p.profile
    assert (made.kind, made.cores) == ("modelled", run.lnc)
    assert all(row.agrees is not False for row in made.check().rows)
    timeline, own = made.timeline, made.timeline.instructions
    assert timeline.end == math.floor(p.time) and made.summary["total_time"] == p.time / 1e9
    assert max(own.end.max(), timeline.packets.end.max(initial=0)) <= timeline.end
    assert own.read.sum() == made.summary["hbm_read_bytes"] == run.count.hbm_read_bytes
    assert own.written.sum() == made.summary["hbm_write_bytes"] == run.count.hbm_write_bytes
    assert timeline.packets.nbytes[timeline.packets.traffic].sum() == run.count.hbm_bytes
    useful = ~own.transpose & (own.macs > 0)
    assert sum(2 * (own.macs[useful] / own.passes[useful])) == run.count.flops
    assert made.count == run.count
    for name in ENGINES:
        assert made.summary[f"{name}_engine_active_time"] == timeline.activity(name).length / 1e9
    transfers = own.issues
    for row in range(len(own)):  # a transfer is over when its packets are, later than its row
        waits = own.predecessors(row)
        assert (own.end[waits][~transfers[waits]] <= own.start[row] + 1).all()
        assert (own.start[waits] <= own.start[row]).all()


def scaled(x, gamma):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    factor = nl.ndarray(gamma.shape, dtype=gamma.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=factor, src=gamma)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=y, src=tile)
    return y


def test_one_number_a_partition_is_a_packet_too(tmp_path):
    """128 packets of 4 bytes, as short as a semaphore: they are in the DMA's active time."""
    made = predict(nki.run(scaled, ((128, 512), "bf16"), ((128, 1), "fp32"), data=False)).profile
    assert (made.timeline.packets.nbytes == 4).sum() == 128
    for one in (made, profile.read(write(made, tmp_path / "scaled.json"))):
        assert all(row.agrees is not False for row in one.check().rows)



@pytest.mark.parametrize("format", ["json", "parquet"])
def test_it_is_written_and_read_as_a_profile(tmp_path, format):
    made = predict(ran(5, "attention_fused", (128, 512), (128, 512), (512, 128))).profile
    path = tmp_path / ("modelled.json" if format == "json" else "modelled")
    write(made, path, format=format)
    back = profile.read(path)
    assert back.kind == "modelled" and back.summary == made.summary
    a, b = made.timeline.instructions, back.timeline.instructions
    for column in ("core", "engine", "start", "end", "macs", "moving", "passes", "transpose", "id"):
        assert np.array_equal(getattr(a, column), getattr(b, column)), column


def test_packets_bear_the_id_of_the_row_that_issued_them():
    own = predict(ran(5, "attention_fused", (128, 512), (128, 512), (512, 128))).profile.timeline
    rows, packets = own.instructions, own.packets
    assert len({*rows.id.tolist()}) == len(rows)
    columns = (rows.id, rows.start, rows.read + rows.written)
    issued = {i: (start, moved) for i, start, moved in zip(
        *(column[rows.issues].tolist() for column in columns), strict=True)}
    assert {*packets.id.tolist()} == {*issued}
    for i, (start, moved) in issued.items():
        mine = packets.id == i
        assert packets.nbytes[mine].sum() == moved and packets.start[mine].min() >= start


@nki.jit
def on_one_core(x):
    y = nl.ndarray(x.shape, x.dtype, nl.shared_hbm, name="y")
    if nl.program_id(0) == 0:
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=y, src=tile)
    return y


def test_a_pair_of_which_one_core_works_is_entitled_to_one():
    p = predict(nki.run(on_one_core, ((128, 2048), "bf16"), lnc=2, data=False))
    assert p.t_best == close(2 * 128 * 2048 * 2 / (16 * PORT))
    assert gaps.ledger(p, p.machine, p.run).t_best == close(p.t_best)


def test_rows_name_opcodes_and_lines_as_the_profiler_does():
    own = predict(ran(5, "attention_fused", (128, 512), (128, 512), (512, 128))
                  ).profile.timeline.instructions
    assert {*own.opcodes} == {"DMA_DIRECT2D", "LDWEIGHTS", "MATMUL", "COPY", "TENSOR_REDUCE",
                              "ACTIVATE", "ACT_READ_ACCUMULATOR", "RECIPROCAL", "TENSOR_SCALAR"}
    assert all(line.startswith("kernels.py:") for line in own.lines[1:])
    assert own.is_opcode("MATMUL").sum() == own.is_opcode("LDWEIGHTS").sum()


# --- what it refuses, and its table --------------------------------------------------------------


@pytest.mark.parametrize(("options", "said"), [
    ({"without": ("luck",)}, "no mechanism 'luck'"),
    ({"constants": {"luck": 1.0}}, "no constant 'luck'"),
    ({"constants": {"start": -1.0}}, "start = -1.0"),
    ({"constants": {"engine_read": math.nan}}, "engine_read = nan"),
    ({"constants": {"engine_read": 0.0}}, "engine_read = 0.0; expected a number > 0 in B/s"),
    ({"buffers": 0}, "buffers: got 0"),
    ({"buffers": {"tile": 1.5}}, "buffers: got 1.5"),
    ({"buffers": {"title": 2}}, "no tile 'title'; this kernel has psum, sbuf, tile"),
    ({"machine": machine.trn1}, "machine.trn2"),
    ({"machine": "trn2"}, "got 'trn2'"),
    ({"without": None}, "without: got None"),
    ({"constants": {"start": "1 us"}}, "start = '1 us'"),
    ({"machine": machine.get("trn2", "device")}, "scope device"),
])
def test_it_says_what_it_cannot_take(options, said):
    with pytest.raises(ModelError, match=said):
        predict(ran(4, "copy", (4, 128, 2048)), **options)


def test_it_takes_a_run_and_nothing_else():
    with pytest.raises(ModelError, match=r"nki.run\(kernel"):
        predict(ran(4, "copy", (4, 128, 2048)).count)


@nki.jit
def nothing(x):
    return x


def test_a_kernel_without_instructions_takes_its_start_and_its_end():
    p = predict(nki.run(nothing, ((128, 128), "bf16"), data=False))
    assert p.time == close(NS["trn2"]["start"] + NS["trn2"]["end"]) == close(p.serial)
    assert not len(p.profile.timeline.instructions) and p.t_best == 0


@pytest.mark.parametrize("chip", CHIPS)
def test_at_most_ten_constants_of_a_chip_are_fitted(chip):
    table = constants(machine.get(chip))
    assert {*table} == {*constants(machine.trn2)}
    assert all(row.kind in ("fitted", "documented", "assumed") and row.holds and row.value >= 0
               for row in table.values())
    assert sum(row.kind == "fitted" for row in table.values()) <= 10


def test_the_roof_is_what_the_dma_engines_are_documented_for():
    assert roof(machine.trn2).bw() == 16 * 27.2e9 == 435.2e9
    assert roof(machine.trn2, 2).peak("bf16") == 2 * machine.trn2.peak("bf16")
    assert neuroncore.predict is predict
