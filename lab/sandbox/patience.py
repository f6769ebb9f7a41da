"""How much longer than usual everything that waits for a fact may wait, for machines that are busy with other work."""

import os
from typing import Final

PATIENCE: Final = float(os.environ.get("SANDBOX_PATIENCE", "1"))
"""A factor of all limits of waiting. It costs nothing where the fact comes."""
