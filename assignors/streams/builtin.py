"""The task assignors by name, for the agent, command lines and tests that choose one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from samerack.assignors.streams.ha import high_availability
from samerack.assignors.streams.sticky import fallback_prior, legacy_sticky, sticky

if TYPE_CHECKING:
    from collections.abc import Callable

    from samerack.assignors.streams.registry import Outcome, Request

ASSIGNORS: Final[dict[str, Callable[[Request], Outcome]]] = {
    "ha": high_availability,
    "sticky": sticky,
    "legacy-sticky": legacy_sticky,
    "fallback-prior": fallback_prior,
}
"""Each assignor by the name that Kafka's users know, such as `ha` and `sticky`."""
