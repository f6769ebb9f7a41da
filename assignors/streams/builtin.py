"""Registers the assignors of Kafka Streams under the names that command lines and tests use."""

from __future__ import annotations

from assignors.streams.fallback import fallback_prior
from assignors.streams.ha import high_availability
from assignors.streams.registry import ASSIGNORS
from assignors.streams.sticky import legacy_sticky, sticky

ASSIGNORS.update(
    {
        "ha": high_availability,
        "sticky": sticky,
        "legacy-sticky": legacy_sticky,
        "fallback-prior": fallback_prior,
    }
)

__all__ = ["ASSIGNORS"]
