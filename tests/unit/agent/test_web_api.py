"""The agent's answers in JSON, and the requests that it refuses."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

import pytest

from samerack.agent.group_status import GroupStatus
from samerack.agent.web import api as web_api
from samerack.agent.web import page as web_page
from samerack.cli import asking
from samerack.cluster.broker_configs import LINE
from samerack.cluster.racks import MemberRack
from samerack.common.errors import AgentError
from samerack.common.fetching import address as where_it_answers
from samerack.reporting import group_lag, report
from samerack.reporting.evidence import findings_from_json
from samerack.reporting.report_service import host_racks, host_racks_from_json, host_racks_to_json
from tests.unit.agent.measured import busy, busy_events, busy_history, reports
from tests.unit.agent.serving import ask, served

NAMED_BADLY = "reports <b>&amp;</b>"
STATUSES = (
    GroupStatus(
        group="orders",
        role="leading",
        mode="act",
        waits="breaker-open",
        waits_until=1_800_003_600.0,
        breaker_open=True,
        breaker_cause="it brought 1.0 points of cross-rack share where 9.0 were predicted",
        load_above_least=0.043,
        fullest_member=0.91,
    ),
    GroupStatus(group=NAMED_BADLY, role="leading", mode="propose", waits="proposed", breaker_open=False),
)
SHOWN = reports(busy(), roles={"orders": "leading"}, events=busy_events(), history=busy_history())


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of an agent that shows a busy cluster."""
    shown = web_api.routes(SHOWN, statuses=lambda: STATUSES), web_page.routes(SHOWN, statuses=lambda: STATUSES)
    with served(*shown[0], *shown[1]) as port:
        yield port


def read(port: int, path: str) -> Any:
    """The JSON of an answer."""
    return json.loads(ask(port, path)[1])


def test_traffic_and_findings_are_what_the_command_line_reads(port: int) -> None:
    """Both answers are decoded to the values that are shown."""
    assert report.from_json(ask(port, "/v1/traffic")[1]) == SHOWN.report()
    assert findings_from_json(ask(port, "/v1/findings")[1]) == SHOWN.verdict()


def test_events_are_reported_newest_first(port: int) -> None:
    """All events, the newest ones, or one group's are returned, the newest first."""
    events = read(port, "/v1/events")["events"]
    assert [event["kind"] for event in events] == ["plan", "decision", "decision"]
    assert len(read(port, "/v1/events?most=1")["events"]) == 1
    assert read(port, "/v1/events?group=payments") == {"events": []}


def test_racks_of_hosts_are_reported_as_far_as_only_the_agent_knows_them(port: int) -> None:
    """Racks are from other agents and the Kubernetes API; those of members and settings are known without it."""
    members = (
        ("10.0.0.0", MemberRack(rack="a", source="agent", fetches_with_rack=True)),
        ("10.0.0.1", MemberRack(rack="b", source="kubernetes", fetches_with_rack=True)),
        ("10.0.0.2", MemberRack(rack="c", source="subscription", fetches_with_rack=True)),
        ("10.0.0.3", MemberRack(rack=None, source="none", fetches_with_rack=False)),
        ("10.0.0.4", MemberRack(rack=None, source="agent", fetches_with_rack=False, foreign="cellar")),
    )
    hosts = host_racks_from_json(host_racks_to_json(host_racks("h:1", members)))
    assert (hosts.bootstrap, hosts.agents, hosts.kubernetes) == (
        "h:1",
        {"10.0.0.0": "a", "10.0.0.4": "cellar"},  # whether a broker has it the reader decides
        {"10.0.0.1": "b"},
    )
    assert (hosts.hosts().agents("10.0.0.0"), hosts.hosts().kubernetes("10.0.0.0")) == ("a", None)
    assert host_racks_from_json(ask(port, "/v1/racks?group=orders")[1]).bootstrap == SHOWN.bootstrap
    assert host_racks_from_json(ask(port, "/v1/racks?group=nobody")[1]).agents == {}
    with pytest.raises(AgentError, match="has no racks"):
        host_racks_from_json(b"{}")


def test_the_lag_of_a_group_is_what_the_command_line_reads(port: int) -> None:
    """Its members and partitions are decoded to the values that are shown; a group that is not seen is refused."""
    lag = group_lag.from_json(ask(port, f"/v1/lag?group={quote(NAMED_BADLY)}")[1])
    assert (lag.group, lag.bootstrap, len(lag.members), len(lag.partitions)) == (NAMED_BADLY, SHOWN.bootstrap, 3, 6)
    assert (lag.lag_records, lag.lag_seconds) == (120, 12.5)
    assert ask(port, "/v1/lag?group=nobody")[0] == ask(port, "/v1/lag")[0] == 404
    assert asking.ask(f"http://127.0.0.1:{port}", "/v1/lag?group=nobody", may_be_missing=True) == b""


def test_the_history_of_a_group_is_reported_with_its_gaps(port: int) -> None:
    """Points follow each other without a break from the first known one on; what is not known is null."""
    history = read(port, "/v1/history?group=orders")
    points = history["points"]
    assert (history["group"], history["step_seconds"], len(points)) == ("orders", 300.0, 241)
    assert [point["at"] for point in points] == [1_800_000_000.0 - ago * 300 for ago in range(240, -1, -1)]
    assert [point["bytes_per_second"] is None for point in points] == [60 < ago <= 72 for ago in range(240, -1, -1)]
    assert points[-1]["cross_rack_share"] == pytest.approx(0.0165)
    assert history["marks"] == [{"at": 1_800_000_002.0, "kind": "plan"}]
    without = read(port, f"/v1/history?group={quote(NAMED_BADLY)}")["points"]
    assert {point["cross_rack_share"] for point in without} == {None}
    unknown = read(port, "/v1/history?group=billing-kip848")["points"]
    assert [point["bytes_per_second"] for point in unknown] == [None] * 12
    assert ask(port, "/v1/history?group=nobody")[0] == ask(port, "/v1/history")[0] == 404


def test_each_page_has_cluster_version_and_last_poll(port: int) -> None:
    """The header of each page says what it shows, by which version, and as of when."""
    for path in ("/", "/group?name=orders"):
        header = ask(port, path)[1].partition("<header>")[2].partition("</header>")[0]
        assert (
            f"cluster kafka.example:9092; samerack {version('samerack')}; last poll 2027-01-15 08:01:00 UTC" in header
        )


def test_the_page_of_a_group_says_what_brokers_assign_and_what_is_unknown(port: int) -> None:
    """A group that brokers assign has its next step, others have nothing of it; a group without racks has no 0 %."""
    pages = {name: ask(port, f"/group?name={quote(name)}")[1] for name in ("billing-kip848", "orders", NAMED_BADLY)}
    assert [("The brokers assign it" in page, LINE in page) for page in pages.values()] == [
        (True, True),
        (False, False),
        (False, False),
    ]
    bare = pages[NAMED_BADLY].replace("100 %", "")
    assert "0 %" not in bare
    assert "as near as it can be" not in bare
    assert "</b> read; what crosses racks is not known</p>" in bare
    assert "racks.client_ids" in bare


def test_the_policy_shows_mode_and_what_is_waited_for(port: int) -> None:
    """The policy of each led group is in the JSON, and as text with the time on its page and the first page."""
    groups = read(port, "/v1/policy")["groups"]
    assert [(one["mode"], one["waits"], one["waits_until"]) for one in groups] == [
        ("act", "breaker-open", 1_800_003_600.0),
        ("propose", "proposed", None),
    ]
    page = ask(port, "/group?name=orders")[1]
    assert "No rebalance is triggered" in page
    assert "until 2027-01-15 09:00:00 UTC" in page
    assert "where 9.0 were predicted" in page
    assert "In mode <code>propose</code>" not in page
    assert "In mode <code>propose</code>" in ask(port, f"/group?name={quote(NAMED_BADLY)}")[1]
    first = ask(port, "/")[1]
    assert "<small>breaker-open</small>" in first
    assert [one["load_above_least"] for one in groups] == [0.043, None]
    assert "<dt>most loaded member, above the least possible</dt><dd>4.3 %</dd>" in page
    assert [one["fullest_member"] for one in groups] == [0.91, None]
    assert "<dt>fullest member, planned by lag</dt><dd>91 % of what it can read</dd>" in page
    assert "<small>proposes only</small>" in first


@pytest.mark.parametrize("most", ["0", "-1", "10001", "x", "1e3", "\u0663", "9" * 40])
def test_a_wrong_number_of_events_is_refused(port: int, most: str) -> None:
    """A wrong number gets status 400 with the reason."""
    status, body = ask(port, f"/v1/events?most={quote(most)}")
    assert status == 400
    assert "is not a number from 1 to 10000" in json.loads(body)["error"]


@pytest.mark.parametrize("path", ["/", "/v1/traffic", "/v1/findings", "/v1/events"])
def test_what_is_shown_takes_no_posts(port: int, path: str) -> None:
    """Pages and reports accept no POST."""
    assert ask(port, path, "POST")[0] == 405


def test_somebody_else_is_named_and_nobody_is_no_answer(port: int) -> None:
    """A server that is no agent of this version is named with its status; at a closed port the command measures."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert asking.ask(f"http://127.0.0.1:{taken.getsockname()[1]}", "/v1/traffic") is None
    with pytest.raises(AgentError, match=r"/v1/nothing: answers 404; is it an agent of this version\?"):
        asking.ask(f"http://127.0.0.1:{port}", "/v1/nothing")


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "http://127.0.0.1:1"), ("0.0.0.0", "http://127.0.0.1:1"), ("::", "http://[::1]:1")],  # noqa: S104 - settings of an agent
)
def test_where_an_agent_answers(host: str, address: str) -> None:
    """An agent that listens everywhere is asked on loopback."""
    assert where_it_answers(host, 1) == address
