"""`samerack settings`: every key with its default and meaning, as the reference page or as a commented YAML file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Annotated

import typer
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from samerack.common.kafka_config import FOR_BOTH, KNOWN, MECHANISMS
from samerack.common.settings import sections
from samerack.common.settings.schema import json_schema

_OPENING = """# Configuration

Settings come from four places; the first that names a key wins:

1. flags: `--bootstrap-servers`, `--group`, and `--set KEY=VALUE` for every key below
   (`--set policy.min_saving=0.02`)
2. environment: `SAMERACK_` and the key in capitals, two underscores between section and key
   (`SAMERACK_POLICY__MIN_SAVING=0.02`); in Kafka keys underscores stand for dots
   (`SAMERACK_KAFKA__BOOTSTRAP_SERVERS=127.0.0.1:9092`); what Kubernetes sets for a Service called `samerack` is ignored
3. a YAML file: `--config FILE`, or the variable `SAMERACK_CONFIG`
4. the defaults below

An unknown key stops the program with exit code 2 and the nearest right one. `samerack settings --format yaml` writes
a commented file to start from. This page is generated: `samerack settings --format markdown`.
"""


class Format(Enum):
    """How to show the reference."""

    YAML = "yaml"
    MARKDOWN = "markdown"
    JSON = "json"
    JSON_SCHEMA = "json-schema"


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("settings")(settings)


def settings(
    form: Annotated[Format, typer.Option("--format", "-f", help="How to show them.")] = Format.YAML,
) -> None:
    """Show every setting with its default and meaning."""
    show = {
        Format.YAML: _yaml,
        Format.MARKDOWN: markdown,
        Format.JSON: _json,
        Format.JSON_SCHEMA: _json_schema,
    }
    typer.echo(show[form](), nl=False)


def _fields() -> Iterator[tuple[str, str, FieldInfo]]:
    models = sections()
    for section, model in models.items():
        for name, info in model.model_fields.items():
            annotation = info.annotation
            if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
                yield section, name, info


def _default(info: FieldInfo) -> object:
    default = info.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined:
        return None
    return list(default) if isinstance(default, tuple) else default


def _example(info: FieldInfo) -> object:
    return info.examples[0] if info.examples else None


def markdown() -> str:
    """The reference page."""
    lines = [_OPENING]
    place = None
    for section, name, info in _fields():
        if section != place:
            place = section
            title = f"`{section}`" if section else "Top level"
            lines += [f"## {title}\n", "| key | default | meaning |", "|---|---|---|"]
        default = _default(info)
        shown = "required" if info.is_required() else f"`{json.dumps(default)}`"
        example = _example(info)
        text = info.description or ""
        if example is not None:
            text += f" Example: `{json.dumps(example)}`"
        dotted = f"{section}.{name}" if section else name
        lines.append(f"| `{dotted}` | {shown} | {text.replace('|', chr(92) + '|')} |")
        follower = _next_section(section, name)
        if follower:
            lines.append("")
    return "\n".join([*lines, "", *_kafka_section()]) + "\n"


def _kafka_section() -> list[str]:
    """What becomes of the keys under `kafka`: two clients read them."""
    both = ", ".join(f"`{key}`" for key in sorted(FOR_BOTH))
    return [
        "## Keys of `kafka`",
        "",
        *_wrapped(
            "The agent asks brokers and leads groups with kafka-python, and publishes with librdkafka. These keys "
            "reach both clients:"
        ),
        "",
        *_wrapped(both + "."),
        "",
        *_wrapped(
            "Any other key that begins with `sasl.` or `ssl.` is refused rather than secure only one of the two "
            f"connections. SASL mechanisms: {', '.join(f'`{name}`' for name in MECHANISMS)}. These reach librdkafka "
            f"only: {', '.join(f'`{key}`' for key in sorted(KNOWN - FOR_BOTH))}. An unknown key is refused."
        ),
    ]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 118, break_on_hyphens=False, break_long_words=False)


def _next_section(section: str, name: str) -> bool:
    mine = [field for place, field, _ in _fields() if place == section]
    return mine[-1] == name and section != list(sections())[-1]


def _yaml() -> str:
    lines = ["# Settings of samerack. Commented keys show the default, or an example where there is none."]
    place = ""
    for section, name, info in _fields():
        if section != place:
            place = section
            lines += ["", f"{section}:"] if section else []
        indent = "  " if section else ""
        lines.append("")
        lines += [f"{indent}# {line}" for line in textwrap.wrap(info.description or "", 110)]
        value = _default(info)
        if value in (None, (), [], {}):
            value = _example(info)
        comment = "" if info.is_required() else "# "
        lines.append(f"{indent}{comment}{name}: {_inline(value)}")
    return "\n".join(lines) + "\n"


def _inline(value: object) -> str:
    """A value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
    return text.removesuffix("...\n").rstrip()


def _json() -> str:
    entries = [
        {
            "key": f"{section}.{name}" if section else name,
            "required": info.is_required(),
            "default": _default(info),
            "example": _example(info),
            "description": info.description,
        }
        for section, name, info in _fields()
    ]
    return json.dumps(entries, indent=2) + "\n"


def _json_schema() -> str:
    return json.dumps(json_schema(), indent=2) + "\n"
