"""`samerack decode`: the embedded messages as JSON, and with `--encode` the other way round, for people and programs.

People give one message and get indented JSON, or the other way round. Programs write one JSON question per line and
read one JSON answer per line (`--lines`). The formats are those in which codecs of several languages can be compared
line by line: byte strings are hexadecimal, partitions are [topic, number] pairs, an absent value is null.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeAlias, TypeVar, cast

import typer

from samerack.common.words import plain
from samerack.offline.json_lines import Answer, QuestionError, answer_lines, answered
from samerack.protocol import consumer, sticky, values
from samerack.protocol.errors import ProtocolError
from samerack.protocol.sticky import COOPERATIVE_STICKY, STICKY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Question: TypeAlias = dict[str, Any]

_ASSIGNORS: Final = (STICKY, COOPERATIVE_STICKY)


def register(app: typer.Typer) -> None:
    """Add the command `decode`."""
    app.command("decode", help=HELP, no_args_is_help=True)(decode)


def _value(question: Question, key: str, kind: type, default: object, wanted: str) -> Any:
    """Return the value of a key, or the default where it is absent or null. A bool is no integer here."""
    value = question.get(key)
    if value is None:
        return default
    if type(value) is not kind:
        raise QuestionError(f"{key!r} is {json.dumps(value)[:60]}; give {wanted}")
    return value


def _text(question: Question, key: str) -> str | None:
    return cast("str | None", _value(question, key, str, None, "a string or null"))


def _integer(question: Question, key: str, default: int) -> int:
    """Return the integer of a key, or the default where it is absent or null."""
    return cast("int", _value(question, key, int, default, "an integer"))


def _hex(question: Question, key: str) -> bytes | None:
    text = _text(question, key)
    try:
        return None if text is None else binascii.unhexlify(text)
    except ValueError as error:  # both odd length and other characters
        raise QuestionError(f"{key!r} is not hexadecimal ({error}); give two digits per byte, such as 0003") from None


def _message(question: Question) -> bytes:
    data = _hex(question, "hex")
    if data is None:
        raise QuestionError("'hex' is missing; give the message as hexadecimal, such as 0003")
    return data


def _topics(question: Question) -> tuple[str, ...]:
    topics = _value(question, "topics", list, [], "a list of topic names")
    if not all(type(topic) is str for topic in topics):
        raise QuestionError("'topics' contains values other than strings; give topic names")
    return tuple(topics)


def _partitions(question: Question, key: str) -> values.TopicPartitions:
    pairs = _value(question, key, list, [], 'pairs such as [["orders", 0]]')
    for pair in pairs:
        if type(pair) is not list or [type(part) for part in pair] != [str, int]:
            raise QuestionError(f'{key!r} holds {json.dumps(pair)[:60]}; give pairs such as ["orders", 0]')
    return values.from_pairs(pairs)


def _version_of(question: Question) -> int:
    """Return the version that is asked for: the newest known one unless another is named."""
    return _integer(question, "version", values.MAX_VERSION)


def _assignor(question: Question) -> str:
    assignor = _text(question, "assignor") or _ASSIGNORS[0]
    if assignor not in _ASSIGNORS:
        raise QuestionError(f"assignor {assignor!r} has no user data known here; give one of {', '.join(_ASSIGNORS)}")
    return assignor


def _optional_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


# -- JSON of each message, and back


def _subscription_of(question: Question, version: int) -> values.Subscription:
    """Return the subscription that a question describes."""
    return values.Subscription(
        version=version,
        topics=_topics(question),
        user_data=_hex(question, "user_data"),
        owned=_partitions(question, "owned"),
        generation=_integer(question, "generation", -1),
        rack=_text(question, "rack"),
        trailing=_hex(question, "trailing") or b"",
    )


def _subscription_json(value: values.Subscription) -> Answer:
    """Return a subscription without its trailing bytes, which Kafka's reader does not see."""
    return {
        "version": value.version,
        "topics": list(value.topics),
        "user_data": _optional_hex(value.user_data),
        "owned": values.to_pairs(value.owned),
        "generation": value.generation,
        "rack": value.rack,
    }


def _assignment_of(question: Question, version: int) -> values.Assignment:
    """Return the assignment that a question describes."""
    return values.Assignment(
        version=version,
        partitions=_partitions(question, "partitions"),
        user_data=_hex(question, "user_data"),
        trailing=_hex(question, "trailing") or b"",
    )


def _assignment_json(value: values.Assignment) -> Answer:
    """Return an assignment without its trailing bytes, which Kafka's reader does not see."""
    partitions = values.to_pairs(value.partitions)
    return {"version": value.version, "partitions": partitions, "user_data": _optional_hex(value.user_data)}


def _sticky_bytes_of(question: Question) -> bytes | None:
    """Return sticky user data; none, from version 1 on, of a member that never had an assignment (`owned` null)."""
    generation = _integer(question, "generation", -1)
    if _assignor(question) == COOPERATIVE_STICKY:
        return sticky.encode_cooperative_sticky(max(generation, -1))
    version = 0 if _integer(question, "version", 1) == 0 else 1
    if version == 1 and question.get("owned") is None:
        return None
    return sticky.encode_sticky(_partitions(question, "owned"), generation, version)


def _sticky_json(data: bytes | None, assignor: str) -> Answer:
    """Return what the named assignor reads in a member's user data; only `sticky` keeps partitions there."""
    if assignor == COOPERATIVE_STICKY:
        return {"owned": [], "generation": sticky.decode_cooperative_sticky(data)}
    value = sticky.decode_sticky(data)
    return {"owned": values.to_pairs(value.owned), "generation": value.generation}


# -- for programs: one line, one answer

# Kafka's writers write every version that they do not know as the newest one that they know.
LINES: Final[dict[str, Callable[[Question], Answer]]] = {
    "subscription": lambda question: {
        "hex": consumer.encode_subscription(
            _subscription_of(question, min(_version_of(question), values.MAX_VERSION))
        ).hex()
    },
    "decode-subscription": lambda question: _subscription_json(consumer.decode_subscription(_message(question))),
    "assignment": lambda question: {
        "hex": consumer.encode_assignment(
            _assignment_of(question, min(_version_of(question), values.MAX_VERSION))
        ).hex()
    },
    "decode-assignment": lambda question: _assignment_json(consumer.decode_assignment(_message(question))),
    "sticky-userdata": lambda question: {"hex": _optional_hex(_sticky_bytes_of(question))},
    "decode-sticky-userdata": lambda question: _sticky_json(_hex(question, "hex"), _assignor(question)),
}


def answer_line(line: bytes, default_command: str | None) -> Answer:
    """Return the answer to one question; whatever is wrong with it becomes `{"error": ..., "message": ...}`."""

    def answer(text: bytes) -> Answer:
        question = json.loads(text)
        if not isinstance(question, dict):
            raise QuestionError("not a JSON object; give one object per line")
        command = _text(question, "cmd") or default_command
        if command not in LINES:
            raise QuestionError(f"'cmd' is {command!r}; give one of {', '.join(LINES)}")
        return LINES[command](question)

    return answered(line, answer, ProtocolError, ValueError, RecursionError)


# -- for people: one message

_Message = TypeVar("_Message", values.Subscription, values.Assignment)


def _shown(value: _Message, as_json: Callable[[_Message], Answer]) -> Answer:
    return as_json(value) | ({"trailing": value.trailing.hex()} if value.trailing else {})


def _show_sticky(data: bytes) -> Answer:
    answer = _sticky_json(data, _ASSIGNORS[0])
    return {"version": 0 if answer["generation"] is None else 1} | answer


def _make_sticky(question: Question) -> bytes:
    data = _sticky_bytes_of(question | {"owned": question.get("owned") or []})
    return data or b""


_SHOW: Final[dict[str, Callable[[bytes], Answer]]] = {
    "subscription": lambda data: _shown(consumer.decode_subscription(data), _subscription_json),
    "assignment": lambda data: _shown(consumer.decode_assignment(data), _assignment_json),
    "sticky-userdata": _show_sticky,
    COOPERATIVE_STICKY: lambda data: {"generation": sticky.decode_cooperative_sticky(data)},
}

# The keys of each kind, and its writer; versions above the known ones stay, so that what was decoded is written back.
_MAKE: Final[dict[str, tuple[frozenset[str], Callable[[Question], bytes]]]] = {
    "subscription": (
        frozenset({"version", "topics", "user_data", "owned", "generation", "rack", "trailing"}),
        lambda question: consumer.encode_subscription(_subscription_of(question, _version_of(question))),
    ),
    "assignment": (
        frozenset({"version", "partitions", "user_data", "trailing"}),
        lambda question: consumer.encode_assignment(_assignment_of(question, _version_of(question))),
    ),
    "sticky-userdata": (frozenset({"version", "owned", "generation"}), _make_sticky),
    COOPERATIVE_STICKY: (
        frozenset({"generation"}),
        lambda question: sticky.encode_cooperative_sticky(_integer(question, "generation", -1)),
    ),
}


def read_bytes(text: str, *, form: str | None = None) -> bytes:
    """Bytes from hexadecimal (with or without 0x, blanks and colons) or base64 (either alphabet).

    Without `form` ("hex" or "base64"), text that can be hexadecimal is. Every message starts with a small version or
    count, so in hexadecimal with 00 and in base64 with AA: only base64 of a few bytes could be taken for the other.

    Raises:
        QuestionError: It is neither.
    """
    packed = re.sub(r"\s", "", text)
    digits = packed.removeprefix("0x").replace(":", "")
    if form == "hex" or (form is None and re.fullmatch(r"([0-9a-fA-F]{2})*", digits)):
        try:
            return binascii.unhexlify(digits)
        except ValueError as error:
            raise QuestionError(f"not hexadecimal ({error}); give two digits per byte, such as 0003") from None
    standard = packed.translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except ValueError as error:
        wanted = "base64" if form else "hexadecimal or base64"
        raise QuestionError(f"not {wanted} ({error}); copy the whole message, such as 0003... or AAM...") from None


def _indented(answer: Answer) -> str:
    """Indented JSON with each [topic, number] pair on one line."""
    text = json.dumps(answer, indent=2, ensure_ascii=(sys.stdout.encoding or "ascii").lower() != "utf-8")
    text = "".join(
        character if character.isprintable() or character == "\n" else json.dumps(character)[1:-1] for character in text
    )
    return re.sub(r"\[\n\s*(\"(?:[^\"\\]|\\.)*\"),\n\s*(-?\d+)\n\s*\]", r"[\1, \2]", text)


@contextmanager
def _ending_well() -> Iterator[None]:
    """Turn wrong input into one line and exit code 2, and end without a word when the reader or the user has enough."""
    try:
        yield
        sys.stdout.flush()
    except (QuestionError, ProtocolError) as error:
        typer.echo(f"samerack decode: {plain(str(error))}", err=True)
        raise typer.Exit(2) from None
    except BrokenPipeError:
        # the interpreter flushes once more at its end, and that must show no error either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _refuse_kind(kind: str | None, kinds: dict[str, Any]) -> NoReturn:
    given = "KIND is missing" if kind is None else f"KIND {kind!r} is unknown"
    raise QuestionError(f"{given}; give one of {', '.join(kinds)}, or --lines for JSON lines")


def _answer_lines(argument: str, kind: str | None, *names: str) -> None:
    """Answer JSON lines; a KIND stands for the first of its possible names that there is."""
    if argument != "-":
        raise QuestionError(f"--lines reads standard input; leave out {argument[:40]!r}, or leave out --lines")
    command = next((name for name in names if name in LINES), None)
    if kind is not None and command is None:
        raise QuestionError(f"KIND {kind!r} is unknown; with --lines give one of {', '.join(LINES)}, or none")
    answer_lines(lambda line: answer_line(line, command))


def _argument_or_stdin(text: str) -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace") if text == "-" else text


# One line per paragraph: the terminal's width decides where they break.
HELP: Final = "\n\n".join(
    (
        "Show a message of the consumer protocol as JSON, or write one.",
        f"KIND is one of {', '.join(_SHOW)}. The message is hexadecimal or base64, which is detected; without one, or "
        'with "-", it comes from standard input. Bytes behind the last known field are shown as "trailing".',
        "Example: samerack decode assignment 00030000000100066f7264657273000000010000000affffffff",
        "With --encode the message is the JSON that this command shows, in which any key may be absent, and is written "
        "as Kafka's clients write it.",
        """Example: samerack decode --encode assignment '{"partitions": [["orders", 10]]}'""",
    )
)

_LINES_HELP: Final = (
    'Answer JSON lines from standard input, each at once. The key "cmd" (or else KIND) says what is asked: '
    + ", ".join(LINES)
    + '. "case" is echoed; a wrong question gives {"error", "message"}.'
)


def decode(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="The kind of message.")] = None,
    message: Annotated[str, typer.Argument(metavar="[HEX|BASE64|JSON|-]", help="The message.")] = "-",
    *,
    encode: Annotated[bool, typer.Option("--encode", help="Write the message from JSON.")] = False,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="Read the message as hexadecimal; do not detect.")] = False,
    base_64: Annotated[
        bool, typer.Option("--base64", help="Read the message as base64; with --encode, print it as base64.")
    ] = False,
    lines: Annotated[bool, typer.Option("--lines", help=_LINES_HELP)] = False,
) -> None:
    """Show or write one message, or answer JSON lines."""
    with _ending_well():
        if hexadecimal and base_64:
            raise QuestionError("--hex and --base64 exclude each other; give one of them, or neither")
        if lines:
            _answer_lines(message, kind, f"{kind}" if encode else f"decode-{kind}", f"{kind}")
        elif encode:
            data = _written(kind, _argument_or_stdin(message))
            typer.echo(base64.b64encode(data).decode() if base_64 else data.hex())
        else:
            show = _SHOW.get((kind or "").removeprefix("decode-")) or _refuse_kind(kind, _SHOW)
            form = "hex" if hexadecimal else "base64" if base_64 else None
            typer.echo(_indented(show(read_bytes(_argument_or_stdin(message), form=form))))


def _written(kind: str | None, text: str) -> bytes:
    keys, make = _MAKE.get(kind or "") or _refuse_kind(kind, _MAKE)
    return make(_question(text, keys))


def _question(text: str, keys: frozenset[str]) -> Question:
    """Return the JSON object that a person gave; an unknown key is a slip of the pen and named."""
    try:
        question = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise QuestionError(f'not JSON ({error}); give one object, such as {{"version": 3}}') from None
    if not isinstance(question, dict):
        raise QuestionError('not a JSON object; give one object, such as {"version": 3}')
    unknown = sorted(question.keys() - keys)
    if unknown:
        raise QuestionError(f"key {unknown[0]!r} is unknown; this kind has {', '.join(sorted(keys))}")
    return question
