"""The assignor of samerack in the sandbox's brokers (KIP-848): its jar, and the setting that names it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lab.sandbox.cluster import Cluster
from lab.sandbox.jvm import own_jar
from samerack.cluster.broker_configs import LINE

SETTING: Final[Mapping[str, str]] = dict([LINE.split("=", 1)])
"""The line of the brokers' configuration."""


def jar() -> Path:
    """Return the assignor's jar."""
    return own_jar("samerack-broker-assignor.jar")


def install(cluster: Cluster, broker: int, properties: Mapping[str, str] = SETTING) -> None:
    """Give a broker the jar and the line, or other properties, from its next start on."""
    cluster.override(broker, properties=properties, jars=(jar(),))


def remove(cluster: Cluster, broker: int) -> None:
    """Take both from a broker, from its next start on."""
    cluster.override(broker, properties={})
