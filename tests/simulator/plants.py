"""Deliberate bugs of the agent, to test that the simulator finds them; each is a context manager that enables it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any, Final, TypeAlias
from unittest import mock

from samerack.agent.leading import (
    admission,
    assigning,
    leader,
    membership,
    rebalance_evaluator,
)
from samerack.agent.leading.assigning import Assigning, NoConsumersError
from samerack.agent.leading.evictions import Evictions
from samerack.agent.leading.join_position import JoinPosition
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.polled_group import POLL_SECONDS, PolledGroup
from samerack.agent.leading.rebalance_evaluator import MemberLives
from samerack.agent.leading.session import Session
from samerack.agent.policy import GroupCondition, back_off
from samerack.cluster import group_member
from samerack.cluster import view as cluster
from samerack.cluster.group_member import Joined
from samerack.common.attempts import Attempts
from samerack.common.shared_threads import Rest
from samerack.planning import members as plan_members
from samerack.planning import planner, problem
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.values import Subscription, to_pairs
from samerack.settings import protocols

Patch: TypeAlias = tuple[Any, str, Any]
"""An object, the name of its attribute, and the attribute's value while the bug is there."""
_VERSION_0: Final = encode_subscription(Subscription(version=0, topics=("t",)))
_ladder: Final = import_module("samerack.agent.policy.decide")
_assign, _subscriptions, _enter = Assigning.assign, Assigning._subscriptions, JoinPosition.enter
_planned, _settle_deletions = back_off.planned, cluster._settle_deletions
_partitions_changed = problem.partitions_changed


def _always(*, be: Any) -> Any:
    return lambda *_, **__: be


def _keep_all(self: JoinPosition, membership: Any, view: Any) -> None:
    with mock.patch.object(Membership, "release", return_value=True):
        _enter(self, membership, view)


def _stay(self: Assigning, joined: Joined) -> dict[str, bytes]:
    try:
        return _assign(self, joined)
    except NoConsumersError:
        return {joined.me: b""}


def _readable(self: Assigning, joined: Joined) -> Any:
    short = [one for one in joined.members if one[2][:2] == b"\0\1" and len(one[2]) <= len(_VERSION_0) + 1]
    return [one for one in _subscriptions(self, joined) if one[0] not in {member for member, _, _ in short}]


def _newest(subscription: Subscription) -> bytes:
    return encode_subscription(replace(subscription, version=3))


def _without_topics(health: Any, sent: Any) -> Any:
    members: dict[str, frozenset[str]] = dict.fromkeys(sent.subscriptions, frozenset())
    return _planned(health, replace(sent, subscriptions=members, changed=False))


def _at_once(state: Any, view: Any, now: float, times: Any) -> Any:
    return _settle_deletions(state, view, now, replace(times, change=0.0))


def _follow_deletions(problem: Any, members: Any, cluster: Any) -> bool:
    owned = {partition for one in members for partition in to_pairs(one.owned) if partition[0] in cluster.topics}
    exist = {(topic, number) for topic in problem.topics for number in range(len(cluster.topics[topic]))}
    return _partitions_changed(problem, members, cluster) or bool(owned - exist)


def _without_deletions(**fields: Any) -> GroupCondition:
    return GroupCondition(**{**fields, "owns_deleted": False})


def _turn(_leader: Any, session: Any, _membership: Any) -> Rest:
    return Rest(session.turn())


def _poll(self: Any) -> Any:
    self._poll_at, self.is_resting = self._parts.clock() + POLL_SECONDS, False
    view = self._member.describe()
    self._see(view)
    return view


_PATCHES: Final[dict[str, tuple[Patch, ...]]] = {
    "": (),
    # a cooperative plan revokes partitions and assigns them to other members in the same round
    "one-phase": ((planner, "round_to_send", lambda _problem, final, **_: final),),
    # reserved member ids that the agent does not use are never released
    "pending-forever": ((JoinPosition, "enter", _keep_all),),
    # the leader also accepts descriptions of a former generation, which a new coordinator may return at first
    "every-poll-believed": ((Assigning, "may_be_of", _always(be=True)),),
    # the agent ignores the budget of rebalances
    "no-budget": ((_ladder, "_budget_refusal", _always(be=None)),),
    # the agent takes a place that a consumer needs, in a group of limited size
    "takes-the-last-place": ((admission, "no_room_reason", _always(be="")),),
    # the agent does not send LeaveGroup when it ends
    "stays": ((Session, "leave", _always(be=None)),),
    # the leader does not notice new partitions of the topic
    "deaf-to-partitions": ((rebalance_evaluator, "partitions_changed", _always(be=False)),),
    # the leader rebalances for a deleted topic
    "follows-deletions": ((rebalance_evaluator, "partitions_changed", _follow_deletions),),
    # a deleted topic does not keep the leader from rebalancing for racks
    "saves-beside-deletions": ((rebalance_evaluator, "GroupCondition", _without_deletions),),
    # the agent joins groups that it must not join
    "joins-anything": ((admission, "refusal", _always(be="")),),
    # the agent takes every member of the group for one that runs
    "all-alive": ((MemberLives, "away_until", _always(be=float("-inf"))),),
    # the leader never finds a rebalance worthwhile
    "asleep": ((_ladder, "TOLERANCE", 2.0),),
    # the agent stays in a group whose consumers have left, also if it learns that from JoinGroup
    "stays-alone": ((Session, "lacks_consumers", property(_always(be=False))), (Assigning, "assign", _stay)),
    # a plan leaves out topics whose metadata is late
    "plans-without-topics": ((Assigning, "_wait_for", _always(be=None)),),
    # the plan leaves out members whose subscription ends early
    "plans-without-unreadable": (
        (Assigning, "_subscriptions", _readable),
        (assigning, "members_without_partitions", _always(be=())),
    ),
    # the agent's own subscription has version 3, which some leaders cannot read
    "newest-metadata": ((membership, "encode_subscription", _newest),),
    # the agent joins groups whose leader gives partitions to members without topics
    "follows-anybody": ((protocols, "UNSOUND_PROTOCOLS", frozenset()),),
    # the agent treats members that find a topic one after the other as members that reject plans
    "refreshes-rejected": ((back_off, "planned", _without_topics),),
    # the agent accepts at once that a broker reports fewer partitions
    "fewer-believed": ((cluster, "_settle_deletions", _at_once),),
    # if the next coordinator does not know a reserved id, the agent joins with any other id
    "random-place": ((Membership, "_check_place", _always(be=None)),),
    # a reserved id is kept for a whole session, also if its answer is lost
    "reserves-long": ((membership, "RESERVED_SECONDS", 8.0), (Membership, "_release_late", _always(be=None))),
    # SIGTERM does not interrupt a thread that waits for an answer
    "deaf-to-the-end": ((group_member.GroupMember, "end_by", _always(be=None)),),
    # any error in a turn ends the membership
    "errors-end-it": ((leader.GroupLeader, "_turn", _turn), (PolledGroup, "poll", _poll)),
    # a failed DescribeGroups ends the turn, so that the agent does not join while the group waits for it
    "polls-end-turns": ((PolledGroup, "poll", _poll),),
    # every member of a sticky group is given user data
    "user-data-for-all": (
        (plan_members, "_repeats", _always(be=True)),
        (assigning, "too_large_reason", _always(be="")),
        (admission, "too_large_reason", _always(be="")),
    ),
    # the agent forgets that members did not come back after it had evicted them
    "evicts-again": ((Evictions, "reason", property(_always(be=""))),),
    # the agent retries at once, without a pause
    "no-pauses": ((Attempts, "pause_seconds", property(_always(be=0.0))),),
}


def _planting(patches: tuple[Patch, ...]) -> Callable[[], AbstractContextManager[None]]:
    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for target, name, value in patches:
                stack.enter_context(mock.patch.object(target, name, value))
            yield

    return planted


PLANTS: Final = {name: _planting(patches) for name, patches in _PATCHES.items()}
"""The plants by name; the empty name is no plant."""
