"""What every broker knows of the sources, and who may publish as one.

A source has a key, made when it is registered; the catalogue holds its SHA-256. Whoever publishes under the name of a
registered source has to show the key, at the broker that is its root.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from twigcast.broker.errors import Conflict, Forbidden
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import SourceEntry

_TOLD_AGAIN_SECONDS: Final = 60.0
"""Refusals of one source are told once in this time; all are counted."""
_TOLD_MAX: Final = 1_000


def source_name(scope: str, name: str) -> str:
    """The name of a tenant's source in the catalogue."""
    return f"{len(scope)} {scope} {name}"


def scope_and_name(text: str) -> tuple[str, str]:
    """The tenant and the name that a name in the catalogue is made of; a name that is not is nobody's."""
    length, _, rest = text.partition(" ")
    if not length.isdecimal() or rest[int(length) : int(length) + 1] != " ":
        return "", text
    return rest[: int(length)], rest[int(length) + 1 :]


def new_key() -> str:
    """A key for a new source."""
    return f"sk_{secrets.token_urlsafe(24)}"


def owner_of(key: str | None) -> str:
    """What the catalogue holds of a key."""
    return hashlib.sha256(key.encode()).hexdigest() if key else ""


class Catalogue:
    """The sources that are known here; read from any thread.

    Args:
        here: Number of this broker.
        name_of: The name of a broker, and where its clients reach it.
        trouble: Told, by kind, what a person should know.
    """

    def __init__(
        self, here: Address, name_of: Callable[[Address], str], trouble: Callable[[str, str, str], None]
    ) -> None:
        self.refused: Counter[str] = Counter()
        self._here = here
        self._name_of = name_of
        self._trouble = trouble
        self._sources: dict[str, SourceEntry] = {}
        self._refused_at: dict[tuple[str, str], float] = {}

    def learn(self, source: SourceEntry) -> None:
        """A source is new, or something about it is."""
        self._sources[source.name] = source

    def sources(self, scope: str) -> dict[str, SourceEntry]:
        """Those of a tenant, by their names, without those that are gone."""
        results = {}
        for text, source in sorted(self._sources.items()):
            of, name = scope_and_name(text)
            if of == scope and not source.is_gone:
                results[name] = source
        return results

    def all(self) -> list[tuple[str, str, SourceEntry]]:
        """Those of all tenants, with tenant and name, without those that are gone."""
        results = [(*scope_and_name(text), source) for text, source in self._sources.items() if not source.is_gone]
        return sorted(results, key=lambda one: one[:2])

    def source(self, scope: str, name: str) -> SourceEntry | None:
        """One of them; ``None``: it is not registered."""
        result = self._sources.get(source_name(scope, name))
        return None if result is None or result.is_gone else result

    @property
    def count(self) -> int:
        """Sources that publish."""
        return sum(not source.is_gone for source in self._sources.values())

    def check(self, scope: str, names: Collection[str], key: str | None, peer: str) -> None:
        """See whether somebody may publish here as these sources.

        Args:
            scope: The tenant.
            names: Of the sources.
            key: The key that was shown.
            peer: Who it is, for the log.

        Raises:
            Forbidden: The key is not that of the source.
            Conflict: The source publishes at another broker.
        """
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
        if reported is None or now - reported >= _TOLD_AGAIN_SECONDS:
            if len(self._refused_at) >= _TOLD_MAX:
                self._refused_at.clear()
            self._refused_at[scope, name] = now
            self._trouble("source", peer, reason)
