"""Group states for hypothesis: small, with all facts known unless `gaps` is set."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from samerack.common.records import UNKNOWN, GroupState, MemberState, TopicState

RACKS = ("rack-a", "rack-b", "rack-c", "rack-d")
RATES = st.integers(1, 1000).map(float)
POWERS = st.integers(0, 10).map(lambda power: 2.0**power)
"""Rates that are as good as the agent's weights."""


@st.composite
def states(
    draw: st.DrawFn, *, topics: int = 3, gaps: bool = False, rate: st.SearchStrategy[float] = RATES
) -> GroupState:
    """A random group; with `gaps` some racks, owners and rates are unknown.

    Args:
        draw: the draw function of hypothesis.
        topics: the largest number of topics.
        gaps: whether racks, owners and rates may be unknown.
        rate: the bytes per second of a partition.
    """
    racks = draw(st.integers(1, len(RACKS)))
    members = draw(st.integers(1, 5))
    lowest = UNKNOWN if gaps else 0
    count = draw(st.integers(1, topics))
    sizes = draw(st.lists(st.integers(1, 7), min_size=count, max_size=count))
    rack = st.integers(lowest, racks - 1)
    return GroupState(
        id="1",
        agent="a",
        cluster="c",
        group="g",
        at=1,
        kind="classic",
        state="Stable",
        assignor=draw(st.sampled_from(["roundrobin", "range", "sticky", "cooperative-sticky"])),
        role=draw(st.sampled_from(["", "leading"])),
        rack_aware_fetch=draw(st.booleans()),
        racks=RACKS[:racks],
        broker_racks=racks,
        members=tuple(
            MemberState(
                id=f"m{number}",
                client_id="c",
                rack=draw(rack),
                fetches_with_rack=draw(st.booleans()),
                topics=tuple(range(count)),
                tells_rack=draw(st.sampled_from((None, False, True))),
            )
            for number in range(members)
        ),
        topics=tuple(
            TopicState(
                name=f"t{number}",
                replicas=tuple(
                    tuple(draw(st.lists(rack, min_size=1, max_size=3, unique=not gaps))) for _ in range(size)
                ),
                owner=tuple(draw(st.integers(lowest, members - 1)) for _ in range(size)),
                bytes_per_second=()
                if gaps and draw(st.booleans())
                else tuple(draw(st.lists(rate, min_size=size, max_size=size))),
            )
            for number, size in enumerate(sizes)
        ),
    )


def shuffled(state: GroupState, seed: int) -> GroupState:
    """The same group with its members and topics in another order."""
    random = Random(seed)  # noqa: S311 - an order, not a secret
    members, topics = list(range(len(state.members))), list(range(len(state.topics)))
    random.shuffle(members)
    random.shuffle(topics)
    return state.model_copy(
        update={
            "members": tuple(
                state.members[old].model_copy(
                    update={"topics": tuple(topics.index(topic) for topic in state.members[old].topics)}
                )
                for old in members
            ),
            "topics": tuple(
                state.topics[old].model_copy(
                    update={
                        "owner": tuple(
                            members.index(owner) if owner != UNKNOWN else UNKNOWN for owner in state.topics[old].owner
                        )
                    }
                )
                for old in topics
            ),
        }
    )
