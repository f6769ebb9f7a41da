"""The demo of members by load: a hot partition and a canary, before and after samerack leads by measured bytes.

`scripts/demo --load` runs it. What members read is what librdkafka received from each broker.
"""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console
from rich.table import Table

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.contract import RACK_NAMES
from lab.sandbox.crew import Crew, Layout, Post, running
from lab.sandbox.demo import GROUP, agent
from lab.sandbox.story import AsJson, Story, command, conclude, run_story, summary

TOPICS: Final = {"orders": [[1, 2]] * 8 + [[2, 3]] * 8 + [[3, 1]] * 8}
POSTS: Final = tuple(
    Post(client="confluent", rack=rack, label=label)
    for rack, label in zip(RACK_NAMES * 2, ("1", "2", "3", "4", "5", "canary"), strict=True)
)
_HOT: Final = 12
_LIMIT: Final = 2
_MEASURE_SECONDS: Final = 8.0
_SETTLE_SECONDS: Final = 4.0
"""Until then members read what was written during a rebalance, which is no load of theirs."""
_MEASURED_WITHIN: Final = 90.0
"""Loads count when their errors are small: after half a minute, as production is steady."""


def play(story: Story) -> dict[str, float]:
    """Run the whole demo; return its measurements."""
    with running(
        story,
        POSTS,
        TOPICS,
        group=GROUP,
        members="six members start, one of them a canary; orders-0 gets twelve times what other partitions get",
        properties={"partition.assignment.strategy": "cooperative-sticky"},
        records=lambda _topic, partition: 1 if partition else _HOT,
    ) as (_, admin, crew):
        return _lead(story, crew, admin)


def _lead(story: Story, crew: Crew, admin: Admin) -> dict[str, float]:
    where = crew.layout(admin)
    before = _measured(story, crew, where, "the group's own assignment")
    settings = {
        "leading.balance": "bytes",
        "leading.balance_tolerance": 0.05,
        "leading.members": [{"match": "*canary*", "max_partitions": _LIMIT}],
    }
    with agent(crew.bootstrap, settings) as started:
        started.wait_role("following")
        story.report("the agent has joined; all members stop, and start again")
        crew.stop_all()
        started.wait_role("waiting")
        for post in crew.posts:
            crew.start(post)
        crew.wait_complete()
        started.wait_role("leading")
        story.report("the agent leads: the canary has two partitions; bytes are measured, by counts until then")
        wait_until(
            lambda: any({number for _, number in owned} == {0} for owned in crew.owned().values()),
            "the hot partition is alone on its member",
            timeout=_MEASURED_WITHIN,
        )
        crew.wait_complete()
        after = _measured(story, crew, where, "led by samerack, balanced by bytes")
        canary = max(len(owned) for post, owned in crew.owned().items() if post.label == "canary")
    return {
        "greatest_before": before[0],
        "greatest_after": after[0],
        "across_before": before[1],
        "across_after": after[1],
        "canary_partitions": canary,
    }


def _measured(story: Story, crew: Crew, where: Layout, title: str) -> tuple[float, float]:
    """Measure and show what members read; return the most that one reads, of the mean, and the share across racks."""
    time.sleep(_SETTLE_SECONDS)
    rates, owned = crew.rates(where, _MEASURE_SECONDS), crew.owned()
    table = Table(title=title)
    for column in ("member", "in", "partitions", "kB/s", "across racks"):
        table.add_column(column, justify="left" if column in ("member", "in") else "right", no_wrap=True)
    sums = {post: sum(found.values()) for post, found in rates.items()}
    far = {post: sums[post] - found.get(post.rack, 0.0) for post, found in rates.items()}
    for post in rates:
        cells = (str(len(owned[post])), f"{sums[post] / 1000:.1f}", f"{far[post] / 1000:.1f}")
        table.add_row(post.name, post.rack, *cells)
    story.console.print(table)
    whole = sum(sums.values())
    return max(sums.values()) * len(sums) / whole, sum(far.values()) / whole


def main(*, as_json: AsJson = False) -> None:
    """See a hot partition get a member of its own, and a canary two partitions: about two minutes."""
    console = Console(stderr=as_json)
    result = run_story(console, play)
    rows = {
        "most loaded member, times the mean, the group's own assignment": f"{result['greatest_before']:.2f}",
        "most loaded member, times the mean, led by bytes": f"{result['greatest_after']:.2f}",
        "bytes across racks, the group's own assignment": f"{result['across_before']:.1%}",
        "bytes across racks, led by bytes": f"{result['across_after']:.1%}",
        "partitions of the canary": f"{result['canary_partitions']:.0f}",
    }
    summary(console, "what samerack changed", rows)
    is_worse = result["greatest_after"] >= result["greatest_before"] or result["canary_partitions"] > _LIMIT
    conclude(result, as_json=as_json, failed=is_worse)


if __name__ == "__main__":
    command(main)
