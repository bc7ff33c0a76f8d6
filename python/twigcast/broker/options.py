"""Bounds and times of the hub and of the queues."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Final

from twigcast.broker.model import Tenant
from twigcast.limits import Limits

DIALECTS: Final[frozenset[str]] = frozenset({"xpath", "legacy", "xquery"})
"""Dialects of queries that the hub takes, the last one where Saxon is installed."""


SAXON: Final = "saxonche"
"""The module that evaluates queries in XQuery."""


def refused_dialect(dialect: str) -> str | None:
    """Why the hub takes no queries in a dialect; ``None``: it does."""
    if dialect not in DIALECTS:
        return f"{dialect!r} is no dialect of queries; there are 'xpath', 'legacy' and 'xquery'"
    if dialect == "xquery" and importlib.util.find_spec(SAXON) is None:
        return "the dialect 'xquery' needs Saxon, which this broker does not have: pip install 'twigcast[xquery]'"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HubOptions:
    """How much the hub takes on. The defaults suit one broker on a small machine."""

    limits: Limits = field(default_factory=Limits)
    """Of messages and queries."""

    subscriptions_max: int = 1_000_000
    """Subscriptions of one tenant, where its own limits do not say otherwise."""

    pending_max: int = 1_000_000
    """Deliveries that wait for one subscriber, where its tenant's limits do not say otherwise. Beyond it the
    subscriptions of the queue are suspended."""

    queue_messages_max: int = 20_000
    """Published messages that wait for the writing thread; more are refused for a moment."""

    queue_bytes_max: int = 128 << 20
    """Their bytes."""

    group_messages_max: int = 1_000
    """Published messages in one commit."""

    group_bytes_max: int = 16 << 20
    """Their bytes."""

    listener_deliveries_max: int = 1_000
    """Deliveries that wait in memory for one listener; with more it reads from the store."""

    listener_bytes_max: int = 1 << 20
    """Their bytes, counted for each listener although bodies are shared."""

    listeners_bytes_max: int = 128 << 20
    """The same for all listeners together."""

    read_deliveries_max: int = 500
    """Deliveries that a listener reads from the store at once."""

    read_bytes_max: int = 4 << 20
    """Bytes that are read from the store at once."""

    leases_max: int = 10_000
    """Deliveries of one queue that are leased at a time."""

    readers: int = 4
    """Threads that read from the store."""

    replays_max: int = 2
    """Replays that go on at the same time."""

    retention_seconds: float | None = None
    """How long messages are kept; ``None``: without end."""

    retention_bytes: int | None = None
    """Bytes of messages that are kept; ``None``: without bound."""

    xquery_seconds_max: float = 2.0
    """What Saxon may take to evaluate one query on one message."""

    upkeep_seconds: float = 10.0
    """Between two looks at what has expired."""

    def limit_of(self, tenant: Tenant | None, name: str) -> int:
        """A limit of a tenant: its own, or the broker's."""
        default: int = getattr(self, name)
        return default if tenant is None else tenant.limits.get(name, default)
