"""A group member on kafka-python. Its subscription has no rack, even if it fetches with one.

It runs on kafka-python 2.0.2 as well, in a separate virtual environment (`lab.sandbox.members.programs`).
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Final

if find_spec("six") is not None:  # only with kafka-python 2: its own copy fails from Python 3.12 on
    sys.modules["kafka.vendor.six.moves"] = import_module("six.moves")

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition, __version__
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from lab.sandbox.members.lines import (
    MemberSettings,
    RebalanceLines,
    Recorder,
    ended_by_signal,
    parse,
    python_settings,
)

_ASSIGNORS: Final[dict[str, Any]] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
if not __version__.startswith("2."):
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    _ASSIGNORS["cooperative-sticky"] = CooperativeStickyAssignor


class _ToEveryone(RoundRobinPartitionAssignor):  # type: ignore[misc]  # kafka-python has no annotations
    """Deals partitions to every member in turn, whatever it subscribes to, as the default of @platformatic/kafka."""

    @classmethod
    def assign(cls, cluster: Any, members: Any) -> Any:
        """Return the assignments of members that all subscribe to what any of them does."""
        topics = sorted({topic for member in members for topic in member.metadata.topics})
        alike = [
            SimpleNamespace(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=cls.metadata(topics),
            )
            for member in members
        ]
        return super().assign(cluster, alike)


_ASSIGNORS["roundrobin-to-everyone"] = _ToEveryone
BUSY: Final = "busy.seconds"
"""A property of this program only: how long it works on what a poll returned."""
_POLL_MS: Final = 3000
"""kafka-python has only the rest of a poll's time to commit before it releases its partitions (one second is too little
on a busy machine: the next owner reads twice what was not committed), and it may forget a join that ends between two
polls: the member then stays in the group for ever, and reads nothing. A poll with records returns earlier."""


class _Listener(RebalanceLines, ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no annotations
    """Prints rebalance events; called on kafka-python's own thread."""


def _consumer(settings: MemberSettings, recorder: Recorder) -> Any:
    def committed(offsets: Mapping[TopicPartition, Any], answer: object) -> None:
        if not isinstance(answer, Exception):
            recorder.committed({(one.topic, one.partition): at.offset for one, at in offsets.items()})

    return KafkaConsumer(**python_settings(settings, _ASSIGNORS), default_offset_commit_callback=committed)


def main() -> None:
    """Consume until SIGTERM."""
    settings = parse(__doc__ or "")
    properties = dict(settings.properties)
    busy_seconds = float(properties.pop(BUSY, "0"))
    settings = replace(settings, properties=properties)
    recorder = Recorder()
    ended = ended_by_signal()
    consumer = _consumer(settings, recorder)

    def generation() -> int:
        if __version__.startswith("2."):
            return int(consumer._coordinator._generation.generation_id)  # noqa: SLF001 - kafka-python 2 has no public function for it
        return int(consumer.group_metadata().generation_id)

    recorder.event("started", client="kafka-python", client_id=settings.client_id)
    consumer.subscribe(topics=list(settings.topics), listener=_Listener(recorder, generation))
    try:
        while not ended.is_set():
            for partition, records in consumer.poll(timeout_ms=_POLL_MS).items():
                for record in records:
                    recorder.read(partition.topic, partition.partition, record.offset)
            recorder.flush()  # before the next poll, which may commit
            until = time.monotonic() + busy_seconds
            while time.monotonic() < until and not ended.is_set():
                time.sleep(0.1)
            recorder.generation(generation())
    finally:
        recorder.flush()
        consumer.close()
        recorder.event("closed")


if __name__ == "__main__":
    main()
