"""Finds the rack of the agent's own pod: asks the sources of `pod.sources` in order, until one knows it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from samerack.agent.pod.kubernetes import zones_of_this_pod
from samerack.agent.pod.local import from_file, from_label, from_variable
from samerack.agent.pod.source_answers import ANSWER_SECONDS, OwnRack, SourceAnswer, rack_of
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
