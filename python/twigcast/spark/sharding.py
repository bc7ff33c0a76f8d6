"""Populations that are too large for a worker: shards, the routes of messages to them, and a task for each.

By content, shards are made by exclusiveness patterns (:mod:`twigcast.overlay.onyx.content.exclusiveness`): a message
goes only to the shards that its values lead to. By hash, it goes to all of them. Each subscription is in one shard, so
that answers need no merge.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal, get_args
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from twigcast.errors import (
    DuplicateKey,
    PipelineError,
    QueryError,
    RefusedSubscriptions,
    RejectedMessage,
    TwigcastError,
    UndecidedSubscription,
)
from twigcast.limits import Limits
from twigcast.registration import Dialect, Subscription
from twigcast.spark.matching import BatchMatcher
from twigcast.spark.population import OnBad
from twigcast.spark.schemas import MATCH_ROWS
from twigcast.spark.snapshots import Snapshot, load_session, ship_snapshot
from twigcast.spark.sources.source import Batches, check_columns
from twigcast.subscription_files import SubscriptionFileRow, is_snapshot, read_subscriptions
from twigcast.subscription_items import checked_namespaces
from twigcast.subscriptions import SubscriptionSet

MEMORY_BYTES: Final = 256 << 20
"""What a shard may take of the memory of a worker, if nobody says otherwise."""

_SAMPLED: Final = 20_000
"""Queries of which patterns, quantiles and memory are learned."""

_PATTERNS_MAX: Final = 64
"""Patterns that are read in each message, at most: those that most queries have."""

_SKEWED: Final = 1.5
"""A partition with so many times the subscriptions of an average one is split."""

_ROUTED: Final = pa.schema(
    [("message_id", pa.string()), ("xml", pa.binary()), ("problem", pa.string()), ("shard", pa.int32())]
)
_SHARD_ROWS: Final = MATCH_ROWS.append(pa.field("shard", pa.int32()))

_BYTES_OF_SNAPSHOT: Final = 3
"""The memory that a byte of a snapshot takes at least."""

_MEASURE: Final = """
import resource, sys
from twigcast.engine.session import EngineSession
from twigcast.limits import Limits
unit = 1 if sys.platform == "darwin" else 1024
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
session = EngineSession.load(sys.argv[1], Limits())
session.match(b"<m/>")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)
"""

if TYPE_CHECKING:
    from twigcast.overlay.onyx.content.exclusiveness import (
        ExclusivenessPattern,
        Partitioning,
        PartitionRoutes,
        Selections,
    )

# Importing the content of overlays takes a worker a tenth of its start; only those that route messages need it.

ShardingMethod = Literal["content", "hash"]


@dataclass(frozen=True)
class ShardedPopulation:
    """A population in shards, which was shipped to the workers."""

    shards: tuple[Snapshot, ...]

    by: ShardingMethod

    limits: Limits

    bytes_per_subscription: float
    """The memory that a subscription takes, as measured of a sample."""

    refused: int
    """Subscriptions that were refused and left out."""

    routes: PartitionRoutes | None = field(repr=False)
    """Which partitions values lead to; ``None`` if messages go to all shards."""

    shards_of: tuple[tuple[int, ...], ...] = field(repr=False)
    """The shards of each partition."""

    @property
    def subscriptions(self) -> int:
        """The number of subscriptions in all shards."""
        return sum(shard.subscriptions for shard in self.shards)


def shard_subscriptions(
    spark: SparkSession,
    subscriptions: SubscriptionSet | str | os.PathLike[str],
    *,
    shards: int | Literal["auto"] = "auto",
    by: ShardingMethod = "content",
    memory_bytes: int = MEMORY_BYTES,
    sample: Iterable[bytes] = (),
    namespaces: Mapping[str, str] | None = None,
    dialect: Dialect = "xpath",
    limits: Limits | None = None,
    on_bad_subscription: OnBad = "fail",
) -> ShardedPopulation:
    """Divides subscriptions into shards, one after the other, and ships them to the workers.

    The driver holds one shard at a time. A shard that gets much more than its share is split, so there may be more
    shards than asked for.

    Args:
        spark: The session.
        subscriptions: A set, or a file of subscriptions, which is read twice.
        shards: How many, or ``"auto"``: so many that each fits into ``memory_bytes``.
        by: ``"content"``: messages go only where their values lead; ``"hash"``: they go to all shards.
        memory_bytes: What a shard may take of the memory of a worker.
        sample: Some messages: patterns that occur once in each are preferred.
        namespaces: Prefixes of the subscriptions in a file.
        dialect: How subscriptions in a file are read.
        limits: For subscriptions in a file, and for messages.
        on_bad_subscription: ``"fail"``, or ``"skip"`` and count.

    Raises:
        SubscriptionError: The subscriptions cannot be used.
        PipelineError: So many shards do not fit into the memory; says how many would. Or a message of the sample is
            rejected, or an argument is none of those that there are.
    """
    _check_arguments(shards, by, memory_bytes)
    source = _Source(subscriptions, namespaces, dialect, limits, on_bad_subscription)
    count, sampled = source.sample()
    size = _measured_bytes(sampled, source)
    enough = max(1, math.ceil(count * size / memory_bytes))
    wanted = enough if shards == "auto" else shards
    if wanted < enough:
        each = count * size / wanted / 1e6
        raise PipelineError(
            f"{count:,} subscriptions in {wanted} shards take about {each:,.1f} MB of each worker, which may take "
            f"{memory_bytes / 1e6:,.1f} MB: shards={enough} would do, or memory_bytes=... where there is more"
        )
    divider = _Divider(wanted, by, sampled, list(sample), source)
    with tempfile.TemporaryDirectory(prefix="twigcast-shards-") as folder:
        sizes = divider.spill(Path(folder))
        shards_of: list[tuple[int, ...]] = []
        shipped: list[Snapshot] = []
        for partition, rows in enumerate(sizes):
            parts = max(1, math.ceil(rows / max(1.0, count / wanted * _SKEWED))) if rows else 0
            shards_of.append(tuple(range(len(shipped), len(shipped) + parts)))
            for part in range(parts):
                loaded = source.compiled(_spilled(Path(folder, str(partition)), part, parts))
                shipped.append(ship_snapshot(spark, loaded))
    if not shipped:
        raise PipelineError("there are no subscriptions to divide into shards")
    return ShardedPopulation(tuple(shipped), by, source.limits, size, source.refused, divider.routes, tuple(shards_of))


def _check_arguments(shards: object, by: object, memory_bytes: float) -> None:
    if shards != "auto" and (not isinstance(shards, int) or shards < 1):
        raise PipelineError(f"shards must be a whole number of 1 or more, or 'auto', not {shards!r}")
    if by not in get_args(ShardingMethod):
        raise PipelineError(f"by must be {' or '.join(map(repr, get_args(ShardingMethod)))}, not {by!r}")
    if memory_bytes <= 0:
        raise PipelineError(f"memory_bytes must be more than 0, not {memory_bytes}")


def match_shards(
    messages: DataFrame, population: ShardedPopulation, *, deliver: bool = True, nodes: bool = False
) -> DataFrame:
    """Matches messages against shards: a row per message and matching subscription, or per rejected message.

    Each message is sent to the shards that its values lead to, by Spark's shuffle. A worker holds one shard.

    Args:
        messages: A row per message, with ``message_id``, ``xml`` and perhaps ``problem``.
        population: The shards.
        deliver: Whether to rewrite messages.
        nodes: Whether to count the selected nodes.

    Returns:
        ``message_id``, ``key``, ``nodes``, ``payload``, ``problem``, ``shard``.

    Raises:
        SourceError: A column is missing.
    """
    routed = route_messages(messages, population)
    shards, routes = population.shards, population.routes
    salts = _salts(messages.sparkSession, len(shards))
    chosen = f"element_at(array({', '.join(map(str, salts))}), shard + 1)"

    def match(batches: Batches) -> Batches:
        matcher, held = None, -1
        for batch in batches:
            column = batch.column("shard")
            for shard in column.unique().to_pylist():
                if matcher is None or shard != held:
                    matcher = None  # two sessions might be more than there is room for
                    session = load_session(shards[shard], sessions_max=1)
                    matcher, held = BatchMatcher(session, deliver=deliver, nodes=nodes), shard
                for answer in matcher.answers(batch.filter(pc.equal(column, shard))):
                    if routes is None and shard:  # the first shard rejects what goes to all of them
                        undecided = [one for one in answer.rejections if one.undecided]
                        answer = replace(answer, rejections=undecided)
                    for rows in answer.match_rows():
                        numbers = pa.repeat(pa.scalar(shard, pa.int32()), rows.num_rows)
                        yield pa.RecordBatch.from_arrays([*rows.columns, numbers], schema=_SHARD_ROWS)

    placed = routed.selectExpr("*", f"{chosen} AS salt").repartition(len(shards), "salt").drop("salt")
    return placed.mapInArrow(match, from_arrow_schema(_SHARD_ROWS))


def route_messages(messages: DataFrame, population: ShardedPopulation) -> DataFrame:
    """Returns a row per message and shard that it goes to: ``message_id``, ``xml``, ``problem``, ``shard``.

    ``route_messages(...).groupBy("message_id").count()`` says how many shards each message goes to. What cannot be
    matched goes to one shard, which rejects it.
    """
    read = check_columns(messages, "the DataFrame of messages")
    problem = "problem" if "problem" in read.columns else "cast(null as string) problem"
    plain = read.selectExpr("message_id", "cast(xml as binary) xml", problem)
    everywhere = tuple(range(len(population.shards)))
    routes, shards_of, limits = population.routes, population.shards_of, population.limits

    def route(batches: Batches) -> Batches:
        from twigcast.overlay.onyx.content.exclusiveness import PatternReader

        reader = None if routes is None else PatternReader(routes.patterns, limits)

        def shards_for(xml: bytes | None, trouble: str | None) -> Sequence[int]:
            if xml is None or trouble is not None:
                return everywhere[:1]
            if routes is None or reader is None:
                return everywhere
            try:
                partitions = routes.matched(reader.values(xml))
            except RejectedMessage:
                return everywhere[:1]
            except UndecidedSubscription:  # its values are too many: it may match anywhere
                return everywhere
            return sorted({shard for partition in partitions for shard in shards_of[partition]})

        for batch in batches:
            rows = zip(batch.column("xml").to_pylist(), batch.column("problem").to_pylist(), strict=True)
            targets = [shards_for(xml, trouble) for xml, trouble in rows]
            taken = pa.array([row for row, shards in enumerate(targets) for _ in shards], pa.int64())
            numbers = pa.array([shard for shards in targets for shard in shards], pa.int32())
            repeated = batch.take(taken)
            yield pa.RecordBatch.from_arrays(
                [*(repeated.column(name).cast(_ROUTED.field(name).type) for name in _ROUTED.names[:3]), numbers],
                schema=_ROUTED,
            )

    return plain.mapInArrow(route, from_arrow_schema(_ROUTED))


def _salts(spark: SparkSession, count: int) -> list[int]:
    """Returns a number for each shard that Spark's shuffle puts into a partition of its own."""
    found: dict[int, int] = {}
    tried = max(1_000, count * 30)
    for row in spark.range(tried).selectExpr("cast(id as int) id", f"pmod(hash(cast(id as int)), {count}) p").collect():
        found.setdefault(row["p"], row["id"])
    if len(found) < count:
        raise PipelineError(f"Spark's hash does not tell {count} shards apart; use fewer")
    return [found[shard] for shard in range(count)]


class _Source:
    """The subscriptions that are divided, read as often as need be."""

    def __init__(
        self,
        subscriptions: SubscriptionSet | str | os.PathLike[str],
        namespaces: Mapping[str, str] | None,
        dialect: Dialect,
        limits: Limits | None,
        on_bad: OnBad,
    ) -> None:
        if not isinstance(subscriptions, SubscriptionSet) and is_snapshot(os.fspath(subscriptions)):
            subscriptions = SubscriptionSet.load(subscriptions, limits=limits)
        self._subscriptions = subscriptions
        self.namespaces = checked_namespaces(namespaces)
        self.dialect: Dialect = dialect
        self.limits = limits or (subscriptions.limits if isinstance(subscriptions, SubscriptionSet) else Limits())
        self._on_bad = on_bad
        self.refused = 0
        self._repeated: set[int] = set()
        """Digests of the keys that occur more than once."""

    def __iter__(self) -> Iterator[Subscription]:
        """Yields the subscriptions; rows of a file that cannot be read are refused."""
        if isinstance(self._subscriptions, SubscriptionSet):
            for key in self._subscriptions:
                yield self._subscriptions[key]
            return
        seen: set[str] = set()
        for row in read_subscriptions(self._subscriptions):
            if not isinstance(row, SubscriptionFileRow):
                self._refuse(str(row.key or row.path), row)
            elif row.subscription.key in seen:
                self._refuse(f"{self._subscriptions}:{row.line}", DuplicateKey(row.subscription.key))
            else:
                if self._repeated and _key_digest(row.subscription.key) in self._repeated:
                    seen.add(row.subscription.key)
                yield row.subscription

    def sample(self) -> tuple[int, list[Subscription]]:
        """Returns how many there are, and some of them, evenly spread."""
        step, count = 1, 0
        kept: list[Subscription] = []
        digests = array("q")
        for one in self:
            digests.append(_key_digest(one.key))
            if count % step == 0:
                kept.append(one)
                if len(kept) > 2 * _SAMPLED:
                    kept, step = kept[::2], 2 * step
            count += 1
        self.refused = 0
        distinct, counts = np.unique(np.frombuffer(digests, np.int64), return_counts=True)
        self._repeated = set(distinct[counts > 1].tolist())
        return count, kept

    def compiled(self, rows: Iterable[Subscription]) -> SubscriptionSet:
        """Returns a set of some of them."""
        loaded = SubscriptionSet(namespaces=self.namespaces, dialect=self.dialect, limits=self.limits)
        for one in loaded.add_many(rows).refused:
            self._refuse(one.key or "", one.error)
        return loaded

    def _refuse(self, label: str, error: TwigcastError) -> None:
        if self._on_bad == "fail":
            raise RefusedSubscriptions([(label, error)])
        self.refused += 1

    def selections(self, one: Subscription) -> Selections:
        """Returns what a message needs for a subscription to match; nothing if the query is refused later."""
        from twigcast.overlay.onyx.content.exclusiveness import selections_of
        from twigcast.overlay.onyx.content.routing_query import routing_query

        dialect = one.dialect or self.dialect
        try:
            query = routing_query(one.query, {**self.namespaces, **one.namespaces}, dialect, params=one.params)
        except QueryError:
            return frozenset()
        # Numbers with exponents are read otherwise there.
        is_plain = dialect in ("xpath", "legacy")
        return frozenset(pair for pair in selections_of(query) if is_plain or isinstance(pair[1], str))


class _Divider:
    """A division of subscriptions into partitions."""

    def __init__(
        self,
        count: int,
        by: ShardingMethod,
        sampled: Sequence[Subscription],
        messages: Sequence[bytes],
        source: _Source,
    ) -> None:
        from twigcast.overlay.onyx.content.exclusiveness import Partitioning, PartitionRoutes

        self._source = source
        self._count = count
        self._partitioning: Partitioning | None = None
        self.routes: PartitionRoutes | None = None
        if by == "content" and count > 1:
            selections = [source.selections(one) for one in sampled]
            self._partitioning = Partitioning(selections, _patterns(selections, messages, source.limits), count)
            self.routes = PartitionRoutes(self._partitioning.dont_care)

    def spill(self, folder: Path) -> list[int]:
        """Writes the subscriptions of each partition to a file, and returns their numbers."""
        sizes = [0] * (self._count + 1)
        with ExitStack() as opened:
            files: dict[int, IO[str]] = {}
            for one in self._source:
                partition = self._partition(one)
                if partition not in files:
                    files[partition] = opened.enter_context(Path(folder, str(partition)).open("w", encoding="utf-8"))
                files[partition].write(json.dumps(asdict(one)) + "\n")
                sizes[partition] += 1
        if self.routes is not None:
            self.routes.finish()
        return sizes

    def _partition(self, one: Subscription) -> int:
        if self._partitioning is None or self.routes is None:
            return crc32(one.key.encode("utf-8", "surrogatepass")) % self._count
        pattern, constant, partition = self._partitioning.assignment_of(self._source.selections(one))
        self.routes.add(pattern, constant, partition)
        return partition


def _patterns(
    selections: Sequence[Selections], messages: Sequence[bytes], limits: Limits
) -> list[ExclusivenessPattern]:
    """Returns the patterns by which subscriptions are divided, of those that the engine can read in messages."""
    from twigcast.overlay.onyx.content.exclusiveness import PatternReader, select_patterns

    once: frozenset[ExclusivenessPattern] = frozenset()
    if messages:
        involved = {pattern for one in selections for pattern, _ in one if _is_readable(pattern)}
        reader = PatternReader(sorted(involved)[:_PATTERNS_MAX], limits)
        try:
            once = reader.occur_once(messages)
        except (RejectedMessage, UndecidedSubscription) as error:
            raise PipelineError(f"a message of the sample is rejected: {error}: leave it out") from None
    chosen = select_patterns(selections, lambda pattern: not messages or pattern in once)
    return [pattern for pattern in chosen if _is_readable(pattern)][:_PATTERNS_MAX]


def _is_readable(pattern: ExclusivenessPattern) -> bool:
    from twigcast.overlay.onyx.content.exclusiveness import PatternReader

    try:
        PatternReader([pattern])
    except RefusedSubscriptions:
        return False
    return True


def _key_digest(key: str) -> int:
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def _spilled(path: Path, part: int, parts: int) -> Iterator[Subscription]:
    """Yields the subscriptions of one part of a partition."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            if number % parts == part:
                yield Subscription(**json.loads(line))


def _measured_bytes(sampled: Sequence[Subscription], source: _Source) -> float:
    """Returns the memory that a subscription takes on average, measured in a process of its own."""
    if not sampled:
        return 0.0
    folder = Path(tempfile.mkdtemp(prefix="twigcast-"))
    try:
        loaded = SubscriptionSet(namespaces=source.namespaces, dialect=source.dialect, limits=source.limits)
        loaded.add_many(sampled)
        loaded.save(folder / "sample.snapshot")
        done = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-c", _MEASURE, str(folder / "sample.snapshot")],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise PipelineError(f"the memory of a sample cannot be measured: {done.stderr.strip()[-300:]}")
        # What Python had freed before hides the first megabytes.
        least = _BYTES_OF_SNAPSHOT * (folder / "sample.snapshot").stat().st_size
        return max(int(done.stdout), least) / len(sampled)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
