"""The jars that Spark needs in addition to its own, for Kafka and Delta: their names and location on this machine.

`pom.xml` names them, `jars.lock` has their hashes, `scripts/setup --pipeline` fetches them; the pipeline's image has
them in this folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from samerack.common.errors import SettingsError

_FOLDER: Final = Path("samerack") / "spark-4.2.0"
_CURE: Final = (
    "run scripts/setup --pipeline, name a folder of them in pipeline.jars, or set spark.jars or spark.jars.packages "
    "in pipeline.conf"
)


def names() -> tuple[str, ...]:
    """Return the jars' file names from `jars.lock`."""
    lock = files(__package__).joinpath("jars.lock").read_text(encoding="utf-8")
    return tuple(line.split()[1] for line in lock.splitlines())


def cache() -> Path:
    """Return the folder of this module if it has the jars, else that of `scripts/setup --pipeline`."""
    own = Path(__file__).parent
    if (own / names()[0]).is_file():
        return own
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / _FOLDER


def find(given: Sequence[str]) -> tuple[str, ...]:
    """Return the value of `spark.jars`: the jars of a folder, the given jars, or those in the cache.

    Raises:
        SettingsError: A jar is missing.
    """
    if len(given) > 1 or (given and given[0].endswith(".jar")):
        for jar in given:
            if "://" not in jar and not Path(jar).is_file():
                raise SettingsError(f"pipeline.jars: {jar}: no such file; name jars, or one folder that has them all")
        return tuple(given)
    folder = Path(given[0]) if given else cache()
    if missing := [name for name in names() if not (folder / name).is_file()]:
        raise SettingsError(
            f"{len(missing)} of the {len(names())} jars that Spark needs for Kafka and Delta are not in {folder} "
            f"({missing[0]} ...): {_CURE}"
        )
    return tuple(str(folder / name) for name in names())
