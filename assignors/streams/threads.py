"""Assigns tasks evenly over threads: KIP-441's balanced target, before racks and lags are considered."""

from __future__ import annotations

import heapq
from itertools import cycle
from typing import TYPE_CHECKING

from samerack.assignors.streams.assignment import TaskType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from samerack.assignors.streams.board import Board, TaskHolder
    from samerack.assignors.streams.model import TaskId


def deal_in_turn(board: Board, tasks: Iterable[TaskId]) -> None:
    """Give ascending tasks to ascending clients as actives, one each, in turn (KIP-925, 3, step 1)."""
    for task, holder in zip(sorted(tasks), cycle(board.values()), strict=False):
        holder.give(task, TaskType.ACTIVE)


def deal_by_active_load(board: Board, tasks: Iterable[TaskId]) -> None:
    """Give each task, ascending, to the client with the fewest actives per thread (KIP-925, 3, step 7).

    Complexity: O(log clients) for each task.
    """
    queue = [(holder.active_load, order, holder) for order, holder in enumerate(board.values())]
    heapq.heapify(queue)
    for task in sorted(tasks):
        _, order, holder = queue[0]
        holder.give(task, TaskType.ACTIVE)
        heapq.heapreplace(queue, (holder.active_load, order, holder))


def balance_over_threads(
    board: Board, kind: TaskType, allowed: Callable[[TaskHolder, TaskHolder], bool] = lambda *_: True
) -> None:
    """Move tasks of one kind to less loaded clients until no move improves the balance (KIP-925, 3, steps 2 and 4).

    A task moves if the source's load (tasks of both kinds per thread) is afterwards at least that of the target.
    Clients and their tasks are processed in ascending order, so equal boards are balanced in the same way.

    Args:
        board: the board, which is changed.
        kind: the kind of tasks that may move.
        allowed: whether tasks may go from one client to another at all.

    Complexity: O(clients) for each client that has tasks to give and each task that moves.
    """
    holders = list(board.values())
    changed = True
    while changed:
        changed = False
        least = min(map(_after_one_more, holders), default=0.0)
        for source in holders:
            if _after_one_less(source) < least:
                continue
            for target in holders:
                if target is not source and _even_out(source, target, kind, allowed):
                    changed = True
                    least = min(map(_after_one_more, holders))


def _even_out(
    source: TaskHolder, target: TaskHolder, kind: TaskType, allowed: Callable[[TaskHolder, TaskHolder], bool]
) -> bool:
    """Move tasks that even out the loads of these two clients; return whether any moved."""
    if _after_one_less(source) < _after_one_more(target) or not allowed(source, target):
        return False
    moved = False
    for task in sorted(source.of_type(kind)):
        if _after_one_less(source) < _after_one_more(target):
            break
        if not target.has(task):
            source.of_type(kind).remove(task)
            target.give(task, kind)
            moved = True
    return moved


def _after_one_less(holder: TaskHolder) -> float:
    return (holder.count - 1) / holder.threads


def _after_one_more(holder: TaskHolder) -> float:
    return (holder.count + 1) / holder.threads
