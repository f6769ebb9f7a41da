"""The groups that the agent leads: those that the settings name, and those that match a pattern of theirs.

Named groups are there from the start, whether they exist or not. The others are found among the groups that brokers
list, and dropped some time after they have ceased to exist. Brokers list all groups from time to time, and those that
rebalance in short intervals: such a list is small, and a birth lasts three seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from samerack.agent.leading.leader import GroupLeader
from samerack.cluster.group import CONSUMER, FORMING_STATE
from samerack.cluster.group_questions import list_groups
from samerack.cluster.watch import ClusterWatch
from samerack.cluster.wire import ANSWER_SECONDS, BrokerClient, BrokerRequest
from samerack.common.patterns import fits, included, is_pattern
from samerack.common.service import Service
from samerack.election.leadership_state import LeadershipState
from samerack.settings.all_settings import Settings
from samerack.traffic.describe import matching
from samerack.traffic.groups import ListedGroup

# Which listed groups are certainly being born, so that no member of theirs owns partitions yet.
#
# A birth stays in PreparingRebalance for `group.initial.rebalance.delay.ms` at least. Complete lists of the groups in
# that state that follow each other sooner show every birth, so a group that no list has shown before did not exist.


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList:
    """What brokers answered to one question for their groups.

    Attributes:
        groups: the names.
        brokers: who was asked.
        complete: whether each of them answered without an error; one that loads groups answers with an error.
        full: whether all groups were asked for, and not only those that rebalance.
        asked_at, answered_at: monotonic seconds.
    """

    groups: AbstractSet[str]
    brokers: AbstractSet[int]
    complete: bool
    full: bool
    asked_at: float
    answered_at: float


class NewGroups:
    """What the lists so far prove; not thread-safe."""

    def __init__(self) -> None:
        self._brokers: AbstractSet[int] = frozenset()
        self._recent: AbstractSet[str] = frozenset()
        """The groups that were listed since the last complete list of all."""
        self._earlier: AbstractSet[str] = frozenset()
        """The same of the time before: groups are in no broker's list for a moment while their coordinator moves."""
        self._asked_at: float | None = None
        """When the last complete list was asked for; None if a birth since the last list of all may be missing."""

    @property
    def are_seen(self) -> bool:
        """Whether the lists so far show every birth since the last list of all groups."""
        return self._asked_at is not None

    def add(self, listed: GroupList, delay_seconds: float | None) -> dict[str, float]:
        """Add a list; return the groups that certainly did not exist before, with a time when they did not.

        `delay_seconds` is `group.initial.rebalance.delay.ms`, None if births are not to be proved. Times are monotonic
        seconds.
        """
        before = self._asked_at
        if before is not None and (
            delay_seconds is None or listed.answered_at - before >= delay_seconds or listed.brokers != self._brokers
        ):
            before = self._asked_at = None
        empty_at = dict.fromkeys(listed.groups - self._recent - self._earlier, before) if before is not None else {}
        if listed.complete and listed.full:
            self._recent, self._earlier = frozenset(listed.groups), self._recent
            self._brokers, self._asked_at = listed.brokers, listed.asked_at if delay_seconds is not None else None
        else:
            self._recent |= listed.groups
            if listed.complete and before is not None:
                self._asked_at = listed.asked_at
        return empty_at


log = structlog.get_logger("groups")

MAX_FOUND: Final = 1000
MAX_BYTES: Final = 65_536
"""The name of each is in every message of the election, several times, which one record of Kafka must hold; where
the election fails, nothing is led or measured."""
MAX_NAME_BYTES: Final = 500
"""A message of the election is refused as a whole where one name in it is too long (`election.messages`)."""
_GONE_SECONDS: Final = 600.0
"""A group that has ceased to exist is kept for this time: its next consumers are led from the first generation."""
_LIST_ALL_SECONDS: Final = 10.0
_LIST_SECONDS: Final = 0.5
"""Between two lists of the groups that rebalance, and until the next one while the brokers are not known yet."""
_MIN_DELAY_SECONDS: Final = 2 * _LIST_SECONDS
"""With a shorter initial rebalance delay a group is found too late for its birth, or not before its end."""
_ANSWER_SECONDS: Final = 2.0
"""Below the brokers' initial rebalance delay: a broker that hangs must not delay the groups of the others."""
MakeLeader: TypeAlias = Callable[[str, float | None], GroupLeader]
"""Makes the leader of a group; the time is when it certainly had no members (monotonic seconds; None: not known)."""
_TYPES: Final = frozenset({"", "classic", "unknown"})
"""Brokers assign groups of other types; before Kafka 4 they do not send a group's type."""


def named(settings: Settings) -> tuple[str, ...]:
    """Return the groups that the settings name, and not those that their patterns match."""
    return tuple(group for group in settings.groups if not is_pattern(group))


class LedGroups(Mapping[str, GroupLeader]):
    """The leaders by group; any thread may read it."""

    def __init__(self, make: MakeLeader, *, forget: Callable[[str], None]) -> None:
        """Start empty; leaders are made but not started, and `forget` is called after a group has been dropped."""
        self._make = make
        self._forget = forget
        self._leaders: dict[str, GroupLeader] = {}
        self._lock = threading.Lock()
        self._runs = False
        self.unmatched: tuple[str, ...] = ()
        """Patterns of the settings that match no group of the brokers."""

    def __getitem__(self, group: str) -> GroupLeader:
        """Return the leader of a group.

        Raises:
            KeyError: The agent does not lead a group of this name.
        """
        return self._leaders[group]

    def __iter__(self) -> Iterator[str]:
        return iter(self._leaders)

    def __len__(self) -> int:
        return len(self._leaders)

    # one that is dropped while somebody reads has a key there and no value; the dict is replaced as a whole

    def values(self) -> ValuesView[GroupLeader]:
        """Return the leaders as they are now."""
        return self._leaders.values()

    def items(self) -> ItemsView[str, GroupLeader]:
        """Return the groups and their leaders as they are now."""
        return self._leaders.items()

    def add(self, group: str, *, empty_at: float | None = None) -> None:
        """Lead a group from now on, or from `start` on; it certainly had no members at `empty_at`, if that is known."""
        with self._lock:
            if group in self._leaders:
                return
            leader = self._make(group, empty_at)
            self._leaders = {**self._leaders, group: leader}  # readers keep what they have
            if self._runs:
                leader.start()

    def drop(self, group: str, *, seconds: float) -> None:
        """Lead a group no longer; wait this long until the agent has left it."""
        with self._lock:
            leader = self._leaders[group]
            self._leaders = {name: one for name, one in self._leaders.items() if name != group}
        leader.stop()
        leader.join(seconds)
        self._forget(group)

    def start(self) -> None:
        """Start every leader."""
        with self._lock:
            self._runs = True
            for leader in self._leaders.values():
                leader.start()

    def hands_over(self) -> bool:
        """Return whether a leader that was asked to stop waits for another agent to take its group over."""
        return any(leader.hand_over_seconds and leader.is_alive() for leader in self._leaders.values())

    def close(self) -> None:
        """Start no leader from now on: the agent ends."""
        with self._lock:
            self._runs = False


class GroupFinder(Service):
    """Finds the groups that match the patterns of the settings, and has them led."""

    def __init__(
        self,
        settings: Settings,
        wire: BrokerClient,
        *,
        led: LedGroups,
        watch: ClusterWatch,
        leadership: LeadershipState,
    ) -> None:
        """Prepare; `start` begins to poll, over connections of its own.

        Only this service adds and drops groups that are led, after the start. Agents that may lead the same groups
        elect one for each.
        """
        super().__init__("groups")
        self._settings = settings
        self._wire = wire
        self._led = led
        self._watch = watch
        self._leadership = leadership
        self._named = frozenset(named(settings))
        self._seen: dict[str, float] = {}
        """When each group was last listed."""
        self._too_many = 0
        self._new_groups = NewGroups()
        self._full_at = float("-inf")
        """When to list all groups again, monotonic seconds."""

    def turn(self) -> float:
        """List the groups that rebalance, and all groups if that is due or a birth may have been missed.

        Raises:
            AgentError: No broker can be reached.
        """
        brokers = sorted(self._watch.present)
        if not brokers:
            return _LIST_SECONDS
        began, were_seen = time.monotonic(), self._new_groups.are_seen
        complete = self._list(brokers, FORMING_STATE, _ANSWER_SECONDS)
        now = time.monotonic()
        if now >= self._full_at or (complete and were_seen and not self._new_groups.are_seen):
            hangs = now - began >= _ANSWER_SECONDS
            self._list(brokers, "", _ANSWER_SECONDS if hangs else ANSWER_SECONDS)
            self._full_at = time.monotonic() + _LIST_ALL_SECONDS
        return _LIST_SECONDS

    def _list(self, brokers: Sequence[int], state: str, answer_seconds: float) -> bool:
        """List the groups in a state, all if it is empty; return whether all brokers have answered without an error."""
        asked_at = time.monotonic()
        answers = self._wire.ask(
            [BrokerRequest(broker=broker, request=list_groups(state)) for broker in brokers], answer_seconds
        )
        now = time.monotonic()
        found, answered, _ = matching(answers, self._settings.groups)
        complete = answered >= set(brokers)
        listed = GroupList(
            groups=found.keys(),
            brokers=frozenset(brokers),
            complete=complete,
            full=not state,
            asked_at=asked_at,
            answered_at=now,
        )
        delay = self._watch.initial_delay_seconds or 0.0
        empty_at = self._new_groups.add(listed, delay if delay > _MIN_DELAY_SECONDS else None)
        if state:
            self._lead(self._leadable(found), empty_at=empty_at)
        else:
            self.take(found, empty_at=empty_at, complete=complete, now=now)
        return complete

    def take(
        self, found: Mapping[str, ListedGroup], *, empty_at: Mapping[str, float], complete: bool, now: float
    ) -> None:
        """Lead what has been found, and drop what has ceased to exist.

        The groups are those that brokers list and the settings include; if not all brokers have answered, a group that
        is missing may exist. `now` is in monotonic seconds; for `empty_at` see `NewGroups.add`.
        """
        wanted = self._leadable(found)
        if complete:
            self._note_unmatched(found)
        self._seen.update(dict.fromkeys(wanted, now))
        if not complete:
            self._seen.update(dict.fromkeys(self._led, now))
        self._lead(wanted, gone=[name for name in self._led if self._may_be_dropped(name, now)], empty_at=empty_at)
        self._tell_of_too_many(sum(name not in self._led for name in wanted))

    def _leadable(self, found: Mapping[str, ListedGroup]) -> list[str]:
        """Return the groups that a member can lead."""
        # an election's group that is empty at the moment has no protocol type by which it was left out
        return sorted(
            name
            for name, group in found.items()
            if group.protocol_type in ("", CONSUMER) and group.type in _TYPES and not self._settings.election.owns(name)
        )

    def _lead(self, wanted: Iterable[str], *, empty_at: Mapping[str, float], gone: Sequence[str] = ()) -> None:
        """Drop groups, and lead as many others as there is room for."""
        room = max(0, MAX_FOUND - (len(self._led) - len(self._named)))
        left = MAX_BYTES - sum(len(name.encode()) for name in self._led if name not in self._named)
        new: list[str] = []
        for name in wanted:
            size = len(name.encode())
            if name not in self._led and len(new) < room and size <= min(left, MAX_NAME_BYTES):
                new.append(name)
                left -= size
        if not new and not gone:
            return
        log.info("groups-found", new=new, gone=gone, forming=sorted(empty_at.keys() & new))
        for name in gone:
            del self._seen[name]
            self._led.drop(name, seconds=1.0)
        for name in new:
            self._led.add(name, empty_at=empty_at.get(name))
        self._leadership.offer(sorted(name for name in self._led if name not in self._named))

    def ended(self) -> None:
        """Disconnect."""
        self._wire.close()

    def _may_be_dropped(self, name: str, now: float) -> bool:
        if name in self._named or now - self._seen.setdefault(name, now) < _GONE_SECONDS:
            return False
        return not self._led[name].member_ids()

    def _note_unmatched(self, found: Collection[str]) -> None:
        """Keep the patterns that match no group, and warns of each that did so far."""
        patterns = [entry for entry in included(self._settings.groups) if is_pattern(entry)]
        unmatched = tuple(entry for entry in patterns if not any(fits(entry, name) for name in found))
        for pattern in sorted({*unmatched} - {*self._led.unmatched}):
            log.warning("pattern-matches-no-group", pattern=pattern, cure="check it; later groups will be found")
        self._led.unmatched = unmatched

    def _tell_of_too_many(self, count: int) -> None:
        if count > 0 and count != self._too_many:
            log.error(
                "too-many-groups",
                reason=f"patterns of `groups` match {count} more than one agent leads: {MAX_FOUND}, with names of "
                f"{MAX_BYTES} bytes together and {MAX_NAME_BYTES} each",
                cure="narrow the patterns, or divide the groups between agents with separate elections",
                patterns=included(self._settings.groups),
            )
        self._too_many = max(0, count)
