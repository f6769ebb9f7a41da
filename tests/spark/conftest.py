"""One small session for all tests on Spark, with its own folders, commands run in its process, and one broker."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest
from typer.testing import CliRunner, Result

from samerack.cli.main import app
from samerack.common.settings.pipeline import PipelineSettings
from sandbox.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Typed: TypeAlias = Callable[..., Result]
"""Runs `samerack` with these arguments and returns its output and exit code."""

QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For processes that live for seconds: Java compiles quickly, with little optimisation."""
_HERE = Path(__file__).parent
_SECONDS = 180


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests in this folder, allows the time that Java needs, and ignores PySpark's warnings."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.spark)
            # py4j leaves sockets to the garbage collector, and PySpark uses deprecated features of pandas and Python
            item.add_marker(
                pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
            )
            for kind in ("ResourceWarning", "FutureWarning", "DeprecationWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{kind}"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_SECONDS))


@pytest.fixture(scope="session")
def pipeline_settings(tmp_path_factory: pytest.TempPathFactory) -> PipelineSettings:
    """Settings for two cores, with folders of this test run."""
    home = tmp_path_factory.mktemp("spark")
    return PipelineSettings(
        master="local[2]",
        tables=str(home / "tables"),
        conf={
            "spark.driver.memory": "1g",
            "spark.local.dir": str(home / "local"),
            "spark.sql.warehouse.dir": str(home / "warehouse"),
        },
    )


@pytest.fixture(scope="session", autouse=True)
def _quick_java() -> Iterator[None]:
    """Applies `QUICK_JAVA` to every Java that these tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "JDK_JAVA_OPTIONS", QUICK_JAVA)
        yield


@pytest.fixture(scope="session")
def spark(pipeline_settings: PipelineSettings) -> Iterator[SparkSession]:
    """The session of the whole test run."""
    from samerack.pipeline.session import opened  # noqa: PLC0415 - PySpark is imported only when a test wants it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the test's filters do not apply to fixtures
        with opened(pipeline_settings, name="tests") as session:
            yield session


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """The address of a real broker; every test makes its own topics there."""
    with Cluster({1: "rack-a"}) as cluster:
        yield cluster.bootstrap


@pytest.fixture
def typed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Runs commands in this process and its session, because a new Java for each would take most of the time."""
    from samerack.pipeline import session  # noqa: PLC0415 - as above

    monkeypatch.setattr(session, "opened", lambda *_args, **_named: nullcontext(spark))
    return lambda *words: CliRunner().invoke(app, list(words))
