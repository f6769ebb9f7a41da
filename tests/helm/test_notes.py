"""Tests of the notes that Helm prints after an installation."""

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
text: |2
  {{- tpl (.Files.Get "files/NOTES.txt") . | nindent 2 }}
"""
"""A manifest of the notes, because `helm template` does not print them."""


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
    """Each Deployment, Service and ConfigMap that the notes name belongs to the release."""
    manifests = render("--values", values_of(name), chart=chart)
    text = one(manifests, "Notes")["text"]
    for kind in ("Deployment", "Service"):
        named = set(re.findall(rf"\b{kind.lower()}/(\S+)", text))
        assert named <= {each["metadata"]["name"] for each in of_kind(manifests, kind)}
    assert set(re.findall(r"ConfigMap ([^\s.]+)", text)) <= {
        each["metadata"]["name"] for each in of_kind(manifests, "ConfigMap")
    }
    assert text.strip()


def test_notes_say_what_joining_costs(chart: Path) -> None:
    """The agent's join rebalances a running group once, so the notes do not promise that nobody is rebalanced."""
    text = one(render("--values", values_of("minimal"), chart=chart), "Notes")["text"]
    assert "rebalances once" in text
    assert "nobody" not in text


@pytest.mark.parametrize("mechanism", ["PLAIN", "scram-sha-512"])
def test_notes_show_how_to_give_a_password(mechanism: str, chart: Path) -> None:
    """For a mechanism without a password, the notes show a command for a Secret that does not contain the password."""
    flags = ("--set", f"config.kafka.sasl\\.mechanism={mechanism}")
    text = one(render("--values", values_of("minimal"), *flags, chart=chart), "Notes")["text"]
    assert "create secret generic kafka-user --from-file=password=/dev/stdin" in text


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "minimal"])
def test_notes_do_not_ask_for_what_is_there(name: str, chart: Path) -> None:
    """No scenario lacks a password: it comes from a Secret or a source hidden from the chart, or none is needed."""
    assert "create secret" not in one(render("--values", values_of(name), chart=chart), "Notes")["text"]
