"""Checks whether the members of one rack fall behind while those of others do not, and why.

Lag that grows everywhere is a group that is too small, and no matter of racks. A cause is reported where figures show
it: what members carry, against the mean of all, and what they read and from where, against members elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from samerack.common import words
from samerack.common.records import LEADING
from samerack.reporting.evidence import Code, Evidence, Finding, in_group
from samerack.reporting.report import GroupCost
from samerack.settings.cures import command
from samerack.traffic.snapshot import STREAMS_KINDS, GroupTraffic, ObservedMember, Pace, PartitionTraffic

_TIMES: Final = 2.0
"""What happens this many times as often in a rack as elsewhere is of that rack."""
_MOST: Final = 0.5
_ALIKE: Final = 1.1
"""Loads and speeds within this factor are alike."""
_COMPARE: Final = (
    "compare CPU, memory and network of its members with those elsewhere, their client.rack, and the rack of what they "
    "call, such as a database"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """One member.

    Attributes:
        load: In bytes per second; None if not known.
        largest: The load and the name of its largest partition.
        crossing: The part of its load that is known to cross racks.
        is_known: Whether its lag is known.
    """

    rack: str | None
    pace: Pace | None
    load: float | None
    largest: tuple[float, str]
    crossing: float
    is_known: bool

    @property
    def falls_behind(self) -> bool:
        """Whether its lag grows."""
        return self.pace is not None and self.pace.grows

    @property
    def speed(self) -> float | None:
        """What it reads, in bytes per second: the most that it can, if it is behind."""
        share = 1.0 if self.pace is None else self.pace.share
        return None if self.load is None or share is None else self.load * share


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rack:
    """The members of a rack, those of them that fall behind, and the members elsewhere."""

    name: str
    here: Collection[_Reader]
    behind: Collection[_Reader]
    elsewhere: Collection[_Reader]


def lag_in_racks(evidence: Evidence) -> Iterator[Finding]:
    """Find racks whose members fall behind twice as often as those elsewhere; there, unknown ones count as behind."""
    for group, cost in evidence.pairs:
        if not any(pace.grows for pace in group.paces.values()):
            continue
        owned = group.owned_by_member()
        readers = [_reader(member, group.paces.get(member.id), owned[member.id]) for member in group.members]
        for name in sorted({reader.rack for reader in readers if reader.rack is not None}):
            here = [reader for reader in readers if reader.rack == name]
            elsewhere = [reader for reader in readers if reader.rack != name]
            rack = _Rack(name=name, here=here, behind=[one for one in here if one.falls_behind], elsewhere=elsewhere)
            not_known = sum(not one.is_known for one in elsewhere)
            others = sum(one.falls_behind for one in elsewhere)
            if not rack.behind or not elsewhere:
                continue
            if len(rack.behind) / len(here) < _TIMES * (others + not_known) / len(elsewhere):
                continue
            cause, cure = _cause_and_cure(evidence, group, cost, rack)
            age = max(one.pace.lag_seconds for one in rack.behind if one.pace is not None)
            yield Finding(
                code=Code.LAG_GROWS_IN_RACK,
                where=in_group(group),
                cause=f"the lag of {len(rack.behind)} of {len(here)} members in {name} grows, to {words.span(age)}, "
                f"and that of {words.count(others, not_known)} of {len(elsewhere)} elsewhere; cause: {cause}",
                cure=cure,
                costs=False,
            )


def _reader(member: ObservedMember, pace: Pace | None, owned: Collection[PartitionTraffic]) -> _Reader:
    rack = member.rack.rack
    loads = [(one, one.long_run_per_second) for one in owned]
    known = [(one, rate) for one, rate in loads if rate is not None]
    load = sum(rate for _, rate in known)
    crossing = sum(rate for one, rate in known if rack and one.serving_rack and one.serving_rack != rack)
    return _Reader(
        rack=rack,
        pace=pace,
        load=load if len(known) == len(loads) else None,
        largest=max(((rate, f"{one.topic}-{one.number}") for one, rate in known), default=(0.0, "")),
        crossing=crossing / load if load else 0.0,
        is_known=pace is not None or all(one.lag_seconds is not None for one in owned),
    )


def _cause_and_cure(evidence: Evidence, group: GroupTraffic, cost: GroupCost, rack: _Rack) -> tuple[str, str]:
    """Return why members of a rack fall behind, as far as figures show it, and what to do."""
    everybody, load = _mean(one.load for one in (*rack.here, *rack.elsewhere)), _mean(one.load for one in rack.behind)
    if load is not None and everybody and load > _ALIKE * everybody:
        return _too_much(evidence, group, cost, rack, f"{load / everybody:.1f} times the mean load")
    crossing, others = _mean(one.crossing for one in rack.behind), _mean(one.crossing for one in rack.elsewhere)
    if everybody and crossing is not None and others is not None and crossing > max(_MOST, _TIMES * others):
        bootstrap = evidence.report.bootstrap
        plan = (
            command("streams plan", "--group", group.group, bootstrap=bootstrap)
            if group.kind in STREAMS_KINDS
            else command("plan", group=group.group, bootstrap=bootstrap)
        )
        return (
            f"they read across racks: {crossing:.0%} of their load, {others:.0%} elsewhere",
            f"set client.rack in them; {plan} shows whether another assignment reads less across racks",
        )
    speed = _mean(one.speed for one in rack.behind)
    usual = _mean(one.speed for one in rack.elsewhere if one.load and not one.falls_behind)
    if everybody and speed is not None and usual is not None and _ALIKE * speed < usual:
        return (
            f"they read slower: each {words.rate(speed)} at most, and a member elsewhere {words.rate(usual)}",
            f"{_COMPARE}. Until then a lag guard, lag.max_seconds, moves load to others (docs/load.md)",
        )
    show = command("lag", group=group.group, bootstrap=evidence.report.bootstrap)
    return "unknown", f"{show} shows each member; {_COMPARE}"


def _too_much(evidence: Evidence, group: GroupTraffic, cost: GroupCost, rack: _Rack, times: str) -> tuple[str, str]:
    """Return cause and cure where those that fall behind have more to read than others."""
    cures = []
    if group.kind == "classic" and evidence.leading.of(group.group).balance == "partitions":
        plan = command("plan", "--balance", "bytes", group=group.group, bootstrap=evidence.report.bootstrap)
        lead = "set" if cost.role == LEADING else "let the agent lead it with"
        cures.append(f"{lead} leading.balance=bytes, whose plan {plan} shows")
    hot = [one.largest[1] for one in rack.behind if one.load and one.largest[0] > _MOST * one.load]
    if len(hot) == len(rack.behind):
        cures.append("spread its keys over more partitions")
        cause = f"hot {words.some(hot, 'partition')}, most of what its member reads, which has {times}"
    else:
        cures.append(f"run more members in {rack.name}")
        here, elsewhere = (sum(member.load or 0.0 for member in members) for members in (rack.here, rack.elsewhere))
        members = len(rack.here) / (len(rack.here) + len(rack.elsewhere))
        cause = (
            f"too few members there for the load: {members:.0%} of the members have {here / (here + elsewhere):.0%} of "
            f"the load, and those that fall behind {times}"
        )
    return cause, "; or ".join(cures)


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean; None if a value is not known, or there is none."""
    known = list(values)
    return None if not known or None in known else sum(value or 0.0 for value in known) / len(known)
