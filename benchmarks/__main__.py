"""`python -m benchmarks [SCENARIO...]`: measures each scenario in a separate process and writes the page.

With scenario names it prints their results and writes nothing. `streams` compares tasks with Kafka and writes its own
page; `live` does so for the whole path of a leader, with Kafka and franz-go; `parity` counts how plans compare with
Kafka's. `traffic` measures the accuracy of the agent's measurement on a real Kafka, `pipeline` the speed of the fleet
pipeline on Spark, `election` what the election of 2,000 agents costs a real broker,
`footprint` what an agent and its commands cost, `broker` the brokers' assignor beside Kafka's own,
`rebalance` how long a Kafka Streams application rebalances, with Kafka's assignor and with samerack's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.footprint_report import FOOTPRINT
from benchmarks.measure import RUNS, measure
from benchmarks.report import machine, page
from benchmarks.scenarios import SCENARIOS
from benchmarks.traffic_report import table

DOCS = Path(__file__).parents[1] / "docs"
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
_WITH_MORE = (["streams"], ["parity"], ["pipeline"], ["election"], ["live"], ["broker"], ["rebalance"])
"""Modules of these names are imported only when named: only they need Java, Go or Spark."""


def main(arguments: list[str]) -> int:
    """Measure the named scenarios, or all."""
    if arguments[:1] in _WITH_MORE:
        return int(import_module(f"benchmarks.{arguments[0]}").main(arguments[1:]))
    if arguments == ["traffic"]:
        return _traffic()
    if arguments == ["footprint"]:
        return _footprint()
    if arguments[:1] == ["--one"]:
        print(json.dumps(measure(BY_NAME[arguments[1]])))  # noqa: T201 - read by the process that started this one
        return 0
    unknown = [name for name in arguments if name not in BY_NAME]
    if unknown:
        sys.stderr.write(f"no scenario {unknown[0]!r}; there are {', '.join(BY_NAME)}\n")
        return 2
    results = {
        "machine": machine(),
        "runs": RUNS,
        "scenarios": {name: _in_a_process(name) for name in arguments or BY_NAME},
    }
    if arguments:
        print(json.dumps(results, indent=2))  # noqa: T201 - the requested output
        return 0
    _write({**_written(), **results})
    return 0


def _traffic() -> int:
    """Measure accuracy and scale of the agent's measurement on a real Kafka; rewrites only that section of the page."""
    from benchmarks import traffic, traffic_scale  # noqa: PLC0415 - only this needs brokers and clients

    results = _written().get("traffic", {}) | {"machine": machine()}
    for part, measured in (("accuracy", traffic.measure), ("scale", traffic_scale.measure)):
        results[part] = measured()
        sys.stdout.write((table(results[part]) if part == "accuracy" else json.dumps(results[part], indent=2)) + "\n")
        sys.stdout.flush()
    _write({**_written(), "traffic": results})
    return 0


def _footprint() -> int:
    """Measure what an agent costs on a real Kafka; rewrites only that section of the page."""
    from benchmarks import footprint  # noqa: PLC0415 - only this needs brokers and clients

    FOOTPRINT.write_text(json.dumps(footprint.measure(), indent=2) + "\n", encoding="utf-8")
    _write(_written())
    return 0


def _written() -> dict[str, Any]:
    """Returns the results that the page shows now."""
    path = DOCS / "benchmarks.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _write(results: dict[str, Any]) -> None:
    (DOCS / "benchmarks.json").write_text(json.dumps(results, indent=2) + "\n")
    (DOCS / "benchmarks.md").write_text(page(results))


def _in_a_process(name: str) -> dict[str, Any]:
    """Measure a scenario in a separate process: its memory must not count for the next."""
    sys.stderr.write(f"{name} ... ")
    sys.stderr.flush()
    command = [sys.executable, "-m", "benchmarks", "--one", name]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own module
    measured: dict[str, Any] = json.loads(done.stdout)
    sys.stderr.write(f"{1000 * measured['total_seconds']:.0f} ms\n")
    return measured


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
