"""What this agent is responsible for, and which groups it measures, so that one agent measures each group.

A group is measured by the agent that is active for leading it; a group that no agent both leads and measures, by the
agent that is active for the longest pattern that it matches. What was read between two moments counts only if the
agent had the same tenure at both: nobody counts what was read around a change of agents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from threading import Lock
from types import MappingProxyType
from typing import Final

import structlog

from samerack.common.patterns import EVERY, fits, included
from samerack.election.messages import Verdict, lead, led_by, observe, observed_by
from samerack.election.registry import Registry

log = structlog.get_logger("election")

_NO_RACKS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """The time since an election in which this agent has a responsibility without interruption.

    Attributes:
        what: the responsibility.
        term: the election that gave it.
        succeeds: whether another agent may have had it before.
    """

    what: str
    term: int
    succeeds: bool = True


class Tenures:
    """All tenures of this agent between two elections."""

    def __init__(self, held: Mapping[str, Tenure], *, measuring: Iterable[str] = ()) -> None:
        """Prepare; `held` is by responsibility, `measuring` those of all agents by which groups are measured."""
        self.held = held
        self._measuring = frozenset(measuring)
        self._patterns = sorted(included(observed_by(self._measuring)), key=lambda one: (-len(one), one))
        self._known: dict[str, Tenure | None] = {}

    def of_pattern(self, pattern: str) -> Tenure | None:
        """Return the tenure in which this agent measures a pattern, as `traffic.groups` has it, if it does."""
        return self.held.get(observe(pattern))

    def of_group(self, group: str) -> Tenure | None:
        """Return the tenure in which this agent measures a group, if it does."""
        if group not in self._known:
            responsibility = lead(group)
            if responsibility not in self._measuring:
                responsibility = next((observe(pattern) for pattern in self._patterns if fits(pattern, group)), "")
            self._known[group] = self.held.get(responsibility)
        return self._known[group]


_ALONE: Final = Tenure(what=observe(EVERY), term=0, succeeds=False)
NOTHING: Final = Tenures({})
EVERYTHING: Final = Tenures({_ALONE.what: _ALONE}, measuring=[_ALONE.what])
"""The tenure of an agent that is alone, or acts as if it were."""


class LeadershipState:
    """What the last election gave this agent: the election's thread changes it, any thread may read it.

    Listeners are called after every change; every value is replaced as a whole. Without an election the agent has every
    responsibility and no standby.
    """

    def __init__(
        self,
        *,
        group: str = "",
        identity: str = "",
        registry: Registry | None = None,
        follow: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """Start before the first election: this agent is active for nothing.

        `registry` has what waiting agents advertise, and `follow` is called with whether to read that; without a
        registry there is no election.
        """
        self._group = group
        self._identity = identity
        self._registry = registry or Registry(group)
        self._follow = follow
        self.racks = _NO_RACKS
        """Rack by address of a host; empty while this agent is active for nothing."""
        self._verdict: Verdict | None = None
        self._elected_as = ""
        self._offered: AbstractSet[str] | None = None
        self._tenures = NOTHING
        self._racks_from: tuple[object, object] = (None, None)
        self.refused = "" if registry is not None else "there is no election"
        """Why this agent cannot take part, so that it acts as if alone; "" while it can."""
        self._displaced = False
        self.elections = 0
        self._listening = Lock()
        self._listeners: tuple[Callable[[], None], ...] = ()

    # read by other packages

    @property
    def term(self) -> int:
        """Number of the last election that this agent took part in; 0 before the first."""
        return self._verdict.term if self._verdict is not None else 0

    @property
    def agents(self) -> int:
        """How many agents took part; 0 while this one waits outside."""
        return self._verdict.agents if self._verdict is not None else 0

    @property
    def waiting_agents(self) -> int:
        """How many agents wait outside the election; 0 while this one is active for nothing."""
        return self._registry.waiting if self.held else 0

    @property
    def held(self) -> AbstractSet[str]:
        """What this agent is active for."""
        return self._verdict.active if self._verdict is not None else frozenset()

    def rack_of(self, host: str) -> str | None:
        """Return the rack of the host with this address, if an agent runs on it."""
        return self.racks.get(host)

    @property
    def trouble(self) -> str:
        """Why this agent is inactive although it could act; "" while it takes part or waits."""
        return f"fenced: another agent has the election.identity {self._identity!r}" if self._displaced else ""

    def is_active(self, responsibility: str) -> bool:
        """Return whether this agent has this responsibility."""
        return bool(self.refused) or responsibility in self.held

    def is_surely_active(self, responsibility: str) -> bool:  # noqa: ARG002 - without election it knows of no others
        """Return whether an election gave this agent the responsibility, and no other agent can have it meanwhile."""
        return False

    def has_standby(self, responsibility: str) -> bool:
        """Return whether another agent would take over if this one stopped."""
        return self._verdict is not None and responsibility in self._verdict.with_standby

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener`, on the election's thread, after every election."""
        with self._listening:
            self._listeners += (listener,)

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call `listener` no more."""
        with self._listening:
            self._listeners = tuple(one for one in self._listeners if one != listener)

    def offer(self, groups: Iterable[str]) -> None:
        """Offer to lead these groups as well as those of the settings; replaces what was offered before."""

    @property
    def tenures(self) -> Tenures:
        """What this agent measures, as far as it knows."""
        return EVERYTHING if self.refused else self._tenures

    def sure_tenures(self) -> Tenures | None:
        """Return `tenures`; None while another agent may measure the same without this one's knowledge."""
        return self.tenures

    # recorded by the election's thread

    def _refuse(self, reason: str) -> None:
        """Record why this agent may not take part; "" once it may."""
        if reason == self.refused:
            return
        if reason:
            log.error("acts-alone", group=self._group, reason=reason)
        self.refused = reason
        self._notify()

    def _give_up(self) -> None:
        """Drop all responsibilities: they belong to another agent with this one's identity."""
        log.error("fenced", identity=self._identity, cure="give every agent its own election.identity")
        self._displaced = True
        self._end()
        self._notify()

    def _end(self) -> None:
        """Record that this agent no longer takes part, so that it is active for nothing."""
        self._verdict, self._elected_as, self._tenures = Verdict(term=self.term, agents=0), "", NOTHING
        self._follow(bool(self.held))
        self._merge_racks()

    def _elected(self, verdict: Verdict, member_id: str, offered: AbstractSet[str] = frozenset()) -> None:
        """Record an election, unless its verdict is known; `offered` are the responsibilities that this agent offered.

        Tenures continue while this agent keeps its member id: then its membership never ended.
        """
        if verdict == self._verdict:
            return
        before = self._tenures if member_id == self._elected_as else NOTHING

        def tenure(what: str) -> Tenure:
            # what this agent observed until now, and leads now, it measures without interruption
            groups = led_by([what])
            return (
                before.held.get(what)
                or (before.of_group(groups[0]) if groups else None)
                or Tenure(what=what, term=verdict.term, succeeds=self._may_succeed(what, verdict))
            )

        self._tenures = Tenures({what: tenure(what) for what in verdict.active}, measuring=verdict.measuring)
        self._verdict, self._elected_as, self._offered = verdict, member_id, offered
        self._follow(bool(self.held))
        self._merge_racks()
        self.elections += 1
        log.info(
            "elected", term=verdict.term, agents=verdict.agents, active=sorted(verdict.active), hosts=len(self.racks)
        )
        self._notify()

    def _is_left_to(self, offered: Collection[str]) -> None:
        """Record what the agents offer that are in the election after this one has left it."""
        verdict = self._verdict
        if verdict is not None and not verdict.with_standby <= set(offered):
            self._verdict = verdict.model_copy(update={"with_standby": verdict.with_standby & set(offered)})
            self._notify()

    def _may_succeed(self, what: str, verdict: Verdict) -> bool:
        """Return whether another agent may have had a responsibility before this election gave it to this one."""
        return verdict.agents > 1 if self._offered is None else what in self._offered

    def _merge_racks(self) -> None:
        """Merge the racks of the election's agents and of those that wait; an address with two racks is left out."""
        verdict, waiting = self._verdict, self._registry.racks
        if self._racks_from[0] is verdict and self._racks_from[1] is waiting:
            return
        self._racks_from = (verdict, waiting)
        elected = verdict.racks if verdict is not None else _NO_RACKS
        self.racks = (
            {
                address: rack
                for address, rack in {**waiting, **elected}.items()
                if elected.get(address, rack) == waiting.get(address, rack)
            }
            if self.held
            else _NO_RACKS
        )

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()
