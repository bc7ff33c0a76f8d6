"""A population that lives: its changes come from a stream, a table or a program, and each micro-batch has a version."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from twigcast.envelope import Envelope
from twigcast.errors import PipelineError, SubscriptionFileError
from twigcast.limits import Limits
from twigcast.registration import Dialect
from twigcast.spark.population_log import REFUSED, PopulationLog, PopulationState, SourcePosition
from twigcast.spark.snapshots import Snapshot
from twigcast.subscription_files import SubscriptionFileRow, read_subscriptions

_COLUMNS: Final = ("key", "query", "namespaces", "dialect", "group", "params", "numbers")
_CHANGE_COLUMNS: Final = ("op", "version", *_COLUMNS)
_CHANGE_TYPE: Final = "_change_type"
"""What Delta's change feed calls the operation."""

Table = DataFrame | str | os.PathLike[str] | Iterable[Mapping[str, Any]]
"""A whole population: a DataFrame with the columns of subscriptions, a file, or records."""


class LivingPopulation(PopulationLog):
    """Subscriptions that change while streams run.

    Give it to :func:`~twigcast.spark.run_pipeline` or :func:`~twigcast.spark.start_pipeline` in place of a set, or use
    :meth:`snapshot_for` in a ``foreachBatch`` of your own. Changes count from the next micro-batch on. Workers apply
    them to what they have; they do not load the population again. Each micro-batch is tied to a version, which stands
    in its rows as ``population_version``; when it is run again after a kill, it takes that version.

    A change that is refused goes to the table ``FOLDER/refused`` (Parquet), and its subscription keeps the query that
    it had. One program at a time has a population open; the changes, and the streams that are matched against it, run
    there.

    Args:
        folder: Where the versions are kept, on a file system with atomic renames that the driver sees.
        namespaces: Prefixes of all subscriptions.
        dialect: The dialect of subscriptions that name none.
        limits: For subscriptions and messages.
        is_shared: Whether workers see the folder under the same path. They read the bases there, and Spark does not
            bring them: do that if much changes, since what Spark has brought stays until the program ends.

    Raises:
        OutputError: The folder cannot be used, or another program has it open.
        PipelineError: A version is missing in it, or a file is damaged.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect = "xpath",
        limits: Limits | None = None,
        is_shared: bool = False,
    ) -> None:
        self._is_shared = is_shared
        super().__init__(folder, namespaces=namespaces, dialect=dialect, limits=limits)
        self._shipped: dict[tuple[int, int], tuple[SparkSession, str]] = {}
        """The names of bases, by session of Spark, which is kept since another could get its identity, and version."""

    def __enter__(self) -> "LivingPopulation":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def change(self, changes: Iterable[Mapping[str, Any]]) -> int:
        """Applies changes in their order as one version, and returns its number.

        Args:
            changes: Subscriptions as mappings, each with ``op``: ``put`` or ``remove``. To remove a key that is not
                there changes nothing.
        """
        return self.apply(changes)

    def load(self, table: Table) -> int:
        """Makes the population what a table says, by the changes that lead there, and returns the version.

        Subscriptions that are the same are left alone. A row that is refused is kept in ``refused``; if its key was
        there before, the subscription keeps the query that it had.

        Args:
            table: A DataFrame, a file of subscriptions, or records.

        Raises:
            SubscriptionFileError: The file cannot be read at all.
        """
        with self._changing:
            return self.apply(list(self.differences(_records(table))))

    def follow(
        self,
        changes: DataFrame,
        *,
        name: str,
        checkpoint: str | os.PathLike[str],
        table: Callable[[], tuple[Table, int]] | None = None,
        once: bool = False,
        interval_seconds: float = 1.0,
    ) -> StreamingQuery:
        """Starts a stream that applies changes as they come, and returns Spark's query.

        Args:
            changes: A streaming DataFrame with ``op`` (or ``_change_type``), ``key``, ``query`` and perhaps the other
                columns of subscriptions; and perhaps ``version``, a whole number that grows by 1 with each change.
            name: The name under which the log remembers how far it is. Keep it, as the checkpoint.
            checkpoint: The folder for the progress of the stream of changes.
            table: Returns the whole population, and the version of the last change in it: what is read when versions
                are missing.
            once: Whether to take what is there now, then stop.
            interval_seconds: How often to check for changes.

        Raises:
            PipelineError: The DataFrame is no stream, or lacks a column.
        """
        if not changes.isStreaming:
            raise PipelineError("the DataFrame of changes is not a streaming one: use change(...) or load(...)")
        columns = _change_columns(changes)

        def take(batch: DataFrame, number: int) -> None:
            rows = [row.asDict(recursive=True) for row in batch.selectExpr(*columns).collect()]
            self.take(rows, name, number, table)

        writer = changes.writeStream.foreachBatch(take).queryName(name)
        writer = writer.option("checkpointLocation", os.fspath(checkpoint))
        if once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{max(1, round(interval_seconds * 1000))} milliseconds").start()

    def take(
        self,
        rows: list[dict[str, Any]],
        source: str,
        batch: int,
        table: Callable[[], tuple[Table, int]] | None = None,
    ) -> int:
        """Applies a micro-batch of changes of a source, once, and returns the version.

        Rows with a ``version`` are applied in the order of their versions, which are consecutive: those that came
        before are left out, and if some are missing, the table is read.

        Raises:
            PipelineError: Versions are missing, and there is no table; or a version is less than 1.
        """
        with self._changing:
            position = self.position(source)
            if batch <= position.batch:
                return self.version
            position.batch = batch
            versioned = [row for row in rows if row.get("version") is not None]
            if not versioned and not position.waiting:
                return self.apply(rows, source, position)
            if len(versioned) < len(rows):
                raise PipelineError(f"some changes of {source} have no version, and others have one")
            _check_versions(source, versioned)
            ready = _in_order(position, versioned)
            if not position.waiting:
                return self.apply(ready, source, position)
            return self._repair(ready, source, position, table)

    def _repair(
        self,
        ready: list[dict[str, Any]],
        source: str,
        position: SourcePosition,
        table: Callable[[], tuple[Table, int]] | None,
    ) -> int:
        """Applies what is ready, and reads the table in place of the changes that are missing."""
        first, last = (position.version or 0) + 1, position.waiting[0]["version"] - 1
        if table is None:
            raise PipelineError(
                f"the changes {first} to {last} of {source} are missing: say where they can be read, follow(table=...)"
            )
        contents, version = table()
        if version < first:  # the table is behind, too: what is ready counts, the rest waits
            return self.apply(ready, source, position)
        position.repairs += 1
        position.version = version
        later = _in_order(position, [])
        return self.apply([*self.differences(_records(contents)), *later], source, position)

    # Spark ------------------------------------------------------------------------------------------------------------

    def snapshot(
        self,
        spark: SparkSession,
        version: int | None = None,
        *,
        envelope: Envelope | None = None,
        whole: bool = False,
    ) -> Snapshot:
        """Returns a version, by default the newest one, for :func:`~twigcast.spark.match_messages`."""
        state = self.state(version)
        file_name = os.fspath(state.base_path) if self._is_shared else self._ship_base(spark, state)
        state = replace(state, base_path=Path(file_name))
        return Snapshot(
            f"{state.population}-{state.version}",
            file_name,
            state.subscriptions,
            self.limits,
            envelope=envelope,
            whole=whole,
            living=state,
        )

    def _ship_base(self, spark: SparkSession, state: PopulationState) -> str:
        """Returns the name under which workers find a base, which Spark brings them."""
        shipped = (id(spark), state.base)
        if shipped not in self._shipped:
            # Executors that start later fetch it from here, when the log may have removed it.
            folder = Path(tempfile.mkdtemp(prefix="twigcast-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            spark.addArtifacts(shutil.copy(os.fspath(state.base_path), os.fspath(folder)), file=True)
            self._shipped[shipped] = spark, state.base_path.name
        return self._shipped[shipped][1]

    def snapshot_for(
        self, spark: SparkSession, stream: str, batch: int, *, envelope: Envelope | None = None, whole: bool = False
    ) -> Snapshot:
        """Returns the version of a micro-batch: the newest one, or the same as before if it is run again.

        Args:
            spark: The session that the stream was started in.
            stream: A name of the stream, which it keeps.
            batch: The number of the micro-batch, as ``foreachBatch`` hands it.
            envelope: An element to put around each payload.
            whole: Whether the message itself is the payload where a query does not rewrite.
        """
        return self.snapshot(spark, self.version_of(stream, batch), envelope=envelope, whole=whole)

    def refused(self, spark: SparkSession) -> DataFrame:
        """Returns the changes that were refused: ``population_version``, ``key``, ``query``, ``error``."""
        files = sorted(map(str, (self.folder / "refused").glob("[0-9]*.parquet")))
        if files:
            return spark.read.parquet(*files)
        return spark.createDataFrame([], from_arrow_schema(REFUSED))


def _check_versions(source: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raises an error for versions that would be taken for changes that came before."""
    for row in rows:
        version = row["version"]
        if not isinstance(version, int) or version < 1:
            raise PipelineError(
                f"a change of {source} has the version {version!r}: versions are whole numbers that begin with 1"
            )


def _in_order(position: SourcePosition, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the changes that follow one another from where a source stands; the others wait in the position.

    The first version of a source is 1.
    """
    ready: list[dict[str, Any]] = []
    waiting = {row["version"]: row for row in position.waiting}
    reached = position.version or 0
    for row in rows:
        if row["version"] <= reached or row["version"] in waiting:
            position.doubled += 1
        else:
            waiting[row["version"]] = row
    for version in sorted(waiting):
        if version <= reached:
            del waiting[version]
        elif version == reached + 1:
            ready.append(waiting.pop(version))
            reached = version
        else:
            break
    position.version = reached
    position.waiting = [waiting[version] for version in sorted(waiting)]
    return ready


def _change_columns(changes: DataFrame) -> list[str]:
    """Returns the expressions by which changes are read.

    Raises:
        PipelineError: A column is missing.
    """
    names = changes.columns
    operation = next((name for name in ("op", _CHANGE_TYPE) if name in names), None)
    missing = [name for name in ("key", "query") if name not in names]
    if operation is None or missing:
        lacking = "op" if operation is None else missing[0]
        raise PipelineError(f"the changes have no column {lacking}; the columns are {', '.join(names)}")
    others = [f"`{name}`" for name in _CHANGE_COLUMNS if name in names and name not in ("op", "version")]
    versions = ["cast(version as bigint) version"] if "version" in names else []
    return [f"`{operation}` op", *versions, *others]


def _records(table: Table) -> Iterable[Mapping[str, Any]]:
    """Yields the rows of a table as records."""
    if isinstance(table, DataFrame):
        missing = [name for name in ("key", "query") if name not in table.columns]
        if missing:
            raise PipelineError(f"the table of subscriptions has no column {missing[0]}")
        named = table.select(*(name for name in _COLUMNS if name in table.columns))
        return (row.asDict(recursive=True) for row in named.toLocalIterator())
    if isinstance(table, str | os.PathLike):
        return _file_records(os.fspath(table))
    return table


def _file_records(path: str) -> Iterable[Mapping[str, Any]]:
    for row in read_subscriptions(path):
        if isinstance(row, SubscriptionFileRow) and row.when is not None:
            reason = "it says when it is told, and subscriptions of a population that lives have no windows"
            yield {"key": row.subscription.key, "query": None, "error": SubscriptionFileError(path, row.line, reason)}
        elif isinstance(row, SubscriptionFileRow):
            one = row.subscription
            yield {name: getattr(one, name) for name in ("key", "query", "namespaces", "dialect", "group", "params")}
        else:
            yield {"key": row.key, "query": None, "error": row}
