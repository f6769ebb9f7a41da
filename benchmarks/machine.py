"""The machine of a measurement, as the pages name it."""

from __future__ import annotations

from collections.abc import Mapping


def listed(machine: Mapping[str, str]) -> str:
    """Returns the machine in one line."""
    return ", ".join(f"{name} {value}" for name, value in machine.items())
