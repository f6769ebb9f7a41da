"""Whether the agent may be in a group: after a back-off, beside another agent, on old brokers; and what it promises."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from samerack.agent.group_status import OBSERVING
from samerack.agent.leading.admission import Admission, after_leave, prospect
from samerack.agent.leading.group_memory import KEEP_SECONDS, GroupMemory, GroupSizes
from samerack.agent.policy.back_off_causes import RULES, Cause
from samerack.cluster.broker_configs import NO_LIMIT
from samerack.cluster.group import GroupView
from samerack.cluster.joining import foreign, refusal
from samerack.events import EventLog
from samerack.protocol.values import Subscription
from samerack.settings.all_settings import Settings
from samerack.settings.leading import LeadingSettings
from tests.unit.agent.leading.scripted import reporter_of
from tests.unit.agent.values import group, member

READER = member("reader", "clicks")
OTHER = member("other-1", instance_id="other")
ALONE = group(READER, protocol="range")
BESIDE = group(READER, OTHER, protocol="range")


class Case:
    """An admission with a clock, brokers and a group type that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.denied: frozenset[str] = frozenset()
        self.unpolled: frozenset[str] = frozenset()
        self.unsupported_reason = self.never_evicts = ""
        self.kind = "classic"
        self.foreign_protocols = GroupMemory(None, name="protocols")
        settings = Settings.model_validate({"kafka": {"bootstrap.servers": "127.0.0.1:1"}})
        self.events = EventLog()
        self.reporter = reporter_of(events=self.events)
        self.watch = cast(
            Any,
            SimpleNamespace(
                denied_topics=lambda _: self.denied,
                unknown=lambda topics, _owned=frozenset(): topics & self.unpolled,
                record_limit=None,
                max_group_size=None,
            ),
        )
        self.admission = Admission(
            group="orders",
            leading=settings.leading,
            watch=self.watch,
            group_type=lambda _: self.kind,
            reporter=self.reporter,
            foreign_protocols=self.foreign_protocols,
            sizes=GroupSizes(None),
            unsupported_reason=lambda: self.unsupported_reason,
            never_evicts=lambda: self.never_evicts,
            clock=lambda: self.now,
        )

    def back_off(self, cause: Cause) -> None:
        """Start a back-off, as `agent.leading.leader` does."""
        self.admission.back_off.start(cause, cause.value)

    def full(self, consumers: int, *, state: str = "Stable", inside: bool = False) -> str:
        """Why there is no room for the agent beside so many consumers."""
        members = [member(f"reader-{number}", "clicks") for number in range(consumers)]
        self.admission.sees(group(*members, member("me", instance_id="samerack"), state=state), inside=inside)
        return self.admission.full

    def admits(self, view: GroupView) -> bool:
        """Ask again, without the last answer."""
        self.admission.forget()
        return self.admission.admits(view)


@pytest.fixture
def case() -> Case:
    """A group that the agent may join."""
    return Case()


def test_while_a_pause_lasts_the_agent_observes(case: Case) -> None:
    """During the pause the agent says why it observes; after it the agent may join again."""
    assert case.admits(ALONE)
    case.back_off(Cause.PLANS_FAILED)
    assert not case.admits(ALONE)
    assert (case.reporter.role, case.reporter.trouble) == (OBSERVING, "plans-failed")
    case.now += RULES[Cause.PLANS_FAILED].first_seconds
    assert case.admits(ALONE)
    assert case.reporter.trouble == ""


def test_a_group_is_joined_once_its_topics_have_been_polled(case: Case) -> None:
    """An agent without the permission to see them joined at each start, and left a poll later: two rebalances."""
    case.unpolled = frozenset({"clicks"})
    assert not case.admits(ALONE)
    assert case.reporter.role != OBSERVING
    assert case.admission.admits_initial_rebalance()
    assert case.admits(group(protocol="", state="Empty"))
    case.unpolled, case.denied = frozenset(), frozenset({"clicks"})
    assert not case.admits(ALONE)
    assert case.reporter.refused
    case.denied = frozenset()
    assert case.admits(ALONE)


def test_a_foreign_protocol_is_remembered_while_a_pause_lasts(case: Case) -> None:
    """New consumers may come before its end, and their protocols are not visible until the group has formed."""
    case.back_off(Cause.NO_SHARED_PROTOCOL)
    assert not case.admits(group(READER, protocol="homegrown"))
    assert case.foreign_protocols.of("orders") == "homegrown"
    case.now += RULES[Cause.NO_SHARED_PROTOCOL].first_seconds
    assert not case.admission.admits_initial_rebalance()
    assert case.admits(ALONE)
    assert case.admission.admits_initial_rebalance()


def test_one_more_consumer_must_fit_beside_the_agent(case: Case) -> None:
    """The agent is in a group only if the brokers accept one consumer more; the reason names the setting."""
    case.watch.max_group_size = 4
    assert [bool(case.full(consumers, inside=True)) for consumers in (1, 2, 3)] == [False, False, True]
    assert not case.admits(BESIDE)
    assert "group.max.size of the brokers is 4: 3 current or expected consumers" in case.reporter.trouble
    assert (case.reporter.role, case.admission.makes_room) == (OBSERVING, True)
    case.watch.max_group_size = NO_LIMIT
    assert not case.full(10_000)
    assert case.admits(BESIDE)


def test_a_place_stays_free_for_a_consumer_that_restarts(case: Case) -> None:
    """A full group that lost a consumer a moment ago still counts as full; five minutes later it is smaller."""
    case.watch.max_group_size = 3
    assert case.full(3)
    assert case.full(1)
    assert not case.full(1, inside=True)
    case.now += KEEP_SECONDS
    assert not case.full(1)


def test_a_group_that_forms_gets_the_places_of_its_last_consumers(case: Case) -> None:
    """The agent does not join a birth whose last size fills the limit; before any, half of the places stay free."""
    case.watch.max_group_size = 6
    unknown = [bool(case.full(consumers, state="PreparingRebalance", inside=True)) for consumers in (1, 2, 3)]
    assert unknown == [False, False, True]
    assert not case.full(3)
    assert not case.full(4, state="PreparingRebalance")
    assert case.full(5)
    assert case.full(1, state="PreparingRebalance")
    assert not case.admission.admits_initial_rebalance()


def test_a_refusal_proves_a_limit_that_the_agent_may_not_read(case: Case) -> None:
    """GROUP_MAX_SIZE_REACHED means that the consumers seen fill the group, until more of them are seen."""
    assert not case.full(3)
    error = case.admission.refused_as_full()
    assert (error.cause, str(error)) == (Cause.GROUP_FULL, case.admission.full)
    assert "group.max.size of the brokers is 3: 3 current or expected consumers" in case.admission.full
    assert case.full(2)
    assert not case.full(4)
    case.watch.max_group_size = 10
    assert case.admission.refused_as_full().cause is Cause.GROUP_FULL
    assert not case.full(4)


def test_while_a_pause_lasts_the_reason_is_the_present_one(case: Case) -> None:
    """The agent left as two consumers filled the group; the third counts in the reason, and the agent is ready."""
    case.watch.max_group_size = 3
    case.back_off(Cause.GROUP_FULL)
    case.full(3)
    assert not case.admits(ALONE)
    assert "3 current or expected consumers" in case.reporter.trouble
    assert case.admission.makes_room
    case.back_off(Cause.PLANS_FAILED)
    assert not case.admission.makes_room


def test_a_foreign_agent_that_led_is_waited_for(case: Case) -> None:
    """Another agent in the group keeps this one out only if it has led, and until it has left."""
    assert case.admits(BESIDE)
    case.back_off(Cause.FOREIGN_AGENT)
    case.now += RULES[Cause.FOREIGN_AGENT].first_seconds
    assert not case.admits(BESIDE)
    assert "another agent (other) is a member" in case.reporter.trouble
    assert case.admits(ALONE)


def test_a_leader_that_gave_partitions_is_not_followed_again(case: Case) -> None:
    """After ten minutes the storm of gifts came again: the agent waits until all consumers have stopped."""
    case.back_off(Cause.ASSIGNED_WITHOUT_TOPICS)
    case.now += RULES[Cause.ASSIGNED_WITHOUT_TOPICS].max_seconds + 600.0
    assert not case.admits(ALONE)
    assert case.reporter.trouble == "assigned-without-topics"
    assert case.admits(group(protocol="", state="Empty"))
    assert case.admission.admits_initial_rebalance()


def test_a_group_in_which_nobody_is_evicted_is_joined_as_a_running_one(case: Case) -> None:
    """It is not joined while it forms, and then as any other, unless its leader gives partitions to the agent."""
    case.never_evicts = "an error of JoinGroup is fatal to its members"
    assert not case.admission.admits_initial_rebalance()
    assert case.admits(ALONE)
    case.back_off(Cause.ASSIGNED_WITHOUT_TOPICS)
    case.now += RULES[Cause.ASSIGNED_WITHOUT_TOPICS].max_seconds
    assert not case.admits(ALONE)
    assert case.reporter.trouble == f"assigned-without-topics; {case.never_evicts}"


def test_a_converted_group_is_left_alone_after_the_pause_too(case: Case) -> None:
    """The reason is then the group type, also in an event; once the type is classic, the agent may join."""
    case.back_off(Cause.CONVERTED)
    assert not case.admits(ALONE)
    case.now += RULES[Cause.CONVERTED].first_seconds
    case.kind = "consumer"
    assert not case.admits(ALONE)
    reason = "the brokers assign it (group type consumer)"
    assert (case.reporter.role, case.reporter.trouble) == (OBSERVING, reason)
    assert [event.detail for event in case.events.latest(kinds=("role",))] == [reason, "converted"]
    case.kind = "classic"
    assert case.admits(ALONE)


@pytest.mark.parametrize(
    ("name", "value", "refused"),
    [("denied", frozenset({"clicks"}), True), ("unsupported_reason", "the oldest broker is Kafka 2.3", False)],
)
def test_what_somebody_had_better_mend_is_trouble(case: Case, name: str, value: object, *, refused: bool) -> None:
    """A missing permission or a too old broker keeps the agent out and unready, for as long as it lasts."""
    before = getattr(case, name)
    setattr(case, name, value)
    assert not case.admits(ALONE)
    assert case.reporter.trouble
    assert case.reporter.refused is refused
    setattr(case, name, before)
    assert case.admits(ALONE)


def test_who_is_another_agent() -> None:
    """Another agent has no topics, and another instance id or, where agents join so, none."""
    leading = LeadingSettings()
    assert foreign(ALONE, leading) == ""
    assert foreign(BESIDE, leading)
    assert foreign(BESIDE, leading, "other-1")
    assert foreign(BESIDE, leading, "reader") == ""
    ours = member("samerack-1", instance_id="samerack")
    dynamic = member("dynamic-1")
    assert foreign(group(READER, ours, protocol="range"), leading) == ""
    assert foreign(group(READER, dynamic, protocol="range"), leading) == ""
    assert foreign(group(READER, dynamic, protocol="sticky"), leading)


_OLD = replace(READER, subscription=Subscription(version=0, topics=("clicks",)))


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (replace(ALONE, protocol_type="connect"), "its protocol type is 'connect', not consumer"),
        (group(_OLD, protocol="roundrobin"), "kafka-python 3's roundrobin fails on a member without topics"),
    ],
)
def test_a_group_that_cannot_bear_the_agent_is_refused(view: GroupView, reason: str) -> None:
    """Workers of Kafka Connect are no consumers, and a leader of old clients may fail on the agent."""
    assert reason in refusal(view, LeadingSettings())
    assert refusal(view, LeadingSettings(allow_roundrobin_v0=True)) == (
        "" if view.protocol_type == "consumer" else reason
    )


def test_kafka_pythons_roundrobin_fails_on_a_member_without_topics() -> None:
    """The reason for the rule: once this bug is fixed, the rule has to go."""
    cluster = SimpleNamespace(partitions_for_topic=lambda _topic: {0, 1})

    def members(*topics: list[str]) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(member_id=f"m{n}", group_instance_id=None, metadata=SimpleNamespace(topics=names))
            for n, names in enumerate(topics)
        ]

    assigned: dict[str, Any] = RoundRobinPartitionAssignor.assign(cluster, members(["t"], ["t"]))
    assert len(assigned) == 2
    with pytest.raises(KeyError):
        RoundRobinPartitionAssignor.assign(cluster, members([], ["t"]))


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (ALONE, ""),
        (group(READER, protocol="sticky"), ""),
        (group(READER, protocol="ours"), "'ours', which the agent does not offer"),
        (group(READER, protocol="stream"), "Kafka Streams"),
        (group(READER, protocol="RoundRobinAssigner"), "only from its first generation"),
        (group(READER, member("other"), protocol="sticky"), "another agent"),
    ],
)
def test_each_refusal_has_its_reason(view: GroupView, reason: str) -> None:
    """The agent offers kafkajs' assignor only to new groups, and an instance of its own is no other agent."""
    for leading in (LeadingSettings(), LeadingSettings(protocols=("range", "sticky"))):
        refused = refusal(view, leading)
        assert reason in refused
        assert bool(refused) is bool(reason)


# what is promised about leading a running group: no more than was measured

ONE, TWO, STATIC = member("one", "t"), member("two", "t"), member("three", "t", instance_id="pod-3")
AGENT = member("samerack-1", instance_id="samerack")


@pytest.mark.parametrize(
    ("view", "promised", "not_promised"),
    [
        (group(ONE, TWO), ("within one rolling deploy", "`samerack lead orders`"), ("static",)),
        (group(AGENT, ONE), ("within one rolling deploy",), ("static",)),
        (group(ONE, TWO, protocol="sticky"), ("by chance only", "`samerack lead orders`"), ("within one",)),
        (
            group(ONE, TWO, protocol="cooperative-sticky"),
            ("once all have been stopped", "by chance only"),
            ("samerack lead orders",),
        ),
        (group(ONE, STATIC), ("1 of its members are static", "keeps the lead"), ()),
        (group(ONE, protocol="RoundRobinAssigner"), ("not while it runs: its leader's assignor",), ("deploy",)),
    ],
)
def test_what_is_promised(view: GroupView, promised: tuple[str, ...], not_promised: tuple[str, ...]) -> None:
    """The promise depends on the protocol and the kind of members."""
    text = prospect(view, LeadingSettings(), worth_it=True)
    assert all(words in text for words in promised), text
    assert not any(words in text for words in not_promised), text


def test_a_group_whose_record_has_no_room_is_left_alone(case: Case) -> None:
    """The agent's own member would make the record too large: brokers would fail every SyncGroup (KAFKA-3590)."""
    full = group(replace(READER, record_bytes=10_000))
    for limit, admitted in ((None, True), (20_000, True), (10_300, False)):
        case.watch.record_limit = limit
        assert case.admits(full) is admitted
    assert "max.message.bytes" in case.reporter.trouble


def test_what_comes_after_a_leave() -> None:
    """The agent follows, and leads as it may: at once where that was wished and members give up what they own."""
    assert after_leave(None, LeadingSettings(), lead_again=True) == "the agent follows the group's own leader"
    text = after_leave(group(ONE, TWO), LeadingSettings(), lead_again=False)
    assert text.startswith("the agent follows the group's own leader, and leads when its leader leaves")
    assert text.endswith("at once by `samerack lead orders`")
    again = after_leave(group(ONE, TWO), LeadingSettings(), lead_again=True)
    assert again.endswith("takes over as leader as soon as the policy allows")
    cooperative = group(ONE, TWO, protocol="cooperative-sticky")
    assert "once all have been stopped" in after_leave(cooperative, LeadingSettings(), lead_again=True)
    unsound = group(ONE, protocol="RoundRobinAssigner")
    assert "observes it: its leader's assignor" in after_leave(unsound, LeadingSettings(), lead_again=True)
