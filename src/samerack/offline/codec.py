"""`samerack decode` and `samerack encode`: the embedded messages as JSON, for people and for programs.

People give one message and get indented JSON, or the other way round. Programs write one JSON question per line and
read one JSON answer per line (`--lines`).
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeVar

import typer

from samerack.common.words import plain
from samerack.offline.codec_json import (
    ASSIGNORS,
    LINES,
    Question,
    answer_line,
    assignment_json,
    assignment_of,
    integer,
    sticky_bytes_of,
    sticky_json,
    subscription_json,
    subscription_of,
    version_of,
)
from samerack.offline.json_lines import Answer, QuestionError, answer_lines
from samerack.protocol import consumer, sticky
from samerack.protocol.errors import ProtocolError
from samerack.protocol.sticky import COOPERATIVE_STICKY
from samerack.protocol.values import Assignment, Subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def register(app: typer.Typer) -> None:
    """Add the commands `decode` and `encode`."""
    app.command("decode", help=DECODE_HELP, no_args_is_help=True)(decode)
    app.command("encode", help=ENCODE_HELP, no_args_is_help=True)(encode)


# -- for people: one message

_Message = TypeVar("_Message", Subscription, Assignment)


def _shown(value: _Message, as_json: Callable[[_Message], Answer]) -> Answer:
    return as_json(value) | ({"trailing": value.trailing.hex()} if value.trailing else {})


def _show_sticky(data: bytes) -> Answer:
    answer = sticky_json(data, ASSIGNORS[0])
    return {"version": 0 if answer["generation"] is None else 1} | answer


def _make_sticky(question: Question) -> bytes:
    data = sticky_bytes_of(question | {"owned": question.get("owned") or []})
    return data or b""


_SHOW: Final[dict[str, Callable[[bytes], Answer]]] = {
    "subscription": lambda data: _shown(consumer.decode_subscription(data), subscription_json),
    "assignment": lambda data: _shown(consumer.decode_assignment(data), assignment_json),
    "sticky-userdata": _show_sticky,
    COOPERATIVE_STICKY: lambda data: {"generation": sticky.decode_cooperative_sticky(data)},
}

# The keys of each kind, and its writer; versions above the known ones stay, so that what was decoded is written back.
_MAKE: Final[dict[str, tuple[frozenset[str], Callable[[Question], bytes]]]] = {
    "subscription": (
        frozenset({"version", "topics", "user_data", "owned", "generation", "rack", "trailing"}),
        lambda question: consumer.encode_subscription(subscription_of(question, version_of(question))),
    ),
    "assignment": (
        frozenset({"version", "partitions", "user_data", "trailing"}),
        lambda question: consumer.encode_assignment(assignment_of(question, version_of(question))),
    ),
    "sticky-userdata": (frozenset({"version", "owned", "generation"}), _make_sticky),
    COOPERATIVE_STICKY: (
        frozenset({"generation"}),
        lambda question: sticky.encode_cooperative_sticky(integer(question, "generation", -1)),
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
    text = "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)
    return re.sub(r"\[\n\s*(\"(?:[^\"\\]|\\.)*\"),\n\s*(-?\d+)\n\s*\]", r"[\1, \2]", text)


@contextmanager
def _ending_well(command: str) -> Iterator[None]:
    """Turn wrong input into one line and exit code 2, and end without a word when the reader or the user has enough."""
    try:
        yield
        sys.stdout.flush()
    except (QuestionError, ProtocolError) as error:
        typer.echo(f"samerack {command}: {plain(str(error))}", err=True)
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
DECODE_HELP: Final = "\n\n".join(
    (
        "Show a message of the consumer protocol as JSON.",
        f"KIND is one of {', '.join(_SHOW)}. The message is hexadecimal or base64, which is detected; without one, or "
        'with "-", it comes from standard input. Bytes behind the last known field are shown as "trailing".',
        "Example: samerack decode assignment 00030000000100066f7264657273000000010000000affffffff",
    )
)

ENCODE_HELP: Final = "\n\n".join(
    (
        "Write a message of the consumer protocol from JSON, as Kafka's clients write it.",
        f"KIND is one of {', '.join(_MAKE)}. The JSON has the keys that `samerack decode` shows, any of which may be "
        'absent; without it, or with "-", it comes from standard input.',
        """Example: samerack encode assignment '{"partitions": [["orders", 10]]}'""",
    )
)

LINES_HELP: Final = (
    'Answer JSON lines from standard input, each at once. The key "cmd" (or else KIND) says what is asked: '
    + ", ".join(LINES)
    + '. "case" is echoed; a wrong question gives {"error", "message"}.'
)


def decode(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="The kind of message.")] = None,
    message: Annotated[str, typer.Argument(metavar="[HEX|BASE64|-]", help="The message.")] = "-",
    *,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="Read the message as hexadecimal; do not detect.")] = False,
    base_64: Annotated[bool, typer.Option("--base64", help="Read the message as base64; do not detect.")] = False,
    lines: Annotated[bool, typer.Option("--lines", help=LINES_HELP)] = False,
) -> None:
    """Show one message, or answer JSON lines."""
    with _ending_well("decode"):
        if hexadecimal and base_64:
            raise QuestionError("--hex and --base64 exclude each other; give one of them, or neither")
        if lines:
            return _answer_lines(message, kind, f"decode-{kind}", f"{kind}")
        show = _SHOW.get((kind or "").removeprefix("decode-")) or _refuse_kind(kind, _SHOW)
        form = "hex" if hexadecimal else "base64" if base_64 else None
        typer.echo(_indented(show(read_bytes(_argument_or_stdin(message), form=form))))
        return None


def encode(
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="The kind of message.")] = None,
    values: Annotated[str, typer.Argument(metavar="[JSON|-]", help="The values.")] = "-",
    *,
    base_64: Annotated[bool, typer.Option("--base64", help="Print base64 instead of hexadecimal.")] = False,
    lines: Annotated[bool, typer.Option("--lines", help=LINES_HELP)] = False,
) -> None:
    """Write one message, or answer JSON lines."""
    with _ending_well("encode"):
        if lines:
            return _answer_lines(values, kind, f"{kind}")
        keys, make = _MAKE.get(kind or "") or _refuse_kind(kind, _MAKE)
        data = make(_question(_argument_or_stdin(values), keys))
        typer.echo(base64.b64encode(data).decode() if base_64 else data.hex())
        return None


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
