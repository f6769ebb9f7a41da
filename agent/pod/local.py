"""Reads the rack of this pod from the pod itself: a variable, a file, or a label from the downward API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from samerack.agent.pod.source_answers import SourceAnswer
from samerack.settings.leading import PodSettings

_MAX_BYTES: Final = 1 << 20
LABEL_VARIABLE: Final = "POD_ZONE"
"""The variable that the downward API fills from the label, in the chart and in docs/racks.md."""
_LABEL_FILE: Final = "/etc/podinfo/labels"
"""Where Kubernetes' own examples of the downward API mount it. A pod may give the label in a variable instead."""
_LABEL_LINE: Final = re.compile(r'(?P<key>[^=\s]+)="(?P<value>[^"\\]*)"')


def from_variable(settings: PodSettings, environment: Mapping[str, str]) -> SourceAnswer:
    """Return the rack in the variable `pod.rack_variable`."""
    name = settings.rack_variable
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
