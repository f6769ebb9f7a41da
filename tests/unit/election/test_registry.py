"""What an active agent knows of outside agents, from the descriptions of their groups."""

from __future__ import annotations

from samerack.cluster.group import DescribedGroup
from samerack.election.messages import Advertisement, Verdict, encode
from samerack.election.registry import KEPT_SECONDS, Registry
from tests.unit.election.described import agent, agents_group

A, B = "samerack-waiting-00", "samerack-waiting-01"


def advertised(rack: str, *addresses: str) -> bytes:
    """The advertisement of an outside agent."""
    return encode(Advertisement(rack=rack, addresses=addresses))


def group(*members: tuple[str, bytes, bytes], stable: bool = True) -> DescribedGroup:
    """A description; members by id, metadata and assignment."""
    return agents_group(
        (agent(member, metadata=metadata, assignment=assignment) for member, metadata, assignment in members),
        stable=stable,
    )


def registry() -> Registry:
    """A registry before its first description."""
    return Registry("samerack")


def test_racks_of_all_groups_are_known() -> None:
    """Racks of the election's members are known too; an address in two racks is ignored."""
    known = registry()
    verdict = encode(Verdict(term=1, agents=1))
    known.take("samerack", group(("m", advertised("rack-a", "10.0.0.1"), verdict)))
    known.take(A, group(("m", advertised("rack-b", "10.0.0.2", "10.0.0.9"), b"")))
    known.take(B, group(("m", advertised("rack-c", "10.0.0.3", "10.0.0.9", "127.0.0.1"), b"")))
    assert known.sum_up(1)
    assert known.racks == {"10.0.0.1": "rack-a", "10.0.0.2": "rack-b", "10.0.0.3": "rack-c"}
    assert known.waiting == 2
    assert not known.sum_up(2)


def test_what_was_assigned_counts_while_a_group_rebalances() -> None:
    """Brokers hide metadata then, so assignments count; without one, old data stay."""
    known = registry()
    known.take(A, group(("m", b"", advertised("rack-a", "10.0.0.1")), stable=False))
    known.sum_up(5)
    assert known.racks == {"10.0.0.1": "rack-a"}
    known.take(A, group(("m", b"", b""), ("n", b"", b""), stable=False))
    known.sum_up(7)
    assert (known.racks, known.waiting) == ({"10.0.0.1": "rack-a"}, 1)


def test_an_agent_that_moves_keeps_its_rack_meanwhile() -> None:
    """A moving agent is in no group for a moment; after a longer time its address may have another rack."""
    known = registry()
    known.take(A, group(("m", advertised("rack-a", "10.0.0.1"), b"")))
    known.sum_up(1)
    known.take(A, group())
    known.sum_up(KEPT_SECONDS)
    assert known.racks == {"10.0.0.1": "rack-a"}
    known.take(B, group(("n", advertised("rack-b", "10.0.0.1"), b"")))
    known.sum_up(KEPT_SECONDS)
    assert known.racks == {"10.0.0.1": "rack-b"}
    known.take(B, group())
    known.sum_up(2 * KEPT_SECONDS + 1)
    assert known.racks == {}


def test_nonsense_is_no_agent_of_any_rack() -> None:
    """Invalid metadata of outside members changes nothing."""
    known = registry()
    known.take(A, group(("m", b"\xff\x00", b"[]"), ("n", b'{"rack": 7}', b"")))
    known.sum_up(1)
    assert known.racks == {}
