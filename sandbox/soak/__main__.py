"""`scripts/soak`: runs two agents that lead three groups for an hour, and checks whether anything grew."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from sandbox.demo import Story, told
from sandbox.evidence import complain, evidence, log_console
from sandbox.history.harm import harm
from sandbox.soak.judging import Trend, Verdict, as_json, judge
from sandbox.soak.model import Pace
from sandbox.soak.run import run

_LOG_COLUMNS: Final = 400
"""Columns where the output is no terminal: one line for each minute."""
_MIB: Final = 2**20


def main(  # noqa: PLR0913 - one parameter for each option
    *,
    minutes: Annotated[float, typer.Option(min=0.1, help="How long, beside half a minute to start.")] = 60.0,
    move_seconds: Annotated[float, typer.Option(min=5.0, help="Time between two moves of replicas.")] = 60.0,
    sample_seconds: Annotated[float, typer.Option(min=1.0, help="Time between two samples.")] = 10.0,
    busy: Annotated[int, typer.Option(min=0, help="So many processes that never wait share the processors.")] = 0,
    keep: Annotated[bool, typer.Option(help="Keep histories, logs and samples also when nothing is wrong.")] = False,
    as_document: Annotated[bool, typer.Option("--json", help="End with one JSON document on standard output.")] = False,
) -> None:
    """Let two agents lead three consumer groups under load, move replicas every minute, and see whether anything grows.

    Brokers, members (Java, librdkafka, kafka-python) and agents are real processes on loopback. Exit code 0: the
    agents' memory is the same within 5 percent, they have no more descriptors and threads and are the same processes,
    lag does not grow, each move was followed, no record was lost and no partition owned twice. Else 1, and the
    histories are kept. Runs of a few minutes show whether it works; only a long one has warmed up.
    """
    console = log_console(_LOG_COLUMNS)

    def play(story: Story) -> dict[str, Verdict]:
        with evidence(story, "samerack-soak-", keep=keep) as kept:
            pace = Pace(seconds=minutes * 60, move_seconds=move_seconds, sample_seconds=sample_seconds, busy=busy)
            verdict = judge(run(pace, folder=kept.folder, tell=story.tell))
            kept.keep = keep or bool(verdict.complaints)
        return {"verdict": verdict}

    verdict = told(console, play)["verdict"]
    _show(console, verdict)
    if as_document:
        typer.echo(json.dumps(as_json(verdict)))
    if verdict.complaints:
        raise typer.Exit(1)


def _show(console: Console, verdict: Verdict) -> None:
    table = Table(title="agents after the warm-up: first tenth -> last tenth")
    for column in ("process", "resident MiB", "a straight line gains", "descriptors", "threads"):
        table.add_column(column, justify="left" if column == "process" else "right")
    for name, found in verdict.processes.items():
        if found:
            memory = found["rss_bytes"]
            cells = f"{memory.first / _MIB:.1f} -> {memory.last / _MIB:.1f}", f"{memory.line_share:+.1%}"
            table.add_row(name, *cells, _pair(found["descriptors"]), _pair(found["threads"]))
    console.print(table)
    told_of = as_json(verdict)
    moves = told_of["moves"]
    lag = ", ".join(f"{group} {_pair(found)}" for group, found in verdict.lag.items())
    console.print(
        f"{moves['followed']} of {moves['done']} moves followed, median {moves['median_seconds']} s, longest "
        f"{moves['longest_seconds']} s; {told_of['rebalances']} rebalances; {told_of['records']} records, "
        f"{harm(verdict.run.findings)}; longest stop {told_of['longest_stop_seconds']} s; records not read: {lag}; "
        f"load of the machine {told_of['median_load']}",
        highlight=False,
    )
    complain(console, verdict.complaints)


def _pair(found: Trend) -> str:
    return f"{found.first:.0f} -> {found.last:.0f}"


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
