"""Structured logs on standard error: one event a line, pretty on a terminal, JSON otherwise."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from common.settings import LogSettings


def configure(settings: LogSettings) -> None:
    """Set up structlog, and send the Kafka libraries' own warnings the same way."""
    console = settings.format == "console" or (settings.format == "auto" and sys.stderr.isatty())
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if console:
        renderers: list[Any] = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    else:
        # without the frames' variables: one of them may be a password
        exceptions = structlog.processors.ExceptionRenderer(
            structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        )
        renderers = [exceptions, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[*shared, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(max(level, logging.WARNING))
    # kafka-python logs each expected answer of a rebalance as a warning or an error of its own
    logging.getLogger("kafka").setLevel(logging.DEBUG if settings.level == "debug" else logging.CRITICAL)
