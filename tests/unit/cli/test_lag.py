"""`samerack lag`: sums are of what is known with what they lack, and whole names are there at any width."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from samerack.cli import asking
from samerack.cli.lag import members_table, partitions_table, racks_table, total
from samerack.reporting.group_lag import GroupLag, from_json, group_lag, to_json
from samerack.settings.all_settings import Settings
from samerack.traffic.snapshot import BlindSpot, GroupTraffic, LowerBound, Pace
from tests.unit.agent.measured import A, B, C, group
from tests.unit.cli.tables import cells_of


def behind() -> GroupLag:
    """A group of two members, of which one has a partition whose lag is not known; one partition has no member."""
    whole = group(members={"m1": A, "m2": B})
    first, second, third, *_ = whole.partitions
    return group_lag(
        replace(
            whole,
            partitions=(
                replace(first, committed=100, lag_seconds=75.0),
                replace(second, member="m2", lag_records=None, lag_seconds=None),
                replace(third, member=None, lag_records=7, lag_seconds=None),
            ),
            lag={"clicks": LowerBound(value=27, unknown=1)},
            lag_seconds={"clicks": LowerBound(value=75.0, unknown=2)},
        )
    )


def test_a_sum_with_an_unknown_part_is_a_lower_bound() -> None:
    """Members, topics and the whole: each has what is known and how much is not; null is a figure of nothing known."""
    found = behind()
    assert from_json(to_json(found)) == found
    for one in (found, found.topics["clicks"]):
        assert (one.lag_records, one.lag_unknown_partitions) == (27, 1)
        assert (one.lag_seconds, one.lag_seconds_unknown_partitions) == (75.0, 2)
    assert [(one.client_id, one.rack, one.lag_records, one.lag_unknown_partitions) for one in found.members] == [
        ("client-m1", A, 20, 0),
        ("client-m2", B, None, 1),
    ]
    assert [(one.lag_seconds, one.lag_seconds_unknown_partitions) for one in found.members] == [(75.0, 0), (None, 1)]
    records = "lag in total: at least 27 (unknown of 1 of its partitions)"
    assert total(found) == f"{records}, age of the oldest: at least 75 s (unknown of 2 of its partitions)"
    assert total(replace(found, lag_seconds=None)) == f"{records}, age of the oldest: unknown"
    assert total(replace(found, lag_seconds_unknown_partitions=0)) == f"{records}, age of the oldest: 75 s"
    assert total(group_lag(group(members={"m1": A}))) == "lag in total: 120, age of the oldest: 12 s"
    assert [
        (one.partition, one.committed, one.lag_records, one.lag_seconds, one.client_id) for one in found.partitions
    ] == [
        (0, 100, 20, 75.0, "client-m1"),
        (1, None, None, None, "client-m2"),
        (2, None, 7, None, None),
    ]


def test_a_member_without_partitions_lags_behind_nothing() -> None:
    """It has no records to read, and reads none; a rate is known when that of all its partitions is."""
    whole = group(members={"m1": A, "m2": B})
    first, second, *_ = whole.partitions
    busy, idle = group_lag(replace(whole, partitions=(first, replace(second, bytes_per_second=None)))).members
    assert (busy.partitions, busy.bytes_per_second) == (2, None)
    assert (idle.partitions, idle.bytes_per_second, idle.lag_records, idle.lag_seconds) == (0, 0, 0, 0)


def test_what_a_young_measurement_shows_of_reads_is_no_rate() -> None:
    """`lag --measure` takes a second, in which a member commits all that it has read in five seconds, or nothing."""
    young = replace(group(members={"m1": A}), blind_spots=(BlindSpot.YOUNG,))
    (row,) = cells_of(members_table(group_lag(young), width=160), 160, figure="lag")[1:]
    assert row == ["client-m1", A, "keeps up", "6", "-", "120", "12 s"]


def test_a_member_shows_what_its_sum_lacks() -> None:
    """In parentheses, in partitions."""
    whole = group(members={"m1": A})
    first, *rest = whole.partitions
    found = group_lag(replace(whole, partitions=(replace(first, lag_records=None, lag_seconds=None), *rest)))
    (row,) = cells_of(members_table(found, width=160), 160, figure="lag")[1:]
    assert row == ["client-m1", A, "-", "6", "6 kB/s", "100 (1 unknown)", "12 s (1 unknown)"]


def paced(paces: Mapping[str, Pace], *, age: float | None = 5.0, **traits: Any) -> GroupTraffic:
    """A group whose members have one partition each, of these ages and paces; the last one's rack is not known."""
    racks = {f"m{at}": rack for at, rack in enumerate((A, A, B, B, C, None))}
    whole = group(members=racks, **traits)
    owned = (
        replace(one, member=name, lag_seconds=paces[name].lag_seconds if name in paces else age)
        for one, name in zip(whole.partitions, racks, strict=True)
    )
    return replace(whole, partitions=tuple(owned), paces=paces)


def test_lag_is_summed_by_rack() -> None:
    """With the members that fall behind, how many are not known, and one row of those whose rack is not known."""
    paces = {"m0": Pace(lag_seconds=300.0, grows=True, share=0.5), "m2": Pace(lag_seconds=80.0, grows=False, share=1.5)}
    found = group_lag(paced(paces))
    assert from_json(to_json(found)) == found
    assert json.loads(to_json(found))["racks"][0] == {
        "rack": A,
        "members": 2,
        "members_behind": 1,
        "members_unknown": 0,
        "partitions": 2,
        "bytes_per_second": 2000.0,
        "lag_records": 40,
        "lag_seconds": 300.0,
        "lag_unknown_partitions": 0,
        "lag_seconds_unknown_partitions": 0,
    }
    for width in (60, 80, 160):
        rows = [
            [A, "2", "1", "2", "2 kB/s", "40", "5 min"],
            [B, "2", "0", "2", "2 kB/s", "40", "80 s"],
            [C, "1", "0", "1", "1 kB/s", "20", "5 s"],
            ["-", "1", "0", "1", "1 kB/s", "20", "5 s"],
        ]
        expected = rows if width > 60 else [[*row[:4], *row[5:]] for row in rows]
        assert cells_of(racks_table(found, width=width), width, figure="lag")[1:] == expected


@pytest.mark.parametrize(
    ("pace", "age", "shown"),
    [
        (Pace(lag_seconds=300.0, grows=True, share=None), 1.0, "falls behind"),
        (Pace(lag_seconds=300.0, grows=False, share=1.5), 1.0, "catches up"),
        (Pace(lag_seconds=300.0, grows=False, share=1.0), 1.0, "stays behind"),
        (Pace(lag_seconds=300.0, grows=False, share=None), 1.0, None),
        (None, 5.0, "keeps up"),
        (None, 3600.0, None),
        (None, None, None),
    ],
)
def test_a_member_shows_whether_its_lag_grows(pace: Pace | None, age: float | None, shown: str | None) -> None:
    """It is unknown where its lag is, and while it has not committed for long."""
    found = group_lag(paced({} if pace is None else {"m0": pace}, age=age))
    assert found.members[0].pace == shown
    assert cells_of(members_table(found, width=160), 160, figure="lag")[1][2] == (shown or "-")


def test_members_that_do_not_show_what_they_own_have_no_pace() -> None:
    """In share groups, and while a group rebalances: none falls behind that is known."""
    for taken in (paced({}, kind="share"), replace(paced({}), owned_known=False)):
        found = group_lag(taken)
        assert {one.pace for one in found.members} == {None}
        assert [(one.members_behind, one.members_unknown) for one in found.racks] == [
            (None, 2),
            (None, 2),
            (None, 1),
            (None, 1),
        ]
        none = group_lag(replace(taken, partitions=tuple(replace(one, member="") for one in taken.partitions)))
        assert from_json(to_json(none)) == none
        for one in (*none.members, *none.racks):
            assert (one.partitions, one.bytes_per_second, one.lag_records, one.lag_seconds) == (None,) * 4
        assert [row[3:] for row in cells_of(members_table(none, width=160), 160, figure="lag")[1:]] == [["-"] * 4] * 6


@pytest.mark.parametrize("width", [60, 80, 160])
def test_the_table_fits_and_begins_with_what_needs_attention(width: int) -> None:
    """Unknown lags come first, then the largest; no name is cut."""
    served = [A] if width == 160 else []
    assert cells_of(partitions_table(behind(), width=width), width, figure="lag")[1:] == [
        ["clicks-1", "-", "-", "-", "client-m2", B, *served],
        ["clicks-0", "100", "20", "75 s", "client-m1", A, *served],
        ["clicks-2", "-", "7", "-", "-", "-", *served],
    ]


@pytest.mark.parametrize("width", [60, 80, 160])
def test_racks_and_members_are_whole(width: int) -> None:
    """Long names are folded; members with one client id have a part of their ids."""
    racks, ids = ("us-east-1a", "us-gov-west-1c"), ("pay-5f0c1e5e", "pay-77aa1e5e")
    whole = group(members=dict(zip(ids, racks, strict=True)))
    members = tuple(replace(one, client_id="pay") for one in whole.members)
    partitions = tuple(
        replace(one, partition=("payments.authorised.v2", at), member=ids[at % 2], committed=123_456_789)
        for at, one in enumerate(whole.partitions)
    )
    found = group_lag(replace(whole, members=members, partitions=partitions))
    names = ("pay-5f0c", "pay-77aa")
    assert [row[:2] for row in cells_of(members_table(found, width=width), width, figure="lag")[1:]] == [
        [name, rack] for name, rack in zip(names, racks, strict=True)
    ]
    rows = cells_of(partitions_table(found, width=width), width, figure="lag")[1:]
    assert [row[:6] for row in rows] == [
        [f"payments.authorised.v2-{at}", "123456789", "20", "12 s", names[at % 2], racks[at % 2]] for at in range(6)
    ]


def test_what_a_command_measures_in_a_second_is_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a group that has read all and commits nothing meanwhile it would be 0 B/s."""
    found = SimpleNamespace(groups=(group(members={"m1": A}),))
    measuring = SimpleNamespace(measure=lambda: None, snapshot=found)
    monkeypatch.setattr(asking, "measuring_group", lambda *_, **__: nullcontext(measuring))
    where = asking.AgentPlace(settings=Settings(kafka={"bootstrap.servers": "h:9092"}))
    shown, _ = asking.lag(where, "orders", measure=True)
    assert shown is not None
    assert [one.bytes_per_second for one in shown.members] == [None]
