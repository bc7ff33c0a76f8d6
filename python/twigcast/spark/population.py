"""The subscriptions that a pipeline runs with, picked up again whenever their file changes."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pyspark.sql import SparkSession

from twigcast.envelope import Envelope
from twigcast.errors import RefusedSubscriptions, SubscriptionFileError, TwigcastError
from twigcast.limits import Limits
from twigcast.registration import Dialect
from twigcast.spark.progress import ProgressReporter
from twigcast.spark.snapshots import Snapshot, ship_snapshot
from twigcast.subscription_files import load_subscriptions
from twigcast.subscriptions import SubscriptionSet

_REFUSED_SHOWN: Final = 20

OnBad = Literal["fail", "skip"]


@dataclass(frozen=True, slots=True)
class PopulationSource:
    """Where subscriptions come from and how they are read."""

    source: SubscriptionSet | str | os.PathLike[str]
    """A set, or a file (see :func:`twigcast.subscription_files.load_subscriptions`)."""

    namespaces: Mapping[str, str] | None = None
    """For subscriptions in a file: prefixes of all of them."""

    dialect: Dialect = "xpath"
    """For subscriptions in a file: how they are read unless they say so themselves."""

    limits: Limits | None = None
    on_bad: OnBad = "fail"

    envelope: Envelope | None = None
    """Put around each payload."""

    whole: bool = False
    """Whether subscriptions that rewrite nothing get the message itself as payload."""

    def load(self) -> tuple[SubscriptionSet, Sequence[tuple[str, TwigcastError]]]:
        """The set as it is now, and the subscriptions that were refused.

        Raises:
            RefusedSubscriptions: Some were, and ``on_bad`` is ``"fail"``.
            SubscriptionFileError: The file cannot be read.
        """
        if isinstance(self.source, SubscriptionSet):
            return self.source, ()
        loaded, wrong = load_subscriptions(
            self.source, namespaces=self.namespaces, dialect=self.dialect, limits=self.limits
        )
        refused = [(row.label, row.error) for row in wrong]
        if refused and self.on_bad == "fail":
            raise RefusedSubscriptions(refused)
        return loaded, refused


class PopulationFeed:
    """Publishes a population, and publishes it anew when its file has changed."""

    def __init__(self, spark: SparkSession, population: PopulationSource, reporter: ProgressReporter) -> None:
        self._spark = spark
        self._population = population
        self._reporter = reporter
        self._stamp = self._poll()
        self._snapshot = self._publish()

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot that was published."""
        return self._snapshot

    def refresh(self) -> Snapshot:
        """The newest snapshot, after a look at the file.

        A file that cannot be used stops the pipeline with ``on_bad="fail"``; with ``"skip"`` the last usable one
        stays in force.
        """
        stamp = self._poll()
        if stamp == self._stamp:
            return self._snapshot
        try:
            fresh = self._publish()
        except SubscriptionFileError as error:
            if self._population.on_bad == "fail":
                raise
            self._reporter.say(f"the subscriptions stay as they were: {error}")
        else:
            if fresh.version != self._snapshot.version:
                self._reporter.say(f"{fresh.subscriptions:,} subscriptions from now on")
            self._snapshot = fresh
        self._stamp = stamp
        return self._snapshot

    def _poll(self) -> object:
        """What changes when the subscriptions do."""
        source = self._population.source
        if isinstance(source, SubscriptionSet):
            return source.version
        try:
            info = os.stat(source)  # noqa: PTH116 - one call on whatever it is
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size, info.st_ino

    def _publish(self) -> Snapshot:
        subscriptions, refused = self._population.load()
        for label, error in refused[:_REFUSED_SHOWN]:
            self._reporter.say(f"left out: {label}: {error}")
        if len(refused) > _REFUSED_SHOWN:
            more = len(refused) - _REFUSED_SHOWN
            self._reporter.say(f"left out: {more:,} more subscriptions; twigcast check -s tells of all")
        population = self._population
        return ship_snapshot(self._spark, subscriptions, len(refused), population.envelope, whole=population.whole)
