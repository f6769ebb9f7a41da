"""What unit tests share: a test that sets up logging must not leave its closed standard error to the next."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def fresh_logging() -> Iterator[None]:
    """Restore the logging set-up."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
