"""What a broker said that refuses, however it reaches kafka-python's connection."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from agent.connections import Connections, Refusals
from agent.refusals import NotAcceptedError, refusal

CONFIG = {
    "bootstrap_servers": "127.0.0.1:1",
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "u",
    "sasl_plain_password": "p",
}
REFUSED = kafka_errors.UnsupportedSaslMechanismError()


@pytest.mark.parametrize("hung_up_first", [False, True])
def test_what_a_broker_says_before_it_hangs_up_is_heeded(
    monkeypatch: pytest.MonkeyPatch,
    hung_up_first: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Its answer and the connection's end are read together on a busy machine, and the library mixes up the two."""

    async def connected(_self: Any, _node: Any, conn: Any, **_options: Any) -> None:
        if hung_up_first:
            conn.connection_lost(None)
        conn.close(REFUSED)  # as `initialize` does

    monkeypatch.setattr(KafkaConnectionManager, "_connect", connected)
    net = NetworkSelector(**CONFIG)
    connections = Connections(net, **CONFIG)
    (broker,) = connections.cluster.bootstrap_brokers()
    conn = KafkaConnection(net, node_id=broker.node_id, **CONFIG)
    asyncio.run(connections._connect(SimpleNamespace(node_id=broker.node_id), conn))
    with pytest.raises(NotAcceptedError, match="do not offer SASL PLAIN there"):
        connections.maybe_raise_auth_failure(broker.node_id)
    connections._failed(broker.node_id, kafka_errors.KafkaConnectionError())
    assert refusal(connections.last_failure, CONFIG)
    net.close()


def test_who_was_never_let_in_is_told_apart() -> None:
    """Nothing is known at first; a refusal counts until anybody was let in, and none from then on."""
    refusals, me, other = Refusals(), (("sasl_", "me"),), (("sasl_", "other"),)
    received = [refusals.reception]
    refusals.remember(me, "who are you?")
    received.append(refusals.reception)
    refusals.forget(other)
    refusals.remember(me, "who are you?")
    received.append(refusals.reception)
    assert received == [None, "who are you?", ""]
