"""Groups that are balanced by records: what is counted for them, and for no other group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samerack.cluster.wire import BrokerClient
from samerack.settings.all_settings import Settings
from samerack.traffic import collect
from samerack.traffic.board import TrafficBoard
from samerack.traffic.broker_poller import BrokerPoller, Poll
from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.cycle import Cycle
from samerack.traffic.exact import ExactReads
from samerack.traffic.snapshot import TrafficSnapshot
from samerack.traffic.throughput import Rate
from samerack.traffic.weights import WeightBook
from tests.unit.agent.values import partition, view_of
from tests.unit.traffic.test_exact import group, member

SECONDS = 5.0
FEW, MANY = ("t", 0), ("t", 1)


class Written:
    """A cycle with two groups that read one topic: a poll finds equal bytes in its partitions, and 1 and 30 records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **leading: object) -> None:
        self.settings = Settings.model_validate({"kafka": {"bootstrap.servers": "h:1"}, "leading": leading})
        self.weights, self.polls = WeightBook(), 0
        self.cycle = Cycle(
            self.settings, wire=BrokerClient({}), board=TrafficBoard(), exact=ExactReads(), weights=self.weights
        )
        self.poller: BrokerPoller = self.cycle._poller
        self.poller.state.cluster = view_of({1: "a"}, t=[partition(1), partition(1)])
        monkeypatch.setattr(self.poller, "_poll_groups", self._groups)
        monkeypatch.setattr(collect, "log_sizes", lambda *_: (dict.fromkeys((FEW, MANY), 9_000 * self.polls), []))
        monkeypatch.setattr(collect, "offsets", lambda *_: (self._logs(), []))
        monkeypatch.setattr(collect, "local_starts", lambda *_: {})
        monkeypatch.setattr(collect, "policies", lambda *_: ({}, []))
        monkeypatch.setattr(collect, "stable_offsets", lambda *_: {})
        monkeypatch.setattr(collect, "probe_serving", lambda *_: ({}, []))

    def _groups(self) -> Poll:
        found = {}
        for name in ("g", "other"):
            seen = replace(group(member("m1", "c", 0), member("m2", "d", 1)), group=name)
            found[name] = self.poller._reading(seen, None, None, missed=0)
        return found

    def _logs(self) -> dict[Partition, Offsets]:
        return {FEW: Offsets(start=0, end=self.polls), MANY: Offsets(start=0, end=30 * self.polls)}

    def run(self, polls: int = 5) -> TrafficSnapshot:
        """Poll so often."""
        for _ in range(polls):
            self.polls += 1
            now = SECONDS * self.polls
            snapshot = self.cycle.turn(now=now, wall=now, rack_aware=False)
        return snapshot


def test_loads_are_records_and_weights_are_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition with one record in five seconds has a load, too; what crosses racks costs bytes as before."""
    written = Written(monkeypatch, groups={"g": {"balance": "records"}})
    of_g, of_other = written.run().groups
    by_records, by_counts = written.weights.weights("g"), written.weights.weights("other")
    assert by_records is not None
    assert by_records == by_counts
    assert dict(by_records) == {"t": (4096, 4096)}
    assert by_records.loads == {"t": (200, 6000)}
    assert of_g.problem is not None
    assert of_g.problem.loads is not None
    assert of_g.problem.loads.tolist() == [200, 6000]
    assert of_g.record_rates == pytest.approx({FEW: 200.0, MANY: 6000.0})
    assert (of_other.problem is not None and of_other.problem.loads, of_other.record_rates) == (None, {})
    rates = written.weights.rates("g")
    assert rates is not None
    assert rates[FEW].value == pytest.approx(9_000 / SECONDS)


@pytest.mark.parametrize("balance", ["partitions", "bytes"])
def test_nothing_is_kept_where_no_group_is_balanced_by_records(monkeypatch: pytest.MonkeyPatch, balance: str) -> None:
    """Bytes are known as ever."""
    written = Written(monkeypatch, balance=balance)
    snapshot = written.run()
    assert not written.poller._records._partitions
    assert not written.poller._records._blocks.size
    assert all(one.record_rates == {} for one in snapshot.groups)
    assert dict(written.weights.weights("g") or {}) == {"t": (4096, 4096)}


def test_partitions_wait_until_their_records_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that comes later is planned by counts meanwhile: bytes are no stand-in for records."""
    written = Written(monkeypatch, groups={"g": {"balance": "records"}})
    monkeypatch.setattr(written.poller._records, "rates", lambda _: {})  # as in the first polls
    written.run()
    assert written.weights.weights("g") is None
    assert written.weights.weights("other") is not None


def test_loads_of_records_follow_records_alone() -> None:
    """Records move between partitions while bytes stay, and the other way round."""
    book = WeightBook()

    def rates(few: float, many: float) -> dict[Partition, Rate]:
        return {FEW: Rate(few, 0.0, 480.0), MANY: Rate(many, 0.0, 480.0)}

    for written, records, loads, weights in (
        (rates(5.0, 5.0), rates(1.0, 9.0), (1, 9), (4096, 4096)),
        (rates(5.0, 5.0), rates(5.0, 5.0), (5, 5), (4096, 4096)),
        (rates(5.0, 40.0), rates(5.0, 5.0), (5, 5), (512, 4096)),
        (rates(5.0, 40.0), rates(2.0, 8.0), (2, 8), (512, 4096)),
    ):
        book.measured("g", written, records)
        known = book.weights("g")
        assert known is not None
        assert (known["t"], known.loads["t"]) == (weights, loads)
