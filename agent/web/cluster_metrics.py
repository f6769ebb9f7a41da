"""The metrics of several clusters in one exposition: each cluster's own, with the label `cluster` added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from prometheus_client import Metric, generate_latest

OF_THE_PROCESS: Final = frozenset(
    {"samerack_memory_bytes", "samerack_settings_refused", "samerack_pod_rack", "samerack_pod_questions"}
)
"""Families of the process and not of a cluster: shown once, without the label."""


class Registry(Protocol):
    """What has metrics."""

    def collect(self) -> Iterable[Metric]:
        """Return them."""


class ClusterMetrics:
    """The metrics of all clusters as one registry."""

    def __init__(self, registries: Mapping[str, Registry]) -> None:
        """Keep the registries, by the name of the cluster."""
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        """Yield each family once, with the samples of all clusters."""
        families: dict[str, Metric] = {}
        for cluster, registry in self._registries.items():
            for family in registry.collect():
                labels = {} if family.name in OF_THE_PROCESS else {"cluster": cluster}
                if family.name not in families:
                    families[family.name] = Metric(family.name, family.documentation, family.type, family.unit)
                elif not labels:
                    continue
                families[family.name].samples += [
                    sample._replace(labels={**labels, **sample.labels}) for sample in family.samples
                ]
        yield from families.values()

    def exposition(self) -> bytes:
        """Return them in Prometheus' text format."""
        return generate_latest(self)
