"""The stand-in's `neuron-ls`: the table's head and the JSON of neuron-ls.rst."""

import json
import os
import sys
from pathlib import Path

from standin import device

KNOWN = {"-j": "json", "--json-output": "json", "-a": "all", "--show-all-procs": "all",
         "-w": "wide", "--wide": "wide", "-t": "topology", "--topology": "topology"}
OTHER = {"pid": 113985, "command": "neuron-bench exec --run-as-cc-neff --...",
         "neuron_runtime_version": "2.0.0"}


def main(folder: str) -> None:
    argv = sys.argv[1:]
    told = device.begin(folder, "neuron-ls", argv)
    if unknown := [word for word in argv if word not in KNOWN]:
        device.stop(f"unknown flag `{unknown[0]}'")
    if told["hang"] == "ls":
        device.hang(folder, told)
    if told["fail"] == "ls":
        device.stop("neuron-ls: error: No neuron device found")
    chip = device.CHIPS[told["chip"]]
    lnc = int(os.environ.get("NEURON_LOGICAL_NC_CONFIG", "2")) if chip.lnc else 1
    count = chip.cores // lnc
    busy: dict[int, list[dict[str, object]]] = {}
    for core in told["busy"]:
        busy.setdefault(core // chip.cores, [OTHER])
    for core, pid in device.holders(folder).items():
        row = {"pid": pid, "command": command(pid), "neuron_runtime_version": "2.32.1"}
        known = busy.setdefault(core // chip.cores, [])
        if row["pid"] not in {other["pid"] for other in known}:
            known.append(row)
    rows = []
    for number in range(chip.devices):
        row = {"neuron_device": number, "bdf": "cc:00.0", "cpu_affinity": "0-3", "numa_node": "0",
               "connected_to": None, "nc_count": count}
        if chip.lnc:
            row["logical_neuroncore_config"] = lnc
        rows.append(row | {"memory_size": chip.memory,
                           "neuroncore_ids": list(range(number * count, (number + 1) * count)),
                           "neuron_processes": busy.get(number, [])})
    if "json" in {KNOWN[word] for word in argv}:
        print(json.dumps(rows, indent=4))
        return
    print(f"instance-type: {chip.instance}\ninstance-id: i-aabbccdd123456789")
    if chip.lnc:
        print(f"logical-neuroncore-config: {lnc}")
    rule = "+--------+--------+--------+---------+"
    print(rule, "| NEURON | NEURON | NEURON |   PCI   |", "| DEVICE | CORES  | MEMORY |   BDF   |",
          rule, sep="\n")
    for number in range(chip.devices):
        print(f"| {number:<6} | {count:<6} | {chip.memory >> 30} GB  | cc:00.0 |")
    print(rule)


def command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return ""
    return " ".join(words).strip()
