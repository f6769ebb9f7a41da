"""Draws the groups of a simulated fleet: cluster, members and topics of each, and the changes it will go through.

Every group has its own seed, so that a larger fleet starts with the groups of a smaller one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

from samerack.common.errors import SettingsError
from samerack.common.records import UNKNOWN, GroupState, MemberState, TopicState

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
class SimulatedGroup:
    """A group at the start, and its later changes.

    Attributes:
        state: at the start, without owners; rates are averages over a day.
        record_bytes: average size of a record.
        moves_at: step at which the replicas of a topic move, by the topics of which they do.
        led_from: step from which an agent leads it, or None.
        loses_at: step at which members lose their `client.rack`, or None.
        forgets_racks: whether their racks are unknown then; else the agent still knows them from its maps.
    """

    state: GroupState
    record_bytes: int
    moves_at: Mapping[str, int]
    led_from: int | None
    loses_at: int | None
    forgets_racks: bool


def cast_of(fleet: Fleet, index: int) -> SimulatedGroup:
    """Return the group of this number."""
    draw = Random(f"{fleet.seed}/{index}")  # noqa: S311 - a simulation, not a secret
    cluster = index % fleet.clusters
    kind = _pick(draw, _KINDS)
    name = f"{draw.choice(_WORDS)}-{draw.choice(_JOBS)}-{index}"
    read = (*_topics(fleet, draw, name), *_shared(fleet, draw, index))
    topics = tuple(topic for topic, _ in read)
    assignor = _ASSIGNOR_OF_KIND.get(kind) or _pick(draw, _ASSIGNORS)
    members = _members(fleet, draw, name, topics)
    record_bytes = draw.randint(150, 4000)
    led_from = _led_from(fleet, draw) if kind == "classic" else None
    loses_at = _some_step(fleet, draw, fleet.losing)
    forgets_racks = draw.random() < 0.3
    if forgets_racks:  # else the agent knows the racks of members without `client.rack` from its maps
        members = tuple(
            member if member.tells_rack else member.model_copy(update={"rack": UNKNOWN}) for member in members
        )
    return SimulatedGroup(
        state=GroupState(
            id="-",
            agent=f"samerack@kafka-{cluster + 1}",
            cluster=f"kafka-{cluster + 1}",
            group=name,
            at=0,
            kind=kind,
            state="Stable",
            assignor=assignor,
            role="",
            # brokers of every second cluster keep their default, which serves from leaders only
            rack_aware_fetch=cluster % 2 == 0,
            racks=rack_names(fleet.racks),
            broker_racks=fleet.racks,
            members=members,
            topics=topics,
        ),
        record_bytes=record_bytes,
        moves_at={topic.name: step for topic, step in read if step is not None},
        led_from=led_from,
        loses_at=loses_at,
        forgets_racks=forgets_racks,
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


_Topic: TypeAlias = tuple[TopicState, int | None]
"""A topic, and the step at which its replicas move."""


def _topics(fleet: Fleet, draw: Random, group: str) -> tuple[_Topic, ...]:
    """Return the topics that only this group reads."""
    counts = [fleet.partitions] if fleet.partitions else [_pick(draw, _PARTITIONS) for _ in range(_pick(draw, _TOPICS))]
    volume = draw.lognormvariate(_MEDIAN_RATE, 1.5)
    parts = [draw.random() + 0.1 for _ in counts]
    return tuple(
        _topic(fleet, draw, f"{group}.{number}", count, volume * part / sum(parts))
        for number, (count, part) in enumerate(zip(counts, parts, strict=True))
    )


def _shared(fleet: Fleet, draw: Random, index: int) -> tuple[_Topic, ...]:
    """Return the topic, if any, that the group shares with others of its cluster; the first groups get the first."""
    reads, number = draw.random() < fleet.shared, draw.randrange(1 + index // fleet.clusters // _READERS)
    if fleet.partitions or not reads:
        return ()
    cluster = index % fleet.clusters
    same = Random(f"{fleet.seed}/{cluster}/{number}")  # noqa: S311 - a simulation, not a secret
    name = f"events-{cluster + 1}-{number}"
    return (_topic(fleet, same, name, _pick(same, _PARTITIONS), same.lognormvariate(_MEDIAN_RATE, 1.0)),)


def _topic(fleet: Fleet, draw: Random, name: str, count: int, volume: float) -> _Topic:
    topic = TopicState(
        name=name,
        replicas=_replicas(fleet.racks, draw, count),
        owner=(UNKNOWN,) * count,
        bytes_per_second=_rates(draw, count, volume),
    )
    return topic, _some_step(fleet, draw, fleet.moving)


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


def _members(fleet: Fleet, draw: Random, group: str, topics: Sequence[TopicState]) -> tuple[MemberState, ...]:
    """Return members of known rack that read all topics; those that have `client.rack` send it and fetch with it."""
    partitions = max(len(topic.owner) for topic in topics)
    count = fleet.members or min(partitions, 1 + int(draw.lognormvariate(1.3, 0.7)))
    uneven = [draw.random() ** 2 + 0.01 for _ in range(fleet.racks)]
    weights = _pick(draw, (([1.0] * fleet.racks, 25), (uneven, 25), ([], 50)))
    start = draw.randrange(fleet.racks)
    share = _pick(draw, ((1.0, 65), (0.5, 15), (0.0, 20)))
    members = []
    for number in range(count):
        member_id = f"{group}-{number}-{UUID(int=draw.getrandbits(128))}"
        rack = draw.choices(range(fleet.racks), weights)[0] if weights else (start + number) % fleet.racks
        has_rack = draw.random() < share
        members.append(
            MemberState(
                id=member_id,
                client_id=f"{group}-{number}",
                rack=rack,
                fetches_with_rack=has_rack,
                topics=tuple(range(len(topics))),
                tells_rack=has_rack,
            )
        )
    return tuple(members)
