"""Writes docs/benchmarks-broker.md from docs/benchmarks-broker.json."""

from __future__ import annotations

from typing import Any, Final

HEAD: Final = """# The brokers' assignor, measured

`scripts/bench broker` and `scripts/bench broker proof` wrote the figures on this page; what the assignor does stands in
[The assignor inside the broker](broker-assignor.md).

"""
ASSIGNORS: Final = ("samerack", "uniform", "range")


def page(results: dict[str, Any]) -> str:
    """Returns the page."""
    parts = [HEAD]
    if "benchmark" in results:
        parts.append(_speed(results["benchmark"]))
    if "proof" in results:
        parts.append(_proof(results["proof"]))
    return "\n".join(parts)


SPEED: Final = """## Speed

Time of one assignment: the fastest of two seconds, and in brackets the median; then the memory that it allocates. One
JMH run measures the three assignors, inside the classes that the group coordinator of Kafka 4.4.0 puts around them. The
groups are those of Kafka's own benchmark of server-side assignors: members x partitions x topics.
`same`: all members have all topics; `buckets`: five sets of members have topics of their own. `new`: nobody owns
anything; `join`: one member joins. Partitions have two replicas on four brokers in three racks.

Measured on {date}: {processor}, {cores} cores. Other work ran on the machine all the time (load average {before} before
and {after} after the run), so the fastest one says more than the median.

{verdict}

| group | racks | topics | change | samerack | uniform | range | samerack / uniform |
|---|---|---|---|--:|--:|--:|--:|
"""
PROOF: Final = """## Proof

- {exhaustive:,} small groups, with all settings, against every plan there is: no plan is better. Another order of the
  input gives the same plan, and a second run moves nothing.
- {parity:,} groups against the Python engine of the agent: the cost differs in {different}.
- {kafka:,} groups against Kafka's `uniform` and `range`: neither is more even, and with equal loads neither reads less
  across racks. With the order `balance,moves,racks` neither moves less where loads are equal. `samerack` is more even
  or reads less across racks than `uniform` in {better_than_uniform:,}, than `range` in {better_than_range:,}.
- {histories:,} histories with {rounds:,} changes: members join, leave and restart in another rack, replicas move,
  topics grow, subscriptions change. A plan is settled at once, and nothing moves where staying costs no more.
"""


def _speed(benchmark: dict[str, Any]) -> str:
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in benchmark["results"]:
        key = (row["shape"], row["racks"], row["subscription"], row["change"])
        rows.setdefault(key, {})[row["assignor"]] = row
    table: list[str] = []
    ratios: dict[str, list[float]] = {}
    for (shape, racks, subscription, change), found in rows.items():
        cells = [_cell(found[name]) if name in found else "" for name in ASSIGNORS]
        ratio = found["samerack"]["fastest"] / found["uniform"]["fastest"]
        kind = "same" if subscription == "HOMOGENEOUS" else "buckets"
        ratios.setdefault(kind, []).append(ratio)
        words = [shape, "yes" if racks == "true" else "no", kind, "new" if change == "FULL" else "join"]
        table.append("| " + " | ".join([*words, *cells, f"{ratio:.1f}"]) + " |\n")
    text = SPEED.format(
        date=benchmark["date"], **benchmark["machine"], **benchmark["load_average"], verdict=_verdict(ratios)
    )
    return text + "".join(table)


def _verdict(ratios: dict[str, list[float]]) -> str:
    """Says how samerack compares with uniform, by kind of subscriptions."""
    parts = [
        f"with `{kind}` {min(found):.1f} to {max(found):.1f} times the time of `uniform`"
        for kind, found in ratios.items()
    ]
    return (
        f"`samerack` takes {', '.join(parts)}.\n"
        "Most of its time goes into reading: the racks of every partition, and what every member owns. With equal\n"
        "subscriptions `uniform` reads neither: it counts what each member owns, and asks what nobody owns."
    )


def _cell(row: dict[str, Any]) -> str:
    return f"{row['fastest']:.1f} ms ({row['median']:.1f}), {row['megabytes']:.1f} MB"


def _proof(proof: dict[str, Any]) -> str:
    counts = {kind: found["cases"] for kind, found in proof.items()}
    return PROOF.format(
        **counts,
        different=len(proof["parity"]["different"]),
        rounds=proof["histories"]["rounds"],
        better_than_uniform=proof["kafka"]["better_than_uniform"],
        better_than_range=proof["kafka"]["better_than_range"],
    )
