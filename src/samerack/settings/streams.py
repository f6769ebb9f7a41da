"""Settings of the plans that Kafka Streams applications ask the agent for (`POST /v1/streams/assign`)."""

from __future__ import annotations

import re
from typing import Final, Literal

from pydantic import Field, field_validator

from samerack.common.patterns import first_match
from samerack.settings.base import Names, Seconds, Section

BUILT_IN: Final = ("ha", "sticky", "legacy-sticky", "fallback-prior")
"""Names of the task assignors that are part of samerack."""
_CLASS: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

Weights = Literal["partitions", "bytes"]


class StreamsRules(Section):
    """Overrides of the application's own configuration; unset keys keep the application's values."""

    assignor: str = Field(
        default="",
        description="`ha`, `sticky`, `legacy-sticky`, `fallback-prior`, or your own class as `package.module:Class` "
        "(docs/streams-python.md).",
        examples=["zones:VipAssignor"],
    )
    strategy: Literal["none", "min_traffic", "balance_subtopology"] | None = Field(
        default=None, description="In place of `rack.aware.assignment.strategy`."
    )
    standby: Literal["configured", "apart"] = Field(
        default="configured", description="`apart`: standbys go to different racks than their active tasks."
    )
    must_preserve_active: bool = Field(
        default=False, description="`sticky` only: active tasks stay where they were, regardless of balance."
    )
    compatible: bool = Field(
        default=False, description="Plan exactly as Kafka's own assignors do (docs/streams-differences.md)."
    )
    options: dict[str, str] = Field(
        default_factory=dict, description="Passed to `configure` of your own class.", examples=[{"vip": "gold"}]
    )

    @field_validator("assignor")
    @classmethod
    def _assignor_is_one(cls, name: str) -> str:
        if name and name not in BUILT_IN and not _CLASS.fullmatch(name):
            raise ValueError(f"expected one of {', '.join(BUILT_IN)}, or package.module:Class")
        return name


class StreamsSettings(Section):
    """Plans for Kafka Streams applications whose `task.assignor.class` is samerack's."""

    enabled: bool = Field(default=True, description="Whether to plan for Kafka Streams applications.")
    deadline_seconds: Seconds = Field(
        default=1.8, description="Maximum time for one plan; less than the jar's `samerack.timeout.ms`."
    )
    weights: Weights = Field(
        default="partitions",
        description="How cross-rack traffic counts: all partitions equally, or by measured bytes (requires the "
        "application in `traffic.groups`, which the agent then polls even if another one is elected to measure them).",
    )
    python_path: Names = Field(
        default=(),
        description="Folders that contain your own classes.",
        examples=[["/etc/samerack/assignors"]],
    )
    applications: dict[str, StreamsRules] = Field(
        default_factory=dict,
        description="Rules for individual applications: maps shell patterns of `application.id` to keys; the first "
        "match wins.",
        examples=[{"orders-*": {"strategy": "min_traffic", "standby": "apart"}}],
    )

    def of(self, application: str) -> StreamsRules:
        """Return the rules for one application."""
        return first_match(self.applications, application) or StreamsRules()
