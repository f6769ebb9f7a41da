"""`scripts/takeovers`: repeats clean takeovers of running groups, and measures their effect on the groups.

Brokers, members and agents are real processes; each try is a new agent that follows, takes over on `samerack lead`,
leads, and leaves. All facts about records come from the members' own histories.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from sandbox.admin import Admin, wait_until
from sandbox.agent_process import AgentProcess
from sandbox.chaos.group import Group
from sandbox.chaos.setup import Setup
from sandbox.cluster import Cluster
from sandbox.contract import RACKS
from sandbox.demo import Story, told
from sandbox.errors import SandboxError
from sandbox.evidence import evidence
from sandbox.history.checker import check
from sandbox.history.model import Bounds, Kind
from sandbox.members.ledger import longest_pauses, read_twice

_ASSIGNORS: Final = {"kafka-python": "range"}
"""kafka-python's roundrobin fails on a member without topics; range of the others uses racks, which leaves no gain."""
_MAX_PAUSE_SECONDS: Final = {"confluent": 3.0}
"""librdkafka joins at most once a second; the limit of all others is one second."""
_MANY: Final = 30
"""Larger groups may pause for as long as the dry run forecasts."""
_NAMES: Final = tuple(rack for rack in RACKS.values() if rack is not None)
_SETTLE_SECONDS: Final = 120.0
_TOLD_SECONDS: Final = 1.0
_BOUNDS: Final = Bounds(unowned=5.0, stop=5.0)
_WRONG: Final = frozenset({Kind.OWNED_TWICE, Kind.SKIPPED, Kind.READ_AGAIN})
"""Without stops, which are measured for each try: the longest of a history is its start, before all members joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of all tries with one group.

    Attributes:
        client: of all members.
        members: how many.
        tries: number of takeover requests.
        led: how many times the agent then led.
        reasons: why it did not, for each such try.
        median_pause_seconds: median of each try's longest time in which some partition was not read.
        longest_pause_seconds: the longest of them.
        ordinary_pause_seconds: median of the same in the ordinary rebalance before, in which the agent joined.
        held_seconds: the longest time that the group was held.
        read_twice: records that were read more than once.
        findings: findings of the history checker: skipped, owned twice, read again below a commit.
        assignor: of all members.
        agreed: how many dry runs forecast correctly whether the agent would lead.
        over_forecast: how many pauses, of tries that led, were longer than the dry run's forecast.
    """

    client: str
    members: int
    tries: int
    led: int
    reasons: tuple[str, ...]
    median_pause_seconds: float
    longest_pause_seconds: float
    ordinary_pause_seconds: float
    held_seconds: float
    read_twice: int
    findings: tuple[str, ...]
    assignor: str = ""
    agreed: int | None = None
    over_forecast: int | None = None

    @property
    def is_good(self) -> bool:
        """Whether all tries led, with short pauses, correct forecasts and no findings."""
        most = _MAX_PAUSE_SECONDS.get(self.client, 1.0)
        short = self.longest_pause_seconds < most or self.members > _MANY
        told = self.agreed in (None, self.tries) and not self.over_forecast
        return self.led == self.tries and short and told and not self.read_twice and not self.findings


def main(  # noqa: PLR0913 - one parameter for each option
    *,
    members: Annotated[str, typer.Option(help="Sizes of groups, separated by commas.")] = "3,10,30",
    clients: Annotated[
        str, typer.Option(help="java, confluent, kafka-python, aiokafka, franz-go, sarama, separated by commas.")
    ] = "java,confluent,kafka-python",
    assignor: Annotated[str, typer.Option(help="sticky, range or roundrobin; what shows most without it.")] = "",
    tries: Annotated[int, typer.Option(min=1, help="Takeovers of each group; one takes about seven seconds.")] = 20,
    keep: Annotated[bool, typer.Option(help="Keep histories and logs also when nothing is wrong.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON document on standard output.")] = False,
) -> None:
    """Take running consumer groups over, again and again, under load; exit code 1 unless each try was clean.

    Clean: a dry run said that the agent would lead, it leads, nothing was lost, nothing was read twice, and no
    partition went unread for longer than the dry run said, nor for a second (three where members are librdkafka's; any
    time in groups of more than 30). Else the histories are kept. An interrupted run tells of groups it has finished.
    """
    sizes = [int(size) for size in members.split(",")]
    kinds = clients.split(",")
    console, rows = Console(stderr=True, width=200), list[Row]()

    def play(story: Story) -> dict[str, Any]:
        with evidence(story, "samerack-takeovers-", keep=keep) as kept:
            for row in _play(story, [(kind, assignor) for kind in kinds], sizes, tries, kept.folder):
                rows.append(row)
                kept.keep |= not row.is_good
        return {}

    try:
        told(console, play)
    finally:  # show the finished groups even if the next one failed
        _show(console, rows)
        if as_json:
            typer.echo(json.dumps({"rows": [asdict(row) for row in rows]}))
    if not all(row.is_good for row in rows):
        raise typer.Exit(1)


def _play(story: Story, clients: list[tuple[str, str]], sizes: list[int], tries: int, folder: Path) -> Iterator[Row]:
    story.tell("starting three brokers, one in each rack")
    with Cluster() as cluster, Admin(cluster.bootstrap) as admin:
        for size in sizes:
            for client, assignor in clients:
                setup = _setup(client, assignor, size)
                story.tell(f"{size} members on {client}")
                group = Group(setup, bootstrap=cluster.bootstrap, admin=admin, folder=folder / setup.name)
                yield _of_group(story, group, cluster.bootstrap, folder, tries)


def _setup(client: str, assignor: str, size: int) -> Setup:
    """Returns a group whose members read across racks by their own plan."""
    return Setup(
        name=f"{client}-{size}",
        assignor=assignor or _ASSIGNORS.get(client, "roundrobin"),
        seats=tuple((client, _NAMES[number % len(_NAMES)]) for number in range(size)),
        extra=(client, _NAMES[0]),
        placed=tuple(((number + 1) % len(_NAMES) + 1,) for number in range(2 * size)),
    )


def _of_group(story: Story, group: Group, bootstrap: str, folder: Path, tries: int) -> Row:
    answers, pauses, ordinary, agreed, over = [], [], [], 0, 0
    with group:
        _settle(group)
        for number in range(1, tries + 1):
            dry, answer, before, pause = _one(bootstrap, group, folder / f"{group.name}-agent-{number}.log")
            answers.append(answer)
            leads = answer["outcome"] == "leads"
            agreed += (dry["outcome"] == "would") is leads
            most = dry["gain"]["pause_seconds_at_most"] if dry["gain"] is not None else None
            over += leads and most is not None and pause > most
            pauses.append(pause)
            ordinary.append(before)
            story.tell(
                f"{number}: {answer['outcome']} {answer['reason']} after {answer['seconds']:.2f} s, held for "
                f"{answer['held_seconds']:.2f} s; longest pause {pause:.2f} s of {most} s forecast, {before:.2f} s "
                f"when it joined; before: {dry['outcome']} {dry['reason']}"
            )
        history = group.finish()
    row = Row(
        client=group.seats[0].client,
        members=len(group.seats),
        tries=tries,
        led=sum(answer["outcome"] == "leads" for answer in answers),
        reasons=tuple(answer["reason"] for answer in answers if answer["outcome"] != "leads"),
        median_pause_seconds=round(statistics.median(pauses), 3),
        longest_pause_seconds=max(pauses),
        ordinary_pause_seconds=round(statistics.median(ordinary), 3),
        held_seconds=max(answer["held_seconds"] for answer in answers),
        read_twice=read_twice(chain.from_iterable(history.members.values())),
        findings=tuple(str(finding) for finding in check(history, _BOUNDS) if finding.kind in _WRONG),
        assignor=group.setup.assignor,
        agreed=agreed,
        over_forecast=over,
    )
    story.tell(f"{row.led} of {row.tries}, {row.read_twice} records read twice, {len(row.findings)} other findings")
    return row


def _one(bootstrap: str, group: Group, log: Path) -> tuple[dict[str, Any], dict[str, Any], float, float]:
    """Runs one takeover; returns dry run, answer, and the longest pauses in seconds at join and at takeover."""
    settings = {"racks.client_ids": {f"*-{rack}": rack for rack in _NAMES}, "events.path": "memory"}
    begun = _now_ms()
    with AgentProcess(bootstrap, groups=[group.name], log=log, settings=settings) as agent:
        agent.wait_role("following")
        _settle(group)
        before = _longest_pause(group, begun)
        url = str(agent.events("started")[0]["url"]).removesuffix("/metrics")
        dry = _lead(group, "--url", url, "--dry-run")
        since = _now_ms()
        answer = _lead(group, "--url", url)
        _settle(group)
        pause = _longest_pause(group, since)
    _settle(group)
    return dry, answer, before, pause


def _lead(group: Group, *options: str) -> dict[str, Any]:
    """Returns the answer of `samerack lead`."""
    line = [sys.executable, "-m", "samerack.cli.main", "lead", group.name, "--takeover", "clean", "--json", *options]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - ourselves
    if not done.stdout:
        raise SandboxError(f"samerack lead: {done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _longest_pause(group: Group, since_ms: int) -> float:
    """Returns the longest pause of any partition since then; waits a second, because reads are printed with a delay."""
    until = _now_ms() + round(_TOLD_SECONDS * 500)
    time.sleep(_TOLD_SECONDS)
    told_by = chain.from_iterable(member.events for member in group.present.values())
    return max(longest_pauses(told_by, since_ms=since_ms, until_ms=until).values())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _settle(group: Group) -> None:
    try:
        wait_until(group.agrees, f"{group.name} has settled", timeout=_SETTLE_SECONDS)
    except SandboxError as error:
        raise SandboxError(f"{error}\n{group.trouble()}") from None


def _show(console: Console, rows: list[Row]) -> None:
    table = Table(title="clean takeovers")
    columns: dict[str, Callable[[Row], str]] = {
        "client": lambda row: row.client,
        "members": lambda row: str(row.members),
        "assignor": lambda row: row.assignor,
        "dry run was right": lambda row: f"{row.agreed} of {row.tries}",
        "longer than forecast": lambda row: str(row.over_forecast),
        "led": lambda row: f"{row.led} of {row.tries}",
        "pause, median": lambda row: f"{row.median_pause_seconds:.2f} s",
        "longest": lambda row: f"{row.longest_pause_seconds:.2f} s",
        "when it joined": lambda row: f"{row.ordinary_pause_seconds:.2f} s",
        "held at most": lambda row: f"{row.held_seconds:.2f} s",
        "read twice": lambda row: str(row.read_twice),
        "other findings": lambda row: "; ".join((*row.findings, *row.reasons)) or "-",
    }
    for name in columns:
        table.add_column(name)
    for row in rows:
        table.add_row(*(cell(row) for cell in columns.values()))
    console.print(table)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
