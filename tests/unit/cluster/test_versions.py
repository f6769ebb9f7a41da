"""What brokers support by their answers, what the agent does without it, and the oldest release that it leads on."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, TypeAlias

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS, BrokerVersionData
from kafka.protocol.consumer.group import JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from structlog.testing import capture_logs

from samerack.cluster.group_member import JOIN_VERSION, SYNC_VERSION
from samerack.cluster.group_questions import fetch_offsets
from samerack.cluster.versions import FEATURES, FLOOR, TESTED, BrokerVersions, Feature, Ranges, versions_of
from samerack.cluster.wire import BrokerRequest
from tests.docs import ROOT
from tests.unit.cluster.scripted_wire import ScriptedBrokerClient, versions_response

Release: TypeAlias = tuple[int, ...]


def _answer(release: Release) -> tuple[str, Ranges]:
    """What a broker of this release answered once, in the form of kafka-python."""
    return ".".join(map(str, release)), BROKER_API_VERSIONS[release]


def _number(release: str) -> Release:
    return tuple(map(int, release.split(".")))


@pytest.mark.parametrize("wanted", FEATURES, ids=lambda one: one.name)
def test_a_release_named_is_the_first_that_has_the_feature(wanted: Feature) -> None:
    """The releases are checked with the answers of real brokers since 0.11."""
    having = [release for release, ranges in sorted(BROKER_API_VERSIONS.items()) if wanted.is_in(ranges)]
    assert min(having) == _number(wanted.since)


@pytest.mark.parametrize("release", [_number(release) for release in TESTED], ids=str)
def test_releases_that_are_tested_lack_nothing(release: Release) -> None:
    """A tested release has every feature."""
    found = versions_of([_answer(release)])
    assert (found.missing, found.unsupported_reason) == ((), "")


def test_the_floor_is_the_first_release_with_all_that_is_required() -> None:
    """On an older release no group is led, and the reason names the missing features and the release needed."""
    assert versions_of([_answer(_number(FLOOR))]).unsupported_reason == ""
    assert versions_of([_answer((2, 3))]).unsupported_reason == (
        "the oldest broker is Kafka 2.3, without leaving by member id (LeaveGroup v3), instance ids of members "
        "(DescribeGroups v4); leading needs Kafka 2.4"
    )


def test_the_oldest_broker_decides() -> None:
    """While brokers are replaced one by one, a feature that one of them lacks is not used."""
    found = versions_of([_answer((4, 3)), _answer((2, 8)), _answer((4, 3))])
    assert found.releases == ("2.8", "4.3")
    assert [one.name for one in found.missing] == [
        "measuring what is read",
        "reasons for joining",
        "a restarted leader still leads",
        "groups that brokers assign",
    ]
    assert found.unsupported_reason == ""


@pytest.mark.parametrize(("release", "knows"), [((2, 8), False), ((3, 0), True)])
def test_brokers_that_are_not_asked_for_commits_lack_measuring(release: Release, *, knows: bool) -> None:
    """A broker has the feature if the client can ask it for the commits of groups."""
    assert all(one.name != "measuring what is read" for one in versions_of([_answer(release)]).missing) is knows
    with nullcontext() if knows else pytest.raises(kafka_errors.UnsupportedVersionError):
        BrokerVersionData(api_versions=BROKER_API_VERSIONS[release]).api_version(fetch_offsets(["orders"]))


@pytest.mark.parametrize(
    ("release", "join", "sync"), [((2, 4), 6, 4), ((2, 8), 7, 5), ((3, 1), 7, 5), ((3, 9), 9, 5), ((4, 3), 9, 5)]
)
def test_requests_are_sent_in_versions_that_older_brokers_know(release: Release, join: int, sync: int) -> None:
    """The client uses the lower of its own and the broker's version, without fields that this version lacks."""
    brokers = BrokerVersionData(api_versions=BROKER_API_VERSIONS[release])
    joining = JoinGroupRequest(
        group_id="orders",
        session_timeout_ms=9000,
        rebalance_timeout_ms=10000,
        member_id="",
        group_instance_id="samerack",
        protocol_type="consumer",
        protocols=[("range", b"")],
        reason="samerack: follows the group",
        max_version=JOIN_VERSION,
    )
    syncing = SyncGroupRequest(
        group_id="orders",
        generation_id=1,
        member_id="m",
        group_instance_id="samerack",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[("m", b"")],
        max_version=SYNC_VERSION,
    )
    leaving = LeaveGroupRequest(
        group_id="orders",
        member_id="m",
        members=[LeaveGroupRequest.MemberIdentity(member_id="m", group_instance_id="samerack", reason="stops")],
    )
    for request, version in ((joining, join), (syncing, sync), (leaving, None)):
        request.API_VERSION = brokers.api_version(request)
        assert version in (None, request.API_VERSION)
        assert request.encode()


def test_every_broker_is_asked_and_a_silent_one_changes_nothing() -> None:
    """The result is logged when it changes, as is a release on which nothing can be led."""
    releases: dict[int, Release | None] = {1: (4, 3), 2: (3, 9)}

    def respond(question: BrokerRequest) -> Any:
        release = releases[question.broker]
        return (
            kafka_errors.RequestTimedOutError() if release is None else versions_response(BROKER_API_VERSIONS[release])
        )

    versions, wire = BrokerVersions(), ScriptedBrokerClient(respond)
    assert (versions.unsupported_reason(), versions.summary()["releases"]) == ("", [])
    with capture_logs() as logs:
        assert versions.ask(wire, (2, 1))
        assert versions.ask(wire, (2, 1))
        assert versions.summary()["releases"] == ["3.9", "4.3"]
        releases[2] = None
        assert not versions.ask(wire, (2, 1))
        assert versions.summary()["releases"] == ["3.9", "4.3"]
        releases[2] = (2, 3)
        assert versions.ask(wire, (2, 1))
    assert "the oldest broker is Kafka 2.3" in versions.unsupported_reason()
    assert [line["event"] for line in logs] == [
        "broker-versions",
        "versions-unknown",
        "broker-versions",
        "brokers-too-old",
    ]


def test_the_page_has_the_table() -> None:
    """docs/operating.md lists each feature, its release and what is done without."""
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    for one in FEATURES:
        assert f"| {one.name} | {one.api} v{one.version} | {one.since} | {one.without} |" in page
