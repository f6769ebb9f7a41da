"""Starts a SparkSession from the settings, and explains why one does not start."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from samerack.common.errors import AgentError, SettingsError
from samerack.pipeline import jars
from samerack.settings.pipeline import PipelineSettings

MIN_JAVA: Final = 17
REDACTED: Final = (
    r"(?i)secret|passw|passphrase|token|credential|(access|account|private|keystore)[._-]?key|jaas|[._]sas[._]"
)
"""Spark hides the value of each setting or option whose name matches: on its pages, in its event log, in plans."""
_CONNECT_SECONDS: Final = 5.0
_ONE_PROCESS: Final = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?")
_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_ESCAPED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t", **{one: f"\\{one}" for one in "\\ =:#!"}}
_LOG: Final = Path(__file__).with_name("log4j2.properties")
_QUICK_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
"""Java's first compiler alone, with room for all code of Spark: the second one takes half of the processor time of a
minute, in which nothing runs often enough to pay for it."""

_ALWAYS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.redaction.regex": REDACTED,
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # to count its rows, the store would look each new key up a second time; nothing here shows the count
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # rows are kept for the few seconds of a batch or a report: to try compressions takes longer than it saves
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    # a batch of the stream has some 110 generated classes, more than this cache holds by default (100): each batch
    # would generate and compile 70 of them anew
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Delta reads its log with fifty tasks by default; these tables have thousands of files, not millions
    "spark.databricks.delta.snapshotPartitions": "2",
}
_LOCAL: Final[Mapping[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # the number of tasks with which Delta lists folders; the default is ten thousand
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
"""For `local[N]`: one process needs no network, and many small tasks only cost time."""


def options(settings: PipelineSettings, submitted: Mapping[str, str], *, is_short: bool = False) -> dict[str, str]:
    """Return Spark's settings: our defaults, overridden by spark-submit, overridden by `pipeline.conf`.

    `submitted` are settings from spark-submit or Spark's own files; `is_short` says that the session lasts a minute.

    Raises:
        SettingsError: The jars are missing.
    """
    said = {**submitted, **settings.conf}
    master = settings.master or said.get("spark.master", "local[*]")
    ours = dict(_ALWAYS)
    if local := _ONE_PROCESS.fullmatch(master):
        # a shuffle into more parts than there are cores costs a small batch most of its time
        cores = int(local[1]) if (local[1] or "*") != "*" else os.cpu_count() if local[1] else 1
        ours |= {**_LOCAL, "spark.sql.shuffle.partitions": str(cores)}
    java = [_QUICK_JAVA] if is_short else []
    if _LOG.is_file():  # Java cannot read it within a zipped package
        java.append(f"-Dlog4j2.configurationFile={_LOG.as_uri()}")
    if java:
        ours["spark.driver.extraJavaOptions"] = " ".join(java)
    if not {"spark.jars", "spark.jars.packages"} & said.keys():
        ours["spark.jars"] = ",".join(jars.find(settings.jars))
    return {**ours, **said, "spark.master": master}


@contextmanager
def opened(settings: PipelineSettings, *, name: str, is_short: bool = False) -> Iterator[SparkSession]:
    """Start a session, which has this name on Spark's own pages, and stop it at the end of the block.

    One that is short, for queries on little data, compiles less.

    Raises:
        SettingsError: Java or the jars are missing, or the master's address is not valid.
        AgentError: The master or its workers do not answer.
    """
    submitted = _submitted()
    given = options(settings, submitted, is_short=is_short)
    master = given["spark.master"]
    if not submitted:
        _check_java()
    _check_master(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"samerack {name}")
    for key, value in given.items():
        builder = builder.config(key, value)
    try:
        if not submitted:
            _launch(given)
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        raise _explained(master, error) from None
    try:
        _wait_for_workers(spark, master, settings.start_seconds)
        yield spark
    finally:
        spark.stop()


def _launch(given: Mapping[str, str]) -> None:
    """Start Java, unless it runs; its settings are in a file of this user, not in its command line.

    Every user of the machine can read a command line, and PySpark would put all settings there, storage keys included.
    """
    with TemporaryDirectory(prefix="samerack-") as folder:
        file = Path(folder) / "spark.properties"
        file.write_text(
            "".join(f"{_property(key)}={_property(text)}\n" for key, text in given.items()), encoding="utf-8"
        )
        said = os.environ.get(_ARGUMENTS)
        os.environ[_ARGUMENTS] = shlex.join(["--load-spark-defaults", "--properties-file", str(file)]) + (
            f" {said or 'pyspark-shell'}"
        )
        try:
            with _stdout_to_stderr():
                SparkContext._ensure_initialized()  # noqa: SLF001 - the only way to start Java before a context
        finally:
            if said is None:
                del os.environ[_ARGUMENTS]
            else:
                os.environ[_ARGUMENTS] = said


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Give processes that start in the block standard error as their standard output.

    Delta prints a line for each table that it vacuums, which would be beside a command's JSON.
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _property(text: str) -> str:
    """Return a key or value escaped for a Java properties file."""
    return "".join(_ESCAPED.get(character, character) for character in text)


def _submitted() -> dict[str, str]:
    """Return the settings from spark-submit; none where the program was started without it."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()  # noqa: SLF001 - SparkConf() reads Java's side only once this has run
    return dict(SparkConf().getAll())


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    where = f"JAVA_HOME ({home})" if home else "PATH"
    cure = f"install Java {MIN_JAVA} or newer, e.g. openjdk-21-jre-headless, and name it in JAVA_HOME"
    if java is None:
        raise SettingsError(f"Spark needs Java, and {where} has none: {cure}")
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603 - the Java that will run
    except (OSError, subprocess.SubprocessError) as error:
        raise SettingsError(f"Spark needs Java, and {java} does not run ({error}): {cure}") from None
    version = re.search(r'version "(?:1\.)?(\d+)', printed.stderr + printed.stdout)
    if version and int(version[1]) < MIN_JAVA:
        raise SettingsError(f"{java} is Java {version[1]}, too old for Spark: {cure}")


def _check_master(master: str) -> None:
    """Check the form of the address, and connect to a standalone master: Spark itself would retry for a minute."""
    if not master.startswith("spark://"):
        if not (_ONE_PROCESS.fullmatch(master) or master.startswith("k8s://") or master == "yarn"):
            raise SettingsError(
                f"pipeline.master: {master!r} is not a Spark master address; expected local[N], spark://HOST:PORT, "
                "k8s://... or yarn"
            )
        return
    refused = []
    for address in master.removeprefix("spark://").split(","):
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise SettingsError(f"pipeline.master: {master}: expected spark://HOST:PORT[,HOST:PORT...]")
        try:
            with socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS):
                return
        except OSError as error:
            refused.append(f"{address} ({error.strerror or error})")
    raise AgentError(
        f"no Spark master answers at {', '.join(refused)}: start it, or correct pipeline.master; its log says "
        "`Starting Spark master at` and the address"
    )


def _explained(master: str, error: Exception) -> AgentError:
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    cause = next((line for line in lines if line.startswith(("java.", "org.apache."))), lines[0] if lines else "")
    return AgentError(
        f"Spark did not start at {master}: {cause or type(error).__name__}; its output is above, and pipeline.conf "
        "takes its settings"
    )


def _wait_for_workers(spark: SparkSession, master: str, seconds: float) -> None:
    """Wait for a worker: on a standalone master without free workers every job would wait for ever."""
    if not master.startswith("spark://"):
        return
    deadline = time.monotonic() + seconds
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 - PySpark does not show who has registered
    while context.getExecutorMemoryStatus().size() < 2:  # the driver itself is one
        if time.monotonic() > deadline:
            raise AgentError(
                f"no worker of {master} has taken the job within {seconds:.0f} s: start workers, free cores or memory "
                "(spark.executor.memory, spark.cores.max in pipeline.conf), or give pipeline.start_seconds more"
            )
        time.sleep(0.2)
