"""The page `docs/strategies.md`: what the strategies are, and what each makes of the same applications.

`samerack streams compare --page` prints it, and a test holds the file to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from samerack.offline.streams_compare import (
    ACTIVE_HEADINGS,
    STANDBY_HEADINGS,
    as_markdown,
    compare_actives,
    compare_standbys,
)

if TYPE_CHECKING:
    from samerack.offline.streams_instances import Instance

_SHOWN: Final = "skewed replicas"
"""The application of the page; the command shows all."""

_HEAD: Final = """\
# Which strategy for Streams tasks?

<!-- made by `samerack streams compare --page`; change src/samerack/offline/streams_page.py instead -->

| You want | Set |
|---|---|
| the least traffic across zones | `rack.aware.assignment.strategy=min_traffic` |
| no client that has most of a subtopology | `balance_subtopology`; it can cost some traffic |
| few moves | a higher `rack.aware.assignment.non_overlap_cost` |
| standbys in other zones than their actives | `rack.aware.assignment.tags`, which hold whatever traffic costs |

Without tags, saving traffic puts standbys beside their active, where the data is: a lost zone then loses both.

One of the seven applications of `samerack streams compare`; `samerack streams compare FILE` shows your own. *Cost* is
10 for each partition read across racks and 1 for each task that moves (KIP-925, 4.B.III). *Crowding* is how many tasks
of one subtopology the fullest thread has more than the emptiest. `min_traffic, 1 to 10` has StickyTaskAssignor's costs.

## Actives

"""

_STANDBYS: Final = """

## Standbys

`min_traffic` is the exact optimum of what KIP-925 (4.C.I) does by swapping pairs; `racks apart` is the same where no
task may be in fewer racks than before.

"""


def page(instances: list[Instance]) -> str:
    """The page in Markdown."""
    shown = [instance for instance in instances if instance.name == _SHOWN]
    actives = as_markdown(ACTIVE_HEADINGS, (row for row in compare_actives(shown) if _is_shown(row.strategy)))
    standbys = as_markdown(STANDBY_HEADINGS, (row for row in compare_standbys(shown) if _is_shown(row.strategy)))
    return f"{_HEAD}{actives}{_STANDBYS}{standbys}\n"


def _is_shown(strategy: str) -> bool:
    """Whether KIP-925 as it was accepted has the strategy, or samerack."""
    return not strategy.startswith(("version 4", "reliability first"))
