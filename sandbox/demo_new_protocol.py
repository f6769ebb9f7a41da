"""The demo of the new protocol (KIP-848): brokers assign a group without racks, get samerack's assignor, and use them.

`scripts/demo --new-protocol` runs it. All figures are the kernel's counts of what members received from each broker.
The agent takes no part. Brokers are restarted one by one, as an operator does it, while members go on reading.
"""

from __future__ import annotations

import json
import time
from typing import Annotated, Final

import typer
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from sandbox import broker_assignor
from sandbox.admin import Admin, wait_until
from sandbox.cluster import Cluster
from sandbox.crew import Crew, Post, layout
from sandbox.demo import Story, told
from sandbox.feeder import Feeder
from sandbox.sockets import Received, measure

GROUP: Final = "orders-service"
TOPICS: Final = {
    "clicks": [[1]] * 4 + [[2]] * 4 + [[3]] * 4,
    "orders": [[1, 2], [2, 3], [3, 1]] * 2,
}
"""Topic to brokers per partition, the leader first. Each rack can serve a third of it, so that no read has to cross."""
MOVES: Final = {("clicks", 0): [2], ("clicks", 4): [3], ("clicks", 8): [1]}
PARTITIONS: Final = sum(map(len, TOPICS.values()))
POSTS: Final = tuple(
    Post(client=client, rack=rack, tells_rack=True)
    for client in ("confluent", "java")
    for rack in ("rack-a", "rack-b", "rack-c")
)
_MEASURE_SECONDS: Final = 4.0
_REBALANCE_SECONDS: Final = 45.0
"""Members hear of an assignment with a heartbeat, every five seconds, and give partitions up before others get them."""


def play(story: Story) -> dict[str, float]:
    """Runs the whole demo; returns its measurements.

    Raises:
        SandboxError: Something did not happen in time.
    """
    broker_assignor.jar()  # raises before anything is started
    story.tell("starting three brokers, one in each rack, as they come: group.consumer.assignors=uniform,range")
    with Cluster(progress=story.tell) as cluster, Admin(cluster.bootstrap) as admin:
        for topic, assignment in TOPICS.items():
            admin.create_topic(topic, assignment)
        story.tell(f"topics: {', '.join(f'{topic} ({len(placed)} partitions)' for topic, placed in TOPICS.items())}")
        crew = Crew(
            POSTS,
            bootstrap=cluster.bootstrap,
            group=GROUP,
            topics=tuple(TOPICS),
            properties={"group.protocol": "consumer"},
        )
        with Feeder(cluster.bootstrap, {topic: len(placed) for topic, placed in TOPICS.items()}), crew:
            story.tell(
                "six members start with group.protocol=consumer and client.rack: three on librdkafka, three on Java"
            )
            crew.wait_complete(PARTITIONS)
            return _install_and_move(story, cluster, admin, crew)


def _install_and_move(story: Story, cluster: Cluster, admin: Admin, crew: Crew) -> dict[str, float]:
    where = layout(admin, tuple(TOPICS))
    optimum = crew.optimum(where, each_topic_even=False)
    used, before = _assignor(cluster), _measured(cluster, crew)
    _show(story, crew, before, f"the brokers assign with {used}")
    story.tell(f"with {used}, [bold]{before.cross_rack_share:.1%}[/bold] of the bytes cross racks")
    for broker in sorted(cluster.brokers):
        broker_assignor.install(cluster, broker)
        cluster.restart_broker(broker)
        story.tell(f"broker {broker} is back, with the jar and one more line in its configuration")
    story.tell("a member is restarted, as by a deploy: brokers compute an assignment when something changes")
    crew.restart(crew.posts[0])
    wait_until(
        lambda: crew.complete(PARTITIONS) and crew.cross_rack_share(where) <= optimum,
        "the group reads in its racks",
        timeout=_REBALANCE_SECONDS,
    )
    used, after = _assignor(cluster), _measured(cluster, crew)
    _show(story, crew, after, f"the brokers assign with {used}")
    story.tell(f"with {used}, [bold]{after.cross_rack_share:.1%}[/bold] cross; {optimum:.1%} of partitions have to")
    return {
        "before": before.cross_rack_share,
        "after": after.cross_rack_share,
        "optimum": optimum,
        **_follow_a_move(story, cluster, admin, crew),
    }


def _follow_a_move(story: Story, cluster: Cluster, admin: Admin, crew: Crew) -> dict[str, float]:
    move_seconds = admin.move_replicas(MOVES)
    moved_at = time.monotonic()
    where = layout(admin, tuple(TOPICS))
    optimum, present = crew.optimum(where, each_topic_even=False), crew.cross_rack_share(where)
    story.tell(f"{len(MOVES)} partitions moved to other racks in {move_seconds:.1f} s: {present:.1%} across racks now")
    wait_until(
        lambda: crew.complete(PARTITIONS) and crew.cross_rack_share(where) <= optimum,
        "the group has followed the move",
        timeout=_REBALANCE_SECONDS,
    )
    seconds = time.monotonic() - moved_at
    story.tell(f"the group followed after [bold]{seconds:.1f} s[/bold]")
    return {"followed_seconds": seconds, "followed": _measured(cluster, crew).cross_rack_share}


def _assignor(cluster: Cluster) -> str:
    """Returns the assignor that the coordinator names."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    return str(client.describe_consumer_groups([GROUP], request_timeout=10.0)[GROUP].result().partition_assignor)


def _measured(cluster: Cluster, crew: Crew) -> Received:
    time.sleep(1.0)  # what is under way of the old assignment
    return measure(cluster.brokers.values(), crew.racks(), seconds=_MEASURE_SECONDS)


def _show(story: Story, crew: Crew, received: Received, title: str) -> None:
    racks = sorted({post.rack for post in crew.posts})
    table = Table(title=f"received, kB/s by the kernel's counters: {title}")
    for column in ("member", "in"):
        table.add_column(column)
    for rack in racks:
        table.add_column(f"from {rack}", justify="right")
    for post in crew.posts:
        rates = received.by_rack[crew.process_of(post)]
        cells = [f"[{'green' if rack == post.rack else 'red'}]{rates[rack] / 1000:.1f}[/]" for rack in racks]
        table.add_row(post.client, post.rack, *cells)
    story.console.print(table)


def _summary(console: Console, result: dict[str, float]) -> None:
    table = Table(title="what samerack's assignor in the brokers changed")
    table.add_column("")
    table.add_column("measured", justify="right")
    table.add_row("bytes across racks, with uniform", f"{result['before']:.1%}")
    table.add_row("bytes across racks, with samerack", f"{result['after']:.1%}")
    table.add_row("replicas moved: the group had followed after", f"{result['followed_seconds']:.1f} s")
    table.add_row("bytes across racks after that", f"{result['followed']:.1%}")
    console.print(table)
    console.print("what is left across racks are answers to heartbeats and requests for metadata", highlight=False)


def main(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON line on standard output.")] = False,
) -> None:
    """See brokers assign a KIP-848 group without racks, then with samerack's; then replicas move: two minutes."""
    console = Console(stderr=as_json)
    result = told(console, play)
    _summary(console, result)
    if as_json:
        typer.echo(json.dumps({key: round(value, 4) for key, value in result.items()}))
    if result["after"] >= result["before"]:
        raise typer.Exit(1)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
