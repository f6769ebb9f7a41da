"""What the benchmarks share: their documents of results, and the pages that show these.

A page has `<!-- measured by `scripts/bench NAME --PART` -->` where a result belongs; what follows up to `<!-- end -->`
is written by the benchmark, all other text by hand.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeAlias

import psutil

Found: TypeAlias = dict[str, Any]
Parts: TypeAlias = Mapping[str, tuple[Callable[[], Found], Callable[[Found], str]]]

DOCS: Final = Path(__file__).parents[2] / "docs"
_RESULT: Final = re.compile(
    r"(?P<mark><!-- measured by `scripts/bench (?P<name>\w+) --(?P<part>\w+)` -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)
_NUMBER: Final = re.compile(r"[-+\d.,%]*")


def keep(name: str, part: str, found: Found) -> None:
    """Write what a part of a benchmark has found into its document."""
    path = _document(name)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(kept | {part: found}, indent=1) + "\n", encoding="utf-8")


def write_pages() -> None:
    """Write all pages with results anew."""
    for path in DOCS.glob("*.md"):
        page = path.read_text(encoding="utf-8")
        if (anew := with_results(page)) != page:
            path.write_text(anew, encoding="utf-8")


def with_results(page: str) -> str:
    """Return the page with the results that its marks name."""
    return _RESULT.sub(lambda match: f"{match['mark']}\n{_shown(match['name'], match['part'])}\n\n{match['end']}", page)


def _shown(name: str, part: str) -> str:
    parts: Parts = import_module(f"lab.benchmarks.{name}").PARTS
    return parts[part][1](json.loads(_document(name).read_text(encoding="utf-8"))[part])


def _document(name: str) -> Path:
    return DOCS / f"benchmarks-{name}.json"


def table(head: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown, with `|` between the titles in `head`; columns of numbers are aligned right."""
    cells = [[str(cell) for cell in row] for row in rows]
    lines = [head.split("|"), *cells]
    marks = ["--:" if all(map(_NUMBER.fullmatch, column)) else "---" for column in zip(*cells, strict=True)]
    head_line, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head_line, f"|{'|'.join(marks)}|", *rest])


def machine() -> dict[str, str]:
    """Return a description of this machine."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return {
        "processor": model[1] if model else platform.processor() or platform.machine(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "ortools": version("ortools"),
    }


def measured_on(found: Found) -> str:
    """Return the sentence on the machine of a result."""
    return f"Measured on {', '.join(f'{name} {value}' for name, value in found['machine'].items())}."


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and its children."""
    return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]


def memory(pid: int) -> dict[str, int]:
    """Return the bytes of a process and its children: the sum, and what of it is in no file."""
    found = {"pss_bytes": 0, "anonymous_bytes": 0}
    for process in tree(pid):
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
        sizes = {line.split()[0]: int(line.split()[1]) * 1024 for line in lines}
        found["pss_bytes"] += sizes["Pss:"]
        found["anonymous_bytes"] += sizes["Pss_Anon:"]
    return found


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and its children until now."""
    return sum(sum(process.cpu_times()[:2]) for process in tree(pid))


def show_progress(what: object) -> None:
    """Report progress on standard error."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")
