"""The coordinator of one classic group: a deterministic model of what a broker of Kafka 4.3 does with each request.

The scenarios in `tests.simulator.scenarios` compare it with real brokers. Answers go to callbacks, because some
requests are parked; time is the timeline's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from functools import partial

from tests.simulator.group import Described, Error, Group, GroupMember, Join, Joined, State, Sync, Synced, Table
from tests.simulator.timeline import Event, Timeline

_CONVERTED_EPOCH = 1000
JOIN_TIMEOUT_MS = 300_000
"""A new member that is parked for this long is asked to retry (`group.coordinator` of Kafka: five minutes)."""


class Coordinator:
    """The coordinator of one group."""

    def __init__(self, timeline: Timeline, *, new_id: Callable[[str], str], initial_delay_ms: int = 0) -> None:
        self._timeline = timeline
        self._new_id = new_id
        self.initial_delay_ms = initial_delay_ms
        self._sessions: dict[str, Event] = {}
        self._join_timer: Event | None = None
        self._sync_timer: Event | None = None
        self._written: Group | None = None
        self.max_size = 0  # `group.max.size`; 0 if there is no limit
        self.record_limit: int | None = None  # `max.message.bytes` of `__consumer_offsets`; None if there is no limit
        self.too_large: Callable[[Group], None] = lambda _: None
        """Called with a group whose record is too large to be written, before its members hear that."""
        self.refused: Callable[[Join, Group], None] = lambda *_: None
        """Called with a JoinGroup that shares no protocol with the group."""
        self.full: Callable[[Join, Group], None] = lambda *_: None
        """Called with a JoinGroup that a full group refuses."""
        self.converted_at: int | None = None
        """When brokers started to assign the group, because a member of the new protocol (KIP-848) joined it."""
        self.converted: dict[str, int] = {}
        """Classic members of the converted group, with their session timeouts in milliseconds."""
        self.group: Group | None = None

    # requests

    def join(self, request: Join, answer: Callable[[Joined], None]) -> None:
        """JoinGroup; the answer comes at once or when all members have joined."""
        if self.converted_at is not None:
            self._join_converted(request, answer)
            return
        group = self.group
        if group is None:
            if request.member_id:
                answer(Joined(error=Error.UNKNOWN_MEMBER_ID, member_id=request.member_id))
                return
            group = self.group = Group()
        if not group.supports(request.protocol_type, request.protocols):
            self.refused(request, group)
            answer(Joined(error=Error.INCONSISTENT_GROUP_PROTOCOL, member_id=request.member_id))
        elif self.is_full(group, request):
            self.full(request, group)
            group.remove(request.member_id)
            answer(Joined(error=Error.GROUP_MAX_SIZE_REACHED, member_id=request.member_id))
            self._complete_if_all_joined(group)
        elif not request.member_id:
            self._join_anew(group, request, answer)
        elif request.member_id in group.pending:
            self._add(group, request, request.member_id, answer)
        else:
            self._join_again(group, request, answer)

    def sync(self, request: Sync, answer: Callable[[Synced], None]) -> None:
        """SyncGroup; parked until the leader has sent its plan."""
        member_id = request.member_id
        if self.converted_at is not None:
            known = member_id in self.converted
            answer(Synced(error=Error.NONE if known else Error.UNKNOWN_MEMBER_ID))
            return
        group = self.group
        error = self._refusal(member_id, request.instance_id, request.generation)
        if group is None or error is not Error.NONE:
            answer(Synced(error=error))
            return
        if request.protocol != group.protocol:
            answer(Synced(error=Error.INCONSISTENT_GROUP_PROTOCOL))
        elif group.state is State.PREPARING:
            answer(Synced(error=Error.REBALANCE_IN_PROGRESS))
        else:
            group.unsynced.discard(member_id)
            if not group.unsynced:
                _cancel(self._sync_timer)
            member = _known(group, member_id)
            if group.state is State.STABLE:
                answer(Synced(assignment=member.assignment))
                return
            member.syncing = answer
            if group.leader == member_id:
                plan = dict(request.assignments)
                for one in group.members:
                    one.assignment = plan.get(one.id, b"")
                if self.record_limit is not None and group.record_bytes() > self.record_limit:
                    self._fail_to_write(group)
                    return
                group.become(State.STABLE)
                self._answer_syncs(group, Error.NONE)
                self._write(group)

    def _fail_to_write(self, group: Group) -> None:
        """The group's record is larger than brokers write (KAFKA-3590): all members hear that, and join anew."""
        self.too_large(group)
        for one in group.members:
            one.assignment = b""
        self._answer_syncs(group, Error.UNKNOWN_SERVER_ERROR)
        self._prepare(group)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> Error:
        """Heartbeat."""
        if self.converted_at is not None:
            if member_id not in self.converted:
                return Error.UNKNOWN_MEMBER_ID
            self._expect_id(member_id, self.converted[member_id])
            return Error.NONE if generation == _CONVERTED_EPOCH else Error.REBALANCE_IN_PROGRESS
        group = self.group
        error = self._refusal(member_id, instance_id, generation)
        if group is None or error is not Error.NONE:
            return error
        if group.state is State.EMPTY:
            return Error.UNKNOWN_MEMBER_ID
        self._expect(_known(group, member_id))
        return Error.REBALANCE_IN_PROGRESS if group.state is State.PREPARING else Error.NONE

    def leave(self, members: Iterable[tuple[str, str | None]]) -> list[Error]:
        """LeaveGroup of members by member id and instance id, or by instance id alone where the member id is empty."""
        if self.converted_at is not None:
            gone = [member_id for member_id, _ in members if member_id in self.converted]
            for member_id in gone:
                del self.converted[member_id]
                self._cancel_session(member_id)
            return [Error.NONE if member_id in gone else Error.UNKNOWN_MEMBER_ID for member_id, _ in members]
        group = self.group
        if group is None:
            return [Error.UNKNOWN_MEMBER_ID for _ in members]
        errors = [self._remove(group, member_id, instance_id) for member_id, instance_id in members]
        if Error.NONE in errors:
            if group.state in (State.STABLE, State.COMPLETING):
                self._prepare(group)
            elif group.state is State.PREPARING:
                self._complete_if_all_joined(group)
        return errors

    def _remove(self, group: Group, member_id: str, instance_id: str | None) -> Error:
        if not member_id and instance_id is not None:
            member_id = group.static.get(instance_id, "")
        if member_id in group.pending:
            self._cancel_session(member_id)
            group.remove(member_id)
        else:
            error = self._refusal(member_id, instance_id, group.generation)
            if error is not Error.NONE:
                return error
            self._cancel_session(member_id)
            _answer_join(_known(group, member_id), Joined(error=Error.UNKNOWN_MEMBER_ID))
            group.remove(member_id)
        return Error.NONE

    def describe(self) -> Described:
        """DescribeGroups."""
        if self.converted_at is not None:
            return Described(state="Dead")
        return Described(state="Dead") if self.group is None else self.group.described()

    def convert(self) -> None:
        """A member of the new protocol joins: brokers assign the group from now on (KIP-848)."""
        members = list(self.group.members) if self.group is not None else []
        self.unload()
        self._written = None
        self.converted = {member.id: member.session_ms for member in members}
        for member in members:
            self._expect(member)
        self.converted_at = self._timeline.now

    def revert(self) -> None:
        """The members of the new protocol have left, and the classic ones with them."""
        self.converted_at = None
        for member_id in self.converted:
            self._cancel_session(member_id)
        self.converted.clear()

    def _join_converted(self, request: Join, answer: Callable[[Joined], None]) -> None:
        """A classic member of a converted group has no leader."""
        member_id = request.member_id or self._new_id(request.instance_id or request.client_id)
        self.converted[member_id] = request.session_ms
        self._expect_id(member_id, request.session_ms)
        protocol = request.protocols[0][0]
        answer(Joined(member_id=member_id, generation=_CONVERTED_EPOCH, protocol=protocol))

    def is_full(self, group: Group, request: Join, *, without: str = "") -> bool:
        """Whether the group is full (`acceptJoiningMember` of Kafka), apart from members with one client id.

        A static member that joins anew is not known by its instance id.
        """
        if not self.max_size or group.state is State.EMPTY:
            return False
        members = [one for one in group.members if one.client_id != without]
        if group.state is State.PREPARING:
            member = group.members.get(request.member_id)
            parked = sum(one.joining is not None for one in members)
            return not (member is not None and member.joining is not None) and parked >= self.max_size
        return request.member_id not in group.members and len(members) >= self.max_size

    # which broker coordinates

    def unload(self) -> None:
        """Another broker takes over the group: parked requests are answered NOT_COORDINATOR."""
        group = self.group
        if group is None:
            return
        for member in group.members:
            _answer_join(member, Joined(error=Error.NOT_COORDINATOR, member_id=member.id))
            _answer_sync(member, Synced(error=Error.NOT_COORDINATOR))
        for member_id in (*self._sessions,):
            self._cancel_session(member_id)
        _cancel(self._join_timer)
        _cancel(self._sync_timer)
        self.group = None

    def load(self) -> None:
        """This broker now coordinates the group: it loads what was written last, and restarts every session timeout."""
        self.group = _copied(self._written) if self._written is not None else None
        if self.group is not None:
            for member in self.group.members:
                self._expect(member)

    # joining

    def _join_anew(self, group: Group, request: Join, answer: Callable[[Joined], None]) -> None:
        member_id = self._new_id(request.instance_id or request.client_id)
        if request.instance_id is None:
            group.pending[member_id] = request.client_id
            self._expect_id(member_id, request.session_ms)
            answer(Joined(error=Error.MEMBER_ID_REQUIRED, member_id=member_id))
            return
        old = group.static.get(request.instance_id)
        if old is None:
            self._add(group, request, member_id, answer)
        else:
            self._replace(group, request, old, member_id, answer)

    def _add(self, group: Group, request: Join, member_id: str, answer: Callable[[Joined], None]) -> None:
        if group.forms:
            group.new_member = True
        if not len(group.members):
            group.protocol_type = request.protocol_type
        group.add(
            GroupMember(
                id=member_id,
                instance_id=request.instance_id,
                client_id=request.client_id,
                client_host=request.client_host,
                session_ms=request.session_ms,
                rebalance_ms=request.rebalance_ms,
                protocols=request.protocols,
                since=self._timeline.now,
                is_new=True,
                joining=answer,
            )
        )
        self._expect_id(member_id, JOIN_TIMEOUT_MS)
        self._prepare_or_complete(group)

    def _replace(
        self, group: Group, request: Join, old_id: str, member_id: str, answer: Callable[[Joined], None]
    ) -> None:
        """A static member joins without its member id: it replaces the member that had the instance id."""
        old = _known(group, old_id)
        _answer_join(old, Joined(error=Error.FENCED_INSTANCE_ID, member_id=old_id))
        _answer_sync(old, Synced(error=Error.FENCED_INSTANCE_ID))
        led = group.leader == old_id
        group.members.pop(old_id)
        member = copy(old)
        member.id, member.is_new = member_id, False
        group.members.put(member)
        group.static[request.instance_id or ""] = member_id
        if led:
            group.leader = member_id
        self._cancel_session(old_id)
        self._expect(member)
        self._update(member, request, answer)
        if group.state is State.STABLE and group.elected_protocol() == group.protocol:
            self._write(group)
            leads = group.leader == member_id
            _answer_join(member, self._joined(group, member, members=leads, skip=leads))
        elif group.state is State.STABLE:
            self._prepare_or_complete(group)
        elif group.state is State.COMPLETING:
            self._prepare(group)
        else:
            self._complete_if_all_joined(group)

    def _join_again(self, group: Group, request: Join, answer: Callable[[Joined], None]) -> None:
        error = self._refusal(request.member_id, request.instance_id, group.generation)
        if error is not Error.NONE or group.state is State.EMPTY:
            answer(Joined(error=error or Error.UNKNOWN_MEMBER_ID, member_id=request.member_id))
            return
        member = _known(group, request.member_id)
        same = member.protocols == request.protocols
        leads = group.leader == member.id
        if same and (group.state is State.COMPLETING or (group.state is State.STABLE and not leads)):
            answer(self._joined(group, member, members=leads and group.state is State.COMPLETING, skip=False))
            return
        self._update(member, request, answer)
        self._prepare_or_complete(group)

    @staticmethod
    def _update(member: GroupMember, request: Join, answer: Callable[[Joined], None]) -> None:
        member.protocols = request.protocols
        member.session_ms, member.rebalance_ms = request.session_ms, request.rebalance_ms
        member.joining = answer

    @staticmethod
    def _joined(group: Group, member: GroupMember, *, members: bool, skip: bool) -> Joined:
        return Joined(
            member_id=member.id,
            generation=group.generation,
            protocol=group.protocol,
            leader=group.leader,
            skip_assignment=skip,
            members=group.as_answered() if members else (),
        )

    # rebalancing

    def _prepare_or_complete(self, group: Group) -> None:
        if group.state is State.PREPARING:
            self._complete_if_all_joined(group)
        else:
            self._prepare(group)

    def _prepare(self, group: Group) -> None:
        """Start a rebalance: each member has to join, or is removed when the rebalance timeout is over."""
        if group.state is State.COMPLETING:
            for member in group.members:
                member.assignment = b""
            self._answer_syncs(group, Error.REBALANCE_IN_PROGRESS)
        group.unsynced.clear()
        _cancel(self._sync_timer)
        first = group.state is State.EMPTY
        group.become(State.PREPARING)
        if first:
            delay = self.initial_delay_ms
            self._await_joins(delay, partial(self._initial_over, delay, max(group.rebalance_ms() - delay, 0)))
        elif group.all_joined():
            self._complete(group)
        else:
            self._await_joins(group.rebalance_ms(), self._time_is_over)

    def _await_joins(self, milliseconds: int, action: Callable[[], None]) -> None:
        _cancel(self._join_timer)
        self._join_timer = self._timeline.after(milliseconds, action)

    def _initial_over(self, delay: int, remaining: int) -> None:
        group = self.group
        if group is None:
            return
        if group.new_member and remaining:
            group.new_member = False
            longer = min(self.initial_delay_ms, remaining)
            self._await_joins(longer, partial(self._initial_over, longer, max(remaining - delay, 0)))
        else:
            self._complete(group)

    def _time_is_over(self) -> None:
        if self.group is not None:
            self._complete(self.group)

    def _complete_if_all_joined(self, group: Group) -> None:
        if group.state is State.PREPARING and not group.forms and group.all_joined():
            self._complete(group)

    def _complete(self, group: Group) -> None:
        """All have joined or timed out: a new generation starts; late static members stay in it."""
        _cancel(self._join_timer)
        for member in [one for one in group.members if one.joining is None and one.instance_id is None]:
            self._cancel_session(member.id)
            group.remove(member.id)
        leader = group.members.get(group.leader)
        if leader is not None and leader.joining is None:
            heir = next((one for one in group.members if one.joining is not None), None)
            if heir is None:
                self._await_joins(group.rebalance_ms(), self._time_is_over)
                return
            group.leader = heir.id
        group.generation += 1
        group.unsynced.clear()
        if not len(group.members):
            group.protocol = ""
            group.become(State.EMPTY)
            self._write(group)
            return
        group.protocol = group.elected_protocol()
        group.become(State.COMPLETING)
        answers = [
            (member, self._joined(group, member, members=member.id == group.leader, skip=False))
            for member in group.members
        ]
        for member, joined in answers:
            _answer_join(member, joined)
            self._expect(member)
            member.is_new = False
            group.unsynced.add(member.id)
        self._sync_timer = self._timeline.after(group.rebalance_ms(), partial(self._syncs_over, group.generation))

    def _syncs_over(self, generation: int) -> None:
        group = self.group
        if group is None or group.generation != generation or group.state not in (State.COMPLETING, State.STABLE):
            return
        for member_id in sorted(group.unsynced):
            group.remove(member_id)
            self._cancel_session(member_id)
        self._prepare(group)

    def _answer_syncs(self, group: Group, error: Error) -> None:
        for member in group.members:
            if member.syncing is not None:
                _answer_sync(member, Synced(error=error, assignment=member.assignment))
                self._expect(member)

    # sessions

    def _refusal(self, member_id: str, instance_id: str | None, generation: int) -> Error:
        group = self.group
        if group is None:
            return Error.UNKNOWN_MEMBER_ID
        if instance_id is not None:
            holder = group.static.get(instance_id)
            if holder is None:
                return Error.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return Error.FENCED_INSTANCE_ID
        if member_id not in group.members:
            return Error.UNKNOWN_MEMBER_ID
        return Error.NONE if generation == group.generation else Error.ILLEGAL_GENERATION

    def _expect(self, member: GroupMember) -> None:
        self._expect_id(member.id, member.session_ms)

    def _expect_id(self, member_id: str, milliseconds: int) -> None:
        self._cancel_session(member_id)
        self._sessions[member_id] = self._timeline.after(milliseconds, partial(self._expire, member_id), repeats=True)

    def _cancel_session(self, member_id: str) -> None:
        _cancel(self._sessions.pop(member_id, None))

    def _expire(self, member_id: str) -> None:
        """The session has timed out; a parked member needs no heartbeat, unless it is new."""
        group = self.group
        self._sessions.pop(member_id, None)
        self.converted.pop(member_id, None)
        if group is None:
            return
        member = group.members.get(member_id)
        if member is None:
            if member_id in group.pending:
                group.remove(member_id)
                self._complete_if_waiting(group)
            return
        if not member.is_new and (member.joining is not None or member.syncing is not None):
            return
        _answer_join(member, Joined(error=Error.UNKNOWN_MEMBER_ID))
        group.remove(member_id)
        if group.state in (State.STABLE, State.COMPLETING):
            self._prepare(group)
        else:
            self._complete_if_waiting(group)

    def _complete_if_waiting(self, group: Group) -> None:
        if group.state is State.PREPARING and group.all_joined():
            self._complete(group)

    # what survives a broker

    def _write(self, group: Group) -> None:
        self._written = _copied(group)


def _known(group: Group, member_id: str) -> GroupMember:
    member = group.members.get(member_id)
    assert member is not None
    return member


def _cancel(event: Event | None) -> None:
    if event is not None:
        event.cancel()


def _answer_join(member: GroupMember, joined: Joined) -> None:
    answer, member.joining = member.joining, None
    if answer is not None:
        answer(joined)


def _answer_sync(member: GroupMember, synced: Synced) -> None:
    answer, member.syncing = member.syncing, None
    if answer is not None:
        answer(synced)


def _copied(group: Group) -> Group:
    """The group as it is written: without what is pending or parked."""
    members = Table()
    for member in group.members:
        one = copy(member)
        one.joining = one.syncing = None
        one.is_new = False
        members.put(one)
    return Group(
        state=group.state,
        before=group.before,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        members=members,
        static=dict(group.static),
    )
