"""A live application becomes KIP-924's model, from the bytes that its clients write, and says what it lacks."""

from __future__ import annotations

from uuid import UUID

from samerack.assignors.streams.application import LATEST_OFFSET, AssignmentConfigs, ProcessId, task_id
from samerack.assignors.streams.assignment import TaskType
from samerack.cluster.view import ClusterView, NoRack
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.values import Subscription
from samerack.traffic.streams_application import NO_STATE, Brokers, LiveApplication, application_of, standbys_now
from samerack.traffic.streams_instances import Instances, match
from tests.unit.agent.values import Described
from tests.unit.traffic.live_streams import COUNTING, counting_cluster, instances, thread

ENDS = {("app-counts-changelog", 0): 100, ("app-counts-changelog", 1): 50}


def live(
    found: Instances, *, cluster: ClusterView | None = None, aware: bool = True, ends: dict[tuple[str, int], int] = ENDS
) -> LiveApplication:
    """The application of these clients, with its one changelog."""
    brokers = Brokers(cluster=cluster or counting_cluster(), rack_aware_fetch=aware, end_offsets=ends)
    logs = match("app", {"app-counts-changelog": 2}, found.sources, stateful=found.stateful, given={})
    return application_of(found, logs, brokers, AssignmentConfigs())


def test_clients_are_processes_with_their_threads() -> None:
    """Members of one process are one client: threads, tasks and state of all of them."""
    found = instances(
        thread(1, {"0_0": [("in", 0)]}, rack="a", followup=5_000),
        thread(1, {"0_1": [("in", 1)]}, rack="a", name="2", sums={"0_1": 7}, standby={"0_2": [("in", 2)]}),
    )
    (client,) = found.clients
    assert sorted(map(str, client.active)) == ["0_0", "0_1"]
    assert sorted(map(str, client.standby)) == ["0_2"]
    assert {str(one): offsets for one, offsets in client.offset_sums.items()} == {"0_1": 7}
    assert (client.followup_ms, len(client.members)) == (5_000, 2)
    assert [str(one) for one, _ in found.sources] == ["0_0", "0_1", "0_2"]


def test_an_application_is_what_its_assignor_would_see() -> None:
    """Threads, racks, previous tasks, changelogs and lags: end offsets less what a client says it has."""
    found = instances(*COUNTING)
    application = live(found)
    first, second = application.state.states.values()
    assert (first.rack_id, second.rack_id) == ("a", "b")
    assert first.lags == {task_id("1_0"): 100, task_id("1_1"): LATEST_OFFSET}
    assert second.lags == {task_id("1_0"): LATEST_OFFSET, task_id("1_1"): 0}  # a standby now
    infos = application.state.all_tasks
    assert [str(task) for task, info in infos.items() if info.is_stateful] == ["1_0", "1_1"]
    parts = {
        (part.topic, part.is_source, part.is_changelog): part.racks for part in infos[task_id("1_0")].topic_partitions
    }
    assert parts == {
        ("app-counts-changelog", False, True): frozenset("ab"),
        ("app-counts-repartition", True, False): frozenset("a"),
    }
    assert application.changelogs_known
    assert application.end_offsets_known
    assert standbys_now(found) == 1
    assert [one.what for one in application.unknown] == ["lags of 1 standbys"]


def test_only_leaders_are_near_without_a_rack_aware_selector() -> None:
    """Brokers that serve from leaders make only the leader's rack near."""
    application = live(instances(*COUNTING), aware=False)
    (log,) = (part for part in application.state.all_tasks[task_id("1_0")].topic_partitions if part.is_changelog)
    assert log.racks == frozenset("a")


def test_a_client_with_old_state_has_a_lag() -> None:
    """What a client said to have of a task that it no longer has counts from there; what it ran then, from nothing."""
    found = instances(
        thread(1, {"1_0": [("app-counts-repartition", 0)]}, sums={"1_0": -2, "1_1": 40}),
        thread(2, {"1_1": [("app-counts-repartition", 1)]}, sums={"1_0": LATEST_OFFSET, "1_1": 90}),
    )
    first, second = live(found).state.states.values()
    assert first.lags == {task_id("1_0"): LATEST_OFFSET, task_id("1_1"): 10}
    assert second.lags == {task_id("1_0"): 100, task_id("1_1"): LATEST_OFFSET}


def test_lags_without_end_offsets_are_not_known() -> None:
    """Where brokers report no end of a changelog, clients without state count as far behind, and that is said."""
    application = live(instances(*COUNTING), ends={})
    assert (application.state.states[ProcessId(uuid=UUID(int=1))].lags or {})[task_id("1_0")] == NO_STATE
    assert not application.end_offsets_known
    assert "lags of clients without a task" in [one.what for one in application.unknown]


def test_a_changelog_of_no_known_subtopology_decides_nothing() -> None:
    """Where a changelog may be of several subtopologies, their state is near everywhere, and that is said."""
    members = (
        thread(1, {"0_0": [("in", 0)], "1_1": [("u", 1)]}, rack="a", sums={"0_0": -2, "1_1": -2}),
        thread(2, {"0_1": [("in", 1)], "1_0": [("u", 0)]}, rack="b"),
    )
    application = live(instances(*members))
    assert not application.changelogs_known
    for info in application.state.all_tasks.values():
        (log,) = (part for part in info.topic_partitions if part.is_changelog)
        assert log.racks == frozenset("abc")
    (one,) = (one for one in application.unknown if one.what == "changelog app-counts-changelog")
    assert "subtopologies 0, 1 have 2 tasks each" in one.cause
    assert "--changelog app-counts-changelog=SUBTOPOLOGY" in one.cause


def test_racks_that_are_not_known_are_reported() -> None:
    """A client without rack, and partitions with a broker that is away, are null with their causes."""
    silent = thread(3, {}, sums={"1_0": 3})
    away = ClusterView(brokers={1: "a", 2: NoRack.UNSET}, topics=counting_cluster().topics)
    application = live(instances(*COUNTING, silent), cluster=away)
    causes = {one.what: one.cause for one in application.unknown}
    assert "set client.rack there" in causes[f"rack of client {UUID(int=3)}"]
    assert "racks of 4 partitions, app-counts-changelog-0 among them" in causes


def test_a_clients_rack_that_no_broker_has_is_reported() -> None:
    """Kafka's own assignors plan with it all the same."""
    application = live(instances(*COUNTING, thread(3, {}, rack="cellar")))
    causes = {one.what: one.cause for one in application.unknown}
    assert causes[f"rack of client {UUID(int=3)}"].startswith("no broker has the rack 'cellar'")
    assert application.state.states[ProcessId(uuid=UUID(int=3))].rack_id == "cellar"


def test_a_member_that_cannot_be_read_is_reported() -> None:
    """A SubscriptionInfo of a newer version hides the process; the others are read all the same."""
    newer = Described(
        member_id="new",
        member_metadata=_subscription((99).to_bytes(4, "big") + (99).to_bytes(4, "big")),
        member_assignment=COUNTING[0].member_assignment,
    )
    found = instances(COUNTING[1], newer)
    assert len(found.clients) == 1
    (one,) = found.unknown
    assert one.what == "member new"
    assert "newer than version 11" in one.cause


def test_present_tasks_are_those_of_the_assignments() -> None:
    """What clients have now is what they were assigned, not what they ran when they joined."""
    application = live(instances(*COUNTING))
    tasks = {
        process.uuid.int: (
            sorted(map(str, one.of_type(TaskType.ACTIVE))),
            sorted(map(str, one.of_type(TaskType.STANDBY))),
        )
        for process, one in application.present.items()
    }
    assert tasks == {1: (["0_0", "1_1"], []), 2: (["0_1", "1_0"], ["1_1"])}


def _subscription(user_data: bytes) -> bytes:
    return encode_subscription(Subscription(topics=("in",), user_data=user_data))
