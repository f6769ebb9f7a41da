"""Tests of the chart as a package: versions, README, schema, and the content of `helm package`."""

from __future__ import annotations

import json
import subprocess
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.chart import CHART, CONSUMER, ROOT, STREAMS, helm
from tests.helm.schema import PATH, text, with_settings

pytestmark = pytest.mark.helm

_UPDATE = "run scripts/chart"


def _yaml(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def test_versions_agree() -> None:
    """The chart installs the version of the Python package, and the examples depend on this chart's version."""
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert _yaml(CHART / "Chart.yaml")["appVersion"] == package
    for example in (CONSUMER, STREAMS):
        (dependency,) = _yaml(example / "Chart.yaml")["dependencies"]
        assert dependency["version"] == _yaml(CHART / "Chart.yaml")["version"]


def test_the_schema_has_the_settings_of_the_agent() -> None:
    """The schema of `config` equals that of the current settings model."""
    written = PATH.read_text(encoding="utf-8")
    assert written == text(with_settings(json.loads(written))), _UPDATE


def test_the_readme_has_the_values() -> None:
    """The README equals the output of helm-docs for values.yaml, and each value has a comment there."""
    run = subprocess.run(
        ["helm-docs", "--chart-search-root", CHART, "--dry-run", "--log-level", "warning"],
        capture_output=True,
        text=True,
        check=True,
    )
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    assert readme.strip() == run.stdout.strip(), _UPDATE
    assert [row for row in readme.splitlines() if row.startswith("| ") and row.endswith("|  |")] == []


def _leaves(values: dict[str, Any], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in values.items():
        yield (*place, key)
        if isinstance(value, dict) and place[:1] != ("config",):
            yield from _leaves(value, (*place, key))


def _known(schema: dict[str, Any], whole: dict[str, Any], place: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    for key, value in schema.get("properties", {}).items():
        yield (*place, key)
        if key != "config":
            yield from _known(value, whole, (*place, key))


def test_schema_and_values_have_the_same_keys() -> None:
    """Every key that the schema allows has a default in values.yaml, and the schema knows every key there."""
    schema = json.loads(PATH.read_text(encoding="utf-8"))
    free = {"resources", "initResources", "probes", "podSecurityContext", "securityContext", "labels"}
    free |= {"secrets", "updateStrategy"}

    def fixed(places: Iterator[tuple[str, ...]]) -> set[tuple[str, ...]]:
        return {place for place in places if not any(part in free for part in place[:-1]) and place[0] != "config"}

    extra = {("global",), ("enabled",)}  # Helm's own keys, for a chart that is a dependency
    assert fixed(_known(schema, schema)) - extra == fixed(_leaves(_yaml(CHART / "values.yaml")))


def test_a_package_has_what_it_needs(tmp_path: Path) -> None:
    """The archive contains rules and dashboard as files, but no scenarios and no sources of the README."""
    run = helm("package", CHART, "--destination", tmp_path)
    assert run.returncode == 0, run.stderr
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as content:
        entries = {entry.name.removeprefix("samerack/"): entry for entry in content.getmembers()}
        alerts = content.extractfile(entries["files/alerts.yaml"])
        assert alerts is not None
        assert alerts.read() == (CHART / "files" / "alerts.yaml").read_bytes()
    assert all(entry.isfile() for entry in entries.values())
    assert {"values.schema.json", "README.md", "files/dashboard.json"} <= entries.keys()
    assert not [name for name in entries if name.startswith("ci/") or name.endswith((".gotmpl", ".svg"))]
