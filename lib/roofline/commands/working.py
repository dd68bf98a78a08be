"""Signs of life while something takes long.

Question  is it still at work, and at what?
Answer    `with working("counting mlp") as at:` a line on stderr after two seconds, again as time
          goes on; at("the next step") says a step at once
Assumes   what is done needs no line of its own meanwhile
Ignores   how much is left: nothing here knows that
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .answer import tell

PATIENCE = 2.0  # s until the first line


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Say what is being done when it takes longer than PATIENCE; ever more seldom after that.

    Gives a function that names the step it has come to.
    """
    done, began, steps = threading.Event(), time.monotonic(), [what]

    def at(step: str) -> None:
        steps.append(step)
        tell(step)

    def go_on() -> None:
        wait = PATIENCE
        while not done.wait(wait):
            tell(f"{steps[-1]}: {time.monotonic() - began:.0f} s")
            wait = min(2 * wait, 60.0)

    teller = threading.Thread(target=go_on, daemon=True)
    teller.start()
    try:
        yield at
    finally:
        done.set()
        teller.join()
