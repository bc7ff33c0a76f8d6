"""The journal of a simulation: every message sent, lost, doubled, blocked or delivered, and every item delivered.

The checkers judge a run by its journal alone (the manner of maelstrom), so that what they find can be shown. It is also
the proof of determinism: the digest over all entries is the same for the same seed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TextIO

from twigcast.overlay.core import Address


class Fate:
    """The fate of a message, or another kind of event."""

    SENT = "sent"
    LOST = "lost"
    BLOCKED = "blocked"
    DOUBLED = "doubled"
    RECEIVED = "received"
    #: The receiver was not alive.
    DROPPED = "dropped"
    #: An item reached the application at `receiver`.
    DELIVERED = "delivered"
    #: A step of the trace: join, leave, crash, partition, ...
    DONE = "done"


class Entry(NamedTuple):
    """One line of the journal."""

    time: float
    fate: str
    sender: Address
    receiver: Address
    item: Any


class Journal:
    """Keeps entries, or only their digest, or nothing.

    Args:
        keep: Keep the entries in memory.
        digest: Fold every entry into a digest; costs about as much as the rest of the simulation.
    """

    __slots__ = ("_hash", "active", "entries", "keep")

    def __init__(self, *, keep: bool = True, digest: bool = False) -> None:
        self.keep = keep
        self._hash = hashlib.blake2b(digest_size=16) if digest else None
        self.active = keep or digest
        self.entries: list[Entry] = []

    def record(self, time: float, fate: str, sender: Address, receiver: Address, item: Any) -> None:
        """Writes one entry."""
        if self.keep:
            self.entries.append(Entry(time, fate, sender, receiver, item))
        if self._hash is not None:
            self._fold(self._hash, Entry(time, fate, sender, receiver, item))

    def digest(self) -> str:
        """Returns the hexadecimal digest of all entries so far.

        If it was not kept up, it is computed from kept entries.
        """
        if self._hash is not None:
            return self._hash.hexdigest()
        whole = hashlib.blake2b(digest_size=16)
        for entry in self.entries:
            self._fold(whole, entry)
        return whole.hexdigest()

    @staticmethod
    def _fold(whole: hashlib.blake2b, entry: Entry) -> None:
        whole.update(f"{tuple(entry[:4])} {text_of(entry.item)}".encode("utf-8", "surrogatepass"))

    def delivered(self) -> Iterator[Entry]:
        """Yields the items that reached applications, in order of time."""
        return (entry for entry in self.entries if entry.fate == Fate.DELIVERED)

    def write(self, file: TextIO) -> None:
        """Writes the kept entries as JSON lines: time, fate, sender, receiver, kind, item as text."""
        for line in as_lines(self.entries):
            file.write(line + "\n")


def text_of(item: Any) -> str:
    """Returns an item as text, which is the same in every process: the members of sets are in order."""
    text = repr(item)
    if "{" not in text:
        return text
    if isinstance(item, (frozenset, set)):
        return "{" + ", ".join(sorted(map(text_of, item))) + "}"
    if isinstance(item, tuple):
        return f"{type(item).__name__}({', '.join(map(text_of, item))})"
    if isinstance(item, Mapping):
        return "{" + ", ".join(sorted(f"{text_of(key)}: {text_of(value)}" for key, value in item.items())) + "}"
    return text


def as_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yields entries as JSON lines."""
    for entry in entries:
        yield json.dumps(
            {
                "time": round(entry.time, 6),
                "fate": entry.fate,
                "sender": entry.sender,
                "receiver": entry.receiver,
                "kind": type(entry.item).__name__,
                "item": text_of(entry.item),
            }
        )
