"""Asks every broker for its API versions, and logs the result when it changes; `cluster.watch` asks now and then.

`cluster.versions` defines what is needed and what follows from the versions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import structlog
from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions
from kafka.protocol.metadata import ApiVersionsRequest

from samerack.cluster.metadata import REQUEST_SECONDS
from samerack.cluster.versions import FEATURES, FLOOR, TESTED, Ranges, Versions, versions_of
from samerack.cluster.wire import Question, Wire
from samerack.common.errors import one_line

log = structlog.get_logger("versions")


class BrokerVersions:
    """The brokers' versions as they last answered; any thread may read them."""

    def __init__(self) -> None:
        self.found: Versions | None = None

    def unsupported_reason(self) -> str:
        """Return why no group can be led; empty if groups can be led, or nothing is known."""
        return self.found.unsupported_reason if self.found is not None else ""

    def summary(self) -> dict[str, Any]:
        """Return the versions for `/v1/status`; release are empty while nothing is known."""
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

    def ask(self, wire: Wire, brokers: Iterable[int]) -> bool:
        """Ask these brokers; return whether all have answered. What was known stays if one does not.

        Raises:
            RefusedError: TLS or SASL failed.
            AgentError: No broker can be reached at all.
        """
        ranges: list[Ranges] = []
        for answer in wire.ask([versions_question(broker) for broker in sorted(brokers)], REQUEST_SECONDS):
            if answer.error is not None:
                log.debug("versions-unknown", broker=answer.question.broker, error=one_line(answer.error))
                return False
            ranges.append({one.api_key: (one.min_version, one.max_version) for one in answer.response.api_keys})
        found = versions_of([(_release(one), one) for one in ranges])
        if found != self.found:
            self.found = found
            _tell(found)
        return True


def versions_question(broker: int) -> Question:
    """Return the question for the versions of each API that a broker has."""
    request = ApiVersionsRequest(client_software_name="samerack", client_software_version="0")
    return Question(broker=broker, request=request)


def _release(ranges: Ranges) -> str:
    return ".".join(map(str, infer_broker_version_from_api_versions(dict(ranges))))


def _tell(found: Versions) -> None:
    log.info(
        "broker-versions",
        releases=list(found.releases),
        supported=f"from Kafka {FLOOR}; tested: {', '.join(TESTED)}",
        has=[one.name for one in FEATURES if one not in found.missing],
        without={one.name: one.without for one in found.missing},
    )
    if found.unsupported_reason:
        log.error("brokers-too-old", reason=found.unsupported_reason)
