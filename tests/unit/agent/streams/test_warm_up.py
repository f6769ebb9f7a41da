"""What the process that plans does before its first question."""

from __future__ import annotations

from http import HTTPStatus

from samerack.agent.streams.context import PlanContext
from samerack.agent.streams.worker import WARM_UP, plan, warm_up_question
from samerack.assignors.streams.kafka_racks import MAX_OWN_ARCS


def test_the_warm_up_is_a_plan_by_the_solvers_of_large_applications() -> None:
    """Racks count in it, tasks wait for their state, and it is too large for Kafka's own network."""
    status, _, figures = next(plan(WARM_UP, warm_up_question(), PlanContext()))
    assert status == HTTPStatus.OK
    assert figures.tasks * figures.clients > MAX_OWN_ARCS
    assert figures.warnings == ()
    assert figures.warmups > 0
