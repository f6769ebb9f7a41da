"""`POST /v1/statistics`: applications on this host post librdkafka's statistics; refused ones change nothing.

They change the bytes and dollars shown, so posts from other machines and from pages in a browser are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from samerack.agent.web.guard import BodyReader, RequestError, refusal, refused_change
from samerack.traffic.snapshot import ObservedMember
from samerack.traffic.statistics import MAX_BYTES, MeasuredElsewhereError, StatisticsError

Take = Callable[[str, bytes, str | None], ObservedMember]
"""Takes the group, the body and a member id or instance id, and returns the member of the statistics."""


def routes(take: Take) -> Sequence[Route]:
    """Return the route; `take` raises StatisticsError for invalid statistics."""
    bodies = BodyReader(max_bytes=MAX_BYTES)
    one_at_a_time = asyncio.Lock()  # parsing takes many times the memory of the body

    async def statistics(request: Request) -> Response:
        if refused := refused_change(request, "post to an agent beside the application"):
            return refusal(403, refused)
        group = request.query_params.get("group", "")
        if not group:
            return refusal(400, "missing group; post to /v1/statistics?group=NAME")
        try:
            async with bodies.read(request) as body, one_at_a_time:
                member = await run_in_threadpool(take, group, body, request.query_params.get("member"))
        except RequestError as error:
            return error.answer()
        except MeasuredElsewhereError as error:
            return refusal(409, str(error))
        except StatisticsError as error:
            return refusal(400, str(error))
        return JSONResponse({"member": member.id, "rack": member.rack.rack})

    return [Route("/v1/statistics", statistics, methods=["POST"])]
