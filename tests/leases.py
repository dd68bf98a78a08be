"""A queue of cores for tests: the server as a process, and a client that is not the library's."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LIMIT_S = 60  # for anything that a test waits for, on a busy machine


class Server:
    """`python -m workshop.hub.cores`, as often as it is started."""

    def __init__(self, path: Path, cores: str, sharing: int = 1) -> None:
        self.path, self.cores, self.sharing = path, cores, sharing
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it and return the first line that it says."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "workshop.hub.cores", "--socket", str(self.path), "--cores",
             self.cores, "--sharing", str(self.sharing)], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(LIMIT_S)

    @property
    def status(self) -> dict[str, Any]:
        with Asker(self.path, {"status": True}) as one:
            return one.hear()


class Asker:
    """One connection to the queue: what it asks, and what it hears."""

    def __init__(self, path: Path, asks: Any = None, uid: int | None = None) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(LIMIT_S)
        self.files: list[int] = []
        if uid is not None:  # the system notes who connects
            os.seteuid(uid)
        try:
            self.socket.connect(str(path))
        finally:
            if uid is not None:
                os.seteuid(os.getuid())
        if asks is not None:
            self.socket.sendall(asks if isinstance(asks, bytes) else json.dumps(asks).encode())

    def hear(self) -> dict[str, Any]:
        """The next word; {} when it ended."""
        data, files, _, _ = socket.recv_fds(self.socket, 2**20, 253)
        self.files += files
        return dict(json.loads(data)) if data else {}

    def core(self) -> list[int]:
        """Its cores, once it has them."""
        while "cores" not in (said := self.hear()):
            assert "ahead" in said, said
        assert self.files
        return list(said["cores"])

    def close(self) -> None:
        """Let go of the cores, then hang up."""
        for file in self.files:
            os.close(file)
        self.files = []
        self.socket.close()

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
