"""`samerack lead GROUP`: has a running agent take the lead of a group over, and shows its steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Final
from urllib.parse import quote

import typer

from samerack.agent.leading.progress import (
    GOOD,
    PATH,
    UNDER_WAY,
    Did,
    Gain,
    Progress,
    TakeoverOutcome,
    from_json,
    to_json,
)
from samerack.cli.agent_requests import LOST_SECONDS, UrlOption, agent_address, get, post, refusal
from samerack.common import words
from samerack.common.console import Console
from samerack.common.errors import AgentError
from samerack.common.fetching import HttpAnswer, NoAnswerError
from samerack.settings.cures import command
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption

_POLL_SECONDS: Final = 0.1
_WORDS: Final = {
    "gather": "all members have given up their partitions",
    "again": "the group's leader was faster; trying again",
    "hold": "the rebalance is held open, no member has partitions",
    "evict": "the former leader was evicted and has rejoined",
    "release": "the agent leads",
    "rejoin": "late evicted members are back",
}


def lead(
    group: Annotated[str, typer.Argument(help="Name of a consumer group that the agent follows.")],
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    url: UrlOption = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the gain and cost, or why a takeover is not possible.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object at the end instead of the steps.")] = False,
    assignments: SetOption = None,
) -> None:
    """Make the running agent the leader of a group now, instead of when the group's leader leaves.

    For groups whose members give up all partitions in a rebalance (range, roundrobin, sticky); nothing is lost and
    nothing read twice, and everybody pauses as in any other rebalance. The agent must be in the group as a follower, on
    this machine (in Kubernetes: kubectl exec). It refuses a takeover that is not possible, and undoes what does not
    go as it should; the exit code is 1 then, with the reason. docs/takeover.md has what happens, step by step.
    """
    base = agent_address(config, bootstrap, url, assignments)
    console = Console()
    report: Callable[[Did], None] = (lambda _: None) if as_json else (lambda did: _show_step(console, did))
    try:
        progress = follow(base, _asked(base, group, dry_run=dry_run), report)
    except KeyboardInterrupt:
        Console(stderr=True).print(
            f"the agent ends what it has begun; {command('events', group=group)} shows what it did"
        )
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(to_json(progress))
    else:
        if progress.gain is not None and (dry_run or progress.outcome is TakeoverOutcome.REFUSED):
            console.print(gain_words(progress.gain))
        console.print(words.plain(_end(progress)))
    if progress.outcome not in GOOD:
        raise typer.Exit(1)


def follow(base: str, progress: Progress, report: Callable[[Did], None]) -> Progress:
    """Ask the agent until the takeover is over; call `report` with each step that is done.

    Raises:
        AgentError: The agent does not answer any more, or begins another one.
    """
    shown, number, group = 0, progress.number, progress.group
    answered, events = time.monotonic(), command("events", group=group)
    while True:
        for did in progress.did[shown:]:
            report(did)
        shown = len(progress.did)
        if progress.outcome not in UNDER_WAY:
            return progress
        time.sleep(_POLL_SECONDS)
        with suppress(NoAnswerError):
            progress = _progress(base, get(base, f"{PATH}?group={quote(group, safe='')}"))
            answered = time.monotonic()
        if time.monotonic() - answered > LOST_SECONDS:
            raise AgentError(f"{base}: the agent does not answer any more; {events} shows what it did")
        if progress.number != number:
            raise AgentError(
                f"{base}: the agent's process was replaced during the takeover, and the pending member released; "
                f"{events} shows what it did"
            )


def gain_words(gain: Gain) -> str:
    """Return what it would bring, and who would pause for it."""
    lines = [
        f"read across racks: {_across(gain.cross_rack_now, gain.share_now)} now, "
        f"{_across(gain.cross_rack_then, gain.share_then)} under the agent"
    ]
    if gain.share_now is None or gain.share_then is None:
        lines.append(words.RACKS_UNKNOWN)
    if gain.saved_bytes_per_second is not None:
        saved = words.rate(gain.saved_bytes_per_second)
        dollars = gain.saved_dollars_per_day
        lines.append(f"would stay in its rack: {saved}" + (f", {words.money(dollars)} a day" if dollars else ""))
    lately = "not known yet" if gain.rejoin_seconds is None else f"{gain.rejoin_seconds:.1f} s lately"
    most = "" if gain.pause_seconds_at_most is None else f": {gain.pause_seconds_at_most:.1f} s in all at most"
    lines.append(
        f"{gain.members} members pause as in any rebalance (they took {lately} to rejoin), plus until the current "
        f"leaders are back, usually about a second and at most {gain.held_seconds_at_most:g} s{most}"
    )
    if gain.moved is not None and gain.rebalances is not None:
        lines.append(
            f"{gain.rebalances} rebalances, and another if an evicted member is late; "
            f"{'1 partition moves' if gain.moved == 1 else f'{gain.moved} partitions move'}"
        )
    return "\n".join(lines)


def _across(partitions: int | None, share: float | None) -> str:
    return "unknown" if partitions is None else f"{partitions} partitions ({words.percent(share)})"


def _asked(base: str, group: str, *, dry_run: bool) -> Progress:
    return _progress(base, post(base, PATH, {"group": group, "dry_run": dry_run}))


def _progress(base: str, answer: HttpAnswer) -> Progress:
    if answer.status in (200, 202, 409):
        return from_json(answer.body)
    raise refusal(base, answer)


def _show_step(console: Console, did: Did) -> None:
    console.print(f"{did.seconds:6.2f} s  {did.step:<8} {_WORDS.get(did.step, '')}")


def _late(progress: Progress) -> str:
    """Return how long members were outside that were not back when the agent came to lead."""
    back = progress.late - progress.outside
    parts = [f"{_evicted(back)} outside for {progress.late_seconds:.1f} s"] if back > 0 else []
    if progress.outside:
        parts.append(f"{_evicted(progress.outside)} not back")
    return "".join(f"; {part}" for part in parts)


def _evicted(members: int) -> str:
    return "an evicted member was" if members == 1 else f"{members} evicted members were"


def _end(progress: Progress) -> str:
    if progress.outcome is TakeoverOutcome.LEADS:
        most = progress.gain.pause_seconds_at_most if progress.gain is not None else None
        return (
            f"the agent leads {progress.group}, {progress.seconds:.1f} s after it began"
            + (f" (at most {most:.1f} s were forecast)" if most is not None else "")
            + f"; {progress.rebalances} rebalances, one of them held open for {progress.held_seconds:.2f} s"
            + _late(progress)
            + f"; {command('events', '--kind', 'rebalance', group=progress.group)} shows who paused and what moved"
        )
    if progress.outcome is TakeoverOutcome.WOULD:
        return f"the agent can take {progress.group} over, and does so without --dry-run"
    return f"{progress.outcome.value}: {progress.group}: {progress.reason}"
