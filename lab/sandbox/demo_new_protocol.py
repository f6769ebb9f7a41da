"""The demo of the new protocol (KIP-848): brokers assign a group without racks, get samerack's assignor, and use them.

`scripts/demo --new-protocol` runs it. All figures are the kernel's counts of what members received from each broker.
The agent takes no part. Brokers are restarted one by one, as an operator does it, while members go on reading.
"""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka.admin import AdminClient
from rich.console import Console

from lab.sandbox import broker_assignor
from lab.sandbox.admin import Admin
from lab.sandbox.cluster import Cluster
from lab.sandbox.contract import RACK_NAMES
from lab.sandbox.crew import Crew, Post, running, show_rates
from lab.sandbox.sockets import measure
from lab.sandbox.story import AsJson, Story, command, conclude, run_story, summary

GROUP: Final = "orders-service"
TOPICS: Final = {"clicks": [[1]] * 4 + [[2]] * 4 + [[3]] * 4, "orders": [[1, 2], [2, 3], [3, 1]] * 2}
"""Topic to brokers per partition, the leader first. Each rack can serve a third of it, so that no read has to cross."""
MOVES: Final = {("clicks", 0): [2], ("clicks", 4): [3], ("clicks", 8): [1]}
POSTS: Final = tuple(Post(client=client, rack=rack) for client in ("confluent", "java") for rack in RACK_NAMES)
_MEASURE_SECONDS: Final = 4.0
_REBALANCE_SECONDS: Final = 45.0
"""Members hear of an assignment with a heartbeat, every five seconds, and give partitions up before others get them."""


def play(story: Story) -> dict[str, float]:
    """Run the whole demo; return its measurements."""
    broker_assignor.jar()  # raises before anything is started
    with running(
        story,
        POSTS,
        TOPICS,
        group=GROUP,
        brokers=", as they come: group.consumer.assignors=uniform,range",
        members="six members start with group.protocol=consumer and client.rack: three on librdkafka, three on Java",
        properties={"group.protocol": "consumer"},
    ) as (cluster, admin, crew):
        return _install_and_move(story, cluster, admin, crew)


def _install_and_move(story: Story, cluster: Cluster, admin: Admin, crew: Crew) -> dict[str, float]:
    where = crew.layout(admin)
    optimum = crew.optimum(where, each_topic_even=False)
    used = _assignor(cluster)
    before = _measured(story, cluster, crew, used)
    story.report(f"with {used}, [bold]{before:.1%}[/bold] of the bytes cross racks")
    for broker in sorted(cluster.brokers):
        broker_assignor.install(cluster, broker)
        cluster.restart_broker(broker)
        story.report(f"broker {broker} is back, with the jar and one more line in its configuration")
    story.report("a member is restarted, as by a deploy: brokers compute an assignment when something changes")
    crew.restart(crew.posts[0])
    crew.wait_near(where, optimum, "the group reads in its racks", timeout=_REBALANCE_SECONDS)
    used = _assignor(cluster)
    after = _measured(story, cluster, crew, used)
    story.report(f"with {used}, [bold]{after:.1%}[/bold] cross; {optimum:.1%} of partitions have to")
    followed = crew.follow_a_move(story, admin, MOVES, each_topic_even=False, timeout=_REBALANCE_SECONDS)
    measured = {"before": before, "after": after, "optimum": optimum, "followed_seconds": followed["followed_seconds"]}
    return {**measured, "followed": _measured(story, cluster, crew, used)}


def _assignor(cluster: Cluster) -> str:
    """Return the assignor that the coordinator names."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    return str(client.describe_consumer_groups([GROUP], request_timeout=10.0)[GROUP].result().partition_assignor)


def _measured(story: Story, cluster: Cluster, crew: Crew, used: str) -> float:
    """Measure and show what members receive; return the share of the bytes that cross racks."""
    time.sleep(1.0)  # what is under way of the old assignment
    processes = crew.processes()
    own = {process: post.rack for post, process in processes.items()}
    received = measure(cluster.brokers.values(), own, seconds=_MEASURE_SECONDS)
    rates = {post: received.by_rack[process] for post, process in processes.items()}
    show_rates(story, rates, f"received, kB/s by the kernel's counters: the brokers assign with {used}")
    return received.cross_rack_share


def main(*, as_json: AsJson = False) -> None:
    """See brokers assign a KIP-848 group without racks, then with samerack's; then replicas move: two minutes."""
    console = Console(stderr=as_json)
    result = run_story(console, play)
    rows = {
        "bytes across racks, with uniform": f"{result['before']:.1%}",
        "bytes across racks, with samerack": f"{result['after']:.1%}",
        "replicas moved: the group had followed after": f"{result['followed_seconds']:.1f} s",
        "bytes across racks after that": f"{result['followed']:.1%}",
    }
    summary(console, "what samerack's assignor in the brokers changed", rows)
    console.print("what is left across racks are answers to heartbeats and requests for metadata", highlight=False)
    conclude(result, as_json=as_json, failed=result["after"] >= result["before"])


if __name__ == "__main__":
    command(main)
