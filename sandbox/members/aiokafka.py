"""A group member on aiokafka. Its subscription has no rack, even if it fetches with one."""

import asyncio
import signal
from collections.abc import Callable, Iterable
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from sandbox.members.lines import MemberSettings, Recorder, parse, python_settings

_ASSIGNORS: Final[dict[str, Any]] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class _Listener(ConsumerRebalanceListener):
    """Prints rebalance events."""

    def __init__(self, recorder: Recorder, generation: Callable[[], int]) -> None:
        self._recorder = recorder
        self._generation = generation

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Prints all partitions that the member has now."""
        self._tell("assigned", assigned)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Prints revoked partitions, whose offsets are already committed."""
        self._tell("revoked", revoked)

    def _tell(self, kind: str, partitions: Iterable[TopicPartition]) -> None:
        named = [(partition.topic, partition.partition) for partition in partitions]
        self._recorder.partitions(kind, named, generation=self._generation())


def _consumer(settings: MemberSettings) -> Any:
    return AIOKafkaConsumer(  # type: ignore[no-untyped-call]  # aiokafka has few annotations
        bootstrap_servers=settings.bootstrap.split(","),
        group_id=settings.group,
        client_id=settings.client_id,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1000,
        partition_assignment_strategy=[_ASSIGNORS[name] for name in settings.assignors or ("range",)],
        **({} if settings.rack is None else {"client_rack": settings.rack}),
        **({} if settings.instance_id is None else {"group_instance_id": settings.instance_id}),
        **python_settings(settings.properties),
    )


async def _consume(settings: MemberSettings) -> None:
    recorder = Recorder()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_signal_handler(signal.SIGINT, ended.set)
    consumer = _consumer(settings)

    def generation() -> int:
        return int(getattr(consumer._coordinator, "generation", -1))  # noqa: SLF001 - aiokafka has no public function for it

    recorder.event("started", client="aiokafka", client_id=settings.client_id)
    consumer.subscribe(topics=list(settings.topics), listener=_Listener(recorder, generation))
    await consumer.start()
    try:
        while not ended.is_set():
            for partition, records in (await consumer.getmany(timeout_ms=50)).items():
                for record in records:
                    recorder.read(partition.topic, partition.partition, record.offset)
            recorder.flush()  # before anything else runs, which may commit
            recorder.generation(generation())
    finally:
        recorder.flush()
        await consumer.stop()
        recorder.event("closed")


def main() -> None:
    """Consumes until SIGTERM."""
    asyncio.run(_consume(parse(__doc__ or "")))


if __name__ == "__main__":
    main()
