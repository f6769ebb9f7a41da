"""`POST /v1/streams/assign` and `/v1/streams/computed`: plans for Kafka Streams applications on this host.

`POST /v1/streams/prepare` says that an application will ask: its process starts. Only programs on this machine may ask:
each question takes processor time, and each outcome changes what is shown. `GET /v1/streams` shows the last plan of
each application.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from samerack.agent.streams.service import StreamsService
from samerack.agent.streams.workers import NoPlanError
from samerack.agent.web.body import JSON, BodyReader, RequestError, refusal
from samerack.agent.web.guard import refused_change

MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_COMPUTED: Final = 65_536
_CURE: Final = "ask the agent beside the application"


def routes(streams: StreamsService, *, at_once: int) -> list[Route]:
    """Return the routes; so many bodies may be in memory at the same time."""
    questions = BodyReader(max_bytes=MAX_BYTES, at_once=at_once)
    outcomes = BodyReader(max_bytes=_MAX_COMPUTED)

    def answering(bodies: BodyReader, answer: Callable[[bytes], bytes | None]) -> Callable[..., Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            if refused := refused_change(request, _CURE):
                return refusal(403, refused)
            try:
                async with bodies.read(request) as body:
                    found = await run_in_threadpool(answer, body)
            except RequestError as error:
                return error.answer()
            except NoPlanError as error:
                return refusal(error.status, str(error))
            return Response(status_code=204) if found is None else Response(found, media_type=JSON)

        return endpoint

    def show(_: Request) -> Response:
        return JSONResponse({"applications": streams.board.to_json()})

    return [
        Route("/v1/streams", show),
        Route("/v1/streams/assign", answering(questions, streams.plan), methods=["POST"]),
        Route("/v1/streams/computed", answering(outcomes, streams.computed), methods=["POST"]),
        Route("/v1/streams/prepare", answering(outcomes, streams.prepare), methods=["POST"]),
    ]
