"""`samerack assign` with Kafka Streams: lines for programs, tables for people, and the page of the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from samerack.cli.main import app
from samerack.offline.streams_compare import ACTIVES, STANDBYS, compare_actives, compare_standbys
from tests.strategies_page import PAGE, instances, page

QUESTION: dict[str, Any] = {
    "kind": "active",
    "strategy": "min_traffic",
    "traffic_cost": 10,
    "non_overlap_cost": 1,
    "clients": [{"id": "A", "rack": "a", "threads": 1}, {"id": "B", "rack": "b", "threads": 1}],
    "tasks": [
        {"subtopology": 0, "partition": 0, "partitions": [{"topic": "t", "partition": 0, "racks": ["b"]}]},
        {"subtopology": 0, "partition": 1, "partitions": [{"topic": "t", "partition": 1, "racks": ["a"]}]},
    ],
    "assignment": {"A": ["0_0"], "B": ["0_1"]},
    "standby": {},
}

STATEFUL: dict[str, Any] = QUESTION | {
    "clients": [*QUESTION["clients"], {"id": "C", "rack": "b"}],
    "tasks": [
        {
            "subtopology": 0,
            "partition": 0,
            "stateful": True,
            "partitions": [
                {"topic": "t", "partition": 0, "racks": ["a"]},
                {"topic": "c", "partition": 0, "racks": ["b"], "source": False, "changelog": True},
            ],
        }
    ],
    "assignment": {"A": ["0_0"]},
    "num_standby_replicas": 1,
}


def run(*arguments: str, lines: list[Any] | None = None) -> Result:
    """Run the command with questions on its standard input."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines or [])
    return CliRunner().invoke(app, ["assign", *arguments], input=text, env={"COLUMNS": "200", "TERM": "dumb"})


def answers(*lines: Any) -> list[dict[str, Any]]:
    """The answers to these lines."""
    result = run("--lines", lines=list(lines))
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_optimised_plans_come_line_by_line() -> None:
    """Each question gets its answer, with its case, what it cost before and after, and the time it took."""
    (answer,) = answers(QUESTION | {"case": [7], "cmd": "streams-optimize", "repeat": 3})
    nanos = answer.pop("nanos")
    assert nanos > 0
    assert answer == {
        "assignment": {"A": ["0_1"], "B": ["0_0"]},
        "other": {"A": [], "B": []},
        "cost_initial": 20,
        "cross_rack_initial": 2,
        "cross_rack": 0,
        "moved": 2,
        "cost": 2,
        "disabled": None,
        "case": [7],
    }


def test_what_disabled_an_optimisation_is_reported() -> None:
    """A plan that is not changed has the reason."""
    blind = QUESTION | {"clients": [QUESTION["clients"][0], {"id": "B"}]}
    (answer,) = answers(blind)
    assert answer["assignment"] == QUESTION["assignment"]
    assert answer["disabled"]["reason"] == "client_without_rack"
    assert "client.rack" in answer["disabled"]["message"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "invalid JSON"),
        ("[1]", "object"),
        (QUESTION | {"case": 3, "clients": 5}, "key 'clients'"),
        (QUESTION | {"strategy": "fast"}, "strategy 'fast' is unknown"),
        (QUESTION | {"cmd": "consumer"}, "'cmd' is 'consumer'"),
        (QUESTION | {"assignment": {"Z": ["0_0"]}}, "client 'Z' has tasks, but is not listed"),
        (QUESTION | {"assignment": {"A": ["x"]}}, "invalid task id 'x'"),
        (QUESTION | {"tasks_to_optimize": ["5_5"]}, "task 5_5 should be optimised"),
        (QUESTION | {"assignment": {}, "tasks_to_optimize": ["0_0"]}, "task 0_0 is active nowhere"),
        (QUESTION | {"clients": [{"id": "A", "uuid": "x"}]}, "uuid 'x' of client 'A' is not valid"),
        (QUESTION | {"clients": [{"id": "A"}, {"id": "A"}]}, "two clients"),
        (QUESTION | {"clients": [{"id": "A", "threads": 0}]}, "0 threads"),
        (QUESTION | {"standby": {"A": ["0_0"]}}, "has task 0_0 as ACTIVE"),
        (
            QUESTION
            | {"tasks": [{"subtopology": 0, "partition": 0, "partitions": [{"topic": "t", "partition": 0}] * 2}]},
            "lists a topic partition twice",
        ),
    ],
)
def test_wrong_lines_get_an_error_and_do_not_end_the_talk(line: Any, message: str) -> None:
    """A wrong question gets an error with its case for an answer, and the next question is answered."""
    wrong, right = answers(line, QUESTION)
    assert set(wrong) - {"case"} == {"error", "message"}
    assert message.lower() in wrong["message"].lower()
    assert wrong.get("case") == (line.get("case") if isinstance(line, dict) else None)
    assert right["cost"] == 2


def test_default_standbys_come_line_by_line() -> None:
    """Standbys are added to actives, and tasks that lack standbys are named."""
    (answer, crowded) = answers(
        *(STATEFUL | {"cmd": "streams-default-standby", "num_standby_replicas": number} for number in (1, 3))
    )
    assert answer["active"] == {"A": ["0_0"], "B": [], "C": []}
    assert answer["standby"] == {"A": [], "B": ["0_0"], "C": []}
    assert answer["missing"] == {}
    assert crowded["missing"] == {"0_0": 1}


def test_whole_assignments_come_line_by_line() -> None:
    """A question with an assignor gets the whole plan, checked as Kafka checks it."""
    whole = {key: value for key, value in STATEFUL.items() if key not in ("assignment", "standby", "kind")}
    (answer, unknown) = answers(whole | {"assignor": "sticky"}, whole | {"assignor": "best"})
    assert sorted(task for tasks in answer["active"].values() for task in tasks) == ["0_0"]
    assert (answer["validation"], answer["unassigned"]) == ("NONE", [])
    assert "'best' is unknown" in unknown["message"]


def test_lines_may_be_about_groups_and_applications() -> None:
    """Each says which it is about, by what it has."""
    group = {"brokers": [{"id": 0, "rack": "a"}], "topics": {"t": [[0]]}, "members": [{"id": "m", "topics": ["t"]}]}
    of_group, of_application = answers(group, QUESTION)
    assert of_group["assignment"] == {"m": [["t", 0]]}
    assert of_application["assignment"] == {"A": ["0_1"], "B": ["0_0"]}


def written(tmp_path: Path, question: dict[str, Any]) -> str:
    """A file that holds the question."""
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(question), encoding="utf-8")
    return str(path)


def test_a_plan_is_a_table_for_people(tmp_path: Path) -> None:
    """Every client has a row with the tasks that it gains and loses, and the costs are below the table."""
    result = run(written(tmp_path, QUESTION))
    assert result.exit_code == 0
    assert "2 tasks on 2 clients" in result.output
    assert "-0_0 +0_1" in result.output
    assert "actives across racks: now 2 partitions, then 0; moved 2; cost now 20, then 2" in result.output


def test_a_plan_is_json_for_programs(tmp_path: Path) -> None:
    """The JSON object has the same content, standbys included."""
    result = run("--json", written(tmp_path, STATEFUL | {"standby": {"C": ["0_0"]}}))
    answer = json.loads(result.output)
    assert answer["active"]["after"] == {"A": ["0_0"], "B": [], "C": []}
    assert answer["standby"]["cost_after"] == {"cross_rack": 0, "moved": 0, "cost": 0}
    assert answer["spread"] == {"standbys": 1, "beside_active_rack": 0, "single_rack": 0}


def test_a_plan_says_what_racks_could_not_do(tmp_path: Path) -> None:
    """A plan that racks could not change has a note with the reason, and a warning where tags contradict racks."""
    tagged = QUESTION | {"strategy": "none", "rack_aware_assignment_tags": ["zone"]}
    result = run(written(tmp_path, tagged))
    assert "note: actives stay: rack.aware.assignment.strategy is none" in result.output
    assert "note: rack.aware.assignment.tags has no key `rack`" in result.output


def test_a_plan_by_an_assignor_starts_from_what_clients_had(tmp_path: Path) -> None:
    """With an assignor, the plan before is the previous assignment."""
    had = {"previous_active": {"A": ["0_0", "0_1"]}, "assignor": "sticky"}
    whole = {key: value for key, value in QUESTION.items() if key not in ("assignment", "standby", "kind")}
    answer = json.loads(run("--json", written(tmp_path, whole | had)).output)
    assert answer["active"]["before"] == {"A": ["0_0", "0_1"], "B": []}
    assert sorted(map(len, answer["active"]["after"].values())) == [1, 1]


UNPRICED = {key: value for key, value in STATEFUL.items() if not key.endswith("_cost") and key != "assignment"}
LAGS = {"lags": {client: {"0_0": 0} for client in "ABC"}, "previous_active": {"C": ["0_0"]}}


@pytest.mark.parametrize(("assignor", "traffic", "non_overlap"), [("ha", 10, 1), ("sticky", 1, 10)])
def test_a_plan_costs_what_its_assignor_counts(tmp_path: Path, assignor: str, traffic: int, non_overlap: int) -> None:
    """Without configured prices the assignor's own prices are used, not 0."""
    answer = json.loads(run("--json", written(tmp_path, UNPRICED | LAGS | {"assignor": assignor})).output)
    before, after = answer["active"]["cost_before"], answer["active"]["cost_after"]
    assert before == {"cross_rack": 1, "moved": 0, "cost": traffic}
    assert after["cost"] == traffic * after["cross_rack"] + non_overlap * after["moved"]


def test_what_has_no_price_costs_nothing_known(tmp_path: Path) -> None:
    """If neither assignor nor configuration gives a price, the cost is unknown, and the plan says what to set."""
    path = written(tmp_path, UNPRICED | {"assignment": {"C": ["0_0"]}})
    answer = json.loads(run("--json", path).output)
    assert answer["active"]["cost_after"] == {"cross_rack": 1, "moved": 0, "cost": None}
    assert "cost" not in run(path).output.partition("note:")[0]
    assert "set rack.aware.assignment.traffic_cost" in run(path).output


def test_overrides_and_chosen_tasks_count_in_a_plan(tmp_path: Path) -> None:
    """A plan for people uses the same prices and the same tasks as the line for programs."""
    chosen = QUESTION | {"tasks_to_optimize": ["0_0"]}
    assert json.loads(run("--json", written(tmp_path, chosen)).output)["active"]["cost_after"]["moved"] == 0
    expensive = QUESTION | {"non_overlap_cost_override": 100}
    assert json.loads(run("--json", written(tmp_path, expensive)).output)["active"]["cost_after"]["moved"] == 0


def test_standbys_without_a_client_are_reported(tmp_path: Path) -> None:
    """Of three standbys for two other clients one has no client, in the note and in the line."""
    crowded = UNPRICED | LAGS | {"assignor": "ha", "num_standby_replicas": 3}
    output = run(written(tmp_path, crowded)).output
    assert "note: standbys without a client: 1 (of 0_0); start more clients, or lower num.standby.replicas" in output
    assert answers(crowded)[0]["missing_standbys"] == {"0_0": 1}


def test_without_lags_there_is_another_assignor(tmp_path: Path) -> None:
    """`ha` needs lags; the error says how to give them, and which assignor Kafka uses without them."""
    result = run(written(tmp_path, UNPRICED | {"assignor": "ha"}))
    assert result.exit_code == 2
    assert "Give 'lags'" in result.output
    assert "'fallback-prior'" in result.output
    assert run(written(tmp_path, UNPRICED | {"assignor": "fallback-prior"})).exit_code == 0


def test_consumers_of_a_client_may_have_different_racks(tmp_path: Path) -> None:
    """A client whose consumers have different racks has no rack, and the plan names these racks."""
    torn = QUESTION | {"clients": [{"id": "A", "rack": ["a", "b"]}, {"id": "B", "rack": ["b", "b"]}]}
    output = run(written(tmp_path, torn)).output
    assert "have different racks ('a', 'b'): set one client.rack there" in output


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (QUESTION | {"assignment": {}}, "no client has a task"),
        (QUESTION | {"asignment": {}}, "key 'asignment' is unknown"),
        (QUESTION | {"assignor": "best"}, "'best' is unknown"),
        (QUESTION | {"assignor": "ha", "clients": [], "tasks": []}, "no client to assign tasks to"),
    ],
)
def test_a_wrong_file_gives_one_line(tmp_path: Path, question: dict[str, Any], message: str) -> None:
    """A question that cannot be planned gives one line on standard error, and exit code 2."""
    result = run(written(tmp_path, question))
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert message in result.output


def test_a_file_that_is_not_there_gives_one_line() -> None:
    """A missing file is one line on standard error, and exit code 2."""
    result = run("/nowhere/at/all.json")
    assert (result.exit_code, result.output.count("\n")) == (2, 1)


def test_strategies_can_be_compared_on_an_own_application(tmp_path: Path) -> None:
    """Every strategy has a row for the application in the file."""
    answer = json.loads(run("--compare", "--json", written(tmp_path, STATEFUL)).output)
    assert [row["strategy"] for row in answer["active"]] == list(ACTIVES)
    assert [row["strategy"] for row in answer["standby"]] == list(STANDBYS)
    assert {row["instance"] for row in answer["active"]} == {"mine"}
    assert run("--compare", written(tmp_path, QUESTION)).output.startswith("| application | strategy |")


def test_what_is_for_the_other_kind_is_refused(tmp_path: Path) -> None:
    """Strategies are compared for applications, and uneven loads are shown for groups; a file has one of them."""
    group = written(tmp_path, {"brokers": [], "topics": {}, "members": []})
    assert "--compare is for Streams applications" in run("--compare", group).output
    assert "--curve is for consumer groups" in run("--curve", written(tmp_path, QUESTION)).output
    assert run("--compare").exit_code == 2


def test_an_assignor_may_be_given_beside_the_file(tmp_path: Path) -> None:
    """It plans the whole assignment, as one that the file names."""
    whole = {key: value for key, value in QUESTION.items() if key not in ("assignment", "standby", "kind")}
    answer = json.loads(run("--json", "-a", "sticky", written(tmp_path, whole)).output)
    assert sorted(map(len, answer["active"]["after"].values())) == [1, 1]


def test_the_strategies_page_is_made() -> None:
    """docs/strategies.md is made by `python -m tests.strategies_page`; run it again where this fails."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_the_strategies_page_is_in_the_right_order() -> None:
    """The exact strategies cost least on all applications, as the page says."""
    for rows in (compare_actives(instances()), compare_standbys(instances())):
        for name in {row["instance"] for row in rows}:
            costs = {row["strategy"]: row["cost"] for row in rows if row["instance"] == name}
            assert min(costs.values()) == costs["min_traffic"]
