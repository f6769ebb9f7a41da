"""What unit tests share: no test leaves its logging, or a running service, to the next."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog

from samerack.common.service import Service
from samerack.settings import cures
from samerack.settings.loading import load
from tests.unit.waiting import LONGEST_SECONDS

_USUAL = load(flags={}, environment={}, needs_kafka=False)


@pytest.fixture(autouse=True)
def fresh_logging() -> Iterator[None]:
    """Restore the logging set-up."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.fixture(autouse=True)
def fresh_cures() -> None:
    """Commands in messages reach what they reach without settings."""
    cures.reach_settings(_USUAL, None)


@pytest.fixture
def started() -> Iterator[list[Service]]:
    """Services that a test starts, which end with it."""
    services: list[Service] = []
    yield services
    for one in services:
        one.stop()
        one.join(LONGEST_SECONDS)
        assert not one.is_alive()
