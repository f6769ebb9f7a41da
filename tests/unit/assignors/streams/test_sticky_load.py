"""The order of clients by load: always that of a scan of all clients."""

from __future__ import annotations

from random import Random

import pytest

from samerack.assignors.streams.sticky_load import ASCENDING, LoadedClients
from samerack.assignors.streams.sticky_numbers import Numbers
from tests.unit.assignors.streams.applications import application, tasks


@pytest.mark.parametrize("prefers_threads", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_clients_stay_in_order_of_load(seed: int, *, prefers_threads: bool) -> None:
    """Empty clients come first, then fewer tasks per thread, then the set's order; some client is less full or none."""
    dice = Random(seed)  # noqa: S311 - cases, not secrets
    names = " ".join(f"0_{number}" for number in range(60))
    state = application(tasks(names), *({"threads": dice.randint(1, 3)} for _ in range(dice.randint(1, 20))))
    numbers = Numbers(state, is_former=prefers_threads, tag_keys=())
    held: list[set[int]] = [set() for _ in numbers.processes]
    clients = LoadedClients(numbers, held, 16, prefers_threads=prefers_threads)

    def fullness(client: int) -> tuple[float, int]:
        count, threads = len(held[client]), numbers.threads[client]
        return count / threads, -threads if prefers_threads and count else 0

    for task in range(60):
        for buckets in (ASCENDING, 16, 32):
            order = sorted(range(len(held)), key=lambda one: (*fullness(one), numbers.bucket(one, buckets), one))
            assert list(clients.ascending(buckets)) == order
        client = dice.randrange(len(held))
        clients.give(task, client)
        is_full = len(held[client]) >= numbers.threads[client]
        assert clients.is_crowded(client) == (
            is_full and any(map(fullness(client).__gt__, map(fullness, range(len(held)))))
        )


def test_an_empty_client_or_one_with_other_tasks_comes_first() -> None:
    """A client whose tasks are all near is passed over, unless there is no other."""
    numbers = Numbers(application(tasks("0_0 0_1 0_2"), {}, {}, {}), is_former=False, tag_keys=())
    clients = LoadedClients(numbers, [{0}, {1}, set()], 16, prefers_threads=False)
    assert clients.first_beside_others({0}, [0, 1, 2]) == 1
    assert clients.first_beside_others({0, 1}, [0, 1, 2]) == 2
    assert clients.first_beside_others({0, 1}, [1, 0]) == 1
