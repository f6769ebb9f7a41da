"""The one secured cluster of the live tests, with a listener for each authentication, and helpers for its tests.

An authorizer is on: the users of the listener AGENT have only the permissions that a test gives them, all others may do
everything. Members and administration use the open listener.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported in fact
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.cluster import Cluster
from lab.sandbox.commands import samerack
from lab.sandbox.feeder import Feeder
from lab.sandbox.members.lines import MemberSettings
from lab.sandbox.members.process import Member
from lab.sandbox.security import Listener, Security
from tests.clouds.certificates import Authority
from tests.clouds.listeners import GoogleKafka, Msk, allowed, certified, compiled, oauthbearer, plain, scram
from tests.clouds.servers import TokenServer

TOPIC: Final = "clicks"
USER: Final = "agent"
"""The agent's user on all listeners but AGENT."""
LIMITED_USERS: Final = {"samerack": "of-the-agent", "orders": "of-orders"}
"""The users of the listener AGENT and their passwords; they have only the permissions that a test gives them."""
SECRETS: Final = {
    "PLAIN": "Plain-kept%41+<&>5f2c",
    "SCRAM": "Scram-kept%41+<&>90d1",
    "OAUTH": "Oauth-kept-7be3",
    "MTLS": "Mtls-kept%41+<&>c8a4",
}
"""What the agent has to keep secret, by listener, with characters that texts escape."""
AUDIENCE: Final = "kafka"
MSK: Final = Msk(
    region="eu-central-1",
    key="ASIAEXAMPLE",
    secret="Iam/kept+of=aws",  # noqa: S106 - of this test
    session="Session-kept/+of+aws==",
)
GOOGLE: Final = GoogleKafka(account="samerack@project.iam.gserviceaccount.com", access="ya29.of-google")
AZURE_CLIENT: Final = "66666666-7777-8888-9999-000000000000"
AZURE_SCOPE: Final = "https://orders.servicebus.windows.net/.default"
_CLIENT: Final = "client"
"""The common name of the agent's certificate."""
_SUPER_USERS: Final = (USER, f"CN={_CLIENT}", MSK.key, AZURE_CLIENT, GOOGLE.account)
_COMMANDS: Final = (
    ("run", "-g", "orders", "-s", "web.port=0"),
    ("plan", "orders"),
    ("verify", "--measure", "-w", "1"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """The cluster, and what its listeners accept.

    Attributes:
        cluster: the cluster.
        tokens: the token endpoint of the listener OAUTH.
        entra: that of the listener ENTRA.
        authority: signs the certificates of brokers and agents.
        settings: those with which an agent is accepted, by listener; for clouds without the identity.
    """

    cluster: Cluster
    tokens: TokenServer
    entra: TokenServer
    authority: Authority
    settings: Mapping[str, Mapping[str, str]]


@contextmanager
def secured_cluster(folder: Path) -> Iterator[Secured]:
    """The cluster, with a topic that is always written to."""
    authority = Authority.new(folder)
    (folder / "entra").mkdir()
    with ExitStack() as stack:
        tokens = stack.enter_context(TokenServer(folder, client=USER, secret=SECRETS["OAUTH"], audience=AUDIENCE))
        unused = TokenServer(folder / "entra", client=AZURE_CLIENT, secret="unused", audience=AZURE_SCOPE)  # noqa: S106 - see its name
        entra = stack.enter_context(unused)
        security = Security(
            listeners=_listeners(folder, authority, tokens, entra),
            authorizer=True,
            super_users=tuple(f"User:{name}" for name in _SUPER_USERS),
            options=(*MSK.options(), *GOOGLE.options(), allowed(tokens.keys_url, entra.keys_url)),
            jars=(compiled(folder),),
        )
        cluster = stack.enter_context(Cluster(security=security))
        admin = stack.enter_context(Admin(cluster.bootstrap))
        set_password(cluster, SECRETS["SCRAM"])
        admin.create_topic(TOPIC, [[1, 2], [2, 3], [3, 1]])
        stack.enter_context(Feeder(cluster.bootstrap, {TOPIC: 3}, pause=0.2))
        settings = _settings(authority, tokens)
        yield Secured(cluster=cluster, tokens=tokens, entra=entra, settings=settings, authority=authority)


def _listeners(folder: Path, authority: Authority, tokens: TokenServer, entra: TokenServer) -> tuple[Listener, ...]:
    broker = authority.issue("broker").both
    tls: Mapping[str, Mapping[str, str]] = {
        "MTLS": certified(broker, clients=authority.certificate),
        "EXPIRED": certified(authority.issue("expired", expired=True).both),
        "OTHERNAME": certified(authority.issue("other", names=("DNS:kafka.example",)).both),
        "STRANGER": certified(Authority.new(folder, "stranger").issue("broker").both),
    }
    sasl = {
        "PLAIN": plain({USER: SECRETS["PLAIN"]}),
        "SCRAM": scram("SCRAM-SHA-512"),
        "OAUTH": oauthbearer(tokens.keys_url, audience=AUDIENCE),
        "IAM": MSK.listener(),
        "SHORT": MSK.listener(reauthenticate_ms=6000),
        "ENTRA": oauthbearer(entra.keys_url, audience=AZURE_SCOPE),
        "GOOGLE": GOOGLE.listener(),
    }
    return (
        Listener(name="AGENT", protocol="SASL_PLAINTEXT", properties=plain(LIMITED_USERS)),
        *(Listener(name=name, protocol="SSL", properties=properties) for name, properties in tls.items()),
        *(
            Listener(name=name, protocol="SASL_SSL", properties={**certified(broker), **properties})
            for name, properties in sasl.items()
        ),
    )


def _settings(authority: Authority, tokens: TokenServer) -> dict[str, Mapping[str, str]]:
    client = authority.issue(_CLIENT)
    trusting = {"kafka.ssl.ca.location": str(authority.certificate)}
    tls = {**trusting, "kafka.security.protocol": "SSL"}
    sasl = {**trusting, "kafka.security.protocol": "SASL_SSL"}
    passwords = {
        name: {
            **sasl,
            "kafka.sasl.mechanism": mechanism,
            "kafka.sasl.username": USER,
            "kafka.sasl.password": SECRETS[name],
        }
        for name, mechanism in (("PLAIN", "PLAIN"), ("SCRAM", "SCRAM-SHA-512"))
    }
    return {
        "TLS": tls,
        "MTLS": {
            **tls,
            "kafka.ssl.certificate.location": str(client.certificate),
            "kafka.ssl.key.location": str(client.key),
        },
        **passwords,
        "OAUTH": {
            **sasl,
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.method": "oidc",
            "kafka.sasl.oauthbearer.client.id": USER,
            "kafka.sasl.oauthbearer.client.secret": SECRETS["OAUTH"],
            "kafka.sasl.oauthbearer.token.endpoint.url": tokens.url,
        },
        "IAM": {
            **sasl,
            "kafka.sasl.mechanism": "AWS_MSK_IAM",
            "kafka.sasl.oauthbearer.config": f"region={MSK.region}",
        },
        "ENTRA": sasl,
        "GOOGLE": sasl,
    }


def set_password(cluster: Cluster, password: str) -> None:
    """Set the agent's password for SCRAM."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(USER, info, password.encode())
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in client.alter_user_scram_credentials([change]).values():
        done.result()


def member(cluster: Cluster, group: str, zone: str) -> Member:
    """A member that reads the topic, in the rack of this zone."""
    return Member.on(
        "confluent",
        MemberSettings(
            bootstrap=cluster.bootstrap,
            group=group,
            topics=(TOPIC,),
            client_id=f"member-{zone}",
            rack=f"rack-{zone}",
            assignors=("range",),
            properties={"auto.commit.interval.ms": "500", "heartbeat.interval.ms": "500"},
        ),
    )


def led(agent: AgentProcess, start: Callable[[], Sequence[Member]]) -> Sequence[Member]:
    """Start members, and wait until the agent leads them; return them.

    On a busy machine it may come second to the initial rebalance, and follows then: the members start anew once.
    """
    members = start()
    wait_until(lambda: all(one.owned for one in members), "every member has partitions")
    agent.wait_inside()
    if agent.role() == "following":
        for one in members:
            one.stop()
        agent.wait_role("waiting")
        members = start()
        wait_until(lambda: all(one.owned for one in members), "every member has partitions")
    agent.wait_role("leading")
    return members


def run(bootstrap: str, settings: Mapping[str, str], *command: str) -> tuple[int, list[str]]:
    """Run a command; return its exit code and the lines of standard error."""
    given = [part for key, value in settings.items() for part in ("-s", f"{key}={value}")]
    done = samerack(*command, "-b", bootstrap, *given)
    return done.returncode, done.stderr.splitlines()


def refusals(bootstrap: str, settings: Mapping[str, str]) -> list[str]:
    """The last line of `run`, `plan` and `verify`; asserts that each has its exit code and no other line."""
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda command: run(bootstrap, settings, *command), _COMMANDS))
    for command, (code, lines) in zip(_COMMANDS, answers, strict=True):
        errors = [line for line in lines if not line.startswith("{")]  # others are events in the log of `run`
        assert (code, errors) == (3 if command[0] == "verify" else 1, lines[-1:]), (command, lines)
        assert errors[0].startswith("samerack: kafka ")
    return [lines[-1] for _, lines in answers]
