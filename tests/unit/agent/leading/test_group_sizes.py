"""How many consumers groups had last: over restarts of consumers and of the agent."""

from __future__ import annotations

from pathlib import Path

from samerack.agent.leading.group_memory import KEEP_SECONDS, GroupSizes


def test_a_smaller_group_counts_after_a_while() -> None:
    """Meanwhile the largest size counts; what the group grows to in between counts then."""
    sizes = GroupSizes(None)
    assert sizes.of("orders") is None
    for now, size in ((0.0, 5), (1.0, 2), (2.0, 3), (3.0, 2), (KEEP_SECONDS, 2)):
        sizes.note("orders", size, now)
        assert sizes.of("orders") == 5
    sizes.note("orders", 2, 1.0 + KEEP_SECONDS)
    assert sizes.of("orders") == 3
    sizes.note("orders", 4, 2.0 + KEEP_SECONDS)
    assert sizes.of("orders") == 4


def test_a_dip_is_forgotten_when_all_are_back() -> None:
    """Two restarts, long apart, do not add up."""
    sizes = GroupSizes(None)
    for now, size in ((0.0, 5), (1.0, 4), (2.0, 5), (KEEP_SECONDS + 10, 4), (KEEP_SECONDS + 20, 4)):
        sizes.note("orders", size, now)
    assert sizes.of("orders") == 5


def test_the_next_agent_remembers(tmp_path: Path) -> None:
    """Sizes are kept in a file; one that has something else in it is no reason to fail."""
    path = tmp_path / "events.sizes.json"
    GroupSizes(path).note("orders", 3, 0.0)
    assert GroupSizes(path).of("orders") == 3
    for content in ('{"orders": "many"}', "[]", "?"):
        path.write_text(content)
        assert GroupSizes(path).of("orders") is None
