"""What the agent's settings and knowledge change in an application before it is planned."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from samerack.agent.streams.context import PlanContext, PlanRules, Rackless
from samerack.agent.streams.figures import planned_text
from samerack.agent.streams.making import MadePlan, PlanError, make
from samerack.agent.streams.own_assignors import OwnAssignors
from samerack.agent.streams.question import PlanQuestionError, read_question
from samerack.agent.streams.service import client_racks
from samerack.agent.streams.worker import summary
from samerack.assignors.streams.assignment import TaskType
from samerack.cluster.racks import Hosts
from samerack.cluster.view import BrokerRacks
from samerack.settings.leading import RackSettings
from samerack.traffic.snapshot import GroupTraffic
from tests.streams_http import Json
from tests.unit.agent.measured import group

RACKS = ("a", "b", "c")


def application(*, tasks: int = 12, standbys: int = 1, racked: bool = True) -> Json:
    """Three clients in three racks; task n reads partition n of one topic, with one replica in rack n mod 3."""
    return {
        "version": 1,
        "application": "orders",
        "release": "4.3.1",
        "configs": {"num_standby_replicas": standbys},
        "topics": ["t", "orders-store-changelog"],
        "racks": [*RACKS],
        "tasks": [[f"0_{n}", 1, [[0, n, 1, [n % 3]], [1, n, 2, [n % 3]]]] for n in range(tasks)],
        "clients": [
            {
                "process": f"{number:032x}",
                "threads": 1,
                "consumers": [f"orders-{number}-StreamThread-1-consumer"],
                "active": list(range(number % 3, tasks, 3)),  # each reads from the rack after its own
                "standby": [],
                "lags": [[task, -2] for task in range(number % 3, tasks, 3)],
                "rack": number - 1 if racked else None,
            }
            for number in (1, 2, 3)
        ],
        "lags": [[task, 0] for task in range(tasks)],
    }


def plan(question: Json, **known: Any) -> MadePlan:
    """The plan of a question, with rules and knowledge of the agent."""
    rules = PlanRules(**known.pop("rules", {}))
    return make(
        read_question(json.dumps(question).encode()), PlanContext(rules=rules, **known), OwnAssignors(), now_ms=0
    )


def test_settings_have_priority_over_the_applications_configuration() -> None:
    """The strategy of the settings replaces that of the application."""
    before = summary(plan(application()), plan="1")
    assert any("strategy is none" in warning for warning in before.warnings)
    after = summary(plan(application(), rules={"strategy": "min_traffic"}), plan="2")
    assert (after.sources_before, after.sources_after) == (12, 0)
    assert after.warnings == ()


def test_clients_without_a_rack_get_the_one_that_the_agent_knows() -> None:
    """They count as near from then on, and a warning says what they still lack."""
    racks = {f"00000000-0000-0000-0000-{number:012x}": rack for number, rack in enumerate(RACKS, start=1)}
    rules = {"strategy": "min_traffic"}
    unknown = summary(plan(application(racked=False), rules=rules), plan="1")
    assert (unknown.sources_after, unknown.changelogs_after, unknown.cost_after) == (None, None, None)
    known = summary(plan(application(racked=False), rules=rules, racks=racks), plan="2")
    assert known.sources_after == 0
    assert "set their client.rack" in known.warnings[0]


@pytest.mark.parametrize("assignor", ["ha", "sticky"])
def test_racks_count_once_the_rack_of_every_client_is_known(assignor: str) -> None:
    """With one client whose rack neither it nor the agent names, the plan is that of the strategy `none`."""
    question, rules = application(), {"assignor": assignor, "strategy": "min_traffic"}
    question["clients"][0]["rack"] = None
    question["configs"] |= {"rack_aware_traffic_cost": 10, "rack_aware_non_overlap_cost": 1}
    for n, (_, _, (source, _)) in enumerate(question["tasks"]):
        source[3] = [n // 4]
    unknown = plan(question, rules=rules, racks={})
    assert unknown.plan == plan(question, rules=rules | {"strategy": "none"}, racks={}).plan
    assert "has no rack: set client.rack there" in unknown.warnings[0]
    known = plan(question, rules=rules, racks={"00000000-0000-0000-0000-000000000001": "a"})
    assert summary(known, plan="1").sources_after == 0
    assert not [warning for warning in known.warnings if "racks do not count" in warning]


def test_what_clients_without_client_rack_read_is_not_known_where_the_leaders_rack_is_not() -> None:
    """They read from leaders only: a replica in their rack may be a follower; without one the leader is elsewhere."""
    racks = {f"00000000-0000-0000-0000-{number:012x}": rack for number, rack in enumerate(RACKS, start=1)}
    rules = {"strategy": "min_traffic"}
    question = application(racked=False)
    for n, (_, _, (source, _)) in enumerate(question["tasks"]):
        source[3] = [n % 3, (n + 1) % 3]
    found = summary(plan(question, rules=rules, racks=racks), plan="1")
    assert (found.sources_before, found.sources_after, found.share_after, found.cost_after) == (12, None, None, None)
    assert "sources across racks 12 > -" in planned_text(found)
    for _, _, (source, _) in question["tasks"]:
        source[3] = [0, 1]
    far = summary(plan(question, rules=rules, racks=dict.fromkeys(racks, "c")), plan="2")
    assert (far.sources_before, far.sources_after) == (12, 12)
    for client in question["clients"]:
        client["rack"] = 0
    assert summary(plan(question, rules=rules), plan="3").sources_after == 0


def test_weights_by_bytes_decide_which_task_reads_across_racks() -> None:
    """With one place too few in a rack, the partition that carries the fewest bytes goes elsewhere."""
    question = application(tasks=6, standbys=0)
    for task in question["tasks"]:
        task[1] = 0  # without state nothing has to be warm
    for n, task in enumerate(question["tasks"]):
        task[2] = [[0, n, 1, [0 if n < 4 else 1]]]  # four tasks at home in rack a, which has two places
    question["clients"] = [one | {"active": [], "lags": []} for one in question["clients"]]
    question["lags"] = []
    weights = {"t": (100, 1, 1, 50, 10, 10)}
    rules = {"strategy": "min_traffic", "weights": "bytes", "assignor": "ha"}
    planned = plan(question, rules=rules, weights=weights)
    first, second, _ = planned.plan.values()
    assert sorted(task.partition for task in first.tasks) == [0, 3]
    assert sorted(task.partition for task in second.tasks) == [4, 5]
    assert summary(planned, plan="1").sources_after == 2


def test_bytes_that_are_not_known_fall_back_to_partitions_and_the_answer_says_so() -> None:
    """Without any measured bytes plans are those without weights; where some lack, they count as the average."""
    rules = {"strategy": "min_traffic", "weights": "bytes"}
    nothing = plan(application(), rules=rules)
    assert nothing.plan == plan(application(), rules={"strategy": "min_traffic"}).plan
    assert "no bytes of orders are measured" in nothing.warnings[0]
    some = plan(application(), rules=rules, weights={"t": (2,) * 12})
    assert "12 of 24 partitions are not measured" in some.warnings[0]
    assert some.plan == nothing.plan  # all alike


def test_standbys_go_to_other_racks_where_the_settings_ask_for_it() -> None:
    """With `standby: apart` no standby is in its active's rack, although reading there would cost nothing."""
    question = application()
    question["clients"] += [
        one | {"process": f"{9 + number:032x}", "active": [], "lags": [], "consumers": []}
        for number, one in enumerate(question["clients"])
    ]
    question["configs"] |= {"rack_aware_traffic_cost": 1000, "rack_aware_non_overlap_cost": 0}
    for standby, together in (("configured", True), ("apart", False)):
        planned = plan(question, rules={"strategy": "min_traffic", "standby": standby})
        racks = {process: state.rack_id for process, state in planned.state.states.items()}
        placed: dict[Any, list[str | None]] = {}
        for process, one in planned.plan.items():
            for task in one.tasks:
                placed.setdefault(task, []).append(racks[process])
        assert any(len(set(found)) == 1 for found in placed.values()) == together
    without = plan(application(racked=False), rules={"standby": "apart"})
    assert any("standby: apart has no effect" in warning for warning in without.warnings)


@pytest.mark.parametrize(("rules", "lags"), [({}, None), ({"assignor": "fallback-prior"}, {})])
def test_without_lags_tasks_stay_until_the_next_probing_rebalance(rules: dict[str, str], lags: object) -> None:
    """As Kafka does: no plan of `ha` without lags. Found: each rebalance asked for the next one at once."""
    question = application()
    question["configs"]["probing_rebalance_interval_ms"] = 60_000
    if lags is None:
        question["clients"][0]["lags"] = None
    planned = plan(question, rules=rules)
    assert planned.assignor == "fallback-prior"
    followup = summary(planned, plan="1").followup_ms
    assert followup == 60_000
    if rules:
        return
    assert "could not compute lags" in planned.warnings[0]


def test_an_assignor_that_is_not_here_is_a_refusal_with_the_names() -> None:
    """A name that no assignor has is no crash."""
    with pytest.raises(PlanError, match="'best' is unknown"):
        plan(application(), rules={"assignor": "best"})


def test_a_question_names_no_class() -> None:
    """Nothing is imported and called because a program on this machine asks for it; only the settings name classes."""
    question = application()
    question["configs"]["assignor"] = "webbrowser:get"
    sys.modules.pop("webbrowser", None)
    with pytest.raises(PlanQuestionError, match="expected ha, sticky or null, not 'webbrowser:get'"):
        plan(question)
    assert "webbrowser" not in sys.modules


def test_what_clients_had_that_are_gone_is_not_known() -> None:
    """Cross-rack reads before are null where a task's previous client is not in the question."""
    question = application()
    del question["clients"][2]
    figures = summary(plan(question, rules={"strategy": "min_traffic"}), plan="1")
    assert (figures.sources_before, figures.before, figures.share_before) == (None, None, None)
    assert (figures.changelogs_before, figures.cost_before) == (None, None)
    assert figures.sources_after is not None
    assert figures.changelogs_after is not None


def test_a_task_that_no_client_had_is_not_moved() -> None:
    """The first plan of an application moves nothing; of one with a client that is gone only what others had counts."""
    question = application()
    for client in question["clients"]:
        client["active"] = []
    assert summary(plan(question), plan="1").moved == 0
    question["clients"][0]["active"] = list(range(12))
    question["clients"][0]["lags"] = []
    planned = plan(question, rules={"assignor": "sticky"})
    first = next(iter(planned.plan.values()))
    assert summary(planned, plan="1").moved == 12 - len(first.of_type(TaskType.ACTIVE)) > 0


def test_racks_come_from_the_sources_of_members_racks() -> None:
    """An agent beside the client, its tags and its client id are asked, in this order."""
    settings = RackSettings(client_ids={"orders-*": "c"}, client_tags=("zone",))
    find = client_racks(
        settings,
        group=lambda _: None,
        hosts=Hosts(agents={"10.0.0.7": "a", "10.0.0.9": "cellar"}.get),
        brokers=lambda: BrokerRacks(names=frozenset("abc"), complete=True),
    )
    client = Rackless(process="1", consumers=("orders-1-consumer",), host=None, tags=())
    clients = (
        client,
        replace(client, process="2", tags=(("zone", "b"),)),
        replace(client, process="3", tags=(("zone", "b"),), host="10.0.0.7"),
        replace(client, process="4", consumers=("other",)),
        replace(client, process="5", host="10.0.0.9"),  # a rack that no broker has is not known
    )
    assert find("orders", clients) == {"1": "c", "2": "b", "3": "a"}


def test_members_of_the_group_are_looked_up_by_id_and_by_client_id() -> None:
    """The group is read once for all clients; racks of one client's consumers that differ are not known."""
    read: list[str] = []

    def members(application: str) -> GroupTraffic:
        read.append(application)
        return group(application, members={"m1": "a", "m2": "b", "m3": "c"})

    find = client_racks(RackSettings(), group=members, hosts=Hosts(), brokers=BrokerRacks)
    client = Rackless(process="1", consumers=("client-m1",), host=None, tags=())
    clients = (
        client,
        replace(client, process="2", consumers=("m2", "client-m2")),
        replace(client, process="3", consumers=("client-m1", "m3")),
    )
    assert find("orders", clients) == {"1": "a", "2": "b"}
    assert read == ["orders"]
