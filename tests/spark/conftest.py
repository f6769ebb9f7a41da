"""One small session for all tests on Spark, with its own folders, commands run in its process, and one broker."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest
from typer.testing import CliRunner, Result

from lab.sandbox import jvm
from lab.sandbox.cluster import Cluster
from samerack.cli.main import app
from samerack.settings.pipeline import PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Typed: TypeAlias = Callable[..., Result]
"""Runs `samerack` with these arguments and returns its output and exit code."""

INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For the session of many small queries: to generate and compile Java for each takes longer than to run it. Tests of
processes of their own run the generated code."""
_HERE = Path(__file__).parent
_SECONDS = 1200
"""The time limit of one test, on any machine; the first ones have it for the session and the broker as well. One that
ends in the middle of a call to Java leaves a session with which all later tests fail."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in this folder, allows the time that Java needs, and ignore PySpark's warnings."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.spark)
            # py4j leaves sockets to the garbage collector, and PySpark uses deprecated features of pandas and Python
            item.add_marker(
                pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
            )
            for kind in ("ResourceWarning", "FutureWarning", "DeprecationWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{kind}"))
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
            **INTERPRETED,
        },
    )


@pytest.fixture(scope="session", autouse=True)
def _quick_java() -> Iterator[None]:
    """Apply `jvm.SPARK` to every Java that these tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "JDK_JAVA_OPTIONS", jvm.SPARK)
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
def empty_tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of empty tables, to be copied: to make them takes a commit for each."""
    from samerack.pipeline import tables  # noqa: PLC0415 - as above

    folder = tmp_path_factory.mktemp("empty")
    tables.create(spark, PipelineSettings(tables=str(folder)))
    return folder


@pytest.fixture
def made(empty_tables: Path, tmp_path: Path) -> PipelineSettings:
    """Settings with empty tables of the test's own."""
    return PipelineSettings(tables=str(shutil.copytree(empty_tables, tmp_path / "made")))


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """The address of a real broker; every test makes its own topics there."""
    with Cluster({1: "rack-a"}) as cluster:
        yield cluster.bootstrap


@pytest.fixture
def typed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Run commands in this process and its session, because a new Java for each would take most of the time."""
    from samerack.pipeline import session  # noqa: PLC0415 - as above

    monkeypatch.setattr(session, "opened", lambda *_args, **_named: nullcontext(spark))
    return lambda *words: CliRunner().invoke(app, list(words))
