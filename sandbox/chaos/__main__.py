"""`scripts/chaos`: injects faults into a real cluster, with agents and without, and checks if agents are worse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from sandbox.chaos import judging
from sandbox.chaos.judging import Verdict, violations
from sandbox.chaos.means import Means
from sandbox.chaos.run import Run, run
from sandbox.chaos.schedule import KINDS, draw, possible
from sandbox.chaos.world import SETUPS
from sandbox.demo import Story, told
from sandbox.errors import SandboxError
from sandbox.evidence import complain, evidence, log_console
from sandbox.history.harm import harm

_LOG_COLUMNS: Final = 240
"""Columns where the output is no terminal: one line for each fault."""


def main(  # noqa: PLR0913 - one parameter for each option
    *,
    faults: Annotated[int, typer.Option(min=1, help="How many faults; one takes about seven seconds.")] = 30,
    seed: Annotated[int, typer.Option(help="The same seed draws the same faults.")] = 1,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only faults of this kind; may be given several times.")
    ] = None,
    with_agents: Annotated[bool, typer.Option(help="Play the schedule with agents.")] = True,
    without_agents: Annotated[bool, typer.Option(help="Play it without any, for comparison.")] = True,
    take: Annotated[
        list[Path] | None,
        typer.Option(help="The run.json of a run that was kept, instead of playing it again; may be given twice."),
    ] = None,
    keep: Annotated[bool, typer.Option(help="Keep histories and logs also when nothing is wrong.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON document on standard output.")] = False,
) -> None:
    """Inject faults into consumer groups under load, with two agents leading and again without any, and compare.

    Brokers, members (Java, librdkafka, kafka-python, franz-go, sarama, kafka-go, kafkajs) and agents are real processes
    on loopback. Exit code 0: no record was lost, no partition owned twice in a generation, none stopped for two seconds
    longer than the longest without an agent, every rebalance is explained, and groups whose consumers had gone were as
    without an agent: empty, with their offsets, open to tools and to other protocols. Else 1, and the histories are
    kept. Kinds of faults that are two seconds worse with agents are yellow.
    """
    console = log_console(_LOG_COLUMNS)
    asked = _Asked(
        faults=faults,
        seed=seed,
        kinds=tuple(kind or ()),
        with_agents=with_agents,
        without=without_agents,
        taken=[_taken(path) for path in take or ()],
        keep=keep,
    )
    result = told(console, lambda story: _play(story, asked))
    _show(console, result["verdict"])
    if as_json:
        typer.echo(json.dumps(result["json"]))
    if result["json"]["complaints"]:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The options."""

    faults: int
    seed: int
    kinds: tuple[str, ...]
    with_agents: bool
    without: bool
    taken: Sequence[Run]
    keep: bool


def _play(story: Story, asked: _Asked) -> dict[str, Any]:
    means = Means.of_this_machine()
    for missing in means.missing():
        story.tell(f"[yellow]{missing}[/yellow]")
    groups = [setup.name for setup in SETUPS]
    schedule = draw(asked.seed, faults=asked.faults, kinds=asked.kinds or possible(means), groups=groups)
    taken = {one.with_agents: one for one in asked.taken}
    for one in asked.taken:
        if [outcome.drawn for outcome in one.outcomes] != list(schedule):
            raise typer.BadParameter("a run that was taken has other faults; give its --faults, --seed and --kind")
    with evidence(story, "samerack-chaos-", keep=asked.keep) as kept:
        led, alone = (
            taken.get(with_agents) or _run(story, schedule, means, kept.folder / name, with_agents=with_agents)
            if wanted
            else None
            for name, with_agents, wanted in (
                ("with-agents", True, asked.with_agents),
                ("without-agents", False, asked.without),
            )
        )
        verdict = judging.judge(led, alone)
        kept.keep = asked.keep or bool(verdict.complaints)
    return {"verdict": verdict, "json": judging.as_json(verdict, seed=asked.seed)}


def _run(story: Story, schedule: Any, means: Means, folder: Path, *, with_agents: bool) -> Run:
    story.tell(f"[bold]{len(schedule)} faults {'with agents' if with_agents else 'without an agent'}[/bold]")
    try:
        result = run(schedule, with_agents=with_agents, means=means, folder=folder, tell=story.tell)
    except SandboxError as error:
        raise SandboxError("\n".join([str(error), *getattr(error, "__notes__", [])])) from None
    result.save(folder / "run.json")
    story.tell(f"{violations(result)} violations; {harm(result.findings)}")
    return result


def _taken(path: Path) -> Run:
    try:
        return Run.load(path)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path} holds no run of this program: {error}") from None


def _show(console: Console, verdict: Verdict) -> None:
    table = Table(title="longest stop of any partition, in seconds")
    for column, justify in (("fault", "left"), ("times", "right"), ("with agents", "right"), ("without", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]  # rich has literals of its own
    for row in verdict.rows:
        led, alone = (None if one is None else f"{one:.2f}" for one in (row.with_agents, row.without))
        style = "yellow" if row.too_long else None
        table.add_row(KINDS[row.kind].title, str(row.faults), led or "-", alone or "-", style=style)
    console.print(table)
    for name, one in (("with agents", verdict.with_agents), ("without", verdict.without)):
        if one is not None:
            console.print(
                f"{name}: {len(one.outcomes)} faults in {one.seconds:.0f} s, {one.records} records, "
                f"{harm(one.findings)}, {violations(one)} violations, {one.rebalances} rebalances, "
                f"{one.told} of them told by an agent",
                highlight=False,
            )
    complain(console, verdict.complaints)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
