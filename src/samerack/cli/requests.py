"""`samerack leave`, `pause` and `resume`: have a running agent leave one group, or start no rebalance in it."""

from __future__ import annotations

import getpass
import time
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import quote

import typer

from samerack.agent.group_status import INSIDE, LEADING, STANDBY
from samerack.agent.leading.group_requests import RequestStatus, from_json, to_json
from samerack.agent.policy.requests import MAX_SECONDS, MAX_TEXT, RequestKind
from samerack.agent.web.requests import PATH, RESUME
from samerack.cli.agent_requests import UrlOption, agent_address, get, post, refusal
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
    request = _request(RESUME, group, None, why)
    _finish(_sent(agent_address(config, bootstrap, url, assignments), request), None, as_json=as_json)


def _request(action: str, group: str, lasting: str | None, why: str) -> dict[str, object]:
    """Return the body of a request, if the options are right."""
    seconds = _seconds(lasting)
    if len(why) > MAX_TEXT:
        raise SettingsError(f"--why: has {len(why)} characters; the maximum is {MAX_TEXT}")
    return {"group": group, "action": action, "seconds": seconds, "by": _user(), "why": why}


def _sent(base: str, request: dict[str, object]) -> RequestStatus:
    """Send a request; return what is in force now. Errors are those of `_status`, and that no agent answers."""
    return _status(base, post(base, PATH, request))


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
        return from_json(answer.body)
    raise refusal(base, answer)


def _once_out(base: str, status: RequestStatus) -> RequestStatus:
    """Wait until the agent has left the group, and return what is in force then."""
    path, until = f"{PATH}?group={quote(status.group, safe='')}", time.monotonic() + _OUT_SECONDS
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
        typer.echo(to_json(status))
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
