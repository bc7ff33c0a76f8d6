"""The memory of entries that were published, and the ids of entries that share one in their feed.

More ids are remembered than the feed shows now, so that an entry that vanishes and returns is not published again. With
each stands of what version the entry was: an entry that changes can be published as an update.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from twigcast.broker.model import UpdateMode
from twigcast.broker.sources.entries import FeedEntry
from twigcast.reading.dates import is_newer

_SEEN_BEYOND: Final = 1_000
"""Number of ids that are remembered beyond those that the feed shows."""

_REPEATED_MAX: Final = 1_000
_DATE_CHARACTERS_MAX: Final = 64


class EntryVersion(NamedTuple):
    """The version of an entry that was published, or of a document that an entry links to."""

    variant: str = ""
    """As :attr:`FeedEntry.variant`; of a document, the digest of the entry that links to it."""
    content: str = ""
    """As :attr:`FeedEntry.content`; of a document, its digest."""
    updates: int = 0
    """Number of updates that were published."""
    updated: str = ""
    """As :attr:`FeedEntry.updated`."""

    @classmethod
    def of(cls, entry: FeedEntry, updates: int = 0) -> EntryVersion:
        """Returns the version of an entry as the feed shows it."""
        return cls(entry.variant, entry.content, updates, entry.updated[:_DATE_CHARACTERS_MAX])

    def is_update(self, other: EntryVersion, mode: UpdateMode) -> bool:
        """Returns whether another version is published as an update of this one."""
        if mode == "ignore" or not self.content:
            return False
        if mode == "updated" and (self.updated or other.updated):
            return is_newer(other.updated, self.updated) if other.updated else False
        return self.content != other.content


class EntryMemory:
    """The ids that were published, each with a version."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._before = dict(map(_read, state.get("seen") or ()))
        self._now: dict[str, EntryVersion] = {}
        self._repeated: dict[str, None] = dict.fromkeys(state.get("repeated") or ())
        self.is_complete = False
        """Whether everything that the feed shows now has been published."""

    def version(self, entry_id: str) -> EntryVersion | None:
        """Returns the version that was published of an entry that the feed shows; ``None`` if it is new."""
        mark = mark_of(entry_id)
        if mark not in self._now and mark in self._before:
            self._now[mark] = self._before[mark]
        return self._now.get(mark)

    def record(self, entry_id: str, version: EntryVersion) -> None:
        """Records a published id."""
        self._now[mark_of(entry_id)] = version

    def is_repeated(self, entry_id: str) -> bool:
        """Returns whether a feed has used an id for several entries."""
        return mark_of(entry_id) in self._repeated

    def add_repeated(self, entry_id: str) -> None:
        """Adds an id that a feed uses for several entries."""
        mark = mark_of(entry_id)
        self._repeated.pop(mark, None)
        self._repeated[mark] = None

    def save(self, state: dict[str, Any]) -> None:
        """Puts into a state all that the feed shows, and some of what it showed before."""
        gone = [_written(*item) for item in self._before.items() if item[0] not in self._now]
        now = [_written(*item) for item in self._now.items()]
        state["seen"] = (gone[-_SEEN_BEYOND:] if self.is_complete else gone) + now
        if self._repeated:
            state["repeated"] = list(self._repeated)[-_REPEATED_MAX:]


def mark_of(text: str) -> str:
    """Returns the digest that stands for an id in the state of a source."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _read(text: str) -> tuple[str, EntryVersion]:
    mark, *rest = text.split(" ", 4)
    if len(rest) != 4 or not rest[2].isdigit():
        return mark, EntryVersion()
    return mark, EntryVersion(rest[0], rest[1], int(rest[2]), rest[3])


def _written(mark: str, version: EntryVersion) -> str:
    # Older versions of the broker wrote marks alone, and read no more than they wrote.
    return f"{mark} {version.variant} {version.content} {version.updates} {version.updated}"


def identified(entries: Sequence[FeedEntry], memory: EntryMemory) -> tuple[list[tuple[str, FeedEntry]], int]:
    """Returns the entries of a feed with the ids of their messages, and how many are copies of others.

    If a feed uses one id for several entries, their ids get a digest of the rest of the entry. One entry keeps the
    plain id: the one that was published under it, or else the last one, which is the oldest.
    """
    groups: dict[str, list[FeedEntry]] = {}
    distinct: set[tuple[str, str, str]] = set()
    for entry in entries:
        shown = (entry.id, entry.content, entry.variant)
        if shown not in distinct:
            distinct.add(shown)
            groups.setdefault(entry.id, []).append(entry)
    names: dict[int, str] = {}
    for name, group in groups.items():
        if len(group) > 1:
            memory.add_repeated(name)
        elif not memory.is_repeated(name):
            names[id(group[0])] = name
            continue
        plain = _holder(group, memory.version(name))
        variants = Counter(entry.variant for entry in group)
        for entry in group:
            suffix = entry.variant if variants[entry.variant] == 1 else entry.content
            names[id(entry)] = name if entry is plain else f"{name}~{suffix}"
    results = [(names[id(entry)], entry) for entry in entries if id(entry) in names]
    return results, len(entries) - len(results)


def _holder(group: Sequence[FeedEntry], version: EntryVersion | None) -> FeedEntry | None:
    """Returns which of the entries of one id has it alone."""
    if version is None or not version.variant:
        return group[-1]
    same = [entry for entry in group if entry.variant == version.variant]
    return next((entry for entry in same if entry.content == version.content), same[0] if same else None)


def update_id(entry_id: str, version: EntryVersion) -> str:
    """Returns the id of the message that is an update: that of the entry, the number of the update, and a digest."""
    return f"{entry_id}~{version.updates}~{version.content[:8]}"
