"""Any content of files, variables and the command line gives settings, or one SettingsError of bounded length."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from samerack.common.errors import SettingsError
from samerack.settings.all_settings import Settings, sections
from samerack.settings.flags import settings_from
from samerack.settings.loading import load
from tests.unit.agent.fuzzing import DEEP, JSON, MANY, SECONDS, TEXT
from tests.unit.waiting import LONGEST_SECONDS

_NAMES: Final = sorted({name for model in sections().values() for name in model.model_fields} | {"x"})
_NAMED: Final = st.recursive(
    JSON, lambda inner: st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4), max_leaves=8
)
_LOAD_SECONDS: Final = LONGEST_SECONDS
SERVERS: Final = {"SAMERACK_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:9092"}


def _written(value: Any) -> str:
    return yaml.safe_dump(value, allow_unicode=False)


def held(read: Callable[[], Settings]) -> None:
    """Check that reading gives settings or a SettingsError, in bounded time."""
    began = time.monotonic()
    message = "fine"
    try:
        read()
    except SettingsError as error:
        message = str(error)
    assert 0 < len(message) < 10_000
    assert time.monotonic() - began < _LOAD_SECONDS


def _bomb(last: str, levels: int = 60) -> str:
    """A file of few lines whose aliases stand for 2^levels values."""
    lines = ["groups:", "- &a0 [x, x]"]
    lines += [f"- &a{level} [*a{level - 1}, *a{level - 1}]" for level in range(1, levels)]
    return "\n".join([*lines, last.format(f"*a{levels - 1}")])


@MANY
@pytest.mark.timeout(SECONDS)
@given(TEXT | st.binary(max_size=200) | _NAMED.map(_written))
@example(_bomb(""))
@example(_bomb("kafka: {{bootstrap.servers: {}}}"))
@example(_bomb("publishing: {{kafka: {{x: {}}}}}"))
@example(_bomb("pipeline: {{conf: {{x: {}}}}}"))
@example(_bomb("racks: {{client_ids: {}}}"))
@example("racks: &a {networks: *a}")
@example("kafka: {bootstrap.servers: &a [*a]}")
@example("policy: {groups: {1: {mode: act}}}")
@example("1: 2")
def test_any_file_is_read_or_refused(tmp_path: Path, content: str | bytes) -> None:
    """Bytes, YAML of any shape, and YAML with the names of settings are tried."""
    path = tmp_path / "samerack.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    held(lambda: load(path=path, environment=SERVERS))


_VARIABLES: Final = st.dictionaries(
    st.lists(st.sampled_from([*_NAMES, "kafka", "sasl_password", ""]), min_size=1, max_size=4).map(
        lambda keys: "SAMERACK_" + "__".join(keys).upper()
    ),
    TEXT | _NAMED.map(_written) | _NAMED.map(lambda value: yaml.safe_dump(value, default_flow_style=True)),
    max_size=5,
)


@MANY
@pytest.mark.timeout(SECONDS)
@given(_VARIABLES)
@example({"SAMERACK_GROUPS": "[" * DEEP})
@example({"SAMERACK_WEB__PORT": "2026-99-99"})
@example({"SAMERACK_KAFKA": "&a {b: *a}"})
def test_any_environment_is_read_or_refused(variables: dict[str, str]) -> None:
    """Whole sections, single keys, and keys below keys are tried."""
    variables.pop("SAMERACK_CONFIG", None)
    held(lambda: load(environment={**SERVERS, **variables}))


@MANY
@pytest.mark.timeout(SECONDS)
@given(
    st.lists(TEXT | st.tuples(st.sampled_from([*_NAMES, "kafka.sasl.password"]), TEXT).map("=".join), max_size=4),
    TEXT | st.none(),
)
def test_any_assignment_is_read_or_refused(assignments: list[str], bootstrap: str | None) -> None:
    """--set and --bootstrap-servers are tried."""
    held(lambda: settings_from(None, [] if bootstrap is None else [bootstrap], assignments))
