"""Which requests to leave, pause, resume and take over the agent accepts, and what the commands make of its answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from starlette.responses import JSONResponse
from starlette.routing import Route
from typer.testing import CliRunner

from samerack.agent.leading.group_requests import GroupRequests, RequestStatus
from samerack.agent.leading.progress import Did, Gain, Progress, TakeoverOutcome, from_json, to_json
from samerack.agent.policy.requests import RequestKind
from samerack.agent.web.api import leader_routes
from samerack.cli import requests as commands
from samerack.cli.main import app
from samerack.common.errors import AgentError
from samerack.settings.cures import reach_agent
from tests.commands import commands_in, parsed
from tests.unit.agent.serving import post, served

_WALL = 1_800_057_600.0
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
    moved=2,
    rebalances=2,
)


@dataclass
class Leader:
    """Replaces the leader of a group: out at the second poll after it was asked to leave, and leads in two polls."""

    requests: GroupRequests = field(default_factory=lambda: GroupRequests(wall=lambda: _WALL))
    asked: list[tuple[RequestKind | None, float | None, str, str]] = field(default_factory=list)
    roles: list[str] = field(default_factory=lambda: ["leading", "leading", "observing"])
    lead_again: bool = False
    takeovers: list[bool] = field(default_factory=list)
    outcomes: list[TakeoverOutcome] = field(default_factory=lambda: [TakeoverOutcome.RUNNING, TakeoverOutcome.LEADS])

    @property
    def operators(self) -> Leader:
        """Itself."""
        return self

    @property
    def status(self) -> RequestStatus:
        """What is in force, with the next role."""
        role = self.roles.pop(0) if len(self.roles) > 1 and self.asked else self.roles[0]
        return replace(self.requests.status("orders", role), after="the agent follows")

    def ask(
        self, kind: RequestKind | None, *, seconds: float | None, by: str, why: str, lead_again: bool
    ) -> RequestStatus:
        """Store the request."""
        self.lead_again = lead_again
        self.asked.append((kind, seconds, by, why))
        if kind is None:
            self.requests.end("orders")
        else:
            self.requests.ask("orders", kind, seconds=seconds, by=by, why=why)
        return self.status

    @property
    def takeover(self) -> Progress:
        """The next outcome."""
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        return Progress(group="orders", number=1, outcome=outcome, did=(Did(step="gather", seconds=0.5),), gain=GAIN)

    def take_over(self, *, dry_run: bool) -> Progress:
        """Store the request."""
        self.takeovers.append(dry_run)
        return Progress(
            group="orders", number=1, outcome=TakeoverOutcome.WOULD if dry_run else TakeoverOutcome.ASKED, gain=GAIN
        )


def posted(port: int, body: object, **headers: str) -> tuple[int, Any]:
    """Status and JSON of the answer."""
    return post(port, "/v1/requests", body, **headers)


@pytest.fixture
def leader() -> Leader:
    """A leader of its own for each test."""
    return Leader()


@pytest.fixture
def port(leader: Leader) -> Iterator[int]:
    """The port of an agent with this leader."""
    leaders: dict[str, Any] = {"orders": leader}
    status = Route("/v1/status", lambda _: JSONResponse({"bootstrap": "east:9092,east-2:9092"}))
    with served(status, *leader_routes(leaders)) as port:
        yield port


def run(port: int, *line: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command against that port."""
    result = CliRunner().invoke(app, [*line, "--url", f"http://127.0.0.1:{port}"])
    return result.exit_code, result.stdout, result.stderr


def test_a_program_of_this_machine_may_ask(port: int, leader: Leader) -> None:
    """Each action is taken with its time, user and reason."""
    status, answer = post(
        port, "/v1/requests", {"group": "orders", "action": "leave", "seconds": 1800, "by": "alice", "why": "w"}
    )
    assert (status, answer["role"], answer["requests"][0]["until"]) == (200, "leading", _WALL + 1800)
    assert posted(port, {"group": "orders", "action": "pause"})[0] == 200
    assert posted(port, {"group": "orders", "action": "resume"})[1]["requests"] == []
    assert leader.asked == [
        (RequestKind.LEAVE, 1800.0, "alice", "w"),
        (RequestKind.PAUSE, None, "", ""),
        (None, None, "", ""),
    ]
    assert posted(port, b'{"group": "orders", "action": "pause", "why": "\\u001b[31m\\ud800"}')[0] == 200
    assert leader.asked[-1][3] == "\ufffd[31m?", "control characters and half characters are replaced"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"[" * 4000,
        {"group": "orders"},
        {"group": 3, "action": "leave"},
        {"group": "orders", "action": ["leave"]},
        {"group": "orders", "action": "dance"},
        {"group": "orders", "action": "leave", "more": 1},
        b'{"group": "orders", "action": "leave", "seconds": NaN}',
        b'{"group": "orders", "action": "leave", "seconds": Infinity}',
        *({"group": "orders", "action": "leave", "seconds": one} for one in (0, -1, True, "30m", 1e12, 10**400)),
        {"group": "orders", "action": "leave", "by": None},
        {"group": "orders", "action": "leave", "why": "w" * 201},
        {"group": "orders", "action": "leave", "lead_again": "yes"},
        {"group": "orders", "action": "pause", "lead_again": True},
    ],
)
def test_an_invalid_body_is_refused(port: int, leader: Leader, body: object) -> None:
    """The answer has the expected form."""
    status, answer = posted(port, body)
    assert status == 400
    assert "expected" in answer["error"]
    assert leader.asked == []


def asks(text: str, port: int) -> list[str]:
    """The commands in a text, each of which asks this agent about the group."""
    found = [parsed(line) for line in commands_in(" ".join(text.split()))]
    assert {(given["group"], given["url"]) for _, given in found} == {("orders", f"http://127.0.0.1:{port}")}
    return [name for name, _ in found]


def test_leave_returns_once_the_agent_is_out(port: int, leader: Leader) -> None:
    """The command polls until the agent has left, and says until when it stays out and what comes after."""
    code, output, _ = run(port, "leave", "orders", "--for", "30m", "--why", "moving brokers")
    assert (code, leader.roles) == (0, ["observing"])
    assert "until 2027-01-16 00:30:00 UTC or `samerack resume orders --url http://" in " ".join(output.split())
    assert asks(output, port) == ["resume"]
    assert output.endswith("; then the agent follows\n")
    assert not leader.lead_again
    ((kind, seconds, _, why),) = leader.asked
    assert (kind, seconds, why) == (RequestKind.LEAVE, 1800.0, "moving brokers")


def test_leave_says_so_if_the_agent_stays(port: int, leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 1, with where to look."""
    monkeypatch.setattr(commands, "_OUT_SECONDS", 0.3)
    leader.roles = ["leading"]
    reach_agent(f"http://127.0.0.1:{port}")
    with pytest.raises(AgentError, match=r"still leading orders .* `samerack events orders .*` shows") as caught:
        commands._once_out(f"http://127.0.0.1:{port}", leader.status)
    assert asks(str(caught.value), port) == ["events"]


def test_pause_and_resume_return_at_once(port: int, leader: Leader) -> None:
    """Both print a text, or one JSON object."""
    leader.roles = ["leading"]
    code, output, _ = run(port, "pause", "orders")
    assert code == 0
    assert "it is leading, until `samerack resume" in " ".join(output.split())
    assert asks(output, port) == ["resume"]
    code, output, _ = run(port, "pause", "orders", "--for", "2h", "--json")
    assert (code, json.loads(output)["requests"][0]["until"]) == (0, _WALL + 7200)
    code, output, _ = run(port, "resume", "orders", "--json")
    assert (code, json.loads(output)["requests"], json.loads(output)["reasons"]) == (0, [], [])
    assert "the agent follows" not in run(port, "resume", "orders")[1]
    leader.roles = ["observing"]
    assert run(port, "resume", "orders")[1].endswith("; the agent follows\n")


def test_leave_carries_the_wish_to_lead_again(port: int, leader: Leader) -> None:
    """The agent gets it with the request."""
    assert run(port, "leave", "orders", "--for", "30m", "--lead-again")[0] == 0
    assert leader.lead_again


def test_a_standby_names_the_agent_to_ask(port: int, leader: Leader) -> None:
    """What a standby is asked does not change the group while another agent leads it."""
    leader.roles = ["standby"]
    code, output, _ = run(port, "leave", "orders")
    assert code == 0
    assert "another agent is active, so ask that one" in output


@pytest.mark.parametrize("command", ["leave", "pause", "resume", "lead"])
def test_an_unknown_group_changes_nothing(port: int, leader: Leader, command: str) -> None:
    """As with every command the exit code is 1, because the group may appear; the message has the nearest names."""
    code, _, error = run(port, command, "ordres")
    assert (code, leader.asked) == (1, [])
    assert "the agent does not lead it; closest matches: orders" in error
    with served(*leader_routes({})) as observing:
        assert run(observing, command, "ordres")[2].endswith(
            "the agent does not lead it; it leads none now: start it with a fitting --group, without --observe\n"
        )


@pytest.mark.parametrize(
    ("line", "part"),
    [
        *(
            (("pause", "orders", f"--for={given}"), "expected a duration such as")
            for given in ("soon", "30", "0s", "500d")
        ),
        (("leave", "orders", "--why", "w" * 201), "--why"),
    ],
)
def test_wrong_input_changes_nothing(port: int, leader: Leader, line: tuple[str, ...], part: str) -> None:
    """A wrong time and too long a reason end with 2, and say what is right."""
    code, _, error = run(port, *line)
    assert (code, part in error, leader.asked) == (2, True, [])


@pytest.mark.parametrize("command", ["leave", "pause", "resume"])
def test_where_no_agent_answers_the_cure_is_reported(command: str) -> None:
    """The exit code is 1, and 2 for what is no address; the message says what to give."""
    code, _, error = run(1, command, "orders")
    assert (code, "give --url or web.port, and run this on the agent's machine" in error) == (1, True)
    assert CliRunner().invoke(app, [command, "orders", "--url", "localhost"]).exit_code == 2


# takeovers


def taken(port: int, body: object, **headers: str) -> tuple[int, Any]:
    """Status and JSON of the answer."""
    return post(port, "/v1/takeover", body, **headers)


def test_a_program_of_this_machine_is_handled(port: int, leader: Leader) -> None:
    """A local program may request a takeover or a dry run, by any name of the loopback address."""
    assert taken(port, {"group": "orders"})[0] == 202
    assert taken(port, {"group": "orders", "dry_run": True}, host=f"localhost:{port}")[1]["outcome"] == "would"
    assert taken(port, {"group": "orders"}, host="[::1]:9464")[0] == 202
    assert leader.takeovers == [False, True, False]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"[" * 4000, {"group": 3}, {"group": "orders", "dry_run": "no"}, {"group": "orders", "more": 1}],
)
def test_what_makes_no_sense_is_refused(port: int, leader: Leader, body: object) -> None:
    """An invalid body is refused with the expected form, a long one, and an unknown group with those there are."""
    assert taken(port, {"group": "o" * 5000})[0] == 413
    unknown, answer = taken(port, {"group": "payments"})
    assert (unknown, "orders" in answer["error"]) == (404, True)
    status, answer = taken(port, body)
    assert status == 400
    assert "expected" in answer["error"]
    assert leader.takeovers == []


def test_the_command_follows_it_to_its_end(port: int) -> None:
    """The command reports each finished step once."""
    base, steps = f"http://127.0.0.1:{port}", list[Did]()
    progress = commands.follow(base, commands._asked(base, "orders", dry_run=False), steps.append)
    assert progress.outcome is TakeoverOutcome.LEADS
    assert [did.step for did in steps] == ["gather"]
    with pytest.raises(AgentError, match="404"):
        commands._asked(base, "payments", dry_run=False)
    with pytest.raises(AgentError, match=r"give --url or web\.port"):
        commands._asked("http://127.0.0.1:1", "orders", dry_run=False)


@pytest.mark.usefixtures("leader")
def test_where_the_agent_is_lost_the_command_names_the_next_step(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the command that shows what the agent did, at the same address."""
    base = f"http://127.0.0.1:{port}"
    reach_agent(base)
    under_way = Progress(group="orders", number=1, outcome=TakeoverOutcome.ASKED)
    with pytest.raises(AgentError, match="was replaced during the takeover") as caught:
        commands.follow(base, replace(under_way, number=999), lambda _: None)
    assert asks(str(caught.value), port) == ["events"]
    monkeypatch.setattr(commands, "LOST_SECONDS", 0.0)
    with pytest.raises(AgentError, match="does not answer any more") as caught:
        commands.follow("http://127.0.0.1:1", under_way, lambda _: None)
    assert asks(str(caught.value), port) == ["events"]


def test_a_progress_is_written_and_read_back() -> None:
    """A progress is read back equal, and other JSON is refused."""
    progress = Progress(group="orders", number=2, outcome=TakeoverOutcome.UNDONE, reason="why", gain=GAIN)
    assert from_json(to_json(progress)) == progress
    with pytest.raises(AgentError, match="reports no takeover"):
        from_json("{}")


def test_the_gain_in_words() -> None:
    """The text has the partitions that cross racks, and the members that pause."""
    text = commands.gain_words(GAIN)
    assert "4 partitions (66 %) now, 0 partitions (0 %) under the agent" in text
    assert "3 members pause" in text
    assert "not known yet" in text
    assert text.endswith("\n2 rebalances, and another if an evicted member is late; 2 partitions move")


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({}, "after it began; 2 rebalances, one of them held open for 1.50 s"),
        ({"rebalances": 3, "late": 1, "late_seconds": 6.4}, "; an evicted member was outside for 6.4 s"),
        ({"rebalances": 3, "late": 3, "late_seconds": 6.4}, "; 3 evicted members were outside for 6.4 s"),
        ({"outside": 2}, "; 2 evicted members were not back"),
        ({"late": 2, "late_seconds": 6.4, "outside": 1}, "was outside for 6.4 s; an evicted member was not back"),
    ],
)
def test_the_end_in_words(fields: dict[str, Any], part: str) -> None:
    """The end has the rebalances, the members that were outside, and where to see what moved."""
    progress = Progress(group="orders", outcome=TakeoverOutcome.LEADS, held_seconds=1.5, **{"rebalances": 2, **fields})
    assert commands._end(progress).endswith(
        f"{part}; `samerack events orders --kind rebalance` shows who paused and what moved"
    )


def test_a_dry_run_needs_no_way(port: int, leader: Leader) -> None:
    """There is one way to take over, so that it need not be named."""
    code, output, _ = run(port, "lead", "orders", "--dry-run")
    assert (code, leader.takeovers) == (0, [True])
    assert "the agent can take orders over" in output


@pytest.mark.parametrize(
    "line", [["lead", "orders"], ["leave", "orders"], ["pause", "orders"], ["resume", "orders"], ["events"]]
)
def test_an_agent_of_another_cluster_is_asked_nothing(port: int, leader: Leader, line: list[str]) -> None:
    """Brokers on the command line must be among those of the agent."""
    code, _, error = run(port, *line, "-b", "west:9092")
    assert (code, leader.asked, leader.takeovers) == (1, [], [])
    assert "the agent there observes the cluster at east:9092,east-2:9092, and --bootstrap-servers names none" in error


def test_brokers_of_the_agents_cluster_are_accepted(port: int, leader: Leader) -> None:
    """One of them is enough."""
    assert run(port, "lead", "orders", "--dry-run", "-b", "west:9092,east-2:9092")[0] == 0
    assert leader.takeovers == [True]
