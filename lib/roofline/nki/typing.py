"""nki.typing: annotations of kernel parameters; they do nothing here."""

from typing import Any

from .memory import NkiTensor as tensor

__all__ = ["tensor"]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return tensor
