"""Reads the kernel's byte counts of the sockets between processes and brokers, the reference for measurements."""

import re
import subprocess
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from lab.sandbox.contract import Broker

_PROCESS: Final = re.compile(r"pid=(\d+)")
_RECEIVED: Final = re.compile(r"bytes_received:(\d+)")


@dataclass(slots=True, kw_only=True)
class Sockets:
    """Bytes that processes received from brokers; a closed socket keeps its count of the last reading."""

    brokers: Mapping[int, int]  # port to broker id
    seen: dict[tuple[int, str], tuple[int, int]] = field(default_factory=dict)  # (process, address) to (broker, bytes)

    def read(self) -> None:
        """Read the counts of all open sockets."""
        line = ["ss", "-tinpHO"]
        for row in subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines():  # noqa: S603 - found on the PATH
            process, received, columns = _PROCESS.search(row), _RECEIVED.search(row), row.split()
            port = int(columns[4].rpartition(":")[2]) if len(columns) > 4 else 0
            if process and received and port in self.brokers:
                self.seen[int(process[1]), columns[3]] = (self.brokers[port], int(received[1]))

    def received(self) -> dict[tuple[int, int], int]:
        """Return bytes by process and broker."""
        sums: dict[tuple[int, int], int] = {}
        for (process, _), (broker, count) in self.seen.items():
            sums[process, broker] = sums.get((process, broker), 0) + count
        return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What processes received in a time, by the kernel's counts."""

    by_rack: Mapping[int, Mapping[str, float]]  # process to bytes per second by the broker's rack
    own: Mapping[int, str]  # process to its own rack

    @property
    def cross_rack_share(self) -> float:
        """The share of all bytes that came from another rack; 0 without bytes."""
        total = sum(sum(rates.values()) for rates in self.by_rack.values())
        near = sum(rates.get(self.own[process], 0.0) for process, rates in self.by_rack.items())
        return 1 - near / total if total else 0.0


def measure(brokers: Collection[Broker], own: Mapping[int, str], *, seconds: float) -> Received:
    """Measure for some seconds what processes receive from brokers: records, and the little that the protocol adds.

    Brokers without a rack are left out; `own` is process to its rack.
    """
    racks = {broker.id: broker.rack for broker in brokers if broker.rack is not None}
    sockets = Sockets(brokers={int(one.address.rpartition(":")[2]): one.id for one in brokers if one.id in racks})
    sockets.read()
    before = sockets.received()
    time.sleep(seconds)
    sockets.read()
    rates: dict[int, dict[str, float]] = {process: dict.fromkeys(racks.values(), 0.0) for process in own}
    for (process, broker), count in sockets.received().items():
        if process in rates:
            rates[process][racks[broker]] += (count - before.get((process, broker), 0)) / seconds
    return Received(by_rack=rates, own=own)
