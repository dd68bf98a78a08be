"""Calls in a thread of their own: in a test's own thread Playwright's loop may be running."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def aside(function: Callable[..., Any], *arguments: Any) -> Any:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *arguments).result()
