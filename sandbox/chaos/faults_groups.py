"""Faults of members and brokers: what groups suffer anyway, with agents and without."""

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
"""An agent waits a second before it believes a move, and then has the group follow."""


class _OnMember(Fault):
    def __init__(self, drawn: Drawn, world: World) -> None:
        super().__init__(drawn, world)
        self.seat: Seat = self.pick([seat for seat in self.group.seats if seat in self.group.present])
        self.target = self.seat.name

    def explains(self) -> frozenset[str]:
        """Its own group."""
        return frozenset({self.drawn.group})


class MemberComesOrGoes(_OnMember):
    """The extra member."""

    kind = "member-comes-or-goes"
    title = "member joins, or leaves in good order"

    def inject(self) -> None:
        """The extra member joins or, if it is there, leaves."""
        comes = self.group.come_or_go()
        self.target = f"{self.group.extra.name} {comes}"


class MemberRedeployed(_OnMember):
    """Leaves, and another joins."""

    kind = "member-redeployed"
    title = "member restarted in good order"

    def inject(self) -> None:
        """SIGTERM, and a new process."""
        self.group.redeploy(self.seat)


class MemberKilled(_OnMember):
    """Missed after its session; another joins at once."""

    kind = "member-killed"
    title = "member killed and started again"

    def inject(self) -> None:
        """SIGKILL, and a new process."""
        self.group.end(self.seat, kill=True)
        self.group.start(self.seat)


class _MemberStopped(_OnMember):
    seconds: ClassVar[float]

    def inject(self) -> None:
        """SIGSTOP for a while."""
        self.group.pause(self.seat)
        hold(self.seconds)

    def heal(self) -> None:
        """SIGCONT."""
        self.group.resume(self.seat)


class MemberStoppedShort(_MemberStopped):
    """Within its session."""

    kind = "member-stopped-short"
    title = "member stopped for two seconds"
    seconds = _SHORT_SECONDS


class MemberStoppedLong(_MemberStopped):
    """Thrown out, it comes back as a zombie."""

    kind = "member-stopped-long"
    title = "member stopped beyond its session"
    seconds = _BEYOND_SESSION_SECONDS


class _OnBroker(Fault):
    kill: ClassVar[bool] = False

    def __init__(self, drawn: Drawn, world: World) -> None:
        super().__init__(drawn, world)
        self.broker = 0

    def choose(self) -> int:
        """The broker that it happens to."""
        return self.pick(sorted(self.world.cluster.brokers))

    def inject(self) -> None:
        """Stop it, and wait a little."""
        self.broker = self.choose()
        self.target = f"broker {self.broker}"
        self.world.cluster.stop_broker(self.broker, kill=self.kill)
        hold(_AWAY_SECONDS)

    def heal(self) -> None:
        """Start it, and give it its partitions back, those of commits too: they decide who coordinates."""
        world = self.world
        if self.broker and not world.cluster.brokers[self.broker].running:
            world.cluster.start_broker(self.broker)
        wait_until(world.replicated, "all replicas are in sync", timeout=60)
        world.admin.elect_leaders(world.admin.replicas([*world.groups, "__consumer_offsets"]))


class BrokerRestarted(_OnBroker):
    """As when brokers are updated."""

    kind = like = "broker-restarted"
    title = "broker stopped and started"


class BrokerKilled(_OnBroker):
    """As when its machine goes."""

    kind = like = "broker-killed"
    title = "broker killed and started"
    kill = True


class CoordinatorRestarted(_OnBroker):
    """Another broker takes the group over."""

    kind = "coordinator-restarted"
    like = "broker-restarted"
    title = "the group's coordinator stopped and started"

    def choose(self) -> int:
        """The broker that coordinates the group now."""
        return self.group.coordinator()


class CoordinatorKilled(CoordinatorRestarted):
    """Another broker takes the group over, once the first is missed."""

    kind = "coordinator-killed"
    like = "broker-killed"
    title = "the group's coordinator killed and started"
    kill = True


class CoordinatorMoved(Fault):
    """By a new order of replicas and an election: no broker goes away."""

    kind = "coordinator-moved"
    title = "the group's coordinator moved to another broker"

    def inject(self) -> None:
        """The partition of commits that decides who coordinates gets another leader."""
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
    """A partition moves to other racks."""

    kind = "replicas-moved"
    title = "replicas of a partition moved to other racks"

    def inject(self) -> None:
        """To the broker that had none, which leads it then."""
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
