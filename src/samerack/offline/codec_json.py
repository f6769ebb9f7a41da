"""The embedded messages as JSON: what a question may hold, and the answer to one line of `--lines`.

The formats are those in which codecs of several languages can be compared line by line: byte strings are hexadecimal,
partitions are [topic, number] pairs, an absent value is null.
"""

from __future__ import annotations

import binascii
import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from samerack.offline.json_lines import Answer, QuestionError, answered
from samerack.protocol import consumer, sticky, values
from samerack.protocol.errors import ProtocolError
from samerack.protocol.sticky import COOPERATIVE_STICKY, STICKY

if TYPE_CHECKING:
    from collections.abc import Callable

Question: TypeAlias = dict[str, Any]

ASSIGNORS: Final = (STICKY, COOPERATIVE_STICKY)


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


def integer(question: Question, key: str, default: int) -> int:
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


def version_of(question: Question) -> int:
    """Return the version that is asked for: the newest known one unless another is named."""
    return integer(question, "version", values.MAX_VERSION)


def _assignor(question: Question) -> str:
    assignor = _text(question, "assignor") or ASSIGNORS[0]
    if assignor not in ASSIGNORS:
        raise QuestionError(f"assignor {assignor!r} has no user data known here; give one of {', '.join(ASSIGNORS)}")
    return assignor


def _optional_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


# -- JSON of each message, and back


def subscription_of(question: Question, version: int) -> values.Subscription:
    """Return the subscription that a question describes."""
    return values.Subscription(
        version=version,
        topics=_topics(question),
        user_data=_hex(question, "user_data"),
        owned=_partitions(question, "owned"),
        generation=integer(question, "generation", -1),
        rack=_text(question, "rack"),
        trailing=_hex(question, "trailing") or b"",
    )


def subscription_json(value: values.Subscription) -> Answer:
    """Return a subscription without its trailing bytes, which Kafka's reader does not see."""
    return {
        "version": value.version,
        "topics": list(value.topics),
        "user_data": _optional_hex(value.user_data),
        "owned": values.to_pairs(value.owned),
        "generation": value.generation,
        "rack": value.rack,
    }


def assignment_of(question: Question, version: int) -> values.Assignment:
    """Return the assignment that a question describes."""
    return values.Assignment(
        version=version,
        partitions=_partitions(question, "partitions"),
        user_data=_hex(question, "user_data"),
        trailing=_hex(question, "trailing") or b"",
    )


def assignment_json(value: values.Assignment) -> Answer:
    """Return an assignment without its trailing bytes, which Kafka's reader does not see."""
    partitions = values.to_pairs(value.partitions)
    return {"version": value.version, "partitions": partitions, "user_data": _optional_hex(value.user_data)}


def sticky_bytes_of(question: Question) -> bytes | None:
    """Return sticky user data; none, from version 1 on, of a member that never had an assignment (`owned` null)."""
    generation = integer(question, "generation", -1)
    if _assignor(question) == COOPERATIVE_STICKY:
        return sticky.encode_cooperative_sticky(max(generation, -1))
    version = 0 if integer(question, "version", 1) == 0 else 1
    if version == 1 and question.get("owned") is None:
        return None
    return sticky.encode_sticky(_partitions(question, "owned"), generation, version)


def sticky_json(data: bytes | None, assignor: str) -> Answer:
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
            subscription_of(question, min(version_of(question), values.MAX_VERSION))
        ).hex()
    },
    "decode-subscription": lambda question: subscription_json(consumer.decode_subscription(_message(question))),
    "assignment": lambda question: {
        "hex": consumer.encode_assignment(assignment_of(question, min(version_of(question), values.MAX_VERSION))).hex()
    },
    "decode-assignment": lambda question: assignment_json(consumer.decode_assignment(_message(question))),
    "sticky-userdata": lambda question: {"hex": _optional_hex(sticky_bytes_of(question))},
    "decode-sticky-userdata": lambda question: sticky_json(_hex(question, "hex"), _assignor(question)),
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
