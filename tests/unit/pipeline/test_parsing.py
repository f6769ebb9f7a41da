"""What the stream reads of records without Spark: it knows the samples of agents from their text."""

from __future__ import annotations

import re

import pytest

from samerack.common.records import encode
from tests.records import SAMPLE


@pytest.mark.parametrize("election", ["", "samerack-election"])
def test_a_sample_of_an_agent_needs_no_second_parser(election: str) -> None:
    """The second parser takes several times as long, and nearly all records are samples."""
    parsing = pytest.importorskip("samerack.pipeline.parsing")
    sample = SAMPLE.model_copy(update={"client_rack": "rack-a", "replica_rack": "", "election": election})
    assert re.search(parsing._PLAIN_SAMPLE.replace(r"\z", r"\Z"), encode(sample).decode())
