"""What forbids that a group moves to the new protocol or back, what changes then, each step, and how a roll goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from samerack.assignors.evaluate import evaluate, share_without_racks
from samerack.assignors.problem import Problem
from samerack.cli.move import Roll, RollOutcome, RollState
from samerack.cluster.broker_configs import ASSIGNORS_KEY, CLASS, LINE, MAX_SIZE_KEY
from samerack.cluster.group_protocols import (
    CONSUMER_SIZE_KEY,
    HEARTBEAT_KEY,
    POLICY_KEY,
    PROTOCOLS_KEY,
    SESSION_KEY,
    BrokerProtocols,
    GroupProtocols,
    MemberProtocol,
)
from samerack.reporting.moving import Move, MoveFacts, move_of
from samerack.traffic.snapshot import GroupTraffic
from tests.commands import parsed
from tests.unit.agent.measured import RANGE, ROTATED, SPREAD, A, B, group, member, problem, weighed

CONFIGS = {
    POLICY_KEY: "bidirectional",
    PROTOCOLS_KEY: "classic,consumer",
    CONSUMER_SIZE_KEY: "2147483647",
    MAX_SIZE_KEY: "2147483647",
    ASSIGNORS_KEY: f"{CLASS},uniform,range",
    SESSION_KEY: "45000",
    HEARTBEAT_KEY: "5000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.max.session.timeout.ms": "60000",
}


def broker(release: str = "4.3", group_version: int | None = 1, **changes: str | None) -> BrokerProtocols:
    """A broker on which groups can move; a setting is changed by the last words of its name, or is not returned."""
    configs = dict(CONFIGS)
    for words, value in changes.items():
        key = next(one for one in CONFIGS if one.endswith(words.replace("_", ".")))
        del configs[key]
        if value is not None:
            configs[key] = value
    return BrokerProtocols(release=release, group_version=group_version, configs=configs)


_NEW = {"c": False, "n": True, "?": None}


def protocols(
    members: str = "ccc", *, user_data: bool = False, will_give_data: bool = False, unreadable: str = ""
) -> GroupProtocols:
    """Members of the classic protocol (c), of the new one (n), and of one that is not known."""
    return GroupProtocols(
        kind="classic" if set(members) == {"c"} else "consumer",
        state="Stable",
        members=tuple(
            MemberProtocol(
                id=f"m{number}",
                client_id=f"client-m{number}",
                instance_id=None,
                new=_NEW[one],
                user_data=user_data,
                will_give_data=will_give_data,
                unreadable=unreadable,
            )
            for number, one in enumerate(members, 1)
        ),
    )


FAR = group(made=problem(ROTATED, SPREAD, RANGE))
MOVED = group(kind="consumer", assignor="samerack")


def facts(
    measured: GroupTraffic = FAR,
    *,
    brokers: Sequence[BrokerProtocols] = (),
    members: GroupProtocols | None = None,
    **given: object,
) -> MoveFacts:
    """What is known of a group; nothing forbids its move unless parameters say otherwise."""
    made = MoveFacts(
        group=measured,
        protocols=members or protocols(),
        brokers=dict(enumerate(brokers or (broker(), broker()), 1)),
        configs={},
        bootstrap="one:9092",
    )
    return replace(made, **given)  # type: ignore[arg-type]  # fields by name


def lines(made: Move) -> list[str]:
    """All exact lines of the steps."""
    return [line for step in made.steps for line in step.lines]


def test_a_group_that_may_move_has_shares_settings_and_steps() -> None:
    """The shares of what there is and could be; the brokers' times; the jar is there, so that no client asks for it."""
    made = move_of(facts(), back=False)
    assert (made.obstacles, made.warnings, made.moved, made.classic_members, made.new_members) == ((), (), False, 3, 0)
    assert [one.share for one in made.shares] == [pytest.approx(2 / 3), pytest.approx(2 / 3), 0.0, 0.0]
    then = {one.setting: (one.now, one.then) for one in made.settings}
    assert then["session.timeout.ms"] == (
        "unknown: the client's own, by default 45000",
        "45000 (group.consumer.session.timeout.ms); 45000 to 60000 for one group (consumer.session.timeout.ms)",
    )
    assert then["heartbeat.interval.ms"][1] == "5000 (group.consumer.heartbeat.interval.ms)"
    assert then["max.poll.interval.ms"][1] == "the same"
    assert then["assignor"] == ("range", "samerack (the brokers' first), or group.remote.assignor")
    assert (made.steps[0].lines, made.steps[0].done) == ((LINE,), True)
    assert "group.protocol=consumer" in lines(made)
    assert not [line for line in lines(made) if line.startswith("group.remote.assignor")]
    assert "session.timeout.ms" in made.unknown[0]


def test_every_command_of_the_steps_is_complete() -> None:
    """They are the real command line's, with the group and brokers."""
    for back, of in ((False, facts()), (True, facts(MOVED, members=protocols("nnn")))):
        made = move_of(of, back=back)
        commands = [parsed(line) for line in lines(made) if line.startswith("samerack ")]
        assert [(name, given["group"], given.get("back", False)) for name, given in commands] == [
            ("move", "orders", back),
            ("cost", "orders", False),
        ]
        assert commands[0][1]["watch"]


@pytest.mark.parametrize(
    ("assignors", "done", "asks"),
    [
        ((f"{CLASS},uniform",) * 2, True, False),
        ((f"uniform,{CLASS}",) * 2, True, True),
        ((f"{CLASS},uniform", "uniform"), False, True),
        (("uniform", "uniform"), False, True),
        ((None, None), None, True),
    ],
)
def test_members_ask_for_the_assignor_only_where_it_is_not_the_brokers_first(
    assignors: tuple[str | None, ...],
    done: bool | None,  # noqa: FBT001 - a column of the table
    asks: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """Asked for before every broker has it, the members are refused: the step says so."""
    made = move_of(facts(brokers=[broker(assignors=one) for one in assignors]), back=False)
    assert made.steps[0].done is done
    assert ("group.remote.assignor=samerack" in lines(made)) is asks
    assert ("UNSUPPORTED_ASSIGNOR" in made.steps[2].what) is asks


@pytest.mark.parametrize(
    ("changed", "cause", "cure"),
    [
        (broker("3.9", 0, policy="disabled"), "broker 2: Kafka before 4.0", "4.1 or newer"),
        (broker(group_version=0), "group.version is 0", "kafka-features.sh --bootstrap-server one:9092 upgrade"),
        (broker(protocols="classic"), "broker 2: group.coordinator.rebalance.protocols is classic", "classic,consumer"),
        (
            broker(policy="disabled"),
            "group.consumer.migration.policy is disabled: the first",
            "bidirectional",
        ),
        (broker(policy="DOWNGRADE"), "group.consumer.migration.policy is downgrade", "bidirectional"),
        (broker(consumer_max_size="2"), "group.consumer.max.size is 2, and the group has 3 members", "raise"),
    ],
)
def test_one_broker_forbids_the_move(changed: BrokerProtocols, cause: str, cure: str) -> None:
    """Any broker may become the group's coordinator."""
    made = move_of(facts(brokers=[broker(), changed]), back=False)
    assert any(cause in one.cause and cure in one.cure for one in made.obstacles), made.obstacles


@pytest.mark.parametrize(
    ("measured", "members", "cause"),
    [
        (
            FAR,
            protocols(user_data=True),
            "client-m1, client-m2, client-m3 have user data of range",
        ),
        (
            replace(FAR, assignor="cooperative-sticky"),
            protocols(will_give_data=True),
            "client-m1, client-m2, client-m3 use librdkafka's cooperative-sticky: as leaders they put user data into",
        ),
        (
            FAR,
            protocols(unreadable="subscription: short"),
            "client-m3 cannot be read, and",
        ),
        (replace(FAR, kind="streams-classic"), None, "it is a Kafka Streams application"),
        (replace(FAR, kind="other", note="protocol type connect"), None, "protocol type connect"),
    ],
)
def test_what_members_forbid_is_named_before_harm(
    measured: GroupTraffic, members: GroupProtocols | None, cause: str
) -> None:
    """User data of assignments, malformed metadata, and groups of other programs."""
    (obstacle,) = move_of(facts(measured, members=members), back=False).obstacles
    assert cause in obstacle.cause
    assert obstacle.cure
    assert ("let an agent lead the group" in obstacle.cure) is (measured.assignor == "cooperative-sticky")


def test_librdkafkas_cooperative_sticky_moves_while_an_agent_leads() -> None:
    """The agent gives no user data, so that nothing is in the way."""
    measured = replace(FAR, assignor="cooperative-sticky")
    assert move_of(facts(measured, members=protocols(will_give_data=True), led=True), back=False).obstacles == ()


@pytest.mark.parametrize(
    ("client_id", "version", "why"),
    [
        ("kafka-python-2.0.2", 0, "kafka-python has no new protocol"),
        ("sarama", 1, "sarama has no new protocol"),
        ("billing", 1, "subscription of version 1, too old"),
        ("billing", 3, None),
    ],
)
def test_clients_without_the_new_protocol_are_named(client_id: str, version: int, why: str | None) -> None:
    """By the client ids that libraries have by default, and by the version of their subscriptions."""
    first, *rest = FAR.members
    changed = replace(FAR, members=(replace(first, client_id=client_id, version=version), *rest))
    found = move_of(facts(changed), back=False).obstacles
    assert [one.cause for one in found] == ([f"member {client_id} cannot move: {why}"] if why else [])
    converted = facts(replace(changed, kind="consumer"), members=protocols("cnn"))
    assert move_of(converted, back=False).obstacles == ()


def test_what_a_move_costs_is_a_warning() -> None:
    """Static members, racks that brokers do not know, 4.0, one-way policies, and the end of an agent's lead."""
    static = tuple(replace(one, instance_id=one.id) for one in FAR.members)
    silent = (member("m1", A, source="client-id"), member("m2", B), member("m3", None))
    for changed, part in (
        (facts(replace(FAR, members=static)), "After the roll start another consumer in it without group.instance.id"),
        (facts(replace(FAR, members=silent)), "2 of 3 members send no client.rack"),
        (facts(brokers=[broker("4.0"), broker()]), "brokers of Kafka 4.0 give assignors no racks"),
        (facts(brokers=[broker(policy="upgrade")]), "there is no way back before"),
        (facts(led=True), "it leaves by itself"),
    ):
        made = move_of(changed, back=False)
        assert [text for text in made.warnings if part in text] == list(made.warnings), made.warnings
        assert (len(made.warnings), made.obstacles) == (1, ())


def test_what_is_not_known_is_unknown_and_not_zero() -> None:
    """Without answers of brokers and racks of members there are no figures, and the gaps are named."""
    nothing = BrokerProtocols(release="4.3", group_version=None)
    bare = replace(FAR, problem=None, shares=replace(FAR.shares, optimal=None))
    made = move_of(facts(bare, brokers=[nothing], unknown=("settings of brokers: refused",)), back=False)
    assert [one.share for one in made.shares] == [None] * 4
    assert [one.then for one in made.settings[:2]] == [
        "unknown (group.consumer.session.timeout.ms)",
        "unknown (group.consumer.heartbeat.interval.ms)",
    ]
    assert made.unknown[0] == "settings of brokers: refused"
    assert (made.obstacles, made.steps[0].done) == ((), None)
    partly = group(made=problem((*ROTATED[:4], (), ()), {"m1": A, "m2": None, "m3": None}, RANGE))
    assert move_of(facts(partly), back=False).unknown[:2] == (
        "racks of 2 of 3 members: the shares are of what is known",
        "racks of 2 of 6 leader replicas: the shares are of what is known",
    )
    without_racks = move_of(facts(brokers=[broker("4.0"), broker()]), back=False)
    assert [one.share is None for one in without_racks.shares] == [False, False, True, False]


def test_the_groups_own_time_counts_for_more() -> None:
    """A group may have another session timeout than the brokers' default."""
    made = move_of(facts(configs={"consumer.session.timeout.ms": "50000"}), back=False)
    assert made.settings[0].then.startswith("50000 (group.consumer.session.timeout.ms); 45000 to 60000 for one group")


def test_back_is_the_same_the_other_way() -> None:
    """Settings and steps change sides; only the policy may forbid it."""
    there = facts(MOVED, members=protocols("nnn"))
    assert move_of(there, back=False).moved
    assert move_of(there, back=False).steps == ()
    made = move_of(there, back=True)
    assert (made.moved, made.to, made.obstacles) == (False, "classic", ())
    assert made.settings[0].now.startswith("45000 (group.consumer.session")
    assert made.settings[2].now == "samerack"
    assert "group.protocol=classic" in lines(made)
    assert move_of(facts(), back=True).moved
    (obstacle,) = move_of(replace(there, brokers={1: broker(policy="upgrade")}), back=True).obstacles
    assert "the group stays one of the brokers" in obstacle.cause
    (obstacle,) = move_of(replace(there, brokers={1: broker(group_max_size="2")}), back=True).obstacles
    assert obstacle.cause == "broker 1: group.max.size is 2, and the group has 3 members"


def test_a_converted_group_has_not_moved_while_a_member_is_classic() -> None:
    """What brokers refuse to convert no longer counts; its assignments have no user data any more."""
    made = move_of(facts(MOVED, members=protocols("nc?")), back=False)
    assert (made.moved, made.classic_members, made.new_members) == (False, 1, 1)


# the share of plans without racks


def _mean(made: Problem) -> float:
    """The mean share of all balanced plans that ignore racks: the present one with its members in every order."""
    shares = []
    for order in permutations(range(len(made.members))):
        owner = made.owner.copy()
        for at, to in enumerate(order):
            owner[made.owner == at] = to
        shares.append(evaluate(made, owner).known_share or 0.0)
    return sum(shares) / len(shares)


@pytest.mark.parametrize(
    "made",
    [
        problem(ROTATED, SPREAD, RANGE),
        problem(((A, B), (B, A), (A, B), (B, A), (A, B), (B, A)), SPREAD, RANGE),
        problem(((A, B), (B, A), (A, B), (B, A), (A, B), (B, A)), SPREAD, RANGE, reads_any_replica=False),
        problem(ROTATED, {"m1": A, "m2": A, "m3": B}, RANGE),
    ],
)
def test_the_share_without_racks_is_the_mean_of_all_orders(made: Problem) -> None:
    """With replicas in two of three racks a third crosses, and not two thirds."""
    assert share_without_racks(made, None) == pytest.approx(_mean(made))


def test_the_share_without_racks_is_of_bytes_where_they_are_known() -> None:
    """A partition that only one rack can read near counts by what is read of it; without racks nothing is known."""
    made = problem(((A,), (A, B)), {"m1": A, "m2": B}, {"m1": (0,), "m2": (1,)})
    rates = {("clicks", 0): 3.0, ("clicks", 1): 1.0}
    assert share_without_racks(made, rates) == pytest.approx(1 / 4)
    heavy = replace(made, weights=np.array([4, 1], np.int64))
    assert share_without_racks(heavy, rates) == pytest.approx(3 / 8)
    assert share_without_racks(heavy, {}) == pytest.approx(1 / 4)
    assert share_without_racks(problem(ROTATED, dict.fromkeys(SPREAD), RANGE), None) is None
    assert move_of(facts(weighed(FAR, (1.0,) * 6, (1,) * 6)), back=False).weighed_by == "bytes"


# the roll


def state(
    classic: int, new: int, kind: str = "", *, unknown: int = 0, named: str = "Stable", read: str | None = None
) -> RollState:
    """A group during its roll: one of the brokers as soon as a member is new; a letter for each topic that is read."""
    return RollState(
        kind=kind or ("consumer" if new else "classic"),
        state=named,
        classic_members=classic,
        new_members=new,
        unknown_members=unknown,
        read_topics=None if read is None else tuple(read),
    )


GOES_ON, DONE, WRONG = RollOutcome


@pytest.mark.parametrize(
    ("back", "states", "outcomes", "why"),
    [
        (False, [state(2, 0), state(1, 1), state(0, 2)], [GOES_ON, GOES_ON, DONE], "all 2 members have moved"),
        (False, [state(2, 0), state(1, 0), state(1, 0)], [GOES_ON, GOES_ON, WRONG], "1 of 2 members are away"),
        (False, [state(2, 0), state(1, 0), state(1, 1)], [GOES_ON, GOES_ON, GOES_ON], "1 of 2 members are left"),
        (False, [state(2, 0), state(1, 1), state(1, 0)], [GOES_ON, GOES_ON, WRONG], "classic again"),
        (False, [state(0, 2, named="Reconciling"), state(0, 2)], [GOES_ON, DONE], "all 2 members"),
        (False, [state(0, 0, "consumer", unknown=2)], [WRONG], "Kafka 4.0 or newer does"),
        (
            False,
            [state(2, 0, read="to"), state(0, 2, read="t"), state(0, 2, read="t")],
            [GOES_ON, GOES_ON, WRONG],
            "none has partitions of topic o",
        ),
        (False, [state(2, 0, read="to"), state(0, 2)], [GOES_ON, DONE], "all 2 members have moved"),
        (True, [state(0, 2), state(1, 1), state(2, 0)], [GOES_ON, GOES_ON, DONE], "all 2 members have moved"),
        (
            True,
            [state(0, 2), state(2, 0, "consumer"), state(2, 0, "consumer")],
            [GOES_ON, GOES_ON, WRONG],
            "is consumer",
        ),
        (True, [state(0, 2), RollState(kind="", state="", classic_members=0, new_members=0)], [GOES_ON] * 2, "away"),
    ],
)
def test_a_roll_is_followed_to_its_end(
    back: bool,  # noqa: FBT001 - a column of the table
    states: Sequence[RollState],
    outcomes: Sequence[RollOutcome],
    why: str,
) -> None:
    """With a state each minute, a member may be away in one of them."""
    roll = Roll(back=back, patience=60.0)
    found = [roll.take(one, at * 60.0) for at, one in enumerate(states)]
    assert [outcome for outcome, _ in found] == list(outcomes)
    assert why in found[-1][1]
