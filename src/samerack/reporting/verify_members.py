"""Checks whether racks of members are known: from themselves, or where their clients tell their group none.

What such members read across racks is not known, so that its price is a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from samerack.cluster.racks import sends_rack_only_in_fetch
from samerack.reporting.evidence import Evidence, in_group
from samerack.reporting.findings import Code, Finding

_SET_RACK: Final = (
    "set client.rack to the member's availability zone, or name its rack in racks.client_ids or racks.networks; "
    "clients that send it with fetches only (kafka-python, aiokafka, sarama, kafkajs) need that, and a place in "
    "racks.fetch_with_rack"
)


def members_without_rack(evidence: Evidence) -> Iterator[Finding]:
    """Finds members whose rack no source knows."""
    for group, cost in evidence.pairs:
        bare = [member for member in group.members if member.rack.rack is None]
        if not bare or len(evidence.racks) < 2:
            continue
        fetching = [one for one in bare if group.kind == "classic" and sends_rack_only_in_fetch(one.client_id)]
        others = [member for member in bare if member not in fetching]
        for members, code, cause, cure in (
            (others, Code.MEMBERS_WITHOUT_RACK, "have no rack", _SET_RACK),
            (fetching, Code.RACK_ONLY_IN_FETCH, "send a rack with fetches only, if any", _name_racks(evidence.racks)),
        ):
            if not members:
                continue
            names = ", ".join(sorted({member.client_id for member in members})[:3])
            guess = cost.guessed_dollars_per_month
            yield Finding(
                code=code,
                where=in_group(group),
                cause=f"{len(members)} of {len(group.members)} members {cause} ({names}): they get any partition"
                + ("" if guess is None else "; priced as read at random"),
                cure=cure,
                costs=True,
                dollars_per_month=None if guess is None else guess * len(members) / len(bare),
                guessed=guess is not None,
            )


def _name_racks(racks: Sequence[str]) -> str:
    """Returns how members become known whose client tells the group no rack; with the names of some racks."""
    patterns = {f"*-{rack}": rack for rack in racks[:3]}
    return (
        "give each member its rack (client_rack, RackID or rackId), and a client id that ends with it; then set "
        f"racks.client_ids={json.dumps(patterns)} and racks.fetch_with_rack={json.dumps(list(patterns))}"
        + (", and so on" if len(racks) > len(patterns) else "")
    )
