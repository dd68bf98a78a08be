"""Start the class service: `python -m workshop.hub.service --state DIR --student DIR`.

Question  on what do the pages, the judge and the records run?
Answer    one process with Tornado, at the address that the hub names in JUPYTERHUB_SERVICE_URL
Assumes   it is a service the hub manages; --state is a folder of its account alone
Ignores   who may use it: the hub's roles say so (README of workshop/hub)
"""

import argparse
import asyncio
import contextlib
import logging
import os
import secrets
import signal
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tornado.httpserver import HTTPServer

from .app import LARGEST, Service, application
from .predictions import read
from .questions import Judge
from .records import Records, RecordsError


def _secret(path: Path) -> bytes:
    """The key of cookies: it outlives a restart, so nobody has to log in again."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(secrets.token_bytes(32))
    return path.read_bytes()


async def _serve(service: Service, host: str, port: int) -> None:
    server = HTTPServer(application(service), max_body_size=LARGEST, max_header_size=LARGEST,
                        body_timeout=30, idle_connection_timeout=300)
    server.listen(port, host)
    stopped = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stopped.set)
    await service.judge.warm()
    await stopped.wait()
    server.stop()
    await server.close_all_connections()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m workshop.hub.service", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="folder of the records")
    parser.add_argument("--student", type=Path, required=True, help="notebooks of participants")
    parser.add_argument("--book", type=Path, help="the student site, where there is one")
    given = parser.parse_args(arguments)
    address = urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", ""))
    if not address.hostname or not address.port:
        print("class service: JUPYTERHUB_SERVICE_URL names no host and port. It is started by the "
              "hub: python3 course.py workshop hub", file=sys.stderr)
        return 1
    logging.basicConfig(level=logging.WARNING, format="class service: %(message)s")
    logging.getLogger("tornado.application").setLevel(logging.ERROR)  # its warnings name people
    os.umask(0o077)
    try:
        given.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        service = Service(Records(given.state / "class.sqlite"), Judge(), read(given.student),
                          given.book if given.book and given.book.is_dir() else None,
                          _secret(given.state / "cookie_secret"))
    except (OSError, RecordsError) as error:
        print(f"class service: {error}", file=sys.stderr)
        return 1
    try:
        asyncio.run(_serve(service, address.hostname, address.port))
    except OSError as error:
        print(f"class service: {address.netloc}: {error}", file=sys.stderr)
        return 1
    finally:
        service.judge.close()
        service.records.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
