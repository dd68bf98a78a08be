"""Questions and predictions of a class: the service at the hub judges, the bank is not here.

Question  is this answer right, where the answers must not lie on a participant's disk?
Answer    ask, predict and what they return, as roofline.problems has them, for notebooks that
          were started from the hub; this file is roofline/problems/__init__.py there
Assumes   ROOFLINE_CLASS names the service, JUPYTERHUB_API_TOKEN says who asks; the core of roofline
Ignores   worked answers: they stay with the instructor
"""

import contextlib
import http.client
import json
import math
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from roofline.check import Outcome, ProblemError, Report, WrongAnswer
from roofline.guess import Prediction
from roofline.table import Told, printable

__all__ = ["ClassError", "ProblemError", "Question", "WrongAnswer", "ask", "predict"]

ONE_TRY = 10.0  # s that a try may take
PATIENCE = 30.0  # s of trying again: a hub restarts in less
BRIEFLY = 2.0  # s, for a guess: the page goes on without the class
LARGEST = 60_000  # bytes of a request
REPLIES = {"ask": {"text", "inputs", "given"}, "check": {"outcomes"}, "predict": {"kept"}}
LOST_NOTHING = "What you wrote is still in the cell: run it again"


class ClassError(Told, RuntimeError):
    """The class service did not judge: why, and what to do."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token goes to the address it is meant for and no further."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


def ask(id: str, /, seed: int | None = None, **own: object) -> "Question":
    """The question called `id`.

    seed   None or 0: the page's own inputs; another whole number: fresh ones, always the same
    own    inputs of your own, as numbers in base units or as text: P="2 TFLOP/s"

    Raises ProblemError for an unknown id or input, and for a value an input cannot have;
    ClassError where the class service does not answer.
    """
    asked = {"id": _plain(id), "own": {name: _plain(value) for name, value in own.items()}}
    if seed is not None:
        asked["seed"] = _plain(seed)
    reply = _post("ask", id, asked, PATIENCE)
    return Question(id, seed or 0, reply["inputs"], reply["given"], reply["text"], asked)


def predict(id: str, /, **guesses: object) -> Prediction:
    """Your guesses at what the next cell shows, as they were taken.

    guesses   by part: text with a unit ("25 MB"), an option's key, or `...` for later

    They go to the class's service, which keeps them only for those who share theirs. Raises
    GuessError for a guess that is none of these.
    """
    taken = Prediction(id, guesses)
    if taken.filled:
        try:
            _post("predict", id, {"id": id, "guesses": taken.filled}, BRIEFLY)
        except (ClassError, ProblemError) as error:
            print(f"not sent to the class: {error}")
    return taken


@dataclass(frozen=True, repr=False)
class Question:
    """A problem with its inputs put in, as the service told it."""

    id: str
    seed: int
    inputs: Mapping[str, Any]  # those that the question shows
    given: Mapping[str, str]  # the same as text
    _shown: str
    _asked: Mapping[str, Any] = field(compare=False)

    def __repr__(self) -> str:
        return self._shown

    def check(self, /, **answers: object) -> Report:
        """Have each answer judged; `...` and a part left out are not attempted.

        Raises WrongAnswer when an attempted part is not right, ProblemError for an answer
        name the question does not have, ClassError where the class service does not answer.
        """
        reply = _post("check", self.id, {**self._asked, "answers": {
            name: _plain(answer) for name, answer in answers.items()}}, PATIENCE)
        report = Report(tuple(Outcome(one["name"], one["kind"], one["message"])
                              for one in reply["outcomes"]))
        if any(one.kind not in ("right", "not attempted") for one in report.outcomes):
            raise WrongAnswer(report)
        return report

    def worked(self) -> None:
        """Raises ProblemError: the worked answer is not to be had here."""
        raise ProblemError(f"{self.id}: the worked answer is with your instructor")


# --- over the wire -------------------------------------------------------------------------


def _plain(value: object) -> Any:
    """A value as JSON that the service turns back into one that is judged the same.

    Text, True, False and numbers stay as they are and `...` is null. Of anything else go its type,
    how it shows itself and its number: of NumPy's, of those that are not finite, and of those of
    over 4200 digits, which JSON does not read.
    """
    if value is ...:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and type(value) in (bool, int) and value.bit_length() < 14_000:
        return value
    number = None
    if isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if type(value) is float and math.isfinite(number):
            return value
    shows = type(value).__name__
    with contextlib.suppress(Exception):  # some object's own; 10**5000 refuses to be shown
        shows = repr(value)[:200]
    return {"type": type(value).__name__, "shows": shows,
            "number": None if number is None else repr(number)}


def _post(what: str, id: object, body: Mapping[str, Any], patience: float) -> Any:
    """The service's reply. It tries again while the service is restarting or busy."""
    where = printable(id, 60)
    address, token = (os.environ.get(name, "") for name in ("ROOFLINE_CLASS",
                                                            "JUPYTERHUB_API_TOKEN"))
    if not address.startswith(("http://", "https://")) or not token:
        raise ClassError(f"{where}: answers are judged by the class service, and this notebook was "
                         "not started from the class's hub. Log in there and open it again")
    data = json.dumps(body).encode()
    if len(data) > LARGEST:
        raise ProblemError(f"{where}: got {len(data):,} bytes of answers, at most {LARGEST:,} are "
                           "judged. Write a number with its unit, or a few words")
    request = urllib.request.Request(f"{address.rstrip('/')}/{what}", data, {
        "Authorization": f"token {token}", "Content-Type": "application/json"})
    one_try = min(ONE_TRY, max(BRIEFLY, patience))
    start, pause, told = time.monotonic(), 0.1, False
    while True:
        try:
            with _OPENER.open(request, timeout=one_try) as answer:
                reply = json.loads(answer.read())
            if isinstance(reply, dict) and REPLIES[what] <= reply.keys():
                return reply
            why = "it is another service"
        except urllib.error.HTTPError as error:
            why = _refusal(where, error)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            why = str(getattr(reason, "strerror", None) or reason or type(error).__name__)
        waited = time.monotonic() - start
        if waited + pause > patience:
            raise ClassError(f"{where}: no answer from the class service in {waited:.0f} s "
                             f"({printable(why, 80)}). {LOST_NOTHING}, and tell your instructor "
                             "if it stays so")
        if waited > 2 and not told:
            print(f"the class service does not answer yet; trying for {patience:.0f} s")
            told = True
        time.sleep(pause)
        pause = min(2 * pause, 3.0)


def _refusal(where: str, error: urllib.error.HTTPError) -> str:
    """Why it is worth trying again. Raises what the reader is told where it is not."""
    try:
        said = str(json.loads(error.read(LARGEST))["error"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        said = ""
    if error.code == 422 and said:  # as check.py words it
        raise ProblemError(said)
    if error.code in (401, 403):
        raise ClassError(f"{where}: the class service does not take this notebook's token. Stop "
                         "your server and start it again: File, Hub Control Panel. "
                         f"{LOST_NOTHING} then")
    if said and error.code < 500 and error.code != 429:
        raise ClassError(f"{where}: the class service refuses this: {printable(said, 200)}")
    if said and error.code == 500:
        raise ClassError(f"{where}: the class service failed at this question. Tell your "
                         f"instructor its name. {LOST_NOTHING} later")
    return said or f"status {error.code}"  # not the service itself: the hub while it restarts
