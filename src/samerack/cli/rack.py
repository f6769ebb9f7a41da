"""`samerack rack`: the rack of this pod, for people, for scripts, and for applications that set `client.rack`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from samerack.agent.pod.own import env_line, own_rack, plain, property_line, write
from samerack.agent.pod.sources import RACK_VARIABLE, OwnRack, SourceAnswer, rack_of
from samerack.common import words
from samerack.common.errors import AgentError, SettingsError, report_error
from samerack.settings.flags import settings_from
from samerack.settings.leading import PodSettings
from samerack.settings.options import ConfigOption, SetOption


def rack(
    config: ConfigOption = None,
    *,
    why: Annotated[bool, typer.Option("--why", help="Ask every source and show each result.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    write_to: Annotated[
        Path | None,
        typer.Option("--write", metavar="FILE", help="Write only the rack to this file.", show_default=False),
    ] = None,
    env_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write CLIENT_RACK=RACK to this file, for a shell.", show_default=False),
    ] = None,
    variable: Annotated[str, typer.Option(metavar="NAME", help="The variable in --env-file.")] = RACK_VARIABLE,
    properties_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write client.rack=RACK to this file, as Java properties.", show_default=False
        ),
    ] = None,
    key: Annotated[str, typer.Option(metavar="NAME", help="The key in --properties-file.")] = "client.rack",
    or_empty: Annotated[
        bool,
        typer.Option(
            "--or-empty",
            help="If no rack is found, write an empty one and exit with 0, also if settings are wrong: applications "
            "still start.",
        ),
    ] = False,
    assignments: SetOption = None,
) -> None:
    """Print the rack of this pod and where it came from, or write it to a file for an application.

    Looks where pod.sources says: by default a variable, a file and the label that the downward API brings. Needs no
    Kafka. Exit code 1 where no source knows, unless --or-empty is given.
    """
    pod = _pod_settings(config, assignments, or_empty=or_empty)
    own = own_rack(pod, every=why)
    texts = {
        write_to: plain(own.rack or ""),
        env_file: env_line(variable, own.rack or ""),
        properties_file: property_line(key, own.rack or ""),
    }
    if own.rack is not None or or_empty:
        for path, text in texts.items():
            if path is not None:
                write(path, text)
    if as_json:
        typer.echo(json.dumps({**asdict(own), "answers": [_answer(answer, pod) for answer in own.answers]}))
    elif why:
        for answer in own.answers:
            typer.echo(
                words.plain(f"{answer.source}: {rack_of(answer.zones, pod.zones) or '-'} ({_explained(answer, pod)})")
            )
    elif own.rack is not None or or_empty:
        typer.echo(words.plain(own.rack or ""))
    _conclude(own, pod, or_empty=or_empty)


def _pod_settings(config: list[Path] | None, assignments: list[str] | None, *, or_empty: bool) -> PodSettings:
    try:
        return settings_from(config, None, assignments, needs_kafka=False).pod
    except SettingsError as error:
        if not or_empty:
            raise
        report_error(error)
    try:
        return settings_from(config, None, assignments, needs_kafka=False, section="pod").pod
    except SettingsError:
        return PodSettings(sources=())  # without pod.zones a zone may be the name of another rack


def _conclude(own: OwnRack, pod: PodSettings, *, or_empty: bool) -> None:
    if own.rack is not None:
        found = next(answer for answer in own.answers if answer.source == own.source)
        typer.echo(words.plain(f"samerack: rack {own.rack} from {found.source}: {_explained(found, pod)}"), err=True)
        return
    said = "; ".join(f"{answer.source}: {answer.detail}" for answer in own.answers)
    unknown = f"no source has the rack of this pod ({said or 'none was asked'})"
    if not or_empty:
        raise AgentError(f"{unknown}; set {RACK_VARIABLE}, or add another source to pod.sources (docs/racks.md)")
    typer.echo(words.plain(f"samerack: {unknown}; continuing without a rack"), err=True)


def _explained(answer: SourceAnswer, pod: PodSettings) -> str:
    """Return which sources were asked, and what each answered if it was not the rack itself."""
    rack = rack_of(answer.zones, pod.zones)
    return answer.detail if rack is None or rack in answer.zones else f"{answer.detail}: {' or '.join(answer.zones)}"


def _answer(answer: SourceAnswer, pod: PodSettings) -> dict[str, object]:
    return {**asdict(answer), "rack": rack_of(answer.zones, pod.zones)}
