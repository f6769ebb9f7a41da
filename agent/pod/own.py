"""Finds the rack of the agent's own pod: asks the sources of `pod.sources` in order, until one knows it.

And writes it for applications: as a plain file, an environment file, or Java properties. Each write is atomic. A reader
finds the old file or the new one, never a part, and any user may read it: applications run as other users.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from samerack.agent.pod.kubernetes import zones_of_this_pod
from samerack.agent.pod.sources import (
    ANSWER_SECONDS,
    OwnRack,
    SourceAnswer,
    from_file,
    from_label,
    from_variable,
    rack_of,
)
from samerack.common.errors import AgentError, SettingsError
from samerack.common.fetching import HttpAnswer, NoAnswerError, ask
from samerack.settings.all_settings import Settings
from samerack.settings.leading import PodSettings, RackSource

# Reads the zone of this machine from the cloud's instance metadata: AWS (IMDSv2), Google Cloud, Azure.
#
# It sends at most three plain HTTP requests per provider, to an address that only the machine itself can reach.

_LINK_LOCAL: Final = "http://169.254.169.254"
_GOOGLE: Final = "http://metadata.google.internal"
_AZURE_VERSION: Final = "2021-02-01"


class _NoZoneError(Exception):
    """The service answered, but not with a zone."""


def zones_of_this_machine(settings: PodSettings, _: Mapping[str, str]) -> SourceAnswer:
    """Return the zone from the metadata service of the first provider that knows it."""
    reasons = []
    for name, provider in _PROVIDERS.items():
        try:
            zones = provider(settings)
        except (NoAnswerError, _NoZoneError) as error:
            reasons.append(f"{name}: {error}")
            continue
        return SourceAnswer(source="cloud", zones=zones, detail=f"instance metadata of {name}")
    return SourceAnswer(source="cloud", detail="; ".join(reasons))


def _aws(settings: PodSettings) -> tuple[str, ...]:
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = _text(_ask(_LINK_LOCAL, "/latest/api/token", lifetime, method="PUT"))
    proof = {"X-aws-ec2-metadata-token": token}
    place = "/latest/meta-data/placement/availability-zone"
    name = _text(_ask(_LINK_LOCAL, place, proof))
    answer = _ask(_LINK_LOCAL, f"{place}-id", proof)
    if answer.status == 404 and settings.cloud_zone == "name":
        return (name,)  # emulators of the service need not know ids
    identity = _text(answer)
    return (identity, name) if settings.cloud_zone == "id" else (name, identity)


def _google(_: PodSettings) -> tuple[str, ...]:
    answer = _ask(_GOOGLE, "/computeMetadata/v1/instance/zone", {"Metadata-Flavor": "Google"})
    return (_text(answer).rpartition("/")[2],)  # projects/123/zones/europe-west1-b


def _azure(_: PodSettings) -> tuple[str, ...]:
    path = f"/metadata/instance/compute?api-version={_AZURE_VERSION}&format=json"
    body = _text(_ask(_LINK_LOCAL, path, {"Metadata": "true"}))
    try:
        parsed = json.loads(body)
        location, zone = str(parsed["location"]), str(parsed["zone"])
    except (ValueError, KeyError, TypeError):
        raise _NoZoneError("answers without location and zone") from None
    if not zone:
        raise _NoZoneError(f"this machine in {location} is in no zone")
    return (f"{location}-{zone}", zone)  # the first is how Kubernetes labels its nodes there


_PROVIDERS: Final[Mapping[str, Callable[[PodSettings], tuple[str, ...]]]] = {
    "aws": _aws,
    "google-cloud": _google,
    "azure": _azure,
}


def _ask(url: str, path: str, headers: Mapping[str, str], *, method: str = "GET") -> HttpAnswer:
    return ask(url, path, method=method, seconds=ANSWER_SECONDS, headers=headers)


def _text(answer: HttpAnswer) -> str:
    if answer.status != 200:
        raise _NoZoneError(f"answers {answer.status}")
    text = answer.body.decode(errors="replace").strip()
    if not text:
        raise _NoZoneError("answers nothing")
    return text


_SOURCES: Final[Mapping[RackSource, Callable[[PodSettings, Mapping[str, str]], SourceAnswer]]] = {
    "env": from_variable,
    "file": from_file,
    "label": from_label,
    "kubernetes": zones_of_this_pod,
    "cloud": zones_of_this_machine,
}


def own_rack(settings: PodSettings, environment: Mapping[str, str] | None = None, *, every: bool = False) -> OwnRack:
    """Return this pod's rack from the first source that knows it; never fails, as each answer says what went wrong.

    With `every`, ask the sources after it as well, to show what they say.
    """
    environment = os.environ if environment is None else environment
    answers: list[SourceAnswer] = []
    rack: str | None = None
    source: RackSource | None = None
    for name in settings.sources:
        if rack is not None and not every:
            break
        answer = _checked(_SOURCES[name](settings, environment))
        answers.append(answer)
        if rack is None and answer.zones:
            rack, source = rack_of(answer.zones, settings.zones), name
    return OwnRack(rack=rack, source=source, answers=tuple(answers))


def with_own_rack(settings: Settings, own: OwnRack) -> Settings:
    """Return the settings with `traffic.rack` from this pod, unless it is set."""
    if settings.traffic.rack or own.rack is None:
        return settings
    return settings.model_copy(update={"traffic": settings.traffic.model_copy(update={"rack": own.rack})})


def _checked(answer: SourceAnswer) -> SourceAnswer:
    """Remove zones that are not valid names: what is written for applications must stay on one line."""
    if all(zone.isprintable() and len(zone) <= 255 for zone in answer.zones):
        return answer
    return replace(answer, zones=(), detail=f"{answer.detail}: has {answer.zones[0][:40]!r}, which is not a valid name")


_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY: Final = re.compile(r"[A-Za-z0-9_.-]+")
_READABLE: Final = 0o644


def plain(rack: str) -> str:
    """Format the rack alone on a line."""
    return f"{rack}\n"


def env_line(variable: str, rack: str) -> str:
    """Format the rack as a variable, for a shell or a container's environment file.

    Raises:
        SettingsError: The variable's name is invalid.
    """
    if not _VARIABLE.fullmatch(variable):
        raise SettingsError(f"--variable {variable!r}: expected letters, digits and underscores, e.g. CLIENT_RACK")
    return f"{variable}={shlex.quote(rack) if rack else ''}\n"


def property_line(key: str, rack: str) -> str:
    """Format the rack as a line of Java properties.

    Raises:
        SettingsError: The key is invalid.
    """
    if not _KEY.fullmatch(key):
        raise SettingsError(f"--key {key!r}: expected letters, digits, dots, hyphens and underscores, e.g. client.rack")
    return f"{key}={''.join(_as_java_reads(character) for character in rack)}\n"


def _as_java_reads(character: str) -> str:
    if character == "\\" or not character.isascii():
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    return character


def write(path: Path, text: str) -> None:
    """Write a file atomically.

    Raises:
        AgentError: It cannot be written.
    """
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), _READABLE)
        Path(name).replace(path)
    except OSError as error:
        if name is not None:
            with suppress(OSError):
                Path(name).unlink()
        raise AgentError(
            f"{path}: cannot be written ({error.strerror}); mount a volume (emptyDir) that user {os.getuid()} may "
            f"write at {path.parent}"
        ) from None
