"""The problem bank: every question of the course, by id.

Question  where is the question `day1.bound`, for the page's inputs, a seed, or my own?
Answer    ask(id, seed, **inputs) -> check.Question; BANK has the problems themselves;
          predict(id, **guesses) takes a guess before a result is looked at
Assumes   one module a day, and one for each page that goes through all of them; ids begin so
Ignores   how answers are judged (check) and how a page shows a form (figures)
"""

import difflib

from ..check import Problem, ProblemError, Question, WrongAnswer
from ..guess import Prediction
from . import day1, day2, day3, day4, day5, day6, day7, day7_matmul, day7_swiglu, vjepa2

__all__ = ["BANK", "Problem", "ProblemError", "Question", "WrongAnswer", "ask", "predict"]

# Every problem by id, in the order of the course.
BANK: dict[str, Problem] = {id: problem for page in (
    day1, day2, day3, day4, day5, day6, day7, day7_matmul, day7_swiglu, vjepa2)
    for id, problem in page.PROBLEMS.items()}


def ask(id: str, /, seed: int | None = None, **own: object) -> Question:
    """The question called `id`.

    seed   None or 0: the page's own inputs; another whole number: fresh ones, always the same
    own    inputs of your own, as numbers in base units or as text: P="2 TFLOP/s"

    Raises ProblemError for an unknown id or input, and for a value an input cannot have.
    """
    if id not in BANK:
        near = difflib.get_close_matches(str(id), BANK, n=3) or list(BANK)[:3]
        raise ProblemError(f"no question is called {id!r}; near it: {', '.join(near)}")
    return BANK[id].question(seed, **own)


def predict(id: str, /, **guesses: object) -> Prediction:
    """Your guesses at what the next cell shows, as they were taken; nothing keeps them.

    guesses   by part: text with a unit ("25 MB"), an option's key, or `...` for later

    Raises GuessError for a guess that is none of these.
    """
    return Prediction(id, guesses)
