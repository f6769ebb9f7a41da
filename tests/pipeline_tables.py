"""Writes the text of docs/pipeline-tables.md from the schemas: `python -m tests.pipeline_tables`."""

from __future__ import annotations

import sys
from typing import Final

from pyspark.sql.types import DataType, StringType, StructType

from samerack.pipeline.schema import TABLES

_OPENING: Final = """# The pipeline's tables

What `samerack pipeline stream` keeps in `pipeline.tables`, in Delta: read them through it. Times and days are in UTC;
columns without a type are strings.
"""
_ABOUT: Final = {
    "traffic_by_minute": "A row for each sample, to be added up by cluster, group, topic, pair of racks, and minute.\n"
    "Agents without a common election have rows each: take one `counted_by` for each group and minute.",
    "traffic_by_day": "One row for each cluster, group, topic, pair of racks and day, each byte once, as maintenance\n"
    "has added it up; of days that have changed since then, reports read the minutes.",
    "group_states": "One row for each state of a group that an agent has published.",
    "quarantine": "One row for each bad record, with the first reason that holds.",
}


def page() -> str:
    """Return the page in Markdown."""
    parts = [_OPENING]
    for name, shape in TABLES.items():
        parts.append(f"## `{name}`\n\n{_ABOUT[name]}\n\n{_columns(shape)}\n")
    return "\n".join(parts)


def _columns(shape: StructType) -> str:
    return "\n".join(f"- `{field.name}`{_type(field.dataType)}: {field.metadata['comment']}" for field in shape)


def _type(kind: DataType) -> str:
    """A type, unless it is text."""
    return "" if isinstance(kind, StringType) else f", `{kind.simpleString()}`"


if __name__ == "__main__":
    sys.stdout.write(page())
