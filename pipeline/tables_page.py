"""Writes the text of docs/pipeline-tables.md from the schemas: `python -m samerack.pipeline.tables_page`."""

from __future__ import annotations

import sys
from typing import Final

from pyspark.sql.types import StructType

from samerack.pipeline.schema import TABLES

_OPENING: Final = """# The pipeline's tables

What `samerack pipeline stream` keeps, in Delta, as folders in `pipeline.tables`. Times and days are in UTC. Read them
through Delta (Spark, or any other reader of its log): beside the files of a table lie such as no version needs any
more. This page is made from the shapes in the code.
"""
_ABOUT: Final = {
    "traffic_by_minute": "One row for each cluster, group, topic, pair of racks, method, `counted_by` and minute. A\n"
    "sample counts once, and one that comes late is added to its row, within `pipeline.late_days`. Agents without a\n"
    "common election that measure the same group have rows each: take one `counted_by` for each group and minute, as\n"
    "the report does.",
    "group_states": "One row for each state of a group that an agent has published; `samerack pipeline whatif` puts\n"
    "them to any assignor.",
    "quarantine": "One row for each record that is none, with the first reason that holds. It counts in\n"
    "no other table.",
}


def page() -> str:
    """Returns the page in Markdown."""
    parts = [_OPENING]
    for name, shape in TABLES.items():
        parts.append(f"## `{name}`\n\n{_ABOUT[name]}\n\n{_columns(shape)}\n")
    return "\n".join(parts)


def _columns(shape: StructType) -> str:
    rows = ["| column | type | meaning |", "|---|---|---|"]
    rows += [f"| `{field.name}` | `{field.dataType.simpleString()}` | {field.metadata['comment']} |" for field in shape]
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(page())
