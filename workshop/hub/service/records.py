"""What participants chose to share with their class, and nothing else.

Question  who agreed to what, and what did those who agreed attempt, pass and guess?
Answer    Records: sharing, share, attempted, guessed; progress and guesses for the board
Assumes   one process has the file; names are the hub's
Ignores   answers and how often someone tried: only whether a question was attempted and passed

A participant who shares nothing has no row in any table. What is deleted is overwritten with
zeros, in the file and in its log.
"""

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VERSION = 1
_SCHEMA = f"""
PRAGMA foreign_keys = ON;
PRAGMA secure_delete = ON;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
BEGIN;
CREATE TABLE IF NOT EXISTS sharing (
    user TEXT PRIMARY KEY, attempts INTEGER NOT NULL, predictions INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS attempt (
    user TEXT NOT NULL REFERENCES sharing ON DELETE CASCADE, question TEXT NOT NULL,
    passed INTEGER NOT NULL, PRIMARY KEY (user, question)) STRICT;
CREATE TABLE IF NOT EXISTS guess (
    user TEXT NOT NULL REFERENCES sharing ON DELETE CASCADE, prediction TEXT NOT NULL,
    part TEXT NOT NULL, value ANY NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (user, prediction, part)) STRICT;
PRAGMA user_version = {VERSION};
COMMIT;
"""


class RecordsError(Exception):
    """A file that holds no records of this version: what, got, next step."""


@dataclass(frozen=True)
class Sharing:
    """What a participant agreed to; nothing, until told otherwise."""

    attempts: bool = False
    predictions: bool = False


class Records:
    """The records in `path`, a SQLite file that is made where there is none."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, VERSION):
                raise RecordsError(f"{path}: records of version {version}; this service has "
                                   f"{VERSION}. Start the one that made them, or move the file")
            self._db.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            raise RecordsError(f"{path}: {error}. Move the file away; a new one is made") from None

    def sharing(self, user: str) -> Sharing:
        row = self._db.execute("SELECT attempts, predictions FROM sharing WHERE user = ?",
                               (user,)).fetchone()
        return Sharing(*map(bool, row)) if row else Sharing()

    def share(self, user: str, wanted: Sharing) -> None:
        """Keep what is agreed to from now on, and delete what no longer is."""
        with self._db:
            self._db.execute("BEGIN")
            if wanted == Sharing():
                self._db.execute("DELETE FROM sharing WHERE user = ?", (user,))
            else:
                self._db.execute(
                    "INSERT INTO sharing VALUES (?, ?, ?) ON CONFLICT (user) DO UPDATE SET "
                    "attempts = excluded.attempts, predictions = excluded.predictions",
                    (user, wanted.attempts, wanted.predictions))
            for table, kept in (("attempt", wanted.attempts), ("guess", wanted.predictions)):
                if not kept:
                    self._db.execute(f"DELETE FROM {table} WHERE user = ?", (user,))
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def attempted(self, user: str, question: str, passed: bool) -> None:
        """Keep that a question was attempted, where its participant agreed. Passed stays passed."""
        self._db.execute(
            "INSERT INTO attempt SELECT user, ?, ? FROM sharing WHERE user = ? AND attempts "
            "ON CONFLICT DO UPDATE SET passed = max(passed, excluded.passed)",
            (question, passed, user))

    def guessed(self, user: str, prediction: str, guesses: Mapping[str, float | str]) -> bool:
        """Keep the last guess of each part, where its participant agreed; whether it was kept."""
        if not guesses or not self.sharing(user).predictions:
            return False
        self._db.executemany(
            "INSERT INTO guess VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET value = excluded.value, at = excluded.at",
            [(user, prediction, part, value, time.time()) for part, value in guesses.items()])
        return True

    def guesses(self, prediction: str) -> dict[str, list[float | str]]:
        """The class's guesses by part, without names, in no order of theirs."""
        found: dict[str, list[float | str]] = {}
        for part, value in self._db.execute(
                "SELECT part, value FROM guess WHERE prediction = ? ORDER BY value", (prediction,)):
            found.setdefault(part, []).append(value)
        return found

    def latest(self) -> str | None:
        """The prediction that somebody guessed last."""
        row = self._db.execute("SELECT prediction FROM guess ORDER BY at DESC LIMIT 1").fetchone()
        return row[0] if row else None

    def progress(self) -> dict[str, dict[str, bool]]:
        """{who shares attempts: {question attempted: whether it was passed}}, by name."""
        found: dict[str, dict[str, bool]] = {user: {} for user, in self._db.execute(
            "SELECT user FROM sharing WHERE attempts ORDER BY user")}
        for user, question, passed in self._db.execute("SELECT * FROM attempt"):
            found[user][question] = bool(passed)
        return found

    def of(self, user: str) -> tuple[dict[str, bool], list[str]]:
        """All that is kept of one participant: questions attempted, predictions made."""
        attempts = dict(self._db.execute(
            "SELECT question, passed FROM attempt WHERE user = ? ORDER BY question", (user,)))
        predictions = [id for id, in self._db.execute(
            "SELECT DISTINCT prediction FROM guess WHERE user = ? ORDER BY prediction", (user,))]
        return {question: bool(passed) for question, passed in attempts.items()}, predictions

    def close(self) -> None:
        self._db.close()
