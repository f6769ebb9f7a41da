"""Tests of the chart's objects for Prometheus and Grafana: the repository's own rules and dashboard, complete."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.helm.chart import CHART, ROOT, one, scenario

pytestmark = pytest.mark.helm

_MONITORING = ROOT / "monitoring"


def test_the_rules_are_those_of_the_repository() -> None:
    """Every alert is rendered as written; Prometheus' own templates in it are unchanged."""
    groups = one(scenario("sidecar-scraped"), "PrometheusRule")["spec"]["groups"]
    assert groups == yaml.safe_load((_MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]


def test_alerts_can_be_left_out() -> None:
    """Only the alerts that the values name are missing."""
    named = {
        rule["alert"]
        for group in one(scenario("all-on"), "PrometheusRule")["spec"]["groups"]
        for rule in group["rules"]
    }
    every = yaml.safe_load((_MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    assert {rule["alert"] for rule in every} - named == {"SamerackCrossRackCost"}


def test_the_dashboard_is_that_of_the_repository() -> None:
    """The ConfigMap contains the dashboard unchanged, with the label that Grafana's chart looks for."""
    found = one(scenario("all-on"), "ConfigMap", "monitoring")
    assert json.loads(found["data"]["samerack.json"]) == json.loads((_MONITORING / "dashboard.json").read_text("utf-8"))
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_the_monitor_scrapes_the_leader_under_the_name_of_the_alerts() -> None:
    """The monitor selects the pod by labels and the port by name; the job is the one that the alerts query."""
    monitor = one(scenario("all-on"), "PodMonitor")
    deployment = one(scenario("all-on"), "Deployment", "leader")
    assert monitor["spec"]["selector"] == deployment["spec"]["selector"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert endpoint["port"] in {port["name"] for port in container["ports"]}
    assert {"targetLabel": "job", "replacement": "samerack"} in endpoint["relabelings"]
    assert 'up{job="samerack"}' in (_MONITORING / "alerts.yaml").read_text(encoding="utf-8")


def test_there_is_one_copy() -> None:
    """The repository's files are links to the chart's: with links in the chart, Helm would warn at every command."""
    for name in ("alerts.yaml", "dashboard.json"):
        assert (_MONITORING / name).resolve() == CHART / "files" / name


def test_the_service_monitor_scrapes_the_leader_by_its_service() -> None:
    """The monitor selects the Service by labels and the port by name; the job is the one that the alerts query."""
    monitor = one(scenario("service-monitor"), "ServiceMonitor")
    service = one(scenario("service-monitor"), "Service")
    chosen = monitor["spec"]["selector"]["matchLabels"]
    assert chosen.items() <= service["metadata"]["labels"].items()
    assert chosen == service["spec"]["selector"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert {"targetLabel": "job", "replacement": "samerack"} in endpoint["relabelings"]
    assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("15s", "10s")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.parametrize(("name", "kind"), [("all-on", "PodMonitor"), ("service-monitor", "ServiceMonitor")])
def test_a_monitor_has_relabelings_of_both_kinds(name: str, kind: str) -> None:
    """Target relabelings follow the chart's own, metric relabelings stand alone; without values neither is rendered."""
    spec = one(scenario(name), kind)["spec"]
    (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
    assert endpoint["relabelings"][1:] == [{"targetLabel": "cluster", "replacement": "a"}]
    assert endpoint["metricRelabelings"] == [
        {"action": "drop", "sourceLabels": ["__name__"], "regex": "samerack_.*_bucket"}
    ]
    (plain,) = one(scenario("sidecar-scraped"), "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert plain.keys() == {"port", "path", "interval", "relabelings"}
