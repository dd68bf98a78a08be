"""The class service: judged as at home, shared only by choice, shown without names.

The service runs as it does under the hub, in a process of its own; the hub is a stand-in that
knows whose a token is and logs browsers in. The real one is in test_workshop_hub.py.
"""

import asyncio
import csv
import http.client
import http.server
import io
import json
import math
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import ROOT

from roofline import problems
from roofline.check import Choice, Part, ProblemError, WrongAnswer
from roofline.units import show
from workshop.hub.service import predictions, questions, records, remote

PREFIX = "/services/class/"
BOARD = "custom:class:board"
MINE = ["access:services!service=class"]


# --- a stand-in for the hub, and the service ------------------------------------------------


class _Hub(http.server.BaseHTTPRequestHandler):
    """Knows the token "t-NAME" as NAME's; logs a browser in as its cookie `who` says."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, status: int, body: object, **headers: str) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/hub/api/user":
            name = self.headers["Authorization"].removeprefix("token t-")
            if name == self.headers["Authorization"]:
                return self._answer(403, {})
            known = {"instructor": [*MINE, BOARD], "stranger": []}
            return self._answer(200, {"name": name, "scopes": known.get(name, MINE),
                                      "kind": "service" if name == "cull" else "user"})
        asked = urllib.parse.parse_qs(query)
        who = (self.headers["Cookie"] or "").partition("who=")[2].partition(";")[0]
        back = urllib.parse.urlencode({"code": who, "state": asked["state"][0]})
        return self._answer(302, {}, Location=f"{self.server.service}{PREFIX}oauth_callback?{back}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._answer(200, {"access_token": "t-" + urllib.parse.parse_qs(body)["code"][0]})


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class Running:
    """A service that runs, and what it was started with."""

    port: int
    state: Path
    environment: dict[str, str]
    command: list[str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}{PREFIX}".rstrip("/")

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, cwd=ROOT, env=self.environment)
        for _ in range(300):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.process.poll() is None, "the service ended"
            time.sleep(0.05)
        pytest.fail("the service did not start")

    def stop(self) -> None:
        assert self.process
        self.process.terminate()
        assert self.process.wait(20) == 0

    def request(self, method: str, path: str, body: bytes | None = None, token: str = "",
                **headers: str) -> tuple[int, dict[str, str], str]:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        if token:
            headers["Authorization"] = f"token {token}"
        link.request(method, PREFIX + path, body, headers)
        reply = link.getresponse()
        found = reply.status, dict(reply.getheaders()), reply.read().decode()
        link.close()
        return found

    def post(self, path: str, body: object, token: str = "t-ann") -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, _, text = self.request("POST", path, data, token)
        return status, json.loads(text) if text else None

    def files(self) -> bytes:
        """All that is on disk."""
        return b"".join(path.read_bytes() for path in self.state.iterdir())

    def share(self, name: str, **boxes: str) -> None:
        """Tick boxes as a browser does: log in, take the form's key, send it."""
        jar: dict[str, str] = {"who": name}

        def go(method: str, url: str, body: str | None = None) -> tuple[int, str, str]:
            at = urllib.parse.urlsplit(url)
            link = http.client.HTTPConnection("127.0.0.1", at.port, timeout=20)
            link.request(method, at.path + "?" * bool(at.query) + at.query, body, {
                "Cookie": "; ".join(f"{key}={value}" for key, value in jar.items()),
                "Content-Type": "application/x-www-form-urlencoded"})
            reply = link.getresponse()
            for cookie in reply.headers.get_all("Set-Cookie") or []:
                key, _, value = cookie.partition(";")[0].partition("=")
                jar[key] = value
            text = reply.read().decode()
            link.close()
            return reply.status, urllib.parse.urljoin(url, reply.headers["Location"] or ""), text

        status, url, text = go("GET", self.address + "/")
        while status == 302:
            status, url, text = go("GET", url)
        key = text.partition('name="_xsrf" value="')[2].partition('"')[0]
        form = urllib.parse.urlencode({"_xsrf": key, **boxes})
        assert go("POST", self.address + "/", form)[0] == 303


@pytest.fixture(scope="module")
def class_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    hub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    port, folder = free_port(), tmp_path_factory.mktemp("class")
    hub.service = f"http://127.0.0.1:{port}"
    book, student = folder / "book", folder / "student"
    book.mkdir()
    for day in ("day1", "day2"):
        shutil.copytree(ROOT / day, student / day, ignore=shutil.ignore_patterns("data"))
    (book / "index.html").write_text("<p>the book</p>")
    at = f"http://127.0.0.1:{hub.server_port}/hub/api"
    running = Running(port, folder / "state", os.environ | {
        "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}",
        "JUPYTERHUB_SERVICE_PREFIX": PREFIX, "JUPYTERHUB_API_TOKEN": "of-the-service",
        "JUPYTERHUB_API_URL": at, "JUPYTERHUB_SERVICE_NAME": "class",
        "JUPYTERHUB_HOST": f"http://127.0.0.1:{hub.server_port}",
        "JUPYTERHUB_CLIENT_ID": "service-class", "JUPYTERHUB_BASE_URL": "/",
        "JUPYTERHUB_OAUTH_ACCESS_SCOPES": json.dumps(MINE)},
        [sys.executable, "-m", "workshop.hub.service", "--state", str(folder / "state"),
         "--student", str(student), "--book", str(book)])
    running.start()
    yield running
    running.stop()
    hub.shutdown()


@pytest.fixture(autouse=True)
def at_the_hub(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is a participant's kernel."""
    if "class_" in request.fixturenames:
        monkeypatch.setenv("ROOFLINE_CLASS", request.getfixturevalue("class_").address)
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "t-ann")


# --- judged as by the bank ------------------------------------------------------------------


def said(call: Any) -> str:
    """What a notebook shows of a call: its value, or its error's own lines."""
    try:
        return repr(call())
    except (WrongAnswer, ProblemError) as error:
        return "\n".join([type(error).__name__, *error._render_traceback_()])


def attempts(question: Any) -> list[dict[str, object]]:
    """Right, a slip each, nonsense and nothing."""
    def slip(part: Any) -> object:
        if isinstance(part, Part):
            return show(next(iter(part.slips.values()), 3.0 * part.value), part.unit, 5)
        return next(iter(part.slips), "?") if isinstance(part, Choice) else "because"

    first = question.parts[0].name
    return [{part.name: part.answer for part in question.parts},
            {part.name: slip(part) for part in question.parts},
            {part.name: "twelve and a bit" for part in question.parts} | {first: ...},
            {part.name: ... for part in question.parts}]


def test_every_problem_is_judged_as_by_the_bank(class_, monkeypatch):
    for number, id in enumerate(problems.BANK):
        monkeypatch.setenv("JUPYTERHUB_API_TOKEN", f"t-every-{number % 9}")
        for seed, how_many in ((None, 4), (number + 1, 2)):
            here, there = problems.ask(id, seed), remote.ask(id, seed)
            assert repr(there) == repr(here)
            assert there.inputs == {name: here.inputs[name] for name, text in here.given.items()
                                    if text in here.text}
            for answers in attempts(here)[:how_many]:
                assert said(lambda: there.check(**answers)) == said(lambda: here.check(**answers))


VALUES = st.one_of(
    st.text(max_size=20), st.sampled_from(["46.1 MB", "1/12", "80 TFLOP/s", "-1 s", "5 Gb", "∞"]),
    st.integers(-10, 10**18), st.floats(), st.just(...), st.booleans(), st.none(),
    st.sampled_from([10**400, -10**400, 1j, [1], {}, b"1", Fraction(1, 3), object,
                     np.float32(0.1), np.int64(7), np.float64("nan"), np.bool_(True), np.arange(3)]))


def through_json(what: str, sent: dict[str, Any]) -> dict[str, Any]:
    return questions.judged(what, json.loads(json.dumps(sent), parse_constant=pytest.fail))


@settings(max_examples=150, deadline=None)
@given(id=st.sampled_from(sorted(problems.BANK)), data=st.data())
def test_any_value_is_judged_as_by_the_bank(id, data):
    """Without the way over HTTP, so that many are tried."""
    here = problems.ask(id)
    own = data.draw(st.dictionaries(st.sampled_from([*here.inputs, "none"]), VALUES, max_size=2))
    names = [part.name for part in here.parts]
    answers = data.draw(st.dictionaries(st.sampled_from([*names, "none"]), VALUES, max_size=3))
    seed = data.draw(st.one_of(st.none(), st.integers(-3, 3), VALUES))

    def post(what: str, _: object, sent: dict[str, Any], *__: float) -> Any:
        reply = through_json(what, sent)
        if "refused" in reply:
            raise ProblemError(reply["refused"])
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "_post", post)
        assert said(lambda: remote.ask(id, seed, **own).check(**answers)) == said(
            lambda: problems.ask(id, seed, **own).check(**answers))


@pytest.mark.parametrize(("id", "own"), [
    ("day1.dot", {"n": np.int64(1000)}),
    ("day5.do.chain", {"B": 16, "D": 512.0, "F": "2048"}),
    ("day3.do.own", {"K": 64, "M": 64, "N": 64, "dtype": "fp32"}),
    ("day3.do.own", {"dtype": "int4"}),
    ("day4.do.copy", {"size": "40 MiB"}),
    ("day4.do.copy", {"size": "40 s"}),
    ("day1.dot", {"n": ...}),
    ("day1.dot", {"n": 10**400}),
    ("day1.dot", {"n": 10**5000}),
    ("day1.dot", {"n": -1.5}),
    ("day1.no_such", {}),
])
def test_own_inputs_over_the_wire(class_, id, own):
    def checked(ask: Any) -> str:
        question = ask(id, **own)
        return repr(question) + said(lambda: question.check(**{
            part.name: part.answer for part in problems.ask(id, **own).parts}))

    assert said(lambda: checked(remote.ask)) == said(lambda: checked(problems.ask))


def test_a_participant_has_the_course_without_the_bank(class_, tmp_path):
    """As the hub puts it there: the library, with remote.py in place of the problems."""
    lib = tmp_path / "lib" / "roofline"
    shutil.copytree(ROOT / "lib" / "roofline", lib, ignore=shutil.ignore_patterns(
        "problems", "__pycache__"))
    (lib / "problems").mkdir()
    shutil.copy(remote.__file__, lib / "problems" / "__init__.py")
    code = """if 1:
        import sys
        from roofline import ask, predict
        q = ask("day1.cpu.spec")
        print(q)
        print(q.check(P=..., BW="89.6 GB/s"))
        print(predict("day1.dot-times", compute="0.2 ms", moving=...))
        try:
            q.worked()
        except ValueError as error:
            print(error)
        print([name for name in ("numpy", "workshop") if name in sys.modules])
        print(hasattr(__import__("roofline.problems").problems, "BANK"))
    """
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True,
                         cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path / "lib")})
    assert (run.stdout, run.stderr) == ("\n".join([
        repr(problems.ask("day1.cpu.spec")), "BW: right.", "not attempted: P, ridge",
        repr(problems.predict("day1.dot-times", compute="0.2 ms", moving=...)),
        "day1.cpu.spec: the worked answer is with your instructor", "[]", "False", ""]), "")
