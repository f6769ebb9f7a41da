"""All settings of the agent and the pipeline: one model in sections, from flags, environment, file and defaults.

Each module here has one section or a few; `model` combines and loads them.
"""

from samerack.common.settings.base import Section
from samerack.common.settings.election import ElectionSettings
from samerack.common.settings.events import EventSettings
from samerack.common.settings.leading import LeadingSettings, RackSettings, WatchSettings
from samerack.common.settings.measuring import ClientEndpoint, MoneySettings, TrafficSettings
from samerack.common.settings.model import Settings, load, sections
from samerack.common.settings.pipeline import PipelineSettings
from samerack.common.settings.pod import PodSettings, RackSource
from samerack.common.settings.policy import PolicyRules, PolicySettings, WindowSettings
from samerack.common.settings.publishing import PublishingSettings
from samerack.common.settings.showing import LogSettings, WebSettings
from samerack.common.settings.supervisor import SupervisorSettings

__all__ = [
    "ClientEndpoint",
    "ElectionSettings",
    "EventSettings",
    "LeadingSettings",
    "LogSettings",
    "MoneySettings",
    "PipelineSettings",
    "PodSettings",
    "PolicyRules",
    "PolicySettings",
    "PublishingSettings",
    "RackSettings",
    "RackSource",
    "Section",
    "Settings",
    "SupervisorSettings",
    "TrafficSettings",
    "WatchSettings",
    "WebSettings",
    "WindowSettings",
    "load",
    "sections",
]
