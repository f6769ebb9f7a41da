"""Writes the report's tables to files, one for each table, day by day, so that memory holds one day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
from pyarrow import csv, parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.errors import AgentError

Format: TypeAlias = Literal["csv", "parquet"]
_WRITERS: Final[Mapping[Format, Callable[[Path, pa.Schema], AbstractContextManager[Any]]]] = {
    "csv": csv.CSVWriter,
    "parquet": parquet.ParquetWriter,
}
_PART: Final = ".part"


def write(frames: Mapping[str, DataFrame], days: Iterable[date], folder: Path, kind: Format) -> tuple[Path, ...]:
    """Write each frame to a file of its name; frames with a column `day` day by day. Returns the files.

    Raises:
        AgentError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(_file(frame, tuple(days), folder / f"{name}.{kind}", kind) for name, frame in frames.items())
    except OSError as error:
        raise AgentError(f"{folder}: cannot be written ({error.strerror or error}); name another folder") from None


def _file(frame: DataFrame, days: tuple[date, ...], path: Path, kind: Format) -> Path:
    parts = [frame.where(F.col("day") == F.lit(day)) for day in days] if "day" in frame.columns else [frame]
    part = path.with_name(path.name + _PART)
    tables = (one.toArrow() for one in parts)
    first = next(tables)
    with _WRITERS[kind](part, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table.cast(first.schema))
    part.replace(path)
    return path
