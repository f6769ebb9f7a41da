"""Why rack names of members and brokers do not match: other case, zone names against zone ids, or unknown names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from samerack.cluster.view import BrokerRacks
from samerack.reporting.evidence import Evidence
from samerack.reporting.findings import Code
from samerack.settings.leading import RackSettings
from samerack.traffic.snapshot import GroupTraffic

_AWS_NAMES: Final = "zone names of AWS"
_SCHEMES: Final = (
    ("zone ids of AWS", re.compile(r"[a-z]{2,5}\d-(?:[a-z]+\d-)?az\d+")),  # use1-az1, usw2-lax1-az1
    (_AWS_NAMES, re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d[a-z]")),  # us-east-1a, us-gov-west-1b
    ("zone names of Google Cloud", re.compile(r"[a-z]+-[a-z]+\d+-[a-z]")),  # us-central1-a
    ("Azure's zones with region", re.compile(r"[a-z]+\d?-\d")),  # westeurope-1
    ("bare numbers", re.compile(r"\d+")),
)
_ZONE_IDS: Final = (
    "an AWS zone name may mean different zones in different accounts, a zone id does not: if members and brokers have "
    "different accounts, use ids (`aws ec2 describe-availability-zones` lists both)"
)
_MAX_SHOWN: Final = 3
"""Racks that are named in a text; more are counted as "..."."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RackNames:
    """A reason why racks of members and racks of brokers do not match."""

    code: Code
    cause: str
    cure: str
    racks: frozenset[str]
    """The racks of members that it is about."""


def rack_names(members: AbstractSet[str], brokers: AbstractSet[str], *, complete: bool = True) -> Iterator[RackNames]:
    """Yield why member racks match no broker rack; nothing if each of them does, or one of the sets is empty.

    `complete`: whether every broker's rack is known; an absent broker may be the one in a member's rack.
    """
    strangers = members - brokers
    if not strangers or not brokers:
        return
    folded = {rack.casefold(): rack for rack in sorted(brokers)}
    twins = {rack: folded[rack.casefold()] for rack in sorted(strangers) if rack.casefold() in folded}
    if twins:
        shown = ", ".join(f"{rack!r} and {twin!r}" for rack, twin in list(twins.items())[:3])
        yield RackNames(
            code=Code.RACKS_DIFFER_IN_CASE,
            cause=f"racks of members and brokers differ only in case: {shown}; they never match",
            cure="spell client.rack exactly like broker.rack",
            racks=frozenset(twins),
        )
    strangers -= twins.keys()
    if not strangers:
        return
    mine, theirs = scheme(strangers), scheme(brokers)
    if mine and theirs and mine != theirs:
        yield RackNames(
            code=Code.ZONE_NAME_AGAINST_ID,
            cause=f"members are in {mine} ({_some(strangers)}), brokers in {theirs} ({_some(brokers)}): they never "
            "match",
            cure="use the same kind on both sides; "
            + (_ZONE_IDS if _AWS_NAMES in (mine, theirs) else "pod.zones translates names"),
            racks=frozenset(strangers),
        )
        return
    whole = strangers == members
    if not whole and not complete:
        return
    yield RackNames(
        code=Code.RACKS_NEVER_MEET,
        cause=f"{'no rack of a member is' if whole else 'some racks of members are not'} a rack of a broker: "
        f"{_some(strangers)}; brokers are in {_some(brokers)}. Members there always read across racks, or the "
        "names are misspelt",
        cure="correct client.rack (or racks.client_ids and racks.networks), or place brokers and replicas in these "
        f"racks{f'; {_ZONE_IDS}' if mine == theirs == _AWS_NAMES else ''}",
        racks=frozenset(strangers),
    )


def rack_warnings(members: Iterable[str | None], settings: RackSettings, brokers: BrokerRacks) -> list[str]:
    """Return why racks of members match no broker rack, and those that the settings name for members to come."""
    own = {rack for rack in members if rack is not None}
    texts = [f"{one.cause}; {one.cure}" for one in rack_names(own, brokers.names, complete=brokers.complete)]
    unused = {*settings.client_ids.values(), *settings.networks.values()} - own - brokers.names
    if unused and brokers.complete:
        texts.append(
            f"racks.client_ids or racks.networks name {_some(unused)}, which no broker has; brokers are in "
            f"{_some(brokers.names)}: correct the names"
        )
    return texts


def names_of(evidence: Evidence, group: GroupTraffic) -> tuple[RackNames, ...]:
    """Return why racks of a group's members match no broker rack."""
    members = {member.rack.named for member in group.members if member.rack.named is not None}
    brokers = evidence.snapshot.cluster.racks
    return tuple(rack_names(members, brokers.names, complete=brokers.complete))


def scheme(racks: AbstractSet[str]) -> str:
    """Return the naming scheme of all these racks, "" if no cloud provider uses it."""
    return next((name for name, pattern in _SCHEMES if all(pattern.fullmatch(rack) for rack in racks)), "")


def _some(racks: AbstractSet[str]) -> str:
    shown = map(repr, sorted(racks)[:_MAX_SHOWN])  # quoted, so that a blank at the end is seen
    return ", ".join(shown) + (", ..." if len(racks) > _MAX_SHOWN else "")
