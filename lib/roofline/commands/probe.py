"""roofline probe: what is here, and will a kernel run on it?

Question  does a kernel run here; on which chip, with which versions; and if not, what is missing?
Answer    answer(args) -> Answer: NOWHERE where commands replay or model instead
Assumes   what device.probe looks at; no core is held, nothing of Neuron is imported
Ignores   whether a run succeeds: capture
"""

import argparse
import contextlib
from dataclasses import fields

from ..device import probe, tested
from ..table import aligned, wrapped
from .answer import FINE, NOWHERE, Answer
from .working import working

EXAMPLES = """\
examples
  python -m roofline probe
      run and on what, or replay and why; ends with 3 where no kernel runs
  python -m roofline probe --json
      every field, where each was found, and the tested matrix
  python -m roofline probe && python -m roofline capture @call.txt
      capture where that can be done"""
LEFT_OUT = ("told", "here")  # of the fields: told beside the others; a place, no finding


def add(parser: argparse.ArgumentParser) -> None:
    """It needs no argument of its own."""


def answer(args: argparse.Namespace) -> Answer:
    with working("asking the tools for their versions"):
        here, matrix = probe(), tested()
    lines = wrapped([here.verdict], whole=True)
    if not here.bare:
        lines += ["", *wrapped(here.table(), hang=4, whole=True)]
    lines += wrapped([*[f"launch: {here.launch}"] * bool(here.launch),
                      *(f"held: {other}" for other in here.others),
                      *(f"note: {note}" for note in here.notes)], whole=True)
    found, bad = _recordings()
    lines += ["", *wrapped([
        *(f"recordings: {one}" for one in found), *(f"left out: {one}" for one in bad),
        *[matrix.line(here)] * (not here.bare)], whole=True)]
    if here.runs:
        lines.append("Next: python -m roofline capture CALL")
    else:
        lines += wrapped(["Next: predict and roof need no device. The page instance.md goes from "
                          "nothing to the first measured point, and probe then says run"],
                         whole=True)
        rows = [("instance", "SDK", "NKI", "off the device", "on a device"), *(
            (row.instance, row.sdk, row.nki, ", ".join(row.off_device), row.on_device)
            for row in dict.fromkeys(matrix))]
        lines += ["", "Tried so far", *aligned(list(dict.fromkeys(rows)), indent="  ")]
    named = {one.name: getattr(here, one.name) for one in fields(here)
             if one.name not in LEFT_OUT}
    data = {"runs": here.runs, "verdict": here.verdict, **named, "launch": here.launch,
            "others": [vars(other) for other in here.others], "synthetic": here.synthetic,
            "told": here.told, "recordings": found, "left_out": bad,
            "tested": [vars(row) for row in matrix], "checks": matrix.checks}
    words = {"explorer": "neuron-explorer", "physical_cores": "physical cores", "lnc": "LNC",
             "torch_neuronx": "torch-neuronx", "neuronx_cc": "neuronx-cc", "sdk": "SDK"}
    table = [("what", "which", "told"), *(
        (name, value if isinstance(value, str | int) else "", here.told.get(
            words.get(name, name), "")) for name, value in data.items()
        if value is None or isinstance(value, str | int))]
    return Answer("\n".join(lines).rstrip(), data, table, code=FINE if here.runs else NOWHERE)


def _recordings() -> tuple[list[str], list[str]]:
    """Label of each recording, and what is wrong with folders that are none."""
    with contextlib.suppress(ImportError):  # probe alone runs on Python alone
        from ..device import recordings
        there = recordings()
        return [f"{one.name}: {one.label}" for one in there], [bad.why for bad in there.problems]
    return [], []
