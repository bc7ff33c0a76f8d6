"""Bounds and times of the hub and of the queues."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Final

from twigcast.broker.model import Tenant
from twigcast.limits import Limits

DIALECTS: Final[frozenset[str]] = frozenset({"xpath", "legacy", "doubles", "xquery"})
"""Dialects of queries that the hub accepts, the last one if Saxon is installed."""


SAXON: Final = "saxonche"
"""The module that evaluates queries in XQuery."""


def refused_dialect(dialect: str) -> str | None:
    """Returns why the hub accepts no queries in a dialect; ``None`` if it does."""
    if dialect not in DIALECTS:
        return f"{dialect!r} is no dialect of queries; there are 'xpath', 'legacy', 'doubles' and 'xquery'"
    if dialect == "xquery" and importlib.util.find_spec(SAXON) is None:
        return "the dialect 'xquery' needs Saxon, which this broker lacks: its operator can install twigcast[xquery]"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HubOptions:
    """The bounds and times of the hub. The defaults suit one broker on a small machine."""

    limits: Limits = field(default_factory=Limits)
    """Limits of messages and queries."""

    subscriptions_max: int = 1_000_000
    """Subscriptions of one tenant, unless its own limits say otherwise."""

    pending_max: int = 1_000_000
    """Deliveries that wait for one subscriber, unless its tenant's limits say otherwise.

    Beyond it each subscription of the queue has its policy: see :mod:`twigcast.broker.hub.overflow`.
    """

    queue_messages_max: int = 20_000
    """Published messages that wait to be stored; more are refused for a moment. Where there are several tenants, as
    many messages of one of them may wait as there is room left for others."""

    queue_bytes_max: int = 128 << 20
    """Bytes of these messages."""

    group_messages_max: int = 1_000
    """Published messages in one commit."""

    group_bytes_max: int = 16 << 20
    """Bytes of these messages with their deliveries."""

    evaluators: int = 2
    """Threads that evaluate published messages."""

    questioners: int = 2
    """Threads that evaluate for replays and for those who ask why a query matches."""

    evaluation_stop_seconds: float = 5.0
    """Time that a stop waits for messages to be evaluated."""

    listener_deliveries_max: int = 1_000
    """Deliveries that wait in memory for one reader; with more it reads from the store."""

    listener_bytes_max: int = 1 << 20
    """Bytes of these deliveries, counted for each reader although bodies are shared."""

    listeners_bytes_max: int = 128 << 20
    """The same for all readers together."""

    read_deliveries_max: int = 500
    """Deliveries that a reader fetches from the store at once."""

    read_bytes_max: int = 4 << 20
    """Bytes that are read from the store at once."""

    leases_max: int = 10_000
    """Deliveries of one queue that are leased at a time."""

    readers: int = 4
    """Threads that read from the store."""

    replays_max: int = 2
    """Replays of one tenant that go on at the same time."""

    retention_seconds: float | None = None
    """Age up to which messages are kept; ``None`` for no bound."""

    retention_bytes: int | None = None
    """Bytes of messages that are kept; ``None`` for no bound."""

    keep_pending: bool = False
    """Whether messages are kept for which a subscriber waits, whatever their age and size."""

    lifecycle_seconds: float = 30 * 86_400.0
    """Time after which a matter that does not change, and has ended, is forgotten: see :mod:`twigcast.lifecycle`."""

    xquery_seconds_max: float = 2.0
    """Time that Saxon may take to evaluate one query on one message."""

    upkeep_seconds: float = 10.0
    """Time between two runs of retention."""

    def limit_of(self, tenant: Tenant | None, name: str) -> int:
        """Returns a limit of a tenant: its own, or the broker's."""
        default: int = getattr(self, name)
        return default if tenant is None else tenant.limits.get(name, default)
