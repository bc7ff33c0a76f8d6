"""The counters of pushing and polling as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from twigcast.broker.outbound import OutboundServices


class OutboundCollector:
    """A collector that reads the counters of the outbound services.

    Args:
        outward: The outbound services.
    """

    def __init__(self, outward: OutboundServices) -> None:
        self._outward = outward

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics as they are now."""
        pushes, polls = self._outward.pusher.counts, self._outward.poller.counts
        for name, text, value in (
            ("push_attempts", "Requests that carried deliveries.", pushes.attempts),
            ("push_failures", "Those that failed.", pushes.failed),
            ("deliveries_pushed", "Deliveries that arrived by webhook or WebSub.", pushes.delivered),
            ("deliveries_buried", "Deliveries given up as dead letters.", pushes.dead_lettered),
            ("push_suspensions", "Subscriptions suspended because their server did not want them.", pushes.suspended),
            ("polls", "Polls of sources.", polls.polls),
            ("poll_failures", "Those that failed.", polls.failed),
            ("messages_polled", "Messages that polls brought.", polls.published),
        ):
            yield CounterMetricFamily(f"twigcast_{name}", text, value=value)
        busy = self._outward.pusher.busy_queues
        yield GaugeMetricFamily("twigcast_push_lanes_busy", "Pushed subscriptions with something pending.", value=busy)
        away = len(self._outward.pusher.open_hosts())
        yield GaugeMetricFamily("twigcast_push_hosts_left_alone", "Hosts left alone since they failed.", value=away)
