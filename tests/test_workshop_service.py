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
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from aside import aside
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import ROOT
from tornado.web import create_signed_value
from workshop.hub.service import app, predictions, questions, records, remote

from roofline import problems
from roofline.check import Choice, Part, ProblemError, WrongAnswer
from roofline.units import show

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

    def cookie(self, name: str) -> str:
        """Of a browser in which NAME logged in."""
        secret = (self.state / "cookie_secret").read_bytes()
        return f"service-class={create_signed_value(secret, 'service-class', f't-{name}').decode()}"

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
                assert said(partial(there.check, **answers)) == said(partial(here.check, **answers))


VALUES = st.one_of(
    st.text(max_size=20), st.sampled_from(["46.1 MB", "1/12", "80 TFLOP/s", "-1 s", "5 Gb", "∞"]),
    st.integers(-10, 10**18), st.floats(), st.just(...), st.booleans(), st.none(),
    st.sampled_from([10**400, -10**400, 1j, [1], {}, b"1", Fraction(1, 3), object,
                     np.float32(0.1), np.int64(7), np.float64("nan"), np.bool_(True),
                     np.arange(3)]))


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


# --- what a reader is told when it does not work --------------------------------------------


class _Odd(http.server.BaseHTTPRequestHandler):
    """Answers as the test's script says: (status, headers, body), the last one for good."""

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers["Authorization"], sent))
        script = self.server.script
        status, headers, body = script.pop(0) if len(script) > 1 else script[0]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Odd)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("ROOFLINE_CLASS", f"http://127.0.0.1:{server.server_port}/services/class/")
    yield server
    server.shutdown()


ASKED = json.dumps({"text": "a question", "names": ["W"], "inputs": {}, "given": {}}).encode()
WRAPPED = "What you wrote is still in the cell: run it again"


def failing(patience: float) -> list[str]:
    """The lines that a notebook shows when a question cannot be had."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(remote.ClassError) as error:
        patch.setattr(remote, "PATIENCE", patience)
        remote.ask("day1.dot")
    return error.value._render_traceback_()


def test_nobody_listens(monkeypatch):
    monkeypatch.setenv("ROOFLINE_CLASS", f"http://127.0.0.1:{free_port()}/services/class")
    line, = failing(0.05)
    assert line == ("ClassError: day1.dot: no answer from the class service in 0 s (Connection "
                    f"refused). {WRAPPED}, and tell your instructor if it stays so")


@pytest.mark.parametrize(("status", "headers", "body", "why"), [
    (503, {}, b'{"error": "the hub does not answer"}', "the hub does not answer"),
    (503, {}, b"<html>no target</html>", "status 503"),  # the proxy's own page
    (404, {}, b"<html>not found</html>", "status 404"),  # the hub's, while it restarts
    (302, {"Location": "/hub/login"}, b"", "status 302"),
    (200, {}, b"<html>hello</html>", "Expecting value: line 1 column 1 (char 0)"),
    (200, {}, b'{"text": "hello"}', "it is another service"),
    (200, {"Content-Length": "9"}, b"{}", "IncompleteRead"),
])
def test_something_else_listens(odd, status, headers, body, why):
    odd.script = [(status, headers, body)]
    line, = failing(0.05)
    assert f"({why}" in line
    assert WRAPPED in line
    assert {path for path, _, _ in odd.seen} == {"/services/class/ask"}  # the token went nowhere


@pytest.mark.parametrize(("status", "body", "says"), [
    (403, b'{"error": "no valid token"}', "does not take this notebook's token. Stop your server"),
    (401, b"", "does not take this notebook's token"),
    (500, b'{"error": "Internal Server Error"}', "failed at this question"),
    (400, b'{"error": "expected JSON"}', "refuses this: expected JSON"),
])
def test_it_says_no_at_once(odd, status, body, says):
    odd.script = [(status, {}, body)]
    line, = failing(60)
    assert says in line
    assert len(odd.seen) == 1


def test_it_waits_for_a_restart(odd, capsys):
    odd.script = [(503, {}, b"<html>"), (429, {}, b'{"error": "too many"}'), (200, {}, ASKED)]
    assert repr(remote.ask("day1.dot")) == "a question"
    assert len(odd.seen) == 3
    assert capsys.readouterr().out == ""  # only a wait that is felt is told


def test_a_bank_s_refusal_is_told_in_its_words(odd):
    odd.script = [(422, {}, b'{"error": "no question is called \'x\'"}')]
    with pytest.raises(ProblemError, match=r"^no question is called 'x'$"):
        remote.ask("x")


def test_too_much_is_told_before_it_is_sent(odd):
    odd.script = [(200, {}, ASKED)]
    question = remote.ask("day1.dot")
    with pytest.raises(ProblemError, match=r"^day1.dot: got 100,0\d\d bytes of answers, at most"):
        question.check(W="1" * 100_000)
    assert len(odd.seen) == 1


@pytest.mark.parametrize("missing", ["ROOFLINE_CLASS", "JUPYTERHUB_API_TOKEN"])
def test_not_started_from_the_hub(odd, monkeypatch, missing):
    monkeypatch.delenv(missing)
    line, = failing(60)
    assert line.startswith("ClassError: day1.dot: answers are judged by the class service, and ")


def test_a_guess_that_the_class_does_not_get_stops_nothing(monkeypatch, capsys):
    monkeypatch.setenv("ROOFLINE_CLASS", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr(remote, "BRIEFLY", 0.05)
    here = problems.predict("day1.dot-times", compute="1 ms", moving=...)
    assert remote.predict("day1.dot-times", compute="1 ms", moving=...) == here
    assert capsys.readouterr().out.startswith("not sent to the class: day1.dot-times: no answer")


# --- what the service refuses ---------------------------------------------------------------

SENT: dict[str, Any] = {"id": "day1.dot", "own": {}, "answers": {}}


@pytest.mark.parametrize(("path", "body", "status", "says"), [
    ("check", b"", 400, "expected JSON"),
    ("check", b"{", 400, "expected JSON"),
    ("check", b"[" * 30_000, 400, "expected JSON"),
    ("check", b'{"seed": NaN}', 400, "expected JSON"),
    ("check", b'{"seed": 1' + b"0" * 5000 + b"}", 400, "expected JSON"),
    ("check", b"\xff\xfe", 400, "expected JSON"),
    ("check", [1], 400, "expected an object of JSON"),
    ("check", {}, 400, "expected id, seed, own and, for a check, answers by name"),
    ("check", SENT | {"answers": [1]}, 400, "expected id, seed, own and, for a check, answers "
                                            "by name"),
    ("ask", SENT | {"own": {"seed": 1}}, 400, "expected id, seed, own and, for a check, answers "
                                              "by name"),
    ("check", SENT | {"answers": {"W": [1]}}, 400, "expected text, a number or null for each "
                                                   "answer"),
    ("check", SENT | {"answers": {"W": {"type": "x"}}}, 400, "expected type, shows and number of "
                                                             "a foreign object"),
    ("check", SENT | {"answers": {"W": {"type": "x", "shows": "", "number": "one"}}}, 400,
     "expected a number as Python writes it"),
    ("check", SENT | {"id": "<b>"}, 422, "no question is called '<b>'; near it: "
                                        "day1.bound, day1.slope, day1.log_axes"),
    ("check", SENT | {"id": ["day1.dot"]}, 400, "expected text, a number or null for each answer"),
    ("check", SENT | {"answers": {"W": "1" * 3000}}, 422,
     "W: got text of 3,000 characters; at most 500 are judged. Write a number with its unit, "
     "or a few words"),
    ("predict", {"id": 1, "guesses": {}}, 400, "expected id, and guesses by name"),
    ("predict", {"id": "x", "guesses": []}, 400, "expected id, and guesses by name"),
])
def test_what_is_no_request(class_, path, body, status, says):
    assert class_.post(path, body) == (status, {"error": says})


def test_more_than_a_request_may_have(class_):
    with pytest.raises((ConnectionError, http.client.HTTPException, json.JSONDecodeError)) as end:
        status, _ = class_.post("check", SENT | {"answers": {"W": "1" * 70_000}})
        assert status == 400
        raise ConnectionError("refused")
    assert end


@pytest.mark.parametrize("token", ["", "nobody", "t-stranger", "t-cull"])
def test_whose_token_it_is_not(class_, token):
    """None, one the hub does not know, a person's of another class, a service's."""
    for path in ("ask", "check", "predict"):
        assert class_.post(path, SENT, token)[0] == 403


def test_a_cookie_is_no_token(class_):
    """A page of somebody else cannot make a browser answer for its user."""
    status, _, _ = class_.request("POST", "check", json.dumps(SENT).encode(),
                                  Cookie=class_.cookie("ann"), Origin="http://127.0.0.1")
    assert status == 403


def test_no_user_takes_all_of_it(class_):
    """After its share a user waits; others do not."""
    sent = json.dumps({"id": "none", "guesses": {}}).encode()
    link = http.client.HTTPConnection("127.0.0.1", class_.port)
    found = []
    for _ in range(3000):
        link.request("POST", PREFIX + "predict", sent, {"Authorization": "token t-greedy"})
        reply = link.getresponse()
        reply.read()
        found.append(reply.status)
        if found[-1] == 429:
            break
    link.close()
    assert (found[-1], len(found) > 500) == (429, True)
    assert class_.post("ask", SENT, "t-modest")[0] == 200


# --- the judge's processes ------------------------------------------------------------------


def test_judging_ends():
    end = time.monotonic() + 20
    with pytest.raises(TimeoutError), questions._limited(0.02):
        while time.monotonic() < end:
            pass
    with questions._limited(0.05):
        pass
    time.sleep(0.1)  # the alarm is off
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_dead_judge_is_replaced():
    async def use() -> None:
        judge = questions.Judge(1)
        try:
            await judge.warm()
            child, = multiprocessing.active_children()
            child.kill()
            child.join(10)
            for _ in range(2):  # its end is noticed at the first or the second request
                try:
                    assert (await judge("check", SENT))["right"] is False
                    break
                except questions.Busy:
                    continue
            assert (await judge("ask", SENT))["names"][0] == "W"
        finally:
            judge.close()

    aside(asyncio.run, use())


def test_no_more_than_so_many_wait(monkeypatch):
    async def use() -> None:
        judge = questions.Judge(1)
        monkeypatch.setattr(questions, "WAITING", 0)
        try:
            with pytest.raises(questions.Busy):
                await judge("ask", SENT)
        finally:
            judge.close()

    aside(asyncio.run, use())


def test_twenty_at_once(class_):
    here = problems.ask("day1.dot")
    answers = {part.name: part.answer for part in here.parts}

    def one(number: int) -> tuple[int, Any]:
        return class_.post("check", SENT | {"answers": answers}, f"t-many-{number}")

    with ThreadPoolExecutor(20) as pool:
        for status, reply in pool.map(one, range(60)):
            assert (status, reply["right"]) == (200, True)


def test_one_who_sends_slow_answers_holds_up_nobody():
    """Five at once by one user, and one by another, while judging takes its time."""
    async def use() -> None:
        begun, go = [], asyncio.Event()

        async def judge(what: str, sent: dict[str, Any]) -> dict[str, Any]:
            begun.append(sent["id"])
            await go.wait()
            return {"refused": "slow"}

        service = SimpleNamespace(turns=defaultdict(asyncio.Lock), judge=judge)
        asked = [SimpleNamespace(service=service, user=user, what="check", sent={"id": user},
                                 set_status=print, finish=print)
                 for user in (*["slow"] * 5, "quick")]
        posts = [asyncio.create_task(app._Asked.post(one)) for one in asked]
        await asyncio.sleep(0.05)
        assert begun == ["slow", "quick"]
        go.set()
        await asyncio.gather(*posts)
        assert sorted(begun) == ["quick", *["slow"] * 5]

    aside(asyncio.run, use())


# --- what is kept, and for whom -------------------------------------------------------------


def progress(class_: Running) -> dict[str, dict[str, str]]:
    """The instructor's CSV: who shares, and what they attempted and passed."""
    status, _, text = class_.request("GET", "board/attempts.csv",
                                     Cookie=class_.cookie("instructor"))
    assert status == 200
    head, *lines = csv.reader(io.StringIO(text))
    assert head == ["participant", *problems.BANK]
    return {line[0]: {id: cell for id, cell in zip(head[1:], line[1:], strict=True) if cell}
            for line in lines}


def bars(class_: Running, id: str) -> list[dict[str, Any]]:
    """The parts of a prediction as the board's script gets them."""
    status, _, text = class_.request("GET", f"board/guesses?id={id}",
                                     Cookie=class_.cookie("instructor"))
    assert status == 200
    return json.loads(text)["parts"]


def kept(class_: Running, name: str) -> tuple[dict[str, bool], list[str]]:
    db = records.Records(class_.state / "class.sqlite")
    found = db.of(name)
    db.close()
    return found


def answered(token: str, right: bool = True) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTERHUB_API_TOKEN", token)
        for id in ("day1.dot", "day1.add"):
            remote.ask(id).check(**{part.name: ... for part in problems.ask(id).parts})
        mine = {part.name: part.answer for part in problems.ask("day1.dot").parts}
        if not right:
            mine["W"] = "3 FLOP"
        with (pytest.raises(WrongAnswer) if not right else pytest.MonkeyPatch.context()):
            remote.ask("day1.dot").check(**mine)
        remote.predict("day1.dot-times", compute="0.2 ms", moving=...)


def test_nothing_is_kept_of_who_shares_nothing(class_):
    answered("t-silent")
    assert "silent" not in progress(class_)
    assert b"silent" not in class_.files()


def test_sharing_attempts(class_):
    """Only what came after the box was ticked; once passed it stays so; no answer is kept."""
    answered("t-open")
    class_.share("open", attempts="on")
    assert progress(class_)["open"] == {}
    answered("t-open", right=False)
    assert progress(class_)["open"] == {"day1.dot": "attempted"}
    answered("t-open")
    answered("t-open", right=False)
    assert progress(class_)["open"] == {"day1.dot": "passed"}
    assert not [part for part in bars(class_, "day1.dot-times") if part["n"]]
    assert b"3 FLOP" not in class_.files()


def test_what_is_no_longer_shared_is_gone_from_disk(class_):
    class_.share("leaver", attempts="on", predictions="on")
    answered("t-leaver")
    assert b"leaver" in class_.files()
    class_.share("leaver", predictions="on")
    answered("t-leaver")
    assert "leaver" not in progress(class_)
    assert kept(class_, "leaver") == ({}, ["day1.dot-times"])
    assert bars(class_, "day1.dot-times")[0]["n"] == 1
    class_.share("leaver")
    assert bars(class_, "day1.dot-times")[0]["n"] == 0
    assert b"leaver" not in class_.files()


def test_a_guess_counts_once_and_has_no_name(class_):
    """Sent again it changes nothing; another one takes its place; bars from three people on."""
    id = "day1.best-of-four"
    for name, guess in (("p1", "20 GFLOP/s"), ("p2", "30 GFLOP/s"), ("p1", "25 GFLOP/s")):
        class_.share(name, predictions="on")
        for _ in range(2):
            assert class_.post("predict", {"id": id, "guesses": {"rate": guess}},
                               f"t-{name}") == (200, {"kept": True})
    assert bars(class_, id) == [
        {"label": "Entitled rate of the layernorm", "n": 2, "least": 3, "kind": "numbers",
         "bars": []}]
    class_.share("p3", predictions="on")
    class_.post("predict", {"id": id, "guesses": {"rate": "2.1e10"}}, "t-p3")
    assert bars(class_, id)[0]["bars"] == [
        ["20 – 22 GFLOP/s", 1], ["22 – 24 GFLOP/s", 0],
        ["24 – 26 GFLOP/s", 1], ["26 – 28 GFLOP/s", 0],
        ["28 – 30 GFLOP/s", 0], ["30 – 32 GFLOP/s", 1]]


@pytest.mark.parametrize("guesses", [
    {"rate": "fast"}, {"rate": "20 GB/s"}, {"rate": "1e400 FLOP/s"}, {"rate": "1e99"},
    {"rate": "2" + " " * 30_000 + "x\ny"}, {"rate": None}, {"rate": [1]}, {"rate": {"type": "x"}},
    {"speed": "20 GFLOP/s"}, {},
])
def test_what_is_no_guess_is_not_kept(class_, guesses):
    class_.share("vague", predictions="on")
    sent = {"id": "day1.best-of-four", "guesses": guesses}
    assert class_.post("predict", sent, "t-vague") == (200, {"kept": False})
    assert class_.post("predict", sent | {"id": "day1.unheard"}, "t-vague") == (
        200, {"kept": False})


@pytest.mark.parametrize("path", ["board", "board/guesses", "board/attempts", "board/attempts.csv"])
def test_the_board_is_not_for_participants(class_, path):
    assert class_.request("GET", path, Cookie=class_.cookie("ann"))[0] == 403
    assert class_.request("GET", path, token="t-ann")[0] == 403
    assert class_.request("GET", path, token="t-stranger")[0] == 403
    status, headers, _ = class_.request("GET", path)
    assert (status, "/hub/api/oauth2/authorize" in headers["Location"]) == (302, True)


def test_another_page_cannot_tick_boxes(class_):
    """Nor read ours by script: without the form's key a cookie is not looked at."""
    cookie = class_.cookie("instructor")
    assert class_.request("POST", "", b"attempts=on", Cookie=cookie)[0] == 403
    assert class_.request("GET", "board/attempts.csv", Cookie=cookie,
                          **{"Sec-Fetch-Mode": "cors"})[0] == 403


def test_the_book_is_for_who_is_logged_in(class_):
    cookie = class_.cookie("ann")
    assert class_.request("GET", "book/", Cookie=cookie)[2] == "<p>the book</p>"
    assert class_.request("GET", "book/")[0] == 302
    for path in ("book/../state/class.sqlite", "book/%2e%2e/state/class.sqlite", "book/none",
                 "static/..%2fapp.py", "static/app.py"):
        assert class_.request("GET", path, Cookie=cookie)[0] in (403, 404)


def test_a_restart_loses_nothing(class_):
    class_.share("stays", attempts="on")
    answered("t-stays")
    before, files = progress(class_), sorted(path.name for path in class_.state.iterdir())
    class_.stop()
    assert "class.sqlite-wal" in files and not (class_.state / "class.sqlite-wal").exists()
    class_.start()
    assert progress(class_) == before
    assert {path.stat().st_mode & 0o077 for path in class_.state.iterdir()} == {0}


def test_a_foreign_file_is_told(tmp_path):
    (tmp_path / "class.sqlite").write_text("no database, but a text of some length " * 99)
    with pytest.raises(records.RecordsError, match="Move the file away; a new one is made"):
        records.Records(tmp_path / "class.sqlite")


# --- bars -----------------------------------------------------------------------------------

TIME = predictions.Part("T", "The bytes at BW", "s", {})
SHARE = predictions.Part("share", "Share, as a fraction or in %", "", {})


@pytest.mark.parametrize(("part", "guesses", "expected"), [
    # over ten times apart: 1, 2, 5, 10
    (TIME, ["1 us", "2 us", "4.9 us", "0.02 ms"], [
        ("1 – 2 us", 1), ("2 – 5 us", 2), ("5 – 10 us", 0), ("10 – 20 us", 0),
        ("20 – 50 us", 1)]),
    # over five decades of them: whole decades
    (TIME, ["1 ns", "1 us", "1 us", "0.2 ms"], [
        ("1 – 10 ns", 1), ("10 – 100 ns", 0), ("100 ns – 1 us", 0), ("1 – 10 us", 2),
        ("10 – 100 us", 0), ("100 us – 1 ms", 1)]),
    # nearer: equal steps
    (TIME, ["3 us", "5 us", "10 us"], [
        ("3 – 4 us", 1), ("4 – 5 us", 0), ("5 – 6 us", 1), ("6 – 7 us", 0),
        ("7 – 8 us", 0), ("8 – 9 us", 0), ("9 – 10 us", 0), ("10 – 11 us", 1)]),
    # far from the middle one: at an open end
    (TIME, ["2 us", "2 us", "3 us", "1e20 s", "0"], [
        ("below 2 us", 1), ("2 – 2.2 us", 2), ("2.2 – 2.4 us", 0), ("2.4 – 2.6 us", 0),
        ("2.6 – 2.8 us", 0), ("2.8 – 3 us", 0), ("3 – 3.2 us", 1), ("3.2 us or more", 1)]),
    (TIME, ["1 us"] * 3, [("1 – 1.2 us", 3)]),
    # a share: tenths, whatever is guessed
    (SHARE, ["5 %", "0.3", "30%", "100 %", "90", "-1"], [
        ("below 0 %", 1), ("0 – 10 %", 1), ("10 – 20 %", 0), ("20 – 30 %", 0),
        ("30 – 40 %", 2), ("40 – 50 %", 0), ("50 – 60 %", 0), ("60 – 70 %", 0),
        ("70 – 80 %", 0), ("80 – 90 %", 0), ("90 – 100 %", 0), ("100 % or more", 2)]),
    (predictions.Part("binds", "Which roof?", None, {"HBM": "HBM: left", "compute": "right"}),
     ["hbm", " HBM ", "compute"], [("HBM: left", 2), ("right", 1)]),
])
def test_bars(part, guesses, expected):
    assert part.bars(part.take(guess) for guess in guesses) == expected


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.floats(1e-24, 1e36), st.floats(-1e36, -1e-24), st.just(0.0),
                          st.floats(0.9, 1.1), st.integers(-50, 50)), min_size=1, max_size=40),
       st.sampled_from(["s", "FLOP/s", "B", "", "cycle"]))
def test_every_guess_is_in_one_bar(numbers, unit):
    found = predictions.Part("x", "x", unit, {}).bars(numbers)
    assert sum(count for _, count in found) == len(numbers)
    assert len(found) <= predictions.MOST + 2
    assert len({label for label, _ in found}) == len(found)


def test_predictions_come_in_reading_order():
    """The course's own order, not the alphabet's; each with where it stands."""
    found = predictions.read(ROOT / "day1")
    assert list(dict.fromkeys(one.page for one in found.values())) == [
        "Day 1: The roofline model", "Your own CPU, measured", "The 2009 paper in its own numbers"]
    dot = found["day1.dot-times"]
    assert (dot.page, dot.section, [part.unit for part in dot.parts]) == (
        "Day 1: The roofline model", "One op, start to end: a dot product", ["s", "s"])
    assert math.isclose(dot.parts[0].take("0.2 ms"), 2e-4)


# --- pages ----------------------------------------------------------------------------------

POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
          "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")


@pytest.fixture
def opened(class_: Running, visit: Any) -> Any:
    """opened(name, path, ...): a page as NAME sees it, logged in by the hub."""
    def go(name: str, path: str = "", **options: Any) -> Any:
        return visit(f"{class_.address}/{path}", storage_state={"cookies": [
            {"name": "who", "value": name, "domain": "127.0.0.1", "path": "/", "expires": -1,
             "httpOnly": False, "secure": False, "sameSite": "Lax"}], "origins": []}, **options)

    return go


@pytest.mark.browser
def test_a_participant_ticks_and_clears(class_, opened):
    seen = opened("web")
    page = seen.page
    boxes = page.get_by_role("checkbox")
    assert [boxes.nth(i).is_checked() for i in range(2)] == [False, False]
    assert page.get_by_text("Nothing.").is_visible()
    page.get_by_label("Show the instructor, by my name").check()
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved.").wait_for()
    answered("t-web")
    page.reload()
    assert page.get_by_text("1 question passed: day1.dot").is_visible()
    page.get_by_label("Show the instructor, by my name").uncheck()
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Nothing.").wait_for()
    assert b"web" not in class_.files()
    assert seen.complaints == []


@pytest.mark.browser
def test_the_board_follows_the_class(class_, opened):
    seen = opened("instructor", "board#day2.one-link")
    page = seen.page
    page.get_by_text("0 guesses").first.wait_for()
    for number, (binds, link) in enumerate([("link", "1 ms"), ("HBM", "2 ms"), ("link", "3 ms")]):
        class_.share(f"b{number}", predictions="on")
        class_.post("predict", {"id": "day2.one-link", "guesses": {"binds": binds, "link": link}},
                    f"t-b{number}")
    page.locator(".bars").nth(1).wait_for()  # without a click
    assert [row.split() for row in page.locator(".bars tr").all_inner_texts()[:3]] == [
        ["HBM", "1"], ["compute"], ["the", "link", "2"]]
    widths = [bar.bounding_box()["width"] for bar in page.locator(".bar div").all()[:3]]
    assert math.isclose(widths[2], 2 * widths[0], rel_tol=0.01) and widths[1] == 0
    page.get_by_label("Prediction").select_option("")
    page.wait_for_function("!location.hash")
    page.get_by_text("3 guesses").first.wait_for()  # the one guessed last
    page.get_by_role("button", name="Next").click()
    page.wait_for_function("location.hash === '#day1.dot-times'")
    page.get_by_role("heading", name="The FLOPs at P").wait_for()
    assert seen.complaints == []


@pytest.mark.browser
def test_names_are_text(class_, opened):
    name = "<img src=x onerror=alert(1)>&amp;"
    class_.share(urllib.parse.quote(name), attempts="on")
    # The hub's own rules would refuse such a name; the page does not count on them.
    db = records.Records(class_.state / "class.sqlite")
    db.share(name, records.Sharing(attempts=True))
    db.attempted(name, "day1.dot", True)
    db.close()
    seen = opened("instructor", "board/attempts?open=day1")
    head = seen.page.get_by_role("rowheader", name=name)
    assert head.inner_text() == name
    assert seen.page.locator("img").count() == 0
    assert seen.page.locator("td.passed").count() >= 1
    seen.page.get_by_role("link", name="Day 1").click()
    seen.page.wait_for_function("!location.search.includes('open')")
    assert seen.complaints == []


@pytest.mark.parametrize("path", ["", "board", "board/attempts", "book/none"])
def test_a_page_loads_nothing_foreign(class_, path):
    _, headers, text = class_.request("GET", path, Cookie=class_.cookie("instructor"))
    policy = headers["Content-Security-Policy"]
    assert policy == POLICY if not path.startswith("book") else "default-src 'self'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "http://" not in text and "https://" not in text and "style=" not in text
    assert not [line for line in text.splitlines() if "<script" in line and "src=" not in line]


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_read_well(class_, opened, width, scheme):
    """No finding of axe, nothing wider than the page, letters of 24 px for the back row."""
    for name in ("r1", "r2", "r3"):
        class_.share(name, attempts="on", predictions="on")
        class_.post("predict", {"id": "day1.cpu-corner", "guesses": {
            "binds": "DRAM", "share": "40 %"}}, f"t-{name}")
        answered(f"t-{name}")
    axe = (ROOT / "tests/vendor/axe-core/axe.min.js").read_text()
    for name, path in (("r1", ""), ("instructor", "board#day1.cpu-corner"),
                       ("instructor", "board/attempts?open=day1")):
        seen = opened(name, path, viewport={"width": width, "height": 720}, color_scheme=scheme)
        page = seen.page
        if "#" in path:
            page.locator(".bars").nth(1).wait_for()
            size = page.locator(".bars th").first.evaluate(
                "node => parseFloat(getComputedStyle(node).fontSize)")
            assert size >= (24 if width == 1280 else 18)
        page.evaluate(axe)
        found = page.evaluate("""() => axe.run({resultTypes: ["violations"]})
            .then((result) => result.violations)""")
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert seen.complaints == []
