"""Groups of clients with equal tags, and which of them add the most tags to the copies of a task (KIP-708)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from samerack.assignors.streams.model import ApplicationState


class TagGroups:
    """The clients of an application by their tags; without keys all clients are one group.

    Attributes:
        group: group of each client.
    """

    def __init__(self, state: ApplicationState, keys: Sequence[str]) -> None:
        """Group the clients by the tags of these keys."""
        tags = [
            frozenset(tag for tag in client.client_tags.items() if tag[0] in keys) for client in state.states.values()
        ]
        numbers = {found: number for number, found in enumerate(dict.fromkeys(tags))}
        self.group = [numbers[found] for found in tags]
        self._tags = list(numbers)
        self._size = Counter(self.group)
        self._answers: dict[tuple[int, ...], tuple[frozenset[int], int]] = {}

    def furthest_apart(self, holders: Iterable[int]) -> tuple[frozenset[int], int]:
        """Return the groups with the most tags that these clients do not have, and the number of other clients there.

        A group without other clients does not count.
        """
        groups = tuple(sorted(self.group[client] for client in holders))
        if groups not in self._answers:
            self._answers[groups] = self._compute(groups)
        return self._answers[groups]

    def _compute(self, groups: tuple[int, ...]) -> tuple[frozenset[int], int]:
        there = frozenset[tuple[str, str]]().union(*(self._tags[group] for group in groups))
        free = {group: size - groups.count(group) for group, size in self._size.items() if size > groups.count(group)}
        new = {group: len(self._tags[group] - there) for group in free}
        most = max(new.values(), default=0)
        best = frozenset(group for group, count in new.items() if count == most)
        return best, sum(free[group] for group in best)
