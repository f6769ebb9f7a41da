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

_HEAD: Final = """\
# Which strategy for Streams tasks?

<!-- made by `samerack streams compare --page`; change offline/streams_page.py instead -->

Every strategy of KIP-925, its version 4 and its rejected part, on the same applications. `samerack streams compare`
prints these tables, `samerack streams compare FILE` those of your own application.

| You want | Set |
|---|---|
| the least traffic across zones | `rack.aware.assignment.strategy=min_traffic` |
| no client that has most of a subtopology | `balance_subtopology`; it can cost some traffic |
| few moves | a higher `rack.aware.assignment.non_overlap_cost` |
| standbys in other zones than their actives | `rack.aware.assignment.tags`, which hold whatever traffic costs |

An active task reads its sources, a standby its changelogs; a partition is read across racks where no replica stands in
the client's rack. *Cost* is 10 for each such partition and 1 for each task that moves (KIP-925, 4.B.III). Every
strategy keeps how many tasks each client has.

## Actives

*Crowding* is how many tasks of one subtopology the fullest thread has more than the emptiest. `min_traffic, 1 to 10`
has the costs that StickyTaskAssignor uses by default, `version 4` counts traffic only.

"""

_STANDBYS: Final = """

## Standbys

Actives were optimised by `min_traffic` and standbys dealt by load before. `min_traffic` is the exact optimum of what
KIP-925 (4.C.I) does by swapping pairs; `racks apart` is the same where no task may be in fewer racks than before.
Option II of version 4 and the rejected 8.A put the first standby of each task apart from its active whatever it costs.

"""

_TAIL: Final = """

## What the tables say

- `min_traffic` and `version 4` read the same across racks wherever a move costs less than a partition: a move only
  decides between plans of equal traffic. At 1 to 10 nothing moves, since no task saves ten partitions.
- `balance_subtopology` costs traffic only where racks are skewed; there it is the difference between an even load per
  subtopology and zones that run one of them alone.
- Swaps stop short of the optimum for standbys, and move more than is needed.
- Without tags, saving traffic puts standbys into the rack of their active, because that is where the data is: a lost
  zone then loses both. Set tags, or keep racks apart.
- The rejected 8.A and version 4's option II agree nearly everywhere. Keeping racks apart costs as much where standbys
  were dealt apart in the first place, and moves less where they were not.

## Where samerack leaves Kafka

For whole assignors see [Where Streams plans differ from Kafka's](streams-differences.md); this is about the utilities
of KIP-924 that optimise a plan.

| Kafka's public utility | samerack | why |
|---|---|---|
| an active's changelogs count as traffic | only what it reads counts | changelogs are written, not read |
| an active that comes to its standby's client deletes that | both change places | the standby is lost |
| tags do not restrain standbys that move | tags in `rack.aware.assignment.tags` hold | KIP-925, 4.D: tags win |
| overrides need configured costs beside them | an override is enough | KIP-924 calls it an override |
| a rack missing anywhere switches all off | missing among clients or tasks to optimise | other tasks do not matter |
| `forTasks` does not limit standbys | it does | its name |
| standbys follow balance_subtopology, by pairs | they follow min_traffic, exactly | pairs can raise the cost |
| balance_subtopology moves tasks at traffic cost 0 | nothing moves | KIP-924: identical to the input |
| with tags and no standbys configured, one is placed | none is | none was wanted |
| ties follow the order of hash maps | fewer moves, then order | equal applications get equal plans |

`"compatible": true` in a line of `samerack streams optimize --lines`, and `compatible=True` in Python, give Kafka's
behaviour, except for standbys under balance_subtopology, which stay exact. With several keys of tags and several
standbys per task one standby of each task is placed at a time, exactly, until nothing gets better: the optimum in every
case that brute force could check, but not by proof.
"""


def page(instances: list[Instance]) -> str:
    """The page in Markdown."""
    actives = as_markdown(ACTIVE_HEADINGS, compare_actives(instances))
    standbys = as_markdown(STANDBY_HEADINGS, compare_standbys(instances))
    return _HEAD + actives + _STANDBYS + standbys + _TAIL
