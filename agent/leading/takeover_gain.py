"""What a takeover would gain and cost, and whether that is worth a rebalance: pure functions of an evaluation."""

from __future__ import annotations

from samerack.agent.leading.progress import Gain
from samerack.agent.leading.rebalance_evaluator import Evaluation, PolicyStatus
from samerack.agent.leading.takeover import HELD_SECONDS, REBALANCES, longest_pause
from samerack.agent.policy import Action, Decision, Reason
from samerack.cluster.group import GroupView
from samerack.common import words
from samerack.settings.cures import command


def gain_of(view: GroupView, evaluation: Evaluation, policy_status: PolicyStatus, rejoin_seconds: float | None) -> Gain:
    """Return what a takeover would gain and cost; `rejoin_seconds` is how long the members took to rejoin recently."""
    condition = evaluation.condition
    now, then = condition.shares
    return Gain(
        members=len(view.members) - 1,
        cross_rack_now=condition.present.known_partitions_across,
        cross_rack_then=condition.possible.known_partitions_across,
        share_now=now,
        share_then=then,
        saved_bytes_per_second=policy_status.saved_bytes_per_second,
        saved_dollars_per_day=policy_status.saved_dollars_per_day,
        rejoin_seconds=rejoin_seconds,
        held_seconds_at_most=HELD_SECONDS,
        pause_seconds_at_most=longest_pause(rejoin_seconds),
        moved=condition.possible.moved,
        rebalances=REBALANCES,
    )


def worth_refusal(group: str, decision: Decision, *, asked: bool) -> str:
    """Return why the gain is not worth a rebalance now, by what the policy would do if the agent led the group.

    Empty if it is worth it; if a user has `asked` for the takeover, a rebalance that the policy only proposes is
    enough.
    """
    if decision.reason is Reason.PAUSED:
        return f"an operator has paused the agent in this group: {command('resume', group=group)} ends that"
    allowed = {Action.REBALANCE, Action.PROPOSE} if asked else {Action.REBALANCE}
    if decision.before is None or decision.after is None:
        return f"what it would gain is not known ({decision.reason.value}): {words.RACKS_UNKNOWN}"
    if decision.action in allowed and decision.before > decision.after:
        return ""
    return (
        f"the gain is not worth a rebalance now ({decision.reason.value}): {decision.before:.1%} is read across "
        f"racks, {decision.after:.1%} would be"
    )
