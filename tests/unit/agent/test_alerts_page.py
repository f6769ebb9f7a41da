"""Every alert has a section in docs/alerts.md that it names, and compares what belongs to one Kafka cluster."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from tests.docs import ROOT

RULES: list[dict[str, Any]] = yaml.safe_load((ROOT / "monitoring" / "alerts.yaml").read_text(encoding="utf-8"))[
    "groups"
][0]["rules"]
PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
DASHBOARD = json.loads((ROOT / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))


def test_each_alert_has_its_runbook() -> None:
    """The sections are the alerts, in their order, and each alert's link leads to its own."""
    assert re.findall(r"^## (\w+)$", PAGE, re.MULTILINE) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{rule['alert'].lower()}"


def test_each_alert_is_tested() -> None:
    """`promtool test rules` has a case that fires and one that does not."""
    cases = yaml.safe_load((ROOT / "monitoring" / "alerts_test.yaml").read_text(encoding="utf-8"))["tests"]
    tested = [case for test in cases for case in test["alert_rule_test"]]
    for name in (rule["alert"] for rule in RULES):
        assert {bool(case["exp_alerts"]) for case in tested if case["alertname"] == name} == {True, False}, name


def test_nothing_is_compared_or_summed_across_clusters() -> None:
    """Each list of labels that two metrics are matched or summed by has the cluster."""
    for rule in RULES:
        for labels in re.findall(r"\b(?:by|on) ?\(([^)]*)\)", rule["expr"]):
            assert "cluster" in labels, rule["alert"]


def test_the_dashboard_shows_one_cluster_or_all() -> None:
    """It has a variable, and each metric of each panel is of the chosen clusters."""
    assert "cluster" in [variable["name"] for variable in DASHBOARD["templating"]["list"]]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            metrics = re.findall(r"samerack_\w+\{?[^,}]*", target["expr"])
            assert all('{cluster=~"$cluster"' in metric for metric in metrics), target["expr"]


def test_the_share_of_the_dashboard_is_that_of_the_page() -> None:
    """Both are of bytes with both racks known; bytes of members without rack are in neither."""
    (share,) = (
        target["expr"]
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
        if "samerack_cross_rack_ratio" in target["expr"] and "samerack_consumed_bytes_total" in target["expr"]
    )
    assert share.count('client_rack!="", replica_rack!=""') == share.count("samerack_consumed_bytes_total") == 2
