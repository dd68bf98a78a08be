"""What ends with the notebook's kernel: commands, their children, a lease. Real processes."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from roofline.device import leash

LEASH = Path(leash.__file__)
LIMIT_S = 60
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells of a parent's end")


def leashed(*argv: str, parent: int | None = None, **how) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-IS", str(LEASH), str(parent or os.getpid()),
                             argv[0], *argv], start_new_session=True, **how)


def waited(there: Path, lines: int = 1) -> list[int]:
    """Numbers in a file, once it has so many lines."""
    for _ in range(50 * LIMIT_S):
        if there.exists() and len(found := there.read_text().split()) >= lines:
            return list(map(int, found))
        threading.Event().wait(0.02)
    raise AssertionError(f"{there.name}: not {lines} lines within {LIMIT_S} s")


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(("script", "code"), [
    ("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", -9), ("kill -SEGV $$", -11),
    ("kill -TERM $$", -15), ("kill -INT $$", -2), ("trap 'exit 3' TERM; kill -TERM 0; sleep 9", 3),
    ("sleep 0 & sleep 0 & wait; exit 5", 5),
])
def test_it_ends_as_its_command_does(script: str, code: int) -> None:
    assert leashed("/bin/sh", "-c", script).wait(LIMIT_S) == code


def test_the_command_has_its_signals_and_no_others(tmp_path: Path) -> None:
    """None is blocked or ignored that was not."""
    script = ("while read -r line; do case $line in SigBlk*|SigIgn*) echo $line;; esac; done "
              f"< /proc/self/status > {tmp_path}/leashed")
    assert leashed("/bin/sh", "-c", script).wait(LIMIT_S) == 0
    plain = script.replace("/leashed", "/plain")
    subprocess.run(["/bin/sh", "-c", plain], check=True, timeout=LIMIT_S)
    assert (tmp_path / "leashed").read_text() == (tmp_path / "plain").read_text()


def test_a_command_that_does_not_start_says_so() -> None:
    process = leashed("/nowhere", stderr=subprocess.PIPE, text=True)
    assert "/nowhere: No such file" in process.communicate(timeout=LIMIT_S)[1]
    assert process.returncode == 127


def test_a_parent_that_was_gone_before_it_began_leaves_nothing(tmp_path: Path) -> None:
    """It is stopped before it asks to be told; its parent is killed meanwhile."""
    script = f"""
import os, subprocess, sys
subprocess.Popen(["/bin/sh", "-c", 'echo $$ > pid; kill -STOP $$; exec "$@"', "sh", sys.executable,
    "-IS", {str(LEASH)!r}, str(os.getpid()), "/bin/sh", "sh", "-c", "echo > ran"]).wait()"""
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path)
    [pid] = waited(tmp_path / "pid")
    parent.kill()
    parent.wait(LIMIT_S)
    os.kill(pid, signal.SIGCONT)
    for _ in range(50 * LIMIT_S):
        if not lives(pid):
            break
        threading.Event().wait(0.02)
    assert not lives(pid) and not (tmp_path / "ran").exists()


def test_a_leash_that_is_killed_takes_its_command_along(tmp_path: Path) -> None:
    process = leashed("/bin/sh", "-c", "echo $$ > pid; exec sleep 300", cwd=tmp_path)
    [pid] = waited(tmp_path / "pid")
    process.kill()
    process.wait(LIMIT_S)
    for _ in range(50 * LIMIT_S):
        if not lives(pid):
            return
        threading.Event().wait(0.02)
    raise AssertionError("the command lives on")


# A kernel with a lease; its command, whose children mind no request, left the group, and have not
# inherited the lease. Each notes who it is.
KERNEL = """
import fcntl, os, subprocess, sys
lease = os.open("lease", os.O_RDONLY)
fcntl.flock(lease, fcntl.LOCK_EX)
tool = '''
import os, subprocess, time
subprocess.Popen(["/bin/sh", "-c", "trap '' TERM INT HUP; echo $$ >> pids; sleep 300 & "
                  "echo $! >> pids; wait; sleep 300"], start_new_session=True)
with open("pids", "a") as file:
    file.write(f"{os.getpid()}\\\\n")
time.sleep(300)
'''
subprocess.Popen([sys.executable, "-IS", sys.argv[1], str(os.getpid()), sys.executable,
                  "python", "-c", tool], pass_fds=[lease], start_new_session=True).wait()
"""


def test_a_killed_kernel_frees_its_lease_when_all_below_it_is_gone(tmp_path: Path) -> None:
    (tmp_path / "lease").touch()
    kernel = subprocess.Popen([sys.executable, "-c", KERNEL, str(LEASH)], cwd=tmp_path)
    pids = waited(tmp_path / "pids", 3)
    with (tmp_path / "lease").open("rb") as lease:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert all(map(lives, pids))
        kernel.kill()
        for _ in range(50 * LIMIT_S):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            threading.Event().wait(0.02)
        left = list(filter(lives, pids))
    kernel.wait(LIMIT_S)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
