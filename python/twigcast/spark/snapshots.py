"""Snapshots of subscription sets: files that Spark ships to the workers, and that each worker loads once per version.

A snapshot is named after its contents, so workers recognise versions by name and keep the engines they have loaded.
"""

import atexit
import gc
import hashlib
import os
import shutil
import tempfile
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Final

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from twigcast.engine.session import EngineSession
from twigcast.envelope import Envelope
from twigcast.errors import SnapshotError
from twigcast.limits import Limits
from twigcast.registration import AddReport, Subscription
from twigcast.spark.population_log import PopulationState, apply_delta
from twigcast.spark.shipped_windows import ShippedWindows
from twigcast.subscriptions import SubscriptionSet

_SESSIONS_MAX: Final = 2
"""A worker keeps the current engine session, and one more for a job that runs beside it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A subscription set that the workers of one Spark application can load."""

    version: str
    """Digest of the contents."""

    file_name: str
    """Name under which Spark ships the file, or its path in a folder that workers see too."""

    subscriptions: int
    """Number of subscriptions."""

    limits: Limits

    refused: int = 0
    """Number of subscriptions that were refused and left out."""

    envelope: Envelope | None = None
    """An element around each payload."""

    whole: bool = False
    """Whether subscriptions that rewrite nothing get the message itself as payload."""

    contents: bytes | None = field(default=None, repr=False)
    """The file itself, where Spark would not ship it."""

    living: PopulationState | None = field(default=None, repr=False)
    """The version of a population that lives: the file is its base, and deltas lead from there to the version."""

    windows: ShippedWindows | None = field(default=None, repr=False)
    """When its subscribers are told, if a pipeline has windows."""

    @property
    def population_version(self) -> int | None:
        """The number of the version, if the population lives."""
        return None if self.living is None else self.living.version


def ship_snapshot(
    spark: SparkSession,
    subscriptions: SubscriptionSet,
    refused: int = 0,
    envelope: Envelope | None = None,
    *,
    whole: bool = False,
) -> Snapshot:
    """Ships a subscription set to the workers of a Spark application, also to those that start later.

    Later changes of the set do not travel. `refused` is the number of subscriptions that were left out; `whole` says
    whether subscriptions that rewrite nothing get the message itself as payload.
    """
    folder = Path(tempfile.mkdtemp(prefix="twigcast-"))
    # Executors that start later fetch it from here, so it stays until the driver exits.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    snapshot = replace(save_snapshot(subscriptions, folder, refused, whole=whole), envelope=envelope)
    spark.addArtifacts(snapshot.file_name, file=True)
    return replace(snapshot, file_name=Path(snapshot.file_name).name)


def carry_snapshot(subscriptions: SubscriptionSet) -> Snapshot:
    """Returns a snapshot that has its file in itself.

    Streams over Spark Connect run in a copy of their session, which does not have the files that were added to it.
    """
    with tempfile.TemporaryDirectory(prefix="twigcast-") as folder:
        saved = save_snapshot(subscriptions, Path(folder))
        return replace(saved, file_name="", contents=Path(saved.file_name).read_bytes())


def save_snapshot(subscriptions: SubscriptionSet, folder: Path, refused: int = 0, *, whole: bool = False) -> Snapshot:
    """Saves a subscription set in a folder that the workers see too."""
    descriptor, saved = tempfile.mkstemp(dir=folder)
    os.close(descriptor)
    subscriptions.save(saved)
    version = _digest(Path(saved))
    named = Path(saved).rename(folder / f"twigcast-{version}.snapshot")
    return Snapshot(version, os.fspath(named), len(subscriptions), subscriptions.limits, refused, None, whole)


def load_session(snapshot: Snapshot, sessions_max: int = _SESSIONS_MAX) -> EngineSession:
    """Returns the engine session of a snapshot, in a worker, which keeps so many of them."""
    if snapshot.living is not None:
        return _living_session(snapshot, snapshot.living)
    session = _sessions.get(snapshot.version)
    if session is None and snapshot.contents is not None:
        with tempfile.NamedTemporaryFile(prefix="twigcast-", suffix=".snapshot") as file:
            file.write(snapshot.contents)
            file.flush()
            session = _load(snapshot, file.name, sessions_max)
    elif session is None:
        session = _load(snapshot, _shipped_path(snapshot), sessions_max)
    _sessions.move_to_end(snapshot.version)
    return session


def _shipped_path(snapshot: Snapshot) -> str:
    path = snapshot.file_name if os.path.isabs(snapshot.file_name) else SparkFiles.get(snapshot.file_name)  # noqa: PTH117
    if not Path(path).is_file():
        raise SnapshotError(path, "the snapshot did not reach this worker")
    return path


def _living_session(snapshot: Snapshot, state: PopulationState) -> EngineSession:
    """Returns a session of a version: one of an earlier version with the deltas since, or the base with those."""
    mine = [one for one in _living if one.population == state.population and one.limits == snapshot.limits]
    usable = [one for one in mine if state.floor <= one.version <= state.version]
    if usable:
        one = max(usable, key=lambda one: one.version)
    else:
        _freeze_imports()
        while len(_living) >= _SESSIONS_MAX:
            _living.pop(0)
        session = EngineSession.load(_shipped_path(snapshot), snapshot.limits)
        one = _LivingSession(state.population, snapshot.limits, state.base, session)
    if one in _living:
        _living.remove(one)
    for version, changes in state.deltas:
        if version > one.version:
            apply_delta(changes, one.put, one.session.discard)
            one.version = version
    _living.append(one)
    return one.session


@dataclass(eq=False)
class _LivingSession:
    """The session of a population in a worker, which goes from version to version."""

    population: str
    limits: Limits
    version: int
    session: EngineSession

    def put(self, subscriptions: list[Subscription]) -> AddReport:
        return self.session.add_many(subscriptions, {}, "xpath", replace=True)


_living: list[_LivingSession] = []
"""Least recently used first. One whose delta fails is in it no more, since it may have a part of that."""


def _load(snapshot: Snapshot, path: str, sessions_max: int) -> EngineSession:
    _freeze_imports()
    while len(_sessions) >= sessions_max:
        _sessions.popitem(last=False)
    session = EngineSession.load(path, snapshot.limits)
    _sessions[snapshot.version] = session
    return session


_sessions: OrderedDict[str, EngineSession] = OrderedDict()
"""By version, least recently used first. Spark uses worker processes for many tasks."""


@cache
def _freeze_imports() -> None:
    """Exempts what a worker has imported from garbage collection, once.

    PySpark collects garbage after each task; traversing all of pandas, pyarrow and PySpark takes 30 ms each time, as
    long as matching a few thousand messages.
    """
    gc.freeze()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]
