"""Shows a live Kafka Streams application and its options as tables."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

from samerack.common import words
from samerack.common.console import Console

_UNKNOWN = words.UNKNOWN


def show(report: dict[str, Any], console: Console) -> None:
    """Prints the report of `cli.streams_report`: clients, options, placements of standbys, what is not known."""
    console.print(_clients(report))
    for one in report["subtopologies"]:
        console.print(_subtopology(one, report), highlight=False)
    console.print(_options(report))
    if report["standby_placements"]:
        console.print(_placements(report))
    for why, names in _obstacles(report["options"]).items():
        console.print(f"{'; '.join(names)}: {why}", highlight=False)
    console.print(f"bytes a second across racks; {report['prices']}", highlight=False)
    for line in report["advice"]:
        console.print(f"what to do: {line}", highlight=False)
    for one in report["unknown"]:
        console.print(f"not known: {one['what']}: {one['cause']}", highlight=False)


def _obstacles(options: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Returns why there is no plan, or why racks do not count in one, with the options that this concerns."""
    found: dict[str, list[str]] = {}
    for one in options:
        why = one["error"] or one["obstacle"]
        if why and _name(one) not in found.setdefault(why, []):
            found[why].append(_name(one))
    return found


def _clients(report: dict[str, Any]) -> Table:
    title = f"{report['application']} ({report['protocol']}), served by {report['replicas_that_serve']}"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("client", "rack", "from", "active", "standby"):
        table.add_column(column, overflow="fold")
    for column in ("threads", "sources across", "changelogs across"):
        table.add_column(column, justify="right")
    for one in report["clients"]:
        table.add_row(
            f"{one['process']} {one['host']}",
            one["rack"] or _UNKNOWN,
            one["rack_from"],
            " ".join(one["active"]),
            " ".join(one["standby"]),
            str(one["threads"]),
            _across(one["sources"]),
            _across(one["changelogs"]),
        )
    return table


def _across(reads: dict[str, Any] | None) -> str:
    if reads is None:
        return _UNKNOWN
    unknown = f" (+ {reads['unknown']} not known)" if reads["unknown"] else ""
    return f"{reads['across']}{unknown}"


def _subtopology(one: dict[str, Any], report: dict[str, Any]) -> str:
    logs = [
        f"{log['topic']} (by {log['known_by']})"
        for log in report["changelogs"]
        if log["subtopology"] == one["subtopology"]
    ]
    state = {True: "with state", False: "without state", None: "state not known"}[one["stateful"]]
    reads = f"subtopology {one['subtopology']}: {one['tasks']} tasks {state}; reads {', '.join(one['sources'])}"
    return reads + (f"; changelogs {', '.join(logs)}" if logs else "")


def _name(one: dict[str, Any]) -> str:
    return f"{one['assignor']}, {one['strategy']}"


def _options(report: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("assignor, strategy", overflow="fold")
    for column in (
        "standbys",
        "sources across",
        "bytes",
        "changelogs across",
        "bytes",
        "a month",
        "moved",
        "restored",
        "follow-ups",
        "in active's rack",
    ):
        table.add_column(column, justify="right")
    table.add_row("now", *_figures(report["present"]), _UNKNOWN, words.count(report["present"]["beside_active_rack"]))
    for one in report["options"]:
        bill = one["bill"]
        if bill is None:
            table.add_row(_name(one), str(one["num_standby_replicas"]), *(_UNKNOWN,) * 9)
            continue
        followups = words.count(one["followup_rebalances"])
        table.add_row(_name(one), *_figures(bill), followups, words.count(bill["beside_active_rack"]))
    return table


def _figures(bill: dict[str, Any]) -> list[str]:
    changelogs = bill["changelogs"]
    return [
        str(bill["standbys"]),
        _across(bill["sources"]),
        words.rate(bill["sources"]["across_bytes_per_second"]),
        _across(changelogs),
        _UNKNOWN if changelogs is None else words.rate(changelogs["across_bytes_per_second"]),
        words.money(bill["dollars_per_month"]),
        str(bill["moved_active"] + bill["moved_standby"]),
        words.size(bill["restored_bytes"]),
    ]


def _placements(report: dict[str, Any]) -> Table:
    table = Table(title="standbys, after min_traffic for actives", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rule", overflow="fold")
    for column in ("changelogs across", "moved", "in active's rack", "tasks in one rack"):
        table.add_column(column, justify="right")
    for one in report["standby_placements"]:
        cells = (one["cross_rack"], one["moved"], one["beside_active_rack"], one["single_rack"])
        table.add_row(one["strategy"], *map(str, cells))
    return table
