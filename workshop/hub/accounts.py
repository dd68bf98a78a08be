"""Operating-system accounts of a class: made, told apart from all others, removed.

Question  which accounts of this machine belong to the class, and which were here before?
Answer    make(): an account with a home of its own and a password for each participant, the
          instructor and the class service; made(): those that make() made; remove(): those, their
          processes and files, and no other
Assumes   useradd, userdel, groupadd, groupdel and chpasswd of Debian's passwd; root
Ignores   what the accounts are used for

An account belongs to the class when its name has the class's prefix and its comment field says
so. The group of the class only lets its members log in at the hub: who joins it is not removed.
"""

import contextlib
import csv
import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import psutil

from workshop import Stop

MARK = "roofline class"  # the comment field of each account
LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # without l, o, 0, 1: passwords are typed from paper
NOBODY = 65534


def group(prefix: str) -> str:
    """The group of those who may log in at the hub."""
    return f"{prefix}-room"


def service(prefix: str) -> str:
    """The account of the class service; nobody logs in with it."""
    return f"{prefix}-class"


def instructor(prefix: str) -> str:
    return f"{prefix}-instructor"


def made(prefix: str) -> list[pwd.struct_passwd]:
    """The class's accounts, the service's too, by name."""
    return sorted(account for account in pwd.getpwall()
                  if account.pw_name.startswith(f"{prefix}-") and account.pw_gecos == MARK)


def people(prefix: str) -> list[str]:
    """Who can log in: participants and the instructor."""
    return [one.pw_name for one in made(prefix) if one.pw_name != service(prefix)]


def wanted(prefix: str, participants: int) -> list[str]:
    """The names of a class: rl-01, rl-02, ..., and the instructor's.

    >>> wanted("rl", 2)
    ['rl-01', 'rl-02', 'rl-instructor']
    """
    return [*(f"{prefix}-{n:02d}" for n in range(1, participants + 1)), instructor(prefix)]


def lacking(prefix: str, participants: int) -> list[str]:
    """Names of the class that have no account yet.

    Raises Stop where another account, or a home of nobody's, has one of them.
    """
    ours = {one.pw_name for one in made(prefix)}
    names = [name for name in (service(prefix), *wanted(prefix, participants)) if name not in ours]
    for name in names:
        _nobody_has(name, prefix)
    return names


def make(prefix: str, participants: int, sheet: Path) -> int:
    """Make what is lacking of the class's accounts and write their passwords to `sheet`, for root
    alone; returns how many were made. An account that is there keeps its password and its files.
    """
    missing = lacking(prefix, participants)
    _run("groupadd", "--force", "--system", group(prefix))
    for name in missing:
        if name == service(prefix):
            _run("useradd", "--system", "--user-group", "--no-create-home", "--comment", MARK,
                 "--home-dir", "/", "--shell", "/usr/sbin/nologin", name)
        else:
            _run("useradd", "--user-group", "--groups", group(prefix), "--create-home",
                 "--key", "HOME_MODE=0700", "--key", "UMASK=077", "--comment", MARK,
                 "--shell", "/bin/bash", name)
            os.chmod(pwd.getpwnam(name).pw_dir, 0o700)
    _passwords(people(prefix), sheet)
    return len(missing)


def _nobody_has(name: str, prefix: str) -> None:
    try:
        one = pwd.getpwnam(name)
    except KeyError:
        home = Path("/home", name)
        if home.exists():
            raise Stop(f"{home} exists and no account has it. Move it away, or choose other names: "
                       f"--prefix, got {prefix}") from None
        return
    raise Stop(f"the account {name} (uid {one.pw_uid}) exists and is not of this class. Nothing "
               f"was changed. Choose other names: --prefix, got {prefix}")


def _passwords(names: Sequence[str], sheet: Path) -> None:
    """A password for each name that the sheet does not have; the sheet appears whole."""
    known = dict(passwords(sheet))
    fresh = {name: "-".join("".join(secrets.choice(LETTERS) for _ in range(4)) for _ in range(3))
             for name in names if name not in known}
    rows = {name: (known | fresh)[name] for name in names}
    new = sheet.with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([("name", "password"), *rows.items()])
    if fresh:
        _run("chpasswd", typed="".join(f"{name}:{word}\n" for name, word in fresh.items()))
    new.replace(sheet)


def passwords(sheet: Path) -> list[tuple[str, str]]:
    """(name, password) of each who can log in, as the sheet has them."""
    if not sheet.exists():
        return []
    with sheet.open(newline="") as rows:
        return [(row["name"], row["password"]) for row in csv.DictReader(rows)]


def remove(prefix: str) -> list[str]:
    """Remove the accounts that make() made: processes, homes, files in shared folders. Their names.

    The class's group goes too; who was put into it by hand keeps account and files.
    """
    ours = made(prefix)
    uids = {one.pw_uid for one in ours}
    end_processes(uids, patience=0)
    for shared in ("/tmp", "/var/tmp", "/dev/shm"):
        for entry in os.scandir(shared):
            if entry.stat(follow_symlinks=False).st_uid in uids:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)
    for one in ours:
        has_home = one.pw_name != service(prefix)
        _run("userdel", *(["--remove"] if has_home else []), one.pw_name)
    if ours or _exists(group(prefix)):
        _run("groupdel", group(prefix))
    return [one.pw_name for one in ours]


def _exists(name: str) -> bool:
    return subprocess.run(["getent", "group", name], capture_output=True).returncode == 0


def end_processes(uids: Iterable[int], patience: float = 10) -> int:
    """End every process of these users; how many there were. By force after `patience` s."""
    wanted = set(uids)

    def theirs() -> list[psutil.Process]:
        return [one for one in psutil.process_iter(["uids"])
                if one.info["uids"] and one.info["uids"].real in wanted]

    ending = theirs()
    if patience:
        for one in ending:
            _end(one.terminate)
        psutil.wait_procs(ending, timeout=patience)
    for _ in range(10):  # one that was just being started is not in the first list
        if not (left := theirs()):
            break
        for one in left:
            _end(one.kill)
        psutil.wait_procs(left, timeout=1)
    return len(ending)


def _end(signal: Callable[[], None]) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        signal()


def run_as(name: str | None, *command: str | Path, env: dict[str, str] | None = None,
           ) -> subprocess.CompletedProcess[str]:
    """Run a command as an account of the class, or as one without any rights (None)."""
    one = pwd.getpwnam(name) if name else None
    uid, gid = (one.pw_uid, one.pw_gid) if one else (NOBODY, NOBODY)
    return subprocess.run(
        [str(part) for part in command], cwd="/", user=uid, group=gid, text=True,
        extra_groups=os.getgrouplist(name, gid) if name else [], capture_output=True, timeout=300,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": one.pw_dir if one else "/",
             "LANG": "C.UTF-8"} | (env or {}))


def _run(*command: str, typed: str = "") -> None:
    done = subprocess.run(command, input=typed, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise Stop(f"{command[0]} {command[-1]}: {said[-1]}")
