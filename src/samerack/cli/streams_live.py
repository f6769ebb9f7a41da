"""Reads a live Kafka Streams application from the brokers, without joining its group: members, topics, offsets, bytes.

Both protocols are read: a group of the classic one, and one that brokers assign (KIP-1071).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from samerack.assignors.streams.application import AssignmentConfigs
from samerack.assignors.streams.registry import Partition
from samerack.auth.kafka_config import for_kafka_python
from samerack.cli.asking import hosts_known
from samerack.cli.live_group import asked_configs, measured_rates, unknown_group
from samerack.cli.streams_options import FoundApplication, Rates
from samerack.cluster.metadata import read_metadata, topic_names
from samerack.cluster.racks import Hosts
from samerack.cluster.view import ClusterView
from samerack.cluster.wire import BrokerClient
from samerack.common.errors import AgentError, SettingsError
from samerack.settings.all_settings import Settings
from samerack.settings.cures import command
from samerack.traffic import collect, describe, groups, streams_instances
from samerack.traffic.collect import Offsets, plain_key
from samerack.traffic.curve import LogExtent, bytes_between, extend
from samerack.traffic.describe import Descriptions
from samerack.traffic.groups import STREAMS_ASSIGNOR, ListedGroup
from samerack.traffic.snapshot import Gap, ObservedGroup
from samerack.traffic.streams_application import Brokers, application_of, standbys_now
from samerack.traffic.streams_instances import (
    Changelog,
    Instances,
    KnownBy,
    Unknown,
    changelog_topics,
    given_sources,
    match,
    topics_read,
)
from samerack.traffic.streams_members import Sources

_REBALANCE_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 0.25
_STABLE: Final = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Logs:
    """One poll of the changelogs: offsets and bytes of each partition, when, and what was refused."""

    at: float
    offsets: Mapping[Partition, Offsets]
    sizes: Mapping[Partition, int]
    gaps: tuple[Gap, ...]


def find(
    group: str, settings: Settings, configs: AssignmentConfigs, *, given: Mapping[str, int], seconds: float
) -> FoundApplication:
    """Read an application; wait some seconds for a rebalance to end.

    Args:
        group: its `application.id`.
        settings: how brokers are reached, and where racks come from.
        configs: settings of the plans.
        given: subtopology by changelog, as far as the user knows better.
        seconds: how long to measure bytes; 0 for not at all.

    Raises:
        AgentError: It is not there or no Streams application, rebalances, or brokers do not answer.
    """
    hosts, unasked = hosts_known(settings, group)
    with closing(BrokerClient(for_kafka_python(settings.kafka))) as wire:
        measure = (lambda: measured_rates(group, settings, seconds)[0]) if seconds else None
        found = read(wire, group, settings, configs, hosts=hosts, given=given, measure=measure)
    return replace(found, unknown=(*found.unknown, *_doubts(filter(None, [unasked]))))


def read(
    wire: BrokerClient,
    group: str,
    settings: Settings,
    configs: AssignmentConfigs,
    *,
    hosts: Hosts,
    given: Mapping[str, int],
    measure: Callable[[], Mapping[Partition, float]] | None,
) -> FoundApplication:
    """Read an application over these connections; arguments and errors are those of `find`.

    `hosts` is what other sources know of client hosts. `measure` takes its time and returns the bytes per second that
    members read; None for no measurement.
    """
    listed, _, gaps = describe.listed(wire, read_metadata(wire, ()).brokers, ["*"])
    if group not in listed:
        reasons = "; ".join(sorted({f"{gap.where}: {gap.reason}" for gap in gaps}))
        raise AgentError(f"group {group}: {reasons}") if reasons else unknown_group(group, wire)
    described, instances = _described(wire, listed[group], settings, hosts)
    names = _changelog_names(wire, group, listed, instances)
    sources = {topic for _, partitions in instances.sources for topic, _ in partitions}
    cluster, absent = collect.metadata(wire, {*names, *sources})
    changelogs = _changelogs(group, instances, names, cluster, given)
    rack_aware, _, doubts = asked_configs(settings, wire, cluster)
    logs = {changelog.topic for changelog in changelogs}
    before = after = _poll(wire, cluster, logs)
    rates = measure() if measure is not None else None
    if measure is not None:
        after = _poll(wire, cluster, logs)
    brokers = Brokers(
        cluster=cluster,
        rack_aware_fetch=rack_aware,
        end_offsets={partition: offsets.end for partition, offsets in after.offsets.items()},
    )
    standbys = standbys_now(instances)
    live = application_of(instances, changelogs, brokers, replace(configs, num_standby_replicas=standbys))
    measured = Rates(
        bytes_per_second=None if rates is None else {**_growth(before, after), **rates},
        log_bytes=after.sizes or None,
    )
    refusals = [
        Unknown(what=f"{gap.what} {gap.where}".strip(), cause=f"{gap.reason}: {gap.consequence}")
        for gap in (*gaps, *absent, *after.gaps)
    ]
    return FoundApplication(
        kind=described.kind,
        live=live,
        brokers=brokers,
        rates=measured,
        standbys=standbys,
        unknown=(*refusals, *_doubts(doubts)),
    )


def _doubts(texts: Iterable[str]) -> list[Unknown]:
    return [Unknown(what="racks", cause=text) for text in texts]


def _described(
    wire: BrokerClient, listed: ListedGroup, settings: Settings, hosts: Hosts
) -> tuple[ObservedGroup, Instances]:
    """Return the group once it is stable, and its instances."""
    until = time.monotonic() + _REBALANCE_SECONDS
    while True:
        raw: list[Any] = []
        classic = partial(_remember, raw, partial(groups.classic, racks=settings.racks, agent="", hosts=hosts))
        other = partial(_no_streams, settings)
        found = describe.described(wire, [listed], read={"classic": classic, "consumer": other, "share": other})
        subject = _subject(wire, found, raw, settings, hosts)
        if subject is not None and subject[0].state == _STABLE and subject[0].members:
            return subject
        if time.monotonic() > until:
            if subject is None:
                why = "; ".join(gap.reason for gap in found.gaps) or "is not described by any broker"
            else:
                why = f"is {subject[0].state}; it needs members and no rebalance in progress; try again"
            raise AgentError(f"group {listed.group}: {why}")
        time.sleep(_PAUSE_SECONDS)


def _remember(raw: list[Any], read: Any, described: Any) -> ObservedGroup:
    raw.append(described)
    group: ObservedGroup = read(described)
    return group


def _plan_of(group: str, settings: Settings) -> str:
    """Return how the plan of a group is shown that is no Kafka Streams application."""
    return f"{command('plan', group=group, bootstrap=settings.kafka['bootstrap.servers'])} shows its plan"


def _no_streams(settings: Settings, raw: Any) -> ObservedGroup:
    raise AgentError(
        f"group {raw.group_id}: is a group that brokers assign (KIP-848 or KIP-932), not a Kafka Streams application: "
        f"{_plan_of(raw.group_id, settings)}"
    )


def _subject(
    wire: BrokerClient, found: Descriptions, raw: list[Any], settings: Settings, hosts: Hosts
) -> tuple[ObservedGroup, Instances] | None:
    for described in found.streams:
        cluster, _ = collect.metadata(wire, groups.topics_of_streams(described))
        group = groups.streams(described, racks=settings.racks, cluster=cluster, hosts=hosts)
        return group, streams_instances.of_streams(described, group)
    for group, described in zip(found.groups, raw, strict=True):
        if group.state == _STABLE and group.assignor != STREAMS_ASSIGNOR:
            raise AgentError(
                f"group {group.group}: its members assign with {group.assignor or group.kind}, not Kafka Streams: "
                f"{_plan_of(group.group, settings)}"
            )
        return group, streams_instances.of_classic(described, group)
    return None


def _changelog_names(wire: BrokerClient, group: str, listed: Collection[str], found: Instances) -> tuple[str, ...]:
    if found.changelogs is not None:
        return tuple(sorted(topic for topics in found.changelogs.values() for topic in topics))
    return changelog_topics(group, topic_names(wire), listed)


def _changelogs(
    group: str, found: Instances, names: Sequence[str], cluster: ClusterView, given: Mapping[str, int]
) -> tuple[Changelog, ...]:
    counts = {topic: len(cluster.topics.get(topic, ())) for topic in names}
    _check_given(group, given, found.sources, () if found.changelogs is not None else names)
    if found.changelogs is None:
        return match(group, counts, found.sources, stateful=found.stateful, given=given)
    described = (
        Changelog(
            topic=topic,
            partitions=counts[topic],
            subtopology=part,
            known_by=KnownBy.TOPOLOGY,
            candidates=(part,),
        )
        for part, topics in sorted(found.changelogs.items())
        for topic in topics
    )
    return (*described, *given_sources(found.sources, given))


def _check_given(group: str, given: Mapping[str, int], sources: Sources, names: Collection[str]) -> None:
    """Refuse a given changelog that would change nothing: it is neither one of these names nor read there."""
    read = topics_read(sources)
    for topic, part in given.items():
        option = f"--changelog {topic}={part}"
        if part not in read:
            raise SettingsError(f"{option}: {group} has subtopologies {', '.join(map(str, sorted(read)))}")
        if topic not in names and topic not in read[part]:
            raise SettingsError(
                f"{option} has no effect: subtopology {part} does not read it, and "
                + (f"the changelogs of {group} are {', '.join(names)}" if names else "there is no changelog to place")
            )


def _poll(wire: BrokerClient, cluster: ClusterView, changelogs: Iterable[str]) -> _Logs:
    partitions = [(topic, number) for topic in changelogs for number in range(len(cluster.topics.get(topic, ())))]
    led = collect.leaders(cluster, partitions)
    sizes, refused = collect.log_sizes(wire, led, plain_key)
    offsets, failed = collect.offsets(wire, led, plain_key)
    return _Logs(at=time.monotonic(), offsets=offsets, sizes=sizes, gaps=(*refused, *failed))


def _growth(before: _Logs, after: _Logs) -> dict[Partition, float]:
    """Return the bytes per second that were written to each changelog; compaction does not hide them."""
    rates = {}
    for partition, last in after.offsets.items():
        first = before.offsets.get(partition)
        if first is None or partition not in before.sizes or partition not in after.sizes:
            continue
        curve = None
        for offsets, logs in ((first, before), (last, after)):
            extent = LogExtent(start=offsets.start, end=offsets.end, size_bytes=logs.sizes[partition], leader=0)
            curve = extend(curve, extent)
        if curve is not None:
            rates[partition] = bytes_between(curve, first.end, last.end) / (after.at - before.at)
    return rates
