"""A consumer in a separate process for the traffic benchmark: it reads, commits, and posts its statistics.

`python -m benchmarks.traffic_member '{"bootstrap.servers": ...}' TOPIC [URL]`; runs until it is killed.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request

from confluent_kafka import Consumer


def main(configuration: dict[str, str | int], topic: str, url: str) -> None:
    """Read until the process is killed."""

    def post(statistics: str) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, statistics.encode(), headers)  # noqa: S310 - the benchmark's own port
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - see above
                answer.read()
        except urllib.error.HTTPError as error:
            with error:  # probably not a member yet
                error.read()

    consumer = Consumer({**configuration, "stats_cb": post})
    consumer.subscribe([topic])
    while True:
        consumer.consume(500, 0.2)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], sys.argv[3])
