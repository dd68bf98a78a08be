"""Signs of life while something takes long.

Question  is it still at work, and at what?
Answer    `with working("counting mlp"):` a line on stderr after two seconds, again as time goes on
Assumes   what is done needs no line of its own meanwhile
Ignores   how much is left: nothing here knows that
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # s until the first line


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what is being done when it takes longer than PATIENCE; ever more seldom after that."""
    done, began = threading.Event(), time.monotonic()

    def tell() -> None:
        wait = PATIENCE
        while not done.wait(wait):
            print(f"{what}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
            wait = min(2 * wait, 60.0)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
