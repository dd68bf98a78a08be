"""The command line itself: what it is told, how it ends, what it saves and never loses."""

import csv
import json
import os
import resource
import stat
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from pages import ROOT

from roofline import figures, machine, neuroncore, nki, ops, plot, units
from roofline.__main__ import main
from roofline.commands import COMMANDS, answer, working
from roofline.commands.answer import CODES, Answer, Nowhere, SaveError
from roofline.count import Uncounted
from roofline.device.runner import CaptureInterrupted
from roofline.table import WIDTH

KERNELS = ROOT / "day4" / "kernels.py"
CALL = ["Matmul", "M=128", "K=128", "N=512"]  # W = 2 M K N; Q = 2 (M K + K N + M N) in bf16
W, Q = 2 * 128 * 128 * 512, 2 * (128 * 128 + 128 * 512 + 128 * 512)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROOFLINE_TRACEBACK", raising=False)
    return tmp_path


@pytest.fixture
def answers(monkeypatch):
    """answers(what): from now on `probe` answers that, or raises it."""
    def made(what) -> None:
        def answered(args):
            if isinstance(what, BaseException):
                raise what
            return what() if callable(what) else what

        module = import_module("roofline.commands.probe")
        monkeypatch.setattr(module, "answer", answered)
        monkeypatch.setattr(module, "DRAWS", True, raising=False)

    return made


def process(*words: str, stdout=subprocess.PIPE, limit: int | None = None, python=(), **env: str
            ) -> subprocess.CompletedProcess:
    """A run of its own; limit: bytes that it may write into a file; python: its own options."""
    held = (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))) if limit else None
    return subprocess.run([sys.executable, *python, "-m", "roofline", *words], stdout=stdout,
                          stderr=subprocess.PIPE, preexec_fn=held, env={**os.environ, **env})


# --- what there is -------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_without_a_command_it_says_what_there_is_and_how_it_may_end(argv, capsys):
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert all(f"\n  {name} " in out for name in COMMANDS)
    assert all(f"\n  {code} " in out for code in CODES)
    assert err == "" and max(map(len, out.splitlines())) <= WIDTH


def test_it_says_its_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("roofline 0.")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_help_teaches_by_example(name, capsys):
    assert main([name, "--help"]) == main(["help", name]) == 0
    out = capsys.readouterr().out
    assert f"usage: python -m roofline {name}" in out and "--save FILE" in out
    assert f"\nexamples\n  python -m roofline {name}" in out
    examples = out[:len(out) // 2].partition("\nexamples\n")[2].splitlines()
    assert len(examples) >= 6 and max(map(len, out.splitlines())) <= WIDTH + 2
    for command in (line.strip() for line in examples if line.startswith("  python")):
        assert f"roofline {name}" in command


def test_help_loads_neither_numpy_nor_matplotlib():
    """So it is there at once."""
    code = ("import sys; from roofline.__main__ import main; from roofline.commands import COMMANDS"
            "\nfor words in ([], *([name] for name in COMMANDS)): main([*words, '--help'])"
            "\nprint(sorted({'numpy', 'matplotlib', 'pyarrow'} & {*sys.modules}), file=sys.stderr)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize(("argv", "said"), [
    (["cuont"], "did you mean count?"),
    (["cpature", "mlp.py"], "did you mean capture?"),
    (["cap"], "did you mean capture?"),
    (["mlp.py:mlp"], "the command comes first"),
    (["--json", "count"], "the command comes first"),
    (["count"], "CALL"),
    (["count", *CALL, "--josn"], "--josn"),
    (["predict", "x.py:k", "--bw=300 GB/s"], "no option --bw of predict; it is one of roof."),
    (["predict", "x.py:k", "--bw=3"], "no option --bw of predict; it is one of roof."),
    (["count", *CALL, "--josn= x"], "no option --josn of count, did you mean --json?"),
    (["count", *CALL, "--flops 3"], "'--flops 3' is one word. Write --flops=VALUE"),
    (["sheet", "trn2", "--scope=chip"], "'core', 'lnc2'"),
    (["capture", "x.py:k", "--tolerance=nan"], "expected a number above 0"),
    (["capture", "x.py:k", "--timeout=soon"], "--timeout"),
    (["capture", "x.py:k", "--or-model", "--core=-1"], "expected a whole number, 0 or more"),
    (["predict", "x.py:k", "--against="], "against: got an empty text"),
    (["predict", "x.py:k", "--write="], "write: got an empty text"),
    (["roof", *CALL, "--profile="], "profile: got an empty text"),
    (["gap", ""], "profile: got an empty text"),
    (["count", *CALL, ""], "call: got an empty text"),
    (["count", *CALL, "--save="], "save: got an empty text"),
    (["count", *CALL, "--save=a.txt", "--save", ""], "save: got an empty text"),
])
def test_what_cannot_be_understood_ends_with_2_and_says_what_would_do(argv, said, capsys):
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and said in err and "Traceback" not in err


LOUD = '''
import os
import sys

import nki
import tiles

print("said at import")
os.system("echo a child at import")
sys.__stdout__.write("past sys.stdout at import\\n")


@nki.jit
def copy(x, elements):
    """\x1b[2J\u202ey = x\r"""
    print("said in the body")
    os.system("echo a child in the body")
    return tiles.copy(x, elements)


'''
COPY = ["x=128x1024:fp32", "elements=256"]


@pytest.fixture
def loud(here) -> list[str]:
    """A call of a kernel that speaks while it is loaded and while it runs."""
    (here / "loud.py").write_text(LOUD)
    (here / "tiles.py").write_text(KERNELS.read_text())
    return ["loud.py:copy", *COPY]


@pytest.mark.parametrize("words", [["count"], ["roof"], ["predict"], ["capture", "--or-model"]])
def test_stdout_is_the_answer_alone_whatever_a_kernel_prints(loud, words, capfd):
    command, *more = words
    assert main([command, *loud, *more, "--json"]) == 0
    out, err = capfd.readouterr()
    assert "copy" in json.loads(out)["subject"]
    for said in ("said at import", "a child at import", "said in the body",
                 "a child in the body", "past sys.stdout at import"):
        assert said in err
    print("and then it is as before")
    os.system("echo so is the file descriptor")
    assert capfd.readouterr().out.split("\n")[:2] == [
        "and then it is as before", "so is the file descriptor"]


def test_stdout_is_the_answer_alone_where_sys_stdout_is_another(loud, capsys):
    assert main(["count", *loud, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) and "said at import" in err and "said in the body" in err


def test_stdout_is_the_answer_alone_in_a_pipe_and_with_stderr_closed(loud):
    done = process("count", *loud, "--json")
    assert json.loads(done.stdout) and b"a child in the body" in done.stderr
    done = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", sys.executable, "-m", "roofline",
                           "count", *loud, "--json"], stdout=subprocess.PIPE)
    assert done.returncode == 0 and json.loads(done.stdout)


@pytest.mark.parametrize("name", ["copy", "profile", "json", "argparse", "random", "numpy"])
def test_a_kernel_file_may_be_called_as_a_module_is(here, name):
    """Its own imports are those beside it; nobody else's are."""
    (here / f"{name}.py").write_text("import tiles\ncopy = tiles.copy\n")
    (here / "tiles.py").write_text(KERNELS.read_text())
    done = process("count", f"{name}.py:copy", *COPY, "--save=a.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((here / "a.json").read_text())["hbm_bytes"] == 2 * 4 * 128 * 1024


def test_what_python_starts_with_is_passed_by_with_its_own_option(here):
    (here / "operator.py").write_text(KERNELS.read_text())
    assert process("count", "operator.py:copy", *COPY, python=["-P"]).returncode == 0


def test_it_runs_in_the_librarys_own_folder_without_an_install(here, monkeypatch):
    monkeypatch.chdir(ROOT / "lib")
    done = process("count", f"{KERNELS}:copy", *COPY, python=["-S"], PYTHONPATH=os.pathsep.join(
        path for path in sys.path if path.endswith("site-packages")))
    assert done.returncode == 0, done.stderr


def test_no_control_character_of_a_file_reaches_the_terminal(loud, here, capsys):
    """Of its docstring, its def line, its name, its error, its source lines."""
    odd = "a\x1b]0;taken\x07.py"
    (here / odd).write_text(LOUD.replace("(x, elements)", "(x, elements='\x1b[31m')", 1))
    (here / "fails.py").write_text("raise ValueError('\x1b[31mred\x9b \u202eder')\n")
    for words in (["count", "loud.py"], ["count", odd], ["count", "fails.py"],
                  ["count", *loud, "--lines"], ["count", odd + "x"], ["\x1b[31m"]):
        main([*words, *["--save=a.txt", "--save=a.html"] * (words[0] == "count")])
        out, err = capsys.readouterr()
        saved = [path.read_text() for path in here.glob("a.[th]*")]
        assert (out + err).strip()
        for text in (out, err, *saved):
            assert all(c.isprintable() for c in text.replace("\n", ""))


# --- @file ---------------------------------------------------------------------------------------


def test_a_file_of_arguments_is_read_as_a_shell_would(here, capsys):
    """Comments, several words to a line, quotes, a file within it; what stands later wins."""
    (here / "size.txt").write_text("M=64\nK=128 N=512  # elements\n")
    (here / "my call.txt").write_text("\ufeffMatmul  # of two arrays\n\n'@size.txt' M=128 --json\n")
    assert main(["count", "@my call.txt", f"--flops={W}"]) == 0
    assert json.loads(capsys.readouterr().out)["flops"] == W


@pytest.mark.parametrize(("text", "said"), [
    (None, "No such file"),
    (b"\xff\xfe\x00\x01", "no text in UTF-8"),
    (b"Matmul\nM='128\n", "line 2: No closing quotation"),
    (b"@call.txt", "includes itself"),
    (b"@./call.txt", "includes itself"),
    (b"@other.txt", "includes itself"),
    (b"#" * 2**21, "bytes"),
    (b"", "CALL"),
])
def test_a_file_of_arguments_that_is_none(here, capsys, text, said):
    (here / "other.txt").write_bytes(b"M=2\n@call.txt\n")
    if text is not None:
        (here / "call.txt").write_bytes(text)
    assert main(["count", "@call.txt"]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("error:") == 1


def test_an_option_in_a_file_of_arguments_is_told_as_one(here, capsys):
    (here / "call.txt").write_text("Matmul M=128 K=128\n--bw='300 GB/s'  # of roof\nN=512\n")
    assert main(["count", "@call.txt"]) == 2
    assert "no option --bw of count; it is one of roof" in capsys.readouterr().err
    assert main(["roof", "@call.txt"]) == 0


def test_a_folder_is_no_file_of_arguments(here, capsys):
    (here / "a-folder").mkdir()
    assert main(["count", "@a-folder"]) == 2
    assert "@a-folder: Is a directory" in capsys.readouterr().err


def test_an_error_breaks_no_path_or_option(answers, capsys):
    """So that either can be copied from it."""
    path = "/tmp/" + "a-" * 60 + "b.json"
    answers(SaveError(f"{path}: not there. Use --or-model, " * 3))
    assert main(["probe"]) == 2
    err = capsys.readouterr().err
    assert err.count(path) == err.count("--or-model") == 3


# --- outputs are checked before the work ---------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
def test_save_stands_before_the_call_or_after_it(here, capsys, first):
    saves = ["--save=a.json", "--save", "b.txt"]
    assert main(["count", *saves * first, *CALL, *saves * (not first)]) == 0
    out, err = capsys.readouterr()
    assert err == "saved a.json\nsaved b.txt\n"
    assert (here / "b.txt").read_text() == out
    assert json.loads((here / "a.json").read_text())["hbm_bytes"] == Q


def refused(argv, capsys) -> str:
    """Why; before anything was counted or written."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(argv) == 2
    assert before == {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return err


@pytest.mark.parametrize(("path", "said"), [
    ("none/a.txt", "no folder"),
    ("a.pdf", ".txt, .json"),
    ("a", "no suffix"),
    ("folder.txt", "there is a folder"),
    ("full.txt", "there is a device"),
    ("x" * 300 + ".txt", "too long"),
    ("a\0.txt", "null"),
    ("@.txt/a.txt", "no folder"),
    ("a.txt --save=./a.txt", "--save writes there, too"),
    ("a.txt --save=link.txt", "--save writes there, too"),
    ("call.txt", "an input of this command"),
    ("to-call.txt", "an input of this command"),
    ("hard-call.txt", "an input of this command"),
    ("kept/figures.csv", "a recording"),
])
def test_where_nothing_can_be_saved_is_told_before_the_work(here, capsys, answers, path, said):
    answers(AssertionError("it has worked"))
    (here / "folder.txt").mkdir()
    (here / "kept").mkdir()
    (here / "kept" / "recording.json").write_text("{}")
    (here / "call.txt").write_text("# nothing\n")
    (here / "to-call.txt").symlink_to("call.txt")
    (here / "hard-call.txt").hardlink_to(here / "call.txt")
    (here / "full.txt").symlink_to("/dev/full")
    (here / "link.txt").symlink_to("a.txt")
    words = ["probe", "@call.txt", *f"--save={path}".split(" ")]
    assert said in refused(words, capsys)
    assert Path("/dev/full").is_char_device()


def test_why_a_new_file_in_an_input_is_refused(here, capsys):
    (here / "tables").mkdir()
    said = refused(["gap", "Matmul", "M=1", "tables", "--save=tables/new.csv"], capsys)
    assert "it is in tables, an input of this command" in said
    (here / "Matmul").mkdir()  # an op's name is no folder that is read
    assert main(["count", *CALL, "--save=Matmul/new.csv"]) == 0


def test_a_folder_of_a_chips_name_is_no_input(here, capsys):
    (here / "trn2").mkdir()
    assert [main(["sheet", "trn2", "--save=trn2/sheet.csv"]) for _ in range(2)] == [0, 0]


def test_a_read_only_place_is_told_before_the_work(here, capsys, answers, monkeypatch):
    answers(AssertionError("it has worked"))
    (here / "mine.txt").write_text("mine")
    monkeypatch.setattr(answer.os, "access", lambda path, how: Path(path).name != "mine.txt")
    assert "read-only" in refused(["probe", "--save=mine.txt"], capsys)
    monkeypatch.setattr(answer.os, "access", lambda path, how: False)
    assert "cannot be written to" in refused(["probe", "--save=a.txt"], capsys)


def test_a_form_that_the_answer_cannot_have_is_told_before_the_work(capsys, monkeypatch):
    monkeypatch.setattr(import_module("roofline.commands.sheet"), "answer", None)
    assert "saved as .txt, .json, .csv, .html; got '.png'" in refused(
        ["sheet", "--save=sheet.png"], capsys)


@pytest.mark.parametrize("words", [
    ["profile", "mine.json", "--save=mine.json"],
    ["gap", "mine.json", "--save=sub/../mine.json"],
    ["gap", "mine.json", "--flops=0", "--bytes=1", "--save=tables/Summary.csv", "tables"],
    ["gap", "tables", "--save=tables/new.csv"],
    ["gap", "Matmul", "M=1", "tables", "--save=tables/new.csv"],
    ["roof", *CALL, "--profile=tables", "--save=tables/sub/new.csv"],
    ["predict", "k.py:k", "--against=tables", "--write=tables/new.json"],
    ["capture", "k.py:k", "--inputs=mine.json", "--write=mine.json"],
    ["capture", "to-k.json:k", "--write=to-k.json"],
    ["capture", "k.py:k", "--write=other.json"],
    ["capture", "k.py:k", "--write=a.json", "--save=a.json"],
])
def test_no_input_is_written_over(here, capsys, words):
    (here / "sub").mkdir()
    (here / "tables" / "sub").mkdir(parents=True)
    for name in ("mine.json", "other.json", "k.py", "tables/Summary.csv"):
        (here / name).write_text("somebody's")
    (here / "to-k.json").symlink_to("k.py")
    refused(words, capsys)


@pytest.mark.parametrize("held", [
    {"profile_info": [{"written_by": "roofline"}]}, {"summary": [{"total_time": 1e-6}]},
    {"instruction": []}, {"n_12": {"total_time": 1e-6}}, {"total_time": 1e-6}])
def test_an_answer_replaces_an_answer_and_no_profile(here, answers, capsys, held):
    answers(Answer("yes", {"yes": 1}))
    assert [main(["probe", "--save=a.json"]) for _ in range(2)] == [0, 0]
    capsys.readouterr()
    answers(AssertionError("it has worked"))
    (here / "mine.json").write_text(json.dumps(held))
    (here / "link.json").symlink_to("mine.json")
    for words in (["--save=mine.json"], ["--save", "./mine.json"], ["--save=link.json"]):
        said = " ".join(refused(["probe", *words], capsys).split())
        assert "a profile is there" in said and "another name, such as mine-answer.json" in said


def test_a_file_that_is_no_profile_of_ours_is_told_in_words_of_the_command_line(here, capsys):
    (here / "other.json").write_text("{}")
    said = " ".join(refused(["predict", "k.py:k", "--write=other.json"], capsys).split())
    assert "other.json: there is a file that is no profile written by roofline; it was left" in said


# --- how it ends ---------------------------------------------------------------------------------


def test_an_answer_of_no_ends_with_1_and_nowhere_with_3(answers, capsys):
    answers(Answer("they differ", code=answer.NO))
    assert main(["probe"]) == 1
    answers(Nowhere("no device"))
    assert main(["probe"]) == 3
    assert capsys.readouterr() == ("they differ\n", "error: no device\n")


def _raised(of) -> BaseException:
    with pytest.raises(Exception) as caught:
        of()
    return caught.value


OURS = {
    "a shape": lambda: ops.Matmul(M=0, K=1, N=1),
    "a unit": lambda: units.parse("5 parsecs", "B"),
    "a machine": lambda: machine.get("trn9"),
    "a picture": lambda: plot.roofline(machine.get("trn2"), [plot.Point(
        "x", -1.0, None, "derived")], dtype="bf16"),
    "a figure": lambda: figures.nest(object()),
    "a kernel": lambda: nki.run(lambda x: x, ((128, 1), "nonsense")),
}


@pytest.mark.parametrize("error", [
    *(pytest.param(_raised(of), id=name) for name, of in OURS.items()),
    Uncounted("nl.rsqrt"), OSError(28, "No space left on device", "/tmp/x"), MemoryError(),
], ids=lambda error: type(error).__name__)
def test_an_error_of_the_library_is_said_in_its_own_words(error, answers, capsys):
    answers(error)
    assert main(["probe"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and "fault" not in err
    assert " ".join((error.strerror if isinstance(error, OSError) else str(error)).split()
                    )[:40] in " ".join(err.split()) and "Traceback" not in err


def test_a_fault_of_the_tool_says_so_and_where_when_asked(answers, capsys, monkeypatch):
    answers(ZeroDivisionError("division\nby zero"))
    assert main(["probe"]) == 70
    err = capsys.readouterr().err
    assert "ZeroDivisionError: division by zero" in err and "Traceback" not in err
    monkeypatch.setenv("ROOFLINE_TRACEBACK", "1")
    assert main(["probe"]) == 70
    err = capsys.readouterr().err
    assert "Traceback" in err and "in answered" in err and "error: " in err


def test_ctrl_c_ends_with_130(answers, capsys):
    answers(KeyboardInterrupt())
    assert main(["probe"]) == 130
    assert "stopped" in capsys.readouterr().err
    answers(CaptureInterrupted("copy: stopped by you; recordings are as they were"))
    assert main(["probe"]) == 130
    assert capsys.readouterr().err == "copy: stopped by you; recordings are as they were\n"


def test_stdout_may_be_closed_full_ascii_or_no_longer_read(here):
    words = ("count", *CALL, "--save=a.json")
    ascii_ = process(*words, PYTHONIOENCODING="ascii")
    assert ascii_.returncode == 0 and ascii_.stderr == b"saved a.json\n" and ascii_.stdout.isascii()
    with open("/dev/full", "wb") as full:
        done = process(*words, stdout=full)
    assert done.returncode == 2
    assert done.stderr.splitlines()[1:] == [
        b"error: stdout: No space left on device. Free some space, or use --save"]
    reader, writer = os.pipe()
    os.close(reader)
    done = process("count", *CALL, "--flops=1", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")  # the answer is no, read or not
    closed = subprocess.run(["sh", "-c", '"$@" >&- 2>&-', "sh", sys.executable, "-m", "roofline",
                             *words])
    assert closed.returncode == 0 and json.loads(Path("a.json").read_text())["flops"] == W


def test_what_stdout_cannot_say_becomes_an_escape(answers, capsys, monkeypatch):
    import io
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", out)
    answers(Answer("5 µs", {"time": "5 µs"}))
    assert main(["probe"]) == main(["probe", "--json"]) == 0
    text, made = out.buffer.getvalue().decode().split("\n", 1)
    assert text == r"5 \xb5s" and json.loads(made) == {"time": "5 µs"}


# --- forms of an answer --------------------------------------------------------------------------


def test_json_and_csv_hold_base_units_and_nothing_that_is_not_finite():
    made = Answer("t", {"inf": float("inf"), "nan": np.float64("nan"), "n": np.int64(3),
                        "rows": (np.float32(0.5), {"x": Path("a")}), "a": np.array([1.0, np.inf]),
                        "none": None, "yes": np.bool_(True)},
                  [("a", "b"), (float("nan"), "x,\n\"y\""), (np.float64(1.5), None)])
    assert json.loads(answer.to_json(made.data)) == {
        "inf": None, "nan": None, "n": 3, "rows": [0.5, {"x": "a"}], "a": [1.0, None],
        "none": None, "yes": True}
    rows = list(csv.reader(answer.to_csv(made.table).splitlines(keepends=True)))
    assert rows == [["a", "b"], ["", 'x,\n"y"'], ["1.5", ""]]


PICTURE = plot.roofline(machine.get("trn2"), dtype="bf16")


def test_every_form_is_saved_and_is_what_it_says(here, answers, capsys):
    answers(Answer("text <b>", {"a": 1}, [("a",), (1,)], PICTURE))
    assert main(["probe", *(f"--save=a{form}" for form in answer.FORMS)]) == 0
    found = {form: (here / f"a{form}").read_bytes() for form in answer.FORMS}
    assert found[".txt"] == b"text <b>\n" and found[".csv"] == b"a\n1\n"
    assert json.loads(found[".json"]) == {"a": 1}
    assert found[".png"].startswith(b"\x89PNG") and found[".svg"].lstrip().startswith(b"<svg")
    assert b"text &lt;b&gt;" in found[".html"] and b"<svg" in found[".html"]
    assert {path.name for path in here.iterdir()} == {f"a{form}" for form in answer.FORMS}


def test_a_page_is_titled_by_its_command_and_its_subject(here, answers, capsys):
    assert main(["count", *CALL, "--save=a.html"]) == 0
    assert main(["sheet", "trn1", "--save=b.html"]) == 0
    first, second = ((here / name).read_text() for name in ("a.html", "b.html"))
    for tag in ("title", "h1"):
        assert f"<{tag}>roofline count: Matmul M=128 K=128 N=512</{tag}>" in first
        assert f"<{tag}>roofline sheet: {machine.get('trn1').name}</{tag}>" in second
    answers(Answer("t", {"profile": "p<1>.json", "subject": "k", "name": None, "file": here}))
    assert main(["probe", "--save=c.html"]) == 0
    assert "<title>roofline probe: k, p&lt;1&gt;.json</title>" in (here / "c.html").read_text()


def test_a_form_that_is_not_there_takes_nothing_from_the_others(here, answers, capsys):
    answers(Answer("text"))
    assert main(["probe", "--save=a.png", "--save=a.csv", "--save=a.txt"]) == 2
    out, err = capsys.readouterr()
    assert out == "text\n" and err.count("this answer is saved as .txt, .json, .html") == 2
    assert [path.name for path in here.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("form", answer.FORMS)
def test_a_file_is_replaced_by_a_whole_one_or_not_at_all(here, form, answers, capsys, monkeypatch):
    """The disk fills up, or the reader stops it, while it is written."""
    place = here / f"a{form}"
    place.write_bytes(b"before")
    made = Answer("text", {"a": 1}, [("a",)], PICTURE)
    for error, code in ((OSError(28, "No space left on device"), 2), (KeyboardInterrupt(), 130)):
        def fails(*args, error=error):
            raise error
        with monkeypatch.context() as patched:
            patched.setattr(answer.os, "fsync", fails)
            answers(made)
            assert main(["probe", f"--save={place}"]) == code
        assert place.read_bytes() == b"before" and list(here.iterdir()) == [place]
    err = " ".join(capsys.readouterr().err.split())
    assert "No space left on device; what was there is as it was" in err


def test_a_disk_that_takes_no_more_loses_nothing(here):
    (here / "a.json").write_text("before")
    done = process("sheet", "trn2", "--save=a.json", limit=4096)
    assert done.returncode == 2 and b"a.json: File too large" in done.stderr
    assert b"Trainium2" in done.stdout and (here / "a.json").read_text() == "before"
    assert [path.name for path in here.iterdir()] == ["a.json"]


def test_permissions_and_links_stay(here, answers, capsys):
    mask = os.umask(0o027)
    try:
        (here / "kept.txt").write_text("before")
        (here / "kept.txt").chmod(0o604)
        (here / "link.txt").symlink_to("kept.txt")
        answers(Answer("text"))
        assert main(["probe", "--save=link.txt", "--save=new.txt"]) == 0
    finally:
        os.umask(mask)
    assert (here / "link.txt").is_symlink() and (here / "kept.txt").read_text() == "text\n"
    assert stat.S_IMODE((here / "kept.txt").stat().st_mode) == 0o604
    assert stat.S_IMODE((here / "new.txt").stat().st_mode) == 0o640


def test_a_figure_that_cannot_be_drawn_leaves_the_text(here, answers, capsys):
    class Odd:
        def save(self, path):
            raise plot.PlotError("nothing to draw")

    answers(Answer("text", figure=Odd()))
    assert main(["probe", "--save=a.svg", "--save=a.txt"]) == 2
    assert capsys.readouterr().out == "text\n" and (here / "a.txt").exists()
    assert not (here / "a.svg").exists()


def test_save_by_itself_refuses_what_has_no_place():
    with pytest.raises(SaveError, match=r"none/a.txt: no folder "):
        answer.save(Answer("text"), "none/a.txt", "title")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_stands_alone_and_is_readable_in_the_dark(here, visit, scheme):
    """A live timeline below a picture; no request, no markup of the text, ink on its ground."""
    run = nki.run(nki.load(KERNELS).copy, ((128, 1024), "fp32"), elements=256, target="trn2",
                  data=False)
    live = figures.timeline(neuroncore.predict(run).profile)
    answer.save(Answer("<script>document.title = 'taken'</script>", figure=PICTURE, page=(live,)),
                "a.html", "roofline <gap>")
    seen = visit((here / "a.html").as_uri(), color_scheme=scheme)
    seen.page.wait_for_selector(".rl-live svg, .rl-live canvas")
    assert seen.complaints == [] and seen.page.title() == "roofline <gap>"
    assert "taken" in seen.page.inner_text("pre") and seen.page.locator(".rl-figure svg").count()
    light = {}
    for what in ("body", ".rl-live"):
        ink, ground = seen.page.evaluate(
            "what => [getComputedStyle(document.querySelector(what)).color,"
            " getComputedStyle(document.body).backgroundColor]", what)
        light[what] = [sum(map(int, colour[4:-1].split(","))) / 3 for colour in (ink, ground)]
    for ink, ground in light.values():
        assert ink > ground + 150 if scheme == "dark" else ground > ink + 150


# --- signs of life -------------------------------------------------------------------------------


def test_long_work_says_that_it_goes_on(capsys, monkeypatch):
    import time
    monkeypatch.setattr(working, "PATIENCE", 0.01)
    with working.working("counting") as at:
        time.sleep(0.05)
        at("viewing")
        time.sleep(0.05)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "counting: 0 s" and "viewing" in lines and lines[-1] == "viewing: 0 s"


def test_short_work_says_nothing_and_a_closed_stderr_stops_nothing(capsys, monkeypatch):
    with working.working("counting"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", None)
    with working.working("counting") as at:
        at("viewing")
    assert main(["nothing"]) == 2
