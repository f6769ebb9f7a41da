"""A run of faults is judged by what members and agents say of a limit of groups, in their words."""

from __future__ import annotations

import pytest

from lab.sandbox.chaos.agents import FULL, role_of
from lab.sandbox.chaos.comparison import complaints
from lab.sandbox.chaos.fault import Drawn
from lab.sandbox.chaos.run import ChaosRun, Outcome, refused
from lab.sandbox.history.history import History
from lab.sandbox.members.process import Event

_SAID = (
    "org.apache.kafka.common.errors.GroupMaxSizeReachedException: Consumer group g already has …",
    'KafkaError{code=GROUP_MAX_SIZE_REACHED,val=81,str="JoinGroup failed: Broker: Consumer group …"}',
    "kafka server: Consumer group The consumer group has reached its max size. already has the configured maximum …",
    "[81] : ",
)
"""What members on Java, librdkafka, sarama and kafka-go print where Kafka 4.3 refuses them."""


def _history(message: str) -> dict[str, History]:
    return {"eager": History(members={"java-1": (Event(kind="error", ms=0, ns=5, message=message),)})}


@pytest.mark.parametrize("message", _SAID)
def test_a_refused_member_is_found_in_the_words_of_its_client(message: str) -> None:
    """Once, in the fault in which it was refused."""
    assert refused(_history(message), 5) == [f"java-1 is refused in eager: {message}"]
    assert refused(_history(message), 6) == []


def test_another_error_of_a_member_is_no_refusal() -> None:
    """Of a broker that stops, or of a record that is too large."""
    assert refused(_history("[16] Not Coordinator For Group: max.message.bytes"), 0) == []


def _run(*, led: int | None, violations: tuple[str, ...] = (), crashes: tuple[str, ...] = ()) -> ChaosRun:
    outcome = Outcome(
        drawn=Drawn(number=1, kind="member-comes-or-goes", group="eager", pick=0),
        target="extra joins",
        seconds=1,
        stops={},
        rebalances={},
        unexplained={},
        led=led,
        violations=violations,
        crashes=crashes,
        since_ns=0,
    )
    return ChaosRun(faults=(outcome,), findings={}, records=1, rebalances=0, seconds=1)


def test_a_member_that_is_refused_or_ends_beside_agents_is_wrong() -> None:
    """Without agents a refusal is a mistake of the run itself; a client's own end there is none."""
    refusal, end = "java-1 is refused in eager: full", "java-1 ended by itself: full"
    assert complaints(_run(led=1), _run(led=None)) == []
    assert len(complaints(_run(led=1, violations=(refusal,)), _run(led=None))) == 1
    assert len(complaints(_run(led=1, crashes=(end,)), _run(led=None))) == 1
    assert len(complaints(_run(led=1), _run(led=None, violations=(refusal,)))) == 1


def test_an_agent_that_makes_room_is_known_by_its_reason() -> None:
    """One that observes for another reason is not where it should be."""
    reason = "group.max.size of the brokers is 5: 4 current or expected consumers leave no room"
    assert role_of({"role": "observing", "trouble": reason}) == FULL
    assert role_of({"role": "observing", "trouble": "its members chose protocol x"}) == "observing"
    assert role_of({"role": "leading", "trouble": ""}) == "leading"
