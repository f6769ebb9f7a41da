"""Assignment questions as JSON: what one may hold, and the assignment problem that it describes.

The format is the one in which assignors of several languages can be compared line by line: a whole group in, its
assignment out (`offline.assign`).
"""

from __future__ import annotations

import binascii
import json
from collections import Counter
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer.registry import Options
from samerack.assignors.problem import Problem
from samerack.offline.json_lines import QuestionError
from samerack.planning.deadline import DEADLINE_SECONDS
from samerack.protocol import sticky
from samerack.protocol.consumer import GENERATION_SINCE, RACK_SINCE
from samerack.protocol.sticky import COOPERATIVE_STICKY
from samerack.protocol.values import to_pairs

Locality: TypeAlias = Literal["any", "leader"]
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]


class QuestionPart(BaseModel):
    """A question about an assignment, or a part of one."""

    model_config = ConfigDict(frozen=True, strict=True)


Asked = TypeVar("Asked", bound=QuestionPart)


class Broker(QuestionPart):
    """A broker and its rack."""

    id: int
    rack: str | None = None


class MemberPart(QuestionPart):
    """A member with what it owns; `owned` null means that it never had an assignment.

    `user_data` (hexadecimal) is what the member's own assignor wrote: it replaces what the member claims, as far as it
    contains that.
    `locality` overrides the group's. `capacity` and `max_partitions` say what it can carry.
    """

    id: str
    topics: list[str]
    instance_id: str | None = None
    rack: str | None = None
    owned: list[tuple[str, int]] | None = None
    generation: Int32 = -1
    subscription_generation: Int32 | None = None
    user_data: str | None = None
    send_owned: bool = False
    locality: Locality | None = None
    capacity: float = 1.0
    max_partitions: int | None = None


class AssignQuestion(QuestionPart):
    """A group, and the assignor that plans for it.

    Kafka's `range` and `roundrobin` are answered decision for decision, so they get of a member what its subscription
    carries in `protocol_version`; all others get every rack in the question.

    `topics` lists the broker ids of the replicas of each partition, the leader first; a broker that is not listed has
    an unknown rack. `locality` says which replicas may serve a member: any in its rack, or the leader only.
    """

    assignor: str = "optimal"
    brokers: list[Broker]
    topics: dict[str, list[list[int]]]
    members: list[MemberPart]
    protocol_version: int = RACK_SINCE
    locality: Locality = "any"
    weights: dict[str, list[int]] | None = None
    loads: dict[str, list[int]] | None = None
    balance_tolerance: float = Field(default=0.1, ge=0)
    keep_copartitioned: bool = False
    stickiness: bool = True
    max_skew: int = Field(default=0, ge=0)
    deadline_seconds: float = Field(default=DEADLINE_SECONDS, gt=0)
    cooperative: bool = False
    repeat: int = Field(default=1, ge=1, le=10_000)
    cmd: str | None = None
    case: Any = None


def parse(data: bytes | str, *, known_keys_only: bool = False) -> AssignQuestion:
    """Return the question in a JSON text; errors are those of `read`."""
    question = read(AssignQuestion, data, known_keys_only=known_keys_only, see="samerack assign --help")
    ids = Counter(broker.id for broker in question.brokers)
    if twice := [broker for broker, times in ids.items() if times > 1]:
        raise QuestionError(f"broker id {twice[0]} occurs more than once: a broker has one rack")
    return question


def read(kind: type[Asked], data: bytes | str, *, known_keys_only: bool, see: str) -> Asked:
    """Return a question of one kind in a JSON text; programs may send further keys than the known ones.

    Args:
        kind: what it must be.
        data: one JSON object.
        known_keys_only: refuse keys that have no meaning here.
        see: the command that explains such questions.

    Raises:
        QuestionError: the text is not such a question.
    """
    try:
        question = kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = f"key {'.'.join(map(str, first['loc']))!r}" if first["loc"] else "question"
        raise QuestionError(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}; see {see}") from None
    unknown = sorted(set(json.loads(data)) - set(kind.model_fields)) if known_keys_only else []
    if unknown:
        raise QuestionError(f"key {unknown[0]!r} is unknown; there are {', '.join(kind.model_fields)}")
    return question


def options_of(question: AssignQuestion) -> Options:
    """Return the options that a question has for its assignor."""
    return Options(
        keep_copartitioned=question.keep_copartitioned,
        stickiness=question.stickiness,
        max_skew=question.max_skew,
        balance_tolerance=question.balance_tolerance,
    )


def problem_of(question: AssignQuestion) -> Problem:
    """Return the assignment problem that a question describes.

    Raises:
        QuestionError: user data is no hexadecimal.
        AssignmentError: member ids or weights do not fit.
    """
    rack_of = {broker.id: broker.rack for broker in question.brokers}
    return build_problem(
        topics={
            topic: [[rack_of.get(replica) for replica in replicas] for replicas in partitions]
            for topic, partitions in question.topics.items()
        },
        members=[_member_input(member, question) for member in question.members],
        weights=question.weights,
        loads=question.loads,
    )


def _member_input(member: MemberPart, question: AssignQuestion) -> MemberInput:
    pairs, generation = _claims(member, question)
    owned: dict[str, list[int]] = {}
    for topic, number in pairs:
        owned.setdefault(topic, []).append(number)
    return MemberInput(
        id=member.id,
        topics=tuple(member.topics),
        rack=member.rack,
        instance_id=member.instance_id,
        reads_any_replica=(member.locality or question.locality) == "any",
        owned=owned,
        generation=generation,
        capacity=member.capacity,
        max_partitions=member.max_partitions,
    )


def _claims(member: MemberPart, question: AssignQuestion) -> tuple[list[tuple[str, int]], int]:
    """Return what a member claims and in which generation; its user data wins over its subscription."""
    pairs, generation = member.owned or [], member.generation
    if member.subscription_generation is not None and question.protocol_version >= GENERATION_SINCE:
        generation = member.subscription_generation
    if member.user_data is None:
        return pairs, generation
    try:
        data = binascii.unhexlify(member.user_data)
    except ValueError as error:
        raise QuestionError(f"user_data of member {member.id!r} is not hexadecimal ({error})") from None
    if question.assignor == COOPERATIVE_STICKY:
        decoded = sticky.decode_cooperative_sticky(data)
        return pairs, generation if decoded is None or question.protocol_version >= GENERATION_SINCE else decoded
    value = sticky.decode_sticky(data)
    if not len(value.owned):
        return pairs, generation
    return to_pairs(value.owned), generation if value.generation is None else value.generation
