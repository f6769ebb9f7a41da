"""A group member on librdkafka (confluent-kafka). It also prints the bytes received from each broker every second."""

import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lab.sandbox.members.lines import MemberSettings, Partition, Recorder, Throttle, ended_by_signal, parse

BOUND = "records.per.second.in"
"""A property of this program alone: a file with the number of records that it reads in a second at most."""


def _configuration(settings: MemberSettings) -> dict[str, str | int | bool]:
    configuration: dict[str, str | int | bool] = {
        "bootstrap.servers": settings.bootstrap,
        "group.id": settings.group,
        "client.id": settings.client_id,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 1000,
        "enable.auto.offset.store": False,  # stored once printed
        "statistics.interval.ms": 1000,
        # Stopped brokers are part of the tests.
        "log_level": 3,
    }
    if settings.rack is not None:
        configuration["client.rack"] = settings.rack
    if settings.assignors:
        configuration["partition.assignment.strategy"] = ",".join(settings.assignors)
    if settings.instance_id is not None:
        configuration["group.instance.id"] = settings.instance_id
    return {**configuration, **{key: value for key, value in settings.properties.items() if key != BOUND}}


def _received(statistics: str) -> dict[str, int]:
    brokers = json.loads(statistics)["brokers"].values()
    received: dict[str, int] = {}
    for broker in brokers:
        if broker["nodeid"] > 0:  # bootstrap connections have no id; the coordinator has a further connection
            received[str(broker["nodeid"])] = received.get(str(broker["nodeid"]), 0) + broker["rxbytes"]
    return received


def _generation(consumer: Consumer) -> int:
    """Return the generation from librdkafka's serialised metadata: a prefix of seven bytes, then the number."""
    return int.from_bytes(bytes(consumer.consumer_group_metadata())[7:11], sys.byteorder, signed=True)


def main() -> None:
    """Consume until SIGTERM; client ids and racks separated by commas are several members, each on its own thread."""
    settings = parse(__doc__)
    ended = ended_by_signal()
    members = _each(settings)
    if len(members) == 1:
        _consume(settings, Recorder, ended)
        return
    threads = [
        threading.Thread(target=_consume, args=(one, partial(Recorder, member=one.client_id), ended)) for one in members
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.5)  # so that signals are handled


def _each(settings: MemberSettings) -> list[MemberSettings]:
    names = settings.client_id.split(",")
    racks = [None] * len(names) if settings.rack is None else settings.rack.split(",")
    return [replace(settings, client_id=name, rack=rack) for name, rack in zip(names, racks, strict=True)]


def _consume(settings: MemberSettings, record: Callable[..., Recorder], ended: threading.Event) -> None:
    def store(partition: Partition, after: int) -> None:
        with suppress(KafkaException):  # it has been revoked meanwhile
            consumer.store_offsets(offsets=[TopicPartition(*partition, after)])

    recorder = record(printed=store)

    def report(kind: str, partitions: list[TopicPartition]) -> None:
        named = [(partition.topic, partition.partition) for partition in partitions]
        recorder.partitions(kind, named, generation=_generation(consumer))

    def committed(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is None:
            recorder.committed({(one.topic, one.partition): one.offset for one in partitions if one.error is None})

    def failed(error: KafkaError) -> None:
        recorder.event("error", message=str(error))

    configuration: dict[str, object] = {
        **_configuration(settings),
        "stats_cb": lambda statistics: recorder.event("statistics", brokers=_received(statistics)),
        "error_cb": failed,
        "on_commit": committed,
    }
    consumer = Consumer(configuration)
    throttle = Throttle(settings.properties.get(BOUND, ""))
    recorder.event("started", client="confluent", client_id=settings.client_id)
    consumer.subscribe(
        list(settings.topics),
        on_assign=lambda _consumer, partitions: report("assigned", partitions),
        on_revoke=lambda _consumer, partitions: report("revoked", partitions),
        on_lost=lambda _consumer, partitions: report("lost", partitions),
    )
    try:
        while not ended.is_set():
            message = None if throttle.waits() else consumer.poll(0.05)
            if message is not None:
                error = message.error()
                if error is not None:
                    recorder.event("error", message=str(error))
                else:
                    throttle.read()
                    recorder.read(str(message.topic()), int(message.partition() or 0), int(message.offset() or 0))
            recorder.flush_if_due()
            recorder.generation(_generation(consumer))
    except KafkaException as error:
        recorder.event("error", message=str(error))
        raise
    finally:
        recorder.flush()
        consumer.close()
        recorder.event("closed")


if __name__ == "__main__":
    main()
