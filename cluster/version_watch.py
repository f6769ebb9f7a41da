"""Asks every broker for its API versions, at start and periodically, and logs the result when it changes.

`cluster.versions` defines what is needed and what follows from the versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions
from kafka.protocol.metadata import ApiVersionsRequest

from samerack.cluster.client import close, connect
from samerack.cluster.versions import FEATURES, FLOOR, TESTED, Ranges, Versions, versions_of
from samerack.common.attempts import RetryPauses
from samerack.common.errors import AgentError
from samerack.common.kafka_config import for_kafka_python
from samerack.common.service import Service

log = structlog.get_logger("versions")

_ASK_SECONDS: Final = 300.0
"""Replacing brokers one by one takes longer than this."""
_RETRIES: Final = RetryPauses(first=15.0, most=15.0)
_REQUEST_MILLISECONDS: Final = 5000


def ask(client: KafkaNetClient) -> Versions:
    """Returns the versions of all running brokers.

    Raises:
        KafkaError: A broker does not answer.
    """
    manager = client._manager  # noqa: SLF001 - there is no other way to ask one broker

    async def one(broker: int) -> Any:
        request = ApiVersionsRequest(client_software_name="samerack", client_software_version="0")
        return await manager.wait_for(manager.send(request, node_id=broker), _REQUEST_MILLISECONDS)

    answers = []
    for broker in sorted(broker.node_id for broker in client.cluster.brokers()):
        response = client._net.run(one, broker)  # noqa: SLF001 - as above
        ranges: Ranges = {entry.api_key: (entry.min_version, entry.max_version) for entry in response.api_keys}
        release = ".".join(map(str, infer_broker_version_from_api_versions(dict(ranges))))
        answers.append((release, ranges))
    return versions_of(answers)


class VersionWatch(Service):
    """Polls the brokers' versions and keeps the last result."""

    failure_event = "versions-unknown"
    expected_errors = (kafka_errors.KafkaError, AgentError)
    is_checked = False

    def __init__(self, kafka: Mapping[str, str]) -> None:
        """Prepare; `start` starts polling.

        Args:
            kafka: How to reach the brokers.
        """
        super().__init__("versions", retries=_RETRIES)
        self._kafka = dict(kafka)
        self.found: Versions | None = None

    def unsupported_reason(self) -> str:
        """Returns why no group can be led; empty if groups can be led, or nothing is known."""
        return self.found.unsupported_reason if self.found is not None else ""

    def summary(self) -> dict[str, Any]:
        """Returns the versions for `/v1/status`; releases are empty while nothing is known."""
        found = self.found or Versions(releases=(), missing=())
        return {
            "releases": list(found.releases),
            "least": FLOOR,
            "tested": list(TESTED),
            "missing": [
                {"feature": one.name, "since": one.since, "required": one.required, "without": one.without}
                for one in found.missing
            ],
            "unsupported": found.unsupported_reason,
        }

    def turn(self) -> float:
        """Polls once; returns the pause."""
        client = connect(for_kafka_python(self._kafka))
        try:
            found = ask(client)
        finally:
            close(client)
        if found != self.found:
            self.found = found
            self._tell(found)
        return _ASK_SECONDS

    def report(self, trouble: str) -> None:
        """Logs why a poll failed at debug level: `cluster.watch` reports that brokers cannot be reached."""
        log.debug(self.failure_event, error=trouble)

    def _tell(self, found: Versions) -> None:
        log.info(
            "broker-versions",
            releases=list(found.releases),
            supported=f"from Kafka {FLOOR}; tested: {', '.join(TESTED)}",
            has=[one.name for one in FEATURES if one not in found.missing],
            without={one.name: one.without for one in found.missing},
        )
        if found.unsupported_reason:
            log.error("brokers-too-old", reason=found.unsupported_reason)
