"""All settings of the agent and the pipeline: one model in sections, from flags, environment, file and defaults.

Each module here has one section or a few; `model` combines them, and `loading` reads them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from samerack.settings.base import Section
    from samerack.settings.clusters import cluster_path, of_cluster, only_cluster
    from samerack.settings.election import ElectionSettings
    from samerack.settings.events import EventSettings
    from samerack.settings.leading import LeadingSettings, RackSettings, WatchSettings
    from samerack.settings.loading import load
    from samerack.settings.measuring import ClientEndpoint, ClusterSettings, MoneySettings, TrafficSettings
    from samerack.settings.model import Settings, sections
    from samerack.settings.pipeline import PipelineSettings
    from samerack.settings.pod import PodSettings, RackSource
    from samerack.settings.policy import PolicyRules, PolicySettings, WindowSettings
    from samerack.settings.publishing import PublishingSettings
    from samerack.settings.showing import LogSettings, OtelSettings, WebSettings
    from samerack.settings.streams import StreamsRules, StreamsSettings
    from samerack.settings.supervisor import SupervisorSettings

__all__ = [
    "ClientEndpoint",
    "ClusterSettings",
    "ElectionSettings",
    "EventSettings",
    "LeadingSettings",
    "LogSettings",
    "MoneySettings",
    "OtelSettings",
    "PipelineSettings",
    "PodSettings",
    "PolicyRules",
    "PolicySettings",
    "PublishingSettings",
    "RackSettings",
    "RackSource",
    "Section",
    "Settings",
    "StreamsRules",
    "StreamsSettings",
    "SupervisorSettings",
    "TrafficSettings",
    "WatchSettings",
    "WebSettings",
    "WindowSettings",
    "cluster_path",
    "load",
    "of_cluster",
    "only_cluster",
    "sections",
]

_MODULES: Final = {
    "ClientEndpoint": "measuring",
    "ClusterSettings": "measuring",
    "ElectionSettings": "election",
    "EventSettings": "events",
    "LeadingSettings": "leading",
    "LogSettings": "showing",
    "MoneySettings": "measuring",
    "OtelSettings": "showing",
    "PipelineSettings": "pipeline",
    "PodSettings": "pod",
    "PolicyRules": "policy",
    "PolicySettings": "policy",
    "PublishingSettings": "publishing",
    "RackSettings": "leading",
    "RackSource": "pod",
    "Section": "base",
    "Settings": "model",
    "StreamsRules": "streams",
    "StreamsSettings": "streams",
    "SupervisorSettings": "supervisor",
    "TrafficSettings": "measuring",
    "WatchSettings": "leading",
    "WebSettings": "showing",
    "WindowSettings": "policy",
    "cluster_path": "clusters",
    "load": "loading",
    "of_cluster": "clusters",
    "only_cluster": "clusters",
    "sections": "model",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used (PEP 562): options and help need no settings."""
    if name not in _MODULES:
        raise AttributeError(f"module 'samerack.settings' has no attribute {name!r}")
    return getattr(import_module(f"samerack.settings.{_MODULES[name]}"), name)
