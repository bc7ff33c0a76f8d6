"""Keys by slot, and keys by query, as they were at some version of the engine."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from twigcast import _core
from twigcast.answers import NO_GROUPS, NO_KEYS, GroupTable, KeyTable
from twigcast.xquery.asking import Answers, match_count

_TABLE_FREE: Final = 1_000
"""A table of so many keys costs nothing to speak of."""


class _NamedSince:
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


class KnownTables:
    """The newest tables that were made of an engine.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._keys = NO_KEYS
        self._groups = NO_GROUPS
        self._named = _NamedSince()
        """By version of the keys."""
        self._grouped = _NamedSince()
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
        known = bisect_left(slots, table.count) if table.version == results.keys_version else 0
        if known == len(slots):
            return table.keys_of(slots)
        keys = [*table.keys_of(slots[:known]), *results.keys(known)]
        self._note_named(len(keys) - known)
        return keys

    def _grown(self, table: KeyTable, more: tuple[bytes, bytes]) -> KeyTable:
        """A table with what an answer has brought that was missing in it."""
        table = table.grown(*more)
        known = self._keys
        if known.version == table.version and known.count < table.count:
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

    def __init__(self, tables: KnownTables, table: KeyTable, results: _core.Results) -> None:
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
