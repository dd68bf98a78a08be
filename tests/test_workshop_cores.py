"""The queue of cores: who is next, leases that last as long as a process, whoever dies meanwhile.

Servers and holders are processes, and are killed as such; the order alone is tested without them.
"""

import asyncio
import doctest
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aside import aside
from hypothesis import given, settings
from hypothesis import strategies as st
from leases import LIMIT_S, ROOT, Asker, Server
from workshop.hub import cores
from workshop.hub.cores import Choice, CoresError, Queue, Wish, choices

ANY = {"width": 1}
POOL = frozenset(range(4))
several = pytest.mark.skipif(os.geteuid() != 0, reason="to be several users needs root")


# --- the order -----------------------------------------------------------------------------------


def one(user: int, *take: int) -> Wish:
    """A wish for any one of these cores."""
    return Wish(user, tuple(Choice((core,), frozenset({core})) for core in take))


def both(user: int, *take: int) -> Wish:
    return Wish(user, (Choice(take, frozenset(take)),))


def test_ten_captures_of_one_user_wait_behind_the_first_of_everybody_else() -> None:
    queue = Queue()
    for number in range(10):
        queue.waiting[number] = one(7, 0)
    queue.granted(0)
    queue.waiting |= {10: one(8, 0), 11: one(9, 0), 12: one(8, 0)}
    assert queue.order() == [10, 11, 1, 12, 2, 3, 4, 5, 6, 7, 8, 9]
    queue.granted(10)  # 8's turn was the last one now
    queue.waiting[13] = one(6, 0)
    assert queue.order()[:4] == [11, 13, 1, 12]


def test_who_wants_two_cores_is_not_overtaken_by_those_who_want_one() -> None:
    """Core 1 is free, and is kept for the pair, which came first."""
    queue = Queue(waiting={0: both(1, 0, 1), 1: one(2, 0, 1), 2: one(3, 0, 1, 2)})
    assert queue.next({0}) == (2, Choice((2,), frozenset({2})))
    queue.granted(2)
    assert queue.next({0, 2}) is None
    assert queue.next({2}) == (0, Choice((0, 1), frozenset({0, 1})))


def test_of_one_user_the_first_comes_first_even_when_another_could() -> None:
    assert Queue(waiting={0: one(1, 0), 1: one(1, 1)}).next({0}) is None


def test_for_one_of_two_pairs_the_one_that_is_nearer_to_free_is_kept() -> None:
    pairs = Wish(1, choices({"width": 2}, POOL, 1))
    queue = Queue(waiting={0: pairs, 1: one(2, 0, 1, 2, 3)})
    assert queue.next({0, 1, 2}) is None
    assert queue.next({0, 1}) == (0, Choice((2, 3), frozenset({2, 3})))


@pytest.mark.parametrize(("asked", "sharing", "due"), [
    ({"width": 1}, 1, [((0,), {0}), ((1,), {1}), ((2,), {2}), ((3,), {3})]),
    ({"width": 2}, 1, [((0, 1), {0, 1}), ((2, 3), {2, 3})]),
    ({"width": 1}, 2, [((0,), {0, 1}), ((2,), {2, 3})]),  # its neighbour stays idle
    ({"width": 1}, 4, [((0,), {0, 1, 2, 3})]),
    ({"cores": [3]}, 2, [((3,), {2, 3})]),
    ({"cores": [2, 1]}, 1, [((2, 1), {1, 2})]),
    ({"cores": [1, 2]}, 2, [((1, 2), {0, 1, 2, 3})]),
])
def test_a_lease_is_of_whole_stacks(asked: Any, sharing: int, due: Any) -> None:
    assert choices(asked, POOL, sharing) == tuple(Choice(use, frozenset(take))
                                                  for use, take in due)


@pytest.mark.parametrize("asked", [
    {}, [], 7, {"width": 0}, {"width": 5}, {"width": True}, {"width": "1"}, {"cores": []},
    {"cores": [4]}, {"cores": [-1]}, {"cores": [0, 0]}, {"cores": ["0"]}, {"cores": 0},
    {"cores": [10**400]}])
def test_cores_that_are_not_there_are_refused(asked: Any) -> None:
    with pytest.raises(CoresError, match="It has 0-3"):
        choices(asked, POOL, 1)


asks = st.one_of(st.builds(dict, width=st.sampled_from([1, 1, 1, 2])),
                 st.builds(dict, cores=st.lists(st.integers(0, 3), min_size=1, max_size=3,
                                                unique=True)))
step = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 2), asks),
    st.tuples(st.just("ask"), st.integers(0, 2), asks),
    st.tuples(st.just("end"), st.integers(0, 9), st.none()),
    st.tuples(st.just("leave"), st.integers(0, 9), st.none()))
steps = st.lists(step, min_size=20, max_size=60)


class Class:
    """What a class sees of a queue: wishes, leases, and what nobody may have to suffer."""

    def __init__(self) -> None:
        self.queue, self.numbers = Queue(), count()
        self.leases: dict[int, frozenset[int]] = {}
        self.granted: list[int] = []
        self.others: dict[int, Counter[int]] = {}  # first wish of a user -> turns of others since

    @property
    def held(self) -> set[int]:
        return {core for cores in self.leases.values() for core in cores}

    def firsts(self) -> dict[int, Wish]:
        found: dict[int, tuple[int, Wish]] = {}
        for number, wish in self.queue.waiting.items():
            found.setdefault(wish.user, (number, wish))
        return dict(found.values())

    def settle(self) -> None:
        """Grant all that can be granted, and hold each grant to the rules."""
        while found := self.queue.next(self.held):
            number, choice = found
            firsts, wish = self.firsts(), self.queue.waiting[number]
            assert number in firsts  # of one user in order of arrival
            assert choice in wish.choices and not choice.take & self.held  # no core twice
            for other, waits in firsts.items():
                turns = self.others.setdefault(other, Counter())
                wants = set().union(*(one.take for one in waits.choices))
                simple = len(waits.choices) == 1 or all(len(one.use) == 1 for one in waits.choices)
                if waits.user != wish.user and simple and choice.take & wants:
                    turns[wish.user] += 1
                    assert turns[wish.user] == 1  # nobody has two turns while another waits
            self.queue.granted(number)
            self.leases[number] = choice.take
            self.granted.append(number)
        for wish in self.firsts().values():  # nothing that somebody could have is left idle
            if len(self.firsts()) == 1:
                assert all(one.take & self.held for one in wish.choices)


@settings(max_examples=100)
@given(steps, st.sampled_from([1, 2]))
def test_no_core_twice_and_nobody_waits_for_ever(todo: Any, sharing: int) -> None:
    room = Class()
    for what, n, asked in todo:
        if what == "ask":
            room.queue.waiting[next(room.numbers)] = Wish(n, choices(asked, POOL, sharing))
        elif what == "end" and room.leases:
            del room.leases[sorted(room.leases)[n % len(room.leases)]]
        elif what == "leave" and room.queue.waiting:
            del room.queue.waiting[sorted(room.queue.waiting)[n % len(room.queue.waiting)]]
        room.settle()
    for _ in range(len(room.queue.waiting) + len(room.leases)):
        if room.leases:
            del room.leases[min(room.leases)]
        room.settle()
    assert not room.queue.waiting and not room.leases


@given(st.lists(st.integers(0, 4), max_size=20), st.lists(st.integers(0, 4), max_size=6))
def test_the_place_that_is_told_is_the_order_that_comes(users: list[int], before: list[int]
                                                        ) -> None:
    room = Class()
    room.queue.turns = {user: next(room.queue.count) for user in before}
    for user in users:
        room.queue.waiting[next(room.numbers)] = one(user, 0)
    told = room.queue.order()
    room.settle()
    while room.leases:
        room.leases.clear()
        room.settle()
    assert room.granted == told


# --- the server ----------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Any]:
    """server("0-1"): running; its folder is open to other users."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    made: list[Server] = []

    def go(which: str = "0", sharing: int = 1) -> Server:
        made.append(Server(folder / "cores", which, sharing))
        assert made[-1].start().startswith(f"cores {which}, leased by {sharing}")
        return made[-1]

    yield go
    for one in made:
        one.stop(signal.SIGKILL)
    shutil.rmtree(folder)


def test_cores_are_given_in_turn_and_places_are_told(server: Any) -> None:
    at = server("0-1").path
    first, second = Asker(at, ANY), Asker(at, ANY)
    assert [first.core(), second.core()] == [[0], [1]]
    waiting = [Asker(at, ANY) for _ in range(3)]
    assert [one.hear() for one in waiting] == [{"ahead": 0}, {"ahead": 1}, {"ahead": 2}]
    second.close()
    assert waiting[0].core() == [1]
    assert [one.hear() for one in waiting[1:]] == [{"ahead": 0}, {"ahead": 1}]
    waiting[1].close()  # gives up
    assert waiting[2].hear() == {"ahead": 0}
    first.close()
    assert waiting[2].core() == [0]
    for one in waiting:
        one.close()


@several
def test_users_are_told_apart_by_the_system_and_have_turns(server: Any) -> None:
    at = server().path
    asked = [Asker(at, {**ANY, "user": "root", "uid": 0}, uid=7001) for _ in range(10)]
    assert asked[0].core() == [0]
    asked += [Asker(at, ANY, uid=7002), Asker(at, ANY, uid=7003)]
    assert [asked[10].hear(), asked[11].hear()] == [{"ahead": 0}, {"ahead": 1}]
    for now, after in ((0, 10), (10, 11), (11, 1), (1, 2)):
        asked[now].close()
        assert asked[after].core() == [0]
    for one in asked:
        one.close()


@several
def test_who_has_and_who_waits_is_for_instructors(server: Any) -> None:
    running = server("0-3", 2)
    with Asker(running.path, {**ANY, "what": "copy\n<b>"}, uid=7001) as has:
        assert has.core() == [0]
        with Asker(running.path, {"cores": [1], "what": 7 * "x" * 80}, uid=7002) as waits:
            assert waits.hear() == {"ahead": 0}
            said = running.status
            [lease] = said["leases"]
            assert said["free"] == [2, 3] and (lease["cores"], lease["user"], lease["pid"]) == (
                [0, 1], "uid 7001", os.getpid())
            assert lease["what"] == "copy <b>" and lease["alive"]
            assert lease["ends"].endswith(f"--socket {running.path} --end 0")
            [queued] = said["queue"]
            assert queued["user"] == "uid 7002" and queued["what"] == 80 * "x"
            with Asker(running.path, {"status": True}, uid=7003) as other:
                assert "for instructors" in other.hear()["error"]


@several
def test_a_descriptor_that_is_kept_or_misused_gives_nothing(server: Any) -> None:
    running = server()
    liar = Asker(running.path, ANY, uid=7001)
    assert liar.core() == [0]
    kept = os.dup(liar.files[0])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(kept, b"{}")
    os.seteuid(7001)
    try:
        for how in (os.O_RDONLY, os.O_RDWR):
            with pytest.raises(PermissionError):
                os.open(f"/proc/self/fd/{kept}", how)
        with pytest.raises(PermissionError):
            (running.path.with_name("cores.d") / "core0").read_text()
    finally:
        os.seteuid(0)
    assert running.path.with_name("cores.d").stat().st_mode & 0o777 == 0o700
    fcntl.flock(kept, fcntl.LOCK_UN)  # it may give its lease away
    with Asker(running.path, ANY, uid=7002) as other:
        assert other.core() == [0]
        fcntl.flock(kept, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and has nothing of the next one
        assert running.status["leases"][0]["user"] == "uid 7002"
        other.close()
        with Asker(running.path, ANY, uid=7003) as third:
            assert third.core() == [0]
    os.close(kept)
    liar.close()


def holder(lease: Asker, script: str = "read line") -> subprocess.Popen[bytes]:
    """A process that has inherited a lease; this one has no part in it any more."""
    process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, pass_fds=lease.files)
    lease.close()
    return process


def test_a_lease_lasts_as_long_as_a_process_that_has_it(server: Any) -> None:
    running = server()
    lease = Asker(running.path, ANY)
    lease.core()
    process = holder(lease, "sleep 300 & echo $!; read line")
    assert process.stdout is not None
    child = int(process.stdout.readline())
    with Asker(running.path, ANY) as waits:
        assert waits.hear() == {"ahead": 0}
        process.kill()
        process.wait()
        assert running.status["free"] == []  # the child has it
        os.kill(child, signal.SIGKILL)
        assert waits.core() == [0]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_starts_anew_knows_who_has_what(server: Any, number: int) -> None:
    running = server("0-1")
    lease = Asker(running.path, {"cores": [1], "what": "mine"})
    lease.core()
    process = holder(lease)
    before = running.status["leases"]
    waited = Asker(running.path, {"cores": [1]})
    assert waited.hear() == {"ahead": 0}
    running.stop(number)
    assert waited.hear() == {}  # it knows that the queue ended
    waited.close()
    with pytest.raises(OSError):
        Asker(running.path)
    running.start()
    assert running.status["leases"] == before and before[0]["what"] == "mine"
    with Asker(running.path, ANY) as free, Asker(running.path, {"cores": [1]}) as waits:
        assert (free.core(), waits.hear()) == ([0], {"ahead": 0})
        process.kill()
        process.wait()
        assert waits.core() == [1]


@several
def test_who_has_a_core_has_had_a_turn_also_for_a_server_that_starts_anew(server: Any) -> None:
    running = server("0-1")
    leases = [Asker(running.path, {"cores": [core]}, uid) for core, uid in ((1, 7001), (0, 7002))]
    assert [lease.core() for lease in leases] == [[1], [0]]
    running.stop(signal.SIGKILL)
    running.start()
    waiting = [Asker(running.path, ANY, uid) for uid in (7002, 7001, 7003)]
    assert waiting[2].hear() == {"ahead": 0}
    assert [one["user"] for one in running.status["queue"]] == ["uid 7003", "uid 7001", "uid 7002"]
    for one in leases + waiting:
        one.close()


def test_two_servers_do_not_give_out_the_same_cores(server: Any) -> None:
    running = server()
    assert "another server gives out these cores" in Server(running.path, "0").start()
    with Asker(running.path, ANY) as lease:
        assert lease.core() == [0]


# --- clients that do not behave ------------------------------------------------------------------


@pytest.mark.parametrize(("asks", "says"), [
    (b"[" * 4000, "expected an object in JSON"), (b'{"width": 1}' + b" " * 4096, "at most 4096"),
    (b"\xff", "expected an object in JSON"), ({"cores": [9]}, "It has 0 (physical cores)"),
])
def test_a_request_that_is_none_is_refused(server: Any, asks: Any, says: str) -> None:
    with Asker(server().path, asks) as one:
        assert says in one.hear()["error"]
        assert one.hear() == {}


def test_one_user_has_so_many_connections_and_a_core_is_not_lost(server: Any) -> None:
    """Silent ones count; the first of those that ask has the core, and never reads that."""
    running = server()
    silent = [Asker(running.path) for _ in range(cores.MINE - 2)]
    deaf, waits = Asker(running.path, ANY), Asker(running.path, ANY)
    assert waits.hear() == {"ahead": 0}
    with Asker(running.path, ANY) as more:
        assert f"at most {cores.MINE}" in more.hear()["error"]
    for one in silent:
        one.close()
    assert running.status["free"] == []
    deaf.close()
    assert waits.core() == [0]
    waits.close()


def test_a_second_request_on_a_connection_ends_it(server: Any) -> None:
    running = server()
    with Asker(running.path, ANY) as has, Asker(running.path, ANY) as two:
        assert has.core() == [0] and two.hear() == {"ahead": 0}
        two.socket.sendall(b"more")
        assert "one request" in two.hear()["error"] and two.hear() == {}
        assert running.status["queue"] == []


def test_who_says_nothing_or_hears_nothing_is_dropped(tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "PATIENCE_S", 0.05)

    async def go() -> None:
        queue = cores.Cores(tmp_path / "cores", [0])
        await queue.start()
        silent = Asker(queue.path)
        said = await asyncio.to_thread(silent.hear)
        assert "no request within 0.05 s" in said["error"]
        has = Asker(queue.path, ANY)
        assert await asyncio.to_thread(has.core) == [0]
        deaf, good = Asker(queue.path, ANY), Asker(queue.path, ANY)
        assert await asyncio.to_thread(good.hear) == {"ahead": 1}
        slow = queue._lines[queue.queue.order()[0]]
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        for _ in range(100):
            slow.told = None
            queue._turn()
        assert await asyncio.to_thread(good.hear) == {"ahead": 0}
        await queue.close()
        for one in (silent, has, deaf, good):
            one.close()

    async def in_time() -> None:
        await asyncio.wait_for(go(), LIMIT_S)

    aside(asyncio.run, in_time())


# --- the instructor ------------------------------------------------------------------------------

ASKS = """
import signal, subprocess, sys, time
sys.path[:0] = [{tests!r}]
from leases import Asker
from pathlib import Path
lease = Asker(Path({path!r}), {{"width": 1}})
lease.core()
if {stubborn}:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "300"], pass_fds=lease.files)
print(child.pid, flush=True)
try:
    time.sleep(300)
except KeyboardInterrupt:
    child.kill()
    lease.close()
    print("interrupted", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_instructor_ends_a_lease(server: Any, stubborn: bool) -> None:
    """A process that minds an interrupt goes on living; another is killed, its children too."""
    running = server()
    assert cores.end(running.path, 0) == "core 0 is free"
    process = subprocess.Popen([sys.executable, "-c", ASKS.format(
        tests=str(Path(__file__).parent), path=str(running.path), stubborn=stubborn)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    with Asker(running.path, ANY) as waits:
        assert waits.hear() == {"ahead": 0}
        said = cores.end(running.path, 0, grace_s=0.3 if stubborn else LIMIT_S)
        assert waits.core() == [0]
    assert f"SIGINT to process {process.pid}" in said
    assert (f"SIGKILL to process {child}" in said) is stubborn
    if stubborn:
        assert process.wait(LIMIT_S) == -signal.SIGKILL
    else:
        assert process.stdout.readline() == "interrupted\n" and process.poll() is None
    process.communicate("", LIMIT_S)


def test_a_lease_that_was_not_picked_up_yet_is_ended_too(server: Any) -> None:
    """Its descriptor is on the way, and in no process; the one that asked is told to end."""
    running = server()
    lease = Asker(running.path, ANY)
    while running.status["free"]:
        pass
    got = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: (lease.close(), got.set()))
    try:
        said = cores.end(running.path, 0, LIMIT_S)
    finally:
        signal.signal(signal.SIGINT, before)
    assert got.is_set() and f"SIGINT to process {os.getpid()}" in said


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]
                                        ) -> None:
    here = ["--socket", str(tmp_path / "none"), "--status"]
    assert cores.main(here) == 1 and "Is the queue of cores running" in capsys.readouterr().err
    for bad in ("0-", "a", "5-3", ""):
        with pytest.raises(SystemExit):
            cores.main(["--socket", str(tmp_path / "x"), "--cores", bad])
        assert "expected numbers such as 0-7" in capsys.readouterr().err


@pytest.mark.parametrize(("more", "said"), [
    (["no/such", "--cores", "0"], "that this account can write"),
    (["x", "--cores", "0", "--sharing", "0"], "sharing"),
])
def test_a_server_that_cannot_start_says_why(more: list[str], said: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "workshop.hub.cores", "--socket",
                           str(tmp_path / more[0]), *more[1:]], cwd=ROOT, capture_output=True,
                          text=True, timeout=LIMIT_S)
    assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr


def test_the_command_shows_who_has_a_core(server: Any, capsys: pytest.CaptureFixture[str]) -> None:
    running = server("0-3", 2)
    with Asker(running.path, {**ANY, "what": "copy"}) as lease:
        lease.core()
        assert cores.main(["--socket", str(running.path), "--status"]) == 0
    said = capsys.readouterr().out
    assert "free: 2-3\n" in said and f": copy; process {os.getpid()}\n" in said


def test_its_examples() -> None:
    assert doctest.testmod(cores).failed == 0
