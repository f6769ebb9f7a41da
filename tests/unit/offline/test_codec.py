"""`samerack decode`, with `--encode` and without, for people and on JSON lines."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from samerack.offline import codec
from samerack.offline.codec import LINES, answer_line
from tests.unit.golden import lines
from tests.unit.waiting import LONGEST_SECONDS

SUBSCRIPTION = "0003000000020001610001620000000200ff000000010001610000000200000000000000010000000500027231"
SHOWN = {
    "version": 3,
    "topics": ["a", "b"],
    "user_data": "00ff",
    "owned": [["a", 0], ["a", 1]],
    "generation": 5,
    "rack": "r1",
}

APP = typer.Typer()
APP.callback()(lambda: None)
codec.register(APP)
DECODE = ("decode",)
ENCODE = ("decode", "--encode")

PROGRAM = """
import typer
from samerack.offline import codec
app = typer.Typer()
app.callback()(lambda: None)
codec.register(app)
app()
"""


def run(*arguments: str, stdin: str | bytes = "") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    result = CliRunner().invoke(APP, arguments, input=stdin)
    return result.exit_code, result.stdout, result.stderr


def ask(question: object, default: str | None = None) -> dict[str, Any]:
    """The answer to one line, after a round trip through JSON."""
    answer: dict[str, Any] = json.loads(json.dumps(answer_line(json.dumps(question).encode(), default)))
    return answer


# -- JSON lines


@pytest.mark.parametrize("verb", [ENCODE, DECODE], ids=["encode", "decode"])
@pytest.mark.parametrize("command", sorted(LINES))
def test_lines_answer_as_kafka_answers(verb: tuple[str, ...], command: str) -> None:
    """Every question of the golden file gets Kafka's answer, either way, with its case."""
    golden = lines(command)
    questions = [{"cmd": command, "case": number, **line["in"]} for number, line in enumerate(golden)]
    code, out, err = run(*verb, "--lines", stdin="\n".join(map(json.dumps, questions)))
    assert (code, err) == (0, "")
    answers = [json.loads(line) for line in out.splitlines()]
    assert answers == [line["out"] | {"case": number} for number, line in enumerate(golden)]
    assert [list(answer) for answer in answers] == [[*line["out"], "case"] for line in golden]


@pytest.mark.parametrize(
    ("verb", "kind", "question", "answer"),
    [
        (ENCODE, "assignment", {}, {"hex": "000300000000ffffffff"}),
        (ENCODE, "decode-subscription", {"hex": SUBSCRIPTION}, SHOWN),
        (DECODE, "decode-subscription", {"hex": SUBSCRIPTION}, SHOWN),
        (DECODE, "subscription", {"hex": SUBSCRIPTION}, SHOWN),
        (DECODE, "subscription", {"cmd": "assignment"}, {"hex": "000300000000ffffffff"}),
    ],
)
def test_kind_stands_in_for_cmd(verb: tuple[str, ...], kind: str, question: object, answer: object) -> None:
    """KIND names the question of a line without `cmd`."""
    code, out, _ = run(*verb, "--lines", kind, stdin=json.dumps(question))
    assert (code, json.loads(out)) == (0, answer)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ({"cmd": "subscription", "version": 9, "rack": ""}, {"hex": "000300000000ffffffff00000000ffffffff0000"}),
        ({"cmd": "assignment", "version": 8}, {"hex": "000300000000ffffffff"}),
        ({"cmd": "subscription", "version": None, "generation": -9}, ask({"cmd": "subscription"})),
        ({"cmd": "sticky-userdata", "owned": None, "generation": 5}, {"hex": None}),
        ({"cmd": "sticky-userdata", "owned": [], "version": 2}, {"hex": "00000000ffffffff"}),
        ({"cmd": "sticky-userdata", "version": 0}, {"hex": "00000000"}),
        ({"cmd": "sticky-userdata", "assignor": "cooperative-sticky", "generation": -4}, {"hex": "ffffffff"}),
        ({"cmd": "decode-sticky-userdata", "hex": None}, {"owned": [], "generation": None}),
        ({"cmd": "decode-sticky-userdata", "hex": "ff"}, {"owned": [], "generation": -1}),
        (
            {"cmd": "decode-assignment", "hex": "0007 00000000 ffffffff beef".replace(" ", "")},
            {"version": 7, "partitions": [], "user_data": None},
        ),
    ],
)
def test_lines_treat_the_edges_as_kafka_does(question: object, answer: dict[str, Any]) -> None:
    """Absent values, versions that Kafka does not know and unreadable user data get Kafka's answers."""
    assert ask(question) == answer


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("not json", "JSONDecodeError", "line 1"),
        ("[1, 2]", "QuestionError", "one object per line"),
        ("{}", "QuestionError", "decode-sticky-userdata"),
        ('{"cmd": "nope"}', "QuestionError", "'nope'"),
        ('{"cmd": 7}', "QuestionError", "'cmd'"),
        ('{"cmd": "decode-assignment"}', "QuestionError", "'hex' is missing"),
        ('{"cmd": "decode-assignment", "hex": "00010"}', "QuestionError", "Odd-length"),
        ('{"cmd": "decode-assignment", "hex": "zz"}', "QuestionError", "two digits per byte"),
        ('{"cmd": "decode-assignment", "hex": "0001"}', "ProtocolError", "partitions at byte 2"),
        ('{"cmd": "assignment", "partitions": [["a"]]}', "QuestionError", '["orders", 0]'),
        ('{"cmd": "assignment", "partitions": [["a", true]]}', "QuestionError", "true"),
        ('{"cmd": "assignment", "partitions": [["a", 2147483648]]}', "ProtocolError", "32 bits"),
        ('{"cmd": "assignment", "partitions": [["\\ud800", 1]]}', "ProtocolError", "surrogate"),
        ('{"cmd": "assignment", "version": "3"}', "QuestionError", "an integer"),
        ('{"cmd": "assignment", "version": -2}', "ProtocolError", "start at 0"),
        ('{"cmd": "subscription", "topics": [1]}', "QuestionError", "topic names"),
        ('{"cmd": "sticky-userdata", "assignor": "range"}', "QuestionError", "cooperative-sticky"),
        (b'{"cmd": "\xff"}', "UnicodeDecodeError", "decode"),
        ("[" * 100_000, "RecursionError", ""),
    ],
)
def test_wrong_line_is_answered_and_does_not_stop(line: str | bytes, error: str, message: str) -> None:
    """A wrong line is answered with an error, and the next line gets its own answer."""
    wrong = line if isinstance(line, bytes) else line.encode()
    code, out, err = run("decode", "--lines", stdin=wrong + b'\n\n{"cmd": "assignment", "case": "next"}\n')
    assert (code, err) == (0, "")
    first, second = map(json.loads, out.splitlines())
    assert first["error"] == error
    assert message in first["message"]
    assert second == {"hex": "000300000000ffffffff", "case": "next"}


@given(
    st.fixed_dictionaries(
        {"cmd": st.sampled_from(sorted(LINES))},
        optional=dict.fromkeys(
            ["version", "topics", "user_data", "owned", "partitions", "generation", "rack", "hex", "assignor"],
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                lambda inner: st.lists(inner, max_size=3),
                max_leaves=6,
            ),
        ),
    )
)
def test_any_question_is_answered(question: dict[str, Any]) -> None:
    """Any values under the keys give an answer, or an error with a message."""
    answer = ask(question)
    assert "error" not in answer or set(answer) == {"error", "message"}


def test_case_of_a_wrong_question_is_echoed() -> None:
    """An error carries the case of its question, whatever that is."""
    assert ask({"cmd": "nope", "case": {"a": 1}})["case"] == {"a": 1}


def test_lines_are_answered_at_once_and_end_quietly() -> None:
    """Each answer is written before the next question is read; a closed reader is no error."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "decode", "--lines"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for case in range(2):
            process.stdin.write(b'{"cmd": "decode-sticky-userdata", "case": %d}\n' % case)
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["case"] == case
        process.stdout.close()
        process.stdin.write(b'{"cmd": "assignment"}\n')
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(LONGEST_SECONDS) == 0


# -- one message, for people


@pytest.mark.parametrize("kind", ["subscription", "decode-subscription"])
@pytest.mark.parametrize(
    "message",
    [
        SUBSCRIPTION,
        SUBSCRIPTION.upper(),
        "0x" + SUBSCRIPTION,
        bytes.fromhex(SUBSCRIPTION).hex(":"),
        bytes.fromhex(SUBSCRIPTION).hex(" "),
        base64.b64encode(bytes.fromhex(SUBSCRIPTION)).decode(),
        base64.urlsafe_b64encode(bytes.fromhex(SUBSCRIPTION)).decode().rstrip("="),
    ],
)
def test_message_is_shown_from_any_notation(kind: str, message: str) -> None:
    """Hexadecimal and base64 are detected, in the argument and on standard input."""
    assert json.loads(run("decode", kind, message)[1]) == SHOWN
    assert json.loads(run("decode", kind, stdin=message + "\n")[1]) == SHOWN
    assert json.loads(run("decode", kind, "-", stdin=message)[1]) == SHOWN


def test_json_is_indented_with_one_line_per_partition() -> None:
    """The JSON has one partition per line."""
    assert '\n  "owned": [\n    ["a", 0],\n    ["a", 1]\n  ],\n' in run("decode", "subscription", SUBSCRIPTION)[1]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("subscription", SUBSCRIPTION),
        ("subscription", "0009" + SUBSCRIPTION[4:] + "beef"),
        ("assignment", "0003000000010001610000000100000001000000020a0b"),
        ("assignment", "0000000000010001610000000100000001ffffffffbeef"),
        ("sticky-userdata", "000000020001610000000100000000000162000000010000000100000007"),
        ("sticky-userdata", "000000010001610000000100000000"),
        ("cooperative-sticky", "00000007"),
    ],
)
def test_what_is_shown_is_written_back(kind: str, data: str) -> None:
    """`--encode` takes what `decode` prints, trailing bytes and newer versions included, and gives the same bytes."""
    shown = run("decode", kind, data)[1]
    assert run(*ENCODE, kind, shown)[1] == data + "\n"
    assert run(*ENCODE, kind, stdin=shown)[1] == data + "\n"
    encoded = run(*ENCODE, kind, "--base64", stdin=shown)[1]
    assert base64.b64decode(encoded).hex() == data


def test_a_name_in_a_message_steers_no_terminal() -> None:
    """What JSON does not escape is escaped: a control sequence in one character, a mark that reverses the text."""
    data = "0000000000010007c29b324ae280aeffffffff"
    shown = run("decode", "subscription", data)[1]
    assert r"\u009b2J\u202e" in shown
    assert run(*ENCODE, "subscription", shown)[1] == data + "\n"


def test_notation_can_be_forced() -> None:
    """Text that could be either is hexadecimal unless base64 is asked for."""
    ambiguous = "AAAAAA00"
    assert run("decode", "cooperative-sticky", ambiguous)[1] == '{\n  "generation": -1431655936\n}\n'
    assert run("decode", "cooperative-sticky", "--base64", ambiguous)[1] == '{\n  "generation": 0\n}\n'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("decode", "foo", "00"), "cooperative-sticky"),
        (("decode", "subscription", "zz!"), "not hexadecimal or base64"),
        (("decode", "subscription", "--hex", "abc"), "two digits per byte"),
        (("decode", "subscription", "--base64", "%%%"), "not base64"),
        (("decode", "subscription", "--hex", "--base64", "00"), "exclude each other"),
        (("decode", "subscription", "0003"), "topics at byte 2"),
        (("decode", "subscription"), "version at byte 0"),
        (("decode", "--base64"), "KIND is missing"),
        (("decode", "--lines", "foo"), "decode-subscription"),
        (("decode", "--lines", "subscription", "00"), "leave out '00'"),
        ((*ENCODE, "foo", "{}"), "cooperative-sticky"),
        ((*ENCODE, "subscription", "{"), "not JSON"),
        ((*ENCODE, "subscription", "[]"), "not a JSON object"),
        ((*ENCODE, "subscription", '{"topcs": []}'), "'topcs' is unknown; this kind has"),
        ((*ENCODE, "subscription", '{"topics": "a"}'), "list of topic names"),
        ((*ENCODE, "assignment", '{"version": -3}'), "start at 0"),
        ((*ENCODE, "--lines", "foo"), "with --lines give one of"),
        ((*ENCODE, "--lines", "assignment", "{}"), "leave out '{}'"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    """Wrong input gives one line with its cure."""
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"samerack {arguments[0]}: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("verb", [DECODE, ENCODE], ids=["decode", "encode"])
def test_help_names_kinds_and_gives_an_example(verb: tuple[str, ...]) -> None:
    """The help lists the kinds, and its example works."""
    code, out, _ = run(*verb, "--help")
    assert code == 0
    for word in ("subscription", "assignment", "sticky-userdata", "cooperative-sticky", "--lines", "Example:"):
        assert word in out
    example = "00030000000100066f7264657273000000010000000affffffff"
    assert json.loads(run("decode", "assignment", example)[1])["partitions"] == [["orders", 10]]
    assert run(*ENCODE, "assignment", '{"partitions": [["orders", 10]]}')[1] == example + "\n"
