"""Least permissions with a real authorizer: the page's table, commands and snippet, and the loss of each permission.

The agent connects to a listener with SASL and is allowed what the page lists; members and administration connect to
the open one. The expected result of each row is read from the page.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported in fact
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import errors as kafka_errors
from kafka.admin import ACLOperation, ACLPermissionType, ACLResourcePatternType, KafkaAdminClient
from kafka.admin import ResourceType as Kind
from kafka.protocol.admin.acl import DescribeAclsRequest

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.cluster import Cluster
from lab.sandbox.commands import samerack_json
from lab.sandbox.jvm import command
from lab.sandbox.members.process import Member
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import connect
from samerack.election.registry import GroupAsker
from samerack.settings.all_settings import Settings
from samerack.settings.loading import load
from tests.docs import ROOT
from tests.integration.secured import LIMITED_USERS, Secured, led, member

pytestmark = pytest.mark.own_cluster

PAGE: Final = (ROOT / "docs" / "permissions.md").read_text(encoding="utf-8")
GROUP: Final = "orders"
PRINCIPAL: Final = "User:samerack"
AGENT: Final = "AGENT"
SASL: Final = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "samerack",
    "kafka.sasl.password": LIMITED_USERS["samerack"],
}
SETTINGS: Final = {**SASL, "election.group": "samerack", "traffic.poll_seconds": 1, "traffic.window_seconds": 5}
_ROW: Final = re.compile(r"^\| (group|topic|cluster) \| `([^`]+)` \| (\w+) \|.*\|([^|]*)\| `(\w+)` \|$", re.MULTILINE)
_IMPLIED: Final = {"DESCRIBE": ("READ",)}
"""Without DESCRIBE, the operations that imply it must be forbidden too."""
_TYPES: Final = {"group": ResourceType.GROUP, "topic": ResourceType.TOPIC, "cluster": ResourceType.BROKER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the page's table."""

    resource: str
    name: str
    operation: str
    refused: frozenset[str]
    role: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.resource} {self.name}"


ROWS: Final = [
    Row(resource=kind, name=name, operation=operation, refused=frozenset(re.findall(r"`([^`]+)`", refused)), role=role)
    for kind, name, operation, refused, role in _ROW.findall(PAGE)
]
ALLOWED: Final = {(row.resource, row.name, row.operation) for row in ROWS}


@pytest.fixture
def cluster(secured: Secured) -> Cluster:
    """A cluster with an authorizer, a topic that is always written to, and no permission for the agent."""
    return secured.cluster


@pytest.fixture
def acls(cluster: Cluster) -> Iterator[AdminClient]:
    """An admin client; the agent has no permission before and after the test."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    _forbid(client, ALLOWED)
    yield client
    _forbid(client, ALLOWED)


def _binding(kind: str, name: str, operation: str) -> Any:
    return AclBinding(
        _TYPES[kind],
        name,
        ResourcePatternType.LITERAL,
        PRINCIPAL,
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


def _filter(kind: str, name: str, operation: str) -> Any:
    return AclBindingFilter(
        _TYPES[kind],
        name,
        ResourcePatternType.LITERAL,
        PRINCIPAL,
        None,  # type: ignore[arg-type]  # any host
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


def _allow(client: AdminClient, permissions: Iterable[tuple[str, str, str]]) -> None:
    wanted = set(permissions)
    for done in client.create_acls([_binding(*one) for one in wanted]).values():
        done.result()
    wait_until(lambda: all(wanted <= allowed for allowed in _allowed(client)), "the permissions are there")


def _forbid(client: AdminClient, permissions: Iterable[tuple[str, str, str]]) -> None:
    gone = set(permissions)
    for done in client.delete_acls([_filter(*one) for one in gone]).values():
        done.result()
    wait_until(lambda: not any(gone & allowed for allowed in _allowed(client)), "the permissions are gone")


def _allowed(client: AdminClient) -> list[set[tuple[str, str, str]]]:
    """What the agent is allowed now, by each broker: brokers learn of a change one after the other."""
    brokers = client.list_topics(timeout=10).brokers
    asked = DescribeAclsRequest(
        resource_type_filter=Kind.ANY,
        resource_name_filter=None,
        pattern_type_filter=ACLResourcePatternType.ANY,
        principal_filter=PRINCIPAL,
        host_filter=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
    )
    # librdkafka chooses the broker; kafka-python has few annotations
    asker: Any = KafkaAdminClient(bootstrap_servers=[f"{one.host}:{one.port}" for one in brokers.values()])
    try:
        answers = [asker._manager.run(asker._manager.send, asked, broker) for broker in brokers]
    finally:
        asker.close()
    return [
        {
            (Kind(resource.resource_type).name.lower(), resource.resource_name, ACLOperation(acl.operation).name)
            for resource in answer.resources
            for acl in resource.acls
        }
        for answer in answers
    ]


class Observed:
    """An agent with some permissions, and three members of the group, which it leads where it `leads`."""

    def __init__(self, cluster: Cluster, folder: Path, *, leads: bool) -> None:
        self._stack = ExitStack()
        self._folder = folder
        self.bootstrap = cluster.secured(AGENT)
        try:
            self.agent = self._stack.enter_context(
                AgentProcess(self.bootstrap, groups=[GROUP], log=folder / "agent.log", settings=SETTINGS)
            )
            self.agent.wait(
                lambda: self.agent.role() == "waiting" or "allow " in self.agent.get("/readyz")[1],
                "it waits for the members, or says what it may not",
            )

            def start() -> list[Member]:
                return [self._stack.enter_context(member(cluster, GROUP, zone)) for zone in "abc"]

            if leads:
                self.members = led(self.agent, start)
            else:
                self.members = start()
                wait_until(lambda: all(member.owned for member in self.members), "every member has partitions")
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        """End the agent and the members."""
        self._stack.close()

    def refused(self) -> set[str]:
        """Families that the metrics show as refused."""
        return {one.labels["family"] for one in self.agent.samples("samerack_missing_permissions") if one.value}

    def found(self) -> set[str]:
        """What `samerack verify` reports as not allowed for the running agent."""
        verdict = _asked("verify", "-s", f"web.port={self.agent.port}")
        return {one["where"].split()[0] for one in verdict["findings"] if one["code"] == "not-allowed"}

    def logged(self) -> str:
        """The agent's log."""
        return (self._folder / "agent.log").read_text(encoding="utf-8")

    def wait_read(self) -> None:
        """Wait until every partition is read again."""
        known = {member: len(member.events) for member in self.members}

        def read() -> bool:
            fresh = [event for member, count in known.items() for event in member.events[count:]]
            return len({one for event in fresh if event.kind == "records" for one in event.partitions}) == 3

        wait_until(read, "every partition is read")


def _asked(command: str, *options: str) -> dict[str, Any]:
    """The JSON output of a command."""
    return samerack_json(command, "--json", *options, codes=(0, 1))


def _as_agent(cluster: Cluster) -> list[str]:
    """Options with which a command connects as the agent's principal."""
    return ["-b", cluster.secured(AGENT), *(part for key, value in SASL.items() for part in ("-s", f"{key}={value}"))]


def _run_block(number: int, cluster: Cluster, folder: Path) -> None:
    """Run the commands of one of the page's blocks."""
    block = PAGE.split("```sh\n")[1 + number].partition("```")[0].replace("\\\n", " ")
    for line in block.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "kafka-acls.sh"
        arguments[arguments.index("localhost:9092")] = cluster.bootstrap
        run = command("org.apache.kafka.tools.AclCommand", arguments, folder=folder)
        done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """End what a test started."""
    with ExitStack() as stack:
        yield stack


def _see(cluster: Cluster, folder: Path, opened: ExitStack, *, leads: bool = False) -> Observed:
    seen = Observed(cluster, folder, leads=leads)
    opened.callback(seen.close)
    return seen


@pytest.mark.promise("The permissions of the page are what the agent needs, and enough.")
def test_the_commands_of_the_page_allow_what_its_table_lists(
    cluster: Cluster, acls: AdminClient, tmp_path: Path, opened: ExitStack
) -> None:
    """The commands allow exactly the table; then the agent leads, measures and probes, and nothing is refused."""
    _run_block(0, cluster, tmp_path)
    wait_until(
        lambda: all(allowed == ALLOWED for allowed in _allowed(acls)), "the cluster has the permissions of the table"
    )
    seen = _see(cluster, tmp_path, opened, leads=True)
    agent = seen.agent
    agent.wait(lambda: agent.metric("samerack_cross_rack_ratio", group=GROUP) is not None, "bytes are measured")
    report = agent.json("/v1/traffic")
    (group,) = report["groups"]
    assert agent.role() == "leading"
    assert group["wire_bytes"] > 0
    assert not [note for note in group["blind_spots"] if "guessed" in note]
    assert (seen.refused(), seen.found()) == (set(), set())
    agent.wait(lambda: agent.get("/readyz")[0] == 200, "it is ready")
    seen.wait_read()


@pytest.mark.promise(
    "An agent that loses its permission leaves the group to its members, says what to allow, and comes back."
)
def test_who_may_lead_no_more_makes_room(
    cluster: Cluster,
    acls: AdminClient,
    tmp_path: Path,
    opened: ExitStack,
) -> None:
    """Without READ on the group, a member leads; the agent reports what to allow, retries, and rejoins once allowed."""
    _allow(acls, ALLOWED)
    seen = _see(cluster, tmp_path, opened, leads=True)
    agent = seen.agent
    _forbid(acls, {("group", GROUP, "READ")})
    agent.wait_role("outside")
    assert "READ" in agent.group_status()["trouble"]
    assert agent.get("/readyz")[0] == 503
    seen.wait_read()
    wait_until(lambda: sum(len(member.owned) for member in seen.members) == 3, "the group leads itself")
    seen.wait_read()
    retries = [event["retry_seconds"] for event in agent.events("failed", kind="refused")]
    assert retries[0] == 2
    _allow(acls, {("group", GROUP, "READ")})
    agent.wait_inside(timeout=120)
    agent.wait(lambda: agent.get("/readyz")[0] == 200, "it is ready")
    seen.wait_read()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_without_one_permission(
    row: Row, cluster: Cluster, acls: AdminClient, tmp_path: Path, opened: ExitStack
) -> None:
    """Metrics, verify and the log show the loss that the page lists; the agent runs and consumers keep reading."""
    gone = {(row.resource, row.name, operation) for operation in (row.operation, *_IMPLIED.get(row.operation, ()))}
    _allow(acls, ALLOWED)
    _forbid(acls, gone & ALLOWED)
    seen = _see(cluster, tmp_path, opened)
    agent = seen.agent
    measured = {family for family in row.refused if family != "leading"}
    agent.wait(lambda: seen.refused() == measured, f"the metrics show {sorted(measured)}", timeout=90)
    agent.wait(lambda: agent.role() == row.role, f"the agent is {row.role}")
    agent.wait(lambda: seen.found() == row.refused, f"verify shows {sorted(row.refused)}", timeout=90)
    seen.wait_read()
    assert seen.agent.running
    assert bool(agent.events("acts-alone")) is (row.name == "samerack")
    if "selector" in row.refused:
        (warning,) = _asked("plan", GROUP, *_as_agent(cluster))["warnings"]
        assert "allow DESCRIBE_CONFIGS on the cluster" in warning
    status = 200 if row.role in {"leading", "following"} else 503
    agent.wait(lambda: agent.get("/readyz")[0] == status, f"its readiness is {status}")
    assert all(f'"what": "{family}"' in seen.logged() for family in measured)
    if "leading" in row.refused:
        assert "allow " in agent.get("/readyz")[1]
    _allow(acls, gone & ALLOWED)
    if row.refused and row.operation != "DESCRIBE_CONFIGS":
        agent.wait(lambda: not seen.refused(), "what is allowed later is found", timeout=120)


def _settings(cluster: Cluster, user: str) -> Settings:
    """The settings of a client with this user."""
    kafka = {
        "bootstrap.servers": cluster.secured(AGENT),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": LIMITED_USERS[user],
    }
    return load(flags={"kafka": kafka}, environment={})


def _acl(kind: AclPermissionType, name: str, pattern: ResourcePatternType, user: str) -> Any:
    return AclBinding(ResourceType.GROUP, name, pattern, user, "*", AclOperation.READ, kind)


def _remove(client: AdminClient, user: str) -> None:
    everything = AclBindingFilter(
        ResourceType.GROUP,
        None,  # type: ignore[arg-type]  # any name
        ResourcePatternType.ANY,
        user,
        None,  # type: ignore[arg-type]  # any host
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for done in client.delete_acls([everything]).values():
        done.result()


def test_the_command_that_keeps_others_out(cluster: Cluster, acls: AdminClient, tmp_path: Path) -> None:
    """A principal that may read all groups sees the agents' groups; after the page's command it does not."""
    groups = ["samerack", "samerack-waiting-07", GROUP]
    client = connect(for_kafka_python(_settings(cluster, "orders").kafka))
    asker = GroupAsker(client)

    def refused() -> list[str]:
        answers = asker.describe(groups)
        return [one for one in groups if isinstance(answers[one], kafka_errors.GroupAuthorizationFailedError)]

    try:
        given = _acl(AclPermissionType.ALLOW, "*", ResourcePatternType.LITERAL, "User:orders")
        for done in acls.create_acls([given]).values():
            done.result()
        wait_until(lambda: refused() == [], "it may read all")
        _run_block(1, cluster, tmp_path)
        wait_until(lambda: refused() == groups[:2], "it may not read the agents' groups")
    finally:
        _remove(acls, "User:orders")
        client.close()
