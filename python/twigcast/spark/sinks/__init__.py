"""The sinks that a pipeline writes its answers to.

- ``sink``: the protocol, :class:`~twigcast.spark.sinks.sink.Sink`
- ``folder``: a module for each sink

A new sink is a module here and a line in :data:`SINKS`.
"""

import os
from typing import Final

from twigcast.errors import OutputError
from twigcast.spark.sinks.folder import FolderSink
from twigcast.spark.sinks.sink import Mode, Sink

SINKS: Final[tuple[type[Sink], ...]] = (FolderSink,)
"""The first sink that takes a path writes to it."""


def open_sink(path: str | os.PathLike[str], mode: Mode) -> Sink:
    """Opens the sink that writes to a path, or raises `OutputError` if none can."""
    location = os.fspath(path)
    for sink in SINKS:
        if sink.takes(location):
            return sink(location, mode)
    raise OutputError(location, "the output must be a folder that driver and executors see under the same path")
