"""Registers the assignors of Kafka Streams under the names that command lines and tests use."""

from __future__ import annotations

from samerack.assignors.streams.fallback import fallback_prior
from samerack.assignors.streams.ha import high_availability
from samerack.assignors.streams.registry import ASSIGNORS
from samerack.assignors.streams.sticky import legacy_sticky, sticky

ASSIGNORS.update(
    {
        "ha": high_availability,
        "sticky": sticky,
        "legacy-sticky": legacy_sticky,
        "fallback-prior": fallback_prior,
    }
)

__all__ = ["ASSIGNORS"]
