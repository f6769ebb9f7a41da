"""Which takeover requests the agent accepts: those of programs on this machine, and none of web pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from samerack.agent.leading.progress import Did, Gain, Outcome, Progress, from_json, to_json
from samerack.agent.web import takeover as web_takeover
from samerack.cli import lead
from samerack.common.errors import AgentError
from tests.unit.agent.serving import post, served

GAIN = Gain(
    members=3,
    cross_rack_now=4,
    cross_rack_then=0,
    share_now=0.66,
    share_then=0.0,
    saved_bytes_per_second=2_000_000.0,
    saved_dollars_per_day=3.5,
    rejoin_seconds=None,
    held_seconds_at_most=4.0,
    pause_seconds_at_most=None,
)


@dataclass
class Leader:
    """Replaces the leader of a group; takes over in two polls."""

    asked: list[bool] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=lambda: [Outcome.RUNNING, Outcome.LEADS])

    @property
    def takeover(self) -> Progress:
        """The next outcome."""
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        return Progress(group="orders", number=1, outcome=outcome, did=(Did(step="gather", seconds=0.5),), gain=GAIN)

    def take_over(self, *, dry_run: bool) -> Progress:
        """Store the request."""
        self.asked.append(dry_run)
        return Progress(group="orders", number=1, outcome=Outcome.WOULD if dry_run else Outcome.ASKED, gain=GAIN)


def posted(port: int, body: object, **headers: str) -> tuple[int, Any]:
    """Status and JSON of the answer."""
    return post(port, "/v1/takeover", body, **headers)


@pytest.fixture
def leader() -> Leader:
    """A leader of its own for each test."""
    return Leader()


@pytest.fixture
def port(leader: Leader) -> Iterator[int]:
    """The port of an agent with this leader."""
    with served(*web_takeover.routes({"orders": leader})) as port:
        yield port


def test_a_program_of_this_machine_is_heeded(port: int, leader: Leader) -> None:
    """A local program may request a takeover or a dry run, by any name of the loopback address."""
    assert posted(port, {"group": "orders"})[0] == 202
    assert posted(port, {"group": "orders", "dry_run": True}, host=f"localhost:{port}")[1]["outcome"] == "would"
    assert posted(port, {"group": "orders"}, host="[::1]:9464")[0] == 202
    assert leader.asked == [False, True, False]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"[" * 4000,
        {"group": 3},
        {"group": "orders", "dry_run": "no"},
        {"group": "orders", "more": 1},
    ],
)
def test_what_makes_no_sense_is_refused(port: int, leader: Leader, body: object) -> None:
    """An invalid body is refused with the expected form, a long one, and an unknown group with those there are."""
    assert posted(port, {"group": "o" * 5000})[0] == 413
    unknown, answer = posted(port, {"group": "payments"})
    assert (unknown, "orders" in answer["error"]) == (404, True)
    status, answer = posted(port, body)
    assert status == 400
    assert "expected" in answer["error"]
    assert leader.asked == []


def test_the_command_follows_it_to_its_end(port: int) -> None:
    """The command reports each finished step once."""
    base, told = f"http://127.0.0.1:{port}", list[Did]()
    progress = lead.follow(base, lead._asked(base, "orders", dry_run=False), told.append)
    assert progress.outcome is Outcome.LEADS
    assert [did.step for did in told] == ["gather"]
    with pytest.raises(AgentError, match="404"):
        lead._asked(base, "payments", dry_run=False)
    with pytest.raises(AgentError, match=r"give --url or web\.port"):
        lead._asked("http://127.0.0.1:1", "orders", dry_run=False)


def test_a_progress_is_told_and_read_back() -> None:
    """A progress is read back equal, and other JSON is refused."""
    progress = Progress(group="orders", number=2, outcome=Outcome.UNDONE, reason="why", gain=GAIN)
    assert from_json(to_json(progress)) == progress
    with pytest.raises(AgentError, match="reports no takeover"):
        from_json("{}")


def test_the_gain_in_words() -> None:
    """The text has the partitions that cross racks, and the members that pause."""
    text = lead.gain_words(GAIN)
    assert "4 partitions (66 %) now, 0 partitions (0 %) under the agent" in text
    assert "3 members pause" in text
    assert "not known yet" in text
