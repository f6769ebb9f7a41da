"""What a plan is made of beyond the question: the settings of the application, and what the agent knows of it.

Plain values, which the process that plans reads without the library that checks the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from samerack.common.words import plain

MAX_NAME: Final = 249
"""Kafka's longest name of a topic; a group's name may be longer, but then brokers cannot store its offsets."""
MAX_TEXT: Final = 500
"""Characters of a reason that are kept: programs on this machine send them, into events, metrics and status."""


class NoPlanError(Exception):
    """There is no plan: the HTTP status of the answer, and the reason with a cure."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(plain(reason))
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRules:
    """The settings of one application; see `settings.streams.StreamsRules`."""

    assignor: str = ""
    strategy: str | None = None
    standby: str = "configured"
    weights: str = "partitions"
    must_preserve_active: bool = False
    compatible: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """What the agent knows of an application before it plans.

    Attributes:
        rules: the settings that apply to it.
        racks: racks by process of clients that sent none; None before the first call of the worker.
        weights: by topic the weights of its partitions, by measured bytes; None if none are known.
    """

    rules: PlanRules = field(default_factory=PlanRules)
    racks: Mapping[str, str] | None = None
    weights: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rackless:
    """A client that sent no rack, and by what the agent may know it; the host is that of `application.server`."""

    process: str
    consumers: tuple[str, ...]
    host: str | None
    tags: tuple[tuple[str, str], ...]
