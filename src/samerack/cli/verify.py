"""`samerack verify`: one page of what makes traffic cross racks without need, each with cause and cure."""

from __future__ import annotations

from typing import Annotated

import typer

from samerack.cli.asking import MeasureOption, WindowOption, place, verdict
from samerack.common import words
from samerack.common.console import Console
from samerack.reporting.evidence import Finding, Findings, findings_to_json
from samerack.reporting.report import not_in_sums, sums_in_words
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption


def verify(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    window: WindowOption = 20.0,
    *,
    measure: MeasureOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a page.")] = False,
    assignments: SetOption = None,
) -> None:
    """Find what makes traffic cross racks unnecessarily: brokers, members, racks, assignors, replicas, permissions.

    Exit code 0 when nothing costs money, 1 when something does, 2 on wrong input, 3 when brokers or the agent cannot be
    asked. A running agent is asked (at web.host:web.port); where none runs, this command measures for --window seconds
    itself. Changes nothing.
    """
    where = place(config, bootstrap, assignments)
    found, origin = verdict(where, window=window, measure=measure)
    if as_json:
        typer.echo(findings_to_json(found))
    else:
        _show(found, origin)
    if found.costs:
        raise typer.Exit(1)


def _show(found: Findings, origin: str) -> None:
    console = Console()
    if found.first is not None:
        first = found.first
        console.print(words.plain(f"First do this, and measure again: {first.where}: {first.code.value}"), style="bold")
    for finding in found.findings:
        _show_finding(console, finding)
    costly = sum(finding.costs for finding in found.findings)
    console.print(
        f"{costly} finding{'' if costly == 1 else 's'} that cost money, {len(found.findings) - costly} other; "
        f"{found.groups} groups, {found.brokers} brokers, bytes of {words.span(found.window_seconds)}; {origin}; "
        f"{found.prices}"
    )
    console.print(sums_in_words(found))
    if lacking := not_in_sums(found, found.window_seconds):
        console.print(lacking)


def _show_finding(console: Console, finding: Finding) -> None:
    price = finding.dollars_per_month
    amount = "saving unknown" if price is None else words.monthly(price, guessed=finding.guessed)
    amount = f" [{amount}]" if finding.costs and price != 0 else ""
    mark = "✗" if finding.costs else "·"
    console.print(f"{mark} {words.plain(finding.where)}: {finding.code.value}{amount}", style="bold")
    console.print(f"  {words.plain(finding.cause)}")
    console.print(f"  cure: {words.plain(finding.cure)}")
