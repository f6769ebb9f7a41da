"""A server that is none of a cloud's."""

from __future__ import annotations

from sandbox.http_server import Answer, Asked, Server


class Strange(Server):
    """Answers one thing to everything."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._said = answer

    def answer(self, _asked: Asked) -> Answer:
        """The one thing."""
        return self._said
