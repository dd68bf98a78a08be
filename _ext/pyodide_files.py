"""Python for the browser: `python _ext/pyodide_files.py` fetches Pyodide's files once.

Question  where are the files with which cells run inside a page?
Answer    folder(): their place in the environment, whole or not there; fetch() puts them there
Assumes   the package of this version at npm's registry, or at npm_config_registry, is the one
          whose hash stands here
Ignores   pages: without these files the book is the same, and no cell runs in it
"""

import base64
import hashlib
import os
import shutil
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path

VERSION = "314.0.7"  # CPython 3.14; MPL-2.0
INTEGRITY = ("sha512-0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi"
             "/6V5JEsOlD2R1A==")  # as `npm view pyodide@314.0.7 dist.integrity` prints it
REGISTRY = "https://registry.npmjs.org"
FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip",
         "pyodide-lock.json")
MOST = 16 * 2**20  # bytes of the package; it has 6.5 MB
PATIENCE = 20      # seconds without a byte


class NotFetched(Exception):
    """Why the files are not there, in a line."""


def folder() -> Path:
    """Where the files of this version are, or would be: they go when the environment goes."""
    return Path(sys.prefix) / "share" / "pyodide" / VERSION


def address(environ: Mapping[str, str] = os.environ) -> str:
    """The package's address at the registry that npm would ask.

    >>> address({})
    'https://registry.npmjs.org/pyodide/-/pyodide-314.0.7.tgz'
    >>> address({"npm_config_registry": "http://127.0.0.1:4873/"})
    'http://127.0.0.1:4873/pyodide/-/pyodide-314.0.7.tgz'
    """
    named = (value for name, value in environ.items()
             if name.lower() == "npm_config_registry" and value.strip())
    registry = next(named, REGISTRY).strip().rstrip("/")
    return f"{registry}/pyodide/-/pyodide-{VERSION}.tgz"


def fetch(integrity: str = INTEGRITY) -> Path:
    """The folder with the files, fetched if it is not there. It appears whole or not at all.

    Raises NotFetched when the registry does not answer or gives another package.
    """
    home = folder()
    if home.is_dir():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=".coming-") as work:
        package, files = Path(work, "package.tgz"), Path(work, "files")
        got = _download(address(), package)
        if got != integrity:
            raise NotFetched(f"expected the package with {integrity[:20]}..., got {got[:20]}... "
                             f"of {package.stat().st_size:,} bytes; nothing of it is kept")
        _unpack(package, files)
        try:
            os.replace(files, home)
        except OSError:
            if not home.is_dir():  # another run was first, and its files are the same
                raise
    return home


def _download(url: str, package: Path) -> str:
    """Write what is at `url` to `package`; its hash as npm writes it."""
    digest, size = hashlib.sha512(), 0
    try:
        with (urllib.request.urlopen(url, timeout=PATIENCE) as answer,
              package.open("wb") as out):
            while piece := answer.read(1 << 18):
                size += len(piece)
                if size > MOST:
                    raise NotFetched(f"expected at most {MOST:,} bytes, got more")
                digest.update(piece)
                out.write(piece)
    except urllib.error.HTTPError as error:
        raise NotFetched(f"the npm registry answered {error.code}") from None
    except (OSError, HTTPException, ValueError) as error:  # ValueError: no address at all
        why = getattr(error, "reason", None) or error
        raise NotFetched(f"the npm registry cannot be reached ({why})") from None
    return "sha512-" + base64.b64encode(digest.digest()).decode()


def _unpack(package: Path, files: Path) -> None:
    """The needed files alone, by name: no other path of the package is written."""
    files.mkdir()
    with tarfile.open(package) as tar:
        for name in FILES:
            try:
                source = tar.extractfile(f"package/{name}")
            except KeyError:
                source = None
            if source is None:
                raise NotFetched(f"the package has no {name}")
            with source, (files / name).open("wb") as out:
                shutil.copyfileobj(source, out)


def main() -> int:
    if folder().is_dir():
        return 0
    try:
        fetch()
    except (NotFetched, tarfile.TarError, OSError) as error:
        print(f"Pyodide {VERSION} is not here, so no cell runs inside a page of the built book; "
              f"all else is the same: {error}")
        return 1
    print(f"fetched Pyodide {VERSION}, which runs cells inside a page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
