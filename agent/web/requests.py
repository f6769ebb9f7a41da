"""`POST /v1/requests` asks the agent to leave a group, to pause in it, or to resume; `GET` returns what is in force."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.routing import Route

from samerack.agent.leading.group_requests import to_json
from samerack.agent.policy.requests import ASKED, MAX_SECONDS, MAX_TEXT, Wish
from samerack.agent.web import group_endpoint
from samerack.agent.web.body import RequestError
from samerack.common.words import plain

if TYPE_CHECKING:
    from samerack.agent.leading.leader import GroupLeader

PATH: Final = "/v1/requests"
RESUME: Final = "resume"
ACTIONS: Final[Mapping[str, Wish | None]] = {**{wish.value: wish for wish in ASKED}, RESUME: None}
"""What may be asked for, and the wish that it puts into force; None ends all."""
_FIELDS: Final = frozenset({"group", "action", "seconds", "by", "why", "lead_again"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request as it was sent."""

    wish: Wish | None
    seconds: float | None
    by: str
    why: str
    lead_again: bool


def routes(leaders: Mapping[str, GroupLeader]) -> list[Route]:
    """Return the routes for the leaders by group."""

    def ask(leader: GroupLeader, asked: _Asked) -> tuple[int, bytes]:
        return 200, to_json(leader.operators.ask(**asdict(asked)))

    return group_endpoint.routes(
        PATH,
        leaders,
        command="run samerack leave, pause or resume beside the agent",
        read=_question,
        ask=ask,
        show=lambda leader: to_json(leader.operators.status),
    )


def _question(body: bytes) -> tuple[str, _Asked]:
    """Return the requested group, and what is asked for it.

    Raises:
        RequestError: The body is not valid; the message says what is expected.
    """
    try:
        sent: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, 'expected JSON: {"group": NAME, "action": "leave", "seconds": 1800}') from None
    if not isinstance(sent, dict) or sent.keys() - _FIELDS:
        raise RequestError(400, f"expected an object of {', '.join(sorted(_FIELDS))}")
    group, action, seconds = sent.get("group"), sent.get("action"), sent.get("seconds")
    if not isinstance(group, str) or not isinstance(action, str) or action not in ACTIONS:
        raise RequestError(400, f"expected group to be a string, and action one of {', '.join(ACTIONS)}")
    if seconds is not None and (
        isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_SECONDS
    ):
        raise RequestError(400, f"expected seconds to be a number above 0 and up to {MAX_SECONDS:.0f}, or null")
    by, why = sent.get("by", ""), sent.get("why", "")
    if not isinstance(by, str) or not isinstance(why, str) or max(len(by), len(why)) > MAX_TEXT:
        raise RequestError(400, f"expected by and why to be strings of up to {MAX_TEXT} characters")
    lead_again = sent.get("lead_again", False)
    if not isinstance(lead_again, bool) or (lead_again and action != Wish.LEAVE):
        raise RequestError(400, "expected lead_again to be true or false, and true only for a leave")
    return group, _Asked(
        wish=ACTIONS[action],
        seconds=float(seconds) if seconds is not None else None,
        by=_clean(by),
        why=_clean(why),
        lead_again=lead_again,
    )


def _clean(text: str) -> str:
    """Return a text that is safe in a log, on a page and as a label of a metric."""
    return plain(text.encode("utf-8", "replace").decode())
