"""What the sources of a pod's rack answer, and those in the pod itself: a variable, a file, a label."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from samerack.settings.leading import PodSettings, RackSource

ANSWER_SECONDS: Final = 1.0
"""How long the Kubernetes API or a cloud's metadata service may take for one answer: a pod starts only after it."""
_MAX_BYTES: Final = 1 << 20
RACK_VARIABLE: Final = "CLIENT_RACK"
LABEL_VARIABLE: Final = "POD_ZONE"
"""The variable that the downward API fills from the label, in the chart and in docs/racks.md."""
_LABEL_FILE: Final = "/etc/podinfo/labels"
"""Where Kubernetes' own examples of the downward API mount it. A pod may give the label in a variable instead."""
_LABEL_LINE: Final = re.compile(r'(?P<key>[^=\s]+)="(?P<value>[^"\\]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """The answer of one source.

    Attributes:
        zones: all names of the zone, the preferred one first; empty where the source knows nothing.
        detail: what was read, and where it knows nothing, why and what to do.
    """

    source: RackSource
    zones: tuple[str, ...] = ()
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRack:
    """The rack of this pod as the brokers name it, None where no source knows, and the answers of all sources asked."""

    rack: str | None
    source: RackSource | None
    answers: tuple[SourceAnswer, ...]


def rack_of(zones: tuple[str, ...], table: Mapping[str, str]) -> str | None:
    """Return the rack of a zone that has several names: from the table, else the first name."""
    for zone in zones:
        if zone in table:
            return table[zone]
    return zones[0] if zones else None


def from_variable(_: PodSettings, environment: Mapping[str, str]) -> SourceAnswer:
    """Return the rack in the variable CLIENT_RACK."""
    name = RACK_VARIABLE
    value = environment.get(name, "").strip()
    if value:
        return SourceAnswer(source="env", zones=(value,), detail=f"the variable {name}")
    state = "is empty" if name in environment else "is not set"
    return SourceAnswer(source="env", detail=f"the variable {name} {state}")


def from_file(settings: PodSettings, _: Mapping[str, str]) -> SourceAnswer:
    """Return the rack in the first line of `pod.rack_file`."""
    if not settings.rack_file:
        return SourceAnswer(source="file", detail="pod.rack_file names no file")
    text, wrong = _read(settings.rack_file)
    first = text.partition("\n")[0].strip()
    if first:
        return SourceAnswer(source="file", zones=(first,), detail=f"the file {settings.rack_file}")
    return SourceAnswer(source="file", detail=wrong or f"the file {settings.rack_file} begins with an empty line")


def from_label(settings: PodSettings, environment: Mapping[str, str]) -> SourceAnswer:
    """Return the zone from the downward API: the variable POD_ZONE, else its file with all labels."""
    label = settings.label
    value = environment.get(LABEL_VARIABLE, "").strip()
    if value:
        return SourceAnswer(source="label", zones=(value,), detail=f"the variable {LABEL_VARIABLE}")
    text, wrong = _read(_LABEL_FILE)
    value = labels(text).get(label, "")
    if value:
        return SourceAnswer(source="label", zones=(value,), detail=f"the label {label} in {_LABEL_FILE}")
    # set but empty: Kubernetes knows the variable's label, and the pod has none
    state = "is empty: the pod has no such label" if LABEL_VARIABLE in environment else "is not set"
    return SourceAnswer(
        source="label",
        detail=f"the variable {LABEL_VARIABLE} {state}; {wrong or f'{_LABEL_FILE} has no label {label}'}; Kubernetes "
        "copies a node's zone to its pods from 1.35 on",
    )


def labels(text: str) -> dict[str, str]:
    """Parse the labels in a file of the downward API, one `key="value"` per line; other lines are ignored."""
    found = (_LABEL_LINE.fullmatch(line.strip()) for line in text.splitlines())
    return {match["key"]: match["value"] for match in found if match is not None}


def _read(name: str) -> tuple[str, str]:
    """Return the text of a file, or "" and why it cannot be read."""
    try:
        with Path(name).open("rb") as stream:
            return stream.read(_MAX_BYTES).decode(), ""
    except OSError as error:
        return "", f"the file {name} cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        return "", f"the file {name} is not text"
