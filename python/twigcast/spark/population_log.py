"""The log of a population that lives, in a folder: its versions one after the other. Without Spark.

::

    FOLDER/deltas/VERSION.json       what changed from the version before, and where the source of changes stands
    FOLDER/bases/...VERSION.snapshot the whole population, now and then
    FOLDER/refused/VERSION.parquet   the changes that were refused at this version
    FOLDER/ties/STREAM.json          the last micro-batch of a stream, and its version

A version exists once its delta does, which appears in one atomic step. A micro-batch is tied to a version before it
runs, so that it takes the same one when it is run again. Bases and deltas that neither a tie nor the newest version
needs are removed.
"""

import fcntl
import json
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from twigcast.errors import DuplicateKey, InvalidContext, OutputError, PipelineError
from twigcast.limits import Limits
from twigcast.registration import AddReport, Dialect, Subscription
from twigcast.spark.folder_commits import read_record, sync, write_atomically
from twigcast.subscription_items import parse_namespaces
from twigcast.subscriptions import SubscriptionSet

REFUSED: Final = pa.schema(
    [
        ("population_version", pa.int64()),
        ("key", pa.string()),
        ("query", pa.string()),
        ("error", pa.string()),
        ("source_version", pa.int64()),
    ]
)
"""A row per change that was refused: the subscription keeps the query that it had."""

_PUT: Final = frozenset({"add", "insert", "put", "replace", "update", "upsert", "update_postimage"})
_REMOVE: Final = frozenset({"delete", "remove"})
_SKIP: Final = "update_preimage"
"""What a change feed says of a row as it was before."""

_UNREADABLE: Final = "unreadable"
"""A row of a table that could not be read."""

_MARKER: Final = "_twigcast_population.json"
_DELTA_BYTES_MAX: Final = 4 << 20
"""A delta with more is a base instead."""

_DELTAS_BYTES_MIN: Final = 256 << 10
_DELTAS_SHARE: Final = 20
"""A base follows when the deltas since the last one have so many bytes, and a twentieth of its size."""

DeltaBytes = tuple[tuple[int, bytes], ...]
"""Versions with what changed, as :func:`apply_delta` takes it, one after the other."""


@dataclass(frozen=True, slots=True)
class PopulationState:
    """A version of a population as workers get it."""

    population: str
    """Identity of the population."""

    version: int

    base: int
    """The version of the base."""

    base_path: Path

    floor: int
    """The oldest version from which the deltas lead to this one."""

    deltas: DeltaBytes

    subscriptions: int


@dataclass(slots=True)
class SourcePosition:
    """The position of a source of changes."""

    batch: int = -1
    """The last micro-batch of the stream of changes."""

    version: int | None = None
    """The last version of the source that was applied; ``None`` if its changes have no versions."""

    waiting: list[dict[str, Any]] = field(default_factory=list)
    """Changes of later versions, which wait for those in between."""

    doubled: int = 0
    """How many changes came again."""

    repairs: int = 0
    """How often changes were missing, and the table was read instead."""


@dataclass(slots=True)
class _Delta:
    """A version in memory."""

    changes: bytes | None
    """What changed; ``None`` if there is a base instead."""

    subscriptions: int


class PopulationLog:
    """The versions of a population. One program at a time has it open; it may be used by several threads.

    Args:
        folder: Where it is, on a file system with atomic renames; created if it is missing.
        namespaces: Prefixes of all subscriptions.
        dialect: The dialect of subscriptions that name none.
        limits: Limits of the set.

    Raises:
        OutputError: The folder cannot be used, or another program has it open.
        PipelineError: A version is missing in it.
    """

    _identity: str
    _set: SubscriptionSet
    """The newest version."""
    _version: int
    _deltas: dict[int, _Delta]
    _positions: dict[str, dict[str, Any]]
    _ties: dict[str, dict[str, Any]]

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect = "xpath",
        limits: Limits | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.limits = limits or Limits()
        self._namespaces = namespaces
        self._dialect: Dialect = dialect
        self._changing = threading.RLock()
        try:
            for name in ("deltas", "bases", "refused", "ties"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            self._marker = self._lock()
        except OSError as error:
            raise OutputError(str(self.folder), error.strerror or str(error)) from None
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Lets other programs open the log."""
        self._marker.close()

    @property
    def version(self) -> int:
        """The newest version."""
        return self._version

    def __len__(self) -> int:
        return len(self._set)

    def position(self, source: str) -> SourcePosition:
        """Returns where a source of changes stands."""
        return SourcePosition(**self._positions.get(source, {}))

    # Changes ----------------------------------------------------------------------------------------------------------

    def apply(
        self, changes: Iterable[Mapping[str, Any]], source: str = "", position: SourcePosition | None = None
    ) -> int:
        """Applies changes in their order as one version, and returns its number.

        A change is a subscription as :meth:`SubscriptionSet.add_many` takes it, as a mapping, with ``op``: ``put`` (or
        add, insert, replace, update, upsert) or ``remove`` (or delete). What is refused is kept in ``refused/``.

        Args:
            changes: The changes.
            source: The source that they come from.
            position: Where the source stands after them, which is recorded in the same step.

        Raises:
            OutputError: The version cannot be written; the population is as it was.
            PipelineError: The log was closed.
            TypeError: A change is no mapping; nothing is applied.
        """
        with self._changing:
            self._check_open()
            listed = list(_mappings(changes))  # whatever ends the reading of them does so before the set changes
            try:
                accepted, refused = self._change(listed)
            except BaseException:
                self._read()  # what was applied so far is in no version
                raise
            positions = dict(self._positions)
            if position is not None:
                positions[source] = _as_dict(position)
            if not accepted and not refused and positions == self._positions:
                return self._version
            try:
                self._write_version(accepted, refused, positions)
            except OSError as error:
                self._read()  # the set has changed already
                raise OutputError(str(self.folder), error.strerror or str(error)) from None
            except BaseException:
                self._read()
                raise
            return self._version

    def differences(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yields the changes that lead from the newest version to a table of subscriptions.

        A row with ``error`` is one that could not be read. A key that stands in the table is not removed, even if its
        new query is refused; nothing is removed if a row has no key that can be read, since it may be any. Of rows
        with one key, the first counts, as in a file.
        """
        keys: dict[str, bool] = {}  # those of the table, and whether a row with it could be read
        is_whole = True
        for row in _mappings(rows):
            key, is_read = row.get("key"), row.get("error") is None
            if not isinstance(key, str):
                is_whole = False
            elif is_read and keys.get(key, False):
                yield {**row, "op": _UNREADABLE, "error": DuplicateKey(key)}
                continue
            else:
                keys[key] = is_read or keys.get(key, False)
            if not (isinstance(key, str) and key in self._set and self._is_same(key, row)):
                yield {**row, "op": "put" if is_read else _UNREADABLE}
        for key in self._set if is_whole else ():
            if key not in keys:
                yield {"op": "remove", "key": key}

    def _is_same(self, key: str, row: Mapping[str, Any]) -> bool:
        """Returns whether a plain row says what is there. Rows with more than a query are compared after reading."""
        if any(row.get(name) for name in ("params", "numbers", "group")):
            return False
        stored = self._set[key]
        try:
            namespaces = {**(self._namespaces or {}), **_namespaces_of(row)}
        except (InvalidContext, TypeError, ValueError):
            return False  # it is refused with its reason when it is added
        same_dialect = (row.get("dialect") or self._dialect) == (stored.dialect or self._dialect)
        return stored.query == row.get("query") and dict(stored.namespaces) == namespaces and same_dialect

    def _change(self, changes: Iterable[Mapping[str, Any]]) -> tuple[list[list[Any]], list[dict[str, Any]]]:
        """Changes the set, and returns what was accepted, as it is shipped, and the rows that were refused."""
        accepted: list[list[Any]] = []
        refused: list[dict[str, Any]] = []
        run: list[Mapping[str, Any]] = []

        def put_run() -> None:
            if not run:
                return
            records = [{name: value for name, value in row.items() if name not in _OWN_COLUMNS} for row in run]
            report = self._set.add_many(records, replace=True)
            wrong = {one.index: one.error for one in report.refused}
            refused.extend(_refused(run[index], str(error)) for index, error in wrong.items())
            keys = dict.fromkeys(row["key"] for index, row in enumerate(run) if index not in wrong)
            accepted.extend(_shipped(self._set[key]) for key in keys)
            run.clear()

        for change in changes:
            operation = str(change.get("op") or "").lower()
            if operation in _PUT:
                run.append(change)
            elif operation in _REMOVE:
                put_run()
                key = change.get("key")
                if not isinstance(key, str):
                    refused.append(_refused(change, "there is no key to remove"))
                elif self._set.discard(key):
                    accepted.append([key])
            elif operation == _UNREADABLE and change.get("error") is not None:
                refused.append(_refused(change, str(change["error"])))
            elif operation != _SKIP:
                names = ", ".join(sorted(_PUT | _REMOVE))
                refused.append(_refused(change, f"there is no operation {operation!r}; use one of {names}"))
        put_run()
        return accepted, refused

    def _write_version(
        self, accepted: list[list[Any]], refused: list[dict[str, Any]], positions: dict[str, dict[str, Any]]
    ) -> None:
        version = self._version + 1
        changes: bytes | None = json.dumps(accepted, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "surrogatepass"
        )
        assert changes is not None
        if len(changes) > _DELTA_BYTES_MAX:
            self._write_base(version)
            changes = None
        if refused:
            rows = [{**row, "population_version": version} for row in refused]
            _write_parquet(self.folder / "refused" / f"{version:012d}.parquet", rows)
        record = {
            "version": version,
            "subscriptions": len(self._set),
            "positions": positions,
            "changes": None if changes is None else accepted,
        }
        write_atomically(self._delta_path(version), record, indent=None)
        self._version, self._positions = version, positions
        self._deltas[version] = _Delta(changes, len(self._set))
        self._publish_base()

    def _publish_base(self) -> None:
        """Writes a base if the deltas since the last one have become many, and removes what nobody needs any more."""
        base = max(self._bases())
        since = sum(len(self._deltas[version].changes or b"") for version in range(base + 1, self._version + 1))
        if since > max(_DELTAS_BYTES_MIN, self._base_path(base).stat().st_size // _DELTAS_SHARE):
            self._write_base(self._version)
        if max(self._bases()) != base or self._deltas[self._version].changes is None:
            self._remove_old()

    def _write_base(self, version: int) -> None:
        self._set.save(self._base_path(version))

    def _remove_old(self) -> None:
        needed = min([self._version, *(int(tie["version"]) for tie in self._ties.values())])
        bases = self._bases()
        kept = max((base for base in bases if base <= needed), default=min(bases))
        for base in bases:
            if base < kept:
                self._base_path(base).unlink()
        # The delta of a base says how many subscriptions there are, and the newest one where the sources stand.
        floor = min(self._floor(kept), kept - 1)
        # The lowest number goes first, so that a kill leaves no gap.
        for version in sorted(version for version in self._deltas if version <= floor):
            self._delta_path(version).unlink(missing_ok=True)
            del self._deltas[version]

    def _floor(self, base: int) -> int:
        """Returns the oldest version from which deltas still lead workers to a base, so that they need not load it."""
        floor, size = base, 0
        while (delta := self._deltas.get(floor)) is not None and delta.changes is not None:
            size += len(delta.changes)
            if size > _DELTAS_BYTES_MIN:
                break
            floor -= 1
        return floor

    # Versions ---------------------------------------------------------------------------------------------------------

    def version_of(self, stream: str, batch: int) -> int:
        """Returns the version of a micro-batch: the newest one, or the one that it had before.

        Raises:
            PipelineError: The stream has run a later micro-batch already.
            OutputError: The version cannot be recorded.
        """
        with self._changing:
            self._check_open()
            tie = self._ties.get(stream)
            if tie is not None and batch == tie["batch"]:
                return int(tie["version"])
            if tie is not None and batch < tie["batch"]:
                raise PipelineError(
                    f"micro-batch {batch} of the stream {stream} came after micro-batch {tie['batch']}: its checkpoint "
                    f"was replaced; give the stream another name, or remove {self._tie_path(stream)}"
                )
            tie = {"stream": stream, "batch": batch, "version": self._version}
            try:
                write_atomically(self._tie_path(stream), tie)
            except OSError as error:
                raise OutputError(str(self.folder), error.strerror or str(error)) from None
            self._ties[stream] = tie
            return self._version

    def state(self, version: int | None = None) -> PopulationState:
        """Returns a version, by default the newest one, as workers get it.

        Raises:
            PipelineError: The version is not kept any more.
        """
        with self._changing:
            wanted = self._version if version is None else version
            bases = [base for base in self._bases() if base <= wanted]
            if not bases or wanted > self._version:
                raise PipelineError(f"{self.folder}: there is no version {wanted} of the population")
            base = max(bases)
            floor = self._floor(base)
            deltas = tuple((number, self._deltas[number].changes or b"") for number in range(floor + 1, wanted + 1))
            count = self._deltas[wanted].subscriptions if wanted else 0
            path = self._base_path(base)
            return PopulationState(self._identity, wanted, base, path, floor, deltas, count)

    # The folder -------------------------------------------------------------------------------------------------------

    def _lock(self) -> IO[str]:
        file = (self.folder / _MARKER).open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise OutputError(str(self.folder), "another program has this population open") from None
        file.seek(0)
        written = file.read()
        if not written.endswith("\n"):  # new, or cut off by a kill
            file.truncate(0)
            written = json.dumps({"population": uuid.uuid4().hex}) + "\n"
            file.write(written)
            file.flush()
            os.fsync(file.fileno())
        try:
            self._identity = str(json.loads(written)["population"])
        except (KeyError, TypeError, ValueError) as error:
            file.close()
            raise _damaged(self.folder / _MARKER, error) from None
        return file

    def _check_open(self) -> None:
        if self._marker.closed:
            raise PipelineError(f"{self.folder}: the population was closed; open it again")

    def _read(self) -> None:
        """Reads the newest version."""
        self._ties = {}
        for path in (self.folder / "ties").glob("*.json"):
            tie = _read_record(path)
            self._ties[str(tie["stream"])] = dict(tie)
        self._deltas, self._positions = {}, {}
        numbers = sorted(int(path.stem) for path in (self.folder / "deltas").glob("[0-9]*.json"))
        self._version = numbers[-1] if numbers else 0
        for base in self._bases():
            if base > self._version:  # its delta was not written any more
                self._base_path(base).unlink()
        if not self._bases() and not numbers:
            SubscriptionSet(limits=self.limits).save(self._base_path(0))
        bases = self._bases()
        if not bases or numbers[1:] != list(range(numbers[0] + 1, self._version + 1) if numbers else []):
            raise PipelineError(f"{self.folder}: a version of the population is missing: load it into another folder")
        base = max(bases)
        if numbers and numbers[0] > base + 1:
            raise PipelineError(f"{self.folder}: the version {base + 1} of the population is missing")
        tied = max((int(tie["version"]) for tie in self._ties.values()), default=0)
        if tied > self._version:
            raise PipelineError(
                f"{self.folder}: the version {tied} of the population, which a micro-batch had, is missing: load it "
                "into another folder"
            )
        loaded = SubscriptionSet.load(
            self._base_path(base), namespaces=self._namespaces, dialect=self._dialect, limits=self.limits
        )
        for number in numbers:
            record = _read_record(self._delta_path(number))
            changes = record["changes"]
            encoded = None if changes is None else json.dumps(changes, ensure_ascii=False).encode()
            self._deltas[number] = _Delta(encoded, record["subscriptions"])
            self._positions = record["positions"]
            if number > base and encoded is not None:
                apply_delta(encoded, partial(loaded.add_many, replace=True), loaded.discard)
        self._set = loaded

    def _bases(self) -> list[int]:
        names = (self.folder / "bases").glob(f"twigcast-{self._identity}-*.snapshot")
        return sorted(int(path.stem.rpartition("-")[2]) for path in names)

    def _base_path(self, version: int) -> Path:
        # Spark knows files by their names, so these tell populations apart.
        return self.folder / "bases" / f"twigcast-{self._identity}-{version:012d}.snapshot"

    def _delta_path(self, version: int) -> Path:
        return self.folder / "deltas" / f"{version:012d}.json"

    def _tie_path(self, stream: str) -> Path:
        return self.folder / "ties" / f"{quote(stream, safe='')}.json"


_OWN_COLUMNS: Final = frozenset({"op", "version"})


def decoded_delta(changes: bytes) -> list[tuple[Subscription | None, str]]:
    """Returns the changes of a delta in order: subscriptions with their keys, and ``None`` with those removed."""
    return [
        (None, row[0]) if len(row) == 1 else (Subscription(row[0], row[1], row[2], row[3], row[4], row[5]), row[0])
        for row in json.loads(changes)
    ]


def apply_delta(
    changes: bytes, put: Callable[[list[Subscription]], AddReport], remove: Callable[[str], object]
) -> None:
    """Applies a delta to a population that has the version before.

    Args:
        changes: The delta.
        put: Adds or replaces subscriptions.
        remove: Removes the subscription with a key, if there is one.

    Raises:
        PipelineError: A query is refused, which the driver had accepted: the two have different releases or limits.
    """
    run: list[Subscription] = []

    def put_run() -> None:
        report = put(run)
        run.clear()
        if report.refused:
            one = report.refused[0]
            raise PipelineError(
                f"the subscription {one.key!r} is refused, which was accepted before: {one.error}; driver and workers "
                "need the same release of twigcast, and the same limits as when it was added"
            )

    for subscription, key in decoded_delta(changes):
        if subscription is not None:
            run.append(subscription)
            continue
        put_run()
        remove(key)
    put_run()


def _shipped(stored: Subscription) -> list[Any]:
    """Returns a subscription as deltas hold it."""
    params = {name: list(value) if isinstance(value, tuple) else value for name, value in stored.params.items()}
    return [stored.key, stored.query, dict(stored.namespaces), stored.dialect, stored.group, params]


def _damaged(path: Path, error: Exception) -> PipelineError:
    return PipelineError(f"{path}: the file is damaged ({error}): load the population into another folder")


def _read_record(path: Path) -> Mapping[str, Any]:
    """Returns a record of the log.

    Raises:
        PipelineError: It is damaged.
    """
    try:
        return read_record(path)
    except ValueError as error:
        raise _damaged(path, error) from None


def _refused(change: Mapping[str, Any], error: str) -> dict[str, Any]:
    version = change.get("version")
    return {
        "key": _as_text(change.get("key")),
        "query": _as_text(change.get("query")),
        "error": _as_text(error),
        "source_version": version if isinstance(version, int) else None,
    }


def _namespaces_of(row: Mapping[str, Any]) -> dict[str, str]:
    namespaces = row.get("namespaces") or {}
    if isinstance(namespaces, str | list):
        return parse_namespaces(namespaces)
    return dict(namespaces)


def _mappings(changes: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yields changes, or rows.

    Raises:
        TypeError: One of them is no mapping, or this is one where several are expected.
    """
    if isinstance(changes, Mapping):
        raise TypeError("this is one mapping, and many are expected: put it into a list")
    for index, one in enumerate(changes):
        if not isinstance(one, Mapping):
            raise TypeError(
                f"item {index} is no mapping but {type(one).__name__}: give each as a mapping with key and query, and "
                "a change with op, too"
            )
        yield one


def _as_text(value: object) -> str | None:
    """Returns a value as text that Parquet takes: half of a surrogate pair is shown as an escape."""
    return None if value is None else str(value).encode("utf-8", "backslashreplace").decode()


def _as_dict(position: SourcePosition) -> dict[str, Any]:
    return {
        "batch": position.batch,
        "version": position.version,
        "waiting": position.waiting,
        "doubled": position.doubled,
        "repairs": position.repairs,
    }


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows that were refused so that readers see all of them or nothing."""
    temporary = path.with_name(f".{path.name}.new")
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], REFUSED), temporary)
    sync(temporary)
    temporary.replace(path)
    sync(path.parent)
