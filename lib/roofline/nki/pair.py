"""The physical cores of one kernel call, and what they hold in common.

Question  how do two instances of a kernel meet, and what if one of them never comes?
Answer    Pair: runs them, hands out shared HBM, makes a barrier wait; a deadlock is an error
Assumes   both instances issue the same control flow (Using Logical Neuron Cores)
Ignores   how far one core runs ahead of the other: one goes at a time, until it has to wait
"""

import ctypes
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

from .core import Core, refuse
from .memory import Allocation, Storage


class Abandoned(BaseException):
    """The other core failed, or the run was interrupted; this one stops."""


class Pair:
    """The cores of one call: one runs at a time, and hands over only where it has to wait.

    So two runs of a kernel are the same run.

    shared     storage of the nl.shared_hbm allocations, in order
    barriers   the tensor that each core_barrier named, in order
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.shared: list[Storage] = []
        self.barriers: list[Allocation] = []
        self.passed = [0] * cores  # barriers each core has come to
        self.turn, self.failed = -1, False  # -1: nobody's
        self.waiting: dict[int, Any] = {}  # core -> the meeting it waits at
        self.posted: dict[tuple, Any] = {}  # (core, meeting) -> what it brought
        self.done: set[int] = set()
        self.changed = threading.Condition()

    def run(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """The results of the calls; raises the first error, after both have stopped."""
        if len(calls) == 1:
            return [calls[0]()]
        results: list[Any] = [None] * len(calls)
        errors: list[BaseException | None] = [None] * len(calls)

        def work(i: int) -> None:
            try:
                self._wait_for_turn(i)
                results[i] = calls[i]()
            except BaseException as error:
                errors[i] = error
                self.failed = True
            finally:
                with self.changed:
                    self.done.add(i)
                    self._next(i)

        threads = [threading.Thread(target=copy_context().run, args=(work, i), daemon=True)
                   for i in range(len(calls))]
        try:
            for thread in threads:
                thread.start()
            with self.changed:
                self._next(1)
                while len(self.done) < len(calls):
                    self.changed.wait(0.5)  # a signal may have come while nothing else happened
        except BaseException:  # Ctrl-C reaches the thread that waits here, and no other
            self._stop(threads)
            raise
        for thread in threads:
            thread.join()
        for error in errors:
            if error is not None and not isinstance(error, Abandoned):
                raise error
        return results

    def _stop(self, threads: Sequence[threading.Thread]) -> None:
        """End both instances, the one that waits and the one that computes."""
        with self.changed:
            self.failed = True
            self.changed.notify_all()
            if self.turn >= 0 and self.turn not in self.done:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(threads[self.turn].ident or 0), ctypes.py_object(Abandoned))
        for thread in threads:
            if thread.is_alive():
                thread.join()

    def _next(self, i: int) -> None:
        """Let the other core go on, if it has not ended; the lock is held."""
        other = 1 - i
        self.turn = other if other not in self.done else i
        self.changed.notify_all()

    def _wait_for_turn(self, i: int) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.turn == i or self.failed)
            if self.failed:
                raise Abandoned

    def share(self, core: Core, what: str, made: Storage) -> Storage:
        """The nth shared_hbm allocation: made by the core that comes first, the same for both."""
        at, core.shared = core.shared, core.shared + 1
        if at == len(self.shared):
            self.shared.append(made)
        found, new = self.shared[at].allocation, made.allocation
        if (found.shape, found.dtype) != (new.shape, new.dtype):
            raise refuse(f"{what} in shared_hbm", f"{new!r} on core {core.index}",
                         f"the other core allocated {found!r} there",
                         "Both instances allocate the same shared tensors in the same order")
        return self.shared[at]

    def settled(self, kernel: str, cores: Sequence[Core]) -> None:
        """Refuse a kernel whose cores made different numbers of shared_hbm tensors."""
        made = [core.shared for core in cores]
        if len(set(made)) > 1:
            raise refuse(f"{kernel}: shared_hbm", " and ".join(
                f"{n} tensors on core {i}" for i, n in enumerate(made)),
                "the nth of one core is the nth of the other",
                "Both instances allocate the same shared tensors in the same order")

    def barrier(self, core: Core, named: Allocation) -> None:
        """Wait until both cores have come to their nth core_barrier, on the same tensor."""
        nth = self.passed[core.index]
        self.passed[core.index] += 1
        if nth == len(self.barriers):
            self.barriers.append(named)
        if self.barriers[nth] is not named:
            raise refuse("core_barrier: data", f"{named!r}",
                         f"the other core's barrier {nth} names {self.barriers[nth]!r}",
                         "Both instances name the same tensors, in the same order")
        self.meet(core, "core_barrier", f"barrier {nth} on {named.name}")

    def meet(self, core: Core, what: str, key: str, value: Any = None) -> Any:
        """Wait until the other core comes to the same meeting (a key used once); get its value.

        Raises NkiValidationError when it never comes: it has ended, or waits for something else.
        """
        i, other = core.index, 1 - core.index
        self.posted[i, key] = value
        while (other, key) not in self.posted:
            stuck = other in self.waiting and (i, self.waiting[other]) not in self.posted
            if other in self.done or stuck:
                state = f"waits at {self.waiting[other]}" if stuck else "has ended"
                raise refuse(what, f"core {i} at {key}",
                             f"core {other} {state} and never comes here",
                             "Both instances must issue it, in the same order")
            self.waiting[i] = key
            with self.changed:
                self._next(i)
            self._wait_for_turn(i)
        self.waiting.pop(i, None)
        return self.posted[other, key]
