"""A room that is simulated: the requests of a browser, real servers and kernels behind them.

Question  does everybody get in and get answers judged when all come at once, and how long is that?
Answer    Participant: the login form, a server, a kernel, code that runs in it; room() has many at
          once; `python -m workshop.hub.load` does it with a running class and prints the waits
Assumes   a hub on loopback that uses passwords; notebooks of the student edition and of the key
Ignores   what a browser draws, and what people do between two requests
"""

import argparse
import json
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import requests
import websocket

from workshop import MADE, Stop

from . import accounts

PATIENCE_S = 300.0  # for a server or a cell; beyond it something hangs
PAGE = "day1/roofline.ipynb"
T = TypeVar("T")


class LoadError(Stop):
    """A step that failed: whose, which, what came instead."""


@dataclass(frozen=True)
class Ran:
    """text     what a cell printed and showed
    error    name of the exception that ended it; "" without one
    """

    text: str
    error: str


@dataclass
class Participant:
    """Somebody with a browser. Steps are timed under their names in `took`, in s."""

    address: str  # of the hub: http://127.0.0.1:8000
    name: str
    password: str
    took: dict[str, float] = field(default_factory=dict)
    _http: requests.Session = field(default_factory=requests.Session)
    _kernel: str = ""
    _socket: Any = None

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self.took[step] = time.monotonic() - start

    def log_in(self) -> None:
        """Fill in the login form, if it comes; a server starts, and its page comes when it has."""
        self._http.trust_env = False  # loopback; no proxy of this machine's
        with self._timed("login to server"):
            page = self._http.get(f"{self.address}/hub/login", timeout=PATIENCE_S)
            if form := re.search(r'name="_xsrf" value="([^"]+)"', page.text):
                page = self._http.post(
                    f"{self.address}/hub/login?next=", timeout=PATIENCE_S, data={
                        "username": self.name, "password": self.password, "_xsrf": form[1]})
            self._arrive(page)

    def _arrive(self, page: requests.Response) -> None:
        """From whatever the hub shows to the server's own page."""
        deadline = time.monotonic() + PATIENCE_S
        while not urlsplit(page.url).path.startswith(f"/user/{self.name}/lab"):
            if "/hub/login" in page.url:
                raise self._wrong("log in", page)
            if time.monotonic() > deadline or page.status_code not in (200, 503):
                raise self._wrong("reach the server", page)
            time.sleep(0.25)
            page = self._http.get(f"{self.address}/hub/spawn-pending/{self.name}"
                                  if "spawn" in page.url else f"{self.address}/hub/spawn",
                                  timeout=PATIENCE_S)

    def get(self, path: str) -> requests.Response:
        """A page of the hub's host, with this participant's cookies."""
        return self._http.get(urljoin(self.address, path), timeout=PATIENCE_S)

    def api(self, method: str, path: str, /, **body: Any) -> Any:
        """A call of the server's own API, as JupyterLab makes it."""
        answer = self._http.request(
            method, f"{self.address}/user/{self.name}/api/{path}", json=body or None,
            timeout=PATIENCE_S, headers={"X-XSRFToken": self._xsrf(f"/user/{self.name}/"),
                                         "Referer": self.address})
        if not answer.ok:
            raise self._wrong(f"{method} {path}", answer)
        return answer.json() if answer.content else None

    def stop_server(self) -> None:
        """Stop My Server, as in the hub's control panel."""
        answer = self._http.delete(
            f"{self.address}/hub/api/users/{self.name}/server", timeout=PATIENCE_S,
            headers={"X-XSRFToken": self._xsrf("/hub/"), "Referer": f"{self.address}/hub/home"})
        if answer.status_code not in (202, 204):
            raise self._wrong("stop the server", answer)

    def _xsrf(self, path: str) -> str:
        """The cookie of this path: the hub and the server each have their own."""
        return next((c.value or "" for c in self._http.cookies
                     if c.name == "_xsrf" and c.path == path), "")

    def notebook(self, page: str = PAGE) -> Any:
        """The participant's own copy of a page."""
        return self.api("GET", f"contents/{page}")["content"]

    def start_kernel(self, page: str = PAGE) -> None:
        """Open a page: a session with a kernel that answers."""
        with self._timed("kernel"):
            session = self.api("POST", "sessions", path=page, name=page, type="notebook",
                               kernel={"name": "python3"})
            self._kernel = session["kernel"]["id"]
            self.connect()
            self.run("0")

    def connect(self) -> None:
        """Connect to the kernel of the page, as a browser does again after a break."""
        url = f"{self.address.replace('http', 'ws', 1)}/user/{self.name}/api/kernels/{self._kernel}"
        cookies = requests.cookies.get_cookie_header(
            self._http.cookies, requests.Request("GET", url.replace("ws", "http", 1)).prepare())
        self._socket = websocket.create_connection(
            f"{url}/channels", timeout=PATIENCE_S, cookie=cookies, origin=self.address,
            http_no_proxy=["*"])

    def run(self, code: str) -> Ran:
        """Run code in the kernel."""
        asked = uuid.uuid4().hex
        self._socket.send(json.dumps({
            "header": {"msg_id": asked, "msg_type": "execute_request", "version": "5.3",
                       "username": self.name, "session": asked, "date": ""},
            "parent_header": {}, "metadata": {}, "channel": "shell", "buffers": [],
            "content": {"code": code, "silent": False, "store_history": False,
                        "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}}))
        text, error, waiting = [], "", {"idle", "reply"}
        while waiting:
            message = json.loads(self._socket.recv())
            if message["parent_header"].get("msg_id") != asked:
                continue
            content, kind = message["content"], message["msg_type"]
            if kind == "stream":
                text.append(content["text"])
            elif kind in ("execute_result", "display_data"):
                text.append(content["data"].get("text/plain", ""))
            elif kind == "error":
                error = content["ename"]
                text.append("\n".join(content["traceback"]))
            elif kind == "execute_reply":
                waiting.discard("reply")
            elif kind == "status" and content["execution_state"] == "idle":
                waiting.discard("idle")
        return Ran("\n".join(text), error)

    def close(self) -> None:
        if self._socket:
            self._socket.close()
        self._http.close()

    def _wrong(self, step: str, got: requests.Response) -> LoadError:
        said = re.search(r'class="login_error">\s*([^<]+?)\s*<', got.text)
        return LoadError(f"{self.name}: {step}: status {got.status_code} at {got.url}"
                         + (f": {said[1]}" if said else ""))


# --- a page's questions ----------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """Sources of its cells: the call that asks, the stub, its right answers, the check."""

    id: str
    ask: str
    stub: str
    right: str
    check: str


def questions(student: Mapping[str, Any], key: Mapping[str, Any]) -> list[Question]:
    """The questions of a page whose answers are in the key."""
    told, known = _sources(student), _sources(key)
    return [Question(id, source, told[f"{id}-answer"],
                     re.sub(r"^\w+\.worked\(\)$", "", known[f"{id}-answer"], flags=re.M),
                     told[f"{id}-check"])
            for id, source in told.items() if f"{id}-check" in told]


def _sources(notebook: Mapping[str, Any]) -> dict[str, str]:
    return {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}


def answer(one: Participant, asked: Sequence[Question]) -> list[float]:
    """Ask each question, check the stub, then the right answers; s of each check.

    Raises LoadError where the service says anything but "not attempted", then "right".
    """
    took = []
    one.run("from roofline import ask")
    for question in asked:
        for source, wanted in ((question.stub, "not attempted"), (question.right, "right")):
            if (ran := one.run(f"{question.ask}\n{source}")).error:
                raise LoadError(f"{one.name}: {question.id}: {ran.text[-400:]}")
            start = time.monotonic()
            ran = one.run(question.check)
            took.append(time.monotonic() - start)
            if ran.error or wanted not in ran.text:
                raise LoadError(f"{one.name}: {question.id}: expected {wanted!r}, got "
                                f"{ran.text[-400:]!r}")
    return took


# --- many at once ----------------------------------------------------------------------------


def room(people: Sequence[Participant], step: Callable[[Participant], T]) -> list[T]:
    """Everybody does it, all beginning at the same moment. The first failure is raised."""
    gate = threading.Barrier(len(people))

    def one(who: Participant) -> T:
        gate.wait(timeout=60)
        return step(who)

    with ThreadPoolExecutor(len(people)) as pool:
        return list(pool.map(one, people))


def come_in(who: Participant) -> None:
    """Log in, get a server, open Day 1."""
    who.log_in()
    who.start_kernel()


def table(people: Sequence[Participant], checks: Sequence[float]) -> str:
    """Waits as a person reads them: median and longest."""
    rows = {step: [who.took[step] for who in people] for step in ("login to server", "kernel")}
    rows["a check"] = list(checks)
    return "\n".join([f"{len(people):2d} at once          p50        max", *(
        f"{step:16}  {median(took):6.2f} s  {max(took):6.2f} s" for step, took in rows.items())])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m workshop.hub.load", description=(
        "A simulated room in a running class: everybody logs in at once and answers Day 1."))
    parser.add_argument("--at", type=Path, default=Path("/srv/roofline-class"))
    parser.add_argument("--people", type=int, default=20)
    given = parser.parse_args(arguments)
    private = given.at / "private"
    try:
        port = json.loads((private / "class.json").read_text())["port"]
        sheet = accounts.passwords(private / "passwords.csv")[:given.people]
        key = json.loads((MADE / "key" / PAGE).read_text())
    except OSError as error:
        print(f"load: {error}. It needs a class that runs, its folder in --at, and the key: "
              "`course.py workshop key`", file=sys.stderr)
        return 1
    people = [Participant(f"http://127.0.0.1:{port}", *row) for row in sheet]
    try:
        room(people, come_in)
        asked = questions(people[0].notebook(), key)
        checks = [took for some in room(people, lambda who: answer(who, asked)) for took in some]
        print(f"{len(asked)} questions each, all right\n{table(people, checks)}")
    except (Stop, requests.RequestException, websocket.WebSocketException) as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    finally:
        for who in people:
            who.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
