"""The order of members in Kafka's assignors; all of ours use it too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from samerack.assignors.model import Int32Array, Problem


def utf16_order(name: str) -> bytes:
    """Return a sort key with Java's order of names: by UTF-16 code unit, so U+1F600 comes before U+FF5E."""
    return name.encode("utf-16-be", "surrogatepass")


def member_order(problem: Problem) -> Int32Array:
    """Return member indices [M]: static members by group instance id, then dynamic ones by member id (KIP-345).

    A static member that restarts with a new member id keeps its position, so plans do not depend on generated ids.
    """
    if not any(problem.instance_ids) and "".join(problem.members).isascii():
        return np.array(sorted(range(len(problem.members)), key=problem.members.__getitem__), np.int32)

    def key(index: int) -> tuple[bool, bytes, bytes]:
        instance_id = problem.instance_ids[index]
        member_id = utf16_order(problem.members[index])
        return (True, member_id, b"") if instance_id is None else (False, utf16_order(instance_id), member_id)

    return np.array(sorted(range(len(problem.members)), key=key), np.int32)
