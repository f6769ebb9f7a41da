"""Reads the zone of this machine from the cloud's instance metadata: AWS (IMDSv2), Google Cloud, Azure.

It sends at most three plain HTTP requests per provider, to an address that only the machine itself can reach.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from samerack.agent.pod.source_answers import ANSWER_SECONDS, SourceAnswer
from samerack.common.fetching import HttpAnswer, NoAnswerError, ask
from samerack.settings.pod import PodSettings

_LINK_LOCAL: Final = "http://169.254.169.254"
_GOOGLE: Final = "http://metadata.google.internal"
_AZURE_VERSION: Final = "2021-02-01"


class _NoZoneError(Exception):
    """The service answered, but not with a zone."""


def zones_of_this_machine(settings: PodSettings, _: Mapping[str, str]) -> SourceAnswer:
    """Return the zone from the metadata service; of several providers the first that knows it."""
    reasons = []
    for name, provider in _PROVIDERS.items():
        if settings.cloud not in ("auto", name):
            continue
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
