"""Values for property tests of the protocol: names with every kind of character, partitions in any order."""

from __future__ import annotations

from string import ascii_letters, digits

from hypothesis import strategies as st

from samerack.protocol.values import Assignment, Subscription, from_pairs

INT32 = st.integers(-(2**31), 2**31 - 1)
NAMES = st.one_of(
    st.text(ascii_letters + digits + "._-", min_size=1, max_size=12),
    st.text(st.characters(codec="utf-8"), max_size=8),
)
VERSIONS = st.integers(0, 3)
USER_DATA = st.none() | st.binary(max_size=12)


@st.composite
def pairs(draw: st.DrawFn) -> list[tuple[str, int]]:
    """(topic, number) pairs of a few topics in any order, some of them twice."""
    topics = draw(st.lists(NAMES, min_size=1, max_size=6))
    return draw(st.lists(st.tuples(st.sampled_from(topics), INT32), max_size=20))


PARTITIONS = pairs().map(from_pairs)

SUBSCRIPTIONS = st.builds(
    Subscription,
    version=VERSIONS,
    topics=st.lists(NAMES, max_size=6).map(tuple),
    user_data=USER_DATA,
    owned=PARTITIONS,
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | NAMES.filter(bool),
    trailing=st.binary(max_size=5),
)

ASSIGNMENTS = st.builds(
    Assignment, version=VERSIONS, partitions=PARTITIONS, user_data=USER_DATA, trailing=st.binary(max_size=5)
)


@st.composite
def damaged(draw: st.DrawFn, messages: st.SearchStrategy[bytes]) -> bytes:
    """A valid message after a few cuts, insertions and overwritten bytes, or any bytes."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=60))
    data = bytearray(draw(messages))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        until = at + draw(st.integers(0, 4))
        data[at:until] = draw(st.sampled_from([b"\xff", b"\x7f\xff\xff\xff", b"\x80"]) | st.binary(max_size=4))
    return bytes(data)
