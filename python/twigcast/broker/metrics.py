"""Counters of the hub: plain numbers that exporters may read at any time.

Each number is changed by one thread only, so that no update is lost without a lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
SIZES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 10_000.0)


@dataclass(slots=True)
class Histogram:
    """A histogram of values: upper bounds of its classes, ascending; a last class holds larger values."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    """Number of values in each class; not cumulative."""
    total: float = 0.0
    """Sum of the values."""

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        """Counts a value."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self.counts)


@dataclass(slots=True)
class TenantCounts:
    """The counters of one tenant since the start."""

    accepted: int = 0
    """Messages stored."""
    rejected: int = 0
    """Messages stored as rejected."""
    deliveries: int = 0
    """Deliveries stored."""


@dataclass(slots=True)
class Metrics:
    """The counters since the start, and gauges."""

    tenants: dict[int, TenantCounts] = field(default_factory=dict)
    """Counters of each tenant that published something."""

    accepted: int = 0
    """Messages stored."""
    duplicates: int = 0
    """Messages that had been stored before."""
    ids_reused: int = 0
    """Messages refused since another one was published under their id."""
    rejected: int = 0
    """Messages stored as rejected."""
    invalid: int = 0
    """Messages stored although the DTD or schema of their source does not allow them."""
    rows_added: int = 0
    """Rows of look-up tables that messages were enriched with."""
    rows_missed: int = 0
    """Values of messages for which a look-up table had no row."""
    refused: int = 0
    """Messages refused because too many were waiting."""
    deliveries: int = 0
    """Deliveries stored."""
    leases_ended: int = 0
    """Leases of workers that ended without an acknowledgement."""
    attempts_used_up: int = 0
    """Deliveries that became dead letters after the last attempt of workers."""
    undecided: int = 0
    """Subscriptions undecided on a message."""
    throttled: int = 0
    """Subscriptions that are set aside, since they were too expensive on several messages. A gauge."""
    unread_numbers: int = 0
    """Values with exponents that comparisons read as no number, as XPath 1.0 does. A gauge."""
    suspended: int = 0
    """Subscriptions suspended by the hub."""
    resumed: int = 0
    """Subscriptions that were suspended since too much waited, and resumed by themselves."""
    dropped: int = 0
    """Deliveries dropped since too much waited."""
    overdue_dropped: int = 0
    """Deliveries dropped since they were too late."""
    overdue: int = 0
    """Deliveries handed out or sent although they were too late."""
    overflow_dead_letters: int = 0
    """Deliveries that became dead letters since too much waited."""
    overflow_refused: int = 0
    """Messages refused since too much waited for a subscriber."""
    repeated_content: int = 0
    """Messages that the profile of their source knows to be repeated."""
    overtaken: int = 0
    """Messages that later ones had updated or cancelled before they came."""
    withdrawn: int = 0
    """Deliveries that a later message called off while they waited."""
    expired_withdrawn: int = 0
    """Deliveries that were withdrawn while they waited, as their message has expired."""
    window_late: int = 0
    """Messages that came too late to count for a window, each for each subscription."""
    window_documents: int = 0
    """Digests and notes of absence that were written."""
    chains_forgotten: int = 0
    """Matters of which nothing is known any more, as they are old."""
    replayed: int = 0
    """Deliveries stored by replay."""
    expired: int = 0
    """Messages removed by age or size."""
    vacuums: int = 0
    """Times that unused space was returned to the system."""
    clock_step: float = 0.0
    """Seconds by which the clock differs from what retention expects; a gauge."""
    retention_held: int = 0
    """Whether nothing expires by age until the clock is confirmed: 0 or 1, a gauge."""
    commits: int = 0
    commit_failures: int = 0

    acknowledged: int = 0
    """Deliveries acknowledged one by one."""
    marks: int = 0
    """Acknowledgements of a queue up to a message."""
    released: int = 0
    """Deliveries released."""
    leased: int = 0
    """Deliveries handed out by pull."""
    streamed: int = 0
    """Deliveries passed to readers of queues."""
    fallen_behind: int = 0
    """Times that a reader had to go back to the store."""

    group_messages: Histogram = field(default_factory=lambda: Histogram(SIZES))
    """Messages in a commit that had any."""
    group_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    """Time from taking a commit group to the end of its commit."""
    hand_over_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    """Time from the submission of a message to the hand-over of its deliveries to the readers."""

    queued_messages: int = 0
    """Gauge: messages that wait for the writing thread."""
    queued_bytes: int = 0
    """Gauge: bytes of these messages."""
    subscriptions: int = 0
    """Gauge: all subscriptions, also those that are not active."""
    listeners: int = 0
    """Gauge: readers of queues."""
    listeners_behind: int = 0
    """Gauge: readers that read from the store."""
    replays: int = 0
    """Gauge: running replays."""

    def of_tenant(self, tenant_id: int) -> TenantCounts:
        """Returns the counters of a tenant."""
        return self.tenants.setdefault(tenant_id, TenantCounts())

    def add_tenants(self, counted: Metrics) -> None:
        """Adds the counters of a commit for each tenant."""
        for tenant_id, counts in counted.tenants.items():
            mine = self.of_tenant(tenant_id)
            mine.accepted += counts.accepted
            mine.rejected += counts.rejected
            mine.deliveries += counts.deliveries


def metric_families(
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily], prefix: str, rows: Iterable[tuple[str, str, float]]
) -> Iterator[Metric]:
    """Yields a metric without labels for each row of name, text and present value."""
    for name, text, value in rows:
        yield kind(prefix + name, text, value=value)
