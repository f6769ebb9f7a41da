"""`samerack pipeline ...` that kills itself and its Java in the middle of a batch, when no signal from outside would.

The batch's samples and states are then in their tables, its bad records and Spark's own note that the batch is done are
not. `command` in `stream_process` runs it in samerack's place.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Final

from samerack.cli.start import main
from samerack.pipeline import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from samerack.settings.pipeline import PipelineSettings

BATCH: Final = 1
"""The number of the batch from which on the program dies: the one before is complete."""
_append = tables.append


def dying(rows: DataFrame, settings: PipelineSettings, name: str) -> None:
    """Append rows as `tables.append`, or dies before it appends bad records."""
    if name == "quarantine" and int(rows.sparkSession.conf.get(tables._NUMBER) or 0) >= BATCH:
        os.killpg(0, signal.SIGKILL)
    _append(rows, settings, name)


if __name__ == "__main__":
    tables.append = dying
    main()
