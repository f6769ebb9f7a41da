"""Polling groups that are waited for: how many requests, what happens to moved coordinators, who is notified."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.admin.groups import DescribeGroupsRequest

from samerack.cluster.group_poller import GroupPoller
from samerack.cluster.wire import BrokerRequest, BrokerResponse


class Brokers:
    """Two brokers: groups with an even number are coordinated by broker 2, others by broker 1."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, str, int]] = []
        self.states: dict[str, str] = {}
        self.errors: dict[str, int] = {}
        self.find_errors: dict[str, int] = {}
        self.batches = True
        self.down: set[int] = set()
        self.seconds = 0.0

    def ask(self, questions: Sequence[BrokerRequest], _timeout: float) -> list[BrokerResponse]:
        """Answer all requests, in order."""
        time.sleep(self.seconds)
        return [self._answer(question) for question in questions]

    def close(self) -> None:
        """Do nothing: no connection is open."""

    def _answer(self, question: BrokerRequest) -> BrokerResponse:
        request, broker = question.request, question.broker
        if broker in self.down:
            return BrokerResponse(question=question, error=kafka_errors.KafkaConnectionError())
        if isinstance(request, DescribeGroupsRequest):
            self.asked.append((broker, "describe", len(request.groups)))
            return BrokerResponse(
                question=question, response=SimpleNamespace(groups=[*map(self._described, request.groups)])
            )
        self.asked.append((broker, "find", len(request.coordinator_keys)))
        if not self.batches:
            error = self.find_errors.get(request.key, 0)
            found = SimpleNamespace(error_code=error, node_id=_coordinator(request.key), coordinators=[])
            return BrokerResponse(question=question, response=found)
        coordinators = [
            SimpleNamespace(key=key, error_code=self.find_errors.get(key, 0), node_id=_coordinator(key))
            for key in request.coordinator_keys
        ]
        return BrokerResponse(question=question, response=SimpleNamespace(coordinators=coordinators))

    def _described(self, group: str) -> Any:
        return SimpleNamespace(
            group_id=group,
            error_code=self.errors.get(group, 0),
            group_state=self.states.get(group, "Empty"),
            protocol_type="consumer",
            protocol_data="",
            members=[],
        )


def _coordinator(group: str) -> int:
    return 2 if int(group.rpartition("-")[2]) % 2 == 0 else 1


@pytest.fixture
def brokers() -> Brokers:
    """Two brokers without errors."""
    return Brokers()


@pytest.fixture
def poller(brokers: Brokers) -> GroupPoller:
    """A poller that is not started: tests poll."""
    wire: Any = brokers
    return GroupPoller(wire, seconds=0.5)


def _watch(poller: GroupPoller, *groups: str) -> list[str]:
    """Watch groups; the list collects the names of those that changed."""
    changed: list[str] = []
    for group in groups:
        poller.watch(group, lambda group=group: changed.append(group))  # type: ignore[misc]  # bound at once
    return changed


def test_two_thousand_groups_are_one_request_to_each_coordinator(poller: GroupPoller, brokers: Brokers) -> None:
    """Coordinators are found once, with one request, and then get one DescribeGroups each per poll."""
    _watch(poller, *(f"group-{number}" for number in range(2000)))
    poller.poll_once()
    poller.poll_once()
    describes = [(1, "describe", 1000), (2, "describe", 1000)]
    assert [brokers.asked[0], *sorted(brokers.asked[1:])] == [(-1, "find", 2000), *sorted(2 * describes)]


@pytest.mark.parametrize(
    ("seconds", "answer_seconds", "pause"), [(0.2, 0.0, 0.2), (0.01, 0.02, 0.18), (0.2, 0.1, 0.5), (3.0, 0.1, 3.0)]
)
def test_polls_take_a_tenth_of_the_time_unless_an_initial_rebalance_could_be_missed(
    brokers: Brokers, seconds: float, answer_seconds: float, pause: float
) -> None:
    """The pause after a slow poll is longer, half a second at most, but not shorter than set."""
    wire: Any = brokers
    poller = GroupPoller(wire, seconds=seconds)
    _watch(poller, "group-1")
    poller.poll_once()
    brokers.seconds = answer_seconds
    assert pause <= poller.turn() <= max(pause, 0.5)


def test_brokers_before_3_0_are_asked_for_one_coordinator_at_a_time(poller: GroupPoller, brokers: Brokers) -> None:
    """FindCoordinator has no list of groups there, so each group has its own request."""
    brokers.batches = False
    _watch(poller, "group-1", "group-2")
    poller.poll_once()
    polls = [poller.latest(group) for group in ("group-1", "group-2")]
    assert all(poll is not None and poll.view is not None for poll in polls)


def test_a_listener_hears_of_changes_only(poller: GroupPoller, brokers: Brokers) -> None:
    """A group that does not change keeps the same poll object."""
    changed = _watch(poller, "group-1")
    poller.poll_once()
    first = poller.latest("group-1")
    poller.poll_once()
    assert poller.latest("group-1") is first
    brokers.states["group-1"] = "PreparingRebalance"
    poller.poll_once()
    assert changed == ["group-1", "group-1"]


def test_a_group_that_moves_keeps_its_poll_and_is_found_again(poller: GroupPoller, brokers: Brokers) -> None:
    """The coordinator is found again at the next poll, and until then the last poll stays."""
    _watch(poller, "group-1")
    poller.poll_once()
    before = poller.latest("group-1")
    brokers.errors["group-1"] = 16  # NOT_COORDINATOR
    poller.poll_once()
    assert poller.latest("group-1") is before
    brokers.errors.clear()
    poller.poll_once()
    assert [what for _, what, _ in brokers.asked] == ["find", "describe", "describe", "find", "describe"]


def test_while_a_coordinator_loads_its_answer_says_nothing(poller: GroupPoller, brokers: Brokers) -> None:
    """A coordinator that loads describes an empty group beside an error, and that answer is ignored."""
    brokers.errors["group-1"] = 14  # COORDINATOR_LOAD_IN_PROGRESS
    changed = _watch(poller, "group-1")
    poller.poll_once()
    assert (changed, poller.latest("group-1")) == ([], None)


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("refused", ["find_errors", "errors"])
def test_a_refusal_is_a_poll(poller: GroupPoller, brokers: Brokers, refused: str, *, batches: bool) -> None:
    """A group that cannot be described has a poll with the error, whichever request was refused."""
    brokers.batches = batches
    getattr(brokers, refused)["group-1"] = 30  # GROUP_AUTHORIZATION_FAILED
    _watch(poller, "group-1")
    poller.poll_once()
    poll = poller.latest("group-1")
    assert poll is not None
    assert isinstance(poll.error, kafka_errors.GroupAuthorizationFailedError)


def test_a_coordinator_that_is_not_available_yet_is_asked_for_again(poller: GroupPoller, brokers: Brokers) -> None:
    """While its coordinator is unknown a group has no poll."""
    brokers.find_errors["group-1"] = 15  # COORDINATOR_NOT_AVAILABLE
    _watch(poller, "group-1")
    poller.poll_once()
    assert poller.latest("group-1") is None
    brokers.find_errors.clear()
    poller.poll_once()
    assert poller.latest("group-1") is not None


def test_a_group_that_its_watcher_saw_empty_was_empty_then(poller: GroupPoller, brokers: Brokers) -> None:
    """The watcher's time counts, as the first consumer may come before the first poll, until a newer empty poll."""
    brokers.states["group-1"] = "PreparingRebalance"
    poller.watch("group-1", lambda: None, empty_at=12.5)
    poller.poll_once()
    poll = poller.latest("group-1")
    assert poll is not None
    assert poll.empty_at == 12.5
    brokers.states["group-1"] = "Empty"
    poller.poll_once()
    poll = poller.latest("group-1")
    assert poll is not None
    assert poll.empty_at != 12.5


def test_a_broker_that_is_down_holds_up_its_own_groups_only(poller: GroupPoller, brokers: Brokers) -> None:
    """Groups of the other broker are described, and its own once it is back."""
    _watch(poller, "group-1", "group-2")
    brokers.down = {2}
    poller.poll_once()
    assert (poller.latest("group-1") is None, poller.latest("group-2") is None) == (False, True)
    brokers.down = set()
    poller.poll_once()
    assert poller.latest("group-2") is not None


def test_what_is_no_longer_watched_is_not_asked_for(poller: GroupPoller, brokers: Brokers) -> None:
    """A group that is no longer watched is not polled: a leader inside a group polls by itself."""
    _watch(poller, "group-1")
    poller.unwatch("group-1")
    poller.poll_once()
    assert (brokers.asked, poller.latest("group-1")) == ([], None)
