"""The class's hub: who logs in, what is started for them, what stops it.

Read by JupyterHub as root; ROOFLINE_CLASS_SETTINGS names class.json, which deploy.py writes.
"""

import json
import os
import pwd
import sys
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner

from workshop.hub import accounts

c = get_config()  # type: ignore[name-defined]  # noqa: F821
settings = json.loads(Path(os.environ["ROOFLINE_CLASS_SETTINGS"]).read_text())
at, prefix, port = Path(settings["at"]), settings["prefix"], settings["port"]
private, venv = at / "private", Path(sys.prefix)
idle = settings["idle_seconds"]
often = min(300, max(1, idle // 4))  # s between two reports of who did something


class Spawner(LocalProcessSpawner):
    """A process of the participant's own account."""

    async def _signal(self, sig: int) -> bool:
        """Signal the server, unless its number belongs to another account's process by now.

        The hub remembers numbers of processes; after the machine was started again they are
        somebody else's.
        """
        try:
            if os.stat(f"/proc/{self.pid}").st_uid != pwd.getpwnam(self.user.name).pw_uid:
                return False
        except (FileNotFoundError, KeyError):
            return False
        return await super()._signal(sig)


# --- where it listens and what it keeps ------------------------------------------------------

c.JupyterHub.bind_url = f"http{'s' if settings['cert'] else ''}://{settings['listen']}:{port}"
c.JupyterHub.ssl_cert, c.JupyterHub.ssl_key = settings["cert"], settings["key"]
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{port + 1}"
c.ConfigurableHTTPProxy.command = [settings["node"], settings["proxy"]]
c.ConfigurableHTTPProxy.pid_file = str(private / "proxy.pid")
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{port + 2}"
c.JupyterHub.db_url = f"sqlite:///{private}/hub.sqlite"
c.JupyterHub.cookie_secret_file = str(private / "cookie_secret")
c.JupyterHub.cleanup_servers = False  # servers and kernels outlive the hub

# --- who ------------------------------------------------------------------------------------

c.JupyterHub.authenticator_class = "pam"
c.LocalAuthenticator.allowed_groups = {accounts.group(prefix)}
c.JupyterHub.load_groups = {"instructors": {"users": [accounts.instructor(prefix)]}}
c.JupyterHub.custom_scopes = {"custom:class:board": {"description": "See the class's board"}}
c.JupyterHub.load_roles = [
    {"name": "user", "scopes": ["self", "access:services!service=class"]},
    {"name": "server", "scopes": ["users:activity!user", "access:servers!server",
                                  "access:services!service=class"]},
    # Sees who is here and stops or starts a server; does not enter it.
    {"name": "instructor", "groups": ["instructors"], "scopes": [
        "custom:class:board", "admin-ui", "list:users", "read:users:activity", "servers"]},
    {"name": "cull", "services": ["cull"], "scopes": [
        "list:users", "read:users:activity", "read:servers", "delete:servers"]},
]

# --- a participant's server -----------------------------------------------------------------

c.JupyterHub.spawner_class = Spawner
c.Spawner.cmd = [str(venv / "bin/python"), str(at / "start/server.py"), str(at / "student"),
                 str(venv / "bin/python"), str(venv / "bin/jupyter-labhub")]
c.Spawner.args = [
    # Sockets in the home instead of ports: a port's outputs can be read by every account here.
    "--KernelManager.transport=ipc",
]
c.Spawner.notebook_dir = "~/course"
c.Spawner.env_keep = ["LANG"]
c.Spawner.environment = {
    "PATH": settings["path"],
    "PYTHONPATH": str(at / "lib"),
    "JUPYTER_CONFIG_PATH": str(at / "start/jupyter"),
    "ROOFLINE_CLASS": f"http://127.0.0.1:{port + 3}/services/class",
    "JUPYTERHUB_ACTIVITY_INTERVAL": str(often),
}
if settings["cores"]:
    c.Spawner.environment["ROOFLINE_CORES"] = str(at / "cores/queue")
c.JupyterHub.last_activity_interval = often
c.JupyterHub.activity_resolution = min(30, often)
c.Spawner.start_timeout = 300  # s; a room starts at once
c.Spawner.http_timeout = 120
c.LocalProcessSpawner.interrupt_timeout = 1  # Jupyter asks back at an interrupt: then terminate

# --- services -------------------------------------------------------------------------------

c.JupyterHub.services = [
    {
        "name": "class",
        "url": f"http://127.0.0.1:{port + 3}",
        "command": [str(venv / "bin/python"), "-m", "workshop.hub.service",
                    "--state", str(private / "state"), "--student", str(at / "student"),
                    "--book", str(at / "site")],
        "cwd": str(private / "class"),
        "environment": {"PYTHONPATH": str(private / "class"), "PYTHONDONTWRITEBYTECODE": "1"},
        "user": accounts.service(prefix),
        "oauth_no_confirm": True,
        "oauth_client_allowed_scopes": ["custom:class:board"],
    },
    {
        "name": "cull",
        "command": [str(venv / "bin/python"), "-m", "jupyterhub_idle_culler",
                    f"--timeout={idle}", f"--cull-every={often}"],
    },
]
if settings["cores"]:
    c.JupyterHub.services.append({
        "name": "cores",
        "command": [str(venv / "bin/python"), "-m", "workshop.hub.cores",
                    "--socket", str(at / "cores/queue"), "--cores", settings["cores"],
                    "--sharing", str(settings["sharing"])],
        "cwd": str(private / "class"),
        "environment": {"PYTHONPATH": str(private / "class"), "PYTHONDONTWRITEBYTECODE": "1"},
        "user": accounts.service(prefix),
    })
