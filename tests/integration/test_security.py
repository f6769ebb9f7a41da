"""Real agents on real brokers with TLS and SASL: which settings work, and the one-line errors."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
import yaml

from lab.sandbox.agent_process import AgentProcess
from tests.integration.secured import SECRETS, Secured, led, member, refusals

pytestmark = pytest.mark.own_cluster

WAYS: Final = ("MTLS", "OAUTH")
"""Others lead in tests of what they are for: PLAIN of permissions, SCRAM of secrets, those of clouds of clouds."""


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
        led(agent, lambda: [stack.enter_context(member(secured.cluster, group, zone)) for zone in "ab"])
        agent.wait(lambda: agent.metric("samerack_cross_rack_ratio", group=group) is not None, "bytes are measured")
        assert agent.events("plan-sent")[-1]["members"] >= 1
        assert agent.get("/readyz")[0] == 200
        log = (tmp_path / "agent.log").read_text(encoding="utf-8")
    assert not [secret for secret in SECRETS.values() if secret in log]
    assert "eyJ" not in log  # the prefix of every JWT


@pytest.mark.promise("A sidecar that brokers refuse goes on running, says why, and leads once they accept it.")
def test_a_sidecar_that_is_refused_goes_on_running(secured: Secured, tmp_path: Path) -> None:
    """A container that ends would make its pod, and the application in it, not ready."""
    file, bootstrap = tmp_path / "samerack.yaml", secured.cluster.secured("PLAIN")
    settings = secured.settings["PLAIN"]

    def write(password: str) -> None:
        kafka = {**settings, "kafka.sasl.password": password, "kafka.bootstrap.servers": bootstrap}
        file.write_text(
            yaml.safe_dump({"kafka": {key.removeprefix("kafka."): value for key, value in kafka.items()}}),
            encoding="utf-8",
        )

    write("wrong")
    log = tmp_path / "agent.log"
    with AgentProcess("", groups=["beside"], log=log, config=file, options=["--keep-trying"]) as agent:
        agent.wait(lambda: "check kafka.sasl.username" in agent.get("/readyz")[1], "it says why")
        assert (agent.running, agent.get("/healthz")[0]) == (True, 200)
        write(SECRETS["PLAIN"])
        agent.wait(lambda: agent.get("/readyz")[0] == 200, "the brokers accept it")
        assert agent.running


WRONG: Final = {
    "password": ("PLAIN", {"kafka.sasl.password": "wrong"}, "check kafka.sasl.username and kafka.sasl.password"),
    "mechanism": (
        "SCRAM",
        {"kafka.sasl.mechanism": "PLAIN"},
        "do not offer SASL PLAIN there; set kafka.sasl.mechanism",
    ),
    "expired certificate": ("EXPIRED", {}, "the broker's certificate has expired; renew it on the broker"),
    "host name": ("OTHERNAME", {}, "the broker's certificate is for another host name; use the certificates' names in"),
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
    """`run`, `plan` and `verify` end with the exit code of a failure and one line that names cause and cure."""
    listener, settings, message = _wrong(secured, case)
    for line in refusals(secured.cluster.secured(listener), settings):
        assert message in line
        assert "=wrong" not in line
