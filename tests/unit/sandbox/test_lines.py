"""The members' command line and the lines they print."""

import json

import pytest

from sandbox.members.lines import MemberSettings, Recorder, command_line, parse, python_settings
from sandbox.members.process import read_event


def test_a_command_line_says_all_settings() -> None:
    """Arguments written by one end are read back equal by the other."""
    settings = MemberSettings(
        bootstrap="127.0.0.1:1,127.0.0.1:2",
        group="g",
        topics=("a", "b"),
        client_id="c",
        rack="r",
        assignors=("range", "roundrobin"),
        instance_id="i",
        properties={"session.timeout.ms": "6000", "x": "a=b"},
    )
    assert parse("", command_line(settings)) == settings
    plain = MemberSettings(bootstrap="b", group="g", topics=("a",), client_id="c")
    assert parse("", command_line(plain)) == plain


def test_python_clients_get_their_own_names_and_types() -> None:
    """Dots become underscores, and texts become numbers and booleans."""
    given = {"session.timeout.ms": "6000", "check.crcs": "False", "client.id": "a-1"}
    assert python_settings(given) == {"session_timeout_ms": 6000, "check_crcs": False, "client_id": "a-1"}


def test_consecutive_reads_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Reads are collected by partition, split where an offset is skipped, and printed before any other event."""
    recorder = Recorder()
    for offset in (5, 6, 7, 9):
        recorder.read("t", 0, offset)
    recorder.read("t", 1, 0)
    recorder.partitions("revoked", [("t", 1), ("t", 0)])
    lines = capsys.readouterr().out.splitlines()
    runs = [[json.loads(line)[key] for key in ("partition", "first", "last", "count")] for line in lines[:-1]]
    assert runs == [[0, 5, 7, 3], [0, 9, 9, 1], [1, 0, 0, 1]]
    assert json.loads(lines[-1])["partitions"] == [["t", 0], ["t", 1]]


def test_a_line_is_read_as_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    """A line that a recorder prints is read back as the same event."""
    recorder = Recorder()
    recorder.read("t", 3, 4)
    recorder.event("statistics", brokers={"1": 10, "2": 20})
    records, statistics = (read_event(line.encode()) for line in capsys.readouterr().out.splitlines())
    assert records.partitions == {("t", 3)}
    assert (records.first, records.last, records.count) == (4, 4, 1)
    assert statistics.brokers == {1: 10, 2: 20}


@pytest.mark.parametrize("line", [b"", b"text", b"[]", b"{}", b'{"event":"records","ms":1}'])
def test_a_foreign_line_is_refused(line: bytes) -> None:
    """A line that is no event is refused, with an error that says so."""
    with pytest.raises(ValueError, match="not a line of a member"):
        read_event(line)
