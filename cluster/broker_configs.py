"""Reads the two broker settings that the agent needs: the replica selector (KIP-392) and the initial rebalance delay.

Consumers read from replicas in their own rack only if every broker has a rack-aware replica selector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # exported in fact

from samerack.cluster.admin import REQUEST_SECONDS, Admin, error_class, error_text, open_admin
from samerack.cluster.metadata import look
from samerack.common.errors import AgentError
from samerack.common.settings import Settings

RACK_AWARE_SELECTOR: Final = "RackAwareReplicaSelector"
_SELECTOR_KEY: Final = "replica.selector.class"
_INITIAL_DELAY_KEY: Final = "group.initial.rebalance.delay.ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigs:
    """What the agent reads from the brokers' configuration.

    Attributes:
        rack_aware: every broker has a rack-aware replica selector (KIP-392).
        initial_delay_seconds: the lowest `group.initial.rebalance.delay.ms` of all brokers, in seconds (KIP-134); None
            if a broker does not return it.
    """

    rack_aware: bool
    initial_delay_seconds: float | None


def read_broker_configs(admin: Admin, brokers: Iterable[int]) -> BrokerConfigs:
    """Reads the configuration of every broker.

    Raises:
        NotAllowedError: The agent may not read it.
        AgentError: No response.
    """
    questions = [
        [ConfigResource(ConfigResource.Type.BROKER, str(broker))] for broker in brokers
    ]  # librdkafka accepts one broker per call
    selectors: list[str] = []
    delays: list[str] = []
    try:
        answers = [admin.describe_configs(question, request_timeout=REQUEST_SECONDS) for question in questions]
        for future in (future for answer in answers for future in answer.values()):
            entries = admin.answer(future)
            selectors.append(_value(entries, _SELECTOR_KEY))
            delays.append(_value(entries, _INITIAL_DELAY_KEY))
    except (KafkaException, TimeoutError) as error:
        raise error_class(error)(
            f"kafka: {_SELECTOR_KEY} of the brokers: {error_text(error)}; allow DESCRIBE_CONFIGS on the cluster or set "
            "racks.replica_selector to rack-aware or leader"
        ) from error
    return BrokerConfigs(
        rack_aware=bool(selectors) and all(selector.endswith(RACK_AWARE_SELECTOR) for selector in selectors),
        initial_delay_seconds=min(map(int, delays)) / 1000 if delays and all(map(str.isdigit, delays)) else None,
    )


def _value(entries: Mapping[str, Any], key: str) -> str:
    entry = entries.get(key)
    return (entry.value or "") if entry is not None else ""


def ask_selector(settings: Settings) -> Callable[[], bool]:
    """Asks once whether brokers serve from the reader's rack, unless the settings define it; returns a function.

    The function returns whether they do, or raises NotAllowedError or another AgentError with the reason why that is
    not known.

    Raises:
        AgentError: No broker answers.
    """
    setting = settings.racks.replica_selector
    if setting != "auto":
        return lambda: setting == "rack-aware"
    admin = open_admin(settings.kafka)
    brokers = look(admin, ()).brokers
    try:
        aware = read_broker_configs(admin, brokers).rack_aware
    except AgentError as error:
        unknown = error

        def raise_reason() -> bool:
            raise unknown

        return raise_reason
    return lambda: aware
