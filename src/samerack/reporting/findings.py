"""Findings about a configuration, as values: each has a cause and a cure, and whether it costs money."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from samerack.common.records import JsonAnswer
from samerack.reporting.report import CostSums


class Code(Enum):
    """The kinds of findings; the value is the label in metrics and JSON."""

    BROKERS_WITHOUT_RACK = "brokers-without-rack"
    NO_RACK_AWARE_SELECTOR = "no-rack-aware-selector"
    MEMBERS_WITHOUT_RACK = "members-without-rack"
    RACK_ONLY_IN_FETCH = "rack-only-in-fetch"
    RACKS_DIFFER_IN_CASE = "racks-differ-in-case"
    RACKS_NEVER_MEET = "racks-never-meet"
    ZONE_NAME_AGAINST_ID = "zone-name-against-id"
    FOLLOWERS_DO_NOT_SERVE = "followers-do-not-serve"
    AT_RANDOM_BASELINE = "at-random-baseline"
    NO_COMMON_PROTOCOL = "no-common-protocol"
    GROUP_FULL = "group-full"
    BROKER_ASSIGNED = "broker-assigned-without-racks"
    ASSIGNOR_ON_SOME_BROKERS = "assignor-on-some-brokers"
    UNEVEN_OVER_RACKS = "uneven-over-racks"
    COPARTITIONING = "copartitioning"
    REPLICAS_PREVENT_LOCALITY = "replicas-prevent-locality"
    AVOIDABLE = "avoidable-traffic"
    LAG_GROWS_IN_RACK = "lag-grows-in-rack"
    NO_READER = "no-reader"
    NOT_ALLOWED = "not-allowed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem.

    Attributes:
        where: the group, brokers or request that it concerns.
        cause: what is wrong, with the figures that show it.
        costs: whether it causes avoidable cross-rack traffic at a price above zero.
        dollars_per_month: what its cure alone would save now; two cures of the same bytes each have all of them. None
            if not known.
        guessed: whether that is what it may come to, as the racks that members would have are not known.
    """

    code: Code
    where: str
    cause: str
    cure: str
    costs: bool = True
    dollars_per_month: float | None = None
    guessed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings(CostSums):
    """All findings at one moment, with the sums of the report.

    Attributes:
        findings: those that cost money first, of them the one whose cure alone saves most.
        window_seconds: how long bytes were measured.
        prices: the price table, in one line.
        bootstrap: `bootstrap.servers` of the checked cluster.
    """

    findings: tuple[Finding, ...]
    groups: int
    brokers: int
    window_seconds: float
    prices: str
    bootstrap: str

    @property
    def first(self) -> Finding | None:
        """The finding whose cure alone saves most now; None if none is known to save anything."""
        return next((finding for finding in self.findings if finding.costs and finding.dollars_per_month), None)

    @property
    def costs(self) -> bool:
        """Whether anything costs money."""
        return any(finding.costs for finding in self.findings)


_JSON: Final = JsonAnswer(Findings, "is not a list of findings")
to_json, from_json = _JSON.to_json, _JSON.from_json
"""The JSON of `GET /v1/findings` and `samerack verify --json`."""
