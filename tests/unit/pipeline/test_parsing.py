"""What the stream reads of records without Spark: it knows the samples of agents from their text."""

from __future__ import annotations

import re

import pytest

from samerack.common.records import TrafficSample, encode


@pytest.mark.parametrize("election", ["", "samerack-election"])
def test_a_sample_of_an_agent_needs_no_second_parser(election: str) -> None:
    """The second parser takes several times as long, and nearly all records are samples."""
    parsing = pytest.importorskip("samerack.pipeline.parsing")
    sample = TrafficSample(
        id="agent-1:7",
        agent="agent-1",
        cluster="kafka",
        group="orders",
        topic="orders",
        client_rack="rack-ä",
        replica_rack="",
        method="estimated",
        window_start=1,
        window_end=2,
        bytes=0,
        records=12,
        election=election,
    )
    assert re.search(parsing._PLAIN_SAMPLE.replace(r"\z", r"\Z"), encode(sample).decode())
