"""How much this run tries: `scripts/test --all` every seed, the gate a tenth of them, always the same ones.

A failure in the gate then comes from the change, and whoever looks for rare cases has all of them.
"""

from __future__ import annotations

import os
from typing import Final

ALL: Final = os.environ.get("TEST_ALL") == "1"
"""Whether this run is `scripts/test --all`, which sets the variable."""


def of(count: int, *, minimum: int = 1) -> int:
    """The number of cases to try: all of this count in `scripts/test --all`, else a tenth, and not below `least`."""
    return count if ALL else max(minimum, count // 10)
