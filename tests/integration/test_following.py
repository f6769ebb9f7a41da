"""A led group follows its racks, partitions and topics."""

import time

import pytest

from lab.sandbox.contract import RACKS
from tests.integration.scenario import INTERLEAVED, A, B, Scenario


@pytest.mark.promise(
    "When replicas move to other racks, the agent rebalances the group once, and all reads are near again."
)
def test_a_replica_move_is_followed(scenario: Scenario) -> None:
    """Two partitions swap racks; the group follows, with default heartbeats too."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()
    scenario.join_each("java", "confluent", "kafka-python", heartbeat_interval_ms="")
    scenario.wait_led(agent, cross_rack=0)
    since = time.time_ns() // 1_000_000
    scenario.swap()
    shown = time.monotonic()
    scenario.wait_settled(cross_rack=0)
    seconds = time.monotonic() - shown
    print(f"followed after {seconds:.1f} s, longest pause {scenario.longest_pause(since_ms=since):.1f} s")  # noqa: T201 - pytest -rP shows the measurement
    decision = agent.events("decision")[-1]
    assert (decision["action"], decision["reason"]) == ("rebalance", "racks-changed")
    assert decision["cross_rack_share_before"] == pytest.approx(1 / 3, abs=0.001)  # weights may be measured by then
    assert decision["cross_rack_share_after"] == 0.0
    assert agent.metric("samerack_rebalances_total", group=scenario.group, reason="racks-changed") == 1.0
    scenario.finish()


@pytest.mark.moves_brokers
def test_a_broker_in_another_rack_is_followed(scenario: Scenario) -> None:
    """A broker restarts in another rack, and its partitions move to the members there as far as balance allows."""
    coordinator = scenario.coordinator()
    moving, here, there = sorted(RACKS, key=lambda broker: (broker == coordinator, broker))
    old, new = RACKS[moving], RACKS[here]
    assert old is not None
    assert new is not None
    scenario.lay_out([[moving], [moving], [here], [there]])
    agent = scenario.waiting_agent()
    scenario.join("confluent", old)
    scenario.join("java", new)
    scenario.wait_settled(cross_rack=1)
    scenario.cluster.restart_broker(moving, rack=new)
    shown = time.monotonic()
    # without a rebalance it would be 3: both partitions of the moved broker, and the one whose rack has no member
    scenario.wait_settled(cross_rack=2)
    print(f"followed after {time.monotonic() - shown:.1f} s")  # noqa: T201 - see above
    assert agent.events("change", kind="broker-rack", before=old, after=new)
    assert agent.events("decision")[-1]["reason"] == "racks-changed"
    scenario.finish()


@pytest.mark.promise("New partitions and new topics have owners without use of the rebalance budget.")
def test_new_partitions_and_topics_are_assigned(scenario: Scenario) -> None:
    """An added partition and a new topic have owners, without use of the budget.

    The members are not librdkafka's: it subscribes to a missing topic only once it has found it itself.
    """
    later = f"{scenario.topic}-later"
    scenario.topics = (scenario.topic, later)
    scenario.lay_out([[1], [2]])
    agent = scenario.waiting_agent()
    scenario.join("java", A)
    scenario.join("kafka-python", B)
    scenario.wait_led(agent, cross_rack=0)

    scenario.admin.add_partitions(scenario.topic, [[1], [2]])
    seconds = scenario.wait_settled(cross_rack=0)
    scenario.lay_out([[2], [1]], later)
    more = scenario.wait_settled(cross_rack=0)
    print(f"a new partition was assigned after {seconds:.1f} s, a new topic after {more:.1f} s")  # noqa: T201 - see above
    assert {event["reason"] for event in agent.events("decision")} == {"partitions-changed"}
    assert agent.metric("samerack_budget_rebalances", group=scenario.group) == 3.0
    scenario.finish()
