"""Standby tasks and where they may go, as arrays: the input of `assignors.streams.standby`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from samerack.assignors.model import BoolArray, Int32Array, Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Standbys:
    """U standbys of T tasks on C clients in G groups over R racks. Clients of a group have one rack and equal tags.

    Attributes:
        task: [U] task of the standby, ascending.
        client: [U] its current client, where it costs no move.
        seats: [C] number of standbys that the client takes.
        remote: [T] row of `remotes`.
        remotes: [K, R] changelog partitions that a client in the rack would read across racks.
        group: [C] group of the client.
        rack: [G] rack of the group.
        kind: [T] row of `allowed`.
        allowed: [L, G] true where a standby may move to.
        stays: [U] true if it may stay.
        fixed_task: [F] a task that a client has in a form that does not move (active, for example).
        fixed_client: [F] the client; no standby of the task may move there.
    """

    task: Int32Array
    client: Int32Array
    seats: Int64Array
    remote: Int32Array
    remotes: Int64Array
    group: Int32Array
    rack: Int32Array
    kind: Int32Array
    allowed: BoolArray
    stays: BoolArray
    fixed_task: Int32Array
    fixed_client: Int32Array
