"""Draws the groups of a simulated fleet: cluster, members and topics of each, and the changes it will go through.

Every group has its own seed, so that a larger fleet starts with the groups of a smaller one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar
from uuid import UUID

from samerack.common.errors import SettingsError

_Value = TypeVar("_Value")

START: Final = 1_793_491_200_000
"""Default first moment of a simulated fleet: 2026-11-01, fixed, so that a seed gives the same bytes."""
DAY: Final = 86_400_000
MAX_RACKS: Final = 50

_KINDS: Final = (("classic", 75), ("consumer", 15), ("streams-classic", 7), ("streams", 3))
_ASSIGNORS: Final = (("range", 40), ("cooperative-sticky", 30), ("roundrobin", 15), ("sticky", 15))
_ASSIGNOR_OF_KIND: Final = {"consumer": "uniform", "streams-classic": "stream", "streams": "streams"}
_REPLICATION: Final = ((1, 10), (2, 30), (3, 60))
_PARTITIONS: Final = ((6, 30), (12, 30), (24, 25), (48, 10), (96, 5))
_TOPICS: Final = ((1, 55), (2, 30), (3, 15))
_MEDIAN_RATE: Final = 13.8
"""Logarithm of the median group's bytes per second: 1 MB/s."""
_READERS: Final = 10
"""Number of groups of a cluster for each of its shared topics."""
_WORDS: Final = ("orders", "payments", "clicks", "search", "fraud", "billing", "email", "audit", "stock", "ads", "geo")
_JOBS: Final = ("sink", "loader", "enricher", "api", "report", "index", "alert", "copy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What to simulate.

    Attributes:
        groups: consumer groups, over all clusters.
        racks: racks of each cluster.
        days: simulated time; fractions are allowed.
        seed: the same seed gives the same records, byte for byte.
        start: first moment, milliseconds since 1970.
        step_seconds: length of a sample's window.
        state_seconds: time between two states of a group, a step at least; changes give one at once.
        partitions: partitions of each group's only topic; None draws topics and partitions.
        members: members of each group; None draws them.
        led: share of classic groups that an agent leads, some of them from the start.
        losing: share of groups that lose rack awareness at some time, as after a faulty deployment.
        moving: share of topics whose replicas move at some time.
        shared: share of groups that read a topic which other groups of the cluster read too.
    """

    groups: int = 20
    clusters: int = 2
    racks: int = 3
    days: float = 1.0
    seed: int = 1
    start: int = START
    step_seconds: int = 60
    state_seconds: int = 3600
    partitions: int | None = None
    members: int | None = None
    led: float = 0.5
    losing: float = 0.1
    moving: float = 0.2
    shared: float = 0.4

    def __post_init__(self) -> None:
        least = {"groups": self.groups, "clusters": self.clusters, "racks": self.racks, "step": self.step_seconds}
        for name, value in least.items():
            if value < 1:
                raise SettingsError(f"{name}: is {value}; a fleet needs at least 1")
        if self.racks > MAX_RACKS:
            raise SettingsError(f"racks: is {self.racks}; at most {MAX_RACKS}")
        if not self.days > 0:
            raise SettingsError(f"days: is {self.days}; give more than 0, e.g. 0.5 for twelve hours")

    @property
    def steps(self) -> int:
        """Number of windows in the simulated time."""
        return max(1, round(self.days * DAY / 1000 / self.step_seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member; `tells_rack`: it has `client.rack`, which it sends in subscriptions and fetches."""

    id: str
    client_id: str
    rack: int
    tells_rack: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic.

    Attributes:
        replicas: racks of each partition's replicas, the leader's first.
        rates: wire bytes per second of each partition, on average over a day.
        moves_at: step at which its replicas move, or None.
    """

    name: str
    replicas: tuple[tuple[int, ...], ...]
    rates: tuple[float, ...]
    moves_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group at the start, and its later changes.

    Attributes:
        kind: as `common.records.GroupState` has it.
        rack_aware_fetch: whether the cluster's brokers serve from the reader's rack.
        topics: what all members read.
        record_bytes: average size of a record.
        led_from: step from which an agent leads it, or None.
        loses_at: step at which members lose their `client.rack`, or None.
        forgets_racks: whether their racks are unknown then; else the agent still knows them from its maps.
    """

    cluster: str
    name: str
    kind: str
    assignor: str
    rack_aware_fetch: bool
    racks: tuple[str, ...]
    members: tuple[Member, ...]
    topics: tuple[Topic, ...]
    record_bytes: int
    led_from: int | None
    loses_at: int | None
    forgets_racks: bool


def cast_of(fleet: Fleet, index: int) -> Group:
    """Return the group of this number."""
    draw = Random(f"{fleet.seed}/{index}")  # noqa: S311 - a simulation, not a secret
    cluster = index % fleet.clusters
    kind = _pick(draw, _KINDS)
    name = f"{draw.choice(_WORDS)}-{draw.choice(_JOBS)}-{index}"
    topics = (*_topics(fleet, draw, name), *_shared(fleet, draw, index))
    return Group(
        cluster=f"kafka-{cluster + 1}",
        name=name,
        kind=kind,
        assignor=_ASSIGNOR_OF_KIND.get(kind) or _pick(draw, _ASSIGNORS),
        # brokers of every second cluster keep their default, which serves from leaders only
        rack_aware_fetch=cluster % 2 == 0,
        racks=rack_names(fleet.racks),
        members=_members(fleet, draw, name, max(len(topic.replicas) for topic in topics)),
        topics=topics,
        record_bytes=draw.randint(150, 4000),
        led_from=_led_from(fleet, draw) if kind == "classic" else None,
        loses_at=_some_step(fleet, draw, fleet.losing),
        forgets_racks=draw.random() < 0.3,
    )


def rack_names(count: int) -> tuple[str, ...]:
    """Return names for `count` racks: rack-a, rack-b, ... rack-z, rack-aa, and so on."""
    return tuple(f"rack-{'abcdefghijklmnopqrstuvwxyz'[n % 26] * (n // 26 + 1)}" for n in range(count))


def _pick(draw: Random, weighted: Sequence[tuple[_Value, int]]) -> _Value:
    values, weights = zip(*weighted, strict=True)
    value: _Value = draw.choices(values, weights)[0]
    return value


def _some_step(fleet: Fleet, draw: Random, share: float) -> int | None:
    """Return a step in the middle of the time with this probability; draws the same numbers in either case."""
    chosen, when = draw.random() < share, draw.uniform(0.2, 0.8)
    return max(1, int(when * fleet.steps)) if chosen else None


def _led_from(fleet: Fleet, draw: Random) -> int | None:
    """Return the step from which an agent leads: the start in two of five led groups, else a later one."""
    early, when = draw.random() < 0.4, _some_step(fleet, draw, fleet.led)
    return 0 if early and when is not None else when


def _topics(fleet: Fleet, draw: Random, group: str) -> tuple[Topic, ...]:
    """Return the topics that only this group reads."""
    counts = [fleet.partitions] if fleet.partitions else [_pick(draw, _PARTITIONS) for _ in range(_pick(draw, _TOPICS))]
    volume = draw.lognormvariate(_MEDIAN_RATE, 1.5)
    parts = [draw.random() + 0.1 for _ in counts]
    return tuple(
        _topic(fleet, draw, f"{group}.{number}", count, volume * part / sum(parts))
        for number, (count, part) in enumerate(zip(counts, parts, strict=True))
    )


def _shared(fleet: Fleet, draw: Random, index: int) -> tuple[Topic, ...]:
    """Return the topic, if any, that the group shares with others of its cluster; the first groups get the first."""
    reads, number = draw.random() < fleet.shared, draw.randrange(1 + index // fleet.clusters // _READERS)
    if fleet.partitions or not reads:
        return ()
    cluster = index % fleet.clusters
    same = Random(f"{fleet.seed}/{cluster}/{number}")  # noqa: S311 - a simulation, not a secret
    name = f"events-{cluster + 1}-{number}"
    return (_topic(fleet, same, name, _pick(same, _PARTITIONS), same.lognormvariate(_MEDIAN_RATE, 1.0)),)


def _topic(fleet: Fleet, draw: Random, name: str, count: int, volume: float) -> Topic:
    return Topic(
        name=name,
        replicas=_replicas(fleet.racks, draw, count),
        rates=_rates(draw, count, volume),
        moves_at=_some_step(fleet, draw, fleet.moving),
    )


def _replicas(racks: int, draw: Random, count: int) -> tuple[tuple[int, ...], ...]:
    """Return replicas spread as Kafka does: leaders in turn, followers in the next racks, with a growing step.

    Leaders of about every fourth topic are concentrated in some racks, as after broker restarts.
    """
    followers = min(_pick(draw, _REPLICATION), racks) - 1
    start, drifted = draw.randrange(racks), draw.random() < 0.25
    weights = [draw.random() ** 2 + 0.01 for _ in range(racks)]
    rows = []
    for number in range(count):
        leader = draw.choices(range(racks), weights)[0] if drifted else (start + number) % racks
        step = number // racks
        rows.append((leader, *((leader + 1 + (step + n) % (racks - 1)) % racks for n in range(followers))))
    return tuple(rows)


def _rates(draw: Random, count: int, volume: float) -> tuple[float, ...]:
    """Return rates by Zipf's law with an exponent from 0 to 1.1, in random order."""
    exponent = draw.uniform(0.0, 1.1)
    parts = [rank**-exponent for rank in range(1, count + 1)]
    draw.shuffle(parts)
    whole = sum(parts)
    return tuple(round(volume * part / whole, 1) for part in parts)


def _members(fleet: Fleet, draw: Random, group: str, partitions: int) -> tuple[Member, ...]:
    count = fleet.members or min(partitions, 1 + int(draw.lognormvariate(1.3, 0.7)))
    uneven = [draw.random() ** 2 + 0.01 for _ in range(fleet.racks)]
    weights = _pick(draw, (([1.0] * fleet.racks, 25), (uneven, 25), ([], 50)))
    start = draw.randrange(fleet.racks)
    tells = _pick(draw, ((1.0, 65), (0.5, 15), (0.0, 20)))
    return tuple(
        Member(
            id=f"{group}-{number}-{UUID(int=draw.getrandbits(128))}",
            client_id=f"{group}-{number}",
            rack=draw.choices(range(fleet.racks), weights)[0] if weights else (start + number) % fleet.racks,
            tells_rack=draw.random() < tells,
        )
        for number in range(count)
    )
