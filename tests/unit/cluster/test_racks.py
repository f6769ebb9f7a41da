"""Where the rack of a member is from."""

from __future__ import annotations

import pytest

from samerack.cluster.racks import Hosts, MemberRack, Source, client_id_of, member_rack, placed
from samerack.cluster.view import BrokerRacks, ClusterView, NoRack, PartitionView
from samerack.settings.leading import RackSettings

SETTINGS = RackSettings(
    client_ids={"orders-a-*": "rack-a", "orders-*": "rack-b", "pod-[0-9]": "rack-c"},
    networks={
        "10.0.0.0/8": "rack-a",
        "10.1.0.0/16": "rack-b",
        "10.1.2.0/24": "rack-c",
        "2001:db8::/32": "rack-a",
        "2001:db8:1::/48": "rack-b",
    },
    fetch_with_rack=("*-kip392",),
)


def found(client_id: str = "client", host: str | None = None, rack_id: str | None = None) -> MemberRack:
    """The rack of one member with these settings."""
    return member_rack(SETTINGS, rack_id=rack_id, client_id=client_id, client_host=host)


def test_nothing_known_is_no_rack() -> None:
    """A member that no source knows has no rack."""
    nothing = MemberRack(rack=None, source="none", fetches_with_rack=False)
    assert found("client", "192.168.0.1") == nothing
    assert found("a-kip392") == nothing
    assert found("client", rack_id="") == nothing


@pytest.mark.parametrize(
    ("client_id", "rack"),
    [
        ("orders-a-1", "rack-a"),
        ("orders-b-1", "rack-b"),
        ("orders-a", "rack-b"),
        ("pod-7", "rack-c"),
        ("pod-77", None),
        ("Orders-a-1", None),
    ],
)
def test_the_first_pattern_that_matches_counts(client_id: str, rack: str | None) -> None:
    """Patterns are tried in the order of the settings, on the whole client id, with case."""
    assert found(client_id).rack == rack


@pytest.mark.parametrize(
    ("host", "rack"),
    [
        ("10.9.9.9", "rack-a"),
        ("10.1.9.9", "rack-b"),
        ("10.1.2.9", "rack-c"),
        ("11.0.0.1", None),
        ("2001:db8:2::1", "rack-a"),
        ("2001:db8:1::1", "rack-b"),
        ("2001:0db8:0001:0000:0000:0000:0000:0001", "rack-b"),
        ("2001:db9::1", None),
        ("fe80::1%eth0", None),
        ("pod.example", None),
        ("", None),
    ],
)
def test_the_longest_prefix_counts(host: str, rack: str | None) -> None:
    """The narrowest network that holds the host decides, for IPv4 and IPv6; a host without address has no network."""
    answer = found(host=host)
    assert answer.rack == rack
    assert answer.source == ("none" if rack is None else "network")


def test_members_that_fetch_with_their_rack_can_be_named() -> None:
    """A setting says which members without RackId fetch with their rack all the same."""
    assert found("orders-kip392").fetches_with_rack
    assert found("a-kip392", "10.0.0.1").fetches_with_rack
    assert not found("orders-1").fetches_with_rack


@pytest.mark.parametrize(
    ("member_id", "client_id"),
    [
        ("consumer-1-6d9f1c1e-3c5a-4a1e-9b6d-0123456789ab", "consumer-1"),
        ("kafka-python-3.0.12-6D9F1C1E-3C5A-4A1E-9B6D-0123456789AB", "kafka-python-3.0.12"),
        ("own-name", "own-name"),
        ("", ""),
    ],
)
def test_the_client_id_stands_in_the_member_id(member_id: str, client_id: str) -> None:
    """The suffix of the broker is removed; a member id of another form stays whole."""
    assert client_id_of(member_id) == client_id


def test_an_agent_beside_a_member_comes_before_the_maps_and_kubernetes_after() -> None:
    """An agent on the host knows its rack best; Kubernetes, which has to be asked, comes last."""
    hosts = Hosts(agents={"10.1.2.3": "rack-s"}.get, kubernetes={"10.1.2.3": "rack-k", "192.0.2.1": "rack-k"}.get)

    def rack_of(client_id: str, host: str | None, rack_id: str | None = None) -> tuple[str | None, str]:
        answer = member_rack(SETTINGS, rack_id=rack_id, client_id=client_id, client_host=host, hosts=hosts)
        assert answer.fetches_with_rack is (answer.source == "subscription")
        return answer.rack, answer.source

    assert rack_of("orders-a-1", "10.1.2.3", "rack-z") == ("rack-z", "subscription")
    assert rack_of("orders-a-1", "10.1.2.3") == ("rack-s", "agent")
    assert rack_of("orders-a-1", "192.0.2.1") == ("rack-a", "client-id")
    assert rack_of("orders-1", "10.1.9.9") == ("rack-b", "client-id")
    assert rack_of("client", "10.9.9.9") == ("rack-a", "network")
    assert rack_of("client", "192.0.2.1") == ("rack-k", "kubernetes")
    assert rack_of("client", None) == (None, "none")


@pytest.mark.parametrize(
    ("client_id", "rack"),
    [
        ("ws_az=us-east-1a", "us-east-1a"),
        ("warpstream_az=us-east-1a,ws_host_override=lb.example,orders", "us-east-1a"),
        ("orders,diskless_az=use1-az1", "use1-az1"),
        ("orders, diskless_az=use1-az1", "use1-az1"),
        ("loadtest;inkless_az=use1-az1", "use1-az1"),
        ("automq_type=consumer&automq_role=orders&automq_az=us-east-1a&orders-1", "us-east-1a"),
        ("automq_az=germanywestcentral%2F1&orders", "germanywestcentral/1"),
        ("orders,diskless_az=use1-az1-StreamThread-1-consumer", "use1-az1"),
        ("mm|diskless_az=use1-az1", "use1-az1"),
        ("diskless_az=use1-az1|east->west|MirrorSourceConnector|consumer", "use1-az1"),
        ("orders\tdiskless_az=use1-az1", "use1-az1"),
        ("orders,diskless_az=", None),
        ("shop-ws_az=use1-az1", None),
        ("orders,WS_AZ=use1-az1", None),
        ("ws_az", None),
    ],
)
def test_a_zone_in_the_client_id_is_a_rack(client_id: str, rack: str | None) -> None:
    """The conventions of WarpStream, Aiven and AutoMQ hold by default; on Apache Kafka no fetch has a rack for them."""
    source: Source = "client-convention" if rack is not None else "none"
    assert found(client_id) == MemberRack(rack=rack, source=source, fetches_with_rack=False)


def test_a_map_of_client_ids_comes_before_conventions_and_networks_after() -> None:
    """The user's own pattern wins over a convention, a convention over an address; without keys there is none."""

    def of(settings: RackSettings) -> tuple[str | None, str]:
        answer = member_rack(settings, rack_id=None, client_id="orders,ws_az=b", client_host="10.9.9.9")
        return answer.rack, answer.source

    networks = {"10.0.0.0/8": "c"}
    assert of(RackSettings(client_ids={"orders*": "a"}, networks=networks)) == ("a", "client-id")
    assert of(RackSettings(networks=networks)) == ("b", "client-convention")
    assert of(RackSettings(networks=networks, client_conventions=())) == ("c", "network")
    assert of(RackSettings(client_conventions=("zone",))) == (None, "none")


ALL = BrokerRacks(names=frozenset({"rack-a", "rack-b", "rack"}), complete=True)
SOME = BrokerRacks(names=frozenset({"rack-a", "rack-b"}), complete=False)


@pytest.mark.parametrize("source", ["subscription", "agent", "client-tag", "client-id", "network", "kubernetes"])
def test_a_rack_that_no_broker_has_is_not_known(source: Source) -> None:
    """Whatever says it; as long as a broker's rack is not known it may be that one's, and counts."""
    near, foreign = (MemberRack(rack=rack, source=source, fetches_with_rack=True) for rack in ("rack-a", "rack-a-0"))
    assert placed(near, ALL) is near
    assert placed(foreign, SOME) is foreign
    assert placed(foreign, BrokerRacks()) is foreign
    unknown = placed(foreign, ALL)
    assert (unknown.rack, unknown.foreign, unknown.named) == (None, "rack-a-0", "rack-a-0")
    assert placed(unknown, ALL) is unknown
    assert placed(unknown, SOME) == foreign
    nothing = MemberRack(rack=None, source="none", fetches_with_rack=False)
    assert placed(nothing, ALL) is nothing


@pytest.mark.parametrize(
    ("client_id", "brokers", "rack", "foreign"),
    [
        ("pay,diskless_az=rack-a-0", ALL, "rack-a", None),
        ("pay,diskless_az=rack-a-0", SOME, "rack-a", None),
        ("pay,diskless_az=rack-a-2-17", ALL, "rack-a", None),
        ("pay,diskless_az=rack-c", ALL, "rack", None),
        ("pay,diskless_az=cellar-0", ALL, None, "cellar-0"),
        ("pay,diskless_az=cellar-0", SOME, "cellar-0", None),
        ("pay,diskless_az=rack-a0", SOME, "rack-a0", None),
    ],
)
def test_what_is_appended_to_a_zone_in_a_client_id_is_cut_off(
    client_id: str, brokers: BrokerRacks, rack: str | None, foreign: str | None
) -> None:
    """Up to the hyphens after which the rest is a broker's rack, as Inkless does; the longest rest counts."""
    answer = placed(found(client_id), brokers)
    assert (answer.rack, answer.foreign, answer.source) == (rack, foreign, "client-convention")


def test_brokers_racks_are_all_known_if_those_of_replicas_are() -> None:
    """A broker that is away, or has no rack, may have any; without brokers nothing is known."""

    def of(brokers: dict[int, str | NoRack], *replicas: int) -> BrokerRacks:
        row = PartitionView(leader=1, replicas=replicas, in_sync=replicas)
        return ClusterView(brokers=brokers, topics={"t": (row,)}).racks

    assert of({1: "a", 2: "b"}, 1, 2) == BrokerRacks(names=frozenset("ab"), complete=True)
    assert of({1: "a", 2: "b"}, 1, 3) == BrokerRacks(names=frozenset("ab"), complete=False)
    assert of({1: "a", 2: NoRack.UNSET}, 1) == BrokerRacks(names=frozenset("a"), complete=False)
    assert of({}) == BrokerRacks()
