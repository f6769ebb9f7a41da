"""Samerack's assignor in real brokers (KIP-848): members read in their racks, and follow what moves."""

from __future__ import annotations

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.commands import samerack_json
from lab.sandbox.contract import RACKS
from lab.sandbox.jvm import BROKER_VERSION
from tests.integration.new_protocol import SPREAD, assignor, join, join_each
from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario
from tests.integration.test_verify import codes, verify

pytestmark = pytest.mark.skipif(BROKER_VERSION.startswith("3."), reason="brokers assign no groups before Kafka 4")


@pytest.mark.promise("With samerack's assignor in the brokers (KIP-848) members read in their own racks.")
def test_reads_come_into_the_members_racks(scenario: Scenario) -> None:
    """Members on librdkafka and Java have the partitions of their racks, and no record is lost."""
    scenario.lay_out(SPREAD)
    for client in ("java", "confluent"):
        join_each(scenario, client, client, client)
        scenario.wait_settled()
    scenario.wait_settled(cross_rack=0)
    assert assignor(scenario) == "samerack"
    scenario.finish()


def test_moved_replicas_are_followed(scenario: Scenario) -> None:
    """KIP-1101: the brokers compute a new assignment when racks of replicas change; members need do nothing."""
    scenario.lay_out(INTERLEAVED)
    join_each(scenario, "confluent", "confluent", "confluent")
    scenario.wait_settled(cross_rack=0)
    scenario.admin.move_replicas({(scenario.topic, 0): [2], (scenario.topic, 1): [3], (scenario.topic, 2): [1]})
    scenario.wait_settled(cross_rack=0, timeout=45.0)
    scenario.check_owned_once()
    scenario.finish()


def test_members_without_racks_get_their_fair_share(scenario: Scenario) -> None:
    """Members with racks read near; one without a rack has as many partitions as they."""
    scenario.lay_out(SPREAD)
    for rack in (A, B, C, ""):
        join(scenario, "confluent", rack)
    scenario.wait_settled()

    def near() -> bool:
        leaders = {
            partition: RACKS[placed.leader] for partition, placed in scenario.admin.replicas(scenario.topics).items()
        }
        return all(
            len(participant.member.owned) == 3
            and all(participant.rack in ("", leaders[one]) for one in participant.member.owned)
            for participant in scenario.participants
        )

    wait_until(near, "all are even, and those with a rack read there", timeout=30)
    scenario.finish()


def test_static_members_that_change_racks_need_another_one_for_a_while(scenario: Scenario) -> None:
    """Brokers give a static member that comes back what it had; a dynamic one that joins for seconds brings a new plan.

    The advice of `samerack plan` says so, and `samerack verify` names the group. After restarting each member, and all
    of them, 6 of 9 partitions stayed far.
    """
    scenario.lay_out(((1,), (2,), (3,)) * 3)
    for rack in (A, B, C):
        join(scenario, "confluent", rack, group_instance_id=f"static-{rack}")
    scenario.wait_settled(cross_rack=0)
    for rack, name in ((B, A), (C, B), (A, C)):
        scenario.leave(scenario.participants[0])
        join(scenario, "confluent", rack, group_instance_id=f"static-{name}")
        scenario.wait_settled()
    assert scenario.cross_rack() > 0
    assert "start another consumer in it without group.instance.id" in _advice(scenario)
    assert "broker-assigned-without-racks" in codes(verify(scenario.cluster, scenario.group)[1])
    another = join(scenario, "confluent", A)
    another.wait(lambda: bool(another.owned), "it has partitions")
    scenario.leave(scenario.participants[-1])
    scenario.wait_settled(cross_rack=0)
    scenario.finish()


def _advice(scenario: Scenario) -> str:
    answer = samerack_json("plan", scenario.group, "--json", "-b", scenario.cluster.bootstrap)
    return str(answer["server"]["advice"])


@pytest.mark.promise(
    "A led group moves to KIP-848 member by member: the agent steps back, and the brokers' plan is near."
)
def test_a_led_group_moves_to_the_new_protocol(scenario: Scenario) -> None:
    """The agent leads the classic members, steps back when the first one changes, and the brokers read near too.

    Members change one by one, as in a deploy. No record is lost or read twice.
    """
    agent = scenario.led("confluent", "confluent", "confluent")
    for participant in tuple(scenario.participants):
        scenario.leave(participant)
        join(scenario, "confluent", participant.rack)
        scenario.wait_settled()
    agent.wait_role("observing")
    assert scenario.agent_member() is None
    scenario.wait_settled(cross_rack=0)
    assert assignor(scenario) == "samerack"
    scenario.finish()
