"""Addresses of the class service, and who may see what.

Question  who asks, may they, and what do they get?
Answer    application(Service): judging for notebooks with a token, pages for browsers that the hub
          logged in, the board for those with the scope BOARD
Assumes   JupyterHub's variables of a managed service, a proxy that passes its prefix on
Ignores   how answers are judged and what is kept

Text that comes from participants reaches a page as text only: templates escape it, the board's
script sets textContent, and no page runs or loads what is not the service's own file.
"""

import asyncio
import csv
import io
import json
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyterhub.services.auth import (
    HubAuth,
    HubAuthenticated,
    HubOAuth,
    HubOAuthCallbackHandler,
    UserNotAllowed,
)
from tornado.web import Application, HTTPError, RequestHandler, StaticFileHandler

import roofline
from roofline.check import ProblemError
from roofline.problems import BANK

from .predictions import Prediction
from .questions import Busy, Judge, Malformed
from .records import Records, Sharing

BOARD = "custom:class:board"  # the scope of those who may see the board
LARGEST = 65_536  # bytes of a request
LEAST = 3  # guesses from which on their bars are shown: of fewer, the room knows whose they are
BURST, PER_SECOND = 500, 20.0  # requests of one user; a page run whole asks some 60 in a moment
HERE = Path(__file__).parent / "pages"
FIGURES = Path(roofline.__file__).parent / "figures"  # colors and buttons are the book's
_OURS = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
         "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
# The book's own pages have scripts in them, and Python in a worker.
_BOOK = ("default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; object-src 'none'; "
         "base-uri 'self'; form-action 'self'; frame-ancestors 'self'")


class _Rates:
    """How many requests a user has left: BURST at once, PER_SECOND in the long run."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, user: str) -> bool:
        now = time.monotonic()
        left, since = self._left.get(user, (float(BURST), now))
        left = min(left + (now - since) * PER_SECOND, float(BURST))
        self._left[user] = max(left - 1, 0.0), now
        return left >= 1


@dataclass
class Service:
    """What all requests share."""

    records: Records
    judge: Judge
    predictions: Mapping[str, Prediction]
    book: Path | None
    cookie_secret: bytes
    rates: _Rates = field(default_factory=_Rates)
    # Of each user one answer is judged at a time: one who sends slow ones holds up nobody else.
    turns: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))


class _Handler(HubAuthenticated, RequestHandler):
    """A request whose user the hub knows."""

    @property
    def service(self) -> Service:
        found: Service = self.application.settings["service"]
        return found

    @property
    def user(self) -> str:
        name: str = self.current_user["name"]
        return name

    def set_default_headers(self) -> None:
        self.set_header("Server", "class")
        self.set_header("Content-Security-Policy", _OURS)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "same-origin")
        self.set_header("Cache-Control", "no-store")

    async def _identify(self) -> None:
        """The user, without holding up other requests while the hub is asked."""
        self.current_user = None
        try:
            model = await self.hub_auth.get_user(self, sync=False)
        except HTTPError as error:
            raise HTTPError(503, reason="the hub does not answer") from error
        try:
            self.current_user = self.check_hub_user(model) if model else None
        except UserNotAllowed:
            raise HTTPError(403, reason="not of this class") from None
        if self.current_user and self.current_user["kind"] != "user":
            raise HTTPError(403, reason="for people only")
        if self.current_user and not self.service.rates.take(self.user):
            self.set_header("Retry-After", "1")
            raise HTTPError(429, reason="too many requests")


# --- for notebooks --------------------------------------------------------------------------


class _Api(_Handler):
    """JSON from a notebook's kernel, with its server's token in the header."""

    sent: dict[str, Any]

    @property
    def hub_auth(self) -> HubAuth:
        return self.application.settings["token"]

    def check_xsrf_cookie(self) -> None:
        """A browser never sends this header by itself, and cookies are not looked at."""

    async def prepare(self) -> None:
        await self._identify()
        if not self.current_user:
            raise HTTPError(403, reason="no valid token")
        try:
            self.sent = json.loads(self.request.body, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise HTTPError(400, reason="expected JSON") from None
        if not isinstance(self.sent, dict):
            raise HTTPError(400, reason="expected an object of JSON")

    def write_error(self, status_code: int, **_: Any) -> None:
        self.finish({"error": self._reason})


def _no_constant(name: str) -> float:
    raise ValueError(name)


class _Asked(_Api):
    """A question, or answers to it."""

    def initialize(self, what: str) -> None:
        self.what = what

    async def post(self) -> None:
        try:
            async with self.service.turns[self.user]:
                reply = await self.service.judge(self.what, self.sent)
        except ProblemError as error:
            reply = {"refused": str(error)}
        except Malformed as error:
            raise HTTPError(400, reason=str(error)) from None
        except Busy as busy:
            self.set_header("Retry-After", "1")
            raise HTTPError(503, reason=str(busy)) from None
        if "refused" in reply:
            self.set_status(422)
            self.finish({"error": reply["refused"]})
            return
        if any(one["kind"] != "not attempted" for one in reply.get("outcomes", ())):
            self.service.records.attempted(self.user, self.sent["id"], reply["right"])
        self.finish(reply)


class _Guess(_Api):
    """A prediction's guesses."""

    async def post(self) -> None:
        id, guesses = self.sent.get("id"), self.sent.get("guesses")
        if not isinstance(id, str) or not isinstance(guesses, dict):
            raise HTTPError(400, reason="expected id, and guesses by name")
        asked = self.service.predictions.get(id)
        self.finish({"kept": asked is not None and self.service.records.guessed(
            self.user, id, asked.take(guesses))})


# --- for browsers ---------------------------------------------------------------------------


class _Page(_Handler):
    """A page for who is logged in at the hub; others are sent there."""

    @property
    def hub_auth(self) -> HubOAuth:
        return self.application.settings["oauth"]

    async def prepare(self) -> None:
        await self._identify()
        if self.current_user:
            return
        if self.request.method == "GET" and self.request.headers.get("Sec-Fetch-Mode") in (
                None, "navigate"):
            self.redirect(self.get_login_url())
        else:
            raise HTTPError(403, reason="not logged in. Open this page again")

    @property
    def instructor(self) -> bool:
        return BOARD in self.current_user["scopes"]

    def get_template_namespace(self) -> dict[str, Any]:
        token = self.xsrf_token
        return super().get_template_namespace() | {
            "base": self.hub_auth.base_url, "version": self.application.settings["version"],
            "xsrf": token.decode() if isinstance(token, bytes) else token,
            "instructor": bool(self.current_user) and self.instructor, "plural": _plural}

    def write_error(self, status_code: int, **_: Any) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(self.render_string("error.html", status=status_code, reason=self._reason))


class _Shared(_Page):
    """A participant's page: what is shared, and what is kept."""

    def get(self) -> None:
        attempts, predictions = self.service.records.of(self.user)
        self.render("class.html", user=self.user, sharing=self.service.records.sharing(self.user),
                    passed=[id for id in BANK if attempts.get(id)],
                    tried=[id for id in BANK if not attempts.get(id, True)],
                    guesses=[one for id, one in self.service.predictions.items()
                             if id in predictions],
                    saved=self.get_query_argument("saved", ""), least=LEAST,
                    book=self.service.book is not None)

    def post(self) -> None:
        self.service.records.share(self.user, Sharing(
            self.get_body_argument("attempts", "") == "on",
            self.get_body_argument("predictions", "") == "on"))
        self.redirect(f"{self.hub_auth.base_url}?saved=1", status=303)


class _BoardPage(_Page):
    """Pages of the board. Participants are refused."""

    async def prepare(self) -> None:
        await super().prepare()
        if not self._finished and not self.instructor:
            raise HTTPError(403, reason="the board is for instructors")


class _Board(_BoardPage):
    """The projector's page."""

    def get(self) -> None:
        pages: dict[str, list[Prediction]] = {}
        for one in self.service.predictions.values():
            pages.setdefault(one.page, []).append(one)
        self.render("board.html", pages=pages)


class _Guesses(_BoardPage):
    """Bars of one prediction, or of the one that was guessed last, as JSON."""

    def get(self) -> None:
        records, known = self.service.records, self.service.predictions
        id = self.get_query_argument("id", "") or records.latest() or next(iter(known), "")
        if id not in known:
            raise HTTPError(404, reason="no such prediction")
        asked, found = known[id], records.guesses(id)
        self.finish({"id": id, "page": asked.page, "section": asked.section, "parts": [
            {"label": part.label, "n": len(guesses), "least": LEAST,
             "kind": "numbers" if part.unit is not None else "options",
             "bars": part.bars(guesses) if len(guesses) >= LEAST else []}
            for part in asked.parts for guesses in (found.get(part.name, []),)]})

    def write_error(self, status_code: int, **_: Any) -> None:
        self.finish({"error": self._reason})


def _days() -> dict[str, list[str]]:
    """The questions of each day, in the order of the course; days by the first part of ids."""
    found: dict[str, list[str]] = {}
    for id in BANK:
        found.setdefault(id.partition(".")[0], []).append(id)
    return found


def _day(name: str) -> str:
    return re.sub(r"^day(?=\d)", "Day ", name) if name.startswith("day") else "Case study"


class _Attempts(_BoardPage):
    """Who attempted and passed what, of those who share it; the questions of days in `open`."""

    def get(self) -> None:
        days = _days()
        opened = [day for day in days if day in self.get_query_arguments("open")]
        self.render("attempts.html", progress=self.service.records.progress(), days=days,
                    opened=opened, day=_day, toggled=lambda day: "".join(
                        f"&open={other}" for other in days if (other in opened) != (other == day)))


class _Sheet(_BoardPage):
    """The same for a spreadsheet: a line a participant, a column a question."""

    def get(self) -> None:
        text = io.StringIO()
        sheet = csv.writer(text)
        sheet.writerow(["participant", *BANK])
        for user, found in self.service.records.progress().items():
            # A spreadsheet takes a cell that begins so for a formula.
            name = f"'{user}" if user.startswith(("=", "+", "-", "@")) else user
            sheet.writerow([name, *("" if id not in found else "passed" if found[id]
                                    else "attempted" for id in BANK)])
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_header("Content-Disposition", 'attachment; filename="attempts.csv"')
        self.finish(text.getvalue())


class _Book(_Page, StaticFileHandler):
    """The student site."""

    def check_xsrf_cookie(self) -> None:
        """It only reads what everybody may read; its scripts fetch without our header."""

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Content-Security-Policy", _BOOK)
        self.set_header("Cache-Control", "private, no-cache")

    def set_extra_headers(self, path: str) -> None:
        self.set_header("Cache-Control", "private, no-cache")


class _NoBook(_Page):
    def get(self) -> None:
        raise HTTPError(404, reason="the book was not made for this class")


class _Static(StaticFileHandler):
    """The pages' own style and script: the same for everybody, so no login."""

    def set_extra_headers(self, path: str) -> None:
        self.set_header("X-Content-Type-Options", "nosniff")


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def application(service: Service) -> Application:
    """The service's application."""
    oauth = HubOAuth.instance()  # the callback's handler takes this one, too
    base = re.escape(oauth.base_url)
    return Application([
        (base + "ask", _Asked, {"what": "ask"}),
        (base + "check", _Asked, {"what": "check"}),
        (base + "predict", _Guess),
        (base[:-1] + "/?", _Shared),
        (base + "board", _Board),
        (base + "board/guesses", _Guesses),
        (base + "board/attempts", _Attempts),
        (base + "board/attempts.csv", _Sheet),
        (base + "oauth_callback", HubOAuthCallbackHandler),
        (base + "static/(figures[.]css)", _Static, {"path": str(FIGURES)}),
        (base + "static/(class[.]css|board[.]mjs|theme[.]js)", _Static, {"path": str(HERE)}),
        (base + "book/(.*)", _Book, {"path": str(service.book), "default_filename": "index.html"})
        if service.book else (base + "book/.*", _NoBook),
    ], service=service, token=HubAuth(), oauth=oauth, cookie_secret=service.cookie_secret,
        xsrf_cookies=True, template_path=str(HERE), version=secrets.token_hex(4),
        log_function=_log)


def _log(handler: RequestHandler) -> None:
    """Requests are not logged: who asks when is nobody's business. Failures log themselves."""
