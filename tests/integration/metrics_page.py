"""`scripts/metrics-page`: writes the reference of docs/metrics.md, and docs/metrics.txt, from a real agent.

Names, types, labels, meanings and samples are those of the exposition. The rest of the page, above the mark, is written
by hand.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

PAGE: Final = Path(__file__).parents[2] / "docs" / "metrics.md"
SAMPLES: Final = PAGE.with_suffix(".txt")
MARK: Final = "<!-- what follows is written by scripts/metrics-page -->\n"
_HISTOGRAM: Final = ("_bucket", "_count", "_sum")
_UNSAMPLED: Final = {"samerack_members_wanted": 'samerack_members_wanted{group="orders",rack="rack-a"} 1.0'}
"""A sample of what the agent of the page does not know, as none of its members has been behind."""


_HEAD: Final = """
## Every metric

Name, type, labels and meaning. Unknown values have no series. [A sample of each](metrics.txt) is from an agent that
leads the group `orders` and observes `reports`.

"""


def reference(families: Iterable[Metric]) -> str:
    """The reference: a list of all metrics."""
    return _HEAD + "".join(f"{row(family)}\n" for family in families)


def samples(exposition: str) -> str:
    """A sample of each metric."""
    families = text_string_to_metric_families(exposition)
    return "".join(f"{line}\n" for family in families for line in _samples(family, exposition))


def row(family: Metric) -> str:
    """One metric's entry in the list."""
    labels = "".join(f", `{name}`" for name in labels_of(family))
    return f"- `{shown(family)}` ({family.type}{labels}): {family.documentation}"


def labels_of(family: Metric) -> list[str]:
    """The label names of a family, without a histogram's `le`."""
    if not family.samples and family.name in _UNSAMPLED:
        (family,) = text_string_to_metric_families(_UNSAMPLED[family.name])
    return sorted({name for sample in family.samples for name in sample.labels} - {"le"})


def shown(family: Metric) -> str:
    """The metric's name in queries."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def _samples(family: Metric, exposition: str) -> list[str]:
    """The first sample above zero, or the first; of a histogram the last bucket, count and sum."""
    names = [f"{family.name}{part}" for part in _HISTOGRAM] if family.type == "histogram" else [shown(family)]
    found = []
    for name in names:
        lines = [line for line in exposition.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        above = [line for line in lines if not line.endswith(" 0.0") and ('le="' not in line or 'le="+Inf"' in line)]
        found.append((above or lines or [_UNSAMPLED[name]])[0])
    return found


def main() -> int:
    """Measure, and rewrite the page."""
    from tests.integration.monitored import monitored  # noqa: PLC0415 - needs brokers, clients

    with tempfile.TemporaryDirectory() as folder, monitored(Path(folder)) as agent:
        exposition = agent.get("/metrics")[1]
    written = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(written + MARK + reference(text_string_to_metric_families(exposition)), encoding="utf-8")
    SAMPLES.write_text(samples(exposition), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
