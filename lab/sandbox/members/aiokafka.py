"""A group member on aiokafka. Its subscription has no rack, even if it fetches with one."""

import asyncio
import signal
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from lab.sandbox.members.lines import MemberSettings, RebalanceLines, Recorder, parse, python_settings

_ASSIGNORS: Final[dict[str, Any]] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class _Listener(RebalanceLines, ConsumerRebalanceListener):
    """Prints rebalance events."""


async def _consume(settings: MemberSettings) -> None:
    recorder = Recorder()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_signal_handler(signal.SIGINT, ended.set)
    consumer: Any = AIOKafkaConsumer(**python_settings(settings, _ASSIGNORS))  # type: ignore[no-untyped-call]  # it has few annotations

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
    """Consume until SIGTERM."""
    asyncio.run(_consume(parse(__doc__ or "")))


if __name__ == "__main__":
    main()
