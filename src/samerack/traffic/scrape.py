"""Reads Java's exact bytes per broker from the client's own metrics endpoint (a JMX exporter, Micrometer and such).

`consumer-node-metrics incoming-byte-total{node-id}` are wire bytes; the node `node-2147...` is the coordinator's
connection. `bytes-consumed-total` is decompressed and never read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from samerack.common.fetching import NoAnswerError, ask

MAX_BYTES: Final = 8 << 20
_SECONDS: Final = 2.0
_REDIRECTS: Final = 3
"""The status divided by 100."""
_NAME: Final = re.compile(r"(?i)incoming[_.-]?byte([_.-]?total){0,2}$")
"""Micrometer and some versions of the JMX exporter keep `_total`, others drop it or add it twice."""
_NODE: Final = re.compile(r"^(?:node[-_.]?)?(-?\d+)$")
_COORDINATORS_FROM: Final = 2**30
"""Java numbers a coordinator's connection 2^31 - 1 - id."""


class ScrapeError(Exception):
    """The endpoint does not answer, or not with a client's metrics."""


def scrape(url: str) -> str:
    """Return the text at an http or https address of a client nearby: requested without any proxy or redirect.

    Raises:
        ScrapeError: It does not answer, or with another status than 200, or with more than 8 MiB.
    """
    if not url.startswith(("http://", "https://")):
        raise ScrapeError(f"{url}: only http and https addresses are read")
    address = urlsplit(url)
    path = f"{address.path or '/'}?{address.query}" if address.query else address.path or "/"
    try:
        answer = ask(f"{address.scheme}://{address.netloc}", path, seconds=_SECONDS, max_bytes=MAX_BYTES)
    except NoAnswerError as error:
        raise ScrapeError(str(error)) from None
    if answer.status != HTTPStatus.OK:
        what = "a redirect, which is not followed" if answer.status // 100 == _REDIRECTS else "no page of metrics"
        raise ScrapeError(f"{url}: answers {answer.status}: {what}; give the address of the page itself")
    return answer.body.decode("utf-8", "replace")


def received_by_client(text: str) -> dict[str, dict[int, int]]:
    """Return wire bytes by client id and broker from Prometheus' text format, however the exporter spells the name.

    Raises:
        ScrapeError: It is not that format, or has no such metric.
    """
    found: dict[str, dict[int, int]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not _NAME.search(sample.name):
                    continue
                labels = {key.replace("-", "_").replace(".", "_"): value for key, value in sample.labels.items()}
                node = _NODE.match(labels.get("node_id", ""))
                client = labels.get("client_id", "")
                if node is None or not client or not 0 <= int(node[1]) < _COORDINATORS_FROM:
                    continue
                brokers = found.setdefault(client, {})
                brokers[int(node[1])] = brokers.get(int(node[1]), 0) + int(sample.value)
    except (ValueError, KeyError, IndexError) as error:
        raise ScrapeError(f"not the text format of Prometheus: {error}") from None
    if not found:
        raise ScrapeError("no incoming-byte-total with client_id and node_id; let consumer-node-metrics be exported")
    return found


def pick(clients: Iterable[str], client_id: str) -> str | None:
    """Return the client of a page that belongs to a configured client id; the only one where none is configured."""
    names = sorted(clients)
    if client_id:
        return client_id if client_id in names else None
    return names[0] if len(names) == 1 else None
