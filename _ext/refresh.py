"""Run notebooks and rewrite them in normal form: `python3 course.py refresh [NOTEBOOK ...]`.

Question  what do the cells print now, and how is that stored so that a diff shows meaning?
Answer    text outputs only: no pictures, no HTML, no counts, no times; cell ids that stay
Assumes   measurements replay what ships (ROOFLINE_RECORDED=1), so every machine agrees
Ignores   cells' order and sources: those are the author's
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).parent.parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def normal(notebook: Any, stem: str) -> Any:
    """`notebook` in the form that is committed, in place. Ids that exist are kept."""
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    used: set[str] = set()
    for number, cell in enumerate(notebook.cells):
        name = cell.get("id", "")
        if not name or name in used:
            name = next(n for n in (f"{stem}-{number + k:03}" for k in range(10_000))
                        if n not in used)
        used.add(name)
        cell.id = name
        for noise in ("execution", "collapsed", "scrolled", "jupyter", "editable"):
            cell.metadata.pop(noise, None)
        # What a page folds, JupyterLab folds too.
        tags = cell.metadata.get("tags", [])
        if hidden := {name: True for name, tag in (("outputs_hidden", "hide-output"),
                                                   ("outputs_hidden", "worked"),
                                                   ("source_hidden", "worked")) if tag in tags}:
            cell.metadata["jupyter"] = nbformat.from_dict(hidden)
        if cell.cell_type == "code":
            cell.execution_count = None
            cell.outputs = _joined([kept for output in cell.outputs if (kept := _text(output))])
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """Neighbouring pieces of one stream as one: where a kernel cuts it is chance."""
    found: list[Any] = []
    for output in outputs:
        if (output.output_type == "stream" and found
                and found[-1].get("name") == output.name):
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def _text(output: Any) -> Any:
    """The part of an output that is stored: its text."""
    output = nbformat.from_dict(output)
    if "data" in output:
        if "text/plain" not in output.data:
            return None
        output.data = nbformat.from_dict({"text/plain": output.data["text/plain"]})
        output.metadata = nbformat.from_dict({})
        if "execution_count" in output:
            output.execution_count = None
    if output.output_type == "error":
        output.traceback = []
    return output


def write(notebook: Any, path: Path) -> bool:
    """Write `notebook`; whether the file changed."""
    text = nbformat.writes(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def refresh(path: Path) -> bool:
    """Run one notebook and store what its cells print; whether the file changed."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", store_widget_state=False,
                   resources={"metadata": {"path": str(path.parent)}}
                   ).execute(stderr=subprocess.DEVNULL)  # the kernel's own remarks
    return write(normal(notebook, path.stem), path)


def picture() -> None:
    """The roofline in the README, drawn by the book's own function."""
    from roofline import machine, ops, plot

    matmul = ops.Matmul(M=2048, K=2048, N=2048, dtype="fp32")
    counts = {
        "add": ops.Add(n=2**24).algorithmic,
        "layernorm": ops.LayerNorm(rows=4096, D=4096).algorithmic,
        "tiled matmul": matmul.reloaded(2048 // 16, 2048 // 16),
        "matmul": matmul.algorithmic,
    }
    points = [plot.Point(name, count.intensity) for name, count in counts.items()]
    plot.roofline(machine.get("desktop"), points, dtype="fp32").save(
        ROOT / "_static" / "roofline.png")


def main(arguments: list[str]) -> int:
    os.environ["ROOFLINE_RECORDED"] = "1"
    paths = [Path(a).resolve() for a in arguments] or sorted(
        path for pattern in ("day*/*.ipynb", "casestudy/*.ipynb") for path in ROOT.glob(pattern))
    for path in paths:
        name = path.relative_to(ROOT)
        try:
            print(f"{name}: {'rewritten' if refresh(path) else 'as it was'}", flush=True)
        except CellExecutionError as error:
            print(f"{name}: a cell failed, the file is as it was\n{error}", file=sys.stderr)
            return 1
    if not arguments:
        picture()
        print("_static/roofline.png: drawn")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
