"""What a notebook asks and answers, judged by the bank.

Question  what would roofline.problems say to this, had the notebook the bank?
Answer    judged("ask" or "check", sent) -> the reply of JSON; Judge does it in other processes
Assumes   `sent` is what remote.py makes; whatever else comes is refused, not guessed at
Ignores   who asks, and what becomes of the outcome

Judging runs in two processes of its own: a problem computes with a participant's own inputs, and
only a process's main thread can be stopped at a time limit; meanwhile pages are still served.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from roofline.check import ProblemError, Question, Report, WrongAnswer
from roofline.problems import ask

LIMIT = 2.0  # s; the slowest problem takes some ms
LONGEST = 500  # characters of an answer
WAITING = 200  # requests that may wait to be judged


class Malformed(ValueError):
    """It is not what remote.py sends."""


class Busy(Exception):
    """Too many are waiting, or judging was cut short."""




# --- in a process of its own ----------------------------------------------------------------


def judged(what: str, sent: Mapping[str, Any]) -> dict[str, Any]:
    """The reply to a request. What the bank refuses comes as {"refused": its words}."""
    own, answers = sent.get("own"), sent.get("answers", {})
    if not isinstance(own, dict) or not isinstance(answers, dict) or "seed" in own:
        raise Malformed("expected id, seed, own and, for a check, answers by name")
    seed = _value("seed", sent["seed"]) if "seed" in sent else None
    try:
        question = ask(_value("id", sent.get("id")), seed,
                       **{name: _value(name, value) for name, value in own.items()})
        if what == "ask":
            return _told(question)
        return _outcomes(question, {name: _value(name, value) for name, value in answers.items()})
    except ProblemError as error:
        return {"refused": str(error)}


def _told(question: Question) -> dict[str, Any]:
    """The question as it shows itself. Inputs that are to be read from a figure stay here."""
    shown = {name: text for name, text in question.given.items() if text in question.text}
    return {"text": repr(question), "names": [part.name for part in question.parts],
            "inputs": {name: question.inputs[name] for name in shown}, "given": shown}


def _outcomes(question: Question, answers: Mapping[str, object]) -> dict[str, Any]:
    try:
        report: Report = question.check(**answers)
    except WrongAnswer as wrong:
        report = wrong.report
    return {"right": report.right, "outcomes": [
        {"name": one.name, "kind": one.kind, "message": one.message} for one in report.outcomes]}


def _value(name: str, plain: Any) -> Any:
    """What was typed, or something that judging cannot tell from it."""
    if plain is None:
        return ...
    if isinstance(plain, dict):
        return _foreign(plain)
    if not isinstance(plain, str | bool | int | float):
        raise Malformed("expected text, a number or null for each answer")
    if isinstance(plain, str) and len(plain) > LONGEST:
        raise ProblemError(f"{name[:100]}: got text of {len(plain):,} characters; at most "
                           f"{LONGEST:,} are judged. Write a number with its unit, or a few words")
    return plain


def _foreign(about: Mapping[str, Any]) -> Any:
    """A stand-in for an object of another type: the same name, look and number."""
    name, shows, number = (about.get(key) for key in ("type", "shows", "number"))
    if not (isinstance(name, str) and isinstance(shows, str) and len(name + shows) <= 400
            and name.isidentifier() and isinstance(number, str | None)):
        raise Malformed("expected type, shows and number of a foreign object")
    look = {"__repr__": lambda self: shows}
    if number is None:
        return type(name, (), look)()
    try:
        return type(name, (float,), look)(number)
    except ValueError:
        raise Malformed("expected a number as Python writes it") from None


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _work(what: str, sent: Mapping[str, Any]) -> dict[str, Any]:
    with _limited(LIMIT):
        return judged(what, sent)


def _settle() -> None:
    """In a new process: Ctrl-C is the service's business, and it does not outlive the service."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        if service := multiprocessing.parent_process():
            service.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


# --- in the service -------------------------------------------------------------------------


class Judge:
    """Judges requests in `processes` processes; a process that dies is replaced."""

    def __init__(self, processes: int = 2) -> None:
        self._processes, self._waiting = processes, 0
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._processes, multiprocessing.get_context("spawn"),
                                   _settle)

    async def warm(self) -> None:
        """Start all processes: each has the bank loaded before the class comes."""
        await asyncio.gather(*(self("ask", {"id": "", "own": {}}) for _ in range(self._processes)))

    async def __call__(self, what: str, sent: Mapping[str, Any]) -> dict[str, Any]:
        """As `judged`. Raises Busy when too many wait or it took more than LIMIT seconds."""
        if self._waiting >= WAITING:
            raise Busy("too many answers wait to be judged")
        self._waiting += 1
        pool = self._pool
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, _work, what, sent)
        except TimeoutError:
            raise ProblemError(f"{sent['id']}: judging took more than {LIMIT:.0f} s and was "
                               "stopped. Try other inputs") from None
        except BrokenProcessPool:
            if pool is self._pool:  # the first of those who waited for it
                self._pool = self._new()
            raise Busy("the judge was restarted") from None
        finally:
            self._waiting -= 1

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
