"""`POST /v1/streams/assign?application=NAME` and `/v1/streams/computed`: plans for Kafka Streams on this host.

`POST /v1/streams/prepare` says that an application will ask: the process that plans starts. Only programs on this
machine may ask: each question takes processor time, and each outcome changes what is shown. `GET /v1/streams` shows the
last plan of each application.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from samerack.agent.streams.context import NoPlanError
from samerack.agent.streams.service import StreamsService
from samerack.agent.web.guard import JSON, BodyReader, RequestError, refusal, refused_change

MAX_BYTES: Final = 64 * 1024 * 1024
_AT_ONCE: Final = 2
"""Questions in memory: one that is planned, and one that waits."""
_MAX_COMPUTED: Final = 65_536
_CURE: Final = "ask the agent beside the application"


def routes(streams: StreamsService) -> list[Route]:
    """Return the routes."""
    questions = BodyReader(max_bytes=MAX_BYTES, at_once=_AT_ONCE)
    outcomes = BodyReader(max_bytes=_MAX_COMPUTED)

    def answering(
        bodies: BodyReader, answer: Callable[[bytes, Request], bytes | None]
    ) -> Callable[..., Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            if refused := refused_change(request, _CURE):
                return refusal(403, refused)
            try:
                async with bodies.read(request) as body:
                    found = await run_in_threadpool(answer, body, request)
            except RequestError as error:
                return error.answer()
            except NoPlanError as error:
                return refusal(error.status, str(error))
            return Response(status_code=204) if found is None else Response(found, media_type=JSON)

        return endpoint

    def plan(body: bytes, request: Request) -> bytes:
        return streams.plan(body, request.query_params.get("application", ""))

    def computed(body: bytes, _: Request) -> None:
        streams.computed(body)

    def prepare(*_: object) -> None:
        streams.prepare()

    def show(_: Request) -> Response:
        return JSONResponse({"applications": streams.board.to_json()})

    return [
        Route("/v1/streams", show),
        Route("/v1/streams/assign", answering(questions, plan), methods=["POST"]),
        Route("/v1/streams/computed", answering(outcomes, computed), methods=["POST"]),
        Route("/v1/streams/prepare", answering(outcomes, prepare), methods=["POST"]),
    ]
