"""Which agent is active for what: a pure function of what all agents say, the same for whoever works it out.

A newcomer never displaces an agent that is active and well. What nobody holds goes to whom holds most already, so that
agents with the same settings have one active among them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from zlib import crc32

from agent.election.model import NO_TOLD, Advertisement, Told, Verdict, is_told, lead, led_by, observed_by
from agent.election.places import ROOM, surplus


def choose(present: Mapping[str, Advertisement], term: int) -> dict[str, Verdict]:
    """The verdict for every member.

    Args:
        present: what each member says, by member id.
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
    # an answer for everybody goes into one record, so each is told only what concerns it
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
    """Of the duties by which groups are counted, those that decide which groups an agent counts that has these."""
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
    """Of what others are told by clients, that of groups which an agent might count that has these duties."""
    mine = frozenset(active)
    if not mine:
        return NO_TOLD
    patterns = observed_by(mine)
    return frozenset(one for one in told if lead(one[0]) in mine or _matches(one[0], patterns))


def _matches(group: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(group, pattern) for pattern in patterns)


def _counting(present: Mapping[str, Advertisement], chosen: Mapping[str, str]) -> frozenset[str]:
    """Duties by which groups are counted: all but those to lead a group that whoever leads it does not measure."""
    unmeasured = set()
    for member in set(chosen.values()):
        patterns = observed_by(present[member].duties)
        for group in led_by(duty for duty, holder in chosen.items() if holder == member):
            if patterns and not _matches(group, patterns):
                unmeasured.add(lead(group))
    return frozenset(chosen.keys() - unmeasured)


def _teller(present: Mapping[str, Advertisement]) -> dict[Told, str]:
    """Which agent counts what clients tell of themselves; of a client that tells two, one of them."""
    teller: dict[Told, str] = {}
    for member in sorted(present):
        for told in present[member].told:
            teller.setdefault(told, member)
    return teller


def racks_by_address(present: Iterable[Advertisement]) -> dict[str, str]:
    """The rack of each address; addresses of two racks say nothing and are left out."""
    said: dict[str, set[str]] = defaultdict(set)
    for one in present:
        if one.rack:
            for address in filter(is_told, one.addresses):
                said[address].add(one.rack)
    return {address: next(iter(racks)) for address, racks in sorted(said.items()) if len(racks) == 1}
