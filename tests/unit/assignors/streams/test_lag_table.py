"""What is read from the arrays of lags is what the lags say, client by client."""

from __future__ import annotations

from uuid import UUID

import pytest

from samerack.assignors.problem import AssignmentError
from samerack.assignors.streams.application import KafkaStreamsState, ProcessId, TaskId
from samerack.assignors.streams.lag_table import LagTable, SharedLags

TASKS = [TaskId(subtopology=0, partition=number) for number in range(6)]


def test_a_lag_that_is_missing_is_named() -> None:
    """A client without a lag of a task is refused, whether or not others share lags."""
    process = ProcessId(uuid=UUID(int=1))
    for lags in ({TASKS[0]: 1}, SharedLags(own={}, common={TASKS[0]: 1})):
        client = KafkaStreamsState(process_id=process, lags=lags)
        with pytest.raises(AssignmentError, match=r"client .*1 has no lag for task 0_1"):
            LagTable({process: client}, TASKS[:2], 0)


def test_a_lag_beyond_64_bits_is_refused() -> None:
    """Offsets of Kafka have 64 bits; a lag that has more is an error of its own."""
    process = ProcessId(uuid=UUID(int=1))
    for lags in ({TASKS[0]: 2**63}, SharedLags(own={}, common={TASKS[0]: 2**63})):
        client = KafkaStreamsState(process_id=process, lags=lags)
        with pytest.raises(AssignmentError, match="64 bits"):
            LagTable({process: client}, TASKS[:1], 0)
