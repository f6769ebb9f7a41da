"""Which takeover requests the agent accepts: those of programs on this machine, and none of web pages."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from samerack.agent.leading.progress import Did, Gain, Outcome, Progress, from_json, to_json
from samerack.agent.metrics import Metrics
from samerack.agent.web import takeover as web_takeover
from samerack.agent.web.server import WebServer, application
from samerack.cli import lead
from samerack.common.errors import AgentError
from tests.unit.waiting import LONGEST_SECONDS

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


LEADERS: dict[str, Leader] = {}
"""The leaders, for the server of all tests."""


@pytest.fixture
def leader() -> Leader:
    """A leader of its own for each test."""
    LEADERS["orders"] = Leader()
    return LEADERS["orders"]


@pytest.fixture(scope="module")
def server() -> Iterator[int]:
    """A server's port."""
    more = web_takeover.routes(LEADERS)
    running = WebServer(application(Metrics(), healthy=dict, ready=dict, more=more), host="127.0.0.1", port=0)
    running.start()
    yield running.port
    running.stop()


@pytest.fixture
def port(server: int, leader: Leader) -> int:
    """The same, with a fresh leader."""
    assert not leader.asked
    return server


def post(port: int, body: object, **headers: str) -> tuple[int, Any]:
    """Status and JSON of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST_SECONDS)
    sent = {"content-type": "application/json"} | {key.replace("_", "-"): value for key, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        connection.request("POST", "/v1/takeover", body=content, headers=sent)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_a_program_of_this_machine_is_heeded(port: int, leader: Leader) -> None:
    """A local program may request a takeover or a dry run, by any name of the loopback address."""
    assert post(port, {"group": "orders"})[0] == 202
    assert post(port, {"group": "orders", "dry_run": True}, host=f"localhost:{port}")[1]["outcome"] == "would"
    assert post(port, {"group": "orders"}, host="[::1]:9464")[0] == 202
    assert leader.asked == [False, True, False]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "attacker.example"}, 403),
        ({"host": "192.0.2.1:9464"}, 403),
        ({"host": "[bad"}, 403),
        ({"origin": "http://localhost"}, 403),
        ({"x_forwarded_for": "192.0.2.7"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_pages_and_others_are_not(port: int, leader: Leader, headers: dict[str, str], status: int) -> None:
    """Other hosts, pages, names rebound to this machine, and what a form can send are refused."""
    answer = post(port, {"group": "orders"}, **headers)
    assert answer[0] == status
    assert answer[1]["error"]
    assert leader.asked == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 4000,
        b"1" * 4090,
        b"NaN",
        b'{"group": Infinity}',
        {"group": 3},
        {"group": "orders", "dry_run": "no"},
        {"group": "orders", "more": 1},
    ],
)
def test_what_makes_no_sense_is_refused(port: int, leader: Leader, body: object) -> None:
    """An invalid body is refused with the expected form."""
    status, answer = post(port, body)
    assert status == 400
    assert "expected" in answer["error"]
    assert leader.asked == []


def test_long_questions_are_refused(port: int) -> None:
    """A body above some thousand bytes is refused."""
    assert post(port, {"group": "o" * 5000})[0] == 413


def test_other_groups_are_unknown(port: int) -> None:
    """The answer for an unknown group lists the known ones."""
    status, answer = post(port, {"group": "payments"})
    assert status == 404
    assert "orders" in answer["error"]


def test_the_command_follows_it_to_its_end(port: int) -> None:
    """The command reports each finished step once."""
    base, told = f"http://127.0.0.1:{port}", list[Did]()
    progress = lead.follow(base, lead._asked(base, "orders", dry_run=False), told.append)
    assert progress.outcome is Outcome.LEADS
    assert [did.step for did in told] == ["gather"]
    with pytest.raises(AgentError, match="404"):
        lead._asked(base, "payments", dry_run=False)


def test_the_command_says_that_nobody_answers() -> None:
    """The message says what to set."""
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
