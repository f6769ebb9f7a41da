"""An agent of several clusters: pages, API, metrics and health, each of all clusters and of one."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from samerack.agent.program import Agent
from samerack.agent.web.clusters import OF_THE_PROCESS
from samerack.cli import asking
from samerack.common.errors import AgentError
from samerack.settings.loading import load
from tests.unit.agent.measured import busy, publish
from tests.unit.agent.serving import ask as get
from tests.unit.agent.serving import post

_CLUSTERS = {name: {"kafka": {"bootstrap.servers": f"{name}:9092"}} for name in ("east", "west")}


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    """An agent whose services do not run but its web server; of one of its two clusters something was measured."""
    made = Agent(load(flags={"clusters": _CLUSTERS, "web": {"port": 0}, "events": {"path": "memory"}}, several=True))
    publish(made.clusters["east"].parts.traffic, busy())
    made.web.start()
    yield made
    made.web.stop()


def ask(agent: Agent, path: str) -> tuple[int, str]:
    """Status and body of an answer."""
    return get(agent.web.port, path)


def text_of(page: str) -> str:
    """What a reader sees of a page."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_one_page_has_all_clusters_and_what_is_not_known(agent: Agent) -> None:
    """A cluster without a measurement is unknown, never 0, and the totals say that they are without it."""
    status, page = ask(agent, "/")
    assert status == 200
    shown = text_of(page)
    assert "What crosses racks in 2 clusters" in shown
    assert "Without west, for which this is unknown." in shown
    west = shown[shown.index("west west:9092") :]
    assert re.match(r"west west:9092 no traffic: its thread has ended; .*? - - - - - -", west)
    east = shown[shown.index("east east:9092") : shown.index("west west:9092")]
    assert east.count("at least ") == 2, "not all of its bytes have racks that are known"
    assert shown[: shown.index("east east:9092")].count("at least ") == 2
    assert '<a href="clusters/east/group?name=orders">orders</a>' in page


def test_the_pages_of_a_cluster_are_those_of_an_agent_of_it_alone(agent: Agent) -> None:
    """Their links stay in the cluster, and one leads back."""
    status, page = ask(agent, "/clusters/east/")
    assert status == 200
    assert 'href="../../">All clusters' in page
    links = set(re.findall(r'href="([^"#]+)"', page)) - {"data:,", "../../", "./", "./?refresh=on"}
    assert links
    for link in links:
        assert ask(agent, f"/clusters/east/{link}")[0] == 200, link
    assert ask(agent, "/clusters/east")[0] == 307
    assert ask(agent, "/clusters/nord/")[0] == 404


def test_the_list_of_clusters_has_null_for_what_is_not_known(agent: Agent) -> None:
    """GET /v1/clusters has the same figures as the page."""
    east, west = json.loads(ask(agent, "/v1/clusters")[1])
    assert (east["cluster"], east["bootstrap"], east["groups"] > 0) == ("east", "east:9092", True)
    totals = json.loads(ask(agent, "/clusters/east/v1/traffic")[1])["totals"]
    for name in ("dollars_per_month", "avoidable_dollars_per_month", "guessed_dollars_per_month"):
        assert east[name] == totals[name] is not None
    assert east["unknown_bytes_per_second"] == totals["unknown_bytes"] / 60 > 0
    assert "read where a rack is unknown 250 MB/s" in text_of(ask(agent, "/")[1])
    named = {"cluster", "bootstrap", "trouble"}
    assert {key for key, value in west.items() if value is None} == west.keys() - named
    assert west["trouble"]


def test_metrics_have_the_cluster_as_a_label(agent: Agent) -> None:
    """Each family is there once, and each sample but those of the process names its cluster."""
    text = ask(agent, "/metrics")[1]
    types = re.findall(r"^# TYPE (\S+)", text, flags=re.MULTILINE)
    assert len(types) == len(set(types))
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert {sample.labels["cluster"] for sample in families["samerack_up"].samples} == {"east", "west"}
    for name, family in families.items():
        clusters = {sample.labels.get("cluster") for sample in family.samples}
        assert clusters <= ({None} if name in OF_THE_PROCESS else {"east", "west"}), name
    assert len(families["samerack_memory_bytes"].samples) == 1
    groups = {(one.labels["cluster"], one.labels["group"]) for one in families["samerack_consumed_bytes"].samples}
    assert ("east", "orders") in groups, "its own labels stay"
    alone = ask(agent, "/clusters/east/metrics")[1]
    assert 'cluster="east"' in alone
    assert 'cluster="west"' not in alone


def test_one_that_does_not_work_harms_no_other(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent is ready while one cluster is; when none is, the reasons are listed by cluster."""
    status, body = ask(agent, "/readyz")
    assert status == 503
    assert {"east: watch", "west: watch"} <= json.loads(body)["wrong"].keys()
    east = agent.clusters["east"]
    monkeypatch.setattr(east.health, "unhealthy", dict)
    monkeypatch.setattr(east.parts.watch, "last_poll_at", time.monotonic())
    assert ask(agent, "/readyz") == (200, '{"ok":true,"wrong":{},"notes":{}}')
    assert [row["trouble"] == "" for row in json.loads(ask(agent, "/v1/clusters")[1])] == [True, False]


def test_a_command_learns_which_clusters_there_are(agent: Agent) -> None:
    """A command that names no cluster gets the names, also for a change; one that does gets that cluster's figures."""
    web = {"port": agent.web.port}
    nameless = asking.AgentPlace(settings=load(flags={"web": web}, environment={}, needs_kafka=False))
    with pytest.raises(AgentError, match=r"observes several clusters \(east, west\).*--set cluster=NAME"):
        asking.figures(nameless, window=1, measure=False)
    named = asking.AgentPlace(settings=load(flags={"web": web, "cluster": "east"}, environment={}, needs_kafka=False))
    report, origin = asking.figures(named, window=1, measure=False)
    assert report.bootstrap == "east:9092"
    assert origin.endswith(f"http://127.0.0.1:{agent.web.port}/clusters/east")
    status, refused = post(agent.web.port, "/v1/takeover", {"group": "orders"})
    assert (status, "observes several clusters (east, west)" in refused["error"]) == (404, True)


def test_an_agent_of_one_of_several_clusters_answers_commands_of_the_same_settings() -> None:
    """They ask below the cluster's path; its page stays at `/`, as that of an agent of one cluster."""
    flags = {"clusters": _CLUSTERS, "cluster": "east", "events": {"path": "memory"}}
    one = Agent(load(flags={**flags, "web": {"port": 0}}, environment={}, several=True))
    publish(one.clusters[""].parts.traffic, busy())
    one.web.start()
    try:
        where = asking.AgentPlace(settings=load(flags={**flags, "web": {"port": one.web.port}}, environment={}))
        report, origin = asking.figures(where, window=1, measure=False)
        assert (report.bootstrap, origin) == ("east:9092", f"measured by the agent at {where.url}")
        assert ask(one, "/")[0] == ask(one, "/v1/traffic")[0] == 200
        page = ask(one, "/clusters/east/")[1]
        assert "All clusters" not in page, "there is no such page"
        assert ask(one, "/clusters/east/metrics")[0] == 200, "its page has a link to them"
    finally:
        one.web.stop()
