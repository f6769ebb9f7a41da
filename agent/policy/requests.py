"""What operators ask of the agent for one group: to stay out of it, or to start no rebalance in it, for some time.

`agent.leading.group_requests` keeps the requests; `agent.policy.back_off` and `agent.policy.decide` go by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AliasChoices, Field

from samerack.common.words import when
from samerack.settings.cures import command

MAX_SECONDS: Final = 366 * 86_400.0
"""The longest request with an end."""
MAX_TEXT: Final = 200
"""The most characters of who asks, and of why."""


class RequestKind(StrEnum):
    """What an operator wants of the agent in one group."""

    LEAVE = "leave"
    PAUSE = "pause"
    RETURN = "return"
    """What is left of a leave that has ended, until the agent leads the group again."""


ASKED: Final = (RequestKind.LEAVE, RequestKind.PAUSE)
"""What operators ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRequest:
    """A request that is in force.

    Attributes:
        since: When it was asked for (seconds since 1970).
        until: When it ends by itself (seconds since 1970); None if only `samerack resume` ends it.
        by: Who asked, by what the command says of its user.
        why: Why, in the operator's words.
        lead_again: Of a leave: whether the agent is to take the lead over after it, as soon as the policy allows.
    """

    group: str
    kind: Annotated[RequestKind, Field(validation_alias=AliasChoices("kind", "wish"))]  # files of before have "wish"
    since: float
    until: float | None = None
    by: str = ""
    why: str = ""
    lead_again: bool = False

    def is_over(self, wall: float) -> bool:
        """Return whether its time is over at this moment (seconds since 1970)."""
        return self.until is not None and wall >= self.until


_DONE: Final[Mapping[RequestKind, str]] = {
    RequestKind.LEAVE: "the agent was asked to stay out of it",
    RequestKind.PAUSE: "the agent was asked to start no rebalance in it for racks or traffic",
}


def in_words(request: OperatorRequest) -> str:
    """Return a request as one text: what, by whom, until when, why, and what ends it."""
    by = f" by {request.by}" if request.by else ""
    until = f" until {when(request.until)} UTC" if request.until is not None else ""
    why = f" ({request.why})" if request.why else ""
    return f"{_DONE[request.kind]}{by}{until}{why}; {command('resume', group=request.group)} ends that"
