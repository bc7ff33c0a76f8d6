"""The pipeline on Apache Spark: messages and subscriptions in; matches, deliveries and rejected messages out.

- ``pipeline``: :func:`run_pipeline`; ``streaming``, ``folder_stream``: a pipeline that keeps running
- ``match``: functions for Spark programs of one's own
- ``sources``, ``sinks``: where messages come from, and where answers go; a module for each
- ``jobs``: one Spark job and what its tasks do; ``matching``, ``enveloping``: one Arrow batch, without Spark
- ``snapshots``, ``population``: how subscriptions reach the workers, and how changes are taken
- ``session``, ``progress``, ``summary``, ``schemas``: running Spark and reporting on it
"""

from importlib.util import find_spec

from twigcast.errors import MissingExtra

# Spark passes Arrow batches to Python only if pandas is installed.
_missing = next((name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None), None)
if _missing is not None:
    raise MissingExtra(_missing, "spark")

# ruff: noqa: E402 - only now can these be imported
from twigcast.spark.match import deliveries, match_messages, matches, rejected
from twigcast.spark.pipeline import run_pipeline
from twigcast.spark.progress import TerminalReporter
from twigcast.spark.snapshots import Snapshot, ship_snapshot
from twigcast.spark.sources.frames import read_messages
from twigcast.spark.sources.source import ReadOptions
from twigcast.spark.streaming import Stream
from twigcast.spark.summary import Summary

__all__ = [
    "ReadOptions",
    "Snapshot",
    "Stream",
    "Summary",
    "TerminalReporter",
    "deliveries",
    "match_messages",
    "matches",
    "read_messages",
    "rejected",
    "run_pipeline",
    "ship_snapshot",
]
