"""Short sequences of raw requests to a coordinator, run against a real broker and against the model.

A scenario acts through a `Desk` and never reads answers itself: the record of requests and answers is compared. Times
are long enough for a real broker and short enough for a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isfunction
from typing import Any

from tests.simulator.desk import LONG, RANGE, REBALANCE, SHORT, Desk, Scenario
from tests.simulator.group import Protocols


def _enter(
    desk: Desk,
    *names: str,
    session: float = LONG,
    rebalance: float = REBALANCE,
    protocols: Mapping[str, Protocols] | None = None,
) -> None:
    """These join one group as dynamic members; the first one leads, and no member has synced yet."""
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
    """All sync; each plan names all members, so that any of them may lead."""
    for name in names:
        desk.sync(name, plan={other: other.encode() for other in names})
    desk.hear(*names)


def _ask(desk: Desk, name: str, **how: Any) -> None:
    """One joins, and its answer is recorded."""
    desk.join(name, **how)
    desk.hear(name)


def alone(desk: Desk) -> None:
    """One member gets an id, a generation and a plan, sends heartbeats, and leaves an empty group."""
    desk.describe()
    _ask(desk, "a")
    desk.wait(1.0)
    desk.describe()
    _ask(desk, "a")
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
    """A pending id that does not join blocks a rebalance until it is released."""
    _enter(desk, "a", "b", rebalance=LONG)
    _settle(desk, "a", "b")
    _ask(desk, "pending")
    desk.describe()
    desk.join("a", protocols=(("range", b"changed"),), rebalance=LONG)
    desk.join("b", rebalance=LONG)
    desk.hear("a", "b")
    desk.describe()
    desk.leave("pending")
    desk.hear("a", "b")
    desk.describe()


def pending_expires(desk: Desk) -> None:
    """A pending id that is not released blocks for its session timeout."""
    _enter(desk, "a", "b", rebalance=LONG)
    _settle(desk, "a", "b")
    _ask(desk, "pending", session=SHORT)
    desk.join("a", protocols=(("range", b"changed"),), rebalance=LONG)
    desk.join("b", rebalance=LONG, protocols=(("range", b"changed"),))
    desk.wait(4.0)
    desk.hear("a", "b")
    desk.wait(3.0)
    desk.hear("a", "b")


def release_rebalances(desk: Desk) -> None:
    """Releasing a pending id of a stable group starts a rebalance although no member has changed."""
    _enter(desk, "a")
    _settle(desk, "a")
    _ask(desk, "pending")
    desk.leave("pending")
    desk.describe()
    desk.beat("a")
    _ask(desk, "a")


def rebalance_timeout(desk: Desk) -> None:
    """A dynamic member that does not rejoin in time is removed; heartbeats tell the others to rejoin."""
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
    """The first member in the table that has rejoined replaces a leader that does not rejoin in time."""
    _enter(desk, "a", "b", "c", "d")
    _settle(desk, "a", "b", "c", "d")
    for name in ("b", "c", "d"):
        desk.join(name, protocols=(("range", b"changed"),))
    desk.wait(REBALANCE + 0.5)
    desk.hear("b", "c", "d")
    desk.describe()


def leader_leaves(desk: Desk) -> None:
    """Each time the leader leaves, the first member in the table leads."""
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
    _ask(desk, "b")
    desk.describe()
    _ask(desk, "b", protocols=(("range", b"changed"),))
    desk.join("a")
    desk.hear("a", "b")
    _settle(desk, "a", "b")
    _ask(desk, "a")
    desk.beat("b")
    desk.join("b", protocols=(("range", b"changed"),))
    desk.hear("a", "b")


def order_of_protocols(desk: Desk) -> None:
    """The same protocols in another order are a change, also for a follower."""
    one, other = (("range", b"a"), ("roundrobin", b"a")), (("roundrobin", b"a"), ("range", b"a"))
    _enter(desk, "a", "b", protocols={"a": one, "b": one})
    _settle(desk, "a", "b")
    _ask(desk, "b", protocols=one)
    _ask(desk, "b", protocols=other)
    desk.join("a", protocols=one)
    desk.hear("a", "b")


def vote(desk: Desk) -> None:
    """The protocol with the most votes among those that all support wins; a member that shares none is refused."""
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
    """A static follower that joins anew gets a new id in the same generation, no rebalance; the old id is fenced."""
    _enter(desk, "a")
    _settle(desk, "a")
    desk.join("s", instance="one")
    desk.join("a")
    desk.hear("a", "s")
    _settle(desk, "a", "s")
    for _ in range(3):
        _ask(desk, "s", instance="one", anew=True)
        desk.sync("s")
        desk.hear("s")
        desk.describe()
    desk.beat("a")
    _ask(desk, "twin", instance="one", anew=True)
    desk.beat("s", instance="one")
    desk.beat("s")
    desk.leave("s", instance="one")
    desk.leave("s")
    _ask(desk, "s", instance="one")
    desk.beat("twin", instance="one")
    desk.describe()


def static_leader_returns(desk: Desk) -> None:
    """A static leader that joins anew still leads; its answer lists all members and says that the plan is kept."""
    _ask(desk, "s", instance="one")
    _settle(desk, "s")
    _ask(desk, "a")
    desk.join("a")
    desk.join("s", instance="one")
    desk.hear("a", "s")
    _settle(desk, "a", "s")
    _ask(desk, "s", instance="one", anew=True, protocols=(("range", b"other"),))
    desk.sync("s")
    desk.hear("s")
    desk.describe()
    desk.beat("a")
    _ask(desk, "s", instance="one", protocols=(("range", b"other"),))
    desk.beat("a")


def static_returns_while_parked(desk: Desk) -> None:
    """A static member is killed in a parked JoinGroup and returns: the parked id is fenced, the rebalance continues."""
    _enter(desk, "a", rebalance=LONG)
    _settle(desk, "a")
    _ask(desk, "s", instance="one", rebalance=LONG)
    desk.join("t", instance="one", anew=True, rebalance=LONG)
    desk.hear("s", "t")
    desk.join("a", rebalance=LONG)
    desk.hear("a", "t")
    _settle(desk, "a", "t")


def static_returns_between(desk: Desk) -> None:
    """A static member is killed between JoinGroup and SyncGroup and returns: a rebalance starts at once."""
    _ask(desk, "s", instance="one", rebalance=LONG)
    _settle(desk, "s")
    _ask(desk, "a", rebalance=LONG)
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
    """A static member that does not rejoin in time stays a member until its SyncGroup is late too."""
    _ask(desk, "s", instance="one")
    _settle(desk, "s")
    _ask(desk, "a")
    _ask(desk, "a")
    desk.wait(REBALANCE + 0.3)
    desk.hear("a")
    desk.sync("a", plan={"a": b"a", "s": b"s"})
    desk.hear("a")
    desk.describe()
    desk.wait(2 * REBALANCE + 1.0)
    desk.describe()


def sync_is_late(desk: Desk) -> None:
    """A member that has not synced within the rebalance timeout is removed, and the others have to rejoin."""
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
    """Before the plan is sent, a JoinGroup with the same metadata is answered again, a changed one rebalances."""
    _enter(desk, "a", "b")
    desk.join("a")
    desk.join("b")
    desk.hear("a", "b")
    desk.sync("b")
    desk.hear("b")
    desk.join("a", protocols=(("range", b"changed"),))
    desk.hear("a", "b")
    desk.sync("a", plan={"a": b"a"})
    _ask(desk, "b")
    desk.describe()


def leaves_while_parked(desk: Desk) -> None:
    """A member that leaves in a parked JoinGroup is answered UNKNOWN_MEMBER_ID; the group no longer waits for it."""
    _enter(desk, "a", "b", "c", rebalance=LONG)
    _settle(desk, "a", "b", "c")
    _ask(desk, "b", protocols=(("range", b"changed"),), rebalance=LONG)
    desk.join("a", protocols=(("range", b"changed"),), rebalance=LONG)
    desk.leave("b")
    desk.hear("b")
    desk.leave("c")
    desk.hear("a")
    desk.describe()


def wrong_generation(desk: Desk) -> None:
    """SyncGroup and Heartbeat of another generation, or of a member that has not joined, are refused."""
    _enter(desk, "a", "b")
    desk.sync("a", generation=0)
    desk.hear("a")
    desk.beat("b", generation=0)
    _settle(desk, "a", "b")
    desk.sync("b", generation=9)
    desk.hear("b")
    _ask(desk, "c")
    desk.sync("c", generation=1)
    desk.hear("c")
    desk.beat("c", generation=1)


def session_expires(desk: Desk) -> None:
    """A member without heartbeats for its session timeout is removed: the group waits only for the others."""
    _enter(desk, "a", "b", rebalance=LONG)
    _settle(desk, "a", "b")
    _ask(desk, "c", session=SHORT, rebalance=LONG)
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
    """A leader that dies between JoinGroup and SyncGroup blocks the others for its whole session timeout."""
    _ask(desk, "a", session=SHORT, rebalance=LONG)
    _ask(desk, "a", session=SHORT, rebalance=LONG)
    desk.sync("a", plan={"a": b"a"})
    desk.hear("a")
    _ask(desk, "b", rebalance=LONG)
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
    """LeaveGroup with only an instance id removes the member."""
    _ask(desk, "s", instance="one")
    _settle(desk, "s")
    desk.leave("s", instance="one", by_instance=True)
    desk.beat("s", instance="one")
    desk.describe()
    desk.leave("s", instance="one", by_instance=True)


SCENARIOS: dict[str, Scenario] = {
    name: value
    for name, value in list(globals().items())
    if isfunction(value) and value.__module__ == __name__ and not name.startswith("_")
}
