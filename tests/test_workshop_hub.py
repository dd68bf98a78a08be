"""A class of 20 on this machine: real accounts, PAM, servers and kernels, from one command.

One class is started for all tests of this file; they go through its day in order. The checkout
that it is started from is a copy, closed to other accounts, as the command demands.
"""

import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from classroom import PARTICIPANTS, ROOT, a_class, four_ports
from workshop import Stop
from workshop.hub import accounts, cores, deploy, load

from roofline.check import Part
from roofline.problems import BANK, ask

PATIENCE = 120  # s, for what takes a few


# --- a class ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place():
    """A class that is not started yet. At the end nothing of it is left on this machine."""
    as_root()
    with a_class() as one:
        yield one


def as_root():
    if os.geteuid() != 0:
        pytest.skip("accounts, their servers and disks need root")


@pytest.fixture(scope="module")
def key(place):
    """Day 1's page with its answers. Both editions are made, as `course.py workshop` does."""
    return place.key()


# --- what the command refuses ----------------------------------------------------------------


def test_it_needs_root_and_says_how(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Stop, match=r"this is uid 1000\.\n  sudo python3 course\.py workshop hub "
                                   "--class 3"):
        deploy.main(["--class", "3"])


@pytest.mark.parametrize(("wrong", "said"), [
    (["--class", "0"], "expected 1 to 500 participants, got 0"),
    (["--class", "many"], "expected 1 to 500 participants, got many"),
    (["--port", "65533"], "expected 1 to 65532, got 65533"),
    (["--idle", "0"], "expected more than 0 minutes, got 0"),
    (["--listen", "0.0.0.0"], "passwords would cross the network as they are"),
    (["--cert", "cert.pem"], "--cert and --key come together"),
    (["--stop", "--remove"], "not allowed with argument"),
])
def test_a_wrong_option_is_told_in_a_line(wrong, said, capsys):
    with pytest.raises(SystemExit) as stop:
        deploy.main(wrong)
    assert stop.value.code == 2 and said in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("prefix", ["Class", "1a", "a-b", "a" * 13, "../x", ""])
def test_a_prefix_that_is_no_name(prefix):
    with pytest.raises(Stop, match="--prefix: expected 1 to 12 of a-z and 0-9"):
        deploy.main(["--prefix", prefix])


def untouched(place):
    return not place.at.exists() and accounts.made(place.prefix) == []


def test_a_checkout_that_others_can_read(place):
    place.checkout.chmod(0o755)
    done = place.command()
    place.checkout.chmod(0o700)
    assert done.returncode == 1 and untouched(place)
    assert f"chmod o-rwx {place.checkout}" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("offset", [0, 2])
def test_a_taken_port(place, offset):
    with socket.socket() as other:
        other.bind(("127.0.0.1", place.port + offset))
        other.listen()
        done = place.command()
    me = psutil.Process()
    assert done.returncode == 1 and untouched(place)
    assert f"port {place.port + offset} is taken by {me.name()} of root (process {me.pid})" in \
        done.stderr


def test_an_account_that_was_here_before(place):
    name = place.name(2)
    subprocess.run(["useradd", "--no-create-home", name], check=True)
    try:
        done = place.command()
    finally:
        subprocess.run(["userdel", name], check=True)
    assert done.returncode == 1 and untouched(place)
    assert f"the account {name} (uid " in done.stderr and "--prefix" in done.stderr


def test_a_home_that_nobody_has(place):
    home = Path("/home", place.name(1))
    home.mkdir()
    try:
        done = place.command()
    finally:
        home.rmdir()
    assert done.returncode == 1 and untouched(place)
    assert f"{home} exists and no account has it" in done.stderr


def test_a_place_that_participants_cannot_get_to(place):
    done = place.command("--at", str(place.checkout / "class"))
    assert done.returncode == 1 and untouched(place)
    assert f"participants cannot get to {place.checkout}" in done.stderr


@pytest.mark.parametrize("what", [(), ("--stop",), ("--remove", "--yes")])
def test_a_folder_with_files_of_others_is_left_alone(place, what):
    folder = place.at.with_name("others")
    (folder / "private").mkdir(parents=True)
    (folder / "private/mine").touch()
    done = place.command("--at", str(folder), *what)
    assert done.returncode == 1 and "has files and is no class folder" in done.stderr
    assert (folder / "private/mine").exists() and untouched(place)
    shutil.rmtree(folder)


@pytest.fixture
def small_disk():
    """A disk of 256 KiB."""
    as_root()
    folder = tempfile.mkdtemp(dir="/var/tmp", prefix="disk-")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder],
                      capture_output=True).returncode:
        os.rmdir(folder)
        pytest.skip("this container mounts nothing")
    yield Path(folder)
    subprocess.run(["umount", folder], check=True)
    os.rmdir(folder)


def test_a_small_disk_is_told_before_anything_is_made(place, small_disk):
    done = place.command("--at", str(small_disk / "class"))
    assert done.returncode == 1 and untouched(place)
    assert f"{small_disk} has 0.0 GB free" in done.stderr and "--at" in done.stderr


def test_a_disk_that_fills_up(small_disk):
    (small_disk / "lib").mkdir()
    (small_disk / "lib/old").touch()
    with pytest.raises(Stop, match=r"the disk is full at .*nothing of the participants"), \
            deploy._explained(small_disk), deploy._replaced(small_disk / "lib") as new:
        deploy.lib(new)
    assert os.listdir(small_disk) == ["lib"] and os.listdir(small_disk / "lib") == ["old"]


def test_pages_on_a_full_disk_come_when_there_is_room(small_disk, tmp_path):
    """Of a page nothing, or all of it: what was cut off would look like an edited one."""
    student = tmp_path / "student"
    (student / "day1").mkdir(parents=True)
    shutil.copyfile(ROOT / "course.py", student / "course.py")
    (student / "_toc.yml").write_text("- file: day1/a\n")
    (student / "day1/a.ipynb").write_text("a" * 150_000)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(200_000))
    mine = small_disk / "course"
    mine.mkdir()
    from workshop.hub import server
    with pytest.raises(OSError, match="No space left"):
        server._copy(student, mine)
    filler.unlink()
    server._copy(student, mine)
    assert (mine / "day1/a.ipynb").read_text() == "a" * 150_000


def test_the_lock_of_the_proxy_names_no_host():
    lock = json.loads((ROOT / "workshop/hub/package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert packages["node_modules/configurable-http-proxy"]["version"] == "5.3.0"
    assert all(one["integrity"].startswith("sha512-") and "resolved" not in one
               for one in packages.values())


# --- the class's day -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def room(place, key):
    """The class, started with one command, after a try without npm's registry."""
    nobody = four_ports()
    without = place.command("--class", "1", npm_config_registry=f"http://127.0.0.1:{nobody}",
                            npm_config_cache=str(place.checkout / "npm"))
    assert without.returncode == 1 and "Traceback" not in without.stderr
    assert "configurable-http-proxy, did not come from npm's registry" in without.stderr
    assert "npm_config_registry" in without.stderr and accounts.made(place.prefix) == []
    said = place.start()
    assert f"the class: http://127.0.0.1:{place.port}/" in said
    assert f"{PARTICIPANTS + 1} accounts" in said
    return place


@pytest.fixture(scope="module")
def people(room):
    """Everybody came in at the same moment, and each has a kernel."""
    everybody = room.people()
    load.room(everybody, load.come_in)
    yield everybody
    for one in everybody:
        one.close()


def test_twenty_log_in_at_once_and_answer_day_1(room, people, key):
    asked = load.questions(people[0].notebook(), key)
    assert len(asked) == sum("= ask(" in "".join(cell["source"]) and ".inputs" not in
                             "".join(cell["source"]) for cell in key["cells"])
    took = load.room(people, lambda one: load.answer(one, asked))
    assert [len(some) for some in took] == [2 * len(asked)] * PARTICIPANTS
    print(load.table(people, [one for some in took for one in some]))


def test_everybody_is_an_account_of_their_own(people):
    who = [one.run("import os, pwd; print(pwd.getpwuid(os.getuid()).pw_name, os.getcwd())").text
           for one in people]
    assert who == [f"{one.name} {Path('/home', one.name, 'course/day1')}\n" for one in people]


def test_recordings_are_the_participants_own(people):
    ran = people[0].run("from roofline.device import store\nprint(store.home())")
    assert ran.text.strip() == f"/home/{people[0].name}/course/work/recorded"


# --- what a participant cannot reach ---------------------------------------------------------

PROBE = """
import json, os, stat
def reads(path):
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            return os.listdir(path) is not None
        with open(path, "rb") as file:
            file.read(1)
        return True
    except OSError:
        return False
def writes(path):
    try:
        if os.path.isdir(path):
            os.close(os.open(path, os.O_TMPFILE | os.O_WRONLY))
        else:
            os.close(os.open(path, os.O_WRONLY))
        return True
    except OSError:
        return False
"""


def told(one: load.Participant, code: str) -> object:
    """What a participant's kernel prints, as JSON."""
    ran = one.run(code)
    assert not ran.error, ran.text
    return json.loads(ran.text)


def test_nobody_reads_anothers_files_or_the_answers(room, people):
    one, other = people[0], people[1]
    home, private = Path("/home", other.name), room.at / "private"
    closed = [home, home / "course", home / "course" / load.PAGE, home / ".server.log",
              *home.glob(".local/share/jupyter/runtime/*"),
              Path("/home", accounts.instructor(room.prefix)),
              room.checkout, room.checkout / "lib/roofline/problems/day1.py",
              room.checkout / "work/workshop/key" / load.PAGE, room.checkout / load.PAGE,
              private, private / "class", private / "class/roofline/problems/day1.py",
              private / "class/workshop", private / "state", private / "state/class.sqlite",
              private / "hub.sqlite", private / "hub.log", private / "cookie_secret",
              private / "passwords.csv", private / "class.json", Path("/etc/shadow")]
    assert all(path.exists() for path in closed)
    assert any(path.is_socket() for path in closed)  # the other kernel's
    own = ["/home/" + one.name + "/course/" + load.PAGE, str(room.at / "student" / load.PAGE)]
    seen = told(one, f"{PROBE}print(json.dumps([p for p in {[*map(str, closed), *own]} "
                     "if reads(p)]))")
    assert seen == own


def test_nobody_changes_what_all_read(room, people):
    shared = [room.at, room.at / "lib", room.at / "lib/roofline/units.py", room.at / "venv/bin",
              room.at / "student", room.at / "student" / load.PAGE, room.at / "start/server.py",
              room.at / "start/jupyter/jupyter_server_config.json", room.at / "proxy",
              room.at / "cores", Path("/home", people[1].name)]
    assert all(path.exists() for path in shared)
    mine = f"/home/{people[0].name}/course"
    assert told(people[0], f"{PROBE}print(json.dumps([p for p in {[*map(str, shared), mine]} "
                           "if writes(p)]))") == [mine]


def test_processes_of_others_tell_nothing(room, people):
    seen = told(people[0], PROBE + """
own, found, commands = os.getuid(), [], []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        mine = os.stat(f"/proc/{pid}").st_uid == own
        commands.append(open(f"/proc/{pid}/cmdline").read())
    except OSError:
        continue
    if not mine:
        found += [f"/proc/{pid}/{name}" for name in ("environ", "mem", "fd", "cwd", "root")
                  if reads(f"/proc/{pid}/{name}")]
print(json.dumps([found, "\\n".join(commands), reads("/proc/self/environ")]))
""")
    found, commands, control = seen
    assert control is True and found == []
    secrets = [word for _, word in accounts.passwords(room.at / "private/passwords.csv")]
    for server in (p for name in (people[1].name, people[2].name) for p in room.processes(name)):
        secrets.append(server.environ()["JUPYTERHUB_API_TOKEN"])
    assert len(secrets) > PARTICIPANTS
    assert not [word for word in secrets if word in commands]


def test_nobody_becomes_somebody_else(people):
    other = people[1].name
    tried = told(people[0], f"""
import json, os, signal, subprocess
got = []
for command in (["sudo", "-n", "true"], ["su", {other!r}, "-c", "true"],
                ["runuser", "-u", {other!r}, "true"], ["userdel", {other!r}]):
    try:
        if subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0:
            got.append(command)
    except OSError:
        pass
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    try:
        if os.stat(f"/proc/{{pid}}").st_uid != os.getuid():
            os.kill(pid, 0)
            got.append(pid)
    except OSError:
        pass
print(json.dumps(got))
""")
    assert tried == []


def test_what_another_kernel_prints_is_on_no_port(people):
    """A kernel's messages, were they on ports, could be read by every account."""
    one, other = people[0], people[1]
    ports = told(one, f"theirs = {pwd.getpwnam(other.name).pw_uid}" + """
import json, os, zmq
sockets = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
ports = sorted({int(at[1].split(":")[1], 16) for at in sockets
                if at[3] == "0A" and int(at[7]) == theirs})
listener = zmq.Context.instance().socket(zmq.SUB)
listener.subscribe(b"")
for port in ports:
    listener.connect(f"tcp://127.0.0.1:{port}")
print(json.dumps(ports))
""")
    assert ports  # the server's, at least
    time.sleep(1)  # zmq connects in the background
    assert other.run("print('mine alone')").text == "mine alone\n"
    assert told(one, "print(json.dumps(listener.poll(2000)))\nlistener.close(0)") == 0


def test_the_hub_keeps_participants_apart(room, people):
    one, other = people[0], people[1]
    [server] = room.processes(other.name, "jupyter-labhub")
    [listens] = [link.laddr.port for link in server.net_connections("tcp")
                 if link.status == psutil.CONN_LISTEN]
    hub, api = f"http://127.0.0.1:{room.port}", f"http://127.0.0.1:{room.port + 2}/hub/api"
    tried = [
        ("GET", f"{hub}/user/{other.name}/api/contents"),
        ("GET", f"http://127.0.0.1:{listens}/user/{other.name}/api/contents"),
        ("GET", f"{api}/users"), ("GET", f"{api}/users/{other.name}"),
        ("POST", f"{api}/users/{other.name}/tokens"), ("GET", f"{api}/users/{other.name}/tokens"),
        ("DELETE", f"{api}/users/{other.name}/server"), ("GET", f"{api}/proxy"),
        ("POST", f"{api}/shutdown"), ("GET", f"http://127.0.0.1:{room.port + 1}/api/routes"),
        ("GET", f"{hub}/services/class/board"),
        ("GET", f"{hub}/user/{one.name}/api/contents"),  # one's own: what is tried does work
    ]
    codes = told(one, f"""
import json, os, urllib.request, urllib.error
codes = []
for method, url in {tried!r}:
    request = urllib.request.Request(url, method=method, headers={{
        "Authorization": "token " + os.environ["JUPYTERHUB_API_TOKEN"]}})
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_):
            return None
    try:
        codes.append(urllib.request.build_opener(Stay).open(request, timeout=60).status)
    except urllib.error.HTTPError as error:
        codes.append(error.code)
print(json.dumps(codes))
""")
    assert codes[-1] == 200
    assert all(code in (302, 403, 404) for code in codes[:-1]), [*zip(tried, codes, strict=True)]
    # The same with a browser that is logged in.
    for path in (f"/user/{other.name}/api/contents", f"/hub/api/users/{other.name}", "/hub/admin",
                 "/services/class/board"):
        assert one.get(path).status_code in (403, 404), path
    assert server.is_running()


def test_the_library_of_participants_has_no_answers(room, people):
    assert sorted(os.listdir(room.at / "lib/roofline/problems")) == ["__init__.py", "__pycache__"]
    slips = {slip for id in BANK for part in ask(id).parts if isinstance(part, Part)
             for slip in part.slips if len(slip) > 25}
    assert len(slips) > 200
    for path in (room.at / "lib").rglob("*.py"):
        text = path.read_text()
        assert not [slip for slip in slips if slip in text], path
    ran = people[0].run("from roofline import ask\nq = ask('day1.cpu.spec')\nq.worked()")
    assert ran.error == "ProblemError" and "with your instructor" in ran.text


def test_the_instructor_sees_the_board_and_enters_no_server(room, people):
    with contextlib.closing(room.person(accounts.instructor(room.prefix))) as one:
        one.log_in()
        assert one.get("/services/class/board").status_code == 200
        assert one.get("/hub/admin").status_code == 200
        assert one.get(f"/user/{people[0].name}/api/contents").status_code == 403


def test_a_wrong_password_is_no_way_in(room):
    name = room.name(1)
    with contextlib.closing(load.Participant(f"http://127.0.0.1:{room.port}", name, "x")) as one, \
            pytest.raises(load.LoadError, match=f"{name}: log in.*Invalid username or password"):
        one.log_in()


def test_an_account_that_was_here_before_is_let_in_by_the_group(room):
    name, word = f"{room.prefix}-guest", uuid.uuid4().hex
    subprocess.run(["useradd", "--create-home", name], check=True)
    try:
        subprocess.run(["chpasswd"], input=f"{name}:{word}", text=True, check=True)
        with contextlib.closing(load.Participant(f"http://127.0.0.1:{room.port}", name, word)) \
                as one:
            with pytest.raises(load.LoadError, match=f"{name}: log in"):
                one.log_in()
            subprocess.run(["usermod", "-aG", accounts.group(room.prefix), name], check=True)
            one.log_in()
            assert one.notebook()["cells"]
            processes = room.processes(name)
            one.stop_server()
            psutil.wait_procs(processes, timeout=PATIENCE)
    finally:
        subprocess.run(["userdel", "--remove", name], check=True, capture_output=True)


def test_a_python_that_kernels_cannot_run_with_changes_nothing(room):
    spec = room.at / "venv/share/jupyter/kernels/python3/kernel.json"
    before = spec.read_text()
    hub = {p.pid for p in deploy._running(room.at)}
    done = room.command("--class", str(PARTICIPANTS), "--python", "/usr/bin/python3")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "kernels do not run with /usr/bin/python3: ModuleNotFoundError" in done.stderr
    assert spec.read_text() == before and {p.pid for p in deploy._running(room.at)} == hub


# --- turns on a core -------------------------------------------------------------------------

CAPTURE = """
import os, pathlib
from roofline.device import explorer, lease
taken = lease.take("a capture", 1, None, tell=lambda text: None)
bench = explorer.Bench(pathlib.Path.home(), dict(os.environ), 600, "copy", lease=taken)
child = bench.start(["sleep", "600"], ".", open(os.devnull, "wb"))
taken.close()  # from here on the command alone has it
"""
WAIT = """
from roofline.device import lease
with lease.take("another", 1, None) as got:
    print("got", got.cores)
"""


def test_killing_a_kernel_in_a_capture_frees_its_core(room, people):
    one, other = people[0], people[1]
    child = psutil.Process(told(one, f"{CAPTURE}print(child.pid)"))
    [kernel] = room.processes(one.name, "ipykernel_launcher")
    assert child in kernel.children(recursive=True)
    queue = room.at / "cores/queue"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.run, WAIT)
        wait_until(lambda: cores.status(queue)["queue"])
        assert [lease["user"] for lease in cores.status(queue)["leases"]] == [one.name]
        kernel.kill()
        text = waiting.result(timeout=PATIENCE).text
    assert "you are next" in text and text.endswith("got (0,)\n")
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


# --- a restart, newer pages ------------------------------------------------------------------


def test_a_restart_of_the_hub_loses_nothing(room, people):
    one = people[2]
    one.run("found = 17\nimport threading\nlater = threading.Event()")
    one.run("threading.Timer(2, later.set).start()")
    def theirs():
        return {p.pid for person in people for p in room.processes(person.name, "jupyter-labhub")
                + room.processes(person.name, "ipykernel_launcher")}

    before = theirs()
    [hub] = [p for p in deploy._running(room.at) if "jupyterhub_config" in " ".join(p.cmdline())]
    room.start()
    assert not hub.is_running()
    assert before <= theirs() and len(before) >= 2 * PARTICIPANTS - 1  # one kernel was killed
    one.connect()  # as a browser does: same cookies, same kernel
    assert one.run("print(found, later.is_set())").text == "17 True\n"
    assert one.run("ask('day1.dot').check()").text == "not attempted: W, Q, I, side"


def test_a_killed_hub_loses_nothing_either(room, people):
    one = people[3]
    one.connect()
    one.run("found = 18")
    for process in deploy._running(room.at):
        process.kill()
    room.start()
    one.connect()
    assert one.run("print(found)").text == "18\n"


def test_newer_pages_come_and_edited_ones_stay(room, people):
    editor, reader = people[4], people[5]
    content = editor.notebook()
    content["cells"][0]["source"] = "My own notes."
    editor.api("PUT", f"contents/{load.PAGE}", type="notebook", format="json", content=content)
    mine = Path("/home", editor.name, "course")
    edited, theirs = (mine / load.PAGE).read_bytes(), Path("/home", reader.name, "course")
    for page in (load.PAGE, "day2/ml_ops.ipynb"):
        path = room.checkout / page
        source = json.loads(path.read_text())
        source["cells"][0]["source"] = ["# Corrected"]
        path.write_text(json.dumps(source))
    room.start()
    for one in (editor, reader):
        restart(room, one)
    assert (mine / load.PAGE).read_bytes() == edited
    assert load.PAGE in (mine / "kept.txt").read_text()
    for path in (mine / "day2/ml_ops.ipynb", theirs / load.PAGE, theirs / "day2/ml_ops.ipynb"):
        assert json.loads(path.read_text())["cells"][0]["source"] == ["# Corrected"], path
    assert not (theirs / "kept.txt").exists()


def restart(room, one: load.Participant) -> None:
    """Stop the server in the hub's control panel, and start it again."""
    old = room.processes(one.name)
    one.stop_server()
    psutil.wait_procs(old, timeout=PATIENCE)
    one.log_in()


def test_an_unused_server_is_stopped_and_a_used_one_is_not(room, people):
    room.start("--idle", "0.2")  # 12 s
    wait_until(lambda: not any(room.processes(one.name) for one in people))
    used, unused = people[6], people[5]
    load.room([used, unused], load.come_in)

    def stopped():
        assert used.run("kept = 19\nprint(kept)").text == "19\n"
        return not room.processes(unused.name)

    wait_until(stopped)
    assert used.run("print(kept)").text == "19\n"


def wait_until(true) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)


# --- the end ---------------------------------------------------------------------------------


def test_stop_ends_every_process_and_keeps_every_file(room, people):
    done = room.command("--stop", "--prefix", "rl")  # the folder knows its own prefix
    assert done.returncode == 0
    assert [p for a in accounts.made(room.prefix) for p in room.processes(a.pw_name)] == []
    assert deploy._running(room.at) == []
    assert (Path("/home", people[4].name) / "course" / load.PAGE).exists()


def test_remove_takes_the_accounts_it_made_and_no_other(room):
    guest = f"{room.prefix}-guest"
    subprocess.run(["useradd", "--create-home", "--groups", accounts.group(room.prefix), guest],
                   check=True)
    try:
        asked = subprocess.run(
            [sys.executable, "-m", "workshop", "hub", "--remove", "--at", str(room.at), "--prefix",
             room.prefix], cwd=room.checkout, input="no\n", capture_output=True, text=True)
        assert asked.returncode == 1 and "nothing was removed" in asked.stderr
        assert len(accounts.made(room.prefix)) == PARTICIPANTS + 2
        left = Path("/tmp", f"{room.prefix}-left")
        left.mkdir()
        os.chown(left, pwd.getpwnam(room.name(1)).pw_uid, -1)
        done = room.command("--remove", "--yes")
        assert done.returncode == 0, done.stderr
        assert f"removed {PARTICIPANTS + 2} accounts" in done.stdout
        assert [a.pw_name for a in pwd.getpwall() if a.pw_name.startswith(f"{room.prefix}-")] == \
            [guest]
        assert not room.at.exists() and not left.exists()
        assert [p.name for p in Path("/home").glob(f"{room.prefix}-*")] == [guest]
    finally:
        subprocess.run(["userdel", "--remove", guest], check=True, capture_output=True)
    assert "nothing to remove" in room.command("--remove").stdout
