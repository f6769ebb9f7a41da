"""Checks whether members that fetch with their rack are served from it (KIP-392): no assignment helps where not."""

from __future__ import annotations

from collections.abc import Iterator

from samerack.common import words
from samerack.reporting.evidence import Evidence, dollars_per_month, in_group
from samerack.reporting.findings import Code, Finding
from samerack.reporting.serving import ServedElsewhere


def followers_do_not_serve(evidence: Evidence) -> Iterator[Finding]:
    """Finds groups whose members fetch with their rack, have replicas in it, and are served from other racks."""
    for group, _ in evidence.pairs:
        found = evidence.elsewhere.get(group.group)
        if found is not None:
            who, cure = _who_and_cure(found)
            yield Finding(
                code=Code.FOLLOWERS_DO_NOT_SERVE,
                where=in_group(group),
                cause=f"{found.share:.0%} of its bytes in {words.span(evidence.snapshot.window_seconds)} came from "
                "other racks, although its members are known to fetch with theirs and every partition has an in-sync "
                f"replica there: {who}. No assignment changes that",
                cure=cure,
                costs=True,
                dollars_per_month=dollars_per_month(evidence, found.wire_bytes),
            )


def _who_and_cure(found: ServedElsewhere) -> tuple[str, str]:
    """Returns who says so, and what to do: to brokers that answer so, else to the clients that count it."""
    if found.partitions:
        return (
            f"the brokers answer fetches with these racks so, of {found.partitions} partitions now",
            "set replica.selector.class on every broker and restart it, also where racks.replica_selector says that it "
            "is set; then see whether followers lag",
        )
    return (
        "its clients count so" + ("" if found.partitions is None else ", while the brokers let replicas there serve"),
        "set client.rack in these clients; those that cannot fetch with it do not belong in racks.fetch_with_rack",
    )
