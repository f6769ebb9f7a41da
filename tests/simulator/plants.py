"""Deliberate bugs of the agent, to test that the simulator finds them; each is a context manager that enables it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any, Final
from unittest import mock

from samerack.agent.leading import (
    admission,
    assigning,
    join_metadata,
    leader,
    rebalance_evaluator,
    reserving_member,
    session,
)
from samerack.agent.leading.assigning import Assigning, NoConsumersError
from samerack.agent.leading.group_description import GroupDescription
from samerack.agent.leading.holding_member import HoldingMember
from samerack.agent.leading.join_position import JoinPosition
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.session import Session
from samerack.agent.policy import back_off, budget, plan_health
from samerack.cluster import group_member
from samerack.cluster import view as cluster
from samerack.cluster.group_member import Joined
from samerack.common.attempts import Attempts
from samerack.planning import planner
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.model import Subscription

_VERSION_0: Final = encode_subscription(Subscription(version=0, topics=("t",)))


@contextmanager
def one_phase() -> Iterator[None]:
    """A cooperative plan revokes partitions and assigns them to other members in the same round."""
    with (
        mock.patch.object(planner, "withhold", lambda _problem, final: final),
        mock.patch.object(planner, "check", return_value=None),
    ):
        yield


@contextmanager
def pending_forever() -> Iterator[None]:
    """Reserved member ids that the agent does not use are never released."""
    enter = JoinPosition.enter

    def keep_all(self: JoinPosition, membership: Any, look: Any) -> None:
        with mock.patch.object(Membership, "release", return_value=True):
            enter(self, membership, look)

    with mock.patch.object(JoinPosition, "enter", keep_all):
        yield


@contextmanager
def every_look_believed() -> Iterator[None]:
    """The leader also accepts descriptions of a former generation, which a new coordinator may return at first."""
    with mock.patch.object(Assigning, "may_be_of", return_value=True):
        yield


@contextmanager
def no_budget() -> Iterator[None]:
    """The agent ignores the budget of rebalances."""
    with mock.patch.object(budget, "refusal", return_value=None):
        yield


@contextmanager
def stays() -> Iterator[None]:
    """The agent does not send LeaveGroup when it ends."""
    with mock.patch.object(Session, "leave", return_value=None):
        yield


@contextmanager
def deaf_to_partitions() -> Iterator[None]:
    """The leader does not notice new partitions of the topic."""
    with mock.patch.object(rebalance_evaluator, "partitions_changed", return_value=False):
        yield


@contextmanager
def joins_anything() -> Iterator[None]:
    """The agent joins groups that it must not join."""
    with mock.patch.object(admission, "refusal", return_value=""):
        yield


@contextmanager
def asleep() -> Iterator[None]:
    """The leader never finds a rebalance worthwhile."""
    ladder = import_module("samerack.agent.policy.decide")
    with mock.patch.object(ladder, "TOLERANCE", 2.0):
        yield


@contextmanager
def stays_alone() -> Iterator[None]:
    """The agent stays in a group whose consumers have left, also if it learns that from JoinGroup."""
    assign = Assigning.assign

    def content(self: Assigning, joined: Joined) -> dict[str, bytes]:
        try:
            return assign(self, joined)
        except NoConsumersError:
            return {joined.me: b""}

    with (
        mock.patch.object(Session, "lacks_consumers", new_callable=mock.PropertyMock, return_value=False),
        mock.patch.object(Assigning, "assign", content),
    ):
        yield


@contextmanager
def plans_without_topics() -> Iterator[None]:
    """A plan leaves out topics whose metadata is late."""
    with mock.patch.object(Assigning, "_wait_for", return_value=None):
        yield


@contextmanager
def plans_without_unreadable() -> Iterator[None]:
    """The plan leaves out members whose subscription ends early."""
    subscriptions = Assigning._subscriptions

    def readable(self: Assigning, joined: Joined) -> Any:
        short = [one for one in joined.members if one[2][:2] == b"\0\1" and len(one[2]) <= len(_VERSION_0) + 1]
        return [one for one in subscriptions(self, joined) if one[0] not in {member for member, _, _ in short}]

    with (
        mock.patch.object(Assigning, "_subscriptions", readable),
        mock.patch.object(assigning, "members_without_partitions", return_value=()),
    ):
        yield


@contextmanager
def newest_metadata() -> Iterator[None]:
    """The agent's own subscription has version 3, which some leaders cannot read."""

    def newest(subscription: Subscription) -> bytes:
        return encode_subscription(replace(subscription, version=3))

    with mock.patch.object(join_metadata, "encode_subscription", newest):
        yield


@contextmanager
def follows_anybody() -> Iterator[None]:
    """The agent joins groups whose leader gives partitions to members without topics."""
    with (
        mock.patch.object(admission, "UNSOUND_PROTOCOLS", frozenset()),
        mock.patch.object(session, "unsound", return_value=""),
    ):
        yield


@contextmanager
def refreshes_rejected() -> Iterator[None]:
    """The agent treats members that find a topic one after the other as members that reject plans."""
    record = plan_health.planned

    def planned(health: Any, sent: Any) -> Any:
        members: dict[str, frozenset[str]] = dict.fromkeys(sent.subscriptions, frozenset())
        return record(health, replace(sent, subscriptions=members, changed=False))

    with mock.patch.object(back_off, "planned", planned):
        yield


@contextmanager
def fewer_believed() -> Iterator[None]:
    """The agent accepts at once that a broker reports fewer partitions."""
    deletions = cluster._settle_deletions

    def at_once(state: Any, view: Any, now: float, times: Any) -> Any:
        return deletions(state, view, now, replace(times, change=0.0))

    with mock.patch.object(cluster, "_settle_deletions", at_once):
        yield


@contextmanager
def random_place() -> Iterator[None]:
    """If the next coordinator does not know a reserved id, the agent joins with any other id."""
    with mock.patch.object(Membership, "_send_join", HoldingMember._send_join):
        yield


@contextmanager
def reserves_long() -> Iterator[None]:
    """A reserved id is kept for a whole session, also if its answer is lost."""
    with (
        mock.patch.object(reserving_member, "RESERVED_SECONDS", 8.0),
        mock.patch.object(Membership, "_release_late"),
    ):
        yield


@contextmanager
def deaf_to_the_end() -> Iterator[None]:
    """SIGTERM does not interrupt a thread that waits for an answer."""
    with mock.patch.object(group_member.GroupMember, "end_by", return_value=None):
        yield


@contextmanager
def errors_end_it() -> Iterator[None]:
    """Any error in a turn ends the membership."""

    def turn(self: Any, session: Any, _membership: Any) -> None:
        self._wake.wait(session.turn())
        self._wake.clear()

    with mock.patch.object(leader.GroupLeader, "_turn", turn), looks_end_turns():
        yield


@contextmanager
def looks_end_turns() -> Iterator[None]:
    """A failed DescribeGroups ends the turn, so that the agent does not join while the group waits for it."""

    def poll(self: Any) -> Any:
        self._poll_at = self._parts.clock() + self._parts.settings.watch.group_seconds
        view = self._member.describe()
        self._see(view)
        return view

    with mock.patch.object(GroupDescription, "poll", poll):
        yield


@contextmanager
def no_pauses() -> Iterator[None]:
    """The agent retries at once, without a pause."""
    with mock.patch.object(Attempts, "pause_seconds", new_callable=mock.PropertyMock, return_value=0.0):
        yield


PLANTS: Final[dict[str, Callable[[], AbstractContextManager[None]]]] = {
    "": nullcontext,
    "one-phase": one_phase,
    "pending-forever": pending_forever,
    "every-look-believed": every_look_believed,
    "no-budget": no_budget,
    "stays": stays,
    "deaf-to-partitions": deaf_to_partitions,
    "joins-anything": joins_anything,
    "asleep": asleep,
    "stays-alone": stays_alone,
    "plans-without-topics": plans_without_topics,
    "plans-without-unreadable": plans_without_unreadable,
    "newest-metadata": newest_metadata,
    "follows-anybody": follows_anybody,
    "refreshes-rejected": refreshes_rejected,
    "fewer-believed": fewer_believed,
    "random-place": random_place,
    "reserves-long": reserves_long,
    "deaf-to-the-end": deaf_to_the_end,
    "errors-end-it": errors_end_it,
    "looks-end-turns": looks_end_turns,
    "no-pauses": no_pauses,
}
"""The plants by name; the empty name is no plant."""
