"""The assignors that brokers offer, from their configuration: known, partly known and not known."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from samerack.cluster.broker_configs import CLASS, LINE, from_values, read_broker_configs
from tests.unit.cluster.scripted_wire import ScriptedBrokerClient, configs_response

OURS = f"{CLASS},uniform,range"
OLD = (
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor, "
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
)


def test_names_are_those_that_members_may_ask_for() -> None:
    """The class of samerack and those of Kafka have short names; any other class is shown as it is written."""
    offered = from_values({1: OURS, 2: OLD, 3: "uniform,org.example.Mine", 4: ""})
    assert offered.by_broker == {
        1: ("samerack", "uniform", "range"),
        2: ("uniform", "range"),
        3: ("uniform", "org.example.Mine"),
        4: None,
    }
    assert f"group.consumer.assignors={OURS}" == LINE


@pytest.mark.parametrize(
    ("values", "installed", "lacking", "some", "preferred"),
    [
        ({1: OURS, 2: OURS}, True, (), False, True),
        ({1: OURS, 2: f"uniform,{CLASS}"}, True, (), False, False),
        ({1: OURS, 2: "uniform"}, False, (2,), True, False),
        ({1: "uniform", 2: "uniform"}, False, (1, 2), False, False),
        ({1: OURS, 2: ""}, None, (), False, None),
        ({1: "uniform", 2: ""}, False, (1,), False, False),
        ({1: ""}, None, (), False, None),
        ({}, None, (), False, None),
    ],
)
def test_whether_brokers_have_it(
    values: Mapping[int, str],
    installed: bool | None,  # noqa: FBT001 - a column of the table
    lacking: tuple[int, ...],
    some: bool,  # noqa: FBT001 - a column of the table
    preferred: bool | None,  # noqa: FBT001 - a column of the table
) -> None:
    """One broker without it is enough for no; a broker that does not report it leaves it unknown."""
    offered = from_values(values)
    assert (offered.installed, offered.lacking, offered.on_some_brokers, offered.preferred) == (
        installed,
        lacking,
        some,
        preferred,
    )


@pytest.mark.parametrize(
    ("values", "asked", "used"),
    [
        ({1: f"{CLASS},range", 2: f"range,{CLASS}"}, "uniform", "samerack"),
        ({1: f"{CLASS},range"}, "range", "range"),
        ({1: f"{CLASS},range", 2: "uniform,range"}, "uniform", "uniform"),
        ({1: f"{CLASS},range", 2: "range"}, "uniform", "uniform"),
        ({1: f"{CLASS},org.example.Mine"}, "mine", "mine"),
        ({1: CLASS}, "", ""),
        ({1: ""}, "uniform", "uniform"),
    ],
)
def test_a_name_that_only_samerack_can_have_is_samerack(values: Mapping[int, str], asked: str, used: str) -> None:
    """An assignor that took the name of a built-in is recognised where no broker offers that built-in."""
    assert from_values(values).assignor_of(asked) == used


def test_every_broker_is_asked() -> None:
    """The value of each broker is kept; one that does not return it, such as Kafka 3.7, has none."""
    values: dict[int, dict[str, str | None]] = {1: {"group.consumer.assignors": OURS}, 2: {}}
    wire = ScriptedBrokerClient(lambda question: configs_response(question.broker, values[question.broker]))
    assert read_broker_configs(wire, (1, 2)).assignors == {1: OURS, 2: ""}
