"""The agent's answers in JSON, and the requests that it refuses."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from samerack.agent.group_status import GroupStatus
from samerack.agent.metrics import Metrics
from samerack.agent.web import api as web_api
from samerack.agent.web import page as web_page
from samerack.agent.web.server import WebServer, application
from samerack.cli import asking
from samerack.cluster.racks import MemberRack
from samerack.common.errors import AgentError
from samerack.common.fetching import address as where_it_answers
from samerack.common.settings import WebSettings
from samerack.reporting import findings, group_lag, host_racks, report
from tests.unit.agent.measured import busy, busy_events, busy_history, reports
from tests.unit.waiting import LONGEST_SECONDS

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
    ),
    GroupStatus(group=NAMED_BADLY, role="leading", mode="propose", waits="proposed", breaker_open=False),
)
SHOWN = reports(busy(), roles={"orders": "leading"}, events=busy_events(), history=busy_history())


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a server."""
    more = (
        *web_api.routes(SHOWN, statuses=lambda: STATUSES),
        *web_page.routes(SHOWN, statuses=lambda: STATUSES),
    )
    server = WebServer(application(Metrics(), healthy=dict, ready=dict, more=more), host="127.0.0.1", port=0)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


def ask(url: str, method: str = "GET") -> tuple[int, Any]:
    """Status and body of the answer."""
    try:
        with urlopen(Request(url, method=method), timeout=LONGEST_SECONDS) as answer:  # noqa: S310 - a loopback address of our own
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def test_traffic_and_findings_are_what_the_command_line_reads(url: str) -> None:
    """Both answers are decoded to the values that are shown."""
    assert report.from_json(ask(f"{url}/v1/traffic")[1]) == SHOWN.report()
    assert findings.from_json(ask(f"{url}/v1/findings")[1]) == SHOWN.verdict()


def test_events_are_told_newest_first(url: str) -> None:
    """All events, the newest ones, or one group's are returned, the newest first."""
    told = json.loads(ask(f"{url}/v1/events")[1])["events"]
    assert [event["kind"] for event in told] == ["plan", "decision", "decision"]
    assert len(json.loads(ask(f"{url}/v1/events?most=1")[1])["events"]) == 1
    assert json.loads(ask(f"{url}/v1/events?group=payments")[1]) == {"events": []}


def test_racks_of_hosts_are_told_as_far_as_only_the_agent_knows_them(url: str) -> None:
    """Racks are from other agents and the Kubernetes API; those of members and settings are known without it."""
    members = (
        ("10.0.0.0", MemberRack(rack="a", source="agent", fetches_with_rack=True)),
        ("10.0.0.1", MemberRack(rack="b", source="kubernetes", fetches_with_rack=True)),
        ("10.0.0.2", MemberRack(rack="c", source="subscription", fetches_with_rack=True)),
        ("10.0.0.3", MemberRack(rack=None, source="none", fetches_with_rack=False)),
    )
    told = host_racks.from_json(host_racks.to_json(host_racks.host_racks("h:1", members)))
    assert (told.bootstrap, told.agents, told.kubernetes) == ("h:1", {"10.0.0.0": "a"}, {"10.0.0.1": "b"})
    assert (told.hosts().agents("10.0.0.0"), told.hosts().kubernetes("10.0.0.0")) == ("a", None)
    assert host_racks.from_json(ask(f"{url}/v1/racks?group=orders")[1]).bootstrap == SHOWN.bootstrap
    assert host_racks.from_json(ask(f"{url}/v1/racks?group=nobody")[1]).agents == {}
    with pytest.raises(AgentError, match="has no racks"):
        host_racks.from_json(b"{}")


def test_the_lag_of_a_group_is_what_the_command_line_reads(url: str) -> None:
    """Its members and partitions are decoded to the values that are shown; a group that is not seen is refused."""
    told = group_lag.from_json(ask(f"{url}/v1/lag?group={quote(NAMED_BADLY)}")[1])
    assert (told.group, told.bootstrap, len(told.members), len(told.partitions)) == (NAMED_BADLY, SHOWN.bootstrap, 3, 6)
    assert (told.lag_records, told.lag_seconds) == (120, 12.5)
    assert ask(f"{url}/v1/lag?group=nobody")[0] == ask(f"{url}/v1/lag")[0] == 404
    assert asking.ask(url, "/v1/lag?group=nobody", unseen=b"none") == b"none"


def test_the_history_of_a_group_is_told_with_its_gaps(url: str) -> None:
    """Points follow each other without a break from the first known one on; what is not known is null."""
    told = json.loads(ask(f"{url}/v1/history?group=orders")[1])
    points = told["points"]
    assert (told["group"], told["step_seconds"], len(points)) == ("orders", 300.0, 241)
    assert [point["at"] for point in points] == [1_800_000_000.0 - ago * 300 for ago in range(240, -1, -1)]
    assert [point["bytes_per_second"] is None for point in points] == [60 < ago <= 72 for ago in range(240, -1, -1)]
    assert points[-1]["cross_rack_share"] == pytest.approx(0.0165)
    assert told["marks"] == [{"at": 1_800_000_002.0, "kind": "plan"}]
    without = json.loads(ask(f"{url}/v1/history?group={quote(NAMED_BADLY)}")[1])["points"]
    assert {point["cross_rack_share"] for point in without} == {None}
    unknown = json.loads(ask(f"{url}/v1/history?group=billing-kip848")[1])["points"]
    assert [point["bytes_per_second"] for point in unknown] == [None] * 12
    assert ask(f"{url}/v1/history?group=nobody")[0] == ask(f"{url}/v1/history")[0] == 404


def test_each_page_has_cluster_version_and_last_look(url: str) -> None:
    """The header of each page says what it shows, by which version, and as of when."""
    for path in ("", "/group?name=orders"):
        header = ask(f"{url}{path}")[1].decode().partition("<header>")[2].partition("</header>")[0]
        assert (
            f"cluster kafka.example:9092; samerack {version('samerack')}; last look 2027-01-15 08:01:00 UTC" in header
        )


def test_the_policy_tells_mode_and_what_is_waited_for(url: str) -> None:
    """The policy of each led group is in the JSON, and as text with the time on its page and the first page."""
    told = json.loads(ask(f"{url}/v1/policy")[1])["groups"]
    assert [(one["mode"], one["waits"], one["waits_until"]) for one in told] == [
        ("act", "breaker-open", 1_800_003_600.0),
        ("propose", "proposed", None),
    ]
    page = ask(f"{url}/group?name=orders")[1].decode()
    assert "No rebalance is triggered" in page
    assert "until 2027-01-15 09:00:00 UTC" in page
    assert "where 9.0 were predicted" in page
    assert "In mode <code>propose</code>" not in page
    assert "In mode <code>propose</code>" in ask(f"{url}/group?name={quote(NAMED_BADLY)}")[1].decode()
    first = ask(url)[1].decode()
    assert "<small>breaker-open</small>" in first
    assert "<small>proposes only</small>" in first


@pytest.mark.parametrize("most", ["0", "-1", "10001", "x", "1e3", "\u0663", "9" * 40])
def test_a_wrong_number_of_events_is_refused(url: str, most: str) -> None:
    """A wrong number gets status 400 with the reason."""
    status, body = ask(f"{url}/v1/events?most={quote(most)}")
    assert status == 400
    assert "is no number from 1 to 10000" in json.loads(body)["error"]


@pytest.mark.parametrize("path", ["/", "/v1/traffic", "/v1/findings", "/v1/events"])
def test_what_is_shown_takes_no_posts(url: str, path: str) -> None:
    """Pages and reports accept no POST."""
    assert ask(url + path, "POST")[0] == 405


def test_nobody_there_is_no_answer() -> None:
    """A closed port is no error: the command then measures by itself."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert asking.ask(f"http://127.0.0.1:{port}", "/v1/traffic") is None


def test_somebody_else_is_told(url: str) -> None:
    """A server that is no agent of this version is named with its status."""
    with pytest.raises(AgentError, match=r"/v1/nothing: answers 404; is it an agent of this version\?"):
        asking.ask(url, "/v1/nothing")


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "http://127.0.0.1:1"), ("0.0.0.0", "http://127.0.0.1:1"), ("::", "http://[::1]:1")],  # noqa: S104 - settings of an agent
)
def test_where_an_agent_answers(host: str, address: str) -> None:
    """An agent that listens everywhere is asked on loopback."""
    assert where_it_answers(WebSettings(host=host, port=1)) == address
