"""Who has which NeuronCore of a shared instance, and who is next.

Question  a class shares the cores of one instance: whose turn is it?
Answer    `python -m workshop.hub.cores --socket PATH --cores 0-7 --sharing 2` gives them out, each
          capture in turn; --status shows who has and who waits, --end N ends a lease
Assumes   Linux, PATH on a local disk; captures ask before they use a core (roofline.device.lease)
Ignores   a program that does not ask: the driver gives it a free core, and `neuron-ls` names it

A lease is a lock (flock) on one file a core, in PATH.d/. This server takes the lock, passes the
open file to whoever is next, and closes its own: so the operating system keeps the lease exactly
as long as any process of the capture is alive, however it ends, and whether or not this server
runs. A server that starts anew finds the locks as they are. It knows the order alone.

Only the server can open the files. A lease is a new file each time, so one that is kept after its
end locks nothing; it is open for reading, so its holder cannot rewrite whose it is.
"""

import argparse
import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import pwd
import re
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from .. import ROOT, Stop

LONGEST = 4096  # bytes of a request
PATIENCE_S = 10.0  # for a request to come, once connected
TICK_S = 0.2  # between two looks at the locks while somebody waits
MINE = 16  # connections of one user: waiting, holding or silent
ALL = 512  # of all
GRACE_S = 20.0  # that an interrupted capture has to let go of its core
MOST_CORES = 253  # files in one message: SCM_MAX_FD of unix(7)


class CoresError(Stop):
    """Something that the queue refuses: what, got, limit, next step."""


# --- the order -----------------------------------------------------------------------------------


class Choice(NamedTuple):
    """One way to fulfil a wish.

    use    cores to run on, in order
    take   cores that are leased: those, and who shares their memory
    """

    use: tuple[int, ...]
    take: frozenset[int]


@dataclass(frozen=True)
class Wish:
    """What somebody waits for: any one of the choices, all of its cores at once."""

    user: int
    choices: tuple[Choice, ...]


@dataclass
class Queue:
    """Who waits, in which order; it knows neither time nor processes.

    Of the users who wait, next is the one whose last turn is longest ago (a first turn before
    all, in order of arrival); of one user's wishes the first. A wish that cannot be fulfilled yet
    keeps its cores from all that come after it, so nobody is overtaken for ever.
    """

    waiting: dict[int, Wish] = field(default_factory=dict)  # by number, in order of arrival
    turns: dict[int, int] = field(default_factory=dict)  # user -> the count at the last turn
    count: Iterator[int] = field(default_factory=itertools.count)

    def order(self) -> list[int]:
        """Numbers of all wishes, in the order in which they would have their turn."""
        mine: dict[int, list[int]] = {}
        for number, wish in self.waiting.items():
            mine.setdefault(wish.user, []).append(number)
        rounds = [(turn, self.turns.get(user, -1), numbers[0], number)
                  for user, numbers in mine.items() for turn, number in enumerate(numbers)]
        return [number for *_, number in sorted(rounds)]

    def next(self, held: Set[int]) -> tuple[int, Choice] | None:
        """The first wish that can be fulfilled while these cores are held, and how."""
        kept: set[int] = set(held)
        behind: set[int] = set()  # users whose earlier wish waits
        for number in self.order():
            wish = self.waiting[number]
            if wish.user in behind:
                continue
            free = [choice for choice in wish.choices if not choice.take & kept]
            if free:
                return number, free[0]
            behind.add(wish.user)
            kept |= min(wish.choices, key=lambda one: len(one.take & kept)).take
        return None

    def granted(self, number: int) -> None:
        """This wish has its turn."""
        self.turns[self.waiting.pop(number).user] = next(self.count)


def choices(asked: Any, pool: Set[int], sharing: int) -> tuple[Choice, ...]:
    """The ways to fulfil a request: {"width": n}, any n cores of a logical one, or {"cores": []}.

    Raises CoresError for cores that are not there.
    """
    if isinstance(asked, dict) and type(width := asked.get("width")) is int:
        found = [tuple(range(first, first + width))
                 for first in range(0, max(pool) + 1, width)] if 0 < width <= len(pool) else []
        found = [use for use in found if set(use) <= pool]
    else:
        cores = asked.get("cores") if isinstance(asked, dict) else None
        good = isinstance(cores, list) and all(type(core) is int for core in cores)
        found = [tuple(cores)] if good and cores and set(cores) <= pool and (
            len(set(cores)) == len(cores)) else []
    if not found:
        raise CoresError(f"a request for cores that the class has not: {str(asked)[:120]}. It has "
                         f"{ranges(pool)} (physical cores); leave out core= to get any")
    made: dict[frozenset[int], Choice] = {}
    for use in found:
        groups = {core // sharing for core in use}
        take = frozenset(core for core in pool if core // sharing in groups)
        made.setdefault(take, Choice(use, take))
    return tuple(made.values())


def ranges(cores: Iterable[int]) -> str:
    """
    >>> ranges({0, 1, 2, 5})
    '0-2, 5'
    """
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ", ".join(f"{run[0]}-{run[-1]}" if run[1:] else str(run[0]) for run in runs)


# --- the locks -----------------------------------------------------------------------------------


class Peer(NamedTuple):
    """Who is at the other end, as the system says: SO_PEERCRED of unix(7)."""

    pid: int
    uid: int
    gid: int

    @property
    def name(self) -> str:
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return f"uid {self.uid}"


@dataclass(frozen=True)
class Locks:
    """A file for each core; whoever has it locked has the core."""

    folder: Path

    def file(self, core: int) -> Path:
        return self.folder / f"core{core}"

    def held(self, core: int) -> bool:
        try:
            with self.file(core).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:  # locked; or not to be known, and then it is not given away
            return True
        return False

    def take(self, cores: Set[int], record: dict[str, Any]) -> list[int]:
        """New files of these cores, locked and open for reading. They must not be held."""
        files: list[int] = []
        try:
            for core in sorted(cores):
                fresh = self.folder / f".core{core}"
                fresh.write_text(json.dumps(record), encoding="utf-8")
                fresh.chmod(0o600)
                files.append(os.open(fresh, os.O_RDONLY))
                fcntl.flock(files[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
                fresh.replace(self.file(core))
        except OSError:
            close(files)
            raise
        return files

    def record(self, core: int) -> dict[str, Any]:
        """Who has it, since when, for what; {} where nobody has."""
        if not self.held(core):
            return {}
        with contextlib.suppress(OSError, ValueError):
            return dict(json.loads(self.file(core).read_text(encoding="utf-8")))
        return {}


def close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)


def began(pid: int) -> int | None:
    """When a process began, in ticks of the system: tells it from a later one of its number."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


# --- the server ----------------------------------------------------------------------------------


@dataclass
class _Line:
    """A connection."""

    peer: Peer
    socket: socket.socket
    what: str = ""
    since: str = ""
    told: int | None = None  # the place that it was told last


class Cores:
    """The queue of an instance; `start` it in a running event loop, `close` it when done.

    path     of the socket; beside it PATH.d/ holds the locks
    cores    physical NeuronCores of the class
    sharing  cores one after the other that share an HBM stack: leased together, so that no
             neighbour's traffic is in a measurement
    """

    def __init__(self, path: Path, cores: Iterable[int], sharing: int = 1) -> None:
        self.path, self.pool, self.sharing = Path(path), frozenset(cores), sharing
        if not self.pool or min(self.pool) < 0 or len(self.pool) > MOST_CORES or sharing < 1:
            raise CoresError(f"cores {sorted(self.pool)}, {sharing} of them sharing a stack; "
                             f"expected 1 to {MOST_CORES} cores, numbered from 0, and 1 or more")
        self.locks = Locks(self.path.with_name(f"{self.path.name}.d"))
        self.queue = Queue()
        self._lines: dict[int, _Line] = {}
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self._only: int | None = None

    async def start(self) -> None:
        """Begin to answer. Raises CoresError where another server does, or nothing can be kept."""
        try:
            self.locks.folder.mkdir(exist_ok=True)
            self.locks.folder.chmod(0o700)
            self._only = os.open(self.locks.folder / "server", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._only, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.path.unlink(missing_ok=True)  # of a server that is gone
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.setblocking(False)
            self._socket.bind(str(self.path))
            self.path.chmod(0o666)
            self._socket.listen(64)
            for file in filter(Path.exists, map(self.locks.file, self.pool)):
                file.open("rb").close()
        except BlockingIOError:
            await self.close()
            raise CoresError(f"{self.path}: another server gives out these cores. Stop it first"
                             ) from None
        except OSError as error:
            await self.close()
            raise CoresError(f"{self.path}: {error.strerror or error}. Name a socket in a folder "
                             "that this account can write, in at most 107 characters") from None
        known = [(one["since"], one["uid"]) for core in self.pool
                 if (one := self.locks.record(core))]
        for _, uid in sorted(known):  # who has a core has had a turn
            self.queue.turns[uid] = next(self.queue.count)
        for work in (self._accept(self._socket), self._watch()):
            self._keep(work)

    async def close(self) -> None:
        """Stop answering. Leases go on; whoever waits is told that the queue ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket:
            self._socket.close()
            self.path.unlink(missing_ok=True)
        if self._only is not None:
            os.close(self._only)
        self._socket = self._only = None

    def status(self) -> dict[str, Any]:
        """Who has which cores, since when and for what, and who waits, next ones first.

        For instructors alone. `what` is a participant's text; `alive`, whether the process that
        asked still runs; `ends`, a command that ends the lease.
        """
        leases: dict[str, dict[str, Any]] = {}
        free = []
        for core in sorted(self.pool):
            if one := self.locks.record(core):
                leases.setdefault(json.dumps(one), {
                    **{name: one[name] for name in ("cores", "user", "pid", "what", "since")},
                    "alive": began(one["pid"]) == one["began"],
                    "ends": f"sudo env PYTHONPATH={ROOT} {sys.executable} -m workshop.hub.cores "
                            f"--socket {self.path} --end {core}"})
            elif not self.locks.held(core):
                free.append(core)
        waiting = [self._lines[number] for number in self.queue.order()]
        return {"free": free, "leases": list(leases.values()),
                "queue": [{"user": line.peer.name, "what": line.what, "since": line.since}
                          for line in waiting]}

    def _keep(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, server: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, _ = await loop.sock_accept(server)
            except OSError:  # too many open files, or whoever called is gone
                await asyncio.sleep(TICK_S)
                continue
            line.setblocking(False)
            peer = Peer(*struct.unpack("3i", line.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))))
            self._keep(self._serve(next(self._numbers), _Line(peer, line)))

    async def _watch(self) -> None:
        """Look at the locks while somebody waits: a lease ends without a word to us."""
        while True:
            await asyncio.sleep(TICK_S)
            if self.queue.waiting:
                self._turn()

    async def _serve(self, number: int, line: _Line) -> None:
        """One connection, from its request until it is closed."""
        loop = asyncio.get_running_loop()
        self._lines[number] = line
        try:
            over = self._over(line.peer)
            async with asyncio.timeout(1 if over else PATIENCE_S):
                data = await loop.sock_recv(line.socket, LONGEST + 1)
            if not data:
                return
            if over:  # not before its request is read: closing on unread data drops what was said
                raise CoresError(over)
            self._asked(number, line, data)
            if await loop.sock_recv(line.socket, 1):
                raise CoresError("one request for each connection. Open another")
        except TimeoutError:
            self._say(line, {"error": f"no request within {PATIENCE_S:g} s"})
        except CoresError as error:
            self._say(line, {"error": str(error)})
        except OSError:
            pass  # it is gone
        finally:
            self.queue.waiting.pop(number, None)
            del self._lines[number]
            line.socket.close()
            if self.queue.waiting:  # a lease may have ended, or somebody moves up
                self._turn()

    def _over(self, peer: Peer) -> str:
        """Why a user may have no further connection, or nothing."""
        mine = sum(line.peer.uid == peer.uid for line in self._lines.values())
        if mine <= MINE and len(self._lines) <= ALL:
            return ""
        return (f"{mine} captures of {peer.name} wait or run, {len(self._lines)} of all; at most "
                f"{MINE} and {ALL} may. Wait for some to end")

    def _asked(self, number: int, line: _Line, data: bytes) -> None:
        try:
            asked = json.loads(data) if len(data) <= LONGEST else None
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            raise CoresError(f"a request of {len(data)} bytes; expected an object in JSON, of at "
                             f"most {LONGEST} bytes")
        if "status" in asked:
            if line.peer.uid not in (0, os.geteuid()):
                raise CoresError("who has and who waits is for instructors: run it with sudo")
            self._say(line, self.status())
            return
        wish = Wish(line.peer.uid, choices(asked, self.pool, self.sharing))
        line.what = "".join(c if c.isprintable() else " " for c in str(asked.get("what", "")))[:80]
        line.since = _now()
        self.queue.waiting[number] = wish
        self._turn()

    def _turn(self) -> None:
        """Grant what can be granted, and tell the others their place where it changed."""
        held = {core for core in self.pool if self.locks.held(core)}
        while found := self.queue.next(held):
            number, choice = found
            if self._grant(self._lines[number], choice):
                self.queue.granted(number)
                held |= choice.take
            else:
                self._drop(number)
        for place, number in enumerate(self.queue.order()):
            line = self._lines[number]
            if line.told != place:
                line.told = place
                if not self._say(line, {"ahead": place}):
                    self._drop(number)

    def _grant(self, line: _Line, choice: Choice) -> bool:
        """Pass the locks on. False where nobody is there to take them: then they are free again."""
        peer = line.peer
        record = {"cores": sorted(choice.take), "user": peer.name, "uid": peer.uid,
                  "pid": peer.pid, "began": began(peer.pid), "what": line.what, "since": _now()}
        try:
            files = self.locks.take(choice.take, record)
        except OSError as error:
            self._say(line, {"error": f"the queue cannot keep a lease: {error.strerror}. Tell the "
                                      "instructor"})
            return False
        try:
            return self._say(line, {"cores": choice.use}, files)
        finally:
            close(files)

    def _say(self, line: _Line, said: dict[str, Any], files: Iterable[int] = ()) -> bool:
        """False where it is gone, or does not read what it is told."""
        with contextlib.suppress(OSError):
            socket.send_fds(line.socket, [json.dumps(said).encode()], list(files))
            return True
        return False

    def _drop(self, number: int) -> None:
        """Take it out of the queue; its connection then ends."""
        self.queue.waiting.pop(number, None)
        with contextlib.suppress(OSError):
            self._lines[number].socket.shutdown(socket.SHUT_RDWR)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


# --- the instructor's commands -------------------------------------------------------------------


def status(path: Path) -> dict[str, Any]:
    """What the server at this socket says of itself. Raises CoresError."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            line.settimeout(PATIENCE_S)
            line.connect(str(path))
            line.sendall(b'{"status": true}')
            said: dict[str, Any] = json.loads(line.recv(2**20))
    except (OSError, ValueError) as error:
        raise CoresError(f"{path}: no answer ({error}). Is the queue of cores running, and is this "
                         "its socket?") from None
    if "error" in said:
        raise CoresError(f"{path}: {said['error']}")
    return said


def table(said: dict[str, Any]) -> str:
    """
    >>> print(table({"free": [0, 1], "leases": [], "queue": [
    ...     {"user": "ada", "what": "copy", "since": "2026-11-30T19:40:00Z"}]}))
    free: 0-1
    next 1: ada since 2026-11-30T19:40:00Z: copy
    """
    lines = [f"free: {ranges(said['free']) or 'none'}"]
    for one in said["leases"]:
        gone = ", which has ended: something that it started is left" * (not one["alive"])
        lines += [f"cores {ranges(one['cores'])}: {one['user']} since {one['since']}: "
                  f"{one['what']}; process {one['pid']}{gone}", f"  to end it: {one['ends']}"]
    return "\n".join([*lines, *(f"next {place}: {one['user']} since {one['since']}: {one['what']}"
                                for place, one in enumerate(said["queue"], 1))])


def end(path: Path, core: int, grace_s: float = GRACE_S) -> str:
    """End the lease of a core, and say how.

    First as Ctrl-C does: the process that asked is interrupted, so a notebook keeps what it has in
    memory. What has the core after grace_s is killed. The core is never given on before that.
    Raises CoresError where that is not in this account's power, or does not help.
    """
    locks = Locks(path.with_name(f"{path.name}.d"))
    one = locks.record(core)
    if not one:
        return f"core {core} is free"
    with locks.file(core).open("rb") as lease:
        told = []
        for number in (signal.SIGINT, signal.SIGKILL):
            asked = one["pid"] if began(one["pid"]) == one["began"] else None
            mine = [asked] if asked else []
            who = _holders(lease.fileno()) or mine  # what it has not taken yet is in no process
            if number == signal.SIGINT:
                who = mine if asked in who else []
            for pid in who:
                _send(pid, number, core)
                told.append(f"{signal.Signals(number).name} to process {pid}")
            until = time.monotonic() + grace_s * bool(who)
            while not (over := _over(lease.fileno())) and time.monotonic() < until:
                time.sleep(TICK_S)
            if over:
                return f"core {core}: the lease of {one['user']} is over: {', '.join(told)}"
    done = ", ".join(told) or "no process of it can be seen"
    raise CoresError(f"core {core}: {one['user']} has it still ({done}). Run this with sudo. What "
                     "hangs in the driver ends when the instance is restarted")


def _over(lease: int) -> bool:
    """Whether nobody has this lock; another one of the same core is another file."""
    try:
        fcntl.flock(lease, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(lease, fcntl.LOCK_UN)
    return True


def _holders(lease: int) -> list[int]:
    """Processes that have this file open, besides this one, as far as they can be seen."""
    wanted = os.fstat(lease)
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()
            and int(entry.name) != os.getpid() and _has_open(int(entry.name), wanted)]


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.path.samestat(file.stat(), wanted):
                    return True
    return False


def _send(pid: int, number: signal.Signals, core: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise CoresError(f"core {core}: process {pid} is of another account. Run this with sudo"
                         ) from None


def _cores(text: str) -> list[int]:
    """
    >>> _cores("0-2,5")
    [0, 1, 2, 5]
    """
    parts = [re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", part, re.ASCII) for part in text.split(",")]
    found = [core for part in parts if part
             for core in range(int(part[1]), int(part[2] or part[1]) + 1)]
    if not (all(parts) and found):
        raise argparse.ArgumentTypeError(f"{text!r}; expected numbers such as 0-7 or 0,1")
    return found


async def _serve(path: Path, cores: list[int], sharing: int) -> None:
    """Until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    queue = Cores(path, cores, sharing)
    await queue.start()
    print(f"cores {ranges(queue.pool)}, leased by {sharing}: ROOFLINE_CORES={path}", flush=True)
    try:
        await stopped.wait()
    finally:
        await queue.close()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("workshop.hub.cores", description=(
        "Leases of the NeuronCores of an instance that a class shares."))
    parser.add_argument("--socket", type=Path, required=True, metavar="PATH",
                        help="where captures ask: ROOFLINE_CORES of every participant")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--cores", type=_cores, metavar="0-7",
                      help="give out these physical cores, until stopped")
    what.add_argument("--status", action="store_true", help="who has which core, and who waits")
    what.add_argument("--end", type=int, metavar="N", help="end the lease of core N")
    parser.add_argument("--sharing", type=int, default=1, metavar="N", help=(
        "cores that share an HBM stack are leased together: 2 on Trn2, 1 on Trn1 and Inf2; all "
        "of the instance's, so that one capture runs at a time"))
    args = parser.parse_args(arguments)
    try:
        if args.status:
            print(table(status(args.socket)))
        elif args.end is not None:
            print(end(args.socket, args.end))
        else:
            asyncio.run(_serve(args.socket.absolute(), args.cores, args.sharing))
    except CoresError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
