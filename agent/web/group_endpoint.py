"""An endpoint with which programs on this machine ask the leader of one group to do something, and see how it stands.

POST accepts only programs on this machine (`agent.web.guard`) that send the content type of JSON, which a page of
another origin may not send without a preflight request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from samerack.agent.web.body import JSON, BodyReader, RequestError, refusal
from samerack.agent.web.guard import refused_change
from samerack.common.words import nearest

_MAX_BYTES: Final = 4096

Leader = TypeVar("Leader")
Asked = TypeVar("Asked")


def routes(  # noqa: PLR0913 - an endpoint has these parts
    path: str,
    leaders: Mapping[str, Leader],
    *,
    command: str,
    read: Callable[[bytes], tuple[str, Asked]],
    ask: Callable[[Leader, Asked], tuple[int, bytes]],
    show: Callable[[Leader], bytes],
) -> list[Route]:
    """Return the routes of one endpoint.

    `command` is what a user who is refused should do instead. `read` returns the group and what is asked, from the body
    of POST, and raises RequestError. `ask` and `show` run on a thread: the first returns status and JSON of the answer,
    the second the JSON of GET, which has the group in the query.
    """
    bodies = BodyReader(max_bytes=_MAX_BYTES)

    async def post(request: Request) -> Response:
        if refused := refused_change(request, command):
            return refusal(403, refused)
        try:
            async with bodies.read(request) as body:
                group, asked = read(body)
        except RequestError as error:
            return error.answer()
        leader = leaders.get(group)
        if leader is None:
            return _unknown(group, leaders)
        status, content = await run_in_threadpool(ask, leader, asked)
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
    return refusal(404, f"group {name!r}: the agent does not lead it; {nearest(name, leaders.keys())}")
