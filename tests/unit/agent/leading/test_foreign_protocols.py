"""What is stored of groups with foreign protocols, and that it survives a restart and a broken file."""

from __future__ import annotations

from pathlib import Path

import pytest

from samerack.agent.leading.foreign_protocols import ForeignProtocols


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in a folder that does not exist yet."""
    return tmp_path / "state" / "agent.protocols.json"


def test_a_restarted_agent_remembers(path: Path) -> None:
    """The next process knows the last foreign protocol of each group."""
    ForeignProtocols(path).note("orders", "stream", foreign=True)
    again = ForeignProtocols(path)
    assert (again.of("orders"), again.of("clicks")) == ("stream", "")


def test_a_known_protocol_ends_it(path: Path) -> None:
    """A group that has changed to a protocol of the agent's may be led again."""
    seen = ForeignProtocols(path)
    seen.note("orders", "mine", foreign=True)
    seen.note("orders", "range", foreign=False)
    assert (seen.of("orders"), ForeignProtocols(path).of("orders")) == ("", "")


def test_nothing_is_written_for_a_known_protocol(path: Path) -> None:
    """Almost every group has a known protocol."""
    ForeignProtocols(path).note("orders", "range", foreign=False)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_a_broken_file_is_no_obstacle(path: Path, content: bytes) -> None:
    """A broken file counts as empty, and the next note replaces it."""
    path.parent.mkdir()
    path.write_bytes(content)
    seen = ForeignProtocols(path)
    assert seen.of("orders") == ""
    seen.note("orders", "mine", foreign=True)
    assert ForeignProtocols(path).of("orders") == "mine"


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    """The protocol is then kept in memory."""
    (tmp_path / "file").write_text("")
    seen = ForeignProtocols(tmp_path / "file" / "protocols.json")
    seen.note("orders", "mine", foreign=True)
    assert seen.of("orders") == "mine"
