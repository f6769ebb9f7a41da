"""Short stories of raw requests to a coordinator, to be played against a real broker and against the model alike.

A scenario acts through a `Desk` and never looks at answers itself: what it asked and what came back is the record that
is compared. Times are long enough for a real broker and short enough for a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

RANGE = (("range", b"a"),)
SHORT, LONG = 6.0, 20.0
"""Session timeouts: the shortest that brokers allow, and one that does not run out within a scenario."""
REBALANCE = 1.2


class Desk(Protocol):
    """Where requests are handed in, each in the name of somebody; answers are recorded."""

    def join(
        self,
        who: str,
        *,
        instance: str | None = None,
        anew: bool = False,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        session: float = LONG,
        rebalance: float = REBALANCE,
        kind: str = "consumer",
    ) -> None:
        """JoinGroup, under the id that this one was given last unless anew; the answer may come later."""

    def sync(self, who: str, *, plan: dict[str, bytes] | None = None, generation: int | None = None) -> None:
        """SyncGroup in the generation of this one's last JoinGroup; with a plan by name as the leader."""

    def beat(self, who: str, *, generation: int | None = None, instance: str | None = None) -> None:
        """Heartbeat."""

    def leave(self, who: str, *, instance: str | None = None, by_instance: bool = False) -> None:
        """LeaveGroup."""

    def describe(self) -> None:
        """DescribeGroups."""

    def hear(self, *names: str) -> None:
        """Record what came back for these by now: an answer, or that the request is parked."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


Scenario = Callable[[Desk], None]


def _enter(
    desk: Desk,
    *names: str,
    session: float = LONG,
    rebalance: float = REBALANCE,
    protocols: Mapping[str, tuple[tuple[str, bytes], ...]] | None = None,
) -> None:
    """These join one group as dynamic members, the first one leads and nobody has synced yet."""
    offered = dict.fromkeys(names, RANGE) | dict(protocols or {})

    def ask(name: str) -> None:
        desk.join(name, session=session, rebalance=rebalance, protocols=offered[name])

    first, *others = names
    for name in (first, first, *others):
        ask(name)
        desk.hear(name)
    for name in others:
        ask(name)
    if others:
        ask(first)
    desk.hear(*names)


def _settle(desk: Desk, *names: str) -> None:
    """All sync, the leader last; plans name everybody, so that any of them may lead."""
    for name in names:
        desk.sync(name, plan={other: other.encode() for other in names})
    desk.hear(*names)


def alone(desk: Desk) -> None:
    """One member: an id first, then a generation, a plan, heartbeats, and an empty group when it leaves."""
    desk.describe()
    desk.join("a")
    desk.hear("a")
    desk.wait(1.0)
    desk.describe()
    desk.join("a")
    desk.hear("a")
    desk.describe()
    desk.beat("a")
    _settle(desk, "a")
    desk.describe()
    desk.beat("a")
    desk.beat("a", generation=7)
    desk.leave("a")
    desk.beat("a")
    desk.leave("a")
    desk.describe()


def pending_blocks(desk: Desk) -> None:
    """An id that was given out and does not join holds a rebalance up until it is released."""
    _enter(desk, "a", "b", rebalance=LONG)
    _settle(desk, "a", "b")
    desk.join("pending")
    desk.hear("pending")
    desk.describe()
    desk.join("a", protocols=(("range", b"changed"),), rebalance=LONG)
    desk.join("b", rebalance=LONG)
    desk.hear("a", "b")
    desk.describe()
    desk.leave("pending")
    desk.hear("a", "b")
    desk.describe()


def pending_expires(desk: Desk) -> None:
    """An id that nobody releases blocks for its session timeout."""
    _enter(desk, "a", "b", rebalance=LONG)
    _settle(desk, "a", "b")
    desk.join("pending", session=SHORT)
    desk.hear("pending")
    desk.join("a", protocols=(("range", b"changed"),), rebalance=LONG)
    desk.join("b", rebalance=LONG, protocols=(("range", b"changed"),))
    desk.wait(4.0)
    desk.hear("a", "b")
    desk.wait(3.0)
    desk.hear("a", "b")


def release_rebalances(desk: Desk) -> None:
    """Releasing an id of a stable group starts a rebalance although no member has changed."""
    _enter(desk, "a")
    _settle(desk, "a")
    desk.join("pending")
    desk.hear("pending")
    desk.leave("pending")
    desk.describe()
    desk.beat("a")
    desk.join("a")
    desk.hear("a")


def rebalance_timeout(desk: Desk) -> None:
    """A dynamic member that does not rejoin in time is out; heartbeats told the others to."""
    _enter(desk, "a", "b", "c")
    _settle(desk, "a", "b", "c")
    desk.join("a", protocols=(("range", b"changed"),))
    desk.beat("b")
    desk.beat("c")
    desk.join("b")
    desk.hear("a", "b")
    desk.wait(REBALANCE + 0.5)
    desk.hear("a", "b")
    desk.beat("c")
    desk.describe()


def late_leader(desk: Desk) -> None:
    """A leader that does not rejoin in time is replaced by the first in the table that has."""
    _enter(desk, "a", "b", "c", "d")
    _settle(desk, "a", "b", "c", "d")
    for name in ("b", "c", "d"):
        desk.join(name, protocols=(("range", b"changed"),))
    desk.wait(REBALANCE + 0.5)
    desk.hear("b", "c", "d")
    desk.describe()


def leader_leaves(desk: Desk) -> None:
    """The first in the table leads, again and again."""
    names = ["a", "b", "c", "d", "e", "f"]
    _enter(desk, *names)
    _settle(desk, *names)
    for gone in ("a", "b", "c"):
        desk.leave(gone)
        names.remove(gone)
        for name in names:
            desk.join(name)
        desk.hear(*names)
        _settle(desk, *names)
        desk.describe()


def unchanged_follower(desk: Desk) -> None:
    """A follower that rejoins unchanged is answered at once; a leader, and a changed follower, start a rebalance."""
    _enter(desk, "a", "b")
    _settle(desk, "a", "b")
    desk.join("b")
    desk.hear("b")
    desk.describe()
    desk.join("b", protocols=(("range", b"changed"),))
    desk.hear("b")
    desk.join("a")
    desk.hear("a", "b")
    _settle(desk, "a", "b")
    desk.join("a")
    desk.hear("a")
    desk.beat("b")
    desk.join("b", protocols=(("range", b"changed"),))
    desk.hear("a", "b")


def order_of_protocols(desk: Desk) -> None:
    """The same protocols in another order are a change, also for a follower."""
    one, other = (("range", b"a"), ("roundrobin", b"a")), (("roundrobin", b"a"), ("range", b"a"))
    _enter(desk, "a", "b", protocols={"a": one, "b": one})
    _settle(desk, "a", "b")
    desk.join("b", protocols=one)
    desk.hear("b")
    desk.join("b", protocols=other)
    desk.hear("b")
    desk.join("a", protocols=one)
    desk.hear("a", "b")


def vote(desk: Desk) -> None:
    """The most votes among what all support win; who shares nothing is refused."""
    offers = {
        "a": (("range", b""), ("sticky", b""), ("roundrobin", b"")),
        "b": (("sticky", b""), ("roundrobin", b"")),
        "c": (("roundrobin", b""), ("sticky", b"")),
        "d": (("roundrobin", b""), ("sticky", b"")),
    }
    _enter(desk, *offers, protocols=offers)
    desk.join("stranger", protocols=(("own", b""),))
    desk.join("connect", kind="connect")
    desk.hear("stranger", "connect")
    _settle(desk, *offers)


def static_reroll(desk: Desk) -> None:
    """A static follower that joins anew gets another id, the same generation and no rebalance; the old id is fenced."""
    _enter(desk, "a")
    _settle(desk, "a")
    desk.join("s", instance="one")
    desk.join("a")
    desk.hear("a", "s")
    _settle(desk, "a", "s")
    for _ in range(3):
        desk.join("s", instance="one", anew=True)
        desk.hear("s")
        desk.sync("s")
        desk.hear("s")
        desk.describe()
    desk.beat("a")
    desk.join("twin", instance="one", anew=True)
    desk.hear("twin")
    desk.beat("s", instance="one")
    desk.beat("s")
    desk.leave("s", instance="one")
    desk.leave("s")
    desk.join("s", instance="one")
    desk.hear("s")
    desk.beat("twin", instance="one")
    desk.describe()


def static_leader_returns(desk: Desk) -> None:
    """A static leader that joins anew still leads, is told everybody and that its plan is in force."""
    desk.join("s", instance="one")
    desk.hear("s")
    _settle(desk, "s")
    desk.join("a")
    desk.hear("a")
    desk.join("a")
    desk.join("s", instance="one")
    desk.hear("a", "s")
    _settle(desk, "a", "s")
    desk.join("s", instance="one", anew=True, protocols=(("range", b"other"),))
    desk.hear("s")
    desk.sync("s")
    desk.hear("s")
    desk.describe()
    desk.beat("a")
    desk.join("s", instance="one", protocols=(("range", b"other"),))
    desk.hear("s")
    desk.beat("a")


def static_returns_while_parked(desk: Desk) -> None:
    """Killed in a parked JoinGroup, back with the same instance id: fenced is who was parked, and all goes on."""
    _enter(desk, "a", rebalance=LONG)
    _settle(desk, "a")
    desk.join("s", instance="one", rebalance=LONG)
    desk.hear("s")
    desk.join("t", instance="one", anew=True, rebalance=LONG)
    desk.hear("s", "t")
    desk.join("a", rebalance=LONG)
    desk.hear("a", "t")
    _settle(desk, "a", "t")


def static_returns_between(desk: Desk) -> None:
    """Killed between JoinGroup and SyncGroup, back with the same instance id: a rebalance begins at once."""
    desk.join("s", instance="one", rebalance=LONG)
    desk.hear("s")
    _settle(desk, "s")
    desk.join("a", rebalance=LONG)
    desk.hear("a")
    desk.join("a", rebalance=LONG)
    desk.join("s", instance="one", rebalance=LONG)
    desk.hear("a", "s")
    desk.sync("a")
    desk.hear("a")
    desk.join("t", instance="one", anew=True, rebalance=LONG)
    desk.hear("a", "t")
    desk.join("a", rebalance=LONG)
    desk.hear("a", "t")
    desk.describe()


def static_late(desk: Desk) -> None:
    """A static member that does not rejoin in time stays a member, until it has not synced in time either."""
    desk.join("s", instance="one")
    desk.hear("s")
    _settle(desk, "s")
    desk.join("a")
    desk.hear("a")
    desk.join("a")
    desk.hear("a")
    desk.wait(REBALANCE + 0.3)
    desk.hear("a")
    desk.sync("a", plan={"a": b"a", "s": b"s"})
    desk.hear("a")
    desk.describe()
    desk.wait(2 * REBALANCE + 1.0)
    desk.describe()


def sync_is_late(desk: Desk) -> None:
    """Who has not synced when the rebalance timeout is over is out, and the others have to join again."""
    _enter(desk, "a", "b", "c")
    desk.sync("b", plan={"b": b"b"})
    desk.hear("b")
    desk.beat("a")
    desk.wait(REBALANCE + 0.5)
    desk.hear("b")
    desk.describe()
    desk.beat("a")
    desk.beat("c")


def joined_twice(desk: Desk) -> None:
    """Before the plan is there a JoinGroup with the same metadata is answered again, a changed one starts anew."""
    _enter(desk, "a", "b")
    desk.join("a")
    desk.join("b")
    desk.hear("a", "b")
    desk.sync("b")
    desk.hear("b")
    desk.join("a", protocols=(("range", b"changed"),))
    desk.hear("a", "b")
    desk.sync("a", plan={"a": b"a"})
    desk.join("b")
    desk.hear("b")
    desk.describe()


def leaves_while_parked(desk: Desk) -> None:
    """Who leaves in a parked JoinGroup is told that it is unknown, and nobody waits for it any more."""
    _enter(desk, "a", "b", "c", rebalance=LONG)
    _settle(desk, "a", "b", "c")
    desk.join("b", protocols=(("range", b"changed"),), rebalance=LONG)
    desk.hear("b")
    desk.join("a", protocols=(("range", b"changed"),), rebalance=LONG)
    desk.leave("b")
    desk.hear("b")
    desk.leave("c")
    desk.hear("a")
    desk.describe()


def wrong_generation(desk: Desk) -> None:
    """SyncGroup and Heartbeat of another generation, or of nobody, are refused."""
    _enter(desk, "a", "b")
    desk.sync("a", generation=0)
    desk.hear("a")
    desk.beat("b", generation=0)
    _settle(desk, "a", "b")
    desk.sync("b", generation=9)
    desk.hear("b")
    desk.join("c")
    desk.hear("c")
    desk.sync("c", generation=1)
    desk.hear("c")
    desk.beat("c", generation=1)


def session_expires(desk: Desk) -> None:
    """Who is silent for its session timeout is out: the group waits for the others only."""
    _enter(desk, "a", "b", rebalance=LONG)
    _settle(desk, "a", "b")
    desk.join("c", session=SHORT, rebalance=LONG)
    desk.hear("c")
    desk.join("c", session=SHORT, rebalance=LONG)
    desk.join("a", rebalance=LONG)
    desk.join("b", rebalance=LONG)
    desk.hear("a", "b", "c")
    _settle(desk, "a", "b", "c")
    desk.wait(4.0)
    desk.describe()
    desk.wait(3.0)
    desk.describe()
    desk.beat("a")
    desk.beat("c")


def killed_between(desk: Desk) -> None:
    """A leader that dies between JoinGroup and SyncGroup stops the others for its whole session timeout."""
    desk.join("a", session=SHORT, rebalance=LONG)
    desk.hear("a")
    desk.join("a", session=SHORT, rebalance=LONG)
    desk.hear("a")
    desk.sync("a", plan={"a": b"a"})
    desk.hear("a")
    desk.join("b", rebalance=LONG)
    desk.hear("b")
    desk.join("b", rebalance=LONG)
    desk.join("a", session=SHORT, rebalance=LONG)
    desk.hear("a", "b")
    desk.sync("b")
    desk.wait(4.0)
    desk.hear("b")
    desk.beat("b")
    desk.wait(3.0)
    desk.hear("b")
    desk.describe()


def leaves_by_instance(desk: Desk) -> None:
    """An instance id alone is enough to have a member leave, whoever asks."""
    desk.join("s", instance="one")
    desk.hear("s")
    _settle(desk, "s")
    desk.leave("s", instance="one", by_instance=True)
    desk.beat("s", instance="one")
    desk.describe()
    desk.leave("s", instance="one", by_instance=True)


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        alone,
        pending_blocks,
        pending_expires,
        release_rebalances,
        rebalance_timeout,
        late_leader,
        leader_leaves,
        unchanged_follower,
        order_of_protocols,
        vote,
        static_reroll,
        static_leader_returns,
        static_returns_while_parked,
        static_returns_between,
        static_late,
        sync_is_late,
        joined_twice,
        leaves_while_parked,
        wrong_generation,
        session_expires,
        killed_between,
        leaves_by_instance,
    )
}
