"""`samerack move GROUP`: how a group moves from the classic to the new protocol or back, and the roll as it goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from samerack.auth.kafka_config import for_kafka_python
from samerack.cli.asking import AgentPlace, Measuring, WindowOption, agent_says, announce, measuring_group, place
from samerack.cli.live_group import unknown_group
from samerack.cluster.errors import CoordinatorMovesError
from samerack.cluster.group import STABLE
from samerack.cluster.group_protocols import GroupProtocols, ask_brokers, ask_group_configs, ask_members
from samerack.cluster.wire import BrokerClient
from samerack.common.console import Column, Console, table_of
from samerack.common.errors import AgentError
from samerack.common.records import LEADING
from samerack.common.words import count, percent, plain, some
from samerack.reporting.baseline import present_share
from samerack.reporting.group_lag import lag_of_group
from samerack.reporting.moving import Move, MoveFacts, move_of, way_back
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption
from samerack.traffic.snapshot import GroupTraffic


def move(
    group: Annotated[str, typer.Argument(help="Name of the consumer group.")],
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    window: WindowOption = 4.0,
    *,
    back: Annotated[bool, typer.Option("--back", help="From the new protocol to the classic one.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow the roll until all members have moved, or something went wrong.")
    ] = False,
    patience: Annotated[
        float, typer.Option("--patience", min=1.0, help="With --watch, seconds that members may be away.")
    ] = 120.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object instead of tables; with --watch, one for each change.")
    ] = False,
    assignments: SetOption = None,
) -> None:
    """Show how a group moves to the new protocol (KIP-848) or back: what forbids it, what changes, each step.

    Exit code 0 when nothing forbids the move, or it is done; 1 when something does, or went wrong; 2 on wrong input.
    Reads only: nothing is joined or changed.
    """
    where = place(config, bootstrap, assignments, only_errors=watch)
    with (
        measuring_group(where, group, window) as measuring,
        closing(BrokerClient(for_kafka_python(where.settings.kafka))) as wire,
    ):
        announce(window)
        if watch:
            try:
                code = _follow(where, group, measuring, wire, Roll(back=back, patience=patience), as_json=as_json)
            except KeyboardInterrupt:
                code = 130
            if code == 1 and not as_json:
                servers = where.settings.kafka["bootstrap.servers"]
                Console().print(plain(f"the way back: {way_back(group, servers, back=back)}"))
            raise typer.Exit(code)
        made = move_of(_facts(where, group, measuring, wire), back=back)
    if as_json:
        typer.echo(json.dumps(asdict(made)))
    else:
        show(made)
    if made.obstacles:
        raise typer.Exit(1)


def _facts(where: AgentPlace, group: str, measuring: Measuring, wire: BrokerClient) -> MoveFacts:
    """Read what decides about the move.

    Raises:
        AgentError: The group is not there, has no members or rebalances; or brokers do not answer.
    """
    measured, protocols = _measured(where, group, measuring, wire)
    if measured is None:
        raise unknown_group(group, wire)
    if not protocols.kind:
        raise AgentError(f"group {group}: is of kind {measured.kind}; only groups of consumers move")
    if not protocols.members:
        raise AgentError(f"group {group}: has no members")
    if protocols.kind == "classic" and protocols.state != STABLE:
        raise AgentError(f"group {group}: is {protocols.state}; try again when its rebalance is over")
    brokers, unknown = ask_brokers(wire)
    configs, unknown_of_group = ask_group_configs(wire, group, min(brokers))
    return MoveFacts(
        group=measured,
        protocols=protocols,
        brokers=brokers,
        configs=configs,
        bootstrap=where.settings.kafka["bootstrap.servers"],
        led=agent_says(where.settings, group).get("role") == LEADING,
        unknown=(*unknown, *unknown_of_group),
    )


def _measured(
    where: AgentPlace, group: str, measuring: Measuring, wire: BrokerClient
) -> tuple[GroupTraffic | None, GroupProtocols]:
    """Return a group as it is measured, and its members' protocols; without an agent's own member."""
    measuring.measure()
    protocols = ask_members(wire, group)
    agent = where.settings.leading.instance_id
    members = tuple(member for member in protocols.members if member.instance_id != agent)
    return next(iter(measuring.snapshot.groups), None), replace(protocols, members=members)


def show(made: Move) -> None:
    """Show what forbids the move first, then what it changes, the steps, and the way back."""
    console = Console()
    forbids = f"{len(made.obstacles)} obstacles" if len(made.obstacles) != 1 else "1 obstacle"
    verdict = "it has moved" if made.moved else f"{forbids if made.obstacles else 'nothing'} in the way"
    console.print(
        plain(f"group {made.group} to the {_NAMES[made.to]} protocol: {verdict}; {_members(made)}"), style="bold"
    )
    for obstacle in made.obstacles:
        console.print(plain(f"✗ {obstacle.cause}"), style="bold")
        console.print(plain(f"  cure: {obstacle.cure}"))
    rows = made.shares
    shares = [percent(row.share) for row in rows]
    console.print(
        table_of(
            (
                Column(title="plan", cells=[row.plan for row in rows]),
                Column(title=f"{made.weighed_by} across racks", cells=shares, number=True),
            ),
            width=console.width,
        )
    )
    names = ("setting", "now", "then")
    columns = [Column(title=name, cells=[getattr(one, name) for one in made.settings]) for name in names]
    console.print(table_of(columns, width=console.width))
    for warning in made.warnings:
        console.print(Text.assemble(("warning: ", "yellow"), plain(warning)))
    for unknown in made.unknown:
        console.print(plain(f"not known: {unknown}"))
    if made.obstacles and made.steps:
        console.print("first the cures above, then:")
    for number, step in enumerate(made.steps, 1):
        console.print(plain(f"{number}. {step.what}{_DONE[step.done]}"))
        for line in step.lines:
            console.print(f"       {plain(line)}", soft_wrap=True)
    for sign in made.stop:
        console.print(plain(f"stop if: {sign}"))
    console.print(plain(f"the way back: {made.back}"))


_NAMES = {"consumer": "new", "classic": "classic"}
_DONE = {True: " (done)", False: " (not done)", None: ""}


def _members(of: Move | RollState) -> str:
    return f"{of.classic_members} members on the classic protocol, {of.new_members} on the new one"


def _follow(
    where: AgentPlace, group: str, measuring: Measuring, wire: BrokerClient, roll: Roll, *, as_json: bool
) -> int:
    """Show each change of the group until the roll is over; return 0, or 1 if something went wrong.

    Raises:
        AgentError: The group is not there, or no broker answers.
    """
    show_state: Callable[[RollState, RollOutcome, str], None] = _as_json if as_json else _as_line
    before: float | None = None
    shown: object = None
    while True:
        try:
            measured, protocols = _measured(where, group, measuring, wire)
        except CoordinatorMovesError:
            continue  # measuring takes its time before the next question
        if shown is None and not protocols.kind:
            raise unknown_group(group, wire)
        state = _state(measured, protocols, before)
        before = state.share_before
        outcome, why = roll.take(state, time.monotonic())
        change = (state.kind, state.state, percent(state.share), why)  # the lag changes always
        if change != shown:
            shown = change
            show_state(state, outcome, why)
        if outcome is not RollOutcome.GOES_ON:
            return int(outcome is RollOutcome.WRONG)


def _state(group: GroupTraffic | None, protocols: GroupProtocols, before: float | None) -> RollState:
    share = present_share(group) if group is not None else None
    lag = lag_of_group(group) if group is not None else None
    kinds = [member.new for member in protocols.members]
    return RollState(
        kind=protocols.kind,
        state=protocols.state,
        classic_members=kinds.count(False),
        new_members=kinds.count(True),
        unknown_members=kinds.count(None),
        share_before=share if before is None else before,
        share=share,
        lag_records=lag.lag_records if lag is not None else None,
        lag_unknown_partitions=lag.lag_unknown_partitions if lag is not None else 0,
        read_topics=None
        if group is None
        else tuple(sorted({partition.partition[0] for partition in group.partitions if partition.member})),
    )


def _as_json(state: RollState, outcome: RollOutcome, why: str) -> None:
    typer.echo(json.dumps({"at": time.time(), **asdict(state), "outcome": outcome.value, "why": why}))


def _as_line(state: RollState, outcome: RollOutcome, why: str) -> None:
    lag = count(state.lag_records, state.lag_unknown_partitions)
    Console().print(
        plain(
            f"{time.strftime('%H:%M:%S')} {state.state or 'gone'}: {_members(state)}; across racks "
            f"{percent(state.share)}, before {percent(state.share_before)}; lag {lag}; {outcome.value}: {why}"
        ),
        soft_wrap=True,
    )


class RollOutcome(StrEnum):
    """How a roll goes."""

    GOES_ON = "goes on"
    DONE = "done"
    WRONG = "went wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollState:
    """A group during the roll, as `samerack move --watch` shows it; what is not known is None."""

    kind: str
    state: str
    classic_members: int
    new_members: int
    unknown_members: int = 0
    share_before: float | None = None
    share: float | None = None
    lag_records: int | None = None
    lag_unknown_partitions: int = 0
    read_topics: tuple[str, ...] | None = None
    """Topics with a partition that a member has."""

    @property
    def members(self) -> int:
        """All of them."""
        return self.classic_members + self.new_members + self.unknown_members


class Roll:
    """The roll of one group, from the first state on."""

    def __init__(self, *, back: bool, patience: float) -> None:
        """Follow the move to the new protocol, or back; a member may be away for `patience` seconds."""
        self._back = back
        self._patience = patience
        self._members: int | None = None
        self._converted = False
        self._topics: tuple[str, ...] | None = None
        self._since: float | None = None

    def take(self, state: RollState, now: float) -> tuple[RollOutcome, str]:
        """Return how the roll goes with the state at this monotonic time, and why, in words."""
        if state.unknown_members:
            return RollOutcome.WRONG, "brokers do not report which protocol members use: Kafka 4.0 or newer does"
        self._members = state.members if self._members is None else self._members
        if self._converted and not self._back and state.kind == "classic":
            return RollOutcome.WRONG, (
                "the group is classic again: its last member of the new protocol has left, and its log says why"
            )
        self._converted = self._converted or state.kind == "consumer"
        self._topics = state.read_topics if self._topics is None else self._topics
        read = self._topics if state.read_topics is None else state.read_topics
        unread = sorted({*(self._topics or ())} - {*(read or ())})
        missing = self._members - state.members
        left = state.new_members if self._back else state.classic_members
        if missing > 0:
            return self._wait(now, f"{missing} of {self._members} members are away; their logs say why")
        if left or not state.members:
            self._since = None
            return RollOutcome.GOES_ON, f"{left} of {state.members} members are left"
        if unread:
            return self._wait(now, f"all members have moved, and none has partitions of {some(unread, 'topic')}")
        if state.kind == ("classic" if self._back else "consumer") and state.state == STABLE:
            return RollOutcome.DONE, f"all {state.members} members have moved"
        return self._wait(now, f"all members have moved; the group is {state.kind}, {state.state}")

    def _wait(self, now: float, what: str) -> tuple[RollOutcome, str]:
        """Return that the roll goes on, or that this has lasted for too long."""
        self._since = now if self._since is None else self._since
        if now - self._since < self._patience:
            return RollOutcome.GOES_ON, what
        return RollOutcome.WRONG, f"for {self._patience:.0f} s: {what}"
