"""`samerack move` on live groups: what it forbids is refused, what it allows moves without loss, as it shows."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.commands import SAMERACK, samerack, samerack_json
from lab.sandbox.jvm import BROKER_VERSION
from tests.integration.new_protocol import assignor, join
from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario

pytestmark = pytest.mark.skipif(BROKER_VERSION.startswith("3."), reason="brokers assign no groups before Kafka 4")
_ALIKE: Final = 0.05
"""Shares of bytes of a few seconds, of which partitions have not quite the same."""
_CLOSE: Final = 0.02
"""The same of twenty seconds."""
_UNEVEN: Final = ((1,), (2,), (3,), (2,), (1,), (1,))
"""Brokers by partition: three members have at least one of six partitions from another rack."""


def _options(scenario: Scenario, *more: str) -> tuple[str, ...]:
    return scenario.group, "-b", scenario.cluster.bootstrap, "-s", "web.port=0", *more


def move(scenario: Scenario, *more: str, code: int = 0) -> dict[str, Any]:
    """What `samerack move` says."""
    return samerack_json("move", *_options(scenario, "--json", *more), codes=(code,))


def _cost(scenario: Scenario) -> float | None:
    """The share across racks that `samerack cost` measures; None if it is unknown."""
    (group,) = samerack_json("cost", *_options(scenario, "--json"))["groups"]
    share: float | None = group["share"]
    return share


class _Watch:
    """`samerack move --watch --json` in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], file: Path) -> None:
        self.process, self._file = process, file

    def lines(self) -> list[dict[str, Any]]:
        """The changes until now."""
        text = self._file.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def ends(self, timeout: float = 60.0) -> int:
        """Its exit code."""
        return self.process.wait(timeout=timeout)


@contextmanager
def watched(scenario: Scenario, folder: Path, *more: str) -> Iterator[_Watch]:
    """The command, which has seen the group as it is before the roll."""
    file = folder / f"watch-{len(list(folder.iterdir()))}.json"
    line = [*SAMERACK, "move", *_options(scenario, "--watch", "--json", "--window", "1", *more)]
    with file.open("wb") as out, subprocess.Popen(line, stdout=out) as process:
        watch = _Watch(process, file)
        try:
            wait_until(lambda: bool(watch.lines()), "the first state is shown", timeout=60)
            yield watch
        finally:
            process.kill()


def roll(scenario: Scenario, client: str) -> None:
    """Restart each member on the new protocol, one after another."""
    for participant in tuple(scenario.participants):
        scenario.leave(participant)
        name = participant.settings.properties.get("group.instance.id", "")
        join(scenario, client, participant.rack, group_instance_id=name)
        scenario.wait_settled()


def _settings(answer: dict[str, Any]) -> dict[str, str]:
    return {one["setting"]: one["then"] for one in answer["settings"]}


@pytest.mark.parametrize(("client", "strategy"), [("confluent", "range"), ("java", "sticky")])
def test_a_classic_group_moves_and_comes_back(scenario: Scenario, client: str, strategy: str, tmp_path: Path) -> None:
    """Nothing forbids it; members change one by one, with the command beside, and back; no record is lost.

    Java's `sticky` sends user data with subscriptions, which brokers do not mind.
    """
    scenario.lay_out(_UNEVEN)
    scenario.join_each(client, client, client, assignor=strategy)
    scenario.wait_settled()
    answer = move(scenario, "--window", "20")
    assert (answer["obstacles"], answer["moved"], answer["classic_members"]) == ([], False, 3)
    now, without, near, led = (one["share"] for one in answer["shares"])
    assert now == pytest.approx(scenario.cross_rack() / len(_UNEVEN), abs=_CLOSE)
    assert without == pytest.approx(2 / 3, abs=_CLOSE)
    assert near == led == pytest.approx(1 / 6, abs=_CLOSE)
    then = _settings(answer)
    assert then["session.timeout.ms"].startswith("45000 (group.consumer.session.timeout.ms); 45000 to 60000")
    assert then["heartbeat.interval.ms"].startswith("1000 (group.consumer.heartbeat.interval.ms); 1000 to ")
    assert then["assignor"].startswith("samerack ")
    assert answer["steps"][0]["done"] is True
    assert len(answer["unknown"]) == 1

    with watched(scenario, tmp_path) as watch:
        roll(scenario, client)
        assert watch.ends() == 0
    scenario.wait_settled(cross_rack=1)
    *_, last = seen = watch.lines()
    assert (last["outcome"], last["new_members"], last["classic_members"]) == ("done", 3, 0)
    assert any(one["classic_members"] and one["new_members"] for one in seen)
    assert last["share_before"] == pytest.approx(now, abs=_ALIKE)
    assert assignor(scenario) == "samerack"
    answer = move(scenario)
    assert (answer["moved"], answer["new_members"], answer["steps"]) == (True, 3, [])
    assert _cost(scenario) == pytest.approx(near, abs=_CLOSE)

    answer = move(scenario, "--back")
    assert (answer["to"], answer["obstacles"]) == ("classic", [])
    with watched(scenario, tmp_path, "--back") as watch:
        for participant in tuple(scenario.participants):
            scenario.leave(participant)
            scenario.join(client, participant.rack, assignor=strategy)
            scenario.wait_settled()
        assert watch.ends() == 0
    assert watch.lines()[-1]["kind"] == "classic"
    scenario.finish()


def test_a_group_with_user_data_in_its_assignments_is_refused_before_harm(scenario: Scenario) -> None:
    """Sarama's `sticky`: the command says that brokers refuse it, and they do; its members read on."""
    scenario.lay_out(INTERLEAVED)
    scenario.join_each("sarama", "sarama", "sarama", assignor="sticky")
    scenario.wait_settled()
    answer = move(scenario, code=1)
    causes = " ".join(one["cause"] for one in answer["obstacles"])
    assert "have user data of sticky" in causes
    assert "sarama has no new protocol" in causes
    shown = samerack("move", *_options(scenario))
    assert shown.returncode == 1
    assert "2 obstacles in the way" in shown.stdout
    before = scenario.owned()
    refused = join(scenario, "java", A)
    wait_until(lambda: not refused.running or "GROUP_ID_NOT_FOUND" in refused.complaints, "it is refused", timeout=60)
    assert not refused.owned
    scenario.leave(scenario.participants[-1], kill=True)
    assert scenario.owned() == before
    assert move(scenario, code=1)["classic_members"] == 3
    scenario.finish()


def test_librdkafkas_cooperative_sticky_is_refused_before_harm(scenario: Scenario) -> None:
    """Its leader gives user data from a group's second rebalance on: a roll began well, and its first member ended."""
    scenario.lay_out(_UNEVEN)
    scenario.join_each("confluent", "confluent", "confluent", assignor="cooperative-sticky")
    scenario.wait_settled()
    (obstacle,) = move(scenario, code=1)["obstacles"]
    assert "use librdkafka's cooperative-sticky: as leaders they put user data into" in obstacle["cause"]
    assert "let an agent lead the group while it moves" in obstacle["cure"]
    scenario.leave(scenario.participants[0])
    scenario.wait_settled()
    (obstacle,) = move(scenario, code=1)["obstacles"]
    assert "have user data of cooperative-sticky" in obstacle["cause"]
    refused = join(scenario, "confluent", A)
    wait_until(lambda: "group id does not exist" in refused.complaints, "it is refused", timeout=60)
    scenario.leave(scenario.participants[-1], kill=True)
    scenario.wait_settled()
    scenario.finish()


def test_static_members_move_and_read_near_after_the_advice(scenario: Scenario, tmp_path: Path) -> None:
    """The roll alone brings static members nothing, as the command says before; another member for a while does."""
    scenario.lay_out(_UNEVEN)
    for rack in (A, B, C):
        scenario.join("confluent", rack, assignor="range", group_instance_id=f"static-{rack}")
    scenario.wait_settled()
    answer = move(scenario, "--window", "20")
    assert answer["obstacles"] == []
    assert any("start another consumer in it without group.instance.id" in one for one in answer["warnings"])
    now, _, near, _ = (one["share"] for one in answer["shares"])
    owned = scenario.owned()
    with watched(scenario, tmp_path) as watch:
        roll(scenario, "confluent")
        assert watch.ends() == 0
    assert {*scenario.owned().values()} == {*owned.values()}
    assert _cost(scenario) == pytest.approx(now, abs=_CLOSE)
    join(scenario, "confluent", A)
    scenario.wait_settled()
    scenario.leave(scenario.participants[-1])
    scenario.wait_settled(cross_rack=1)
    assert _cost(scenario) == pytest.approx(near, abs=_CLOSE)
    scenario.finish()


def test_members_without_the_new_protocol_stay(scenario: Scenario) -> None:
    """kafka-python has none: the command says so, and that an agent can lead it; nothing has changed after."""
    scenario.lay_out(_UNEVEN)
    scenario.join_each("kafka-python", "kafka-python", "kafka-python")
    scenario.wait_settled()
    answer = move(scenario, code=1)
    (obstacle,) = answer["obstacles"]
    assert obstacle["cause"].startswith("members kafka-python-1-rack-a, kafka-python-2-rack-b, kafka-python-3-rack-c")
    assert "kafka-python has no new protocol" in obstacle["cause"]
    assert "leave the group to an agent" in obstacle["cure"]
    assert answer["shares"][0]["share"] is _cost(scenario) is None  # its members send no racks
    assert move(scenario, code=1)["classic_members"] == 3
    scenario.finish()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_that_an_agent_leads_moves(scenario: Scenario, strategy: str, tmp_path: Path) -> None:
    """The command says that the agent leaves by itself; it is not counted among the members, and does leave."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()
    scenario.join_each("confluent", "confluent", "confluent", assignor=strategy)
    scenario.wait_led(agent, cross_rack=0)
    answer = samerack_json(
        *("move", scenario.group, "--json", "-b", scenario.cluster.bootstrap, "-s", f"web.port={agent.port}")
    )
    assert (answer["obstacles"], answer["classic_members"]) == ([], 3)
    assert [one["share"] for one in answer["shares"]][::2] == [0.0, 0.0]
    assert any("an agent leads the group: it leaves by itself" in one for one in answer["warnings"])
    with watched(scenario, tmp_path) as watch:
        roll(scenario, "confluent")
        assert watch.ends() == 0
    scenario.wait_settled(cross_rack=0)
    assert _cost(scenario) == 0.0
    assert scenario.agent_member() is None
    assert watch.lines()[-1]["new_members"] == 3
    scenario.finish()


@pytest.mark.parametrize("left", [{"session_timeout_ms": "45000"}, {"group_remote_assignor": "nobody-has-it"}])
def test_a_member_that_does_not_come_back_ends_the_watch(
    scenario: Scenario, left: dict[str, str], tmp_path: Path
) -> None:
    """Steps out of order: what was not removed, or asked for too early. The command names both before, and it after."""
    scenario.lay_out(INTERLEAVED)
    scenario.join_each("confluent", "confluent", "confluent")
    scenario.wait_settled()
    (name,) = left
    texts = json.dumps(move(scenario))
    assert {"session_timeout_ms": "session.timeout.ms, heartbeat", "group_remote_assignor": "UNSUPPORTED_ASSIGNOR"}[
        name
    ] in texts
    with watched(scenario, tmp_path, "--patience", "10") as watch:
        scenario.leave(scenario.participants[-1])
        join(scenario, "confluent", A, **left)
        assert watch.ends() == 1
    last = watch.lines()[-1]
    assert (last["outcome"], last["new_members"]) == ("went wrong", 0)
    assert "1 of 3 members are away" in last["why"]
    scenario.leave(scenario.participants[-1], kill=True)
    scenario.join("confluent", A)
    scenario.wait_settled()
    scenario.finish()
