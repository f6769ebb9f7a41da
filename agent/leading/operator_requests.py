"""What operators ask of the agent in one group, to leave it or to start no rebalance there; any thread may ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from samerack.agent.leading.group_requests import RequestStatus
from samerack.agent.leading.parts import GroupParts
from samerack.agent.leading.prospect import after_leave
from samerack.agent.policy.requests import Wish


class OperatorRequests:
    """The requests for one group: they are kept, recorded as events, and in force at once."""

    def __init__(self, parts: GroupParts, *, wake: Callable[[], None]) -> None:
        """Change nothing; `wake` starts the group's next turn."""
        self._parts = parts
        self._wake = wake

    @property
    def left(self) -> str:
        """Why the agent stays out of the group on request; empty while nobody wants that."""
        return self._parts.admission.back_off.requested

    @property
    def status(self) -> RequestStatus:
        """The agent's role in the group, and what operators have asked for."""
        requests, group, reporter = self._parts.requests, self._parts.group, self._parts.reporter
        status = requests.status(group, reporter.role)
        leave = requests.of(group, Wish.LEAVE) or requests.of(group, Wish.RETURN)
        if leave is None:
            return status
        leading = self._parts.settings.leading
        return replace(status, after=after_leave(reporter.stable, leading, lead_again=leave.lead_again))

    def ask(
        self, wish: Wish | None, *, seconds: float | None, by: str, why: str, lead_again: bool = False
    ) -> RequestStatus:
        """Put an operator's request into force at once, for some seconds or until it is ended; None ends all."""
        requests, reporter, group = self._parts.requests, self._parts.reporter, self._parts.group
        if wish is None:
            requests.end(group)
            self._parts.evictions.forget()
            reporter.requested("resume", None, by=by, why=why)
        else:
            request = requests.ask(group, wish, seconds=seconds, by=by, why=why, lead_again=lead_again)
            reporter.requested(wish.value, request, by=by, why=why)
        self._wake()
        return self.status

    def end_overdue(self) -> None:
        """End requests whose time is over."""
        for over in self._parts.requests.end_overdue(self._parts.group):
            why = f"the time of the request to {over.wish.value} is over"
            self._parts.reporter.requested("resume", None, by="", why=why)
