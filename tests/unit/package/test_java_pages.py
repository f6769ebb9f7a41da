"""The pages about the assignors in Java, of Kafka Streams applications and of brokers, say what their sources say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from lab.sandbox.streams import CLASS
from tests.docs import ROOT, named_tests

_JAVA: Final = ROOT / "java" / "streams" / "src"
_SOURCES: Final = _JAVA / "main" / "java" / "io" / "samerack" / "streams"
_PAGE: Final = (ROOT / "docs" / "streams.md").read_text(encoding="utf-8")
_BROKER: Final = ROOT / "java" / "broker" / "src" / "main" / "java" / "io" / "samerack" / "broker"
_BROKER_PAGE: Final = (ROOT / "docs" / "new-protocol.md").read_text(encoding="utf-8")


def test_every_property_is_documented_with_its_default() -> None:
    """The table has the properties that the assignor reads, and no others, and their defaults."""
    settings = (_SOURCES / "Settings.java").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `(samerack\.[a-z.]+)` \| ([^|]+) \|", _PAGE, re.MULTILINE))
    assert set(re.findall(r'"(samerack\.[a-z.]+)"', settings)) == set(table)
    defaults = dict(re.findall(r"DEFAULT_(\w+) = \"?([^\";]+)\"?;", settings))
    assert table["samerack.url"] == f"`{defaults['URL']}`"
    assert table["samerack.timeout.ms"] == defaults["TIMEOUT_MS"].replace("_", "")
    assert table["samerack.retry.ms"] == defaults["RETRY_MS"].replace("_", "")


def test_every_named_test_and_count_exists() -> None:
    """Each row of the table of failures names a count of the MBean and the test that shows it."""
    named, missing = named_tests(_PAGE)
    assert named
    assert missing == set()
    tests = "".join(path.read_text(encoding="utf-8") for path in _JAVA.glob("test/**/*.java"))
    mbean = (_SOURCES / "AssignorMetricsMBean.java").read_text(encoding="utf-8")
    rows = [row.strip("| ").split(" | ") for row in _PAGE.splitlines() if row.startswith("|") and "`Fallbacks" in row]
    assert len(rows) > 4
    for *_, counts, test in rows:
        assert all(f" get{count}();" in mbean for count in re.findall(r"`(\w+)`", counts))
        assert test.strip("`") in named or f"void {test.strip('`')}(" in tests


def test_the_class_of_the_page_is_that_of_the_jar() -> None:
    """The line to configure names a public class that is there."""
    assert f"task.assignor.class={CLASS}\n" in _PAGE
    source = (_SOURCES / f"{CLASS.rpartition('.')[2]}.java").read_text(encoding="utf-8")
    assert f"package {CLASS.rpartition('.')[0]};" in source
    assert "public final class AgentTaskAssignor implements TaskAssignor" in source


@pytest.mark.parametrize(
    ("sources", "allowed"),
    [
        (
            _SOURCES,
            r"java\.|javax\.management\.|org\.slf4j\.Logger|io\.samerack\.streams\."
            r"|org\.apache\.kafka\.streams\.(KafkaStreams|processor\.TaskId|processor\.assignment\.(?!.*internals).+);"
            r"|org\.apache\.kafka\.clients\.consumer\.ConsumerPartitionAssignor\.",
        ),
        (
            _BROKER,
            r"java\.util\.(?!concurrent\.(?!atomic))|java\.lang\.management\.|javax\.management\.|org\.slf4j\.Logger"
            r"|org\.apache\.kafka\.common\.(Uuid|Configurable|config\.ConfigException);"
            r"|org\.apache\.kafka\.coordinator\.group\.api\.(streams\.)?assignor\."
            r"|org\.apache\.kafka\.coordinator\.common\.runtime\.CoordinatorMetadataImage;"
            r"|org\.apache\.kafka\.coordinator\.group\.streams\."
            r"(TopologyMetadata|topics\.ConfiguredSubtopology|assignor\.StickyTaskAssignor);",
        ),
    ],
    ids=["streams", "broker"],
)
def test_assignors_use_nothing_but_public_classes(sources: Path, allowed: str) -> None:
    """They import the JDK, their log and public classes of Kafka; those in brokers no I/O, threads or reflection.

    Four classes of the coordinator are none of its interfaces: `TaskReads.java` says why.
    """
    imports = [
        line
        for source in sorted(sources.glob("*.java"))
        for line in re.findall(r"^import (?:static )?(.+)$", source.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert imports
    assert [name for name in imports if not re.match(allowed, name)] == []


def test_every_property_and_metric_of_the_brokers_assignors_is_documented() -> None:
    """The tables have the properties that they read, and no others; the page names each attribute of their MBeans."""
    read, attributes = set(), set()
    for source in _BROKER.glob("*.java"):
        text = source.read_text(encoding="utf-8")
        read.update(re.findall(r'"(samerack\.assignor\.[a-z.]+)"', text))
        if source.name.endswith("MBean.java"):
            attributes.update(re.findall(r" get(\w+)\(\);", text))
    assert read == set(re.findall(r"^\| `(samerack\.assignor\.[a-z.]+)` \|", _BROKER_PAGE, re.MULTILINE))
    assert len(attributes) > 9
    assert [name for name in sorted(attributes) if f"`{name}`" not in _BROKER_PAGE] == []
