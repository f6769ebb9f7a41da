"""The settings as JSON Schema: for editors of the YAML file, and for the values of the chart.

It says what a file may hold, and no more than the model can tell: rules of validators stand in words only.
"""

from __future__ import annotations

from typing import Any, Final

from common.settings.model import Settings

_SCALARS: Final = ["string", "number", "boolean"]
_TEXTS: Final = (("Settings", "kafka"), ("PublishingSettings", "kafka"), ("PipelineSettings", "conf"))
"""Maps of texts for libraries of others, where YAML's numbers and booleans become texts."""


def json_schema() -> dict[str, Any]:
    """The schema of the whole, each section a definition in `$defs`."""
    schema = Settings.model_json_schema()
    for owner, key in _TEXTS:
        model = schema if owner == "Settings" else schema["$defs"][owner]
        model["properties"][key]["additionalProperties"] = {"type": _SCALARS}
    # servers may stand as a list
    schema["properties"]["kafka"]["additionalProperties"] = {"type": [*_SCALARS, "array"], "items": {"type": _SCALARS}}
    return schema
