"""Installs each artefact in an empty place, and runs it from there: what a user gets, not what should be in it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import yaml

from lab.release.errors import ReleaseError
from lab.release.pack import IMAGES, PIPELINE, SUMS

_PROVE: Final = Path(__file__).with_name("Prove.java")
_CLASSES: Final = {"broker": "io.samerack.broker.RackAwareAssignor", "streams": "io.samerack.streams.AgentTaskAssignor"}
"""The class of each project's jar that users name."""
_KUBERNETES: Final = "1.29.0"
"""The oldest Kubernetes that the chart takes; Helm by itself supposes the one that it was made for."""
_GROUP: Final = """{"assignor": "optimal", "brokers": [{"id": 0, "rack": "a"}, {"id": 1, "rack": "b"}],
"topics": {"t": [[0], [1]]},
"members": [{"id": "m1", "topics": ["t"], "rack": "b"}, {"id": "m2", "topics": ["t"], "rack": "a"}]}"""
"""A group for `samerack assign`: only where the first member has the second partition nothing crosses racks."""
_FLEET: Final = """
import subprocess
from datetime import date, timedelta
from pyspark.sql.functions import lit
from samerack.pipeline import batches, parsing, session, tables
from samerack.settings.pipeline import PipelineSettings
def samerack(*words):
    subprocess.run(["/opt/samerack/bin/samerack", "pipeline", *words], check=True)
start = str(date.today() - timedelta(days=2))
samerack("simulate", "/tmp/fleet", "--groups", "5", "--days", "1", "--step", "600", "--start", start)
settings = PipelineSettings(master="local[2]", tables="/tmp/tables")
with session.opened(settings, name="proof", is_short=True) as spark:
    spark.read.format("kafka").options(**{"kafka.bootstrap.servers": "kafka:9092", "subscribe": "fleet"}).load()
    tables.create(spark, settings)
    for number, (topic, name) in enumerate(((settings.traffic_topic, "samples"), (settings.states_topic, "states"))):
        read = spark.read.text(f"/tmp/fleet/{name}.jsonl").selectExpr("encode(value, 'UTF-8') AS value")
        records = read.select(lit(topic).alias("topic"), lit(0).alias("partition"), lit(0).alias("offset"), "value")
        batches.write(parsing.parsed(records, settings), settings, writer="proof", number=number)
where = ("-s", "pipeline.master=local[2]", "-s", "pipeline.tables=/tmp/tables")
samerack("report", "--json", "--output", "/tmp/report.html", *where)
"""
"""For the pipeline's image, where no Kafka is: a simulated fleet becomes tables, and the tables a report."""
_OURS: Final = ("PYTHON", "VIRTUAL_ENV", "SAMERACK_")
"""Beginnings of variables that would bring the checkout into the proof."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The programs that a user would have."""

    uv: str
    python: str  # to install into, outside of any environment
    java: str
    beside: Path  # the jars of the programs that load ours: a folder for each project
    build_python: str  # with hatchling, for the source distribution


def prove(folder: Path, version: str, tools: Tools) -> Iterator[str]:
    """Prove all artefacts in a folder; yield what was proved, one line each.

    Raises:
        ReleaseError: An artefact cannot be installed, or does not do what it should.
    """
    with TemporaryDirectory() as empty:
        place = Path(empty)
        _run(place, "sha256sum", "--check", "--strict", "--quiet", str(folder / SUMS), cwd=folder)
        yield f"{SUMS}: {len((folder / SUMS).read_text().splitlines())} files"
        (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        yield _wheel(wheel, version, tools, place)
        yield _sdist(sdist, wheel, tools, place)
        for project, loaded in _CLASSES.items():
            jar = folder / f"samerack-{project}-assignor-{version}.jar"
            _expect(_load(jar, loaded, tools.beside / project, tools.java, place), version, jar)
            yield f"{jar.name}: {loaded} loads beside Kafka's classes"
        yield _chart(folder / f"samerack-{version}.tgz", version, place)
        for archive in folder.glob("*-image-*.tar"):
            yield _image(archive, version, place)


def _wheel(wheel: Path, version: str, tools: Tools, place: Path) -> str:
    home = place / "environment"
    _run(place, tools.uv, "venv", "--quiet", "--python", tools.python, str(home))
    # certificates are the system's: machines behind a proxy of their own need it
    install = ("pip", "install", "--quiet", "--system-certs", "--python", str(home / "bin" / "python"))
    _run(place, tools.uv, *install, str(wheel))
    samerack = str(home / "bin" / "samerack")
    _expect(_run(place, samerack, "--version"), version, wheel)
    for command in ("verify", "cost", "plan", "run"):
        if "Usage" not in _run(place, samerack, command, "--help"):
            raise ReleaseError(f"{wheel.name}: samerack {command} --help shows no usage")
    plan(wheel, place, samerack)
    return f"{wheel.name}: installed, samerack {version} runs and plans"


def _sdist(sdist: Path, wheel: Path, tools: Tools, place: Path) -> str:
    built = place / "built"
    built.mkdir()
    _run(place, "tar", "-xzf", str(sdist), "-C", str(built))
    (project,) = built.iterdir()
    _run(place, tools.build_python, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built), cwd=project)
    (again,) = built.glob("*.whl")
    if again.read_bytes() != wheel.read_bytes():
        raise ReleaseError(f"{sdist.name}: a wheel built of it has other bytes than {wheel.name}")
    return f"{sdist.name}: a wheel built of it has the same bytes"


def _load(jar: Path, loaded: str, beside: Path, java: str, place: Path) -> str:
    """Load a class; return the version that its jar names."""
    return _run(place, java, "-cp", os.pathsep.join([str(jar), f"{beside}/*"]), str(_PROVE), loaded)


def _chart(chart: Path, version: str, place: Path) -> str:
    kafka, image = r"config.kafka.bootstrap\.servers=kafka:9092", "image.repository=registry.invalid/samerack"
    values = ["--set", image, "--set", kafka, "--set", "config.groups={orders}"]
    values += ["--set", "pipeline.enabled=true", "--set", "pipeline.volume.create=true"]
    where = ["--namespace", "proof", "--kube-version", _KUBERNETES]
    shown = _run(place, "helm", "template", "proof", str(chart), *where, *values)
    images = {image for image in _images(list(yaml.safe_load_all(shown))) if "samerack" in image}
    if images != {f"registry.invalid/{name}:{version}" for name in IMAGES}:
        raise ReleaseError(
            f"{chart.name}: its pods run {sorted(images) or 'no image of samerack'} instead of {version}"
        )
    return f"{chart.name}: helm renders it, its pods run {', '.join(sorted(images))}"


def _images(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "image" and isinstance(inner, str):
                yield inner
            yield from _images(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _images(inner)


def _image(archive: Path, version: str, place: Path) -> str:
    repository = archive.name.partition(f"-{version}-image-")[0]
    name = f"{repository}:{version}"
    _run(place, "docker", "load", "--quiet", "--input", str(archive))
    confined = ["--rm", "--interactive", "--network", "none", "--read-only", "--cap-drop", "ALL"]
    try:
        _expect(_run(place, "docker", "run", *confined, name, "--version"), version, archive)
        plan(archive, place, "docker", "run", *confined, name)
        if repository == PIPELINE:
            spark = ["--hostname", "localhost", "--tmpfs", "/tmp:exec", "--entrypoint", "/opt/samerack/bin/python"]  # noqa: S108 - in the container
            _expect_report(archive, _run(place, "docker", "run", *confined, *spark, name, "-", given=_FLEET))
    finally:
        _run(place, "docker", "image", "rm", "--force", name)
    reports = ", and reports on a fleet" if repository == PIPELINE else ""
    return f"{archive.name}: loaded, the image's samerack {version} runs and plans{reports}"


def _expect_report(artefact: Path, output: str) -> None:
    headline = json.loads(output.splitlines()[-1])["headline"]
    if headline["groups"] != 5:
        raise ReleaseError(f"{artefact.name}: the report has {headline['groups']} groups instead of 5")


def plan(artefact: Path, place: Path, *samerack: str) -> None:
    """Prove that a program, which came with an artefact, plans a group with its solver and all that it loads.

    Raises:
        ReleaseError: It does not, or the plan reads across racks.
    """
    output = _run(place, *samerack, "assign", "-", "--json", given=_GROUP)
    try:
        crossing = json.loads(output)["cross_rack"]
    except (ValueError, LookupError, TypeError):
        raise ReleaseError(f"{artefact.name}: samerack assign says {output.strip()!r} instead of a plan") from None
    if crossing != 0:
        raise ReleaseError(f"{artefact.name}: samerack assign reads {crossing} partitions across racks instead of 0")


def _expect(output: str, version: str, artefact: Path) -> None:
    if version not in output.split():
        raise ReleaseError(f"{artefact.name}: says {output.strip()!r} instead of {version}")


def _run(place: Path, *line: str, cwd: Path | None = None, given: str = "") -> str:
    """Run a program outside of the checkout, without this process's settings for Python; return what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    done = subprocess.run(
        line, cwd=cwd or place, env=environment, input=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"{' '.join(line[:4])}: exit code {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
