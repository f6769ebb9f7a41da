"""Tests of how a leader's pods are replaced: with a handover if two may run at once, otherwise one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helm.chart import Manifest, one, refusal, scenario, with_values

pytestmark = pytest.mark.helm

_HANDED_OVER = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
_GIVEN_UP = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
_CLAIM: Manifest = {"state": {"existingClaim": "kept"}}


def _strategy(manifests: tuple[Manifest, ...]) -> Any:
    return one(manifests, "Deployment", "leader")["spec"]["strategy"]


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("minimal", _HANDED_OVER),
        ("two-replicas-tls-sasl", _HANDED_OVER),
        ("no-election", {"type": "Recreate"}),
        ("state-volume", {"type": "Recreate"}),
        ("state-volume-rolling", _GIVEN_UP),
    ],
)
def test_a_roll_out_hands_over_where_two_may_run(name: str, strategy: Manifest) -> None:
    """With an election the new agent is ready before the old one ends; with a volume, or alone, the old one ends first.

    A new pod on another node could not mount the volume, so the roll-out would never end.
    """
    assert _strategy(scenario(name)) == strategy


def test_a_strategy_of_the_reader_s_own_counts(tmp_path: Path) -> None:
    """If two agents may run at once, any strategy is accepted."""
    for strategy in ({"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%"}}):
        assert _strategy(with_values({"updateStrategy": strategy}, tmp_path)) == strategy


@pytest.mark.parametrize("alone", [_CLAIM, {"config": {"election": {"group": ""}}}], ids=["volume", "no election"])
@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "RollingUpdate"},
        {"rollingUpdate": {"maxUnavailable": 1}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
    ],
)
def test_two_at_a_time_are_refused_where_one_may_be(alone: Manifest, strategy: Manifest, tmp_path: Path) -> None:
    """Strategies that start a new pod first are refused, including Kubernetes' default."""
    refused = " ".join(refusal({**alone, "updateStrategy": strategy}, tmp_path).split())
    assert "updateStrategy starts the new pod before the old one ends, and" in refused
    assert "updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}" in refused


@pytest.mark.parametrize("surge", [0, "0%"])
def test_one_at_a_time_may_be_rolling(surge: object, tmp_path: Path) -> None:
    """With a surge of zero the old pod ends first."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1}}
    assert _strategy(with_values({**_CLAIM, "updateStrategy": strategy}, tmp_path)) == strategy
