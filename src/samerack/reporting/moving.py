"""Says how a group moves from the classic to the new protocol (KIP-848) or back: pure functions of what is known of it.

What brokers refuse is known before anything is changed: they convert no group whose assignments have user data, and
none that their migration policy excludes, and end the first member of the new protocol instead.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from samerack.assignors.evaluate import share_without_racks
from samerack.assignors.problem import NOBODY, Problem
from samerack.cluster.broker_configs import ASSIGNOR, ASSIGNORS_KEY, LINE, MAX_SIZE_KEY, ServerAssignors, from_values
from samerack.cluster.group_protocols import (
    CONSUMER_SIZE_KEY,
    HEARTBEAT_KEY,
    POLICY_KEY,
    PROTOCOLS_KEY,
    SESSION_KEY,
    BrokerProtocols,
    GroupProtocols,
)
from samerack.common.patterns import first_match
from samerack.common.words import some
from samerack.protocol.sticky import COOPERATIVE_STICKY
from samerack.protocol.values import MAX_VERSION
from samerack.reporting.baseline import JOIN_FOR_A_WHILE, present_share, server_share
from samerack.settings.cures import command
from samerack.traffic.snapshot import GroupTraffic

_FIRST_RELEASE: Final = (4, 0)
_RACKS_RELEASE: Final = (4, 1)
_WITHOUT: Final = {"kafka-python*": "kafka-python", "aiokafka*": "aiokafka", "sarama*": "sarama", "kafkajs*": "kafkajs"}
"""Libraries without the new protocol by their default client ids (November 2026)."""
_REMOVED: Final = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")
"""Settings with which Java and librdkafka refuse to start on the new protocol."""
_ONE_BY_ONE: Final = "in every broker's configuration, and restart the brokers one by one"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanShare:
    """What crosses racks under a plan: a share between 0 and 1, None if it is not known."""

    plan: str
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveObstacle:
    """What forbids the move."""

    cause: str
    cure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingChange:
    """A setting of the clients before and after the move."""

    setting: str
    now: str
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStep:
    """One step, its exact lines, and whether it is done; None where that cannot be seen."""

    what: str
    lines: tuple[str, ...] = ()
    done: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Everything that `samerack move` shows.

    Attributes:
        to: `consumer` or `classic`.
        moved: whether all members use that protocol already.
        weighed_by: bytes or partitions, of which `shares` are.
        unknown: what brokers do not answer, or do not know; and of which part `shares` are.
        stop: signs during the roll to stop it at, and what each means.
        back: the way back.
    """

    group: str
    to: str
    moved: bool
    classic_members: int
    new_members: int
    weighed_by: str
    shares: tuple[PlanShare, ...]
    obstacles: tuple[MoveObstacle, ...]
    warnings: tuple[str, ...]
    unknown: tuple[str, ...]
    settings: tuple[SettingChange, ...]
    steps: tuple[MoveStep, ...]
    stop: tuple[str, ...]
    back: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveFacts:
    """What is known of a group that is to move, and of its brokers.

    Attributes:
        configs: the group's own settings, with the brokers' defaults.
        led: whether an agent leads it now.
        unknown: what could not be read, with the cure.
    """

    group: GroupTraffic
    protocols: GroupProtocols
    brokers: Mapping[int, BrokerProtocols]
    configs: Mapping[str, str]
    bootstrap: str
    led: bool = False
    unknown: tuple[str, ...] = ()

    def values(self, key: str) -> dict[str, str]:
        """Return the brokers, in words, by their value of a setting, as far as they return it."""
        found: dict[str, list[str]] = {}
        for broker, one in sorted(self.brokers.items()):
            if key in one.configs:
                found.setdefault(one.configs[key].lower(), []).append(str(broker))
        return {value: some(brokers, "broker") for value, brokers in found.items()}


def move_of(facts: MoveFacts, *, back: bool) -> Move:
    """Return how a group moves to the new protocol, or back to the classic one."""
    group, kinds = facts.group, [member.new for member in facts.protocols.members]
    moved = group.kind != "consumer" if back else group.kind == "consumer" and all(kinds)
    by_bytes = group.problem is not None and group.problem.weights is not None
    forbids = _limits(facts, back=back), *(() if back else (_of_brokers(facts), _of_members(facts)))
    return Move(
        group=group.group,
        to="classic" if back else "consumer",
        moved=moved,
        classic_members=kinds.count(False),
        new_members=kinds.count(True),
        weighed_by="bytes" if by_bytes else "partitions",
        shares=_shares(facts),
        obstacles=() if moved else tuple(chain(*forbids)),
        warnings=() if moved or back else tuple(_warnings(facts)),
        unknown=(*facts.unknown, *_without_racks(group.problem), *(() if moved else (_COMPARE[back],))),
        settings=_settings(facts, back=back),
        steps=() if moved else tuple(_steps_back(facts) if back else _steps(facts)),
        stop=() if moved else _STOP[back],
        back=way_back(group.group, facts.bootstrap, back=back),
    )


_COMPARE: Final = {
    False: "session.timeout.ms, heartbeat.interval.ms and max.poll.interval.ms of the clients, and their library's "
    "release (Java 4.0, librdkafka 2.12 or newer): compare with the applications' own settings",
    True: "session.timeout.ms, heartbeat.interval.ms and partition.assignment.strategy of before: compare with the "
    "applications' own settings",
}
_LAG: Final = "the lag grows although the restarted member has partitions again"
_STOP: Final[Mapping[bool, tuple[str, ...]]] = {
    False: (
        "the restarted member ends with GROUP_ID_NOT_FOUND: brokers do not convert the group, which reads on",
        "it ends with UNSUPPORTED_ASSIGNOR: a broker lacks what group.remote.assignor names; unset that",
        f"it does not start because of {', '.join(_REMOVED)}: remove them",
        "it gets no partitions of topics that it names by a regular expression: brokers match whole names (RE2/J), so "
        "that librdkafka's ^orders- has to become ^orders-.*",
        "it fails in its rebalance callback, which now gets changes only: librdkafka's assign() and unassign() have to "
        "become incremental_assign() and incremental_unassign()",
        "a static member that was killed is refused with UNRELEASED_INSTANCE_ID: brokers keep its place until its "
        "session ends; start it again after that",
        _LAG,
    ),
    True: (
        "the restarted member ends with INCONSISTENT_GROUP_PROTOCOL: all classic members must offer one assignor",
        _LAG,
    ),
}


def _shares(facts: MoveFacts) -> tuple[PlanShare, ...]:
    group, problem = facts.group, facts.group.problem
    without = None if problem is None else share_without_racks(problem, group.long_run_rates)
    return (
        PlanShare(plan="now", share=present_share(group)),
        PlanShare(plan="new protocol, uniform or range (expected of a balanced plan without racks)", share=without),
        PlanShare(
            plan="new protocol, samerack's assignor in the brokers",
            share=None if _gives_no_racks(facts) else server_share(group),
        ),
        PlanShare(plan="classic protocol, led by samerack's agent", share=group.shares.optimal),
    )


def _without_racks(problem: Problem | None) -> Iterator[str]:
    """Yield of what the shares are, where it is not of all."""
    if problem is None:
        return
    for what, racks in (("members", problem.member_rack), ("leader replicas", problem.leader_rack)):
        if lacking := int(np.count_nonzero(racks == NOBODY)):
            yield f"racks of {lacking} of {len(racks)} {what}: the shares are of what is known"


def _gives_no_racks(facts: MoveFacts) -> bool:
    """Return whether there are brokers that give their assignors no racks of partitions."""
    return any(_FIRST_RELEASE <= broker.number < _RACKS_RELEASE for broker in facts.brokers.values())


def _limits(facts: MoveFacts, *, back: bool) -> Iterator[MoveObstacle]:
    """Yield what brokers allow no group to do, or none of this size."""
    allowed = {"bidirectional", "downgrade" if back else "upgrade"}
    then = (
        "the group stays one of the brokers when its last member of the new protocol has left, and no agent can lead it"
        if back
        else "the first member of the new protocol is refused (GROUP_ID_NOT_FOUND) and ends"
    )
    for value, brokers in facts.values(POLICY_KEY).items():
        if value not in allowed:
            yield MoveObstacle(
                cause=f"{brokers}: {POLICY_KEY} is {value}: {then}",
                cure=f"set {POLICY_KEY}=bidirectional {_ONE_BY_ONE}",
            )
    key, count = MAX_SIZE_KEY if back else CONSUMER_SIZE_KEY, len(facts.protocols.members) + facts.led
    for value, brokers in facts.values(key).items():
        if value.isdigit() and int(value) < count:
            yield MoveObstacle(
                cause=f"{brokers}: {key} is {value}, and the group has {count} members",
                cure=f"raise {key} {_ONE_BY_ONE}",
            )


def _of_brokers(facts: MoveFacts) -> Iterator[MoveObstacle]:
    """Yield why brokers assign no groups."""
    old = [str(broker) for broker, one in sorted(facts.brokers.items()) if one.number < _FIRST_RELEASE]
    if old:
        yield MoveObstacle(
            cause=f"{some(old, 'broker')}: Kafka before 4.0 has the new protocol as a preview, or not at all",
            cure="bring every broker to 4.1 or newer",
        )
    elif any(one.group_version == 0 for one in facts.brokers.values()):
        yield MoveObstacle(
            cause="the feature group.version is 0: brokers assign no groups",
            cure=f"kafka-features.sh --bootstrap-server {facts.bootstrap} upgrade --feature group.version=1",
        )
    for value, brokers in facts.values(PROTOCOLS_KEY).items():
        if "consumer" not in value:
            yield MoveObstacle(
                cause=f"{brokers}: {PROTOCOLS_KEY} is {value}",
                cure=f"set {PROTOCOLS_KEY}=classic,consumer {_ONE_BY_ONE}",
            )


def _of_members(facts: MoveFacts) -> Iterator[MoveObstacle]:
    """Yield what members forbid by what they send and were given."""
    group, members = facts.group, facts.protocols.members
    if group.kind not in ("classic", "consumer"):
        yield MoveObstacle(
            cause="it is a Kafka Streams application" if group.kind == "streams-classic" else group.note,
            cure="leave it as it is: only groups of plain consumers move while they run",
        )
        return
    why = ""
    if with_data := [one.client_id for one in members if one.user_data]:
        why = f"assignments of {some(sorted(with_data), 'member')} have user data of {group.assignor}"
    elif (leaders := [one.client_id for one in members if one.will_give_data]) and not facts.led:
        why = (
            f"{some(sorted(leaders), 'member')} use librdkafka's {group.assignor}: as leaders they put user data into "
            "assignments, from the rebalance on with which the roll begins"
        )
    if why:
        yield MoveObstacle(
            cause=f"{why}: the first member of the new protocol is refused (GROUP_ID_NOT_FOUND) and ends",
            cure="change the assignor first, in two rolling restarts: with "
            f"partition.assignment.strategy=range,{group.assignor}, then with range alone"
            + ("; or let an agent lead the group while it moves" if group.assignor == COOPERATIVE_STICKY else ""),
        )
    if unreadable := [one for one in members if one.unreadable]:
        names = some([one.client_id for one in unreadable], "member")
        yield MoveObstacle(
            cause=f"{names} cannot be read, and brokers convert no such group: {unreadable[0].unreadable}",
            cure="end or repair these members",
        )
    without: dict[str, list[str]] = {}
    for member in group.members if group.kind == "classic" else ():
        library = first_match(_WITHOUT, member.client_id)
        if library is not None or member.version < MAX_VERSION:
            why = f"{library} has no new protocol" if library else f"subscription of version {member.version}, too old"
            without.setdefault(why, []).append(member.client_id)
    for why, clients in sorted(without.items()):
        yield MoveObstacle(
            cause=f"{some(sorted(clients), 'member')} cannot move: {why}",
            cure="deploy Java 4.0, librdkafka 2.12, franz-go or newer there first, or leave the group to an agent",
        )


def _warnings(facts: MoveFacts) -> Iterator[str]:
    """Yield what the move costs although nothing forbids it."""
    members = facts.group.members
    if "upgrade" in facts.values(POLICY_KEY):
        yield f"{POLICY_KEY} is upgrade on some brokers: there is no way back before it is bidirectional"
    if _gives_no_racks(facts):
        yield "brokers of Kafka 4.0 give assignors no racks of partitions: samerack's saves nothing there"
    if silent := sum(member.rack.source != "subscription" for member in members):
        yield (
            f"{silent} of {len(members)} members send no client.rack, and brokers know no other racks: they get any "
            "partitions"
        )
    if members and all(member.instance_id is not None for member in members):
        yield (
            "all members are static: brokers give each what it had, so that what crosses racks stays as it is now. "
            f"After the roll {JOIN_FOR_A_WHILE.partition(':')[0]}"
        )
    if facts.led:
        yield (
            "an agent leads the group: it leaves by itself when the first member has moved; its weights, limits and "
            "policy end then"
        )


def _settings(facts: MoveFacts, *, back: bool) -> tuple[SettingChange, ...]:
    def by_brokers(key: str) -> str:
        name = key.removeprefix("group.")
        bounds = [" or ".join(facts.values(key.replace("consumer.", f"consumer.{end}."))) for end in ("min", "max")]
        value = facts.configs.get(name) or " or ".join(facts.values(key)) or "unknown"
        return f"{value} ({key})" + (f"; {' to '.join(bounds)} for one group ({name})" if all(bounds) else "")

    assignor = facts.group.assignor or "unknown"
    first = sorted({names[0] for names in _offered(facts).by_broker.values() if names})
    default = f"{' or '.join(first) or 'unknown'} (the brokers' first), or group.remote.assignor"
    client = "unknown: the client's own, by default {}".format
    rows = (
        ("session.timeout.ms", client(45000), by_brokers(SESSION_KEY)),
        ("heartbeat.interval.ms", client(3000), by_brokers(HEARTBEAT_KEY)),
        ("assignor", "partition.assignment.strategy" if back else assignor, assignor if back else default),
    )
    changes = (
        SettingChange(setting=name, now=new if back else old, then=old if back else new) for name, old, new in rows
    )
    poll = client("300000; the rebalance timeout")
    return (*changes, SettingChange(setting="max.poll.interval.ms", now=poll, then="the same"))


def _offered(facts: MoveFacts) -> ServerAssignors:
    return from_values({broker: one.configs.get(ASSIGNORS_KEY, "") for broker, one in facts.brokers.items()})


def _command(facts: MoveFacts, name: str, *options: str) -> str:
    return command(name, *options, group=facts.group.group, bootstrap=facts.bootstrap).strip("`")


def _steps(facts: MoveFacts) -> Iterator[MoveStep]:
    offered = _offered(facts)
    asks = not offered.preferred
    yield MoveStep(
        what="samerack's jar on every broker's class path, only then the line in its configuration (a broker does not "
        "start without the class that it names); restart the brokers one by one. Skip it where brokers take no jars",
        lines=(LINE,),
        done=offered.installed,
    )
    yield MoveStep(
        what="where the clients' times are to differ from the brokers': set them for the group",
        lines=(
            f"kafka-configs.sh --bootstrap-server {facts.bootstrap} --alter --entity-type groups --entity-name "
            f"{shlex.quote(facts.group.group)} --add-config consumer.session.timeout.ms=MS",
        ),
    )
    yield MoveStep(
        what="in the applications' settings"
        + ("; the second line not before step 1 is done on every broker (UNSUPPORTED_ASSIGNOR)" if asks else ""),
        lines=("group.protocol=consumer", *([f"group.remote.assignor={ASSIGNOR}"] if asks else [])),
    )
    yield MoveStep(what=f"remove there {', '.join(_REMOVED)}, with which clients of the new protocol do not start")
    yield from _roll(facts, "--watch")


def _steps_back(facts: MoveFacts) -> Iterator[MoveStep]:
    yield MoveStep(
        what="in the applications' settings, with the values of before; remove group.remote.assignor",
        lines=("group.protocol=classic", *(f"{name}=..." for name in _REMOVED)),
    )
    yield from _roll(facts, "--back", "--watch")
    yield MoveStep(what="only now, if no other group needs it: samerack's line from the brokers, then the jar")


def _roll(facts: MoveFacts, *options: str) -> Iterator[MoveStep]:
    yield MoveStep(what="follow the roll in another terminal", lines=(_command(facts, "move", *options),))
    yield MoveStep(what="restart one member, wait until it has partitions; then the others one by one")
    yield MoveStep(what="see what crosses racks", lines=(_command(facts, "cost"),))


def way_back(group: str, bootstrap: str, *, back: bool) -> str:
    """Return the way back from the move to the new protocol, or from that to the classic one."""
    shown = command("move", *([] if back else ["--back"]), group=group, bootstrap=bootstrap)
    if back:
        return f"{shown} shows it"
    return (
        f"while {POLICY_KEY} is bidirectional: group.protocol=classic, without group.remote.assignor, in one member "
        f"after another; with the last one the group is classic again. {shown} shows the steps"
    )
