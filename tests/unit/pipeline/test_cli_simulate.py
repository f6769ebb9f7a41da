"""`samerack pipeline simulate` into a folder, to standard output and into Kafka, and what it refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from samerack.cli.main import app
from samerack.common.errors import AgentError
from samerack.common.records import GroupState, TrafficSample
from samerack.pipeline.cli import simulate as simulate_command
from samerack.pipeline.simulate import Kind, Message, messages
from samerack.pipeline.simulate_cast import DAY, START, Fleet

SMALL = ("--groups", "3", "--days", "0.01")


def run(*arguments: str) -> Result:
    """The result of the command."""
    return CliRunner().invoke(app, ["pipeline", "simulate", *arguments])


def test_a_folder_has_a_file_for_each_kind(tmp_path: Path) -> None:
    """Every line is a record of its kind, and the final message counts them."""
    result = run(str(tmp_path / "fleet"), *SMALL)
    assert result.exit_code == 0
    samples = (tmp_path / "fleet" / "samples.jsonl").read_bytes().splitlines()
    states = (tmp_path / "fleet" / "states.jsonl").read_bytes().splitlines()
    assert all(TrafficSample.model_validate_json(line) for line in samples)
    assert {GroupState.model_validate_json(line).group for line in states} >= {"email-copy-0"}
    assert f"{len(samples)} samples and {len(states)} states of 3 groups" in result.stderr
    assert sorted(path.name for path in (tmp_path / "fleet").iterdir()) == ["samples.jsonl", "states.jsonl"]


def test_standard_output_has_nothing_but_records() -> None:
    """Messages for people go to standard error, as JSON if requested."""
    result = run("-", *SMALL, "--malformed", "0.5", "--duplicates", "1", "--json")
    made = json.loads(result.stderr.splitlines()[-1])
    assert result.stdout_bytes.count(b"\n") == (
        made["samples"] + made["states"] + made["duplicates"] + sum(made["malformed"].values())
    )
    assert made["duplicates"] == made["samples"] + made["states"]


def test_days_and_seed_reach_the_fleet() -> None:
    """The command's output equals the fleet's own stream."""
    expected = b"".join(
        message.value + b"\n" for message in messages(Fleet(groups=2, days=0.002, seed=7, racks=4, clusters=1))
    )
    result = run("-", "--groups", "2", "--days", "0.002", "--seed", "7", "--racks", "4", "--clusters", "1")
    assert result.stdout_bytes == expected


def test_a_fleet_for_a_stream_is_over_today() -> None:
    """Into Kafka the fleet ends today, because a stream refuses old records; otherwise the start is fixed or given."""
    today = int(datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp() * 1000)
    begin = simulate_command._begin(None, "kafka", 1.5)
    assert begin in (today - 2 * DAY, today - DAY)  # midnight may have passed meanwhile
    assert simulate_command._begin(None, "folder", 1.5) == START
    assert simulate_command._begin(datetime(2026, 1, 2), "kafka", 1.5) == 1_767_312_000_000  # noqa: DTZ001 - as typed


@pytest.mark.parametrize(
    ("arguments", "cure"),
    [(("FILE", *SMALL), "name a folder"), (("FLEET", "--duplicates", "5"), "0.05"), (("kafka", *SMALL), "bootstrap")],
)
def test_wrong_input_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], cure: str
) -> None:
    """Exit code 2 and a message that says what to do: no folder, a share that is none, no cluster."""
    for name in ("SAMERACK_CONFIG", "SAMERACK_KAFKA__BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "FILE").touch()
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert cure in result.stderr
    assert not (tmp_path / "FLEET").exists()


def test_a_folder_keeps_what_it_had_when_interrupted(tmp_path: Path) -> None:
    """After an interruption the folder contains its old files and no partial ones."""
    (tmp_path / "samples.jsonl").write_bytes(b"before")
    interrupted = pytest.raises(KeyboardInterrupt)
    with interrupted, simulate_command.folder(tmp_path) as sink:
        sink(Message("sample", b"", b"{}", 0))
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["samples.jsonl"]
    assert (tmp_path / "samples.jsonl").read_bytes() == b"before"


def test_kafka_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error contains the reason or the time without progress, and says what to check."""
    monkeypatch.setattr(simulate_command, "_PATIENCE_SECONDS", 0.2)
    config = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}
    topics: dict[Kind, str] = {"sample": "traffic", "state": "states"}
    with (
        pytest.raises(
            AgentError,
            match=r"topics traffic and states exist \(kafka-topics\.sh .* 127\.0\.0\.1:1 --create .* --topic traffic\)",
        ),
        simulate_command.kafka(config, topics) as to,
    ):
        to(Message("sample", b"key", b"{}", 0))
