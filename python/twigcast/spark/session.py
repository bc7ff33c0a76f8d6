"""Spark sessions set up for moving messages, and the Java runtime that they need."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from twigcast.errors import MissingJava, PipelineError
from twigcast.spark.sources.source import BATCH_BYTES, BATCH_MESSAGES_MAX

ARROW_SETTINGS: Final = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_MESSAGES_MAX),
}
"""Batches of about 1 MB move through Python at twice the speed of Spark's defaults."""

JAVA_GONE: Final = (Py4JError, ConnectionError)
"""The errors of a call to Spark's Java process when that is gone. Errors that it answers with are ``Py4JJavaError``, a
subclass of the first: catch them before.
"""

_SETTINGS: Final = {
    **ARROW_SETTINGS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.worker.reuse": "true",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.files.openCostInBytes": str(64 << 10),
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.driver.memory": "2g",
}
STREAM_SETTINGS: Final = {
    "spark.ui.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "true",
    "spark.metrics.conf.*.sink.prometheusServlet.class": "org.apache.spark.metrics.sink.PrometheusServlet",
    "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
}
"""A stream can be watched: Spark's interface shows it, and has its numbers for Prometheus under
``/metrics/prometheus``."""

_JAVA_VERSION_MIN: Final = 17
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_SECONDS: Final = 60

_LOCAL: Final = re.compile(r"local(?:\[(\*|\d+)(?:,.*)?\])?")
_RANGE_ROWS: Final = 1 << 16

_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")


def open_session(
    master: str | None = None, *, log: Path | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Starts a Spark session, or joins the one of ``spark-submit``.

    Args:
        master: Where to run, such as ``local[*]``; by default what ``spark-submit`` says, else ``local[*]``.
        log: File for the log of Spark; by default, and under ``spark-submit``, it goes to standard error.
        settings: Spark settings that override those of this module.

    Raises:
        MissingJava: There is no Java runtime that Spark can use.
        PipelineError: Spark does not start.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName("twigcast")
    for name, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(name, value)
    if not submitted:
        check_java()
        # Workers run on this machine or on machines set up alike: they need this interpreter, with this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.config(
            "spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"
        )
    if master is not None or not submitted:
        builder = builder.master(master or "local[*]")
    try:
        with _standard_error_to(None if submitted else log):
            return builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        raise PipelineError(f"Spark does not start: {error}" + (f"; see {log}" if log is not None else "")) from error


@contextmanager
def own_session(
    master: str | None = None, log: Path | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Yields a session as :func:`open_session` does, and stops it afterwards. Errors of Spark name the log."""
    session = open_session(master, log=log, settings=settings)
    try:
        yield session
    except PipelineError as error:
        if log is not None and log.exists():
            raise PipelineError(f"{error.reason} (Spark's own log: {log})") from error
        raise
    finally:
        with suppress(*JAVA_GONE):  # it has stopped already
            session.stop()


@contextmanager
def _standard_error_to(log: Path | None) -> Iterator[None]:
    """Redirects the standard error of processes that are started inside to a file."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    ours = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def is_connected(spark: SparkSession) -> bool:
    """Returns whether a session is one of Spark Connect: its driver is another process, perhaps on another machine."""
    return ".connect." in type(spark).__module__


def task_slots(spark: SparkSession) -> int:
    """Returns how many tasks run at a time."""
    local = _LOCAL.fullmatch(spark.conf.get("spark.master") or "")
    if local is not None and not is_connected(spark):
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    # Spark splits a range so, wherever the executors are; a job of nothing, which takes a tenth of a second.
    row = spark.range(_RANGE_ROWS).selectExpr("spark_partition_id() slot").selectExpr("max(slot) + 1 slots").first()
    return 1 if row is None else int(row["slots"])


@contextmanager
def changed_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Sets settings of a session; afterwards the session has its own again."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        with suppress(*JAVA_GONE):  # nothing is left to restore, and the failed call has raised already
            for name, old in before.items():
                if old is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, old)


@contextmanager
def arrow_settings(spark: SparkSession) -> Iterator[None]:
    """Sets batch sizes that suit messages; afterwards the session has its own settings again."""
    with changed_settings(spark, ARROW_SETTINGS):
        yield


def check_java(environment: Mapping[str, str] | None = None) -> int:
    """Returns the major version of the Java runtime that Spark will use, by the variables of an environment.

    Raises:
        MissingJava: There is none, it does not run, or it is too old.
    """
    variables = os.environ if environment is None else environment
    java, origin = _find_java(variables)
    try:
        answer = subprocess.run(  # noqa: S603 - the runtime that Spark is about to start
            [java, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=True, env=dict(variables)
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingJava(f"the Java runtime {java} ({origin}) does not run: {error}") from None
    match = _JAVA_VERSION.search(answer.stderr + answer.stdout)
    if match is None:
        raise MissingJava(f"{java} ({origin}) does not say which version of Java it is")
    version = int(match.group(1))
    if version < _JAVA_VERSION_MIN:
        raise MissingJava(f"{java} ({origin}) is Java {version}, which is too old for Spark")
    return version


def _find_java(variables: Mapping[str, str]) -> tuple[str, str]:
    """Returns the runtime that Spark uses, and how Spark finds it: by JAVA_HOME, else on the PATH."""
    home = variables.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise MissingJava(f"JAVA_HOME is {home}, where there is no bin/java")
        return str(java), "from JAVA_HOME"
    java_on_path = shutil.which("java", path=variables.get("PATH", os.defpath))
    if java_on_path is None:
        raise MissingJava("Spark needs a Java runtime, and there is no java on the PATH")
    return java_on_path, "from the PATH"
