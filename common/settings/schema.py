"""The settings as JSON Schema: for editors of the YAML file, and for the values of the chart.

It contains only what the pydantic model expresses: rules of validators are in the descriptions only.
"""

from __future__ import annotations

from typing import Any, Final

from samerack.common.settings.model import Settings

_SCALARS: Final = ["string", "number", "boolean"]
_TEXTS: Final = (("Settings", "kafka"), ("PublishingSettings", "kafka"), ("PipelineSettings", "conf"))
"""Maps of text values for other libraries; YAML's numbers and booleans become text there."""


def json_schema() -> dict[str, Any]:
    """Returns the schema of all settings, with a definition in `$defs` for each section."""
    schema = Settings.model_json_schema()
    for owner, key in _TEXTS:
        model = schema if owner == "Settings" else schema["$defs"][owner]
        model["properties"][key]["additionalProperties"] = {"type": _SCALARS}
    for model in (schema, schema["$defs"]["ClusterSettings"]):  # servers may be a list
        model["properties"]["kafka"]["additionalProperties"] = {
            "type": [*_SCALARS, "array"],
            "items": {"type": _SCALARS},
        }
    return schema
