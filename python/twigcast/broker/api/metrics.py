"""The counters of the broker as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from twigcast.broker.metrics import Histogram, Metrics

_COUNTERS: Final = {
    "messages_accepted": ("accepted", "Messages stored."),
    "messages_duplicate": ("duplicates", "Messages that had been stored before."),
    "messages_rejected": ("rejected", "Messages kept as rejected."),
    "messages_refused": ("refused", "Messages turned away because too many were waiting."),
    "messages_expired": ("expired", "Messages removed by age or size."),
    "deliveries": ("deliveries", "Deliveries stored."),
    "deliveries_replayed": ("replayed", "Deliveries stored by replay."),
    "deliveries_pulled": ("leased", "Deliveries handed out by pull."),
    "deliveries_streamed": ("streamed", "Deliveries handed to streams."),
    "deliveries_returned": ("released", "Deliveries given back."),
    "deliveries_acknowledged": ("acknowledged", "Deliveries acknowledged one by one."),
    "acknowledgement_marks": ("marks", "Acknowledgements of all deliveries up to a message."),
    "evaluations_failed": ("undecided", "Subscriptions that failed on a message."),
    "subscriptions_suspended": ("suspended", "Subscriptions suspended."),
    "streams_fallen_behind": ("fallen_behind", "How often a stream had to go back to the store."),
    "commits": ("commits", "Commits of the store."),
    "commits_failed": ("commit_failures", "Commits that failed."),
}
_GAUGES: Final = {
    "subscriptions": ("subscriptions", "Subscriptions."),
    "messages_queued": ("queued_messages", "Messages that wait to be stored."),
    "messages_queued_bytes": ("queued_bytes", "Bytes of the messages that wait to be stored."),
    "listeners": ("listeners", "Readers of lanes that are live."),
    "listeners_behind": ("listeners_behind", "Those that are being fed from the store."),
    "replays": ("replays", "Replays under way."),
}
_HISTOGRAMS: Final = {
    "commit_messages": ("group_messages", "Messages in a commit that had any."),
    "commit_seconds": ("group_seconds", "From taking a group of changes to the end of its commit."),
    "hand_over_seconds": ("hand_over_seconds", "From the arrival of a message to the hand-over of its deliveries."),
}
_PREFIX: Final = "twigcast_"


class BrokerCollector:
    """A collector that reads the counters of the hub.

    Args:
        metrics: The counters.
        streams: Returns the number of open streams.
    """

    def __init__(self, metrics: Metrics, streams: Callable[[], int]) -> None:
        self._metrics = metrics
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics as they are now."""
        for name, (attribute, text) in _COUNTERS.items():
            yield CounterMetricFamily(_PREFIX + name, text, value=getattr(self._metrics, attribute))
        for name, (attribute, text) in _GAUGES.items():
            yield GaugeMetricFamily(_PREFIX + name, text, value=getattr(self._metrics, attribute))
        yield GaugeMetricFamily(f"{_PREFIX}streams", "Streams that are open.", value=self._streams())
        for name, (attribute, text) in _HISTOGRAMS.items():
            yield _histogram(_PREFIX + name, text, getattr(self._metrics, attribute))


def _histogram(name: str, text: str, result: Histogram) -> HistogramMetricFamily:
    buckets: list[tuple[str, float]] = []
    total = 0
    for bound, count in zip([*map(str, result.bounds), "+Inf"], list(result.counts), strict=True):
        total += count
        buckets.append((bound, float(total)))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=result.total)


def fill(registry: CollectorRegistry, metrics: Metrics, streams: Callable[[], int]) -> None:
    """Adds the metrics of a broker, and of its process, to a registry."""
    registry.register(BrokerCollector(metrics, streams))
    ProcessCollector(registry=registry)
