"""The page about the brokers' assignor says what its sources say."""

from __future__ import annotations

import re

from tests.docs import ROOT

_SOURCES = ROOT / "java" / "broker" / "src" / "main" / "java" / "io" / "samerack" / "broker"
_PAGE = (ROOT / "docs" / "new-protocol.md").read_text(encoding="utf-8")


def test_every_property_is_documented() -> None:
    """The table has the properties that the assignor reads, and no others."""
    settings = (_SOURCES / "Settings.java").read_text(encoding="utf-8")
    assert set(re.findall(r'"(samerack\.assignor\.[a-z.]+)"', settings)) == set(
        re.findall(r"^\| `(samerack\.assignor\.[a-z.]+)` \|", _PAGE, re.MULTILINE)
    )


def test_every_metric_is_documented() -> None:
    """The page names each attribute of the MBean."""
    attributes = re.findall(r" get(\w+)\(\);", (_SOURCES / "AssignorMetricsMBean.java").read_text(encoding="utf-8"))
    assert attributes
    assert [name for name in attributes if f"`{name}`" not in _PAGE] == []


def test_assignor_uses_nothing_but_kafkas_api() -> None:
    """It imports the JDK, Kafka's interfaces and its log only, and no part that does I/O, threads or reflection."""
    allowed = re.compile(
        r"java\.util\.(?!concurrent\.(?!atomic))|java\.lang\.management\.|javax\.management\.|org\.slf4j\.Logger"
        r"|org\.apache\.kafka\.common\.(Uuid|Configurable);"
        r"|org\.apache\.kafka\.coordinator\.group\.api\.assignor\."
    )
    imports = [
        line
        for source in sorted(_SOURCES.glob("*.java"))
        for line in re.findall(r"^import (?:static )?(.+)$", source.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert [name for name in imports if not allowed.match(name)] == []
