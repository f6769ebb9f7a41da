"""All settings of the agent and the pipeline: one model in sections, from flags, environment, file and defaults.

Each module here has one section or a few; `model` combines them, and `loading` reads them.
"""

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
