"""Settings of one agent that observes several Kafka clusters, and what they are for each of the clusters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from samerack.common.errors import SettingsError
from samerack.common.patterns import EVERY
from samerack.settings.all_settings import Settings
from samerack.settings.publishing import IN_MEMORY

_BROKERS: Final = "bootstrap.servers"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def under_common(common: object, layer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a source says, with `kafka` of the stronger sources over that of each cluster.

    Otherwise a cluster's key in the file would win over the same key of the command line.
    """
    clusters = dict(mapping(layer.get("clusters")))
    if not isinstance(common, Mapping) or not clusters:
        return layer
    for name, cluster in clusters.items():
        if isinstance(own := mapping(cluster).get("kafka"), Mapping):
            clusters[name] = {**cluster, "kafka": {**own, **common}}
    return {**layer, "clusters": clusters}


def check_common_brokers(layers: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that brokers of a stronger source do not take the place of those of several clusters.

    Args:
        layers: What each source says, by its name, the strongest first.

    Raises:
        SettingsError: They do.
    """
    common = ""
    for origin, layer in layers.items():
        for name, cluster in mapping(layer.get("clusters")).items():
            if common and _BROKERS in mapping(mapping(cluster).get("kafka")):
                raise SettingsError(
                    f"kafka.{_BROKERS} (from {common}): cluster {str(name)[:100]!r} has its own brokers; select the "
                    "cluster with --set cluster=NAME, or remove one of the two"
                )
        common = common or (origin if _BROKERS in mapping(layer.get("kafka")) else "")


def mapping(value: object) -> Mapping[str, Any]:
    """Return a map of settings; an empty one for what is no map, which the model refuses."""
    return value if isinstance(value, Mapping) else {}


def check_clusters(settings: Settings) -> None:
    """Check what is true of all clusters together.

    Raises:
        SettingsError: A name is no word, a cluster has no brokers, or another setting is that of a single cluster.
    """
    for name, cluster in settings.clusters.items():
        if not _NAME.fullmatch(name):
            raise SettingsError(
                f"clusters: {name[:100]!r} is not a valid name; expected letters, digits, dots, dashes and underscores"
            )
        if not {**settings.kafka, **cluster.kafka}.get(_BROKERS):
            raise SettingsError(
                f"clusters.{name}.kafka: bootstrap.servers is missing; give {name}: {{kafka: {{bootstrap.servers: "
                "HOST:PORT}}"
            )
    if settings.clusters and settings.groups:
        raise SettingsError(
            "groups: an agent of several clusters leads no groups; put names into clusters.NAME.groups to observe "
            "them, and run one agent per cluster to lead"
        )
    if settings.clusters and settings.publishing.cluster:
        raise SettingsError(
            "publishing.cluster: names one cluster, but clusters has several; remove it: each uses its id"
        )
    if settings.cluster and settings.clusters and settings.cluster not in settings.clusters:
        known = ", ".join(sorted(settings.clusters))
        raise SettingsError(f"cluster: {settings.cluster[:100]!r} is not among clusters, which are {known}")


def cluster_path(name: str) -> str:
    """Return the path below which an agent shows a cluster; empty for the cluster of an agent that has one."""
    return f"/clusters/{name}" if name else ""


def of_cluster(settings: Settings, name: str) -> Settings:
    """Return the settings of an agent that observes one of the clusters.

    Kafka Streams applications ask the agent of their own host, which is none of several clusters.
    """
    cluster = settings.clusters[name]
    groups = cluster.groups or settings.traffic.groups or (EVERY,)
    return settings.model_copy(
        update={
            "kafka": {**settings.kafka, **cluster.kafka},
            "clusters": {},
            "cluster": name,
            "traffic": settings.traffic.model_copy(update={"groups": groups}),
            "streams": settings.streams.model_copy(update={"enabled": False}),
            "events": settings.events.model_copy(update={"path": _path_of(settings.events.path, name)}),
        }
    )


def only_cluster(settings: Settings) -> Settings:
    """Return the settings of a command that is about one cluster.

    Raises:
        SettingsError: There are several, and none of them is named.
    """
    if settings.clusters:
        raise SettingsError(
            f"clusters: are {', '.join(sorted(settings.clusters))}, but this command needs one; select it with --set "
            "cluster=NAME or SAMERACK_CLUSTER"
        )
    return settings


def _path_of(path: str, name: str) -> str:
    """Return the file of one cluster's events beside that of all."""
    if not path or path == IN_MEMORY:
        return path
    whole = Path(path)
    return str(whole.with_name(f"{whole.stem}-{name}{whole.suffix}"))
