"""Leaves groups, by member id, for a process that can no longer do it itself.

The supervisor runs this in a separate process, so that it needs no clients and does not wait.
"""

from __future__ import annotations

import sys
import time
from itertools import groupby
from typing import Final

from kafka.errors import KafkaError, RetriableError

from samerack.agent.leading.membership import Membership
from samerack.agent.supervisor.protocol import MemberIdentity
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import connect
from samerack.common.errors import AgentError, one_line
from samerack.settings.leading import LeadingSettings

_PATIENCE_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 0.2


def leave(kafka: dict[str, str], present: frozenset[MemberIdentity]) -> list[str]:
    """Leave with every id; return a text for each failure.

    Raises:
        AgentError: No broker can be reached.
    """
    failed = []
    client = connect(for_kafka_python(kafka))
    try:
        ordered = sorted(present, key=lambda one: (one.group, one.member_id))
        for group, ids in groupby(ordered, key=lambda one: one.group):
            membership = Membership(
                client, group=group, settings=LeadingSettings(), assign=lambda _: {}, wake=lambda: None
            )
            for one in ids:
                try:
                    _release(membership, one)
                except KafkaError as error:
                    failed.append(f"{group}, {one.member_id}: {one_line(error)}")
    finally:
        client.close()
    return failed


def _release(membership: Membership, one: MemberIdentity) -> None:
    """Leave with one id; retry while the group moves from one coordinator to another.

    Raises:
        KafkaError: The brokers did not accept it in time.
    """
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            membership.release(one.member_id, one.instance_id)
        except RetriableError:
            if time.monotonic() > until:
                raise
            time.sleep(_AGAIN_SECONDS)
        else:
            return


def leave_or_tell(kafka: dict[str, str], present: frozenset[MemberIdentity]) -> None:
    """Leave with every id, and write failures to standard error."""
    try:
        failed = leave(kafka, present)
    except AgentError as error:
        failed = [str(error)]
    for line in failed:
        sys.stderr.write(f"samerack: leaving: {line}\n")
