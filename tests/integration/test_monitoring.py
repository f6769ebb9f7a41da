"""A real Prometheus scrapes a real agent on a real Kafka: each dashboard expression and alert rule evaluates."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.commands import samerack_json
from lab.sandbox.processes import end, spawn
from lab.sandbox.settings import HOST, free_ports
from tests.integration.metrics_page import MARK, PAGE, SAMPLES, labels_of, row, shown
from tests.integration.monitored import LED, OBSERVED, monitored

pytestmark = pytest.mark.own_cluster

CHARTS: Final = Path(__file__).parents[2] / "helm"
FILES: Final = CHARTS / "samerack" / "files"
_ANSWER_SECONDS: Final = 30
_VARIABLES: Final = {"$__rate_interval": "5s", "$group": ".*", "$cluster": ".*"}


class Prometheus:
    """A real server on loopback with rules, which scrapes an agent every second; a context manager that ends it."""

    def __init__(self, target: str, *, rules: Path, folder: Path) -> None:
        """Start Prometheus with a file of rules; it scrapes `target`, HOST:PORT, as job `samerack`.

        Raises:
            SandboxError: Prometheus is not installed, or does not start.
        """
        config = folder / "prometheus.yml"
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "samerack", "static_configs": [{"targets": [target]}]}],
        }
        config.write_text(json.dumps(settings), encoding="utf-8")  # YAML is a superset of JSON
        (port,) = free_ports(1)
        self._url = f"http://{HOST}:{port}/api/v1"
        self._log = (folder / "prometheus.log").open("wb")
        line = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
        self._process = spawn(
            [*line, f"--web.listen-address={HOST}:{port}"], stdout=self._log, stderr=subprocess.STDOUT
        )
        try:
            wait_until(lambda: self._up() == "1", "Prometheus has scraped the agent")
        except BaseException:
            self.close()
            raise

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The current samples of an expression.

        Raises:
            ValueError: Prometheus refuses it; with the reason.
            OSError: It does not answer yet.
        """
        try:
            answer = self._get(f"query?{urlencode({'query': expression})}")
        except HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:  # it is still starting, and answers in plain text
                raise
            with error:
                raise ValueError(f"{expression}: {json.load(error).get('error')}") from None
        return list(answer["result"])

    def rules(self) -> list[dict[str, Any]]:
        """All rules with their health and last error."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def close(self) -> None:
        """End Prometheus."""
        end(self._process, kill=True)
        self._log.close()

    def __enter__(self) -> Self:
        """Return the server."""
        return self

    def __exit__(self, *_: object) -> None:
        """End Prometheus."""
        self.close()

    def _up(self) -> str:
        try:
            found = self.ask('up{job="samerack"}')
        except HTTPError as error:
            error.close()
            return ""
        except OSError:
            return ""
        return str(found[0]["value"][1]) if found else ""

    def _get(self, path: str) -> Any:
        with urlopen(f"{self._url}/{path}", timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - a loopback address of our own
            return json.load(answer)["data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An agent and the Prometheus that scrapes it."""

    agent: AgentProcess
    prometheus: Prometheus


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One agent and one Prometheus for all tests."""
    folder = tmp_path_factory.mktemp("monitoring")
    with monitored(folder) as agent:
        address = agent.url.removeprefix("http://")
        with Prometheus(address, rules=FILES / "alerts.yaml", folder=folder) as prometheus:
            yield Running(agent=agent, prometheus=prometheus)


def _expressions() -> list[tuple[str, str]]:
    """Every expression of the dashboard with its panel's title."""
    dashboard: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text(encoding="utf-8"))
    return [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]


_EMPTY_HERE: Final = frozenset({"Findings by kind", "Time of a plan (99th percentile)"})
"""Panels without data on a sound group, or after a few seconds."""


def test_every_dashboard_expression_shows_data(running: Running) -> None:
    """Each dashboard expression is valid and has data, except the panels that are empty here."""

    def missing() -> list[str]:
        found = []
        for title, expression in _expressions():
            for name, value in _VARIABLES.items():
                expression = expression.replace(name, value)  # noqa: PLW2901 - one variable after the other
            if not running.prometheus.ask(expression) and title not in _EMPTY_HERE:
                found.append(f"{title}: {expression}")
        return found

    wait_until(lambda: not missing(), "every panel has data", timeout=60, pause=1.0)
    assert missing() == []


def test_every_alert_rule_evaluates(running: Running) -> None:
    """Prometheus has evaluated each rule without an error."""
    wait_until(lambda: all(rule["health"] == "ok" for rule in running.prometheus.rules()), "rules were evaluated")
    rules = running.prometheus.rules()
    written = yaml.safe_load((FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    assert [rule["name"] for rule in rules] == [rule["alert"] for group in written for rule in group["rules"]]
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []


def test_the_page_shows_what_a_running_agent_reports(running: Running) -> None:
    """docs/metrics.md has exactly the metrics of a real scrape, with type, labels and meaning, metrics.txt a sample."""
    families = list(text_string_to_metric_families(running.agent.get("/metrics")[1]))
    entries = PAGE.read_text(encoding="utf-8").partition(MARK)[2].splitlines()
    assert [line for line in entries if line.startswith("- `samerack")] == [row(one) for one in families]
    written = list(text_string_to_metric_families(SAMPLES.read_text(encoding="utf-8")))
    names = {sample.name: sorted(sample.labels) for family in written for sample in family.samples}
    for family in families:
        parts = (
            [f"{family.name}_{part}" for part in ("count", "sum")] if family.type == "histogram" else [shown(family)]
        )
        assert [names.pop(part) for part in parts] == [labels_of(family)] * len(parts)
    assert [name for name in names if not name.endswith("_bucket")] == []


@pytest.mark.parametrize(
    "arguments", [("check", "rules", "samerack/files/alerts.yaml"), ("test", "rules", "alerts_test.yaml")]
)
@pytest.mark.promise("Prometheus accepts the alert rules.")
def test_promtool_accepts_the_rules(arguments: tuple[str, ...]) -> None:
    """The rules are valid, and pass their tests: each fires when it should and not on a sound group."""
    done = subprocess.run(["promtool", *arguments], cwd=CHARTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_cost_asks_the_running_agent(running: Running) -> None:
    """`samerack cost` finds the agent by its port, without a configured cluster: both groups and the whole bill."""
    cost = samerack_json("cost", "--json", "-s", f"web.port={running.agent.port}")
    assert {group["group"]: group["role"] for group in cost["groups"]} == {LED: "leading", OBSERVED: ""}
    assert cost["groups"][0]["dollars"] > 0
    assert cost["bill"]["unknown"] == ""
    assert cost["bill"]["replication"]["cross_rack_bytes"] > 0
    assert cost["bill"]["producers"]["most"]["dollars_per_month"] > 0
