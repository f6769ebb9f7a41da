"""Faults of members and brokers, which affect groups with agents and without."""

from __future__ import annotations

from typing import ClassVar, Final

from sandbox.admin import wait_until
from sandbox.chaos.fault import Drawn, Fault, hold
from sandbox.chaos.setup import Seat
from sandbox.chaos.world import World

_SHORT_SECONDS: Final = 2.0
_BEYOND_SESSION_SECONDS: Final = 7.5
_AWAY_SECONDS: Final = 1.0
_FOLLOW_SECONDS: Final = 3.0
"""An agent waits a second until it trusts a move, and then rebalances the group."""


class _OnMember(Fault):
    def __init__(self, drawn: Drawn, world: World) -> None:
        super().__init__(drawn, world)
        self.seat: Seat = self.pick([seat for seat in self.group.seats if seat in self.group.present])
        self.target = self.seat.name

    def explains(self) -> frozenset[str]:
        """Returns its own group."""
        return frozenset({self.drawn.group})


class MemberComesOrGoes(_OnMember):
    """The extra member joins or leaves."""

    kind = "member-comes-or-goes"
    title = "member joins, or leaves in good order"

    def inject(self) -> None:
        """Start the extra member, or end it if it runs."""
        comes = self.group.come_or_go()
        self.target = f"{self.group.extra.name} {comes}"


class MemberRedeployed(_OnMember):
    """A member leaves, and a new one joins."""

    kind = "member-redeployed"
    title = "member restarted in good order"

    def inject(self) -> None:
        """Send SIGTERM, and start a new process."""
        self.group.redeploy(self.seat)


class MemberKilled(_OnMember):
    """A member is killed and its session expires; a new one joins at once."""

    kind = "member-killed"
    title = "member killed and started again"

    def inject(self) -> None:
        """Send SIGKILL, and start a new process."""
        self.group.end(self.seat, kill=True)
        self.group.start(self.seat)


class _MemberStopped(_OnMember):
    seconds: ClassVar[float]

    def inject(self) -> None:
        """Send SIGSTOP, and wait."""
        self.group.pause(self.seat)
        hold(self.seconds)

    def heal(self) -> None:
        """Send SIGCONT."""
        self.group.resume(self.seat)


class MemberStoppedShort(_MemberStopped):
    """A member is stopped for less than its session."""

    kind = "member-stopped-short"
    title = "member stopped for two seconds"
    seconds = _SHORT_SECONDS


class MemberStoppedLong(_MemberStopped):
    """A member is stopped beyond its session; the group removes it, and it continues with an old generation."""

    kind = "member-stopped-long"
    title = "member stopped beyond its session"
    seconds = _BEYOND_SESSION_SECONDS


class _OnBroker(Fault):
    kill: ClassVar[bool] = False

    def __init__(self, drawn: Drawn, world: World) -> None:
        super().__init__(drawn, world)
        self.broker = 0

    def choose(self) -> int:
        """Returns the broker to stop."""
        return self.pick(sorted(self.world.cluster.brokers))

    def inject(self) -> None:
        """Stop the broker, and wait a second."""
        self.broker = self.choose()
        self.target = f"broker {self.broker}"
        self.world.cluster.stop_broker(self.broker, kill=self.kill)
        hold(_AWAY_SECONDS)

    def heal(self) -> None:
        """Start the broker and elect it leader of its partitions again; those of offsets decide who coordinates."""
        world = self.world
        if self.broker and not world.cluster.brokers[self.broker].running:
            world.cluster.start_broker(self.broker)
        wait_until(world.replicated, "all replicas are in sync", timeout=60)
        world.admin.elect_leaders(world.admin.replicas([*world.groups, "__consumer_offsets"]))


class BrokerRestarted(_OnBroker):
    """A broker restarts, as in an update."""

    kind = like = "broker-restarted"
    title = "broker stopped and started"


class BrokerKilled(_OnBroker):
    """A broker is killed, as when its machine fails."""

    kind = like = "broker-killed"
    title = "broker killed and started"
    kill = True


class CoordinatorRestarted(_OnBroker):
    """The group's coordinator restarts; another broker becomes coordinator."""

    kind = "coordinator-restarted"
    like = "broker-restarted"
    title = "the group's coordinator stopped and started"

    def choose(self) -> int:
        """Returns the broker that coordinates the group now."""
        return self.group.coordinator()


class CoordinatorKilled(CoordinatorRestarted):
    """The group's coordinator is killed; another broker becomes coordinator when the cluster detects that."""

    kind = "coordinator-killed"
    like = "broker-killed"
    title = "the group's coordinator killed and started"
    kill = True


class CoordinatorMoved(Fault):
    """The coordinator moves by a new order of replicas and an election: no broker stops."""

    kind = "coordinator-moved"
    title = "the group's coordinator moved to another broker"

    def inject(self) -> None:
        """Give each `__consumer_offsets` partition that the group's coordinator leads another leader."""
        admin, before = self.world.admin, self.group.coordinator()
        placed = admin.replicas(["__consumer_offsets"])
        moved = {
            partition: [*(broker for broker in found.replicas if broker != before), before]
            for partition, found in placed.items()
            if found.leader == before
        }
        admin.move_replicas(moved)
        self.target = f"from broker {before} to {self.group.coordinator()}"


class ReplicasMoved(Fault):
    """The replicas of a partition move to other racks."""

    kind = "replicas-moved"
    title = "replicas of a partition moved to other racks"

    def inject(self) -> None:
        """Move a partition to the broker without a replica, which becomes its leader."""
        admin = self.world.admin
        partition, found = self.pick(sorted(admin.replicas([self.drawn.group]).items()))
        (spare,) = self.world.cluster.brokers.keys() - set(found.replicas)
        moved = [spare, found.replicas[0]]
        admin.move_replicas({partition: moved})
        hold(_FOLLOW_SECONDS)
        self.target = f"{partition[0]}-{partition[1]} from {list(found.replicas)} to {moved}"


KINDS: Final[tuple[type[Fault], ...]] = (
    MemberComesOrGoes,
    MemberRedeployed,
    MemberKilled,
    MemberStoppedShort,
    MemberStoppedLong,
    BrokerRestarted,
    BrokerKilled,
    CoordinatorRestarted,
    CoordinatorKilled,
    CoordinatorMoved,
    ReplicasMoved,
)
