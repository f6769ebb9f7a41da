"""A pod's rack from the pod itself, or from a cloud's metadata; the first source that knows it counts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from samerack.agent.pod import own as metadata
from samerack.agent.pod import sources
from samerack.agent.pod.own import own_rack, with_own_rack
from samerack.agent.pod.sources import OwnRack, labels, rack_of
from samerack.settings.all_settings import Settings
from samerack.settings.leading import PodSettings
from samerack.settings.measuring import TrafficSettings
from tests.clouds.http_server import Answer, Asked, Server

_LABELS = """app="orders"
topology.kubernetes.io/region="eu-west-1"
topology.kubernetes.io/zone="eu-west-1b"
pod-template-hash="5c6f7"
"""


@pytest.fixture(autouse=True)
def label_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path for the labels, without the file."""
    path = tmp_path / "labels"
    monkeypatch.setattr(sources, "_LABEL_FILE", str(path))
    return path


@pytest.fixture
def settings(tmp_path: Path) -> PodSettings:
    """Path for the rack, without the file."""
    return PodSettings(rack_file=str(tmp_path / "rack"))


def test_the_first_source_that_knows_counts(settings: PodSettings, label_file: Path) -> None:
    """The variable comes before the file, the file before the label; later sources are only asked to be shown."""
    label_file.write_text(_LABELS, encoding="utf-8")
    found = own_rack(settings, {})
    assert (found.rack, found.source, len(found.answers)) == ("eu-west-1b", "label", 3)
    Path(settings.rack_file).write_text("rack-f\n", encoding="utf-8")
    found = own_rack(settings, {})
    assert (found.rack, found.source) == ("rack-f", "file")
    found = own_rack(settings, {"CLIENT_RACK": " rack-v "})
    assert (found.rack, found.source, len(found.answers)) == ("rack-v", "env", 1)
    every = own_rack(settings, {"CLIENT_RACK": "rack-v"}, every=True)
    assert [answer.zones for answer in every.answers] == [("rack-v",), ("rack-f",), ("eu-west-1b",)]
    assert (every.rack, every.source) == ("rack-v", "env")


def test_a_label_comes_as_a_variable_too() -> None:
    """The downward API sets a variable from one label; an empty one means that the pod has no such label."""
    settings = PodSettings(sources=("label",))
    assert own_rack(settings, {"POD_ZONE": "zone-1"}).rack == "zone-1"
    (answer,) = own_rack(settings, {"POD_ZONE": ""}).answers
    assert "POD_ZONE is empty: the pod has no such label" in answer.detail
    assert "1.35" in answer.detail


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (_LABELS, "eu-west-1b"),
        ('topology.kubernetes.io/zone="a"', "a"),
        ('  topology.kubernetes.io/zone="a"  \r\n', "a"),
        ('topology.kubernetes.io/zone=""', ""),
        ("topology.kubernetes.io/zone=a", None),
        ('topology.kubernetes.io/zone="a', None),
        ('x-topology.kubernetes.io/zone="a"', None),
        ("", None),
        ("\x00\n\n=\n", None),
    ],
)
def test_labels_are_read_line_by_line(text: str, found: str | None) -> None:
    """Only whole lines of the form key="value" count."""
    assert labels(text).get("topology.kubernetes.io/zone") == found


@pytest.mark.parametrize("wrong", ["", "\n", "a\tb", "\x1b[31m", "z" * 300])
def test_what_is_no_name_is_no_rack(settings: PodSettings, wrong: str) -> None:
    """A value that does not fit on one line of a file is refused from any source."""
    Path(settings.rack_file).write_text(wrong, encoding="utf-8")
    assert own_rack(settings, {"CLIENT_RACK": ""}).rack is None


def test_files_that_cannot_be_read_say_why(settings: PodSettings, label_file: Path) -> None:
    """A folder, bytes that are no text, and a missing file each give an answer; a source stands once."""
    Path(settings.rack_file).mkdir()
    label_file.write_bytes(b"\xff\xfe")
    details = [answer.detail for answer in own_rack(settings, {}).answers]
    assert "Is a directory" in details[1]
    assert "is not text" in details[2]
    with pytest.raises(ValueError, match="lists a source twice"):
        PodSettings(sources=("env", "env"))


@pytest.mark.parametrize(
    ("zones", "rack"),
    [(("zone-1",), "rack-a"), (("zone-9",), "zone-9"), (("zone-9", "use1-az1"), "rack-b"), ((), None)],
)
def test_a_table_turns_zones_into_racks(zones: tuple[str, ...], rack: str | None) -> None:
    """Any name of a zone may be in the table; a zone that is not in it is the rack."""
    assert rack_of(zones, {"zone-1": "rack-a", "use1-az1": "rack-b"}) == rack


def test_the_rack_becomes_the_agents_own() -> None:
    """Samples are read from a replica in that rack, unless the settings name another rack."""
    found = own_rack(PodSettings(zones={"z": "rack-a"}), {"CLIENT_RACK": "z"})
    kafka = {"bootstrap.servers": "h:1"}
    assert with_own_rack(Settings(kafka=kafka), found).traffic.rack == "rack-a"
    own = Settings(kafka=kafka, traffic=TrafficSettings(rack="rack-t"))
    assert with_own_rack(own, found).traffic.rack == "rack-t"
    assert with_own_rack(Settings(kafka=kafka), own_rack(PodSettings(sources=()), {})).traffic.rack == ""


# instance metadata of a cloud

Answers = Callable[[str, str, Mapping[str, str]], tuple[int, str]]  # from method, path and headers to status and body


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
    with _Metadata(answers) as server, pytest.MonkeyPatch.context() as patch:
        for address in ("_LINK_LOCAL", "_GOOGLE"):
            patch.setattr(metadata, address, server.url)
        return own_rack(PodSettings.model_validate({"sources": ["cloud"], **settings}), {})


@pytest.mark.parametrize(
    ("provider", "answers", "rack"),
    [("aws", aws, "us-east-1a"), ("google-cloud", google, "us-central1-f"), ("azure", azure("2"), "westeurope-2")],
)
def test_each_provider_has_the_zone(provider: str, answers: Answers, rack: str) -> None:
    """The zone is that of Kubernetes' node labels there, and the provider is found."""
    own = found(answers)
    assert (own.rack, own.source, own.answers[0].detail) == (rack, "cloud", f"instance metadata of {provider}")


def test_aws_has_two_names_for_a_zone() -> None:
    """The id is the rack if the setting says so, and either name may be in the table."""
    assert found(aws, cloud_zone="id").rack == "use1-az4"
    assert found(aws, zones={"use1-az4": "rack-a"}).rack == "rack-a"
    assert found(aws, zones={"us-east-1a": "rack-b"}, cloud_zone="id").rack == "rack-b"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (azure(""), "this machine in westeurope is in no zone"),
        (lambda *_: (200, ""), "answers nothing"),
        (
            lambda _method, path, _headers: (200, "no JSON") if path.startswith("/metadata/instance/") else (404, ""),
            "answers without location and zone",
        ),
        (lambda *_: (403, ""), "aws: answers 403"),
        (lambda *_: (404, ""), "aws: answers 404; google-cloud: answers 404; azure: answers 404"),
        (lambda *_: (200, "a\nb"), "is not a valid name"),
    ],
)
def test_what_is_no_zone_is_reported(answers: Answers, reason: str) -> None:
    """There is no rack, and the answer says why."""
    own = found(answers)
    assert own.rack is None
    assert reason in own.answers[0].detail


def test_a_service_that_hangs_costs_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit ends the request, and nothing fails."""
    monkeypatch.setattr(metadata, "ANSWER_SECONDS", 0.05)
    hang = threading.Event()

    def answers(*_: object) -> tuple[int, str]:
        hang.wait()
        return 200, "late"

    with _Metadata(answers) as server:
        for address in ("_LINK_LOCAL", "_GOOGLE"):
            monkeypatch.setattr(metadata, address, server.url)
        settings = PodSettings(sources=("cloud",))
        assert "no answer within 0.05 s" in own_rack(settings, {}).answers[0].detail
        hang.set()
