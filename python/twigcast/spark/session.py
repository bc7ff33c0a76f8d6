"""Spark sessions set up for moving messages."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from twigcast.errors import PipelineError
from twigcast.spark.java import check_java
from twigcast.spark.sources import BATCH_BYTES, BATCH_MESSAGES_MAX

ARROW_SETTINGS: Final = {
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_MESSAGES_MAX),
}
"""Batches of about 1 MB move through Python at twice the speed of Spark's defaults."""

JAVA_GONE: Final = (Py4JError, ConnectionError)
"""What talking to Spark's Java process raises when it is no longer there. (What it answers with itself is a
``Py4JJavaError``, a kind of the former, and to be caught before.)
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
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")


def open_session(
    master: str | None = None, *, log: Path | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a Spark session, or join the one of ``spark-submit``.

    Args:
        master: Where to run, such as ``local[*]``; by default what ``spark-submit`` says, else ``local[*]``.
        log: File for what Spark has to say; by default, and under ``spark-submit``, it says it on standard error.
        settings: Spark settings over those of this module.

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
def _standard_error_to(log: Path | None) -> Iterator[None]:
    """Processes that are started meanwhile write to this file what they would have written to standard error."""
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


@contextmanager
def arrow_settings(spark: SparkSession) -> Iterator[None]:
    """Batch sizes that suit messages, for as long as this lasts; then what the session had before."""
    before = {name: spark.conf.get(name, None) for name in ARROW_SETTINGS}
    for name, value in ARROW_SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        with suppress(*JAVA_GONE):  # there is nothing to restore then, and whoever failed for it says so
            for name, old in before.items():
                if old is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, old)
