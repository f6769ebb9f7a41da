"""Assignment questions as JSON: what one may hold, and the answer to it.

The format is the one in which assignors of several languages can be compared line by line: a whole group in, its
assignment out.
"""

from __future__ import annotations

import binascii
import json
import statistics
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.check import check
from samerack.assignors.consumer.registry import ASSIGNORS, Options
from samerack.assignors.evaluate import cross_rack_mask, evaluate
from samerack.assignors.model import NOBODY, AssignmentError, Int32Array, Problem
from samerack.assignors.transfer import transferring, withhold
from samerack.offline.wrong_json import explained
from samerack.planning.deadline import DEADLINE_SECONDS, FALL_BACK, LateError, assign_in_time, fall_back
from samerack.protocol import sticky
from samerack.protocol.model import to_pairs

Answer: TypeAlias = dict[str, Any]
Locality: TypeAlias = Literal["any", "leader"]
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]

COOPERATIVE: Final = "cooperative-sticky"
RACKS_SINCE: Final = 3
"""Version of the subscription that carries the member's rack (KIP-881)."""
GENERATION_SINCE: Final = 2
"""Version of the subscription that carries the generation of owned partitions (KIP-792)."""


class QuestionError(Exception):
    """A question that cannot be put to an assignor; the message names the key and what belongs there."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class Broker(_Part):
    """A broker and its rack."""

    id: int
    rack: str | None = None


class Member(_Part):
    """A member with what it owns; `owned` null means that it never had an assignment.

    `user_data` (hexadecimal) is what the member's own assignor wrote: it replaces what it claims, as far as it tells.
    `locality` overrides the group's.
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


class Question(_Part):
    """A group and the assignor it is put to.

    Kafka's `range` and `roundrobin` are answered decision for decision, so they see of a member what its subscription
    carries in `protocol_version`; all others see every rack that is told.

    `topics` lists the broker ids of the replicas of each partition, the leader first; a broker that is not listed has
    an unknown rack. `locality` tells which replicas may serve a member: any in its rack, or the leader only.
    """

    assignor: str
    brokers: list[Broker]
    topics: dict[str, list[list[int]]]
    members: list[Member]
    protocol_version: int = RACKS_SINCE
    locality: Locality = "any"
    weights: dict[str, list[int]] | None = None
    keep_copartitioned: bool = False
    stickiness: bool = True
    max_skew: int = Field(default=0, ge=0)
    spread_moves: int = Field(default=0, ge=0)
    deadline_seconds: float = Field(default=DEADLINE_SECONDS, gt=0)
    cooperative: bool = False
    repeat: int = Field(default=1, ge=1, le=10_000)
    cmd: str | None = None
    case: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The plan for a question.

    Attributes:
        question: What was asked.
        problem: The group.
        owner: [P] owners once everything has moved.
        sent: [P] owners in this round.
        nanos: Time that the assignor took.
        late: Why this is the plan of `range`, or "" where it is that of the assignor.
    """

    question: Question
    problem: Problem
    owner: Int32Array
    sent: Int32Array
    nanos: int
    late: str = ""


def parse(data: bytes | str, *, known_keys_only: bool = False) -> Question:
    """The question in a JSON text.

    Args:
        data: one JSON object.
        known_keys_only: refuse keys that mean nothing here; programs may send more than they ask.

    Raises:
        QuestionError: it is no such question.
    """
    try:
        question = Question.model_validate_json(data)
    except ValidationError as error:
        raise QuestionError(f"{explained(error)}; see samerack assign --help") from None
    unknown = sorted(set(json.loads(data)) - set(Question.model_fields)) if known_keys_only else []
    if unknown:
        raise QuestionError(f"key {unknown[0]!r} is unknown; there are {', '.join(Question.model_fields)}")
    return question


def solve(question: Question) -> Solution:
    """Put a question to its assignor, and check the plan.

    Raises:
        QuestionError: there is no such assignor, or a value does not fit.
        AssignmentError: the group cannot be assigned.
    """
    assignor = ASSIGNORS.get(question.assignor)
    if assignor is None:
        raise QuestionError(f"assignor {question.assignor!r} is not here; give one of {', '.join(ASSIGNORS)}")
    problem = problem_of(question)
    seen = _without_racks(problem) if assignor.as_kafka and question.protocol_version < RACKS_SINCE else problem
    owner, nanos, late = _plan(seen, question)
    cooperative = question.cooperative or assignor.cooperative
    sent = withhold(problem, owner) if cooperative else owner
    check(problem, sent, cooperative=cooperative)
    return Solution(question=question, problem=problem, owner=owner, sent=sent, nanos=nanos, late=late)


def options_of(question: Question) -> Options:
    """What a question asks of its assignor."""
    return Options(
        keep_copartitioned=question.keep_copartitioned,
        stickiness=question.stickiness,
        max_skew=question.max_skew,
        spread_moves=question.spread_moves,
    )


def _plan(problem: Problem, question: Question) -> tuple[Int32Array, int, str]:
    """Owners, the median time of the later half of the runs, and why range stood in; the first late run is the last."""
    nanos: list[int] = []
    for _ in range(question.repeat):
        try:
            owner, took = assign_in_time(
                question.assignor, problem, options_of(question), seconds=question.deadline_seconds
            )
        except LateError as error:
            return fall_back(problem, seconds=question.deadline_seconds), 0, str(error)
        nanos.append(took)
    return owner, int(statistics.median(nanos[len(nanos) // 2 :])), ""


def _without_racks(problem: Problem) -> Problem:
    return replace(problem, member_rack=np.full(len(problem.members), NOBODY, np.int32))


def problem_of(question: Question) -> Problem:
    """The problem that a question describes.

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
    )


def _member_input(member: Member, question: Question) -> MemberInput:
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
    )


def _claims(member: Member, question: Question) -> tuple[list[tuple[str, int]], int]:
    """What a member says it owns, and since when: its user data knows better than its subscription where both tell."""
    pairs, generation = member.owned or [], member.generation
    if member.subscription_generation is not None and question.protocol_version >= GENERATION_SINCE:
        generation = member.subscription_generation
    if member.user_data is None:
        return pairs, generation
    try:
        data = binascii.unhexlify(member.user_data)
    except ValueError as error:
        raise QuestionError(f"user_data of member {member.id!r} is no hexadecimal ({error})") from None
    if question.assignor == COOPERATIVE:
        decoded = sticky.decode_cooperative_sticky(data)
        return pairs, generation if decoded is None or question.protocol_version >= GENERATION_SINCE else decoded
    value = sticky.decode_sticky(data)
    if not len(value.owned):
        return pairs, generation
    return to_pairs(value.owned), generation if value.generation is None else value.generation


def answer_of(solution: Solution) -> Answer:
    """The answer to a question; partitions as sorted [topic, number] pairs."""
    problem, question = solution.problem, solution.question
    cost = evaluate(problem, solution.owner)
    answer: Answer = {
        "assignment": partitions_by_member(problem, solution.sent),
        "cross_rack": cost.cross_rack,
        "moved": cost.moved,
        "nanos": solution.nanos,
    }
    if solution.late:
        answer |= {"fell_back": FALL_BACK, "reason": solution.late}
    if question.cooperative or ASSIGNORS[question.assignor].cooperative:
        waiting = np.flatnonzero(transferring(problem, solution.owner)).tolist()
        answer["transferring"] = [
            [*_name(problem, partition), problem.members[solution.owner[partition]]] for partition in waiting
        ]
    return answer


def partitions_by_member(problem: Problem, owner: Int32Array) -> dict[str, list[tuple[str, int]]]:
    """Partitions of every member of the problem, sorted by topic and number."""
    result: dict[str, list[tuple[str, int]]] = {member: [] for member in problem.members}
    for partition, index in enumerate(owner.tolist()):
        if index != NOBODY:
            result[problem.members[index]].append(_name(problem, partition))
    return result


def crossing_by_member(problem: Problem, owner: Int32Array) -> list[int]:
    """Partitions that every member of the problem reads across racks."""
    counts: list[int] = np.bincount(owner[cross_rack_mask(problem, owner)], minlength=len(problem.members)).tolist()
    return counts


def _name(problem: Problem, partition: int) -> tuple[str, int]:
    return problem.topics[problem.topic_of[partition]], int(problem.number_of[partition])


def answer_line(line: bytes) -> Answer:
    """The answer to one question; whatever is wrong with it becomes `{"error": ..., "message": ...}`."""
    try:
        question = parse(line)
    except QuestionError as error:
        return _failure(error) | _case_in(line)
    case = {"case": question.case} if "case" in question.model_fields_set else {}
    try:
        return answer_of(solve(question)) | case
    except (QuestionError, AssignmentError) as error:
        return _failure(error) | case


def _failure(error: Exception) -> Answer:
    return {"error": type(error).__name__, "message": str(error)}


def _case_in(line: bytes) -> Answer:
    """The case of a question that could not be understood otherwise."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return {"case": value["case"]} if isinstance(value, dict) and "case" in value else {}
