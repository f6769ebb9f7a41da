"""`samerack settings`: every key with its default and meaning, as a commented YAML file or as JSON Schema."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Annotated, Literal

import typer
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from samerack.settings.all_settings import Settings, sections


def settings(
    form: Annotated[Literal["yaml", "json-schema"], typer.Option("--format", "-f", help="Output format.")] = "yaml",
) -> None:
    """Show every setting with its default and meaning."""
    text = _yaml() if form == "yaml" else json.dumps(Settings.model_json_schema(), indent=2) + "\n"
    typer.echo(text, nl=False)


def sections_with_keys() -> Iterator[tuple[str, type[BaseModel], dict[str, FieldInfo]]]:
    """Yield each section that has keys of its own: its name, its model and these keys."""
    for section, model in sections().items():
        keys = {
            name: info
            for name, info in model.model_fields.items()
            if not (isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel))
        }
        if keys:
            yield section, model, keys


def default_of(info: FieldInfo) -> object:
    """Return the default of a key; None if there is none."""
    default = info.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined:
        return None
    return list(default) if isinstance(default, tuple) else default


def example_of(info: FieldInfo) -> object:
    """Return the first example of a key; None if there is none."""
    return info.examples[0] if info.examples else None


def _yaml() -> str:
    lines = ["# Settings of samerack. Commented keys show the default, or an example if there is no default."]
    for section, _, keys in sections_with_keys():
        lines += ["", f"{section}:"] if section else []
        indent = "  " if section else ""
        for name, info in keys.items():
            lines.append("")
            lines += [f"{indent}# {line}" for line in textwrap.wrap(info.description or "", 110)]
            value = default_of(info)
            if value in (None, (), [], {}):
                value = example_of(info)
            comment = "" if info.is_required() else "# "
            lines.append(f"{indent}{comment}{name}: {_inline(value)}")
    return "\n".join(lines) + "\n"


def _inline(value: object) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
    return text.removesuffix("...\n").rstrip()
