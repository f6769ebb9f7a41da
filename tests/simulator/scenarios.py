"""Short sequences of raw requests to a coordinator, run against a real broker and against the model.

A scenario acts through a `Desk` and never reads answers itself: the record of requests and answers is compared. Times
are long enough for a real broker and short enough for a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import isfunction
from typing import Any, Final

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


_WORDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "changed": {"protocols": (("range", b"changed"),)},
    "other": {"protocols": (("range", b"other"),)},
    "long": {"rebalance": LONG},
    "short": {"session": SHORT},
    "anew": {"anew": True},
    "by-instance": {"by_instance": True},
}
_VALUES: Final[Mapping[str, Callable[[str], Any]]] = {
    "generation": int,
    "plan": lambda names: {name: name.encode() for name in names.split(",")},
}
_VERBS: Final[Mapping[str, Callable[..., None]]] = {
    "ask": _ask,
    "enter": _enter,
    "settle": _settle,
    "wait": lambda desk, seconds: desk.wait(float(seconds)),
}


def _run(desk: Desk, *texts: str) -> None:
    """Send requests in turn: a verb, names of members, words with a meaning of their own, and `key=value`."""
    for request in "; ".join(texts).split("; "):
        verb, *words = request.split()
        how: dict[str, Any] = {}
        for word in words:
            key, given, value = word.partition("=")
            how |= {key: _VALUES.get(key, str)(value)} if given else _WORDS.get(word, {})
        names = [word for word in words if "=" not in word and word not in _WORDS]
        act = _VERBS[verb] if verb in _VERBS else getattr(Desk, verb)
        act(desk, *names, **how)


def alone(desk: Desk) -> None:
    """One member gets an id, a generation and a plan, sends heartbeats, and leaves an empty group."""
    _run(
        desk,
        "describe; ask a; wait 1.0; describe; ask a; describe; beat a; settle a; describe; beat a",
        "beat a generation=7; leave a; beat a; leave a; describe",
    )


def pending_blocks(desk: Desk) -> None:
    """A pending id that does not join blocks a rebalance until it is released."""
    _run(
        desk,
        "enter a b long; settle a b; ask pending; describe; join a changed long; join b long; hear a b; describe",
        "leave pending; hear a b; describe",
    )


def pending_expires(desk: Desk) -> None:
    """A pending id that is not released blocks for its session timeout."""
    _run(
        desk,
        "enter a b long; settle a b; ask pending short; join a changed long; join b long changed; wait 4.0; hear a b",
        "wait 3.0; hear a b",
    )


def release_rebalances(desk: Desk) -> None:
    """Releasing a pending id of a stable group starts a rebalance although no member has changed."""
    _run(desk, "enter a; settle a; ask pending; leave pending; describe; beat a; ask a")


def rebalance_timeout(desk: Desk) -> None:
    """A dynamic member that does not rejoin in time is removed; heartbeats have the others rejoin."""
    _run(
        desk,
        "enter a b c; settle a b c; join a changed; beat b; beat c; join b; hear a b; wait 1.7; hear a b; beat c",
        "describe",
    )


def late_leader(desk: Desk) -> None:
    """The first member in the table that has rejoined replaces a leader that does not rejoin in time."""
    _run(desk, "enter a b c d; settle a b c d")
    for name in ("b", "c", "d"):
        desk.join(name, protocols=(("range", b"changed"),))
    _run(desk, "wait 1.7; hear b c d; describe")


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
    _run(
        desk,
        "enter a b; settle a b; ask b; describe; ask b changed; join a; hear a b; settle a b; ask a; beat b",
        "join b changed; hear a b",
    )


def order_of_protocols(desk: Desk) -> None:
    """The same protocols in another order are a change, also for a follower."""
    one, other = (("range", b"a"), ("roundrobin", b"a")), (("roundrobin", b"a"), ("range", b"a"))
    _enter(desk, "a", "b", protocols={"a": one, "b": one})
    _run(desk, "settle a b")
    _ask(desk, "b", protocols=one)
    _ask(desk, "b", protocols=other)
    desk.join("a", protocols=one)
    _run(desk, "hear a b")


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
    _run(desk, "join connect kind=connect; hear stranger connect")
    _settle(desk, *offers)


def static_reroll(desk: Desk) -> None:
    """A static follower that joins anew gets a new id in the same generation, no rebalance; the old id is fenced."""
    _run(desk, "enter a; settle a; join s instance=one; join a; hear a s; settle a s")
    for _ in range(3):
        _ask(desk, "s", instance="one", anew=True)
        desk.sync("s")
        desk.hear("s")
        desk.describe()
    _run(
        desk,
        "beat a; ask twin instance=one anew; beat s instance=one; beat s; leave s instance=one; leave s",
        "ask s instance=one; beat twin instance=one; describe",
    )


def static_leader_returns(desk: Desk) -> None:
    """A static leader that joins anew still leads; its answer lists all members and says that the plan is kept."""
    _run(
        desk,
        "ask s instance=one; settle s; ask a; join a; join s instance=one; hear a s; settle a s",
        "ask s instance=one anew other; sync s; hear s; describe; beat a; ask s instance=one other; beat a",
    )


def static_returns_while_parked(desk: Desk) -> None:
    """A static member is killed in a parked JoinGroup and returns: the parked id is fenced, the rebalance continues."""
    _run(
        desk,
        "enter a long; settle a; ask s instance=one long; join t instance=one anew long; hear s t; join a long",
        "hear a t; settle a t",
    )


def static_returns_between(desk: Desk) -> None:
    """A static member is killed between JoinGroup and SyncGroup and returns: a rebalance starts at once."""
    _run(
        desk,
        "ask s instance=one long; settle s; ask a long; join a long; join s instance=one long; hear a s; sync a",
        "hear a; join t instance=one anew long; hear a t; join a long; hear a t; describe",
    )


def static_late(desk: Desk) -> None:
    """A static member that does not rejoin in time stays a member until its SyncGroup is late too."""
    _run(
        desk,
        "ask s instance=one; settle s; ask a; ask a; wait 1.5; hear a; sync a plan=a,s; hear a; describe; wait 3.4",
        "describe",
    )


def sync_is_late(desk: Desk) -> None:
    """A member that has not synced within the rebalance timeout is removed, and the others have to rejoin."""
    _run(desk, "enter a b c; sync b plan=b; hear b; beat a; wait 1.7; hear b; describe; beat a; beat c")


def joined_twice(desk: Desk) -> None:
    """Before the plan is sent, a JoinGroup with the same metadata is answered again, a changed one rebalances."""
    _run(
        desk,
        "enter a b; join a; join b; hear a b; sync b; hear b; join a changed; hear a b; sync a plan=a; ask b",
        "describe",
    )


def leaves_while_parked(desk: Desk) -> None:
    """A member that leaves in a parked JoinGroup is answered UNKNOWN_MEMBER_ID; the group no longer waits for it."""
    _run(
        desk,
        "enter a b c long; settle a b c; ask b changed long; join a changed long; leave b; hear b; leave c; hear a",
        "describe",
    )


def wrong_generation(desk: Desk) -> None:
    """SyncGroup and Heartbeat of another generation, or of a member that has not joined, are refused."""
    _run(
        desk,
        "enter a b; sync a generation=0; hear a; beat b generation=0; settle a b; sync b generation=9; hear b; ask c",
        "sync c generation=1; hear c; beat c generation=1",
    )


def session_expires(desk: Desk) -> None:
    """A member without heartbeats for its session timeout is removed: the group waits only for the others."""
    _run(
        desk,
        "enter a b long; settle a b; ask c short long; join c short long; join a long; join b long; hear a b c",
        "settle a b c; wait 4.0; describe; wait 3.0; describe; beat a; beat c",
    )


def killed_between(desk: Desk) -> None:
    """A leader that dies between JoinGroup and SyncGroup blocks the others for its whole session timeout."""
    _run(
        desk,
        "ask a short long; ask a short long; sync a plan=a; hear a; ask b long; join b long; join a short long",
        "hear a b; sync b; wait 4.0; hear b; beat b; wait 3.0; hear b; describe",
    )


def leaves_by_instance(desk: Desk) -> None:
    """LeaveGroup with only an instance id removes the member."""
    _run(
        desk,
        "ask s instance=one; settle s; leave s instance=one by-instance; beat s instance=one; describe",
        "leave s instance=one by-instance",
    )


SCENARIOS: dict[str, Scenario] = {
    name: value
    for name, value in list(globals().items())
    if isfunction(value) and value.__module__ == __name__ and not name.startswith("_")
}
