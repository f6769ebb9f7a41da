"""What programs of ours exchange as JSON: records for a whole fleet, and an agent's answers over HTTP.

Records are samples of traffic and states of groups: the contract between `agent` (writes) and `pipeline` (reads);
`samerack.events.event` has those of events. A reader ignores unknown fields, so that records of a newer agent can be
read. Bytes are bytes on the wire,
broker to consumer; times are milliseconds since 1970; racks are names, "" for an unknown rack.
"""

from __future__ import annotations

from typing import Annotated, Final, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from samerack.common.errors import AgentError

SCHEMA: Final = 1
"""Version that this code writes; it is raised when a field changes its meaning, not when one is added."""

UNKNOWN: Final = -1
"""Value of an index for an unknown rack, or for a partition without an owner."""

LEADING: Final = "leading"
"""The role of an agent that leads a group."""
FOLLOWING: Final = "following"
"""The role of an agent that is in a group, and leads it as soon as its leader has left."""

Count = Annotated[int, Field(ge=0, lt=2**63)]
Id = Annotated[str, Field(min_length=1, max_length=64)]


class Record(BaseModel):
    """The fields of all kinds of records.

    Attributes:
        schema_version: `schema` in JSON.
        id: unique over the fleet for all time; a record that is sent twice has the same id.
        agent: the agent that measured (`group.instance.id` and host).
        cluster: the cluster's name from the settings, else its id.
        group: the consumer group.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True, serialize_by_alias=True)

    schema_version: Annotated[int, Field(ge=1, alias="schema")] = SCHEMA
    id: Id
    agent: str
    cluster: str
    group: str


class TrafficSample(Record):
    """The traffic of one group from one topic between two racks in one window.

    Attributes:
        topic: the topic.
        client_rack: rack of the members that read.
        replica_rack: rack of the replicas that served.
        method: `exact` if clients counted the bytes themselves.
        window_start: start of the window, inclusive.
        window_end: end of the window, exclusive; the sample belongs to the minute of `window_start`.
        bytes: wire bytes.
        records: records, by offsets.
        election: Kafka group of the election whose agents together count each byte once; "" if the agent counts
            everything itself, even if other agents do too.
    """

    topic: str
    client_rack: str
    replica_rack: str
    method: Literal["estimated", "exact"]
    window_start: Count
    window_end: Count
    bytes: Count
    records: Count
    election: str = ""


class MemberState(BaseModel):
    """One member of a group.

    Attributes:
        id: member id.
        client_id: as the client names itself.
        rack: index into the state's `racks`, or UNKNOWN.
        fetches_with_rack: whether its fetches contain its rack (KIP-392).
        topics: its subscribed topics: indices into the state's `topics`.
        tells_rack: whether its subscription contains its rack (KIP-881), so that its group's own assignor knows it too;
            None if an older agent did not report it.
        client: of Kafka Streams, the number of its client, whose threads are members; None for other groups, if it is
            not known, and if an older agent did not report it.
        capacity: load that it can carry, relative to the others; None where all are alike.
        max_partitions: partitions that it may have at most; None for no limit.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    client_id: str
    rack: int
    fetches_with_rack: bool
    topics: tuple[int, ...]
    tells_rack: bool | None = None
    client: int | None = None
    capacity: float | None = None
    max_partitions: Count | None = None


class PlanningState(BaseModel):
    """How the agent plans a group that it leads, or would plan it: its settings, as the group's protocol makes them.

    Attributes:
        by_bytes: whether partitions are weighted by throughput; `TopicState.weights` has the weights.
        keep_copartitioned: whether partition i of co-partitioned topics stays on one member.
        max_skew: partitions beyond its fair share that a member may have for locality.
        balance_tolerance: how far the most loaded member may be above the least possible, as a share of that; None
            where counts of partitions are balanced.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    by_bytes: bool
    keep_copartitioned: bool
    max_skew: Count
    balance_tolerance: float | None = None


class TopicState(BaseModel):
    """One topic that a group reads; the lists have one entry per partition, by number.

    Attributes:
        name: the topic.
        replicas: indices into the state's `racks`, the leader's first; UNKNOWN for an unknown rack.
        owner: index into the state's `members`, or UNKNOWN.
        bytes_per_second: wire bytes; empty if the rate of the topic is unknown.
        tasks: of Kafka Streams, the number of the task that reads the partition, ascending by task, or UNKNOWN; None as
            `MemberState.client`.
        weights: what planning counts a partition as; None if partitions count alike, if the agent does not know the
            group's traffic yet, and if an older agent did not report it.
        loads: what members are balanced by; None where each partition is a load of 1.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    replicas: tuple[tuple[int, ...], ...]
    owner: tuple[int, ...]
    bytes_per_second: tuple[float, ...] = ()
    tasks: tuple[int, ...] | None = None
    weights: tuple[int, ...] | None = None
    loads: tuple[int, ...] | None = None


class GroupState(Record):
    """One group at one moment: enough input for any assignor.

    Attributes:
        at: the time of the snapshot.
        kind: classic, consumer (KIP-848), streams-classic, streams (KIP-1071), share (KIP-932), other.
        state: the brokers' name of the group's state.
        assignor: protocol or assignor that the group uses, "" if there is none.
        role: the agent's role in the group, such as leading; "" if it only measures.
        rack_aware_fetch: whether the brokers serve from the reader's rack; None if unknown.
        racks: every rack of brokers and members, by name.
        broker_racks: how many of `racks` are racks of brokers; these come first.
        members: the members, without the agent.
        topics: the topics that they read.
        planning: how the agent plans the group; None if an older agent did not report it.
        refusal: why the agent would not join the group; "" if it may, None if the group is not a classic one, and if an
            older agent did not report it.
    """

    at: Count
    kind: str
    state: str
    assignor: str
    role: str
    rack_aware_fetch: bool | None
    racks: tuple[str, ...]
    broker_racks: Count
    members: tuple[MemberState, ...]
    topics: tuple[TopicState, ...]
    planning: PlanningState | None = None
    refusal: str | None = None


def encode(record: Record) -> bytes:
    """Encode one record as JSON in UTF-8, without line breaks."""
    return record.model_dump_json().encode()


Value = TypeVar("Value")


class JsonAnswer(Generic[Value]):
    """The JSON of one kind of answer: as an agent writes it, and as another program reads it."""

    def __init__(self, kind: type[Value], missing: str) -> None:
        """Prepare; `missing` is what is wrong with a text of another form, as in "is not a list of findings"."""
        self.kind = TypeAdapter(kind)
        self._missing = missing

    def to_json(self, value: Value) -> bytes:
        """Return the JSON."""
        return self.kind.dump_json(value)

    def from_json(self, text: bytes | str) -> Value:
        """Return the value in such a JSON text.

        Raises:
            AgentError: The text contains none.
        """
        try:
            return self.kind.validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            place = [".".join(map(str, first["loc"]))] if first["loc"] else []
            raise AgentError(": ".join([f"the answer {self._missing}", *place, first["msg"]])) from None
