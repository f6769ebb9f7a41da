"""Which groups the agent may join: a pure rule over one look at the group, with the reason when it may not.

`Admission` asks the rule, and the brokers where the look does not tell, once per state of the group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agent.group import CONSUMER, EMPTY_STATES, GroupView, MemberView, endangers
from agent.leading.order import SOUND_PROTOCOLS, offers_safe_place
from agent.leading.teller import OBSERVING, Teller
from agent.watch import ClusterWatch
from common.settings import LeadingSettings

_CLASSIC: Final = frozenset({"classic", "unknown"})


class Admission:
    """Whether the agent may be in one group."""

    def __init__(
        self,
        *,
        group: str,
        leading: LeadingSettings,
        watch: ClusterWatch,
        group_type: Callable[[str], str],
        teller: Teller,
    ) -> None:
        """Nothing has been asked yet.

        Args:
            group: The group's name.
            leading: Protocol names, the agent's instance id.
            watch: What the agent may see.
            group_type: The type of a group by name, for telling classic groups from those that brokers assign.
            teller: Who is told of reasons against it.
        """
        self._group = group
        self._leading = leading
        self._watch = watch
        self._group_type = group_type
        self._teller = teller
        self._judged: GroupView | None = None
        self._refusal = ""
        self._unseen: frozenset[str] = frozenset()

    @property
    def is_blind(self) -> bool:
        """Whether the agent stayed out because it may not see topics of the group."""
        return bool(self._unseen)

    def forget(self) -> None:
        """Ask anew at the next look."""
        self._judged = None

    def admits(self, view: GroupView) -> bool:
        """Whether the rule and the brokers let the agent in; a group that has not settled yet does not."""
        if not is_settled(view):
            return False
        unseen = self._watch.unseen(self._group)
        if view is not self._judged or unseen != self._unseen:
            reason = blind(unseen) or refusal(view, self._leading)
            self._unseen, self._teller.trouble, self._teller.refused = unseen, blind(unseen), bool(unseen)
            if not reason and (kind := self._group_type(self._group)) not in _CLASSIC:
                reason = f"the brokers assign it (group type {kind})"
            if reason and reason != self._refusal:
                self._teller.log.warning("observing", reason=reason)
            self._judged, self._refusal = view, reason
        if self._refusal:
            self._teller.become(OBSERVING)
        return not self._refusal


def blind(unseen: frozenset[str]) -> str:
    """Why the agent must not plan for a group; nothing where it may see all topics."""
    return f"may not see topics {', '.join(sorted(unseen))}; allow DESCRIBE on them" if unseen else ""


def is_settled(view: GroupView) -> bool:
    """Whether the group is not in the middle of a rebalance: only then does it show what the rule looks at."""
    return view.stable or view.state in EMPTY_STATES


def refusal(view: GroupView, leading: LeadingSettings) -> str:
    """Why the agent stays out of this group; empty when it may join.

    It joins only groups of protocol type `consumer` that share a protocol name with it and whose present leader bears a
    member without topics. Whether brokers assign the group is not seen here (`agent.watch.group_type`).
    """
    if view.protocol_type not in ("", CONSUMER):
        return f"its protocol type is {view.protocol_type!r}, not consumer"
    if not view.stable:
        return ""
    if view.protocol not in leading.protocols:
        return f"its members chose protocol {view.protocol!r}; add that name to leading.protocols"
    if endangers(view) and not leading.roundrobin_tolerates:
        return (
            "its members use roundrobin with subscription v0, and kafka-python 3's roundrobin fails on a member "
            "without topics; if none is kafka-python 3, set leading.roundrobin_tolerates"
        )
    if view.protocol not in SOUND_PROTOCOLS and any(_is_agent(member, leading) for member in view.members):
        return "another agent is in it, or this one before its last end: its session has to run out first"
    if not offers_safe_place(view, ""):
        return "its leader would give partitions to a member without topics, whatever its place"
    return ""


def _is_agent(member: MemberView, leading: LeadingSettings) -> bool:
    """A member without topics and without our instance id: with it, joining would just take that membership over."""
    return (
        member.subscription is not None and not member.subscription.topics and member.instance_id != leading.instance_id
    )
