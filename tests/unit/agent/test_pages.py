"""The documentation is true: links, tables, commands, settings, metrics, and the tests that it names."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

import pytest
import yaml
from typer.testing import CliRunner, Result

from samerack.agent.metrics import Metrics
from samerack.agent.policy import EXEMPT, REFUSALS, TRIGGERS, Reason
from samerack.agent.policy.back_off_causes import RULES
from samerack.agent.web.api import POLICY
from samerack.assignors.consumer.registry import ASSIGNORS
from samerack.cli.main import app
from samerack.cluster.broker_configs import LINE, TASK_LINE
from samerack.cluster.racks import SOURCES, Source
from samerack.common.records import TrafficSample
from samerack.settings.all_settings import Settings
from samerack.settings.leading import LeadingSettings
from samerack.settings.loading import load
from samerack.settings.policy import LagSettings, PolicySettings
from tests import doc_tables, promises
from tests.docs import ROOT, Command, dead_links, named_tests, pages, spans, yaml_of


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


_KIPS = ROOT / "tests" / "kips.md"
_DOCUMENTS = _text("tests/kips.md")
_OPERATING, _POLICY, _LOAD = (_text(f"docs/{page}.md") for page in ("operating", "policy", "load"))
_ROW = re.compile(r"^\| (?P<section>[^|]+) \| (?P<claim>[^|]+) \| `(?P<place>[^`|]+)` \| (?P<held>[^|]+) \|$")
_HELD = re.compile(r"(?:Differs: (?P<instead>.+); described in \[[^]]+\]\((?P<page>[^)]+)\)\. )?`test_\w+`")
_CLAIMS = re.compile(r"^\|[^\n]*\| held by \|\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)
"""A table with the last column `held by`."""


@pytest.mark.parametrize(
    "page", [*pages(), ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", _KIPS], ids=lambda page: page.name
)
def test_links_and_named_tests_exist(page: Path) -> None:
    """Each link leads to a file and a heading, and each test that a page names is in a file of the tests."""
    assert dead_links(page) == []
    assert named_tests(page.read_text(encoding="utf-8"))[1] == set()


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_tables_are_generated(page: Path) -> None:
    """Tables that list what a registry has are those of the registry."""
    text = page.read_text(encoding="utf-8")
    assert text == doc_tables.replaced(text), "run: python -m tests.doc_tables"


def test_the_list_of_promises_is_generated() -> None:
    """tests/promises.md has what the marks of the tests promise."""
    assert promises.PAGE.read_text(encoding="utf-8") == promises.page(), "run: python -m tests.doc_tables"


@cache
def _help(*words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--help"])


@pytest.mark.parametrize("command", sorted(set(spans()), key=str), ids=str)
def test_a_command_in_the_text_exists(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The help names every option; a script exists and is executable."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TERM", "dumb")
    program, *words = command.words
    if program != "samerack":
        assert os.access(ROOT / program, os.X_OK), f"{program} is no program"
        return
    path = [word for word in words if word.islower() and word.isalpha()][:2]
    answers = [_help(*path[:depth]) for depth in range(len(path), -1, -1)]
    shown = next(answer for answer in answers if answer.exit_code == 0)
    assert not path or shown is not answers[-1], f"no such command: {command}"
    for option in (word for word in words if word.startswith("--")):
        assert option.partition("=")[0] in shown.stdout


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/operating.md"])
def test_every_claim_in_a_table_names_its_test(page: str) -> None:
    """A row without a test has a dash, and claims nothing that a test could check."""
    tables = _CLAIMS.findall(_text(page))
    assert tables
    assert page != "SECURITY.md" or len(tables) == len(re.findall(r"^\|[-| ]+\|$", _text(page), re.MULTILINE))
    for row in (row for table in tables for row in table.splitlines()):
        assert re.search(r"\| (.*`test_\w+`|-) \|$", row), row


# documents of Kafka


def test_every_row_on_the_documents_has_its_place_and_its_test() -> None:
    """A row that differs names the difference, and the page on which a user reads of it."""
    tables = re.findall(r"^\| section .*\n\|[-| ]+\|\n((?:\|.*\n)+)", _DOCUMENTS, re.MULTILINE)
    assert len(tables) == _DOCUMENTS.count("## KIP-") > 0
    for row in (row for table in tables for row in table.splitlines()):
        found = _ROW.match(row)
        assert found, row
        assert (ROOT / found["place"]).exists(), row
        assert _HELD.fullmatch(found["held"]), row


def test_the_page_on_conformance_counts_the_differences() -> None:
    """The page has each document with its numbers of rows and differences, and the pages that describe these."""
    for section in _DOCUMENTS.split("\n## ")[1:]:
        rows = [found for line in section.splitlines() if (found := _ROW.match(line)) and "`" in found["held"]]
        held = [found for row in rows if (found := _HELD.fullmatch(row["held"])) and found["instead"]]
        pages = sorted({found["page"].removeprefix("../docs/").partition("#")[0] for found in held})
        links = ", ".join(f"[{page.removesuffix('.md')}]({page})" for page in pages)
        row = f"| {section.partition(chr(10))[0]} | {len(rows)} | {len(held)} | {links} |\n"
        assert row in _text("docs/conformance.md")


# assignors, racks, publishing


def test_the_page_of_the_plug_ins_lists_all_assignors() -> None:
    """Each assignor that members may agree on has a row, and the page says what `optimal` is."""
    page = _text("docs/plugins.md")
    offered = [assignor.name for assignor in ASSIGNORS.values() if assignor.for_members]
    assert re.findall(r"^\| `([^`]+)`", page, re.MULTILINE) == offered
    assert f"`optimal` stands for {ASSIGNORS['optimal'].about}." in page


def test_the_page_on_racks_has_all_sources_in_their_order() -> None:
    """Each source of a member's rack has a row, in the order of asking."""
    assert [*SOURCES, "none"] == list(get_args(Source))
    (rows,) = re.findall(r"^\| source in .*\n.*\n((?:\|.*\n)+)", _text("docs/racks.md"), re.MULTILINE)
    assert re.findall(r"^\| `([\w-]+)` \| .+ \|$", rows, re.MULTILINE) == list(SOURCES)


def test_the_line_of_the_new_protocols_page_is_that_of_the_commands() -> None:
    """Bare brokers and Strimzi get the same value, and both get the selector without which reads stay far."""
    key, _, value = LINE.partition("=")
    assert f"   {LINE}\n" in _text("docs/new-protocol.md")
    assert f"   {TASK_LINE}\n" in _text("docs/new-protocol.md")
    config = yaml.safe_load(yaml_of("new-protocol.md"))["spec"]["kafka"]["config"]
    assert config[key] == value
    assert config["replica.selector.class"].endswith("RackAwareReplicaSelector")


def test_the_page_on_publishing_has_settings_that_exist_and_every_field_of_a_sample() -> None:
    """Its settings load, with both topics."""
    flags = {**yaml.safe_load(yaml_of("publishing.md")), "kafka": {"bootstrap.servers": "x"}}
    assert all(load(flags=flags, environment={}).publishing.topics)
    names = {info.alias or name for name, info in TrafficSample.model_fields.items()}
    assert {name for name in names if f"`{name}`" not in _text("docs/publishing.md")} == set()


# the policy

_BLOCKS: Final = re.findall(r"```yaml\n((?!apiVersion|externalRules).*?)```", _POLICY + _LOAD, re.DOTALL)


@pytest.mark.parametrize("block", _BLOCKS)
def test_each_block_on_the_policy_and_on_loads_is_read(block: str) -> None:
    """Each block loads and sets something of the policy, or of the balance of groups."""
    settings: Settings = load(flags={**yaml.safe_load(block), "kafka": {"bootstrap.servers": "x"}}, environment={})
    assert (settings.policy, settings.lag, settings.leading) != (PolicySettings(), LagSettings(), LeadingSettings())


def test_the_description_on_the_page_of_loads_is_planned() -> None:
    """The canary has one partition, and not the hot one."""
    (description,) = re.findall(r"```json\n(.*?)```", _LOAD, re.DOTALL)
    found = CliRunner().invoke(app, ["assign", "-", "--json"], input=description)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["assignment"] == {"one": [["t", 0], ["t", 2], ["t", 3]], "canary": [["t", 1]]}


def test_the_page_on_the_policy_has_defaults_fields_and_reasons_of_the_program() -> None:
    """Each field of `/v1/policy`, each reason that the rules give, and the defaults that a table shows."""
    for key in ("burst", "refill_seconds", "max_per_hour"):
        assert f"| `policy.{key}` | {getattr(PolicySettings(), key):g} |" in _POLICY
    waits = [
        Reason.BELOW_MIN_SAVING,
        Reason.NOT_MEASURED,
        Reason.OUTSIDE_WINDOW,
        Reason.BREAKER_OPEN,
        Reason.OUT_OF_BUDGET,
        Reason.HOURLY_CAP,
        Reason.PROPOSED,
    ]
    names = {*POLICY, *(reason.value for reason in waits)} - {"group", "role"}
    assert {name for name in names if f"`{name}`" not in _POLICY} == set()


def test_the_page_on_metrics_has_all_reasons_of_the_policy() -> None:
    """Each reason to rebalance is there with its budget, and each reason not to."""
    page = _text("docs/metrics.md")
    triggers = re.findall(r"^\| `([\w-]+)` \| .+ \| (exempt|one each) \|$", page, re.MULTILINE)
    assert triggers == [(one.value, "exempt" if one in EXEMPT else "one each") for one in TRIGGERS]
    (rows,) = re.findall(r"^\| reason \| meaning \|\n.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert re.findall(r"^\| `([\w-]+)` \| .+ \|$", rows, re.MULTILINE) == [one.value for one in REFUSALS]


# operating


def test_the_causes_of_back_offs_are_those_of_the_program() -> None:
    """Each cause is on the page with its pauses."""

    def shown(seconds: float) -> str:
        return f"{seconds:g} s" if seconds else "-"

    rows = re.findall(r"^\| `([\w-]+)` \| .+ \| (.*) \| (.*) \| .+ \|$", _OPERATING, re.MULTILINE)
    assert rows == [(cause.value, shown(rule.first_seconds), shown(rule.max_seconds)) for cause, rule in RULES.items()]


def test_the_metrics_that_the_page_on_operating_names_exist() -> None:
    """The metrics of alerts exist too."""
    families = {family.name for family in Metrics().registry.collect()}
    named = {re.sub(r"_(total|bucket)$", "", name) for name in re.findall(r"samerack_\w+", _OPERATING)}
    assert named
    assert named - families == set()


@pytest.mark.parametrize(("run", "name"), [("chaos --faults 300", "chaos")])
def test_each_figure_of_a_long_run_is_one_of_its_document(run: str, name: str) -> None:
    """The row on the page has no figure that was not measured, and the document names no loss."""
    document = json.loads(_text(f"docs/benchmarks-{name}.json"))
    (row,) = re.findall(rf"^\| `scripts/{re.escape(run)}`: [^|]+ \| ([^|]+) \|$", _OPERATING, re.MULTILINE)
    measured = set(_figures(document))
    claimed = [float(figure.replace(",", "")) for figure in re.findall(r"\d[\d,]*(?:\.\d+)?(?![\w%])", row)]
    assert claimed
    assert [figure for figure in claimed if figure not in measured] == []
    assert document.get("with_agents", document)["lost"] == document.get("with_agents", document)["owned_twice"] == 0


def _figures(value: Any) -> list[float]:
    """All numbers in a document as a page rounds them: bytes in MiB, seconds to tenths, and how long lists are."""
    if isinstance(value, dict):
        return [figure for one in value.values() for figure in _figures(one)]
    if isinstance(value, list):
        return [float(len(value)), *(figure for one in value for figure in _figures(one))]
    if isinstance(value, str):
        return [float(figure) for figure in re.findall(r"\d+(?:\.\d+)?", value)]
    return [float(value or 0), round(float(value or 0), 1), float(round((value or 0) / 2**20))]


# alerts and the dashboard

_ALERTS: Final[list[dict[str, Any]]] = yaml.safe_load(_text("helm/samerack/files/alerts.yaml"))["groups"][0]["rules"]
_PANELS: Final = json.loads(_text("helm/samerack/files/dashboard.json"))


def test_each_alert_has_its_runbook_and_is_tested() -> None:
    """The sections are the alerts, each alert's link leads to its own, and promtool has it firing and not firing."""
    assert re.findall(r"^## (\w+)$", _text("docs/alerts.md"), re.MULTILINE) == [rule["alert"] for rule in _ALERTS]
    cases = yaml.safe_load(_text("helm/alerts_test.yaml"))["tests"]
    tested = [case for test in cases for case in test.get("alert_rule_test", ())]
    for rule in _ALERTS:
        name = rule["alert"]
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{name.lower()}"
        assert {bool(case["exp_alerts"]) for case in tested if case["alertname"] == name} == {True, False}, name


def test_alerts_get_links_by_the_command_of_the_page() -> None:
    """Where there is no chart, a line for the shell makes each runbook an address."""
    (command,) = re.findall(r"^sed .*$", _text("docs/alerts.md"), re.MULTILINE)
    made = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True, cwd=ROOT).stdout
    for rule in yaml.safe_load(made)["groups"][0]["rules"]:
        assert rule["annotations"]["runbook_url"] == f"https://docs.example/alerts.html#{rule['alert'].lower()}"


def test_nothing_is_compared_or_summed_across_clusters() -> None:
    """Labels by which metrics are matched or added up have the cluster, and panels show the chosen clusters."""
    assert "cluster" in [variable["name"] for variable in _PANELS["templating"]["list"]]
    targets = [target["expr"] for panel in _PANELS["panels"] for target in panel["targets"]]
    for expression in (*targets, *(rule["expr"] for rule in _ALERTS)):
        for labels in re.findall(r"\b(?:by|on) ?\(([^)]*)\)", expression):
            assert "cluster" in labels, expression
    for expression in targets:
        metrics = re.findall(r"samerack_\w+\{?[^,}]*", expression)
        assert all('{cluster=~"$cluster"' in metric for metric in metrics), expression


def test_the_expressions_that_promtool_tests_are_those_of_the_dashboard() -> None:
    """Those whose value is less obvious than their text."""
    cases = yaml.safe_load(_text("helm/alerts_test.yaml"))["tests"]
    tested = {case["expr"] for test in cases for case in test.get("promql_expr_test", ())}
    shown = " ".join(target["expr"] for panel in _PANELS["panels"] for target in panel["targets"])
    for variable, value in (("$cluster", ".*"), ("$group", ".*"), ("$__rate_interval", "5m")):
        shown = shown.replace(variable, value)
    assert len(tested) == 4
    assert [expression for expression in tested if expression not in shown] == []


def test_ratios_of_two_clusters_are_never_mixed() -> None:
    """Targets without a label for their cluster differ in the instance alone, which therefore matches two ratios."""
    expressions = [rule["expr"] for rule in _ALERTS]
    expressions += [target["expr"] for panel in _PANELS["panels"] for target in panel["targets"]]
    matched = [one for one in expressions if re.search(r"by \(.*_ratio\b.* (?:[-*]|>=) ", one, re.DOTALL)]
    assert len(matched) == 3
    for expression in matched:
        assert {*re.findall(r"by \(([^)]*)\)", expression)} == {"cluster, instance, group"}, expression


def test_each_line_of_a_plot_names_its_cluster() -> None:
    """With several clusters chosen two groups of one name have two legends."""
    for panel in (panel for panel in _PANELS["panels"] if panel["type"] == "timeseries"):
        for target in panel["targets"]:
            assert "{{cluster}}" in target["legendFormat"] or "{{instance}}" in target["legendFormat"], panel["title"]


def test_the_share_of_the_dashboard_is_that_of_the_page() -> None:
    """Both are of bytes with both racks known; bytes of members without rack are in neither."""
    (share,) = (
        target["expr"]
        for panel in _PANELS["panels"]
        for target in panel["targets"]
        if "samerack_cross_rack_ratio" in target["expr"] and "samerack_consumed_bytes_total" in target["expr"]
    )
    assert share.count('client_rack!="", replica_rack!=""') == share.count("samerack_consumed_bytes_total") == 2
