"""The image on this machine's engine: confined like a pod, it leads a group, answers probes and ends cleanly."""

from __future__ import annotations

import json
import shlex
import subprocess
from importlib.metadata import version
from typing import Final

import pytest
from testcontainers.core.docker_client import DockerClient

from lab.sandbox.admin import wait_until
from tests.docs import ROOT
from tests.integration.pods import IMAGE, PYTHON, SAMERACK, Container, Pods, execute, logged, role, wait_ready
from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario

_MAX_BYTES: Final = 250_000_000
_MAX_OWN_CODE_BYTES: Final = 7_000_000
_MAX_READY_SECONDS: Final = 20.0
_MAX_MEMORY_BYTES: Final = 256 << 20
_USER: Final = "65532"
_CONNECT: Final = """
import socket
try:
    socket.create_connection(("{host}", 9093), timeout=2)
except OSError:
    print("OSError")
"""
_STATUS: Final = "print(open('/proc/1/status').read(), end='')"
_FILES: Final = """
import json, os, stat
found = {"programs": [], "more rights": []}
for top, _, names in os.walk("/"):
    if top.startswith(("/proc", "/sys", "/dev")):
        continue
    for place in (os.path.join(top, name) for name in names):
        mode = os.lstat(place).st_mode
        if mode & (stat.S_ISUID | stat.S_ISGID):
            found["more rights"].append(place)
        if stat.S_ISREG(mode) and mode & 0o111 and ".so" not in place and place != "/.dockerenv":
            found["programs"].append(place)
print(json.dumps(found))
"""


def lead(pods: Pods, scenario: Scenario) -> Container:
    """The agent in a container, for the scenario's group; it takes racks from client ids."""
    racks = json.dumps({f"*-{rack}": rack for rack in (A, B, C)})
    return pods.start(
        "agent",
        command=["run", "--group", scenario.group],
        environment={
            "SAMERACK_KAFKA__BOOTSTRAP_SERVERS": pods.bootstrap,
            "SAMERACK_RACKS__CLIENT_IDS": racks,
            "SAMERACK_ELECTION__GROUP": f"samerack-{scenario.group}",
        },
        mem_limit=_MAX_MEMORY_BYTES,
        memswap_limit=_MAX_MEMORY_BYTES,
        healthcheck={"interval": 1_000_000_000},
    )


@pytest.mark.alone
@pytest.mark.timeout(240)
def test_the_confined_agent_leads_a_group(pods: Pods, scenario: Scenario) -> None:
    """The agent needs no root, writable file, capability or network but Kafka's, and ends cleanly on SIGTERM."""
    scenario.lay_out(INTERLEAVED)
    agent = lead(pods, scenario)
    seconds = wait_ready(agent)
    assert seconds < _MAX_READY_SECONDS
    wait_until(lambda: role(agent, scenario.group) == "waiting", "the agent waits for consumers", timeout=90)
    scenario.join_each("java", "confluent", "aiokafka")
    scenario.wait_settled(cross_rack=0)
    wait_until(lambda: role(agent, scenario.group) == "leading", "the agent leads", timeout=90)

    status = dict(line.split(":\t", 1) for line in execute(agent, PYTHON, "-c", _STATUS)[1].splitlines())
    assert status["Uid"].split() == [_USER] * 4
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    assert execute(agent, PYTHON, "-c", "open('/tmp/x', 'w')")[1].strip().endswith("Read-only file system: '/tmp/x'")
    assert list(agent.attrs["NetworkSettings"]["Networks"]) == [pods.network]
    for address in pods.addresses_elsewhere():
        assert "OSError" in execute(agent, PYTHON, "-c", _CONNECT.format(host=address))[1], "there is a way out"

    wait_until(lambda: _health(agent) == "healthy", "the engine's own health check passes", timeout=90)
    assert execute(agent, SAMERACK, "health") == (0, "ok\n")
    memory = agent.stats(stream=False)["memory_stats"]["usage"]
    print(f"ready after {seconds:.1f} s, {memory / 1e6:.0f} MB of memory while leading")  # noqa: T201 - pytest -rP shows it
    # at a birth the coordinator may forget the id of a member that rejoins; the agent joins again at once
    assert {one["error"] for one in logged(agent, "failed")} <= {f"UnknownMemberIdError: {scenario.group}"}

    agent.stop(timeout=10)
    agent.reload()
    assert agent.attrs["State"]["ExitCode"] == 0
    assert logged(agent, "stopped")
    scenario.finish()


def test_probes_show_when_kafka_is_away(pods: Pods) -> None:
    """Without brokers the agent is healthy but not ready; without an agent the probe fails; both give the reason.

    The cause is a name service that never answers, which the system waits for longer than any probe: an agent that
    waited with it had no sign of life, and was replaced again and again.
    """
    silent = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('', 53)); [*iter(lambda: s.recv(1), 0)]"
    names = pods.start("names", entrypoint=PYTHON, command=["-c", silent])
    names.reload()
    address = names.attrs["NetworkSettings"]["Networks"][pods.network]["IPAddress"]
    agent = pods.start("agent", command=["run", "--group", "g", "-b", "node-9:9093"], dns=[address])
    wait_until(lambda: execute(agent, SAMERACK, "health")[0] == 0, "the agent lives", timeout=90)
    code, output = execute(agent, SAMERACK, "health", "--ready")
    assert code == 1
    assert "/readyz answers 503: watch: " in output
    (unreachable,) = logged(agent, "kafka-unreachable")
    assert "DNS does not answer for node-9 within 1 s" in unreachable["error"]
    assert not logged(agent, "worker-died")
    code, output = execute(agent, SAMERACK, "health", "-s", "web.port=9999")
    assert (code, output) == (1, "samerack: no agent answers: http://127.0.0.1:9999: Connection refused\n")


def test_the_image_has_what_it_needs_and_no_more(pods: Pods) -> None:
    """Each module of the agent loads, OR-Tools solves flows without pandas, and the image has neither Spark nor pip."""
    program = """
import importlib, importlib.util, json, pkgutil, sys
import samerack
for name in {room.name for room in pkgutil.iter_modules(samerack.__path__)}:
    room = importlib.import_module(f"samerack.{name}")
    for module in pkgutil.walk_packages(room.__path__, room.__name__ + "."):
        if module.name != "samerack.planning.worker":
            importlib.import_module(module.name)
from samerack.assignors.solvers import min_cost_flow
flow = min_cost_flow().SimpleMinCostFlow()
flow.add_arc_with_capacity_and_unit_cost(0, 1, 3, 7)
flow.set_node_supply(0, 3)
flow.set_node_supply(1, -3)
solved = flow.solve() == flow.OPTIMAL
unwanted = ("samerack.pipeline", "samerack.plugins", "pandas", "pyspark", "pyarrow", "pip", "pytest", "hatchling")
there = [name for name in unwanted if importlib.util.find_spec(name)]
print(json.dumps([solved, flow.optimal_cost(), there, [name for name in sys.modules if name.startswith("pandas")]]))
"""
    assert json.loads(pods.run("python", entrypoint=PYTHON, command=["-c", program])) == [True, 21, [], []]


def test_there_is_no_program_but_python_and_samerack(pods: Pods) -> None:
    """The image has no shell, package manager, setuid or setgid file, or script of a package."""
    found = json.loads(pods.run("python", entrypoint=PYTHON, command=["-c", _FILES]))
    assert found["more rights"] == []
    programs = {place.rpartition("/")[2] for place in found["programs"]}
    assert {name for name in programs if not name.startswith("python3")} == {"samerack"}


def test_names_certificates_and_time_zones_are_known(pods: Pods) -> None:
    """The files that glibc, OpenSSL and the maintenance windows need are where they expect them."""
    program = """
import pwd, socket, sqlite3, ssl, zoneinfo
context = ssl.create_default_context()
print(pwd.getpwuid(65532).pw_name, socket.gethostbyname("localhost"), len(context.get_ca_certs()) > 50)
print(zoneinfo.ZoneInfo("Europe/Berlin"), sqlite3.connect(":memory:").execute("select 1").fetchone()[0])
"""
    output = pods.run("python", entrypoint=PYTHON, command=["-c", program])
    assert output == "samerack 127.0.0.1 True\nEurope/Berlin 1\n"


def test_every_time_in_the_image_is_the_one_it_was_built_with(pods: Pods) -> None:
    """Files and folders below /opt, and /opt itself, have time 0, so that layers of two builds have the same digest."""
    program = """
import os
places = ["/opt", *(os.path.join(top, name) for top, folders, files in os.walk("/opt") for name in (*folders, *files))]
print(len(places) > 5000, [place for place in places if os.lstat(place).st_mtime != 0][:5])
"""
    assert pods.run("python", entrypoint=PYTHON, command=["-c", program]) == "True []\n"


def test_the_image_is_small_and_says_what_it_is() -> None:
    """The layers on top of the base are small, a new version's own layer too; user and labels are set."""
    docker = DockerClient().client
    try:
        image = docker.images.get(IMAGE)
        added = [layer["Size"] for layer in image.history() if layer["Size"]]
        config = image.attrs["Config"]
    finally:
        docker.close()
    own, _, _ = added
    assert 0 < own < _MAX_OWN_CODE_BYTES
    assert sum(added) < _MAX_BYTES
    assert config["User"] == f"{_USER}:{_USER}"
    assert config["Entrypoint"] == [SAMERACK]
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert config["Labels"]["org.opencontainers.image.version"] == version("samerack")


def test_the_command_of_the_page_runs() -> None:
    """The `docker run` of docs/image.md works, with this image in place of the one that it builds."""
    page = (ROOT / "docs" / "image.md").read_text(encoding="utf-8")
    (line,) = [line.strip() for line in page.splitlines() if line.startswith("    docker run ")]
    words = [IMAGE if word == "samerack" else word for word in shlex.split(line)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


def _health(container: Container) -> str:
    container.reload()
    return str(container.attrs["State"]["Health"]["Status"])
