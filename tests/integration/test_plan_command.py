"""`samerack plan` on a live group: it shows what the members own, and what the agent would assign."""

import json
import subprocess

import pytest

from lab.sandbox.commands import samerack, samerack_json
from lab.sandbox.members.lines import Partition
from tests.integration.scenario import INTERLEAVED, Scenario

_RACKS = "racks.client_ids={'*-rack-a': rack-a, '*-rack-b': rack-b, '*-rack-c': rack-c}"


def _plan(scenario: Scenario, group: str, *options: str) -> subprocess.CompletedProcess[str]:
    return samerack("plan", group, "-b", scenario.cluster.bootstrap, "-s", _RACKS, *options)


@pytest.mark.parametrize(
    "led",
    [
        pytest.param(False, id="by itself"),
        pytest.param(
            True,
            id="by the agent",
            marks=pytest.mark.promise(
                "`samerack plan` shows what members have, and nothing to move in a group that the agent leads."
            ),
        ),
    ],
)
def test_a_plan_shows_what_members_have(scenario: Scenario, *, led: bool) -> None:
    """Partitions per member equal those that the members report; cross-rack partitions equal those by metadata."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent() if led else None
    scenario.join_each("kafka-python", "aiokafka", "kafka-python")
    if agent is not None:
        scenario.wait_led(agent, cross_rack=0)
    scenario.wait_settled()

    port = agent.port if agent is not None else "0"
    answer = json.loads(_plan(scenario, scenario.group, "--json", "-s", f"web.port={port}").stdout)
    shown: dict[str, frozenset[Partition]] = {
        client_id: frozenset((topic, number) for topic, number in member["present"]["partitions"])
        for member in answer["members"]
        for client_id in scenario.owned()
        if member["client_id"] == client_id
    }
    assert shown == scenario.owned()
    assert len(answer["members"]) == 3
    assert answer["present"]["cross_rack"] == scenario.cross_rack()
    assert answer["proposed"]["cross_rack"] == 0
    assert ["may not be those of the running agent" in one for one in answer["warnings"]] == [True] * led
    assert (answer["protocol"], answer["assignor"]) == ("range", "optimal")
    if led:
        assert answer["agent_leads"] == "the running agent leads it now"
        assert answer["proposed"]["moved"] == 0
    else:
        assert "nearly always within one rolling deploy" in answer["agent_leads"]
        assert answer["proposed"]["moved"] > 0

    table = _plan(scenario, scenario.group)
    assert table.returncode == 0
    assert f"now {answer['present']['cross_rack']} partitions" in table.stdout
    assert scenario.owned() == shown


@pytest.mark.promise("What is not known is unknown, not 0: `samerack plan` of members without racks.")
def test_members_without_racks_are_unknown_and_not_0_percent(scenario: Scenario) -> None:
    """Without settings of racks nothing is known of clients that send none: null, unknown in words, and the cure."""
    scenario.lay_out(INTERLEAVED)
    scenario.join_each("kafka-python", "aiokafka", "kafka-python")
    scenario.wait_settled(cross_rack=None)
    asked = ("plan", scenario.group, "-b", scenario.cluster.bootstrap)
    answer, shown = samerack_json(*asked, "--json"), samerack(*asked).stdout
    for plan in ("present", "proposed"):
        figures = answer[plan]
        assert (figures["cross_rack"], figures["cross_rack_share"], figures["known"]) == (None, None, 0)
    assert "across racks: now unknown, with optimal unknown, moving 0" in shown
    assert "3 of 3 members have no rack" in " ".join(shown.split())
    assert "--takeover" not in shown
    assert "%" not in shown.partition("across racks: now")[2].partition(";")[0]


def test_a_group_that_is_not_there_is_an_error(scenario: Scenario) -> None:
    """A missing group gives one line with the error, and exit code 1."""
    answer = _plan(scenario, scenario.group)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith(f"samerack: group {scenario.group}: does not exist on these brokers; closest")
