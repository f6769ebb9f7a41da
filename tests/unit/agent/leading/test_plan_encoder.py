"""Plans and the size of the group's record in the brokers' topic (KAFKA-3590): what is sent, and what is not."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors

from samerack.agent.leading.assigning import Assigning
from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.assignors.problem import NOBODY
from samerack.cluster.group import GroupView, MemberView, record_bytes, view_member
from samerack.cluster.group_member import Joined
from samerack.protocol.consumer import decode_assignment, encode_assignment, encode_subscription
from samerack.protocol.sticky import encode_sticky
from samerack.protocol.values import Assignment, Subscription, from_pairs
from samerack.settings.all_settings import Settings
from tests.unit.agent.values import Described, cluster, group

PARTITIONS = 600
SARAMA = Subscription(version=0, topics=("t",))
JAVA = Subscription(version=3, topics=("t",), user_data=encode_sticky(from_pairs([("t", 0)]), 2))
AGENT = Subscription(version=0, topics=())


def _assigning(limit: int | None) -> Assigning:
    watch: Any = SimpleNamespace(
        cluster=cluster(t=[(1,)] * PARTITIONS, u=[(1,)]),
        rack_aware_fetch=True,
        record_limit=limit,
        show_interest=lambda _group, _topics: None,
        denied_topics=lambda _group: frozenset(),
    )
    return Assigning(group="orders", settings=Settings(kafka={"bootstrap.servers": "h:1"}), watch=watch)


def _joined(*subscriptions: Subscription, generation: int = 7) -> Joined:
    members = [("me", None, AGENT), *((f"m-{at}", None, one) for at, one in enumerate(subscriptions))]
    return Joined(
        generation=generation,
        protocol="sticky",
        me="me",
        members=tuple((name, instance, encode_subscription(one)) for name, instance, one in members),
    )


def _user_data(plan: dict[str, bytes]) -> list[bytes | None]:
    return [decode_assignment(plan[name]).user_data for name in sorted(plan.keys() - {"me"})]


def _described(joined: Joined, plan: dict[str, bytes]) -> GroupView:
    members: list[MemberView] = [
        view_member(Described(member_id=name, member_metadata=data, member_assignment=plan[name]), consumer=True)
        for name, _, data in joined.members
        if name != "me"
    ]
    return group(*members, protocol="sticky")


def test_a_joining_member_in_a_rack_that_no_broker_has_has_none() -> None:
    """The plan is made as the evaluation of the group will be, so that nothing seems to have changed since."""
    assigning = _assigning(None)
    assigning.assign(_joined(Subscription(version=3, topics=("u",), rack="cellar")))
    assert assigning.sent is not None
    assert assigning.sent.plan.problem.member_rack.tolist() == [NOBODY]


def test_a_static_member_that_comes_back_has_the_same_subscription() -> None:
    """Plans are rejected if the same members join again soon, and a static member comes back with another id."""
    assigning, sent = _assigning(None), []
    for member_id in ("m-1", "m-2"):
        own = encode_subscription(Subscription(version=3, topics=("u",)))
        assigning.assign(replace(_joined(), members=(("me", None, encode_subscription(AGENT)), (member_id, "i", own))))
        assert assigning.sent is not None
        sent.append(assigning.sent.subscriptions)
    assert sent == [{"i": frozenset({"u"})}] * 2


def test_java_members_of_a_sticky_group_get_no_user_data() -> None:
    """It doubled their assignments, and the group's record with them; they make theirs by themselves."""
    assert _user_data(_assigning(None).assign(_joined(JAVA, JAVA))) == [None, None]


def test_a_member_that_repeats_what_it_was_given_is_given_more() -> None:
    """Sarama's is known in each generation, also after another leader has given it user data."""
    assigning = _assigning(None)
    (first,) = _user_data(assigning.assign(_joined(SARAMA)))
    again = Subscription(version=0, topics=("t",), user_data=first)
    (second,) = _user_data(assigning.assign(_joined(again, generation=8)))
    assert first is not None
    assert second is not None
    other, joined = _assigning(None), _joined(SARAMA)
    foreign = Assignment(version=0, partitions=from_pairs([("t", 0)]), user_data=b"theirs")
    other.see(_described(joined, {"m-0": encode_assignment(foreign)}))
    assert _user_data(other.assign(_joined(Subscription(version=0, topics=("t",), user_data=b"theirs")))) != [None]


def test_a_plan_that_is_too_large_is_sent_without_user_data() -> None:
    """The group fits without: it goes on, and its members only claim nothing from the next leader."""
    limit = 2 * 4 * PARTITIONS  # twice the numbers of all partitions
    assert _user_data(_assigning(limit).assign(_joined(SARAMA, SARAMA))) == [None, None]
    assert None not in _user_data(_assigning(2 * limit).assign(_joined(SARAMA, SARAMA)))


def test_a_plan_that_is_too_large_at_all_is_not_sent() -> None:
    """The agent leaves, so that the group leads itself without the agent's part of the record, and says what to set."""
    with pytest.raises(
        BackOffError, match=r"bytes, and max\.message\.bytes of that topic is 2000.*KAFKA-3590"
    ) as found:
        _assigning(2000).assign(_joined(JAVA, JAVA))
    assert found.value.cause is Cause.RECORD_TOO_LARGE


def test_an_unknown_error_leads_to_a_smaller_plan_and_then_out() -> None:
    """Also where the limit is not known: user data makes no record as large again, but a smaller one may have some."""
    assigning = _assigning(None)
    assert _user_data(assigning.assign(_joined(SARAMA))) != [None]
    assigning.encoder.synced(kafka_errors.UnknownError())
    assert _user_data(assigning.assign(_joined(SARAMA, generation=8))) == [None]
    assigning.encoder.synced(None)
    assert _user_data(assigning.assign(_joined(SARAMA, generation=9))) == [None]
    assigning.encoder.synced(None)
    shorter = _joined(Subscription(version=0, topics=("u",)), generation=10)
    assert _user_data(assigning.assign(shorter)) != [None]
    assigning.encoder.synced(kafka_errors.UnknownError())
    with pytest.raises(BackOffError, match="is not known") as found:
        assigning.encoder.synced(kafka_errors.UnknownError())
    assert found.value.cause is Cause.RECORD_TOO_LARGE
    assigning.encoder.synced(kafka_errors.UnknownError())


def test_the_size_is_an_upper_bound_of_what_brokers_write() -> None:
    """It has all bytes of members and a little more, and a description gives the same as the plan."""
    assigning, joined = _assigning(None), _joined(JAVA, JAVA)
    plan = assigning.assign(joined)
    content = sum(len(data) + len(plan[name]) for name, _, data in joined.members)
    described = _described(joined, plan)
    size = record_bytes("orders", [one.record_bytes for one in described.members])
    assert content < size < content + 600
