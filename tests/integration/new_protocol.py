"""Helpers of the tests of groups that brokers assign (KIP-848): members, bytes, and samerack's commands about them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Final

from sandbox.members.process import Member
from sandbox.sockets import measure
from tests.integration.scene import A, B, C, Scene

SPREAD: Final = ((1,), (2,), (3,)) * 4
"""Twelve partitions, four of which can be read in any one rack."""
OVERHEAD: Final = 0.1
"""More than the share of heartbeats and metadata in what members receive, which a rack cannot keep near."""
_MEASURE_SECONDS: Final = 3.0


def join(scene: Scene, client: str, rack: str, **properties: str) -> Member:
    """Starts a member of the new protocol."""
    return scene.join(client, rack, assignor="", heartbeat_interval_ms="", group_protocol="consumer", **properties)


def join_on_both_clients(scene: Scene, **properties: str) -> None:
    """Starts a member in each rack on Java, then on librdkafka, and waits until each partition has its owner."""
    for client in ("java", "confluent"):
        for rack in (A, B, C):
            join(scene, client, rack, **properties)
        scene.wait_settled()


def assignor(scene: Scene) -> str:
    """The group's assignor, as its coordinator describes it."""
    return str(scene.describe().partition_assignor)


def command(scene: Scene, *words: str) -> dict[str, Any]:
    """The JSON of a command of samerack on the scene's cluster."""
    line = [sys.executable, "-m", "samerack.cli.main", *words, "--json", "-b", scene.cluster.bootstrap]
    line += ["-s", f'traffic.groups=["{scene.group}"]']
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SAMERACK_")}
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def measured_share(scene: Scene) -> float:
    """The share of bytes from another rack, by the kernel's counts."""
    own = {seat.member.pid: seat.rack for seat in scene.seats}
    return measure(scene.cluster.brokers.values(), own, seconds=_MEASURE_SECONDS).cross_rack_share


def verify(scene: Scene) -> dict[str, dict[str, Any]]:
    """The findings of `samerack verify` by code, from a measurement of some seconds."""
    found = command(scene, "verify", "--measure", "--window", "4")["findings"]
    return {finding["code"]: finding for finding in found}
