"""A sidecar in each pod: the leading one learns all racks from the others, without the help of clients."""

from typing import Final

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.members.lines import MemberSettings
from tests.integration.pods import Container, Pods, logged, role, shown, wait_ready
from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario

_NEAR: Final = {A: {0, 3}, B: {1, 4}, C: {2, 5}}
"""The partitions of INTERLEAVED by rack."""


def _pod(pods: Pods, scenario: Scenario, client: str, rack: str, wanted: str) -> tuple[Container, Container]:
    """Start a sidecar with a rack, first as native sidecars are, and a consumer without one in the same pod.

    The consumer starts once the sidecar has its role: the first of a group has to be elected before it can lead.
    """
    sidecar = pods.start(
        f"sidecar in {rack}",
        command=["run", "--group", scenario.group],
        environment={
            "SAMERACK_KAFKA__BOOTSTRAP_SERVERS": pods.bootstrap,
            "SAMERACK_ELECTION__GROUP": f"samerack-{scenario.group}",
            "SAMERACK_ELECTION__IDENTITY": f"sidecar-{rack}",
            "CLIENT_RACK": rack,
        },
    )
    wait_ready(sidecar)
    wait_until(lambda: role(sidecar, scenario.group) == wanted, f"the sidecar in {rack} is {wanted}", timeout=30)
    settings = MemberSettings(
        bootstrap=pods.bootstrap,
        group=scenario.group,
        topics=(scenario.topic,),
        client_id=f"{client}-{rack}",
        assignors=("range",),
        properties={"heartbeat.interval.ms": "500", "session.timeout.ms": "10000"},  # a killed member is removed soon
    )
    consumer = pods.start_member(f"{client} in {rack}", client, settings, beside=sidecar)
    return sidecar, consumer


def _given(scenario: Scenario) -> dict[str, set[int]]:
    """Partitions by the rack in the client id, as the leader assigned them by the broker."""
    given = scenario.given() or {}
    return {client_id[-len(A) :]: {number for _, number in partitions} for client_id, partitions in given.items()}


@pytest.mark.timeout(240)
def test_sidecars_report_to_the_one_that_leads(pods: Pods, scenario: Scenario) -> None:
    """Each member reads in its own rack without sending it; after the leading pod is killed, another leads as well."""
    scenario.lay_out(INTERLEAVED)
    running = [
        _pod(pods, scenario, client, rack, wanted)
        for client, rack, wanted in (
            ("kafka_python", A, "waiting"),
            ("confluent", B, "standby"),
            ("kafka_python", C, "standby"),
        )
    ]
    sidecars = {rack: sidecar for rack, (sidecar, _) in zip((A, B, C), running, strict=True)}
    wait_until(lambda: _given(scenario) == _NEAR, "everybody reads near", timeout=60)
    leading = next(rack for rack, sidecar in sidecars.items() if role(sidecar, scenario.group) == "leading")
    assert sorted(role(one, scenario.group) for one in sidecars.values()) == ["leading", "standby", "standby"]
    assert 'samerack_members_without_rack{group="' + scenario.group + '"} 0.0' in shown(sidecars[leading], "/metrics")
    assert logged(sidecars[leading], "elected")[-1]["hosts"] == 3

    for container in running[(A, B, C).index(leading)]:
        container.kill()
    left = {rack: sidecar for rack, sidecar in sidecars.items() if rack != leading}
    wait_until(lambda: "leading" in [role(one, scenario.group) for one in left.values()], "another leads", timeout=60)
    wait_until(
        lambda: len(_given(scenario)) == 2 and all(_given(scenario)[rack] >= _NEAR[rack] for rack in left),
        "the two that are left read near what they can",
        timeout=60,
    )
