"""The format ``twigcast``, which Spark finds by its name: messages in files, once or as they come."""

import os
from typing import cast

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from twigcast.errors import OutputError, PipelineError
from twigcast.limits import Limits
from twigcast.reading.options import ReadOptions
from twigcast.spark.schemas import MESSAGES_DDL
from twigcast.spark.sources import open_source
from twigcast.spark.sources.frames import FORMAT, MessageReader, check_columns_of_format, to_spark_options
from twigcast.spark.sources.source import MessageSource


def read_messages(
    spark: SparkSession,
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    *,
    limits: Limits | None = None,
) -> DataFrame:
    """Returns the messages at a path as a DataFrame: ``message_id``, ``xml``, ``problem``.

    Args:
        spark: The session.
        path: A file, folder or archive, or Parquet with the columns ``message_id`` and ``xml``. Executors must be
            able to read it under this path.
        options: How messages are cut out of their files.
        limits: Larger messages than ``message_bytes_max`` get a ``problem``.

    Raises:
        SourceError: There is nothing at the path, or no such columns.
    """
    return source_frame(spark, open_source(path, options, limits))


def source_frame(spark: SparkSession, source: MessageSource) -> DataFrame:
    """Returns the messages of a source as a DataFrame."""
    frame = source.frame(spark)
    if frame is not None:
        return frame
    spark.dataSource.register(MessageFormat)
    return spark.read.format(FORMAT).options(**to_spark_options(source)).load()


class MessageFormat(DataSource):
    """The Spark data source ``twigcast``.

    A path may be a pattern, and ``load`` takes a list. Options of reading are those of
    :class:`~twigcast.spark.ReadOptions` in Spark's spelling (``record``, ``include``, ``recordId``) and
    ``messageBytesMax``; a stream has those of :class:`~twigcast.spark.file_stream.FileStreamOptions` too.
    """

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Returns the columns of the messages."""
        return MESSAGES_DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a batch job."""
        check_columns_of_format(schema.fieldNames())
        return MessageReader(self.options, schema.fieldNames())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Returns the writer that matches the messages of a DataFrame."""
        _need("writing", (4, 1))
        from twigcast.spark.answer_format import AnswerBatchWriter

        return AnswerBatchWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Returns the writer that matches the messages of a stream."""
        if overwrite:
            raise OutputError(FORMAT, "a stream adds to the folder: use outputMode('append')")
        _need("writing a stream", (4, 1))
        from twigcast.spark.answer_format import AnswerStreamWriter

        # Spark's own check of the type knows the writer of rows and the one of Arrow batches as two.
        return cast("DataSourceStreamWriter", AnswerStreamWriter(self.options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Returns the reader of a stream."""
        check_columns_of_format(schema.fieldNames())
        _need("a stream of files", (4, 2))
        from twigcast.spark.file_stream import FileStreamReader

        return FileStreamReader(self.options, schema.fieldNames())


def _need(what: str, version: tuple[int, int]) -> None:
    """Raises :class:`PipelineError` if this version of Spark lacks the interface for something."""
    major, minor = map(int, pyspark.__version__.split(".")[:2])
    if (major, minor) < version:
        raise PipelineError(
            f"{what} with the format {FORMAT} needs Spark {'.'.join(map(str, version))} or newer, "
            f"this is {pyspark.__version__}"
        )
