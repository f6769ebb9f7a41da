"""What fuzz tests share: the number of examples, and unusual texts and values."""

from __future__ import annotations

import os
from typing import Any, Final, TypeAlias

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

_GIVEN: Final = os.environ.get("SAMERACK_TESTS_FUZZ_EXAMPLES", "")
EXAMPLES: Final = int(_GIVEN or settings().max_examples)
"""The examples of each fuzz test; SAMERACK_TESTS_FUZZ_EXAMPLES=10000 takes some minutes for each."""
EXAMPLES_OF_A_PATH: Final = int(_GIVEN or min(30, settings().max_examples // 2))
"""The examples of each path of the port; there are many paths."""
SECONDS: Final = 300 + EXAMPLES  # the time limit of a test with this many examples
MANY: Final = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

Strategy: TypeAlias = st.SearchStrategy[Any]

DEEP: Final = 1_050
"""Levels of nesting, more than Python's recursion limit; the time of the parser of YAML grows with their square."""
_ODD: Final = (
    "",
    " ",
    "\x00",
    "\x1b[2J",
    "\ud800",
    "%ff%00",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "../../etc/passwd",
    "nan",
    "-inf",
    "1e999",
    "9" * 5_000,
    "000000001" + "9" * 5_000,
    "[" * DEEP,
    '{"a":' * DEEP,
    "&a [*a]",
    "&a {b: *a}",
    "*a",
    "!!int x",
    "!!bool x",
    "!!timestamp x",
    "!!binary x",
    "!!python/object:os.system",
    "2026-99-99",
    "<<: [1]",
    "? [a]\n: b",
    "a: b: c",
    "---\n...\n---",
    "x" * 20_000,
)
TEXT: Final[st.SearchStrategy[str]] = st.sampled_from(_ODD) | st.text(max_size=30)  # texts that break careless code

SCALAR: Final[Strategy] = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
JSON: Final[Strategy] = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)
"""Any value of JSON and YAML."""
