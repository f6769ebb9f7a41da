"""The commands of `samerack`: module, summary, and whether each is light. Imports nothing else.

The program loads modules by this table: `samerack health` and `samerack rack` must start fast, and a heavy command must
not use the memory of an agent beside which it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Command(NamedTuple):
    """A command.

    Attributes:
        module: the module in `samerack` that has it as a function of its name, or has `register`, which adds it.
        summary: the first sentence of its help, which `samerack --help` shows without loading it.
        light: whether it loads no clients and solvers: what probes and init containers call, and what only starts the
            agent. Any other command loads much and may run beside an agent in its container, so
            its memory is bounded (`cli.memory_bound`).
        failure_code: its exit code after something outside failed; another than 1 where 1 is an answer.
    """

    module: str
    summary: str
    light: bool = False
    failure_code: int = 1


COMMANDS: Final[Mapping[str, Command]] = {
    "verify": Command(
        "cli.verify",
        "Find what makes traffic cross racks unnecessarily: brokers, members, racks, assignors, replicas, permissions.",
        failure_code=3,
    ),
    "cost": Command("cli.cost", "Show what consumer groups read across racks, from whom, and what it costs a month."),
    "plan": Command(
        "cli.plan",
        "Show the current and the best assignment of a live group: cross-rack partitions and moves, per member.",
    ),
    "move": Command(
        "cli.move",
        "Show how a group moves to the new protocol (KIP-848) or back: what forbids it, what changes, each step.",
    ),
    "run": Command(
        "cli.run",
        "Watch the cluster, lead groups and rebalance them when racks make it worthwhile. Stops on SIGTERM or Ctrl-C.",
        light=True,
    ),
    "lag": Command(
        "cli.lag",
        "Show how many records of each partition a group has not read yet, how old the oldest is, and who reads them.",
    ),
    "lead": Command(
        "cli.requests",
        "Make the running agent the leader of a group now, instead of when the group's leader leaves.",
    ),
    "leave": Command(
        "cli.requests",
        "Make the running agent leave a group at once and stay out, while it keeps measuring.",
    ),
    "pause": Command(
        "cli.requests",
        "Stop the running agent from rebalancing a group for racks or traffic, while it keeps leading it.",
    ),
    "resume": Command(
        "cli.requests",
        "End `samerack leave` or `samerack pause` of a group at once: the agent follows its settings again.",
    ),
    "events": Command(
        "cli.events",
        "Show what happened to groups, when and why: every rebalance with its cause, duration, pause and cost.",
    ),
    "rack": Command(
        "cli.rack",
        "Print the rack of this pod and where it came from, or write it to a file for an application.",
        light=True,
    ),
    "health": Command(
        "cli.health",
        "Check the agent on this machine (at web.host:web.port): exit code 0 if healthy, else 1 and what is wrong.",
        light=True,
    ),
    "assign": Command(
        "offline.assign", "Assign a consumer group or a Kafka Streams application that is described in JSON."
    ),
    "decode": Command("offline.codec", "Show a message of the consumer protocol as JSON, or write one."),
    "settings": Command("cli.settings_reference", "Show every setting with its default and meaning."),
    "streams": Command(
        "cli.streams",
        "Show what the tasks of a live Kafka Streams application read across racks, and what other plans would.",
    ),
    "pipeline": Command(
        "pipeline.cli",
        "The whole fleet on Spark: what crosses racks, what it costs, and where to save next.",
    ),
}
"""The commands by name, in the order of `samerack --help`: first those of somebody who is new here."""
