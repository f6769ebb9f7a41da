"""kafka-python's connections to brokers, with a memory of who refused.

The library means to remember a broker that refuses and to raise that at once from then on, but does not see it where
TLS or SASL fails: it would connect again without a pause as often as anybody asks. What must not enter: words
(`agent.refusals`), and when a client is made anew.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka.net.manager import KafkaConnectionManager

from agent.refusals import NotAcceptedError, refusal


class Connections(KafkaConnectionManager):  # type: ignore[misc]  # the library is untyped
    """The connections of one client. A broker that refused is not asked again by this client."""

    def __init__(self, net: Any, **config: Any) -> None:
        super().__init__(net, **config)
        self.last_failure: BaseException | None = None

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        await super()._connect(node, conn, **options)
        conn.init_future.add_errback(partial(self._failed, node.node_id))

    def _failed(self, broker: Any, error: BaseException) -> None:
        self.last_failure = error
        words = refusal(error, self.config)
        if words:
            self._auth_failures[broker] = NotAcceptedError(words)
