"""howto.md done as it says: each command in order, on its kernel and on two it does not name."""

import contextlib
import io
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest
import standin
from ml_dtypes import bfloat16
from pages import ROOT
from recordings import book  # noqa: F401  # a fixture

from roofline import machine, nki, problems
from roofline.__main__ import main
from roofline.commands.answer import BAD, FINE, NO, NOWHERE

PAGE = (ROOT / "howto.md").read_text()
PARTS = ("**Input.**", "**Command**", "*In a notebook*", "**Output", "**Done when**",
         "**Usual mistake.**")
STEPS = {int(n): text for n, text in re.findall(
    r"^## (\d+)\. .*?$(.*?)(?=^## |\Z)", PAGE, re.M | re.S)}


def fences(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


def commands(text: str) -> list[str]:
    """What stands after `python -m roofline` in the page's shell fences."""
    lines = [line for fence in fences(text, "bash") for line in fence.splitlines()]
    assert all(line.startswith("python -m roofline ") for line in lines)
    return [line.removeprefix("python -m roofline ") for line in lines]


COMMANDS = {n: commands(text) for n, text in STEPS.items()}
# What the reader writes: step -> (file, text), appended in the order of the page.
WRITTEN = {n: (fence.split()[1].rstrip(","), fence) for n, text in STEPS.items()
           for fence in fences(text, "text")}


# --- the page's form -----------------------------------------------------------------------------


def test_there_are_twelve_steps():
    assert list(STEPS) == list(range(1, 13))


@pytest.mark.parametrize("n", range(1, 13))
def test_every_step_has_its_parts_in_order(n):
    places = [STEPS[n].find(part) for part in PARTS]
    assert -1 not in places and places == sorted(places)
    assert all(STEPS[n].count(part) == 1 for part in PARTS)
    assert len(fences(STEPS[n], "python")) == 1
    assert PAGE.count(f"(howto-{n})=") == 1


def test_every_step_is_one_command():
    assert {n: len(own) for n, own in COMMANDS.items()} == {n: 1 for n in range(1, 12)} | {12: 3}


def test_one_screen_has_the_same_commands():
    rows = re.findall(r"^\| \[(\d+)\]\(#howto-(\d+)\) \| .* \| `(.*)` \|$", PAGE, re.M)
    assert [(int(n), anchor, command) for n, anchor, command in rows] == [
        (n, str(n), own[0]) for n, own in COMMANDS.items()]


def test_a_reader_writes_four_times():
    assert {n: name for n, (name, _) in WRITTEN.items()} == {
        2: "call.txt", 3: "call.txt", 4: "call.txt", 12: "after.txt"}


def test_every_question_that_it_names_can_be_asked():
    named = set(re.findall(r"`(day7\.\w+)`", PAGE))
    assert len(named) == 10 and {problems.ask(one).id for one in named} == named


# --- a walk --------------------------------------------------------------------------------------


class Kernel(NamedTuple):
    """What a reader brings: a file, and the text of each step that asks for one.

    work, traffic   W in FLOP and Q in B, by arithmetic
    new             Q after the change of step 12, B
    turned          FLOP of transposes on the Tensor Engine, which are no work
    """

    file: Path
    written: dict[int, tuple[str, str]]
    work: int
    traffic: int
    new: int
    turned: int = 0

    @property
    def times(self) -> tuple[float, float]:
        """W / P and Q / BW, s."""
        return self.work / CORE.peak("bf16"), self.traffic / CORE.bw()


CORE = machine.get("trn2")
MLP_Q = 2 * (2 * 2048 * 1024 + 2 * 1024 * 4096)
LINEAR_Q = 2 * (512 * 512 + 512 * 1024 + 512 * 1024)


def blocks(rows: int) -> int:
    """Q of the depthwise kernel: x with 3 more elements a block, 4 taps in fp32, y."""
    return 2 * 256 * (rows + 3) * (8192 // rows) + 4 * 256 * 4 + 2 * 256 * 8192


OWN = ROOT / "tests" / "data" / "own.py"
KERNELS = {
    "the page's": Kernel(ROOT / "day5" / "kernels.py", WRITTEN, 4 * 2048 * 1024 * 4096, MLP_Q,
                         MLP_Q),
    "rms_linear": Kernel(OWN, {
        2: ("call.txt", "kernel.py:rms_linear x=512x512:bf16 w=512x1024:bf16 --chip=trn2\n"),
        3: ("call.txt", "--flops=2*512*512*1024  # a matmul; the transposes are no work\n"),
        4: ("call.txt", "--bytes=x:2*128*512*4 --bytes=w:2*128*1024*4\n--bytes=y:2*128*1024*4\n"),
        12: ("after.txt", "@call.txt\ncolumns=256  # shorter moving tiles\n"),
    }, 2 * 512 * 512 * 1024, LINEAR_Q, LINEAR_Q, turned=2 * 512 * 512 * 128),
    "depthwise": Kernel(OWN, {
        2: ("call.txt", "kernel.py:depthwise x=256x8195:bf16 w=256x4:fp32\n--chip=trn2\n"),
        3: ("call.txt", "# no matmul: W is 0, and so is --flops\n--flops=0\n"),
        4: ("call.txt", "--bytes=x:2*128*(2048+3)*8  # 3 of a row come again in each block\n"
                        "--bytes=w:4*128*4*2\n--bytes=y:2*128*2048*8\n"),
        12: ("after.txt", "kernel.py:depthwise x=256x8195:bf16 w=256x4:fp32 rows=4096\n"
                          "--chip=trn2 --bytes=x:2*128*(4096+3)*4 --bytes=w:4*128*4*2\n"
                          "--bytes=y:2*128*4096*4\n"),
    }, 0, blocks(2048), blocks(4096)),
}


class Ended(NamedTuple):
    code: int
    text: str
    errors: str


def run(command: str, folder: Path) -> Ended:
    """One command of the page, in this process and in that folder."""
    out, errors = io.StringIO(), io.StringIO()
    with (contextlib.chdir(folder), contextlib.redirect_stdout(out),
          contextlib.redirect_stderr(errors)):
        code = main(shlex.split(command))
    return Ended(code, out.getvalue(), errors.getvalue())


class Walk:
    """The twelve steps, done once with one kernel, each answer kept as JSON outside its folder."""

    def __init__(self, kernel: Kernel, folder: Path, beside: Path) -> None:
        self.kernel, self.folder = kernel, folder
        self.ended: dict[int, list[Ended]] = {}
        self.answers: dict[int, list[dict]] = {}
        shutil.copy(kernel.file, folder / "kernel.py")
        for n, own in COMMANDS.items():
            if n in kernel.written:
                name, text = kernel.written[n]
                with open(folder / name, "a") as file:
                    file.write(text)
            kept = [beside / f"{n}-{at}.json" for at in range(len(own))]
            self.ended[n] = [run(f"{command} --save={path}", folder)
                             for command, path in zip(own, kept, strict=True)]
            self.answers[n] = [json.loads(path.read_text()) for path in kept if path.exists()]

    def told(self, n: int) -> str:
        return self.ended[n][0].text

    @property
    def data(self) -> dict[int, dict]:
        """Step -> its first command's answer."""
        return {n: own[0] for n, own in self.answers.items()}


@pytest.fixture(scope="module", params=KERNELS)
def walk(request, tmp_path_factory):
    return Walk(KERNELS[request.param], tmp_path_factory.mktemp("mine"),
                tmp_path_factory.mktemp("beside"))


def test_every_command_goes_through(walk):
    """Ends with 0; off the device step 1 says with its 3 that nothing runs here."""
    bad = {COMMANDS[n][i]: (ended.code, ended.errors or ended.text)
           for n, own in walk.ended.items() for i, ended in enumerate(own)
           if ended.code != (NOWHERE if n == 1 else FINE)}
    assert not bad


def test_nothing_else_is_left_behind(walk):
    assert {path.name for path in walk.folder.iterdir()} == {
        "kernel.py", "call.txt", "after.txt", "before.json", "after.json", "roof.svg", "gap.html"}


def test_1_the_first_line_is_the_verdict(walk):
    assert walk.told(1).startswith("replay: ")


def test_2_every_kernel_of_the_file_is_listed(walk):
    named = re.findall(r"^@nki\.jit\ndef (\w+)\(", walk.kernel.file.read_text(), re.M)
    assert re.findall(r"^  (\w+)\(", walk.told(2), re.M) == named


def test_3_W_is_matmul_instructions_times_size(walk):
    counted = walk.data[3]
    assert counted["flops"] == sum(counted["yours"]["work"].values()) == walk.kernel.work
    shapes = counted["matmuls"]
    assert sum(2 * m["K"] * m["M"] * m["N"] * m["times"] for m in shapes
               if not m["transpose"]) == walk.kernel.work


def test_4_every_row_of_Q_agrees_and_what_stays_fits(walk):
    counted = walk.data[4]
    assert counted["hbm_bytes"] == counted["yours"]["hbm_bytes"] == walk.kernel.traffic
    assert all(t["difference"] == 0 for t in counted["tensors"])
    assert 0 < counted["sbuf_peak_bytes"] <= counted["sbuf_bytes"] == 128 * 224 * 1024


def test_5_P_and_BW_have_a_source_and_rivals(walk):
    figures = [f for f in walk.data[5]["figures"] if f["fact"] in ("peaks.bf16", "bandwidths.HBM")]
    assert {f["fact"] for f in figures if f["role"] == "used"} == {"peaks.bf16", "bandwidths.HBM"}
    assert {f["fact"] for f in figures if f["role"] == "rival"} == {"peaks.bf16", "bandwidths.HBM"}
    assert all(f["source"] for f in figures) and walk.data[5]["scope"] == "core"


def test_6_the_entitlement_is_the_two_quotients(walk):
    data, (compute, memory) = walk.data[6], walk.kernel.times
    assert data["t_best"] == pytest.approx(max(compute, memory), rel=1e-12)
    assert data["t_worst"] == pytest.approx(compute + memory, rel=1e-12)
    assert data["bytes_by"] == "your hand" and data["scope"] == "core"
    if walk.kernel.work:
        assert data["intensity"] == walk.kernel.work / walk.kernel.traffic
        assert data["ridge"] == pytest.approx(CORE.ridge("bf16"))
        assert data["binds"] == ("compute" if compute > memory else "HBM")


def test_7_a_prediction_is_modelled_and_says_what_it_waits_for(walk):
    data = walk.data[7]
    assert data["kind"] == "modelled" and data["t"] > data["t_best"]
    assert len([row for row in data["rows"] if row["time"] > 0]) >= 2
    assert "median error on published kernels" in walk.told(7) and "buffers" in walk.told(7)


def test_8_what_stands_in_for_a_device_says_so(walk):
    assert walk.data[8]["kind"] == "modelled" and "not a measurement" in walk.told(8)
    assert walk.data[8]["time"] == pytest.approx(walk.data[7]["t"], rel=1e-9)
    profile = (walk.folder / "before.json").read_text()
    assert '"is_simulation": true' in profile.replace('":true', '": true')


def test_8_without_the_option_it_ends_with_3_and_writes_nothing(walk):
    ended = run("capture @call.txt --write=none.json", walk.folder)
    assert ended.code == NOWHERE and "--or-model" in ended.errors
    assert not (walk.folder / "none.json").exists()


def test_9_each_difference_has_a_reason(walk):
    compared, causes = walk.data[9]["comparison"], walk.data[9]["comparison"]["causes"]
    assert compared["explained"] and not any(causes["unexplained"].values())
    assert compared["against"] == "model" and "\nmodel " in walk.told(9)   # before.json is one
    assert compared["profiler"]["flops"] - walk.kernel.work == walk.kernel.turned
    assert causes["transposes"]["flops"] == walk.kernel.turned
    assert compared["profiler"]["read"] + compared["profiler"]["written"] == walk.kernel.traffic


def test_10_reached_and_entitled_stand_at_the_hand_count(walk):
    data = walk.data[10]
    assert data["ran"]["at_its_bytes"] is None     # the profiler's Q is the same: no hollow mark
    picture = ElementTree.parse(walk.folder / "roof.svg").getroot()
    text = " ".join(picture.itertext())
    assert "modelled" in text
    if walk.kernel.work:
        at = walk.kernel.work / walk.kernel.traffic
        assert data["intensity"] == at
        assert data["ran"]["rate"] == pytest.approx(walk.kernel.work / data["ran"]["t"])
        assert "right below the entitled" in walk.told(10) and "ridge" in text
    else:
        assert "T_best" in text and "ridge" not in text   # times, and no place on a roofline


def test_11_the_parts_add_up_and_lie_somewhere(walk):
    data = walk.data[11]
    assert data["t_best"] == pytest.approx(max(walk.kernel.times), rel=1e-9)
    assert sum(row["time"] for row in data["rows"]) == pytest.approx(data["t"] - data["t_best"])
    for row in data["rows"]:
        assert row["stretches_ns"] or row["cause"] == "rounding"
        assert all(0 <= start < end <= 1e9 * data["t"] + 1 for _, start, end in row["stretches_ns"])
    page = (walk.folder / "gap.html").read_text()
    assert "<svg" in page and all(row["cause"] in page for row in data["rows"])


def test_12_the_change_is_predicted_then_held_against_it(walk):
    predicted = walk.data[12]
    assert predicted["hbm_bytes"] == walk.kernel.new
    saved = predicted["t"] - predicted["against"]["t"]
    assert saved == pytest.approx(sum(predicted["change"].values()) + predicted["t_best"]
                                  - predicted["against"]["t_best"], abs=1e-12)
    after = walk.answers[12][2]
    assert after["t"] == pytest.approx(predicted["t"], rel=1e-9)   # modelled again, so it holds
    assert after["hbm_bytes"] == walk.kernel.new


# --- on a device ---------------------------------------------------------------------------------


def test_the_same_commands_measure_where_there_is_a_device(book, monkeypatch):  # noqa: F811
    """On the tests' stand-in for a trn2: nothing of the page is said differently."""
    (book / "instance").mkdir()
    (book / "work" / "mine").mkdir(parents=True)
    (book / "beside").mkdir()
    for name, value in standin.install(book / "instance", "trn2").items():
        monkeypatch.setenv(name, value)
    walk = Walk(KERNELS["rms_linear"], book / "work" / "mine", book / "beside")
    assert [ended.code for own in walk.ended.values() for ended in own] == [FINE] * 14, [
        ended for own in walk.ended.values() for ended in own if ended.code]
    assert walk.told(1).startswith("run: ")
    assert walk.data[7]["kind"] == "modelled" and walk.data[8]["kind"] == "measured"
    assert walk.data[9]["comparison"]["explained"]
    assert walk.data[9]["comparison"]["against"] == "profiler"
    assert walk.data[10]["ran"]["kind"] == walk.data[11]["kind"] == "measured"
    assert walk.data[11]["t"] == pytest.approx(walk.data[8]["time"])
    predicted, after = walk.data[12], walk.answers[12][2]
    assert predicted["against"]["kind"] == after["kind"] == "measured"
    assert predicted["kind"] == "modelled" and after["t"] != pytest.approx(predicted["t"])
    assert len(list((book / "work" / "recorded").iterdir())) == 2   # before and after


# --- beside the steps ----------------------------------------------------------------------------


def test_a_wrong_hand_count_ends_with_1(walk):
    ended = run("count @call.txt --bytes=x:2", walk.folder)
    assert ended.code == NO and "differs in Q, tensor x" in ended.text
    ended = run("count @call.txt --flops=2", walk.folder)
    assert ended.code == NO and "differs in W" in ended.text


def section(anchor: str) -> str:
    return re.search(rf"^\({anchor}\)=$(.*?)(?=^\([\w-]+\)=$|\Z)", PAGE, re.M | re.S)[1]


def test_the_picture_in_one_command(tmp_path):
    """A file and its shapes, no call.txt: count, entitlement, point, ledger, three files."""
    shutil.copy(ROOT / "day5" / "kernels.py", tmp_path / "kernel.py")
    [command] = commands(section("howto-plot"))
    call = re.sub(r" --(profile|save)=\S+", "", command).removeprefix("roof ")
    assert run(f"capture {call} --or-model --write=before.json", tmp_path).code == FINE
    ended = run(command, tmp_path)
    assert ended.code == FINE, ended.errors
    assert all(word in ended.text for word in ("34.36 GFLOP", "T_worst", "MFU", "fill"))
    assert (tmp_path / "roof.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "roof.html").read_text()
    assert (tmp_path / "roof.csv").read_text().count("\n") > 3
    [formula] = re.findall(r"`python -m roofline (roof Matmul[^`]*)`", PAGE.replace("\n", " "))
    assert run(formula, tmp_path).code == FINE


NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "eight": 8}


def test_the_change_is_as_large_as_it_says(tmp_path):
    """Step 12: matmuls of the up-projection with both tiles, and its T; step 3: two matmuls."""
    shutil.copy(ROOT / "day5" / "kernels.py", tmp_path / "kernel.py")
    (tmp_path / "call.txt").write_text(WRITTEN[2][1])
    flat = " ".join(PAGE.split())
    short, times, long = re.search(
        r"`block=(\d+)` the up-projection needs (\w+) times as many matmuls as with (\d+)",
        flat).groups()
    B, D, F = 2048, 1024, 4096
    down = B * D * F // (128 * 128 * 512)  # the other product always has N = 512
    up = {}
    for block in (short, long):
        counted = json.loads(run(f"count @call.txt block={block} --json", tmp_path).text)
        up[block] = sum(m["times"] for m in counted["matmuls"]) - down
        assert up[block] == B * D * F // (128 * 128 * int(block))
    assert up[short] == NUMBERS[times] * up[long]
    [default] = re.findall(r"^  mlp_fused\(.*\bblock=(\d+)", run("count kernel.py", tmp_path).text,
                           re.M)
    assert default == short
    after = json.loads(run(f"predict @call.txt block={long} --json", tmp_path).text)
    [said] = re.findall(r"moves straight up, to a \$T\$ of ([\d.]+) us", flat)
    assert float(said) == pytest.approx(1e6 * after["t"], abs=0.05)
    [products] = re.findall(r"The MLP has (\w+) matmuls", flat)
    assert NUMBERS[products] == WRITTEN[3][1].count("--flops=")


def test_the_places_of_a_ledger_are_named_in_ns(walk):
    """All else is in s: the page's words for its JSON."""
    named = re.findall(r"`(\w+_ns)`", section("howto-files"))
    assert named == ["start_ns", "end_ns", "stretches_ns", "window_ns"]
    data = walk.data[11]
    assert "window_ns" in data and all("stretches_ns" in row for row in data["rows"])
    ends = [end for row in data["rows"] for _, _, end in row["stretches_ns"]]
    assert data["t"] == pytest.approx(max(ends) / 1e9, rel=1e-3)


def test_a_call_is_no_profile(walk):
    ended = run("predict @after.txt --against=call.txt", walk.folder)
    assert ended.code == BAD
    said = " ".join(ended.errors.split())
    assert "call.txt: expected JSON, a profile such as before.json" in said and "@call.txt" in said


def test_two_cores_as_one_load_the_weights_twice(tmp_path):
    """As the page says of LNC=2, with the MLP of the page: Q and both roofs of the pair."""
    shutil.copy(ROOT / "day5" / "kernels.py", tmp_path / "kernel.py")
    (tmp_path / "call.txt").write_text(WRITTEN[2][1].replace("--lnc=1", "--lnc=2"))
    counted = json.loads(run("count @call.txt --json", tmp_path).text)
    assert counted["hbm_bytes"] == MLP_Q + 2 * 2 * 1024 * 4096
    roof = json.loads(run("roof @call.txt --json", tmp_path).text)
    assert roof["ridge"] == pytest.approx(CORE.ridge("bf16")) and roof["scope"] == "lnc2"
    assert roof["times"]["compute"] == pytest.approx(KERNELS["the page's"].times[0] / 2)


# --- the kernels themselves ----------------------------------------------------------------------


def test_the_unnamed_kernels_compute_what_they_say():
    import numpy as np

    own, draw = nki.load(OWN), np.random.default_rng(7)
    x, w = (draw.standard_normal(shape).astype(bfloat16) for shape in ((256, 256), (256, 512)))
    y = nki.run(own.rms_linear, x, w, target="trn2").output.astype(float)
    x, w = x.astype(float), w.astype(float)
    expected = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6) @ w
    assert np.abs(y - expected).max() < 0.01 * np.abs(expected).max()

    x, w = draw.standard_normal((128, 1027)).astype(bfloat16), draw.standard_normal((128, 4))
    y = nki.run(own.depthwise, x, w.astype(np.float32), rows=512, target="trn2").output
    expected = sum(x.astype(float)[:, j:j + 1024] * w[:, j:j + 1] for j in range(4))
    assert np.abs(y.astype(float) - expected).max() < 0.01 * np.abs(expected).max()


def test_the_cells_do_the_same_in_a_notebook(tmp_path, capsys):
    shutil.copy(ROOT / "day5" / "kernels.py", tmp_path / "kernel.py")
    scope: dict = {}
    with contextlib.chdir(tmp_path):
        for cell in fences(PAGE, "python"):
            exec(cell, scope)
    assert scope["run"].count.flops == scope["W"] == KERNELS["the page's"].work
    assert scope["run"].count.hbm_bytes == scope["Q"] == MLP_Q
    assert scope["core"].entitle(scope["hand"]).t_best == max(KERNELS["the page's"].times)
    assert not capsys.readouterr().err
