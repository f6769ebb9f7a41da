"""Real agents on real brokers that accept tokens of cloud identities, with simulated clouds on loopback.

The credential servers, and the brokers' checks of tokens for MSK and Google, belong to the sandbox; the check of
Entra's tokens is Kafka's own, and brokers and clients are real.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from lab.sandbox.admin import Admin
from lab.sandbox.agent_process import AgentProcess
from tests.clouds.servers import Aws, Azure, Google
from tests.integration.secured import AZURE_CLIENT, AZURE_SCOPE, GOOGLE, MSK, Secured, led, member

pytestmark = pytest.mark.own_cluster

_HIDDEN: Final = (
    MSK.secret,
    MSK.session,
    GOOGLE.access,
    "of-the-account",
    base64.urlsafe_b64encode(b"https://kafka.").decode()[:16],  # the prefix of every token for MSK
    "eyJ",  # the prefix of every JWT
)
"""Texts that no log may contain."""
_VARIABLES: Final = ("AWS_", "AZURE_", "GCE_", "GOOGLE_")
"""Prefixes of variables from which a client takes an identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clouded:
    """The secured cluster, and the clouds."""

    secured: Secured
    aws: Aws
    azure: Azure
    google: Google


@pytest.fixture
def clouded(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clouded]:
    """The cluster with clouds for this test only; the environment has no variables of other clouds."""
    for variable in (name for name in tuple(os.environ) if name.startswith(_VARIABLES)):
        monkeypatch.delenv(variable)
    with (
        Aws(key=MSK.key, secret=MSK.secret, session=MSK.session) as aws,
        Azure(secured.entra.token, client=AZURE_CLIENT, scope=AZURE_SCOPE) as azure,
        Google(account=GOOGLE.account, access=GOOGLE.access) as google,
    ):
        yield Clouded(secured=secured, aws=aws, azure=azure, google=google)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How an agent gets its identity."""

    listener: str  # the brokers' listener
    variables: Callable[[Clouded, Path], Mapping[str, str]]  # the environment variables of the cloud
    settings: Mapping[str, str] = field(default_factory=dict)  # the agent's settings besides those of the listener


def _metadata(kind: str, **others: str) -> dict[str, str]:
    given = {"mechanism": "OAUTHBEARER", "oauthbearer.method": "oidc"}
    given["oauthbearer.metadata.authentication.type"] = kind
    given |= {f"oauthbearer.{key.replace('_', '.')}": value for key, value in others.items()}
    return {f"kafka.sasl.{key}": value for key, value in given.items()}


WAYS: Final[Mapping[str, Way]] = {
    "aws-web-identity": Way(
        listener="IAM",
        variables=lambda clouded, folder: clouded.aws.for_web_identity(folder),
    ),
    "azure-workload": Way(
        listener="ENTRA",
        variables=lambda clouded, folder: clouded.azure.for_workload(folder),
        settings=_metadata("azure_workload_identity", scope=AZURE_SCOPE),
    ),
    "google": Way(
        listener="GOOGLE",
        variables=lambda clouded, _: clouded.google.for_machine(),
        settings=_metadata("gcp_metadata"),
    ),
}


@pytest.mark.promise("The agent leads as the identity that its cloud gives it: AWS, Azure, Google.")
@pytest.mark.parametrize("name", WAYS)
def test_the_agent_leads_as_what_its_cloud_says(
    clouded: Clouded, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All clients of the agent are accepted: it leads, measures and publishes; its log has no secret or token."""
    way, group = WAYS[name], f"group-{name}"
    for variable, value in way.variables(clouded, tmp_path).items():
        monkeypatch.setenv(variable, value)
    settings = {
        **clouded.secured.settings[way.listener],
        **way.settings,
        "log.level": "debug",
        "traffic.poll_seconds": 1,
        "traffic.window_seconds": 5,
        "publishing.traffic_topic": f"samples-{name}",
        "publishing.every_seconds": 1,
    }
    bootstrap = clouded.secured.cluster.secured(way.listener)
    with ExitStack() as stack:
        stack.enter_context(Admin(clouded.secured.cluster.bootstrap)).create_topic(f"samples-{name}", [[1, 2]])
        agent = stack.enter_context(
            AgentProcess(bootstrap, groups=[group], log=tmp_path / "agent.log", settings=settings)
        )
        agent.wait_role("waiting")
        led(agent, lambda: [stack.enter_context(member(clouded.secured.cluster, group, zone)) for zone in "ab"])
        agent.wait(lambda: agent.metric("samerack_cross_rack_ratio", group=group) is not None, "bytes are measured")
        agent.wait(
            lambda: (agent.metric("samerack_published_records_total", kind="sample") or 0) > 0, "samples are published"
        )
        assert agent.get("/readyz")[0] == 200
        log = (tmp_path / "agent.log").read_text(encoding="utf-8")
    assert not [hidden for hidden in _HIDDEN if hidden in log]


def test_credentials_are_renewed_and_a_role_is_lost_and_given_back(
    clouded: Clouded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials of 20 s are replaced while the agent leads; without any it runs, is not ready, and reports why."""
    aws, group = clouded.aws, "group-renewed"
    aws.seconds = 20
    for variable, value in aws.for_web_identity(tmp_path).items():
        monkeypatch.setenv(variable, value)
    settings = {**clouded.secured.settings["IAM"], "traffic.poll_seconds": 1}
    bootstrap = clouded.secured.cluster.secured("SHORT")
    with ExitStack() as stack:
        agent = stack.enter_context(
            AgentProcess(bootstrap, groups=[group], log=tmp_path / "agent.log", settings=settings)
        )
        agent.wait_role("waiting")
        led(agent, lambda: [stack.enter_context(member(clouded.secured.cluster, group, "a"))])
        before = aws.given
        agent.wait(lambda: aws.given >= before + 3, "credentials have been replaced three times")
        assert agent.role() == "leading"
        assert not agent.events("poll-failed")
        aws.account_token = "of-another-account"  # noqa: S105 - of this test
        agent.wait(lambda: "refuses the role" in agent.get("/readyz")[1], "it is not ready, and says why", timeout=90)
        assert (agent.running, agent.get("/healthz")[0]) == (True, 200)
        aws.account_token = "of-the-account"  # noqa: S105 - of this test
        agent.wait(lambda: agent.get("/readyz")[0] == 200, "it is ready again", timeout=150)
