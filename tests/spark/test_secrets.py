"""Nothing that Spark writes or shows contains a password, key or token of the settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from samerack.pipeline.simulate import Faults
from samerack.pipeline.stream import source_options
from tests.spark.stream_process import Stream, arguments, filled, simulated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD: Final = 'kafka-pass"word'  # noqa: S105 - of a test
PRIVATE_KEY: Final = "kafka-private-key"
STORAGE: Final = {
    "spark.hadoop.fs.s3a.secret.key": "s3-hidden",
    "spark.hadoop.fs.azure.account.key.fleet.dfs.core.windows.net": "azure-hidden",
    "spark.hadoop.fs.gs.auth.credentials": "google-hidden",
}
HELD: Final = (PASSWORD, 'pass\\"word', PRIVATE_KEY, *STORAGE.values())
_LOUD: Final = """
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n%ex
logger.repl.name = org.apache.spark.api.python.PythonGatewayServer
logger.repl.level = info
"""


def command_lines(group: int) -> bytes:
    """The command lines of all processes in a process group, which every user of the machine can read."""
    found = b""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) == group:
                found += (folder / "cmdline").read_bytes()
        except OSError:
            continue  # the process has ended
    return found


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Settings with a secret of every sort, and all of Spark's logs enabled."""
    home = tmp_path / "given"
    home.mkdir()
    (home / "key.pem").write_text(PRIVATE_KEY)
    (home / "log4j2.properties").write_text(_LOUD)
    (tmp_path / "written" / "events").mkdir(parents=True)
    kafka = {"sasl.mechanism": "PLAIN", "sasl.username": "fleet", "sasl.password": PASSWORD, "log_level": "0"}
    kafka["security.protocol"] = "PLAINTEXT"  # the brokers are open, and the secrets have a place in the settings
    conf = {
        **STORAGE,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (tmp_path / "written" / "events").as_uri(),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={(home / 'log4j2.properties').as_uri()}",
        "spark.driver.memory": "700m",
    }
    settings = {"kafka": {**kafka, "ssl.key.location": str(home / "key.pem")}, "pipeline": {"conf": conf}}
    (home / "samerack.yaml").write_text(json.dumps(settings))
    return home / "samerack.yaml"


def test_nothing_that_spark_writes_or_shows_holds_a_secret(bootstrap: str, config: Path, tmp_path: Path) -> None:
    """Command lines, info log, event log, checkpoint and tables contain none, although Java gets its settings."""
    written = tmp_path / "written"
    source = filled(bootstrap, simulated(50, faults=Faults()))
    stream = Stream(arguments(source, written / "tables", "--once", "-c", str(config)), written / "log")
    stream.wait_for("reading ")
    shown = command_lines(stream.process.pid)
    assert stream.end() == 0, stream.output()
    assert b"org.apache.spark.deploy.SparkSubmit" in shown
    assert b"-Xmx700m" in shown
    files = {path: path.read_bytes() for path in written.rglob("*") if path.is_file()}
    assert any(b"SparkListenerSQLExecutionStart" in text for text in files.values()), "no event log"
    assert b"ConsumerConfig values" in files[written / "log"], "no log at level info"
    texts = {"command lines": shown, **{str(path): text for path, text in files.items()}}
    assert [(name, held) for name, text in texts.items() for held in HELD if held.encode() in text] == []


@pytest.mark.parametrize("password", ['a"b\\c', "first\nsecond\r\n", " ;=' ", "\t#!", "bücher"])
def test_java_reads_every_password_as_it_is(spark: SparkSession, password: str) -> None:
    """Kafka's own parser returns the password unchanged, whatever characters it contains."""
    kafka = {"sasl.mechanism": "PLAIN", "sasl.username": "fleet", "sasl.password": password}
    java: Any = spark.sparkContext._jvm
    text = java.org.apache.kafka.common.config.types.Password(source_options(kafka)["kafka.sasl.jaas.config"])
    context = java.org.apache.kafka.common.security.JaasContext.loadClientContext({"sasl.jaas.config": text})
    (entry,) = context.configurationEntries()
    assert entry.getOptions().get("password") == password
