"""Keys by slot, and keys by query, as they were at some version of the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from twigcast import _core
from twigcast.answers import NO_GROUPS, NO_KEYS, GroupTable, KeyTable

_ATTEMPTS: Final = 3
"""How often an answer is asked for while other threads change the population, before they are held off."""

_TABLE_FREE: Final = 1_000
"""A table of so many keys costs nothing to speak of."""

T = TypeVar("T")


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
        changing: What whoever changes its population holds.
    """

    def __init__(self, engine: _core.Engine, changing: threading.RLock) -> None:
        self._engine = engine
        self._changing = changing
        self._keys = NO_KEYS
        self._groups = NO_GROUPS
        self._named = _NamedSince()
        """By version of the keys."""
        self._grouped = _NamedSince()
        """In groups, by version."""

    @property
    def last(self) -> KeyTable:
        """The keys by slot that were asked for last, whatever has changed since."""
        return self._keys

    def keys(self) -> KeyTable:
        """The keys by slot at the newest version that a table was made of; keys that came since may be missing.

        Where a slot was given to another key the table is useless, and a new one costs as much as naming some matches
        by themselves. So it is made once it has paid: when matches have been named since as often as the table would
        have keys.
        """
        table = self._keys
        version, count = self._engine.keys_at
        if table.version != version and self._named.at(version) + _TABLE_FREE >= count:
            return self.now()
        return table

    def grown(self, table: KeyTable, more: tuple[bytes, bytes]) -> KeyTable:
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

    def note_named(self, keys: int) -> None:
        """So many keys were named without a table."""
        version, _ = self._engine.keys_at
        self._named.note(version, keys)

    def note_grouped(self, keys: int) -> None:
        """So many keys were named in groups without a table."""
        self._grouped.note(self._engine.version, keys)

    def consistently(self, ask: Callable[[], T]) -> tuple[T, KeyTable]:
        """An answer in slots, with the keys that the slots had when it was given."""
        for _ in range(_ATTEMPTS):
            table = self.now()
            answer = ask()
            if self._engine.keys_at == (table.version, table.count):
                return answer, table
        with self._changing:
            return ask(), self.now()

    def now(self) -> KeyTable:
        """The keys by slot, as of some version between the call and the return."""
        table = self._keys
        if self._engine.keys_at != (table.version, table.count):
            table = self._keys = KeyTable.of(self._engine, table)
        return table
