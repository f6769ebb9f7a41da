"""A short set of the tests of leading, on the oldest tested brokers.

`SANDBOX_KAFKA_VERSION=3.9.2 scripts/test --room leading` runs the whole set on them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.sandbox.contract import KafkaCluster
from tests.integration.cluster import OLDEST_IMAGE, ContainerCluster
from tests.integration.test_accepting_plans import test_languages_mix_in_one_group
from tests.integration.test_broker_facts import (
    enter,
    test_a_restarted_static_leader_still_leads,
    test_a_static_member_gets_a_new_place_without_a_rebalance,
)
from tests.integration.test_broker_versions import test_the_agent_says_what_the_brokers_can_do
from tests.integration.test_failures import test_a_restarted_agent_keeps_the_lead

pytestmark = [pytest.mark.own_cluster, pytest.mark.extended]

__all__ = [
    "enter",
    "test_a_restarted_agent_keeps_the_lead",
    "test_a_restarted_static_leader_still_leads",
    "test_a_static_member_gets_a_new_place_without_a_rebalance",
    "test_languages_mix_in_one_group",
    "test_the_agent_says_what_the_brokers_can_do",
]


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[KafkaCluster]:
    """A cluster of the oldest brokers, in place of the shared one."""
    with ContainerCluster(image=OLDEST_IMAGE) as running:
        yield running


@pytest.fixture
def release() -> str:
    """The release that `tests.integration.test_broker_versions` must find."""
    return "3.9"
