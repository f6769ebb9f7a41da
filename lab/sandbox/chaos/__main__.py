"""`scripts/chaos`: injects faults into a real cluster, with agents and without, and checks if agents are worse."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from lab.sandbox.chaos.comparison import as_json, rows
from lab.sandbox.chaos.fault import Drawn
from lab.sandbox.chaos.faults import KINDS, draw, possible
from lab.sandbox.chaos.means import Means
from lab.sandbox.chaos.run import RUNS, ChaosRun, run
from lab.sandbox.chaos.setup import SETUPS
from lab.sandbox.errors import SandboxError
from lab.sandbox.history.history import harm
from lab.sandbox.story import Keep, Story, command, complain, evidence, log_console, run_story

_LOG_COLUMNS: Final = 240
"""Columns where the output is no terminal: one line for each fault."""


def main(  # noqa: PLR0913 - one parameter for each option
    *,
    faults: Annotated[int, typer.Option(min=1, help="How many faults; one takes about seven seconds.")] = 30,
    seed: Annotated[int, typer.Option(help="The same seed draws the same faults.")] = 1,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only faults of this kind; may be given several times.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(help="Only faults of this group; may be given several times.")
    ] = None,
    max_group_size: Annotated[
        int | None,
        typer.Option(min=5, help="`group.max.size` of the brokers: an agent leaves where it would fill a group."),
    ] = None,
    take: Annotated[
        list[Path] | None,
        typer.Option(help="The run.json of a run that was kept, instead of playing it again; may be given twice."),
    ] = None,
    keep: Keep = False,
    as_document: Annotated[bool, typer.Option("--json", help="End with one JSON document on standard output.")] = False,
) -> None:
    """Inject faults into consumer groups under load, with two agents leading and again without any, and compare.

    Brokers, members (Java, librdkafka, kafka-python, franz-go, sarama, kafka-go) and agents are real processes on
    loopback. Exit code 0: no record was lost, no partition owned twice in a generation, none stopped for two seconds
    longer than the longest without an agent, every rebalance is explained, and groups whose consumers had gone were as
    without an agent: empty, with their offsets, open to tools and to other protocols, and no member was refused as its
    group was full. Else 1, and the histories are kept. Kinds of faults that are two seconds worse with agents are
    yellow.
    """

    def play(story: Story) -> dict[str, Any]:
        means = Means.of_this_machine()
        for missing in means.missing().values():
            story.report(f"[yellow]{missing}[/yellow]")
        groups = [setup.name for setup in SETUPS]
        if unknown := sorted(set(group or ()) - set(groups)):
            raise SandboxError(f"no such group: {', '.join(unknown)}; there are {', '.join(groups)}")
        schedule = draw(seed, faults=faults, kinds=kind or possible(means), groups=group or groups)
        taken = {one.with_agents: one for one in (_taken(path, schedule, max_group_size) for path in take or ())}
        play_half = partial(run, schedule, means=means, report=story.report, max_group_size=max_group_size)
        with evidence(story, "samerack-chaos-", keep=keep) as kept:
            led, alone = (
                taken.get(with_agents) or _run(story, play_half, kept.folder / name, with_agents=with_agents)
                for name, with_agents in (("with-agents", True), ("without-agents", False))
            )
            document = as_json(led, alone, seed=seed)
            kept.keep |= bool(document["complaints"])
        _show(console, led, alone)
        return document

    console = log_console(_LOG_COLUMNS)
    document = run_story(console, play)
    if as_document:
        typer.echo(json.dumps(document))
    complain(console, document["complaints"])


def _taken(path: Path, schedule: Sequence[Drawn], max_group_size: int | None) -> ChaosRun:
    try:
        found = RUNS.validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path} holds no run of this program: {error}") from None
    if ([outcome.drawn for outcome in found.faults], found.max_group_size) != (list(schedule), max_group_size):
        raise typer.BadParameter(
            f"{path} has other faults; give its --faults, --seed, --kind, --group and --max-group-size"
        )
    return found


def _run(story: Story, play: Callable[..., ChaosRun], folder: Path, *, with_agents: bool) -> ChaosRun:
    story.report(f"[bold]{'with agents' if with_agents else 'without an agent'}[/bold]")
    try:
        result = play(with_agents=with_agents, folder=folder)
    except SandboxError as error:
        raise SandboxError("\n".join([str(error), *getattr(error, "__notes__", [])])) from None
    (folder / "run.json").write_bytes(RUNS.dump_json(result))
    story.report(f"{result.violations} violations; {harm(result.findings)}")
    return result


def _show(console: Console, led: ChaosRun, alone: ChaosRun) -> None:
    table = Table("fault", title="longest stop of any partition, in seconds")
    for column in ("times", "with agents", "without"):
        table.add_column(column, justify="right")
    for row in rows(led, alone):
        cells = (KINDS[row.kind].title, str(row.faults), f"{row.stop_with:.2f}", f"{row.stop_without:.2f}")
        table.add_row(*cells, style="yellow" if row.too_long else None)
    console.print(table)
    for name, one in (("with agents", led), ("without", alone)):
        console.print(
            f"{name}: {len(one.faults)} faults in {one.seconds:.0f} s, {one.records} records, {harm(one.findings)}, "
            f"{one.violations} violations, {one.rebalances} rebalances",
            highlight=False,
        )


if __name__ == "__main__":
    command(main)
