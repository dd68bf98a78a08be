"""What `view` answers: a profile by the names that real ones have, with times of plain arithmetic.

Names, units and what is summed: profiles.md sections 2 to 5, and the real files it was written
from (Neuron Profile 2.28, data version 8). Rows of a core follow each other in program order.
"""

import math
from collections.abc import Mapping
from typing import Any

from .device import CHIPS, EXPLORER, VERSIONS

SESSION = "n_" + "5" * 40
LABELS = {"vector": "Vector", "scalar": "Scalar", "gpsimd": "GpSimd", "sync": "Sync",
          "tensor": "Tensor", "dma": "Sync"}
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")
PASSES = {"bf16": 1, "fp16": 1, "tf32": 1, "fp8": 1, "fp32": 4}  # adjusted FLOPs of one raw one
DTYPES = {"bf16": "bfloat16", "fp16": "fp16", "fp32": "fp32", "tf32": "tf32", "fp8": "fp8_e4m3"}


def rows_of(header: Mapping[str, Any], told: Mapping[str, Any]) -> list[list[Any]]:
    """The rows of each physical core; doubled: each core does what all do."""
    cores: list[list[Any]] = header["cores"]
    return [[row for rows in cores for row in rows] for _ in cores] if told["doubling"] else cores


def seconds(row: list[Any], told: Mapping[str, Any], beside: bool) -> float:
    """How long one row takes: the whole model of time."""
    if row[0] == "dma":
        each = told["seconds_per_byte"] * (told["beside"] if beside else 1)
        return float(told["seconds_per_transfer"] + each * (row[1] + row[2]))
    if row[0] == "matmul":
        return float(max(row[3], told["min_columns"]) / told["columns_per_second"])
    return float(row[3] / 128 / told["elements_per_second"])


class _Rows:
    """Tables of one profile as they fill up."""

    def __init__(self) -> None:
        self.instruction: list[dict[str, Any]] = []
        self.dma: list[dict[str, Any]] = []
        self.active: list[tuple[int, str, int, int]] = []
        self.seconds: dict[tuple[int, str], float] = {}

    def instructed(self, core: int, label: str, opcode: str, start: int, end: int, line: str,
                   **more: Any) -> None:
        number = len(self.instruction) + 1
        self.instruction.append({
            "timestamp": start, "duration": end - start, "label": label, "opcode": opcode,
            "operands": "", "instruction_type": "REGULAR", "evt_wait_time": 0,
            "bir_id": f"sg{core:02}00:{number}", "raw_bir_id": number, "pc": number, "id": number,
            "layer": "", "hlo_name": "", "subgraph": f"sg{core:02}",
            "nki_source_location": line, **more})
        engine = label.removesuffix("Matrix").lower()
        self.active.append((core, engine, start, end))

    def moved(self, core: int, start: int, end: int, nbytes: int, partitions: int,
              queue: str) -> None:
        """One packet for each DMA engine that a transfer of so many partitions reaches, at once."""
        engines = max(1, min(16, partitions // 8))
        for k in range(engines):
            part = nbytes // engines + (k < nbytes % engines)
            if part:
                self.dma.append({
                    "timestamp": start, "duration": end - start, "transfer_size": part,
                    "read_size": part, "write_size": part, "queue_type": queue,
                    "transfer_rate": int(part / max(end - start, 1) * 1e9),
                    "dma_engine": str(64 + 16 * core + k), "dma_queue": "1",
                    "semaphore_id": "-1", "source": [["unknown"]], "dest": ["unknown"],
                    "variable": "unknown", "duplicate": "no", "is_cc_dma": "no",
                    "packet_aggregation_id": len(self.instruction),
                    "id": 10**6 + len(self.dma), "subgraph": f"sg{core:02}"})


def document(header: Mapping[str, Any], session: Mapping[str, Any], told: Mapping[str, Any]
             ) -> dict[str, list[dict[str, Any]]]:
    """The whole `--output-format json` object; summary-json is its summary.

    header    of the NEFF
    session   of the NTFF: which execution, on which cores, beside others, with DGE notifications
    """
    chip, cores = CHIPS[told["chip"]], rows_of(header, told)
    slow = told["cold"] if session["exec"] == 1 else 1.0
    tables, spans, busy, ends = _Rows(), [], [], []
    for core, rows in enumerate(cores):
        at, dma = slow * told["fixed_s"], 0.0
        for row in rows:
            took = slow * seconds(row, told, session["beside"])
            _placed(tables, core, row, int(at * 1e9), int((at + took) * 1e9))
            dma += took if row[0] == "dma" else 0.0
            if row[0] == "dma":
                spans.append((at, at + took))
            busy.append((at, at + took))
            at += took
        ends.append(at)
    total = max(ends)
    read, written = (sum(row[i] for rows in cores for row in rows if row[0] == "dma")
                     for i in (1, 2))
    matmuls = [row for rows in cores for row in rows if row[0] == "matmul"]
    raw = sum(2 * K * M * N for _, K, M, N, *_ in matmuls)
    moves = sum(2 * K * M * N for _, K, M, N, _, transpose, _ in matmuls if transpose)
    scaled = [sum(2 * K * M * N * PASSES.get(dtype, 1) for _, K, M, N, dtype, transpose, _
                  in matmuls if transpose or not only) for only in (False, True)]
    c, f, b = len(cores), raw - moves, read + written
    peak = 2 * 128 * 128 * chip.tensor_ghz * 1e9
    inputs = sum(tensor["nbytes"] for tensor in header["inputs"])
    results = sum(tensor["nbytes"] for tensor in header["outputs"])
    useful = scaled[0] - scaled[1]
    summary: dict[str, Any] = {
        "total_time": total, "total_exec_time": total - slow * told["fixed_s"],
        "total_active_time": _union(busy), "dma_active_time": _union(spans),
        "hardware_flops": raw, "transpose_flops": moves,
        "adjusted_hardware_flops": scaled[0], "adjusted_transpose_flops": scaled[1],
        "model_flops": 0, "hbm_read_bytes": read, "hbm_write_bytes": written,
        "inputs_outputs_weights_size_bytes": inputs + results,
        "inputs_and_weights_size_bytes": inputs, "weight_size_bytes": 0,
        "matmul_instruction_count": len(matmuls),
        "neuroncore_cycle_count": int(total * chip.ghz * 1e9),
        "peak_flops_bandwidth_ratio": peak / chip.stack,
        "mm_arithmetic_intensity": f / b if b else 0.0,
        "hfu_estimated_percent": scaled[0] / (c * peak * total),
        "mfu_estimated_percent": useful / (c * peak * total),
        "mfu_inst_estimated_percent": useful / (c * peak * total),
        "mfu_hlo_estimated_percent": 0,
        "mbu_estimated_percent": b / (total * chip.stack),
        "mbu_min_read_util_percent": inputs / (total * chip.stack),
        "mfu_max_achievable_estimated_percent":
            min(1, f / b * chip.stack / (c * peak)) if b else 0,
        "event_count": len(tables.instruction), "instance_type": chip.instance,
        "nd_idx": 0, "nc_idx": sum(session["cores"]),
        "compiler_version": VERSIONS["neuronx-cc"], "runtime_version": "2.32.1 (stand-in)",
        "driver_version": "2.32.0 ()", "collectives_version": "2.32.0 ()",
        "profiler_version": EXPLORER, "dma_transfer_average_bytes": 0}
    if session["dge"]:  # without notifications a transfer is not attributed
        sizes = [packet["transfer_size"] for packet in tables.dma]
        summary |= {"dma_transfer_total_bytes": sum(sizes), "dma_transfer_count": len(sizes),
                    "dma_transfer_average_bytes": sum(sizes) / max(len(sizes), 1)}
    active, by_engine = _activity(tables.active)
    for engine in ENGINES:
        took = by_engine.get(engine, 0) / 1e9
        count = sum(row["label"].removesuffix("Matrix").lower() == engine
                    for row in tables.instruction)
        summary |= {f"{engine}_engine_active_time": took,
                    f"{engine}_engine_active_time_percent": took / total,
                    f"{engine}_engine_instruction_count": count}
    for name in ("dma", "total"):
        summary[f"{name}_active_time_percent"] = summary[f"{name}_active_time"] / total
    throttled = _throttled(session, total) if told["throttle"] else []
    for row in throttled:
        nc = session["cores"][int(row["subgraph"][2:])]
        summary |= {f"throttle_active_nc{nc}_time_ns": row["duration"],
                    f"throttle_activity_1_active_time_nc{nc}_percent":
                        row["duration"] / 1e9 / total,
                    f"throttle_activity_1_avg_util_limit_nc{nc}_percent": 0.5,
                    f"throttle_avg_util_limit_nc{nc}_percent": row["duration"] / 1e9 / total * 0.5}
    last = int(total * 1e9)
    return {
        "summary": [{name: value for name, value in summary.items() if name not in told["absent"]}],
        "metadata": [{
            "num_subgraphs": c, "num_physical_cores": c, "data_version": 8, "ntff_version": 6,
            "first_hw_timestamp": 0, "last_hw_timestamp": last, "first_ts": "1970-01-01T00:00:00Z",
            "hbm_ddr_bandwidth": chip.stack, "dma_ddr_bandwidth": 435e9 if chip.lnc else 435.2e9,
            "pe_num_rows": 128, "pe_num_cols": 128, "pe_clock_freq": chip.tensor_ghz,
            "pe_clock_others": chip.ghz, "is_simulation": False, "vnc_enabled": chip.lnc}],
        "profile_info": [{"profile_name": f"{header['kernel']}_exec_{session['exec']}",
                          "ntff_filename": session["path"], "profile_type": "normal",
                          "profiler_version": EXPLORER}],
        "warnings": ([] if session["dge"] else [{"category": "Missing Data", "message": (
            "Missing additional dynamic DMA metadata, reported DMA values may be inaccurate. Try "
            "capturing the profile with --enable-dge-notifs or "
            "NEURON_RT_ENABLE_DGE_NOTIFICATIONS=1 env flag.")}]) + [
            {"category": "Missing Data", "message": "Missing HLO stats"}],
        "neff_node": [{"type": "", "format": "", "shape": "", "node": "1", "variable_name": ""}] + [
            {"type": role, "format": "NC", "shape": f"[{' '.join(map(str, tensor['shape']))}]",
             "size": str(tensor["nbytes"]), "sg_name": "", "variable_name": tensor["name"]}
            for role, of in (("IN", "inputs"), ("OUT", "outputs")) for tensor in header[of]],
        "model_info": [{"sg_name": f"sg{core:02}", "nc_idx": session["cores"][core], "nd_idx": 0,
                        "neuroncore_cycle_count": int(end * chip.ghz * 1e9)}
                       for core, end in enumerate(ends)],
        "instruction": tables.instruction, "dma": tables.dma, "active_time": active,
        "ham": throttled}


def _placed(tables: _Rows, core: int, row: list[Any], start: int, end: int) -> None:
    if row[0] == "dma":
        _, read, written, partitions, line = row
        sizes = {name: size for name, size in (("hbm_read_bytes", read),
                                               ("hbm_write_bytes", written)) if size}
        tables.instructed(core, "Sync", "DMA_DIRECT2D", start, min(end, start + 20), line, **sizes)
        tables.moved(core, start, end, max(read, written), partitions, "hardware_dynamic")
    elif row[0] == "matmul":
        _, K, M, N, dtype, transpose, line = row
        kind = "TRANSPOSE" if transpose else "REGULAR"
        source = f"src={DTYPES.get(dtype, dtype)}@0x100[1,0,0]"
        tables.instructed(core, "Tensor", "LDWEIGHTS", start, min(end, start + M // 4), line,
                          instruction_type=kind, operands=f"{source}[{M},1,1] {K}*{M} ")
        tables.instructed(core, "TensorMatrix", "MATMUL", start, end, line, instruction_type=kind,
                          elements=K * M * N, psum_write_bytes=4 * N,
                          operands=f"acc_flags=3 {source}[{N},1,1] "
                                   f"dst=0x2000000[1,0,0][{N},1,1] {K}*{M} ")
    else:
        _, engine, opcode, elements, line = row
        if elements:
            tables.instructed(core, LABELS.get(engine, "Vector"), opcode.upper(), start, end, line)


def _union(spans: list[tuple[float, float]]) -> float:
    total, reached = 0.0, -math.inf
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _activity(rows: list[tuple[int, str, int, int]]
              ) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Rows of active_time, a core and engine each its stretches; and ns, united over cores."""
    table: list[dict[str, Any]] = []
    by_engine: dict[str, list[tuple[float, float]]] = {}
    for core, engine in sorted({row[:2] for row in rows}):
        merged: list[list[int]] = []
        for start, end in sorted(row[2:] for row in rows if row[:2] == (core, engine)):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(end, merged[-1][1])
            else:
                merged.append([start, end])
        for start, end in merged:
            table.append({"engine": engine, "pcore_idx": core, "subgraph": f"sg{core:02}",
                          "start_ts": start, "end_ts": end, "duration_ns": end - start})
            by_engine.setdefault(engine, []).append((start, end))
    return table, {engine: int(_union(spans)) for engine, spans in by_engine.items()}


def _throttled(session: Mapping[str, Any], total: float) -> list[dict[str, Any]]:
    """One event a core: half speed for the second half."""
    half = int(total * 1e9 / 2)
    return [{"k": 4, "n": 8, "type": 1, "timestamp": half, "duration": half,
             "subgraph": f"sg{i:02}"} for i in range(len(session["cores"]))]


# --- parquet: the same by the names of schema 7.x ------------------------------------------------

_RENAMED = {
    "Instruction": {"label": "engine", "evt_wait_time": "evt_wait_time_ns",
                    "elements": "tensor_elements", "instruction_type": "tensor_instruction_type"},
    "DmaPacket": {"transfer_size": "transfer_bytes", "transfer_rate": "throughput",
                  "dma_engine": "engine_idx", "read_size": "read_bytes",
                  "write_size": "write_bytes", "dma_queue": "queue_idx"},
    "Throttle": {}, "ActiveTime": {}, "TensorInfo": {}, "Warning": {}, "Summary": {},
    "Metadata": {"pe_num_rows": "tensor_engine_num_rows", "pe_num_cols": "tensor_engine_num_cols",
                 "pe_clock_freq": "tensor_engine_clock_freq",
                 "pe_clock_others": "neuroncore_clock_freq"}}
_MOVED = {"instance_type": "instance_type", "nd_idx": "neuron_device_idx",
          "nc_idx": "neuroncore_idx", "compiler_version": "compiler_version",
          "runtime_version": "runtime_version", "driver_version": "driver_version",
          "collectives_version": "collectives_version", "profiler_version": "explorer_version"}


def tables(document: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The rename map of profiles.md section 4, read from left to right."""
    old = {"Summary": "summary", "Metadata": "metadata", "Instruction": "instruction",
           "DmaPacket": "dma", "ActiveTime": "active_time", "Throttle": "ham",
           "TensorInfo": "neff_node", "Warning": "warnings"}
    found = {name: [{_RENAMED[name].get(key, key): value for key, value in row.items()}
                    for row in document[table]] for name, table in old.items()}
    for row in (row for name in ("Instruction", "DmaPacket") for row in found[name]):
        row["start_ts"], row["duration_ns"] = row.pop("timestamp"), row.pop("duration")
        row["end_ts"] = row["start_ts"] + row["duration_ns"]
    for row in (row for name in ("Instruction", "DmaPacket", "Throttle", "ActiveTime")
                for row in found[name]):
        row["pcore_idx"] = int(row.pop("subgraph")[2:])
    for row in found["Instruction"]:
        row["timeline_track"], row["engine"] = row["engine"], row["engine"].removesuffix("Matrix")
    for row in found["DmaPacket"]:
        row["engine_idx"] = int(row["engine_idx"])
        row["source"], row["dest"] = "unknown", "unknown"
    for row in found["TensorInfo"]:
        row["size"] = int(row["size"]) if row.get("size") else None
    for row in found["Throttle"]:
        row["type"] = str(row["type"])
    summary, metadata = found["Summary"][0], found["Metadata"][0]
    for name, moved in _MOVED.items():
        if name in summary:
            metadata[moved] = summary.pop(name)
    cells: dict[tuple[int, str], dict[str, Any]] = {}
    for name in [name for name in summary if name.startswith("throttle_")]:
        kind = "activity_1" if "activity_1" in name else "all"
        nc = int(name.partition("_nc")[2].partition("_")[0])
        row = cells.setdefault((nc, kind), {"nc_idx": nc, "throttle_type": kind})
        column = ("throttle_active_time_ns" if name.endswith("_ns") else
                  "throttle_active_time_percent" if "active_time" in name else
                  "max_achievable_util_with_throttling_percent")
        row[column] = summary.pop(name)
    found["ThrottleSummary"] = list(cells.values())
    del metadata["data_version"]
    metadata["profile_schema_version"] = "7.4.0"
    return {name: rows for name, rows in found.items() if rows}  # a table without rows: no file
