"""nki.collectives: between devices; every function raises Uncounted when it is called."""

from typing import Any

from .surface import stub


def __getattr__(name: str) -> Any:
    return stub("nki.collectives", name)
