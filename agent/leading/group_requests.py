"""Keeps what operators ask for groups, also across restarts: commands ask from other threads, leaders go by it.

A group has at most one request to stay out and one to pause: a pause outlives a leave that ends before it. What is left
of a leave is kept until the agent leads the group again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from samerack.agent.leading.group_memory import KeptFile
from samerack.agent.policy.requests import ASKED, OperatorRequest, RequestKind, in_words
from samerack.common.records import JsonAnswer

PATH: Final = "/v1/requests"
RESUME: Final = "resume"
"""The action that ends all requests for a group."""
_REQUESTS: Final = TypeAdapter(tuple[OperatorRequest, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestStatus:
    """The agent's role in a group, and the requests in force, at most one of each kind, also in words.

    `after` is what comes after a leave, in words.
    """

    group: str
    role: str
    requests: tuple[OperatorRequest, ...] = ()
    reasons: tuple[str, ...] = ()
    after: str = ""


_STATUS: Final = JsonAnswer(RequestStatus, "reports no requests")
to_json, from_json = _STATUS.to_json, _STATUS.from_json
"""The JSON of `/v1/requests` and `samerack leave --json`."""


class GroupRequests:
    """The requests for all groups of one agent; thread-safe."""

    def __init__(self, path: Path | None = None, *, wall: Callable[[], float] = time.time) -> None:
        """Read what an earlier process has stored; without a path it is remembered in memory only.

        `wall` returns seconds since 1970: a request must end in time although processes were replaced meanwhile.
        """
        self._file = KeptFile(path, name="requests")
        self._wall = wall
        self._lock = threading.Lock()
        self._requests = {(one.group, one.kind): one for one in self._stored()}

    def ask(  # noqa: PLR0913 - all named
        self,
        group: str,
        kind: RequestKind,
        *,
        seconds: float | None = None,
        by: str = "",
        why: str = "",
        lead_again: bool = False,
    ) -> OperatorRequest:
        """Put a request into force, in place of an earlier one of its kind.

        It ends after `seconds`, or, without them, by `end`; `by` is who asks.
        """
        now = self._wall()
        until = now + seconds if seconds is not None else None
        request = OperatorRequest(group=group, kind=kind, since=now, until=until, by=by, why=why, lead_again=lead_again)
        with self._lock:
            self._requests[group, kind] = request
            self._write()
        return request

    def end(self, group: str) -> tuple[OperatorRequest, ...]:
        """End all requests for a group; return those that were in force."""
        return self._remove(group, lambda _: True)

    def end_overdue(self, group: str) -> tuple[OperatorRequest, ...]:
        """Remove and return the requests for a group whose time is over."""
        now = self._wall()
        return self._remove(group, lambda request: request.is_over(now))

    def leads(self, group: str) -> None:
        """Forget what is left of a leave: the agent leads the group again."""
        if (group, RequestKind.RETURN) not in self._requests:
            return  # without the lock, as below: whoever has it may wait for a disk
        with self._lock:
            if self._requests.pop((group, RequestKind.RETURN), None) is not None:
                self._write()

    def of(self, group: str, kind: RequestKind) -> OperatorRequest | None:
        """Return the request of this kind that is in force."""
        request = self._requests.get((group, kind))
        return None if request is None or request.is_over(self._wall()) else request

    def reason(self, group: str, kind: RequestKind) -> str:
        """Return the same in words; empty without one."""
        request = self.of(group, kind)
        return in_words(request) if request is not None else ""

    def status(self, group: str, role: str) -> RequestStatus:
        """Return the requests that are in force, with the agent's role in the group."""
        requests = tuple(one for kind in ASKED if (one := self.of(group, kind)) is not None)
        return RequestStatus(group=group, role=role, requests=requests, reasons=tuple(map(in_words, requests)))

    def _remove(self, group: str, is_meant: Callable[[OperatorRequest], bool]) -> tuple[OperatorRequest, ...]:
        if not self._found(group, is_meant):
            return ()
        with self._lock:
            removed = self._found(group, is_meant)
            for one in removed:
                del self._requests[group, one.kind]
                if one.kind is RequestKind.LEAVE:
                    left = replace(one, kind=RequestKind.RETURN, since=self._wall(), until=None)
                    self._requests[group, RequestKind.RETURN] = left
            if removed:
                self._write()
        return removed

    def _found(self, group: str, is_meant: Callable[[OperatorRequest], bool]) -> tuple[OperatorRequest, ...]:
        found = (self._requests.get((group, kind)) for kind in ASKED)
        return tuple(one for one in found if one is not None and is_meant(one))

    def _stored(self) -> tuple[OperatorRequest, ...]:
        content = self._file.read()
        if content is None:
            return ()
        try:
            return _REQUESTS.validate_python(content)
        except ValidationError as error:
            self._file.reject(error.errors()[0]["msg"])
            return ()

    def _write(self) -> None:
        self._file.write(_REQUESTS.dump_python(tuple(self._requests.values()), mode="json"))
