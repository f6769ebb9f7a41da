"""`samerack pipeline simulate`: a fleet that does not exist, as the records of its agents."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer
from confluent_kafka import KafkaException, Producer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from samerack.common.console import Console
from samerack.common.errors import AgentError, SettingsError
from samerack.pipeline.simulate import FILES, SORTS, Faults, Kind, Message, messages, with_faults
from samerack.pipeline.simulate_cast import START, Fleet
from samerack.settings.flags import settings_from
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption

_STANDARD_OUTPUT = "-"
_KAFKA = "kafka"
_SHOW_EVERY = 5000
_KINDS = ("sample", "state")
_GOOD = ("", "late")
_PART: Final = ".part"
_PATIENCE_SECONDS: Final = 60.0
_FULL_SECONDS: Final = 0.1
_TOPIC_MS: Final = "5000"
"""How long a topic may be unknown: one that brokers create when they are asked for it is there within a second."""

Sink: TypeAlias = Callable[[Message], None]


def simulate(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER|-|kafka",
            help="A folder for samples.jsonl and states.jsonl, - for standard output, or kafka for the topics that "
            "agents publish to (./kafka is a folder).",
        ),
    ],
    groups: Annotated[int, typer.Option("--groups", "-g", min=1, help="Consumer groups, over all clusters.")] = 20,
    clusters: Annotated[int, typer.Option("--clusters", min=1, help="Kafka clusters.")] = 2,
    racks: Annotated[int, typer.Option("--racks", min=1, help="Racks of each cluster.")] = 3,
    days: Annotated[float, typer.Option("--days", help="Simulated time in days; 0.5 is twelve hours.")] = 1.0,
    start: Annotated[
        datetime | None,
        typer.Option(
            "--start",
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"],
            help="Start time, UTC; for Kafka the default ends today, because a stream accepts no old records.",
            show_default="2026-11-01",
        ),
    ] = None,
    step: Annotated[int, typer.Option("--step", min=1, max=3600, help="Seconds of traffic in one sample.")] = 60,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same records, to the byte.")] = 1,
    partitions: Annotated[
        int | None, typer.Option("--partitions", min=1, help="Partitions of every group; default: random.")
    ] = None,
    members: Annotated[
        int | None, typer.Option("--members", min=1, help="Members of every group; default: random.")
    ] = None,
    duplicates: Annotated[float, typer.Option("--duplicates", help="Share of records sent twice, e.g. 0.05.")] = 0.0,
    late: Annotated[float, typer.Option("--late", help="Share of samples that come late.")] = 0.0,
    late_seconds: Annotated[int, typer.Option("--late-seconds", min=1, help="How late, in the samples' time.")] = 120,
    malformed: Annotated[
        float, typer.Option("--malformed", help="Malformed records of many kinds, as a share of the good ones.")
    ] = 0.0,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a summary as one JSON object on standard error.")
    ] = False,
    assignments: SetOption = None,
) -> None:
    """Make a fleet of any size as the records that its agents would publish, to try and load-test the pipeline.

    Groups of all kinds and assignors in several clusters: some read near, some across racks; some lose their racks on a
    day, some are led by the agent from a day on, and replicas move. Samples and states agree with each other, and the
    assignments are those of the real assignors. Good records come exactly once, whatever faults are mixed in.

    Begin with: samerack pipeline simulate fleet --groups 50 --days 2; samerack pipeline whatif fleet
    """
    fleet = Fleet(
        groups=groups,
        clusters=clusters,
        racks=racks,
        days=days,
        seed=seed,
        start=_begin(start, target, days),
        step_seconds=step,
        partitions=partitions,
        members=members,
    )
    faults = Faults(duplicates=duplicates, late=late, late_seconds=late_seconds, malformed=malformed, seed=seed)
    begin = time.monotonic()
    counts: Counter[tuple[str, str]] = Counter()
    with _sink(target, config, bootstrap, assignments) as sink:
        for message in _shown(with_faults(messages(fleet), faults), fleet):
            sink(message)
            counts[message.kind, message.fault] += 1
    made = _summary(counts, time.monotonic() - begin)
    typer.echo(json.dumps(made) if as_json else _sentence(made, fleet, target), err=True)


def _begin(start: datetime | None, target: str, days: float) -> int:
    """When the fleet begins, milliseconds since 1970: always the same but for Kafka, where a stream may be reading."""
    if start is None and target != _KAFKA:
        return START
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    moment = today - timedelta(days=ceil(days)) if start is None else start.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _sink(
    target: str, config: ConfigOption, bootstrap: BootstrapOption, assignments: SetOption
) -> AbstractContextManager[Sink]:
    if target == _STANDARD_OUTPUT:
        return stdout()
    if target != _KAFKA:
        return folder(Path(target))
    settings = settings_from(config, bootstrap, assignments)
    topics: Mapping[Kind, str] = {"sample": settings.pipeline.traffic_topic, "state": settings.pipeline.states_topic}
    return kafka(settings.kafka, topics)


def _shown(stream: Iterable[Message], fleet: Fleet) -> Iterator[Message]:
    """Yield the stream, with its progress on standard error."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=fleet.steps * fleet.step_seconds * 1000)
        for count, message in enumerate(stream):
            if count % _SHOW_EVERY == 0:
                progress.update(task, completed=message.at - fleet.start)
            yield message


def _summary(counts: Counter[tuple[str, str]], seconds: float) -> dict[str, Any]:
    """Good records by kind, faults by sort, and how long it took."""
    good = {kind: sum(n for (k, fault), n in counts.items() if k == kind and fault in _GOOD) for kind in _KINDS}
    faults: Counter[str] = Counter()
    for (_, fault), number in counts.items():
        faults[fault] += number
    return {
        "samples": good["sample"],
        "states": good["state"],
        "duplicates": faults["duplicate"],
        "late": faults["late"],
        "malformed": {sort: faults[sort] for sort in SORTS if faults[sort]},
        "seconds": round(seconds, 3),
    }


def _sentence(made: dict[str, Any], fleet: Fleet, target: str) -> str:
    faults = {"sent twice": made["duplicates"], "late": made["late"], "malformed": sum(made["malformed"].values())}
    mixed = ", ".join(f"{number:,} {name}" for name, number in faults.items() if number)
    where = {_STANDARD_OUTPUT: "", _KAFKA: " in Kafka"}.get(target, f" in {target}")
    return (
        f"{made['samples']:,} samples and {made['states']:,} states of {fleet.groups} groups{where}"
        f"{f' ({mixed})' if mixed else ''}; seed {fleet.seed}, {made['seconds']:.1f} s"
    )


@contextmanager
def folder(path: Path) -> Iterator[Sink]:
    """Write one file for each kind; after an error within the block the folder keeps its former files.

    Raises:
        SettingsError: The folder cannot be written.
    """
    parts = {kind: path / (name + _PART) for kind, name in FILES.items()}
    try:
        path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            for part in parts.values():
                stack.callback(part.unlink, missing_ok=True)
            with ExitStack() as opened:
                files = {kind: opened.enter_context(part.open("wb", buffering=1 << 20)) for kind, part in parts.items()}
                yield lambda message: _line(files[message.kind].write, message)
            for kind, part in parts.items():
                part.replace(path / FILES[kind])
    except OSError as error:
        raise SettingsError(
            f"{path}: cannot be written ({error.strerror}); name a folder that exists or can be created"
        ) from None


@contextmanager
def stdout() -> Iterator[Sink]:
    """Write both kinds to standard output, one record a line."""
    yield lambda message: _line(sys.stdout.buffer.write, message)
    sys.stdout.buffer.flush()


def _line(write: Callable[[bytes], Any], message: Message) -> None:
    write(message.value + b"\n")


@contextmanager
def kafka(config: Mapping[str, str], topics: Mapping[Kind, str]) -> Iterator[Sink]:
    """Write to Kafka, by librdkafka's settings, as agents do: idempotent, keyed by group; wait while brokers are slow.

    Raises:
        AgentError: the brokers refuse records or take none for a minute.
    """
    failed: list[str] = []

    def delivered(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(
        {
            "linger.ms": "50",
            "compression.type": "zstd",
            "enable.idempotence": "true",
            "message.timeout.ms": str(int(_PATIENCE_SECONDS * 1000)),
            "topic.metadata.propagation.max.ms": _TOPIC_MS,
            **config,
        }
    )

    def send(message: Message) -> None:
        while True:
            if failed:
                raise AgentError(_refused(config, topics, failed[0]))
            try:
                producer.produce(topics[message.kind], message.value, message.key, on_delivery=delivered)
            except BufferError:
                producer.poll(_FULL_SECONDS)
            except KafkaException as error:
                raise AgentError(_refused(config, topics, str(error))) from None
            else:
                producer.poll(0)
                return

    try:
        yield send
    except BaseException:
        producer.purge()
        raise
    left = producer.flush(_PATIENCE_SECONDS)
    if failed or left:
        why = failed[0] if failed else f"{left} records were not accepted within a minute"
        raise AgentError(_refused(config, topics, why))


def _refused(config: Mapping[str, str], topics: Mapping[Kind, str], why: str) -> str:
    create = f"kafka-topics.sh --bootstrap-server {config['bootstrap.servers']} --create --partitions 6 --topic"
    return (
        f"Kafka did not accept all records: {why}; check that the brokers can be reached, that the topics "
        f"{' and '.join(topics.values())} exist ({create} {topics['sample']}), and that you may write to them"
    )
