"""The pipeline on Apache Spark: messages and subscriptions in; matches, deliveries and rejected messages out.

- ``pipeline``: :func:`run_pipeline`; ``streaming``: a pipeline that keeps running
- ``match``, ``sql``: functions for your own Spark programs, in Python and in SQL
- ``sources``, ``sinks``: where messages come from, and where answers go; a module for each
- ``message_format``: the format ``twigcast`` of Spark; ``file_stream``, ``file_watch``, ``file_offsets``: as a stream;
  ``answer_format``, ``folder_commits``: as a sink
- ``frame_jobs``: one Spark job whose answers Spark writes, to tables or topics
- ``jobs``: one Spark job and what its tasks do; ``matching``, ``enveloping``: one Arrow batch, without Spark
- ``snapshots``, ``population``: how subscriptions and their changes reach the workers
- ``packing``: the archive that executors need
- ``session``, ``progress``, ``summary``, ``schemas``: running Spark and reporting on it
"""

from importlib.util import find_spec

from twigcast.errors import MissingExtra

# Spark passes Arrow batches to Python only if pandas is installed.
_missing = next((name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None), None)
if _missing is not None:
    raise MissingExtra(_missing, "spark")

# ruff: noqa: E402 - only now can these be imported
from twigcast.reading.options import ReadOptions
from twigcast.spark.match import deliveries, match_messages, matches, rejected
from twigcast.spark.message_format import read_messages
from twigcast.spark.pipeline import run_pipeline, start_pipeline
from twigcast.spark.progress import TerminalReporter
from twigcast.spark.session import open_session
from twigcast.spark.sinks.tables import DeltaTables, IcebergTables
from twigcast.spark.sinks.topics import KafkaTopics
from twigcast.spark.snapshots import Snapshot, ship_snapshot
from twigcast.spark.sql import register_match_function
from twigcast.spark.streaming import Stream
from twigcast.spark.summary import Summary

__all__ = [
    "DeltaTables",
    "IcebergTables",
    "KafkaTopics",
    "ReadOptions",
    "Snapshot",
    "Stream",
    "Summary",
    "TerminalReporter",
    "deliveries",
    "match_messages",
    "matches",
    "open_session",
    "read_messages",
    "register_match_function",
    "rejected",
    "run_pipeline",
    "ship_snapshot",
    "start_pipeline",
]
