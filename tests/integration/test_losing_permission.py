"""The loss of a permission while the agent leads, and its return."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from sandbox.admin import wait_until
from sandbox.cluster import Cluster
from tests.integration.test_permissions import ALLOWED, GROUP, _allow, _forbid, _see, acls, cluster, opened

__all__ = ["acls", "cluster", "opened"]


@pytest.mark.promise(
    "An agent that loses its permission leaves the group to its members, says what to allow, and comes back."
)
def test_who_may_lead_no_more_makes_room(
    cluster: Cluster,
    acls: AdminClient,
    tmp_path: Path,
    opened: ExitStack,
) -> None:
    """Without READ on the group, a member leads; the agent reports what to allow, retries, and rejoins once allowed."""
    _allow(acls, ALLOWED)
    seen = _see(cluster, tmp_path, opened)
    agent = seen.agent
    agent.wait_role("leading")
    _forbid(acls, {("group", GROUP, "READ")})
    agent.wait_role("outside")
    (group,) = json.loads(agent.get("/v1/status")[1])["groups"]
    assert "READ" in group["trouble"]
    assert agent.get("/readyz")[0] == 503
    seen.wait_read()
    wait_until(lambda: sum(len(member.owned) for member in seen.members) == 3, "the group leads itself")
    seen.wait_read()
    retries = [event["retry_seconds"] for event in agent.events("failed", kind="refused")]
    assert retries[0] == 2
    _allow(acls, {("group", GROUP, "READ")})
    agent.wait(lambda: agent.role() in ("leading", "following"), "it is back", timeout=120)
    agent.wait(lambda: agent.get("/readyz")[0] == 200, "it is ready")
    seen.wait_read()
