"""`POST /v1/takeover` asks the agent to take the lead of a group over, `GET` returns the progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.routing import Route

from samerack.agent.leading.progress import TakeoverOutcome, to_json
from samerack.agent.web import group_endpoint
from samerack.agent.web.body import RequestError

if TYPE_CHECKING:
    from samerack.agent.leading.leader import GroupLeader

PATH: Final = "/v1/takeover"


def routes(leaders: Mapping[str, GroupLeader]) -> list[Route]:
    """Return the routes for the leaders by group."""

    def ask(leader: GroupLeader, dry_run: bool) -> tuple[int, bytes]:  # noqa: FBT001 - called by the endpoint
        progress = leader.take_over(dry_run=dry_run)
        return 409 if progress.outcome is TakeoverOutcome.REFUSED else 202, to_json(progress)

    return group_endpoint.routes(
        PATH,
        leaders,
        command="run samerack lead beside the agent",
        read=_question,
        ask=ask,
        show=lambda leader: to_json(leader.takeover),
    )


def _question(body: bytes) -> tuple[str, bool]:
    """Return the requested group, and whether it is a dry run.

    Raises:
        RequestError: The body is not valid; the message says what is expected.
    """
    try:
        asked: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, 'expected JSON: {"group": NAME, "dry_run": false}') from None
    if not isinstance(asked, dict) or asked.keys() - {"group", "dry_run"}:
        raise RequestError(400, "expected an object of group and dry_run")
    group, dry_run = asked.get("group"), asked.get("dry_run", False)
    if not isinstance(group, str) or not isinstance(dry_run, bool):
        raise RequestError(400, "expected group to be a string, and dry_run true or false")
    return group, dry_run
