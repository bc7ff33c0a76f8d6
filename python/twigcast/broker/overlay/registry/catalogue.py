"""The catalogue of sources at a broker, and the check of publishers.

A source gets a key when it is registered. The catalogue has its SHA-256. A publisher under the name of a registered
source has to show the key, at the broker that is its root.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from twigcast.broker.errors import Conflict, Forbidden
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import SourceEntry

_REPORT_SECONDS: Final = 60.0
"""Refusals of one source are reported once in this time; all are counted."""
_REPORTED_MAX: Final = 1_000


def source_name(scope: str, name: str) -> str:
    """Returns the name of a tenant's source in the catalogue."""
    return f"{len(scope)} {scope} {name}"


def scope_and_name(text: str) -> tuple[str, str]:
    """Returns tenant and source of a name in the catalogue. A name of another form has no tenant."""
    length, _, rest = text.partition(" ")
    if not length.isdecimal() or rest[int(length) : int(length) + 1] != " ":
        return "", text
    return rest[: int(length)], rest[int(length) + 1 :]


def new_key() -> str:
    """Returns a key for a new source."""
    return f"sk_{secrets.token_urlsafe(24)}"


def owner_of(key: str | None) -> str:
    """Returns the hash of a key, for the catalogue."""
    return hashlib.sha256(key.encode()).hexdigest() if key else ""


@dataclass(eq=False)
class Catalogue:
    """The catalogue of one broker; may be read in any thread.

    ``name_of`` returns the name of a broker and the URL for its clients. Faults are reported by kind, broker, reason.
    """

    _here: Address
    _name_of: Callable[[Address], str]
    _report_fault: Callable[[str, str, str], None]
    refused: Counter[str] = field(init=False, default_factory=Counter)
    _sources: dict[str, SourceEntry] = field(init=False, default_factory=dict)
    _refused_at: dict[tuple[str, str], float] = field(init=False, default_factory=dict)

    def learn(self, source: SourceEntry) -> None:
        """Adds or replaces an entry."""
        self._sources[source.name] = source

    def sources(self, scope: str) -> dict[str, SourceEntry]:
        """Returns the sources of a tenant by name, without removed ones."""
        results = {}
        for text, source in sorted(self._sources.items()):
            tenant, name = scope_and_name(text)
            if tenant == scope and not source.is_gone:
                results[name] = source
        return results

    def all(self) -> list[tuple[str, str, SourceEntry]]:
        """Returns tenant, name and entry of all sources, without removed ones."""
        results = [(*scope_and_name(text), source) for text, source in self._sources.items() if not source.is_gone]
        return sorted(results, key=lambda one: one[:2])

    def source(self, scope: str, name: str) -> SourceEntry | None:
        """Returns the entry of a source, or ``None`` if it is not registered."""
        result = self._sources.get(source_name(scope, name))
        return None if result is None or result.is_gone else result

    @property
    def count(self) -> int:
        """The number of registered sources."""
        return sum(not source.is_gone for source in self._sources.values())

    def check(self, scope: str, names: Collection[str], key: str | None, peer: str) -> None:
        """Raises Forbidden or Conflict unless a publisher with a key may use the names of sources at this broker."""
        if not self._sources:
            return
        for name in names:
            source = self.source(scope, name)
            if source is None:
                continue
            if source.owner and not hmac.compare_digest(owner_of(key).encode(), source.owner.encode()):
                shown = "another key" if key else "no key"
                self._refuse(scope, name, peer, f"{peer} publishes as the source {name!r}, and shows {shown} for it")
                raise Forbidden(
                    f"the source {name!r} is registered, and this is not its key: send it as 'Twigcast-Source-Key', or "
                    "publish under another name"
                )
            if source.root != self._here:
                root = self._name_of(source.root)
                raise Conflict(f"the source {name!r} publishes at the broker {root}, and nowhere else")

    def _refuse(self, scope: str, name: str, peer: str, reason: str) -> None:
        self.refused[scope] += 1
        now = time.monotonic()
        reported = self._refused_at.get((scope, name))
        if reported is None or now - reported >= _REPORT_SECONDS:
            if len(self._refused_at) >= _REPORTED_MAX:
                self._refused_at.clear()
            self._refused_at[scope, name] = now
            self._report_fault("source", peer, reason)
