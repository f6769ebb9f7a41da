"""Refuses to build a package without the rooms that src/samerack links to: from a checkout without symbolic links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_LINKED = ("agent", "assignors", "protocol")


class LinkedRooms(BuildHookInterface[Any]):
    """Checks the links before anything is built, an editable install too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the interface's
        """Check that each link leads to a folder.

        Raises:
            RuntimeError: One does not; the message has the cure.
        """
        package = Path(self.root, "src", "samerack")
        broken = [f"src/samerack/{room}" for room in _LINKED if not (package / room).is_dir()]
        if broken:
            raise RuntimeError(
                f"{', '.join(broken)}: no folder, but a link that was checked out as a file; run "
                "`git config core.symlinks true && git checkout -- src`, on Windows in developer mode, and build again"
            )
