"""The steps of a takeover: what is sent to the group, and that the pending member never stays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from kafka import errors as kafka_errors

from samerack.agent.leading.membership import Hold, Membership
from samerack.agent.leading.progress import Progress, TakeoverOutcome
from samerack.agent.leading.takeover import HELD_SECONDS, LATE_SECONDS, MAX_TRIES
from samerack.agent.leading.takeover_attempt import TakeoverAttempt
from samerack.cluster.group import GroupView, MemberView
from tests.unit.agent.leading.scripted import reporter_of
from tests.unit.agent.leading.test_takeover import AGENT, M1, M2, M3, OWNED, STABLE, held
from tests.unit.agent.values import group, member

NEW = member("m-9", "orders", client_id="c-1")


@dataclass
class Joining:
    """Replaces a membership whose group is held as soon as it asks; stores what is done with it."""

    view: GroupView = field(default_factory=lambda: held(AGENT, M1, M2, M3))
    back: GroupView = field(default_factory=lambda: held(AGENT, NEW, M2, M3))
    member_id: str = "agent"
    leader_id: str = "m-1"
    is_static: bool = True
    leading: bool = False
    hold_state: Hold = Hold.NONE
    grants: Hold = Hold.HELD
    held_seconds: float = 0.0
    pending: frozenset[str] = frozenset()
    done: list[str] = field(default_factory=list)
    failing: list[kafka_errors.KafkaError] = field(default_factory=list)
    breaks: bool = False
    waited_seconds: float = 0.0

    def hold(self) -> None:
        """Grant the pending member, or the state of `grants`."""
        self.hold_state = self.grants
        self.pending |= {"pending"} if self.grants is Hold.HELD else frozenset()
        self.done.append("hold")

    def nudge(self) -> None:
        """Ask for a rebalance."""
        self.done.append("nudge")

    def release(self, member_id: str) -> bool:
        """Release one id."""
        self.pending -= {member_id}
        self.done.append("release")
        return True

    def let_go(self) -> None:
        """Release every id, unless the coordinator is away."""
        if self.breaks:
            raise kafka_errors.NotCoordinatorError
        self.hold_state, self.pending = Hold.NONE, frozenset()
        self.done.append("let go")

    def describe(self) -> GroupView:
        """The group, or the next error."""
        if self.failing:
            raise self.failing.pop()
        return self.view

    def evict(self, *member_ids: str) -> None:
        """Evict members, who return at once."""
        self.done.append(f"evict {' '.join(sorted(member_ids))}")
        self.view = self.back


@dataclass
class Stage:
    """A takeover attempt with its membership and clock."""

    joining: Joining
    notified: list[str] = field(default_factory=list)
    seen: list[Progress] = field(default_factory=list)
    evicted: list[MemberView] = field(default_factory=list)
    now: float = 100.0

    def __post_init__(self) -> None:
        """Start the attempt."""
        self.run = TakeoverAttempt(
            progress=Progress(group="orders", number=1),
            before=STABLE,
            wait_seconds=5.0,
            reporter=reporter_of(),
            notify_supervisor=lambda: self.notified.append("notified"),
            publish=self.seen.append,
            on_evict=lambda _all, evicted: self.evicted.extend(evicted),
            clock=lambda: self.now,
        )
        self.run.begin(self.member)

    @property
    def member(self) -> Membership:
        """The membership, as the attempt sees it."""
        return cast("Membership", self.joining)

    def turns(self, count: int = 1) -> Progress:
        """Run this many turns, a tenth of a second apart."""
        for _ in range(count):
            self.run.turn(self.member)
            self.now += 0.1
        return self.run.progress


def test_the_steps_come_in_order_and_the_pending_member_goes() -> None:
    """The steps are rebalance, pending member reported to the supervisor, eviction, return, release, lead."""
    stage = Stage(Joining())
    stage.turns(2)
    stage.joining.leading = True
    stage.run.joined(stage.member)
    assert stage.joining.done[:4] == ["hold", "nudge", "evict m-1", "let go"]
    assert stage.notified == ["notified"]
    assert stage.run.progress.outcome is TakeoverOutcome.LEADS
    assert (stage.run.progress.rebalances, stage.run.progress.late) == (2, 0)
    assert [did.step for did in stage.run.progress.did] == ["gather", "hold", "evict", "release"]
    assert stage.run.progress.held_seconds == pytest.approx(0.1)
    assert not stage.joining.pending


def test_the_last_of_several_evicted_is_not_waited_for_for_long() -> None:
    """One request evicts the leader and the next in order, so that no other member becomes leader in between.

    The last one, like librdkafka's followers, joins in its own rebalance; the release waits for one to return.
    """
    stage = Stage(Joining(view=held(M3, AGENT, M1, M2), back=held(AGENT, M2)))
    assert stage.turns(12).step == "evict"
    assert stage.joining.done[-1] == "evict m-1 m-3"
    stage.joining.view = held(AGENT, NEW, M2)
    assert stage.turns(3).step == "evict"
    assert stage.turns(2).step == "release"
    assert stage.joining.done[-1] == "let go"


def released_without_one() -> Stage:
    """An attempt that has released the pending member while one of two evicted members is outside."""
    stage = Stage(Joining(view=held(M3, AGENT, M1, M2), back=held(AGENT, NEW, M2)))
    assert stage.turns(7).step == "release"
    return stage


def led_without_one() -> Stage:
    """The same when the agent leads; nothing is left to do."""
    stage = released_without_one()
    stage.joining.leading = True
    stage.run.joined(stage.member)
    stage.run.sees(None)
    stage.run.sees(group(AGENT, NEW, M2))
    assert (stage.run.progress.outcome, stage.run.progress.step) == (TakeoverOutcome.RUNNING, "rejoin")
    assert (stage.run.is_led, stage.joining.pending) == (True, frozenset())
    return stage


def test_a_late_member_is_part_of_the_takeover() -> None:
    """It is over when that member has partitions again; the rebalances count, and the time until the last plan."""
    stage = led_without_one()
    stage.now += 3.0
    stage.run.joined(stage.member)
    stage.now += 5.0  # until the group is described
    stage.run.sees(group(AGENT, NEW, M2, member("m-8", "orders", client_id="c-3")))
    progress = stage.run.progress
    assert (progress.outcome, progress.rebalances, progress.late, progress.outside) == (TakeoverOutcome.LEADS, 3, 1, 0)
    assert [progress.seconds, progress.late_seconds] == pytest.approx([3.7, 3.7])
    assert [did.step for did in progress.did] == ["gather", "hold", "evict", "release", "rejoin"]


def test_a_member_that_does_not_come_back_is_not_waited_for_without_end() -> None:
    """The takeover ends with what was reached, and says who is missing; so it does if the membership ends."""
    stage = led_without_one()
    stage.now += LATE_SECONDS + 0.1
    stage.run.sees(None)
    ended = led_without_one()
    ended.run.end(ended.member)
    for progress in (stage.run.progress, ended.run.progress):
        assert (progress.outcome, progress.rebalances, progress.late, progress.outside) == (
            TakeoverOutcome.LEADS,
            2,
            0,
            1,
        )
        assert [progress.seconds, progress.late_seconds] == pytest.approx([0.7, 0.0])


def test_what_the_evicted_have_is_passed_on() -> None:
    """Whoever plans next knows who was evicted, before it is."""
    stage = Stage(Joining())
    stage.turns(1)
    assert stage.evicted == [M1]
    assert stage.joining.done[-1] == "evict m-1"


def test_a_faster_leader_is_met_again_a_bounded_number_of_times() -> None:
    """A leader whose plan is in force is not evicted; each pending member is released before the next request."""
    plain = group(AGENT, M1, replace(M2, assigned=OWNED), M3, state="PreparingRebalance")
    stage = Stage(Joining(view=plain))
    progress = stage.turns(MAX_TRIES)
    assert progress.outcome is TakeoverOutcome.UNDONE
    assert f"faster with its plan {MAX_TRIES} times" in progress.reason
    assert not [done for done in stage.joining.done if done.startswith("evict")]
    assert stage.joining.done.count("release") == MAX_TRIES - 1
    assert [did.step for did in progress.did] == ["gather", "again"] * (MAX_TRIES - 1) + ["gather", "hold"]
    assert stage.joining.done[-1] == "let go"


def test_a_pending_member_that_came_too_late_is_for_the_next_rebalance() -> None:
    """The membership joins once more, and no member is evicted until that rebalance is held."""
    joining = Joining()
    stage = Stage(joining)
    held_view, joining.view = joining.view, replace(STABLE, state="CompletingRebalance")
    assert stage.turns(3).step == "hold"
    joining.view = held_view
    assert stage.turns(1).step == "evict"


@pytest.mark.parametrize(
    "changes",
    [
        {"view": held(AGENT, M1, M2)},
        {"back": held(AGENT, NEW, M2)},
        {"view": replace(STABLE, state="Empty")},
        {"hold_state": Hold.FAILED},
        {"hold_state": Hold.NONE},
    ],
    ids=["a member is lost", "one left later", "the group ended", "no pending member", "given up"],
)
def test_trouble_undoes_it(changes: dict[str, Any]) -> None:
    """Any unexpected state ends the attempt, with the pending member released and a reason."""
    joining = Joining()
    stage = Stage(joining)
    for name, value in changes.items():
        setattr(joining, name, value)
    progress = stage.turns(2)
    assert (progress.outcome, bool(progress.reason)) == (TakeoverOutcome.UNDONE, True)
    assert joining.done[-1] == "let go"
    assert not joining.pending


def test_a_rebalance_that_ends_otherwise_undoes_it() -> None:
    """If the rebalance ends without the agent as leader, it follows again and holds nothing."""
    stage = Stage(Joining())
    stage.turns(1)
    stage.run.joined(stage.member)
    assert (stage.run.progress.outcome, stage.joining.pending) == (TakeoverOutcome.UNDONE, frozenset())


def test_slow_members_are_not_waited_for() -> None:
    """After the time of the setting the agent drops its request, and the members' rebalance continues."""
    stage = Stage(Joining(grants=Hold.ASKED))
    assert stage.turns(50).outcome is TakeoverOutcome.RUNNING
    progress = stage.turns(2)
    assert progress.outcome is TakeoverOutcome.UNDONE
    assert "leading.takeover_wait_seconds (5 s)" in progress.reason
    assert stage.joining.hold_state is Hold.NONE


def test_the_group_is_not_held_for_long() -> None:
    """If an evicted member does not return, the pending member is released all the same."""
    stage = Stage(Joining(back=held(AGENT, M2, M3)))
    progress = stage.turns(round(HELD_SECONDS * 10) + 2)
    assert (progress.outcome, progress.step) == (TakeoverOutcome.RUNNING, "release")
    assert HELD_SECONDS <= progress.held_seconds <= HELD_SECONDS + 0.2
    assert not stage.joining.pending


@pytest.mark.parametrize("waits", ["to write", "for descriptions", "to notice", "to write while a member leaves"])
def test_nobody_is_evicted_who_may_have_partitions_again(waits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers drop the pending member after six seconds, whatever has kept the agent waiting until then."""
    stage = Stage(Joining())

    def write(*_: object) -> None:
        stage.now += HELD_SECONDS + 0.1

    def write_while_a_member_leaves(*_: object) -> None:
        stage.joining.view = held(AGENT, M1, M2)

    def describe() -> GroupView:
        stage.now += HELD_SECONDS / 2 + 0.1
        return stage.joining.view

    if waits == "to notice":
        stage.joining.held_seconds = HELD_SECONDS + 0.1
    elif waits == "for descriptions":
        monkeypatch.setattr(stage.joining, "describe", describe)
    else:
        monkeypatch.setattr(stage.run, "on_evict", write if waits == "to write" else write_while_a_member_leaves)
    assert stage.turns().outcome is TakeoverOutcome.UNDONE
    assert stage.joining.done == ["hold", "nudge", "let go"]


def test_what_fails_for_the_moment_is_tried_again_while_the_group_may_be_held() -> None:
    """A failed poll is repeated until the pending member has to be released."""
    stage = Stage(Joining(failing=[kafka_errors.KafkaTimeoutError()]))
    assert stage.turns(3).step == "release"
    stage = Stage(Joining(failing=[kafka_errors.KafkaTimeoutError()] * 50))
    assert stage.turns(41).outcome is TakeoverOutcome.RUNNING
    assert stage.turns().outcome is TakeoverOutcome.UNDONE
    assert not stage.joining.pending


def test_a_pending_member_that_cannot_be_released_is_an_error() -> None:
    """The attempt is over, and the error is raised to the code that ends the membership."""
    stage = Stage(Joining())
    stage.turns(1)
    stage.joining.breaks = True
    with pytest.raises(kafka_errors.NotCoordinatorError):
        stage.run.end(stage.member)
    assert stage.run.is_over
