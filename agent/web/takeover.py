"""`POST /v1/takeover` asks the agent to take the lead of a group over, `GET` returns the progress.

POST accepts only programs on this machine (`agent.web.guard`) that send the content type of JSON, which a page of
another origin may not send without a preflight request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from samerack.agent.leading.progress import Outcome, Progress, to_json
from samerack.agent.web.body import JSON, BodyReader, RequestError, refusal
from samerack.agent.web.guard import refused_change

PATH: Final = "/v1/takeover"
_MAX_BYTES: Final = 4096


class TakeoverLeader(Protocol):
    """The leader of one group."""

    @property
    def takeover(self) -> Progress:
        """The progress of its last takeover."""

    def take_over(self, *, dry_run: bool) -> Progress:
        """Requests a takeover."""


def routes(leaders: Mapping[str, TakeoverLeader]) -> list[Route]:
    """Returns the routes for the leaders by group."""
    bodies = BodyReader(max_bytes=_MAX_BYTES)

    async def ask(request: Request) -> Response:
        if refused := refused_change(request, "run samerack lead beside the agent"):
            return refusal(403, refused)
        try:
            async with bodies.read(request) as body:
                group, dry_run = _question(body)
        except RequestError as error:
            return error.answer()
        leader = leaders.get(group)
        if leader is None:
            return refusal(404, _unknown(group, leaders))
        progress = await run_in_threadpool(leader.take_over, dry_run=dry_run)
        status = 409 if progress.outcome is Outcome.REFUSED else 202
        return Response(to_json(progress), status_code=status, media_type=JSON)

    async def show(request: Request) -> Response:
        group = request.query_params.get("group", "")
        leader = leaders.get(group)
        if leader is None:
            return refusal(404, _unknown(group, leaders))
        return Response(to_json(await run_in_threadpool(lambda: leader.takeover)), media_type=JSON)

    return [Route(PATH, show, methods=["GET"]), Route(PATH, ask, methods=["POST"])]


def _question(body: bytes) -> tuple[str, bool]:
    """Returns the requested group, and whether it is a dry run.

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
        raise RequestError(400, "expected group to be a text, and dry_run true or false")
    return group, dry_run


def _unknown(group: str, leaders: Mapping[str, TakeoverLeader]) -> str:
    return (
        f"group {group[:100]!r}: the agent leads none of that name, but {', '.join(sorted(leaders)) or 'none at all'}"
    )
