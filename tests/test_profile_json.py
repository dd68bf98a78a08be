"""Profiles in JSON: real files where ../shared is there, and small ones written here."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from roofline import profile
from roofline.profile import ProfileError, columns
from roofline.timeline import DTYPES, ENGINES

# allenkchau/trainium-kernel-fusion (MIT), zhang677/AccelOpt and trnsci/trnblas (Apache-2.0).
REAL = Path(__file__).resolve().parents[2] / "shared/reference/real-profiles"
FULL = ("trn2-lnc2-attn-fused-bf16-s512.full.json", "trn2-lnc2-attn-fused-fp32-s512.full.json")
SMALL = tuple(f"trn2-lnc2-attn-{name}.small-tables.json" for name in (
    "baseline-bf16-s512", "baseline-fp32-s512", "fused-bf16-s1024", "fused-fp32-s1024"))


def real(name: str) -> Path:
    if not (REAL / name).exists():
        pytest.skip(f"../shared/reference/real-profiles/{name} is not here")
    return REAL / name


# --- a small profile, as 2.28 writes it -----------------------------------------------------------


def instruction(label, opcode, start, ns, **more):
    return {"label": label, "opcode": opcode, "timestamp": start, "duration": ns, "operands": " ",
            "subgraph": "sg00", "id": start + 7, "raw_bir_id": 0, "bir_id": "", "pc": start,
            "instruction_type": "", **more}


def matmul(start, ns, dtype, N, bir, kind="REGULAR", **more):
    text = (f"S[5] (Tensor)++@complete acc_flags=3 src={dtype}@0x37600[1,0,0][{N},1,1] "
            f"dst=0x2002000[1,0,0][{N},1,1] 128*64 ")
    return instruction("TensorMatrix", "MATMUL", start, ns, operands=text, raw_bir_id=bir,
                       bir_id=f"sg0000:{bir}", elements=128 * 64 * N, instruction_type=kind, **more)


def packet(start, ns, size, engine="64", queue="hardware_dynamic", **more):
    return {"timestamp": start, "duration": ns, "transfer_size": size, "dma_engine": engine,
            "queue_type": queue, "subgraph": "sg00", "id": start, "packet_aggregation_id": 5,
            "duplicate": "no", "variable": "unknown", **more}


def small():
    """One core of an LNC=2 pair: a load, an fp32 matmul in two passes, a transpose, an EXP."""
    return {
        "summary": [{"total_time": 2.0009e-06, "hbm_read_bytes": 4096, "hbm_write_bytes": 512,
                     "nd_idx": 0, "nc_idx": 9, "instance_type": "trn2.3xlarge",
                     "profiler_version": "2.28.23.0%kaena-tools/2.28@f1c114a",
                     "tensor_engine_active_time_percent": 0.5}],
        "metadata": [{"data_version": 8, "num_physical_cores": 2, "last_hw_timestamp": 2000,
                      "pe_num_rows": 128, "pe_clock_freq": 2.4, "is_simulation": False}],
        "warnings": [{"category": "Missing Data", "message": "Try --enable-dge-notifs"}],
        "neff_node": [{"variable_name": "", "type": "", "shape": "", "node": "3"},
                      {"variable_name": "q_ref", "type": "IN", "shape": "[128 512]",
                       "size": "131072"}],
        "instruction": [  # not in order of start: nor are they in real files
            matmul(700, 300, "fp32", 512, 8, predecessors=[
                {"id": 107, "type": "FLOW_DEPENDENCE"}, {"id": 99, "type": "FLOW_DEPENDENCE"}]),
            matmul(900, 300, "fp32", 512, 8),
            instruction("Sync", "DMA_DIRECT2D", 100, 50, hbm_read_bytes=4096),
            matmul(400, 100, "bfloat16", 128, 7, "TRANSPOSE"),
            instruction("Scalar", "ACTIVATE", 1200, 200, hbm_write_bytes=512),
            instruction("Vector", "DRAIN", 5, 1, subgraph="sg01")],
        "dma": [packet(200, 158, 4096), packet(180, 17, 4, "65"),
                packet(190, 300, 16384, "80", "instruction"),
                packet(1500, 40, 512, "66", duplicate="yes"), packet(1500, 40, 512, "66")],
        "ham": [{"timestamp": 1000, "duration": 400, "k": 4, "n": 8, "type": 1,
                 "subgraph": "sg00"},
                {"timestamp": 400, "duration": 600, "k": 8, "n": 8, "type": 0,
                 "subgraph": "sg00"}],
        "active_time": [{"engine": "tensor", "pcore_idx": 0, "start_ts": 400, "end_ts": 1200,
                         "duration_ns": 800}]}


RENAMED = {  # json of Neuron Profile 2.28 -> names of schema 7.x (profiles.md section 4)
    "instruction": {"label": "engine", "instruction_type": "tensor_instruction_type",
                    "elements": "tensor_elements"},
    "dma": {"transfer_size": "transfer_bytes", "dma_engine": "engine_idx"},
    "active_time": {}}
METADATA = {  # profiles.md section 4: clocks and sizes, and what stood in summary before 7.x
    "pe_num_rows": "tensor_engine_num_rows", "pe_num_cols": "tensor_engine_num_cols",
    "pe_clock_freq": "tensor_engine_clock_freq", "pe_clock_others": "neuroncore_clock_freq",
    "instance_type": "instance_type", "nd_idx": "neuron_device_idx", "nc_idx": "neuroncore_idx",
    "profiler_version": "explorer_version"}
TABLES = {"instruction": "Instruction", "dma": "DmaPacket", "ham": "Throttle", "summary": "Summary",
          "metadata": "Metadata", "neff_node": "TensorInfo", "warnings": "Warning",
          "active_time": "ActiveTime"}


def later():
    """The same capture in the names of schema 7.x, as json of explorer 2.32 may give them."""
    document = small()
    for table, names in RENAMED.items():
        for row in document[table]:
            for old in set(names) & set(row):
                row[names[old]] = row.pop(old)
            if "timestamp" in row:
                row["start_ts"] = row.pop("timestamp")
                row["duration_ns"] = row.pop("duration")
                row["end_ts"] = row["start_ts"] + row["duration_ns"]
            if "subgraph" in row:
                row["pcore_idx"] = int(row.pop("subgraph")[2:])
            if "engine_idx" in row:
                row["engine_idx"] = int(row["engine_idx"])
    for row in document["ham"]:
        row["pcore_idx"] = int(row.pop("subgraph")[2:])
    [facts_] = document["metadata"]
    [summary] = document["summary"]
    for old, new in METADATA.items():
        for record in (facts_, summary):
            if old in record:
                facts_[new] = record.pop(old)
    facts_["neuroncore_idx"] = 4
    document["neff_node"][1]["size"] = 131072
    return document


def read(document, name="trace.json", **options):
    return profile.from_json(name, json.loads(json.dumps(document)), **options)


@pytest.mark.parametrize("document", [small(), later(),
                                      {TABLES[k]: v for k, v in later().items()}],
                         ids=["2.28", "7.x columns", "7.x"])
def test_every_name_of_a_column_reads_alike(document):
    own = read(document)
    assert (own.name, own.format, own.cores, own.kind) == ("trace.json", "json", 2, "measured")
    assert own.version == "data version 8, profiler 2.28.23.0"
    assert own.summary == {"total_time": 2.0009e-06, "hbm_read_bytes": 4096,
                           "hbm_write_bytes": 512, "tensor_engine_active_time_percent": 0.5}
    # nc_idx is the sum of both cores of a pair: 9 = 4 + 5
    assert own.metadata["neuroncore_idx"] == 4
    assert own.metadata["tensor_engine_num_rows"] == 128
    assert own.metadata["instance_type"] == "trn2.3xlarge"
    assert own.tensors == (profile.Tensor("q_ref", "IN", (128, 512), 131072),)
    assert own.warnings == ("Try --enable-dge-notifs", "duplicate DMA packets are left out: 1 of 5")

    rows = own.timeline.instructions
    assert rows.start.tolist() == [5, 100, 400, 700, 900, 1200]
    assert rows.end.tolist() == [6, 150, 500, 1000, 1200, 1400]
    assert rows.core.tolist() == [1, 0, 0, 0, 0, 0]
    assert [ENGINES[e] for e in rows.engine] == ["vector", "sync", "tensor", "tensor", "tensor",
                                                 "scalar"]
    assert [rows.opcodes[c] for c in rows.opcode] == ["DRAIN", "DMA_DIRECT2D", *["MATMUL"] * 3,
                                                      "ACTIVATE"]
    assert rows.macs.tolist() == [0, 0, 128 * 64 * 128, 128 * 64 * 512, 128 * 64 * 512, 0]
    assert rows.rows.tolist() == [0, 0, 128, 128, 128, 0]
    assert rows.columns.tolist() == [0, 0, 64, 64, 64, 0]
    assert rows.moving.tolist() == [0, 0, 128, 512, 512, 0]
    assert [DTYPES[d] for d in rows.dtype] == ["", "", "bf16", "fp32", "fp32", ""]
    assert rows.passes.tolist() == [1, 1, 1, 2, 2, 1]
    assert rows.transpose.tolist() == [False, False, True, False, False, False]
    assert rows.read.tolist() == [0, 4096, 0, 0, 0, 0]
    assert rows.written.tolist() == [0, 0, 0, 0, 0, 512]
    assert rows.id.tolist() == [12, 107, 407, 707, 907, 1207]
    assert rows.predecessors(3).tolist() == [1]  # id 99 is no row of this file
    assert rows.predecessors(4).size == 0

    moved = own.timeline.packets
    assert moved.start.tolist() == [180, 190, 200, 1500]
    assert moved.nbytes.tolist() == [4, 16384, 4096, 512]
    assert moved.traffic.tolist() == [False, False, True, True]
    assert moved.engine.tolist() == [65, 80, 64, 66]
    assert moved.id.tolist() == [5, 5, 5, 5]  # packets of one transfer

    slow = own.timeline.throttles
    assert [*zip(slow.start, slow.end, slow.k, slow.n, strict=True)] == [(400, 1000, 8, 8),
                                                                         (1000, 1400, 4, 8)]
    assert own.timeline.end == 2000
    assert own.timeline.unknown == {"instructions.line"}
    assert own.timeline.activity("tensor").length == 800
    assert own.timeline.working == (0,)


def test_source_lines_come_from_the_kernel_else_from_the_compiler():
    document = later()
    for row, (nki, other) in zip(document["instruction"], [
            ("k.py:3", "x.py:1"), (None, "x.py:2"), ("", None), (None, None), ("k.py:3", None),
            (None, None)], strict=True):
        row |= {"nki_source_location": nki, "bir_debug_info_source_location": other}
    rows = read(document).timeline.instructions
    where = dict(zip(rows.start.tolist(), (rows.lines[line] for line in rows.line), strict=True))
    assert where == {5: "", 100: "", 400: "", 700: "k.py:3", 900: "x.py:2", 1200: "k.py:3"}


@pytest.mark.parametrize(("operands", "dtype", "K", "M", "N"), [
    (" src=bfloat16@0x37e00[1,0,0][128,1,1] dst=0x0[1,0,0][128,1,1] 128*64 ", "bf16", 128, 64, 128),
    ("fp32_mode=LOW_HIGH src=fp32@0x0[1,0,0][512,1,1] dst=0x0[1][1] 8*4", "fp32", 8, 4, 512),
    ("src=float16@0x0[1,32,0][32,4,1] 128*128 ", "fp16", 128, 128, 32 * 4),
    ("src=fp8_e4m3@0x0[1,0,0][2,3,4] 1*1 ", "fp8", 1, 1, 24),
    ("src=tf32@0x0[1,0,0][7,1,1] 128*128 ", "tf32", 128, 128, 7),
    ("src=int8@0x0[1,0,0][7,1,1] 128*128 ", "", 128, 128, 7),   # no dtype that we know
    ("src=bfloat16@0x0 128*64 ", "bf16", 128, 64, 0),           # sizes are not told
    ("128*64 ", "", 0, 0, 0), ("", "", 0, 0, 0), ("src=", "", 0, 0, 0),
    ("src=fp32@0x0[1,0,0][512,1,1] and no end", "", 0, 0, 0),
])
def test_operands(operands, dtype, K, M, N):
    found = columns.shapes([operands])
    got = (DTYPES[found.dtype[0]], found.rows[0], found.columns[0], found.moving[0])
    assert got == (dtype, K, M, N)


def test_moving_comes_from_elements_where_operands_do_not_tell_it():
    document = small()
    document["instruction"][3]["operands"] = "src=bfloat16@0x0 128*64 "
    rows = read(document).timeline.instructions
    assert rows.moving.tolist() == [0, 0, 128, 512, 512, 0]  # elements / (128 x 64)


def test_operands_that_disagree_with_elements_are_said():
    document = small()
    document["instruction"][3]["elements"] = 5
    assert any(text.startswith("1 of 3 matmuls: elements") for text in read(document).warnings)


@pytest.mark.parametrize(("rows", "passes"), [
    # core, bir, pc, fp32
    ([(0, 8, 1, 1), (0, 8, 2, 1)], [2, 2]),
    ([(0, 8, 1, 0), (0, 8, 2, 0)], [1, 1]),                # bf16
    ([(0, 0, 1, 1), (0, 0, 2, 1)], [1, 1]),                # no id: unknown, so each its own
    ([(0, 8, 1, 1), (0, 9, 2, 1), (0, 8, 3, 1)], [1, 1, 1]),   # another in between
    ([(0, 8, 1, 1), (1, 8, 1, 1), (0, 8, 2, 1), (1, 8, 2, 1)], [2, 2, 2, 2]),  # two cores
    ([(0, 8, 1, 1), (0, 8, 2, 1), (0, 8, 1, 1), (0, 8, 2, 1)], [2, 2, 2, 2]),  # a loop
    ([(0, 8, 1, 1), (0, 8, 1, 1)], [1, 1]),                # a loop over a matmul of one pass
    ([], []),
])
def test_passes(rows, passes):
    core, group, pc, fp32 = (np.array([row[i] for row in rows], np.int64) for i in range(4))
    assert columns.passes(core, group, pc, fp32.astype(bool)).tolist() == passes


def test_rows_of_no_engine_are_left_out_and_counted():
    document = small()
    document["instruction"][2]["label"] = "CcCore"
    own = read(document)
    assert len(own.timeline.instructions) == 5
    assert own.warnings[1].startswith("1 of 6 instructions are left out: of CcCore, no engine")
    document["instruction"][2]["label"] = ""
    assert read(document).warnings[1].startswith("1 of 6 instructions are left out: of no name, ")


# By hand: 2 x 128 x 64 x (512 + 512 + 128) FLOPs, the last of them transposes.
ADDS_UP = {"hardware_flops": 128 * 64 * 2304, "transpose_flops": 128 * 64 * 256,
           "matmul_instruction_count": 3, "tensor_engine_instruction_count": 3}


def summed():
    document = small()
    document["summary"][0] |= ADDS_UP
    return document


def disagree(own):
    found = [text for text in own.warnings if text.startswith("rows and summary do not agree in ")]
    assert len(found) <= 1
    return found[0].split(" in ", 1)[1].split(":")[0].split(", ") if found else []


def test_rows_that_are_lost_or_doubled_are_said_once():
    assert disagree(read(summed())) == []
    lost = summed()
    lost["instruction"] = [row for row in lost["instruction"] if row["timestamp"] < 800]
    assert disagree(read(lost)) == [
        "tensor_engine_instruction_count", "matmul_instruction_count", "hardware_flops"]
    with pytest.raises(ProfileError, match=r"16,777,216 FLOPs .* they have 8,388,608, so rows are"):
        read(lost).count  # noqa: B018
    other = summed()  # each again as another instruction
    other["instruction"] += [row | {"id": row["id"] + 1} for row in other["instruction"]]
    assert disagree(read(other)) == [
        "tensor_engine_instruction_count", "matmul_instruction_count", "hardware_flops",
        "transpose_flops", "hbm_read_bytes", "hbm_write_bytes"]


def test_an_instruction_that_is_listed_twice_counts_once():
    twice = summed()
    twice["instruction"] += [dict(row) for row in twice["instruction"]]
    own = read(twice)
    assert own.warnings[1:] == ("duplicate instructions are left out: 6 of 12",
                                "duplicate DMA packets are left out: 1 of 5")
    once = read(summed())
    assert own.count == once.count
    assert own.timeline.instructions.after.tolist() == once.timeline.instructions.after.tolist()
    longer = summed()  # the id of another instruction, at another time
    longer["instruction"].append(longer["instruction"][0] | {"duration": 299})
    assert "instruction ids" in disagree(read(longer))


def test_passes_are_known_without_elements():
    document = summed()
    for row in document["instruction"]:
        row.pop("elements", None)
    own = read(document)
    assert "instructions.macs" in own.timeline.unknown
    assert dict(own.count.work) == {"fp32": 2 * 128 * 64 * 512}
    assert profile.compare(own.count, own)["fp32 passes"].flops == 2 * 128 * 64 * 512


def test_bir_id_decides_where_raw_bir_id_is_0_in_all_rows():
    document = summed()
    for row in document["instruction"]:
        row["raw_bir_id"] = 0
    assert read(document).timeline.instructions.passes.tolist() == [1, 1, 1, 2, 2, 1]
    for row in document["instruction"]:
        row["bir_id"] = ""
    assert "instructions.passes" in read(document).timeline.unknown


def test_a_schema_older_than_any_known_is_said():
    for schema, said in (("3.1.0", True), ("6.9", True), ("7.0.0", False), ("7.4.0", False),
                         ("7.5", True), ("x", True)):
        document = small()
        document["metadata"][0]["profile_schema_version"] = schema
        assert said is any(f"schema {schema} is unknown to this reader (schema 7.0 to 7.4" in text
                           for text in read(document).warnings)


def test_tables_that_are_not_there():
    document = small()
    for table in ("dma", "ham", "active_time", "neff_node", "warnings"):
        del document[table]
    own = read(document)
    assert {"packets", "throttles"} < own.timeline.unknown
    assert any("no DMA packets" in text for text in own.warnings)
    assert own.timeline.activity("tensor").length == 100 + 500  # from the instructions
    del document["instruction"]
    assert read(document).timeline is None


def test_empty_tables_are_known_to_be_empty():
    document = small()
    document |= {"instruction": [], "dma": [], "ham": [], "active_time": []}
    own = read(document)
    assert len(own.timeline.instructions) == len(own.timeline.packets) == 0
    assert "packets" not in own.timeline.unknown and own.timeline.end == 2000


def test_a_newer_version_is_read_and_said():
    document = small()
    document["metadata"][0]["data_version"] = 9
    document["frobnication"] = [{"a": 1}]
    own = read(document)
    assert any("data version 9 is unknown to this reader" in text for text in own.warnings)
    assert len(own.timeline.instructions) == 6


def test_a_modelled_profile_says_so():
    document = small()
    document["metadata"][0]["is_simulation"] = True
    assert read(document).kind == "modelled"


# --- summary-json ---------------------------------------------------------------------------------

DEVICE, OTHER, SYSTEM = "n_" + "0" * 40, "n_" + "1" * 40, "s_" + "2" * 40
FLAT = {"total_time": 0.5, "hbm_read_bytes": 7, "profiler_version": "2.26.4.0", "mfu_x": None}


def test_flat_and_nested_read_alike():
    flat = read(FLAT)
    assert flat.format == "summary-json" and flat.timeline is None
    assert flat.summary == {"total_time": 0.5, "hbm_read_bytes": 7}
    assert flat.version == "profiler 2.26.4.0"
    for nested in ({DEVICE: FLAT}, {SYSTEM: {"events": {"a": [1]}}, DEVICE: FLAT}):
        assert read(nested).summary == flat.summary


def test_of_two_device_sessions_one_is_picked():
    both = {DEVICE: FLAT, OTHER: FLAT | {"total_time": 0.25}, SYSTEM: {"events": {}}}
    with pytest.raises(ProfileError, match=r"expected one device session, got 2: n_0+, n_1+\. "
                       r'Pick one: read\(path, session="n_\.\.\."\)'):
        read(both)
    assert read(both, session=OTHER).summary["total_time"] == 0.25
    with pytest.raises(ProfileError, match=r"expected a session 's_2+', got n_0+, n_1+"):
        read(both, session=SYSTEM)


@pytest.mark.parametrize("document", [small(), FLAT])
def test_a_file_of_one_record_has_no_session(document):
    with pytest.raises(ProfileError, match=r"trace.json: session='n_x': this file holds one record "
                                           r"and no sessions; leave it out"):
        read(document, session="n_x")


def test_a_list_of_records_says_how_to_read_one():
    records = [{"problem": "mm", "values": {"K": 1}, "profile": {"hbm_read_bytes": 7}}] * 3
    with pytest.raises(ProfileError, match=r"got a list of 3 records\. Read one: from_json\(name, "
                                           r'record\["profile"\]\)\. Or: Write one'):
        read(records)
    assert read(records[0]["profile"]).get("hbm_read_bytes") == 7
    with pytest.raises(ProfileError, match=r"got a list of 1\. Write one with"):
        read([{"problem": "mm"}])


@pytest.mark.parametrize("path", [None, 5, 1.5, b"trace.json", ["trace.json"]])
def test_what_is_no_path_is_one_sentence(path):
    with pytest.raises(ProfileError, match=r"^read: expected a path, got .*\. Pass that of a file "
                                           r"or directory$"):
        profile.read(path)


def test_json_that_does_not_parse_is_said_in_whole_sentences():
    with pytest.raises(ProfileError, match=r"line 1, column 2: .* double quotes\. Write one with"):
        profile.text.parse("x.json", b"{'a': 1}")


def test_only_a_system_session_is_no_profile():
    with pytest.raises(ProfileError, match=r"no session that has total_time \(keys: s_2+\)"):
        read({SYSTEM: {"events": {}}})


# c is what hfu and mbu leave: hfu = F / (c P T), mbu = B / (T BW), and the file prints P / BW.
@pytest.mark.parametrize("c", [1, 2])
def test_cores_from_the_ratios_of_a_summary(c):
    F, B, T, P, BW = 3e8, 1e6, 1e-4, 80e12, 800e9
    summary = {"total_time": T, "hardware_flops": F, "hbm_read_bytes": B, "hbm_write_bytes": 0,
               "hfu_estimated_percent": F / (c * P * T), "mbu_estimated_percent": B / (T * BW),
               "peak_flops_bandwidth_ratio": P / BW, "profiler_version": "2.28.23.0%x"}
    own = read(summary)
    assert own.cores == c and own.warnings == ()
    # From 2.30 on hfu counts adjusted FLOPs: of fp8 half as many, so c = 1 looks like 2.
    for later in ({"profiler_version": "2.30.1"}, {"profiler_version": None}):
        assert read(summary | later).cores == 1
        assert "read as 1" in read(summary | later).warnings[0]
        adjusted = {"hardware_flops": 2 * F, "adjusted_hardware_flops": F}
        assert read(summary | later | adjusted).cores == c


@pytest.mark.parametrize(("told", "index"), [(9, 4), (5, 2), (8, 8), (0, 0)])
def test_the_index_of_a_pair_is_half_of_a_sum_where_it_is_one(told, index):
    # k + (k + 1) is odd: an even number is no sum of a pair
    assert read(small() | {"summary": [small()["summary"][0] | {"nc_idx": told}]}
                ).metadata["neuroncore_idx"] == index


def test_cores_that_no_file_tells_are_said():
    assert any("physical cores" in text for text in read(FLAT).warnings)


def test_missing_dge_notifications_are_said_once():
    own = read(FLAT | {"dma_transfer_average_bytes": 0})
    assert sum("DGE" in text for text in own.warnings) == 1
    document = small()
    document["summary"][0]["dma_transfer_average_bytes"] = 0
    assert sum("dge" in text.lower() for text in read(document).warnings) == 1  # the profiler did


# --- what cannot be read --------------------------------------------------------------------------


def spoilt(path, value):
    """The small profile with one value in it replaced, by its path."""
    document = small()
    place = document
    for key in path[:-1]:
        place = place[key]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


ROW = ("instruction", 3)
WRONG = [
    ((*ROW, "duration"), -4, r"instruction\[3\]\.duration: expected ns in 0\.\..*, got -4"),
    ((*ROW, "timestamp"), -1, r"instruction\[3\]\.timestamp: expected ns in 0\.\..*, got -1"),
    ((*ROW, "timestamp"), "soon", r"instruction\[3\]\.timestamp: expected a whole number, got 'so"),
    ((*ROW, "timestamp"), 1.5, r"instruction\[3\]\.timestamp: expected a whole number, got 1.5"),
    ((*ROW, "timestamp"), True, r"instruction\[3\]\.timestamp: expected a whole number, got true"),
    ((*ROW, "timestamp"), float("nan"), r"instruction\[3\]\.timestamp: expected a whole.*got nan"),
    ((*ROW, "timestamp"), 10**30, r"instruction\[3\]\.timestamp: .* 63 bits, got one of 100 bits"),
    ((*ROW, "timestamp"), 2**63, r"instruction\[3\]\.timestamp: .* 63 bits, got one of 64 bits"),
    (("summary", 0, "hbm_read_bytes"), 2**63, "number of at most 63 bits, got one of 64 bits"),
    (("summary", 0), {"total_time": 2e-6, "hardware_flops": 5, "transpose_flops": 10},
     r"summary\.transpose_flops: expected up to hardware_flops = 5, got 10"),
    (("summary", 0), {"total_time": 2.0009}, r"got 2\.0009\. Divide it by 1e6 if it was"),
    ((*ROW, "timestamp"), 10**17, r"instruction\[3\]\.timestamp: expected ns in"),
    ((*ROW, "timestamp"), KeyError, r"instruction\[3\]\.timestamp: expected .*, got nothing"),
    ((*ROW, "timestamp"), [4], r"instruction\[3\]\.timestamp: expected .*, got a list of 1"),
    ((*ROW, "elements"), -1, r"instruction\[3\]\.elements: expected a whole number in 0"),
    ((*ROW, "elements"), 2**62, r"instruction\[3\]\.elements: expected a whole number in 0"),
    ((*ROW, "opcode"), {"a": 1}, r"instruction\[3\]\.opcode: expected text, got an object of 1"),
    ((*ROW, "subgraph"), "core", r"instruction\[3\]\.subgraph: expected a physical core"),
    ((*ROW, "subgraph"), "sg02", r"instruction\[3\]\.subgraph: expected one of the 2 physical"),
    ((*ROW, "predecessors"), 5, r"instruction\[3\]\.predecessors: expected a list, got 5"),
    ((*ROW, "predecessors"), [{"x": 1}], r"instruction\[3\]\.predecessors\[\]\.id: expected the"),
    (ROW, "row", r"instruction\[3\]: expected an object, got 'row'"),
    (("instruction",), {"a": 1}, r"instruction: expected a column start_ts or timestamp, got rows "
     "with a"),
    (("instruction",), 7, "instruction: expected a list of rows, got 7"),
    (("dma", 1, "dma_engine"), "E4", r"dma\[1\]\.dma_engine: expected a whole number, got 'E4'"),
    (("dma", 1, "transfer_size"), -4, r"dma\[1\]\.transfer_size: expected bytes in 0\.\."),
    (("dma", 1, "transfer_size"), "4", r"dma\[1\]\.transfer_size: expected a whole number, got '4"),
    (("ham", 0, "n"), 0, r"ham\[0\]\.n: expected a whole number of cycles >= 1, got 0"),
    (("active_time", 0, "duration_ns"), 700, r"active_time\[0\]\.duration_ns: expected end_ts - "
     r"start_ts = 800 ns, got 700"),
    (("neff_node", 1, "size"), "big", r"neff_node\[1\]\.size: expected bytes, got big"),
    (("summary", 0, "hbm_read_bytes"), -1, "summary.hbm_read_bytes: expected a number >= 0, got"),
    (("summary", 0, "hbm_read_bytes"), float("inf"), "summary.hbm_read_bytes: expected a number, "),
    (("summary", 0, "hbm_read_bytes"), "many", "hbm_read_bytes: expected a number, got 'many'"),
    (("summary", 0, "hbm_read_bytes"), 10**40, "hbm_read_bytes: expected a number of at most 63"),
    (("summary", 0, "total_time"), 0, r"total_time: expected seconds > 0, got 0: nothing ran"),
    # units: us for total_time; 0..100 for a fraction; ns for an active time; rows in ps
    (("summary", 0, "total_time"), 2.0009, "total_time: expected seconds, about last_hw_timestamp"),
    (("summary", 0, "total_time"), 2.0009e-9, "last_hw_timestamp of metadata: expected ns up to"),
    (("summary", 0, "tensor_engine_active_time_percent"), 50, "expected a fraction 0..1, got 50"),
    (("summary", 0, "vector_engine_active_time"), 8.0, "vector_engine_active_time: expected s"),
    (("instruction", 0, "timestamp"), 700_000, "end of the last row: expected ns up to total_time"),
    (("summary", 0, "neuroncore_cycle_count"), 1, "the clock would be 5e"),
    (("metadata", 0, "num_physical_cores"), 3, "num_physical_cores: expected 1 or 2, got 3"),
    (("metadata", 0, "num_physical_cores"), 1, r"subgraph: expected one of the 1 physical cores"),
    (("metadata", 0, "last_hw_timestamp"), "x", r"metadata\[0\].last_hw_timestamp: expected a who"),
    (("metadata",), [{}, {}], "metadata: expected one row, got 2"),
    (("summary",), [[]], r"summary\[0\]: expected an object, got a list of 0"),
]


@pytest.mark.parametrize(("path", "value", "said"), WRONG,
                         ids=[f"{'.'.join(map(str, w[0]))}={str(w[1])[:20]}" for w in WRONG])
def test_a_wrong_value_is_one_clear_error(path, value, said):
    with pytest.raises(ProfileError, match=said) as error:
        read(spoilt(path, value))
    text = str(error.value)
    assert text.startswith("trace.json: ") and len(text) < 400 and text.isprintable()


def test_active_stretches_that_overlap_are_an_error():
    document = small()
    document["active_time"].append(document["active_time"][0] | {"start_ts": 1199, "end_ts": 1300,
                                                                 "duration_ns": 101})
    with pytest.raises(ProfileError, match=r"active_time\[1\]\.start_ts: expected a start after"):
        read(document)


def test_throttle_events_of_one_type_that_overlap_are_said_and_read():
    document = small()  # [1100, 1700) beside [1000, 1400)
    document["ham"][1] |= {"type": 1, "timestamp": 1100}
    own = read(document)
    assert own.timeline.throttles.start.tolist() == [1000, 1100]
    assert "1 throttle events overlap another of their type: the lowest limit holds" in own.warnings
    document["ham"][1] |= {"type": 0}
    assert not any("overlap" in text for text in read(document).warnings)


# --- what a file does not say is unknown ----------------------------------------------------------


def without(document, table, *names):
    for row in document[table]:
        for name in names:
            row.pop(name, None)
    return document


def with_weights(*modes):
    """small() with an LDWEIGHTS before each MATMUL, whose operands say this."""
    document = small()
    for at, mode in zip((399, 699, 899), modes, strict=True):
        document["instruction"].append(instruction(
            "Tensor", "LDWEIGHTS", at, 1, operands=f" {mode} src=fp32@0x0[-1,0,0][64,1,1] 128*64 "))
    return document


def test_without_bir_id_passes_are_unknown():
    own = read(without(small(), "instruction", "raw_bir_id", "bir_id"))
    assert own.timeline.unknown == {"instructions.line", "instructions.passes"}
    assert sum("passes of one fp32 matmul is unknown" in text for text in own.warnings) == 1
    document = small()
    document["instruction"][0]["raw_bir_id"] = 0  # of one row only
    assert "instructions.passes" in read(document).timeline.unknown


def test_without_operands_passes_and_sizes_are_unknown():
    own = read(without(small(), "instruction", "operands"))
    assert own.timeline.unknown == {"instructions.line"} | {
        f"instructions.{name}" for name in ("dtype", "rows", "columns", "moving", "passes")}


def test_without_fp32_there_are_no_passes_to_know():
    document = without(small(), "instruction", "raw_bir_id", "bir_id")
    document["instruction"] = [row for row in document["instruction"]
                               if "fp32" not in row["operands"]]
    assert "instructions.passes" not in read(document).timeline.unknown


@pytest.mark.parametrize(("modes", "passes"), [
    # of the transpose, of the first fp32 row, of the second
    (("", "fp32_mode=LOW", "fp32_mode=HIGH"), [1, 2, 2]),
    (("", "fp32_mode=LOW", "fp32_mode=LOW"), [1, 1, 1]),
    (("", "fp32_mode=LOW", ""), None), (("", "", ""), None)])
def test_fp32_mode_of_the_weights_tells_passes_too(modes, passes):
    document = without(with_weights(*modes), "instruction", "raw_bir_id", "bir_id", "pc")
    own = read(document)
    rows = own.timeline.instructions
    assert ("instructions.passes" in own.timeline.unknown) == (passes is None)
    assert rows.passes[rows.is_opcode("MATMUL")].tolist() == (passes or [1, 1, 1])


@pytest.mark.parametrize("name", FULL)
def test_real_passes_and_transposes_follow_from_the_weights(name):
    document = json.loads(real(name).read_text())
    was = read(copy.deepcopy(document)).timeline
    lacking = without(document, "instruction", "raw_bir_id", "bir_id", "instruction_type")
    now = read(lacking).timeline
    assert now.unknown == was.unknown
    assert (now.instructions.passes == was.instructions.passes).all()
    assert (now.instructions.transpose == was.instructions.transpose).all()


def test_passes_are_of_one_matmul():
    def fp32(*rows):
        document = small()
        document["instruction"] = [
            matmul(6 * i, 5, "fp32", N, 8) for i, N in enumerate(rows)]
        return read(document)

    rows = fp32(512, 512, 256, 256).timeline.instructions  # of one id, of two sizes
    assert rows.passes.tolist() == [2, 2, 2, 2]
    assert fp32(512, 512, 512, 512).timeline.instructions.passes.tolist() == [4] * 4
    own = fp32(512, 512, 512)
    assert own.timeline.instructions.passes.tolist() == [1, 1, 1]
    assert "3 fp32 matmul rows of groups of neither 2 nor 4: each read as a matmul of its own" \
        in own.warnings
    assert fp32(*[512] * 300).timeline.instructions.passes.tolist() == [1] * 300
    document = small()  # two products, by where they go
    document["instruction"] = [matmul(100 * i, 50, "fp32", 512, 8) for i in range(4)]
    for row in document["instruction"][2:]:
        row["operands"] = row["operands"].replace("0x2002000", "0x2002800")
    assert read(document).timeline.instructions.passes.tolist() == [2, 2, 2, 2]


def test_without_a_type_transposes_are_unknown():
    own = read(without(small(), "instruction", "instruction_type"))
    assert own.timeline.unknown == {"instructions.line", "instructions.transpose"}
    assert sum("transposes and no work is unknown" in text for text in own.warnings) == 1


def test_a_matmul_of_no_type_may_be_a_transpose():
    document = small()
    document["instruction"][3]["instruction_type"] = ""
    assert "instructions.transpose" in read(document).timeline.unknown
    document["instruction"][3]["instruction_type"] = "TRANSPOSE"
    document["instruction"][2]["instruction_type"] = ""  # of another row it says nothing
    assert "instructions.transpose" not in read(document).timeline.unknown


@pytest.mark.parametrize(("on", "off"), [("transpose_mode=ENABLED", "transpose_mode=DISABLED"),
                                         ("is_transpose=True", "is_transpose=False")])
def test_the_weights_tell_transposes_too(on, off):
    own = read(without(with_weights(on, off, off), "instruction", "instruction_type")).timeline
    rows = own.instructions
    assert own.unknown == {"instructions.line"}
    assert rows.transpose[rows.is_opcode("MATMUL")].tolist() == [True, False, False]
    part = read(without(with_weights(on, off, ""), "instruction", "instruction_type")).timeline
    assert "instructions.transpose" in part.unknown and not part.instructions.transpose.any()


def test_without_queue_type_packets_make_no_core_work():
    document = small()
    for row in document["dma"]:
        row["subgraph"] = "sg01"  # where only a DRAIN ran
    assert read(document).timeline.working == (0, 1)
    own = read(without(document, "dma", "queue_type"))
    assert own.timeline.working == (0,)
    assert "packets.traffic" in own.timeline.unknown
    assert sum("no traffic is unknown" in text for text in own.warnings) == 1
    document = small()
    document["dma"][2]["queue_type"] = "Instruction"
    assert read(document).timeline.packets.traffic.tolist() == [False, False, True, True]


@pytest.mark.parametrize("table", ["instruction", "dma", "ham"])
def test_of_two_cores_no_core_is_not_core_0(table):
    with pytest.raises(ProfileError, match=rf"{table}\[0\]\.pcore_idx: expected one of the 2 p"):
        read(without(small(), table, "subgraph"))


def test_a_guess_of_cores_stays_one_when_it_is_written(tmp_path):
    document = small()
    for table in ("instruction", "dma", "ham", "active_time"):
        without(document, table, "subgraph", "pcore_idx")
    del document["metadata"][0]["num_physical_cores"]
    own = read(document)
    assert own.cores == 1 and any("read as 1" in text for text in own.warnings)
    for format in ("json", "parquet"):
        if format == "parquet":
            pytest.importorskip("pyarrow")
        path = profile.write(profile.read(profile.write(own, tmp_path / "a", format)),
                             tmp_path / "b", format)
        assert "num_physical_cores" not in profile.read(path).metadata
        assert any("read as 1" in text for text in profile.read(path).warnings)
        if format == "json":
            (tmp_path / "a").unlink()
            (tmp_path / "b").unlink()


# --- what schema 7.x says in tables of its own, in JSON too ---------------------------------------


def test_json_of_7_x_says_what_its_parquet_says():
    document = later()
    for row in document["instruction"]:
        if row["opcode"] == "MATMUL":  # each of the passes records half the logical FLOPs
            row["raw_flops"] = row["tensor_elements"] * (1 if "fp32" in row["operands"] else 2)
    document |= {
        "ThrottleSummary": [{"nc_idx": 4, "throttle_type": "all", "throttle_active_time_ns": 964}],
        "Error": [{"description": "a notification was lost"}, {"description": None}],
        "warnings": [{"message": None}, {"message": "mind"}]}
    document["dma"].append(dict(document["dma"][0]))
    own = read(document)
    assert own.timeline.instructions.macs.tolist() == [
        0, 0, 128 * 64 * 128, 128 * 64 * 256, 128 * 64 * 256, 0]
    assert own.summary["throttle_active_nc4_time_ns"] == 964
    assert own.warnings[:2] == ("mind", "error of the profiler: a notification was lost")
    assert len(own.timeline.packets) == 4
    assert "duplicate DMA packets are left out: 2 of 6" in own.warnings


def test_a_packet_that_is_marked_and_repeated_counts_once():
    document = small()
    document["dma"] = [packet(100, 10, 512, duplicate="yes"), packet(100, 10, 512)]
    assert read(document).timeline.packets.start.tolist() == [100]


@pytest.mark.parametrize(("told", "kind"), [("true", "modelled"), ("True", "modelled"),
                                            (1, "modelled"), ("false", "measured")])
def test_is_simulation_may_be_text(told, kind):
    document = small()
    document["metadata"][0]["is_simulation"] = told
    assert read(document).kind == kind


@pytest.mark.parametrize(("schema", "newer"), [("7.0.1", False), ("7.4.0", False), ("7.5.0", True),
                                               ("8.0", True), ("x", True)])
def test_schemas_after_7_4_are_said(schema, newer):
    document = small()
    document["metadata"][0]["profile_schema_version"] = schema
    assert any(f"schema {schema} is unknown" in text for text in read(document).warnings) == newer


def test_an_error_names_the_row_and_column_of_the_file():
    document = later()
    document["instruction"][2]["tensor_elements"] = -1
    with pytest.raises(ProfileError, match=r"instruction\[2\]\.tensor_elements: expected"):
        read(document)
    document = small()  # row 1 of the file, not of those in order of start
    document["instruction"][1]["operands"] = "src=fp32@0x0[1,0,0][999999,999999,1] 128*64 "
    with pytest.raises(ProfileError, match=r"instruction\[1\]\.operands: expected K, M, N"):
        read(document)
    document = small()
    document["dma"][1]["dma_engine"] = "70000"
    with pytest.raises(ProfileError, match=r"dma\[1\]\.dma_engine: expected the number of a DMA e"):
        read(document)


def test_a_limit_above_one_reads_as_released():  # "periodic" on trn1 prints 253
    document = small()
    document["ham"][0] |= {"k": 253, "n": 1}
    assert read(document).timeline.throttles.k.tolist() == [8, 1]


def test_nan_of_2024_is_unknown():
    own = read(FLAT | {"mfu_estimated_percent": float("nan")})
    assert own.summary.keys() == {"total_time", "hbm_read_bytes"}
    assert any("mfu_estimated_percent is nan" in text for text in own.warnings)


@pytest.mark.parametrize(("data", "said"), [
    (b"", "got an empty file"),
    (b" \n", "got an empty file"),
    (json.dumps(small()).encode()[:-40], "ends in the middle: cut off"),
    (json.dumps(small()).encode()[:500], "ends in the middle: cut off|Unterminated"),
    (b"total_time  0.5\n", "got other text at line 1, column 1"),           # summary-text
    (b"\x7fELF\0\0\0", "got a binary file"),
    (b"PAR1\x15\x04", "a single parquet table is no profile"),
    (b'{"total_time": "\xff\xfe"}', "got other bytes at byte 16"),
    (b"[" * 200_000, "nested too deep"),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deep"),
    (b'{"total_time": ' + b"9" * 5000 + b"}", "numbers of at most 63 bits"),
    (b"[]", "got a list of 0"), (b"null", "got null"), (b"7", "got 7"), (b'"x"', "got 'x'"),
    (b"{}", r"no `summary` .* \(keys: none\)"),
    (b'{"traceEvents": [], "displayTimeUnit": "ns"}', "keys: traceEvents, displayTimeUnit"),
    (b'{"NeffNodes": [{"NodeInfo": {"Graphs": [{"NC": 0, "CycleCount": 5}]}}]}', "keys: NeffNodes"),
    (b'{"total_time": "fast"}', "total_time: expected seconds, got 'fast'"),
    (b'{"total_time": 0.5, "total_time": 0.7}', "total_time: expected each key once"),
    (b'{"summary": [{"total_time": 1}], "dma": [{}, {"id": 1, "duration": 5, "id": 1}]}',
     r"dma\[1\]\.id: expected each key once in an object, got it twice"),
])
def test_what_is_no_profile(tmp_path, data, said):
    path = tmp_path / "ntff.json"
    path.write_bytes(data)
    with pytest.raises(ProfileError, match=said) as error:
        profile.read(path)
    text = str(error.value)
    assert text.startswith("ntff.json: ") and len(text) < 400 and text.isprintable()


def test_paths_that_are_no_file(tmp_path):
    with pytest.raises(ProfileError, match=r"none\.json: no such file or directory in "):
        profile.read(tmp_path / "none.json")
    with pytest.raises(ProfileError, match="parquet") as error:
        profile.read(tmp_path)
    assert str(error.value).startswith(tmp_path.name)
    (tmp_path / "device_profile_model_1.json").write_text(json.dumps(small()))
    with pytest.raises(ProfileError, match=r"Pass one of its files: device_profile_model_1\.json"):
        profile.read(tmp_path)
    assert len(profile.read(tmp_path / "device_profile_model_1.json").timeline.instructions) == 6
    with pytest.raises(ProfileError, match="cannot be read"):
        profile.read("a\0b")


def test_utf16_and_a_byte_order_mark_are_read(tmp_path):
    for encoding in ("utf-8-sig", "utf-16"):
        path = tmp_path / "ntff.json"
        path.write_bytes(json.dumps(FLAT).encode(encoding))
        assert profile.read(path).summary["total_time"] == 0.5


def test_text_of_the_file_is_printable_and_cut():
    document = small()
    document["warnings"][0]["message"] = "<b>\x1b[31m\n‮" + "x" * 5000
    document["neff_node"][1]["variable_name"] = "\ud800q\x07"
    document["instruction"][0]["opcode"] = "MAT\x1bMUL"
    own = read(document)
    texts = [*own.warnings, own.tensors[0].name, *own.timeline.instructions.opcodes]
    assert all(text.isprintable() and len(text) <= 500 for text in texts)
    assert own.warnings[0].startswith("<b> [31m  x")  # markup stays text: who writes HTML escapes


def test_reading_changes_nothing_in_the_document():
    document = small()
    kept = copy.deepcopy(document)
    profile.from_json("trace.json", document)
    assert document == kept


# --- real files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FULL)
def test_real_timelines_add_up_to_the_summary(name):
    own = profile.read(real(name))
    line, summary = own.timeline, own.summary
    for engine in ENGINES:
        assert line.activity(engine).length == pytest.approx(
            summary[f"{engine}_engine_active_time"] * 1e9, abs=10)
    assert line.moving(traffic=False).length == pytest.approx(
        summary["dma_active_time"] * 1e9, abs=10)
    busy = line.moving(traffic=False)
    for engine in ENGINES:
        busy |= line.activity(engine)
    assert busy.length == pytest.approx(summary["total_active_time"] * 1e9, abs=10)
    # every duration is cut to whole ns: on average half of one is lost
    assert line.packets.duration.sum() == pytest.approx(
        summary["dma_packet_time"] * 1e9, abs=len(line.packets))
    rows = line.instructions
    assert rows.read.sum() == summary["hbm_read_bytes"]
    assert rows.written.sum() == summary["hbm_write_bytes"]
    assert 2 * rows.macs.sum() == summary["hardware_flops"]
    assert 2 * rows.macs[rows.transpose].sum() == summary["transpose_flops"]
    assert line.end == int(summary["total_time"] * 1e9)
    assert line.working == (0,) and own.cores == line.cores == 2
    assert line.unknown == {"instructions.line"}
    # what is left is the instructions' traffic and at most 0.06 % more (profiles.md section 3)
    moved = line.packets.nbytes[line.packets.traffic].sum()
    assert 1 <= moved / (rows.read.sum() + rows.written.sum()) < 1.0006
    own_rows = rows.is_opcode("MATMUL")
    assert (rows.macs[own_rows] == rows.rows[own_rows].astype(int) * rows.columns[own_rows]
            * rows.moving[own_rows]).all()


# bf16 file: Q K^T in bf16, 4 of N = 512; A V in fp32, 16 of two passes; 4 + 16 transposes.
# fp32 file: 4 + 16 of two passes each; 4 + 16 transposes of one. (SOURCES: Allen Chau, MIT)
@pytest.mark.parametrize(("name", "kinds"), [*zip(FULL, [
    {("bf16", 1, True, 128): 4, ("bf16", 1, False, 512): 4, ("fp32", 1, True, 128): 16,
     ("fp32", 2, False, 128): 32},
    {("fp32", 1, True, 128): 20, ("fp32", 2, False, 512): 8, ("fp32", 2, False, 128): 32},
], strict=True)])
def test_real_matmuls(name, kinds):
    rows = profile.read(real(name)).timeline.instructions
    own = np.flatnonzero(rows.is_opcode("MATMUL"))
    seen = [(DTYPES[rows.dtype[i]], int(rows.passes[i]), bool(rows.transpose[i]),
             int(rows.moving[i])) for i in own]
    assert {kind: seen.count(kind) for kind in seen} == kinds


@pytest.mark.parametrize("name", FULL)
def test_real_predecessors_are_the_ids_of_the_file(name):
    document = json.loads(real(name).read_text())
    rows = profile.read(real(name)).timeline.instructions
    ids = {row["id"] for row in document["instruction"]}
    for row in document["instruction"]:
        place = int(np.flatnonzero(rows.id == row["id"])[0])
        named = [p["id"] for p in row.get("predecessors", []) if p["id"] in ids]
        assert rows.id[rows.predecessors(place)].tolist() == named


@pytest.mark.parametrize("name", SMALL)
def test_real_files_without_event_tables(name):
    own = profile.read(real(name))
    assert own.timeline is None and own.cores == 2 and len(own.warnings) == 3
    assert own.metadata["tensor_engine_clock_freq"] == 2.4
    assert own.metadata["neuroncore_idx"] == 4
    assert {tensor.role for tensor in own.tensors} == {"IN", "OUT", "WEIGHT"}
    sizes = sum(tensor.nbytes for tensor in own.tensors)
    assert sizes == own.summary["inputs_outputs_weights_size_bytes"]


def test_real_summary_json_is_the_summary_of_the_whole_file():
    own = profile.read(real("trn2-lnc2-attn-fused-fp32-s512.summary-json.json"))
    whole = profile.read(real(FULL[1]))
    assert own.summary == whole.summary and own.cores == whole.cores == 2
    assert own.metadata["neuroncore_idx"] == whole.metadata["neuroncore_idx"] == 4
    assert any("DGE" in text for text in own.warnings)


def test_real_trn1_figures():
    own = profile.read(real("trn1-mp2-energy-summary-subset.json"))
    assert own.summary["hbm_read_bytes"] == 6582249472
    assert own.version == "profiler 2.29.18.0"
    assert own.metadata["instance_type"] == "trn1.2xlarge"
    path = real("trn1-nkibench-summary-fields.json")
    with pytest.raises(ProfileError, match="got a list of 7 records"):
        profile.read(path)
    for record in json.loads(path.read_text()):
        own = profile.from_json(record["problem"], record["profile"])
        assert "total_time" not in own.summary  # unknown, not 0
        if {"hardware_flops", "transpose_flops"} <= own.summary.keys():
            F = own.summary["hardware_flops"] - own.summary["transpose_flops"]
            B = own.summary["hbm_read_bytes"] + own.summary["hbm_write_bytes"]
            assert own.summary["mm_arithmetic_intensity"] == pytest.approx(F / B, rel=1e-12)
