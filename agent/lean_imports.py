"""Keeps out of the agent's memory what libraries import beyond what the agent uses.

It must run before these libraries are imported, in the agent's first process only; commands and plug-ins get all.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final, cast

_ABSENT: Final = ("rich", "hypothesis")
"""What structlog imports for colours, and kio for tests, where they are installed."""


def skip_unused_imports() -> None:
    """Leave libraries away that are optional, and parts of kafka-python and uvicorn that the agent has no use for.

    The package `kafka` imports its consumer, producer and admin client, with all of their messages; `uvicorn` its own
    command line. What the agent uses is in their modules, which need nothing of the packages but the names set here.
    """
    for name in _ABSENT:
        sys.modules.setdefault(name, cast("Any", None))  # as the import system says that there is none
    _package("kafka")
    uvicorn = _package("uvicorn")
    if uvicorn is not None:
        vars(uvicorn).update(
            Config=import_module("uvicorn.config").Config, Server=import_module("uvicorn.server").Server
        )


def _package(name: str) -> ModuleType | None:
    """Return a package of which modules can be imported, without running its own code; None if it is loaded."""
    spec = find_spec(name) if name not in sys.modules else None
    if spec is None:
        return None
    sys.modules[name] = package = module_from_spec(spec)
    return package
