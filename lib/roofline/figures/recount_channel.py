"""A figure's line to the notebook's kernel: settings in, counts out, one at a time.

Question  how does a figure ask the kernel for a count, and what if that takes long or fails?
Answer    open_channel(token, of): an anywidget without a view; a count runs in a thread, is told
          when it is taken up, and is stopped on request or after LIMIT seconds
Assumes   JupyterLab with the extensions that ipywidgets and anywidget bring
Ignores   front ends without it: their figure moves among what was counted ahead
"""

import ctypes
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recounts import Recount

LIMIT = 8.0  # seconds of a count; some three million instructions


class Stopped(BaseException):
    """A count has been given up; no kernel's `except Exception` may catch it."""


def open_channel(token: str, of: "Recount") -> bool:
    """Open the line; False where anywidget is not installed."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        return False

    class Channel(anywidget.AnyWidget):
        _esm = resources.files(__package__).joinpath("recount_channel.mjs").read_text("utf-8")
        token = traitlets.Unicode().tag(sync=True)

    channel = Channel(token=token)
    counter = Counter(of, channel.send)
    channel.on_msg(lambda _, content, buffers: counter.take(content))
    return True


class Counter:
    """Counts what it is asked for in a thread; a new request stops the one before.

    send   takes each answer: {"id", "taken"}, then {"id", "count", "source", "version"}
           or {"id", "error"}
    """

    def __init__(self, of: "Recount", send: Callable[[dict[str, Any]], None],
                 limit: float = LIMIT) -> None:
        self.of, self.send, self.limit = of, send, limit
        self.lock = threading.Lock()  # one count at a time
        self.worker: threading.Thread | None = None
        self.why = ""

    def take(self, content: Any) -> None:
        """A message of the page: {"id", "count": setting} or {"stop": true}."""
        if not isinstance(content, dict):
            return
        if self.worker and self.worker.is_alive():
            self.stop("it was stopped" if content.get("stop") else "another setting was asked for",
                      self.worker)
        if "count" in content:
            self.send({"id": content.get("id"), "taken": True})
            # With this message's context: its kernel says where output of a thread belongs.
            self.worker = threading.Thread(target=copy_context().run, args=(self._work, content),
                                           daemon=True)
            self.worker.start()

    def stop(self, why: str, worker: threading.Thread) -> None:
        """End a count where its Python next is."""
        if worker.is_alive() and worker.ident:
            self.why = why
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident),
                                                       ctypes.py_object(Stopped))

    def _work(self, content: dict[str, Any]) -> None:
        with suppress(Stopped):  # one that came when all was done
            self._count(content)

    def _count(self, content: dict[str, Any]) -> None:
        from .recounts import plain

        answer: dict[str, Any] = {}
        try:
            with self.lock:
                late = threading.Timer(self.limit, self.stop, (
                    f"it took over {self.limit:g} s and was stopped. Take smaller sizes, or count "
                    "it in a cell with nki.run", threading.current_thread()))
                late.daemon = True
                late.start()
                try:
                    setting = plain(content["count"], self.of)
                    kernels, source, version = self.of.current()
                    answer = {"count": self.of.counted(setting, kernels), "source": source,
                              "version": version}
                finally:
                    late.cancel()
        except Stopped:
            answer = {"error": self.why}
        except Exception as error:  # whatever a kernel's file may raise, the figure lives on
            known = isinstance(error, ValueError)
            answer = {"error": str(error) if known else
                      traceback.format_exception_only(error)[-1].strip()}
        self.send({"id": content.get("id"), **answer})
