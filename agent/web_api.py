"""What the agent answers as JSON: `/v1/traffic`, `/v1/findings`, `/v1/events`. Read only.

`samerack cost`, `top` and `verify` read these. What must not enter: working anything out, and HTML.
"""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent import findings, report
from agent.events import MOST_EVENTS
from agent.showing import Showing

_JSON = "application/json"


def routes(showing: Showing) -> list[Route]:
    """The routes over what is shown."""

    def traffic(_: Request) -> Response:
        return Response(report.to_json(showing.report()), media_type=_JSON)

    def verdict(_: Request) -> Response:
        return Response(findings.to_json(showing.verdict()), media_type=_JSON)

    def events(request: Request) -> Response:
        given = request.query_params.get("most", str(MOST_EVENTS))
        if not given.isascii() or not given.isdigit() or not 1 <= int(given[:9]) <= MOST_EVENTS:
            wrong = f"most: {given[:20]!r} is no number from 1 to {MOST_EVENTS}"
            return JSONResponse({"error": wrong}, status_code=400)
        found = showing.events.latest(int(given), group=request.query_params.get("group"))
        return JSONResponse({"events": [asdict(event) for event in found]})

    return [Route("/v1/traffic", traffic), Route("/v1/findings", verdict), Route("/v1/events", events)]
