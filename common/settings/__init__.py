"""All settings of the agent and the pipeline: one model in sections, from flags, environment, file and defaults.

Each module here has one section or a few; `model` combines and loads them.
"""

from common.settings.base import Section
from common.settings.election import ElectionSettings
from common.settings.events import EventSettings
from common.settings.leading import LeadingSettings, RackSettings, WatchSettings
from common.settings.measuring import ClientEndpoint, MoneySettings, TrafficSettings
from common.settings.model import Settings, load, sections
from common.settings.pipeline import PipelineSettings
from common.settings.pod import PodSettings, RackSource
from common.settings.policy import PolicyRules, PolicySettings, WindowSettings
from common.settings.publishing import PublishingSettings
from common.settings.showing import LogSettings, WebSettings
from common.settings.supervisor import SupervisorSettings

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
