"""`POST /v1/statistics`: where applications on this host bring librdkafka's statistics; refused ones change nothing.

Byte rates decide where partitions go, so nobody else is heeded: no other machine, and no page in a browser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent.traffic.groups import ObservedMember
from agent.traffic.statistics import MOST_BYTES, StatisticsError
from agent.web_guard import refused_change

Take = Callable[[str, bytes, str | None], ObservedMember]
"""Takes the group, the body and a member id or instance id, and tells whose statistics they are."""


def routes(take: Take) -> Sequence[Route]:
    """The route; `take` raises StatisticsError for what makes no sense."""

    async def statistics(request: Request) -> Response:
        if refused := refused_change(request, "post to an agent beside the application"):
            return JSONResponse({"error": refused}, status_code=403)
        group = request.query_params.get("group", "")
        try:
            if not group:
                raise StatisticsError("no group is named; post to /v1/statistics?group=NAME")  # noqa: TRY301 - answered below, as all
            body = await _body(request)
            member = await run_in_threadpool(take, group, body, request.query_params.get("member"))
        except StatisticsError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except ClientDisconnect:
            return Response(status_code=400)
        return JSONResponse({"member": member.id, "rack": member.rack.rack})

    return [Route("/v1/statistics", statistics, methods=["POST"])]


async def _body(request: Request) -> bytes:
    """The body; reading ends where it gets too large, whatever its header said."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise StatisticsError(f"the body has more than {MOST_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)
