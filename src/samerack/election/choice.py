"""Chooses which agent is active for what: pure functions of what all agents advertise, so every agent would agree.

A new agent never displaces an active, healthy one. A responsibility that no agent holds goes to the agent that holds
most already, so that of several agents with the same settings one is active.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from zlib import crc32

from samerack.common.patterns import selects
from samerack.election.messages import Advertisement, Verdict, identifies_host, lead, led_by, observed_by
from samerack.election.places import ROOM, surplus


def choose(present: Mapping[str, Advertisement], term: int) -> dict[str, Verdict]:
    """Compute the verdict for every member from what each advertises, by member id, in the election `term`."""
    able: dict[str, list[str]] = defaultdict(list)
    for member in sorted(present):
        for responsibility in present[member].responsibilities:
            able[responsibility].append(member)
    chosen: dict[str, str] = {}
    for responsibility, members in able.items():
        holders = [member for member in members if responsibility in present[member].held]
        if holders:
            chosen[responsibility] = max(holders, key=lambda member: (present[member].term, member))
    busy = Counter(chosen.values())
    for responsibility in sorted(able.keys() - chosen.keys()):
        chosen[responsibility] = max(
            able[responsibility], key=lambda member: (busy[member], crc32(present[member].identity.encode()))
        )
        busy[chosen[responsibility]] += 1
    # all verdicts go into one record, so each holds only what its member needs
    racks = racks_by_address(present.values()) if len(present) <= ROOM else {}
    measuring = _measuring(present, chosen)
    active: dict[str, set[str]] = defaultdict(set)
    for responsibility, holder in chosen.items():
        active[holder].add(responsibility)
    waits = surplus(present, active.keys())
    return {
        member: Verdict(
            term=term,
            agents=len(present),
            active=frozenset(active[member]),
            with_standby=frozenset(
                responsibility for responsibility in active[member] if len(able[responsibility]) > 1
            ),
            racks=racks if active[member] else {},
            # who observes has to know of all others that lead
            measuring=measuring if observed_by(active[member]) else measuring & active[member],
            waits=member in waits,
        )
        for member in present
    }


def _measuring(present: Mapping[str, Advertisement], chosen: Mapping[str, str]) -> frozenset[str]:
    """Return the responsibilities by which groups are measured: all but to lead a group without measuring it."""
    unmeasured = set()
    for member in set(chosen.values()):
        patterns = observed_by(present[member].responsibilities)
        for group in led_by(responsibility for responsibility, holder in chosen.items() if holder == member):
            if patterns and not selects(patterns, group):
                unmeasured.add(lead(group))
    return frozenset(chosen.keys() - unmeasured)


def racks_by_address(present: Iterable[Advertisement]) -> dict[str, str]:
    """Return the rack of each address; addresses with two racks are ambiguous and left out."""
    said: dict[str, set[str]] = defaultdict(set)
    for one in present:
        if one.rack:
            for address in filter(identifies_host, one.addresses):
                said[address].add(one.rack)
    return {address: next(iter(racks)) for address, racks in sorted(said.items()) if len(racks) == 1}
