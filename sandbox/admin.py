"""What tests and the demo do to a cluster from outside: topics with explicit replicas, moves, elections, and waiting.

kafka-python's admin client is used because confluent-kafka's cannot move replicas. Every function that changes
something returns only when the brokers' metadata shows it.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from sandbox.errors import SandboxError

_PREFERRED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Where one partition lives.

    Attributes:
        leader: the leader's broker id; -1 while there is none.
        replicas: broker ids, the preferred leader first.
        in_sync: broker ids.
    """

    leader: int
    replicas: tuple[int, ...]
    in_sync: frozenset[int]


def wait_until(holds: Callable[[], bool], what: str, *, timeout: float = 30.0, pause: float = 0.05) -> float:
    """Waits until a condition holds; a Kafka error while asking counts as "not yet".

    Args:
        holds: asks.
        what: the condition in words, for the error.
        timeout: seconds to wait.
        pause: seconds between two questions.

    Returns:
        The seconds it took.

    Raises:
        SandboxError: the time is over.
    """
    begun = time.monotonic()
    last = ""
    while True:
        try:
            if holds():
                return time.monotonic() - begun
        except KafkaError as error:
            last = f" (last error: {error})"
        if time.monotonic() - begun > timeout:
            raise SandboxError(f"waited {timeout:.0f} s in vain until {what}{last}")
        time.sleep(pause)


class Admin:
    """A cluster's administration; a context manager.

    Example:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("orders", [[1, 2], [2, 3], [3, 1]])
            admin.move_replicas({("orders", 0): [3, 1]})
    """

    def __init__(self, bootstrap: str, *, timeout: float = 30.0) -> None:
        """Connects.

        Args:
            bootstrap: `bootstrap.servers`.
            timeout: seconds that any change may take until it shows.
        """
        self._timeout = timeout
        # kafka-python has no annotations: what its client returns is typed where it is used.
        self._client: Any = KafkaAdminClient(
            bootstrap_servers=bootstrap.split(","), client_id="samerack-sandbox", reconnect_backoff_max_ms=200
        )

    def close(self) -> None:
        """Disconnects."""
        self._client.close()

    def __enter__(self) -> Self:
        """Returns itself: the constructor has connected."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Disconnects."""
        self.close()

    def racks(self) -> dict[int, str | None]:
        """Returns the rack of every broker that the cluster lists, by broker id."""
        brokers: list[dict[str, Any]] = self._ask(self._client.describe_cluster)["brokers"]
        return {int(broker["broker_id"]): broker["rack"] or None for broker in brokers}

    def replicas(self, topics: Iterable[str]) -> dict[tuple[str, int], Replicas]:
        """Returns where the partitions of these topics live; topics that do not exist are left out."""
        wanted = list(topics)
        described: list[dict[str, Any]] = self._ask(lambda: self._client.describe_topics(wanted))
        return {
            (topic["name"], partition["partition_index"]): Replicas(
                leader=partition["leader_id"],
                replicas=tuple(partition["replica_nodes"]),
                in_sync=frozenset(partition["isr_nodes"]),
            )
            for topic in described
            for partition in topic["partitions"]
        }

    def create_topic(
        self, topic: str, assignment: Sequence[Sequence[int]], *, config: Mapping[str, str] | None = None
    ) -> None:
        """Creates a topic whose partition i lives on the brokers `assignment[i]`, the leader first.

        Raises:
            SandboxError: it does not show in time.
            KafkaError: the cluster refuses.
        """
        placed = {partition: list(brokers) for partition, brokers in enumerate(assignment)}
        self._client.create_topics({topic: {"assignments": placed, "configs": dict(config or {})}})
        self._wait_placed({(topic, partition): brokers for partition, brokers in placed.items()})

    def delete_topic(self, topic: str) -> None:
        """Deletes a topic."""
        self._client.delete_topics([topic])
        wait_until(lambda: not self.replicas([topic]), f"topic {topic} is gone", timeout=self._timeout)

    def add_partitions(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """Adds partitions to a topic, one for each list of brokers."""
        present = len(self.replicas([topic]))
        added = {(topic, present + index): list(brokers) for index, brokers in enumerate(assignment)}
        new = {"count": present + len(added), "assignments": list(added.values())}
        self._client.create_partitions({topic: new})
        self._wait_placed(added)

    def move_replicas(self, moves: Mapping[tuple[str, int], Sequence[int]], *, elect: bool = True) -> float:
        """Moves partitions to other brokers and waits until the data has followed.

        Args:
            moves: (topic, partition) to its new brokers, the preferred leader first.
            elect: make the first broker of each list the leader.

        Returns:
            The seconds until metadata showed all of it.

        Raises:
            SandboxError: a partition was refused, or the move does not show in time.
        """
        begun = time.monotonic()
        wanted = {TopicPartition(topic, partition): list(brokers) for (topic, partition), brokers in moves.items()}
        answers: dict[TopicPartition, type[Exception] | None] = self._client.alter_partition_reassignments(wanted)
        refused = {f"{p.topic}-{p.partition}": error.__name__ for p, error in answers.items() if error is not None}
        if refused or len(answers) != len(wanted):
            raise SandboxError(f"the cluster moves {len(answers)} of {len(wanted)} partitions; refused: {refused}")

        def moved() -> bool:
            return not self._client.list_partition_reassignments(list(wanted))

        wait_until(moved, f"the replicas of {len(wanted)} partitions have moved", timeout=self._timeout)
        self._wait_placed(moves, leaders=False)
        if elect:
            self.elect_leaders(moves)
        return time.monotonic() - begun

    def elect_leaders(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Makes the first replica of each partition its leader."""
        wanted = list(partitions)
        by_topic: dict[str, list[int]] = {}
        for topic, partition in wanted:
            by_topic.setdefault(topic, []).append(partition)
        self._client.elect_leaders(_PREFERRED, by_topic)
        placed = self.replicas({topic for topic, _ in wanted})
        self._wait_placed({partition: placed[partition].replicas for partition in wanted})

    def _ask(self, question: Callable[[], Any]) -> Any:
        """Asks again while the broker that was asked is the one that has just been stopped."""
        answers: list[Any] = []

        def answered() -> bool:
            answers.append(question())
            return True

        wait_until(answered, "a broker answers", timeout=self._timeout)
        return answers[0]

    def _wait_placed(self, wanted: Mapping[tuple[str, int], Sequence[int]], *, leaders: bool = True) -> None:
        topics = sorted({topic for topic, _ in wanted})

        def shows() -> bool:
            placed = self.replicas(topics)
            return all(
                (found := placed.get(partition)) is not None
                and found.replicas == tuple(brokers)
                and found.in_sync == set(brokers)
                and (not leaders or found.leader == brokers[0])
                for partition, brokers in wanted.items()
            )

        wait_until(
            shows, f"metadata shows {len(wanted)} partitions of {topics} where they belong", timeout=self._timeout
        )


def wait_for_racks(bootstrap: str, expected: Mapping[int, str | None], *, timeout: float = 30.0) -> None:
    """Waits until the broker at `bootstrap` lists exactly these brokers with these racks.

    Raises:
        SandboxError: it does not in time.
    """
    with Admin(bootstrap) as admin:
        wait_until(lambda: admin.racks() == expected, f"{bootstrap} lists {dict(expected)}", timeout=timeout)
