"""The agent uses public names of kafka-python alone: a later version may change the others, also while it leads."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from tests.docs import ROOT, sources

_OF_OTHERS: Final = re.compile(r"agent/publishing/|src/samerack/pipeline/|src/samerack/plugins/aiokafka\.py")
"""Where private names of other libraries are used: librdkafka's error codes, Spark's session, aiokafka's replicas."""


def _subclasses() -> Iterator[type]:
    """Shipped classes that inherit from kafka-python's."""
    for path in sources():
        if re.search(r"^ *from kafka", path.read_text(encoding="utf-8"), re.MULTILINE):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[1:] if parts[0] == "src" else ("samerack", *parts))
            for _, made in inspect.getmembers(import_module(name), inspect.isclass):
                if made.__module__ == name and any(base.__module__.startswith("kafka.") for base in made.__mro__):
                    yield made


def test_no_private_name_of_kafka_python_is_overridden() -> None:
    """What a subclass calls by an underscore is its own."""
    found = [*_subclasses()]
    assert found
    for made in found:
        theirs = {name for base in made.__mro__ if base.__module__.startswith("kafka.") for name in vars(base)}
        ours = {name for name in vars(made) if name.startswith("_") and not name.endswith("__")} - {"_abc_impl"}
        assert not ours & theirs, made


def test_no_private_name_of_kafka_python_is_read() -> None:
    """Ruff refuses private names of other objects, and nothing lifts that."""
    lifted = [path for path in sources() if "SLF001" in path.read_text(encoding="utf-8")]
    assert not [path for path in lifted if not _OF_OTHERS.match(str(path.relative_to(ROOT)))]
