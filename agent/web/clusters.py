"""What an agent of several clusters shows: one page and one `/metrics` of all, and each cluster's own pages below.

`/clusters/NAME/` has the page and the API of one cluster, as an agent of that cluster alone has them at `/`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, Metric, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from samerack.agent.web.page import css_route, headline, rendered
from samerack.agent.web.server import Check, application, metrics_route, refusal
from samerack.agent.web.tables import OF_SEVERAL, ShownGroup, group_address, groups_table
from samerack.reporting.report import Report
from samerack.reporting.report_service import ReportService
from samerack.settings.all_settings import cluster_path

_NOT_FOUND: Final = 404
OF_THE_PROCESS: Final = frozenset(
    {"samerack_memory_bytes", "samerack_settings_refused", "samerack_pod_rack", "samerack_pod_questions"}
)
"""Families of the process and not of a cluster: shown once, without the label `cluster`."""


class ClusterMetrics:
    """The metrics of several clusters as one registry: each cluster's own, with the label `cluster` added."""

    def __init__(self, registries: Mapping[str, CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterator[Metric]:
        """Yield each family once, with the samples of all clusters."""
        families: dict[str, Metric] = {}
        for cluster, registry in self._registries.items():
            for family in registry.collect():
                labels = {} if family.name in OF_THE_PROCESS else {"cluster": cluster}
                if family.name not in families:
                    families[family.name] = Metric(family.name, family.documentation, family.type, family.unit)
                elif not labels:
                    continue
                families[family.name].samples += [
                    sample._replace(labels={**labels, **sample.labels}) for sample in family.samples
                ]
        yield from families.values()

    def exposition(self) -> bytes:
        """Return them in Prometheus' text format."""
        return generate_latest(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCluster:
    """One cluster of an agent, by its name in the settings; the checks return what has ended, or does not work."""

    name: str
    reports: ReportService
    registry: CollectorRegistry
    unhealthy: Check
    unready: Check
    routes: Sequence[BaseRoute]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """One cluster in the table, and in `GET /v1/clusters`; None is not known, and `trouble` is what does not work."""

    name: str
    report: Report
    findings: int | None
    trouble: str

    @property
    def address(self) -> str:
        """The address of its page, from the page of all clusters."""
        return f"{cluster_path(self.name)[1:]}/"

    @property
    def groups(self) -> int | None:
        """How many groups were seen."""
        return len(self.report.groups) if self.report.cycle else None

    def to_json(self) -> dict[str, Any]:
        """Return it as values of JSON."""
        return {
            "cluster": self.name,
            "bootstrap": self.report.bootstrap,
            "trouble": self.trouble,
            "groups": self.groups,
            "findings": self.findings,
            "cross_rack_bytes_per_second": self.report.cross_rack_bytes_per_second,
            "cross_rack_share": self.report.totals.share,
            "dollars_per_month": self.report.totals.dollars_per_month,
            "avoidable_dollars_per_month": self.report.totals.avoidable_dollars_per_month,
            "unknown_bytes_per_second": self.report.unknown_bytes_per_second,
            "guessed_dollars_per_month": self.report.totals.guessed_dollars_per_month,
            "measured_until": self.report.window_end if self.report.cycle else None,
        }


def row(cluster: ShownCluster) -> ClusterRow:
    """Return what is shown of a cluster at this moment."""
    report = cluster.reports.report()
    return ClusterRow(
        name=cluster.name,
        report=report,
        findings=len(cluster.reports.verdict().findings) if report.cycle else None,
        trouble="; ".join(f"{part}: {why}" for part, why in cluster.unready().items()),
    )


def totals(rows: Iterable[ClusterRow]) -> dict[str, Any]:
    """Return the sums over the clusters of which both are known, None without one, and the names of the others.

    `unknown_rate` is what is read in all clusters where a rack is unknown, which is in no sum; None if that is nothing.
    """
    rows = tuple(rows)
    known, without = [], []
    for one in rows:
        rate, dollars = one.report.cross_rack_bytes_per_second, one.report.totals.dollars_per_month
        if rate is None or dollars is None:
            without.append(one.name)
        else:
            known.append((rate, dollars))
    return {
        "rate": sum(rate for rate, _ in known) if known else None,
        "dollars_per_month": sum(dollars for _, dollars in known) if known else None,
        "is_lower_bound": any(one.report.totals.is_lower_bound for one in rows if one.name not in without),
        "unknown_rate": sum(one.report.unknown_bytes_per_second or 0.0 for one in rows) or None,
        "without": without,
    }


def application_of(clusters: Sequence[ShownCluster], *, hosts: Collection[str] = ()) -> Starlette:
    """Return the application of an agent of several clusters, at least one.

    It is ready while one cluster is, whose pages are of use; `/v1/clusters` has what does not work in the others.
    Requests to the agent may use further host names.
    """
    names = ", ".join(cluster.name for cluster in clusters)

    def wrong(check: Callable[[ShownCluster], Check]) -> dict[str, str]:
        return {f"{cluster.name}: {part}": why for cluster in clusters for part, why in check(cluster)().items()}

    def unready() -> dict[str, str]:
        if all(cluster.unready() for cluster in clusters):
            return wrong(lambda one: one.unready)
        return {}

    def index(request: Request) -> Response:
        rows = tuple(map(row, clusters))
        sums = totals(rows)
        return rendered(
            "clusters.html",
            request,
            report=rows[0].report,
            clusters=rows,
            headline=headline(dollars=sums["dollars_per_month"], is_lower_bound=sums["is_lower_bound"]),
            totals=sums,
            groups=groups_table(
                [
                    ShownGroup(group=group, address=f"{one.address}{group_address(group.group)}", cluster=one.name)
                    for one in rows
                    for group in one.report.groups
                ],
                OF_SEVERAL,
                request.query_params,
            ),
        )

    def listed(_: Request) -> Response:
        return JSONResponse([row(cluster).to_json() for cluster in clusters])

    def of_no_cluster(_: Request) -> Response:
        return refusal(
            _NOT_FOUND,
            f"this agent observes several clusters ({names}): use {cluster_path('NAME')}/v1/..., in commands with "
            "--set cluster=NAME",
        )

    def metrics_of(*shown: ShownCluster) -> Route:
        return metrics_route(ClusterMetrics({one.name: one.registry for one in shown}).exposition)

    made = application(
        ClusterMetrics({cluster.name: cluster.registry for cluster in clusters}).exposition,
        healthy=lambda: wrong(lambda one: one.unhealthy),
        ready=unready,
        more=(
            Route("/", index),
            css_route(),
            Route("/v1/clusters", listed),
            Route("/v1/{path:path}", of_no_cluster, methods=["GET", "POST"]),
            *(Mount(cluster_path(cluster.name), routes=(*cluster.routes, metrics_of(cluster))) for cluster in clusters),
        ),
        hosts=hosts,
    )
    made.state.of_several = True
    return made
