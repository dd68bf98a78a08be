"""JupyterLab as a reader uses it: a page's cells run, a question answered, a kernel counted anew.

JupyterLab runs on a copy in a temporary folder, on loopback, with settings of its own; every
request to another host is blocked and noted.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from urllib.error import URLError

import pytest
from pages import ROOT
from test_figures import AXE, READS

from roofline import ask, figures, machine, nki, units

PAGE = "day5/count_from_code.ipynb"
CELLS = ["c-day-5-count-a-kernel-from-its-code", "day5-count-reload", "day5-count-reload-attempt",
         "c-five-lines", "c-move-the-block"]
# Those that need no kernel, as JupyterLab shows them.
OTHERS = ["figures.roofline()", "figures.crossover()",
          'figures.nest(loopnest.Nest(ops.Matmul(256, 256, 512), "m128 n512 C k128 A B"))',
          "figures.clockwork()"]
PATIENCE = 150  # s for JupyterLab's first page, beside whatever else the machine does
TOKEN = "a-token-of-this-test"
M = K = N = 2048


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a reader has: the page's first cells and its figure, the kernels beside it."""
    folder = tmp_path_factory.mktemp("lab") / "pages"
    (folder / "day5").mkdir(parents=True)
    shutil.copy(ROOT / "day5/kernels.py", folder / "day5")
    notebook = json.loads((ROOT / PAGE).read_text())
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    more = [{"cell_type": "code", "id": f"other-{i}", "metadata": {}, "outputs": [],
             "execution_count": None, "source": source} for i, source in enumerate(OTHERS)]
    notebook["cells"] = [cells[name] for name in CELLS] + more
    (folder / PAGE).write_text(json.dumps(notebook))
    return folder


@pytest.fixture(scope="module")
def lab(folder):
    """JupyterLab's address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = folder.parent
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "JPY_"))}
    env |= {"JUPYTER_CONFIG_DIR": f"{own}/config", "JUPYTER_DATA_DIR": f"{own}/data",
            "JUPYTER_RUNTIME_DIR": f"{own}/runtime", "IPYTHONDIR": f"{own}/ipython",
            "JUPYTERLAB_SETTINGS_DIR": f"{own}/settings",
            "JUPYTERLAB_WORKSPACES_DIR": f"{own}/workspaces", "ROOFLINE_RECORDED": "1",
            "JUPYTER_CONFIG_PATH": str(ROOT / "_jupyter")}  # as course.py lab
    with open(own / "log.txt", "w") as log, subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser",
             f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
             f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}",
             *(["--allow-root"] if os.geteuid() == 0 else [])],
            cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT) as server:
        try:
            address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
            while True:
                try:
                    urllib.request.urlopen(f"{address}/api?token={TOKEN}", timeout=10).close()
                    break
                except (URLError, OSError):
                    said = (own / "log.txt").read_text()[-2000:]
                    assert server.poll() is None and time.monotonic() < deadline, said
                    time.sleep(0.2)
            yield address
        finally:
            server.terminate()  # it ends its kernels
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()


def cell(page, number):
    return page.locator(".jp-Notebook .jp-Cell").nth(number)


def answer(page, source):
    """Write the attempt's cell anew and run it; its output."""
    attempt = cell(page, CELLS.index("day5-count-reload-attempt"))
    attempt.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(source)
    attempt.locator(".jp-OutputArea-output").evaluate("(node) => { node.dataset.old = '1'; }")
    page.keyboard.press("Control+Enter")
    found = attempt.locator(".jp-OutputArea-output:not([data-old])")
    found.wait_for()
    return found.inner_text()


def status(figure, start):
    figure.locator(".rl-status").filter(has_text=re.compile("^" + re.escape(start))).wait_for()
    return figure.locator(".rl-status").text_content()


def test_a_reader_runs_answers_moves_and_edits(lab, folder, visit):
    seen = visit(f"{lab}/lab/tree/{PAGE}?token={TOKEN}", viewport={"width": 1300, "height": 1000})
    page = seen.page
    page.set_default_timeout(1000 * PATIENCE)
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    assert not page.get_by_role("menuitem", name="Nbgrader").count()  # a teacher's, not a reader's
    page.get_by_text("Run All Cells", exact=True).click()
    figure = page.locator(".rl-live[data-module=recount]")
    figure.wait_for(state="attached")
    page.locator(".rl-live[data-ready]").nth(len(OTHERS)).wait_for(state="attached")

    # A wrong answer gets its message and no stack, a right one is told.
    question = ask("day5.count.reload")
    with pytest.raises(Exception, match="r_A: not yet") as wrong:
        question.check(r_A=1, r_B=10)
    said = answer(page, "q.check(r_A=1, r_B=10)")
    assert str(wrong.value).split("\n")[0] in said and "Traceback" not in said
    # N / 512 and M / 128 of the page's shapes
    assert answer(page, "q.check(r_A=2048 // 512, r_B=1280 // 128)") == repr(
        question.check(r_A=2048 // 512, r_B=1280 // 128))

    # The figure: a guess, then moves that the kernel counts.
    kernels = nki.load(ROOT / "day5/kernels.py")
    live = figures.recount(kernels.matmul_c_stays, "K M", "K N", M=M, K=K, N=N, rows=[256, 512],
                           columns=1024)
    figure.scroll_into_view_if_needed()
    figure.get_by_label("rows from 256 to 512").check()
    figure.get_by_text("Check my guess").click()
    figure.get_by_text("Live", exact=True).wait_for()
    figure.get_by_label("rows", exact=True).press("ArrowRight")
    after = live.at(rows=512).count.hbm_bytes
    assert after == 2 * (2 * M * K + 4 * K * N + M * N)  # N / 1024 and M / 512
    status(figure, f"Q falls from {units.show(live.at().count.hbm_bytes, 'B')} to "
                   f"{units.show(after, 'B')}. b crosses 4 times, before 8 times.")

    # Any number: one that does not divide, then sizes that it does.
    figure.get_by_label("rows, exactly").fill("384")
    figure.get_by_label("rows, exactly").press("Enter")
    status(figure, "Refused: c_stays, rows 384, columns 1024. matmul_c_stays: its own assert "
                   "failed: M: expected a multiple of 384, got 2048")
    figure.get_by_label("M", exact=True).fill("1536")
    figure.get_by_label("M", exact=True).press("Enter")
    Q = 2 * (2 * 1536 * K + 4 * K * N + 1536 * N)
    status(figure, f"Q falls from {units.show(after, 'B')} to {units.show(Q, 'B')}.")
    reads = page.evaluate(READS)
    assert reads["bytes Q"] == units.show(Q, "B")
    assert reads["ridge P / BW"] == units.show(machine.trn2.ridge("bf16"), "FLOP/B")
    figure.locator(".rl-buttons button:disabled").wait_for()  # its list is filled

    # The kernel's file, edited: refused with its words, unreadable, and as it was.
    file = folder / "day5/kernels.py"
    source, again = file.read_text(), figure.get_by_text("Count again")
    file.write_text(source.replace("BANK = 512", "BANK = 1024"))
    again.click()
    assert "gemm_moving_fmax). Split N into 2 tiles\n  kernels.py, line " in status(
        figure, "kernels.py was edited, and is counted as it is now. Refused: c_stays, rows 384, "
                "columns 1024. nc_matmul: moving: got [128, 1024]; its free dim may be at most 512")
    figure.locator(".rl-buttons button:disabled").wait_for()
    file.write_text(source + "\n)")
    again.click()
    assert "not Python: unmatched ')'" in status(figure, "Not counted: load: ")
    file.write_text(source)
    again.click()
    status(figure, f"kernels.py was edited, and is counted as it is now. Q is {units.show(Q, 'B')}")
    figure.locator(".rl-buttons button:disabled").wait_for()

    # The others take a hand, too.
    for i in range(1, 1 + len(OTHERS)):
        other = page.locator(".rl-live").nth(i)
        other.scroll_into_view_if_needed()
        other.get_by_text("Skip", exact=True).click()
        other.locator(".rl-reads, .rl-status").first.wait_for()

    # What is saved is text and HTML, no widget.
    page.keyboard.press("Escape")
    page.get_by_role("menuitem", name="File", exact=True).click()
    page.get_by_text("Save Notebook", exact=True).click()
    deadline = time.monotonic() + PATIENCE
    while '"rl rl-live' not in (text := (folder / PAGE).read_text().replace("\\", "")):
        assert time.monotonic() < deadline
        page.wait_for_timeout(200)  # requests pass through this test: it may not sleep
    assert "widget-view" not in text and "widget-state" not in text
    saved = json.loads((folder / PAGE).read_text())["cells"][CELLS.index("c-move-the-block")]
    [output] = saved["outputs"]
    stored = next(one for one in json.loads((ROOT / PAGE).read_text())["cells"]
                  if one["id"] == "c-move-the-block")["outputs"][0]
    assert set(output["data"]) == {"text/plain", "text/html"}
    assert output["data"]["text/plain"] == stored["data"]["text/plain"]  # as nbval compares it

    # In the dark.
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    page.get_by_text("Theme", exact=True).hover()
    page.get_by_text("JupyterLab Dark", exact=True).click()
    page.locator("body[data-jp-theme-light=false]").wait_for(state="attached")
    page.evaluate(AXE)
    assert page.evaluate("""() => axe.run({ include: [[".rl-live"]] }).then((result) =>
      result.violations.map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 200)}`))""") == []
    assert seen.complaints == []
