"""Run a command that ends with whoever started it, together with all that it started.

Question  what ends a command on a core when the notebook's kernel is killed?
Answer    python -IS leash.py PARENT FILE ARGV...: runs it, then ends as it ended, by exit code or
          signal; once PARENT is gone, also if it was gone before, ends it and all below it
Assumes   Linux, which tells a process of its parent's end; elsewhere it only becomes the command
Ignores   a request to end (SIGTERM, SIGINT): that is for the command, which is in the same group

It outlives all that it ends, so a descriptor that it inherited (of a lease of cores) stays open
until no process of the command is left, even one that closed it or left the group.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys

SET_PDEATHSIG, SET_CHILD_SUBREAPER = 1, 36  # of prctl(2)
ORPHANED = signal.SIGHUP  # what the system sends when the parent ends
OTHERS = {signal.SIGTERM, signal.SIGINT}


def main(parent: str, file: str, *argv: str) -> int:
    if sys.platform != "linux":
        os.execv(file, argv)
    prctl = ctypes.CDLL(None).prctl
    prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # whose parent ends below here becomes our child
    awaited = {ORPHANED, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited | OTHERS)
    prctl(SET_PDEATHSIG, ORPHANED, 0, 0, 0)
    me = os.getpid()
    if os.getppid() != int(parent):  # it ended before we asked to be told
        return 1
    child = os.fork()
    if not child:
        try:
            prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, for itself
                signal.signal(ignored, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            if os.getppid() == me:
                os.execv(file, argv)
        except OSError as error:
            os.write(2, f"{file}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    while signal.sigwait(awaited) != ORPHANED:
        if (status := _reaped(child)) is not None:
            return _end_as(status)
    _end_all(me)
    return 1


def _reaped(child: int) -> int | None:
    """The status of the command once it has ended; who else has ended is only taken note of."""
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == child:
                return found[1]
    return None


def _end_all(me: int) -> None:
    """End our children; theirs become ours as they end, so the last one ends it."""
    with contextlib.suppress(ChildProcessError):
        while True:
            with open(f"/proc/{me}/task/{me}/children") as file:
                for pid in map(int, file.read().split()):
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def _end_as(status: int) -> int:
    """The exit code; where a signal ended the command, end by the same one."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
