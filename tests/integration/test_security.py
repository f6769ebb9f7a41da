"""Real agents on real brokers with TLS and SASL: which settings work, the one-line errors, and the retries.

One cluster has a listener for each authentication; members and administration use the open one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported in fact
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sandbox.admin import Admin, wait_until
from sandbox.agent_process import AgentProcess
from sandbox.certificates import Authority
from sandbox.cluster import Cluster
from sandbox.feeder import Feeder
from sandbox.security import Listener, Security, allowed, certified, oauthbearer, plain, scram
from sandbox.tokens import TokenServer
from tests.integration.secured import TOPIC, led, member, refusals, run

pytestmark = pytest.mark.own_cluster

USER: Final = "samerack"
PASSWORD: Final = "of-the-agent"  # noqa: S105 - of this test
AUDIENCE: Final = "kafka"
WAYS: Final = ("TLS", "MTLS", "PLAIN", "SCRAM", "OAUTH")
_FAILED: Final = "Failed authentication"
"""What a broker logs for a connection that it refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """A cluster, its token server, and the settings with which an agent is accepted, by listener."""

    cluster: Cluster
    tokens: TokenServer
    settings: Mapping[str, Mapping[str, str]]
    folder: Path
    authority: Authority

    def attempts(self) -> int:
        """Connections that the brokers refused until now."""
        return sum(self.cluster.log(broker, 1_000_000).count(_FAILED) for broker in self.cluster.brokers)


def _listener(name: str, protocol: str, *properties: Mapping[str, str]) -> Listener:
    merged = {key: value for one in properties for key, value in one.items()}
    return Listener(name=name, protocol=protocol, properties=merged)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One cluster with a listener for each valid and each invalid authentication."""
    folder = tmp_path_factory.mktemp("secured")
    authority, stranger = Authority.new(folder), Authority.new(folder, "stranger")
    broker, client = authority.issue("broker").both, authority.issue("client")
    with ExitStack() as stack:
        tokens = stack.enter_context(TokenServer(folder, client=USER, secret=PASSWORD, audience=AUDIENCE))
        listeners = (
            _listener("TLS", "SSL", certified(broker)),
            _listener("MTLS", "SSL", certified(broker, clients=authority.certificate)),
            _listener("PLAIN", "SASL_SSL", certified(broker), plain({USER: PASSWORD})),
            _listener("SCRAM", "SASL_SSL", certified(broker), scram("SCRAM-SHA-512")),
            _listener("OAUTH", "SASL_SSL", certified(broker), oauthbearer(tokens.keys_url, audience=AUDIENCE)),
            _listener("EXPIRED", "SSL", certified(authority.issue("expired", expired=True).both)),
            _listener("OTHERNAME", "SSL", certified(authority.issue("other", names=("DNS:kafka.example",)).both)),
            _listener("STRANGER", "SSL", certified(stranger.issue("broker").both)),
        )
        security = Security(listeners=listeners, options=(allowed(tokens.keys_url),))
        cluster = stack.enter_context(Cluster(security=security))
        admin = stack.enter_context(Admin(cluster.bootstrap))
        set_password(cluster, PASSWORD)
        admin.create_topic(TOPIC, [[1, 2], [2, 3], [3, 1]])
        stack.enter_context(Feeder(cluster.bootstrap, {TOPIC: 3}, pause=0.2))
        tls = {"kafka.security.protocol": "SSL", "kafka.ssl.ca.location": str(authority.certificate)}
        shown = {
            "kafka.ssl.certificate.location": str(client.certificate),
            "kafka.ssl.key.location": str(client.key),
        }
        sasl = {**tls, "kafka.security.protocol": "SASL_SSL"}
        login = {**sasl, "kafka.sasl.username": USER, "kafka.sasl.password": PASSWORD}
        token = {
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.method": "oidc",
            "kafka.sasl.oauthbearer.client.id": USER,
            "kafka.sasl.oauthbearer.client.secret": PASSWORD,
            "kafka.sasl.oauthbearer.token.endpoint.url": tokens.url,
        }
        settings = {
            "TLS": tls,
            "MTLS": {**tls, **shown},
            "PLAIN": {**login, "kafka.sasl.mechanism": "PLAIN"},
            "SCRAM": {**login, "kafka.sasl.mechanism": "SCRAM-SHA-512"},
            "OAUTH": {**sasl, **token},
        }
        yield Secured(cluster=cluster, tokens=tokens, settings=settings, folder=folder, authority=authority)


def set_password(cluster: Cluster, password: str) -> None:
    """Set the agent's password for SCRAM."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(USER, info, password.encode())
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in client.alter_user_scram_credentials([change]).values():
        done.result()


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(
            way,
            marks=pytest.mark.promise("The agent leads and measures over TLS with certificates on both sides.")
            if way == "MTLS"
            else (),
        )
        for way in WAYS
    ],
)
def test_the_agent_leads_and_measures(secured: Secured, way: str, tmp_path: Path) -> None:
    """Both clients of the agent are accepted: it leads real members and counts their bytes; its log has no secret."""
    group, bootstrap = f"group-{way.lower()}", secured.cluster.secured(way)
    settings = {**secured.settings[way], "traffic.poll_seconds": 1, "traffic.window_seconds": 5}
    with ExitStack() as stack:
        agent = stack.enter_context(
            AgentProcess(bootstrap, groups=[group], log=tmp_path / "agent.log", settings=settings)
        )
        agent.wait_role("waiting")
        led(agent, lambda: [stack.enter_context(member(secured.cluster, group, letter)) for letter in "ab"])
        agent.wait(lambda: agent.metric("samerack_cross_rack_ratio", group=group) is not None, "bytes are measured")
        assert agent.events("plan-sent")[-1]["members"] >= 1
        assert agent.get("/readyz")[0] == 200
        log = (tmp_path / "agent.log").read_text(encoding="utf-8")
    assert PASSWORD not in log
    assert "eyJ" not in log  # the prefix of every JWT


WRONG: Final = {
    "password": ("PLAIN", {"kafka.sasl.password": "wrong"}, "check kafka.sasl.username and kafka.sasl.password"),
    "scram password": ("SCRAM", {"kafka.sasl.password": "wrong"}, "check kafka.sasl.username and kafka.sasl.password"),
    "mechanism": (
        "SCRAM",
        {"kafka.sasl.mechanism": "PLAIN"},
        "do not offer SASL PLAIN there; set kafka.sasl.mechanism",
    ),
    "expired certificate": ("EXPIRED", {}, "the broker's certificate has expired; renew it on the broker"),
    "host name": ("OTHERNAME", {}, "the broker's certificate is for another host name; name brokers in"),
    "authority": ("STRANGER", {}, "signed by an authority that is not trusted here; set kafka.ssl.ca.location"),
    "no own certificate": ("MTLS", {}, "refuse the agent's certificate"),
    "own certificate expired": ("MTLS", {"own": "expired"}, "refuse the agent's certificate"),
    "client secret": (
        "OAUTH",
        {"kafka.sasl.oauthbearer.client.secret": "wrong"},
        "answers 401 Unauthorized; check kafka",
    ),
}
"""The listener, the changed settings, and a part of the error message."""


def _wrong(secured: Secured, case: str) -> tuple[str, dict[str, str], str]:
    listener, changed, message = WRONG[case]
    right = secured.settings[listener if listener in ("PLAIN", "SCRAM", "OAUTH") else "TLS"]
    settings = {**right, **{key: value for key, value in changed.items() if key != "own"}}
    if "own" in changed:
        own = secured.authority.issue(f"client-{time.monotonic_ns()}", expired=True)
        settings["kafka.ssl.certificate.location"] = str(own.certificate)
        settings["kafka.ssl.key.location"] = str(own.key)
    return listener, settings, message


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            marks=pytest.mark.promise("Wrong credentials end commands with one line that names cause and cure.")
            if case == "password"
            else (),
        )
        for case in WRONG
    ],
)
def test_what_is_wrong_is_one_line(secured: Secured, case: str) -> None:
    """`run`, `plan` and `verify` end with exit code 1 and one line that names cause and cure."""
    listener, settings, message = _wrong(secured, case)
    for line in refusals(secured.cluster.secured(listener), settings):
        assert message in line
        assert "=wrong" not in line


def test_a_refusal_that_comes_late_is_one_line(secured: Secured, tmp_path: Path) -> None:
    """While brokers are down, the agent waits and is not ready; once they run and refuse it, it ends with one line."""
    listener, settings, message = _wrong(secured, "password")
    cluster, (broker, *_) = secured.cluster, secured.cluster.brokers
    (bootstrap, *_) = cluster.secured(listener).split(",")
    cluster.stop_broker(broker)
    try:
        agent = AgentProcess(bootstrap, groups=["orders"], log=tmp_path / "agent.log", settings=settings)
        with agent:
            agent.wait(lambda: agent.get("/readyz")[0] == 503, "it waits for the brokers")
            cluster.start_broker(broker)
            wait_until(lambda: not agent.running, "it has ended", timeout=90)
    finally:
        if not cluster.brokers[broker].running:
            cluster.start_broker(broker)
    (*_, last) = agent.log.read_text(encoding="utf-8").splitlines()
    assert agent.process.returncode == 1
    assert last.startswith("samerack: kafka ")
    assert message in last


def test_a_token_that_the_brokers_refuse(secured: Secured) -> None:
    """The error for another audience's token names the brokers' refusal; an expired token, theirs or the client's."""
    refused = ("the brokers refuse SASL OAUTHBEARER: ", "check that issuer, audience, scope and signing keys")
    unused = ("Must supply an unexpired token", "check the settings of TLS and SASL")
    try:
        for change, reasons in (
            ({"audience": "others"}, (refused,)),
            ({"seconds": -3600}, (refused, unused)),
        ):
            for name, value in change.items():
                setattr(secured.tokens, name, value)
            code, lines = run(secured.cluster.secured("OAUTH"), secured.settings["OAUTH"], "plan", "orders")
            assert (code, len(lines)) == (1, 1), lines
            assert any(cause in lines[0] and cure in lines[0] for cause, cure in reasons)
            secured.tokens.audience, secured.tokens.seconds = AUDIENCE, 3600
    finally:
        secured.tokens.audience, secured.tokens.seconds = AUDIENCE, 3600


def test_a_wrong_password_is_tried_a_few_times_only(secured: Secured) -> None:
    """An agent that is refused at its start tries at most eight times per broker, and ends."""
    before = secured.attempts()
    listener, settings, _ = _wrong(secured, "password")
    run(secured.cluster.secured(listener), settings, "run", "-g", "orders", "-s", "web.port=0")
    assert 1 <= secured.attempts() - before <= 8 * len(secured.cluster.brokers)


def test_a_password_that_changes_makes_no_storm(secured: Secured, tmp_path: Path) -> None:
    """A refused running agent keeps running, is not ready, logs it once, backs off, and recovers."""
    cluster, group = secured.cluster, "group-rotated"
    settings = {**secured.settings["SCRAM"], "traffic.poll_seconds": 1}
    agent = AgentProcess(cluster.secured("SCRAM"), groups=[group], log=tmp_path / "agent.log", settings=settings)
    with agent:
        agent.wait_role("waiting")
        set_password(cluster, "another")
        try:
            for broker in cluster.brokers:  # open connections stay open: only new ones use the password
                cluster.restart_broker(broker)
            agent.wait(lambda: "refuse SASL SCRAM-SHA-512" in agent.get("/readyz")[1], "it is not ready, and says why")
            time.sleep(20)  # the first pauses are short, and restarted brokers are discovered again
            before, begun = secured.attempts(), time.monotonic()
            time.sleep(15)
            attempts = secured.attempts() - before
            print(f"{attempts} attempts in {time.monotonic() - begun:.0f} s")  # noqa: T201 - pytest -rP shows the measurement
            assert attempts <= 10  # measured: 0 to 2; 44 while clients of librdkafka were not closed at once
            assert (agent.running, agent.get("/readyz")[0], agent.get("/healthz")[0]) == (True, 503, 200)
            told = [event["error"] for event in agent.events("poll-failed") if "refuse SASL" in event["error"]]
            assert len(told) <= 4  # two components poll, each logs once for each of the two clients
        finally:
            set_password(cluster, PASSWORD)
        agent.wait(lambda: agent.get("/readyz")[0] == 200, "it is ready again", timeout=90)
