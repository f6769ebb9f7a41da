"""Settings that decide when the agent itself triggers a rebalance, for all groups and for single ones."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import Field, field_validator

from samerack.common.patterns import first_match
from samerack.settings.base import Seconds, Section, with_rules


class WindowSettings(Section):
    """A time of day, week or month that comes again and again."""

    cron: str = Field(
        description="When the window opens, as in a crontab: minute, hour, day of month, month, day of week.",
        examples=["0 2 * * *"],
    )
    minutes: float = Field(gt=0, description="How long the window is open.", examples=[120])
    timezone: str = Field(
        default="UTC", description="Time zone of `cron`: a name from the IANA database.", examples=["Europe/Berlin"]
    )

    @field_validator("cron")
    @classmethod
    def _cron_comes(cls, cron: str) -> str:
        if len(cron.split()) != 5:
            raise ValueError("expected five fields: minute, hour, day of month, month, day of week")
        try:
            coming = next(CronSim(cron, datetime.now(UTC)), None)
        except CronSimError as error:
            raise ValueError(f"is not a valid crontab time ({error})") from None
        if coming is None:
            raise ValueError("does not occur within fifty years")
        return cron

    @field_validator("timezone")
    @classmethod
    def _timezone_is_known(cls, timezone: str) -> str:
        try:
            ZoneInfo(timezone)
        except (KeyError, OSError, ValueError):
            raise ValueError(
                "unknown time zone; expected a name from the system's tzdata, such as Europe/Berlin"
            ) from None
        return timezone


class PolicyRules(Section):
    """What may differ by group."""

    mode: Literal["act", "propose"] = Field(
        default="act",
        description="`act` triggers worthwhile rebalances; `propose` only reports rebalances for racks or traffic.",
    )
    min_saving: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Minimum saving for a rebalance, as a share of what the group reads: of bytes once they are "
        "measured, before that of partitions; with `leading.weigh_by: partitions` of partitions, and also of bytes if "
        "measured. Every minimum must be exceeded.",
    )
    min_saving_bytes_per_second: float = Field(
        default=0.0, ge=0, description="Minimum saving in measured bytes per second; 0: no minimum."
    )
    min_saving_dollars_per_day: float = Field(
        default=0.0, ge=0, description="Minimum saving in dollars per day, by `money.prices`; 0: no minimum."
    )
    max_pause_seconds: float = Field(
        default=10.0,
        ge=0,
        description="Maximum pause that a rebalance for racks or traffic may cause, judging by the group's last "
        "rebalances; 0: no limit.",
    )
    member_session_seconds: Seconds = Field(
        default=45.0,
        description="The longest `session.timeout.ms` of the group's members, which brokers do not report: how long a "
        "rebalance waits for members that may be dead or restarting. The default is that of most clients.",
    )
    burst: int = Field(default=3, ge=1, description="Rebalances that may follow one another without a pause.")
    refill_seconds: Seconds = Field(default=60.0, description="Time after which the budget gains one rebalance.")
    max_per_hour: int = Field(default=12, ge=1, description="Maximum number of rebalances in any hour.")
    windows: tuple[WindowSettings, ...] = Field(
        default=(),
        description="Time windows in which rebalances may be triggered; empty: always.",
        examples=[[{"cron": "0 2 * * *", "minutes": 120, "timezone": "Europe/Berlin"}]],
    )
    breaker_failures: int = Field(
        default=2, ge=1, description="Consecutive failed rebalances after which the agent stops triggering them."
    )
    breaker_seconds: Seconds = Field(
        default=3600.0, description="How long it then triggers none; after that it tries one."
    )


class LagRules(Section):
    """How far a group may be behind; this may differ by group."""

    max_seconds: float = Field(
        default=0.0,
        ge=0,
        description="Lag in seconds above which load is taken from members whose lag grows, if others have room; 0: "
        "never.",
    )
    keep_seconds: Seconds = Field(
        default=3600.0,
        description="How long the plan that ended the lag is kept after all members have caught up; 24 times as long "
        "if lag grew again within six times that.",
    )


class LagSettings(LagRules):
    """The lag guard, for all groups."""

    groups: dict[str, LagRules] = Field(
        default_factory=dict,
        description="Limits of individual groups: maps shell patterns of group names to keys of this section; the "
        "first match wins.",
        examples=[{"orders-*": {"max_seconds": 60}}],
    )

    def of(self, group: str) -> LagRules:
        """Return the limits of one group."""
        return with_rules(self, first_match(self.groups, group))


class PolicySettings(PolicyRules):
    """When a rebalance is worth it, for all groups."""

    groups: dict[str, PolicyRules] = Field(
        default_factory=dict,
        description="Rules for individual groups: maps shell patterns of group names to keys of this section; the "
        "first match wins.",
        examples=[{"orders-*": {"mode": "propose", "min_saving": 0.1}}],
    )

    def of(self, group: str) -> PolicyRules:
        """Return the rules for one group."""
        return with_rules(self, first_match(self.groups, group))
