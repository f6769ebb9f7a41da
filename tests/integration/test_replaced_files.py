"""Certificates are replaced under a running agent, and brokers trust only the new authority from then on."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.cluster import Cluster
from lab.sandbox.feeder import Feeder
from lab.sandbox.security import Listener, Security
from tests.clouds.certificates import Authority, Certificate
from tests.clouds.listeners import certified
from tests.integration.fleet import Fleet, counted, dropped, totals
from tests.integration.secured import TOPIC, led, member

pytestmark = pytest.mark.own_cluster

_LIMIT = 120
"""Seconds for what depends on librdkafka's pauses and on the agent's after a refusal."""


def _put(folder: Path, issued: Certificate) -> None:
    """Replace the agent's certificate and key, one after the other."""
    for source, name in ((issued.certificate, "agent.crt"), (issued.key, "agent.key")):
        new = folder / f"{name}.new"
        new.write_bytes(source.read_bytes())
        new.replace(folder / name)


def test_replaced_certificates_lose_no_record(tmp_path: Path) -> None:
    """A certificate replaced in time, and one replaced after the brokers refused the former: published is what counts.

    The refusal follows brokers that were unreachable, as they restart, and is named nevertheless.
    """
    authorities = [Authority.new(tmp_path, name) for name in ("first", "second", "third")]
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(b"".join(one.certificate.read_bytes() for one in authorities[:2]))
    _put(tmp_path, authorities[0].issue("agent"))
    own = Listener(
        name="MTLS", protocol="SSL", properties=certified(authorities[0].issue("broker").both, clients=trusted)
    )
    settings = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.ca.location": str(authorities[0].certificate),
        "kafka.ssl.certificate.location": str(tmp_path / "agent.crt"),
        "kafka.ssl.key.location": str(tmp_path / "agent.key"),
        "traffic.poll_seconds": 1,
    }
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster({1: "rack-a"}, security=Security(listeners=(own,))))
        fleet = Fleet(bootstrap=cluster.bootstrap, traffic="samples", groups="states")
        admin = stack.enter_context(Admin(cluster.bootstrap))
        for topic in (TOPIC, fleet.traffic, fleet.groups):
            admin.create_topic(topic, [[1], [1], [1]])
        stack.enter_context(Feeder(cluster.bootstrap, {TOPIC: 3}, pause=0.2))
        settings |= {key.replace("__", "."): value for key, value in fleet.settings(1).items()}
        agent = stack.enter_context(
            AgentProcess(cluster.secured("MTLS"), groups=["group"], log=tmp_path / "agent.log", settings=settings)
        )
        agent.wait_role("waiting")
        members = led(agent, lambda: [stack.enter_context(member(cluster, "group", zone)) for zone in "ab"])

        def publishes() -> None:
            published, read = agent.metric("samerack_published_records_total", kind="sample") or 0, counted(agent)
            agent.wait(
                lambda: (
                    (agent.metric("samerack_published_records_total", kind="sample") or 0) > published + 3
                    and counted(agent) > read
                ),
                "records arrive",
                timeout=_LIMIT,
            )
            agent.wait(lambda: agent.get("/readyz")[0] == 200, "it is ready", timeout=_LIMIT)
            agent.wait_inside(timeout=_LIMIT)

        publishes()
        _put(tmp_path, authorities[1].issue("agent"))
        agent.wait(lambda: bool(agent.events("connects-anew")), "the files are read anew")
        trusted.write_bytes(authorities[1].certificate.read_bytes())
        cluster.stop_broker(1)
        cluster.start_broker(1)
        publishes()

        trusted.write_bytes(authorities[2].certificate.read_bytes())
        cluster.stop_broker(1)
        cluster.start_broker(1)
        agent.wait(lambda: "alert" in _wrong(agent, "publishing"), "the refusal is named", timeout=_LIMIT)
        assert "certificate" in agent.events("publishing-refused")[-1]["cure"]
        _put(tmp_path, authorities[2].issue("agent"))
        publishes()

        for one in members:
            one.stop()
        wait_until(lambda: fleet.sums() == totals(agent), "the samples add up", timeout=_LIMIT, pause=1)
        assert not any(dropped(agent).values())


def _wrong(agent: AgentProcess, part: str) -> str:
    """What is wrong with a part of the agent, as /readyz shows it; empty if nothing is."""
    text = agent.get("/readyz")[1]
    return text if f'"{part}"' in text else ""
