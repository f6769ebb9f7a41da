"""A server that gives one fixed answer."""

from __future__ import annotations

from tests.clouds.http_server import Answer, Asked, Server


class Strange(Server):
    """Gives the same answer to every request."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer

    def answer(self, _asked: Asked) -> Answer:
        """The fixed answer."""
        return self._answer
