"""The chains of one group of messages in tables: found by name, expired and forgotten in time. Without Spark.

A batch job keeps the tables in memory, a stream in the state of Spark. They are written once for each micro-batch.
"""

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from twigcast.lifecycle.chains import Advance, Chain, ChainState, advance, expire, names_of
from twigcast.lifecycle.facts import MessageFacts
from twigcast.lifecycle.records import chain_record, read_chain
from twigcast.spark.lifecycle_settings import LifecycleSettings

K = TypeVar("K", str, int)
V = TypeVar("V")

NEXT: Final = "next"
"""The name under which the number of the next chain is kept."""

_DIGITS: Final = re.compile("[0-9]+")
_DIGITS_MAX: Final = 20


class KeyedTable(ABC, Generic[K, V]):
    """A table that outlives a micro-batch."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Returns a value, or ``None`` if there is none."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets a value."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes a value that is there."""


class MemoryTable(KeyedTable[K, V]):
    """A table in memory."""

    def __init__(self) -> None:
        self._values: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Returns a value."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Sets a value."""
        self._values[key] = value

    def remove(self, key: K) -> None:
        """Removes a value."""
        del self._values[key]


@dataclass(frozen=True, slots=True)
class ChainTables:
    """The tables of one group."""

    names: KeyedTable[str, int]
    """By identity, the number of its chain; under another kind of name, the number of the next one."""

    chains: KeyedTable[int, str]
    """By number, a chain as JSON."""

    due: KeyedTable[int, str]
    """By time in milliseconds, the numbers of chains that may have to be expired or forgotten then, as JSON."""

    @classmethod
    def in_memory(cls) -> "ChainTables":
        """Returns empty tables."""
        return cls(MemoryTable(), MemoryTable(), MemoryTable())


class _Written(Generic[K, V]):
    """What is read and written of a table meanwhile. Each value is read at most once and written at most once."""

    def __init__(self, table: KeyedTable[K, V]) -> None:
        self._table: KeyedTable[K, V] = table
        self._before: dict[K, V | None] = {}
        self._now: dict[K, V | None] = {}

    def get(self, key: K) -> V | None:
        if key not in self._now:
            self._before[key] = self._now[key] = self._table.get(key)
        return self._now[key]

    def set(self, key: K, value: V | None) -> None:
        """Sets a value; ``None`` removes it."""
        self.get(key)
        self._now[key] = value

    def flush(self) -> None:
        for key, value in self._now.items():
            if value == self._before[key]:
                continue
            if value is None:
                self._table.remove(key)
            else:
                self._table.put(key, value)
        self._before = dict(self._now)


@dataclass(frozen=True, slots=True)
class GroupExpiry:
    """A matter of a group that is over by the time."""

    message_id: str
    """Its latest message."""

    step: Advance[str]


class ChainGroup:
    """The chains of one group, for the time of one micro-batch.

    A chain waits for one moment at a time, which stands in its record: that at which it expires or may be forgotten, or
    an earlier one, at which it is put off.

    Args:
        tables: What is known of them.
        settings: What the user says of life cycles.
        is_there: Whether there still is a subscription of a key.
        register: Is told of times, in milliseconds, at which :meth:`wake` is to be called.
        earliest: The earliest time that may be registered.
    """

    def __init__(
        self,
        tables: ChainTables,
        settings: LifecycleSettings,
        is_there: Callable[[str], bool],
        register: Callable[[int], None],
        earliest: int,
    ) -> None:
        self._names: _Written[str, int] = _Written(tables.names)
        self._chains: _Written[int, str] = _Written(tables.chains)
        self._due: _Written[int, str] = _Written(tables.due)
        self._settings = settings
        self._is_there = is_there
        self._register = register
        self._earliest = earliest

    def enter(
        self,
        facts: MessageFacts,
        matching: Sequence[str],
        *,
        at: float,
        message_id: str,
        undecided: Collection[str] = (),
    ) -> Advance[str]:
        """Returns what follows from a message, and remembers it."""
        found = [self._names.get(_named(name)) for name in names_of(facts)]
        numbers = list(dict.fromkeys(number for number in found if number is not None))
        records = [self._record(number) for number in numbers]
        chains = [read_chain(record) for record in records]
        step: Advance[str] = advance(
            chains,
            facts,
            sorted(matching),
            at=at,
            handle=message_id,
            undecided=undecided,
            follows=self._follows,
            withdraw_expired=self._settings.withdraws,
        )
        if step.chain is not None:
            due = records[0]["due"] if records else None
            self._replace(dict(zip(numbers, chains, strict=True)), step.chain, due)
        return step

    def wake(self, due: int, now: float) -> list[GroupExpiry]:
        """Returns the matters that are over at a time that was registered, and forgets those that are old."""
        numbers = json.loads(self._due.get(due) or "[]")
        self._due.set(due, None)
        over = []
        for number in numbers:
            record = None if self._chains.get(number) is None else self._record(number)
            if record is None or record["due"] != due:
                continue  # it is part of another one by now, or waits for an earlier time
            chain = read_chain(record)
            step = expire(chain, at=now, follows=self._follows, withdraw=self._settings.withdraws)
            if step is not None and step.chain is not None:
                over.append(GroupExpiry(str(chain.members[-1].handle), step))
                self._write(number, step.chain, None)
            elif self._wake_time(chain) <= now:
                self._drop(number, chain)
            else:
                self._write(number, chain, None)
        return over

    def flush(self) -> None:
        """Writes the tables."""
        self._names.flush()
        self._chains.flush()
        self._due.flush()

    def _follows(self, key: str) -> bool:
        return self._settings.follows(key) and self._is_there(key)

    def _record(self, number: int) -> dict[str, Any]:
        record = self._chains.get(number)
        assert record is not None, "names lead to chains that are there"
        loaded: dict[str, Any] = json.loads(record)
        return loaded

    def _replace(self, old: Mapping[int, Chain[str]], chain: Chain[str], due: int | None) -> None:
        """Puts a chain in the place of others. It has the number of the first of them, and waits as that does."""
        number = next(iter(old), None)
        if number is None:
            number = self._names.get(NEXT) or 0
            self._names.set(NEXT, number + 1)
        for one, before in old.items():
            if one == number:
                self._forget_names(one, before, kept=frozenset(chain.names))
            else:
                self._drop(one, before)
        for name in chain.names:
            self._names.set(_named(name), number)
        self._write(number, chain, due)

    def _write(self, number: int, chain: Chain[str], due: int | None) -> None:
        """Writes a chain that waits for a time already, or for none."""
        needed = max(math.ceil(self._wake_time(chain) * 1000), self._earliest)
        if due is None or due > needed:
            due = needed
            waiting: list[int] = json.loads(self._due.get(due) or "[]")
            self._due.set(due, json.dumps([*waiting, number]))
            self._register(due)
        self._chains.set(number, json.dumps({**chain_record(chain), "due": due}, ensure_ascii=False))

    def _drop(self, number: int, chain: Chain[str]) -> None:
        self._forget_names(number, chain)
        self._chains.set(number, None)

    def _forget_names(self, number: int, chain: Chain[str], kept: Collection[str] = ()) -> None:
        for name in chain.names:
            if name not in kept and self._names.get(_named(name)) == number:
                self._names.set(_named(name), None)

    def _wake_time(self, chain: Chain[str]) -> float:
        """Returns when a chain is to be looked at: when it expires, or may be forgotten."""
        if chain.state is ChainState.IN_FORCE and chain.expires is not None:
            return chain.expires
        return chain.keep_from + self._settings.retention_seconds


def _named(name: str) -> str:
    """Returns the name of an identity in its table, where no identity is :data:`NEXT`."""
    return f"={name}"


def natural(text: str) -> str:
    """Returns a text that is ordered as another one, with the digits of that as numbers."""
    return _DIGITS.sub(lambda digits: digits[0].lstrip("0").rjust(_DIGITS_MAX, "0"), text)
