"""The sinks of tables: Delta and Iceberg, each micro-batch exactly once.

A table gets each micro-batch in one commit, which is all or nothing. Spark may run a micro-batch again: the last one
before a kill. Delta remembers the last number of each run (``txnAppId``, ``txnVersion``) and skips it then. Of Iceberg,
the first micro-batch after a start is looked up by its ``run`` and ``batch`` before it is written; later ones are new.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql.functions import col, lit
from pyspark.sql.pandas.types import from_arrow_schema

from twigcast.errors import OutputError
from twigcast.spark.schemas import KINDS, AnswerColumns
from twigcast.spark.sinks.frame_sink import FrameSink, RowOrigin

ORIGIN_DDL: Final = "run string, batch bigint, event_time timestamp, day date"
"""The columns that say where a row comes from, after those of its kind."""

_COLUMNS: Final = {
    "matches": "message_id string, key string, nodes int",
    "deliveries": "message_id string, key string, payload string",
    "rejected": "message_id string, reason string, line bigint, `column` bigint, xml binary",
}


@dataclass(frozen=True, kw_only=True)
class AnswerTables(FrameSink):
    """Three tables of a database: ``matches``, ``deliveries`` and ``rejected``; created if they are missing."""

    database: str
    """Where the tables are, such as ``lake.answers``; of Delta, it may also be a folder or a URI, such as
    ``s3a://bucket/answers``. It is created if it is missing."""

    prefix: str = ""
    """What the names of the tables begin with."""

    by_day: bool = False
    """Whether new tables are partitioned by ``day`` (in UTC), besides by ``run``."""

    sort_by_key: bool = False
    """Whether the rows of each file are in the order of their keys."""

    event_time: str | None = None
    """The column of the messages that tells when they happened; by default it is the time of their processing."""

    run: str | None = None
    """The name of a batch job. Its rows take the place of those of an earlier job of this name; without a name, each
    job adds rows."""

    has_versions: bool = False
    """Whether rows have a column ``population_version``, as with a population that lives; set by the pipeline."""

    format: str = ""
    """The format of the tables."""

    advice: str = ""
    """How Spark gets the format."""

    of_deliveries: str = ""
    """Further columns of deliveries, as with life cycles and windows; set by the pipeline."""

    def with_columns(self, columns: AnswerColumns) -> "AnswerTables":
        """Returns the sink for tables with further columns."""
        return replace(
            self,
            has_versions=columns.has_versions,
            of_deliveries="".join(
                f", `{one.name}` {one.dataType.simpleString()}"
                for one in from_arrow_schema(pa.schema(columns.of_deliveries)).fields
            ),
        )

    def _kind_columns(self) -> dict[str, str]:
        return {**_COLUMNS, "deliveries": f"{_COLUMNS['deliveries']}{self.of_deliveries}"}

    @property
    def _origin(self) -> str:
        return f"{ORIGIN_DDL}, population_version bigint" if self.has_versions else ORIGIN_DDL

    def kinds(self) -> tuple[str, ...]:
        """Returns all kinds."""
        return tuple(KINDS)

    def table(self, kind: str) -> str:
        """Returns the full name of the table of a kind."""
        return f"{self.database}.{self.prefix}{kind}"

    def open(self, spark: SparkSession) -> None:
        """Creates the tables that are missing, and checks the columns of those that are there.

        Raises:
            OutputError: Spark does not know the format or the catalogue, or a table has other columns.
        """
        partitions = "run, day" if self.by_day else "run"
        try:
            if "/" not in self.database:
                spark.sql(f"CREATE DATABASE IF NOT EXISTS {self.database}")
            for kind, columns in self._kind_columns().items():
                table = self.table(kind)
                spark.sql(
                    f"CREATE TABLE IF NOT EXISTS {table} ({columns}, {self._origin}) "
                    f"USING {self.format} PARTITIONED BY ({partitions})"
                )
                self._check(spark, table, columns)
        except PySparkException as error:
            reason = str(error).partition("\n")[0]
            raise OutputError(self.database, f"Spark cannot use its tables: {reason} ({self.advice})") from error

    def _check(self, spark: SparkSession, table: str, columns: str) -> None:
        wanted = spark.createDataFrame([], f"{columns}, {self._origin}").schema
        found = {field.name: field.dataType for field in spark.table(table).schema.fields}
        for field in wanted.fields:
            if found.get(field.name) != field.dataType:
                has = found[field.name].simpleString() if field.name in found else "none"
                raise OutputError(
                    table, f"it needs a column {field.name} of type {field.dataType.simpleString()}, and has {has}"
                )

    def write(self, kind: str, rows: DataFrame, origin: RowOrigin) -> None:
        """Writes the answers of one kind in one commit, unless the table has them already."""
        table = self.table(kind)
        if self.sort_by_key and "key" in rows.columns:
            rows = rows.sortWithinPartitions("key", "message_id")
        if not origin.is_stream and origin.may_be_there:
            rows.writeTo(table).overwrite(col("run") == lit(origin.run))
            return
        self._append(rows, table, origin)

    def compact(self, spark: SparkSession) -> None:
        """Joins small files into larger ones; streams and readers of the tables go on meanwhile."""
        for kind in KINDS:
            self._compact(spark, self.table(kind))

    @abstractmethod
    def _compact(self, spark: SparkSession, table: str) -> None:
        """Joins the small files of a table."""

    @abstractmethod
    def _append(self, rows: DataFrame, table: str, origin: RowOrigin) -> None:
        """Appends the rows, unless the table has those of this micro-batch already."""


@dataclass(frozen=True, kw_only=True)
class DeltaTables(AnswerTables):
    """Three Delta tables. Spark needs ``io.delta:delta-spark_4.2_2.13:4.4.0`` or the one of its version."""

    format: str = "delta"
    advice: str = "start Spark with --packages io.delta:delta-spark_VERSION and Delta's extension and catalogue"

    def table(self, kind: str) -> str:
        """Returns the full name of the table of a kind, or its path as Spark's SQL writes it."""
        return f"delta.`{self.database}/{self.prefix}{kind}`" if "/" in self.database else super().table(kind)

    def _append(self, rows: DataFrame, table: str, origin: RowOrigin) -> None:
        writer: DataFrameWriterV2 = rows.writeTo(table)
        if origin.is_stream:
            writer = writer.option("txnAppId", f"twigcast-{origin.run}").option("txnVersion", str(origin.batch))
        writer.append()

    def _compact(self, spark: SparkSession, table: str) -> None:
        spark.sql(f"OPTIMIZE {table}")


@dataclass(frozen=True, kw_only=True)
class IcebergTables(AnswerTables):
    """Three Iceberg tables. Spark needs ``org.apache.iceberg:iceberg-spark-runtime`` of its version."""

    format: str = "iceberg"
    advice: str = "start Spark with --packages org.apache.iceberg:iceberg-spark-runtime-VERSION and a catalogue"

    def refresh(self, spark: SparkSession) -> None:
        """Drops what the session has kept of the tables: Iceberg does not look for half a minute."""
        for kind in KINDS:
            spark.catalog.refreshTable(self.table(kind))

    def _append(self, rows: DataFrame, table: str, origin: RowOrigin) -> None:
        if origin.may_be_there:
            self.refresh(rows.sparkSession)
            written = rows.sparkSession.table(table).where(
                (col("run") == lit(origin.run)) & (col("batch") == lit(origin.batch))
            )
            if not written.limit(1).isEmpty():
                return
        if self.sort_by_key:  # else Iceberg shuffles the rows by partition, which loses their order
            rows.writeTo(table).option("distribution-mode", "none").option("fanout-enabled", "true").append()
        else:
            rows.writeTo(table).append()

    def _compact(self, spark: SparkSession, table: str) -> None:
        catalogue, _, name = table.partition(".")
        if catalogue not in {known.name for known in spark.catalog.listCatalogs()}:
            catalogue, name = spark.catalog.currentCatalog(), table
        spark.sql(f"CALL {catalogue}.system.rewrite_data_files(table => '{name}')")
