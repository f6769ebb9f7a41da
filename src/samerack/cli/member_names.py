"""Short names of a group's members for tables: the client id, and a part of the member id where that is not enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

_MIN_LENGTH: Final = 4
"""So many characters of a member id are shown at least: fewer are hard to find in a log."""


def short_names(client_ids: Mapping[str, str]) -> dict[str, str]:
    """Return a name for each member id, no two alike, from the client id of each.

    Members whose client ids repeat have the shortest beginning of their ids in which they differ, without the client
    id, with which most clients' member ids begin.
    """
    times = Counter(client_ids.values())
    longest = max(map(len, client_ids), default=0)
    for length in range(_MIN_LENGTH, max(_MIN_LENGTH, longest) + 1):
        names = {
            member: client if times[client] == 1 else f"{client}-{member.removeprefix(f'{client}-')[:length]}"
            for member, client in client_ids.items()
        }
        if len(set(names.values())) == len(names):
            return names
    return {member: member for member in client_ids}
