"""The file of events and its writer: bounds, versions, and everything that can be wrong with a file."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from samerack.events import Event, EventLog
from samerack.events.event_log import EventMetrics
from samerack.events.event_writer import EventWriter
from samerack.events.history import TrafficHistory
from samerack.events.store import CorruptError, Store, StoreError, network_file_system, read
from tests.unit.waiting import LONGEST_SECONDS, until

DAYS = 30.0
_MOUNTS = """21 1 0:20 / / rw,relatime - overlay overlay rw
35 21 0:45 / /mnt/shared rw,relatime shared:1 - nfs4 server:/export rw,vers=4.2
36 35 8:1 / /mnt/shared/local rw,relatime - ext4 /dev/sda1 rw
37 21 0:46 / /mnt/with\\040blank rw,relatime - fuse.sshfs host:/ rw
"""
"""As in /proc/self/mountinfo (proc(5))."""


def event(number: int, *, at: float | None = None) -> Event:
    """A rebalance of that generation."""
    return Event(
        id=f"id-{number}", at=time.time() if at is None else at, group="orders", kind="rebalance", generation=number
    )


def numbers(events: list[Event] | tuple[Event, ...]) -> list[int | None]:
    """The generations of these events."""
    return [one.generation for one in events]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path of which neither the file nor the folder exists."""
    return tmp_path / "state" / "events.db"


class Kept:
    """An event log and its writer, which retries soon."""

    def __init__(self, path: Path, *, max_events: int = 100, max_waiting: int = 1_000) -> None:
        self.registry = CollectorRegistry()
        metrics = EventMetrics(self.registry)
        self.events = EventLog(metrics=metrics)
        self.history = TrafficHistory()
        self.writer = EventWriter(
            path,
            events=self.events,
            history=self.history,
            metrics=metrics,
            max_events=max_events,
            days=DAYS,
            max_waiting=max_waiting,
            first_pause_seconds=0.01,
        )

    def metric(self, name: str, **labels: str) -> float | None:
        """The value of a metric."""
        return self.registry.get_sample_value(name, labels)

    def wait(self, holds: Callable[[], bool]) -> None:
        """Wait until it holds."""
        assert until(holds)


@contextmanager
def kept(path: Path, **bounds: int) -> Iterator[Kept]:
    """A writer that runs."""
    made = Kept(path, **bounds)
    made.writer.start()
    yield made
    made.writer.stop()
    made.writer.join(LONGEST_SECONDS)
    assert not made.writer.is_alive()


def test_nobody_else_reads_what_happened(path: Path) -> None:
    """Only this user can read the file, its write-ahead log and the index of that log."""
    with closing(Store(path, max_events=10, days=DAYS)) as store:
        store.add([event(1)])
        rights = {one.name: one.stat().st_mode & 0o777 for one in path.parent.iterdir()}
    assert {"events.db", "events.db-wal", "events.db-shm"} <= rights.keys()
    assert set(rights.values()) == {0o600}


def test_what_is_written_is_read_in_order_also_while_it_is_open(path: Path) -> None:
    """All fields are read back; an event that is written twice is stored once."""
    full = Event(at=5e9, group="orders", kind="rebalance", cause="member-left", left=("a",), seconds=0.5, missed=2)
    with closing(Store(path, max_events=10, days=DAYS)) as store:
        store.add([event(1), full])
        store.add([full])
        assert store.events()[1] == read(path, 10)[1] == full
        assert numbers(read(path, 1)) == [None], "the newest"
    assert len(read(path, 10)) == 2


def test_the_oldest_go(path: Path) -> None:
    """The oldest events are deleted, by number and by age."""
    with closing(Store(path, max_events=3, days=DAYS)) as store:
        store.add([event(0, at=time.time() - DAYS * 86_400 - 1), *map(event, range(1, 3))])
        assert numbers(store.events()) == [1, 2]
        store.add(map(event, range(3, 8)))
        assert numbers(store.events()) == [5, 6, 7]


def test_the_file_of_a_newer_version_is_refused(path: Path) -> None:
    """A file with other tables is neither written nor read."""
    Store(path, max_events=9, days=DAYS).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 2")
    with pytest.raises(StoreError, match=r"written by a newer samerack \(schema 2, this one knows 1\)"):
        Store(path, max_events=9, days=DAYS)
    with pytest.raises(StoreError, match="has no events that this version"):
        read(path, 9)


def test_two_agents_never_share_a_file(path: Path) -> None:
    """A second agent is refused; it can open the file once the first has closed it."""
    with closing(Store(path, max_events=9, days=DAYS)), pytest.raises(StoreError, match="another agent writes to it"):
        Store(path, max_events=9, days=DAYS)
    Store(path, max_events=9, days=DAYS).close()


def test_what_a_newer_version_wrote_in_this_schema_is_left_alone(path: Path) -> None:
    """A kind of event that this version does not know is not shown, and does not make the file corrupt."""
    with closing(Store(path, max_events=9, days=DAYS)) as store:
        store.add([event(1)])
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE events SET body = replace(body, 'rebalance', 'eclipse')")
        store.add([event(2)])
        assert numbers(store.events()) == [2]


def test_reading_what_is_no_store(tmp_path: Path) -> None:
    """A missing file and a file that is no database give different errors."""
    with pytest.raises(StoreError, match="is not a file; give the path that the agent logs"):
        read(tmp_path / "none.db", 1)
    other = tmp_path / "other.db"
    other.write_text("no database, but long enough to be taken for one" * 10, encoding="ascii")
    with pytest.raises(CorruptError, match="file is not a database"):
        read(other, 1)


def test_a_restart_remembers(path: Path) -> None:
    """After a restart the event log starts with the stored events, and new ones go to the same file."""
    for number in range(2):
        with kept(path) as running:
            assert numbers(running.events.latest()) == list(reversed(range(number)))
            running.events.add("rebalance", "orders", generation=number)
            assert running.metric("samerack_events_stored") == 1.0
    assert numbers(read(path, 10)) == [0, 1]
    assert running.metric("samerack_events_total", kind="rebalance") == 1.0


def test_a_corrupt_file_is_set_aside(path: Path) -> None:
    """A corrupt file is renamed and kept, and the agent continues with an empty one."""
    path.parent.mkdir()
    path.write_bytes(b"not at all" * 1000)
    with kept(path) as running:
        running.events.add("rebalance", "orders", generation=1)
    assert numbers(read(path, 10)) == [1]
    assert path.with_name("events.db.corrupt").read_bytes().startswith(b"not at all")


def _damage(path: Path, found: bytes, byte: int) -> None:
    """Replace the first byte of what is found in a file."""
    content = bytearray(path.read_bytes())
    content[content.index(found)] = byte
    path.write_bytes(content)


def test_a_damaged_event_hides_no_other(path: Path) -> None:
    """One byte that is no UTF-8 kept the file from being opened until somebody removed it."""
    with closing(Store(path, max_events=9, days=DAYS)) as store:
        store.add([event(1), replace(event(2), reason="traffic changed"), event(3)])
    _damage(path, b"traffic changed", 0xFF)
    assert numbers(read(path, 9)) == [1, 3]
    with kept(path) as running:
        assert numbers(running.events.latest()) == [3, 1]
        assert not running.writer.trouble


def test_a_file_with_a_damaged_schema_is_set_aside(path: Path) -> None:
    """A name in it that is no UTF-8 ended the agent at each start."""
    with closing(Store(path, max_events=9, days=DAYS)) as store:
        store.add([event(1)])
    _damage(path, b"events_of_group", 0xFE)
    with pytest.raises(CorruptError, match="its schema is corrupt"):
        read(path, 9)
    with kept(path) as running:
        assert not running.writer.trouble
    assert path.with_name("events.db.corrupt").exists()


def test_without_a_place_to_write_events_stay_in_memory(tmp_path: Path) -> None:
    """The agent continues, reports a gap and a metric, and counts the events that it can never write."""
    (tmp_path / "file").touch()
    with kept(tmp_path / "file" / "state" / "events.db", max_waiting=2) as running:
        for number in range(4):
            running.events.add("rebalance", "orders", generation=number)
        assert numbers(running.events.latest()) == [3, 2, 1, 0]
        (gap,) = running.writer.gaps()
        assert (gap.what, gap.reason) == ("events", "Not a directory")
        assert gap.consequence == "a restart forgets what happened; set events.path to a writable location"
        assert running.metric("samerack_events_stored") == 0.0
        assert running.metric("samerack_events_dropped_total") == 2.0
        (tmp_path / "file").unlink()
        running.wait(lambda: not running.writer.gaps())
        assert running.metric("samerack_events_stored") == 1.0
    assert numbers(read(tmp_path / "file" / "state" / "events.db", 10)) == [2, 3]


def test_an_event_that_cannot_be_written_keeps_no_other_one_back(path: Path) -> None:
    """One with a text beyond UTF-8 is counted as dropped and logged, and all others are written."""
    with capture_logs() as logged, kept(path) as running:
        for number, group in enumerate(("orders", "\ud800", "orders")):
            running.events.add("rebalance", group, generation=number)
    assert numbers(read(path, 10)) == [0, 2]
    assert running.metric("samerack_events_dropped_total") == 1.0
    assert [one["event"] for one in logged if one["log_level"] == "error"] == ["event-dropped"]


def test_a_locked_file_is_waited_for(path: Path) -> None:
    """Events during another agent's lock are written once the lock is free, after those of the other."""
    other = Store(path, max_events=9, days=DAYS)
    other.add([event(1)])
    with kept(path) as running:
        running.events.add("rebalance", "orders", generation=2)
        assert "another agent writes to it" in running.writer.trouble
        other.close()
        running.wait(lambda: not running.writer.trouble)
        assert set(numbers(running.events.latest())) == {1, 2}
    assert numbers(read(path, 10)) == [1, 2]


_WRITER = """
import sys, time
from pathlib import Path
from samerack.events.event import Event
from samerack.events.store import Store
store = Store(Path(sys.argv[1]), max_events=100_000, days=30)
for number in range(100_000):
    store.add([Event(at=time.time(), group="orders", kind="rebalance", generation=number)])
    print(number, flush=True)
"""


def test_a_killed_writer_loses_nothing_that_it_wrote(path: Path) -> None:
    """A file can be read while it is written; after SIGKILL it has every written event, and can be continued."""
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            last = int(line)
            if last == 50:
                assert len(read(path, 1_000)) >= 50
            if last == 100:
                writer.send_signal(signal.SIGKILL)
    with closing(Store(path, max_events=100_000, days=DAYS)) as successor:
        found = numbers(successor.events())
        assert found == list(range(len(found)))
        assert len(found) >= last + 1
        successor.add([event(-1)])
    assert numbers(read(path, 1)) == [-1]


_FULL = """
import json, resource, sys
from pathlib import Path
from prometheus_client import CollectorRegistry
from samerack.events import EventLog
from samerack.events.event_writer import EventWriter
from samerack.events.history import TrafficHistory
from samerack.events.event_log import EventMetrics
from samerack.events.store import read
import time
path = Path(sys.argv[1])
events = EventLog()
writer = EventWriter(path, events=events, history=TrafficHistory(), metrics=EventMetrics(CollectorRegistry()),
                max_events=9_000, days=30, first_pause_seconds=0.05)
writer.start()
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
number = 0
while not writer.trouble:
    events.add("rebalance", "orders", generation=number, detail="x" * 2_000)
    number += 1
    time.sleep(0.001)
trouble = writer.trouble
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
while writer.trouble:
    time.sleep(0.01)
writer.stop()
writer.join()
print(json.dumps({"trouble": trouble, "happened": number, "kept": len(read(path, 9_000))}))
"""


def test_a_full_disk_is_waited_for(path: Path) -> None:
    """Events that fit into the queue are not lost: they are written once the disk has space again."""
    done = subprocess.run([sys.executable, "-c", _FULL, str(path)], capture_output=True, text=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert "events.path" in report["trouble"]
    assert report["happened"] == report["kept"] > 5


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("/mnt/shared/samerack/events.db", "nfs4 at /mnt/shared"),
        ("/mnt/shared/local/events.db", ""),
        ("/mnt/with blank/events.db", "fuse.sshfs at /mnt/with blank"),
        ("/mnt/sharedbutnot/events.db", ""),
        ("/var/lib/events.db", ""),
    ],
)
def test_a_network_file_system_is_distinguished_from_a_local_one(tmp_path: Path, place: str, named: str) -> None:
    """The mount that holds the path decides, whether or not the path exists."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(_MOUNTS, encoding="utf-8")
    assert network_file_system(Path(place), mounts) == named


def test_events_are_not_kept_on_a_network_file_system(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system is refused: SQLite's locks and shared memory do not work there."""
    monkeypatch.setattr("samerack.events.store.network_file_system", lambda _path: "nfs4 at /mnt/shared")
    with pytest.raises(
        StoreError, match=r"network file system \(nfs4 at /mnt/shared\).*events\.path to a location on a local"
    ):
        Store(path, max_events=10, days=DAYS)
    assert not path.parent.exists()
