"""Whether the agent may be in a group now: by the rule of `cluster.joining`, and by what only the brokers know.

They are asked for that once per state of the group. Where the agent may not lead a running group yet, `prospect` says
how it will come to lead it: by the results of `scripts/simulate --deploys 200`, which docs/leading.md shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from samerack.agent.group_status import OBSERVING
from samerack.agent.leading.group_memory import GroupMemory, GroupSizes
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.policy.back_off import BackOff
from samerack.agent.policy.back_off_causes import RULES, BackOffError, Cause
from samerack.cluster.broker_configs import NO_LIMIT
from samerack.cluster.group import (
    CONSUMER,
    EAGER,
    EMPTY_STATES,
    GUEST_BYTES,
    GroupView,
    no_room_reason,
    record_bytes,
    too_large_reason,
    topics_of,
)
from samerack.cluster.joining import SOUND_PROTOCOLS, foreign, refusal
from samerack.cluster.watch import ClusterWatch
from samerack.planning.planner import (
    denied_topics_reason,
    owned_counts,
    unpolled_topics_reason,
    unreadable_member_reason,
)
from samerack.settings.cures import command
from samerack.settings.leading import LeadingSettings
from samerack.settings.protocols import foreign_protocol

_CLASSIC: Final = "classic"


def no_reason() -> str:
    """Return an empty reason: nothing prevents it."""
    return ""


@dataclass(kw_only=True, eq=False)
class Admission:
    """Decides whether the agent may be in one group.

    Attributes:
        group_type: Returns the type of a group by name, to separate classic groups from those that brokers assign.
        unsupported_reason: Why groups on these brokers cannot be led; empty if they can.
        requested: Why an operator wants the agent out of the group; empty while nobody does.
        never_evicts: Why the agent evicts nobody in the group; empty if it may.
    """

    group: str
    leading: LeadingSettings
    watch: ClusterWatch
    group_type: Callable[[str], str]
    reporter: GroupReporter
    foreign_protocols: GroupMemory
    sizes: GroupSizes
    unsupported_reason: Callable[[], str] = no_reason
    requested: Callable[[], str] = no_reason
    never_evicts: Callable[[], str] = no_reason
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.back_off = BackOff(self.clock, requested=self.requested)
        self._decided_for: GroupView | None = None
        self._refusal = ""
        self._trouble = ""
        self._denied = False
        self._kept_out_for = ""
        self.full = ""
        """Why there is no room for the agent in the group as it was last described; empty if there is."""
        self._consumers = 0
        self._proven: int | None = None
        """A `group.max.size` that brokers do not say, but that a refusal has proved; None if there was none."""

    @property
    def makes_room(self) -> bool:
        """Whether the agent stays out so that consumers have their places, and for no other reason."""
        if self.back_off.is_out:
            return self.back_off.last is Cause.GROUP_FULL
        return bool(self.full) and self._refusal == self.full

    def forget(self) -> None:
        """Make the next `admits` decide again."""
        self._decided_for = None

    def report(self) -> None:
        """Report why the agent stays out, or that nothing prevents it: a failure that has passed may be reported."""
        if not self.back_off.is_out:
            self.reporter.trouble, self.reporter.refused = self._refusal, self._denied

    @property
    def max_size(self) -> int | None:
        """`group.max.size`; None if it is not known, or is no limit."""
        known = self.watch.max_group_size
        return self._proven if known is None else known if known < NO_LIMIT else None

    def sees(self, others: GroupView, *, inside: bool) -> None:
        """Decide from a description without the agent whether there is room for it (`group.max.size`).

        While it is outside, the group's last consumers count too: they may just restart. Before the group was seen
        stable, as many as there are may still come.
        """
        self._consumers = present = sum(member.instance_id != self.leading.instance_id for member in others.members)
        if self._proven is not None and present > self._proven:
            self._proven = None  # it was raised since
        if self.max_size is None:
            self.full = ""
            return
        if others.stable:
            self.sizes.note(self.group, present, self.clock())
        last = self.sizes.of(self.group)
        expected = 2 * present if last is None else present if inside else max(present, last)
        self.full = no_room_reason(expected, self.max_size)

    def refused_as_full(self) -> BackOffError:
        """Return the error for GROUP_MAX_SIZE_REACHED, which proves the limit where brokers do not say it."""
        if self.watch.max_group_size is None:
            self._proven = self._consumers
        self.full = no_room_reason(self._consumers, self.max_size) or RULES[Cause.GROUP_FULL].symptom
        return BackOffError(Cause.GROUP_FULL, self.full)

    def admits_initial_rebalance(self) -> bool:
        """Return whether the agent may join while the group forms, and evict members to lead it.

        The protocols of its members are not visible then.
        """
        if self.full or self.back_off.is_out or self.watch.denied_topics(self.group) or self.unsupported_reason():
            return False
        protocol = self.foreign_protocols.of(self.group)
        reason = foreign_protocol(protocol) if protocol else self.never_evicts()
        if reason and reason != self._kept_out_for:
            self.reporter.log.warning("observing", reason=reason)
        self._kept_out_for = reason
        return not reason

    def admits(self, view: GroupView) -> bool:
        """Return whether the rule and the brokers allow joining; False while the group has not settled."""
        if view.stable and view.protocol_type == CONSUMER:
            known = view.protocol in self.leading.protocols
            self.foreign_protocols.keep(self.group, "" if known else view.protocol)
        if self.back_off.is_out:
            self.reporter.trouble = (self.makes_room and self.full) or self.back_off.reason
            self.reporter.become(OBSERVING)
            return False
        if not is_settled(view):
            return False
        denied, last = self.watch.denied_topics(self.group), self.back_off.last
        trouble = (
            denied_topics_reason(denied)
            or self.unsupported_reason()
            or (self.full if view.stable else "")
            or unreadable_member_reason(view)
            or (_has_no_room(view, self.watch.record_limit) if view.stable else "")
            or (foreign(view, self.leading) if last is Cause.FOREIGN_AGENT else "")
            or (self._gift_reason() if last is Cause.ASSIGNED_WITHOUT_TOPICS and view.stable else "")
            or (unpolled_topics_reason(self._unknown(view)) if last is Cause.TOPICS_UNKNOWN else "")
        )
        if view is not self._decided_for or trouble != self._trouble:
            reason = trouble or refusal(view, self.leading)
            self._trouble, self._denied = trouble, bool(denied)
            if not reason and (kind := self.group_type(self.group)) != _CLASSIC:
                reason = f"the brokers assign it (group type {kind})"
            if reason and reason != self._refusal:
                self.reporter.log.warning("observing", reason=reason)
            self._decided_for, self._refusal = view, reason
            self.report()
        if self._refusal:
            self.reporter.become(OBSERVING)
            return False
        return not self.watch.unknown(_topics(view))  # the next poll shows whether the agent may see them

    def _gift_reason(self) -> str:
        return "; ".join(filter(None, (self.back_off.reason, self.never_evicts())))

    def _unknown(self, view: GroupView) -> frozenset[str]:
        return self.watch.unknown(_topics(view), owned_counts(member.assigned for member in view.members).keys())


def _topics(view: GroupView) -> frozenset[str]:
    return topics_of(member.subscription.topics for member in view.members if member.subscription is not None)


def _has_no_room(view: GroupView, limit: int | None) -> str:
    """Return why the group's record cannot hold the agent too; empty if it can, or if that is not known."""
    return too_large_reason(
        record_bytes(view.name, (GUEST_BYTES, *(member.record_bytes for member in view.members))), limit
    )


def is_settled(view: GroupView) -> bool:
    """Return whether the group is not rebalancing: only then does its description have what the rule needs."""
    return view.stable or view.state in EMPTY_STATES


_BIRTH: Final = "with its first consumers once all have been stopped"


def after_leave(view: GroupView | None, leading: LeadingSettings, *, lead_again: bool) -> str:
    """Return what comes after the agent was out of a group on request: how it comes to lead it again, as far as known.

    `view` is how the group was last seen stable, without the agent; None if it was not.
    """
    follows = "the agent follows the group's own leader"
    if view is None:
        return follows
    if reason := refusal(view, leading):
        return f"the agent observes it: {reason}"
    if lead_again and view.protocol in EAGER:
        return f"{follows}, and takes over as leader as soon as the policy allows"
    return f"{follows}, and leads {prospect(view, leading, worth_it=True)}"


def prospect(
    view: GroupView,
    leading: LeadingSettings,
    *,
    worth_it: bool,
    bootstrap: str = "",
    max_size: int | None = None,
) -> str:
    """Return how an agent, which may be in it or not, comes to lead this stable group.

    `worth_it` is whether a plan saves enough for a takeover, which is refused otherwise. `bootstrap` is for an agent
    that is to be started first; it is empty where one follows the group. `max_size` is `group.max.size`, if known.
    """
    consumers = sum(member.instance_id != leading.instance_id for member in view.members)
    if reason := refusal(view, leading) or no_room_reason(consumers, max_size):
        return f"not while it runs: {reason}"
    if view.protocol in SOUND_PROTOCOLS:
        ways = ["when its leader leaves, nearly always within one rolling deploy"]
    else:
        ways = [f"{_BIRTH}; in a rolling deploy by chance only"]
    if worth_it and view.protocol in EAGER:
        run = command("run", "--group", view.name, bootstrap=bootstrap) if bootstrap else ""
        ways.append(f"at once by {command('lead', group=view.name)}" + (f", where {run} runs" if run else ""))
    if static := sum(member.instance_id not in (None, leading.instance_id) for member in view.members):
        ways.append(
            f"but {static} of its members are static, and a static leader that restarts within its session keeps the "
            f"lead and is never evicted: {_BIRTH} then"
        )
    return "; ".join(ways)
