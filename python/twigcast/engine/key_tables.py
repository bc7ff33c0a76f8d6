"""Keys by slot, and keys by query, as they were at some version of the engine."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from twigcast import _core
from twigcast.engine.external import Answers, match_count

if TYPE_CHECKING:
    import pyarrow as pa


class KeyTable:
    """The keys by slot at one version of the engine's keys. Slots in no use have an empty one.

    Args:
        version: The version; -1 for a table that belongs to one answer.
        offsets: Where each key begins in the text, and where the last one ends: 32-bit integers.
        text: All keys, one after the other, as UTF-8.
    """

    __slots__ = ("_arrow", "_keys", "_offsets", "_room", "_text", "count", "text_bytes", "version")

    def __init__(self, version: int, offsets: bytes | memoryview, text: bytes | memoryview) -> None:
        self.version = version
        self._offsets = memoryview(offsets).cast("i")
        self._text = memoryview(text)
        self.count = len(self._offsets) - 1
        """How many slots there are."""
        self.text_bytes = len(self._text)
        """How long the text is."""
        self._keys: list[str | None] | None = None
        """As text of Python's, those that somebody asked for; a table that has grown has the same list."""
        self._arrow: pa.StringArray | None = None
        self._room: _KeyBuffer | None = None

    @classmethod
    def of(cls, engine: _core.Engine, existing: KeyTable | None = None) -> KeyTable:
        """The keys as they are now. ``existing``: a table that may be right already, but for what came since."""
        version, first, offsets, text = engine.key_table() if existing is None else engine.key_table(existing.at_hand)
        return cls(version, offsets, text) if existing is None or first == 0 else existing.grown(offsets, text)

    @property
    def at_hand(self) -> tuple[int, int, int]:
        """The table as the engine asks for it."""
        return self.version, self.count, self.text_bytes

    def grown(self, offsets: bytes, text: bytes) -> KeyTable:
        """The table with further keys behind. What it had is not copied, as long as there is room."""
        with _growing:
            remaining = self._room
            if remaining is None or not remaining.fits_behind(self, offsets, text):
                remaining = _KeyBuffer(self, len(offsets) + len(text))
            grown = remaining.put(self, offsets, text)
            grown._room = remaining
            return grown

    def keys_of(self, slots: Sequence[int]) -> list[str]:
        """The keys of slots in use."""
        if self._keys is None:
            self._keys = [None] * self.count
        keys = self._keys
        results = [keys[slot] for slot in slots]
        if None in results:
            for slot in slots:
                if keys[slot] is None:
                    keys[slot] = str(self._text[self._offsets[slot] : self._offsets[slot + 1]], "utf-8")
            results = [keys[slot] for slot in slots]
        return results  # type: ignore[return-value]

    def arrow(self) -> pa.StringArray:
        """The keys as an Arrow array, made once."""
        if self._arrow is None:
            import pyarrow as pa

            buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._text)]
            self._arrow = pa.Array.from_buffers(pa.string(), self.count, buffers)
        return self._arrow


_growing: Final = threading.Lock()


class _KeyBuffer:
    """Memory for a table of keys and what will come behind it. What is in use is never written again."""

    __slots__ = ("_keys", "_offsets", "_text", "count", "text_bytes")

    def __init__(self, table: KeyTable, more: int) -> None:
        self._keys: list[str | None] = [None] * table.count if table._keys is None else table._keys[: table.count]
        self._offsets = memoryview(bytearray(4 * (table.count + 1) * 9 // 8 + more + 4096))
        self._text = memoryview(bytearray(table.text_bytes * 9 // 8 + more + 4096))
        self._offsets[: 4 * (table.count + 1)] = table._offsets.cast("B")
        self._text[: table.text_bytes] = table._text
        self.count = table.count
        """How many keys are in use."""
        self.text_bytes = table.text_bytes

    def fits_behind(self, table: KeyTable, offsets: bytes, text: bytes) -> bool:
        """Whether there is room for further keys, and none were put behind the table yet: they might be others."""
        ends = 4 * table.count + len(offsets), table.text_bytes + len(text)
        return table.count == self.count and ends[0] <= len(self._offsets) and ends[1] <= len(self._text)

    def put(self, table: KeyTable, offsets: bytes, text: bytes) -> KeyTable:
        """Put keys behind a table."""
        start, end = 4 * table.count, 4 * table.count + len(offsets)
        # The first of them is where the last key of the table ends, which is there already.
        self._offsets[start + 4 : end] = offsets[4:]
        self.text_bytes += len(text)
        self._text[table.text_bytes : self.text_bytes] = text
        self.count = end // 4 - 1
        self._keys.extend([None] * (self.count - table.count))
        grown = KeyTable(table.version, self._offsets[:end].toreadonly(), self._text[: self.text_bytes].toreadonly())
        grown._keys = self._keys
        return grown


NO_KEYS: Final = KeyTable(-1, bytes(4), b"")
"""The table of no version at all."""


class GroupTable:
    """The keys by query at one version of the engine: those whose subscriptions have the same query are a group.

    Args:
        version: The version; -1 for a table that belongs to one answer.
        ends: Where each group begins among the keys, and where the last one ends: 32-bit integers.
        offsets: Where each key begins in the text, and where the last one ends: 32-bit integers.
        text: All keys, one after the other, as UTF-8.
    """

    __slots__ = ("_arrow", "_ends", "_offsets", "_text", "version")

    def __init__(self, version: int, ends: bytes, offsets: bytes, text: bytes) -> None:
        self.version = version
        self._ends = ends
        self._offsets = offsets
        self._text = text
        self._arrow: pa.ListArray | None = None

    def arrow(self) -> pa.ListArray:
        """The groups as an Arrow array of lists of strings, made once."""
        if self._arrow is None:
            import pyarrow as pa

            buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._text)]
            keys = pa.Array.from_buffers(pa.string(), len(self._offsets) // 4 - 1, buffers)
            ends = [None, pa.py_buffer(self._ends)]
            self._arrow = pa.Array.from_buffers(pa.list_(pa.string()), len(self._ends) // 4 - 1, ends, children=[keys])
        return self._arrow


NO_GROUPS: Final = GroupTable(-1, bytes(4), bytes(4), b"")
"""The table of no version at all."""


_TABLE_FREE: Final = 1_000
"""A table of so many keys costs nothing to speak of."""


class _KeyCounter:
    """How many keys were named without a table at some version."""

    __slots__ = ("_at",)

    def __init__(self) -> None:
        self._at = -1, 0

    def at(self, version: int) -> int:
        """How many at a version, if it is that of the last."""
        at, keys = self._at  # read once: other threads may put another in its place
        return keys if at == version else 0

    def note(self, version: int, keys: int) -> None:
        """So many more at a version."""
        self._at = version, self.at(version) + keys


class KeyTableCache:
    """The newest tables that were made of an engine.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._keys = NO_KEYS
        self._groups = NO_GROUPS
        self._named = _KeyCounter()
        """By version of the keys."""
        self._grouped = _KeyCounter()
        """In groups, by version."""

    def keys(self) -> KeyTable:
        """The keys by slot at the newest version that a table was made of; keys that came since may be missing.

        Where a slot was given to another key the table is useless, and a new one costs as much as naming some matches
        by themselves. So it is made once it has paid: when matches have been named since as often as the table would
        have keys.
        """
        table = self._keys
        version, count = self._engine.keys_at
        return self._now() if table.version != version and self._pays(version, count) else table

    def of_answer(self, table: KeyTable, answer: Answers) -> KeyTable:
        """The keys that the slots of an answer stand for, if ``table`` was known when it was asked for."""
        if answer.more_keys is not None:
            return self._grown(table, answer.more_keys)
        if answer.keys is None:
            return table
        self._note_named(match_count(answer))
        return KeyTable(-1, *answer.keys)

    def now(self) -> KeyTable:
        """As :meth:`keys`, with those that came since where the table is right."""
        version, count = self._engine.keys_at
        table = self._keys
        if table.version == version:
            return self._now() if table.count < count else table
        return self._now() if self._pays(version, count) else table

    def _pays(self, version: int, count: int) -> bool:
        """Whether it pays by now to make a table of a version."""
        return self._named.at(version) + _TABLE_FREE >= count

    def named(self, table: KeyTable, results: _core.Results, slots: Sequence[int]) -> list[str]:
        """Keys of the deliveries of results: of their slots, ascending.

        ``table`` is of before the results were asked for: later ones have no keys of subscriptions that went since.
        """
        existing = bisect_left(slots, table.count) if table.version == results.keys_version else 0
        if existing == len(slots):
            return table.keys_of(slots)
        keys = [*table.keys_of(slots[:existing]), *results.keys(existing)]
        self._note_named(len(keys) - existing)
        return keys

    def _grown(self, table: KeyTable, more: tuple[bytes, bytes]) -> KeyTable:
        """A table with what an answer has brought that was missing in it."""
        table = table.grown(*more)
        existing = self._keys
        if existing.version == table.version and existing.count < table.count:
            self._keys = table
        return table

    def groups(self) -> GroupTable:
        """The keys by query, as :meth:`keys` has them by slot."""
        table = self._groups
        version = self._engine.version
        if table.version != version and self._grouped.at(version) + _TABLE_FREE >= len(self._engine):
            table = self._groups = GroupTable(*self._engine.group_table())
        return table

    def _note_named(self, keys: int) -> None:
        """So many keys were named without a table."""
        version, _ = self._engine.keys_at
        self._named.note(version, keys)

    def note_grouped(self, keys: int) -> None:
        """So many keys were named in groups without a table."""
        self._grouped.note(self._engine.version, keys)

    def _now(self) -> KeyTable:
        """The keys by slot, as of some version between the call and the return."""
        table = self._keys
        if self._engine.keys_at != (table.version, table.count):
            table = self._keys = KeyTable.of(self._engine, table)
        return table


class ToldByEngine:
    """Who gets which result of a message, in the order of the slots, told when somebody looks.

    Args:
        tables: What is known of the engine.
        table: The keys by slot, of before the results were asked for.
        results: The results.
    """

    __slots__ = ("_deliveries", "_results", "_table", "_tables")

    def __init__(self, tables: KeyTableCache, table: KeyTable, results: _core.Results) -> None:
        self._tables = tables
        self._table = table
        self._results = results
        self._deliveries: tuple[bytes, bytes] | None = None

    def _all(self) -> tuple[bytes, bytes]:
        """Slots and numbers."""
        if self._deliveries is None:
            self._deliveries = self._results.deliveries(in_order=True)
        return self._deliveries

    def keys(self) -> list[str]:
        """The keys of the matching subscriptions."""
        return self._tables.named(self._table, self._results, memoryview(self._all()[0]).cast("i").tolist())

    def numbers(self) -> memoryview:
        """For each the index of its result, -1 for the message: 32-bit integers."""
        return memoryview(self._all()[1]).cast("i")
