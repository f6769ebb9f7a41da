"""Tests of the chart's objects for Prometheus and Grafana: the repository's own rules and dashboard, complete."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.helm.chart import CHART, NAMESPACE, one, scenario

pytestmark = pytest.mark.helm

_FILES = CHART / "files"


def test_the_rules_are_those_of_the_repository() -> None:
    """Every alert is rendered as written; Prometheus' own templates in it are unchanged."""
    groups = one(scenario("sidecar-scraped"), "PrometheusRule")["spec"]["groups"]
    assert groups == yaml.safe_load((_FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]


def test_alerts_can_be_left_out() -> None:
    """Only the alerts that the values name are missing."""
    named = {
        rule["alert"]
        for group in one(scenario("all-on"), "PrometheusRule")["spec"]["groups"]
        for rule in group["rules"]
    }
    every = yaml.safe_load((_FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"][0]["rules"]
    assert {rule["alert"] for rule in every} - named == {"SamerackCrossRackCost"}


def test_the_dashboard_is_that_of_the_repository() -> None:
    """The ConfigMap contains the dashboard unchanged, with the label that Grafana's chart looks for."""
    found = one(scenario("all-on"), "ConfigMap", "monitoring")
    assert json.loads(found["data"]["samerack.json"]) == json.loads((_FILES / "dashboard.json").read_text("utf-8"))
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"


@pytest.mark.parametrize(("name", "kind"), [("all-on", "PodMonitor"), ("service-monitor", "ServiceMonitor")])
def test_the_monitor_scrapes_the_leader_under_the_name_of_the_alerts(name: str, kind: str) -> None:
    """It selects pod or Service by labels and the port by name; the job is the one that the alerts query.

    Target relabelings follow the chart's own, metric relabelings stand alone; without values neither is rendered.
    """
    manifests = scenario(name)
    monitor, deployment = one(manifests, kind), one(manifests, "Deployment", "leader")
    chosen = monitor["spec"]["selector"]["matchLabels"]
    assert chosen == deployment["spec"]["selector"]["matchLabels"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
    ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"]
    if kind == "ServiceMonitor":
        service = one(manifests, "Service")
        assert chosen.items() <= service["metadata"]["labels"].items()
        ports = service["spec"]["ports"]
        assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("15s", "10s")
    assert endpoint["port"] in {port["name"] for port in ports}
    own, *added = endpoint["relabelings"]
    assert own == {"targetLabel": "job", "replacement": "samerack"}
    assert 'up{job="samerack"}' in (_FILES / "alerts.yaml").read_text(encoding="utf-8")
    assert added == [{"targetLabel": "cluster", "replacement": "a"}]
    assert [each["action"] for each in endpoint["metricRelabelings"]] == ["drop"]
    (plain,) = one(scenario("sidecar-scraped"), "PodMonitor")["spec"]["podMetricsEndpoints"]
    assert plain.keys() == {"port", "path", "interval", "relabelings"}


def test_each_object_may_be_in_a_namespace_of_its_own() -> None:
    """Operator and Grafana may look elsewhere: the name says whose it is, and the pods are those of the release."""
    manifests = (*scenario("all-on"), *scenario("service-monitor"))
    places = {
        each["kind"]: each["metadata"]
        for each in manifests
        if each["metadata"].get("namespace", NAMESPACE) != NAMESPACE
    }
    assert {kind: place["namespace"] for kind, place in places.items()} == {
        "PodMonitor": "monitoring",
        "ServiceMonitor": "monitoring",
        "PrometheusRule": "monitoring",
        "ConfigMap": "grafana",
    }
    assert all(place["name"].startswith(f"{NAMESPACE}.") for place in places.values())
    for kind in ("PodMonitor", "ServiceMonitor"):
        assert one(manifests, kind)["spec"]["namespaceSelector"] == {"matchNames": [NAMESPACE]}
    own = one(scenario("sidecar-scraped"), "PodMonitor")
    assert (own["metadata"]["namespace"], own["spec"]["namespaceSelector"]) == (NAMESPACE, {"matchNames": [NAMESPACE]})


def test_each_alert_links_to_its_section() -> None:
    """With the page's address an alert has the link that Alertmanager, Grafana and OpenShift show; without, none."""
    (group,) = one(scenario("all-on"), "PrometheusRule")["spec"]["groups"]
    for rule in group["rules"]:
        page, section = rule["annotations"]["runbook_url"].split("#")
        assert page == "https://docs.example/samerack/alerts"
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{section}"
    (group,) = one(scenario("sidecar-scraped"), "PrometheusRule")["spec"]["groups"]
    assert all("runbook_url" not in rule["annotations"] for rule in group["rules"])
