"""A real agent at debug level leaks no secret of its settings: accepted, refused, and without brokers.

The tests check all its output: its log, its errors, the output of commands, the arguments of each of its processes,
its file of events, and every page of its port. Settings come from a file.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus
from uuid import uuid4

import psutil
import pytest
import yaml

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.commands import SAMERACK
from lab.sandbox.settings import free_ports
from tests.clouds.certificates import locked
from tests.integration.secured import MSK, SECRETS, USER, Secured, member

pytestmark = pytest.mark.own_cluster

WAYS: Final = {"SCRAM": "console", "MTLS": "console", "IAM": "json"}
"""A password, the password of a key, and a cloud's credentials, each with a form of the log: both have one filter."""
PAGES: Final = (
    *("/", "/group?name={group}", "/page.css", "/metrics", "/healthz", "/readyz"),
    *("/v1/traffic", "/v1/findings", "/v1/events", "/v1/racks?group={group}", "/v1/policy", "/v1/status"),
    "/v1/takeover?group={group}",
)
_TOKENS: Final = (b"eyJ", base64.urlsafe_b64encode(b"https://kafka.").rstrip(b"=")[:-1])
"""The prefixes of every JWT and of every token for MSK."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How an agent authenticates."""

    listener: str  # the brokers' listener
    settings: Mapping[str, str]  # the `kafka` settings for it
    secret: str  # the setting, or the environment variable, that is secret
    variables: Mapping[str, str] = field(default_factory=dict)  # the agent's environment variables
    also_secret: tuple[str, ...] = ()  # other values that are secret

    @property
    def secrets(self) -> tuple[str, ...]:
        """All secret values."""
        return ({**self.settings, **self.variables}[self.secret], *self.also_secret)


def _way(name: str, secured: Secured) -> Way:
    """The way to authenticate at a listener; the key of the agent's certificate has a password."""
    settings = {key.removeprefix("kafka."): value for key, value in secured.settings[name].items()}
    if name == "IAM":
        return Way(
            listener=name,
            settings=settings,
            secret="AWS_SECRET_ACCESS_KEY",  # noqa: S106 - a variable's name
            variables={
                "AWS_ACCESS_KEY_ID": MSK.key,
                "AWS_SECRET_ACCESS_KEY": MSK.secret,
                "AWS_SESSION_TOKEN": MSK.session,
            },
            also_secret=(MSK.session,),
        )
    if name == "MTLS":
        key = locked(Path(settings["ssl.key.location"]), SECRETS[name])
        settings |= {"ssl.key.location": str(key), "ssl.key.password": SECRETS[name]}
        return Way(listener=name, settings=settings, secret="ssl.key.password")  # noqa: S106 - a setting's name
    return Way(listener=name, settings=settings, secret="sasl.password")  # noqa: S106 - a setting's name


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

    def collect(self, agent: AgentProcess) -> None:
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

    def collect_files(self, agent: AgentProcess) -> None:
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
        (port,) = free_ports(1)
        self._address = f"http://127.0.0.1:{port}"
        settings = {"log.format": form, "log.level": "debug", "web.port": port}
        super().__init__(bootstrap, groups=[group], log=log, settings=settings, config=config)

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of one page."""
        self._url = self._address
        return super().get(path)


def _command(written: Written, config: Path, *command: str) -> int:
    done = subprocess.run([*SAMERACK, *command, "--config", str(config)], capture_output=True, check=False, timeout=120)
    written.add(f"samerack {command[0]}", done.stdout + done.stderr)
    return done.returncode


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
        for way, form in WAYS.items()
    ],
)
def test_no_secret_can_be_read_anywhere(
    secured: Secured, way: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent at `log.level: debug` leaks no secret: in a group, refused, with wrong settings, and without brokers."""
    own, written = _way(way, secured), Written()
    group, bootstrap = f"group-{way.lower()}-{form}", secured.cluster.secured(own.listener)
    wrong = f"Wrong-kept-{uuid4().hex[:8]}"
    for variable, value in own.variables.items():
        monkeypatch.setenv(variable, value)
    config = _config(tmp_path, own, bootstrap, form)
    with ExitStack() as stack:
        log = tmp_path / "let-in.log"
        agent = stack.enter_context(Talkative(bootstrap, config=config, group=group, log=log, form=form))
        agent.wait_role("waiting")
        running = stack.enter_context(member(secured.cluster, group, "a"))
        wait_until(lambda: bool(running.owned), "the member has partitions")
        agent.wait_inside()
        agent.wait(lambda: agent.metric("samerack_cross_rack_ratio", group=group) is not None, "bytes are measured")
        written.collect(agent)
        assert _command(written, config, "plan", group) == 0
        assert _command(written, config, "verify", "--measure", "-w", "1") in (0, 1)
    written.collect_files(agent)
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

    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    config = _config(tmp_path, own, nobody, form)
    with Talkative(nobody, config=config, group=group, log=tmp_path / "away.log", form=form) as away:
        away.wait(lambda: b"kafka-unreachable" in away.log.read_bytes(), "it says that nobody answers")
        written.collect(away)
    written.collect_files(away)
    assert b"kafka-unreachable" in written.places["away.log"]

    assert len(written.places) > len(PAGES) + 5
    assert written.hits(*own.secrets, wrong) == []
