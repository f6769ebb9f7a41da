"""A real agent at debug level leaks no secret of its settings: accepted, refused, and without brokers.

The tests check all its output: its log, its errors, the output of commands, the arguments of each of its processes,
its file of events, and every page of its port. Settings come from a file.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus
from uuid import uuid4

import psutil
import pytest
import yaml

from sandbox.admin import Admin, wait_until
from sandbox.agent_process import AgentProcess
from sandbox.certificates import Authority, locked
from sandbox.cloud_listeners import Msk, compiled
from sandbox.cluster import Cluster
from sandbox.feeder import Feeder
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member
from sandbox.security import Listener, Security, allowed, certified, oauthbearer, plain, scram
from sandbox.tokens import TokenServer
from tests.integration.secured import TOPIC
from tests.integration.test_security import AUDIENCE, USER, set_password

pytestmark = pytest.mark.own_cluster

WAYS: Final = ("PLAIN", "SCRAM", "OAUTH", "MTLS", "IAM")
"""To add a way: a listener and its settings in `secured`, and its name here."""
PAGES: Final = (
    *("/", "/group?name={group}", "/page.css", "/metrics", "/healthz", "/readyz"),
    *("/v1/traffic", "/v1/findings", "/v1/events", "/v1/racks?group={group}", "/v1/policy", "/v1/status"),
    "/v1/takeover?group={group}",
)
_TOKENS: Final = (b"eyJ", base64.urlsafe_b64encode(b"https://kafka.").rstrip(b"=")[:-1])
"""The prefixes of every JWT and of every token for MSK."""
_REGION: Final = "eu-central-1"
_KEY: Final = "ASIAEXAMPLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How an agent authenticates.

    Attributes:
        listener: the brokers' listener.
        settings: the `kafka` settings for it.
        secret: the setting, or the environment variable, that is secret.
        variables: the agent's environment variables.
        also_secret: other values that are secret.
    """

    listener: str
    settings: Mapping[str, str]
    secret: str
    variables: Mapping[str, str] = field(default_factory=dict)
    also_secret: tuple[str, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """All secret values."""
        return ({**self.settings, **self.variables}[self.secret], *self.also_secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """A cluster and the ways to authenticate to it."""

    cluster: Cluster
    ways: Mapping[str, Way]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One cluster for all ways, each with its own secret."""
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority.new(folder)
    broker, client = authority.issue("broker").both, authority.issue("client")
    secrets = {way: f"{way.title()}-kept%41+<&>{uuid4().hex[:8]}" for way in WAYS}
    secrets["OAUTH"] = f"Oauth-kept-{uuid4().hex[:8]}"
    secrets["IAM"] = f"Iam/kept+{uuid4().hex[:8]}"
    msk = Msk(region=_REGION, key=_KEY, secret=secrets["IAM"], session=f"Session-kept/+{uuid4().hex}==")
    with ExitStack() as stack:
        tokens = stack.enter_context(TokenServer(folder, client=USER, secret=secrets["OAUTH"], audience=AUDIENCE))
        properties: dict[str, tuple[str, Mapping[str, str]]] = {
            "PLAIN": ("SASL_SSL", plain({USER: secrets["PLAIN"]})),
            "SCRAM": ("SASL_SSL", scram("SCRAM-SHA-512")),
            "OAUTH": ("SASL_SSL", oauthbearer(tokens.keys_url, audience=AUDIENCE)),
            "MTLS": ("SSL", certified(broker, clients=authority.certificate)),
            "IAM": ("SASL_SSL", msk.listener()),
        }
        listeners = tuple(
            Listener(name=name, protocol=protocol, properties={**certified(broker), **own})
            for name, (protocol, own) in properties.items()
        )
        security = Security(
            listeners=listeners, options=(*msk.options(), allowed(tokens.keys_url)), jars=(compiled(folder),)
        )
        cluster = stack.enter_context(Cluster(security=security))
        admin = stack.enter_context(Admin(cluster.bootstrap))
        set_password(cluster, secrets["SCRAM"])
        admin.create_topic(TOPIC, [[1, 2], [2, 3], [3, 1]])
        stack.enter_context(Feeder(cluster.bootstrap, {TOPIC: 3}, pause=0.2))
        tls = {"ssl.ca.location": str(authority.certificate)}
        login = {**tls, "security.protocol": "SASL_SSL", "sasl.username": USER}
        settings: dict[str, tuple[str, Mapping[str, str]]] = {
            "PLAIN": ("sasl.password", {**login, "sasl.mechanism": "PLAIN"}),
            "SCRAM": ("sasl.password", {**login, "sasl.mechanism": "SCRAM-SHA-512"}),
            "OAUTH": (
                "sasl.oauthbearer.client.secret",
                {
                    **tls,
                    "security.protocol": "SASL_SSL",
                    "sasl.mechanism": "OAUTHBEARER",
                    "sasl.oauthbearer.method": "oidc",
                    "sasl.oauthbearer.client.id": USER,
                    "sasl.oauthbearer.token.endpoint.url": tokens.url,
                },
            ),
            "MTLS": (
                "ssl.key.password",
                {
                    **tls,
                    "security.protocol": "SSL",
                    "ssl.certificate.location": str(client.certificate),
                    "ssl.key.location": str(locked(client, secrets["MTLS"])),
                },
            ),
        }
        ways = {
            name: Way(listener=name, settings={**own, secret: secrets[name]}, secret=secret)
            for name, (secret, own) in settings.items()
        }
        ways["IAM"] = Way(
            listener="IAM",
            settings={
                **tls,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "AWS_MSK_IAM",
                "sasl.oauthbearer.config": f"region={_REGION}",
            },
            secret="AWS_SECRET_ACCESS_KEY",  # noqa: S106 - a variable's name
            variables={
                "AWS_ACCESS_KEY_ID": _KEY,
                "AWS_SECRET_ACCESS_KEY": secrets["IAM"],
                "AWS_SESSION_TOKEN": msk.session,
            },
            also_secret=(msk.session,),
        )
        yield Secured(cluster=cluster, ways=ways)


def forms(secret: str) -> set[bytes]:
    """The forms of a secret in output: plain, escaped, encoded, and together with the user's name."""
    texts = {
        secret,
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        quote(secret),
        quote_plus(secret),
        quote(secret, safe=""),
        secret.encode().hex(),
        *(base64.b64encode(text.encode()).decode() for text in (secret, f"{USER}:{secret}", f"\0{USER}\0{secret}")),
        *(base64.b64encode(f"{USER}:{quote(secret, safe='')}".encode()).decode(),),
    }
    return {text.encode() for text in texts}


class Written:
    """All output, by place."""

    def __init__(self) -> None:
        self.places: dict[str, bytes] = {}

    def add(self, place: str, content: bytes | str) -> None:
        """Add output of a place."""
        self.places[place] = self.places.get(place, b"") + (content.encode() if isinstance(content, str) else content)

    def look_at(self, agent: AgentProcess) -> None:
        """Add the pages and the arguments of a running agent."""
        for page in PAGES:
            path = page.format(group=quote(agent.groups[0], safe=""))
            self.add(path, agent.get(path)[1])
        agent_and_workers = [
            psutil.Process(agent.process.pid),
            *psutil.Process(agent.process.pid).children(recursive=True),
        ]
        for number, process in enumerate(agent_and_workers):
            self.add(f"arguments of process {number}", Path(f"/proc/{process.pid}/cmdline").read_bytes())

    def look_at_files(self, agent: AgentProcess) -> None:
        """Add the log and the events of an agent."""
        for file in agent.log.parent.glob(f"{agent.log.stem}*"):
            self.add(file.name, file.read_bytes())

    def hits(self, *secrets: str) -> list[str]:
        """The places that contain a secret or a token."""
        sought = {form for secret in secrets for form in forms(secret)}.union(_TOKENS)
        return sorted(place for place, content in self.places.items() if any(form in content for form in sought))


def _config(folder: Path, way: Way, bootstrap: str, form: str, **changed: str) -> Path:
    path = folder / f"{uuid4().hex}.yaml"
    settings = {
        "kafka": {**way.settings, "bootstrap.servers": bootstrap, **changed},
        "log": {"level": "debug", "format": form},
        "traffic": {"poll_seconds": 1, "window_seconds": 5},
    }
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    path.chmod(0o600)
    return path


class Talkative(AgentProcess):
    """An agent that logs at debug level in either format; its port is fixed, because console logs are not parsed."""

    def __init__(self, bootstrap: str, *, config: Path, group: str, log: Path, form: str) -> None:
        port = _free_port()
        self._address = f"http://127.0.0.1:{port}"
        settings = {"log.format": form, "log.level": "debug", "web.port": port}
        super().__init__(bootstrap, groups=[group], log=log, settings=settings, config=config)

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of one page."""
        self._url = self._address
        return super().get(path)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _command(written: Written, config: Path, *command: str) -> int:
    line = [sys.executable, "-m", "samerack.cli.main", *command, "--config", str(config)]
    done = subprocess.run(line, capture_output=True, check=False, timeout=120)
    written.add(f"samerack {command[0]}", done.stdout + done.stderr)
    return done.returncode


# both forms of the log have one filter, so each way of authentication is seen in one of them
@pytest.mark.parametrize(
    ("way", "form"),
    [
        pytest.param(
            way,
            form,
            marks=pytest.mark.promise("No log, page, command, process or file of the agent has a secret.")
            if way == "SCRAM"
            else (),
        )
        for way, form in zip(WAYS, cycle(["json", "console"]), strict=False)
    ],
)
def test_no_secret_can_be_read_anywhere(
    secured: Secured, way: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent at `log.level: debug` leaks no secret: in a group, refused, with wrong settings, and without brokers."""
    own, written = secured.ways[way], Written()
    group, bootstrap = f"group-{way.lower()}-{form}", secured.cluster.secured(own.listener)
    wrong = f"Wrong-kept-{uuid4().hex[:8]}"
    for variable, value in own.variables.items():
        monkeypatch.setenv(variable, value)
    config = _config(tmp_path, own, bootstrap, form)
    with ExitStack() as stack:
        log = tmp_path / "let-in.log"
        agent = stack.enter_context(Talkative(bootstrap, config=config, group=group, log=log, form=form))
        member = MemberSettings(
            bootstrap=secured.cluster.bootstrap,
            group=group,
            topics=(TOPIC,),
            client_id="member",
            rack="rack-a",
            assignors=("range",),
            properties={"auto.commit.interval.ms": "500", "heartbeat.interval.ms": "500"},
        )
        agent.wait_role("waiting")
        running = stack.enter_context(Member.python("confluent", member))
        wait_until(lambda: bool(running.owned), "the member has partitions")
        agent.wait(lambda: agent.role() in ("leading", "following"), "it is in the group")
        agent.wait(lambda: agent.metric("samerack_cross_rack_ratio", group=group) is not None, "bytes are measured")
        written.look_at(agent)
        assert _command(written, config, "plan", group) == 0
        assert _command(written, config, "verify", "--measure", "-w", "1") in (0, 1)
    written.look_at_files(agent)
    assert b"HeartbeatRequest" in written.places["let-in.log"]

    if own.secret in own.variables:
        monkeypatch.setenv(own.secret, wrong)
        refused = config
    else:
        refused = _config(tmp_path, own, bootstrap, form, **{own.secret: wrong})
    assert _command(written, refused, "run", "-g", group, "-s", "web.port=0") in (1, 2)
    assert _command(written, refused, "plan", group) in (1, 2)
    misspelt = _config(tmp_path, own, bootstrap, form, **{"sasl.mechanism": "NONSENSE", "ssl.ca.location": "/nowhere"})
    assert _command(written, misspelt, "plan", group) in (1, 2)

    nobody = f"127.0.0.1:{_free_port()}"
    config = _config(tmp_path, own, nobody, form)
    with Talkative(nobody, config=config, group=group, log=tmp_path / "away.log", form=form) as away:
        away.wait(lambda: b"kafka-unreachable" in away.log.read_bytes(), "it says that nobody answers")
        written.look_at(away)
    written.look_at_files(away)
    assert b"kafka-unreachable" in written.places["away.log"]

    assert len(written.places) > len(PAGES) + 5
    assert written.hits(*own.secrets, wrong) == []
