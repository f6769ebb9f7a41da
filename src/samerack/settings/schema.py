"""The settings as JSON Schema: for editors of the YAML file, and for the values of the chart.

It contains only what the pydantic model expresses: rules of validators are in the descriptions only.
"""

from __future__ import annotations

from typing import Any, Final

from samerack.settings.model import Settings

_SCALARS: Final = ["string", "number", "boolean"]
_TEXTS: Final = {"type": _SCALARS}
"""A value for another library; YAML's numbers and booleans become text there."""
_KAFKA: Final = ("ClusterSettings", "PublishingSettings")
"""Sections with Kafka settings of their own."""


def json_schema() -> dict[str, Any]:
    """Return the schema of all settings, with a definition in `$defs` for each section."""
    schema = Settings.model_json_schema()
    sections = schema["$defs"]
    sections["PipelineSettings"]["properties"]["conf"]["additionalProperties"] = _TEXTS
    for model in (schema, *(sections[name] for name in _KAFKA)):  # servers may be a list
        model["properties"]["kafka"]["additionalProperties"] = {"type": [*_SCALARS, "array"], "items": _TEXTS}
    return schema
