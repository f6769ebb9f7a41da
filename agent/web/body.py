"""Reads request bodies within limits: content type, number of bytes, time, and number at the same time.

Any client that reaches the port may open connections and send slowly: that must not use up the memory or time that
others need.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from samerack.common.words import plain

JSON: Final = "application/json"
_SECONDS: Final = 5.0
_AT_ONCE: Final = 16
_LONGEST_REASON: Final = 500


class RequestError(Exception):
    """A rejected request: the HTTP status of the response, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    def answer(self) -> Response:
        """Return the response."""
        return refusal(self.status, str(self))


def refusal(status: int, reason: str) -> Response:
    """Return a JSON object with the reason, cut to a maximum length and without terminal control characters."""
    text = plain(reason)
    text = text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."
    # after a timeout, close the connection instead of waiting for the rest of the body
    headers = {"connection": "close"} if status == 408 else None
    return JSONResponse({"error": text}, status_code=status, headers=headers)


class BodyReader:
    """Reads the bodies of one route; for use in one event loop."""

    def __init__(self, *, max_bytes: int, seconds: float = _SECONDS, at_once: int = _AT_ONCE) -> None:
        """Read bodies of so many bytes at most, each within some seconds and so many at the same time."""
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._free = at_once

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body, whatever length its header claims; it counts as being read until the context ends.

        Raises:
            RequestError: It is not JSON by its content type (415), too long (413), late (408), cut off (400), or one
                too many at the same time (503).
        """
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise RequestError(415, f"content-type: expected {JSON}")
        if not self._free:
            raise RequestError(503, "too many other requests are in progress; try again in a few seconds")
        self._free -= 1
        try:
            yield await self._in_time(request)
        finally:
            self._free += 1

    async def _in_time(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._parts(request)
        except TimeoutError:
            raise RequestError(408, f"request body did not arrive within {self._seconds:g} s") from None
        except ClientDisconnect:
            raise RequestError(400, "request body was cut off") from None

    async def _parts(self, request: Request) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > self._max_bytes:
                raise RequestError(413, f"request body has more than {self._max_bytes} bytes")
            parts.append(part)
        return b"".join(parts)
