"""Endpoints with which programs on this machine ask the leader of one group to do something, and see how it stands.

`POST /v1/requests` asks the agent to leave a group, to pause in it, or to resume; `POST /v1/takeover` to take over as
its leader. `GET` returns what is in force, or the progress. POST accepts only programs on this machine
(`agent.web.server`) that send the content type of JSON, which a page of another origin may not send without a preflight
request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from samerack.agent.leading import group_requests, progress
from samerack.agent.leading.progress import TakeoverOutcome
from samerack.agent.policy.requests import ASKED, MAX_SECONDS, MAX_TEXT, RequestKind
from samerack.agent.web.server import JSON, BodyReader, RequestError, refusal, refused_change
from samerack.common.words import nearest, plain

if TYPE_CHECKING:
    from samerack.agent.leading.leader import GroupLeader

PATH: Final = "/v1/requests"
RESUME: Final = "resume"
ACTIONS: Final[Mapping[str, RequestKind | None]] = {**{kind.value: kind for kind in ASKED}, RESUME: None}
"""What may be asked for, and the kind of request that it puts into force; None ends all."""
_FIELDS: Final = frozenset({"group", "action", "seconds", "by", "why", "lead_again"})
_MAX_BYTES: Final = 4096

_Ask: TypeAlias = "Callable[[GroupLeader], tuple[int, bytes]]"
"""Asks a leader, and returns status and JSON of the answer; runs on a thread."""


def routes(leaders: Mapping[str, GroupLeader]) -> list[Route]:
    """Return the routes for the leaders by group."""
    return [
        *_endpoint(
            progress.PATH,
            leaders,
            command="run samerack lead beside the agent",
            read=_takeover,
            show=lambda leader: progress.to_json(leader.takeover),
        ),
        *_endpoint(
            PATH,
            leaders,
            command="run samerack leave, pause or resume beside the agent",
            read=_request,
            show=lambda leader: group_requests.to_json(leader.operators.status),
        ),
    ]


def _endpoint(
    path: str,
    leaders: Mapping[str, GroupLeader],
    *,
    command: str,
    read: Callable[[bytes], tuple[str, _Ask]],
    show: Callable[[GroupLeader], bytes],
) -> list[Route]:
    """Return the routes of one endpoint.

    `command` is what a user who is refused should do instead. `read` returns the group and what asks its leader, from
    the body of POST, and raises RequestError; `show` the JSON of GET, which has the group in the query.
    """
    bodies = BodyReader(max_bytes=_MAX_BYTES)

    async def post(request: Request) -> Response:
        if refused := refused_change(request, command):
            return refusal(403, refused)
        try:
            async with bodies.read(request) as body:
                group, ask = read(body)
        except RequestError as error:
            return error.answer()
        leader = leaders.get(group)
        if leader is None:
            return _unknown(group, leaders)
        status, content = await run_in_threadpool(ask, leader)
        return Response(content, status_code=status, media_type=JSON)

    async def get(request: Request) -> Response:
        group = request.query_params.get("group", "")
        leader = leaders.get(group)
        if leader is None:
            return _unknown(group, leaders)
        return Response(await run_in_threadpool(show, leader), media_type=JSON)

    return [Route(path, get, methods=["GET"]), Route(path, post, methods=["POST"])]


def _unknown(group: str, leaders: Mapping[str, object]) -> Response:
    name = group[:100]
    hint = (
        nearest(name, leaders.keys())
        if leaders
        else "it leads none now: start it with a fitting --group, without --observe"
    )
    return refusal(404, f"group {name!r}: the agent does not lead it; {hint}")


def _object(body: bytes, fields: AbstractSet[str], words: str, *, example: str) -> dict[str, Any]:
    """Return the object in a body, which has no other fields than these.

    Raises:
        RequestError: It is not one; the message has the `example`, or the fields in `words`.
    """
    try:
        sent: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, f"expected JSON: {example}") from None
    if not isinstance(sent, dict) or sent.keys() - fields:
        raise RequestError(400, f"expected an object of {words}")
    return sent


def _takeover(body: bytes) -> tuple[str, _Ask]:
    """Return the requested group, and what asks its leader for a takeover or a dry run.

    Raises:
        RequestError: The body is not valid; the message says what is expected.
    """
    sent = _object(body, {"group", "dry_run"}, "group and dry_run", example='{"group": NAME, "dry_run": false}')
    group, dry_run = sent.get("group"), sent.get("dry_run", False)
    if not isinstance(group, str) or not isinstance(dry_run, bool):
        raise RequestError(400, "expected group to be a string, and dry_run true or false")

    def ask(leader: GroupLeader) -> tuple[int, bytes]:
        asked = leader.take_over(dry_run=dry_run)
        return 409 if asked.outcome is TakeoverOutcome.REFUSED else 202, progress.to_json(asked)

    return group, ask


def _request(body: bytes) -> tuple[str, _Ask]:
    """Return the requested group, and what asks its leader to leave it, to pause in it, or to resume.

    Raises:
        RequestError: The body is not valid; the message says what is expected.
    """
    example = '{"group": NAME, "action": "leave", "seconds": 1800}'
    sent = _object(body, _FIELDS, ", ".join(sorted(_FIELDS)), example=example)
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
    if not isinstance(lead_again, bool) or (lead_again and action != RequestKind.LEAVE):
        raise RequestError(400, "expected lead_again to be true or false, and true only for a leave")

    def ask(leader: GroupLeader) -> tuple[int, bytes]:
        status = leader.operators.ask(
            ACTIONS[action],
            seconds=float(seconds) if seconds is not None else None,
            by=_clean(by),
            why=_clean(why),
            lead_again=lead_again,
        )
        return 200, group_requests.to_json(status)

    return group, ask


def _clean(text: str) -> str:
    """Return a text that is safe in a log, on a page and as a label of a metric."""
    return plain(text.encode("utf-8", "replace").decode())
