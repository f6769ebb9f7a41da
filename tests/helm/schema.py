"""Puts the agent's settings into the chart's schema: `config` is checked against the model of the agent's own file.

Keys of Kafka are those that the agent knows, because otherwise only the pod would find a misspelt one.
`python -m tests.helm.schema` writes the schema; a test checks that it is current.
"""

from __future__ import annotations

import json
from typing import Any, Final

from samerack.auth.kafka_config import KNOWN
from samerack.settings.all_settings import Settings
from tests.helm.chart import CHART

PATH: Final = CHART / "values.schema.json"


def with_settings(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its settings part generated anew; the rest is maintained by hand."""
    settings = Settings.model_json_schema()
    sections: dict[str, Any] = settings.pop("$defs")
    for model in (settings, *sections.values()):
        model.pop("title", None)
        for field in model["properties"].values():
            field.pop("title", None)
    kept = {name: each for name, each in schema["$defs"].items() if not name[0].isupper()}
    settings.pop("required", None)  # the templates check what is required, because it may come from a Secret
    value = settings["properties"]["kafka"].pop("additionalProperties")
    for model in (settings, sections["ClusterSettings"]):
        model["properties"]["kafka"] |= _keys_of_kafka("kafkaSetting")
    chart = schema["properties"]["kafka"]
    secrets = {"type": "object", **_keys_of_kafka("secretKey")}
    return {
        **schema,
        "properties": {
            **schema["properties"],
            "config": settings,
            "kafka": {**chart, "properties": {**chart["properties"], "secrets": secrets}},
        },
        "$defs": {**kept, "kafkaSetting": value, **dict(sorted(sections.items()))},
    }


def _keys_of_kafka(definition: str) -> dict[str, Any]:
    """An object whose keys are the Kafka settings that the agent knows, each with a value of one definition."""
    return {
        "additionalProperties": False,
        "properties": {key: {"$ref": f"#/$defs/{definition}"} for key in sorted(KNOWN)},
    }


def text(schema: dict[str, Any]) -> str:
    """The schema as the text of its file."""
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(with_settings(json.loads(PATH.read_text(encoding="utf-8")))), encoding="utf-8")
