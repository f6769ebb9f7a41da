"""Reads the kernel's byte counts of the sockets between processes and brokers, the reference for measurements."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_PROCESS: Final = re.compile(r"pid=(\d+)")
_RECEIVED: Final = re.compile(r"bytes_received:(\d+)")


@dataclass(slots=True, kw_only=True)
class Sockets:
    """Bytes that processes received from brokers; a closed socket keeps its count of the last look.

    Attributes:
        brokers: port to broker id.
        seen: process and local address to broker and bytes.
    """

    brokers: Mapping[int, int]
    seen: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)

    def look(self) -> None:
        """Read the counts of all open sockets."""
        line = ["ss", "-tinpHO"]
        for row in subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():  # noqa: S603 - found on the PATH
            process, received, columns = _PROCESS.search(row), _RECEIVED.search(row), row.split()
            port = int(columns[4].rpartition(":")[2]) if len(columns) > 4 else 0
            if process and received and port in self.brokers:
                self.seen[int(process[1]), columns[3]] = (self.brokers[port], int(received[1]))

    def received(self) -> dict[tuple[int, int], int]:
        """Returns bytes by process and broker."""
        sums: dict[tuple[int, int], int] = {}
        for (process, _), (broker, count) in self.seen.items():
            sums[process, broker] = sums.get((process, broker), 0) + count
        return sums
