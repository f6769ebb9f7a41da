"""Prints what the imports of the agent's first process cost: bytes that Python allocates, by package, as JSON.

Each module's own allocations count, without those of the modules that it imports.
"""

from __future__ import annotations

import importlib
import json
import sys
import tracemalloc
from collections import Counter
from typing import Any, Final

_MODULES: Final = (
    "samerack.common.settings",
    "samerack.agent.log",
    "samerack.agent.program",
    "samerack.agent.leading.leaving",
    "samerack.agent.supervisor.watchdog",
)
"""What `agent.process` imports after `import_less`."""


def measure() -> dict[str, int]:
    """Returns the bytes by package, the largest first."""
    own: Counter[str] = Counter()
    nested = [0]
    bootstrap: Any = importlib._bootstrap  # noqa: SLF001 - no public hook sees a module's end
    load = bootstrap._load_unlocked  # noqa: SLF001 - see above

    def measured(spec: Any) -> Any:
        before = tracemalloc.get_traced_memory()[0]
        nested.append(0)
        try:
            return load(spec)
        finally:
            whole = tracemalloc.get_traced_memory()[0] - before
            own[spec.name.partition(".")[0]] += whole - nested.pop()
            nested[-1] += whole

    tracemalloc.start()
    bootstrap._load_unlocked = measured  # noqa: SLF001 - see above
    importlib.import_module("samerack.agent.lean_imports").import_less()
    for module in _MODULES:
        importlib.import_module(module)
    return dict(own.most_common())


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure()) + "\n")
