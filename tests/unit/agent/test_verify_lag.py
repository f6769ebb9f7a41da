"""Lag that grows in one rack is found, with its cause; lag of a whole group, a rare commit or catching up is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pytest

from samerack.common.money import shipped
from samerack.reporting import costs
from samerack.reporting.evidence import Code, Evidence, Finding
from samerack.reporting.verify import verdict
from samerack.settings.leading import LeadingSettings
from samerack.traffic.snapshot import GroupKind, GroupTraffic, Pace, PartitionTraffic
from tests.unit.agent.measured import A, B, C, group, snapshot

MEMBERS: Final[Mapping[str, str | None]] = {f"{rack[-1]}{at}": rack for rack in (A, B, C) for at in range(3)}
GROWS: Final = Pace(lag_seconds=240.0, grows=True, share=0.6)
IN_A: Final = dict.fromkeys(("a0", "a1", "a2"), GROWS)
MB: Final = 1_000_000.0


def taken(
    paces: Mapping[str, Pace],
    *,
    rates: Mapping[str, Sequence[float | None]] | None = None,
    across: Sequence[str] = (),
    members: Mapping[str, str | None] = MEMBERS,
    kind: GroupKind = "classic",
    age: float | None = 4.0,
) -> GroupTraffic:
    """A group whose members read four partitions of 1 MB/s, or those of `rates`; some read all across racks."""
    owned = [(name, rate) for name in members for rate in (rates or {}).get(name, (MB,) * 4)]
    return replace(
        group(members=members, kind=kind),
        paces=paces,
        partitions=tuple(
            PartitionTraffic(
                partition=("clicks", number),
                member=name,
                serving_rack="elsewhere" if name in across else members[name],
                bytes_per_second=None,
                written_per_second=rate,
                lag_records=10,
                lag_seconds=paces[name].lag_seconds if name in paces else age,
            )
            for number, (name, rate) in enumerate(owned)
        ),
    )


def found(one: GroupTraffic, *, role: str = "", leading: LeadingSettings | None = None) -> list[Finding]:
    """The findings of lag in a rack."""
    shown = snapshot(one)
    report = costs.report(shown, shipped("aws"), roles={one.group: role} if role else {}, bootstrap="h:1")
    evidence = Evidence(snapshot=shown, report=report, leading=leading or LeadingSettings())
    return [each for each in verdict(evidence).findings if each.code is Code.LAG_GROWS_IN_RACK]


FEW: Final = {name: rack for name, rack in MEMBERS.items() if name not in ("a1", "a2")}


@pytest.mark.parametrize(
    ("one", "cause", "cure"),
    [
        pytest.param(
            taken({"a0": GROWS}, members=FEW, rates={"a0": (MB,) * 12}),
            "too few members there for the load: 14% of the members have 33% of the load, and those that fall behind "
            "2.3 times the mean load",
            "let the agent lead it with leading.balance=bytes, whose plan `samerack plan orders --balance bytes -b h:1`"
            " shows; or run more members in rack-a",
            id="too few members",
        ),
        pytest.param(
            taken({"a0": GROWS}, rates={"a0": (8 * MB, MB)}),
            "hot partition clicks-0, most of what its member reads, which has 2.0 times the mean load",
            "let the agent lead it with leading.balance=bytes, whose plan `samerack plan orders --balance bytes -b h:1`"
            " shows; or spread its keys over more partitions",
            id="a hot partition",
        ),
        pytest.param(
            taken(IN_A, across=("a0", "a1", "a2", "b0")),
            "they read across racks: 100% of their load, 17% elsewhere",
            "set client.rack in them; `samerack plan orders -b h:1` shows whether another assignment reads less across "
            "racks",
            id="across racks",
        ),
        pytest.param(
            taken(IN_A, across=tuple(MEMBERS)),
            "they read slower: each 2.4 MB/s at most, and a member elsewhere 4 MB/s",
            "compare CPU, memory and network of its members with those elsewhere, their client.rack, and the rack of "
            "what they call, such as a database. Until then a lag guard, lag.max_seconds, moves load to others "
            "(docs/load.md)",
            id="slower, where all read across racks",
        ),
        pytest.param(
            taken({"b0": GROWS}, members={"b0": B, "a0": A, "m": None}),
            "they read slower: each 2.4 MB/s at most, and a member elsewhere 4 MB/s",
            "compare CPU",
            id="slower, and some racks are not known",
        ),
        pytest.param(
            taken(dict.fromkeys(IN_A, replace(GROWS, share=None))),
            "unknown",
            "`samerack lag orders -b h:1` shows each member; compare CPU",
            id="what they can read is not known",
        ),
        pytest.param(
            taken(dict.fromkeys(IN_A, replace(GROWS, share=0.97))), "unknown", "`samerack lag", id="all read alike"
        ),
        pytest.param(taken(IN_A, rates={"c2": (MB, None)}), "unknown", "`samerack lag", id="a load is not known"),
        pytest.param(taken(IN_A, rates=dict.fromkeys(MEMBERS, ())), "unknown", "`samerack lag", id="no load"),
    ],
)
def test_lag_that_grows_in_one_rack_has_its_cause(one: GroupTraffic, cause: str, cure: str) -> None:
    """It costs no money; what figures do not show is not claimed."""
    (finding,) = found(one)
    assert (finding.where, finding.costs) == ("group orders", False)
    assert finding.cause.partition("; cause: ")[2] == cause
    assert finding.cure.startswith(cure)


def test_the_finding_counts_members() -> None:
    """Those whose lag grows, there and elsewhere, and those of which that is not known."""
    (finding,) = found(taken(IN_A))
    assert finding.cause.startswith(
        "the lag of 3 of 3 members in rack-a grows, to 4 min, and that of 0 of 6 elsewhere;"
    )
    some = taken(IN_A)
    unknown = tuple(replace(one, lag_seconds=None) if one.member == "b0" else one for one in some.partitions)
    (finding,) = found(replace(some, partitions=unknown))
    assert "and that of 0 (1 unknown) of 6 elsewhere" in finding.cause


def test_cures_are_what_is_not_done_yet() -> None:
    """An agent that leads needs the setting alone, balance by load is advised once, and where it works."""
    few = taken({"a0": GROWS}, members=FEW, rates={"a0": (MB,) * 12})
    assert found(few, role="leading")[0].cure.startswith("set leading.balance=bytes, ")
    for one, balance in ((few, "bytes"), (few, "records"), (replace(few, kind="consumer"), "partitions")):
        leading = LeadingSettings.model_validate({"balance": balance})
        assert [each.cure for each in found(one, leading=leading)] == ["run more members in rack-a"]
    streams = taken(IN_A, across=tuple(IN_A), kind="streams-classic")
    assert "`samerack streams plan --group orders -b h:1`" in found(streams)[0].cure


@pytest.mark.parametrize(
    "one",
    [
        pytest.param(taken({}), id="nobody is behind"),
        pytest.param(taken(dict.fromkeys(MEMBERS, replace(GROWS, grows=False, share=1.5))), id="all catch up"),
        pytest.param(taken(dict.fromkeys(IN_A, replace(GROWS, grows=False))), id="one rack stays behind"),
        pytest.param(taken(dict.fromkeys(MEMBERS, GROWS)), id="all fall behind"),
        pytest.param(taken({name: GROWS for name in MEMBERS if name != "c2"}), id="all but one"),
        pytest.param(taken({}, age=3600.0), id="rare commits"),
        pytest.param(taken(IN_A, age=None), id="of the others nothing is known"),
        pytest.param(taken(IN_A, members={"a0": A, "a1": A, "a2": A}), id="one rack"),
        pytest.param(taken({"m": GROWS}, members={"m": None, **MEMBERS}), id="a member without rack"),
    ],
)
def test_lag_that_is_of_no_rack(one: GroupTraffic) -> None:
    """The whole group catches up or is too small, commits are rare, or the figures do not show where."""
    assert found(one) == []
