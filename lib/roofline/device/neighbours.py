"""The same kernel in a loop on other cores, while one core is profiled.

Question  did the other cores work at the same time, so that they shared the memory?
Answer    neighbours(bench, here, lnc, cores, inputs): they run; and which of them is not known to
Assumes   a core that counts executions and is running still worked all the time
Ignores   how much they moved: each has a capture of its own, in turn
"""

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from . import chip, explorer
from .explorer import TOOL, Bench
from .plausibility import Flag

FOREVER = 10_000_000  # executions of a neighbour; it is ended long before
TRIES = 240  # half seconds until a neighbour has to have begun


@contextlib.contextmanager
def neighbours(bench: Bench, here: chip.Probe, lnc: int, cores: Sequence[int],
               inputs: Sequence[tuple[str, Path]]) -> Iterator[Callable[[], list[Flag]]]:
    """The same kernel in a loop on each of these cores; ended when the block is left.

    Yields a function: flags for the neighbours that are not known to have run all the time since.
    """
    running: dict[int, subprocess.Popen[bytes]] = {}
    with contextlib.ExitStack() as stack:
        for core in cores:
            beside = replace(bench, folder=bench.folder / "run" / f"core{core}",
                             environment={**bench.environment, **here.environment(lnc, core)})
            beside.folder.mkdir()
            said = stack.enter_context((beside.folder / "said.txt").open("wb"))
            running[core] = beside.start(_loop_command(bench, inputs), ".", said)
            stack.callback(chip.end, running[core], explorer.GRACE_S)
        zero = {core: executions(here, lnc, core) for core in cores}
        for core in cores:
            _wait_until_it_runs(bench, here, lnc, core, running[core], zero[core])
        start = {core: executions(here, lnc, core) for core in cores}

        def overlap() -> list[Flag]:
            return [Flag("overlap", f"core {core}: {why}") for core in cores if (why := _not_shown(
                running[core].poll(), start[core], executions(here, lnc, core)))]

        yield overlap


def _loop_command(bench: Bench, inputs: Sequence[tuple[str, Path]]) -> list[str]:
    """--disable-profile: load and execute without a profile (how-to-profile-workload.rst)."""
    return [TOOL, "capture", "-n", str(bench.folder / "kernel.neff"), "-s",
            "neighbour.ntff", "--disable-profile", f"--num-exec={FOREVER}",
            *(word for name, file in inputs for word in (name, str(bench.folder / file)))]


def _wait_until_it_runs(bench: Bench, here: chip.Probe, lnc: int, core: int,
                        process: "subprocess.Popen[bytes]", before: int | None) -> None:
    """Until the driver has counted an execution on this core, or there is no way to know."""
    for _ in range(TRIES):
        now = executions(here, lnc, core)
        if process.poll() is not None:
            log = bench.folder / "run" / f"core{core}" / "log.txt"
            with bench.log.open("ab") as whole:
                whole.write(b"\n$ (core %d)\n" % core + log.read_bytes())
            raise bench.error(f"neighbour on core {core}", "it ended before the capture began")
        if before is None or (now or 0) > before:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)


def executions(here: chip.Probe, lnc: int, core: int) -> int | None:
    """The driver's count of executions on a logical core; None where it does not tell.

    Source: neuron-sysfs-user-guide.rst. Which of its numbers a logical core of two has is not
    documented: that of the pair's first physical core, or the one of the pair that counts.
    """
    each = here.physical_cores or 1
    device, first = divmod(core * lnc, each)
    top = here.here.sys / "devices" / "virtual" / "neuron_device" / f"neuron{device}"
    found = []
    for one in range(first, first + lnc):
        counter = top / f"neuron_core{one}" / "stats" / "other_info" / "inference_count"
        for file in (counter / "total", counter):
            with contextlib.suppress(OSError, ValueError):
                found.append(int(file.read_text()))
                break
    return max(found, default=None)


def _not_shown(ended: int | None, before: int | None, after: int | None) -> str:
    """Why it is not shown that a neighbour ran all the time; "" when it is."""
    if ended is not None:
        return "it ended before the capture did"
    if before is None or after is None:
        return "the driver does not count its executions here"
    return "" if after > before else "no execution of it was counted during the capture"
