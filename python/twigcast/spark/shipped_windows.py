"""The windows of a population: checked on the driver, shipped to the workers beside its snapshot, loaded there once."""

import atexit
import hashlib
import os
import pickle
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from twigcast.errors import SnapshotError, WindowError
from twigcast.limits import Limits
from twigcast.registration import Subscription
from twigcast.spark.window_rows import WindowedSubscription
from twigcast.windows.declarations import read_window
from twigcast.windows.expressions import WindowTable
from twigcast.windows.results import change_params
from twigcast.windows.states import begin

Clock = tuple[str, tuple[tuple[str, str], ...]]
"""An expression for the time of a message, with its prefixes."""


@dataclass(frozen=True, slots=True)
class ShippedWindows:
    """The windows of a population, which the workers of one Spark application can load."""

    version: str
    """Digest of the contents."""

    file_name: str
    """Name under which Spark ships the file."""

    began: float | None
    """From when on silence counts, in seconds since 1970; ``None`` for the time of the micro-batch."""

    clock: Clock | None = None
    """What says when a message came, if messages do."""

    silent: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """On the driver: the subscriptions for which silence counts from their beginning on."""

    is_new: bool = False
    """Whether tasks let windows begin that have not begun before."""


def windowed(subscription: Subscription, when: object) -> WindowedSubscription:
    """Returns a subscription with its window.

    Raises:
        WindowError: The window cannot be used.
    """
    window = read_window(when)  # type: ignore[arg-type]  # what is no mapping is refused there
    if not subscription.key:
        raise WindowError("when", "a subscription with a window needs a key that is not empty")
    return WindowedSubscription(window, subscription, change_params(window, subscription))


class WindowChecker:
    """A checker of windows with their expressions, as tasks will register them."""

    def __init__(self, limits: Limits) -> None:
        self._table: WindowTable[str] = WindowTable(limits)
        self.windows: dict[str, WindowedSubscription] = {}

    def add(self, subscription: Subscription, when: object) -> None:
        """Adds a subscription with its window.

        Raises:
            WindowError: The window cannot be used.
        """
        made = windowed(subscription, when)
        self._table.put(subscription.key, made.window, subscription.namespaces)
        self.windows[subscription.key] = made


def ship_windows(
    spark: SparkSession,
    windows: Mapping[str, WindowedSubscription],
    before: ShippedWindows | None = None,
    *,
    began: float | None = None,
    clock: Clock | None = None,
) -> ShippedWindows:
    """Ships windows to the workers of a Spark application, unless they are what was shipped `before`."""
    contents = pickle.dumps(dict(windows))
    version = hashlib.sha256(contents).hexdigest()[:32]
    if before is not None and before.version == version:
        return before
    folder = Path(tempfile.mkdtemp(prefix="twigcast-"))
    # Executors that start later fetch it from here, so it stays until the driver exits.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"twigcast-{version}-{folder.name[-8:]}.windows"
    path.write_bytes(contents)
    spark.addArtifacts(os.fspath(path), file=True)
    silent = tuple(key for key, one in windows.items() if begin(one.window, 0.0) is not None)
    return ShippedWindows(version, path.name, began, clock, silent)


def load_windows(shipped: ShippedWindows) -> Mapping[str, WindowedSubscription]:
    """Returns windows, in a worker, which keeps the last ones."""
    return _loaded(shipped.file_name)


@lru_cache(maxsize=2)
def _loaded(file_name: str) -> Mapping[str, WindowedSubscription]:
    path = Path(SparkFiles.get(file_name))
    try:
        contents = path.read_bytes()
    except OSError:
        raise SnapshotError(str(path), "the windows did not reach this worker") from None
    windows: Mapping[str, WindowedSubscription] = pickle.loads(contents)  # noqa: S301 - of this job
    return windows
