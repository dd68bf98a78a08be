"""course.py and the repository around it: set-up, copies, what a failure says, the linters."""

import importlib.util
import re
import subprocess
import sys
import tomllib

import pytest
from pages import ROOT

spec = importlib.util.spec_from_file_location("course", ROOT / "course.py")
course = importlib.util.module_from_spec(spec)
spec.loader.exec_module(course)


# --- the tools -----------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("ruff", "check", "."), ("mypy",)], ids=lambda c: c[0])
def test_clean(command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# --- requirements --------------------------------------------------------------------------


def listed() -> dict[str, str]:
    """requirements.in: package -> the reason beside it."""
    lines = [line for line in (ROOT / "requirements.in").read_text().splitlines()
             if line and not line.startswith("#")]
    return {re.split(r"[<>=# ]", line.removeprefix("-e "))[0]: line.partition("#")[2].strip()
            for line in lines}


def test_every_requirement_has_a_reason():
    assert all(len(reason.split()) >= 2 for reason in listed().values())


def test_every_requirement_is_pinned_and_the_library_is_editable():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert lines[0] == "-e ./lib"
    assert all(re.match(r"[a-z0-9._-]+==[^ ]+( ; .+)?$", line) for line in lines[1:])
    pinned = {line.partition("==")[0] for line in lines[1:]}
    assert {name for name in listed() if name != "./lib"} <= pinned


def test_the_library_asks_for_nothing_that_is_not_pinned():
    project = tomllib.loads((ROOT / "lib/pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["host"]
    names = {re.match(r"[\w-]+", want)[0] for want in wanted}
    assert names <= set(listed())
    assert all(">=" in want and "==" not in want for want in wanted)


def test_no_package_host_is_named():
    for name in ("requirements.in", "requirements.txt", "course.py", ".ci/run"):
        text = (ROOT / name).read_text()
        assert not re.search(r"https?://(?!127\.0\.0\.1)|index-url", text), name


# --- course.py -----------------------------------------------------------------------------


def test_it_is_short_and_needs_the_standard_library_alone():
    source = (ROOT / "course.py").read_text()
    assert len(source.splitlines()) < 300
    heads = set(re.findall(r"^(?:import|from) (\w+)", source, re.M)) - {"__future__"}
    assert heads <= sys.stdlib_module_names


def test_help_names_every_command():
    done = subprocess.run([sys.executable, ROOT / "course.py", "--help"], capture_output=True,
                          text=True)
    for command in ("serve", "test", "lab", "build", "pdf", "workshop", "refresh", "fuzz", "bench",
                    "clean"):
        assert f"course.py {command}" in done.stdout


@pytest.mark.parametrize("wrong", [["sreve"], ["build", "--fast"], []])
def test_a_wrong_command_line_is_answered_in_one_line(wrong):
    done = subprocess.run([sys.executable, ROOT / "course.py", *wrong], capture_output=True,
                          text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr and "error:" in done.stderr.splitlines()[-1]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A small course of its own in tmp_path, seen by course.py as the whole repository."""
    for name, value in {"ROOT": tmp_path, "VENV": tmp_path / ".venv",
                        "PYTHON": tmp_path / ".venv/bin/python", "LOG": tmp_path / "_build/log.txt",
                        "SITE": tmp_path / "_build/html"}.items():
        monkeypatch.setattr(course, name, value)
    (tmp_path / "requirements.txt").write_text("uv==1\n")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/pyproject.toml").write_text("")
    (tmp_path / "day1").mkdir()
    (tmp_path / "_toc.yml").write_text("root: intro\nparts:\n- chapters:\n  - file: day1/roofs\n")
    (tmp_path / "intro.md").write_text("intro")
    (tmp_path / "day1/roofs.ipynb").write_text("cells")
    (tmp_path / "day1/peaks.csv").write_text("data")
    return tmp_path


def test_lab_copies_pages_and_data(place):
    assert course.copy_pages(place / "work/lab") == []
    for name in ("intro.md", "day1/roofs.ipynb", "day1/peaks.csv"):
        assert (place / "work/lab" / name).read_text() == (place / name).read_text()


def test_lab_updates_untouched_copies_and_keeps_edited_ones(place):
    mine, theirs = place / "work/lab/day1", place / "day1"
    course.copy_pages(place / "work/lab")
    (mine / "roofs.ipynb").write_text("my answers")
    assert course.copy_pages(place / "work/lab") == []           # nothing newer to tell about
    (theirs / "roofs.ipynb").write_text("cells, corrected")
    (theirs / "peaks.csv").write_text("data, corrected")
    assert course.copy_pages(place / "work/lab") == ["day1/roofs.ipynb"]
    assert (mine / "roofs.ipynb").read_text() == "my answers"
    assert (mine / "peaks.csv").read_text() == "data, corrected"


@pytest.fixture
def installs(place, monkeypatch):
    """Replace the commands of set_up: {a word in the command: exit code, log text}."""
    commands, answers = [], {}

    def run(*command, show=None):
        commands.append(" ".join(map(str, command)))
        course.LOG.parent.mkdir(exist_ok=True)
        if "venv" in command:
            (place / ".venv").mkdir(exist_ok=True)
        code, text = next((answer for word, answer in answers.items() if word in commands[-1]),
                          (0, ""))
        course.LOG.write_text(text)
        return code

    monkeypatch.setattr(course, "run", run)
    monkeypatch.setattr(course, "_same_python", lambda: (place / ".venv").exists())
    return commands, answers


def test_set_up_runs_once_and_again_when_the_requirements_change(place, installs):
    commands, _ = installs
    course.set_up()
    assert any("-m venv" in c for c in commands) and any("uv pip install" in c for c in commands)
    commands.clear()
    course.set_up()
    assert commands == []
    (place / "requirements.txt").write_text("uv==2\n")
    course.set_up()
    assert not any("-m venv" in c for c in commands) and any("uv==2" in c for c in commands)


def test_pip_stands_in_for_uv(installs):
    commands, answers = installs
    answers["-m uv"] = (1, "no uv for this machine")
    course.set_up()
    assert commands[-1].endswith("-m pip install --disable-pip-version-check -r requirements.txt")


@pytest.mark.parametrize(("log", "says"), [
    ("OSError: [Errno 28] No space left on device", "disk is full"),
    ("Temporary failure in name resolution", "check the network"),
    ("error: subprocess-exited-with-error", "its last lines:\nerror: subprocess"),
])
def test_a_failed_install_says_what_to_do_and_is_tried_again(place, installs, log, says):
    commands, answers = installs
    answers |= {"pip install": (1, log)}
    for _ in range(2):
        commands.clear()
        with pytest.raises(course.Stop, match=re.escape(says)):
            course.set_up()
        assert commands


def test_no_venv_module(installs, monkeypatch):
    monkeypatch.setattr(course.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(course.Stop, match="apt install python3-venv"):
        course.set_up()


@pytest.mark.parametrize("version", [(3, 10, 0), (3, 14, 0)])
def test_another_python_is_refused(installs, monkeypatch, version):
    class Info(tuple):
        pass

    monkeypatch.setattr(course.sys, "version_info", Info(version))
    with pytest.raises(course.Stop, match=r"needs Python 3\.11, 3\.12 or 3\.13"):
        course.set_up()


def test_a_taken_port_is_passed_over(place, monkeypatch, capsys):
    import socket

    class Served(Exception):
        pass

    def stop(server):
        server.server_close()
        raise Served

    monkeypatch.setattr(course.http.server.ThreadingHTTPServer, "serve_forever", stop)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Served):
            course.serve(port)
    address = re.search(r"http://127\.0\.0\.1:(\d+)/", capsys.readouterr().out)
    assert port < int(address[1]) < port + 50


def test_a_failed_notebook_is_named_with_its_cell(place, monkeypatch):
    report = place / "_build/html/reports/day1/roofs.err.log"

    def run(*command, show):
        report.parent.mkdir(parents=True)
        report.write_text("Traceback:\n------------------\nridge = P / BW\n"
                          "------------------\n\nNameError: name 'P' is not defined\n")
        return 1

    monkeypatch.setattr(course, "run", run)
    with pytest.raises(course.Stop) as stopped:
        course.build()
    for words in ("day1/roofs.ipynb", "`ridge = P / BW`", "NameError: name 'P'", str(report)):
        assert words in str(stopped.value)
