"""The sinks that a pipeline writes its answers to.

- ``sink``: the protocol, :class:`~twigcast.spark.sinks.sink.Sink`
- ``frame_sink``: the protocol of sinks that Spark itself writes to
- ``folder``, ``tables``, ``topics``: a module for each kind

A new sink is a module here and a line in :data:`SINKS` or :data:`FRAME_SINKS`.
"""

import os
from typing import Final

from twigcast.errors import OutputError
from twigcast.spark.schemas import NO_COLUMNS, AnswerColumns
from twigcast.spark.sinks.folder import FolderSink
from twigcast.spark.sinks.frame_sink import FrameSink
from twigcast.spark.sinks.sink import Mode, Sink
from twigcast.spark.sinks.tables import DeltaTables, IcebergTables
from twigcast.spark.sinks.topics import KafkaTopics

SINKS: Final[tuple[type[Sink], ...]] = (FolderSink,)
"""The first sink that takes a path writes to it."""

FRAME_SINKS: Final[tuple[type[FrameSink], ...]] = (DeltaTables, IcebergTables, KafkaTopics)
"""The sinks that Spark itself writes to: what ``run_pipeline(sink=...)`` takes."""


def open_sink(path: str | os.PathLike[str], mode: Mode, *, columns: AnswerColumns = NO_COLUMNS) -> Sink:
    """Opens the sink that writes to a path, or raises `OutputError` if none can.

    `columns` says what rows have besides the columns of their kind.
    """
    location = os.fspath(path)
    for sink in SINKS:
        if sink.takes(location):
            return sink(location, mode, columns=columns)
    raise OutputError(location, "the output must be a folder that driver and executors see under the same path")
