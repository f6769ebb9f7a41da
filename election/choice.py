"""Chooses which agent is active for what: pure functions of what all agents advertise, so every agent would agree.

A new agent never displaces an active, healthy one. A responsibility that no agent holds goes to the agent that holds
most already, so that of several agents with the same settings one is active.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from zlib import crc32

from samerack.election.model import NO_TOLD, Advertisement, Told, Verdict, is_told, lead, led_by, observed_by
from samerack.election.places import ROOM, surplus


def choose(present: Mapping[str, Advertisement], term: int) -> dict[str, Verdict]:
    """Compute the verdict for every member.

    Args:
        present: what each member advertises, by member id.
        term: number of this election.
    """
    able: dict[str, list[str]] = defaultdict(list)
    for member in sorted(present):
        for duty in present[member].duties:
            able[duty].append(member)
    chosen: dict[str, str] = {}
    for duty, members in able.items():
        holders = [member for member in members if duty in present[member].held]
        if holders:
            chosen[duty] = max(holders, key=lambda member: (present[member].term, member))
    busy = Counter(chosen.values())
    for duty in sorted(able.keys() - chosen.keys()):
        chosen[duty] = max(able[duty], key=lambda member: (busy[member], crc32(present[member].identity.encode())))
        busy[chosen[duty]] += 1
    # all verdicts go into one record, so each holds only what its member needs
    racks = racks_by_address(present.values()) if len(present) <= ROOM else {}
    counting = _counting(present, chosen)
    teller = _teller(present)
    active: dict[str, set[str]] = defaultdict(set)
    for duty, holder in chosen.items():
        active[holder].add(duty)
    told: dict[str, set[Told]] = defaultdict(set)
    for one, holder in teller.items():
        told[holder].add(one)
    waits = surplus(present, active.keys())
    return {
        member: Verdict(
            term=term,
            agents=len(present),
            active=frozenset(active[member]),
            deputized=frozenset(duty for duty in active[member] if len(able[duty]) > 1),
            racks=racks if active[member] else {},
            counting=concerning(active[member], counting),
            told=frozenset(told[member]),
            elsewhere=told_of_others(active[member], (one for one, holder in teller.items() if holder != member)),
            waits=member in waits,
        )
        for member in present
    }


def concerning(active: Iterable[str], counting: Iterable[str]) -> frozenset[str]:
    """Return those of `counting` that decide which groups an agent with the responsibilities `active` counts."""
    mine = frozenset(active)
    patterns = observed_by(mine)
    if not patterns:
        return mine & frozenset(counting)
    return frozenset(
        duty
        for duty in counting
        if duty in mine or observed_by([duty]) or any(_matches(group, patterns) for group in led_by([duty]))
    )


def told_of_others(active: Iterable[str], told: Iterable[Told]) -> frozenset[Told]:
    """Return those of `told` whose groups an agent with the responsibilities `active` might count."""
    mine = frozenset(active)
    if not mine:
        return NO_TOLD
    patterns = observed_by(mine)
    return frozenset(one for one in told if lead(one[0]) in mine or _matches(one[0], patterns))


def _matches(group: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(group, pattern) for pattern in patterns)


def _counting(present: Mapping[str, Advertisement], chosen: Mapping[str, str]) -> frozenset[str]:
    """Return the responsibilities by which groups are counted: all but to lead a group without measuring it."""
    unmeasured = set()
    for member in set(chosen.values()):
        patterns = observed_by(present[member].duties)
        for group in led_by(duty for duty, holder in chosen.items() if holder == member):
            if patterns and not _matches(group, patterns):
                unmeasured.add(lead(group))
    return frozenset(chosen.keys() - unmeasured)


def _teller(present: Mapping[str, Advertisement]) -> dict[Told, str]:
    """Choose the agent that counts each reporting member; one of them where a client reports to two."""
    teller: dict[Told, str] = {}
    for member in sorted(present):
        for told in present[member].told:
            teller.setdefault(told, member)
    return teller


def racks_by_address(present: Iterable[Advertisement]) -> dict[str, str]:
    """Return the rack of each address; addresses with two racks are ambiguous and left out."""
    said: dict[str, set[str]] = defaultdict(set)
    for one in present:
        if one.rack:
            for address in filter(is_told, one.addresses):
                said[address].add(one.rack)
    return {address: next(iter(racks)) for address, racks in sorted(said.items()) if len(racks) == 1}
