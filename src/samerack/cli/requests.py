"""`samerack leave`, `pause`, `resume` and `lead`: what a running agent is asked to do in one group, and what it did."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import quote

import typer

from samerack.agent.group_status import INSIDE, LEADING, STANDBY
from samerack.agent.leading import group_requests
from samerack.agent.leading.group_requests import RequestStatus
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
from samerack.agent.policy.requests import MAX_SECONDS, MAX_TEXT, RequestKind
from samerack.cli.agent_requests import LOST_SECONDS, UrlOption, agent_address, get, post, refusal
from samerack.common import words
from samerack.common.console import Console
from samerack.common.errors import AgentError, SettingsError
from samerack.common.fetching import HttpAnswer, NoAnswerError
from samerack.common.words import seconds_of
from samerack.settings.cures import command
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption

_POLL_SECONDS: Final = 0.1
_OUT_SECONDS: Final = 15.0
"""An agent that is asked to leave is out within a second, unless its coordinator does not answer."""

GroupArgument = Annotated[str, typer.Argument(help="Name of a consumer group that the agent leads.")]
ForOption = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="TIME",
        help="How long: 45s, 30m, 2h, 1d. Default: until samerack resume.",
        show_default=False,
    ),
]
WhyOption = Annotated[
    str, typer.Option("--why", metavar="TEXT", help="The reason; events and pages show it.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object at the end instead of the text.")]


def leave(
    group: GroupArgument,
    lasting: ForOption = None,
    why: WhyOption = "",
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    url: UrlOption = None,
    *,
    lead_again: Annotated[
        bool, typer.Option("--lead-again", help="Take over as leader afterwards, once the policy allows it.")
    ] = False,
    as_json: JsonOption = False,
    assignments: SetOption = None,
) -> None:
    """Make the running agent leave a group at once and stay out, while it keeps measuring.

    The group rebalances once and one of its members leads it; nothing is lost, and nothing read twice. The agent is
    back when the time is over, or after `samerack resume GROUP`: that is one rebalance again. It follows that member
    then, and what it reads across racks stays as it is until the agent leads: when that member leaves, or at once with
    `samerack lead GROUP` or --lead-again. The command asks the agent on this machine (in Kubernetes: kubectl exec); of
    several agents, ask the one that leads the group. An agent that is started again stays out, too. docs/operating.md
    says what shows it.
    """
    request = _request(RequestKind.LEAVE.value, group, lasting, why) | {"lead_again": lead_again}
    base = agent_address(config, bootstrap, url, assignments)
    _finish(_once_out(base, _sent(base, request)), RequestKind.LEAVE, as_json=as_json)


def pause(
    group: GroupArgument,
    lasting: ForOption = None,
    why: WhyOption = "",
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    url: UrlOption = None,
    *,
    as_json: JsonOption = False,
    assignments: SetOption = None,
) -> None:
    """Stop the running agent from rebalancing a group for racks or traffic, while it keeps leading it.

    Rebalances that others cause get the agent's plan as before. It still asks for those without which partitions would
    not be read: for new partitions and topics, and for the second round of a cooperative rebalance. What is worth it
    when the time is over, or after `samerack resume GROUP`, happens then. The command asks the agent on this machine
    (in Kubernetes: kubectl exec); of several agents, ask the one that leads the group.
    """
    request = _request(RequestKind.PAUSE.value, group, lasting, why)
    _finish(_sent(agent_address(config, bootstrap, url, assignments), request), RequestKind.PAUSE, as_json=as_json)


def resume(
    group: GroupArgument,
    why: WhyOption = "",
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    url: UrlOption = None,
    *,
    as_json: JsonOption = False,
    assignments: SetOption = None,
) -> None:
    """End `samerack leave` or `samerack pause` of a group at once: the agent follows its settings again.

    It joins the group again if it had left, makes the rebalances that have become worth it, and may evict members again
    although some had not come back. Where nothing is in force it changes nothing.
    """
    request = _request(group_requests.RESUME, group, None, why)
    _finish(_sent(agent_address(config, bootstrap, url, assignments), request), None, as_json=as_json)


def _request(action: str, group: str, lasting: str | None, why: str) -> dict[str, object]:
    """Return the body of a request, if the options are right."""
    seconds = _seconds(lasting)
    if len(why) > MAX_TEXT:
        raise SettingsError(f"--why: has {len(why)} characters; the maximum is {MAX_TEXT}")
    return {"group": group, "action": action, "seconds": seconds, "by": _user(), "why": why}


def _sent(base: str, request: dict[str, object]) -> RequestStatus:
    """Send a request; return what is in force now. Errors are those of `_status`, and that no agent answers."""
    return _status(base, post(base, group_requests.PATH, request))


def _seconds(lasting: str | None) -> float | None:
    if lasting is None:
        return None
    seconds = seconds_of(lasting)
    if seconds is None or not 0 < seconds <= MAX_SECONDS:
        raise SettingsError(f"--for {lasting}: expected a duration such as 45s, 30m, 2h or 1d, up to a year")
    return seconds


def _user() -> str:
    """Return the name of who calls the command, for the events; it proves nothing."""
    try:
        return getpass.getuser()[:MAX_TEXT]
    except (OSError, KeyError, ImportError):
        return ""  # a user id without a name, as in containers


def _status(base: str, answer: HttpAnswer) -> RequestStatus:
    """Return what is in force by an answer, unless the agent refuses or does not lead the group."""
    if answer.status == HTTPStatus.OK:
        return group_requests.from_json(answer.body)
    raise refusal(base, answer)


def _once_out(base: str, status: RequestStatus) -> RequestStatus:
    """Wait until the agent has left the group, and return what is in force then."""
    path, until = f"{group_requests.PATH}?group={quote(status.group, safe='')}", time.monotonic() + _OUT_SECONDS
    while status.role in INSIDE:
        if time.monotonic() > until:
            raise AgentError(
                f"{base}: the agent is still {status.role} {status.group} after {_OUT_SECONDS:g} s, and leaves as "
                f"soon as it can; {command('events', group=status.group)} shows what it does"
            )
        time.sleep(_POLL_SECONDS)
        try:
            status = _status(base, get(base, path))
        except NoAnswerError as error:
            raise AgentError(f"{error}; it was asked to leave, and does so once its process is back") from None
    return status


def _finish(status: RequestStatus, kind: RequestKind | None, *, as_json: bool) -> None:
    if as_json:
        typer.echo(group_requests.to_json(status))
        return
    Console().print(words.plain(_in_words(status, kind)))


def _in_words(status: RequestStatus, kind: RequestKind | None) -> str:
    """Return what has happened, when it ends, what ends it before, and what comes after."""
    group, role = status.group, status.role
    after = f"; {status.after}" if status.after and role != LEADING else ""
    if kind is None:
        return f"{group}: no request is in force any more; the agent is {role} and follows its settings{after}"
    until = next((request.until for request in status.requests if request.kind is kind), None)
    resumed = command("resume", group=group)
    end = f"until {words.when(until)} UTC or {resumed}" if until is not None else f"until {resumed}"
    if role == STANDBY:
        return f"{group}: another agent is active, so ask that one; this one keeps the request {end}"
    if kind is RequestKind.LEAVE:
        return f"{group}: the agent has left it and keeps measuring it, {end}{after and f'; then {status.after}'}"
    return f"{group}: the agent starts no rebalance in it for racks or traffic; it is {role}, {end}"


_STEPS: Final = {
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
    console.print(f"{did.seconds:6.2f} s  {did.step:<8} {_STEPS.get(did.step, '')}")


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
