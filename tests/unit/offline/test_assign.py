"""`samerack assign` answers with a table for people and line by line for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from samerack.assignors.consumer.registry import ASSIGNORS
from samerack.offline import assign
from samerack.protocol.sticky import encode_cooperative_sticky, encode_sticky
from samerack.protocol.values import from_pairs

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

GROUP: dict[str, Any] = {
    "assignor": "optimal",
    "brokers": [{"id": 0, "rack": "a"}, {"id": 1, "rack": "b"}],
    "topics": {"t": [[0, 1], [1, 0], [0, 9], [1]]},
    "members": [
        {"id": "m1", "instance_id": None, "topics": ["t", "absent"], "owned": [["t", 0]], "generation": 3, "rack": "b"},
        {"id": "m2", "instance_id": None, "topics": ["t"], "owned": None, "generation": -1, "rack": "a"},
    ],
}


def run(*arguments: str, given: str | bytes | None = None) -> Result:
    """Run the command as a program of its own."""
    app = typer.Typer()
    assign.register(app)
    app.command("other")(lambda: None)  # with a single command typer would drop its name
    return CliRunner().invoke(app, ["assign", *arguments], input=given)


def answers(*questions: object) -> list[dict[str, Any]]:
    """The answers to these lines; a string is sent unchanged."""
    lines = [question if isinstance(question, str) else json.dumps(question) for question in questions]
    result = run("--lines", given="\n".join(lines) + "\n")
    assert result.exit_code == 0
    return [json.loads(line) for line in result.stdout.splitlines()]


def member(number: int, **changes: object) -> dict[str, Any]:
    """The example group with one member changed."""
    members = [dict(one) for one in GROUP["members"]]
    members[number] |= changes
    return GROUP | {"members": members}


def test_answer_to_a_line() -> None:
    """The answer has the assignment, what crosses racks and of how much that is known, moves, time, and the case."""
    (answer,) = answers(GROUP | {"case": {"any": 1}})
    assert answer.pop("nanos") > 0
    assert answer == {
        "assignment": {"m1": [["t", 0], ["t", 3]], "m2": [["t", 1], ["t", 2]]},
        "cross_rack": 0,
        "known": 4,
        "moved": 0,
        "case": {"any": 1},
    }


def test_cooperative_withholds_and_lists_who_is_next() -> None:
    """A partition that another member owns is withheld and listed: always for cooperative-sticky, else on request."""
    group = member(0, owned=[["t", 0], ["t", 1], ["t", 2]])
    expected = {"m1": [["t", 0], ["t", 3]], "m2": []}
    final = {"m1": [["t", 0], ["t", 3]], "m2": [["t", 1], ["t", 2]]}
    asked, implied, unchanged = answers(
        group | {"cooperative": True}, group | {"assignor": "cooperative-sticky"}, group | {"assignor": "optimal"}
    )
    for answer in (asked, implied):
        assert answer["assignment"] == expected
        assert answer["transferring"] == [["t", 1, "m2"], ["t", 2, "m2"]]
    assert unchanged["assignment"] == final
    assert "transferring" not in unchanged
    assert [answer["moved"] for answer in (asked, implied, unchanged)] == [2, 2, 2]


def test_leaders_only() -> None:
    """With locality leader only the first replica counts, for all members or for one."""
    everywhere = GROUP | {"topics": {"t": [[0, 1]] * 4}}
    anyone, leaders, one = answers(
        everywhere,
        everywhere | {"locality": "leader"},
        member(0, locality="leader", owned=None) | {"topics": {"t": [[0, 1]] * 4}},
    )
    assert [answer["cross_rack"] for answer in (anyone, leaders, one)] == [0, 2, 2]


def test_weights_and_co_partitioning() -> None:
    """Weights choose what crosses; keep_copartitioned keeps partition i of equal topics together."""
    here = member(1, rack="c") | {"topics": {"t": [[1], [1]], "u": [[0], [1]]}}
    here["members"] = [one | {"topics": ["t", "u"], "owned": None} for one in here["members"]]
    (weighted,) = answers(here | {"weights": {"t": [1, 5], "u": [1, 4]}})
    assert weighted["assignment"]["m1"] == [["t", 1], ["u", 1]]
    (together,) = answers(here | {"keep_copartitioned": True})
    assert together["assignment"]["m1"] in ([["t", 0], ["u", 0]], [["t", 1], ["u", 1]])


def test_a_limit_beyond_all_partitions_is_none() -> None:
    """It ended with an OverflowError from 2^63 on."""
    large, none = member(0, max_partitions=2**80), member(0, max_partitions=2**31 - 1)
    assert len({json.dumps(answer["assignment"]) for answer in answers(large, none)}) == 1


def test_unknown_brokers_and_topics() -> None:
    """A replica on an unlisted broker has no rack, so that nothing is known; an unknown topic is ignored."""
    (answer,) = answers(GROUP | {"brokers": []})
    assert (answer["cross_rack"], answer["known"]) == (None, 0)
    assert sum(len(pairs) for pairs in answer["assignment"].values()) == 4


def test_what_members_without_a_rack_read_is_unknown() -> None:
    """It is null and not 0, `-` in the table; with one of two members known, of two of the four partitions."""
    one, none = member(0, rack=None), member(0, rack=None)
    none["members"][1]["rack"] = None
    assert [(answer["cross_rack"], answer["known"]) for answer in answers(one, none)] == [(0, 2), (None, 0)]
    shown = run("-", given=json.dumps(none)).stdout
    rows = [line.split() for line in shown.splitlines() if "m1" in line or "m2" in line]
    assert [row[-2] for row in rows] == ["-", "-"]
    assert "across racks: now unknown, then unknown;" in shown
    shown = run("-", given=json.dumps(one)).stdout
    assert "then 0 of 2 known partitions;" in shown


def test_racks_that_a_subscription_could_not_carry() -> None:
    """Kafka's range sees no racks in subscriptions before version 3; what crosses is counted with racks."""
    group = GROUP | {"assignor": "range", "topics": {"t": [[0], [1]]}}
    newest, older = answers(group, group | {"protocol_version": 2})
    assert (newest["cross_rack"], older["cross_rack"]) == (0, 2)


def test_user_data_replaces_claims() -> None:
    """Sticky's user data replaces `owned`, if it can be read."""
    claims = encode_sticky(from_pairs([("t", 1), ("t", 2)]), 7).hex()
    claimed, unreadable, empty = answers(
        member(0, user_data=claims) | {"brokers": []}, member(0, user_data="ff"), member(0, user_data=None)
    )
    assert claimed["assignment"]["m1"] == [["t", 1], ["t", 2]]
    assert ["t", 0] in unreadable["assignment"]["m1"]
    assert ["t", 0] in empty["assignment"]["m1"]


def test_generation_decides_between_claims() -> None:
    """From version 2 on the subscription's generation counts, before the one in cooperative-sticky's user data."""
    group = member(1, owned=[["t", 0]], generation=2, rack="b", user_data=encode_cooperative_sticky(5).hex())
    group |= {"assignor": "cooperative-sticky", "topics": {"t": [[1], []]}}
    newer, older = answers(group, group | {"protocol_version": 1})
    assert newer["assignment"]["m1"] == [["t", 0]]
    assert older["assignment"]["m2"] == [["t", 0]]
    (overridden,) = answers(
        group | {"members": [group["members"][0] | {"subscription_generation": 1}, group["members"][1]]}
    )
    assert overridden["assignment"]["m2"] == [["t", 0]]


def test_repeat_runs_again() -> None:
    """`repeat` gives the median time of the later half of its runs, and changes nothing else."""
    (answer,) = answers(GROUP | {"repeat": 4})
    assert answer["assignment"]["m1"] == [["t", 0], ["t", 3]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "invalid JSON"),
        ("[]", "object"),
        ({}, "'brokers'"),
        (GROUP | {"assignor": "lagom"}, f"give one of {', '.join(ASSIGNORS)}"),
        (GROUP | {"topics": {"t": [["x"]]}}, "'topics.t.0.0'"),
        (GROUP | {"locality": "near"}, "'any' or 'leader'"),
        (GROUP | {"repeat": 0}, "'repeat'"),
        (member(0, generation=1 << 31), "'members.0.generation'"),
        (member(0, owned=[["t", 1 << 70]]), "owned partitions of member 'm1' in topic 't'"),
        ('{"assignor": "\\ud800"}', "JSON"),
        (GROUP | {"weights": {"t": [1]}}, "weights of topic 't': expected 4"),
        (GROUP | {"members": [GROUP["members"][0]] * 2}, "'m1' occurs more than once"),
        (GROUP | {"brokers": [{"id": 1, "rack": "a"}, {"id": 1, "rack": "b"}]}, "broker id 1 occurs more than once"),
        (member(0, user_data="xyz"), "hexadecimal"),
    ],
)
def test_wrong_lines_are_answered(line: object, message: str) -> None:
    """A wrong line gets an error that names the key, and the next line is answered."""
    wrong, right = answers(line if isinstance(line, str) else {**line, "case": 5}, GROUP)  # type: ignore[dict-item]  # a JSON object
    assert set(wrong) - {"case"} == {"error", "message"}
    assert message in wrong["message"]
    assert wrong.get("case") == (None if isinstance(line, str) else 5)
    assert "assignment" in right


def test_table_for_people(tmp_path: Path) -> None:
    """The table of a file has a row per member: rack, ranges of partitions, what crosses racks."""
    file = tmp_path / "group.json"
    file.write_text(json.dumps(member(0, owned=[["t", 1]])))
    result = run(str(file), "--assignor", "cooperative-sticky")
    assert result.exit_code == 0
    assert "m2" in result.stdout
    assert "t 0 2" in result.stdout
    assert "moved 0" in result.stdout


def test_json_for_people() -> None:
    """Standard input is read as a file, and --json gives the answer of a line."""
    result = run("-", "--json", given=json.dumps(GROUP))
    assert json.loads(result.stdout)["assignment"]["m1"] == [["t", 0], ["t", 3]]


@pytest.mark.parametrize(
    ("arguments", "given", "message"),
    [
        (("-",), json.dumps(GROUP | {"localty": "leader"}), "'localty' is unknown; there are assignor, brokers"),
        (("-",), "{}", "'brokers'"),
        (("/no/such/file",), None, "No such file"),
        (("--json",), None, "name a file"),
        (("-", "-a", "lagom"), json.dumps(GROUP), "lagom"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], given: str | None, message: str) -> None:
    """Wrong input gives one line with cause and cure, and exit code 2."""
    result = run(*arguments, given=given)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
