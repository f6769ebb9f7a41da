"""Tests of what Helm says after an installation."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.helm.chart import CHART, SCENARIOS, of_kind, one, render, values_of

pytestmark = pytest.mark.helm

_AS_MANIFEST = """apiVersion: v1
kind: Notes
metadata: {labels: {}}
text: |
  {{- tpl (.Files.Get "files/NOTES.txt") . | nindent 2 }}
"""
"""`helm template` keeps the notes to itself."""


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the chart that renders its notes as a manifest."""
    copy = tmp_path_factory.mktemp("notes") / "samerack"
    shutil.copytree(CHART, copy)
    (copy / "templates" / "NOTES.txt").rename(copy / "files" / "NOTES.txt")
    (copy / "templates" / "notes.yaml").write_text(_AS_MANIFEST, encoding="utf-8")
    return copy


@pytest.mark.parametrize("name", SCENARIOS)
def test_notes_name_what_there_is(name: str, chart: Path) -> None:
    """Each Deployment, Service and ConfigMap that the notes speak of is one of the release."""
    manifests = render("--values", values_of(name), chart=chart)
    text = one(manifests, "Notes")["text"]
    for kind in ("Deployment", "Service"):
        named = set(re.findall(rf"\b{kind.lower()}/(\S+)", text))
        assert named <= {each["metadata"]["name"] for each in of_kind(manifests, kind)}
    assert set(re.findall(r"ConfigMap ([^\s.]+)", text)) <= {
        each["metadata"]["name"] for each in of_kind(manifests, "ConfigMap")
    }
    assert text.strip()


def test_notes_tell_how_a_leader_comes_to_lead(chart: Path) -> None:
    """Whoever installs it is told that nothing is rebalanced, and where to look."""
    text = one(render("--values", values_of("minimal"), chart=chart), "Notes")["text"]
    assert "The agent leads orders from the next time" in text
    assert "samerack verify" in text
    assert "With replicas: 2" in text
