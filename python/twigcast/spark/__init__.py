"""The pipeline on Apache Spark: messages and subscriptions in; matches, deliveries and rejected messages out.

What lives where:

- ``pipeline``: :func:`run_pipeline`, all of it in one call; ``streaming`` is its second half, for messages that keep
  coming
- ``match``: :func:`match_messages`, for use in Spark programs of one's own; ``deliver`` takes its answers apart
- ``sources``, ``folder_stream``, ``folder_log``: reading messages, once or from a watched folder; ``direct``: in the
  very tasks that match them
- ``matching``: what is done with one Arrow batch, without Spark; ``parts``: what a task does
- ``snapshots``, ``population``: how subscriptions reach the workers, and how changes are picked up
- ``output``, ``summary``: what is written, and how a kill at any point leaves nothing half done
- ``session``, ``java``, ``jobs``, ``progress``: running Spark
"""

from importlib.util import find_spec

from twigcast.errors import MissingExtra

# Spark hands Arrow batches to Python only where pandas is installed too.
_missing = next((name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None), None)
if _missing is not None:
    raise MissingExtra(_missing, "spark")

# ruff: noqa: E402 - only now can these be imported
from twigcast.spark.deliver import deliveries, matches, rejected
from twigcast.spark.match import match_messages
from twigcast.spark.pipeline import run_pipeline
from twigcast.spark.progress import TerminalReporter
from twigcast.spark.snapshots import Snapshot, ship_snapshot
from twigcast.spark.sources import ReadOptions, read_messages
from twigcast.spark.summary import Summary

__all__ = [
    "ReadOptions",
    "Snapshot",
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
