"""Structured logs on standard error: one event per line, text on a terminal (colored) and from commands, else JSON.

Only this module decides what a log may contain: no SASL requests and responses, no raw bytes of requests, no variables
of a traceback's frames, and three asterisks in place of each secret of the settings.
"""

from __future__ import annotations

import io
import json
import logging
import select
import sys
import threading
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from typing import Any, Final

import structlog

from samerack.auth.kafka_config import secrets_of
from samerack.settings.all_settings import Settings

_MASK: Final = "***"
_BYTES: Final = "kafka.protocol.parser"
"""kafka-python's logger of requests and responses as bytes."""
_FULL_SECONDS: Final = 0.5
"""How long a line waits for space in a pipe: less than the time after which the supervisor replaces a process."""
_PART: Final = select.PIPE_BUF // 4
"""Characters for which a pipe with space surely has enough, as UTF-8."""
_SASL: Final = "SaslAuthenticate"
"""Requests and responses of this name contain a password, data from which it can be guessed, or a token."""


_FIRST: Final = ("timestamp", "level", "event", "cluster", "group")


class _Output:
    """Standard error. Lines are lost once nobody reads them, instead of ending or stopping what the agent does.

    A pipe that is full stops who writes to it until somebody reads: then threads that send heartbeats would wait for
    the program that collects logs.
    """

    def __init__(self) -> None:
        self._patience = _FULL_SECONDS
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        """Write a text as far as it can be written soon, and no other in the midst of it."""
        with self._lock, suppress(OSError):
            for at in range(0, len(text), _PART):
                if not self._has_space():
                    return
                sys.stderr.write(text[at : at + _PART])
                sys.stderr.flush()

    def _has_space(self) -> bool:
        try:
            output = sys.stderr.fileno()
        except io.UnsupportedOperation:  # no file
            return True
        space = select.poll()
        space.register(output, select.POLLOUT)
        found = bool(space.poll(self._patience * 1000))
        self._patience = _FULL_SECONDS if found else 0.0  # only the first line that finds it full waits
        return found

    def flush(self) -> None:
        """Nothing to do: `write` keeps nothing."""


class _Speakable(logging.Filter):
    """Passes only what a library may log."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record contains no bytes of a connection, and no request of SASL."""
        values = record.args.values() if isinstance(record.args, dict) else record.args or ()
        return record.name != _BYTES and not any(type(value).__name__.startswith(_SASL) for value in values)


class _Masked:
    """Replaces secrets with asterisks in the text of a renderer."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Prepare the secrets of the settings; the longest are masked first, as one may contain another."""
        written = {form for secret in secrets for form in (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1])}
        self._secrets = sorted(written, key=len, reverse=True)

    def __call__(self, _logger: object, _method: str, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text


def _time_first(_logger: object, _method: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    """Return the event with what a reader of lines looks for first: when, how severe, and what."""
    return {**{key: event[key] for key in _FIRST if key in event}, **event}


def configure(whole: Settings, *, is_agent: bool = False) -> None:
    """Set up structlog, and send the Kafka libraries' own warnings to the same output.

    With `auto` an agent writes JSON where no terminal reads it; what a command writes is for people anywhere.
    """
    settings = whole.log
    console = settings.format == "console" or (settings.format == "auto" and (sys.stderr.isatty() or not is_agent))
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if console:
        # without the frames' variables, here and below: one of them may be a password
        frames = structlog.dev.plain_traceback
        renderers: list[Any] = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=frames)]
    else:
        exceptions = structlog.processors.ExceptionRenderer(
            structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        )
        renderers = [exceptions, _time_first, structlog.processors.JSONRenderer()]
    kafka = (whole.kafka, whole.publishing.kafka, *(cluster.kafka for cluster in whole.clusters.values()))
    renderers.append(_Masked(secret for one in kafka for secret in secrets_of(one)))
    output: Any = _Output()
    structlog.configure(
        processors=[*shared, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=output),
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    handler.addFilter(_Speakable())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))
    # kafka-python logs each expected response of a rebalance as a warning or an error
    logging.getLogger("kafka").setLevel(logging.DEBUG if settings.level == "debug" else logging.CRITICAL)
