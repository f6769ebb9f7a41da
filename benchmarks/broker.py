"""`scripts/bench broker [smoke|proof|page]`: measures and proves the brokers' assignor, beside Kafka's own.

Without a word it runs the benchmark (JMH, Kafka's shapes, with the coordinator's own classes), `proof` the long form of
`tests/parity/test_broker.py`; both write docs/benchmarks-broker.json and the page made of it. `smoke` runs a small
shape for seconds and writes nothing, `page` only writes the page.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.broker_page import page
from benchmarks.report import machine
from tests.parity.broker import BrokerPeer, build, compare, java

DOCS: Final = Path(__file__).parents[1] / "docs"
RESULT: Final = DOCS / "benchmarks-broker.json"
SHAPES: Final = ("10000x100000x100", "10000x500000x1000")
SMOKE: Final = ("100x1000x10",)
PARITY: Final = 100_000
AGAIN_EVERY: Final = 10
"""Of so many cases of the parity proof, one has a second run."""
PROOFS: Final = {"exhaustive": 200_000, "kafka": 20_000, "histories": 2_400}


def main(arguments: list[str]) -> int:
    """Does what the arguments say."""
    if arguments == ["page"]:
        _write({})
        return 0
    build()
    if arguments == ["smoke"]:
        measured = _measure(SMOKE, ("-wi", "1", "-w", "100ms", "-i", "1", "-r", "200ms"))
        sys.stdout.write(json.dumps(measured, indent=2) + "\n")
        return 0
    if arguments == ["proof"]:
        _write({"proof": _prove()})
        return 0
    if arguments:
        sys.stderr.write(f"no {arguments[0]!r}; there are smoke, proof and page\n")
        return 2
    before = os.getloadavg()[0]
    measured = _measure(SHAPES, ("-wi", "4", "-w", "2s", "-i", "3", "-r", "1s"))
    about = {
        "machine": machine(),
        "date": datetime.now(UTC).date().isoformat(),
        "load_average": {"before": round(before, 1), "after": round(os.getloadavg()[0], 1)},
    }
    _write({"benchmark": {**about, "results": measured}})
    return 0


def _write(found: dict[str, Any]) -> None:
    results = {**(json.loads(RESULT.read_text()) if RESULT.exists() else {}), **found}
    RESULT.write_text(json.dumps(results, indent=2) + "\n")
    (DOCS / "benchmarks-broker.md").write_text(page(results))


def _measure(shapes: tuple[str, ...], rounds: tuple[str, ...]) -> list[dict[str, Any]]:
    """Returns one row per shape, kind of group and assignor: time and allocated memory of an assignment."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "jmh.json"
        heap = "-Xms3g -Xmx3g -XX:+UseG1GC"
        options = (
            "-f",
            "1",
            "-bm",
            "sample",
            *rounds,
            "-prof",
            "gc",
            "-rf",
            "json",
            "-rff",
            str(output),
            "-jvmArgs",
            heap,
        )
        shape = ("-p", f"shape={','.join(shapes)}", "AssignorBenchmark")
        subprocess.run(java("org.openjdk.jmh.Main", *options, *shape), check=True)  # noqa: S603 - our own program
        return rows_of(json.loads(output.read_text()))


def rows_of(measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns what the page has of JMH's results."""
    return [
        {
            **row["params"],
            "fastest": round(row["primaryMetric"]["scorePercentiles"]["0.0"], 2),
            "median": round(row["primaryMetric"]["scorePercentiles"]["50.0"], 2),
            "megabytes": round(row["secondaryMetrics"]["gc.alloc.rate.norm"]["score"] / 1e6, 2),
        }
        for row in measured
    ]


def _prove() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind, cases in PROOFS.items():
        command = java("Proof", kind, str(cases))
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own program
        found[kind] = json.loads(run.stdout)
        sys.stdout.write(run.stdout)
        sys.stdout.flush()
    with BrokerPeer() as peer:
        different = [
            text for seed in range(PARITY) if (text := compare(peer, seed, again=seed % AGAIN_EVERY == 0)) is not None
        ]
    found["parity"] = {"cases": PARITY, "different": different}
    sys.stdout.write(json.dumps(found["parity"]) + "\n")
    return found
