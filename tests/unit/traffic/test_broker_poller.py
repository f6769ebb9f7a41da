"""What one cycle keeps for the next, if requests fail in between."""

from __future__ import annotations

import pytest

from samerack.cluster.wire import Wire
from samerack.settings.all_settings import Settings
from samerack.traffic.broker_poller import BrokerPoller, Poll
from samerack.traffic.groups import ObservedGroup
from samerack.traffic.positions import CommitSpans
from tests.unit.traffic.test_exact import group, member

P0 = ("t", 0)
NOTHING = CommitSpans()


def poll(*, committed: dict[str, dict[tuple[str, int], int]]) -> Poll:
    """A poll of group g, with the commits that could be read."""
    seen: ObservedGroup = group(member("m", "c", 0))
    return Poll(
        listed={}, groups={"g": seen}, owners={"g": seen.owners()}, committed=committed, bare={}, spans={"g": NOTHING}
    )


@pytest.fixture
def poller() -> BrokerPoller:
    """A poller that is never asked to poll."""
    return BrokerPoller(Settings(kafka={"bootstrap.servers": "127.0.0.1:1"}), Wire({}))


def test_a_failed_question_for_commits_forgets_nothing(poller: BrokerPoller) -> None:
    """The next commits are compared with the last known ones, not with the log's start."""
    poller.done(poll(committed={"g": {P0: 100}}), now=1.0)
    poller.done(poll(committed={}), now=2.0)
    assert poller.state.committed == {"g": {P0: 100}}


def test_a_group_that_never_answered_has_no_commits_to_go_on_from(poller: BrokerPoller) -> None:
    """The first answer of a group is its start."""
    poller.done(poll(committed={}), now=1.0)
    assert poller.state.committed == {}


def test_groups_that_are_gone_are_forgotten(poller: BrokerPoller) -> None:
    """Group names change, and memory does not grow with them."""
    poller.done(poll(committed={"g": {P0: 100}, "gone": {P0: 1}}), now=1.0)
    assert poller.state.committed.keys() == {"g"}


def test_what_is_unknown_is_served_by_nobody(poller: BrokerPoller) -> None:
    """Before the first metadata there is neither a serving broker nor a rack."""
    assert poller.serving(P0, None) is None
    assert poller.rack_of(None) == ""
    assert poller.rack_of(1) == ""
