"""Measures how many groups a second the what-if computes in all scenarios, from a file of states to the ranking."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.process_tree import run_watched
from samerack.pipeline.simulate import messages
from samerack.pipeline.simulate_cast import Fleet
from samerack.pipeline.simulate_sinks import folder

GROUPS: Final = (1_000, 10_000)
PARTITIONS: Final = 50
MEMBERS: Final = 5
CORES: Final = 2


def measure() -> dict[str, Any]:
    """Returns seconds, groups per second and peak memory for each number of groups."""
    return {
        "partitions": PARTITIONS,
        "members": MEMBERS,
        "cores": CORES,
        "fleets": [_fleet(groups) for groups in GROUPS],
    }


def _fleet(groups: int) -> dict[str, Any]:
    """Measure one fleet in a separate process."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with folder(place) as sink:
            for message in messages(Fleet(groups=groups, days=0.0001, partitions=PARTITIONS, members=MEMBERS)):
                sink(message)
        run = run_watched("benchmarks.pipeline_whatif", name)
    found = run.lines[-1]
    result = {
        "groups": groups,
        **found,
        "groups_per_second": groups / found["working_seconds"],
        "seconds": run.seconds,
        "cpu_seconds": run.cpu_seconds,
        "peak_bytes": run.peak_bytes,
    }
    sys.stderr.write(
        f"{groups:,} groups: {result['groups_per_second']:,.0f} a second, {run.seconds:.0f} s in all, "
        f"{run.cpu_seconds:.0f} s of processors, {run.peak_bytes / 2**20:,.0f} MiB\n"
    )
    return result


def main(place: str) -> None:
    """Compute one fleet; prints the seconds of each step as a line of JSON."""
    from samerack.common.money import shipped  # noqa: PLC0415 - the parent process does without PySpark
    from samerack.common.settings.pipeline import PipelineSettings  # noqa: PLC0415 - see above
    from samerack.pipeline import session, whatif  # noqa: PLC0415 - see above
    from samerack.pipeline.whatif_group import Questions  # noqa: PLC0415 - see above

    begun = time.perf_counter()
    with session.opened(PipelineSettings(master=f"local[{CORES}]"), name="benchmark") as spark:
        started = time.perf_counter()
        states = whatif.chosen(whatif.states_in_files(spark, Path(place)))
        rows = whatif.ask(states, Questions(), shipped("aws")).persist()
        count = rows.count()
        worked = time.perf_counter()
        found = whatif.changes(rows).persist()
        total = whatif.totals(rows).collect()[0]
        if total.failed:
            raise SystemExit(f"{total.failed} groups could not be worked out")
        whatif.by_change(found).collect()
        whatif.ranked(found).limit(20).collect()
        ranked = time.perf_counter()
    result = {
        "start_seconds": started - begun,
        "working_seconds": worked - started,
        "ranking_seconds": ranked - worked,
        "scenarios": count,
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
