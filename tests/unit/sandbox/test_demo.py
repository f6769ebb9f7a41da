"""What the demos print: tables that a terminal of 80 columns holds, and sentences that are true."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from lab.sandbox import demo, demo_new_protocol
from lab.sandbox.crew import Crew, Post, show_rates
from lab.sandbox.members.process import Event
from lab.sandbox.story import Story

_KILLED_MS = 1_800_000_000_000


@pytest.mark.parametrize("posts", [demo.POSTS, demo_new_protocol.POSTS], ids=["classic", "new protocol"])
def test_rates_fit_into_eighty_columns(posts: tuple[Post, ...]) -> None:
    """Each client and rack stands whole in one line, with the largest figures that a member had."""
    console = Console(width=80, file=StringIO())
    racks = sorted({post.rack for post in posts})
    show_rates(Story(console), {post: dict.fromkeys(racks, 987_654.3) for post in posts}, "received, kB/s")
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(all(f"from {rack}" in line for rack in racks) for line in lines) == 1
    for post in posts:
        assert any(post.client in line and post.rack in line and line.count("987.7") == 3 for line in lines)


@pytest.mark.parametrize("kind", ["assigned", "revoked", "lost"])
def test_a_rebalance_after_the_kill_is_why_members_paused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that gave up or got partitions since then was in a rebalance: the sentence names the heartbeats."""
    text = _sentence(monkeypatch, 3.1, Event(kind=kind, ms=_KILLED_MS + 9000))
    assert text.startswith("the longest pause of a partition was 3.10 s: the agent's session ended")
    assert "with its next heartbeat (every 3 s)" in text


def test_without_a_rebalance_no_heartbeat_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What members got before the kill and records after it are no rebalance; nor is it said that nobody paused."""
    before = Event(kind="assigned", ms=_KILLED_MS - 1)
    text = _sentence(monkeypatch, 0.36, before, Event(kind="records", ms=_KILLED_MS + 9000))
    assert text == "the longest pause of a partition was 0.36 s: the group went on as it was"


def _sentence(monkeypatch: pytest.MonkeyPatch, seconds: float, *events: Event) -> str:
    """The sentence after such a pause, with these events of members."""
    crew = Crew(posts=demo.POSTS, bootstrap="", group="orders", topics=demo.TOPICS)
    monkeypatch.setattr(crew, "_events", lambda: list(events))
    return demo.paused(seconds, rebalanced=crew.rebalanced(since_ms=_KILLED_MS))
