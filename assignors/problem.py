"""The input of an assignor as arrays: members and partitions are small integers.

Names exist only in the input and output (`assignors.build` makes a `Problem` from names). Every array is read-only by
convention; an assignor returns a new owner array and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BoolArray: TypeAlias = "npt.NDArray[np.bool_]"
Int32Array: TypeAlias = "npt.NDArray[np.int32]"
Int64Array: TypeAlias = "npt.NDArray[np.int64]"
FloatArray: TypeAlias = "npt.NDArray[np.float64]"

NOBODY: Final = -1
"""Value of a missing member index or rack index."""
NO_LIMIT: Final = 2**31 - 1
"""Value of `Problem.max_partitions` for a member without a limit."""


class AssignmentError(Exception):
    """An invalid input or plan; the message names the member, topic or partition and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One consumer group: P partitions of T topics for M members over R racks, S distinct subscriptions.

    Members are sorted by id, topics and racks by name, partitions by (topic, number), so that equal groups make equal
    problems whatever the order of the input.

    Attributes:
        topics: T names. A topic may have no partitions.
        topic_of: [P] index into `topics`, ascending.
        number_of: [P] partition number within its topic, ascending within the topic.
        racks: R names, of members and replicas together.
        replica_racks: [P, R] true where a replica of the partition is in the rack.
        leader_rack: [P] rack of the leader replica, or NOBODY if it is unset or unknown.
        weights: [P] cost of reading the partition across racks (positive), or None for 1 each.
        members: M ids.
        instance_ids: M group instance ids, None for dynamic members.
        member_rack: [M] rack of the member, or NOBODY; a member without a rack has no cross-rack cost.
        reads_any_replica: [M] true if any replica in the member's rack may serve it (KIP-392), false if only the
            leader replica does.
        subscription_of: [M] index of the member's subscription in `subscriptions`.
        subscriptions: [S, T] true where the subscription contains the topic.
        owner: [P] current owner, or NOBODY. Only a member that still subscribes to the topic is a current owner.
        loads: [P] load that members are balanced by (not negative), or None for 1 each.
        capacity: [M] load that the member can carry, relative to the others (positive), or None for equal ones.
        max_partitions: [M] partitions that the member may have at most, NO_LIMIT for any number, or None if all may.
        contested: [P] true where there is no current owner but a member may still read the partition: several members
            claim it in the newest generation, or one that no longer subscribes to its topic does; None if there is no
            such partition.
    """

    topics: tuple[str, ...]
    topic_of: Int32Array
    number_of: Int32Array
    racks: tuple[str, ...]
    replica_racks: BoolArray
    leader_rack: Int32Array
    weights: Int64Array | None
    members: tuple[str, ...]
    instance_ids: tuple[str | None, ...]
    member_rack: Int32Array
    reads_any_replica: BoolArray
    subscription_of: Int32Array
    subscriptions: BoolArray
    owner: Int32Array
    loads: Int64Array | None = None
    capacity: FloatArray | None = None
    max_partitions: Int64Array | None = None
    contested: BoolArray | None = None

    @property
    def by_load(self) -> bool:
        """Whether members are balanced by loads, capacities or limits instead of by equal counts of partitions."""
        return not (self.loads is None and self.capacity is None and self.max_partitions is None)


def by_counts(problem: Problem) -> Problem:
    """Return the problem without loads, capacities and limits."""
    return replace(problem, loads=None, capacity=None, max_partitions=None) if problem.by_load else problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a plan, in order of importance.

    Attributes:
        imbalance: Partitions of the fullest member minus those of the emptiest.
        sum_of_squares: Sum of squared member loads: it is least for the least unequal loads.
        cross_rack: Partitions read by a member whose rack has no replica that may serve it. Those of members without a
            rack are not among them, as a plan cannot bring them nearer.
        cross_rack_weight: The same, by weight.
        moved: Partitions whose new owner is not the current one.
        unassigned: Partitions that no member subscribes to.
        assigned_weight: Weight of all partitions that have an owner: the total for cross_rack_weight.
        known: Partitions of which it is known whether they are read across racks: the racks of owner and serving
            replica are known.
        known_cross_rack: Those of them that are.
        known_weight: The weight of `known`.
        known_cross_rack_weight: The weight of `known_cross_rack`.
    """

    imbalance: int
    sum_of_squares: int
    cross_rack: int
    cross_rack_weight: int
    moved: int
    unassigned: int
    assigned_weight: int
    known: int
    known_cross_rack: int
    known_weight: int
    known_cross_rack_weight: int

    @property
    def cross_rack_share(self) -> float:
        """The share of the weight that costs, between 0 and 1, to compare plans; unknown counts as near."""
        return self.cross_rack_weight / self.assigned_weight if self.assigned_weight else 0.0

    @property
    def known_share(self) -> float | None:
        """The cross-rack share of what is known, between 0 and 1; None if nothing is."""
        return self.known_cross_rack_weight / self.known_weight if self.known_weight else None

    @property
    def min_share(self) -> float | None:
        """The share of all that is read which is known to cross racks: the price follows from it; None if unknown."""
        return self.known_cross_rack_weight / self.assigned_weight if self.known_weight else None

    @property
    def known_partitions_across(self) -> int | None:
        """`known_cross_rack`; None if it is known of no partition."""
        return self.known_cross_rack if self.known else None
