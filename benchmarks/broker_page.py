"""Writes docs/benchmarks-broker.md from docs/benchmarks-broker.json."""

from __future__ import annotations

from typing import Any, Final

HEAD: Final = """# The brokers' assignor, measured

`scripts/bench broker` and `scripts/bench broker proof` wrote this page on [the assignor in the
brokers](new-protocol.md).

"""
ASSIGNORS: Final = ("samerack", "uniform", "range")
JOINED: Final = "10000x100000x100"
AIM_MS: Final = 50
AIM_RATIO: Final = 5
"""The aims: the time in which a member joins that group, and how many times as long as `uniform` any group may take."""


def page(results: dict[str, Any]) -> str:
    """Returns the page."""
    parts = [HEAD]
    if "benchmark" in results:
        parts.append(_speed(results["benchmark"]))
    if "proof" in results:
        parts.append(_proof(results["proof"]))
    return "\n".join(parts)


SPEED: Final = """## Speed

Time of one assignment: the median of three seconds after a warm-up, inside the classes that the group coordinator of
Kafka 4.4.0 puts around assignors. Groups are members x partitions x topics. `same`: all members have all topics;
`buckets`: five sets of members have topics of their own; `new`: nobody owns anything; `join`: one member joins.
`reading` is the part of `samerack` that asks the coordinator for racks and owners. Groups without racks are in [the
document](benchmarks-broker.json). Measured on {date}: {processor}, {cores} cores.

{verdict}

| group | topics | change | samerack, ms | of it reading | uniform |
|---|---|---|--:|--:|--:|
"""
PROOF: Final = """## Proof

- {exhaustive:,} small groups, with all settings: no plan is better. Permuted input gives the same plan; a second run
  moves nothing.
- {parity:,} groups against the Python engine of the agent: the cost differs in {different}.
- {kafka:,} groups against Kafka's `uniform` and `range`: neither is more even, nor with equal loads reads less across
  racks. `samerack` is more even or reads less across racks than `uniform` in {better_than_uniform:,}, than `range` in
  {better_than_range:,}.
- {histories:,} histories with {rounds:,} changes: a plan is settled at once, and nothing moves where staying costs no
  more.
"""


def _speed(benchmark: dict[str, Any]) -> str:
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in benchmark["results"]:
        key = (row["shape"], row["racks"], row["subscription"], row["change"])
        rows.setdefault(key, {})[row["assignor"]] = row
    table: list[str] = []
    ratios: dict[str, list[float]] = {}
    for (shape, racks, subscription, change), found in rows.items():
        ratio = found["samerack"]["median"] / found["uniform"]["median"]
        kind = "same" if subscription == "HOMOGENEOUS" else "buckets"
        ratios.setdefault(kind, []).append(ratio)
        if racks != "true":
            continue
        words = [shape, kind, "new" if change == "FULL" else "join"]
        cells = [_cell(found[name]) for name in ASSIGNORS[:2]]
        cells.insert(1, f"{found['reading']['median']:.1f}")
        table.append("| " + " | ".join([*words, *cells]) + " |\n")
    text = SPEED.format(
        date=benchmark["date"],
        **benchmark["machine"],
        verdict=_verdict(ratios, benchmark["results"]),
    )
    return text + "".join(table)


def _verdict(ratios: dict[str, list[float]], results: list[dict[str, Any]]) -> str:
    """Says how samerack compares with uniform, by kind of subscriptions, what a join takes, and which aims are met."""
    parts = [
        f"with `{kind}` {min(found):.1f} to {max(found):.1f} times the time of `uniform`"
        for kind, found in ratios.items()
    ]
    joins = [
        row["median"]
        for row in results
        if row["assignor"] == "samerack" and row["change"] == "INCREMENTAL" and row["shape"] == JOINED
    ]
    every = [ratio for found in ratios.values() for ratio in found]
    above = sum(ratio > AIM_RATIO for ratio in every)
    return (
        f"Where a member joins a group of {JOINED}, `samerack` takes {min(joins):.0f} to {max(joins):.0f} ms\n"
        f"(aim: {AIM_MS}). It takes {', '.join(parts)}.\n"
        f"The aim of at most {AIM_RATIO} times the time of `uniform` is not met in {above} of {len(every)} groups:\n"
        "there it takes `reading`, which `uniform` does without."
    )


def _cell(row: dict[str, Any]) -> str:
    return f"{row['median']:.1f}"


def _proof(proof: dict[str, Any]) -> str:
    counts = {kind: found["cases"] for kind, found in proof.items()}
    return PROOF.format(
        **counts,
        different=len(proof["parity"]["different"]),
        rounds=proof["histories"]["rounds"],
        better_than_uniform=proof["kafka"]["better_than_uniform"],
        better_than_range=proof["kafka"]["better_than_range"],
    )
