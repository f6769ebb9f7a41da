"""Settings of several clusters: what each of them gets, what is refused, and that no message has a password."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from samerack.agent.settings_source import cluster_settings
from samerack.common.errors import SettingsError
from samerack.settings.all_settings import Settings, difference
from samerack.settings.loading import load
from tests.docs import yaml_of

_EAST: dict[str, Any] = {"kafka": {"bootstrap.servers": "east:9092", "sasl.password": "geheim-east"}}
_WEST: dict[str, Any] = {"kafka": {"bootstrap.servers": ["west-1:9092", "west-2:9092"]}, "groups": ["payments-*"]}
_BOTH: dict[str, Any] = {"kafka": {"client.id": "watcher"}, "clusters": {"east": _EAST, "west": _WEST}}


def several(flags: dict[str, Any] | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Settings of an agent."""
    return load(flags=_BOTH if flags is None else flags, environment=environment or {}, several=True)


def refusal(flags: dict[str, Any], *, needs_several: bool = True, environment: dict[str, str] | None = None) -> str:
    """Why settings are refused."""
    with pytest.raises(SettingsError) as raised:
        load(flags=flags, environment=environment or {}, several=needs_several)
    assert "geheim" not in str(raised.value)
    return str(raised.value)


def test_the_example_of_the_page_loads() -> None:
    """docs/clusters.md is what an operator copies."""
    found = cluster_settings(several(yaml.safe_load(yaml_of("clusters.md"))))
    assert {name: one.traffic.groups for name, one in found.items()} == {"east": ("*",), "west": ("payments-*",)}
    assert {one.kafka["sasl.mechanism"] for one in found.values()} == {"SCRAM-SHA-512"}


def test_each_cluster_has_its_own_settings_over_the_common_ones() -> None:
    """Kafka settings are merged, groups are those of the cluster or all, and each has a file of events of its own."""
    found = cluster_settings(several({**_BOTH, "events": {"path": "/var/lib/samerack/events.db"}}))
    east, west = found["east"], found["west"]
    assert east.kafka == {"client.id": "watcher", **_EAST["kafka"]}
    assert west.kafka == {"client.id": "watcher", "bootstrap.servers": "west-1:9092,west-2:9092"}
    assert (east.traffic.groups, west.traffic.groups) == (("*",), ("payments-*",))
    assert (east.groups, east.streams.enabled, east.clusters) == ((), False, {})
    assert [one.events.path for one in (east, west)] == [
        "/var/lib/samerack/events-east.db",
        "/var/lib/samerack/events-west.db",
    ]


def test_events_have_a_file_in_each_cluster_without_a_path_too() -> None:
    """The usual place is made of all settings, so that a changed list of clusters moves it as changed groups do."""
    east, west = (one.events.path for one in cluster_settings(several()).values())
    assert east.endswith("-east.db")
    assert west.endswith("-west.db")
    in_memory = cluster_settings(several({**_BOTH, "events": {"path": "memory"}}))
    assert {one.events.path for one in in_memory.values()} == {"memory"}


def test_the_settings_of_one_cluster_are_its_own() -> None:
    """An agent without `clusters` is not changed in anything."""
    one = load(flags={"kafka": {"bootstrap.servers": "x:1"}, "groups": ["orders"]}, environment={})
    assert cluster_settings(one) == {"": one}


def test_a_password_may_come_from_the_environment() -> None:
    """Below `clusters.NAME.kafka` underscores stand for dots, as below `kafka`."""
    found = several(environment={"SAMERACK_CLUSTERS__WEST__KAFKA__SASL_PASSWORD": "from-a-secret"})
    assert found.clusters["west"].kafka["sasl.password"] == "from-a-secret"
    assert found.clusters["west"].kafka["bootstrap.servers"] == "west-1:9092,west-2:9092"


def test_a_variable_is_of_the_cluster_with_that_name_in_any_case() -> None:
    """Names of clusters have a case and those of variables none, and East needs its password too."""
    password = {"SAMERACK_CLUSTERS__EAST__KAFKA__SASL_PASSWORD": "from-a-secret"}
    found = several({"clusters": {"East": _WEST, "west": _WEST}}, environment=password).clusters
    assert {name: one.kafka.get("sasl.password") for name, one in found.items()} == {
        "East": "from-a-secret",
        "west": None,
    }
    both = several({"clusters": {"East": _EAST, "east": _WEST}}, environment=password).clusters
    assert both["east"].kafka["sasl.password"] == "from-a-secret"
    assert both["East"].kafka["sasl.password"] == "geheim-east"
    assert refusal({"clusters": {"East": _EAST, "eAst": _WEST}}, environment=password).startswith(
        "clusters.east.kafka: "
    )


def test_a_command_is_about_one_of_them() -> None:
    """Without its name a command is refused, and the message has the names; with it, it has its settings."""
    assert refusal(_BOTH, needs_several=False) == (
        "clusters: are east, west, but this command needs one; select it with --set cluster=NAME or SAMERACK_CLUSTER"
    )
    west = load(flags=_BOTH, environment={"SAMERACK_CLUSTER": "west"})
    assert (west.kafka["bootstrap.servers"], west.cluster) == ("west-1:9092,west-2:9092", "west")


def test_an_agent_of_one_of_them_may_lead_groups() -> None:
    """What is refused for several clusters is not for the one that is named."""
    west = several({**_BOTH, "cluster": "west", "groups": ["orders"]})
    assert (west.groups, west.traffic.groups, west.clusters) == (("orders",), ("payments-*",), {})


_FILE: Any = {"kafka": {"client.id": "f"}, "clusters": {"east": {"kafka": {"bootstrap.servers": "f:1", "debug": "f"}}}}


@pytest.mark.parametrize(
    ("flags", "variables", "found"),
    [
        ({"kafka": {"bootstrap.servers": "b:1"}}, {}, {"bootstrap.servers": "b:1", "debug": "f"}),
        ({"kafka": {"debug": "s"}}, {}, {"bootstrap.servers": "f:1", "debug": "s"}),
        ({}, {"KAFKA__DEBUG": "e"}, {"bootstrap.servers": "f:1", "debug": "e"}),
        ({"kafka": {"debug": "s"}}, {"CLUSTERS__EAST__KAFKA__DEBUG": "e"}, {"bootstrap.servers": "f:1", "debug": "s"}),
        ({}, {"KAFKA__DEBUG": "s", "CLUSTERS__EAST__KAFKA__DEBUG": "e"}, {"bootstrap.servers": "f:1", "debug": "e"}),
        (
            {"kafka": {"debug": "s"}, "clusters": {"east": {"kafka": {"debug": "n"}}}},
            {},
            {"bootstrap.servers": "f:1", "debug": "n"},
        ),
    ],
)
def test_flags_win_over_a_cluster_of_the_file(
    flags: dict[str, Any], variables: Mapping[str, str], found: Mapping[str, str], tmp_path: Path
) -> None:
    """The first place that names a key wins, also for the one cluster that is named; in a place, the cluster's does."""
    path = tmp_path / "samerack.yaml"
    path.write_text(yaml.safe_dump(_FILE))
    environment = {f"SAMERACK_{name}": value for name, value in variables.items()}
    settings = load(path=path, flags={**flags, "cluster": "east"}, environment=environment)
    assert settings.kafka == {"client.id": "f", **found}


@pytest.mark.parametrize(
    ("flags", "environment", "origin"),
    [
        ({"kafka": {"bootstrap.servers": "b:1"}}, {}, "the command line"),
        ({}, {"SAMERACK_KAFKA__BOOTSTRAP_SERVERS": "b:1"}, "the environment"),
    ],
)
def test_brokers_beside_several_clusters_are_refused(
    flags: dict[str, Any], environment: dict[str, str], origin: str, tmp_path: Path
) -> None:
    """An agent would ask them for each cluster, or none of them; where one cluster is named, they are its brokers."""
    path = tmp_path / "samerack.yaml"
    path.write_text(yaml.safe_dump(_FILE))
    with pytest.raises(SettingsError) as raised:
        load(path=path, flags=flags, environment=environment, several=True)
    assert str(raised.value) == (
        f"kafka.bootstrap.servers (from {origin}): cluster 'east' has its own brokers; select the cluster with --set "
        "cluster=NAME, or remove one of the two"
    )
    named = load(path=path, flags={**flags, "cluster": "east"}, environment=environment, several=True)
    assert named.kafka["bootstrap.servers"] == "b:1"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"groups": ["orders"]},
            "groups: an agent of several clusters leads no groups; put names into clusters.NAME.groups",
        ),
        (
            {"publishing": {"cluster": "east"}},
            "publishing.cluster: names one cluster, but clusters has several",
        ),
        ({"cluster": "nord"}, "cluster: 'nord' is not among clusters, which are east, west"),
        ({"clusters": {"a/b": _EAST}}, "clusters: 'a/b' is not a valid name; expected letters, digits, dots, dashes"),
        ({"clusters": {"east": {"kafka": {"client.id": "x"}}}}, "clusters.east.kafka: bootstrap.servers is missing"),
        ({"clusters": {"east": {}}}, "clusters.east.kafka: is missing"),
        ({"clusters": {"east": {"kafka": {"sasl.password": {"geheim": 1}}}}}, "clusters.east.kafka.sasl.password: has"),
        (
            {"clusters": {"east": {"kafka": "geheim"}}},
            "clusters.east.kafka: must be a map, got a string",
        ),
        ({"clusters": "geheim"}, "clusters: must be a map, got a string"),
        ({"clusters": {"east": {**_EAST, "group": ["x"]}}}, "clusters.east.group: no such setting"),
    ],
)
def test_wrong_settings_are_refused(changed: dict[str, Any], message: str) -> None:
    """The message has the key and the cure, and no password."""
    assert refusal({**_BOTH, **changed}).startswith(message)


def test_a_change_of_a_password_is_not_shown() -> None:
    """A log of changed settings has the key alone."""
    changed = several(
        {**_BOTH, "clusters": {"east": {"kafka": {**_EAST["kafka"], "sasl.password": "neu"}}, "west": _WEST}}
    )
    assert difference(several(), changed) == {"clusters.east.kafka.sasl.password": ("(not shown)", "(not shown)")}


def test_a_change_that_clusters_take_from_the_whole_is_named_once() -> None:
    """And so is the first entry of a mapping; what differs for one cluster alone is named there."""
    assert difference(several(), several({**_BOTH, "policy": {"min_saving": 0.2}})) == {
        "policy.min_saving": (several().policy.min_saving, 0.2)
    }
    racks = {"racks": {"client_ids": {"a-*": "a"}}}
    assert difference(several(), several({**_BOTH, **racks})) == {"racks.client_ids.a-*": ("(not set)", "a")}
    assert difference(several({**_BOTH, **racks}), several()) == {"racks.client_ids.a-*": ("a", "(not set)")}
    east = {**_EAST, "groups": ["payments"]}
    assert difference(several(), several({**_BOTH, "clusters": {"east": east, "west": _WEST}})).keys() == {
        "clusters.east.groups"
    }
