"""Reads the broker settings that the agent needs: replica selector (KIP-392), initial delay, largest group, assignors.

Consumers read from replicas in their own rack only if every broker has a rack-aware replica selector. Every broker
reads `group.consumer.assignors` for itself, and a group of the new protocol (KIP-848) is assigned by the broker that
coordinates it: only an assignor that every broker has is there for every group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.protocol.admin.configs import DescribeConfigsRequest

from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.errors import error_class, error_text
from samerack.cluster.group import LIMIT_KEY, OFFSETS_TOPIC
from samerack.cluster.metadata import REQUEST_SECONDS, read_metadata
from samerack.cluster.wire import BrokerClient, BrokerRequest
from samerack.common.errors import AgentError
from samerack.settings.all_settings import Settings

RACK_AWARE_SELECTOR: Final = "RackAwareReplicaSelector"
_SELECTOR_KEY: Final = "replica.selector.class"
_INITIAL_DELAY_KEY: Final = "group.initial.rebalance.delay.ms"
ASSIGNORS_KEY: Final = "group.consumer.assignors"
MAX_SIZE_KEY: Final = "group.max.size"
NO_LIMIT: Final = 2**31 - 1
"""The default of `group.max.size`."""
_BROKER_KEYS: Final = (_SELECTOR_KEY, _INITIAL_DELAY_KEY, MAX_SIZE_KEY, ASSIGNORS_KEY)
BROKER: Final = 4
TOPIC: Final = 2
"""Types of resources that have a configuration."""
_CODEC_KEY: Final = "offsets.topic.compression.codec"
_UNCOMPRESSED: Final = "0"
_PERMISSION: Final = "allow DESCRIBE_CONFIGS on the cluster or set racks.replica_selector to rack-aware or leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigs:
    """What the agent reads from the brokers' configuration.

    `rack_aware`: every broker has a rack-aware replica selector (KIP-392). `initial_delay_seconds` is the lowest
    `group.initial.rebalance.delay.ms` of all brokers (KIP-134); None if a broker does not return it. `max_group_size`
    is the lowest `group.max.size` (KIP-389); None if no broker returns it. `assignors` has `group.consumer.assignors`
    by broker (KIP-848); "" where a broker does not return it.
    """

    rack_aware: bool
    initial_delay_seconds: float | None
    max_group_size: int | None = None
    assignors: Mapping[int, str] = field(default_factory=dict)


def read_broker_configs(wire: BrokerClient, brokers: Iterable[int]) -> BrokerConfigs:
    """Read the configuration of every broker.

    Raises:
        NotAllowedError: The agent may not read it.
        RefusedError: TLS or SASL failed.
        AgentError: No response.
    """
    selectors: list[str] = []
    delays: list[str] = []
    sizes: list[str] = []
    assignors: dict[int, str] = {}
    questions = [
        BrokerRequest(broker=broker, request=describe_configs(BROKER, [str(broker)], _BROKER_KEYS))
        for broker in brokers
    ]
    for answer in wire.ask(questions, REQUEST_SECONDS):
        error = answer.error
        if error is None:
            (result,) = answer.response.results
            values = {config.name: config.value or "" for config in result.configs or ()}
            error = kafka_errors.for_code(result.error_code)() if result.error_code else None
        if error is not None:
            raise error_class(error)(
                f"kafka: {_SELECTOR_KEY} of the brokers: {error_text(error, REQUEST_SECONDS, _PERMISSION)}"
            ) from error
        selectors.append(values.get(_SELECTOR_KEY, ""))
        delays.append(values.get(_INITIAL_DELAY_KEY, ""))
        sizes.append(values.get(MAX_SIZE_KEY, ""))
        assignors[answer.question.broker] = values.get(ASSIGNORS_KEY, "")
    return BrokerConfigs(
        rack_aware=bool(selectors) and all(selector.endswith(RACK_AWARE_SELECTOR) for selector in selectors),
        initial_delay_seconds=min(map(int, delays)) / 1000 if delays and all(map(str.isdigit, delays)) else None,
        max_group_size=min(map(int, filter(str.isdigit, sizes)), default=None),
        assignors=assignors,
    )


def read_record_limit(wire: BrokerClient, broker: int) -> int | None:
    """Read how many bytes a group's record may have; None if that is not known, or brokers compress such records."""
    request = describe_configs(TOPIC, [OFFSETS_TOPIC], [LIMIT_KEY])
    request.resources += describe_configs(BROKER, [str(broker)], [_CODEC_KEY]).resources
    (answer,) = wire.ask([BrokerRequest(broker=broker, request=request)], REQUEST_SECONDS)
    if answer.error is not None:
        return None
    values = {config.name: config.value for result in answer.response.results for config in result.configs or ()}
    limit = values.get(LIMIT_KEY) or ""
    return int(limit) if limit.isdigit() and values.get(_CODEC_KEY) == _UNCOMPRESSED else None


def describe_configs(kind: int, names: Sequence[str], keys: Sequence[str]) -> Any:
    """Return the request for these settings of brokers or topics."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[resource(resource_type=kind, resource_name=name, configuration_keys=list(keys)) for name in names],
        include_synonyms=False,
        max_version=4,
    )


def ask_configs(settings: Settings) -> BrokerConfigs:
    """Ask all brokers once.

    Raises:
        AgentError: No broker answers, or the agent may not read it.
    """
    with closing(BrokerClient(for_kafka_python(settings.kafka))) as wire:
        return read_broker_configs(wire, read_metadata(wire, ()).brokers)


def max_size_of(ask: Callable[[], BrokerConfigs]) -> int | None:
    """Return `group.max.size` of the configuration that brokers are asked for; None if it is not known."""
    try:
        return ask().max_group_size
    except AgentError:
        return None


def ask_selector(settings: Settings) -> Callable[[], bool]:
    """Ask once whether brokers serve from the reader's rack, unless the settings define it; return a function.

    The function returns whether they do, or raises an AgentError (NotAllowedError) with the reason why not known.

    Raises:
        AgentError: No broker answers.
    """
    setting = settings.racks.replica_selector
    if setting != "auto":
        return lambda: setting == "rack-aware"
    with closing(BrokerClient(for_kafka_python(settings.kafka))) as wire:
        brokers = read_metadata(wire, ()).brokers
        try:
            aware = read_broker_configs(wire, brokers).rack_aware
        except AgentError as error:
            unknown = error

            def raise_reason() -> bool:
                raise unknown

            return raise_reason
    return lambda: aware


ASSIGNOR: Final = "samerack"
"""The name of samerack's assignor in the brokers, by which members may ask for it."""
CLASS: Final = "io.samerack.broker.RackAwareAssignor"
LINE: Final = f"{ASSIGNORS_KEY}={CLASS},uniform,range"
"""The line in the configuration of a broker that has samerack's assignor."""
TASK_LINE: Final = (
    "group.streams.assignors=sticky,io.samerack.broker.RackAwareTaskAssignor,"
    "io.samerack.broker.RackAwareStickyTaskAssignor"
)
"""The line of brokers and controllers that have samerack's assignors of Streams groups (KIP-1357)."""
_KAFKAS: Final = "org.apache.kafka.coordinator.group.assignor."


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAssignors:
    """The assignors that brokers offer by broker id, the default first, and why nothing is known, or "".

    A class that is neither Kafka's nor samerack's has its class name. A broker that does not say it, such as one before
    Kafka 4, has None.
    """

    by_broker: Mapping[int, tuple[str, ...] | None] = field(default_factory=dict)
    unknown: str = ""

    @property
    def installed(self) -> bool | None:
        """Whether every broker has samerack's assignor; None if that is not known."""
        if self.lacking:
            return False
        return None if self.unknown or not self.by_broker or None in self.by_broker.values() else True

    @property
    def lacking(self) -> tuple[int, ...]:
        """The brokers that do not have samerack's assignor, as far as that is known."""
        return tuple(
            broker for broker, names in sorted(self.by_broker.items()) if names is not None and ASSIGNOR not in names
        )

    @property
    def on_some_brokers(self) -> bool:
        """Whether some brokers are known to have samerack's assignor, and some not to have it."""
        return bool(self.lacking) and any(ASSIGNOR in names for names in self.by_broker.values() if names)

    @property
    def preferred(self) -> bool | None:
        """Whether every broker takes samerack's where members ask for none; None if that is not known."""
        known = [names[:1] == (ASSIGNOR,) for names in self.by_broker.values() if names is not None]
        return (all(known) if self.installed is not None else None) if known else None

    def assignor_of(self, asked: str) -> str:
        """Return samerack's for a name that only it can have, as `samerack.assignor.name` renames it; else the name."""
        offered = {name for names in self.by_broker.values() for name in names or ()}
        renamed = asked and self.installed and asked not in offered and not any("." in name for name in offered)
        return ASSIGNOR if renamed else asked


def from_values(values: Mapping[int, str]) -> ServerAssignors:
    """Return the assignors in the values of `group.consumer.assignors` by broker; "" is a broker that has none."""
    return ServerAssignors(
        by_broker={
            broker: tuple(_name(one.strip()) for one in value.split(",")) if value else None
            for broker, value in values.items()
        }
    )


def assignors_of(ask: Callable[[], BrokerConfigs]) -> ServerAssignors:
    """Return the assignors in the configuration that brokers are asked for; a failure is part of the answer."""
    try:
        return from_values(ask().assignors)
    except AgentError as error:
        return ServerAssignors(unknown=str(error))


def _name(entry: str) -> str:
    if entry == CLASS:
        return ASSIGNOR
    if entry.startswith(_KAFKAS):
        return entry.removeprefix(_KAFKAS).removesuffix("Assignor").lower()
    return entry
