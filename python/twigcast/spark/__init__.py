"""The pipeline on Apache Spark: messages and subscriptions in; matches, deliveries and rejected messages out.

- ``pipeline``: :func:`run_pipeline`; ``streaming``: a pipeline that keeps running
- ``backtest``: counts the deliveries of an archive; ``delivery_counts``, ``message_times``: its tasks
- ``match``, ``sql``: functions for your own Spark programs, in Python and in SQL
- ``sources``, ``sinks``: where messages come from, and where answers go; a module for each
- ``message_format``: the format ``twigcast`` of Spark; ``file_stream``, ``file_watch``, ``file_offsets``: as a stream;
  ``answer_format``, ``folder_commits``: as a sink
- ``frame_jobs``: one Spark job whose answers Spark writes, to tables or topics
- ``jobs``: one Spark job and its tasks; ``matching``, ``enveloping``: one Arrow batch, without Spark
- ``snapshots``, ``population``: how subscriptions and their changes reach the workers
- ``lifecycles``: messages that update and cancel each other, with ``lifecycle_settings``; ``related_rows``,
  ``chain_tables``: what its tasks do, without Spark
- ``windows``: when subscribers are told; ``window_rows``: what its tasks do; ``state``: the state of Spark's streams
- ``following``: pipelines with life cycles, or with windows; ``followed_settings``, ``window_settings``: what they
  follow; ``shipped_windows``: how windows reach the workers; ``windowed_rows``: what such tasks do, without Spark
- ``living``, ``population_log``: a population that changes while streams run, and its versions
- ``sharding``: a population that is too large for a worker, in shards
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
from twigcast.spark.backtest import BacktestReport, backtest
from twigcast.spark.lifecycle_settings import LifecycleSettings
from twigcast.spark.lifecycles import relate_messages
from twigcast.spark.living import LivingPopulation
from twigcast.spark.match import deliveries, match_messages, matches, rejected
from twigcast.spark.message_format import read_messages
from twigcast.spark.pipeline import run_pipeline, start_pipeline
from twigcast.spark.progress import TerminalReporter
from twigcast.spark.session import open_session
from twigcast.spark.sharding import ShardedPopulation, match_shards, route_messages, shard_subscriptions
from twigcast.spark.sinks.tables import DeltaTables, IcebergTables
from twigcast.spark.sinks.topics import KafkaTopics
from twigcast.spark.snapshots import Snapshot, ship_snapshot
from twigcast.spark.sql import register_match_function
from twigcast.spark.streaming import Stream
from twigcast.spark.summary import Summary
from twigcast.spark.window_settings import WindowSettings
from twigcast.spark.windows import window_messages

__all__ = [
    "BacktestReport",
    "DeltaTables",
    "IcebergTables",
    "KafkaTopics",
    "LifecycleSettings",
    "LivingPopulation",
    "ReadOptions",
    "ShardedPopulation",
    "Snapshot",
    "Stream",
    "Summary",
    "TerminalReporter",
    "WindowSettings",
    "backtest",
    "deliveries",
    "match_messages",
    "match_shards",
    "matches",
    "open_session",
    "read_messages",
    "register_match_function",
    "rejected",
    "relate_messages",
    "route_messages",
    "run_pipeline",
    "shard_subscriptions",
    "ship_snapshot",
    "start_pipeline",
    "window_messages",
]
