"""What is read from the arrays of lags is what the lags say, client by client."""

from __future__ import annotations

import random
from uuid import UUID

import numpy as np
import pytest

from samerack.assignors.model import AssignmentError
from samerack.assignors.streams.lag_table import UNBOUNDED, LagTable
from samerack.assignors.streams.lags import SharedLags
from samerack.assignors.streams.model import LATEST_OFFSET, UNKNOWN_OFFSET_SUM, KafkaStreamsState, ProcessId, TaskId

TASKS = [TaskId(subtopology=0, partition=number) for number in range(6)]


def clients_of(rng: random.Random, *, shared: bool) -> dict[ProcessId, KafkaStreamsState]:
    """A few clients with lags of all tasks; with `shared` most of them have the end offsets."""
    lags = [LATEST_OFFSET, UNKNOWN_OFFSET_SUM, 0, 5, 50, 500]
    common = {task: rng.choice(lags) for task in TASKS}
    clients = {}
    for number in range(rng.randint(1, 6)):
        own = {task: rng.choice(lags) for task in TASKS if not shared or rng.random() < 0.4}
        process = ProcessId(uuid=UUID(int=number))
        known = SharedLags(own=own, common=common) if shared else own
        clients[process] = KafkaStreamsState(process_id=process, lags=known)
    return clients


def meets(lag: int, acceptable: int) -> bool:
    """Whether a client with this lag counts as caught up (KIP-441)."""
    return lag == LATEST_OFFSET or acceptable == UNBOUNDED or 0 <= lag <= acceptable


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("acceptable", [0, 10, UNBOUNDED])
def test_arrays_say_what_the_lags_say(acceptable: int, *, shared: bool) -> None:
    """Caught-up clients, closer clients, their order and the urgency are those of a search through all lags."""
    for seed in range(60):
        clients = clients_of(random.Random(seed), shared=shared)  # noqa: S311 - cases, not secrets
        table = LagTable(clients, TASKS, acceptable)
        for number, task in enumerate(TASKS):
            lags = [client.lag_for(task) for client in clients.values()]
            caught_up = [at for at, lag in enumerate(lags) if meets(lag, acceptable)]
            assert table.caught_up(number) == caught_up
            assert table.urgency[number] == len(caught_up) * len(TASKS) + number
            for target, lag in enumerate(lags):
                closer = sorted((other, at) for at, other in enumerate(lags) if (other, at) < (lag, target))
                assert list(table.closer(number, target)) == [at for _, at in closer]
                worth = table.worth_moving(np.array([number], np.int32), np.array([target], np.int32))
                assert worth.tolist() == [not meets(lag, acceptable) and min(lags) < lag]


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
