"""The counts of a back-test in one task: deliveries by day and subscription, of one or two populations, without Spark.

The rows of a task are partial: those of several tasks with one day and key are added up by Spark.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from twigcast.spark.matching import BatchAnswer, BatchMatcher, MessageColumns, RowRejection

COUNTED: Final = ("before", "after", "gained", "lost", "changed", "undecided")
"""What is counted for each day and subscription. With one population, what it delivers is ``before``."""

SAMPLED: Final = ("before", "gained", "lost", "changed")
"""Of what there are samples: of ``before`` with one population, else of the others."""

PAYLOAD_CHARACTERS_MAX: Final = 1_000
"""Of the payload of a sample, its beginning is kept."""

_CELLS_MAX: Final = 50_000
_SAMPLE_CHARACTERS_MAX: Final = 16 << 20
"""What a task keeps before it hands on what it has."""

_SAMPLE: Final = pa.struct(
    [("change", pa.string()), ("message_id", pa.string()), ("before", pa.string()), ("after", pa.string())]
)
_REJECTION: Final = pa.struct(
    [("message_id", pa.string()), ("reason", pa.string()), ("line", pa.int64()), ("column", pa.int64())]
)
PARTS: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("day", pa.date32()),
        ("key", pa.string()),
        ("numbers", pa.list_(pa.int64())),
        ("samples", pa.list_(_SAMPLE)),
        ("rejected", _REJECTION),
    ]
)
"""The rows of a task: ``counts`` of a day and key, a message ``rejected``, and in the end the task's ``totals``."""

TOTALS: Final = ("messages", "rejected", "undated", "message_bytes", *COUNTED)
"""The numbers of a task."""

_Pairs = npt.NDArray[np.int64]
_EPOCH: Final = date(1970, 1, 1)


@dataclass
class _Cell:
    """The counts and samples of one day and subscription."""

    numbers: list[int] = field(default_factory=lambda: [0] * len(COUNTED))
    samples: list[dict[str, str | None]] = field(default_factory=list)


@dataclass(frozen=True)
class _Delivered:
    """What one population delivers of a batch. A pair is the row of a message times the number of keys, plus a key."""

    pairs: _Pairs
    """In ascending order."""

    payloads: pa.StringArray
    """By pair, null where the message itself is delivered."""

    undecided: _Pairs
    rejections: dict[int, RowRejection]


class DeliveryCounter:
    """A counter of what one population, or each of two, would deliver.

    Args:
        populations: A matcher of each.
        samples: How many samples to keep for each day, subscription and kind of change.
    """

    def __init__(self, populations: Sequence[BatchMatcher], samples: int) -> None:
        self._populations = populations
        self._samples = samples
        # A population that lives may have slots with a key that another slot has by now.
        keys = pc.unique(pa.chunked_array([population.keys for population in populations]))
        self._keys: list[str | None] = keys.to_pylist()
        self._codes = [
            pc.index_in(population.keys, keys).cast(pa.int64()).to_numpy(zero_copy_only=False)
            for population in populations
        ]
        self._code_of: dict[str | None, int] = {}
        self._cells: dict[tuple[int | None, int], _Cell] = {}
        self._characters = 0
        self._totals = dict.fromkeys(TOTALS, 0)

    def add(self, messages: pa.RecordBatch, columns: MessageColumns) -> Iterator[pa.RecordBatch]:
        """Counts the messages of a batch by the column ``day``, and yields what is too much to be kept."""
        rows = pa.array(range(messages.num_rows), pa.int64())
        numbered = messages.append_column("row", rows)
        delivered = [self._delivered(number, numbered, columns) for number in range(len(self._populations))]
        days = messages.column("day").cast(pa.int32()).to_pylist()
        self._count(delivered, days, messages.column(columns.message_id))
        self._totals["messages"] += messages.num_rows
        self._totals["message_bytes"] += pc.sum(pc.binary_length(messages.column(columns.xml))).as_py() or 0
        rejected = {row for one in delivered for row, reason in one.rejections.items() if not reason.undecided}
        self._totals["rejected"] += len(rejected)
        self._totals["undated"] += sum(day is None and row not in rejected for row, day in enumerate(days))
        yield from self._rejected(delivered, messages.column(columns.message_id))
        if len(self._cells) > _CELLS_MAX or self._characters > _SAMPLE_CHARACTERS_MAX:
            yield from self._counts()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yields the rest, and the totals of the task."""
        yield from self._counts()
        yield _rows([{"kind": "totals", "numbers": list(self._totals.values())}])

    def _delivered(self, number: int, messages: pa.RecordBatch, columns: MessageColumns) -> _Delivered:
        pairs, payloads, undecided = [np.array([], np.int64)], [pa.array([], pa.string())], []
        rejections: dict[int, RowRejection] = {}
        for answer in self._populations[number].answers(messages, columns, carry=True):
            rows = _carried_rows(answer)
            of_match = rows[answer.message_rows().to_numpy(zero_copy_only=False)]
            slots = answer.slots.to_numpy(zero_copy_only=False)
            pairs.append(of_match * len(self._keys) + self._codes[number][slots])
            payloads.append(answer.payload_column())
            for rejection in answer.rejections:
                row = int(rows[rejection.row])
                rejections[row] = rejection
                undecided += [row * len(self._keys) + self._code(key) for key in rejection.undecided]
        all_pairs = np.concatenate(pairs)
        order = np.argsort(all_pairs, kind="stable")
        taken = pa.concat_arrays(payloads).take(pa.array(order))
        return _Delivered(all_pairs[order], taken, np.unique(np.array(undecided, np.int64)), rejections)

    def _code(self, key: str) -> int:
        """Returns the number of a key; few are asked for."""
        if not self._code_of:
            self._code_of = {known: code for code, known in enumerate(self._keys)}
        return self._code_of[key]

    def _count(self, delivered: Sequence[_Delivered], days: Sequence[int | None], ids: pa.StringArray) -> None:
        first, last = delivered[0], delivered[-1]
        undecided = np.union1d(first.undecided, last.undecided)
        self._tally("before", first.pairs, days)
        self._tally("undecided", undecided, days)
        if len(delivered) == 1:
            self._sample("before", first.pairs, delivered, days, ids)
            return
        self._tally("after", last.pairs, days)
        in_both = np.intersect1d(first.pairs, last.pairs, assume_unique=True)
        old = first.payloads.take(pa.array(np.searchsorted(first.pairs, in_both)))
        new = last.payloads.take(pa.array(np.searchsorted(last.pairs, in_both)))
        differs = pc.or_(pc.xor(pc.is_null(old), pc.is_null(new)), pc.fill_null(pc.not_equal(old, new), False))
        changes = {
            "gained": np.setdiff1d(last.pairs, first.pairs, assume_unique=True),
            "lost": np.setdiff1d(first.pairs, last.pairs, assume_unique=True),
            "changed": in_both[differs.to_numpy(zero_copy_only=False)],
        }
        for change, pairs in changes.items():
            # Of what one of the two could not decide, nothing is said.
            certain = np.setdiff1d(pairs, undecided, assume_unique=True)
            self._tally(change, certain, days)
            self._sample(change, certain, delivered, days, ids)

    def _tally(self, name: str, pairs: _Pairs, days: Sequence[int | None]) -> None:
        self._totals[name] += len(pairs)
        position = COUNTED.index(name)
        for day, key, rows in self._groups(pairs, days):
            self._cells.setdefault((day, key), _Cell()).numbers[position] += len(rows)

    def _groups(
        self, pairs: _Pairs, days: Sequence[int | None]
    ) -> Iterator[tuple[int | None, int, npt.NDArray[np.intp]]]:
        """Yields each day and key among some pairs, with the positions of those pairs."""
        if not len(pairs):
            return
        numbers = {day: number for number, day in enumerate(dict.fromkeys(days))}
        by_row = np.array([numbers[day] for day in days], np.int64)
        rows, keys = np.divmod(pairs, len(self._keys))
        groups = by_row[rows] * len(self._keys) + keys
        order = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        for positions in np.split(order, starts[1:]):
            one = positions[0]
            yield days[int(rows[one])], int(keys[one]), positions

    def _sample(
        self,
        change: str,
        pairs: _Pairs,
        delivered: Sequence[_Delivered],
        days: Sequence[int | None],
        ids: pa.StringArray,
    ) -> None:
        for day, key, positions in self._groups(pairs, days):
            samples = self._cells[day, key].samples
            missing = self._samples - sum(sample["change"] == change for sample in samples)
            for pair in pairs[positions[: max(0, missing)]]:
                texts = [_payload(one, pair) for one in delivered]
                sample = {"change": change, "message_id": str(ids[int(pair // len(self._keys))].as_py())}
                samples.append({**sample, "before": texts[0], "after": texts[1] if len(texts) > 1 else None})
                self._characters += sum(len(text or "") for text in texts)

    def _rejected(self, delivered: Sequence[_Delivered], ids: pa.StringArray) -> Iterator[pa.RecordBatch]:
        """Yields the messages that were rejected, or on which subscriptions are undecided."""
        rejections = {row: one for answers in reversed(delivered) for row, one in answers.rejections.items()}
        if rejections:
            yield _rows(
                [
                    {
                        "kind": "rejected",
                        "rejected": {
                            "message_id": str(ids[row].as_py()),
                            "reason": rejection.reason,
                            "line": rejection.line,
                            "column": rejection.column,
                        },
                    }
                    for row, rejection in sorted(rejections.items())
                ]
            )

    def _counts(self) -> Iterator[pa.RecordBatch]:
        """Yields what has been counted, and forgets it."""
        cells, self._cells, self._characters = self._cells, {}, 0
        if cells:
            yield _rows(
                [
                    {
                        "kind": "counts",
                        "day": None if day is None else _EPOCH + timedelta(days=day),
                        "key": self._keys[key],
                        "numbers": cell.numbers,
                        "samples": cell.samples,
                    }
                    for (day, key), cell in cells.items()
                ]
            )


def _rows(rows: Sequence[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), PARTS)


def _carried_rows(answer: BatchAnswer) -> _Pairs:
    """Returns the row in the batch of each message of an answer."""
    assert answer.messages.carried is not None
    rows: _Pairs = answer.messages.carried.column("row").to_numpy()
    return rows


def _payload(delivered: _Delivered, pair: np.int64) -> str | None:
    """Returns the beginning of the payload of a pair, or ``None`` if there is none."""
    position = int(np.searchsorted(delivered.pairs, pair))
    if position == len(delivered.pairs) or delivered.pairs[position] != pair:
        return None
    text = delivered.payloads[position].as_py()
    return None if text is None else text[:PAYLOAD_CHARACTERS_MAX]
