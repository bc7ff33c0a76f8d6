"""The sources that a pipeline reads messages from.

- ``source``: the base class, :class:`~twigcast.spark.sources.source.MessageSource`
- ``parquet``, ``files``: a module for each source
- ``plan``: which task reads what; ``frames``: the same messages as a DataFrame

A new source is a module here and a line in :data:`SOURCES`.
"""

import os
from typing import Final

from twigcast.limits import Limits
from twigcast.reading.options import ReadOptions
from twigcast.spark.sources.files import FileSource
from twigcast.spark.sources.parquet import ParquetSource
from twigcast.spark.sources.source import MessageSource

SOURCES: Final[tuple[type[MessageSource], ...]] = (ParquetSource, FileSource)
"""The first source that takes a path reads it; the last one takes any path."""


def open_source(
    path: str | os.PathLike[str], options: ReadOptions | None = None, limits: Limits | None = None
) -> MessageSource:
    """Returns the source that reads what lies at a path, or raises `SourceError` if none can."""
    location = os.fspath(path)
    kind = next(source for source in SOURCES if source.takes(location))
    source = kind(location, options, limits)
    source.check()
    return source
