"""Writes a rack for applications: as a plain file, an environment file, or Java properties. Each write is atomic.

A reader finds the old file or the new one, never a part, and any user may read it: applications run as other users.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from samerack.common.errors import AgentError, SettingsError

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEY: Final = re.compile(r"[A-Za-z0-9_.-]+")
_READABLE: Final = 0o644


def plain(rack: str) -> str:
    """Format the rack alone on a line."""
    return f"{rack}\n"


def env_line(variable: str, rack: str) -> str:
    """Format the rack as a variable, for a shell or a container's environment file.

    Raises:
        SettingsError: The variable's name is invalid.
    """
    if not _VARIABLE.fullmatch(variable):
        raise SettingsError(f"--variable {variable!r}: expected letters, digits and underscores, e.g. CLIENT_RACK")
    return f"{variable}={shlex.quote(rack) if rack else ''}\n"


def property_line(key: str, rack: str) -> str:
    """Format the rack as a line of Java properties.

    Raises:
        SettingsError: The key is invalid.
    """
    if not _KEY.fullmatch(key):
        raise SettingsError(f"--key {key!r}: expected letters, digits, dots, hyphens and underscores, e.g. client.rack")
    return f"{key}={''.join(_as_java_reads(character) for character in rack)}\n"


def _as_java_reads(character: str) -> str:
    if character == "\\" or not character.isascii():
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
    return character


def write(path: Path, text: str) -> None:
    """Write a file atomically.

    Raises:
        AgentError: It cannot be written.
    """
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), _READABLE)
        Path(name).replace(path)
    except OSError as error:
        if name is not None:
            with suppress(OSError):
                Path(name).unlink()
        raise AgentError(
            f"{path}: cannot be written ({error.strerror}); mount a volume (emptyDir) that user {os.getuid()} may "
            f"write at {path.parent}"
        ) from None
