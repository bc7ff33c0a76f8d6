"""The counters of the broker as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from twigcast.broker.metrics import Histogram, Metrics
from twigcast.broker.outbound import OutboundServices

_COUNTERS: Final = {
    "messages_accepted": ("accepted", "Messages stored."),
    "messages_duplicate": ("duplicates", "Messages that had been stored before."),
    "messages_rejected": ("rejected", "Messages stored as rejected."),
    "messages_refused": ("refused", "Messages refused because too many were waiting."),
    "messages_expired": ("expired", "Messages removed by age or size."),
    "deliveries": ("deliveries", "Deliveries stored."),
    "deliveries_replayed": ("replayed", "Deliveries stored by replay."),
    "deliveries_pulled": ("leased", "Deliveries handed out by pull."),
    "deliveries_streamed": ("streamed", "Deliveries passed to streams."),
    "deliveries_returned": ("released", "Deliveries released."),
    "deliveries_acknowledged": ("acknowledged", "Deliveries acknowledged one by one."),
    "acknowledgement_marks": ("marks", "Acknowledgements of all deliveries up to a message."),
    "evaluations_failed": ("undecided", "Subscriptions undecided on a message."),
    "subscriptions_suspended": ("suspended", "Subscriptions suspended."),
    "streams_fallen_behind": ("fallen_behind", "Times that a stream had to go back to the store."),
    "commits": ("commits", "Commits of the store."),
    "commits_failed": ("commit_failures", "Commits that failed."),
}
_GAUGES: Final = {
    "subscriptions": ("subscriptions", "Subscriptions."),
    "messages_queued": ("queued_messages", "Messages that wait to be stored."),
    "messages_queued_bytes": ("queued_bytes", "Bytes of the messages that wait to be stored."),
    "listeners": ("listeners", "Readers of live queues."),
    "listeners_behind": ("listeners_behind", "Readers that read from the store."),
    "replays": ("replays", "Running replays."),
}
_HISTOGRAMS: Final = {
    "commit_messages": ("group_messages", "Messages in a commit that had any."),
    "commit_seconds": ("group_seconds", "Time from taking a group of changes to the end of its commit."),
    "hand_over_seconds": (
        "hand_over_seconds",
        "Time from the arrival of a message to the hand-over of its deliveries.",
    ),
}
_PREFIX: Final = "twigcast_"


class BrokerCollector:
    """A collector that reads the counters of the hub."""

    def __init__(self, metrics: Metrics, streams: Callable[[], int]) -> None:
        self._metrics = metrics
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics as they are now."""
        for name, (attribute, text) in _COUNTERS.items():
            yield CounterMetricFamily(_PREFIX + name, text, value=getattr(self._metrics, attribute))
        for name, (attribute, text) in _GAUGES.items():
            yield GaugeMetricFamily(_PREFIX + name, text, value=getattr(self._metrics, attribute))
        yield GaugeMetricFamily(f"{_PREFIX}streams", "Open streams.", value=self._streams())
        for name, (attribute, text) in _HISTOGRAMS.items():
            yield _histogram(_PREFIX + name, text, getattr(self._metrics, attribute))


def _histogram(name: str, text: str, result: Histogram) -> HistogramMetricFamily:
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip([*map(str, result.bounds), "+Inf"], list(result.counts), strict=True):
        total += count
        buckets.append((bound, float(total)))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=result.total)


class OutboundCollector:
    """A collector that reads the counters of the outbound services."""

    def __init__(self, outbound: OutboundServices) -> None:
        self._outbound = outbound

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics as they are now."""
        pushes, polls = self._outbound.pusher.counts, self._outbound.poller.counts
        for name, text, value in (
            ("push_attempts", "Attempts to send deliveries.", pushes.attempts),
            ("push_failures", "Those that failed.", pushes.failed),
            ("deliveries_pushed", "Deliveries that channels delivered.", pushes.delivered),
            ("deliveries_buried", "Deliveries given up as dead letters.", pushes.dead_lettered),
            ("push_suspensions", "Subscriptions suspended because their receiver is gone.", pushes.suspended),
            ("polls", "Polls of sources.", polls.polls),
            ("poll_failures", "Those that failed.", polls.failed),
            ("messages_polled", "Messages published by polls.", polls.published),
        ):
            yield CounterMetricFamily(f"twigcast_{name}", text, value=value)
        busy = self._outbound.pusher.busy_queues
        yield GaugeMetricFamily("twigcast_push_lanes_busy", "Pushed subscriptions with pending deliveries.", value=busy)
        away = len(self._outbound.pusher.open_hosts())
        yield GaugeMetricFamily(
            "twigcast_push_hosts_left_alone", "Hosts to which nothing is sent for now, since they failed.", value=away
        )


def fill(registry: CollectorRegistry, metrics: Metrics, streams: Callable[[], int]) -> None:
    """Adds the metrics of a broker, and of its process, to a registry."""
    registry.register(BrokerCollector(metrics, streams))
    ProcessCollector(registry=registry)
