"""Where `cost`, `lag` and `verify` get their figures: from a running agent's HTTP port, or by measuring.

A running agent has measured for long, so it is asked first; what it says must be from the same cluster's settings, so
only the address of these settings is tried. `plan` learns racks there that only an agent knows. A command measures by
the same cycle as the agent, and joins no group.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from http import HTTPStatus
from typing import Annotated, Any, Final, Self
from urllib.parse import quote

import typer

from samerack.agent import log
from samerack.cli.agent_requests import is_same_cluster, reason, servers_of
from samerack.cluster.broker_configs import ask_configs, ask_selector, assignors_of, max_size_of
from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.common import fetching, words
from samerack.common.errors import AgentError, SettingsError
from samerack.common.fetching import NoAnswerError, NotListeningError
from samerack.common.patterns import EVERY, exactly
from samerack.events import EventLog
from samerack.reporting import group_lag, report, wanted
from samerack.reporting.evidence import Findings, findings_from_json
from samerack.reporting.group_lag import GroupLag
from samerack.reporting.report import Report
from samerack.reporting.report_service import ReportService, host_racks_from_json
from samerack.settings.all_settings import Settings, only_cluster
from samerack.settings.cures import agent_url, command
from samerack.settings.flags import settings_from
from samerack.settings.measuring import price_table
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption
from samerack.traffic.board import TrafficBoard
from samerack.traffic.metrics import TrafficMetrics
from samerack.traffic.snapshot import BlindSpot, TrafficSnapshot
from samerack.traffic.watch import RackAware, TrafficWatch

_ANSWER_SECONDS: Final = 5.0
_MAX_BYTES: Final = 256 * 1024 * 1024
_LAG_SECONDS: Final = 1.0
"""Offsets are asked for at the second poll, and there are four in this time."""
_MIN_TURNS: Final = 4
"""A window has at least this number of polls: rates need two polls of the offsets, and one outlier must not decide."""
_MIN_POLLS: Final = 2
_END_SECONDS: Final = 5.0
_OF_COMMAND: Final = ("cluster", "kafka.", "log.", "web.")
"""Settings of which cluster and agent a command reaches, and how: what is said of other settings is untrue of these."""
BY_AGENT: Final = "measured by the agent at"
"""How the words begin that say where an agent's figures are from."""
_SAID: Final = ("role", "trouble", "paused")

WindowOption = Annotated[
    float,
    typer.Option("--window", "-w", min=1.0, max=3600.0, help="Seconds to measure if no agent is asked."),
]
MeasureOption = Annotated[bool, typer.Option("--measure", help="Measure even if an agent is running.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlace:
    """The settings; where they name no cluster only a running agent can answer.

    Attributes:
        assigned: The keys that were set on the command line.
    """

    settings: Settings
    assigned: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Where the agent of these settings answers."""
        return agent_url(self.settings)


def place(
    config: ConfigOption, bootstrap: BootstrapOption, assignments: SetOption, *, only_errors: bool = False
) -> AgentPlace:
    """Return settings of the shared options; a cluster need not be named where an agent can be asked.

    Set up the log by them; `only_errors` keeps all else out of it.

    Raises:
        SettingsError: As `settings.flags.settings_from`, but for a missing cluster.
    """
    settings = only_cluster(settings_from(config, bootstrap, assignments, needs_kafka=False))
    quiet = settings.log.model_copy(update={"level": "error"})
    log.configure(settings.model_copy(update={"log": quiet}) if only_errors else settings)
    return AgentPlace(
        settings=settings, assigned=tuple(assignment.partition("=")[0] for assignment in assignments or ())
    )


def figures(where: AgentPlace, *, window: float, measure: bool, group: str | None = None) -> tuple[Report, str]:
    """Return the report of the agent, or of a window measured here; and where it is from, in words.

    For one `group` a measurement has no replication and producers.

    Raises:
        AgentError: Neither an agent nor a broker answers, or the agent measures nothing now.
        SettingsError: No agent runs, and no cluster is named.
    """
    answer = None if measure else _asked(where, "/v1/traffic")
    if answer is not None:
        decoded = report.from_json(answer)
        if _same_cluster(where, decoded.bootstrap):
            if not decoded.cycle:
                raise _unmeasured(where)
            return decoded, _origin(where)
    with _measuring(where, window, asked=not measure, replication=group is None) as measuring:
        announce(window)
        measuring.measure()
        return measuring.reports.report(), _measured_here(where, answer)


def announce(seconds: float) -> None:
    """Show a user at a terminal why the command is silent for this time."""
    if sys.stderr.isatty():
        typer.echo(f"measuring {words.span(seconds)}; Ctrl-C ends it", err=True)


def verdict(where: AgentPlace, *, window: float, measure: bool) -> tuple[Findings, str]:
    """Return what is wrong, and where that is from.

    Raises:
        AgentError: As `figures`.
        SettingsError: As `figures`.
    """
    answer = None if measure else _asked(where, "/v1/findings")
    if answer is not None:
        decoded = findings_from_json(answer)
        if _same_cluster(where, decoded.bootstrap):
            if not decoded.brokers:  # which would look like a sound cluster, whatever else the agent lacks
                raise _unmeasured(where)
            return decoded, _origin(where)
    with _measuring(where, window, asked=not measure) as measuring:
        announce(window)
        measuring.measure()
        return measuring.reports.verdict(), _measured_here(where, answer)


def lag(where: AgentPlace, group: str, *, measure: bool) -> tuple[GroupLag | None, str]:
    """Return the lag of one group, None where the brokers have no such group; the second value says where it is from.

    What this command measures itself, in a second, has no age of records that were written before, and is too short to
    show what members read.

    Raises:
        AgentError, SettingsError: As `figures`.
    """
    answer = None if measure else _asked(where, f"/v1/lag?group={quote(group, safe='')}", may_be_missing=True)
    if answer:
        decoded = group_lag.from_json(answer)
        if _same_cluster(where, decoded.bootstrap):
            return decoded, _origin(where)
    if answer == b"" and not servers_of(where.settings):
        raise AgentError(
            f"group {group}: the agent at {where.url} has not seen it; give --bootstrap-servers to ask brokers for it"
        )
    with measuring_group(where, group, _LAG_SECONDS, asked=not measure) as measuring:
        measuring.measure()
        found = [replace(one, blind_spots=(*one.blind_spots, BlindSpot.YOUNG)) for one in measuring.snapshot.groups]
    bootstrap = where.settings.kafka["bootstrap.servers"]
    return (group_lag.group_lag(found[0], bootstrap=bootstrap) if found else None), (
        f"{_measured_here(where, answer)}; a second shows no rates, and no age of what was written before"
    )


@contextmanager
def live(where: AgentPlace, *, measure: bool) -> Iterator[tuple[Callable[[], Report], str]]:
    """Yield a function that gives the latest report whenever it is called, and where it is from.

    Raises:
        AgentError, SettingsError: As `figures`.
    """
    answer = None if measure else _asked(where, "/v1/traffic")
    if answer is not None and _same_cluster(where, report.from_json(answer).bootstrap):

        def latest() -> Report:
            decoded = _asked(where, "/v1/traffic")
            if decoded is None:
                raise AgentError(f"{where.url}: the agent has ended")
            return report.from_json(decoded)

        yield latest, _origin(where)
        return
    with _measuring(where, where.settings.traffic.window_seconds, asked=not measure) as measuring:
        measuring.start()
        yield measuring.reports.report, _measured_here(where, answer)


def hosts_known(settings: Settings, group: str) -> tuple[Hosts, str]:
    """Return what a running agent of this cluster knows of the racks of a group's hosts, or why nothing is known."""
    where = AgentPlace(settings=settings)
    try:
        answer = _asked(where, f"/v1/racks?group={quote(group, safe='')}")
        decoded = host_racks_from_json(answer) if answer is not None else None
    except AgentError as error:
        return NO_HOSTS, f"without the racks that only the agent knows: {error}"
    return (decoded.hosts() if decoded is not None and _same_cluster(where, decoded.bootstrap) else NO_HOSTS), ""


def agent_says(settings: Settings, group: str) -> Mapping[str, Any]:
    """Return the status that a running agent of this cluster has of a group; empty if it has none, or none runs.

    The values that a plan shows are `role`; `trouble`, why it does not lead the group; `paused`, why it starts no
    rebalance there; and `members_wanted`, a `MembersWanted` or None.
    """
    where = AgentPlace(settings=settings)
    try:
        answer = _asked(where, "/v1/status")
        status = json.loads(answer) if answer is not None else {}
        if not _same_cluster(where, str(status.get("bootstrap", ""))):
            return {}
        return next(
            (
                {name: one.get(name, "") for name in _SAID}
                | {"members_wanted": wanted.JSON.validate_python(one.get("members_wanted"))}
                for one in status["groups"]
                if one["group"] == group
            ),
            {},
        )
    except (AgentError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # an agent of another version: the plan is the same without it


def _asked(where: AgentPlace, path: str, *, may_be_missing: bool = False) -> bytes | None:
    return ask(where.url, path, may_be_missing=may_be_missing) if where.settings.web.port else None


def _unmeasured(where: AgentPlace) -> AgentError:
    return AgentError(
        f"the agent at {where.url} measures nothing now: it has just started, stands by for another agent, or reaches "
        f"no broker, which {command('health', '--ready')} shows; --measure with --bootstrap-servers works without it"
    )


def _same_cluster(where: AgentPlace, bootstrap: str) -> bool:
    return is_same_cluster(servers_of(where.settings), bootstrap)


def _origin(where: AgentPlace) -> str:
    """Return where an agent's figures are from; warn of settings of the command line that are not in them."""
    if unused := [key for key in where.assigned if not key.startswith(_OF_COMMAND)]:
        typer.echo(
            f"samerack: {', '.join(unused)}: not used, because the agent at {where.url} uses its own settings; "
            "--measure uses those given here",
            err=True,
        )
    return f"{BY_AGENT} {where.url}"


def _measured_here(where: AgentPlace, answer: bytes | None) -> str:
    if answer:
        return f"measured by this command, because the agent at {where.url} observes another cluster"
    return "measured by this command"


def measuring_group(where: AgentPlace, group: str, seconds: float, *, asked: bool = False) -> Measuring:
    """Return a measurement of one group in windows of this length; `asked`: whether an agent was asked before.

    Raises:
        SettingsError: No cluster is named.
    """
    only = where.settings.traffic.model_copy(update={"groups": (exactly(group),)})
    settings = where.settings.model_copy(update={"traffic": only})
    return _measuring(replace(where, settings=settings), seconds, asked=asked)


def _measuring(where: AgentPlace, seconds: float, *, asked: bool, replication: bool = False) -> Measuring:
    if not servers_of(where.settings):
        nobody = f"no agent answers at {where.url}, and " if asked and where.settings.web.port else ""
        raise SettingsError(
            f"{nobody}there is no cluster to measure; give --bootstrap-servers, SAMERACK_KAFKA__BOOTSTRAP_SERVERS or "
            "kafka: {bootstrap.servers: HOST:PORT} in the file"
        )
    return Measuring(where.settings, seconds=seconds, replication=replication)


def ask(url: str, path: str, *, may_be_missing: bool = False) -> bytes | None:
    """Return what a running agent answers; None if no agent listens, no bytes if nothing is there and that may be.

    Raises:
        AgentError: Somebody listens who gives no such answer.
    """
    try:
        answer = fetching.ask(url, path, seconds=_ANSWER_SECONDS, max_bytes=_MAX_BYTES)
    except NotListeningError:
        return None
    except NoAnswerError as error:
        raise AgentError(f"{error}; is it an agent?") from None
    if answer.status == HTTPStatus.NOT_FOUND and may_be_missing:
        return b""
    if answer.status != HTTPStatus.OK:
        why = reason(answer) or "is it an agent of this version?"
        raise AgentError(f"{url}{path}: answers {answer.status}; {why}")
    return answer.body


class Measuring:
    """A measurement while a command runs; a context manager that closes its connections."""

    def __init__(self, settings: Settings, *, seconds: float, replication: bool = False) -> None:
        """Prepare without connecting; `seconds` is the length of the window.

        If the settings name no groups to observe, all are observed. `replication`: whether to measure replication and
        producers, too, unless the settings say not to.

        Raises:
            SettingsError: A client refuses a setting, or prices are not valid.
        """
        self._seconds = seconds
        self._settings = settings.model_copy(
            update={
                "traffic": settings.traffic.model_copy(
                    update={
                        "groups": settings.traffic.groups or (EVERY,),
                        "poll_seconds": min(settings.traffic.poll_seconds, seconds / _MIN_TURNS),
                        "window_seconds": seconds,
                        "replication": replication and settings.traffic.replication,
                    }
                )
            }
        )
        prices = price_table(settings.money)
        self._board = board = TrafficBoard()
        self._rack_aware: RackAware = lambda: None
        self._watch = TrafficWatch(
            self._settings,
            board=board,
            metrics=TrafficMetrics.silent(),
            rack_aware=lambda: self._rack_aware(),  # noqa: PLW0108 - what is asked is known when measuring starts
        )
        configs = cache(partial(ask_configs, settings))  # one question for both, when the first is needed
        self.reports = ReportService(
            board=board,
            roles=dict,
            events=EventLog(),
            prices=prices,
            leading=settings.leading,
            bootstrap=settings.kafka["bootstrap.servers"],
            server_assignors=cache(partial(assignors_of, configs)),
            max_group_size=cache(partial(max_size_of, configs)),
        )

    def measure(self) -> None:
        """Measure for one window, by two polls at least, however long one takes: offsets are compared.

        Raises:
            AgentError: No broker answers.
        """
        self._rack_aware = ask_selector(self._settings)
        self._watch.poll_for(self._seconds, min_polls=_MIN_POLLS)

    @property
    def snapshot(self) -> TrafficSnapshot:
        """What was measured last."""
        return self._board.latest()

    def start(self) -> None:
        """Measure on a thread until closed.

        Raises:
            AgentError: No broker answers at the start.
        """
        self._rack_aware = ask_selector(self._settings)
        self._watch.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._watch.is_alive():
            self._watch.stop()
            self._watch.join(_END_SECONDS)
        else:
            self._watch.close()
