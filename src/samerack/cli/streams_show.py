"""Shows a live Kafka Streams application and its options as tables."""

from __future__ import annotations

from typing import Any, Final

from rich.table import Table

from samerack.common import words
from samerack.common.console import USUAL, WIDE, Column, Console, table_of

_UNKNOWN = words.UNKNOWN


def show(report: dict[str, Any], console: Console) -> None:
    """Print the report of `cli.streams_report`: clients, options, placements of standbys, what is not known."""
    console.print(f"{report['application']} ({report['protocol']}), served by {report['replicas_that_serve']}")
    console.print(_clients(report, console.width))
    for one in report["subtopologies"]:
        console.print(_subtopology(one, report))
    console.print(_options(report, console.width))
    if report["standby_placements"]:
        console.print("standbys, after min_traffic for actives")
        console.print(_placements(report, console.width))
    for why, names in _obstacles(report["options"]).items():
        console.print(f"{'; '.join(names)}: {why}")
    console.print(f"bytes a second across racks; {report['prices']}")
    for line in report["advice"]:
        console.print(f"what to do: {line}")
    for one in report["unknown"]:
        console.print(f"not known: {one['what']}: {one['cause']}")


def _obstacles(options: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return why there is no plan, or why racks do not count in one, with the options that this concerns."""
    found: dict[str, list[str]] = {}
    for one in options:
        why = one["error"] or one["obstacle"]
        if why and _name(one) not in found.setdefault(why, []):
            found[why].append(_name(one))
    return found


def _clients(report: dict[str, Any], width: int) -> Table:
    clients = report["clients"]
    return table_of(
        (
            Column(title="client", cells=[f"{one['process']} {one['host']}" for one in clients]),
            Column(title="rack", cells=[one["rack"] or _UNKNOWN for one in clients]),
            Column(title="from", cells=[one["rack_from"] for one in clients], from_width=WIDE),
            Column(title="active", cells=[" ".join(one["active"]) for one in clients]),
            Column(title="standby", cells=[" ".join(one["standby"]) for one in clients]),
            Column(title="threads", cells=[str(one["threads"]) for one in clients], number=True, from_width=WIDE),
            Column(title="sources\nacross", cells=[_across(one["sources"]) for one in clients], number=True),
            Column(title="changelogs\nacross", cells=[_across(one["changelogs"]) for one in clients], number=True),
        ),
        width=width,
    )


def _across(reads: dict[str, Any] | None) -> str:
    if reads is None:
        return _UNKNOWN
    unknown = f"\n+ {reads['unknown']} unknown" if reads["unknown"] else ""
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


def _options(report: dict[str, Any], width: int) -> Table:
    rows = [["now", *_figures(report["present"]), _UNKNOWN, words.count(report["present"]["beside_active_rack"])]]
    for one in report["options"]:
        bill = one["bill"]
        if bill is None:
            rows.append([_name(one), str(one["num_standby_replicas"]), *(_UNKNOWN,) * 9])
        else:
            followups = words.count(one["followup_rebalances"])
            rows.append([_name(one), *_figures(bill), followups, words.count(bill["beside_active_rack"])])
    names, *figures = (list(column) for column in zip(*rows, strict=True))
    return table_of(
        (
            Column(title="assignor, strategy", cells=names),
            *(
                Column(title=title, cells=cells, number=True, from_width=from_width)
                for (title, from_width), cells in zip(_FIGURES, figures, strict=True)
            ),
        ),
        width=width,
    )


_FIGURES: Final = (
    ("standbys", 0),
    ("sources\nacross", 0),
    ("bytes", WIDE),
    ("changelogs\nacross", 0),
    ("bytes", WIDE),
    ("a month", 0),
    ("moved", USUAL),
    ("restored", USUAL),
    ("follow-ups", WIDE),
    ("in active's\nrack", WIDE),
)
"""The figures of an option, and from how many columns of the terminal on each is shown."""


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


def _placements(report: dict[str, Any], width: int) -> Table:
    placements = report["standby_placements"]
    figures = {
        "changelogs\nacross": "cross_rack",
        "moved": "moved",
        "in active's\nrack": "beside_active_rack",
        "tasks in\none rack": "single_rack",
    }
    return table_of(
        (
            Column(title="rule", cells=[one["strategy"] for one in placements]),
            *(
                Column(title=title, cells=[str(one[key]) for one in placements], number=True)
                for title, key in figures.items()
            ),
        ),
        width=width,
    )
