"""Writes simulated records to a folder of JSON lines, standard output, or Kafka."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaException, Producer

from samerack.common.errors import AgentError, SettingsError
from samerack.pipeline.simulate import Kind, Message

Sink: TypeAlias = Callable[[Message], None]

FILES: Final[Mapping[Kind, str]] = {"sample": "samples.jsonl", "state": "states.jsonl"}
"""The files of a folder, by kind of record."""
_PART: Final = ".part"
_PATIENCE_SECONDS: Final = 60.0
_FULL_SECONDS: Final = 0.1


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
            **config,
        }
    )

    def send(message: Message) -> None:
        while True:
            if failed:
                raise AgentError(_refused(topics, failed[0]))
            try:
                producer.produce(topics[message.kind], message.value, message.key, on_delivery=delivered)
            except BufferError:
                producer.poll(_FULL_SECONDS)
            except KafkaException as error:
                raise AgentError(_refused(topics, str(error))) from None
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
        raise AgentError(_refused(topics, failed[0] if failed else f"{left} records were not accepted within a minute"))


def _refused(topics: Mapping[Kind, str], why: str) -> str:
    return (
        f"Kafka did not accept all records: {why}; check that the brokers can be reached, that the topics "
        f"{' and '.join(topics.values())} exist and that you may write to them"
    )
