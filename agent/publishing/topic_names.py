"""Which topic has which kind of records, as the settings say; without a client, for an agent that publishes nothing."""

from __future__ import annotations

from samerack.agent.publishing.outbox import Kind
from samerack.common.errors import SettingsError
from samerack.settings.all_settings import Settings


def topics_of(settings: Settings) -> dict[Kind, str]:
    """Return the topic of each kind of records; empty where nothing is published.

    Raises:
        SettingsError: Events would share a topic with other records.
    """
    asked, events = settings.publishing, settings.events.topic
    if events and events in asked.topics:
        raise SettingsError(f"events.topic: is {events}, like another topic in publishing; events need their own topic")
    topics = {Kind.SAMPLE: asked.traffic_topic, Kind.STATE: asked.states_topic, Kind.EVENT: events}
    return {kind: topic for kind, topic in topics.items() if topic}
