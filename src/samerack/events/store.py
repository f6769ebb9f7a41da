"""The file of events: SQLite in WAL mode, so that others read while one process writes. One row per event, as JSON.

A second table has the history of traffic, one row for all groups per step.

A writer holds a lock file beside it while it lives, so that two agents never share one by accident; the successor of a
killed agent gets the lock. Rows beyond the bounds are deleted, the oldest first.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from samerack.common.errors import AgentError
from samerack.events.event import Event, from_json, to_json
from samerack.events.history import HistoryRow

_BUSY_SECONDS: Final = 2.0
_WAL_BYTES: Final = 4 << 20
_DAY: Final = 86_400.0
_SCHEMA: Final = 1
"""The version of the tables, which the file holds as its `user_version`; 0 in a new file."""
_MOUNTS: Final = Path("/proc/self/mountinfo")
_NETWORK: Final = re.compile(
    r"nfs\d*|cifs|smb\d*|smbfs|9p|afs|ceph|lustre|glusterfs|fuse\.(glusterfs|sshfs|s3fs|nfs.*|ceph.*)"
)
"""Types of file systems that several machines may have mounted (proc(5), filesystems(5))."""
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class StoreError(AgentError):
    """The file cannot be used; the message says why and what helps."""


class CorruptError(StoreError):
    """The file is not a valid store of events; `set_aside` renames it, so that a new one can be made."""


class Store:
    """The only writer of a file."""

    def __init__(self, path: Path, *, max_events: int, days: float) -> None:
        """Open the file, or create it. It keeps at most `max_events` events, for `days` days.

        Raises:
            StoreError: It cannot be opened.
        """
        if network := network_file_system(path):
            raise StoreError(
                f"{path}: is on a network file system ({network}), where SQLite loses events and may hang; set "
                "events.path to a location on a local disk"
            )
        self._path = path
        self._max_events = max_events
        self._days = days
        self._lock = _lock(path)
        try:
            with _explained(path):
                os.close(_opened(path, path))  # SQLite gives its WAL the same permissions
                self._connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, check_same_thread=False)
                self._connection.text_factory = bytes  # what is no UTF-8 fails as one event, not as the whole file
                try:
                    _prepare(self._connection, path)
                except BaseException:
                    self._connection.close()
                    raise
        except BaseException:
            os.close(self._lock)
            raise

    def add(self, events: Iterable[Event]) -> None:
        """Write events, all or none; one that exists already stays as it is.

        Raises:
            StoreError: They are not written.
        """
        rows = [(event.id, event.at, event.group, event.kind, to_json(event).decode()) for event in events]
        with _explained(self._path), self._connection:
            self._connection.executemany(
                "INSERT OR IGNORE INTO events (id, at, of_group, kind, body) VALUES (?, ?, ?, ?, ?)", rows
            )
            self._trim()

    def events(self) -> list[Event]:
        """Return all stored events, the oldest first.

        Raises:
            StoreError: It cannot be read.
        """
        with _explained(self._path):
            return list(_events(self._connection, self._max_events))

    def add_history(self, rows: Iterable[HistoryRow], *, keep_seconds: float) -> None:
        """Write rows of the history (one at least, the oldest first), all or none, and delete those that are too old.

        `keep_seconds` is how much older than the last of them others may be.

        Raises:
            StoreError: They are not written.
        """
        bodies = [(row.at, row.to_bytes()) for row in rows]
        last = bodies[-1][0]
        with _explained(self._path), self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO history (at, body) VALUES (?, ?)", bodies)
            # newer ones are of a clock that was set back
            self._connection.execute("DELETE FROM history WHERE at <= ? OR at > ?", (last - keep_seconds, last))

    def history(self) -> Iterator[HistoryRow]:
        """Yield the stored rows of the history, the oldest first.

        Raises:
            StoreError: It cannot be read.
        """
        with _explained(self._path):
            for at, body in self._connection.execute("SELECT at, body FROM history ORDER BY at"):
                with suppress(ValueError):  # of another version
                    yield HistoryRow.from_bytes(at, body)

    def close(self) -> None:
        """Close the file and release its lock."""
        self._connection.close()
        os.close(self._lock)

    def _trim(self) -> None:
        self._connection.execute(
            "DELETE FROM events WHERE at < ? OR number <= (SELECT MAX(number) FROM events) - ?",
            (time.time() - self._days * _DAY, self._max_events),
        )


def read(path: Path, max_events: int) -> list[Event]:
    """Return the newest events of a file, the oldest of them first; also while an agent writes to it.

    Raises:
        StoreError: The file does not exist, or cannot be read.
    """
    if not path.is_file():
        raise StoreError(
            f"{path}: is not a file; give the path that the agent logs as events-stored, or its events.path"
        )
    readable = f"{path.resolve().as_uri()}?mode=ro"
    with _explained(path), closing(sqlite3.connect(readable, uri=True, timeout=_BUSY_SECONDS)) as connection:
        connection.text_factory = bytes  # as in Store
        version = _version(connection)
        if version != _SCHEMA:
            raise StoreError(
                f"{path}: has no events that this version of samerack can read (schema {version}, expected {_SCHEMA})"
            )
        return list(_events(connection, max_events))


def network_file_system(path: Path, mounts: Path = _MOUNTS) -> str:
    """Return the type and mount point of the network file system that holds a path; "" for a local or unknown one.

    The path need not exist; `mounts` is the kernel's list of mounts.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    found, longest = "", -1
    whole = path.resolve()
    for line in lines:
        fields, _, rest = line.partition(" - ")
        parts, kind = fields.split(" "), rest.partition(" ")[0]
        if len(parts) < 5:
            continue
        point = Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), parts[4]))
        if len(point.parts) >= longest and whole.is_relative_to(point):  # the later of two at one point hides the other
            found, longest = (f"{kind} at {point}" if _NETWORK.fullmatch(kind) else ""), len(point.parts)
    return found


def set_aside(path: Path) -> Path:
    """Rename a corrupt file, so that a new one can be created; replaces an older one of that name.

    Raises:
        StoreError: It cannot be renamed.
    """
    aside = path.with_name(f"{path.name}.corrupt")
    try:
        path.replace(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path}: is corrupt and cannot be set aside: {error.strerror}; remove it") from None
    return aside


def _opened(file: Path, path: Path) -> int:
    """Open the file or its lock, for this user alone, or create it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; set events.path to a writable location") from None


def _lock(path: Path) -> int:
    """Take the right to write, for as long as the returned descriptor is open.

    The lock is a file of its own: closing any descriptor of a database makes the process lose SQLite's locks on it.
    """
    descriptor = _opened(path.with_name(f"{path.name}.lock"), path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StoreError(f"{path}: another agent writes to it; give each its own events.path") from None
    return descriptor


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # a kill loses nothing; a power cut may lose the last seconds
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
    version = _version(connection)
    if version > _SCHEMA:
        raise StoreError(
            f"{path}: was written by a newer samerack (schema {version}, this one knows {_SCHEMA}); set events.path to "
            "another file"
        )
    if version < _SCHEMA:
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "CREATE TABLE events (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, "
                "at REAL NOT NULL, of_group TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL)"
            )
            connection.execute("CREATE INDEX events_of_group ON events (of_group, at)")
            connection.execute(f"PRAGMA user_version = {_SCHEMA}")
    # of no version: a version that knows no history leaves the table alone, and reads and writes the events
    connection.execute("CREATE TABLE IF NOT EXISTS history (at REAL PRIMARY KEY, body BLOB NOT NULL)")
    if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != b"ok":
        raise CorruptError(f"{path}: its pages are corrupt")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _events(connection: sqlite3.Connection, max_events: int) -> Iterator[Event]:
    rows = connection.execute(
        "SELECT body FROM (SELECT number, body FROM events ORDER BY number DESC LIMIT ?) ORDER BY number", (max_events,)
    )
    for (body,) in rows:
        with suppress(ValueError):  # damaged, or of a kind that only a newer version knows
            yield from_json(body)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Convert SQLite's errors to StoreError, with the cure."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(f"{path}: {error}; {_cure(error)}") from None
    except sqlite3.DatabaseError as error:
        raise CorruptError(f"{path}: is not an event store: {str(error).splitlines()[0]}") from None
    except UnicodeDecodeError:  # of SQLite's own message, which names what is wrong in the schema
        raise CorruptError(f"{path}: its schema is corrupt") from None


def _cure(error: sqlite3.OperationalError) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return "free space there, or change events.path"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another process holds it; give each agent its own events.path"
    return "set events.path to a writable location"
