"""Tests that the JSON Schema of the settings accepts and refuses the same as the model."""

from __future__ import annotations

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from samerack.cli.main import app
from samerack.settings.all_settings import Settings

_WHOLE = {
    "kafka": {"bootstrap.servers": ["a:9092", "b:9092"], "socket.keepalive.enable": True, "metadata.max.age.ms": 1000},
    "groups": ["orders"],
    "publishing": {"kafka": {"bootstrap.servers": ["c:9092", "d:9092"], "linger.ms": 5}},
    "pipeline": {"conf": {"spark.ui.enabled": False}},
}


def test_texts_may_be_numbers_and_booleans() -> None:
    """As in the file, numbers and booleans of YAML become texts for libraries that take texts."""
    jsonschema.validate(_WHOLE, Settings.model_json_schema())


@pytest.mark.parametrize(
    "wrong", [{"polcy": {}}, {"policy": {"min_saving": "much"}}, {"policy": {"brust": 1}}, {"kafka": {"a": None}}]
)
def test_what_the_model_refuses_is_refused(wrong: dict[str, object]) -> None:
    """Unknown keys, wrong types and empty values are refused."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**_WHOLE, **wrong}, Settings.model_json_schema())


def test_the_command_prints_it() -> None:
    """`samerack settings --format json-schema` prints one document, and the commented file is valid by it."""
    schema = CliRunner().invoke(app, ["settings", "--format", "json-schema"])
    file = CliRunner().invoke(app, ["settings"])
    content = {key: value for key, value in yaml.safe_load(file.stdout).items() if value is not None}
    jsonschema.validate(content, yaml.safe_load(schema.stdout))
