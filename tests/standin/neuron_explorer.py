"""The stand-in's `neuron-explorer`: capture, view, --version.

Flags and what they do: how-to-profile-workload.rst (capture), get-started.rst, neuron-profile's
user guide and how-to-analyze-profile-output.rst (view), profiles.md section 1 (what users saw).
Any other flag is refused.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from standin import device, neff, reply

# flag -> whether it takes a value; short flags stand for the long one
CAPTURE = {
    "neff": True, "session-file": True, "num-exec": True, "profile-nth-exec": True,
    "capture-type": True, "exec-mode": True, "ignore-exec-errors": False,
    "disable-profile": False, "enable-dge-notifs": False, "single-io": False,
    "single-io-threshold": True, "save-output": False, "save-output-npy": False,
    "check-output-determinism": False, "collectives-workers-per-node": True,
    "collectives-worker-count": True, "collectives-worker-start-id": True,
    "collectives-profile-id": True, "multi-input": True}
VIEW = {
    "neff-path": True, "session-file": True, "session-dir": True, "output-format": True,
    "output-file": True, "ingest-only": False, "display-name": True, "data-path": True,
    "ignore-device-profile": False, "ignore-system-profile": False, "ignore-dma-trace": False,
    "nki-source-root": True, "framework-source-root": True, "port": True, "force": False,
    "enable-memory-tracker": False, "system-trace-secondary-group": True}
SHORT = {"capture": {"n": "neff", "s": "session-file", "t": "capture-type",
                     "r": "collectives-workers-per-node", "i": "collectives-profile-id",
                     "m": "multi-input"},
         "view": {"n": "neff-path", "s": "session-file", "d": "session-dir"}}
FORMATS = ("parquet", "json", "perfetto", "summary-text", "summary-json")
SESSION = b"NTFF of a test stand-in\n"


def main(folder: str) -> None:
    argv = sys.argv[1:]
    told = device.begin(folder, "neuron-explorer", argv)
    verb = argv[0] if argv else ""
    if verb in ("--version", "-v"):
        if told["hang"] == "version":
            device.hang(folder, told)
        print(f"neuron-explorer {device.EXPLORER}")
    elif verb == "capture":
        capture(folder, told, *parsed("capture", argv[1:], CAPTURE))
    elif verb == "view":
        flags, rest = parsed("view", argv[1:], VIEW)
        if rest:
            device.stop(f"view: unexpected argument {rest[0]!r}")
        view(folder, told, flags)
    else:
        device.stop(f"Unknown command `{verb}'. You should use one of: capture, inspect, view")


def parsed(verb: str, argv: list[str], known: dict[str, bool]) -> tuple[dict[str, str], list[str]]:
    """Flags (--name=value, --name value, -n value) and what is no flag."""
    flags: dict[str, str] = {}
    rest, todo = [], list(argv)
    while todo:
        word = todo.pop(0)
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = name if word.startswith("--") else SHORT[verb].get(name, f"-{name}")
        if name not in known:
            device.stop(f"unknown flag `{word}'")
        if name in flags:
            device.stop(f"flag `{word}' is given twice")
        if known[name] and not equals:
            if not todo:
                device.stop(f"expected argument for flag `{word}'")
            value = todo.pop(0)
        elif not known[name] and equals:
            device.stop(f"bool flag `{word}' cannot have an argument")
        flags[name] = value
    return flags, rest


def number(flags: dict[str, str], name: str, default: int) -> int:
    said = flags.get(name, str(default))
    if not said.isdigit():
        device.stop(f"invalid argument for flag `--{name}' (expected int): {said!r}")
    return int(said)


def compiled(path: str) -> tuple[dict[str, Any], list[bytes]]:
    try:
        return neff.read(path)
    except (OSError, ValueError) as error:
        device.stop(f"failed to read NEFF {path}: {error}")


# --- capture -------------------------------------------------------------------------------------


def capture(folder: str, told: dict[str, Any], flags: dict[str, str], rest: list[str]) -> None:
    for name in ("collectives-workers-per-node", "collectives-worker-count", "multi-input"):
        if name in flags:
            device.stop(f"capture: --{name}: the stand-in has one worker")
    if flags.get("capture-type", "profile") != "profile":
        device.stop("capture: the stand-in captures device profiles")
    if flags.get("exec-mode", "sync") not in ("sync", "async", "async-wait"):
        device.stop(f"invalid value {flags['exec-mode']!r} for --exec-mode")
    header, outputs = compiled(flags.get("neff", "file.neff"))
    same = given(header, rest)
    chip = device.CHIPS[told["chip"]]
    if told["hang"] == "capture":
        device.hang(folder, told)
    try:
        lnc = device.configured(chip, os.environ)
        if lnc != header["lnc"]:
            raise device.NrtError(
                f"NRT_FAILURE(1): the NEFF is compiled for LNC {header['lnc']}, the runtime's "
                f"logical NeuronCore configuration is {lnc}")
        if header["target"] not in chip.targets:
            raise device.NrtError(f"NRT_FAILURE(1): the NEFF is for {header['target']}")
        held = device.take(folder, told, os.environ)
        cores = device.visible(chip, os.environ)[:lnc]
    except device.NrtError as error:
        device.stop(f"ERROR   NRT:nrt_init   {error}\nfailed to capture profile: {error}")
    if told["fail"] == "capture":
        device.stop("ERROR  TDRV:exec_consume_tpb_status_notifications  Missed infer_status\n"
                    "failed to execute model: NRT_TIMEOUT(5)")
    times, nth = number(flags, "num-exec", 1), number(flags, "profile-nth-exec", 1)
    profiled = [] if "disable-profile" in flags or not nth else [
        i for i in range(1, times + 1) if i % nth == 0]
    execute(folder, told, cores, times)
    if told["overflow"] and "enable-dge-notifs" in flags:
        device.stop("failed to execute model: NRT_EXEC_SW_NQ_OVERFLOW(1204)")
    if told["full_disk"]:
        device.stop("failed to write profile: write profile_exec_2.ntff: no space left on device")
    session = flags.get("session-file", "profile.ntff")
    for i in profiled:
        if told["silent"]:
            continue
        path = Path(session)
        if i > 1 and not told["cold_name"]:
            path = path.with_name(f"{path.stem}_exec_{i}{path.suffix}")
        said = {"uuid": header["uuid"], "exec": 1 if told["cold_name"] else i, "cores": cores,
                "beside": bool(set(device.holders(folder)) - set(cores)),
                "dge": "enable-dge-notifs" in flags
                or os.environ.get("NEURON_RT_ENABLE_DGE_NOTIFICATIONS") == "1",
                "path": str(path.absolute())}
        path.write_bytes(b"" if told["empty_ntff"] else SESSION + json.dumps(said).encode())
        print(f"INFO saved profile to {path}")
    save(flags, header, outputs, same)
    del held


def given(header: dict[str, Any], rest: list[str]) -> bool:
    """Check the inputs against the NEFF's. Returns whether they are what it was compiled with."""
    if not rest:
        return False  # zero-filled buffers
    if len(rest) % 2:
        device.stop(f"capture: inputs: expected <NAME> <FILE_PATH> pairs, got {rest}")
    pairs = dict(zip(rest[::2], rest[1::2], strict=True))
    wanted = {tensor["name"]: tensor for tensor in header["inputs"]}
    if set(pairs) != set(wanted) or len(pairs) * 2 != len(rest):
        device.stop(f"NRT_INVALID(2): input tensor name mismatch: the NEFF has {sorted(wanted)}, "
                    f"got {rest[::2]}")
    same = True
    for name, path in pairs.items():
        try:
            _, _, raw = neff.npy(path)
        except (OSError, ValueError) as error:
            device.stop(f"failed to read input {name}: {error}")
        if len(raw) != wanted[name]["nbytes"]:
            device.stop(f"NRT_INVALID(2): input tensor size mismatch: {name}: the NEFF has "
                        f"{wanted[name]['nbytes']} bytes, {path} {len(raw)}")
        same &= neff.digest(raw) == wanted[name]["sha256"]
    return same


def execute(folder: str, told: dict[str, Any], cores: list[int], times: int) -> None:
    """Run so often, and let the counters of /sys tell it meanwhile."""
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1) or sys.exit(143))
    time.sleep(told["capture_s"])
    done = 0
    while done < times:
        step = min(times - done, max(1, int(0.01 / told["exec_s"])) if told["exec_s"] else 1000)
        time.sleep(step * told["exec_s"])
        for core in cores:
            device.counted(folder, told, core, step)
        done += step


def save(flags: dict[str, str], header: dict[str, Any], outputs: list[bytes], same: bool) -> None:
    """--save-output, --save-output-npy: into the working directory, named as the output."""
    for tensor, raw in zip(header["outputs"], outputs, strict=True):
        if not same:
            raw = bytes(len(raw))  # of zero-filled inputs
        try:
            if "save-output-npy" in flags:
                Path(f"{tensor['name']}.npy").write_bytes(neff.to_npy(tensor, raw))
            if "save-output" in flags:
                Path(tensor["name"]).write_bytes(raw)
        except ValueError as error:
            device.stop(str(error))


# --- view ----------------------------------------------------------------------------------------


def view(folder: str, told: dict[str, Any], flags: dict[str, str]) -> None:
    form = flags.get("output-format", "parquet")
    if form not in FORMATS:
        device.stop(f"Invalid value `{form}' for option `--output-format'. Allowed values are: "
                    f"{', '.join(FORMATS)}")
    if "output-format" not in flags and "ingest-only" not in flags:
        if "neff-path" in flags or "session-file" in flags or "session-dir" in flags:
            opened(flags)
        print("View a list of profiles at http://localhost:3001/\nctrl-c to exit", flush=True)
        time.sleep(device.FOREVER)
        return
    header, session = opened(flags)
    if told["fail"] == "view":
        device.stop("ERRO[0002] failed to process profile: invalid NTFF")
    sys.stderr.write("ERRO[0012] Unable to process node with uid 5f5f for exec 6\n")  # harmless
    made = answer(told, header, session)
    if form == "summary-json":
        summary(folder, told, flags, made)
    elif form == "summary-text":
        print(reply.SESSION)
        for name, value in made["summary"][0].items():
            print(f"{name}  {value}")
    elif form == "json":
        if told["hang"] == "json":
            device.hang(folder, told)
        if told["json"] == "fails":
            device.stop("ERRO[0003] failed to write json output")
        text = "" if told["json"] == "empty" else json.dumps(
            {} if told["json"] == "object" else made)
        Path(flags.get("output-file", "ntff.json")).write_text(text)
    elif form == "parquet":
        ingest(told, flags, made)
    else:
        device.stop(f"the stand-in writes no {form}")


def opened(flags: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    if "session-dir" in flags:
        device.stop("view: -d needs a system profile: no trace_info.pb in it")
    header, _ = compiled(flags.get("neff-path", "file.neff"))
    path = flags.get("session-file", "profile.ntff")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        device.stop(f"failed to open session file: {error}")
    if not data.startswith(SESSION):
        device.stop(f"failed to read NTFF {path}: unexpected end of file")
    session: dict[str, Any] = json.loads(data[len(SESSION):])
    if session["uuid"] != header["uuid"]:
        device.stop("NEFF/NTFF UUID mismatch")
    return header, session


def answer(told: dict[str, Any], header: dict[str, Any], session: dict[str, Any]
           ) -> dict[str, list[dict[str, Any]]]:
    """A file of the real profiler where the test names one; else made for this launch."""
    if not told["reply"]:
        return reply.document(header, session, told)
    real: dict[str, Any] = json.loads(Path(told["reply"]).read_text())
    if "summary" in real:
        return real
    return {"summary": [next(iter(real.values()))]}


def summary(folder: str, told: dict[str, Any], flags: dict[str, str],
            made: dict[str, list[dict[str, Any]]]) -> None:
    """One object on stdout, a session each; a file name is refused."""
    if "output-file" in flags:
        device.stop("--output-file is not supported with summary-json")
    if told["hang"] == "summary":
        device.hang(folder, told)
    if told["fail"] == "summary":
        device.stop("ERRO[0003] failed to compute summary metrics")
    if told["log_lines"] == "json":
        print('{"level":"info","msg":"Processing 1 of 1 profiles"}')
    elif told["log_lines"]:
        print('time="2026-08-17T00:00:00Z" level=info msg="Processing {1 of 1} profiles"\n'
              "[INFO] done")
    sessions = {} if told["summary"] == "none" else {reply.SESSION: made["summary"][0]}
    if told["summary"] == "two":  # of a whole capture a system session stands beside it
        sessions["s_" + "6" * 40] = {"system": {"events": 3}}
    text = json.dumps(sessions)
    print("" if told["summary"] == "empty" else
          text[:len(text) // 2] if told["summary"] == "cut" else text)


def ingest(told: dict[str, Any], flags: dict[str, str],
           made: dict[str, list[dict[str, Any]]]) -> None:
    """Tables into <data-path>/profiles/global/<display-name>@latest/, or --output-file's folder."""
    if told["parquet"] == "fails" or (told["json"] == "empty" and "ingest-only" not in flags):
        device.stop("ERRO[0004] failed to write parquet")
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]
    name = flags.get("display-name", "profile")
    target = Path(flags["output-file"]) if "output-file" in flags else (
        Path(flags.get("data-path", ".")) / "profiles" / "global" / f"{name}@latest")
    target.mkdir(parents=True, exist_ok=True)
    for table, rows in reply.tables(made).items():
        names = dict.fromkeys(key for row in rows for key in row)
        columns = {key: [row.get(key) for row in rows] for key in names}
        pyarrow.parquet.write_table(pyarrow.table(columns), target / f"{table}.parquet")
    print(f"View profile at http://localhost:3001/profile/{name}")
