"""All settings of the agent and the pipeline: one model in sections, from flags, environment, file and defaults.

Each module here has one section or a few; `model` combines them, and `loading` reads them.
"""

from samerack.common.settings.base import Section
from samerack.common.settings.clusters import cluster_path, of_cluster, only_cluster
from samerack.common.settings.election import ElectionSettings
from samerack.common.settings.events import EventSettings
from samerack.common.settings.leading import LeadingSettings, RackSettings, WatchSettings
from samerack.common.settings.loading import load
from samerack.common.settings.measuring import ClientEndpoint, ClusterSettings, MoneySettings, TrafficSettings
from samerack.common.settings.model import Settings, sections
from samerack.common.settings.pipeline import PipelineSettings
from samerack.common.settings.pod import PodSettings, RackSource
from samerack.common.settings.policy import PolicyRules, PolicySettings, WindowSettings
from samerack.common.settings.publishing import PublishingSettings
from samerack.common.settings.showing import LogSettings, OtelSettings, WebSettings
from samerack.common.settings.streams import StreamsRules, StreamsSettings
from samerack.common.settings.supervisor import SupervisorSettings

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
