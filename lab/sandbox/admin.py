"""Cluster administration for tests and the demo: topics with explicit replicas, moves, elections, and waiting.

Most of it uses confluent-kafka's admin client, which tolerates a missing broker. That client cannot move replicas;
kafka-python's client does so. Every function that changes something returns only when metadata shows the change.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # exported in fact
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka import TopicPartition as MovedPartition
from kafka.admin import KafkaAdminClient

from lab.sandbox.errors import SandboxError
from lab.sandbox.processes import PATIENCE

_ANSWER_SECONDS: Final = 5.0
_LONGEST_PAUSE: Final = 0.25
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The ids of one partition's brokers."""

    leader: int  # -1 while there is none
    replicas: tuple[int, ...]  # the preferred leader first
    in_sync: frozenset[int]


def wait_until(holds: Callable[[], bool], what: str, *, timeout: float = 60.0, pause: float = 0.05) -> float:
    """Wait until a condition holds, which `what` says in words; return the seconds it took.

    A Kafka error while asking counts as "not yet". The timeout is multiplied by `PATIENCE`; checks are `pause` seconds
    apart at first.
    """
    timeout *= PATIENCE
    begun = time.monotonic()
    last = ""
    while True:
        try:
            if holds():
                return time.monotonic() - begun
        except KafkaException as error:
            last = f" (last error: {error})"
        if time.monotonic() - begun > timeout:
            raise SandboxError(f"waited {timeout:.0f} s in vain until {what}{last}")
        # what has taken long is asked for less often: each question is work for the brokers
        time.sleep(max(pause, min(_LONGEST_PAUSE, (time.monotonic() - begun) / 20)))


def wait_for(question: Callable[[], T], what: str = "a broker answers") -> T:
    """Repeat a question until a broker answers, since the first one may have just been stopped; return the answer."""
    answers: list[T] = []

    def answered() -> bool:
        answers.append(question())
        return True

    wait_until(answered, what)
    return answers[0]


class Admin:
    """A cluster's administration; a context manager.

    Example:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("orders", [[1, 2], [2, 3], [3, 1]])
            admin.move_replicas({("orders", 0): [3, 1]})
    """

    def __init__(self, bootstrap: str) -> None:
        """Prepare a client, which connects on its first request."""
        self._client = _client(bootstrap)

    def close(self) -> None:
        """Disconnect."""
        self._client.poll(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect."""
        self.close()

    def racks(self) -> dict[int, str | None]:
        """Return the rack of every broker that the cluster lists, by broker id."""
        nodes = wait_for(lambda: self._client.describe_cluster(request_timeout=_ANSWER_SECONDS).result()).nodes
        return {int(node.id): node.rack or None for node in sorted(nodes, key=lambda node: int(node.id))}

    def replicas(self, topics: Iterable[str]) -> dict[tuple[str, int], Replicas]:
        """Return the brokers of the partitions of these topics; topics that do not exist are left out."""
        asked = tuple(topics)
        return wait_for(lambda: _placed(self._client, asked))

    def ends(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """Return the end offset of every partition of these topics."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(*partition): latest for partition in self.replicas(topics)}

        def answers() -> dict[tuple[str, int], int]:
            # a new client each time: librdkafka keeps the leader epochs that it knows, also when brokers refuse them
            client = _client(",".join(self._addresses()))
            found = client.list_offsets(asked, request_timeout=_ANSWER_SECONDS)
            return {(one.topic, one.partition): int(future.result().offset) for one, future in found.items()}

        return wait_for(answers)

    def create_topic(
        self, topic: str, assignment: Sequence[Sequence[int]], *, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic with partition i on the brokers `assignment[i]`, the leader first.

        Raises:
            SandboxError: metadata does not show it in time.
            KafkaException: the cluster refuses.
        """
        placed = [list(brokers) for brokers in assignment]
        new = NewTopic(topic, num_partitions=len(placed), replica_assignment=placed, config=dict(config or {}))
        _all_done(self._client.create_topics([new]))
        self._wait_led({(topic, number): brokers for number, brokers in enumerate(placed)})

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        _all_done(self._client.delete_topics([topic]))
        wait_until(lambda: not self.replicas([topic]), f"topic {topic} is gone")

    def add_partitions(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """Add partitions to a topic, one for each list of brokers."""
        present = len(self.replicas([topic]))
        added = [list(brokers) for brokers in assignment]
        _all_done(self._client.create_partitions([NewPartitions(topic, present + len(added), added)]))
        self._wait_led({(topic, present + number): brokers for number, brokers in enumerate(added)})

    def move_replicas(self, moves: Mapping[tuple[str, int], Sequence[int]]) -> float:
        """Move partitions to other brokers, wait until their data is copied, and make the first of each the leader.

        `moves` is (topic, partition) to its new brokers. Returns the seconds it took.
        """
        begun = time.monotonic()
        wanted = {MovedPartition(topic, number): list(brokers) for (topic, number), brokers in moves.items()}
        # kafka-python has few annotations, and leaves sockets open when it connects to a stopped broker.
        mover: Any = KafkaAdminClient(bootstrap_servers=self._addresses())
        try:
            answers: dict[MovedPartition, type[Exception] | None] = mover.alter_partition_reassignments(wanted)
            refused = {f"{p.topic}-{p.partition}": error.__name__ for p, error in answers.items() if error is not None}
            if refused or len(answers) != len(wanted):
                raise SandboxError(
                    f"the cluster answered for {len(answers)} of {len(wanted)} moves; refused: {refused}"
                )
            wait_until(
                lambda: not mover.list_partition_reassignments(list(wanted)),
                f"the replicas of {len(wanted)} partitions have moved",
            )
        finally:
            mover.close()
        self._wait_led(moves)
        return time.monotonic() - begun

    def elect_leaders(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Make the first replica of each partition its leader."""
        wanted = list(partitions)
        asked = [TopicPartition(topic, number) for topic, number in wanted]
        answers: dict[TopicPartition, KafkaError | None] = self._client.elect_leaders(
            ElectionType.PREFERRED, asked
        ).result()
        for partition, refusal in answers.items():
            if refusal is not None and refusal.code() != KafkaError.ELECTION_NOT_NEEDED:
                raise SandboxError(f"no election for {partition.topic}-{partition.partition}: {refusal}")
        topics = sorted({topic for topic, _ in wanted})

        def lead() -> bool:
            # read each time: the broker that answers may be behind the one that answered before
            placed = self.replicas(topics)
            return all(
                (found := placed.get(partition)) is not None
                and found.leader == found.replicas[0]
                and found.in_sync == set(found.replicas)
                for partition in wanted
            )

        wait_until(lead, f"the first replicas of {len(wanted)} partitions of {topics} lead")

    def _wait_led(self, wanted: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Wait until partitions are placed, and elect the first brokers, which Kafka skips if they started late."""
        self._wait_placed(wanted, leaders=False)
        self.elect_leaders(wanted)
        self._wait_placed(wanted)

    def _wait_placed(self, wanted: Mapping[tuple[str, int], Sequence[int]], *, leaders: bool = True) -> None:
        """Wait until every broker shows it: each has its own view, and the next request may go to any of them."""
        topics = sorted({topic for topic, _ in wanted})
        showing: set[str] = set()

        def shows(client: AdminClient) -> bool:
            placed = _placed(client, topics)
            return all(
                (found := placed.get(partition)) is not None
                and found.replicas == tuple(brokers)
                and found.in_sync == set(brokers)
                and (not leaders or found.leader == brokers[0])
                for partition, brokers in wanted.items()
            )

        def all_show() -> bool:
            if not shows(self._client):
                return False
            living = set(self._addresses())
            # a new client asks its bootstrap broker; later it would ask any broker
            showing.update(address for address in living - showing if shows(_client(address)))
            return living <= showing

        wait_until(all_show, f"metadata shows {len(wanted)} partitions of {topics} where they belong")

    def _addresses(self) -> list[str]:
        """Return the addresses of the brokers that the cluster lists."""
        brokers = wait_for(lambda: self._client.list_topics(timeout=_ANSWER_SECONDS)).brokers.values()
        return [f"{broker.host}:{broker.port}" for broker in brokers]


def _client(bootstrap: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "samerack-sandbox",
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,  # brokers stop and start here; real errors are raised
        }
    )


def _placed(client: AdminClient, topics: Iterable[str]) -> dict[tuple[str, int], Replicas]:
    known = client.list_topics(timeout=_ANSWER_SECONDS).topics
    return {
        (topic, number): Replicas(
            leader=partition.leader, replicas=tuple(partition.replicas), in_sync=frozenset(partition.isrs)
        )
        for topic in topics
        if topic in known
        for number, partition in sorted(known[topic].partitions.items())
    }


def _all_done(futures: Mapping[str, Future[None]]) -> None:
    for future in futures.values():
        future.result()


def wait_for_racks(bootstrap: str, expected: Mapping[int, str | None], *, timeout: float) -> None:
    """Wait until the broker at `bootstrap` lists exactly these brokers with these racks."""
    with Admin(bootstrap) as admin:
        wait_until(lambda: admin.racks() == expected, f"{bootstrap} lists {dict(expected)}", timeout=timeout)
