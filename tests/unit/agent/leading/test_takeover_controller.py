"""When a takeover starts: on request or by the setting, if it is worth it, from a good place, one at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from samerack.agent.group_status import FOLLOWING, LEADING, STANDBY
from samerack.agent.leading.join_position import JoinPosition
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.progress import Progress, TakeoverOutcome
from samerack.agent.leading.rebalance_evaluator import Evaluation, RebalanceEvaluator
from samerack.agent.leading.takeover_controller import TakeoverController, TakeoverLock
from samerack.agent.policy import Action, Breaker, Changes, Decision, GroupCondition, Reason
from samerack.agent.policy.requests import OperatorRequest, RequestKind
from samerack.cluster.group import GroupView
from samerack.cluster.racks import NO_HOSTS
from samerack.settings.all_settings import Settings
from samerack.settings.leading import LeadingSettings
from tests.unit.agent.leading.policies import condition, cost
from tests.unit.agent.leading.scripted import reporter_of
from tests.unit.agent.leading.test_takeover import AGENT, M1, M2, M3, STABLE, held
from tests.unit.agent.leading.test_takeover_attempt import Joining
from tests.unit.agent.values import group

COST = replace(cost(2, assigned=4), sum_of_squares=8)
CONDITION = GroupCondition(
    present=COST, possible=COST, partitions_changed=False, withheld=0, rounds=0, changes=Changes()
)
EVALUATION = cast("Evaluation", SimpleNamespace(condition=CONDITION))
BEHIND = group(M2, AGENT, M1, M3)  # a member other than the agent would lead next


@dataclass
class _Evaluator:
    """Replaces the evaluator: gives the decision that is set, and counts what is spent."""

    action: Action = Action.REBALANCE
    reason: Reason = Reason.RACKS_CHANGED
    after: float = 0.0
    saved_bytes_per_second: float | None = None
    saved_dollars_per_day: float | None = None
    spent: int = 0

    def dry_run(self, _: Evaluation) -> Decision:
        return Decision(action=self.action, reason=self.reason, before=0.5, after=self.after)

    def takes_over(self) -> None:
        self.spent += 1


@dataclass
class Stage:
    """A takeover controller with its membership and clock."""

    leading: LeadingSettings = field(default_factory=LeadingSettings)
    lock: TakeoverLock = field(default_factory=TakeoverLock)
    evaluator: _Evaluator = field(default_factory=_Evaluator)
    joining: Joining = field(default_factory=Joining)
    approached: int = 0
    now: float = 100.0
    returned: OperatorRequest | None = None

    def __post_init__(self) -> None:
        """Let the agent follow for a minute."""
        self.reporter = reporter_of()
        self.reporter.become(FOLLOWING)
        self.joining.waited_seconds = 0.5
        self.takeovers = TakeoverController(
            group="orders",
            leading=self.leading,
            evaluator=cast("RebalanceEvaluator", self.evaluator),
            position=cast("JoinPosition", self),
            reporter=self.reporter,
            lock=self.lock,
            returned=lambda: self.returned,
            clock=lambda: self.now,
        )
        self.takeovers.joined(self.member)
        self.now += 60

    @property
    def member(self) -> Membership:
        """The membership."""
        return cast("Membership", self.joining)

    @property
    def progress(self) -> Progress:
        """What it reports."""
        return self.takeovers.request.progress

    def ask(self, *, dry_run: bool = False) -> Progress:
        """Request a takeover."""
        return self.takeovers.request.ask(dry_run=dry_run)

    def approach(self, _member: Membership, _view: GroupView, *, max_ahead: int, rejoins: int) -> bool:
        """Replace the join position: counts attempts that find no better place."""
        self.approached += 1
        return max_ahead > 0 < rejoins

    def consider(self, view: GroupView = STABLE) -> bool:
        """Run one turn as a follower."""
        return self.takeovers.consider(self.member, view, EVALUATION)


@pytest.mark.parametrize("action", [Action.REBALANCE, Action.PROPOSE])
def test_it_begins_when_asked_to(action: Action) -> None:
    """A requested takeover asks for a rebalance, spends its token, and is what later requests get while it lasts."""
    stage = Stage(evaluator=_Evaluator(action=action))
    assert not stage.consider()
    asked = stage.ask()
    assert asked.outcome is TakeoverOutcome.ASKED
    assert stage.consider()
    assert stage.takeovers.is_under_way
    assert stage.progress.outcome is TakeoverOutcome.RUNNING
    assert stage.joining.done == ["hold", "nudge"]
    assert stage.evaluator.spent == 1
    assert stage.ask().number == stage.ask(dry_run=True).number == asked.number


@pytest.mark.parametrize("lead_again", [False, True])
def test_it_leads_again_after_a_leave_if_that_was_wished(lead_again: bool) -> None:  # noqa: FBT001
    """Then as if the setting asked for it: once the group rests, and only where the policy allows a rebalance."""
    stage = Stage(evaluator=_Evaluator(action=Action.SUPPRESS))
    stage.returned = OperatorRequest(group="orders", kind=RequestKind.RETURN, since=0.0, lead_again=lead_again)
    assert not stage.consider()
    refused = [one.reason for one in stage.reporter.events.latest(kinds=("takeover",))]
    assert [reason.startswith("the gain does not justify a rebalance now") for reason in refused] == [True] * lead_again
    stage.evaluator.action = Action.PROPOSE
    assert not stage.consider(), "it is no request of somebody who waits for it"
    stage.evaluator.action = Action.REBALANCE
    stage.takeovers.joined(stage.member)
    assert not stage.consider()
    stage.now += 6
    assert stage.consider() is lead_again
    assert stage.evaluator.spent == lead_again


@pytest.mark.parametrize("asked", [False, True])
def test_takeovers_undone_before_do_not_prevent_that(asked: bool) -> None:  # noqa: FBT001
    """Those that were asked for never count, and its own only until the next leave."""
    stage = Stage(leading=LeadingSettings(takeover="patient" if asked else "clean"))
    for pause in (30, 60, 1_000_000):
        if asked:
            stage.ask()
        assert stage.consider()
        stage.takeovers.end(stage.member)
        stage.now += pause
    for since in (1.0, 2.0):
        stage.returned = OperatorRequest(group="orders", kind=RequestKind.RETURN, since=since, lead_again=True)
        assert stage.consider()
        stage.takeovers.end(stage.member)
        assert not stage.consider()


def test_no_takeover_of_its_own_comes_right_after_one_that_was_asked_for() -> None:
    """What undid it, such as a slow member, lasts: as after its own, half a minute passes first."""
    stage = Stage(leading=LeadingSettings(takeover="clean"))
    stage.ask()
    assert stage.consider()
    stage.takeovers.end(stage.member)
    stage.now += 29
    assert not stage.consider()
    stage.now += 1
    assert stage.consider()


def test_a_dry_run_answers_and_changes_nothing() -> None:
    """A dry run reports the gain, also from a place that the agent would have to leave first."""
    stage = Stage()
    stage.ask(dry_run=True)
    assert not stage.consider(BEHIND)
    progress = stage.progress
    assert (progress.outcome, progress.dry_run) == (TakeoverOutcome.WOULD, True)
    assert progress.gain is not None
    assert (progress.gain.rejoin_seconds, progress.gain.pause_seconds_at_most) == (0.5, 6.0)
    assert (stage.joining.done, stage.approached, stage.evaluator.spent) == ([], 0, 0)


def test_it_waits_while_a_member_may_be_away() -> None:
    """A request stays open until all members have shown life: all would wait for one that is away. A dry run ends."""
    away = _Evaluator(action=Action.SUPPRESS, reason=Reason.MEMBER_MAY_BE_AWAY)
    stage = Stage(evaluator=away)
    stage.ask()
    for _ in range(10):
        assert not stage.consider()
        stage.now += 4.0
    assert (stage.progress.outcome, stage.joining.done) == (TakeoverOutcome.ASKED, [])
    away.action, away.reason = Action.REBALANCE, Reason.RACKS_CHANGED
    assert stage.consider()
    stage = Stage(evaluator=_Evaluator(action=Action.SUPPRESS, reason=Reason.MEMBER_MAY_BE_AWAY))
    stage.ask(dry_run=True)
    assert not stage.consider()
    assert stage.progress.outcome is TakeoverOutcome.WOULD


@pytest.mark.parametrize(
    ("evaluator", "view", "words"),
    [
        (_Evaluator(action=Action.SUPPRESS), STABLE, "does not justify a rebalance now (racks-changed): 50.0%"),
        (_Evaluator(action=Action.NOTHING), STABLE, "does not justify"),
        (_Evaluator(after=0.5), STABLE, "does not justify"),
        (_Evaluator(), group(AGENT, M1, protocol="cooperative-sticky"), "is cooperative"),
        (_Evaluator(), group(AGENT, M1, state="PreparingRebalance"), "not Stable"),
    ],
)
def test_each_refusal_is_an_answer(evaluator: _Evaluator, view: GroupView, words: str) -> None:
    """A refusal has the reason and leaves the group unchanged."""
    stage = Stage(evaluator=evaluator)
    stage.ask()
    assert not stage.consider(view)
    assert stage.progress.outcome is TakeoverOutcome.REFUSED
    assert words in stage.progress.reason
    assert stage.joining.done == []


def test_where_members_did_not_come_back_nobody_is_evicted() -> None:
    """Neither on request nor by the setting: an error of JoinGroup is fatal to them."""
    for leading in (LeadingSettings(), LeadingSettings(takeover="clean")):
        stage = Stage(leading=leading)
        stage.takeovers.never_evicts = lambda: "members (samsa) did not come back"
        stage.ask()
        assert [stage.consider() for _ in range(2)] == [False, False]
        assert stage.progress.reason == "members (samsa) did not come back"
        assert stage.evaluator.spent == 0


def test_slow_members_are_remembered() -> None:
    """A slow rebalance refuses a takeover, until enough fast ones have followed."""
    stage = Stage()
    stage.joining.waited_seconds = 7.0
    stage.takeovers.joined(stage.member)
    stage.ask()
    stage.consider()
    assert "took 7.0 s to rejoin" in stage.progress.reason
    stage.joining.waited_seconds = 0.4
    for _ in range(5):
        stage.takeovers.joined(stage.member)
    stage.ask()
    assert stage.consider()


def test_an_initial_rebalance_is_no_rejoin() -> None:
    """The JoinGroup of the agent waited 5.8 s as the group formed, and it could not lead again after a leave."""
    stage = Stage()
    stage.joining.waited_seconds = 5.8
    stage.takeovers.joined(stage.member, initial=True)
    stage.ask()
    assert stage.consider()


@pytest.mark.parametrize("mode", ["propose", "act"])
def test_what_was_asked_for_and_undone_may_be_asked_for_again(mode: str) -> None:
    """By the policy's own decisions: a takeover takes a token; it is no open proposal, and no rebalance on trial."""
    policy = {"mode": mode, "refill_seconds": 10_000}
    settings = Settings.model_validate({"kafka": {"bootstrap.servers": "h:1"}, "groups": ["orders"], "policy": policy})
    stage, unused = Stage(), cast("Any", None)
    stage.takeovers.evaluator = evaluator = RebalanceEvaluator(
        settings=settings, watch=unused, assigning=unused, hosts=NO_HOSTS, clock=lambda: stage.now, group="orders"
    )
    evaluation: Any = SimpleNamespace(condition=condition(60, 0), rates_at=stage.now)
    evaluator.decide(evaluation)  # as the agent led, with an open proposal or a trial since
    for tokens in (2, 1):
        assert round(evaluator.tokens) == tokens
        stage.ask()
        assert stage.takeovers.consider(stage.member, STABLE, evaluation)
        stage.takeovers.end(stage.member)
        stage.now += 45
        assert evaluator.breaker == Breaker()
    stage.ask()
    assert not stage.takeovers.consider(stage.member, STABLE, evaluation)
    assert "(out-of-budget)" in stage.progress.reason


def test_a_better_place_is_searched_for_once() -> None:
    """One better place is tried; members that are still ahead of the agent are evicted too."""
    stage = Stage()
    stage.ask()
    assert stage.consider(BEHIND)
    assert (stage.approached, stage.takeovers.is_under_way) == (1, False)
    assert stage.consider(BEHIND)
    assert (stage.approached, stage.takeovers.is_under_way) == (1, True)


def test_one_group_at_a_time() -> None:
    """A takeover is refused while another group's takeover is under way."""
    lock = TakeoverLock()
    assert lock.take("payments") == "payments"
    stage = Stage(lock=lock)
    stage.ask()
    assert not stage.consider()
    assert "taking over payments; only one" in stage.progress.reason
    lock.give("payments")
    stage.ask()
    assert stage.consider()


@pytest.mark.parametrize(
    ("role", "words"), [(LEADING, "leads it already"), (STANDBY, "the agent's role in it is standby")]
)
def test_only_one_that_follows_takes_over(role: str, words: str) -> None:
    """An agent that leads or is standby refuses a takeover."""
    stage = Stage()
    stage.reporter.become(role)
    progress = stage.ask()
    assert progress.outcome is TakeoverOutcome.REFUSED
    assert words in progress.reason


def test_a_question_that_nobody_takes_up_is_answered() -> None:
    """A request is refused after a time in which the group's thread did not take it."""
    stage = Stage()
    stage.ask()
    stage.now += 6
    assert stage.progress.outcome is TakeoverOutcome.REFUSED
    assert not stage.consider()


def test_the_setting_takes_over_whenever_the_lead_is_lost() -> None:
    """The setting starts a takeover only if the policy would act, and again after the agent has led."""
    stage = Stage(leading=LeadingSettings(takeover="clean"))
    stage.evaluator.action = Action.PROPOSE
    assert not stage.consider(), "what is only proposed has to be asked for"
    stage.evaluator.action = Action.REBALANCE
    assert stage.consider()
    stage.takeovers.end(stage.member)
    assert not stage.takeovers.is_under_way
    stage.joining.leading = True
    stage.takeovers.joined(stage.member)
    stage.joining.leading = False
    stage.takeovers.joined(stage.member)
    assert not stage.consider()
    stage.now += 6
    assert stage.consider()


def test_an_agent_that_leads_does_so_while_evicted_members_are_late() -> None:
    """Its turns are those of any leader, and the next takeover waits; the end of the membership ends it well."""
    for is_ended in (False, True):
        stage = Stage(leading=LeadingSettings(takeover="clean"))
        stage.joining.back = held(AGENT, M2, M3)
        assert stage.consider()
        for _ in range(50):
            stage.takeovers.turn(stage.member)
            stage.now += 0.1
        stage.joining.leading = True
        stage.takeovers.joined(stage.member)
        assert (stage.takeovers.is_under_way, stage.progress.outcome) == (False, TakeoverOutcome.RUNNING)
        assert stage.lock.take("another") == "orders"
        if is_ended:
            stage.takeovers.end(stage.member)
        else:
            stage.takeovers.sees(STABLE)
        assert stage.progress.outcome is TakeoverOutcome.LEADS
        assert stage.lock.take("another") == "another"


def test_the_setting_tries_twice_more_what_was_undone() -> None:
    """The setting tries an undone takeover twice more, since the cause may be chance, and then stops."""
    stage = Stage(leading=LeadingSettings(takeover="clean"))
    for pause in (30, 60, 1_000_000):
        assert stage.consider()
        stage.takeovers.end(stage.member)
        stage.takeovers.joined(stage.member)
        stage.now += pause - 1
        assert not stage.consider()
        stage.now += 1
    assert not stage.consider()


def test_the_end_of_the_membership_undoes_it() -> None:
    """The pending member is released, the lock is free, and the progress is `undone`."""
    stage = Stage()
    stage.ask()
    stage.consider()
    stage.takeovers.turn(stage.member)
    stage.takeovers.end(stage.member)
    assert stage.progress.outcome is TakeoverOutcome.UNDONE
    assert not stage.joining.pending
    assert stage.lock.take("payments") == "payments"


def test_ids_that_could_not_be_given_back_are_kept_for_the_next_membership() -> None:
    """A reserved id that could not be released is kept until a later membership releases it."""
    stage = Stage()
    stage.ask()
    stage.consider()
    stage.joining.breaks = True
    stage.takeovers.end(stage.member)
    assert stage.takeovers.orphans == {"pending"}
    stage.joining.breaks = False
    stage.takeovers.release_orphans(stage.member)
    assert stage.takeovers.orphans == frozenset()
    assert stage.joining.done[-1] == "release"
