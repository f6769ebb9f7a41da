"""The checker finds each kind of planted fault, and reports nothing that Kafka does not promise."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sandbox.errors import SandboxError
from sandbox.history.checker import check
from sandbox.history.model import Bounds, Finding, History, Kind, Stop
from sandbox.history.reading import read_history
from sandbox.history.spans import clipped, longest_stop, stops
from tests.unit.sandbox.histories import T0, T1, committed, history, kept, ran, told, wrote

_BOUNDS = Bounds(unowned=5.0, stop=3.0)


def _kinds(found: list[Finding]) -> list[Kind]:
    return [finding.kind for finding in found]


def _handed_over(*, revoked: float = 10.0, assigned: float = 11.0, first: int = 10, floor: int = 10) -> History:
    """One member reads 0 to 9 of T0 and commits; another continues at `first` from `assigned` on."""
    one = [
        told("assigned", 1, T0, generation=1),
        *(ran(number + 1, T0, number, number) for number in range(9)),
        ran(9.5, T0, 9, 9),
        committed(9.8, {T0: floor}),
        told("revoked", revoked, T0, generation=1),
        told("closed", max(revoked, 20.0)),
    ]
    two = [
        told("assigned", assigned, T0, generation=2),
        ran(assigned + 0.5, T0, first, 19),
        told("revoked", 14, T0, generation=2),
        told("closed", 14.1),
    ]
    return history([wrote(0.5, T0, 0, 9), wrote(10, T0, 10, 19)], one=one, two=two)


def test_a_hand_over_in_good_order_has_no_findings() -> None:
    """There is no finding if one owner follows the other at the commit, within the bounds."""
    assert check(_handed_over(), Bounds(unowned=7.0, stop=3.0)) == []


def test_a_partition_of_two_members_in_one_generation_is_found() -> None:
    """The finding names both members and the time in which both owned the partition."""
    one = [told("assigned", 1, T0, T1, generation=3), told("revoked", 5, T0, generation=4), told("revoked", 9, T1)]
    two = [told("assigned", 4, T0, generation=4), told("revoked", 9, T0)]
    (found,) = check(history(one=one, two=two), _BOUNDS)
    assert (found.kind, found.partition, found.members, found.seconds) == (Kind.OWNED_TWICE, T0, ("one", "two"), 1.0)
    assert "owned twice: t-0, by one and two, 1.000 s" in str(found)


def test_a_zombie_is_no_fault() -> None:
    """A member that slept beyond its session may believe that it owns partitions assigned in a later generation."""
    one = [told("assigned", 1, T0, generation=3), told("lost", 9, T0)]
    two = [told("assigned", 4, T0, generation=4), told("revoked", 9, T0)]
    assert check(history(one=one, two=two), _BOUNDS) == []


def test_members_that_tell_no_generation_are_held_to_the_time() -> None:
    """Without generations every overlap in time is owned twice."""
    one = [told("assigned", 1, T0), told("lost", 9, T0)]
    two = [told("assigned", 4, T0, generation=4), told("revoked", 9, T0)]
    assert _kinds(check(history(one=one, two=two), _BOUNDS)) == [Kind.OWNED_TWICE]


def test_a_generation_that_is_told_later_counts() -> None:
    """A cooperative member that joins the next generation still owns there what was not revoked."""
    one = [told("assigned", 1, T0, generation=3), told("joined", 4, generation=4), told("revoked", 9, T0)]
    two = [told("assigned", 5, T0, generation=4), told("revoked", 9, T0)]
    assert _kinds(check(history(one=one, two=two), _BOUNDS)) == [Kind.OWNED_TWICE]


def test_a_partition_of_nobody_is_found() -> None:
    """It is found between two owners and after the last one; a killed member owned it until its last line."""
    one = [told("assigned", 1, T0, generation=1), told("joined", 2, generation=1)]
    two = [told("assigned", 8, T0, generation=2), told("revoked", 10, T0, generation=2), told("closed", 16)]
    found = check(history(one=one, two=two), _BOUNDS)
    assert [(finding.kind, finding.seconds) for finding in found] == [(Kind.UNOWNED, 6.0), (Kind.UNOWNED, 6.0)]


def test_a_record_that_nobody_read_is_found() -> None:
    """It is found among the records read and at the end of those written; all records if none was read."""
    one = [told("assigned", 1, T0, T1), ran(2, T0, 0, 4), ran(2.5, T0, 6, 8), told("closed", 3)]
    written = [wrote(1, T0, 0, 9), wrote(1, T1, 0, 1)]
    found = [finding for finding in check(history(written, one=one), _BOUNDS) if finding.kind is Kind.SKIPPED]
    assert [(finding.partition, finding.offsets) for finding in found] == [(T0, (5, 5)), (T0, (9, 9)), (T1, (0, 1))]
    without = check(history(one=one), _BOUNDS)
    assert [finding.offsets for finding in without] == [(5, 5)]


def test_reading_below_the_commit_in_force_is_found() -> None:
    """A member that becomes the owner after a commit must begin there."""
    (found,) = check(_handed_over(first=7), Bounds(unowned=7.0, stop=3.0))
    assert (found.kind, found.members, found.offsets) == (Kind.READ_AGAIN, ("two",), (7, 9))


def test_reading_again_what_was_not_committed_is_no_fault() -> None:
    """Kafka promises only at least once."""
    assert check(_handed_over(first=7, floor=7), Bounds(unowned=7.0, stop=3.0)) == []


def test_reading_backwards_is_found() -> None:
    """A member that stays the owner reads nothing twice."""
    one = [told("assigned", 1, T0), ran(2, T0, 0, 9), ran(3, T0, 5, 12), told("closed", 4)]
    (found,) = check(history(one=one), _BOUNDS)
    assert (found.kind, found.offsets) == (Kind.READ_AGAIN, (5, 9))


def test_a_stop_is_found() -> None:
    """A stop lasts from the last read to the next one or to the end, while there are records."""
    one = [told("assigned", 0, T0), ran(1, T0, 0, 0), ran(6, T0, 1, 1), told("closed", 10.5)]
    found = check(history([wrote(0, T0, 0, 9)], one=one), _BOUNDS)
    found = [finding for finding in found if finding.kind is Kind.STOP]
    assert [finding.seconds for finding in found] == [5.0, 4.5]


def test_a_stop_ends_with_a_read_of_what_was_read_before() -> None:
    """A new owner begins at the commit; its first read ends the stop, even if the record was read before."""
    one = [told("assigned", 0, T0), ran(1, T0, 0, 9)]
    two = [told("assigned", 7, T0), ran(7, T0, 5, 9), ran(7.2, T0, 10, 30), told("closed", 7.3)]
    found = stops(history([wrote(0.5, T0, 0, 30)], one=one, two=two), least=0.5)
    assert [stop.seconds for stop in found] == [6.0]


def test_nobody_stops_where_there_is_nothing_to_read() -> None:
    """There is no stop while no unread record exists."""
    one = [told("assigned", 0, T0), ran(1, T0, 0, 0), ran(6, T0, 1, 1), told("closed", 20)]
    assert check(history([wrote(0, T0, 0, 0), wrote(5.5, T0, 1, 1)], one=one), _BOUNDS) == []


def test_a_run_that_took_long_is_no_stop() -> None:
    """Consecutive reads are one run, from its first to its last record."""
    one = [told("assigned", 0, T0), ran(1, T0, 0, 400, until=9), ran(9.1, T0, 401, 401), told("closed", 9.2)]
    assert stops(history(one=one), least=0.5) == []


def test_the_longest_stop_of_a_time_is_one_that_overlaps_it() -> None:
    """Other stops do not count, however long they are."""
    one = [told("assigned", 0, T0), ran(1, T0, 0, 0), ran(2, T0, 1, 1), ran(7, T0, 2, 2), told("closed", 7)]
    found = stops(history(one=one), least=0.5)
    second = 1_000_000_000
    assert longest_stop(found, since_ns=0, until_ns=int(1.5 * second)) == 1.0
    assert longest_stop(found, since_ns=3 * second, until_ns=4 * second) == 5.0


_LINES = (
    '{"event":"assigned","ms":1,"ns":1000000000,"partitions":[["t",0]],"generation":1}\n'
    '{"event":"records","ms":1,"ns":1500000000,"topic":"t","partition":0,"first":0,"last":3,"count":4}\n'
)


def test_files_are_read_and_checked(tmp_path: Path) -> None:
    """Members and feeder have one file each; an incomplete last line of a killed member is ignored."""
    member, written = tmp_path / "one.jsonl", tmp_path / "written.jsonl"
    member.write_text(_LINES + '{"event":"reco', encoding="utf-8")
    written.write_text(
        '{"event":"written","ms":1,"ns":900000000,"topic":"t","partition":0,"first":0,"last":5,"count":6}\n',
        encoding="utf-8",
    )
    found = read_history([member, written])
    assert list(found.members) == ["one"]
    assert [finding.offsets for finding in check(found, _BOUNDS)] == [(4, 5)]


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    """The error names the file and says what it should contain."""
    foreign = tmp_path / "x.txt"
    with pytest.raises(SandboxError, match="cannot read"):
        read_history([foreign])
    foreign.write_text("text\n", encoding="utf-8")
    with pytest.raises(SandboxError, match="should hold a member's JSON lines only"):
        read_history([foreign])


def test_the_command_says_what_was_wrong(tmp_path: Path) -> None:
    """Exit code 0 without findings, 1 with findings, 2 if there is nothing to check."""
    import typer  # noqa: PLC0415 - for this test only

    from sandbox.history.__main__ import main  # noqa: PLC0415 - see above

    app = typer.Typer()
    app.command()(main)
    member = tmp_path / "one.jsonl"
    member.write_text(_LINES, encoding="utf-8")
    assert CliRunner().invoke(app, [str(member)]).exit_code == 0
    member.write_text(_LINES + _LINES.replace('"first":0,"last":3', '"first":2,"last":3'), encoding="utf-8")
    result = CliRunner().invoke(app, [str(member)])
    assert (result.exit_code, "read again: t-0, offsets 2 to 3, by one" in result.stdout) == (1, True)
    assert CliRunner().invoke(app, [str(tmp_path / "none")]).exit_code == 2


def test_an_offset_that_the_coordinator_has_no_more_is_found() -> None:
    """It is missing or lower than what a member knows as committed; later commits are not expected."""
    one = [told("assigned", 1, T0, T1, generation=1), committed(2, {T0: 5, T1: 7}), committed(4, {T0: 9, T1: 9})]
    has = [kept(3, {T0: 5, T1: 7}), kept(5, {T0: 8})]
    found = check(history(coordinator=has, one=one), Bounds(unowned=60.0, stop=60.0))
    assert [(one.kind, one.partition, one.offsets) for one in found] == [
        (Kind.FORGOTTEN, T0, (8, 9)),
        (Kind.FORGOTTEN, T1, (-1, 9)),
    ]
    assert "offset forgotten: t-1, offsets -1 to 9" in str(found[1])


def test_a_stop_counts_from_when_there_was_somebody_to_read() -> None:
    """Time before it is cut off, and a stop that had ended by then is dropped."""
    second = 1_000_000_000
    found = [Stop(partition=T0, since_ns=0, until_ns=2 * second), Stop(partition=T1, since_ns=0, until_ns=9 * second)]
    assert clipped(found, 4 * second) == [Stop(partition=T1, since_ns=4 * second, until_ns=9 * second)]


def test_a_stop_is_shorter_by_the_waits_that_it_shares_time_with() -> None:
    """Overlapping waits of several members count once; waits outside of the stop do not count."""
    second = 1_000_000_000
    found = [Stop(partition=T1, since_ns=2 * second, until_ns=20 * second)]
    waits = [(3 * second, 12 * second), (4 * second, 15 * second), (19 * second, 30 * second), (0, second)]
    assert longest_stop(found, since_ns=18 * second, until_ns=19 * second, waits=waits) == 5.0
    assert longest_stop(found, since_ns=0, until_ns=second, waits=waits) == 0.0
