"""``/health``, ``/ready`` and ``/metrics``: for those who run the broker."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import orjson
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from starlette.requests import Request
from starlette.responses import Response

from twigcast.broker.api.context import Shared, sender_of
from twigcast.broker.api.openapi import SECURITY, problem_responses
from twigcast.broker.broker import Broker
from twigcast.broker.door import Door
from twigcast.broker.errors import BrokerError
from twigcast.broker.metrics import Histogram, Metrics, metric_families
from twigcast.broker.outbound import OutboundServices
from twigcast.broker.queues.lag import TenantLag

router = APIRouter(tags=["operation"])

_STORE_SECONDS: Final = 2.0


@router.get("/health")
async def health(shared: Shared) -> dict[str, str]:
    """Reports a living process, and of a pair of brokers whether it is the active one."""
    return {"status": "ok", "role": "active"} if shared.settings.standby else {"status": "ok"}


@router.get("/ready", response_model=dict[str, str], responses={503: {"model": dict[str, str]}})
async def ready(shared: Shared) -> Response:
    """Reports whether the broker accepts work: its store answers, and not too much is waiting."""
    reason = shared.broker.readiness()
    try:
        async with asyncio.timeout(_STORE_SECONDS):
            await asyncio.to_thread(shared.broker.store.last_seq)
    except BrokerError as error:
        reason = str(error)
    except TimeoutError:
        reason = f"the store did not answer in {_STORE_SECONDS:.0f} s"
    result: dict[str, Any] = {"status": "ready"} if reason is None else {"status": "not ready", "reason": reason}
    return Response(orjson.dumps(result), 200 if reason is None else 503, media_type="application/json")


@router.get(
    "/metrics",
    response_class=Response,
    responses=problem_responses(401, 403) | {200: {"content": {"text/plain": {}}}},
    openapi_extra={"security": SECURITY},
)
async def metrics(request: Request, shared: Shared) -> Response:
    """Returns all metrics in the format of Prometheus, to operators."""
    if not shared.settings.metrics_public:
        (await sender_of(request)).require_operator()
    text = await asyncio.to_thread(generate_latest, shared.registry)
    return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})


_COUNTERS: Final = {
    "messages_accepted": ("accepted", "Messages stored."),
    "messages_duplicate": ("duplicates", "Messages that had been stored before."),
    "messages_id_reused": ("ids_reused", "Messages refused since their id was used for another body."),
    "messages_rejected": ("rejected", "Messages stored as rejected."),
    "messages_invalid": ("invalid", "Messages stored although the DTD or schema of their source does not allow them."),
    "lookup_rows_added": ("rows_added", "Rows of look-up tables that messages were enriched with."),
    "lookup_rows_missed": ("rows_missed", "Values of messages for which a look-up table had no row."),
    "messages_refused": ("refused", "Messages refused because too many were waiting."),
    "messages_expired": ("expired", "Messages removed by age or size."),
    "deliveries": ("deliveries", "Deliveries stored."),
    "deliveries_replayed": ("replayed", "Deliveries stored by replay."),
    "deliveries_pulled": ("leased", "Deliveries handed out by pull."),
    "deliveries_streamed": ("streamed", "Deliveries passed to streams."),
    "deliveries_returned": ("released", "Deliveries released."),
    "deliveries_acknowledged": ("acknowledged", "Deliveries acknowledged one by one."),
    "acknowledgement_marks": ("marks", "Acknowledgements of all deliveries up to a message."),
    "leases_ended": ("leases_ended", "Leases of workers that ended without an acknowledgement."),
    "deliveries_attempts_used_up": (
        "attempts_used_up",
        "Deliveries that became dead letters after the last attempt of workers.",
    ),
    "evaluations_failed": ("undecided", "Subscriptions undecided on a message."),
    "subscriptions_suspended": ("suspended", "Subscriptions suspended."),
    "subscriptions_resumed": ("resumed", "Subscriptions resumed after too much had waited for their subscriber."),
    "deliveries_dropped": ("dropped", "Deliveries dropped since too much waited for their subscriber."),
    "deliveries_overdue": ("overdue", "Deliveries handed out or sent although they were too late."),
    "deliveries_overdue_dropped": ("overdue_dropped", "Deliveries dropped since they were too late."),
    "deliveries_overflown": (
        "overflow_dead_letters",
        "Deliveries that became dead letters since too much waited for their subscriber.",
    ),
    "messages_refused_full": ("overflow_refused", "Messages refused since too much waited for a subscriber."),
    "window_messages_late": ("window_late", "Messages that came too late to count for the window of a subscription."),
    "window_documents": ("window_documents", "Digests and notes of absence that the broker has written."),
    "messages_repeated": ("repeated_content", "Messages that the profile of their source knows to be repeated."),
    "messages_overtaken": ("overtaken", "Messages that later ones had updated or cancelled before they came."),
    "deliveries_withdrawn": ("withdrawn", "Deliveries that a later message called off while they waited."),
    "deliveries_expired": (
        "expired_withdrawn",
        "Deliveries withdrawn while they waited, as their message has expired.",
    ),
    "chains_forgotten": ("chains_forgotten", "Matters of which nothing is known any more, as they are old."),
    "streams_fallen_behind": ("fallen_behind", "Times that a stream had to go back to the store."),
    "commits": ("commits", "Commits of the store."),
    "vacuums": ("vacuums", "Times that unused space of the store was returned to the system."),
    "commits_failed": ("commit_failures", "Commits that failed."),
}
_GAUGES: Final = {
    "subscriptions": ("subscriptions", "Subscriptions."),
    "subscriptions_throttled": (
        "throttled",
        "Subscriptions set aside for some messages, since they were too expensive.",
    ),
    "numbers_unread": (
        "unread_numbers",
        "Times that a comparison read a value with an exponent as no number, as XPath 1.0 does.",
    ),
    "messages_queued": ("queued_messages", "Messages that wait to be stored."),
    "messages_queued_bytes": ("queued_bytes", "Bytes of the messages that wait to be stored."),
    "listeners": ("listeners", "Readers of live queues."),
    "listeners_behind": ("listeners_behind", "Readers that read from the store."),
    "replays": ("replays", "Running replays."),
    "clock_step_seconds": ("clock_step", "Seconds by which the clock has jumped since it was last confirmed."),
    "retention_held": ("retention_held", "1 if nothing expires by age until the clock is confirmed, which see."),
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
        counters = ((name, text, getattr(self._metrics, field)) for name, (field, text) in _COUNTERS.items())
        gauges = ((name, text, getattr(self._metrics, field)) for name, (field, text) in _GAUGES.items())
        yield from metric_families(CounterMetricFamily, _PREFIX, counters)
        yield from metric_families(GaugeMetricFamily, _PREFIX, gauges)
        yield from metric_families(GaugeMetricFamily, _PREFIX, [("streams", "Open streams.", self._streams())])
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
        counters = (
            ("push_attempts", "Attempts to send deliveries.", pushes.attempts),
            ("push_failures", "Those that failed.", pushes.failed),
            ("deliveries_pushed", "Deliveries that channels delivered.", pushes.delivered),
            ("deliveries_buried", "Deliveries given up as dead letters.", pushes.dead_lettered),
            ("push_suspensions", "Subscriptions suspended because their receiver is gone.", pushes.suspended),
            ("polls", "Polls of sources.", polls.polls),
            ("poll_failures", "Those that failed.", polls.failed),
            ("messages_polled", "Messages published by polls.", polls.published),
            ("poll_updates", "Those that are updates of entries.", polls.updated),
            ("poll_entries_skipped", "Entries that polls did not publish, since they are known.", polls.skipped),
            ("poll_entries_refused", "Entries and documents that polls could not publish.", polls.refused),
        )
        busy, away = self._outbound.pusher.busy_queues, len(self._outbound.pusher.open_hosts())
        failing, attempts = self._outbound.pusher.failing()
        gauges = (
            ("push_lanes_busy", "Pushed subscriptions with pending deliveries.", busy),
            ("push_lanes_failing", "Pushed subscriptions that wait for another attempt.", failing),
            ("push_attempts_failed_max", "Failed attempts at one delivery that is tried again, the most.", attempts),
            ("push_hosts_left_alone", "Hosts to which nothing is sent for now, since they failed.", away),
        )
        yield from metric_families(CounterMetricFamily, _PREFIX, counters)
        yield from metric_families(GaugeMetricFamily, _PREFIX, gauges)


class DoorCollector:
    """A collector that reads the counters of the door."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics as they are now."""
        door = self._door
        gauges = (
            (
                "connections",
                "Open connections of clients, without WebSockets.",
                len(door.open_connections()),
            ),
            ("connections_limit", "Connections that there may be.", door.limits.connections_max),
            ("connections_in_reserve", "Connections in which only operators are served.", len(door.reserve)),
        )
        yield from metric_families(GaugeMetricFamily, _PREFIX, gauges)
        counters = (("connections_refused", "Connections refused since there were too many.", door.refused),)
        yield from metric_families(CounterMetricFamily, _PREFIX, counters)
        text = "Connections ended since a part was not sent, or a response not read, in time."
        ended = CounterMetricFamily(_PREFIX + "connections_timed_out", text, labels=["part"])
        for reason, count in door.ended.items():
            ended.add_metric([reason.value], count)
        yield ended


_TENANTS_MAX: Final = 200
"""Tenants with series of their own; the others, which are less far behind, share one."""

_OTHERS: Final = "(others)"
_ALL: Final = "(all)"


class LagCollector:
    """A collector of how far subscribers are behind: sums and maxima by tenant, however many subscribers there are.

    Where everybody may read the metrics, no tenant is named: all of them share one series.
    """

    def __init__(self, broker: Broker, *, names_tenants: bool) -> None:
        self._broker = broker
        self._named_max = _TENANTS_MAX if names_tenants else 0

    def collect(self) -> Iterator[Metric]:
        """Yields all metrics as they were after the last round of the tracker."""
        broker, now = self._broker, time.time()
        rows = list(self._rows())
        families = (
            ("consumers_behind", "Subscribers with pending deliveries.", lambda lag: lag.behind),
            ("consumer_pending", "Pending deliveries of all subscribers.", lambda lag: lag.pending),
            ("consumer_pending_max", "Pending deliveries of the subscriber with most.", lambda lag: lag.pending_max),
            ("consumer_oldest_seconds_max", "Age of the oldest pending message.", lambda lag: _age(lag, now)),
        )
        for name, text, value in families:
            family = GaugeMetricFamily(_PREFIX + name, text, labels=["tenant"])
            for tenant, lag in rows:
                family.add_metric([tenant], value(lag))
            yield family
        gauges = (
            ("consumers_connected", "Subscribers with an open stream or a waiting pull.", broker.connected()),
            ("deliveries_in_flight", "Deliveries that are leased, or released with a delay.", broker.in_flight()),
            (
                "delivery_attempts_max",
                "Attempts of workers at one delivery that is not done, the most.",
                broker.most_attempts(),
            ),
            (
                "consumer_lag_age_seconds",
                "Seconds by which these metrics may be behind.",
                broker.lag.age(),
            ),
        )
        yield from metric_families(GaugeMetricFamily, _PREFIX, gauges)

    def _rows(self) -> Iterator[tuple[str, TenantLag]]:
        """Yields the tenants with their lag: all that there are, or those furthest behind and the rest together."""
        lags, tenants = self._broker.lag.tenants, self._broker.tenants
        by_age = sorted(tenants, key=lambda number: lags.get(number, _NO_LAG).oldest_received or math.inf)
        for number in by_age[: self._named_max]:
            yield tenants[number].name, lags.get(number, _NO_LAG)
        others = [lags[number] for number in by_age[self._named_max :] if number in lags]
        if others or not self._named_max:
            yield _OTHERS if self._named_max else _ALL, _together(others)


_NO_LAG: Final = TenantLag()


def _age(lag: TenantLag, now: float) -> float:
    return 0.0 if lag.oldest_received is None else max(0.0, now - lag.oldest_received)


def _together(lags: Sequence[TenantLag]) -> TenantLag:
    """Returns the lag of several tenants together."""
    return TenantLag(
        sum(lag.behind for lag in lags),
        sum(lag.pending for lag in lags),
        max((lag.pending_max for lag in lags), default=0),
        min((lag.oldest_received for lag in lags if lag.oldest_received is not None), default=None),
    )


def fill(registry: CollectorRegistry, metrics: Metrics, streams: Callable[[], int]) -> None:
    """Adds the metrics of a broker, and of its process, to a registry."""
    registry.register(BrokerCollector(metrics, streams))
    ProcessCollector(registry=registry)
