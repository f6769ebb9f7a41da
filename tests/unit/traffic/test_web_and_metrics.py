"""The endpoint for statistics, the scrape of Java clients, and the metrics, with real input and output."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from samerack.agent.web import api as web_api
from samerack.traffic.board import TrafficBoard
from samerack.traffic.gaps import failed, refused
from samerack.traffic.metrics import OTHER, SeriesLimits, TrafficCollector, TrafficMetrics
from samerack.traffic.snapshot import (
    Family,
    Flow,
    FlowKey,
    GroupTraffic,
    LowerBound,
    Number,
    ObservedMember,
    Shares,
    TrafficSnapshot,
    Volume,
)
from samerack.traffic.statistics import (
    MAX_BYTES,
    MeasuredElsewhereError,
    StatisticsError,
    parse,
    pick,
    received_by_client,
    scrape,
)
from tests.unit.agent.serving import ask, served
from tests.unit.traffic.test_exact import member
from tests.unit.traffic.test_statistics import body

JAVA = """\
# TYPE kafka_consumer_consumer_node_metrics_incoming_byte_total counter
kafka_consumer_consumer_node_metrics_incoming_byte_total{client_id="c1",node_id="node-1"} 1000.0
kafka_consumer_consumer_node_metrics_incoming_byte_total{client_id="c1",node_id="node-2147483646"} 5.0
kafka_consumer_consumer_node_metrics_incoming_byte_total{client_id="c1",node_id="node--1"} 5.0
kafka_consumer_consumer_node_metrics_incoming_byte_total{client_id="c2",node_id="node-3"} 7.0
kafka_consumer_fetch_manager_metrics_bytes_consumed_total{client_id="c1",topic="t"} 99.0
"""


@pytest.fixture
def port() -> Iterator[tuple[int, list[tuple[str, str | None]]]]:
    """The port of an agent with the route, and the statistics that it accepted."""
    taken: list[tuple[str, str | None]] = []

    def take(group: str, content: bytes, member_id: str | None) -> ObservedMember:
        parse(content)
        if group == "payments":
            raise MeasuredElsewhereError("this agent does not measure it")
        taken.append((group, member_id))
        return member("m1", "c", 0)

    with served(*web_api.statistics_routes(take)) as number:
        yield number, taken


def post(port: int, path: str, content: bytes, **headers: str) -> tuple[int, str]:
    """Status and text of the answer; `headers` are sent in addition to that of JSON."""
    return ask(port, path, "POST", content, **{"Content-Type": "application/json", **headers})


def test_statistics_are_taken_or_refused(port: tuple[int, list[tuple[str, str | None]]]) -> None:
    """A valid post names its member; an invalid one gets the reason and is ignored."""
    number, taken = port
    assert post(number, "/v1/statistics?group=orders&member=m1", body()) == (200, '{"member":"m1","rack":"a"}')
    assert taken == [("orders", "m1")]
    for path, content, expected, reason in (
        ("/v1/statistics", body(), 400, "missing group"),
        ("/v1/statistics?group=g", b"{}", 400, "type"),
        ("/v1/statistics?group=payments", body(), 409, "does not measure"),
        ("/v1/statistics?group=g", b" " * (MAX_BYTES + 1), 413, "more than"),
        ("/v1/statistics?group=g", body(topics={"\ud800" * 9_000: {}}), 400, "topics"),
    ):
        status, text = post(number, path, content)
        assert status == expected
        assert reason in json.loads(text)["error"]
        assert len(text) < 1_000
    assert len(taken) == 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "attacker.example"}, 403),
        ({"Origin": "http://localhost:8000"}, 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "text/plain; charset=utf-8"}, 415),
        ({"Content-Type": ""}, 415),
    ],
)
def test_statistics_of_pages_are_refused(
    port: tuple[int, list[tuple[str, str | None]]], headers: dict[str, str], status: int
) -> None:
    """Statistics of web pages and forms are refused: a page could otherwise change the bytes and dollars shown."""
    number, taken = port
    assert post(number, "/v1/statistics?group=orders", body(), **headers)[0] == status
    assert taken == []


def test_javas_bytes_are_read_by_node() -> None:
    """Bytes are counted by node without coordinator and bootstrap connections; payload bytes are never read."""
    assert received_by_client(JAVA) == {"c1": {1: 1000}, "c2": {3: 7}}
    assert pick({"c1": 0, "c2": 0}, "c2") == "c2"
    assert pick({"c1": 0, "c2": 0}, "") is None
    assert pick({"c1": 0}, "") == "c1"
    with pytest.raises(StatisticsError, match="incoming-byte-total"):
        received_by_client("up 1\n")


@pytest.mark.parametrize(
    "name",
    [
        "kafka_consumer_consumer_node_metrics_incoming_byte_total",
        "kafka_consumer_consumer_node_metrics_incoming_byte",
        "kafka_consumer_node_incoming_byte_total",
        "kafka_consumer_node_metrics_incoming_byte_total_total",
    ],
)
def test_every_exporters_name_is_known(name: str) -> None:
    """Exporters keep, drop or double the suffix; rates of the same family are not read."""
    page = "".join(
        f'{one}{{client_id="c",node_id="node-2"}} {value}\n'
        for one, value in ((name, 9.0), ("kafka_consumer_node_metrics_incoming_byte_rate", 5.0))
    )
    assert received_by_client(page) == {"c": {2: 9}}


@pytest.mark.parametrize("status", [200, 302, 404])
def test_pages_are_scraped_directly(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is scraped without a proxy and without redirects: clients are near, and no other server is asked."""
    asked: list[str] = []

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(JAVA.encode())

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/metrics?all=1"
        if status == 200:
            assert scrape(url) == JAVA
        else:
            with pytest.raises(StatisticsError, match=f"answers {status}"):
                scrape(url)
        thread.join()
    assert asked == ["/metrics?all=1"]
    with pytest.raises(StatisticsError, match="127"):
        scrape(url)
    with pytest.raises(StatisticsError, match="only http"):
        scrape("file:///etc/hosts")


def _least(value: Number | None, unknown: int = 0) -> LowerBound[Number]:
    return LowerBound(value=value, unknown=unknown)


def snapshot() -> TrafficSnapshot:
    """One group, and one refused request."""
    group = GroupTraffic(
        group="orders",
        kind="classic",
        state="Stable",
        shares=Shares(present_bytes=0.5, optimal=0.25, random=2 / 3),
        lag={"t": _least(3), "u": _least(4), "v": _least(5), "w": _least(11_000_000, 1), "x": _least(None, 3)},
        lag_seconds={"t": _least(30.0), "u": _least(4.5), "v": _least(60.0), "w": _least(1.0, 2), "x": _least(None, 4)},
    )
    return TrafficSnapshot(groups=(group,), cycle=1, gaps=tuple(refused(Family.LOG_DIRS, "broker 1", 31)))


def flow(topic: str, wire_bytes: int) -> Flow:
    """A flow of group orders."""
    key = FlowKey(group="orders", topic=topic, client_rack="a", replica_rack="b", method="estimated")
    return Flow(key=key, volume=Volume(wire_bytes=wire_bytes, records=1))


def _by_topic(name: str, max_topics: int) -> dict[str, float]:
    """The series of a metric by topic, with this bound."""
    registry, board = CollectorRegistry(), TrafficBoard()
    limits = SeriesLimits(flows=1, topics=max_topics, groups=1, pairs=1)
    registry.register(TrafficCollector(board, limits=limits))
    board.publish(snapshot(), [])
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {one.labels["topic"]: one.value for family in families for one in family.samples if one.name == name}


@pytest.mark.parametrize(
    ("name", "most", "found"),
    [
        ("lag_records", 10, {"t": 3, "u": 4, "v": 5, "w": 11_000_000}),
        ("lag_unknown_partitions", 10, {"t": 0, "u": 0, "v": 0, "w": 1, "x": 3}),
        ("lag_records", 2, {"w": 11_000_000, "(other)": 12}),
        ("lag_unknown_partitions", 2, {"w": 1, "x": 3, "(other)": 0}),
        ("lag_seconds", 10, {"t": 30.0, "u": 4.5, "v": 60.0, "w": 1.0}),
        ("lag_seconds_unknown_partitions", 10, {"t": 0, "u": 0, "v": 0, "w": 2, "x": 4}),
        ("lag_seconds", 3, {"v": 60.0, "w": 1.0, "(other)": 30.0}),
        ("lag_seconds", 0, {"(other)": 60.0}),
        ("lag_seconds_unknown_partitions", 0, {"(other)": 6}),
    ],
)
def test_lag_has_what_is_known_and_beside_it_what_is_not(name: str, most: int, found: dict[str, float]) -> None:
    """A partition that is not known hides no other; topics beyond the bound have their sum, or largest age."""
    assert _by_topic(f"samerack_{name}", most) == found


def test_a_group_that_comes_first_by_name_takes_no_place_of_another() -> None:
    """A topic of a group keeps its series of lag until it goes, whichever groups come."""
    board = TrafficBoard()
    collector = TrafficCollector(board, limits=SeriesLimits(flows=1, topics=1, groups=1, pairs=1))
    orders, audit = (
        GroupTraffic(
            group=name, kind="classic", state="Stable", lag={"t": _least(lag)}, lag_seconds={"t": _least(lag / 2)}
        )
        for name, lag in (("orders", 8), ("audit", 80))
    )
    for groups, shown in (
        ((orders,), {("orders", 8.0, 4.0)}),
        ((audit, orders), {("orders", 8.0, 4.0), (OTHER, 80.0, 40.0)}),
        ((audit,), {("audit", 80.0, 40.0)}),
    ):
        board.publish(TrafficSnapshot(groups=groups, cycle=1), [])
        found = {family.name: family.samples for family in collector.collect()}
        records, ages = found["samerack_lag_records"], found["samerack_lag_seconds"]
        assert {(one.labels["group"], one.value, age.value) for one, age in zip(records, ages, strict=True)} == shown


def test_metrics_show_one_publication() -> None:
    """Counters have all labels and only grow, shares are separate metrics, and gaps are counted by family."""
    registry, board = CollectorRegistry(auto_describe=True), TrafficBoard()
    metrics = TrafficMetrics(registry)
    limits = SeriesLimits(flows=1, topics=9, groups=1, pairs=1)
    registry.register(TrafficCollector(board, limits=limits))
    metrics.polled(0.1)
    metrics.failed(Family.LOG_DIRS)
    metrics.failed(None)
    board.publish(snapshot(), [flow("t", 10)])
    board.publish(snapshot(), [flow("t", 5), flow("u", 7), flow("v", 1)])
    text = generate_latest(registry).decode()
    samples = {
        (one.name, *sorted(one.labels.values())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    labels = ("a", "b", "estimated", "orders")
    assert samples["samerack_consumed_bytes_total", *labels, "t"] == 15
    assert samples["samerack_consumed_bytes_total", OTHER, OTHER, "a", "b", "estimated"] == 8
    assert samples["samerack_cross_rack_ratio", "orders"] == 0.5
    assert samples["samerack_optimal_ratio", "orders"] == 0.25
    assert samples["samerack_random_ratio", "orders"] == 2 / 3
    assert samples["samerack_missing_permissions", "log-dirs"] == 1
    assert samples["samerack_missing_permissions", "probe"] == 0
    assert samples["samerack_traffic_errors_total", "internal"] == 1
    assert samples["samerack_traffic_cycle_seconds_count",] == 1


def test_the_board_reads_without_waiting() -> None:
    """Before the first publication the snapshot is empty; listeners get each publication, and the end of them."""
    board, heard = TrafficBoard(), list[tuple[int, float]]()
    board.listen(lambda published: heard.append((published.snapshot.cycle, published.snapshot.window_end)))
    assert board.latest().cycle == 0
    assert board.group("orders") is None
    board.publish(snapshot(), [])
    assert board.group("orders") is not None
    end = board.latest().window_end
    board.clear()
    assert board.group("orders") is None
    assert board.latest().window_seconds == 0.0
    assert heard == [(1, end), (0, end)]


def test_what_passes_by_itself_is_no_gap() -> None:
    """A moved leader is no gap, since the next cycle asks again; a refusal and a failure are reported once each."""
    assert refused(Family.END_OFFSETS, "t", 6) == []
    assert refused(Family.END_OFFSETS, "t", 0) == []
    (gap,) = {*refused(Family.PROBE, "t", 29), *refused(Family.PROBE, "t", 29)}
    assert gap.refused
    assert "READ" in gap.consequence
    assert not failed(Family.PROBE, "t", TimeoutError("late")).refused
