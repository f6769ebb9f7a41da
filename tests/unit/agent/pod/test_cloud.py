"""The zone from a cloud's instance metadata, on a loopback server that answers as the provider's does."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping

import pytest

from samerack.agent.pod.model import OwnRack
from samerack.agent.pod.own import own_rack
from samerack.common.settings import PodSettings
from sandbox.http_server import Answer, Asked, Server

Answers = Callable[[str, str, Mapping[str, str]], tuple[int, str]]
"""From method, path and headers to status and body."""


class _Metadata(Server):
    """A metadata service."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self._answers = answers

    def answer(self, asked: Asked) -> Answer:
        status, text = self._answers(asked.method, asked.path, asked.headers)
        return Answer(status=status, text=text)


def aws(method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """Amazon's, version 2: no data without a token, which only PUT gives."""
    place = "/latest/meta-data/placement/availability-zone"
    if (method, path) == ("PUT", "/latest/api/token"):
        lifetime = headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        return (200, "proof") if lifetime.isdigit() else (400, "")
    if headers.get("X-aws-ec2-metadata-token") != "proof":
        return 401, "Unauthorized"
    return {place: (200, "us-east-1a"), f"{place}-id": (200, "use1-az4")}.get(path, (404, ""))


def google(method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    """Google's: refuses a request without the header that names it."""
    if method != "GET" or path != "/computeMetadata/v1/instance/zone":
        return 404, ""
    return (200, "projects/123/zones/us-central1-f") if headers.get("Metadata-Flavor") == "Google" else (403, "")


def azure(zone: str) -> Answers:
    """Microsoft's, of a machine in this zone."""

    def answers(method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        if method != "GET" or not path.startswith("/metadata/instance/compute?api-version="):
            return 404, ""
        body = json.dumps({"location": "westeurope", "zone": zone, "name": "vm"})
        return (200, body) if headers.get("Metadata") == "true" else (400, "")

    return answers


def found(answers: Answers, **settings: object) -> OwnRack:
    """The rack that is found with this service."""
    with _Metadata(answers) as server:
        return own_rack(PodSettings.model_validate({"sources": ["cloud"], "cloud_url": server.url, **settings}), {})


@pytest.mark.parametrize("cloud", ["auto", "named"])
@pytest.mark.parametrize(
    ("provider", "answers", "rack"),
    [("aws", aws, "us-east-1a"), ("google-cloud", google, "us-central1-f"), ("azure", azure("2"), "westeurope-2")],
)
def test_each_provider_tells_the_zone(cloud: str, provider: str, answers: Answers, rack: str) -> None:
    """The zone is that of Kubernetes' node labels there, and the provider does not have to be set."""
    own = found(answers, cloud=provider if cloud == "named" else "auto")
    assert (own.rack, own.source, own.answers[0].detail) == (rack, "cloud", f"instance metadata of {provider}")


def test_aws_has_two_names_for_a_zone() -> None:
    """The id is the rack if the setting says so, and either name may be in the table."""
    assert found(aws, cloud_zone="id").rack == "use1-az4"
    assert found(aws, zones={"use1-az4": "rack-a"}).rack == "rack-a"
    assert found(aws, zones={"us-east-1a": "rack-b"}, cloud_zone="id").rack == "rack-b"


@pytest.mark.parametrize(
    ("answers", "cloud", "reason"),
    [
        (azure(""), "azure", "this machine in westeurope is in no zone"),
        (lambda *_: (200, ""), "google-cloud", "answers nothing"),
        (lambda *_: (200, "no JSON"), "azure", "answers without location and zone"),
        (lambda *_: (403, ""), "aws", "aws: answers 403"),
        (lambda *_: (404, ""), "auto", "aws: answers 404; google-cloud: answers 404; azure: answers 404"),
        (lambda *_: (200, "a\nb"), "google-cloud", "is no name"),
    ],
)
def test_what_is_no_zone_is_said(answers: Answers, cloud: str, reason: str) -> None:
    """There is no rack, and the answer says why."""
    own = found(answers, cloud=cloud)
    assert own.rack is None
    assert reason in own.answers[0].detail


def test_a_service_that_hangs_costs_a_moment() -> None:
    """The time limit ends the request, and nothing fails."""
    hang = threading.Event()

    def answers(*_: object) -> tuple[int, str]:
        hang.wait()
        return 200, "late"

    with _Metadata(answers) as server:
        settings = PodSettings(sources=("cloud",), cloud="aws", cloud_url=server.url, timeout_seconds=0.05)
        assert "no answer within 0.05 s" in own_rack(settings, {}).answers[0].detail
        hang.set()
