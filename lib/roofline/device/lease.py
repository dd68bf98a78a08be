"""A turn on the cores of an instance that a class shares.

Question  which cores may this capture use, and when?
Answer    take(...) -> Lease: the cores it named, or core 0, at once; where ROOFLINE_CORES names
          the socket of a queue (workshop/hub/cores.py), those that it gives, when it is our turn
Assumes   who shares the instance asks, too: nothing here stops a program that does not
Ignores   what runs on them. A lease lasts until no process has one of its descriptors open

Cores come all at once and a lease never grows, so two captures cannot wait for each other.
"""

import json
import os
import socket
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..table import Told, printable

VARIABLE = "ROOFLINE_CORES"
ANSWER_S = 10.0  # until the queue has to say the first word
LONGEST = 4096  # bytes of a word of it
SPACE = socket.CMSG_SPACE(4 * 253)  # bytes of descriptors beside it: SCM_MAX_FD of unix(7)


class LeaseError(Told, RuntimeError):
    """No turn on a core: what happened, and the next step."""


@dataclass
class Lease:
    """Cores to run on until it is closed, by this process and by those that inherit `files`.

    cores   logical ones, as NEURON_RT_VISIBLE_CORES counts them
    files   descriptors that hold it; none where nobody shares the instance
    line    to the queue, which looks again when it is closed
    """

    cores: tuple[int, ...]
    files: tuple[int, ...] = ()
    line: socket.socket | None = None

    def close(self) -> None:
        """Give the cores back, as far as this process has them."""
        files, self.files = self.files, ()
        for file in files:
            os.close(file)
        if self.line:
            self.line.close()

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def take(what: str, lnc: int, cores: Sequence[int] | None,
         tell: Callable[[str], None] | None = None) -> Lease:
    """Wait for a turn, saying how many come before; an interrupt gives the place up.

    what    is going to run, in words; the instructor sees them
    lnc     physical cores of a logical one
    cores   logical ones, all of which it has to be; any one unless given
    tell    is told the place; else it is printed, on one line

    Raises LeaseError where the queue is not there, refuses, or ends while we wait.
    """
    path = os.environ.get(VARIABLE, "")
    if not path:
        return Lease(tuple(cores or (0,)))
    wish: dict[str, Any] = {"what": what[:200]}
    wish |= {"width": lnc} if cores is None else {
        "cores": [lnc * core + i for core in cores for i in range(lnc)]}
    lease, show = Lease((), (), _line(path)), tell or _printed
    try:
        physical = _turn(lease, wish, show, path)
        lease.cores = tuple(cores or (physical[0] // lnc,))
        s = "s" * (len(lease.cores) > 1)
        show(f"{'logical ' * (lnc > 1)}core{s} {', '.join(map(str, lease.cores))} "
             f"{'are' if s else 'is'} yours")
    except BaseException:
        lease.close()
        raise
    finally:
        if not tell:
            print(flush=True)  # the line stays
    return lease


def _printed(text: str) -> None:
    """One line of a notebook or a terminal, written over each time."""
    print(f"\r{text:<60}", end="", flush=True)


def _line(path: str) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        line.settimeout(ANSWER_S)
        line.connect(path)
    except OSError as error:
        line.close()
        raise LeaseError(f"no turn on a core: {VARIABLE}={printable(path, 120)}: "
                         f"{error.strerror or error}. The queue of the class runs there; ask the "
                         "instructor to start it. On an instance of your own unset the variable"
                         ) from None
    return line


def _turn(lease: Lease, wish: dict[str, Any], show: Callable[[str], None], path: str
          ) -> list[int]:
    """The physical cores that were given; what holds them is the lease's from then on."""
    line, data = lease.line, b""
    assert line is not None  # it was made with one
    try:
        line.sendall(json.dumps(wish).encode())
        while True:
            data, beside, _, _ = line.recvmsg(LONGEST, SPACE, socket.MSG_CMSG_CLOEXEC)
            for *_, files in beside:  # SCM_RIGHTS; recv_fds would leave them to every child
                lease.files += tuple(array("i", files))
            line.settimeout(None)
            said = json.loads(data)
            if "error" in said:
                raise LeaseError(f"no turn on a core: {printable(said['error'])}")
            if "cores" in said and lease.files:
                return [int(core) for core in said["cores"]]
            n = int(said["ahead"])
            show(f"waiting for a core: {f'{n} ahead of you' if n else 'you are next'}")
    except (OSError, ValueError, LookupError, TypeError) as error:
        why = (f"no answer within {ANSWER_S:g} s" if isinstance(error, TimeoutError) else
               "it ended" if isinstance(error, ConnectionError) or not data else
               f"it says {printable(data.decode(errors='replace'), 80)!r}")
        raise LeaseError(f"no turn on a core: the queue at {printable(path, 120)} is lost ({why}). "
                         "Nothing has run. Run this again; if the queue is not back by then, tell "
                         "the instructor") from None
