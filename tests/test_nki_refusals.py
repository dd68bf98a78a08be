"""What the hardware or the documents refuse: each with what, got, limit, next step and the line.

The capacity rules are lower bounds: what could lie in the memory in some way is never refused.
"""

import itertools
import math
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofline.nki.isa as nisa
import roofline.nki.language as nl
from roofline import nki

F32, BF16 = np.float32, ml_dtypes.bfloat16
KIB = 1024
X = np.zeros((4, 4), F32)


def sb(*shape, dtype="bf16"):
    return nl.ndarray(shape, dtype, buffer=nl.sbuf, name="t")


def ps(*shape, dtype="fp32"):
    return nl.ndarray(shape, dtype, buffer=nl.psum, name="acc")


def hbm(*shape, dtype="bf16", buffer=nl.shared_hbm):
    return nl.ndarray(shape, dtype, buffer=buffer, name="h")


def fill(tile):
    """Write a tile by DMA, which has no limit of elements as the engines have."""
    nisa.dma_copy(tile, nl.ndarray(tile.shape, tile.dtype, buffer=nl.private_hbm))


def take(tile):
    """Read a tile."""
    nisa.dma_copy(hbm(1, dtype="int8"), tile[0:1, 0:1])


def refused(kernel, *args, **options):
    """The lines of a refusal."""
    with pytest.raises(nki.NkiValidationError) as caught:
        nki.run(kernel, *args, **options)
    return str(caught.value).splitlines()


# target, one line of a kernel, and everything the error says. The numbers are the documents':
# pmax 128, stationary free 128, moving free 512, a PSUM bank 2 KiB a partition.
TABLE = [
    # --- partitions
    ("trn2", lambda: sb(129, 4),
     "nl.ndarray: got shape [129, 4] in sbuf; the partition dimension may be at most 128 (pmax). "
     "Split it into 2 tiles"),
    ("trn2", lambda: ps(300, 4),
     "nl.ndarray: got shape [300, 4] in psum; the partition dimension may be at most 128 (pmax). "
     "Split it into 3 tiles"),
    ("trn2", lambda: nisa.tensor_copy(sb(32, 4), sb(128, 4)[16:48]),
     "tensor_copy: src: got 32 partitions from partition 16; a tile of 32 partitions starts at a "
     "multiple of 32. Start it there, or copy it with nisa.dma_copy"),
    ("trn2", lambda: nisa.tensor_copy(sb(64, 4), sb(128, 4)[32:96]),
     "tensor_copy: src: got 64 partitions from partition 32; a tile of 64 partitions starts at a "
     "multiple of 64. Start it there, or copy it with nisa.dma_copy"),
    ("trn2", lambda: nisa.tensor_copy(sb(96, 4), sb(128, 4)[32:128]),
     "tensor_copy: src: got 96 partitions from partition 32; a tile of 96 partitions starts at a "
     "multiple of 128. Start it there, or copy it with nisa.dma_copy"),
    # --- matmul: limits of its operands
    ("trn2", lambda: nisa.nc_matmul(ps(128, 512), sb(128, 129), sb(128, 512)),
     "nc_matmul: stationary: got [128, 129]; its free dim may be at most 128 "
     "(gemm_stationary_fmax). Split M into 2 tiles"),
    ("trn2", lambda: nisa.nc_matmul(ps(128, 512), sb(128, 128), sb(128, 513)),
     "nc_matmul: moving: got [128, 513]; its free dim may be at most 512 (gemm_moving_fmax). "
     "Split N into 2 tiles"),
    ("trn1", lambda: nisa.nc_matmul(ps(128, 512), sb(128, 128), sb(128, 2048)),
     "nc_matmul: moving: got [128, 2048]; its free dim may be at most 512 (gemm_moving_fmax). "
     "Split N into 4 tiles"),
    ("trn3", lambda: nisa.nc_matmul(ps(128, 512), sb(128, 128), sb(128, 4097)),
     "nc_matmul: moving: got [128, 4097]; its free dim may be at most 4096 (gemm_moving_fmax). "
     "Split N into 2 tiles"),
    ("trn2", lambda: nisa.nc_matmul(ps(64, 512), sb(128, 64), sb(64, 512)),
     "nc_matmul: got stationary [128, 64], moving [64, 512]; the contraction (partition) sizes "
     "must be equal."),
    ("trn2", lambda: nisa.nc_matmul(ps(128, 512), sb(128, 64), sb(128, 512)),
     "nc_matmul: dst: got [128, 512]; stationary [128, 64] and moving [128, 512] give [64, 512]."),
    # --- matmul: where operands are
    ("trn2", lambda: nisa.nc_matmul(sb(64, 512, dtype="fp32"), sb(128, 64), sb(128, 512)),
     "nc_matmul: dst: got [64, 512] float32 in sbuf; it must be in psum. Allocate it "
     "with buffer=nl.psum"),
    ("trn2", lambda: nisa.nc_matmul(ps(64, 512), hbm(128, 64), sb(128, 512)),
     "nc_matmul: stationary: got [128, 64] bfloat16 in shared_hbm; it must be in sbuf. Bring it "
     "there with nisa.dma_copy"),
    ("trn2", lambda: nisa.nc_matmul(ps(64, 512), sb(128, 64, dtype="fp32"), ps(128, 512)),
     "nc_matmul: moving: got [128, 512] float32 in psum; it must be in sbuf. Copy it with "
     "nisa.tensor_copy"),
    # --- matmul: dtypes
    ("trn2", lambda: nisa.nc_matmul(ps(64, 512), sb(128, 64, dtype="fp32"), sb(128, 512)),
     "nc_matmul: got nl.float32 x nl.bfloat16; float32 or tfloat32 goes only with float32 or "
     "tfloat32. Cast one of them"),
    ("trn2", lambda: nisa.nc_matmul(ps(64, 512), sb(128, 64, dtype="int8"), sb(128, 512)),
     "nc_matmul: stationary: got nl.int8; one of float8_e4m3, float8_e4m3fn, float8_e5m2, "
     "bfloat16, float16, tfloat32, float32. Cast it while loading: nisa.dma_copy"),
    ("trn2", lambda: nisa.nc_matmul(ps(64, 512, dtype="bf16"), sb(128, 64), sb(128, 512)),
     "nc_matmul: dst: got nl.bfloat16; on NeuronCore-v3 (trn2) PSUM takes float32. Cast while "
     "evicting: nisa.tensor_copy"),
    ("trn2", lambda: nisa.nc_matmul(ps(64, 512), sb(128, 64, dtype="float8_e4m3fn"),
                                    sb(128, 512, dtype="float8_e4m3fn")),
     "nc_matmul: stationary: float8_e4m3fn: got NeuronCore-v3 (trn2); it exists from NeuronCore-v4 "
     'on. Run with another target="..." or use an older instruction'),
    # --- PSUM: banks
    ("trn2", lambda: nisa.nc_matmul(ps(64, 1024)[:, 256:768], sb(128, 64), sb(128, 512)),
     "nc_matmul: dst: got bytes 1024 to 3071 of a partition; one matmul writes into one PSUM bank "
     "of 2048 B on NeuronCore-v3 (trn2). Let each output tile start at a bank"),
    ("trn2", lambda: ps(128, 4097),
     "nl.ndarray: [128, 4097] float32 in psum: got 16,388 B a partition; NeuronCore-v3 (trn2) has "
     "16,384 B. Split the free dimension into tiles"),
    # --- SBUF: one tile
    ("trn1", lambda: sb(1, 192 * KIB + 1, dtype="int8"),
     "nl.ndarray: [1, 196609] int8 in sbuf: got 196,609 B a partition; NeuronCore-v2 (trn1) has "
     "196,608 B. Split the free dimension into tiles"),
    ("trn2", lambda: sb(1, 224 * KIB + 1, dtype="int8"),
     "nl.ndarray: [1, 229377] int8 in sbuf: got 229,377 B a partition; NeuronCore-v3 (trn2) has "
     "229,376 B. Split the free dimension into tiles"),
    ("trn3", lambda: sb(1, 256 * KIB + 1, dtype="int8"),
     "nl.ndarray: [1, 262145] int8 in sbuf: got 262,145 B a partition; NeuronCore-v4 (trn3) has "
     "262,144 B. Split the free dimension into tiles"),
    # --- DMA
    ("trn2", lambda: nisa.dma_copy(hbm(64, 512, dtype="fp32"), ps(64, 512)),
     "dma_copy: src: got [64, 512] float32 in psum; DMA reaches HBM and SBUF only. Copy it to SBUF "
     "with nisa.tensor_copy first"),
    ("trn2", lambda: nisa.dma_copy(ps(64, 512), hbm(64, 512, dtype="fp32")),
     "dma_copy: dst: got [64, 512] float32 in psum; DMA reaches HBM and SBUF only. Copy it to SBUF "
     "with nisa.tensor_copy first"),
    ("trn2", lambda: nisa.dma_copy(sb(64, 512), hbm(64, 511)),
     "dma_copy: got dst [64, 512] = 32768 elements, src [64, 511] = 32704; as many elements on "
     "both sides."),
    ("trn1", lambda: nisa.dma_copy(sb(4, 4), hbm(4, 4), dge_mode=nisa.dge_mode.hwdge),
     "dma_copy: dge_mode.hwdge: got NeuronCore-v2 (trn1); it exists from NeuronCore-v3 on. Run "
     'with another target="..." or use an older instruction'),
    ("trn2", lambda: nisa.dma_copy(sb(4, 4, dtype="fp32"), hbm(4, 4),
                                   dge_mode=nisa.dge_mode.hwdge),
     "dma_copy: dge_mode.hwdge: got nl.bfloat16 to nl.float32; the hardware generator neither "
     "casts nor gathers. Use dge_mode.unknown"),
    # --- dtypes
    ("trn2", lambda: sb(4, 4, dtype=np.float64),
     "nl.ndarray: dtype: got 'float64'; NKI has bool_, int8, int16, int32, uint8, uint16, uint32, "
     "float16, float32, bfloat16, tfloat32, float8_e4m3, float8_e4m3fn, float8_e5m2, "
     "float8_e8m0fnu, float8_e5m2_x4, float8_e4m3fn_x4, float4_e2m1fn_x4. Convert the array before "
     "the call"),
    ("trn2", lambda: hbm(100_000, 600_000),
     "nl.ndarray: [100000, 600000] bfloat16 in shared_hbm: got 120,000,000,000 B; a device of trn2 "
     "has 103,079,215,104 B of HBM."),
    ("trn2", lambda: nl.ndarray((4, 4), "fp32", buffer="sbuf"),
     "nl.ndarray: buffer: got 'sbuf'; nl.sbuf, nl.psum, nl.private_hbm or nl.shared_hbm."),
    ("trn2", lambda: nl.ndarray((4, 4), "fp32", name=X),
     "nl.ndarray: name: got ndarray; a string."),
    # --- addresses
    ("trn2", lambda: nl.ndarray((4, 4), "fp32", address=(0, 0, 0)),
     "nl.ndarray: address: got (0, 0, 0); (partition, byte), two whole numbers."),
    ("trn2", lambda: nl.ndarray((4, 4), "fp32", address=(-1, 0)),
     "nl.ndarray: address: got (-1, 0); (partition, byte) inside 128 x 229,376 B, in PSUM at the "
     "start of a bank of 2,048 B."),
    ("trn2", lambda: nl.ndarray((4, 4), "fp32", buffer=nl.psum, address=(0, 1024)),
     "nl.ndarray: address: got (0, 1024); (partition, byte) inside 128 x 16,384 B, in PSUM at the "
     "start of a bank of 2,048 B."),
    # --- two cores
    ("trn2", lambda: nisa.core_barrier(hbm(4, 4), (0, 1)),
     "core_barrier: got a kernel on one core; it needs the two cores of LNC=2. Launch kernel[2], "
     "or ask nl.num_programs() first"),
    ("trn1", lambda: nisa.core_barrier(hbm(4, 4), (0, 1)),
     "core_barrier: got NeuronCore-v2 (trn1); it exists from NeuronCore-v3 on. Run with another "
     'target="..." or use an older instruction'),
    ("trn2", lambda: nisa.sendrecv(sb(4, 4), sb(4, 4), 1, 1, 0),
     "sendrecv: got a kernel on one core; it needs the two cores of LNC=2. Launch kernel[2], or "
     "ask nl.num_programs() first"),
]


@pytest.mark.parametrize(("target", "line", "said"), TABLE,
                         ids=[said.split(";")[0][:60] for _, _, said in TABLE])
@pytest.mark.parametrize("data", [True, False], ids=["data", "shapes"])
def test_the_table_of_refusals(target, line, said, data):
    def kernel(x):
        line()
        return x

    message, where = refused(kernel, X, target=target, data=data)
    assert message == said
    assert where.startswith("  test_nki_refusals.py, line ")


@pytest.mark.parametrize(("target", "line"), [
    # the same at their limits
    ("trn2", lambda: (sb(128, 4), ps(128, 4096))),
    ("trn2", lambda: nisa.nc_matmul(ps(128, 512), sb(128, 128), sb(128, 512))),
    ("trn3", lambda: nisa.nc_matmul(ps(128, 4096), sb(128, 128), sb(128, 4096))),
    ("trn3", lambda: nisa.nc_matmul(ps(128, 8192, dtype="bf16"), sb(128, 128), sb(128, 8192))),
    ("trn2", lambda: nisa.nc_matmul(ps(64, 1024)[:, 512:], sb(128, 64), sb(128, 512))),
    ("trn2", lambda: nisa.tensor_copy(sb(32, 4), sb(128, 4)[96:128])),
    ("trn2", lambda: nisa.tensor_copy(sb(64, 4), sb(128, 4)[64:128])),
    ("trn2", lambda: nisa.tensor_copy(sb(128, 4), sb(128, 4))),
    ("trn1", lambda: sb(128, 192 * KIB, dtype="int8")),
    ("trn2", lambda: sb(128, 224 * KIB, dtype="int8")),
    ("trn3", lambda: sb(128, 256 * KIB, dtype="int8")),
    ("trn2", lambda: nisa.dma_copy(sb(64, 512), hbm(512, 8, 8))),
])
def test_what_is_at_a_limit_passes(target, line):
    def kernel(x):
        line()
        return x

    assert nki.run(kernel, X, target=target, data=False).outputs == ()


# --- results and files -------------------------------------------------------------------------


@pytest.mark.parametrize(("buffer", "name"), [
    (nl.sbuf, "sbuf"), (nl.psum, "psum"), (nl.private_hbm, "private_hbm"), (nl.hbm, "private_hbm")])
def test_a_result_lies_in_shared_hbm(buffer, name):
    assert refused(lambda x: hbm(4, 4, buffer=buffer), X) == [
        f"<lambda>: result h: got a tensor in {name}; a result lies in shared_hbm. Allocate it "
        "with buffer=nl.shared_hbm and dma_copy into it"]


@pytest.mark.parametrize("data", [True, False])
def test_a_result_is_written(data):
    assert refused(lambda x: hbm(4, 4), X, data=data) == [
        "<lambda>: result h [4, 4]: got none of it written; a result is written in full. Store it "
        "with nisa.dma_copy"]


@pytest.mark.parametrize("text", [
    "import neuronxcc.nki", "import neuronxcc.nki as nki", "from neuronxcc import nki",
    "import neuronxcc.nki.language as nl", "from neuronxcc.nki.isa import nc_matmul",
    "from neuronxcc.nki import *"])
def test_the_old_namespace_is_refused(tmp_path, text):
    file = tmp_path / "old.py"
    file.write_text(f"import numpy\n{text}\n")
    with pytest.raises(nki.NkiValidationError) as caught:
        nki.load(file)
    message = str(caught.value)
    assert "old.py, line 2: import neuronxcc.nki: got 'neuronxcc" in message
    assert "an error since Neuron SDK 2.30 (NKI 0.4.0). Write `import nki`" in message


def test_the_old_namespace_inside_a_kernel_is_refused(tmp_path):
    file = tmp_path / "old.py"
    file.write_text(dedent("""
        import nki

        @nki.jit
        def kernel(x):
            import neuronxcc.nki.language as nl
            return x
    """))
    message, where = refused(nki.load(file).kernel, X)
    assert "an error since Neuron SDK 2.30" in message
    assert where == "  old.py, line 6 of kernel: import neuronxcc.nki.language as nl"


# --- what is alive together --------------------------------------------------------------------

CAPACITY = {"trn1": 192 * KIB, "trn2": 224 * KIB, "trn3": 256 * KIB}  # bytes of a partition
NAMES = {"trn1": "NeuronCore-v2 (trn1)", "trn2": "NeuronCore-v3 (trn2)",
         "trn3": "NeuronCore-v4 (trn3)"}


def together(x, tiles):
    """Writes all tiles, then reads them: (partitions, bytes of a partition) each."""
    held = []
    for i, (partitions, nbytes) in enumerate(tiles):
        tile = nl.ndarray((partitions, nbytes), "int8", name=f"t{i}")
        fill(tile)
        held.append(tile)
    for tile in held:
        take(tile)
    return x


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_sbuf_of_each_generation(target):
    room = CAPACITY[target]
    fits, over = [(128, room // 4)] * 4, [(128, room // 4)] * 3 + [(128, room // 4 + 1)]
    run = nki.run(together, X, fits, target=target, data=False)
    assert run.sbuf_peak_bytes == 128 * room
    message, where = refused(together, X, over, target=target, data=False)
    assert message == (
        f"together: sbuf: got 4 live tiles of together {room + 1:,} B a partition; {NAMES[target]} "
        f"has {room:,}. Keep fewer alive at once, or smaller ones; the largest: "
        f"t3 [128, {room // 4 + 1}] int8 in sbuf; t0 [128, {room // 4}] int8 in sbuf; "
        f"t1 [128, {room // 4}] int8 in sbuf")
    assert ", line " in where and " of fill: nisa.dma_copy(tile, " in where


def test_a_kernel_that_fits_trn2_and_not_trn1():
    tiles = [(128, 200 * KIB)]
    assert refused(together, X, tiles, target="trn1", data=False)[0].startswith(
        "nl.ndarray: [128, 204800] int8 in sbuf: got 204,800 B a partition; NeuronCore-v2")
    tiles = [(128, 100 * KIB)] * 2
    assert "got 2 live tiles of together 204,800 B" in refused(
        together, X, tiles, target="trn1", data=False)[0]
    for target in ("trn2", "trn3"):
        nki.run(together, X, tiles, target=target, data=False)


# Four tiles of 32 partitions lie side by side; one of 33 to 64 takes two quarters, of 65 to 96
# three, beside which one of 32 finds room.
ROOM = CAPACITY["trn2"]


@pytest.mark.parametrize(("tiles", "fits"), [
    ([(32, ROOM)] * 4, True), ([(32, ROOM)] * 4 + [(1, 1)], False),
    ([(1, ROOM)] * 4, True), ([(1, ROOM)] * 5, False),
    ([(64, ROOM), (33, ROOM)], True), ([(64, ROOM), (33, ROOM), (1, 1)], False),
    ([(96, ROOM), (32, ROOM)], True), ([(96, ROOM), (33, ROOM)], False),
    ([(97, ROOM)], True), ([(97, ROOM), (1, 1)], False),
    ([(128, ROOM - 1), (1, 1), (1, 1), (32, 1), (17, 1)], True),
])
def test_quarters_of_the_partitions(tiles, fits):
    if fits:
        nki.run(together, X, tiles, data=False)
    else:
        assert "sbuf: got" in refused(together, X, tiles, data=False)[0]


def banks(x, tiles):
    """As `together`, in PSUM: (partitions, fp32 elements of a partition) each."""
    held = []
    for i, (partitions, elements) in enumerate(tiles):
        tile = nl.ndarray((partitions, elements), "fp32", buffer=nl.psum, name=f"p{i}")
        nisa.memset(tile, 0.0)
        held.append(tile)
    for tile in held:
        nisa.tensor_copy(nl.ndarray(tile.shape, "fp32"), tile)
    return x


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize(("tiles", "most"), [
    ([(128, 512)] * 8, 8), ([(128, 1)] * 8, 8), ([(128, 513)] * 4, 8), ([(32, 512)] * 32, 8),
    ([(64, 2048)] * 4, 8), ([(128, 4096)], 8), ([(128, 512)] * 3, 3)])
def test_psum_banks(target, tiles, most):
    run = nki.run(banks, X, tiles, target=target, data=False)
    assert run.psum_peak_banks == most
    if most == 8:
        message, where = refused(banks, X, [*tiles, (1, 1)], target=target, data=False)
        assert f"banks: psum: got {len(tiles) + 1} live tiles of together 9 banks; " \
               f"{NAMES[target]} has 8. Keep fewer alive at once" in message
        assert where.endswith("of banks: nisa.memset(tile, 0.0)")


def test_room_that_is_free_again_is_used_again():
    """Tiles of all of SBUF one after the other; also where one is written as the last is read."""
    def kernel(x):
        held = sb(128, ROOM, dtype="int8")
        fill(held)
        for _ in range(3):
            after = sb(128, ROOM, dtype="int8")
            nisa.dma_copy(after, held)  # in place of `held`, which nothing reads afterwards
            held = after
        take(held)
        return x

    assert nki.run(kernel, X, data=False).sbuf_peak_bytes == 2 * 128 * ROOM


def test_what_nothing_reads_takes_no_room():
    def kernel(x):
        for _ in range(3):
            fill(sb(128, ROOM, dtype="int8"))
        return x

    assert nki.run(kernel, X, data=False).sbuf_peak_bytes == 128 * ROOM


# A memory of 4 quarters x 4 units; tiles at a place and for a time such that no two overlap.
UNIT = ROOM // 4


@st.composite
def feasible(draw):
    """Tiles with the place and the time they have in a schedule that works."""
    tiles, taken = [], set()
    for _ in range(draw(st.integers(1, 12))):
        partitions = draw(st.sampled_from([1, 31, 32, 33, 64, 65, 96, 97, 128]))
        quarters = -(-partitions // 32)
        units = draw(st.integers(1, 4))
        at = (draw(st.integers(0, 4 - quarters)), draw(st.integers(0, 4 - units)))
        first = draw(st.integers(0, 9))
        last = draw(st.integers(first + 1, 10))
        # an instruction reads before it writes: the last step of one may be the first of another
        cells = set(itertools.product(range(at[0], at[0] + quarters), range(at[1], at[1] + units),
                                      range(first, last)))
        if not cells & taken:
            taken |= cells
            tiles.append((partitions, units * UNIT, first, last))
    return tiles


def scheduled(x, tiles):
    """Step by step: what ends at a step is read, then what begins there is written."""
    alive = {}
    for step in range(11):
        for i, (*_, last) in enumerate(tiles):
            if last == step:
                take(alive.pop(i))
        for i, (partitions, nbytes, first, _) in enumerate(tiles):
            if first == step:
                alive[i] = nl.ndarray((partitions, nbytes), "int8")
                fill(alive[i])
    return x


@settings(max_examples=150, deadline=None)
@given(feasible())
def test_what_could_fit_is_never_refused(tiles):
    assert nki.run(scheduled, X, tiles, data=False).sbuf_peak_bytes > 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(97, 128), st.integers(1, 2 * UNIT), st.integers(0, 9),
                          st.integers(1, 10)), min_size=1, max_size=12))
def test_what_cannot_fit_is_refused(drawn):
    """Tiles of all quarters lie one over the other, so the sum of those alive decides."""
    tiles = [(p, n, first, min(first + length, 10)) for p, n, first, length in drawn]
    most = max(sum(n for _, n, first, last in tiles if first <= step < last)
               for step in range(10))
    if most > ROOM:
        assert f"of together {most:,} B a partition" in refused(
            scheduled, X, tiles, data=False)[0]
    else:
        nki.run(scheduled, X, tiles, data=False)


# --- addresses of the kernel's choice ----------------------------------------------------------


def at(x, first, second, apart=False):
    """Two tiles at addresses, alive together or one after the other: (address, shape, dtype)."""
    tiles = []
    buffer = nl.psum if len(first) > 3 else nl.sbuf
    for i, (address, shape, dtype, *_) in enumerate((first, second)):
        tile = nl.ndarray(shape, dtype, buffer=buffer, address=address, name=f"t{i}")
        nisa.memset(tile, 0)
        tiles.append(tile)
        if apart:
            nisa.tensor_copy(nl.ndarray(shape, dtype), tile)
    if not apart:
        for tile in tiles:
            nisa.tensor_copy(nl.ndarray(tile.shape, tile.dtype), tile)
    return x


@pytest.mark.parametrize(("first", "second", "clash"), [
    (((0, 0), (128, 100), "int8"), ((0, 99), (128, 10), "int8"), True),
    (((0, 0), (128, 100), "int8"), ((0, 100), (128, 10), "int8"), False),
    (((0, 100), (128, 10), "int8"), ((0, 0), (128, 101), "int8"), True),
    (((0, 0), (32, 100), "int8"), ((32, 0), (32, 100), "int8"), False),
    (((0, 0), (64, 100), "int8"), ((32, 50), (32, 100), "int8"), True),
    # elements or bytes: the migration guide says both, so only what clashes in both is refused
    (((0, 0), (128, 100), "int32"), ((0, 100), (128, 10), "int32"), False),
    (((0, 0), (128, 100), "int32"), ((0, 400), (128, 10), "int32"), False),
    (((0, 0), (128, 100), "int32"), ((0, 99), (128, 10), "int32"), True),
    (((0, 0), (128, 512), "int32", 1), ((0, 2048), (128, 10), "int32", 1), False),
    (((0, 0), (128, 513), "int32", 1), ((0, 2048), (128, 10), "int32", 1), True),
])
def test_live_tiles_at_addresses_share_no_bytes(first, second, clash):
    nki.run(at, X, first, second, True, data=False)
    if clash:
        message, where = refused(at, X, first, second, data=False)
        assert message == (
            f"at: address of t1: got {second[0]}, on t0 at {first[0]}; two live tensors cannot "
            "share bytes. Give one of them another address, or leave the addresses out")
        assert where.endswith("of at: nisa.memset(tile, 0)")
    else:
        nki.run(at, X, first, second, data=False)


def test_many_addresses_take_no_long_time():
    """4,000 tiles in turn at one place: each is compared with what is alive, not with all."""
    def kernel(x):
        for _ in range(4000):
            tile = nl.ndarray((128, 4), "int8", address=(0, 0))
            nisa.memset(tile, 0)
            nisa.tensor_copy(sb(128, 4, dtype="int8"), tile)
        return x

    assert len(nki.run(kernel, X, data=False).trace) == 8000


def test_a_float_sum_of_bytes_is_not_used():
    """The largest capacity in bytes of a core is far below 2^53, and sums are integers."""
    assert math.prod((128, 256 * KIB)) < 2**53
    run = nki.run(together, X, [(128, 1)] * 3, data=False)
    assert type(run.sbuf_peak_bytes) is int and type(run.psum_peak_banks) is int
