"""Commands in messages: each is complete, quoted for a shell, and fits what the agent is to the group."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import yaml

from samerack.agent.leading.admission import prospect
from samerack.agent.leading.takeover import worth_refusal
from samerack.agent.policy import Action, Decision, Reason
from samerack.agent.policy.requests import OperatorRequest, RequestKind, in_words
from samerack.common.console import Console
from samerack.common.money import shipped
from samerack.pipeline.whatif_group import LEAD, STRATEGY, Questions
from samerack.pipeline.whatif_show import TEXTS
from samerack.reporting import costs
from samerack.reporting.evidence import Evidence, MeasuredBy
from samerack.reporting.verify import verdict
from samerack.settings import flags
from samerack.settings.cures import command
from samerack.settings.leading import LeadingSettings
from samerack.traffic.snapshot import GroupKind, GroupTraffic, TrafficSnapshot
from tests.commands import commands_in, parsed
from tests.docs import ROOT, sources
from tests.unit.agent.leading.test_admission import ONE, TWO
from tests.unit.agent.measured import GB, A, B, flow, group, snapshot
from tests.unit.agent.test_verify import HALF, RANDOM, uneven, verdict_of
from tests.unit.agent.values import group as view
from tests.unit.pipeline.test_whatif_show import CHANGE

NAME = "a b;$(c)'s"
BROKERS = "one:9092,two:9092"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove settings of the user who runs the tests."""
    for name in ("SAMERACK_CONFIG", "SAMERACK_KAFKA__BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)


def runs(text: str) -> list[tuple[str, object]]:
    """Name of each command in a text, and the group that it is about."""
    answers = map(parsed, commands_in(text))
    return [
        (name, next(iter(value)) if isinstance(value := given.get("group"), list) else value) for name, given in answers
    ]


def cures(taken: TrafficSnapshot, *, role: str = "", by: MeasuredBy = "command") -> list[str]:
    """The cures of a snapshot, where the agent has this role in each group."""
    roles = {one.group: role for one in taken.groups} if role else {}
    report = costs.report(taken, shipped("aws"), roles=roles, bootstrap=BROKERS)
    evidence = Evidence(snapshot=taken, report=report, leading=LeadingSettings(), by=by)
    return [one.cure for one in verdict(evidence).findings]


def avoidable(kind: GroupKind = "classic", assignor: str = "range") -> GroupTraffic:
    """A group that a better plan would help."""
    return group(NAME, kind=kind, assignor=assignor, flows=[flow(A, B, GB)], shares=HALF)


PLAN = ("plan", NAME)


@pytest.mark.parametrize(
    ("role", "by", "assignor", "expected"),
    [
        ("", "command", "range", [("run", NAME), PLAN]),
        ("", "observing-agent", "range", [("run", NAME), PLAN]),
        ("", "leading-agent", "range", [PLAN]),
        ("following", "leading-agent", "range", [("lead", NAME), PLAN]),
        ("following", "leading-agent", "cooperative-sticky", [PLAN]),
        ("leading", "leading-agent", "range", [("events", NAME), PLAN]),
        ("standby", "leading-agent", "range", [("health", None), PLAN]),
    ],
)
def test_the_cure_of_what_is_avoidable_fits_the_agents_role(
    role: str,
    by: MeasuredBy,
    assignor: str,
    expected: list[tuple[str, object]],
) -> None:
    """Where an agent runs, a second one is refused its port: it takes the group over, or gets it in its settings."""
    (text,) = cures(snapshot(avoidable(assignor=assignor)), role=role, by=by)
    assert runs(text) == expected
    assert ("`groups` in its settings" in text) == (by == "leading-agent" and not role)
    assert ("leads no group" in text) == (by == "observing-agent")


def test_every_command_of_a_finding_is_complete() -> None:
    """Findings of all kinds of groups, at random and uneven: each command has the brokers and the whole name."""
    kinds: tuple[GroupKind, ...] = ("classic", "streams-classic", "streams")
    taken = [
        *(snapshot(avoidable(kind)) for kind in kinds),
        snapshot(replace(avoidable(), shares=RANDOM)),
        snapshot(replace(uneven(), group=NAME)),
    ]
    found = [runs(text) for one in taken for text in cures(one)]
    assert {name for commands in found for name, _ in commands} == {"run", "plan", "streams plan"}
    assert {of for commands in found for _, of in commands} == {NAME}
    (pod,) = verdict_of(snapshot(), own_rack="cellar").findings
    assert runs(pod.cure) == [("rack", None)]


def test_every_command_of_a_message_is_complete() -> None:
    """What the agent says of requests, takeovers and prospects, and what the fleet's what-if advises."""
    paused = Decision(action=Action.SUPPRESS, reason=Reason.PAUSED, before=0.5, after=0.0)
    changes = [replace(CHANGE, group=NAME, scenario=scenario, kind=kind) for scenario, kind in _CHANGES]
    for text, name in (
        (in_words(OperatorRequest(group=NAME, kind=RequestKind.PAUSE, since=0.0)), "resume"),
        (worth_refusal(NAME, paused, asked=True), "resume"),
        (prospect(replace(view(ONE, TWO), name=NAME), LeadingSettings(), worth_it=True), "lead"),
        (TEXTS[changes[0].scenario].cure(changes[0], Questions()), "plan"),
        (TEXTS[changes[1].scenario].cure(changes[1], Questions()), "streams plan"),
    ):
        assert runs(text) == [(name, NAME)], text


_CHANGES = ((LEAD, "classic"), (STRATEGY, "streams-classic"))


def test_commands_of_alerts_are_complete() -> None:
    """A group's name is quoted, and the brokers have a place."""
    rules = yaml.safe_load((ROOT / "helm" / "samerack" / "files" / "alerts.yaml").read_text(encoding="utf-8"))
    texts = [str(rule.get("annotations", {}).get("description")) for one in rules["groups"] for rule in one["rules"]]
    named = [runs(text.replace("{{ $labels.group }}", "a b;$(c)")) for text in texts]
    assert [("plan", "a b;$(c)")] in named


def test_commands_reach_what_the_process_reaches(tmp_path: Path) -> None:
    """The file that an option names, the agent that is not at the usual address, and the cluster of several."""
    file = tmp_path / "a file.yaml"
    file.write_text("web: {port: 9999}")
    flags.settings_from([file], ["h:9092"], None)
    assert command("plan", group="orders", bootstrap="h:9092") == f"`samerack plan orders -c '{file}' -b h:9092`"
    assert command("lead", group="orders") == "`samerack lead orders --url http://127.0.0.1:9999`"
    assert command("health", "--ready") == "`samerack health --ready -s web.port=9999`"
    flags.settings_from(None, ["h:9092"], None)
    assert command("plan", group="orders", bootstrap="h:9092") == "`samerack plan orders -b h:9092`"
    assert command("lead", group="orders") == "`samerack lead orders`"
    assert command("health", "--ready") == "`samerack health --ready`"
    flags.settings_from(None, ["h:9092"], ["web.port=0"])
    assert command("lead", group="orders") == "`samerack lead orders`", "the port is not known"
    file.write_text("clusters: {east: {kafka: {bootstrap.servers: e:1}}, west: {kafka: {bootstrap.servers: w:1}}}")
    for chosen in (None, ["cluster=east"]):
        flags.settings_from([file], None, chosen, several=True)
        cure = command("run", "--group", "orders", bootstrap="e:1")
        assert cure == f"`samerack run --group orders -c '{file}' -b e:1 -s cluster=east`"
        assert command("plan", group="orders", bootstrap="e:1").endswith(" -b e:1 -s cluster=east`")
    assert command("lead", group="orders") == "`samerack lead orders --url http://127.0.0.1:9464/clusters/east`"
    copied = flags.settings_from([file], ["e:1"], ["cluster=east"], several=True, groups=["orders"])
    assert (copied.groups, copied.kafka["bootstrap.servers"]) == (("orders",), "e:1")


@pytest.mark.parametrize("width", [40, 80])
def test_a_command_is_one_line_however_narrow_the_terminal(width: int) -> None:
    """A terminal wraps it without an end of line, so that what is copied runs."""
    line = f"cure: let the agent lead it: {command('run', '--group', 'payments-settlement', bootstrap=BROKERS)}"
    out = StringIO()
    Console(file=out, width=width).print(line)
    assert out.getvalue() == f"{line}\n"


@pytest.mark.parametrize("name", [NAME, "orders", "-orders", "--help", "a\\b", "*"])
def test_a_name_reaches_the_command_as_it_is(name: str) -> None:
    """Whatever signs of a shell or of options it has."""
    line = command("plan", "--curve", group=name, bootstrap=BROKERS)
    found, given = parsed(line.strip("`"))
    assert (found, given["group"], given["with_curve"], given["bootstrap"]) == ("plan", name, True, [BROKERS])


@pytest.mark.parametrize(
    "line", ["samerack plan orders", "samerack run --group orders", "samerack lead", "samerack plan -b h:9092"]
)
def test_what_is_incomplete_is_noticed(line: str) -> None:
    """Without brokers or a group a command ends with an error."""
    with pytest.raises(Exception, match=r"kafka: is missing|Missing|missing"):
        parsed(line)


def test_no_message_makes_a_command_by_itself() -> None:
    """A command with a name in it is made by `settings.cures`, which quotes it, and has its brokers or agent."""
    made = re.compile(r"samerack (?:[a-z]+ )+(?:--[a-z]+ )*\{[^}]*\}(?!:)")  # a colon follows where it names itself
    assert [str(path) for path in sources() if made.search(path.read_text("utf-8"))] == []
