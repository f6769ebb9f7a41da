"""What every command on Spark checks first."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

from samerack.common.errors import SettingsError


def need_spark() -> None:
    """Check that PySpark and Delta are installed, and keep PySpark from warning of libraries that are locked here.

    Raises:
        SettingsError: They are not.
    """
    if missing := [name for name in ("pyspark", "delta") if find_spec(name) is None]:
        raise SettingsError(f"{missing[0]} is not installed: pip install 'samerack[pipeline]'")
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
