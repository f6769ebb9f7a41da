"""Default standbys: their number and clients, KIP-708's spread by tags, missing standbys, and Java's order of tasks."""

from __future__ import annotations

from samerack.assignors.streams.application import TaskId, task_id
from samerack.assignors.streams.assignment import TaskType
from samerack.assignors.streams.default_standby import default_standby_task_assignment
from samerack.assignors.streams.java_sets import task_hash, tasks_in_java_order
from samerack.offline.streams_json import Application, StreamsQuestion
from tests.unit.assignors.streams.questions import standby_question


def test_standbys_go_to_the_least_loaded_clients_that_lack_the_task() -> None:
    """Every task with a changelog gets its standbys, each on another client, while there are enough clients."""
    for seed in range(60):
        application = Application(StreamsQuestion.model_validate(standby_question(seed)))
        state = application.state
        wanted = state.assignment_configs.num_standby_replicas
        plan = default_standby_task_assignment(state, application.assignments())
        for task, info in state.all_tasks.items():
            have = [p for p, a in plan.assignments.items() if a.tasks.get(task) is TaskType.STANDBY]
            expected = min(wanted, len(state.states) - 1) if info.is_changelogged else 0
            assert len(have) == expected
            assert plan.missing.get(task, 0) == (wanted - expected if info.is_changelogged else 0)


def test_kip_708_tags_come_before_load() -> None:
    """A standby goes to another zone even if its own zone has an idle client; once all zones are used, load decides."""
    question = {
        "clients": [
            {"id": name, "rack": "a", "tags": {"zone": zone}} for name, zone in (("A", "z1"), ("B", "z1"), ("C", "z2"))
        ],
        "tasks": [
            {
                "subtopology": 0,
                "partition": number,
                "stateful": True,
                "partitions": [{"topic": "c", "partition": number, "source": False, "changelog": True}],
            }
            for number in range(3)
        ],
        "assignment": {"A": ["0_0"], "C": ["0_1", "0_2"]},
        "num_standby_replicas": 1,
        "rack_aware_assignment_tags": ["zone"],
    }
    application = Application(StreamsQuestion.model_validate(question))
    plan = default_standby_task_assignment(application.state, application.assignments())
    places = {
        str(task): application.name[process]
        for process, assignment in plan.assignments.items()
        for task in assignment.of_type(TaskType.STANDBY)
    }
    assert places == {"0_0": "C", "0_1": "B", "0_2": "A"}
    two = Application(StreamsQuestion.model_validate(question | {"num_standby_replicas": 2}))
    full = default_standby_task_assignment(two.state, two.assignments())
    assert full.missing == {}
    assert all(len(assignment.tasks) == 3 for assignment in full.assignments.values())


def test_no_standbys_are_wanted_no_standbys_come() -> None:
    """With tags and no standbys configured none is placed; Kafka's utility places one, as `at_least_one` does."""
    question = standby_question(5) | {"num_standby_replicas": 0, "rack_aware_assignment_tags": ["zone"]}
    clients = [client | {"rack": "a", "tags": {"zone": str(n)}} for n, client in enumerate(question["clients"])]
    application = Application(StreamsQuestion.model_validate(question | {"clients": clients}))
    before = application.assignments()
    assert default_standby_task_assignment(application.state, before).assignments == before
    one_more = default_standby_task_assignment(application.state, before, at_least_one=True)
    assert one_more.assignments != before
    assert one_more.missing == {}


def test_java_order_is_that_of_a_hash_set() -> None:
    """Tasks are ordered by bucket of `Objects.hash(subtopology, partition, null)`, within a bucket by insertion."""
    assert task_hash(TaskId(subtopology=0, partition=0)) == 31**3
    assert task_hash(TaskId(subtopology=1, partition=2)) == ((31 + 1) * 31 + 2) * 31
    tasks = [task_id(f"0_{number}") for number in range(20)]
    listed = tasks_in_java_order(tasks)
    assert sorted(listed) == tasks
    assert listed != tasks
    assert tasks_in_java_order([]) == []
    collide = [task_id("0_0"), task_id("0_64")]
    assert tasks_in_java_order(collide) == collide
    assert tasks_in_java_order(collide[::-1]) == collide[::-1]
