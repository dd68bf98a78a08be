"""A file or directory of a Neuron profiler, whichever kind it is."""

import os
from pathlib import Path

from ..table import printable
from . import text
from .record import Profile, ProfileError


def read(path: str | os.PathLike[str], session: str | None = None) -> Profile:
    """The profile at this path.

    path      summary-json or json of Neuron Profile / Explorer 2.26 to 2.32, a directory of its
              parquet tables, or what write() saved
    session   key of the session, where a summary-json holds several ("n_...")
    Raises ProfileError, with file and field, when it is none of these or its values cannot be.
    """
    try:
        path = Path(path)
    except TypeError:
        raise ProfileError(f"read: expected a path, got {printable(repr(path), 60)}. Pass that of "
                           "a file or directory") from None
    name = printable(path.name or path.resolve().name, 200)
    try:
        if path.is_dir():
            return _directory(path, name, session)
        data = path.read_bytes()
    except FileNotFoundError:
        raise ProfileError(f"{name}: no such file or directory in "
                           f"{printable(path.absolute().parent)}") from None
    except ProfileError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise ProfileError(f"{name}: cannot be read: {printable(reason)}") from None
    except MemoryError:
        raise ProfileError(f"{name}: does not fit into memory. Capture a shorter part of the "
                           "kernel, or read it on a machine with more") from None
    if data[:4] == b"PAR1":
        raise ProfileError(f"{name}: a single parquet table is no profile. Pass the directory that "
                           "holds Summary.parquet")
    return text.from_json(name, text.parse(name, data), session)


def _directory(path: Path, name: str, session: str | None) -> Profile:
    """The parquet tables in it or below it, where the explorer nests them."""
    from .parquet import from_parquet  # it needs pyarrow
    found = sorted(entry.name for entry in path.glob("*.json"))
    if found and not any(path.glob("*.parquet")):
        raise ProfileError(f"{name}: expected a directory of parquet tables (Summary.parquet, "
                           f"...), got one without any. Pass one of its files: "
                           f"{printable(', '.join(found), 200)}")
    if session is not None:
        raise ProfileError(f"{name}: session={printable(session, 60)!r}: a parquet directory "
                           "holds one session; leave it out")
    return from_parquet(path)
