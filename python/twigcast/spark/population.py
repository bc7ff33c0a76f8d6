"""The subscriptions of a pipeline, loaded again whenever their file changes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

from pyspark.sql import SparkSession

from twigcast.envelope import Envelope
from twigcast.errors import RefusedSubscriptions, SubscriptionFileError, TwigcastError, WindowError
from twigcast.limits import Limits
from twigcast.registration import Dialect
from twigcast.spark.living import LivingPopulation
from twigcast.spark.progress import ProgressReporter
from twigcast.spark.shipped_windows import Clock, ShippedWindows, WindowChecker, ship_windows
from twigcast.spark.snapshots import Snapshot, ship_snapshot
from twigcast.spark.window_rows import WindowedSubscription
from twigcast.spark.window_settings import WindowSettings
from twigcast.subscription_files import load_subscriptions
from twigcast.subscriptions import SubscriptionSet

_REFUSED_SHOWN: Final = 20

OnBad = Literal["fail", "skip"]


@dataclass(frozen=True, slots=True)
class PopulationInput:
    """The subscriptions of a pipeline as its caller gives them, and how they are read."""

    subscriptions: SubscriptionSet | LivingPopulation | str | os.PathLike[str]
    """A set, a population that lives, or a file (see :func:`twigcast.subscription_files.load_subscriptions`)."""

    namespaces: Mapping[str, str] | None = None
    """For subscriptions in a file: prefixes of all of them."""

    dialect: Dialect = "xpath"
    """For subscriptions in a file: the dialect of those that name none."""

    limits: Limits | None = None
    on_bad: OnBad = "fail"

    envelope: Envelope | None = None
    """An element around each payload."""

    whole: bool = False
    """Whether subscriptions that rewrite nothing get the message itself as payload."""

    windows: WindowSettings | None = None
    """When subscribers are told, if that is looked at."""

    without_windows: bool = False
    """Whether subscriptions that say when they are told are taken without that."""

    @property
    def is_living(self) -> bool:
        """Returns whether the population has versions."""
        return isinstance(self.subscriptions, LivingPopulation)

    @property
    def clock(self) -> Clock | None:
        """The expression that says when a message came, with its prefixes."""
        if self.windows is None or self.windows.time is None:
            return None
        return self.windows.time, tuple(sorted((self.namespaces or {}).items()))

    def load(self) -> "LoadedPopulation":
        """Loads the set as it is now, and the subscriptions that were refused, or fails, if ``on_bad`` says so."""
        declared: dict[str, object] = {}
        refused: list[tuple[str, TwigcastError]] = []
        if isinstance(self.subscriptions, SubscriptionSet):
            loaded = self.subscriptions
        else:
            assert not isinstance(self.subscriptions, LivingPopulation), "its snapshots are not loaded"
            loaded, rows = load_subscriptions(
                self.subscriptions,
                namespaces=self.namespaces,
                dialect=self.dialect,
                limits=self.limits,
                when=declared,
            )
            refused = [(row.label, row.error) for row in rows]
        if declared and self.windows is None and not self.without_windows:
            key = next(iter(declared))
            raise SubscriptionFileError(
                os.fspath(self.subscriptions),  # type: ignore[arg-type]  # a set declares nothing
                None,
                f"the subscription {key} says when it is told, and here subscriptions have no windows: begin a "
                "pipeline with windows=WindowSettings(), or leave `when` out",
            )
        windows = self._windows(loaded, declared, refused)
        if refused and self.on_bad == "fail":
            raise RefusedSubscriptions(refused)
        return LoadedPopulation(loaded, refused, windows, 0 if self.windows is not None else len(declared))

    def _windows(
        self, loaded: SubscriptionSet, declared: Mapping[str, object], refused: list[tuple[str, TwigcastError]]
    ) -> Mapping[str, WindowedSubscription]:
        """Returns the subscriptions that have a window. Those of a file whose window is refused are left out."""
        settings = self.windows
        if settings is None:
            return {}
        checker = WindowChecker(loaded.limits)
        keys = loaded if settings.usual is not None else {**(settings.when or {}), **declared}
        for key in list(keys):
            if key not in loaded:
                continue
            try:
                checker.add(loaded[key], settings.declared(declared, key))
            except WindowError as error:
                located = WindowError(f"{key}: {error.word}", error.reason)
                if loaded is self.subscriptions:
                    raise located from None
                loaded.discard(key)
                refused.append((key, error))
        return checker.windows


@dataclass(frozen=True, slots=True)
class LoadedPopulation:
    """A population as it is now."""

    subscriptions: SubscriptionSet
    refused: Sequence[tuple[str, TwigcastError]]
    windows: Mapping[str, WindowedSubscription]
    """The subscriptions that have a window, by key."""
    passed_over: int = 0
    """How many subscriptions say when they are told, where that is not looked at."""


class PopulationFeed:
    """A feed of snapshots: one at first, and another whenever the subscriptions have changed."""

    def __init__(self, spark: SparkSession, population: PopulationInput, reporter: ProgressReporter) -> None:
        self._spark = spark
        self._population = population
        self._reporter = reporter
        self._stamp = self._read_stamp()
        self._windows: ShippedWindows | None = None
        self._snapshot = self._ship()

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot."""
        return self._snapshot

    def refresh(self) -> Snapshot:
        """Returns the newest snapshot, after checking the file for changes.

        A file that cannot be used stops the pipeline with ``on_bad="fail"``; with ``"skip"`` the last snapshot stays
        in force.
        """
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return self._snapshot
        try:
            fresh = self._ship()
        except SubscriptionFileError as error:
            if self._population.on_bad == "fail":
                raise
            self._reporter.say(f"the subscriptions stay as they were: {error}")
        else:
            if (fresh.version, fresh.windows) != (self._snapshot.version, self._snapshot.windows):
                self._reporter.say(f"{fresh.subscriptions:,} subscriptions from now on")
            self._snapshot = fresh
        self._stamp = stamp
        return self._snapshot

    def snapshot_for(self, stream: str, batch: int) -> Snapshot:
        """Returns the snapshot for a micro-batch: the newest one, or the version that it had before a kill."""
        living = self._population.subscriptions
        if not isinstance(living, LivingPopulation):
            return self.refresh()
        envelope, whole = self._population.envelope, self._population.whole
        return living.snapshot_for(self._spark, stream, batch, envelope=envelope, whole=whole)

    def _read_stamp(self) -> object:
        """Returns a value that changes with the subscriptions."""
        subscriptions = self._population.subscriptions
        if isinstance(subscriptions, SubscriptionSet | LivingPopulation):
            return subscriptions.version
        try:
            info = os.stat(subscriptions)  # noqa: PTH116 - one call for str and Path
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size, info.st_ino

    def _ship(self) -> Snapshot:
        population = self._population
        if isinstance(population.subscriptions, LivingPopulation):
            living = population.subscriptions
            return living.snapshot(self._spark, envelope=population.envelope, whole=population.whole)
        loaded = population.load()
        refused = loaded.refused
        if loaded.passed_over:
            what = "what subscriptions match counts here, and not when they would be told"
            self._reporter.say(f"{what}: {loaded.passed_over:,} have windows")
        for label, error in refused[:_REFUSED_SHOWN]:
            self._reporter.say(f"left out: {label}: {error}")
        if len(refused) > _REFUSED_SHOWN:
            more = len(refused) - _REFUSED_SHOWN
            self._reporter.say(f"left out: {more:,} more subscriptions; twigcast check -s lists all of them")
        snapshot = ship_snapshot(
            self._spark, loaded.subscriptions, len(refused), population.envelope, whole=population.whole
        )
        if population.windows is None:
            return snapshot
        began = population.windows.began if self._windows is None else datetime.now(UTC)
        self._windows = ship_windows(
            self._spark,
            loaded.windows,
            self._windows,
            began=None if began is None else began.timestamp(),
            clock=population.clock,
        )
        return replace(snapshot, windows=self._windows)
