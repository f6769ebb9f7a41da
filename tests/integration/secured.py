"""Helpers of the tests of secured clusters: members on the open listener, and commands that end with one line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from sandbox.cluster import Cluster
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member

TOPIC: Final = "clicks"
_COMMANDS: Final = (
    ("run", "-g", "orders", "-s", "web.port=0"),
    ("plan", "orders"),
    ("verify", "--measure", "-w", "1"),
)


def member(cluster: Cluster, group: str, letter: str) -> Member:
    """A member that reads the topic, in the rack of this letter."""
    return Member.python(
        "confluent",
        MemberSettings(
            bootstrap=cluster.bootstrap,
            group=group,
            topics=(TOPIC,),
            client_id=f"member-{letter}",
            rack=f"rack-{letter}",
            assignors=("range",),
            properties={"auto.commit.interval.ms": "500", "heartbeat.interval.ms": "500"},
        ),
    )


def led(agent: AgentProcess, start: Callable[[], Sequence[Member]]) -> Sequence[Member]:
    """Starts members, and waits until the agent leads them; returns them.

    On a busy machine it may come second to the birth of the group, and follows then: the members start anew once.
    """
    members = start()
    wait_until(lambda: all(one.owned for one in members), "every member has partitions")
    agent.wait(lambda: agent.role() in ("leading", "following"), "it is in the group")
    if agent.role() == "following":
        for one in members:
            one.stop()
        agent.wait_role("waiting")
        members = start()
        wait_until(lambda: all(one.owned for one in members), "every member has partitions")
    agent.wait_role("leading")
    return members


def run(bootstrap: str, settings: Mapping[str, str], *command: str) -> tuple[int, list[str]]:
    """Runs a command; returns its exit code and the lines of standard error."""
    given = [part for key, value in settings.items() for part in ("-s", f"{key}={value}")]
    line = [sys.executable, "-m", "samerack.cli.main", *command, "-b", bootstrap, *given]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stderr.splitlines()


def refusals(bootstrap: str, settings: Mapping[str, str]) -> list[str]:
    """The last line of `run`, `plan` and `verify`; asserts that each has exit code 1 and no other line."""
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda command: run(bootstrap, settings, *command), _COMMANDS))
    for command, (code, lines) in zip(_COMMANDS, answers, strict=True):
        told = [line for line in lines if not line.startswith("{")]  # others are events in the log of `run`
        assert (code, told) == (1, lines[-1:]), (command, lines)
        assert told[0].startswith("samerack: kafka ")
    return [lines[-1] for _, lines in answers]
