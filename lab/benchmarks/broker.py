"""The brokers' assignor beside Kafka's own (JMH, with the coordinator's classes), and the long form of its proof."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from lab.benchmarks.shared import Found, Parts, measured_on, show_progress, table
from tests.parity.broker import BrokerPeer, build, compare, java

SHAPES: Final = ("10000x100000x100", "10000x500000x1000")
PARITY: Final = 100_000
AGAIN_EVERY: Final = 10
"""Of so many cases of the parity proof, one has a second run."""
AIM: Final = 5
"""How many times as long as `uniform` a group may take."""
PROOFS: Final = {"exhaustive": 200_000, "kafka": 20_000, "histories": 2_400}
_OPTIONS: Final = (
    *("-f", "1", "-bm", "sample", "-wi", "4", "-w", "2s", "-i", "3", "-r", "1s", "-prof", "gc", "-rf", "json"),
    *("-jvmArgs", "-Xms3g -Xmx3g -XX:+UseG1GC"),
)


def speed() -> Found:
    """Measure the time of an assignment for each shape and kind of group (a quarter of an hour)."""
    build()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "jmh.json"
        shape = ("-rff", str(output), "-p", f"shape={','.join(SHAPES)}", "AssignorBenchmark")
        subprocess.run(java("org.openjdk.jmh.Main", *_OPTIONS, *shape), check=True)  # noqa: S603 - our own program
        measured = json.loads(output.read_text())
    return {
        "results": [
            {
                **row["params"],
                "median": round(row["primaryMetric"]["scorePercentiles"]["50.0"], 2),
                "megabytes": round(row["secondaryMetrics"]["gc.alloc.rate.norm"]["score"] / 1e6, 2),
            }
            for row in measured
        ]
    }


def _show_speed(found: Found) -> str:
    medians: dict[tuple[str, ...], dict[str, float]] = {}
    for row in found["results"]:
        kind = "same" if row["subscription"] == "HOMOGENEOUS" else "buckets"
        change = "new" if row["change"] == "FULL" else "join"
        racks = "yes" if row["racks"] == "true" else "no"
        medians.setdefault((row["shape"], racks, kind, change), {})[row["assignor"]] = row["median"]
    rows = [
        (*group, *(f"{one[name]:.1f}" for name in ("samerack", "reading", "uniform", "range") if name in one))
        for group, one in medians.items()
    ]
    times = [one["samerack"] / one["uniform"] for one in medians.values()]
    beside_uniform = (
        f"`samerack` takes {min(times):.1f} to {max(times):.1f} times the time of `uniform`.\n"
        f"The aim of at most {AIM} times is not met in {sum(one > AIM for one in times)} of {len(times)} groups."
    )
    head = "group|racks|topics|change|samerack, ms|of it reading|uniform|range"
    return f"{table(head, rows)}\n\n{beside_uniform}\n{measured_on(found)}"


def proof() -> Found:
    """Try many more groups than `tests/parity/test_broker.py` (half an hour)."""
    build()
    found: Found = {}
    for kind, cases in PROOFS.items():
        run = subprocess.run(java("Proof", kind, str(cases)), stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - our own program
        found[kind] = json.loads(run.stdout)
        show_progress(run.stdout)
    with BrokerPeer() as peer:
        answers = (compare(peer, seed, again=seed % AGAIN_EVERY == 0) for seed in range(PARITY))
        found["parity"] = {"cases": PARITY, "different": [text for text in answers if text is not None]}
    return found


def _show_proof(found: Found) -> str:
    kafka, histories, parity = found["kafka"], found["histories"], found["parity"]
    return f"""- {found["exhaustive"]["cases"]:,} small groups, with all settings: no plan is better.
  Permuted input gives the same plan; a second run moves nothing.
- {parity["cases"]:,} groups against the Python engine of the agent: the cost differs in {len(parity["different"])}.
- {kafka["cases"]:,} groups against Kafka's `uniform` and `range`: neither is more even, nor with equal loads reads less
  across racks. `samerack` is more even or reads less across racks than `uniform` in {kafka["better_than_uniform"]:,},
  than `range` in {kafka["better_than_range"]:,}.
- {histories["cases"]:,} histories with {histories["rounds"]:,} changes: a plan is final at once, and nothing moves
  where staying costs no more."""


PARTS: Final[Parts] = {"speed": (speed, _show_speed), "proof": (proof, _show_proof)}
