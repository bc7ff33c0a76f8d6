"""Traces: publish, commit and hand-over of messages, as OpenTelemetry spans. Off unless an endpoint is set.

A hand-over may come long after its message was published, in a stream that was opened long before. So it is a trace of
its own, with a link to the publication, which is remembered for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from twigcast.broker.errors import BrokerError
from twigcast.broker.model import Accepted, PublishOutcome, QueuedDelivery, Submission

_REMEMBERED_MAX: Final = 10_000


class Tracing:
    """A maker of spans, which makes none until it is started."""

    def __init__(self) -> None:
        self._tracer: Any = None
        self._provider: Any = None
        self._publications: dict[int, Any] = {}

    @property
    def is_on(self) -> bool:
        """Returns whether spans are made."""
        return self._tracer is not None

    def start(self, exporter: Any) -> None:
        """Starts making spans, for an exporter of the OpenTelemetry SDK."""
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        self._provider = TracerProvider(resource=Resource.create({"service.name": "twigcast"}))
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("twigcast.broker")

    def start_otlp(self, endpoint: str) -> None:
        """Starts sending spans to an OTLP/HTTP endpoint."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        self.start(OTLPSpanExporter(endpoint))

    def flush(self) -> None:
        """Sends all finished spans."""
        if self._provider is not None:
            self._provider.force_flush()

    def stop(self) -> None:
        """Sends the remaining spans, and makes no more."""
        provider, self._provider, self._tracer = self._provider, None, None
        self._publications.clear()
        if provider is not None:
            provider.shutdown()

    @contextmanager
    def publishing(self, submissions: Sequence[Submission]) -> Iterator[Callable[[Sequence[PublishOutcome]], None]]:
        """Opens the span ``publish`` around a publication, with ``commit`` in it, while spans are made.

        The function that it returns records the outcomes of the publication.
        """
        attributes = {"messaging.system": "twigcast", "messaging.batch.message_count": len(submissions)}
        with (
            self._tracer.start_as_current_span("publish", attributes=attributes) as span,
            self._tracer.start_as_current_span("commit") as commit,
        ):
            try:
                yield partial(self._published, span)
            except BrokerError as error:
                commit.set_attribute("error.type", error.code)
                raise

    def _published(self, span: Any, outcomes: Sequence[PublishOutcome]) -> None:
        """Records outcomes in the span of their publication, and remembers the span."""
        accepted = [outcome for outcome in outcomes if isinstance(outcome, Accepted)]
        span.set_attribute("twigcast.accepted", len(accepted))
        span.set_attribute("twigcast.rejected", len(outcomes) - len(accepted))
        span.set_attribute("twigcast.matches", sum(outcome.matches for outcome in accepted))
        self._publications.update((outcome.seq, span.get_span_context()) for outcome in accepted)
        while len(self._publications) > _REMEMBERED_MAX:
            del self._publications[next(iter(self._publications))]

    def handed_over(self, deliveries: Sequence[QueuedDelivery], how: str) -> None:
        """Makes the span ``hand-over`` of deliveries that were just passed to their subscriber."""
        if self._tracer is None:
            return
        from opentelemetry.trace import Link

        contexts = {delivery.message.seq: self._publications.get(delivery.message.seq) for delivery in deliveries}
        links = [Link(context) for context in contexts.values() if context is not None]
        attributes = {"twigcast.how": how, "messaging.batch.message_count": len(deliveries)}
        self._tracer.start_span("hand-over", links=links, attributes=attributes).end()


tracing: Final = Tracing()
"""The instance of this process, as the OpenTelemetry SDK does."""
