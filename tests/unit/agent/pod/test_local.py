"""A pod's rack from the pod itself: a variable, a file, the downward API's label; the first that knows it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from samerack.agent.pod.local import labels
from samerack.agent.pod.model import rack_of
from samerack.agent.pod.own import own_rack, with_own_rack
from samerack.common.settings import PodSettings, Settings, TrafficSettings

_LABELS = """app="orders"
topology.kubernetes.io/region="eu-west-1"
topology.kubernetes.io/zone="eu-west-1b"
pod-template-hash="5c6f7"
"""


@pytest.fixture
def settings(tmp_path: Path) -> PodSettings:
    """Paths for the rack and the labels, without the files."""
    return PodSettings(rack_file=str(tmp_path / "rack"), label_file=str(tmp_path / "labels"))


def test_the_first_source_that_knows_counts(settings: PodSettings) -> None:
    """The variable comes before the file, the file before the label; later sources are only asked to be shown."""
    Path(settings.label_file).write_text(_LABELS, encoding="utf-8")
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
    settings = PodSettings(sources=("label",), label_file="/nowhere/labels")
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


def test_files_that_cannot_be_read_say_why(settings: PodSettings) -> None:
    """A folder, bytes that are no text, and a missing file each give an answer, and no failure."""
    Path(settings.rack_file).mkdir()
    Path(settings.label_file).write_bytes(b"\xff\xfe")
    said = [answer.detail for answer in own_rack(settings, {}).answers]
    assert "Is a directory" in said[1]
    assert "is no text" in said[2]


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
    told = Settings(kafka=kafka, traffic=TrafficSettings(rack="rack-t"))
    assert with_own_rack(told, found).traffic.rack == "rack-t"
    assert with_own_rack(Settings(kafka=kafka), own_rack(PodSettings(sources=()), {})).traffic.rack == ""


def test_a_source_stands_once() -> None:
    """A source that is named twice is refused."""
    with pytest.raises(ValueError, match="names a source twice"):
        PodSettings(sources=("env", "env"))
