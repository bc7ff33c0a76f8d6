"""The metrics of the overlay for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from twigcast.broker.metrics import metric_families
from twigcast.broker.overlay.reports import OverlayReport
from twigcast.broker.overlay.service import Overlay
from twigcast.overlay.onyx.network.reports import LinkReport

_OF_LINKS: Final[tuple[tuple[str, str, Callable[[LinkReport], float]], ...]] = (
    ("round_trip_seconds", "Round trip to a neighbour.", lambda link: link.round_trip or 0.0),
    ("queue_bytes", "Bytes that wait for a neighbour.", lambda link: link.queue_bytes),
    ("queue_frames", "Frames that wait for a neighbour.", lambda link: link.queue_frames),
)
_COUNTED_OF_LINKS: Final[tuple[tuple[str, str, Callable[[LinkReport], float]], ...]] = (
    ("sent_bytes", "Bytes sent to a neighbour over the current link.", lambda link: link.sent_bytes),
    ("received_bytes", "Bytes received from a neighbour over it.", lambda link: link.received_bytes),
    ("sent_frames", "Frames sent to a neighbour over it.", lambda link: link.sent_frames),
    ("received_frames", "Frames received from a neighbour over it.", lambda link: link.received_frames),
    ("sent_in_other_forms", "Messages sent over it in another form than text.", lambda link: link.forms_sent),
    ("received_in_other_forms", "Messages that came over it in another form.", lambda link: link.forms_received),
    ("dictionaries_taught", "Dictionaries that a neighbour was taught over it.", lambda link: link.forms_taught),
)


class OverlayCollector:
    """A collector of the metrics of an overlay."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics with their current values."""
        report = self._overlay.report_now()
        yield from _counters(report)
        yield from _gauges(report)
        yield from _links(report)

    def describe(self) -> Iterator[Metric]:
        """Yields nothing, since the overlay is not running while this is registered."""
        return iter(())


def _counters(report: OverlayReport) -> Iterator[Metric]:
    received, tallies = report.received, report.tallies
    counters = (
        ("published", "Messages published here, that others may want.", tallies.published),
        ("stored", "Messages of other brokers that a subscription here matched.", received.stored),
        ("unwanted", "Messages of other brokers that no subscription here matched.", received.unwanted),
        ("known", "Messages of other brokers that were stored already.", received.already_stored),
        ("reduced", "Times that only a part of a message was passed on.", report.status.counts.get("reduced", 0)),
        ("refused", "Messages of other brokers that are kept as rejected.", received.refused),
        ("transcoded", "Messages that were brought into another form for a neighbour.", report.transcoded),
        ("damaged", "Messages that could not be brought into another form.", report.damaged),
        ("left_as_text", "Messages within the limits as text, but not in another form.", report.left_as_text),
        ("late", "Messages of other brokers that came after later ones of their publisher.", received.overtaken),
        ("unstorable", "Messages of other brokers that could not be stored.", received.lost),
        ("asked_again", "Messages published here that others asked for again.", tallies.recovered),
        ("recoveries", "Times that others asked for messages again.", tallies.recoveries),
        ("forgotten", "Times that others asked for messages that retention had removed.", tallies.lost),
    )
    yield from metric_families(CounterMetricFamily, "twigcast_overlay_messages_", counters)
    refused = CounterMetricFamily(
        "twigcast_overlay_sources_refused",
        "Messages under the name of a source that is somebody else's.",
        labels=["tenant"],
    )
    for tenant, count in sorted(report.sources_refused.items()):
        refused.add_metric([tenant], count)
    yield refused
    troubles = CounterMetricFamily("twigcast_overlay_troubles", "Refusals and broken links, by kind.", labels=["kind"])
    for kind, count in sorted(report.trouble_counts.items()):
        troubles.add_metric([kind], count)
    yield troubles


def _gauges(report: OverlayReport) -> Iterator[Metric]:
    status = report.status
    gauges = (
        ("brokers", "Brokers that are known to be part of the overlay, this one included.", len(status.peers)),
        ("links", "Links to neighbours.", len(report.links)),
        ("not_reached", "Brokers that are to be reached and are not.", len(report.dials)),
        ("sources", "Sources in the catalogue.", report.sources),
        ("waiting_messages", "Messages of other brokers that wait for the store.", report.waiting_messages),
        ("waiting_bytes", "Their bytes.", report.waiting_bytes),
        ("wishes_waiting", "Subscriptions whose routing queries are still to be made.", report.interests_waiting),
        (
            "wishes_generalised",
            "Subscriptions for which more is asked for than they want: their routing queries would be too large.",
            report.interests_generalised,
        ),
        ("missing", "Numbers of messages that are asked for again.", sum(status.gaps.values())),
    )
    yield from metric_families(GaugeMetricFamily, "twigcast_overlay_", gauges)


def _links(report: OverlayReport) -> Iterator[Metric]:
    for name, text, value in _OF_LINKS:
        gauge = GaugeMetricFamily(f"twigcast_overlay_link_{name}", text, labels=["peer"])
        for link in report.links:
            gauge.add_metric([link.name], value(link))
        yield gauge
    forms = GaugeMetricFamily(
        "twigcast_overlay_link_form", "Form of messages on a link: always 1.", labels=["peer", "direction", "form"]
    )
    for link in report.links:
        forms.add_metric([link.name, "sent", link.sends], 1)
        forms.add_metric([link.name, "received", link.receives], 1)
    yield forms
    table = GaugeMetricFamily("twigcast_overlay_link_table", "Disjuncts that a neighbour wants here.", labels=["peer"])
    for link in report.links:
        table.add_metric([link.name], report.status.tables.get(link.identity, 0))
    yield table
    for name, text, value in _COUNTED_OF_LINKS:
        counter = CounterMetricFamily(f"twigcast_overlay_link_{name}", text, labels=["peer"])
        for link in report.links:
            counter.add_metric([link.name], value(link))
        yield counter
